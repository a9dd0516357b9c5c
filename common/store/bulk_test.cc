#include "common/store/bulk.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/base/sha256.h"
#include "common/store/remains.h"
#include "common/store/renew.h"
#include "common/store/sqlite_store.h"
#include "common/store/testing.h"
#include "tests/support/temporary_folder.h"

namespace warpsmith::store {
namespace {

using Catch::Contains;
using support::TemporaryFolder;

const std::string kBlob(5'000, 'b');
const std::string kBody(7'000, 'f');

std::unique_ptr<SqliteStore> Open(const std::string& dir, const SqliteStore::Options& options) {
  auto store = SqliteStore::Open(dir, options);
  INFO(store.status().ToString());
  REQUIRE(store.ok());
  return *std::move(store);
}

std::vector<std::string> Files(const std::string& dir) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(dir + "/" + kBulkFolder)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// A blob and facts in bulk, each behind another one.
void Fill(const std::string& dir) {
  auto store = Open(dir, {});
  const int64_t epoch = *store->Lead();
  const std::vector<Facts> facts = {{"s", "e", "E", std::string(2'000, 'e')},
                                    {"s", "f", "F", kBody}};
  REQUIRE(store->Commit({epoch, 0, {"1"}, {std::string(2'000, 'a'), kBlob}, facts}).ok());
}

absl::Status Any(const Facts&) { return absl::OkStatus(); }

std::string DamageOf(const std::string& dir) {
  const auto remains = ReadRemains(dir, [](const Facts& facts) {
    return facts.body == std::string(facts.body.size(), facts.name[0])
               ? absl::OkStatus()
               : absl::DataLossError("it is not what was written");
  });
  REQUIRE(remains.ok());
  std::string text;
  for (const Damage& each : remains->damage) absl::StrAppend(&text, each.where, ": ", each.what);
  return text;
}

// The body of the facts that were told last.
absl::StatusOr<std::string> LastBody(Store& store) {
  std::string body;
  const absl::Status read = store.ReadFacts("s", true, [&](const Facts& facts) {
    body = facts.body;
    return false;
  });
  if (!read.ok()) return read;
  return body;
}

void Change(const std::string& path, int64_t offset) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(offset);
  file.put('!');
  REQUIRE(file.good());
}

}  // namespace

TEST_CASE("bulk: what is large lies beside the database, once, and is read over a restart") {
  TemporaryFolder folder;
  Fill(folder.path());
  CHECK(Files(folder.path()) == std::vector<std::string>{"blobs-000001", "facts-000001"});
  const std::string blobs = folder.path() + "/bulk/blobs-000001";
  CHECK(std::filesystem::file_size(blobs) == 7'000);
  auto store = Open(folder.path(), {});
  const int64_t epoch = *store->Lead();
  REQUIRE(store->Commit({epoch, 1, {"2"}, {kBlob}}).ok());
  CHECK(*store->Put(kBlob) == base::Sha256Hex(kBlob));
  CHECK(std::filesystem::file_size(blobs) == 7'000);
  CHECK(*store->Get(base::Sha256Hex(kBlob)) == kBlob);
  CHECK(*LastBody(*store) == kBody);
  CHECK(DamageOf(folder.path()) == "");
}

TEST_CASE("bulk: what was not committed is written over") {
  TemporaryFolder folder;
  Fill(folder.path());
  auto store = Open(folder.path(), {});
  const int64_t epoch = *store->Lead();
  const std::string other(6'000, 'o'), third(4'000, 't');
  // Its events do not fit, which is found after its blob was written.
  REQUIRE_FALSE(store->Commit({epoch, 1, {std::string(kMaxEventBytes + 1, 'x')}, {other}}).ok());
  const std::string blobs = folder.path() + "/bulk/blobs-000001";
  CHECK(std::filesystem::file_size(blobs) == 13'000);
  CHECK(absl::IsNotFound(store->Get(base::Sha256Hex(other)).status()));
  REQUIRE(store->Commit({epoch, 1, {"2"}, {third}}).ok());
  CHECK(*store->Get(base::Sha256Hex(third)) == third);
  CHECK(base::ReadFile(blobs)->substr(7'000, 4'000) == third);
  CHECK(DamageOf(folder.path()) == "");
}

TEST_CASE("bulk: files follow each other, and go when all that is in them is forgotten") {
  TemporaryFolder folder;
  {
    auto store = Open(folder.path(), {.facts_bytes = 100'000, .bulk_file_bytes = 20'000});
    const int64_t epoch = *store->Lead();
    for (int i = 0; i < 60; ++i) {
      const Facts facts{"s", absl::StrCat(i), "", std::string(6'990, static_cast<char>('0' + i))};
      REQUIRE(store->Commit({epoch, i, {"e"}, {}, {facts}}).ok());
      CHECK(*LastBody(*store) == facts.body);
    }
    // Three to a file; fourteen are kept.
    CHECK(Files(folder.path()) == std::vector<std::string>{"facts-000016", "facts-000017",
                                                           "facts-000018", "facts-000019",
                                                           "facts-000020"});
    int64_t read = 0;
    CHECK(store->ReadFacts("s", true, [&](const Facts&) { return ++read > 0; }).ok());
    CHECK(read == store->CountFacts()->count);
    CHECK(read == 14);
  }
  const auto remains = ReadRemains(folder.path(), Any);
  CHECK(remains->damage.empty());
  CHECK(remains->facts == 14);
}

TEST_CASE("bulk: what was changed behind its back is found, and said") {
  struct Case {
    const char* file;
    int64_t change;     // offset of a byte; -1: the file goes
    int64_t size;       // of the file afterwards; 0: as it was
    const char* said;   // by who reads it, or opens the store
    const char* check;  // by who reads all
  };
  const Case cases[] = {
      {"blobs-000001", 6'999, 0, "is not what was written", "it is not what was written"},
      {"blobs-000001", 0, 6'000, "blobs-000001 ends at byte 6000, but 7000 were made durable",
       "ends before byte 7000"},
      {"blobs-000001", -1, 0, "blobs-000001 ends at byte 0, but 7000 were", "is not there"},
      {"facts-000001", 8'000, 0, "", "facts 'f' of s: it is not what was written"},
      {"facts-000001", 0, 8'000, "facts-000001 ends at byte 8000, but 9000 were",
       "ends before byte 9000"},
      {"facts-000001", -1, 0, "facts-000001 ends at byte 0, but 9000 were", "is not there"},
  };
  for (const Case& each : cases) {
    INFO(each.file << " " << each.change << " " << each.size);
    TemporaryFolder folder;
    Fill(folder.path());
    const std::string path = absl::StrCat(folder.path(), "/bulk/", each.file);
    if (each.change >= 0) Change(path, each.change);
    if (each.change < 0) std::filesystem::remove(path);
    if (each.size > 0) std::filesystem::resize_file(path, each.size);
    auto store = SqliteStore::Open(folder.path());
    absl::Status status = store.status();
    if (store.ok()) status = (*store)->Get(base::Sha256Hex(kBlob)).status();
    // Whoever sealed a body guards it: only who opens it finds that it was changed.
    if (*each.said == '\0') {
      CHECK(status.ok());
    } else {
      CHECK(absl::IsDataLoss(status));
    }
    CHECK_THAT(std::string(status.message()), Contains(each.said));
    if (store.ok()) (*store)->Close().IgnoreError();
    const std::string damage = DamageOf(folder.path());
    CHECK_THAT(damage, Contains(each.check));

    // The rest goes on, in files of its own.
    const auto renewed = GoOnWith(folder.path(), {1, {{"a", "A"}}, {}}, [](const Facts& facts) {
      return facts.body.find('!') == std::string::npos ? absl::OkStatus()
                                                       : absl::DataLossError("changed");
    });
    REQUIRE(renewed.ok());
    CHECK(DamageOf(folder.path()) == "");
    auto next = Open(folder.path(), {});
    const std::string other(6'000, 'o');
    REQUIRE(next->Commit({*next->Lead(), 1, {"2"}, {other}}).ok());
    CHECK(*next->Get(base::Sha256Hex(other)) == other);
    CHECK(std::filesystem::exists(folder.path() + "/bulk/blobs-00000" +
                                  (each.change < 0 && each.file[0] == 'b' ? "1" : "2")));
    next->Close().IgnoreError();
    CHECK(DamageOf(folder.path()) == "");
  }
}

TEST_CASE("bulk: an older store keeps all in its rows until its upgrade is finished, for good") {
  for (const bool oldest : {false, true}) {
    TemporaryFolder folder;
    { Open(folder.path(), {}); }
    testing::Do(folder.path(),
                absl::StrCat(testing::kToSchema3, oldest ? testing::kFromSchema3To2 : ""));
    const std::string later(6'000, 'l');
    {
      auto store = Open(folder.path(), {});
      CHECK_FALSE(store->Identify()->upgraded);
      CHECK(store->Identify()->archives == !oldest);
      const int64_t epoch = *store->Lead();
      REQUIRE(store->Commit({epoch, 0, {"1"}, {kBlob}, {{"s", "f", "F", kBody}}}).ok());
      CHECK(*store->Get(base::Sha256Hex(kBlob)) == kBlob);
      CHECK(*LastBody(*store) == kBody);
    }
    CHECK_FALSE(std::filesystem::exists(folder.path() + "/" + kBulkFolder));
    CHECK(DamageOf(folder.path()) == "");
    CHECK(*FinishUpgrade(folder.path()));
    CHECK_FALSE(*FinishUpgrade(folder.path()));
    {
      auto store = Open(folder.path(), {});
      CHECK(store->Identify()->upgraded);
      CHECK(store->Identify()->archives);
      const int64_t epoch = *store->Lead();
      REQUIRE(store->Commit({epoch, 1, {"2"}, {later}, {{"s", "l", "L", later}}}).ok());
      CHECK(*store->Get(base::Sha256Hex(kBlob)) == kBlob);
      CHECK(*store->Get(base::Sha256Hex(later)) == later);
      CHECK(*LastBody(*store) == later);
    }
    CHECK(Files(folder.path()) == std::vector<std::string>{"blobs-000001", "facts-000001"});
    CHECK(DamageOf(folder.path()) == "");
    CHECK(ReadRemains(folder.path(), Any)->facts == 2);
    CHECK(ReadRemains(folder.path(), Any)->blobs.size() == 2);
  }
}

TEST_CASE("bulk: one moment of a store is read whole, whatever becomes of it meanwhile") {
  TemporaryFolder folder;
  SqliteStore::Options options;
  options.facts_bytes = 10'000;
  options.bulk_file_bytes = 1'000;
  Fill(folder.path());
  auto store = Open(folder.path(), options);
  const int64_t epoch = *store->Lead();
  auto moment = SqliteStore::OpenToRead(folder.path());
  REQUIRE(moment.ok());
  // All facts that were there are forgotten, and their file is gone.
  for (int i = 0; i < 5; ++i) {
    REQUIRE(store->Commit({epoch, 1 + i, {"2"}, {}, {{"s", "g", "G", kBody}}}).ok());
  }
  REQUIRE(store->SaveCheckpoint(epoch, {6, {{"a", "A"}}, {}}).ok());
  CHECK(Files(folder.path()).front() == "blobs-000001");
  CHECK_FALSE(std::filesystem::exists(folder.path() + "/bulk/facts-000001"));
  CHECK(*(*moment)->LastRevision() == 1);
  CHECK((*moment)->Read(0, 10)->size() == 1);
  CHECK(*(*moment)->LoadCheckpoint([](const Entry&) {}) == 0);
  CHECK(*(*moment)->Get(base::Sha256Hex(kBlob)) == kBlob);
  std::vector<std::string> bodies;
  const absl::Status read = (*moment)->ReadFacts("s", true, [&](const Facts& facts) {
    bodies.push_back(facts.body);
    return true;
  });
  CHECK(read.ok());
  CHECK(bodies == std::vector<std::string>{kBody, std::string(2'000, 'e')});
  CHECK_FALSE((*moment)->Lead().ok());
  CHECK_FALSE((*moment)->Commit({epoch, 1, {"x"}, {}}).ok());
  CHECK(absl::IsNotFound(SqliteStore::OpenToRead(folder.path() + "/none").status()));
}

TEST_CASE("bulk: a database that comes back finds what it names, whatever came in its place") {
  TemporaryFolder folder, aside;
  Fill(folder.path());
  const std::string database = folder.path() + "/" + kDatabase;
  std::filesystem::rename(database, aside.path() + "/" + kDatabase);
  const std::string other(3'000, 'o');
  {
    auto store = Open(folder.path(), {});
    REQUIRE(store->Commit({*store->Lead(), 0, {"1"}, {other}, {{"s", "o", "", other}}}).ok());
    CHECK(*store->Get(base::Sha256Hex(other)) == other);
  }
  CHECK(DamageOf(folder.path()) == "");
  std::filesystem::remove(database);
  std::filesystem::rename(aside.path() + "/" + kDatabase, database);
  CHECK(DamageOf(folder.path()) == "");
  // Nor does it write over the files of the other one, when its own are full.
  auto store = Open(folder.path(), {.bulk_file_bytes = 5'000});
  REQUIRE(store->Commit({*store->Lead(), 1, {"2"}, {std::string(4'000, 'n')}}).ok());
  CHECK(Files(folder.path()) == std::vector<std::string>{"blobs-000001", "blobs-000002",
                                                         "blobs-000003", "facts-000001",
                                                         "facts-000002"});
}

}  // namespace warpsmith::store
