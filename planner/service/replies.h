// Answers that need blobs: read from the store, so not on the strand and not in a gRPC callback.
#pragma once

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "common/store/store.h"
#include "planner/core/core.h"
#include "warpsmith/v1/planner.pb.h"

namespace warpsmith::planner {

// Of one GetTask; older trials are left out beyond it.
inline constexpr size_t kMaxTrialBytes = 48 << 20;

// Why a task's problem or incumbent cannot be read: damaged, or not there. By task.
using Damage = std::map<std::string, absl::Status>;

// What the answer names must be durable. Any thread. Leases of tasks in `damage` are left out.
absl::StatusOr<v1::SynchronizeReply> MakeReply(const SynchronizeAnswer& answer, store::Store& store,
                                               Damage& damage);
absl::StatusOr<v1::GetTaskReply> MakeReply(const v1::Task& task, bool with_trials,
                                           store::Store& store);

}  // namespace warpsmith::planner
