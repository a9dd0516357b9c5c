#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
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
#include "common/base/sha256.h"
#include "common/graph/graph.h"
#include "common/problem/problem.h"

namespace warpsmith::exporter {
namespace {

// The binding: plain CPython, no PyTorch and no pybind11 header, which would take most of a minute
// to compile. @N@ is the number of pointers.
constexpr char kBinding[] = R"TEXT(#define PY_SSIZE_T_CLEAN
#include <Python.h>

extern "C" int solution_run(void* const* buffers, void* stream, const char** where);
extern "C" const char* solution_error(int code);

// run(pointer, ..., stream): everything as integers.
static PyObject* run(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  constexpr Py_ssize_t kPointers = @N@;
  if (count != kPointers + 1) {
    return PyErr_Format(PyExc_TypeError, "run takes %zd integers, not %zd", kPointers + 1, count);
  }
  void* buffers[kPointers + 1];
  for (Py_ssize_t i = 0; i < count; ++i) buffers[i] = PyLong_AsVoidPtr(arguments[i]);
  if (PyErr_Occurred() != nullptr) return nullptr;
  const char* where = "";
  const int error = solution_run(buffers, buffers[kPointers], &where);
  if (error != 0) return PyErr_Format(PyExc_RuntimeError, "%s: %s", where, solution_error(error));
  Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"run", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)(void)>(run)), METH_FASTCALL,
     "Launches the kernels on a stream."},
    {nullptr, nullptr, 0, nullptr}};
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "solution", nullptr, -1, methods,
                                 nullptr, nullptr, nullptr, nullptr};

#define CONCATENATE(a, b) a##b
#define INIT(name) CONCATENATE(PyInit_, name)
PyMODINIT_FUNC INIT(TORCH_EXTENSION_NAME)(void) { return PyModule_Create(&definition); }
)TEXT";

// Python that every file has. Vector accesses of kernels need storage at multiples of 16 bytes.
constexpr char kHelpers[] = R"TEXT(
def _refuse(name, what, want):
    raise ValueError(f"ModelNew was made for {name} with {want}, not {what}")


def _checked(name, tensor, shape, dtype, device):
    if tensor.shape != shape:
        _refuse(name, f"shape {tuple(tensor.shape)}", f"shape {tuple(shape)}")
    if tensor.dtype is not dtype:
        _refuse(name, tensor.dtype, dtype)
    if tensor.device != device:
        _refuse(name, f"it on {tensor.device}", f"everything on one CUDA device ({device})")
    if not tensor.is_contiguous():
        tensor = tensor.contiguous()
    if tensor.data_ptr() % 16:
        tensor = tensor.clone()
    return tensor
)TEXT";

constexpr char kStateHelper[] = R"TEXT(

def _checked_state(name, tensor, shape, dtype, device):
    if _checked(name, tensor, shape, dtype, device) is not tensor:
        _refuse(name, "a buffer that is scattered or unaligned", "a dense buffer")
    return tensor
)TEXT";

std::string TorchType(const std::string& dtype) {
  if (dtype == "f16") return "torch.float16";
  if (dtype == "bf16") return "torch.bfloat16";
  if (dtype == "f32") return "torch.float32";
  if (dtype == "f64") return "torch.float64";
  if (dtype == "i8") return "torch.int8";
  if (dtype == "u8") return "torch.uint8";
  if (dtype == "i32") return "torch.int32";
  if (dtype == "i64") return "torch.int64";
  return "torch.bool";
}

// "(4, 5)", "(4,)", "()".
template <class Numbers>
std::string Tuple(const Numbers& numbers) {
  return absl::StrCat("(", absl::StrJoin(numbers, ", "), numbers.size() == 1 ? ",)" : ")");
}

// The attribute of a graph's name for a weight: `bn.weight` -> self.bn.weight, `layers.0.weight` ->
// getattr(self.layers, "0").weight. The graph writes `_0.weight` for `0.weight`.
std::string Attribute(const std::string& name) {
  absl::string_view state = name;
  if (state.size() > 1 && state[0] == '_' && absl::ascii_isdigit(state[1])) state.remove_prefix(1);
  std::string expression = "self";
  for (absl::string_view part : absl::StrSplit(state, '.')) {
    if (!part.empty() && absl::ascii_isdigit(part[0])) {
      expression = absl::StrCat("getattr(", expression, ", \"", part, "\")");
    } else {
      absl::StrAppend(&expression, ".", part);
    }
  }
  return expression;
}

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
    if (scalar != nullptr) {
      const std::string value = Number(scalar->value());
      checks.push_back(absl::StrCat("if ", parameter.name, " != ", value, ":"));
      checks.push_back(
          absl::StrCat("    _refuse(\"", parameter.name, "\", ", parameter.name, ", ", value, ")"));
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
      checks.push_back(
          absl::StrCat("    _refuse(\"", parameter.name, "\", ", parameter.name, ", ", value, ")"));
    }
  }
  if (names.size() != tensors) {
    return absl::InvalidArgumentError(absl::StrCat("forward has ", names.size(),
                                                   " tensor arguments and the graph ", tensors,
                                                   " inputs; import the problem again"));
  }
  return names;
}

