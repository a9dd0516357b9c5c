// Whose a session or a lease is.
//
//   if (!Owns(OwnerOf(record), command.owner)) ...    // somebody else's
//
// A certificate says more than a secret, which may have been copied with a folder: where both
// sides have one, certificates alone count. A worker that began without certificates goes on when
// they come, by its secret. Pure; any thread.
#pragma once

#include "warpsmith/v1/snapshot.pb.h"
#include "warpsmith/v1/task.pb.h"

namespace warpsmith::planner {

inline bool IsNobodys(const v1::Owner& owner) {
  return owner.certificate().empty() && owner.secret().empty();
}

// Whether what is `owner`'s is the caller's.
inline bool Owns(const v1::Owner& owner, const v1::Owner& caller) {
  if (IsNobodys(owner)) return true;
  if (!owner.certificate().empty() && !caller.certificate().empty()) {
    return owner.certificate() == caller.certificate();
  }
  return !owner.secret().empty() && owner.secret() == caller.secret();
}

// Of the last lease, and of the session.
inline v1::Owner OwnerOf(const v1::TaskRecord& record) {
  return record.last_owner().of() == record.last_lease_id() ? record.last_owner() : v1::Owner();
}
inline v1::Owner OwnerOf(const v1::WorkerRecord& record) {
  return record.owner().of() == record.session_id() ? record.owner() : v1::Owner();
}

inline bool Same(const v1::Owner& a, const v1::Owner& b) {
  return a.certificate() == b.certificate() && a.secret() == b.secret();
}

}  // namespace warpsmith::planner
