#include "common/rpc/channel.h"

#include <sys/resource.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace warpsmith::rpc {
namespace {

constexpr int kMinReconnectMs = 100;
constexpr int kMaxReconnectMs = 5'000;
// How long a connection may take to be there, the server's greeting included: one that is busy
// greets late. gRPC calls this the least back-off, and does not wait so long after a refusal.
constexpr int kConnectTimeoutMs = 10'000;
// Without this a server answers pings that come more often than every five minutes with GOAWAY.
constexpr int kMinPingIntervalMs = 10'000;
// A ping with whatever is received, to make windows larger: calls of workers are few and far
// between, and with thousands of them it is a tenth of the planner's memory.
constexpr int kProbesBandwidth = 0;

// What is sent at a time by TLS: each connection has a buffer of that size, of 16 KiB if nobody says
// anything.
constexpr int kTlsRecordBytes = 4 << 10;

grpc::ChannelArguments ClientArguments() {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kMinReconnectMs);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectTimeoutMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kMaxReconnectMs);
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, kProbesBandwidth);
  // Proxies of the environment are not for a planner on the same host.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  arguments.SetMaxSendMessageSize(kMaxMessageBytes);
  return arguments;
}

}  // namespace

std::shared_ptr<grpc::Channel> Dial(const std::string& address) {
  return Dial(address, grpc::InsecureChannelCredentials());
}

std::shared_ptr<grpc::Channel> Dial(const std::string& address,
                                    const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
  return grpc::CreateCustomChannel(address, credentials, ClientArguments());
}

std::shared_ptr<grpc::Channel> DialFresh(const std::string& address) {
  return DialFresh(address, grpc::InsecureChannelCredentials());
}

std::shared_ptr<grpc::Channel> DialFresh(
    const std::string& address, const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
  grpc::ChannelArguments arguments = ClientArguments();
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(address, credentials, arguments);
}

gpr_timespec In(int64_t timeout_ms) {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis(timeout_ms, GPR_TIMESPAN));
}

void SetDeadline(grpc::ClientContext& context, int64_t timeout_ms) {
  context.set_deadline(In(timeout_ms));
}

void ApplyServerSettings(grpc::ServerBuilder& builder, const ServerLimits& limits) {
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             kMinPingIntervalMs);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, kProbesBandwidth);
  builder.AddChannelArgument(GRPC_ARG_TSI_MAX_FRAME_SIZE, kTlsRecordBytes);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, limits.metadata_bytes);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, limits.calls);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, limits.handshake_ms);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, limits.idle_ms);
  builder.SetMaxReceiveMessageSize(limits.message_bytes);
  builder.SetMaxSendMessageSize(kMaxMessageBytes);
}

absl::StatusOr<int64_t> RaiseFileLimit() {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return absl::InternalError(absl::StrCat("getrlimit(RLIMIT_NOFILE): ", std::strerror(errno)));
  }
  limit.rlim_cur = limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return absl::InternalError(absl::StrCat("setrlimit(RLIMIT_NOFILE): ", std::strerror(errno)));
  }
  return static_cast<int64_t>(limit.rlim_cur);
}

}  // namespace warpsmith::rpc
