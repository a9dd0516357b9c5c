// Digits of axes, and whether positions made of them hold every element exactly once.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "worker/codegen/group/domain.h"
#include "worker/codegen/ir/index.h"

namespace warpsmith::codegen {

// A digit of an axis: (v / low) % (high / low).
struct Digit {
  int axis = -1;
  int64_t low = 1, high = 1;
};

// The digit that an atom is; none: it is something else.
std::optional<Digit> DigitOf(const Atom& atom);

// Whether positions given by `at` in a tensor of this shape hold every element exactly once while
// the axes of `over` run through their extents and all others stand still.
bool IsBijection(const std::vector<Index>& at, const std::vector<int64_t>& shape,
                 const std::vector<DomainAxis>& over);

}  // namespace warpsmith::codegen
