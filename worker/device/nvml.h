// What NVIDIA's management library says of a card: its clocks and heat, its errors, who uses it.
//
// The library comes with the driver and is loaded at run time. Its functions and their numbers are
// those of nvml.h; what a card or a driver does not answer is left out.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/device/throttling.h"

namespace warpsmith::device {

// A card at one moment.
struct CardReading {
  bool lost = false;  // the driver does not reach it any more; what follows is empty then
  std::optional<double> sm_clock_hertz, memory_clock_hertz;
  std::optional<double> power_watts, power_limit_watts, temperature_celsius;
  Throttling throttling;
  std::optional<int64_t> uncorrectable_errors;  // of its memory, since the driver was loaded
  bool remap_pending = false;                   // a row of it is to be replaced at the next reset
  bool remap_failed = false;                    // ... and could not be
  bool sliced = false;                          // MIG
  std::vector<int> processes;  // that have a context on it, by their numbers on the host
};

// One thread at a time, but for NextXid, which may wait in another.
class Nvml {
 public:
  // `library`: a path; empty: by its name. `pci_bus_id`: "0000:1b:00.0", as the driver spells it;
  // empty: the first card. NotFound: no such library or card.
  static absl::StatusOr<std::unique_ptr<Nvml>> Open(const std::string& pci_bus_id,
                                                    const std::string& library = "");
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  double SmClockMhz() const;          // 0 if unknown
  std::string DriverVersion() const;  // "580.159.03", or empty
  std::string Uuid() const;           // "GPU-8c4c...", or empty
  Throttling Throttled() const;       // so far
  CardReading Read() const;

  // The number of the next Xid error since Open, waited for so long; absent: none came.
  // Unavailable: the card is lost. Unimplemented: there is no telling.
  absl::StatusOr<std::optional<int>> NextXid(absl::Duration limit);

 private:
  struct Functions;
  explicit Nvml(std::unique_ptr<Functions> functions);
  void ReadErrors(CardReading& reading) const;
  void ReadProcesses(CardReading& reading) const;

  std::unique_ptr<Functions> functions_;
  void* device_ = nullptr;
  void* events_ = nullptr;  // null: none are told
};

}  // namespace warpsmith::device
