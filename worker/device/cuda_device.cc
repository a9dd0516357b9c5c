#include "worker/device/cuda_device.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "worker/device/cuda_clock.h"
#include "worker/device/cuda_context.h"
#include "worker/device/cuda_counters.h"
#include "worker/device/cuda_memory.h"
#include "worker/device/cuda_program.h"
#include "worker/device/cuda_roof.h"
#include "worker/device/nvml.h"

namespace warpsmith::device {
namespace {

// "8c4c1a2b-0000-0000-0000-000000000000"
std::string TextOf(const cuda::Uuid& uuid) {
  std::string text = absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(uuid.bytes), sizeof uuid.bytes));
  for (const size_t at : {20, 16, 12, 8}) text.insert(at, "-");
  return text;
}

constexpr int kMaxCluster = 16;     // of Hopper and later, with the non-portable sizes
constexpr int kLaunchesAFlush = 6;  // with their events, while one flush runs

// As WS_CUDA, of the device's clock.
#define WS_CLOCK(call)                                                              \
  do {                                                                              \
    ::absl::Status ws_clock_status = CheckClock(clock_.call, "the clock's " #call); \
    if (!ws_clock_status.ok()) return ws_clock_status;                              \
  } while (false)

class CudaDevice : public Device {
 public:
  CudaDevice(std::shared_ptr<CudaContext> context, std::string nvrtc)
      : context_(std::move(context)),
        nvrtc_(std::move(nvrtc)),
        clock_(context_->driver(), context_->stream()) {}
  ~CudaDevice() override;
  absl::Status Start();

  const DeviceInfo& info() const override { return info_; }
  int64_t allocated_bytes() const override { return context_->allocated_bytes; }
  absl::StatusOr<std::unique_ptr<Memory>> Allocate(int64_t bytes) override;
  void LimitMemory(int64_t bytes) override;
  absl::StatusOr<int64_t> FreeBytes() override;
  absl::Status Write(Memory& to, const void* from, int64_t bytes, int64_t offset) override;
  absl::Status Read(const Memory& from, void* to, int64_t bytes, int64_t offset) override;
  absl::Status Fill(Memory& memory, uint32_t pattern) override;
  absl::Status Copy(const Memory& from, Memory& to, int64_t bytes) override;
  absl::Status CopyFromForeign(const std::string& handle, int64_t offset, Memory& to,
                               int64_t bytes) override;
  absl::StatusOr<std::unique_ptr<Program>> Load(const v1::Plan& plan,
                                                const Binary& binary) override;
  absl::Status Run(Program& program, absl::Duration limit) override;
  absl::StatusOr<double> Time(Program& program, absl::Duration limit, Launching how) override;
  absl::StatusOr<double> TimeLaunch() override;
  absl::StatusOr<std::vector<double>> TimeLaunches(Program& program, absl::Duration limit) override;
  absl::StatusOr<std::vector<std::optional<v1::Counters>>> Count(Program& program,
                                                                 absl::Duration limit) override;
  absl::Status Settle(absl::Duration limit) override;
  double SmClockMhz() override { return nvml_ == nullptr ? 0 : nvml_->SmClockMhz(); }
  Throttling Throttled() override { return nvml_ == nullptr ? Throttling() : nvml_->Throttled(); }
  absl::StatusOr<graph::Roof> MeasureRoof() override;

 private:
  absl::StatusOr<int> Attribute(cuda::DeviceAttribute attribute);
  // Fills info_.clustered_blocks, as far as the driver can say.
  void CountClusters();
  // The address of a range inside a mapped memory.
  absl::StatusOr<cuda::Address> Range(const Memory& memory, int64_t offset, int64_t bytes) const;
  absl::StatusOr<CudaProgram*> Own(Program& program) const;
  // As the context's Check; what did not come to an end in its time is DeadlineExceeded, and loses
  // the device.
  absl::Status CheckClock(cuda::Result result, absl::string_view what);
  // Waits for the clock's end event; DeadlineExceeded loses the device.
  absl::Status Await(absl::Duration limit);
  // As many events as are wanted, kept for the next time.
  absl::Status MakeEvents(size_t count);
  // Called before launching is timed.
  absl::Status EndCounting();

  const std::shared_ptr<CudaContext> context_;
  const std::string nvrtc_;
  DeviceInfo info_;
  std::unique_ptr<Nvml> nvml_;
  cuda::Clock clock_;
  std::vector<cuda::Event> events_;         // between launches
  std::unique_ptr<CudaCounters> counters_;  // null: none were read since launching was timed
  absl::Status no_counters_;                // why there are none; asked once
  int64_t total_bytes_ = 0;                 // that the card has, limited or not
};

CudaDevice::~CudaDevice() {
  if (context_->lost()) return;
  clock_.Close();
  for (cuda::Event event : events_) context_->driver().EventDestroy(event);
}

absl::StatusOr<int> CudaDevice::Attribute(cuda::DeviceAttribute attribute) {
  int value = 0;
  WS_CUDA(*context_, DeviceGetAttribute(&value, attribute, context_->ordinal()));
  return value;
}

void CudaDevice::CountClusters() {
  // Of a kernel that has a multiprocessor's shared memory and nothing to do.
  constexpr char kNothing[] =
      ".version 7.8\n.target sm_90\n.address_size 64\n.visible .entry nothing() { ret; }\n";
  const cuda::Driver& driver = context_->driver();
  cuda::Module module = nullptr;
  if (driver.ModuleLoadData(&module, kNothing) != cuda::kSuccess) return;
  cuda::Function function = nullptr;
  const auto shared = static_cast<int>(info_.shared_per_block);
  bool can = driver.ModuleGetFunction(&function, module, "nothing") == cuda::kSuccess;
  can = can && driver.FuncSetAttribute(function, cuda::kFunctionMaxDynamicShared, shared) ==
                   cuda::kSuccess;
  can = can &&
        driver.FuncSetAttribute(function, cuda::kFunctionNonPortableCluster, 1) == cuda::kSuccess;
  for (size_t i = 0; can && i < info_.clustered_blocks.size(); ++i) {
    const unsigned cluster = 4u << i;
    cuda::LaunchAttribute attribute;
    attribute.id = cuda::kLaunchClusterDimension;
    attribute.value.cluster = {cluster, 1, 1};
    cuda::LaunchConfig config;
    config.grid[0] = cluster * static_cast<unsigned>(info_.sm_count);
    config.block[0] = 128;
    config.shared_bytes = static_cast<unsigned>(shared);
    config.attributes = &attribute;
    config.attribute_count = 1;
    int clusters = 0;
    if (driver.OccupancyClusters(&clusters, function, &config) == cuda::kSuccess)
      info_.clustered_blocks[i] = clusters * static_cast<int>(cluster);
  }
  driver.ModuleUnload(module);
}

absl::Status CudaDevice::Start() {
  CudaContext& cuda = *context_;
  const cuda::Ordinal ordinal = cuda.ordinal();
  char text[256] = {};
  WS_CUDA(cuda, DeviceGetName(text, sizeof(text), ordinal));
  info_.kind = "cuda";
  info_.name = text;
  WS_CUDA(cuda, DeviceGetPciBusId(text, sizeof(text), ordinal));
  info_.pci_bus_id = text;
  if (auto nvml = Nvml::Open(text); nvml.ok()) nvml_ = *std::move(nvml);
  if (nvml_ != nullptr) info_.driver = nvml_->DriverVersion();
  if (info_.driver.empty()) {
    int version = 0;
    WS_CUDA(cuda, DriverGetVersion(&version));
    info_.driver = absl::StrCat("CUDA ", version / 1000, ".", version % 1000 / 10);
  }
  size_t total = 0;
  WS_CUDA(cuda, DeviceTotalMem(&total, ordinal));
  info_.memory_bytes = total_bytes_ = static_cast<int64_t>(total);

  int major = 0, minor = 0, cluster = 0;
  const struct {
    cuda::DeviceAttribute attribute;
    int* value;
  } ints[] = {{cuda::kMultiprocessors, &info_.sm_count},
              {cuda::kThreadsPerMultiprocessor, &info_.max_threads_per_sm},
              {cuda::kBlocksPerMultiprocessor, &info_.max_blocks_per_sm},
              {cuda::kCapabilityMajor, &major},
              {cuda::kCapabilityMinor, &minor},
              {cuda::kClusterLaunch, &cluster}};
  for (const auto& [attribute, value] : ints) {
    auto got = Attribute(attribute);
    if (!got.ok()) return got.status();
    *value = *got;
  }
  const struct {
    cuda::DeviceAttribute attribute;
    int64_t* value;
  } longs[] = {{cuda::kRegistersPerMultiprocessor, &info_.registers_per_sm},
               {cuda::kSharedPerMultiprocessor, &info_.shared_per_sm},
               {cuda::kSharedPerBlockOptIn, &info_.shared_per_block},
               {cuda::kL2Bytes, &info_.l2_bytes}};
  for (const auto& [attribute, value] : longs) {
    auto got = Attribute(attribute);
    if (!got.ok()) return got.status();
    *value = *got;
  }
  // From Hopper on, instructions of one architecture alone are under its name with an "a".
  info_.arch = absl::StrCat("sm_", major, minor, major >= 9 ? "a" : "");
  const auto served = Attribute(cuda::kMpsEnabled);  // older drivers do not know of it
  info_.served = served.ok() && *served != 0;
  info_.tensor_maps = major >= 9;
  info_.max_cluster = cluster != 0 ? kMaxCluster : 1;
  if (cluster != 0) CountClusters();
  return absl::OkStatus();
}

void CudaDevice::LimitMemory(int64_t bytes) {
  info_.memory_bytes = bytes <= 0 ? total_bytes_ : std::min(bytes, total_bytes_);
}

absl::StatusOr<std::unique_ptr<Memory>> CudaDevice::Allocate(int64_t bytes) {
  if (info_.memory_bytes < total_bytes_) {
    auto free = FreeBytes();
    if (!free.ok()) return free.status();
    if (bytes > *free) {
      return absl::ResourceExhaustedError(absl::StrCat(bytes, " bytes of memory wanted, ", *free,
                                                       " are free of the ", info_.memory_bytes,
                                                       " that may be used"));
    }
  }
  auto memory = CudaMemory::Make(context_, bytes);
  if (!memory.ok()) return memory.status();
  return absl::StatusOr<std::unique_ptr<Memory>>(*std::move(memory));
}

absl::StatusOr<int64_t> CudaDevice::FreeBytes() {
  if (absl::Status status = context_->Usable(); !status.ok()) return status;
  size_t free = 0, total = 0;
  WS_CUDA(*context_, MemGetInfo(&free, &total));
  return static_cast<int64_t>(free) - (total_bytes_ - info_.memory_bytes);
}

absl::StatusOr<cuda::Address> CudaDevice::Range(const Memory& memory, int64_t offset,
                                                int64_t bytes) const {
  if (absl::Status status = context_->Usable(); !status.ok()) return status;
  if (memory.address() == 0) return absl::FailedPreconditionError("the memory is not mapped");
  if (offset < 0 || bytes < 0 || offset > memory.bytes() || bytes > memory.bytes() - offset) {
    return absl::InvalidArgumentError(
        absl::StrCat(bytes, " bytes at ", offset, " of a memory of ", memory.bytes()));
  }
  return memory.address() + offset;
}

absl::Status CudaDevice::Write(Memory& to, const void* from, int64_t bytes, int64_t offset) {
  auto address = Range(to, offset, bytes);
  if (!address.ok() || bytes == 0) return address.status();
  WS_CUDA(*context_, MemcpyHtoDAsync(*address, from, bytes, context_->stream()));
  return context_->Synchronize();
}

absl::Status CudaDevice::Read(const Memory& from, void* to, int64_t bytes, int64_t offset) {
  auto address = Range(from, offset, bytes);
  if (!address.ok() || bytes == 0) return address.status();
  WS_CUDA(*context_, MemcpyDtoHAsync(to, *address, bytes, context_->stream()));
  return context_->Synchronize();
}

absl::Status CudaDevice::Fill(Memory& memory, uint32_t pattern) {
  auto address = Range(memory, 0, memory.bytes());
  if (!address.ok()) return address.status();
  const int64_t words = memory.bytes() / 4;
  if (words > 0) {
    WS_CUDA(*context_, MemsetD32Async(*address, pattern, words, context_->stream()));
  }
  for (int64_t at = words * 4; at < memory.bytes(); ++at) {
    const auto byte = static_cast<unsigned char>(pattern >> (8 * (at % 4)));
    WS_CUDA(*context_, MemsetD8Async(*address + at, byte, 1, context_->stream()));
  }
  return context_->Synchronize();
}

absl::Status CudaDevice::Copy(const Memory& from, Memory& to, int64_t bytes) {
  auto source = Range(from, 0, bytes);
  auto target = Range(to, 0, bytes);
  if (!source.ok()) return source.status();
  if (!target.ok() || bytes == 0) return target.status();
  WS_CUDA(*context_, MemcpyDtoDAsync(*target, *source, bytes, context_->stream()));
  return context_->Synchronize();
}

absl::Status CudaDevice::CopyFromForeign(const std::string& handle, int64_t offset, Memory& to,
                                         int64_t bytes) {
  CudaContext& cuda = *context_;
  auto target = Range(to, 0, bytes);
  if (!target.ok()) return target.status();
  cuda::IpcHandle ipc;
  if (handle.size() != sizeof(ipc.bytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat("an IPC handle has ", sizeof(ipc.bytes), " bytes, not ", handle.size()));
  }
  std::memcpy(ipc.bytes, handle.data(), sizeof(ipc.bytes));
  cuda::Address source = 0;
  WS_CUDA(cuda, IpcOpenMemHandle(&source, ipc, cuda::kIpcLazyPeerAccess));
  const auto copy = [&]() -> absl::Status {
    cuda::Address base = 0;
    size_t size = 0;
    WS_CUDA(cuda, MemGetAddressRange(&base, &size, source));
    const auto behind = static_cast<int64_t>(base + size - source);
    if (offset < 0 || offset > behind || bytes > behind - offset) {
      return absl::InvalidArgumentError(
          absl::StrCat(bytes, " bytes at ", offset, " of a foreign allocation of ", behind));
    }
    if (bytes == 0) return absl::OkStatus();
    WS_CUDA(cuda, MemcpyDtoDAsync(*target, source + offset, bytes, cuda.stream()));
    return cuda.Synchronize();
  };
  absl::Status status = copy();
  const absl::Status closed =
      cuda.lost() ? absl::OkStatus()
                  : cuda.Check(cuda.driver().IpcCloseMemHandle(source), "cuIpcCloseMemHandle");
  return status.ok() ? closed : status;
}

absl::StatusOr<std::unique_ptr<Program>> CudaDevice::Load(const v1::Plan& plan,
                                                          const Binary& binary) {
  auto program = CudaProgram::Make(context_, info_, plan, binary.bytes);
  if (!program.ok()) return program.status();
  return absl::StatusOr<std::unique_ptr<Program>>(*std::move(program));
}

absl::StatusOr<CudaProgram*> CudaDevice::Own(Program& program) const {
  if (absl::Status status = context_->Usable(); !status.ok()) return status;
  auto* const own = dynamic_cast<CudaProgram*>(&program);
  if (own == nullptr || own->context() != context_.get()) {
    return absl::InvalidArgumentError("the program belongs to another device");
  }
  return own;
}

absl::Status CudaDevice::CheckClock(cuda::Result result, absl::string_view what) {
  if (result != cuda::kNotReady) return context_->Check(result, what);
  const absl::Status status = absl::DeadlineExceededError(absl::StrCat(
      what, ": the card did not come to it within ", cuda::Clock::kLimitSeconds, " s"));
  context_->Lose(status);
  return status;
}

absl::Status CudaDevice::Await(absl::Duration limit) {
  const cuda::Result result = clock_.Wait(absl::ToDoubleSeconds(limit));
  if (result == cuda::kSuccess) return absl::OkStatus();
  absl::Status status;
  if (result == cuda::kNotReady) {
    status = absl::DeadlineExceededError(
        absl::StrCat("the plan ran longer than ", absl::FormatDuration(limit)));
  } else {
    status = context_->Check(result, "a kernel of the plan");
    if (context_->lost()) return status;
    // An error that the list does not know comes with every later call just the same.
    status = absl::AbortedError(status.message());
  }
  context_->Lose(status);
  return status;
}

absl::Status CudaDevice::Run(Program& program, absl::Duration limit) {
  auto own = Own(program);
  if (!own.ok()) return own.status();
  if (absl::Status status = (*own)->Launch(); !status.ok()) return status;
  WS_CLOCK(End());
  const absl::Status status = Await(limit);
  const std::string waited = status.ok() ? "" : (*own)->WhereItWaited();
  if (waited.empty()) return status;
  return absl::Status(status.code(), absl::StrCat(status.message(), "; ", waited));
}

absl::StatusOr<double> CudaDevice::Time(Program& program, absl::Duration limit, Launching how) {
  auto own = Own(program);
  if (!own.ok()) return own.status();
  if (how == Launching::kCounted) {
    if (absl::Status status = EndCounting(); !status.ok()) return status;
  }
  WS_CLOCK(Begin(how));
  if (absl::Status status = (*own)->Launch(); !status.ok()) return status;
  WS_CLOCK(End());
  if (absl::Status status = Await(limit); !status.ok()) return status;
  double seconds = 0;
  WS_CLOCK(Seconds(&seconds));
  return seconds;
}

absl::StatusOr<double> CudaDevice::TimeLaunch() {
  double seconds = 0;
  if (absl::Status status = EndCounting(); !status.ok()) return status;
  WS_CLOCK(TimeLaunch(&seconds));
  return seconds;
}

absl::Status CudaDevice::EndCounting() {
  return counters_ == nullptr ? absl::OkStatus() : CudaCounters::End(std::move(counters_));
}

absl::Status CudaDevice::MakeEvents(size_t count) {
  while (events_.size() < count) {
    cuda::Event event = nullptr;
    WS_CUDA(*context_, EventCreate(&event, 0));
    events_.push_back(event);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<double>> CudaDevice::TimeLaunches(Program& program,
                                                             absl::Duration limit) {
  auto own = Own(program);
  if (!own.ok()) return own.status();
  const auto& steps = (*own)->plan().steps();
  const auto launches =
      static_cast<size_t>(std::count_if(steps.begin(), steps.end(), [](const v1::Step& step) {
        return step.has_launch() || step.has_product();
      }));
  if (absl::Status status = MakeEvents(2 * launches); !status.ok()) return status;
  WS_CLOCK(Begin(Launching::kHidden));
  // Launching stays hidden as long as the flushes take.
  for (size_t i = 0; i < launches / kLaunchesAFlush; ++i) WS_CLOCK(Flush());
  absl::Status status = (*own)->LaunchApart([&](int kernel, const auto& launch) -> absl::Status {
    WS_CUDA(*context_, EventRecord(events_[2 * kernel], context_->stream()));
    if (absl::Status launched = launch(); !launched.ok()) return launched;
    WS_CUDA(*context_, EventRecord(events_[2 * kernel + 1], context_->stream()));
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  WS_CLOCK(End());
  if (absl::Status ended = Await(limit); !ended.ok()) return ended;
  std::vector<double> seconds(launches, 0);
  for (size_t i = 0; i < launches; ++i) {
    float milliseconds = 0;
    WS_CUDA(*context_, EventElapsedTime(&milliseconds, events_[2 * i], events_[2 * i + 1]));
    seconds[i] = milliseconds / 1e3;
  }
  return seconds;
}

absl::StatusOr<std::vector<std::optional<v1::Counters>>> CudaDevice::Count(Program& program,
                                                                           absl::Duration limit) {
  auto own = Own(program);
  if (!own.ok()) return own.status();
  if (!no_counters_.ok()) return no_counters_;
  if (counters_ == nullptr) {
    auto counters = CudaCounters::Make(context_, nvrtc_);
    if (!counters.ok()) return no_counters_ = counters.status();
    counters_ = *std::move(counters);
  }
  std::vector<bool> counted;
  for (const v1::Step& step : (*own)->plan().steps()) {
    if (step.has_launch()) counted.push_back(!step.launch().cooperative());
    if (step.has_product()) counted.push_back(false);
  }
  return counters_->Read(counted, [&](const CudaCounters::Around& around) -> absl::Status {
    WS_CLOCK(Flush());
    return (*own)->LaunchApart([&](int kernel, const auto& launch) {
      return around(kernel, [&]() -> absl::Status {
        if (absl::Status launched = launch(); !launched.ok()) return launched;
        WS_CLOCK(End());
        return Await(limit);
      });
    });
  });
}

absl::Status CudaDevice::Settle(absl::Duration limit) {
  WS_CLOCK(Settle(absl::ToDoubleSeconds(limit)));
  return absl::OkStatus();
}

absl::StatusOr<graph::Roof> CudaDevice::MeasureRoof() {
  auto compiler = MakeCompiler(info_.arch, "", nvrtc_);
  if (!compiler.ok()) return compiler.status();
  return MeasureCudaRoof(*this, **compiler);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Device>> MakeCudaDevice(int ordinal, const std::string& nvrtc,
                                                       const std::string& cublaslt) {
  auto context = CudaContext::Make(ordinal);
  if (!context.ok()) return context.status();
  (*context)->cublaslt = cublaslt;
  auto device = std::make_unique<CudaDevice>(*std::move(context), nvrtc);
  if (absl::Status status = device->Start(); !status.ok()) return status;
  return absl::StatusOr<std::unique_ptr<Device>>(std::move(device));
}

absl::StatusOr<std::vector<VisibleCard>> ListCards() {
  const auto loaded = cuda::LoadDriver();
  if (!loaded.ok()) return loaded.status();
  const cuda::Driver& driver = **loaded;
  int count = 0;
  absl::Status status = cuda::ToStatus(driver, driver.DeviceGetCount(&count), "cuDeviceGetCount");
  std::vector<VisibleCard> cards;
  for (int i = 0; i < count && status.ok(); ++i) {
    cuda::Ordinal ordinal = 0;
    cuda::Uuid uuid = {};
    status = cuda::ToStatus(driver, driver.DeviceGet(&ordinal, i), "cuDeviceGet");
    if (status.ok()) {
      status = cuda::ToStatus(driver, driver.DeviceGetUuid(&uuid, ordinal), "cuDeviceGetUuid");
    }
    cards.push_back({absl::StrCat("cuda:", i), TextOf(uuid)});
  }
  if (!status.ok()) return absl::UnavailableError(status.message());
  if (cards.empty()) return absl::NotFoundError("the driver shows this process no card");
  return cards;
}

std::string PciBusIdOfCard(int ordinal) {
  char id[64] = {};
  const auto driver = cuda::LoadDriver();
  const bool known =
      driver.ok() && (*driver)->DeviceGetPciBusId(id, sizeof id, ordinal) == cuda::kSuccess;
  return known ? id : "";
}

}  // namespace warpsmith::device
