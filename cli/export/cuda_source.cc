#include "cli/export/cuda_source.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <set>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "cli/export/host_side.h"
#include "common/graph/graph.h"
#include "common/graph/operators.h"
#include "common/problem/lanes.h"
#include "worker/kernels/headers.h"

namespace warpsmith::exporter {
namespace {

constexpr int64_t kAlignment = 256;  // of storage, as plans assume it
// From here on shared memory and clusters must be asked for, once for each kernel and device.
constexpr uint32_t kPlainShared = 48 << 10;
constexpr uint32_t kPortableCluster = 8;

// Copies source text, choosing a card's side of every `#if[n]def WS_HOST`.
class Expander {
 public:
  absl::Status Add(absl::string_view text) {
    std::vector<Branch> branches;
    for (absl::string_view line : absl::StrSplit(text, '\n')) {
      const absl::string_view bare = absl::StripAsciiWhitespace(line);
      if (absl::StartsWith(bare, "#if")) {
        const bool for_host = bare == "#ifdef WS_HOST", for_card = bare == "#ifndef WS_HOST";
        branches.push_back({for_host || for_card, for_card || !for_host});
        if (branches.back().ours) continue;
      } else if (absl::StartsWith(bare, "#else") && !branches.empty() && branches.back().ours) {
        branches.back().taken = !branches.back().taken;
        continue;
      } else if (absl::StartsWith(bare, "#endif") && !branches.empty()) {
        const bool ours = branches.back().ours;
        branches.pop_back();
        if (ours) continue;
      }
      bool taken = true;
      for (const Branch& branch : branches) taken = taken && branch.taken;
      if (!taken || bare == "#pragma once") continue;
      if (absl::StartsWith(bare, "#include")) {
        if (auto status = Include(bare); !status.ok()) return status;
        continue;
      }
      absl::StrAppend(&out_, line, "\n");
    }
    return absl::OkStatus();
  }

  const std::string& text() const { return out_; }

 private:
  struct Branch {
    bool ours;  // a question of WS_HOST, answered here
    bool taken;
  };

  absl::Status Include(absl::string_view line) {
    absl::string_view name = absl::StripAsciiWhitespace(line.substr(sizeof("#include") - 1));
    if (!absl::ConsumePrefix(&name, "<") || !absl::ConsumeSuffix(&name, ">")) {
      return absl::InvalidArgumentError(absl::StrCat("cannot write out '", line, "'"));
    }
    const auto& headers = kernels::Headers();
    const auto header = headers.find(std::string(name));
    if (header == headers.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("device code includes <", name, ">, which is none of the skeleton headers"));
    }
    if (!included_.insert(header->first).second) return absl::OkStatus();
    absl::StrAppend(&out_, "// ==== ", name, "\n");
    if (auto status = Add(header->second); !status.ok()) return status;
    absl::StrAppend(&out_, "// ==== end of ", name, "\n\n");
    return absl::OkStatus();
  }

