#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/graph/graph.h"
#include "common/graph/numeric.h"
#include "common/graph/random_graph.h"
#include "worker/oracle/oracle.h"

namespace warpsmith::oracle {
namespace {

using graph::Axis;
using graph::Combiner;
using graph::DType;
using graph::Expr;
using graph::Graph;
using graph::IsFloat;
using graph::Node;
using graph::Op;
using Lines = std::vector<std::string>;

constexpr double kInf = INFINITY;

Graph MustParse(const Lines& lines) {
  auto graph = graph::Parse(lines, {});
  INFO(graph.status().message());
  REQUIRE(graph.ok());
  INFO(graph::Validate(*graph).message());
  REQUIRE(graph::Validate(*graph).ok());
  return *std::move(graph);
}

bool Equal(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

bool Equal(const Values& a, const Values& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!Equal(a[i], b[i])) return false;
  }
  return true;
}

TEST_CASE("answers worked out by hand") {
  struct Case {
    Lines lines;
    std::vector<Values> inputs, outputs;
  };
  const std::string x = "input x: f32[2, 3]";
  const Values v = {1, 2, 3, 6, 5, 4};
  const Case cases[] = {
      {{x, "y: f32[r: 2, c: 3] = x[r, c] * 2 + f32(r)", "output y"}, {v}, {{2, 4, 6, 13, 11, 9}}},
      {{x, "y: f32[c: 3, r: 2] = x[r, c]", "output y"}, {v}, {{1, 6, 2, 5, 3, 4}}},
      {{x, "y: f32[i: 6] = x[i / 3, i % 3]", "output y, x"}, {v}, {v, v}},
      {{x, "y: f32[r: 2] = sum[c: 3](x[r, c])", "output y"}, {v}, {{6, 15}}},
      {{x, "y: f32[c: 3] = prod[r: 2](x[r, c])", "output y"}, {v}, {{6, 10, 12}}},
      {{x, "y: f32[r: 2] = sum[c: 3](x[r, c])", "output y"},
       {{kInf, 1, 2, kInf, -kInf, 0}},
       {{kInf, NAN}}},
      {{x, "y: f32 = max[r: 2, c: 3](x[r, c])", "output y"}, {v}, {{6}}},
      {{x, "y: f32[r: 2] = min[c: 3](x[r, c])", "output y"},
       {{3, NAN, 1, -kInf, 0, kInf}},
       {{NAN, -kInf}}},
      // the first of equals, the first NaN, and the position in row-major order
      {{x, "m, i: f32 = argmax[r: 2, c: 3](x[r, c])", "output m, i"},
       {{1, 7, 3, 7, 5, 4}},
       {{7}, {1}}},
      {{x, "m, i: f32[c: 3] = argmin[r: 2](x[r, c])", "output m, i"},
       {{1, NAN, 3, 1, NAN, 2}},
       {{1, NAN, 2}, {0, 0, 1}}},
      {{x, "m, i: f32[r: 2] = argmax[c: 3](x[r, c])", "output i, m"},
       {{-kInf, -kInf, -kInf, 1, NAN, NAN}},
       {{0, 1}, {-kInf, NAN}}},
      // scans: along either axis, reversed, exclusive
      {{x, "y: f32[r: 2, c: 3] = cumsum[c](x[r, c])", "output y"}, {v}, {{1, 3, 6, 6, 11, 15}}},
      {{x, "y: f32[r: 2, c: 3] = cumsum[r](x[r, c])", "output y"}, {v}, {{1, 2, 3, 7, 7, 7}}},
      {{x, "y: f32[c: 3, r: 2] = cumprod[c, reverse](x[r, c])", "output y"},
       {v},
       {{6, 120, 6, 20, 3, 4}}},
      {{x, "y: f32[r: 2, c: 3] = cumsum[c, exclusive](x[r, c])", "output y"},
       {v},
       {{0, 1, 3, 0, 6, 11}}},
      {{x, "y: f32[r: 2, c: 3] = cumprod[c, reverse, exclusive](x[r, c])", "output y"},
       {v},
       {{6, 3, 1, 20, 4, 1}}},
      {{"input x: f32[5]", "y: f32[i: 5] = cumsum[i](x[i])", "z: f32[i: 5] = cumprod[i](x[i])",
        "output y, z"},
       {{1, kInf, 2, -kInf, 1}},
       {{1, kInf, kInf, NAN, NAN}, {1, kInf, kInf, -kInf, -kInf}}},
      {{"input x: f32[5]", "y: f32[i: 5] = cummax[i](x[i])",
        "z: f32[i: 5] = cummin[i, exclusive](x[i])", "output y, z"},
       {{1, 3, 2, NAN, 5}},
       {{1, 3, 3, NAN, NAN}, {kInf, 1, 1, 1, NAN}}},
      {{"input x: i32[3]", "input b: bool[3]", "y: i32[i: 3] = cummax[i, exclusive](x[i])",
        "z: bool[i: 3] = cummin[i, reverse, exclusive](b[i])", "output y, z"},
       {{1, 3, 2}, {1, 0, 1}},
       {{-2147483648.0, 1, 3}, {0, 1, 1}}},
      // the latest of equals and of NaNs; positions are those of the axis, whichever way it goes
      {{"input x: f32[7]", "m, i: f32[k: 7] = cumargmax[k](x[k])", "output m, i"},
       {{1, 2, 2, 0, NAN, 7, NAN}},
       {{1, 2, 2, 2, NAN, NAN, NAN}, {0, 1, 2, 2, 4, 4, 6}}},
      {{"input x: i64[4]", "m, i: i64[k: 4] = cumargmin[k, reverse](x[k])", "output m, i"},
       {{1, 2, 1, 3}},
       {{1, 1, 1, 3}, {0, 2, 2, 3}}},
      {{"input x: i32[3]", "y: i32[i: 3] = cumprod[i](x[i])", "output y"},
       {{65536, 65536, 3}},
       {{65536, 0, 0}}},
      {{"input x: f64[5]", "y: f64[i: 5] = cumlogsumexp[i](x[i])", "output y"},
       {{-kInf, 1000, 1000, kInf, NAN}},
       {{-kInf, 1000, 1000 + std::log(2.0), kInf, NAN}}},
      {{"input x: f64[2]", "y: f64[i: 2] = cumlogsumexp[i, reverse, exclusive](x[i])", "output y"},
       {{0, -3}},
       {{-3, -kInf}}},
      // padding: the load behind the condition does not happen
      {{"input x: f32[3]", "y: f32[i: 5] = select(i >= 1 and i < 4, x[i - 1], -1)", "output y"},
       {{1, 2, 3}},
       {{-1, 1, 2, 3, -1}}},
      {{"input x: f32[3]", "y: bool[i: 4] = i > 2 or x[i] > 1", "output y"},
       {{1, 2, 3}},
       {{0, 1, 1, 1}}},
      {{"input x: i64[4]", "y: i64[i: 4] = select(x[i] != 0, 12 / x[i], -1)", "output y"},
       {{5, 0, -5, 1}},
       {{2, -1, -3, 12}}},
      // integers are exact and wrap
      {{"input x: i32[2]", "y: i32[i: 2] = x[i] * x[i]", "s: i32 = sum[i: 2](x[i])", "output y, s"},
       {{65537, 2147483647}},
       {{131073, 1}, {-2147418112}}},
      {{"input x: i64[2]", "b: i64[i: 2] = x[i] + 9007199254740992",
        "y: i64[i: 2] = b[i] - 9007199254740991", "output y"},
       {{1, 2}},
       {{2, 3}}},
      {{"input x: i64[4]", "y: i64[i: 4] = x[i] / 3", "z: i64[i: 4] = x[i] % 3", "output y, z"},
       {{7, -7, 6, -1}},
       {{2, -3, 2, -1}, {1, 2, 0, 2}}},
      {{"input b: bool[3]", "any: bool = max[i: 3](b[i])", "all: bool = min[i: 3](b[i])",
        "output any, all"},
       {{0, 1, 1}},
       {{1}, {0}}},
      {{"input x: f32[4]", "y: i32[i: 4] = i32(x[i])", "z: f32[i: 4] = round(x[i])", "output y, z"},
       {{1.5, -1.5, 2.5, NAN}},
       {{1, -1, 2, 0}, {2, -2, 2, NAN}}},
      {{"input n: i64[3]", "input x: f32[4]", "y: f32[i: 3] = x[n[i]]", "output y"},
       {{3, 0, 3}, {1, 2, 3, 4}},
       {{4, 1, 4}}},
      {{"state s: f32[2]", "t: f32[i: 2] = s[1 - i] + 1", "output s", "update s = t"},
       {{1, 2}},
       {{1, 2}, {3, 2}}},
      {{"input a: f32", "y: f32 = a[] * 2", "output y"}, {{3}}, {{6}}},
  };
  for (const Case& c : cases) {
    INFO(c.lines[c.lines.size() - 2]);
    const Graph graph = MustParse(c.lines);
    for (bool round : {false, true}) {
      const auto results = EvaluateOnHost(graph, c.inputs, round);
      INFO(results.status().message());
      REQUIRE(results.ok());
      REQUIRE(results->size() == c.outputs.size());
      for (size_t o = 0; o < c.outputs.size(); ++o) {
        INFO(Catch::StringMaker<Values>::convert((*results)[o]));
        CHECK(Equal((*results)[o], c.outputs[o]));
      }
    }
  }
}

TEST_CASE("rounding to the type happens when it is asked for") {
  const Graph graph = MustParse({"input x: f32[1]", "h: f16[i: 1] = f16(x[i] * 0.1)",
                                 "y: f32[i: 1] = f32(h[i])", "output h, y"});
  const auto rounded = EvaluateOnHost(graph, {{1}}, true).value();
  const auto exact = EvaluateOnHost(graph, {{1}}, false).value();
  CHECK(rounded[0][0] == 0.0999755859375);
  CHECK(rounded[1][0] == 0.0999755859375);
  CHECK(exact[0][0] == double{0.1f});
  CHECK(exact[1][0] == double{0.1f});
}

TEST_CASE("a long sum is exact") {
  const Graph graph =
      MustParse({"input x: f64[1000003]", "s: f64 = sum[i: 1000003](x[i])", "output s"});
  Values x(1000003, 0.1);
  x[0] = 1e15;
  x[1000002] = -1e15;
  const double s = EvaluateOnHost(graph, {x}, false).value()[0][0];
  CHECK(s == Approx(100000.1).epsilon(1e-10));
}

TEST_CASE("rows are added to the places that they name, where there are many") {
  constexpr int64_t kBatches = 3, kRows = 700, kPlaces = 1100, kElements = 2;
  const Graph graph = MustParse(
      {"input k: i64[3, 700]", "input v: f32[3, 700, 2]",
       "y: f64[b: 3, i: 1100, j: 2] = sum[r: 700](f64(select(r % 5 != 0 and i + 0 == k[b, r], "
       "v[b, r, j], 0)))",
       "n: i64[b: 3, i: 1100, j: 2] = sum[r: 700](i64(k[b, r] == i))", "output y, n"});
  // Some keys twice, some outside, one very often; rows that do not count may be anything.
  Values keys, values;
  for (int64_t b = 0; b < kBatches; ++b) {
    for (int64_t r = 0; r < kRows; ++r) {
      keys.push_back(static_cast<double>(r % 3 == 0 ? 17 : (r * 37 + b * 11) % 1150 - 20));
      for (int64_t j = 0; j < kElements; ++j) {
        values.push_back(r % 5 == 0 ? kInf : static_cast<double>(r * 10 + b + j));
      }
    }
  }
  Values sums(kBatches * kPlaces * kElements, 0), counts(kBatches * kPlaces * kElements, 0);
  for (int64_t b = 0; b < kBatches; ++b) {
    for (int64_t r = 0; r < kRows; ++r) {
      const auto key = static_cast<int64_t>(keys[b * kRows + r]);
      if (key < 0 || key >= kPlaces) continue;
      for (int64_t j = 0; j < kElements; ++j) {
        const int64_t at = (b * kPlaces + key) * kElements + j;
        if (r % 5 != 0) sums[at] += values[(b * kRows + r) * kElements + j];
        ++counts[at];
      }
    }
  }
  auto results = EvaluateOnHost(graph, {keys, values}, /*round_to_type=*/false);
  INFO(results.status().message());
  REQUIRE(results.ok());
  CHECK(Equal((*results)[0], sums));
  CHECK(Equal((*results)[1], counts));
}

TEST_CASE("a place is asked for where what stands before it holds") {
  // Elsewhere it may be nothing that there is.
  for (const char* condition :
       {"1 <= r and k[r - 1] == i", "0 <= k[r] and k[k[r]] == i", "k[r] != 0 and 4000 / k[r] == i",
        "0 < k[r] and (k[r] < 9 and k[9 / k[r]] == i)"}) {
    const auto lines = [&](int n) {
      const std::string size = std::to_string(n);
      return std::vector<std::string>{
          "input k: i64[4096]", "input v: f32[4096]",
          "y: f32[i: " + size + "] = sum[r: 4096](select(" + condition + ", v[r], 0))", "output y"};
    };
    Values keys(4096), values(4096);
    for (size_t r = 0; r < keys.size(); ++r) {
      keys[r] = static_cast<double>(r * 7 % 4001) - 5;
      values[r] = static_cast<double>(r % 100);
    }
    INFO(condition);
    auto many = EvaluateOnHost(MustParse(lines(4096)), {keys, values}, /*round_to_type=*/true);
    auto few = EvaluateOnHost(MustParse(lines(800)), {keys, values}, /*round_to_type=*/true);
    INFO(many.status().message() << few.status().message());
    REQUIRE((many.ok() && few.ok()));
    (*many)[0].resize(800);  // few are gone through one by one
    CHECK(Equal((*many)[0], (*few)[0]));
  }
}

TEST_CASE("what takes no longer than its rows and places is evaluated") {
  const Graph graph =
      MustParse({"input k: i64[60000]", "input v: f32[60000]",
                 "y: f32[i: 200000] = sum[r: 60000](select(k[r] == i, v[r], 0))", "output y"});
  Values keys(60000), values(60000, 1);
  for (size_t r = 0; r < keys.size(); ++r) keys[r] = static_cast<double>(r * 3 % 200000);
  auto results = EvaluateOnHost(graph, {keys, values}, /*round_to_type=*/true);
  INFO(results.status().message());
  REQUIRE(results.ok());
  double sum = 0;
  for (double one : (*results)[0]) sum += one;
  CHECK(sum == 60000);
}

TEST_CASE("errors say what and where") {
  const Graph gather =
      MustParse({"input n: i64[3]", "input x: f32[4]", "y: f32[r: 3] = x[n[r]]", "output y"});
  const auto message = [](const absl::StatusOr<std::vector<Values>>& result) {
    return std::string(result.status().message());
  };
  CHECK(message(EvaluateOnHost(gather, {{0, 4, 1}, {1, 2, 3, 4}}, true)) ==
        "'y' loads 'x' out of bounds: index 4 on axis 0 of extent 4 at r = 1");
  CHECK(message(EvaluateOnHost(gather, {{0, 1, 1}}, true)) ==
        "the graph has 2 inputs, params and states; 1 given");
  CHECK(message(EvaluateOnHost(gather, {{0, 1}, {1, 2, 3, 4}}, true)) ==
        "input 'n' has 2 values, not 3");
  const Graph divide =
      MustParse({"input n: i64[2, 2]", "y: i64[r: 2] = sum[c: 2](7 / n[r, c])", "output y"});
  CHECK(message(EvaluateOnHost(divide, {{1, 1, 0, 1}}, true)) ==
        "'y' divides an integer by zero at r = 1, c = 0");
}

// The same meaning once more, as plainly as it can be said: one element at a time, lazily.
class Plain {
 public:
  Plain(const Graph& graph, const std::vector<Values>& inputs) : graph_(graph) {
    size_t next = 0;
    for (const graph::Tensor& tensor : graph.tensors) {
      values_.push_back(tensor.node < 0 ? inputs[next++] : Values());
    }
    for (const Node& node : graph.nodes) Run(node);
  }
  const Values& Get(int tensor) const { return values_[tensor]; }

