#include "planner/service/backup.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/store/bulk.h"
#include "common/store/folder_lock.h"
#include "common/store/manifest.h"
#include "common/store/remains.h"
#include "common/store/sqlite.h"
#include "common/store/sqlite_store.h"

namespace warpsmith::planner {
namespace {

namespace fs = std::filesystem;

constexpr char kFormat[] = "1";
constexpr char kPartial[] = ".partial";
constexpr char kLockFile[] = "planner.lock";
// What belongs to a store beside the database, which comes last.
constexpr const char* kStoreFiles[] = {store::kBulkFolder, "warpsmith.db-wal", "warpsmith.db-shm",
                                       "warpsmith.db-journal", store::kDatabase};

absl::Status FailedTo(const std::string& what, const std::error_code& error) {
  return absl::InternalError(absl::StrCat("cannot ", what, ": ", error.message()));
}

absl::Status Rename(const std::string& from, const std::string& to) {
  if (rename(from.c_str(), to.c_str()) == 0) return absl::OkStatus();
  return store::System(absl::StrCat("cannot rename ", from, " to ", to));
}

std::string ParentOf(const std::string& path) {
  const std::string parent = fs::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

// Without a slash at its end.
std::string PathOf(const std::string& folder) {
  std::string path = fs::path(folder).lexically_normal().string();
  while (path.size() > 1 && absl::EndsWith(path, "/")) path.pop_back();
  return path;
}

bool IsThere(const std::string& path) {
  std::error_code error;
  return fs::exists(fs::symlink_status(path, error));
}

// Of a store that was read back.
absl::Status CheckSame(const Inventory& wanted, const Inventory& found, const std::string& where) {
  if (found.HoldsAs(wanted)) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(
      "what was read back from ", where, " is not what was written there: ", found.tasks, " of ",
      wanted.tasks, " tasks, ", found.blobs, " of ", wanted.blobs, " blobs, ", found.batches,
      " of ", wanted.batches, " batches of trials; is its disk well?"));
}

// A folder that is ours to fill, emptied of what one left that was killed.
absl::Status MakeRoom(const std::string& partial) {
  std::error_code error;
  const bool there = IsThere(partial);
  const bool ours = IsThere(absl::StrCat(partial, "/", kLockFile)) ||
                    IsThere(absl::StrCat(partial, "/", store::kManifest));
  if (there && !ours && !fs::is_empty(partial, error)) {
    return absl::AlreadyExistsError(absl::StrCat(
        partial, " is in the way, and was not left by a backup: move it or name another folder"));
  }
  fs::create_directories(partial, error);
  if (error) return FailedTo(absl::StrCat("make ", partial), error);
  const absl::StatusOr<store::FolderLock> lock = store::FolderLock::Take(partial);
  if (absl::IsUnavailable(lock.status())) {
    return absl::FailedPreconditionError(
        absl::StrCat(partial, " is being written by another process"));
  }
  if (!lock.ok()) return lock.status();
  std::vector<std::string> files = {store::kManifest};
  files.insert(files.end(), std::begin(kStoreFiles), std::end(kStoreFiles));
  for (const std::string& file : files) {
    fs::remove_all(absl::StrCat(partial, "/", file), error);
    if (error) return FailedTo(absl::StrCat("empty ", partial), error);
  }
  return absl::OkStatus();
}

// All of `from`, read back from an embedded store in `dir`, which is closed then.
absl::StatusOr<Inventory> Fill(store::Store& from, const std::string& dir, const Become& become) {
  store::SqliteStore::Options options;
  options.facts_bytes = std::numeric_limits<int64_t>::max();  // none is forgotten on the way
  absl::StatusOr<std::unique_ptr<store::SqliteStore>> to = store::SqliteStore::Open(dir, options);
  if (!to.ok()) return to.status();
  absl::StatusOr<Inventory> moved = Transfer(from, **to, become);
  if (!moved.ok()) return moved;
  const absl::StatusOr<Inventory> there = TakeInventory(**to);
  if (!there.ok()) return there.status();
  if (absl::Status same = CheckSame(*moved, *there, dir); !same.ok()) return same;
  if (absl::Status closed = (*to)->Close(); !closed.ok()) return closed;
  return moved;
}

std::map<std::string, std::string> About(const Inventory& inventory, absl::Time taken) {
  const std::pair<const char*, int64_t> numbers[] = {{"revision", inventory.revision},
                                                     {"runs", inventory.runs},
                                                     {"tasks", inventory.tasks},
                                                     {"archived", inventory.archived},
                                                     {"blobs", inventory.blobs},
                                                     {"blob_bytes", inventory.blob_bytes},
                                                     {"batches", inventory.batches},
                                                     {"trials", inventory.trials},
                                                     {"trial_bytes", inventory.trial_bytes},
                                                     {"taken_unix_ms", absl::ToUnixMillis(taken)}};
  std::map<std::string, std::string> about = {{"format", kFormat}, {"store", inventory.store}};
  for (const auto& [name, number] : numbers) about[name] = absl::StrCat(number);
  return about;
}

absl::StatusOr<Backup> Described(const store::Manifest& manifest, const std::string& folder) {
  const auto text = [&](const char* name) {
    const auto found = manifest.about.find(name);
    return found == manifest.about.end() ? std::string() : found->second;
  };
  const auto number = [&](const char* name) {
    int64_t value = 0;
    return absl::SimpleAtoi(text(name), &value) ? value : 0;
  };
  if (text("format") != kFormat) {
    return absl::FailedPreconditionError(absl::StrCat("the backup in ", folder, " has format '",
                                                      text("format"), "', and this program reads ",
                                                      kFormat, ": use the version that made it"));
  }
  Backup backup;
  backup.inventory = {text("store"),        number("revision"), number("runs"),
                      number("tasks"),      number("archived"), number("blobs"),
                      number("blob_bytes"), number("batches"),  number("trials"),
                      number("trial_bytes")};
  backup.taken = absl::FromUnixMillis(number("taken_unix_ms"));
  backup.bytes = manifest.bytes;
  return backup;
}

// Its files are what was written.
absl::StatusOr<Backup> OpenBackup(const std::string& folder) {
  const absl::StatusOr<store::Manifest> manifest = store::CheckManifest(folder);
  return manifest.ok() ? Described(*manifest, folder) : manifest.status();
}

Become Another(const store::Identity& before, const Backup& backup, absl::Time now) {
  store::Identity identity = before;
  identity.generation = std::max(before.generation + 1, absl::ToUnixSeconds(now));
  v1::Restored restored;
  restored.set_store(store::TokenOf(identity));
  restored.set_before(store::TokenOf(before));
  restored.set_revision(backup.inventory.revision);
  restored.set_taken_at_unix_ms(absl::ToUnixMillis(backup.taken));
  restored.set_at_unix_ms(absl::ToUnixMillis(now));
  return {identity, restored};
}

struct Opened {
  Backup backup;
  std::unique_ptr<store::SqliteStore> store;
  Become become;
};

absl::StatusOr<Opened> OpenFor(const std::string& folder, absl::Time now) {
  absl::StatusOr<Backup> backup = OpenBackup(folder);
  if (!backup.ok()) return backup.status();
  absl::StatusOr<std::unique_ptr<store::SqliteStore>> from = store::SqliteStore::OpenToRead(folder);
  if (!from.ok()) return from.status();
  const absl::StatusOr<store::Identity> before = (*from)->Identify();
  if (!before.ok()) return before.status();
  Become become = Another(*before, *backup, now);
  return Opened{*std::move(backup), *std::move(from), std::move(become)};
}

// ---- a planner's folder -------------------------------------------------------------------------

// FailedPrecondition: there is a store, which is not to be replaced.
absl::Status CheckEmpty(const std::string& dir, bool replace) {
  const std::string database = absl::StrCat(dir, "/", store::kDatabase);
  if (replace) return absl::OkStatus();
  if (IsThere(database)) {
    return absl::FailedPreconditionError(absl::StrCat("there is a store in ", dir,
                                                      ": name another folder with --dir, or say ",
                                                      "--replace, which sets that one aside"));
  }
  if (IsThere(absl::StrCat(dir, "/", store::kBulkFolder)) &&
      !IsThere(absl::StrCat(dir, "/", store::kRestoring))) {
    return absl::FailedPreconditionError(
        absl::StrCat(dir, " has the folder ", store::kBulkFolder, " of a store, and no ",
                     store::kDatabase, ": bring that back, or move the folder away"));
  }
  return absl::OkStatus();
}

// Moves the store that is there out of the way, its database last: while that is there, so is all
// of it, here or there. Gives where to; "": there was none.
absl::StatusOr<std::string> SetAside(const std::string& dir) {
  if (!IsThere(absl::StrCat(dir, "/", store::kDatabase))) {
    // What an earlier try has brought, without its database.
    std::error_code error;
    fs::remove_all(absl::StrCat(dir, "/", store::kBulkFolder), error);
    if (error) return FailedTo(absl::StrCat("empty ", dir), error);
    return "";
  }
  // The same folder each time: an earlier try may have moved a part.
  std::string aside;
  for (int number = 1;; ++number) {
    aside = absl::StrCat(dir, "/set-aside-", number);
    if (!IsThere(absl::StrCat(aside, "/", store::kDatabase))) break;
  }
  std::error_code error;
  fs::create_directories(aside, error);
  if (error) return FailedTo(absl::StrCat("make ", aside), error);
  for (const char* file : kStoreFiles) {
    const std::string path = absl::StrCat(dir, "/", file);
    if (!IsThere(path)) continue;
    if (absl::Status moved = Rename(path, absl::StrCat(aside, "/", file)); !moved.ok()) {
      return moved;
    }
    for (const std::string& changed : {aside, dir}) {
      if (absl::Status synced = store::SyncFolder(changed); !synced.ok()) return synced;
    }
  }
  return aside;
}

// Brings what was made in `made` to `dir`, the database last.
absl::Status BringIn(const std::string& made, const std::string& dir) {
  for (const char* file : kStoreFiles) {
    const std::string path = absl::StrCat(made, "/", file);
    if (!IsThere(path)) continue;
    absl::Status moved = Rename(path, absl::StrCat(dir, "/", file));
    if (moved.ok()) moved = store::SyncFolder(dir);
    if (!moved.ok()) return moved;
  }
  std::error_code error;
  fs::remove_all(made, error);
  if (error) return FailedTo(absl::StrCat("remove ", made), error);
  return store::SyncFolder(dir);
}

}  // namespace

absl::StatusOr<Backup> MakeBackup(store::Store& from, const std::string& folder, absl::Time now) {
  const std::string path = PathOf(folder), partial = path + kPartial;
  std::error_code error;
  if (IsThere(path) && !fs::is_empty(path, error)) {
    return absl::AlreadyExistsError(
        absl::StrCat("there is something in ", path, ": name a new folder"));
  }
  if (absl::Status room = MakeRoom(partial); !room.ok()) return room;
  const absl::StatusOr<store::Identity> identity = from.Identify();
  if (!identity.ok()) return identity.status();
  const absl::StatusOr<Inventory> inventory = Fill(from, partial, {*identity, {}});
  if (!inventory.ok()) return inventory.status();
  const absl::StatusOr<store::Manifest> manifest =
      store::WriteManifest(partial, About(*inventory, now));
  if (!manifest.ok()) return manifest.status();
  fs::remove(absl::StrCat(partial, "/", kLockFile), error);
  if (absl::Status synced = store::SyncFolder(partial); !synced.ok()) return synced;
  if (absl::Status renamed = Rename(partial, path); !renamed.ok()) return renamed;
  if (absl::Status synced = store::SyncFolder(ParentOf(path)); !synced.ok()) return synced;
  return Backup{*inventory, now, manifest->bytes};
}

absl::StatusOr<Backup> CheckBackup(const std::string& folder) {
  absl::StatusOr<Backup> backup = OpenBackup(folder);
  if (!backup.ok()) return backup;
  absl::StatusOr<std::unique_ptr<store::SqliteStore>> store =
      store::SqliteStore::OpenToRead(folder);
  if (!store.ok()) return store.status();
  const absl::StatusOr<Inventory> inventory = TakeInventory(**store);
  if (!inventory.ok()) return inventory.status();
  if (absl::Status same = CheckSame(backup->inventory, *inventory, folder); !same.ok()) return same;
  return backup;
}

absl::StatusOr<Renewal> Restore(const std::string& folder, store::Store& to, absl::Time now) {
  absl::StatusOr<Opened> opened = OpenFor(folder, now);
  if (!opened.ok()) return opened.status();
  const absl::StatusOr<Inventory> moved = Transfer(*opened->store, to, opened->become);
  if (!moved.ok()) return moved.status();
  const absl::StatusOr<Inventory> there = TakeInventory(to);
  if (!there.ok()) return there.status();
  if (absl::Status same = CheckSame(*moved, *there, "the store"); !same.ok()) return same;
  return Renewal{std::move(opened->backup), moved->store, ""};
}

absl::StatusOr<Renewal> RestoreFolder(const std::string& folder, const std::string& dir,
                                      bool replace, absl::Time now) {
  if (IsThere(absl::StrCat(dir, "/", store::kManifest))) {
    return absl::FailedPreconditionError(absl::StrCat(dir, " is a backup: name another --dir"));
  }
  if (absl::Status empty = CheckEmpty(dir, replace); !empty.ok()) return empty;
  absl::StatusOr<Opened> opened = OpenFor(folder, now);
  if (!opened.ok()) return opened.status();
  std::error_code error;
  fs::create_directories(dir, error);
  if (error) return FailedTo(absl::StrCat("make ", dir), error);
  const absl::StatusOr<store::FolderLock> lock = store::FolderLock::Take(dir);
  if (absl::IsUnavailable(lock.status())) {
    return absl::FailedPreconditionError(
        absl::StrCat(std::string(lock.status().message()), "; `warpsmith down` stops it"));
  }
  if (!lock.ok()) return lock.status();
  // While it is there no planner starts.
  const std::string made = absl::StrCat(dir, "/", store::kRestoring);
  if (absl::Status room = MakeRoom(made); !room.ok()) return room;
  const absl::StatusOr<Inventory> moved = Fill(*opened->store, made, opened->become);
  if (!moved.ok()) return moved.status();
  absl::StatusOr<std::string> aside = SetAside(dir);
  if (!aside.ok()) return aside.status();
  if (absl::Status brought = BringIn(made, dir); !brought.ok()) return brought;
  return Renewal{std::move(opened->backup), moved->store, *std::move(aside)};
}

}  // namespace warpsmith::planner
