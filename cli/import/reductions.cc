// Reductions. Sums of f16 and bf16 are kept in f32 and rounded once, as PyTorch does.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "cli/import/lowering.h"

namespace warpsmith::import {
namespace {

using graph::Cast;
using graph::Combiner;
using graph::DType;
using graph::ExprPtr;
using graph::Op;
using graph::Unary;

// What is reduced: the operand, and which of its dimensions.
struct Over {
  int self;
  Shape shape;
  std::vector<bool> reduced;
  bool keep;
  int64_t count;  // elements that go into one result
};

Over OverOf(const Lowering& l) {
  Over over;
  over.self = l.Tensor("self");
  over.shape = l.ShapeOf(over.self);
  over.reduced = Marked(l.Ints("dim"), over.shape.size());
  over.keep = l.Has("keepdim") && l.Bool("keepdim");
  over.count = 1;
  for (int dim = 0; dim < over.shape.size(); ++dim) {
    if (over.reduced[dim]) over.count *= over.shape[dim];
  }
  return over;
}

// The index, with a 0 for each reduced dimension, of what has the index `at` in the result.
Exprs KeptOf(const Over& over, const Exprs& at) {
  Exprs kept;
  size_t next = 0;
  for (int dim = 0; dim < over.shape.size(); ++dim) {
    kept.push_back(over.reduced[dim] ? I(0) : at[next]);
    if (!over.reduced[dim] || over.keep) ++next;
  }
  return kept;
}

// The type sums and products are kept in.
DType AccumulationType(DType out) { return out == DType::kBool ? DType::kI64 : OpMath(out); }

// A reduce of formula(x) in `type`.
int Reduce(Lowering& l, const Over& over, Combiner combiner, DType type, std::string name,
           const std::function<ExprPtr(ExprPtr)>& formula) {
  return l.AddReduce(
      std::move(name), combiner, over.shape, over.reduced, over.keep,
      [&](const Exprs& at) { return formula(Cast(type, Load(l.graph, over.self, at))); });
}

// A map of a tensor's elements to the output's type.
int Finish(Lowering& l, int tensor, const std::function<ExprPtr(ExprPtr)>& formula) {
  return l.AddMap(l.Name(), l.Out().shape, [&](const Exprs& at) {
    return Cast(l.Out().type, formula(l.LoadBroadcast(tensor, at)));
  });
}

ExprPtr Itself(ExprPtr x) { return x; }

// A sum or product, rounded to the output's type where it is kept in a wider one.
Operator Accumulate(const char* arguments, Combiner combiner) {
  return {arguments, [combiner](Lowering& l) {
            const DType type = AccumulationType(l.Out().type);
            const bool wide = type != l.Out().type;
            const int total =
                Reduce(l, OverOf(l), combiner, type, l.Name(wide ? "wide" : ""), Itself);
            l.Bind(wide ? Finish(l, total, Itself) : total);
            return absl::OkStatus();
          }};
}

absl::Status Mean(Lowering& l) {
  const DType type = OpMath(l.Out().type);
  const Over over = OverOf(l);
  const int sum = Reduce(l, over, Combiner::kSum, type, l.Name("sum"), Itself);
  l.Bind(Finish(l, sum, [&](ExprPtr x) { return Div(x, Literal(type, over.count)); }));
  return absl::OkStatus();
}

// Maximum or minimum, in the operand's own type: nothing is rounded.
Operator Extreme(const char* arguments, Combiner combiner) {
  return {arguments, [combiner](Lowering& l) {
            const DType type = l.Out().type;
            const DType in = type == DType::kBool ? DType::kI32 : type;
            const int extreme =
                Reduce(l, OverOf(l), combiner, in, l.Name(in == type ? "" : "i32"), Itself);
            l.Bind(in == type ? extreme : Finish(l, extreme, Itself));
            return absl::OkStatus();
          }};
}

// any and all: the maximum and the minimum of x != 0.
Operator Truth(const char* arguments, Combiner combiner) {
  return {arguments, [combiner](Lowering& l) {
            Over over = OverOf(l);
            // Unlike all other reductions, these take an empty list of dimensions for none.
            if (l.Has("dim") && l.Ints("dim").empty())
              over.reduced.assign(over.shape.size(), false);
            const int extreme = l.AddReduce(
                l.Name("i32"), combiner, over.shape, over.reduced, over.keep, [&](const Exprs& at) {
                  return Cast(DType::kI32, Cast(DType::kBool, Load(l.graph, over.self, at)));
                });
            l.Bind(Finish(l, extreme, Itself));
            return absl::OkStatus();
          }};
}

DType OrderedType(DType type) { return type == DType::kBool ? DType::kI32 : type; }

// The value and its index along `dim`; the index alone for argmax and argmin.
Operator WithIndex(const char* arguments, bool maximum, bool index_only) {
  return {
      arguments, [maximum, index_only](Lowering& l) {
        const Over over = OverOf(l);
        const int index_output = index_only ? 0 : 1;
        const bool index_used = l.Used(index_output);
        const Combiner combiner = index_used ? (maximum ? Combiner::kArgMax : Combiner::kArgMin)
                                             : (maximum ? Combiner::kMax : Combiner::kMin);
        const DType type = OrderedType(l.TypeOf(over.self));
        const bool cast = !index_only && type != l.Out().type;
        const std::string index_name = !index_used ? "" : index_only ? l.Name() : l.Name("index");
        const std::string value_name = l.Name(index_only || cast ? "value" : "");
        const int value = l.AddReduce(
            value_name, combiner, over.shape, over.reduced, over.keep,
            [&](const Exprs& at) { return Cast(type, Load(l.graph, over.self, at)); }, index_name);
        if (index_used) l.Bind(value + 1, index_output);
        if (!index_only) l.Bind(cast ? l.CastTensor(value, l.Out().type, l.Name()) : value);
        return absl::OkStatus();
      }};
}

// sum((x - mean)^2) / max(n - correction, 0), and the mean for var_mean.
absl::Status Variance(Lowering& l) {
  const DType type = OpMath(l.Out().type);
  Over over = OverOf(l);
  double correction = 1;
  if (l.Has("correction")) correction = l.Number("correction");
  const bool keep = std::exchange(over.keep, true);
  const int sum = Reduce(l, over, Combiner::kSum, type, l.Name("sum"), Itself);
  const Shape kept = l.ShapeOf(sum);
  const int mean = l.AddMap(l.Name("mean"), kept, [&](const Exprs& at) {
    return Div(l.LoadBroadcast(sum, at), Literal(type, over.count));
  });
  over.keep = keep;
  const int squares = l.AddReduce(
      l.Name("squares"), Combiner::kSum, over.shape, over.reduced, over.keep, [&](const Exprs& at) {
        const ExprPtr centred =
            Sub(Cast(type, Load(l.graph, over.self, at)), l.LoadBroadcast(mean, at));
        return Mul(centred, centred);
      });
  const double divisor = std::max(0.0, over.count - correction);
  l.Bind(Finish(l, squares, [&](ExprPtr x) { return Div(x, Literal(type, divisor)); }));
  if (l.op() == "aten.var_mean.correction" && l.Used(1)) {
    l.Bind(l.AddMap(l.Name("mean"), l.Out(1).shape,
                    [&](const Exprs& at) {
                      return Cast(l.Out(1).type, l.LoadBroadcast(mean, KeptOf(over, at)));
                    }),
           1);
  }
  return absl::OkStatus();
}

absl::Status VectorNorm(Lowering& l) {
  const DType type = OpMath(l.Out().type);
  const Over over = OverOf(l);
  const double order = l.Number("ord");
  const auto absolute = [](ExprPtr x) { return Unary(Op::kAbs, x); };
  if (std::isinf(order)) {
    const Combiner combiner = order > 0 ? Combiner::kMax : Combiner::kMin;
    const int extreme = Reduce(l, over, combiner, type, l.Name("extreme"), absolute);
    l.Bind(l.CastTensor(extreme, l.Out().type, l.Name()));
    return absl::OkStatus();
  }
  const auto power = [&](ExprPtr x) -> ExprPtr {
    if (order == 0) {
      return graph::Select(Binary(Op::kEq, x, Literal(type, 0)), Literal(type, 0),
                           Literal(type, 1));
    }
    if (order == 1) return absolute(x);
    if (order == 2) return Mul(x, x);
    return Binary(Op::kPow, absolute(x), Literal(type, order));
  };
  const int sum = Reduce(l, over, Combiner::kSum, type, l.Name("sum"), power);
  l.Bind(Finish(l, sum, [&](ExprPtr x) {
    if (order == 0 || order == 1) return x;
    if (order == 2) return Unary(Op::kSqrt, x);
    return Binary(Op::kPow, x, Literal(type, 1 / order));
  }));
  return absl::OkStatus();
}

// max + log(sum(exp(x - max))); an infinite maximum counts as 0, or the difference were NaN.
absl::Status LogSumExp(Lowering& l) {
  const DType type = OpMath(l.Out().type);
  Over over = OverOf(l);
  const bool keep = std::exchange(over.keep, true);
  const int largest = Reduce(l, over, Combiner::kMax, type, l.Name("max"), Itself);
  const int shift = l.AddMap(l.Name("shift"), l.ShapeOf(largest), [&](const Exprs& at) {
    const ExprPtr x = l.LoadBroadcast(largest, at);
    const double infinity = std::numeric_limits<double>::infinity();
    return graph::Select(Binary(Op::kEq, Unary(Op::kAbs, x), Literal(type, infinity)),
                         Literal(type, 0), x);
  });
  const int sum = l.AddReduce(
      l.Name("sum"), Combiner::kSum, over.shape, over.reduced, /*keep=*/true, [&](const Exprs& at) {
        return Unary(Op::kExp,
                     Sub(Cast(type, Load(l.graph, over.self, at)), l.LoadBroadcast(shift, at)));
      });
  over.keep = keep;
  l.Bind(l.AddMap(l.Name(), l.Out().shape, [&](const Exprs& at) {
    const Exprs kept = KeptOf(over, at);
    return Cast(l.Out().type,
                Add(Unary(Op::kLog, l.LoadBroadcast(sum, kept)), l.LoadBroadcast(shift, kept)));
  }));
  return absl::OkStatus();
}

OperatorTable Build() {
  OperatorTable table;
  table["aten.sum.dim_IntList"] = table["aten.sum.default"] =
      Accumulate("self:t dim:i*? keepdim:b?", Combiner::kSum);
  table["aten.prod.dim_int"] = table["aten.prod.default"] =
      Accumulate("self:t dim:i*? keepdim:b?", Combiner::kProd);
  table["aten.mean.dim"] = table["aten.mean.default"] = {"self:t dim:i*? keepdim:b?", Mean};
  table["aten.amax.default"] = Extreme("self:t dim:i*? keepdim:b?", Combiner::kMax);
  table["aten.amin.default"] = Extreme("self:t dim:i*? keepdim:b?", Combiner::kMin);
  table["aten.max.default"] = table["aten.amax.default"];
  table["aten.min.default"] = table["aten.amin.default"];
  for (const char* overload : {"default", "dim", "dims"}) {
    const std::string end = std::string(".") + overload;
    table["aten.any" + end] = Truth("self:t dim:i*? keepdim:b?", Combiner::kMax);
    table["aten.all" + end] = Truth("self:t dim:i*? keepdim:b?", Combiner::kMin);
  }
  table["aten.max.dim"] = WithIndex("self:t dim:i keepdim:b", true, false);
  table["aten.min.dim"] = WithIndex("self:t dim:i keepdim:b", false, false);
  table["aten.argmax.default"] = WithIndex("self:t dim:i? keepdim:b", true, true);
  table["aten.argmin.default"] = WithIndex("self:t dim:i? keepdim:b", false, true);
  table["aten.var.correction"] = {"self:t dim:i*? correction:n? keepdim:b", Variance};
  table["aten.var_mean.correction"] = table["aten.var.correction"];
  table["aten.linalg_vector_norm.default"] = {"self:t ord:n dim:i*? keepdim:b", VectorNorm};
  table["aten.logsumexp.default"] = {"self:t dim:i* keepdim:b", LogSumExp};
  return table;
}

}  // namespace

const OperatorTable& ReductionOperators() {
  static const auto* const kTable = new OperatorTable(Build());
  return *kTable;
}

}  // namespace warpsmith::import