 private:
  // Calls f at every point of the axes, in row-major order; `point` is appended to.
  template <class F>
  static void ForEach(const std::vector<Axis>& axes, size_t a, std::vector<double>& point, F f) {
    if (a == axes.size()) return f();
    for (int64_t i = 0; i < axes[a].extent; ++i) {
      point.push_back(static_cast<double>(i));
      ForEach(axes, a + 1, point, f);
      point.pop_back();
    }
  }

  void Run(const Node& node) {
    std::vector<double> point;
    ForEach(node.axes, 0, point, [&] {
      if (node.scan) return Scan(node, point);
      if (!node.reduce) {
        values_[node.outputs[0]].push_back(Eval(*node.value, point));
        return;
      }
      Values all;
      ForEach(node.reduce_axes, 0, point, [&] { all.push_back(Eval(*node.value, point)); });
      Combine(node, all);
    });
  }

  // A scan's element: all values that it combines, read anew.
  void Scan(const Node& node, std::vector<double> point) {
    const graph::Scan& scan = *node.scan;
    const auto extent = static_cast<double>(node.axes[scan.axis].extent);
    const double own = point[scan.axis], step = scan.reverse ? -1 : 1;
    const double start = scan.reverse ? extent - 1 : 0, end = scan.exclusive ? own : own + step;
    Values all;
    for (double k = start; k != end; k += step) {
      point[scan.axis] = k;
      all.push_back(Eval(*node.value, point));
    }
    // Of equals the latest: the first from behind.
    if (HasIndex(node)) std::reverse(all.begin(), all.end());
    Combine(node, all);
    if (HasIndex(node)) {
      double& at = values_[node.outputs[1]].back();
      at = own - step * at;
    }
  }

