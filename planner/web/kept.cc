#include "planner/web/kept.h"

#include "absl/cleanup/cleanup.h"

namespace warpsmith::web {

Kept::Made Kept::Get(const std::string& name, const std::function<Made()>& make) {
  {
    absl::MutexLock lock(&mutex_);
    if (waiting_ >= kMaxWaiting) {
      return absl::ResourceExhaustedError("many ask for such things just now: try again");
    }
    ++waiting_;
  }
  const absl::Cleanup leave = [this] {
    absl::MutexLock lock(&mutex_);
    --waiting_;
  };
  absl::MutexLock lock(&making_);
  const base::Instant now = base::Now();
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    now - entry->second.at > kKeepFor ? entry = entries_.erase(entry) : ++entry;
  }
  const auto found = entries_.find(name);
  if (found != entries_.end()) return found->second.made;
  return entries_.emplace(name, Entry{make(), base::Now()}).first->second.made;
}

}  // namespace warpsmith::web
