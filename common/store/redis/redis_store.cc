#include "common/store/redis/redis_store.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <random>
#include <set>
#include <system_error>
#include <tuple>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/base/file.h"
#include "common/base/sha256.h"
#include "common/store/checksum.h"
#include "common/store/redis/records.h"

namespace warpsmith::store {
namespace {

using redis::AppendPlace;
using redis::Arguments;
using redis::Damaged;
using redis::kPlaceBytes;
using redis::PlaceOf;
using redis::Reply;
using redis::SizeOf;
using redis::TheScripts;

constexpr char kStoreFile[] = "store";  // in the shared folder: the id of whose it is
constexpr size_t kMaxClusterName = 64;
// What is larger goes into the shared folder: a server's memory is dear.
constexpr size_t kMostInRedis = 1024;
// Of a log's page, and of an archive's.
constexpr size_t kPageEvents = 1000;
constexpr size_t kPageEntries = 500;
// A checkpoint that is saved while it is read is read again.
constexpr int kCheckpointTries = 50;

absl::Status Closed() { return absl::FailedPreconditionError("the store is closed"); }

absl::Status CheckSize(const char* what, size_t size, size_t limit) {
  if (size <= limit) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, " of ", size, " bytes is larger than the store takes (", limit, ")"));
}

std::string DigestOf(absl::string_view bytes) {
  return base::Sha256Hex(std::string_view(bytes.data(), bytes.size()));
}

bool IsClusterName(absl::string_view name) {
  return !name.empty() && name.size() <= kMaxClusterName &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' ||
                  c == '-';
         });
}

constexpr char kLostItsEnd[] =
    ": it has lost what it had made durable (a replica that was behind?). Bring back the newer "
    "one, or go on with `warpsmith store accept-loss`";

absl::Status LostEpoch(int64_t epoch, int64_t known) {
  return absl::DataLossError(
      absl::StrCat("the epoch in Redis is ", epoch, ", and was ", known, kLostItsEnd));
}

absl::Status KnownLost(absl::string_view event) {
  return absl::DataLossError(absl::StrCat("the log in Redis is not whole: event ", event,
                                          " was there, as a planner has found", kLostItsEnd));
}

}  // namespace

struct RedisStore::Written {
  std::vector<std::pair<std::string, std::string>> blobs;  // digest, value
  std::map<std::string, std::string> newest;               // place of each subject's
  int64_t facts_bytes = 0;
  int64_t facts_count = 0;
};

// ---- opening -----------------------------------------------------------------------------------

RedisStore::RedisStore(const Options& options)
    : options_(options),
      writer_(options.server, options.limit),
      blobs_(options.folder + "/" + kBulkFolder, "blobs", options.bulk_file_bytes,
             [this] { return NewFile(); }),
      facts_(options.folder + "/" + kBulkFolder, "facts", options.bulk_file_bytes,
             [this] { return NewFile(); }),
      reader_(options.server, options.limit),
      standing_(options.server, options.standing_limit) {
  for (const char* name : {"meta", "log", "state", "next", "archive", "archived", "blobs", "facts",
                           "files", "unnamed"}) {
    keys_.push_back(absl::StrCat("warpsmith:{", options.cluster, "}:", name));
  }
  key_views_.assign(keys_.begin(), keys_.end());
}

RedisStore::~RedisStore() { Close().IgnoreError(); }

absl::StatusOr<std::unique_ptr<RedisStore>> RedisStore::Open(const Options& options) {
  if (absl::Status address = redis::ValidateAddress(options.server.address); !address.ok()) {
    return address;
  }
  if (!IsClusterName(options.cluster)) {
    return absl::InvalidArgumentError(absl::StrCat("'", options.cluster,
                                                   "' is no name of a cluster: letters, digits, ",
                                                   "'.', '_' and '-', up to ", kMaxClusterName));
  }
  if (options.folder.empty()) {
    return absl::InvalidArgumentError("a folder that all planners of the store reach is needed");
  }
  std::unique_ptr<RedisStore> store(new RedisStore(options));
  if (absl::Status status = store->OpenStore(); !status.ok()) return status;
  return store;
}

