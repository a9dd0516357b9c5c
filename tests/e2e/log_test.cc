// What the programs tell their logs, for programs to read: every line, and back from a trial to
// what decided it.
#include "common/security/log.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/file.h"
#include "common/rpc/grpc_log.h"
#include "planner/service/log.h"
#include "tests/e2e/fleet.h"
#include "tests/e2e/planners.h"
#include "tests/e2e/process.h"
#include "worker/daemon/log.h"

namespace warpsmith::e2e {
namespace {

using Catch::Contains;
using nlohmann::json;
using telemetry::LogEvent;
using Tables = std::vector<absl::Span<const LogEvent>>;

const std::string kBin = WARPSMITH_BIN;

Tables TablesOf(const std::string& program) {
  return {telemetry::LogTable(), rpc::GrpcLogTable(), security::SecurityLogTable(),
          program == "planner" ? planner::PlannerLogTable() : daemon::WorkerLogTable()};
}

std::set<std::string> FieldsOf(const LogEvent& event) {
  std::set<std::string> fields;
  const std::string message = event.message;
  static const std::regex kField("\\{([a-z_]+)\\}");
  for (std::sregex_iterator each(message.begin(), message.end(), kField), end; each != end;
       ++each) {
    fields.insert((*each)[1]);
  }
  for (const absl::string_view more : absl::StrSplit(event.more, ", ", absl::SkipEmpty())) {
    fields.emplace(more);
  }
  return fields;
}

// Each line of what a program wrote: it has what every line has, and what its event's row says.
std::vector<json> Lines(const std::string& program, const std::string& written) {
  static const std::regex kTime(R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)");
  static const std::set<std::string> kLevels = {"trace",   "debug", "info",
                                                "warning", "error", "critical"};
  std::map<std::string, std::set<std::string>> events = {{"note", {}}};
  for (const auto& table : TablesOf(program)) {
    for (const LogEvent& event : table) events[event.name] = FieldsOf(event);
  }
  std::vector<json> lines;
  for (const absl::string_view text : absl::StrSplit(written, '\n', absl::SkipEmpty())) {
    INFO(std::string(text));
    json line = json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
    REQUIRE(line.is_object());
    CHECK(std::regex_match(line.value("time", ""), kTime));
    CHECK(kLevels.count(line.value("level", "")) == 1);
    CHECK(line.value("program", "") == program);
    CHECK(line["message"].is_string());
    REQUIRE(events.count(line.value("event", "")) == 1);
    std::set<std::string> fields = events[line["event"]], keys;
    for (const char* each : {"time", "level", "program", "message", "event"}) fields.insert(each);
    if (program == "worker") fields.insert("worker");
    for (const auto& [key, value] : line.items()) keys.insert(key);
    CHECK(keys == fields);
    lines.push_back(std::move(line));
  }
  return lines;
}

// Those of an event whose fields have these values.
std::vector<json> Find(const std::vector<json>& lines, const std::string& event,
                       const json& fields = json::object()) {
  std::vector<json> found;
  for (const json& line : lines) {
    bool is = line["event"] == event;
    for (const auto& [key, value] : fields.items()) {
      is = is && line.contains(key) && line[key] == value;
    }
    if (is) found.push_back(line);
  }
  return found;
}

// The planner and a worker, that tell all that they tell.
struct Programs {
  Programs()
      : planner({kBin + "/warpsmith-planner", "--dir", dir, "--log-format", "json", "--log-level",
                 "debug", "--log-limit", "0"}),
        worker({kBin + "/warpsmith-worker", "--dir", dir, "--device", "host", "--name", "w0",
                "--compile-jobs", "1", "--log-format", "json", "--log-level", "debug",
                "--log-limit", "0"}) {}

  Finished Warpsmith(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {kBin + "/warpsmith", "--dir", dir});
    return RunToEnd(arguments, absl::Seconds(120));
  }

