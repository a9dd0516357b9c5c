// What needs PyTorch asks WARPSMITH_PYTHON for an interpreter; without one it says so and passes.
#include "cli/import/import.h"

#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/import/orders.h"
#include "cli/import/workloads.h"
#include "common/base/file.h"
#include "common/problem/problem.h"

namespace warpsmith::import {
namespace {

namespace fs = std::filesystem;

// A folder of its own for each test, gone with it.
class Checkout {
 public:
  Checkout() : path_(fs::temp_directory_path() / ("warpsmith_import_" + std::to_string(getpid()))) {
    fs::remove_all(path_);
    fs::create_directories(path_ / "KernelBench" / "level1");
  }
  ~Checkout() { fs::remove_all(path_); }

  void Add(const std::string& name, const std::string& forward, const std::string& inputs) const {
    const std::string text =
        "import torch, os\nprint('files may print')\n"
        "class Model(torch.nn.Module):\n    def forward(self, x, *more):\n        " +
        forward + "\ndef get_inputs():\n    return " + inputs + "\n";
    const auto written =
        base::WriteFileAtomically((path_ / "KernelBench" / "level1" / name).string(), text);
    REQUIRE(written.ok());
  }

  ImportOptions options() const {
    ImportOptions options;
    const char* python = std::getenv("WARPSMITH_PYTHON");
    options.python = python == nullptr ? "" : python;
    options.python_path = WARPSMITH_PYTHON_PATH;
    options.directory = path_.string();
    return options;
  }
  // The same of the folder of files, without KernelBench's names.
  ImportOptions modules() const {
    ImportOptions modules = options();
    modules.directory += "/KernelBench/level1";
    return modules;
  }

