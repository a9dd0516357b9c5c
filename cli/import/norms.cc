// Softmax and the normalisations: a few reduces over the rows, and a map over the whole. What lies
// between (mean, variance, reciprocal deviation) are tensors of their own, in f32 for f16 and bf16.
#include <algorithm>
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

// ---- softmax --------------------------------------------------------------------------------

absl::Status Softmax(Lowering& l) {
  const int self = l.Tensor("self");
  const Shape shape = l.ShapeOf(self);
  const DType type = OpMath(l.Out().type);
  const bool logarithm = l.op() == "aten._log_softmax.default";
  const std::vector<bool> reduced = Marked({l.Int("dim")}, shape.size());
  const auto x = [&](const Exprs& at) { return Cast(type, Load(l.graph, self, at)); };
  const auto rest = [&](const Exprs& at) {  // indexes of the kept dimensions
    Exprs kept;
    for (int dim = 0; dim < at.size(); ++dim) {
      if (!reduced[dim]) kept.push_back(at[dim]);
    }
    return kept;
  };
  const int largest = l.AddReduce(l.Name("max"), Combiner::kMax, shape, reduced, false, x);
  const auto shifted = [&](const Exprs& at) {
    return Sub(x(at), Load(l.graph, largest, rest(at)));
  };
  if (logarithm) {
    const int sum = l.AddReduce(l.Name("sum"), Combiner::kSum, shape, reduced, false,
                                [&](const Exprs& at) { return Unary(Op::kExp, shifted(at)); });
    l.Bind(l.AddMap(l.Name(), shape, [&](const Exprs& at) {
      const ExprPtr log_sum = Unary(Op::kLog, Load(l.graph, sum, rest(at)));
      return Cast(l.Out().type, Sub(shifted(at), log_sum));
    }));
    return absl::OkStatus();
  }
  const int exponential =
      l.AddMap(l.Name("exp"), shape, [&](const Exprs& at) { return Unary(Op::kExp, shifted(at)); });
  const int sum = l.AddReduce(l.Name("sum"), Combiner::kSum, shape, reduced, false,
                              [&](const Exprs& at) { return Load(l.graph, exponential, at); });
  l.Bind(l.AddMap(l.Name(), shape, [&](const Exprs& at) {
    return Cast(l.Out().type, Div(Load(l.graph, exponential, at), Load(l.graph, sum, rest(at))));
  }));
  return absl::OkStatus();
}

// ---- moments --------------------------------------------------------------------------------

// How the elements of a tensor fall into the rows that share a mean and a variance: `rows` and
// `columns` are the shapes of the two, and `element` says which element of the tensor is at a row
// and a column.
struct Rows {
  Shape rows, columns;
  std::function<Exprs(const Exprs& row, const Exprs& column)> element;
};

struct Moments {
  int mean, variance;  // [rows]; the variance is the biased one
};

Moments AddMoments(Lowering& l, int tensor, DType type, const Rows& rows) {
  const double count = Product(rows.columns);
  const auto x = [&](const Exprs& row, const Exprs& column) {
    return Cast(type, Load(l.graph, tensor, rows.element(row, column)));
  };
  const auto divided = [&](const char* name, int sum) {
    return l.AddMap(l.Name(name), rows.rows, [&](const Exprs& row) {
      return Div(Load(l.graph, sum, row), Literal(type, count));
    });
  };
  const int sum = l.AddWindow(l.Name("sum"), Combiner::kSum, rows.rows, rows.columns, x);
  const int mean = divided("mean", sum);
  const int squares = l.AddWindow(l.Name("squares"), Combiner::kSum, rows.rows, rows.columns,
                                  [&](const Exprs& row, const Exprs& column) {
                                    const ExprPtr centred =
                                        Sub(x(row, column), Load(l.graph, mean, row));
                                    return Mul(centred, centred);
                                  });
  return {mean, divided("var", squares)};
}

// 1 / sqrt(variance + eps)
int AddRstd(Lowering& l, int variance, DType type) {
  const Shape rows = l.ShapeOf(variance);
  return l.AddMap(l.Name("rstd"), rows, [&](const Exprs& row) {
    return Unary(Op::kRsqrt, Add(Load(l.graph, variance, row), Literal(type, l.Number("eps"))));
  });
}

