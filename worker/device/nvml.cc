#include "worker/device/nvml.h"

#include "worker/device/library.h"

namespace warpsmith::device {
namespace {

using Result = int;  // 0: success
constexpr int kClockSm = 1;

}  // namespace

struct Nvml::Functions {
  Result (*Init)();
  Result (*Shutdown)();
  Result (*DeviceGetHandleByPciBusId)(const char* id, void** device);
  Result (*DeviceGetClockInfo)(void* device, int clock, unsigned* mhz);
  Result (*SystemGetDriverVersion)(char* version, unsigned length);
};

Nvml::Nvml(const std::string& pci_bus_id) {
  auto library = Library::Open({"libnvidia-ml.so.1"}, "NVML", "it comes with NVIDIA's driver");
  if (!library.ok()) return;
  auto functions = std::make_unique<Functions>();
  for (const absl::Status& status :
       {library->Find("nvmlInit_v2", &functions->Init),
        library->Find("nvmlShutdown", &functions->Shutdown),
        library->Find("nvmlDeviceGetHandleByPciBusId_v2", &functions->DeviceGetHandleByPciBusId),
        library->Find("nvmlDeviceGetClockInfo", &functions->DeviceGetClockInfo),
        library->Find("nvmlSystemGetDriverVersion", &functions->SystemGetDriverVersion)}) {
    if (!status.ok()) return;
  }
  if (functions->Init() != 0) return;
  functions_ = std::move(functions);
  if (functions_->DeviceGetHandleByPciBusId(pci_bus_id.c_str(), &device_) != 0) device_ = nullptr;
}

Nvml::~Nvml() {
  if (functions_ != nullptr) functions_->Shutdown();
}

double Nvml::SmClockMhz() const {
  unsigned mhz = 0;
  if (device_ == nullptr || functions_->DeviceGetClockInfo(device_, kClockSm, &mhz) != 0) return 0;
  return mhz;
}

std::string Nvml::DriverVersion() const {
  char version[96] = {};
  if (functions_ == nullptr || functions_->SystemGetDriverVersion(version, sizeof(version)) != 0) {
    return "";
  }
  return version;
}

}  // namespace warpsmith::device
