#include "worker/device/host_device.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/shared_object.h"
#include "worker/device/host_clock.h"
#include "worker/device/host_executor.h"
#include "worker/device/host_guard.h"
#include "worker/device/host_memory.h"
#include "worker/device/host_order.h"
#include "worker/device/host_product.h"
#include "worker/device/host_rates.h"
#include "worker/device/plan_check.h"

namespace warpsmith::device {
namespace {

constexpr int64_t kMaxFlushBytes = 64 << 20;  // last-level caches of servers are shared by many

// The value behind "name : value" in a file of /proc.
std::string ProcField(const char* path, const std::string& name) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos || line.compare(0, name.size(), name) != 0) continue;
    return std::string(absl::StripAsciiWhitespace(line.substr(colon + 1)));
  }
  return "";
}

int64_t LastLevelCacheBytes() {
  const int64_t bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
  return bytes > 0 ? bytes : 8 << 20;
}

class HostProgram : public Program {
 public:
  // `device` tells whose it is.
  static absl::StatusOr<std::unique_ptr<HostProgram>> Make(const Device* device,
                                                           const v1::Plan& plan,
                                                           const Binary& binary);
  ~HostProgram() override {
    if (library_ != nullptr) dlclose(library_);
  }

  absl::Status Bind(absl::Span<Memory* const> buffers) override;
  // Steps and threads in an order that `seed` decides; 0: the plan's. `launches`: takes the seconds
  // of each, in that order; null: nobody asks.
  absl::Status Run(HostExecutor* executor, uint64_t seed, KernelGuard* guard,
                   std::vector<double>* launches) const;

  const Device* device() const { return device_; }
  const v1::Plan& plan() const { return plan_; }
  const std::vector<Memory*>& buffers() const { return buffers_; }

 private:
  struct Launch {
    HostLaunch launch;
    std::vector<uint64_t> values;  // an argument each, in its lowest bytes
    std::vector<void*> arguments;
  };

  absl::Status Prepare(const v1::Launch& step, ws::host::Context* context, Launch* launch);

  const Device* device_ = nullptr;
  v1::Plan plan_;
  void* library_ = nullptr;
  std::vector<Launch> launches_;  // of the launch steps, in order
  std::vector<int> numbers_;      // of each step, where it is a launch: its place among them
  std::vector<Memory*> buffers_;
};

absl::StatusOr<std::unique_ptr<HostProgram>> HostProgram::Make(const Device* device,
                                                               const v1::Plan& plan,
                                                               const Binary& binary) {
  if (absl::Status status = CheckPlan(plan, device->info(), kMaxHostCluster); !status.ok()) {
    return status;
  }
  auto program = std::make_unique<HostProgram>();
  program->device_ = device;
  program->plan_ = plan;
  program->library_ = dlopen(binary.bytes.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (program->library_ == nullptr) {
    return absl::NotFoundError(absl::StrCat("loading a compiled kernel: ", dlerror()));
  }
  const auto version =
      reinterpret_cast<int (*)()>(dlsym(program->library_, "warpsmith_abi_version"));
  const auto context =
      reinterpret_cast<ws::host::Context* (*)()>(dlsym(program->library_, "warpsmith_context"));
  if (version == nullptr || context == nullptr || version() != ws::host::kAbiVersion) {
    return absl::InvalidArgumentError(
        absl::StrCat(binary.bytes, " was not made by this version's host compiler"));
  }
  for (const v1::Step& step : plan.steps()) {
    program->numbers_.push_back(static_cast<int>(program->launches_.size()));
    if (step.has_product() && step.product().library() != kHostLibrary) {
      return absl::InvalidArgumentError(absl::StrCat("a product by ", step.product().library(),
                                                     "; the host's is '", kHostLibrary, "'"));
    }
    if (!step.has_launch()) continue;
    Launch launch;
    if (absl::Status status = program->Prepare(step.launch(), context(), &launch); !status.ok()) {
      return status;
    }
    program->launches_.push_back(std::move(launch));
  }
  return program;
}

absl::Status HostProgram::Prepare(const v1::Launch& step, ws::host::Context* context,
                                  Launch* launch) {
  const auto info = reinterpret_cast<const ws::host::KernelInfo* (*)()>(
      dlsym(library_, absl::StrCat("warpsmith_kernel_", step.entry()).c_str()));
  if (info == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("the source has no extern \"C\" __global__ kernel '", step.entry(), "'"));
  }
  const ws::host::KernelInfo& kernel = *info();
  if (kernel.parameters != step.arguments_size()) {
    return absl::InvalidArgumentError(absl::StrCat("kernel '", step.entry(), "' takes ",
                                                   kernel.parameters, " arguments, the plan gives ",
                                                   step.arguments_size()));
  }
  for (int i = 0; i < step.arguments_size(); ++i) {
    const v1::Argument& argument = step.arguments(i);
    if (kernel.parameter_bytes[i] != ArgumentBytes(argument)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "kernel '", step.entry(), "': parameter ", i, " has ", kernel.parameter_bytes[i],
          " bytes, the plan's argument ", ArgumentBytes(argument)));
    }
    uint64_t value = 0;
    const int32_t i32 = argument.i32();
    const int64_t i64 = argument.i64();
    const float f32 = argument.f32();
    if (argument.has_i32()) std::memcpy(&value, &i32, sizeof(i32));
    if (argument.has_i64()) std::memcpy(&value, &i64, sizeof(i64));
    if (argument.has_f32()) std::memcpy(&value, &f32, sizeof(f32));
    launch->values.push_back(value);  // a buffer's comes with Bind
  }
  for (uint64_t& value : launch->values) launch->arguments.push_back(&value);
  launch->launch.kernel = &kernel;
  launch->launch.context = context;
  launch->launch.arguments = launch->arguments.data();
  launch->launch.grid = {step.grid(0), step.grid(1), step.grid(2)};
  launch->launch.block = {step.block(0), step.block(1), step.block(2)};
  if (step.cluster_size() == 3) {
    launch->launch.cluster = {step.cluster(0), step.cluster(1), step.cluster(2)};
  }
  launch->launch.shared_bytes = step.shared_bytes();
  launch->launch.cooperative = step.cooperative();
  launch->launch.programmatic = step.programmatic();
  return absl::OkStatus();
}

