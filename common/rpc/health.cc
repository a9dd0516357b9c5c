#include "common/rpc/health.h"

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/rpc/channel.h"
#include "common/rpc/status.h"

namespace warpsmith::rpc {
namespace {

constexpr char kMethod[] = "/grpc.health.v1.Health/Check";
// HealthCheckResponse{status: SERVING}: field 1, a varint, 1. Debian ships no stubs for it.
constexpr char kServing[] = "\x08\x01";

// HealthCheckRequest{service}: field 1, of fewer than 128 characters.
std::string RequestFor(const std::string& service) {
  if (service.empty()) return "";
  return absl::StrCat("\x0a", std::string(1, static_cast<char>(service.size())), service);
}

absl::Status Check(const std::shared_ptr<grpc::Channel>& channel, const std::string& service,
                   int64_t timeout_ms);

}  // namespace

absl::Status CheckHealth(const std::string& address, int64_t timeout_ms) {
  return CheckHealth(DialFresh(address), timeout_ms);
}

absl::Status CheckHealth(const std::shared_ptr<grpc::Channel>& channel, int64_t timeout_ms) {
  return Check(channel, "", timeout_ms);
}

absl::Status CheckService(const std::string& address, const std::string& service,
                          int64_t timeout_ms) {
  return Check(DialFresh(address), service, timeout_ms);
}

absl::Status CheckService(const std::shared_ptr<grpc::Channel>& channel, const std::string& service,
                          int64_t timeout_ms) {
  return Check(channel, service, timeout_ms);
}

namespace {

absl::Status Check(const std::shared_ptr<grpc::Channel>& channel, const std::string& service,
                   int64_t timeout_ms) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  SetDeadline(context, timeout_ms);
  grpc::CompletionQueue queue;
  const grpc::Slice bytes_of_request(RequestFor(service));
  const grpc::ByteBuffer request(&bytes_of_request, 1);
  auto call = stub.PrepareUnaryCall(&context, kMethod, request, &queue);
  call->StartCall();
  grpc::ByteBuffer reply;
  grpc::Status status;
  call->Finish(&reply, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  queue.Shutdown();
  while (queue.Next(&tag, &ok)) {
  }
  if (!status.ok()) return FromGrpc(status);
  std::vector<grpc::Slice> slices;
  std::string bytes;
  if (reply.Dump(&slices).ok()) {
    for (const grpc::Slice& slice : slices) {
      bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
    }
  }
  if (bytes == kServing) return absl::OkStatus();
  return absl::UnavailableError("the server is not serving");
}

}  // namespace

}  // namespace warpsmith::rpc
