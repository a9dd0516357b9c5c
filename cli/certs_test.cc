// `warpsmith certs` and `warpsmith tokens`, as they are typed.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "absl/time/clock.h"
#include "common/base/file.h"
#include "common/security/authority.h"
#include "common/security/identity.h"
#include "common/security/tokens.h"
#include "tests/e2e/process.h"
#include "tests/support/temporary_folder.h"

namespace warpsmith::cli {
namespace {

using Catch::Matchers::Contains;
using e2e::Finished;

// A --dir of its own.
struct Typed {
  support::TemporaryFolder folder;
  std::string dir = folder / "state";
  std::string certs = dir + "/certs", tokens = dir + "/tokens";

  std::vector<std::string> Line(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {std::string(WARPSMITH_BIN) + "/warpsmith", "--dir", dir});
    return arguments;
  }
  Finished operator()(std::vector<std::string> arguments) const {
    return e2e::RunToEnd(Line(std::move(arguments)));
  }
};

mode_t ModeOf(const std::string& path) {
  struct stat info {};
  REQUIRE(stat(path.c_str(), &info) == 0);
  return info.st_mode & 0777;
}

// Refused with that exit status, and nothing on stdout.
void CheckRefused(const Finished& finished, int code, const std::string& why) {
  CHECK(finished == code);
  CHECK(finished.out.empty());
  CHECK_THAT(finished.err, Contains(why));
}

TEST_CASE("an authority is made, and issues, rotates, revokes and lists") {
  const Typed type;
  const Finished made = type({"certs", "init"});
  CHECK(made == 0);
  CHECK(made.out == type.certs + "/ca.crt\n");
  CHECK_THAT(made.err, Contains("--tls-ca") && Contains("--tls-crl") && Contains("ca.key"));
  CHECK(ModeOf(type.certs) == 0700);

  const Finished planner =
      type({"certs", "issue", "p", "--role", "planner", "--host", "p.example", "--days", "30"});
  CHECK(planner == 0);
  CHECK(planner.out == type.certs + "/p.pem\n");
  CHECK_THAT(planner.err, Contains("issued for planner 'p', good until"));
  CHECK(ModeOf(type.certs + "/p.pem") == 0600);
  const security::Files files{type.certs + "/ca.crt", type.certs + "/p.pem", type.certs + "/p.pem",
                              type.certs + "/crl.pem"};
  const auto identity = security::ReadIdentity(files, security::Needs::kPlanner, absl::Now());
  REQUIRE(identity.status() == absl::OkStatus());
  CHECK(security::CheckHost((*identity)->own, "p.example").ok());
  CHECK((*identity)->own.not_after - absl::Now() < absl::Hours(24 * 30 + 1));

  CHECK(type({"certs", "issue", "gpu-07", "--role", "worker"}) == 0);
  const std::string before = *base::ReadFile(type.certs + "/gpu-07.pem");
  const Finished rotated = type({"certs", "rotate", "gpu-07", "-o", "json"});
  CHECK(rotated == 0);
  const auto json = nlohmann::json::parse(rotated.out);
  CHECK(json["role"] == "worker");
  CHECK(json["state"] == "good");
  CHECK(json["file"] == type.certs + "/gpu-07.pem");
  CHECK(*base::ReadFile(type.certs + "/gpu-07.pem") != before);

  CHECK(type({"certs", "rotate", "p", "--host", "q.example"}) == 0);
  const auto both = security::ReadIdentity(files, security::Needs::kPlanner, absl::Now());
  REQUIRE(both.status() == absl::OkStatus());
  for (const char* host : {"p.example", "q.example", "127.0.0.1"}) {
    CHECK(security::CheckHost((*both)->own, host).ok());
  }
  // A worker's metrics are served by that name.
  CHECK(type({"certs", "rotate", "gpu-07", "--host", "gpu-07.example", "-o", "json"})
            .out.find("gpu-07.example") != std::string::npos);

  const Finished revoked = type({"certs", "revoke", "gpu-07"});
  CHECK(revoked == 0);
  CHECK_THAT(revoked.err, Contains("3 certificates of 'gpu-07' revoked") && Contains("crl.pem"));
  const Finished again = type({"certs", "revoke", "gpu-07", "-o", "json"});
  CHECK(again == 0);
  CHECK(nlohmann::json::parse(again.out)["revoked"] == 0);
  CHECK_THAT(again.err, Contains("was revoked before"));

  const Finished list = type({"certs", "list"});
  CHECK(list == 0);
  CHECK_THAT(list.out, Contains("p.example") && Contains("revoked") && Contains("good"));
  const auto all = nlohmann::json::parse(type({"certs", "list", "-o", "json"}).out);
  REQUIRE(all.size() == 5);
  const auto of_both = [](const nlohmann::json& one) {
    return one["name"] == "p" && one["hosts"].size() == 5 && one.contains("file");
  };
  CHECK(std::count_if(all.begin(), all.end(), of_both) == 1);
  const auto has_file = [](const nlohmann::json& one) { return one.contains("file"); };
  CHECK(std::count_if(all.begin(), all.end(), has_file) == 2);

  // Somewhere else than in --dir.
  const std::string other = type.folder / "other";
  CHECK(type({"certs", "init", "--certs", other, "--name", "lab", "--days", "10"}) == 0);
  CHECK(type({"certs", "--certs", other, "issue", "ada", "--role", "reader", "--days", "9"}) == 0);
  CheckRefused(type({"certs", "--certs", other, "issue", "bob", "--role", "reader"}), 2,
               "ask for fewer days");
}

TEST_CASE("what certs cannot do is said") {
  const Typed type;
  CheckRefused(type({"certs", "list"}), 4, "warpsmith certs init");
  CheckRefused(type({"certs", "issue", "x", "--role", "reader"}), 4, "warpsmith certs init");
  CheckRefused(type({"certs", "init", "--days", "0"}), 2, "not in range");
  CheckRefused(type({"certs", "init", "--name", "a/b"}), 2, "is no name");
  REQUIRE(type({"certs", "init"}) == 0);
  REQUIRE(type({"certs", "issue", "gpu-07", "--role", "worker"}) == 0);
  CheckRefused(type({"certs", "init"}), 1, "is there already");

  const auto issue = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"certs", "issue"});
    return type(arguments);
  };
  CheckRefused(issue({"gpu-07", "--role", "worker"}), 1, "certs rotate gpu-07");
  CheckRefused(issue({"gpu-07-cuda0", "--role", "worker"}), 1, "names of the same worker");
  CheckRefused(issue({"x"}), 2, "--role is required");
  CheckRefused(issue({"--role", "reader"}), 2, "NAME is required");
  for (const char* role : {"boss", "local", "nobody", ""}) {
    CheckRefused(issue({"x", "--role", role}), 2, "there are worker, submitter");
  }
  for (const char* name : {"../x", "a b", "ca", "crl", ""}) {
    INFO(name);
    CheckRefused(issue({name, "--role", "reader"}), 2, "'" + std::string(name) + "'");
  }
  CheckRefused(issue({"x", "--role", "reader", "--host", "h"}), 2, "does not serve");
  CheckRefused(issue({"x", "--role", "planner", "--host", "a b"}), 2, "neither a host name");
  for (const char* days : {"0", "-1", "3651", "99999999999", "1e3", "x"}) {
    INFO(days);
    CheckRefused(issue({"x", "--role", "reader", "--days", days}), 2, "--days");
  }
  CheckRefused(type({"certs", "rotate", "x"}), 4, "no certificate was issued for 'x'");
  CheckRefused(type({"certs", "revoke", "x"}), 4, "no certificate was issued for 'x'");
  REQUIRE(type({"certs", "revoke", "gpu-07"}) == 0);
  CheckRefused(type({"certs", "rotate", "gpu-07"}), 1, "is revoked");
  CHECK(issue({"gpu-07", "--role", "worker"}) == 0);

  REQUIRE(chmod(type.certs.c_str(), 0755) == 0);
  CheckRefused(issue({"x", "--role", "reader"}), 1, "chmod 700");
  REQUIRE(chmod(type.certs.c_str(), 0700) == 0);
  REQUIRE(chmod((type.certs + "/ca.key").c_str(), 0640) == 0);
  CheckRefused(issue({"x", "--role", "reader"}), 1, "chmod 600");
}

