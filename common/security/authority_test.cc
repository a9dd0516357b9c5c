#include "common/security/authority.h"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "common/base/file.h"
#include "common/base/private_file.h"
#include "common/security/dialer.h"
#include "common/security/guard.h"
#include "common/security/identity.h"
#include "common/security/testing.h"
#include "common/security/x509.h"
#include "tests/support/temporary_folder.h"

namespace warpsmith::security {
namespace {

struct Made {
  support::TemporaryFolder folder;
  Authority authority{folder.path() + "/certs"};
  Made() { REQUIRE(authority.Init("fleet", kAuthorityLife, kNow - 10 * kDay) == absl::OkStatus()); }

  void Issue(Role role, const std::string& name, std::vector<std::string> hosts = {}) {
    const auto issued = authority.Issue({{role, name}, std::move(hosts), kDefaultLife}, kNow);
    REQUIRE(issued.status() == absl::OkStatus());
  }
  Files Of(const std::string& name) {
    return {authority.Path("ca.crt"), authority.Path(name + ".pem"), authority.Path(name + ".pem"),
            authority.Path("crl.pem")};
  }
};

mode_t ModeOf(const std::string& path) {
  struct stat info {};
  REQUIRE(stat(path.c_str(), &info) == 0);
  return info.st_mode & 07777;
}

TEST_CASE("an authority is made once, and its secrets are its owner's") {
  Made made;
  CHECK(absl::IsAlreadyExists(made.authority.Init("fleet", kAuthorityLife, kNow)));
  made.Issue(Role::kWorker, "gpu-07");
  CHECK(ModeOf(made.authority.Path("ca.key")) == 0600);
  CHECK(ModeOf(made.authority.Path("gpu-07.pem")) == 0600);
  CHECK(ModeOf(made.folder.path() + "/certs") == 0700);
  const Authority none(made.folder.path() + "/none");
  CHECK_THAT(Message(none.List().status()), Contains("warpsmith certs init"));
}

TEST_CASE("what is issued is believed for what it is") {
  Made made;
  made.Issue(Role::kPlanner, "p", {"planner.example", "10.0.0.1", "::1"});
  made.Issue(Role::kWorker, "gpu-07");
  const auto planner = ReadIdentity(made.Of("p"), Needs::kPlanner, kNow);
  REQUIRE(planner.status() == absl::OkStatus());
  CHECK(UriOf((*planner)->own.name) == "warpsmith://planner/p");
  CHECK(CheckHost((*planner)->own, "Planner.example").ok());
  CHECK(CheckHost((*planner)->own, "10.0.0.1").ok());
  CHECK(CheckHost((*planner)->own, "::1").ok());
  CHECK_THAT(Message(CheckHost((*planner)->own, "other")), Contains("not for 'other'"));
  const auto worker = ReadIdentity(made.Of("gpu-07"), Needs::kCertificate, kNow);
  REQUIRE(worker.status() == absl::OkStatus());
  CHECK((*worker)->own.name.role == Role::kWorker);
  // A worker cannot pass for a planner.
  const auto served =
      (*planner)->trust->Verify((*worker)->cert_pem, "", Use::kServer, kNow).status();
  CHECK_THAT(Message(served), Contains("not for this use"));
  CHECK_FALSE(ReadIdentity(made.Of("gpu-07"), Needs::kPlanner, kNow).ok());
  // Nor one that serves its metrics.
  REQUIRE(made.authority.Issue({{Role::kWorker, "gpu-08"}, {"gpu-08.example"}}, kNow).ok());
  const auto serving = ReadIdentity(made.Of("gpu-08"), Needs::kCertificate, kNow);
  REQUIRE(serving.status() == absl::OkStatus());
  CHECK((*planner)->trust->Verify((*serving)->cert_pem, "", Use::kServer, kNow).ok());
  CHECK_THAT(Message(ReadIdentity(made.Of("gpu-08"), Needs::kPlanner, kNow).status()),
             Contains("a planner needs one of the role planner"));
}

TEST_CASE("each certificate that is not good is refused with its reason") {
  Made made, other;
  made.Issue(Role::kWorker, "gpu-07");
  other.Issue(Role::kWorker, "gpu-07");
  const auto read = [&](absl::Time at) {
    return Message(ReadIdentity(made.Of("gpu-07"), Needs::kCertificate, at).status());
  };
  CHECK(read(kNow) == "");
  CHECK_THAT(read(kNow + 91 * kDay), Contains("warpsmith://worker/gpu-07") &&
                                         Contains("expired on 2027-04-15") &&
                                         Contains("certs rotate gpu-07"));
  CHECK_THAT(read(kNow - absl::Hours(1)), Contains("not valid before"));

  Files files = made.Of("gpu-07");
  files.crl = "";
  files.ca = other.authority.Path("ca.crt");
  CHECK_THAT(Message(ReadIdentity(files, Needs::kCertificate, kNow).status()),
             Contains("has not made it"));
  files.crl = made.authority.Path("crl.pem");
  CHECK_THAT(Message(ReadIdentity(files, Needs::kCertificate, kNow).status()),
             Contains("was not signed by an authority of --tls-ca"));

  REQUIRE(*made.authority.Revoke("gpu-07", kNow) == 1);
  CHECK(*made.authority.Revoke("gpu-07", kNow) == 0);
  CHECK_THAT(read(kNow), Contains("was revoked"));
  CHECK(absl::IsNotFound(made.authority.Revoke("gpu-08", kNow).status()));
  CHECK(absl::IsFailedPrecondition(made.authority.Rotate("gpu-07", kDefaultLife, kNow).status()));
  made.Issue(Role::kWorker, "gpu-07");
  CHECK(read(kNow) == "");
}

TEST_CASE("each file that is not good is refused with its reason") {
  Made made;
  made.Issue(Role::kWorker, "a");
  made.Issue(Role::kWorker, "b");
  const auto read = [&](const Files& files) {
    return Message(ReadIdentity(files, Needs::kCertificate, kNow).status());
  };
  const Files good = made.Of("a");
  Files files = good;
  files.key = made.authority.Path("b.pem");
  CHECK_THAT(read(files), Contains("is not the key of --tls-cert") &&
                              Contains("has one of the two been replaced alone?"));
  files = good;
  files.cert = made.authority.Path("none.crt");
  CHECK_THAT(read(files), Contains("--tls-cert: cannot open") && Contains("none.crt"));
  files = good;
  files.key = "";
  CHECK_THAT(read(files), Contains("--tls-cert without --tls-key"));
  files = good;
  files.ca = "";
  CHECK_THAT(read(files), Contains("give --tls-ca"));
  files = good;
  files.cert = made.authority.Path("ca.key");
  CHECK_THAT(read(files), Contains("holds no certificate"));
  files.ca = good.cert;
  files.cert = good.cert;
  CHECK_THAT(read(files), Contains("no authority's"));
  for (const mode_t mode : {0640, 0604, 0620}) {
    REQUIRE(chmod(good.key.c_str(), mode) == 0);
    CHECK_THAT(read(good), Contains("others can read or write") && Contains("chmod 600"));
  }
  REQUIRE(chmod(good.key.c_str(), 0400) == 0);
  CHECK(read(good) == "");
  // The authority's own key, too.
  REQUIRE(chmod(made.authority.Path("ca.key").c_str(), 0644) == 0);
  CHECK_THAT(Message(made.authority.Issue({{Role::kReader, "c"}}, kNow).status()),
             Contains("others can read"));
}

TEST_CASE("a certificate is rotated in place, and its old one stays good") {
  Made made;
  made.Issue(Role::kPlanner, "p", {"localhost"});
  auto watched = WatchedIdentity::Open(made.Of("p"), Needs::kPlanner, kNow);
  REQUIRE(watched.status() == absl::OkStatus());
  const auto before = (*watched)->Now();
  CHECK_FALSE(*(*watched)->Refresh(kNow));
  const auto rotated = made.authority.Rotate("p", kDefaultLife, kNow + kDay);
  REQUIRE(rotated.status() == absl::OkStatus());
  CHECK(rotated->hosts == std::vector<std::string>{"localhost", "127.0.0.1", "::1"});
  CHECK(*(*watched)->Refresh(kNow + kDay));
  const auto after = (*watched)->Now();
  CHECK(after->cert_pem != before->cert_pem);
  CHECK(after->key_pem != before->key_pem);
  CHECK(after->trust->Verify(before->cert_pem, "", Use::kServer, kNow + kDay).ok());

  // A list that is gone: the last good ones go on.
  const auto list = *base::ReadFile(made.authority.Path("crl.pem"));
  std::filesystem::remove(made.authority.Path("crl.pem"));
  CHECK_FALSE((*watched)->Refresh(kNow + kDay).ok());
  REQUIRE(base::WriteFileAtomically(made.authority.Path("crl.pem"), list).ok());
  CHECK(*(*watched)->Refresh(kNow + kDay));

  CHECK(*made.authority.Revoke("p", kNow + kDay) == 2);
  const auto all = made.authority.List();
  REQUIRE(all->size() == 2);
  CHECK(all->front().serial == rotated->serial);
  CHECK((all->front().revoked && all->back().revoked));
}

TEST_CASE("of two files that are replaced one after the other, the pair before goes on") {
  Made made;
  made.Issue(Role::kPlanner, "p");
  const auto issued = *ReadIdentity(made.Of("p"), Needs::kPlanner, kNow);
  CHECK_THAT(issued->cert_pem, !Contains("PRIVATE KEY"));
  Files files = made.Of("p");
  files.cert = made.folder.path() + "/p.crt";
  files.key = made.folder.path() + "/p.key";
  REQUIRE(base::WriteFileAtomically(files.cert, issued->cert_pem).ok());
  REQUIRE(base::WritePrivateFile(files.key, issued->key_pem).ok());
  auto watched = *WatchedIdentity::Open(files, Needs::kPlanner, kNow);
  const auto before = watched->Now();

  REQUIRE(made.authority.Rotate("p", kDefaultLife, kNow).ok());
  const auto rotated = *ReadIdentity(made.Of("p"), Needs::kPlanner, kNow);
  REQUIRE(base::WritePrivateFile(files.key, rotated->key_pem).ok());
  CHECK_THAT(Message(watched->Refresh(kNow).status()),
             Contains("p.key is not the key of") && Contains("has one of the two been replaced"));
  CHECK(watched->Now() == before);
  REQUIRE(base::WriteFileAtomically(files.cert, rotated->cert_pem).ok());
  CHECK(*watched->Refresh(kNow));
  CHECK(watched->Now()->cert_pem == rotated->cert_pem);
}

TEST_CASE("who is revoked is refused also by a planner whose own certificate is wrong by now") {
  Made made;
  made.Issue(Role::kPlanner, "p");
  made.Issue(Role::kWorker, "w");
  const auto worker = *ReadIdentity(made.Of("w"), Needs::kCertificate, kNow);
  auto watched = *WatchedIdentity::Open(made.Of("p"), Needs::kPlanner, kNow);
  Guard guard(watched.get(), nullptr, [] { return kNow; });
  const auto before = watched->Now();
  const auto call = [&] { return guard.CallerOf({.certificate_pem = worker->cert_pem}).status(); };
  CHECK(call().ok());
  CHECK_FALSE(guard.Refresh());
  REQUIRE(made.authority.Revoke("p", kNow).ok());
  REQUIRE(made.authority.Revoke("w", kNow).ok());
  CHECK(guard.Refresh());  // calls that are parked come again
  CHECK_THAT(Message(call()), Contains("it was revoked"));
  CHECK(watched->Now()->key_pem == before->key_pem);
  CHECK_FALSE(guard.Refresh());  // once
}

TEST_CASE(
    "who has a connection keeps it while its files are replaced, until its certificate ends") {
  Made made;
  made.Issue(Role::kWorker, "w");
  absl::Time date = kNow;
  Dialer dialer({.tls = made.Of("w")}, [&date] { return date; });
  const auto channel = dialer.Dial("127.0.0.1:1");
  REQUIRE(channel.status() == absl::OkStatus());
  const auto other = dialer.Dial("127.0.0.1:2");
  REQUIRE(other.ok());
  CHECK(*other != *channel);
  CHECK(*dialer.Dial("127.0.0.1:1") == *channel);
  const std::string path = made.authority.Path("w.pem");
  const std::string good = *base::ReadPrivateFile(path);
  REQUIRE(base::WritePrivateFile(path, good.substr(0, good.size() / 2)).ok());
  CHECK(*dialer.Dial("127.0.0.1:1") == *channel);
  CHECK_FALSE(dialer.Dial("127.0.0.1:3").ok());
  date = kNow + kDefaultLife + kDay;
  CHECK_FALSE(dialer.Dial("127.0.0.1:1").ok());
  date = kNow;
  REQUIRE(base::WritePrivateFile(path, good).ok());
  const auto anew = dialer.Dial("127.0.0.1:1");
  REQUIRE(anew.ok());
  CHECK(*anew != *channel);
}

TEST_CASE("a rotation that is ended between two files leaves a pair that fits") {
  Made made;
  made.Issue(Role::kWorker, "w");
  const std::string before = *base::ReadFile(made.authority.Path("w.pem"));
  REQUIRE(made.authority.Rotate("w", kDefaultLife, kNow + kDay).ok());
  // What is written first, issued/SERIAL.crt, is there, and what is written last is as it was.
  REQUIRE(base::WritePrivateFile(made.authority.Path("w.pem"), before).ok());
  CHECK(ReadIdentity(made.Of("w"), Needs::kCertificate, kNow + kDay).ok());
  CHECK(made.authority.List()->size() == 2);
  CHECK(made.authority.Rotate("w", kDefaultLife, kNow + 2 * kDay).ok());
  CHECK(ReadIdentity(made.Of("w"), Needs::kCertificate, kNow + 2 * kDay).ok());
  // And of the very first one.
  std::filesystem::remove(made.authority.Path("w.pem"));
  CHECK(made.authority.Rotate("w", kDefaultLife, kNow + 3 * kDay).ok());
}

TEST_CASE("the last of a name is the one that was made last, whatever became of its file") {
  Made made;
  REQUIRE(made.authority.Issue({{Role::kWorker, "x"}, {}, 100 * kDay}, kNow).ok());
  REQUIRE(made.authority.Revoke("x", kNow).ok());
  REQUIRE(made.authority.Issue({{Role::kReader, "x"}, {}, 10 * kDay}, kNow).ok());
  std::filesystem::remove(made.authority.Path("x.pem"));  // moved to whoever x is
  const auto rotated = made.authority.Rotate("x", kDefaultLife, kNow);
  REQUIRE(rotated.status() == absl::OkStatus());
  CHECK(rotated->name.role == Role::kReader);
}

TEST_CASE("an authority's folder is for its owner alone") {
  Made made;
  const std::string folder = made.folder.path() + "/certs";
  for (const mode_t mode : {0750, 0705, 0770}) {
    REQUIRE(chmod(folder.c_str(), mode) == 0);
    const absl::Status refused = made.authority.Issue({{Role::kReader, "x"}}, kNow).status();
    CHECK(absl::IsFailedPrecondition(refused));
    CHECK_THAT(Message(refused), Contains("chmod 700"));
    CHECK_FALSE(made.authority.Revoke("x", kNow).ok());
    CHECK_FALSE(made.authority.List().ok());
  }
  const std::string open = made.folder.path() + "/open";
  REQUIRE(mkdir(open.c_str(), 0755) == 0);
  CHECK_THAT(Message(Authority(open).Init("x", kAuthorityLife, kNow)), Contains("chmod 700"));
  // A lock that leads elsewhere is not followed.
  REQUIRE(chmod(folder.c_str(), 0700) == 0);
  std::filesystem::remove(folder + "/.lock");
  std::filesystem::create_symlink(made.folder.path() + "/elsewhere", folder + "/.lock");
  CHECK_FALSE(made.authority.Issue({{Role::kReader, "x"}}, kNow).ok());
  CHECK_FALSE(std::filesystem::exists(made.folder.path() + "/elsewhere"));
}

TEST_CASE("what an ended init left is not taken for an authority") {
  const support::TemporaryFolder folder;
  Authority authority(folder.path());
  REQUIRE(base::WritePrivateFile(authority.Path("ca.key"), "rubbish").ok());
  const absl::Status refused = authority.Init("fleet", kAuthorityLife, kNow);
  CHECK(absl::IsAlreadyExists(refused));
  CHECK_THAT(Message(refused), Contains("without ca.crt") && Contains("remove ca.key"));
  CHECK(*base::ReadFile(authority.Path("ca.key")) == "rubbish");
}

TEST_CASE("a planner is reached by loopback, and by as many hosts as are allowed") {
  Made made;
  std::vector<std::string> hosts;
  for (size_t i = 0; i + std::size(kLoopback) < kMaxHosts; ++i) {
    hosts.push_back("h" + std::to_string(i));
  }
  made.Issue(Role::kPlanner, "p", hosts);
  const auto planner = *ReadIdentity(made.Of("p"), Needs::kPlanner, kNow);
  for (const char* host : {"localhost", "127.0.0.1", "::1", "h96"}) {
    CHECK(CheckHost(planner->own, host).ok());
  }
  CHECK_FALSE(CheckHost(planner->own, "").ok());
  CHECK(made.authority.Rotate("p", kDefaultLife, kNow).ok());
  hosts.push_back("x");
  CHECK_THAT(Message(made.authority.Issue({{Role::kPlanner, "q"}, hosts}, kNow).status()),
             Contains("at most 100"));
}

TEST_CASE("what cannot be issued is said") {
  Made made;
  made.Issue(Role::kWorker, "gpu-07");
  const auto issue = [&](const Wanted& wanted) {
    return Message(made.authority.Issue(wanted, kNow).status());
  };
  CHECK_THAT(issue({{Role::kWorker, "gpu-07"}}), Contains("certs rotate gpu-07"));
  CHECK_THAT(issue({{Role::kWorker, "../x"}}), Contains("is no name"));
  CHECK_THAT(issue({{Role::kWorker, "ca"}}), Contains("names a file"));
  CHECK_THAT(issue({{Role::kLocal, "x"}}), Contains("is no role"));
  CHECK_THAT(issue({{Role::kReader, "x"}, {"host"}}), Contains("for planners and workers"));
  CHECK_THAT(issue({{Role::kPlanner, "x"}, {"a,URI:warpsmith://operator/x"}}),
             Contains("neither a host name nor an address"));
  CHECK_THAT(issue({{Role::kWorker, "x"}, {}, absl::ZeroDuration()}), Contains("1 day"));
  CHECK_THAT(issue({{Role::kWorker, "x"}, {}, kAuthorityLife + kDay}), Contains("10 years"));
  CHECK(absl::IsNotFound(made.authority.Rotate("x", kDefaultLife, kNow).status()));
  // Its certificate would be one for the other's worker.
  CHECK_THAT(issue({{Role::kWorker, "gpu-07-cuda0"}}), Contains("names of the same worker"));
  made.Issue(Role::kWorker, "a-host1");
  CHECK_THAT(issue({{Role::kWorker, "a"}}), Contains("names of the same worker"));
  made.Issue(Role::kReader, "a");
}

}  // namespace
}  // namespace warpsmith::security