  static bool HasIndex(const Node& node) { return node.outputs.size() > 1; }

  void Combine(const Node& node, const Values& all) {
    double result = node.combiner == Combiner::kProd ? 1 : 0;
    size_t at = 0;
    switch (node.combiner) {
      case Combiner::kSum:
        for (double v : all) result += v;
        result = InByte(node.value->type, result);
        break;
      case Combiner::kProd:
        for (double v : all) result = InByte(node.value->type, result * v);
        break;
      case Combiner::kLogSumExp: {
        const double most = *std::max_element(all.begin(), all.end());
        for (double v : all) result += std::exp(v - most);
        result = most + std::log(result);
        break;
      }
      default: {
        const bool largest = node.combiner == Combiner::kMax || node.combiner == Combiner::kArgMax;
        for (size_t i = 1; i < all.size(); ++i) {
          if (std::isnan(all[at])) break;
          if (std::isnan(all[i]) || (largest ? all[i] > all[at] : all[i] < all[at])) at = i;
        }
        result = all[at];
      }
    }
    values_[node.outputs[0]].push_back(result);
    if (node.outputs.size() > 1) values_[node.outputs[1]].push_back(static_cast<double>(at));
  }

  // Integers fit doubles here: the graphs keep those of more than a byte small.
  double Eval(const Expr& e, const std::vector<double>& point) const {
    return InByte(e.type, EvalExactly(e, point));
  }

