#include "worker/daemon/secret.h"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <string>

#include "common/base/file.h"
#include "common/base/private_file.h"
#include "tests/support/temporary_folder.h"

namespace warpsmith::daemon {
namespace {

TEST_CASE("a worker's secret is made once, and for its owner alone") {
  support::TemporaryFolder folder, other;
  const std::string path = folder / "secret";
  const auto secret = ReadOrMakeSecret(path);
  REQUIRE(secret.ok());
  CHECK(secret->size() == 64);
  struct stat info {};
  REQUIRE(stat(path.c_str(), &info) == 0);
  CHECK((info.st_mode & 07777) == 0600);
  CHECK(*ReadOrMakeSecret(path) == *secret);
  CHECK(*ReadOrMakeSecret(other / "secret") != *secret);
}

TEST_CASE("a secret that others can read, or that is damaged, is not used") {
  support::TemporaryFolder folder;
  const std::string path = folder / "secret";
  REQUIRE(ReadOrMakeSecret(path).ok());
  REQUIRE(chmod(path.c_str(), 0640) == 0);
  const absl::Status readable = ReadOrMakeSecret(path).status();
  CHECK(absl::IsFailedPrecondition(readable));
  CHECK_THAT(std::string(readable.message()), Catch::Contains("chmod"));
  for (const std::string& text : {std::string(), std::string("abc\n"), std::string(64, 'x')}) {
    REQUIRE(base::WritePrivateFile(path, text).ok());
    CHECK(absl::IsDataLoss(ReadOrMakeSecret(path).status()));
  }
}

}  // namespace
}  // namespace warpsmith::daemon
