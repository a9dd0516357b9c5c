// What a planner and workers tell Prometheus: a real one asks a real fleet.
#include "planner/service/metrics.h"

#include <httplib.h>
#include <signal.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/file.h"
#include "tests/e2e/fleet.h"
#include "tests/support/nvml_script.h"
#include "tests/support/redis_server.h"
#include "worker/daemon/metrics.h"

namespace warpsmith::e2e {
namespace {

using Catch::Contains;

const std::string kBin = WARPSMITH_BIN;

std::string Get(const std::string& address, const std::string& path) {
  httplib::Client client("http://" + address);
  const auto reply = client.Get(path.c_str());
  return reply ? reply->body : "";
}

// "" while it does not stand there.
std::string Line(const std::string& file) {
  return std::string(absl::StripAsciiWhitespace(base::ReadFile(file).value_or("")));
}

// Names of the samples of a text in Prometheus' format, of histograms without _bucket and so on.
std::set<std::string> NamesIn(const std::string& text) {
  std::set<std::string> names;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (absl::StartsWith(line, "# TYPE ")) {
      const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
      names.emplace(words.at(2));
    }
  }
  return names;
}

// promtool finds nothing to say of it.
void CheckText(const std::string& folder, const std::string& text) {
  const std::string path = folder + "/metrics.txt";
  REQUIRE(base::WriteFileAtomically(path, text).ok());
  const Finished checked = RunToEnd({"/bin/sh", "-c", "promtool check metrics < " + path});
  INFO(checked);
  CHECK(checked == 0);
  CHECK(checked.out + checked.err == "");
}

// How many series a query has.
size_t Series(const std::string& prometheus, const std::string& query) {
  httplib::Client client("http://" + prometheus);
  const auto reply = client.Get("/api/v1/query", httplib::Params{{"query", query}}, {});
  if (!reply) return 0;
  const auto answer = nlohmann::json::parse(reply->body, nullptr, /*allow_exceptions=*/false);
  INFO(reply->body);
  if (!answer.is_object() || answer.value("status", "") != "success") return 0;  // not ready yet
  return answer["data"]["result"].size();
}

}  // namespace

TEST_CASE("names follow Prometheus' conventions, and the page has all") {
  const auto page = base::ReadFile(std::string(WARPSMITH_SOURCE) + "/docs/reference/metrics.md");
  REQUIRE(page.status() == absl::OkStatus());
  std::set<std::string> names;
  for (const auto& table : {telemetry::ProcessMetrics(), planner::PlannerMetricsTable(),
                            daemon::WorkerMetricsTable()}) {
    INFO(telemetry::Markdown(table));  // what the page has to have
    CHECK_THAT(*page, Contains("\n\n" + telemetry::Markdown(table) + "\n"));
    for (const telemetry::Metric& metric : table) {
      const std::string name = metric.name;
      INFO(name);
      const bool total = name.size() > 6 && name.substr(name.size() - 6) == "_total";
      CHECK(total == (metric.kind == telemetry::MetricKind::kCounter));
      const bool ours = name.rfind("warpsmith_", 0) == 0 || name.rfind("process_", 0) == 0;
      CHECK(ours);
      if (metric.kind == telemetry::MetricKind::kHistogram) CHECK_THAT(name, Contains("_seconds"));
      names.insert(name);
    }
  }
  CHECK(names.size() > 40);
}