  std::string out_;
  std::set<std::string> included_;
};

// A C++ expression for a buffer's address.
std::string Pointer(const Layout& layout, int buffer) {
  if (layout.offsets[buffer] >= 0) return absl::StrCat("workspace + ", layout.offsets[buffer]);
  for (int i = 0; i < layout.tensors.size(); ++i) {
    if (layout.tensors[i] == buffer) return absl::StrCat("buffers[", i, "]");
  }
  return "nullptr";
}

template <class Numbers>
std::string Dim3(const Numbers& numbers) {
  return absl::StrCat("dim3(", absl::StrJoin(numbers, ", "), ")");
}

absl::Status CheckBuffer(const v1::Plan& plan, int buffer) {
  if (buffer >= 0 && buffer < plan.buffers_size()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the plan has no buffer ", buffer, ", it has ", plan.buffers_size()));
}

// A C++ expression for a number, which "3f" and "inff" would not be.
std::string FloatLiteral(float value) {
  if (std::isnan(value)) return "NAN";
  if (std::isinf(value)) return value < 0 ? "-INFINITY" : "INFINITY";
  return absl::StrFormat("static_cast<float>(%.9g)", value);
}

int CountMaps(const v1::Launch& launch, bool windows) {
  return static_cast<int>(std::count_if(
      launch.arguments().begin(), launch.arguments().end(), [&](const v1::Argument& argument) {
        return argument.has_map() && argument.map().has_window() == windows;
      }));
}
bool TakesMaps(const v1::Launch& launch) {
  return CountMaps(launch, false) + CountMaps(launch, true) > 0;
}

// A tensor map as the variable `name`; what the driver says of it is in `error`.
absl::Status AddMap(const v1::Plan& plan, const Layout& layout, const v1::TensorMap& map,
                    const std::string& name, std::string& out) {
  if (auto status = CheckBuffer(plan, map.buffer()); !status.ok()) return status;
  const auto type = graph::FindType(map.dtype());
  const auto& window = map.window();
  const int images = map.sizes_size() - 2;  // axes of an image, with a window
  if (!type || map.sizes_size() < 1 || map.strides_size() != map.sizes_size() - 1 ||
      map.box_size() != (map.has_window() ? 2 : map.sizes_size())) {
    return absl::InvalidArgumentError(
        absl::StrCat("a tensor map of the type '", map.dtype(), "' with ", map.sizes_size(),
                     " sizes, ", map.strides_size(), " strides and a box of ", map.box_size()));
  }
  if (map.has_window() && (images < 1 || window.lower_size() != images ||
                           window.upper_size() != images || window.strides_size() != images)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a tensor map of ", map.sizes_size(), " sizes with a window of ", window.lower_size(),
        " and ", window.upper_size(), " corners and ", window.strides_size(), " strides"));
  }
  static const std::map<int64_t, const char*> kTypes = {{1, "8"}, {2, "16"}, {4, "32"}, {8, "64"}};
  const std::string swizzle = map.swizzle() == 0 ? "NONE" : absl::StrCat(map.swizzle(), "B");
  const std::string strides = map.strides().empty() ? "0" : absl::StrJoin(map.strides(), ", ");
  std::string windows;  // of the driver's function, before the box
  if (map.has_window()) {
    absl::StrAppend(&out, "    const int ", name, "_lower[] = {",
                    absl::StrJoin(window.lower(), ", "), "}, ", name, "_upper[] = {",
                    absl::StrJoin(window.upper(), ", "), "};\n    const cuuint32_t ", name,
                    "_each[] = {1, ", absl::StrJoin(window.strides(), ", "), ", 1};\n");
    windows = absl::StrCat(name, "_lower, ", name, "_upper, ", name, "_each, ");
  }
  absl::StrAppend(
      &out, "    const cuuint64_t ", name, "_sizes[] = {", absl::StrJoin(map.sizes(), ", "), "};\n",
      "    const cuuint64_t ", name, "_strides[] = {", strides, "};\n", "    const cuuint32_t ",
      name, "_box[] = {", absl::StrJoin(map.box(), ", "), "};\n", "    CUtensorMap ", name,
      ";  // ", plan.buffers(map.buffer()).tensor(), "\n",
      "    if (error == cudaSuccess) {\n      error = host_side::",
      map.has_window() ? "encode_window" : "encode", "(&", name, ", CU_TENSOR_MAP_DATA_TYPE_UINT",
      kTypes.at(graph::SizeOf(*type)), ", ", map.sizes_size(), ", static_cast<char*>(",
      Pointer(layout, map.buffer()), ") + ", map.offset(), ", ", name, "_sizes, ", name,
      "_strides, ", windows, name, "_box, CU_TENSOR_MAP_SWIZZLE_", swizzle, ");\n    }\n");
  return absl::OkStatus();
}

