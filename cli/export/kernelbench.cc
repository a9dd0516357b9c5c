#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <numeric>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "cli/export/cuda_source.h"
#include "cli/export/export.h"
#include "cli/export/files.h"
#include "cli/export/python_module.h"
#include "cli/export/stored.h"
#include "common/graph/graph.h"
#include "common/launcher/plan_text.h"
#include "common/launcher/source.h"
#include "common/problem/problem.h"
#include "common/problem/units.h"

namespace warpsmith::exporter {
namespace {

std::string Number(double value) {
  if (std::abs(value) < 1e15 && value == std::trunc(value))
    return absl::StrCat(static_cast<int64_t>(value));
  if (!std::isfinite(value)) return absl::StrCat("float(\"", value, "\")");
  // The shortest that reads back as the same number.
  for (int digits = 6; digits < 17; ++digits) {
    const std::string text = absl::StrFormat("%.*g", digits, value);
    double back = 0;
    if (absl::SimpleAtod(text, &back) && back == value) return text;
  }
  return absl::StrFormat("%.17g", value);
}

// A tuple in Python: "(3,)".
std::string Tuple(const google::protobuf::RepeatedField<int64_t>& values) {
  return absl::StrCat("(", absl::StrJoin(values, ", "), values.size() == 1 ? ",)" : ")");
}

// forward's parameters that are tensors, in order; lines that refuse other values of the rest.
absl::StatusOr<std::vector<std::string>> TensorArguments(const v1::TorchModule& torch,
                                                         const PythonModule& module, int tensors,
                                                         std::vector<std::string>& checks) {
  std::vector<std::string> names;
  const int given = tensors + torch.scalars_size();
  for (int i = 0; i < module.forward.size(); ++i) {
    const Parameter& parameter = module.forward[i];
    const v1::ScalarInput* scalar = nullptr;
    for (const auto& candidate : torch.scalars()) {
      if (candidate.position() == i) scalar = &candidate;
    }
    if (scalar != nullptr && scalar->empty_shape_size() > 0) {
      const std::string shape = Tuple(scalar->empty_shape());
      checks.push_back(absl::StrCat("if tuple(", parameter.name, ".shape) != ", shape, ":"));
      checks.push_back(absl::StrCat("    _solution.refuse(\"", parameter.name, "\", tuple(",
                                    parameter.name, ".shape), ", shape, ")"));
    } else if (scalar != nullptr) {
      const std::string value = Number(scalar->value());
      checks.push_back(absl::StrCat("if ", parameter.name, " != ", value, ":"));
      checks.push_back(absl::StrCat("    _solution.refuse(\"", parameter.name, "\", ",
                                    parameter.name, ", ", value, ")"));
    } else if (i < given) {
      names.push_back(parameter.name);
    } else if (parameter.default_value.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the graph has nothing for forward's argument '", parameter.name,
                       "'; import the problem again"));
    } else {
      // Not given when the graph was made: it had its default.
      const std::string& value = parameter.default_value;
      const bool none = value == "None" || value == "True" || value == "False";
      checks.push_back(absl::StrCat("if ", parameter.name, none ? " is not " : " != ", value, ":"));
      checks.push_back(absl::StrCat("    _solution.refuse(\"", parameter.name, "\", ",
                                    parameter.name, ", ", value, ")"));
    }
  }
  if (names.size() != tensors) {
    return absl::InvalidArgumentError(absl::StrCat("forward has ", names.size(),
                                                   " tensor arguments and the graph ", tensors,
                                                   " inputs; import the problem again"));
  }
  return names;
}

// A name for forward's own variable, which must not be that of a parameter.
std::string LocalName(const PythonModule& module, std::string wanted) {
  const auto taken = [&] {
    return std::any_of(module.forward.begin(), module.forward.end(),
                       [&](const Parameter& parameter) { return parameter.name == wanted; });
  };
  while (taken()) wanted += "_";
  return wanted;
}

// By who calls forward.
bool IsGiven(const v1::Buffer& buffer) {
  return buffer.kind() == v1::Buffer::INPUT || buffer.inout();
}

// Whether it is neither given by who has the module nor an output.
bool IsOwn(const v1::Buffer& buffer) {
  return buffer.kind() == v1::Buffer::WORKSPACE || buffer.kind() == v1::Buffer::PREPARED;
}

// "x f32[8, 16], scale = 3": what forward takes in a workload.
std::string Describe(const v1::Plan& plan, const v1::TorchModule& torch) {
  std::vector<std::string> parts;
  for (const v1::Buffer& buffer : plan.buffers()) {
    if (!IsGiven(buffer) || buffer.tensor() == torch.seeds()) continue;
    parts.push_back(absl::StrCat(buffer.tensor(), " ", buffer.dtype(), "[",
                                 absl::StrJoin(buffer.shape(), ", "), "]",
                                 buffer.inout() ? ", changed in place" : ""));
  }
  for (const auto& scalar : torch.scalars()) parts.push_back(Number(scalar.value()));
  return absl::StrJoin(parts, ", ");
}

