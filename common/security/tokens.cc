#include "common/security/tokens.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/private_file.h"
#include "common/base/sha256.h"
#include "common/security/identity.h"
#include "common/security/x509.h"

namespace warpsmith::security {
namespace {

constexpr char kPrefix[] = "wst_";  // so that one is known where it lies about
constexpr int kTokenBytes = 32;
constexpr size_t kHashDigits = 64;
constexpr char kHeader[] = "# sha256 role name issued expires revoked\n";
constexpr char kTimeFormat[] = "%Y-%m-%dT%H:%M:%SZ";

std::string Written(absl::Time time) {
  if (time == absl::InfiniteFuture()) return "-";
  return absl::FormatTime(kTimeFormat, time, absl::UTCTimeZone());
}

bool ParseTime(const std::string& text, absl::Time* time) {
  *time = absl::InfiniteFuture();
  return text == "-" || absl::ParseTime(kTimeFormat, text, time, nullptr);
}

std::string LineOf(const Token& token) {
  return absl::StrCat(token.hash, " ", NameOf(token.name.role).data(), " ", token.name.name, " ",
                      Written(token.issued), " ", Written(token.expires), " ",
                      Written(token.revoked), "\n");
}

absl::StatusOr<Token> ParseLine(absl::string_view line) {
  const std::vector<std::string> fields = absl::StrSplit(line, ' ', absl::SkipEmpty());
  Token token;
  if (fields.size() == 6 && fields[0].size() == kHashDigits) {
    const absl::StatusOr<Role> role = ParseRole(fields[1]);
    token.hash = fields[0];
    token.name.name = fields[2];
    if (role.ok() && CheckName(fields[2]).ok() && ParseTime(fields[3], &token.issued) &&
        ParseTime(fields[4], &token.expires) && ParseTime(fields[5], &token.revoked)) {
      token.name.role = *role;
      return token;
    }
  }
  return absl::InvalidArgumentError("it is damaged");
}

absl::Status Write(const std::string& path, const std::vector<Token>& tokens) {
  std::string text = kHeader;
  for (const Token& token : tokens) text += LineOf(token);
  return base::WritePrivateFile(path, text);
}

// Held while the file is changed.
class FileLock {
 public:
  static absl::StatusOr<std::unique_ptr<FileLock>> Take(const std::string& path) {
    const std::string lock = path + ".lock";
    const int fd = open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || flock(fd, LOCK_EX) != 0) {
      const int error = errno;
      if (fd >= 0) close(fd);
      return absl::ErrnoToStatus(error, absl::StrCat("cannot lock '", lock, "'"));
    }
    return std::unique_ptr<FileLock>(new FileLock(fd));
  }
  ~FileLock() { close(fd_); }

 private:
  explicit FileLock(int fd) : fd_(fd) {}
  const int fd_;
};

}  // namespace

absl::StatusOr<std::vector<Token>> Tokens::List() const {
  const absl::StatusOr<std::string> text = base::ReadPrivateFile(path_);
  std::vector<Token> tokens;
  if (absl::IsNotFound(text.status())) return tokens;
  if (!text.ok()) return text.status();
  int number = 0;
  for (absl::string_view line : absl::StrSplit(*text, '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line[0] == '#') continue;
    absl::StatusOr<Token> token = ParseLine(line);
    if (!token.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", path_, "', line ", number, ": ", std::string(token.status().message()),
                       ": it has to say `sha256 role name issued expires revoked`"));
    }
    tokens.push_back(*std::move(token));
    if (tokens.size() > kMaxTokens) {
      return absl::ResourceExhaustedError(absl::StrCat("'", path_, "' has more than ", kMaxTokens,
                                                       " tokens: remove lines of revoked ones"));
    }
  }
  return tokens;
}