absl::Status RedisStore::OpenStore() {
  absl::MutexLock lock(&write_mutex_);
  absl::StatusOr<std::vector<std::string>> risks = redis::RisksOf(writer_);
  if (!risks.ok()) return risks.status();
  risks_ = *std::move(risks);
  if (!risks_.empty() && !options_.accept_loss) {
    return absl::FailedPreconditionError(
        absl::StrCat("Redis at ", writer_.address(), " may lose what it answered for (",
                     absl::StrJoin(risks_, "; "), "): set it right, or accept that"));
  }
  std::random_device random;
  const std::string id = absl::StrFormat("%08x%08x", random(), random());
  absl::StatusOr<Reply> opened =
      writer_.Run(TheScripts().open, key_views_, {id, absl::StrCat(redis::kSchema)});
  if (!opened.ok()) return opened.status();
  if (opened->at(0).number() != redis::kSchema) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the store '", options_.cluster, "' in Redis has schema ", opened->at(0).text(),
        ", and this program reads ", redis::kSchema, ": use the version that wrote it"));
  }
  id_ = std::string(opened->at(1).text());
  generation_ = opened->at(3).number();
  return CheckFolder(opened->at(2).number());
}

// The folder is the one in which this store's files are: another one, or a mount point with nothing
// mounted, would be taken for one that has lost them all.
absl::Status RedisStore::CheckFolder(int64_t files) const {
  std::error_code error;
  std::filesystem::create_directories(options_.folder, error);
  if (error) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot make the folder ", options_.folder, ": ", error.message()));
  }
  const std::string path = absl::StrCat(options_.folder, "/", kStoreFile);
  const absl::StatusOr<std::string> there = base::ReadFile(path);
  if (there.ok()) {
    const absl::string_view theirs = absl::StripAsciiWhitespace(*there);
    if (theirs == id_) return absl::OkStatus();
    return absl::FailedPreconditionError(
        absl::StrCat(options_.folder, " is the folder of the store ", theirs, ", and Redis holds ",
                     id_, ": name the folder of this one"));
  }
  if (files > 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " is not there, but the store has files in its folder: is it mounted, ",
                     "and the same on every host?"));
  }
  return base::WriteFileAtomically(path, id_ + "\n");
}

absl::Status RedisStore::Close() {
  closed_ = true;
  {
    absl::MutexLock lock(&write_mutex_);
    writer_.Disconnect();
  }
  {
    absl::MutexLock lock(&read_mutex_);
    reader_.Disconnect();
  }
  absl::MutexLock lock(&standing_mutex_);
  standing_.Disconnect();
  return absl::OkStatus();
}

absl::Status RedisStore::OtherStore(const std::string& there) const {
  return absl::FailedPreconditionError(absl::StrCat(
      "Redis held the store ", id_, " and holds ", there.empty() ? "none now" : there + " now",
      ": it was emptied, replaced, or never wrote to its disk"));
}

absl::Status RedisStore::CheckStore(const Reply& id) const {
  if (id.text() == id_) return absl::OkStatus();
  return OtherStore(id.is_nil() ? "" : std::string(id.text()));
}

absl::Status RedisStore::Explain(const absl::Status& status, int64_t epoch) const {
  const auto [word, detail] = redis::Refused(status);
  int64_t number = 0;
  const bool is_number = absl::SimpleAtoi(detail, &number);
  if (word == "STALE" && is_number && number < epoch) return LostEpoch(number, epoch);
  if (word == "STALE") return StaleEpoch(epoch, is_number ? number : -1);
  if (word == "LOST") return KnownLost(detail);
  if (word == "OTHERSTORE") return OtherStore(detail == "none" ? "" : detail);
  if (word == "NOTEMPTY") {
    return absl::FailedPreconditionError(absl::StrCat(
        "the store '", options_.cluster, "' in Redis is in use, its log ends at revision ", detail,
        ": name another cluster, or remove its keys"));
  }
  if (word == "EMPTIED") {
    return absl::FailedPreconditionError(absl::StrCat(
        "the store '", options_.cluster, "' in Redis was emptied for a backup that is ",
        "to be restored: say `warpsmith store restore` again"));
  }
  return status;
}

