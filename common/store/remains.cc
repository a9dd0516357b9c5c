#include "common/store/remains.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/sha256.h"
#include "common/store/checksum.h"
#include "common/store/sqlite.h"

namespace warpsmith::store {
namespace {

constexpr char kChanged[] = "it is not what was written";

absl::StatusOr<std::unique_ptr<Database>> OpenOf(const std::string& path, int flags) {
  auto db = Database::Open(path, flags);
  if (!db.ok()) return db.status();
  if (absl::Status set = Execute(db->get(), "PRAGMA busy_timeout=5000"); !set.ok()) return set;
  return db;
}

// Hands out the rows of `sql`, until `take` returns false. What SQLite makes no sense of is said to
// `damage`, and ends it.
void Walk(Database* db, const char* sql, const std::function<void(std::string)>& damage,
          const std::function<void(Statement&)>& take) {
  Statement statement(db, sql);
  while (true) {
    const absl::StatusOr<bool> row = statement.Step();
    if (!row.ok()) return damage(std::string(row.status().message()));
    if (!*row) return;
    take(statement);
  }
}

constexpr char kWholeArchive[] = "SELECT key, sum, bytes FROM archive ORDER BY rowid";

bool HasArchive(Database* db) { return Meta(db, "schema").value_or(0) >= kSchemaVersion; }

// Reads one database, a table at a time.
class Reader {
 public:
  Reader(Database* db, const CheckFacts& check) : db_(db), check_(check) {}

  Remains Read() {
    ReadDatabase();
    ReadMeta();
    ReadLog();
    ReadCheckpoint();
    ReadArchive();
    ReadBlobs();
    ReadFacts();
    return std::move(remains_);
  }

 private:
  std::function<void(std::string)> DamageOf(const char* where) {
    return [this, where](std::string what) { remains_.Add(where, std::move(what)); };
  }
  // 0 where it is not there, which is damage.
  int64_t Number(const char* name) {
    const absl::StatusOr<int64_t> value = Meta(db_, name);
    if (value.ok()) return *value;
    remains_.Add(absl::StrCat("number '", name, "'"), "it is not there");
    return 0;
  }

  void ReadDatabase() {
    Walk(db_, "PRAGMA integrity_check(20)", DamageOf("the database"), [&](Statement& row) {
      std::string text = row.Bytes(0);
      if (text != "ok") remains_.Add("the database", std::move(text));
    });
  }

  void ReadMeta() {
    const absl::StatusOr<int64_t> id = Meta(db_, "store");
    if (id.ok()) {
      remains_.identity.id = absl::StrFormat("%016x", static_cast<uint64_t>(*id));
    } else {
      remains_.Add("the store's id", "it is not there");
    }
    remains_.identity.generation = Number("generation");
    remains_.identity.upgraded = Number("schema") >= kSchemaVersion;
    remains_.last = Number("last");
    remains_.checkpoint = Number("checkpoint");
    Number("epoch");
  }

  void ReadLog() {
    int64_t next = Number("first") + 1;
    int64_t sum = Number("first_sum");
    bool broken = false;
    const char* all = "SELECT revision, sum, bytes FROM events ORDER BY revision";
    Walk(db_, all, DamageOf("the log"), [&](Statement& row) {
      const int64_t revision = row.Int(0);
      if (revision > next) {
        remains_.Add(revision == next + 1 ? absl::StrCat("event ", next)
                                          : absl::StrCat("events ", next, " to ", revision - 1),
                     "not in the log");
      }
      std::string bytes = row.Bytes(2);
      // After a gap nothing says what it was.
      const bool follows = revision == next;
      const bool whole = !follows || Checksum(bytes, sum) == row.Int(1);
      if (!whole) remains_.Add(absl::StrCat("event ", revision), kChanged);
      broken = broken || !follows || !whole;
      remains_.events += whole;
      if (!broken && revision > remains_.checkpoint) {
        remains_.log.push_back({revision, std::move(bytes)});
      }
      sum = row.Int(1);
      next = revision + 1;
    });
    const int64_t end = next - 1;
    if (end != remains_.last || remains_.checkpoint > end) {
      remains_.Add("the log's end", absl::StrCat("it ends at event ", end, ", but ", remains_.last,
                                                 " were made durable, and the checkpoint is of ",
                                                 remains_.checkpoint));
    } else if (end > 0 && Number("last_sum") != sum) {
      remains_.Add("the log's end", "its checksum is not that of the log");
    }
  }

