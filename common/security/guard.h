// Decides of each call who makes it and whether that may be, before the call's request is read.
//
//   Guard guard(identity, tokens, absl::Now);
//   guard.Refresh();                                  // about once a second
//   absl::StatusOr<Caller> caller = guard.Admit(Listener::kClients, method, proof);
//
// Without an identity there is no TLS, and every caller is local. With one, a caller is who its
// token says, if it sends one, and else who its certificate says; one that is refused is nobody at
// all. Certificates are judged at each call, not at the handshake: so who is refused is told why,
// and what is revoked or expires ends the calls of connections that there are. What was refused is
// logged, each thing once a minute. Any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/security/identity.h"
#include "common/security/roles.h"
#include "common/security/tokens.h"

namespace warpsmith::security {

inline constexpr size_t kMaxKnown = 20'000;  // certificates whose verification is remembered
inline constexpr size_t kMaxToldRefusals = 1'000;
inline constexpr absl::Duration kTellAgain = absl::Minutes(1);
// A certificate of one's own that ends so soon is told of, once a day.
inline constexpr absl::Duration kWarnBefore = absl::Hours(24 * 14);

// What a call brings to say who makes it. "": nothing.
struct Proof {
  std::string_view certificate_pem;
  std::string_view chain_pem;
  std::string_view authorization;  // "Bearer TOKEN"
};

class Guard {
 public:
  using DateSource = std::function<absl::Time()>;

  // Null: no TLS; no tokens. Both outlive the guard.
  Guard(WatchedIdentity* identity, Tokens* tokens, DateSource date);

  bool secured() const { return identity_ != nullptr; }
  // The current files, for handshakes; null without TLS.
  std::shared_ptr<const Identity> identity() const;

  // As security::Check; Unauthenticated too where the proof is refused.
  absl::StatusOr<Caller> Admit(Listener listener, std::string_view method, const Proof& proof);
  // Who that is, of a call that was admitted.
  absl::StatusOr<Caller> CallerOf(const Proof& proof);

  // Takes files that changed, and tells the log of what is wrong with them; whether
  // certificates that were believed may not be any more. Blocks for as long as the files do.
  bool Refresh();

 private:
  struct Known {
    std::shared_ptr<const Trust> trust;  // that verified it
    Trust::Verified verified;
  };
  absl::StatusOr<Caller> ByCertificate(const Proof& proof);
  void TellOf(std::string_view method, const absl::Status& refused);
  // Not what was told within kTellAgain.
  bool IsNews(const std::string& text);

  WatchedIdentity* const identity_;
  Tokens* const tokens_;
  const DateSource date_;
  absl::Mutex mutex_;
  std::unordered_map<std::string, Known> known_ ABSL_GUARDED_BY(mutex_);  // by PEM
  std::map<std::string, absl::Time> told_ ABSL_GUARDED_BY(mutex_);
  int64_t untold_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string trouble_;  // of Refresh, that was told
  absl::Time warned_ = absl::InfinitePast();
};

}  // namespace warpsmith::security
