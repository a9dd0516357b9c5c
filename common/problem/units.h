// A plan in units that a compiler can take one by one: those that it has had before need not be
// compiled again, and the others are compiled side by side.
//
// Lines of the source say where a part begins:
//   //: group    of kernels: text for its units, and for no other group's
//   //: shared   more text for the group's units that follow
//   //: unit     a kernel
// What stands before the first is every unit's. As a whole the source is a program, too.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace warpsmith::problem {

inline constexpr char kGroupMark[] = "//: group\n";
inline constexpr char kSharedMark[] = "//: shared\n";
inline constexpr char kUnitMark[] = "//: unit\n";

// Before a source: its kernels wait for a barrier of their pipeline so long and no longer, and say
// for which (worker/kernels/hopper.cuh). Judges run it once, and take it for no candidate.
inline constexpr char kBoundWaits[] = "#define WS_BOUND_WAITS\n";

// Each with all that it needs, in order; the source itself where it has no marks.
std::vector<std::string> UnitsOf(const std::string& source);

// What units were compiled to, as one text: a single image is itself, several have a head and their
// sizes before them.
std::string JoinImages(const std::vector<std::string>& images);

// What was joined; text without the head is one image. DataLoss: the sizes are not those of what
// follows.
absl::StatusOr<std::vector<std::string>> ImagesOf(const std::string& joined);

}  // namespace warpsmith::problem
