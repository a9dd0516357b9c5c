// The part of CUPTI that reads a card's performance counters, found in libcupti.so at run time: the
// range profiling and the host profiling interfaces, which CUDA 12.6 brought. Without it, or where
// it refuses, there are no counters and somebody says why; nothing else needs it.
//
//   auto cupti = Load(Candidates("/usr/local/cuda/lib64/libnvrtc.so.13"));  // beside it, too
//   auto schedule = Plan(**cupti, "GH100", metrics, "");                    // no card needed
//
// Types and numbers are CUPTI's C interface as of CUDA 12.6 to 13; every structure begins with its
// size, so that a newer library knows what it is given.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/device/cuda_driver.h"

namespace warpsmith::device::cupti {

using Result = int;  // 0: success
inline constexpr Result kSuccess = 0;
inline constexpr Result kNotInitialized = 15;
inline constexpr Result kInsufficientPrivileges = 35;

using HostObject = struct HostObjectTag*;
using RangeObject = struct RangeObjectTag*;

inline constexpr int kRangeProfiler = 0;  // CUPTI_PROFILER_TYPE_RANGE_PROFILER
inline constexpr int kUserRange = 2;      // CUPTI_UserRange
inline constexpr int kUserReplay = 3;     // CUPTI_UserReplay

// Every structure begins with the bytes that CUPTI knows of it, to the end of its last member
// (Make), and a pointer that is null.
struct Nothing {
  size_t size = 0;
  void* reserved = nullptr;
};
struct ChipName {
  size_t size = 0;
  void* reserved = nullptr;
  size_t device = 0;
  const char* name = nullptr;  // out
};
struct Availability {
  size_t size = 0;
  void* reserved = nullptr;
  cuda::Context context = nullptr;
  size_t image_bytes = 0;  // in, out
  uint8_t* image = nullptr;
};
struct HostInitialize {
  size_t size = 0;
  void* reserved = nullptr;
  int profiler = kRangeProfiler;
  const char* chip = nullptr;
  const uint8_t* availability = nullptr;
  HostObject host = nullptr;  // out
};
struct HostDeinitialize {
  size_t size = 0;
  void* reserved = nullptr;
  HostObject host = nullptr;
};
struct AddMetrics {
  size_t size = 0;
  void* reserved = nullptr;
  HostObject host = nullptr;
  const char** names = nullptr;
  size_t count = 0;
};
struct ConfigSize {
  size_t size = 0;
  void* reserved = nullptr;
  HostObject host = nullptr;
  size_t bytes = 0;  // out
};
struct ConfigImage {
  size_t size = 0;
  void* reserved = nullptr;
  HostObject host = nullptr;
  size_t bytes = 0;
  uint8_t* image = nullptr;
};
struct Passes {
  size_t size = 0;
  void* reserved = nullptr;
  size_t bytes = 0;
  uint8_t* image = nullptr;
  size_t passes = 0;  // out
};
struct Evaluate {
  size_t size = 0;
  void* reserved = nullptr;
  HostObject host = nullptr;
  const uint8_t* data = nullptr;
  size_t data_bytes = 0;
  size_t range = 0;
  const char** names = nullptr;
  size_t count = 0;
  double* values = nullptr;
};
struct RangeEnable {
  size_t size = 0;
  void* reserved = nullptr;
  cuda::Context context = nullptr;
  RangeObject ranges = nullptr;  // out
};
struct RangeCall {
  size_t size = 0;
  void* reserved = nullptr;
  RangeObject ranges = nullptr;
};
struct DataSize {
  size_t size = 0;
  void* reserved = nullptr;
  RangeObject ranges = nullptr;
  const char** names = nullptr;
  size_t count = 0;
  size_t most_ranges = 0;
  uint32_t most_nodes = 0;
  size_t bytes = 0;  // out
};
struct DataInitialize {
  size_t size = 0;
  void* reserved = nullptr;
  RangeObject ranges = nullptr;
  size_t bytes = 0;
  uint8_t* data = nullptr;
};
struct RangeConfig {
  size_t size = 0;
  void* reserved = nullptr;
  RangeObject ranges = nullptr;
  size_t config_bytes = 0;
  const uint8_t* config = nullptr;
  size_t data_bytes = 0;
  uint8_t* data = nullptr;
  int range = kUserRange;
  int replay = kUserReplay;
  size_t ranges_per_pass = 0;
  uint16_t nesting_levels = 1;
  uint16_t least_nesting = 1;
  size_t pass = 0;
  uint16_t target_nesting = 1;
};
struct RangeStop {
  size_t size = 0;
  void* reserved = nullptr;
  RangeObject ranges = nullptr;
  size_t pass = 0;
  size_t target_nesting = 0;
  uint8_t all_submitted = 0;  // out
};
struct RangePush {
  size_t size = 0;
  void* reserved = nullptr;
  RangeObject ranges = nullptr;
  const char* name = nullptr;
};
struct Decode {
  size_t size = 0;
  void* reserved = nullptr;
  RangeObject ranges = nullptr;
  size_t dropped = 0;  // out: ranges
};
struct DataInfo {
  size_t size = 0;
  void* reserved = nullptr;
  const uint8_t* data = nullptr;
  size_t data_bytes = 0;
  size_t ranges = 0;  // out
};

// Bytes of a structure behind its last member.
template <class T>
inline constexpr size_t kPadding = 0;
template <>
inline constexpr size_t kPadding<RangeConfig> = 6;
template <>
inline constexpr size_t kPadding<RangeStop> = 7;

template <class T>
T Make() {
  T made;
  made.size = sizeof(T) - kPadding<T>;
  return made;
}

// member, symbol, parameter
#define WARPSMITH_CUPTI_FUNCTIONS(X)                                                     \
  X(Initialize, "cuptiProfilerInitialize", Nothing)                                      \
  X(GetChipName, "cuptiDeviceGetChipName", ChipName)                                     \
  X(GetAvailability, "cuptiProfilerGetCounterAvailability", Availability)                \
  X(HostInitialize, "cuptiProfilerHostInitialize", HostInitialize)                       \
  X(HostDeinitialize, "cuptiProfilerHostDeinitialize", HostDeinitialize)                 \
  X(HostAddMetrics, "cuptiProfilerHostConfigAddMetrics", AddMetrics)                     \
  X(HostConfigSize, "cuptiProfilerHostGetConfigImageSize", ConfigSize)                   \
  X(HostConfigImage, "cuptiProfilerHostGetConfigImage", ConfigImage)                     \
  X(HostPasses, "cuptiProfilerHostGetNumOfPasses", Passes)                               \
  X(HostEvaluate, "cuptiProfilerHostEvaluateToGpuValues", Evaluate)                      \
  X(RangeEnable, "cuptiRangeProfilerEnable", RangeEnable)                                \
  X(RangeDisable, "cuptiRangeProfilerDisable", RangeCall)                                \
  X(RangeDataSize, "cuptiRangeProfilerGetCounterDataSize", DataSize)                     \
  X(RangeDataInitialize, "cuptiRangeProfilerCounterDataImageInitialize", DataInitialize) \
  X(RangeConfigure, "cuptiRangeProfilerSetConfig", RangeConfig)                          \
  X(RangeStart, "cuptiRangeProfilerStart", RangeCall)                                    \
  X(RangeStop, "cuptiRangeProfilerStop", RangeStop)                                      \
  X(RangePush, "cuptiRangeProfilerPushRange", RangePush)                                 \
  X(RangePop, "cuptiRangeProfilerPopRange", RangeCall)                                   \
  X(RangeDecode, "cuptiRangeProfilerDecodeData", Decode)                                 \
  X(RangeDataInfo, "cuptiRangeProfilerGetCounterDataInfo", DataInfo)

struct Library {
#define WARPSMITH_DECLARE(member, symbol, parameter) Result (*member)(parameter*);
  WARPSMITH_CUPTI_FUNCTIONS(WARPSMITH_DECLARE)
#undef WARPSMITH_DECLARE
  Result (*GetResultString)(Result result, const char** text);
  // After the first of these what is called next begins anew, once somebody has subscribed.
  Result (*Finalize)();
  Result (*Subscribe)(void** subscriber, void (*callback)(void*, int, uint32_t, const void*),
                      void* data);
  Result (*Unsubscribe)(void* subscriber);
};

// cuptiProfilerInitialize, also after a Finalize.
Result Initialize(const Library& cupti);

// Where it is looked for, in order. `beside`: path of another library of the toolkit or of a Python
// wheel; empty: none.
std::vector<std::string> Candidates(const std::string& beside);
// The first of `names` that is there. NotFound says what was tried, or that it is too old.
absl::StatusOr<const Library*> Load(const std::vector<std::string>& names);

// OK, or what CUPTI says. PermissionDenied: this user may not read counters; the message says how
// to be allowed.
absl::Status ToStatus(const Library& cupti, Result result, const char* what);

// CUPTI's object of a chip, which configures metrics and evaluates them.
class Host {
 public:
  // `availability`: the card's image, or empty for any card of that chip. NotFound: the library
  // does not know the chip.
  static absl::StatusOr<std::unique_ptr<Host>> Make(const Library& cupti, const std::string& chip,
                                                    const std::string& availability);
  Host(const Host&) = delete;
  ~Host();
  HostObject get() const { return host_; }

 private:
  Host(const Library& cupti, HostObject host) : cupti_(cupti), host_(host) {}
  const Library& cupti_;
  const HostObject host_;
};

// How counters are read on a chip.
struct Schedule {
  std::unique_ptr<Host> host;
  std::vector<std::string> metrics;  // those of the wanted ones that the chip has
  std::vector<std::string> missing;  // the others
  std::string config;                // image
  int passes = 0;
};
// NotFound: the library does not know the chip, or it has none of the metrics.
absl::StatusOr<Schedule> Plan(const Library& cupti, const std::string& chip,
                              const std::vector<std::string>& metrics,
                              const std::string& availability);

}  // namespace warpsmith::device::cupti
