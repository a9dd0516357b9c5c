#include "common/store/manifest.h"

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/file.h"
#include "common/base/sha256.h"
#include "common/store/bulk.h"
#include "common/store/remains.h"
#include "common/store/rows.h"

namespace warpsmith::store {
namespace {

constexpr char kEnd[] = "# end ";
constexpr size_t kDigestDigits = 64;

absl::Status Damaged(const std::string& dir, const std::string& what) {
  return absl::DataLossError(
      absl::StrCat("the backup in ", dir, " is damaged: ", what, ". Use another one"));
}

// One file, to which nothing stands beside: it can be read where nothing can be written.
absl::Status Fold(const std::string& path) {
  auto db = OpenOf(path, SQLITE_OPEN_READWRITE);
  if (!db.ok()) return db.status();
  return Execute(db->get(), "PRAGMA journal_mode=DELETE");
}

absl::Status Sync(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return System(absl::StrCat("cannot open ", path));
  const absl::Status status =
      fsync(fd) == 0 ? absl::OkStatus() : System(absl::StrCat("cannot sync ", path));
  close(fd);
  return status;
}

absl::StatusOr<std::vector<std::string>> FilesOf(const std::string& dir) {
  std::vector<std::string> paths = {kDatabase};
  const Bulk bulk(dir);
  for (const BulkFiles* files : {&bulk.blobs, &bulk.facts}) {
    const auto list = files->List();
    if (!list.ok()) return list.status();
    for (const auto& [number, path] : *list) {
      paths.push_back(
          absl::StrCat(kBulkFolder, "/", std::filesystem::path(path).filename().string()));
    }
  }
  return paths;
}

absl::StatusOr<int64_t> SizeOf(const std::string& path) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  if (error) return absl::NotFoundError(absl::StrCat(path, ": ", error.message()));
  return static_cast<int64_t>(size);
}

}  // namespace

absl::StatusOr<Manifest> WriteManifest(const std::string& dir,
                                       const std::map<std::string, std::string>& about) {
  if (absl::Status folded = Fold(absl::StrCat(dir, "/", kDatabase)); !folded.ok()) return folded;
  const absl::StatusOr<std::vector<std::string>> files = FilesOf(dir);
  if (!files.ok()) return files.status();
  Manifest manifest{about, {}, 0};
  std::string text;
  for (const auto& [name, value] : about) absl::StrAppend(&text, "# ", name, " ", value, "\n");
  for (const std::string& file : *files) {
    const std::string path = absl::StrCat(dir, "/", file);
    if (absl::Status synced = Sync(path); !synced.ok()) return synced;
    const absl::StatusOr<std::string> digest = base::Sha256OfFile(path);
    if (!digest.ok()) return digest.status();
    const absl::StatusOr<int64_t> size = SizeOf(path);
    if (!size.ok()) return size.status();
    manifest.bytes += *size;
    manifest.digests[file] = *digest;
    absl::StrAppend(&text, *digest, "  ", file, "\n");
  }
  absl::StrAppend(&text, kEnd, base::Sha256Hex(text), "\n");
  if (manifest.digests.size() > 1) {
    const absl::Status synced = SyncFolder(absl::StrCat(dir, "/", kBulkFolder));
    if (!synced.ok()) return synced;
  }
  if (absl::Status written = base::WriteFileAtomically(absl::StrCat(dir, "/", kManifest), text);
      !written.ok()) {
    return written;
  }
  return manifest;
}

absl::StatusOr<Manifest> ReadManifest(const std::string& dir) {
  const std::string path = absl::StrCat(dir, "/", kManifest);
  const absl::StatusOr<std::string> text = base::ReadFile(path);
  if (absl::IsNotFound(text.status())) {
    return absl::NotFoundError(absl::StrCat(
        dir, " is no backup: it has no ", kManifest,
        ", which is written last. Name a folder that `warpsmith store backup` has made"));
  }
  if (!text.ok()) return text.status();
  const size_t end = text->rfind(kEnd);
  const bool whole =
      end != std::string::npos && (end == 0 || (*text)[end - 1] == '\n') &&
      text->substr(end) == absl::StrCat(kEnd, base::Sha256Hex(text->substr(0, end)), "\n");
  if (!whole) return Damaged(dir, absl::StrCat(kManifest, " is not what was written"));
  Manifest manifest;
  for (const absl::string_view line :
       absl::StrSplit(absl::string_view(*text).substr(0, end), '\n', absl::SkipEmpty())) {
    if (absl::StartsWith(line, "# ")) {
      const std::pair<std::string, std::string> said =
          absl::StrSplit(line.substr(2), absl::MaxSplits(' ', 1));
      manifest.about.insert(said);
    } else if (line.size() > kDigestDigits + 2) {
      manifest.digests[std::string(line.substr(kDigestDigits + 2))] =
          std::string(line.substr(0, kDigestDigits));
    }
  }
  return manifest;
}

absl::StatusOr<Manifest> CheckManifest(const std::string& dir) {
  absl::StatusOr<Manifest> manifest = ReadManifest(dir);
  if (!manifest.ok()) return manifest;
  for (const auto& [file, digest] : manifest->digests) {
    const std::string path = absl::StrCat(dir, "/", file);
    const absl::StatusOr<int64_t> size = SizeOf(path);
    if (!size.ok()) return Damaged(dir, absl::StrCat(file, " is not there"));
    const absl::StatusOr<std::string> found = base::Sha256OfFile(path);
    if (!found.ok()) return found.status();
    if (*found != digest) {
      return Damaged(dir, absl::StrCat(file, " (", *size, " bytes) is not what was written"));
    }
    manifest->bytes += *size;
  }
  // A journal beside the database would be taken for a part of it.
  for (const char* beside : {"-journal", "-wal"}) {
    std::error_code error;
    const std::string name = absl::StrCat(kDatabase, beside);
    if (std::filesystem::exists(absl::StrCat(dir, "/", name), error)) {
      return Damaged(dir, absl::StrCat(name, " is there, and was not written with it"));
    }
  }
  return manifest;
}

absl::Status CheckNoBackup(const std::string& dir) {
  std::error_code error;
  if (std::filesystem::exists(absl::StrCat(dir, "/", kManifest), error)) {
    return absl::FailedPreconditionError(
        absl::StrCat(dir, " is a backup, and stays as it is: `warpsmith --dir DIR store restore ",
                     dir, "` makes a store of it"));
  }
  // The database is made there whole and brought here last: with one here and none there either all
  // of it was brought, or nothing was touched yet.
  const std::string restoring = absl::StrCat(dir, "/", kRestoring);
  const bool untouched = std::filesystem::exists(absl::StrCat(dir, "/", kDatabase), error) &&
                         !std::filesystem::exists(absl::StrCat(restoring, "/", kDatabase), error);
  if (std::filesystem::exists(restoring, error) && !untouched) {
    return absl::FailedPreconditionError(absl::StrCat(
        "a backup was to be restored in ", dir,
        ", and that did not come to its end: ", "say `warpsmith store restore` again"));
  }
  return absl::OkStatus();
}

}  // namespace warpsmith::store
