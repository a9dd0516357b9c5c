// Skeleton window: overlapping windows (pooling, sliding sums), and what its two ways of writing
// them share.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/codegen/skeleton/glue.h"
#include "worker/codegen/skeleton/skeleton.h"

namespace warpsmith::codegen {

// The outputs of an axis, in strips of `outputs` that are `step` apart: so far that a window covers
// inputs that the next one of the strip covers too. With stride 2 and dilation 3, windows at o, o +
// 3, o + 6 share a third of their rows and those at o, o + 1 none.
struct StripAxis {
  int64_t extent = 1;
  int outputs = 1;
  int64_t step = 1;

  // As many as fit; the step is 1 where the axis is too short for it.
  static StripAxis Of(int64_t extent, int outputs, int64_t step);
  int64_t strips() const;
  Range range() const {
    return {0, extent - 1 - step * (outputs - 1)};
  }  // of a strip's first output
  // C++ lines that make `first` from a strip's number; the last strips are moved back to end with
  // the axis.
  std::vector<std::string> Lines(const std::string& strip, const std::string& first) const;
};
struct WindowContext : GroupContext {
  int reduce = -1;  // the node whose windows these are
};

// The generated struct and what its launch needs to know.
struct WindowSource {
  std::string text;
  std::vector<Parameter> parameters;
  std::string index_type = "int";
  int64_t count = 0;  // strips
};

// What a node loads, over variables for its axes and reduce axes.
struct NodeLoads {
  Values values;
  std::vector<Variable> variables;
  std::vector<ValuePtr> loads;
};
// False where its expression cannot be built.
bool FindLoads(const WindowContext& context, const graph::Node& node, NodeLoads& found);

// The step that suits a window along an output axis of its node.
int64_t StepOf(const WindowContext& context, const graph::Node& node, int axis);

// Output axes that windows move over, outermost first: indexes mix them with a reduce axis.
std::vector<int> WindowAxes(const graph::Node& node);
// Reduce axes that stand in an index together with this output axis.
std::vector<int> TapsOf(const graph::Node& node, int axis);
// Whether two shapes are the same but for extents of 1, and coordinates of one as those of the
// other.
bool SameButOnes(const std::vector<int64_t>& a, const std::vector<int64_t>& b);
std::vector<Index> MatchAxes(const std::vector<Index>& at, const std::vector<int64_t>& from,
                             const std::vector<int64_t>& to);
// Values of `variable` for which every condition that depends on it alone holds.
Range InteriorOf(const Values& values, const std::vector<ValuePtr>& roots,
                 const Variable& variable);
// The struct around emit's body; nothing is loaded beforehand.
std::string WindowStruct(const WindowContext& context, const WindowSource& source,
                         const std::string& body);

// Windows that move by one along the contiguous axis: lanes share elements by shuffles (lanes.cc).
// FailedPrecondition: this group is none.
absl::StatusOr<WindowSource> GenerateLanes(const WindowContext& context, int outputs, int chunks);
// Whether it is one, and elements that a thread would load.
absl::StatusOr<int64_t> LoadsOfLanes(const WindowContext& context, int outputs, int chunks);

const Skeleton* WindowSkeleton();

}  // namespace warpsmith::codegen
