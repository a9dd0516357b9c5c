// A small certificate authority in one folder, enough for a first fleet.
//
//   ca.crt, ca.key     the authority's own; ca.key makes certificates for everybody
//   crl.pem            what was revoked; programs are given it as --tls-crl
//   NAME.pem           what was issued last for NAME, certificate and key: what is copied to
//   whoever
//                      NAME is, and given there as --tls-cert and as --tls-key
//   issued/SERIAL.crt  every certificate that was ever issued, so that all of a name are revoked
//
//   Authority authority("/srv/warpsmith/certs");
//   absl::Status made = authority.Init("fleet", absl::Hours(24 * 3650), now);
//   auto issued = authority.Issue({.name = {Role::kWorker, "gpu-07"}, .life = kDefaultLife}, now);
//
// A certificate and its key are one file, since two cannot be replaced at one moment: whoever reads
// between would find a pair that does not fit, and so would whoever starts after a crash there.
// There is no NAME.crt with a NAME.key beside it for that reason; issued/ has certificates alone.
//
// Keys are EC P-256. The folder and files with a key are for their owner alone; a folder that
// others can read or write is refused. Files are replaced atomically. One process at a time changes
// a folder; a second one waits. `now` is the time of day. Not thread-safe.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/security/roles.h"

namespace warpsmith::security {

inline constexpr absl::Duration kDefaultLife = absl::Hours(24 * 90);
inline constexpr absl::Duration kAuthorityLife = absl::Hours(24 * 3650);
inline constexpr absl::Duration kMaxAuthorityLife = absl::Hours(24 * 365 * 30);
// Certificates begin so long before they are made: clocks of two machines differ.
inline constexpr absl::Duration kClockSkew = absl::Minutes(5);
inline constexpr size_t kMaxHosts = 100;
// Of every planner: clients on its machine reach it by these.
inline constexpr const char* kLoopback[] = {"localhost", "127.0.0.1", "::1"};
inline constexpr size_t kMaxIssued = 100'000;  // certificates of one authority

struct Wanted {
  Name name;
  // DNS names and addresses: of a planner, and of a worker whose metrics are to be reached by TLS.
  // kLoopback is added.
  std::vector<std::string> hosts;
  absl::Duration life = kDefaultLife;
};

struct Issued {
  Name name;
  std::string serial;
  std::vector<std::string> hosts;
  absl::Time not_before, not_after;
  bool revoked = false;
  std::string certificate, key;  // path of NAME.pem, twice, if this is what lies there
};

class Authority {
 public:
  explicit Authority(std::string folder) : folder_(std::move(folder)) {}

  // AlreadyExists: the folder has an authority; nothing is ever written over it.
  absl::Status Init(const std::string& name, absl::Duration life, absl::Time now);
  // A new name, or one whose certificates are all revoked. AlreadyExists: rotate it, or it is a
  // worker's whose workers would be another one's as well (IsWorkerOf).
  absl::StatusOr<Issued> Issue(const Wanted& wanted, absl::Time now);
  // A new key and certificate with the role and hosts of the last one, and `more_hosts`, in its
  // place; the old one stays good until it expires, so that both may be in use meanwhile. NotFound:
  // none was issued. FailedPrecondition: it is revoked.
  absl::StatusOr<Issued> Rotate(const std::string& name, absl::Duration life, absl::Time now,
                                const std::vector<std::string>& more_hosts = {});
  // All certificates of the name; how many. NotFound: there is none.
  absl::StatusOr<int> Revoke(const std::string& name, absl::Time now);
  // By name, and the last one first.
  absl::StatusOr<std::vector<Issued>> List() const;

  std::string Path(const std::string& file) const { return folder_ + "/" + file; }

 private:
  absl::StatusOr<Issued> Make(const Wanted& wanted, absl::Time now);
  // There is an authority, in a folder for its owner alone.
  absl::Status Exists() const;

  const std::string folder_;
};

}  // namespace warpsmith::security
