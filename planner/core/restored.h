// A history that began with a backup (v1::Restored), and what workers bring of the time after it:
// they hold leases, and results of leases, that were granted by the history before.
//
// Of a lease from before the backup they are taken as ever, by its fence. One from after it is not
// known here, its task may be another worker's, and its results are refused; what is refused is
// counted, once.
#pragma once

#include <optional>
#include <string>

#include "warpsmith/v1/events.pb.h"
#include "warpsmith/v1/snapshot.pb.h"

namespace warpsmith::planner {

// Of which it is remembered what was refused already, newest kept.
inline constexpr int kMaxRefusedLeases = 10'000;
// Ids of leases, of which ours have less; others are refused without being counted.
inline constexpr size_t kMaxLeaseIdBytes = 1024;

// What ids of leases and sessions of a history end with. "0123456789abcdef.2" -> ".01234567.2"; of
// the first generation ".01234567".
std::string SuffixOf(const std::string& store_token);
// Whether two histories are of the same store.
bool SameStore(const std::string& token, const std::string& other);

// Of the same store, and not of this history.
bool IsOfBefore(const std::string& lease_id, const v1::Restored& restored);

// What is to be said of a lease from before that is refused, with trials up to number `last` and,
// unless empty, a kernel; absent: it was said already.
struct Brought {
  std::string lease_id, task_id, worker_id;
  int64_t trials = 0;
  int64_t last = 0;
  std::string trial_id;
};
std::optional<v1::ResultRefused> ToRefuse(const Brought& brought, const v1::Restored& restored);

// What events say of it.
void Refused(const v1::ResultRefused& event, v1::Restored& restored);
void CameBack(const v1::WorkerJoined& event, v1::Restored& restored);
// Of a lease from before. `heard`: the number of its last trial so far.
void TookTrials(const v1::TrialsRecorded& event, int64_t heard, v1::Restored& restored);

}  // namespace warpsmith::planner
