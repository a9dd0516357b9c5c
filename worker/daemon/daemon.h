// The worker: one thread talks to the planner, one works on the lease.
//
//   Daemon daemon(worker_info, *lineage, *outbox, link, work, clock, seed);
//   std::thread([&] { wait for SIGTERM; daemon.Drain(); });
//   absl::Status ended = daemon.Run();
//
// While the planner is away the lease goes on until its time is up (session.h), what it finds is
// kept in the outbox, and calls are repeated with a growing, jittered pause.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <random>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "warpsmith/v1/planner.pb.h"
#include "worker/agent/optimiser.h"
#include "worker/daemon/lineage.h"
#include "worker/daemon/outbox.h"
#include "worker/daemon/planner_link.h"
#include "worker/daemon/session.h"

namespace warpsmith::daemon {

// Works on one lease until its end: agent::Optimiser::Run on the worker's device.
using Work = std::function<absl::StatusOr<agent::Outcome>(const v1::Lease&, agent::Reporter&,
                                                          const std::atomic<bool>& stop)>;

inline constexpr absl::Duration kMinBackoff = absl::Milliseconds(200);
inline constexpr absl::Duration kMaxBackoff = absl::Seconds(5);
// A refusal's time is obeyed up to this.
inline constexpr absl::Duration kMaxRetryAfter = absl::Minutes(1);
// Of calls while a lease is held; progress is stale sooner than this anyway.
inline constexpr absl::Duration kMaxSyncInterval = absl::Seconds(10);
// After it has lost its planner a worker comes back within the time that the planner wanted between
// calls, which is long where there are many workers; and within this.
inline constexpr absl::Duration kMaxSpread = absl::Seconds(20);
// Between calls that news (an incumbent, the end of a lease) asks for.
inline constexpr absl::Duration kMinSyncInterval = absl::Milliseconds(100);
// For a drain, where nobody gives another limit: stop the lease, tell the planner, end.
inline constexpr absl::Duration kDrainLimit = absl::Seconds(15);
// So many different tasks in a row that failed for reasons that may pass: the device or the judge
// is at fault, not the tasks. The worker ends, to be started afresh.
inline constexpr int kMaxFailedTasks = 5;
// Of the communicating thread, from call to call: a call that is parked, or a refusal's pause,
// which is up to half as long again as kMaxRetryAfter.
inline constexpr absl::Duration kMaxTurn = absl::Minutes(2);
// Of a lease that was told to end. Its judge's longest call takes 10 minutes (judge_client.h) and
// may be tried again.
inline constexpr absl::Duration kMaxEnding = absl::Minutes(30);

class Daemon {
 public:
  // `lineage`, `outbox`, `link` and `clock` outlive the daemon. `seed` is of the back-off's jitter.
  Daemon(v1::WorkerInfo worker, Lineage& lineage, Outbox& outbox, PlannerLink& link, Work work,
         base::Clock* clock, uint64_t seed);

  // Returns after Drain (OK), or with an error when it cannot go on: the planner does not take what
  // the worker says of itself, too many tasks in a row failed. Call once.
  absl::Status Run();
  // Ends the lease within about the time of one candidate, tells the planner all, and ends Run
  // within `limit`, or as soon as the work has come to an end after it. Any thread; returns at
  // once.
  void Drain(absl::Duration limit = kDrainLimit);
  // Whether both threads go on: that which talks to the planner takes its turns, and that which
  // works has ended what it was told to end. A lease that makes no progress is ended by the planner
  // or by its own time, so that this is enough. Ask from time to time. Any thread.
  bool Well();
  // What is told of the worker and its card from here on. Where it is not healthy a lease that is
  // held is interrupted. Any thread; returns at once.
  void SetHealth(const Health& health);
  // What the card did just now is not to be believed: the lease that is held ends, without blame to
  // its task, and nothing more that it finds is told. Any thread; returns at once.
  void Interrupt(const std::string& why);
  // Of results that the planner has not taken yet. Any thread.
  int64_t BacklogBytes() {
    absl::MutexLock lock(&mutex_);
    return session_.backlog_bytes();
  }

 private:
  class LeaseReporter;

  void WorkOnLeases();  // the working thread
  void WorkOn(const v1::Lease& lease);
  void Communicate();  // the calling thread
  v1::SynchronizeRequest NextRequest(absl::Duration* timeout);
  void Answered(const absl::StatusOr<v1::SynchronizeReply>& reply, base::Instant sent);
  void NotAnswered(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // There is something to tell at once.
  void News() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void BeginDrain(absl::Duration limit) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Fail(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void InterruptLease(const std::string& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Backoff(const absl::Status& status, base::Instant now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Says so when it begins and when it ends.
  void SetAside(const std::string& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Over(base::Instant now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  base::Instant FenceAt() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  PlannerLink& link_;
  const Work work_;
  base::Clock* const clock_;
  std::atomic<bool> stop_lease_{false};  // true: the lease held is to end

  absl::Mutex mutex_;
  Session session_ ABSL_GUARDED_BY(mutex_);
  std::optional<v1::Lease> to_start_ ABSL_GUARDED_BY(mutex_);
  base::Instant next_sync_ ABSL_GUARDED_BY(mutex_) = base::Instant::InfinitePast();
  base::Instant last_sync_ ABSL_GUARDED_BY(mutex_) = base::Instant::InfinitePast();
  bool news_ ABSL_GUARDED_BY(mutex_) = false;  // came after the last request was made
  bool wake_ ABSL_GUARDED_BY(mutex_) = false;  // the communicating thread is to look again
  bool planner_away_ ABSL_GUARDED_BY(mutex_) = false;
  bool set_aside_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Duration backoff_ ABSL_GUARDED_BY(mutex_) = kMinBackoff;
  // Between calls, as the planner said last.
  absl::Duration spread_ ABSL_GUARDED_BY(mutex_);
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  bool told_draining_ ABSL_GUARDED_BY(mutex_) = false;
  base::Instant drain_by_ ABSL_GUARDED_BY(mutex_) = base::Instant::InfiniteFuture();
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
  bool working_ ABSL_GUARDED_BY(mutex_) = false;  // on a lease
  bool healthy_ ABSL_GUARDED_BY(mutex_) = true;
  std::string interrupted_
      ABSL_GUARDED_BY(mutex_);                    // the lease that is held: why; empty: it is not
  base::Instant turned_ ABSL_GUARDED_BY(mutex_);  // of the communicating thread
  // When Well() found last that nothing was to end.
  base::Instant free_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> failed_tasks_ ABSL_GUARDED_BY(mutex_);  // in a row
  absl::Status result_ ABSL_GUARDED_BY(mutex_);
  std::mt19937_64 random_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace warpsmith::daemon
