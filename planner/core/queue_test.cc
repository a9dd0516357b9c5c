#include "planner/core/queue.h"

#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <set>
#include <string>

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

}  // namespace warpsmith::planner
