#include "common/security/authority.h"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "common/base/file.h"
#include "common/base/private_file.h"
#include "common/security/identity.h"
#include "common/security/x509.h"
#include "tests/support/temporary_folder.h"

namespace warpsmith::security {
namespace {

using Catch::Matchers::Contains;

const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);
constexpr absl::Duration kDay = absl::Hours(24);

std::string Message(const absl::Status& status) { return std::string(status.message()); }

struct Made {
  support::TemporaryFolder folder;
  Authority authority{folder.path() + "/certs"};
  Made() { REQUIRE(authority.Init("fleet", kAuthorityLife, kNow - 10 * kDay) == absl::OkStatus()); }

  void Issue(Role role, const std::string& name, std::vector<std::string> hosts = {}) {
    const auto issued = authority.Issue({{role, name}, std::move(hosts), kDefaultLife}, kNow);
    REQUIRE(issued.status() == absl::OkStatus());
  }
  Files Of(const std::string& name) {
    return {authority.Path("ca.crt"), authority.Path(name + ".crt"), authority.Path(name + ".key"),
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
  CHECK(ModeOf(made.authority.Path("gpu-07.key")) == 0600);
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
             Contains("--tls-crl was not signed by"));

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
  files.key = made.authority.Path("b.key");
  CHECK_THAT(read(files), Contains("is not the key of --tls-cert"));
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
  files.cert = good.key;
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
  CHECK(rotated->hosts == std::vector<std::string>{"localhost"});
  CHECK(*(*watched)->Refresh(kNow + kDay));
  const auto after = (*watched)->Now();
  CHECK(after->cert_pem != before->cert_pem);
  CHECK(after->key_pem != before->key_pem);
  CHECK(after->trust->Verify(before->cert_pem, "", Use::kServer, kNow + kDay).ok());

  // Half of a rotation, and a list of another's: the last good ones go on.
  const std::string key = *base::ReadPrivateFile(made.authority.Path("p.key"));
  REQUIRE(base::WritePrivateFile(made.authority.Path("p.key"), before->key_pem).ok());
  CHECK_THAT(Message((*watched)->Refresh(kNow + kDay).status()), Contains("is not the key of"));
  CHECK((*watched)->Now() == after);
  REQUIRE(base::WritePrivateFile(made.authority.Path("p.key"), key).ok());
  CHECK(*(*watched)->Refresh(kNow + kDay));
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
  CHECK_THAT(issue({{Role::kWorker, "x"}, {"host"}}), Contains("for a planner"));
  CHECK_THAT(issue({{Role::kPlanner, "x"}, {"a,URI:warpsmith://operator/x"}}),
             Contains("neither a host name nor an address"));
  CHECK_THAT(issue({{Role::kWorker, "x"}, {}, absl::ZeroDuration()}), Contains("1 day"));
  CHECK_THAT(issue({{Role::kWorker, "x"}, {}, kAuthorityLife + kDay}), Contains("10 years"));
  CHECK(absl::IsNotFound(made.authority.Rotate("x", kDefaultLife, kNow).status()));
}

}  // namespace
}  // namespace warpsmith::security
