// Opening a problem: its workloads, what they need, what they are measured against; and the end.
#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/clock.h"
#include "common/problem/problem.h"
#include "common/problem/speedup.h"
#include "common/problem/workspace.h"
#include "worker/judge/judge.h"

namespace warpsmith::judge {
namespace {

// Of a device's memory, beside what is counted: modules, graphs, what is flushed; on both sides.
int64_t ReserveOf(const device::DeviceInfo& info) {
  return int64_t{info.kind == "host" ? 768 : 1536} << 20;
}
constexpr int kBaselineSamples = 9;
constexpr int kBaselineTries = 2;
constexpr absl::Duration kBaselineCallLimit = absl::Milliseconds(100);
constexpr char kNative[] = "native";

// A baseline's times on several workloads as one: of each kind the geometric mean, where every
// workload has it.
v1::Times MeanOf(const std::vector<v1::Times>& parts) {
  const auto mean = [&](double (v1::Times::*of)() const) {
    std::vector<double> times;
    for (const v1::Times& part : parts) {
      if ((part.*of)() <= 0) return 0.0;
      times.push_back((part.*of)());
    }
    return GeometricMean(times);
  };
  v1::Times all;
  all.set_device_us(mean(&v1::Times::device_us));
  all.set_graph_us(mean(&v1::Times::graph_us));
  all.set_launch_us(mean(&v1::Times::launch_us));
  all.set_call_us(mean(&v1::Times::call_us));
  return all;
}

}  // namespace

void Judge::Close() {
  incumbent_ = nullptr;
  chance_ = false;
  op_by_op_ = nullptr;
  benches_.clear();
  allowance_.clear();
  costs_.clear();
  least_.clear();
  baselines_.Clear();
  cases_ = 0;
  evaluations_ = since_redraw_ = peak_bytes_ = 0;
  reference_max_error_ = 0;
  native_ = tight_ = false;
  tight_room_ = 0;
  draw_seconds_ = 0;
}

absl::StatusOr<v1::JudgeOpened> Judge::Open(const v1::JudgeOpen& request) {
  Close();
  problem_ = request.problem();
  seed_ = request.seed();
  if (comparer_ == nullptr) {
    auto comparer = oracle::Comparer::Make(device_, compiler_);
    if (!comparer.ok()) return comparer.status();
    comparer_ = *std::move(comparer);
  }
  if (!roof_) {
    if (options_.roof) {
      roof_ = options_.roof;
    } else {
      auto roof = device_.MeasureRoof();
      if (!roof.ok()) return roof.status();
      roof_ = *roof;
    }
  }
  opened_at_ = base::Now();
  counter_seconds_ = 0;
  retimed_ = absl::ZeroDuration();
  v1::JudgeOpened opened;
  opened.set_device_bytes(device_.info().memory_bytes);
  auto steps = [&]() -> absl::Status {
    if (absl::Status s = MakeBenches(request); !s.ok()) return s;
    if (absl::Status s = Budget(request, &opened); !s.ok()) return s;
    if (absl::Status s = Baselines(request); !s.ok()) return s;
    if (absl::Status s = RedrawIfDue(); !s.ok()) return s;
    return native_ ? OpByOp(request) : absl::OkStatus();
  };
  if (absl::Status s = steps(); !s.ok()) {
    Close();
    return s;
  }
  opened.set_light_us(LookForLight() * 1e6);
  for (const auto& bench : benches_) {
    const double error = bench->Has(0) ? bench->at(0).whole.max : 0,
                 known = opened.reference_max_error();
    if (!(error <= known) && !std::isnan(known)) opened.set_reference_max_error(error);
  }
  v1::Roof& roof = *opened.mutable_roof();
  roof.set_read_bytes(roof_->read_bytes);
  roof.set_write_bytes(roof_->write_bytes);
  roof.set_copy_bytes(roof_->copy_bytes);
  roof.set_operations(roof_->operations);
  roof.set_products(roof_->products);
  roof.set_most_products(roof_->most_products);
  opened.set_oracle(benches_[0]->oracle().name());
  *opened.mutable_baselines() = baselines_;
  return opened;
}

absl::Status Judge::MakeBenches(const v1::JudgeOpen& request) {
  if (absl::Status s = problem::Validate(request.problem()); !s.ok()) return s;
  for (const v1::Workload& workload : request.problem().workloads()) {
    const std::string label =
        absl::StrCat("problem '", request.problem().name(), "', workload '", workload.name(), "'");
    auto graph = problem::GraphOf(request.problem(), workload);
    if (!graph.ok()) return graph.status();
    auto oracle = oracles_(request.problem(), workload, *graph, request.use_torch());
    if (!oracle.ok()) {
      return absl::Status(oracle.status().code(),
                          absl::StrCat(label, ": ", std::string(oracle.status().message())));
    }
    costs_.push_back(graph::Count(*graph));
    fp32_ = graph::Fp32Of(*graph, request.problem().accuracy().tolerance_only());
    benches_.push_back(std::make_unique<Workbench>(
        device_, *comparer_, *graph, label, request.problem().accuracy(), *std::move(oracle)));
    if (absl::Status s = benches_.back()->Prepare(compiler_); !s.ok()) return s;
  }
  native_ = benches_[0]->oracle().name() == kNative;
  return absl::OkStatus();
}

// What fp32's products may be made of follows from what a candidate's errors are held against: the
// tolerance alone, or the errors of what it replaces, which may have rounded its factors itself (as
// PyTorch's convolutions do, however little is left to be seen of it in the answers).
double Judge::LookForLight() {
  std::vector<double> lights;
  for (size_t b = 0; b < benches_.size(); ++b) {
    const double error = benches_[b]->Has(0) ? benches_[b]->at(0).whole.max : 0;
    const bool coarse = fp32_ == graph::Fp32::kCoarse || !(error < kRoundedError) ||
                        (!native_ && costs_[b].products.windows);
    const graph::Fp32 fp32 = coarse ? graph::Fp32::kCoarse : graph::Fp32::kKept;
    lights.push_back(std::max(1e-9, graph::LightSeconds(costs_[b], *roof_, fp32)));
    least_.push_back(graph::LeastOf(costs_[b], *roof_, fp32));
  }
  return GeometricMean(lights);
}

// Where there are `bytes` more than judging takes, candidates may have what it would take to keep
// every tensor of a problem, as whatever they replace does at most.
void Judge::AllowMore(int64_t bytes) {
  for (size_t b = 0; b < benches_.size(); ++b) {
    const int64_t wanted = options_.least_workspace + benches_[b]->intermediate_bytes();
    // The incumbent has as much as the candidate.
    allowance_[b] = std::max(allowance_[b], std::min(wanted, allowance_[b] + bytes / 2));
  }
}

// At the least, judging takes four times a problem's inputs and answers (twice those and what
// running the problem takes, where that is more): a case, what candidates write, and two
// workspaces; or a case and what the oracle needs, with nothing that candidates write.
absl::Status Judge::Budget(const v1::JudgeOpen& request, v1::JudgeOpened* opened) {
  int64_t cases = 0, written = 0, workspace = 0, working = 0, least = 0;
  for (size_t b = 0; b < benches_.size(); ++b) {
    const Workbench& bench = *benches_[b];
    int64_t allowance =
        options_.least_workspace + (3 * bench.case_bytes() - bench.written_bytes()) / 2;
    if (native_ && static_cast<int>(b) < request.op_by_op_size()) {
      allowance = std::max(allowance,
                           problem::WorkspaceBytes(request.op_by_op(static_cast<int>(b)).plan()));
    }
    allowance_.push_back(allowance);
    cases += bench.case_bytes();
    written += bench.written_bytes();
    // One workload at a time is worked on: a candidate's workspace and the incumbent's.
    workspace = std::max(workspace, 2 * allowance);
    working = std::max(working, benches_[b]->oracle().WorkingBytes());
    least = std::max(least, benches_[b]->oracle().LeastBytes());
  }
  auto free = device_.FreeBytes();
  if (!free.ok()) return free.status();
  const int64_t available = *free - options_.reserve.value_or(ReserveOf(device_.info()));
  tight_room_ = std::max(least, std::min(working, written + workspace));
  struct Choice {
    int cases;
    bool tight;
    int64_t bytes;
  };
  const Choice choices[] = {{2, false, 2 * cases + written + workspace + working},
                            {1, false, cases + written + workspace + working},
                            {1, true, cases + std::max(written + workspace, tight_room_)}};
  for (const Choice& choice : choices) {
    opened->set_needed_bytes(choice.bytes);
    if (choice.bytes > available) continue;
    cases_ = choice.cases;
    tight_ = choice.tight;
    if (tight_) Tighten();
    AllowMore(tight_ ? 0 : available - choice.bytes);
    for (int64_t allowance : allowance_) opened->add_allowance_bytes(allowance);
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(absl::StrFormat(
      "problem '%s' needs %d bytes of device memory (%d of inputs and answers, %d that candidates "
      "write, %d of workspace or for the oracle); %s has %d free",
      problem_.name(), opened->needed_bytes(), cases, written,
      std::max(workspace, tight_room_ - written), device_.info().name, available));
}

// ---- baselines ----------------------------------------------------------------------------------

// What PyTorch offers; names: only these, timed now.
absl::StatusOr<v1::BaselineReport> Judge::OracleBaselines(const std::vector<std::string>& names) {
  v1::BaselineReport whole;
  std::map<std::string, std::vector<v1::Baseline>> by_name;
  google::protobuf::Map<std::string, std::string> missing;
  Shed();
  for (const auto& bench : benches_) {
    auto report = names.empty() ? bench->oracle().TimeBaselines(device_)
                                : bench->oracle().RetimeBaselines(device_, names);
    if (!report.ok()) return report.status();
    whole = *report;
    missing.insert(report->missing().begin(), report->missing().end());
    for (const v1::Baseline& baseline : report->baselines()) {
      by_name[baseline.name()].push_back(baseline);
    }
  }
  whole.clear_baselines();
  *whole.mutable_missing() = std::move(missing);
  for (const auto& [name, parts] : by_name) {
    if (parts.size() != benches_.size()) continue;  // it failed for a workload
    std::vector<v1::Times> times;
    bool accurate = true;
    for (const v1::Baseline& part : parts) {
      times.push_back(part.times());
      accurate = accurate && part.accurate();
    }
    v1::Baseline* baseline = whole.add_baselines();
    baseline->set_name(name);
    *baseline->mutable_times() = MeanOf(times);
    baseline->set_accurate(accurate);
  }
  return whole;
}

// Checks the op-by-op plan as a candidate, times it and puts it into the report.
absl::Status Judge::TimeOpByOp() {
  bool accurate = true;
  for (size_t b = 0; b < benches_.size(); ++b) {
    auto finding = CheckOne(*op_by_op_, b, 0, kPoisons[0], Strictness::kElements);
    if (!finding.ok()) return finding.status();
    if (finding->fatal) {
      return absl::AbortedError(absl::StrCat("the op-by-op plan: ", finding->reason));
    }
    accurate = accurate && finding->ok();
  }
  if (absl::Status s = RedrawIfDue(); !s.ok()) return s;
  Samples samples = NoSamples();
  auto finding = TimeAlone(*op_by_op_, kBaselineSamples, options_.race_limit, &samples.candidate);
  if (finding.ok() && finding->ok()) {
    finding = TimeCalls(*op_by_op_, kBaselineSamples, kBaselineCallLimit, &samples);
  }
  if (!finding.ok()) return finding.status();
  if (!finding->ok()) {
    return absl::AbortedError(absl::StrCat("the op-by-op plan: ", finding->reason));
  }
  v1::Baseline* baseline = nullptr;
  for (v1::Baseline& b : *baselines_.mutable_baselines()) {
    if (b.name() == problem::kOpByOp) baseline = &b;
  }
  if (baseline == nullptr) baseline = baselines_.add_baselines();
  baseline->set_name(problem::kOpByOp);
  *baseline->mutable_times() = TimesOf(samples);
  baseline->set_accurate(accurate);
  return absl::OkStatus();
}

absl::Status Judge::Baselines(const v1::JudgeOpen& request) {
  baselines_ = request.cached_baselines();
  baselines_.set_from_cache(baselines_.baselines_size() > 0);
  if (!request.measure_baselines() || native_) return absl::OkStatus();
  // Without baselines there is less to tell, but no less to do.
  for (int i = 0; i < kBaselineTries; ++i) {
    auto report = OracleBaselines({});
    if (report.ok()) {
      baselines_ = *report;
      return absl::OkStatus();
    }
    (*baselines_.mutable_missing())["all"] = std::string(report.status().message());
    if (device_.FreeBytes().ok()) continue;
    return report.status();
  }
  return absl::OkStatus();
}

// Loads the op-by-op plan and, if asked for, times it. A plan that does not do is no baseline; that
// there is none the report says.
absl::Status Judge::OpByOp(const v1::JudgeOpen& request) {
  if (baselines_.oracle().empty()) {
    baselines_.set_oracle(kNative);
    baselines_.set_card(device_.info().name);
    baselines_.set_driver(device_.info().driver);
  }
  if (request.op_by_op_size() == 0) return absl::OkStatus();
  auto entry = std::make_unique<Entry>();
  auto finding = LoadAll(request.op_by_op(), entry.get());
  if (!finding.ok()) return finding.status();
  if (!finding->ok()) return absl::OkStatus();
  op_by_op_ = std::move(entry);
  return request.measure_baselines() ? TimeOpByOp() : absl::OkStatus();
}

// ---- the end ------------------------------------------------------------------------------------

// The baselines that the result is told against, beside it: the fastest accurate one and eager.
absl::Status Judge::TimeBaselinesAgain() {
  if (native_) return op_by_op_ != nullptr ? TimeOpByOp() : absl::OkStatus();
  const v1::Baseline* headline = problem::Strongest(baselines_);
  std::vector<std::string> names;
  if (headline != nullptr && headline->name() != problem::kEager) {
    names.push_back(headline->name());
  }
  for (const v1::Baseline& b : baselines_.baselines()) {
    if (b.name() == problem::kEager) names.push_back(b.name());
  }
  if (names.empty()) return absl::OkStatus();
  auto report = OracleBaselines(names);
  if (!report.ok()) return device_.FreeBytes().ok() ? absl::OkStatus() : report.status();
  for (const v1::Baseline& fresh : report->baselines()) {
    for (v1::Baseline& b : *baselines_.mutable_baselines()) {
      if (b.name() == fresh.name()) b = fresh;
    }
  }
  baselines_.set_from_cache(false);
  return absl::OkStatus();
}

// Half of the incumbent's last measurement; the baselines are between the two, so that what drifts
// drifts for both. Of each half some replays are looked at.
absl::StatusOr<Finding> Judge::TimeHalf(Samples* samples) {
  const int wanted = options_.final_samples / 2;
  auto finding = TimeAlone(*incumbent_, wanted, options_.final_limit / 4, &samples->candidate);
  if (!finding.ok() || !finding->ok()) return finding;
  finding = TimeCalls(*incumbent_, wanted, options_.final_limit / 4, samples);
  for (size_t b = 0; b < benches_.size() && finding.ok() && finding->ok(); ++b) {
    finding = CheckTimed(*incumbent_, b, 0);
  }
  return finding;
}

absl::StatusOr<v1::JudgeFinal> Judge::Finalise() {
  if (incumbent_ == nullptr) {
    return absl::FailedPreconditionError("there is no incumbent to time: nothing was accepted");
  }
  v1::JudgeFinal final;
  v1::JudgeVerdict& verdict = *final.mutable_verdict();
  peak_bytes_ = 0;
  oracle_seconds_ = 0;
  Samples samples;
  device::Throttling throttled;
  const auto finding = Undisturbed(&throttled, [&]() -> absl::StatusOr<Finding> {
    samples = NoSamples();
    for (size_t b = 0; b < benches_.size(); ++b) {
      auto finding = Refresh(*incumbent_, b);
      if (!finding.ok() || !finding->ok()) return finding;
    }
    auto before = TimeHalf(&samples);
    if (!before.ok() || !before->ok()) return before;
    // With what is drawn for it.
    const base::Instant began = base::Now();
    const double drawn = oracle_seconds_;
    if (absl::Status s = TimeBaselinesAgain(); !s.ok()) return s;
    oracle_seconds_ = drawn + absl::ToDoubleSeconds(base::Now() - began);
    return TimeHalf(&samples);
  });
  if (!finding.ok()) return finding.status();
  lost_ = lost_ || finding->fatal;
  // Last of all, since the device may not outlive it; the times are known by then.
  if (finding->ok() && incumbent_->profile.counters_by().empty()) {
    AddProfile(*incumbent_, /*counters=*/true).IgnoreError();
  }
  NotePeak();
  verdict.set_verdict(finding->ok() ? v1::ACCEPTED : finding->verdict);
  verdict.set_reason(finding->reason);
  *verdict.mutable_timing() = TimingOf(samples);
  verdict.mutable_timing()->set_throttled(device::WordsOf(throttled));
  *verdict.mutable_times() = TimesOf(samples);
  *verdict.mutable_accuracy() = AccuracyOf(*incumbent_);
  *verdict.mutable_profile() = incumbent_->profile;
  verdict.set_peak_bytes(peak_bytes_);
  verdict.set_oracle_seconds(oracle_seconds_);
  *final.mutable_baselines() = baselines_;
  problem::TellForOneLaunch(verdict.mutable_times(), final.mutable_baselines());
  if (!finding->ok()) return final;
  const problem::Speedups speedups = problem::SpeedupsOf(verdict.times(), final.baselines());
  final.set_speedup(speedups.strongest);
  final.set_speedup_eager(speedups.eager);
  const v1::Baseline* headline = problem::Strongest(final.baselines());
  verdict.set_reason(headline != nullptr
                         ? absl::StrFormat("%.3gx the strongest accurate baseline, %s",
                                           speedups.strongest, problem::QuickestName(*headline))
                         : "no accurate baseline to compare with");
  return final;
}

}  // namespace warpsmith::judge
