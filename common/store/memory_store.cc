#include "common/store/memory_store.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/sha256.h"

namespace warpsmith::store {
namespace {

// Epochs that were lost with the history before are below those of the next.
constexpr int64_t kLostEpochs = 1000;

std::string DigestOf(absl::string_view bytes) {
  return base::Sha256Hex(std::string_view(bytes.data(), bytes.size()));
}

}  // namespace

void MemoryStore::Copy(Disk& from, Disk& to) {
  absl::MutexLock lock_from(&from.mutex);
  absl::MutexLock lock_to(&to.mutex);
  to.epoch = from.epoch;
  to.beat = from.beat;
  to.lost = from.lost;
  to.leader = from.leader;
  to.first = from.first;
  to.log = from.log;
  to.kept_events = from.kept_events;
  to.checkpoint = from.checkpoint;
  to.entries = from.entries;
  to.archive = from.archive;
  to.facts = from.facts;
  to.facts_of = from.facts_of;
  to.kept = from.kept;
  to.facts_bytes = from.facts_bytes;
  to.identity = from.identity;
  to.blobs = from.blobs;
  to.unnamed = from.unnamed;
}

absl::Status MemoryStore::CheckOpen() const {
  return closed_ ? absl::FailedPreconditionError("the store is closed") : absl::OkStatus();
}

absl::Status MemoryStore::CheckLost() const {
  disk_->mutex.AssertHeld();
  if (!disk_->lost) return absl::OkStatus();
  return absl::DataLossError("the log is not whole, as a planner has found");
}

absl::Status MemoryStore::Marked(const absl::Status& status) {
  disk_->mutex.AssertHeld();
  if (absl::IsDataLoss(status) && disk_->identity.generation == generation_) disk_->lost = true;
  return status;
}

absl::Status MemoryStore::CheckWriter(int64_t epoch) {
  disk_->mutex.AssertHeld();
  if (absl::Status status = CheckOpen(); !status.ok()) return status;
  if (epoch == disk_->epoch) return CheckLost();
  if (epoch < disk_->epoch) return StaleEpoch(epoch, disk_->epoch);
  return Marked(absl::DataLossError(
      absl::StrCat("the epoch is ", disk_->epoch, ", and was ", epoch, ": it has lost its end")));
}

int64_t MemoryStore::Last() const {
  disk_->mutex.AssertHeld();
  return disk_->first + static_cast<int64_t>(disk_->log.size());
}

absl::Status MemoryStore::CheckLast() const {
  const int64_t last = Last();
  if (last >= known_) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("the log ends at event ", last, ", and event ", known_,
                                          " was there: it has lost what it had made durable"));
}

// OK: the batch goes at the log's end. AlreadyExists: it is there.
absl::Status MemoryStore::CheckPlace(const Batch& batch) {
  const int64_t last = Last();
  if (last == batch.after) return absl::OkStatus();
  const auto count = static_cast<int64_t>(batch.events.size());
  const bool there = last == batch.after + count &&
                     std::equal(batch.events.begin(), batch.events.end(), disk_->log.end() - count,
                                [&](const std::string& bytes, const Event& event) {
                                  return event.epoch == batch.epoch && event.bytes == bytes;
                                });
  if (there) return absl::AlreadyExistsError("the same batch");
  if (absl::Status whole = Marked(CheckLast()); !whole.ok()) return whole;
  return absl::FailedPreconditionError(
      absl::StrCat("the log ends at revision ", last, ", not at ", batch.after));
}

absl::StatusOr<Identity> MemoryStore::Identify() {
  absl::MutexLock lock(&disk_->mutex);
  if (absl::Status status = CheckOpen(); !status.ok()) return status;
  if (generation_ == 0) generation_ = disk_->identity.generation;
  return disk_->identity;
}

absl::Status MemoryStore::Adopt(const Identity& identity, int64_t revision) {
  absl::MutexLock lock(&disk_->mutex);
  if (absl::Status status = CheckOpen(); !status.ok()) return status;
  if (disk_->epoch != 0 || !disk_->log.empty()) {
    return absl::FailedPreconditionError("the store is in use");
  }
  disk_->identity = identity;
  disk_->first = revision;
  return absl::OkStatus();
}

absl::StatusOr<int64_t> MemoryStore::Lead() {
  absl::MutexLock lock(&disk_->mutex);
  if (absl::Status status = CheckOpen(); !status.ok()) return status;
  if (absl::Status status = CheckLost(); !status.ok()) return status;
  return RaiseEpoch("");
}

// ---- who leads ----------------------------------------------------------------------------------

int64_t MemoryStore::RaiseEpoch(const std::string& address) {
  disk_->mutex.AssertHeld();
  disk_->beat = 0;
  disk_->leader = address;
  return ++disk_->epoch;
}

