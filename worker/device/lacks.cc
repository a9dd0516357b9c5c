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

std::vector<std::string> Lacks(const DeviceInfo& device, bool torch, const std::string& root) {
  std::vector<std::string> lacks;
  const auto add = [&lacks](std::string lack) {
    if (!lack.empty()) lacks.push_back(std::move(lack));
  };
  if (device.kind == "cuda") add(CountersLack(root));
  // On a card a tensor is named by its allocation's handle.
  if (device.kind == "host" && torch) add(SharedMemoryLack(root));
  return lacks;
}

}  // namespace warpsmith::device
