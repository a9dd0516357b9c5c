// Ways to look into results and to answer them, for tests of the worker's side.
#pragma once

#include <catch2/catch.hpp>
#include <utility>

#include "common/problem/sealed_trials.h"
#include "common/rpc/protocol.h"
#include "warpsmith/v1/planner.pb.h"

namespace warpsmith::daemon::testing {

// With the trials that were sealed as they are.
inline v1::LeaseResult Opened(v1::LeaseResult result) {
  if (!result.has_sealed()) return result;
  auto trials = problem::Open(result.sealed());
  INFO(trials.status().ToString());
  REQUIRE(trials.ok());
  CHECK(problem::CheckSummary(result.sealed()).ok());
  CHECK(result.trials().trials_size() == 0);
  *result.mutable_trials() = *std::move(trials);
  return result;
}

// Says that all of `result` is durable, as a planner does that knows its form.
inline void Record(const v1::LeaseResult& result, v1::SynchronizeReply& reply) {
  reply.add_recorded(result.lease_id());
  if (result.has_incumbent()) reply.add_recorded(result.incumbent().trial().id());
  if (!result.has_sealed()) return;
  v1::Heard& heard = *reply.add_heard();
  heard.set_lease_id(result.lease_id());
  heard.set_trials(result.sealed().first() - 1 + result.sealed().summary().trials());
}

}  // namespace warpsmith::daemon::testing
