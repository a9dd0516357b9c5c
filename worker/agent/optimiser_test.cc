#include "worker/agent/optimiser.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

#include "absl/strings/str_join.h"
#include "worker/agent/incumbent.h"
#include "worker/agent/moves.h"
#include "worker/agent/starts.h"
#include "worker/agent/test_problems.h"

namespace warpsmith::agent {
namespace {

// One run of the optimiser on a synthetic landscape.
struct Bench {
  explicit Bench(v1::Problem problem, SyntheticEvaluator::Model model = Landscape())
      : evaluator(target, std::move(model), &clock) {
    lease.set_id("lease");
    lease.set_task_id("task");
    *lease.mutable_problem() = std::move(problem);
    lease.set_seconds(40);
    lease.set_policy("rules");
    lease.set_seed(1);
  }

  absl::StatusOr<Outcome> Run(Options options = {}) {
    options.target = target;
    options.clock = &clock;
    return Optimiser(evaluator, options).Run(lease, recorder, stop);
  }
  double best_us() const { return recorder.incumbents.back().trial().timing().median_us(); }

  const codegen::Target target;
  base::SimulatedClock clock;
  SyntheticEvaluator evaluator;
  v1::Lease lease;
  Recorder recorder;
  std::atomic<bool> stop{false};
};

// Each says whom it beat: the one told before it, the planner's incumbent `first` at the beginning.
void CheckChain(const std::vector<v1::Incumbent>& incumbents, const std::string& first) {
  std::string standing = first;
  std::string newest;
  for (const v1::Incumbent& incumbent : incumbents) {
    if (incumbent.trial().id() != newest) {
      standing = newest.empty() ? first : newest;
      newest = incumbent.trial().id();
    }
    CHECK(incumbent.beat_trial_id() == standing);
  }
}

TEST_CASE("a slice is recorded in full", "[agent]") {
  Bench bench(Softmax(1024, 4096));
  const auto outcome = bench.Run();
  INFO(outcome.status().ToString());
  REQUIRE(outcome.ok());
  const auto& recorder = bench.recorder;
  CHECK(outcome->trials == recorder.trials.size());
  CHECK(outcome->judged > 50);
  CHECK(outcome->seconds <= 45);
  std::set<std::string> ids;
  for (const auto& trial : recorder.trials) {
    CHECK(ids.insert(trial.id()).second);
    CHECK(trial.task_id() == "task");
    CHECK(trial.policy() == "rules");
    CHECK(trial.verdict() != v1::VERDICT_UNSPECIFIED);
    if (trial.verdict() != v1::NOT_LOWERED) CHECK(trial.source_digest().size() == 64);
    if (trial.id() == "lease/1") continue;  // the start
    CHECK_FALSE(trial.specialist().empty());
    CHECK_FALSE(trial.action().empty());
    CHECK(trial.state().count("bytes_read") == 1);
    // The parent was recorded before, or is the start while that was being judged.
    CHECK((trial.parent_id() == "lease/1" || ids.count(trial.parent_id()) == 1));
  }
  // Judged once each.
  for (const auto& [digest, times] : bench.evaluator.digests) CHECK(times == 1);
  // Incumbents only get faster, and the last is the final measurement of the one before.
  REQUIRE(recorder.incumbents.size() >= 2);
  for (size_t i = 1; i < recorder.incumbents.size(); ++i) {
    CHECK(recorder.incumbents[i].trial().timing().median_us() <=
          recorder.incumbents[i - 1].trial().timing().median_us());
  }
  CheckChain(recorder.incumbents, "");
  const auto& last = recorder.incumbents.back();
  CHECK(last.trial().id() == recorder.incumbents[recorder.incumbents.size() - 2].trial().id());
  CHECK(bench.evaluator.finalised == 1);
  CHECK(last.speedup() == Approx(1000 / bench.evaluator.best_us));
  CHECK(last.solution().plans_size() == 1);
  CHECK(last.solution().problem_digest() == problem::Digest(bench.lease.problem()));
  CHECK(last.solution().generator() == codegen::kGeneratorVersion);
  CHECK(recorder.progress.front() == "opening");
  CHECK(recorder.progress.back() == "finalising");
}

TEST_CASE("the same seed and answers give the same run", "[agent]") {
  for (const char* policy : {"rules", "random", "fixed"}) {
    std::vector<std::string> digests[2];
    for (auto& run : digests) {
      Bench bench(Softmax(1024, 4096));
      bench.lease.set_policy(policy);
      bench.lease.set_seconds(8);
      REQUIRE(bench.Run().ok());
      for (const auto& trial : bench.recorder.trials) run.push_back(Bytes(trial));
    }
    CHECK(digests[0] == digests[1]);
    CHECK(digests[0].size() > 10);
  }
}

TEST_CASE("rules find the good region in a slice", "[agent]") {
  struct Case {
    v1::Problem problem;
    Landscape landscape;
  };
  Landscape softmax;
  softmax.block = 256, softmax.blocks_per_row = 16, softmax.blocks_per_sm = 3;
  Landscape pointwise;
  pointwise.block = 512, pointwise.blocks_per_sm = 4, pointwise.unroll = 2;
  Landscape norm;
  norm.block = 256, norm.blocks_per_row = 128, norm.blocks_per_sm = 2, norm.unroll = 1;
  Landscape columns;
  columns.block = 512, columns.unroll = 8;
  for (auto& [problem, landscape] :
       {Case{Softmax(4096, 393216), softmax}, Case{Gelu(1 << 28), pointwise},
        Case{Softmax(16, 4194304), norm}, Case{ColumnSum(128, 4096, 4095), columns}}) {
    Bench bench(problem, landscape);
    const auto outcome = bench.Run();
    REQUIRE(outcome.ok());
    INFO(problem.name() << ": " << bench.best_us() << " us after " << outcome->judged << " judged, "
                        << outcome->reason << ", "
                        << bench.recorder.incumbents.back().trial().schedule().DebugString());
    // The landscape's floor is 1.05 * 0.97 of light at the best knobs, which may not all be
    // possible.
    CHECK(bench.best_us() < 112);
  }
}

TEST_CASE("a slice ends when it should", "[agent]") {
  SECTION("budget") {
    Bench bench(Softmax(1024, 4096));
    bench.lease.set_seconds(3);
    const auto outcome = bench.Run();
    REQUIRE(outcome.ok());
    CHECK(outcome->reason == "budget spent");
    CHECK_FALSE(outcome->converged);
    CHECK(outcome->search_seconds < 6);
  }
  SECTION("budget, which is spent before the first start is judged") {
    Bench bench(Softmax(1024, 4096));
    bench.lease.set_seconds(0);
    bench.evaluator.forced[1] = v1::UNSTABLE;
    const auto outcome = bench.Run();
    REQUIRE(outcome.ok());
    CHECK(outcome->reason == "budget spent");
    CHECK(outcome->judged == 2);
    CHECK(bench.recorder.trials.back().action() == "after a start that was not right");
    CHECK_FALSE(bench.recorder.incumbents.empty());
  }
  SECTION("stopped") {
    Bench bench(Softmax(1024, 4096));
    bench.stop = true;
    const auto outcome = bench.Run();
    REQUIRE(outcome.ok());
    CHECK(outcome->reason == "stopped");
    CHECK(outcome->judged <= 1);
  }
  SECTION("speed of light") {
    Bench bench(Softmax(1024, 4096));
    bench.evaluator.light_us = 1e6;
    const auto outcome = bench.Run();
    REQUIRE(outcome.ok());
    CHECK(outcome->converged);
    CHECK(outcome->reason == "at the speed of light");
  }
  SECTION("nothing helps") {
    Bench bench(Gelu(1 << 20), [](const auto&) { return 150.0; });
    bench.lease.set_seconds(10000);
    const auto outcome = bench.Run();
    REQUIRE(outcome.ok());
    CHECK(outcome->converged);
    CHECK(outcome->judged < 200);
  }
}

TEST_CASE("what goes wrong is recorded and the work goes on", "[agent]") {
  SECTION("the default schedule is wrong") {
    Bench bench(Softmax(1024, 4096));
    bench.evaluator.forced[1] = v1::WRONG;
    REQUIRE(bench.Run().ok());
    CHECK(bench.recorder.trials.front().verdict() == v1::WRONG);
    CHECK_FALSE(bench.recorder.incumbents.empty());
  }
  SECTION("a product on tensor cores is wrong") {
    const auto starts_with = [](v1::Verdict verdict) {
      Bench bench(MakeProblem(
          "product", {"input x: bf16[1024, 1024] ~ normal", "param w: bf16[1024, 1024] ~ normal",
                      "s: f32[i: 1024, j: 1024] = sum[k: 1024](f32(x[i, k]) * "
                      "f32(w[j, k]))",
                      "y: bf16[i: 1024, j: 1024] = bf16(s[i, j])", "output y"}));
      for (int i = 1; i < 1000; ++i) bench.evaluator.forced[i] = verdict;
      REQUIRE(bench.Run().ok());
      const auto& trials = bench.recorder.trials;
      return std::count_if(trials.begin(), trials.end(), [](const v1::Trial& trial) {
        return trial.move().kind() == "start" && trial.schedule().groups_size() == 1 &&
               trial.schedule().groups(0).contract().math() == v1::PRODUCT_PLAIN;
      });
    };
    // There is no library for this card.
    CHECK(starts_with(v1::WRONG) == 1);
    CHECK(starts_with(v1::INACCURATE) == 1);
  }
  SECTION("nothing is ever right") {
    Bench bench(Softmax(1024, 4096), [](const auto&) { return 100.0; });
    for (int i = 1; i < 1000; ++i) bench.evaluator.forced[i] = v1::WRONG;
    const auto outcome = bench.Run();
    REQUIRE(outcome.ok());
    CHECK(bench.recorder.incumbents.empty());
    CHECK(bench.evaluator.finalised == 0);
  }
  SECTION("one failure of the judge") {
    Bench bench(Softmax(1024, 4096));
    bench.evaluator.forced[3] = v1::JUDGE_FAILED;
    CHECK(bench.Run().ok());
  }
  SECTION("a judge that always fails") {
    Bench bench(Softmax(1024, 4096));
    for (int i = 1; i < 1000; ++i) bench.evaluator.forced[i] = v1::JUDGE_FAILED;
    const auto outcome = bench.Run();
    CHECK(absl::IsUnavailable(outcome.status()));
    // Nothing of it may be judged as part of the next lease.
    CHECK(bench.evaluator.abandoned == 1);
  }
  SECTION("the judge fails on the incumbent of earlier slices") {
    Bench first(Softmax(1024, 4096));
    REQUIRE(first.Run().ok());
    Bench bench(Softmax(1024, 4096));
    bench.lease.set_seconds(3);
    *bench.lease.mutable_incumbent() = first.recorder.incumbents.back();
    bench.evaluator.forced[1] = v1::JUDGE_FAILED;
    REQUIRE(bench.Run().ok());
    const auto& start = bench.lease.incumbent().solution().schedule();
    bool judged = false;
    for (const auto& trial : bench.recorder.trials) {
      judged = judged ||
               (Bytes(trial.schedule()) == Bytes(start) && trial.verdict() != v1::JUDGE_FAILED);
    }
    CHECK(judged);
    CHECK(bench.evaluator.best_us <= first.evaluator.best_us);
  }
  SECTION("the incumbent does not pass at the end") {
    Bench bench(Softmax(1024, 4096));
    bench.evaluator.final_verdict = v1::UNSTABLE;
    const auto outcome = bench.Run();
    REQUIRE(outcome.ok());
    CHECK_THAT(outcome->reason, Catch::Contains("did not pass again"));
    CHECK_FALSE(outcome->converged);
    // It is not announced once more.
    std::set<std::string> announced;
    for (const auto& incumbent : bench.recorder.incumbents) {
      CHECK(announced.insert(incumbent.trial().id()).second);
    }
  }
  SECTION("an unknown policy") {
    Bench bench(Softmax(1024, 4096));
    bench.lease.set_policy("luck");
    CHECK(absl::IsInvalidArgument(bench.Run().status()));
  }
}

TEST_CASE("a search that fails still says what was refused", "[agent]") {
  Bench bench(Softmax(1024, 4096));
  bench.evaluator.allowance = 4096;
  for (int i = 3; i < 1000; ++i) bench.evaluator.forced[i] = v1::JUDGE_FAILED;
  Spy::Log log;
  Options options;
  options.make_policy = [&](const std::string& name, uint64_t seed) {
    return absl::StatusOr<std::unique_ptr<Policy>>(
        std::make_unique<Spy>(*MakePolicy(name, seed), &log));
  };
  CHECK(absl::IsUnavailable(bench.Run(options).status()));
  int judged = 0, refused = 0;
  for (const auto& trial : bench.recorder.trials) {
    const bool never = trial.verdict() == v1::NOT_LOWERED || trial.verdict() == v1::DUPLICATE;
    ++(never ? refused : judged);
  }
  const auto told = [&](v1::Verdict verdict) {
    return std::count(log.verdicts.begin(), log.verdicts.end(), verdict);
  };
  CHECK(refused > 0);
  CHECK(told(v1::NOT_LOWERED) + told(v1::DUPLICATE) == refused);
  // Nothing is said only of what was submitted and not answered.
  CHECK(told(v1::VERDICT_UNSPECIFIED) + judged == bench.evaluator.submitted);
}

TEST_CASE("the time of a call is the export's, or what the judge says where there is none",
          "[agent]") {
  for (const double exported_us : {0.0, 70.0}) {
    Bench bench(Softmax(1024, 4096));
    bench.lease.set_seconds(3);
    bench.evaluator.call_us = 50;
    bench.evaluator.exported.call_us = exported_us;
    REQUIRE(bench.Run().ok());
    CHECK(bench.recorder.incumbents.back().times().call_us() ==
          (exported_us > 0 ? exported_us : 50));
  }
}

TEST_CASE("what is not accurate enough is tried with other accumulators", "[agent]") {
  Bench bench(Softmax(1024, 4096));
  bench.evaluator.inaccurate = [](const v1::Schedule& schedule) {
    for (const auto& group : schedule.groups()) {
      if (group.precision().accumulator() != v1::ACCUMULATOR_F64) return true;
    }
    return false;
  };
  REQUIRE(bench.Run().ok());
  REQUIRE_FALSE(bench.recorder.incumbents.empty());
  // The start, what was under way with it, and the simpler start that its verdict called for.
  int accepted = 0;
  for (const auto& trial : bench.recorder.trials) {
    ++accepted;
    if (trial.verdict() == v1::ACCEPTED) break;
  }
  CHECK(accepted <= 11);
}

TEST_CASE("after a wrong start the next ones are judged before any move", "[agent]") {
  // Right is who does not round on the way, as where the reference's roundings miss its tolerance.
  Bench bench(MakeProblem(
      "chain",
      {"input x: bf16[1024, 4096] ~ normal", "h: bf16[r: 1024, c: 4096] = bf16(exp(f32(x[r, c])))",
       "y: bf16[r: 1024, c: 4096] = bf16(f32(h[r, c]) + 1.0)", "output y"}));
  bench.evaluator.wrong = [](const v1::Schedule& schedule) {
    return !schedule.groups(0).precision().unrounded();
  };
  REQUIRE(bench.Run().ok());
  REQUIRE_FALSE(bench.recorder.incumbents.empty());
  CHECK(bench.evaluator.abandoned >= 1);
  int again = 0;
  for (const auto& trial : bench.recorder.trials) {
    if (trial.action() == "after a start that was not right") ++again;
    if (trial.verdict() == v1::ACCEPTED) {
      CHECK(trial.schedule().groups(0).precision().unrounded());
      break;
    }
    if (again > 0) CHECK(trial.action() == "after a start that was not right");
  }
  CHECK(again >= 1);
}

TEST_CASE("beside a start that is right by chance who is nearer to the truth is tried", "[agent]") {
  Bench bench(MakeProblem(
      "chain",
      {"input x: bf16[1024, 4096] ~ normal", "h: bf16[r: 1024, c: 4096] = bf16(exp(f32(x[r, c])))",
       "y: bf16[r: 1024, c: 4096] = bf16(f32(h[r, c]) + 1.0)", "output y"}));
  const bool nearer = GENERATE(true, false);  // whether anybody is
  bench.evaluator.even = [&](const v1::Schedule& schedule) {
    return !nearer || !schedule.groups(0).precision().unrounded();
  };
  REQUIRE(bench.Run().ok());
  int tried = 0;
  for (const auto& trial : bench.recorder.trials)
    tried += trial.action() == "nearer to the truth than a start that is right by chance";
  CHECK(tried >= 1);
  CHECK(tried <= 4);
  REQUIRE_FALSE(bench.recorder.incumbents.empty());
  CHECK(bench.recorder.incumbents.back().trial().accuracy().even() == !nearer);
}

TEST_CASE("products go in one pass where what is replaced rounds their factors", "[agent]") {
  struct Case {
    double error;             // of what is replaced
    const char *type, *cast;  // of the answer
  };
  for (const Case& c : {Case{1e-3, "f32", ""}, Case{1e-6, "f32", ""}, Case{1e-2, "bf16", "bf16"}}) {
    INFO(c.error << c.type);
    Bench bench(MakeProblem(
        "windows",
        {"input x: f32[16, 64, 66, 66] ~ normal", "input w: f32[128, 64, 3, 3] ~ normal",
         "s: f32[n: 16, o: 128, i: 64, j: 64] = sum[c: 64, u: 3, v: 3](x[n, c, i + u, j + v] * "
         "w[o, c, u, v])",
         absl::StrCat("y: ", c.type, "[n: 16, o: 128, i: 64, j: 64] = ", c.cast,
                      "(max(s[n, o, i, j], 0.0))"),
         "c: i64[n: 16] = 1", "output y", "output c"}));  // and a count, of which no error is told
    bench.evaluator.reference_error = c.error;
    REQUIRE(bench.Run().ok());
    int tried = 0;
    for (const auto& trial : bench.recorder.trials) {
      if (trial.action() != "products in one pass, where what is replaced rounds their factors")
        continue;
      ++tried;
      CHECK(trial.schedule().groups(0).contract().math() == v1::PRODUCT_FP16);
      CHECK(trial.schedule().groups(0).contract().ties() == 3 - tried);  // away first
    }
    CHECK(tried == (c.error == 1e-3 ? 2 : 0));
  }
}

TEST_CASE("convolutions whose errors do not show are tried in one pass behind the default",
          "[agent]") {
  struct Case {
    std::vector<std::string> lines;
    bool convolves;
  };
  for (const Case& c :
       {Case{{"input x: f32[16, 64, 66, 66] ~ normal", "input w: f32[128, 64, 3, 3] ~ normal",
              "s: f32[n: 16, o: 128, i: 64, j: 64] = sum[c: 64, u: 3, v: 3](x[n, c, i + u, j + v] "
              "* w[o, c, u, v])",
              "y: f32[n: 16, o: 128, i: 64, j: 64] = 1 / (1 + exp(-s[n, o, i, j] / 1024))",
              "output y"},
             true},
        Case{{"input x: f32[1024, 1024] ~ normal", "input w: f32[1024, 1024] ~ normal",
              "y: f32[i: 1024, j: 1024] = sum[k: 1024](x[i, k] * w[j, k])", "output y"},
             false}}) {
    INFO(c.lines.back() << c.convolves);
    Bench bench(MakeProblem("hidden", c.lines));
    bench.evaluator.reference_error = 1e-7;
    REQUIRE(bench.Run().ok());
    const auto& trials = bench.recorder.trials;
    REQUIRE(trials.size() > 1);
    CHECK(trials[0].action() == "the default schedule");
    const bool second =
        trials[1].action() == "products in one pass, whose roundings what follows may hide";
    CHECK(second == c.convolves);
    if (!second) continue;
    CHECK(trials[1].schedule().groups(0).contract().math() == v1::PRODUCT_FP16);
    CHECK(trials[1].schedule().groups(0).precision().fast_math());
  }
}

TEST_CASE("who is right of products in one pass and the default is what a search goes on with",
          "[agent]") {
  struct Case {
    bool one_pass, others;  // are wrong
  };
  for (const Case& c : {Case{true, false}, Case{false, true}, Case{true, true}}) {
    INFO(c.one_pass << c.others);
    Bench bench(MakeProblem(
        "windows",
        {"input x: f32[16, 64, 66, 66] ~ normal", "input w: f32[128, 64, 3, 3] ~ normal",
         "s: f32[n: 16, o: 128, i: 64, j: 64] = sum[c: 64, u: 3, v: 3](x[n, c, i + u, j + v] * "
         "w[o, c, u, v])",
         "output s"}));
    bench.evaluator.reference_error = 1e-3;
    bench.evaluator.wrong = [&](const v1::Schedule& schedule) {
      return schedule.groups(0).contract().math() == v1::PRODUCT_FP16 ? c.one_pass : c.others;
    };
    REQUIRE(bench.Run().ok());
    const auto& trials = bench.recorder.trials;
    const auto again = std::count_if(trials.begin(), trials.end(), [](const v1::Trial& trial) {
      return trial.action() == "after a start that was not right";
    });
    CHECK((again > 0) == (c.one_pass && c.others));
    REQUIRE(bench.recorder.incumbents.empty() == (c.one_pass && c.others));
    if (bench.recorder.incumbents.empty()) continue;
    const v1::Schedule& best = bench.recorder.incumbents.back().solution().schedule();
    CHECK((best.groups(0).contract().math() == v1::PRODUCT_FP16) == c.others);
    if (!c.others) continue;
    // In a later slice it is found wrong, which the other ties are not.
    const int ties = best.groups(0).contract().ties();
    Bench later(bench.lease.problem());
    *later.lease.mutable_incumbent() = bench.recorder.incumbents.back();
    later.evaluator.reference_error = 1e-3;
    later.evaluator.wrong = [&](const v1::Schedule& schedule) {
      const v1::ContractKnobs& knobs = schedule.groups(0).contract();
      return knobs.math() != v1::PRODUCT_FP16 || knobs.ties() == ties;
    };
    REQUIRE(later.Run().ok());
    const auto found =
        std::find_if(later.recorder.trials.begin(), later.recorder.trials.end(),
                     [](const v1::Trial& trial) { return trial.verdict() == v1::ACCEPTED; });
    REQUIRE(found != later.recorder.trials.end());
    CHECK(found->schedule().groups(0).contract().ties() == 3 - ties);
  }
}

TEST_CASE("who is nearer to the truth is told though earlier slices found something", "[agent]") {
  const v1::Problem problem =
      MakeProblem("chain", {"input x: bf16[1024, 4096] ~ normal",
                            "h: bf16[r: 1024, c: 4096] = bf16(exp(f32(x[r, c])))",
                            "y: bf16[r: 1024, c: 4096] = bf16(f32(h[r, c]) + 1.0)", "output y"});
  const auto unrounded = [](const v1::Schedule& schedule) {
    return schedule.groups(0).precision().unrounded();
  };
  Bench before(problem);
  before.evaluator.wrong = unrounded;
  before.evaluator.even = [](const v1::Schedule&) { return true; };
  REQUIRE(before.Run().ok());
  REQUIRE_FALSE(before.recorder.incumbents.empty());
  const v1::Incumbent& found = before.recorder.incumbents.back();
  CHECK(found.trial().accuracy().even());
  Bench now(problem);
  *now.lease.mutable_incumbent() = found;
  now.evaluator.even = [&](const v1::Schedule& schedule) { return !unrounded(schedule); };
  REQUIRE(now.Run().ok());
  REQUIRE_FALSE(now.recorder.incumbents.empty());
  CHECK_FALSE(now.recorder.incumbents.back().trial().accuracy().even());
  CheckChain(now.recorder.incumbents, found.trial().id());
}

TEST_CASE("moves go on from the best where a start beside it is worse", "[agent]") {
  const v1::Problem problem =
      MakeProblem("chain", {"input x: bf16[1024, 4096] ~ normal",
                            "h: bf16[r: 1024, c: 4096] = bf16(exp(f32(x[r, c])))",
                            "y: bf16[r: 1024, c: 4096] = bf16(f32(h[r, c]) + 1.0)", "output y"});
  const auto gains = [&](bool even) {
    Bench bench(problem);
    bench.evaluator.even = [even](const v1::Schedule&) { return even; };
    bench.evaluator.wrong = [](const v1::Schedule& schedule) {
      return schedule.groups(0).precision().unrounded();
    };
    REQUIRE(bench.Run().ok());
    return bench.best_us();
  };
  CHECK(gains(true) <= 1.02 * gains(false));
}

TEST_CASE("after a wrong start no two products are made together that tensor cores would not",
          "[agent]") {
  const v1::Problem problem = MakeProblem(
      "gate",
      {"input x: bf16[512, 1024] ~ normal", "param w: bf16[2048, 1024] ~ normal",
       "param v: bf16[2048, 1024] ~ normal", "h: bf16[m: 512, k: 1024] = bf16(exp(f32(x[m, k])))",
       "s: f32[m: 512, n: 2048] = sum[k: 1024](f32(h[m, k]) * f32(w[n, k]))",
       "g: bf16[m: 512, n: 2048] = bf16(s[m, n])",
       "t: f32[m: 512, n: 2048] = sum[k: 1024](f32(h[m, k]) * f32(v[n, k]))",
       "u: bf16[m: 512, n: 2048] = bf16(t[m, n])",
       "y: bf16[m: 512, n: 2048] = bf16(max(f32(g[m, n]), 0.0) * f32(u[m, n]))", "output y"});
  Bench bench(problem);
  bench.evaluator.wrong = [](const v1::Schedule&) { return true; };
  REQUIRE(bench.Run().ok());
  std::vector<v1::Schedule> starts;
  for (const auto& trial : bench.recorder.trials) {
    if (trial.move().kind() == "start") starts.push_back(trial.schedule());
  }
  auto graph = problem::GraphOf(problem, problem.workloads(0));
  REQUIRE(graph.ok());
  REQUIRE(starts.size() >= 4);
  const auto products = [&](const v1::Schedule& schedule) {
    std::vector<v1::ProductMath> of;
    const auto groups = codegen::Describe(*graph, schedule, bench.target);
    REQUIRE(groups.ok());
    for (const codegen::GroupInfo& group : *groups) {
      if (group.skeleton == v1::Group::kContract) of.push_back(group.resolved.contract().math());
    }
    return of;
  };
  CHECK(products(starts[0]) == std::vector<v1::ProductMath>{v1::PRODUCT_TENSOR});
  for (const v1::Schedule& start : starts) {
    INFO(start.DebugString());
    const auto of = products(start);
    CHECK((of.size() != 1 || of[0] == v1::PRODUCT_TENSOR));
  }
}

TEST_CASE("after a wrong start no product is made twice", "[agent]") {
  // What the end makes could be a kernel's own, with the product again.
  const v1::Problem problem = MakeProblem(
      "backward of gelu",
      {"input x: bf16[1576, 768] ~ normal", "param w: bf16[3072, 768] ~ normal",
       "input d: bf16[1576, 3072] ~ normal",
       "s: f32[m: 1576, n: 3072] = sum[k: 768](f32(x[m, k]) * f32(w[n, k]))",
       "h: bf16[m: 1576, n: 3072] = bf16(s[m, n])",
       "a: f32[m: 1576, n: 3072] = erf(f32(h[m, n]) * 0.7) + 1.0",
       "b: f32[m: 1576, n: 3072] = exp(f32(h[m, n]) * f32(h[m, n]) * -0.5)",
       "c: f32[m: 1576, n: 3072] = f32(d[m, n]) * (a[m, n] * 0.5 + f32(h[m, n]) * b[m, n])",
       "t: f32[n: 3072] = sum[m: 1576](c[m, n])", "g: bf16[m: 1576, n: 3072] = bf16(c[m, n])",
       "output g, t"});
  auto graph = problem::GraphOf(problem, problem.workloads(0));
  REQUIRE(graph.ok());
  codegen::Target target;
  StartsAfterWrong starts(
      std::make_shared<const graph::Graph>(*graph), target,
      [&](const v1::Schedule& s) { return codegen::Describe(*graph, s, target).ok(); });
  int seen = 0;
  while (const auto start = starts.Next()) {
    INFO(start->DebugString());
    auto rewritten = codegen::Rewrite(*graph, start->rewrites());
    REQUIRE(rewritten.ok());
    const auto groups = codegen::Describe(*rewritten, *start, target);
    REQUIRE(groups.ok());
    CHECK(std::count_if(groups->begin(), groups->end(), [](const auto& group) {
            return group.skeleton == v1::Group::kContract;
          }) == 1);
    ++seen;
  }
  CHECK(seen >= 8);
}

TEST_CASE("after a wrong start sums read what a product has rounded as it was before", "[agent]") {
  const v1::Problem problem = MakeProblem(
      "gradients", {"input x: bf16[2048, 1024] ~ normal", "input r: f32[2048, 1024] ~ normal",
                    "param w: bf16[1024, 1024] ~ normal",
                    "t: f32[m: 2048] = sum[k: 1024](f32(x[m, k]) * r[m, k])",
                    "a: f32[m: 2048, k: 1024] = exp(f32(x[m, k])) * r[m, k] - t[m]",
                    "h: bf16[m: 2048, k: 1024] = bf16(a[m, k])",
                    "s: f32[m: 2048, n: 1024] = sum[k: 1024](f32(h[m, k]) * f32(w[n, k]))",
                    "y: bf16[m: 2048, n: 1024] = bf16(s[m, n])",
                    "b: f32[k: 1024] = sum[m: 2048](f32(h[m, k]))", "output y, b"});
  auto graph = problem::GraphOf(problem, problem.workloads(0));
  REQUIRE(graph.ok());
  codegen::Target target;
  const auto lowers = [](const v1::Schedule&) { return true; };
  bool found = false;
  StartsAfterWrong starts(std::make_shared<const graph::Graph>(*graph), target, lowers);
  while (const auto next = starts.Next()) {
    const v1::Schedule& start = *next;
    if (absl::StrJoin(start.rewrites(), " ") != "own_rounding:b") continue;
    found = true;
    INFO(start.DebugString());
    auto rewritten = codegen::Rewrite(*graph, start.rewrites());
    REQUIRE(rewritten.ok());
    const auto groups = codegen::Describe(*rewritten, start, target);
    REQUIRE(groups.ok());
    bool product = false;
    for (int g = 0; g < start.groups_size(); ++g) {
      CHECK(start.groups(g).precision().unrounded());
      const auto& roots = start.groups(g).roots();
      if (absl::StrJoin(roots, "+") != "y") continue;
      product = (*groups)[g].resolved.contract().math() == v1::PRODUCT_TENSOR;
    }
    CHECK(product);
  }
  CHECK(found);
}

// Its answer is read in fp32 alone, but one kernel writes it as 16 bits.
TEST_CASE("after a wrong start attention keeps digits in one kernel", "[agent]") {
  // Queries are there, or made by a product.
  const bool made = GENERATE(false, true);
  std::vector<std::string> lines = {"input x: f16[64, 256, 64] ~ normal"};
  if (made) {
    lines = {"input u: f16[64, 256, 512] ~ normal", "param w: f16[64, 512] ~ normal",
             "u.sum: f32[h: 64, q: 256, d: 64] = sum[k: 512](f32(u[h, q, k]) * f32(w[d, k]))",
             "x: f16[h: 64, q: 256, d: 64] = f16(u.sum[h, q, d])"};
  }
  const std::vector<std::string> rest = {
      "input y: f16[64, 256, 64] ~ normal",
      "input v: f16[64, 256, 64] ~ normal",
      "a.sum: f32[h: 64, q: 256, k: 256] = sum[d: 64](f32(x[h, q, d]) * "
      "f32(y[h, k, d]))",
      "a: f16[h: 64, q: 256, k: 256] = f16(a.sum[h, q, k])",
      "b: f16[h: 64, q: 256, k: 256] = f16(f32(a[h, q, k]) * 0.3)",
      "s: f32[h: 64, q: 256, k: 256] = f32(b[h, q, k])",
      "m: f32[h: 64, q: 256] = max[k: 256](s[h, q, k])",
      "e: f32[h: 64, q: 256, k: 256] = exp(s[h, q, k] - m[h, q])",
      "l: f32[h: 64, q: 256] = sum[k: 256](e[h, q, k])",
      "p: f16[h: 64, q: 256, k: 256] = f16(e[h, q, k] / l[h, q])",
      "o: f32[h: 64, q: 256, n: 64] = sum[k: 256](f32(p[h, q, k]) * f32(v[h, k, n]))",
      "r: f16[h: 64, q: 256, n: 64] = f16(o[h, q, n])",
      "z: f32[h: 64, q: 256, n: 64] = f32(r[h, q, n])",
      "output z"};
  lines.insert(lines.end(), rest.begin(), rest.end());
  const v1::Problem problem = MakeProblem("attention", lines);
  auto graph = problem::GraphOf(problem, problem.workloads(0));
  INFO(graph.status().message());
  REQUIRE(graph.ok());
  const codegen::Target target;
  StartsAfterWrong starts(std::make_shared<const graph::Graph>(*graph), target,
                          [](const v1::Schedule&) { return true; });
  int kept = 0;
  for (int i = 0; i < 4; ++i) {
    const auto start = starts.Next();
    REQUIRE(start.has_value());
    INFO(start->DebugString());
    const auto groups = codegen::Describe(*graph, *start, target);
    REQUIRE(groups.ok());
    int attends = 0;
    for (int g = 0; g < start->groups_size(); ++g) {
      if ((*groups)[g].skeleton != v1::Group::kAttend) continue;
      ++attends;
      kept += start->groups(g).precision().unrounded();
    }
    CHECK(attends == 1);
  }
  CHECK(kept > 0);
}

TEST_CASE("without roundings what is read in fp32 alone is stored so", "[agent]") {
  const auto stored = [](const std::vector<std::string>& behind) {
    std::vector<std::string> lines = {
        "input x: bf16[256, 512] ~ normal",
        "param w: bf16[512, 384] ~ normal",
        "input r: f32[256, 384] ~ normal",
        "s: f32[m: 256, n: 384] = sum[k: 512](f32(x[m, k]) * f32(w[k, n]))",
        "h: bf16[m: 256, n: 384] = bf16(s[m, n])",
        "g: f32[m: 256, n: 384] = f32(h[m, n])",
        "t: f32[n: 384] = sum[m: 256](g[m, n] * r[m, n])",
        "y: bf16[m: 256, n: 384] = bf16(g[m, n] - t[n])"};
    lines.insert(lines.end(), behind.begin(), behind.end());
    const v1::Problem problem = MakeProblem("digits", lines);
    auto graph = problem::GraphOf(problem, problem.workloads(0));
    REQUIRE(graph.ok());
    const codegen::Target target;
    v1::Schedule schedule;
    for (const char* root : {"h", "t", "y"}) schedule.add_groups()->add_roots(root);
    for (const char* root : {"v", "u"}) {
      if (graph->Find(root) >= 0) schedule.add_groups()->add_roots(root);
    }
    const v1::Schedule unrounded = Unrounded(*graph, schedule, true);
    REQUIRE(codegen::Lower(*graph, unrounded, target).status().message() == "");
    CHECK(unrounded.groups(0).precision().unrounded());
    return unrounded.groups(0).roots(0);
  };
  CHECK(stored({"output y"}) == "g");
  CHECK(stored({"output y", "output h"}) == "h");
  // What is stored already is not stored twice.
  CHECK(stored({"v: bf16[m: 256, n: 384] = bf16(s[m, n])",
                "u: f32[n: 384] = sum[m: 256](f32(v[m, n]) * f32(h[m, n]))", "output y",
                "output u"}) == "s");
  // Read in more ways than one: as it is before it is rounded.
  CHECK(stored({"v: f32[n: 384] = sum[m: 256](f32(h[m, n]))", "output y", "output v"}) == "s");
}

TEST_CASE("without roundings what maps make of 16 bits is read before it was rounded", "[agent]") {
  const v1::Problem problem = MakeProblem(
      "digits", {"input x: bf16[256, 512] ~ normal", "param w: bf16[512, 384] ~ normal",
                 "param b: bf16[384] ~ normal",
                 "s: f32[m: 256, n: 384] = sum[k: 512](f32(x[m, k]) * f32(w[k, n]))",
                 "h: bf16[m: 256, n: 384] = bf16(s[m, n])",
                 "q: bf16[m: 256, n: 384] = bf16(f32(h[m, n]) * 0.5)",
                 "a: f32[m: 256, n: 384] = f32(q[m, n]) * f32(b[n])",
                 "c: bf16[m: 256, n: 384] = bf16(a[m, n])", "t: f32[n: 384] = sum[m: 256](a[m, n])",
                 "y: f32[m: 256, k: 512] = sum[n: 384](f32(c[m, n]) * f32(w[k, n]))",
                 "z: bf16[m: 256, k: 512] = bf16(y[m, k])", "output z", "output t"});
  auto graph = problem::GraphOf(problem, problem.workloads(0));
  REQUIRE(graph.ok());
  v1::Schedule schedule;
  schedule.add_groups()->add_roots("q");
  schedule.add_groups()->add_roots("a");
  schedule.add_groups()->add_roots("c");
  schedule.mutable_groups(2)->add_roots("t");
  schedule.add_groups()->add_roots("z");
  const v1::Schedule unrounded = Unrounded(*graph, schedule, true);
  std::vector<std::string> roots;
  for (const v1::Group& group : unrounded.groups()) {
    roots.push_back(absl::StrJoin(group.roots(), "+"));
    CHECK(group.precision().unrounded());
  }
  CHECK(roots == std::vector<std::string>{"s", "a", "t", "z"});
  CHECK(codegen::Lower(*graph, unrounded, codegen::Target()).status().message() == "");
  // But for factors of products, which are made of it as they were.
  roots.clear();
  const v1::Schedule as_quick = Unrounded(*graph, schedule, false);
  for (const v1::Group& group : as_quick.groups())
    roots.push_back(absl::StrJoin(group.roots(), "+"));
  CHECK(roots == std::vector<std::string>{"s", "a", "c+t", "z"});
  CHECK(codegen::Lower(*graph, as_quick, codegen::Target()).status().message() == "");
}

TEST_CASE("what is not accurate enough is made more accurate, never less", "[agent]") {
  // Compensated from the start, and that is not enough.
  Bench bench(Softmax(1024, 4096));
  bench.evaluator.inaccurate = [](const v1::Schedule&) { return true; };
  auto& incumbent = *bench.lease.mutable_incumbent()->mutable_solution()->mutable_schedule();
  auto graph = problem::GraphOf(bench.lease.problem(), bench.lease.problem().workloads(0));
  REQUIRE(graph.ok());
  incumbent = codegen::DefaultSchedule(*graph, bench.target);
  bench.lease.mutable_incumbent()->mutable_solution()->set_generator(codegen::kGeneratorVersion);
  auto& precision = *incumbent.mutable_groups(0)->mutable_precision();
  precision.set_accumulator(v1::ACCUMULATOR_COMPENSATED);
  precision.set_fast_math(true);
  bench.lease.set_seconds(5);
  REQUIRE(bench.Run().ok());
  std::vector<std::string> moves;
  for (const auto& trial : bench.recorder.trials) {
    if (trial.specialist() != "precision" || trial.parent_id() != "lease/1") continue;
    moves.push_back(trial.action());
  }
  REQUIRE(moves.size() >= 2);
  CHECK_THAT(moves[0] + moves[1], Catch::Contains("-> f64"));
  CHECK_THAT(moves[0] + moves[1], Catch::Contains("fast_math yes -> no"));
}

TEST_CASE("a schedule of another generator is not gone on from", "[agent]") {
  Bench bench(Softmax(1024, 4096));
  auto& solution = *bench.lease.mutable_incumbent()->mutable_solution();
  auto graph = problem::GraphOf(bench.lease.problem(), bench.lease.problem().workloads(0));
  REQUIRE(graph.ok());
  *solution.mutable_schedule() = codegen::OpByOpSchedule(*graph, bench.target);
  solution.set_generator("2");
  bench.lease.set_seconds(1);
  REQUIRE(bench.Run().ok());
  CHECK(bench.recorder.trials.front().action() == "the default schedule");
}

TEST_CASE("a second slice goes on from the first", "[agent]") {
  Bench first(Softmax(4096, 393216));
  first.lease.set_seconds(6);
  REQUIRE(first.Run().ok());
  Bench second(Softmax(4096, 393216));
  second.lease.set_id("lease2");
  *second.lease.mutable_incumbent() = first.recorder.incumbents.back();
  std::set<std::string> before;
  for (const auto& trial : first.recorder.trials) {
    if (before.insert(trial.source_digest()).second) {
      second.lease.add_judged_sources(trial.source_digest());
    }
  }
  REQUIRE(second.Run().ok());
  int starts = 0;
  for (const auto& trial : second.recorder.trials) {
    if (trial.specialist().empty()) {
      // What there is already is judged again, here and now.
      ++starts;
      CHECK(Bytes(trial.schedule()) ==
            Bytes(first.recorder.incumbents.back().solution().schedule()));
    } else if (before.count(trial.source_digest()) > 0) {
      CHECK(trial.verdict() == v1::DUPLICATE);
    }
  }
  CHECK(starts == 1);
  // What the first found is not news of the second.
  for (const auto& incumbent : second.recorder.incumbents) {
    CHECK(incumbent.trial().timing().median_us() < first.best_us());
  }
  REQUIRE_FALSE(second.recorder.incumbents.empty());
  CheckChain(second.recorder.incumbents, first.recorder.incumbents.back().trial().id());
}

TEST_CASE("what the judge would refuse for its workspace is not submitted", "[agent]") {
  for (const bool limited : {false, true}) {
    Bench bench(Softmax(1024, 4096));
    if (limited) bench.evaluator.allowance = 4096;
    REQUIRE(bench.Run().ok());
    const auto& workspaces = bench.evaluator.workspaces;
    CHECK((*std::max_element(workspaces.begin() + 1, workspaces.end()) > 4096) == !limited);
    int refused = 0;
    for (const auto& trial : bench.recorder.trials) {
      refused += trial.reason().find("there are 4096 for it") != std::string::npos;
      if (refused > 0 && trial.reason().find("workspace") != std::string::npos) {
        CHECK(trial.verdict() == v1::NOT_LOWERED);
      }
    }
    CHECK((refused > 0) == limited);
  }
}

TEST_CASE("speedups are of calls, not of the device's times that the search races on", "[agent]") {
  v1::BaselineReport report;
  auto& baseline = *report.add_baselines();
  baseline.set_name("eager");
  baseline.mutable_times()->set_device_us(2);
  baseline.mutable_times()->set_graph_us(200);
  baseline.set_accurate(true);
  v1::Incumbent incumbent;
  incumbent.mutable_trial()->mutable_timing()->set_median_us(1);
  incumbent.mutable_times()->set_graph_us(50);
  SetBaselines(report, incumbent);
  CHECK(incumbent.speedup() == Approx(4));
  CHECK(incumbent.speedup_eager() == Approx(4));
  SetBaselines({}, incumbent);
  CHECK(incumbent.speedup() == 0);
}

}  // namespace
}  // namespace warpsmith::agent
