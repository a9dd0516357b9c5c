#include "common/store/rows.h"

#include <utility>

#include "common/store/checksum.h"

namespace warpsmith::store {

absl::StatusOr<std::unique_ptr<Database>> OpenOf(const std::string& path, int flags) {
  auto db = Database::Open(path, flags);
  if (!db.ok()) return db.status();
  if (absl::Status set = Execute(db->get(), "PRAGMA busy_timeout=5000"); !set.ok()) return set;
  return db;
}

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

bool HasArchive(Database* db) { return Meta(db, "schema").value_or(0) >= kArchiveSchemaFrom; }
bool HasBulk(Database* db) { return Meta(db, "schema").value_or(0) >= kBulkSchemaFrom; }

absl::StatusOr<Stored> StoredAt(Statement& row, int column, BulkFiles& files) {
  Stored stored{{}, {row.Int(column + 1), row.Int(column + 2), row.Int(column + 3)}};
  if (stored.place.file == 0) {
    stored.bytes = row.Bytes(column);
    return stored;
  }
  absl::StatusOr<std::string> bytes = files.Read(stored.place);
  if (!bytes.ok()) return bytes.status();
  stored.bytes = *std::move(bytes);
  return stored;
}

const char* AllBlobs(Database* db) {
  return HasBulk(db) ? "SELECT digest, bytes, file, place, size FROM blobs"
                     : "SELECT digest, bytes, 0, 0, 0 FROM blobs";
}

const char* AllFacts(Database* db) {
  return HasBulk(db) ? "SELECT subject, name, head, sum, number, bytes, body, file, place, size "
                       "FROM facts ORDER BY number"
                     : "SELECT subject, name, head, sum, number, bytes, body, 0, 0, 0 "
                       "FROM facts ORDER BY number";
}

absl::StatusOr<Place> TakeFacts(Statement& row, BulkFiles& files, const CheckFacts& check,
                                Facts& facts) {
  facts = {row.Bytes(0), row.Bytes(1), row.Bytes(2), ""};
  if (ChecksumOf(facts) != row.Int(3)) return absl::DataLossError(kChanged);
  absl::StatusOr<Stored> stored = StoredAt(row, 6, files);
  if (!stored.ok()) return stored.status();
  facts.body = std::move(stored->bytes);
  if (absl::Status whole = check(facts); !whole.ok()) return whole;
  return stored->place;
}

absl::Status BeginBulk(Database* db, const BulkFiles& blobs, const BulkFiles& facts) {
  const std::pair<const char*, const BulkFiles*> kinds[] = {{"blobs_file", &blobs},
                                                            {"facts_file", &facts}};
  for (const auto& [name, files] : kinds) {
    const absl::StatusOr<BulkFiles::End> fresh = files->Fresh();
    if (!fresh.ok()) return fresh.status();
    if (absl::Status set = SetMeta(db, name, fresh->file); !set.ok()) return set;
  }
  return absl::OkStatus();
}

}  // namespace warpsmith::store