absl::Status HostProgram::Bind(absl::Span<Memory* const> buffers) {
  if (absl::Status status = CheckBinding(plan_, buffers); !status.ok()) return status;
  buffers_.assign(buffers.begin(), buffers.end());
  auto launch = launches_.begin();
  for (const v1::Step& step : plan_.steps()) {
    if (!step.has_launch()) continue;
    for (int i = 0; i < step.launch().arguments_size(); ++i) {
      const v1::Argument& argument = step.launch().arguments(i);
      if (argument.has_buffer()) launch->values[i] = buffers_[argument.buffer()]->address();
    }
    ++launch;
  }
  return absl::OkStatus();
}

absl::Status HostProgram::Run(HostExecutor* executor, uint64_t seed, KernelGuard* guard,
                              std::vector<double>* launches) const {
  const auto data = [&](int buffer) {
    return reinterpret_cast<char*>(buffers_[buffer]->address());
  };
  for (const int number : StepOrder(plan_, seed)) {
    const v1::Step& step = plan_.steps(number);
    const int64_t start = HostNanoseconds();
    if (step.has_launch()) {
      absl::Status status = executor->Run(launches_[numbers_[number]].launch, seed, guard);
      if (!status.ok()) return status;
    } else if (step.has_fill()) {
      const uint32_t pattern = step.fill().pattern();
      char* const to = data(step.fill().buffer());
      for (int64_t at = 0; at < step.fill().bytes(); at += 4) std::memcpy(to + at, &pattern, 4);
    } else if (step.has_copy()) {
      std::memcpy(data(step.copy().to()), data(step.copy().from()), step.copy().bytes());
    } else if (step.has_product()) {
      const v1::LibraryProduct& product = step.product();
      RunHostProduct(product, data(product.a().buffer()), data(product.b().buffer()),
                     product.has_bias() ? data(product.bias().buffer()) : nullptr,
                     data(product.d().buffer()));
    }
    if (launches != nullptr && (step.has_launch() || step.has_product()))
      launches->push_back(HostSecondsSince(start));
  }
  return absl::OkStatus();
}

class HostDevice : public Device {
 public:
  HostDevice() {
    std::string processor = ProcField("/proc/cpuinfo", "model name");
    if (processor.empty()) processor = "unknown processor";
    info_.kind = "host";
    info_.name = absl::StrCat("host: ", processor);
    info_.arch = "host";
    info_.driver = "fibers";
    info_.library = kHostLibrary;
    info_.shared_per_sm = 228 << 10;
    info_.shared_per_block = 227 << 10;
    info_.l2_bytes = LastLevelCacheBytes();
    info_.memory_bytes = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  }

