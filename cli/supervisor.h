// Child processes that are kept running.
//
//   Supervisor supervisor([](const std::string& what) { std::cerr << what << std::endl; }, seed);
//   supervisor.Start({"planner", {path, "--dir", dir}, dir + "/logs/planner.log"});
//   while (!stop) supervisor.Tend();   // some times a second
//   supervisor.Stop("", limit);
//
// A child that ends is started again, whatever it ended of and however often, after a pause that
// grows while it keeps ending quickly; what cannot be started (no memory, no room for its log) is
// tried again in the same way. Only one that says that it is used wrongly, with exit status 2 as
// all our programs, is given up. Of a child that keeps ending the reason is told once, and then
// rarely. Children get SIGTERM when this process dies, however it dies. One thread, the one that
// made the supervisor.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/backoff.h"
#include "common/base/clock.h"

namespace warpsmith::cli {

inline constexpr absl::Duration kRestartMin = absl::Milliseconds(200);
inline constexpr absl::Duration kRestartMax = absl::Seconds(30);
// A child that lived this long was well.
inline constexpr absl::Duration kWellAfter = absl::Seconds(10);
// Of a child that keeps ending for reasons told before nothing is said for this long, then for
// twice as long, and so on.
inline constexpr absl::Duration kSilenceMin = absl::Minutes(1);
inline constexpr absl::Duration kSilenceMax = absl::Hours(1);
// Different reasons that are told at once while a child keeps ending.
inline constexpr int kMaxReasons = 5;
// A log that has grown larger begins anew; what it held is in NAME.old.
inline constexpr int64_t kMaxLogBytes = int64_t{64} << 20;

struct ChildSpec {
  std::string name;               // for messages
  std::vector<std::string> argv;  // argv[0] is the path
  std::string log;                // stdout and stderr are appended here
};

// What is told of a child that keeps ending, without a clock.
class Troubles {
 public:
  // The child has ended, or could not be started, at `now`, for `reason`: what to say of it, if
  // anything. Reasons that differ in numbers alone are one.
  std::optional<std::string> Ended(const std::string& reason, base::Instant now);
  // It is well; what to say of it, if anything.
  std::optional<std::string> Well();
  int ends() const { return ends_; }  // since it was well

 private:
  int ends_ = 0;
  base::Instant first_, silent_until_;
  absl::Duration silence_ = kSilenceMin;
  std::set<std::string> told_;
};

class Supervisor {
 public:
  // `say` is told, in a sentence, what happens to children; `seed` is of the jitter.
  Supervisor(std::function<void(const std::string&)> say, uint64_t seed)
      : say_(std::move(say)), seed_(seed) {}
  ~Supervisor();  // as Stop
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  void Start(ChildSpec spec);
  // Reaps and restarts; keeps logs from growing without end.
  void Tend();
  // Children that run or will be started again.
  int alive() const;
  // How one that was given up has ended, in a sentence with the last word of its log: of the
  // children whose name starts with `prefix` the first. Nothing: none was.
  std::optional<std::string> GaveUp(const std::string& prefix) const;
  // SIGTERM to the children whose name starts with `prefix`, SIGKILL to those that have not ended
  // `limit` later. They are not started again.
  void Stop(const std::string& prefix, absl::Duration limit);

 private:
  struct Child {
    ChildSpec spec;
    base::Backoff pauses;
    pid_t pid = -1;         // -1: not running
    int64_t log_start = 0;  // what it wrote stands behind this in its log
    base::Instant started, restart_at;
    bool given_up = false;
    std::string given_up_for;
    Troubles troubles;
  };
  absl::Status Launch(Child& child);
  void LaunchOrWait(Child& child);
  void Ended(Child& child, int wait_status);
  // Tells, and makes it start again later.
  void Trouble(Child& child, const std::string& reason);

  const std::function<void(const std::string&)> say_;
  uint64_t seed_;
  std::vector<std::unique_ptr<Child>> children_;
};

// "exited with status 3", "was killed by signal 9 (Killed)".
std::string DescribeEnd(int wait_status);

}  // namespace warpsmith::cli
