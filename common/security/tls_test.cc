#include "common/security/tls.h"

#include <grpc/grpc_security.h>
#include <stdlib.h>

#include <catch2/catch.hpp>

#include "common/rpc/channel.h"
#include "common/security/authority.h"
#include "tests/support/temporary_folder.h"
#include "warpsmith/v1/planner.grpc.pb.h"

namespace warpsmith::security {
namespace {

using Catch::Matchers::Contains;

// Answers List with the role of who asks.
class Answering final : public v1::PlannerService::Service {
 public:
  explicit Answering(std::shared_ptr<Guard> guard) : guard_(std::move(guard)) {}
  grpc::Status List(grpc::ServerContext* context, const v1::ListRequest*,
                    v1::ListReply* reply) override {
    const absl::StatusOr<Caller> caller = CallerOf(*context, *guard_);
    if (!caller.ok()) return {grpc::StatusCode::INTERNAL, std::string(caller.status().message())};
    reply->add_runs()->set_id(std::string(NameOf(caller->role)));
    return grpc::Status::OK;
  }

 private:
  const std::shared_ptr<Guard> guard_;
};

// A server with an authority of its own, on a port of 127.0.0.1.
struct Serving {
  support::TemporaryFolder folder;
  Authority authority{folder.path()};
  Tokens tokens{folder.path() + "/tokens"};
  std::unique_ptr<WatchedIdentity> identity;
  std::shared_ptr<Guard> guard;
  std::shared_ptr<grpc::ServerCredentials> credentials;
  std::unique_ptr<Answering> service;
  std::unique_ptr<grpc::Server> server;
  std::string address;

  Serving() {
    const absl::Time now = absl::Now();
    REQUIRE(authority.Init("fleet", kAuthorityLife, now).ok());
    REQUIRE(authority.Issue({{Role::kPlanner, "p"}, {"127.0.0.1"}}, now).ok());
    identity = *WatchedIdentity::Open({authority.Path("ca.crt"), authority.Path("p.pem"),
                                       authority.Path("p.pem"), authority.Path("crl.pem")},
                                      Needs::kPlanner, now);
    guard = std::make_shared<Guard>(identity.get(), &tokens, absl::Now);
    credentials = ServerCredentials(Listener::kAll, guard);
    service = std::make_unique<Answering>(guard);
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", credentials, &port);
    builder.RegisterService(service.get());
    server = builder.BuildAndStart();
    REQUIRE(server != nullptr);
    address = "127.0.0.1:" + std::to_string(port);
  }

  std::string Token(Role role, const std::string& name) {
    const std::string token = *tokens.Issue({role, name}, absl::Hours(24), absl::Now());
    guard->Refresh();
    return token;
  }
  std::shared_ptr<const Identity> Believing() {
    return *ReadIdentity({.ca = authority.Path("ca.crt")}, Needs::kNothing, absl::Now());
  }
};

grpc::Status List(const std::shared_ptr<grpc::Channel>& channel,
                  const std::vector<std::string>& authorizations, v1::ListReply* reply) {
  grpc::ClientContext context;
  rpc::SetDeadline(context, rpc::kCallTimeoutMs);
  for (const std::string& each : authorizations) context.AddMetadata("authorization", each);
  return v1::PlannerService::NewStub(channel)->List(&context, {}, reply);
}

TEST_CASE("who believes whoever answers needs no roots of the machine") {
  // As on a machine that has none.
  setenv("GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", "/nonexistent", 1);
  setenv("GRPC_NOT_USE_SYSTEM_SSL_ROOTS", "true", 1);
  grpc_set_ssl_roots_override_callback(
      [](char**) { return GRPC_SSL_ROOTS_OVERRIDE_FAIL_PERMANENTLY; });
  Serving serving;
  v1::ListReply reply;
  const grpc::Status refused =
      List(rpc::DialFresh(serving.address, UnverifiedChannelCredentials(serving.Believing())), {},
           &reply);
  // The planner's own words: so it was reached.
  CHECK_THAT(refused.error_message(), Contains("says not who makes it"));
}

TEST_CASE("a call that says twice who makes it is refused") {
  Serving serving;
  const std::string reader = "Bearer " + serving.Token(Role::kReader, "r");
  const std::string op = "Bearer " + serving.Token(Role::kOperator, "o");
  const auto channel =
      rpc::DialFresh(serving.address, ChannelCredentials(serving.Believing(), "", absl::Now));
  v1::ListReply reply;
  const grpc::Status once = List(channel, {op}, &reply);
  CHECK(once.error_message() == "");
  REQUIRE(reply.runs_size() == 1);
  CHECK(reply.runs(0).id() == "operator");
  for (const auto& both : {std::vector{reader, op}, {op, reader}, {op, op}, {op, std::string()}}) {
    const grpc::Status refused = List(channel, both, &reply);
    CHECK(refused.error_code() == grpc::StatusCode::UNAUTHENTICATED);
    CHECK_THAT(refused.error_message(), Contains("Bearer TOKEN"));
  }
}

}  // namespace
}  // namespace warpsmith::security