  const DeviceInfo& info() const override { return info_; }
  int64_t allocated_bytes() const override { return allocated_; }
  absl::Status Settle(absl::Duration) override { return absl::OkStatus(); }
  absl::StatusOr<double> TimeLaunch() override { return 0; }
  double SmClockMhz() override { return 0; }

  void LimitMemory(int64_t bytes) override { limit_ = bytes; }

  absl::StatusOr<int64_t> FreeBytes() override {
    int64_t kilobytes = 0;
    std::string field = ProcField("/proc/meminfo", "MemAvailable");
    field.resize(std::min(field.find(' '), field.size()));
    if (!absl::SimpleAtoi(field, &kilobytes)) {
      return absl::UnavailableError("/proc/meminfo does not say MemAvailable");
    }
    const int64_t free = kilobytes * 1024;
    return limit_ > 0 ? std::min(free, limit_ - allocated_) : free;
  }

  absl::StatusOr<std::unique_ptr<Memory>> Allocate(int64_t bytes) override {
    // Pages are only taken when they are written, too late to say no.
    const auto free = FreeBytes();
    if (free.ok() && bytes > *free) {
      return absl::ResourceExhaustedError(
          absl::StrCat(bytes, " bytes of memory wanted, ", *free, " are free"));
    }
    auto memory = HostMemory::Make(bytes, &allocated_);
    if (!memory.ok()) return memory.status();
    return absl::StatusOr<std::unique_ptr<Memory>>(*std::move(memory));
  }

  absl::Status Write(Memory& to, const void* from, int64_t bytes, int64_t offset) override {
    auto data = Range(to, offset, bytes);
    if (data.ok()) std::memcpy(*data, from, bytes);
    return data.status();
  }
  absl::Status Read(const Memory& from, void* to, int64_t bytes, int64_t offset) override {
    auto data = Range(from, offset, bytes);
    if (data.ok()) std::memcpy(to, *data, bytes);
    return data.status();
  }
  absl::Status Fill(Memory& memory, uint32_t pattern) override {
    auto data = Range(memory, 0, memory.bytes());
    if (!data.ok()) return data.status();
    for (int64_t at = 0; at < memory.bytes(); at += 4) {
      std::memcpy(*data + at, &pattern, std::min<int64_t>(4, memory.bytes() - at));
    }
    return absl::OkStatus();
  }
  absl::Status Copy(const Memory& from, Memory& to, int64_t bytes) override {
    auto source = Range(from, 0, bytes);
    if (!source.ok()) return source.status();
    return Write(to, *source, bytes, 0);
  }
  absl::Status CopyFromForeign(const std::string& handle, int64_t offset, Memory& to,
                               int64_t bytes) override;

  absl::StatusOr<std::unique_ptr<Program>> Load(const v1::Plan& plan,
                                                const Binary& binary) override {
    auto program = HostProgram::Make(this, plan, binary);
    if (!program.ok()) return program.status();
    return absl::StatusOr<std::unique_ptr<Program>>(*std::move(program));
  }

  absl::Status Run(Program& program, absl::Duration limit) override {
    return RunProgram(program, limit, ++runs_);
  }

  absl::StatusOr<double> Time(Program& program, absl::Duration limit, Launching) override {
    FlushCaches();
    const int64_t start = HostNanoseconds();
    absl::Status status = RunProgram(program, limit, /*seed=*/0);
    const double seconds = HostSecondsSince(start);
    if (!status.ok()) return status;
    return seconds;
  }

  absl::StatusOr<std::vector<double>> TimeLaunches(Program& program,
                                                   absl::Duration limit) override {
    FlushCaches();
    std::vector<double> seconds;
    absl::Status status = RunProgram(program, limit, /*seed=*/0, &seconds);
    if (!status.ok()) return status;
    return seconds;
  }

  absl::StatusOr<std::vector<std::optional<v1::Counters>>> Count(Program&,
                                                                 absl::Duration) override {
    return absl::UnimplementedError("on the host nothing is counted");
  }

