// The statistics of timing: medians with intervals that assume no distribution, and the rule that
// says when two candidates have been compared long enough. Pure.
#pragma once

#include <optional>
#include <vector>

namespace warpsmith::judge {

// Fewer samples than this say nothing about noise.
inline constexpr int kFewestSamples = 5;

double Median(std::vector<double> values);                // of at least one
double GeometricMean(const std::vector<double>& values);  // of at least one, all > 0

struct Interval {
  double low = 0, high = 0;
};
// Order-statistic interval of the median: between two samples, chosen so that it covers the median
// with at least `confidence`, whatever the distribution. None with fewer than kFewestSamples, or
// than the confidence needs (6 for 0.95, 10 for 0.998).
std::optional<Interval> MedianInterval(std::vector<double> values, double confidence);

enum class Decision { kContinue, kFaster, kSlower, kSame };

// Compares a candidate with an incumbent timed in turns, and stops as soon as it can.
//
//   Race race(rule);
//   while (race.decision() == Decision::kContinue) race.Add(candidate_seconds, incumbent_seconds);
//
// What is looked at is the logarithm of each pair's ratio: what slows both (clocks, a neighbour)
// drops out of it. Looking after every pair makes a wrong decision likelier than one look would, so
// winning takes the stricter confidence. Losing takes little: most candidates do, and whether one
// is slower or just not faster is not worth the time.
class Race {
 public:
  struct Rule {
    double clearly_slower = 1.3;  // every ratio beyond this: no more samples
    int fewest_clear = 3;         // samples for that
    double least_gain = 0.002;    // a win by less is none, in log time
    double win_confidence = 0.998;
    double lose_confidence = 0.75;
    int most = 41;  // then whoever has not won is the same
    // Who takes so many times the incumbent's time counts as equal: what is worth that is said by
    // who races.
    double may_take = 1;
  };
  explicit Race(const Rule& rule) : rule_(rule) {}

  void Add(double candidate, double incumbent);  // both > 0
  // Adds the ratio of several workloads' times: the mean of the logarithms.
  void AddLog(double log_ratio);
  // No more samples will come: kContinue becomes what they say so far.
  void Stop() { stopped_ = true; }

  Decision decision() const;
  int samples() const { return static_cast<int>(logs_.size()); }
  double ratio() const;  // median candidate / incumbent; of at least one pair
  double may_take() const { return rule_.may_take; }

 private:
  const Rule rule_;
  std::vector<double> logs_;
  bool stopped_ = false;
};

}  // namespace warpsmith::judge
