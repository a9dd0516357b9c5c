// Which types of 16 bits, and whether float8_e4m3fn, hold a value without loss, whatever it is:
// numbers that were rounded to one, eight-bit floats, small integers, and what moves or chooses
// among those.
#pragma once

#include "worker/codegen/ir/value.h"

namespace warpsmith::codegen {

// A set of these.
inline constexpr unsigned kInF16 = 1, kInBf16 = 2, kInE4m3 = 4;
unsigned HalvesOf(ValuePtr value, const Values& values, const graph::Graph& graph);
// Of kF16 or kBF16: whether rounding to it changes nothing.
bool IsHalfExactly(graph::DType type, ValuePtr value, const Values& values,
                   const graph::Graph& graph);

}  // namespace warpsmith::codegen
