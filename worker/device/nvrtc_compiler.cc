#include "worker/device/nvrtc_compiler.h"

#include <dlfcn.h>

#include <map>
#include <mutex>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/clock.h"
#include "worker/device/library.h"
#include "worker/device/ptx_check.h"
#include "worker/kernels/headers.h"

namespace warpsmith::device {

// Declarations after NVRTC's documentation; the types are its C interface.
struct Nvrtc {
  using Program = void*;
  using Result = int;  // 0: success

  Result (*CreateProgram)(Program*, const char* source, const char* name, int headers,
                          const char* const* texts, const char* const* names);
  Result (*CompileProgram)(Program, int options, const char* const* values);
  Result (*DestroyProgram)(Program*);
  Result (*GetCubinSize)(Program, size_t*);
  Result (*GetCubin)(Program, char*);
  Result (*GetPtxSize)(Program, size_t*);
  Result (*GetPtx)(Program, char*);
  Result (*GetLogSize)(Program, size_t*);
  Result (*GetLog)(Program, char*);
  const char* (*GetErrorString)(Result);
  Result (*SetFlowCallback)(Program, int (*callback)(void*, void*), void* payload);  // or null
};

namespace {

constexpr Nvrtc::Result kCompilationError = 6;
constexpr Nvrtc::Result kInvalidOption = 5;
constexpr int kMaxErrorLines = 12;

std::vector<std::string> Candidates(const std::string& library) {
  if (!library.empty()) return {library};
  std::vector<std::string> names = {"libnvrtc.so.13", "libnvrtc.so.12"};
  for (const char* pattern :
       {"/usr/local/cuda*/lib64/libnvrtc.so.1[23]",
        "/opt/*/lib/python*/site-packages/nvidia/{cu13,cuda_nvrtc}/lib/libnvrtc.so.1[23]",
        "/usr/local/lib/python*/{dist,site}-packages/nvidia/{cu13,cuda_nvrtc}/lib/"
        "libnvrtc.so.1[23]",
        "/usr/lib/python3*/{dist,site}-packages/nvidia/{cu13,cuda_nvrtc}/lib/libnvrtc.so.1[23]"}) {
    for (std::string& path : Matching(pattern)) names.push_back(std::move(path));
  }
  return names;
}

// NVRTC asks the linker for its built-in functions by name: where it was found by path, so must
// they be, and before it asks.
void LoadBuiltins(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return;
  for (const std::string& builtins :
       Matching(absl::StrCat(path.substr(0, slash), "/libnvrtc-builtins.so.*"))) {
    if (dlopen(builtins.c_str(), RTLD_NOW | RTLD_GLOBAL) != nullptr) return;
  }
}

absl::StatusOr<const Nvrtc*> LoadNvrtc(const std::string& path) {
  static std::mutex* const mutex = new std::mutex;
  static auto* const loaded = new std::map<std::string, const Nvrtc*>;
  const std::lock_guard<std::mutex> lock(*mutex);
  if (const auto it = loaded->find(path); it != loaded->end()) return it->second;
  auto library = Library::Open(
      Candidates(path), "NVRTC (libnvrtc.so)",
      "install the CUDA toolkit or the Python wheel nvidia-cuda-nvrtc, or give its path");
  if (!library.ok()) return library.status();
  LoadBuiltins(library->path());
  auto nvrtc = std::make_unique<Nvrtc>();
  for (const absl::Status& status :
       {library->Find("nvrtcCreateProgram", &nvrtc->CreateProgram),
        library->Find("nvrtcCompileProgram", &nvrtc->CompileProgram),
        library->Find("nvrtcDestroyProgram", &nvrtc->DestroyProgram),
        library->Find("nvrtcGetCUBINSize", &nvrtc->GetCubinSize),
        library->Find("nvrtcGetCUBIN", &nvrtc->GetCubin),
        library->Find("nvrtcGetPTXSize", &nvrtc->GetPtxSize),
        library->Find("nvrtcGetPTX", &nvrtc->GetPtx),
        library->Find("nvrtcGetProgramLogSize", &nvrtc->GetLogSize),
        library->Find("nvrtcGetProgramLog", &nvrtc->GetLog),
        library->Find("nvrtcGetErrorString", &nvrtc->GetErrorString)}) {
    if (!status.ok()) return status;
  }
  library->Find("nvrtcSetFlowCallback", &nvrtc->SetFlowCallback).IgnoreError();
  return (*loaded)[path] = nvrtc.release();
}

// A program of NVRTC's, destroyed with it.
class ScopedProgram {
 public:
  explicit ScopedProgram(const Nvrtc* nvrtc) : nvrtc_(nvrtc) {}
  ~ScopedProgram() {
    if (program != nullptr) nvrtc_->DestroyProgram(&program);
  }
  Nvrtc::Program program = nullptr;

