// Operations: the fewest known, by the unit that may do them, and the light that follows.
#include "common/graph/work.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "common/graph/graph.h"
#include "common/graph/operations.h"
#include "common/graph/random_graph.h"

namespace warpsmith::graph {
namespace {

Cost CostOf(std::vector<std::string> lines) {
  auto graph = Parse(lines, {});
  INFO(graph.status());
  REQUIRE(graph.ok());
  REQUIRE(Validate(*graph).ok());
  return Count(*graph);
}

// About an H200.
Roof Card() {
  return {.read_bytes = 4.5e12,
          .write_bytes = 4.6e12,
          .copy_bytes = 4.3e12,
          .operations = 60e12,
          .products = 790e12,
          .most_products = 990e12};
}

std::vector<std::string> Product(const std::string& type, int m, int n, int k,
                                 const std::string& epilogue = "s[m, n]") {
  const std::string wide = type == "f64" ? "f64" : "f32";
  const auto extent = [](int n) { return std::to_string(n); };
  const auto factor = [&](const std::string& e) { return type == wide ? e : wide + "(" + e + ")"; };
  return {"input a: " + type + "[" + extent(m) + ", " + extent(k) + "]",
          "input b: " + type + "[" + extent(k) + ", " + extent(n) + "]",
          "s: " + wide + "[m: " + extent(m) + ", n: " + extent(n) + "] = sum[k: " + extent(k) +
              "](" + factor("a[m, k]") + " * " + factor("b[k, n]") + ")",
          "y: " + type + "[m: " + extent(m) + ", n: " + extent(n) +
              "] = " + (type == wide ? epilogue : type + "(" + epilogue + ")"),
          "output y"};
}

}  // namespace

TEST_CASE("the light of a product is that of the unit that may do it") {
  const double operations = 2 * std::pow(8192.0, 3);
  const struct {
    const char* type;
    Fp32 fp32;
    double rate;
  } cases[] = {{"bf16", Fp32::kKept, 790e12},
               {"f16", Fp32::kCoarse, 790e12},
               {"f32", Fp32::kKept, 790e12 / 3},
               {"f32", Fp32::kCoarse, 790e12},
               {"f64", Fp32::kKept, 60e12}};
  for (const auto& c : cases) {
    INFO(c.type << " at " << c.rate);
    const Cost cost = CostOf(Product(c.type, 8192, 8192, 8192));
    CHECK(cost.operations == operations);
    CHECK(LightSeconds(cost, Card(), c.fp32) == Approx(operations / c.rate));
    const Light least = LeastOf(cost, Card(), c.fp32);
    CHECK(least.seconds() == Approx(operations / (c.rate == 60e12 ? 60e12 : c.rate * 990 / 790)));
    // A card without tensor cores, or with slow ones.
    Roof plain = Card();
    plain.products = plain.most_products = 0;
    CHECK(LightSeconds(cost, plain, c.fp32) == Approx(operations / 60e12));
    plain.products = plain.most_products = 61e12;
    const double rate = c.rate == 790e12 ? 61e12 : 60e12;
    CHECK(LightSeconds(cost, plain, c.fp32) == Approx(operations / rate));
  }
}

TEST_CASE("what follows a product counts beside it") {
  const std::string gelu = "0.5 * s[m, n] * (1 + erf(s[m, n] * 0.7071))";
  const Cost large = CostOf(Product("bf16", 4096, 4096, 4096, gelu));
  CHECK(large.products.narrow == 2 * std::pow(4096.0, 3));
  CHECK(large.operations - large.products.all() == 5 * std::pow(4096.0, 2));
  CHECK(LightSeconds(large, Card()) == Approx(large.products.narrow / 790e12));
  // Few to be summed: bytes are what takes time.
  const Cost flat = CostOf(Product("bf16", 8192, 8192, 16, gelu));
  const Light light = LightOf(flat, Card());
  CHECK(light.seconds() == light.memory);
  CHECK(light.memory > 3 * light.products);
}

TEST_CASE("products are told apart by what their factors are in memory") {
  const struct {
    const char* what;
    std::vector<std::string> lines;
    double Products::*kind;
  } cases[] = {
      {"16 bits by fp32",
       {"input a: bf16[8, 4]", "input b: f32[4, 6]",
        "y: f32[m: 8, n: 6] = sum[k: 4](f32(a[m, k]) * b[k, n])", "output y"},
       &Products::mixed},
      {"widened by a map, with a relu",
       {"input a: bf16[8, 4]", "input b: f16[4, 6]", "w: f32[m: 8, k: 4] = max(f32(a[m, k]), 0)",
        "y: f32[m: 8, n: 6] = sum[k: 4](w[m, k] * f32(b[k, n]))", "output y"},
       &Products::narrow},
      {"rounded before",
       {"input a: f32[8, 4]", "input b: bf16[4, 6]",
        "y: f32[m: 8, n: 6] = sum[k: 4](f32(bf16(a[m, k] + 1)) * f32(b[k, n]))", "output y"},
       &Products::narrow},
      {"computed in fp32",
       {"input a: bf16[8, 4]", "input b: bf16[4, 6]", "w: f32[m: 8, k: 4] = exp(f32(a[m, k]))",
        "y: f32[m: 8, n: 6] = sum[k: 4](w[m, k] * f32(b[k, n]))", "output y"},
       &Products::mixed},
      {"bytes",
       {"input a: u8[8, 4] ~ integers(0, 9)", "input b: i8[4, 6] ~ integers(0, 9)",
        "y: f32[m: 8, n: 6] = sum[k: 4](f32(a[m, k]) * f32(b[k, n]))", "output y"},
       &Products::narrow},
      {"eight-bit floats, rounded here and come as their bits, with scales of blocks",
       {"input a: f32[8, 4]", "input s: f32[8, 2]", "input b: u8[4, 6] ~ integers(0, 120)",
        "y: f32[m: 8, n: 6] = sum[k: 4](e4m3(a[m, k]) * s[m, k / 2] * e4m3_of_bits(f32(b[k, n])))",
        "output y"},
       &Products::eight},
      {"eight-bit floats by 16 bits",
       {"input a: bf16[8, 4]", "input b: u8[4, 6] ~ integers(0, 120)",
        "y: f32[m: 8, n: 6] = sum[k: 4](f32(a[m, k]) * e4m3_of_bits(f32(b[k, n])))", "output y"},
       &Products::narrow},
      {"bytes in blocks that have scales, by what was rounded and is scaled again",
       {"input a: f32[8, 4]", "input s: f32[8]", "input b: i8[4, 6] ~ integers(0, 9)",
        "input t: f32[2, 6]", "q: f32[m: 8, k: 4] = round(a[m, k] / s[m])",
        "y: f32[m: 8, n: 6] = sum[k: 4](q[m, k] * s[m] * (f32(b[k, n]) * t[k / 2, n]))",
        "output y"},
       &Products::narrow},
      {"fp32 times weights of 16 bits that a row alone has",
       {"input a: f32[8, 4]", "input g: bf16[4]", "input b: bf16[4, 6]",
        "y: f32[m: 8, n: 6] = sum[k: 4](a[m, k] * f32(g[k]) * f32(b[k, n]))", "output y"},
       &Products::mixed},
  };
  for (const auto& c : cases) {
    INFO(c.what);
    const Cost cost = CostOf(c.lines);
    CHECK(cost.products.*c.kind == 2 * 8 * 6 * 4);
    CHECK(cost.products.all() == 2 * 8 * 6 * 4);
    CHECK_FALSE(cost.products.windows);
  }
}

TEST_CASE("causal attention multiplies half of its scores, twice") {
  const Cost cost = CostOf(
      {"input q: bf16[2, 256, 64]", "input k: bf16[2, 256, 64]", "input v: bf16[2, 256, 64]",
       "s: f32[h: 2, i: 256, j: 256] = sum[d: 64](f32(q[h, i, d]) * f32(k[h, j, d]))",
       "c: f32[h: 2, i: 256, j: 256] = select(j <= i, s[h, i, j] * 0.125, -inf)",
       "m: f32[h: 2, i: 256] = max[j: 256](c[h, i, j])",
       "e: f32[h: 2, i: 256, j: 256] = exp(c[h, i, j] - m[h, i])",
       "t: f32[h: 2, i: 256] = sum[j: 256](e[h, i, j])",
       "p: bf16[h: 2, i: 256, j: 256] = bf16(e[h, i, j] / t[h, i])",
       "y: f32[h: 2, i: 256, d: 64] = sum[j: 256](f32(p[h, i, j]) * f32(v[h, j, d]))", "output y"});
  const double half = 2 * 256 * 257 / 2;
  CHECK(cost.products.narrow == Approx(2 * 2 * half * 64).epsilon(0.01));
  // As PyTorch writes it: maps make the condition and what is chosen, and the mask is added.
  const Cost maps =
      CostOf({"input q: bf16[2, 256, 64]",
              "input k: bf16[2, 256, 64]",
              "input v: bf16[2, 256, 64]",
              "s: f32[h: 2, i: 256, j: 256] = sum[d: 64](f32(q[h, i, d]) * f32(k[h, j, d]))",
              "at: i64[i: 256, j: 256] = j - i",
              "before: bool[i: 256, j: 256] = at[i, j] <= 0",
              "all: bool[i: 256, j: 256] = true",
              "seen: bool[i: 256, j: 256] = before[i, j] and all[i, j]",
              "none: f32 = -inf",
              "zero: f32 = 0",
              "mask: f32[i: 256, j: 256] = select(seen[i, j], zero[], none[])",
              "c: f32[h: 2, i: 256, j: 256] = s[h, i, j] * 0.125 + mask[i, j]",
              "m: f32[h: 2, i: 256] = max[j: 256](c[h, i, j])",
              "e: f32[h: 2, i: 256, j: 256] = exp(c[h, i, j] - m[h, i])",
              "t: f32[h: 2, i: 256] = sum[j: 256](e[h, i, j])",
              "p: f32[h: 2, i: 256, j: 256] = e[h, i, j] / t[h, i]",
              "any: i32[h: 2, i: 256] = max[j: 256](i32(not (c[h, i, j] == -inf)))",
              "w: f32[h: 2, i: 256, j: 256] = select(not bool(any[h, i]), 0.0, p[h, i, j])",
              "y: f32[h: 2, i: 256, d: 64] = sum[j: 256](f32(bf16(w[h, i, j])) * f32(v[h, j, d]))",
              "output y"});
  CHECK(maps.products.narrow == Approx(2 * 2 * half * 64).epsilon(0.01));
}

TEST_CASE("convolutions are known as such") {
  const std::string x = "input x: f32[4, 100]", w = "input w: f32[6, 4, 5]";
  CHECK(CostOf({x, w,
                "y: f32[o: 6, l: 100] = sum[c: 4, k: 5](select(0 <= l + k - 2 and l + k - 2 < 100, "
                "x[c, l + k - 2], 0) * w[o, c, k])",
                "output y"})
            .products.windows);
  CHECK_FALSE(
      CostOf({x, "y: f32[c: 4, l: 96] = sum[k: 5](x[c, l + k])", "output y"}).products.windows);
}

TEST_CASE("operations are the fewest known") {
  const struct {
    const char* what;
    std::vector<std::string> lines;
    double simple, products;
    double within = 0;  // relative: what is sampled
  } cases[] = {
      {"equal parts once",
       {"input x: f32[8, 16]", "y: f32[r: 8, c: 16] = exp(x[r, c] + 1) / (exp(x[r, c] + 1) + 2)",
        "output y"},
       8 * 16 * 4,
       0},
      {"what does not change along an axis, once for it",
       {"input x: f32[8, 16]", "input s: f32[8]", "y: f32[r: 8, c: 16] = x[r, c] * exp(s[r])",
        "output y"},
       8 * 16 + 8,
       0},
      {"windows by running sums",
       {"input x: f32[100]", "y: f32[l: 81] = sum[k: 20](x[l + k])", "output y"},
       100,
       0},
      {"what is computed for each place of a window, once an element",
       {"input x: f32[100]", "y: f32[l: 81] = max[k: 20](exp(x[l + k]))", "output y"},
       200,
       0},
      {"a convolution",
       {"input x: f32[4, 100]", "input w: f32[6, 4, 5]",
        "y: f32[o: 6, l: 96] = sum[c: 4, k: 5](x[c, l + k] * w[o, c, k])", "output y"},
       0,
       2.0 * 6 * 96 * 4 * 5},
      {"a row's factor after the product",
       {"input x: f32[64, 32]", "input w: f32[48, 32]", "input r: f32[64]",
        "y: f32[m: 64, n: 48] = sum[k: 32](x[m, k] * r[m] * w[n, k] / 3)", "output y"},
       64 * 32,
       2.0 * 64 * 48 * 32},
      {"a sum of a product's rows",
       {"input x: f32[64, 32]", "input w: f32[48, 32]",
        "p: f32[m: 64, n: 48] = sum[k: 32](x[m, k] * w[n, k])",
        "y: f32[m: 64] = sum[n: 48](p[m, n] / 2)", "output y"},
       48 * 32,
       2 * 64 * 32},
      {"the same in one node",
       {"input x: f32[64, 32]", "input w: f32[48, 32]",
        "y: f32[m: 64] = sum[n: 48, k: 32](x[m, k] * w[n, k])", "output y"},
       48 * 32,
       2 * 64 * 32},
      {"the same by a map, with a bias",
       {"input x: f32[64, 32]", "input w: f32[48, 32]", "input b: f32[48]",
        "p: f32[m: 64, n: 48] = sum[k: 32](x[m, k] * w[n, k])",
        "q: f32[m: 64, n: 48] = p[m, n] * 2 + b[n]", "y: f32[m: 64] = sum[n: 48](q[m, n])",
        "output y"},
       48 * 32 + 48 + 64,
       2 * 64 * 32},
      {"not where somebody else reads the product",
       {"input x: f32[64, 32]", "input w: f32[48, 32]",
        "p: f32[m: 64, n: 48] = sum[k: 32](x[m, k] * w[n, k])",
        "y: f32[m: 64] = sum[n: 48](p[m, n])", "output y", "output p"},
       64 * 48,
       2 * 64 * 48 * 32},
      {"nor where it is not linear",
       {"input x: f32[64, 32]", "input w: f32[48, 32]",
        "p: f32[m: 64, n: 48] = sum[k: 32](x[m, k] * w[n, k])",
        "y: f32[m: 64] = sum[n: 48](max(p[m, n], 0))", "output y"},
       2 * 64 * 48,
       2 * 64 * 48 * 32},
      {"products of products in the best order",
       {"input q: f32[512, 16]", "input k: f32[512, 16]", "input v: f32[512, 16]",
        "s: f32[i: 512, j: 512] = sum[d: 16](q[i, d] * k[j, d])",
        "y: f32[i: 512, d: 16] = sum[j: 512](s[i, j] * v[j, d])", "output y"},
       0,
       2 * 2 * 512 * 16 * 16},
      {"a mean of a convolution",
       {"input x: f32[4, 102]", "input w: f32[6, 4, 3]",
        "p: f32[o: 6, l: 100] = sum[c: 4, k: 3](x[c, l + k] * w[o, c, k])",
        "t: f32[o: 6] = sum[l: 100](p[o, l])", "y: f32[o: 6] = t[o] / 100", "output y"},
       4 * 102 + 6,  // running sums of x
       2 * 6 * 4 * 3},
      {"a diagonal is a scaling",
       {"input d: f32[512]", "input x: f32[512, 64]",
        "diagonal: f32[i: 512, j: 512] = select(i == j, d[i], 0)",
        "y: f32[i: 512, n: 64] = sum[j: 512](diagonal[i, j] * x[j, n])", "output y"},
       0,
       2 * 512 * 64},
      {"half of a product with a triangle",
       {"input a: f32[512, 512]", "input b: f32[512, 64]",
        "y: f32[i: 512, n: 64] = sum[j: 512](select(j <= i, a[i, j], 0) * b[j, n])", "output y"},
       0,
       512 * 513 * 64,
       0.01},
      {"half of what a triangle is kept of",
       {"input a: f32[512, 64]", "input b: f32[512, 64]",
        "p: f32[i: 512, j: 512] = sum[k: 64](a[i, k] * b[j, k])",
        "y: f32[i: 512, j: 512] = select(j <= i, p[i, j], 0)", "output y"},
       0,
       512 * 513 * 64,
       0.01},
      {"padding is nowhere multiplied",
       {"input x: f32[64]", "input w: f32[33]",
        "y: f32[l: 64] = sum[k: 33](select(0 <= l + k - 16 and l + k - 16 < 64, x[l + k - 16], 0) "
        "* w[k])",
        "output y"},
       0,
       2 * (64 * 33 - 16 * 17),
       0.01},
  };
  for (const auto& c : cases) {
    INFO(c.what);
    const Cost cost = CostOf(c.lines);
    CHECK(cost.operations - cost.products.all() == c.simple);
    CHECK(cost.products.all() == Approx(c.products).epsilon(c.within));
  }
}

TEST_CASE("no more operations are known than are written") {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    INFO("seed " << seed);
    const Graph graph = Prune(RandomGraph(seed, {.scans = seed % 2 == 1}));
    double written = 0;
    for (const Node& node : graph.nodes) {
      double points = 1;
      for (const auto* axes : {&node.axes, &node.reduce_axes}) {
        for (const Axis& axis : *axes) points *= static_cast<double>(axis.extent);
      }
      const bool combines = !node.map() && IsFloat(node.value->type);
      const int each = !combines ? 0 : node.combiner == Combiner::kLogSumExp ? 4 : 1;
      written += points * (OperationsOf(node.value).all + each);
    }
    const Cost cost = Count(graph);
    CHECK(cost.operations <= written);
    CHECK(cost.products.all() <= cost.operations);
  }
}

