#include "worker/agent/specialist.h"

#include <catch2/catch.hpp>
#include <set>

#include "absl/strings/ascii.h"
#include "worker/agent/history.h"
#include "worker/agent/moves.h"
#include "worker/agent/policy.h"
#include "worker/agent/regroup.h"
#include "worker/agent/test_problems.h"
#include "worker/codegen/knob/knob.h"

namespace warpsmith::agent {
namespace {

State StateOf(const v1::Problem& problem) {
  const codegen::Target target;
  auto graph = problem::GraphOf(problem, problem.workloads(0));
  REQUIRE(graph.ok());
  auto shared = std::make_shared<const graph::Graph>(*std::move(graph));
  auto state = MakeState(shared, codegen::DefaultSchedule(*shared, target), target);
  INFO(state.status().ToString());
  REQUIRE(state.ok());
  return *std::move(state);
}

std::vector<v1::Problem> Problems() {
  return {Softmax(4096, 393216), Softmax(1024, 100),  Gelu(int64_t{1} << 24),
          RowSum(64, 1 << 20),   RowSum(100000, 32),  ColumnSum(128, 4096, 4095),
          MaxPool(64, 512, 4),   Softmax(16, 4194304)};
}

// The schedule without what a specialist may change; groups as those of the skeletons they run on.
std::string Rest(v1::Schedule schedule, const State& state, const std::string& specialist) {
  if (specialist == "launch") schedule.clear_launch();
  for (int g = 0; g < schedule.groups_size(); ++g) {
    auto& group = *schedule.mutable_groups(g);
    codegen::SetSkeleton(group, state.groups[g].skeleton);
    for (const auto& row : codegen::KnobsOf(group.skeleton_case())) {
      if (absl::AsciiStrToLower(v1::Specialist_Name(row.owner)) == specialist)
        codegen::SetValue(group, row, 0);
    }
    if (specialist == "precision") group.clear_precision();
  }
  return Bytes(schedule);
}

TEST_CASE("a move changes only what its specialist owns", "[agent]") {
  for (const auto& problem : Problems()) {
    const State state = StateOf(problem);
    std::set<std::string> results;
    for (const auto& specialist : MakeSpecialists()) {
      const std::string name = specialist->name();
      for (const auto& action : specialist->Actions(state)) {
        INFO(problem.name() << ": " << name << ": " << action.name);
        CHECK(action.specialist == name);
        CHECK(Bytes(action.schedule) != Bytes(state.schedule));
        CHECK_FALSE(action.kind.empty());
        CHECK_FALSE(action.key.empty());
        if (name == "algebra") continue;
        CHECK(Bytes(action.schedule).size() > 0);
        if (name == "fusion") {
          // Knobs of groups that stay, and launch and rewrites.
          CHECK(std::equal(action.schedule.rewrites().begin(), action.schedule.rewrites().end(),
                           state.schedule.rewrites().begin(), state.schedule.rewrites().end()));
          CHECK(Bytes(action.schedule.launch()) == Bytes(state.schedule.launch()));
          continue;
        }
        CHECK(Rest(action.schedule, state, name) == Rest(state.schedule, state, name));
      }
    }
  }
}

TEST_CASE("most moves lower", "[agent]") {
  for (const auto& problem : Problems()) {
    const State state = StateOf(problem);
    int moves = 0, refused = 0;
    std::string why;
    for (const auto& specialist : MakeSpecialists()) {
      for (const auto& action : specialist->Actions(state)) {
        ++moves;
        auto graph = codegen::Rewrite(*state.original, action.schedule.rewrites());
        REQUIRE(graph.ok());
        const auto plan = codegen::Lower(*graph, action.schedule, state.target);
        if (plan.ok()) continue;
        ++refused;
        why += action.name + ": " + std::string(plan.status().message()) + "\n";
      }
    }
    INFO(problem.name() << ": " << refused << " of " << moves << " refused:\n" << why);
    CHECK(moves >= 12);
    CHECK(refused <= moves / 10);
  }
}

TEST_CASE("what is known of other schedules changes no description", "[agent]") {
  std::vector<v1::Problem> problems = Problems();
  problems.push_back(MakeProblem(
      "chain",
      {"input x: bf16[256, 512] ~ normal", "param v: bf16[512, 512] ~ normal",
       "param w: bf16[512, 512] ~ normal",
       "s: f32[m: 256, n: 512] = sum[k: 512](f32(x[m, k]) * f32(v[n, k]))",
       "h: bf16[m: 256, n: 512] = bf16(max(s[m, n], 0.0))",
       "t: f32[m: 256, n: 512] = sum[k: 512](f32(h[m, k]) * f32(w[n, k]))",
       "q: f32[m: 256] = sum[n: 512](t[m, n] * t[m, n])",
       "y: bf16[m: 256, n: 512] = bf16(t[m, n] * rsqrt(q[m]) + f32(h[m, n]))", "output y"}));
  int structures = 0;
  for (const auto& problem : problems) {
    const State state = StateOf(problem);
    for (const auto& action : MakeFusion()->Actions(state)) {
      INFO(problem.name() << ": " << action.name);
      const auto known = MakeState(state, action.schedule);
      const auto fresh = codegen::Describe(state.graph(), action.schedule, state.target);
      REQUIRE(known.ok());
      REQUIRE(fresh.ok());
      REQUIRE(known->groups.size() == fresh->size());
      ++structures;
      for (size_t g = 0; g < fresh->size(); ++g) {
        const codegen::GroupInfo &a = known->groups[g], &b = (*fresh)[g];
        CHECK(Bytes(a.resolved) == Bytes(b.resolved));
        CHECK((a.bytes_read == b.bytes_read && a.bytes_written == b.bytes_written));
        CHECK((a.seconds == b.seconds && a.launches == b.launches && a.others == b.others));
      }
    }
  }
  CHECK(structures > 20);
}

TEST_CASE("a product is offered alone to a library that can write it", "[agent]") {
  const auto offered = [](const std::vector<std::string>& behind, const std::string& library) {
    std::vector<std::string> lines = {
        "input x: bf16[256, 512] ~ normal",
        "param w: bf16[512, 512] ~ normal",
        "param c: bf16[512] ~ normal",
        "param d: f32[512] ~ normal",
        "input r: bf16[256, 512] ~ normal",
        "s: f32[m: 256, n: 512] = sum[k: 512](f32(x[m, k]) * f32(w[n, k]))"};
    lines.insert(lines.end(), behind.begin(), behind.end());
    const v1::Problem problem = MakeProblem("linear", lines);
    codegen::Target target;
    target.library = library;
    auto graph = problem::GraphOf(problem, problem.workloads(0));
    REQUIRE(graph.ok());
    const auto shared = std::make_shared<const graph::Graph>(*std::move(graph));
    const v1::Schedule first = codegen::DefaultSchedule(*shared, target);
    REQUIRE(first.groups_size() == 1);
    const auto state = MakeState(shared, first, target);
    REQUIRE(state.ok());
    std::vector<v1::Schedule> schedules;
    for (const auto& action : MakeFusion()->Actions(*state)) {
      if (action.kind == "library") schedules.push_back(action.schedule);
    }
    REQUIRE(schedules.size() <= 1);
    if (schedules.empty()) return std::string();
    CHECK(schedules[0].groups(0).contract().math() == v1::PRODUCT_LIBRARY);
    const auto plan = codegen::Lower(*shared, schedules[0], target);
    REQUIRE(plan.status().message() == "");
    // Nothing finishes its sums.
    CHECK((plan->steps_size() == 2 && plan->steps(0).has_product() && plan->steps(1).has_launch()));
    return schedules[0].groups(0).roots(0) + " " + schedules[0].groups(1).roots(0);
  };
  const std::string library = "cuBLASLt 13.1.0";
  const std::string rounded = "y: bf16[m: 256, n: 512] = bf16(s[m, n] + f32(c[n]))";
  const std::string more = "z: bf16[m: 256, n: 512] = bf16(f32(y[m, n]) + f32(r[m, n]))";
  CHECK(offered({rounded, more, "output z"}, library) == "y z");
  CHECK(offered({rounded, more, "output y", "output z"}, library) == "y z");
  CHECK(offered({rounded, more, "output z"}, "").empty());
  CHECK(offered({rounded, "output y"}, library).empty());  // it is alone
  CHECK(offered({"z: f32[m: 256, n: 512] = s[m, n] * s[m, n]", "output z"}, library).empty());
  const std::string wide = "y: f32[m: 256, n: 512] = s[m, n] + d[n]";
  CHECK(offered({wide, "z: f32[m: 256, n: 512] = max(y[m, n], 0.0)", "output z"}, library) ==
        "y z");
}

TEST_CASE("what few elements take many operations is offered in a kernel of its own", "[agent]") {
  // Behind many maps of single operations: a logarithm a row, which is read along columns.
  std::vector<std::string> lines = {"input x: f32[4096, 4096] ~ normal"};
  std::string last = "x";
  for (int i = 0; i < 20; ++i) {
    const std::string name = absl::StrCat("m", i);
    lines.push_back(
        absl::StrCat(name, ": f32[i: 4096, j: 4096] = max(", last, "[i, j], -", 40 - i, ".0)"));
    last = name;
  }
  for (const char* line :
       {"s: f32[i: 4096] = sum[r: 4096](exp(x[i, r]))", "a: f32[i: 4096] = abs(s[i])",
        "l: f32[i: 4096] = log(a[i])", "h: f32[i: 4096] = l[i] * 0.5"})
    lines.emplace_back(line);
  lines.push_back(absl::StrCat("y: f32[i: 4096, j: 4096] = ", last, "[i, j] - h[j]"));
  lines.emplace_back("output y");
  const v1::Problem problem = MakeProblem("columns", lines);
  auto graph = problem::GraphOf(problem, problem.workloads(0));
  REQUIRE(graph.ok());
  v1::Schedule schedule;  // not the first one, which has it so already
  for (const char* root : {"s", "y"}) schedule.add_groups()->add_roots(root);
  const auto made = MakeState(std::make_shared<const graph::Graph>(*std::move(graph)), schedule,
                              codegen::Target());
  REQUIRE(made.ok());
  const State& state = *made;
  std::vector<std::pair<double, std::string>> offered;
  for (const auto& action : MakeFusion()->Actions(state)) {
    if (action.kind == "split") offered.emplace_back(action.prior, action.name);
  }
  std::sort(offered.rbegin(), offered.rend());
  REQUIRE(offered.size() > 3);
  CHECK(std::any_of(offered.begin(), offered.end(),
                    [](const auto& one) { return one.second == "split h out of group y"; }));
  INFO(offered[0].second);
  CHECK((offered[0].second == "split h out of group y" ||
         offered[0].second == "split l out of group y"));
}

TEST_CASE("what maps make may be computed again where it is read", "[agent]") {
  const v1::Problem problem = MakeProblem(
      "twice", {"input x: f32[512, 256] ~ normal", "e: f32[r: 512, c: 256] = exp(x[r, c])",
                "s: f32[r: 512] = sum[c: 256](e[r, c])", "t: f32[c: 256] = sum[r: 512](e[r, c])",
                "u: f32[r: 512] = s[r] * 2.0", "output t", "output u"});
  auto graph = problem::GraphOf(problem, problem.workloads(0));
  REQUIRE(graph.ok());
  const auto shared = std::make_shared<const graph::Graph>(*std::move(graph));
  v1::Schedule schedule;
  for (const char* root : {"e", "s", "t", "u"}) schedule.add_groups()->add_roots(root);
  const auto state = MakeState(shared, schedule, codegen::Target());
  REQUIRE(state.ok());
  std::vector<std::string> again;
  for (const auto& action : MakeFusion()->Actions(*state)) {
    if (action.kind != "again") continue;
    again.push_back(action.to);
    CHECK(action.schedule.groups_size() == 3);
    CHECK(codegen::Lower(*shared, action.schedule, codegen::Target()).ok());
  }
  // Not a sum, not an output.
  CHECK(again == std::vector<std::string>{"e"});
}

TEST_CASE("long rows are offered layouts that hold them", "[agent]") {
  // 16 rows of 16 MiB: 128 blocks that meet at a counter, two of 256 threads a multiprocessor.
  // It may be the first schedule already; then it is no action.
  const State state = StateOf(Softmax(16, 4194304));
  const auto holds = [](const v1::RowsKnobs& knobs) {
    return knobs.blocks_per_row() == 128 && knobs.meeting() == v1::MEETING_COUNTER &&
           knobs.block_threads() == 256 && knobs.blocks_per_sm() == 2;
  };
  bool found = holds(state.groups[0].resolved.rows());
  for (const auto& action : MakeKnobs(v1::OCCUPANCY)->Actions(state)) {
    found = found || holds(action.schedule.groups(0).rows());
  }
  CHECK(found);
}

TEST_CASE("merged groups keep the more accurate precision", "[agent]") {
  v1::Group careful, quick, none, merged;
  careful.mutable_precision()->set_accumulator(v1::ACCUMULATOR_F64);
  quick.mutable_precision()->set_accumulator(v1::ACCUMULATOR_F32);
  quick.mutable_precision()->set_fast_math(true);
  KeepPrecision(careful, quick, merged);
  CHECK(merged.precision().accumulator() == v1::ACCUMULATOR_F64);
  CHECK_FALSE(merged.precision().fast_math());
  v1::Group alone;
  KeepPrecision(none, none, alone);
  CHECK_FALSE(alone.has_precision());

  // The first of two groups sums in f64; merging them must not take that back.
  State state = StateOf(Softmax(1024, 4096));
  const auto split = codegen::OpByOpSchedule(state.graph(), state.target);
  auto apart = MakeState(state.original, split, state.target);
  REQUIRE(apart.ok());
  for (int g = 0; g + 1 < apart->schedule.groups_size(); ++g) {
    apart->schedule.mutable_groups(g)->mutable_precision()->set_accumulator(v1::ACCUMULATOR_F64);
  }
  int merges = 0;
  for (const auto& action : MakeFusion()->Actions(*apart)) {
    if (action.kind != "merge") continue;
    ++merges;
    for (const auto& group : action.schedule.groups()) {
      const bool untouched =
          group.roots_size() == 1 && group.roots(0) == "y" && !group.has_precision();
      INFO(action.name << ": " << group.ShortDebugString());
      CHECK((untouched || group.precision().accumulator() == v1::ACCUMULATOR_F64));
    }
  }
  CHECK(merges > 0);
}

TEST_CASE("accumulators are offered where something adds up", "[agent]") {
  for (const auto& [problem, sums] :
       {std::pair{RowSum(64, 1 << 20), true}, std::pair{MaxPool(64, 512, 4), false}}) {
    bool offered = false;
    for (const auto& action : MakeKnobs(v1::PRECISION)->Actions(StateOf(problem))) {
      offered = offered || action.kind == "accumulator";
    }
    CHECK(offered == sums);
  }
}

TEST_CASE("kernels behind each other are offered each other way to follow", "[agent]") {
  const codegen::Target target;
  const v1::Problem problem = Softmax(64, 64);
  auto graph = problem::GraphOf(problem, problem.workloads(0));
  REQUIRE(graph.ok());
  auto shared = std::make_shared<const graph::Graph>(*std::move(graph));
  v1::Schedule schedule = codegen::OpByOpSchedule(*shared, target);
  std::set<std::string> ways = {Bytes(schedule.launch())};
  for (size_t way = 0; way < 3; ++way) {
    const auto state = MakeState(shared, schedule, target);
    REQUIRE(state.ok());
    std::set<std::string> others;
    for (const auto& action : MakeLaunch()->Actions(*state)) {
      others.insert(Bytes(action.schedule.launch()));
      if (ways.insert(Bytes(action.schedule.launch())).second) schedule = action.schedule;
    }
    CHECK(others.size() == 2);
    CHECK(others.count(Bytes(state->schedule.launch())) == 0);
  }
  CHECK(ways.size() == 3);
  // One kernel follows none, and none of a chain runs beside another.
  CHECK(MakeLaunch()->Actions(StateOf(Gelu(1 << 20))).empty());
}

TEST_CASE("kernels that do not need each other are offered to run beside each other", "[agent]") {
  auto graph = graph::Parse(
      {"input x: f32[64, 64] ~ normal", "a: f32[r: 64] = sum[c: 64](x[r, c])",
       "b: f32[c: 64] = sum[r: 64](x[r, c])", "y: f32[r: 64] = a[r] * b[r]", "output y"},
      {});
  REQUIRE(graph.ok());
  const auto shared = std::make_shared<const graph::Graph>(*std::move(graph));
  const codegen::Target target;
  v1::Schedule schedule = codegen::OpByOpSchedule(*shared, target);
  schedule.mutable_launch()->set_programmatic(true);
  auto state = MakeState(shared, schedule, target);
  REQUIRE(state.ok());
  const auto moves = [&] {
    std::vector<Action> found;
    for (const Action& action : MakeLaunch()->Actions(*state)) {
      if (action.kind == "branches") found.push_back(action);
    }
    return found;
  };
  state->time_us = 40;
  REQUIRE(moves().size() == 1);
  const Action on = moves()[0];
  CHECK(on.key == "branches=yes");
  CHECK(on.prior == 2 * 2.0 / 40);  // two kernels have a neighbour
  CHECK(on.schedule.launch().branches());
  CHECK(on.schedule.launch().programmatic());
  state = MakeState(*state, on.schedule);
  REQUIRE(state.ok());
  REQUIRE(moves().size() == 1);
  CHECK(moves()[0].key == "branches=no");
  CHECK(Bytes(moves()[0].schedule) == Bytes(schedule));
}

TEST_CASE("a move that changed nothing is not the next one elsewhere", "[agent]") {
  auto policy = MakePolicy("rules", 1);
  REQUIRE(policy.ok());
  std::set<std::string> keys;
  for (int i = 0; i < 12; ++i) {
    // Nothing is tried yet in a history of its own; the policy remembers.
    History history;
    auto node = std::make_shared<Node>();
    node->state = StateOf(Softmax(4096, 393216));
    history.Start(node);
    const auto proposal = (*policy)->Propose(history);
    REQUIRE(proposal.has_value());
    CHECK(keys.insert(proposal->action.key).second);
    Result result;
    result.verdict = v1::DUPLICATE;
    result.right = true;
    (*policy)->Learn(*proposal, result);
  }
}

TEST_CASE("nothing is offered twice", "[agent]") {
  for (const auto& problem : Problems()) {
    const State state = StateOf(problem);
    for (const auto& specialist : MakeSpecialists()) {
      std::set<std::string> seen;
      for (const auto& action : specialist->Actions(state)) {
        INFO(problem.name() << ": " << specialist->name() << ": " << action.name);
        CHECK(seen.insert(Bytes(action.schedule)).second);
      }
    }
  }
}

}  // namespace
}  // namespace warpsmith::agent
