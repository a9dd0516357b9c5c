#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/export/cuda_source.h"
#include "cli/export/export.h"
#include "cli/export/files.h"
#include "cli/export/stored.h"
#include "common/problem/axis_order.h"

namespace warpsmith::exporter {
namespace {

// A name that C takes, of a problem's or workload's.
std::string Identifier(const std::string& name) {
  std::string identifier;
  for (char c : name) identifier += absl::ascii_isalnum(c) ? c : '_';
  if (identifier.empty() || absl::ascii_isdigit(identifier[0])) identifier = "k_" + identifier;
  return identifier;
}

const char* NameOf(const v1::Buffer& buffer) {
  switch (buffer.kind()) {
    case v1::Buffer::PREPARED:
      return "prepared, read";
    case v1::Buffer::INPUT:
      return "input, read";
    case v1::Buffer::PARAM:
      return "parameter, read";
    case v1::Buffer::STATE:
      return buffer.inout() ? "input, read and written" : "state, read and written";
    default:
      return "output, every element is written";
  }
}

// How the module's tensor lies in a buffer that has its axes in `order`.
std::string LyingIn(const v1::Buffer& buffer, const std::vector<int>& order) {
  std::vector<int64_t> shape(order.size());
  for (size_t i = 0; i < order.size(); ++i) shape[order[i]] = buffer.shape(static_cast<int>(i));
  return absl::StrCat("; it is forward's tensor of shape (", absl::StrJoin(shape, ", "),
                      ") and strides (", absl::StrJoin(problem::StridesIn(order, shape), ", "),
                      ")");
}

// By buffer: what is said of it beside its kind.
std::map<int, std::string> Remarks(const v1::Problem& problem, const std::vector<Stored>& outputs,
                                   const v1::Plan& plan) {
  std::map<int, std::string> remarks;
  const v1::TorchModule& torch = problem.torch();
  for (int i = 0; i < torch.views_size(); ++i) {
    const int output = torch.outputs().empty() ? i : torch.outputs(i);
    if (torch.views(i).strides().empty() || output >= outputs.size()) continue;
    absl::StrAppend(&remarks[outputs[output].buffer], "; forward's tensor ", i,
                    " is its part from element ", torch.views(i).offset(), " on of shape (",
                    absl::StrJoin(torch.views(i).sizes(), ", "), ") and strides (",
                    absl::StrJoin(torch.views(i).strides(), ", "), ")");
  }
  for (int i = 0; i < plan.buffers_size(); ++i) {
    if (!torch.seeds().empty() && plan.buffers(i).tensor() == torch.seeds())
      remarks[i] += "; seeds of what forward draws at random, others for each call";
  }
  for (const Stored& output : outputs) {
    if (output.order.empty()) continue;
    remarks[output.buffer] += LyingIn(plan.buffers(output.buffer), output.order);
  }
  return remarks;
}

// A line for each buffer of a call.
std::string Table(const v1::Plan& plan, std::map<int, std::string> remarks) {
  const Layout layout = LayOut(plan);
  std::string out;
  int number = 0;
  for (int i : layout.tensors) {
    const auto& buffer = plan.buffers(i);
    absl::StrAppend(&out, "//   ", number++, "  ", buffer.tensor(), "  ", buffer.dtype(), "[",
                    absl::StrJoin(buffer.shape(), ", "), "]  ", NameOf(buffer), remarks[i], "\n");
  }
  if (layout.workspace_bytes > 0) {
    absl::StrAppend(&out, "//   ", number, "  workspace, ", layout.workspace_bytes,
                    " bytes, of any content\n");
  }
  return out;
}

std::string Banner(const v1::Problem& problem, const std::string& arch, const v1::Plan& plan,
                   const std::string& name, std::map<int, std::string> remarks) {
  std::string out = absl::StrCat("// ", problem.name());
  if (!problem.description().empty()) absl::StrAppend(&out, ": ", problem.description());
  absl::StrAppend(
      &out, "\n//\n//   int ", name,
      "_run(void* const* buffers, cudaStream_t stream, const char** where);\n", "//   const char* ",
      name, "_error(int code);\n//\n",
      "// Launches everything on the stream and returns a cudaError_t; `where` (may be null) "
      "then\n",
      "// names the step that failed. It can be captured in a CUDA graph. Buffers are dense, row\n",
      "// major, in device memory, and start at multiples of 256 bytes:\n//\n",
      Table(plan, remarks));
  if (plan.has_prepare()) {
    absl::StrAppend(
        &out, "//\n//   int ", name,
        "_prepare(void* const* buffers, cudaStream_t stream, const char** where);\n//\n",
        "// Launches what is done once for each version of the weights, before runs with "
        "them, which\n// take what it leaves in its outputs, by name:\n//\n",
        Table(plan.prepare(), {}));
  }
  const bool products = std::any_of(plan.steps().begin(), plan.steps().end(),
                                    [](const v1::Step& step) { return step.has_product(); });
  const char* library = products ? " -lcublasLt" : "";
  const auto flags = NvccFlags(arch);
  absl::StrAppend(&out, "//\n");
  if (flags.ok()) {
    absl::StrAppend(&out, "// nvcc -std=c++17 ", absl::StrJoin(*flags, " "),
                    " --shared -Xcompiler -fPIC -o lib", name, ".so ", name, ".cu", library, "\n");
  } else {
    absl::StrAppend(&out, "// Tuned on '", arch,
                    "', not on a card: it runs on one, but not as fast as it could.\n",
                    "// nvcc -std=c++17 -O3 -arch=native --shared -Xcompiler -fPIC -o lib", name,
                    ".so ", name, ".cu", library, "\n");
  }
  return out + "\n";
}

}  // namespace

absl::StatusOr<std::string> ExportPlain(const Kernels& kernels, OutFolder& out) {
  const v1::Problem& problem = kernels.problem;
  std::string first;
  for (const Kernels::One& one : kernels.workloads) {
    std::string name = Identifier(problem.name());
    if (problem.workloads_size() > 1) name += "_" + Identifier(one.workload.name());
    auto source = CudaSource(one.plan, name);
    if (!source.ok()) {
      return absl::Status(source.status().code(), absl::StrCat("problem '", problem.name(),
                                                               "': ", source.status().message()));
    }
    const auto stored = StoredIn(problem, one);
    if (!stored.ok()) return stored.status();
    const std::string banner =
        Banner(problem, kernels.arch, one.plan, name, Remarks(problem, *stored, one.plan));
    auto path = WriteOut(out, name + ".cu", banner + *source);
    if (!path.ok()) return path.status();
    if (first.empty()) first = *path;
  }
  return first;
}

}  // namespace warpsmith::exporter
