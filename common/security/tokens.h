// Tokens for people and their tools, in one file that holds their hashes alone:
//
//   # sha256 role name issued expires revoked
//   9f86d0...  submitter ci 2026-11-28T10:00:00Z 2027-02-26T10:00:00Z -
//
//   Tokens tokens("DIR/tokens");
//   std::string token = *tokens.Issue({Role::kSubmitter, "ci"}, absl::Hours(24 * 90), now);
//   absl::StatusOr<Caller> caller = tokens.Find(token, now);   // after Refresh()
//
// A token is 32 random bytes, so that its hash needs no salt and cannot be undone. Those that are
// revoked or expired stay in the file, so that who comes with one is told what it was. The file is
// for its owner alone and is replaced atomically; one process at a time changes it. Any thread.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/security/roles.h"

namespace warpsmith::security {

inline constexpr size_t kMaxTokens = 10'000;  // in one file, all that were ever issued
inline constexpr absl::Duration kMaxTokenLife = absl::Hours(24 * 3650);

struct Token {
  std::string hash;
  Name name;
  absl::Time issued;
  absl::Time expires = absl::InfiniteFuture();
  absl::Time revoked = absl::InfiniteFuture();  // when it was; not: in the infinite future
};

class Tokens {
 public:
  explicit Tokens(std::string path) : path_(std::move(path)) {}

  // Beside the one that the name may have: it is revoked when the new one is in use. Roles of
  // people alone. `life` may be infinite.
  absl::StatusOr<std::string> Issue(const Name& name, absl::Duration life, absl::Time now);
  // All tokens of the name; how many. NotFound: there is none.
  absl::StatusOr<int> Revoke(const std::string& name, absl::Time now);
  // In the file's order; none, if there is no file.
  absl::StatusOr<std::vector<Token>> List() const;

  // Takes what the file says now; whether it had changed. Errors: it cannot be read, is damaged, or
  // others can read it: what it said before goes on. Of a token that is there twice neither counts:
  // that is damage.
  absl::StatusOr<bool> Refresh();
  // As of the last Refresh. Unauthenticated says why it is refused.
  absl::StatusOr<Caller> Find(std::string_view token, absl::Time now) const;

 private:
  const std::string path_;
  mutable absl::Mutex mutex_;
  std::string stamp_ ABSL_GUARDED_BY(mutex_);
  std::unordered_map<std::string, Token> tokens_ ABSL_GUARDED_BY(mutex_);  // by hash
};

}  // namespace warpsmith::security
