#include "worker/agent/policy.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <deque>
#include <map>
#include <random>
#include <set>
#include <utility>

#include "worker/agent/draw.h"
#include "worker/agent/moves.h"
#include "worker/agent/optimiser.h"
#include "worker/agent/test_problems.h"
#include "worker/codegen/plan/entry.h"

namespace warpsmith::agent {
namespace {

std::shared_ptr<Node> NodeOf(const v1::Problem& problem) {
  const codegen::Target target;
  auto graph = problem::GraphOf(problem, problem.workloads(0));
  REQUIRE(graph.ok());
  auto shared = std::make_shared<const graph::Graph>(*std::move(graph));
  auto state = MakeState(shared, codegen::DefaultSchedule(*shared, target), target);
  REQUIRE(state.ok());
  auto node = std::make_shared<Node>();
  node->state = *std::move(state);
  return node;
}

// How often each move is proposed, and with which probability it says that it is.
struct Draws {
  std::map<std::string, int> count;
  std::map<std::string, double> probability;
  int all = 0;

  void Add(const Proposal& proposal) {
    const std::string move = Bytes(proposal.action.schedule);
    ++count[move];
    ++all;
    probability[move] = proposal.probability;
  }
  // Every frequency within five standard deviations of what was said, and the whole by chi squared
  // within five of its mean.
  void Check() const {
    double chi = 0;
    for (const auto& [move, p] : probability) {
      const double expected = p * all, sigma = std::sqrt(expected * (1 - p));
      INFO(count.at(move) << " times of " << all << ", expected " << expected);
      CHECK(std::abs(count.at(move) - expected) <= 5 * sigma + 1);
      chi += (count.at(move) - expected) * (count.at(move) - expected) / expected;
    }
    const double freedom = static_cast<double>(probability.size());
    CHECK(chi <= freedom + 5 * std::sqrt(2 * freedom) + 5);
  }
};

TEST_CASE("the random policy's probabilities are those of its draws", "[agent]") {
  History history;
  history.Start(NodeOf(Softmax(1024, 4096)));
  auto policy = MakePolicy("random", 7);
  REQUIRE(policy.ok());
  Draws draws;
  for (int i = 0; i < 40000; ++i) draws.Add((*policy)->Propose(history).value());
  draws.Check();
  double sum = 0;
  for (const auto& [move, p] : draws.probability) sum += p;
  CHECK(sum == Approx(1));
  CHECK(draws.probability.size() > 20);
  // With some of them tried the others share what is left.
  for (int s : {0, 3}) {
    for (const auto& action : history.Moves(*history.best())[s]) history.Claim(action.schedule);
  }
  Draws left;
  for (int i = 0; i < 20000; ++i) left.Add((*policy)->Propose(history).value());
  left.Check();
  CHECK(left.probability.size() < draws.probability.size());
}

TEST_CASE("the rules' probabilities are those of their draws", "[agent]") {
  History history;
  history.Start(NodeOf(Softmax(1024, 4096)));
  Draws draws;
  for (int seed = 0; seed < 4000; ++seed) {
    auto policy = MakePolicy("rules", seed);
    draws.Add((*policy)->Propose(history).value());
  }
  draws.Check();
  double sum = 0;
  for (const auto& [move, p] : draws.probability) sum += p;
  CHECK(sum == Approx(1).margin(0.02));
}

TEST_CASE("moves on from a start are weighed anew when its groups' times are known", "[agent]") {
  History history;
  const codegen::Target target;
  const v1::Problem problem = Softmax(1024, 4096);
  auto graph = problem::GraphOf(problem, problem.workloads(0));
  auto shared = std::make_shared<const graph::Graph>(*std::move(graph));
  auto state = MakeState(shared, codegen::OpByOpSchedule(*shared, target), target);
  REQUIRE(state.ok());
  auto start = std::make_shared<Node>();
  start->state = *std::move(state);
  start->state.light_us = 5;
  history.Start(start);
  // The most that is expected of layouts of a group.
  const auto expected = [&](const std::string& group) {
    double most = 0;
    for (const auto& moves : history.Moves(*start)) {
      for (const Action& action : moves) {
        if (action.group == group && action.kind == "layout") most = std::max(most, action.prior);
      }
    }
    return most;
  };
  const double before_m = expected("m"), before_s = expected("s");
  REQUIRE(before_m > 0);
  REQUIRE(before_s > 0);
  start->state.time_us = 100;
  v1::Profile profile;
  for (const char* root : {"m", "e", "s", "y"}) {
    auto& kernel = *profile.add_kernels();
    kernel.set_entry(codegen::EntryPrefix(shared->Find(root)) + root);
    kernel.set_us(root[0] == 's' ? 97 : 1);
  }
  TakeTimes(start->state, profile, 0);
  history.Add(start, true);
  CHECK(expected("s") > 4 * before_s);
  CHECK(expected("m") < before_m);
}

TEST_CASE("what is right by the draw is left, or made more accurate", "[agent]") {
  History history;
  auto start = NodeOf(Softmax(1024, 4096));
  start->state.time_us = 10;
  history.Start(start);
  history.Add(start, true);
  // Quicker with approximate functions, by little.
  auto lucky = std::make_shared<Node>();
  v1::Schedule approximate = start->state.schedule;
  for (auto& group : *approximate.mutable_groups())
    group.mutable_precision()->set_fast_math(!group.precision().fast_math());
  auto state = MakeState(start->state, approximate);
  REQUIRE(state.ok());
  lucky->state = *std::move(state);
  lucky->state.time_us = 9.9;
  history.Claim(approximate);
  history.Add(lucky, true);

  auto policy = MakePolicy("rules", 3);
  REQUIRE(policy.ok());
  int wrong = 0;
  for (int i = 0; i < 200 && !lucky->doubtful(); ++i) {
    const Proposal proposal = (*policy)->Propose(history).value();
    history.Claim(proposal.action.schedule);
    Result result;
    result.verdict = proposal.from == lucky ? v1::WRONG : v1::SLOWER;
    result.right = proposal.from != lucky;
    (*policy)->Learn(proposal, result);
    wrong += proposal.from == lucky ? 1 : 0;
  }
  CHECK(wrong >= 6);
  REQUIRE(lucky->doubtful());
  CHECK_FALSE(start->doubtful());
  for (int i = 0; i < 20; ++i) {
    const Proposal proposal = (*policy)->Propose(history).value();
    CHECK((proposal.from == start || proposal.action.accuracy > 0));
    history.Claim(proposal.action.schedule);
  }
}

TEST_CASE("the fixed policy could propose no other move", "[agent]") {
  History history;
  history.Start(NodeOf(Softmax(1024, 4096)));
  auto policy = MakePolicy("fixed", 1);
  for (int i = 0; i < 5; ++i) CHECK((*policy)->Propose(history)->probability == 1);
}

TEST_CASE("the probability of the largest of several draws", "[agent]") {
  struct Case {
    const char* what;
    std::vector<Uniform> draws;
    std::vector<double> expected;
  };
  const Case cases[] = {
      {"one", {{1, 2}}, {1}},
      {"two alike", {{0, 1}, {0, 1}}, {0.5, 0.5}},
      {"apart", {{0, 1}, {2, 1}}, {0, 1}},
      {"half above", {{0, 1}, {0.5, 1}}, {0.125, 0.875}},
      {"one that is certain", {{0, 1}, {0.25, 0}}, {0.75, 0.25}},
      {"equals that are certain", {{1, 0}, {1, 0}}, {1, 0}},
      {"four alike", {{0, 1}, {0, 1}, {0, 1}, {0, 1}}, {0.25, 0.25, 0.25, 0.25}},
  };
  for (const Case& c : cases) {
    for (size_t i = 0; i < c.draws.size(); ++i) {
      INFO(c.what << ", " << i);
      CHECK(ProbabilityOfLargest(c.draws, static_cast<int>(i)) ==
            Approx(c.expected[i]).margin(1e-3));
    }
  }
  for (int i = 0; i < 100; ++i) CHECK(ProbabilityOfLargest({{0.01 * i, 0.05}}, 0) <= 1);
}

struct Silent : Reporter {
  void OnTrial(const v1::Trial&) override { ++trials; }
  void OnIncumbent(const v1::Incumbent&) override {}
  void OnProgress(const std::string&) override {}
  int trials = 0;
};

// Holds answers back as a device does, so that several are awaited when the slice ends.
class Slow : public SyntheticEvaluator {
 public:
  using SyntheticEvaluator::SyntheticEvaluator;
  std::future<Evaluated> Submit(Candidate candidate) override {
    waiting_.emplace_back(SyntheticEvaluator::Submit(std::move(candidate)),
                          std::promise<Evaluated>());
    auto answer = waiting_.back().second.get_future();
    if (waiting_.size() > kBehind) Answer(false);
    return answer;
  }
  void Abandon() override {
    while (!waiting_.empty()) Answer(abandon);
  }
  bool abandon = true;

