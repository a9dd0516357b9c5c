#include "common/security/tokens.h"

#include <openssl/rand.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <unordered_set>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/private_file.h"
#include "common/base/sha256.h"
#include "common/security/file_lock.h"
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

bool IsForPeople(Role role) {
  return role == Role::kSubmitter || role == Role::kOperator || role == Role::kReader;
}

// As Sha256Hex writes it.
bool IsHash(const std::string& text) {
  return text.size() == kHashDigits && std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_isdigit(c) || (c >= 'a' && c <= 'f');
         });
}

absl::StatusOr<Token> ParseLine(absl::string_view line) {
  const std::vector<std::string> fields = absl::StrSplit(line, ' ', absl::SkipEmpty());
  Token token;
  if (fields.size() == 6 && IsHash(fields[0])) {
    const absl::StatusOr<Role> role = ParseRole(fields[1]);
    token.hash = fields[0];
    token.name.name = fields[2];
    if (role.ok() && IsForPeople(*role) && CheckName(fields[2]).ok() &&
        ParseTime(fields[3], &token.issued) && ParseTime(fields[4], &token.expires) &&
        ParseTime(fields[5], &token.revoked)) {
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

}  // namespace

absl::StatusOr<std::vector<Token>> Tokens::List() const {
  const absl::StatusOr<std::string> text = base::ReadPrivateFile(path_);
  std::vector<Token> tokens;
  if (absl::IsNotFound(text.status())) return tokens;
  if (!text.ok()) return text.status();
  std::unordered_set<std::string> hashes;
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
    if (!hashes.insert(token->hash).second) {
      return absl::InvalidArgumentError(absl::StrCat("'", path_, "', line ", number,
                                                     ": the token is there twice: remove a line"));
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
  if (!IsForPeople(name.role)) {
    return absl::InvalidArgumentError(
        absl::StrCat("tokens are for submitter, operator and reader: a ", NameOf(name.role).data(),
                     " has a certificate"));
  }
  if (life <= absl::ZeroDuration() || (life > kMaxTokenLife && life != absl::InfiniteDuration())) {
    return absl::InvalidArgumentError("a token is good for 1 day to 10 years, or for ever");
  }
  std::error_code error;  // if there is no folder after this, the lock says so
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), error);
  const auto lock = FileLock::Take(path_ + ".lock");
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
  if (access(path_.c_str(), F_OK) != 0) {
    return absl::NotFoundError(
        absl::StrCat("there is no file '", path_,
                     "' of tokens: ", "`warpsmith tokens issue` makes it, --tokens names it"));
  }
  const auto lock = FileLock::Take(path_ + ".lock");
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
  std::unordered_map<std::string, Token> by_hash;
  for (Token& token : *tokens) by_hash.emplace(token.hash, std::move(token));
  absl::MutexLock lock(&mutex_);
  stamp_ = std::move(stamp);
  tokens_ = std::move(by_hash);
  return true;
}

absl::StatusOr<Caller> Tokens::Find(std::string_view token, absl::Time now) const {
  // How long this takes tells of hashes, from which no token is made.
  const std::string hash = base::Sha256Hex(token);
  absl::MutexLock lock(&mutex_);
  const auto known = tokens_.find(hash);
  if (known == tokens_.end()) {
    return absl::UnauthenticatedError(
        "this planner knows no such token: ask whoever runs it for one (`warpsmith tokens issue`)");
  }
  const Token* const found = &known->second;
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