// Types and shapes of what a plan is given, by which a call chooses it.
std::string FormOf(const v1::Plan& plan) {
  std::string form;
  for (const v1::Buffer& buffer : plan.buffers()) {
    if (buffer.kind() == v1::Buffer::OUTPUT || IsOwn(buffer)) continue;
    absl::StrAppend(&form, buffer.dtype(), "[", absl::StrJoin(buffer.shape(), ","), "]");
  }
  return form;
}

// Everything under `def name():`, so that none of its names meets one of the module's.
std::string AsFunction(const std::string& name, const std::string& text,
                       const std::string& result) {
  std::string out = absl::StrCat("def ", name, "():\n");
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    absl::StrAppend(&out, line.empty() ? "" : "    ", line, "\n");
  }
  return absl::StrCat(out, "    return ", result, "\n");
}

class Writer {
 public:
  explicit Writer(const Kernels& kernels) : problem_(kernels.problem), kernels_(kernels) {}

  absl::StatusOr<std::string> Write() {
    auto module = ReadModule(problem_.torch().source());
    if (!module.ok()) return module.status();
    auto plans = Plans();
    if (!plans.ok()) return plans.status();
    auto forward = Forward(*module);
    if (!forward.ok()) return forward.status();

    std::string preamble = module->preamble;
    absl::StripAsciiWhitespace(&preamble);
    // The reference may import torch under another name only.
    const std::vector<std::string> lines = absl::StrSplit(preamble, '\n');
    const bool has_torch = std::find(lines.begin(), lines.end(), "import torch") != lines.end();
    std::string launcher = launcher::Files().at("launcher.py");
    absl::StripAsciiWhitespace(&launcher);
    return absl::StrCat(Banner(), preamble, "\n", has_torch ? "" : "import torch\n", "\n\n",
                        module->class_line, "\n", module->members, "\n", *forward, "\n\n",
                        AsFunction("_launcher", launcher, "Solution"), "\n\n", *plans);
  }

 private:
  std::string Banner() const {
    std::string out = absl::StrCat(
        "\"\"\"", problem_.torch().path(), " for ", kernels_.arch, ", found by Warpsmith.\n\n",
        "ModelNew takes what Model takes and has its parameters, buffers and state dict. It "
        "computes\n"
        "forward alone, without gradients, for what the reference's get_init_inputs gives the\n"
        "constructor, and for\n\n");
    for (const Kernels::One& one : kernels_.workloads) {
      absl::StrAppend(&out, "  ", one.workload.name(), ": ", Describe(one.plan, problem_.torch()),
                      "\n");
    }
    if (problem_.weights_constant()) {
      absl::StrAppend(
          &out,
          "\nWeights are taken for constants: what is made of them alone is made at the first "
          "call, "
          "and\nagain when one is another tensor or was written to in place. What PyTorch does not "
          "count as\nwriting goes unseen: writing through .data, by a replay of a CUDA graph, or "
          "into tensors made\nin inference mode. A captured graph replays what was made last.\n");
    }
    if (!kernels_.missing.empty()) {
      absl::StrAppend(&out, "\nThere is no kernel for: ", absl::StrJoin(kernels_.missing, ", "),
                      "\n");
    }
    return absl::StrCat(
        out,
        "\nThe kernels are at the end: a plan of launches, their CUDA C++, and what a compiler "
        "made of "
        "it.\nThat takes PyTorch and the card's driver, and no cpp_extension, load_inline or C++ "
        "compiler.\n\"\"\"\n");
  }

