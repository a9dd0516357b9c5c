#include "common/security/guard.h"

#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <sstream>

#include "common/base/file.h"
#include "common/base/private_file.h"
#include "common/security/authority.h"
#include "common/security/dialer.h"
#include "tests/support/temporary_folder.h"

namespace warpsmith::security {
namespace {

using Catch::Matchers::Contains;

constexpr char kSubmit[] = "/warpsmith.v1.PlannerService/Submit";
constexpr char kHealth[] = "/grpc.health.v1.Health/Check";

std::string Message(const absl::Status& status) { return std::string(status.message()); }

TEST_CASE("a caller is who its token says, else who its certificate says") {
  const support::TemporaryFolder folder;
  absl::Time now = absl::FromUnixSeconds(1'800'000'000);
  Authority authority(folder.path());
  REQUIRE(authority.Init("fleet", kAuthorityLife, now).ok());
  REQUIRE(authority.Issue({{Role::kPlanner, "p"}, {"localhost"}}, now).ok());
  REQUIRE(authority.Issue({{Role::kReader, "ada"}}, now).ok());
  Tokens tokens(folder.path() + "/tokens");
  const std::string token = *tokens.Issue({Role::kSubmitter, "ci"}, absl::Hours(24), now);
  auto identity = WatchedIdentity::Open({authority.Path("ca.crt"), authority.Path("p.pem"),
                                         authority.Path("p.pem"), authority.Path("crl.pem")},
                                        Needs::kPlanner, now);
  REQUIRE(identity.status() == absl::OkStatus());
  Guard guard(identity->get(), &tokens, [&] { return now; });
  guard.Refresh();
  const std::string ada = *base::ReadFile(authority.Path("ada.pem"));
  const std::string bearer = "Bearer " + token;
  const auto refusal = [&](const Proof& proof) {
    return Message(guard.Admit(Listener::kAll, kSubmit, proof).status());
  };
  CHECK_THAT(refusal({}), Contains("says not who makes it"));
  CHECK_THAT(refusal({.certificate_pem = ada}), Contains("reader 'ada'"));
  CHECK(refusal({.certificate_pem = ada, .authorization = bearer}) == "");
  CHECK(guard.CallerOf({.authorization = bearer})->name == "ci");
  // A bad token is not made good by a certificate.
  CHECK_THAT(refusal({.certificate_pem = ada, .authorization = "Bearer x"}),
             Contains("knows no such token"));
  CHECK_THAT(refusal({.authorization = "Basic x"}), Contains("Bearer TOKEN"));
  CHECK_THAT(refusal({.certificate_pem = "rubbish"}), Contains("holds no certificate"));

  // What was good once is not good for ever.
  const auto list = [&] {
    return guard.Admit(Listener::kAll, "/warpsmith.v1.PlannerService/List",
                       {.certificate_pem = ada});
  };
  CHECK(list().ok());
  REQUIRE(authority.Revoke("ada", now).ok());
  CHECK(list().ok());
  guard.Refresh();
  CHECK_THAT(Message(list().status()), Contains("was revoked"));
  CHECK(guard.Admit(Listener::kWorkers, kHealth, {.certificate_pem = ada}).ok());
  now += absl::Hours(24 * 91);
  CHECK_THAT(refusal({.authorization = bearer}), Contains("expired"));
}

TEST_CASE("without TLS every caller is local, and listeners are told apart all the same") {
  Guard guard(nullptr, nullptr, absl::Now);
  guard.Refresh();
  CHECK(guard.Admit(Listener::kAll, kSubmit, {.authorization = "Bearer x"})->role == Role::kLocal);
  CHECK_FALSE(guard.Admit(Listener::kWorkers, kSubmit, {}).ok());
  CHECK_FALSE(guard.Admit(Listener::kHttp, kSubmit, {}).ok());
  CHECK(guard.Admit(Listener::kWorkers, kHealth, {}).ok());
}

TEST_CASE("what callers write does not fill the log") {
  Guard guard(nullptr, nullptr, absl::Now);
  const auto before = spdlog::default_logger();
  std::ostringstream log;
  auto sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(log);
  spdlog::set_default_logger(std::make_shared<spdlog::logger>("test", sink));
  const std::string endless = "/x/y\n[error] forged" + std::string(10'000, 'z');
  CHECK_FALSE(guard.Admit(Listener::kAll, endless, {}).ok());
  CHECK_FALSE(guard.Admit(Listener::kAll, endless, {}).ok());
  spdlog::set_default_logger(before);
  const std::string text = log.str();
  CHECK_THAT(text, Contains("refused a call"));
  CHECK(text.size() < 400);
  CHECK(std::count(text.begin(), text.end(), '\n') == 1);
}

TEST_CASE("what is wrong with a client's own files is said before it dials") {
  const support::TemporaryFolder folder;
  const absl::Time now = absl::FromUnixSeconds(1'800'000'000);
  Authority authority(folder.path());
  REQUIRE(authority.Init("fleet", kAuthorityLife, now).ok());
  REQUIRE(authority.Issue({{Role::kReader, "ada"}}, now).ok());
  const Files tls{authority.Path("ca.crt"), authority.Path("ada.pem"), authority.Path("ada.pem"),
                  ""};
  const std::string token = folder.path() + "/token";
  absl::Time date = now;
  const auto dial = [&](ClientFiles files) {
    return Message(Dialer(std::move(files), [&] { return date; }).Dial("localhost:1").status());
  };
  CHECK(dial({}) == "");
  CHECK(dial({tls, ""}) == "");
  CHECK_THAT(dial({{}, token}), Contains("give --tls-ca"));
  CHECK_THAT(dial({tls, token}), Contains("--token-file: cannot open"));
  REQUIRE(base::WriteFileAtomically(token, "wst_x\n").ok());
  CHECK_THAT(dial({tls, token}), Contains("others can read"));
  REQUIRE(base::WritePrivateFile(token, "\n").ok());
  CHECK_THAT(dial({tls, token}), Contains("is empty"));
  for (const char* text : {"wst_x\nwst_y\n", "wst_x y", "wst_\x01", "wst_\xc3\xb6"}) {
    REQUIRE(base::WritePrivateFile(token, text).ok());
    CHECK_THAT(dial({tls, token}), Contains("holds no token"));
  }
  REQUIRE(base::WritePrivateFile(token, "wst_x\n").ok());
  CHECK(dial({tls, token}) == "");

  Dialer dialer({tls, ""}, [&] { return date; });
  const auto first = *dialer.Dial("localhost:1");
  CHECK(*dialer.Dial("localhost:1") == first);
  CHECK(*dialer.Dial("localhost:2") != first);
  const auto second = *dialer.Dial("localhost:1");
  REQUIRE(authority.Rotate("ada", absl::Hours(24), now).ok());
  CHECK(*dialer.Dial("localhost:1") != second);
  date = now + absl::Hours(25);
  CHECK_THAT(Message(dialer.Dial("localhost:1").status()), Contains("expired on"));
}

}  // namespace
}  // namespace warpsmith::security