absl::Status AddLaunch(const v1::Plan& plan, const Layout& layout, const v1::Launch& launch,
                       bool may_overlap, std::string& out) {
  if (launch.grid_size() != 3 || launch.block_size() != 3 ||
      (launch.cluster_size() != 0 && launch.cluster_size() != 3)) {
    return absl::InvalidArgumentError(
        absl::StrCat("launch of ", launch.entry(), ": grid, block and cluster need three numbers"));
  }
  std::vector<std::string> names;
  for (int i = 0; i < launch.arguments_size(); ++i) {
    const auto& argument = launch.arguments(i);
    const std::string name = absl::StrCat("a", i);
    switch (argument.value_case()) {
      case v1::Argument::kBuffer:
        if (auto status = CheckBuffer(plan, argument.buffer()); !status.ok()) return status;
        absl::StrAppend(&out, "    void* ", name, " = ", Pointer(layout, argument.buffer()), ";",
                        "  // ", plan.buffers(argument.buffer()).tensor(), "\n");
        break;
      case v1::Argument::kI64:
        absl::StrAppend(&out, "    long long ", name, " = ", argument.i64(), "LL;\n");
        break;
      case v1::Argument::kI32:
        absl::StrAppend(&out, "    int ", name, " = ", argument.i32(), ";\n");
        break;
      case v1::Argument::kMap:
        if (auto status = AddMap(plan, layout, argument.map(), name, out); !status.ok())
          return status;
        break;
      case v1::Argument::kF32:
        absl::StrAppend(&out, "    float ", name, " = ", FloatLiteral(argument.f32()), ";\n");
        break;
      default:
        return absl::InvalidArgumentError(
            absl::StrCat("launch of ", launch.entry(), ": argument ", i, " has no value"));
    }
    names.push_back("&" + name);
  }
  const std::string arguments = names.empty() ? "nullptr" : absl::StrJoin(names, ", ");
  absl::StrAppend(&out, "    void* arguments[] = {", arguments, "};\n");
  absl::StrAppend(&out, TakesMaps(launch) ? "    if (error == cudaSuccess) " : "    ",
                  "error = host_side::launch(reinterpret_cast<const void*>(&", launch.entry(),
                  "), ", Dim3(launch.grid()), ", ", Dim3(launch.block()), ", ",
                  launch.cluster_size() == 3 ? Dim3(launch.cluster()) : "dim3(0)", ", ",
                  launch.shared_bytes(), ", ", launch.cooperative() ? "true" : "false", ", ",
                  launch.programmatic() && may_overlap ? "true" : "false",
                  ", arguments, stream);\n");
  return absl::OkStatus();
}

// A matrix as the library sees it: column major.
absl::StatusOr<std::string> MatrixText(const v1::Plan& plan, const v1::Matrix& matrix, int64_t rows,
                                       int64_t columns) {
  if (auto status = CheckBuffer(plan, matrix.buffer()); !status.ok()) return status;
  static const std::map<std::string, const char*> kTypes = {
      {"f32", "CUDA_R_32F"}, {"f16", "CUDA_R_16F"}, {"bf16", "CUDA_R_16BF"}};
  const auto type = kTypes.find(matrix.dtype());
  if (type == kTypes.end())
    return absl::InvalidArgumentError(absl::StrCat("a product's matrix of ", matrix.dtype()));
  const int64_t inner = matrix.along_rows() ? rows : columns,
                lines = matrix.along_rows() ? columns : rows;
  return absl::StrCat("{", type->second, ", ", inner, ", ", lines, ", ", matrix.line(), ", ",
                      matrix.batch(), "}");
}

