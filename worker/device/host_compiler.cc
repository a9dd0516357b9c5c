#include "worker/device/host_compiler.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/base/sha256.h"
#include "worker/device/elf.h"
#include "worker/device/kernel_scan.h"
#include "worker/device/process.h"
#include "worker/kernels/headers.h"

namespace warpsmith::device {
namespace {

namespace fs = std::filesystem;

constexpr const char* kCompilers[] = {"c++", "g++", "clang++"};
constexpr absl::Duration kProbeLimit = absl::Seconds(10);
constexpr int kMaxErrorLines = 12;

// What CUDA promises and C++ does not: integers wrap, one type's bytes may be read as another's,
// mathematics sets no errno, and products and sums may contract. GCC 12 vectorises a loop of two
// sums side by side wrongly (lower_test "two sums of one column"): loops are left as they are,
// lanes are not. -nostartfiles leaves only what the source defines in the object, so that its
// writable variables can be told from the C library's.
const char* const kFlags[] = {"-x",
                              "c++",
                              "-std=c++17",
                              "-O2",
                              "-march=native",
                              "-fno-tree-loop-vectorize",
                              "-ffp-contract=fast",
                              "-fwrapv",
                              "-fno-strict-aliasing",
                              "-fno-math-errno",
                              "-fno-trapping-math",
                              "-fno-exceptions",
                              "-fno-rtti",
                              "-fno-threadsafe-statics",
                              "-fPIC",
                              "-shared",
                              "-nostartfiles",
                              "-fvisibility=hidden",
                              "-w"};

// Code for one processor (-march=native) must not be loaded on another.
std::string Processor() {
  std::ifstream file("/proc/cpuinfo");
  std::string line, found;
  while (std::getline(file, line) && !line.empty()) {
    if (absl::StartsWith(line, "model name") || absl::StartsWith(line, "flags")) found += line;
  }
  return found;
}

// What a card refuses as well (ptx_check.h): the first four it has from its driver.
constexpr const char* kRefusedFunctions[] = {"malloc", "free", "printf",       "vprintf",
                                             "clock",  "time", "clock_gettime"};

// FailedPrecondition: the object keeps memory from one run to the next, or reads a clock.
absl::Status CheckImage(const std::string& image) {
  auto names = WritableGlobals(image);
  if (!names.ok()) return names.status();
  if (!names->empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "writable variables at module scope are refused: ", absl::StrJoin(*names, ", ")));
  }
  names = UndefinedFunctions(image);
  if (!names.ok()) return names.status();
  for (const std::string& name : *names) {
    for (const char* refused : kRefusedFunctions) {
      if (name.substr(0, name.find('@')) != refused) continue;
      return absl::FailedPreconditionError(absl::StrCat(
          "functions of the driver are refused (its heap and buffers outlive a run), and clocks: ",
          refused));
    }
  }
  return absl::OkStatus();
}

// The lines that say what is wrong, at most kMaxErrorLines of them.
std::string FirstErrors(const std::string& output) {
  std::vector<std::string> lines;
  for (absl::string_view line : absl::StrSplit(output, '\n')) {
    if (lines.size() < kMaxErrorLines && absl::StrContains(line, "error")) lines.emplace_back(line);
  }
  return lines.empty() ? output.substr(0, 1000) : absl::StrJoin(lines, "\n");
}