absl::StatusOr<Reply> RedisStore::Run(const redis::Script& script, Arguments arguments,
                                      int64_t epoch) {
  if (closed_) return Closed();
  arguments.insert(arguments.begin(), id_);
  absl::StatusOr<Reply> reply = writer_.Run(script, key_views_, arguments);
  if (reply.ok()) return reply;
  return Marked(writer_, Explain(reply.status(), epoch));
}

absl::StatusOr<Reply> RedisStore::Read(const Arguments& command) {
  if (closed_) return Closed();
  return reader_.Do(command);
}

absl::StatusOr<int64_t> RedisStore::Meta(absl::string_view field) {
  absl::StatusOr<Reply> reply = Read(Arguments{"HMGET", keys_[redis::kMeta], "id", field});
  if (!reply.ok()) return reply.status();
  if (absl::Status same = CheckStore(reply->at(0)); !same.ok()) return same;
  return reply->at(1).number();
}

absl::StatusOr<Identity> RedisStore::Identify() {
  absl::MutexLock lock(&read_mutex_);
  absl::StatusOr<int64_t> generation = Meta("generation");
  if (!generation.ok()) return generation.status();
  return Identity{id_, *generation};
}

// ---- who leads ---------------------------------------------------------------------------------

absl::StatusOr<int64_t> RedisStore::LeadAs(const std::string& epoch, const std::string& beat,
                                           const std::string& address) {
  absl::MutexLock lock(&write_mutex_);
  int64_t expected = 0;
  if (!absl::SimpleAtoi(epoch, &expected)) expected = -1;
  absl::StatusOr<Reply> raised = Run(TheScripts().lead, {epoch, beat, address}, expected);
  if (!raised.ok()) return raised.status();
  // Each epoch has files of its own: what facts name as before them lies in a file before.
  blobs_end_ = facts_end_ = {0, 0};
  blobs_.BeginAnew();
  facts_.BeginAnew();
  return raised->number();
}

absl::StatusOr<int64_t> RedisStore::LeadAfter(const Standing& seen, const std::string& address) {
  return LeadAs(absl::StrCat(seen.epoch), absl::StrCat(seen.beat), address);
}

absl::StatusOr<Standing> RedisStore::Look() {
  absl::MutexLock lock(&standing_mutex_);
  if (closed_) return Closed();
  const int64_t known = known_;  // before it is asked: others go on meanwhile
  absl::StatusOr<Reply> reply =
      standing_.Do({"HMGET", keys_[redis::kMeta], "id", "epoch", "beat", "leader", "last",
                    "checkpoint", "generation", "lost"});
  if (!reply.ok()) return reply.status();
  if (absl::Status same = CheckStore(reply->at(0)); !same.ok()) return same;
  Standing standing = {
      reply->at(1).number(), reply->at(2).number(), std::string(reply->at(3).text()),
      reply->at(4).number(), reply->at(5).number(), TokenOf({id_, reply->at(6).number()})};
  // Of another history nothing was known.
  if (reply->at(6).number() != generation_) return standing;
  if (!reply->at(7).is_nil()) return KnownLost(reply->at(7).text());
  absl::Status whole = CheckLast(standing.last, known);
  if (whole.ok() && standing.epoch < known_epoch_) {
    whole = LostEpoch(standing.epoch, known_epoch_);
  }
  if (!whole.ok()) return Marked(standing_, whole);
  known_epoch_ = standing.epoch;
  return standing;
}

absl::Status RedisStore::Beat(int64_t epoch, const std::string& address) {
  absl::MutexLock lock(&standing_mutex_);
  if (closed_) return Closed();
  const std::string number = absl::StrCat(epoch);
  const int64_t known = known_;
  absl::StatusOr<Reply> last = standing_.Run(TheScripts().beat, key_views_, {id_, number, address});
  return Marked(standing_,
                last.ok() ? CheckLast(last->number(), known) : Explain(last.status(), epoch));
}

void RedisStore::Know(int64_t revision) {
  int64_t known = known_;
  while (known < revision && !known_.compare_exchange_weak(known, revision)) {
  }
}

absl::Status RedisStore::CheckLast(int64_t last, int64_t known) {
  if (last >= known) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("the log in Redis ends at event ", last, ", and event ",
                                          known, " was there", kLostItsEnd));
}

