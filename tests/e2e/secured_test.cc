// Planner, worker and client with certificates and tokens, as real programs.
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/file.h"
#include "common/base/private_file.h"
#include "common/rpc/address.h"
#include "common/security/authority.h"
#include "common/security/tokens.h"
#include "tests/e2e/fleet.h"
#include "tests/e2e/process.h"
#include "tests/support/temporary_folder.h"

namespace warpsmith::e2e {
namespace {

using security::Role;
using Words = std::vector<std::string>;

const std::string kBin = WARPSMITH_BIN;

Words operator+(Words a, const Words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// An authority, tokens and a folder for a planner.
class Office {
 public:
  explicit Office(const std::string& name = "fleet")
      : authority_(folder_ / "certs"), tokens_(folder_ / "tokens") {
    REQUIRE(authority_.Init(name, security::kAuthorityLife, absl::Now()).ok());
  }
  Words Issue(Role role, const std::string& name, absl::Time now = absl::Now(),
              absl::Duration life = security::kDefaultLife) {
    std::vector<std::string> hosts;
    if (role == Role::kPlanner) hosts = {"localhost"};
    if (role == Role::kPlanner) hosts.push_back("127.0.0.1");
    const auto issued = authority_.Issue({{role, name}, hosts, life}, now);
    INFO(issued.status().ToString());
    REQUIRE(issued.ok());
    keys_[name] = issued->key;
    return {"--tls-ca", authority_.Path("ca.crt"), "--tls-cert", issued->certificate, "--tls-key",
            issued->key};
  }
  std::string Key(const std::string& name) const { return keys_.at(name); }
  // A file with a token, and whose authority is believed.
  Words Token(Role role, const std::string& name) {
    const auto token = tokens_.Issue({role, name}, absl::Hours(24), absl::Now());
    REQUIRE(token.ok());
    const std::string path = folder_ / (name + ".token");
    REQUIRE(base::WritePrivateFile(path, *token).ok());
    return {"--tls-ca", authority_.Path("ca.crt"), "--token-file", path};
  }
  Words Crl() const { return {"--tls-crl", authority_.Path("crl.pem")}; }
  std::string path(const std::string& name) const { return folder_ / name; }
  std::string dir() const { return folder_ / "planner"; }
  security::Authority& authority() { return authority_; }

 private:
  support::TemporaryFolder folder_;
  security::Authority authority_;
  security::Tokens tokens_;
  std::map<std::string, std::string> keys_;
};

Words Planner(const Office& office, const Words& more) {
  return Words{kBin + "/warpsmith-planner", "--dir", office.dir()} + more;
}
Words Worker(const Office& office, const std::string& name, const Words& more) {
  return Words{
             kBin + "/warpsmith-worker", "--dir", office.dir(), "--name", name, "--device", "host",
             "--compile-jobs",           "1"} +
         more;
}
Words Cli(const Office& office, const Words& more) {
  return Words{kBin + "/warpsmith", "--dir", office.dir()} + more;
}

bool Says(const Process& process, const std::string& what) {
  return absl::StrContains(process.Errors(), what);
}

TEST_CASE("a fleet with certificates works while they change, until one is revoked") {
  Office office;
  const Words planner_tls = office.Issue(Role::kPlanner, "planner") + office.Crl();
  const Words machine = office.Issue(Role::kWorker, "machine");
  const Words ada = office.Token(Role::kSubmitter, "ada"), eye = office.Token(Role::kReader, "eye");
  Process planner(
      Planner(office, Words{"--listen", "127.0.0.1:0", "--listen-clients", "127.0.0.1:0",
                            "--listen-http", "127.0.0.1:0", "--tokens", office.path("tokens")} +
                          planner_tls));
  REQUIRE(Eventually(absl::Seconds(20),
                     [&] { return rpc::ReadAddress(office.dir()).ok() || !planner.Running(); }));
  INFO(planner.Errors());
  Process worker(Worker(office, "machine-host0", Words{"--listen-http", "0.0.0.0:0"} + machine));
  Finished listed;
  const bool joined = Eventually(absl::Seconds(30), [&] {
    listed = RunToEnd(Cli(office, Words{"workers", "-o", "json"} + eye));
    return listed == 0 && absl::StrContains(listed.out, "machine-host0");
  });
  INFO(worker.Errors());
  INFO(listed);
  REQUIRE(joined);
  // Prometheus is told of a name, not of an address that is everybody's.
  char host[256] = "";
  REQUIRE(gethostname(host, sizeof host - 1) == 0);
  CHECK_THAT(listed.out, Catch::Contains(absl::StrCat("\"http_address\": \"", host, ":")));
  const std::string set = WriteSmallSet(office.path(""));
  CHECK(RunToEnd(Cli(office, Words{"submit", set, "--seconds", "3"} + ada)) == 0);
  // Each role's word.
  const Finished refused = RunToEnd(Cli(office, Words{"submit", set} + eye));
  CHECK(refused.code == 1);
  CHECK_THAT(refused.err, Catch::Contains("reader 'eye' (token) may not call Submit"));
  const Finished held = RunToEnd(Cli(office, Words{"hold", "--worker", "machine-host0"} + ada));
  CHECK(held.code != 0);

  // All change while it works.
  REQUIRE(office.authority().Rotate("planner", security::kDefaultLife, absl::Now()).ok());
  REQUIRE(office.authority().Rotate("machine", security::kDefaultLife, absl::Now()).ok());
  REQUIRE(
      Eventually(absl::Seconds(20), [&] { return Says(planner, "files of TLS have changed"); }));
  REQUIRE(Eventually(absl::Minutes(2), [&] {
    const Finished runs = RunToEnd(Cli(office, Words{"runs", "-o", "json"} + eye));
    return runs == 0 && absl::StrContains(runs.out, "\"done\": true");
  }));
  const Finished runs = RunToEnd(Cli(office, Words{"runs", "-o", "json"} + eye));
  CHECK_THAT(runs.out, Catch::Contains("\"ada\""));
  CHECK_FALSE(Says(planner, "is lost"));

  REQUIRE(office.authority().Revoke("machine", absl::Now()).ok());
  CHECK(Eventually(absl::Seconds(60), [&] { return Says(worker, "it was revoked"); }));
  CHECK(Eventually(absl::Seconds(60), [&] { return Says(planner, "it was revoked"); }));
  worker.Signal(SIGTERM);
  CHECK(worker.Wait(absl::Seconds(60)).code == 0);
  planner.Signal(SIGTERM);
  CHECK(planner.Wait(absl::Seconds(60)).code == 0);
}

TEST_CASE("a program says what is wrong with its certificate, and does not start") {
  Office office, others("others");
  const Words good = office.Issue(Role::kPlanner, "planner");
  const Words bare = {"--listen", "127.0.0.1:0"};
  struct Case {
    Words argv;
    std::string says;
  };
  const absl::Time long_ago = absl::Now() - absl::Hours(48);
  const Words expired_planner = office.Issue(Role::kPlanner, "old", long_ago, absl::Hours(24));
  const Words expired_worker = office.Issue(Role::kWorker, "olden", long_ago, absl::Hours(24));
  const Words readable = office.Issue(Role::kWorker, "open");
  REQUIRE(chmod(office.Key("open").c_str(), 0644) == 0);
  const Words worker = office.Issue(Role::kWorker, "machine");
  const Words revoked = office.Issue(Role::kPlanner, "gone") + office.Crl();
  REQUIRE(office.authority().Revoke("gone", absl::Now()).ok());
  Words mixed = others.Issue(Role::kPlanner, "planner");
  mixed[1] = good[1];
  Words wrong_key = good;
  wrong_key[5] = worker[5];
  const Case cases[] = {
      {Planner(office, {"--listen", "0.0.0.0:0"}), "certificates with --tls-ca"},
      {Planner(office, {"--listen-clients", "10.0.0.1:0"}), "certificates with --tls-ca"},
      {Planner(office, {"--tokens", office.path("tokens")}), "a token is a secret"},
      {Planner(office, bare + expired_planner), "expired on"},
      {Planner(office, bare + worker), "planner"},
      {Planner(office, bare + readable), "chmod"},
      {Planner(office, bare + revoked), "it was revoked"},
      {Planner(office, bare + mixed), "has not made it"},
      {Planner(office, bare + wrong_key), "key"},
      {Planner(office, bare + Words{"--tls-ca", good[1]}), "--tls-cert"},
      {Planner(office, bare + Words{"--tls-cert", good[3], "--tls-key", good[5]}), "--tls-ca"},
      {Worker(office, "olden", expired_worker), "expired on"},
      {Worker(office, "open", readable), "chmod"},
      {Worker(office, "machine", Words{"--tls-ca", "/no/such/file"}), "--tls-cert"},
      {Cli(office, Words{"up", "--device", "host"} + good), "without TLS"},
  };
  for (const Case& each : cases) {
    INFO(absl::StrCat(each.argv[0], " ... ", each.argv.back()));
    const Finished ended = RunToEnd(each.argv);
    CHECK(ended == 2);
    CHECK_THAT(ended.err, Catch::Contains(each.says));
  }
}

TEST_CASE("who calls without the right proof is told why") {
  Office office, others("others");
  Process planner(
      Planner(office, Words{"--listen", "127.0.0.1:0", "--tokens", office.path("tokens")} +
                          office.Issue(Role::kPlanner, "planner") + office.Crl()));
  REQUIRE(Eventually(absl::Seconds(20), [&] { return rpc::ReadAddress(office.dir()).ok(); }));
  const Words ca = {"--tls-ca", office.authority().Path("ca.crt")};
  Words unknown = office.Token(Role::kReader, "eye");
  REQUIRE(base::WritePrivateFile(unknown[3], "no-such-token").ok());
  Words open = office.Token(Role::kReader, "ear");
  REQUIRE(chmod(open[3].c_str(), 0644) == 0);
  const Words theirs = others.Issue(Role::kOperator, "ops");
  const Words revoked = office.Issue(Role::kOperator, "gone");
  REQUIRE(office.authority().Revoke("gone", absl::Now()).ok());
  REQUIRE(
      Eventually(absl::Seconds(20), [&] { return Says(planner, "files of TLS have changed"); }));
  struct Case {
    Words flags;
    std::string says;
  };
  const Case cases[] = {
      {ca, "says not who makes it"},
      {unknown, "token"},
      {open, "chmod"},
      {theirs, "has not made it"},
      {revoked, "it was revoked"},
      {{"--token-file", open[3]}, "--tls-ca"},
      {office.Issue(Role::kWorker, "machine"), "may not call List"},
  };
  for (const Case& each : cases) {
    const Finished ended = RunToEnd(Cli(office, Words{"runs"} + each.flags));
    INFO(each.says);
    CHECK(ended.code != 0);
    CHECK_THAT(ended.err, Catch::Contains(each.says));
  }
  // One that knows nothing of TLS.
  CHECK(RunToEnd(Cli(office, {"runs"})).code == 3);
  // A worker under a name that is not its certificate's.
  Process worker(Worker(office, "other-host0", office.Issue(Role::kWorker, "mine")));
  CHECK(Eventually(absl::Seconds(30), [&] { return Says(worker, "may not speak as worker"); }));
}

}  // namespace
}  // namespace warpsmith::e2e