  const Folder folder;
  const std::string dir = folder.path() + "/lab";
  Process planner, worker;
};

std::string WriteSwish(const std::string& folder) {
  const std::string path = folder + "/swish.json";
  REQUIRE(base::WriteFileAtomically(path, R"json({
  "name": "small", "version": "1",
  "problems": [{
    "name": "swish", "description": "x times its logistic function.",
    "graph": ["input x: f32[R, C] ~ normal",
              "y: f32[r: R, c: C] = x[r, c] / (1 + exp(-x[r, c]))", "output y"],
    "workloads": [{"name": "default", "dims": {"R": 64, "C": 1000}}]}]
})json")
              .ok());
  return path;
}

}  // namespace

TEST_CASE("the page of the log has all events, and the tables are right") {
  const auto page = base::ReadFile(std::string(WARPSMITH_SOURCE) + "/docs/reference/log.md");
  REQUIRE(page.status() == absl::OkStatus());
  for (const auto& table :
       {telemetry::LogTable(), rpc::GrpcLogTable(), security::SecurityLogTable(),
        planner::PlannerLogTable(), daemon::WorkerLogTable()}) {
    INFO(telemetry::Markdown(table));  // what the page has to have
    CHECK_THAT(*page, Contains("\n\n" + telemetry::Markdown(table) + "\n"));
    for (const LogEvent& event : table) {
      INFO(event.name);
      CHECK(std::regex_match(event.name, std::regex("[a-z]+(_[a-z]+)*")));
      // Braces name fields and brackets hold parts, and nothing else.
      const std::string message = event.message;
      CHECK(std::regex_match(
          message, std::regex(R"(([^{}\[\]]|\{[a-z_]+\}|\[([^{}\[\]]|\{[a-z_]+\})+\])+)")));
      for (const std::string& field : FieldsOf(event)) {
        CHECK(std::set<std::string>{"time", "level", "program", "event", "message"}.count(field) ==
              0);
      }
    }
  }
}

