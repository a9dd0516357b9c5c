#include "planner/service/role.h"

#include "absl/strings/str_cat.h"
#include "common/rpc/address.h"
#include "common/rpc/status.h"

namespace warpsmith::planner {

void Role::LeadAlone() {
  confirmed_ms_ = kNoConfirmation;
  is_ = Is::kLeads;
}

void Role::Lead(int64_t asked_ms) {
  confirmed_ms_ = asked_ms;
  is_ = Is::kLeads;
}

void Role::Name(const std::string& leader) {
  absl::MutexLock lock(&mutex_);
  leader_ = leader;
}

absl::Status Role::MayAnswer(int64_t now_ms) const {
  if (!leads()) return Following();
  const int64_t confirmed_ms = confirmed_ms_;
  if (confirmed_ms == kNoConfirmation || now_ms - confirmed_ms < kUnconfirmedMs) {
    return absl::OkStatus();
  }
  return absl::UnavailableError(
      "this planner led, and does not know whether it still does: come again in a few seconds");
}

absl::Status Role::Following(bool worker) const {
  absl::MutexLock lock(&mutex_);
  if (leader_.empty()) {
    return absl::UnavailableError(
        "this planner follows, and no other one leads yet: come again in a few seconds");
  }
  const rpc::Addresses leader = rpc::ParseAddresses(leader_);
  const std::string& address = worker ? leader.workers : leader.clients;
  return rpc::WithLeader(
      absl::UnavailableError(absl::StrCat("this planner follows: the one at ", address, " leads")),
      address);
}

absl::Status CatchUp(Service& service, store::Store& store, const store::Standing& standing) {
  const std::string& ours = service.core().store();
  if (standing.token != ours) {
    return absl::FailedPreconditionError(
        absl::StrCat("the store had the history ", ours, " and has ", standing.token, " now"));
  }
  return service.Follow(store, standing.checkpoint);
}

absl::Status TakeOver(Service& service, store::Store& store, Now now) {
  if (absl::Status status = service.Follow(store, /*checkpoint=*/0); !status.ok()) return status;
  service.Begin(now);
  return absl::OkStatus();
}

}  // namespace warpsmith::planner
