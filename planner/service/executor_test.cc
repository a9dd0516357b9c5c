#include "planner/service/executor.h"

#include <catch2/catch.hpp>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"

namespace warpsmith::planner {

TEST_CASE("actions run in the order of their posting, one at a time") {
  std::vector<int> order;
  Executor strand("test", 1000);
  for (int i = 0; i < 100; ++i) {
    REQUIRE(strand.Post([&order, i] { order.push_back(i); }));
  }
  strand.Stop();
  REQUIRE(order.size() == 100);
  for (int i = 0; i < 100; ++i) CHECK(order[i] == i);
  CHECK_FALSE(strand.Post([] {}));
  CHECK_FALSE(strand.PostAlways([] {}));
}

TEST_CASE("beyond its limit a strand refuses, but not what must not be refused") {
  absl::Notification started, go_on;
  int ran = 0;
  Executor strand("test", 2);
  strand.Post([&] {
    started.Notify();
    go_on.WaitForNotification();
  });
  started.WaitForNotification();
  CHECK(strand.Post([&] { ++ran; }));
  CHECK(strand.Post([&] { ++ran; }));
  CHECK_FALSE(strand.Post([&] { ran += 100; }));
  CHECK(strand.PostAlways([&] { ++ran; }));
  go_on.Notify();
  strand.Stop();
  CHECK(ran == 3);
}

TEST_CASE("what an action posts while the strand stops is run too") {
  bool ran = false;
  Executor strand("test", 10);
  strand.Post([&] { strand.PostAlways([&] { ran = true; }); });
  strand.Stop();
  CHECK(ran);
}

}  // namespace warpsmith::planner
