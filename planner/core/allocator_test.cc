#include "planner/core/allocator.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <utility>
#include <vector>

namespace warpsmith::planner {
namespace {

struct Slice {
  double seconds, before, after;
};

v1::Task TaskOf(const std::string& id, double best_us, double light_us,
                const std::vector<Slice>& slices, double budget = 60) {
  v1::Task task;
  task.set_id(id);
  task.set_best_us(best_us);
  task.set_light_us(light_us);
  task.set_seconds_budget(budget);
  for (const Slice& slice : slices) {
    task.set_seconds_spent(task.seconds_spent() + slice.seconds);
    task.set_slices(task.slices() + 1);
    v1::SliceGain& gain = *task.add_gains();
    gain.set_seconds(slice.seconds);
    gain.set_speedup_before(slice.before);
    gain.set_speedup_after(slice.after);
  }
  return task;
}

}  // namespace

TEST_CASE("a budget is cut into slices, the first one largest, and nothing is left over") {
  v1::Task task = TaskOf("a", 0, 0, {});
  std::vector<double> slices;
  for (double slice = NextSlice(task); slice > 0; slice = NextSlice(task)) {
    slices.push_back(slice);
    task.set_seconds_spent(task.seconds_spent() + slice);
    task.set_slices(task.slices() + 1);
    REQUIRE(slices.size() < 10);
  }
  CHECK(slices == std::vector<double>{42, 18});
  CHECK(task.seconds_spent() == task.seconds_budget());
}

TEST_CASE("a slice is never shorter than the least nor longer than what is left") {
  CHECK(NextSlice(TaskOf("a", 0, 0, {}, 2)) == 2);
  CHECK(NextSlice(TaskOf("a", 0, 0, {}, 5)) == 5);
  CHECK(NextSlice(TaskOf("a", 0, 0, {{2.5, 1, 1}}, 5)) == 2.5);
  CHECK(NextSlice(TaskOf("a", 0, 0, {{58, 1, 1}})) == 2);
  CHECK(NextSlice(TaskOf("a", 0, 0, {{59, 1, 1}})) == 0);
  CHECK(NextSlice(TaskOf("a", 0, 0, {{90, 1, 1}})) == 0);
}

TEST_CASE("where the next GPU second pays most") {
  const v1::Task untried = TaskOf("untried", 0, 0, {});
  const v1::Task rewarding = TaskOf("rewarding", 20, 10, {{30, 1, 3}});
  const v1::Task slow = TaskOf("slow", 20, 10, {{30, 1, 1.05}});
  const v1::Task stale = TaskOf("stale", 20, 10, {{30, 1, 3}, {15, 3, 3}});
  const v1::Task at_light = TaskOf("at light", 10.1, 10, {{30, 1, 3}});
  CHECK(ExpectedGain(untried) > ExpectedGain(rewarding));
  CHECK(ExpectedGain(rewarding) > ExpectedGain(slow));
  CHECK(ExpectedGain(rewarding) > ExpectedGain(stale));
  CHECK(ExpectedGain(slow) > ExpectedGain(at_light));
  CHECK(ExpectedGain(TaskOf("spent", 20, 10, {{60, 1, 3}})) == 0);
  // Never more than the way to the light.
  CHECK(ExpectedGain(at_light) * NextSlice(at_light) <= std::log(1.01) + 1e-9);
}

TEST_CASE("what the rest of a budget brings is what its slices bring, one after the other") {
  const v1::Task last = TaskOf("one slice is left", 20, 10, {{42, 1, 3}});
  REQUIRE(NextSlice(last) == 18);
  CHECK(ExpectedGainOfRest(last) == Approx(18 * ExpectedGain(last)));
  // As if each slice had brought what was expected of it.
  v1::Task task = TaskOf("several are left", 20, 1, {{10, 1, 1.5}}, 100);
  const double rest = ExpectedGainOfRest(task);
  double sum = 0, speedup = 1.5;
  int slices = 0;
  for (double slice = NextSlice(task); slice > 0; slice = NextSlice(task), ++slices) {
    const double gain = slice * ExpectedGain(task);
    sum += gain;
    task.set_best_us(task.best_us() / std::exp(gain));
    task.set_seconds_spent(task.seconds_spent() + slice);
    v1::SliceGain& told = *task.add_gains();
    told.set_seconds(slice);
    told.set_speedup_before(speedup);
    told.set_speedup_after(speedup *= std::exp(gain));
  }
  CHECK(slices == 3);
  CHECK(rest == Approx(sum));
  CHECK(rest > 0.1);
  CHECK(rest < std::log(20));
  CHECK(ExpectedGainOfRest(task) == 0);
  // The way to the light is not gone twice.
  CHECK(ExpectedGainOfRest(TaskOf("near", 10.5, 10, {{1, 1, 50}}, 1'000)) <= std::log(1.05) + 1e-9);
}

}  // namespace warpsmith::planner
