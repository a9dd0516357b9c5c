#include "worker/daemon/metrics.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <functional>
#include <string>

#include "absl/strings/str_cat.h"

namespace warpsmith::daemon {
namespace {

using agent::Activity;

// A worker whose clock is the test's.
struct Bench {
  double Seconds(const char* split, const std::string& part) {
    return metrics.metrics()
        .Counter(absl::StrCat("warpsmith_worker_", split, "_seconds_total"), {part})
        .Value();
  }
  double Activity(const std::string& part) { return Seconds("activity", part); }
  double Phase(const std::string& part) { return Seconds("phase", part); }
  void Pass(double seconds) { clock.AdvanceTime(absl::Seconds(seconds)); }
  // Both splits are of all the time.
  void CheckSums() {
    metrics.Text();
    const double all = absl::ToDoubleSeconds(clock.TimeNow() - base::Instant());
    double activities = 0, phases = 0;
    for (const char* part : {"idle", "propose", "wait", "judge", "oracle"}) {
      activities += Activity(part);
    }
    for (const char* part : {"idle", "opening", "search", "finalising"}) phases += Phase(part);
    CHECK(activities == Approx(all));
    CHECK(phases == Approx(all));
  }
  // A lease in which that happens.
  void Lease(const std::function<void(agent::Reporter&)>& what) {
    struct Nobody : agent::Reporter {
      void OnTrial(const v1::Trial&) override {}
      void OnIncumbent(const v1::Incumbent&) override {}
      void OnProgress(const std::string&) override {}
    } nobody;
    const Work work =
        metrics.Metered([&](const v1::Lease&, agent::Reporter& reporter, const std::atomic<bool>&) {
          what(reporter);
          return agent::Outcome();
        });
    CHECK(work({}, nobody, false).ok());
  }

  base::SimulatedClock clock;
  WorkerMetrics metrics{"1", v1::WorkerInfo(), &clock};
};

}  // namespace

TEST_CASE("a worker's time is split, and nothing of it is left out") {
  Bench bench;
  bench.Pass(10);
  bench.Lease([&](agent::Reporter& reporter) {
    bench.Pass(1);  // nothing was told: it begins with the first candidate
    bench.metrics.Do(Activity::kWait, 0);
    bench.Pass(2);
    bench.metrics.Do(Activity::kOracle, 0);
    bench.Pass(4);
    reporter.OnProgress("memory");
    bench.metrics.Do(Activity::kJudge, 0);
    bench.Pass(8);
    bench.metrics.Do(Activity::kPropose, 3);
    bench.Pass(16);
  });
  bench.Pass(32);
  bench.CheckSums();
  CHECK(bench.Activity("idle") == Approx(42));
  CHECK(bench.Activity("propose") == Approx(17));
  CHECK(bench.Activity("wait") == Approx(2));
  CHECK(bench.Activity("oracle") == Approx(4 + 3));
  CHECK(bench.Activity("judge") == Approx(8 - 3));
  CHECK(bench.Phase("opening") == Approx(7));
  CHECK(bench.Phase("search") == Approx(24));
}

TEST_CASE("scrapes in the middle of a verdict change no sum, and what is the oracle's in the end") {
  Bench bench;
  bench.Lease([&](agent::Reporter&) {
    bench.metrics.Do(Activity::kJudge, 0);
    bench.Pass(6);
    bench.CheckSums();
    CHECK(bench.Activity("judge") == Approx(6));  // nobody knows better yet
    bench.Pass(1);
    bench.metrics.Do(Activity::kPropose, 3);
    bench.CheckSums();
    CHECK(bench.Activity("oracle") == Approx(1));
    bench.metrics.Do(Activity::kJudge, 0);
    bench.Pass(5);
    bench.metrics.Do(Activity::kPropose, 0);
    bench.CheckSums();
    CHECK(bench.Activity("oracle") == Approx(3));
    CHECK(bench.Activity("judge") == Approx(9));
  });
}

TEST_CASE("what is told after a lease is idle time all the same") {
  Bench bench;
  bench.Lease([&](agent::Reporter&) { bench.metrics.Do(Activity::kJudge, 0); });
  bench.metrics.Do(Activity::kPropose, 7);
  bench.Pass(5);
  bench.CheckSums();
  CHECK(bench.Activity("idle") == Approx(5));
  bench.Lease([&](agent::Reporter&) {
    bench.metrics.Do(Activity::kJudge, 0);
    bench.Pass(2);
  });
  bench.CheckSums();
  CHECK(bench.Activity("judge") == Approx(2));
  CHECK(bench.Activity("oracle") == 0);
}

}  // namespace warpsmith::daemon
