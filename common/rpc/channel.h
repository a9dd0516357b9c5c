// gRPC settings that both ends share, so that they fit each other.
//
// Why each: servers reap a frozen peer (default: two hours), clients notice a dead planner, and a
// server must allow the pings its clients send or it closes their connections. Two planners must
// not share a port, which gRPC allows by default.
//
//   auto channel = rpc::Dial(address);
//   auto stub = v1::PlannerService::NewStub(channel);
//   grpc::ClientContext context;
//   rpc::SetDeadline(context, rpc::kCallTimeoutMs);
#pragma once

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace warpsmith::rpc {

inline constexpr int kMaxMessageBytes = 64 << 20;
inline constexpr int kKeepaliveMs = 20'000;
inline constexpr int kKeepaliveTimeoutMs = 10'000;
// A planner parks an idle worker's Synchronize at most this long; give such a call kParkMs +
// kCallTimeoutMs as its deadline.
inline constexpr int64_t kParkMs = 30'000;
inline constexpr int64_t kCallTimeoutMs = 10'000;

// One channel serves a whole process; it connects when first used and again after the planner was
// away, with a back-off of 0.1 to 5 s. Any thread.
std::shared_ptr<grpc::Channel> Dial(const std::string& address);
std::shared_ptr<grpc::Channel> Dial(const std::string& address,
                                    const std::shared_ptr<grpc::ChannelCredentials>& credentials);
// As Dial, but over a connection of its own: what a liveness check needs.
std::shared_ptr<grpc::Channel> DialFresh(const std::string& address);
std::shared_ptr<grpc::Channel> DialFresh(
    const std::string& address, const std::shared_ptr<grpc::ChannelCredentials>& credentials);

// `timeout_ms` from now, as gRPC takes a deadline. It takes a std::chrono::system_clock's time too
// and converts that where the call starts; this one is monotonic from the beginning.
gpr_timespec In(int64_t timeout_ms);
// Deadline `timeout_ms` from now.
void SetDeadline(grpc::ClientContext& context, int64_t timeout_ms);

// Limits of one listener.
struct ServerLimits {
  int message_bytes = kMaxMessageBytes;
  int metadata_bytes = 16 << 10;  // of a call's headers, all together
  int calls = 100;                // at a time, of one connection
  int handshake_ms = 20'000;  // from the connection to its first frame: whoever is slower is gone
  int idle_ms = 600'000;      // without a call
};
// Those, keepalive, SO_REUSEPORT off. The listening port is added by the caller.
void ApplyServerSettings(grpc::ServerBuilder& builder, const ServerLimits& limits = {});

// Raises RLIMIT_NOFILE to its hard limit and returns it. gRPC's listener goes deaf for good after
// one failed accept, so a server keeps well below this.
absl::StatusOr<int64_t> RaiseFileLimit();

}  // namespace warpsmith::rpc
