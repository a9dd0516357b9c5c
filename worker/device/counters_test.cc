// Counters without a card: what is said where there are none, and what CUPTI's host library makes
// of the metrics where it is installed.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "worker/device/cuda_counters.h"
#include "worker/device/cupti.h"

namespace warpsmith::device {
namespace {

using Catch::Contains;

TEST_CASE("without CUPTI somebody says what to install") {
  const auto none = cupti::Load({"/nowhere/libcupti.so.13"});
  CHECK(absl::IsNotFound(none.status()));
  CHECK_THAT(std::string(none.status().message()),
             Contains("/nowhere/libcupti.so.13") && Contains("nvidia-cuda-cupti"));
  // A library without the functions is one that is too old.
  const auto old = cupti::Load({"libm.so.6"});
  CHECK(absl::IsNotFound(old.status()));
  CHECK_THAT(std::string(old.status().message()), Contains("too old"));
}

TEST_CASE("CUPTI is looked for beside a library of the toolkit or of a wheel") {
  const std::filesystem::path root =
      std::filesystem::temp_directory_path() / absl::StrCat("warpsmith-cupti-", getpid());
  for (const char* folder : {"nvidia/cuda_nvrtc/lib", "nvidia/cuda_cupti/lib"}) {
    std::filesystem::create_directories(root / folder);
  }
  const std::string cupti = root / "nvidia/cuda_cupti/lib/libcupti.so.12";
  std::fclose(std::fopen(cupti.c_str(), "w"));
  const auto names = cupti::Candidates(root / "nvidia/cuda_nvrtc/lib/libnvrtc.so.12");
  REQUIRE_FALSE(names.empty());
  CHECK(std::filesystem::equivalent(names[0], cupti));
  std::filesystem::remove_all(root);
  CHECK(cupti::Candidates("")[0] == "libcupti.so.13");
}

cupti::Result Told(cupti::Result, const char** text) {
  *text = "CUPTI_ERROR_OF_A_TEST";
  return 0;
}

TEST_CASE("a denial says how to be allowed") {
  cupti::Library library = {};
  library.GetResultString = Told;
  CHECK(cupti::ToStatus(library, 0, "x").ok());
  const absl::Status denied = cupti::ToStatus(library, cupti::kInsufficientPrivileges, "reading");
  CHECK(absl::IsPermissionDenied(denied));
  CHECK_THAT(std::string(denied.message()), Contains("reading: CUPTI_ERROR_OF_A_TEST (35)") &&
                                                Contains("NVreg_RestrictProfilingToAdminUsers=0"));
  CHECK(absl::IsInternal(cupti::ToStatus(library, 999, "x")));
}

// As CUPTI after Finalize: nothing begins anew until somebody has subscribed.
int subscribers = 0, initialized = 0;

TEST_CASE("after it was finalized CUPTI is initialized once somebody subscribes") {
  cupti::Library library = {};
  library.Initialize = [](cupti::Nothing*) {
    if (subscribers == 0) return cupti::kNotInitialized;
    ++initialized;
    return cupti::kSuccess;
  };
  library.Subscribe = [](void** subscriber, auto, void*) {
    ++subscribers;
    *subscriber = &subscribers;
    return cupti::kSuccess;
  };
  library.Unsubscribe = [](void* subscriber) {
    subscribers -= subscriber == &subscribers;
    return cupti::kSuccess;
  };
  CHECK(cupti::Initialize(library) == cupti::kSuccess);
  CHECK((subscribers == 0 && initialized == 1));
  library.Initialize = [](cupti::Nothing*) { return cupti::kInsufficientPrivileges; };
  CHECK(cupti::Initialize(library) == cupti::kInsufficientPrivileges);
  CHECK((subscribers == 0 && initialized == 1));
}

TEST_CASE("structures have the sizes that CUPTI knows") {
  // Of the headers of CUDA 13.0, to the end of each structure's last member.
  CHECK(cupti::Make<cupti::HostInitialize>().size == 48);
  CHECK(cupti::Make<cupti::Availability>().size == 40);
  CHECK(cupti::Make<cupti::Evaluate>().size == 72);
  CHECK(cupti::Make<cupti::DataSize>().size == 64);
  CHECK(cupti::Make<cupti::RangeConfig>().size == 90);
  CHECK(cupti::Make<cupti::RangeStop>().size == 41);
  CHECK(cupti::Make<cupti::RangePush>().size == 32);
  CHECK(cupti::Make<cupti::DataInfo>().size == 40);
}

TEST_CASE("values become counters, whichever of them there are") {
  const auto metrics = CounterMetrics();
  std::vector<double> values;
  for (const std::string& metric : metrics) {
    values.push_back(metric.find("pct") != std::string::npos ? 50 : 2000);
  }
  const v1::Counters counters = CountersOf(metrics, values);
  CHECK(counters.gpu_us() == 2);
  CHECK(counters.dram_read_bytes() == 2000);
  CHECK(counters.dram_written_bytes() == 2000);
  CHECK(counters.bank_conflicts() == 1);
  for (const double share :
       {counters.dram_throughput(), counters.l2_hit_rate(), counters.sm_active(),
        counters.issue_active(), counters.warps_active(), counters.lsu_throughput(),
        counters.tensor_active(), counters.fp64_active(), counters.special_active()}) {
    CHECK(share == 0.5);
  }
  const v1::Counters few = CountersOf({"lts__t_sector_hit_rate.pct"}, {25});
  CHECK(few.l2_hit_rate() == 0.25);
  CHECK(few.gpu_us() == 0);
  CHECK(few.bank_conflicts() == 0);
}

TEST_CASE("shares of a range's time become shares of its kernel's") {
  v1::Counters counters;
  counters.set_gpu_us(28);
  counters.set_dram_throughput(0.06);
  counters.set_sm_active(0.11);
  counters.set_lsu_throughput(0.5);
  counters.set_issue_active(0.13);
  RelateToKernel(7, counters);
  CHECK(counters.dram_throughput() == Approx(0.24));
  CHECK(counters.sm_active() == Approx(0.44));
  CHECK(counters.lsu_throughput() == 1);
  CHECK(counters.issue_active() == 0.13);  // of cycles in which it was active
  RelateToKernel(40, counters);
  CHECK(counters.sm_active() == Approx(0.44));
  // More sectors hit in one run than were asked for in the other.
  CHECK(CountersOf({"lts__t_sector_hit_rate.pct"}, {172}).l2_hit_rate() == 1);
}

TEST_CASE("chips have the counters that are read, in few passes") {
  const auto library = cupti::Load(cupti::Candidates(""));
  if (!library.ok()) {
    WARN("not seen: " << library.status().message());
    return;
  }
  for (const char* chip : {"GH100", "GB100", "GA100"}) {
    const auto schedule = cupti::Plan(**library, chip, CounterMetrics(), "");
    INFO(chip << ": " << schedule.status().message());
    REQUIRE(schedule.ok());
    CHECK(schedule->missing.empty());
    CHECK(schedule->passes <= 3);
    CHECK_FALSE(schedule->config.empty());
  }
  // What a chip does not have spoils nothing else.
  const auto some = cupti::Plan(
      **library, "GH100", {"no__such_metric.sum", "dram__bytes_read.sum", "gpu__nothing.avg"}, "");
  REQUIRE(some.ok());
  CHECK(some->metrics == std::vector<std::string>{"dram__bytes_read.sum"});
  CHECK(some->missing.size() == 2);
  CHECK(absl::IsNotFound(cupti::Plan(**library, "GX999", CounterMetrics(), "").status()));
  CHECK(absl::IsNotFound(cupti::Plan(**library, "GH100", {"no__such_metric.sum"}, "").status()));
}

}  // namespace
}  // namespace warpsmith::device
