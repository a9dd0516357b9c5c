// The time of day as programs under test are told it, by libfaketime.
//
//   MovedDate date;               // before they are started
//   Fleet fleet(kBin, 2);
//   date.Set(absl::Hours(1));     // an hour ahead, from here on
//
// It moves what programs are told, not the kernel's clock. So a wait until a time of day, which on
// a machine whose clock is set back ends late, ends late here while the clock is ahead and at once
// while it is behind. A wait that has nothing to do with the time of day is as long either way.
#pragma once

#include <stdlib.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/file.h"
#include "tests/support/temporary_folder.h"

namespace warpsmith::e2e {

// The time of day of the programs started while this lives.
class MovedDate {
 public:
  // Whether libfaketime is there.
  static bool Works() { return std::filesystem::exists(kLibrary); }

  MovedDate() {
    Set(absl::ZeroDuration());
    for (const auto& [name, value] : kEnvironment) setenv(name, value, /*overwrite=*/1);
    setenv("FAKETIME_TIMESTAMP_FILE", (folder_ / "offset").c_str(), /*overwrite=*/1);
  }
  ~MovedDate() {
    for (const auto& [name, value] : kEnvironment) unsetenv(name);
    unsetenv("FAKETIME_TIMESTAMP_FILE");
  }
  // So far from this process's own.
  void Set(absl::Duration offset) {
    const int64_t seconds = absl::ToInt64Seconds(offset);
    REQUIRE(base::WriteFileAtomically(folder_ / "offset",
                                      absl::StrCat(seconds < 0 ? "" : "+", seconds, "\n"))
                .ok());
  }

 private:
  static constexpr char kLibrary[] = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1";
  static constexpr std::pair<const char*, const char*> kEnvironment[] = {
      {"LD_PRELOAD", kLibrary},
      {"FAKETIME_DONT_FAKE_MONOTONIC", "1"},
      {"FAKETIME_NO_CACHE", "1"},
  };
  const support::TemporaryFolder folder_;
};

}  // namespace warpsmith::e2e