  // The plans, sources and binaries, and the solution made of them.
  absl::StatusOr<std::string> Plans() const {
    std::vector<std::string> plans, sources, binaries;
    for (const Kernels::One& one : kernels_.workloads) {
      const auto stored = StoredIn(problem_, one);
      if (!stored.ok()) return stored.status();
      launcher::Orders orders;
      for (const Stored& output : *stored) {
        if (!output.order.empty()) orders[output.buffer] = output.order;
      }
      auto text = launcher::PlanText(one.plan, orders);
      if (!text.ok()) return text.status();
      auto source = ExpandHeaders(one.plan.source());
      if (!source.ok()) return source.status();
      if (absl::StrContains(*source, "'''")) {
        return absl::InvalidArgumentError("the device code contains ''' and cannot be quoted");
      }
      plans.push_back(*std::move(text));
      sources.push_back(absl::StrCat("r'''", *source, "'''"));
      auto images = problem::ImagesOf(one.cubin);
      if (!images.ok()) return images.status();
      std::vector<std::string> texts;
      for (const std::string& image : *images) {
        const std::string text = launcher::BinaryText(image);
        texts.push_back(text.empty() ? "\"\"" : absl::StrCat("\"\"\"\n", text, "\n\"\"\""));
      }
      binaries.push_back(texts.size() == 1 ? texts[0]
                                           : absl::StrCat("[", absl::StrJoin(texts, ", "), "]"));
    }
    return absl::StrCat("_PLANS = [", absl::StrJoin(plans, ", "), "]\n\n_SOURCES = [",
                        absl::StrJoin(sources, ", "), "]\n\n_BINARIES = [",
                        absl::StrJoin(binaries, ", "),
                        "]\n\n_solution = _launcher()(\"ModelNew\", \"", kernels_.arch,
                        "\", _PLANS, _SOURCES, _BINARIES)\n");
  }

  // What makes forward's tensor of the plan's output, or of a dense tensor `of` that has an offset
  // in its storage, where it is a part of that.
  std::string Part(int result, const std::string& of = "") const {
    const auto& views = problem_.torch().views();
    if (result >= views.size() || views[result].strides().empty()) return "";
    const v1::View& view = views[result];
    const auto tuple = [](const auto& numbers) {
      return absl::StrCat("(", absl::StrJoin(numbers, ", "), ",)");
    };
    return absl::StrCat(".as_strided(", tuple(view.sizes()), ", ", tuple(view.strides()), ", ",
                        of.empty() ? "" : of + ".storage_offset() + ", view.offset(), ")");
  }

  // What forward gives: indexes into a plan's outputs, or, of its arguments that are tensors, the
  // place of one that is given back, from -1 down. A tensor may be given twice.
  absl::StatusOr<std::vector<int>> Results(const Kernels::One& one) const {
    const auto stored = StoredIn(problem_, one);
    if (!stored.ok()) return stored.status();
    std::vector<int> results;
    for (const Stored& output : *stored) {
      const auto before = one.plan.buffers().begin() + output.buffer;
      results.push_back(static_cast<int>(std::count_if(
          one.plan.buffers().begin(), before,
          [](const v1::Buffer& buffer) { return buffer.kind() == v1::Buffer::OUTPUT; })));
    }
    if (problem_.torch().outputs().empty()) return results;
    const auto inputs =
        std::count_if(one.plan.buffers().begin(), one.plan.buffers().end(), IsGiven);
    const int outputs = static_cast<int>(results.size());
    std::vector<int> given;
    for (const int output : problem_.torch().outputs()) {
      if (output < 0 || output >= outputs + inputs)
        return absl::InvalidArgumentError(absl::StrCat("the graph has no output ", output));
      given.push_back(output < outputs ? results[output] : -1 - (output - outputs));
    }
    return given;
  }

  // Of what forward draws at random.
  int64_t Seeds() const {
    for (const v1::Buffer& buffer : kernels_.workloads[0].plan.buffers()) {
      if (buffer.tensor() == problem_.torch().seeds()) return buffer.shape(0);
    }
    return 0;
  }

  // Names of what a plan is given, and what forward makes of its outputs, which all share.
  struct Interface {
    std::vector<std::string> tensors;
    std::vector<int> results;
    int inputs = 0, outputs = 0;
    bool operator==(const Interface& other) const {
      return tensors == other.tensors && results == other.results;
    }
  };
  absl::StatusOr<Interface> InterfaceOf(const Kernels::One& one) const {
    Interface interface;
    for (const v1::Buffer& buffer : one.plan.buffers()) {
      interface.inputs += IsGiven(buffer);
      interface.outputs += buffer.kind() == v1::Buffer::OUTPUT;
      if (IsOwn(buffer)) continue;
      interface.tensors.push_back(
          absl::StrCat(buffer.kind(), buffer.inout() ? " inout " : " ", buffer.tensor()));
    }
    auto results = Results(one);
    if (!results.ok()) return results.status();
    interface.results = *std::move(results);
    return interface;
  }

