// The way to the planner that leads, of several.
//
//   Route route("10.0.0.7:4000,10.0.0.8:4000");     // or a DNS name that has the addresses of all
//   route.Begin();
//   do {
//     status = Call(Dial(route.address()));
//   } while (route.Next(status));
//
// A planner that follows says who leads, and that one is asked next; where nobody answers, the next
// of the list, not the one that named it. A later call begins with the one that answered last. Not
// thread-safe.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace warpsmith::rpc {

// Told from one to the next, in one call.
inline constexpr int kMaxHops = 3;

class Route {
 public:
  // Separated by commas; at least one.
  explicit Route(const std::string& addresses);

  const std::string& address() const { return address_; }
  bool several() const { return list_.size() > 1; }
  // Of a call: all of the list may be tried.
  void Begin();
  // After a call that ended so. True: the same call is worth a try at address(). It may have been
  // heard before where it was not answered.
  bool Next(const absl::Status& status);

 private:
  std::vector<std::string> list_;
  size_t at_ = 0;        // of the list
  std::string address_;  // may be another one, which was named as the leader
  size_t tried_ = 0;
  int hops_ = 0;
};

}  // namespace warpsmith::rpc
