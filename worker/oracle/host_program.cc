#include "worker/oracle/host_program.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/graph/numeric.h"

namespace warpsmith::oracle {

using graph::DType;
using graph::Expr;
using graph::ExprPtr;
using graph::IsFloat;
using graph::Op;

namespace {

// False, and nothing done, where `op` is no comparison.
template <class T>
bool CompareLanes(Op op, const T* a, const T* b, int count, int64_t* result) {
  switch (op) {
    case Op::kLt:
      for (int l = 0; l < count; ++l) result[l] = a[l] < b[l];
      return true;
    case Op::kLe:
      for (int l = 0; l < count; ++l) result[l] = a[l] <= b[l];
      return true;
    case Op::kEq:
      for (int l = 0; l < count; ++l) result[l] = a[l] == b[l];
      return true;
    case Op::kNe:
      for (int l = 0; l < count; ++l) result[l] = a[l] != b[l];
      return true;
    default:
      return false;
  }
}

}  // namespace

HostProgram::HostProgram(const graph::Graph& graph, const graph::Node& node, bool round_casts)
    : graph_(graph), node_(node), round_casts_(round_casts) {
  for (const auto* axes : {&node.axes, &node.reduce_axes}) {
    for (const graph::Axis& axis : *axes) extents_.push_back(axis.extent);
  }
  result_ = Compile(node.value, -1);
  floats_.assign(int64_t{registers_} * kLanes, 0);
  integers_.assign(int64_t{registers_} * kLanes, 0);
  for (const auto& [out, e] : constants_) {
    std::fill_n(FloatRegister(out), kLanes, e.number);
    std::fill_n(IntegerRegister(out), kLanes, e.integer);
  }
}

int HostProgram::Emit(const Key& key, Instruction instruction) {
  const auto [it, is_new] = known_.try_emplace(key, registers_);
  if (!is_new) return it->second;
  instruction.out = registers_++;
  instructions_.push_back(std::move(instruction));
  return it->second;
}

int HostProgram::Mask(int mask, int condition, bool sense) {
  const Key key(-1, sense, 0, 0, 0, mask, {condition});
  Instruction instruction{Op::kAnd, DType::kBool, DType::kBool};
  instruction.args = {mask, condition};
  instruction.is_mask = true;
  instruction.sense = sense;
  return Emit(key, std::move(instruction));
}

int HostProgram::ConstantRegister(const Expr& e) {
  uint64_t bits;
  std::memcpy(&bits, &e.number, sizeof(bits));
  const Key key(static_cast<int>(e.op), static_cast<int>(e.type), 0, e.integer, bits, -1, {});
  const auto [it, is_new] = known_.try_emplace(key, registers_);
  if (is_new) constants_.emplace_back(registers_++, e);
  return it->second;
}

// Equal instructions on equal registers share one; what may fail also needs an equal mask.
int HostProgram::Compile(const ExprPtr& e, int mask) {
  if (auto it = compiled_.find({e.get(), mask}); it != compiled_.end()) return it->second;
  return compiled_[{e.get(), mask}] = CompileNew(e, mask);
}

int HostProgram::CompileNew(const ExprPtr& e, int mask) {
  if (e->op == Op::kConst) return ConstantRegister(*e);
  Instruction instruction{e->op, e->type, e->type};
  bool may_fail = false;
  switch (e->op) {
    case Op::kIndex: {
      const Key key(static_cast<int>(e->op), 0, e->var, 0, 0, -1, {});
      const auto [it, is_new] = known_.try_emplace(key, registers_);
      if (is_new) indexes_.emplace_back(e->var, registers_++);
      return it->second;
    }
    case Op::kLoad:
      instruction.args.push_back(e->tensor);
      for (const ExprPtr& arg : e->args) instruction.args.push_back(Compile(arg, mask));
      may_fail = true;
      break;
    case Op::kSelect: {
      const int condition = Compile(e->args[0], mask);
      const int a = Compile(e->args[1], Mask(mask, condition, true));
      const int b = Compile(e->args[2], Mask(mask, condition, false));
      instruction.args = {condition, a, b};
      break;
    }
    case Op::kAnd:
    case Op::kOr: {
      const int a = Compile(e->args[0], mask);
      instruction.args = {a, Compile(e->args[1], Mask(mask, a, e->op == Op::kAnd))};
      break;
    }
    default:
      for (const ExprPtr& arg : e->args) instruction.args.push_back(Compile(arg, mask));
      instruction.type = e->args[0]->type;
      may_fail = (e->op == Op::kDiv || e->op == Op::kMod) && !IsFloat(e->type);
  }
  if (may_fail) instruction.mask = mask;
  const Key key(static_cast<int>(e->op), static_cast<int>(instruction.type),
                static_cast<int>(e->type), 0, 0, instruction.mask, instruction.args);
  return Emit(key, std::move(instruction));
}

absl::Status HostProgram::Run(const std::vector<HostTensor>& tensors, int64_t first, int count) {
  points_ = nullptr;
  FillIndexes(first, count);
  return RunAll(tensors, first, count);
}

absl::Status HostProgram::RunAt(const std::vector<HostTensor>& tensors, const int64_t* points,
                                int count) {
  points_ = points;
  FillIndexesAt(points, count);
  return RunAll(tensors, 0, count);
}

absl::Status HostProgram::RunAll(const std::vector<HostTensor>& tensors, int64_t first, int count) {
  for (const Instruction& instruction : instructions_) {
    if (auto status = Execute(instruction, tensors, first, count); !status.ok()) return status;
  }
  return absl::OkStatus();
}

void HostProgram::FillIndexes(int64_t first, int count) {
  for (const auto& [variable, out] : indexes_) {
    int64_t* values = IntegerRegister(out);
    int64_t inner = 1;  // points for which the variable stays
    for (size_t v = variable + 1; v < extents_.size(); ++v) inner *= extents_[v];
    int64_t value = first / inner % extents_[variable];
    int64_t left = inner - first % inner;
    for (int lane = 0; lane < count;) {
      const int run = static_cast<int>(std::min<int64_t>(left, count - lane));
      std::fill_n(values + lane, run, value);
      lane += run;
      left = inner;
      if (++value == extents_[variable]) value = 0;
    }
  }
}

void HostProgram::FillIndexesAt(const int64_t* points, int count) {
  for (const auto& [variable, out] : indexes_) {
    int64_t* values = IntegerRegister(out);
    int64_t inner = 1;
    for (size_t v = variable + 1; v < extents_.size(); ++v) inner *= extents_[v];
    for (int lane = 0; lane < count; ++lane)
      values[lane] = points[lane] / inner % extents_[variable];
  }
}

absl::Status HostProgram::Execute(const Instruction& i, const std::vector<HostTensor>& tensors,
                                  int64_t first, int count) {
  if (i.is_mask) {
    int64_t* out = IntegerRegister(i.out);
    const int64_t* condition = IntegerRegister(i.args[1]);
    for (int l = 0; l < count; ++l) out[l] = (condition[l] != 0) == i.sense;
    if (i.args[0] >= 0) {
      const int64_t* outer = IntegerRegister(i.args[0]);
      for (int l = 0; l < count; ++l) out[l] &= outer[l];
    }
    return absl::OkStatus();
  }
  switch (i.op) {
    case Op::kLoad:
      return Load(i, tensors[i.args[0]], first, count);
    case Op::kSelect:
      Select(i, count);
      return absl::OkStatus();
    case Op::kCast:
      Cast(i, count);
      return absl::OkStatus();
    case Op::kDiv:
    case Op::kMod:
      if (!IsFloat(i.type)) {
        if (auto status = CheckDivisors(i, first, count); !status.ok()) return status;
      }
      break;
    default:
      break;
  }
  if (i.args.size() == 2) {
    Binary(i, count);
  } else {
    Unary(i, count);
  }
  return absl::OkStatus();
}

absl::Status HostProgram::Load(const Instruction& i, const HostTensor& values, int64_t first,
                               int count) {
  const graph::Tensor& tensor = graph_.tensors[i.args[0]];
  const int64_t* mask = i.mask < 0 ? nullptr : IntegerRegister(i.mask);
  int64_t address[kLanes];
  std::fill_n(address, count, 0);
  uint64_t outside = 0;
  for (size_t a = 0; a < tensor.shape.size(); ++a) {
    const int64_t* index = IntegerRegister(i.args[a + 1]);
    const uint64_t extent = tensor.shape[a];
    if (mask == nullptr) {
      for (int l = 0; l < count; ++l) {
        outside |= static_cast<uint64_t>(index[l]) >= extent;
        address[l] = address[l] * static_cast<int64_t>(extent) + index[l];
      }
    } else {
      for (int l = 0; l < count; ++l) {
        const int64_t used = mask[l] != 0 ? index[l] : 0;
        outside |= static_cast<uint64_t>(used) >= extent;
        address[l] = address[l] * static_cast<int64_t>(extent) + used;
      }
    }
    if (outside != 0) {
      for (int l = 0; l < count; ++l) {
        if ((mask == nullptr || mask[l] != 0) && static_cast<uint64_t>(index[l]) >= extent) {
          return ErrorAt(first + l, absl::StrCat("loads '", tensor.name, "' out of bounds: index ",
                                                 index[l], " on axis ", a, " of extent ", extent));
        }
      }
    }
  }
  if (IsFloat(tensor.type)) {
    double* out = FloatRegister(i.out);
    for (int l = 0; l < count; ++l) out[l] = values.floats[address[l]];
  } else {
    int64_t* out = IntegerRegister(i.out);
    for (int l = 0; l < count; ++l) out[l] = values.integers[address[l]];
  }
  return absl::OkStatus();
}

absl::Status HostProgram::CheckDivisors(const Instruction& i, int64_t first, int count) {
  const int64_t* mask = i.mask < 0 ? nullptr : IntegerRegister(i.mask);
  const int64_t* divisor = IntegerRegister(i.args[1]);
  for (int l = 0; l < count; ++l) {
    if (divisor[l] == 0 && (mask == nullptr || mask[l] != 0)) {
      return ErrorAt(first + l, "divides an integer by zero");
    }
  }
  return absl::OkStatus();
}

void HostProgram::Binary(const Instruction& i, int count) {
  int64_t* result = IntegerRegister(i.out);
  if (IsFloat(i.type)) {
    const double* a = FloatRegister(i.args[0]);
    const double* b = FloatRegister(i.args[1]);
    double* out = FloatRegister(i.out);
    if (CompareLanes(i.op, a, b, count, result)) return;
    switch (i.op) {
      case Op::kAdd:
        for (int l = 0; l < count; ++l) out[l] = a[l] + b[l];
        return;
      case Op::kSub:
        for (int l = 0; l < count; ++l) out[l] = a[l] - b[l];
        return;
      case Op::kMul:
        for (int l = 0; l < count; ++l) out[l] = a[l] * b[l];
        return;
      case Op::kDiv:
        for (int l = 0; l < count; ++l) out[l] = a[l] / b[l];
        return;
      default:
        for (int l = 0; l < count; ++l) out[l] = graph::ApplyFloat(i.op, a[l], b[l]);
        return;
    }
  }
  const int64_t* a = IntegerRegister(i.args[0]);
  const int64_t* b = IntegerRegister(i.args[1]);
  if (CompareLanes(i.op, a, b, count, result)) return;
  switch (i.op) {
    case Op::kAnd:
      for (int l = 0; l < count; ++l) result[l] = a[l] & b[l];
      return;
    case Op::kOr:
      for (int l = 0; l < count; ++l) result[l] = a[l] | b[l];
      return;
    case Op::kDiv:
    case Op::kMod:
      // A divisor of 0 is in a lane that does not come here.
      for (int l = 0; l < count; ++l) {
        result[l] = b[l] == 0 ? 0 : graph::ApplyInteger(i.op, i.type, a[l], b[l]);
      }
      return;
    default:
      for (int l = 0; l < count; ++l) {
        result[l] = graph::ApplyInteger(i.op, i.type, a[l], b[l]);
      }
  }
}

void HostProgram::Unary(const Instruction& i, int count) {
  if (IsFloat(i.type)) {
    const double* a = FloatRegister(i.args[0]);
    if (i.op == Op::kIsNan) {
      int64_t* out = IntegerRegister(i.out);
      for (int l = 0; l < count; ++l) out[l] = std::isnan(a[l]);
      return;
    }
    double* out = FloatRegister(i.out);
    if (i.op == Op::kExp) {
      for (int l = 0; l < count; ++l) out[l] = std::exp(a[l]);
    } else {
      for (int l = 0; l < count; ++l) out[l] = graph::ApplyFloat(i.op, a[l]);
    }
    return;
  }
  const int64_t* a = IntegerRegister(i.args[0]);
  int64_t* out = IntegerRegister(i.out);
  if (i.op == Op::kNot) {
    for (int l = 0; l < count; ++l) out[l] = a[l] == 0;
  } else {
    for (int l = 0; l < count; ++l) out[l] = graph::ApplyInteger(i.op, i.type, a[l]);
  }
}

void HostProgram::Cast(const Instruction& i, int count) {
  const double* floats = FloatRegister(i.args[0]);
  const int64_t* integers = IntegerRegister(i.args[0]);
  const bool from_float = IsFloat(i.type);
  if (!IsFloat(i.to)) {
    int64_t* out = IntegerRegister(i.out);
    for (int l = 0; l < count; ++l) {
      out[l] = from_float ? graph::FloatToInteger(i.type, i.to, floats[l])
                          : graph::WrapTo(i.to, integers[l]);
    }
    return;
  }
  double* out = FloatRegister(i.out);
  for (int l = 0; l < count; ++l) {
    out[l] = from_float ? floats[l] : static_cast<double>(integers[l]);
  }
  if (!round_casts_) return;
  for (int l = 0; l < count; ++l) out[l] = graph::RoundTo(i.to, out[l]);
}

void HostProgram::Select(const Instruction& i, int count) {
  const int64_t* condition = IntegerRegister(i.args[0]);
  if (IsFloat(i.type)) {
    const double* a = FloatRegister(i.args[1]);
    const double* b = FloatRegister(i.args[2]);
    double* out = FloatRegister(i.out);
    for (int l = 0; l < count; ++l) out[l] = condition[l] != 0 ? a[l] : b[l];
  } else {
    const int64_t* a = IntegerRegister(i.args[1]);
    const int64_t* b = IntegerRegister(i.args[2]);
    int64_t* out = IntegerRegister(i.out);
    for (int l = 0; l < count; ++l) out[l] = condition[l] != 0 ? a[l] : b[l];
  }
}

absl::Status HostProgram::ErrorAt(int64_t number, const std::string& message) const {
  int64_t point = points_ != nullptr ? points_[number] : number;
  std::vector<std::string> where;
  for (size_t v = extents_.size(); v-- > 0;) {
    const graph::Axis& axis =
        v < node_.axes.size() ? node_.axes[v] : node_.reduce_axes[v - node_.axes.size()];
    where.insert(where.begin(), absl::StrCat(axis.name, " = ", point % extents_[v]));
    point /= extents_[v];
  }
  return absl::InvalidArgumentError(absl::StrCat("'", graph_.tensors[node_.outputs[0]].name, "' ",
                                                 message, where.empty() ? "" : " at ",
                                                 absl::StrJoin(where, ", ")));
}

}  // namespace warpsmith::oracle