absl::StatusOr<Standing> MemoryStore::Look() {
  absl::MutexLock lock(&disk_->mutex);
  if (absl::Status status = CheckOpen(); !status.ok()) return status;
  if (generation_ == 0) generation_ = disk_->identity.generation;
  Standing standing{disk_->epoch, disk_->beat,       disk_->leader,
                    Last(),       disk_->checkpoint, TokenOf(disk_->identity)};
  // Of another history nothing was known.
  if (disk_->identity.generation != generation_) return standing;
  if (absl::Status status = CheckLost(); !status.ok()) return status;
  absl::Status whole = CheckLast();
  if (whole.ok() && disk_->epoch < known_epoch_) {
    whole = absl::DataLossError(absl::StrCat("the epoch is ", disk_->epoch, ", and was ",
                                             known_epoch_, ": it has lost its end"));
  }
  if (!whole.ok()) return Marked(whole);
  known_epoch_ = disk_->epoch;
  return standing;
}

absl::StatusOr<int64_t> MemoryStore::LeadAfter(const Standing& seen, const std::string& address) {
  absl::MutexLock lock(&disk_->mutex);
  if (absl::Status status = CheckWriter(seen.epoch); !status.ok()) return status;
  if (seen.beat != disk_->beat) return StaleEpoch(seen.epoch, disk_->epoch);
  return RaiseEpoch(address);
}

absl::Status MemoryStore::Beat(int64_t epoch, const std::string& address) {
  absl::MutexLock lock(&disk_->mutex);
  if (absl::Status status = CheckWriter(epoch); !status.ok()) return status;
  disk_->leader = address;
  ++disk_->beat;
  return Marked(CheckLast());
}

absl::StatusOr<int64_t> MemoryStore::RaiseGeneration() {
  absl::MutexLock lock(&disk_->mutex);
  if (absl::Status status = CheckOpen(); !status.ok()) return status;
  RaiseEpoch("");
  disk_->epoch += kLostEpochs;
  disk_->lost = false;
  return ++disk_->identity.generation;
}

// ---- writing ------------------------------------------------------------------------------------

absl::Status MemoryStore::Commit(const Batch& batch) {
  absl::MutexLock lock(&disk_->mutex);
  if (absl::Status status = CheckWriter(batch.epoch); !status.ok()) return status;
  for (const std::string& event : batch.events) {
    if (event.size() <= kMaxEventBytes) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("an event of ", event.size(), " bytes: the limit is ", kMaxEventBytes));
  }
  const absl::Status place = CheckPlace(batch);
  if (!place.ok() && !absl::IsAlreadyExists(place)) return place;
  known_ = std::max(known_, batch.after + static_cast<int64_t>(batch.events.size()));
  if (absl::IsAlreadyExists(place)) return absl::OkStatus();
  for (const std::string& blob : batch.blobs) AddBlob(blob);
  for (const std::string& event : batch.events) disk_->log.push_back({batch.epoch, event});
  AddFacts(batch.facts);
  return absl::OkStatus();
}

void MemoryStore::AddBlob(const std::string& blob) {
  disk_->mutex.AssertHeld();
  const std::string digest = DigestOf(blob);
  disk_->blobs.emplace(digest, blob);
  disk_->unnamed.erase(digest);
}

// All in one step.
absl::StatusOr<Swept> MemoryStore::SweepBlobs(int64_t epoch, Sweep& sweep) {
  absl::MutexLock lock(&disk_->mutex);
  if (absl::Status status = CheckWriter(epoch); !status.ok()) return status;
  if (absl::Status known = CheckKnown(sweep, Last()); !known.ok()) return known;
  Swept swept;
  for (auto blob = disk_->blobs.begin(); blob != disk_->blobs.end();) {
    const auto mark = disk_->unnamed.find(blob->first);
    const auto bytes = static_cast<int64_t>(blob->second.size());
    const Fate fate =
        FateOf(sweep, blob->first, mark == disk_->unnamed.end() ? nullptr : &mark->second);
    Count(fate, bytes, swept);
    if (fate == Fate::kNamed || fate == Fate::kRemove) disk_->unnamed.erase(blob->first);
    if (fate == Fate::kMark) disk_->unnamed[blob->first] = {sweep.now_s, Last()};
    if (fate == Fate::kConfirm) disk_->unnamed[blob->first] = {sweep.now_s, 0};
    blob = fate == Fate::kRemove ? disk_->blobs.erase(blob) : std::next(blob);
  }
  sweep.at.clear();
  return swept;
}

void MemoryStore::AddFacts(const std::vector<Facts>& facts) {
  disk_->mutex.AssertHeld();
  const auto size = [](const Facts& one) {
    return static_cast<int64_t>(one.subject.size() + one.name.size() + one.head.size() +
                                one.body.size());
  };
  for (const Facts& one : facts) {
    disk_->facts_of[one.subject].push_back(disk_->kept.forgotten + disk_->kept.count);
    disk_->facts.push_back(one);
    ++disk_->kept.count;
    disk_->kept.bytes += size(one);
  }
  while (disk_->kept.bytes > disk_->facts_bytes) {
    const auto of = disk_->facts_of.find(disk_->facts.front().subject);
    of->second.pop_front();
    if (of->second.empty()) disk_->facts_of.erase(of);
    disk_->kept.bytes -= size(disk_->facts.front());
    --disk_->kept.count;
    ++disk_->kept.forgotten;
    disk_->facts.pop_front();
  }
}