// What is known to be missing nobody is to go on without: it stands in the store itself.
absl::Status RedisStore::Marked(redis::Connection& server, const absl::Status& status) {
  if (!absl::IsDataLoss(status)) return status;
  const std::string generation = absl::StrCat(generation_), known = absl::StrCat(known_.load());
  server.Run(TheScripts().lose, key_views_, {id_, generation, known}).status().IgnoreError();
  return status;
}

absl::StatusOr<int64_t> RedisStore::NewFile() {
  absl::MutexLock lock(&standing_mutex_);
  if (closed_) return Closed();
  absl::StatusOr<Reply> number = standing_.Run(TheScripts().file, key_views_, {id_});
  if (!number.ok()) return Explain(number.status(), 0);
  return number->number();
}

absl::Status RedisStore::Adopt(const Identity& identity, int64_t revision) {
  absl::MutexLock lock(&write_mutex_);
  const std::string generation = absl::StrCat(identity.generation), first = absl::StrCat(revision);
  absl::Status adopted = Run(TheScripts().adopt, {identity.id, generation, first}, 0).status();
  if (!adopted.ok()) return adopted;
  id_ = identity.id;
  return base::WriteFileAtomically(absl::StrCat(options_.folder, "/", kStoreFile), id_ + "\n");
}

absl::StatusOr<int64_t> RedisStore::RaiseGeneration() {
  absl::MutexLock lock(&write_mutex_);
  absl::StatusOr<Reply> raised = Run(TheScripts().raise, {}, 0);
  if (!raised.ok()) return raised.status();
  return raised->number();
}

absl::Status RedisStore::Empty() {
  absl::MutexLock lock(&write_mutex_);
  return Run(TheScripts().empty, {}, 0).status();
}

// ---- writing -----------------------------------------------------------------------------------

absl::Status RedisStore::Commit(const Batch& batch) {
  for (const std::string& event : batch.events) {
    if (absl::Status size = CheckSize("an event", event.size(), kMaxEventBytes); !size.ok()) {
      return size;
    }
  }
  for (const std::string& blob : batch.blobs) {
    if (absl::Status size = CheckSize("a blob", blob.size(), kMaxBlobBytes); !size.ok()) {
      return size;
    }
  }
  for (const Facts& facts : batch.facts) {
    const auto bytes = static_cast<size_t>(SizeOf(facts));
    if (absl::Status size = CheckSize("facts", bytes, kMaxFactsBytes); !size.ok()) return size;
  }

  absl::MutexLock lock(&write_mutex_);
  const std::string epoch = absl::StrCat(batch.epoch), after = absl::StrCat(batch.after);
  const std::string label = redis::LabelOf(batch);
  std::set<std::string> subjects;
  for (const Facts& facts : batch.facts) subjects.insert(facts.subject);
  std::vector<std::string> digests;  // as bytes
  for (const std::string& blob : batch.blobs) {
    digests.push_back(absl::HexStringToBytes(DigestOf(blob)));
  }
  const std::string subject_count = absl::StrCat(subjects.size());
  const std::string digest_count = absl::StrCat(digests.size());
  Arguments asked = {epoch, subject_count, digest_count};
  asked.insert(asked.end(), subjects.begin(), subjects.end());
  asked.insert(asked.end(), digests.begin(), digests.end());
  const int64_t known = known_;
  absl::StatusOr<Reply> before = Run(TheScripts().before, asked, batch.epoch);
  if (!before.ok()) return before.status();
  const int64_t last = before->at(0).number();
  if (last != batch.after) {
    if (!label.empty() && before->at(2).text() == label) {
      Know(last);
      return absl::OkStatus();
    }
    if (absl::Status whole = CheckLast(last, known); !whole.ok()) return Marked(writer_, whole);
    return absl::FailedPreconditionError(
        absl::StrCat("the log ends at revision ", last, ", not at ", batch.after));
  }

  Written written;
  if (absl::Status bulk = WriteBulk(batch, *before, written); !bulk.ok()) return bulk;

  int64_t sum = before->at(1).number();
  std::vector<std::string> sums;
  sums.reserve(batch.events.size());
  for (const std::string& event : batch.events) {
    sum = Checksum(event, sum);
    sums.push_back(absl::StrCat(sum));
  }
  const std::string end = absl::StrCat(last + static_cast<int64_t>(batch.events.size()));
  const std::string counts[] = {absl::StrCat(batch.events.size()),
                                absl::StrCat(written.blobs.size()),
                                absl::StrCat(written.newest.size())};
  const std::string file = absl::StrCat(facts_end_.file);
  const std::string bytes = absl::StrCat(written.facts_bytes);
  const std::string facts_count = absl::StrCat(written.facts_count);
  const std::string end_sum = absl::StrCat(sum);
  Arguments arguments = {epoch,     after,     label, end,   end_sum,    counts[0],
                         counts[1], counts[2], file,  bytes, facts_count};
  for (size_t i = 0; i < batch.events.size(); ++i) {
    arguments.push_back(sums[i]);
    arguments.push_back(batch.events[i]);
  }
  for (const auto& [digest, value] : written.blobs) {
    arguments.push_back(digest);
    arguments.push_back(value);
  }
  for (const auto& [subject, place] : written.newest) {
    arguments.push_back(subject);
    arguments.push_back(place);
  }
  absl::StatusOr<Reply> committed = Run(TheScripts().commit, arguments, batch.epoch);
  if (!committed.ok()) return committed.status();
  Know(last + static_cast<int64_t>(batch.events.size()));
  // What cannot be removed now is removed after a later commit.
  if (committed->number() > options_.facts_bytes) Forget(batch.epoch).IgnoreError();
  return absl::OkStatus();
}

