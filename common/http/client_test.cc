#include "common/http/client.h"

#include <catch2/catch.hpp>

#include "absl/strings/str_cat.h"
#include "common/http/server.h"
#include "common/security/authority.h"
#include "tests/support/temporary_folder.h"

namespace warpsmith::http {
namespace {

using Catch::Contains;
using security::Role;

absl::Time Date() { return absl::Now(); }

std::string TextOf(const absl::Status& status) { return std::string(status.message()); }

absl::StatusOr<std::string> Ask(const std::string& address, const std::string& path,
                                const std::string& ca = "") {
  return Get(address, path, ca, absl::Seconds(20));
}

// Answers what health is asked for.
std::unique_ptr<Server> Serve(std::shared_ptr<security::Guard> guard, int status) {
  auto server = Server::Start(
      {.listen = "127.0.0.1:0", .guard = std::move(guard)},
      {{"/healthz", [status] { return Reply{.status = status, .body = "as it is\n"}; }}});
  REQUIRE(server.ok());
  return *std::move(server);
}

TEST_CASE("what is answered is given, and anything else is an error that says where") {
  const auto guard = std::make_shared<security::Guard>(nullptr, nullptr, &Date);
  const auto well = Serve(guard, 200), unwell = Serve(guard, 503);
  CHECK(Ask(well->address(), "/healthz").value_or("") == "as it is\n");
  const auto refused = Ask(unwell->address(), "/healthz").status();
  CHECK(absl::IsUnavailable(refused));
  CHECK_THAT(TextOf(refused), Contains(unwell->address() + "/healthz: status 503: as it is"));
  CHECK(absl::IsUnavailable(Ask(well->address(), "/nothing").status()));
  const std::string gone = Serve(guard, 200)->address();
  CHECK(absl::IsUnavailable(Ask(gone, "/healthz").status()));
  for (const char* address :
       {"", "nowhere", ":80", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:65536"}) {
    INFO(address);
    CHECK(absl::IsInvalidArgument(Ask(address, "/healthz").status()));
  }
}

TEST_CASE("by TLS a server has to be of the authority, and have the name that it is called by") {
  const support::TemporaryFolder folder;
  security::Authority authority(folder / "ours"), others(folder / "others");
  for (security::Authority* each : {&authority, &others}) {
    REQUIRE(each->Init("fleet", absl::Hours(48), Date()).ok());
  }
  REQUIRE(authority.Issue({{Role::kPlanner, "planner"}, {}, absl::Hours(24)}, Date()).ok());
  const std::string pem = authority.Path("planner.pem"), ca = authority.Path("ca.crt");
  auto identity = security::WatchedIdentity::Open({.ca = ca, .cert = pem, .key = pem},
                                                  security::Needs::kPlanner, Date());
  REQUIRE(identity.ok());
  const auto server =
      Serve(std::make_shared<security::Guard>(identity->get(), nullptr, &Date), 200);
  const std::string port = server->address().substr(server->address().rfind(':'));
  CHECK(Ask("127.0.0.1" + port, "/healthz", ca).value_or("") == "as it is\n");
  CHECK(Ask("localhost" + port, "/healthz", ca).ok());
  CHECK(absl::IsUnavailable(Ask("127.0.0.2" + port, "/healthz", ca).status()));  // not in it
  CHECK(absl::IsUnavailable(Ask("127.0.0.1" + port, "/healthz", others.Path("ca.crt")).status()));
  CHECK(absl::IsUnavailable(Ask("127.0.0.1" + port, "/healthz").status()));  // plain
}

}  // namespace
}  // namespace warpsmith::http
