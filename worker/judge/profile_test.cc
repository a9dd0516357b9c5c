// What is told of a candidate beside its verdict, and what goes wrong in that.
#include <sys/socket.h>

#include "absl/strings/match.h"
#include "common/base/clock.h"
#include "worker/judge/channel.h"
#include "worker/judge/court.h"
#include "worker/judge/server.h"

namespace warpsmith::judge {
namespace {

// The host device, whose profiling fails as the test wants.
class FailingProfile : public HostDevice {
 public:
  absl::Status launches, counters;  // how the next call fails, if it does

  absl::StatusOr<std::vector<double>> TimeLaunches(Program& program,
                                                   absl::Duration limit) override {
    return launches.ok() ? HostDevice::TimeLaunches(program, limit) : launches;
  }
  absl::StatusOr<std::vector<std::optional<v1::Counters>>> Count(Program& program,
                                                                 absl::Duration limit) override {
    if (!counters.ok()) return counters;
    return HostDevice::Count(program, limit);
  }
};

TEST_CASE("what is accepted says where its time goes") {
  Options options;
  options.counter_share = 1e9;
  Court court(options);
  court.Open("gate");
  const v1::Plan plan = HonestPlan("gate", kWork);
  const v1::JudgeVerdict verdict = court.Evaluate({plan});
  REQUIRE(verdict.verdict() == v1::ACCEPTED);
  const v1::Profile& profile = verdict.profile();
  INFO(profile.ShortDebugString());
  int launches = 0;
  for (const v1::Step& step : plan.steps()) {
    if (!step.has_launch()) continue;
    REQUIRE(launches < profile.kernels_size());
    CHECK(profile.kernels(launches).entry() == step.launch().entry());
    CHECK(profile.kernels(launches).us() > 0);
    CHECK(profile.kernels(launches).workload() == 0);
    CHECK_FALSE(profile.kernels(launches).has_counters());
    ++launches;
  }
  CHECK(profile.kernels_size() == launches);
  CHECK(profile.times_by() == "processor time");
  CHECK(profile.counters_by().empty());
  CHECK(profile.counters_missing() == "on the host nothing is counted");
  // What is not accepted says nothing, and the last incumbent says it once more.
  CHECK_FALSE(court.Evaluate({HonestPlan("gate", 4 * kWork)}).has_profile());
  const auto final = court.judge.Finalise();
  REQUIRE(final.ok());
  CHECK(final->verdict().profile().kernels_size() == launches);
}

TEST_CASE("what goes wrong in profiling says nothing of the candidate") {
  Options options;
  options.counter_share = 1e9;
  options.final_pairs = 1;  // nothing is to come of how long it takes
  auto owned = std::make_unique<FailingProfile>();
  FailingProfile& device = *owned;
  Court court(options, nullptr, std::move(owned));
  court.Open("gate");
  const v1::Plan plan = HonestPlan("gate", kWork);
  SECTION("there are no counters") {
    device.counters = absl::InternalError("CUPTI wants 99 passes");
    const Judgement judged = court.Judged({plan});
    INFO(judged.verdict.reason());
    CHECK(judged.verdict.verdict() == v1::ACCEPTED);
    CHECK(judged.verdict.profile().kernels_size() > 0);
    CHECK(judged.verdict.profile().counters_missing() == "CUPTI wants 99 passes");
    CHECK(court.judge.Finalise().ok());
    CHECK_FALSE(court.judge.lost());
  }
  SECTION("nothing can be told of its kernels") {
    device.launches = absl::InternalError("no events");
    const Judgement judged = court.Judged({plan});
    INFO(judged.verdict.reason());
    CHECK(judged.verdict.verdict() == v1::ACCEPTED);
    CHECK(absl::StrContains(judged.verdict.profile().counters_missing(), "no events"));
    CHECK_FALSE(judged.fatal);
    const auto final = court.judge.Finalise();
    REQUIRE(final.ok());
    CHECK(final->verdict().verdict() == v1::ACCEPTED);
    CHECK(final->verdict().times().graph_us() > 0);
    CHECK_FALSE(court.judge.lost());
  }
  SECTION("it loses the device") {
    device.counters = GENERATE(absl::AbortedError("CUPTI RangeDisable"),
                               absl::DeadlineExceededError("the plan ran longer than 1s"));
    const Judgement judged = court.Judged({plan});
    CHECK(judged.verdict.verdict() == v1::JUDGE_FAILED);
    CHECK(absl::StrContains(judged.verdict.reason(), std::string(device.counters.message())));
    CHECK(judged.fatal);
    CHECK(court.judge.lost());
  }
  SECTION("it loses the device at the end, and the final is whole") {
    REQUIRE(court.Evaluate({plan}).verdict() == v1::ACCEPTED);
    device.counters = absl::AbortedError("CUPTI RangeDisable");
    const auto final = court.judge.Finalise();
    REQUIRE(final.ok());
    CHECK(final->verdict().verdict() == v1::ACCEPTED);
    CHECK(final->verdict().times().graph_us() > 0);
    CHECK(final->verdict().profile().kernels_size() > 0);
    CHECK(absl::StrContains(final->verdict().profile().counters_missing(), "CUPTI RangeDisable"));
    CHECK(court.judge.lost());
  }
}

TEST_CASE("a final that lost the device is answered before the judge ends") {
  Options options;
  options.counter_share = 0;  // counters at the end alone
  options.final_pairs = 1;
  auto owned = std::make_unique<FailingProfile>();
  owned->counters = absl::AbortedError("CUPTI RangeDisable");
  Court court(options, nullptr, std::move(owned));
  int ends[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  Channel worker(ends[0]), judge(ends[1]);
  v1::JudgeRequest open, evaluate, finalise;
  *open.mutable_open()->mutable_problem() = CheatProblem("gate");
  *evaluate.mutable_evaluate()->add_plans() = court.Compile(HonestPlan("gate", kWork));
  finalise.mutable_finalise();
  for (const v1::JudgeRequest& request : {open, evaluate, finalise}) {
    REQUIRE(worker.Send(request).ok());
  }
  CHECK(Serve(judge, court.judge) == kExitDeviceLost);
  v1::JudgeReply opened, judged, last;
  for (v1::JudgeReply* reply : {&opened, &judged, &last}) {
    REQUIRE(worker.Receive(reply, base::Now() + absl::Seconds(10)).ok());
  }
  CHECK_FALSE(judged.exiting());
  CHECK(judged.verdict().verdict() == v1::ACCEPTED);
  CHECK(last.exiting());
  CHECK(last.error().empty());
  CHECK(last.final().verdict().verdict() == v1::ACCEPTED);
}

TEST_CASE("counters are not read where that costs too much, but for the last incumbent") {
  Options options;
  options.counter_share = 0;
  Court court(options);
  court.Open("gate");
  const v1::JudgeVerdict verdict = court.Evaluate({HonestPlan("gate", kWork)});
  REQUIRE(verdict.verdict() == v1::ACCEPTED);
  CHECK(absl::StrContains(verdict.profile().counters_missing(), "more than 0 % of"));
  const auto final = court.judge.Finalise();
  REQUIRE(final.ok());
  CHECK(final->verdict().profile().counters_missing() == "on the host nothing is counted");
}

}  // namespace
}  // namespace warpsmith::judge
