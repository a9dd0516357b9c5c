// Who this process is, and whom it believes: certificate, key, authority and revocations, read from
// files and read again when they change.
//
//   auto identity = *WatchedIdentity::Open(
//       {.ca = "ca.crt", .cert = "p.pem", .key = "p.pem", .crl = "crl.pem"}, Needs::kPlanner, now);
//   identity->Refresh(absl::Now());                     // now and then: what changed is taken
//   auto name = identity->Now()->trust->Verify(peer_pem, "", Use::kClient, absl::Now());
//
// A certificate is good for a use if the authority made it for that, it is in its time, and it is
// not among the revoked ones. What is wrong with one is said: which it is, why it is refused, and
// what to do. Files that are damaged or do not fit each other are refused, and the last good ones
// go on. Times are times of day. Any thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/security/roles.h"

namespace warpsmith::security {

// Paths; "": none. `cert` and `key` may name one file, which is read once, so that it is replaced
// as one; of two files that are replaced one after the other, the pair before goes on until both
// fit.
struct Files {
  std::string ca;    // of the authority, or of several; without it there is no TLS
  std::string cert;  // of this process
  std::string key;   // that of `cert`; for its owner alone
  std::string crl;   // what the authority has revoked; several lists in one file all count
};

enum class Use { kClient, kServer };
// What a process must have: a planner's certificate, or that of any role, or none.
enum class Needs { kPlanner, kCertificate, kNothing };

class Trust {
 public:
  // A list counts for the authority that has signed it; of one without a list, nothing is revoked.
  // `crl_pem` "": no list. InvalidArgument: they cannot be read, or a list is that of none of the
  // authorities, or one of a part alone.
  static absl::StatusOr<std::shared_ptr<const Trust>> Make(const std::string& ca_pem,
                                                           const std::string& crl_pem);
  ~Trust();
  Trust(const Trust&) = delete;
  Trust& operator=(const Trust&) = delete;

  struct Verified {
    Name name;
    std::vector<std::string> hosts;
    // Of the certificate, of its authorities and of their lists together.
    absl::Time not_before, not_after;
  };
  // `chain_pem`: what was sent beside it, or "". Unauthenticated says why it is refused.
  absl::StatusOr<Verified> Verify(std::string_view certificate_pem, std::string_view chain_pem,
                                  Use use, absl::Time now) const;

 private:
  struct Store;
  explicit Trust(std::unique_ptr<Store> store);
  const std::unique_ptr<Store> store_;
};

// OK if one of a planner's hosts is `host`, which is a name or an address.
absl::Status CheckHost(const Trust::Verified& planner, const std::string& host);

struct Identity {
  std::string ca_pem, cert_pem, key_pem;  // cert and key may be ""
  Trust::Verified own;                    // of cert_pem
  std::shared_ptr<const Trust> trust;
};

// FailedPrecondition, NotFound, InvalidArgument, Unauthenticated: a file is missing or damaged, a
// key can be read by others or is not that of the certificate, or the certificate is refused.
absl::StatusOr<std::shared_ptr<const Identity>> ReadIdentity(const Files& files, Needs needs,
                                                             absl::Time now);

class WatchedIdentity {
 public:
  static absl::StatusOr<std::unique_ptr<WatchedIdentity>> Open(const Files& files, Needs needs,
                                                               absl::Time now);

  // Reads files that have changed; whether it took something new. Errors: they are not taken, the
  // last ones go on, and the next call tries again; what was revoked is taken also where the own
  // certificate is wrong. Blocks for as long as the files do.
  absl::StatusOr<bool> Refresh(absl::Time now);
  // The last good ones. Two calls give the same object unless something changed.
  std::shared_ptr<const Identity> Now() const;
  const Files& files() const { return files_; }

 private:
  WatchedIdentity(const Files& files, Needs needs) : files_(files), needs_(needs) {}

  const Files files_;
  const Needs needs_;
  absl::Mutex refresh_;  // one at a time
  std::string stamp_ ABSL_GUARDED_BY(refresh_);
  std::string trust_stamp_ ABSL_GUARDED_BY(refresh_);  // of ca and crl alone
  mutable absl::Mutex mutex_;
  std::shared_ptr<const Identity> identity_ ABSL_GUARDED_BY(mutex_);
};

// Changes when one of the files does: what is not there counts too.
std::string StampOf(const std::vector<std::string>& paths);

}  // namespace warpsmith::security
