// Child processes that are kept running.
//
//   Supervisor supervisor([](const std::string& what) { std::cerr << what << std::endl; });
//   supervisor.Start({"planner", {path, "--dir", dir}, dir + "/logs/planner.log"});
//   while (!stop) supervisor.Tend();   // some times a second
//   supervisor.Stop("", limit);
//
// A child that ends is started again after a pause that grows while it keeps ending quickly, and is
// given up after kMaxQuickEnds, or when it says that its command line is wrong. Children get
// SIGTERM when this process dies, however it dies. One thread, the one that made the supervisor.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace warpsmith::cli {

inline constexpr absl::Duration kRestartMin = absl::Milliseconds(500);
inline constexpr absl::Duration kRestartMax = absl::Seconds(30);
// A child that lived this long was well.
inline constexpr absl::Duration kWellAfter = absl::Seconds(60);
inline constexpr int kMaxQuickEnds = 6;
// A log that has grown larger begins anew; what it held is in NAME.old.
inline constexpr int64_t kMaxLogBytes = int64_t{64} << 20;

struct ChildSpec {
  std::string name;               // for messages
  std::vector<std::string> argv;  // argv[0] is the path
  std::string log;                // stdout and stderr are appended here
};

class Supervisor {
 public:
  // `say` is told, in a sentence, what happens to children.
  explicit Supervisor(std::function<void(const std::string&)> say) : say_(std::move(say)) {}
  ~Supervisor();  // as Stop
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  absl::Status Start(ChildSpec spec);
  // Reaps and restarts; keeps logs from growing without end.
  void Tend();
  // Children that run or will be started again.
  int alive() const;
  // A child of this name was given up.
  bool GaveUp(const std::string& name) const;
  // How the child of this name, or else any, ended last: its wait status and a sentence about it.
  // Nothing: none did.
  struct End {
    int wait_status;
    std::string sentence;
  };
  std::optional<End> LastEnd(const std::string& name = "") const;
  // SIGTERM to the children whose name starts with `prefix`, SIGKILL to those that have not ended
  // `limit` later. They are not started again.
  void Stop(const std::string& prefix, absl::Duration limit);

 private:
  struct Child {
    ChildSpec spec;
    pid_t pid = -1;  // -1: not running
    absl::Time started, restart_at = absl::InfiniteFuture();
    absl::Duration pause = kRestartMin;
    int quick_ends = 0;
    bool given_up = false;
    std::optional<End> last_end;
  };
  absl::Status Launch(Child& child);
  void Ended(Child& child, int wait_status);

  const std::function<void(const std::string&)> say_;
  std::vector<Child> children_;
};

// "exited with status 3", "was killed by signal 9 (Killed)".
std::string DescribeEnd(int wait_status);

}  // namespace warpsmith::cli