TEST_CASE("a token is issued, taken, revoked and listed") {
  const Typed type;
  CHECK(type({"tokens", "list"}) == 0);
  const Finished issued = type({"tokens", "issue", "ci", "--role", "submitter"});
  CHECK(issued == 0);
  REQUIRE(issued.out.size() > 40);
  CHECK(issued.out.find_first_of(" \n") == issued.out.size() - 1);  // it alone
  const std::string token = issued.out.substr(0, issued.out.size() - 1);
  CHECK_THAT(issued.err, Contains("--token-file") && !Contains(token));
  CHECK(ModeOf(type.tokens) == 0600);
  CHECK(base::ReadFile(type.tokens)->find(token) == std::string::npos);
  security::Tokens planner(type.tokens);
  REQUIRE(planner.Refresh().ok());
  CHECK(planner.Find(token, absl::Now())->role == security::Role::kSubmitter);

  const Finished json =
      type({"tokens", "issue", "ada", "--role", "operator", "--forever", "-o", "json"});
  CHECK(nlohmann::json::parse(json.out)["expires"].is_null());
  const Finished revoked = type({"tokens", "revoke", "ci"});
  CHECK(revoked == 0);
  CHECK_THAT(revoked.err, Contains("1 token of 'ci' revoked"));
  REQUIRE(planner.Refresh().ok());
  CHECK_THAT(std::string(planner.Find(token, absl::Now()).status().message()),
             Contains("was revoked"));
  const Finished list = type({"tokens", "list"});
  CHECK_THAT(list.out, Contains("submitter") && Contains("revoked") && Contains("ada"));
  const auto all = nlohmann::json::parse(type({"tokens", "list", "-o", "json"}).out);
  REQUIRE(all.size() == 2);
  CHECK(all[1]["state"] == "good");
  const std::string other = type.folder / "a/b/tokens";
  CHECK(type({"tokens", "issue", "x", "--role", "reader", "--tokens", other}) == 0);
  CHECK(std::filesystem::exists(other));
}

