#include "worker/device/library.h"

#include <dlfcn.h>
#include <glob.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace warpsmith::device {
namespace {

// Of the dynamic linker, behind the name that was asked for: not of one which that needs.
constexpr char kNoFile[] = ": cannot open shared object file: No such file or directory";

}  // namespace

absl::StatusOr<Library> Library::Open(const std::vector<std::string>& names,
                                      const std::string& what, const std::string& advice) {
  std::string broken;
  for (const std::string& name : names) {
    Library library;
    library.handle_ = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    library.path_ = name;
    if (library.handle_ != nullptr) return library;
    const char* why = dlerror();
    if (broken.empty() && why != nullptr && why != name + kNoFile) broken = why;
  }
  if (!broken.empty()) {
    return absl::InternalError(absl::StrCat(what, " does not load: ", broken));
  }
  return absl::NotFoundError(
      absl::StrCat(what, " was not found (tried ", absl::StrJoin(names, ", "), "): ", advice));
}

void* Library::FindOrNull(const char* symbol) const { return dlsym(handle_, symbol); }

absl::Status Library::Missing(const char* symbol) const {
  return absl::NotFoundError(
      absl::StrCat(path_, " has no function '", symbol, "': it is too old, install a newer one"));
}

std::vector<std::string> Matching(const std::string& pattern) {
  std::vector<std::string> paths;
  glob_t found = {};
  if (glob(pattern.c_str(), GLOB_BRACE, nullptr, &found) == 0) {
    paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  }
  globfree(&found);
  return paths;
}

}  // namespace warpsmith::device