  static double InByte(DType type, double value) {
    if (!graph::IsNarrow(type)) return value;
    const double low = type == DType::kI8 ? -128 : 0;
    return value - std::floor((value - low) / 256) * 256;
  }

  double EvalExactly(const Expr& e, const std::vector<double>& point) const {
    const auto arg = [&](int i) { return Eval(*e.args[i], point); };
    switch (e.op) {
      case Op::kConst:
        return IsFloat(e.type) ? e.number : static_cast<double>(e.integer);
      case Op::kIndex:
        return point[e.var];
      case Op::kLoad: {
        const graph::Tensor& tensor = graph_.tensors[e.tensor];
        int64_t address = 0;
        for (size_t a = 0; a < e.args.size(); ++a) {
          const int64_t index = static_cast<int64_t>(arg(a));
          REQUIRE((index >= 0 && index < tensor.shape[a]));
          address = address * tensor.shape[a] + index;
        }
        return values_[e.tensor][address];
      }
      case Op::kSelect:
        return arg(0) != 0 ? arg(1) : arg(2);
      case Op::kAnd:
        return arg(0) != 0 && arg(1) != 0;
      case Op::kOr:
        return arg(0) != 0 || arg(1) != 0;
      case Op::kNot:
        return arg(0) == 0;
      case Op::kIsNan:
        return std::isnan(arg(0));
      case Op::kLt:
        return arg(0) < arg(1);
      case Op::kLe:
        return arg(0) <= arg(1);
      case Op::kEq:
        return arg(0) == arg(1);
      case Op::kNe:
        return arg(0) != arg(1);
      case Op::kCast: {
        if (e.type == DType::kBool) return arg(0) != 0;
        if (graph::IsNarrow(e.type) && IsFloat(e.args[0]->type)) {
          const double low = e.type == DType::kI8 ? -128 : 0;
          return std::isnan(arg(0)) ? 0 : std::trunc(std::clamp(arg(0), low, low + 255));
        }
        return IsFloat(e.type) ? arg(0) : std::trunc(arg(0));
      }
      case Op::kDiv:
        return IsFloat(e.type) ? arg(0) / arg(1) : std::floor(arg(0) / arg(1));
      case Op::kMod:
        return arg(0) - std::floor(arg(0) / arg(1)) * arg(1);
      case Op::kMin:
        return std::fmin(arg(0), arg(1));
      case Op::kMax:
        return std::fmax(arg(0), arg(1));
      default:
        break;
    }
    if (e.args.size() == 2) return graph::ApplyFloat(e.op, arg(0), arg(1));
    return graph::ApplyFloat(e.op, arg(0));
  }