 private:
  const Nvrtc* nvrtc_;
};

std::string FirstErrors(const std::string& log) {
  std::vector<std::string> lines;
  bool in_error = false;
  for (absl::string_view line : absl::StrSplit(log, '\n', absl::SkipWhitespace())) {
    const bool starts = absl::StrContains(line, "): ") || absl::StrContains(line, "error");
    if (starts) in_error = absl::StrContains(line, "error");
    if (in_error && lines.size() < kMaxErrorLines) lines.emplace_back(line);
  }
  return lines.empty() ? log.substr(0, 1000) : absl::StrJoin(lines, "\n");
}

// One of NVRTC's results: its size, then its bytes.
absl::Status Fetch(const Nvrtc& nvrtc, Nvrtc::Program program, const char* what,
                   Nvrtc::Result (*size_of)(Nvrtc::Program, size_t*),
                   Nvrtc::Result (*get)(Nvrtc::Program, char*), std::string* bytes) {
  size_t size = 0;
  Nvrtc::Result result = size_of(program, &size);
  bytes->resize(size);
  if (result == 0 && size > 0) result = get(program, bytes->data());
  if (result == 0) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("fetching NVRTC's ", what, ": ", nvrtc.GetErrorString(result)));
}

// The number in front of `unit`: NumberBefore("Used 12 registers", " registers") is 12.
int NumberBefore(absl::string_view line, absl::string_view unit) {
  const size_t at = line.find(unit);
  if (at == absl::string_view::npos) return 0;
  size_t begin = at;
  while (begin > 0 && absl::ascii_isdigit(line[begin - 1])) --begin;
  int number = 0;
  return absl::SimpleAtoi(line.substr(begin, at - begin), &number) ? number : 0;
}

// What stands between the first two quotes.
std::string Quoted(absl::string_view line) {
  const std::vector<std::string> parts = absl::StrSplit(line, '\'');
  return parts.size() > 2 ? parts[1] : "";
}

}  // namespace

v1::StaticReport ParsePtxasLog(const std::string& log) {
  v1::StaticReport report;
  v1::StaticReport::Kernel* kernel = nullptr;
  bool of_entry = false;  // properties of called functions are listed as well
  for (absl::string_view line : absl::StrSplit(log, '\n')) {
    if (absl::StrContains(line, "Performance Loss") || absl::StrContains(line, "setmaxnreg")) {
      report.add_warnings(std::string(absl::StripAsciiWhitespace(line)));
    }
    if (absl::StrContains(line, "Compiling entry function")) {
      kernel = report.add_kernels();
      kernel->set_entry(Quoted(line));
      of_entry = true;
    } else if (kernel == nullptr) {
      continue;
    } else if (absl::StrContains(line, "Function properties for")) {
      of_entry = absl::EndsWith(line, absl::StrCat(" ", kernel->entry()));
    } else if (of_entry && absl::StrContains(line, " bytes stack frame")) {
      kernel->set_spill_bytes(NumberBefore(line, " bytes stack frame"));
    } else if (absl::StrContains(line, " registers")) {
      kernel->set_registers(NumberBefore(line, " registers"));
      kernel->set_shared_bytes(NumberBefore(line, " bytes smem"));
    }
  }
  return report;
}

absl::StatusOr<std::unique_ptr<NvrtcCompiler>> NvrtcCompiler::Make(const std::string& arch,
                                                                   const std::string& library) {
  auto nvrtc = LoadNvrtc(library);
  if (!nvrtc.ok()) return nvrtc.status();
  return std::unique_ptr<NvrtcCompiler>(new NvrtcCompiler(arch, *nvrtc));
}

absl::StatusOr<Binary> NvrtcCompiler::Compile(const std::string& source, absl::Duration limit) {
  const base::Instant start = base::Now();
  base::Instant deadline = start + limit;
  const auto failed = [&](const char* call, Nvrtc::Result result) {
    return absl::InternalError(absl::StrCat(call, ": ", nvrtc_->GetErrorString(result)));
  };
  std::vector<const char*> names, texts;
  for (const auto& [name, text] : kernels::Headers()) {
    names.push_back(name.c_str());
    texts.push_back(text.c_str());
  }
  ScopedProgram scoped(nvrtc_);
  Nvrtc::Result result =
      nvrtc_->CreateProgram(&scoped.program, source.c_str(), "kernel.cu",
                            static_cast<int>(names.size()), texts.data(), names.data());
  if (result != 0) return failed("nvrtcCreateProgram", result);
  if (nvrtc_->SetFlowCallback != nullptr) {
    const auto callback = [](void* deadline, void*) -> int {
      return base::Now() > *static_cast<const base::Instant*>(deadline);
    };
    result = nvrtc_->SetFlowCallback(scoped.program, callback, &deadline);
    if (result != 0) return failed("nvrtcSetFlowCallback", result);
  }
  const std::string arch = absl::StrCat("--gpu-architecture=", arch_);
  const std::vector<const char*> options = {arch.c_str(), "--std=c++17", "--ptxas-options=-v"};
  result = nvrtc_->CompileProgram(scoped.program, static_cast<int>(options.size()), options.data());
  const bool late = base::Now() > deadline;
  std::string log;
  if (absl::Status status =
          Fetch(*nvrtc_, scoped.program, "log", nvrtc_->GetLogSize, nvrtc_->GetLog, &log);
      !status.ok()) {
    return status;
  }
  if (late) {
    return absl::DeadlineExceededError(
        absl::StrCat("compiling took longer than ", absl::FormatDuration(limit)));
  }
  if (result == kCompilationError) return absl::InvalidArgumentError(FirstErrors(log));
  if (result == kInvalidOption) {
    return absl::FailedPreconditionError(
        absl::StrCat("this NVRTC does not know ", arch_, ": install a newer one"));
  }
  if (result != 0) return failed("nvrtcCompileProgram", result);

  Binary binary;
  std::string ptx;
  for (const absl::Status& status :
       {Fetch(*nvrtc_, scoped.program, "cubin", nvrtc_->GetCubinSize, nvrtc_->GetCubin,
              &binary.bytes),
        Fetch(*nvrtc_, scoped.program, "PTX", nvrtc_->GetPtxSize, nvrtc_->GetPtx, &ptx)}) {
    if (!status.ok()) return status;
  }
  if (absl::Status status = CheckCompiled(source, binary.bytes, ptx); !status.ok()) {
    return status;
  }
  binary.report = ParsePtxasLog(log);
  binary.report.set_compile_ms(absl::ToDoubleMilliseconds(base::Now() - start));
  return binary;
}

}  // namespace warpsmith::device
