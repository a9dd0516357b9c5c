// Reductions over subsets of axes by the fold skeleton, on the host device against the oracle.
#include <google/protobuf/text_format.h>

#include <catch2/catch.hpp>

#include "worker/codegen/run_and_compare.h"

namespace warpsmith::codegen {
namespace {

struct Case {
  const char* what;
  std::vector<std::string> graph;
};

const Case kCases[] = {
    {"rows shorter than a vector's lanes",
     {"input x: f32[40, 7] ~ normal", "y: f32[r: 40] = sum[c: 7](x[r, c])", "output y"}},
    {"two columns",
     {"input x: f32[300, 2] ~ normal", "y: f32[c: 2] = sum[r: 300](x[r, c])", "output y"}},
    {"every other axis",
     {"input x: f32[6, 9, 5, 12] ~ normal", "y: f32[a: 6, c: 5] = sum[b: 9, d: 12](x[a, b, c, d])",
      "output y"}},
    {"every other axis, the first reduced",
     {"input x: f16[6, 9, 4, 10] ~ normal",
      "y: f32[b: 9, d: 10] = max[a: 6, c: 4](f32(x[a, b, c, d]))", "output y"}},
    {"everything",
     {"input x: f32[31, 65] ~ normal", "s: f32 = sum[r: 31, c: 65](x[r, c] * x[r, c])",
      "y: f32 = sqrt(s[])", "output y"}},
    {"the position of the largest",
     {"input x: f32[5, 33, 6] ~ integers(0, 9)",
      "v, i: f32[a: 5, c: 6] = argmax[b: 33](x[a, b, c])", "output v, i"}},
    {"weights that not every axis has",
     {"input x: f32[8, 6, 10] ~ normal", "input w: f32[6] ~ normal", "input u: f32[10] ~ normal",
      "y: f32[b: 6] = sum[a: 8, c: 10](x[a, b, c] * u[c] + w[b])", "output y"}},
    {"two sums and what is made of them",
     {"input x: f32[8, 50, 6] ~ normal", "s: f32[b: 50] = sum[a: 8, c: 6](x[a, b, c])",
      "q: f32[b: 50] = sum[a: 8, c: 6](x[a, b, c] * x[a, b, c])",
      "y: f32[b: 50] = q[b] / 48 - (s[b] / 48) * (s[b] / 48)", "output y, s"}},
    {"two inputs of different types along the same axes",
     {"input x: f32[12, 40] ~ normal", "input z: bf16[12, 40] ~ normal",
      "y: f32[c: 40] = sum[r: 12](x[r, c] * f32(z[r, c]))", "output y"}},
    {"results in another order",
     {"input x: f32[7, 11, 16] ~ normal", "s: f32[a: 7, b: 11] = sum[c: 16](x[a, b, c])",
      "y: f32[b: 11, a: 7] = s[a, b] * 2", "output y"}},
    {"a transposed reading",
     {"input x: f32[24, 36] ~ normal", "y: f32[c: 36] = sum[r: 24](x[r, c] * f32(r))", "output y"}},
    {"a tensor with itself, two axes exchanged",
     {"input x: f32[4, 10, 4, 10] ~ normal",
      "y: f32[i: 4, j: 4] = sum[r: 10, s: 10](x[i, r, j, s] * x[i, s, j, r])", "output y"}},
    {"bytes",
     {"input x: i8[20, 48] ~ integers(-100, 100)", "y: i32[c: 48] = sum[r: 20](i32(x[r, c]))",
      "output y"}},
    {"a slice",
     {"input x: f32[10, 20, 24] ~ normal", "y: f32[a: 10, c: 16] = sum[b: 20](x[a, b, c + 4])",
      "output y"}},
};

TEST_CASE("folds", "[codegen]") {
  for (const Case& c : kCases) {
    const auto graph = graph::Parse(c.graph, {});
    INFO(c.what << ": " << graph.status().message());
    REQUIRE(graph.ok());
    for (const char* knobs :
         {"fold { block_threads: 32 }", "fold { block_threads: 64 split: 3 }",
          "fold { block_threads: 32 vector_bytes: 4 flight_bytes: 16 split: 2 }",
          "fold { block_threads: 64 } precision { accumulator: ACCUMULATOR_F64 }"}) {
      v1::Group merged;
      REQUIRE(google::protobuf::TextFormat::ParseFromString(knobs, &merged));
      v1::Schedule schedule;
      v1::Group* group = schedule.add_groups();
      *group = merged;
      for (int output : graph->outputs) group->add_roots(graph->tensors[output].name);
      const absl::Status status = RunAndCompare(*graph, schedule, 3);
      INFO(knobs << "\n" << status.message());
      CHECK(status.ok());
    }
  }
}

TEST_CASE("what is no fold", "[codegen]") {
  const Case cases[] = {
      {"written along all axes",
       {"input x: f32[4, 8] ~ normal", "s: f32[r: 4] = sum[c: 8](x[r, c])",
        "y: f32[r: 4, c: 8] = x[r, c] - s[r]", "output y"}},
      {"windows that overlap",
       {"input x: f32[40] ~ normal", "y: f32[i: 36] = sum[q: 5](x[i + q])", "output y"}},
      {"backwards",
       {"input x: f32[8, 40] ~ normal", "y: f32[c: 40] = sum[r: 8](x[r, 39 - c])", "output y"}},
  };
  for (const Case& c : cases) {
    const auto graph = graph::Parse(c.graph, {});
    REQUIRE(graph.ok());
    v1::Schedule schedule;
    schedule.add_groups()->add_roots("y");
    schedule.mutable_groups(0)->mutable_fold();
    const auto plan = Lower(*graph, schedule, TestTarget());
    INFO(c.what << ": " << plan.status().message());
    CHECK(plan.status().code() == absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace warpsmith::codegen
