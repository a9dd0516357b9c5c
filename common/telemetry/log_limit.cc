#include "common/telemetry/log_limit.h"

#include <algorithm>
#include <utility>

namespace warpsmith::telemetry {

bool LogLimit::Takes(const LogEvent& event, base::Instant now) {
  if (options_.lines_per_second <= 0 || event.level == spdlog::level::critical) return true;
  absl::MutexLock lock(&mutex_);
  const auto [found, is_new] = kinds_.try_emplace(&event);
  Kind& kind = found->second;
  if (is_new) {
    kind.room = options_.lines_at_once;
    kind.since = now;
  }
  const double seconds = absl::ToDoubleSeconds(std::max(now - kind.since, absl::ZeroDuration()));
  kind.room = std::min(kind.room + seconds * options_.lines_per_second, options_.lines_at_once);
  kind.since = std::max(kind.since, now);
  if (kind.room >= 1) {
    kind.room -= 1;
    return true;
  }
  ++kind.untold;
  ++left_out_;
  return false;
}

std::vector<LogLimit::LeftOut> LogLimit::TakeLeftOut(base::Instant now) {
  std::vector<LeftOut> all;
  absl::MutexLock lock(&mutex_);
  for (auto& [event, kind] : kinds_) {
    if (kind.untold == 0 || now - kind.told < options_.between_told) continue;
    all.push_back({event, std::exchange(kind.untold, 0)});
    kind.told = now;
  }
  return all;
}

}  // namespace warpsmith::telemetry
