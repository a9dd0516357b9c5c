// Problems, and an evaluator whose times are a pure function of the schedule, for the agents'
// tests.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/problem/problem.h"
#include "common/problem/workspace.h"
#include "worker/agent/evaluator.h"
#include "worker/agent/moves.h"
#include "worker/agent/optimiser.h"
#include "worker/agent/policy.h"
#include "worker/agent/state.h"
#include "worker/codegen/knob/knob.h"

namespace warpsmith::agent {

inline v1::Problem MakeProblem(const std::string& name, const std::vector<std::string>& graph) {
  v1::Problem problem;
  problem.set_name(name);
  for (const auto& line : graph) problem.add_graph(line);
  problem.add_workloads()->set_name("default");
  return problem;
}

inline v1::Problem Softmax(int64_t rows, int64_t columns) {
  const std::string r = std::to_string(rows), c = std::to_string(columns);
  return MakeProblem("softmax",
                     {"input x: f32[" + r + ", " + c + "] ~ normal",
                      "m: f32[r: " + r + "] = max[c: " + c + "](x[r, c])",
                      "e: f32[r: " + r + ", c: " + c + "] = exp(x[r, c] - m[r])",
                      "s: f32[r: " + r + "] = sum[c: " + c + "](e[r, c])",
                      "y: f32[r: " + r + ", c: " + c + "] = e[r, c] / s[r]", "output y"});
}

inline v1::Problem Gelu(int64_t n) {
  const std::string size = std::to_string(n);
  return MakeProblem(
      "gelu", {"input x: f32[" + size + "] ~ normal",
               "y: f32[i: " + size + "] = x[i] * 0.5 * (1.0 + erf(x[i] * 0.7071))", "output y"});
}

inline v1::Problem RowSum(int64_t rows, int64_t columns) {
  const std::string r = std::to_string(rows), c = std::to_string(columns);
  return MakeProblem("row_sum", {"input x: f32[" + r + ", " + c + "] ~ normal",
                                 "y: f32[r: " + r + "] = sum[c: " + c + "](x[r, c])", "output y"});
}

inline v1::Problem ColumnSum(int64_t outer, int64_t reduced, int64_t columns) {
  const std::string o = std::to_string(outer), k = std::to_string(reduced),
                    c = std::to_string(columns);
  return MakeProblem(
      "column_sum",
      {"input x: f32[" + o + ", " + k + ", " + c + "] ~ normal",
       "y: f32[o: " + o + ", c: " + c + "] = sum[k: " + k + "](x[o, k, c])", "output y"});
}

inline v1::Problem MaxPool(int64_t planes, int64_t size, int64_t window) {
  const std::string p = std::to_string(planes), n = std::to_string(size),
                    w = std::to_string(window), o = std::to_string(size - window + 1);
  return MakeProblem("max_pool", {"input x: f32[" + p + ", " + n + ", " + n + "] ~ normal",
                                  "y: f32[p: " + p + ", i: " + o + ", j: " + o + "] = max[a: " + w +
                                      ", b: " + w + "](x[p, i + a, j + b])",
                                  "output y"});
}

// Answers at once and moves a simulated clock by what judging would take.
class SyntheticEvaluator : public Evaluator {
 public:
  // Microseconds of a schedule, from what code generation resolves it to.
  using Model = std::function<double(const std::vector<codegen::GroupInfo>& groups)>;

  SyntheticEvaluator(codegen::Target target, Model model, base::SimulatedClock* clock)
      : target_(std::move(target)), model_(std::move(model)), clock_(clock) {}

  absl::StatusOr<v1::JudgeOpened> Open(const v1::Problem& problem, uint64_t,
                                       const std::vector<v1::Plan>& op_by_op) override {
    if (op_by_op.size() != problem.workloads_size()) return absl::InternalError("op by op");
    auto graph = problem::GraphOf(problem, problem.workloads(0));
    if (!graph.ok()) return graph.status();
    graph_ = std::make_shared<const graph::Graph>(*std::move(graph));
    opened_.set_light_us(light_us);
    opened_.set_reference_max_error(reference_error);
    if (allowance >= 0) opened_.add_allowance_bytes(allowance);
    auto& baseline = *opened_.mutable_baselines()->add_baselines();
    baseline.set_name("op_by_op");
    baseline.mutable_times()->set_graph_us(1000);
    baseline.set_accurate(true);
    return opened_;
  }

  std::future<Evaluated> Submit(Candidate candidate) override {
    clock_->AdvanceTime(judging);
    Evaluated evaluated;
    evaluated.verdict = Judge(candidate, evaluated);
    ++digests[Concatenated(candidate.plans)];
    workspaces.push_back(problem::WorkspaceBytes(candidate.plans[0]));
    std::promise<Evaluated> answer;
    answer.set_value(std::move(evaluated));
    return answer.get_future();
  }

  void Abandon() override { ++abandoned; }
  absl::StatusOr<v1::JudgeFinal> Finalise() override {
    ++finalised;
    v1::JudgeFinal final;
    final.mutable_verdict()->set_verdict(final_verdict);
    final.mutable_verdict()->mutable_timing()->set_median_us(best_us);
    final.mutable_verdict()->mutable_times()->set_graph_us(best_us);
    final.mutable_verdict()->mutable_times()->set_call_us(call_us);
    return final;
  }
  Exported TimeExport() override { return exported; }

