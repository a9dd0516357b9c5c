// The set of problems as they occur in models: every workload loads, moves what its name says and
// is lowered; and what PyTorch makes of the same problems agrees with the graphs.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "cli/import/import.h"
#include "common/graph/graph.h"
#include "common/graph/partial.h"
#include "common/problem/axis_order.h"
#include "common/problem/problem.h"
#include "worker/codegen/run_and_compare.h"
#include "worker/oracle/compare.h"
#include "worker/oracle/torch_oracle.h"

namespace warpsmith {
namespace {

using oracle::Values;

std::string CacheDir() {
  return (std::filesystem::temp_directory_path() / "warpsmith_models_test").string();
}

v1::ProblemSet Models() {
  auto set = problem::LoadSet(WARPSMITH_PROBLEMS "/models.json");
  INFO(set.status().message());
  REQUIRE(set.ok());
  return *std::move(set);
}

const v1::Problem& Find(const v1::ProblemSet& set, const std::string& name) {
  for (const v1::Problem& problem : set.problems()) {
    if (problem.name() == name) return problem;
  }
  FAIL("models.json has no '" << name << "'");
  std::abort();
}

// What a run moves; of a state that keeps a part, all that whoever copies it would.
double BytesOf(const graph::Graph& graph) {
  int64_t bytes = graph::Count(graph).bytes();
  for (const auto& update : graph.updates) {
    if (graph::PartialUpdateOf(graph, update)) bytes += 2 * graph.tensors[update.state].bytes();
  }
  return static_cast<double>(bytes);
}

TEST_CASE("every problem of the models has three sizes") {
  const std::pair<const char*, double> sizes[] = {{"small", 1e5}, {"middle", 1e7}, {"large", 5e8}};
  const v1::ProblemSet set = Models();
  CHECK(set.problems_size() >= 60);
  for (const v1::Problem& problem : set.problems()) {
    REQUIRE(problem.workloads_size() == 3);
    for (int w = 0; w < 3; ++w) {
      const v1::Workload& workload = problem.workloads(w);
      INFO(problem.name() << ", " << workload.name());
      CHECK(workload.name() == sizes[w].first);
      const double bytes = BytesOf(problem::GraphOf(problem, workload).value());
      INFO(bytes << " bytes");
      CHECK(bytes > 0.7 * sizes[w].second);
      CHECK(bytes < 1.4 * sizes[w].second);
    }
  }
}

// Products with what stands round them (problems/products): modules whose graphs PyTorch writes.
TEST_CASE("products of models are imported whole, and lowered for a card at every size") {
  const char* python = std::getenv("WARPSMITH_PYTHON");
  if (python == nullptr) {
    WARN("WARPSMITH_PYTHON names no interpreter with PyTorch: not tested");
    return;
  }
  import::ImportOptions options;
  options.python = python;
  options.python_path = WARPSMITH_PYTHON_PATH;
  options.directory = WARPSMITH_PROBLEMS "/products";
  // A sample, but where there is time: one of each type, with few and with many rows.
  if (std::getenv("WARPSMITH_TEST_THOROUGH") == nullptr)
    options.only =
        "ada_norm_mlp_gate_bf16,fp8_blocks_linear_bf16,int4_group_linear_residual_fp16,"
        "late_interaction_fp16,lm_head_backward_bf16,patch_merging_bf16,rms_norm_w8a8_linear_bf16,"
        "uint4_packed_relu2_mlp_bf16";
  const auto imported = import::ImportModules(options);
  REQUIRE(imported.status().message() == "");
  CHECK(imported->skipped.empty());
  const codegen::Target target;
  for (const v1::Problem& problem : imported->set.problems()) {
    for (const v1::Workload& workload : problem.workloads()) {
      INFO(problem.name() << ", " << workload.name());
      const graph::Graph graph = problem::GraphOf(problem, workload).value();
      const v1::Schedule schedule = codegen::DefaultSchedule(graph, target);
      CHECK(codegen::Lower(graph, schedule, target).status().message() == "");
      const auto groups = codegen::Describe(graph, schedule, target);
      REQUIRE(groups.status().message() == "");
      // What is quantised is multiplied in one pass of 16 bits, or eight.
      const bool quantised = problem.name().find("int4") == 0 || problem.name().find("fp8") == 0 ||
                             problem.name().find("w8") != std::string::npos;
      for (const codegen::GroupInfo& group : *groups) {
        if (quantised && group.skeleton == v1::Group::kContract)
          CHECK((group.resolved.contract().math() == v1::PRODUCT_TENSOR ||
                 group.resolved.contract().math() == v1::PRODUCT_FP8 ||
                 group.resolved.contract().math() == v1::PRODUCT_FEW));
      }
    }
  }
}

TEST_CASE("every workload of the models is lowered") {
  const v1::ProblemSet set = Models();
  for (const v1::Problem& problem : set.problems()) {
    for (const v1::Workload& workload : problem.workloads()) {
      INFO(problem.name() << ", " << workload.name());
      const graph::Graph graph = problem::GraphOf(problem, workload).value();
      const codegen::Target target = codegen::TestTarget();
      const auto plan = codegen::Lower(graph, codegen::DefaultSchedule(graph, target), target);
      CHECK(plan.status().message() == "");
    }
  }
}

// ---- in PyTorch -----------------------------------------------------------------------------

// What an answer in the type may be off by, over the larger of it and the answers' rms.
double AccuracyOf(graph::DType type) {
  switch (type) {
    case graph::DType::kF16:
      return 0x1p-8;
    case graph::DType::kBF16:
      return 0x1p-5;
    default:
      return 5e-5;
  }
}

// An empty text, or what differs.
std::string Difference(graph::DType type, const Values& got, const Values& want) {
  if (got.size() != want.size()) return "another number of elements";
  double squares = 0;
  for (double v : want) squares += std::isfinite(v) ? v * v : 0;
  const double rms = std::sqrt(squares / static_cast<double>(want.size()));
  int64_t apart = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    if (got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i]))) continue;
    // What PyTorch rounds in fp32 before it rounds it to a whole number may be next to it.
    const bool tie = graph::IsNarrow(type) && std::abs(got[i] - want[i]) == 1 &&
                     ++apart <= 1 + static_cast<int64_t>(want.size()) / 1000;
    if (tie) continue;
    if (graph::IsFloat(type) &&
        std::abs(got[i] - want[i]) <= AccuracyOf(type) * std::max(rms, std::abs(want[i]))) {
      continue;
    }
    return "element " + std::to_string(i) + " is " + std::to_string(got[i]) +
           ", and PyTorch says " + std::to_string(want[i]);
  }
  return "";
}

