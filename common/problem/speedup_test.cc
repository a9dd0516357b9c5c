#include "common/problem/speedup.h"

#include <catch2/catch.hpp>

namespace warpsmith::problem {
namespace {

v1::Baseline MakeBaseline(const std::string& name, double graph_us, double call_us,
                          bool accurate = true) {
  v1::Baseline baseline;
  baseline.set_name(name);
  baseline.set_accurate(accurate);
  baseline.mutable_times()->set_graph_us(graph_us);
  baseline.mutable_times()->set_call_us(call_us);
  return baseline;
}

TEST_CASE("the quicker of graph and call is named as PyTorch's users do") {
  struct Case {
    v1::Baseline baseline;
    double us;
    const char* name;
  };
  const Case cases[] = {{MakeBaseline("eager", 8, 30), 8, "graph"},
                        {MakeBaseline("eager", 0, 30), 30, "eager"},
                        {MakeBaseline("compile", 12, 11), 11, "compile"},
                        {MakeBaseline("max", 9, 20), 9, "max_graph"},
                        {MakeBaseline("op_by_op", 9, 0), 9, "op_by_op"},
                        {MakeBaseline("compile", 0, 0), 0, "compile"}};
  for (const Case& c : cases) {
    CHECK(QuickestUs(c.baseline) == c.us);
    CHECK(QuickestName(c.baseline) == c.name);
  }
}

TEST_CASE("like is compared with like, and the strongest is accurate") {
  v1::BaselineReport report;
  v1::Times mine;
  mine.set_device_us(2);
  mine.set_graph_us(5);
  CHECK(Strongest(report) == nullptr);
  CHECK(SpeedupsOf(mine, report).strongest == 0);
  *report.add_baselines() = MakeBaseline("eager", 20, 40);
  *report.add_baselines() = MakeBaseline("compile", 10, 50);
  *report.add_baselines() = MakeBaseline("max", 6, 50, /*accurate=*/false);
  REQUIRE(Strongest(report) != nullptr);
  CHECK(Strongest(report)->name() == "compile");
  CHECK(SpeedupsOf(mine, report).strongest == Approx(2));
  CHECK(SpeedupsOf(mine, report).eager == Approx(4));  // graphs, while the export was not called
  mine.set_call_us(10);
  CHECK(SpeedupsOf(mine, report).eager == Approx(4));
  mine.set_call_us(20);
  CHECK(SpeedupsOf(mine, report).eager == Approx(2));
  CHECK(SpeedupsOf(v1::Times(), report).strongest == 0);
}

TEST_CASE("what is compared is told for one launch") {
  const auto times = [](double graph_us, double launch_us) {
    v1::Times made;
    made.set_device_us(1);
    made.set_graph_us(graph_us);
    made.set_launch_us(launch_us);
    return made;
  };
  // The same work, timed while the host was busy, while it was not, and before launches were timed.
  v1::Times mine = times(14.5, 8.5);
  v1::BaselineReport report;
  for (const v1::Times& theirs : {times(11.5, 5.5), times(12, 6.5), times(13, 0), times(0, 5)}) {
    v1::Baseline* const baseline = report.add_baselines();
    baseline->set_accurate(true);
    *baseline->mutable_times() = theirs;
  }
  for (int again = 0; again < 2; ++again) {
    TellForOneLaunch(&mine, &report);
    CHECK(mine.graph_us() == Approx(11.5));
    CHECK(mine.launch_us() == Approx(5.5));
    CHECK(mine.device_us() == 1);
    CHECK(report.baselines(0).times().graph_us() == Approx(11.5));
    CHECK(report.baselines(1).times().graph_us() == Approx(11));
    CHECK(report.baselines(2).times().graph_us() == Approx(13));
    CHECK(report.baselines(3).times().graph_us() == 0);
  }
  CHECK(SpeedupsOf(mine, report).strongest == Approx(11 / 11.5));
  v1::Times unknown = times(7, 0);
  TellForOneLaunch(&unknown, &report);
  CHECK(unknown.graph_us() == 7);
}

}  // namespace
}  // namespace warpsmith::problem
