// A program under test: its exit status and what it wrote.
//
//   Process up({bin + "/warpsmith", "up", "--dir", dir});
//   Finished done = RunToEnd({bin + "/warpsmith", "workers", "--dir", dir});
#pragma once

#include <sys/types.h>

#include <ostream>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/base/clock.h"
#include "tests/support/temporary_folder.h"

namespace warpsmith::e2e {

struct Finished {
  int code = -1;  // exit status; 128 + signal; -1: it did not end in time and was killed
  std::string out, err;

  // CHECK(finished == 0) shows what it wrote where it ended otherwise.
  friend bool operator==(const Finished& finished, int code) { return finished.code == code; }
};
std::ostream& operator<<(std::ostream& out, const Finished& finished);

class Process {
 public:
  // stdout and stderr go to files of a temporary folder.
  explicit Process(const std::vector<std::string>& argv);
  ~Process();  // kills it if it still runs
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  bool Running();
  void Signal(int signal);
  Finished Wait(absl::Duration limit);
  // What it wrote to stderr so far.
  std::string Errors() const;

 private:
  support::TemporaryFolder folder_;
  pid_t pid_ = -1;
  int status_ = 0;
  bool ended_ = false;
};

Finished RunToEnd(const std::vector<std::string>& argv, absl::Duration limit = absl::Seconds(30));

// Processes below `pid` whose program is called `name`, e.g. "warpsmith-judge".
std::vector<pid_t> Descendants(pid_t pid, const std::string& name);

// Calls `condition` every few milliseconds until it is true; false: not within `limit`.
template <class Condition>
bool Eventually(absl::Duration limit, Condition condition);

}  // namespace warpsmith::e2e

#include "absl/time/clock.h"

template <class Condition>
bool warpsmith::e2e::Eventually(absl::Duration limit, Condition condition) {
  const base::Instant deadline = base::Now() + limit;
  while (!condition()) {
    if (base::Now() > deadline) return false;
    absl::SleepFor(absl::Milliseconds(20));
  }
  return true;
}