// (x - mean) * rstd * weight + bias, weight and bias where the operator has them.
using RowOf = std::function<Exprs(const Exprs& at)>;
int AddNormalised(Lowering& l, int tensor, int mean, int rstd, DType type, const RowOf& row_of,
                  const RowOf& affine_of) {
  return l.AddMap(l.Name(), l.Out().shape, [&](const Exprs& at) {
    const Exprs row = row_of(at);
    const auto of_row = [&](int t) { return Cast(type, Load(l.graph, t, row)); };
    ExprPtr y = Mul(Sub(Cast(type, Load(l.graph, tensor, at)), of_row(mean)), of_row(rstd));
    if (l.Has("weight")) {
      y = Mul(y, Cast(type, Load(l.graph, l.Tensor("weight"), affine_of(at))));
    }
    if (l.Has("bias")) {
      y = Add(y, Cast(type, Load(l.graph, l.Tensor("bias"), affine_of(at))));
    }
    return Cast(l.Out().type, y);
  });
}

// Binds what an operator also returns (a mean, a deviation) where somebody uses it: the same
// elements, in the shape and type that PyTorch gives them.
void BindMoment(Lowering& l, int output, int tensor) {
  if (!l.Used(output)) return;
  const Meta& out = l.Out(output);
  if (l.ShapeOf(tensor) == out.shape) {
    l.Bind(l.CastTensor(tensor, out.type, l.Name("saved")), output);
    return;
  }
  // A row's index in PyTorch's shape is its index here with dimensions of one element among it.
  l.Bind(l.AddMap(l.Name("saved"), out.shape,
                  [&](const Exprs& at) {
                    const Exprs row(at.begin(), at.begin() + l.ShapeOf(tensor).size());
                    return Cast(out.type, Load(l.graph, tensor, row));
                  }),
         output);
}

// ---- layer and group norm -------------------------------------------------------------------

absl::Status LayerNorm(Lowering& l) {
  const int input = l.Tensor("input");
  const Shape shape = l.ShapeOf(input);
  const DType type = OpMath(l.Out().type);
  const size_t rank = shape.size() - l.Ints("normalized_shape").size();
  Rows rows;
  rows.rows = Shape(shape.begin(), shape.begin() + rank);
  rows.columns = Shape(shape.begin() + rank, shape.end());
  rows.element = [](Exprs row, const Exprs& column) {
    row.insert(row.end(), column.begin(), column.end());
    return row;
  };
  const Moments moments = AddMoments(l, input, type, rows);
  const int rstd = AddRstd(l, moments.variance, type);
  l.Bind(AddNormalised(
      l, input, moments.mean, rstd, type,
      [&](const Exprs& at) { return Exprs(at.begin(), at.begin() + rank); },
      [&](const Exprs& at) { return Exprs(at.begin() + rank, at.end()); }));
  BindMoment(l, 1, moments.mean);
  BindMoment(l, 2, rstd);
  return absl::OkStatus();
}

absl::Status GroupNorm(Lowering& l) {
  const int input = l.Tensor("input");
  const Shape shape = l.ShapeOf(input);
  const DType type = OpMath(l.Out().type);
  const int64_t groups = l.Int("group");
  if (shape.size() < 2 || shape[1] % groups != 0) return l.Unsupported("uneven groups");
  const int64_t channels = shape[1] / groups;  // of one group
  Rows rows;
  rows.rows = {shape[0], groups};
  rows.columns = Shape(shape.begin() + 1, shape.end());
  rows.columns[0] = channels;
  rows.element = [channels](const Exprs& row, Exprs column) {
    column[0] = Add(Mul(row[1], I(channels)), column[0]);
    column.insert(column.begin(), row[0]);
    return column;
  };
  const Moments moments = AddMoments(l, input, type, rows);
  const int rstd = AddRstd(l, moments.variance, type);
  l.Bind(AddNormalised(
      l, input, moments.mean, rstd, type,
      [&](const Exprs& at) {
        return Exprs{at[0], Div(at[1], I(channels))};
      },
      [](const Exprs& at) { return Exprs{at[1]}; }));
  BindMoment(l, 1, moments.mean);
  BindMoment(l, 2, rstd);
  return absl::OkStatus();
}

// ---- batch norm -----------------------------------------------------------------------------

