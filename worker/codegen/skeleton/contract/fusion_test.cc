// What first schedules make of products: which of them run as such, and what is stored for them.
#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "worker/codegen/testing.h"

namespace warpsmith::codegen {
namespace {

TEST_CASE("products of matrices run as such by default", "[codegen]") {
  const graph::Graph graph = ParseOrDie(
      {"input x: f32[256, 512] ~ normal", "param w: f32[384, 512] ~ normal",
       "param c: f32[384] ~ normal", "s: f32[m: 256, n: 384] = sum[k: 512](x[m, k] * w[n, k])",
       "y: f32[m: 256, n: 384] = max(s[m, n] + c[n], 0.0)", "output y"});
  const auto infos = Describe(graph, DefaultSchedule(graph, Target()), Target());
  REQUIRE(infos.ok());
  REQUIRE(infos->size() == 1);
  CHECK((*infos)[0].skeleton == v1::Group::kContract);
}

TEST_CASE("a matrix that two rows need is read once, by default", "[codegen]") {
  const auto skeleton = [](int64_t m, int64_t n, int64_t k) {
    const graph::Graph graph = ParseOrDie(
        {absl::StrFormat("input x: bf16[%d, %d] ~ normal", m, k),
         absl::StrFormat("param w: bf16[%d, %d] ~ normal", n, k),
         absl::StrFormat("s: f32[m: %d, n: %d] = sum[k: %d](f32(x[m, k]) * f32(w[n, k]))", m, n, k),
         absl::StrFormat("y: bf16[m: %d, n: %d] = bf16(s[m, n])", m, n), "output y"});
    const auto infos = Describe(graph, DefaultSchedule(graph, Target()), Target());
    REQUIRE(infos.ok());
    REQUIRE(infos->size() == 1);
    return (*infos)[0].skeleton;
  };
  for (int64_t m : {2, 3, 4}) CHECK(skeleton(m, 4096, 4096) == v1::Group::kContract);
  CHECK(skeleton(4096, 2, 4096) == v1::Group::kContract);
  CHECK(skeleton(1, 4096, 4096) == v1::Group::kRows);
  CHECK(skeleton(2, 8, 4096) == v1::Group::kRows);
}

TEST_CASE("what much is made of, and several times, is made where sums end, places left out",
          "[codegen]") {
  const auto made = [](const std::string& map) {
    const graph::Graph graph = ParseOrDie(
        {"input x: f32[64, 16, 32, 32] ~ normal", "param w: f32[16, 32, 4, 4] ~ normal",
         "p: f32[n: 64, o: 32, i: 33, l: 2, j: 33, m: 2] = sum[c: 16, u: 2, v: 2](select(0 <= i - "
         "u "
         "and i - u < 32 and 0 <= j - v and j - v < 32, x[n, c, i - u, j - v], 0) * w[c, o, 2 * u "
         "+ "
         "l, 2 * v + m])",
         "s: f32[n: 64, o: 32, i: 65, j: 65] = p[n, o, i / 2, i % 2, j / 2, j % 2]",
         "y: f32[n: 64, o: 32, i: 65, j: 65] = " + map,
         "t: f32[n: 64, o: 32] = sum[i: 65, j: 65](y[n, o, i, j])",
         "q: f32[n: 64, o: 32] = sum[i: 65, j: 65]((y[n, o, i, j] - t[n, o] / 4225) * (y[n, o, i, "
         "j] "
         "- t[n, o] / 4225))",
         "z: f32[n: 64, o: 32, i: 65, j: 65] = (y[n, o, i, j] - t[n, o] / 4225) * rsqrt(q[n, o])",
         "output z"});
    return DefaultSchedule(graph, Target()).groups(0).roots(0);
  };
  CHECK(made("s[n, o, i, j] / (1 + exp(-s[n, o, i, j]))") == "y");
  CHECK(made("s[n, o, i, j] + 1") == "p");
}

TEST_CASE("an operand whose elements are scattered is written out first, if it is large",
          "[codegen]") {
  const auto roots = [](int64_t rows, const std::string& dtype) {
    const graph::Graph graph = ParseOrDie(
        {absl::StrFormat("input x: %s[%d, %d, 64] ~ normal", dtype, rows, rows),
         absl::StrFormat("input z: %s[%d, %d, 64] ~ normal", dtype, rows, rows),
         absl::StrFormat("a: %s[c: 64, i: %d, k: %d] = x[i, k, c]", dtype, rows, rows),
         absl::StrFormat("b: %s[c: 64, j: %d, k: %d] = z[j, k, c]", dtype, rows, rows),
         absl::StrFormat(
             "s: f32[c: 64, i: %d, j: %d] = sum[k: %d](f32(a[c, i, k]) * f32(b[c, j, k]))", rows,
             rows, rows),
         absl::StrFormat("y: %s[c: 64, i: %d, j: %d] = %s(s[c, i, j])", dtype, rows, rows, dtype),
         "output y"});
    std::string all;
    const v1::Schedule schedule = DefaultSchedule(graph, Target());
    for (const auto& group : schedule.groups())
      for (const auto& root : group.roots()) all += root;
    return all;
  };
  for (const char* type : {"bf16", "f32"}) {
    INFO(type);
    CHECK(roots(512, type) == "aby");
    CHECK(roots(32, type) == "y");
  }
}

TEST_CASE("of an operand what it views is stored", "[codegen]") {
  const graph::Graph graph = ParseOrDie(
      {"input x: f32[64, 96] ~ normal", "input v: f32[64, 32] ~ normal",
       "input w: f32[96, 32] ~ normal", "h: f32[i: 64, j: 96] = exp(x[i, j])",
       "t: f32[j: 96, i: 64] = h[i, j]", "y: f32[m: 96, n: 32] = sum[k: 64](t[m, k] * v[k, n])",
       "z: f32[m: 64, n: 32] = sum[k: 96](h[m, k] * w[k, n])", "output y", "output z"});
  const v1::Schedule schedule = DefaultSchedule(graph, TestTarget());
  std::vector<std::string> roots;
  for (const v1::Group& group : schedule.groups())
    roots.insert(roots.end(), group.roots().begin(), group.roots().end());
  INFO(absl::StrJoin(roots, ", "));
  CHECK(std::count(roots.begin(), roots.end(), "h") == 1);
  CHECK(std::count(roots.begin(), roots.end(), "t") == 0);
}

// Two norms side by side before a product, of which one reads lines that a table names.
const Lines kTwoNorms = {
    "input i: i64[160] ~ integers(0, 300)",
    "input t: bf16[300, 192] ~ normal",
    "input x: bf16[160, 128] ~ normal",
    "input w: bf16[160, 320] ~ normal(0, 0.1)",
    "q: f32[m: 160] = sum[k: 192](f32(t[i[m], k]) * f32(t[i[m], k]))",
    "a: bf16[m: 160, k: 192] = bf16(f32(t[i[m], k]) * rsqrt(q[m] / 192.0 + 1e-6))",
    "r: f32[m: 160] = sum[k: 128](f32(x[m, k]) * f32(x[m, k]))",
    "b: bf16[m: 160, k: 128] = bf16(f32(x[m, k]) * rsqrt(r[m] / 128.0 + 1e-6))",
    "c: bf16[m: 160, k: 320] = select(k < 192, a[m, k], b[m, k - 192])",
    "s: f32[m: 160, n: 160] = sum[k: 320](f32(c[m, k]) * f32(w[n, k]))",
    "y: bf16[m: 160, n: 160] = bf16(s[m, n])",
    "output y"};

TEST_CASE("what is concatenated along K is brought from where its parts lie", "[codegen]") {
  const graph::Graph graph = ParseOrDie(kTwoNorms);
  const v1::Schedule schedule = FirstSchedule(graph, Target());
  std::vector<std::string> roots;
  for (const v1::Group& group : schedule.groups())
    roots.insert(roots.end(), group.roots().begin(), group.roots().end());
  INFO(absl::StrJoin(roots, ", "));
  // Neither sums nor the whole are in memory.
  CHECK(roots == std::vector<std::string>{"a", "b", "y"});
  const auto plan = Lower(graph, schedule, Target());
  REQUIRE(plan.ok());
  CHECK(absl::StrContains(plan->source(), "kJoined = 1, kCut = 3"));
  CHECK(absl::StrContains(plan->source(), "map_behind"));
  CHECK(!absl::StrContains(plan->source(), "contract_pack<"));
  Check(graph, schedule, 1);
}

TEST_CASE("parts along K that no step divides are packed", "[codegen]") {
  Lines lines = kTwoNorms;
  for (std::string& line : lines)
    line = absl::StrReplaceAll(line, {{"192", "200"}, {"320", "328"}});
  const graph::Graph graph = ParseOrDie(lines);
  const v1::Schedule schedule = FirstSchedule(graph, Target());
  const auto plan = Lower(graph, schedule, Target());
  REQUIRE(plan.ok());
  CHECK(!absl::StrContains(plan->source(), "kJoined = 1"));
  Check(graph, schedule, 2);
}

}  // namespace
}  // namespace warpsmith::codegen
