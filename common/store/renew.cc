#include "common/store/renew.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/sha256.h"
#include "common/store/checksum.h"
#include "common/store/rows.h"

namespace warpsmith::store {
namespace {

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

// Binds a row's bytes, or none and their place, from the column `index` on.
void Bind(Statement& insert, int index, const std::string& bytes, const Place& place) {
  insert.Blob(index, place.file == 0 ? absl::string_view(bytes) : absl::string_view());
  insert.Int(index + 1, place.file).Int(index + 2, place.offset).Int(index + 3, place.size);
}

// It cannot be read now, and may be whole.
bool IsNoDamage(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsInternal(status);
}

// Bulk files stay where they are, for both.
absl::Status CopyBlobs(Database* from, Database* to, Bulk& bulk) {
  absl::Status status;
  Statement insert(to, "INSERT INTO blobs VALUES (?, ?, ?, ?, ?)");
  Walk(
      from, AllBlobs(from), [](const std::string&) {},
      [&](Statement& row) {
        const std::string digest = row.Bytes(0);
        if (!status.ok()) return;
        const absl::StatusOr<Stored> stored = StoredAt(row, 1, bulk.blobs);
        if (IsNoDamage(stored.status())) {
          status = stored.status();
          return;
        }
        if (!stored.ok() || base::Sha256Hex(stored->bytes) != digest) return;
        insert.Text(1, digest);
        Bind(insert, 2, stored->bytes, stored->place);
        status = insert.Run();
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

absl::Status CopyFacts(Database* from, Database* to, Bulk& bulk, const CheckFacts& check) {
  absl::Status status;
  int64_t count = 0, bytes = 0, gone = 0;
  Statement insert(to,
                   "INSERT INTO facts (number, subject, name, sum, bytes, head, body, file, place, "
                   "size) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  Walk(
      from, AllFacts(from), [](const std::string&) {},
      [&](Statement& row) {
        Facts facts;
        if (!status.ok()) return;
        const absl::StatusOr<Place> place = TakeFacts(row, bulk.facts, check, facts);
        if (IsNoDamage(place.status())) {
          status = place.status();
          return;
        }
        if (!place.ok()) {
          ++gone;
          return;
        }
        insert.Int(1, row.Int(4)).Text(2, facts.subject).Text(3, facts.name).Int(4, row.Int(3));
        insert.Int(5, row.Int(5)).Blob(6, facts.head);
        Bind(insert, 7, facts.body, *place);
        status = insert.Run();
        insert.Reset();
        ++count;
        bytes += row.Int(5);
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

// The tables, the identity and the checkpoint of a new store.
absl::Status Begin(Database* from, Database* to, const Checkpoint& whole, Identity& identity) {
  return Steps({[&] { return Execute(to, kSchema, "making the tables"); },
                [&] { return Execute(to, kArchiveSchema, "making the archive"); },
                [&] { return Execute(to, kBulkSchema, "making room for places"); },
                [&] { return CopyIdentity(from, to, identity); },
                [&] { return PutCheckpoint(to, whole); }});
}

// Of a store of schema 1.
absl::Status CopyFirstBlobs(Database* from, Database* to, const std::vector<BlobOfFacts>& batches,
                            const ToFacts& to_facts) {
  std::set<std::string> become_facts;
  Statement get(from, "SELECT bytes FROM blobs WHERE digest = ?");
  Statement insert(to,
                   "INSERT INTO facts (subject, name, sum, bytes, head, body) "
                   "VALUES (?, ?, ?, ?, ?, ?)");
  int64_t bytes = 0;
  for (const BlobOfFacts& batch : batches) {
    become_facts.insert(batch.digest);
    const absl::StatusOr<bool> row = get.Text(1, batch.digest).Step();
    if (!row.ok()) return row.status();
    const std::string blob = *row ? get.Bytes(0) : "";
    get.Reset();
    if (base::Sha256Hex(blob) != batch.digest) {
      return absl::DataLossError(absl::StrCat("blob ", batch.digest, ": ", kChanged));
    }
    const absl::StatusOr<Facts> facts = to_facts(batch, blob);
    if (!facts.ok()) return facts.status();
    const auto size = static_cast<int64_t>(facts->subject.size() + facts->name.size() +
                                           facts->head.size() + facts->body.size());
    insert.Text(1, facts->subject).Text(2, facts->name).Int(3, ChecksumOf(*facts)).Int(4, size);
    const absl::Status put = insert.Blob(5, facts->head).Blob(6, facts->body).Run();
    if (!put.ok()) return put;
    insert.Reset();
    bytes += size;
  }
  absl::Status status =
      Steps({[&] { return InsertMeta(to, "facts", static_cast<int64_t>(batches.size())); },
             [&] { return InsertMeta(to, "facts_bytes", bytes); }});
  Statement put(to, "INSERT INTO blobs (digest, bytes) VALUES (?, ?)");
  Walk(
      from, "SELECT digest, bytes FROM blobs",
      [&](const std::string& what) { status = absl::DataLossError(what); },
      [&](Statement& row) {
        const std::string digest = row.Bytes(0), blob = row.Bytes(1);
        if (!status.ok() || become_facts.count(digest) > 0) return;
        if (base::Sha256Hex(blob) != digest) {
          status = absl::DataLossError(absl::StrCat("blob ", digest, ": ", kChanged));
          return;
        }
        status = put.Text(1, digest).Blob(2, blob).Run();
        put.Reset();
      });
  return status;
}

// Makes a database of this version by `fill`, in a transaction, and puts it in the place of the one
// that is there, which is kept beside it: all of it or nothing.
absl::StatusOr<Renewed> Renew(
    const std::string& dir,
    const std::function<absl::Status(Database* from, Database* to, Identity&)>& fill) {
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
    absl::Status filled = Steps({[&] { return Execute(to->get(), kNewPages); },
                                 [&] { return Execute(to->get(), "PRAGMA synchronous=FULL"); },
                                 [&] { return Execute(to->get(), "BEGIN IMMEDIATE"); },
                                 [&] { return fill(from->get(), to->get(), renewed.identity); },
                                 [&] { return Execute(to->get(), "COMMIT"); }});
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

}  // namespace

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
  const Bulk bulk(dir);
  absl::Status finished =
      Steps({[&] { return Execute(db->get(), "PRAGMA synchronous=FULL"); },
             [&] { return Execute(db->get(), "BEGIN IMMEDIATE"); },
             [&] {
               return HasArchive(db->get())
                          ? absl::OkStatus()
                          : Execute(db->get(), kArchiveSchema, "making the archive");
             },
             [&] { return Execute(db->get(), kBulkSchema, "making room for places"); },
             [&] { return BeginBulk(db->get(), bulk.blobs, bulk.facts); },
             [&] { return SetMeta(db->get(), "schema", kSchemaVersion); },
             [&] { return Execute(db->get(), "COMMIT"); }});
  if (!finished.ok()) return finished;
  return true;
}

absl::StatusOr<Renewed> GoOnWith(const std::string& dir, const Checkpoint& whole,
                                 const CheckFacts& check) {
  return Renew(dir, [&](Database* from, Database* to, Identity& identity) {
    Bulk bulk(dir);
    return Steps({[&] { return Begin(from, to, whole, identity); },
                  [&] { return CopyArchive(from, to, whole.archive); },
                  [&] { return BeginBulk(to, bulk.blobs, bulk.facts); },
                  [&] { return CopyBlobs(from, to, bulk); },
                  [&] { return CopyFacts(from, to, bulk, check); }});
  });
}

absl::StatusOr<FirstRemains> ReadFirst(const std::string& dir) {
  const std::string path = absl::StrCat(dir, "/", kDatabase);
  if (absl::Status there = CheckThere(dir); !there.ok()) return there;
  auto db = OpenOf(path, SQLITE_OPEN_READONLY);
  if (!db.ok()) return db.status();
  const absl::StatusOr<int64_t> schema = Meta(db->get(), "schema");
  if (!schema.ok()) return schema.status();
  if (*schema != kFirstSchema) {
    return absl::FailedPreconditionError(absl::StrCat(path, ": it has schema ", *schema));
  }
  FirstRemains first;
  absl::Status status;
  const auto damage = [&](const std::string& what) {
    status = absl::DataLossError(absl::StrCat(path, ": ", what));
  };
  Walk(db->get(), "SELECT revision, bytes FROM snapshots ORDER BY revision", damage,
       [&](Statement& row) {
         first.snapshot = {row.Int(0), row.Bytes(1)};
       });
  Walk(db->get(), "SELECT revision, bytes FROM events ORDER BY revision", damage,
       [&](Statement& row) {
         const int64_t next =
             first.log.empty() ? first.snapshot.revision + 1 : first.log.back().revision + 1;
         const int64_t revision = row.Int(0);
         if (revision < next) return;  // the snapshot has it
         if (revision > next && status.ok()) damage(absl::StrCat("the log has no event ", next));
         first.log.push_back({revision, row.Bytes(1)});
       });
  if (!status.ok()) return status;
  return first;
}

absl::StatusOr<Renewed> MoveForward(const std::string& dir, const Checkpoint& whole,
                                    const std::vector<BlobOfFacts>& batches,
                                    const ToFacts& to_facts) {
  return Renew(dir, [&](Database* from, Database* to, Identity& identity) {
    const Bulk bulk(dir);
    return Steps({[&] { return Begin(from, to, whole, identity); },
                  [&] { return BeginBulk(to, bulk.blobs, bulk.facts); },
                  [&] { return CopyFirstBlobs(from, to, batches, to_facts); }});
  });
}

}  // namespace warpsmith::store
