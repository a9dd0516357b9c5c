#include "worker/judge/judge.h"

#include <sys/socket.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "worker/judge/channel.h"
#include "worker/judge/cheats.h"
#include "worker/judge/server.h"
#include "worker/judge/time_check.h"
#include "worker/oracle/native_device.h"

namespace warpsmith::judge {
namespace {

std::string CacheDir() {
  return (std::filesystem::temp_directory_path() / "warpsmith_judge_test").string();
}

// The host device, whose profiling fails as the test wants.
class FailingProfile : public device::Device {
 public:
  using Memory = device::Memory;
  using Program = device::Program;
  absl::Status launches, counters;  // how the next call fails, if it does

  const device::DeviceInfo& info() const override { return device_->info(); }
  absl::StatusOr<std::unique_ptr<Memory>> Allocate(int64_t bytes) override {
    return device_->Allocate(bytes);
  }
  int64_t allocated_bytes() const override { return device_->allocated_bytes(); }
  void LimitMemory(int64_t bytes) override { device_->LimitMemory(bytes); }
  absl::StatusOr<int64_t> FreeBytes() override { return device_->FreeBytes(); }
  absl::Status Write(Memory& to, const void* from, int64_t bytes, int64_t offset) override {
    return device_->Write(to, from, bytes, offset);
  }
  absl::Status Read(const Memory& from, void* to, int64_t bytes, int64_t offset) override {
    return device_->Read(from, to, bytes, offset);
  }
  absl::Status Fill(Memory& memory, uint32_t pattern) override {
    return device_->Fill(memory, pattern);
  }
  absl::Status Copy(const Memory& from, Memory& to, int64_t bytes) override {
    return device_->Copy(from, to, bytes);
  }
  absl::Status CopyFromForeign(const std::string& handle, int64_t offset, Memory& to,
                               int64_t bytes) override {
    return device_->CopyFromForeign(handle, offset, to, bytes);
  }
  absl::StatusOr<std::unique_ptr<Program>> Load(const v1::Plan& plan,
                                                const device::Binary& binary) override {
    return device_->Load(plan, binary);
  }
  absl::Status Run(Program& program, absl::Duration limit) override {
    return device_->Run(program, limit);
  }
  absl::StatusOr<double> Time(Program& program, absl::Duration limit,
                              device::Launching how) override {
    return device_->Time(program, limit, how);
  }
  absl::StatusOr<std::vector<double>> TimeLaunches(Program& program,
                                                   absl::Duration limit) override {
    if (!launches.ok()) return launches;
    return device_->TimeLaunches(program, limit);
  }
  absl::StatusOr<std::vector<std::optional<v1::Counters>>> Count(Program& program,
                                                                 absl::Duration limit) override {
    if (!counters.ok()) return counters;
    return device_->Count(program, limit);
  }
  absl::Status Settle(absl::Duration limit) override { return device_->Settle(limit); }
  double SmClockMhz() override { return device_->SmClockMhz(); }
  absl::StatusOr<graph::Roof> MeasureRoof() override { return device_->MeasureRoof(); }

 private:
  const std::unique_ptr<device::Device> device_ = *device::MakeDevice("host");
};

// A judge of its own on the host device, with the native oracle.
struct Court {
  using Wrap = std::function<std::unique_ptr<oracle::Oracle>(std::unique_ptr<oracle::Oracle>)>;

  explicit Court(Options options = {}, Wrap wrap = nullptr,
                 std::unique_ptr<device::Device> own = *device::MakeDevice("host"))
      : device(std::move(own)),
        judge(
            *device, *compiler,
            [this, wrap](const v1::Problem&, const v1::Workload&, const graph::Graph& graph,
                         bool) -> absl::StatusOr<std::unique_ptr<oracle::Oracle>> {
              auto native = oracle::MakeNativeOracle(graph, *compiler, device->info());
              if (!native.ok() || wrap == nullptr) return native;
              return wrap(*std::move(native));
            },
            options) {}

