// Whether anybody sees in which order an operator's results are along a dimension.
#pragma once

#include "cli/import/dump.h"

namespace warpsmith::import {

// topk: a node of `dump` whose outputs may be put in another order along its dimension `dim`, the
// values and the indexes alike. False: whatever forward gives is the same, but for the rounding of
// sums. Indexes that say where a number is written, values that are added up, and weights of them
// that are made element by element before, need no order.
bool OrderMatters(const Dump& dump, const AtenNode& topk);

}  // namespace warpsmith::import
