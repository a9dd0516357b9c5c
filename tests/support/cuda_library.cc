// A CUDA driver with cards that a test makes up, for finding and describing them: nothing runs
// there. $WARPSMITH_CUDA_CARDS has a number for each, which is in its UUID: "17 18 19". One of
// 2^63 or more does not open. Without any there is no card, and "broken" is a driver that does not
// start.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

#include "worker/device/cuda_driver.h"

namespace {

using namespace warpsmith::device::cuda;  // NOLINT(google-build-using-namespace)

constexpr Result kUnknown = 999;
constexpr uint64_t kIll = uint64_t{1} << 63;
constexpr size_t kBytes = size_t{80} << 30;

std::string Script() {
  const char* script = std::getenv("WARPSMITH_CUDA_CARDS");
  return script == nullptr ? "" : script;
}

std::vector<uint64_t> Cards() {
  std::vector<uint64_t> cards;
  std::istringstream script(Script());
  for (uint64_t number = 0; script >> number;) cards.push_back(number);
  return cards;
}

Result Known(Ordinal device) {
  return device >= 0 && device < static_cast<Ordinal>(Cards().size()) ? kSuccess : kInvalidDevice;
}

}  // namespace

// What is not here is not supported: cuda_rest.cc.
extern "C" {

Result cuInit(unsigned) {
  if (Script() == "broken") return kUnknown;
  return Cards().empty() ? kNoDevice : kSuccess;
}
Result cuDriverGetVersion(int* version) {
  *version = 13000;
  return kSuccess;
}
Result cuGetErrorName(Result, const char** name) {
  *name = "an error of the script";
  return kSuccess;
}
Result cuGetErrorString(Result, const char** text) {
  *text = "as it has it";
  return kSuccess;
}
Result cuDeviceGetCount(int* count) {
  *count = static_cast<int>(Cards().size());
  return kSuccess;
}
Result cuDeviceGet(Ordinal* device, int ordinal) {
  *device = ordinal;
  return Known(ordinal);
}
Result cuDeviceGetName(char* name, int length, Ordinal device) {
  std::strncpy(name, "Card of a script", length);
  return Known(device);
}
Result cuDeviceGetUuid_v2(Uuid* uuid, Ordinal device) {
  if (Known(device) != kSuccess) return kInvalidDevice;
  *uuid = {};
  std::memcpy(uuid->bytes, &Cards()[device], sizeof(uint64_t));
  return kSuccess;
}
Result cuDeviceGetPCIBusId(char* id, int length, Ordinal device) {
  // Of no machine's: what is told of a real card would be told of this one.
  std::snprintf(id, length, "ffff:%02x:00.0", device);
  return Known(device);
}
Result cuDeviceTotalMem_v2(size_t* bytes, Ordinal device) {
  *bytes = kBytes;
  return Known(device);
}
Result cuDeviceGetAttribute(int* value, int attribute, Ordinal device) {
  const bool has = attribute == kCapabilityMajor || attribute == kVirtualMemoryManagement;
  *value = attribute == kCapabilityMajor ? 9 : has ? 1 : 0;
  if (attribute == kMultiprocessors) *value = 132;
  return Known(device);
}
Result cuDevicePrimaryCtxRetain(Context* context, Ordinal device) {
  *context = nullptr;
  if (Known(device) == kSuccess && Cards()[device] >= kIll) return kUnknown;
  return Known(device);
}
Result cuDevicePrimaryCtxRelease_v2(Ordinal) { return kSuccess; }
Result cuCtxSetCurrent(Context) { return kSuccess; }
Result cuStreamCreate(Stream* stream, unsigned) {
  *stream = nullptr;
  return kSuccess;
}
Result cuMemGetAllocationGranularity(size_t* bytes, const AllocationProperties*, int) {
  *bytes = size_t{2} << 20;
  return kSuccess;
}

}  // extern "C"
