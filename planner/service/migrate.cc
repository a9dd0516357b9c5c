#include "planner/service/migrate.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "planner/core/state.h"
#include "planner/service/write.h"

namespace warpsmith::planner {
namespace {

constexpr int64_t kBatchBytes = 16 << 20;
constexpr size_t kArchiveEntries = 1'000;

// The state after all that the store's log says.
absl::StatusOr<State> StateOf(store::Store& store) {
  absl::StatusOr<v1::PlannerState> stored = LoadState(store);
  if (!stored.ok()) return stored.status();
  State state = State::FromProto(*std::move(stored));
  while (true) {
    absl::StatusOr<std::vector<store::Record>> records =
        store.Read(state.revision(), store::kMaxReadEvents);
    if (!records.ok()) return records.status();
    if (records->empty()) return state;
    for (const store::Record& record : *records) {
      v1::Event event;
      if (!event.ParseFromString(record.bytes) || event.event_case() == v1::Event::EVENT_NOT_SET) {
        return absl::DataLossError(absl::StrCat("event ", record.revision, " cannot be read"));
      }
      state.Apply(event);
    }
  }
}

// What tasks name, moved in batches.
class Mover {
 public:
  Mover(store::Store& from, store::Store& to, int64_t epoch, int64_t revision, Migrated& counts)
      : from_(from), to_(to), batch_{epoch, revision, {}, {}, {}}, counts_(counts) {}

  absl::Status Move(const v1::Task& task) {
    std::vector<std::string> digests = {task.problem_blob(), task.incumbent_blob()};
    digests.insert(digests.end(), task.trial_blobs().begin(), task.trial_blobs().end());
    for (const std::string& digest : digests) {
      if (digest.empty() || !moved_.insert(digest).second) continue;
      absl::StatusOr<std::string> blob = from_.Get(digest);
      if (!blob.ok()) return Of(task, blob.status());
      bytes_ += static_cast<int64_t>(blob->size());
      batch_.blobs.push_back(*std::move(blob));
      ++counts_.blobs;
      if (absl::Status status = FlushIfLarge(); !status.ok()) return status;
    }
    std::vector<store::Facts> facts;  // newest first
    const absl::Status read = from_.ReadFacts(task.id(), /*bodies=*/true, [&](store::Facts one) {
      facts.push_back(std::move(one));
      return true;
    });
    if (!read.ok()) return Of(task, read);
    for (auto one = facts.rbegin(); one != facts.rend(); ++one) {
      bytes_ += static_cast<int64_t>(one->head.size() + one->body.size());
      batch_.facts.push_back(std::move(*one));
      ++counts_.batches;
      if (absl::Status status = FlushIfLarge(); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

  absl::Status Flush() {
    if (batch_.blobs.empty() && batch_.facts.empty()) return absl::OkStatus();
    const absl::Status status = to_.Commit(batch_);
    batch_.blobs.clear();
    batch_.facts.clear();
    bytes_ = 0;
    return status;
  }

 private:
  absl::Status FlushIfLarge() { return bytes_ < kBatchBytes ? absl::OkStatus() : Flush(); }

  static absl::Status Of(const v1::Task& task, const absl::Status& status) {
    return absl::Status(status.code(), absl::StrCat("task ", task.id(), ": ", status.message()));
  }

  store::Store& from_;
  store::Store& to_;
  store::Batch batch_;
  Migrated& counts_;
  int64_t bytes_ = 0;
  std::set<std::string> moved_;
};

}  // namespace

absl::StatusOr<Migrated> Migrate(store::Store& from, store::Store& to) {
  absl::StatusOr<store::Identity> identity = from.Identify();
  if (!identity.ok()) return identity.status();
  // Nobody writes to it from here on.
  if (absl::Status led = from.Lead().status(); !led.ok()) return led;
  absl::StatusOr<State> state = StateOf(from);
  if (!state.ok()) return state.status();

  Migrated migrated;
  ++identity->generation;
  migrated.store = store::TokenOf(*identity);
  migrated.revision = state->revision();
  if (absl::Status adopted = to.Adopt(*identity, migrated.revision); !adopted.ok()) return adopted;
  absl::StatusOr<int64_t> epoch = to.Lead();
  if (!epoch.ok()) return epoch.status();

  Mover mover(from, to, *epoch, migrated.revision, migrated);
  for (const auto& [id, record] : state->tasks()) {
    if (absl::Status moved = mover.Move(record.task()); !moved.ok()) return moved;
    ++migrated.tasks;
  }
  migrated.runs = static_cast<int64_t>(state->runs().size());
  std::vector<store::Entry> archive;
  const absl::Status read = from.ReadArchive("", [&](store::Entry entry) {
    archive.push_back(std::move(entry));
    return true;
  });
  if (!read.ok()) return read;
  migrated.archived = static_cast<int64_t>(archive.size());
  for (const store::Entry& entry : archive) {
    if (entry.key.rfind(TaskKey(""), 0) != 0) continue;
    v1::TaskRecord record;
    if (!record.ParseFromString(entry.bytes)) {
      return absl::DataLossError(absl::StrCat("archived entry '", entry.key, "' cannot be read"));
    }
    if (absl::Status moved = mover.Move(record.task()); !moved.ok()) return moved;
  }
  // In pieces, and of revision 0 until all is there: no planner starts from that.
  for (size_t begin = 0; begin < archive.size(); begin += kArchiveEntries) {
    const auto end = archive.begin() + std::min(begin + kArchiveEntries, archive.size());
    store::Checkpoint piece;
    piece.archive.assign(std::make_move_iterator(archive.begin() + begin),
                         std::make_move_iterator(end));
    if (absl::Status saved = to.SaveCheckpoint(*epoch, piece); !saved.ok()) return saved;
  }
  if (absl::Status flushed = mover.Flush(); !flushed.ok()) return flushed;

  const std::shared_ptr<const Changes> whole[] = {std::make_shared<const Changes>(
      Changes{state->ToProto(), {}, state->TakeChanges().archived, {}})};
  const absl::Status saved = to.SaveCheckpoint(*epoch, CheckpointOf(whole, /*archives=*/true));
  if (!saved.ok()) return saved;
  return migrated;
}

}  // namespace warpsmith::planner
