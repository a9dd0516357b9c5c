// What is made of constant weights alone: made once, with nothing else within reach (which running
// and comparing sees to), and right in each run.
#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "worker/codegen/skeleton/contract/contract_testing.h"
#include "worker/codegen/testing.h"

namespace warpsmith::codegen {
namespace {

graph::Graph Constant(const Lines& lines) {
  graph::Graph graph = ParseOrDie(lines);
  graph.constant_params = true;
  return graph;
}

v1::Plan LowerOrDie(const graph::Graph& graph, const v1::Schedule& schedule) {
  auto plan = Lower(graph, schedule, TestTarget());
  INFO(plan.status().message());
  REQUIRE(plan.ok());
  return *std::move(plan);
}

// Of its kernels those that are prepared, and those of each run.
struct Kernels {
  int prepared = 0, run = 0;
};
Kernels KernelsOf(const v1::Plan& plan) {
  Kernels kernels;
  for (const auto& step : plan.prepare().steps()) kernels.prepared += step.has_launch();
  for (const auto& step : plan.steps()) kernels.run += step.has_launch();
  return kernels;
}

// Buffers that a plan's steps launch kernels with.
std::vector<int> Launched(const v1::Plan& plan) {
  std::vector<int> buffers;
  for (const auto& step : plan.steps()) {
    for (const auto& argument : step.launch().arguments()) {
      if (argument.has_buffer()) buffers.push_back(argument.buffer());
    }
  }
  return buffers;
}

struct Packed {
  const char* what;
  Lines graph;
  const char* knobs;
  Kernels kernels;  // with constants
};

const Lines kLinear = {"input x: f32[40, 72] ~ normal",
                       "param w: f32[48, 72] ~ normal",
                       "param c: f32[48] ~ normal",
                       "s: f32[m: 40, n: 48] = sum[k: 72](x[m, k] * w[n, k])",
                       "y: f32[m: 40, n: 48] = max(s[m, n] + c[n], 0.0)",
                       "output y"};
const Lines kTurned = {"param w: f32[72, 40] ~ normal", "input x: f32[72, 48] ~ normal",
                       "y: f32[m: 40, n: 48] = sum[k: 72](w[k, m] * x[k, n])", "output y"};
const Lines kMade = {"input x: f32[40, 72] ~ normal", "param w: f32[48, 72] ~ normal",
                     "param d: f32[72] ~ normal",
                     "y: f32[m: 40, n: 48] = sum[k: 72](x[m, k] * (w[n, k] * d[k]))", "output y"};
const Lines kUneven = {"input x: bf16[40, 72] ~ normal", "param w: bf16[48, 75] ~ normal",
                       "y: f32[m: 40, n: 48] = sum[k: 72](f32(x[m, k]) * f32(w[n, k + 3]))",
                       "output y"};

const Packed kPacked[] = {
    {"weights in two parts", kLinear, "contract { math: PRODUCT_FP16X3 }", {1, 3}},
    {"and K that blocks share", kLinear, "contract { math: PRODUCT_FP16X3 split: 2 }", {1, 4}},
    {"weights as the first operand", kTurned, "contract { math: PRODUCT_FP16X3 }", {1, 3}},
    {"weights that are made of others", kMade, "contract { math: PRODUCT_FP16X3 }", {1, 3}},
    {"what is no weight made two parts of on its way",
     kLinear,
     "contract { math: PRODUCT_FP16X3_INLINE }",
     {1, 2}},
    {"and as the second operand", kTurned, "contract { math: PRODUCT_FP16X3_INLINE }", {1, 2}},
    {"weights that lie as the copy engine does not take them",
     kUneven,
     "contract { math: PRODUCT_TENSOR }",
     {1, 1}},
    {"the same for a library", kUneven, "contract { math: PRODUCT_LIBRARY }", {1, 0}},
    {"nothing to pack", kLinear, "contract { math: PRODUCT_PLAIN }", {0, 1}},
};

TEST_CASE("operands of constant weights are packed once", "[codegen]") {
  std::vector<Trial> trials;
  uint64_t seed = 1;
  for (const Packed& c : kPacked) {
    INFO(c.what);
    graph::Graph graph = ParseOrDie(c.graph);
    const v1::Schedule schedule = ScheduleOf(graph, c.knobs);
    CHECK_FALSE(LowerOrDie(graph, schedule).has_prepare());
    graph.constant_params = true;
    const v1::Plan plan = LowerOrDie(graph, schedule);
    const Kernels kernels = KernelsOf(plan);
    CHECK(kernels.prepared == c.kernels.prepared);
    CHECK(kernels.run == c.kernels.run);
    for (int b : Launched(plan.prepare()))
      CHECK(plan.prepare().buffers(b).kind() != v1::Buffer::INPUT);
    // Rows that are not finite are those of prepared operands, too.
    for (const bool special : {false, true}) trials.push_back({graph, schedule, seed++, special});
  }
  const std::vector<absl::Status> answers = RunAndCompareAll(trials);
  for (size_t i = 0; i < answers.size(); ++i) {
    INFO(kPacked[i / 2].what << (i % 2 == 1 ? ", with NaN and infinities" : ""));
    INFO(answers[i].message());
    CHECK(answers[i].ok());
  }
}

struct Chain {
  const char* what;
  Lines graph;
  Kernels kernels;  // one for each node
};

const Chain kChains[] = {
    {"a chain of weights, of which the last is read",
     {"input x: f32[40] ~ normal", "param w: f32[40, 24] ~ normal",
      "t: f32[i: 40] = sum[k: 24](w[i, k])", "u: f32[i: 40] = t[i] * 2.0",
      "y: f32[i: 40] = x[i] + u[i]", "output y"},
     {2, 1}},
    {"a product of weights, whose result another product takes",
     {"input x: f32[24, 32] ~ normal", "param a: f32[32, 40] ~ normal",
      "param b: f32[40, 16] ~ normal", "w: f32[i: 32, j: 16] = sum[k: 40](a[i, k] * b[k, j])",
      "y: f32[m: 24, n: 16] = sum[k: 32](x[m, k] * w[k, n])", "output y"},
     {1, 1}},
    {"what is given is made by each run",
     {"input x: f32[40] ~ normal", "param w: f32[40] ~ normal", "t: f32[i: 40] = w[i] * 3.0",
      "u: f32[i: 40] = t[i] + 1.0", "y: f32[i: 40] = x[i] * u[i]", "output t", "output y"},
     {0, 3}},
    {"a state is none",
     {"input x: f32[40] ~ normal", "state w: f32[40] ~ normal", "t: f32[i: 40] = w[i] * 3.0",
      "v: f32[i: 40] = w[i] + x[i]", "y: f32[i: 40] = x[i] * t[i]", "output y", "update w = v"},
     {0, 3}},
    {"a reshape of what is prepared",
     {"input x: f32[8, 5] ~ normal", "param w: f32[40] ~ normal", "t: f32[i: 40] = exp(w[i])",
      "r: f32[i: 8, j: 5] = t[5 * i + j]", "y: f32[i: 8, j: 5] = x[i, j] * r[i, j]", "output y"},
     {1, 1}},
};

TEST_CASE("groups of constant weights alone run once", "[codegen]") {
  uint64_t seed = 1;
  for (const Chain& c : kChains) {
    INFO(c.what);
    graph::Graph graph = ParseOrDie(c.graph);
    const v1::Schedule schedule = OpByOpSchedule(graph, TestTarget());
    CHECK_FALSE(LowerOrDie(graph, schedule).has_prepare());
    graph.constant_params = true;
    const Kernels kernels = KernelsOf(LowerOrDie(graph, schedule));
    CHECK(kernels.prepared == c.kernels.prepared);
    CHECK(kernels.run == c.kernels.run);
    Check(graph, schedule, seed++);
    Check(graph, DefaultSchedule(graph, TestTarget()), seed++);
  }
}

TEST_CASE("what is made of constant weights costs a run nothing", "[codegen]") {
  const Lines lines = {"input x: f32[64, 2048] ~ normal",
                       "param w: f32[2048, 2048] ~ normal",
                       "param d: f32[2048, 2048] ~ normal",
                       "v: f32[n: 2048, k: 2048] = exp(w[n, k]) * sin(d[k, n])",
                       "y: f32[m: 64, n: 2048] = sum[k: 2048](x[m, k] * v[n, k])",
                       "output y"};
  const Target target;
  const auto seconds = [&](const graph::Graph& graph) {
    const auto infos = Describe(graph, DefaultSchedule(graph, target), target);
    REQUIRE(infos.ok());
    double all = 0;
    for (const GroupInfo& info : *infos) all += info.seconds;
    return all;
  };
  CHECK(seconds(Constant(lines)) < 0.8 * seconds(ParseOrDie(lines)));
  // Nor is it among what a run must do at the least.
  const graph::Cost once = graph::Count(Constant(lines)), each = graph::Count(ParseOrDie(lines));
  CHECK(once.read_bytes == 4 * 64 * 2048);
  CHECK(each.read_bytes == 4 * (64 + 2 * 2048) * 2048);
  CHECK(once.operations == 2.0 * 64 * 2048 * 2048);
}

}  // namespace
}  // namespace warpsmith::codegen
