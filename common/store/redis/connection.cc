#include "common/store/redis/connection.h"

#include <hiredis/hiredis.h>
#include <openssl/evp.h>
#include <sys/time.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace warpsmith::store::redis {
namespace {

constexpr size_t kMaxSocketPath = 107;  // sockaddr_un
constexpr char kRefusal[] = "redis: ";

// What a server says first in an error, and what it means.
struct Meaning {
  absl::string_view word;
  absl::StatusCode code;
  absl::string_view advice;
};
constexpr absl::StatusCode kWait = absl::StatusCode::kUnavailable;
constexpr absl::StatusCode kDenied = absl::StatusCode::kPermissionDenied;
constexpr Meaning kMeanings[] = {
    {"LOADING", kWait, "it reads its files after a start"},
    {"BUSY", kWait, "a script runs for too long: SCRIPT KILL ends one that has written nothing"},
    {"READONLY", kWait, "it is a replica: name the primary, or promote it"},
    {"MASTERDOWN", kWait, "it is a replica whose primary is away"},
    {"OOM", kWait, "it has no room: raise maxmemory"},
    {"MISCONF", kWait, "it cannot write to its disk: its log says why"},
    {"NOREPLICAS", kWait, "fewer replicas follow it than min-replicas-to-write asks for"},
    {"TRYAGAIN", kWait, "its cluster moves keys"},
    {"CLUSTERDOWN", kWait, "its cluster is not whole"},
    {"NOAUTH", kDenied, "it wants a password: --redis-user, --redis-password-file"},
    {"WRONGPASS", kDenied, "user and password do not fit: --redis-user, --redis-password-file"},
    {"NOPERM", kDenied, "its user may not do that: docs/guide/redis.md has the ACL that is needed"},
    // Scripts' own.
    {"STALE", absl::StatusCode::kFailedPrecondition, ""},
    {"OTHERSTORE", absl::StatusCode::kFailedPrecondition, ""},
    {"LOST", absl::StatusCode::kFailedPrecondition, ""},
    {"PLACE", absl::StatusCode::kFailedPrecondition, ""},
    {"BOUNDS", absl::StatusCode::kFailedPrecondition, ""},
    {"NOTEMPTY", absl::StatusCode::kFailedPrecondition, ""},
    {"EMPTIED", absl::StatusCode::kFailedPrecondition, ""},
};

absl::Status StatusOf(const std::string& address, absl::string_view error) {
  const absl::string_view word = error.substr(0, error.find(' '));
  for (const Meaning& meaning : kMeanings) {
    if (word != meaning.word) continue;
    if (meaning.advice.empty()) return absl::Status(meaning.code, absl::StrCat(kRefusal, error));
    return absl::Status(meaning.code,
                        absl::StrCat("Redis at ", address, ": ", error, " (", meaning.advice, ")"));
  }
  return absl::InternalError(absl::StrCat("Redis at ", address, ": ", error));
}

timeval TimevalOf(absl::Duration duration) { return absl::ToTimeval(duration); }

// host and port of "HOST:PORT"; false: it is not that.
bool Split(const std::string& address, std::string& host, int& port) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || !absl::SimpleAtoi(address.substr(colon + 1), &port)) {
    return false;
  }
  host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  return !host.empty() && port > 0 && port <= 65535;
}

}  // namespace

absl::Status ValidateAddress(const std::string& address) {
  absl::string_view rest = address;
  if (absl::ConsumePrefix(&rest, "unix:")) {
    if (!rest.empty() && rest.size() <= kMaxSocketPath) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "'", address, "': a unix socket's path has 1 to ", kMaxSocketPath, " characters"));
  }
  std::string host;
  int port = 0;
  if (!Split(address, host, port)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", address, "' is no address of a Redis: give 127.0.0.1:PORT or unix:/path"));
  }
  if (host == "localhost" || host == "::1" || absl::StartsWith(host, "127.")) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "'", address,
      "': what goes to a Redis on another host could be read and changed on the way. ",
      "Run stunnel on this host and name its port on 127.0.0.1 (docs/guide/redis.md)"));
}

