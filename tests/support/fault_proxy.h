// A TCP proxy that makes the network between two programs as bad as a test wants it.
//
//   FaultProxy proxy([&] { return rpc::ReadAddress(dir).value_or(""); }, seed);
//   Process worker({..., "--planner", proxy.address()});
//   proxy.Set({.latency = absl::Milliseconds(80), .jitter = absl::Milliseconds(40)});
//   proxy.Set({.cut = true});            // every connection is reset, and each that comes
//   proxy.Set({.holds_replies = true});  // what is said arrives, the answers don't
//   proxy.Set({});                       // as if it were not there
//
// Requests are what the one who connected sends, replies what it is sent; the proxy knows nothing
// of what they say. Bytes arrive in order and none is changed; lost are those that are under way
// when a connection is reset. The end of one direction is passed on behind its last byte.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <random>
#include <string>
#include <thread>

#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace warpsmith::support {

// What the network is like, of all connections of a proxy. All at once is possible, too.
struct Network {
  // What is received is passed on so much later, plus or minus up to `jitter`. Of each direction.
  absl::Duration latency;
  absl::Duration jitter;
  // Of each direction of each connection; 0: no limit.
  int64_t bytes_per_second = 0;
  // Passed on by so many bytes at most, kSliceGap apart at least; 0: as it comes.
  int64_t slice_bytes = 0;
  // Every connection is reset, and each that comes.
  bool cut = false;
  // Black holes: nothing of that direction arrives, and connections stay. When the hole has closed
  // all of it arrives, as with TCP, which sends again what was not acknowledged; also what was sent
  // by someone who has gone meanwhile.
  bool holds_requests = false;
  bool holds_replies = false;
};

inline constexpr absl::Duration kSliceGap = absl::Milliseconds(1);
// Of one direction of one connection: no more than this is received before it could be passed on.
inline constexpr int64_t kMaxUnderWayBytes = 1 << 20;

// Listens on a port of its own from construction to destruction. One thread of its own touches the
// sockets; members may be called from any other.
class FaultProxy {
 public:
  // `target` gives "127.0.0.1:PORT" for each connection that comes, on the proxy's thread; where it
  // gives something else or nobody listens, the one who connected is reset.
  FaultProxy(std::function<std::string()> target, uint64_t seed);
  ~FaultProxy();
  FaultProxy(const FaultProxy&) = delete;
  FaultProxy& operator=(const FaultProxy&) = delete;

  // "127.0.0.1:PORT"
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  // Holds when it returns: all connections are reset, or the last byte into a black hole has
  // arrived. The latency is that of what is received from now on.
  void Set(const Network& network) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Connection;

  void Run();
  // Takes over what Set said; false: it is to end.
  bool Obey() ABSL_LOCKS_EXCLUDED(mutex_);
  void Accept();
  void ResetAll();
  void Wait() const;

  const std::function<std::string()> target_;
  int listener_ = -1;
  int wake_ = -1;  // an eventfd
  int port_ = 0;

  absl::Mutex mutex_;
  Network wanted_ ABSL_GUARDED_BY(mutex_);
  int64_t settings_ ABSL_GUARDED_BY(mutex_) = 0;  // how often something was wanted
  int64_t obeyed_ ABSL_GUARDED_BY(mutex_) = 0;    // how many of those hold
  bool ends_ ABSL_GUARDED_BY(mutex_) = false;

  // Of the thread.
  Network network_;
  std::list<Connection> connections_;
  std::mt19937_64 random_;

  std::thread thread_;
};

}  // namespace warpsmith::support
