#include "common/store/conformance.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/sha256.h"

namespace warpsmith::store {
namespace {

constexpr absl::StatusCode kRefused = absl::StatusCode::kFailedPrecondition;

std::vector<std::string> Bytes(const std::vector<Record>& records) {
  std::vector<std::string> bytes;
  for (const Record& record : records) bytes.push_back(record.bytes);
  return bytes;
}

void CheckLog(const Reopen& reopen) {
  std::unique_ptr<Store> store = reopen();
  CHECK(*store->LastRevision() == 0);
  CHECK(store->Read(0, 10)->empty());
  const int64_t epoch = *store->Lead();
  // Bytes are bytes: zeros, empty, anything.
  const std::vector<std::string> first = {"a", std::string("\0b\xff", 3), ""};
  REQUIRE(store->Commit({epoch, 0, first, {}}).ok());
  REQUIRE(store->Commit({epoch, 3, {"d"}, {}}).ok());
  CHECK(*store->LastRevision() == 4);
  CHECK(Bytes(*store->Read(0, 3)) == first);
  const std::vector<Record> rest = *store->Read(3, 10);
  REQUIRE(rest.size() == 1);
  CHECK((rest[0].revision == 4 && rest[0].bytes == "d"));
  CHECK(store->Read(4, 10)->empty());
  CHECK(store->Read(0, 0).status().code() == absl::StatusCode::kInvalidArgument);

  store->Close().IgnoreError();
  store = reopen();
  CHECK(*store->LastRevision() == 4);
  CHECK(Bytes(*store->Read(2, 10)) == std::vector<std::string>{"", "d"});
}

void CheckEpochGuard(const Reopen& reopen) {
  std::unique_ptr<Store> store = reopen();
  const int64_t old_epoch = *store->Lead();
  REQUIRE(store->Commit({old_epoch, 0, {"a"}, {}}).ok());
  const int64_t epoch = *store->Lead();
  CHECK(epoch > old_epoch);
  // An old writer is refused, whole: neither its events nor its blobs are there.
  CHECK(store->Commit({old_epoch, 1, {"b"}, {"blob"}}).code() == kRefused);
  CHECK(store->SaveSnapshot(old_epoch, {1, "s"}).code() == kRefused);
  CHECK_FALSE(store->Get(base::Sha256Hex("blob")).ok());
  CHECK(*store->LastRevision() == 1);
  CHECK(store->Commit({epoch, 1, {"b"}, {}}).ok());
  store.reset();
  store = reopen();
  CHECK(*store->Lead() > epoch);
}

void CheckPlaceInLog(const Reopen& reopen) {
  std::unique_ptr<Store> store = reopen();
  const int64_t epoch = *store->Lead();
  REQUIRE(store->Commit({epoch, 0, {"a", "b"}, {}}).ok());
  // Again: the answer may have been lost. Once is enough.
  CHECK(store->Commit({epoch, 0, {"a", "b"}, {}}).ok());
  CHECK(*store->LastRevision() == 2);
  // But not something else, nor a gap, nor a part.
  CHECK(store->Commit({epoch, 0, {"a", "c"}, {}}).code() == kRefused);
  CHECK(store->Commit({epoch, 3, {"d"}, {}}).code() == kRefused);
  CHECK(store->Commit({epoch, 0, {"a"}, {}}).code() == kRefused);
  CHECK(Bytes(*store->Read(0, 10)) == std::vector<std::string>{"a", "b"});
  // Another epoch's events are not ours, even if equal.
  const int64_t next = *store->Lead();
  CHECK(store->Commit({next, 0, {"a", "b"}, {}}).code() == kRefused);
  // A batch of blobs alone is fine, at the end of the log.
  CHECK(store->Commit({next, 2, {}, {"only a blob"}}).ok());
  CHECK(*store->Get(base::Sha256Hex("only a blob")) == "only a blob");
  CHECK(*store->LastRevision() == 2);
}

void CheckBlobs(const Reopen& reopen) {
  std::unique_ptr<Store> store = reopen();
  const int64_t epoch = *store->Lead();
  const std::string large(3 << 20, 'x');
  CHECK(*store->Put("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(*store->Put("abc") == base::Sha256Hex("abc"));
  CHECK(*store->Put("") == base::Sha256Hex(""));
  REQUIRE(store->Commit({epoch, 0, {"a"}, {large, "abc", large}}).ok());
  store->Close().IgnoreError();
  store = reopen();
  CHECK(*store->Get(base::Sha256Hex("abc")) == "abc");
  CHECK(*store->Get(base::Sha256Hex("")) == "");
  CHECK(*store->Get(base::Sha256Hex(large)) == large);
  const absl::Status missing = store->Get(base::Sha256Hex("never")).status();
  CHECK(missing.code() == absl::StatusCode::kNotFound);
  CHECK(std::string(missing.message()).find(base::Sha256Hex("never")) != std::string::npos);
}

void CheckSnapshots(const Reopen& reopen) {
  std::unique_ptr<Store> store = reopen();
  const int64_t epoch = *store->Lead();
  CHECK_FALSE(store->LoadSnapshot()->has_value());
  CHECK(store->SaveSnapshot(epoch, {1, "ahead of the log"}).code() ==
        absl::StatusCode::kInvalidArgument);
  REQUIRE(store->Commit({epoch, 0, {"a", "b", "c"}, {}}).ok());
  REQUIRE(store->SaveSnapshot(epoch, {1, "one"}).ok());
  REQUIRE(store->SaveSnapshot(epoch, {3, std::string("\0three", 6)}).ok());
  store->Close().IgnoreError();
  store = reopen();
  const std::optional<Record> snapshot = *store->LoadSnapshot();
  REQUIRE(snapshot.has_value());
  CHECK(snapshot->revision == 3);
  CHECK(snapshot->bytes == std::string("\0three", 6));
  // The log stays whole.
  CHECK(store->Read(0, 10)->size() == 3);
}

void CheckThreads(const Reopen& reopen) {
  constexpr int kBatches = 50;
  std::unique_ptr<Store> store = reopen();
  const int64_t epoch = *store->Lead();
  std::atomic<bool> done{false};
  std::atomic<int> torn{0};
  // A reader never sees half a batch of two, nor a blob missing that an event names.
  std::thread reader([&] {
    while (!done) {
      const auto records = store->Read(0, kMaxReadEvents);
      if (!records.ok() || records->size() % 2 != 0) ++torn;
      if (records.ok() && !records->empty() && !store->Get(records->back().bytes).ok()) ++torn;
    }
  });
  for (int i = 0; i < kBatches; ++i) {
    const std::string blob = absl::StrCat("blob ", i);
    CHECK(store->Commit({epoch, 2 * i, {"first", base::Sha256Hex(blob)}, {blob}}).ok());
  }
  done = true;
  reader.join();
  CHECK(torn == 0);
}

void CheckClose(const Reopen& reopen) {
  std::unique_ptr<Store> store = reopen();
  const int64_t epoch = *store->Lead();
  CHECK(store->Close().ok());
  CHECK(store->Close().ok());
  CHECK(store->Commit({epoch, 0, {"a"}, {}}).code() == kRefused);
  CHECK(store->Read(0, 1).status().code() == kRefused);
  CHECK(store->Lead().status().code() == kRefused);
  CHECK(store->Put("x").status().code() == kRefused);
  CHECK(store->Get("x").status().code() == kRefused);
  CHECK(store->LoadSnapshot().status().code() == kRefused);
}

void CheckLimits(const Reopen& reopen) {
  std::unique_ptr<Store> store = reopen();
  const int64_t epoch = *store->Lead();
  const std::string huge(kMaxEventBytes + 1, 'x');
  const absl::Status status = store->Commit({epoch, 0, {"a", huge}, {}});
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  CHECK(*store->LastRevision() == 0);
}

}  // namespace

void CheckConformance(const Reopen& reopen) {
  SECTION("events keep their order and bytes, and survive") { CheckLog(reopen); }
  SECTION("an old epoch is refused") { CheckEpochGuard(reopen); }
  SECTION("a batch has one place in the log") { CheckPlaceInLog(reopen); }
  SECTION("blobs are found by their content") { CheckBlobs(reopen); }
  SECTION("the newest snapshot is kept") { CheckSnapshots(reopen); }
  SECTION("a reader beside the writer sees whole batches") { CheckThreads(reopen); }
  SECTION("a closed store refuses") { CheckClose(reopen); }
  SECTION("an event has a largest size") { CheckLimits(reopen); }
}

}  // namespace warpsmith::store
