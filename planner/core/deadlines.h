// Deadlines of many things, each moved often and passed seldom.
//
//   Deadlines deadlines;
//   deadlines.Set("w1", now_ms + 30'000);       // anew or again
//   for (const std::string& id : deadlines.Passed(now_ms)) deadlines.Erase(id);
//
// Set and Erase take logarithmic time in their number, Passed as many steps as have passed. Times
// are milliseconds of whatever clock the caller has. Not thread-safe.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace warpsmith::planner {

class Deadlines {
 public:
  void Set(const std::string& id, int64_t at_ms);
  // Nothing if there is none.
  void Erase(const std::string& id);
  // Those at or before `now_ms`, earliest first, of equal ones the lowest id. They stay.
  std::vector<std::string> Passed(int64_t now_ms) const;

  bool empty() const { return at_ms_.empty(); }

 private:
  std::unordered_map<std::string, int64_t> at_ms_;  // by id; only looked up, never walked
  std::set<std::pair<int64_t, std::string>> order_;
};

}  // namespace warpsmith::planner