  void ReadCheckpoint() {
    int64_t rows = 0;
    uint64_t total = 0;  // modulo 2^64
    const size_t before = remains_.damage.size();
    Walk(db_, "SELECT key, sum, bytes FROM checkpoint ORDER BY rowid", DamageOf("the checkpoint"),
         [&](Statement& row) {
           Entry entry{row.Bytes(0), row.Bytes(2)};
           ++rows;
           total += static_cast<uint64_t>(row.Int(1));
           if (ChecksumOf(entry) == row.Int(1)) {
             remains_.entries.push_back(std::move(entry));
           } else {
             remains_.Add(absl::StrCat("entry '", entry.key, "' of the checkpoint"), kChanged);
           }
         });
    const int64_t wanted = Number("checkpoint_rows");
    if (rows != wanted) {
      remains_.Add("the checkpoint", absl::StrCat("it has ", rows, " entries of ", wanted));
    } else if (remains_.damage.size() == before &&
               total != static_cast<uint64_t>(Number("checkpoint_sum"))) {
      remains_.Add("the checkpoint", "its entries are not those that were written");
    }
  }

  void ReadArchive() {
    if (!HasArchive(db_)) return;
    int64_t rows = 0;
    Walk(db_, kWholeArchive, DamageOf("the archive"), [&](Statement& row) {
      const Entry entry{row.Bytes(0), row.Bytes(2)};
      ++rows;
      if (ChecksumOf(entry) == row.Int(1)) {
        ++remains_.archived;
      } else {
        remains_.Add(absl::StrCat("entry '", entry.key, "' of the archive"), kChanged);
      }
    });
    const int64_t wanted = Number("archive_rows");
    if (rows != wanted) {
      remains_.Add("the archive", absl::StrCat("it has ", rows, " entries of ", wanted));
    }
  }

  void ReadBlobs() {
    Walk(db_, "SELECT digest, bytes FROM blobs", DamageOf("blobs"), [&](Statement& row) {
      std::string digest = row.Bytes(0);
      if (base::Sha256Hex(row.Bytes(1)) == digest) {
        remains_.blobs.insert(std::move(digest));
      } else {
        remains_.Add(absl::StrCat("blob ", digest), kChanged);
      }
    });
  }

  void ReadFacts();

