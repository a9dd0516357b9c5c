// Where the planner is found.
//
//   dir:      one folder holds everything of one planner: its log, its board, its address.
//   address:  "127.0.0.1:40123" or "unix:/absolute/path". The planner writes the one it listens on
//             to DIR/planner.address when it is ready to answer, and removes it when it ends in
//             good order. A planner that was killed leaves a stale one: who dials must expect
//             Unavailable.
//
// Workers and clients may have listeners of their own: both addresses are told then, a line
// each, also of a leader by those that follow it.
//
//   std::string dir = rpc::DefaultDir(getenv("XDG_DATA_HOME"), getenv("HOME"));
//   absl::StatusOr<std::string> address = rpc::ReadAddress(dir);
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace warpsmith::rpc {

inline constexpr char kAddressFile[] = "planner.address";

// $XDG_DATA_HOME/warpsmith, or ~/.local/share/warpsmith. Arguments may be null: only main() reads
// the environment. Empty if neither is set.
std::string DefaultDir(const char* xdg_data_home, const char* home);

struct Addresses {
  std::string workers, clients;
};
// One or two lines; and back.
std::string Text(const Addresses& addresses);
Addresses ParseAddresses(const std::string& text);
// Where this machine reaches who listens there: of all its addresses, 0.0.0.0 or [::], loopback.
std::string Reachable(const std::string& listening);
bool IsEveryAddress(const std::string& listening);

// NotFound says that no planner is running on `dir` and how to start one.
absl::StatusOr<Addresses> ReadAddresses(const std::string& dir);
// That for workers, which is that for everybody where there is no other.
absl::StatusOr<std::string> ReadAddress(const std::string& dir);
// Atomic: a reader sees the old file or the new one.
absl::Status WriteAddresses(const std::string& dir, const Addresses& addresses);
void RemoveAddress(const std::string& dir);

// OK for "unix:/path" and for a loopback "HOST:PORT"; with `secured` (TLS, so that callers say who
// they are) for any "HOST:PORT". Anything else is an InvalidArgument: where callers are not known,
// a planner is not to be reached from other hosts.
absl::Status ValidateListenAddress(const std::string& address, bool secured = false);

}  // namespace warpsmith::rpc