  absl::StatusOr<graph::Roof> MeasureRoof() override {
    // Caches make it a copy in them: the fastest that there is, and of no use to tell apart.
    return graph::Roof::Of(HostCopyRate(), HostFmaRate());
  }

 private:
  // `launches`: takes the seconds of each; null: nobody asks.
  absl::Status RunProgram(Program& program, absl::Duration limit, uint64_t seed,
                          std::vector<double>* launches = nullptr);
  // "8 bytes behind the end of buffer 2 ('y')", if that is near a buffer.
  std::string WhereIs(const HostProgram& program, uint64_t address) const;
  void FlushCaches();

  static absl::StatusOr<char*> Range(const Memory& memory, int64_t offset, int64_t bytes) {
    if (memory.address() == 0) return absl::FailedPreconditionError("the memory is not mapped");
    if (offset < 0 || bytes < 0 || offset > memory.bytes() || bytes > memory.bytes() - offset) {
      return absl::InvalidArgumentError(
          absl::StrCat(bytes, " bytes at ", offset, " of a memory of ", memory.bytes()));
    }
    return reinterpret_cast<char*>(memory.address()) + offset;
  }

  DeviceInfo info_;
  int64_t allocated_ = 0;
  int64_t limit_ = 0;  // of memory; 0: what there is
  KernelGuard guard_;
  HostExecutor executor_;
  uint64_t runs_ = 0;
  absl::Status lost_;
  std::vector<char> flush_;
};

absl::Status HostDevice::RunProgram(Program& program, absl::Duration limit, uint64_t seed,
                                    std::vector<double>* launches) {
  if (!lost_.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the device is lost since: ", lost_.message()));
  }
  auto* const loaded = dynamic_cast<HostProgram*>(&program);
  if (loaded == nullptr || loaded->device() != this) {
    return absl::InvalidArgumentError("the program belongs to another device");
  }
  if (static_cast<int>(loaded->buffers().size()) != loaded->plan().buffers_size()) {
    return absl::FailedPreconditionError("the program is not bound to memory");
  }
  // Memory may have been moved since.
  if (absl::Status status = loaded->Bind(loaded->buffers()); !status.ok()) return status;
  absl::Status status =
      guard_.Run(limit, [&] { return loaded->Run(&executor_, seed, &guard_, launches); });
  if (absl::IsOutOfRange(status)) {
    status = absl::OutOfRangeError(
        absl::StrCat(status.message(), WhereIs(*loaded, guard_.fault_address())));
  }
  if (absl::IsOutOfRange(status) || absl::IsDeadlineExceeded(status) || absl::IsAborted(status)) {
    lost_ = status;
  }
  return status;
}

std::string HostDevice::WhereIs(const HostProgram& program, uint64_t address) const {
  constexpr int64_t kNear = 1 << 20;
  std::string best;
  int64_t nearest = kNear;
  for (int i = 0; i < program.plan().buffers_size(); ++i) {
    const Memory& memory = *program.buffers()[i];
    const auto behind = static_cast<int64_t>(address - (memory.address() + memory.bytes()));
    const auto before = static_cast<int64_t>(memory.address() - address);
    const bool is_behind = behind >= 0;
    const int64_t distance = is_behind ? behind : before;
    if (distance < 0 || distance >= nearest) continue;
    nearest = distance;
    best =
        absl::StrCat(": ", distance, " bytes ", is_behind ? "behind the end" : "before the start",
                     " of buffer ", i, " ('", program.plan().buffers(i).tensor(), "')");
  }
  return best;
}

void HostDevice::FlushCaches() {
  flush_.resize(std::min(info_.l2_bytes, kMaxFlushBytes));
  volatile char* const bytes = flush_.data();
  for (size_t i = 0; i < flush_.size(); i += 64) bytes[i] = static_cast<char>(bytes[i] + 1);
}

absl::Status HostDevice::CopyFromForeign(const std::string& handle, int64_t offset, Memory& to,
                                         int64_t bytes) {
  const absl::StatusOr<base::SharedObject> object = base::SharedObject::Open(handle);
  if (!object.ok()) return object.status();
  const auto given = object->Bytes(offset, bytes);
  if (!given.ok()) return given.status();
  return bytes > 0 ? Write(to, given->data(), bytes, 0) : absl::OkStatus();
}

}  // namespace

std::unique_ptr<Device> MakeHostDevice() { return std::make_unique<HostDevice>(); }

}  // namespace warpsmith::device
