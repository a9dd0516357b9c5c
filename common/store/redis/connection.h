// A connection to a Redis server, and what its answers mean here.
//
//   Connection redis({.address = "unix:/run/redis/redis.sock", .user = "warpsmith"});
//   absl::StatusOr<Reply> reply = redis.Do({"HGET", key, "epoch"});
//   if (reply.ok()) reply->text();
//
// It connects when it is first used, and again after it was lost: a connection whose answer did not
// come is not used for another call.
//
// Errors
//   Unavailable         the server is not there, is not ready, or takes nothing for now (LOADING,
//   BUSY,
//                       READONLY, OOM, MISCONF, ...): the command was not executed, and may be
//                       later
//   DeadlineExceeded    the answer did not come: it was executed or not
//   PermissionDenied    user, password or what they may
//   FailedPrecondition  a script's refusal, see Refused()
//   Internal            anything else the server says
//
// One thread at a time. The process ignores SIGPIPE, which hiredis does not keep from it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

struct redisContext;
struct redisReply;

namespace warpsmith::store::redis {

struct Server {
  std::string address;  // "127.0.0.1:6379" or "unix:/path"
  std::string user;     // of an ACL; "": the default one
  std::string password;
};

// InvalidArgument: it is no address, or one on another host. What goes there would be read by
// anybody on the way, so that a Redis elsewhere is reached through a tunnel (stunnel) on this host.
absl::Status ValidateAddress(const std::string& address);

// Of one command.
class Reply {
 public:
  explicit Reply(redisReply* reply);
  // Part of another one, which must outlive it.
  static Reply PartOf(const redisReply* part);

  bool is_nil() const;
  bool is_list() const;
  int64_t number() const;  // of text, too; 0: it is none
  absl::string_view text() const;
  size_t size() const;  // of a list; 0: it is none
  Reply at(size_t index) const;

 private:
  Reply() = default;
  std::shared_ptr<redisReply> owned_;
  const redisReply* reply_ = nullptr;
};

// Bytes that outlive the call; a list of them is one command.
using Arguments = std::vector<absl::string_view>;

// Text of a script and its SHA1, which the server knows it by.
class Script {
 public:
  explicit Script(std::string text);
  const std::string& text() const { return text_; }
  const std::string& sha1() const { return sha1_; }

 private:
  std::string text_, sha1_;
};

class Connection {
 public:
  // `limit`: of each call, connecting included.
  Connection(Server server, absl::Duration limit);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  absl::StatusOr<Reply> Do(const Arguments& command);
  // One after another, sent at once: their replies, or the first error.
  absl::StatusOr<std::vector<Reply>> DoInARow(const std::vector<Arguments>& commands);
  // Sends its text where the server does not know it (any more).
  absl::StatusOr<Reply> Run(const Script& script, const Arguments& keys,
                            const Arguments& arguments);
  // The next call connects anew.
  void Disconnect();

  const std::string& address() const { return server_.address; }
  // How often it has connected: between calls that find the same the server was the same.
  int64_t connects() const { return connects_; }

 private:
  absl::Status Connect();
  // Sends; what Receive gives is in the same order.
  void Send(const Arguments& command);
  absl::StatusOr<Reply> Receive();
  absl::StatusOr<Reply> Exchange(const Arguments& command);
  absl::Status Lost(bool sent);

  const Server server_;
  const absl::Duration limit_;
  redisContext* context_ = nullptr;
  int64_t connects_ = 0;
};

// Of a status from a script's `redis.error_reply('WORD detail')`: WORD and detail. "": none.
std::pair<std::string, std::string> Refused(const absl::Status& status);

// Durability of the server's settings. Each line says what may be lost because of which; none: what
// it answered for survives a crash and the loss of power.
absl::StatusOr<std::vector<std::string>> RisksOf(Connection& connection);

}  // namespace warpsmith::store::redis
