#include "common/http/server.h"

#include <arpa/inet.h>
#include <httplib.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/security/authority.h"
#include "tests/support/temporary_folder.h"

namespace warpsmith::http {
namespace {

using Catch::Contains;
using security::Role;

absl::Time Date() { return absl::Now(); }

std::shared_ptr<security::Guard> Open() {
  return std::make_shared<security::Guard>(nullptr, nullptr, &Date);
}
std::vector<Route> Routes() {
  return {{"/metrics", [] { return Reply{.body = "a_total 1\n"}; }},
          {"/healthz", [] { return Reply{.status = 503, .body = "not well\n"}; }},
          {"/secret", [] { return Reply{.body = "that is in no table"}; }}};
}
int PortOf(const Server& server) {
  return std::stoi(server.address().substr(server.address().rfind(':') + 1));
}

// An authority, a planner with a certificate, and a token.
struct Office {
  Office() : authority(folder / "ca") {
    REQUIRE(authority.Init("fleet", absl::Hours(48), Date()).ok());
    Issue(Role::kPlanner, "planner");
    Issue(Role::kReader, "eye");
    Issue(Role::kWorker, "gpu-07");
    identity =
        *security::WatchedIdentity::Open(Files("planner"), security::Needs::kPlanner, Date());
    token = *tokens.Issue({Role::kReader, "eye"}, absl::Hours(1), Date());
    REQUIRE(tokens.Refresh().ok());
    guard = std::make_shared<security::Guard>(identity.get(), &tokens, &Date);
  }
  void Issue(Role role, const std::string& name) {
    REQUIRE(authority.Issue({{role, name}, {}, absl::Hours(24)}, Date()).ok());
  }
  security::Files Files(const std::string& name) const {
    const std::string pem = authority.Path(name + ".pem");
    return {.ca = authority.Path("ca.crt"), .cert = pem, .key = pem};
  }
  support::TemporaryFolder folder;
  security::Authority authority;
  std::unique_ptr<security::WatchedIdentity> identity;
  security::Tokens tokens{folder / "tokens"};
  std::string token;
  std::shared_ptr<security::Guard> guard;
};

// A connection on which nothing was said yet.
int Connected(int port) {
  const int connection = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  REQUIRE(connection >= 0);
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(port));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(connect(connection, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0);
  return connection;
}

// What comes back of `sent`, which is sent in two parts, until the other side ends.
std::string Raw(int port, const std::vector<std::string>& sent) {
  const int connection = Connected(port);
  for (const std::string& part : sent) {
    if (send(connection, part.data(), part.size(), MSG_NOSIGNAL) < 0) break;  // it has ended
    absl::SleepFor(absl::Milliseconds(50));
  }
  std::string came;
  char bytes[4096];
  for (ssize_t n; (n = read(connection, bytes, sizeof bytes)) > 0;) came.append(bytes, n);
  close(connection);
  return came;
}

}  // namespace

TEST_CASE("what there is is answered, on loopback to who calls it so") {
  auto server = Server::Start({.listen = "127.0.0.1:0", .guard = Open()}, Routes());
  REQUIRE(server.ok());
  httplib::Client client("127.0.0.1", PortOf(**server));
  auto metrics = client.Get("/metrics");
  REQUIRE(metrics);
  CHECK(metrics->status == 200);
  CHECK(metrics->body == "a_total 1\n");
  CHECK(client.Get("/healthz")->status == 503);
  CHECK(client.Get("/")->status == 404);
  // What nobody wrote into the table is for nobody.
  CHECK(client.Get("/secret")->status == 503);
  CHECK(client.Post("/metrics")->status == 405);
  for (const char* host :
       {"evil.example.com", "evil.example.com:80", "", "127.0.0.1.example.com"}) {
    INFO(host);
    auto reply = client.Get("/metrics", httplib::Headers{{"Host", host}});
    REQUIRE(reply);
    CHECK(reply->status == 403);
  }
  CHECK(client.Get("/metrics", httplib::Headers{{"Host", "localhost:1"}})->status == 200);
}

TEST_CASE("an address that is taken, is no address or is for all without TLS is refused") {
  auto server = Server::Start({.listen = "127.0.0.1:0", .guard = Open()}, Routes());
  REQUIRE(server.ok());
  const auto taken = Server::Start({.listen = (*server)->address(), .guard = Open()}, Routes());
  CHECK(absl::IsUnavailable(taken.status()));
  for (const char* listen : {"0.0.0.0:0", "unix:/tmp/x", "nowhere", "127.0.0.1:x"}) {
    INFO(listen);
    CHECK(absl::IsInvalidArgument(
        Server::Start({.listen = listen, .guard = Open()}, Routes()).status()));
  }
}

TEST_CASE("who holds connections and says nothing does not hold up others for long") {
  auto server = Server::Start({.listen = "127.0.0.1:0", .guard = Open()}, Routes());
  REQUIRE(server.ok());
  std::vector<int> idle;
  for (int i = 0; i < kMaxCalls; ++i) idle.push_back(Connected(PortOf(**server)));
  httplib::Client client("127.0.0.1", PortOf(**server));
  client.set_read_timeout(4 * kIdleSeconds);
  auto reply = client.Get("/metrics");
  REQUIRE(reply);
  CHECK(reply->status == 200);
  for (const int connection : idle) close(connection);
}

TEST_CASE("what follows a refused request on its connection is no request") {
  std::atomic<int> changed = 0;
  Route change("/change", Route::Answer([&](const Request&) {
                 ++changed;
                 return Reply{.body = "done\n"};
               }));
  change.method = "/warpsmith.v1.PlannerService/HoldWorker";
  change.post = true;
  auto server = Server::Start(
      {.listen = "127.0.0.1:0", .guard = Open(), .listener = security::Listener::kPage}, {change});
  REQUIRE(server.ok());
  const std::string inner =
      "POST /change HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Content-Length: 2\r\n\r\n{}";
  CHECK_THAT(Raw(PortOf(**server), {inner}), Contains(" 200 "));  // it is one, by itself
  CHECK(changed == 1);
  // As another host's page may send it without being asked.
  for (const char* path : {"/x", "/change"}) {
    const std::string outer = absl::StrCat(
        "POST ", path, " HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example.com\r\n",
        "Content-Type: text/plain\r\nContent-Length: ", inner.size(), "\r\n\r\n");
    const std::string came = Raw(PortOf(**server), {outer, inner});
    INFO(came);
    CHECK(came.find("HTTP/1.1", 1) == came.npos);
    CHECK(changed == 1);
  }
}

TEST_CASE("a change is made by whoever is no other host's page") {
  Route change("/change", Route::Answer([](const Request& request) {
                 return Reply{.body = "done by " + request.caller.name + ": " + request.body};
               }));
  change.method = "/warpsmith.v1.PlannerService/HoldWorker";
  change.post = true;
  const auto post = [](httplib::Client& client, const httplib::Headers& headers,
                       const char* type = "application/json") {
    auto reply = client.Post("/change", headers, "{}", type);
    REQUIRE(reply);
    return reply->status;
  };
  SECTION("on loopback") {
    auto server = Server::Start(
        {.listen = "127.0.0.1:0", .guard = Open(), .listener = security::Listener::kPage},
        {change});
    REQUIRE(server.ok());
    const std::string own = "http://" + (*server)->address();
    httplib::Client client("127.0.0.1", PortOf(**server));
    CHECK(post(client, {}) == 200);
    CHECK(post(client, {{"Origin", own}}) == 200);
    CHECK(post(client, {{"Origin", "http://evil.example.com"}}) == 403);
    CHECK(post(client, {{"Origin", "https" + own.substr(4)}}) == 403);
    CHECK(post(client, {{"Origin", "null"}}) == 403);
    CHECK(post(client, {{"Host", "evil.example.com"}}) == 403);
    // What a form of another host's page can send.
    CHECK(post(client, {}, "text/plain") == 403);
    CHECK(post(client, {}, "application/x-www-form-urlencoded") == 403);
    CHECK(client.Get("/change")->status == 404);
    CHECK(client.Put("/change", "{}", "application/json")->status == 405);
    CHECK(post(client, {{"X-Large", std::string(100'000, 'x')}}) >= 400);
    auto large = client.Post("/change", std::string(kMaxRequestBytes + 1, ' '), "application/json");
    REQUIRE(large);
    CHECK(large->status == 413);
  }
  SECTION("with TLS, by a token alone, of a role that may") {
    Office office;
    office.Issue(Role::kOperator, "ops");
    auto server = Server::Start(
        {.listen = "127.0.0.1:0", .guard = office.guard, .listener = security::Listener::kPage},
        {change});
    REQUIRE(server.ok());
    const std::string pem = office.authority.Path("ops.pem");
    const auto with = [&](const std::string& file, const httplib::Headers& headers) {
      httplib::SSLClient client("127.0.0.1", PortOf(**server), file, file);
      client.set_ca_cert_path(office.authority.Path("ca.crt").c_str());
      auto reply = client.Post("/change", headers, "{}", "application/json");
      REQUIRE(reply);
      return reply->status;
    };
    const std::string ops = *office.tokens.Issue({Role::kOperator, "ops"}, absl::Hours(1), Date());
    REQUIRE(office.tokens.Refresh().ok());
    CHECK(with(pem, {}) == 403);
    CHECK(with("", {}) == 401);
    CHECK(with("", {{"Authorization", "Bearer " + office.token}}) == 403);  // a reader's
    CHECK(with("", {{"Authorization", "Bearer " + ops}}) == 200);
    CHECK(with(pem, {{"Authorization", "Bearer " + ops}}) == 200);
  }
}

TEST_CASE("a large body goes as gzip to who takes it") {
  const std::string body(100'000, 'x');
  auto server = Server::Start({.listen = "127.0.0.1:0", .guard = Open()},
                              {{"/metrics", [&] { return Reply{.body = body}; }},
                               {"/healthz", [] { return Reply{.body = "ok\n"}; }}});
  REQUIRE(server.ok());
  httplib::Client client("127.0.0.1", PortOf(**server));
  auto packed = client.Get("/metrics", httplib::Headers{{"Accept-Encoding", "br, gzip"}});
  REQUIRE(packed);
  CHECK(packed->get_header_value("Content-Encoding") == "gzip");
  CHECK(std::stoi(packed->get_header_value("Content-Length")) < 1'000);
  CHECK(packed->body == body);  // the client has unpacked it
  for (const char* accepted : {"br", "identity", "gzip;q=0"}) {
    INFO(accepted);
    auto plain = client.Get("/metrics", httplib::Headers{{"Accept-Encoding", accepted}});
    REQUIRE(plain);
    CHECK(plain->get_header_value("Content-Encoding") == "");
    CHECK(plain->body == body);
  }
  CHECK(client.Get("/healthz")->get_header_value("Content-Encoding") == "");
}

TEST_CASE("pieces go out as they come, until there are no more or the caller may not") {
  Office office;
  std::atomic<int> pieces = 0;
  auto server = Server::Start({.listen = "127.0.0.1:0", .guard = office.guard},
                              {{"/metrics", [&] {
                                  return Reply{.type = "text/event-stream",
                                               .next = [&]() -> std::optional<std::string> {
                                                 if (++pieces == 4) return std::nullopt;
                                                 if (pieces == 2) return "";
                                                 return absl::StrCat("piece ", pieces.load(), "\n");
                                               }};
                                }}});
  REQUIRE(server.ok());
  httplib::SSLClient client("127.0.0.1", PortOf(**server));
  client.set_ca_cert_path(office.authority.Path("ca.crt").c_str());
  const httplib::Headers token{{"Authorization", "Bearer " + office.token}};
  std::string all;
  bool revoked = false;
  const auto take = [&](const char* data, size_t size) {
    all.append(data, size);
    // Between two pieces of the second call the token ends.
    if (pieces > 4 && !std::exchange(revoked, true)) {
      REQUIRE(office.tokens.Revoke("eye", Date()).ok());
      REQUIRE(office.tokens.Refresh().ok());
    }
    return true;
  };
  CHECK(client.Get("/metrics", token, take)->status == 200);
  CHECK(all == "piece 1\npiece 3\n");
  all.clear();
  CHECK(client.Get("/metrics", token, take)->status == 200);
  CHECK(all.substr(0, 8) == "piece 5\n");
  CHECK(client.Get("/metrics", token)->status == 401);
}

TEST_CASE("each role gets what is promised, and nothing else") {
  Office office;
  std::vector<Route> routes;
  for (const char* path : {"/healthz", "/readyz", "/metrics", "/workers"}) {
    routes.push_back({path, [] { return Reply{.body = "x"}; }});
  }
  auto server = Server::Start({.listen = "127.0.0.1:0", .guard = office.guard}, routes);
  REQUIRE(server.ok());
  // What is promised, written down once more and by hand.
  struct Promise {
    Role role;
    bool looks;
    bool has_token;
  };
  const Promise promises[] = {
      {Role::kNobody, false, false}, {Role::kWorker, false, false}, {Role::kSubmitter, true, true},
      {Role::kOperator, true, true}, {Role::kReader, true, true},   {Role::kPlanner, false, false},
  };
  int cells = 0;
  for (const Promise& promise : promises) {
    const std::string name = absl::StrCat("the-", std::string(security::NameOf(promise.role)));
    std::string pem, token;
    if (promise.role != Role::kNobody) {
      office.Issue(promise.role, name);
      pem = office.authority.Path(name + ".pem");
    }
    if (promise.has_token) {
      token = *office.tokens.Issue({promise.role, name}, absl::Hours(1), Date());
      REQUIRE(office.tokens.Refresh().ok());
    }
    for (const bool by_token : {false, true}) {
      if (by_token && !promise.has_token) continue;
      httplib::SSLClient client("127.0.0.1", PortOf(**server), by_token ? "" : pem,
                                by_token ? "" : pem);
      client.set_ca_cert_path(office.authority.Path("ca.crt").c_str());
      httplib::Headers headers;
      if (by_token) headers.emplace("Authorization", "Bearer " + token);
      for (const Route& route : routes) {
        INFO(name << (by_token ? ", token: " : ": ") << route.path);
        const bool looking = route.path == "/metrics" || route.path == "/workers";
        auto reply = client.Get(route.path.c_str(), headers);
        REQUIRE(reply);
        const int refused = promise.role == Role::kNobody ? 401 : 403;
        CHECK(reply->status == (looking && !promise.looks ? refused : 200));
        ++cells;
      }
    }
  }
  CHECK(cells == 9 * 4);
}

TEST_CASE("with TLS a caller is who its certificate or token says") {
  Office office;
  auto server = Server::Start({.listen = "0.0.0.0:0", .guard = office.guard}, Routes());
  INFO(server.status().ToString());
  REQUIRE(server.ok());
  const auto get = [&](const std::string& name, const std::string& path,
                       const httplib::Headers& headers = {}) {
    const std::string pem = name.empty() ? "" : office.authority.Path(name + ".pem");
    httplib::SSLClient client("127.0.0.1", PortOf(**server), pem, pem);
    client.set_ca_cert_path(office.authority.Path("ca.crt").c_str());
    auto reply = client.Get(path.c_str(), headers);
    INFO(static_cast<int>(reply.error()));
    REQUIRE(reply);
    return reply->status;
  };
  CHECK(get("eye", "/metrics") == 200);
  CHECK(get("gpu-07", "/metrics") == 403);
  CHECK(get("", "/metrics") == 401);
  CHECK(get("", "/healthz") == 503);  // as it answers, to everybody
  CHECK(get("", "/metrics", {{"Authorization", "Bearer " + office.token}}) == 200);
  CHECK(get("", "/metrics", {{"Authorization", "Bearer nothing"}}) == 401);
  // A new certificate is taken without a restart; what was revoked is refused.
  REQUIRE(office.authority.Rotate("planner", absl::Hours(24), Date()).ok());
  CHECK(office.identity->Refresh(Date()).value_or(false));
  CHECK(get("eye", "/metrics") == 200);
  // Plain HTTP gets nothing.
  httplib::Client plain("127.0.0.1", PortOf(**server));
  CHECK_FALSE(plain.Get("/healthz"));
}

}  // namespace warpsmith::http
