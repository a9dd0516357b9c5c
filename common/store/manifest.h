// What makes a folder with an embedded store a backup: a file, MANIFEST, with the digest of each
// file in it, which is written last.
//
//   absl::Status sealed = WriteManifest(dir, {{"revision", "57"}});
//   absl::StatusOr<Manifest> manifest = CheckManifest(dir);   // reads all files
//
// A line each: "# NAME VALUE" of what is said about it, "SHA-256  PATH" of the files, and at last
// "# end SHA-256" of all lines before. `sha256sum -c MANIFEST` checks the files as well.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace warpsmith::store {

inline constexpr char kManifest[] = "MANIFEST";
// In a store's folder, as long as a backup is being brought there.
inline constexpr char kRestoring[] = "restoring";

struct Manifest {
  std::map<std::string, std::string> about;    // names without spaces, values without newlines
  std::map<std::string, std::string> digests;  // by path
  int64_t bytes = 0;                           // of the files
};

// Of the database in `dir`, which nobody has open and which is one file from here on, and of its
// bulk files; all of it is durable then. Gives what was written.
absl::StatusOr<Manifest> WriteManifest(const std::string& dir,
                                       const std::map<std::string, std::string>& about);

// NotFound: there is no manifest, so `dir` is no backup, or not all of one. DataLoss: a file is
// missing, or is not what was written, or the manifest itself is not.
absl::StatusOr<Manifest> CheckManifest(const std::string& dir);
// The same without its files.
absl::StatusOr<Manifest> ReadManifest(const std::string& dir);

// FailedPrecondition: the folder is a backup, or a backup is being brought there: no store to be
// written to.
absl::Status CheckNoBackup(const std::string& dir);

}  // namespace warpsmith::store
