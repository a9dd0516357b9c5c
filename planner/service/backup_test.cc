// Backups of stores that planners write to, damaged ones, and planners on what is restored.
#include "planner/service/backup.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/base/sha256.h"
#include "common/store/manifest.h"
#include "common/store/redis/redis_store.h"
#include "common/store/sqlite_store.h"
#include "common/store/testing.h"
#include "planner/service/recovery.h"
#include "planner/service/served.h"
#include "planner/service/write.h"
#include "tests/support/redis_server.h"

namespace warpsmith::planner {
namespace {

namespace fs = std::filesystem;
using Catch::Contains;
using testing::AddResult;
using testing::AddStatus;
using testing::Client;
using testing::Folder;
using testing::Served;
using testing::SyncOf;
using testing::Take;

const absl::Time kTaken = absl::FromUnixSeconds(1'700'000'000);
const absl::Time kRestored = kTaken + absl::Hours(1);

std::string Text(const absl::Status& status) { return std::string(status.message()); }

std::unique_ptr<store::SqliteStore> Moment(const std::string& dir) {
  auto moment = store::SqliteStore::OpenToRead(dir);
  INFO(moment.status().ToString());
  REQUIRE(moment.ok());
  return *std::move(moment);
}

Backup Make(const std::string& dir, const std::string& folder) {
  const auto made = MakeBackup(*Moment(dir), folder, kTaken);
  INFO(made.status().ToString());
  REQUIRE(made.ok());
  return *made;
}

Renewal RestoreInto(const std::string& backup, const std::string& dir, bool replace = false,
                    absl::Time now = kRestored) {
  const auto restored = RestoreFolder(backup, dir, replace, now);
  INFO(restored.status().ToString());
  REQUIRE(restored.ok());
  return *restored;
}

// A planner with two tasks: a worker has a lease of each, one after the other, the first with a
// kernel and a trial. The backup is of before the second lease was granted.
struct Scene {
  Scene() {
    Served served(folder);
    Client client(served.address());
    REQUIRE(client.Submit(2).ok());
    v1::SynchronizeRequest join = SyncOf("w", "");
    join.set_instance("process");
    session = client.Synchronize(join)->session_id();
    before = client.Synchronize(SyncOf("w", session))->start(0);
    v1::SynchronizeRequest first = SyncOf("w", session, 0);
    AddStatus(before, 5, false, first);
    AddResult(before, "t1", 2, first);
    REQUIRE(client.SetPriority("r1", 4).ok());
    // Large enough for a bulk file.
    first.mutable_results(0)->mutable_incumbent()->mutable_trial()->set_reason(
        std::string(5'000, 'r'));
    auto reply = client.Synchronize(first);
    REQUIRE(reply.ok());
    backup_revision = reply->revision();
    made = Make(folder.path(), backup);
    // What the backup does not have.
    REQUIRE(client.SetPriority("r1", 5).ok());
    v1::SynchronizeRequest done = SyncOf("w", session);
    AddStatus(before, 40, true, done);
    AddResult(before, "t2", 3, done);
    reply = client.Synchronize(done);
    REQUIRE(reply.ok());
    REQUIRE(reply->start_size() == 1);
    after = reply->start(0);
    store = reply->store();
    revision = reply->revision();
  }

  Folder folder, place;
  const std::string backup = place / "backup";
  std::string session;
  v1::Lease before, after;  // the leases, by the backup
  std::string store;        // as the worker was answered last
  int64_t revision = 0, backup_revision = 0;
  Backup made;
};

std::string BoardOf(Client& client) {
  const auto board = client.GetBoard();
  REQUIRE(board.ok());
  return board->markdown();
}

TEST_CASE("backup: what was there is there again, as another history") {
  Scene scene;
  CHECK(scene.made.inventory.revision == scene.backup_revision);
  CHECK(scene.made.inventory.tasks == 2);
  CHECK(scene.made.inventory.trials == 1);
  CHECK(scene.made.inventory.blobs == 3);  // two problems, a kernel
  CHECK(scene.made.bytes > 0);
  const auto whole = CheckBackup(scene.backup);
  REQUIRE(whole.ok());
  CHECK(whole->inventory.HoldsAs(scene.made.inventory));
  CHECK(whole->taken == kTaken);
  CHECK_FALSE(fs::exists(scene.backup + ".partial"));

  Folder again;
  const Renewal restored = RestoreInto(scene.backup, again.path());
  CHECK(restored.store == absl::StrCat(scene.store.substr(0, 17), absl::ToUnixSeconds(kRestored)));
  CHECK(restored.kept.empty());
  const auto report = CheckStore(again.path());
  REQUIRE(report.ok());
  CHECK((report->damage.empty() && report->meaning.empty() && report->upgraded));
  CHECK(report->usable == scene.backup_revision);

  Served served(again);
  Client client(served.address());
  const auto task = client.GetTask(scene.before.task_id());
  REQUIRE(task.ok());
  CHECK(task->task().speedup() == 2);
  CHECK(task->task().trials() == 1);
  CHECK(task->trials().trials_size() == 1);
  CHECK(client.List("r1")->runs(0).priority() == 4);
  // The backup itself is as it was.
  CHECK(CheckBackup(scene.backup).ok());
}

TEST_CASE("backup: what workers bring of the time after it is taken or refused, and counted once") {
  Scene scene;
  Folder again;
  RestoreInto(scene.backup, again.path());
  Served served(again);
  Client client(served.address());
  CHECK_THAT(BoardOf(client), Contains("Restored on 2023-11-14 23:13:20 UTC"));
  // The worker was answered of the lost history, and says what it still holds of both leases: in
  // the session that the backup has.
  v1::SynchronizeRequest back = SyncOf("w", scene.session, 0);
  back.set_store(scene.store);
  back.set_revision(scene.revision);
  AddStatus(scene.before, 40, true, back);
  AddResult(scene.before, "t3", 4, back);
  AddStatus(scene.after, 5, false, back);
  AddResult(scene.after, "t4", 5, back);
  auto reply = client.Synchronize(back);
  INFO(reply.status().ToString());
  REQUIRE(reply.ok());
  REQUIRE(reply->drop_size() == 1);
  CHECK(reply->drop(0) == scene.after.id());
  CHECK(reply->session_id() != scene.session);
  // The answer was lost: it says all of it again, and is told to join.
  CHECK(absl::IsFailedPrecondition(client.Synchronize(back).status()));
  for (const std::string& session : {std::string(), reply->session_id()}) {
    v1::SynchronizeRequest same = back;
    same.set_session_id(session);
    same.set_instance("process");
    const auto again = client.Synchronize(same);
    INFO(again.status().ToString());
    REQUIRE(again.ok());
    CHECK(again->session_id() == reply->session_id());
  }
  const std::string said = absl::StrCat(
      "1 worker came back, 1 answered to event ", scene.revision, ": at least ",
      scene.revision - scene.backup_revision,
      " events are not in the backup. Of its leases from before the backup: 1 trial and 1 kernel "
      "taken, 0 trials missing. Of those from after it: 1 lease, 1 trial and 1 kernel refused.");
  CHECK_THAT(BoardOf(client), Contains(said));
  served.Close();
  Served later(again);
  Client after(later.address());
  v1::SynchronizeRequest same = back;
  same.set_session_id(reply->session_id());
  REQUIRE(after.Synchronize(same).ok());
  CHECK_THAT(BoardOf(after), Contains(said));
  const auto task = after.GetTask(scene.before.task_id());
  CHECK(task->task().speedup() == 4);
  CHECK(task->task().trials() == 2);
  // What it is granted now is not what it had.
  v1::SynchronizeRequest idle = SyncOf("w", reply->session_id());
  const auto granted = after.Synchronize(idle);
  REQUIRE(granted.ok());
  REQUIRE(granted->start_size() == 1);
  CHECK(granted->start(0).id() != scene.after.id());
}

TEST_CASE("backup: a damaged one, or a part of one, is refused and says where") {
  Scene scene;
  const auto flip = [](const std::string& path, int64_t at) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(at);
    const char byte = static_cast<char>(file.get() ^ 1);
    file.seekp(at);
    file.put(byte);
  };
  struct Case {
    const char* what;
    std::function<void(const std::string&)> damage;
    const char* said;
  };
  const Case cases[] = {
      {"a bit", [&](const std::string& dir) { flip(dir + "/bulk/blobs-000001", 3); },
       "bulk/blobs-000001"},
      {"a bit of the database", [&](const std::string& dir) { flip(dir + "/warpsmith.db", 9'000); },
       "warpsmith.db"},
      {"its end", [](const std::string& dir) { fs::resize_file(dir + "/warpsmith.db", 8'192); },
       "warpsmith.db (8192 bytes) is not what was written"},
      {"a file", [](const std::string& dir) { fs::remove(dir + "/bulk/blobs-000001"); },
       "bulk/blobs-000001 is not there"},
      {"the manifest", [](const std::string& dir) { fs::remove(dir + "/MANIFEST"); },
       "is no backup: it has no MANIFEST"},
      {"a bit of the manifest", [&](const std::string& dir) { flip(dir + "/MANIFEST", 70); },
       "MANIFEST is not what was written"},
      {"the manifest's end",
       [](const std::string& dir) { fs::resize_file(dir + "/MANIFEST", 200); },
       "MANIFEST is not what was written"},
      {"a journal", [](const std::string& dir) { std::ofstream(dir + "/warpsmith.db-wal") << "x"; },
       "warpsmith.db-wal is there"},
  };
  for (const Case& each : cases) {
    INFO(each.what);
    Folder copy, dir;
    fs::copy(scene.backup, copy.path(),
             fs::copy_options::recursive | fs::copy_options::overwrite_existing);
    REQUIRE(CheckBackup(copy.path()).ok());
    each.damage(copy.path());
    CHECK_THAT(Text(CheckBackup(copy.path()).status()), Contains(each.said));
    CHECK_THAT(Text(RestoreFolder(copy.path(), dir.path(), false, kRestored).status()),
               Contains(each.said));
    CHECK(fs::is_empty(dir.path()));
  }
}

TEST_CASE("backup: of a store that lacks something there is none") {
  Scene scene;
  Folder place;
  const std::string problem = [&] {
    const auto moment = Moment(scene.folder.path());
    const auto state = LoadState(*moment);
    REQUIRE(state.ok());
    return state->tasks(0).task().problem_blob();
  }();
  store::testing::Do(scene.folder.path(),
                     absl::StrCat("DELETE FROM blobs WHERE digest = '", problem, "'"));
  const auto made = MakeBackup(*Moment(scene.folder.path()), place / "b", kTaken);
  CHECK(absl::IsDataLoss(made.status()));
  CHECK_THAT(Text(made.status()), Contains("task r1/p0@host") && Contains(problem));
  CHECK_FALSE(fs::exists(place / "b"));
  // What was left is no backup, and is removed by the next one.
  CHECK(absl::IsNotFound(CheckBackup(place / "b.partial").status()));
  Make(Scene().folder.path(), place / "b");
  CHECK_FALSE(fs::exists(place / "b.partial"));
}

TEST_CASE("backup: nothing is written over") {
  Scene scene;
  const auto again = MakeBackup(*Moment(scene.folder.path()), scene.backup, kTaken);
  CHECK(absl::IsAlreadyExists(again.status()));
  Folder place;
  fs::create_directories(place / "b.partial/of mine");
  CHECK(absl::IsAlreadyExists(
      MakeBackup(*Moment(scene.folder.path()), place / "b", kTaken).status()));
  CHECK(fs::exists(place / "b.partial/of mine"));
  // Neither a store, whole or what is left of one, nor a backup.
  const auto over = [&](const std::string& dir) {
    const auto restored = RestoreFolder(scene.backup, dir, false, kRestored);
    CHECK(absl::IsFailedPrecondition(restored.status()));
    return Text(restored.status());
  };
  CHECK_THAT(over(scene.folder.path()), Contains("--replace"));
  CHECK_THAT(over(scene.backup), Contains("is a backup"));
  Folder rest;
  fs::create_directories(rest / "bulk");
  CHECK_THAT(over(rest.path()), Contains("bulk"));
  // And a planner does not begin on a backup.
  const auto opened = store::SqliteStore::Open(scene.backup);
  CHECK(absl::IsFailedPrecondition(opened.status()));
  CHECK_THAT(Text(opened.status()), Contains("is a backup"));
  CHECK(CheckBackup(scene.backup).ok());
}

TEST_CASE(
    "backup: what was there is set aside where it is told to, whole, and each is another one") {
  Scene scene;
  const std::string dir = scene.folder.path();
  {
    Served served(scene.folder);
    const auto restored = RestoreFolder(scene.backup, dir, true, kRestored);
    CHECK(absl::IsFailedPrecondition(restored.status()));  // its planner runs
  }
  const Renewal first = RestoreInto(scene.backup, dir, true);
  const Renewal second = RestoreInto(scene.backup, dir, true, kRestored + absl::Seconds(1));
  CHECK(first.store != second.store);
  CHECK(first.kept != second.kept);
  CHECK(CheckStore(first.kept)->store == scene.store);
  CHECK(CheckStore(second.kept)->store == first.store);
  CHECK(CheckStore(first.kept)->damage.empty());
  CHECK(CheckStore(dir)->store == second.store);
  // With a clock that was set back it is still another one than the backup.
  Folder other;
  CHECK(RestoreInto(scene.backup, other.path(), false, absl::UnixEpoch()).store !=
        scene.made.inventory.store);
}

// What is left of a restoration that was killed at each of its steps.
TEST_CASE("backup: a restoration that was killed is gone on with by the next, and by no planner") {
  const int moved = GENERATE(0, 1, 2, 3);  // of: old bulk, old database, new bulk, new database
  Scene scene;
  const std::string dir = scene.folder.path(), made = dir + "/restoring";
  Folder other;
  RestoreInto(scene.backup, other.path());
  fs::create_directories(made);
  std::ofstream(made + "/planner.lock") << "1";
  for (const char* file : {"bulk", "warpsmith.db"}) {
    fs::rename(other.path() + "/" + file, made + "/" + file);
  }
  fs::create_directories(dir + "/set-aside-1");
  const std::pair<std::string, std::string> moves[] = {
      {dir + "/bulk", dir + "/set-aside-1/bulk"},
      {dir + "/warpsmith.db", dir + "/set-aside-1/warpsmith.db"},
      {made + "/bulk", dir + "/bulk"},
      {made + "/warpsmith.db", dir + "/warpsmith.db"}};
  for (int i = 0; i < moved; ++i) fs::rename(moves[i].first, moves[i].second);
  const auto opened = store::SqliteStore::Open(dir);
  CHECK(absl::IsFailedPrecondition(opened.status()));
  CHECK_THAT(Text(opened.status()), Contains("say `warpsmith store restore` again"));
  const Renewal restored = RestoreInto(scene.backup, dir, true);
  CHECK_FALSE(fs::exists(made));
  CHECK(CheckStore(dir)->store == restored.store);
  CHECK(CheckStore(dir)->damage.empty());
  CHECK(CheckStore(dir + "/set-aside-1")->store == scene.store);
  CHECK(CheckStore(dir + "/set-aside-1")->damage.empty());
  CHECK(store::SqliteStore::Open(dir).ok());
}

TEST_CASE("backup: a restoration that was killed when all was brought is done") {
  Scene scene;
  Folder other;
  const std::string dir = other.path(), made = dir + "/restoring";
  const Renewal restored = RestoreInto(scene.backup, dir);
  fs::create_directories(made);
  std::ofstream(made + "/planner.lock") << "1";
  CHECK(CheckStore(dir)->store == restored.store);
  CHECK(store::SqliteStore::Open(dir).ok());
  CHECK(absl::IsFailedPrecondition(RestoreFolder(scene.backup, dir, false, absl::Now()).status()));
}

TEST_CASE("backup: of a store of the version before, one of this version is made") {
  Folder folder, place, again;
  {
    Served served(folder);
    REQUIRE(Client(served.address()).Submit(2).ok());
  }
  store::testing::Do(folder.path(), store::testing::kToSchema3);
  store::testing::Do(folder.path(), store::testing::kFromSchema3To2);
  const Backup made = Make(folder.path(), place / "b");
  CHECK(made.inventory.tasks == 2);
  RestoreInto(place / "b", again.path());
  CHECK(CheckStore(again.path())->upgraded);
  CHECK_FALSE(CheckStore(folder.path())->upgraded);
  Served served(again);
  CHECK(Client(served.address()).List()->tasks_size() == 2);
}

TEST_CASE("backup: what is in the archive is in it, with its kernels and trials") {
  Folder folder, place, again;
  {
    CoreOptions core;
    core.keep_over_tasks = 0;
    Served served(folder, "127.0.0.1:0", core);
    Client client(served.address());
    REQUIRE(client.Submit(1).ok());
    std::string session;
    const v1::Lease lease = Take(client, "w", session);
    v1::SynchronizeRequest done = SyncOf("w", session, 0);
    AddStatus(lease, 40, true, done);
    AddResult(lease, "t1", 2, done);
    REQUIRE(client.Synchronize(done).ok());
    served.Pass(2'000);
  }
  const Backup made = Make(folder.path(), place / "b");
  CHECK(made.inventory.runs == 0);
  CHECK(made.inventory.archived == 2);
  CHECK(made.inventory.blobs == 2);
  CHECK(made.inventory.trials == 1);
  RestoreInto(place / "b", again.path());
  Served served(again);
  Client client(served.address());
  const auto task = client.GetTask("r1/p0@host");
  REQUIRE(task.ok());
  CHECK(task->task().speedup() == 2);
  CHECK(task->trials().trials_size() == 1);
}

// ---- while it is written to
// ----------------------------------------------------------------------

// Writes trials of some tasks, and checkpoints, as a planner does.
class Scribe {
 public:
  static constexpr int kTasks = 20;

  explicit Scribe(store::Store& store) : store_(store), epoch_(*store.Lead()) {
    v1::Event event;
    v1::RunSubmitted& submitted = *event.mutable_run_submitted();
    submitted.mutable_run()->set_id("r1");
    std::vector<std::string> blobs;
    for (int i = 0; i < kTasks; ++i) {
      v1::Task& task = *submitted.add_tasks();
      task.set_id(absl::StrCat("r1/p", i, "@host"));
      task.set_run_id("r1");
      task.set_state(v1::QUEUED);
      blobs.push_back(absl::StrCat("problem ", i, std::string(2'000, 'p')));
      task.set_problem_blob(base::Sha256Hex(blobs.back()));
      submitted.mutable_run()->add_task_ids(task.id());
    }
    Write({event}, std::move(blobs), {});
  }

  // A batch of each task, and a kernel for one of them.
  void Go() {
    std::vector<v1::Event> events;
    std::vector<store::Facts> facts;
    for (int i = 0; i < kTasks; ++i) {
      v1::TrialsRecorded& trials = *events.emplace_back().mutable_trials_recorded();
      trials.set_task_id(absl::StrCat("r1/p", i, "@host"));
      trials.set_first(round_ + 1);
      trials.set_trials(1);
      trials.set_batch(absl::StrCat(trials.task_id(), "/", round_));
      v1::TrialSummary summary;
      summary.set_trials(1);
      facts.push_back(
          {trials.task_id(), trials.batch(), summary.SerializeAsString(), std::string(1'500, 't')});
    }
    const std::string kernel = absl::StrCat("kernel ", round_, std::string(2'000, 'k'));
    v1::ResultAccepted& accepted = *events.emplace_back().mutable_result_accepted();
    accepted.set_task_id(absl::StrCat("r1/p", round_ % kTasks, "@host"));
    accepted.set_trial_id(absl::StrCat("k", round_));
    accepted.set_incumbent_blob(base::Sha256Hex(kernel));
    accepted.set_speedup(2);
    Write(events, {kernel}, std::move(facts));
    if (++round_ % 3 != 0) return;
    const std::shared_ptr<const Changes> changes[] = {
        std::make_shared<const Changes>(state_.TakeChanges())};
    CHECK(store_.SaveCheckpoint(epoch_, CheckpointOf(changes, /*archives=*/true)).ok());
  }

 private:
  void Write(const std::vector<v1::Event>& events, std::vector<std::string> blobs,
             std::vector<store::Facts> facts) {
    store::Batch batch{epoch_, state_.revision(), {}, std::move(blobs), std::move(facts)};
    for (const v1::Event& event : events) {
      batch.events.push_back(event.SerializeAsString());
      state_.Apply(event);
    }
    const absl::Status committed = store_.Commit(batch);
    INFO(committed.ToString());
    CHECK(committed.ok());
  }

  store::Store& store_;
  const int64_t epoch_;
  State state_;
  int64_t round_ = 0;
};

// Backups that are taken while `store` is written to: each is of one revision.
void CheckWhileWriting(store::Store& store,
                       const std::function<std::unique_ptr<store::Store>()>& open) {
  Folder place;
  Scribe scribe(store);
  for (int i = 0; i < 10; ++i) scribe.Go();
  std::atomic<bool> done{false};
  std::atomic<int64_t> rounds{0};
  std::thread writer([&] {
    for (; !done; ++rounds) scribe.Go();
  });
  int64_t last = 0;
  for (int i = 0; i < 5; ++i) {
    for (const int64_t before = rounds; rounds == before;) std::this_thread::yield();
    const std::string folder = place / absl::StrCat("b", i);
    const auto made = MakeBackup(*open(), folder, kTaken);
    INFO(made.status().ToString());
    CHECK(made.ok());
    if (!made.ok()) break;
    CHECK(made->inventory.revision > last);
    last = made->inventory.revision;
    // As many trials as its state knows of, of each task.
    const auto backup = Moment(folder);
    const auto state = LoadState(*backup);
    REQUIRE(state.ok());
    for (const v1::TaskRecord& record : state->tasks()) {
      int64_t trials = 0;
      CHECK(backup
                ->ReadFacts(record.task().id(), false,
                            [&](const store::Facts&) { return ++trials > 0; })
                .ok());
      CHECK(trials == record.task().trials());
    }
  }
  done = true;
  writer.join();
}

TEST_CASE("backup: one that is taken amid writes is of one revision") {
  SECTION("of a folder") {
    Folder folder;
    auto store = *store::SqliteStore::Open(folder.path());
    CheckWhileWriting(*store, [&] { return Moment(folder.path()); });
  }
  SECTION("of Redis") {
    support::RedisServer redis;
    Folder folder;
    store::RedisStore::Options options;
    options.server.address = redis.address();
    options.folder = folder / "shared";
    auto store = *store::RedisStore::Open(options);
    CheckWhileWriting(*store, [&] { return *store::RedisStore::Open(options); });
  }
}

TEST_CASE("backup: a log that goes on faster than it is followed is no backup") {
  support::RedisServer redis;
  Folder folder, place;
  store::RedisStore::Options options;
  options.server.address = redis.address();
  options.folder = folder / "shared";
  options.kept_events = 0;
  auto store = *store::RedisStore::Open(options);
  Scribe scribe(*store);
  std::atomic<bool> done{false};
  std::thread writer([&] {
    while (!done) scribe.Go();
  });
  // With nothing kept behind the checkpoint it is missed, or just so is not.
  for (int i = 0; i < 5; ++i) {
    const auto made =
        MakeBackup(**store::RedisStore::Open(options), place / absl::StrCat("b", i), kTaken);
    INFO(made.status().ToString());
    CHECK((made.ok() || absl::IsUnavailable(made.status())));
    CHECK(fs::exists(place / absl::StrCat("b", i)) == made.ok());
  }
  done = true;
  writer.join();
}

TEST_CASE("backup: from Redis to a folder and to Redis again, where somebody leads") {
  Scene scene;
  support::RedisServer redis;
  Folder folder, place;
  store::RedisStore::Options options;
  options.server.address = redis.address();
  options.folder = folder / "shared";
  auto store = *store::RedisStore::Open(options);
  const auto restored = Restore(scene.backup, *store, kRestored);
  INFO(restored.status().ToString());
  REQUIRE(restored.ok());
  const auto made = MakeBackup(*store, place / "b", kTaken);
  REQUIRE(made.ok());
  CHECK(made->inventory.HoldsAs(scene.made.inventory));
  CHECK(made->inventory.store == restored->store);
  Folder dir;
  RestoreInto(place / "b", dir.path(), false, kRestored + absl::Hours(1));
  CHECK(CheckStore(dir.path())->tasks == 2);

  // Not over what is there; where it is emptied, whoever led there is deposed for good.
  const int64_t epoch = *store->Lead();
  const int64_t last = *store->LastRevision();
  CHECK(absl::IsFailedPrecondition(Restore(scene.backup, *store, kRestored).status()));
  auto other = *store::RedisStore::Open(options);
  REQUIRE(other->Empty().ok());
  CHECK(absl::IsFailedPrecondition(other->Lead().status()));  // nobody, until there is a history
  const auto again = Restore(scene.backup, *other, kRestored + absl::Hours(2));
  INFO(again.status().ToString());
  REQUIRE(again.ok());
  CHECK(store::IsStaleEpoch(store->Commit({epoch, last, {"late"}, {}})));
  CHECK(*other->Lead() > epoch);
  CHECK(TakeInventory(*other)->HoldsAs(scene.made.inventory));
}

}  // namespace
}  // namespace warpsmith::planner
