#include "tests/support/fault_proxy.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <deque>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/clock.h"

namespace warpsmith::support {
namespace {

constexpr int kSocketFlags = SOCK_NONBLOCK | SOCK_CLOEXEC;
constexpr int64_t kReceiveBytes = 64 << 10;
// A limited bandwidth is used up in pieces that take so long.
constexpr double kPieceSeconds = 0.02;

// Without a farewell: the other side's calls fail with ECONNRESET.
void Reset(int socket) {
  const linger at_once{1, 0};
  setsockopt(socket, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  close(socket);
}

void SendAtOnce(int socket) {
  const int on = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

// A socket on the way to be connected to "127.0.0.1:PORT"; -1: that cannot be.
int Dial(const std::string& address) {
  const size_t colon = address.rfind(':');
  sockaddr_in to{AF_INET, 0, {}, {}};
  if (colon == address.npos || inet_aton(address.substr(0, colon).c_str(), &to.sin_addr) == 0) {
    return -1;
  }
  to.sin_port = htons(std::atoi(address.c_str() + colon + 1));
  const int socket = ::socket(AF_INET, SOCK_STREAM | kSocketFlags, 0);
  if (socket < 0) return -1;
  SendAtOnce(socket);
  if (connect(socket, reinterpret_cast<sockaddr*>(&to), sizeof to) != 0 && errno != EINPROGRESS) {
    close(socket);
    return -1;
  }
  return socket;
}

// What comes from one socket and is to arrive at another.
class Direction {
 public:
  Direction(int from, int to) : from_(from), to_(to) {}

  // Nothing is left to be done.
  bool over() const { return over_; }
  // Nobody takes it any more.
  void Abandon() {
    over_ = true;
    pieces_.clear();
    under_way_ = 0;
  }

  // Takes what has come. False: the connection is broken.
  bool Receive(const Network& network, base::Instant now, std::mt19937_64& random) {
    while (Receives()) {
      std::string bytes(kReceiveBytes, '\0');
      const ssize_t got = recv(from_, bytes.data(), bytes.size(), 0);
      if (got < 0 && (errno == EAGAIN || errno == EINTR)) return true;
      if (got <= 0) {
        ended_ = true;
        return got == 0;
      }
      bytes.resize(got);
      under_way_ += got;
      const double jitter = std::uniform_real_distribution<>(-1, 1)(random);
      const base::Instant due = now + network.latency + jitter * network.jitter;
      // Bytes don't overtake each other.
      pieces_.push_back({pieces_.empty() ? due : std::max(due, pieces_.back().due), bytes});
    }
    return true;
  }

  // Passes on what is due. False: the connection is broken.
  bool PassOn(const Network& network, bool holds, base::Instant now) {
    if (holds || over_) return true;
    while (!pieces_.empty() && Due() <= now) {
      const std::string& bytes = pieces_.front().bytes;
      const ssize_t sent =
          send(to_, bytes.data() + sent_, MostAtOnce(network, bytes.size() - sent_), MSG_NOSIGNAL);
      if (sent < 0) return errno == EAGAIN || errno == EINTR;
      Sent(sent, network, now);
    }
    if (ended_ && pieces_.empty()) {
      shutdown(to_, SHUT_WR);
      over_ = true;
    }
    return true;
  }

  // What it waits for: adds sockets to `waits`, or brings `until` nearer.
  void Await(bool holds, base::Instant now, std::vector<pollfd>& waits,
             base::Instant& until) const {
    if (Receives()) waits.push_back({from_, POLLIN, 0});
    if (holds || pieces_.empty()) return;
    if (Due() <= now) {
      waits.push_back({to_, POLLOUT, 0});
    } else {
      until = std::min(until, Due());
    }
  }

 private:
  struct Piece {
    base::Instant due;
    std::string bytes;
  };

  bool Receives() const { return !over_ && !ended_ && under_way_ < kMaxUnderWayBytes; }
  // Of the next byte.
  base::Instant Due() const { return std::max(pieces_.front().due, free_); }

  static int64_t MostAtOnce(const Network& network, int64_t bytes) {
    if (network.slice_bytes > 0) bytes = std::min(bytes, network.slice_bytes);
    if (network.bytes_per_second > 0) {
      const auto piece = static_cast<int64_t>(kPieceSeconds * network.bytes_per_second);
      bytes = std::min(bytes, std::max<int64_t>(1, piece));
    }
    return bytes;
  }

  void Sent(int64_t bytes, const Network& network, base::Instant now) {
    under_way_ -= bytes;
    sent_ += bytes;
    if (sent_ == pieces_.front().bytes.size()) {
      pieces_.pop_front();
      sent_ = 0;
    }
    if (network.slice_bytes > 0) free_ = now + kSliceGap;
    if (network.bytes_per_second > 0) {
      free_ = std::max(free_, now + absl::Seconds(1) * bytes / network.bytes_per_second);
    }
  }

  const int from_, to_;
  std::deque<Piece> pieces_;
  size_t sent_ = 0;  // of the first piece
  int64_t under_way_ = 0;
  base::Instant free_ = base::Instant::InfinitePast();  // nothing may be sent before
  bool ended_ = false;                                  // nothing more comes
  bool over_ = false;
};

}  // namespace

struct FaultProxy::Connection {
  Connection(int client, int server)
      : client(client), server(server), requests(client, server), replies(server, client) {}
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection() {
    for (int socket : {client, server}) broken ? Reset(socket) : void(close(socket));
  }

  void Move(const Network& network, std::mt19937_64& random) {
    const base::Instant now = base::Now();
    // A socket that fails one way takes nothing either; what came from it before still arrives.
    if (!requests.Receive(network, now, random)) Break(replies);
    if (!replies.Receive(network, now, random)) Break(requests);
    if (!requests.PassOn(network, network.holds_requests, now)) Break(requests);
    if (!replies.PassOn(network, network.holds_replies, now)) Break(replies);
  }
  void Break(Direction& direction) {
    broken = true;
    direction.Abandon();
  }
  bool over() const { return requests.over() && replies.over(); }

  const int client, server;
  Direction requests, replies;
  bool broken = false;
};

FaultProxy::FaultProxy(std::function<std::string()> target, uint64_t seed)
    : target_(std::move(target)), random_(seed) {
  listener_ = socket(AF_INET, SOCK_STREAM | kSocketFlags, 0);
  sockaddr_in address{AF_INET, 0, {htonl(INADDR_LOOPBACK)}, {}};
  socklen_t size = sizeof address;
  WS_CHECK(bind(listener_, reinterpret_cast<sockaddr*>(&address), size) == 0, "cannot bind");
  WS_CHECK(listen(listener_, SOMAXCONN) == 0, "cannot listen");
  getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
  port_ = ntohs(address.sin_port);
  wake_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  WS_CHECK(wake_ >= 0, "cannot make an eventfd");
  thread_ = std::thread([this] { Run(); });
}

FaultProxy::~FaultProxy() {
  {
    absl::MutexLock lock(&mutex_);
    ends_ = true;
  }
  eventfd_write(wake_, 1);
  thread_.join();
  close(listener_);
  close(wake_);
}

void FaultProxy::Set(const Network& network) {
  absl::MutexLock lock(&mutex_);
  wanted_ = network;
  const int64_t mine = ++settings_;
  eventfd_write(wake_, 1);
  const auto holds = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return obeyed_ >= mine; };
  mutex_.Await(absl::Condition(&holds));
}

void FaultProxy::Run() {
  while (Obey()) {
    Accept();
    for (auto it = connections_.begin(); it != connections_.end();) {
      it->Move(network_, random_);
      it = it->over() ? connections_.erase(it) : std::next(it);
    }
    Wait();
  }
  ResetAll();
}

bool FaultProxy::Obey() {
  eventfd_t times;
  eventfd_read(wake_, &times);
  absl::MutexLock lock(&mutex_);
  network_ = wanted_;
  if (network_.cut) ResetAll();
  obeyed_ = settings_;
  return !ends_;
}

void FaultProxy::Accept() {
  int client;
  while ((client = accept4(listener_, nullptr, nullptr, kSocketFlags)) >= 0) {
    const int server = network_.cut ? -1 : Dial(target_());
    if (server < 0) {
      Reset(client);
      continue;
    }
    SendAtOnce(client);
    connections_.emplace_back(client, server);
  }
}

void FaultProxy::ResetAll() {
  for (Connection& connection : connections_) connection.broken = true;
  connections_.clear();
}

void FaultProxy::Wait() const {
  const base::Instant now = base::Now();
  base::Instant until = base::Instant::InfiniteFuture();
  std::vector<pollfd> waits = {{listener_, POLLIN, 0}, {wake_, POLLIN, 0}};
  for (const Connection& connection : connections_) {
    connection.requests.Await(network_.holds_requests, now, waits, until);
    connection.replies.Await(network_.holds_replies, now, waits, until);
  }
  poll(waits.data(), waits.size(), base::PollMs(until));
}

}  // namespace warpsmith::support
