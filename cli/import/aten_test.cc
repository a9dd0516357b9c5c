// Every case of testdata/ (python/tests/make_dumps.py): a small module's dump, values for what it
// takes, and PyTorch's own answers on the processor.
#include "cli/import/aten.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/import/dump.h"
#include "cli/import/scans.h"
#include "common/graph/graph.h"
#include "worker/oracle/oracle.h"

namespace warpsmith::import {
namespace {

using nlohmann::json;

constexpr const char* kGroups[] = {"pointwise",    "views",  "indexing", "bytes",   "reductions",
                                   "scans",        "losses", "norms",    "pooling", "products",
                                   "convolutions", "random", "whole"};

std::vector<json> CasesIn(const std::string& path) {
  std::ifstream file(path);
  std::vector<json> cases;
  for (std::string line; std::getline(file, line);) cases.push_back(json::parse(line));
  return cases;
}

std::vector<json> CasesOf(const std::string& group) {
  return CasesIn(std::string(WARPSMITH_TESTDATA) + "/" + group + ".jsonl");
}

double NumberOf(const json& value) {
  if (!value.is_object()) return value.get<double>();
  const std::string name = value["number"];
  if (name == "nan") return std::numeric_limits<double>::quiet_NaN();
  return name == "inf" ? std::numeric_limits<double>::infinity()
                       : -std::numeric_limits<double>::infinity();
}

oracle::Values ValuesOf(const json& list) {
  oracle::Values values;
  for (const json& value : list) values.push_back(NumberOf(value));
  return values;
}

// How far beyond the tolerance, as a text; empty if within it.
std::string Difference(const oracle::Values& got, const oracle::Values& want, double tolerance) {
  if (got.size() != want.size()) {
    return std::to_string(got.size()) + " elements instead of " + std::to_string(want.size());
  }
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(got[i]) && std::isnan(want[i])) continue;
    if (got[i] == want[i]) continue;
    if (std::abs(got[i] - want[i]) <= tolerance * std::max(1.0, std::abs(want[i]))) continue;
    return "element " + std::to_string(i) + " is " + std::to_string(got[i]) + " instead of " +
           std::to_string(want[i]);
  }
  return "";
}

void CheckCase(const json& row) {
  INFO(row["name"].get<std::string>());
  const absl::StatusOr<Dump> dump = ParseDump(row["dump"].dump());
  REQUIRE(dump.status().message() == "");
  const absl::StatusOr<graph::Graph> graph = LowerAten(*dump);
  REQUIRE(graph.status().message() == "");
  // The text is what is stored: what it is read back as must be what was meant.
  const std::vector<std::string> text = graph::Print(*graph);
  std::string all;
  for (const std::string& line : text) all += line + "\n";
  INFO(all);
  const absl::StatusOr<graph::Graph> parsed = graph::Parse(text, {});
  REQUIRE(parsed.status().message() == "");
  CHECK(graph::Print(*parsed) == text);

  std::vector<oracle::Values> inputs;
  for (const json& value : row["values"]) inputs.push_back(ValuesOf(value));
  const auto answers = oracle::EvaluateOnHost(*parsed, inputs, /*round_to_type=*/true);
  REQUIRE(answers.status().message() == "");
  REQUIRE(answers->size() == row["answers"].size());
  for (size_t i = 0; i < answers->size(); ++i) {
    INFO("answer " << i);
    CHECK(Difference((*answers)[i], ValuesOf(row["answers"][i]), row["tolerance"]) == "");
  }
}

TEST_CASE("imported operators give PyTorch's answers", "[aten]") {
  for (const char* group : kGroups) {
    SECTION(group) {
      const std::vector<json> cases = CasesOf(group);
      REQUIRE(cases.size() > 5);
      for (const json& row : cases) CheckCase(row);
    }
  }
}

