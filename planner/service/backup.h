// A backup of a planner's store, and a store made of one.
//
//   absl::StatusOr<Backup> made = MakeBackup(*from, folder, absl::Now());
//   absl::StatusOr<Backup> whole = CheckBackup(folder);          // reads all of it
//   absl::StatusOr<Renewal> renewal = Restore(folder, *to, absl::Now());
//
// A backup is a folder with an embedded store (of one revision, of whichever kind the store was)
// and a manifest of its files (common/store/manifest.h). It is made under another name and gets its
// own when it has been read back; no planner starts on it.
//
// What is made of one is another history (store.h) of the same store: its generation is the second
// in which it was restored, so that two that are made of one backup are two. It knows from where it
// came, and counts what workers bring of the time after the backup (planner/core/restored.h).
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/store/store.h"
#include "planner/service/transfer.h"

namespace warpsmith::planner {

struct Backup {
  Inventory inventory;
  absl::Time taken;
  int64_t bytes = 0;  // of its files
};

// `from`: as of Transfer, with its errors. AlreadyExists: there is something in `folder`.
// FailedPrecondition: another process makes it. Unavailable: the disk is full. After an error, and
// of one that was killed, FOLDER.partial is left, which the next one removes.
absl::StatusOr<Backup> MakeBackup(store::Store& from, const std::string& folder, absl::Time now);

// NotFound: it is no backup, or not all of one. DataLoss: it is damaged; the message says where.
absl::StatusOr<Backup> CheckBackup(const std::string& folder);

struct Renewal {
  Backup backup;
  std::string store;  // token of the history from here on
  std::string kept;   // path of what was there; "": nothing was
};

// Into an empty store, where it is read back. Errors as of CheckBackup and Transfer.
absl::StatusOr<Renewal> Restore(const std::string& folder, store::Store& to, absl::Time now);

// Into a planner's folder that holds no store. With `replace` one that is there is set aside, all
// of it. All or nothing: no planner starts on the folder until it is done, and the same again goes
// on. FailedPrecondition: there is a store, or its planner runs.
absl::StatusOr<Renewal> RestoreFolder(const std::string& folder, const std::string& dir,
                                      bool replace, absl::Time now);

}  // namespace warpsmith::planner
