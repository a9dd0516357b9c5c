#include "worker/codegen/skeleton/contract/apart.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "worker/codegen/knob/knob.h"

namespace warpsmith::codegen {
namespace {

using graph::DType;
using graph::Op;

// Runs of K, and neighbouring rows, that may have a scale together.
constexpr int kLeastRun = 32, kMostRun = 4096;
constexpr int kLeastBeside = 8, kMostBeside = 256;

// Types of 16 bits, as a set.
constexpr unsigned kInF16 = 1, kInBf16 = 2, kInBoth = kInF16 | kInBf16;
unsigned SetOf(DType type) {
  return type == DType::kF16 ? kInF16 : type == DType::kBF16 ? kInBf16 : 0;
}
// Integers up to these are numbers of the type, all of them.
constexpr double kIntegersOfBf16 = 256, kIntegersOfF16 = 2048;

// ---- which types of 16 bits have all that a value may be

struct Interval {
  double low, high;
};

// Says of values which types of 16 bits hold them without loss.
class Exactness {
 public:
  Exactness(const graph::Graph& graph, const Values& values) : graph_(graph), values_(values) {}

  unsigned Of(ValuePtr value) const {
    unsigned set = SetOf(value->type);
    if (const auto range = Integers(value)) {
      const double most = std::max(std::fabs(range->low), std::fabs(range->high));
      if (most <= kIntegersOfF16) set |= kInF16;
      if (most <= kIntegersOfBf16) set |= kInBf16;
    }
    if (value->kind == Value::Kind::kLoad) return set | OfTensor(value->tensor);
    if (value->kind != Value::Kind::kOp) return set;
    const auto of = [&](size_t i) { return Of(value->args[i]); };
    switch (value->op) {
      case Op::kE4m3:
        return kInBoth;
      case Op::kCast:
        return graph::IsFloat(value->args[0]->type) ? set | of(0) : set;
      case Op::kNeg:
      case Op::kAbs:
        return set | of(0);
      case Op::kMin:
      case Op::kMax:
        return set | (of(0) & of(1));
      case Op::kSelect:
        return set | (of(1) & of(2));
      default:
        return set;
    }
  }

 private:
  // What is known of a tensor in memory by the map that wrote it.
  unsigned OfTensor(int tensor) const {
    const int node = graph_.tensors[tensor].node;
    if (node < 0 || !graph_.nodes[node].map()) return 0;
    graph::ExprPtr e = graph_.nodes[node].value;
    while (e->op == Op::kCast) e = e->args[0];
    if (e->op == Op::kLoad) return SetOf(e->type) | OfTensor(e->tensor);
    return e->op == Op::kE4m3 ? kInBoth : 0;
  }

  // The interval of a value that is an integer, or no number; nullopt: it may be anything.
  std::optional<Interval> Integers(ValuePtr value) const {
    constexpr double kInfinite = std::numeric_limits<double>::infinity();
    if (!graph::IsFloat(value->type)) {
      const Range range = values_.RangeOf(value);
      return Interval{static_cast<double>(range.low), static_cast<double>(range.high)};
    }
    if (value->kind == Value::Kind::kConst) {
      if (value->number != std::floor(value->number)) return std::nullopt;
      return Interval{value->number, value->number};
    }
    if (value->kind != Value::Kind::kOp) return std::nullopt;
    const auto of = [&](size_t i) { return Integers(value->args[i]); };
    const auto a = value->args.empty() ? std::nullopt : of(0);
    switch (value->op) {
      case Op::kRound:
      case Op::kFloor:
      case Op::kCeil:
      case Op::kTrunc:
        return a ? a : Interval{-kInfinite, kInfinite};
      case Op::kCast:
        return a;
      case Op::kNeg:
        if (!a) return std::nullopt;
        return Interval{-a->high, -a->low};
      case Op::kAdd:
      case Op::kSub:
      case Op::kMin:
      case Op::kMax: {
        const auto b = of(1);
        if (!a || !b) return std::nullopt;
        if (value->op == Op::kAdd) return Interval{a->low + b->low, a->high + b->high};
        if (value->op == Op::kSub) return Interval{a->low - b->high, a->high - b->low};
        if (value->op == Op::kMin)
          return Interval{std::min(a->low, b->low), std::min(a->high, b->high)};
        return Interval{std::max(a->low, b->low), std::max(a->high, b->high)};
      }
      case Op::kSelect: {
        const auto then = of(1), otherwise = of(2);
        if (!then || !otherwise) return std::nullopt;
        return Interval{std::min(then->low, otherwise->low), std::max(then->high, otherwise->high)};
      }
      default:
        return std::nullopt;
    }
  }

  const graph::Graph& graph_;
  const Values& values_;
};

// ---- factors

struct Factor {
  ValuePtr value;
  bool divides;
};

// What an operand is a product of, in the order in which it is written: the same in every kernel.
void AddFactors(ValuePtr value, bool divides, std::vector<Factor>& factors) {
  const bool product = value->kind == Value::Kind::kOp && value->type == DType::kF32 &&
                       (value->op == Op::kMul || value->op == Op::kDiv);
  if (!product) {
    factors.push_back({value, divides});
    return;
  }
  AddFactors(value->args[0], divides, factors);
  AddFactors(value->args[1], divides != (value->op == Op::kDiv), factors);
}
std::vector<Factor> FactorsOf(const ContractForm& form, const Kernel& kernel, int operand) {
  std::vector<Factor> factors;
  AddFactors(OperandOf(form, kernel, operand), false, factors);
  return factors;
}

// Takes the operands of a form apart.
class Taker {
 public:
  Taker(const Analysis& group, const Domain& domain, ContractForm& form)
      : group_(group), domain_(domain), form_(form) {}

