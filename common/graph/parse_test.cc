#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "common/graph/graph.h"
#include "common/graph/random_graph.h"

namespace warpsmith::graph {
namespace {

using Lines = std::vector<std::string>;

const Dims kDims = {{"R", 4}, {"C", 6}};

std::string ErrorOf(const Lines& lines) {
  const auto graph = Parse(lines, kDims);
  return graph.ok() ? "none" : std::string(graph.status().message());
}

TEST_CASE("a softmax parses, and prints with numbers in place of names") {
  const auto graph = Parse(
      {"# along rows", "input x: f32[R, C] ~ normal   # scores", "",
       "m: f32[r: R] = max[c: C](x[r, c])", "e: f32[r: R, c: C] = exp(x[r, c] - m[r])",
       "s: f32[r: R] = sum[c: C](e[r, c])", "y: f32[r: R, c: C] = e[r, c] / s[r]", "output y"},
      kDims);
  INFO(graph.status().message());
  REQUIRE(graph.ok());
  CHECK(Validate(*graph).ok());
  CHECK(graph->nodes.size() == 4);
  CHECK(graph->nodes[0].reduce);
  CHECK(graph->nodes[0].combiner == Combiner::kMax);
  CHECK(graph->tensors[graph->outputs[0]].shape == std::vector<int64_t>{4, 6});
  CHECK(Print(*graph) == Lines{"input x: f32[4, 6] ~ normal", "m: f32[r: 4] = max[c: 6](x[r, c])",
                               "e: f32[r: 4, c: 6] = exp(x[r, c] - m[r])",
                               "s: f32[r: 4] = sum[c: 6](e[r, c])",
                               "y: f32[r: 4, c: 6] = e[r, c] / s[r]", "output y"});
}

// What stands after the '=' of `y: TYPE[r: R, c: C] = `, and its canonical form.
TEST_CASE("expressions and their canonical text") {
  struct Case {
    const char *type, *text, *canonical;
  };
  const Case cases[] = {
      {"f32", "x[r,c]*2+1", "x[r, c] * 2 + 1"},
      {"f32", "(x[r, c] + 1) * 2", "(x[r, c] + 1) * 2"},
      {"f32", "x[r, c] - (1 - x[r, c])", "x[r, c] - (1 - x[r, c])"},
      {"f32", "x[r, c] / (x[r, c] / 2)", "x[r, c] / (x[r, c] / 2)"},
      {"f32", "-x[r, c] * -2", "-x[r, c] * -2"},
      {"f32", "-(x[r, c] + 1)", "-(x[r, c] + 1)"},
      {"f32", "x[r, c] - -0.0", "x[r, c] - -0.0"},
      {"f32", "x[r, c] * 1", "x[r, c]"},
      {"f32", "x[r, c] * 0.1", "x[r, c] * 0.1"},
      {"f32", "x[r, c] * (1 / 3)", "x[r, c] * 0.33333334"},
      {"f32", "x[r, c] / C", "x[r, c] / 6"},
      {"f32", "x[r, c] * sqrt(2)", "x[r, c] * 1.4142135"},
      {"f32", "x[r, c] + inf - nan", "x[r, c] + inf - nan"},
      {"f32", "x[r, c] + 1e-300", "x[r, c] + 0"},
      {"f32", "clamp(x[r, c], -1, 1)", "min(max(x[r, c], -1), 1)"},
      {"f32", "select(x[r, c] > 0, 1, 0)", "select(0 < x[r, c], 1, 0)"},
      {"f32", "f32(r >= 1 and not (c == 2 or c != 3))", "f32(1 <= r and not (c == 2 or c != 3))"},
      {"f32", "f32(not r < 1)", "f32(not r < 1)"},
      {"f32", "f32(f16(x[r, c] * 0.1))", "f32(f16(x[r, c] * 0.1))"},
      {"f32", "f32(f16(0.1)) + x[r, c]", "0.099975586 + x[r, c]"},
      {"f16", "select(r < 1, 0.1, 2)", "select(r < 1, 0.099975586, 2)"},
      {"f32", "f32(f16(select(r < 1, 0.1, 2)))", "f32(select(r < 1, f16(0.099975586), f16(2)))"},
      {"f32", "x[(r + 1) % R, c / 2 * 2]", "x[(r + 1) % 4, c / 2 * 2]"},
      {"f32", "x[r, n[r]]", "x[r, n[r]]"},
      {"f32", "x[r, i64(f64(c) * 0.5)]", "x[r, i64(f64(c) * 0.5)]"},
      {"f32", "t[] * max[r]", "t[] * max[r]"},
      {"f32", "pow(x[r, c], 2) + atan2(x[r, c], 3)", "pow(x[r, c], 2) + atan2(x[r, c], 3)"},
      {"f64", "f64(x[r, c]) * 0.1", "f64(x[r, c]) * 0.1"},
      {"i64", "-9223372036854775808 + r * c", "-9223372036854775808 + r * c"},
      {"i32", "i32(r) % 3 / -2", "i32(r) % 3 / -2"},
      {"i64", "i64(x[r, c] * 0.5)", "i64(x[r, c] * 0.5)"},
      {"bool", "true or r < c", "true"},
      {"bool", "(r < c) == (c < 3)", "(r < c) == (c < 3)"},
      {"bool", "isnan(x[r, c])", "isnan(x[r, c])"},
      {"bool", "select(r < 2, 1, 2) < c", "select(r < 2, 1, 2) < c"},
      {"bool", "select(r < 2, 0.5, 2) < 1", "select(r < 2, f64(0.5), f64(2)) < f64(1)"},
  };
  for (const Case& c : cases) {
    INFO(c.text);
    const Lines inputs = {"input x: f32[R, C]", "input n: i64[R] ~ integers(0, C)", "input t: f32",
                          "input max: f32[R]"};
    Lines lines = inputs;
    lines.push_back(std::string("y: ") + c.type + "[r: R, c: C] = " + c.text);
    const auto graph = Parse(lines, kDims);
    INFO(graph.status().message());
    REQUIRE(graph.ok());
    const Node& node = graph->nodes[0];
    const std::string printed = PrintExpr(*graph, node, node.value);
    CHECK(printed == c.canonical);
    lines.back() = std::string("y: ") + c.type + "[r: R, c: C] = " + printed;
    const auto again = Parse(lines, kDims);
    INFO(again.status().message());
    REQUIRE(again.ok());
    CHECK(Same(again->nodes[0].value, node.value));
  }
}

TEST_CASE("statements and their canonical text") {
  const Lines lines = {"input x: f16[2, 3] ~ normal(1, 0.5)",
                       "param w.0.weight: bf16[6] ~ uniform(-1, 1)",
                       "state count: i32[1] ~ integers(0, 10)",
                       "inout places: i64[2] ~ integers(0, 3)",
                       "input mask: bool[2] ~ integers(0, 2)",
                       "input scale: f64 ~ constant(2.5)",
                       "s: f64 = sum[i: 2, j: 3](f64(x[i, j]) * scale[])",
                       "v, at: f16[i: 2] = argmin[j: 3](x[i, j])",
                       "next: i32[i: 1] = count[i] + 1",
                       "any: bool = max[i: 2](mask[i])",
                       "c: f64[i: 2, j: 3] = cumsum[j](f64(x[i, j]) * scale[])",
                       "p: i32[i: 1] = cumprod[i, exclusive](count[i])",
                       "l: f16[i: 2, j: 3] = cumlogsumexp[i, reverse](x[i, j])",
                       "e: bool[i: 2] = cummax[i, reverse, exclusive](mask[i])",
                       "far, where: f16[i: 2, j: 3] = cumargmin[j](x[i, j])",
                       "cumsum: f32[i: 2] = 1",
                       "loaded: f32[i: 2] = cumsum[i]",
                       "output s",
                       "output at",
                       "output x",
                       "output any",
                       "update count = next",
                       "update places = at"};
  const auto graph = Parse(lines, {});
  INFO(graph.status().message());
  REQUIRE(graph.ok());
  CHECK(Validate(*graph).ok());
  CHECK(Print(*graph) == lines);
  CHECK(graph->nodes[1].outputs.size() == 2);
  CHECK(graph->tensors[graph->nodes[1].outputs[1]].type == DType::kI64);
  CHECK_FALSE(graph->nodes[4].map());
  CHECK(graph->nodes[4].scan == Scan{1, false, false});
  CHECK(graph->nodes[7].scan == Scan{0, true, true});
  CHECK(graph->tensors[graph->Find("where")].type == DType::kI64);
  CHECK(graph->nodes.back().map());
}

TEST_CASE("the words of a scan may stand in either order") {
  const auto graph = Parse(
      {"input x: f32[R]", "y: f32[r: R] = cumsum[r, exclusive, reverse](x[r])", "output y"}, kDims);
  REQUIRE(graph.ok());
  CHECK(Print(*graph)[1] == "y: f32[r: 4] = cumsum[r, reverse, exclusive](x[r])");
}

TEST_CASE("wrong text is refused with its place and what was expected") {
  struct Case {
    Lines lines;
    const char* message;
  };
  const std::string x = "input x: f32[R, C]";
  const Case cases[] = {
      {{"input x f32[R]"}, "line 1, column 9: expected ':' but found 'f32'"},
      {{"input x: f33[R]"}, "line 1, column 10: expected a type"},
      {{"input x: f32[R"}, "line 1, column 15: expected ',' or ']' but found the end of the line"},
      {{"input x: f32[Q]"}, "unknown name 'Q'; index variables and dimensions here are C, R"},
      {{"input x: f32[R - 4]"}, "column 14: extent 0 is less than 1"},
      {{"input x: f32[R / 0]"}, "column 14: division by zero"},
      {{"input x: f32[99999999, 99999999]"}, "more than 1099511627776 elements"},
      {{"input x: f32[9999999]", "y: f32 = sum[i: 9999999, j: 9999999, k: 9](x[i] * x[j])"},
       "more than 281474976710656 elements"},
      {{"input x: f32[R] ~ gauss"}, "expected normal, uniform(a, b)"},
      {{"input x: f32[R] ~ uniform(1, 0)"}, "the range is empty"},
      {{"input and: f32"}, "expected a name for a tensor but found 'and'"},
      {{x, "input x: f32"}, "line 2, column 7: 'x' is defined already"},
      {{"intput x: f32"}, "expected input, param, state, inout, output, update"},
      {{x, "y: f32[r: R] = z[r]"}, "line 2, column 16: unknown tensor 'z'"},
      {{x, "y: f32[r: R] = x[r]"}, "'x' has rank 2 but 1 indexes are given"},
      {{x, "y: f32[r: R] = x"}, "tensor 'x' needs indexes"},
      {{x, "y: f32[r: R, r: C] = x[r, r]"}, "column 14: a second axis 'r'"},
      {{x, "y: f32[r: R] = sum[r: C](x[r, r])"}, "a second axis 'r'"},
      {{x, "y: f64[r: R] = x[r, 0]"}, "expected f64 but this is f32; cast it: f64(...)"},
      {{x, "y: f32[r: R] = x[r, 0] + r"}, "'+' of f32 and i64; cast one"},
      {{x, "y: f32[r: R] = x[r, 0.5]"}, "expected i64 but this is a fraction"},
      {{x, "y: f32[r: R] = x[x[r, 0], 0]"}, "expected i64 but this is f32"},
      {{x, "y: i32[r: R] = 3000000000"}, "3000000000 is out of range for i32"},
      {{x, "y: i64[r: R] = 9223372036854775808"}, "out of range"},
      {{x, "y: f32[r: R] = exp(x[r, 0], 1)"}, "exp() takes 1 argument but 2 are given"},
      {{x, "y: f32[r: R] = foo(x[r, 0])"}, "unknown function 'foo'"},
      {{x, "y: f32[r: R] = 1 + sum(x[r, 0])"}, "a reduce names its axes"},
      {{x, "y: f32[r: R] = sum[c: C](x[r, c]) / C"}, "a reduce stands alone"},
      {{x, "y: f32[r: R] = logsumexp[c: C](x[r, c])"}, "logsumexp is for scans"},
      {{x, "y: f32[r: R] = cumsum[c](x[r, 0])"}, "column 23: 'c' is no axis of the output"},
      {{x, "y: f32[r: R] = cumsum[r](x[r, 0]) / C"}, "a scan stands alone"},
      {{x, "y: f32[r: R] = cumsum[r, back](x[r, 0])"}, "expected reverse or exclusive, each once"},
      {{x, "y: f32[r: R] = cumsum[r, reverse, reverse](x[r, 0])"}, "each once but found 'reverse'"},
      {{x, "y: f32[r: R] = cumargmax[r](x[r, 0])"}, "cumargmax gives two outputs"},
      {{x, "y, z: f32[r: R] = cummax[r](x[r, 0])"}, "cummax gives one output"},
      {{x, "y, z: f32[r: R] = cumargmax[r, exclusive](x[r, 0])"}, "cumargmax is not exclusive"},
      {{x, "y: bool[r: R] = cumprod[r](x[r, 0] > 0)"}, "cumprod of bool"},
      {{x, "y: i64[r: R] = cumlogsumexp[r](r)"}, "cumlogsumexp of i64"},
      {{x, "y: f32[r: R] = argmax[c: C](x[r, c])"}, "argmax gives two outputs"},
      {{x, "y, z: f32[r: R] = max[c: C](x[r, c])"}, "max gives one output"},
      {{x, "y, z: f32[r: R] = x[r, 0]"}, "two outputs need argmax"},
      {{x, "y, y: f32[r: R] = argmax[c: C](x[r, c])"}, "different names"},
      {{x, "y: bool[r: R] = sum[c: C](x[r, c] > 0)"}, "sum of bool"},
      {{x, "y: bool[r: R] = x[r, 0] < 1 < 2"}, "comparisons do not chain"},
      {{x, "y: f32[r: R] = select(x[r, 0], 1, 2)"}, "expected bool but this is f32"},
      {{x, "y: f32[r: R] = not x[r, 0]"}, "'not' takes bool, not f32"},
      {{x, "y: i64[r: R] = exp(r)"}, "'exp' takes floating-point numbers, not i64"},
      {{x, "y: f32[r: R] = x[r, 0] % 2"}, "'%' takes integers, not f32"},
      {{x, "y: bool[r: R] = 1"}, "write true or false"},
      {{x, "y: f32[r: R] = (x[r, 0]"}, "expected ')' but found the end of the line"},
      {{x, "y: f32[r: R] = x[r, 0] 2"}, "expected the end of the line but found '2'"},
      {{x, "y: f32[r: R] = 2x"}, "a name does not start with a digit"},
      {{x, "y: f32[r: R] = x[r, 0] $ 2"}, "column 24: '$' has no meaning here"},
      {{x, "y: f32[r: R] = 1e999"}, "number 1e999 is out of range"},
      {{x, "y: f32[r: R] = "}, "expected an expression but found the end of the line"},
      {{x, "output y"}, "unknown tensor 'y'"},
      {{x, "output x", "output x"}, "line 3, column 8: 'x' is an output already"},
      {{x, "update x = x"}, "'x' is no state"},
      {{x, "state s: f32", "update s = x"}, "'x' differs from 's' in type or shape"},
      {{"state s: f32", "update s = s", "update s = s"}, "'s' is updated already"},
      {{x, "y: f32[r: R] = " + std::string(1000, '(')}, "nested deeper than 256 levels"},
      {{x, "y: f32[r: R] = " + std::string(1000, '-') + "x[r, 0]"}, "nested deeper"},
  };
  for (const Case& c : cases) {
    INFO(c.lines.back().substr(0, 80));
    CHECK_THAT(ErrorOf(c.lines), Catch::Contains(c.message));
  }
  std::string chain = "y: f32[r: R] = x[r, 0]";
  for (int i = 0; i < 3000; ++i) chain += " + x[r, 1]";
  CHECK_THAT(ErrorOf({x, chain}), Catch::Contains("deeper than 1024"));
}

TEST_CASE("numbers beyond 64 bits are printed as they can be read") {
  // A double of 19 or 20 digits is shortest without an exponent.
  for (const char* number : {"9223372036854775808.0", "-18446744073709551616.0", "1e20", "1e300"}) {
    INFO(number);
    const auto graph = Parse({std::string("input x: f64 ~ constant(") + number + ")",
                              std::string("y: f64 = x[] + ") + number, "output y"},
                             {});
    REQUIRE(graph.ok());
    const auto again = Parse(Print(*graph), {});
    INFO(again.status().message());
    REQUIRE(again.ok());
    CHECK(again->tensors[0].distribution.low == graph->tensors[0].distribution.low);
    CHECK(Same(again->nodes[0].value, graph->nodes[0].value));
  }
}

TEST_CASE("extents do not wrap") {
  const auto error = [](const std::string& extent, const Dims& dims) {
    const auto graph = Parse({"input x: f32[" + extent + "]"}, dims);
    return graph.ok() ? "none" : std::string(graph.status().message());
  };
  const int64_t n = (int64_t{1} << 32) + 1;  // n * n is 2^33 + 1 modulo 2^64
  CHECK_THAT(error("N * N", {{"N", n}}), Catch::Contains("line 1, column 14: beyond 64 bits"));
  CHECK_THAT(error("N * N / N / N", {{"N", n}}), Catch::Contains("beyond 64 bits"));
  CHECK_THAT(error("-N - 2 + 8", {{"N", INT64_MAX}}), Catch::Contains("beyond 64 bits"));
  CHECK_THAT(error("select(true, 8, 9)", {}), Catch::Contains("not of numbers"));
  CHECK_THAT(error("8 / 0 * 0", {}), Catch::Contains("less than 1"));
  CHECK(error("(N - 3) / 2 + N % 4 - -1", {{"N", 9}}) == "none");
}

TEST_CASE("a text has limits") {
  CHECK_THAT(ErrorOf(Lines(kMaxLines + 1, "# nothing")), Catch::Contains("the limit is 16384"));
  CHECK(ErrorOf(Lines(kMaxLines, "# nothing")) == "none");
  CHECK_THAT(ErrorOf({std::string(kMaxLineBytes + 1, ' ')}), Catch::Contains("limit is 65536"));
  for (const char* bad : {"uniform(0, inf)", "normal(nan, 1)", "integers(-inf, 3)"}) {
    CHECK_THAT(ErrorOf({std::string("input z: f32 ~ ") + bad}), Catch::Contains("finite"));
  }
  CHECK(ErrorOf({"input z: f32 ~ constant(inf)"}) == "none");
}

TEST_CASE("random graphs round-trip through their text") {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    INFO("seed " << seed);
    const RandomGraphOptions options{.scans = seed % 2 == 1};
    const Graph graph = RandomGraph(seed, options);
    const Lines text = Print(graph);
    const auto again = Parse(text, {});
    INFO(again.status().message());
    REQUIRE(again.ok());
    CHECK(Print(*again) == text);
    REQUIRE(again->nodes.size() == graph.nodes.size());
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      CHECK(Same(again->nodes[n].value, graph.nodes[n].value));
      CHECK(again->nodes[n].scan == graph.nodes[n].scan);
    }
    CHECK(again->outputs == graph.outputs);
    CHECK(Print(RandomGraph(seed, options)) == text);
  }
}

}  // namespace
}  // namespace warpsmith::graph
