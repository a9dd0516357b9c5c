// Stores that planners wrote, damaged; and planners on what is left of them.
#include "planner/service/recovery.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/sha256.h"
#include "common/problem/sealed_trials.h"
#include "common/store/remains.h"
#include "common/store/sqlite.h"
#include "common/store/sqlite_store.h"
#include "common/store/testing.h"
#include "planner/service/convert.h"
#include "planner/service/served.h"
#include "planner/service/write.h"

namespace warpsmith::planner {
namespace {

using Catch::Contains;
using store::testing::Do;
using testing::AddResult;
using testing::AddStatus;
using testing::Client;
using testing::Folder;
using testing::Served;
using testing::SyncOf;
using testing::Take;

void Copy(const Folder& from, const Folder& to) {
  for (const auto& file : std::filesystem::directory_iterator(from.path())) {
    const std::string name = file.path().filename().string();
    if (name.rfind(store::kDatabase, 0) == 0 || name == store::kBulkFolder) {
      std::filesystem::copy(file.path(), to.path() + "/" + name,
                            std::filesystem::copy_options::recursive);
    }
  }
}

std::string MeaningOf(const StoreReport& report) {
  std::string text;
  for (const store::Damage& each : report.meaning) {
    absl::StrAppend(&text, each.where, ": ", each.what, "\n");
  }
  return text;
}

v1::Task TaskOf(Client& client, const std::string& id) {
  const auto list = client.List();
  REQUIRE(list.ok());
  for (const v1::Task& task : list->tasks()) {
    if (task.id() == id) return task;
  }
  FAIL("there is no task " << id);
  return {};
}

// What a planner left that was killed: r1/p0 has converged with a kernel, r1/p1 is leased and has
// one. Its checkpoint is of the submission, the rest is in the log.
struct Killed {
  Killed() {
    {
      Served first(folder_before);
      REQUIRE(Client(first.address()).Submit(2).ok());
    }
    Served served(folder_before);
    Client client(served.address());
    std::string session;
    const v1::Lease lease = Take(client, "w", session);
    v1::SynchronizeRequest done = SyncOf("w", session);
    AddStatus(lease, 40, true, done);
    AddResult(lease, "t1", 2, done);
    auto reply = client.Synchronize(done);
    REQUIRE(reply.ok());
    REQUIRE(reply->start_size() == 1);
    again = SyncOf("w", session, 0);
    AddStatus(reply->start(0), 5, false, again);
    AddResult(reply->start(0), "t2", 3, again);
    reply = client.Synchronize(again);
    REQUIRE(reply.ok());
    again.clear_results();
    again.set_store(reply->store());
    again.set_revision(reply->revision());
    p0 = TaskOf(client, "r1/p0@host");
    p1 = TaskOf(client, "r1/p1@host");
    Copy(folder_before, folder);
  }
  const std::string& dir() const { return folder.path(); }