  v1::CompiledPlan Compile(const v1::Plan& plan) {
    v1::CompiledPlan compiled;
    auto binary = compiler->Compile(plan.source(), absl::Minutes(1));
    INFO(binary.status());
    REQUIRE(binary.ok());
    *compiled.mutable_plan() = plan;
    compiled.set_binary(binary->bytes);
    return compiled;
  }
  v1::JudgeOpened Open(v1::JudgeOpen open) {
    auto opened = judge.Open(open);
    INFO(opened.status());
    REQUIRE(opened.ok());
    return *opened;
  }
  v1::JudgeOpened Open(const std::string& problem) {
    v1::JudgeOpen open;
    *open.mutable_problem() = CheatProblem(problem);
    open.set_seed(5);
    return Open(open);
  }
  v1::JudgeVerdict Evaluate(const std::vector<v1::Plan>& plans) { return Judged(plans).verdict; }
  Judgement Judged(const std::vector<v1::Plan>& plans) {
    v1::JudgeEvaluate request;
    request.set_trial_id("t");
    for (const v1::Plan& plan : plans) *request.add_plans() = Compile(plan);
    return judge.Evaluate(request);
  }

  std::unique_ptr<device::Device> device;
  std::unique_ptr<device::Compiler> compiler = *device::MakeCompiler("host", CacheDir());
  Judge judge;
};

constexpr int kWork = 64;

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
  CHECK(fast.accuracy().accuracy_class() == "no less accurate");
  v1::JudgeVerdict again = court.Evaluate({HonestPlan("gate", kWork)});
  CHECK(again.verdict() == v1::SLOWER);
  CHECK(again.timing().samples() == 3);
}

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
  CHECK(profile.times_by() == "wall clock");
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
    REQUIRE(worker.Receive(reply, absl::Now() + absl::Seconds(10)).ok());
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

TEST_CASE("what does not fit is refused with the figure before it is allocated") {
  Court court;
  v1::JudgeOpen open;
  v1::Problem& problem = *open.mutable_problem();
  problem.set_name("huge");
  problem.add_workloads()->set_name("default");
  problem.add_graph("input x: f32[68719476736] ~ normal");
  problem.add_graph("y: f32[i: 68719476736] = x[i] + 1");
  problem.add_graph("output y");
  auto opened = court.judge.Open(open);
  REQUIRE(opened.status().code() == absl::StatusCode::kResourceExhausted);
  CHECK(absl::StrContains(std::string(opened.status().message()), "needs"));
  CHECK(absl::StrContains(std::string(opened.status().message()), "549755813888"));
  court.Open("gate");  // and the judge goes on
}

// y = factor * x.
v1::Plan DoublingPlan(int64_t n, const std::string& factor) {
  v1::Plan plan;
  plan.set_source(absl::StrCat(
      "extern \"C\" __global__ void candidate(const float* x, float* y) { int i = blockIdx.x * "
      "blockDim.x + threadIdx.x; if (i < ",
      n, ") y[i] = x[i] * ", factor, "; }"));
  for (auto [kind, name] : {std::pair(v1::Buffer::INPUT, "x"), {v1::Buffer::OUTPUT, "y"}}) {
    v1::Buffer* buffer = plan.add_buffers();
    buffer->set_kind(kind);
    buffer->set_tensor(name);
    buffer->set_dtype("f32");
    buffer->add_shape(n);
    buffer->set_bytes(4 * n);
  }
  v1::Launch* launch = plan.add_steps()->mutable_launch();
  launch->set_entry("candidate");
  for (uint32_t size : {static_cast<uint32_t>((n + 127) / 128), 1u, 1u}) launch->add_grid(size);
  for (uint32_t size : {128u, 1u, 1u}) launch->add_block(size);
  for (int i = 0; i < 2; ++i) launch->add_arguments()->set_buffer(i);
  return plan;
}

// A map of many inputs and outputs, beside which all else is small.
v1::JudgeOpen OpenOf(int64_t elements) {
  v1::JudgeOpen open;
  v1::Problem& problem = *open.mutable_problem();
  problem.set_name("large");
  problem.add_workloads()->set_name("default");
  const std::string n = absl::StrCat(elements);
  for (const std::string& line : {"input x: f32[" + n + "] ~ normal",
                                  "y: f32[i: " + n + "] = x[i] * 2", std::string("output y")}) {
    problem.add_graph(line);
  }
  return open;
}

// Stands for PyTorch's: says what it needs, and notes what it may take. One of its draws fails, the
// `*fails`-th from now (0: the next; -1: none).
class Frugal : public oracle::Oracle {
 public:
  Frugal(std::unique_ptr<oracle::Oracle> oracle, int64_t bytes, Room* room, int* fails)
      : oracle_(std::move(oracle)), bytes_(bytes), room_(room), fails_(fails) {}
  std::string name() const override { return "frugal"; }
  absl::StatusOr<oracle::Case> Draw(device::Device& device, uint64_t seed,
                                    oracle::Variation variation) override {
    if (*fails_ >= 0 && (*fails_)-- == 0) {
      return absl::ResourceExhaustedError("the module takes more than it seemed");
    }
    return oracle_->Draw(device, seed, variation);
  }
  int64_t WorkingBytes() const override { return 6 * bytes_; }
  int64_t LeastBytes() const override { return bytes_; }
  int64_t PeakBytes() const override { return 0; }
  void SetRoom(const Room& room) override { *room_ = room; }
  absl::StatusOr<v1::BaselineReport> TimeBaselines(device::Device& device) override {
    return oracle_->TimeBaselines(device);
  }

