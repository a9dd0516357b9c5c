#include "common/store/sqlite_store.h"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/base/sha256.h"
#include "common/store/conformance.h"
#include "tests/support/temporary_folder.h"

namespace warpsmith::store {
namespace {

using support::TemporaryFolder;

}  // namespace

TEST_CASE("sqlite: conformance") {
  TemporaryFolder folder;
  CheckConformance([&]() -> std::unique_ptr<Store> {
    auto store = SqliteStore::Open(folder.path() + "/made/when/missing");
    INFO(store.status().ToString());
    REQUIRE(store.ok());
    return std::move(*store);
  });
}

TEST_CASE("sqlite: a second planner is told which process has the folder") {
  TemporaryFolder folder;
  auto first = SqliteStore::Open(folder.path());
  REQUIRE(first.ok());
  const absl::Status second = SqliteStore::Open(folder.path()).status();
  CHECK(second.code() == absl::StatusCode::kUnavailable);
  CHECK(std::string(second.message()).find(absl::StrCat("process ", getpid(), ":")) !=
        std::string::npos);
  REQUIRE((*first)->Close().ok());
  CHECK(SqliteStore::Open(folder.path()).ok());
}

TEST_CASE("sqlite: what was committed survives SIGKILL, and the lock does not") {
  TemporaryFolder folder;
  int ready[2];
  REQUIRE(pipe(ready) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    auto store = SqliteStore::Open(folder.path());
    const int64_t epoch = *(*store)->Lead();
    const bool ok = (*store)->Commit({epoch, 0, {"a", "b"}, {"blob"}}).ok();
    const char answer = ok ? '1' : '0';
    if (write(ready[1], &answer, 1) != 1) _exit(1);
    pause();
    _exit(0);
  }
  char answer = 0;
  REQUIRE(read(ready[0], &answer, 1) == 1);
  CHECK(answer == '1');
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(ready[0]);
  close(ready[1]);
  auto store = SqliteStore::Open(folder.path());
  REQUIRE(store.ok());
  CHECK(*(*store)->LastRevision() == 2);
  CHECK(*(*store)->Get(base::Sha256Hex("blob")) == "blob");
}

TEST_CASE("sqlite: a folder that cannot be made is named") {
  const absl::Status status = SqliteStore::Open("/proc/none").status();
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  CHECK(std::string(status.message()).find("/proc/none") != std::string::npos);
}

TEST_CASE("sqlite: a database of another version is named and left as it was") {
  TemporaryFolder folder;
  const std::string path = folder.path() + "/warpsmith.db";
  sqlite3* db = nullptr;
  REQUIRE(sqlite3_open(path.c_str(), &db) == SQLITE_OK);
  REQUIRE(sqlite3_exec(db,
                       "CREATE TABLE meta (name TEXT, value INTEGER);"
                       "INSERT INTO meta VALUES ('schema', 7)",
                       nullptr, nullptr, nullptr) == SQLITE_OK);
  sqlite3_close(db);
  const std::string before = *base::ReadFile(path);
  const absl::Status status = SqliteStore::Open(folder.path()).status();
  CHECK(status.code() == absl::StatusCode::kFailedPrecondition);
  CHECK_THAT(std::string(status.message()),
             Catch::Contains(path) && Catch::Contains("schema 7") && Catch::Contains("--dir"));
  CHECK(*base::ReadFile(path) == before);
}

TEST_CASE("sqlite: a file that is no database is an error, not an empty store") {
  TemporaryFolder folder;
  FILE* file = fopen((folder.path() + "/warpsmith.db").c_str(), "w");
  REQUIRE(file != nullptr);
  fputs(std::string(8192, 'x').c_str(), file);
  fclose(file);
  const absl::Status status = SqliteStore::Open(folder.path()).status();
  CHECK(status.code() == absl::StatusCode::kDataLoss);
  CHECK_THAT(std::string(status.message()), Catch::Contains("/warpsmith.db: "));
}

}  // namespace warpsmith::store
