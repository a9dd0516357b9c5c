#include "worker/device/device.h"

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "worker/device/cuda_device.h"
#include "worker/device/host_compiler.h"
#include "worker/device/host_device.h"
#include "worker/device/nvrtc_compiler.h"

namespace warpsmith::device {
namespace {

// Of "cuda:1": 1.
std::optional<int> OrdinalOf(absl::string_view name) {
  int ordinal = 0;
  const bool is_card = absl::ConsumePrefix(&name, "cuda:") && absl::SimpleAtoi(name, &ordinal);
  return is_card ? std::optional(ordinal) : std::nullopt;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Compiler>> MakeCompiler(const std::string& arch,
                                                       const std::string& cache_dir,
                                                       const std::string& nvrtc) {
  if (arch == "host") {
    auto compiler = HostCompiler::Make(cache_dir);
    if (!compiler.ok()) return compiler.status();
    return absl::StatusOr<std::unique_ptr<Compiler>>(*std::move(compiler));
  }
  if (absl::StartsWith(arch, "sm_")) {
    auto compiler = NvrtcCompiler::Make(arch, nvrtc);
    if (!compiler.ok()) return compiler.status();
    return absl::StatusOr<std::unique_ptr<Compiler>>(*std::move(compiler));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("no compiler for architecture '", arch, "': it is \"host\" or \"sm_90a\", ..."));
}

absl::StatusOr<std::unique_ptr<Device>> MakeDevice(const std::string& name,
                                                   const std::string& nvrtc,
                                                   const std::string& cublaslt) {
  if (name == "host") return MakeHostDevice();
  if (const auto ordinal = OrdinalOf(name); ordinal.has_value()) {
    return MakeCudaDevice(*ordinal, nvrtc, cublaslt);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("no device '", name, "': it is \"host\" or \"cuda:0\", ..."));
}

std::string PciBusIdOf(const std::string& name) {
  const auto ordinal = OrdinalOf(name);
  return ordinal.has_value() ? PciBusIdOfCard(*ordinal) : "";
}

}  // namespace warpsmith::device