absl::Status AddProduct(const v1::Plan& plan, const Layout& layout, const v1::LibraryProduct& step,
                        std::string& out) {
  std::vector<std::string> texts;
  for (const auto& text : {MatrixText(plan, step.b(), step.n(), step.k()),
                           MatrixText(plan, step.a(), step.m(), step.k()),
                           MatrixText(plan, step.d(), step.m(), step.n())}) {
    if (!text.ok()) return text.status();
    texts.push_back(*text);
  }
  if (auto status = CheckBuffer(plan, step.workspace()); !status.ok()) return status;
  if (step.has_bias()) {
    if (auto status = CheckBuffer(plan, step.bias().buffer()); !status.ok()) return status;
  }
  const auto at = [&](const auto& part) {
    return absl::StrCat("static_cast<char*>(", Pointer(layout, part.buffer()), ") + ",
                        part.offset());
  };
  absl::StrAppend(&out, "    static const host_side::ProductForm form = {\"", step.library(),
                  "\", ", step.algorithm(), ", ", step.batches(), ", ",
                  step.b().along_rows() ? "CUBLAS_OP_N" : "CUBLAS_OP_T", ", ",
                  step.a().along_rows() ? "CUBLAS_OP_T" : "CUBLAS_OP_N", ",\n        ",
                  absl::StrJoin(texts, ", "), ", ", plan.buffers(step.workspace()).bytes(), ", ",
                  step.has_bias() ? "true" : "false",
                  "};\n    static std::atomic<const host_side::Product*> made[64];\n",
                  "    error = host_side::multiply(form, made, ", at(step.b()), ", ", at(step.a()),
                  ", ", step.has_bias() ? at(step.bias()) : "nullptr", ", ", at(step.d()), ", ",
                  Pointer(layout, step.workspace()), ", stream);\n");
  return absl::OkStatus();
}

bool SameBytes(uint32_t pattern) { return pattern == (pattern & 0xff) * 0x01010101u; }

// Events of a call: the lanes' own, and one of each step that another lane waits for.
struct Events {
  std::map<int, int> of_step;
  int count = 1;
  explicit Events(const problem::Lanes& lanes) {
    for (size_t i = 0; i < lanes.turns.size(); ++i) {
      if (lanes.turns[i].awaited) of_step[static_cast<int>(i)] = count++;
    }
  }
};

// What is done about lanes before a step, and after it.
std::pair<std::string, std::string> Around(const v1::Step& step, int index, const Events& events) {
  std::string before, after;
  if (step.lane() > 0)
    absl::StrAppend(&before, "    const cudaStream_t stream = lanes.stream(", step.lane(), ");\n");
  for (const uint32_t other : step.after()) {
    absl::StrAppend(&before, "    if (error == cudaSuccess) error = lanes.wait(stream, ",
                    events.of_step.at(static_cast<int>(other)), ");\n");
  }
  if (!step.after().empty()) {
    absl::StrAppend(&before,
                    "    if (error != cudaSuccess) return host_side::failed(error, \"a wait "
                    "of lanes\", where);\n");
  }
  if (const auto event = events.of_step.find(index); event != events.of_step.end()) {
    absl::StrAppend(&after, "    if (error == cudaSuccess) error = lanes.record(stream, ",
                    event->second, ");\n");
  }
  return {before, after};
}

absl::Status AddStep(const v1::Plan& plan, const Layout& layout, const problem::Lanes& lanes,
                     const Events& events, int index, std::string& out) {
  const v1::Step& step = plan.steps(index);
  std::string where;
  std::string body;
  switch (step.step_case()) {
    case v1::Step::kLaunch: {
      where = step.launch().entry();
      auto status = AddLaunch(plan, layout, step.launch(), lanes.turns[index].may_overlap, body);
      if (!status.ok()) return status;
      break;
    }
    case v1::Step::kFill: {
      const auto& fill = step.fill();
      if (auto status = CheckBuffer(plan, fill.buffer()); !status.ok()) return status;
      where = absl::StrCat("fill of ", plan.buffers(fill.buffer()).tensor());
      const std::string to = Pointer(layout, fill.buffer());
      if (SameBytes(fill.pattern())) {
        absl::StrAppend(&body, "    error = cudaMemsetAsync(", to, ", ", fill.pattern() & 0xff,
                        ", ", fill.bytes(), ", stream);\n");
      } else {
        absl::StrAppend(&body, "    error = host_side::fill(", to, ", ", fill.pattern(), "u, ",
                        fill.bytes() / 4, "LL, stream);\n");
      }
      break;
    }
    case v1::Step::kCopy: {
      const auto& copy = step.copy();
      for (int buffer : {copy.from(), copy.to()}) {
        if (auto status = CheckBuffer(plan, buffer); !status.ok()) return status;
      }
      where = absl::StrCat("copy to ", plan.buffers(copy.to()).tensor());
      absl::StrAppend(&body, "    error = cudaMemcpyAsync(", Pointer(layout, copy.to()), ", ",
                      Pointer(layout, copy.from()), ", ", copy.bytes(),
                      ", cudaMemcpyDeviceToDevice, stream);\n");
      break;
    }
    case v1::Step::kProduct:
      where = absl::StrCat("a product by ", step.product().library());
      if (auto status = AddProduct(plan, layout, step.product(), body); !status.ok()) return status;
      break;
    default:
      return absl::InvalidArgumentError("the plan has an empty step");
  }
  const auto [before, after] = Around(step, index, events);
  absl::StrAppend(&out, "  {\n", before, body, after,
                  "    if (error != cudaSuccess) return host_side::failed(error, \"", where,
                  "\", where);\n  }\n");
  return absl::OkStatus();
}

