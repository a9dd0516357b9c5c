#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "worker/codegen/testing.h"

namespace warpsmith::codegen {
namespace {

TEST_CASE("single_pass_variance finds what is a variance and nothing else", "[rewrite]") {
  const Lines head = {"input x: f32[6, 40] ~ normal(5, 2)", "input z: f32[6, 40] ~ normal",
                      "t: f32[r: 6] = sum[c: 40](x[r, c])", "m: f32[r: 6] = t[r] / 40",
                      "m2: f32[r: 6, k: 1] = t[r] * 0.025", "n: f32[r: 6] = t[r] / 39"};
  struct Case {
    const char* squares;
    bool applies;
  };
  const Case cases[] = {
      {"q: f32[r: 6] = sum[c: 40]((x[r, c] - m[r]) * (x[r, c] - m[r]))", true},
      {"q: f32[r: 6] = sum[c: 40]((m[r] - x[r, c]) * (m[r] - x[r, c]))", true},
      {"q: f32[r: 6] = sum[c: 40](pow(x[r, c] - m2[r, 0], 2))", true},
      {"q: f32[r: 6] = sum[c: 40]((x[r, c] - n[r]) * (x[r, c] - n[r]))", false},
      {"q: f32[r: 6] = sum[c: 40]((z[r, c] - m[r]) * (z[r, c] - m[r]))", false},
      {"q: f32[r: 6] = sum[c: 40]((x[r, c] - m[r]) * (x[r, c] + m[r]))", false},
      {"q: f32[r: 6] = sum[c: 40](abs(x[r, c] - m[r]))", false},
      {"q: f32[r: 6] = max[c: 40]((x[r, c] - m[r]) * (x[r, c] - m[r]))", false},
  };
  for (const Case& c : cases) {
    INFO(c.squares);
    Lines lines = head;
    lines.push_back(c.squares);
    for (const char* line :
         {"y: f32[r: 6, c: 40] = (x[r, c] - m[r]) * rsqrt(q[r] / 40 + 1e-5) + n[r] + m2[r, 0]",
          "output y, q"})
      lines.push_back(line);
    const auto graph = graph::Parse(lines, {});
    INFO(graph.status().message());
    REQUIRE(graph.ok());
    const std::vector<std::string> rules = ApplicableRewrites(*graph);
    REQUIRE(rules == (c.applies ? std::vector<std::string>{"single_pass_variance:q"}
                                : std::vector<std::string>{}));
    if (!c.applies) continue;
    v1::Schedule schedule;
    schedule.add_rewrites(rules[0]);
    const graph::Graph rewritten = Rewrite(*graph, schedule.rewrites()).value();
    INFO(absl::StrJoin(graph::Print(rewritten), "\n"));
    const absl::Status valid = graph::Validate(rewritten);
    INFO(valid.message());
    CHECK(valid.ok());
    CHECK(ApplicableRewrites(rewritten).empty());
    *schedule.mutable_groups() = DefaultSchedule(rewritten, TestTarget()).groups();
    const auto infos = Describe(rewritten, schedule, TestTarget());
    REQUIRE(infos.ok());
    CHECK((*infos)[0].stages == 1);
    const absl::Status status = RunAndCompare(*graph, schedule, 3);
    INFO(status.message());
    CHECK(status.ok());
  }
}

// What stands behind the first lines of a graph, and whether a rule finds its tensor y there.
struct Graphs {
  Lines lines;
  bool applies;
};

// Whether the rule, and no other, applies where it should, to `tensor`, and what it makes is right.
void CheckFinds(const std::string& rule, const std::string& tensor, const Lines& head,
                const std::vector<Graphs>& cases) {
  const std::vector<std::string> found = {rule + ":" + tensor}, none;
  uint64_t seed = 1;
  for (const Graphs& one : cases) {
    Lines lines = head;
    lines.insert(lines.end(), one.lines.begin(), one.lines.end());
    const graph::Graph graph = ParseOrDie(lines);
    INFO(absl::StrJoin(lines, "\n"));
    REQUIRE(ApplicableRewrites(graph) == (one.applies ? found : none));
    if (!one.applies) continue;
    v1::Schedule schedule;
    schedule.add_rewrites(found[0]);
    const graph::Graph rewritten = Rewrite(graph, schedule.rewrites()).value();
    INFO(absl::StrJoin(graph::Print(rewritten), "\n"));
    const absl::Status valid = graph::Validate(rewritten);
    INFO(valid.message());
    CHECK(valid.ok());
    *schedule.mutable_groups() = DefaultSchedule(rewritten, TestTarget()).groups();
    const absl::Status status = RunAndCompare(graph, schedule, seed++);
    INFO(status.message());
    CHECK(status.ok());
  }
}

TEST_CASE("sum_before_product finds sums that need one factor's sum, and nothing else",
          "[rewrite]") {
  const Lines head = {"input x: f32[24, 40] ~ normal", "param w: f32[36, 40] ~ normal",
                      "param c: f32[36] ~ normal",
                      "s: f32[m: 24, n: 36] = sum[k: 40](x[m, k] * w[n, k])"};
  const std::vector<Graphs> cases = {
      {{"y: f32[m: 24] = sum[n: 36](s[m, n])", "output y"}, true},
      {{"h: f32[m: 24, n: 36] = (s[m, n] + c[n]) / 2", "y: f32[m: 24] = sum[n: 36](h[m, n] * 3)",
        "output y"},
       true},
      {{"y: f32[m: 24, j: 1] = sum[n: 36](c[n] - s[m, n] * c[n])", "output y"}, true},
      {{"y: f32[n: 36] = sum[m: 24](s[m, n])", "output y"}, true},
      {{"y: f32[] = sum[m: 24, n: 36](c[n] * s[m, n])", "output y"}, true},  // of both factors
      {{"d: f32[m: 24, n: 36] = s[m, n] + x[m, n]", "y: f32[m: 24] = sum[n: 36](d[m, n])",
        "output y"},
       true},
      {{"y: f32[m: 24] = sum[n: 36](s[m, n] + 1)", "output y"}, true},  // the same for all
      {{"y: f32[m: 24] = sum[n: 36](s[m, n] * s[m, n])", "output y"}, false},
      {{"y: f32[m: 24] = sum[n: 36](max(s[m, n], 0.0))", "output y"}, false},
      {{"y: f32[m: 24] = sum[n: 36](c[n] / s[m, n])", "output y"}, false},
      {{"y: f32[m: 24] = sum[n: 36](f32(bf16(s[m, n])))", "output y"}, false},
      {{"y: f32[m: 24] = max[n: 36](s[m, n])", "output y"}, false},
      {{"y: f32[m: 24] = sum[n: 36](s[m, n])", "output y, s"}, false},  // the product is wanted
      // what is subtracted needs it
      {{"t: f32[m: 24] = max[n: 36](s[m, n])", "y: f32[m: 24] = sum[n: 36](s[m, n] - t[m])",
        "output y"},
       false},
  };
  CheckFinds("sum_before_product", "y", head, cases);
}

TEST_CASE("the sum of all places of a transposed convolution is the image's, times weights",
          "[rewrite]") {
  struct Case {
    const char* what;
    int places;
    const char* from;                 // where the first tap is read
    std::vector<int64_t> of_weights;  // the sum's axes
  };
  const Case cases[] = {
      {"all of it", 12, "i - u", {4, 6}},
      {"with places of nothing before it", 14, "i - u - 1", {4, 6}},
      {"but for the first place", 11, "i - u + 1", {4, 6, 3}},
      {"but for the last place", 11, "i - u", {4, 6, 3}},
  };
  for (const Case& c : cases) {
    INFO(c.what);
    const std::string n = std::to_string(c.places), at = c.from;
    const graph::Graph graph =
        ParseOrDie({"input x: f32[4, 6, 10] ~ normal", "input w: f32[6, 5, 3] ~ normal",
                    "s: f32[n: 4, o: 5, i: " + n + "] = sum[c: 6, u: 3](select(0 <= " + at +
                        " and " + at + " < 10, x[n, c, " + at + "], 0.0) * w[c, o, u])",
                    "y: f32[n: 4, o: 5] = sum[i: " + n + "](s[n, o, i] * 0.5 + 1)", "output y"});
    v1::Schedule schedule;
    schedule.add_rewrites("sum_before_product:y");
    const auto rewritten = Rewrite(graph, schedule.rewrites());
    REQUIRE(rewritten.ok());
    CHECK(rewritten->tensors[rewritten->Find("y.weights")].shape == c.of_weights);
    v1::Schedule first = FirstSchedule(graph, TestTarget());
    const absl::Status answer = RunAndCompare(graph, first, 3);
    INFO(answer.message());
    CHECK(answer.ok());
    CHECK((first.rewrites_size() == 1) == (c.of_weights.size() == 2));  // where it pays
  }
}

TEST_CASE("sums over some of an image's axes are of its places, whatever tap reads them",
          "[rewrite]") {
  struct Case {
    const char* what;
    int64_t places;
    const char* from;
    int64_t gathered;  // places of the sum
  };
  const Case cases[] = {
      {"all places", 8, "i + u", 10},
      {"with nothing around them", 10, "i + u - 1", 10},
      {"backwards", 12, "i - u", 10},
      {"every second one", 4, "2 * i + u", 9},
  };
  for (const Case& c : cases) {
    INFO(c.what);
    const std::string n = std::to_string(c.places), at = c.from;
    const graph::Graph graph =
        ParseOrDie({"input x: f32[4, 6, 16, 10] ~ normal", "input w: f32[6, 5, 3] ~ normal",
                    "s: f32[n: 4, o: 5, d: 16, i: " + n + "] = sum[c: 6, u: 3](select(0 <= " + at +
                        " and " + at + " < 10, x[n, c, d, " + at + "], 0.0) * w[c, o, u])",
                    "y: f32[n: 4, o: 5, i: " + n + "] = sum[d: 16](s[n, o, d, i])", "output y"});
    v1::Schedule schedule = FirstSchedule(graph, TestTarget());
    REQUIRE(schedule.rewrites_size() == 1);
    CHECK(schedule.rewrites(0) == "sum_before_product:y");
    const auto rewritten = Rewrite(graph, schedule.rewrites());
    REQUIRE(rewritten.ok());
    CHECK(rewritten->tensors[rewritten->Find("y.weights")].shape ==
          std::vector<int64_t>{4, 6, c.gathered});
    const absl::Status answer = RunAndCompare(graph, schedule, 3);
    INFO(answer.message());
    CHECK(answer.ok());
  }
}

TEST_CASE("what is at places that nobody reads is not summed", "[rewrite]") {
  for (const char* at : {"i + u", "4 * i + 2 * u"}) {  // of which the second is never odd
    INFO(at);
    const graph::Graph graph = ParseOrDie(
        {"input x: f32[4, 64, 44] ~ normal", "input w: f32[5, 8] ~ normal",
         absl::StrCat("s: f32[n: 4, o: 5, d: 64, i: 8] = sum[u: 8](x[n, d, ", at, "] * w[o, u])"),
         "y: f32[n: 4, o: 5, i: 8] = sum[d: 64](s[n, o, d, i])", "output y"});
    const std::vector<std::string> found = ApplicableRewrites(graph);
    REQUIRE(found == std::vector<std::string>{"sum_before_product:y"});
    v1::Schedule schedule;
    schedule.add_rewrites(found[0]);
    const graph::Graph rewritten = Rewrite(graph, schedule.rewrites()).value();
    const auto& shape = rewritten.tensors[rewritten.Find("y.weights")].shape;
    CHECK(shape == (at[0] == 'i' ? std::vector<int64_t>{4, 15} : std::vector<int64_t>{4, 8, 8}));
    *schedule.mutable_groups() = DefaultSchedule(rewritten, TestTarget()).groups();
    const absl::Status answer = RunAndCompare(graph, schedule, 5);
    INFO(answer.message());
    CHECK(answer.ok());
  }
}

TEST_CASE("what is summed over by its digits alone is summed of the factors that have them",
          "[rewrite]") {
  // A transposed convolution of stride 2 by remainders, its mean and its average pool.
  const Lines head = {
      "input x: f32[2, 3, 8] ~ normal", "input w: f32[3, 5, 4] ~ normal",
      "p: f32[n: 2, o: 5, i: 8, l: 2] = sum[c: 3, u: 2](select(0 <= i - u, x[n, c, i - u], 0.0) "
      "* w[c, o, 2 * u + l])",
      "s: f32[n: 2, o: 5, i: 16] = p[n, o, i / 2, i % 2]"};
  const std::vector<Graphs> cases = {
      {{"y: f32[n: 2, o: 5] = sum[r: 16](s[n, o, r])", "output y"}, true},
      {{"y: f32[n: 2, o: 5, i: 8] = sum[r: 2](s[n, o, 2 * i + r])", "output y"}, true},
      {{"y: f32[n: 2, o: 5, i: 4] = sum[r: 4](s[n, o, 4 * i + r])", "output y"}, true},
  };
  CheckFinds("sum_before_product", "y", head, cases);
  // Which digit it is of which place is not told.
  for (const char* sum : {"y: f32[n: 2, o: 5, i: 5] = sum[r: 3](s[n, o, 3 * i + r])",
                          "y: f32[n: 2, o: 5, i: 15] = sum[r: 2](s[n, o, i + r])"}) {
    INFO(sum);
    Lines lines = head;
    lines.insert(lines.end(), {sum, "output y"});
    for (const std::string& found : ApplicableRewrites(ParseOrDie(lines)))
      CHECK(found != "sum_before_product:y");
  }
}

TEST_CASE("window_of_windows finds sums over windows of windows, and nothing else", "[rewrite]") {
  const Lines head = {
      "input x: f32[16, 6, 32] ~ normal",
      "param w: f32[5, 6, 3] ~ normal",
      "param c: f32[] ~ normal",
      "s: f32[n: 16, o: 5, i: 30] = sum[c: 6, u: 3](x[n, c, i + u] * w[o, c, u])",
      "b: f32[n: 16, o: 5, i: 34] = sum[c: 6, u: 3](select(0 <= i - u and i - u < 32, "
      "x[n, c, i - u], 0.0) * w[o, c, u])",
      "d: f32[n: 16, o: 5, i: 26] = sum[c: 6, u: 3](x[n, c, i + 3 * u] * w[o, c, u])"};
  const std::vector<Graphs> cases = {
      {{"y: f32[n: 16, o: 5, i: 7] = sum[r: 4](s[n, o, 4 * i + r])", "output y"}, true},
      {{"y: f32[n: 16, o: 5, i: 7] = sum[r: 6](c[] * s[n, o, 4 * i + r] + w[o, 0, 0])", "output y"},
       true},  // windows that overlap
      {{"y: f32[n: 16, o: 5, i: 8] = sum[r: 4](b[n, o, 4 * i + r] / 4)", "output y"}, true},
      {{"y: f32[n: 16, o: 5, i: 7] = max[r: 4](s[n, o, 4 * i + r])", "output y"}, false},
      {{"y: f32[n: 16, o: 5, i: 7] = sum[r: 4](max(s[n, o, 4 * i + r], 0.0))", "output y"}, false},
      {{"y: f32[n: 16, o: 5, i: 7] = sum[r: 4](s[n, o, 4 * i + r])", "output y, s"}, false},
  };
  CheckFinds("window_of_windows", "y", head, cases);
  // Taps that lie further apart than what is summed are none of it.
  Lines apart = head;
  apart.insert(apart.end(),
               {"y: f32[n: 16, o: 5, i: 6] = sum[r: 4](d[n, o, 4 * i + r])", "output y"});
  for (const std::string& found : ApplicableRewrites(ParseOrDie(apart)))
    CHECK(found != "window_of_windows:y");
  // Both axes of an image at once, in fp64.
  CheckFinds(
      "window_of_windows", "y",
      {"input x: f64[8, 4, 18, 34] ~ normal", "param w: f64[5, 4, 3, 3] ~ normal",
       "s: f64[n: 8, o: 5, i: 16, j: 32] = sum[c: 4, u: 3, v: 3](w[o, c, u, v] * x[n, c, i + "
       "u, j + v])"},
      {{{"y: f64[n: 8, o: 5, i: 8, j: 8] = sum[r: 2, q: 4](s[n, o, 2 * i + r, 4 * j + q] / 8)",
         "output y"},
        true}});
}

TEST_CASE("sum_of_products finds sums of weighed products, and nothing else", "[rewrite]") {
  const Lines head = {"input x: f32[4, 24, 40] ~ normal", "param w: f32[4, 36, 40] ~ normal",
                      "input g: f32[24, 4] ~ normal",
                      "s: f32[e: 4, m: 24, n: 36] = sum[k: 40](x[e, m, k] * w[e, n, k])"};
  const std::vector<Graphs> cases = {
      {{"y: f32[m: 24, n: 36] = sum[e: 4](s[e, m, n])", "output y"}, true},
      {{"y: f32[m: 24, n: 36] = sum[e: 4](g[m, e] * s[e, m, n])", "output y"}, true},
      {{"t: f32[m: 24, n: 36, e: 4] = s[e, m, n] / 2",
        "y: f32[n: 36, m: 24] = sum[e: 4](t[m, n, e] * exp(g[m, e]))", "output y"},
       true},
      // weights that are sums
      {{"q: f32[m: 24] = sum[e: 4](g[m, e] * g[m, e])",
        "y: f32[m: 24, n: 36] = sum[e: 4](s[e, m, n] * (g[m, e] / q[m]))", "output y"},
       true},
      {{"y: f32[m: 24] = sum[e: 4, n: 36](g[m, e] * s[e, m, n])", "output y"}, false},
      {{"y: f32[m: 24, n: 36] = sum[e: 4](g[m, e] + s[e, m, n])", "output y"}, false},
      {{"y: f32[m: 24, n: 36] = sum[e: 4](s[e, m, n] * s[e, m, n])", "output y"}, false},
      {{"y: f32[m: 24, n: 36] = sum[e: 4](g[m, e] * f32(bf16(s[e, m, n])))", "output y"}, false},
      {{"y: f32[m: 24, n: 36] = max[e: 4](s[e, m, n])", "output y"}, false},
      {{"y: f32[m: 24, n: 36] = sum[e: 4](s[e, m, n])", "output y, s"}, false},  // it is wanted
      // more would be multiplied
      {{"y: f32[m: 24, n: 36] = sum[e: 16](s[e / 4, m, n])", "output y"}, false},
  };
  CheckFinds("sum_of_products", "y", head, cases);
}

TEST_CASE("factor_behind_sum finds scaled factors of products, and nothing else", "[rewrite]") {
  const Lines head = {"input x: f32[4, 24, 40] ~ normal",
                      "input w: f32[4, 36, 40] ~ normal",
                      "input h: f16[4, 24, 40] ~ normal",
                      "a: f32[e: 4, m: 24, k: 40] = x[e, m, k] * 0.3",
                      "b: f32[e: 4, k: 40, n: 36] = 0.125 * w[e, n, k]",
                      "v: f32[m: 96, k: 40] = a[m / 24, m % 24, k]",
                      "r: f16[e: 4, m: 24, k: 40] = h[e, m, k] * 0.3",
                      "o: f32[e: 4, m: 24, k: 40] = a[e, m, k] + 1"};
  const std::vector<Graphs> cases = {
      {{"y: f32[e: 4, m: 24, n: 36] = sum[k: 40](a[e, m, k] * b[e, k, n])", "output y"}, true},
      {{"y: f32[m: 96, n: 36] = sum[k: 40](v[m, k] * w[m / 24, n, k])", "output y"}, true},
      {{"y: f32[e: 4, m: 24, n: 36] = sum[k: 40](x[e, m, k] * (w[e, n, k] * 2))", "output y, a"},
       true},
      {{"y: f32[e: 4, m: 24, n: 36] = sum[k: 40](x[e, m, k] * w[e, n, k])", "output y"}, false},
      {{"y: f32[e: 4, m: 24, n: 36] = sum[k: 40](o[e, m, k] * w[e, n, k])", "output y"}, false},
      {{"y: f32[e: 4, m: 24, n: 36] = max[k: 40](a[e, m, k] * w[e, n, k])", "output y"}, false},
      {{"y: f32[e: 4, m: 24] = sum[k: 40](x[e, m, k] * 0.3)", "output y"}, false},
      // what is scaled is rounded
      {{"y: f32[e: 4, m: 24, n: 36] = sum[k: 40](f32(r[e, m, k]) * w[e, n, k])", "output y"},
       false},
  };
  CheckFinds("factor_behind_sum", "y", head, cases);
}

TEST_CASE("product_in_halves finds products that are read as halves, and nothing else",
          "[rewrite]") {
  const Lines head = {"input x: f32[24, 40] ~ normal", "param w: f32[72, 40] ~ normal",
                      "param c: f32[72] ~ normal",
                      "s: f32[m: 24, n: 72] = sum[k: 40](x[m, k] * w[n, k])"};
  const char* const bias = "b: f32[m: 24, n: 72] = s[m, n] + c[n]";
  const std::vector<Graphs> cases = {
      {{"y: f32[m: 24, n: 36] = max(s[m, n], 0.0) * s[m, n + 36]", "output y"}, true},
      // behind maps that keep its places, and by sums
      {{bias, "g: f32[m: 24, n: 36] = b[m, n + 36]", "h: f32[m: 24, n: 36] = tanh(b[m, n])",
        "y: f32[m: 24, n: 36] = g[m, n] * h[m, n]", "output y"},
       true},
      {{bias, "e: f32[m: 24, n: 72] = exp(b[m, n] - s[m, n])",
        "y: f32[m: 24] = sum[n: 36](e[m, n])", "z: f32[n: 36, m: 24] = e[m, n + 36] + b[m, n]",
        "output y, z"},
       true},
      // the other factor's rows
      {{"y: f32[m: 12, n: 72] = s[m, n] * s[m + 12, n]", "output y"}, false},  // no tiles
      {{bias, "y: f32[m: 24, n: 36] = b[m, n] * b[m, n + 36]", "output y, b"},
       false},                                                  // it is wanted
      {{"y: f32[m: 24, n: 36] = s[m, n]", "output y"}, false},  // one half alone
      {{"y: f32[m: 24, n: 36] = s[m, n] * s[m, n + 35]", "output y"}, false},
      {{"y: f32[m: 24, n: 36] = s[m, 2 * n] * s[m, 2 * n + 1]", "output y"}, false},
      {{"r: f32[m: 24] = max[n: 72](s[m, n])",
        "y: f32[m: 24, n: 36] = s[m, n] * s[m, n + 36] - r[m]", "output y"},
       false},
  };
  CheckFinds("product_in_halves", "s", head, cases);
}

// What node computes what it computes by itself of what others have rounded.
TEST_CASE("own_rounding finds readers of roundings that others need, and changes no value",
          "[rewrite]") {
  const Lines head = {"input x: bf16[24, 40] ~ normal", "param w: bf16[40, 32] ~ normal",
                      "a: f32[m: 24, k: 40] = tanh(f32(x[m, k]) * 1.7)",
                      "h: bf16[m: 24, k: 40] = bf16(a[m, k])",
                      "s: f32[m: 24, n: 32] = sum[k: 40](f32(h[m, k]) * f32(w[k, n]))"};
  struct Case {
    Lines lines;
    std::string tensors, value;  // which it applies to, and what one of them becomes
  };
  const Case cases[] = {
      // beside a product, as it is and behind maps
      {{"t: f32[k: 40] = sum[m: 24](f32(h[m, k]))", "output s, t"}, "s, t", "f32(bf16(a[m, k]))"},
      {{"v: bf16[k: 40, m: 24] = h[m, k]", "u: f32[k: 40, m: 24] = f32(v[k, m])",
        "t: f32[k: 40] = sum[m: 24](u[k, m] * u[k, m])", "output s, t"},
       "s, t",
       "f32(bf16(a[m, k])) * f32(bf16(a[m, k]))"},
      {{"g: bf16[m: 24, k: 40] = bf16(f32(h[m, k]) * 0.3)",
        "t: f32[k: 40] = max[m: 24](f32(g[m, k]))", "output s, t"},
       "s, t",
       "f32(bf16(f32(bf16(a[m, k])) * 0.3))"},
      // what is wanted rounded
      {{"output s, h"}, "s", ""},
      {{"y: f32[m: 24, k: 40] = f32(h[m, k]) + 1", "output s, y"},
       "s, y",
       "f32(bf16(a[m, k])) + 1"},
      // nobody else, nothing rounded, nothing computed
      {{"output s"}, "", ""},
      {{"q: bf16[k: 40, m: 24] = x[m, k]", "t: f32[k: 40] = sum[m: 24](f32(q[k, m]))",
        "u: f32[m: 24] = max[k: 40](f32(q[k, m]))", "output s, t, u"},
       "",
       ""},
  };
  for (const Case& c : cases) {
    Lines lines = head;
    lines.insert(lines.end(), c.lines.begin(), c.lines.end());
    const graph::Graph graph = ParseOrDie(lines);
    INFO(absl::StrJoin(lines, "\n"));
    CHECK(ApplicableRewrites(graph).empty());
    const std::vector<std::string> found = RewritesForDigits(graph);
    std::string tensors;
    for (const std::string& rewrite : found)
      absl::StrAppend(&tensors, tensors.empty() ? "" : ", ",
                      absl::StripPrefix(rewrite, "own_rounding:"));
    REQUIRE(tensors == c.tensors);
    if (found.empty()) continue;
    v1::Schedule schedule;
    schedule.add_rewrites(found.back());
    const graph::Graph rewritten = Rewrite(graph, schedule.rewrites()).value();
    const std::string printed = absl::StrJoin(graph::Print(rewritten), "\n");
    INFO(printed);
    CHECK(graph::Validate(rewritten).message() == "");
    CHECK_THAT(printed, Catch::Contains(c.value));
    *schedule.mutable_groups() = DefaultSchedule(rewritten, TestTarget()).groups();
    CHECK(RunAndCompare(graph, schedule, 3).message() == "");
  }
}

TEST_CASE("long chains of maps that read a map twice end soon", "[rewrite]") {
  Lines lines = {"input y0: f32[4, 8] ~ normal"};
  for (int i = 1; i <= 60; ++i) {
    lines.push_back(
        absl::StrFormat("y%d: f32[r: 4, c: 8] = y%d[r, c] * tanh(y%d[r, c])", i, i - 1, i - 1));
  }
  lines.push_back("s: f32[r: 4] = sum[c: 8](y60[r, c] * y60[r, c])");
  lines.push_back("output s");
  const auto graph = graph::Parse(lines, {});
  REQUIRE(graph.ok());
  CHECK(ApplicableRewrites(*graph).empty());
  const absl::Status status = RunAndCompare(*graph, DefaultSchedule(*graph, TestTarget()), 3);
  INFO(status.message());
  CHECK(status.ok());
}

TEST_CASE("a variance far from zero keeps its digits", "[rewrite]") {
  const auto graph =
      graph::Parse({"input x: f32[3, 4096] ~ normal(1000, 0.01)",
                    "t: f32[r: 3] = sum[c: 4096](x[r, c])", "m: f32[r: 3] = t[r] / 4096",
                    "q: f32[r: 3] = sum[c: 4096]((x[r, c] - m[r]) * (x[r, c] - m[r]))", "output q"},
                   {});
  REQUIRE(graph.ok());
  v1::Schedule schedule;
  schedule.add_rewrites("single_pass_variance:q");
  schedule.add_groups()->add_roots("q");
  const absl::Status status = RunAndCompare(*graph, schedule, 3);
  INFO(status.message());
  CHECK(status.ok());
}

// A softmax with a value behind its scores that only takes part of the sum.
TEST_CASE("split_concatenation reduces the parts of what is concatenated", "[rewrite]") {
  struct Case {
    const char* what;
    Lines lines;
    bool applies;
  };
  const Case cases[] = {
      {"a softmax with a sink",
       {"input x: f32[6, 40] ~ normal", "input s: f32[6] ~ normal",
        "c: f32[r: 6, k: 41] = select(k < 40, x[r, k], s[r])", "m: f32[r: 6] = max[k: 41](c[r, k])",
        "e: f32[r: 6, k: 41] = exp(c[r, k] - m[r])", "t: f32[r: 6] = sum[k: 41](e[r, k])",
        "y: f32[r: 6, k: 40] = e[r, k] / t[r]", "output y"},
       true},
      {"halves, the second one turned",
       {"input x: f32[6, 10] ~ normal", "input z: f32[7, 6] ~ normal",
        "c: f32[r: 6, k: 17] = select(k < 10, x[r, k], z[k - 10, r])",
        "y: f32[r: 6] = min[k: 17](c[r, k] * 2)", "output y"},
       true},
      {"a mask of columns that are kept",
       {"input x: f32[6, 40] ~ normal", "c: f32[r: 6, k: 40] = select(r < 3, x[r, k], 0)",
        "y: f32[r: 6] = sum[k: 40](c[r, k])", "output y"},
       false},
  };
  for (const Case& c : cases) {
    INFO(c.what);
    const auto graph = graph::Parse(c.lines, {});
    REQUIRE(graph.status().message() == "");
    const std::vector<std::string> rules = ApplicableRewrites(*graph);
    REQUIRE(rules.size() == (c.applies ? 1 : 0));
    if (!c.applies) continue;
    v1::Schedule schedule;
    schedule.add_rewrites(rules[0]);
    const graph::Graph rewritten = Rewrite(*graph, schedule.rewrites()).value();
    INFO(absl::StrJoin(graph::Print(rewritten), "\n"));
    CHECK(graph::Validate(rewritten).message() == "");
    CHECK(ApplicableRewrites(rewritten).empty());
    *schedule.mutable_groups() = DefaultSchedule(rewritten, TestTarget()).groups();
    CHECK(RunAndCompare(*graph, schedule, 3).message() == "");
  }
}

// Losses over all rows of what needs its row's maximum and sum.
TEST_CASE("split_reduction goes along rows first", "[rewrite]") {
  struct Case {
    const char* what;
    Lines lines;
    std::string rewrite;
  };
  const Case cases[] = {
      {"a sum over a softmax's logarithms",
       {"input x: f32[6, 40] ~ normal", "m: f32[r: 6] = max[k: 40](x[r, k])",
        "s: f32[r: 6] = sum[k: 40](exp(x[r, k] - m[r]))",
        "l: f32[r: 6, k: 40] = x[r, k] - m[r] - log(s[r])",
        "y: f32 = sum[r: 6, k: 40](exp(l[r, k]) * l[r, k])", "output y"},
       "split_reduction:y"},
      {"rows that are not the first axis, and an axis that is kept",
       {"input x: f32[5, 8, 3, 4] ~ normal", "m: f32[a: 3, b: 5] = max[k: 8, l: 4](x[b, k, a, l])",
        "y: f32[a: 3] = sum[k: 8, b: 5, l: 4](x[b, k, a, l] / m[a, b])", "output y"},
       "split_reduction:y"},
      {"each element by itself",
       {"input x: f32[6, 40] ~ normal", "y: f32 = sum[r: 6, k: 40](x[r, k] * x[r, k])", "output y"},
       ""},
      {"statistics of what is kept",
       {"input x: f32[6, 40, 2] ~ normal", "m: f32[k: 40] = max[r: 6, l: 2](x[r, k, l])",
        "y: f32[k: 40] = sum[r: 6, l: 2](x[r, k, l] - m[k])", "output y"},
       ""},
      {"the first place of the largest",
       {"input x: f32[6, 40] ~ normal", "m: f32[r: 6] = sum[k: 40](x[r, k])",
        "y, i: f32 = argmax[r: 6, k: 40](x[r, k] - m[r])", "output y, i"},
       ""},
  };
  for (const Case& c : cases) {
    INFO(c.what);
    const auto graph = graph::Parse(c.lines, {});
    REQUIRE(graph.status().message() == "");
    REQUIRE(absl::StrJoin(ApplicableRewrites(*graph), ", ") == c.rewrite);
    if (c.rewrite.empty()) continue;
    v1::Schedule schedule;
    schedule.add_rewrites(c.rewrite);
    const graph::Graph rewritten = Rewrite(*graph, schedule.rewrites()).value();
    INFO(absl::StrJoin(graph::Print(rewritten), "\n"));
    CHECK(graph::Validate(rewritten).message() == "");
    CHECK(ApplicableRewrites(rewritten).empty());
    *schedule.mutable_groups() = DefaultSchedule(rewritten, TestTarget()).groups();
    CHECK(RunAndCompare(*graph, schedule, 3).message() == "");
  }
}

TEST_CASE("nodes that compute the same are computed once", "[rewrite]") {
  const auto graph =
      graph::Parse({"input x: f32[9, 30] ~ normal", "a: f32[r: 9] = sum[c: 30](exp(x[r, c]))",
                    "b: f32[r: 9] = sum[k: 30](exp(x[r, k]))", "c: f32[r: 9] = log(b[r])",
                    "d: f32[r: 9] = log(a[r])", "y: f32[r: 9] = c[r] + d[r]", "output y, b"},
                   {});
  REQUIRE(graph.ok());
  const graph::Graph shared = Rewrite(*graph, {}).value();
  INFO(absl::StrJoin(graph::Print(shared), "\n"));
  CHECK(graph::Validate(shared).ok());
  int reduces = 0;
  for (const graph::Node& node : shared.nodes) reduces += node.reduce;
  CHECK(reduces == 1);
  CHECK(shared.Find("b") >= 0);  // names stay
  for (const v1::Schedule& schedule :
       {DefaultSchedule(shared, TestTarget()), OpByOpSchedule(shared, TestTarget())}) {
    const absl::Status status = RunAndCompare(*graph, schedule, 3);
    INFO(status.message());
    CHECK(status.ok());
  }
}

// What two products read as it is and turned, each by way of a view of its own.
TEST_CASE("views that are the same are one", "[rewrite]") {
  const graph::Graph graph = ParseOrDie(
      {"input x: bf16[4, 64, 2, 32] ~ normal", "input w: bf16[64, 64] ~ normal",
       "input h: bf16[256, 64] ~ normal",
       "g: bf16[i: 4, j: 64, k: 64] = bf16(tanh(f32(x[i, j, k / 32, k % 32])))",
       "a: bf16[i: 256, j: 64] = g[i / 64, i % 64, j]",
       "b: bf16[i: 256, j: 64] = g[i / 64, i % 64, j]", "c: bf16[i: 64, j: 256] = b[j, i]",
       "y: f32[i: 256, j: 64] = sum[r: 64](f32(a[i, r]) * f32(w[r, j]))",
       "z: f32[i: 64, j: 64] = sum[r: 256](f32(c[i, r]) * f32(h[r, j]))", "output y, z"});
  const graph::Graph shared = Rewrite(graph, {}).value();
  INFO(absl::StrJoin(graph::Print(shared), "\n"));
  CHECK(graph::Validate(shared).ok());
  CHECK(graph::Print(shared)[5] == "b: bf16[i: 256, j: 64] = a[i, j]");
  CHECK(RunAndCompare(graph, FirstSchedule(graph, TestTarget()), 3).message() == "");
}

TEST_CASE("what differs in axes of one point alone is computed once", "[rewrite]") {
  const graph::Graph graph = ParseOrDie(
      {"input x: f32[1, 30, 9] ~ normal", "a: f32[i: 9] = sum[r: 30](x[0, r, i])",
       "b: f32[i: 1, j: 1, k: 9] = sum[r: 30](x[i, r, k])",
       "c: f32[i: 9, j: 1] = sum[r: 30](x[j, r, i])", "e: f32[i: 9] = max[r: 30](x[0, r, i])",
       "d: f32[i: 1, j: 30, k: 9] = x[0, j, k] - b[0, 0, k] * c[k, 0] + a[k] * e[k]",
       "output d, c"});
  const graph::Graph shared = Rewrite(graph, {}).value();
  INFO(absl::StrJoin(graph::Print(shared), "\n"));
  CHECK(graph::Validate(shared).ok());
  int reduces = 0;
  for (const graph::Node& node : shared.nodes) reduces += node.reduce;
  CHECK(reduces == 2);
  for (const v1::Schedule& schedule :
       {DefaultSchedule(shared, TestTarget()), OpByOpSchedule(shared, TestTarget())}) {
    const absl::Status status = RunAndCompare(graph, schedule, 3);
    INFO(status.message());
    CHECK(status.ok());
  }
}

// A softmax over scores and a sink behind them: the concatenation needs no memory of its own.
TEST_CASE("first schedules have the rewrites that cost no accuracy where they save time",
          "[rewrite]") {
  const graph::Graph graph = ParseOrDie(
      {"input x: f32[64, 3000] ~ normal", "input sink: f32[64] ~ normal",
       "z: f32[r: 64, c: 3001] = select(c < 3000, x[r, c], sink[r])",
       "m: f32[r: 64] = max[c: 3001](z[r, c])", "s: f32[r: 64] = sum[c: 3001](exp(z[r, c] - m[r]))",
       "y: f32[r: 64, c: 3000] = exp(x[r, c] - m[r]) / s[r]", "output y"});
  const v1::Schedule schedule = FirstSchedule(graph, Target{});
  CHECK(schedule.rewrites_size() == 1);
  CHECK(schedule.groups_size() == 1);
  Check(graph, FirstSchedule(graph, TestTarget()), 1);
}

}  // namespace
}  // namespace warpsmith::codegen