  const Graph& graph_;
  std::vector<Values> values_;
};

TEST_CASE("random graphs: the same as a plain evaluation") {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    INFO("seed " << seed);
    const Graph graph = graph::RandomGraph(seed, {.scans = seed % 2 == 1});
    INFO(Catch::StringMaker<Lines>::convert(graph::Print(graph)));
    std::vector<Values> inputs;
    for (const graph::Tensor& tensor : graph.tensors) {
      if (tensor.node < 0) inputs.push_back(DrawOnHost(tensor, seed, Variation::kNone));
    }
    const auto results = EvaluateOnHost(graph, inputs, false);
    INFO(results.status().message());
    REQUIRE(results.ok());
    const Plain plain(graph, inputs);
    for (size_t o = 0; o < graph.outputs.size(); ++o) {
      const Values& expected = plain.Get(graph.outputs[o]);
      REQUIRE((*results)[o].size() == expected.size());
      for (size_t i = 0; i < expected.size(); ++i) {
        const double a = (*results)[o][i], b = expected[i];
        if (!Equal(a, b) && !(std::fabs(a - b) <= 1e-9 * (1 + std::fabs(b)))) {
          FAIL("output " << o << ", element " << i << ": " << a << ", not " << b);
        }
      }
    }
  }
}

struct Moments {
  double mean = 0, deviation = 0, low = kInf, high = -kInf;
};