absl::StatusOr<int64_t> MemoryStore::LastRevision() {
  absl::MutexLock lock(&disk_->mutex);
  if (absl::Status status = CheckOpen(); !status.ok()) return status;
  return Last();
}

absl::StatusOr<std::vector<Record>> MemoryStore::Read(int64_t after, size_t limit) {
  if (limit < 1 || limit > kMaxReadEvents) {
    return absl::InvalidArgumentError(
        absl::StrCat("a read of ", limit, " events: the limit is 1 to ", kMaxReadEvents));
  }
  absl::MutexLock lock(&disk_->mutex);
  if (absl::Status status = CheckOpen(); !status.ok()) return status;
  const int64_t first = std::max(disk_->first, disk_->checkpoint - disk_->kept_events);
  if (after < first) {
    return absl::OutOfRangeError(absl::StrCat("the log begins after event ", first));
  }
  std::vector<Record> records;
  for (auto at = static_cast<size_t>(after - disk_->first);
       at < disk_->log.size() && records.size() < limit; ++at) {
    records.push_back({disk_->first + static_cast<int64_t>(at) + 1, disk_->log[at].bytes});
  }
  if (!records.empty()) known_ = std::max(known_, records.back().revision);
  return records;
}

absl::Status MemoryStore::SaveCheckpoint(int64_t epoch, const Checkpoint& checkpoint) {
  absl::MutexLock lock(&disk_->mutex);
  if (absl::Status status = CheckWriter(epoch); !status.ok()) return status;
  const int64_t last = Last();
  if (checkpoint.revision > last || checkpoint.revision < disk_->checkpoint) {
    return absl::InvalidArgumentError(absl::StrCat("a checkpoint of revision ", checkpoint.revision,
                                                   ": the last one is of ", disk_->checkpoint,
                                                   ", and the log ends at ", last));
  }
  for (const std::string& key : checkpoint.erase) disk_->entries.erase(key);
  for (const Entry& entry : checkpoint.put) disk_->entries[entry.key] = entry.bytes;
  for (const Entry& entry : checkpoint.archive) disk_->archive[entry.key] = entry.bytes;
  disk_->checkpoint = checkpoint.revision;
  return absl::OkStatus();
}

absl::StatusOr<int64_t> MemoryStore::LoadCheckpoint(const std::function<void(Entry)>& take) {
  absl::MutexLock lock(&disk_->mutex);
  if (absl::Status status = CheckOpen(); !status.ok()) return status;
  for (const auto& [key, bytes] : disk_->entries) take({key, bytes});
  return disk_->checkpoint;
}

absl::Status MemoryStore::ReadArchive(const std::string& prefix,
                                      const std::function<bool(Entry)>& take) {
  absl::MutexLock lock(&disk_->mutex);
  if (absl::Status status = CheckOpen(); !status.ok()) return status;
  for (auto entry = disk_->archive.lower_bound(prefix);
       entry != disk_->archive.end() && entry->first.compare(0, prefix.size(), prefix) == 0;
       ++entry) {
    if (!take({entry->first, entry->second})) break;
  }
  return absl::OkStatus();
}

absl::Status MemoryStore::ReadFacts(const std::string& subject, bool bodies,
                                    const std::function<bool(Facts)>& take) {
  absl::MutexLock lock(&disk_->mutex);
  if (absl::Status status = CheckOpen(); !status.ok()) return status;
  const auto of = disk_->facts_of.find(subject);
  if (of == disk_->facts_of.end()) return absl::OkStatus();
  for (auto number = of->second.rbegin(); number != of->second.rend(); ++number) {
    Facts read = disk_->facts[static_cast<size_t>(*number - disk_->kept.forgotten)];
    if (!bodies) read.body.clear();
    if (!take(std::move(read))) break;
  }
  return absl::OkStatus();
}

absl::StatusOr<FactsKept> MemoryStore::CountFacts() {
  absl::MutexLock lock(&disk_->mutex);
  if (absl::Status status = CheckOpen(); !status.ok()) return status;
  return disk_->kept;
}

absl::StatusOr<std::string> MemoryStore::Put(absl::string_view bytes) {
  absl::MutexLock lock(&disk_->mutex);
  if (absl::Status status = CheckOpen(); !status.ok()) return status;
  std::string digest = DigestOf(bytes);
  AddBlob(std::string(bytes));
  return digest;
}

absl::StatusOr<std::string> MemoryStore::Get(const std::string& digest) {
  absl::MutexLock lock(&disk_->mutex);
  if (absl::Status status = CheckOpen(); !status.ok()) return status;
  const auto found = disk_->blobs.find(digest);
  if (found == disk_->blobs.end()) {
    return absl::NotFoundError(absl::StrCat("no blob has the digest '", digest, "'"));
  }
  if (base::Sha256Hex(found->second) != digest) {
    return absl::DataLossError(absl::StrCat("the blob ", digest, " is not what was written"));
  }
  return found->second;
}

absl::Status MemoryStore::Close() {
  absl::MutexLock lock(&disk_->mutex);
  closed_ = true;
  return absl::OkStatus();
}

}  // namespace warpsmith::store
