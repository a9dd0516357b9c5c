#include "common/telemetry/metrics.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>

#include "tests/support/temporary_folder.h"

namespace warpsmith::telemetry {
namespace {

using Catch::Contains;

constexpr Metric kTable[] = {
    {"warpsmith_test_calls_total", MetricKind::kCounter, "method, code", "Calls."},
    {"warpsmith_test_leases_total", MetricKind::kCounter, "", "Leases."},
    {"warpsmith_test_wait_seconds", MetricKind::kHistogram, "", "Waits."},
    {"warpsmith_test_speedup_ratio", MetricKind::kGauge, "run", "Speedups."},
};

}  // namespace

TEST_CASE("what is counted is told, and what never happened is 0") {
  Metrics metrics(kTable, "test", "1.2.3");
  std::string text = metrics.Text();
  CHECK_THAT(text, Contains("warpsmith_test_leases_total 0\n") &&
                       Contains("warpsmith_test_wait_seconds_count 0\n") &&
                       Contains("warpsmith_build_info{component=\"test\",version=\"1.2.3\"} 1\n"));
  CHECK_THAT(text, !Contains("warpsmith_test_calls_total{"));
  metrics.Counter("warpsmith_test_calls_total", {"List", "ok"}).Increment(2);
  metrics.Histogram("warpsmith_test_wait_seconds").Observe(0.02);
  text = metrics.Text();
  CHECK_THAT(text, Contains("warpsmith_test_calls_total{code=\"ok\",method=\"List\"} 2\n") &&
                       Contains("warpsmith_test_wait_seconds_bucket{le=\"0.01\"} 0\n") &&
                       Contains("warpsmith_test_wait_seconds_bucket{le=\"0.025\"} 1\n"));
}

TEST_CASE("published samples take the place of those before") {
  Metrics metrics(kTable, "test", "1");
  metrics.Publish("warpsmith_test_speedup_ratio", {{{"r1"}, 1.5}, {{"r\"2"}, 2}});
  CHECK_THAT(metrics.Text(), Contains("warpsmith_test_speedup_ratio{run=\"r1\"} 1.5\n") &&
                                 Contains("{run=\"r\\\"2\"} 2\n"));
  metrics.Publish("warpsmith_test_speedup_ratio", {{{"r3"}, 3}});
  CHECK_THAT(metrics.Text(), Contains("{run=\"r3\"} 3\n") && !Contains("r1"));
  metrics.Publish("warpsmith_test_speedup_ratio", {});
  CHECK_THAT(metrics.Text(), !Contains("warpsmith_test_speedup_ratio"));
}

TEST_CASE("a process tells of itself") {
  Metrics metrics({}, "test", "1");
  metrics.Text();
  CHECK(metrics.Gauge("process_resident_memory_bytes").Value() > 1e6);
  CHECK(metrics.Gauge("process_open_fds").Value() >= 3);
  CHECK(metrics.Gauge("process_max_fds").Value() >= metrics.Gauge("process_open_fds").Value());
  // It was started after this was written, and before the end of the century.
  CHECK(metrics.Gauge("process_start_time_seconds").Value() > 1.7e9);
  CHECK(metrics.Gauge("process_start_time_seconds").Value() < 4.1e9);
  volatile double sum = 0;
  const double before = metrics.Counter("process_cpu_seconds_total").Value();
  for (int i = 0; metrics.Counter("process_cpu_seconds_total").Value() < before + 0.02; ++i) {
    for (int j = 0; j < 1'000'000; ++j) sum = sum + j;
    metrics.Text();
    REQUIRE(i < 10'000);
  }
}

TEST_CASE("a process tells how full the disk of its folder is") {
  Metrics metrics({}, "test", "1");
  CHECK_THAT(metrics.Text(), !Contains("\nwarpsmith_disk_size_bytes "));
  const support::TemporaryFolder folder;
  metrics.Keeps(folder.path());
  metrics.Text();
  const auto disk = std::filesystem::space(folder.path());
  // Some file systems count as theirs what grows and shrinks beside them.
  CHECK(metrics.Gauge("warpsmith_disk_size_bytes").Value() ==
        Approx(static_cast<double>(disk.capacity)).epsilon(0.01));
  CHECK(metrics.Gauge("warpsmith_disk_available_bytes").Value() >= 0);
  CHECK(metrics.Gauge("warpsmith_disk_available_bytes").Value() <=
        static_cast<double>(disk.capacity));
}

TEST_CASE("names follow the conventions") {
  for (const Metric& metric : ProcessMetrics()) {
    const bool total = std::string(metric.name).find("_total") != std::string::npos;
    CHECK(total == (metric.kind == MetricKind::kCounter));
  }
}

}  // namespace warpsmith::telemetry
