#include "planner/service/committer.h"

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "common/store/faulty_store.h"
#include "common/store/sqlite_store.h"
#include "tests/support/temporary_folder.h"

namespace warpsmith::planner {
namespace {

using store::Fault;

using Folder = support::TemporaryFolder;

// What a committer says.
struct Said {
  std::vector<int64_t> durable;
  std::vector<int64_t> saved;
  std::atomic<int> stalls{0};
  absl::Status fatal;

  Committer::Callbacks Callbacks() {
    return {[this](int64_t number) { durable.push_back(number); },
            [this](const absl::Status&) { ++stalls; },
            [this](const absl::Status& status) { fatal = status; },
            [this](int64_t revision) { saved.push_back(revision); }};
  }
};

Write WriteOf(int64_t number, std::vector<std::string> events) {
  Write write;
  write.number = number;
  write.events = std::move(events);
  return write;
}

}  // namespace

TEST_CASE(
    "what is called durable is, in order, also when answers of the store are lost, or it takes "
    "nothing for a while") {
  Folder folder;
  auto inner = *store::SqliteStore::Open(folder.path());
  std::mt19937_64 random(7);
  int calls = 0;
  store::FaultyStore store(inner.get(), [&](absl::string_view call) {
    if (call != "Commit") return Fault::kNone;
    ++calls;
    if (calls > 10 && calls <= 10 + kFailuresOfAStall) return Fault::kUnavailable;
    if (random() % 4 != 0) return Fault::kNone;
    return random() % 2 == 0 ? Fault::kExecutedTimeout : Fault::kUnavailable;
  });
  Said said;
  constexpr int kWrites = 40;
  bool durable = true;
  Committer::Callbacks callbacks = said.Callbacks();
  callbacks.on_durable = [&](int64_t number) {
    durable = durable && *inner->LastRevision() >= number;
    said.durable.push_back(number);
  };
  {
    Committer committer(Writer(&store, *store.Lead(), 0), callbacks);
    for (int i = 0; i < kWrites; ++i) {
      committer.Enqueue({i + 1, {absl::StrCat("event ", i)}, {absl::StrCat("blob ", i)}, {}});
      // Several transactions, not one.
      while (i % 4 == 0 && *inner->LastRevision() <= i) absl::SleepFor(absl::Milliseconds(1));
    }
    committer.Stop();
  }
  CHECK(said.fatal.ok());
  CHECK(said.stalls > 0);
  CHECK(durable);
  CHECK(said.durable.back() == kWrites);
  CHECK(std::is_sorted(said.durable.begin(), said.durable.end()));
  const auto records = *inner->Read(0, 1000);
  REQUIRE(records.size() == kWrites);
  for (int i = 0; i < kWrites; ++i) CHECK(records[i].bytes == absl::StrCat("event ", i));
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
  Said said;
  Committer committer(Writer(&store, *store.Lead(), 0), said.Callbacks());
  committer.Enqueue(WriteOf(1, {"0"}));
  first_is_under_way.WaitForNotification();
  for (int i = 1; i <= 100; ++i) committer.Enqueue(WriteOf(i + 1, {absl::StrCat(i)}));
  go_on.Notify();
  committer.Stop();
  CHECK(commits == 2);
  CHECK(said.durable == std::vector<int64_t>{1, 101});
  CHECK(*inner->LastRevision() == 101);
}

// Of a run of that id, as after `revision`.
Write CheckpointWrite(int64_t number, int64_t revision, const std::string& run_id,
                      bool due = true) {
  auto changes = std::make_shared<Changes>();
  changes->records.set_revision(revision);
  changes->records.add_runs()->mutable_run()->set_id(run_id);
  Write write;
  write.number = number;
  write.changes = std::move(changes);
  write.checkpoint = due;
  return write;
}

TEST_CASE("a checkpoint is of the events before it, and of all changes since the last") {
  Folder folder;
  auto inner = *store::SqliteStore::Open(folder.path());
  Said said;
  Committer committer(Writer(inner.get(), *inner->Lead(), 0), said.Callbacks());
  committer.Enqueue(WriteOf(1, {"a", "b"}));
  committer.Enqueue(CheckpointWrite(2, 1, "r1", /*due=*/false));
  committer.Enqueue(CheckpointWrite(3, 2, "r2"));
  committer.Enqueue(WriteOf(4, {"c"}));
  committer.Enqueue(CheckpointWrite(5, 3, "r3", /*due=*/false));
  committer.Stop();
  const auto state = LoadState(*inner);
  REQUIRE(state.ok());
  CHECK(state->revision() == 2);
  REQUIRE(state->runs_size() == 2);
  CHECK(state->runs(0).run().id() == "r1");
  CHECK(state->runs(1).run().id() == "r2");
  CHECK(*inner->LastRevision() == 3);
}

TEST_CASE("a checkpoint that cannot be saved ends nothing, and is part of the next") {
  Folder folder;
  auto inner = *store::SqliteStore::Open(folder.path());
  std::atomic<int> saves = 0;
  store::FaultyStore store(inner.get(), [&saves](absl::string_view call) {
    return call == "SaveCheckpoint" && saves++ == 0 ? Fault::kUnavailable : Fault::kNone;
  });
  Said said;
  {
    Committer committer(Writer(&store, *store.Lead(), 0), said.Callbacks());
    committer.Enqueue(WriteOf(1, {"a"}));
    committer.Enqueue(CheckpointWrite(2, 1, "r1"));
    while (saves == 0) absl::SleepFor(absl::Milliseconds(1));  // not together with the next
    committer.Enqueue(WriteOf(3, {"b"}));
    committer.Enqueue(CheckpointWrite(4, 2, "r2"));
  }
  CHECK(said.fatal.ok());
  CHECK(said.durable.back() == 4);
  CHECK(said.saved == std::vector<int64_t>{2});  // and not the one that was asked for before
  CHECK(*inner->LastRevision() == 2);
  const auto state = LoadState(*inner);
  REQUIRE(state.ok());
  CHECK(state->revision() == 2);
  CHECK(state->runs_size() == 2);
}

TEST_CASE("a checkpoint that could not be saved is saved with the next commit") {
  Folder folder;
  auto inner = *store::SqliteStore::Open(folder.path());
  int saves = 0;
  store::FaultyStore store(inner.get(), [&saves](absl::string_view call) {
    return call == "SaveCheckpoint" && saves++ == 0 ? Fault::kUnavailable : Fault::kNone;
  });
  Said said;
  {
    Committer committer(Writer(&store, *store.Lead(), 0), said.Callbacks());
    committer.Enqueue(WriteOf(1, {"a"}));
    committer.Enqueue(CheckpointWrite(2, 1, "r1"));
    committer.Enqueue(WriteOf(3, {"b"}));
    committer.Enqueue(WriteOf(4, {"c"}));
  }
  CHECK(said.fatal.ok());
  CHECK(*inner->LastRevision() == 3);
  CHECK(saves == 2);
  CHECK(said.saved == std::vector<int64_t>{1});
  const auto state = LoadState(*inner);
  REQUIRE(state.ok());
  CHECK(state->revision() == 1);
  CHECK(state->runs_size() == 1);
}

TEST_CASE("a commit that is refused is fatal, and one that the end finds unanswered too") {
  Folder folder;
  auto inner = *store::SqliteStore::Open(folder.path());
  const int64_t epoch = *inner->Lead();
  const bool stale = GENERATE(true, false);
  store::FaultyStore store(
      inner.get(), [&](absl::string_view) { return stale ? Fault::kNone : Fault::kTimeout; });
  if (stale) REQUIRE(inner->Lead().ok());  // another planner has taken over
  Said said;
  {
    Committer committer(Writer(&store, epoch, 0), said.Callbacks());
    committer.Enqueue(WriteOf(1, {"a"}));
    committer.Stop();
  }
  CHECK(said.fatal.code() ==
        (stale ? absl::StatusCode::kFailedPrecondition : absl::StatusCode::kDeadlineExceeded));
  CHECK(said.durable.empty());
}

}  // namespace warpsmith::planner