Moments MomentsOf(const Values& values) {
  Moments m;
  for (double v : values) {
    m.mean += v / static_cast<double>(values.size());
    m.low = std::min(m.low, v);
    m.high = std::max(m.high, v);
  }
  for (double v : values) {
    m.deviation += (v - m.mean) * (v - m.mean) / static_cast<double>(values.size());
  }
  m.deviation = std::sqrt(m.deviation);
  return m;
}

graph::Tensor TensorOf(const std::string& line) { return graph::Parse({line}, {})->tensors[0]; }

TEST_CASE("inputs are drawn from their distributions") {
  const Moments normal =
      MomentsOf(DrawOnHost(TensorOf("input x: f32[100000] ~ normal(3, 2)"), 1, Variation::kNone));
  CHECK(normal.mean == Approx(3).margin(0.05));
  CHECK(normal.deviation == Approx(2).margin(0.05));
  CHECK(normal.high > 3 + 2 * 3.5);
  const Moments uniform =
      MomentsOf(DrawOnHost(TensorOf("input x: f64[100000] ~ uniform(2, 4)"), 1, Variation::kNone));
  CHECK(uniform.mean == Approx(3).margin(0.02));
  CHECK(uniform.low >= 2);
  CHECK(uniform.low < 2.001);
  CHECK(uniform.high < 4);
  CHECK(uniform.high > 3.999);
  const Values integers =
      DrawOnHost(TensorOf("input x: i64[10000] ~ integers(-2, 3)"), 1, Variation::kNone);
  std::vector<int> counts(5, 0);
  for (double v : integers) {
    REQUIRE((v == std::floor(v) && v >= -2 && v <= 2));
    ++counts[static_cast<int>(v) + 2];
  }
  for (int count : counts) CHECK(count == Approx(2000).margin(250));
  CHECK(MomentsOf(DrawOnHost(TensorOf("input x: bool[10000]"), 1, Variation::kNone)).mean ==
        Approx(0.5).margin(0.03));
  CHECK(DrawOnHost(TensorOf("input x: f32[2] ~ constant(0.5)"), 1, Variation::kNone) ==
        Values{0.5, 0.5});
  for (const char* type : {"f16", "bf16", "f32"}) {
    const graph::Tensor tensor = TensorOf(absl::StrCat("input x: ", type, "[1000]"));
    for (double v : DrawOnHost(tensor, 5, Variation::kWide)) {
      REQUIRE(v == graph::RoundTo(tensor.type, v));
    }
  }
}

