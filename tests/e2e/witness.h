// Looks at a run again and again, and knows what must not be lost.
//
//   Witness witness(fleet);
//   while (!witness.done()) witness.LookClosely();
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "tests/e2e/answers.h"

namespace warpsmith::e2e {

// What the planner was seen to hold. Each later look must hold at least that.
class Witness {
 public:
  explicit Witness(const Answers& fleet, std::string run_id = "r1")
      : fleet_(fleet), run_id_(std::move(run_id)) {}

  // False: the planner is away.
  bool Look() {
    auto list = fleet_.List(run_id_);
    if (!list.ok()) return false;
    done_ = list->runs_size() == 1 && list->runs(0).done();
    for (const v1::Task& task : list->tasks()) {
      Seen& seen = seen_[task.id()];
      INFO("task " << task.id());
      CHECK(task.fence() >= seen.fence);
      CHECK(task.trials() >= seen.trials);
      CHECK((task.incumbent_blob().empty() ? 0 : 1) >= (seen.incumbent ? 1 : 0));
      lost_leases_ += std::max(0, task.losses() - seen.losses);
      seen.losses = task.losses();
      seen.fence = task.fence();
      seen.trials = task.trials();
      seen.incumbent = seen.incumbent || !task.incumbent_blob().empty();
    }
    return true;
  }
  // As Look, with every trial by its id.
  void LookClosely() {
    if (!Look()) return;
    for (auto& [id, seen] : seen_) {
      auto task = fleet_.GetTask(id);
      if (!task.ok()) return;
      std::set<std::string> ids;
      for (const v1::Trial& trial : task->trials().trials()) {
        INFO("trial " << trial.id() << " of " << id << " was recorded twice");
        CHECK(ids.insert(trial.id()).second);
      }
      for (const std::string& trial : seen.trial_ids) {
        INFO("trial " << trial << " of " << id << " was lost");
        CHECK(ids.count(trial) == 1);
      }
      seen.trial_ids = std::move(ids);
    }
  }
  bool done() const { return done_; }
  int tasks() const { return static_cast<int>(seen_.size()); }
  // With their workers, as far as one look after the other shows.
  int lost_leases() const { return lost_leases_; }
  // Of all tasks.
  int64_t trials() const {
    int64_t sum = 0;
    for (const auto& [id, seen] : seen_) sum += seen.trials;
    return sum;
  }

 private:
  struct Seen {
    int64_t fence = 0, trials = 0;
    bool incumbent = false;
    int losses = 0;  // in a row
    std::set<std::string> trial_ids;
  };
  const Answers& fleet_;
  const std::string run_id_;
  std::map<std::string, Seen> seen_;
  bool done_ = false;
  int lost_leases_ = 0;
};

}  // namespace warpsmith::e2e
