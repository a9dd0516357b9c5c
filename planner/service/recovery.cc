#include "planner/service/recovery.h"

#include <memory>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/problem/sealed_trials.h"
#include "common/problem/task_state.h"
#include "common/store/folder_lock.h"
#include "common/store/manifest.h"
#include "common/store/renew.h"
#include "planner/core/core.h"
#include "planner/core/state.h"
#include "planner/service/convert.h"
#include "planner/service/write.h"
#include "warpsmith/v1/events.pb.h"

namespace warpsmith::planner {
namespace {

constexpr char kLostKernel[] =
    "its kernel was lost with the store: `warpsmith release` searches for one again";

absl::Status CheckTrials(store::Facts facts) {
  absl::StatusOr<v1::SealedTrials> trials = TrialsOf(std::move(facts));
  return trials.ok() ? problem::Open(*trials).status() : trials.status();
}

// The task that an event is of; null: of none.
const std::string* TaskOf(const v1::Event& event) {
  switch (event.event_case()) {
    case v1::Event::kLeaseGranted:
      return &event.lease_granted().task_id();
    case v1::Event::kLeaseEnded:
      return &event.lease_ended().task_id();
    case v1::Event::kResultAccepted:
      return &event.result_accepted().task_id();
    case v1::Event::kTrialsRecorded:
      return &event.trials_recorded().task_id();
    case v1::Event::kTaskMoved:
      return &event.task_moved().task_id();
    default:
      return nullptr;
  }
}

// Makes a state of what remains, and says what is not in it.
class Rebuild {
 public:
  Rebuild(store::Remains remains, StoreReport* report)
      : remains_(std::move(remains)), report_(report) {}

  // All of the state, and what the log has put into the archive.
  Changes Make() {
    State state = State::FromProto(FromEntries());
    report_->usable = Replay(state);
    Changes rebuilt{state.ToProto(), {}, state.TakeChanges().archived, {}};
    rebuilt.records.set_revision(report_->usable);
    for (v1::TaskRecord& record : *rebuilt.records.mutable_tasks()) CheckBlobs(record);
    report_->runs = rebuilt.records.runs_size();
    report_->tasks = rebuilt.records.tasks_size();
    return rebuilt;
  }

 private:
  void Say(std::string where, std::string what) {
    report_->meaning.push_back({std::move(where), std::move(what)});
  }

  // Of runs and tasks that belong to each other.
  v1::PlannerState FromEntries() {
    v1::PlannerState stored;
    stored.set_revision(remains_.checkpoint);
    for (const store::Entry& entry : remains_.entries) {
      if (AddEntry(entry, stored)) continue;
      Say(absl::StrCat("entry '", entry.key, "'"),
          "it cannot be read: was it written by a newer Warpsmith?");
    }
    std::set<std::string> runs, tasks;
    for (const v1::RunRecord& run : stored.runs()) runs.insert(run.run().id());
    v1::PlannerState whole = stored;
    whole.clear_tasks();
    whole.clear_restored();  // it is another history
    for (v1::TaskRecord& task : *stored.mutable_tasks()) {
      if (runs.count(task.task().run_id()) == 0) {
        Say(task.task().id(), "lost with its run's record");
        continue;
      }
      tasks.insert(task.task().id());
      *whole.add_tasks() = std::move(task);
    }
    for (v1::RunRecord& run : *whole.mutable_runs()) {
      v1::Run all = run.run();
      run.mutable_run()->clear_task_ids();
      for (const std::string& id : all.task_ids()) {
        if (tasks.count(id) > 0) {
          run.mutable_run()->add_task_ids(id);
        } else {
          Say(id, "its record is lost");
        }
      }
    }
    return whole;
  }

  // Gives the last event's revision; those of what is lost are left out.
  int64_t Replay(State& state) {
    int64_t revision = remains_.checkpoint;
    for (const store::Record& record : remains_.log) {
      v1::Event event;
      if (!event.ParseFromString(record.bytes) || event.event_case() == v1::Event::EVENT_NOT_SET) {
        Say(absl::StrCat("event ", record.revision),
            "it cannot be read: was it written by a newer Warpsmith?");
        break;
      }
      const std::string* task = TaskOf(event);
      const bool known =
          (task == nullptr || state.FindTask(*task) != nullptr) &&
          (!event.has_run_changed() || state.FindRun(event.run_changed().run_id()) != nullptr) &&
          (!event.has_run_archived() || state.FindRun(event.run_archived().run_id()) != nullptr);
      if (known) state.Apply(event);
      revision = record.revision;
    }
    return revision;
  }

  void CheckBlobs(v1::TaskRecord& record) {
    v1::Task& task = *record.mutable_task();
    const std::string kernel = task.incumbent_blob();
    if (!kernel.empty() && remains_.blobs.count(kernel) == 0) {
      Say(task.id(), absl::StrCat("its kernel is lost, blob ", kernel));
      ForgetKernel(record);
    }
    // One that is lost since an earlier loss is named no more.
    if (!task.problem_blob().empty() && remains_.blobs.count(task.problem_blob()) == 0) {
      Say(task.id(), absl::StrCat("its problem is lost, blob ", task.problem_blob()));
      task.clear_problem_blob();
      record.clear_lease();
      task.clear_lease_id();
      task.clear_worker_id();
      task.set_state(v1::FAILED);
      task.set_reason(kProblemLost);
    }
  }

