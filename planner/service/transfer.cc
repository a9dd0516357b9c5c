#include "planner/service/transfer.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "planner/core/state.h"
#include "planner/service/convert.h"
#include "planner/service/write.h"

namespace warpsmith::planner {
namespace {

constexpr int64_t kBatchBytes = 16 << 20;
// The log may go on past a checkpoint that is being read, of a store that is in use.
constexpr int kStateTries = 20;

absl::Status Unreadable(int64_t revision) {
  return absl::DataLossError(
      absl::StrCat("event ", revision, " cannot be read: was it written by a newer Warpsmith?"));
}

// The state after all that the log says when this begins.
absl::StatusOr<State> StateOf(store::Store& store) {
  absl::Status status;
  for (int tries = 0; tries < kStateTries; ++tries) {
    const absl::StatusOr<int64_t> last = store.LastRevision();
    if (!last.ok()) return last.status();
    absl::StatusOr<v1::PlannerState> stored = LoadState(store);
    if (!stored.ok()) return stored.status();
    State state = State::FromProto(*std::move(stored));
    int64_t revision = state.revision();
    status = ReadLog(store, revision, *last, [&](const v1::Event& event) { state.Apply(event); });
    if (status.ok()) return state;
    if (!absl::IsOutOfRange(status)) return status;
  }
  return absl::UnavailableError(
      absl::StrCat("the log goes on faster than it can be read: try again when less is written (",
                   std::string(status.message()), ")"));
}

// Batches of trials that came after a revision, of a store that is in use.
class Later {
 public:
  Later(store::Store& store, int64_t revision) : store_(store), revision_(revision) {}

  // Hears of all that has come until now.
  absl::Status Follow() {
    const absl::StatusOr<int64_t> last = store_.LastRevision();
    if (!last.ok()) return last.status();
    const absl::Status read = ReadLog(store_, revision_, *last, [&](const v1::Event& event) {
      if (!event.has_trials_recorded()) return;
      const v1::TrialsRecorded& trials = event.trials_recorded();
      ++batches_[{trials.task_id(), trials.batch()}];
    });
    if (!absl::IsOutOfRange(read)) return read;
    return absl::UnavailableError(
        absl::StrCat("more was written meanwhile than the log keeps: try again when less is (",
                     std::string(read.message()), ")"));
  }
  // Of facts that are asked for from the newest to the oldest.
  bool Has(const store::Facts& facts) {
    const auto found = batches_.find({facts.subject, facts.name});
    if (found == batches_.end()) return false;
    if (--found->second == 0) batches_.erase(found);
    return true;
  }

 private:
  store::Store& store_;
  int64_t revision_;
  std::map<std::pair<std::string, std::string>, int> batches_;
};

// Where what is read goes, in batches.
class Sink {
 public:
  // Null: nowhere.
  Sink(store::Store* to, int64_t epoch, int64_t revision)
      : to_(to), batch_{epoch, revision, {}, {}, {}} {}

  absl::Status Add(std::string blob) {
    bytes_ += static_cast<int64_t>(blob.size());
    if (to_ != nullptr) batch_.blobs.push_back(std::move(blob));
    return FlushIfLarge();
  }
  absl::Status Add(store::Facts facts) {
    bytes_ += static_cast<int64_t>(facts.head.size() + facts.body.size());
    if (to_ != nullptr) batch_.facts.push_back(std::move(facts));
    return FlushIfLarge();
  }
  // In a checkpoint of revision 0, until all is there: no planner starts from that.
  absl::Status Archive(std::vector<store::Entry> entries) {
    if (to_ == nullptr || entries.empty()) return absl::OkStatus();
    return to_->SaveCheckpoint(batch_.epoch, {0, {}, {}, std::move(entries)});
  }
  absl::Status Flush() {
    bytes_ = 0;
    if (batch_.blobs.empty() && batch_.facts.empty()) return absl::OkStatus();
    const absl::Status status = to_->Commit(batch_);
    batch_.blobs.clear();
    batch_.facts.clear();
    return status;
  }
  absl::Status End(const store::Checkpoint& whole) {
    if (to_ == nullptr) return absl::OkStatus();
    const absl::Status flushed = Flush();
    return flushed.ok() ? to_->SaveCheckpoint(batch_.epoch, whole) : flushed;
  }

 private:
  absl::Status FlushIfLarge() { return bytes_ < kBatchBytes ? absl::OkStatus() : Flush(); }

