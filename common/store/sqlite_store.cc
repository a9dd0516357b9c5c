#include "common/store/sqlite_store.h"

#include <filesystem>
#include <optional>
#include <random>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/sha256.h"
#include "common/store/checksum.h"
#include "common/store/manifest.h"
#include "common/store/remains.h"
#include "common/store/rows.h"

namespace warpsmith::store {
namespace {

// Oldest facts that are looked at together when some must go.
constexpr int64_t kForgottenAtOnce = 64;
// What is larger goes into bulk files; less stands in its row, which is one page then.
constexpr size_t kMostInRow = 1024;
// Of blobs that nothing names (store.h, Sweep). Beside the tables of the schema, so that a program
// that does not know of it is not kept from the store: it leaves marks where there should be none,
// which removes nothing that is named.
constexpr char kMarks[] =
    "CREATE TABLE IF NOT EXISTS unnamed (digest TEXT PRIMARY KEY, since INTEGER NOT NULL, "
    "revision INTEGER NOT NULL) WITHOUT ROWID";

absl::Status Damaged(const std::string& what) {
  return absl::DataLossError(absl::StrCat(what, ": `warpsmith store check` lists what is damaged"));
}

// Of what was read: that no error of `statuses` is there; the first one otherwise.
absl::Status All(std::initializer_list<absl::Status> statuses) {
  for (const absl::Status& status : statuses) {
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::StatusOr<BulkFiles::End> EndOf(Database* db, const char* file, const char* end) {
  absl::StatusOr<int64_t> number = Meta(db, file), offset = Meta(db, end);
  if (absl::Status status = All({number.status(), offset.status()}); !status.ok()) return status;
  return BulkFiles::End{*number, *offset};
}

absl::Status Closed() { return absl::FailedPreconditionError("the store is closed"); }

absl::Status CheckSize(const char* what, size_t size, size_t limit) {
  if (size <= limit) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, " of ", size, " bytes is larger than the store takes (", limit, ")"));
}

}  // namespace

SqliteStore::SqliteStore(std::string dir, const Options& options)
    : dir_(std::move(dir)),
      options_(options),
      blobs_{
          {dir_ + "/" + kBulkFolder, "blobs", options_.bulk_file_bytes}, "blobs_file", "blobs_end"},
      facts_{{dir_ + "/" + kBulkFolder, "facts", options_.bulk_file_bytes},
             "facts_file",
             "facts_end"} {}

absl::StatusOr<std::unique_ptr<SqliteStore>> SqliteStore::Open(const std::string& dir,
                                                               const Options& options) {
  std::error_code error;
  std::filesystem::create_directories(dir, error);
  if (error) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot make the folder ", dir, ": ", error.message()));
  }
  if (absl::Status may = CheckNoBackup(dir); !may.ok()) return may;
  std::unique_ptr<SqliteStore> store(new SqliteStore(dir, options));
  absl::StatusOr<FolderLock> lock = FolderLock::Take(dir);
  if (!lock.ok()) return lock.status();
  store->lock_ = *std::move(lock);
  if (absl::Status status = store->OpenDatabase(); !status.ok()) return status;
  return store;
}

SqliteStore::~SqliteStore() { Close().IgnoreError(); }

