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
#include "common/store/remains.h"
#include "common/store/testing.h"
#include "tests/support/temporary_folder.h"

namespace warpsmith::store {
namespace {

using support::TemporaryFolder;

// A checkpoint of the first two of six events, a blob, facts.
void Fill(const std::string& dir) {
  auto store = SqliteStore::Open(dir);
  REQUIRE(store.ok());
  const int64_t epoch = *(*store)->Lead();
  REQUIRE((*store)->Commit({epoch, 0, {"1", "2", "3"}, {"blob"}, {{"s", "f", "F", "ff"}}}).ok());
  REQUIRE((*store)->SaveCheckpoint(epoch, {2, {{"a", "A"}, {"b", "B"}}, {}}).ok());
  REQUIRE((*store)->Commit({epoch, 3, {"4", "5", "6"}, {}}).ok());
}

// The first error of whoever reads all of it; OK: nothing is wrong.
absl::Status ReadAll(const std::string& dir) {
  auto store = SqliteStore::Open(dir);
  if (!store.ok()) return store.status();
  const absl::StatusOr<int64_t> revision = (*store)->LoadCheckpoint([](const Entry&) {});
  if (!revision.ok()) return revision.status();
  for (const size_t limit : {100, 1}) {  // from the checkpoint on, and from its end
    const auto events = (*store)->Read(limit == 1 ? 5 : *revision, limit);
    if (!events.ok()) return events.status();
  }
  if (auto blob = (*store)->Get(base::Sha256Hex("blob")); !blob.ok()) return blob.status();
  return (*store)->ReadFacts("s", true, [](const Facts&) { return true; });
}

}  // namespace

TEST_CASE("sqlite: what was changed behind its back is found, and said") {
  TemporaryFolder folder;
  Fill(folder.path());
  REQUIRE(ReadAll(folder.path()).ok());
  struct Case {
    const char* sql;
    const char* said;
  };
  const Case cases[] = {
      {"UPDATE events SET bytes = 'x' WHERE revision = 4", "event 4 of the log is not what"},
      {"UPDATE events SET bytes = (SELECT bytes FROM events WHERE revision = 5), sum = (SELECT sum "
       "FROM events WHERE revision = 5) WHERE revision = 4",
       "event 4 of the log is not what"},
      {"DELETE FROM events WHERE revision = 4", "the log has no event 4, of 6"},
      {"DELETE FROM events WHERE revision = 3", "the log has no event 3, of 6"},
      {"DELETE FROM events WHERE revision = 6", "ends at event 5, but 6 were made durable"},
      {"DELETE FROM events WHERE revision > 2", "ends at event 2, but 6 were made durable"},
      {"DELETE FROM events", "ends at event 2, but 6 were made durable"},
      {"UPDATE checkpoint SET bytes = 'x' WHERE key = 'b'", "entry 'b' of the checkpoint is not"},
      {"UPDATE checkpoint SET key = 'c' WHERE key = 'b'", "entry 'c' of the checkpoint is not"},
      {"DELETE FROM checkpoint WHERE key = 'a'", "is not whole: 1 entries of 2"},
      {"UPDATE meta SET value = value + 1 WHERE name = 'checkpoint_sum'", "not those that were"},
      {"UPDATE meta SET value = 9 WHERE name = 'checkpoint'", "and the checkpoint is of 9"},
      {"DELETE FROM meta WHERE name = 'last'", "meta has no 'last'"},
      {"UPDATE blobs SET bytes = 'Blob'", "is not what was written"},
      {"UPDATE facts SET head = 'G'", "facts 'f' are not what was written"},
      {"UPDATE facts SET name = 'G'", "facts 'G' are not what was written"},
  };
  for (const Case& damage : cases) {
    INFO(damage.sql);
    TemporaryFolder copy;
    std::filesystem::copy(folder.path(), copy.path(), std::filesystem::copy_options::recursive);
    testing::Do(copy.path(), damage.sql);
    const absl::Status status = ReadAll(copy.path());
    CHECK(status.code() == absl::StatusCode::kDataLoss);
    CHECK_THAT(std::string(status.message()), Catch::Contains(damage.said));
  }
}

TEST_CASE("sqlite: the oldest facts make room for new ones, and are counted") {
  TemporaryFolder folder;
  auto store = SqliteStore::Open(folder.path(), {.facts_bytes = 10'000});
  REQUIRE(store.ok());
  const int64_t epoch = *(*store)->Lead();
  const auto names = [&](const std::string& subject) {
    std::string text;
    REQUIRE((*store)
                ->ReadFacts(subject, true,
                            [&](const Facts& facts) {
                              CHECK(facts.body == std::string(900, 'x'));
                              text += facts.name + " ";
                              return true;
                            })
                .ok());
    return text;
  };
  for (int i = 0; i < 200; ++i) {
    const Facts facts{absl::StrCat("s", i % 2), absl::StrCat(i), "", std::string(900, 'x')};
    REQUIRE((*store)->Commit({epoch, i, {"e"}, {}, {facts}}).ok());
    CHECK((*store)->CountFacts()->bytes <= 10'000);
  }
  CHECK(names("s1") == "199 197 195 193 191 189 ");
  CHECK(names("s0") == "198 196 194 192 190 ");
  CHECK(((*store)->CountFacts()->count == 11 || (*store)->CountFacts()->count == 10));
  CHECK((*store)->CountFacts()->count + (*store)->CountFacts()->forgotten == 200);
  // Larger than all the room: kept by nobody, and the event is there.
  REQUIRE((*store)
              ->Commit({epoch, 200, {"e"}, {}, {{"s0", "huge", "", std::string(20'000, 'x')}}})
              .ok());
  CHECK((*store)->CountFacts()->count == 0);
  CHECK(*(*store)->LastRevision() == 201);
}

TEST_CASE("sqlite: conformance") {
  TemporaryFolder folder;
  CheckConformance([&]() -> std::unique_ptr<Store> {
    auto store = SqliteStore::Open(folder.path() + "/made/when/missing");
    INFO(store.status().ToString());
    REQUIRE(store.ok());
    return std::move(*store);
  });
}

TEST_CASE("sqlite: what nothing names goes, with its room, and nothing else") {
  for (uint64_t seed = 0; seed < 12; ++seed) {
    TemporaryFolder folder;
    SqliteStore::Options options;
    options.bulk_file_bytes = 7'000;
    CheckSweep([&] { return *SqliteStore::Open(folder.path(), options); }, seed, 150);
    // Few are left, and their files are at least half full but for the one that is written to.
    int files = 0;
    for (const auto& file : std::filesystem::directory_iterator(folder / kBulkFolder)) {
      files += file.path().filename().string().rfind("blobs-", 0) == 0;
    }
    CHECK(files <= 8);
    const auto remains = ReadRemains(folder.path(), [](const Facts&) { return absl::OkStatus(); });
    CHECK(remains->damage.empty());
  }
}

TEST_CASE("sqlite: what nothing names stays until the upgrade is finished") {
  TemporaryFolder folder;
  *SqliteStore::Open(folder.path());
  testing::Do(folder.path(), testing::kToSchema3);
  auto store = *SqliteStore::Open(folder.path());
  Sweep sweep;
  sweep.named = [](const std::string&) { return false; };
  CHECK(absl::IsFailedPrecondition(store->SweepBlobs(*store->Lead(), sweep).status()));
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
