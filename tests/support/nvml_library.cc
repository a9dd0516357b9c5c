// An NVML that tells what a file says: $WARPSMITH_NVML_SCRIPT has a line for each value, "power
// 700000", and "process N" for each process; a line "xid N" for each error, in order. Read anew at
// each call, so that a test is the card.
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int kSuccess = 0, kNotSupported = 3, kInsufficientSize = 7, kTimeout = 10, kLost = 15;
constexpr auto kBetweenLooks = std::chrono::milliseconds(5);

struct Script {
  std::map<std::string, uint64_t> values;
  std::vector<unsigned> processes;
  std::vector<uint64_t> xids;
};

Script Read() {
  Script script;
  const char* path = std::getenv("WARPSMITH_NVML_SCRIPT");
  std::ifstream file(path == nullptr ? "" : path);
  std::string key;
  uint64_t value = 0;
  while (file >> key >> value) {
    if (key == "process") {
      script.processes.push_back(static_cast<unsigned>(value));
    } else if (key == "xid") {
      script.xids.push_back(value);
    } else {
      script.values[key] = value;
    }
  }
  return script;
}

template <typename Value>
int Give(const std::string& key, Value* value) {
  const Script script = Read();
  if (script.values.count("lost") > 0) return kLost;
  const auto found = script.values.find(key);
  if (found == script.values.end()) return kNotSupported;
  *value = static_cast<Value>(found->second);
  return kSuccess;
}

struct Violation {
  uint64_t reference_us, violation_ns;
};
struct Process {
  unsigned pid;
  uint64_t bytes;
  unsigned gpu_instance, compute_instance;
};
struct Event {
  void* device;
  uint64_t type, data;
  unsigned gpu_instance, compute_instance;
};

int card;         // its address is the handle
size_t told = 0;  // Xid errors; those before the set was made are told to nobody

}  // namespace

extern "C" {

int nvmlInit_v2() { return kSuccess; }
int nvmlShutdown() { return kSuccess; }
int nvmlSystemGetDriverVersion(char* text, unsigned length) {
  std::strncpy(text, "999.1", length);
  return kSuccess;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char*, void** device) {
  *device = &card;
  return kSuccess;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned, void** device) {
  *device = &card;
  return kSuccess;
}
int nvmlDeviceGetUUID(void*, char* text, unsigned length) {
  std::strncpy(text, "GPU-of-a-script", length);
  return kSuccess;
}
int nvmlDeviceGetClockInfo(void*, int clock, unsigned* mhz) {
  return Give(clock == 1 ? "sm_clock" : "memory_clock", mhz);
}
int nvmlDeviceGetPowerUsage(void*, unsigned* milliwatts) { return Give("power", milliwatts); }
int nvmlDeviceGetEnforcedPowerLimit(void*, unsigned* milliwatts) {
  return Give("power_limit", milliwatts);
}
int nvmlDeviceGetTemperature(void*, int, unsigned* celsius) { return Give("temperature", celsius); }
int nvmlDeviceGetViolationStatus(void*, int policy, Violation* time) {
  return Give("violation_" + std::to_string(policy), &time->violation_ns);
}
int nvmlDeviceGetTotalEccErrors(void*, int, int, uint64_t* count) {
  return Give("uncorrectable", count);
}
int nvmlDeviceGetRemappedRows(void*, unsigned* correctable, unsigned* uncorrectable,
                              unsigned* pending, unsigned* failed) {
  *correctable = *uncorrectable = *failed = 0;
  Give("remap_failed", failed);
  return Give("remap_pending", pending);
}
int nvmlDeviceGetMigMode(void*, unsigned* current, unsigned* pending) {
  *pending = 0;
  return Give("mig", current);
}
int nvmlDeviceGetComputeRunningProcesses_v3(void*, unsigned* count, Process* processes) {
  const Script script = Read();
  if (script.values.count("lost") > 0) return kLost;
  if (script.processes.size() > *count) return kInsufficientSize;
  *count = 0;
  for (const unsigned pid : script.processes) processes[(*count)++] = {pid, 1 << 20, 0, 0};
  return kSuccess;
}
int nvmlEventSetCreate(void** set) {
  *set = &told;
  told = Read().xids.size();
  return kSuccess;
}
int nvmlEventSetFree(void*) { return kSuccess; }
int nvmlDeviceRegisterEvents(void*, uint64_t, void*) { return kSuccess; }
int nvmlEventSetWait_v2(void*, Event* event, unsigned timeout_ms) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  while (true) {
    const Script script = Read();
    if (script.xids.size() > told) {
      *event = {&card, 8, script.xids[told++], ~0u, ~0u};
      return kSuccess;
    }
    if (script.values.count("lost") > 0) return kLost;
    if (std::chrono::steady_clock::now() >= until) return kTimeout;
    std::this_thread::sleep_for(kBetweenLooks);
  }
}

}  // extern "C"
