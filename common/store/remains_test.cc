#include "common/store/remains.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/sha256.h"
#include "common/store/renew.h"
#include "common/store/sqlite.h"
#include "common/store/sqlite_store.h"
#include "common/store/testing.h"
#include "tests/support/temporary_folder.h"

namespace warpsmith::store {
namespace {

using Catch::Contains;
using support::TemporaryFolder;
using testing::Do;

int64_t PageBytes(const std::string& dir) {
  auto db = Database::Open(dir + "/" + kDatabase, SQLITE_OPEN_READONLY);
  REQUIRE(db.ok());
  return *QueryInt(db->get(), "PRAGMA page_size");
}

// A checkpoint of the first two of six events, two blobs, three facts.
void Fill(const std::string& dir) {
  auto store = SqliteStore::Open(dir);
  REQUIRE(store.ok());
  const int64_t epoch = *(*store)->Lead();
  const std::vector<Facts> facts = {
      {"s", "f", "F", "ff"}, {"s", "g", "G", "gg"}, {"t", "h", "", ""}};
  REQUIRE((*store)->Commit({epoch, 0, {"1", "2", "3"}, {"blob", "other"}, facts}).ok());
  REQUIRE((*store)->SaveCheckpoint(epoch, {2, {{"a", "A"}, {"b", "B"}}, {}}).ok());
  REQUIRE((*store)->Commit({epoch, 3, {"4", "5", "6"}, {}}).ok());
}

// Bodies are their names, twice.
absl::Status Twice(const Facts& facts) {
  return facts.body == facts.name + facts.name || facts.body.empty()
             ? absl::OkStatus()
             : absl::DataLossError("it is not its name twice");
}

std::string TextOf(const Remains& remains) {
  std::string text;
  for (const Damage& damage : remains.damage) {
    absl::StrAppend(&text, damage.where, ": ", damage.what, "\n");
  }
  return text;
}

std::string LogOf(const Remains& remains) {
  std::string text;
  for (const Record& record : remains.log) absl::StrAppend(&text, record.bytes);
  return text;
}

}  // namespace

TEST_CASE("remains: of a whole store all is there") {
  TemporaryFolder folder;
  Fill(folder.path());
  const auto remains = ReadRemains(folder.path(), Twice);
  REQUIRE(remains.ok());
  CHECK(TextOf(*remains) == "");
  CHECK(remains->last == 6);
  CHECK(remains->checkpoint == 2);
  CHECK(remains->entries.size() == 2);
  CHECK(LogOf(*remains) == "3456");
  CHECK(remains->events == 4);
  CHECK(remains->blobs == std::set<std::string>{base::Sha256Hex("blob"), base::Sha256Hex("other")});
  CHECK(remains->facts == 3);
  // Also while it is in use, with what stands beside the file.
  auto store = SqliteStore::Open(folder.path());
  REQUIRE((*store)->Commit({*(*store)->Lead(), 6, {"7"}, {}}).ok());
  CHECK(LogOf(*ReadRemains(folder.path(), Twice)) == "34567");
}

TEST_CASE("remains: each damage is named, and the rest is read") {
  TemporaryFolder folder;
  Fill(folder.path());
  struct Case {
    const char* sql;
    const char* said;
    const char* log;  // that can be gone on with
    int entries, blobs, facts;
  };
  const Case cases[] = {
      {"UPDATE events SET bytes = 'x' WHERE revision = 4", "event 4: it is not what was written\n",
       "3", 2, 2, 3},
      {"DELETE FROM events WHERE revision = 4", "event 4: not in the log\n", "3", 2, 2, 3},
      {"DELETE FROM events WHERE revision IN (3, 4)", "events 3 to 4: not in the log\n", "", 2, 2,
       3},
      {"DELETE FROM events WHERE revision > 4",
       "the log's end: it ends at event 4, but 6 were made durable, and the checkpoint is of 2\n",
       "34", 2, 2, 3},
      {"DELETE FROM events",
       "the log's end: it ends at event 2, but 6 were made durable, and the checkpoint is of 2\n",
       "", 2, 2, 3},
      {"UPDATE meta SET value = 1 WHERE name = 'last_sum'",
       "the log's end: its checksum is not that of the log\n", "3456", 2, 2, 3},
      {"UPDATE checkpoint SET bytes = 'x' WHERE key = 'b'",
       "entry 'b' of the checkpoint: it is not what was written\n", "3456", 1, 2, 3},
      {"DELETE FROM checkpoint WHERE key = 'a'", "the checkpoint: it has 1 entries of 2\n", "3456",
       1, 2, 3},
      {"UPDATE meta SET value = 1 WHERE name = 'checkpoint_sum'",
       "the checkpoint: its entries are not those that were written\n", "3456", 2, 2, 3},
      {"DELETE FROM meta WHERE name = 'generation'", "number 'generation': it is not there\n",
       "3456", 2, 2, 3},
      {"UPDATE blobs SET bytes = 'Blob' WHERE bytes = CAST('blob' AS BLOB)",
       "fa2c8cc4f28176bbeed4b736df569a34c79cd3723e9ec42f9674b4d46ac6b8b8: it is not what", "3456",
       2, 1, 3},
      {"UPDATE facts SET head = 'x' WHERE name = 'g'",
       "facts 'g' of s: it is not what was written\n", "3456", 2, 2, 2},
      {"UPDATE facts SET body = 'x' WHERE name = 'g'", "facts 'g' of s: it is not its name twice\n",
       "3456", 2, 2, 2},
      {"DELETE FROM facts WHERE name = 'g'", "facts: there are 2 of 3\n", "3456", 2, 2, 2},
  };
  for (const Case& each : cases) {
    INFO(each.sql);
    TemporaryFolder copy;
    std::filesystem::copy(folder.path(), copy.path(), std::filesystem::copy_options::recursive);
    Do(copy.path(), each.sql);
    const auto remains = ReadRemains(copy.path(), Twice);
    REQUIRE(remains.ok());
    CHECK_THAT(TextOf(*remains), Contains(each.said));
    CHECK(remains->damage.size() == 1);
    CHECK(LogOf(*remains) == each.log);
    CHECK(remains->entries.size() == each.entries);
    CHECK(remains->blobs.size() == each.blobs);
    CHECK(remains->facts == each.facts);

    // What is left goes on, whole, as another history; what was there is kept.
    const auto kept = GoOnWith(copy.path(), {7, {{"a", "A"}, {"c", "C"}}, {}}, Twice);
    REQUIRE(kept.ok());
    TemporaryFolder kept_folder;
    std::filesystem::copy(kept->kept, kept_folder.path() + "/" + kDatabase);
    CHECK(TextOf(*ReadRemains(kept_folder.path(), Twice)) == TextOf(*remains));
    CHECK(!std::filesystem::exists(copy.path() + "/" + kDatabase + ".new"));
    const auto after = ReadRemains(copy.path(), Twice);
    REQUIRE(after.ok());
    CHECK(TextOf(*after) == "");
    CHECK(after->identity.id == remains->identity.id);
    CHECK(after->identity.generation == remains->identity.generation + 1);
    CHECK(TokenOf(kept->identity) == TokenOf(after->identity));
    CHECK(after->blobs == remains->blobs);
    CHECK(after->facts == remains->facts);
    CHECK(PageBytes(copy.path()) == PageBytes(folder.path()));
    auto store = SqliteStore::Open(copy.path());
    REQUIRE(store.ok());
    CHECK(*(*store)->Lead() == 2);
    CHECK(*(*store)->LastRevision() == 7);
    REQUIRE((*store)->Commit({2, 7, {"8"}, {"more"}, {{"s", "i", "", "ii"}}}).ok());
    REQUIRE((*store)->SaveCheckpoint(2, {8, {{"a", "AA"}}, {"c"}}).ok());
    CHECK((*store)->CountFacts()->count == remains->facts + 1);
    CHECK((*store)->CountFacts()->forgotten ==
          (each.facts == 2 && std::string(each.sql).find("UPDATE") == 0 ? 1 : 0));
    CHECK(TextOf(*ReadRemains(copy.path(), Twice)) == "");
  }
}

TEST_CASE("remains: a second loss keeps another copy") {
  TemporaryFolder folder;
  Fill(folder.path());
  const std::string first = GoOnWith(folder.path(), {6, {}, {}}, Twice)->kept;
  const std::string second = GoOnWith(folder.path(), {6, {}, {}}, Twice)->kept;
  CHECK(first == folder.path() + "/warpsmith.db.generation-1");
  CHECK(second == folder.path() + "/warpsmith.db.generation-2");
}

TEST_CASE("remains: what is no store, or another version's, is said and left as it was") {
  TemporaryFolder folder;
  CHECK(absl::IsNotFound(ReadRemains(folder.path(), Twice).status()));
  CHECK(std::filesystem::is_empty(folder.path()));
  std::ofstream(folder.path() + "/" + kDatabase) << "no database at all, but of some length\n";
  CHECK(absl::IsDataLoss(ReadRemains(folder.path(), Twice).status()));
  TemporaryFolder other;
  Fill(other.path());
  Do(other.path(), "UPDATE meta SET value = 1 WHERE name = 'schema'");
  const auto remains = ReadRemains(other.path(), Twice);
  CHECK(absl::IsFailedPrecondition(remains.status()));
  CHECK_THAT(std::string(remains.status().message()), Contains("schema 1"));
}

TEST_CASE("remains: of the archive what is damaged is named, and the rest goes on") {
  TemporaryFolder folder;
  Fill(folder.path());
  {
    auto store = SqliteStore::Open(folder.path());
    const int64_t epoch = *(*store)->Lead();
    REQUIRE((*store)->SaveCheckpoint(epoch, {3, {}, {}, {{"t/1", "one"}, {"t/2", "two"}}}).ok());
  }
  CHECK(ReadRemains(folder.path(), Twice)->archived == 2);
  CHECK(TextOf(*ReadRemains(folder.path(), Twice)) == "");
  Do(folder.path(), "UPDATE archive SET bytes = 'eno' WHERE key = 't/1'");
  {
    auto store = SqliteStore::Open(folder.path());
    const absl::Status read = (*store)->ReadArchive("t/", [](Entry) { return true; });
    CHECK(absl::IsDataLoss(read));
    CHECK_THAT(std::string(read.message()), Contains("'t/1' of the archive"));
    CHECK((*store)->ReadArchive("t/2", [](Entry) { return true; }).ok());
  }
  CHECK_THAT(TextOf(*ReadRemains(folder.path(), Twice)), Contains("entry 't/1' of the archive"));
  REQUIRE(GoOnWith(folder.path(), {6, {}, {}, {{"t/2", "two"}, {"t/3", "three"}}}, Twice).ok());
  CHECK(TextOf(*ReadRemains(folder.path(), Twice)) == "");
  CHECK(ReadRemains(folder.path(), Twice)->archived == 2);
  Do(folder.path(), "DELETE FROM archive");
  CHECK_THAT(TextOf(*ReadRemains(folder.path(), Twice)), Contains("0 entries of 2"));
}

TEST_CASE("remains: a store of the version before stays one until its upgrade is finished") {
  TemporaryFolder folder;
  Fill(folder.path());
  CHECK_FALSE(*FinishUpgrade(folder.path()));
  Do(folder.path(), absl::StrCat(testing::kToSchema3, testing::kFromSchema3To2));
  CHECK(TextOf(*ReadRemains(folder.path(), Twice)) == "");
  {
    auto store = SqliteStore::Open(folder.path());
    REQUIRE(store.ok());
    CHECK_FALSE((*store)->Identify()->upgraded);
    const int64_t epoch = *(*store)->Lead();
    const absl::Status kept =
        (*store)->SaveCheckpoint(epoch, {3, {{"c", "C"}}, {}, {{"t/1", "one"}}});
    CHECK(absl::IsInvalidArgument(kept));
    CHECK((*store)->ReadArchive("", [](Entry) { return false; }).ok());
    REQUIRE((*store)->SaveCheckpoint(epoch, {3, {{"c", "C"}}, {}}).ok());
  }
  CHECK(TextOf(*ReadRemains(folder.path(), Twice)) == "");
  CHECK(*FinishUpgrade(folder.path()));
  {
    auto store = SqliteStore::Open(folder.path());
    REQUIRE(store.ok());
    CHECK((*store)->Identify()->upgraded);
    const int64_t epoch = *(*store)->Lead();
    CHECK(*(*store)->LastRevision() == 6);
    REQUIRE((*store)->SaveCheckpoint(epoch, {4, {}, {}, {{"t/1", "one"}}}).ok());
  }
  CHECK(TextOf(*ReadRemains(folder.path(), Twice)) == "");
  CHECK(ReadRemains(folder.path(), Twice)->archived == 1);
}

TEST_CASE("remains: damage without end is counted") {
  Remains remains;
  for (int i = 0; i < kMaxDamage + 5; ++i) remains.Add("here", "that");
  CHECK(remains.damage.size() == kMaxDamage);
  CHECK(remains.more_damage == 5);
}

}  // namespace warpsmith::store
