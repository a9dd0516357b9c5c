#include "planner/core/deadlines.h"

#include <catch2/catch.hpp>
#include <map>
#include <random>

#include "absl/strings/str_cat.h"

namespace warpsmith::planner {

TEST_CASE("a deadline has passed from its time on, until it is moved or erased") {
  Deadlines deadlines;
  CHECK(deadlines.Passed(INT64_MAX).empty());
  deadlines.Set("b", 10);
  deadlines.Set("a", 10);
  deadlines.Set("c", 5);
  CHECK(deadlines.Passed(4).empty());
  CHECK(deadlines.Passed(5) == std::vector<std::string>{"c"});
  CHECK(deadlines.Passed(10) == std::vector<std::string>{"c", "a", "b"});
  deadlines.Set("c", 20);
  deadlines.Set("b", 3);
  CHECK(deadlines.Passed(10) == std::vector<std::string>{"b", "a"});
  deadlines.Erase("b");
  deadlines.Erase("not here");
  CHECK(deadlines.Passed(30) == std::vector<std::string>{"a", "c"});
  deadlines.Erase("a");
  deadlines.Erase("c");
  CHECK(deadlines.empty());
}

TEST_CASE("deadlines pass as a look at each would find") {
  std::mt19937 random(3);
  Deadlines deadlines;
  std::map<std::string, int64_t> plain;
  for (int step = 0; step < 5'000; ++step) {
    const std::string id = absl::StrCat("d", random() % 50);
    if (random() % 4 == 0) {
      deadlines.Erase(id);
      plain.erase(id);
    } else {
      plain[id] = random() % 100;
      deadlines.Set(id, plain[id]);
    }
    const int64_t now = random() % 100;
    std::set<std::pair<int64_t, std::string>> due;
    for (const auto& [one, at] : plain) {
      if (at <= now) due.emplace(at, one);
    }
    std::vector<std::string> wanted;
    for (const auto& [at, one] : due) wanted.push_back(one);
    REQUIRE(deadlines.Passed(now) == wanted);
  }
}

}  // namespace warpsmith::planner
