#include "worker/oracle/native_device.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <random>

#include "absl/strings/str_cat.h"
#include "worker/oracle/compare.h"
#include "worker/oracle/errors.h"

namespace warpsmith::oracle {
namespace {

std::string CacheDir() {
  return (std::filesystem::temp_directory_path() / "warpsmith_oracle_test").string();
}

struct Bench {
  std::unique_ptr<device::Device> device = *device::MakeDevice("host");
  std::unique_ptr<device::Compiler> compiler = *device::MakeCompiler("host", CacheDir());
};
Bench& Shared() {
  static Bench bench;
  return bench;
}

graph::Graph ParseOrDie(const std::vector<std::string>& lines) {
  auto graph = graph::Parse(lines, {});
  INFO(graph.status());
  REQUIRE(graph.ok());
  return *graph;
}

Values ReadAll(Comparer& comparer, graph::DType type, device::Memory& memory, int64_t elements) {
  std::vector<int64_t> positions(elements);
  for (int64_t i = 0; i < elements; ++i) positions[i] = i;
  auto values = comparer.Gather(type, memory, positions);
  REQUIRE(values.ok());
  return *values;
}

bool Near(double a, double b, double tolerance) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b || std::abs(a - b) <= tolerance * std::max(1.0, std::abs(b));
}

// Draws a case and compares its answers, and its exact values, with the evaluation in double on the
// processor.
void CheckGraph(const std::vector<std::string>& lines, Variation variation = Variation::kNone) {
  INFO(lines.back() << " " << lines[1]);
  Bench& bench = Shared();
  graph::Graph graph = ParseOrDie(lines);
  auto comparer = Comparer::Make(*bench.device, *bench.compiler);
  REQUIRE(comparer.ok());
  auto oracle = MakeNativeOracle(graph, *bench.compiler, bench.device->info());
  INFO(oracle.status());
  REQUIRE(oracle.ok());
  auto drawn = (*oracle)->Draw(*bench.device, 11, variation);
  INFO(drawn.status());
  REQUIRE(drawn.ok());

  std::vector<Values> inputs;
  for (const graph::Tensor& tensor : graph.tensors) {
    if (tensor.role == graph::Role::kIntermediate) continue;
    inputs.push_back(
        ReadAll(**comparer, tensor.type, *drawn->inputs[inputs.size()], tensor.elements()));
  }
  auto exact = EvaluateOnHost(graph, inputs, /*round_to_type=*/false);
  INFO(exact.status());
  REQUIRE(exact.ok());
  REQUIRE(exact->size() == drawn->answers.size());
  for (size_t a = 0; a < exact->size(); ++a) {
    INFO("answer " << a);
    const bool output = a < graph.outputs.size();
    const graph::Tensor& tensor =
        graph.tensors[output ? graph.outputs[a] : graph.updates[a - graph.outputs.size()].state];
    const Values answer = ReadAll(**comparer, tensor.type, *drawn->answers[a], tensor.elements());
    REQUIRE(answer.size() == (*exact)[a].size());
    const double rounding = tensor.type == graph::DType::kF16    ? 6e-4
                            : tensor.type == graph::DType::kBF16 ? 5e-3
                            : tensor.type == graph::DType::kF64  ? 1e-12
                                                                 : 1e-7;
    int64_t wrong = 0;
    for (size_t i = 0; i < answer.size(); ++i) wrong += !Near(answer[i], (*exact)[a][i], rounding);
    CHECK(wrong == 0);
    if (!graph::IsFloat(tensor.type)) {
      CHECK(drawn->exact[a].empty());
      continue;
    }
    REQUIRE(drawn->exact[a].size() == drawn->sample[a].size());
    for (size_t i = 0; i < drawn->sample[a].size(); ++i) {
      wrong += !Near(drawn->exact[a][i], (*exact)[a][drawn->sample[a][i]], 1e-12);
    }
    CHECK(wrong == 0);
  }
  CHECK(drawn->whole.max < 2e-2);
}

TEST_CASE("answers are those of the evaluation on the processor") {
  SECTION("softmax") {
    CheckGraph({"input x: f32[37, 1000] ~ normal", "m: f32[r: 37] = max[c: 1000](x[r, c])",
                "e: f32[r: 37, c: 1000] = exp(x[r, c] - m[r])",
                "s: f32[r: 37] = sum[c: 1000](e[r, c])", "y: f32[r: 37, c: 1000] = e[r, c] / s[r]",
                "output y", "output m"});
  }
  SECTION("rows that are added to the places that they name, in batches, and how many") {
    CheckGraph({"input k: i64[2, 400] ~ integers(-5, 900)", "input v: f32[2, 400, 7] ~ normal",
                "y: f32[b: 2, i: 850, j: 7] = sum[r: 400](select(k[b, r] == i, v[b, r, j], 0))",
                "n: i64[b: 2, i: 5300] = sum[r: 400](i64(i == k[b, r]))",
                "z: f32[b: 2, i: 850, j: 7] = y[b, i, j] + 1", "output z", "output n"});
  }
  SECTION("nearly all rows name one place, of two axes") {
    CheckGraph({"input k: i64[1000] ~ integers(-30, 3)", "input v: f16[20, 50] ~ normal",
                "y: f32[h: 70, w: 61] = sum[s: 20, t: 50](select(select(k[s * 50 + t] < 0, 4, "
                "k[s * 50 + t]) == w and s % 2 == h, f32(v[s, t]), 0))",
                "output y"});
  }
  SECTION("a large sum, in parts, and an answer that is sampled") {
    CheckGraph({"input x: f32[300, 701] ~ uniform(-1, 2)",
                "s: f32[] = sum[r: 300, c: 701](x[r, c] * x[r, c])",
                "y: f32[r: 300, c: 701] = tanh(x[r, c]) / sqrt(s[])", "output s", "output y"});
  }
  SECTION("columns, extrema with NaN, indexes with ties") {
    CheckGraph(
        {"input x: f32[200, 33] ~ integers(0, 9)", "z: f32[r: 200, c: 33] = log(x[r, c] - 0.5)",
         "a, i: f32[c: 33] = argmax[r: 200](x[r, c])", "b, j: f32[c: 33] = argmin[r: 200](z[r, c])",
         "m: f32[r: 200] = min[c: 33](z[r, c])",
         "p: f32[c: 33] = prod[r: 200](1 + x[r, c] * 0.001)", "output a", "output i", "output b",
         "output j", "output m", "output p"});
  }
  SECTION("scans: short and long, along rows and columns, both ways") {
    CheckGraph({"input x: f32[3, 70, 5] ~ normal",
                "a: f32[i: 3, j: 70, k: 5] = cumsum[j, reverse](x[i, j, k])",
                "b: f32[i: 3, j: 70, k: 5] = cumprod[k, exclusive](a[i, j, k])",
                "c: f32[i: 3, j: 70, k: 5] = cumlogsumexp[i](x[i, j, k] * 2)", "output a, b, c"});
    CheckGraph({"input x: f32[2, 20000] ~ integers(-9, 9)",
                "a: f32[i: 2, j: 20000] = cumsum[j, exclusive](x[i, j] * 0.5)",
                "m, at: f32[i: 2, j: 20000] = cumargmax[j](x[i, j] - f32(j) * 0.01)",
                "n, of: f32[i: 2, j: 20000] = cumargmin[j, reverse](x[i, j])",
                "l: f32[i: 2, j: 20000] = cumlogsumexp[j, reverse](x[i, j])",
                "y: bf16[i: 2, j: 20000] = bf16(a[i, j] + m[i, j])",
                "output a, m, at, n, of, l, y"});
    CheckGraph({"input x: f32[70000] ~ normal", "input k: i64[70000] ~ integers(-5, 9)",
                "y: f64[i: 70000] = cumsum[i](f64(x[i]))", "z: i64[i: 70000] = cumprod[i](k[i])",
                "w: i64[i: 70000] = cummax[i, reverse, exclusive](k[i])",
                "b: bool[i: 70000] = cummax[i](k[i] > 7 and i > 30000)", "output y, z, w, b"});
    CheckGraph({"input x: f32[600, 301] ~ uniform(0.9, 1.1)",
                "y: f32[i: 600, j: 301] = cumprod[i](x[i, j])", "output y"});
  }
  SECTION("small types, casts, integers") {
    CheckGraph(
        {"input h: f16[4097] ~ normal", "input b: bf16[4097] ~ normal",
         "input k: i64[4097] ~ integers(-9, 9)", "y: f16[i: 4097] = f16(f32(h[i]) * 2 + f32(b[i]))",
         "z: bf16[i: 4097] = b[i] * b[i]", "q: i64[i: 4097] = k[i] / 4 + k[i] % 4 - abs(k[i])",
         "t: i32[i: 4097] = i32(k[i]) * 1000000", "s: i64[] = sum[i: 4097](k[i] * k[i])",
         "w: bool[i: 4097] = k[i] < 3 and not (f32(h[i]) < 0)", "output y", "output z", "output q",
         "output t", "output s", "output w"});
  }
  SECTION("integers of a byte: wrapped, and converted to their ends") {
    CheckGraph({"input a: i8[4097] ~ integers(-128, 128)",
                "input b: u8[4097] ~ integers(0, 256)",
                "input x: f32[4097] ~ normal(0, 200)",
                "input k: i8[4097] ~ normal(0, 90)",
                "w: i8[i: 4097] = a[i] * a[i] + 100 - abs(a[i]) / -3 % 5",
                "v: u8[i: 4097] = b[i] * b[i] - 7 + max(b[i], 3) / 2 + -b[i]",
                "q: i8[i: 4097] = i8(round(x[i]))",
                "r: u8[i: 4097] = u8(log(x[i]) * 50)",
                "t: i8[i: 4097] = i8(b[i]) + i8(i)",
                "y: f32[i: 4097] = f32(a[i]) * 0.5 + f32(b[i])",
                "s: i8[] = sum[i: 4097](a[i])",
                "p: u8[] = prod[i: 4097](b[i] * 2 + 1)",
                "m, n: i8[] = argmin[i: 4097](a[i])",
                "g: f32[i: 4097] = x[i64(b[i])]",
                "z: i8[i: 4097] = k[i]",
                "output w",
                "output v",
                "output q",
                "output r",
                "output t",
                "output y",
                "output s",
                "output p",
                "output m",
                "output n",
                "output g",
                "output z"});
  }
  SECTION("gather, bounds behind a select, states") {
    CheckGraph({"input x: f32[50, 40] ~ normal", "input k: i64[50] ~ integers(0, 40)",
                "state m: f32[40] ~ normal", "g: f32[r: 50] = x[r, k[r]]",
                "p: f32[r: 50, c: 42] = select(c < 1 or c > 40, 0, x[r, c - 1])",
                "a: f32[c: 40] = sum[r: 50](x[r, c] / 50)",
                "n: f32[c: 40] = m[c] * 0.9 + a[c] * 0.1", "output g", "output p", "output x",
                "update m = n"});
  }
  SECTION("varied inputs") {
    for (Variation v :
         {Variation::kTimes3, Variation::kTimes001, Variation::kNegated, Variation::kDense,
          Variation::kWide, Variation::kNewWeights, Variation::kTies}) {
      CheckGraph({"input x: f32[64, 65] ~ uniform(0, 1)", "param w: f32[65] ~ constant(1)",
                  "y: f32[r: 64] = sum[c: 65](abs(x[r, c]) * w[c])", "output y"},
                 v);
    }
  }
}

// Mean and standard deviation of an input of the graph.
std::pair<double, double> Moments(const std::string& distribution, Variation variation,
                                  const char* role = "input") {
  Bench& bench = Shared();
  auto comparer = Comparer::Make(*bench.device, *bench.compiler);
  REQUIRE(comparer.ok());
  graph::Graph graph = ParseOrDie({absl::StrCat(role, " x: f32[40000] ~ ", distribution),
                                   "y: f32[i: 40000] = x[i]", "output y"});
  auto oracle = MakeNativeOracle(graph, *bench.compiler, bench.device->info());
  REQUIRE(oracle.ok());
  auto drawn = (*oracle)->Draw(*bench.device, 3, variation);
  REQUIRE(drawn.ok());
  double sum = 0, squares = 0;
  for (double x : ReadAll(**comparer, graph::DType::kF32, *drawn->inputs[0], 40000)) {
    sum += x;
    squares += x * x;
  }
  double mean = sum / 40000;
  return {mean, std::sqrt(squares / 40000 - mean * mean)};
}

TEST_CASE("inputs follow their distributions") {
  auto is = [](std::pair<double, double> got, double mean, double deviation) {
    CHECK(got.first == Approx(mean).margin(0.03));
    CHECK(got.second == Approx(deviation).margin(0.03));
  };
  is(Moments("normal", Variation::kNone), 0, 1);
  is(Moments("uniform(0, 1)", Variation::kNone), 0.5, 0.2887);
  is(Moments("uniform(0, 1)", Variation::kNegated), -0.5, 0.2887);
  is(Moments("uniform(0, 1)", Variation::kTimes3), 1.5, 0.866);
  is(Moments("uniform(0, 1)", Variation::kDense), 0, 1);
  is(Moments("integers(0, 3)", Variation::kNone), 1, 0.8165);
  is(Moments("constant(2)", Variation::kNone, "param"), 2, 0);
  is(Moments("constant(2)", Variation::kNewWeights, "param"), 2, 0.2);
  is(Moments("constant(2)", Variation::kNegated, "param"), 2, 0);
  CHECK(Moments("normal", Variation::kWide).second > 5);
}

TEST_CASE("comparison counts, places and measures every difference") {
  Bench& bench = Shared();
  auto comparer = Comparer::Make(*bench.device, *bench.compiler);
  REQUIRE(comparer.ok());
  constexpr int kCount = 5003;
  std::vector<float> want(kCount), got;
  for (int i = 0; i < kCount; ++i) want[i] = static_cast<float>(i % 7) - 3;
  want[100] = INFINITY;
  got = want;
  auto memory = [&](const std::vector<float>& values) {
    auto m = *bench.device->Allocate(kCount * 4);
    REQUIRE(bench.device->Write(*m, values.data(), kCount * 4).ok());
    return m;
  };
  auto compare = [&] {
    auto a = memory(got), b = memory(want);
    auto d = (*comparer)->Compare(graph::DType::kF32, *a, *b, kCount, 1e-3, 1e-3, 0xFFFFFFFFu);
    REQUIRE(d.ok());
    return *d;
  };
  CHECK(compare().same());
  CHECK(compare().want_rms == Approx(2).epsilon(0.01));
  got[9] += 0.0005f;
  CHECK(compare().same());
  CHECK(compare().largest == Approx(0.0005).epsilon(0.01));
  got[kCount - 1] += 1;
  got[4000] += 1;
  got[200] = NAN;
  std::memset(&got[300], 0xFF, 4);
  Difference d = compare();
  CHECK(d.beyond == 2);
  CHECK(d.first_beyond == 4000);
  CHECK(d.disagree == 2);
  CHECK(d.first_disagree == 200);
  CHECK(d.unwritten == 1);
  CHECK(d.first_unwritten == 300);

  auto a = memory(want), b = memory(want);
  auto hash = [&](device::Memory& m) { return *(*comparer)->Hash(m); };
  CHECK(hash(*a) == hash(*b));
  std::swap(want[17], want[18]);
  auto c = memory(want);
  CHECK(hash(*a) != hash(*c));
}

TEST_CASE("an index is judged by the value it points at, where rounding may decide") {
  Bench& bench = Shared();
  auto comparer = Comparer::Make(*bench.device, *bench.compiler);
  REQUIRE(comparer.ok());
  graph::Graph plain = ParseOrDie(
      {"input x: f32[4, 8] ~ normal", "a, i: f32[r: 4] = argmax[c: 8](x[r, c])", "output i"});
  auto none = (*comparer)->MakeIndexRule(plain, plain.Find("i"), *bench.compiler);
  REQUIRE(none.ok());
  CHECK(*none == nullptr);

  graph::Graph graph =
      ParseOrDie({"input x: f32[2, 4] ~ normal", "input q: f32[2] ~ normal",
                  "d: f32[r: 2, c: 4] = x[r, c] - q[r]",
                  "a, i: f32[r: 2] = argmin[c: 4](d[r, c] * d[r, c])", "output i"});
  auto rule = (*comparer)->MakeIndexRule(graph, graph.Find("i"), *bench.compiler);
  INFO(rule.status());
  REQUIRE(rule.ok());
  REQUIRE(*rule != nullptr);
  // Squares of the distances to 0: 1, 1.0000002, 4, 9 in both rows.
  const std::vector<float> x = {-1, 1.0000001f, 2, 3, -1, 1.0000001f, 2, 3}, q = {0, 0};
  auto memory = [&](const auto& values) {
    const int64_t bytes = static_cast<int64_t>(values.size() * sizeof(values[0]));
    auto m = *bench.device->Allocate(bytes);
    REQUIRE(bench.device->Write(*m, values.data(), bytes).ok());
    return m;
  };
  auto x_memory = memory(x), q_memory = memory(q);
  std::vector<device::Memory*> inputs;
  for (int t : (*rule)->inputs) {
    inputs.push_back(graph.tensors[t].name == "x" ? x_memory.get() : q_memory.get());
  }
  auto compare = [&](std::vector<int64_t> got) {
    auto mine = memory(got), want = memory(std::vector<int64_t>{0, 0});
    auto d = (*comparer)->CompareIndexes(**rule, *mine, *want, inputs, 2, 1e-4, 1e-4, 0xFFFFFFFFu);
    REQUIRE(d.ok());
    return *d;
  };
  CHECK(compare({0, 0}).same());
  CHECK(compare({0, 1}).same());
  CHECK(compare({0, 2}).first_beyond == 1);
  CHECK(compare({4, 0}).first_beyond == 0);
  CHECK(compare({0, -1}).unwritten == 1);
  // The same a thousandth as large: all values are within the tolerance of 0, not of each other.
  std::vector<float> small = x;
  for (float& value : small) value *= 1e-3f;
  REQUIRE(bench.device->Write(*x_memory, small.data(), 8 * 4).ok());
  CHECK(compare({0, 1}).same());
  CHECK(compare({0, 2}).first_beyond == 1);
}

TEST_CASE("errors are relative to the answer's rms, and NaN where finiteness differs") {
  CHECK(ErrorsOf(graph::DType::kF32, {1, 2}, {1, 2}).max == 0);
  CHECK(ErrorsOf(graph::DType::kF32, {3, 4.5}, {3, 4}).max == Approx(0.5 / std::sqrt(12.5)));
  CHECK(ErrorsOf(graph::DType::kF32, {NAN, INFINITY, 1}, {NAN, INFINITY, 1}).max == 0);
  CHECK(std::isnan(ErrorsOf(graph::DType::kF32, {1.0}, {double{INFINITY}}).max));
  CHECK(ErrorsOf(graph::DType::kF32, {0.5}, {0}).max == 0.5);
  // One step of fp32 at the largest value is no error to be held against anybody; two are.
  const double step = 0x1p-13;  // from 1024 on
  const Errors one = ErrorsOf(graph::DType::kF32, {1024 + step, 1}, {1024, 1});
  CHECK(one.max > 0);
  CHECK(one.beyond == 0);
  const Errors two = ErrorsOf(graph::DType::kF32, {1024 + 2 * step, 1}, {1024, 1});
  CHECK(two.beyond == two.max);
  CHECK(ErrorsOf(graph::DType::kF64, {1024 + step}, {1024}).beyond > 0);
  CHECK(ErrorsOf(graph::DType::kF32, {1e-30}, {0}).beyond == 1e-30);
}

TEST_CASE("whose errors are larger is told from chance value by value") {
  constexpr auto kType = graph::DType::kF32;
  constexpr int kValues = 20000;
  std::mt19937_64 random(1);
  std::normal_distribution<double> normal;
  std::vector<double> exact, reference, alike, worse, better;
  for (int i = 0; i < kValues; ++i) {
    exact.push_back(normal(random));
    reference.push_back(exact[i] + 1e-3 * normal(random));
    alike.push_back(exact[i] + 1e-3 * normal(random));
    worse.push_back(exact[i] + 1.05e-3 * normal(random));
    better.push_back(exact[i] + 0.95e-3 * normal(random));
  }
  CHECK(std::abs(ExcessOf(kType, alike, reference, exact)) < 3);
  CHECK(ExcessOf(kType, worse, reference, exact) > 3);
  CHECK(ExcessOf(kType, better, reference, exact) < -3);
  CHECK(ExcessOf(kType, reference, reference, exact) == 0);
  // What is worse in the same places by ever so little is no chance.
  std::vector<double> slightly = reference;
  for (int i = 0; i < kValues; ++i) slightly[i] += 1e-4 * (reference[i] - exact[i]);
  CHECK(ExcessOf(kType, slightly, reference, exact) > 3);
  // One that is far off may be chance, for all that the squares say; a dozen are none.
  std::vector<double> spoilt = better;
  spoilt[7] = exact[7] + 1;
  CHECK(std::abs(ExcessOf(kType, spoilt, reference, exact) - 1) < 0.1);
  for (int i = 0; i < 12; ++i) spoilt[100 * i] = exact[100 * i] + 1;
  CHECK(ExcessOf(kType, spoilt, reference, exact) > 3);
  // Values that are not finite count for nothing.
  CHECK(std::abs(ExcessOf(kType, {1, 2}, {0, 1}, {0, 1}) - std::sqrt(2)) < 1e-12);
  CHECK(ExcessOf(kType, {1, NAN}, {1, 2}, {1, INFINITY}) == 0);
}

TEST_CASE("errors larger than each of the reference's are counted") {
  const std::vector<double> exact(6, 1), reference = {1, 0.9, 1.2, 1, 1, 1};
  CHECK(LargerOf(graph::DType::kF32, {1, 1.3, 1, 0.7, 1.1, NAN}, reference, exact) == 2);
  CHECK(LargerOf(graph::DType::kF32, reference, reference, exact) == 0);
  // What rounds the other way is none.
  CHECK(LargerOf(graph::DType::kBF16, {1.0078125}, {1}, {1.004}) == 0);
  CHECK(LargerOf(graph::DType::kBF16, {1.015625}, {1}, {1.004}) == 1);
}

TEST_CASE("errors count in the type that the answer is stored in") {
  using graph::DType;
  struct Case {
    DType type;
    double got, exact;
    bool nearest;
  };
  const double up = 1 + 0x1p-7, down = 1 - 0x1p-8;  // of 1, in bf16
  const double inf = INFINITY;
  const Case cases[] = {
      {DType::kBF16, 1, 1.003, true},      // what it rounds to
      {DType::kBF16, up, 1.003, true},     // the one above
      {DType::kBF16, down, 1.003, false},  // the one below, further than rounding could go
      {DType::kBF16, down, 1 - 0x1p-9, true},
      {DType::kBF16, up, 1, false},
      {DType::kBF16, 1 + 0x1p-6, 1.003, false},
      {DType::kBF16, up, 1 + 0x1p-8, true},  // a tie goes to even, which is 1
      {DType::kBF16, 1 + 0x1p-6, 1 + 0x1p-8, false},
      {DType::kBF16, -1, 1, false},
      {DType::kBF16, 0x1p-133, 0x1p-134, true},  // the least subnormal, and zero
      {DType::kBF16, 0x1p-132, 0, false},
      {DType::kF16, 1 + 0x1p-10, 1 + 0x1p-11, true},
      {DType::kF16, 1 + 0x1p-9, 1, false},
      {DType::kF16, inf, 65520, true},  // rounds to infinity
      {DType::kF16, 65504, 1e9, true},  // which is the largest's neighbour
      {DType::kF16, 65472, 1e9, false},
      {DType::kF16, inf, inf, true},
      {DType::kF16, NAN, 1, false},
  };
  for (const Case& c : cases) {
    INFO(graph::NameOf(c.type) << ": " << c.got << " for " << c.exact);
    CHECK(IsNearest(c.type, c.got, c.exact) == c.nearest);
    CHECK(IsNearest(c.type, -c.got, -c.exact) == c.nearest);
  }
  // Each number of a type, the next, what lies between them, and what lies beyond.
  for (DType type : {DType::kBF16, DType::kF16}) {
    const int bits = type == DType::kBF16 ? 7 : 10, least = type == DType::kBF16 ? -126 : -14;
    int64_t wrong = 0;
    for (int exponent = least; exponent < 14; ++exponent) {
      const double step = std::ldexp(1.0, exponent - bits);
      // The least exponent has the subnormal numbers, too.
      const int first = exponent == least ? 0 : 1 << bits;
      for (int i = first; i < 2 << bits; ++i) {
        const double one = i * step, next = (i + 1) * step;
        for (double part : {0.0, 0.26, 0.49, 0.5, 0.51, 0.74}) {
          const double exact = one + part * step;
          wrong += !IsNearest(type, one, exact) || (part > 0.25 && !IsNearest(type, next, exact));
          wrong +=
              IsNearest(type, one, exact + 2 * step) || IsNearest(type, next + 2 * step, exact);
        }
      }
    }
    INFO(graph::NameOf(type));
    CHECK(wrong == 0);
  }
  CHECK(ErrorsOf(DType::kBF16, {up, 2}, {1.003, 2}).max == 0);
  CHECK(ErrorsOf(DType::kBF16, {up, 2}, {1.003, 2}).plain > 3e-3);
  CHECK(ErrorsOf(DType::kF32, {up, 2}, {1.003, 2}).max > 3e-3);
  CHECK(ErrorsOf(DType::kBF16, {1 + 0x1p-6, 2}, {1.003, 2}).max ==
        Approx(0.012625 / 1.5811).epsilon(1e-2));
  CHECK(ErrorsOf(DType::kF16, {inf}, {65520.0}).max == 0);
  CHECK(ErrorFloor(DType::kF32) == 5e-7);
  CHECK(ErrorFloor(DType::kBF16) == 0x1p-7);
}

TEST_CASE("its source compiles for a card") {
  auto compiler = device::MakeCompiler("sm_90a", CacheDir());
  if (!compiler.ok()) {
    WARN("not run: " << compiler.status());
    return;
  }
  device::DeviceInfo card;
  card.sm_count = 132;
  graph::Graph graph = ParseOrDie(
      {"input x: f32[300, 701] ~ normal", "input h: f16[701] ~ uniform(0, 1)",
       "input k: i64[300] ~ integers(0, 701)", "param w: bf16[701] ~ normal",
       "g: f32[r: 300] = x[r, k[r]]", "a, i: f32[r: 300] = argmax[c: 701](erf(x[r, c]))",
       "s: f64[] = sum[r: 300, c: 701](f64(x[r, c]) * f64(h[c]))",
       "y: bf16[r: 300, c: 701] = select(x[r, c] < 0, bf16(pow(abs(x[r, c]), 1.5)), w[c])",
       "z: f16[r: 300, c: 701] = f16(round(x[r, c]) / 3)",
       "b: f32[i: 500, j: 701] = sum[r: 300](select(k[r] == i, x[r, j], 0))", "output g",
       "output i", "output s", "output y", "output z", "output b"});
  for (const std::string& source : {NativeOracleSource(graph, card), ComparerSource()}) {
    auto binary = (*compiler)->Compile(source, absl::Seconds(60));
    INFO(binary.status());
    CHECK(binary.ok());
  }
}

TEST_CASE("integers that a double would take for the same are told apart") {
  Bench& bench = Shared();
  auto comparer = Comparer::Make(*bench.device, *bench.compiler);
  REQUIRE(comparer.ok());
  constexpr int64_t kLowest = std::numeric_limits<int64_t>::min();
  constexpr int64_t kHighest = std::numeric_limits<int64_t>::max();
  struct Pair {
    int64_t got, want;
    double absolute;
    bool same;
  };
  for (const Pair& pair : {Pair{int64_t{1} << 53, (int64_t{1} << 53) + 1, 0, false},
                           {int64_t{1} << 53, (int64_t{1} << 53) + 1, 1, true},
                           {kHighest, kHighest - 2, 1, false},
                           {kHighest, kHighest, 0, true},
                           {kLowest, kHighest, 1, false},
                           {kLowest, kLowest + 1, 0, false}}) {
    auto got = *bench.device->Allocate(8), want = *bench.device->Allocate(8);
    REQUIRE(bench.device->Write(*got, &pair.got, 8).ok());
    REQUIRE(bench.device->Write(*want, &pair.want, 8).ok());
    const auto d = (*comparer)->Compare(graph::DType::kI64, *got, *want, 1, pair.absolute, 0, 0);
    REQUIRE(d.ok());
    INFO(pair.got << " and " << pair.want << " within " << pair.absolute);
    CHECK(d->same() == pair.same);
    CHECK(d->differing == (pair.got == pair.want ? 0 : 1));
  }
}

TEST_CASE("a bool that holds neither 0 nor 1 was not written") {
  Bench& bench = Shared();
  auto comparer = Comparer::Make(*bench.device, *bench.compiler);
  REQUIRE(comparer.ok());
  auto got = *bench.device->Allocate(100), want = *bench.device->Allocate(100);
  REQUIRE(bench.device->Fill(*want, 0x01010101u).ok());
  for (uint32_t poison : {0xFFFFFFFFu, 0x42424242u, 0xC2C2C2C2u}) {
    REQUIRE(bench.device->Fill(*got, poison).ok());
    auto d = (*comparer)->Compare(graph::DType::kBool, *got, *want, 100, 0, 0, poison);
    REQUIRE(d.ok());
    CHECK(d->beyond == 100);
    CHECK(d->unwritten == 100);
  }
  REQUIRE(bench.device->Fill(*got, 0x01010101u).ok());
  auto same = (*comparer)->Compare(graph::DType::kBool, *got, *want, 100, 0, 0, 0xFFFFFFFFu);
  CHECK(same->same());
}

TEST_CASE("elements turned around twice are as they were, and not before") {
  Bench& bench = Shared();
  auto comparer = Comparer::Make(*bench.device, *bench.compiler);
  REQUIRE(comparer.ok());
  for (graph::DType type : {graph::DType::kF16, graph::DType::kF32, graph::DType::kF64}) {
    for (int64_t elements : {1, 2, 1001}) {
      const int64_t bytes = elements * graph::SizeOf(type);
      auto memory = *bench.device->Allocate(bytes);
      std::string before(bytes, '\0'), after = before;
      for (size_t i = 0; i < before.size(); ++i) before[i] = static_cast<char>(i * 7 + i / 256);
      REQUIRE(bench.device->Write(*memory, before.data(), bytes).ok());
      for (int64_t parts : {1, 2, 3}) {
        INFO(graph::NameOf(type) << " " << elements << " in " << parts);
        REQUIRE((*comparer)->Reverse(type, *memory, parts).ok());
        REQUIRE(bench.device->Read(*memory, after.data(), bytes).ok());
        CHECK((after == before) == (elements <= parts));
        REQUIRE((*comparer)->Reverse(type, *memory, parts).ok());
        REQUIRE(bench.device->Read(*memory, after.data(), bytes).ok());
        CHECK(after == before);
      }
    }
  }
}

}  // namespace
}  // namespace warpsmith::oracle
