#include "common/store/conformance.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <map>
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
  CHECK(store->SaveCheckpoint(old_epoch, {1, {{"s", "s"}}, {}}).code() == kRefused);
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

// What LoadCheckpoint hands out.
std::map<std::string, std::string> Entries(Store& store, int64_t revision) {
  std::map<std::string, std::string> entries;
  const auto loaded = store.LoadCheckpoint([&](Entry entry) {
    CHECK(entries.emplace(std::move(entry.key), std::move(entry.bytes)).second);
  });
  CHECK(*loaded == revision);
  return entries;
}

void CheckCheckpoints(const Reopen& reopen) {
  using Map = std::map<std::string, std::string>;
  const std::string zeros("\0three", 6);
  std::unique_ptr<Store> store = reopen();
  const int64_t epoch = *store->Lead();
  CHECK(Entries(*store, 0).empty());
  CHECK(store->SaveCheckpoint(epoch, {1, {{"a", "ahead of the log"}}, {}}).code() ==
        absl::StatusCode::kInvalidArgument);
  REQUIRE(store->Commit({epoch, 0, {"1", "2", "3", "4"}, {}, {}}).ok());
  REQUIRE(store->SaveCheckpoint(epoch, {1, {{"a", "one"}, {"b", ""}}, {}}).ok());
  // What is new, what is another now, and what is gone.
  const Checkpoint next{3, {{"a", zeros}, {"c", "c"}}, {"b", "never there"}};
  REQUIRE(store->SaveCheckpoint(epoch, next).ok());
  CHECK(Entries(*store, 3) == Map{{"a", zeros}, {"c", "c"}});
  // Its answer may have been lost.
  REQUIRE(store->SaveCheckpoint(epoch, next).ok());
  CHECK(store->SaveCheckpoint(epoch, {2, {{"a", "older"}}, {}}).code() ==
        absl::StatusCode::kInvalidArgument);
  store->Close().IgnoreError();
  store = reopen();
  CHECK(Entries(*store, 3) == Map{{"a", zeros}, {"c", "c"}});
  // The log goes on where the checkpoint is, and anything before may be gone.
  CHECK(Bytes(*store->Read(3, 10)) == std::vector<std::string>{"4"});
  CHECK(*store->LastRevision() == 4);
  const auto before = store->Read(2, 10);
  CHECK((before.ok() || before.status().code() == absl::StatusCode::kOutOfRange));
  const int64_t later = *store->Lead();
  REQUIRE(store->SaveCheckpoint(later, {4, {}, {"a"}}).ok());
  REQUIRE(store->Commit({later, 4, {"5"}, {}, {}}).ok());
  CHECK(Bytes(*store->Read(4, 10)) == std::vector<std::string>{"5"});
  CHECK(Entries(*store, 4) == Map{{"c", "c"}});
}

std::vector<std::string> Archived(Store& store, const std::string& prefix, size_t most = 100) {
  std::vector<std::string> read;
  CHECK(store
            .ReadArchive(prefix,
                         [&](Entry entry) {
                           read.push_back(absl::StrCat(entry.key, ": ", entry.bytes));
                           return read.size() < most;
                         })
            .ok());
  return read;
}

void CheckArchive(const Reopen& reopen) {
  using Read = std::vector<std::string>;
  std::unique_ptr<Store> store = reopen();
  const int64_t epoch = *store->Lead();
  CHECK(Archived(*store, "").empty());
  REQUIRE(store->Commit({epoch, 0, {"1", "2"}, {}, {}}).ok());
  Checkpoint first{1, {{"t/1", "at work"}}, {}, {{"t/2", "over"}, {"r/1", std::string("\0r", 2)}}};
  REQUIRE(store->SaveCheckpoint(epoch, first).ok());
  REQUIRE(store->SaveCheckpoint(epoch, first).ok());  // its answer was lost
  // A start is not handed what is archived.
  CHECK(Entries(*store, 1) == std::map<std::string, std::string>{{"t/1", "at work"}});
  const Checkpoint second{2, {}, {"t/1"}, {{"t/10", ""}, {"t/1", "over"}, {"t/2", "anew"}}};
  REQUIRE(store->SaveCheckpoint(epoch, second).ok());
  store->Close().IgnoreError();
  store = reopen();
  CHECK(Entries(*store, 2).empty());
  CHECK(Archived(*store, "t/") == Read{"t/1: over", "t/10: ", "t/2: anew"});
  CHECK(Archived(*store, "t/1", 1) == Read{"t/1: over"});
  CHECK(Archived(*store, "r/") == Read{std::string("r/1: \0r", 7)});
  CHECK(Archived(*store, "s").empty());
  // An old writer puts nothing there.
  const int64_t later = *store->Lead();
  CHECK(store->SaveCheckpoint(epoch, {2, {}, {}, {{"x", "x"}}}).code() == kRefused);
  CHECK(Archived(*store, "x").empty());
  CHECK(store->SaveCheckpoint(later, {2, {}, {}, {{"x", "x"}}}).ok());
  CHECK(Archived(*store, "x") == Read{"x: x"});
}