// Names of forward's own variables, which must not be those of its parameters.
class Locals {
 public:
  explicit Locals(const PythonModule& module) {
    for (const Parameter& parameter : module.forward) parameters_.insert(parameter.name);
  }
  std::string Name(std::string wanted) const {
    while (parameters_.count(wanted) > 0) wanted += "_";
    return wanted;
  }

 private:
  std::set<std::string> parameters_;
};

class Writer {
 public:
  Writer(const v1::Problem& problem, const v1::Solution& solution)
      : problem_(problem), plan_(solution.plans(0)), arch_(solution.arch()) {}

  absl::StatusOr<std::string> Write() {
    auto module = ReadModule(problem_.torch().source());
    if (!module.ok()) return module.status();
    auto graph = problem::GraphOf(problem_, problem_.workloads(0));
    if (!graph.ok()) return graph.status();
    auto cuda = CudaSource(plan_, "solution");
    if (!cuda.ok()) return cuda.status();
    auto flags = NvccFlags(arch_);
    if (!flags.ok()) return flags.status();
    const std::string quotes = "'''";
    if (absl::StrContains(*cuda, quotes)) {
      return absl::InvalidArgumentError("the device code contains ''' and cannot be quoted");
    }
    auto forward = Forward(*module, *graph);
    if (!forward.ok()) return forward.status();

    const Layout layout = LayOut(plan_);
    std::string binding = kBinding;
    binding.replace(binding.find("@N@"), 3, absl::StrCat(layout.pointers()));
    const std::string name = absl::StrCat(
        "warpsmith_",
        base::Sha256Hex(absl::StrCat(*cuda, binding, absl::StrJoin(*flags, " "))).substr(0, 16));

    std::string preamble = module->preamble;
    absl::StripAsciiWhitespace(&preamble);
    std::string out = absl::StrCat(
        "\"\"\"", problem_.torch().path(), " for ", arch_, ", found by Warpsmith.\n\n",
        "ModelNew takes what Model takes and has its parameters, buffers and state dict. It is "
        "made\n",
        "for these shapes and for what the reference's get_init_inputs gives the constructor, "
        "and\n",
        "computes forward alone: there are no gradients.\n", "\"\"\"\n", preamble, "\n");
    // The reference may import torch under another name only.
    const std::vector<std::string> lines = absl::StrSplit(preamble, '\n');
    const bool has_torch = std::find(lines.begin(), lines.end(), "import torch") != lines.end();
    absl::StrAppend(&out, has_torch ? "" : "import torch\n",
                    "from torch.utils.cpp_extension import load_inline\n\n");
    absl::StrAppend(&out, "_CUDA = r", quotes, *cuda, quotes, "\n\n");
    absl::StrAppend(&out, "_BINDING = r", quotes, binding, quotes, "\n\n");
    absl::StrAppend(&out, "_solution = load_inline(\n    name=\"", name,
                    "\",\n    cpp_sources=[_BINDING],\n    cuda_sources=[_CUDA],\n",
                    "    extra_cuda_cflags=[\"", absl::StrJoin(*flags, "\", \""),
                    "\"],\n    no_implicit_headers=True,\n)\n\n");
    absl::StrAppend(&out, kHelpers, has_states_ ? kStateHelper : "", "\n\n");
    absl::StrAppend(&out, module->class_line, "\n", module->members, "\n", *forward);
    return out;
  }