absl::Status SqliteStore::OpenDatabase() {
  const std::string path = absl::StrCat(dir_, "/", kDatabase);
  absl::MutexLock write_lock(&write_mutex_);
  absl::MutexLock read_lock(&read_mutex_);
  auto writer = Database::Open(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
  if (!writer.ok()) return writer.status();
  writer_ = *std::move(writer);
  if (absl::Status status = PrepareDatabase(); !status.ok()) {
    return absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
  }
  auto reader = Database::Open(path, SQLITE_OPEN_READONLY);
  if (!reader.ok()) return reader.status();
  reader_ = *std::move(reader);
  return Execute(reader_.get(), "PRAGMA busy_timeout=5000");
}

absl::StatusOr<std::unique_ptr<SqliteStore>> SqliteStore::OpenToRead(const std::string& dir) {
  std::unique_ptr<SqliteStore> store(new SqliteStore(dir, Options()));
  if (absl::Status opened = store->OpenMoment(); !opened.ok()) return opened;
  return store;
}

absl::Status SqliteStore::OpenMoment() {
  if (absl::Status there = CheckThere(dir_); !there.ok()) return there;
  const std::string path = absl::StrCat(dir_, "/", kDatabase);
  absl::MutexLock lock(&read_mutex_);
  auto reader = OpenOf(path, SQLITE_OPEN_READONLY);
  if (!reader.ok()) return reader.status();
  reader_ = *std::move(reader);
  const auto hold = [&] {
    const absl::Status held = blobs_.files.Hold();
    return held.ok() ? facts_.files.Hold() : held;
  };
  // The moment is that of the first read. Files that are removed or made around it are held by one
  // of the two.
  if (absl::Status held = hold(); !held.ok()) return held;
  if (absl::Status begun = BeginView(); !begun.ok()) return begun;
  const absl::StatusOr<int64_t> schema = SchemaOf(reader_.get(), "");
  if (!schema.ok()) {
    return absl::Status(schema.status().code(),
                        absl::StrCat(path, ": ", schema.status().message()));
  }
  schema_ = *schema;
  one_moment_ = true;
  return hold();
}

absl::Status SqliteStore::BeginView() {
  return one_moment_ ? absl::OkStatus() : Statement(reader_.get(), "BEGIN").Run();
}

void SqliteStore::EndView() {
  if (!one_moment_) Statement(reader_.get(), "COMMIT").Run().IgnoreError();
}

// Nothing is written to a database of another version.
absl::Status SqliteStore::PrepareDatabase() {
  if (absl::Status status = Execute(writer_.get(), "PRAGMA busy_timeout=5000"); !status.ok()) {
    return status;
  }
  absl::StatusOr<int64_t> tables = QueryInt(
      writer_.get(), "SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND name = 'meta'");
  if (!tables.ok()) return tables.status();
  if (*tables > 0) {
    absl::StatusOr<int64_t> schema = SchemaOf(writer_.get(), ", or another --dir");
    if (!schema.ok()) return schema.status();
    schema_ = *schema;
  }
  for (const char* sql : {kNewPages, "PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL"}) {
    if (absl::Status status = Execute(writer_.get(), sql); !status.ok()) return status;
  }
  absl::Status whole = *tables > 0 ? CheckEnd() : MakeTables();
  if (!whole.ok() || !HasMarks()) return whole;
  return Execute(writer_.get(), kMarks, "making room for marks");
}

absl::Status SqliteStore::MakeTables() {
  return Transaction([&]() -> absl::Status {
    write_mutex_.AssertHeld();
    absl::Status made =
        Steps({[&] { return Execute(writer_.get(), kSchema, "making the tables"); },
               [&] { return Execute(writer_.get(), kArchiveSchema, "making the archive"); },
               [&] { return Execute(writer_.get(), kBulkSchema, "making room for places"); },
               [&] { return BeginBulk(writer_.get(), blobs_.files, facts_.files); }});
    if (!made.ok()) {
      return made;
    }
    std::random_device random;
    const uint64_t id = (static_cast<uint64_t>(random()) << 32) | random();
    Statement insert(writer_.get(), "INSERT INTO meta VALUES ('store', ?)");
    return insert.Int(1, static_cast<int64_t>(id)).Run();
  });
}

// The log and the bulk files end where the last commit left them.
absl::Status SqliteStore::CheckEnd() {
  absl::StatusOr<int64_t> last = Meta(writer_.get(), "last");
  absl::StatusOr<int64_t> checkpoint = Meta(writer_.get(), "checkpoint");
  absl::StatusOr<int64_t> end = QueryInt(
      writer_.get(),
      "SELECT COALESCE(MAX(revision), (SELECT value FROM meta WHERE name = 'first')) FROM events");
  if (absl::Status status = All({last.status(), checkpoint.status(), end.status()}); !status.ok()) {
    return status;
  }
  if (*end != *last || *checkpoint > *last) {
    return Damaged(absl::StrCat("the log has lost its end: it ends at event ", *end, ", but ",
                                *last, " were made durable, and the checkpoint is of ",
                                *checkpoint));
  }
  if (schema_ < kBulkSchemaFrom) return absl::OkStatus();
  for (const Series* series : {&blobs_, &facts_}) {
    absl::StatusOr<BulkFiles::End> reached =
        EndOf(writer_.get(), series->meta_file, series->meta_end);
    if (!reached.ok()) return reached.status();
    if (absl::Status reaches = series->files.CheckReaches(*reached); !reaches.ok()) {
      return Damaged(std::string(reaches.message()));
    }
  }
  return absl::OkStatus();
}

absl::Status SqliteStore::CheckWriter() { return writer_ == nullptr ? Closed() : absl::OkStatus(); }

absl::Status SqliteStore::Transaction(const std::function<absl::Status()>& body) {
  if (absl::Status status = CheckWriter(); !status.ok()) return status;
  if (absl::Status status = Statement(writer_.get(), "BEGIN IMMEDIATE").Run(); !status.ok())
    return status;
  blobs_.appended = facts_.appended = forgot_ = false;
  absl::Status status = body();
  if (status.ok()) status = EndBulk(blobs_);
  if (status.ok()) status = EndBulk(facts_);
  if (status.ok()) status = Statement(writer_.get(), "COMMIT").Run();
  // After some failures SQLite has rolled back by itself.
  if (!status.ok() && sqlite3_get_autocommit(writer_->handle()) == 0) {
    Statement(writer_.get(), "ROLLBACK").Run().IgnoreError();
  }
  if (status.ok() && forgot_) RemoveForgotten();
  return status;
}

bool SqliteStore::IsBulk(absl::string_view bytes) const {
  return bytes.size() > kMostInRow && schema_ >= kBulkSchemaFrom;
}

absl::StatusOr<Place> SqliteStore::AppendBulk(absl::string_view bytes, Series& series) {
  if (!series.appended) {
    absl::StatusOr<BulkFiles::End> end = EndOf(writer_.get(), series.meta_file, series.meta_end);
    if (!end.ok()) return end.status();
    series.end = *end;
    series.appended = true;
  }
  return series.files.Append(bytes, series.end);
}

absl::Status SqliteStore::EndBulk(Series& series) {
  if (!series.appended) return absl::OkStatus();
  if (absl::Status synced = series.files.Sync(); !synced.ok()) return synced;
  return Steps({[&] { return SetMeta(writer_.get(), series.meta_file, series.end.file); },
                [&] { return SetMeta(writer_.get(), series.meta_end, series.end.offset); }});
}

// Bulk files whose facts are all forgotten. What fails here is tried again when more is forgotten.
void SqliteStore::RemoveForgotten() {
  if (schema_ < kBulkSchemaFrom) return;
  int64_t oldest = 0;
  {
    Statement select(writer_.get(), "SELECT file FROM facts ORDER BY number LIMIT 1");
    const absl::StatusOr<bool> row = select.Step();
    if (row.ok() && *row) oldest = select.Int(0);
  }
  if (oldest <= oldest_facts_file_) return;
  absl::MutexLock lock(&read_mutex_);  // whoever reads what is forgotten now has read it
  if (facts_.files.RemoveBefore(oldest).ok()) oldest_facts_file_ = oldest;
}

absl::StatusOr<Identity> SqliteStore::Identify() {
  absl::MutexLock lock(&read_mutex_);
  if (reader_ == nullptr) return Closed();
  absl::StatusOr<int64_t> id = Meta(reader_.get(), "store");
  absl::StatusOr<int64_t> generation = Meta(reader_.get(), "generation");
  absl::StatusOr<int64_t> schema = Meta(reader_.get(), "schema");
  if (absl::Status status = All({id.status(), generation.status(), schema.status()});
      !status.ok()) {
    return status;
  }
  return Identity{absl::StrFormat("%016x", static_cast<uint64_t>(*id)), *generation,
                  *schema >= kArchiveSchemaFrom, *schema == kSchemaVersion};
}

absl::Status SqliteStore::CheckEpoch(int64_t epoch) {
  absl::StatusOr<int64_t> current = Meta(writer_.get(), "epoch");
  if (!current.ok()) return current.status();
  return epoch == *current ? absl::OkStatus() : StaleEpoch(epoch, *current);
}

absl::Status SqliteStore::Adopt(const Identity& identity, int64_t revision) {
  uint64_t id = 0;
  if (!absl::SimpleHexAtoi(identity.id, &id)) {
    return absl::InvalidArgumentError(absl::StrCat("'", identity.id, "' is no store's id"));
  }
  absl::MutexLock lock(&write_mutex_);
  return Transaction([&]() -> absl::Status {
    write_mutex_.AssertHeld();
    absl::StatusOr<int64_t> epoch = Meta(writer_.get(), "epoch"),
                            last = Meta(writer_.get(), "last");
    if (absl::Status status = All({epoch.status(), last.status()}); !status.ok()) return status;
    if (*epoch != 0 || *last != 0 || schema_ != kSchemaVersion) {
      return absl::FailedPreconditionError(
          absl::StrCat(dir_, " holds a store that is in use, its log ends at revision ", *last,
                       ": name another folder"));
    }
    return Steps({[&] { return SetMeta(writer_.get(), "store", static_cast<int64_t>(id)); },
                  [&] { return SetMeta(writer_.get(), "generation", identity.generation); },
                  [&] { return SetMeta(writer_.get(), "first", revision); },
                  [&] { return SetMeta(writer_.get(), "last", revision); }});
  });
}

absl::StatusOr<int64_t> SqliteStore::Lead() {
  absl::MutexLock lock(&write_mutex_);
  int64_t epoch = 0;
  absl::Status status = Transaction([&]() -> absl::Status {
    write_mutex_.AssertHeld();
    if (absl::Status raised = AddToMeta(writer_.get(), "epoch", 1); !raised.ok()) return raised;
    absl::StatusOr<int64_t> current = Meta(writer_.get(), "epoch");
    if (current.ok()) epoch = *current;
    return current.status();
  });
  if (!status.ok()) return status;
  return epoch;
}

absl::Status SqliteStore::InsertBlob(absl::string_view bytes) {
  if (absl::Status status = CheckSize("a blob", bytes.size(), kMaxBlobBytes); !status.ok()) {
    return status;
  }
  const std::string digest = base::Sha256Hex(std::string_view(bytes.data(), bytes.size()));
  if (HasMarks()) {
    Statement unmark(writer_.get(), "DELETE FROM unnamed WHERE digest = ?");
    if (absl::Status unmarked = unmark.Text(1, digest).Run(); !unmarked.ok()) return unmarked;
  }
  if (!IsBulk(bytes)) {
    Statement insert(writer_.get(), "INSERT OR IGNORE INTO blobs (digest, bytes) VALUES (?, ?)");
    return insert.Text(1, digest).Blob(2, bytes).Run();
  }
  Statement there(writer_.get(), "SELECT 1 FROM blobs WHERE digest = ?");
  absl::StatusOr<bool> found = there.Text(1, digest).Step();
  if (!found.ok() || *found) return found.status();
  absl::StatusOr<Place> place = AppendBulk(bytes, blobs_);
  if (!place.ok()) return place.status();
  Statement insert(writer_.get(), "INSERT INTO blobs VALUES (?, x'', ?, ?, ?)");
  insert.Text(1, digest).Int(2, place->file).Int(3, place->offset).Int(4, place->size);
  return insert.Run();
}

// AlreadyExists: this very batch is the log's end; its answer was lost. OK: it is to be appended.
absl::Status SqliteStore::CheckPlace(const Batch& batch) {
  absl::StatusOr<int64_t> last = Meta(writer_.get(), "last");
  if (!last.ok()) return last.status();
  if (*last == batch.after) return absl::OkStatus();
  const int64_t end = batch.after + static_cast<int64_t>(batch.events.size());
  if (*last != end || end == batch.after) {
    return absl::FailedPreconditionError(
        absl::StrCat("the log ends at revision ", *last, ", not at ", batch.after));
  }
  Statement stored(writer_.get(),
                   "SELECT epoch, bytes FROM events WHERE revision > ? ORDER BY revision");
  stored.Int(1, batch.after);
  for (const std::string& event : batch.events) {
    absl::StatusOr<bool> row = stored.Step();
    if (!row.ok()) return row.status();
    if (!*row || stored.Int(0) != batch.epoch || stored.Bytes(1) != event) {
      return absl::FailedPreconditionError(absl::StrCat("the log ends at revision ", *last,
                                                        " with other events than those for after ",
                                                        batch.after, ": it has another writer"));
    }
  }
  return absl::AlreadyExistsError("the same batch");
}

absl::Status SqliteStore::Append(const Batch& batch) {
  if (batch.events.empty()) return absl::OkStatus();
  absl::StatusOr<int64_t> sum = Meta(writer_.get(), "last_sum");
  if (!sum.ok()) return sum.status();
  Statement insert(writer_.get(), "INSERT INTO events VALUES (?, ?, ?, ?)");
  int64_t revision = batch.after;
  for (const std::string& event : batch.events) {
    if (absl::Status status = CheckSize("an event", event.size(), kMaxEventBytes); !status.ok()) {
      return status;
    }
    *sum = Checksum(event, *sum);
    insert.Int(1, ++revision).Int(2, batch.epoch).Int(3, *sum).Blob(4, event);
    if (absl::Status status = insert.Run(); !status.ok()) return status;
    insert.Reset();
  }
  return Steps({[&] { return SetMeta(writer_.get(), "last", revision); },
                [&] { return SetMeta(writer_.get(), "last_sum", *sum); }});
}

absl::Status SqliteStore::AddFacts(const std::vector<Facts>& facts) {
  if (facts.empty()) return absl::OkStatus();
  Statement in_row(writer_.get(),
                   "INSERT INTO facts (subject, name, sum, bytes, head, body) "
                   "VALUES (?, ?, ?, ?, ?, ?)");
  std::optional<Statement> in_bulk;
  if (schema_ >= kBulkSchemaFrom) {
    in_bulk.emplace(writer_.get(),
                    "INSERT INTO facts (subject, name, sum, bytes, head, body, file, place, size) "
                    "VALUES (?, ?, ?, ?, ?, x'', ?, ?, ?)");
  }
  int64_t added = 0;
  for (const Facts& one : facts) {
    const size_t size = one.subject.size() + one.name.size() + one.head.size() + one.body.size();
    if (absl::Status status = CheckSize("facts", size, kMaxFactsBytes); !status.ok()) return status;
    Statement& insert = IsBulk(one.body) ? *in_bulk : in_row;
    insert.Text(1, one.subject).Text(2, one.name).Int(3, ChecksumOf(one));
    insert.Int(4, static_cast<int64_t>(size)).Blob(5, one.head);
    if (IsBulk(one.body)) {
      absl::StatusOr<Place> place = AppendBulk(one.body, facts_);
      if (!place.ok()) return place.status();
      insert.Int(6, place->file).Int(7, place->offset).Int(8, place->size);
    } else {
      insert.Blob(6, one.body);
    }
    if (absl::Status status = insert.Run(); !status.ok()) return status;
    insert.Reset();
    added += static_cast<int64_t>(size);
  }
  const auto count = static_cast<int64_t>(facts.size());
  return Steps({[&] { return AddToMeta(writer_.get(), "facts", count); },
                [&] { return AddToMeta(writer_.get(), "facts_bytes", added); },
                [&] { return ForgetFacts(); }});
}

// The oldest, until there is room for the rest.
absl::Status SqliteStore::ForgetFacts() {
  absl::StatusOr<int64_t> bytes = Meta(writer_.get(), "facts_bytes");
  if (!bytes.ok()) return bytes.status();
  while (*bytes > options_.facts_bytes) {
    int64_t last = 0, count = 0, freed = 0;
    {
      Statement oldest(writer_.get(), "SELECT number, bytes FROM facts ORDER BY number LIMIT ?");
      oldest.Int(1, kForgottenAtOnce);
      while (*bytes - freed > options_.facts_bytes) {
        absl::StatusOr<bool> row = oldest.Step();
        if (!row.ok()) return row.status();
        if (!*row) break;
        last = oldest.Int(0);
        freed += oldest.Int(1);
        ++count;
      }
    }
    if (count == 0) return absl::OkStatus();
    forgot_ = true;
    Statement forget(writer_.get(), "DELETE FROM facts WHERE number <= ?");
    absl::Status forgotten =
        Steps({[&] { return forget.Int(1, last).Run(); },
               [&] { return AddToMeta(writer_.get(), "facts", -count); },
               [&] { return AddToMeta(writer_.get(), "facts_bytes", -freed); },
               [&] { return AddToMeta(writer_.get(), "facts_forgotten", count); }});
    if (!forgotten.ok()) return forgotten;
    *bytes -= freed;
  }
  return absl::OkStatus();
}

absl::Status SqliteStore::Commit(const Batch& batch) {
  absl::MutexLock lock(&write_mutex_);
  return Transaction([&]() -> absl::Status {
    write_mutex_.AssertHeld();
    if (absl::Status status = CheckEpoch(batch.epoch); !status.ok()) return status;
    const absl::Status place = CheckPlace(batch);
    if (absl::IsAlreadyExists(place)) return absl::OkStatus();
    if (!place.ok()) return place;
    for (const std::string& blob : batch.blobs) {
      if (absl::Status status = InsertBlob(blob); !status.ok()) return status;
    }
    if (absl::Status status = AddFacts(batch.facts); !status.ok()) return status;
    return Append(batch);
  });
}

absl::StatusOr<int64_t> SqliteStore::LastRevision() {
  absl::MutexLock lock(&read_mutex_);
  if (reader_ == nullptr) return Closed();
  return Meta(reader_.get(), "last");
}

absl::StatusOr<std::vector<Record>> SqliteStore::Read(int64_t after, size_t limit) {
  if (limit < 1 || limit > kMaxReadEvents) {
    return absl::InvalidArgumentError(
        absl::StrCat("a read of ", limit, " events: the limit is 1 to ", kMaxReadEvents));
  }
  absl::MutexLock lock(&read_mutex_);
  if (reader_ == nullptr) return Closed();
  // One view of the log for all that is asked of it.
  if (absl::Status begun = BeginView(); !begun.ok()) return begun;
  auto records = ReadLog(after, limit);
  EndView();
  return records;
}

absl::StatusOr<std::vector<Record>> SqliteStore::ReadLog(int64_t after, size_t limit) {
  absl::StatusOr<int64_t> first = Meta(reader_.get(), "first");
  absl::StatusOr<int64_t> last = Meta(reader_.get(), "last");
  absl::StatusOr<int64_t> sum = Meta(reader_.get(), "first_sum");
  if (absl::Status status = All({first.status(), last.status(), sum.status()}); !status.ok()) {
    return status;
  }
  if (after < *first) {
    return absl::OutOfRangeError(absl::StrCat("the log is kept from event ", *first + 1,
                                              " on: what was before is in the checkpoint"));
  }
  Statement select(reader_.get(),
                   "SELECT revision, sum, bytes FROM events WHERE revision >= ? ORDER BY revision");
  select.Int(1, after);
  std::vector<Record> records;
  if (after > *first && after < *last) {
    absl::StatusOr<bool> row = select.Step();
    if (!row.ok()) return row.status();
    if (!*row || select.Int(0) != after) {
      return Damaged(absl::StrCat("the log has no event ", after, ", of ", *last));
    }
    *sum = select.Int(1);
  }
  for (int64_t next = after + 1; next <= *last && records.size() < limit; ++next) {
    absl::StatusOr<bool> row = select.Step();
    if (!row.ok()) return row.status();
    if (!*row || select.Int(0) != next) {
      return Damaged(absl::StrCat("the log has no event ", next, ", of ", *last));
    }
    Record& record = records.emplace_back(Record{next, select.Bytes(2)});
    *sum = Checksum(record.bytes, *sum);
    if (*sum != select.Int(1)) {
      return Damaged(absl::StrCat("event ", next, " of the log is not what was written"));
    }
  }
  return records;
}

absl::Status SqliteStore::SaveCheckpoint(int64_t epoch, const Checkpoint& checkpoint) {
  absl::MutexLock lock(&write_mutex_);
  return Transaction([&]() -> absl::Status {
    write_mutex_.AssertHeld();
    if (absl::Status status = CheckEpoch(epoch); !status.ok()) return status;
    absl::StatusOr<int64_t> last = Meta(writer_.get(), "last");
    absl::StatusOr<int64_t> before = Meta(writer_.get(), "checkpoint");
    if (absl::Status status = All({last.status(), before.status()}); !status.ok()) return status;
    if (checkpoint.revision > *last || checkpoint.revision < *before) {
      return absl::InvalidArgumentError(absl::StrCat("a checkpoint of revision ",
                                                     checkpoint.revision, ": the last one is of ",
                                                     *before, ", and the log ends at ", *last));
    }
    return Steps({[&] { return PutEntries(checkpoint); },
                  [&] { return PutArchive(checkpoint.archive); },
                  [&] { return SetMeta(writer_.get(), "checkpoint", checkpoint.revision); },
                  [&] { return TrimLog(checkpoint.revision); }});
  });
}

absl::Status SqliteStore::PutEntries(const Checkpoint& checkpoint) {
  int64_t rows = 0;
  uint64_t sum = 0;  // modulo 2^64
  Statement old(writer_.get(), "SELECT sum FROM checkpoint WHERE key = ?");
  Statement erase(writer_.get(), "DELETE FROM checkpoint WHERE key = ?");
  Statement insert(writer_.get(), "INSERT INTO checkpoint VALUES (?, ?, ?)");
  Statement update(writer_.get(), "UPDATE checkpoint SET sum = ?2, bytes = ?3 WHERE key = ?1");
  const auto take_out = [&](const std::string& key) -> absl::StatusOr<bool> {
    absl::StatusOr<bool> there = old.Text(1, key).Step();
    if (there.ok() && *there) sum -= static_cast<uint64_t>(old.Int(0));
    old.Reset();
    return there;
  };
  for (const std::string& key : checkpoint.erase) {
    absl::StatusOr<bool> there = take_out(key);
    if (!there.ok()) return there.status();
    rows -= *there;
    if (absl::Status status = erase.Text(1, key).Run(); !status.ok()) return status;
    erase.Reset();
  }
  for (const Entry& entry : checkpoint.put) {
    absl::StatusOr<bool> there = take_out(entry.key);
    if (!there.ok()) return there.status();
    rows += !*there;
    const int64_t checksum = ChecksumOf(entry);
    sum += static_cast<uint64_t>(checksum);
    Statement& put = *there ? update : insert;
    if (absl::Status status = put.Text(1, entry.key).Int(2, checksum).Blob(3, entry.bytes).Run();
        !status.ok()) {
      return status;
    }
    put.Reset();
  }
  absl::StatusOr<int64_t> before = Meta(writer_.get(), "checkpoint_sum");
  if (!before.ok()) return before.status();
  sum += static_cast<uint64_t>(*before);
  return Steps(
      {[&] { return AddToMeta(writer_.get(), "checkpoint_rows", rows); },
       [&] { return SetMeta(writer_.get(), "checkpoint_sum", static_cast<int64_t>(sum)); }});
}

absl::Status SqliteStore::PutArchive(const std::vector<Entry>& entries) {
  if (entries.empty()) return absl::OkStatus();
  absl::StatusOr<int64_t> schema = Meta(writer_.get(), "schema");
  if (!schema.ok()) return schema.status();
  if (*schema < kArchiveSchemaFrom) {
    return absl::InvalidArgumentError("a store whose upgrade is not finished has no archive");
  }
  int64_t rows = 0;
  Statement there(writer_.get(), "SELECT 1 FROM archive WHERE key = ?");
  Statement put(writer_.get(), "INSERT OR REPLACE INTO archive VALUES (?, ?, ?)");
  for (const Entry& entry : entries) {
    absl::StatusOr<bool> old = there.Text(1, entry.key).Step();
    if (!old.ok()) return old.status();
    rows += !*old;
    there.Reset();
    absl::Status status =
        put.Text(1, entry.key).Int(2, ChecksumOf(entry)).Blob(3, entry.bytes).Run();
    if (!status.ok()) return status;
    put.Reset();
  }
  return AddToMeta(writer_.get(), "archive_rows", rows);
}

// Up to `revision`, which the checkpoint has.
absl::Status SqliteStore::TrimLog(int64_t revision) {
  Statement select(writer_.get(), "SELECT sum FROM events WHERE revision = ?");
  absl::StatusOr<bool> row = select.Int(1, revision).Step();
  if (!row.ok() || !*row) return row.status();  // trimmed before
  const int64_t sum = select.Int(0);
  select.Reset();
  Statement trim(writer_.get(), "DELETE FROM events WHERE revision <= ?");
  return Steps({[&] { return SetMeta(writer_.get(), "first", revision); },
                [&] { return SetMeta(writer_.get(), "first_sum", sum); },
                [&] { return trim.Int(1, revision).Run(); }});
}

absl::StatusOr<int64_t> SqliteStore::LoadCheckpoint(const std::function<void(Entry)>& take) {
  absl::MutexLock lock(&read_mutex_);
  if (reader_ == nullptr) return Closed();
  if (absl::Status begun = BeginView(); !begun.ok()) return begun;
  auto revision = ReadCheckpoint(take);
  EndView();
  return revision;
}

absl::StatusOr<int64_t> SqliteStore::ReadCheckpoint(const std::function<void(Entry)>& take) {
  absl::StatusOr<int64_t> revision = Meta(reader_.get(), "checkpoint");
  absl::StatusOr<int64_t> rows = Meta(reader_.get(), "checkpoint_rows");
  absl::StatusOr<int64_t> sum = Meta(reader_.get(), "checkpoint_sum");
  if (absl::Status status = All({revision.status(), rows.status(), sum.status()}); !status.ok()) {
    return status;
  }
  Statement select(reader_.get(), "SELECT key, sum, bytes FROM checkpoint ORDER BY rowid");
  int64_t rows_there = 0;
  uint64_t sum_there = 0;
  while (true) {
    absl::StatusOr<bool> row = select.Step();
    if (!row.ok()) return row.status();
    if (!*row) break;
    Entry entry{select.Bytes(0), select.Bytes(2)};
    const int64_t checksum = ChecksumOf(entry);
    if (checksum != select.Int(1)) {
      return Damaged(
          absl::StrCat("entry '", entry.key, "' of the checkpoint is not what was written"));
    }
    ++rows_there;
    sum_there += static_cast<uint64_t>(checksum);
    take(std::move(entry));
  }
  if (rows_there != *rows || sum_there != static_cast<uint64_t>(*sum)) {
    return Damaged(absl::StrCat("the checkpoint of revision ", *revision,
                                " is not whole: ", rows_there, " entries of ", *rows,
                                rows_there == *rows ? ", not those that were written" : ""));
  }
  return *revision;
}

absl::Status SqliteStore::ReadArchive(const std::string& prefix,
                                      const std::function<bool(Entry)>& take) {
  absl::MutexLock lock(&read_mutex_);
  if (reader_ == nullptr) return Closed();
  absl::StatusOr<int64_t> schema = Meta(reader_.get(), "schema");
  if (!schema.ok() || *schema < kArchiveSchemaFrom) return schema.status();  // it has none
  Statement select(reader_.get(),
                   "SELECT key, sum, bytes FROM archive WHERE key >= ? ORDER BY key");
  select.Text(1, prefix);
  while (true) {
    absl::StatusOr<bool> row = select.Step();
    if (!row.ok()) return row.status();
    if (!*row) return absl::OkStatus();
    Entry entry{select.Bytes(0), select.Bytes(2)};
    if (entry.key.compare(0, prefix.size(), prefix) != 0) return absl::OkStatus();
    if (ChecksumOf(entry) != select.Int(1)) {
      return Damaged(
          absl::StrCat("entry '", entry.key, "' of the archive is not what was written"));
    }
    if (!take(std::move(entry))) return absl::OkStatus();
  }
}

absl::Status SqliteStore::ReadFacts(const std::string& subject, bool bodies,
                                    const std::function<bool(Facts)>& take) {
  absl::MutexLock lock(&read_mutex_);
  if (reader_ == nullptr) return Closed();
  const char* const wanted =
      !bodies ? "SELECT name, sum, head FROM facts WHERE subject = ? ORDER BY number DESC"
      : schema_ < kBulkSchemaFrom
          ? "SELECT name, sum, head, body, 0, 0, 0 FROM facts WHERE subject = ? "
            "ORDER BY number DESC"
          : "SELECT name, sum, head, body, file, place, size FROM facts WHERE subject = ? "
            "ORDER BY number DESC";
  Statement select(reader_.get(), wanted);
  select.Text(1, subject);
  while (true) {
    absl::StatusOr<bool> row = select.Step();
    if (!row.ok()) return row.status();
    if (!*row) return absl::OkStatus();
    Facts facts{subject, select.Bytes(0), select.Bytes(2), ""};
    if (ChecksumOf(facts) != select.Int(1)) {
      return Damaged(absl::StrCat("facts '", facts.name, "' are not what was written"));
    }
    if (bodies) {
      absl::StatusOr<Stored> body = StoredAt(select, 3, facts_.files);
      if (absl::IsDataLoss(body.status())) {
        return Damaged(absl::StrCat("facts '", facts.name, "': ", body.status().message()));
      }
      if (!body.ok()) return body.status();
      facts.body = std::move(body->bytes);
    }
    if (!take(std::move(facts))) return absl::OkStatus();
  }
}

absl::StatusOr<FactsKept> SqliteStore::CountFacts() {
  absl::MutexLock lock(&read_mutex_);
  if (reader_ == nullptr) return Closed();
  absl::StatusOr<int64_t> count = Meta(reader_.get(), "facts");
  absl::StatusOr<int64_t> bytes = Meta(reader_.get(), "facts_bytes");
  absl::StatusOr<int64_t> forgotten = Meta(reader_.get(), "facts_forgotten");
  if (absl::Status status = All({count.status(), bytes.status(), forgotten.status()});
      !status.ok()) {
    return status;
  }
  return FactsKept{*count, *bytes, *forgotten};
}

absl::StatusOr<std::string> SqliteStore::Put(absl::string_view bytes) {
  absl::MutexLock lock(&write_mutex_);
  absl::Status status = Transaction([&]() -> absl::Status {
    write_mutex_.AssertHeld();
    return InsertBlob(bytes);
  });
  if (!status.ok()) return status;
  return base::Sha256Hex(std::string_view(bytes.data(), bytes.size()));
}

absl::StatusOr<std::string> SqliteStore::Get(const std::string& digest) {
  absl::MutexLock lock(&read_mutex_);
  if (reader_ == nullptr) return Closed();
  Statement select(reader_.get(), schema_ < kBulkSchemaFrom
                                      ? "SELECT bytes, 0, 0, 0 FROM blobs WHERE digest = ?"
                                      : "SELECT bytes, file, place, size FROM blobs "
                                        "WHERE digest = ?");
  absl::StatusOr<bool> row = select.Text(1, digest).Step();
  if (!row.ok()) return row.status();
  if (!*row) return absl::NotFoundError(absl::StrCat("no blob has the digest '", digest, "'"));
  absl::StatusOr<Stored> stored = StoredAt(select, 0, blobs_.files);
  if (absl::IsDataLoss(stored.status())) {
    return Damaged(absl::StrCat("the blob ", digest, ": ", stored.status().message()));
  }
  if (!stored.ok()) return stored.status();
  if (base::Sha256Hex(stored->bytes) != digest) {
    return Damaged(absl::StrCat("the blob ", digest, " is not what was written"));
  }
  return std::move(stored->bytes);
}

absl::Status SqliteStore::Close() {
  {
    absl::MutexLock lock(&read_mutex_);
    reader_ = nullptr;
  }
  {
    absl::MutexLock lock(&write_mutex_);
    writer_ = nullptr;
  }
  lock_ = FolderLock();
  return absl::OkStatus();
}

}  // namespace warpsmith::store
