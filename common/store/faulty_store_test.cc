#include "common/store/faulty_store.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/store/conformance.h"
#include "common/store/sqlite_store.h"
#include "tests/support/temporary_folder.h"

namespace warpsmith::store {
namespace {

class TemporaryStore {
 public:
  TemporaryStore() : store_(*SqliteStore::Open(folder_.path())) {}
  Store* get() { return store_.get(); }

 private:
  support::TemporaryFolder folder_;
  std::unique_ptr<Store> store_;
};

}  // namespace

TEST_CASE("each fault does what its name says") {
  TemporaryStore inner;
  Fault next = Fault::kNone;
  FaultyStore store(inner.get(), [&](absl::string_view) { return next; });
  const int64_t epoch = *store.Lead();
  next = Fault::kUnavailable;
  CHECK(store.Commit({epoch, 0, {"a"}, {}}).code() == absl::StatusCode::kUnavailable);
  next = Fault::kTimeout;
  CHECK(store.Commit({epoch, 0, {"a"}, {}}).code() == absl::StatusCode::kDeadlineExceeded);
  CHECK(*inner.get()->LastRevision() == 0);
  next = Fault::kExecutedTimeout;
  CHECK(store.Commit({epoch, 0, {"a"}, {}}).code() == absl::StatusCode::kDeadlineExceeded);
  CHECK(*inner.get()->LastRevision() == 1);
}

TEST_CASE("a writer that repeats until OK has each event in the log once") {
  TemporaryStore inner;
  std::mt19937_64 random(1);
  FaultyStore store(inner.get(), [&](absl::string_view call) {
    return call == "Commit" ? static_cast<Fault>(random() % 4) : Fault::kNone;
  });
  const int64_t epoch = *store.Lead();
  constexpr int kEvents = 60;
  for (int i = 0; i < kEvents; ++i) {
    const Batch batch{epoch, i, {absl::StrCat("event ", i)}, {}};
    absl::Status status;
    do {
      status = store.Commit(batch);
      REQUIRE(status.code() != absl::StatusCode::kFailedPrecondition);
    } while (!status.ok());
  }
  const auto records = *inner.get()->Read(0, kMaxReadEvents);
  REQUIRE(records.size() == kEvents);
  for (int i = 0; i < kEvents; ++i) CHECK(records[i].bytes == absl::StrCat("event ", i));
}

}  // namespace warpsmith::store
