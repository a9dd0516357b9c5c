#include "tests/support/fault_proxy.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cerrno>
#include <memory>
#include <random>
#include <string>
#include <utility>

#include "common/base/clock.h"

namespace warpsmith::support {
namespace {

constexpr uint64_t kSeed = 1;
constexpr absl::Duration kLong = absl::Seconds(30);         // for what happens: it takes no time
constexpr absl::Duration kShort = absl::Milliseconds(100);  // for what does not happen

sockaddr_in Loopback(int port) { return {AF_INET, htons(port), {htonl(INADDR_LOOPBACK)}, {}}; }

bool Readable(int socket, absl::Duration limit) {
  pollfd wait{socket, POLLIN, 0};
  return poll(&wait, 1, base::PollMs(base::Now() + limit)) == 1;
}

class Socket {
 public:
  explicit Socket(int socket) : socket_(socket) { REQUIRE(socket_ >= 0); }
  Socket(Socket&& other) : socket_(std::exchange(other.socket_, -1)) {}
  ~Socket() { Close(); }

  void Close() {
    if (socket_ >= 0) close(std::exchange(socket_, -1));
  }
  void EndSending() { shutdown(socket_, SHUT_WR); }
  // How much of it went off without waiting.
  size_t SendSome(const std::string& bytes) {
    return std::max<ssize_t>(
        0, send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
  }
  void Send(const std::string& bytes) {
    REQUIRE(send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL) == bytes.size());
  }
  // So many bytes, or what there was when the limit, the end or an error came.
  std::string Receive(size_t bytes, absl::Duration limit = kLong) {
    std::string all(bytes, '\0');
    size_t size = 0;
    const base::Instant deadline = base::Now() + limit;
    while (size < bytes && Readable(socket_, deadline - base::Now())) {
      const ssize_t got = recv(socket_, all.data() + size, bytes - size, 0);
      if (got <= 0) break;
      size += got;
    }
    all.resize(size);
    return all;
  }
  // 0: the other side has ended; an errno; -1: neither.
  int End(absl::Duration limit = kLong) {
    char byte;
    if (!Readable(socket_, limit)) return -1;
    const ssize_t got = recv(socket_, &byte, 1, 0);
    return got == 0 ? 0 : got < 0 ? errno : -1;
  }

 private:
  int socket_;
};

// Somebody who listens, and a proxy before him.
class Path {
 public:
  Path() : proxy_([this] { return "127.0.0.1:" + std::to_string(port_); }, kSeed) {
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = Loopback(0);
    socklen_t size = sizeof address;
    REQUIRE(bind(listener_, reinterpret_cast<sockaddr*>(&address), size) == 0);
    REQUIRE(listen(listener_, 8) == 0);
    REQUIRE(getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) == 0);
    port_ = ntohs(address.sin_port);
  }
  ~Path() { StopListening(); }

  FaultProxy& proxy() { return proxy_; }
  void StopListening() {
    if (listener_ >= 0) close(std::exchange(listener_, -1));
  }
  Socket Connect() {
    const std::string address = proxy_.address();
    sockaddr_in to = Loopback(std::stoi(address.substr(address.find(':') + 1)));
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    Socket connected(fd);
    // Reset as soon as it is there, it may not have been seen to be there.
    if (connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to) != 0) REQUIRE(errno == ECONNRESET);
    return connected;
  }
  Socket Accept() {
    REQUIRE(Readable(listener_, kLong));
    return Socket(accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC));
  }

 private:
  int listener_ = -1;
  int port_ = 0;
  FaultProxy proxy_;
};