void RemoveOldObjects(const std::string& folder) {
  std::vector<std::pair<fs::file_time_type, fs::path>> objects;
  std::error_code ignored;
  for (fs::directory_iterator it(folder, ignored), end; it != end; it.increment(ignored)) {
    if (it->path().extension() != ".so") continue;
    objects.emplace_back(it->last_write_time(ignored), it->path());
  }
  if (objects.size() <= kMaxCachedObjects) return;
  std::sort(objects.begin(), objects.end());
  const auto recent = fs::file_time_type::clock::now() - std::chrono::hours(1);
  for (size_t i = 0; i + kMaxCachedObjects < objects.size() && objects[i].first < recent; ++i) {
    fs::remove(objects[i].second, ignored);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<HostCompiler>> HostCompiler::Make(
    const std::string& cache_dir, const std::vector<std::string>& flags) {
  auto compiler = std::unique_ptr<HostCompiler>(new HostCompiler());
  for (const char* program : kCompilers) {
    auto version = RunProcess({program, "--version"}, kProbeLimit);
    if (!version.ok() || version->exit_code != 0) continue;
    compiler->program_ = program;
    compiler->version_ = std::string(version->output, 0, version->output.find('\n'));
    break;
  }
  if (compiler->program_.empty()) {
    return absl::NotFoundError(
        "the host device needs a C++ compiler (c++, g++ or clang++) in PATH: install g++");
  }
  compiler->flags_.assign(std::begin(kFlags), std::end(kFlags));
  if (absl::StrContains(compiler->version_, "clang")) {
    compiler->flags_.push_back("-ferror-limit=5");
  } else {
    compiler->flags_.insert(compiler->flags_.end(), {"-fmax-errors=5", "-fno-gnu-unique"});
  }
  compiler->flags_.insert(compiler->flags_.end(), flags.begin(), flags.end());
  std::string headers;
  for (const auto& [name, text] : kernels::Headers()) absl::StrAppend(&headers, name, "\n", text);
  const std::string headers_digest = base::Sha256Hex(headers);
  compiler->key_ = absl::StrCat(compiler->version_, "\n", absl::StrJoin(compiler->flags_, " "),
                                "\n", Processor(), "\n", headers_digest, "\n");
  compiler->cache_dir_ = fs::absolute(cache_dir).string();
  compiler->include_dir_ =
      absl::StrCat(compiler->cache_dir_, "/include-", headers_digest.substr(0, 16));
  for (const auto& [name, text] : kernels::Headers()) {
    const std::string path = absl::StrCat(compiler->include_dir_, "/", name);
    if (fs::exists(path)) continue;  // the folder's name is the digest of its contents
    if (absl::Status status = base::WriteFileAtomically(path, text); !status.ok()) return status;
  }
  RemoveOldObjects(compiler->cache_dir_);
  return compiler;
}

absl::StatusOr<Binary> HostCompiler::Compile(const std::string& source, absl::Duration limit) {
  const base::Instant start = base::Now();
  const std::vector<std::string> names = KernelNames(source);
  Binary binary;
  for (const std::string& name : names) binary.report.add_kernels()->set_entry(name);
  binary.bytes = absl::StrCat(cache_dir_, "/",
                              base::Sha256Hex(absl::StrCat(key_, source)).substr(0, 32), ".so");
  if (fs::exists(binary.bytes)) return binary;  // compile_ms stays 0

  std::string text = absl::StrCat("#line 1 \"kernel.cu\"\n", source, "\n");
  for (const std::string& name : names) {
    if (!absl::StrContains(source, absl::StrCat("WS_EXPORT(", name, ")"))) {
      absl::StrAppend(&text, "WS_EXPORT(", name, ")\n");
    }
  }
  static std::atomic<int> serial{0};
  const std::string stem = absl::StrCat(binary.bytes, ".", getpid(), ".", serial++);
  const std::string source_path = stem + ".cc", object_path = stem + ".tmp";
  {
    std::ofstream file(source_path);
    file << text;
    if (!file.flush()) {
      return absl::UnavailableError(absl::StrCat("cannot write ", source_path));
    }
  }
  std::vector<std::string> command = {program_};
  command.insert(command.end(), flags_.begin(), flags_.end());
  for (std::string argument : {std::string("-I"), include_dir_, std::string("-include"),
                               std::string("warpsmith/host.cuh"), std::string("-o"), object_path,
                               source_path, std::string("-Wl,--as-needed"), std::string("-lm")}) {
    command.push_back(std::move(argument));
  }
  const auto result = RunProcess(command, limit);
  std::error_code ignored;
  fs::remove(source_path, ignored);
  absl::Status status;
  if (!result.ok()) {
    status = absl::Status(result.status().code(),
                          absl::StrCat("compiling: ", result.status().message()));
  } else if (result->exit_code >= 128) {
    status = absl::InvalidArgumentError(
        absl::StrCat("the compiler died with signal ", result->exit_code - 128));
  } else if (result->exit_code != 0) {
    status = absl::InvalidArgumentError(FirstErrors(result->output));
  } else if (auto image = base::ReadFile(object_path); !image.ok()) {
    status = image.status();
  } else if (status = CheckImage(*image); !status.ok()) {
    // refused
  } else if (fs::rename(object_path, binary.bytes, ignored); ignored) {
    status = absl::UnavailableError(absl::StrCat("cannot rename to ", binary.bytes));
  }
  if (!status.ok()) {
    fs::remove(object_path, ignored);
    return status;
  }
  binary.report.set_compile_ms(absl::ToDoubleMilliseconds(base::Now() - start));
  return binary;
}

}  // namespace warpsmith::device
