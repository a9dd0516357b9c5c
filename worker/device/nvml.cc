#include "worker/device/nvml.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "worker/device/library.h"

namespace warpsmith::device {
namespace {

using Result = int;
constexpr Result kSuccess = 0, kTimeout = 10, kGpuIsLost = 15;
constexpr int kClockSm = 1, kClockMemory = 2;
constexpr int kSensorGpu = 0;
constexpr int kUncorrected = 1, kVolatile = 0;  // errors; since the driver was loaded
constexpr unsigned kMigEnabled = 1;
constexpr uint64_t kXidCriticalError = 8;
// nvmlPerfPolicyType_t
constexpr int kPower = 0, kThermal = 1, kBoardLimit = 3, kReliability = 5;

struct ViolationTime {
  uint64_t reference_us, violation_ns;
};
struct ProcessInfo {
  unsigned pid;
  uint64_t used_bytes;
  unsigned gpu_instance, compute_instance;
};
struct EventData {
  void* device;
  uint64_t type, data;
  unsigned gpu_instance, compute_instance;
};

constexpr size_t kMostProcesses = 256;

}  // namespace

// Null: this driver has none of that name.
struct Nvml::Functions {
  Result (*Init)();
  Result (*Shutdown)();
  Result (*SystemGetDriverVersion)(char* version, unsigned length);
  Result (*DeviceGetHandleByPciBusId)(const char* id, void** device);
  Result (*DeviceGetHandleByIndex)(unsigned index, void** device);
  Result (*DeviceGetUuid)(void* device, char* uuid, unsigned length);
  Result (*DeviceGetClockInfo)(void* device, int clock, unsigned* mhz);
  Result (*DeviceGetPowerUsage)(void* device, unsigned* milliwatts);
  Result (*DeviceGetEnforcedPowerLimit)(void* device, unsigned* milliwatts);
  Result (*DeviceGetTemperature)(void* device, int sensor, unsigned* celsius);
  Result (*DeviceGetViolationStatus)(void* device, int policy, ViolationTime* time);
  Result (*DeviceGetTotalEccErrors)(void* device, int kind, int counter, uint64_t* count);
  Result (*DeviceGetRemappedRows)(void* device, unsigned* correctable, unsigned* uncorrectable,
                                  unsigned* pending, unsigned* failed);
  Result (*DeviceGetMigMode)(void* device, unsigned* current, unsigned* pending);
  Result (*DeviceGetComputeRunningProcesses)(void* device, unsigned* count, ProcessInfo* infos);
  Result (*EventSetCreate)(void** set);
  Result (*EventSetFree)(void* set);
  Result (*DeviceRegisterEvents)(void* device, uint64_t types, void* set);
  Result (*EventSetWait)(void* set, EventData* data, unsigned timeout_ms);
};

absl::StatusOr<std::unique_ptr<Nvml>> Nvml::Open(const std::string& pci_bus_id,
                                                 const std::string& library) {
  auto found = Library::Open({library.empty() ? "libnvidia-ml.so.1" : library}, "NVML",
                             "it comes with NVIDIA's driver");
  if (!found.ok()) return found.status();
  auto functions = std::make_unique<Functions>();
  Functions& f = *functions;
  for (const absl::Status& status :
       {found->Find("nvmlInit_v2", &f.Init), found->Find("nvmlShutdown", &f.Shutdown),
        found->Find("nvmlDeviceGetHandleByPciBusId_v2", &f.DeviceGetHandleByPciBusId),
        found->Find("nvmlDeviceGetHandleByIndex_v2", &f.DeviceGetHandleByIndex)}) {
    if (!status.ok()) return status;
  }
  for (const absl::Status& missing :
       {found->Find("nvmlSystemGetDriverVersion", &f.SystemGetDriverVersion),
        found->Find("nvmlDeviceGetUUID", &f.DeviceGetUuid),
        found->Find("nvmlDeviceGetClockInfo", &f.DeviceGetClockInfo),
        found->Find("nvmlDeviceGetPowerUsage", &f.DeviceGetPowerUsage),
        found->Find("nvmlDeviceGetEnforcedPowerLimit", &f.DeviceGetEnforcedPowerLimit),
        found->Find("nvmlDeviceGetTemperature", &f.DeviceGetTemperature),
        found->Find("nvmlDeviceGetViolationStatus", &f.DeviceGetViolationStatus),
        found->Find("nvmlDeviceGetTotalEccErrors", &f.DeviceGetTotalEccErrors),
        found->Find("nvmlDeviceGetRemappedRows", &f.DeviceGetRemappedRows),
        found->Find("nvmlDeviceGetMigMode", &f.DeviceGetMigMode),
        found->Find("nvmlDeviceGetComputeRunningProcesses_v3", &f.DeviceGetComputeRunningProcesses),
        found->Find("nvmlEventSetCreate", &f.EventSetCreate),
        found->Find("nvmlEventSetFree", &f.EventSetFree),
        found->Find("nvmlDeviceRegisterEvents", &f.DeviceRegisterEvents),
        found->Find("nvmlEventSetWait_v2", &f.EventSetWait)}) {
    missing.IgnoreError();  // an older driver
  }
  if (const Result result = f.Init(); result != kSuccess) {
    return absl::NotFoundError(absl::StrCat("NVML does not start: its error ", result));
  }
  std::unique_ptr<Nvml> nvml(new Nvml(std::move(functions)));
  const Result result =
      pci_bus_id.empty()
          ? nvml->functions_->DeviceGetHandleByIndex(0, &nvml->device_)
          : nvml->functions_->DeviceGetHandleByPciBusId(pci_bus_id.c_str(), &nvml->device_);
  if (result != kSuccess) {
    return absl::NotFoundError(absl::StrCat(
        "NVML has no card ", pci_bus_id.empty() ? "0" : pci_bus_id, ": its error ", result));
  }
  const Functions& has = *nvml->functions_;
  if (has.EventSetCreate != nullptr && has.EventSetFree != nullptr && has.EventSetWait != nullptr &&
      has.DeviceRegisterEvents != nullptr && has.EventSetCreate(&nvml->events_) == kSuccess &&
      has.DeviceRegisterEvents(nvml->device_, kXidCriticalError, nvml->events_) != kSuccess) {
    has.EventSetFree(nvml->events_);
    nvml->events_ = nullptr;
  }
  return nvml;
}

Nvml::Nvml(std::unique_ptr<Functions> functions) : functions_(std::move(functions)) {}

Nvml::~Nvml() {
  if (events_ != nullptr) functions_->EventSetFree(events_);
  functions_->Shutdown();
}

double Nvml::SmClockMhz() const {
  unsigned mhz = 0;
  const auto read = functions_->DeviceGetClockInfo;
  return read != nullptr && read(device_, kClockSm, &mhz) == kSuccess ? mhz : 0;
}

std::string Nvml::DriverVersion() const {
  char version[96] = {};
  const auto read = functions_->SystemGetDriverVersion;
  return read != nullptr && read(version, sizeof version) == kSuccess ? version : "";
}

std::string Nvml::Uuid() const {
  char uuid[96] = {};
  const auto read = functions_->DeviceGetUuid;
  return read != nullptr && read(device_, uuid, sizeof uuid) == kSuccess ? uuid : "";
}

Throttling Nvml::Throttled() const {
  const auto seconds = [this](int policy) {
    ViolationTime time = {};
    const auto read = functions_->DeviceGetViolationStatus;
    return read != nullptr && read(device_, policy, &time) == kSuccess
               ? static_cast<double>(time.violation_ns) * 1e-9
               : 0;
  };
  return {.power = seconds(kPower),
          .heat = seconds(kThermal),
          .board = seconds(kBoardLimit),
          .reliability = seconds(kReliability)};
}

CardReading Nvml::Read() const {
  CardReading reading;
  const auto read = [this](auto function, auto... which) -> std::optional<double> {
    unsigned value = 0;
    if (function == nullptr || function(device_, which..., &value) != kSuccess) return std::nullopt;
    return value;
  };
  const auto scaled = [](std::optional<double> value, double unit) {
    if (value.has_value()) *value *= unit;
    return value;
  };
  unsigned mhz = 0;
  if (functions_->DeviceGetClockInfo != nullptr &&
      functions_->DeviceGetClockInfo(device_, kClockSm, &mhz) == kGpuIsLost) {
    reading.lost = true;
    return reading;
  }
  reading.sm_clock_hertz = scaled(read(functions_->DeviceGetClockInfo, kClockSm), 1e6);
  reading.memory_clock_hertz = scaled(read(functions_->DeviceGetClockInfo, kClockMemory), 1e6);
  reading.power_watts = scaled(read(functions_->DeviceGetPowerUsage), 1e-3);
  reading.power_limit_watts = scaled(read(functions_->DeviceGetEnforcedPowerLimit), 1e-3);
  reading.temperature_celsius = read(functions_->DeviceGetTemperature, kSensorGpu);
  reading.throttling = Throttled();
  ReadErrors(reading);
  ReadProcesses(reading);
  return reading;
}

void Nvml::ReadErrors(CardReading& reading) const {
  uint64_t errors = 0;
  if (functions_->DeviceGetTotalEccErrors != nullptr &&
      functions_->DeviceGetTotalEccErrors(device_, kUncorrected, kVolatile, &errors) == kSuccess) {
    reading.uncorrectable_errors = static_cast<int64_t>(errors);
  }
  unsigned correctable = 0, uncorrectable = 0, pending = 0, failed = 0;
  if (functions_->DeviceGetRemappedRows != nullptr &&
      functions_->DeviceGetRemappedRows(device_, &correctable, &uncorrectable, &pending, &failed) ==
          kSuccess) {
    reading.remap_pending = pending != 0;
    reading.remap_failed = failed != 0;
  }
}

void Nvml::ReadProcesses(CardReading& reading) const {
  unsigned current = 0, pending = 0;
  reading.sliced = functions_->DeviceGetMigMode != nullptr &&
                   functions_->DeviceGetMigMode(device_, &current, &pending) == kSuccess &&
                   current == kMigEnabled;
  std::array<ProcessInfo, kMostProcesses> infos;
  unsigned count = kMostProcesses;
  if (functions_->DeviceGetComputeRunningProcesses == nullptr ||
      functions_->DeviceGetComputeRunningProcesses(device_, &count, infos.data()) != kSuccess) {
    return;
  }
  for (unsigned i = 0; i < std::min<unsigned>(count, kMostProcesses); ++i) {
    reading.processes.push_back(static_cast<int>(infos[i].pid));
  }
}

absl::StatusOr<std::optional<int>> Nvml::NextXid(absl::Duration limit) {
  if (events_ == nullptr) return absl::UnimplementedError("no Xid errors are told here");
  EventData event = {};
  const Result result = functions_->EventSetWait(
      events_, &event, static_cast<unsigned>(absl::ToInt64Milliseconds(limit)));
  if (result == kTimeout) return std::nullopt;
  if (result == kGpuIsLost) return absl::UnavailableError("the card is lost");
  if (result != kSuccess) {
    return absl::UnimplementedError(absl::StrCat("waiting for Xid errors: NVML's error ", result));
  }
  if (event.type != kXidCriticalError) return std::nullopt;
  return static_cast<int>(event.data);
}

}  // namespace warpsmith::device
