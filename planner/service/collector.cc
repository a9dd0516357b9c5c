#include "planner/service/collector.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "planner/service/log.h"
#include "planner/service/transfer.h"
#include "planner/service/write.h"
#include "warpsmith/v1/events.pb.h"
#include "warpsmith/v1/snapshot.pb.h"

namespace warpsmith::planner {
namespace {

// Between walks: a part of the time that blobs are kept, so that none stays much longer.
constexpr int kWalksPerKeep = 8;
constexpr absl::Duration kShortestPause = absl::Seconds(5);
constexpr absl::Duration kLongestPause = absl::Hours(6);
// After a start, when there is more to do.
constexpr absl::Duration kFirstPause = absl::Minutes(10);

std::array<char, 32> BytesOf(absl::string_view digest) {
  const std::string bytes = absl::HexStringToBytes(digest);
  std::array<char, 32> array = {};
  std::memcpy(array.data(), bytes.data(), std::min(bytes.size(), array.size()));
  return array;
}

absl::StatusOr<v1::Task> TaskOf(const store::Entry& entry) {
  v1::TaskRecord record;
  if (!record.ParseFromString(entry.bytes)) {
    return absl::DataLossError(absl::StrCat("entry '", entry.key, "' cannot be read"));
  }
  return std::move(*record.mutable_task());
}

}  // namespace

void Named::Add(absl::string_view digest) {
  if (!digest.empty()) digests_.push_back(BytesOf(digest));
}

void Named::Add(const v1::Task& task) {
  for (const std::string& digest : NamedBlobs(task)) Add(digest);
}

bool Named::Has(absl::string_view digest) const {
  return std::binary_search(digests_.begin(), digests_.end(), BytesOf(digest));
}

// Of the checkpoint, and of the log behind it.
absl::Status Named::AddState(store::Store& store) {
  std::unordered_map<std::string, std::string> kernels;  // by task
  absl::Status status;
  const absl::StatusOr<int64_t> checkpoint = store.LoadCheckpoint([&](const store::Entry& entry) {
    if (!absl::StartsWith(entry.key, TaskKey(""))) return;
    absl::StatusOr<v1::Task> task = TaskOf(entry);
    status.Update(task.status());
    if (!task.ok()) return;
    kernels[task->id()] = std::move(*task->mutable_incumbent_blob());
    task->clear_incumbent_blob();
    Add(*task);
  });
  if (!checkpoint.ok()) return checkpoint.status();
  if (!status.ok()) return status;
  revision_ = *checkpoint;
  const absl::StatusOr<int64_t> last = store.LastRevision();
  if (!last.ok()) return last.status();
  const absl::Status read = ReadLog(store, revision_, *last, [&](const v1::Event& event) {
    for (const v1::Task& task : event.run_submitted().tasks()) Add(task);
    const v1::ResultAccepted& result = event.result_accepted();
    if (event.has_result_accepted()) kernels[result.task_id()] = result.incumbent_blob();
  });
  for (const auto& [task, kernel] : kernels) Add(kernel);
  return read;
}

absl::StatusOr<Named> Named::Read(store::Store& store, const std::atomic<bool>& stop) {
  Named named;
  if (absl::Status read = named.AddState(store); !read.ok()) return read;
  // After the state: what leaves that comes here in the same step.
  absl::Status status;
  const absl::Status read = store.ReadArchive(TaskKey(""), [&](const store::Entry& entry) {
    const absl::StatusOr<v1::Task> task = TaskOf(entry);
    if (task.ok()) named.Add(*task);
    status = stop ? absl::AbortedError("the planner ends") : task.status();
    return status.ok();
  });
  if (!read.ok()) return read;
  if (!status.ok()) return status;
  std::sort(named.digests_.begin(), named.digests_.end());
  named.digests_.erase(std::unique(named.digests_.begin(), named.digests_.end()),
                       named.digests_.end());
  return named;
}

absl::Duration Collector::Pause() const {
  return std::max(kShortestPause, std::min(options_.keep / kWalksPerKeep, kLongestPause));
}

void Collector::Step(int64_t epoch, absl::Time now) {
  if (stop_ || options_.open == nullptr || options_.keep == absl::InfiniteDuration()) return;
  if (next_ == absl::InfinitePast()) next_ = now + std::min(Pause(), kFirstPause);
  next_ = std::min(next_, now + kLongestPause);  // the clock may be set back
  if (!walks_ && now < next_) return;
  const absl::Status done = walks_ ? Go(epoch, now) : Begin();
  if (done.ok()) return;
  // Another planner leads, or the store is away: nothing is lost by waiting.
  if (!store::IsStaleEpoch(done) && !absl::IsAborted(done)) {
    telemetry::Log(told::kNotCollected, {{"reason", done.message()}});
  }
  walks_ = false;
  next_ = now + Pause();
}

absl::Status Collector::Begin() {
  absl::StatusOr<std::unique_ptr<store::Store>> view = options_.open();
  if (!view.ok()) return view.status();
  absl::StatusOr<Named> read = Named::Read(**view, stop_);
  if (!read.ok()) return read.status();
  const auto named = std::make_shared<const Named>(*std::move(read));
  sweep_ = {};
  sweep_.named = [named](const std::string& digest) { return named->Has(digest); };
  sweep_.revision = named->revision();
  sweep_.keep_s = absl::ToInt64Seconds(options_.keep);
  all_ = {};
  walks_ = true;
  return absl::OkStatus();
}

absl::Status Collector::Go(int64_t epoch, absl::Time now) {
  sweep_.now_s = absl::ToUnixSeconds(now);
  const absl::StatusOr<store::Swept> swept = store_->SweepBlobs(epoch, sweep_);
  if (!swept.ok()) return swept.status();
  all_ += *swept;
  if (metrics_ != nullptr) metrics_->Collected(*swept);
  if (sweep_.at.empty()) End(now);
  return absl::OkStatus();
}

void Collector::End(absl::Time now) {
  if (metrics_ != nullptr) metrics_->Walked(all_);
  telemetry::Log(all_.removed > 0 ? told::kCollected : told::kWalked,
                 {{"removed", all_.removed},
                  {"bytes", all_.removed_bytes},
                  {"named", all_.named},
                  {"unnamed", all_.unnamed}});
  sweep_ = {};
  walks_ = false;
  next_ = now + Pause();
}

}  // namespace warpsmith::planner
