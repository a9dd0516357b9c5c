#include "worker/agent/record.h"

#include <catch2/catch.hpp>
#include <set>

#include "absl/strings/match.h"
#include "common/graph/signature.h"
#include "worker/agent/optimiser.h"
#include "worker/agent/test_problems.h"
#include "worker/codegen/knob/knob.h"
#include "worker/codegen/plan/entry.h"

namespace warpsmith::agent {
namespace {

// A row's trial at most.
constexpr int kMostBytes = 4096;

std::vector<v1::Trial> TrialsOf(const v1::Problem& problem, const std::string& policy) {
  base::SimulatedClock clock;
  Options options;
  options.clock = &clock;
  options.card = "NVIDIA Test";
  SyntheticEvaluator evaluator(options.target, Landscape(), &clock);
  v1::Lease lease;
  lease.set_id("lease");
  *lease.mutable_problem() = problem;
  lease.set_seconds(20);
  lease.set_policy(policy);
  lease.set_seed(3);
  Recorder recorder;
  const std::atomic<bool> stop{false};
  REQUIRE(Optimiser(evaluator, options).Run(lease, recorder, stop).ok());
  return recorder.trials;
}

TEST_CASE("every trial says where it was made and of what kind the work is", "[agent]") {
  const v1::Problem problem = Softmax(1024, 4096);
  const auto graph = problem::GraphOf(problem, problem.workloads(0));
  for (const auto& trial : TrialsOf(problem, "random")) {
    CHECK(trial.generator() == codegen::kGeneratorVersion);
    CHECK(trial.arch() == codegen::Target().arch);
    CHECK(trial.card() == "NVIDIA Test");
    CHECK(trial.signature() == graph::Signature(*graph));
    CHECK(trial.policy() == "random");
    CHECK(trial.probability() > 0);
    CHECK(trial.probability() <= 1);
  }
}

TEST_CASE("every trial says its move in types", "[agent]") {
  std::set<std::string> kinds;
  for (const auto& problem : {Softmax(1024, 4096), Softmax(16, 4194304), Gelu(1 << 20)}) {
    for (const auto& trial : TrialsOf(problem, "random")) {
      const v1::Move& move = trial.move();
      INFO(trial.action() << ": " << move.ShortDebugString());
      kinds.insert(move.kind());
      if (trial.specialist().empty()) {
        CHECK(move.kind() == "start");
        CHECK(move.group().empty());
        continue;
      }
      CHECK_FALSE(move.kind().empty());
      CHECK((!move.from().empty() || !move.to().empty()));
      if (trial.specialist() == "algebra" || trial.specialist() == "launch") {
        CHECK(move.group().empty());
        continue;
      }
      CHECK_FALSE(move.group().empty());
      CHECK_FALSE(move.root_kind().empty());
      CHECK_FALSE(move.skeleton().empty());
      if (trial.verdict() == v1::NOT_LOWERED) continue;
      // A single knob's step is named after it, and its numbers are what its words say.
      const auto skeletons = codegen::SkeletonCases();
      const auto is_named = [&](const codegen::KnobRow& row) { return row.name == move.kind(); };
      for (const auto skeleton : skeletons) {
        if (codegen::NameOf(skeleton) != move.skeleton()) continue;
        const auto& rows = codegen::KnobsOf(skeleton);
        const auto row = std::find_if(rows.begin(), rows.end(), is_named);
        if (row == rows.end()) continue;
        REQUIRE(move.knobs_size() == 1);
        CHECK(move.knobs(0).name() == move.kind());
        CHECK(codegen::TextOf(*row, move.knobs(0).from()) == move.from());
        CHECK(codegen::TextOf(*row, move.knobs(0).to()) == move.to());
      }
      if (move.kind() == "layout") CHECK(move.knobs_size() >= 1);
    }
  }
  for (const char* kind : {"start", "layout", "unroll", "block_threads", "split"}) {
    INFO(kind);
    CHECK(kinds.count(kind) == 1);
  }
}

TEST_CASE("the resolved schedule leaves nothing open and lowers to the same source", "[agent]") {
  const v1::Problem problem = Softmax(16, 4194304);
  const auto graph = problem::GraphOf(problem, problem.workloads(0));
  const codegen::Target target;
  int compared = 0;
  for (const auto& trial : TrialsOf(problem, "random")) {
    // What its estimate refuses was lowered.
    const bool estimated = absl::StartsWith(trial.reason(), "estimated at ");
    CHECK(trial.has_resolved() == (trial.verdict() != v1::NOT_LOWERED || estimated));
    if (!trial.has_resolved()) continue;
    for (const auto& group : trial.resolved().groups()) {
      INFO(group.ShortDebugString());
      CHECK(group.roots_size() > 0);
      CHECK(group.skeleton_case() != v1::Group::SKELETON_NOT_SET);
      for (const auto& row : codegen::KnobsOf(group.skeleton_case())) {
        INFO(row.name);
        // Where 0 is a value of a knob it is not open.
        if (row.low > 0) CHECK(codegen::ValueOf(group, row) > 0);
      }
      CHECK(group.precision().accumulator() != v1::ACCUMULATOR_AUTO);
    }
    auto rewritten = codegen::Rewrite(*graph, trial.schedule().rewrites());
    REQUIRE(rewritten.ok());
    const auto open = codegen::Lower(*rewritten, trial.schedule(), target);
    const auto resolved = codegen::Lower(*rewritten, trial.resolved(), target);
    REQUIRE(open.ok());
    INFO(resolved.status().ToString());
    REQUIRE(resolved.ok());
    CHECK(open->source() == resolved->source());
    ++compared;
  }
  CHECK(compared > 20);
}

TEST_CASE("a trial's features are those of the changed group before and after", "[agent]") {
  const v1::Problem problem = Softmax(16, 4194304);
  for (const auto& trial : TrialsOf(problem, "rules")) {
    INFO(trial.action() << ": " << trial.before().ShortDebugString() << "; "
                        << trial.after().ShortDebugString());
    CHECK(trial.has_before() == !trial.specialist().empty());
    if (trial.has_resolved()) CHECK(trial.after().threads() > 0);
    if (!trial.has_before()) continue;
    CHECK(trial.state().at("bytes_read") > 0);
    for (const auto& knob : trial.move().knobs()) {
      if (knob.name() != "block_threads") continue;
      CHECK(trial.before().threads() == knob.from());
      CHECK(trial.after().threads() == knob.to());
    }
  }
}

TEST_CASE("features of a group are relative to its card", "[agent]") {
  // 2^26 floats in and out on a card of 1 TB/s and 8 TFLOP/s with four multiprocessors.
  codegen::Target card;
  card.sm_count = 4;
  const v1::Problem problem = Gelu(int64_t{1} << 26);
  auto graph = problem::GraphOf(problem, problem.workloads(0));
  auto shared = std::make_shared<const graph::Graph>(*std::move(graph));
  v1::Schedule schedule;
  auto& group = *schedule.add_groups();
  group.add_roots("y");
  group.mutable_map()->set_block_threads(256);
  group.mutable_map()->set_vector_bytes(16);
  group.mutable_map()->set_unroll(2);
  auto state = MakeState(shared, schedule, card);
  INFO(state.status().ToString());
  REQUIRE(state.ok());
  state->roof = graph::Roof::Of(1e12, 8e12);
  const v1::GroupFeatures plain = FeaturesOf(*state, 0);
  const double n = 1 << 26;
  CHECK(plain.skeleton() == "map");
  CHECK(plain.share() == Approx(1));
  CHECK(plain.memory_us() == Approx(2 * 4 * n / 1e12 * 1e6));
  CHECK(plain.arithmetic_us() == Approx(state->groups[0].operations / 8e12 * 1e6));
  CHECK(plain.special_us() == Approx(n / (8e12 / 16) * 1e6));  // one erf an element
  CHECK(plain.fp64_us() == 0);
  CHECK(plain.estimated_us() > 0);
  CHECK(plain.threads() == 256);
  CHECK(plain.blocks() == n / (256 * 4 * 2));
  CHECK(plain.waves() == Approx(plain.blocks() / (8 * 4)));
  CHECK(plain.occupancy() == Approx(1));
  CHECK(plain.rows() == n);
  CHECK(plain.access_bytes() == 16);
  CHECK(plain.streams() == 1);
  CHECK(plain.aligned());
  CHECK(plain.cache_share() == Approx(8 * n / static_cast<double>(card.l2_bytes)));
  CHECK(plain.launches() == 1);
  // What the compiler says: 128 registers of 256 threads, so that two blocks fit a multiprocessor.
  auto& kernel = *state->report.add_kernels();
  kernel.set_entry(codegen::EntryPrefix(state->graph().Find("y")) + "y");
  kernel.set_registers(128);
  kernel.set_shared_bytes(1024);
  const v1::GroupFeatures compiled = FeaturesOf(*state, 0);
  CHECK(compiled.registers() == 128);
  CHECK(compiled.shared_bytes() == 1024);
  CHECK(compiled.occupancy() == Approx(0.25));
  CHECK(compiled.register_share() == Approx(1));
  CHECK(compiled.shared_share() == Approx(2048.0 / static_cast<double>(card.shared_per_sm)));
  CHECK(compiled.waves() == Approx(plain.blocks() / (2 * 4)));
  // Sums in fp64 are done by another unit.
  const v1::Problem sums = RowSum(64, 1 << 20);
  auto sum_graph = problem::GraphOf(sums, sums.workloads(0));
  auto sum_shared = std::make_shared<const graph::Graph>(*std::move(sum_graph));
  v1::Schedule exact = codegen::DefaultSchedule(*sum_shared, card);
  exact.mutable_groups(0)->mutable_precision()->set_accumulator(v1::ACCUMULATOR_F64);
  auto sum_state = MakeState(sum_shared, exact, card);
  REQUIRE(sum_state.ok());
  sum_state->roof = graph::Roof::Of(1e12, 8e12);
  const v1::GroupFeatures summed = FeaturesOf(*sum_state, 0);
  CHECK(summed.fp64_us() == Approx(64.0 * (1 << 20) / 4e12 * 1e6));
  CHECK(summed.rows() == 64);
  CHECK(summed.row_elements() == 1 << 20);
}

TEST_CASE("a trial is small", "[agent]") {
  size_t most = 0, sum = 0, count = 0;
  for (const auto& problem : {Softmax(16, 4194304), Gelu(1 << 20), ColumnSum(128, 4096, 4095)}) {
    for (const auto& trial : TrialsOf(problem, "rules")) {
      most = std::max(most, trial.ByteSizeLong());
      sum += trial.ByteSizeLong();
      ++count;
    }
  }
  WARN("trials take " << sum / count << " bytes in the mean, " << most << " at most");
  CHECK(most <= kMostBytes);
}

}  // namespace
}  // namespace warpsmith::agent