 private:
  std::unique_ptr<oracle::Oracle> oracle_;
  const int64_t bytes_;
  Room* const room_;
  int* const fails_;
};

TEST_CASE("judging takes four times inputs and outputs, and no more under a budget") {
  constexpr int64_t kElements = 1 << 20;
  constexpr int64_t kBytes = 8 * kElements;  // of a case
  Options options;
  options.reserve = 0;
  options.least_workspace = 0;
  oracle::Oracle::Room room;
  int fails = -1;
  Court court(options, [&](std::unique_ptr<oracle::Oracle> native) {
    return std::make_unique<Frugal>(std::move(native), kBytes, &room, &fails);
  });
  REQUIRE_FALSE(court.judge.Open(OpenOf(int64_t{1} << 36)).ok());
  const int64_t own = court.device->allocated_bytes();  // what the judge has for every problem
  auto open = [&](int64_t budget) {
    court.device->LimitMemory(budget == 0 ? 0 : own + budget);
    return court.judge.Open(OpenOf(kElements));
  };
  SECTION("with plenty there are two cases, and the oracle may keep what it has") {
    auto opened = open(0);
    REQUIRE(opened.ok());
    CHECK(opened->needed_bytes() == 2 * kBytes + 3 * kBytes + 6 * kBytes);
    CHECK(room.bytes == 0);
  }
  SECTION("at the least") {
    auto opened = open(4 * kBytes);
    INFO(opened.status());
    REQUIRE(opened.ok());
    CHECK(opened->needed_bytes() == 4 * kBytes);
    CHECK(room.bytes == 3 * kBytes);
    CHECK_FALSE(room.keep);
    // What is said of the workspace holds: that much is taken, a byte more refused.
    REQUIRE(opened->allowance_bytes_size() == 1);
    const int64_t allowance = opened->allowance_bytes(0);
    CHECK(allowance == kBytes + kBytes / 4);
    v1::Plan plan = DoublingPlan(kElements, "2.0f");
    v1::Buffer* workspace = plan.add_buffers();
    workspace->set_kind(v1::Buffer::WORKSPACE);
    workspace->set_tensor("w");
    workspace->set_dtype("f32");
    workspace->add_shape(allowance / 4);
    workspace->set_bytes(allowance);
    CHECK(court.Evaluate({plan}).verdict() == v1::ACCEPTED);
    plan.mutable_buffers(2)->set_bytes(allowance + 4);
    plan.mutable_buffers(2)->set_shape(0, allowance / 4 + 1);
    const v1::JudgeVerdict refused = court.Evaluate({plan});
    CHECK(refused.verdict() == v1::REFUSED);
    CHECK(absl::StrContains(refused.reason(), "workspace"));
    CHECK(court.judge.Finalise().ok());
  }
  SECTION("less is refused, with the figure") {
    auto opened = open(4 * kBytes - 1);
    CHECK(opened.status().code() == absl::StatusCode::kResourceExhausted);
    CHECK(absl::StrContains(std::string(opened.status().message()), absl::StrCat(4 * kBytes)));
  }
}

TEST_CASE("a module that takes more than it seemed gets the room of all but one case") {
  constexpr int64_t kElements = 1 << 12;
  Options options;
  options.reserve = 0;
  options.redraw_after = 0;
  options.quick_draw = absl::Minutes(1);
  options.fresh_seeds = 5;
  options.final_pairs = 1;  // nothing is to come of how long it takes
  oracle::Oracle::Room room;
  // Draws are 2 cases, one that is renewed, 5 variations, and 5 fresh seeds, twice.
  int fails = GENERATE(0, 1, 2, 3, 7, 8, 9, 12, 13, 17);
  INFO("draw " << fails);
  Court court(options, [&](std::unique_ptr<oracle::Oracle> native) {
    return std::make_unique<Frugal>(std::move(native), 8 * kElements, &room, &fails);
  });
  court.Open(OpenOf(kElements));
  const v1::JudgeVerdict verdict = court.Evaluate({DoublingPlan(kElements, "2.0f")});
  INFO(verdict.reason());
  CHECK(verdict.verdict() == v1::ACCEPTED);
  CHECK(court.judge.Finalise().ok());
  CHECK(fails == -1);
  CHECK(room.bytes > 0);
  CHECK_FALSE(room.keep);
}

// y = 2x, for two sizes.
v1::Problem Doubling() {
  v1::Problem problem;
  problem.set_name("doubling");
  for (const char* line : {"input x: f32[N] ~ normal", "y: f32[i: N] = x[i] * 2", "output y"}) {
    problem.add_graph(line);
  }
  for (int64_t n : {1000, 3000}) {
    v1::Workload* workload = problem.add_workloads();
    workload->set_name(absl::StrCat("n", n));
    (*workload->mutable_dims())["N"] = n;
  }
  return problem;
}
TEST_CASE("a plan is right only if it is for every workload") {
  Court court;
  v1::JudgeOpen open;
  *open.mutable_problem() = Doubling();
  court.Open(open);
  CHECK(court.Evaluate({DoublingPlan(1000, "2.0f")}).verdict() == v1::REFUSED);
  v1::JudgeVerdict wrong = court.Evaluate({DoublingPlan(1000, "2.0f"), DoublingPlan(3000, "2.5f")});
  CHECK(wrong.verdict() == v1::WRONG);
  CHECK(absl::StrContains(wrong.reason(), "workload 'n3000'"));
  CHECK(absl::StrContains(wrong.reason(), "output 'y'"));
  CHECK(absl::StrContains(wrong.reason(), "at [0]"));
  CHECK(court.Evaluate({DoublingPlan(1000, "2.0f"), DoublingPlan(3000, "2.0f")}).verdict() ==
        v1::ACCEPTED);
}

// A problem of one workload.
v1::JudgeOpen ProblemOf(const std::string& name, const std::vector<std::string>& graph) {
  v1::JudgeOpen open;
  v1::Problem& problem = *open.mutable_problem();
  problem.set_name(name);
  for (const std::string& line : graph) problem.add_graph(line);
  problem.add_workloads()->set_name("default");
  return open;
}

TEST_CASE("what is rounded to a byte may be its neighbour where rounding decides, and rarely") {
  Court court;
  court.Open(ProblemOf(
      "quantise", {"input x: f32[4096] ~ normal(0, 30)",
                   "q: i8[i: 4096] = i8(min(max(round(x[i] / 0.3), -127), 127))", "output q"}));
  const auto plan = [](const std::string& value) {
    v1::Plan quantise = DoublingPlan(4096, "2.0f");
    quantise.mutable_buffers(1)->set_tensor("q");
    quantise.mutable_buffers(1)->set_dtype("i8");
    quantise.mutable_buffers(1)->set_bytes(4096);
    quantise.set_source(absl::StrCat(
        "extern \"C\" __global__ void candidate(const float* x, signed char* q) { int i = "
        "blockIdx.x * blockDim.x + threadIdx.x; if (i >= 4096) return; float v = rintf(x[i] / "
        "0.3f); v = v < -127.0f ? -127.0f : v > 127.0f ? 127.0f : v; int c = (int)v; q[i] = ",
        value, "; }"));
    return quantise;
  };
  const auto often = court.Evaluate({plan("c == 5 ? 4 : c")});
  CHECK(often.verdict() == v1::WRONG);
  CHECK(absl::StrContains(often.reason(), "off by one"));
  CHECK(court.Evaluate({plan("i == 9 ? (c > 0 ? c - 2 : c + 2) : c")}).verdict() == v1::WRONG);
  const auto rarely = court.Evaluate({plan("i == 9 ? (c > 0 ? c - 1 : c + 1) : c")});
  INFO(rarely.reason());
  CHECK(rarely.verdict() == v1::ACCEPTED);
}

TEST_CASE("a state that is updated with what is rounded to a byte may be its neighbour, too") {
  Court court;
  court.Open(ProblemOf("kept", {"input x: f32[4096] ~ normal(0, 30)",
                                "state q: i8[4096] ~ integers(-9, 9)", "y: f32[i: 4096] = x[i] * 2",
                                "n: i8[i: 4096] = i8(min(max(round(x[i] / 0.3), -127), 127))",
                                "output y", "update q = n"}));
  const auto plan = [](const std::string& value) {
    v1::Plan kept = DoublingPlan(4096, "2.0f");
    v1::Buffer* state = kept.add_buffers();
    state->set_kind(v1::Buffer::STATE);
    state->set_tensor("q");
    state->set_dtype("i8");
    state->add_shape(4096);
    state->set_bytes(4096);
    kept.mutable_steps(0)->mutable_launch()->add_arguments()->set_buffer(2);
    kept.set_source(absl::StrCat(
        "extern \"C\" __global__ void candidate(const float* x, float* y, signed char* q) { int i "
        "= blockIdx.x * blockDim.x + threadIdx.x; if (i >= 4096) return; y[i] = x[i] * 2.0f; float "
        "v = rintf(x[i] / 0.3f); v = v < -127.0f ? -127.0f : v > 127.0f ? 127.0f : v; int c = "
        "(int)v; q[i] = ",
        value, "; }"));
    return kept;
  };
  const auto often = court.Evaluate({plan("c == 5 ? 4 : c")});
  CHECK(often.verdict() == v1::WRONG);
  CHECK(absl::StrContains(often.reason(), "state 'q'"));
  CHECK(absl::StrContains(often.reason(), "off by one"));
  const auto rarely = court.Evaluate({plan("i == 9 ? (c > 0 ? c - 1 : c + 1) : c")});
  INFO(rarely.reason());
  CHECK(rarely.verdict() == v1::ACCEPTED);
}

TEST_CASE("an index that a state is updated with is judged by the value it points at, too") {
  Court court;
  court.Open(ProblemOf(
      "crest", {"input x: f32[8, 4096] ~ normal", "state at: i64[8] ~ constant(0)",
                "v, i: f32[r: 8] = argmax[c: 4096](sin(x[r, c]))", "output v", "update at = i"}));
  // The last whose value is within so much of the largest.
  const auto plan = [](const std::string& within) {
    v1::Plan crest = DoublingPlan(8, "2.0f");
    crest.mutable_buffers(0)->set_bytes(4 * 8 * 4096);
    crest.mutable_buffers(1)->set_tensor("v");
    v1::Buffer* state = crest.add_buffers();
    state->set_kind(v1::Buffer::STATE);
    state->set_tensor("at");
    state->set_dtype("i64");
    state->add_shape(8);
    state->set_bytes(64);
    crest.mutable_steps(0)->mutable_launch()->add_arguments()->set_buffer(2);
    crest.set_source(absl::StrCat(
        "extern \"C\" __global__ void candidate(const float* x, float* v, long long* at) { int r = "
        "blockIdx.x * blockDim.x + threadIdx.x; if (r >= 8) return; x += r * 4096; float m = "
        "sinf(x[0]); for (int c = 1; c < 4096; ++c) if (sinf(x[c]) > m) m = sinf(x[c]); for (int c "
        "= 0; c < 4096; ++c) if (sinf(x[c]) >= m - m * ",
        within, ") at[r] = c; v[r] = m; }"));
    return crest;
  };
  const auto far = court.Evaluate({plan("1e-2f")});
  CHECK(far.verdict() == v1::WRONG);
  CHECK(absl::StrContains(far.reason(), "state 'at'"));
  CHECK(absl::StrContains(far.reason(), "the value they point at"));
  const auto near = court.Evaluate({plan("2e-5f")});
  INFO(near.reason());
  CHECK(near.verdict() == v1::ACCEPTED);
}

TEST_CASE("on other inputs an answer of 16 bits may round the other way") {
  Court court;
  court.Open(ProblemOf("third", {"input x: f32[4096] ~ normal",
                                 "y: bf16[i: 4096] = bf16(x[i] * 0.3333333)", "output y"}));
  // Rounds x by fp32's bits: a little more makes some round up that the reference rounds down.
  const auto plan = [](const std::string& factor) {
    v1::Plan third = DoublingPlan(4096, "2.0f");
    third.mutable_buffers(1)->set_dtype("bf16");
    third.mutable_buffers(1)->set_bytes(8192);
    third.set_source(absl::StrCat(
        "extern \"C\" __global__ void candidate(const float* x, unsigned short* y) { int i = "
        "blockIdx.x * blockDim.x + threadIdx.x; if (i >= 4096) return; float v = x[i] * 0.3333333f "
        "* ",
        factor,
        "; unsigned u = __float_as_uint(v); y[i] = (unsigned short)((u + 0x7fffu + ((u >> 16) & "
        "1u)) >> 16); }"));
    return third;
  };
  const auto near = court.Evaluate({plan("1.0003f")});
  INFO(near.reason());
  CHECK(near.verdict() == v1::ACCEPTED);
  const auto far = court.Evaluate({plan("1.03f")});
  INFO(far.reason());
  CHECK(far.verdict() != v1::ACCEPTED);
  CHECK(far.verdict() != v1::SLOWER);
}

// A module whose answers are off by up to `error` of their rms, and known to be.
class Rough : public oracle::Oracle {
 public:
  Rough(std::unique_ptr<oracle::Oracle> oracle, double error)
      : oracle_(std::move(oracle)), error_(error) {}
  std::string name() const override { return "rough"; }
  absl::StatusOr<oracle::Case> Draw(device::Device& device, uint64_t seed,
                                    oracle::Variation variation) override {
    auto drawn = oracle_->Draw(device, seed, variation);
    if (!drawn.ok()) return drawn;
    device::Memory& memory = *drawn->answers[0];
    std::vector<float> values(memory.bytes() / sizeof(float));
    if (auto status = device.Read(memory, values.data(), memory.bytes()); !status.ok())
      return status;
    double squares = 0;
    for (float value : values) squares += value * value;
    const double rms = std::sqrt(squares / static_cast<double>(values.size()));
    for (size_t i = 0; i < values.size(); ++i)
      values[i] += static_cast<float>(error_ * rms * std::sin(i));
    if (auto status = device.Write(memory, values.data(), memory.bytes()); !status.ok())
      return status;
    drawn->reference.clear();
    drawn->AddReference({error_, error_ / 2, error_});
    return drawn;
  }
  int64_t WorkingBytes() const override { return oracle_->WorkingBytes(); }
  absl::StatusOr<v1::BaselineReport> TimeBaselines(device::Device& device) override {
    return oracle_->TimeBaselines(device);
  }

