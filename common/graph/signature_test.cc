#include "common/graph/signature.h"

#include <catch2/catch.hpp>

namespace warpsmith::graph {
namespace {

std::string Of(const std::vector<std::string>& lines) {
  auto graph = Parse(lines, {});
  INFO(graph.status().ToString());
  REQUIRE(graph.ok());
  return Signature(*graph);
}

const std::vector<std::string> kSoftmax = {"input x: f32[4096, 2000] ~ normal",
                                           "m: f32[r: 4096] = max[c: 2000](x[r, c])",
                                           "e: f32[r: 4096, c: 2000] = exp(x[r, c] - m[r])",
                                           "s: f32[r: 4096] = sum[c: 2000](e[r, c])",
                                           "y: f32[r: 4096, c: 2000] = e[r, c] / s[r]",
                                           "output y"};

TEST_CASE("a signature names kinds, types, ranks and classes of sizes", "[graph]") {
  CHECK_THAT(Of(kSoftmax), Catch::StartsWith("in:f32[12,10] map:f32[12,10]*2 max:f32[12]/[10] "
                                             "sum:f32[12]/[10] #"));
  const std::pair<int64_t, const char*> sizes[] = {
      {1, "0"}, {2, "1+"}, {7, "2+"}, {8, "3"}, {4095, "11+"}, {4096, "12"}, {8184, "12"}};
  for (const auto& [size, name] : sizes) CHECK(SizeClass(size) == name);
}

TEST_CASE("signatures are the same for the same work, and for no other", "[graph]") {
  struct Case {
    const char* what;
    std::vector<std::string> a, b;
    bool same;
  };
  const std::vector<std::string> sum = {"input x: f32[64] ~ normal", "input w: f32[64] ~ normal",
                                        "y: f32[i: 64] = x[i] * w[i] + 1.5", "output y"};
  const Case cases[] = {
      {"other names of tensors and axes",
       kSoftmax,
       {"input a: f32[4096, 2000] ~ normal", "top: f32[i: 4096] = max[j: 2000](a[i, j])",
        "p: f32[i: 4096, j: 2000] = exp(a[i, j] - top[i])",
        "q: f32[i: 4096] = sum[j: 2000](p[i, j])", "z: f32[k: 4096, l: 2000] = p[k, l] / q[k]",
        "output z"},
       true},
      {"sizes of the same class",
       kSoftmax,
       {"input x: f32[5000, 1600] ~ normal", "m: f32[r: 5000] = max[c: 1600](x[r, c])",
        "e: f32[r: 5000, c: 1600] = exp(x[r, c] - m[r])", "s: f32[r: 5000] = sum[c: 1600](e[r, c])",
        "y: f32[r: 5000, c: 1600] = e[r, c] / s[r]", "output y"},
       true},
      {"lines in another order, operands exchanged, another constant",
       sum,
       {"input w: f32[64] ~ normal", "input x: f32[64] ~ normal",
        "y: f32[i: 64] = 2.5 + w[i] * x[i]", "output y"},
       true},
      {"a node that nothing needs",
       sum,
       {"input x: f32[64] ~ normal", "input w: f32[64] ~ normal", "u: f32[i: 64] = exp(x[i])",
        "y: f32[i: 64] = x[i] * w[i] + 1.5", "output y"},
       true},
      {"another type",
       sum,
       {"input x: bf16[64] ~ normal", "input w: bf16[64] ~ normal",
        "y: bf16[i: 64] = x[i] * w[i] + 1.5", "output y"},
       false},
      {"another operation",
       sum,
       {"input x: f32[64] ~ normal", "input w: f32[64] ~ normal",
        "y: f32[i: 64] = x[i] / w[i] + 1.5", "output y"},
       false},
      {"one tensor twice in place of two",
       sum,
       {"input x: f32[64] ~ normal", "input w: f32[64] ~ normal",
        "y: f32[i: 64] = x[i] * x[i] + 1.5", "v: f32[i: 64] = w[i] + 1.0", "output y", "output v"},
       false},
      {"another axis",
       {"input x: f32[64, 64] ~ normal", "y: f32[r: 64] = sum[c: 64](x[r, c])", "output y"},
       {"input x: f32[64, 64] ~ normal", "y: f32[r: 64] = sum[c: 64](x[c, r])", "output y"},
       false},
      {"another size",
       {"input x: f32[64] ~ normal", "y: f32[i: 64] = exp(x[i])", "output y"},
       {"input x: f32[128] ~ normal", "y: f32[i: 128] = exp(x[i])", "output y"},
       false},
      {"a scan the other way",
       {"input x: f32[8, 64] ~ normal", "y: f32[r: 8, c: 64] = cumsum[c](x[r, c])", "output y"},
       {"input x: f32[8, 64] ~ normal", "y: f32[r: 8, c: 64] = cumsum[c, reverse](x[r, c])",
        "output y"},
       false},
  };
  for (const Case& c : cases) {
    INFO(c.what << ":\n" << Of(c.a) << "\n" << Of(c.b));
    CHECK((Of(c.a) == Of(c.b)) == c.same);
  }
}

TEST_CASE("a large graph's signature is not longer than it may be", "[graph]") {
  std::vector<std::string> lines = {"input x: f32[64] ~ normal"};
  std::string last = "x";
  for (int i = 0; i < 300; ++i) {
    const std::string name = "t" + std::to_string(i);
    const std::string n = std::to_string((64 << (i % 12)) + i % 5);
    lines.push_back(name + ": f32[i: " + n + "] = exp(" + last + "[i % 64])");
    last = name;
  }
  lines.push_back("output " + last);
  const std::string signature = Of(lines);
  CHECK(signature.size() <= kMaxSignatureBytes);
  CHECK_THAT(signature, Catch::Contains(" ... #"));
}

}  // namespace
}  // namespace warpsmith::graph