// momentum * new + (1 - momentum) * old, in the old one's type. count: of elements, where the new
// one is a biased variance of them and the old one is not; otherwise 0.
int Blended(Lowering& l, const char* running, int fresh, double count, const char* name) {
  const int old = l.Tensor(running);
  const DType type = OpMath(l.TypeOf(old));
  const double momentum = l.Number("momentum");
  const Shape shape = l.ShapeOf(old);
  return l.AddMap(l.Name(name), shape, [&](const Exprs& at) {
    ExprPtr value = Cast(type, Load(l.graph, fresh, at));
    if (count > 0) value = Div(Mul(value, Literal(type, count)), Literal(type, count - 1));
    return Cast(l.TypeOf(old),
                Add(Mul(Literal(type, momentum), value),
                    Mul(Literal(type, 1 - momentum), Cast(type, Load(l.graph, old, at)))));
  });
}

// With batch statistics, or with the running ones where not training. Outputs: normalised, mean,
// rstd, and for the functional form the new running mean and variance.
absl::Status BatchNorm(Lowering& l) {
  const int input = l.Tensor("input");
  const Shape shape = l.ShapeOf(input);
  const DType type = OpMath(l.Out().type);
  if (shape.size() < 2) return l.Unsupported("a tensor without channels");
  const auto channel = [](const Exprs& at) { return Exprs{at[1]}; };
  const bool training = l.Has("training") && l.Bool("training");
  const bool functional = l.op() == "aten._native_batch_norm_legit_functional.default";
  if (!training) {
    if (!l.Has("running_mean") || !l.Has("running_var")) {
      return l.Unsupported("without statistics of its own is not supported");
    }
    const int variance = l.Tensor("running_var");
    const Shape channels = l.ShapeOf(variance);
    const int rstd = l.AddMap(l.Name("rstd"), channels, [&](const Exprs& at) {
      return Unary(Op::kRsqrt,
                   Add(Cast(type, Load(l.graph, variance, at)), Literal(type, l.Number("eps"))));
    });
    l.Bind(AddNormalised(l, input, l.Tensor("running_mean"), rstd, type, channel, channel));
    if (functional) {
      l.Bind(l.Tensor("running_mean"), 3);
      l.Bind(variance, 4);
    }
    return absl::OkStatus();
  }
  Rows rows;
  rows.rows = {shape[1]};
  rows.columns = shape;
  rows.columns.erase(rows.columns.begin() + 1);
  rows.element = [](const Exprs& row, Exprs column) {
    column.insert(column.begin() + 1, row[0]);
    return column;
  };
  const Moments moments = AddMoments(l, input, type, rows);
  const int rstd = AddRstd(l, moments.variance, type);
  l.Bind(AddNormalised(l, input, moments.mean, rstd, type, channel, channel));
  BindMoment(l, 1, moments.mean);
  BindMoment(l, 2, rstd);
  if (functional && l.Has("running_mean")) {
    // The running variance is the unbiased one.
    const double count = Product(rows.columns);
    if (l.Used(3)) l.Bind(Blended(l, "running_mean", moments.mean, 0, "running_mean"), 3);
    if (l.Used(4)) {
      l.Bind(Blended(l, "running_var", moments.variance, count, "running_var"), 4);
    }
  }
  return absl::OkStatus();
}

// The same without running statistics, and always with those of the batch.
absl::Status BatchNormNoStats(Lowering& l) {
  if (!l.Bool("training")) return l.Unsupported("without training is not supported");
  return BatchNorm(l);
}

}  // namespace

const OperatorTable& NormOperators() {
  static const auto* const kTable = new OperatorTable{
      {"aten._softmax.default", {"self:t dim:i", Softmax}},
      {"aten._log_softmax.default", {"self:t dim:i", Softmax}},
      {"aten.native_layer_norm.default",
       {"input:t normalized_shape:i* weight:t? bias:t? eps:n", LayerNorm}},
      {"aten.native_group_norm.default", {"input:t weight:t? bias:t? group:i eps:n", GroupNorm}},
      {"aten._native_batch_norm_legit_functional.default",
       {"input:t weight:t? bias:t? running_mean:t? running_var:t? training:b momentum:n eps:n",
        BatchNorm}},
      {"aten._native_batch_norm_legit.no_stats",
       {"input:t weight:t? bias:t? training:b eps:n", BatchNormNoStats}},
      {"aten._native_batch_norm_legit_no_training.default",
       {"input:t weight:t? bias:t? running_mean:t running_var:t eps:n", BatchNorm}},
  };
  return *kTable;
}

}  // namespace warpsmith::import
