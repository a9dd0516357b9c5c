// The card's clock and the driver's version, from NVML where it is installed.
#pragma once

#include <memory>
#include <string>

namespace warpsmith::device {

// Loaded at run time. Everything here is for the record: where NVML is missing or refuses, the
// answers are empty.
class Nvml {
 public:
  // `pci_bus_id`: "0000:1b:00.0", as the driver spells it.
  explicit Nvml(const std::string& pci_bus_id);
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  double SmClockMhz() const;          // 0 if unknown
  std::string DriverVersion() const;  // "580.159.03", or empty

 private:
  struct Functions;
  std::unique_ptr<Functions> functions_;  // null: no NVML
  void* device_ = nullptr;
};

}  // namespace warpsmith::device
