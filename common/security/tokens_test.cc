#include "common/security/tokens.h"

#include <sys/stat.h>

#include <catch2/catch.hpp>

#include "common/base/file.h"
#include "common/base/private_file.h"
#include "common/security/testing.h"
#include "tests/support/temporary_folder.h"

namespace warpsmith::security {
namespace {

TEST_CASE("a token is known by its hash alone, until it expires or is revoked") {
  const support::TemporaryFolder folder;
  const std::string path = folder.path() + "/tokens";
  Tokens issuer(path), planner(path);
  CHECK(*planner.Refresh());
  const auto token = issuer.Issue({Role::kSubmitter, "ci"}, 90 * kDay, kNow);
  REQUIRE(token.status() == absl::OkStatus());
  CHECK(token->size() >= 47);
  CHECK(base::ReadFile(path)->find(*token) == std::string::npos);
  CHECK_FALSE(planner.Find(*token, kNow).ok());  // not read yet
  CHECK(*planner.Refresh());
  CHECK_FALSE(*planner.Refresh());
  const auto caller = planner.Find(*token, kNow);
  REQUIRE(caller.status() == absl::OkStatus());
  CHECK(Describe(*caller) == "submitter 'ci' (token)");
  CHECK_THAT(Message(planner.Find(*token, kNow + 90 * kDay).status()), Contains("expired on"));
  CHECK_THAT(Message(planner.Find(*token + "x", kNow).status()), Contains("knows no such token"));
  CHECK_FALSE(planner.Find("", kNow).ok());

  const auto second = issuer.Issue({Role::kSubmitter, "ci"}, absl::InfiniteDuration(), kNow);
  CHECK(*second != *token);
  CHECK(*planner.Refresh());
  CHECK(planner.Find(*second, kNow + 10'000 * kDay).ok());
  CHECK(planner.Find(*token, kNow).ok());
  CHECK(*issuer.Revoke("ci", kNow + kDay) == 2);
  CHECK(*issuer.Revoke("ci", kNow + kDay) == 0);
  CHECK(*planner.Refresh());
  CHECK_THAT(Message(planner.Find(*second, kNow).status()), Contains("was revoked on 2027-01-16"));
  CHECK(absl::IsNotFound(issuer.Revoke("other", kNow).status()));
}

TEST_CASE("tokens are for people, and their file for its owner") {
  const support::TemporaryFolder folder;
  const std::string path = folder.path() + "/tokens";
  Tokens tokens(path);
  for (const Role role : {Role::kWorker, Role::kPlanner, Role::kLocal, Role::kNobody}) {
    CHECK(absl::IsInvalidArgument(tokens.Issue({role, "x"}, kDay, kNow).status()));
  }
  CHECK_FALSE(tokens.Issue({Role::kReader, "a b"}, kDay, kNow).ok());
  const auto token = tokens.Issue({Role::kReader, "x"}, kDay, kNow);
  REQUIRE(tokens.Refresh().ok());
  REQUIRE(chmod(path.c_str(), 0644) == 0);
  CHECK_THAT(Message(tokens.Refresh().status()), Contains("others can read"));
  CHECK(tokens.Find(*token, kNow).ok());  // what it said before goes on
  REQUIRE(base::WritePrivateFile(path, "# nothing\nabc reader x\n").ok());
  CHECK_THAT(Message(tokens.Refresh().status()), Contains("line 2"));

  // Roles that have certificates, hashes that none are, and a revoked one that is there again.
  const std::string hash(64, 'a'), end = " x 2026-11-28T10:00:00Z - ";
  for (const std::string& bad :
       {hash + " worker" + end + "-", hash + " planner" + end + "-", hash + " local" + end + "-",
        std::string(64, 'g') + " reader" + end + "-", std::string(64, 'A') + " reader" + end + "-",
        hash + " reader x 2026-11-28T10:00:00Z -",
        hash + " reader" + end + "2026-11-29T10:00:00Z\n" + hash + " reader" + end + "-"}) {
    INFO(bad);
    REQUIRE(base::WritePrivateFile(path, bad + "\n").ok());
    CHECK_FALSE(tokens.Refresh().ok());
    CHECK(tokens.Find(*token, kNow).ok());
  }
  REQUIRE(base::WritePrivateFile(path, hash + " reader" + end + "-\n").ok());
  CHECK(*tokens.Refresh());
  CHECK_FALSE(tokens.Find(*token, kNow).ok());
  CHECK_FALSE(tokens.Issue({Role::kReader, "x"}, kMaxTokenLife + kDay, kNow).ok());
  CHECK_FALSE(tokens.Issue({Role::kReader, "x"}, absl::ZeroDuration(), kNow).ok());
}

}  // namespace
}  // namespace warpsmith::security