// "name: head, body" of each, as read.
std::vector<std::string> FactsOf(Store& store, const std::string& subject, bool bodies,
                                 size_t most) {
  std::vector<std::string> read;
  const absl::Status status = store.ReadFacts(subject, bodies, [&](Facts facts) {
    CHECK(facts.subject == subject);
    read.push_back(absl::StrCat(facts.name, ": ", facts.head, ", ", facts.body));
    return read.size() < most;
  });
  CHECK(status.ok());
  return read;
}

void CheckFacts(const Reopen& reopen) {
  using Read = std::vector<std::string>;
  std::unique_ptr<Store> store = reopen();
  const int64_t epoch = *store->Lead();
  const Batch first{epoch, 0, {"1"}, {}, {{"s", "a", "A", "aa"}, {"t", "b", "", ""}}};
  REQUIRE(store->Commit(first).ok());
  REQUIRE(store->Commit(first).ok());  // its answer was lost
  REQUIRE(store->Commit({epoch, 1, {"2"}, {}, {{"s", "c", "C", std::string(3000, 'c')}}}).ok());
  store->Close().IgnoreError();
  store = reopen();
  CHECK(FactsOf(*store, "s", false, 9) == Read{"c: C, ", "a: A, "});
  CHECK(FactsOf(*store, "s", true, 9) == Read{"c: C, " + std::string(3000, 'c'), "a: A, aa"});
  CHECK(FactsOf(*store, "s", true, 1).size() == 1);
  CHECK(FactsOf(*store, "t", true, 9) == Read{"b: , "});
  CHECK(FactsOf(*store, "none", true, 9).empty());
  // Without events, as whoever moves a store says them.
  REQUIRE(store->Commit({epoch, 2, {}, {}, {{"u", "alone", "", ""}}}).ok());
  CHECK(FactsOf(*store, "u", true, 9) == Read{"alone: , "});
  CHECK(store->CountFacts()->count == 4);
  CHECK(store->CountFacts()->bytes == 5 + 2 + 3003 + 6);
  CHECK(store->CountFacts()->forgotten == 0);
}

void CheckIdentity(const Reopen& reopen) {
  std::unique_ptr<Store> store = reopen();
  const Identity identity = *store->Identify();
  CHECK(identity.id.size() == 16);
  CHECK(identity.generation >= 1);
  REQUIRE(store->Lead().ok());
  store->Close().IgnoreError();
  store = reopen();
  CHECK(TokenOf(*store->Identify()) == TokenOf(identity));
}

void CheckAdoption(const Reopen& reopen) {
  std::unique_ptr<Store> store = reopen();
  REQUIRE(store->Adopt({"00000000000000ab", 7}, 100).ok());
  CHECK(TokenOf(*store->Identify()) == "00000000000000ab.7");
  CHECK(*store->LastRevision() == 100);
  CHECK(store->Read(99, 1).status().code() == absl::StatusCode::kOutOfRange);
  CHECK(store->Read(100, 1)->empty());
  const int64_t epoch = *store->Lead();
  CHECK(store->SaveCheckpoint(epoch, {0, {}, {}, {{"t/1", "archived"}}}).ok());
  REQUIRE(store->SaveCheckpoint(epoch, {100, {{"k", "v"}}, {}}).ok());
  REQUIRE(store->Commit({epoch, 100, {"e"}, {}}).ok());
  store->Close().IgnoreError();
  store = reopen();
  CHECK(TokenOf(*store->Identify()) == "00000000000000ab.7");
  CHECK(Bytes(*store->Read(100, 9)) == std::vector<std::string>{"e"});
  CHECK(Entries(*store, 100) == std::map<std::string, std::string>{{"k", "v"}});
  CHECK(store->Adopt({"00000000000000cd", 1}, 5).code() == kRefused);
  CHECK(TokenOf(*store->Identify()) == "00000000000000ab.7");
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
  CHECK(store->LoadCheckpoint([](Entry) {}).status().code() == kRefused);
  CHECK(store->ReadFacts("s", true, [](Facts) { return true; }).code() == kRefused);
  CHECK(store->ReadArchive("s", [](Entry) { return true; }).code() == kRefused);
  CHECK(store->CountFacts().status().code() == kRefused);
  CHECK(store->Identify().status().code() == kRefused);
}

void CheckLimits(const Reopen& reopen) {
  std::unique_ptr<Store> store = reopen();
  const int64_t epoch = *store->Lead();
  const std::string huge(kMaxEventBytes + 1, 'x');
  const absl::Status status = store->Commit({epoch, 0, {"a", huge}, {}});
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  CHECK(*store->LastRevision() == 0);
}