// ---- replies -----------------------------------------------------------------------------------

Reply::Reply(redisReply* reply) : owned_(reply, freeReplyObject), reply_(reply) {}

Reply Reply::PartOf(const redisReply* part) {
  Reply reply;
  reply.reply_ = part;
  return reply;
}

bool Reply::is_nil() const { return reply_->type == REDIS_REPLY_NIL; }
bool Reply::is_list() const { return reply_->type == REDIS_REPLY_ARRAY; }

int64_t Reply::number() const {
  if (reply_->type == REDIS_REPLY_INTEGER) return reply_->integer;
  int64_t number = 0;
  return absl::SimpleAtoi(text(), &number) ? number : 0;
}

absl::string_view Reply::text() const {
  const bool has_text = reply_->type == REDIS_REPLY_STRING || reply_->type == REDIS_REPLY_STATUS ||
                        reply_->type == REDIS_REPLY_ERROR;
  return has_text ? absl::string_view(reply_->str, reply_->len) : absl::string_view();
}

size_t Reply::size() const { return is_list() ? reply_->elements : 0; }

Reply Reply::at(size_t index) const {
  Reply part = PartOf(reply_->element[index]);
  part.owned_ = owned_;
  return part;
}

// ---- scripts -----------------------------------------------------------------------------------

Script::Script(std::string text) : text_(std::move(text)) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned int size = 0;
  EVP_Digest(text_.data(), text_.size(), digest.data(), &size, EVP_sha1(), nullptr);
  sha1_ =
      absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(digest.data()), size));
}

std::pair<std::string, std::string> Refused(const absl::Status& status) {
  absl::string_view text = status.message();
  if (!absl::IsFailedPrecondition(status) || !absl::ConsumePrefix(&text, kRefusal)) return {};
  const size_t space = text.find(' ');
  if (space == text.npos) return {std::string(text), ""};
  return {std::string(text.substr(0, space)), std::string(text.substr(space + 1))};
}

// ---- the connection ----------------------------------------------------------------------------

Connection::Connection(Server server, absl::Duration limit)
    : server_(std::move(server)), limit_(limit) {}

Connection::~Connection() { Disconnect(); }

void Connection::Disconnect() {
  if (context_ != nullptr) redisFree(std::exchange(context_, nullptr));
}

// Of the connection's error, which ends it.
absl::Status Connection::Lost(bool sent) {
  const std::string reason = context_->err == REDIS_ERR_IO && errno == EAGAIN
                                 ? absl::StrCat("no answer within ", absl::FormatDuration(limit_))
                                 : std::string(context_->errstr);
  Disconnect();
  const std::string message = absl::StrCat("Redis at ", server_.address, ": ", reason);
  return sent ? absl::DeadlineExceededError(message) : absl::UnavailableError(message);
}

absl::Status Connection::Connect() {
  if (context_ != nullptr) return absl::OkStatus();
  ++connects_;
  const timeval limit = TimevalOf(limit_);
  absl::string_view path = server_.address;
  if (absl::ConsumePrefix(&path, "unix:")) {
    context_ = redisConnectUnixWithTimeout(std::string(path).c_str(), limit);
  } else {
    std::string host;
    int port = 0;
    if (!Split(server_.address, host, port)) return ValidateAddress(server_.address);
    context_ = redisConnectWithTimeout(host.c_str(), port, limit);
  }
  if (context_ == nullptr) return absl::ResourceExhaustedError("no memory for a connection");
  if (context_->err != 0) return Lost(/*sent=*/false);
  if (redisSetTimeout(context_, limit) != REDIS_OK) return Lost(/*sent=*/false);
  if (server_.password.empty()) return absl::OkStatus();
  Arguments auth = {"AUTH", server_.password};
  if (!server_.user.empty()) auth.insert(auth.begin() + 1, server_.user);
  absl::Status allowed = Exchange(auth).status();
  if (!allowed.ok()) Disconnect();
  if (absl::IsDeadlineExceeded(allowed)) return absl::UnavailableError(allowed.message());
  return allowed;
}

