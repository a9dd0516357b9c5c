#include "planner/service/committer.h"

#include <pthread.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "planner/service/log.h"

namespace warpsmith::planner {

Committer::Committer(Writer writer, Callbacks callbacks)
    : writer_(std::move(writer)), callbacks_(std::move(callbacks)) {
  thread_ = std::thread([this] { Run(); });
  pthread_setname_np(thread_.native_handle(), "commit");
}

Committer::~Committer() { Stop(); }

void Committer::Enqueue(Write write) {
  absl::MutexLock lock(&mutex_);
  queue_.push_back(std::move(write));
}

void Committer::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

std::vector<Write> Committer::TakeBatch() {
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(this, &Committer::Wakes));
  const base::Instant now = base::Now();
  if (now < next_commit_) {
    mutex_.AwaitWithTimeout(absl::Condition(&stopping_), next_commit_ - now);
  }
  next_commit_ = base::Now() + kBetweenCommits;
  const auto end = queue_.begin() + static_cast<std::ptrdiff_t>(OneTransaction(queue_));
  std::vector<Write> batch(std::make_move_iterator(queue_.begin()), std::make_move_iterator(end));
  queue_.erase(queue_.begin(), end);
  return batch;
}

bool Committer::Pause(absl::Duration pause) {
  absl::MutexLock lock(&mutex_);
  mutex_.AwaitWithTimeout(absl::Condition(&stopping_), pause);
  return stopping_;
}

absl::Status Committer::Insist(const std::vector<Write>& batch) {
  absl::Duration pause = kFirstPause;
  bool last_try = false;
  for (int failures = 1;; ++failures) {
    absl::Status status = writer_.Commit(batch);
    if (status.ok() && failures > kFailuresOfAStall) telemetry::Log(told::kCommitsGoOn, {});
    if (!status.ok() && callbacks_.on_failed) callbacks_.on_failed();
    if (status.ok() || !IsWorthAnotherTry(status) || last_try) return status;
    if (failures == kFailuresOfAStall) {
      telemetry::Log(told::kCommitsStall, {{"reason", status.ToString()}});
      callbacks_.on_stalled(status);
    }
    last_try = Pause(pause);
    pause = std::min(2 * pause, kLongestPause);
  }
}

void Committer::Run() {
  while (true) {
    const std::vector<Write> batch = TakeBatch();
    if (batch.empty()) return;
    const base::Instant began = base::Now();
    const int64_t saved = writer_.saved();
    if (absl::Status status = Insist(batch); !status.ok()) {
      callbacks_.on_fatal(status);
      return;
    }
    if (callbacks_.on_committed) {
      size_t events = 0;
      for (const Write& write : batch) events += write.events.size();
      callbacks_.on_committed(base::Now() - began, events);
    }
    if (callbacks_.on_saved && writer_.saved() != saved) callbacks_.on_saved(writer_.saved());
    callbacks_.on_durable(batch.back().number);
  }
}

}  // namespace warpsmith::planner
