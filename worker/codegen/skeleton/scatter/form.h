// A group as sums of rows into places that keys name.
//
//   y[i, j] = sum over r of select(key(r) == i, value(r, j), 0)
//
// Axis i is the place, which the key names of each row r; j is an element that a row has for every
// place. The key, and what else decides whether a row counts at all, may depend on further axes of
// the result: those are batches, each with keys of its own. Only what is computed tells: either
// side of an equation may be the place, either branch of a choice zero, choices may stand within
// each other and behind casts, and a condition that is counted is a choice of one.
#pragma once

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/codegen/group/analysis.h"

namespace warpsmith::codegen {

// The place along an axis of the domain: `number` less `minus`, in arithmetic of i64 that wraps. An
// index is one of indexes alone.
struct PlaceKey {
  int axis = -1;
  ValuePtr number = nullptr;  // or:
  Index index;
  int64_t minus = 0;
};

// What the sums of one kernel's values are made of, in its frame.
struct ScatterParts {
  std::vector<PlaceKey> keys;    // of all sums, in the order of their axes
  std::vector<ValuePtr> counts;  // conditions of a row beside its keys: all of them must hold
  std::vector<ValuePtr> met;     // hold wherever a row is added
  std::vector<ValuePtr> terms;   // of each reduce of the kernel, what is added where all that does
};

struct ScatterForm {
  // Axes of the domain, ascending: of places, of batches, of elements; and those of rows.
  std::vector<int> places, batches, elements, rows;
  int64_t place_count = 1, batch_count = 1, element_count = 1, row_count = 1;
  // Kept axes as the elements of the first root follow each other in memory, the fastest last.
  std::vector<int> order;
};

// InvalidArgument says what of the group is something else.
absl::StatusOr<ScatterForm> ScatterFormOf(const Analysis& group);
// Of a kernel of the form's group in which each axis but the last of `order` is a variable.
absl::StatusOr<ScatterParts> ScatterPartsOf(const ScatterForm& form, const Domain& domain,
                                            const Kernel& kernel);

}  // namespace warpsmith::codegen
