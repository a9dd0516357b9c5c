// Debian's Abseil is built with its checks for debugging: each lock that is taken is looked up in a
// graph of which was held when, gRPC's own among them. Under ten thousand workers that was 5 %
// of the planner's time by its profile. Builds with a sanitiser look at the order of locks themselves. Linked into
// whatever uses warpsmith_base (CMakeLists.txt).
#include "absl/synchronization/mutex.h"

extern "C" {
// What the linker asks for, so that this file is not left out of a program.
extern const bool warpsmith_lock_order;
const bool warpsmith_lock_order = [] {
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  return true;
}();
}
