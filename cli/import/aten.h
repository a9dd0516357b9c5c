// Core ATen to the graph language.
//
// Which operators are known: the tables in pointwise.cc, creation.cc, views.cc, indexing.cc,
// reductions.cc, norms.cc, products.cc, pooling.cc, random.cc and others; lowering.h says how a row
// of one is written.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/import/dump.h"
#include "cli/import/orders.h"
#include "common/graph/graph.h"

namespace warpsmith::import {

// The graph of a dumped module: inputs in forward's order, the seeds of what it draws at random,
// an i64 a draw, then the parameters and states that it
// uses, by their names in the state dictionary. Pruned and valid. orders: of axes, one for each of
// the graph's outputs, which has forward's in that order; none: each has them in their own.
//
// InvalidArgument names the operator or the input that cannot be had:
// "aten.convolution.default is not supported".
absl::StatusOr<graph::Graph> LowerAten(const Dump& dump, const std::vector<AxisOrder>& orders = {});

// For each tensor that forward gives, which of the graph's outputs it is: the same where forward
// gives one twice, with the same strides. An input that is given back: the number of outputs and
// its place among the tensors that forward is given.
std::vector<int> OutputsOf(const Dump& dump);

// The name a parameter or buffer has in the graph: its own, unless that does not begin as a name
// must ("0.weight" becomes "_0.weight").
std::string StateName(const std::string& state);

// Names of all operators that can be lowered, sorted.
std::vector<std::string> SupportedOperators();

}  // namespace warpsmith::import