  store::Store* const to_;
  store::Batch batch_;
  int64_t bytes_ = 0;
};

// Reads all that belongs to a state, and counts it.
class Reader {
 public:
  Reader(store::Store& from, State state, Sink& sink)
      : from_(from), state_(std::move(state)), later_(from, state_.revision()), sink_(sink) {
    inventory_.revision = state_.revision();
    inventory_.runs = static_cast<int64_t>(state_.runs().size());
    inventory_.tasks = static_cast<int64_t>(state_.tasks().size());
  }

  // `restored`: how the history begins where it goes; null: with no backup.
  absl::Status Read(const v1::Restored* restored) {
    Changes whole{state_.ToProto(), {}, state_.TakeChanges().archived, {}};
    whole.records.clear_restored();
    if (restored != nullptr) *whole.records.mutable_restored() = *restored;
    for (const auto& [id, record] : state_.tasks()) {
      if (absl::Status read = ReadTask(record.task()); !read.ok()) return read;
    }
    // What the log alone has put into the archive so far.
    for (const v1::TaskRecord& record : whole.archived.tasks()) {
      if (absl::Status read = ReadTask(record.task()); !read.ok()) return read;
    }
    inventory_.archived = whole.archived.runs_size() + whole.archived.tasks_size();
    for (const v1::RunRecord& run : whole.archived.runs()) leaving_.insert(RunKey(run.run().id()));
    if (absl::Status read = ReadArchive(); !read.ok()) return read;
    const std::shared_ptr<const Changes> changes[] = {
        std::make_shared<const Changes>(std::move(whole))};
    return sink_.End(CheckpointOf(changes, /*archives=*/true));
  }

  const Inventory& inventory() const { return inventory_; }

 private:
  static absl::Status Of(const v1::Task& task, const absl::Status& status) {
    return absl::Status(
        absl::IsNotFound(status) ? absl::StatusCode::kDataLoss : status.code(),
        absl::StrCat(
            "task ", task.id(), ": ", std::string(status.message()),
            absl::IsNotFound(status) ? ": `warpsmith store check` lists what is missing" : ""));
  }

  absl::Status ReadTask(const v1::Task& task) {
    for (const std::string& digest : NamedBlobs(task)) {
      if (!blobs_.insert(digest).second) continue;
      absl::StatusOr<std::string> blob = from_.Get(digest);
      if (!blob.ok()) return Of(task, blob.status());
      ++inventory_.blobs;
      inventory_.blob_bytes += static_cast<int64_t>(blob->size());
      if (absl::Status added = sink_.Add(*std::move(blob)); !added.ok()) return added;
    }
    const absl::Status read = ReadTrials(task);
    return read.ok() ? read : Of(task, read);
  }

  absl::Status ReadTrials(const v1::Task& task) {
    std::vector<store::Facts> facts;  // newest first
    const absl::Status read = from_.ReadFacts(task.id(), /*bodies=*/true, [&](store::Facts one) {
      facts.push_back(std::move(one));
      return true;
    });
    if (!read.ok()) return read;
    if (absl::Status followed = later_.Follow(); !followed.ok()) return followed;
    facts.erase(std::remove_if(facts.begin(), facts.end(),
                               [&](const store::Facts& one) { return later_.Has(one); }),
                facts.end());
    for (auto one = facts.rbegin(); one != facts.rend(); ++one) {
      v1::TrialSummary summary;
      if (!summary.ParseFromString(one->head)) {
        return absl::DataLossError(absl::StrCat("the batch ", one->name, " has no summary"));
      }
      ++inventory_.batches;
      inventory_.trials += summary.trials();
      inventory_.trial_bytes += static_cast<int64_t>(one->head.size() + one->body.size());
      if (absl::Status added = sink_.Add(std::move(*one)); !added.ok()) return added;
    }
    return absl::OkStatus();
  }

  // Run by run: all of it may be more than there is memory for.
  absl::Status ReadArchive() {
    std::vector<store::Entry> runs;
    const absl::Status read = from_.ReadArchive(RunPrefix(), [&](store::Entry run) {
      if (IsArchived(run)) runs.push_back(std::move(run));
      return true;
    });
    if (!read.ok()) return read;
    for (store::Entry& run : runs) {
      if (absl::Status moved = ReadArchivedRun(std::move(run)); !moved.ok()) return moved;
    }
    return absl::OkStatus();
  }

  // By the state's revision: not one that went there since, nor one that goes there with it.
  bool IsArchived(const store::Entry& entry) const {
    if (leaving_.count(entry.key) > 0) return false;
    v1::RunRecord run;
    if (!run.ParseFromString(entry.bytes)) return true;  // it is refused where it is moved
    const int64_t number = RunNumber(run.run().id());
    return state_.runs().count(number) == 0 &&
           (state_.last_run() == 0 || number <= state_.last_run());
  }

