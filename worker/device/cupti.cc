#include "worker/device/cupti.h"

#include "absl/strings/str_cat.h"
#include "worker/device/library.h"

namespace warpsmith::device::cupti {
namespace {

constexpr char kAdvice[] =
    "install the CUDA toolkit or the Python wheel nvidia-cuda-cupti, 12.6 or newer";
constexpr Result kVirtualInsufficientPrivileges = 40;

}  // namespace

std::vector<std::string> Candidates(const std::string& beside) {
  std::vector<std::string> names;
  const auto add = [&](const std::string& pattern) {
    for (std::string& path : Matching(pattern)) names.push_back(std::move(path));
  };
  if (const size_t slash = beside.rfind('/'); slash != std::string::npos) {
    const std::string folder = beside.substr(0, slash);
    add(folder + "/libcupti.so.1[23]");
    add(folder + "/../extras/CUPTI/lib64/libcupti.so.1[23]");
    add(folder + "/../../cuda_cupti/lib/libcupti.so.1[23]");  // of Python's wheels
  }
  names.insert(names.end(), {"libcupti.so.13", "libcupti.so.12"});
  for (const char* pattern :
       {"/usr/local/cuda*/extras/CUPTI/lib64/libcupti.so.1[23]",
        "/usr/local/cuda*/lib64/libcupti.so.1[23]",
        "/opt/*/lib/python*/site-packages/nvidia/{cu13,cuda_cupti}/lib/libcupti.so.1[23]",
        "/usr/local/lib/python*/{dist,site}-packages/nvidia/{cu13,cuda_cupti}/lib/"
        "libcupti.so.1[23]",
        "/usr/lib/python3*/{dist,site}-packages/nvidia/{cu13,cuda_cupti}/lib/"
        "libcupti.so.1[23]"}) {
    add(pattern);
  }
  return names;
}

absl::StatusOr<const Library*> Load(const std::vector<std::string>& names) {
  auto library = device::Library::Open(names, "CUPTI (libcupti.so)", kAdvice);
  if (!library.ok()) return library.status();
  auto cupti = std::make_unique<Library>();
  absl::Status status = library->Find("cuptiGetResultString", &cupti->GetResultString);
  if (status.ok()) status = library->Find("cuptiFinalize", &cupti->Finalize);
  if (status.ok()) status = library->Find("cuptiSubscribe", &cupti->Subscribe);
  if (status.ok()) status = library->Find("cuptiUnsubscribe", &cupti->Unsubscribe);
#define WARPSMITH_FIND(member, symbol, parameter) \
  if (status.ok()) status = library->Find(symbol, &cupti->member);
  WARPSMITH_CUPTI_FUNCTIONS(WARPSMITH_FIND)
#undef WARPSMITH_FIND
  if (!status.ok()) return status;
  return cupti.release();  // for the life of the process, like the library itself
}

Result Initialize(const Library& cupti) {
  auto nothing = Make<Nothing>();
  Result result = cupti.Initialize(&nothing);
  if (result != kNotInitialized) return result;
  const auto ignore = [](void*, int, uint32_t, const void*) {};
  void* subscriber = nullptr;
  result = cupti.Subscribe(&subscriber, ignore, nullptr);
  if (result != kSuccess) return result;
  result = cupti.Initialize(&nothing);
  const Result ended = cupti.Unsubscribe(subscriber);
  return result != kSuccess ? result : ended;
}

absl::Status ToStatus(const Library& cupti, Result result, const char* what) {
  if (result == kSuccess) return absl::OkStatus();
  const char* text = nullptr;
  cupti.GetResultString(result, &text);
  const std::string message =
      absl::StrCat(what, ": ", text != nullptr ? text : "unknown CUPTI error", " (", result, ")");
  if (result == kInsufficientPrivileges || result == kVirtualInsufficientPrivileges) {
    return absl::PermissionDeniedError(absl::StrCat(
        message,
        ": the driver keeps performance counters to administrators; run as one, give "
        "CAP_SYS_ADMIN, or set the module option NVreg_RestrictProfilingToAdminUsers=0"));
  }
  return absl::InternalError(message);
}

absl::StatusOr<std::unique_ptr<Host>> Host::Make(const Library& cupti, const std::string& chip,
                                                 const std::string& availability) {
  auto initialize = cupti::Make<HostInitialize>();
  initialize.chip = chip.c_str();
  if (!availability.empty()) {
    initialize.availability = reinterpret_cast<const uint8_t*>(availability.data());
  }
  const Result result = cupti.HostInitialize(&initialize);
  if (result != kSuccess) {
    return absl::NotFoundError(absl::StrCat(
        "chip '", chip, "': ", ToStatus(cupti, result, "cuptiProfilerHostInitialize").message()));
  }
  return std::unique_ptr<Host>(new Host(cupti, initialize.host));
}

Host::~Host() {
  auto deinitialize = cupti::Make<HostDeinitialize>();
  deinitialize.host = host_;
  cupti_.HostDeinitialize(&deinitialize);
}

namespace {

// The image with which the metrics are configured; every metric is one of the chip's.
absl::StatusOr<std::string> ConfigOf(const Library& cupti, const Host& host,
                                     std::vector<const char*> names) {
  auto add = Make<AddMetrics>();
  add.host = host.get();
  add.names = names.data();
  add.count = names.size();
  absl::Status status =
      ToStatus(cupti, cupti.HostAddMetrics(&add), "cuptiProfilerHostConfigAddMetrics");
  if (!status.ok()) return status;
  auto size = Make<ConfigSize>();
  size.host = host.get();
  status = ToStatus(cupti, cupti.HostConfigSize(&size), "cuptiProfilerHostGetConfigImageSize");
  if (!status.ok()) return status;
  std::string config(size.bytes, '\0');
  auto image = Make<ConfigImage>();
  image.host = host.get();
  image.bytes = config.size();
  image.image = reinterpret_cast<uint8_t*>(config.data());
  status = ToStatus(cupti, cupti.HostConfigImage(&image), "cuptiProfilerHostGetConfigImage");
  if (!status.ok()) return status;
  return config;
}

}  // namespace

absl::StatusOr<Schedule> Plan(const Library& cupti, const std::string& chip,
                              const std::vector<std::string>& metrics,
                              const std::string& availability) {
  Schedule schedule;
  for (const std::string& metric : metrics) {
    // One that the chip does not have spoils the host object that it was asked of.
    auto host = Host::Make(cupti, chip, availability);
    if (!host.ok()) return host.status();
    const bool known = ConfigOf(cupti, **host, {metric.c_str()}).ok();
    (known ? schedule.metrics : schedule.missing).push_back(metric);
  }
  if (schedule.metrics.empty()) {
    return absl::NotFoundError(
        absl::StrCat("chip '", chip, "' has none of the counters that are read"));
  }
  auto host = Host::Make(cupti, chip, availability);
  if (!host.ok()) return host.status();
  std::vector<const char*> names;
  for (const std::string& metric : schedule.metrics) names.push_back(metric.c_str());
  auto config = ConfigOf(cupti, **host, names);
  if (!config.ok()) return config.status();
  schedule.host = *std::move(host);
  schedule.config = *std::move(config);
  auto passes = Make<Passes>();
  passes.bytes = schedule.config.size();
  passes.image = reinterpret_cast<uint8_t*>(schedule.config.data());
  absl::Status status =
      ToStatus(cupti, cupti.HostPasses(&passes), "cuptiProfilerHostGetNumOfPasses");
  if (!status.ok()) return status;
  schedule.passes = static_cast<int>(passes.passes);
  return schedule;
}

}  // namespace warpsmith::device::cupti
