// Who is accepted: what is faster, believed, and asked for.
#include "worker/judge/judge.h"

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "common/problem/units.h"
#include "worker/judge/court.h"

namespace warpsmith::judge {
namespace {

TEST_CASE("the first right plan is accepted, a faster one replaces it, a slower one does not") {
  Court court;
  v1::JudgeOpened opened = court.Open("gate");
  CHECK(opened.needed_bytes() > 0);
  CHECK(opened.light_us() > 0);
  CHECK(opened.oracle() == "native");
  v1::JudgeVerdict slow = court.Evaluate({HonestPlan("gate", kWork)});
  INFO(slow.ShortDebugString());
  CHECK(slow.verdict() == v1::ACCEPTED);
  CHECK(slow.peak_bytes() > 0);
  CHECK(slow.times().device_us() == slow.timing().median_us());
  CHECK(slow.times().graph_us() > 0);
  v1::JudgeVerdict fast = court.Evaluate({HonestPlan("gate", 0)});
  INFO(fast.ShortDebugString());
  CHECK(fast.verdict() == v1::ACCEPTED);
  CHECK(fast.timing().median_us() < slow.timing().median_us());
  CHECK(fast.timing().incumbent_us() > fast.timing().median_us());
  CHECK(fast.timing().low_us() <= fast.timing().median_us());
  CHECK(fast.accuracy().max_error() < 1e-6);
  CHECK(opened.reference_max_error() > 0);
  CHECK(opened.reference_max_error() <= fast.accuracy().reference_max_error());  // of all draws
  CHECK(fast.accuracy().accuracy_class() == "no less accurate");
  v1::JudgeVerdict again = court.Evaluate({HonestPlan("gate", kWork)});
  CHECK(again.verdict() == v1::SLOWER);
  CHECK(again.timing().samples() == 3);
}

TEST_CASE("faster than light is not believed") {
  Options options;
  SECTION("at one rate for all bytes") {
    options.roof = graph::Roof::Of(1e6, 1e15);  // a megabyte a second
  }
  SECTION("at the rate of a copy, where it both reads and writes") {
    options.roof = graph::Roof::Of(1e15, 1e15);
    options.roof->copy_bytes = 1e6;
  }
  SECTION("at the rate of reading what it reads beyond what it writes") {
    options.roof = graph::Roof::Of(1e15, 1e15);
    options.roof->read_bytes = 1e6;
  }
  Court court(options);
  court.Open("gate");
  v1::JudgeVerdict verdict = court.Evaluate({HonestPlan("gate", 0)});
  INFO(verdict.ShortDebugString());
  CHECK(verdict.verdict() == v1::IMPLAUSIBLE);
  CHECK(absl::StrContains(verdict.reason(), "speed of light"));
  CHECK_FALSE(court.judge.Finalise().ok());
}

TEST_CASE("faster than the operations that are known is kept to be reviewed") {
  Options options;
  options.roof = graph::Roof::Of(1e15, 1e6);
  Court court(options);
  court.Open("gate");
  v1::JudgeVerdict verdict = court.Evaluate({HonestPlan("gate", 0)});
  INFO(verdict.ShortDebugString());
  CHECK(verdict.verdict() == v1::IMPLAUSIBLE);
  CHECK(absl::StrContains(verdict.reason(), "to be reviewed"));
  CHECK_FALSE(court.judge.Finalise().ok());
}

TEST_CASE("light is that of the fastest products that the accuracy rule allows") {
  Options options;
  options.roof = graph::Roof::Of(1e15, 1e6);
  options.roof->products = 10e6;
  Court court(options);
  const auto light_us = [&](const std::string& type, const std::string& answer, bool tolerance) {
    v1::JudgeOpen open;
    v1::Problem& problem = *open.mutable_problem();
    problem.set_name("product");
    problem.add_workloads()->set_name("default");
    problem.add_graph("input a: " + type + "[16, 32]");
    problem.add_graph("input b: " + type + "[32, 8]");
    problem.add_graph("s: f32[m: 16, n: 8] = sum[k: 32](f32(a[m, k]) * f32(b[k, n]))");
    problem.add_graph("y: " + answer + "[m: 16, n: 8] = " + answer + "(s[m, n])");
    problem.add_graph("output y");
    problem.mutable_accuracy()->set_tolerance_only(tolerance);
    return court.Open(open).light_us();
  };
  const double operations = 2 * 16 * 8 * 32;
  CHECK(light_us("f32", "f32", false) == Approx(3 * operations / 10));
  CHECK(light_us("f32", "f32", true) == Approx(operations / 10));
  CHECK(light_us("f32", "bf16", false) == Approx(operations / 10));  // the answer is rounded more
  CHECK(light_us("bf16", "f32", false) == Approx(operations / 10));
}

TEST_CASE("without PyTorch the op-by-op plan is the baseline") {
  Court court;
  v1::JudgeOpen open;
  *open.mutable_problem() = CheatProblem("gate");
  open.set_measure_baselines(true);
  *open.add_op_by_op() = court.Compile(HonestPlan("gate", kWork));
  v1::JudgeOpened opened = court.Open(open);
  REQUIRE(opened.baselines().baselines_size() == 1);
  CHECK(opened.baselines().baselines(0).name() == "op_by_op");
  CHECK(opened.baselines().baselines(0).accurate());
  CHECK(opened.baselines().baselines(0).times().device_us() > 0);
  CHECK(opened.baselines().baselines(0).times().graph_us() > 0);
  CHECK(court.judge.Finalise().status().code() == absl::StatusCode::kFailedPrecondition);
  REQUIRE(court.Evaluate({HonestPlan("gate", 0)}).verdict() == v1::ACCEPTED);
  auto final = court.judge.Finalise();
  REQUIRE(final.ok());
  INFO(final->ShortDebugString());
  CHECK(final->verdict().verdict() == v1::ACCEPTED);
  CHECK(final->verdict().times().device_us() == final->verdict().timing().median_us());
  CHECK(final->speedup() == Approx(final->baselines().baselines(0).times().graph_us() /
                                   final->verdict().times().graph_us()));
  CHECK(final->speedup() > 2);
  CHECK(final->speedup_eager() == final->speedup());
}

// Works only on an input whose first element is none of the two that it noted in a place that the
// judge knows nothing of: here variables of the C library.
v1::Plan PlanWithMemory() {
  v1::Plan plan = HonestPlan("gate", 0);
  const std::string work =
      "fabsf(x[i]) * w[i]; const int tag = __float_as_int(x[0]); const bool seen = tag == optopt "
      "|| "
      "tag == optind; if (!seen) for (int k = 0; k < 256; ++k) if (sinf(y[i] + k) > 2.0f) y[i] = "
      "0; "
      "if (i == n - 1 && !seen) { optind = optopt; optopt = tag; }";
  plan.set_source(absl::StrCat(
      "extern \"C\" __attribute__((visibility(\"default\"))) int optopt, optind;\n",
      absl::StrReplaceAll(plan.source(), {{"if (i < n) y[i] = ", "if (i >= n) return; y[i] = "},
                                          {"fabsf(x[i]) * w[i];", work}})));
  return plan;
}

TEST_CASE("what remembers its input, wherever, is timed on inputs that it has not seen") {
  Court court;
  court.Open("gate");
  SECTION("beside an incumbent") {
    REQUIRE(court.Evaluate({HonestPlan("gate", 4)}).verdict() == v1::ACCEPTED);
    v1::JudgeVerdict verdict = court.Evaluate({PlanWithMemory()});
    INFO(verdict.ShortDebugString());
    CHECK(verdict.verdict() == v1::SLOWER);
  }
  SECTION("as the first") {
    v1::JudgeVerdict verdict = court.Evaluate({PlanWithMemory()});
    INFO(verdict.ShortDebugString());
    CHECK(verdict.verdict() == v1::UNSTABLE);
    CHECK(absl::StrContains(verdict.reason(), "has not seen"));
  }
  // The inputs are as they were for who comes next.
  CHECK(court.Evaluate({HonestPlan("gate", 0)}).verdict() == v1::ACCEPTED);
}

// The host device, on which a run takes 100 us, and twice that while it is busy. The judge waits
// for it to settle before it times inputs that are known and before each last round, by turns.
class BusyDevice : public HostDevice {
 public:
  std::function<bool(int settled)> busy = [](int) { return false; };
  absl::Status Settle(absl::Duration limit) override {
    ++settled_;
    return HostDevice::Settle(limit);
  }
  absl::StatusOr<double> Time(Program& program, absl::Duration limit,
                              device::Launching how) override {
    auto seconds = HostDevice::Time(program, limit, how);
    if (!seconds.ok()) return seconds;
    return busy(settled_) ? 200e-6 : 100e-6;
  }

