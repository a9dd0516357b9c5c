// Simulated time and chance: what is to happen, when, and one source of randomness for all of it.
// The same seed gives the same world.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <utility>

namespace warpsmith::planner::simulation {

class World {
 public:
  explicit World(uint64_t seed) : random_(seed) {}
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  int64_t now_ms() const { return now_ms_; }
  // At that time (now, if it is past); of several at one time the first said is the first done.
  void At(int64_t at_ms, std::function<void()> action) {
    agenda_[{std::max(at_ms, now_ms_), ++order_}] = std::move(action);
  }
  void After(int64_t ms, std::function<void()> action) { At(now_ms_ + ms, std::move(action)); }
  // Does what comes next.
  void Step() {
    const auto next = agenda_.begin();
    now_ms_ = next->first.first;
    const std::function<void()> action = std::move(next->second);
    agenda_.erase(next);
    action();
  }

  // Standard distributions differ between libraries; these do not.
  uint64_t Random() { return random_(); }
  double Share() { return static_cast<double>(random_() >> 11) * 0x1p-53; }  // [0, 1)
  bool Chance(double p) { return Share() < p; }
  double Between(double low, double high) { return low + (high - low) * Share(); }
  int64_t Between(int64_t low, int64_t high) {  // both included
    return low + static_cast<int64_t>(random_() % static_cast<uint64_t>(high - low + 1));
  }

  // Prints what happens, to stderr.
  void set_trace(bool trace) { trace_ = trace; }
  bool trace() const { return trace_; }
  void Trace(const std::string& what) const {
    if (trace_)
      std::fprintf(stderr, "%9.3f %s\n", static_cast<double>(now_ms_) / 1000, what.c_str());
  }

 private:
  std::mt19937_64 random_;
  bool trace_ = false;
  int64_t now_ms_ = 0;
  int64_t order_ = 0;
  std::map<std::pair<int64_t, int64_t>, std::function<void()>> agenda_;
};

}  // namespace warpsmith::planner::simulation
