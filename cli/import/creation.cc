// Operators that make tensors out of numbers.
#include "cli/import/lowering.h"

namespace warpsmith::import {
namespace {

// Every element is the same number.
Operator Filled(const char* arguments, const char* value) {
  return {arguments, [value](Lowering& l) {
            const Meta& out = l.Out();
            l.Bind(l.AddMap(l.Name(), out.shape,
                            [&](const Exprs& at) { return l.Operand(value, out.type, at); }));
            return absl::OkStatus();
          }};
}

Operator FilledWith(double value) {
  return {"", [value](Lowering& l) {
            const Meta& out = l.Out();
            l.Bind(l.AddMap(l.Name(), out.shape,
                            [&](const Exprs&) { return Literal(out.type, value); }));
            return absl::OkStatus();
          }};
}

absl::Status Arange(Lowering& l) {
  const Meta& out = l.Out();
  const graph::DType type = OpMath(out.type);
  l.Bind(l.AddMap(l.Name(), out.shape, [&](const Exprs& at) {
    const graph::ExprPtr step = l.Has("step") ? l.Operand("step", type, at) : Literal(type, 1);
    return graph::Cast(out.type,
                       Add(l.Operand("start", type, at), Mul(graph::Cast(type, at[0]), step)));
  }));
  return absl::OkStatus();
}

}  // namespace

const OperatorTable& CreationOperators() {
  static const auto* const kTable = new OperatorTable{
      {"aten.full.default", Filled("fill_value:n", "fill_value")},
      {"aten.full_like.default", Filled("fill_value:n", "fill_value")},
      {"aten.scalar_tensor.default", Filled("s:n", "s")},
      {"aten.fill.Scalar", Filled("value:n", "value")},
      {"aten.zeros.default", FilledWith(0)},
      {"aten.zeros_like.default", FilledWith(0)},
      // Any value will do: nothing may depend on it.
      {"aten.empty.memory_format", FilledWith(0)},
      {"aten.empty_permuted.default", FilledWith(0)},
      {"aten.ones.default", FilledWith(1)},
      {"aten.ones_like.default", FilledWith(1)},
      {"aten.arange.start_step", {"start:n end:n step:n?", Arange}},
  };
  return *kTable;
}

}  // namespace warpsmith::import
