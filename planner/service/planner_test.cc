#include "planner/service/planner.h"

#include <spdlog/spdlog.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <memory>

#include "absl/synchronization/notification.h"
#include "common/store/memory_store.h"
#include "planner/service/testing.h"

namespace warpsmith::planner {
namespace {

// A planner that leads others' store since 0.
struct Led {
  Led() {
    spdlog::set_level(spdlog::level::off);
    planner = *Planner::Follow(
        &store, {},
        [this] {
          return Now{now_ms, now_ms};
        },
        [](const absl::Status&) {});
    const store::Standing standing = *store.Look();
    REQUIRE(planner->CatchUp(standing).ok());
    REQUIRE(planner->Lead(*store.LeadAfter(standing, "here"), now_ms).ok());
  }

  template <typename R>
  absl::StatusOr<R> Call(const std::function<void(Planner::Done<R>)>& call) {
    absl::StatusOr<R> result;
    absl::Notification done;
    call([&](absl::StatusOr<R> reply) {
      result = std::move(reply);
      done.Notify();
    });
    done.WaitForNotification();
    return result;
  }
  absl::StatusOr<v1::SynchronizeReply> Synchronize(const v1::SynchronizeRequest& request) {
    return Call<v1::SynchronizeReply>([&](const auto& done) {
      planner->Synchronize(planner->NewCall(), security::Caller{}, request, done);
    });
  }
  absl::StatusOr<v1::ListReply> List() {
    return Call<v1::ListReply>([&](const auto& done) { planner->List({}, done); });
  }

  std::atomic<int64_t> now_ms{1'000'000};
  store::MemoryStore store;
  std::unique_ptr<Planner> planner;
};

}  // namespace

TEST_CASE("a leader that is not confirmed answers nothing, and counts nobody's silence") {
  Led led;
  REQUIRE(led.Synchronize(testing::SyncOf("w", "")).ok());
  for (int second = 0; second < 300; ++second) {
    led.now_ms += 1000;
    led.planner->Tick();
    CHECK(led.List().ok() == (led.now_ms - 1'000'000 < kUnconfirmedMs));  // behind the tick
  }
  led.planner->Confirm(led.now_ms);
  led.planner->Tick();
  const absl::StatusOr<v1::ListReply> list = led.List();
  REQUIRE(list.ok());
  CHECK(list->workers_size() == 1);
}

}  // namespace warpsmith::planner