  static void ForgetKernel(v1::TaskRecord& record) {
    v1::Task& task = *record.mutable_task();
    record.clear_incumbent_trial_id();
    record.clear_accepted_blobs();  // the same kernel found again is news
    task.clear_incumbent_blob();
    task.clear_speedup();
    task.clear_speedup_eager();
    task.clear_best_us();
    task.clear_graph_us();
    task.clear_light_us();
    task.clear_peak_bytes();
    task.clear_held_by();
    task.clear_alarm();
    if (task.state() != v1::CONVERGED) return;
    task.set_state(v1::HELD);
    task.set_reason(kLostKernel);
  }

  store::Remains remains_;
  StoreReport* const report_;
};

// `rebuilt`: what can be gone on with.
absl::StatusOr<StoreReport> Report(const std::string& dir, Changes& rebuilt) {
  absl::StatusOr<store::Remains> remains = store::ReadRemains(dir, CheckTrials);
  if (!remains.ok()) return remains.status();
  StoreReport report;
  report.store = store::TokenOf(remains->identity);
  report.upgraded = remains->identity.upgraded;
  report.last = remains->last;
  report.events = remains->events;
  report.entries = static_cast<int64_t>(remains->entries.size());
  report.blobs = static_cast<int64_t>(remains->blobs.size());
  report.batches = remains->facts;
  report.damage = remains->damage;
  report.more_damage = remains->more_damage;
  report.archived = remains->archived;
  rebuilt = Rebuild(*std::move(remains), &report).Make();
  return report;
}

// Of a folder with a store, whose planner does not run.
absl::StatusOr<store::FolderLock> LockOf(const std::string& dir) {
  if (absl::Status there = store::CheckThere(dir); !there.ok()) return there;
  if (absl::Status may = store::CheckNoBackup(dir); !may.ok()) return may;
  absl::StatusOr<store::FolderLock> lock = store::FolderLock::Take(dir);
  if (!absl::IsUnavailable(lock.status())) return lock;
  return absl::FailedPreconditionError(
      absl::StrCat(std::string(lock.status().message()), "; `warpsmith down` stops it"));
}

absl::StatusOr<store::Facts> SealedFacts(const store::BlobOfFacts& blob, const std::string& bytes) {
  v1::TrialBatch batch;
  if (!batch.ParseFromString(bytes)) {
    return absl::DataLossError(absl::StrCat("blob ", blob.digest, " is no batch of trials"));
  }
  return FactsOf(blob.subject, blob.digest, problem::Seal(batch, /*first=*/0));
}

absl::StatusOr<UpgradeFinished> MoveForward(const std::string& dir,
                                            const store::FirstRemains& first) {
  v1::PlannerState stored;
  if (!stored.ParseFromString(first.snapshot.bytes)) {
    return absl::DataLossError(
        absl::StrCat("the snapshot of revision ", first.snapshot.revision, " cannot be read"));
  }
  std::vector<store::BlobOfFacts> batches;
  for (v1::TaskRecord& record : *stored.mutable_tasks()) {
    for (const std::string& digest : record.task().trial_blobs()) {
      batches.push_back({record.task().id(), digest});
    }
    record.mutable_task()->clear_trial_blobs();
  }
  State state = State::FromProto(stored);
  for (const store::Record& record : first.log) {
    v1::Event event;
    if (!event.ParseFromString(record.bytes) || event.event_case() == v1::Event::EVENT_NOT_SET) {
      return absl::DataLossError(absl::StrCat("event ", record.revision, " cannot be read"));
    }
    if (event.has_trials_recorded()) {
      batches.push_back({event.trials_recorded().task_id(), event.trials_recorded().batch()});
    }
    state.Apply(event);
  }
  const std::shared_ptr<const Changes> whole[] = {std::make_shared<const Changes>(
      Changes{state.ToProto(), {}, state.TakeChanges().archived, {}})};
  absl::StatusOr<store::Renewed> renewed =
      store::MoveForward(dir, CheckpointOf(whole, /*archives=*/true), batches, SealedFacts);
  if (!renewed.ok()) return renewed.status();
  return UpgradeFinished{true, renewed->kept};
}

}  // namespace

absl::StatusOr<StoreReport> CheckStore(const std::string& dir) {
  Changes rebuilt;
  return Report(dir, rebuilt);
}

absl::StatusOr<UpgradeFinished> FinishUpgrade(const std::string& dir) {
  absl::StatusOr<store::FolderLock> lock = LockOf(dir);
  if (!lock.ok()) return lock.status();
  absl::StatusOr<store::FirstRemains> first = store::ReadFirst(dir);
  if (first.ok()) return MoveForward(dir, *first);
  if (!absl::IsFailedPrecondition(first.status())) return first.status();
  const absl::StatusOr<bool> finished = store::FinishUpgrade(dir);
  if (!finished.ok()) return finished.status();
  return UpgradeFinished{*finished, ""};
}

absl::StatusOr<AcceptedLoss> AcceptLoss(const std::string& dir) {
  auto rebuilt = std::make_shared<Changes>();
  absl::StatusOr<store::FolderLock> lock = LockOf(dir);
  if (!lock.ok()) return lock.status();
  absl::StatusOr<StoreReport> report = Report(dir, *rebuilt);
  if (!report.ok()) return report.status();
  const std::shared_ptr<const Changes> whole[] = {rebuilt};
  absl::StatusOr<store::Renewed> renewed =
      store::GoOnWith(dir, CheckpointOf(whole, /*archives=*/true), CheckTrials);
  if (!renewed.ok()) return renewed.status();
  return AcceptedLoss{*std::move(report), store::TokenOf(renewed->identity),
                      std::move(renewed->kept)};
}

}  // namespace warpsmith::planner
