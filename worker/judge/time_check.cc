#include "worker/judge/time_check.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/problem/problem.h"
#include "common/problem/speedup.h"
#include "worker/device/same_time.h"
#include "worker/judge/stats.h"

namespace warpsmith::judge {
namespace {

constexpr int kWarmUps = 3;
constexpr int kSamples = 25;  // before the baseline, and as many after it
constexpr int64_t kLargestOnHost = int64_t{1} << 20;
constexpr absl::Duration kLimit = absl::Seconds(10);

struct Work {
  const char* name;
  int64_t bytes;
  bool copies;
};
constexpr Work kWorks[] = {{"nothing", 4096, false},
                           {"copy of 4 KiB", 4096, true},
                           {"copy of 1 MiB", int64_t{1} << 20, true},
                           {"copy of 1 GiB", int64_t{1} << 30, true}};

v1::Problem ProblemOf(const Work& work) {
  const std::string n = absl::StrCat(work.bytes / 4);
  v1::Problem problem;
  problem.set_name("same_work");
  problem.add_graph("input x: f32[" + n + "] ~ uniform(0, 1)");
  problem.add_graph("y: f32[i: " + n + "] = x[i]");
  problem.add_graph("output y");
  problem.add_workloads()->set_name("default");
  problem.mutable_torch()->set_source(absl::StrCat(
      "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x): return x",
      work.copies ? ".clone()" : "", "\ndef get_inputs(): return [torch.rand(", n, ")]\n"));
  problem.mutable_torch()->add_baselines("graph");
  return problem;
}

v1::Plan PlanOf(const Work& work) {
  v1::Plan plan;
  plan.set_source("extern \"C\" __global__ void unused() {}\n");
  for (auto [kind, name] : {std::pair(v1::Buffer::INPUT, "x"), {v1::Buffer::OUTPUT, "y"}}) {
    v1::Buffer* buffer = plan.add_buffers();
    buffer->set_kind(kind);
    buffer->set_tensor(name);
    buffer->set_dtype("f32");
    buffer->add_shape(work.bytes / 4);
    buffer->set_bytes(work.bytes);
  }
  if (work.copies) {
    v1::Copy* copy = plan.add_steps()->mutable_copy();
    copy->set_from(0);
    copy->set_to(1);
    copy->set_bytes(work.bytes);
  }
  return plan;
}

// A plan of our own, bound to memory of its own.
class Candidate {
 public:
  static absl::StatusOr<std::unique_ptr<Candidate>> Make(device::Device& device,
                                                         device::Compiler& compiler,
                                                         const Work& work) {
    std::unique_ptr<Candidate> made(new Candidate(device));
    const v1::Plan plan = PlanOf(work);
    auto binary = compiler.Compile(plan.source(), absl::Minutes(1));
    if (!binary.ok()) return binary.status();
    for (auto* memory : {&made->x_, &made->y_}) {
      auto allocated = device.Allocate(work.bytes);
      if (!allocated.ok()) return allocated.status();
      *memory = *std::move(allocated);
      if (absl::Status s = device.Fill(**memory, 0x3f8ccccd); !s.ok()) return s;
    }
    auto program = device.Load(plan, *binary);
    if (!program.ok()) return program.status();
    made->program_ = *std::move(program);
    device::Memory* const bound[] = {made->x_.get(), made->y_.get()};
    if (absl::Status s = made->program_->Bind(bound); !s.ok()) return s;
    return made;
  }

  // Adds samples of both times, in turns.
  absl::Status Time() {
    if (absl::Status s = device_.Settle(kSettleLimit); !s.ok()) return s;
    for (int i = -kWarmUps; i < kSamples; ++i) {
      for (auto [how, samples] : {std::pair(device::Launching::kHidden, &hidden_),
                                  {device::Launching::kCounted, &counted_}}) {
        auto seconds = device_.Time(*program_, kLimit, how);
        if (!seconds.ok()) return seconds.status();
        if (i >= 0) samples->push_back(*seconds * 1e6);
      }
      auto launch = device_.TimeLaunch();
      if (!launch.ok()) return launch.status();
      if (i >= 0) launched_.push_back(*launch * 1e6);
    }
    return absl::OkStatus();
  }
  v1::Times times() const {
    v1::Times times;
    times.set_device_us(Median(hidden_));
    times.set_graph_us(Median(counted_));
    times.set_launch_us(Median(launched_));
    return times;
  }

