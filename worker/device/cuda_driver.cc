#include "worker/device/cuda_driver.h"

#include "absl/strings/str_cat.h"
#include "worker/device/library.h"

namespace warpsmith::device::cuda {
namespace {

absl::StatusOr<const Driver*> LoadAndStart() {
  auto library = Library::Open({"libcuda.so.1"}, "the CUDA driver (libcuda.so.1)",
                               "install NVIDIA's driver, or use the device 'host'");
  if (absl::IsNotFound(library.status())) return library.status();
  if (!library.ok()) return absl::UnavailableError(library.status().message());
  auto driver = std::make_unique<Driver>();
  absl::Status status;
#define WARPSMITH_FIND(member, symbol, parameters) \
  if (status.ok()) status = library->Find(symbol, &driver->member);
  WARPSMITH_CUDA_FUNCTIONS(WARPSMITH_FIND)
#undef WARPSMITH_FIND
  if (!status.ok()) return absl::UnavailableError(status.message());
  library->Find("cuFuncGetParamInfo", &driver->FuncGetParamInfo).IgnoreError();
  library->Find("cuTensorMapEncodeTiled", &driver->TensorMapEncodeTiled).IgnoreError();
  library->Find("cuTensorMapEncodeIm2col", &driver->TensorMapEncodeIm2col).IgnoreError();
  const Result result = driver->Init(0);
  if (result != kSuccess) {
    const absl::Status status = ToStatus(*driver, result, "cuInit");
    return result == kNoDevice ? status : absl::UnavailableError(status.message());
  }
  return driver.release();  // for the life of the process, like the library itself
}

absl::StatusCode CodeOf(Result result) {
  switch (result) {
    case kOutOfMemory:
      return absl::StatusCode::kResourceExhausted;
    case kIllegalAddress:
    case kMisalignedAddress:
      return absl::StatusCode::kOutOfRange;
    case kUncorrectableEcc:
    case kUncorrectableLink:
    case kContained:
      return absl::StatusCode::kDataLoss;
    case kLaunchTimeout:
    case kContextIsDestroyed:
    case kAssert:
    case kHardwareStackError:
    case kIllegalInstruction:
    case kInvalidAddressSpace:
    case kInvalidPc:
    case kLaunchFailed:
      return absl::StatusCode::kAborted;
    case kInvalidValue:
    case kInvalidImage:
    case kNoBinaryForGpu:
    case kInvalidPtx:
    case kLaunchOutOfResources:
    case kCooperativeLaunchTooLarge:
    case kInvalidClusterSize:
      return absl::StatusCode::kInvalidArgument;
    case kNotFound:
    case kNoDevice:
    case kInvalidDevice:
      return absl::StatusCode::kNotFound;
    case kNotSupported:
      return absl::StatusCode::kUnimplemented;
    default:
      return absl::StatusCode::kInternal;
  }
}

}  // namespace

absl::StatusOr<const Driver*> LoadDriver() {
  static const auto* const loaded = new absl::StatusOr<const Driver*>(LoadAndStart());
  return *loaded;
}

absl::Status ToStatus(const Driver& driver, Result result, absl::string_view what) {
  if (result == kSuccess) return absl::OkStatus();
  const char* name = nullptr;
  const char* text = nullptr;
  driver.GetErrorName(result, &name);
  driver.GetErrorString(result, &text);
  return absl::Status(CodeOf(result),
                      absl::StrCat(what, ": ", name != nullptr ? name : "unknown CUDA error", " (",
                                   result, "), ", text != nullptr ? text : "no description"));
}

}  // namespace warpsmith::device::cuda