// Evaluates a graph on inputs by name and compares with PyTorch's answers; those after the outputs
// are states, by name.
void CheckAnswers(const graph::Graph& graph, const std::map<std::string, Values>& inputs,
                  const std::vector<Values>& outputs, const std::map<std::string, Values>& states) {
  std::vector<Values> given;
  for (const graph::Tensor& tensor : graph.tensors) {
    if (tensor.node >= 0) continue;
    INFO("input " << tensor.name);
    REQUIRE(inputs.count(tensor.name) == 1);
    given.push_back(inputs.at(tensor.name));
  }
  const auto got = oracle::EvaluateOnHost(graph, given, /*round_to_type=*/true);
  REQUIRE(got.status().message() == "");
  REQUIRE(graph.outputs.size() == outputs.size());
  for (size_t o = 0; o < outputs.size(); ++o) {
    const graph::Tensor& tensor = graph.tensors[graph.outputs[o]];
    INFO("output " << tensor.name);
    CHECK(Difference(tensor.type, (*got)[o], outputs[o]) == "");
  }
  REQUIRE(graph.updates.size() == states.size());
  for (size_t u = 0; u < graph.updates.size(); ++u) {
    const graph::Tensor& state = graph.tensors[graph.updates[u].state];
    INFO("state " << state.name);
    REQUIRE(states.count(state.name) == 1);
    CHECK(Difference(state.type, (*got)[outputs.size() + u], states.at(state.name)) == "");
  }
}

