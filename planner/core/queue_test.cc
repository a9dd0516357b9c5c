#include "planner/core/queue.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "planner/core/allocator.h"

namespace warpsmith::planner {
namespace {

v1::Task Tried(const std::string& id, double speedup, double spent = 30, double best_us = 20) {
  v1::Task task;
  task.set_id(id);
  task.set_best_us(best_us);
  task.set_light_us(10);
  task.set_seconds_budget(60);
  task.set_seconds_spent(spent);
  task.set_slices(1);
  v1::SliceGain& gain = *task.add_gains();
  gain.set_seconds(spent);
  gain.set_speedup_before(1);
  gain.set_speedup_after(speedup);
  return task;
}

std::string BestOf(const std::vector<v1::Task>& tasks, const std::string& warm_task) {
  TaskQueue queue;
  for (const v1::Task& task : tasks) queue.Put(task);
  const std::string* best = queue.Best(warm_task, [](const std::string&) { return false; });
  return best == nullptr ? "none" : *best;
}

// What Best is to give: every task looked at, in the order of ids.
std::string Scan(const std::map<std::string, v1::Task>& tasks, const std::string& warm_task,
                 const std::set<std::string>& skipped) {
  std::string best = "none";
  double best_gain = -1;
  for (const auto& [id, task] : tasks) {
    if (NextSlice(task) <= 0 || skipped.count(id) > 0) continue;
    const double gain = ExpectedGain(task) * (id == warm_task ? kMoveMargin : 1.0);
    if (gain > best_gain) {
      best = id;
      best_gain = gain;
    }
  }
  return best;
}

// A task and how it waits.
struct Waiting {
  v1::Task task;
  std::set<std::string> labels;
  std::string submitter;
  int priority = 0;
};

// What WorkQueue::Best is to give: every task looked at.
std::string Scan(const std::map<std::string, Waiting>& tasks,
                 const std::map<std::string, Standing>& standings,
                 const std::set<std::string>& labels, const std::string& warm_task,
                 const std::set<std::string>& skipped) {
  std::string best = "none";
  std::tuple<Standing, int, double> best_by;
  for (const auto& [id, waiting] : tasks) {
    if (NextSlice(waiting.task) <= 0 || skipped.count(id) > 0) continue;
    if (!std::includes(labels.begin(), labels.end(), waiting.labels.begin(), waiting.labels.end()))
      continue;
    const double gain = ExpectedGain(waiting.task) * (id == warm_task ? kMoveMargin : 1.0);
    const std::tuple<Standing, int, double> by{standings.at(waiting.submitter), -waiting.priority,
                                               -gain};
    if (best != "none" && best_by <= by) continue;
    best = id;
    best_by = by;
  }
  return best;
}

}  // namespace

TEST_CASE("a worker stays where it is warm unless another task is better by the margin") {
  const v1::Task a = Tried("a", 1.30), b = Tried("b", 1.35), c = Tried("c", 2.5);
  CHECK(BestOf({a, b}, "") == "b");
  CHECK(BestOf({a, b}, "a") == "a");
  CHECK(BestOf({a, b, c}, "a") == "c");
  CHECK(BestOf({a, b}, "not here") == "b");
  CHECK(BestOf({b}, "b") == "b");
  CHECK(BestOf({}, "a") == "none");
  CHECK(BestOf({Tried("spent", 3, 60)}, "spent") == "none");
  // Of equal ones the first, whichever came first.
  CHECK(BestOf({Tried("f", 2), Tried("e", 2), Tried("g", 2)}, "") == "e");
  CHECK(BestOf({Tried("f", 2), Tried("e", 2), Tried("g", 2)}, "g") == "g");
}

TEST_CASE("what the queue gives is what a look at every task finds") {
  for (int seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    // Few different gains, so that many are equal, some by the margin; some tasks are spent.
    const auto draw = [&random](const std::string& id) {
      const double speedups[] = {1, 1.1, 1.5, 1.5, 3};
      const double spent[] = {20, 30, 59};
      const double best_us[] = {0, 10, 12, 20};
      v1::Task task = Tried(id, speedups[random() % 5], spent[random() % 3], best_us[random() % 4]);
      if (random() % 4 == 0) task.clear_gains();
      // At the light nothing is to be gained: zeros are equal, margin or not.
      return task;
    };
    TaskQueue queue;
    std::map<std::string, v1::Task> tasks;
    for (int step = 0; step < 500; ++step) {
      const std::string id = absl::StrCat("t", random() % 40);
      if (random() % 3 == 0) {
        queue.Remove(id);
        tasks.erase(id);
      } else {
        tasks[id] = draw(id);
        queue.Put(tasks[id]);
      }
      const std::string warm = random() % 3 == 0 ? "" : absl::StrCat("t", random() % 40);
      std::set<std::string> skipped;
      while (random() % 3 == 0) skipped.insert(absl::StrCat("t", random() % 40));
      const std::string* best =
          queue.Best(warm, [&](const std::string& t) { return skipped.count(t) > 0; });
      INFO("seed " << seed << ", step " << step << ", warm on '" << warm << "'");
      REQUIRE((best == nullptr ? "none" : *best) == Scan(tasks, warm, skipped));
    }
    for (const auto& [id, task] : tasks) queue.Remove(id);
    CHECK(queue.empty());
  }
}

TEST_CASE("whose turn it is, priority, promise and needs: as a look at every task finds") {
  const std::vector<std::string> names = {"ann", "bob", "cid", "r7"};
  const std::vector<std::set<std::string>> needs = {{}, {"a=1"}, {"b=2"}, {"a=1", "b=2"}};
  for (int seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    WorkQueue queue;
    std::map<std::string, Waiting> tasks;
    std::map<std::string, Standing> standings;
    for (const std::string& name : names) {
      standings[name] = {-std::numeric_limits<double>::infinity(), name[0]};
    }
    const auto put = [&](const std::string& id) {
      const Waiting& waiting = tasks.at(id);
      queue.Put(waiting.task, {{{waiting.labels.begin(), waiting.labels.end()}, 0},
                               waiting.submitter,
                               standings.at(waiting.submitter),
                               waiting.priority});
    };
    int found = 0;
    for (int step = 0; step < 1'000; ++step) {
      const std::string id = absl::StrCat("t", random() % 40);
      if (random() % 3 == 0) {
        queue.Remove(id);
        tasks.erase(id);
      } else if (random() % 3 == 0) {
        const std::string& name = names[random() % names.size()];
        standings[name].used = static_cast<double>(random() % 8);
        standings[name].since = name[0];  // different, so that no two are equal
        queue.Move(name, standings[name]);
      } else if (random() % 3 == 0) {
        const int priority = static_cast<int>(random() % 5) - 2;
        queue.Prioritize(id, priority);  // also of one that does not wait
        if (tasks.count(id) > 0) tasks[id].priority = priority;
      } else {
        const double speedups[] = {1, 1.1, 1.5, 1.5, 3};
        const double spent[] = {20, 30, 59};
        Waiting& waiting = tasks[id];
        waiting.task = Tried(id, speedups[random() % 5], spent[random() % 3]);
        waiting.labels = needs[random() % needs.size()];
        waiting.submitter = names[random() % names.size()];
        waiting.priority = static_cast<int>(random() % 3) - 1;
        put(id);
      }
      v1::WorkerInfo worker;
      std::set<std::string> labels;
      for (const char* label : {"a=1", "b=2", "c=3"}) {
        if (random() % 2 == 0) continue;
        labels.insert(label);
        worker.add_labels(label);
      }
      const std::string warm = random() % 3 == 0 ? "" : absl::StrCat("t", random() % 40);
      std::set<std::string> skipped;
      while (random() % 3 == 0) skipped.insert(absl::StrCat("t", random() % 40));
      const std::string* best =
          queue.Best(worker, warm, [&](const std::string& t) { return skipped.count(t) > 0; });
      found += best != nullptr;
      INFO("seed " << seed << ", step " << step << ", warm on '" << warm << "'");
      REQUIRE((best == nullptr ? "none" : *best) == Scan(tasks, standings, labels, warm, skipped));
      CHECK(queue.HasFor(worker) == (Scan(tasks, standings, labels, "", {}) != "none"));
    }
    CHECK(found > 500);
    for (const auto& [id, waiting] : tasks) queue.Remove(id);
    CHECK(queue == WorkQueue());
  }
}

TEST_CASE("use fades, counts by weight, and is compared at any time") {
  const int64_t day = static_cast<int64_t>(kHalfLifeMs);
  const auto submitter = [](double weight, int64_t since = 1) {
    v1::Submitter made;
    made.set_weight(weight);
    made.set_since(since);
    return made;
  };
  v1::Submitter a = submitter(1), b = submitter(2, 2), c = submitter(0, 3);
  CHECK(StandingOf(a) < StandingOf(b));  // neither has used anything, and a came first
  Use(100, day, a);
  CHECK(StandingOf(b) < StandingOf(a));
  Use(150, day, b);
  CHECK(StandingOf(b) < StandingOf(a));
  Use(60, day, b);
  CHECK(StandingOf(a) < StandingOf(b));
  // A day later half of it is left, so 50 of today are as much as 100 of yesterday.
  Use(49, 2 * day, c);
  CHECK(StandingOf(c) < StandingOf(a));
  Use(2, 2 * day, c);
  CHECK(StandingOf(a) < StandingOf(c));
  Use(0, 3 * day, a);
  CHECK(a.seconds() == Approx(25));
  CHECK(StandingOf(a) < StandingOf(c));
  // What was charged too much is given back; a clock that goes back changes nothing.
  Use(-26, 3 * day, a);
  CHECK(a.seconds() == 0);
  Use(8, day, a);
  CHECK(a.at_unix_ms() == 3 * day);
  CHECK(a.seconds() == 8);
}

TEST_CASE("a worker meets needs by its labels, its oracle and its memory") {
  v1::WorkerInfo worker;
  worker.set_arch("sm_90a");
  worker.add_labels("rack=3");
  worker.set_device_bytes(int64_t{80} << 30);
  CHECK(Meets(worker, {}));
  CHECK(Meets(worker, {{"oracle=native", "rack=3"}, 0}));
  CHECK_FALSE(Meets(worker, {{"oracle=pytorch"}, 0}));
  CHECK_FALSE(Meets(worker, {{"rack=3", "rack=4"}, 0}));
  v1::WorkerInfo other = worker;
  other.set_torch(true);
  CHECK(Meets(other, {{"oracle=pytorch"}, 0}));
  CHECK(KindOf(worker) != KindOf(other));
  CHECK(Meets(worker, {{}, RoundedBytes(int64_t{75} << 30)}));
  CHECK_FALSE(Meets(worker, {{}, RoundedBytes((int64_t{80} << 30) + 1)}));
  worker.set_device_bytes(0);  // it does not say
  CHECK(Meets(worker, {{}, int64_t{1} << 40}));
  CHECK(RoundedBytes(5'000'000) == 0);
  for (int64_t bytes = int64_t{1} << 30; bytes < int64_t{1} << 50; bytes += bytes / 97 + 1) {
    CHECK(RoundedBytes(bytes) >= bytes);
    CHECK(static_cast<double>(RoundedBytes(bytes)) <= 1.035 * static_cast<double>(bytes));
    CHECK(RoundedBytes(RoundedBytes(bytes)) == RoundedBytes(bytes));
  }
}

}  // namespace warpsmith::planner