void Connection::Send(const Arguments& command) {
  std::vector<const char*> data;
  std::vector<size_t> sizes;
  data.reserve(command.size());
  sizes.reserve(command.size());
  for (const absl::string_view argument : command) {
    data.push_back(argument.data() == nullptr ? "" : argument.data());
    sizes.push_back(argument.size());
  }
  redisAppendCommandArgv(context_, static_cast<int>(command.size()), data.data(), sizes.data());
}

absl::StatusOr<Reply> Connection::Receive() {
  void* reply = nullptr;
  if (redisGetReply(context_, &reply) != REDIS_OK || reply == nullptr) return Lost(/*sent=*/true);
  Reply result(static_cast<redisReply*>(reply));
  if (static_cast<redisReply*>(reply)->type == REDIS_REPLY_ERROR) {
    return StatusOf(server_.address, result.text());
  }
  return result;
}

absl::StatusOr<Reply> Connection::Exchange(const Arguments& command) {
  Send(command);
  return Receive();
}

absl::StatusOr<Reply> Connection::Do(const Arguments& command) {
  if (absl::Status connected = Connect(); !connected.ok()) return connected;
  return Exchange(command);
}

absl::StatusOr<std::vector<Reply>> Connection::DoInARow(const std::vector<Arguments>& commands) {
  if (absl::Status connected = Connect(); !connected.ok()) return connected;
  for (const Arguments& command : commands) Send(command);
  std::vector<Reply> replies;
  absl::Status first_error;
  for (size_t i = 0; i < commands.size() && context_ != nullptr; ++i) {
    absl::StatusOr<Reply> reply = Receive();
    if (reply.ok()) {
      replies.push_back(*std::move(reply));
    } else {
      first_error.Update(reply.status());
    }
  }
  if (!first_error.ok()) return first_error;
  return replies;
}

absl::StatusOr<Reply> Connection::Run(const Script& script, const Arguments& keys,
                                      const Arguments& arguments) {
  const std::string count = absl::StrCat(keys.size());
  Arguments command = {"EVALSHA", script.sha1(), count};
  command.reserve(3 + keys.size() + arguments.size());
  command.insert(command.end(), keys.begin(), keys.end());
  command.insert(command.end(), arguments.begin(), arguments.end());
  absl::StatusOr<Reply> reply = Do(command);
  if (!absl::IsInternal(reply.status()) ||
      !absl::StrContains(reply.status().message(), ": NOSCRIPT")) {
    return reply;
  }
  command[0] = "EVAL";
  command[1] = script.text();
  return Do(command);
}

// ---- settings ----------------------------------------------------------------------------------

absl::StatusOr<std::vector<std::string>> RisksOf(Connection& connection) {
  struct Wanted {
    absl::string_view name, value, risk;
  };
  constexpr Wanted kWanted[] = {
      {"appendonly", "yes", "what it answered for since its last snapshot is lost with it"},
      {"appendfsync", "always", "the last second's answers are lost with the machine's power"},
      {"no-appendfsync-on-rewrite", "no",
       "what it answers for while it rewrites its log is lost with the machine's power"},
      {"maxmemory-policy", "noeviction", "it may throw keys away when it is full"},
  };
  std::vector<std::string> risks;
  for (const Wanted& wanted : kWanted) {
    absl::StatusOr<Reply> reply = connection.Do({"CONFIG", "GET", wanted.name});
    if (!reply.ok()) return reply.status();
    const std::string value =
        reply->size() == 2 ? std::string(reply->at(1).text()) : std::string("not known");
    if (value != wanted.value) {
      risks.push_back(
          absl::StrCat(wanted.name, " is ", value, ", not ", wanted.value, ": ", wanted.risk));
    }
  }
  return risks;
}

}  // namespace warpsmith::store::redis
