// Needs an interpreter with PyTorch, named by WARPSMITH_PYTHON; without one the cases that need it
// say so and pass.
#include "worker/oracle/torch_oracle.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "common/base/file.h"
#include "common/graph/graph.h"
#include "common/graph/numeric.h"
#include "common/problem/problem.h"
#include "worker/oracle/baseline_cache.h"
#include "worker/oracle/errors.h"

namespace warpsmith::oracle {
namespace {

constexpr const char* kSource = R"(
import torch, torch.nn as nn

class Model(nn.Module):
    def __init__(self, channels, factor=1.0):
        super().__init__()
        self.bn = nn.BatchNorm1d(channels)
        self.factor = factor
        print("modules may print")

    def forward(self, x, s, labels):
        return self.bn(x) * self.factor * s, labels + 1

def get_inputs():
    return [torch.rand(6, 4), 0.5, torch.randint(0, 9, (6,))]

def get_init_inputs():
    return [[4], {"factor": 2.0}]
)";

v1::Problem BatchNormProblem() {
  v1::Problem problem;
  problem.set_name("batch_norm");
  problem.mutable_torch()->set_source(kSource);
  for (const char* line :
       {"input x: f32[6, 4] ~ uniform(0, 1)", "input labels: i64[6] ~ integers(0, 9)",
        "param bn.weight: f32[4] ~ constant(1)", "param bn.bias: f32[4] ~ constant(0)",
        "state bn.running_mean: f32[4] ~ constant(0)",
        "state bn.num_batches_tracked: i64 ~ constant(0)", "sum: f32[c: 4] = sum[r: 6](x[r, c])",
        "mean: f32[c: 4] = sum[c] / 6",
        "squares: f32[c: 4] = sum[r: 6]((x[r, c] - mean[c]) * (x[r, c] - mean[c]))",
        "y: f32[r: 6, c: 4] = ((x[r, c] - mean[c]) * rsqrt(squares[c] / 6 + 1e-05) * bn.weight[c] "
        "+ "
        "bn.bias[c])",
        "next: i64[r: 6] = labels[r] + 1",
        "new_mean: f32[c: 4] = 0.1 * mean[c] + 0.9 * bn.running_mean[c]",
        "count: i64 = bn.num_batches_tracked[] + 1", "output y", "output next",
        "update bn.running_mean = new_mean", "update bn.num_batches_tracked = count"}) {
    problem.add_graph(line);
  }
  problem.add_workloads()->set_name("default");
  return problem;
}

graph::Graph GraphOf(const v1::Problem& problem) {
  auto graph = graph::Parse({problem.graph().begin(), problem.graph().end()}, {});
  INFO(graph.status().message());
  REQUIRE(graph.ok());
  return *std::move(graph);
}

TorchOracleOptions OptionsFor(const std::string& cache_dir = "") {
  TorchOracleOptions options;
  const char* python = std::getenv("WARPSMITH_PYTHON");
  options.python = python == nullptr ? "" : python;
  options.python_path = WARPSMITH_PYTHON_PATH;
  options.device = "cpu";
  options.cache_dir = cache_dir;
  options.baselines = {"eager"};
  options.clock = "none, on the processor";
  return options;
}

bool NoPython(const TorchOracleOptions& options) {
  if (!options.python.empty()) return false;
  WARN("WARPSMITH_PYTHON names no interpreter with PyTorch: not tested");
  return true;
}

template <class T>
std::vector<T> Read(device::Device& device, const device::Memory& memory) {
  std::vector<T> values(memory.bytes() / sizeof(T));
  REQUIRE(device.Read(memory, values.data(), memory.bytes()).ok());
  return values;
}

// What the graph gives for a case's inputs.
std::vector<Values> Evaluated(device::Device& device, const graph::Graph& graph,
                              const Case& drawn) {
  std::vector<Values> inputs;
  size_t next = 0;
  for (const graph::Tensor& tensor : graph.tensors) {
    if (tensor.role == graph::Role::kIntermediate) continue;
    const device::Memory& memory = *drawn.inputs[next++];
    Values values;
    if (tensor.type == graph::DType::kI64) {
      for (int64_t v : Read<int64_t>(device, memory)) values.push_back(static_cast<double>(v));
    } else {
      for (float v : Read<float>(device, memory)) values.push_back(v);
    }
    inputs.push_back(std::move(values));
  }
  auto answers = EvaluateOnHost(graph, inputs, /*round_to_type=*/false);
  REQUIRE(answers.ok());
  return *std::move(answers);
}

TEST_CASE("each workload of a module is served, one after the other by one child", "[torch]") {
  TorchOracleOptions options = OptionsFor();
  if (NoPython(options)) return;
  v1::Problem problem;
  problem.set_name("scaled");
  for (int place : {0, 0}) problem.mutable_torch()->add_outputs(place);  // one tensor, twice
  problem.mutable_torch()->set_source(
      "import torch\nWORKLOADS = {'a': {'R': 3, 'C': 2}, 'b': {'R': 7, 'C': 5}}\n"
      "class Model(torch.nn.Module):\n"
      "    def __init__(self, C):\n        super().__init__()\n"
      "        self.w = torch.nn.Parameter(torch.randn(C))\n"
      "    def forward(self, x):\n        y = x * self.w\n        return y, y\n"
      "def get_inputs(R, C):\n    return [torch.randn(R, C)]\n"
      "def get_init_inputs(R, C):\n    return [C]\n");
  for (const char* line : {"input x: f32[R, C] ~ normal", "param w: f32[C] ~ normal",
                           "y: f32[r: R, c: C] = x[r, c] * w[c]", "output y"}) {
    problem.add_graph(line);
  }
  const graph::Dims dims[] = {{{"R", 3}, {"C", 2}}, {{"R", 7}, {"C", 5}}};
  for (int w = 0; w < 2; ++w) {
    v1::Workload& workload = *problem.add_workloads();
    workload.set_name(w == 0 ? "a" : "b");
    workload.mutable_dims()->insert(dims[w].begin(), dims[w].end());
  }
  auto device = device::MakeDevice("host").value();
  options.child = StartTorch(options).value();
  std::vector<graph::Graph> graphs;
  std::vector<std::unique_ptr<Oracle>> oracles;
  for (int w = 0; w < 2; ++w) {
    graphs.push_back(
        graph::Parse({problem.graph().begin(), problem.graph().end()}, dims[w]).value());
    options.workload = problem.workloads(w).name();
    auto made = MakeTorchOracle(options, problem, graphs[w]);
    REQUIRE(made.status().message() == "");
    oracles.push_back(*std::move(made));
  }
  for (int w : {0, 1, 0}) {
    auto drawn = oracles[w]->Draw(*device, 5, Variation::kNone);
    REQUIRE(drawn.status().message() == "");
    const std::vector<float> y = Read<float>(*device, *drawn->answers[0]);
    const std::vector<Values> expected = Evaluated(*device, graphs[w], *drawn);
    REQUIRE(y.size() == expected[0].size());
    for (size_t i = 0; i < y.size(); ++i) CHECK(std::fabs(y[i] - expected[0][i]) < 1e-6);
  }
  options.workload = "c";
  CHECK_THAT(std::string(MakeTorchOracle(options, problem, graphs[0]).status().message()),
             Catch::Contains("no workload 'c'; it has a, b"));
}

TEST_CASE("tensors are handed over as they lie in memory", "[torch]") {
  TorchOracleOptions options = OptionsFor();
  if (NoPython(options)) return;
  v1::Problem problem;
  problem.set_name("transposed");
  problem.mutable_torch()->set_source(
      "import torch\nclass Model(torch.nn.Module):\n"
      "    def forward(self, x):\n"
      "        y = x.transpose(1, 2) * 3\n        return y, x.sum(), y\n"
      "def get_inputs():\n    return [torch.randn(2, 3, 5)]\n");
  for (const char* line :
       {"input x: f32[2, 3, 5] ~ normal", "y: f32[n: 2, c: 3, p: 5] = x[n, c, p] * 3.0",
        "s: f32 = sum[n: 2, c: 3, p: 5](x[n, c, p])", "output y", "output s"}) {
    problem.add_graph(line);
  }
  for (int place : {0, 1, 0}) problem.mutable_torch()->add_outputs(place);
  for (int axis : {0, 2, 1}) {
    if (axis == 0) problem.mutable_torch()->add_orders();
    problem.mutable_torch()->mutable_orders(0)->add_axes(axis);
  }
  problem.mutable_torch()->add_orders();
  problem.add_workloads()->set_name("default");
  REQUIRE(problem::Validate(problem).message() == "");
  const graph::Graph graph = GraphOf(problem);
  auto device = device::MakeDevice("host").value();
  options.child = StartTorch(options).value();
  auto oracle = MakeTorchOracle(options, problem, graph);
  REQUIRE(oracle.status().message() == "");
  auto drawn = (*oracle)->Draw(*device, 5, Variation::kNone);
  REQUIRE(drawn.status().message() == "");
  const std::vector<float> y = Read<float>(*device, *drawn->answers[0]);
  const std::vector<Values> expected = Evaluated(*device, graph, *drawn);
  REQUIRE(y.size() == expected[0].size());
  for (size_t i = 0; i < y.size(); ++i) CHECK(std::fabs(y[i] - expected[0][i]) < 1e-6);
  REQUIRE(drawn->exact[0].size() == y.size());
  CHECK(ErrorsOf(graph::DType::kF32, expected[0], drawn->exact[0]).max < 1e-6);
  const auto timed = (*oracle)->TimeBaselines(*device);
  REQUIRE(timed.status().message() == "");
  CHECK(timed->baselines(0).accurate());

  // What the module gives must have such axes.
  problem.mutable_torch()->mutable_orders(0)->add_axes(3);
  auto other = MakeTorchOracle(options, problem, graph);
  REQUIRE(other.status().message() == "");
  CHECK_THAT(std::string((*other)->Draw(*device, 5, Variation::kNone).status().message()),
             Catch::Contains("output 0 has 3 axes, and the problem says 4"));
}

TEST_CASE("an input that forward changes is handed over as it was, and as it becomes", "[torch]") {
  TorchOracleOptions options = OptionsFor();
  if (NoPython(options)) return;
  v1::Problem problem;
  problem.set_name("accumulates");
  // The same tensors each time: what forward does to them must not stay.
  problem.mutable_torch()->set_source(
      "import torch\nclass Model(torch.nn.Module):\n"
      "    def __init__(self):\n        super().__init__()\n"
      "        self.w = torch.nn.Parameter(torch.ones(3))\n"
      "    def forward(self, n, total, x):\n"
      "        n += 1\n        total.add_(x * self.w)\n        return total, total * 2\n"
      "SAME = [torch.zeros(2, dtype=torch.int64), torch.ones(2, 3), torch.full((2, 3), 0.1)]\n"
      "def get_inputs():\n    return SAME\n");
  for (const char* line :
       {"inout n: i64[2] ~ integers(0, 2)", "inout total: f32[2, 3] ~ normal",
        "input x: f32[2, 3] ~ normal", "param w: f32[3] ~ normal", "more: i64[r: 2] = n[r] + 1",
        "sum: f32[r: 2, c: 3] = total[r, c] + x[r, c] * w[c]",
        "y: f32[r: 2, c: 3] = sum[r, c] * 2.0", "output y", "update n = more",
        "update total = sum"}) {
    problem.add_graph(line);
  }
  for (int place : {2, 0}) problem.mutable_torch()->add_outputs(place);
  problem.add_workloads()->set_name("default");
  REQUIRE(problem::Validate(problem).message() == "");
  const graph::Graph graph = GraphOf(problem);
  auto device = device::MakeDevice("host").value();
  options.child = StartTorch(options).value();
  auto oracle = MakeTorchOracle(options, problem, graph);
  REQUIRE(oracle.status().message() == "");
  for (int draw = 0; draw < 2; ++draw) {
    auto drawn = (*oracle)->Draw(*device, 5 + draw, Variation::kNone);
    REQUIRE(drawn.status().message() == "");
    CHECK(Read<int64_t>(*device, *drawn->inputs[0]) == std::vector<int64_t>(2, 0));
    CHECK(Read<float>(*device, *drawn->inputs[1]) == std::vector<float>(6, 1));
    REQUIRE(drawn->answers.size() == 3);
    CHECK(Read<float>(*device, *drawn->answers[0]) == std::vector<float>(6, 2.2f));
    CHECK(Read<int64_t>(*device, *drawn->answers[1]) == std::vector<int64_t>(2, 1));
    CHECK(Read<float>(*device, *drawn->answers[2]) == std::vector<float>(6, 1.1f));
    for (const int answer : {0, 2}) {
      REQUIRE(drawn->exact[answer].size() == 6);
      const double want = (answer == 0 ? 2 : 1) * (1 + static_cast<double>(0.1f));
      for (const double value : drawn->exact[answer]) CHECK(value == Approx(want).epsilon(1e-12));
    }
  }
  // It is one of forward's own numbers, and varied as those are.
  auto tripled = (*oracle)->Draw(*device, 5, Variation::kTimes3);
  REQUIRE(tripled.status().message() == "");
  CHECK(Read<float>(*device, *tripled->inputs[1]) == std::vector<float>(6, 3));
  const auto timed = (*oracle)->TimeBaselines(*device);
  REQUIRE(timed.status().message() == "");
  CHECK(timed->baselines(0).accurate());
}

TEST_CASE("eight-bit floats are handed over as their bits", "[torch]") {
  TorchOracleOptions options = OptionsFor();
  if (NoPython(options)) return;
  v1::Problem problem;
  problem.set_name("eight_bits");
  problem.mutable_torch()->set_source(
      "import torch\nclass Model(torch.nn.Module):\n"
      "    def __init__(self):\n        super().__init__()\n"
      "        self.register_buffer('g', torch.arange(-5.0, 251.0).to(torch.float8_e4m3fn))\n"
      "    def forward(self, x, s):\n"
      "        return x.float() * s + self.g.float()\n"
      "def get_inputs():\n"
      "    bits = torch.arange(256, dtype=torch.uint8)\n"
      "    return [bits.view(torch.float8_e4m3fn), torch.rand(256)]\n");
  for (const char* line :
       {"input x: u8[256] ~ integers(0, 127)", "input s: f32[256] ~ uniform(0, 1)",
        "param g: u8[256] ~ integers(0, 127)",
        "y: f32[i: 256] = e4m3_of_bits(f32(x[i])) * s[i] + e4m3_of_bits(f32(g[i]))", "output y"}) {
    problem.add_graph(line);
  }
  problem.add_workloads()->set_name("default");
  const graph::Graph graph = GraphOf(problem);
  auto device = device::MakeDevice("host").value();
  options.child = StartTorch(options).value();
  auto oracle = MakeTorchOracle(options, problem, graph);
  REQUIRE(oracle.status().message() == "");
  for (Variation variation : {Variation::kNone, Variation::kTimes3, Variation::kNewWeights}) {
    auto drawn = (*oracle)->Draw(*device, 5, variation);
    REQUIRE(drawn.status().message() == "");
    std::vector<Values> inputs(3);
    for (const int i : {0, 2}) {
      for (uint8_t byte : Read<uint8_t>(*device, *drawn->inputs[i])) inputs[i].push_back(byte);
    }
    for (float value : Read<float>(*device, *drawn->inputs[1])) inputs[1].push_back(value);
    // Every number of the type, and what is none.
    for (int i = 0; i < 256; ++i) CHECK(inputs[0][i] == i);
    const auto expected = EvaluateOnHost(graph, inputs, /*round_to_type=*/false);
    REQUIRE(expected.ok());
    const std::vector<float> y = Read<float>(*device, *drawn->answers[0]);
    for (int i = 0; i < 256; ++i) {
      INFO(i);
      CHECK(std::isnan(y[i]) == (i % 128 == 127));
      if (i % 128 != 127) CHECK(std::fabs(y[i] - (*expected)[0][i]) < 1e-4);
    }
  }
  const auto timed = (*oracle)->TimeBaselines(*device);
  REQUIRE(timed.status().message() == "");
}

TEST_CASE("what a module draws at random is made of seeds that are given", "[torch]") {
  TorchOracleOptions options = OptionsFor();
  if (NoPython(options)) return;
  v1::Problem problem;
  problem.set_name("dropout");
  problem.mutable_torch()->set_source(
      "import torch, torch.nn as nn\nclass Model(nn.Module):\n"
      "    def __init__(self):\n        super().__init__()\n"
      "        self.first, self.second = nn.Dropout(0.25), nn.Dropout(0.5)\n"
      "    def forward(self, x):\n"
      "        return self.second(self.first(x) + 1) + torch.rand_like(x)\n"
      "def get_inputs():\n    return [torch.rand(64, 33)]\n");
  problem.mutable_torch()->set_seeds("seeds");
  for (const char* line :
       {"input x: f32[64, 33] ~ uniform(0, 1)",
        "input seeds: i64[3] ~ integers(0, 9007199254740992)",
        "a: f32[i: 64, j: 33] = x[i, j] * f32(4194304 <= random(seeds[0], i * 33 + j)) * 1.3333334",
        "b: f32[i: 64, j: 33] = (a[i, j] + 1) * f32(8388608 <= random(seeds[1], i * 33 + j)) * 2",
        "y: f32[i: 64, j: 33] = b[i, j] + f32(random(seeds[2], i * 33 + j)) * 5.9604645e-08",
        "output y"}) {
    problem.add_graph(line);
  }
  problem.add_workloads()->set_name("default");
  const graph::Graph graph = GraphOf(problem);
  auto device = device::MakeDevice("host").value();
  options.child = StartTorch(options).value();
  auto oracle = MakeTorchOracle(options, problem, graph);
  REQUIRE(oracle.status().message() == "");
  std::vector<int64_t> first;
  for (const uint64_t seed : {5, 6, 5}) {
    auto drawn = (*oracle)->Draw(*device, seed, Variation::kTimes3);
    REQUIRE(drawn.status().message() == "");
    REQUIRE(drawn->inputs.size() == 2);
    const std::vector<int64_t> seeds = Read<int64_t>(*device, *drawn->inputs[1]);
    if (first.empty()) first = seeds;
    CHECK((seeds == first) == (seed == 5));  // each draw of a case has its own
    const std::vector<Values> answers = Evaluated(*device, graph, *drawn);
    const std::vector<float> y = Read<float>(*device, *drawn->answers[0]);
    for (size_t i = 0; i < y.size(); ++i) REQUIRE(std::abs(y[i] - answers[0][i]) < 1e-5);
    CHECK(drawn->exact[0].size() == y.size());
    for (size_t i = 0; i < y.size(); ++i)
      REQUIRE(std::abs(drawn->exact[0][i] - answers[0][i]) < 1e-5);
  }
  CHECK((*oracle)->TimeBaselines(*device).status().message() == "");

  // Of a draw that the problem says nothing of, the number of draws is wrong.
  v1::Problem fewer = problem;
  fewer.clear_graph();
  for (const char* line :
       {"input x: f32[64, 33] ~ uniform(0, 1)",
        "input seeds: i64[2] ~ integers(0, 9007199254740992)",
        "y: f32[i: 64, j: 33] = x[i, j] * f32(random(seeds[0], i) + random(seeds[1], j))",
        "output y"}) {
    fewer.add_graph(line);
  }
  auto other = MakeTorchOracle(options, fewer, GraphOf(fewer));
  REQUIRE(other.status().message() == "");
  CHECK((*other)
            ->Draw(*device, 1, Variation::kNone)
            .status()
            .message()
            .find("draws at random more often than the problem says: 2") != std::string::npos);
}

TEST_CASE("parts of a tensor are asked for as that tensor", "[torch]") {
  TorchOracleOptions options = OptionsFor();
  if (NoPython(options)) return;
  v1::Problem problem;
  problem.set_name("parts");
  problem.mutable_torch()->set_source(
      "import torch\nclass Model(torch.nn.Module):\n"
      "    def forward(self, x):\n"
      "        y = x * 3\n        return y[:, 4:], x.sum(), y[:, :4]\n"
      "def get_inputs():\n    return [torch.randn(6, 5)]\n");
  for (const char* line : {"input x: f32[6, 5] ~ normal", "y: f32[n: 6, c: 5] = x[n, c] * 3.0",
                           "s: f32 = sum[n: 6, c: 5](x[n, c])", "output y", "output s"}) {
    problem.add_graph(line);
  }
  for (int place : {0, 1, 0}) {
    problem.mutable_torch()->add_outputs(place);
    v1::View& view = *problem.mutable_torch()->add_views();
    if (place == 1) continue;
    const bool first = problem.torch().views_size() == 1;
    for (int64_t size : {6, first ? 1 : 4}) view.add_sizes(size);
    for (int64_t stride : {5, 1}) view.add_strides(stride);
    view.set_offset(first ? 4 : 0);
  }
  problem.add_workloads()->set_name("default");
  REQUIRE(problem::Validate(problem).message() == "");
  const graph::Graph graph = GraphOf(problem);
  auto device = device::MakeDevice("host").value();
  options.child = StartTorch(options).value();
  auto oracle = MakeTorchOracle(options, problem, graph);
  REQUIRE(oracle.status().message() == "");
  auto drawn = (*oracle)->Draw(*device, 5, Variation::kNone);
  REQUIRE(drawn.status().message() == "");
  const std::vector<float> y = Read<float>(*device, *drawn->answers[0]);
  const std::vector<Values> expected = Evaluated(*device, graph, *drawn);
  REQUIRE(y.size() == 30);
  for (size_t i = 0; i < y.size(); ++i) CHECK(std::fabs(y[i] - expected[0][i]) < 1e-6);
  CHECK(ErrorsOf(graph::DType::kF32, expected[0], drawn->exact[0]).max < 1e-6);
  const auto timed = (*oracle)->TimeBaselines(*device);
  REQUIRE(timed.status().message() == "");
  CHECK(timed->baselines(0).accurate());
}

TEST_CASE("what is exact is rounded nowhere, whatever the module casts to", "[torch]") {
  TorchOracleOptions options = OptionsFor();
  if (NoPython(options)) return;
  v1::Problem problem;
  problem.set_name("narrow");
  problem.mutable_torch()->set_source(
      "import torch\nclass Model(torch.nn.Module):\n"
      "    def forward(self, x):\n"
      "        h = (x.half() / 3).to(torch.bfloat16).float()\n"
      "        return h + torch.full((8,), 0.1, dtype=torch.float16) + torch.finfo(x.dtype).tiny\n"
      "def get_inputs():\n    return [torch.randn(8)]\n");
  const graph::Graph graph =
      graph::Parse({"input x: f32[8] ~ normal", "y: f32[i: 8] = x[i] / 3 + 0.1", "output y"}, {})
          .value();
  options.child = StartTorch(options).value();
  auto oracle = MakeTorchOracle(options, problem, graph);
  REQUIRE(oracle.status().message() == "");
  auto device = device::MakeDevice("host").value();
  auto drawn = (*oracle)->Draw(*device, 5, Variation::kNone);
  REQUIRE(drawn.status().message() == "");
  const std::vector<float> x = Read<float>(*device, *drawn->inputs[0]);
  REQUIRE(drawn->exact[0].size() == x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    CHECK(std::fabs(drawn->exact[0][i] - (static_cast<double>(x[i]) / 3 + 0.1)) < 1e-15);
  }
}

TEST_CASE("on other inputs what is far off is found wherever it is", "[torch]") {
  TorchOracleOptions options = OptionsFor();
  if (NoPython(options)) return;
  constexpr int kElements = 200000, kPlace = 77777;  // of more than a sample has
  v1::Problem problem;
  problem.set_name("one_place");
  problem.mutable_torch()->set_source(
      absl::StrCat("import torch\nclass Model(torch.nn.Module):\n    def forward(self, x):\n"
                   "        at = torch.arange(",
                   kElements, ") == ", kPlace,
                   "\n        return torch.where(at, x.half().float(), x), x.half().double()\n"
                   "def get_inputs():\n    return [torch.rand(",
                   kElements, ") + 1.0002]\n"));
  const std::string n = absl::StrCat("[i: ", kElements, "]");
  const graph::Graph graph =
      graph::Parse({absl::StrCat("input x: f32[", kElements, "] ~ normal"),
                    absl::StrCat("y: f32", n, " = x[i]"), absl::StrCat("z: f64", n, " = f64(x[i])"),
                    "output y", "output z"},
                   {})
          .value();
  options.child = StartTorch(options).value();
  auto oracle = MakeTorchOracle(options, problem, graph);
  REQUIRE(oracle.status().message() == "");
  auto device = device::MakeDevice("host").value();
  for (const Variation variation : {Variation::kNone, Variation::kTimes3, Variation::kNegated}) {
    auto drawn = (*oracle)->Draw(*device, 5, variation);
    REQUIRE(drawn.status().message() == "");
    REQUIRE(drawn->farthest.size() == 2);
    CHECK(drawn->farthest[1] == 0);  // nobody is more exact
    if (variation == Variation::kNone) {
      CHECK(drawn->farthest[0] == 0);
      continue;
    }
    const double x = Read<float>(*device, *drawn->inputs[0])[kPlace];
    const double off = std::fabs(graph::RoundTo(graph::DType::kF16, x) - x);
    CHECK(off > 0);
    CHECK(drawn->farthest[0] == Approx(off / drawn->rms[0]).epsilon(1e-3));
  }
}

TEST_CASE("draws are those of the module, and answered by it", "[torch]") {
  const TorchOracleOptions options = OptionsFor();
  if (NoPython(options)) return;
  const v1::Problem problem = BatchNormProblem();
  const graph::Graph graph = GraphOf(problem);
  auto device = device::MakeDevice("host").value();
  auto made = MakeTorchOracle(options, problem, graph);
  REQUIRE(made.status().message() == "");
  Oracle& oracle = **made;
  CHECK(oracle.name().substr(0, 8) == "torch 2.");
  CHECK(oracle.WorkingBytes() > 0);

  std::vector<float> plain;
  for (Variation variation : {Variation::kNone, Variation::kTimes3, Variation::kTimes001,
                              Variation::kNegated, Variation::kDense, Variation::kWide,
                              Variation::kNewWeights, Variation::kTies, Variation::kNone}) {
    INFO("variation " << static_cast<int>(variation));
    auto drawn = oracle.Draw(*device, 12, variation);
    REQUIRE(drawn.status().message() == "");
    REQUIRE(drawn->inputs.size() == 6);
    REQUIRE(drawn->answers.size() == 4);
    const auto x = Read<float>(*device, *drawn->inputs[0]);
    if (variation == Variation::kNone && plain.empty()) plain = x;
    const float scale = variation == Variation::kTimes3     ? 3
                        : variation == Variation::kTimes001 ? 0.01f
                        : variation == Variation::kNegated  ? -1
                                                            : 1;
    const bool other = variation == Variation::kDense || variation == Variation::kWide ||
                       variation == Variation::kTies;
    const bool same_shape = !other && variation != Variation::kNewWeights;
    if (same_shape) CHECK(x[5] == scale * plain[5]);
    if (other) CHECK(x[5] != plain[5]);
    const auto weight = Read<float>(*device, *drawn->inputs[2]);
    const auto running = Read<float>(*device, *drawn->inputs[4]);
    // A draw leaves the module as it was: other weights and states are only this draw's.
    CHECK((weight[0] != 1) == (variation == Variation::kNewWeights));
    CHECK((running[0] != 0) == (variation == Variation::kNewWeights));

    // The exact values are the graph's own, evaluated here, as far as the module's factor goes: it
    // multiplies by 2 and by a half.
    const std::vector<Values> answers = Evaluated(*device, graph, *drawn);
    REQUIRE(drawn->sample.size() == 4);
    CHECK(drawn->sample[0].size() == 24);
    CHECK(drawn->exact[0].size() == 24);
    CHECK(drawn->exact[1].empty());
    CHECK(ErrorsOf(graph::DType::kF32, answers[0], drawn->exact[0]).max < 1e-6);
    CHECK(ErrorsOf(graph::DType::kF32, answers[2], drawn->exact[2]).max < 1e-6);
    CHECK(drawn->whole.max < 1e-4);
    CHECK(drawn->whole.max >= drawn->whole.rms);
    const auto labels = Read<int64_t>(*device, *drawn->inputs[1]);
    CHECK(Read<int64_t>(*device, *drawn->answers[1])[3] == labels[3] + 1);
    CHECK(Read<int64_t>(*device, *drawn->answers[3])[0] == 1);
  }
}

TEST_CASE("baselines are measured once", "[torch]") {
  const std::string folder =
      std::filesystem::temp_directory_path() / ("warpsmith_torch_test_" + std::to_string(getpid()));
  const TorchOracleOptions options = OptionsFor(folder);
  if (NoPython(options)) return;
  const v1::Problem problem = BatchNormProblem();
  auto device = device::MakeDevice("host").value();
  auto oracle = MakeTorchOracle(options, problem, GraphOf(problem));
  REQUIRE(oracle.status().message() == "");
  const auto first = (*oracle)->TimeBaselines(*device);
  REQUIRE(first.status().message() == "");
  REQUIRE(first->baselines_size() == 1);
  CHECK(first->baselines(0).name() == "eager");
  CHECK(first->baselines(0).accurate());
  CHECK(first->baselines(0).times().call_us() > 0);
  CHECK(first->baselines(0).times().graph_us() == 0);  // there are none on the processor
  CHECK_FALSE(first->from_cache());
  const auto again = (*oracle)->TimeBaselines(*device);
  REQUIRE(again.ok());
  CHECK(again->from_cache());
  CHECK(again->baselines(0).times().call_us() == first->baselines(0).times().call_us());
  // What was asked for is a part of the key.
  v1::Problem more = problem;
  more.mutable_torch()->add_baselines("eager");
  more.mutable_torch()->add_baselines("graph");
  auto asked = MakeTorchOracle(options, more, GraphOf(more));
  REQUIRE(asked.ok());
  const auto other = (*asked)->TimeBaselines(*device);
  REQUIRE(other.status().message() == "");
  CHECK_FALSE(other->from_cache());
  std::filesystem::remove_all(folder);
}

TEST_CASE("a baseline that cannot be timed is named with the reason, and tried again", "[torch]") {
  const std::string folder =
      std::filesystem::temp_directory_path() / ("warpsmith_torch_test_" + std::to_string(getpid()));
  TorchOracleOptions options = OptionsFor(folder);
  if (NoPython(options)) return;
  options.baselines = {"compile", "max"};
  v1::Problem problem = BatchNormProblem();
  problem.mutable_torch()->set_source(problem.torch().source() + R"(
def refuse(*arguments, **options):
    raise RuntimeError("no compiler here")
torch.compile = refuse
)");
  auto device = device::MakeDevice("host").value();
  auto oracle = MakeTorchOracle(options, problem, GraphOf(problem));
  REQUIRE(oracle.status().message() == "");
  for (int i = 0; i < 2; ++i) {
    const auto report = (*oracle)->TimeBaselines(*device);
    REQUIRE(report.status().message() == "");
    CHECK(report->baselines_size() == 1);
    CHECK(report->missing().at("compile") == "no compiler here");
    CHECK(report->missing().at("max") == "no compiler here");
    CHECK_FALSE(report->from_cache());
  }
  std::filesystem::remove_all(folder);
}

TEST_CASE("one child serves several problems and comes back", "[torch]") {
  TorchOracleOptions options = OptionsFor();
  if (NoPython(options)) return;
  auto child = StartTorch(options);
  REQUIRE(child.status().message() == "");
  options.child = *child;
  CHECK(InfoOf(**child).version.substr(0, 2) == "2.");
  auto device = device::MakeDevice("host").value();
  v1::Problem problem = BatchNormProblem();
  auto one = MakeTorchOracle(options, problem, GraphOf(problem));
  REQUIRE(one.ok());
  // Another problem in the same child; then a module that ends the process.
  v1::Problem fatal = problem;
  std::string source = kSource;
  source.insert(source.find("    return [torch.rand"), "    import os; os._exit(3)\n");
  fatal.mutable_torch()->set_source(source);
  auto two = MakeTorchOracle(options, fatal, GraphOf(fatal));
  REQUIRE(two.ok());
  CHECK((*two)->Draw(*device, 1, Variation::kNone).status().code() ==
        absl::StatusCode::kUnavailable);
  CHECK((*one)->Draw(*device, 1, Variation::kNone).status().message() == "");
}

TEST_CASE("a module that is not the graph is refused", "[torch]") {
  TorchOracleOptions options = OptionsFor();
  if (NoPython(options)) return;
  auto child = StartTorch(options);
  REQUIRE(child.ok());
  options.child = *child;
  auto device = device::MakeDevice("host").value();
  v1::Problem problem = BatchNormProblem();
  problem.clear_torch();
  CHECK(MakeTorchOracle(options, problem, GraphOf(problem)).status().code() ==
        absl::StatusCode::kInvalidArgument);
  problem = BatchNormProblem();
  problem.set_graph(2, "param bn.weight: f32[4, 1] ~ constant(1)");
  problem.set_graph(9, "y: f32[r: 6, c: 4] = x[r, c] * bn.weight[c, 0]");
  const auto other_shape = MakeTorchOracle(options, problem, GraphOf(problem)).status();
  CHECK(other_shape.code() == absl::StatusCode::kInvalidArgument);
  CHECK(other_shape.message().find("'bn.weight' is torch.float32 [4]") != std::string::npos);
  problem = BatchNormProblem();
  const std::pair<const char*, const char*> broken[] = {
      {"raise RuntimeError('broken')", "RuntimeError: broken"},
      {"raise RuntimeError('\\n\\n  broken\\nin two')", "RuntimeError: broken"},
      {"raise RuntimeError()", "RuntimeError: it says no more"},
      {"import sys; sys.exit(3)", "SystemExit: 3"},
      {"input()", "EOFError: EOF when reading a line"},  // not the next request
  };
  for (const auto& [source, message] : broken) {
    problem.mutable_torch()->set_source(source);
    CHECK(MakeTorchOracle(options, problem, GraphOf(problem)).status().message() ==
          std::string("PyTorch oracle, load: ") + message);
  }
}

TEST_CASE("a parameter that modules share has each of its names", "[torch]") {
  TorchOracleOptions options = OptionsFor();
  if (NoPython(options)) return;
  auto device = device::MakeDevice("host").value();
  v1::Problem problem;
  problem.mutable_torch()->set_source(R"(import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.PReLU(), torch.nn.PReLU()
        self.b.weight = self.a.weight
    def forward(self, x): return x * self.a.weight + self.b.weight
def get_inputs(): return [torch.rand(4)]
)");
  for (const char* line :
       {"input x: f32[4] ~ uniform(0, 1)", "param a.weight: f32[1] ~ constant(0.25)",
        "param b.weight: f32[1] ~ constant(0.25)",
        "y: f32[i: 4] = x[i] * a.weight[0] + b.weight[0]", "output y"}) {
    problem.add_graph(line);
  }
  problem.add_workloads()->set_name("default");
  const graph::Graph graph = GraphOf(problem);
  auto oracle = MakeTorchOracle(options, problem, graph);
  REQUIRE(oracle.status().message() == "");
  for (const Variation variation : {Variation::kNewWeights, Variation::kNone}) {
    const auto drawn = (*oracle)->Draw(*device, 3, variation);
    REQUIRE(drawn.status().message() == "");
    const float weight = Read<float>(*device, *drawn->inputs[1])[0];
    CHECK(weight == Read<float>(*device, *drawn->inputs[2])[0]);
    CHECK((weight == 0.25f) == (variation == Variation::kNone));
    const std::vector<Values> answers = Evaluated(*device, graph, *drawn);
    std::vector<double> there;
    for (int64_t position : drawn->sample[0]) there.push_back(answers[0][position]);
    CHECK(ErrorsOf(graph::DType::kF32, there, drawn->exact[0]).max < 1e-12);
  }
}

TEST_CASE("what does not fit in fp64 is measured on a part of the batch, if it has one",
          "[torch]") {
  TorchOracleOptions options = OptionsFor();
  if (NoPython(options)) return;
  auto child = StartTorch(options);
  REQUIRE(child.ok());
  options.child = *child;
  options.exact_bytes = 1;
  auto device = device::MakeDevice("host").value();
  for (const bool batch : {true, false}) {
    INFO("rows are independent: " << batch);
    const std::string total = batch ? "x.sum(1, keepdim=True)" : "x.sum()";
    v1::Problem problem;
    problem.mutable_torch()->set_source(
        "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x): return x / " +
        total + "\ndef get_inputs(): return [torch.rand(64, 4096)]\n");
    problem.add_graph("input x: f32[64, 4096] ~ uniform(0, 1)");
    problem.add_graph(batch ? "s: f32[i: 64] = sum[r: 4096](x[i, r])"
                            : "s: f32 = sum[q: 64, r: 4096](x[q, r])");
    problem.add_graph(batch ? "y: f32[i: 64, j: 4096] = x[i, j] / s[i]"
                            : "y: f32[i: 64, j: 4096] = x[i, j] / s[]");
    problem.add_graph("output y");
    problem.add_workloads()->set_name("default");
    const graph::Graph graph = GraphOf(problem);
    auto oracle = MakeTorchOracle(options, problem, graph);
    REQUIRE(oracle.status().message() == "");
    const auto drawn = (*oracle)->Draw(*device, 3, Variation::kNone);
    REQUIRE(drawn.status().message() == "");
    const std::vector<int64_t>& sample = drawn->sample[0];
    const std::vector<double>& exact = drawn->exact[0];
    REQUIRE(sample.size() == exact.size());
    if (!batch) {
      CHECK(sample.empty());
      continue;
    }
    REQUIRE(sample.size() == 4 * 4096);  // a sixteenth
    CHECK(sample.front() / 4096 != sample.back() / 4096);
    const std::vector<Values> answers = Evaluated(*device, graph, *drawn);
    std::vector<double> there;
    for (int64_t position : sample) there.push_back(answers[0][position]);
    CHECK(ErrorsOf(graph::DType::kF32, there, exact).max < 1e-12);
    CHECK(drawn->whole.max > 0);
  }
}

TEST_CASE("without Python or PyTorch the reason is said", "[torch]") {
  TorchOracleOptions options = OptionsFor();
  options.python = "no-such-python";
  CHECK(StartTorch(options).status().code() == absl::StatusCode::kFailedPrecondition);
}

TEST_CASE("the baseline cache tells its keys apart", "[torch]") {
  const std::string folder =
      std::filesystem::temp_directory_path() / ("warpsmith_cache_test_" + std::to_string(getpid()));
  const BaselineCache cache(folder);
  v1::BaselineReport report;
  report.add_baselines()->mutable_times()->set_graph_us(3.5);
  const BaselineKey key = {"digest", "card", "driver", "2.8", "graph"};
  CHECK_FALSE(cache.Find(key).has_value());
  REQUIRE(cache.Store(key, report).ok());
  REQUIRE(cache.Find(key).has_value());
  CHECK(cache.Find(key)->baselines(0).times().graph_us() == 3.5);
  CHECK(cache.Find(key)->from_cache());
  CHECK_FALSE(cache.Find({"digest", "card", "driver", "2.9", "graph"}).has_value());
  CHECK_FALSE(cache.Find({"digest", "cardd", "river", "2.8", "graph"}).has_value());
  CHECK_FALSE(cache.Find({"digest", "card", "driver", "2.8", "compile,graph"}).has_value());
  CHECK_FALSE(BaselineCache("").Find(key).has_value());
  std::filesystem::remove_all(folder);
}

void CheckInPython(const std::string& script) {
  const TorchOracleOptions options = OptionsFor();
  if (NoPython(options)) return;
  const std::string command = options.python + " " + WARPSMITH_PYTHON_PATH + "/tests/" + script;
  CHECK(std::system(command.c_str()) == 0);
}

TEST_CASE("inputs are drawn where they are wanted", "[torch]") { CheckInPython("check_drawn.py"); }

TEST_CASE("what is compiled for baselines stays as long as the module", "[torch]") {
  CheckInPython("check_baselines.py");
}

}  // namespace
}  // namespace warpsmith::oracle
