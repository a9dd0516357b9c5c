// Answers by HTTP, for whoever watches over a process: Prometheus, probes, people.
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
//
// A POST changes something. It is made by a caller that no other host's page can be: its body is
// JSON and says so, its Origin, if it has one, is this server, and with TLS it brings a token,
// since a browser brings a certificate with whatever it is told to ask.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/security/guard.h"

namespace warpsmith::http {

// Calls at a time; a connection that asks nothing counts until kIdleSeconds have passed.
inline constexpr int kMaxCalls = 16;
inline constexpr int kIdleSeconds = 5;
inline constexpr size_t kMaxRequestBytes = 64 << 10;
// Shorter bodies are not compressed.
inline constexpr size_t kMinCompressed = 2 << 10;

struct Request {
  std::multimap<std::string, std::string> parameters;  // of the query
  std::string body;
  security::Caller caller;

  std::string Parameter(const std::string& name) const;  // "": it is not there
};

struct Reply {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
  // Instead of the body: waits for the next piece of one whose length is not known. "": there was
  // none for a while, and whether the caller is still there is looked at. nullopt: it ends. It ends
  // too where the caller is gone, or may not ask for it any more.
  std::function<std::optional<std::string>()> next;
};

struct Route {
  // Any thread, several at a time.
  using Answer = std::function<Reply(const Request&)>;

  Route(std::string path, std::function<Reply()> answer)
      : path(std::move(path)), answer([answer](const Request&) { return answer(); }) {}
  Route(std::string path, Answer answer) : path(std::move(path)), answer(std::move(answer)) {}

  std::string path;    // "/metrics"
  std::string method;  // of the table; "": "/http/metrics" at the listener for HTTP
  bool post = false;
  Answer answer;
};

struct Options {
  std::string listen;  // as rpc::ValidateListenAddress, but no socket's path; port 0 picks one
  std::shared_ptr<security::Guard> guard;
  // Where nobody else refreshes the guard: at handshakes, once a second at most.
  bool refresh = false;
  security::Listener listener = security::Listener::kHttp;
  std::string methods = "/http";  // what their names begin with
  int calls = kMaxCalls;
  int idle_seconds = kIdleSeconds;
  // Its threads get a tenth of the time of others beside them.
  bool low_priority = false;
  std::vector<std::pair<std::string, std::string>> headers = {};  // of every reply
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
  // Ends calls under way; blocks for as long as an answer, or the next piece of one, takes.
  void Stop();

 private:
  class Listening;
  explicit Server(std::unique_ptr<Listening> listening);
  const std::unique_ptr<Listening> listening_;
};

}  // namespace warpsmith::http