// Kernels that need more shared memory or a larger cluster than every card has by default.
std::string Preparation(const v1::Plan& plan) {
  std::map<std::string, uint32_t> shared, cluster;  // the most that a kernel is launched with
  for (const auto& step : plan.steps()) {
    if (!step.has_launch()) continue;
    const auto& launch = step.launch();
    shared[launch.entry()] = std::max(shared[launch.entry()], launch.shared_bytes());
    if (launch.cluster_size() != 3) continue;
    const uint32_t blocks = launch.cluster(0) * launch.cluster(1) * launch.cluster(2);
    cluster[launch.entry()] = std::max(cluster[launch.entry()], blocks);
  }
  std::string out;
  const auto set = [&out](const std::string& entry, const char* attribute, uint32_t value) {
    absl::StrAppend(&out, "  if (error == cudaSuccess) {\n    error = cudaFuncSetAttribute(", entry,
                    ", ", attribute, ", ", value, ");\n  }\n");
  };
  for (const auto& [entry, bytes] : shared) {
    if (bytes > kPlainShared) set(entry, "cudaFuncAttributeMaxDynamicSharedMemorySize", bytes);
  }
  for (const auto& [entry, blocks] : cluster) {
    if (blocks > kPortableCluster) set(entry, "cudaFuncAttributeNonPortableClusterSizeAllowed", 1);
  }
  return out;
}

// What functions take of the host's side.
struct Needs {
  bool fills = false, products = false;
  bool boxes = false, windows = false;  // of tensor maps
  int lanes = 1, events = 1;            // the most of any
};

constexpr char kLanesFailed[] =
    "  if (error != cudaSuccess) return host_side::failed(error, \"lanes\", where);\n";

// extern "C" int NAME(buffers, stream, where): a plan's steps.
absl::StatusOr<std::string> Function(const v1::Plan& plan, const std::string& name,
                                     const std::string& preparation, Needs& needs) {
  const Layout layout = LayOut(plan);
  std::string out =
      absl::StrCat("extern \"C\" int ", name,
                   "(void* const* buffers, cudaStream_t stream, const char** where) {\n",
                   preparation.empty() ? "  cudaError_t error = cudaSuccess;\n"
                                       : "  cudaError_t error = host_side::prepare();\n"
                                         "  if (error != cudaSuccess) return "
                                         "host_side::failed(error, \"preparation\", where);\n");
  if (layout.workspace_bytes > 0) {
    absl::StrAppend(&out, "  char* const workspace = static_cast<char*>(buffers[",
                    layout.tensors.size(), "]);\n");
  }
  const auto lanes = problem::LanesOf(plan);
  if (!lanes.ok()) return lanes.status();
  const Events events(*lanes);
  needs.lanes = std::max(needs.lanes, lanes->count);
  needs.events = std::max(needs.events, events.count);
  const bool beside = lanes->count > 1;
  if (beside)
    absl::StrAppend(&out, "  host_side::Lanes lanes(stream);\n  error = lanes.begin();\n",
                    kLanesFailed);
  for (int i = 0; i < plan.steps_size(); ++i) {
    const v1::Step& step = plan.steps(i);
    if (auto status = AddStep(plan, layout, *lanes, events, i, out); !status.ok()) return status;
    needs.boxes |= CountMaps(step.launch(), false) > 0;
    needs.windows |= CountMaps(step.launch(), true) > 0;
    needs.products |= step.has_product();
    needs.fills |= step.has_fill() && !SameBytes(step.fill().pattern());
  }
  if (beside) absl::StrAppend(&out, "  error = lanes.end();\n", kLanesFailed);
  return absl::StrCat(out, "  return 0;\n}\n\n");
}

}  // namespace

