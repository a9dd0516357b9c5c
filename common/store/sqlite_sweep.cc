// SqliteStore::SweepBlobs: blobs that nothing names go, and bulk files that are mostly of such are
// written anew, in the walk after the one that found them so.
#include <sys/stat.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/sha256.h"
#include "common/store/rows.h"
#include "common/store/sqlite_store.h"

namespace warpsmith::store {
namespace {

// Of what is moved in one step: a commit waits for it.
constexpr int64_t kMostMoved = int64_t{1} << 20;

struct Blob {
  int64_t row = 0;
  std::string digest;
  Place place;
  int64_t bytes = 0;
  std::optional<Mark> mark;
};

absl::StatusOr<std::vector<Blob>> BlobsAfter(Database* db, int64_t row, size_t most) {
  Statement select(db,
                   "SELECT b.rowid, b.digest, LENGTH(b.bytes), b.file, b.place, b.size, u.since, "
                   "u.revision FROM blobs b LEFT JOIN unnamed u ON u.digest = b.digest "
                   "WHERE b.rowid > ? ORDER BY b.rowid LIMIT ?");
  select.Int(1, row).Int(2, static_cast<int64_t>(most));
  std::vector<Blob> blobs;
  while (true) {
    const absl::StatusOr<bool> there = select.Step();
    if (!there.ok()) return there.status();
    if (!*there) return blobs;
    Blob& blob = blobs.emplace_back();
    blob.row = select.Int(0);
    blob.digest = select.Bytes(1);
    blob.place = {select.Int(3), select.Int(4), select.Int(5)};
    blob.bytes = blob.place.file > 0 ? blob.place.size : select.Int(2);
    if (!select.IsNull(6)) blob.mark = Mark{select.Int(6), select.Int(7)};
  }
}

// Bytes of blobs in each bulk file.
absl::StatusOr<std::map<int64_t, int64_t>> BytesByFile(Database* db) {
  std::map<int64_t, int64_t> bytes;
  absl::Status status;
  Walk(
      db, "SELECT file, SUM(size) FROM blobs WHERE file > 0 GROUP BY file",
      [&](const std::string& what) { status = absl::DataLossError(what); },
      [&](Statement& row) { bytes[row.Int(0)] = row.Int(1); });
  if (!status.ok()) return status;
  return bytes;
}

}  // namespace

absl::StatusOr<Swept> SqliteStore::SweepBlobs(int64_t epoch, Sweep& sweep) {
  if (!HasMarks()) {
    return absl::FailedPreconditionError(
        "the store is of a version before: nothing of it is removed until `warpsmith upgrade "
        "finish`");
  }
  int64_t row = 0;
  if (!sweep.at.empty() && !absl::SimpleAtoi(sweep.at, &row)) {
    return absl::InvalidArgumentError(absl::StrCat("no place of a walk: '", sweep.at, "'"));
  }
  Swept swept;
  bool ended = false;
  {
    absl::MutexLock lock(&write_mutex_);
    const absl::Status done = Transaction([&]() -> absl::Status {
      write_mutex_.AssertHeld();
      swept = {};
      if (absl::Status status = CheckEpoch(epoch); !status.ok()) return status;
      return SweepAfter(row, sweep, swept, ended);
    });
    if (!done.ok()) return done;
    sweep.at = ended ? "" : absl::StrCat(row);
  }
  // What fails here is tried again at the next end.
  if (ended) TidyBlobFiles();
  return swept;
}

absl::Status SqliteStore::SweepAfter(int64_t& row, const Sweep& sweep, Swept& swept, bool& ended) {
  absl::StatusOr<std::vector<Blob>> blobs = BlobsAfter(writer_.get(), row, sweep.most);
  absl::StatusOr<int64_t> last = Meta(writer_.get(), "last");
  if (!blobs.ok()) return blobs.status();
  if (!last.ok()) return last.status();
  if (absl::Status known = CheckKnown(sweep, *last); !known.ok()) return known;
  Statement mark(writer_.get(), "INSERT OR REPLACE INTO unnamed VALUES (?, ?, ?)");
  Statement unmark(writer_.get(), "DELETE FROM unnamed WHERE digest = ?");
  Statement remove(writer_.get(), "DELETE FROM blobs WHERE rowid = ?");
  int64_t moved = 0;
  for (const Blob& blob : *blobs) {
    const Fate fate = FateOf(sweep, blob.digest, blob.mark.has_value() ? &*blob.mark : nullptr);
    Count(fate, blob.bytes, swept);
    absl::Status status;
    if (fate == Fate::kMark || fate == Fate::kConfirm) {
      const int64_t revision = fate == Fate::kMark ? *last : 0;
      status = mark.Text(1, blob.digest).Int(2, sweep.now_s).Int(3, revision).Run();
      mark.Reset();
    } else if (fate != Fate::kKeep && blob.mark.has_value()) {
      status = unmark.Text(1, blob.digest).Run();
      unmark.Reset();
    }
    if (status.ok() && fate == Fate::kRemove) {
      status = remove.Int(1, blob.row).Run();
      remove.Reset();
    } else if (status.ok() && sparse_.count(blob.place.file) > 0) {
      moved += blob.bytes;
      status = MoveBlob(blob.row, blob.digest, blob.place);
    }
    if (!status.ok()) return status;
    row = blob.row;
    if (moved >= kMostMoved) return absl::OkStatus();  // the next step goes on from here
  }
  ended = blobs->size() < sweep.most;
  return absl::OkStatus();
}

// To the end of the newest file. One that is damaged stays where it is.
absl::Status SqliteStore::MoveBlob(int64_t row, const std::string& digest, const Place& from) {
  const absl::StatusOr<std::string> bytes = blobs_.files.Read(from);
  if (absl::IsDataLoss(bytes.status())) return absl::OkStatus();
  if (!bytes.ok()) return bytes.status();
  if (base::Sha256Hex(*bytes) != digest) return absl::OkStatus();
  const absl::StatusOr<Place> to = AppendBulk(*bytes, blobs_);
  if (!to.ok()) return to.status();
  Statement move(writer_.get(), "UPDATE blobs SET file = ?, place = ?, size = ? WHERE rowid = ?");
  return move.Int(1, to->file).Int(2, to->offset).Int(3, to->size).Int(4, row).Run();
}

// Files that nothing is in go; those of which less than half is left are written anew by the next
// walk. On a view of its own: no commit waits for the count.
void SqliteStore::TidyBlobFiles() {
  auto db = OpenOf(absl::StrCat(dir_, "/", kDatabase), SQLITE_OPEN_READONLY);
  if (!db.ok() || !Execute(db->get(), "BEGIN").ok()) return;
  const absl::StatusOr<int64_t> newest = Meta(db->get(), blobs_.meta_file);
  const auto bytes = BytesByFile(db->get());
  const auto files = blobs_.files.List();
  if (!newest.ok() || !bytes.ok() || !files.ok()) return;
  std::set<int64_t> sparse;
  for (const auto& [file, path] : *files) {
    if (file >= *newest) break;  // is written to, or is later than this view
    const auto found = bytes->find(file);
    if (found == bytes->end()) {
      absl::MutexLock lock(&read_mutex_);  // whoever reads what was in it has read it
      blobs_.files.Remove(file).IgnoreError();
      continue;
    }
    struct stat stats = {};
    if (stat(path.c_str(), &stats) == 0 && 2 * found->second < stats.st_size) sparse.insert(file);
  }
  absl::MutexLock lock(&write_mutex_);
  sparse_ = std::move(sparse);
}

}  // namespace warpsmith::store
