#include "bench/planner/core_bench.h"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/planner/history.h"
#include "common/base/check.h"
#include "planner/core/core.h"

namespace warpsmith::bench {
namespace {

using planner::Core;
using planner::Grant;
using planner::Now;
using planner::Synchronize;
using planner::SynchronizeAnswer;

constexpr char kArch[] = "sm_90a";
constexpr double kSeconds = 1;
constexpr int kMaxCommands = 20'000;

double ProcessSeconds() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Microseconds of one of them.
double Mean(const std::function<void(int)>& command) {
  const double start = ProcessSeconds();
  int count = 0;
  double seconds = 0;
  while (seconds < kSeconds && count < kMaxCommands) {
    command(count++);
    seconds = ProcessSeconds() - start;
  }
  return 1e6 * seconds / count;
}

// Digests differ in every byte.
std::string Digest(int64_t number) {
  return absl::StrCat(
      absl::Hex(static_cast<uint64_t>(number) * 0x9E3779B97F4A7C15ull, absl::kZeroPad16),
      "0123456789abcdef0123456789abcdef0123456789abcdef");
}

// A core with tasks, and workers that each hold one of them.
class Bench {
 public:
  Bench(int tasks, int workers) : core_(planner::CoreOptions{}), random_(1) {
    for (int made = 0; made < tasks;) {
      const int count = std::min(planner::kMaxTasksPerRun, tasks - made);
      Submit(count);
      made += count;
    }
    int number = 0;
    std::vector<std::string> ids;
    std::vector<v1::Event> history;
    for (const auto& [id, record] : core_.state().tasks()) {
      if (random_() % 2 == 0) ids.push_back(id);
    }
    for (const std::string& id : ids) {
      const double speedup = 1 + static_cast<double>(random_() % 1'000'000) / 1e6;
      const v1::Task& task = core_.state().FindTask(id)->task();
      number += 2;
      const auto slice = FirstSlice(task, Digest(number), Digest(number + 1), 40, speedup, 0);
      history.insert(history.end(), slice.begin(), slice.end());
    }
    const double start = ProcessSeconds();
    for (const v1::Event& event : history) core_.Replay(event);
    replay_us_ = 1e6 * (ProcessSeconds() - start) / static_cast<double>(history.size());
    core_.Forgive(now_);
    for (int i = 0; i < workers; ++i) Join(i);
  }

  // Of an event, when the tasks' history was replayed.
  double replay_us() const { return replay_us_; }

  // Milliseconds that the whole state takes as a message, and from one.
  std::pair<double, double> CopyAndRestore() const {
    const double start = ProcessSeconds();
    const v1::PlannerState copy = core_.state().ToProto();
    const double copied = ProcessSeconds();
    Core restored{planner::CoreOptions{}};
    restored.Restore(copy);
    return {1e3 * (copied - start), 1e3 * (ProcessSeconds() - copied)};
  }

  void Submit(int tasks, const std::string& request_id = "") {
    planner::Submit submit;
    submit.name = "set";
    submit.request_id = request_id;
    submit.arch = kArch;
    submit.policy = "rules";
    submit.seconds_per_task = 3600;
    for (int i = 0; i < tasks; ++i) {
      const std::string name = absl::StrCat("problem_", i);
      submit.problems.push_back({name, Digest(i), {"default"}});
    }
    const auto outcome = core_.Handle(submit, now_);
    WS_CHECK(outcome.reply.ok(), outcome.reply.status().ToString());
  }

  // A call that reports progress, with a batch of trials if asked for.
  void Report(int which, bool trials) {
    Held& held = held_[which % held_.size()];
    Synchronize sync = SyncOf(held, false);
    if (trials) AddTrials(held, sync);
    WS_CHECK(core_.Handle(sync, now_).reply.ok(), "a report is taken");
  }

  // A call that ends the lease and is given the next.
  void EndAndTake(int which) {
    Held& held = held_[which % held_.size()];
    Take(held, SyncOf(held, true));
  }

  void Tick() {
    now_.monotonic_ms += 1;
    WS_CHECK(core_.Handle(planner::Tick{}, now_).events.empty(), "nothing falls silent");
  }

 private:
  struct Held {
    std::string worker, session;
    Grant grant;
    int64_t batches = 0;  // of the lease
  };

  void Join(int number) {
    Held& held = held_.emplace_back();
    held.worker = absl::StrCat("worker-", number);
    const auto joined = core_.Handle(SyncOf(held, false), now_);
    WS_CHECK(joined.reply.ok(), joined.reply.status().ToString());
    held.session = joined.reply->session_id;
    Take(held, SyncOf(held, false));
  }

  Synchronize SyncOf(const Held& held, bool ends) const {
    Synchronize sync;
    sync.worker.set_id(held.worker);
    sync.worker.set_arch(kArch);
    sync.worker.set_healthy(true);
    sync.session_id = held.session;
    sync.slots = ends || held.grant.lease_id.empty() ? 1 : 0;
    if (held.grant.lease_id.empty()) return sync;
    v1::LeaseStatus& status = sync.leases.emplace_back();
    status.set_lease_id(held.grant.lease_id);
    status.set_task_id(held.grant.task_id);
    status.set_fence(held.grant.fence);
    status.set_specialist("memory");
    status.set_seconds(1);
    status.set_finished(ends);
    return sync;
  }

  static void AddTrials(Held& held, Synchronize& sync) {
    planner::Result& result = sync.results.emplace_back();
    result.lease_id = held.grant.lease_id;
    result.task_id = held.grant.task_id;
    result.fence = held.grant.fence;
    result.trials.set_batch("batch");
    result.trials.set_first(1 + 40 * held.batches++);
    result.trials.set_trials(40);
    result.trials.set_judged(40);
  }

  void Take(Held& held, const Synchronize& sync) {
    const auto outcome = core_.Handle(sync, now_);
    WS_CHECK(outcome.reply.ok(), outcome.reply.status().ToString());
    WS_CHECK(outcome.reply->start.size() == 1, "there is a task for each worker");
    held.session = outcome.reply->session_id;
    held.grant = outcome.reply->start[0];
    held.batches = 0;
  }

  Core core_;
  Now now_{1'000, 1'000};
  std::mt19937_64 random_;
  std::vector<Held> held_;
  double replay_us_ = 0;
};

}  // namespace

void MeasureCore(const std::vector<int>& tasks, int workers) {
  std::printf(
      "| tasks | workers | report, us | with trials | "
      "end and grant | tick | submit after 1,000 runs | an event replayed | "
      "state copied, ms | restored, ms |\n"
      "|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n");
  for (const int count : tasks) {
    const int holders = std::min(workers, count / 2);
    Bench bench(count, holders);
    const auto [copy_ms, restore_ms] = bench.CopyAndRestore();
    const double report = Mean([&](int i) { bench.Report(i, false); });
    const double trials = Mean([&](int i) { bench.Report(i, true); });
    const double grant = Mean([&](int i) { bench.EndAndTake(i); });
    const double tick = Mean([&](int) { bench.Tick(); });
    Bench small(1'000, 0);
    for (int i = 0; i < 1'000; ++i) small.Submit(1, absl::StrCat("request-", i));
    int more = 1'000;
    const double submit = Mean([&](int) { small.Submit(1, absl::StrCat("request-", more++)); });
    std::printf("| %d | %d | %.1f | %.1f | %.1f | %.1f | %.1f | %.1f | %.0f | %.0f |\n", count,
                holders, report, trials, grant, tick, submit, bench.replay_us(), copy_ms,
                restore_ms);
    std::fflush(stdout);
  }
}

}  // namespace warpsmith::bench