  // That of all workloads, if calls for them can be told apart.
  absl::StatusOr<Interface> SharedInterface() const {
    auto interface = InterfaceOf(kernels_.workloads[0]);
    if (!interface.ok()) return interface.status();
    std::map<std::string, std::string> by_form;
    for (const Kernels::One& one : kernels_.workloads) {
      auto other = InterfaceOf(one);
      if (!other.ok()) return other.status();
      if (!(*other == *interface)) {
        return absl::InvalidArgumentError(
            absl::StrCat("workload '", one.workload.name(),
                         "' has other tensors than the first, and one module cannot hold both"));
      }
      const auto [same, is_new] = by_form.emplace(FormOf(one.plan), one.workload.name());
      if (is_new) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "workloads '", same->second, "' and '", one.workload.name(),
          "' have the same shapes and types, and a call could not tell them apart; export it with "
          "--format plain"));
    }
    return interface;
  }

  absl::StatusOr<std::string> Forward(const PythonModule& module) const {
    auto interface = SharedInterface();
    if (!interface.ok()) return interface.status();
    std::vector<std::string> body;
    const bool draws = !problem_.torch().seeds().empty();
    auto names = TensorArguments(problem_.torch(), module, interface->inputs - draws, body);
    if (!names.ok()) return names.status();
    auto graph = problem::GraphOf(problem_, kernels_.workloads[0].workload);
    if (!graph.ok()) return graph.status();
    const auto is_own = [&](const graph::Graph::Update& update) {
      return !graph->tensors[update.state].inout;
    };
    if (std::any_of(graph->updates.begin(), graph->updates.end(), is_own)) {
      body.push_back("if not self.training:");
      body.push_back("    _solution.refuse(\"the module\", \"eval()\", \"train()\")");
    }
    std::vector<std::string> given = {"self"};
    given.insert(given.end(), names->begin(), names->end());
    if (draws) given.push_back(absl::StrCat("_solution.seeds(", Seeds(), ")"));
    const std::string call = absl::StrCat("_solution.call(", absl::StrJoin(given, ", "), ")");
    std::vector<int> all(interface->outputs);
    std::iota(all.begin(), all.end(), 0);
    if (interface->results.empty()) {
      body.push_back(call);
    } else if (interface->results.size() == 1 && interface->results[0] >= 0) {
      body.push_back(absl::StrCat("return ", call, "[", interface->results[0], "]", Part(0)));
    } else if (interface->results == all && problem_.torch().views().empty()) {
      body.push_back(absl::StrCat("return ", call));
    } else {
      const std::string outputs = LocalName(module, "outputs");
      body.push_back(absl::StrCat(interface->outputs > 0 ? outputs + " = " : "", call));
      std::vector<std::string> results;
      for (const int o : interface->results) {
        const int result = static_cast<int>(results.size());
        if (o >= 0) {
          results.push_back(absl::StrCat(outputs, "[", o, "]", Part(result)));
        } else if (Part(result).empty()) {
          results.push_back((*names)[-1 - o]);
        } else {
          const std::string dense = LocalName(module, absl::StrCat("dense_", (*names)[-1 - o]));
          const std::string line = absl::StrCat(dense, " = ", (*names)[-1 - o], ".contiguous()");
          if (std::find(body.begin(), body.end(), line) == body.end()) body.push_back(line);
          results.push_back(dense + Part(result, dense));
        }
      }
      body.push_back(absl::StrCat("return ", absl::StrJoin(results, ", ")));
    }
    std::vector<std::string> parameters = {"self"};
    for (const auto& parameter : module.forward) parameters.push_back(parameter.text);
    std::string out =
        absl::StrCat(module.indent, "def forward(", absl::StrJoin(parameters, ", "), "):\n");
    for (const auto& line : body) absl::StrAppend(&out, module.indent, module.indent, line, "\n");
    return out;
  }

  const v1::Problem& problem_;
  const Kernels& kernels_;
};

// Paths come with problem sets that others made.
bool IsPlainPath(const std::string& path) {
  if (path.empty() || path[0] == '/') return false;
  for (absl::string_view part : absl::StrSplit(path, '/')) {
    if (part.empty() || part == "." || part == "..") return false;
  }
  return true;
}

}  // namespace

absl::StatusOr<std::string> ExportKernelBench(const Kernels& kernels, OutFolder& out) {
  const v1::Problem& problem = kernels.problem;
  const std::string who = absl::StrCat("problem '", problem.name(), "': ");
  if (problem.torch().source().empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(who, "it did not come from a PyTorch module; export it with --format plain"));
  }
  if (!IsPlainPath(problem.torch().path())) {
    return absl::InvalidArgumentError(
        absl::StrCat(who, "'", problem.torch().path(), "' is not a path within a suite"));
  }
  if (!absl::StartsWith(kernels.arch, "sm_")) {
    return absl::FailedPreconditionError(
        absl::StrCat(who, "the solution was made for '", kernels.arch,
                     "', and KernelBench wants a CUDA card; export it with --format plain"));
  }
  auto text = Writer(kernels).Write();
  if (!text.ok()) {
    return absl::Status(text.status().code(), absl::StrCat(who, text.status().message()));
  }
  return WriteOut(out, problem.torch().path(), *text);
}

}  // namespace warpsmith::exporter
