#include "planner/service/committer.h"

#include <pthread.h>
#include <spdlog/spdlog.h>

#include <utility>

#include "absl/time/clock.h"

namespace warpsmith::planner {

Committer::Committer(store::Store* store, int64_t epoch, int64_t after, OnFatal on_fatal)
    : store_(store), epoch_(epoch), on_fatal_(std::move(on_fatal)), after_(after) {
  thread_ = std::thread([this] { Run(); });
  pthread_setname_np(thread_.native_handle(), "commit");
}

Committer::~Committer() { Stop(); }

void Committer::Enqueue(Entry entry) {
  absl::MutexLock lock(&mutex_);
  queue_.push_back(std::move(entry));
}

size_t Committer::Backlog() {
  absl::MutexLock lock(&mutex_);
  return queue_.size() + in_flight_;
}

void Committer::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

std::vector<Committer::Entry> Committer::TakeBatch() {
  absl::MutexLock lock(&mutex_);
  in_flight_ = 0;
  mutex_.Await(absl::Condition(this, &Committer::Wakes));
  std::vector<Entry> batch;
  size_t events = 0;
  size_t bytes = 0;
  while (!queue_.empty()) {
    const Entry& next = queue_.front();
    events += next.events.size();
    for (const std::string& event : next.events) bytes += event.size();
    for (const std::string& blob : next.blobs) bytes += blob.size();
    if (!batch.empty() && (events > kMaxBatchEvents || bytes > kMaxBatchBytes)) break;
    batch.push_back(std::move(queue_.front()));
    queue_.pop_front();
    // A snapshot is of the log's end.
    if (batch.back().snapshot.has_value()) break;
  }
  in_flight_ = batch.size();
  return batch;
}

absl::Status Committer::Insist(const std::function<absl::Status()>& attempt) {
  absl::Status status;
  for (int i = 0; i < kCommitAttempts; ++i) {
    if (i > 0) absl::SleepFor(kCommitRetryPause);
    status = attempt();
    if (!absl::IsUnavailable(status) && !absl::IsDeadlineExceeded(status)) return status;
  }
  return status;
}

absl::Status Committer::Commit(const std::vector<Entry>& entries) {
  store::Batch batch{epoch_, after_, {}, {}};
  for (const Entry& entry : entries) {
    batch.events.insert(batch.events.end(), entry.events.begin(), entry.events.end());
    batch.blobs.insert(batch.blobs.end(), entry.blobs.begin(), entry.blobs.end());
  }
  if (!batch.events.empty() || !batch.blobs.empty()) {
    absl::Status status = Insist([&] { return store_->Commit(batch); });
    if (!status.ok()) return status;
    after_ += static_cast<int64_t>(batch.events.size());
  }
  const std::optional<store::Record>& snapshot = entries.back().snapshot;
  if (!snapshot.has_value()) return absl::OkStatus();
  absl::Status saved = Insist([&] { return store_->SaveSnapshot(epoch_, *snapshot); });
  // Without it a restart replays more of the log, which is all there. Another writer is the end.
  if (saved.ok() || absl::IsFailedPrecondition(saved)) return saved;
  spdlog::warn("no snapshot at revision {}: {}", snapshot->revision, saved.ToString());
  return absl::OkStatus();
}

void Committer::Run() {
  while (true) {
    std::vector<Entry> batch = TakeBatch();
    if (batch.empty()) return;
    if (absl::Status status = Commit(batch); !status.ok()) {
      on_fatal_(status);
      return;
    }
    for (const Entry& entry : batch) {
      if (entry.done) entry.done();
    }
  }
}

}  // namespace warpsmith::planner
