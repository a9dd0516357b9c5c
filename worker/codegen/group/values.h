// The values of a group for one way of running through its domain: a frame says which variables a
// skeleton has and what each axis of the domain is in them.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "common/graph/graph.h"
#include "worker/codegen/group/domain.h"
#include "worker/codegen/ir/inline.h"
#include "worker/codegen/ir/value.h"

namespace warpsmith::codegen {

struct Frame {
  std::vector<Index> axes;  // each axis of the domain, in the variables of the skeleton
  Variable element, row, outer, column, k, lane;  // those the skeleton has
  int width = 1;                                  // lanes
  uint64_t row_variables = 0;  // what is fixed for a kept point (columns: for V of them)
};
// Makes the variables of a kernel and says what the axes are in them.
using FrameMaker = std::function<Frame(Values& values)>;

// What a kernel computes.
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
  std::vector<Reduce> totals;  // of the domain's; stage 0
  struct Root {
    int tensor;
    Level level;
    ValuePtr value;
    Index address;
    // Written only where this is `where`, in place of what may stay; null: everywhere.
    ValuePtr condition = nullptr;
    bool where = true;
    bool greatest = false;  // of what several write there the greatest stays
  };
  std::vector<Root> roots;
};

// InvalidArgument: a stage's result is needed elsewhere than at the point's own coordinates, a
// total before all rows are done or a row's result after that, or there are more variables than a
// kernel may have.
absl::StatusOr<Kernel> BuildKernel(const graph::Graph& graph, const Domain& domain,
                                   const InMemory& in_memory, const FrameMaker& make_frame);

// Every axis of the domain a variable of its own, with the axis' number: what analysis looks at.
Frame PointFrame(const Domain& domain, Values& values);

uint64_t BitOf(const Variable& variable);
// Every load that the kernel's reduces and roots need, arguments first.
std::vector<ValuePtr> LoadsOf(const Kernel& kernel);
// Of a domain of places, the reduces in its values that tell the last to name a place, in an order
// that does not depend on the frame.
std::vector<ValuePtr> SearchesOf(const Domain& domain, const Kernel& kernel);
// Values of reduces and totals, then what roots need.
std::vector<ValuePtr> TargetsOf(const Kernel& kernel);

}  // namespace warpsmith::codegen
