// Shared libraries that are found at run time: the driver, NVRTC, NVML.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace warpsmith::device {

// A library that is never unloaded.
class Library {
 public:
  // Tries each name in turn: a file's path or a name for the dynamic linker. NotFound lists what
  // was tried; `what` and `advice` say what it is and how to get it. Internal: there is one, and it
  // does not load.
  static absl::StatusOr<Library> Open(const std::vector<std::string>& names,
                                      const std::string& what, const std::string& advice);

  // Puts the symbol's address in *function (a pointer to a function). NotFound: it has none.
  template <class Function>
  absl::Status Find(const char* symbol, Function** function) const {
    *function = reinterpret_cast<Function*>(FindOrNull(symbol));
    return *function != nullptr ? absl::OkStatus() : Missing(symbol);
  }
  void* FindOrNull(const char* symbol) const;
  const std::string& path() const { return path_; }  // by which it was found

 private:
  absl::Status Missing(const char* symbol) const;

  void* handle_ = nullptr;
  std::string path_;
};

// Files that match a shell pattern, in order.
std::vector<std::string> Matching(const std::string& pattern);

}  // namespace warpsmith::device