TEST_CASE("rows that are added to the places that they name are added once each") {
  const auto cost = CostOf(
      {"input k: i64[1688] ~ integers(0, 65536)", "input v: f32[1688, 4096] ~ normal",
       "y: f32[i: 65536, j: 4096] = sum[r: 1688](select(k[r] == i, v[r, j], 0))", "output y"});
  CHECK(cost.operations <= 2 * 1688.0 * 4096);
  CHECK(cost.read_bytes == 1688 * 8 + 1688 * 4096 * 4);
  CHECK(cost.products.all() == 0);
  // However the place is written, whatever the row is made of, and however often it is asked for.
  const auto all = [](const std::string& place, const std::string& value) {
    const auto cost = CostOf(
        {"input k: i64[1688] ~ integers(0, 65536)", "input c: i32[1688] ~ integers(0, 65536)",
         "input w: f32[1688] ~ normal", "input v: f32[1688, 4096] ~ normal",
         "y: f32[i: 65536, j: 4096] = sum[r: 1688](select(" + place + ", " + value + ", 0))",
         "output y"});
    return cost.operations + cost.products.all();
  };
  constexpr double kOfRows = 1688.0 * 4096;
  for (const char* place : {"k[r] == i", "c[r] == i32(i)", "k[r] == i + 1", "k[r] == i - 3",
                            "k[r] == i and i == k[r]"}) {
    for (const char* value : {"v[r, j]", "w[r] * v[r, j]", "w[r] + v[r, j]"}) {
      INFO(place << ": " << value);
      // Two sums are added up at each place.
      const bool two = std::string(value).find('+') != std::string::npos;
      CHECK(all(place, value) <= 4 * kOfRows + (two ? 65536.0 * 4096 : 0));
      CHECK(all(place, value) >= kOfRows);
    }
  }
}

}  // namespace warpsmith::graph
