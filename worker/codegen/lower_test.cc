// What is generated, run on the host device against the oracle: random graphs under default and
// random schedules; and which schedules are refused.
#include <google/protobuf/text_format.h>

#include <cstdlib>

#include "absl/strings/match.h"
#include "common/graph/random_graph.h"
#include "worker/codegen/random_schedule.h"
#include "worker/codegen/testing.h"

namespace warpsmith::codegen {
namespace {

// Cases by default; WARPSMITH_CODEGEN_CASES multiplies them.
int Cases(int n) {
  const char* more = std::getenv("WARPSMITH_CODEGEN_CASES");
  return more != nullptr ? n * std::atoi(more) : n;
}

TEST_CASE("random graphs under the default schedule", "[codegen]") {
  for (int seed = 1; seed <= Cases(25); ++seed) {
    const graph::Graph graph = graph::RandomGraph(seed);
    Check(graph, DefaultSchedule(graph, TestTarget()), seed);
  }
}

TEST_CASE("random graphs node by node", "[codegen]") {
  for (int seed = 1001; seed <= 1000 + Cases(6); ++seed) {
    const graph::Graph graph = graph::RandomGraph(seed);
    Check(graph, OpByOpSchedule(graph, TestTarget()), seed);
  }
}

TEST_CASE("random graphs under random knobs and rewrites", "[codegen]") {
  int lowered = 0, refused = 0;
  for (int seed = 2001; lowered < Cases(40); ++seed) {
    Random random(seed);
    const graph::Graph graph = graph::RandomGraph(seed);
    v1::Schedule schedule;
    for (const std::string& rewrite : ApplicableRewrites(graph)) {
      if (random.OneIn(2)) schedule.add_rewrites(rewrite);
    }
    const graph::Graph rewritten = Rewrite(graph, schedule.rewrites()).value();
    *schedule.mutable_groups() = DefaultSchedule(rewritten, TestTarget()).groups();
    schedule.mutable_launch()->set_programmatic(random.OneIn(2));
    schedule.mutable_launch()->set_when_ended(random.OneIn(2));
    schedule.mutable_launch()->set_branches(random.OneIn(2));
    const auto infos = Describe(rewritten, schedule, TestTarget());
    INFO(infos.status().message());
    REQUIRE(infos.ok());
    bool changed = false;
    for (int g = 0; g < schedule.groups_size(); ++g) {
      for (int attempt = 0; attempt < 20; ++attempt) {
        v1::Schedule trial = schedule;
        *trial.mutable_groups(g) = RandomKnobs(schedule.groups(g), (*infos)[g], random);
        const auto plan = Lower(rewritten, trial, TestTarget());
        if (plan.ok()) {
          schedule = trial;
          changed = true;
          break;
        }
        ++refused;
        // Refusals are of the schedule, and say which group and knob.
        INFO(plan.status().message());
        CHECK(plan.status().code() == absl::StatusCode::kInvalidArgument);
        CHECK(absl::StrContains(plan.status().message(), "group '"));
      }
    }
    if (!changed) continue;
    ++lowered;
    Check(graph, schedule, seed);
  }
  CHECK(refused > 0);
}

TEST_CASE("what a schedule may not say", "[codegen]") {
  const graph::Graph graph = ParseOrDie(
      {"input x: f32[64, 512] ~ normal", "s: f32[r: 64] = sum[c: 512](x[r, c])",
       "y: f32[r: 64, c: 512] = x[r, c] / s[r]", "t: f32 = sum[r: 64](s[r])", "output y, t"});
  struct Case {
    const char* schedule;
    const char* message;
  };
  const Case cases[] = {
      {"groups { roots: 'y' }", "no group writes output 't'"},
      {"groups { roots: 'q' }", "no tensor 'q'"},
      {"groups { roots: 'x' }", "is an input"},
      {"groups { roots: ['y', 't'] }", "give it a group of its own"},
      {"groups { roots: ['y', 's'] } groups { roots: ['s', 't'] }", "written by group 0 already"},
      {"groups { roots: 'y' } groups { roots: 't' } groups { roots: 's' }",
       "put that group before it"},
      {"groups { roots: ['y', 's'] rows { vector_bytes: 12 } } groups { roots: 't' }",
       "1, 2, 4, 8 or 16"},
      {"groups { roots: ['y', 's'] rows { block_threads: 100 } } groups { roots: 't' }",
       "multiple of 32"},
      {"groups { roots: ['y', 's'] rows { block_threads: 4096 } } groups { roots: 't' }",
       "32 to 1024"},
      {"groups { roots: ['y', 's'] rows { unroll: -1 } } groups { roots: 't' }",
       "rows.unroll is -1"},
      {"groups { roots: ['y', 's'] rows { online: true } } groups { roots: 't' }", "online needs"},
      {"groups { roots: ['y', 's'] rows { block_threads: 64 threads_per_row: 64 blocks_per_row: 2 "
       "meeting: MEETING_SECOND_PASS } } groups { roots: 't' }",
       "SECOND_PASS is for one meeting"},
      {"groups { roots: ['y', 's'] rows { block_threads: 64 threads_per_row: 64 blocks_per_row: 9 "
       "meeting: MEETING_COUNTER blocks_per_sm: 4 } } groups { roots: 't' }",
       "power of two or a multiple of 32"},
      {"groups { roots: ['y', 's'] rows { block_threads: 64 threads_per_row: 64 blocks_per_row: 64 "
       "meeting: MEETING_COUNTER blocks_per_sm: 1 } } groups { roots: 't' }",
       "2 to 4"},
      {"groups { roots: ['y', 's'] rows { shared_vectors: 64 block_threads: 512 } } groups { "
       "roots: 't' }",
       "shared memory"},
      {"groups { roots: ['y', 's'] rows { block_threads: 1024 blocks_per_sm: 3 } } groups { roots: "
       "'t' }",
       "2048 threads"},
      {"groups { roots: ['y', 's'] map {} } groups { roots: 't' }",
       "group 'y': roots 'y' and 's' of a map group have"},
      {"groups { roots: 's' } groups { roots: 'y' rows {} } groups { roots: 't' }",
       "group 'y': it has no reduce"},
      {"rewrites: 'fly:y' groups { roots: 'y' }", "unknown"},
      {"rewrites: 'single_pass_variance:s' groups { roots: 'y' }", "does not apply"},
  };
  for (const Case& c : cases) {
    v1::Schedule schedule;
    INFO(c.schedule);
    REQUIRE(google::protobuf::TextFormat::ParseFromString(c.schedule, &schedule));
    const absl::Status status = RunAndCompare(graph, schedule, 1);
    INFO(status.message());
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    CHECK(absl::StrContains(status.message(), c.message));
  }
}

TEST_CASE("the same schedule gives the same bytes", "[codegen]") {
  for (int seed : {3, 14, 159}) {
    const graph::Graph graph = graph::RandomGraph(seed);
    const v1::Schedule schedule = DefaultSchedule(graph, Target{});
    const auto a = Lower(graph, schedule, Target{}), b = Lower(graph, schedule, Target{});
    REQUIRE(a.ok());
    CHECK(a->SerializeAsString() == b->SerializeAsString());
    CHECK(DefaultSchedule(graph, Target{}).SerializeAsString() == schedule.SerializeAsString());
  }
}

}  // namespace
}  // namespace warpsmith::codegen