// Cases of a file that somebody names, e.g. python/tests/check_kernelbench.py.
TEST_CASE("cases of WARPSMITH_IMPORT_CASES", "[.cases]") {
  const char* path = std::getenv("WARPSMITH_IMPORT_CASES");
  REQUIRE(path != nullptr);
  const std::vector<json> cases = CasesIn(path);
  CHECK(!cases.empty());
  for (const json& row : cases) CheckCase(row);
}

json OneNode(const std::string& op, const json& args) {
  const json x = {{"shape", {2, 3}}, {"dtype", "f32"}};
  return {
      {"placeholders", {{{"name", "x"}, {"kind", "input"}, {"shape", {2, 3}}, {"dtype", "f32"}}}},
      {"nodes", {{{"name", "y"}, {"op", op}, {"args", args}, {"outputs", {x}}}}},
      {"outputs", {{{"node", "y"}}}},
      {"updates", json::array()}};
}

TEST_CASE("what cannot be had is named", "[aten]") {
  const json self = {{"node", "x"}};
  const auto refusal = [](const json& dump) {
    const auto parsed = ParseDump(dump.dump());
    return std::string(parsed.ok() ? LowerAten(*parsed).status().message()
                                   : parsed.status().message());
  };
  CHECK(refusal(OneNode("aten.nonzero.default", {{"self", self}})) ==
        "aten.nonzero.default is not supported");
  CHECK(refusal(OneNode("aten.relu.default", json::object())) ==
        "aten.relu.default: argument 'self' is missing");
  CHECK(refusal(OneNode("aten.relu.default", {{"self", {{"node", "nowhere"}}}})) ==
        "aten.relu.default: argument 'self' is no tensor: 'nowhere'");
  CHECK(refusal(OneNode("aten.flip.default", {{"self", self}, {"dims", 1.5}})) ==
        "aten.flip.default: argument 'dims' is 1.5");
  json complex = OneNode("aten.relu.default", {{"self", self}});
  complex["placeholders"][0]["dtype"] = "complex64";
  CHECK(refusal(complex) == "'x': tensors of type complex64 are not supported");
  const auto convolution = [](const char* type, std::vector<int> kernel, int stride, int dilation) {
    json row = OneNode("aten.convolution.default", {{"input", {{"node", "x"}}},
                                                    {"weight", {{"node", "x"}}},
                                                    {"bias", nullptr},
                                                    {"stride", {stride}},
                                                    {"padding", {0}},
                                                    {"dilation", {dilation}},
                                                    {"transposed", true},
                                                    {"groups", 1}});
    row["placeholders"][0]["dtype"] = row["nodes"][0]["outputs"][0]["dtype"] = type;
    row["placeholders"][0]["shape"] = row["nodes"][0]["outputs"][0]["shape"] = kernel;
    return row;
  };
  CHECK(refusal(convolution("i64", {2, 2, 3}, 1, 1)) ==
        "aten.convolution.default: integers are not supported");
  CHECK(
      refusal(convolution("f32", {2, 2, 7, 7, 7}, 7, 2)) ==
      "aten.convolution.default: a stride and a dilation of which more than 64 sums become is not "
      "supported");
  json backward = convolution("f32", {2, 2, 7, 7, 7}, 7, 2);
  json& node = backward["nodes"][0];
  node["op"] = "aten.convolution_backward.default";
  node["args"]["grad_output"] = {{"node", "x"}};
  node["args"]["transposed"] = false;
  node["args"]["output_mask"] = {true, false, false};
  CHECK(refusal(backward) ==
        "aten.convolution_backward.default: a stride and a dilation of which more than 64 sums "
        "become is not supported");
  CHECK(refusal(json::array()) == "the dump is not a JSON object");
}