absl::StatusOr<std::string> Tokens::Issue(const Name& name, absl::Duration life, absl::Time now) {
  if (absl::Status status = CheckName(name.name); !status.ok()) return status;
  if (name.role != Role::kSubmitter && name.role != Role::kOperator && name.role != Role::kReader) {
    return absl::InvalidArgumentError(
        absl::StrCat("tokens are for submitter, operator and reader: a ", NameOf(name.role).data(),
                     " has a certificate"));
  }
  if (life <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError("a token is good for one day at least");
  }
  const auto lock = FileLock::Take(path_);
  if (!lock.ok()) return lock.status();
  absl::StatusOr<std::vector<Token>> tokens = List();
  if (!tokens.ok()) return tokens.status();
  if (tokens->size() >= kMaxTokens) {
    return absl::ResourceExhaustedError(
        absl::StrCat("'", path_, "' has ", kMaxTokens, " tokens: remove lines of revoked ones"));
  }
  unsigned char random[kTokenBytes];
  if (RAND_bytes(random, sizeof random) != 1) {
    return absl::InternalError(absl::StrCat("OpenSSL has no random bytes: ", LastError()));
  }
  const std::string token =
      absl::StrCat(kPrefix, absl::WebSafeBase64Escape(absl::string_view(
                                reinterpret_cast<const char*>(random), sizeof random)));
  tokens->push_back(
      {.hash = base::Sha256Hex(token), .name = name, .issued = now, .expires = now + life});
  if (absl::Status status = Write(path_, *tokens); !status.ok()) return status;
  return token;
}

absl::StatusOr<int> Tokens::Revoke(const std::string& name, absl::Time now) {
  const auto lock = FileLock::Take(path_);
  if (!lock.ok()) return lock.status();
  absl::StatusOr<std::vector<Token>> tokens = List();
  if (!tokens.ok()) return tokens.status();
  int revoked = 0;
  bool known = false;
  for (Token& token : *tokens) {
    if (token.name.name != name) continue;
    known = true;
    if (token.revoked != absl::InfiniteFuture()) continue;
    token.revoked = now;
    ++revoked;
  }
  if (!known) return absl::NotFoundError(absl::StrCat("no token was issued for '", name, "'"));
  if (revoked > 0) {
    if (absl::Status status = Write(path_, *tokens); !status.ok()) return status;
  }
  return revoked;
}

absl::StatusOr<bool> Tokens::Refresh() {
  std::string stamp = StampOf({path_});
  {
    absl::MutexLock lock(&mutex_);
    if (stamp == stamp_) return false;
  }
  absl::StatusOr<std::vector<Token>> tokens = List();
  if (!tokens.ok()) return tokens.status();
  absl::MutexLock lock(&mutex_);
  stamp_ = std::move(stamp);
  tokens_ = *std::move(tokens);
  return true;
}

absl::StatusOr<Caller> Tokens::Find(std::string_view token, absl::Time now) const {
  const std::string hash = base::Sha256Hex(token);
  absl::MutexLock lock(&mutex_);
  const Token* found = nullptr;
  for (const Token& each : tokens_) {
    if (CRYPTO_memcmp(each.hash.data(), hash.data(), kHashDigits) == 0) found = &each;
  }
  if (found == nullptr) {
    return absl::UnauthenticatedError(
        "this planner knows no such token: ask whoever runs it for one (`warpsmith tokens issue`)");
  }
  if (found->revoked != absl::InfiniteFuture()) {
    return absl::UnauthenticatedError(absl::StrCat("the token of ", NameOf(found->name.role).data(),
                                                   " '", found->name.name, "' was revoked on ",
                                                   Date(found->revoked)));
  }
  if (found->expires <= now) {
    return absl::UnauthenticatedError(absl::StrCat(
        "the token of ", NameOf(found->name.role).data(), " '", found->name.name, "' expired on ",
        Date(found->expires), ": `warpsmith tokens issue ", found->name.name, "` makes a new one"));
  }
  return Caller{found->name.role, found->name.name, /*by_token=*/true};
}

}  // namespace warpsmith::security
