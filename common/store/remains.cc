#include "common/store/remains.h"

#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/sha256.h"
#include "common/store/checksum.h"
#include "common/store/rows.h"

namespace warpsmith::store {
namespace {

// Reads one database, a table at a time.
class Reader {
 public:
  Reader(const std::string& dir, Database* db, const CheckFacts& check)
      : dir_(dir), db_(db), check_(check), bulk_(dir) {}

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
    remains_.identity.archives = HasArchive(db_);
    remains_.identity.upgraded = Number("schema") == kSchemaVersion;
    remains_.last = Number("last");
    remains_.checkpoint = Number("checkpoint");
    Number("epoch");
    if (!HasBulk(db_)) return;
    CheckReach(bulk_.blobs, "blobs_file", "blobs_end");
    CheckReach(bulk_.facts, "facts_file", "facts_end");
  }

  void CheckReach(const BulkFiles& files, const char* file, const char* end) {
    const absl::Status reaches = files.CheckReaches({Number(file), Number(end)});
    if (!reaches.ok()) remains_.Add("the bulk files", std::string(reaches.message()));
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
    Walk(db_, AllBlobs(db_), DamageOf("blobs"), [&](Statement& row) {
      std::string digest = row.Bytes(0);
      const absl::StatusOr<Stored> stored = StoredAt(row, 1, bulk_.blobs);
      if (stored.ok() && base::Sha256Hex(stored->bytes) == digest) {
        remains_.blobs.insert(std::move(digest));
      } else {
        remains_.Add(absl::StrCat("blob ", digest),
                     stored.ok() ? kChanged : std::string(stored.status().message()));
      }
    });
  }

  void ReadFacts();

  const std::string dir_;
  Database* const db_;
  const CheckFacts& check_;
  Bulk bulk_;
  Remains remains_;
};

// Whether they were forgotten since the view was taken that `db` reads.
bool Forgotten(const std::string& dir, int64_t number) {
  auto now = OpenOf(absl::StrCat(dir, "/", kDatabase), SQLITE_OPEN_READONLY);
  if (!now.ok()) return false;
  Statement there(now->get(), "SELECT 1 FROM facts WHERE number = ?");
  const absl::StatusOr<bool> row = there.Int(1, number).Step();
  return row.ok() && !*row;
}

void Reader::ReadFacts() {
  int64_t rows = 0;
  Walk(db_, AllFacts(db_), DamageOf("facts"), [&](Statement& row) {
    ++rows;
    Facts facts;
    const absl::Status status = TakeFacts(row, bulk_.facts, check_, facts).status();
    remains_.facts += status.ok();
    if (status.ok()) return;
    // Its planner goes on, and what the oldest facts lay in may be gone.
    if (absl::IsDataLoss(status) && row.Int(7) != 0 && Forgotten(dir_, row.Int(4))) return;
    remains_.Add(absl::StrCat("facts '", facts.name, "' of ", facts.subject),
                 std::string(status.message()));
  });
  const int64_t wanted = Number("facts");
  if (rows != wanted) remains_.Add("facts", absl::StrCat("there are ", rows, " of ", wanted));
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
  return Reader(dir, db->get(), check).Read();
}

}  // namespace warpsmith::store
