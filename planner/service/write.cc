#include "planner/service/write.h"

#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/memory.h"
#include "common/problem/canonical.h"
#include "planner/service/log.h"

namespace warpsmith::planner {
namespace {

constexpr size_t kMaxBatchEvents = 2'000;
constexpr size_t kMaxBatchBytes = 32 << 20;  // a write alone may be larger

// Keys of a checkpoint's entries: a letter says what they are.
constexpr char kNumbers[] = "n";
std::string ArchivedKey(int64_t number) { return absl::StrFormat("a/%012d", number); }
std::string SubmitterKey(const std::string& name) { return absl::StrCat("s/", name); }
std::string WorkerKey(const std::string& id) { return absl::StrCat("w/", id); }

// Of a state without records.
std::string NumbersOf(const v1::PlannerState& state) {
  v1::PlannerState numbers;
  numbers.set_sessions(state.sessions());
  numbers.set_last_run(state.last_run());
  numbers.set_archived_runs(state.archived_runs());
  if (state.has_restored()) *numbers.mutable_restored() = state.restored();
  return numbers.SerializeAsString();
}

// Adds what `bytes` say, or nothing if they cannot be read.
template <typename Record>
bool AddTo(google::protobuf::RepeatedPtrField<Record>* records, const std::string& bytes) {
  const bool read = records->Add()->ParseFromString(bytes);
  if (!read) records->RemoveLast();
  return read;
}

}  // namespace

std::string RunKey(const std::string& run_id) {
  return absl::StrFormat("r/%012d", RunNumber(run_id));
}

std::string RunPrefix() { return "r/"; }

std::string TaskKey(const std::string& id) { return absl::StrCat("t/", id); }

bool AddEntry(const store::Entry& entry, v1::PlannerState& state) {
  if (entry.key == kNumbers) {
    v1::PlannerState numbers;
    const bool read = numbers.ParseFromString(entry.bytes);
    if (!read) return false;
    state.set_sessions(numbers.sessions());
    state.set_last_run(numbers.last_run());
    state.set_archived_runs(numbers.archived_runs());
    if (numbers.has_restored()) {
      state.mutable_restored()->Swap(numbers.mutable_restored());
    } else {
      state.clear_restored();
    }
    return true;
  }
  switch (entry.key.empty() ? '?' : entry.key[0]) {
    case 'a':
      return AddTo(state.mutable_archived(), entry.bytes);
    case 's':
      return AddTo(state.mutable_submitters(), entry.bytes);
    case 'r':
      return AddTo(state.mutable_runs(), entry.bytes);
    case 't':
      return AddTo(state.mutable_tasks(), entry.bytes);
    case 'w':
      return AddTo(state.mutable_workers(), entry.bytes);
    default:
      return false;
  }
}

store::Checkpoint CheckpointOf(absl::Span<const std::shared_ptr<const Changes>> changes,
                               bool archives) {
  // The last word on each.
  std::map<std::string, const google::protobuf::Message*> last;
  std::vector<store::Entry> archive;
  for (const auto& each : changes) {
    for (const v1::RunRecord& run : each->records.runs()) last[RunKey(run.run().id())] = &run;
    for (const v1::TaskRecord& task : each->records.tasks())
      last[TaskKey(task.task().id())] = &task;
    for (const v1::WorkerRecord& worker : each->records.workers()) {
      last[WorkerKey(worker.worker().id())] = &worker;
    }
    for (const std::string& id : each->forgotten) last[WorkerKey(id)] = nullptr;
    if (!archives) continue;
    for (const v1::ArchivedRun& run : each->records.archived()) {
      last[ArchivedKey(RunNumber(run.run().id()))] = &run;
    }
    for (const int64_t number : each->unremembered) last[ArchivedKey(number)] = nullptr;
    for (const v1::Submitter& one : each->records.submitters())
      last[SubmitterKey(one.name())] = &one;
    for (const std::string& name : each->gone) last[SubmitterKey(name)] = nullptr;
    // From the state to the archive, for good.
    const auto leaves = [&](const std::string& key, const google::protobuf::Message& record) {
      last[key] = nullptr;
      archive.push_back({key, problem::CanonicalBytes(record)});
    };
    for (const v1::RunRecord& run : each->archived.runs()) leaves(RunKey(run.run().id()), run);
    for (const v1::TaskRecord& task : each->archived.tasks()) {
      leaves(TaskKey(task.task().id()), task);
    }
  }
  store::Checkpoint checkpoint;
  checkpoint.archive = std::move(archive);
  checkpoint.revision = changes.back()->records.revision();
  checkpoint.put.push_back({kNumbers, NumbersOf(changes.back()->records)});
  for (const auto& [key, record] : last) {
    if (record == nullptr) {
      checkpoint.erase.push_back(key);
    } else {
      checkpoint.put.push_back({key, problem::CanonicalBytes(*record)});
    }
  }
  return checkpoint;
}

absl::StatusOr<v1::PlannerState> LoadState(store::Store& store) {
  v1::PlannerState state;
  absl::Status damage;
  const absl::StatusOr<int64_t> revision = store.LoadCheckpoint([&](const store::Entry& entry) {
    if (damage.ok() && !AddEntry(entry, state)) {
      damage = absl::DataLossError(
          absl::StrCat("entry '", entry.key,
                       "' of the checkpoint cannot be read: was it written by a newer Warpsmith?"));
    }
  });
  if (!revision.ok()) return revision.status();
  if (!damage.ok()) return damage;
  state.set_revision(*revision);
  return state;
}

absl::Status Writer::Commit(absl::Span<const Write> writes) {
  store::Batch batch{epoch_, after_, {}, {}, {}};
  for (const Write& write : writes) {
    batch.events.insert(batch.events.end(), write.events.begin(), write.events.end());
    batch.blobs.insert(batch.blobs.end(), write.blobs.begin(), write.blobs.end());
    batch.facts.insert(batch.facts.end(), write.facts.begin(), write.facts.end());
  }
  if (!batch.events.empty() || !batch.blobs.empty()) {
    if (absl::Status status = store_->Commit(batch); !status.ok()) return status;
    after_ += static_cast<int64_t>(batch.events.size());
  }
  for (const Write& write : writes) {
    if (write.changes != nullptr) unsaved_.push_back(write.changes);
  }
  const bool due = owed_ || (!writes.empty() && writes.back().checkpoint);
  if (!due || unsaved_.empty()) return absl::OkStatus();
  size_t entries = 0;
  absl::Status saved;
  {
    const store::Checkpoint checkpoint = CheckpointOf(unsaved_, archives_);
    entries = checkpoint.put.size();
    saved = store_->SaveCheckpoint(epoch_, checkpoint);
  }
  // Without it a restart replays more of the log, which is all there, and what was archived is not
  // found: it is tried again with the next commit. Another writer is the end.
  owed_ = !saved.ok();
  const int64_t revision = unsaved_.back()->records.revision();
  if (saved.ok()) {
    unsaved_.clear();
    saved_ = revision;
    telemetry::Log(told::kCheckpoint, {{"revision", revision}, {"entries", entries}});
  } else if (!absl::IsFailedPrecondition(saved)) {
    telemetry::Log(told::kNoCheckpoint, {{"revision", revision}, {"reason", saved.ToString()}});
    saved = absl::OkStatus();
  }
  if (entries >= kManyTasks) base::ReturnFreedMemory();
  return saved;
}

int64_t SizeOf(const Write& write) {
  size_t bytes = 0;
  for (const std::string& event : write.events) bytes += event.size();
  for (const std::string& blob : write.blobs) bytes += blob.size();
  for (const store::Facts& facts : write.facts) bytes += facts.head.size() + facts.body.size();
  return static_cast<int64_t>(bytes);
}

size_t OneTransaction(const std::deque<Write>& writes) {
  size_t count = 0, with_checkpoint = 0, events = 0, bytes = 0;
  for (const Write& next : writes) {
    events += next.events.size();
    bytes += static_cast<size_t>(SizeOf(next));
    if (count > 0 && (events > kMaxBatchEvents || bytes > kMaxBatchBytes)) break;
    ++count;
    if (next.checkpoint) with_checkpoint = count;  // which is of the log's end
  }
  return with_checkpoint > 0 ? with_checkpoint : count;
}

bool IsWorthAnotherTry(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
}

}  // namespace warpsmith::planner
