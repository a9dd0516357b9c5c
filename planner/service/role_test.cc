#include "planner/service/role.h"

#include <catch2/catch.hpp>

#include "common/rpc/status.h"
#include "common/store/memory_store.h"

namespace warpsmith::planner {

TEST_CASE("one that follows says who leads") {
  Role role;
  role.Follow();
  CHECK_FALSE(role.leads());
  CHECK(absl::IsUnavailable(role.MayAnswer(0)));
  CHECK(rpc::LeaderOf(role.MayAnswer(0)) == "");
  role.Name("there:1");
  CHECK(absl::IsUnavailable(role.MayAnswer(0)));
  CHECK(rpc::LeaderOf(role.MayAnswer(0)) == "there:1");
  role.Name("there:1\nthere:2");
  CHECK(rpc::LeaderOf(role.Following(/*worker=*/true)) == "there:1");
  CHECK(rpc::LeaderOf(role.Following(/*worker=*/false)) == "there:2");
}

TEST_CASE("a leader of several answers for so long after it was confirmed, the only one for ever") {
  Role role;
  role.Follow();
  role.Lead(1'000'000);
  CHECK(role.MayAnswer(1'000'000 + kUnconfirmedMs - 1).ok());
  CHECK(absl::IsUnavailable(role.MayAnswer(1'000'000 + kUnconfirmedMs)));
  role.Confirm(1'001'000);
  CHECK(role.MayAnswer(1'001'000 + kUnconfirmedMs - 1).ok());
  CHECK(absl::IsUnavailable(role.MayAnswer(1'001'000 + kUnconfirmedMs)));
  role.LeadAlone();
  CHECK(role.MayAnswer(1'000'000'000).ok());
}

TEST_CASE("a service follows one history, and no other") {
  store::MemoryStore store;
  Service service({}, 1);
  REQUIRE(service.Follow(store, 0).ok());
  CHECK(CatchUp(service, store, *store.Look()).ok());
  REQUIRE(store.RaiseGeneration().ok());
  CHECK(absl::IsFailedPrecondition(CatchUp(service, store, *store.Look())));
}

}  // namespace warpsmith::planner
