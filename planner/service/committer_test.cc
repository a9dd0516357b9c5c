#include "planner/service/committer.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "common/store/faulty_store.h"
#include "common/store/sqlite_store.h"
#include "tests/support/temporary_folder.h"

namespace warpsmith::planner {
namespace {

using store::Fault;

using Folder = support::TemporaryFolder;

}  // namespace

TEST_CASE(
    "an answer goes out only when its events are durable, in order, also when answers of the "
    "store are lost") {
  Folder folder;
  auto inner = *store::SqliteStore::Open(folder.path());
  std::mt19937_64 random(7);
  int faults = 0;
  store::FaultyStore store(inner.get(), [&](absl::string_view call) {
    // Never more in a row than the committer bears.
    if (call != "Commit" || faults >= kCommitAttempts - 1 || random() % 4 != 0) {
      faults = 0;
      return Fault::kNone;
    }
    ++faults;
    return random() % 2 == 0 ? Fault::kExecutedTimeout : Fault::kUnavailable;
  });
  const int64_t epoch = *store.Lead();
  absl::Status fatal;
  constexpr int kEntries = 40;
  std::vector<int> answered;
  bool durable = true;
  {
    Committer committer(&store, epoch, 0, [&](const absl::Status& status) { fatal = status; });
    for (int i = 0; i < kEntries; ++i) {
      committer.Enqueue({{absl::StrCat("event ", i)}, {absl::StrCat("blob ", i)}, [&, i] {
                           durable = durable && *inner->LastRevision() > i;
                           answered.push_back(i);
                         }});
    }
    committer.Stop();
  }
  CHECK(fatal.ok());
  CHECK(durable);
  REQUIRE(answered.size() == kEntries);
  const auto records = *inner->Read(0, 1000);
  REQUIRE(records.size() == kEntries);
  for (int i = 0; i < kEntries; ++i) {
    CHECK(answered[i] == i);
    CHECK(records[i].bytes == absl::StrCat("event ", i));
  }
}

TEST_CASE("what waits while a commit is under way goes together with the next") {
  Folder folder;
  auto inner = *store::SqliteStore::Open(folder.path());
  absl::Notification first_is_under_way, go_on;
  int commits = 0;
  store::FaultyStore store(inner.get(), [&](absl::string_view call) {
    if (call == "Commit" && ++commits == 1) {
      first_is_under_way.Notify();
      go_on.WaitForNotification();
    }
    return Fault::kNone;
  });
  Committer committer(&store, *store.Lead(), 0, [](const absl::Status&) {});
  committer.Enqueue({{"0"}, {}, nullptr});
  first_is_under_way.WaitForNotification();
  int answered = 0;
  for (int i = 1; i <= 100; ++i) {
    committer.Enqueue({{absl::StrCat(i)}, {}, [&] { ++answered; }});
  }
  CHECK(committer.Backlog() == 101);
  go_on.Notify();
  committer.Stop();
  CHECK(commits == 2);
  CHECK(answered == 100);
  CHECK(*inner->LastRevision() == 101);
}

TEST_CASE("a snapshot is of the events before it") {
  Folder folder;
  auto inner = *store::SqliteStore::Open(folder.path());
  Committer committer(inner.get(), *inner->Lead(), 0, [](const absl::Status&) {});
  committer.Enqueue({{"a", "b"}, {}, nullptr});
  committer.Enqueue({{}, {}, nullptr, store::Record{2, "state"}});
  committer.Enqueue({{"c"}, {}, nullptr});
  committer.Stop();
  CHECK((*inner->LoadSnapshot())->bytes == "state");
  CHECK(*inner->LastRevision() == 3);
}

TEST_CASE("a snapshot that cannot be saved ends nothing") {
  Folder folder;
  auto inner = *store::SqliteStore::Open(folder.path());
  store::FaultyStore store(inner.get(), [](absl::string_view call) {
    return call == "SaveSnapshot" ? Fault::kUnavailable : Fault::kNone;
  });
  absl::Status fatal;
  bool answered = false;
  {
    Committer committer(&store, *store.Lead(), 0, [&](const absl::Status& s) { fatal = s; });
    committer.Enqueue({{"a"}, {}, nullptr});
    committer.Enqueue({{}, {}, nullptr, store::Record{1, "state"}});
    committer.Enqueue({{"b"}, {}, [&] { answered = true; }});
  }
  CHECK(fatal.ok());
  CHECK(answered);
  CHECK(*inner->LastRevision() == 2);
}

TEST_CASE("a commit that is refused, or stays unanswered, is fatal and nothing is answered") {
  Folder folder;
  auto inner = *store::SqliteStore::Open(folder.path());
  const int64_t epoch = *inner->Lead();
  const bool stale = GENERATE(true, false);
  store::FaultyStore store(
      inner.get(), [&](absl::string_view) { return stale ? Fault::kNone : Fault::kTimeout; });
  if (stale) REQUIRE(inner->Lead().ok());  // another planner has taken over
  absl::Status fatal;
  bool answered = false;
  {
    Committer committer(&store, epoch, 0, [&](const absl::Status& status) { fatal = status; });
    committer.Enqueue({{"a"}, {}, [&] { answered = true; }});
    committer.Stop();
  }
  CHECK(fatal.code() ==
        (stale ? absl::StatusCode::kFailedPrecondition : absl::StatusCode::kDeadlineExceeded));
  CHECK_FALSE(answered);
}

}  // namespace warpsmith::planner
