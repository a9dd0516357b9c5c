#include "common/store/memory_store.h"

#include <catch2/catch.hpp>
#include <memory>

#include "common/store/conformance.h"

namespace warpsmith::store {

TEST_CASE("memory: conformance") {
  const auto disk = std::make_shared<MemoryStore::Disk>();
  CheckConformance([&] { return std::make_unique<MemoryStore>(disk); });
}

TEST_CASE("memory: what nothing names goes, and nothing else") {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    const auto disk = std::make_shared<MemoryStore::Disk>();
    CheckSweep([&] { return std::make_unique<MemoryStore>(disk); }, seed, 300);
  }
}

TEST_CASE("memory: who leads") {
  const auto disk = std::make_shared<MemoryStore::Disk>();
  CheckLeadership([&] { return SharedStore(std::make_unique<MemoryStore>(disk)); });
}

TEST_CASE("memory: a log that is shorter than what was answered for or read is noticed") {
  const auto disk = std::make_shared<MemoryStore::Disk>();
  MemoryStore store(disk), reader(disk), another(disk);
  for (MemoryStore* each : {&store, &reader, &another}) REQUIRE(each->Look().ok());
  const int64_t epoch = *store.Lead();
  REQUIRE(store.Commit({epoch, 0, {"a", "b"}, {}}).ok());
  REQUIRE(reader.Read(0, 10)->size() == 2);
  {
    absl::MutexLock lock(&disk->mutex);
    disk->log.pop_back();
  }
  CHECK(absl::IsDataLoss(store.Commit({epoch, 2, {"c"}, {}})));
  CHECK(absl::IsDataLoss(store.Beat(epoch, "here")));
  CHECK(absl::IsDataLoss(store.Look().status()));
  CHECK(absl::IsDataLoss(reader.Look().status()));
  // Who knew nothing of it was told.
  CHECK(absl::IsDataLoss(another.Look().status()));
  CHECK(absl::IsDataLoss(another.LeadAfter({epoch}, "there").status()));
  // It is gone on with as another history.
  CHECK(*another.RaiseGeneration() == 2);
  CHECK(IsStaleEpoch(store.Beat(epoch, "here")));
  CHECK(reader.Look()->token == "00000000000000aa.2");
  CHECK(another.LeadAfter(*another.Look(), "there").ok());
}

TEST_CASE("memory: an epoch that is lower than it was is noticed") {
  const auto disk = std::make_shared<MemoryStore::Disk>();
  MemoryStore store(disk), reader(disk);
  for (MemoryStore* each : {&store, &reader}) REQUIRE(each->Look().ok());
  const int64_t epoch = *store.Lead();
  REQUIRE(reader.Look().ok());
  MemoryStore::Disk before;
  MemoryStore::Copy(before, *disk);
  CHECK(absl::IsDataLoss(reader.Look().status()));
  CHECK(absl::IsDataLoss(store.Beat(epoch, "here")));
}

TEST_CASE("memory: the log is kept for who follows, some events behind the checkpoint") {
  const auto disk = std::make_shared<MemoryStore::Disk>();
  MemoryStore store(disk);
  const int64_t epoch = *store.Lead();
  REQUIRE(store.Commit({epoch, 0, {"a", "b", "c"}, {}}).ok());
  REQUIRE(store.SaveCheckpoint(epoch, {3, {}, {}}).ok());
  {
    absl::MutexLock lock(&disk->mutex);
    disk->kept_events = 1;
  }
  CHECK(store.Read(2, 10)->size() == 1);
  CHECK(absl::IsOutOfRange(store.Read(1, 10).status()));
}

}  // namespace warpsmith::store