TEST_CASE("scans that are written with other operators become one node", "[aten]") {
  struct Case {
    std::vector<std::string> lines;
    const char* folded;
  };
  const std::string x = "input x: f32[3, 8] ~ normal", zeros = "z: f32[i: 3, j: 1] = 0";
  const Case cases[] = {
      {{x, "f: f32[i: 3, j: 8] = x[i, 7 - j]", "c: f32[i: 3, j: 8] = cumsum[j](f[i, j])",
        "y: f32[i: 3, j: 8] = c[i, 7 - j]", "output y"},
       "y: f32[i: 3, j: 8] = cumsum[j, reverse](x[i, j])"},
      {{x, "c: f32[i: 3, j: 8] = cumprod[i, reverse](exp(x[2 - i, j]))",
        "y: f32[i: 3, j: 8] = c[2 - i, j]", "output y"},
       "y: f32[i: 3, j: 8] = cumprod[i](exp(x[i, j]))"},
      {{x, "n: f32[i: 3, j: 7] = x[i, j]", "c: f32[i: 3, j: 7] = cumsum[j](n[i, j])", zeros,
        "y: f32[i: 3, j: 8] = select(j < 1, z[i, j], c[i, j - 1])", "output y"},
       "y: f32[i: 3, j: 8] = cumsum[j, exclusive](x[i, j])"},
      // one longer than what there is to read
      {{x, "c: f32[i: 3, j: 8] = cumsum[j](x[i, j])",
        "y: f32[i: 3, j: 9] = select(j < 1, 0, c[i, j - 1])", "output y"},
       "y: f32[i: 3, j: 9] = cumsum[j, exclusive](select(j < 8, x[i, j], 0))"},
      // not the same: another axis, another shift, another first value
      {{x, "c: f32[i: 3, j: 8] = cumsum[j](x[i, j])", "y: f32[i: 3, j: 8] = c[2 - i, j]",
        "output y"},
       "y: f32[i: 3, j: 8] = c[2 - i, j]"},
      {{x, "c: f32[i: 3, j: 8] = cumsum[j](x[i, j])",
        "y: f32[i: 3, j: 7] = select(j < 1, 0, c[i, j - 1])", "output y"},
       "y: f32[i: 3, j: 7] = select(j < 1, 0, c[i, j - 1])"},
      {{x, "c: f32[i: 3, j: 7] = cumprod[j](x[i, j])",
        "y: f32[i: 3, j: 8] = select(j < 1, 0, c[i, j - 1])", "output y"},
       "y: f32[i: 3, j: 8] = select(j < 1, 0, c[i, j - 1])"},
  };
  for (const Case& c : cases) {
    INFO(c.folded);
    absl::StatusOr<graph::Graph> graph = graph::Parse(c.lines, {});
    REQUIRE(graph.status().message() == "");
    FoldScans(*graph);
    CHECK(graph::Validate(*graph).message() == "");
    const std::vector<std::string> text = graph::Print(graph::Prune(*graph));
    CHECK(text[text.size() - 2] == c.folded);
  }
}

TEST_CASE("nobody pays for an order of top-k that nobody sees", "[aten]") {
  int ordered = 0, free = 0;
  for (const json& row : CasesOf("indexing")) {
    const std::string name = row["name"];
    if (name.rfind("topk_", 0) != 0) continue;
    INFO(name);
    const absl::StatusOr<Dump> dump = ParseDump(row["dump"].dump());
    REQUIRE(dump.status().message() == "");
    const absl::StatusOr<graph::Graph> graph = LowerAten(*dump);
    REQUIRE(graph.status().message() == "");
    const bool wanted = name.rfind("topk_unsorted", 0) == 0;
    CHECK((graph->Find("topk.unsorted") >= 0) == wanted);
    ++(wanted ? ordered : free);
  }
  CHECK(ordered > 5);
  CHECK(free > 5);
}

TEST_CASE("testdata covers every operator", "[aten]") {
  std::set<std::string> seen;
  for (const char* group : kGroups) {
    for (const json& row : CasesOf(group)) {
      for (const json& node : row["dump"]["nodes"]) seen.insert(node["op"]);
    }
  }
  std::string unseen;
  for (const std::string& op : SupportedOperators()) {
    if (seen.count(op) == 0) unseen += op + " ";
  }
  CHECK(unseen == "");
}

}  // namespace
}  // namespace warpsmith::import
