#include "worker/card/watch.h"

#include <stdlib.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "tests/support/nvml_script.h"
#include "tests/support/temporary_folder.h"
#include "worker/daemon/metrics.h"

namespace warpsmith::card {
namespace {

using Catch::Contains;

// What the watch told.
class Told {
 public:
  CardWatch::Listener listener() {
    return {.health =
                [this](const daemon::Health& health) {
                  absl::MutexLock lock(&mutex_);
                  healths_.push_back(health);
                },
            .interrupt =
                [this](const std::string& why) {
                  absl::MutexLock lock(&mutex_);
                  interrupts_.push_back(why);
                }};
  }
  daemon::Health AwaitHealth(size_t number) {
    absl::MutexLock lock(&mutex_);
    const auto told = [&] { return healths_.size() >= number; };
    REQUIRE(mutex_.AwaitWithTimeout(absl::Condition(&told), absl::Minutes(1)));
    return healths_[number - 1];
  }
  std::string AwaitInterrupt(size_t number) {
    absl::MutexLock lock(&mutex_);
    const auto told = [&] { return interrupts_.size() >= number; };
    REQUIRE(mutex_.AwaitWithTimeout(absl::Condition(&told), absl::Minutes(1)));
    return interrupts_[number - 1];
  }
  size_t healths() {
    absl::MutexLock lock(&mutex_);
    return healths_.size();
  }

 private:
  absl::Mutex mutex_;
  std::vector<daemon::Health> healths_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> interrupts_ ABSL_GUARDED_BY(mutex_);
};

struct Card {
  support::TemporaryFolder folder;
  support::NvmlScript script{folder / "card"};
  std::unique_ptr<device::Nvml> nvml;

  explicit Card(std::map<std::string, uint64_t> values = {}, std::vector<int> processes = {}) {
    script.Set(std::move(values), std::move(processes));
    setenv(support::NvmlScript::kVariable, script.path().c_str(), 1);
    auto opened = device::Nvml::Open("", support::NvmlScript::library());
    INFO(opened.status());
    REQUIRE(opened.ok());
    nvml = *std::move(opened);
  }
};

const CardWatch::Options kQuick{.period = absl::Milliseconds(10)};

TEST_CASE("a card is read in base units, and what it does not say is left out") {
  const Card card({{"sm_clock", 1980},
                   {"memory_clock", 3201},
                   {"power", 82'226},
                   {"power_limit", 700'000},
                   {"temperature", 36},
                   {"violation_0", 735'061'344},
                   {"violation_1", 2'000'000'000},
                   {"uncorrectable", 3},
                   {"remap_pending", 1},
                   {"mig", 1}},
                  {17, 18});
  const device::CardReading reading = card.nvml->Read();
  CHECK(reading.sm_clock_hertz == 1.98e9);
  CHECK(reading.memory_clock_hertz == 3.201e9);
  CHECK(*reading.power_watts == Approx(82.226));
  CHECK(*reading.power_limit_watts == Approx(700));
  CHECK(reading.temperature_celsius == 36);
  CHECK(reading.throttling.power == Approx(0.735061344));
  CHECK(reading.throttling.heat == Approx(2));
  CHECK(reading.throttling.board == 0);
  CHECK(reading.uncorrectable_errors == 3);
  CHECK(reading.remap_pending);
  CHECK_FALSE(reading.remap_failed);
  CHECK(reading.sliced);
  CHECK(reading.processes == std::vector<int>{17, 18});
  CHECK(card.nvml->Uuid() == "GPU-of-a-script");
  CHECK(card.nvml->DriverVersion() == "999.1");
  CHECK(card.nvml->SmClockMhz() == 1980);

  const device::CardReading silent = Card().nvml->Read();
  CHECK_FALSE(silent.lost);
  CHECK_FALSE(silent.sm_clock_hertz.has_value());
  CHECK_FALSE(silent.uncorrectable_errors.has_value());
  CHECK(Card({{"lost", 1}}).nvml->Read().lost);
}

TEST_CASE("a library that is none is told by its path") {
  const auto nvml = device::Nvml::Open("", "/nonexistent/libnvidia-ml.so");
  CHECK(absl::IsNotFound(nvml.status()));
  CHECK_THAT(std::string(nvml.status().message()), Contains("/nonexistent/libnvidia-ml.so"));
}

TEST_CASE("errors of the card are told as they come, those of candidates are counted") {
  Card card({{"sm_clock", 1980}});
  daemon::WorkerMetrics metrics("1", v1::WorkerInfo(), base::Clock::Real());
  Told told;
  CardWatch watch(*card.nvml, kQuick, told.listener(), metrics.metrics());
  for (const int xid : {13, 31, 43, 45, 94}) card.script.Xid(xid);
  CHECK_THAT(told.AwaitInterrupt(1), Contains("Xid 94"));
  CHECK(told.healths() == 0);  // so those before it were nobody's
  card.script.Xid(79);
  CHECK_THAT(told.AwaitInterrupt(2), Contains("Xid 79"));
  const daemon::Health health = told.AwaitHealth(1);
  CHECK_FALSE(health.healthy);
  CHECK_THAT(health.fault, Contains("fallen off the bus"));
  const std::string text = metrics.Text();
  for (const char* line : {"warpsmith_card_xid_total{xid=\"31\"} 1", "xid=\"79\"} 1",
                           "warpsmith_worker_healthy 0", "warpsmith_card_sm_clock_hertz 1980000000",
                           "warpsmith_card_info{driver=\"999.1\",uuid=\"GPU-of-a-script\"} 1"}) {
    CHECK_THAT(text, Contains(line));
  }
}

TEST_CASE("a card that is lost, and one whose heat holds it down") {
  Card card({{"violation_1", 1'000'000'000}});
  daemon::WorkerMetrics metrics("1", v1::WorkerInfo(), base::Clock::Real());
  Told told;
  CardWatch watch(*card.nvml, kQuick, told.listener(), metrics.metrics());
  card.script.Set({{"violation_1", 3'500'000'000}});
  const auto counted = [&] {
    return metrics.Text().find("throttled_seconds_total{cause=\"heat\"} 2.5") != std::string::npos;
  };
  const base::Instant deadline = base::Now() + absl::Minutes(1);
  while (!counted() && base::Now() < deadline) absl::SleepFor(absl::Milliseconds(5));
  CHECK(counted());
  CHECK(told.healths() == 0);
  card.script.Set({{"lost", 1}});
  CHECK_THAT(told.AwaitHealth(1).fault, Contains("does not reach the card"));
}

TEST_CASE("others on the card are told while they are there") {
  Card card({{"sm_clock", 1980}}, {getpid()});
  daemon::WorkerMetrics metrics("1", v1::WorkerInfo(), base::Clock::Real());
  Told told;
  CardWatch watch(*card.nvml, kQuick, told.listener(), metrics.metrics());
  card.script.Set({}, {getpid(), getppid()});
  CHECK_THAT(told.AwaitHealth(1).reason, Contains("process " + std::to_string(getppid())));
  CHECK(told.AwaitHealth(1).fault.empty());
  card.script.Set({}, {getpid()});
  CHECK(told.AwaitHealth(2).healthy);
}

}  // namespace
}  // namespace warpsmith::card
