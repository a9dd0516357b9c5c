#include "planner/service/write.h"

#include <spdlog/spdlog.h>

namespace warpsmith::planner {
namespace {

constexpr size_t kMaxBatchEvents = 2'000;
constexpr size_t kMaxBatchBytes = 32 << 20;  // a write alone may be larger

}  // namespace

absl::Status Writer::Commit(absl::Span<const Write> writes) {
  store::Batch batch{epoch_, after_, {}, {}};
  for (const Write& write : writes) {
    batch.events.insert(batch.events.end(), write.events.begin(), write.events.end());
    batch.blobs.insert(batch.blobs.end(), write.blobs.begin(), write.blobs.end());
  }
  if (!batch.events.empty() || !batch.blobs.empty()) {
    if (absl::Status status = store_->Commit(batch); !status.ok()) return status;
    after_ += static_cast<int64_t>(batch.events.size());
  }
  if (writes.empty() || !writes.back().snapshot.has_value()) return absl::OkStatus();
  const store::Record& snapshot = *writes.back().snapshot;
  absl::Status saved = store_->SaveSnapshot(epoch_, snapshot);
  // Without it a restart replays more of the log, which is all there. Another writer is the end.
  if (saved.ok() || absl::IsFailedPrecondition(saved)) return saved;
  spdlog::warn("no snapshot at revision {}: {}", snapshot.revision, saved.ToString());
  return absl::OkStatus();
}

size_t OneTransaction(const std::deque<Write>& writes) {
  size_t count = 0, events = 0, bytes = 0;
  for (const Write& next : writes) {
    events += next.events.size();
    for (const std::string& event : next.events) bytes += event.size();
    for (const std::string& blob : next.blobs) bytes += blob.size();
    if (count > 0 && (events > kMaxBatchEvents || bytes > kMaxBatchBytes)) break;
    ++count;
    if (next.snapshot.has_value()) break;  // it is of the log's end
  }
  return count;
}

bool IsWorthAnotherTry(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
}

}  // namespace warpsmith::planner
