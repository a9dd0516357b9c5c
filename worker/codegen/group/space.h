// The iteration space of a group: which reduces are stages of its skeleton, what a row is, and
// where every element of its results lies in it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/graph/graph.h"
#include "warpsmith/v1/schedule.pb.h"
#include "worker/codegen/ir/inline.h"
#include "worker/codegen/ir/value.h"

namespace warpsmith::codegen {

using InMemory = std::function<bool(int tensor)>;

// Where a coordinate of a root comes from.
struct AxisSource {
  int node = -1;  // a stage's node: its axis (axes, then reduce axes); -1: a part of the position k
  int axis = 0;
};

struct RootPlan {
  enum class Kind { kElement, kFull, kRow };  // map; (row, k); row
  int tensor = -1;
  Kind kind = Kind::kElement;
  bool linear = true;            // row-major over the whole space (or rows)
  std::vector<AxisSource> axes;  // otherwise
};

struct StageNode {
  int node = -1;
  int stage = 0;
  std::vector<int> reduce_order;  // reduce axes, outermost first, as k runs through them
};

struct Space {
  v1::Skeleton skeleton = v1::SKELETON_MAP;
  std::vector<int> roots;       // tensors that the kernel writes
  std::vector<RootPlan> plans;  // one for each
  // map
  int64_t elements = 0;
  bool window = false;  // reduces in the thread overlap or are strided
  // rows, columns
  int primary = -1;              // node whose kept and reduced axes make the space
  std::vector<StageNode> nodes;  // in graph order
  int stages = 0;
  int64_t rows = 1;                // kept elements
  int64_t row_elements = 1;        // K
  int64_t outer = 1, columns = 1;  // columns skeleton: rows = outer * columns
  std::vector<bool> inner;         // columns skeleton: which kept axes of the primary are inner
  std::map<int, int> online;       // sum of exp(x - max): its node -> the maximum's
  bool online_used = false;        // they are one stage

  const StageNode* Find(int node) const;
};

// InvalidArgument says why the roots cannot be one kernel of this skeleton.
absl::StatusOr<Space> FindSpace(const graph::Graph& graph, const std::vector<int>& roots,
                                const InMemory& in_memory, v1::Skeleton wanted);
// Joins every maximum with its sum of exponentials into one stage.
void MakeOnline(const graph::Graph& graph, const InMemory& in_memory, Space& space);

// The variables of one vector width.
struct Frame {
  Variable element, row, outer, column, k, lane;  // those the skeleton has
  int width = 1;
  std::vector<Index> kept;     // coordinates of the primary's kept axes
  Index position;              // k, with the lane where lanes run along k
  Index linear;                // map: the output element
  uint64_t row_variables = 0;  // what is fixed for a row (or V columns)
};

// The values of a group for one vector width.
struct Kernel {
  std::unique_ptr<Values> values;
  Frame frame;
  struct Reduce {
    int node;
    int stage;
    ValuePtr value;
    ValuePtr position;  // argmax, argmin: i64
  };
  std::vector<Reduce> reduces;
  struct Root {
    int tensor;
    RootPlan::Kind kind;
    ValuePtr value;
    Index address;
  };
  std::vector<Root> roots;
};

// `aligned`: k (map: the element, columns: the column) is a multiple of the width.
absl::StatusOr<Kernel> BuildKernel(const graph::Graph& graph, const Space& space,
                                   const InMemory& in_memory, int width, bool aligned);

// Nodes that must be computed for `roots` where `in_memory` tensors are there, in graph order.
std::vector<int> NeededNodes(const graph::Graph& graph, const std::vector<int>& roots,
                             const InMemory& in_memory);

}  // namespace warpsmith::codegen