TEST_CASE("Prometheus finds a fleet's workers by its planner, and all that is counted") {
  const Folder folder;
  const std::string dir = folder.path() + "/lab";
  Process planner({kBin + "/warpsmith-planner", "--dir", dir, "--listen", "127.0.0.1:0",
                   "--listen-http", "127.0.0.1:0"});
  REQUIRE(Eventually(absl::Seconds(20), [&] { return !Line(dir + "/planner.http").empty(); }));
  const std::string http = Line(dir + "/planner.http");
  CHECK(Get(http, "/healthz") == "leads\n");
  support::NvmlScript card(folder.path() + "/card");
  card.Set({{"sm_clock", 1980},
            {"memory_clock", 3201},
            {"power", 82'000},
            {"power_limit", 700'000},
            {"temperature", 36},
            {"uncorrectable", 0}});
  const Finished health = RunToEnd({kBin + "/warpsmith", "health", "--http", http});
  INFO(health);
  CHECK(health == 0);
  CHECK(health.out == "leads\n");
  std::vector<std::unique_ptr<Process>> workers;
  for (const char* name : {"w0", "w1"}) {
    workers.push_back(std::make_unique<Process>(std::vector<std::string>{
        "/usr/bin/env", absl::StrCat(support::NvmlScript::kVariable, "=", card.path()),
        kBin + "/warpsmith-worker", "--nvml", support::NvmlScript::library(), "--dir", dir,
        "--device", "host", "--name", name, "--compile-jobs", "1", "--label", "rack=3",
        "--listen-http", "127.0.0.1:0"}));
  }
  const int port = support::FreePort();
  const std::string prometheus = absl::StrCat("127.0.0.1:", port);
  std::ofstream(folder.path() + "/prometheus.yml") << absl::StrCat(
      "global: {scrape_interval: 1s}\n"
      "scrape_configs:\n"
      "  - job_name: warpsmith-planner\n"
      "    static_configs: [{targets: ['",
      http,
      "']}]\n"
      "  - job_name: warpsmith-workers\n"
      "    http_sd_configs: [{url: 'http://",
      http, "/workers', refresh_interval: 1s}]\n");
  Process server({"/usr/bin/prometheus", "--config.file", folder.path() + "/prometheus.yml",
                  "--storage.tsdb.path", folder.path() + "/tsdb", "--web.listen-address",
                  prometheus, "--log.level", "warn"});
  const std::string set = WriteSmallSet(folder.path());
  Finished submitted = RunToEnd(
      {kBin + "/warpsmith", "--dir", dir, "submit", set, "--arch", "host", "--seconds", "3"});
  INFO(submitted);
  REQUIRE(submitted == 0);
  const bool seen = Eventually(absl::Minutes(2), [&] {
    return Series(prometheus, "warpsmith_runs{state=\"done\"} == 1") == 1;
  });
  INFO(planner.Errors() << server.Errors());
  REQUIRE(seen);
  CHECK(Series(prometheus, "up{job=\"warpsmith-workers\",label_rack=\"3\"} == 1") == 2);
  CHECK(Series(prometheus, "warpsmith_worker_info{worker=\"w0\",arch=\"host\"}") == 1);

  // Everything that is in the tables is told by a fleet that has worked, but for what needs
  // certificates; and nothing else.
  const std::string of_planner = Get(http, "/metrics");
  CheckText(folder.path(), of_planner);
  const auto targets = nlohmann::json::parse(Get(http, "/workers"));
  REQUIRE(targets.size() == 2);
  const std::string of_worker = Get(targets[0]["targets"][0], "/metrics");
  CheckText(folder.path(), of_worker);
  const auto check = [](absl::Span<const telemetry::Metric> table, const std::string& text) {
    std::set<std::string> names = NamesIn(text);
    for (const auto& part : {telemetry::ProcessMetrics(), table}) {
      for (const telemetry::Metric& metric : part) {
        INFO(metric.name);
        const bool certificate = absl::StrContains(metric.name, "certificate");
        CHECK((names.erase(metric.name) == 1 || certificate));
      }
    }
    CHECK(names == std::set<std::string>());
  };
  check(planner::PlannerMetricsTable(), of_planner);
  check(daemon::WorkerMetricsTable(), of_worker);
  // What workers count and what the planner counts is the same.
  const auto sum = [&](const std::string& query) { return Series(prometheus, query); };
  CHECK(Eventually(absl::Seconds(20), [&] {
    return sum("sum(warpsmith_worker_trials_total) == sum(warpsmith_trials_recorded_total)") == 1;
  }));
  CHECK(sum("sum(warpsmith_worker_phase_seconds_total{phase=\"search\"}) > 1") == 1);
  // Two splits of the same time, of which every part has some where there was work.
  CHECK(sum("abs(sum by (instance) (warpsmith_worker_activity_seconds_total) - "
            "sum by (instance) (warpsmith_worker_phase_seconds_total)) < 1e-6") == 2);
  CHECK(
      sum("sum by (activity) (warpsmith_worker_activity_seconds_total{activity!=\"wait\"}) > 0") ==
      4);
  CHECK(sum("warpsmith_run_expected_ratio >= warpsmith_run_speedup_ratio") == 1);
  CHECK(sum("warpsmith_run_expected_ratio <= warpsmith_run_limit_ratio") == 1);
  CHECK(sum("warpsmith_disk_available_bytes <= warpsmith_disk_size_bytes") == 3);
  for (const auto& worker : workers) worker->Signal(SIGTERM);
  for (const auto& worker : workers) CHECK(worker->Wait(absl::Seconds(30)) == 0);
  planner.Signal(SIGTERM);
  CHECK(planner.Wait(absl::Seconds(30)) == 0);
  CHECK_FALSE(base::ReadFile(dir + "/planner.http").ok());
}

}  // namespace warpsmith::e2e