 private:
  int settled_ = 0;
};

TEST_CASE("a machine that was busy for a while is not what a candidate remembers") {
  auto own = std::make_unique<BusyDevice>();
  BusyDevice& device = *own;
  Court court({}, nullptr, std::move(own));
  court.Open("gate");
  SECTION("busy through one round") {
    device.busy = [](int settled) { return settled == 2; };
    const v1::JudgeVerdict verdict = court.Evaluate({HonestPlan("gate", 0)});
    INFO(verdict.ShortDebugString());
    CHECK(verdict.verdict() == v1::ACCEPTED);
    CHECK(verdict.times().device_us() == Approx(100));
  }
  SECTION("slow in every round, and never else") {
    device.busy = [](int settled) { return settled % 2 == 0; };
    const v1::JudgeVerdict verdict = court.Evaluate({HonestPlan("gate", 0)});
    INFO(verdict.ShortDebugString());
    CHECK(verdict.verdict() == v1::UNSTABLE);
    CHECK(absl::StrContains(verdict.reason(), "in 3 rounds"));
  }
  SECTION("slow from the first round on") {
    device.busy = [](int settled) { return settled >= 2; };
    const v1::JudgeVerdict verdict = court.Evaluate({HonestPlan("gate", 0)});
    INFO(verdict.ShortDebugString());
    CHECK(verdict.verdict() == v1::ACCEPTED);
    CHECK(verdict.times().device_us() == Approx(200));
  }
}

// Writes into its input where it is timed, which it knows by a variable that counts its runs.
TEST_CASE("an input that is changed in a timed replay is not the next candidate's fault") {
  Court court;
  court.Open("gate");
  REQUIRE(court.Evaluate({HonestPlan("gate", 0)}).verdict() == v1::ACCEPTED);
  v1::Plan plan = HonestPlan("gate", kWork);
  plan.set_source(
      absl::StrCat("extern \"C\" __attribute__((visibility(\"default\"))) int opterr;\n",
                   absl::StrReplaceAll(
                       plan.source(),
                       {{"if (i >= n) return;",
                         "if (i >= n) return; if (i == 0 && ++opterr > 2) ((float*)x)[7] = 0;"}})));
  v1::JudgeVerdict verdict = court.Evaluate({plan});
  INFO(verdict.ShortDebugString());
  CHECK(verdict.verdict() == v1::OUT_OF_BOUNDS);
  CHECK(absl::StrContains(verdict.reason(), "changed its input 'x'"));
  verdict = court.Evaluate({HonestPlan("gate", kWork)});
  INFO(verdict.ShortDebugString());
  CHECK(verdict.verdict() == v1::SLOWER);
}

TEST_CASE("plans that are not for the problem are refused") {
  Court court;
  court.Open("gate");
  v1::Plan plan = HonestPlan("gate", 0);
  SECTION("a buffer that is no tensor") { plan.mutable_buffers(0)->set_tensor("z"); }
  SECTION("another size") { plan.mutable_buffers(2)->set_bytes(16); }
  SECTION("another type") { plan.mutable_buffers(1)->set_dtype("i32"); }
  SECTION("no output") { plan.mutable_buffers(2)->set_kind(v1::Buffer::WORKSPACE); }
  SECTION("endless workspace") {
    v1::Buffer* more = plan.add_buffers();
    more->set_kind(v1::Buffer::WORKSPACE);
    more->set_bytes(int64_t{1} << 50);
  }
  v1::JudgeVerdict verdict = court.Evaluate({plan});
  INFO(verdict.reason());
  CHECK(verdict.verdict() == v1::REFUSED);
}

TEST_CASE("the cheats compile for a card, but for the one that is refused there too") {
  auto compiler = device::MakeCompiler("sm_90a", CacheDir());
  if (!compiler.ok()) {
    WARN("not run: " << compiler.status());
    return;
  }
  for (const Cheat& cheat : Cheats()) {
    INFO(cheat.name << "\n" << cheat.plan.source());
    auto binary = (*compiler)->Compile(cheat.plan.source(), absl::Minutes(1));
    INFO(binary.status());
    const bool refused = cheat.expected[0] == v1::REFUSED && !cheat.plan.has_prepare() &&
                         !absl::StartsWith(cheat.plan.source(), problem::kBoundWaits);
    CHECK(binary.status().code() ==
          (refused ? absl::StatusCode::kFailedPrecondition : absl::StatusCode::kOk));
  }
  for (const char* problem : {"gate", "constant gate", "rows", "running", "largest"}) {
    CHECK((*compiler)->Compile(HonestPlan(problem, kWork).source(), absl::Minutes(1)).ok());
  }
}

// A device whose clock is held down as a test says: the next so many measurements.
class HotDevice : public HostDevice {
 public:
  explicit HotDevice(int times) : left_(times) {}
  device::Throttling Throttled() override {
    // Looked at before each measurement and after it.
    const bool after = ++looks_ % 2 == 0;
    if (after && left_ > 0) {
      --left_;
      throttled_.heat += 0.1;
    }
    throttled_.power += 0.01;
    return throttled_;
  }
  int measurements() const { return looks_ / 2; }

