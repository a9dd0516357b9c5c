// Rows of an embedded store's tables, whole, for who reads or copies all of it: of any schema.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/store/bulk.h"
#include "common/store/remains.h"
#include "common/store/sqlite.h"

namespace warpsmith::store {

inline constexpr char kChanged[] = "it is not what was written";

absl::StatusOr<std::unique_ptr<Database>> OpenOf(const std::string& path, int flags);

// Hands out the rows of `sql`. What SQLite makes no sense of is said to `damage`, and ends it.
void Walk(Database* db, const char* sql, const std::function<void(std::string)>& damage,
          const std::function<void(Statement&)>& take);

inline constexpr char kWholeArchive[] = "SELECT key, sum, bytes FROM archive ORDER BY rowid";
bool HasArchive(Database* db);
bool HasBulk(Database* db);

struct Bulk {
  explicit Bulk(const std::string& dir)
      : blobs(absl::StrCat(dir, "/", kBulkFolder), "blobs"),
        facts(absl::StrCat(dir, "/", kBulkFolder), "facts") {}
  BulkFiles blobs, facts;
};

// A row's bytes, and their place, where they lie in bulk files.
struct Stored {
  std::string bytes;
  Place place;
};
// Of a row's columns from `column` on: its own bytes, file, place, size.
absl::StatusOr<Stored> StoredAt(Statement& row, int column, BulkFiles& files);

// Of a database that is new, or newly has places: its bulk begins in files that are not there yet.
absl::Status BeginBulk(Database* db, const BulkFiles& blobs, const BulkFiles& facts);

// Rows of blobs: digest and what StoredAt reads.
const char* AllBlobs(Database* db);
// Rows of facts: subject, name, head, sum, number, bytes, and what StoredAt reads.
const char* AllFacts(Database* db);
// Of such a row: where the body lies. OK: they are what was written.
absl::StatusOr<Place> TakeFacts(Statement& row, BulkFiles& files, const CheckFacts& check,
                                Facts& facts);

}  // namespace warpsmith::store