 private:
  const fs::path path_;
};

bool NoPython(const ImportOptions& options) {
  if (!options.python.empty()) return false;
  WARN("WARPSMITH_PYTHON names no interpreter with PyTorch: not tested");
  return true;
}

TEST_CASE("what to import must be there", "[import]") {
  const Checkout checkout;
  ImportOptions options = checkout.options();
  CHECK(ImportKernelBench(options).status().code() == absl::StatusCode::kNotFound);  // no problem
  checkout.Add("1_Relu.py", "return torch.relu(x)", "[torch.rand(3)]");
  options.only = "2-4";
  CHECK(ImportKernelBench(options).status().code() == absl::StatusCode::kNotFound);
  for (const char* only : {"x", "3-", "3-2", "-1", "1,,x"}) {
    options.only = only;
    CHECK(ImportKernelBench(options).status().code() == absl::StatusCode::kInvalidArgument);
  }
  const auto message = [](const absl::StatusOr<Imported>& imported) {
    CHECK(imported.status().code() == absl::StatusCode::kNotFound);
    return std::string(imported.status().message());
  };
  options.only = "1,7-9";
  CHECK_THAT(message(ImportKernelBench(options)),
             Catch::StartsWith("--only 7-9: ") && Catch::Contains("from 1 to 1"));
  options.directory += "/KernelBench/level1";
  options.only = "1_Relu,gelu";
  CHECK_THAT(message(ImportModules(options)),
             Catch::StartsWith("--only gelu: ") && Catch::EndsWith("it has 1_Relu"));
  options.only = "";
  options.directory += "/..";
  CHECK_THAT(message(ImportModules(options)), Catch::Contains("has no file NAME.py"));
  options.directory += "/nowhere";
  CHECK_THAT(message(ImportModules(options)), Catch::Contains("give a folder"));
  options = checkout.options();
  options.level = 2;
  CHECK(ImportKernelBench(options).status().code() == absl::StatusCode::kNotFound);
  options = checkout.options();
  options.python = "no-such-python";
  CHECK(ImportKernelBench(options).status().code() == absl::StatusCode::kFailedPrecondition);
}

TEST_CASE("several processes import what one does, in its order", "[import]") {
  const Checkout checkout;
  ImportOptions options = checkout.options();
  if (NoPython(options)) return;
  for (int i = 1; i <= 7; ++i) {
    const std::string number = std::to_string(i);
    // One that cannot be had, and one that ends its process.
    checkout.Add(number + "_File.py",
                 i == 3   ? "return torch.linalg.svd(x)[0]"
                 : i == 5 ? "import os; os._exit(3)"
                          : "return x * " + number,
                 "[torch.rand(3, 3)]");
  }
  options.jobs = 1;
  const auto one = ImportKernelBench(options);
  REQUIRE(one.status().message() == "");
  CHECK(one->set.problems_size() == 5);
  CHECK(one->skipped.size() == 2);
  std::vector<std::string> told;
  std::vector<size_t> done;
  options.jobs = 3;
  options.progress = [&](const std::string& path, size_t so_far, size_t all) {
    told.push_back(path);
    done.push_back(so_far);
    CHECK(all == 7);
  };
  const auto several = ImportKernelBench(options);
  REQUIRE(several.status().message() == "");
  CHECK(several->set.SerializeAsString() == one->set.SerializeAsString());
  CHECK(several->skipped == one->skipped);
  CHECK(done == std::vector<size_t>{1, 2, 3, 4, 5, 6, 7});
  std::sort(told.begin(), told.end());
  CHECK(told.front() == "level1/1_File.py");
  CHECK(std::unique(told.begin(), told.end()) == told.end());
}

TEST_CASE("buffers may be called as attributes of PyTorch's own", "[import]") {
  const Checkout checkout;
  const ImportOptions options = checkout.options();
  if (NoPython(options)) return;
  checkout.Add("1_Table.py",
               "return x * self.code + self.held\n    def __init__(self):\n"
               "        super().__init__()\n"
               "        self.register_buffer('code', torch.arange(3.0))\n"
               "        self.held = torch.nn.Parameter(torch.ones(3))",
               "[torch.rand(3)]");
  const auto imported = ImportKernelBench(options);
  REQUIRE(imported.status().message() == "");
  REQUIRE(imported->set.problems_size() == 1);
  const std::string graph = absl::StrJoin(imported->set.problems(0).graph(), "\n");
  INFO(graph);
  CHECK(absl::StrContains(graph, "param code: f32[3]"));
  CHECK(absl::StrContains(graph, "param held: f32[3]"));
}

TEST_CASE("one problem that cannot be imported does not stop the others", "[import]") {
  const Checkout checkout;
  const ImportOptions options = checkout.options();
  if (NoPython(options)) return;
  checkout.Add("1_Relu_of_x.py", "return torch.relu(x)", "[torch.rand(65536, 393216) * 2 - 1]");
  checkout.Add("2_Second.py", "return torch.kthvalue(x, 2)[0]", "[torch.rand(3, 3)]");
  checkout.Add("3_Raises.py", "raise ValueError('no')", "[torch.rand(3)]");
  checkout.Add("4_Dies.py", "os._exit(1)", "[torch.rand(3)]");
  checkout.Add("5_Counts.py",
               "return x * self.Count()\n    n = 0\n    def Count(self):\n"
               "        self.n += 1\n        return self.n",
               "[torch.rand(3)]");
  checkout.Add("10_Scaled.py", "return x * more[0]", "[torch.rand(3), 2.5]");
  checkout.Add("11_Told.py", "return x * 2 if more[0] else x", "[torch.rand(3), True]");
  const auto imported = ImportKernelBench(options);
  REQUIRE(imported.status().message() == "");
  const v1::ProblemSet& set = imported->set;
  CHECK(set.name() == "kernelbench-level1");
  REQUIRE(set.problems_size() == 3);
  CHECK(set.problems(0).name() == "1_Relu_of_x");
  CHECK(set.problems(0).description() == "Relu of x of kernelbench level1/1_Relu_of_x.py.");
  REQUIRE(set.problems(0).graph_size() == 3);
  CHECK(set.problems(0).graph(0) == "input x: f32[65536, 393216] ~ uniform(-1, 1)");
  CHECK(set.problems(0).torch().path() == "level1/1_Relu_of_x.py");
  CHECK(set.problems(0).torch().source().find("torch.relu") != std::string::npos);
  CHECK(set.problems(0).torch().exported_with().substr(0, 2) == "2.");
  CHECK(set.problems(1).name() == "10_Scaled");
  REQUIRE(set.problems(1).torch().scalars_size() == 1);
  CHECK(set.problems(1).torch().scalars(0).position() == 1);
  CHECK(set.problems(1).torch().scalars(0).value() == 2.5);
  REQUIRE(set.problems(2).torch().scalars_size() == 1);
  CHECK(set.problems(2).torch().scalars(0).value() == 1);
  CHECK(problem::Validate(set).ok());
  REQUIRE(imported->skipped.size() == 4);
  CHECK(imported->skipped[0] == "level1/2_Second: aten.kthvalue.default is not supported");
  CHECK(imported->skipped[1] == "level1/3_Raises: ValueError: no");
  CHECK(imported->skipped[2] == "level1/4_Dies: PyTorch ended while it exported the module");
  CHECK(imported->skipped[3] ==
        "level1/5_Counts: ValueError: forward changes 'n', which is no buffer");
}

TEST_CASE("a first file that ends PyTorch is this file's fault alone", "[import]") {
  const Checkout checkout;
  const ImportOptions options = checkout.modules();
  if (NoPython(options)) return;
  checkout.Add("a_dies.py", "os.kill(os.getpid(), 11)", "[torch.rand(3)]");
  checkout.Add("b_relu.py", "return torch.relu(x)", "[torch.rand(3)]");
  const auto imported = ImportModules(options);
  REQUIRE(imported.status().message() == "");
  CHECK(imported->set.problems_size() == 1);
  REQUIRE(imported->skipped.size() == 1);
  CHECK(imported->skipped[0] == "a_dies: PyTorch ended while it exported the module");
}

TEST_CASE("forward may take gradients of what it computes, and a constructor cast its weights",
          "[import]") {
  const Checkout checkout;
  const ImportOptions options = checkout.modules();
  if (NoPython(options)) return;
  const auto forward = [](const char* loss) {
    return absl::StrCat(
        "x = x.detach().requires_grad_(True)\n        with torch.enable_grad():\n            y = ",
        loss, "\n        return torch.autograd.grad(y, x, more[0])[0]");
  };
  const char* const inputs = "[torch.rand(7, 5), torch.rand(7, 5)]";
  checkout.Add("a_layer_norm.py", forward("torch.nn.functional.layer_norm(x, (5,))"), inputs);
  checkout.Add("b_softmax.py", forward("torch.log_softmax(x, 1)"), inputs);
  checkout.Add("c_group_norm.py", forward("torch.nn.functional.group_norm(x, 1)"), inputs);
  checkout.Add("d_half.py",
               "return self.norm(x)\n    def __init__(self):\n        super().__init__()\n"
               "        self.norm = torch.nn.LayerNorm(5).half()",
               "[torch.rand(7, 5).half()]");
  const auto imported = ImportModules(options);
  REQUIRE(imported.status().message() == "");
  CHECK(imported->skipped == std::vector<std::string>());
  REQUIRE(imported->set.problems_size() == 4);
  // What a backward pass needs of the forward pass is computed, and no constant.
  CHECK(imported->set.problems(1).graph_size() > 6);
  CHECK(imported->set.problems(3).graph(1) == "param norm.weight: f16[5] ~ constant(1)");
}

TEST_CASE("what asks for a card is imported without one", "[import]") {
  const Checkout checkout;
  const ImportOptions options = checkout.modules();
  if (NoPython(options)) return;
  checkout.Add("a_slice.py",
               "return x.t()[1:].contiguous().to(torch.device('cuda')) @ more[0].cuda()",
               "[torch.rand(7, 5, device='cuda'), torch.rand(7, 3, device='cuda:0')]");
  checkout.Add("b_eight_bits.py",
               "return (x / 2).to(torch.float8_e4m3fn).float() * torch.arange(5, device=x.device)",
               "[torch.rand(7, 5).to('cuda')]");
  checkout.Add("c_eight_bits_out.py", "return x.to(torch.float8_e4m3fn)", "[torch.rand(7, 5)]");
  checkout.Add("d_eight_bits_in.py", "return x.float() * more[0]",
               "[torch.rand(7, 5).to(torch.float8_e4m3fn), torch.rand(7, 1)]");
  const auto imported = ImportModules(options);
  REQUIRE(imported.status().message() == "");
  REQUIRE(imported->skipped.size() == 1);
  INFO(imported->skipped[0]);
  CHECK(absl::StrContains(imported->skipped[0], "an output is of type float8_e4m3fn"));
  REQUIRE(imported->set.problems_size() == 3);
  CHECK(imported->set.problems(2).graph(0) == "input x: u8[7, 5] ~ integers(0, 127)");
  CHECK(absl::StrContains(imported->set.problems(2).graph(1), "f16(e4m3_of_bits(f32(x[i, j])))"));
}

TEST_CASE("an output that repeats a tensor is that tensor, and a bound may be infinite",
          "[import]") {
  const Checkout checkout;
  const ImportOptions options = checkout.modules();
  if (NoPython(options)) return;
  checkout.Add("a_repeats.py",
               "return (x.clamp(max=more[0]) * 2).unsqueeze(-1).expand(-1, -1, 3), x.abs()",
               "[torch.rand(7, 5), float('inf')]");
  const auto imported = ImportModules(options);
  REQUIRE(imported.status().message() == "");
  REQUIRE(imported->set.problems_size() == 1);
  const v1::Problem& problem = imported->set.problems(0);
  const v1::TorchModule& torch = problem.torch();
  REQUIRE(torch.scalars_size() == 1);
  CHECK(torch.scalars(0).value() == std::numeric_limits<double>::infinity());
  REQUIRE(torch.views_size() == 2);
  const auto numbers = [](const auto& field) {
    return std::vector<int64_t>(field.begin(), field.end());
  };
  CHECK(numbers(torch.views(0).sizes()) == std::vector<int64_t>{7, 5, 3});
  CHECK(numbers(torch.views(0).strides()) == std::vector<int64_t>{5, 1, 0});
  CHECK(torch.views(1).strides().empty());
  CHECK(absl::StrContains(problem.graph(3), "unsqueeze: f32[i: 7, j: 5, k: 1] ="));
}

TEST_CASE("graphs of several workloads become one text", "[import]") {
  const WorkloadText small{"small", {{"R", 3}, {"C", 8}, {"unused", 1}}, {}};
  const WorkloadText large{"large", {{"R", 5}, {"C", 9}, {"unused", 2}}, {}};
  struct Case {
    std::vector<std::string> small, large, merged;
    graph::Dims first, second;
    const char* error;
  };
  const Case cases[] = {
      {{"input x: f32[3, 8]", "y: f32[i: 3] = sum[j: 8](x[i, j]) / 8"},
       {"input x: f32[5, 9]", "y: f32[i: 5] = sum[j: 9](x[i, j]) / 9"},
       {"input x: f32[R, C]", "y: f32[i: R] = sum[j: C](x[i, j]) / C"},
       {{"R", 3}, {"C", 8}},
       {{"R", 5}, {"C", 9}},
       ""},
      // a number of no dimension's, one that is the same, one with an exponent, one of two names
      {{"y: f32[i: 24, j: 2] = x[i] * 100000 + 8"},
       {"y: f32[i: 45, j: 2] = x[i] * 1e+06 + 9"},
       {"y: f32[i: N0, j: 2] = x[i] * N1 + C"},
       {{"N0", 24}, {"N1", 100000}, {"C", 8}},
       {{"N0", 45}, {"N1", 1000000}, {"C", 9}},
       ""},
      // a name that is taken
      {{"input C: f32[8]"},
       {"input C: f32[9]"},
       {"input C: f32[C_]"},
       {{"C_", 8}},
       {{"C_", 9}},
       ""},
      {{"y: f32[i: 3] = x[i] * 0.5"}, {"y: f32[i: 5] = x[i] * 0.25"}, {}, {}, {}, "0.25"},
      {{"y: f32[i: 3] = x[i]"}, {"y: f32[i: 5] = x[i] + 1"}, {}, {}, {}, "more than sizes"},
      {{"y: f32[i: 3] = x[i]"}, {}, {}, {}, {}, "a graph of 0 lines, and 'small' one of 1"},
  };
  for (const Case& c : cases) {
    WorkloadText first = small, second = large;
    first.lines = c.small, second.lines = c.large;
    const auto merged = MergeTexts({first, second});
    if (*c.error != 0) {
      CHECK_THAT(std::string(merged.status().message()), Catch::Contains(c.error));
      continue;
    }
    REQUIRE(merged.status().message() == "");
    CHECK(merged->lines == c.merged);
    CHECK(merged->dims == std::vector<graph::Dims>{c.first, c.second});
  }
  CHECK(MergeTexts({{"default", {}, {"input x: f32[3]"}}})->lines[0] == "input x: f32[3]");
}

TEST_CASE("an input that forward changes is one, whether it is given back or not", "[import]") {
  const Checkout checkout;
  const ImportOptions options = checkout.modules();
  if (NoPython(options)) return;
  const std::string inputs = "[torch.rand(4), torch.rand(4, 5)]";
  checkout.Add("m1.py", "c = more[0]\n        c[:, 2] = x\n        return c, c[:, :3], x + 1",
               inputs);
  checkout.Add("m2.py", "more[0].mul_(2)\n        return more[0] + 1", inputs);
  checkout.Add("m3.py", "return more[0].add_(x[:, None])", inputs);
  checkout.Add("m4.py", "more[0].add_(x[:, None])", inputs);
  checkout.Add("m5.py", "more[0].add_(x[:, None])\n        return more[0].clone()", inputs);
  // several workloads share no views
  checkout.Add("m6.py", "c = more[0].add_(x[:, None])\n        return c[:, :3], c",
               inputs +
                   "\nWORKLOADS = {'a': {'R': 3}, 'b': {'R': 7}}\n"
                   "get_inputs = lambda R: [torch.rand(R), torch.rand(R, 5)]");
  const auto imported = ImportModules(options);
  REQUIRE(imported.status().message() == "");
  CHECK(imported->skipped == std::vector<std::string>());
  const auto given = [](const v1::Problem& problem) {
    return std::vector<int>(problem.torch().outputs().begin(), problem.torch().outputs().end());
  };
  const v1::ProblemSet& set = imported->set;
  REQUIRE(set.problems_size() == 6);
  const v1::Problem& cache = set.problems(0);
  CHECK(cache.graph(0) == "input x: f32[4] ~ uniform(0, 1)");
  CHECK(cache.graph(1) == "inout more_0: f32[4, 5] ~ uniform(0, 1)");
  CHECK(given(cache) == std::vector<int>{2, 2, 0});  // the second input, after one output
  REQUIRE(cache.torch().views_size() == 3);
  CHECK(cache.torch().views(0).strides_size() == 0);
  CHECK(absl::StrJoin(cache.torch().views(1).sizes(), " ") == "4 3");
  CHECK(absl::StrJoin(cache.torch().views(1).strides(), " ") == "5 1");
  CHECK(given(set.problems(1)) == std::vector<int>());
  CHECK(given(set.problems(2)) == std::vector<int>{1});
  CHECK(given(set.problems(3)) == std::vector<int>());
  const auto outputs = [](const v1::Problem& problem) {
    return std::count_if(problem.graph().begin(), problem.graph().end(),
                         [](const auto& line) { return absl::StartsWith(line, "output"); });
  };
  for (int i = 0; i < 6; ++i) {
    CHECK(outputs(set.problems(i)) == std::vector<int>{1, 1, 0, 0, 1, 1}[i]);
    const std::string& last = set.problems(i).graph(set.problems(i).graph_size() - 1);
    CHECK(absl::StartsWith(last, "update more_0 = "));
  }
  CHECK(given(set.problems(5)) == std::vector<int>{0, 2});
}

TEST_CASE("a file of several workloads is one problem, if they are alike", "[import]") {
  const Checkout checkout;
  const ImportOptions options = checkout.modules();
  if (NoPython(options)) return;
  const std::string several =
      "[torch.rand(R, 4)]\nWORKLOADS = {'a': {'R': 3}, 'b': {'R': 70}, 'c': {'R': 4}}\n";
  checkout.Add("scaled.py", "return x * 2", several + "get_inputs = lambda R: [torch.rand(R, 4)]");
  checkout.Add("differs.py", "return x * 2 if x.shape[0] < 9 else x + 1",
               several + "get_inputs = lambda R: [torch.rand(R, 4)]");
  checkout.Add("empty.py", "return torch.cat([more[0], x * 2])",
               "[torch.rand(3, 4), torch.rand(0, 4)]");
  checkout.Add("twice.py", "y = x * 2\n        return y, x + 1, y, y.clone()", "[torch.rand(3)]");
  const auto imported = ImportModules(options);
  REQUIRE(imported.status().message() == "");
  const v1::ProblemSet& set = imported->set;
  CHECK(set.name() == "level1");
  CHECK(imported->skipped == std::vector<std::string>());
  REQUIRE(set.problems_size() == 5);
  const v1::Problem &few = set.problems(0), &many = set.problems(1), &empty = set.problems(2),
                    &scaled = set.problems(3), &twice = set.problems(4);
  const auto& given = twice.torch().outputs();
  CHECK(std::vector<int>(given.begin(), given.end()) == std::vector<int>{0, 1, 0, 2});
  CHECK(twice.graph(twice.graph_size() - 1) == "output clone.copy");
  CHECK(empty.torch().scalars(0).empty_shape_size() == 2);
  CHECK(empty.torch().scalars(0).position() == 1);
  CHECK(scaled.name() == "scaled");
  CHECK(scaled.graph(0) == "input x: f32[R, 4] ~ uniform(0, 1)");
  REQUIRE(scaled.workloads_size() == 3);
  CHECK(scaled.workloads(1).name() == "b");
  CHECK(scaled.workloads(1).dims().at("R") == 70);
  // What differs in more than sizes is a problem of its own.
  CHECK(few.name() == "differs_a");
  CHECK(few.torch().path() == "differs_a.py");
  REQUIRE(few.workloads_size() == 2);
  CHECK(few.workloads(1).name() == "c");
  CHECK(many.name() == "differs_b");
  REQUIRE(many.workloads_size() == 1);
  CHECK(many.workloads(0).name() == "b");
  ImportOptions missing = options;
  missing.only = "scaled,missing";
  CHECK(ImportModules(missing).status().code() == absl::StatusCode::kNotFound);
}

TEST_CASE("the order of axes is what the strides say, the same for all workloads", "[import]") {
  using Output = Dump::Output;
  struct Case {
    std::vector<Output> workloads;
    AxisOrder order;
    const char* error = "";
  };
  const Case cases[] = {
      {{{"y", {}, {}}}, {}},
      {{{"y", {4, 3, 5}, {15, 5, 1}}}, {0, 1, 2}},
      {{{"y", {4, 3, 5}, {1, 20, 4}}}, {1, 2, 0}},
      // axes of one element: where the strides put them, else anywhere
      {{{"y", {4, 1, 5}, {1, 20, 4}}}, {1, 2, 0}},
      {{{"y", {4, 1, 5}, {5, 5, 1}}}, {0, 1, 2}},
      {{{"y", {1, 4, 5}, {5, 5, 1}}}, {1, 0, 2}},
      {{{"y", {1, 4, 5}, {77, 5, 1}}}, {0, 1, 2}},
      {{{"y", {1, 1}, {0, 0}}}, {0, 1}},
      // one order for all
      {{{"y", {4, 3, 5}, {1, 20, 4}}, {"y", {7, 2, 9}, {1, 63, 7}}}, {1, 2, 0}},
      {{{"y", {1, 3, 5}, {15, 5, 1}}, {"y", {7, 2, 9}, {1, 63, 7}}}, {1, 2, 0}},
      {{{"y", {3, 5}, {5, 1}}, {"y", {4, 6}, {1, 4}}},
       {},
       "forward's tensor 0 has strides (5, 1) for shape (3, 5) in workload 'w0' and strides (1, 4) "
       "for shape (4, 6) in workload 'w1'"},
  };
  for (const Case& c : cases) {
    std::vector<Dump> dumps;
    for (const Output& output : c.workloads) {
      dumps.emplace_back();
      dumps.back().workload = absl::StrCat("w", dumps.size() - 1);
      dumps.back().outputs = {output};
    }
    const auto orders = OrdersOf(dumps);
    if (*c.error != 0) {
      CHECK_THAT(std::string(orders.status().message()), Catch::StartsWith(c.error));
      continue;
    }
    REQUIRE(orders.status().message() == "");
    CHECK(*orders == std::vector<AxisOrder>{c.order});
  }
}

TEST_CASE("outputs are stored as PyTorch's tensors lie in memory", "[import]") {
  const Checkout checkout;
  const ImportOptions options = checkout.modules();
  if (NoPython(options)) return;
  struct Case {
    const char* forward;
    std::vector<AxisOrder> orders;  // none: all outputs are row major
    std::vector<int> outputs = {};
    const char* line = "";                // the last before the outputs
    std::vector<std::string> views = {};  // sizes; strides; offset
  };
  const std::string inputs = "[torch.rand(2, 3, 5), torch.rand(2, 5, 3)]";
  const Case cases[] = {
      {"return x.transpose(1, 2) + more[0]",
       {{0, 2, 1}},
       {},
       "add.stored: f32[i: 2, j: 3, k: 5] = add[i, k, j]"},
      {"return x.transpose(1, 2).contiguous() + more[0]", {}},
      {"return more[0] * 2 + x.transpose(1, 2)", {}},
      {"return torch.softmax(x.permute(2, 0, 1), 0)", {}},
      // of an input, and of another output; one twice
      {"return x.permute(2, 0, 1), x + 1", {}, {1, 0}, "", {"5 2 3; 1 15 5; 0", "; ; 0"}},
      {"y = x * 2\n        return y, y.transpose(0, 1), y", {{0, 1, 2}, {1, 0, 2}}, {0, 1, 0}},
      {"y = x.transpose(1, 2) * 2\n        return y, more[0], y", {{0, 2, 1}}, {0, 2, 0}},
      // what repeats another tensor is a view of it
      {"return (x[:, :1] * 2).expand(2, 3, 5)", {}, {}, "", {"2 3 5; 5 0 1; 0"}},
      // what is not dense lies as its copy does
      {"return (x * 2)[:, 1:2]", {}},
      {"return (x * 2).transpose(0, 2)[::3]", {{2, 1, 0}}},
      // parts of one tensor: together half of it, or of one that is computed for something else,
      // too
      {"return (x * 2)[:, ::2]", {}, {}, "", {"2 2 5; 15 10 1; 0"}},
      {"return (x * 2).transpose(0, 2)[::2]", {}, {}, "", {"3 3 2; 2 5 15; 0"}},
      {"a, b, c = (x * 2).split([2, 2, 1], 2)\n        return c, a, b",
       {},
       {0, 0, 0},
       "mul: f32[i: 2, j: 3, k: 5] = x[i, j, k] * 2",
       {"2 3 1; 15 5 1; 4", "2 3 2; 15 5 1; 0", "2 3 2; 15 5 1; 2"}},
      {"y = x * 2\n        return y[:, 1], (y[:, :1] + 1).sum(), x + 1",
       {},
       {},
       "",
       {"2 5; 15 1; 5", "; ; 0", "; ; 0"}},
      {"y = (x * 2).transpose(1, 2)\n        return y[:, :2], y[:, 2:]",
       {},
       {0, 0},
       "",
       {"2 2 3; 15 1 5; 0", "2 3 3; 15 1 5; 2"}},
      {"y = x * 2\n        return y[:, :1], y[:, 2:]",
       {},
       {0, 0},
       "",
       {"2 1 5; 15 5 1; 0", "2 1 5; 15 5 1; 10"}},
      {"return x[:, :1], x[:, 1:]", {}},  // nothing else is left to do
      {"return x[:, :1], x + 1, x", {}, {1, 0, 1}, "", {"2 1 5; 15 5 1; 0", "; ; 0", "; ; 0"}},
      // what is computed in place lies where it is
      {"y = torch.zeros(2, 5, 3)\n        return y.add_(x.transpose(1, 2))", {}},
  };
  for (size_t i = 0; i < std::size(cases); ++i) {
    checkout.Add(absl::StrCat("m", i + 10, ".py"), cases[i].forward, inputs);
  }
  const auto imported = ImportModules(options);
  REQUIRE(imported.status().message() == "");
  std::map<std::string, v1::Problem> problems;
  for (const v1::Problem& problem : imported->set.problems()) problems[problem.name()] = problem;
  for (const std::string& why : imported->skipped) UNSCOPED_INFO(why);
  for (size_t i = 0; i < std::size(cases); ++i) {
    INFO(cases[i].forward);
    const auto found = problems.find(absl::StrCat("m", i + 10));
    REQUIRE(found != problems.end());
    const v1::TorchModule& torch = found->second.torch();
    std::vector<AxisOrder> orders;
    for (const v1::AxisOrder& order : torch.orders()) {
      orders.emplace_back(order.axes().begin(), order.axes().end());
    }
    CHECK(orders == cases[i].orders);
    CHECK(std::vector<int>(torch.outputs().begin(), torch.outputs().end()) == cases[i].outputs);
    std::vector<std::string> views;
    for (const v1::View& view : torch.views()) {
      views.push_back(absl::StrCat(absl::StrJoin(view.sizes(), " "), "; ",
                                   absl::StrJoin(view.strides(), " "), "; ", view.offset()));
    }
    CHECK(views == cases[i].views);
    if (*cases[i].line != 0) {
      CHECK(found->second.graph(found->second.graph_size() - 2) == cases[i].line);
    }
  }
}

TEST_CASE("what a file says of its workloads is checked", "[import]") {
  const Checkout checkout;
  const ImportOptions options = checkout.modules();
  if (NoPython(options)) return;
  struct Case {
    const char* workloads;
    const char* get_inputs;
    const char* why;  // that it is left out
  };
  const Case cases[] = {
      {"['a', 'b']", "lambda: []", "WORKLOADS is ['a', 'b']: it must be {name: {dimension: size}}"},
      {"{}", "lambda: []", "WORKLOADS is {}: it must be"},
      {"{3: {}}", "lambda: []", "WORKLOADS: 3 is no name of a workload"},
      {"{'a': 4096}", "lambda: []", "WORKLOADS: 'a' is 4096: it must be {dimension: size}"},
      {"{'a': {'R C': 3}}", "lambda: []", "WORKLOADS: 'a': 'R C' is no name for an argument"},
      {"{'a': {'R': 3}, 'b': {'R': 2.5}}", "lambda R: []",
       "WORKLOADS: 'b': dimension 'R' is 2.5: it must be a whole number above 0"},
      {"{'a': {'R': 0}}", "lambda R: []", "dimension 'R' is 0"},
      {"{'a': {'R': True}}", "lambda R: []", "dimension 'R' is True"},
      {"{'a': {'R': 3}, 'b': {'C': 3}}", "lambda R=1, C=1: []",
       "WORKLOADS: 'b' has the dimensions C, and the first workload R"},
      {"{'a': {'R': 3, 'C': 4}}", "lambda R: []",
       "workload 'a': get_inputs(R): got an unexpected keyword argument 'C'; it must take all"},
      {"{'a': {'R': 3}}", "lambda R, C: []",
       "workload 'a': get_inputs(R, C): missing a required argument: 'C'; it must take all"},
      {nullptr, "lambda R: []",
       "get_inputs(R): missing a required argument: 'R'; give its parameters defaults"},
  };
  for (size_t i = 0; i < std::size(cases); ++i) {
    const std::string workloads =
        cases[i].workloads == nullptr ? "" : absl::StrCat("\nWORKLOADS = ", cases[i].workloads);
    checkout.Add(absl::StrCat("m", i + 10, ".py"), "return x",
                 absl::StrCat("[]", workloads, "\nget_inputs = ", cases[i].get_inputs));
  }
  const auto imported = ImportModules(options);
  REQUIRE(imported.status().message() == "");
  REQUIRE(imported->skipped.size() == std::size(cases));
  for (size_t i = 0; i < std::size(cases); ++i) {
    CHECK_THAT(imported->skipped[i],
               Catch::StartsWith(absl::StrCat("m", i + 10, ": ValueError: ")) &&
                   Catch::Contains(cases[i].why));
  }
}

TEST_CASE("inputs are drawn as the file draws them, near enough", "[import]") {
  const std::pair<const char*, const char*> draws[] = {
      {"torch.rand(3)", "f32[3] ~ uniform(0, 1)"},
      {"torch.rand(3) * 2 - 1", "f32[3] ~ uniform(-1, 1)"},
      {"1 - torch.rand(3) / 4", "f32[3] ~ uniform(0.75, 1)"},
      {"torch.rand(3) * torch.rand(())", "f32[3] ~ uniform(0, 0.5)"},
      {"torch.rand(()) * torch.rand(3)", "f32[3] ~ uniform(0, 0.5)"},
      {"torch.rand(2, 3).view(6).half()", "f16[6] ~ uniform(0, 1)"},
      {"torch.randn(3)", "f32[3] ~ normal"},
      {"torch.randn(3) * 3 + 1", "f32[3] ~ normal(1, 3)"},
      {"torch.empty(3).uniform_(-2, 5)", "f32[3] ~ uniform(-2, 5)"},
      {"torch.randint(2, 9, (3,))", "i64[3] ~ integers(2, 9)"},
      {"torch.randint(0, 2, (3,)).float() * 2 - 1", "f32[3] ~ integers(-1, 2)"},
      {"torch.randint(0, 2, (3,)).bool()", "bool[3] ~ integers(0, 2)"},
      {"torch.zeros(3)", "f32[3] ~ constant(0)"},
      {"torch.normal(torch.zeros(3), torch.rand(()))", "f32[3] ~ normal"},
      {"torch.full((3,), 2.5)", "f32[3] ~ constant(2.5)"},
      {"torch.rand(3, 4).softmax(dim=-1)", "f32[3, 4] ~ uniform(0.125, 0.375)"},
  };
  const Checkout checkout;
  const ImportOptions options = checkout.options();
  if (NoPython(options)) return;
  std::string inputs;
  for (const auto& [code, text] : draws) inputs += std::string(inputs.empty() ? "[" : ", ") + code;
  checkout.Add("1_Draws.py", "return x + 1", inputs + "]");
  const auto imported = ImportKernelBench(options);
  REQUIRE(imported.status().message() == "");
  REQUIRE(imported->set.problems_size() == 1);
  int line = 0;
  for (const auto& [code, text] : draws) {
    INFO(code);
    const std::string& input = imported->set.problems(0).graph(line++);
    CHECK(input.substr(input.find(": ") + 2) == text);
  }
}

}  // namespace
}  // namespace warpsmith::import
