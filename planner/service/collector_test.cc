#include "planner/service/collector.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <memory>
#include <string>

#include "common/store/sqlite_store.h"
#include "planner/service/served.h"

namespace warpsmith::planner {
namespace {

using testing::AddResult;
using testing::AddStatus;
using testing::Client;
using testing::Folder;
using testing::Served;
using testing::SyncOf;
using testing::Take;

constexpr absl::Duration kKeep = absl::Hours(8);

struct Kernels {
  std::string first, second;  // digests of the task's, one after the other
};

// A task whose kernel is replaced by a better one.
Kernels Replace(Served& served) {
  Kernels kernels;
  Client client(served.address());
  REQUIRE(client.Submit(1).ok());
  std::string session;
  const v1::Lease lease = Take(client, "w", session);
  for (const double speedup : {2.0, 3.0}) {
    v1::SynchronizeRequest request = SyncOf("w", session, 0);
    AddStatus(lease, 40, speedup == 3.0, request);
    AddResult(lease, speedup == 3.0 ? "t2" : "t1", speedup, request);
    REQUIRE(client.Synchronize(request).ok());
    const auto task = client.GetTask(lease.task_id());
    REQUIRE(task.ok());
    (speedup == 2.0 ? kernels.first : kernels.second) = task->task().incumbent_blob();
  }
  return kernels;
}
Kernels Replace(const Folder& folder, bool archive) {
  CoreOptions core;
  if (archive) core.keep_over_tasks = 0;
  Served served(folder, "127.0.0.1:0", core);
  const Kernels kernels = Replace(served);
  if (archive) served.Pass(2'000);
  return kernels;
}

TEST_CASE("collector: what is named is in the log, in the checkpoint or in the archive") {
  Folder folder;
  const std::atomic<bool> stop{false};
  const auto read = [&] {
    const auto store = store::SqliteStore::OpenToRead(folder.path());
    REQUIRE(store.ok());
    const auto named = Named::Read(**store, stop);
    REQUIRE(named.ok());
    return *named;
  };
  const auto check = [](const Named& named, const Kernels& kernels) {
    CHECK(named.size() == 2);  // the problem, and
    CHECK(named.Has(kernels.second));
    CHECK_FALSE(named.Has(kernels.first));
  };
  Kernels kernels;
  {
    Served served(folder);
    kernels = Replace(served);
    const Named named = read();  // there is no checkpoint yet
    CHECK(named.revision() > 0);
    check(named, kernels);
  }
  check(read(), kernels);  // of the one that it leaves
  CoreOptions core;
  core.keep_over_tasks = 0;
  {
    Served served(folder, "127.0.0.1:0", core);
    served.Pass(2'000);
    check(read(), kernels);
  }
  check(read(), kernels);  // of the archive
  const std::atomic<bool> ends{true};
  const auto store = store::SqliteStore::OpenToRead(folder.path());
  CHECK(absl::IsAborted(Named::Read(**store, ends).status()));
}

TEST_CASE("collector: a kernel goes that another one has replaced, after its time") {
  const bool archive = GENERATE(false, true);
  Folder folder;
  const Kernels kernels = Replace(folder, archive);
  REQUIRE(kernels.first != kernels.second);
  auto store = *store::SqliteStore::Open(folder.path());
  const int64_t epoch = *store->Lead();
  Collector collector(
      store.get(),
      {.keep = kKeep, .open = [&] { return store::SqliteStore::OpenToRead(folder.path()); }},
      nullptr);
  absl::Time now = absl::FromUnixSeconds(1'700'000'000);
  const auto pass = [&](absl::Duration time) {
    for (const absl::Time end = now + time; now < end; now += absl::Minutes(5)) {
      collector.Step(epoch, now);
      CHECK(store->Get(kernels.second).ok());
    }
  };
  pass(kKeep);  // the first walk begins some minutes later
  CHECK(store->Get(kernels.first).ok());
  pass(absl::Hours(3));
  CHECK(absl::IsNotFound(store->Get(kernels.first).status()));
  pass(4 * kKeep);
  store = nullptr;
  // The problem is there, too, and a planner goes on.
  Served served(folder);
  Client client(served.address());
  const auto task = client.GetTask("r1/p0@host");
  REQUIRE(task.ok());
  CHECK(task->problem().name() == "p0");
  CHECK(task->incumbent().speedup() == 3);
}

TEST_CASE("collector: nothing goes where blobs are kept for good, or another planner leads") {
  Folder folder;
  const Kernels kernels = Replace(folder, false);
  auto store = *store::SqliteStore::Open(folder.path());
  const int64_t epoch = *store->Lead();
  const auto open = [&] { return store::SqliteStore::OpenToRead(folder.path()); };
  Collector off(store.get(), {.keep = absl::InfiniteDuration(), .open = open}, nullptr);
  Collector deposed(store.get(), {.keep = absl::Minutes(8), .open = open}, nullptr);
  absl::Time now = absl::FromUnixSeconds(1'700'000'000);
  for (int i = 0; i < 200; ++i, now += absl::Minutes(5)) {
    off.Step(epoch, now);
    deposed.Step(epoch - 1, now);
  }
  CHECK(store->Get(kernels.first).ok());
}

}  // namespace
}  // namespace warpsmith::planner