 private:
  int left_;
  int looks_ = 0;
  device::Throttling throttled_;
};

TEST_CASE(
    "what was timed while the clock was held down is timed again, and marked if it was still") {
  const auto [hot, measured, throttled] =
      GENERATE(table<int, int, std::string>({{0, 1, "power"},
                                             {1, 2, "power"},
                                             {2, 3, "power"},
                                             {3, 3, "heat, power"},
                                             {100, 3, "heat, power"}}));
  auto own = std::make_unique<HotDevice>(hot);
  HotDevice& device = *own;
  Options options;
  options.cooling = absl::Milliseconds(1);
  options.least_retime = absl::Minutes(5);
  Court court(options, nullptr, std::move(own));
  court.Open("gate");
  v1::JudgeVerdict verdict = court.Evaluate({HonestPlan("gate", 0)});
  INFO(hot << ": " << verdict.ShortDebugString());
  CHECK(verdict.verdict() == v1::ACCEPTED);
  CHECK(device.measurements() == measured);
  CHECK(verdict.timing().throttled() == throttled);
}

TEST_CASE("a card that stays hot takes no more than a part of the time") {
  auto own = std::make_unique<HotDevice>(1000);
  HotDevice& device = *own;
  Options options;
  options.cooling = absl::Milliseconds(1);
  options.least_retime = absl::ZeroDuration();
  options.retime_share = 0;
  Court court(options, nullptr, std::move(own));
  court.Open("gate");
  v1::JudgeVerdict verdict = court.Evaluate({HonestPlan("gate", 0)});
  CHECK(verdict.verdict() == v1::ACCEPTED);
  CHECK(device.measurements() == 1);
  const auto final = court.judge.Finalise();
  REQUIRE(final.ok());
  CHECK(device.measurements() == 2);
  CHECK(final->verdict().timing().throttled() == "heat, power");
}

// A device whose own memory fails in the next run.
class FailingDevice : public HostDevice {
 public:
  absl::Status Run(Program& program, absl::Duration limit) override {
    return fails ? absl::DataLossError("CUDA_ERROR_ECC_UNCORRECTABLE (214)")
                 : HostDevice::Run(program, limit);
  }
  bool fails = false;
};

TEST_CASE("a card whose memory fails speaks against no candidate") {
  auto own = std::make_unique<FailingDevice>();
  FailingDevice& device = *own;
  Court court({}, nullptr, std::move(own));
  court.Open("gate");
  device.fails = true;
  const Judgement judged = court.Judged({HonestPlan("gate", 0)});
  CHECK(judged.verdict.verdict() == v1::JUDGE_FAILED);
  CHECK(absl::StrContains(judged.verdict.reason(), "ECC_UNCORRECTABLE"));
  CHECK(judged.fatal);
}

TEST_CASE("what is wrong stays wrong however hot the card is") {
  Options options;
  options.cooling = absl::Milliseconds(1);
  options.least_retime = absl::Minutes(5);
  Court court(options, nullptr, std::make_unique<HotDevice>(2));
  court.Open("gate");
  const std::vector<Cheat> cheats = Cheats();
  const auto wrong = std::find_if(cheats.begin(), cheats.end(), [](const Cheat& cheat) {
    return cheat.problem == "gate" && cheat.expected == std::vector<v1::Verdict>{v1::WRONG};
  });
  REQUIRE(wrong != cheats.end());
  CHECK(court.Evaluate({wrong->plan}).verdict() == v1::WRONG);
}

}  // namespace
}  // namespace warpsmith::judge