TEST_CASE("what tokens cannot do is said") {
  const Typed type;
  CheckRefused(type({"tokens", "revoke", "ci"}), 4, "warpsmith tokens issue");
  REQUIRE(type({"tokens", "issue", "ci", "--role", "reader"}) == 0);
  CheckRefused(type({"tokens", "revoke", "x"}), 4, "no token was issued for 'x'");
  const auto issue = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"tokens", "issue"});
    return type(arguments);
  };
  CheckRefused(issue({"x", "--role", "worker"}), 2, "a worker has a certificate");
  CheckRefused(issue({"x", "--role", "planner"}), 2, "a planner has a certificate");
  CheckRefused(issue({"x", "--role", "boss"}), 2, "there are worker, submitter");
  CheckRefused(issue({"a b", "--role", "reader"}), 2, "is no name");
  for (const char* days : {"0", "3651", "99999999999999"}) {
    CheckRefused(issue({"x", "--role", "reader", "--days", days}), 2, "--days");
  }
  CheckRefused(issue({"x", "--role", "reader", "--days", "3", "--forever"}), 2, "excludes");
  REQUIRE(chmod(type.tokens.c_str(), 0644) == 0);
  CheckRefused(issue({"x", "--role", "reader"}), 1, "chmod 600");
  CheckRefused(type({"tokens", "list"}), 1, "chmod 600");
}

TEST_CASE("a second process waits for the first") {
  const Typed type;
  REQUIRE(type({"certs", "init"}) == 0);
  REQUIRE(type({"tokens", "issue", "ci", "--role", "reader"}) == 0);
  const std::pair<std::string, std::vector<std::string>> cases[] = {
      {type.certs + "/.lock", {"certs", "issue", "x", "--role", "reader"}},
      {type.tokens + ".lock", {"tokens", "issue", "x", "--role", "reader"}}};
  for (const auto& [path, arguments] : cases) {
    const int held = open(path.c_str(), O_RDWR | O_CLOEXEC);
    REQUIRE(held >= 0);
    REQUIRE(flock(held, LOCK_EX) == 0);
    e2e::Process second(type.Line(arguments));
    CHECK_FALSE(e2e::Eventually(absl::Milliseconds(300), [&] { return !second.Running(); }));
    close(held);
    CHECK(second.Wait(absl::Seconds(30)) == 0);
  }
  // All at once: each is made, and all are known afterwards.
  std::vector<std::unique_ptr<e2e::Process>> many;
  for (int i = 0; i < 8; ++i) {
    many.push_back(std::make_unique<e2e::Process>(
        type.Line({"certs", "issue", "w" + std::to_string(i), "--role", "worker"})));
    many.push_back(std::make_unique<e2e::Process>(
        type.Line({"tokens", "issue", "w" + std::to_string(i), "--role", "reader"})));
  }
  for (const auto& each : many) CHECK(each->Wait(absl::Seconds(30)) == 0);
  CHECK(nlohmann::json::parse(type({"certs", "list", "-o", "json"}).out).size() == 9);
  CHECK(nlohmann::json::parse(type({"tokens", "list", "-o", "json"}).out).size() == 10);
}

}  // namespace
}  // namespace warpsmith::cli
