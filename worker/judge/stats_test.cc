#include "worker/judge/stats.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <random>

namespace warpsmith::judge {
namespace {

TEST_CASE("median and geometric mean") {
  CHECK(Median({3}) == 3);
  CHECK(Median({4, 1, 3}) == 3);
  CHECK(Median({4, 1, 3, 2}) == 2.5);
  CHECK(GeometricMean({1, 4}) == Approx(2));
}

TEST_CASE("an interval takes as many samples as its confidence needs") {
  CHECK_FALSE(MedianInterval({1, 2, 3, 4}, 0.5));
  CHECK_FALSE(MedianInterval({1, 2, 3, 4, 5}, 0.95));
  auto six = MedianInterval({6, 5, 4, 3, 2, 1}, 0.95);
  REQUIRE(six);
  CHECK(six->low == 1);
  CHECK(six->high == 6);
  CHECK_FALSE(MedianInterval({1, 2, 3, 4, 5, 6, 7}, 0.99));
  CHECK(MedianInterval({1, 2, 3, 4, 5, 6, 7, 8}, 0.99));
}

TEST_CASE("an interval covers the median as often as it says") {
  std::mt19937 random(7);
  std::lognormal_distribution<double> skewed(0, 1);  // its median is 1
  int covered = 0;
  constexpr int kTrials = 2000;
  for (int i = 0; i < kTrials; ++i) {
    std::vector<double> values;
    for (int j = 0; j < 25; ++j) values.push_back(skewed(random));
    auto interval = MedianInterval(values, 0.95);
    REQUIRE(interval);
    covered += interval->low <= 1 && 1 <= interval->high;
  }
  CHECK(covered >= 0.94 * kTrials);
}

// Runs a race of two whose times scatter by `noise`, slowed together by a drift.
Decision Run(double ratio, double noise, int seed, int* samples) {
  std::mt19937 random(seed);
  std::normal_distribution<double> scatter(0, noise);
  Race race{Race::Rule{}};
  while (race.decision() == Decision::kContinue) {
    double drift = 1 + 0.01 * race.samples();
    race.Add(ratio * drift * std::exp(scatter(random)), drift * std::exp(scatter(random)));
  }
  *samples = race.samples();
  return race.decision();
}

TEST_CASE("a race stops early where the difference is plain") {
  int samples = 0;
  CHECK(Run(2.0, 0.01, 1, &samples) == Decision::kSlower);
  CHECK(samples == 3);
  CHECK(Run(1.1, 0.01, 2, &samples) == Decision::kSlower);
  CHECK(samples <= 8);
  CHECK(Run(0.9, 0.01, 3, &samples) == Decision::kFaster);
  CHECK(samples <= 12);
}

TEST_CASE("who may take longer wins within that, and its ratio is what it took") {
  Race::Rule rule;
  rule.may_take = 1.25;
  for (const double ratio : {1.1, 1.4}) {
    Race race{rule};
    while (race.decision() == Decision::kContinue) race.Add(ratio, 1);
    CHECK((race.decision() == Decision::kFaster) == (ratio < 1.25));
    CHECK(race.ratio() == Approx(ratio));
  }
}

TEST_CASE("equals do not win") {
  int wins = 0, samples = 0;
  for (int seed = 0; seed < 300; ++seed) {
    wins += Run(1.0, 0.02, seed, &samples) == Decision::kFaster;
  }
  CHECK(wins <= 6);
}

TEST_CASE("a small gain in little noise is found, and one below the least is not") {
  int samples = 0, found = 0;
  for (int seed = 0; seed < 50; ++seed)
    found += Run(0.97, 0.01, seed, &samples) == Decision::kFaster;
  CHECK(found >= 45);
  CHECK(Run(0.9995, 1e-5, 1, &samples) == Decision::kSame);
}

TEST_CASE("a stopped race says what it has seen") {
  Race race{Race::Rule{}};
  for (int i = 0; i < 9; ++i) race.Add(0.9, 1.0);
  CHECK(race.decision() == Decision::kContinue);
  race.Add(0.9, 1.0);
  CHECK(race.decision() == Decision::kFaster);
  Race few{Race::Rule{}};
  few.Add(0.5, 1.0);
  few.Stop();
  CHECK(few.decision() == Decision::kSame);
}

}  // namespace
}  // namespace warpsmith::judge
