// The domain of a group: axes with roles, and where the group's tensors lie in it.
//
//   y[r, c] = exp(x[r, c] - m[r]) / s[r]      axes: r kept, c reduced
//     nodes  m, s at (r; c)                    each computes an element for each kept point
//     roots  y at (r, c), full
//
// A group can be seen in two ways. As elements: every axis of its first root is kept, and reduces
// inside are loops of the thread. As stages: the axes of its largest reduce, kept and reduced, and
// reduces over the same axes are stages, each of which may read the results of those before it.
//
// Beside the stages of rows there may be totals: reduces over the rows themselves, with a result
// for each place of a row (a gradient of a weight beside that of a norm's input). Rows fall in
// segments where totals keep some of the kept axes.
//
//   a[r] = sum[c](dy[r, c] * w[c])           a stage, at (r; c)
//   dw[c] = sum[r](dy[r, c] * x[r, c])       a total, at (c; r)
//
// A group with a scan is seen as one: the scan's axes, one of which is carried, its node in each
// point, and maps after it that use it point by point.
//
// A group that leaves most of what it computes as it was is seen as places: the points that change,
// a slice or what a table names, are its elements.
//
//   new[n, d] = select(last[n] >= 0, y[last[n], d], cache[n, d])    axes: t, d kept
//     roots  new at (slots[t], d), where t is the last to name the slot; cache stays elsewhere
//            y at (t, d)
//
// The search for who is the last to name a place can be seen so, too: each writer raises `last`,
// which begins as -1, to its own number.
//
// A placement says for each coordinate of a tensor which expression over the domain's axes it is.
// Wherever it comes from, it is checked before anything is made of it: roots are written exactly
// once in every element, at the points of the domain that they belong to, and results of a stage
// are read at the point's own coordinates.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/graph/graph.h"
#include "common/graph/scatter.h"
#include "worker/codegen/ir/index.h"

namespace warpsmith::codegen {

using InMemory = std::function<bool(int tensor)>;

// kKept: of the result. kReduced: combined over. kCarried: combined along, with a result at each
// point.
enum class Role { kKept, kReduced, kCarried };

struct DomainAxis {
  Variable variable;  // its id is the axis' number; range: its extent
  Role role = Role::kKept;
  int64_t extent() const { return variable.range.high + 1; }
};

// A reduce or a scan that is computed over the domain.
struct StageNode {
  int node = -1;
  int stage = 0;          // one more than the latest whose result it reads
  std::vector<Index> at;  // its axes, then its reduce axes
};

// A reduce over rows, for each place of a row: over the kept axes that are no segments.
struct TotalNode {
  int node = -1;
  std::vector<Index> at;  // its axes, then its reduce axes
};

// What a root has an element for: each point, each row (kept point), or each place of a segment's
// rows.
enum class Level { kPoints, kRows, kTotals };

// A tensor that the group writes.
struct RootPlace {
  int tensor = -1;
  Level level = Level::kPoints;
  std::vector<Index> at;  // its axes
  // Of places: this tensor stays where the group does not write. -1: all of it is written, or (with
  // a scatter) -1 stays.
  int base = -1;
  // Not null: it is written at places that a table names, and `at` is of the scatter's axes.
  std::shared_ptr<const graph::Scatter> scatter;
  // Of rows: some have no element, and `at` is beyond its axes there.
  bool cropped = false;
};

// How the largest reduce (as elements: the first root) reads or writes memory along the axes.
struct Pattern {
  bool known = false;           // there is such an access
  bool guarded = false;         // under bounds predicates
  bool overlapping = false;     // windows that share elements
  bool parted = false;          // neighbours along an axis share an element, whose stride is 1
  std::vector<int64_t> stride;  // of the main access, one for each axis; 0: none, or not affine
};

struct Domain {
  std::vector<DomainAxis> axes;   // kept ones first, each role from the outermost to the innermost
  int primary = -1;               // the reduce or scan that gave the axes; -1: as elements
  std::vector<StageNode> nodes;   // in graph order; empty as elements
  int stages = 0;                 // of reduces
  std::vector<TotalNode> totals;  // in graph order
  std::vector<bool> segments;     // of axes: kept ones that all totals keep; empty: none
  std::vector<RootPlace> roots;
  Pattern pattern;
  std::map<int, int> online;  // sum of exp(x - max): its node -> the maximum's
  bool online_used = false;   // they are one stage

  // As places: of reduces that tell the last to name a place, nodes; and how many elements that
  // follow each other ask for the same.
  std::vector<int> searches;
  int64_t part = 0;

  bool elements() const { return primary < 0; }
  bool partial() const;  // as places
  int64_t kept() const { return Points(Role::kKept); }
  int64_t reduced() const { return Points(Role::kReduced); }
  int64_t carried() const { return Points(Role::kCarried); }
  // Extents of the axes of a role.
  std::vector<int64_t> Extents(Role role) const;
  const StageNode* Find(int node) const;
  const TotalNode* FindTotal(int node) const;
  bool IsSegment(size_t axis) const { return axis < segments.size() && segments[axis]; }
  int64_t segment_count() const;
  // The axes that tell a level's elements apart.
  std::vector<DomainAxis> AxesOf(Level level) const;

 private:
  int64_t Points(Role role) const;
};

// The group as elements. InvalidArgument: roots of different sizes, or a reduce that no thread can
// do alone.
absl::StatusOr<Domain> ElementsOf(const graph::Graph& graph, const std::vector<int>& roots,
                                  const InMemory& in_memory);
// The group as the places that it changes. InvalidArgument: it changes all of what it writes, or
// its roots do not have as many places each.
absl::StatusOr<Domain> PlacesOf(const graph::Graph& graph, const std::vector<int>& roots,
                                const InMemory& in_memory);
// The group as stages. InvalidArgument says why it cannot be seen so. `cropped`: roots may leave
// rows out.
absl::StatusOr<Domain> StagesOf(const graph::Graph& graph, const std::vector<int>& roots,
                                const InMemory& in_memory, bool cropped = false);
// The group round its scan. InvalidArgument: it has none, or something else that combines, or a
// root that does not use the scan point by point.
absl::StatusOr<Domain> ScanOf(const graph::Graph& graph, const std::vector<int>& roots,
                              const InMemory& in_memory);
// Joins every maximum with its sum of exponentials into one stage.
void MakeOnline(const graph::Graph& graph, const InMemory& in_memory, Domain& domain);

// Kept axes that follow each other in memory from stride 1 upwards, by the pattern.
std::vector<bool> InnerAxes(const Domain& domain);
// Contiguous elements that the reduced axes run through, from stride 1 up; 0 if none.
int64_t ReducedRun(const Domain& domain);
// The reduce of the group that combines most elements, a node; -1: it has none.
int LargestReduce(const graph::Graph& graph, const std::vector<int>& roots,
                  const InMemory& in_memory);

// What the graph is for: its outputs, and what states are updated with.
std::vector<int> ResultsOf(const graph::Graph& graph);
// Nodes that must be computed for `roots` where `in_memory` tensors are there, in graph order.
std::vector<int> NeededNodes(const graph::Graph& graph, const std::vector<int>& roots,
                             const InMemory& in_memory);

inline bool IsHalf(graph::DType type) {
  return type == graph::DType::kF16 || type == graph::DType::kBF16;
}

int64_t Product(const std::vector<graph::Axis>& axes);
int64_t Product(const std::vector<int64_t>& extents);
std::vector<int64_t> ExtentsOf(const std::vector<graph::Axis>& axes);

}  // namespace warpsmith::codegen
