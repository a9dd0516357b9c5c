#include "worker/card/watch.h"

#include <unistd.h>

#include <utility>

#include "worker/card/strangers.h"
#include "worker/card/xid.h"
#include "worker/daemon/log.h"

namespace warpsmith::card {

using telemetry::Log;
namespace told = daemon::told;

CardWatch::CardWatch(device::Nvml& nvml, const Options& options, Listener listener,
                     telemetry::Metrics& metrics)
    : nvml_(nvml),
      options_(options),
      listener_(std::move(listener)),
      metrics_(metrics),
      condition_(options.alone, options.note),
      told_(condition_.health()),
      counted_(nvml.Throttled()) {
  metrics_.Gauge("warpsmith_card_info", {nvml.Uuid(), nvml.DriverVersion()}).Set(1);
  metrics_.Counter("warpsmith_card_xid_total", {kOtherXids});
  thread_ = std::thread([this] { Run(); });
}

CardWatch::~CardWatch() {
  {
    absl::MutexLock lock(&mutex_);
    stopped_ = true;
  }
  thread_.join();
}

void CardWatch::Run() {
  while (!Stopped()) {
    Look();
    AwaitXid();
  }
}

void CardWatch::AwaitXid() {
  if (!tells_xids_) {
    absl::MutexLock lock(&mutex_);
    mutex_.AwaitWithTimeout(absl::Condition(&stopped_), options_.period);
    return;
  }
  const absl::StatusOr<std::optional<int>> xid = nvml_.NextXid(options_.period);
  if (!xid.ok()) {  // a lost card is found by the next look
    Log(told::kXidsUnseen, {{"reason", xid.status().message()}});
    tells_xids_ = false;
  } else if (xid->has_value()) {
    const int number = **xid;
    Log(KindOf(number) == XidKind::kCandidate ? told::kXidOfKernel : told::kXid,
        {{"text", TextOf(number)}, {"xid", number}});
    metrics_.Counter("warpsmith_card_xid_total", {LabelOf(number)}).Increment();
    Tell(condition_.TakeXid(number));
  }
}

void CardWatch::Look() {
  const device::CardReading reading = nvml_.Read();
  const std::vector<int> strangers =
      options_.sees_processes ? StrangersOf(reading.processes, getpid()) : std::vector<int>();
  Tell(condition_.Take(reading, strangers));
  Count(reading, strangers.size());
}

void CardWatch::Tell(const std::string& doubt) {
  const daemon::Health health = condition_.health();
  if (health != told_) {
    told_ = health;
    if (!health.healthy) {
      Log(told::kCardSick, {{"reason", health.reason}});
    } else if (!health.reason.empty()) {
      Log(told::kCardDoubted, {{"reason", health.reason}});
    } else {
      Log(told::kCardWell, {});
    }
    metrics_.Gauge("warpsmith_worker_healthy").Set(health.healthy ? 1 : 0);
    listener_.health(health);
  }
  if (!doubt.empty()) listener_.interrupt(doubt);
}

void CardWatch::Count(const device::CardReading& reading, size_t strangers) {
  const auto set = [this](const char* name, std::optional<double> value) {
    if (value.has_value()) metrics_.Gauge(name).Set(*value);
  };
  set("warpsmith_card_sm_clock_hertz", reading.sm_clock_hertz);
  set("warpsmith_card_memory_clock_hertz", reading.memory_clock_hertz);
  set("warpsmith_card_power_watts", reading.power_watts);
  set("warpsmith_card_power_limit_watts", reading.power_limit_watts);
  set("warpsmith_card_temperature_celsius", reading.temperature_celsius);
  set("warpsmith_card_uncorrectable_errors", reading.uncorrectable_errors);
  set("warpsmith_card_row_remap_pending", reading.remap_pending ? 1 : 0);
  set("warpsmith_card_other_processes", static_cast<double>(strangers));
  if (reading.lost) return;
  const device::Throttling more = reading.throttling - counted_;
  for (const auto& [cause, seconds] :
       {std::pair("power", more.power), std::pair("heat", more.heat),
        std::pair("board", more.board), std::pair("reliability", more.reliability)}) {
    metrics_.Counter("warpsmith_card_throttled_seconds_total", {cause})
        .Increment(std::max(seconds, 0.0));
  }
  counted_ = reading.throttling;
}

}  // namespace warpsmith::card