absl::Status RedisStore::WriteBulk(const Batch& batch, const Reply& before, Written& written) {
  std::set<std::string> added;
  for (size_t i = 0; i < batch.blobs.size(); ++i) {
    const std::string& blob = batch.blobs[i];
    std::string digest = absl::HexStringToBytes(DigestOf(blob));
    if (!added.insert(digest).second) continue;
    if (before.at(4).at(i).number() != 0) {
      written.blobs.emplace_back(std::move(digest), "");  // it is there, and named again
      continue;
    }
    std::string value = "i";
    if (blob.size() <= kMostInRedis) {
      value.append(blob);
    } else {
      absl::StatusOr<Place> place = blobs_.Append(blob, blobs_end_);
      if (!place.ok()) return place.status();
      value = "p";
      AppendPlace(*place, value);
    }
    written.blobs.emplace_back(std::move(digest), std::move(value));
  }
  // Each subject's newest so far, in the order in which they were asked for.
  std::map<std::string, Place> newest;
  for (const Facts& facts : batch.facts) newest[facts.subject] = Place();
  size_t asked = 0;
  for (auto& [subject, place] : newest) place = PlaceOf(before.at(3).at(asked++).text());
  for (const Facts& facts : batch.facts) {
    Place& last = newest[facts.subject];
    absl::StatusOr<Place> place = facts_.Append(redis::FactsBytes(facts, last), facts_end_);
    if (!place.ok()) return place.status();
    last = *place;
    written.facts_bytes += SizeOf(facts);
    ++written.facts_count;
  }
  for (const auto& [subject, place] : newest) AppendPlace(place, written.newest[subject]);
  if (absl::Status synced = blobs_.Sync(); !synced.ok()) return synced;
  return facts_.Sync();
}

