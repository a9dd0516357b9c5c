#include "planner/service/outlook.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "planner/core/allocator.h"

namespace warpsmith::planner {
namespace {

// A kernel of 2x, found in the first half of a minute; ten times slower than the light.
v1::TaskRecord Halfway() {
  v1::TaskRecord record;
  v1::Task& task = *record.mutable_task();
  task.set_state(v1::QUEUED);
  task.set_incumbent_blob("blob");
  task.set_speedup(2);
  task.set_best_us(100);
  task.set_graph_us(100);
  task.set_light_us(10);
  task.set_seconds_budget(60);
  task.set_seconds_spent(30);
  task.set_slices(1);
  v1::SliceGain& gain = *task.add_gains();
  gain.set_seconds(30);
  gain.set_speedup_before(1);
  gain.set_speedup_after(2);
  return record;
}

}  // namespace

TEST_CASE("what is expected is what the rest of the budget is expected to bring") {
  const v1::TaskRecord record = Halfway();
  const v1::Task& task = record.task();
  const Outlook outlook = OutlookOf(record);
  CHECK(outlook.reached == Approx(std::log(2)));
  CHECK(ExpectedGainOfRest(task) > 0.1);
  CHECK(outlook.expected == Approx(std::log(2) + ExpectedGainOfRest(task)));
  CHECK(outlook.limit == Approx(std::log(20)));
}

TEST_CASE("nothing is expected of what is not worked on") {
  v1::TaskRecord record = Halfway();
  v1::Task& task = *record.mutable_task();
  for (const v1::TaskState state :
       {v1::CONVERGED, v1::PARKED, v1::FAILED, v1::HELD, v1::CANCELLED}) {
    task.set_state(state);
    CHECK(OutlookOf(record).expected == OutlookOf(record).reached);
  }
  task.set_state(v1::LEASED);
  CHECK(OutlookOf(record).expected > OutlookOf(record).reached);
  task.set_seconds_spent(60);
  CHECK(OutlookOf(record).expected == OutlookOf(record).reached);
}

TEST_CASE("what the slice under way has brought is part of what was expected of it") {
  v1::TaskRecord record = Halfway();
  const double expected = OutlookOf(record).expected;
  v1::Task& task = *record.mutable_task();
  task.set_state(v1::LEASED);
  record.set_slice_speedup(2);
  CHECK(OutlookOf(record).expected == Approx(expected));
  task.set_speedup(2.1);
  CHECK(OutlookOf(record).expected == Approx(expected));
  task.set_speedup(10);  // more than was hoped for
  CHECK(OutlookOf(record).expected == Approx(std::log(10)));
  task.set_state(v1::QUEUED);  // it is over
  CHECK(OutlookOf(record).expected > std::log(10) + 0.1);
}

TEST_CASE("never more than the limit, nor less than what is reached") {
  for (const double light : {0.0, 1.0, 60.0, 99.0, 100.0, 120.0}) {
    for (const double graph : {0.0, 100.0, 1000.0}) {
      for (const double speedup : {0.0, 0.01, 0.5, 1.0, 3.0}) {
        v1::TaskRecord record = Halfway();
        v1::Task& task = *record.mutable_task();
        task.set_light_us(light);
        task.set_graph_us(graph);
        task.set_speedup(speedup);
        INFO(light << " " << graph << " " << speedup);
        const Outlook outlook = OutlookOf(record);
        CHECK(outlook.reached >= 0);
        CHECK(outlook.expected >= outlook.reached);
        CHECK(outlook.limit >= outlook.expected);
      }
    }
  }
  // What launching takes stays: 1000 us of it, and 100 or 10 of the device's.
  v1::TaskRecord launched = Halfway();
  launched.mutable_task()->set_graph_us(1100);
  CHECK(OutlookOf(launched).limit == Approx(std::log(2 * 1100.0 / 1010)));
}

TEST_CASE("a task without a kernel counts as 1, and one that is slower than the baseline") {
  v1::TaskRecord none;
  none.mutable_task()->set_state(v1::QUEUED);
  none.mutable_task()->set_seconds_budget(60);
  CHECK(ExpectedGainOfRest(none.task()) > 1);  // and yet
  CHECK(OutlookOf(none).expected == 0);
  CHECK(OutlookOf(none).limit == 0);
  v1::TaskRecord slow = Halfway();
  slow.mutable_task()->set_speedup(0.01);
  CHECK(OutlookOf(slow).reached == 0);
  CHECK(OutlookOf(slow).expected == 0);
  CHECK(OutlookOf(slow).limit == 0);  // at the light it is slower still
}

}  // namespace warpsmith::planner
