#include "common/security/guard.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/security/log.h"
#include "common/security/x509.h"

namespace warpsmith::security {
namespace {

constexpr std::string_view kBearer = "Bearer ";

}  // namespace

Guard::Guard(WatchedIdentity* identity, Tokens* tokens, DateSource date)
    : identity_(identity), tokens_(tokens), date_(std::move(date)) {}

std::shared_ptr<const Identity> Guard::identity() const {
  return identity_ == nullptr ? nullptr : identity_->Now();
}

absl::StatusOr<Caller> Guard::Admit(Listener listener, std::string_view method,
                                    const Proof& proof) {
  // Whether it is alive, a planner tells everybody: also one whose certificate has expired.
  const Rule* const rule = FindRule(method);
  const bool for_all = rule != nullptr && (rule->roles & Bit(Role::kNobody)) != 0;
  absl::StatusOr<Caller> caller =
      for_all ? Caller{secured() ? Role::kNobody : Role::kLocal, ""} : CallerOf(proof);
  absl::Status status = caller.status();
  if (caller.ok()) status = Check(*caller, method, listener);
  if (status.ok()) return caller;
  TellOf(method, status);
  return status;
}

absl::StatusOr<Caller> Guard::CallerOf(const Proof& proof) {
  if (!secured()) return Caller{Role::kLocal, ""};
  if (!proof.authorization.empty()) {
    if (proof.authorization.substr(0, kBearer.size()) != kBearer) {
      return absl::UnauthenticatedError("the header 'authorization' has to say 'Bearer TOKEN'");
    }
    if (tokens_ == nullptr) {
      return absl::UnauthenticatedError(
          "this planner takes no tokens: it was started without --tokens");
    }
    return tokens_->Find(proof.authorization.substr(kBearer.size()), date_());
  }
  if (proof.certificate_pem.empty()) return Caller{};
  return ByCertificate(proof);
}

absl::StatusOr<Caller> Guard::ByCertificate(const Proof& proof) {
  const std::shared_ptr<const Trust> trust = identity_->Now()->trust;
  const absl::Time now = date_();
  std::string pem(proof.certificate_pem);
  {
    absl::MutexLock lock(&mutex_);
    const auto known = known_.find(pem);
    if (known != known_.end() && known->second.trust == trust &&
        now >= known->second.verified.not_before && now <= known->second.verified.not_after) {
      const Name& name = known->second.verified.name;
      return Caller{name.role, name.name};
    }
  }
  absl::StatusOr<Trust::Verified> verified = trust->Verify(pem, proof.chain_pem, Use::kClient, now);
  if (!verified.ok()) return verified.status();
  const Caller caller{verified->name.role, verified->name.name};
  absl::MutexLock lock(&mutex_);
  if (known_.size() >= kMaxKnown) known_.clear();
  known_[std::move(pem)] = {trust, *std::move(verified)};
  return caller;
}

bool Guard::IsNews(const std::string& text) {
  const absl::Time now = date_();
  absl::MutexLock lock(&mutex_);
  const auto told = told_.find(text);
  if (told != told_.end() && now - told->second < kTellAgain) return false;
  if (told == told_.end() && told_.size() >= kMaxToldRefusals) {
    for (auto each = told_.begin(); each != told_.end();) {
      each = now - each->second < kTellAgain ? std::next(each) : told_.erase(each);
    }
    if (told_.size() >= kMaxToldRefusals) {
      ++untold_;
      return false;
    }
  }
  told_[text] = now;
  return true;
}

void Guard::TellOf(std::string_view method, const absl::Status& refused) {
  const bool known = FindRule(method) != nullptr;
  const std::string call = known ? std::string(method.substr(method.rfind('/') + 1)) : "a call";
  if (!IsNews(absl::StrCat(call, ": ", refused.message()))) return;
  telemetry::Log(told::kRefused, {{"call", call}, {"reason", refused.message()}});
}

bool Guard::Refresh() {
  if (!secured()) return false;
  std::string trouble;
  const std::shared_ptr<const Trust> before = identity_->Now()->trust;
  const absl::StatusOr<bool> files = identity_->Refresh(date_());
  if (!files.ok()) {
    trouble = absl::StrCat("changed files of TLS are not taken, those before go on: ",
                           std::string(files.status().message()));
  } else if (*files) {
    const std::shared_ptr<const Identity> now = identity_->Now();
    telemetry::Log(told::kTlsChanged,
                   {{"name", UriOf(now->own.name)}, {"until", Date(now->own.not_after)}});
  }
  if (tokens_ != nullptr) {
    const absl::StatusOr<bool> read = tokens_->Refresh();
    if (!read.ok()) {
      absl::StrAppend(&trouble, trouble.empty() ? "" : "; ",
                      "changed tokens are not taken, those before go on: ",
                      std::string(read.status().message()));
    } else if (*read) {
      telemetry::Log(told::kTokensChanged, {});
    }
  }
  if (trouble != trouble_ && !trouble.empty()) {
    telemetry::Log(told::kNotTaken, {{"reason", trouble}});
  }
  trouble_ = std::move(trouble);
  const std::shared_ptr<const Identity> own = identity_->Now();
  const absl::Time date = date_();
  if (!own->cert_pem.empty() && own->own.not_after - date < kWarnBefore &&
      date - warned_ >= absl::Hours(24)) {
    warned_ = date;
    telemetry::Log(told::kEnds, {{"uri", UriOf(own->own.name)},
                                 {"until", Date(own->own.not_after)},
                                 {"name", own->own.name.name}});
  }
  absl::MutexLock lock(&mutex_);
  if (untold_ > 0) telemetry::Log(told::kRefusedMore, {{"refusals", std::exchange(untold_, 0)}});
  return own->trust != before;
}

}  // namespace warpsmith::security
