#include "planner/simulation/store_host.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/problem/canonical.h"
#include "planner/core/state.h"
#include "planner/service/write.h"
#include "warpsmith/v1/events.pb.h"

namespace warpsmith::planner::simulation {

void StoreHost::set_kept_events(int64_t events) {
  absl::MutexLock lock(&disk_->mutex);
  disk_->kept_events = events;
}

int64_t StoreHost::epoch() const {
  absl::MutexLock lock(&disk_->mutex);
  return disk_->epoch;
}

int64_t StoreHost::last() const {
  absl::MutexLock lock(&disk_->mutex);
  return static_cast<int64_t>(disk_->log.size());
}

std::string StoreHost::Token() const {
  absl::MutexLock lock(&disk_->mutex);
  return store::TokenOf(disk_->identity);
}

void StoreHost::TellChecker() {
  if (history_ != History::kWhole) return;
  absl::MutexLock lock(&disk_->mutex);
  for (; checked_ < disk_->log.size(); ++checked_) {
    const store::MemoryStore::Event& record = disk_->log[checked_];
    v1::Event event;
    if (!event.ParseFromString(record.bytes)) checker_->Fail("an event cannot be read");
    if (world_->trace()) world_->Trace(absl::StrCat("  ", event.ShortDebugString()));
    if (record.epoch < epoch_) {
      checker_->Fail(absl::StrCat("event ", checked_ + 1, " of epoch ", record.epoch,
                                  " comes after one of epoch ", epoch_));
    }
    epoch_ = record.epoch;
    checker_->Committed(event);
    batches_ += event.has_trials_recorded();
    Note(record.bytes);
  }
  if (disk_->kept.count != batches_) {
    checker_->Fail(absl::StrCat(batches_, " batches of trials are recorded, and the store has ",
                                disk_->kept.count));
  }
}

void StoreHost::TakeCopy() {
  copy_ = std::make_unique<store::MemoryStore::Disk>();
  store::MemoryStore::Copy(*disk_, *copy_);
}

bool StoreHost::BringBackCopy() {
  if (copy_ == nullptr) return false;
  {
    absl::MutexLock lock(&copy_->mutex);
    if (static_cast<int64_t>(copy_->log.size()) == last()) return false;
  }
  TellChecker();
  world_->Trace("the store is what it was a while ago");
  store::MemoryStore::Copy(*copy_, *disk_);
  history_ = History::kStale;
  checker_->EndHistory();
  stale_ms_ = world_->now_ms();
  return true;
}

void StoreHost::AcceptLoss() {
  world_->Trace("a person goes on with it");
  if (!own_.RaiseGeneration().ok()) checker_->Fail("the loss cannot be accepted");
  checker_->EndHistory();
  if (history_ == History::kWhole) stale_ms_ = world_->now_ms();
  history_ = History::kAccepted;
  Moved();
}

std::vector<v1::Task> StoreHost::Archived() {
  std::vector<v1::Task> tasks;
  const absl::Status read = own_.ReadArchive(TaskKey(""), [&](const store::Entry& entry) {
    v1::TaskRecord record;
    if (!record.ParseFromString(entry.bytes)) checker_->Fail("an archived task cannot be read");
    tasks.push_back(record.task());
    return true;
  });
  if (!read.ok()) checker_->Fail(absl::StrCat("the archive: ", read.ToString()));
  return tasks;
}

std::string StoreHost::StateOfLog() {
  absl::MutexLock lock(&disk_->mutex);
  State state;
  for (const store::MemoryStore::Event& record : disk_->log) {
    v1::Event event;
    event.ParseFromString(record.bytes);
    state.Apply(event);
  }
  return problem::CanonicalBytes(state.ToProto());
}

}  // namespace warpsmith::planner::simulation
