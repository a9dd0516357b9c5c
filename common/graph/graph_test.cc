#include "common/graph/graph.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "common/graph/random_graph.h"
#include "common/graph/scatter.h"

namespace warpsmith::graph {
namespace {

using Lines = std::vector<std::string>;

Graph MustParse(const Lines& lines, const Dims& dims = {}) {
  auto graph = Parse(lines, dims);
  INFO(graph.status().message());
  REQUIRE(graph.ok());
  return *std::move(graph);
}

std::string ValidationError(const Graph& graph) {
  const absl::Status status = Validate(graph);
  return status.ok() ? "none" : std::string(status.message());
}

TEST_CASE("loads that are out of bounds for certain are refused") {
  struct Case {
    const char *line, *message;
  };
  const Case cases[] = {
      {"y: f32[i: 8] = x[i]", "none"},
      {"y: f32[i: 8] = x[i + 1]",
       "'y': loads 'x' out of bounds: its axis 0 has extent 8 but i + 1 is 8 at i = 7"},
      {"y: f32[i: 8] = x[i - 1]", "i - 1 is -1 at i = 0"},
      {"y: f32[i: 9] = x[i]", "i is 8 at i = 8"},
      {"y: f32[i: 8] = x[7 - i]", "none"},
      {"y: f32[i: 4, j: 2] = x[i * 2 + j]", "none"},
      {"y: f32[i: 4, j: 3] = x[i * 2 + j]", "i * 2 + j is 8 at i = 3, j = 2"},
      {"y: f32[i: 16] = x[i % 8]", "none"},
      {"y: f32[i: 16] = x[i / 2]", "none"},
      {"y: f32[i: 16] = x[i * 2 % 9]", "none"},  // in fact 8 for i = 4, but that is not provable
      {"y: f32[i: 18] = x[i / 2]", "i / 2 is 8"},
      {"y: f32[i: 9] = select(i < 8, x[i], 0)", "none"},
      {"y: f32[i: 9] = select(i < 8 and x[i] > 0, 1, 0)", "none"},
      {"y: f32[i: 9] = select(x[i] > 0 and i < 8, 1, 0)", "i is 8 at i = 8"},
      {"y: f32[i: 9] = select(x[i] > 0, 1, 0)", "i is 8 at i = 8"},
      {"y: f32[i: 8] = x[n[i]]", "none"},
      {"y: f32[i: 8] = x[n[i + 1]]", "loads 'n' out of bounds"},
      {"y: f32 = sum[i: 9](x[i])", "i is 8 at i = 8"},
      {"y: f32 = x[8]", "8 is 8"},
      {"y: i64[i: 4] = 7 / i", "divides by zero"},
      {"y: i64[i: 4] = 7 % (i + 1)", "none"},
      {"y: i64[i: 4] = select(i > 0, 7 / i, 0)", "none"},
  };
  for (const Case& c : cases) {
    INFO(c.line);
    const Graph graph =
        MustParse({"input x: f32[8]", "input n: i64[8] ~ integers(0, 8)", c.line, "output y"});
    CHECK_THAT(ValidationError(graph), Catch::Contains(c.message));
  }
}

TEST_CASE("validation finds what builders cannot prevent") {
  const Lines lines = {"input x: f32[8]", "a: f32[i: 8] = x[i] + 1", "b: f32[i: 8] = a[i] * 2",
                       "output b"};
  const Graph good = MustParse(lines);
  CHECK(ValidationError(good) == "none");
  const auto broken = [&](auto change) {
    Graph graph = good;
    change(graph);
    return ValidationError(graph);
  };
  CHECK_THAT(broken([](Graph& g) { g.outputs.clear(); }), Catch::Contains("no output"));
  CHECK_THAT(broken([](Graph& g) { g.outputs = {9}; }), Catch::Contains("does not exist"));
  CHECK_THAT(broken([](Graph& g) { g.outputs = {2, 2}; }), Catch::Contains("twice"));
  CHECK_THAT(broken([](Graph& g) { g.tensors[1].name = "x"; }), Catch::Contains("twice"));
  CHECK_THAT(broken([](Graph& g) { g.tensors[1].name = "1"; }), Catch::Contains("no name"));
  CHECK_THAT(broken([](Graph& g) { g.tensors[1].type = DType::kF64; }), Catch::Contains("type"));
  CHECK_THAT(broken([](Graph& g) { g.tensors[1].shape = {7}; }), Catch::Contains("shape"));
  CHECK_THAT(broken([](Graph& g) { g.tensors[0].shape = {0}; }), Catch::Contains("less than 1"));
  CHECK_THAT(broken([](Graph& g) { std::swap(g.nodes[0].value, g.nodes[1].value); }),
             Catch::Contains("computed later"));
  CHECK_THAT(broken([](Graph& g) { g.nodes[0].value = Index(1); }), Catch::Contains("variable"));
  CHECK_THAT(broken([](Graph& g) { g.nodes[0].value = nullptr; }), Catch::Contains("expression"));
  CHECK_THAT(broken([](Graph& g) { g.nodes[0].outputs = {2}; }), Catch::Contains("outputs"));
  CHECK_THAT(broken([](Graph& g) { g.nodes[0].reduce = true; }), Catch::Contains("no axis"));
  CHECK_THAT(broken([](Graph& g) { g.nodes[0].scan = Scan{1}; }), Catch::Contains("along no axis"));
  CHECK_THAT(broken([](Graph& g) {
               g.nodes[0].scan = Scan{0};
               g.nodes[0].reduce = true;
               g.nodes[0].reduce_axes = {{"k", 2}};
             }),
             Catch::Contains("a reduce and a scan"));
  CHECK_THAT(broken([](Graph& g) {
               g.nodes[0].scan = Scan{0};
               g.nodes[0].combiner = Combiner::kArgMax;
             }),
             Catch::Contains("outputs"));
  CHECK_THAT(broken([](Graph& g) { g.nodes[0].axes[0].name = "a b"; }), Catch::Contains("no name"));
  CHECK_THAT(broken([](Graph& g) { g.updates = {{0, 1}}; }), Catch::Contains("no state"));
  CHECK_THAT(broken([](Graph& g) {
               auto e = std::make_shared<Expr>(*g.nodes[0].value);
               e->args.pop_back();
               g.nodes[0].value = e;
             }),
             Catch::Contains("arguments"));
}

TEST_CASE("an expression whose shared parts hang deep is refused") {
  // Two chains that end in the same third: first met at the shallow end of the short one.
  Graph graph = MustParse({"input x: f32[8]", "a: f32[i: 8] = x[i]", "output a"});
  const auto chain = [](ExprPtr e, int length) {
    for (int i = 0; i < length; ++i) e = Unary(Op::kExp, e);
    return e;
  };
  const ExprPtr shared = chain(graph.nodes[0].value, kMaxDepth - 100);
  graph.nodes[0].value = Binary(Op::kAdd, shared, chain(shared, 90));
  CHECK(ValidationError(graph) == "none");
  graph.nodes[0].value = Binary(Op::kAdd, shared, chain(shared, 100));
  CHECK_THAT(ValidationError(graph), Catch::Contains("deeper than 1024"));
}

TEST_CASE("pruning drops what nothing needs and renumbers the rest") {
  const Graph graph = MustParse({"input x: f32[8]", "state s: f32[8]", "a: f32[i: 8] = x[i] + 1",
                                 "b: f32[i: 8] = x[i] * 2", "v, i: f32 = argmax[k: 8](b[k])",
                                 "c: f32[i: 8] = s[i] + 1", "unused: f32[i: 8] = a[i]", "output i",
                                 "update s = c"});
  const Graph pruned = Prune(graph);
  CHECK(Validate(pruned).ok());
  CHECK(Print(pruned) == Lines{"input x: f32[8] ~ normal", "state s: f32[8] ~ normal",
                               "b: f32[i: 8] = x[i] * 2", "v, i: f32 = argmax[k: 8](b[k])",
                               "c: f32[i: 8] = s[i] + 1", "output i", "update s = c"});
}

TEST_CASE("bytes are what a run must at least touch") {
  struct Case {
    Lines lines;
    int64_t read, written;
  };
  const std::string x = "input x: f32[8, 6]";
  const Case cases[] = {
      {{x, "y: f32[r: 8, c: 6] = x[r, c] + x[r, c]"}, 48 * 4, 48 * 4},
      {{x, "y: f32[r: 8] = sum[c: 6](x[r, c])"}, 48 * 4, 8 * 4},
      {{x, "y: f16[r: 4, c: 6] = f16(x[r * 2, c])"}, 24 * 4, 24 * 2},
      {{x, "y: f32[r: 8, c: 6] = x[r, 0]"}, 8 * 4, 48 * 4},
      {{x, "y: f32[c: 6] = x[c, c]"}, 6 * 4, 6 * 4},
      {{x, "y: f32[i: 48] = x[i / 6, i % 6]"}, 48 * 4, 48 * 4},
      {{x, "y: f32[r: 10, c: 6] = select(r >= 1 and r < 9, x[r - 1, c], 0)"}, 48 * 4, 60 * 4},
      {{x, "y: f32[r: 3, c: 6] = x[r, c] + x[r + 1, c]"}, 24 * 4, 18 * 4},
      {{x, "y: f32[r: 4, c: 6] = select(r < 2, x[r, c], 0)"}, 12 * 4, 24 * 4},
      // through what is in between
      {{x, "a: f32[r: 8, c: 6] = exp(x[r, c])", "y: f32[r: 2, c: 6] = a[r, c]"}, 12 * 4, 12 * 4},
      {{x, "m: f32[r: 8] = max[c: 6](x[r, c])", "y: f32[r: 8, c: 6] = x[r, c] - m[r]"},
       48 * 4,
       48 * 4},
      // a scan needs what stands before, in its direction; whole rows of few rows
      {{x, "y: f32[r: 8, c: 6] = cumsum[c](x[r, c])"}, 48 * 4, 48 * 4},
      {{x, "a: f32[r: 8, c: 6] = cumsum[c](x[r, c])", "y: f32[r: 8] = a[r, 2]"}, 24 * 4, 8 * 4},
      {{x, "a: f32[r: 8, c: 6] = cumsum[c, exclusive](x[r, c])", "y: f32[r: 8] = a[r, 2]"},
       16 * 4,
       8 * 4},
      {{x, "a: f32[r: 8, c: 6] = cumsum[c, exclusive](x[r, c])", "y: f32[r: 8] = a[r, 0]"},
       0,
       8 * 4},
      {{x, "a: f32[r: 8, c: 6] = cummax[r, reverse](x[r, c])", "y: f32[c: 6] = a[6, c]"},
       12 * 4,
       6 * 4},
      {{x, "a: f32[r: 8, c: 6] = cumsum[c](x[r, c])", "y: f32[r: 2, c: 6] = a[r * 4, c]"},
       12 * 4,
       12 * 4},
      // windows: overlapping, apart
      {{x, "y: f32[r: 8, c: 4] = sum[k: 3](x[r, c + k])"}, 48 * 4, 32 * 4},
      {{x, "y: f32[r: 8, c: 2] = sum[k: 2](x[r, c * 3 + k])"}, 32 * 4, 16 * 4},
      // gathers: of few rows, of more rows than there are
      {{x, "input n: i64[2] ~ integers(0, 8)", "y: f32[i: 2, c: 6] = x[n[i], c]"},
       12 * 4 + 2 * 8,
       12 * 4},
      {{x, "input n: i64[99] ~ integers(0, 8)", "y: f32[i: 99] = x[n[i], 0]"},
       8 * 4 + 99 * 8,
       99 * 4},
      {{x, "input unused: f32[100]", "y: f32 = x[0, 0]"}, 4, 4},
  };
  for (const Case& c : cases) {
    Lines lines = c.lines;
    lines.push_back("output y");
    INFO(lines[lines.size() - 2]);
    const Cost cost = Count(MustParse(lines));
    CHECK(cost.read_bytes == c.read);
    CHECK(cost.written_bytes == c.written);
  }
  // About half of a triangle, never more than the whole.
  const int64_t triangle =
      Count(MustParse({"input x: f32[100, 100]",
                       "y: f32[r: 100] = sum[c: 100](select(c <= r, x[r, c], 0))", "output y"}))
          .bytes();
  CHECK(triangle == Approx(5050 * 4 + 400).epsilon(0.05));
}

TEST_CASE("an updated state is written, and read only where it is used") {
  const Graph graph =
      MustParse({"input x: f32[8]", "state s: f32[8]", "state t: f32[8]",
                 "a: f32[i: 8] = s[i] + x[i]", "output x", "update s = a", "update t = x"});
  CHECK(Count(graph).read_bytes == 4 * (8 + 8));  // x, s
  CHECK(Count(graph).written_bytes == 4 * (8 + 8 + 8));
}

TEST_CASE("what an update leaves as it was is not counted") {
  const auto graph = [](const std::string& value) {
    return MustParse({"input x: f32[2, 8]", "input at: i64[]", "state s: f32[50, 8]",
                      "a: f32[t: 50, d: 8] = " + value, "output x", "update s = a"});
  };
  const Cost slice = Count(graph("select(4 <= t and t < 6, x[t - 4, d] * 2, s[t, d])"));
  CHECK(slice.written_bytes == 64 + 64);
  CHECK(slice.read_bytes == 64);
  CHECK(slice.operations == 16);
  const Cost last = Count(graph("select(t < 48, s[t, d], x[t - 48, d])"));
  CHECK(last.written_bytes == 64 + 64);
  CHECK(last.read_bytes == 64);
  // Where data decides, nothing is certain.
  const Cost named = Count(graph("select(at[] == t, x[0, d], s[t, d])"));
  CHECK(named.written_bytes == 64);
  CHECK(named.read_bytes == 64);
  // What does not stay in its place is read and written.
  const Cost moved = Count(graph("select(t < 48, s[49 - t, d], x[t - 48, d])"));
  CHECK(moved.written_bytes == 64 + 1600);
  CHECK(moved.read_bytes == 64 + 4 * 8 * 48);
}

TEST_CASE("maps that write where a table says", "[graph]") {
  const std::string last = "last: i64[n: 20] = max[t: 4](select(at[t] == n, t, -1))";
  const std::string now = "y: f32[n: 20, d: 3] = select(last[n] >= 0, x[last[n], d], s[n, d])";
  const struct {
    const char* what;
    std::string last, now;
    bool found;
  } cases[] = {
      {"it does", last, now, true},
      {"the other way round", last,
       "y: f32[n: 20, d: 3] = select(last[n] < 0, s[n, d], x[last[n], d])", true},
      {"of some writers only",
       "last: i64[n: 20] = max[t: 4](select(n == at[t] + 1 and t < 3, t, -1))", now, true},
      {"another number for none", "last: i64[n: 20] = max[t: 4](select(at[t] == n, t, -2))",
       "y: f32[n: 20, d: 3] = select(last[n] >= 0, x[last[n], d], s[n, d])", false},
      {"two writers have one number", "last: i64[n: 20] = max[t: 4](select(at[t] == n, t / 2, -1))",
       now, false},
      {"the first, not the last", "last: i64[n: 20] = min[t: 4](select(at[t] == n, t, -1))", now,
       false},
      {"no place is named", "last: i64[n: 20] = max[t: 4](select(at[t] <= n, t, -1))", now, false},
      {"the place depends on itself", "last: i64[n: 20] = max[t: 4](select(at[t] * n == n, t, -1))",
       now, false},
      {"something changes that nobody names", last,
       "y: f32[n: 20, d: 3] = select(last[n] >= -1, x[max(last[n], 0), d], s[n, d])", false},
      {"what another place's writer writes", last,
       "y: f32[n: 20, d: 3] = select(last[n] >= 0, x[last[19 - n] % 4, d], s[n, d])", false},
      {"another place stays", last,
       "y: f32[n: 20, d: 3] = select(last[n] >= 0, x[last[n], d], s[19 - n, d])", false},
  };
  for (const auto& c : cases) {
    INFO(c.what);
    const Graph graph =
        MustParse({"input x: f32[4, 3]", "input at: i64[4] ~ integers(0, 20)",
                   "state s: f32[20, 3]", c.last, c.now, "output x", "update s = y"});
    const auto scatter = ScatterOf(graph, graph.Find("y"));
    CHECK(scatter.has_value() == c.found);
    if (!scatter) continue;
    CHECK(scatter->base == graph.Find("s"));
    CHECK(scatter->axes.size() == 2);
    CHECK(scatter->axes[0].extent == 4);
    CHECK(scatter->part == 3);
  }
}

TEST_CASE("light is the larger of the times for bytes and operations") {
  const Cost cost =
      Count(MustParse({"input x: f32[10, 4]", "s: f32[r: 10] = sum[c: 4](exp(x[r, c]) * 2)",
                       "y: f32[r: 10] = s[r] / 3", "output y"}));
  CHECK(cost.operations == 10 * 4 * 2 + 10);
  CHECK(cost.transcendental == 10 * 4 + 10);
  CHECK(LightSeconds(cost, Roof::Of(1e9, 1e6)) == Approx(90e-6));
  CHECK(LightSeconds(cost, Roof::Of(1e6, 1e9)) == Approx(200e-6));
}

TEST_CASE("a scan combines each element once, a cumulative logsumexp with an exp and a log") {
  const Cost sum = Count(
      MustParse({"input x: f32[10, 4]", "y: f32[r: 10, c: 4] = cumsum[c](x[r, c])", "output y"}));
  CHECK(sum.operations == 40);
  CHECK(sum.transcendental == 0);
  const Cost log = Count(MustParse(
      {"input x: f32[10, 4]", "y: f32[r: 10, c: 4] = cumlogsumexp[c](x[r, c])", "output y"}));
  CHECK(log.operations == 160);
  CHECK(log.transcendental == 80);
}

TEST_CASE("memory takes as long as its slowest mixture of reads and writes") {
  const Roof roof{.read_bytes = 4.5e12, .write_bytes = 4.4e12, .copy_bytes = 4.3e12};
  CHECK(roof.MemorySeconds(9e9, 0) == Approx(2e-3));              // reads alone
  CHECK(roof.MemorySeconds(0, 8.8e9) == Approx(2e-3));            // writes alone
  CHECK(roof.MemorySeconds(4.3e9, 4.3e9) == Approx(2e-3));        // a copy
  CHECK(roof.MemorySeconds(4.3e9 + 9e9, 4.3e9) == Approx(4e-3));  // a copy, then reads
  CHECK(Roof::Of(1e9, 1e9).MemorySeconds(3e9, 1e9) == Approx(4));
  CHECK(Roof{}.MemorySeconds(3e9, 1e9) == 0);
}

TEST_CASE("counting is quick and within the tensors for random graphs") {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    INFO("seed " << seed);
    const Graph graph = RandomGraph(seed, {.scans = seed % 2 == 1});
    int64_t most = 0, written = 0;
    for (const Tensor& tensor : graph.tensors) most += tensor.node < 0 ? tensor.bytes() : 0;
    for (int output : graph.outputs) written += graph.tensors[output].bytes();
    const int64_t bytes = Count(graph).bytes();
    CHECK(bytes >= written);
    CHECK(bytes <= most + written);
  }
}

}  // namespace
}  // namespace warpsmith::graph
