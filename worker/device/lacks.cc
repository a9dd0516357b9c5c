#include "worker/device/lacks.h"

#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/file.h"
#include "worker/device/cublaslt.h"
#include "worker/device/cupti.h"

namespace warpsmith::device {
namespace {

constexpr int kCapSysAdmin = 21;  // capability.h of Linux

// The value of `name` in lines of "name: value"; empty: it is not there.
std::string ValueOf(const std::string& path, const std::string& name) {
  const auto text = base::ReadFile(path);
  if (!text.ok()) return "";
  for (absl::string_view line : absl::StrSplit(*text, '\n')) {
    if (absl::ConsumePrefix(&line, name + ":")) {
      return std::string(absl::StripAsciiWhitespace(line));
    }
  }
  return "";
}

// ERR_NVGPUCTRPERM in NVIDIA's documentation: which option the driver was loaded with, and who may
// read the counters all the same.
std::string CountersLack(const std::string& root) {
  if (ValueOf(root + "/proc/driver/nvidia/params", "RmProfilingAdminOnly") != "1") return "";
  uint64_t capabilities = 0;
  const std::string mask = ValueOf(root + "/proc/self/status", "CapEff");
  if (absl::SimpleHexAtoi(mask, &capabilities) && (capabilities >> kCapSysAdmin & 1) != 0) {
    return "";
  }
  return "lacks performance counters, which the driver keeps to administrators: give "
         "CAP_SYS_ADMIN, "
         "or set the module option NVreg_RestrictProfilingToAdminUsers=0";
}

std::string SharedMemoryLack(const std::string& root) {
  const std::string path = root + "/dev/shm";
  struct statvfs found = {};
  if (statvfs(path.c_str(), &found) != 0 || access(path.c_str(), W_OK) != 0) {
    return absl::StrCat("lacks shared memory (/dev/shm: ", std::strerror(errno),
                        "): mount a tmpfs there that the worker may write");
  }
  const auto bytes = static_cast<int64_t>(found.f_blocks) * static_cast<int64_t>(found.f_frsize);
  if (bytes >= kSharedBytes) return "";
  return absl::StrCat(
      "lacks shared memory, through which PyTorch hands over a workload's tensors: "
      "/dev/shm has ",
      bytes >> 20, " MiB, give it ", kSharedBytes >> 20, " or more");
}

}  // namespace

Software FindSoftware(bool torch, const std::string& nvrtc, const std::string& cublaslt,
                      DeviceInfo& device) {
  Software software{.torch = torch};
  if (device.kind != "cuda") return software;
  software.nvrtc = MakeCompiler(device.arch, "", nvrtc).ok();
  software.cupti = cupti::Load(cupti::Candidates(nvrtc)).ok();
  const auto library = CublasLt::Open(cublaslt);
  software.cublaslt = library.ok();
  if (library.ok()) device.library = (*library)->name();
  return software;
}

std::vector<std::string> Lacks(const DeviceInfo& device, const Software& software,
                               const std::string& root) {
  std::vector<std::string> lacks;
  const auto add = [&lacks](std::string lack) {
    if (!lack.empty()) lacks.push_back(std::move(lack));
  };
  // On a card a tensor is named by its allocation's handle.
  if (device.kind == "host" && software.torch) add(SharedMemoryLack(root));
  if (device.kind != "cuda") return lacks;
  if (!software.nvrtc) {
    add("lacks NVRTC (libnvrtc.so), without which it compiles nothing: install the CUDA toolkit or "
        "the Python wheel nvidia-cuda-nvrtc, or give --nvrtc PATH");
  }
  // Not missed where the processor is the device: who looks there knows what for.
  if (!software.torch) {
    add("lacks PyTorch, so the native oracle and an op-by-op plan stand in for it: give --python "
        "PATH of a Python that has it");
  }
  if (!software.cublaslt) {
    add("lacks cuBLASLt, whose products are among the candidates: install the CUDA toolkit's "
        "cuBLAS or PyTorch, or give --cublaslt PATH");
  }
  if (!software.cupti) {
    add("lacks CUPTI (libcupti.so), by which kernels are profiled: install the CUDA toolkit or the "
        "Python wheel nvidia-cuda-cupti, 12.6 or newer");
  }
  add(CountersLack(root));
  return lacks;
}

}  // namespace warpsmith::device