TEST_CASE("a trial leads back to the planner's decision, by what the programs log") {
  Programs programs;
  const std::string set = WriteSwish(programs.folder.path());
  REQUIRE(Eventually(absl::Seconds(60), [&] {
    return programs.Warpsmith({"workers", "-o", "json"}).out.find("w0") != std::string::npos;
  }));
  const Finished submitted =
      programs.Warpsmith({"submit", set, "--arch", "host", "--seconds", "4"});
  REQUIRE(submitted == 0);
  // A judge that is killed at its work, and whose words come by the worker.
  std::vector<pid_t> judges;
  REQUIRE(Eventually(absl::Seconds(60), [&] {
    judges = Descendants(programs.worker.pid(), "warpsmith-judge");
    return !judges.empty();
  }));
  std::error_code error;
  CHECK_THAT(
      std::filesystem::read_symlink(absl::StrCat("/proc/", judges[0], "/fd/2"), error).string(),
      Contains("socket:"));
  kill(judges[0], SIGKILL);
  REQUIRE(programs.Warpsmith({"watch"}) == 0);
  REQUIRE(programs.Warpsmith({"hold", "w0", "--reason", "new\ndriver \x1b[31m\"'"}) == 0);
  const Finished shown = programs.Warpsmith({"show", "swish", "-o", "json"});
  REQUIRE(shown == 0);
  const Finished leases = programs.Warpsmith({"show", "swish", "--leases"});
  programs.worker.Signal(SIGTERM);
  const Finished worker = programs.worker.Wait(absl::Seconds(60));
  CHECK(worker == 0);
  programs.planner.Signal(SIGTERM);
  const Finished planner = programs.planner.Wait(absl::Seconds(60));
  CHECK(planner == 0);
  CHECK(worker.out + planner.out == "");
  const std::vector<json> told = Lines("planner", planner.err), done = Lines("worker", worker.err);

  // What is known of the incumbent's trial leads to its lease.
  const json task = json::parse(shown.out);
  const json& trials = task["trials"]["trials"];
  const std::string id = task["incumbent"]["trial"]["id"], lease = id.substr(0, id.rfind('/'));
  json trial, first;
  for (const json& each : trials) {
    if (each["id"] == id) trial = each;
    const bool is_of_lease = each["id"].get<std::string>().rfind(lease + "/", 0) == 0;
    if (is_of_lease && !each.value("lease_why", "").empty()) first = each;
  }
  INFO(id << "\n" << planner.err << worker.err);
  REQUIRE(trial.is_object());
  REQUIRE(first.is_object());
  CHECK(trial["worker_id"] == "w0");
  const int64_t revision = std::stoll(trial["lease_revision"].get<std::string>());
  CHECK(revision > 0);
  CHECK_THAT(leases.out, Contains(lease) && Contains(first["lease_why"].get<std::string>()));
  // The planner granted it, and says why.
  const json ids = {{"run", "r1"}, {"task", task["task"]["id"]}, {"lease", lease}};
  const auto with = [&](json more) {
    more.update(ids);
    return more;
  };
  const auto granted =
      Find(told, "lease_granted", with({{"worker", "w0"}, {"revision", revision}}));
  REQUIRE(granted.size() == 1);
  CHECK(granted[0]["why"] == first["lease_why"]);
  CHECK_THAT(granted[0]["why"].get<std::string>(), Contains("the turn of r1; priority 0; slice "));
  // The worker began it, made the trial, and found it the best.
  CHECK(Find(done, "lease_begun", with({{"revision", revision}, {"why", granted[0]["why"]}}))
            .size() == 1);
  const auto made = Find(done, "trial", with({{"trial", id}, {"verdict", "accepted"}}));
  REQUIRE(made.size() == 1);
  CHECK(made[0]["specialist"] == trial.value("specialist", ""));
  CHECK(Find(done, "incumbent_found", with({{"trial", id}})).size() >= 1);
  CHECK(Find(told, "incumbent_accepted", with({{"trial", id}, {"worker", "w0"}})).size() >= 1);
  CHECK(Find(done, "lease_done", ids).size() == 1);
  const auto ended =
      Find(told, "lease_ended", with({{"worker", "w0"}, {"fence", granted[0]["fence"]}}));
  REQUIRE(ended.size() == 1);
  CHECK(ended[0]["revision"] > granted[0]["revision"]);

  // And what happened around it.
  const auto died = Find(done, "judge_died");
  REQUIRE(died.size() >= 1);
  CHECK_THAT(died[0]["reason"].get<std::string>(), Contains("signal 9"));
  CHECK_THAT(died[0]["lease"].get<std::string>(), Contains("r1/swish@host#"));
  CHECK(Find(told, "run_submitted", {{"run", "r1"}, {"name", "small"}, {"tasks", 1}}).size() == 1);
  CHECK(Find(told, "task_converged", {{"run", "r1"}}).size() == 1);
  CHECK(Find(told, "run_ended", {{"run", "r1"}, {"tasks", 1}}).size() == 1);
  CHECK(Find(told, "worker_joined", {{"worker", "w0"}, {"arch", "host"}}).size() == 1);
  const auto held = Find(told, "worker_held", {{"worker", "w0"}});
  REQUIRE(held.size() == 1);
  CHECK(held[0]["reason"] == "new\ndriver \x1b[31m\"'");
  CHECK(Find(told, "worker_says", {{"worker", "w0"}, {"says", "is leaving"}}).size() == 1);
  CHECK(Find(told, "worker_left", {{"worker", "w0"}}).size() == 1);
  CHECK(Find(told, "checkpoint").size() >= 1);
  CHECK(Find(done, "draining").size() == 1);
  CHECK(told.back()["event"] == "ended");
  CHECK(done.back()["event"] == "ended");
  // Revisions are the log's, each once.
  std::set<int64_t> revisions;
  for (const json& line : told) {
    if (!line.contains("fence")) continue;
    CHECK(revisions.insert(line["revision"].get<int64_t>()).second);
  }
}

