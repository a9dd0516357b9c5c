// Of several planners on a store: what one of them may say, and how it comes to lead. The planner
// runs these lines on its strand, the simulation (planner/simulation) in simulated time.
//
//   Role role;
//   role.Follow();
//   absl::Status status = CatchUp(service, store, standing);
//   status = TakeOver(service, store, now);
//   role.Lead(asked_ms);
//   role.Confirm(sent_ms);                     // from time to time from here on
//   absl::Status may = role.MayAnswer(now_ms);
//
// Times are the planner's own monotonic milliseconds. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "common/store/leadership.h"
#include "common/store/store.h"
#include "planner/core/core.h"
#include "planner/service/candidacy.h"
#include "planner/service/service.h"

namespace warpsmith::planner {

class Role {
 public:
  // It is the store's only planner.
  void LeadAlone();
  void Follow() { is_ = Is::kFollows; }
  // Known as the leader since it asked to be, which must be confirmed from time to time.
  void Lead(int64_t asked_ms);
  // The store knew it as the leader at that time or later.
  void Confirm(int64_t at_ms) { confirmed_ms_ = at_ms; }
  // Another one's addresses, as rpc::ParseAddresses reads them; "": nobody leads.
  void Name(const std::string& leader);

  bool leads() const { return is_ == Is::kLeads; }
  // Why nothing may be answered; OK: it may.
  absl::Status MayAnswer(int64_t now_ms) const;
  // The refusal of a planner that does not lead: where a worker, or a client, finds the leader.
  absl::Status Following(bool worker = true) const;

 private:
  enum class Is { kStarting, kFollows, kLeads };
  static constexpr int64_t kNoConfirmation = -1;  // it is the store's only planner

  std::atomic<Is> is_{Is::kStarting};
  std::atomic<int64_t> confirmed_ms_{kNoConfirmation};
  mutable absl::Mutex mutex_;
  std::string leader_ ABSL_GUARDED_BY(mutex_);
};

// Applies what was written meanwhile. OutOfRange: the service is too far behind;
// FailedPrecondition: the store has another history now; DataLoss: it has lost what was read.
absl::Status CatchUp(Service& service, store::Store& store, const store::Standing& standing);
// Of a planner whose epoch is the store's, so that nobody else writes: reads to the log's end and
// begins. Errors as of CatchUp.
absl::Status TakeOver(Service& service, store::Store& store, Now now);

}  // namespace warpsmith::planner