  Database* const db_;
  const CheckFacts& check_;
  Remains remains_;
};

constexpr char kAllFacts[] =
    "SELECT subject, name, head, body, sum, number, bytes FROM facts ORDER BY number";

// Of a row of kAllFacts. OK: they are what was written.
absl::Status TakeFacts(Statement& row, const CheckFacts& check, Facts& facts) {
  facts = {row.Bytes(0), row.Bytes(1), row.Bytes(2), row.Bytes(3)};
  if (ChecksumOf(facts) != row.Int(4)) return absl::DataLossError(kChanged);
  return check(facts);
}

void Reader::ReadFacts() {
  int64_t rows = 0;
  Walk(db_, kAllFacts, DamageOf("facts"), [&](Statement& row) {
    ++rows;
    Facts facts;
    const absl::Status status = TakeFacts(row, check_, facts);
    remains_.facts += status.ok();
    if (status.ok()) return;
    remains_.Add(absl::StrCat("facts '", facts.name, "' of ", facts.subject),
                 std::string(status.message()));
  });
  const int64_t wanted = Number("facts");
  if (rows != wanted) remains_.Add("facts", absl::StrCat("there are ", rows, " of ", wanted));
}

// ---- going on
// ------------------------------------------------------------------------------------

absl::Status InsertMeta(Database* db, const char* name, int64_t value) {
  Statement insert(db, "INSERT OR REPLACE INTO meta VALUES (?, ?)");
  return insert.Text(1, name).Int(2, value).Run();
}

absl::Status PutCheckpoint(Database* db, const Checkpoint& whole) {
  Statement insert(db, "INSERT INTO checkpoint VALUES (?, ?, ?)");
  uint64_t total = 0;
  for (const Entry& entry : whole.put) {
    const int64_t sum = ChecksumOf(entry);
    total += static_cast<uint64_t>(sum);
    absl::Status put = insert.Text(1, entry.key).Int(2, sum).Blob(3, entry.bytes).Run();
    if (!put.ok()) return put;
    insert.Reset();
  }
  const std::pair<const char*, int64_t> numbers[] = {
      {"checkpoint", whole.revision},
      {"checkpoint_rows", static_cast<int64_t>(whole.put.size())},
      {"checkpoint_sum", static_cast<int64_t>(total)},
      {"last", whole.revision},
      {"first", whole.revision}};
  for (const auto& [name, value] : numbers) {
    if (absl::Status set = InsertMeta(db, name, value); !set.ok()) return set;
  }
  return absl::OkStatus();
}

absl::Status CopyBlobs(Database* from, Database* to) {
  absl::Status status;
  Statement insert(to, "INSERT INTO blobs VALUES (?, ?)");
  Walk(
      from, "SELECT digest, bytes FROM blobs", [](const std::string&) {},
      [&](Statement& row) {
        const std::string digest = row.Bytes(0), bytes = row.Bytes(1);
        if (!status.ok() || base::Sha256Hex(bytes) != digest) return;
        status = insert.Text(1, digest).Blob(2, bytes).Run();
        insert.Reset();
      });
  return status;
}

// And `more`.
absl::Status CopyArchive(Database* from, Database* to, const std::vector<Entry>& more) {
  absl::Status status;
  Statement insert(to, "INSERT OR REPLACE INTO archive VALUES (?, ?, ?)");
  const auto put = [&](const Entry& entry) {
    if (!status.ok()) return;
    status = insert.Text(1, entry.key).Int(2, ChecksumOf(entry)).Blob(3, entry.bytes).Run();
    insert.Reset();
  };
  if (HasArchive(from)) {
    Walk(
        from, kWholeArchive, [](const std::string&) {},
        [&](Statement& row) {
          const Entry entry{row.Bytes(0), row.Bytes(2)};
          if (ChecksumOf(entry) == row.Int(1)) put(entry);
        });
  }
  for (const Entry& entry : more) put(entry);
  const absl::StatusOr<int64_t> rows = QueryInt(to, "SELECT COUNT(*) FROM archive");
  if (status.ok()) status = rows.status();
  if (!status.ok() || *rows == 0) return status;
  return InsertMeta(to, "archive_rows", *rows);
}

absl::Status CopyFacts(Database* from, Database* to, const CheckFacts& check) {
  absl::Status status;
  int64_t count = 0, bytes = 0, gone = 0;
  Statement insert(to,
                   "INSERT INTO facts (number, subject, name, sum, bytes, head, body) "
                   "VALUES (?, ?, ?, ?, ?, ?, ?)");
  Walk(
      from, kAllFacts, [](const std::string&) {},
      [&](Statement& row) {
        Facts facts;
        if (!status.ok()) return;
        if (!TakeFacts(row, check, facts).ok()) {
          ++gone;
          return;
        }
        insert.Int(1, row.Int(5)).Text(2, facts.subject).Text(3, facts.name).Int(4, row.Int(4));
        insert.Int(5, row.Int(6)).Blob(6, facts.head).Blob(7, facts.body);
        status = insert.Run();
        insert.Reset();
        ++count;
        bytes += row.Int(6);
      });
  if (!status.ok()) return status;
  gone += Meta(from, "facts_forgotten").value_or(0);
  for (const auto& [name, value] : {std::pair<const char*, int64_t>{"facts", count},
                                    {"facts_bytes", bytes},
                                    {"facts_forgotten", gone}}) {
    if (absl::Status set = InsertMeta(to, name, value); !set.ok()) return set;
  }
  return absl::OkStatus();
}

absl::Status CopyIdentity(Database* from, Database* to, Identity& identity) {
  std::random_device random;
  const int64_t drawn = static_cast<int64_t>((static_cast<uint64_t>(random()) << 32) | random());
  const int64_t id = Meta(from, "store").value_or(drawn);
  identity = {absl::StrFormat("%016x", static_cast<uint64_t>(id)),
              Meta(from, "generation").value_or(0) + 1};
  const int64_t leaders = QueryInt(from, "SELECT COALESCE(MAX(epoch), 0) FROM events").value_or(0);
  for (const auto& [name, value] : {std::pair<const char*, int64_t>{"store", id},
                                    {"generation", identity.generation},
                                    {"epoch", Meta(from, "epoch").value_or(leaders)}}) {
    if (absl::Status set = InsertMeta(to, name, value); !set.ok()) return set;
  }
  return absl::OkStatus();
}

absl::Status Fill(Database* from, Database* to, const Checkpoint& whole, const CheckFacts& check,
                  Identity& identity) {
  const std::function<absl::Status()> steps[] = {
      [&] { return Execute(to, kNewPages); },
      [&] { return Execute(to, "PRAGMA synchronous=FULL"); },
      [&] { return Execute(to, "BEGIN IMMEDIATE"); },
      [&] { return Execute(to, kSchema, "making the tables"); },
      [&] { return CopyIdentity(from, to, identity); },
      [&] { return PutCheckpoint(to, whole); },
      [&] { return Execute(to, kArchiveSchema, "making the archive"); },
      [&] { return CopyArchive(from, to, whole.archive); },
      [&] { return CopyBlobs(from, to); },
      [&] { return CopyFacts(from, to, check); },
      [&] { return Execute(to, "COMMIT"); }};
  for (const auto& step : steps) {
    if (absl::Status status = step(); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status System(const std::string& what) {
  return absl::InternalError(absl::StrCat(what, ": ", strerror(errno)));
}

absl::Status SyncFolder(const std::string& dir) {
  const int fd = open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return System(absl::StrCat("cannot open ", dir));
  const bool synced = fsync(fd) == 0;
  close(fd);
  return synced ? absl::OkStatus() : System(absl::StrCat("cannot sync ", dir));
}

}  // namespace

void Remains::Add(std::string where, std::string what) {
  if (damage.size() >= kMaxDamage) {
    ++more_damage;
  } else {
    damage.push_back({std::move(where), std::move(what)});
  }
}

absl::Status CheckThere(const std::string& dir) {
  std::error_code error;
  if (std::filesystem::exists(absl::StrCat(dir, "/", kDatabase), error)) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("there is no store in ", dir, ": no ", kDatabase));
}

absl::StatusOr<Remains> ReadRemains(const std::string& dir, const CheckFacts& check) {
  const std::string path = absl::StrCat(dir, "/", kDatabase);
  if (absl::Status there = CheckThere(dir); !there.ok()) return there;
  auto db = OpenOf(path, SQLITE_OPEN_READONLY);
  if (!db.ok()) return db.status();
  const absl::Status schema = SchemaOf(db->get(), "").status();
  if (!schema.ok()) return absl::Status(schema.code(), absl::StrCat(path, ": ", schema.message()));
  if (absl::Status begun = Execute(db->get(), "BEGIN"); !begun.ok()) return begun;
  return Reader(db->get(), check).Read();
}

absl::StatusOr<bool> FinishUpgrade(const std::string& dir) {
  const std::string path = absl::StrCat(dir, "/", kDatabase);
  if (absl::Status there = CheckThere(dir); !there.ok()) return there;
  auto db = OpenOf(path, SQLITE_OPEN_READWRITE);
  if (!db.ok()) return db.status();
  const absl::StatusOr<int64_t> schema = SchemaOf(db->get(), "");
  if (!schema.ok()) {
    return absl::Status(schema.status().code(),
                        absl::StrCat(path, ": ", schema.status().message()));
  }
  if (*schema == kSchemaVersion) return false;
  const std::function<absl::Status()> steps[] = {
      [&] { return Execute(db->get(), "PRAGMA synchronous=FULL"); },
      [&] { return Execute(db->get(), "BEGIN IMMEDIATE"); },
      [&] { return Execute(db->get(), kArchiveSchema, "making the archive"); },
      [&] { return SetMeta(db->get(), "schema", kSchemaVersion); },
      [&] { return Execute(db->get(), "COMMIT"); }};
  for (const auto& step : steps) {
    if (absl::Status status = step(); !status.ok()) return status;
  }
  return true;
}

absl::StatusOr<Renewed> GoOnWith(const std::string& dir, const Checkpoint& whole,
                                 const CheckFacts& check) {
  const std::string path = absl::StrCat(dir, "/", kDatabase);
  const std::string made = path + ".new";
  Renewed renewed;
  std::string& copy = renewed.kept;
  {
    auto from = OpenOf(path, SQLITE_OPEN_READWRITE);
    if (!from.ok()) return from.status();
    // Folds what stands beside the file into it: it goes by another name below.
    absl::Status folded = Execute(from->get(), "PRAGMA journal_mode=DELETE");
    if (!folded.ok()) return folded;
    const int64_t generation = Meta(from->get(), "generation").value_or(0);
    copy = absl::StrCat(path, ".generation-", generation);
    for (int i = 2; std::filesystem::exists(copy); ++i) {
      copy = absl::StrCat(path, ".generation-", generation, "-", i);
    }
    std::filesystem::remove(made);
    auto to = OpenOf(made, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
    if (!to.ok()) return to.status();
    absl::Status filled = Fill(from->get(), to->get(), whole, check, renewed.identity);
    if (!filled.ok()) {
      to->reset();
      std::filesystem::remove(made);
      return filled;
    }
  }
  if (link(path.c_str(), copy.c_str()) != 0) return System(absl::StrCat("cannot keep ", copy));
  if (absl::Status synced = SyncFolder(dir); !synced.ok()) return synced;
  if (rename(made.c_str(), path.c_str()) != 0) return System(absl::StrCat("cannot make ", path));
  if (absl::Status synced = SyncFolder(dir); !synced.ok()) return synced;
  return renewed;
}

}  // namespace warpsmith::store