// A tensor, whose axes lie in memory in `order`, with its axes in their own.
Values InOwnOrder(const Values& stored, const std::vector<int64_t>& shape,
                  const v1::AxisOrder& order) {
  std::vector<int64_t> own(shape.size());
  for (size_t i = 0; i < own.size(); ++i) own[order.axes(static_cast<int>(i))] = shape[i];
  const std::vector<int64_t> strides = problem::StridesIn(order.axes(), own);
  Values values(stored.size());
  for (size_t i = 0; i < values.size(); ++i) {
    auto left = static_cast<int64_t>(i);
    int64_t place = 0;
    for (size_t axis = own.size(); axis-- > 0; left /= own[axis]) {
      place += left % own[axis] * strides[axis];
    }
    values[i] = stored[place];
  }
  return values;
}

// Imports the modules of these names (all if empty) and compares the small workload of each.
void CheckTwins(const std::string& only) {
  import::ImportOptions options;
  const char* python = std::getenv("WARPSMITH_PYTHON");
  if (python == nullptr) {
    WARN("WARPSMITH_PYTHON names no interpreter with PyTorch: not tested");
    return;
  }
  options.python = python;
  options.python_path = WARPSMITH_PYTHON_PATH;
  options.directory = WARPSMITH_PROBLEMS "/models";
  options.only = only;
  const auto imported = import::ImportModules(options);
  REQUIRE(imported.status().message() == "");
  CHECK(imported->set.name() == "models");
  for (const std::string& why : imported->skipped) FAIL_CHECK(why);

  const v1::ProblemSet models = Models();
  auto device = device::MakeDevice("host").value();
  auto compiler = device::MakeCompiler("host", CacheDir()).value();
  auto comparer = oracle::Comparer::Make(*device, *compiler).value();
  const auto read = [&](const graph::Tensor& tensor, device::Memory& memory) {
    std::vector<int64_t> positions(tensor.elements());
    for (size_t i = 0; i < positions.size(); ++i) positions[i] = static_cast<int64_t>(i);
    return comparer->Gather(tensor.type, memory, positions).value();
  };
  oracle::TorchOracleOptions torch;
  torch.python = options.python;
  torch.python_path = options.python_path;
  torch.device = "cpu";
  torch.child = oracle::StartTorch(torch).value();
  torch.workload = "small";
  for (const v1::Problem& problem : imported->set.problems()) {
    INFO(problem.name());
    const v1::Problem& own = Find(models, problem.name());
    CHECK(problem.description() == own.description());
    REQUIRE(problem.workloads_size() == own.workloads_size());
    for (int w = 0; w < own.workloads_size(); ++w) {
      CHECK(problem.workloads(w).name() == own.workloads(w).name());
    }
    const graph::Graph graph = problem::GraphOf(problem, problem.workloads(0)).value();
    auto oracle = oracle::MakeTorchOracle(torch, problem, graph);
    REQUIRE(oracle.status().message() == "");
    auto drawn = (*oracle)->Draw(*device, 3, oracle::Variation::kNone);
    REQUIRE(drawn.status().message() == "");
    std::map<std::string, Values> inputs, states;
    std::vector<Values> outputs;
    size_t next = 0;
    for (const graph::Tensor& tensor : graph.tensors) {
      if (tensor.node < 0) inputs[tensor.name] = read(tensor, *drawn->inputs[next++]);
    }
    for (int output : graph.outputs) {
      outputs.push_back(read(graph.tensors[output], *drawn->answers[outputs.size()]));
    }
    for (const graph::Graph::Update& update : graph.updates) {
      const graph::Tensor& state = graph.tensors[update.state];
      states[state.name] = read(state, *drawn->answers[outputs.size() + states.size()]);
    }
    {
      INFO("the graph that was imported");
      CheckAnswers(graph, inputs, outputs, states);
    }
    for (int i = 0; i < problem.torch().orders_size(); ++i) {
      outputs[i] =
          InOwnOrder(outputs[i], graph.tensors[graph.outputs[i]].shape, problem.torch().orders(i));
    }
    INFO("the graph of models.json");
    CheckAnswers(problem::GraphOf(own, own.workloads(0)).value(), inputs, outputs, states);
  }
}

TEST_CASE("the models agree with PyTorch", "[torch]") {
  const bool thorough = std::getenv("WARPSMITH_TEST_THOROUGH") != nullptr;
  CheckTwins(thorough ? ""
                      : "adamw_fp32,cache_slots_fp16,dequantise_int4_bf16,rotary_interleaved_fp32,"
                        "transpose_add_fp32");
}

}  // namespace
}  // namespace warpsmith
