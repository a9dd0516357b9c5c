#include "planner/service/log.h"

#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <catch2/catch.hpp>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "planner/core/core.h"
#include "planner/core/testing.h"

namespace warpsmith::planner {
namespace {

// What a core decides, as the log has it.
class Told {
 public:
  Told() {
    auto logger = std::make_shared<spdlog::logger>(
        "", std::make_shared<spdlog::sinks::ostream_sink_mt>(log_));
    logger->set_pattern("%l %v");
    logger->set_level(spdlog::level::debug);
    spdlog::set_default_logger(std::move(logger));
  }
  ~Told() { spdlog::set_default_logger(before_); }

  // Its lines, with ids of the store taken out.
  template <typename Command>
  std::vector<std::string> By(const Command& command) {
    log_.str("");
    auto outcome = core_.Handle(command, {now_ms, now_ms});
    INFO(outcome.reply.status().ToString());
    REQUIRE(outcome.reply.ok());
    if constexpr (std::is_same_v<Command, Synchronize>) {
      session = outcome.reply->session_id;
      if (!outcome.reply->start.empty()) grant = outcome.reply->start[0];
    }
    TellDecided(outcome.events, core_.state());
    return absl::StrSplit(log_.str(), '\n', absl::SkipEmpty());
  }
  const Core& core() const { return core_; }

  int64_t now_ms = 0;
  std::string session;
  Grant grant;

 private:
  Core core_{CoreOptions{}};
  std::ostringstream log_;
  const std::shared_ptr<spdlog::logger> before_ = spdlog::default_logger();
};

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("what is decided is told once, with what it was decided by") {
  Told told;
  Submit submit = testing::SubmitOf({"a", "b"});
  submit.submitter = "ann";
  submit.priority = 3;
  CHECK(told.By(submit) == Lines{"info run r1 is submitted: set, 2 tasks, by ann"});
  CHECK(told.By(testing::SyncOf("w0", "")) == Lines{"info worker w0 joins: host, "});
  const Lines granted = told.By(testing::SyncOf("w0", told.session));
  const std::string lease = told.grant.lease_id;
  CHECK(granted == Lines{"info lease " + lease +
                         " goes to w0 for 28 s: the turn of ann; priority 3; slice 1, of which "
                         "0.0495 in log speedup a second is expected"});
  // What is granted has the place of its event in the log, also when it is said again.
  CHECK(told.grant.revision == told.core().state().revision());
  CHECK(told.grant.why.find("the turn of ann") == 0);
  const Grant first = std::exchange(told.grant, Grant());
  CHECK(told.By(testing::SyncOf("w0", told.session)).empty());
  CHECK(told.grant.revision == first.revision);
  CHECK(told.grant.why == first.why);
  // It brings a kernel, ends the lease, and goes on with the task, or not.
  Synchronize ends = testing::SyncOf("w0", told.session);
  ends.leases = {testing::StatusOf(first, 28, /*finished=*/true)};
  ends.results = {testing::ResultOf(first, lease + "/7", 2.5)};
  const Lines ended = told.By(ends);
  REQUIRE(ended.size() == 3);
  CHECK(ended[0] ==
        "info task r1/a@host has a better kernel, " + lease + "/7: 40 us, 2.5 times the baseline");
  CHECK(ended[1].rfind("info lease " + lease + " of w0 ", 0) == 0);
  CHECK(ended[2].find("info lease r1/b@host#1") == 0);
  // It falls silent.
  told.now_ms = 3'600'000;
  const Lines lost = told.By(Tick{});
  REQUIRE(lost.size() == 2);
  CHECK(lost[0].rfind(
            "warning lease " + told.grant.lease_id + " of w0 is lost, unheard: worker w0: ", 0) ==
        0);
  CHECK(lost[1].rfind("warning worker w0 is lost: ", 0) == 0);
}

TEST_CASE("a run is over once, however many of its tasks end together") {
  Told told;
  told.By(testing::SubmitOf({"a", "b", "c"}));
  CHECK(told.By(SetTask{"r1/b@host", v1::HELD, "no\nmore", ""}) ==
        Lines{"info task r1/b@host is held: no", "more"});  // the sink of this test escapes nothing
  CHECK(told.By(CancelRun{"r1", "", ""}) ==
        Lines{"info task r1/a@host is cancelled: cancelled by a person",
              "info task r1/b@host is cancelled: cancelled by a person",
              "info task r1/c@host is cancelled: cancelled by a person",
              "info run r1 is over: 3 tasks, 0 alarms"});
  CHECK(told.By(SetTask{"r1/a@host", v1::QUEUED, "after all", ""}) ==
        Lines{"info task r1/a@host is queued: after all"});
}

TEST_CASE("a run's architecture and its priority are told, each by its own name") {
  Told told;
  told.By(testing::SubmitOf({"a"}, ""));
  CHECK(told.By(SetPriority{"r1", -7, "no hurry", ""}) ==
        Lines{"info run r1 has the priority -7 from here on: no hurry"});
  CHECK(told.By(SetPriority{"r1", -7, "no hurry", ""}).empty());
  CHECK(told.By(SetPriority{"r1", 0, "", ""}) ==
        Lines{"info run r1 has the priority 0 from here on"});
  told.By(testing::SyncOf("w0", ""));
  const Lines bound = told.By(testing::SyncOf("w0", told.session));
  REQUIRE(bound.size() == 2);
  CHECK(bound[0] == "info run r1 is for host");
}

TEST_CASE("no two events of the table have a name") {
  std::set<std::string> names;
  for (const telemetry::LogEvent& event : PlannerLogTable()) CHECK(names.insert(event.name).second);
  CHECK(names.size() > 30);
}

}  // namespace warpsmith::planner