  void Run() {
    if (form_.sums != DType::kF32) return;
    auto kernel = BuildContract(group_, domain_, form_, Lane::kNone, 1);
    if (!kernel.ok()) return;
    Apart apart;
    unsigned set = kInBoth;
    for (int operand : {0, 1}) set &= Operand(*kernel, operand, apart);
    if (set == 0) return;
    // As one of them lies in memory, if it may be.
    apart.type = (set & kInF16) != 0 ? DType::kF16 : DType::kBF16;
    form_.apart = apart;
    const auto lies = [&](int operand, DType type) {
      auto strided = StridedOf(form_, *kernel, operand, ApartOf(form_, *kernel, operand).narrow);
      return strided && strided->type == type ? strided : std::nullopt;
    };
    if (set == kInBoth && (lies(0, DType::kBF16) || lies(1, DType::kBF16)))
      form_.apart.type = DType::kBF16;
    for (int operand : {0, 1}) {
      form_.apart.strided[operand] = lies(operand, form_.apart.type);
      form_.apart.beside[operand] = BesideOf(operand);
    }
  }

 private:
  using Apart = ContractForm::Apart;
  using Part = ContractForm::Part;

  // Says what each factor is; the types that the narrow one has, none if there is no such one.
  unsigned Operand(const Kernel& kernel, int operand, Apart& apart) {
    const std::vector<Factor> factors = FactorsOf(form_, kernel, operand);
    const Exactness exactness(group_.graph(), *kernel.values);
    std::vector<Part>& parts = apart.parts[operand];
    int along_k = 0;  // factors
    unsigned set = 0;
    for (const Factor& factor : factors) {
      const bool varies = (factor.value->variables & BitOf(kernel.frame.k)) != 0;
      parts.push_back(varies ? Part::kNarrow : Part::kRows);
      if (!varies) continue;
      ++along_k;
      if (!factor.divides) set |= exactness.Of(factor.value);
    }
    if (along_k == 0 || set == 0) return 0;
    int narrow = -1;
    if (along_k > 1) {
      narrow = FindRun(operand, apart);
    } else {
      narrow = static_cast<int>(std::find(parts.begin(), parts.end(), Part::kNarrow) - parts.begin());
    }
    if (narrow < 0 || factors[narrow].divides) return 0;
    return exactness.Of(factors[narrow].value);
  }

  // The factor that alone is not one for whole runs of K, the longest that there are; -1: none.
  int FindRun(int operand, Apart& apart) {
    for (int run = kMostRun; run >= kLeastRun; run /= 2) {
      if (form_.k % run != 0 || (apart.run > 0 && run > apart.run)) continue;
      const auto kernel = BuildContract(group_, domain_, form_, Lane::kK, run);
      if (!kernel.ok()) continue;
      const std::vector<Factor> factors = FactorsOf(form_, *kernel, operand);
      std::vector<Part> parts = apart.parts[operand];
      if (factors.size() != parts.size()) continue;
      int narrow = -1, varying = 0;
      for (size_t i = 0; i < factors.size(); ++i) {
        if (parts[i] == Part::kRows) continue;
        const bool varies = (factors[i].value->variables & BitOf(kernel->frame.lane)) != 0;
        parts[i] = varies ? Part::kNarrow : Part::kRuns;
        varying += varies;
        if (varies) narrow = static_cast<int>(i);
      }
      if (varying != 1) continue;
      apart.parts[operand] = parts;
      apart.run = run;
      return narrow;
    }
    return -1;
  }

  // Neighbouring rows of the operand whose scales of runs are one.
  int64_t BesideOf(int operand) {
    const auto& parts = form_.apart.parts[operand];
    const int64_t rows = operand == 0 ? form_.m : form_.n;
    if (std::find(parts.begin(), parts.end(), Part::kRuns) == parts.end()) return rows;
    for (int beside = kMostBeside; beside >= kLeastBeside; beside /= 2) {
      if (rows % beside != 0) continue;
      auto kernel =
          BuildContract(group_, domain_, form_, operand == 0 ? Lane::kM : Lane::kN, beside);
      if (!kernel.ok()) continue;
      const ValuePtr scale = ApartOf(form_, *kernel, operand).runs;
      if (scale != nullptr && (scale->variables & BitOf(kernel->frame.lane)) == 0) return beside;
    }
    return 1;
  }

  const Analysis& group_;
  const Domain& domain_;
  ContractForm& form_;
};

}  // namespace

void TakeApart(const Analysis& group, const Domain& domain, ContractForm& form) {
  Taker(group, domain, form).Run();
}

OperandApart ApartOf(const ContractForm& form, const Kernel& kernel, int operand) {
  Values& values = *kernel.values;
  OperandApart apart;
  const auto times = [&](ValuePtr& product, const Factor& factor) {
    const ValuePtr one = values.Const(DType::kF32, 1);
    if (product == nullptr && !factor.divides) {
      product = factor.value;
    } else {
      product = values.Op(factor.divides ? Op::kDiv : Op::kMul, DType::kF32,
                          {product == nullptr ? one : product, factor.value});
    }
  };
  const std::vector<Factor> factors = FactorsOf(form, kernel, operand);
  for (size_t i = 0; i < factors.size(); ++i) {
    switch (form.apart.parts[operand][i]) {
      case ContractForm::Part::kNarrow:
        apart.narrow = factors[i].value;
        break;
      case ContractForm::Part::kRows:
        times(apart.rows, factors[i]);
        break;
      case ContractForm::Part::kRuns:
        times(apart.runs, factors[i]);
        break;
    }
  }
  return apart;
}

}  // namespace warpsmith::codegen
