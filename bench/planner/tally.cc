#include "bench/planner/tally.h"

#include <algorithm>
#include <iomanip>
#include <sstream>
#include <utility>

namespace warpsmith::bench {

void Tally::Merge(Tally other) {
  for (const auto& [name, count] : other.counts) counts[name] += count;
  asked_sync_ms = std::max(asked_sync_ms, other.asked_sync_ms);
  last_moved_us = std::max(last_moved_us, other.last_moved_us);
  latency_us.insert(latency_us.end(), other.latency_us.begin(), other.latency_us.end());
  for (const auto& [id, task] : other.tasks) {
    TaskTally& sum = tasks[id];
    sum.trials += task.trials;
    sum.trials_sent += task.trials_sent;
    sum.speedup = std::max(sum.speedup, task.speedup);
    sum.speedup_sent = std::max(sum.speedup_sent, task.speedup_sent);
  }
  for (std::string& error : other.first_errors) first_errors.push_back(std::move(error));
}

std::string Tally::Write() const {
  std::ostringstream out;
  out << std::setprecision(17);
  for (const auto& [name, count] : counts) out << "count " << name << ' ' << count << '\n';
  out << "asked " << asked_sync_ms << '\n';
  out << "moved " << last_moved_us << '\n';
  for (const int64_t us : latency_us) out << "us " << us << '\n';
  for (const auto& [id, task] : tasks) {
    out << "task " << id << ' ' << task.trials << ' ' << task.trials_sent << ' ' << task.speedup
        << ' ' << task.speedup_sent << '\n';
  }
  for (const std::string& error : first_errors) out << "error " << error << '\n';
  return out.str();
}

Tally Tally::Read(const std::string& text) {
  Tally tally;
  std::istringstream lines(text);
  std::string kind, name;
  while (lines >> kind) {
    if (kind == "count") {
      int64_t count = 0;
      lines >> name >> count;
      tally.counts[name] = count;
    } else if (kind == "asked") {
      lines >> tally.asked_sync_ms;
    } else if (kind == "moved") {
      lines >> tally.last_moved_us;
    } else if (kind == "us") {
      lines >> tally.latency_us.emplace_back();
    } else if (kind == "task") {
      TaskTally task;
      lines >> name >> task.trials >> task.trials_sent >> task.speedup >> task.speedup_sent;
      tally.tasks[name] = task;
    } else {
      std::getline(lines, tally.first_errors.emplace_back());
    }
  }
  return tally;
}

int64_t Percentile(std::vector<int64_t>& values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const auto last = static_cast<double>(values.size() - 1);
  return values[static_cast<size_t>(share * last + 0.5)];
}

}  // namespace warpsmith::bench
