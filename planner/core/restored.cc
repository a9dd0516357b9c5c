#include "planner/core/restored.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace warpsmith::planner {
namespace {

constexpr size_t kShortId = 8;

const v1::RefusedLease* Find(const std::string& lease_id, const v1::Restored& restored) {
  for (const v1::RefusedLease& lease : restored.refused()) {
    if (lease.lease_id() == lease_id) return &lease;
  }
  return nullptr;
}

}  // namespace

std::string SuffixOf(const std::string& store_token) {
  const size_t dot = store_token.find('.');
  const std::string generation = dot == std::string::npos ? "" : store_token.substr(dot);
  return absl::StrCat(".", store_token.substr(0, std::min<size_t>(dot, kShortId)),
                      generation == ".1" ? "" : generation);
}

bool SameStore(const std::string& token, const std::string& other) {
  return token.substr(0, token.find('.')) == other.substr(0, other.find('.'));
}

bool IsOfBefore(const std::string& lease_id, const v1::Restored& restored) {
  const size_t fence = lease_id.rfind('#');
  if (fence == std::string::npos || lease_id.size() > kMaxLeaseIdBytes) return false;
  const std::string ours = SuffixOf(restored.store());
  const std::string store = ours.substr(0, kShortId + 1);
  const size_t at = lease_id.find('.', fence);
  if (at == std::string::npos || lease_id.compare(at, store.size(), store) != 0) return false;
  return lease_id.compare(at, std::string::npos, ours) != 0;
}

std::optional<v1::ResultRefused> ToRefuse(const Brought& brought, const v1::Restored& restored) {
  if (!IsOfBefore(brought.lease_id, restored)) return std::nullopt;
  // Ids of leases begin so: what is made up is not counted.
  if (!absl::StartsWith(brought.lease_id, absl::StrCat(brought.task_id, "#"))) return std::nullopt;
  const v1::RefusedLease* known = Find(brought.lease_id, restored);
  const int64_t trials =
      std::clamp<int64_t>(brought.last - (known == nullptr ? 0 : known->last()), 0, brought.trials);
  const bool kernel =
      !brought.trial_id.empty() && (known == nullptr || known->trial_id() != brought.trial_id);
  if (known != nullptr && trials == 0 && !kernel) return std::nullopt;
  v1::ResultRefused refused;
  refused.set_lease_id(brought.lease_id);
  refused.set_task_id(brought.task_id);
  refused.set_worker_id(brought.worker_id);
  refused.set_trials(trials);
  refused.set_last(brought.last);
  if (kernel) refused.set_trial_id(brought.trial_id);
  return refused;
}

void Refused(const v1::ResultRefused& event, v1::Restored& restored) {
  auto& leases = *restored.mutable_refused();
  auto lease = std::find_if(leases.begin(), leases.end(), [&](const v1::RefusedLease& each) {
    return each.lease_id() == event.lease_id();
  });
  if (lease == leases.end()) {
    restored.set_leases_refused(restored.leases_refused() + 1);
    restored.add_refused()->set_lease_id(event.lease_id());
    if (leases.size() > kMaxRefusedLeases) leases.DeleteSubrange(0, 1);
    lease = leases.end() - 1;
  }
  lease->set_last(std::max(lease->last(), event.last()));
  restored.set_trials_refused(restored.trials_refused() + event.trials());
  if (event.trial_id().empty()) return;
  lease->set_trial_id(event.trial_id());
  restored.set_kernels_refused(restored.kernels_refused() + 1);
}

void CameBack(const v1::WorkerJoined& event, v1::Restored& restored) {
  if (event.came_from().empty()) return;
  restored.set_workers(restored.workers() + 1);
  if (event.came_from() != restored.before() || event.came_at() <= restored.revision()) return;
  restored.set_ahead(restored.ahead() + 1);
  restored.set_last_revision(std::max(restored.last_revision(), event.came_at()));
}

void TookTrials(const v1::TrialsRecorded& event, int64_t heard, v1::Restored& restored) {
  restored.set_trials_taken(restored.trials_taken() + event.trials());
  if (event.first() == 0) return;
  const int64_t missing = std::max<int64_t>(event.first() - 1 - heard, 0);
  restored.set_trials_missing(restored.trials_missing() + missing);
}

}  // namespace warpsmith::planner