absl::StatusOr<std::string> ExpandHeaders(const std::string& source) {
  Expander expander;
  if (auto status = expander.Add(source); !status.ok()) return status;
  return expander.text();
}

Layout LayOut(const v1::Plan& plan) {
  Layout layout;
  for (int i = 0; i < plan.buffers_size(); ++i) {
    const auto& buffer = plan.buffers(i);
    if (buffer.kind() != v1::Buffer::WORKSPACE) {
      layout.tensors.push_back(i);
      layout.offsets.push_back(-1);
      continue;
    }
    layout.offsets.push_back(layout.workspace_bytes);
    layout.workspace_bytes += (buffer.bytes() + kAlignment - 1) / kAlignment * kAlignment;
  }
  return layout;
}

absl::StatusOr<std::string> CudaSource(const v1::Plan& plan, const std::string& name) {
  auto device = ExpandHeaders(plan.source());
  if (!device.ok()) return device.status();
  Needs needs;
  const std::string preparation = Preparation(plan) + Preparation(plan.prepare());
  std::string functions;
  if (plan.has_prepare()) {
    auto text = Function(plan.prepare(), absl::StrCat(name, "_prepare"), preparation, needs);
    if (!text.ok()) return text.status();
    functions = *std::move(text);
  }
  auto text = Function(plan, absl::StrCat(name, "_run"), preparation, needs);
  if (!text.ok()) return text.status();
  absl::StrAppend(&functions, *text);
  const auto& [fills, products, boxes, windows, lanes, events] = needs;
  const bool maps = boxes || windows;
  std::string out = absl::StrCat(
      *device, kHostBanner, preparation.empty() && !products ? "" : "#include <atomic>\n",
      products
          ? "#include <cstdint>\n#include <cstdio>\n#include <cstring>\n#include <cublasLt.h>\n"
          : "",
      maps ? "#include <cuda.h>\n" : "", lanes > 1 ? "#include <mutex>\n" : "", kHostPrologue,
      lanes > 1 ? absl::StrCat("\nconstexpr int kBeside = ", lanes - 1, ", kEvents = ", events,
                               ";\n", kLanes)
                : "",
      maps ? kMaps : "", boxes ? kEncode : "", windows ? kEncodeWindow : "",
      products ? kProduct : "", fills ? kFill : "");
  if (!preparation.empty()) {
    // Asked for once on each device; a second thread that asks meanwhile does no harm.
    absl::StrAppend(&out, "\ncudaError_t prepare() {\n",
                    "  static std::atomic<unsigned long long> prepared{0};\n  int device = 0;\n",
                    "  cudaError_t error = cudaGetDevice(&device);\n",
                    "  const unsigned long long mine = 1ULL << (device & 63);\n",
                    "  if (error != cudaSuccess || (prepared.load() & mine) != 0) return error;\n",
                    preparation, "  if (error == cudaSuccess) prepared.fetch_or(mine);\n",
                    "  return error;\n}\n");
  }
  absl::StrAppend(
      &out, "\n}  // namespace\n}  // namespace host_side\n\n", functions,
      "extern \"C\" const char* ", name,
      "_error(int code) {\n  return cudaGetErrorString(static_cast<cudaError_t>(code));\n}\n");
  return out;
}

absl::StatusOr<std::vector<std::string>> NvccFlags(const std::string& arch) {
  absl::string_view number = arch;
  if (!absl::ConsumePrefix(&number, "sm_") || number.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", arch, "' is not an architecture of a CUDA card"));
  }
  return std::vector<std::string>{
      "-O3", absl::StrCat("-gencode=arch=compute_", number, ",code=sm_", number)};
}

}  // namespace warpsmith::exporter