TEST_CASE("text forges no line, and the limit says what it left out") {
  const Folder folder;
  Process planner({kBin + "/warpsmith-planner", "--dir", folder.path(), "--log-limit", "1"});
  const auto warpsmith = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {kBin + "/warpsmith", "--dir", folder.path()});
    return RunToEnd(arguments);
  };
  REQUIRE(Eventually(absl::Seconds(20), [&] { return warpsmith({"runs"}) == 0; }));
  const std::string set = std::string(WARPSMITH_SOURCE) + "/problems/starter.json";
  REQUIRE(warpsmith({"submit", set, "--arch", "host"}) == 0);
  const std::string forged = "2030-01-01T00:00:00.000Z error planner: forged";
  REQUIRE(warpsmith({"hold", "swish:small", "--reason", "a\r\n" + forged + "\x1b[2J"}) == 0);
  // Some sixty tasks at once, and there is room for ten lines.
  REQUIRE(warpsmith({"cancel", "r1"}) == 0);
  REQUIRE(Eventually(absl::Seconds(30), [&] {
    return planner.Errors().find("more lines 'task_cancelled' were left out") != std::string::npos;
  }));
  planner.Signal(SIGTERM);
  const Finished ended = planner.Wait(absl::Seconds(30));
  CHECK(ended == 0);
  INFO(ended.err);
  int cancelled = 0;
  static const std::regex kLine(
      R"(20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (info|warning|error) planner: [ -~]+)");
  for (const absl::string_view line : absl::StrSplit(ended.err, '\n', absl::SkipEmpty())) {
    CHECK(std::regex_match(std::string(line), kLine));
    CHECK(std::string(line).rfind("2030", 0) == std::string::npos);
    cancelled += std::string(line).find(" is cancelled: ") != std::string::npos;
  }
  CHECK_THAT(ended.err, Contains("is held: a\\r\\n" + forged + "\\x1b[2J (run=r1 revision="));
  CHECK(cancelled >= 10);
  CHECK(cancelled < 50);
  CHECK(ended.err.find('\x1b') == std::string::npos);
}

TEST_CASE("who leads, and who did, is in the planners' logs") {
  REQUIRE(setenv("WARPSMITH_LOG_FORMAT", "json", /*overwrite=*/1) == 0);
  Planners planners(kBin, 2, 1);
  unsetenv("WARPSMITH_LOG_FORMAT");
  REQUIRE(planners.Ready());
  const int old_leader = planners.Leader();
  planners.Signal(old_leader, SIGSTOP);
  REQUIRE(Eventually(absl::Seconds(30), [&] {
    const int leader = planners.Leader();
    return leader >= 0 && leader != old_leader && planners.List().ok();
  }));
  planners.Signal(old_leader, SIGCONT);
  // It begins anew as the same process, whose log goes on.
  const auto told = [&](int planner, const std::string& event) {
    const std::string written = planners.Errors(planner);
    // The last line may be on its way.
    return Find(Lines("planner", written.substr(0, written.rfind('\n') + 1)), event);
  };
  REQUIRE(Eventually(absl::Seconds(30), [&] { return told(old_leader, "follows").size() == 1; }));
  const auto before = told(old_leader, "leads"), after = told(1 - old_leader, "leads");
  REQUIRE(before.size() == 1);
  REQUIRE(after.size() == 1);
  CHECK(after[0]["epoch"] > before[0]["epoch"]);
  const auto follows = told(old_leader, "follows");
  CHECK(follows[0]["epoch"] == after[0]["epoch"]);
  CHECK_THAT(*planners.Addresses(), Contains(follows[0]["leader"].get<std::string>()));
  const auto deposed = told(old_leader, "deposed");
  REQUIRE(deposed.size() == 1);
  CHECK_THAT(deposed[0]["message"].get<std::string>(), Contains("begins anew"));
  CHECK(planners.Down() == std::vector<int>{0, 0});
  const auto resigned = told(1 - old_leader, "resigned");
  REQUIRE(resigned.size() == 1);
  CHECK(resigned[0]["epoch"] == after[0]["epoch"]);
}

}  // namespace warpsmith::e2e
