#include "worker/daemon/session.h"

#include <algorithm>
#include <utility>

#include "common/rpc/protocol.h"
#include "common/rpc/text.h"

namespace warpsmith::daemon {

Session::Session(v1::WorkerInfo worker, Lineage& lineage, Outbox& outbox)
    : worker_(std::move(worker)), lineage_(lineage), outbox_(outbox) {}

v1::SynchronizeRequest Session::Request() {
  v1::SynchronizeRequest request;
  *request.mutable_worker() = worker_;
  request.set_session_id(session_id_);
  request.set_secret(lineage_.secret());
  if (session_id_.empty()) {
    request.set_instance(lineage_.instance());
    for (const std::string& instance : lineage_.follows()) request.add_follows(instance);
  }
  request.add_features(rpc::kSealedTrials);
  request.set_store(store_);
  request.set_revision(revision_);
  if (!answered_) outbox_.Wait();
  if (answered_) {
    limited_ = room_bytes_ > 0 && room_bytes_ < most_bytes_;
    const int64_t bytes = limited_ ? room_bytes_ : most_bytes_;
    for (v1::LeaseResult& result : outbox_.Next(bytes, form_)) {
      *request.add_results() = std::move(result);
    }
  }
  if (lease_) {
    request.mutable_worker()->set_lease_id(lease_->id());
    request.mutable_worker()->set_task_id(lease_->task_id());
    *request.add_leases() = status_;
  }
  told_ended_.clear();
  for (const v1::LeaseStatus& ended : ended_) {
    v1::LeaseStatus& status = *request.add_leases() = ended;
    status.set_finished(!outbox_.HasUnsent(ended.lease_id()));
    if (status.finished()) told_ended_.push_back(ended.lease_id());
  }
  const bool free =
      !lease_ && !worker_.draining() && worker_.healthy() && told_ended_.size() == ended_.size();
  request.set_slots(free && heard_ ? 1 : 0);
  asks_next_ = free && !heard_;
  heard_ = false;
  return request;
}

Session::Orders Session::Take(const v1::SynchronizeReply& reply, base::Instant sent,
                              base::Instant now) {
  session_id_ = reply.session_id();
  lineage_.Answered();
  answered_ = heard_ = true;
  store_ = reply.store();
  revision_ = reply.revision();
  form_ = std::find(reply.features().begin(), reply.features().end(), rpc::kSealedTrials) !=
                  reply.features().end()
              ? Form::kSealed
              : Form::kPlain;
  most_bytes_ = std::min(most_bytes_ + kMinRequestBytes, kMaxRequestBytes);
  room_bytes_ = reply.most_result_bytes();
  confirmed_ = sent;
  if (reply.lease_ttl_ms() > 0) ttl_ = absl::Milliseconds(reply.lease_ttl_ms());
  outbox_.Recorded(reply);
  auto named = [](const auto& ids, const std::string& id) {
    return std::find(ids.begin(), ids.end(), id) != ids.end();
  };
  for (const std::string& id : told_ended_) {
    if (!named(reply.recorded(), id) && !named(reply.drop(), id)) continue;
    ended_.erase(std::remove_if(ended_.begin(), ended_.end(),
                                [&](const v1::LeaseStatus& s) { return s.lease_id() == id; }),
                 ended_.end());
  }
  told_ended_.clear();

  Orders orders;
  orders.next_sync =
      asks_next_ ? absl::ZeroDuration() : absl::Milliseconds(reply.next_sync_after_ms());
  orders.set_aside = reply.quarantine();
  for (const std::string& id : reply.drop()) {
    if (lease_ && lease_->id() == id) orders.stop = true;
  }
  if (!lease_ && reply.start_size() > 0) {
    lease_ = reply.start(0);
    confirmed_ = std::max(sent, now - ttl_ / 2);
    told_why_ = false;
    status_.Clear();
    status_.set_lease_id(lease_->id());
    status_.set_task_id(lease_->task_id());
    status_.set_fence(lease_->fence());
    orders.start = lease_;
  }
  return orders;
}

void Session::Late() { most_bytes_ = std::max(most_bytes_ / 4, kMinRequestBytes); }

void Session::Progress(const std::string& specialist, double seconds) {
  status_.set_specialist(specialist);
  status_.set_seconds(seconds);
}

void Session::Sign(v1::Trial& trial) const {
  trial.set_worker_id(worker_.id());
  trial.set_lease_revision(lease_->revision());
}

void Session::OnTrial(v1::Trial trial) {
  Sign(trial);
  if (!std::exchange(told_why_, true)) trial.set_lease_why(lease_->why());
  outbox_.AddTrial(*lease_, trial);
}

void Session::OnIncumbent(v1::Incumbent incumbent) {
  Sign(*incumbent.mutable_trial());
  outbox_.AddIncumbent(*lease_, incumbent);
}

void Session::End(const Ended& ended) {
  status_.set_finished(true);
  status_.set_seconds(ended.seconds);
  status_.set_converged(ended.converged);
  status_.set_reason(rpc::ToUtf8(ended.reason));
  status_.set_interrupted(ended.interrupted);
  if (!ended.status.ok()) {
    status_.set_failure(rpc::ToUtf8(std::string(ended.status.message())));
    status_.set_permanent(ended.permanent);
  }
  ended_.push_back(status_);
  lease_.reset();
}

void Session::set_health(const Health& health) {
  worker_.set_healthy(health.healthy);
  worker_.set_health_reason(rpc::ToUtf8(health.reason));
  worker_.set_fault(rpc::ToUtf8(health.fault));
}

base::Instant Session::FenceAt() const {
  return lease_ ? confirmed_ + ttl_ - std::min(kFenceMargin, ttl_ / 2)
                : base::Instant::InfiniteFuture();
}

}  // namespace warpsmith::daemon