  // How many of the sources that were submitted before it are the same.
  std::map<std::string, int> digests;
  absl::Duration judging = absl::Milliseconds(200);
  double light_us = 100;
  int64_t allowance = -1;  // of workspace, for the first workload; -1: nothing is said of it
  std::vector<int64_t> workspaces;  // of the first workload's plan, one a candidate
  double best_us = 0;
  double call_us = 0;  // that the judge says at the end; 0: it does not time calls
  Exported exported;
  int finalised = 0, abandoned = 0;
  v1::Verdict final_verdict = v1::ACCEPTED;
  // By number of the candidate, from 1: verdicts other than what the model gives.
  std::map<int, v1::Verdict> forced;
  int submitted = 0;
  // Schedules that are not accurate enough, and that are wrong.
  std::function<bool(const v1::Schedule&)> inaccurate, wrong;
  // That miss the tolerance as far as the reference does; who does not may take a little longer.
  std::function<bool(const v1::Schedule&)> even;
  double reference_error = 0;  // the largest, of an answer's rms

 private:
  static std::string Concatenated(const std::vector<v1::Plan>& plans) {
    std::string all;
    for (const auto& plan : plans) all += plan.SerializeAsString();
    return all;
  }

  v1::Verdict Judge(const Candidate& candidate, Evaluated& evaluated) {
    ++submitted;
    if (const auto verdict = forced.find(submitted); verdict != forced.end()) {
      return verdict->second;
    }
    if (inaccurate && inaccurate(candidate.schedule)) return v1::INACCURATE;
    if (wrong && wrong(candidate.schedule)) return v1::WRONG;
    auto state = MakeState(graph_, candidate.schedule, target_);
    if (!state.ok()) return v1::JUDGE_FAILED;
    const double time_us = model_(state->groups);
    evaluated.timing.set_median_us(time_us);
    evaluated.timing.set_incumbent_us(best_us);
    evaluated.times.set_graph_us(time_us);
    const bool is_even = even && even(candidate.schedule);
    evaluated.accuracy.set_even(is_even);
    const double most = best_even_ == is_even ? 0.995 : best_even_ ? 1.25 : 1 / 1.25;
    if (best_us > 0 && time_us > most * best_us) return v1::SLOWER;
    best_us = time_us;
    best_even_ = is_even;
    return v1::ACCEPTED;
  }

  const codegen::Target target_;
  const Model model_;
  base::SimulatedClock* const clock_;
  std::shared_ptr<const graph::Graph> graph_;
  v1::JudgeOpened opened_;
  bool best_even_ = false;
};

// A smooth landscape with one best place: each knob costs by its distance (in powers of two) from
// where it is best.
struct Landscape {
  double light_us = 100;
  double block = 256, blocks_per_row = 1, blocks_per_sm = 0, unroll = 4;
  double register_share = 0.5;  // of the kept vectors

  double operator()(const std::vector<codegen::GroupInfo>& groups) const {
    double time_us = light_us * 1.05 + 5.0 * (groups.size() - 1);
    const auto far = [](double a, double b) { return std::abs(std::log2((a + 1) / (b + 1))); };
    for (const auto& info : groups) {
      const auto knob = [&](const std::string& name) -> double {
        for (const auto& row : codegen::KnobsOf(info.skeleton)) {
          if (row.name == name) return codegen::ValueOf(info.resolved, row);
        }
        return 0;
      };
      time_us *= 1 + 0.06 * far(knob("block_threads"), block);
      time_us *= 1 + 0.08 * far(std::max(1.0, knob("blocks_per_row")), blocks_per_row);
      time_us *= 1 + 0.08 * far(knob("blocks_per_sm"), blocks_per_sm);
      time_us *= 1 + 0.03 * far(knob("unroll"), unroll);
      const double kept = knob("register_vectors") + knob("shared_vectors");
      if (kept > 0) time_us *= 1 + 0.2 * std::abs(knob("register_vectors") / kept - register_share);
      if (knob("store_hint") > 0) time_us *= 0.97;
    }
    return time_us;
  }
};

// A policy that passes everything on, and remembers.
class Spy : public Policy {
 public:
  struct Log {
    std::vector<std::string> proposed, learned;
    std::vector<v1::Verdict> verdicts;
  };
  Spy(std::unique_ptr<Policy> policy, Log* log) : policy_(std::move(policy)), log_(log) {}

  std::optional<Proposal> Propose(const History& history) override {
    auto proposal = policy_->Propose(history);
    if (proposal) log_->proposed.push_back(Bytes(proposal->action.schedule));
    return proposal;
  }
  void Learn(const Proposal& proposal, const Result& result) override {
    log_->learned.push_back(Bytes(proposal.action.schedule));
    log_->verdicts.push_back(result.verdict);
    policy_->Learn(proposal, result);
  }
  int patience(const State& state) const override { return policy_->patience(state); }

 private:
  const std::unique_ptr<Policy> policy_;
  Log* const log_;
};

// Keeps what it is told.
struct Recorder : Reporter {
  void OnTrial(const v1::Trial& trial) override { trials.push_back(trial); }
  void OnIncumbent(const v1::Incumbent& incumbent) override { incumbents.push_back(incumbent); }
  void OnProgress(const std::string& specialist) override { progress.push_back(specialist); }

  std::vector<v1::Trial> trials;
  std::vector<v1::Incumbent> incumbents;
  std::vector<std::string> progress;
};

}  // namespace warpsmith::agent
