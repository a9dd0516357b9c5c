// Answers GET by HTTP, for whoever watches over a process: Prometheus, probes, people.
//
//   auto server = *http::Server::Start({.listen = "127.0.0.1:0", .guard = guard},
//                                      {{"/metrics", [] { return http::Reply{.body = "..."}; }}});
//   server->address();   // "127.0.0.1:40124"
//
// Who may ask for what is in the table of common/security/roles.h: GET /metrics is its method
// "/http/metrics". With TLS a caller is who its certificate or its token ("Authorization: Bearer
// TOKEN") says, and certificates that change need no restart. Without TLS it listens on loopback
// alone, and answers only who called it by a name of loopback: a web page of another host that was
// made to mean this one gets nothing.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/security/guard.h"

namespace warpsmith::http {

// Calls at a time; a connection that asks nothing counts until kIdleSeconds have passed.
inline constexpr int kMaxCalls = 16;
inline constexpr int kIdleSeconds = 5;
inline constexpr size_t kMaxRequestBytes = 64 << 10;

struct Reply {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
};

struct Route {
  std::string path;               // "/metrics"
  std::function<Reply()> answer;  // any thread, several at a time
};

struct Options {
  std::string listen;  // as rpc::ValidateListenAddress, but no socket's path; port 0 picks one
  std::shared_ptr<security::Guard> guard;
  // Where nobody else refreshes the guard: at handshakes, once a second at most.
  bool refresh = false;
};

class Server {
 public:
  // Unavailable: the address is taken. InvalidArgument: it is none to listen on.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const Options& options,
                                                       std::vector<Route> routes);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Where this machine reaches it.
  const std::string& address() const;
  // Ends calls under way; blocks for as long as an answer takes.
  void Stop();

 private:
  class Listening;
  explicit Server(std::unique_ptr<Listening> listening);
  const std::unique_ptr<Listening> listening_;
};

}  // namespace warpsmith::http
