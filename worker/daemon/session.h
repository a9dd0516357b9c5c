// What a worker tells the planner and what it makes of the answer: the worker's side of
// Synchronize, without threads, sockets or clocks.
//
// A worker holds at most one lease, since it has one card. A lease that has ended is
// called finished only in a request that carries the last of its results, so that a task is never
// given on while an incumbent of it is still on the way, and until the planner said that it is so.
//
// Fencing: a lease is the worker's for as long as the planner said (lease_ttl_ms), counted from the
// sending of the last request that was answered; the two clocks are never compared. Past that
// (`FenceAt`) another worker may have the task, and this one stops. Its results still go to the
// planner, which takes them if nobody else got the task meanwhile. The call that brought the lease
// may have been parked for nearly all of that time before there was a lease to give: of a new one
// half the time is left at least, and the next call settles it.
//
// A worker that is not answered asks for no lease until it is: the planner may hear all that it
// says, and what it would be given would never be begun.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "warpsmith/v1/planner.pb.h"
#include "worker/daemon/lineage.h"
#include "worker/daemon/outbox.h"

namespace warpsmith::daemon {

// Of results in one request; a batch is sent whole. After a request that was not answered in time
// there may be a quarter in the next, down to the least; each answer adds as much as that again.
inline constexpr int64_t kMaxRequestBytes = int64_t{8} << 20;
inline constexpr int64_t kMinRequestBytes = kMaxBatchBytes;
// Stops this long before the lease may be given on: a candidate's time and some of the scheduler's.
inline constexpr absl::Duration kFenceMargin = absl::Seconds(2);
// Until the planner says otherwise.
inline constexpr absl::Duration kDefaultLeaseTtl = absl::Seconds(30);

// What a worker says of itself and its card. Unless it is healthy it is given nothing.
struct Health {
  bool healthy = true;
  std::string reason;  // why not; of one that is healthy, what somebody should look at
  std::string fault;   // of the card, that a person has to look at; empty: none

  bool operator==(const Health&) const = default;
};

// How a lease ended, for its status.
struct Ended {
  absl::Status status;     // not OK: `failure`
  bool permanent = false;  // of a failure: will fail here and elsewhere
  bool converged = false;
  std::string reason;  // why the slice ended
  double seconds = 0;
  bool interrupted = false;  // for what befell the card: it says nothing of the task
};

// Not thread-safe.
class Session {
 public:
  // `lineage` and `outbox` outlive the session.
  Session(v1::WorkerInfo worker, Lineage& lineage, Outbox& outbox);

  // ---- towards the planner
  v1::SynchronizeRequest Request();
  struct Orders {
    std::optional<v1::Lease> start;
    bool stop = false;      // the lease held is to be dropped
    std::string set_aside;  // why there will be none until a person releases it; "": there may be
    absl::Duration next_sync;
  };
  // The answer to the last Request, which was sent at `sent` and answered at `now`.
  Orders Take(const v1::SynchronizeReply& reply, base::Instant sent, base::Instant now);
  // The last Request is wrong: forgets the results that it carried, and gives how many they were.
  int Refused() { return outbox_.Discard(); }
  // The last Request was not answered in time: it may have been too much for the way there.
  void Late();
  // The planner does not know the session (any more): the next request begins a new one.
  void Forget() { session_id_.clear(); }

  // ---- from the lease's work
  void Progress(const std::string& specialist, double seconds);
  void OnTrial(v1::Trial trial);
  void OnIncumbent(v1::Incumbent incumbent);
  void End(const Ended& ended);

  // ---- state
  void set_draining() { worker_.set_draining(true); }
  void set_health(const Health& health);
  bool holds_lease() const { return lease_.has_value(); }
  std::string lease_id() const { return status_.lease_id(); }  // that it holds, or held last
  // The last request could not carry everything, and the next may come at once: the planner has
  // room, or this worker is about to leave.
  bool more_to_tell() const { return outbox_.more() && (!limited_ || worker_.draining()); }
  // Nothing left to tell.
  int64_t backlog_bytes() const { return outbox_.bytes(); }
  bool settled() const { return !lease_ && ended_.empty() && outbox_.empty(); }
  base::Instant FenceAt() const;  // infinite future without a lease

 private:
  // Says where it is from.
  void Sign(v1::Trial& trial) const;

  v1::WorkerInfo worker_;
  Lineage& lineage_;
  Outbox& outbox_;
  std::string session_id_;
  // Of the last reply. Before the first nobody knows how this planner takes results.
  bool answered_ = false;
  bool heard_ = true;       // the last request was answered, or there was none
  bool asks_next_ = false;  // ... was not, so that the one after it asked for no lease
  Form form_ = Form::kPlain;
  int64_t most_bytes_ = kMaxRequestBytes;  // of results in the next request
  int64_t room_bytes_ = 0;                 // that the planner has for them; 0: it does not say
  bool limited_ = false;                   // the last request was, by that
  std::string store_;
  int64_t revision_ = 0;
  std::optional<v1::Lease> lease_;
  bool told_why_ = false;                // ... was given, with its first trial
  v1::LeaseStatus status_;               // of lease_
  std::vector<v1::LeaseStatus> ended_;   // not acknowledged yet
  std::vector<std::string> told_ended_;  // lease ids that the last request called finished
  absl::Duration ttl_ = kDefaultLeaseTtl;
  base::Instant confirmed_ = base::Instant::InfinitePast();
};

}  // namespace warpsmith::daemon
