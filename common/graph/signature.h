// What kind of work a graph is, without names: kinds of nodes, types, ranks, sizes in classes.
//
//   Signature(graph) == "in:f32[12,11] max:f32[12]/[11] map:f32[12,11]*2 sum:f32[12]/[11] #6f1e..."
//
// The words before the sign are for people and for learners that compare by parts; they are sorted,
// the number behind a star says how often, and what is too long for them is left out ("..."). The
// digest behind it is of the structure: what is computed from what, by which operations. It is the
// same under other names, in another order of lines that do not depend on each other, with operands
// of commutative operations exchanged, and with other constants of floating-point types.
//
// A size is classed by its power of two: 11 is 2048 to 4095; with "+" behind it where it is no
// multiple of 8, which decides how memory can be read. Pure and thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "common/graph/graph.h"

namespace warpsmith::graph {

inline constexpr size_t kMaxSignatureBytes = 240;

// "11", "11+"; of 1: "0".
std::string SizeClass(int64_t size);
// "map", "sum", "argmax", "cumsum": what kind of node it is.
std::string KindOf(const Node& node);
// At most kMaxSignatureBytes. Of what outputs and updates need; a node that nothing needs does not
// count.
std::string Signature(const Graph& graph);

}  // namespace warpsmith::graph
