// What happened, in the order in which it was seen: who was given what and why it was moved, gains,
// ends, workers that came and went. Made from records as they follow one another. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <unordered_map>

#include "absl/time/time.h"
#include "planner/core/state.h"

namespace warpsmith::web {

inline constexpr size_t kMaxNews = 500;  // newest kept

class News {
 public:
  // `at`: where it stands in the order, and never falls; `date`: when it was seen. What the first
  // call brings was there before.
  void Take(const planner::Changes& changes, int64_t at, absl::Time date);

  struct Item {
    int64_t at = 0;
    std::string json;  // [unix ms, kind, task, worker, text]
  };
  const std::deque<Item>& items() const { return items_; }  // oldest first

 private:
  // Of a task, what news are made of.
  struct Seen {
    v1::TaskState state = v1::TASK_STATE_UNSPECIFIED;
    std::string worker;  // that has its lease
    int64_t fence = 0;
    std::string trial;    // of its incumbent
    std::string promise;  // of the next slice
  };
  // Likewise, of a run.
  struct SeenRun {
    bool done = false;
    int priority = 0;
  };
  struct Moment {
    int64_t at = 0;
    absl::Time date;
  };
  void On(const v1::Run& run, const Moment& moment);
  void On(const v1::TaskRecord& record, const Moment& moment);
  void On(const v1::WorkerRecord& record, const Moment& moment);
  void Say(const Moment& moment, const char* kind, const std::string& task,
           const std::string& worker, const std::string& text);

  bool begun_ = false;
  std::deque<Item> items_;
  std::unordered_map<std::string, Seen> tasks_;
  std::unordered_map<std::string, std::string> workers_;  // how each is
  std::unordered_map<std::string, SeenRun> runs_;
};

}  // namespace warpsmith::web
