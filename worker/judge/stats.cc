#include "worker/judge/stats.h"

#include <algorithm>
#include <cmath>

#include "common/base/check.h"

namespace warpsmith::judge {

double Median(std::vector<double> values) {
  WS_CHECK(!values.empty(), "the median of nothing");
  std::sort(values.begin(), values.end());
  size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : 0.5 * (values[n / 2 - 1] + values[n / 2]);
}

double GeometricMean(const std::vector<double>& values) {
  WS_CHECK(!values.empty(), "the mean of nothing");
  double sum = 0;
  for (double v : values) sum += std::log(v);
  return std::exp(sum / static_cast<double>(values.size()));
}

std::optional<Interval> MedianInterval(std::vector<double> values, double confidence) {
  const int n = static_cast<int>(values.size());
  if (n < kFewestSamples) return std::nullopt;
  // [x_(k), x_(n+1-k)] misses the median with probability 2 P(Binomial(n, 1/2) < k).
  double probability = std::pow(0.5, n), tail = 0;
  int k = 0;
  while (2 * (tail + probability) <= 1 - confidence) {
    tail += probability;
    probability *= static_cast<double>(n - k) / (k + 1);
    ++k;
  }
  if (k == 0) return std::nullopt;
  std::sort(values.begin(), values.end());
  return Interval{values[k - 1], values[n - k]};
}

void Race::Add(double candidate, double incumbent) {
  WS_CHECK(candidate > 0 && incumbent > 0, "a time is not positive");
  AddLog(std::log(candidate / incumbent));
}

void Race::AddLog(double log_ratio) { logs_.push_back(log_ratio - std::log(rule_.may_take)); }

double Race::ratio() const { return std::exp(Median(logs_)) * rule_.may_take; }

Decision Race::decision() const {
  if (static_cast<int>(logs_.size()) >= rule_.fewest_clear &&
      *std::min_element(logs_.begin(), logs_.end()) > std::log(rule_.clearly_slower)) {
    return Decision::kSlower;
  }
  const bool last = stopped_ || static_cast<int>(logs_.size()) >= rule_.most;
  auto strict = MedianInterval(logs_, rule_.win_confidence);
  auto plain = MedianInterval(logs_, rule_.lose_confidence);
  if (strict && strict->high < -rule_.least_gain) return Decision::kFaster;
  if (plain) {
    if (plain->low > 0) return Decision::kSlower;
    if (plain->low > -rule_.least_gain) return Decision::kSame;  // no gain is left to find
  }
  return last ? Decision::kSame : Decision::kContinue;
}

}  // namespace warpsmith::judge
