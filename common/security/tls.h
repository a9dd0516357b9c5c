// gRPC's credentials from identities and guards.
//
//   builder.AddListeningPort(address, ServerCredentials(Listener::kAll, guard), &port);
//   auto caller = CallerOf(*context, *guard);                          // in a handler
//   auto channel = grpc::CreateCustomChannel(address, *ChannelCredentials(identity, ""),
//   arguments);
//
// A server asks the guard of each call before it reads its request. Handshakes use the guard's
// identity as it is then, so that a changed certificate needs no restart; connections that there
// are go on. TLS 1.2 is the least, and TLS is mutual where the client has a certificate.
#pragma once

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/security/guard.h"
#include "common/security/identity.h"
#include "common/security/roles.h"

namespace warpsmith::security {

// Of one listener. The server keeps the guard; what it points to must outlive the server.
std::shared_ptr<grpc::ServerCredentials> ServerCredentials(Listener listener,
                                                           std::shared_ptr<Guard> guard);

// Who makes a call that such credentials admitted.
absl::StatusOr<Caller> CallerOf(const grpc::ServerContextBase& context, Guard& guard);

// Of a client: takes a planner alone, by its certificate's role, hosts and time; the reason why one
// is refused is part of the error of a call. `token` "": none.
std::shared_ptr<grpc::ChannelCredentials> ChannelCredentials(
    std::shared_ptr<const Identity> identity, const std::string& token,
    std::function<absl::Time()> date);

// Of a client that believes whoever answers: for a server that asks itself whether it answers, and
// says nothing that matters.
std::shared_ptr<grpc::ChannelCredentials> UnverifiedChannelCredentials(
    std::shared_ptr<const Identity> identity);

}  // namespace warpsmith::security