std::string RandomBytes(size_t bytes) {
  std::mt19937_64 random(kSeed);
  std::string text(bytes, '\0');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

// How long it takes to arrive, whole and as it was.
absl::Duration TimeOf(const std::string& bytes, Socket& from, Socket& to) {
  const base::Instant start = base::Now();
  from.Send(bytes);
  CHECK(to.Receive(bytes.size()) == bytes);
  return base::Now() - start;
}

TEST_CASE("a proxy without faults passes on all bytes and the end of each direction") {
  Path path;
  Socket client = path.Connect(), server = path.Accept();
  const std::string bytes = RandomBytes(200'000);
  TimeOf(bytes, client, server);
  TimeOf(bytes, server, client);
  client.EndSending();
  CHECK(server.End() == 0);
  TimeOf("an answer to all of it", server, client);
  server.Close();
  CHECK(client.End() == 0);
}

TEST_CASE("latency is of each direction, and what jitters keeps its order") {
  Path path;
  Socket client = path.Connect(), server = path.Accept();
  path.proxy().Set({.latency = absl::Milliseconds(60)});
  CHECK(TimeOf("request", client, server) >= absl::Milliseconds(60));
  CHECK(TimeOf("reply", server, client) >= absl::Milliseconds(60));

  path.proxy().Set({.latency = absl::Milliseconds(20), .jitter = absl::Milliseconds(20)});
  std::string all;
  for (int i = 0; i < 100; ++i) {
    client.Send(std::to_string(i) + " ");
    all += std::to_string(i) + " ";
  }
  CHECK(server.Receive(all.size()) == all);
}

TEST_CASE("bandwidth is limited, and slices are small") {
  Path path;
  Socket client = path.Connect(), server = path.Accept();
  // All but the first 20 ms' worth has to wait.
  path.proxy().Set({.bytes_per_second = 100'000});
  CHECK(TimeOf(RandomBytes(22'000), client, server) >= absl::Milliseconds(200));
  CHECK(TimeOf(RandomBytes(22'000), server, client) >= absl::Milliseconds(200));
  path.proxy().Set({.bytes_per_second = 10});
  CHECK(TimeOf("abc", client, server) >= absl::Milliseconds(200));

  path.proxy().Set({.slice_bytes = 3});
  CHECK(TimeOf(RandomBytes(303), client, server) >= 100 * kSliceGap);
  path.proxy().Set({});
  TimeOf(RandomBytes(200'000), client, server);
}

TEST_CASE("where the network is cut every connection is reset, and each that comes") {
  Path path;
  Socket client = path.Connect(), server = path.Accept();
  TimeOf("before", client, server);
  path.proxy().Set({.cut = true});
  CHECK(client.End() == ECONNRESET);
  CHECK(server.End() == ECONNRESET);
  Socket late = path.Connect();
  CHECK(late.End() != -1);

  path.proxy().Set({});
  Socket next = path.Connect(), for_next = path.Accept();
  TimeOf("after", next, for_next);
}

TEST_CASE("a black hole keeps what falls into it, and gives it back when it closes") {
  const auto [holds_requests, holds_replies] =
      GENERATE(table<bool, bool>({{true, false}, {false, true}, {true, true}}));
  INFO("requests " << holds_requests << ", replies " << holds_replies);
  Path path;
  Socket client = path.Connect(), server = path.Accept();
  TimeOf("before", client, server);
  path.proxy().Set({.holds_requests = holds_requests, .holds_replies = holds_replies});
  client.Send("request");
  server.Send("reply");
  CHECK(server.Receive(7, holds_requests ? kShort : kLong) == (holds_requests ? "" : "request"));
  CHECK(client.Receive(5, holds_replies ? kShort : kLong) == (holds_replies ? "" : "reply"));
  path.proxy().Set({});
  if (holds_requests) CHECK(server.Receive(7) == "request");
  if (holds_replies) CHECK(client.Receive(5) == "reply");
}

TEST_CASE("what fell into a black hole arrives, also if who sent it has gone") {
  Path path;
  Socket client = path.Connect(), server = path.Accept();
  path.proxy().Set({.holds_requests = true});
  client.Send("last words");
  client.Close();
  CHECK(server.End(kShort) == -1);
  path.proxy().Set({});
  CHECK(server.Receive(10) == "last words");
  CHECK(server.End() == 0);
}

TEST_CASE("no more is under way than the limit and what the system keeps") {
  Path path;
  Socket client = path.Connect(), server = path.Accept();
  path.proxy().Set({.holds_requests = true});
  const std::string bytes = RandomBytes(64 << 20);
  size_t sent = 0;
  // Full is where nothing more goes off for a while.
  for (int idle = 0; idle < 20 && sent < bytes.size();) {
    const size_t more = client.SendSome(bytes.substr(sent, 1 << 20));
    sent += more;
    idle = more > 0 ? 0 : idle + 1;
    if (more == 0) Readable(-1, absl::Milliseconds(5));
  }
  CHECK(sent < bytes.size());
  path.proxy().Set({});
  CHECK((server.Receive(sent) == bytes.substr(0, sent)));
}

TEST_CASE("who connects is reset where nobody listens, and when the proxy goes") {
  auto path = std::make_unique<Path>();
  Socket client = path->Connect(), server = path->Accept();
  path->StopListening();
  Socket late = path->Connect();
  CHECK(late.End() != -1);
  path.reset();
  CHECK(client.End() == ECONNRESET);
  CHECK(server.End() == ECONNRESET);
}

}  // namespace
}  // namespace warpsmith::support