 private:
  const std::unique_ptr<oracle::Oracle> oracle_;
  const double error_;
};

TEST_CASE("who is nearer to the truth than the reference may miss the tolerance with it") {
  const double error = GENERATE(1e-3, 1e-6);  // of answers around 1, tolerance 1e-4
  Court court({}, [&](std::unique_ptr<oracle::Oracle> native) {
    return std::make_unique<Rough>(std::move(native), error);
  });
  court.Open(ProblemOf(
      "rough", {"input x: f32[100000] ~ normal", "y: f32[i: 100000] = x[i] * 2", "output y"}));
  const auto plan = [](const std::string& value) {
    v1::Plan twice = DoublingPlan(100000, "2.0f");
    twice.set_source(absl::StrCat(
        "extern \"C\" __global__ void candidate(const float* x, float* y) { int i = blockIdx.x * "
        "blockDim.x + threadIdx.x; if (i < 100000) y[i] = ",
        value, "; }"));
    return twice;
  };
  const auto exact = court.Evaluate({plan("x[i] * 2.0f")});
  INFO(exact.reason());
  CHECK(exact.verdict() == v1::ACCEPTED);
  // As far off as the reference, in another direction, is further from the truth in places.
  CHECK(court.Evaluate({plan("x[i] * 2.004f")}).verdict() == v1::WRONG);
  // One element, where no sample may have looked.
  CHECK(court.Evaluate({plan("x[i] * 2.0f + (i == 77777 ? 0.01f : 0.0f)")}).verdict() == v1::WRONG);
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

TEST_CASE("a state that the problem only reads stays as it is") {
  Court court;
  v1::JudgeOpen open;
  v1::Problem& problem = *open.mutable_problem() = CheatProblem("running");
  problem.mutable_graph()->RemoveLast();  // update mean = next
  court.Open(open);
  v1::JudgeVerdict verdict = court.Evaluate({HonestPlan("running", 0)});  // which updates it
  INFO(verdict.ShortDebugString());
  CHECK(verdict.verdict() == v1::WRONG);
  CHECK(absl::StrContains(verdict.reason(), "state 'mean'"));
  v1::Plan reads = HonestPlan("running", 0);
  reads.set_source(
      absl::StrReplaceAll(reads.source(), {{"mean[i] = 0.5f * mean[i] + 0.5f * x[i];", ""}}));
  verdict = court.Evaluate({reads});
  INFO(verdict.ShortDebugString());
  CHECK(verdict.verdict() == v1::ACCEPTED);
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
    const bool refused = cheat.expected[0] == v1::REFUSED;
    CHECK(binary.status().code() ==
          (refused ? absl::StatusCode::kFailedPrecondition : absl::StatusCode::kOk));
  }
  for (const char* problem : {"gate", "rows", "running", "largest"}) {
    CHECK((*compiler)->Compile(HonestPlan(problem, kWork).source(), absl::Minutes(1)).ok());
  }
}

}  // namespace
}  // namespace warpsmith::judge