void CheckCounter(const std::function<SharedStore()>& open) {
  const SharedStore first = open(), second = open();
  CHECK(first.leadership->Look()->epoch == 0);
  CHECK(first.leadership->Look()->leader == "");
  const int64_t epoch = *first.leadership->LeadAfter({}, "first:1");
  CHECK(IsStaleEpoch(second.leadership->LeadAfter({}, "second:1").status()));
  CHECK(first.leadership->Beat(epoch, "first:1").ok());
  Standing standing = *second.leadership->Look();
  CHECK((standing.epoch == epoch && standing.beat == 1 && standing.leader == "first:1"));
  REQUIRE(first.store->Commit({epoch, 0, {"a", "b"}, {}}).ok());
  REQUIRE(first.store->SaveCheckpoint(epoch, {1, {}, {}}).ok());
  // It was gone for a while, and goes on: it is not followed.
  CHECK(first.leadership->Beat(epoch, "first:1").ok());
  CHECK(IsStaleEpoch(second.leadership->LeadAfter(standing, "second:1").status()));
  const int64_t next = *second.leadership->LeadAfter(*second.leadership->Look(), "second:1");
  CHECK(next > epoch);
  CHECK(IsStaleEpoch(first.leadership->Beat(epoch, "first:1")));
  CHECK(IsStaleEpoch(first.leadership->Resign(epoch)));
  standing = *first.leadership->Look();
  CHECK((standing.epoch == next && standing.beat == 0 && standing.leader == "second:1"));
  CHECK((standing.last == 2 && standing.checkpoint == 1));
  CHECK(standing.token == TokenOf(*first.store->Identify()));
  CHECK(second.leadership->Resign(next).ok());
  CHECK(first.leadership->Look()->leader == "");
}

void CheckDeposed(const std::function<SharedStore()>& open) {
  const SharedStore first = open(), second = open();
  const int64_t epoch = *first.leadership->LeadAfter({}, "first:1");
  REQUIRE(first.store->Commit({epoch, 0, {"a"}, {}}).ok());
  const int64_t next = *second.leadership->LeadAfter({epoch}, "second:1");
  CHECK(IsStaleEpoch(first.store->Commit({epoch, 1, {"b"}, {"blob"}})));
  // Nor what is there already: only the one that leads may find out.
  CHECK(IsStaleEpoch(first.store->Commit({epoch, 0, {"a"}, {}})));
  CHECK(IsStaleEpoch(first.store->SaveCheckpoint(epoch, {1, {{"k", "v"}}, {}})));
  CHECK_FALSE(first.store->Get(base::Sha256Hex("blob")).ok());
  CHECK(*first.store->LastRevision() == 1);
  CHECK(*first.store->LoadCheckpoint([](Entry) {}) == 0);
  // What another one has written is no part of the same batch.
  REQUIRE(second.store->Commit({next, 1, {"b"}, {}}).ok());
  CHECK(second.store->Commit({next, 0, {"a"}, {}}).code() == kRefused);
  CHECK(Bytes(*first.store->Read(0, 10)) == std::vector<std::string>{"a", "b"});
  // Whoever leads without a look is its only planner: nobody else leads then.
  const int64_t only = *first.store->Lead();
  CHECK(only > next);
  CHECK(IsStaleEpoch(second.leadership->Beat(next, "second:1")));
  CHECK(first.leadership->Look()->leader == "");
}

}  // namespace

void CheckLeadership(const std::function<SharedStore()>& open) {
  SECTION("the counter moves for the leader alone") { CheckCounter(open); }
  SECTION("one that was deposed writes nothing") { CheckDeposed(open); }
}

void CheckConformance(const Reopen& reopen) {
  SECTION("events keep their order and bytes, and survive") { CheckLog(reopen); }
  SECTION("an old epoch is refused") { CheckEpochGuard(reopen); }
  SECTION("a batch has one place in the log") { CheckPlaceInLog(reopen); }
  SECTION("blobs are found by their content") { CheckBlobs(reopen); }
  SECTION("a checkpoint is kept, and what changes in it") { CheckCheckpoints(reopen); }
  SECTION("what is archived is found by its key, and not at a start") { CheckArchive(reopen); }
  SECTION("facts are found by their subject") { CheckFacts(reopen); }
  SECTION("a store is the same one when it is opened again") { CheckIdentity(reopen); }
  SECTION("another store's history begins where it is adopted") { CheckAdoption(reopen); }
  SECTION("a reader beside the writer sees whole batches") { CheckThreads(reopen); }
  SECTION("a closed store refuses") { CheckClose(reopen); }
  SECTION("an event has a largest size") { CheckLimits(reopen); }
}

}  // namespace warpsmith::store