 private:
  explicit Candidate(device::Device& device) : device_(device) {}
  device::Device& device_;
  std::unique_ptr<device::Memory> x_, y_;
  std::unique_ptr<device::Program> program_;
  std::vector<double> hidden_, counted_, launched_;
};

// PyTorch's times of the same; all 0 without PyTorch.
absl::StatusOr<v1::Times> TimesOfTorch(device::Device& device, const Work& work,
                                       const OracleFactory& oracles) {
  const v1::Problem problem = ProblemOf(work);
  auto graph = problem::GraphOf(problem, problem.workloads(0));
  if (!graph.ok()) return graph.status();
  auto oracle = oracles(problem, problem.workloads(0), *graph, /*use_torch=*/true);
  if (!oracle.ok()) return oracle.status();
  auto report = (*oracle)->RetimeBaselines(device, {"eager"});
  if (!report.ok()) return report.status();
  for (const auto& [name, why] : report->missing()) {
    return absl::InternalError(absl::StrCat(name, ": ", why));
  }
  return report->baselines().empty() ? v1::Times() : report->baselines(0).times();
}

struct Pair {
  v1::Times baseline, candidate;                   // told for one launch
  double baseline_launch_us, candidate_launch_us;  // as measured
};
absl::StatusOr<Pair> Measure(device::Device& device, device::Compiler& compiler,
                             const OracleFactory& oracles, const Work& work) {
  auto candidate = Candidate::Make(device, compiler, work);
  if (!candidate.ok()) return candidate.status();
  if (absl::Status s = (*candidate)->Time(); !s.ok()) return s;
  auto baseline = TimesOfTorch(device, work, oracles);
  if (!baseline.ok()) return baseline.status();
  if (absl::Status s = (*candidate)->Time(); !s.ok()) return s;
  v1::Times mine = (*candidate)->times();
  v1::BaselineReport report;
  *report.add_baselines()->mutable_times() = *baseline;
  const double launch_us = mine.launch_us();
  problem::TellForOneLaunch(&mine, &report);
  return Pair{report.baselines(0).times(), mine, baseline->launch_us(), launch_us};
}

}  // namespace

int CheckTimes(device::Device& device, device::Compiler& compiler, const OracleFactory& oracles) {
  const bool host = device.info().kind == "host";
  int differ = 0, compared = 0;
  std::printf("\n%-14s %-8s %12s %12s\n", "same work", "time", "baseline us", "candidate us");
  for (const Work& work : kWorks) {
    if (host && work.bytes > kLargestOnHost) continue;
    auto pair = Measure(device, compiler, oracles, work);
    if (!pair.ok()) {
      ++differ;
      std::printf("%-14s not measured: %s\n", work.name,
                  std::string(pair.status().message()).c_str());
      continue;
    }
    const auto line = [&](const char* what, double baseline_us, double candidate_us) {
      const bool both = baseline_us > 0 && candidate_us > 0;
      const bool same = device::SameTime(baseline_us, candidate_us);
      compared += both;
      differ += both && !same;
      std::printf("%-14s %-8s %12.3f %12.3f  %s\n", work.name, what, baseline_us, candidate_us,
                  !both  ? "not compared"
                  : same ? "ok"
                         : "DIFFER");
    };
    line("device", pair->baseline.device_us(), pair->candidate.device_us());
    line("graph", pair->baseline.graph_us(), pair->candidate.graph_us());
    if (pair->baseline_launch_us > 0) {
      std::printf("%-14s %-8s %12.3f %12.3f  taken off the graphs', the lesser put back\n",
                  work.name, "launch", pair->baseline_launch_us, pair->candidate_launch_us);
    }
    if (pair->baseline.call_us() > 0) {
      std::printf("%-14s %-8s %12.3f\n", work.name, "call", pair->baseline.call_us());
    }
    std::fflush(stdout);
  }
  std::printf("%d of %d times as they should be: within %g %% or %g us%s\n", compared - differ,
              compared, 100 * device::kSameShare, device::kSameUs,
              compared > 0 ? ""
              : host       ? "; there are no graphs on the host"
                           : "; give --python to compare with PyTorch's");
  return differ;
}

}  // namespace warpsmith::judge
