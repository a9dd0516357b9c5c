// What the two ways of lowering windows share.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/codegen/glue.h"

namespace warpsmith::codegen {

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
std::string WindowStruct(const GroupContext& context, const GroupSource& source,
                         const std::string& body);

// Windows that move by one along the contiguous axis: lanes share elements by shuffles (lanes.cc).
// FailedPrecondition: this group is none.
absl::StatusOr<GroupSource> GenerateLanes(const GroupContext& context, int outputs, int chunks);

}  // namespace warpsmith::codegen
