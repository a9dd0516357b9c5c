// Simulated time and chance: what is to happen, when, and one source of randomness for all of it.
// The same seed gives the same world.
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace warpsmith::planner::simulation {

class World {
 public:
  explicit World(uint64_t seed) : random_(seed) {}
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  int64_t now_ms() const { return now_ms_; }
  // At that time (now, if it is past); of several at one time the first said is the first done.
  void At(int64_t at_ms, std::function<void()> action) {
    if (free_.empty()) {
      free_.push_back(actions_.size());
      actions_.emplace_back();
    }
    agenda_.push_back({std::max(at_ms, now_ms_), ++order_, free_.back()});
    std::push_heap(agenda_.begin(), agenda_.end(), std::greater<>());
    actions_[free_.back()] = std::move(action);
    free_.pop_back();
  }
  void After(int64_t ms, std::function<void()> action) { At(now_ms_ + ms, std::move(action)); }
  // Does what comes next.
  void Step() {
    std::pop_heap(agenda_.begin(), agenda_.end(), std::greater<>());
    const Item next = agenda_.back();
    agenda_.pop_back();
    now_ms_ = next.at_ms;
    const std::function<void()> action = std::exchange(actions_[next.action], nullptr);
    free_.push_back(next.action);
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
  struct Item {
    int64_t at_ms = 0;
    int64_t order = 0;
    size_t action = 0;  // which of actions_

    auto operator<=>(const Item&) const = default;
  };

  std::mt19937_64 random_;
  bool trace_ = false;
  int64_t now_ms_ = 0;
  int64_t order_ = 0;
  std::vector<Item> agenda_;  // a heap, the next first
  std::vector<std::function<void()>> actions_;
  std::vector<size_t> free_;  // of actions_
};

}  // namespace warpsmith::planner::simulation
