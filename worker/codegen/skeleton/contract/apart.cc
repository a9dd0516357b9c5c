#include "worker/codegen/skeleton/contract/apart.h"

#include <algorithm>

#include "worker/codegen/ir/halves.h"
#include "worker/codegen/skeleton/contract/contract.h"

namespace warpsmith::codegen {
namespace {

using graph::DType;
using graph::Op;

// Runs of K, and neighbouring rows, that may have a scale together.
constexpr int kLeastRun = 32, kMostRun = 4096;
constexpr int kLeastBeside = 8, kMostBeside = 256;
constexpr int kAccess = 16;  // bytes, the widest

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
    unsigned set = kInF16 | kInBf16 | kInE4m3;
    for (int operand : {0, 1}) set &= Operand(*kernel, operand, apart);
    if (set == 0) return;
    // As one of them lies in memory, if it may be.
    apart.type = (set & kInF16) != 0 ? DType::kF16 : DType::kBF16;
    form_.apart = apart;
    const auto lies = [&](int operand, DType type) {
      auto strided = StridedOf(form_, *kernel, operand, ApartOf(form_, *kernel, operand).narrow);
      return strided && strided->type == type ? strided : std::nullopt;
    };
    if ((set & kInF16) != 0 && (set & kInBf16) != 0 &&
        (lies(0, DType::kBF16) || lies(1, DType::kBF16)))
      form_.apart.type = DType::kBF16;
    for (int operand : {0, 1}) {
      const auto strided = lies(operand, form_.apart.type);
      (strided && strided->even ? form_.apart.strided : form_.apart.uneven)[operand] = strided;
      form_.apart.beside[operand] = BesideOf(operand);
    }
    form_.apart.eights = (set & kInE4m3) != 0;
    for (int operand : {0, 1}) {
      auto& bits = form_.apart.bits[operand];
      if (form_.apart.eights)
        bits = BitsOf(form_, *kernel, operand, ApartOf(form_, *kernel, operand).narrow);
      if (!bits && ReadingOf(group_, domain_, form_, operand, kAccess).along_rows)
        form_.apart.eights = false;
    }
    const auto joined = [&](int operand) {
      if (form_.apart.strided[operand] || form_.apart.uneven[operand]) return false;
      auto parts =
          JoinedOf(form_, *kernel, operand, ApartOf(form_, *kernel, operand).narrow, kTensorStep);
      const bool is = parts && parts->parts[0].type == form_.apart.type;
      if (is) form_.apart.joined[operand] = parts;
      return is;
    };
    // One of them: the greater.
    const int greater = form_.m > form_.n ? 0 : 1;
    if (!joined(greater)) joined(1 - greater);
  }

 private:
  using Apart = ContractForm::Apart;
  using Part = ContractForm::Part;

  // Says what each factor is; the types that the narrow one has, none if there is no such one.
  unsigned Operand(const Kernel& kernel, int operand, Apart& apart) {
    const std::vector<Factor> factors = FactorsOf(form_, kernel, operand);
    std::vector<Part>& parts = apart.parts[operand];
    int along_k = 0;  // factors
    unsigned set = 0;
    for (const Factor& factor : factors) {
      const bool varies = (factor.value->variables & BitOf(kernel.frame.k)) != 0;
      parts.push_back(varies ? Part::kNarrow : Part::kRows);
      if (!varies) continue;
      ++along_k;
      if (!factor.divides) set |= HalvesOf(factor.value, *kernel.values, group_.graph());
    }
    if (along_k == 0 || set == 0) return 0;
    int narrow = -1;
    if (along_k > 1) {
      narrow = FindRun(operand, apart);
    } else {
      narrow =
          static_cast<int>(std::find(parts.begin(), parts.end(), Part::kNarrow) - parts.begin());
    }
    if (narrow < 0 || factors[narrow].divides) return 0;
    return HalvesOf(factors[narrow].value, *kernel.values, group_.graph());
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
    const int64_t rows = operand == 0 ? form_.m : form_.n;
    if (!form_.apart.Has(operand, Part::kRuns)) return rows;
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
