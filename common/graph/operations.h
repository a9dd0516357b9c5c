// Floating-point operations of expressions.
#pragma once

#include "common/graph/graph.h"

namespace warpsmith::graph {

struct Operations {
  double all = 0;
  double transcendental = 0;  // of them exp, log, tanh, erf, pow, sin, cos, sqrt, division
};

// exp, log, tanh, erf, pow, sin, cos, sqrt, division and their kin.
bool IsTranscendental(Op op);

// Of one evaluation, as written: shared parts count wherever they stand; of a select the dearer
// side.
Operations OperationsOf(const ExprPtr& e);

}  // namespace warpsmith::graph