 private:
  static constexpr size_t kBehind = 3;
  void Answer(bool drop) {
    waiting_.front().second.set_value(drop ? Evaluated() : waiting_.front().first.get());
    waiting_.pop_front();
  }
  std::deque<std::pair<std::future<Evaluated>, std::promise<Evaluated>>> waiting_;
};

// Never answers one move before it is abandoned, as one whose source takes the compiler minutes.
class Stuck : public SyntheticEvaluator {
 public:
  using SyntheticEvaluator::SyntheticEvaluator;
  std::future<Evaluated> Submit(Candidate candidate) override {
    if (++count_ != kStuck) return SyntheticEvaluator::Submit(std::move(candidate));
    return stuck_.get_future();
  }
  void Abandon() override {
    if (count_ >= kStuck && !std::exchange(given_up_, true)) stuck_.set_value({});
  }

 private:
  static constexpr int kStuck = 3;
  int count_ = 0;
  bool given_up_ = false;
  std::promise<Evaluated> stuck_;
};

TEST_CASE("a move that takes the compiler long keeps no other waiting", "[agent]") {
  base::SimulatedClock clock;
  Options options;
  options.clock = &clock;
  Stuck evaluator(options.target, Landscape(), &clock);
  v1::Lease lease;
  lease.set_id("lease");
  *lease.mutable_problem() = Softmax(1024, 4096);
  lease.set_seconds(20);
  Silent reporter;
  const std::atomic<bool> stop{false};
  const auto outcome = Optimiser(evaluator, options).Run(lease, reporter, stop);
  REQUIRE(outcome.ok());
  CHECK(outcome->judged > 10);
}

TEST_CASE("a policy is told of every proposal, in their order", "[agent]") {
  struct Case {
    const char* what;
    bool judge_fails = false;
    std::vector<v1::Verdict> seen;  // of these there has to be one at least
  };
  const Case cases[] = {
      {"the budget is spent", false, {v1::ACCEPTED, v1::SLOWER, v1::VERDICT_UNSPECIFIED}},
      {"the judge fails for good", true, {v1::JUDGE_FAILED, v1::VERDICT_UNSPECIFIED}},
  };
  for (const char* name : {"rules", "random"}) {
    for (const Case& c : cases) {
      INFO(name << ": " << c.what);
      base::SimulatedClock clock;
      Options options;
      options.clock = &clock;
      options.in_flight = 4;
      Slow evaluator(options.target, Landscape(), &clock);
      if (c.judge_fails) {
        for (int i = 5; i < 1000; ++i) evaluator.forced[i] = v1::JUDGE_FAILED;
      }
      Spy::Log log;
      options.make_policy = [&](const std::string& policy,
                                uint64_t seed) -> absl::StatusOr<std::unique_ptr<Policy>> {
        auto made = MakePolicy(policy, seed);
        if (!made.ok()) return made.status();
        return std::make_unique<Spy>(*std::move(made), &log);
      };
      v1::Lease lease;
      lease.set_id("lease");
      *lease.mutable_problem() = Softmax(1024, 4096);
      lease.set_seconds(20);
      lease.set_policy(name);
      lease.set_seed(3);
      Silent reporter;
      const std::atomic<bool> stop{false};
      const auto outcome = Optimiser(evaluator, options).Run(lease, reporter, stop);
      CHECK(outcome.ok() != c.judge_fails);
      CHECK(log.learned == log.proposed);
      const std::set<v1::Verdict> verdicts(log.verdicts.begin(), log.verdicts.end());
      for (const v1::Verdict verdict : c.seen) {
        INFO(v1::Verdict_Name(verdict));
        CHECK(verdicts.count(verdict) == 1);
      }
    }
  }
}

TEST_CASE("refusals are told of in their turn", "[agent]") {
  // A workspace that many schedules of long rows outgrow: refused before the judge sees them. Not
  // nearly all: the evaluator answers when others wait behind.
  base::SimulatedClock clock;
  Options options;
  options.clock = &clock;
  Slow evaluator(options.target, Landscape(), &clock);
  evaluator.allowance = 16384;
  Spy::Log log;
  options.make_policy = [&](const std::string& policy,
                            uint64_t seed) -> absl::StatusOr<std::unique_ptr<Policy>> {
    return std::make_unique<Spy>(*MakePolicy(policy, seed), &log);
  };
  v1::Lease lease;
  lease.set_id("lease");
  *lease.mutable_problem() = Softmax(16, 4194304);
  lease.set_seconds(10);
  lease.set_seed(3);
  Silent reporter;
  const std::atomic<bool> stop{false};
  REQUIRE(Optimiser(evaluator, options).Run(lease, reporter, stop).ok());
  CHECK(log.learned == log.proposed);
  CHECK(std::count(log.verdicts.begin(), log.verdicts.end(), v1::NOT_LOWERED) > 0);
}

}  // namespace
}  // namespace warpsmith::agent
