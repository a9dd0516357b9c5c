#include "common/problem/problem.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/file.h"
#include "common/base/sha256.h"
#include "common/problem/axis_order.h"

namespace warpsmith::problem {
namespace {

constexpr int kMaxNameBytes = 200;

absl::Status Wrong(const std::string& message) { return absl::InvalidArgumentError(message); }

// The same error with where it happened before it.
absl::Status In(const std::string& where, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(where, ": ", std::string(status.message())));
}

// File names and URLs are made of it.
absl::Status ValidateName(const std::string& name) {
  const bool good = !name.empty() && name.size() <= kMaxNameBytes && name != "." && name != ".." &&
                    std::all_of(name.begin(), name.end(), [](unsigned char c) {
                      return std::isalnum(c) || c == '_' || c == '.' || c == '-';
                    });
  if (good) return absl::OkStatus();
  return Wrong(absl::StrCat("'", name, "' is no name: use 1 to ", kMaxNameBytes,
                            " of letters, digits, '_', '.' and '-'"));
}

absl::Status ValidateAccuracy(const v1::AccuracyRule& rule) {
  for (double tolerance : {rule.absolute(), rule.relative()}) {
    // An infinite one would let everything pass.
    if (!std::isfinite(tolerance) || tolerance < 0) {
      return Wrong(
          absl::StrCat("accuracy: a tolerance is finite and not negative, not ", tolerance));
    }
  }
  return absl::OkStatus();
}

absl::Status ValidateBaselines(const v1::TorchModule& torch) {
  for (const std::string& name : torch.baselines()) {
    if (name == "eager" || name == "compile" || name == "max" || name == "graph") continue;
    return Wrong(absl::StrCat("torch.baselines: there is no '", name,
                              "'; there are eager, compile, max and graph"));
  }
  return absl::OkStatus();
}

// Each output of the graph must have its order, where any has one.
absl::Status ValidateOrders(const v1::TorchModule& torch, const graph::Graph& graph) {
  if (torch.orders().empty()) return absl::OkStatus();
  if (torch.orders_size() != static_cast<int>(graph.outputs.size())) {
    return Wrong(absl::StrCat("torch.orders: there are ", torch.orders_size(), " for ",
                              graph.outputs.size(), " outputs"));
  }
  for (int i = 0; i < torch.orders_size(); ++i) {
    const size_t rank = graph.tensors[graph.outputs[i]].shape.size();
    if (IsOrder(torch.orders(i).axes(), rank)) continue;
    return Wrong(absl::StrCat("torch.orders: [", absl::StrJoin(torch.orders(i).axes(), ", "),
                              "] is no order of the ", rank, " axes of output ", i));
  }
  return absl::OkStatus();
}

// The tensor of the graph that forward gives by this number (TorchModule.outputs); -1: there is
// none.
int GivenTensor(const graph::Graph& graph, int output) {
  const int outputs = static_cast<int>(graph.outputs.size());
  if (output >= 0 && output < outputs) return graph.outputs[output];
  int place = output - outputs;
  for (size_t t = 0; place >= 0 && t < graph.tensors.size(); ++t) {
    if (graph.tensors[t].given() && place-- == 0) return static_cast<int>(t);
  }
  return -1;
}

// All of the graph's outputs are among what forward gives.
absl::Status ValidateGiven(const v1::TorchModule& torch, const graph::Graph& graph) {
  if (torch.outputs().empty()) return absl::OkStatus();
  std::set<int> given;
  for (const int output : torch.outputs()) {
    given.insert(output);
    if (GivenTensor(graph, output) < 0)
      return Wrong(absl::StrCat("torch.outputs: there is no output ", output));
  }
  for (int output = 0; output < static_cast<int>(graph.outputs.size()); ++output) {
    if (given.count(output) == 0)
      return Wrong(absl::StrCat("torch.outputs: output ", output, " is not among them"));
  }
  return absl::OkStatus();
}

// What forward's tensors are parts of has to have those elements.
absl::Status ValidateViews(const v1::TorchModule& torch, const graph::Graph& graph) {
  if (torch.views().empty()) return absl::OkStatus();
  const int given =
      torch.outputs().empty() ? static_cast<int>(graph.outputs.size()) : torch.outputs_size();
  if (torch.views_size() != given) {
    return Wrong(absl::StrCat("torch.views: there are ", torch.views_size(), " for ", given,
                              " tensors that forward gives"));
  }
  for (int i = 0; i < given; ++i) {
    const v1::View& view = torch.views(i);
    if (view.strides().empty()) continue;
    const int output = torch.outputs().empty() ? i : torch.outputs(i);
    const graph::Tensor& whole = graph.tensors[GivenTensor(graph, output)];
    // Of the last element that it reaches; a product that could wrap is too large before it does.
    int64_t elements = 1, last = view.offset();
    for (const int64_t extent : whole.shape) elements *= extent;
    bool fits = view.sizes_size() == view.strides_size() && !whole.shape.empty() && last >= 0;
    for (int axis = 0; fits && axis < view.sizes_size(); ++axis) {
      const int64_t size = view.sizes(axis), stride = view.strides(axis);
      fits = size >= 1 && stride >= 0 && last < elements &&
             (size == 1 || stride == 0 || stride <= (elements - 1 - last) / (size - 1));
      if (fits) last += (size - 1) * stride;
    }
    if (fits && last < elements) continue;
    return Wrong(absl::StrCat("torch.views: forward's tensor ", i, " of sizes (",
                              absl::StrJoin(view.sizes(), ", "), "), strides (",
                              absl::StrJoin(view.strides(), ", "), ") and offset ", view.offset(),
                              " is no part of output ", output, " of ", elements, " elements"));
  }
  return absl::OkStatus();
}

// Seeds are the last of what is given, and nobody writes them.
absl::Status ValidateSeeds(const v1::TorchModule& torch, const graph::Graph& graph) {
  if (torch.seeds().empty()) return absl::OkStatus();
  const graph::Tensor* last = nullptr;
  for (const graph::Tensor& tensor : graph.tensors) {
    if (tensor.given()) last = &tensor;
  }
  if (last != nullptr && last->name == torch.seeds() && !last->inout &&
      last->type == graph::DType::kI64 && last->shape.size() == 1) {
    return absl::OkStatus();
  }
  return Wrong(absl::StrCat("torch.seeds: '", torch.seeds(),
                            "' must be the graph's last input, of i64 with one axis"));
}

absl::Status ValidateWorkload(const v1::Problem& problem, const v1::Workload& workload) {
  for (const auto& [name, value] : workload.dims()) {
    if (!graph::IsName(name)) return Wrong(absl::StrCat("'", name, "' is no name for a dimension"));
    if (value < 1) return Wrong(absl::StrCat("dimension '", name, "' is ", value, ", less than 1"));
  }
  auto graph = GraphOf(problem, workload);
  if (!graph.ok()) return graph.status();
  if (graph->nodes.size() > kMaxNodes) {
    return Wrong(
        absl::StrCat("the graph has ", graph->nodes.size(), " nodes; the limit is ", kMaxNodes));
  }
  if (auto status = graph::Validate(*graph); !status.ok()) return status;
  if (auto status = ValidateGiven(problem.torch(), *graph); !status.ok()) return status;
  if (auto status = ValidateOrders(problem.torch(), *graph); !status.ok()) return status;
  if (auto status = ValidateSeeds(problem.torch(), *graph); !status.ok()) return status;
  return ValidateViews(problem.torch(), *graph);
}

absl::Status ValidateContents(const v1::Problem& problem) {
  if (auto status = ValidateAccuracy(problem.accuracy()); !status.ok()) return status;
  if (auto status = ValidateBaselines(problem.torch()); !status.ok()) return status;
  if (problem.graph().empty()) return Wrong("has no graph");
  if (problem.workloads().empty()) return Wrong("has no workload");
  if (problem.workloads_size() > kMaxWorkloads) {
    return Wrong(
        absl::StrCat("has ", problem.workloads_size(), " workloads; the limit is ", kMaxWorkloads));
  }
  std::set<std::string> names;
  for (const v1::Workload& workload : problem.workloads()) {
    if (auto status = ValidateName(workload.name()); !status.ok()) return In("a workload", status);
    if (!names.insert(workload.name()).second) {
      return Wrong(absl::StrCat("has a second workload '", workload.name(), "'"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<v1::Problem> WithWorkloads(const v1::Problem& problem,
                                          const std::vector<std::string>& names) {
  std::set<std::string> wanted(names.begin(), names.end());
  v1::Problem part = problem;
  part.clear_workloads();
  for (const v1::Workload& workload : problem.workloads()) {
    if (wanted.erase(workload.name()) > 0) *part.add_workloads() = workload;
  }
  if (wanted.empty()) return part;
  return Wrong(
      absl::StrCat("problem '", problem.name(), "' has no workload '", *wanted.begin(), "'"));
}

absl::StatusOr<graph::Graph> GraphOf(const v1::Problem& problem, const v1::Workload& workload) {
  const std::vector<std::string> lines(problem.graph().begin(), problem.graph().end());
  auto graph = graph::Parse(lines, graph::Dims(workload.dims().begin(), workload.dims().end()));
  if (!graph.ok()) return graph.status();
  graph->constant_params = problem.weights_constant();
  graph->tolerance_alone = problem.accuracy().tolerance_only();
  return graph;
}

absl::Status Validate(const v1::Problem& problem) {
  if (auto status = ValidateName(problem.name()); !status.ok()) return In("a problem", status);
  const std::string where = absl::StrCat("problem '", problem.name(), "'");
  if (auto status = In(where, ValidateContents(problem)); !status.ok()) return status;
  for (const v1::Workload& workload : problem.workloads()) {
    auto status = In(absl::StrCat(where, ", workload '", workload.name(), "'"),
                     ValidateWorkload(problem, workload));
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status Validate(const v1::ProblemSet& set) {
  if (auto status = ValidateName(set.name()); !status.ok()) return In("the problem set", status);
  if (set.problems().empty()) return Wrong("the problem set has no problem");
  if (set.problems_size() > kMaxProblems) {
    return Wrong(absl::StrCat("the problem set has ", set.problems_size(),
                              " problems; the limit is ", kMaxProblems));
  }
  std::set<std::string> names;
  for (const v1::Problem& problem : set.problems()) {
    if (auto status = Validate(problem); !status.ok()) return status;
    if (!names.insert(problem.name()).second) {
      return Wrong(absl::StrCat("problem '", problem.name(), "': a second one of that name"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::ProblemSet> LoadSet(const std::string& path) {
  auto text = base::ReadFile(path);
  if (!text.ok()) return text.status();
  v1::ProblemSet set;
  const auto parsed = google::protobuf::util::JsonStringToMessage(*text, &set);
  if (!parsed.ok()) {
    // The first line says what; the others show the place, which may be of any bytes.
    const std::string what = parsed.message().ToString();
    return In(path, Wrong(absl::StrCat("not a problem set: ", what.substr(0, what.find('\n')),
                                       " (it must be whole JSON with the fields of "
                                       "proto/warpsmith/v1/problem.proto)")));
  }
  if (auto status = In(path, Validate(set)); !status.ok()) return status;
  return set;
}

absl::Status SaveSet(const v1::ProblemSet& set, const std::string& path) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.preserve_proto_field_names = true;
  std::string text;
  const auto printed = google::protobuf::util::MessageToJsonString(set, &text, options);
  if (!printed.ok()) {
    return In(path,
              Wrong(absl::StrCat("cannot be written as JSON: ", printed.message().ToString())));
  }
  // protobuf indents by one space for each level; two read better.
  std::string indented;
  bool at_start = true;
  for (char c : text) {
    if (at_start && c == ' ') indented += ' ';
    if (c != ' ') at_start = c == '\n';
    indented += c;
  }
  return base::WriteFileAtomically(path, indented);
}

std::string Digest(const v1::Problem& problem) {
  // Every part with its length before it, so that no two problems run together to one text.
  std::string text;
  const auto add = [&text](const std::string& part) {
    absl::StrAppend(&text, part.size(), ":", part, ";");
  };
  const auto add_number = [&add](double number) {
    char digits[40];
    snprintf(digits, sizeof(digits), "%a", number);
    add(digits);
  };
  add(absl::StrCat(problem.graph_size()));
  for (const std::string& line : problem.graph()) add(line);
  add(absl::StrCat(problem.workloads_size()));
  for (const v1::Workload& workload : problem.workloads()) {
    add(workload.name());
    add(absl::StrCat(workload.dims_size()));
    const graph::Dims sorted(workload.dims().begin(), workload.dims().end());
    for (const auto& [name, value] : sorted) {
      add(name);
      add(absl::StrCat(value));
    }
  }
  add_number(problem.accuracy().absolute());
  add_number(problem.accuracy().relative());
  add(problem.accuracy().tolerance_only() ? "tolerance only" : "no less accurate");
  add(problem.torch().source());
  for (const v1::AxisOrder& order : problem.torch().orders()) {
    add(absl::StrCat("order ", absl::StrJoin(order.axes(), " ")));
  }
  for (const v1::View& view : problem.torch().views()) {
    add(absl::StrCat("view ", absl::StrJoin(view.sizes(), " "), ", ",
                     absl::StrJoin(view.strides(), " "), " from ", view.offset()));
  }
  if (!problem.torch().seeds().empty()) add(absl::StrCat("seeds ", problem.torch().seeds()));
  add(problem.weights_constant() ? "constant weights" : "");
  return base::Sha256Hex(text);
}

}  // namespace warpsmith::problem