 private:
  absl::StatusOr<std::string> Forward(const PythonModule& module, const graph::Graph& graph) {
    std::vector<int> inputs;
    for (int i = 0; i < plan_.buffers_size(); ++i) {
      if (plan_.buffers(i).kind() == v1::Buffer::INPUT) inputs.push_back(i);
    }
    std::vector<std::string> body;
    auto names = TensorArguments(problem_.torch(), module, static_cast<int>(inputs.size()), body);
    if (!names.ok()) return names.status();
    if (!graph.updates.empty()) {
      body.push_back("if not self.training:");
      body.push_back("    _refuse(\"the module\", \"eval()\", \"train()\")");
    }
    const Layout layout = LayOut(plan_);
    const Locals locals(module);
    const std::string device = locals.Name("device"), workspace = locals.Name("workspace");
    body.push_back(absl::StrCat(device, " = ",
                                names->empty()
                                    ? "torch.device(\"cuda\", torch.cuda.current_device())"
                                    : names->at(0) + ".device"));
    body.push_back(absl::StrCat("if ", device, ".type != \"cuda\" or ", device,
                                ".index != torch.cuda.current_device():"));
    body.push_back(
        absl::StrCat("    _refuse(\"tensors\", f\"{", device, "}\", \"the current CUDA device\")"));

    std::vector<std::string> pointers, outputs;
    std::vector<std::string> output_tensors;
    int next_input = 0, tensors = 0;
    for (int i : layout.tensors) {
      const auto& buffer = plan_.buffers(i);
      const std::string local = locals.Name(absl::StrCat("t", tensors++));
      const std::string type = TorchType(buffer.dtype()), shape = Tuple(buffer.shape());
      switch (buffer.kind()) {
        case v1::Buffer::INPUT: {
          const std::string& name = names->at(next_input++);
          body.push_back(absl::StrCat(local, " = _checked(\"", name, "\", ", name, ", ", shape,
                                      ", ", type, ", ", device, ")"));
          break;
        }
        case v1::Buffer::PARAM:
          body.push_back(absl::StrCat(local, " = _checked(\"", buffer.tensor(), "\", ",
                                      Attribute(buffer.tensor()), ", ", shape, ", ", type, ", ",
                                      device, ")"));
          break;
        case v1::Buffer::STATE:
          has_states_ = true;
          body.push_back(absl::StrCat(local, " = _checked_state(\"", buffer.tensor(), "\", ",
                                      Attribute(buffer.tensor()), ", ", shape, ", ", type, ", ",
                                      device, ")"));
          break;
        case v1::Buffer::OUTPUT:
          body.push_back(absl::StrCat(local, " = torch.empty(", shape, ", dtype=", type,
                                      ", device=", device, ")"));
          outputs.push_back(local);
          output_tensors.push_back(buffer.tensor());
          break;
        default:
          return absl::InvalidArgumentError(
              absl::StrCat("buffer '", buffer.tensor(), "' has no kind"));
      }
      pointers.push_back(local + ".data_ptr()");
    }
    if (layout.workspace_bytes > 0) {
      body.push_back(absl::StrCat(workspace, " = torch.empty(", layout.workspace_bytes,
                                  ", dtype=torch.uint8, device=", device, ")"));
      pointers.push_back(workspace + ".data_ptr()");
    }
    // What torch.cuda.current_stream(device).cuda_stream is, without the microseconds that its
    // object takes; Triton's launchers ask the same way.
    pointers.push_back(absl::StrCat("torch._C._cuda_getCurrentRawStream(", device, ".index)"));
    body.push_back("_solution.run(");
    for (const auto& pointer : pointers) body.push_back(absl::StrCat("    ", pointer, ","));
    body.push_back(")");

    // What forward gives, in the graph's order; a tensor may be given twice.
    std::vector<std::string> results;
    std::set<int> used;
    for (int output : graph.outputs) {
      const std::string& name = graph.tensors[output].name;
      int found = -1;
      for (int o = 0; o < outputs.size(); ++o) {
        if (output_tensors[o] == name && (found < 0 || used.count(found) > 0)) found = o;
      }
      if (found < 0) {
        return absl::InvalidArgumentError(absl::StrCat("the plan has no output '", name, "'"));
      }
      used.insert(found);
      results.push_back(outputs[found]);
    }
    body.push_back(absl::StrCat("return ", absl::StrJoin(results, ", ")));

    std::vector<std::string> parameters = {"self"};
    for (const auto& parameter : module.forward) parameters.push_back(parameter.text);
    std::string out =
        absl::StrCat(module.indent, "def forward(", absl::StrJoin(parameters, ", "), "):\n");
    for (const auto& line : body) absl::StrAppend(&out, module.indent, module.indent, line, "\n");
    return out;
  }

  const v1::Problem& problem_;
  const v1::Plan& plan_;
  const std::string arch_;
  bool has_states_ = false;
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

absl::StatusOr<std::string> ExportKernelBench(const v1::Problem& problem,
                                              const v1::Solution& solution, OutFolder& out) {
  const std::string who = absl::StrCat("problem '", problem.name(), "': ");
  if (problem.torch().source().empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(who, "it did not come from a PyTorch module; export it with --format plain"));
  }
  if (!IsPlainPath(problem.torch().path())) {
    return absl::InvalidArgumentError(
        absl::StrCat(who, "'", problem.torch().path(), "' is not a path within a suite"));
  }
  if (auto status = CheckSolution(problem, solution); !status.ok()) return status;
  if (solution.plans_size() != 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        who, "a KernelBench file holds one workload, this has ", solution.plans_size()));
  }
  if (!absl::StartsWith(solution.arch(), "sm_")) {
    return absl::FailedPreconditionError(
        absl::StrCat(who, "the solution was made for '", solution.arch(),
                     "', and KernelBench wants a CUDA card; export it with --format plain"));
  }
  auto text = Writer(problem, solution).Write();
  if (!text.ok()) {
    return absl::Status(text.status().code(), absl::StrCat(who, text.status().message()));
  }
  return WriteOut(out, problem.torch().path(), *text);
}

}  // namespace warpsmith::exporter