// The oldest files, until there is room for the rest; never the one that is written to.
absl::Status RedisStore::Forget(int64_t epoch) {
  absl::StatusOr<Reply> counts = writer_.Do({"HKEYS", keys_[redis::kFiles]});
  if (!counts.ok()) return counts.status();
  std::set<int64_t> files;
  for (size_t i = 0; i < counts->size(); ++i) {
    int64_t number = 0;
    const absl::string_view field = counts->at(i).text();
    if (absl::SimpleAtoi(field.substr(0, field.find(':')), &number)) files.insert(number);
  }
  while (files.size() > 1) {
    const int64_t oldest = *files.begin();
    if (oldest == facts_end_.file) break;
    files.erase(files.begin());
    const std::string numbers[] = {absl::StrCat(epoch), absl::StrCat(oldest),
                                   absl::StrCat(*files.begin())};
    absl::StatusOr<Reply> left =
        Run(TheScripts().forget, {numbers[0], numbers[1], numbers[2]}, epoch);
    if (!left.ok()) return left.status();
    if (absl::Status removed = facts_.RemoveBefore(*files.begin()); !removed.ok()) return removed;
    if (left->number() <= options_.facts_bytes) break;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> RedisStore::Put(absl::string_view bytes) {
  absl::MutexLock lock(&write_mutex_);
  if (closed_) return Closed();
  if (absl::Status size = CheckSize("a blob", bytes.size(), kMaxBlobBytes); !size.ok()) return size;
  const std::string hex = DigestOf(bytes), digest = absl::HexStringToBytes(hex);
  std::string value = "i";
  if (bytes.size() <= kMostInRedis) {
    value.append(bytes.data(), bytes.size());
  } else {
    absl::StatusOr<Place> place = blobs_.Append(bytes, blobs_end_);
    if (!place.ok()) return place.status();
    if (absl::Status synced = blobs_.Sync(); !synced.ok()) return synced;
    value = "p";
    AppendPlace(*place, value);
  }
  absl::StatusOr<Reply> put = Run(TheScripts().put, {digest, value}, 0);
  if (!put.ok()) return put.status();
  return hex;
}

absl::Status RedisStore::SaveCheckpoint(int64_t epoch, const Checkpoint& checkpoint) {
  absl::MutexLock lock(&write_mutex_);
  struct Change {
    const char* kind;
    absl::string_view key;
    std::string value;
  };
  std::vector<Change> changes;
  for (const Entry& entry : checkpoint.put)
    changes.push_back({"p", entry.key, redis::ValueOf(entry)});
  for (const Entry& entry : checkpoint.archive)
    changes.push_back({"a", entry.key, redis::ValueOf(entry)});
  for (const std::string& key : checkpoint.erase) changes.push_back({"e", key, ""});

  const std::string number = absl::StrCat(epoch), revision = absl::StrCat(checkpoint.revision);
  Arguments piece;
  size_t bytes = 0;
  bool staged = false;
  for (const Change& change : changes) {
    const size_t size = change.key.size() + change.value.size();
    if (bytes > 0 && bytes + size > options_.piece_bytes) {
      Arguments stage = {number, staged ? "0" : "1"};
      stage.insert(stage.end(), piece.begin(), piece.end());
      if (absl::Status said = Run(TheScripts().stage, stage, epoch).status(); !said.ok()) {
        return said;
      }
      staged = true;
      piece.clear();
      bytes = 0;
    }
    piece.insert(piece.end(), {change.kind, change.key, change.value});
    bytes += size;
  }
  const std::string kept = absl::StrCat(options_.kept_events);
  Arguments last = {number, revision, kept};
  if (staged) last.insert(last.end(), {"s", "", ""});
  last.insert(last.end(), piece.begin(), piece.end());
  absl::Status saved = Run(TheScripts().checkpoint, last, epoch).status();
  const auto [word, detail] = redis::Refused(saved);
  if (word != "BOUNDS") return saved;
  const std::vector<std::string> bounds = absl::StrSplit(detail, ' ');
  return absl::InvalidArgumentError(absl::StrCat("a checkpoint of revision ", checkpoint.revision,
                                                 ": the last one is of ", bounds.front(),
                                                 ", and the log ends at ", bounds.back()));
}

// ---- reading -----------------------------------------------------------------------------------

absl::StatusOr<int64_t> RedisStore::LastRevision() {
  absl::MutexLock lock(&read_mutex_);
  return Meta("last");
}

absl::StatusOr<std::vector<Record>> RedisStore::Read(int64_t after, size_t limit) {
  if (limit < 1 || limit > kMaxReadEvents) {
    return absl::InvalidArgumentError(
        absl::StrCat("a read of ", limit, " events: the limit is 1 to ", kMaxReadEvents));
  }
  absl::MutexLock lock(&read_mutex_);
  if (closed_) return Closed();
  after = std::max<int64_t>(after, 0);
  std::vector<Record> records;
  int64_t last = -1;  // of the log, as it was when the first page was read
  int64_t sum = 0;
  while (records.size() < limit && (last < 0 || after < last)) {
    // From the event before on, for its checksum.
    const std::string from = absl::StrCat(after),
                      count = absl::StrCat(std::min(kPageEvents, limit - records.size()) + 1);
    absl::StatusOr<Reply> page =
        reader_.Run(TheScripts().read, key_views_, {id_, from == "0" ? "1" : from, count});
    if (!page.ok()) return Explain(page.status(), 0);
    const int64_t first = page->at(0).number();
    if (last < 0) last = page->at(2).number();
    if (after < first) {
      return absl::OutOfRangeError(absl::StrCat("the log is kept from event ", first + 1,
                                                " on: what was before is in the checkpoint"));
    }
    if (after >= last) break;
    if (after == first) sum = page->at(1).number();
    const Reply events = page->at(3);
    const size_t records_before = records.size();
    for (size_t i = 0; i < events.size() && records.size() < limit && after < last; ++i) {
      const absl::string_view name = events.at(i).at(0).text();
      const Reply fields = events.at(i).at(1);
      int64_t revision = 0;
      const bool whole =
          absl::SimpleAtoi(name.substr(0, name.find('-')), &revision) && fields.size() == 4;
      if (whole && revision == after && i == 0) {
        sum = fields.at(1).number();
        continue;
      }
      if (!whole || revision != after + 1) {
        return Damaged(absl::StrCat("the log has no event ", after + 1, ", of ", last));
      }
      Record record{revision, std::string(fields.at(3).text())};
      sum = Checksum(record.bytes, sum);
      if (sum != fields.at(1).number()) {
        return Damaged(absl::StrCat("event ", revision, " of the log is not what was written"));
      }
      records.push_back(std::move(record));
      after = revision;
    }
    if (records.size() == records_before) {
      return Damaged(absl::StrCat("the log has no event ", after + 1, ", of ", last));
    }
  }
  if (!records.empty()) Know(records.back().revision);
  return records;
}

absl::StatusOr<int64_t> RedisStore::LoadCheckpoint(const std::function<void(Entry)>& take) {
  absl::MutexLock lock(&read_mutex_);
  if (closed_) return Closed();
  // Whole, unless it was saved meanwhile.
  const Arguments numbers = {"HMGET", keys_[redis::kMeta], "id", "saved", "checkpoint", "entries"};
  absl::StatusOr<std::vector<Reply>> read;
  for (int tries = 0; tries < kCheckpointTries; ++tries) {
    read = reader_.DoInARow({numbers, {"HGETALL", keys_[redis::kState]}, numbers});
    if (!read.ok()) return read.status();
    if ((*read)[0].at(1).number() == (*read)[2].at(1).number()) break;
  }
  if (absl::Status same = CheckStore((*read)[0].at(0)); !same.ok()) return same;
  if ((*read)[0].at(1).number() != (*read)[2].at(1).number()) {
    return absl::UnavailableError("the checkpoint is saved more often than it can be read");
  }
  const int64_t revision = (*read)[0].at(2).number(), entries = (*read)[0].at(3).number();
  const Reply& all = (*read)[1];
  if (static_cast<int64_t>(all.size()) != 2 * entries) {
    return Damaged(absl::StrCat("the checkpoint of revision ", revision,
                                " is not whole: ", all.size() / 2, " entries of ", entries));
  }
  for (size_t i = 0; i + 1 < all.size(); i += 2) {
    absl::StatusOr<Entry> entry =
        redis::EntryOf(all.at(i).text(), all.at(i + 1).text(), "checkpoint");
    if (!entry.ok()) return entry.status();
    take(*std::move(entry));
  }
  return revision;
}

absl::Status RedisStore::ReadArchive(const std::string& prefix,
                                     const std::function<bool(Entry)>& take) {
  absl::MutexLock lock(&read_mutex_);
  if (closed_) return Closed();
  std::string from = absl::StrCat("[", prefix);
  const std::string count = absl::StrCat(kPageEntries);
  while (true) {
    absl::StatusOr<Reply> keys =
        reader_.Do({"ZRANGEBYLEX", keys_[redis::kArchived], from, "+", "LIMIT", "0", count});
    if (!keys.ok()) return keys.status();
    if (keys->size() == 0) return absl::OkStatus();
    Arguments wanted = {"HMGET", keys_[redis::kArchive]};
    for (size_t i = 0; i < keys->size(); ++i) wanted.push_back(keys->at(i).text());
    absl::StatusOr<Reply> values = reader_.Do(wanted);
    if (!values.ok()) return values.status();
    for (size_t i = 0; i < keys->size(); ++i) {
      const absl::string_view key = keys->at(i).text();
      if (key.substr(0, prefix.size()) != prefix) return absl::OkStatus();
      absl::StatusOr<Entry> entry = redis::EntryOf(key, values->at(i).text(), "archive");
      if (!entry.ok()) return entry.status();
      if (!take(*std::move(entry))) return absl::OkStatus();
    }
    from = absl::StrCat("(", keys->at(keys->size() - 1).text());
  }
}

absl::StatusOr<std::string> RedisStore::ValueOf(const std::string& digest) {
  absl::MutexLock lock(&read_mutex_);
  const std::string key = absl::HexStringToBytes(digest);
  absl::StatusOr<Reply> reply = Read(Arguments{"HGET", keys_[redis::kBlobs], key});
  if (!reply.ok()) return reply.status();
  if (reply->is_nil()) {
    return absl::NotFoundError(absl::StrCat("no blob has the digest '", digest, "'"));
  }
  return std::string(reply->text());
}

absl::StatusOr<std::string> RedisStore::Get(const std::string& digest) {
  absl::StatusOr<std::string> value = ValueOf(digest);
  while (value.ok()) {
    absl::StatusOr<std::string> bytes = value->substr(std::min<size_t>(value->size(), 1));
    if (value->size() == 1 + kPlaceBytes && (*value)[0] == 'p') {
      bytes = blobs_.Read(PlaceOf(*bytes));
    }
    if (bytes.ok() && DigestOf(*bytes) == digest) return bytes;
    if (!bytes.ok() && !absl::IsDataLoss(bytes.status())) return bytes;
    // Perhaps it was moved meanwhile.
    absl::StatusOr<std::string> now = ValueOf(digest);
    if (now.ok() && *now == *value) {
      return Damaged(bytes.ok()
                         ? absl::StrCat("the blob ", digest, " is not what was written")
                         : absl::StrCat("the blob ", digest, ": ", bytes.status().message()));
    }
    value = std::move(now);
  }
  return value.status();
}

absl::Status RedisStore::ReadFacts(const std::string& subject, bool bodies,
                                   const std::function<bool(Facts)>& take) {
  Place place;
  const auto oldest = [&]() -> absl::StatusOr<int64_t> {
    absl::MutexLock lock(&read_mutex_);
    return Meta("facts_oldest");
  };
  {
    absl::MutexLock lock(&read_mutex_);
    absl::StatusOr<Reply> newest = Read(Arguments{"HGET", keys_[redis::kFacts], subject});
    if (!newest.ok()) return newest.status();
    place = PlaceOf(newest->text());
  }
  absl::StatusOr<int64_t> kept = oldest();
  if (!kept.ok()) return kept.status();
  while (place.file >= std::max<int64_t>(*kept, 1)) {
    Place before;
    absl::StatusOr<Facts> facts = redis::ReadFactsAt(facts_, place, bodies, before);
    if (absl::IsDataLoss(facts.status())) {
      // Perhaps they were forgotten meanwhile.
      kept = oldest();
      if (!kept.ok()) return kept.status();
      if (place.file < *kept) return absl::OkStatus();
      return Damaged(std::string(facts.status().message()));
    }
    if (!facts.ok()) return facts.status();
    if (facts->subject != subject) {
      return Damaged(absl::StrCat("the facts of '", subject, "' are those of another subject"));
    }
    if (!take(*std::move(facts))) return absl::OkStatus();
    if (std::tie(before.file, before.offset) >= std::tie(place.file, place.offset)) {
      return Damaged(absl::StrCat("the facts of '", subject, "' come after themselves"));
    }
    place = before;
  }
  return absl::OkStatus();
}

absl::StatusOr<FactsKept> RedisStore::CountFacts() {
  absl::MutexLock lock(&read_mutex_);
  absl::StatusOr<Reply> counts =
      Read(Arguments{"HMGET", keys_[redis::kMeta], "facts", "facts_bytes", "facts_forgotten"});
  if (!counts.ok()) return counts.status();
  return FactsKept{counts->at(0).number(), counts->at(1).number(), counts->at(2).number()};
}

}  // namespace warpsmith::store