  absl::Status ReadArchivedRun(store::Entry entry) {
    const auto unreadable = [](const store::Entry& which) {
      return absl::DataLossError(absl::StrCat("archived entry '", which.key, "' cannot be read"));
    };
    v1::RunRecord run;
    if (!run.ParseFromString(entry.bytes)) return unreadable(entry);
    std::vector<store::Entry> entries;
    const absl::Status read =
        from_.ReadArchive(TaskKey(absl::StrCat(run.run().id(), "/")), [&](store::Entry task) {
          entries.push_back(std::move(task));
          return true;
        });
    if (!read.ok()) return read;
    for (const store::Entry& task : entries) {
      v1::TaskRecord record;
      if (!record.ParseFromString(task.bytes)) return unreadable(task);
      if (absl::Status moved = ReadTask(record.task()); !moved.ok()) return moved;
    }
    entries.push_back(std::move(entry));
    inventory_.archived += static_cast<int64_t>(entries.size());
    return sink_.Archive(std::move(entries));
  }

  store::Store& from_;
  State state_;
  Later later_;
  Sink& sink_;
  Inventory inventory_;
  std::set<std::string> blobs_;    // digests
  std::set<std::string> leaving_;  // keys of runs
};

}  // namespace

bool Inventory::HoldsAs(const Inventory& other) const {
  const auto all = [](const Inventory& i) {
    return std::tie(i.revision, i.runs, i.tasks, i.archived, i.blobs, i.blob_bytes, i.batches,
                    i.trials, i.trial_bytes);
  };
  return all(*this) == all(other);
}

absl::Status ReadLog(store::Store& store, int64_t& revision, int64_t last,
                     const std::function<void(const v1::Event&)>& take) {
  while (revision < last) {
    const auto wanted = std::min<int64_t>(last - revision, store::kMaxReadEvents);
    const auto records = store.Read(revision, static_cast<size_t>(wanted));
    if (!records.ok()) return records.status();
    for (const store::Record& record : *records) {
      v1::Event event;
      if (!event.ParseFromString(record.bytes) || event.event_case() == v1::Event::EVENT_NOT_SET) {
        return Unreadable(record.revision);
      }
      take(event);
      revision = record.revision;
    }
    if (records->empty()) return absl::OkStatus();
  }
  return absl::OkStatus();
}

std::vector<std::string> NamedBlobs(const v1::Task& task) {
  std::vector<std::string> digests(task.trial_blobs().begin(), task.trial_blobs().end());
  for (const std::string& digest : {task.problem_blob(), task.incumbent_blob()}) {
    if (!digest.empty()) digests.push_back(digest);
  }
  return digests;
}

absl::StatusOr<Inventory> Transfer(store::Store& from, store::Store& to, const Become& become) {
  absl::StatusOr<State> state = StateOf(from);
  if (!state.ok()) return state.status();
  if (absl::Status adopted = to.Adopt(become.identity, state->revision()); !adopted.ok()) {
    return adopted;
  }
  const absl::StatusOr<int64_t> epoch = to.Lead();
  if (!epoch.ok()) return epoch.status();
  Sink sink(&to, *epoch, state->revision());
  std::optional<v1::Restored> restored = become.restored;
  const absl::StatusOr<store::Identity> source = from.Identify();
  if (!source.ok()) return source.status();
  const bool same = store::TokenOf(*source) == store::TokenOf(become.identity);
  if (same && state->restored() != nullptr) restored = *state->restored();
  Reader reader(from, *std::move(state), sink);
  const absl::Status read = reader.Read(restored.has_value() ? &*restored : nullptr);
  if (!read.ok()) return read;
  Inventory moved = reader.inventory();
  moved.store = store::TokenOf(become.identity);
  return moved;
}

absl::StatusOr<Inventory> TakeInventory(store::Store& store) {
  const absl::StatusOr<store::Identity> identity = store.Identify();
  if (!identity.ok()) return identity.status();
  absl::StatusOr<State> state = StateOf(store);
  if (!state.ok()) return state.status();
  Sink nowhere(nullptr, 0, 0);
  Reader reader(store, *std::move(state), nowhere);
  if (absl::Status read = reader.Read(nullptr); !read.ok()) return read;
  Inventory inventory = reader.inventory();
  inventory.store = store::TokenOf(*identity);
  return inventory;
}

absl::StatusOr<Inventory> Migrate(store::Store& from, store::Store& to) {
  absl::StatusOr<store::Identity> identity = from.Identify();
  if (!identity.ok()) return identity.status();
  // Nobody writes to it from here on.
  if (absl::Status led = from.Lead().status(); !led.ok()) return led;
  ++identity->generation;
  return Transfer(from, to, {*identity, std::nullopt});
}

}  // namespace warpsmith::planner
