// Answers that need blobs: read from the store, so not on the strand and not in a gRPC callback.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/store/store.h"
#include "planner/core/core.h"
#include "planner/service/service.h"
#include "warpsmith/v1/planner.pb.h"

namespace warpsmith::planner {

// Of one GetTask; older trials are left out beyond it.
inline constexpr size_t kMaxTrialBytes = 48 << 20;
// Of problems that are kept for the next lease; all go where more come.
inline constexpr size_t kMaxProblemBytes = 64 << 20;

// Why a task's problem or incumbent cannot be read: damaged, or not there. By task.
using Damage = std::map<std::string, absl::Status>;

// Leases' contents as they lie in the store: a problem is read once for all leases of it, and no
// blob is parsed to be handed out, since its digest is checked as it is read. Fields that a reply
// carries so are among its unknown ones, and are read by whoever parses its bytes. Any thread.
class Lender {
 public:
  explicit Lender(store::Store* store) : store_(store) {}

  // What the answer names must be durable. Leases of tasks in `damage` are left out.
  absl::StatusOr<v1::SynchronizeReply> Reply(const SynchronizeAnswer& answer, Damage& damage);

 private:
  absl::Status AddLease(const Grant& grant, v1::SynchronizeReply& reply);
  // Bytes of the problem, with one workload if one is named.
  absl::StatusOr<std::shared_ptr<const std::string>> ProblemOf(const Grant& grant);

  store::Store* const store_;
  absl::Mutex mutex_;
  // By digest and workload.
  std::map<std::pair<std::string, std::string>, std::shared_ptr<const std::string>> problems_
      ABSL_GUARDED_BY(mutex_);
  size_t problem_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Of a task in the archive; its record must be there. NotFound: it is not, and names it.
absl::StatusOr<v1::Task> ArchivedTask(const std::string& id, store::Store& store);
// Adds the archived run that is asked for, and of its tasks the page that is.
absl::Status AddArchived(const ListTasks& list, store::Store& store, v1::ListReply& reply);

absl::StatusOr<v1::GetTaskReply> MakeReply(const v1::Task& task, bool with_trials,
                                           store::Store& store);

}  // namespace warpsmith::planner