TEST_CASE("a draw depends on the seed and the tensor alone") {
  const graph::Tensor x = TensorOf("input x: f32[100]");
  const graph::Tensor z = TensorOf("input z: f32[100]");
  CHECK(DrawOnHost(x, 1, Variation::kNone) == DrawOnHost(x, 1, Variation::kNone));
  CHECK(DrawOnHost(x, 1, Variation::kNone) != DrawOnHost(x, 2, Variation::kNone));
  CHECK(DrawOnHost(x, 1, Variation::kNone) != DrawOnHost(z, 1, Variation::kNone));
}

TEST_CASE("variations change what they say, and nothing else") {
  const graph::Tensor x = TensorOf("input x: f64[1000] ~ uniform(0, 1)");
  const graph::Tensor w = TensorOf("param x: f64[1000] ~ normal");
  const graph::Tensor zero = TensorOf("param x: f64[1000] ~ constant(0)");
  const graph::Tensor s = TensorOf("state x: f64[1000] ~ normal");
  const graph::Tensor n = TensorOf("input x: i64[1000] ~ integers(0, 9)");
  const Values plain = DrawOnHost(x, 3, Variation::kNone);
  const auto ratio = [&](Variation variation) {
    const Values varied = DrawOnHost(x, 3, variation);
    for (size_t i = 0; i < varied.size(); ++i) {
      if (varied[i] != Approx(plain[i] * (varied[0] / plain[0]))) return 0.0;
    }
    return varied[0] / plain[0];
  };
  CHECK(ratio(Variation::kTimes3) == Approx(3));
  CHECK(ratio(Variation::kTimes001) == Approx(0.01));
  CHECK(ratio(Variation::kNegated) == Approx(-1));
  CHECK(ratio(Variation::kNewWeights) == Approx(1));
  const Moments dense = MomentsOf(DrawOnHost(x, 3, Variation::kDense));
  CHECK(dense.mean == Approx(0).margin(0.15));
  CHECK(dense.deviation == Approx(1).margin(0.1));
  CHECK(MomentsOf(DrawOnHost(x, 3, Variation::kWide)).high > 10);

  for (Variation variation : {Variation::kTimes3, Variation::kDense, Variation::kNewWeights}) {
    INFO(NameOf(variation));
    CHECK(DrawOnHost(s, 3, variation) == DrawOnHost(s, 3, Variation::kNone));
    CHECK(DrawOnHost(n, 3, variation) == DrawOnHost(n, 3, Variation::kNone));
    const bool changes = variation == Variation::kNewWeights;
    CHECK((DrawOnHost(w, 3, variation) != DrawOnHost(w, 3, Variation::kNone)) == changes);
  }
  CHECK(MomentsOf(DrawOnHost(zero, 3, Variation::kNewWeights)).deviation ==
        Approx(0.005).epsilon(0.1));
}

}  // namespace
}  // namespace warpsmith::oracle