  Folder folder_before, folder;
  v1::SynchronizeRequest again;  // what the worker says next
  v1::Task p0, p1;
};

// The same as a planner of schema 1 has left it: a snapshot, the log behind it, and trials as
// blobs. `earlier` are trials of r1/p1 from before the snapshot.
void MakeFirst(const std::string& dir, const v1::TrialBatch& earlier) {
  auto remains = store::ReadRemains(dir, [](const store::Facts&) { return absl::OkStatus(); });
  REQUIRE(remains.ok());
  std::map<std::string, v1::TrialBatch> batches;  // by the name they have now
  std::vector<std::string> blobs;
  {
    auto store = store::SqliteStore::Open(dir);
    REQUIRE(store.ok());
    for (const char* task : {"r1/p0@host", "r1/p1@host"}) {
      const absl::Status read = (*store)->ReadFacts(task, true, [&](store::Facts facts) {
        const std::string name = facts.name;
        batches[name] = *problem::Open(*TrialsOf(std::move(facts)));
        return true;
      });
      REQUIRE(read.ok());
    }
    for (const std::string& digest : remains->blobs) {
      blobs.push_back(*(*store)->Get(digest));
    }
  }
  REQUIRE(batches.size() == 2);
  v1::PlannerState state;
  state.set_revision(remains->checkpoint);
  for (const store::Entry& entry : remains->entries) REQUIRE(AddEntry(entry, state));
  blobs.push_back(earlier.SerializeAsString());
  for (v1::TaskRecord& record : *state.mutable_tasks()) {
    if (record.task().id() != "r1/p1@host") continue;
    record.mutable_task()->add_trial_blobs(base::Sha256Hex(blobs.back()));
  }
  for (store::Record& record : remains->log) {
    v1::Event event;
    REQUIRE(event.ParseFromString(record.bytes));
    if (!event.has_trials_recorded()) continue;
    v1::TrialsRecorded& recorded = *event.mutable_trials_recorded();
    blobs.push_back(batches.at(recorded.batch()).SerializeAsString());
    recorded.set_batch(base::Sha256Hex(blobs.back()));
    record.bytes = event.SerializeAsString();
  }
  std::filesystem::remove_all(dir);
  std::filesystem::create_directories(dir);
  auto db =
      store::Database::Open(dir + "/warpsmith.db", SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
  REQUIRE(db.ok());
  const char* const schema = R"sql(
CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE events (revision INTEGER PRIMARY KEY, epoch INTEGER NOT NULL, bytes BLOB NOT NULL);
CREATE TABLE snapshots (revision INTEGER PRIMARY KEY, bytes BLOB NOT NULL);
CREATE TABLE blobs (digest TEXT NOT NULL UNIQUE, bytes BLOB NOT NULL);
INSERT INTO meta VALUES ('schema', 1), ('epoch', 2);
)sql";
  REQUIRE(store::Execute(db->get(), schema, "the tables").ok());
  const std::string snapshot = state.SerializeAsString();
  REQUIRE(store::Statement(db->get(), "INSERT INTO snapshots VALUES (?, ?)")
              .Int(1, state.revision())
              .Blob(2, snapshot)
              .Run()
              .ok());
  for (const store::Record& record : remains->log) {
    REQUIRE(store::Statement(db->get(), "INSERT INTO events VALUES (?, 2, ?)")
                .Int(1, record.revision)
                .Blob(2, record.bytes)
                .Run()
                .ok());
  }
  for (const std::string& blob : blobs) {
    const std::string digest = base::Sha256Hex(blob);
    REQUIRE(store::Statement(db->get(), "INSERT INTO blobs VALUES (?, ?)")
                .Text(1, digest)
                .Blob(2, blob)
                .Run()
                .ok());
  }
}

}  // namespace

TEST_CASE("recovery: of a store of the first planners one of this version is made") {
  Killed killed;
  v1::TrialBatch earlier;
  earlier.add_trials()->set_id("t0");
  MakeFirst(killed.dir(), earlier);
  const absl::Status refused = store::SqliteStore::Open(killed.dir()).status();
  CHECK(absl::IsFailedPrecondition(refused));
  CHECK_THAT(std::string(refused.message()), Contains("`warpsmith upgrade finish`"));
  CHECK(absl::IsFailedPrecondition(CheckStore(killed.dir()).status()));

  // Damaged, it stays as it was.
  const std::string path = killed.dir() + "/warpsmith.db";
  for (const char* damage : {"UPDATE blobs SET bytes = 'x' WHERE rowid = 1",
                             "UPDATE blobs SET bytes = 'x' WHERE rowid = (SELECT MAX(rowid) FROM "
                             "blobs)",
                             "DELETE FROM events WHERE revision = 3"}) {
    INFO(damage);
    Folder folder;
    std::filesystem::copy(path, folder.path() + "/warpsmith.db");
    Do(folder.path(), damage);
    CHECK(absl::IsDataLoss(FinishUpgrade(folder.path()).status()));
    CHECK_THAT(std::string(store::SqliteStore::Open(folder.path()).status().message()),
               Contains("schema 1"));
  }

  const auto finished = FinishUpgrade(killed.dir());
  INFO(finished.status().ToString());
  REQUIRE(finished.ok());
  CHECK(finished->changed);
  CHECK(std::filesystem::exists(finished->kept));
  CHECK_FALSE(FinishUpgrade(killed.dir())->changed);
  auto report = CheckStore(killed.dir());
  REQUIRE(report.ok());
  CHECK(report->upgraded);
  CHECK(report->damage.empty());
  CHECK(report->batches == 3);
  CHECK(MeaningOf(*report) == "");

  // Nothing is missing, and the worker goes on with its lease.
  Served served(killed.folder);
  Client client(served.address());
  CHECK(TaskOf(client, "r1/p0@host").ShortDebugString() == killed.p0.ShortDebugString());
  CHECK(client.GetTask("r1/p0@host")->incumbent().speedup() == 2);
  CHECK(client.GetTask("r1/p0@host")->trials().trials_size() == 1);
  const auto trials = client.GetTask("r1/p1@host")->trials();
  REQUIRE(trials.trials_size() == 2);
  CHECK(trials.trials(0).id() == "t0");
  CHECK(trials.trials(1).id() == "t2");
  killed.again.clear_store();
  killed.again.clear_revision();
  const auto reply = client.Synchronize(killed.again);
  INFO(reply.status().ToString());
  REQUIRE(reply.ok());
  CHECK(reply->drop_size() == 0);
  CHECK(TaskOf(client, "r1/p1@host").ShortDebugString() == killed.p1.ShortDebugString());
}

TEST_CASE("recovery: a whole store is said to be, also while its planner runs") {
  Folder folder;
  CHECK(absl::IsNotFound(CheckStore(folder.path()).status()));
  CHECK(absl::IsNotFound(AcceptLoss(folder.path()).status()));
  CHECK(std::filesystem::is_empty(folder.path()));
  Served served(folder);
  REQUIRE(Client(served.address()).Submit(2).ok());
  const auto report = CheckStore(folder.path());
  REQUIRE(report.ok());
  CHECK(report->damage.empty());
  CHECK(MeaningOf(*report) == "");
  CHECK(report->last == 1);
  CHECK(report->usable == 1);
  CHECK(report->runs == 1);
  CHECK(report->tasks == 2);
  CHECK(report->blobs == 2);
  const auto refused = AcceptLoss(folder.path());
  CHECK(absl::IsFailedPrecondition(refused.status()));
  CHECK_THAT(std::string(refused.status().message()), Contains("warpsmith down"));
}

TEST_CASE("recovery: a log that lost its end goes on where it ends, as another history") {
  Killed killed;
  const int64_t last = CheckStore(killed.dir())->last;
  // The second kernel and the trials beside it.
  Do(killed.dir(), absl::StrCat("DELETE FROM events WHERE revision > ", last - 2));
  CHECK(absl::IsDataLoss(store::SqliteStore::Open(killed.dir()).status()));
  const auto accepted = AcceptLoss(killed.dir());
  REQUIRE(accepted.ok());
  CHECK(accepted->report.damage.size() == 1);
  CHECK(accepted->report.usable == last - 2);
  CHECK(accepted->report.meaning.empty());
  CHECK(std::filesystem::exists(accepted->kept));
  CHECK(accepted->store == accepted->report.store.substr(0, 16) + ".2");

  Served served(killed.folder);
  Client client(served.address());
  CHECK(TaskOf(client, "r1/p0@host").speedup() == 2);
  CHECK(TaskOf(client, "r1/p1@host").state() == v1::LEASED);
  CHECK(TaskOf(client, "r1/p1@host").incumbent_blob().empty());
  // Its worker was answered from what is gone; that was of another history, and it goes on.
  const auto reply = client.Synchronize(killed.again);
  CHECK(reply.ok());
  CHECK(served.fatal.ok());
  CHECK(reply->drop_size() == 0);
}

TEST_CASE("recovery: a lease whose grant is lost is taken back, and granted as another one") {
  Killed killed;
  const int64_t last = CheckStore(killed.dir())->last;
  // Its grant, the kernel found under it, the trials beside that.
  Do(killed.dir(), absl::StrCat("DELETE FROM events WHERE revision > ", last - 3));
  REQUIRE(AcceptLoss(killed.dir()).ok());
  Served served(killed.folder);
  Client client(served.address());
  REQUIRE(TaskOf(client, "r1/p1@host").state() == v1::QUEUED);
  const v1::LeaseStatus old = killed.again.leases(0);
  // With a result, which comes under the same task and fence once it is granted again.
  v1::SynchronizeRequest late = killed.again;
  v1::Lease lease;
  lease.set_id(old.lease_id());
  lease.set_task_id(old.task_id());
  lease.set_fence(old.fence());
  AddResult(lease, "t3", 4, late);
  killed.again.set_slots(1);
  killed.again.clear_leases();
  auto reply = client.Synchronize(killed.again);
  REQUIRE(reply.ok());
  REQUIRE(reply->start_size() == 1);
  CHECK(reply->start(0).fence() == old.fence());
  CHECK(reply->start(0).id() != old.lease_id());
  reply = client.Synchronize(late);
  REQUIRE(reply.ok());
  REQUIRE(reply->drop_size() == 1);
  CHECK(reply->drop(0) == old.lease_id());
  CHECK(TaskOf(client, "r1/p1@host").incumbent_blob().empty());
}

TEST_CASE("recovery: an older copy brought back becomes another history") {
  Killed killed;
  const int64_t end = CheckStore(killed.dir())->last - 2;
  Do(killed.dir(), absl::StrCat("DELETE FROM events WHERE revision > ", end));
  Do(killed.dir(), absl::StrCat("UPDATE meta SET value = ", end, " WHERE name = 'last'"));
  Do(killed.dir(),
     "UPDATE meta SET value = (SELECT sum FROM events ORDER BY revision DESC LIMIT 1) WHERE name = "
     "'last_sum'");
  // Nothing is wrong with it. That it is older only its workers know (leases_test.cc).
  const auto accepted = AcceptLoss(killed.dir());
  REQUIRE(accepted.ok());
  CHECK(accepted->report.damage.empty());
  CHECK(accepted->report.usable == end);
  CHECK(accepted->store != accepted->report.store);
  Served served(killed.folder);
  CHECK(Client(served.address()).Synchronize(killed.again).ok());
  CHECK(served.fatal.ok());
}

TEST_CASE("recovery: kernels and problems that are lost are named, and their tasks say so") {
  Killed killed;
  const auto blob = [](const std::string& digest) {
    return absl::StrCat(" WHERE digest = '", digest, "'");
  };
  Do(killed.dir(), "UPDATE blobs SET bytes = 'x'" + blob(killed.p0.incumbent_blob()));
  Do(killed.dir(), "DELETE FROM blobs" + blob(killed.p1.problem_blob()));
  const auto report = CheckStore(killed.dir());
  REQUIRE(report.ok());
  CHECK(report->damage.size() == 1);  // that the other is gone only its task knows
  CHECK_THAT(MeaningOf(*report), Contains("r1/p0@host: its kernel is lost") &&
                                     Contains("r1/p1@host: its problem is lost"));
  REQUIRE(AcceptLoss(killed.dir()).ok());
  CHECK(CheckStore(killed.dir())->damage.empty());
  CHECK(CheckStore(killed.dir())->meaning.empty());

  Served served(killed.folder);
  Client client(served.address());
  const v1::Task p0 = TaskOf(client, "r1/p0@host");
  CHECK(p0.state() == v1::HELD);
  CHECK_THAT(p0.reason(), Contains("warpsmith release"));
  CHECK(p0.speedup() == 0);
  CHECK(p0.trials() == 1);
  const v1::Task p1 = TaskOf(client, "r1/p1@host");
  CHECK(p1.state() == v1::FAILED);
  CHECK_THAT(p1.reason(), Contains("submit it again"));
  // Its worker is told to stop; the other task is searched again.
  CHECK(client.GetTask("r1/p1@host").ok());
  CHECK_THAT(std::string(client.SetTask("r1/p1@host", v1::QUEUED).status().message()),
             Contains("submit it again"));
  REQUIRE(client.SetTask("r1/p0@host", v1::QUEUED).ok());
  killed.again.set_slots(1);
  const auto reply = client.Synchronize(killed.again);
  REQUIRE(reply.ok());
  CHECK(reply->drop_size() == 1);
  REQUIRE(reply->start_size() == 1);
  CHECK(reply->start(0).task_id() == "r1/p0@host");
  CHECK_FALSE(reply->start(0).has_incumbent());
  // The same kernel found again is news.
  v1::SynchronizeRequest found = SyncOf("w", reply->session_id(), 0);
  AddStatus(reply->start(0), 1, false, found);
  AddResult(reply->start(0), "t1", 2, found);
  REQUIRE(client.Synchronize(found).ok());
  CHECK(TaskOf(client, "r1/p0@host").incumbent_blob() == killed.p0.incumbent_blob());
}

TEST_CASE("recovery: of a lost record its task is lost, and what the log says of it left out") {
  Killed killed;
  const bool of_run = GENERATE(false, true);
  Do(killed.dir(), absl::StrCat("UPDATE checkpoint SET bytes = 'x' WHERE key = '",
                                of_run ? "r/000000000001" : "t/r1/p0@host", "'"));
  const auto accepted = AcceptLoss(killed.dir());
  REQUIRE(accepted.ok());
  CHECK(accepted->report.usable == accepted->report.last);
  CHECK(accepted->report.tasks == (of_run ? 0 : 1));
  CHECK_THAT(MeaningOf(accepted->report),
             Contains(of_run ? "r1/p0@host: lost with its run's record\n"
                             : "r1/p0@host: its record is lost\n"));
  Served served(killed.folder);
  Client client(served.address());
  const auto list = client.List();
  REQUIRE(list.ok());
  CHECK(list->runs_size() == (of_run ? 0 : 1));
  if (!of_run) {
    CHECK(list->runs(0).task_ids_size() == 1);
    CHECK(TaskOf(client, "r1/p1@host").speedup() == 3);
  }
  CHECK(client.Submit(1)->run().id() == "r2");
  CHECK(absl::IsNotFound(client.GetTask("r1/p0@host").status()));
  if (of_run) CHECK(absl::IsNotFound(client.List("r1").status()));
}

TEST_CASE("recovery: what the planner cannot read ends what it goes on with") {
  Killed killed;
  const int64_t last = CheckStore(killed.dir())->last;
  // Whole as bytes, of an event that this version does not know.
  Folder other;
  Copy(killed.folder, other);
  auto store = *store::SqliteStore::Open(other.path());
  v1::Event moved;
  moved.mutable_task_moved()->set_task_id("r1/p1@host");
  REQUIRE(store
              ->Commit({*store->Lead(),
                        last,
                        {std::string("\xfa\x7f\x01x", 4), moved.SerializeAsString()},
                        {}})
              .ok());
  REQUIRE(store->Close().ok());
  const auto report = CheckStore(other.path());
  REQUIRE(report.ok());
  CHECK(report->damage.empty());
  CHECK(report->usable == last);
  CHECK_THAT(MeaningOf(*report),
             Contains(absl::StrCat("event ", last + 1)) && Contains("newer Warpsmith"));
}

TEST_CASE("recovery: the version before can be gone back to until the upgrade is finished") {
  Folder folder;
  REQUIRE(store::SqliteStore::Open(folder.path()).ok());
  Do(folder.path(), absl::StrCat(store::testing::kToSchema3, store::testing::kFromSchema3To2));
  CoreOptions options;
  options.keep_over_tasks = 0;
  // Kinds of entries that the version before does not know.
  const auto unknown = [&] {
    auto db = store::Database::Open(folder.path() + "/warpsmith.db", SQLITE_OPEN_READONLY);
    return *store::QueryInt(
        db->get(), "SELECT COUNT(*) FROM checkpoint WHERE substr(key, 1, 1) IN ('a', 's')");
  };
  {
    Served served(folder, "127.0.0.1:0", options);
    Client client(served.address());
    REQUIRE(client.Submit(2).ok());
    REQUIRE(client.Submit(1).ok());
    std::string session;
    Take(client, "w", session);
    REQUIRE(client.CancelRun("r1").ok());
    served.Pass(2000);
    CHECK(client.List()->runs_size() == 2);
    CHECK(absl::IsFailedPrecondition(FinishUpgrade(folder.path()).status()));
  }
  CHECK(unknown() == 0);
  CHECK_FALSE(CheckStore(folder.path())->upgraded);
  CHECK(FinishUpgrade(folder.path())->changed);
  CHECK_FALSE(FinishUpgrade(folder.path())->changed);
  CHECK(CheckStore(folder.path())->upgraded);
  {
    Served served(folder, "127.0.0.1:0", options);
    Client client(served.address());
    served.Pass(2000);
    CHECK(client.List()->runs_size() == 1);
    CHECK(client.List("r1")->tasks_size() == 2);
  }
  CHECK(unknown() > 0);
  CHECK(CheckStore(folder.path())->damage.empty());
  CHECK(absl::IsNotFound(FinishUpgrade(folder.path() + "/none").status()));
}

TEST_CASE("recovery: a kernel that is damaged while its planner runs is found, and its task held") {
  Folder folder;
  Served served(folder);
  Client client(served.address());
  REQUIRE(client.Submit(2).ok());
  std::string session;
  const v1::Lease lease = Take(client, "w", session);
  v1::SynchronizeRequest done = SyncOf("w", session, 0);
  AddStatus(lease, 5, true, done);
  AddResult(lease, "t1", 2, done);
  REQUIRE(client.Synchronize(done).ok());
  served.Pass(5000);
  CHECK(TaskOf(client, lease.task_id()).state() == v1::QUEUED);
  Do(folder.path(), absl::StrCat("UPDATE blobs SET bytes = 'x' WHERE digest = '",
                                 TaskOf(client, lease.task_id()).incumbent_blob(), "'"));
  served.Pass(3000);
  REQUIRE(client.GetBoard().ok());  // behind what reads them
  const v1::Task task = TaskOf(client, lease.task_id());
  CHECK(task.state() == v1::HELD);
  CHECK_THAT(task.reason(), Contains("the store is damaged"));
  const auto list = client.List();
  REQUIRE(list.ok());
  for (const v1::Task& other : list->tasks()) {
    if (other.id() != task.id()) CHECK(other.state() == v1::QUEUED);
  }
}

TEST_CASE("recovery: trials that were changed are found, and left out") {
  Killed killed;
  Do(killed.dir(),
     "UPDATE facts SET body = substr(body, 1, length(body) - 3) || 'xyz' "
     "WHERE number = 1");
  auto report = CheckStore(killed.dir());
  REQUIRE(report.ok());
  REQUIRE(report->damage.size() == 1);
  CHECK_THAT(report->damage[0].where, Contains("of r1/p0@host"));
  CHECK(report->batches == 1);
  REQUIRE(AcceptLoss(killed.dir()).ok());
  report = CheckStore(killed.dir());
  CHECK(report->damage.empty());
  CHECK(report->batches == 1);
}

}  // namespace warpsmith::planner
