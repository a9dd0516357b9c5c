// Structure of exported files; what Python makes of them (with WARPSMITH_PYTHON, as scripts/test.sh
// sets it); and, where there is an nvcc, that they compile. Solutions of several tasks:
// gather_test.cc.
#include <fstream>
#include <limits>

#include "absl/strings/str_cat.h"
#include "cli/export/cubins.h"
#include "cli/export/cuda_source.h"
#include "cli/export/python_module.h"
#include "cli/export/testing.h"
#include "common/problem/problem.h"
#include "worker/codegen/codegen.h"

namespace warpsmith::exporter {
namespace {

constexpr char kModule[] = R"PY("""Not wanted: try: this, except that, pass."""
import torch
import torch.nn as nn
from typing import (Optional,
                    Tuple)

DEFAULT_EPS = 1e-5  # wanted: the constructor refers to it
batch_size = 8
size = batch_size * 2


def double(x):
    return 2 * x


class Model(nn.Module):
    """
    A norm with a scale. pass
    """
    def __init__(self, features: int, eps: float = DEFAULT_EPS, names: Tuple[str, ...] = ("a,b", ")")):
        """Docs."""
        super(Model, self).__init__()
        self.norm = nn.BatchNorm1d(features, eps=eps)  # 'quoted'
        # a comment
        self.tail = nn.Sequential(nn.Identity(), nn.Linear(features, features, bias=False))

    def forward(self, x: torch.Tensor,
                scale: float, mask: Optional[torch.Tensor] = None) -> Tuple[torch.Tensor, torch.Tensor]:
        """
        Model (docs).
        """
        y = self.norm(x) * scale

        # at the left edge of what is inside
        return y, double(self.tail(y)).sum()


def get_inputs():
    return [torch.rand(batch_size, size), 3.0]


def get_init_inputs():
    return [size]


if __name__ == "__main__":
    print(Model(3))
)PY";

v1::Problem MadeProblem() {
  v1::Problem problem;
  problem.set_name("25_Norm");
  problem.set_description("A norm with a scale.");
  for (const char* line :
       {"input x: f32[8, 16] ~ normal", "param norm.weight: f32[16] ~ normal",
        "param tail.1.weight: f32[16, 16] ~ normal", "state norm.running_mean: f32[16] ~ normal",
        "y: f32[a: 8, b: 16] = x[a, b] * norm.weight[b]",
        "total: f32[] = sum[a: 8, b: 16](y[a, b] * tail.1.weight[b, b])",
        "part: f32[b: 16] = sum[a: 8](x[a, b])",
        "mean: f32[b: 16] = part[b] + norm.running_mean[b]", "output y", "output total",
        "update norm.running_mean = mean"}) {
    problem.add_graph(line);
  }
  problem.add_workloads()->set_name("default");
  auto& torch = *problem.mutable_torch();
  torch.set_path("level1/25_Norm.py");
  torch.set_source(kModule);
  auto& scalar = *torch.add_scalars();
  scalar.set_position(1);
  scalar.set_value(3);
  return problem;
}

void AddBuffer(v1::Plan& plan, v1::Buffer::Kind kind, const std::string& tensor,
               const std::vector<int64_t>& shape) {
  auto& buffer = *plan.add_buffers();
  buffer.set_kind(kind);
  buffer.set_tensor(tensor);
  buffer.set_dtype("f32");
  int64_t bytes = 4;
  for (int64_t extent : shape) {
    buffer.add_shape(extent);
    bytes *= extent;
  }
  buffer.set_bytes(bytes);
}

v1::Solution MadeSolution() {
  v1::Solution solution;
  solution.set_arch("sm_90a");
  auto& plan = *solution.add_plans();
  plan.set_workload("default");
  plan.set_source(R"(#include <warpsmith/map.cuh>
#include <warpsmith/rows.cuh>
#include <warpsmith/columns.cuh>
struct G {
  const float* x;
  float* y;
  using Index = int;
  template <int V> struct Values { float x[V]; };
  template <int V> WS_DEVICE void load(Index i, Values<V>& v) const { ws::load<V, float, 0>(x + i, v.x); }
  template <int V> WS_DEVICE void emit(Index i, const Values<V>& v) const { ws::store<V, float, 1>(y + i, v.x); }
};
extern "C" __global__ void __launch_bounds__(32) launch(const float* x, float* y, long long n, float f, float g,
                                                        float h) {
  G glue{x, y};
  ws::map<G, 4, 1, false, false>(glue, int(n));
}
WS_EXPORT(launch)
)");
  AddBuffer(plan, v1::Buffer::INPUT, "x", {8, 16});
  AddBuffer(plan, v1::Buffer::PARAM, "norm.weight", {16});
  AddBuffer(plan, v1::Buffer::PARAM, "tail.1.weight", {16, 16});
  AddBuffer(plan, v1::Buffer::STATE, "norm.running_mean", {16});
  AddBuffer(plan, v1::Buffer::OUTPUT, "y", {8, 16});
  AddBuffer(plan, v1::Buffer::OUTPUT, "total", {});
  AddBuffer(plan, v1::Buffer::WORKSPACE, "exchange", {3});
  AddBuffer(plan, v1::Buffer::WORKSPACE, "partial", {3});
  for (uint32_t pattern : {0u, 0x7fc00000u}) {
    auto& fill = *plan.add_steps()->mutable_fill();
    fill.set_buffer(7);
    fill.set_pattern(pattern);
    fill.set_bytes(12);
  }
  auto& launch = *plan.add_steps()->mutable_launch();
  launch.set_entry("launch");
  for (uint32_t n : {16u, 1u, 1u}) launch.add_grid(n);
  for (uint32_t n : {32u, 1u, 1u}) launch.add_block(n);
  for (uint32_t n : {16u, 1u, 1u}) launch.add_cluster(n);
  launch.set_shared_bytes(100000);
  launch.set_cooperative(true);
  launch.set_programmatic(true);
  launch.add_arguments()->set_buffer(0);
  launch.add_arguments()->set_buffer(4);
  launch.add_arguments()->set_i64(128);
  for (float value : {0.5f, 3.0f, -std::numeric_limits<float>::infinity()}) {
    launch.add_arguments()->set_f32(value);
  }
  auto& copy = *plan.add_steps()->mutable_copy();
  copy.set_from(6);
  copy.set_to(5);
  copy.set_bytes(4);
  return solution;
}

TEST_CASE("a module is taken apart", "[export]") {
  const auto module = ReadModule(kModule);
  REQUIRE(module.ok());
  CHECK(module->class_line == "class ModelNew(nn.Module):");
  CHECK(Has(module->preamble, "from typing import (Optional,"));
  CHECK(Has(module->preamble, "DEFAULT_EPS = 1e-5"));
  CHECK(Has(module->preamble, "def double(x):"));
  CHECK_FALSE(Has(module->preamble, "batch_size"));
  CHECK_FALSE(Has(module->preamble, "get_in"));
  CHECK_FALSE(Has(module->preamble, "__main__"));
  CHECK(Has(module->members, "super(ModelNew, self).__init__()"));
  CHECK(Has(module->members, "# a comment"));
  CHECK_FALSE(Has(module->members, "Docs"));
  CHECK_FALSE(Has(module->members, "scale"));
  REQUIRE(module->forward.size() == 3);
  CHECK(module->forward[0].text == "x: torch.Tensor");
  CHECK(module->forward[1].name == "scale");
  CHECK(module->forward[2].default_value == "None");
}

TEST_CASE("modules that cannot be rewritten say why", "[export]") {
  CHECK(
      Has(std::string(ReadModule("class Net:\n  def forward(self): return 1\n").status().message()),
          "no class Model"));
  CHECK(Has(std::string(ReadModule("class Model:\n  x = 1\n").status().message()), "no forward"));
  CHECK(
      Has(std::string(
              ReadModule("class Model:\n  def forward(self, *xs): return xs\n").status().message()),
          "*xs"));
  CHECK_FALSE(ReadModule("class Model(:\n'''").ok());
}

TEST_CASE("headers are written out once, for a card", "[export]") {
  const auto text = ExpandHeaders("#include <warpsmith/map.cuh>\n#include <warpsmith/rows.cuh>\n");
  REQUIRE(text.ok());
  CHECK_FALSE(Has(*text, "#include"));
  CHECK_FALSE(Has(*text, "WS_HOST"));
  CHECK_FALSE(Has(*text, "#pragma once"));
  CHECK(text->find("==== warpsmith/base.cuh") == text->rfind("==== warpsmith/base.cuh"));
  CHECK_FALSE(ExpandHeaders("#include <vector>\n").ok());
}

TEST_CASE("workspace shares one aligned block", "[export]") {
  const v1::Solution solution = MadeSolution();
  const Layout layout = LayOut(solution.plans(0));
  CHECK(layout.tensors == std::vector<int>{0, 1, 2, 3, 4, 5});
  CHECK(layout.offsets[6] == 0);
  CHECK(layout.offsets[7] == 256);
  CHECK(layout.workspace_bytes == 512);
  CHECK(layout.pointers() == 7);
}

TEST_CASE("plans that point nowhere are refused", "[export]") {
  v1::Solution solution = MadeSolution();
  solution.mutable_plans(0)->mutable_steps(0)->mutable_fill()->set_buffer(8);
  CHECK_FALSE(CudaSource(solution.plans(0), "f").ok());
  solution = MadeSolution();
  solution.mutable_plans(0)->mutable_steps(2)->mutable_launch()->clear_grid();
  CHECK_FALSE(CudaSource(solution.plans(0), "f").ok());
}

TEST_CASE("a KernelBench file", "[export]") {
  const Folder folder("kernelbench");
  const v1::Problem problem = MadeProblem();
  const absl::Status valid = problem::Validate(problem);
  INFO(valid.ToString());
  REQUIRE(valid.ok());
  OutFolder out{folder.path, {}};
  const std::vector<Part> parts = {{MadeSolution(), {"a cubin"}}};
  const auto path = Exported(ExportKernelBench, problem, parts, out);
  INFO(path.status().ToString());
  REQUIRE(path.ok());
  CHECK(*path == folder.path + "/level1/25_Norm.py");
  const std::string text = Read(*path);
  CHECK(Has(text, "class ModelNew(nn.Module):"));
  CHECK(Has(text, "[\"param\", \"tail.1.weight\", \"f32\", [16, 16]]"));
  CHECK(Has(text, "  default: x f32[8, 16], 3\n"));
  CHECK(Has(text, "if scale != 3:"));
  CHECK(Has(text, "if mask is not None:"));
  CHECK(Has(text, "if not self.training:"));
  CHECK(Has(text, "return _solution.call(self, x)\n"));
  CHECK(Has(text, "\"ModelNew\", \"sm_90a\", _PLANS"));
  CHECK(text.find("\nimport torch\n") == text.rfind("\nimport torch\n"));
  CHECK_FALSE(Has(text, "warpsmith/map.cuh>"));
  // The same again, to the byte.
  OutFolder again{folder.path, {}};
  REQUIRE(Exported(ExportKernelBench, problem, parts, again).ok());
  CHECK(Read(*path) == text);

  TryInPython(folder, kModule, *path);
}

TEST_CASE("names of a module's own do not get in the way", "[export]") {
  constexpr char kSource[] = R"PY(import torch
import torch.nn as nn


class Model(nn.Sequential):
    def __init__(self):
        super().__init__(nn.LayerNorm(16))

    def forward(self, t1, t0, device):
        return t1 * getattr(self, "0").weight - t0 * device


def get_inputs():
    return [torch.rand(8, 16), torch.rand(8, 16), torch.rand(8, 16)]


def get_init_inputs():
    return []
)PY";
  v1::Problem problem;
  problem.set_name("1_Names");
  for (const char* line :
       {"input t1: f32[8, 16] ~ normal", "input t0: f32[8, 16] ~ normal",
        "input device: f32[8, 16] ~ normal", "param _0.weight: f32[16] ~ normal",
        "y: f32[a: 8, b: 16] = t1[a, b] * _0.weight[b] - t0[a, b] * device[a, b]", "output y"}) {
    problem.add_graph(line);
  }
  problem.add_workloads()->set_name("default");
  problem.mutable_torch()->set_path("level1/1_Names.py");
  problem.mutable_torch()->set_source(kSource);
  REQUIRE(problem::Validate(problem).message() == "");
  v1::Solution solution;
  solution.set_arch("sm_90a");
  v1::Plan& plan = *solution.add_plans();
  plan.set_workload("default");
  plan.set_source("extern \"C\" __global__ void launch() {}\n");
  for (const char* name : {"t1", "t0", "device"}) AddBuffer(plan, v1::Buffer::INPUT, name, {8, 16});
  AddBuffer(plan, v1::Buffer::PARAM, "_0.weight", {16});
  AddBuffer(plan, v1::Buffer::OUTPUT, "y", {8, 16});
  v1::Launch& launch = *plan.add_steps()->mutable_launch();
  launch.set_entry("launch");
  for (int i = 0; i < 3; ++i) launch.add_grid(1), launch.add_block(1);
  for (int i = 0; i < 5; ++i) launch.add_arguments()->set_buffer(i);
  const Folder folder("names");
  OutFolder out{folder.path, {}};
  const auto path = Exported(ExportKernelBench, problem, {{solution, {}}}, out);
  REQUIRE(path.status().message() == "");
  CHECK(Has(Read(*path), "[\"param\", \"0.weight\", \"f32\", [16]]"));
  TryInPython(folder, kSource, *path);
}

TEST_CASE("tensors lie in memory as the module's do", "[export]") {
  constexpr char kSource[] = R"PY(import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(3))

    def forward(self, x, residual):
        self.seen += (x.transpose(1, 2) * residual).sum((0, 1))
        y = x.transpose(1, 2) + residual
        return y, x.transpose(0, 2), self.seen, y


def get_inputs():
    return [torch.rand(2, 3, 5), torch.rand(2, 5, 3)]


def get_init_inputs():
    return []
)PY";
  v1::Problem problem;
  problem.set_name("1_Lies");
  for (const char* line : {"input x: f32[2, 3, 5] ~ normal",
                           "input residual: f32[2, 5, 3] ~ normal", "state seen: f32[3] ~ normal",
                           "part: f32[c: 3] = sum[n: 2, p: 5](x[n, c, p] * residual[n, p, c])",
                           "total: f32[c: 3] = seen[c] + part[c]",
                           "y: f32[n: 2, c: 3, p: 5] = x[n, c, p] + residual[n, p, c]",
                           "z: f32[n: 2, c: 3, p: 5] = x[n, c, p]", "output y", "output z",
                           "output total", "update seen = total"}) {
    problem.add_graph(line);
  }
  problem.add_workloads()->set_name("default");
  v1::TorchModule& torch = *problem.mutable_torch();
  torch.set_path("level1/1_Lies.py");
  torch.set_source(kSource);
  for (const int place : {0, 1, 2, 0}) torch.add_outputs(place);
  for (const std::vector<int>& axes : {std::vector{0, 2, 1}, {2, 1, 0}, {0}}) {
    torch.add_orders()->mutable_axes()->Add(axes.begin(), axes.end());
  }
  REQUIRE(problem::Validate(problem).message() == "");
  const Part part = PartOf(problem, 0, true);
  const Folder folder("lies");
  OutFolder out{folder.path, {}};
  const auto path = Exported(ExportKernelBench, problem, {part}, out);
  REQUIRE(path.status().message() == "");
  CHECK(Has(Read(*path), "[\"output\", \"y\", \"f32\", [2, 3, 5], [0, 2, 1]]"));
  TryInPython(folder, kSource, *path);
  OutFolder plain{folder.path, {}};
  const auto cuda = Exported(ExportPlain, problem, {part}, plain);
  REQUIRE(cuda.status().message() == "");
  const std::string text = Read(*cuda);
  CHECK(Has(text,
            "f32[2, 3, 5]  output, every element is written; it is forward's tensor of shape "
            "(2, 5, 3) and strides (15, 1, 5)\n"));
  CHECK(Has(text, "total  f32[3]  output, every element is written\n"));
}

TEST_CASE("kernels that do not need each other run beside each other", "[export]") {
  constexpr char kSource[] = R"PY(import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return x.sum(1) * x.sum(0) + x.amax(1)


def get_inputs():
    return [torch.rand(32, 32)]


def get_init_inputs():
    return []
)PY";
  v1::Problem problem;
  problem.set_name("1_Beside");
  for (const char* line :
       {"input x: f32[32, 32] ~ normal", "a: f32[i: 32] = sum[j: 32](x[i, j])",
        "b: f32[j: 32] = sum[i: 32](x[i, j])", "c: f32[i: 32] = max[j: 32](x[i, j])",
        "y: f32[i: 32] = a[i] * b[i] + c[i]", "output y"}) {
    problem.add_graph(line);
  }
  problem.add_workloads()->set_name("default");
  problem.mutable_torch()->set_path("level1/1_Beside.py");
  problem.mutable_torch()->set_source(kSource);
  const Part part = PartOf(problem, 0, true, /*branches=*/true);
  const Folder folder("beside");
  OutFolder out{folder.path, {}};
  const auto path = Exported(ExportKernelBench, problem, {part}, out);
  REQUIRE(path.status().message() == "");
  CHECK(Has(Read(*path), "\"lane\": 2, \"after\": [0, 1]}"));
  TryInPython(folder, kSource, *path);
  OutFolder plain{folder.path, {}};
  const auto cuda = Exported(ExportPlain, problem, {part}, plain);
  REQUIRE(cuda.status().message() == "");
  CHECK(Has(Read(*cuda), "error = lanes.wait(stream, 2);"));
  CheckCompiles(*cuda, folder);
}

TEST_CASE("parts of a tensor share its memory", "[export]") {
  constexpr char kSource[] = R"PY(import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        first, second = (x * 2).chunk(2, dim=1)
        return second, x + 1, first


def get_inputs():
    return [torch.rand(4, 6)]


def get_init_inputs():
    return []
)PY";
  v1::Problem problem;
  problem.set_name("1_Parts");
  for (const char* line : {"input x: f32[4, 6] ~ normal", "y: f32[n: 4, c: 6] = x[n, c] * 2.0",
                           "z: f32[n: 4, c: 6] = x[n, c] + 1.0", "output y", "output z"}) {
    problem.add_graph(line);
  }
  problem.add_workloads()->set_name("default");
  v1::TorchModule& torch = *problem.mutable_torch();
  torch.set_path("level1/1_Parts.py");
  torch.set_source(kSource);
  for (const int place : {0, 1, 0}) {
    torch.add_outputs(place);
    v1::View& view = *torch.add_views();
    if (place == 1) continue;
    for (int64_t size : {4, 3}) view.add_sizes(size);
    for (int64_t stride : {6, 1}) view.add_strides(stride);
    view.set_offset(torch.views_size() == 1 ? 3 : 0);
  }
  REQUIRE(problem::Validate(problem).message() == "");
  const Part part = PartOf(problem, 0, true);
  const Folder folder("parts");
  OutFolder out{folder.path, {}};
  const auto path = Exported(ExportKernelBench, problem, {part}, out);
  REQUIRE(path.status().message() == "");
  CHECK(Has(Read(*path),
            "outputs[0].as_strided((4, 3,), (6, 1,), 3), outputs[1], "
            "outputs[0].as_strided((4, 3,), (6, 1,), 0)"));
  TryInPython(folder, kSource, *path);
  OutFolder plain{folder.path, {}};
  const auto cuda = Exported(ExportPlain, problem, {part}, plain);
  REQUIRE(cuda.status().message() == "");
  CHECK(Has(Read(*cuda),
            "; forward's tensor 0 is its part from element 3 on of shape (4, 3) and "
            "strides (6, 1); forward's tensor 2 is"));
}

TEST_CASE("seeds of what is drawn at random are drawn by each call", "[export]") {
  constexpr char kSource[] = R"PY(import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return nn.functional.dropout(x, 0.5) + nn.functional.dropout(x, 0.25)


def get_inputs():
    return [torch.rand(4, 6)]


def get_init_inputs():
    return []
)PY";
  v1::Problem problem;
  problem.set_name("1_Dropout");
  for (const char* line :
       {"input x: f32[4, 6] ~ normal", "input s: i64[2] ~ integers(0, 9007199254740992)",
        "y: f32[n: 4, c: 6] = x[n, c] * f32(8388608 <= random(s[0], n * 6 + c)) * 2.0 + "
        "x[n, c] * f32(4194304 <= random(s[1], n * 6 + c)) * 1.3333334",
        "output y"}) {
    problem.add_graph(line);
  }
  problem.add_workloads()->set_name("default");
  v1::TorchModule& torch = *problem.mutable_torch();
  torch.set_path("level1/1_Dropout.py");
  torch.set_source(kSource);
  torch.set_seeds("x");
  CHECK(Has(problem::Validate(problem).ToString(), "torch.seeds: 'x' must be the graph's last"));
  torch.set_seeds("s");
  REQUIRE(problem::Validate(problem).message() == "");
  const Part part = PartOf(problem, 0, true);
  const Folder folder("seeds");
  OutFolder out{folder.path, {}};
  const auto path = Exported(ExportKernelBench, problem, {part}, out);
  REQUIRE(path.status().message() == "");
  CHECK(Has(Read(*path), "return _solution.call(self, x, _solution.seeds(2))[0]"));
  CHECK(Has(Read(*path), "  default: x f32[4, 6]\n"));
  TryInPython(folder, kSource, *path);
  OutFolder plain{folder.path, {}};
  const auto cuda = Exported(ExportPlain, problem, {part}, plain);
  REQUIRE(cuda.status().message() == "");
  CHECK(Has(Read(*cuda), "; seeds of what forward draws at random, others for each call"));
}

TEST_CASE("an input that is changed is given back as it came", "[export]") {
  constexpr char kSource[] = R"PY(import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, cache, scale=2):
        cache += x * scale
        return cache[:, 1:], x + 1, cache


def get_inputs():
    return [torch.rand(4, 6), torch.rand(4, 6)]


def get_init_inputs():
    return []
)PY";
  v1::Problem problem;
  problem.set_name("1_Cache");
  for (const char* line :
       {"input x: f32[4, 6] ~ normal", "inout cache: f32[4, 6] ~ normal",
        "sum: f32[n: 4, c: 6] = cache[n, c] + x[n, c] * 2.0", "z: f32[n: 4, c: 6] = x[n, c] + 1.0",
        "output z", "update cache = sum"}) {
    problem.add_graph(line);
  }
  problem.add_workloads()->set_name("default");
  v1::TorchModule& torch = *problem.mutable_torch();
  torch.set_path("level1/1_Cache.py");
  torch.set_source(kSource);
  for (const int place : {2, 0, 2}) torch.add_outputs(place);
  for (int i = 0; i < 3; ++i) torch.add_views();
  for (int64_t size : {4, 5}) torch.mutable_views(0)->add_sizes(size);
  for (int64_t stride : {6, 1}) torch.mutable_views(0)->add_strides(stride);
  torch.mutable_views(0)->set_offset(1);
  REQUIRE(problem::Validate(problem).message() == "");
  const Part part = PartOf(problem, 0, true);
  const Folder folder("cache");
  OutFolder out{folder.path, {}};
  const auto path = Exported(ExportKernelBench, problem, {part}, out);
  REQUIRE(path.status().message() == "");
  const std::string text = Read(*path);
  CHECK(Has(text, "x f32[4, 6], cache f32[4, 6], changed in place\n"));
  CHECK(Has(text, "[\"inout\", \"cache\", \"f32\", [4, 6]]"));
  CHECK(Has(
      text,
      "        outputs = _solution.call(self, x, cache)\n"
      "        dense_cache = cache.contiguous()\n"
      "        return dense_cache.as_strided((4, 5,), (6, 1,), dense_cache.storage_offset() + 1), "
      "outputs[0], cache\n"));
  CHECK(!Has(text, "self.training"));
  TryInPython(folder, kSource, *path);
  OutFolder plain{folder.path, {}};
  const auto cuda = Exported(ExportPlain, problem, {part}, plain);
  REQUIRE(cuda.status().message() == "");
  CHECK(Has(Read(*cuda), "cache  f32[4, 6]  input, read and written\n"));

  torch.set_outputs(0, 3);
  CHECK_THAT(std::string(problem::Validate(problem).message()),
             Catch::Contains("torch.outputs: there is no output 3"));
}

TEST_CASE("what a KernelBench file cannot hold", "[export]") {
  const Folder folder("refused");
  v1::Problem problem = MadeProblem();
  v1::Solution solution = MadeSolution();
  const auto refused = [&] {
    OutFolder out{folder.path, {}};
    return std::string(
        Exported(ExportKernelBench, problem, {{solution, {}}}, out).status().message());
  };
  solution.set_arch("host");
  CHECK(Has(refused(), "CUDA card"));
  solution = MadeSolution();
  solution.set_problem_digest("of another one");
  CHECK(Has(refused(), "another version"));
  solution = MadeSolution();
  problem.mutable_torch()->set_path("../../etc/passwd");
  CHECK(Has(refused(), "not a path within"));
  problem = MadeProblem();
  problem.mutable_torch()->clear_scalars();
  CHECK(Has(refused(), "argument 'scale'"));
  problem.clear_torch();
  CHECK(Has(refused(), "--format plain"));
}

TEST_CASE("plain CUDA", "[export]") {
  const Folder folder("plain");
  OutFolder out{folder.path, {}};
  const auto path = Exported(ExportPlain, MadeProblem(), {{MadeSolution(), {}}}, out);
  REQUIRE(path.ok());
  CHECK(*path == folder.path + "/k_25_Norm.cu");
  const std::string text = Read(*path);
  CHECK(Has(text, "//   3  norm.running_mean  f32[16]  state, read and written"));
  CHECK(Has(text, "//   6  workspace, 512 bytes"));
  CHECK(Has(text, "float a4 = static_cast<float>(3);"));
  CHECK(Has(text, "float a5 = -INFINITY;"));
  CHECK(Has(text, "extern \"C\" int k_25_Norm_run(void* const* buffers, cudaStream_t stream"));
  CheckCompiles(*path, folder);
}

TEST_CASE("plain CUDA of steps beside each other", "[export]") {
  v1::Plan plan = MadeSolution().plans(0);
  plan.mutable_steps(1)->set_lane(1);  // two fills, a kernel, a copy
  plan.mutable_steps(2)->add_after(1);
  plan.mutable_steps(3)->set_lane(2);
  plan.mutable_steps(3)->add_after(2);
  const auto text = CudaSource(plan, "k");
  INFO(text.status());
  REQUIRE(text.ok());
  CHECK(Has(*text, "constexpr int kBeside = 2, kEvents = 3;"));
  CHECK(
      Has(*text, "    const cudaStream_t stream = lanes.stream(1);\n    error = host_side::fill("));
  CHECK(Has(*text, "    if (error == cudaSuccess) error = lanes.record(stream, 1);\n"));
  CHECK(Has(*text,
            "    const cudaStream_t stream = lanes.stream(2);\n"
            "    if (error == cudaSuccess) error = lanes.wait(stream, 2);\n"));
  CHECK(Has(*text, "  error = lanes.end();\n"));
  CHECK_FALSE(Has(*CudaSource(MadeSolution().plans(0), "k"), "host_side::Lanes"));
  const Folder folder("lanes");
  const std::string path = folder.path + "/k.cu";
  std::ofstream(path) << *text;
  CheckCompiles(path, folder);
  plan.mutable_steps(3)->set_after(0, 3);
  CHECK(CudaSource(plan, "k").status().message() ==
        "step 3: it waits for step 3, which is not before it; name earlier steps of other lanes");
}

TEST_CASE("plain CUDA of a kernel that takes tensor maps", "[export]") {
  const auto graph = graph::Parse(
      {"input a: bf16[256, 256] ~ normal", "state b: bf16[256, 256] ~ normal",
       "s: f32[m: 256, n: 256] = sum[k: 256](f32(a[m, k]) * f32(b[n, k]))", "output s"},
      {});
  REQUIRE(graph.ok());
  v1::Schedule schedule;
  schedule.add_groups()->add_roots("s");
  schedule.mutable_groups(0)->mutable_contract()->set_math(v1::PRODUCT_TENSOR);
  auto lowered = codegen::Lower(*graph, schedule, codegen::Target());
  INFO(lowered.status());
  REQUIRE(lowered.ok());
  v1::Plan plan = *std::move(lowered);
  int first = 0;  // argument that is a map
  v1::Launch& launch = *plan.mutable_steps(0)->mutable_launch();
  while (!launch.arguments(first).has_map()) ++first;
  const auto text = CudaSource(plan, "k");
  REQUIRE(text.ok());
  CHECK(Has(*text, absl::StrCat("const cuuint64_t a", first, "_sizes[] = {256, 256, 1};")));
  CHECK(Has(*text, "    if (error == cudaSuccess) error = host_side::launch("));
  CHECK_FALSE(Has(*text, "encode_window"));
  const Folder folder("maps");
  const std::string path = folder.path + "/k.cu";
  std::ofstream(path) << *text;
  CheckCompiles(path, folder);
  v1::TensorMap& map = *launch.mutable_arguments(first)->mutable_map();
  const v1::TensorMap whole = map;
  map.mutable_box()->Truncate(2);
  CHECK(Has(std::string(CudaSource(plan, "k").status().message()), "and a box of 2"));
  map.mutable_window()->add_lower(-1);
  map.mutable_window()->add_upper(0);
  CHECK(CudaSource(plan, "k").status().message() ==
        "a tensor map of 3 sizes with a window of 1 and 1 corners and 0 strides");
  map.mutable_window()->add_strides(2);
  const auto windows = CudaSource(plan, "k");
  REQUIRE(windows.ok());
  CHECK(Has(*windows, absl::StrCat("const int a", first, "_lower[] = {-1}, a", first,
                                   "_upper[] = {0};\n    const cuuint32_t a", first,
                                   "_each[] = {1, 2, 1};")));
  CHECK(Has(*windows, absl::StrCat("error = host_side::encode_window(&a", first, ", ")));
  CHECK(Has(*windows, "error = host_side::encode(&"));  // the other operand
  const std::string windows_path = folder.path + "/windows.cu";
  std::ofstream(windows_path) << *windows;
  CheckCompiles(windows_path, folder);
  map = whole;
  map.set_buffer(3);
  CHECK(CudaSource(plan, "k").status().message() == "the plan has no buffer 3, it has 3");
  map.set_buffer(0);
  map.set_dtype("f8");
  CHECK(
      Has(std::string(CudaSource(plan, "k").status().message()), "a tensor map of the type 'f8'"));
}

TEST_CASE("plain CUDA of a product by a library", "[export]") {
  const auto graph =
      graph::Parse({"input a: bf16[256, 64] ~ normal", "input b: bf16[64, 128] ~ normal",
                    "s: f32[m: 256, n: 128] = sum[k: 64](f32(a[m, k]) * f32(b[k, n]))", "output s"},
                   {});
  REQUIRE(graph.ok());
  v1::Schedule schedule;
  schedule.add_groups()->add_roots("s");
  schedule.mutable_groups(0)->mutable_contract()->set_math(v1::PRODUCT_LIBRARY);
  codegen::Target target;
  target.library = "cuBLASLt 13.1.0";
  auto plan = codegen::Lower(*graph, schedule, target);
  INFO(plan.status());
  REQUIRE(plan.ok());
  const auto text = CudaSource(*plan, "k");
  REQUIRE(text.ok());
  CHECK(Has(*text, "#include <cublasLt.h>"));
  // Column major: b is 128 x 64 as it lies, a is 64 x 256.
  CHECK(Has(*text,
            "{\"cuBLASLt 13.1.0\", 1, 1, CUBLAS_OP_N, CUBLAS_OP_N,\n"
            "        {CUDA_R_16BF, 128, 64, 128, 8192}, {CUDA_R_16BF, 64, 256, 64, 16384}, "
            "{CUDA_R_32F, 128, 256, 128, 32768}, 33554432, false};"));
  v1::Vector& bias = *plan->mutable_steps(0)->mutable_product()->mutable_bias();
  bias.set_dtype("f32");
  bias.set_buffer(1);
  bias.set_offset(64);
  const auto biased = CudaSource(*plan, "k");
  REQUIRE(biased.ok());
  CHECK(Has(*biased, "{CUDA_R_32F, 128, 256, 128, 32768}, 33554432, true};"));
  CHECK(Has(*biased, "static_cast<char*>(buffers[1]) + 64, "));
  bias.set_buffer(7);
  CHECK(CudaSource(*plan, "k").status().message() == "the plan has no buffer 7, it has 4");
  plan->mutable_steps(0)->mutable_product()->clear_bias();
  const Folder folder("library");
  std::ofstream(folder.path + "/biased.cu") << *biased;
  const std::string path = folder.path + "/k.cu";
  std::ofstream(path) << *text;
  const std::string header =
      "echo '#include <cublasLt.h>' | " + Nvcc() + " -x cu -E - > /dev/null 2>&1";
  if (!Nvcc().empty() && std::system(header.c_str()) == 0) {
    CheckCompiles(path, folder);
    CheckCompiles(folder.path + "/biased.cu", folder);
  } else {
    WARN("there is no nvcc with cublasLt.h: the exported source was not compiled");
  }
  plan->mutable_steps(0)->mutable_product()->set_workspace(7);
  CHECK(CudaSource(*plan, "k").status().message() == "the plan has no buffer 7, it has 4");
}

TEST_CASE("one file a workload", "[export]") {
  const Folder folder("workloads");
  v1::Problem problem = MadeProblem();
  problem.add_workloads()->set_name("large");
  v1::Solution solution = MadeSolution();
  *solution.add_plans() = solution.plans(0);
  solution.mutable_plans(1)->set_workload("large");
  OutFolder out{folder.path, {}};
  REQUIRE(Exported(ExportPlain, problem, {{solution, {}}}, out).ok());
  CHECK(fs::exists(folder.path + "/k_25_Norm_default.cu"));
  CHECK(fs::exists(folder.path + "/k_25_Norm_large.cu"));
  // The same names where one of them has no kernel.
  const Folder some("some_workloads");
  OutFolder into{some.path, {}};
  const auto path = Exported(ExportPlain, problem, {{MadeSolution(), {}}}, into);
  REQUIRE(path.ok());
  CHECK(*path == some.path + "/k_25_Norm_default.cu");
}

TEST_CASE("one KernelBench file for all workloads", "[export]") {
  constexpr char kSource[] = R"PY(import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return x * 2


def get_inputs():
    return [torch.rand(32, 16)]


def get_init_inputs():
    return []
)PY";
  v1::Problem problem;
  problem.set_name("1_Double");
  for (const char* line :
       {"input x: f32[rows, 16] ~ normal", "y: f32[a: rows, b: 16] = x[a, b] * 2.0", "output y"}) {
    problem.add_graph(line);
  }
  problem.mutable_torch()->set_path("level1/1_Double.py");
  problem.mutable_torch()->set_source(kSource);
  v1::Solution solution;
  solution.set_arch("sm_90a");
  for (const int64_t rows : {8, 32}) {
    v1::Workload& workload = *problem.add_workloads();
    workload.set_name(absl::StrCat("of ", rows));
    (*workload.mutable_dims())["rows"] = rows;
    v1::Plan& plan = *solution.add_plans();
    plan.set_workload(workload.name());
    plan.set_source(absl::StrCat("extern \"C\" __global__ void rows", rows, "() {}\n"));
    AddBuffer(plan, v1::Buffer::INPUT, "x", {rows, 16});
    AddBuffer(plan, v1::Buffer::OUTPUT, "y", {rows, 16});
    v1::Launch& launch = *plan.add_steps()->mutable_launch();
    launch.set_entry(absl::StrCat("rows", rows));
    for (int i = 0; i < 3; ++i) launch.add_grid(1), launch.add_block(1);
    for (int i = 0; i < 2; ++i) launch.add_arguments()->set_buffer(i);
  }
  const Folder folder("dispatch");
  OutFolder out{folder.path, {}};
  const auto path = Exported(ExportKernelBench, problem, {{solution, {}}}, out);
  REQUIRE(path.status().message() == "");
  CHECK(Has(Read(*path), "  of 8: x f32[8, 16]\n  of 32: x f32[32, 16]\n"));
  TryInPython(folder, kSource, *path);

  const auto refused = [&] {
    OutFolder again{folder.path, {}};
    return std::string(
        Exported(ExportKernelBench, problem, {{solution, {}}}, again).status().message());
  };
  solution.mutable_plans(1)->mutable_buffers(0)->set_tensor("z");
  CHECK(Has(refused(), "workload 'of 32' has other tensors"));
  solution.mutable_plans(1)->mutable_buffers(0)->set_tensor("x");
  solution.mutable_plans(1)->mutable_buffers(0)->set_shape(0, 8);
  CHECK(Has(refused(), "workloads 'of 8' and 'of 32' have the same shapes"));
}

TEST_CASE("what was stored without binaries is compiled, sines beside assembly too", "[export]") {
  v1::Solution solution;
  solution.set_arch("sm_90a");
  for (const char* value : {"x[i]", "sinf(x[i])"}) {
    solution.add_plans()->set_source(
        absl::StrCat("#include <warpsmith/map.cuh>\nextern \"C\" __global__ void f(const float* x, "
                     "float* y, int i) { y[i] = ",
                     value, "; }\n"));
  }
  const auto cubins = CompileCubins(solution, "");
  if (absl::IsNotFound(cubins.status())) {
    WARN("not run: " << cubins.status().ToString());
    return;
  }
  REQUIRE(cubins.status().message() == "");
  REQUIRE(cubins->size() == 2);
  for (const std::string& cubin : *cubins) CHECK(Has(cubin, "ELF"));
}

TEST_CASE("two problems never share a file", "[export]") {
  const Folder folder("shared");
  OutFolder out{folder.path, {}};
  v1::Problem dot = MadeProblem(), dash = MadeProblem();
  dot.set_name("row.sum");
  dash.set_name("row-sum");
  const auto first = Exported(ExportPlain, dot, {{MadeSolution(), {}}}, out);
  REQUIRE(first.ok());
  const std::string text = Read(*first);
  const auto second = Exported(ExportPlain, dash, {{MadeSolution(), {}}}, out);
  CHECK(second.status().code() == absl::StatusCode::kAlreadyExists);
  CHECK(Has(std::string(second.status().message()), "row_sum.cu"));
  CHECK(Read(*first) == text);
}

}  // namespace
}  // namespace warpsmith::exporter
