#include "common/store/redis/redis_store.h"

#include <signal.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/base/sha256.h"
#include "common/store/conformance.h"
#include "tests/support/fault_proxy.h"
#include "tests/support/redis_server.h"
#include "tests/support/temporary_folder.h"

namespace warpsmith::store {
namespace {

using Catch::Matchers::Contains;
using support::RedisServer;
using support::TemporaryFolder;

RedisStore::Options OptionsOf(const std::string& address, const TemporaryFolder& folder) {
  RedisStore::Options options;
  options.server.address = address;
  options.folder = folder.path();
  options.limit = absl::Seconds(2);
  options.standing_limit = absl::Milliseconds(500);
  options.kept_events = 0;
  return options;
}

std::string MessageOf(const absl::Status& status) { return std::string(status.message()); }

// What the log holds.
std::vector<std::string> LogOf(Store& store) {
  std::vector<std::string> log;
  const auto records = store.Read(0, kMaxReadEvents);
  REQUIRE(records.ok());
  for (const Record& record : *records) log.push_back(record.bytes);
  return log;
}

}  // namespace

TEST_CASE("redis: conformance") {
  RedisServer redis;
  TemporaryFolder folder;
  CheckConformance([&] { return *RedisStore::Open(OptionsOf(redis.address(), folder)); });
}

// Of hashes that are handed out a part at a time, as large ones are.
const RedisServer::Settings kLargeHashes = {{"hash-max-listpack-entries", "1"}};

TEST_CASE("redis: what nothing names goes, with its room, and nothing else") {
  RedisServer redis(kLargeHashes);
  for (int seed = 0; seed < 4; ++seed) {
    TemporaryFolder folder;
    RedisStore::Options options = OptionsOf(redis.address(), folder);
    options.cluster = absl::StrCat("c", seed);
    options.bulk_file_bytes = 7'000;
    CheckSweep([&] { return *RedisStore::Open(options); }, static_cast<uint64_t>(seed), 100);
    // What the last walks have found empty goes with those of the next leader, who has a file.
    auto store = *RedisStore::Open(options);
    const int64_t epoch = *store->Lead();
    Sweep all;
    all.named = [](const std::string&) { return true; };
    for (int walks = 0; walks < 6; ++walks) {
      const std::string own(2'000, static_cast<char>('0' + walks));
      REQUIRE(store->Commit({epoch, *store->LastRevision(), {"e"}, {own}}).ok());
      do {
        REQUIRE(store->SweepBlobs(epoch, all).ok());
      } while (!all.at.empty());
    }
    int files = 0;
    for (const auto& file : std::filesystem::directory_iterator(folder / "bulk")) {
      files += absl::StartsWith(file.path().filename().string(), "blobs-");
    }
    CHECK(files <= 12);
  }
}

// A server that was started again hashes otherwise: who goes on with HSCAN there misses some.
TEST_CASE("redis: no file goes by walks that went on with another server") {
  RedisServer redis(kLargeHashes);
  TemporaryFolder folder;
  RedisStore::Options options = OptionsOf(redis.address(), folder);
  options.bulk_file_bytes = 1;  // a file for each blob
  auto store = *RedisStore::Open(options);
  const int64_t epoch = *store->Lead();
  std::vector<std::string> blobs;
  for (int i = 0; i < 300; ++i) blobs.push_back(absl::StrCat(i, std::string(1'100, 'x')));
  REQUIRE(store->Commit({epoch, 0, {"all are named"}, blobs}).ok());
  const auto restart = [&] {
    redis.Signal(SIGTERM);
    redis.Start();
  };
  for (int walks = 0; walks < 3; ++walks) {
    Sweep all;
    all.named = [](const std::string&) { return true; };
    all.most = 20;
    int64_t found = 0;
    bool restarted = false;
    do {
      auto swept = store->SweepBlobs(epoch, all);
      if (!swept.ok()) swept = store->SweepBlobs(epoch, all);  // the connection was lost
      REQUIRE(swept.ok());
      found += swept->named;
      if (restarted || found < 150) continue;
      restart();
      restarted = true;
    } while (!all.at.empty());
    CHECK(restarted);
    restart();  // or what was missed would be found first by the next
  }
  for (const std::string& blob : blobs) CHECK(store->Get(base::Sha256Hex(blob)).ok());
}

TEST_CASE("redis: who leads") {
  RedisServer redis;
  TemporaryFolder folder;
  CheckLeadership(
      [&] { return SharedStore(*RedisStore::Open(OptionsOf(redis.address(), folder))); });
}

TEST_CASE("redis: clusters of one server do not know of each other") {
  RedisServer redis;
  TemporaryFolder first_folder, second_folder;
  RedisStore::Options options = OptionsOf(redis.address(), first_folder);
  options.cluster = "first";
  auto first = *RedisStore::Open(options);
  options.cluster = "second";
  options.folder = second_folder.path();
  auto second = *RedisStore::Open(options);
  CHECK(first->Identify()->id != second->Identify()->id);
  REQUIRE(first->Commit({*first->Lead(), 0, {"a"}, {}}).ok());
  CHECK(*second->LastRevision() == 0);
  // The folder of one is not taken for that of another.
  options.folder = first_folder.path();
  CHECK_THAT(MessageOf(RedisStore::Open(options).status()),
             Contains("name the folder of this one"));
  options.cluster = "no{thing";
  CHECK(absl::IsInvalidArgument(RedisStore::Open(options).status()));
}

TEST_CASE("redis: a server that may lose what it answered for is refused") {
  const auto [setting, value, says] = GENERATE(table<std::string, std::string, std::string>({
      {"appendonly", "no", "appendonly is no, not yes"},
      {"appendfsync", "everysec", "appendfsync is everysec, not always"},
      {"no-appendfsync-on-rewrite", "yes", "no-appendfsync-on-rewrite is yes, not no"},
      {"maxmemory-policy", "allkeys-lru", "maxmemory-policy is allkeys-lru, not noeviction"},
  }));
  RedisServer redis(RedisServer::Settings{{setting, value}});
  TemporaryFolder folder;
  RedisStore::Options options = OptionsOf(redis.address(), folder);
  const absl::Status refused = RedisStore::Open(options).status();
  CHECK(absl::IsFailedPrecondition(refused));
  CHECK_THAT(MessageOf(refused), Contains(says));
  options.accept_loss = true;
  auto store = RedisStore::Open(options);
  REQUIRE(store.ok());
  REQUIRE((*store)->risks().size() == 1);
  CHECK_THAT((*store)->risks()[0], Contains(says));
}

TEST_CASE("redis: addresses on other hosts are refused") {
  for (const char* good : {"127.0.0.1:6379", "localhost:1", "[::1]:6379", "unix:/run/redis.sock"}) {
    INFO(good);
    CHECK(redis::ValidateAddress(good).ok());
  }
  for (const char* bad : {"", "6379", "127.0.0.1", "127.0.0.1:0", "unix:", "127.0.0.1:70000"}) {
    INFO(bad);
    CHECK(absl::IsInvalidArgument(redis::ValidateAddress(bad)));
  }
  CHECK_THAT(MessageOf(redis::ValidateAddress("10.0.0.7:6379")), Contains("stunnel"));
  CHECK_THAT(MessageOf(redis::ValidateAddress("redis.example.com:6379")), Contains("stunnel"));
}

TEST_CASE("redis: a user of the server's list needs a password and what the guide names") {
  RedisServer redis;
  TemporaryFolder folder;
  RedisStore::Options options = OptionsOf(redis.address(), folder);
  options.cluster = "lab";
  const std::string keys = "~warpsmith:{lab}:*";
  REQUIRE(redis.Do({"ACL",     "SETUSER",     "smith",    "on",           ">secret",  keys,
                    "-@all",   "+config|get", "+eval",    "+evalsha",     "+multi",   "+exec",
                    "+exists", "+hget",       "+hmget",   "+hset",        "+hsetnx",  "+hdel",
                    "+hlen",   "+hkeys",      "+hgetall", "+hexists",     "+hincrby", "+xadd",
                    "+xrange", "+xtrim",      "+zadd",    "+zrangebylex", "+rpush",   "+lrange",
                    "+llen",   "+del",        "+hscan"}) == "OK");
  options.server.user = "smith";
  options.server.password = "wrong";
  CHECK(absl::IsPermissionDenied(RedisStore::Open(options).status()));
  options.server.password = "secret";
  {
    auto store = *RedisStore::Open(options);
    const int64_t epoch = *store->Lead();
    CHECK(store->Beat(epoch, "here").ok());
    CHECK(store->Commit({epoch, 0, {"a"}, {std::string(5000, 'b')}, {{"s", "n", "h", "b"}}}).ok());
    CHECK(store->SaveCheckpoint(epoch, {1, {{"k", "v"}}, {"gone"}, {{"old", "x"}}}).ok());
    CHECK(store->LoadCheckpoint([](Entry) {}).ok());
    CHECK(store->ReadArchive("", [](Entry) { return true; }).ok());
    CHECK(store->Read(1, 1).ok());
    CHECK(store->CountFacts()->count == 1);
    Sweep sweep;
    sweep.named = [](const std::string&) { return false; };
    CHECK(store->SweepBlobs(epoch, sweep)->unnamed == 1);
  }
  // Another cluster's keys are not its own.
  TemporaryFolder other;
  options.cluster = "other";
  options.folder = other.path();
  CHECK(absl::IsPermissionDenied(RedisStore::Open(options).status()));
  REQUIRE(redis.Do({"CONFIG", "SET", "requirepass", "hush"}) == "OK");
  options.server.user = options.server.password = "";
  CHECK(absl::IsPermissionDenied(RedisStore::Open(options).status()));
}

TEST_CASE(
    "redis: a server on another host is reached through stunnel, encrypted and by its "
    "certificate") {
  RedisServer redis;
  TemporaryFolder folder;
  const std::string far = absl::StrCat("127.0.0.1:", support::FreePort());
  const std::string near = absl::StrCat("127.0.0.1:", support::FreePort());
  for (const char* name : {"server", "other"}) {
    const std::string file = folder / name;
    REQUIRE(e2e::RunToEnd({"openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                           "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1", "-subj",
                           "/CN=redis", "-keyout", file + ".key", "-out", file + ".crt"}) == 0);
  }
  std::ofstream(folder / "far.conf")
      << "foreground = yes\npid =\n[redis]\naccept = " << far << "\nconnect = " << redis.socket()
      << "\ncert = " << folder / "server.crt"
      << "\nkey = " << folder / "server.key"
      << "\n";
  const auto near_with = [&](const std::string& trusted) {
    std::ofstream(folder / "near.conf")
        << "foreground = yes\npid =\n[redis]\nclient = yes\naccept = " << near
        << "\nconnect = " << far << "\nCAfile = " << folder / trusted << "\nverifyPeer = yes\n";
    return std::make_unique<e2e::Process>(
        std::vector<std::string>{"stunnel4", folder / "near.conf"});
  };
  e2e::Process there({"stunnel4", folder / "far.conf"});
  auto here = near_with("server.crt");
  TemporaryFolder shared;
  REQUIRE(e2e::Eventually(absl::Seconds(10),
                          [&] { return RedisStore::Open(OptionsOf(near, shared)).ok(); }));
  {
    auto store = *RedisStore::Open(OptionsOf(near, shared));
    const int64_t epoch = *store->Lead();
    CHECK(store->Commit({epoch, 0, {"a"}, {std::string(500, 'b')}}).ok());
  }
  CHECK(*(*RedisStore::Open(OptionsOf(redis.address(), shared)))->LastRevision() == 1);
  // One with another certificate is not spoken to.
  here = nullptr;
  here = near_with("other.crt");
  REQUIRE(e2e::Eventually(absl::Seconds(10), [&] {
    return here->Errors().find("certificate") != std::string::npos ||
           !RedisStore::Open(OptionsOf(near, shared)).ok();
  }));
  CHECK_FALSE(RedisStore::Open(OptionsOf(near, shared)).ok());
}

// ---- what the server says -----------------------------------------------------------------------

TEST_CASE("redis: scripts that a server forgot are sent again") {
  RedisServer redis;
  TemporaryFolder folder;
  auto store = *RedisStore::Open(OptionsOf(redis.address(), folder));
  const int64_t epoch = *store->Lead();
  REQUIRE(store->Commit({epoch, 0, {"a"}, {}}).ok());
  REQUIRE(redis.Do({"SCRIPT", "FLUSH"}) == "OK");
  CHECK(store->Commit({epoch, 1, {"b"}, {}}).ok());
  CHECK(LogOf(*store) == std::vector<std::string>{"a", "b"});
}

TEST_CASE(
    "redis: a server that takes nothing for now is waited for, and nothing is there by half") {
  RedisServer redis;
  TemporaryFolder folder;
  auto store = *RedisStore::Open(OptionsOf(redis.address(), folder));
  const int64_t epoch = *store->Lead();
  REQUIRE(store->Commit({epoch, 0, {"a"}, {}}).ok());
  const Batch next{epoch, 1, {"b", "c"}, {"blob"}, {{"s", "n", "h", "b"}}};
  const Checkpoint checkpoint{1, {{"k", "v"}}, {}, {{"old", "x"}}};
  struct Case {
    const char* word;
    std::vector<std::string> begin, end;
  };
  const std::vector<Case> cases = {
      {"OOM", {"CONFIG", "SET", "maxmemory", "1"}, {"CONFIG", "SET", "maxmemory", "0"}},
      {"READONLY", {"REPLICAOF", "127.0.0.1", "1"}, {"REPLICAOF", "NO", "ONE"}},
      {"NOREPLICAS",
       {"CONFIG", "SET", "min-replicas-to-write", "1"},
       {"CONFIG", "SET", "min-replicas-to-write", "0"}},
  };
  for (const Case& one : cases) {
    INFO(one.word);
    REQUIRE(redis.Do(one.begin) == "OK");
    const absl::Status refused = store->Commit(next);
    CHECK(absl::IsUnavailable(refused));
    CHECK_THAT(MessageOf(refused), Contains(one.word));
    CHECK(absl::IsUnavailable(store->SaveCheckpoint(epoch, checkpoint)));
    CHECK(absl::IsUnavailable(store->Lead().status()));
    CHECK(LogOf(*store) == std::vector<std::string>{"a"});
    CHECK(store->CountFacts()->count == 0);
    CHECK(store->LoadCheckpoint([](Entry) { FAIL("an entry of a refused checkpoint"); }).ok());
    REQUIRE(redis.Do(one.end) == "OK");
  }
  CHECK(store->Commit(next).ok());
  CHECK(store->SaveCheckpoint(epoch, checkpoint).ok());
  CHECK(store->Read(1, 10)->size() == 2);
}

TEST_CASE("redis: a server that cannot write its disk takes nothing") {
  RedisServer redis(RedisServer::Settings{{"save", "3600 1"}, {"dbfilename", "dump.rdb"}});
  TemporaryFolder folder;
  auto store = *RedisStore::Open(OptionsOf(redis.address(), folder));
  const int64_t epoch = *store->Lead();
  REQUIRE(store->Commit({epoch, 0, {"a"}, {}}).ok());
  // A snapshot that fails: its file cannot be put in the place of a folder.
  std::filesystem::create_directory(redis.folder() + "/dump.rdb");
  std::ofstream(redis.folder() + "/dump.rdb/x") << "x";
  redis.Do({"BGSAVE"});
  absl::Status refused;
  CHECK(e2e::Eventually(absl::Seconds(10), [&] {
    refused = store->Commit({epoch, *store->LastRevision(), {"b"}, {}});
    return !refused.ok();
  }));
  CHECK(absl::IsUnavailable(refused));
  CHECK_THAT(MessageOf(refused), Contains("MISCONF"));
  std::filesystem::remove_all(redis.folder() + "/dump.rdb");
  REQUIRE(redis.Do({"SAVE"}) == "OK");
  CHECK(store->Commit({epoch, *store->LastRevision(), {"c"}, {}}).ok());
}

TEST_CASE("redis: a server that is busy with a script, or frozen, is no error of ours") {
  RedisServer redis(RedisServer::Settings{{"busy-reply-threshold", "50"}});
  TemporaryFolder folder;
  auto store = *RedisStore::Open(OptionsOf(redis.address(), folder));
  const int64_t epoch = *store->Lead();
  SECTION("BUSY") {
    std::thread busy([&] {
      redis::Connection other({.address = redis.address()}, absl::Seconds(30));
      other.Do({"EVAL", "while true do end", "0"}).IgnoreError();
    });
    absl::Status refused;
    CHECK(e2e::Eventually(absl::Seconds(10), [&] {
      refused = store->Beat(epoch, "here");
      return absl::IsUnavailable(refused);
    }));
    CHECK_THAT(MessageOf(refused), Contains("BUSY"));
    CHECK(absl::IsUnavailable(store->Commit({epoch, 0, {"a"}, {}})));
    CHECK(redis.Do({"SCRIPT", "KILL"}) == "OK");
    busy.join();
    CHECK(store->Commit({epoch, 0, {"a"}, {}}).ok());
  }
  SECTION("frozen: executed or not, and the same again finds out") {
    redis.Signal(SIGSTOP);
    const absl::Status unknown = store->Commit({epoch, 0, {"a"}, {}});
    CHECK(absl::IsDeadlineExceeded(unknown));
    CHECK_THAT(MessageOf(unknown), Contains("no answer within 2s"));
    CHECK(absl::IsDeadlineExceeded(store->Beat(epoch, "here")));
    CHECK(absl::IsDeadlineExceeded(store->Look().status()));
    redis.Signal(SIGCONT);
    CHECK(store->Commit({epoch, 0, {"a"}, {}}).ok());
    CHECK(store->Beat(epoch, "here").ok());
  }
  CHECK(LogOf(*store) == std::vector<std::string>{"a"});
}

TEST_CASE("redis: LOADING is waited for") {
  RedisServer redis(RedisServer::Settings{{"loading-process-events-interval-bytes", "1024"},
                                          {"rdbcompression", "no"}});
  TemporaryFolder folder;
  {
    auto store = *RedisStore::Open(OptionsOf(redis.address(), folder));
    const int64_t epoch = *store->Lead();
    REQUIRE(store->Commit({epoch, 0, {"a"}, {}}).ok());
    for (int i = 0; i < 60; ++i) {
      REQUIRE(redis.Do({"SET", absl::StrCat("other ", i), std::string(20'000, 'x')}) == "OK");
    }
  }
  // What is read from a snapshot is read as slowly as it is told to.
  redis.Do({"BGREWRITEAOF"});
  REQUIRE(e2e::Eventually(absl::Seconds(10), [&] {
    std::error_code error;
    const auto base = redis.folder() + "/appendonlydir/appendonly.aof.2.base.rdb";
    return std::filesystem::file_size(base, error) > 100'000 && !error;
  }));
  redis.Signal(SIGTERM);
  e2e::Process again({"redis-server", redis.folder() + "/redis.conf", "--key-load-delay", "50000"});
  absl::Status loading;
  REQUIRE(e2e::Eventually(absl::Seconds(10), [&] {
    loading = RedisStore::Open(OptionsOf(redis.address(), folder)).status();
    return absl::StrContains(loading.message(), "LOADING");
  }));
  CHECK(absl::IsUnavailable(loading));
}

// ---- answers that are lost ----------------------------------------------------------------------

TEST_CASE("redis: a batch whose answer was lost is there once when it is sent again") {
  RedisServer redis(RedisServer::Settings{{"port", std::to_string(support::FreePort())}});
  TemporaryFolder folder;
  support::FaultProxy proxy([&] { return redis.tcp_address(); }, 1);
  RedisStore::Options options = OptionsOf(proxy.address(), folder);
  options.limit = absl::Milliseconds(300);
  auto store = *RedisStore::Open(options);
  auto beside = *RedisStore::Open(OptionsOf(redis.address(), folder));
  const int64_t epoch = *store->Lead();
  const Batch batch{epoch,
                    0,
                    {"a", "b"},
                    {std::string(5000, 'x'), "y"},
                    {{"s", "1", "h", "b"}, {"s", "2", "", ""}}};
  // What is asked before the commit is answered; the commit's own answer is not.
  std::thread network([&] {
    if (!e2e::Eventually(absl::Seconds(5), [&] { return *beside->LastRevision() == 2; })) return;
    proxy.Set({.cut = true});
  });
  proxy.Set({.latency = absl::Milliseconds(60)});
  const absl::Status unknown = store->Commit(batch);
  network.join();
  CHECK(absl::IsDeadlineExceeded(unknown));
  CHECK_FALSE(store->Commit(batch).ok());
  proxy.Set({});
  CHECK(store->Commit(batch).ok());
  CHECK(store->Commit(batch).ok());
  CHECK(LogOf(*store) == std::vector<std::string>{"a", "b"});
  CHECK(store->CountFacts()->count == 2);
  std::vector<std::string> names;
  CHECK(store
            ->ReadFacts("s", true,
                        [&](Facts facts) {
                          names.push_back(facts.name);
                          return true;
                        })
            .ok());
  CHECK(names == std::vector<std::string>{"2", "1"});
}

TEST_CASE("redis: killed at any moment, it has whole batches and every one it answered for") {
  RedisServer redis;
  TemporaryFolder folder;
  auto store = *RedisStore::Open(OptionsOf(redis.address(), folder));
  const int64_t epoch = *store->Lead();
  int64_t after = 0;
  for (int round = 0; round < 5; ++round) {
    std::thread killer([&] {
      usleep(20'000 + 7'000 * round);
      redis.Signal(SIGKILL);
    });
    const auto batch_at = [&](int64_t at) {
      return Batch{epoch,
                   at,
                   {absl::StrCat("first ", at), absl::StrCat("second ", at)},
                   {absl::StrCat("blob ", at)},
                   {{"s", absl::StrCat(at), "h", std::string(3000, 'f')}}};
    };
    while (store->Commit(batch_at(after)).ok()) after += 2;
    killer.join();
    redis.Start();
    // The last one may be there, and is then there once.
    REQUIRE(e2e::Eventually(absl::Seconds(5), [&] { return store->LastRevision().ok(); }));
    const int64_t last = *store->LastRevision();
    CHECK((last == after || last == after + 2));
    REQUIRE(store->Commit(batch_at(after)).ok());
    after += 2;
    CHECK(*store->LastRevision() == after);
    CHECK(store->CountFacts()->count == after / 2);
    CHECK(LogOf(*store).size() == static_cast<size_t>(after));
  }
  int64_t facts = 0;
  CHECK(store->ReadFacts("s", true, [&](Facts) { return ++facts > 0; }).ok());
  CHECK(facts == after / 2);
}

TEST_CASE("redis: a server that was emptied or replaced is noticed") {
  RedisServer redis;
  TemporaryFolder folder;
  auto store = *RedisStore::Open(OptionsOf(redis.address(), folder));
  const int64_t epoch = *store->Lead();
  REQUIRE(store->Commit({epoch, 0, {"a"}, {std::string(5000, 'x')}}).ok());
  REQUIRE(redis.Do({"FLUSHALL"}) == "OK");
  const absl::Status gone = store->Commit({epoch, 1, {"b"}, {}});
  CHECK(absl::IsFailedPrecondition(gone));
  CHECK_FALSE(IsStaleEpoch(gone));
  CHECK_THAT(MessageOf(gone), Contains("holds none now"));
  CHECK(absl::IsFailedPrecondition(store->Look().status()));
  CHECK(absl::IsFailedPrecondition(store->LastRevision().status()));
  // A new store would begin in the old one's folder.
  CHECK_THAT(MessageOf(RedisStore::Open(OptionsOf(redis.address(), folder)).status()),
             Contains("is the folder of the store"));
}

TEST_CASE("redis: a log that is shorter than what was answered for refuses what comes after") {
  RedisServer redis;
  TemporaryFolder folder;
  auto store = *RedisStore::Open(OptionsOf(redis.address(), folder));
  const int64_t epoch = *store->Lead();
  REQUIRE(store->Commit({epoch, 0, {"a"}, {}}).ok());
  REQUIRE(store->Commit({epoch, 1, {"b"}, {}}).ok());
  auto reader = *RedisStore::Open(OptionsOf(redis.address(), folder));
  REQUIRE(reader->Read(0, 10)->size() == 2);
  const std::string key = "warpsmith:{default}:";
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
           {"XTRIM", key + "log", "MAXLEN", "0"}, {"HSET", key + "meta", "last", "1"}}) {
    redis.Do(command);
  }
  const absl::Status refused = store->Commit({epoch, 2, {"c"}, {}});
  CHECK(absl::IsDataLoss(refused));
  CHECK_THAT(MessageOf(refused), Contains("ends at event 1, and event 2 was there"));
  // Also where nothing is written, and by whoever has only read.
  CHECK(absl::IsDataLoss(store->Beat(epoch, "here")));
  CHECK(absl::IsDataLoss(store->Look().status()));
  CHECK(absl::IsDataLoss(reader->Look().status()));
  // Nobody else goes on with it, whatever they knew, until a person does.
  auto another = *RedisStore::Open(OptionsOf(redis.address(), folder));
  CHECK(absl::IsDataLoss(another->Look().status()));
  const absl::Status led = another->LeadAfter({epoch}, "there").status();
  CHECK(absl::IsDataLoss(led));
  CHECK_THAT(MessageOf(led), Contains("event 2 was there, as a planner has found"));
  CHECK(*another->RaiseGeneration() == 2);
  CHECK(IsStaleEpoch(store->Beat(epoch, "here")));
  CHECK(reader->Look()->token == TokenOf(*another->Identify()));
  CHECK(another->LeadAfter(*another->Look(), "there").ok());
}

TEST_CASE("redis: an epoch that is lower than it was is no other planner's, but a loss") {
  RedisServer redis;
  TemporaryFolder folder;
  auto store = *RedisStore::Open(OptionsOf(redis.address(), folder));
  auto reader = *RedisStore::Open(OptionsOf(redis.address(), folder));
  const int64_t first = *store->LeadAfter({}, "here");
  const int64_t epoch = *store->LeadAfter({first}, "here");
  REQUIRE(reader->Look().ok());
  redis.Do({"HSET", "warpsmith:{default}:meta", "epoch", "1"});
  CHECK(absl::IsDataLoss(reader->Look().status()));
  CHECK(absl::IsDataLoss(store->Commit({epoch, 0, {"a"}, {}})));
  CHECK(absl::IsDataLoss(store->Beat(epoch, "here")));
  CHECK(absl::IsDataLoss(
      RedisStore::Open(OptionsOf(redis.address(), folder)).value()->Look().status()));
}

// ---- what is stored -----------------------------------------------------------------------------

TEST_CASE("redis: damage is found where it is read") {
  RedisServer redis;
  TemporaryFolder folder;
  auto store = *RedisStore::Open(OptionsOf(redis.address(), folder));
  const int64_t epoch = *store->Lead();
  const std::string large(5000, 'x');
  REQUIRE(store->Commit({epoch, 0, {"a", "b", "c"}, {large, "small"}, {{"s", "n", "head", large}}})
              .ok());
  REQUIRE(store->SaveCheckpoint(epoch, {1, {{"k", "v"}, {"l", "w"}}, {}, {{"old", "x"}}}).ok());
  const std::string key = "warpsmith:{default}:";
  const auto all_well = [&] {
    return store->Read(1, 10).ok() && store->LoadCheckpoint([](Entry) {}).ok();
  };
  REQUIRE(all_well());
  SECTION("an event is gone") {
    redis.Do({"XDEL", key + "log", absl::StrCat("2-", epoch)});
    CHECK(absl::IsDataLoss(store->Read(1, 10).status()));
  }
  SECTION("the log's end is gone") {
    redis.Do({"XDEL", key + "log", absl::StrCat("3-", epoch)});
    CHECK(absl::IsDataLoss(store->Read(1, 10).status()));
    CHECK(absl::IsDataLoss(store->Read(2, 10).status()));
  }
  SECTION("an event is another one") {
    redis.Do({"XDEL", key + "log", absl::StrCat("3-", epoch)});
    redis.Do({"XADD", key + "log", absl::StrCat("3-", epoch + 1), "s", "17", "b", "c"});
    CHECK(absl::IsDataLoss(store->Read(1, 10).status()));
  }
  SECTION("an entry is gone") {
    redis.Do({"HDEL", key + "state", "k"});
    CHECK(absl::IsDataLoss(store->LoadCheckpoint([](Entry) {}).status()));
  }
  SECTION("an entry is another one") {
    redis.Do({"HSET", key + "state", "k", "12345678v"});
    CHECK(absl::IsDataLoss(store->LoadCheckpoint([](Entry) {}).status()));
  }
  SECTION("an archived entry is another one") {
    redis.Do({"HSET", key + "archive", "old", "12345678y"});
    CHECK(absl::IsDataLoss(store->ReadArchive("", [](Entry) { return true; })));
  }
  SECTION("files are gone, cut or changed") {
    const std::string blobs = folder / "bulk/blobs-000001", facts = folder / "bulk/facts-000002";
    REQUIRE(std::filesystem::exists(blobs));
    REQUIRE(std::filesystem::exists(facts));
    const auto bodies = [&](bool wanted) {
      return store->ReadFacts("s", wanted, [](Facts) { return true; });
    };
    REQUIRE(bodies(true).ok());
    std::fstream(facts, std::ios::in | std::ios::out | std::ios::binary).seekp(-1, std::ios::end)
        << "y";
    CHECK(absl::IsDataLoss(bodies(true)));
    CHECK(bodies(false).ok());
    std::fstream(facts, std::ios::in | std::ios::out | std::ios::binary).seekp(76) << "?";
    CHECK(absl::IsDataLoss(bodies(false)));
    std::filesystem::resize_file(blobs, 100);
    CHECK(absl::IsDataLoss(store->Get(base::Sha256Hex(large)).status()));
    CHECK(store->Get(base::Sha256Hex("small")).ok());
  }
}

TEST_CASE("redis: a folder that is not the store's is refused") {
  RedisServer redis;
  TemporaryFolder folder, other;
  { auto store = *RedisStore::Open(OptionsOf(redis.address(), folder)); }
  // Nothing was written there yet: it may as well be another one.
  CHECK(RedisStore::Open(OptionsOf(redis.address(), other)).ok());
  auto store = *RedisStore::Open(OptionsOf(redis.address(), folder));
  REQUIRE(store->Put(std::string(5000, 'x')).ok());
  std::filesystem::remove(other / "store");
  const absl::Status refused = RedisStore::Open(OptionsOf(redis.address(), other)).status();
  CHECK_THAT(MessageOf(refused), Contains("is it mounted"));
}

TEST_CASE("redis: writers have files of their own, and none's is written over") {
  RedisServer redis;
  TemporaryFolder folder;
  auto first = *RedisStore::Open(OptionsOf(redis.address(), folder));
  auto second = *RedisStore::Open(OptionsOf(redis.address(), folder));
  const std::string a(5000, 'a'), b(5000, 'b'), c(5000, 'c');
  const int64_t old_epoch = *first->Lead();
  REQUIRE(first->Commit({old_epoch, 0, {"1"}, {a}, {{"s", "a", "", a}}}).ok());
  const int64_t epoch = *second->Lead();
  REQUIRE(second->Commit({epoch, 1, {"2"}, {b}, {{"s", "b", "", b}}}).ok());
  // One that was stopped in the middle of it, and goes on.
  CHECK(IsStaleEpoch(first->Commit({old_epoch, 1, {"2"}, {c}, {{"s", "c", "", c}}})));
  CHECK(first->Put(c).ok());
  REQUIRE(second->Commit({epoch, 2, {"3"}, {}, {{"s", "d", "", c}}}).ok());
  for (const std::string& blob : {a, b, c}) CHECK(*first->Get(base::Sha256Hex(blob)) == blob);
  std::string names;
  CHECK(first
            ->ReadFacts("s", true,
                        [&](Facts facts) {
                          names += facts.name;
                          return true;
                        })
            .ok());
  CHECK(names == "dba");
}

TEST_CASE("redis: one that leads again writes over nothing that it wrote before") {
  RedisServer redis;
  TemporaryFolder folder;
  auto store = *RedisStore::Open(OptionsOf(redis.address(), folder));
  std::vector<std::string> blobs;
  for (const char c : {'a', 'b', 'c'}) {
    blobs.push_back(std::string(5000, c));
    CHECK(store->Put(blobs.back()).ok());
    const int64_t epoch = *store->Lead(), last = *store->LastRevision();
    REQUIRE(store->Commit({epoch, last, {"e"}, {}, {{"s", {c}, "h", blobs.back()}}}).ok());
  }
  for (const std::string& blob : blobs) CHECK(store->Get(base::Sha256Hex(blob)).ok());
  std::string names;
  CHECK(store
            ->ReadFacts("s", true,
                        [&](Facts facts) {
                          names += facts.name;
                          return true;
                        })
            .ok());
  CHECK(names == "cba");
}

TEST_CASE("redis: the oldest facts are forgotten, by files") {
  RedisServer redis;
  TemporaryFolder folder;
  RedisStore::Options options = OptionsOf(redis.address(), folder);
  options.bulk_file_bytes = 10'000;
  options.facts_bytes = 35'000;
  auto store = *RedisStore::Open(options);
  const int64_t epoch = *store->Lead();
  const std::string body(4000, 'f');
  for (int i = 0; i < 40; ++i) {
    REQUIRE(store->Commit({epoch, i, {"e"}, {}, {{"s", absl::StrCat(i), "h", body}}}).ok());
    CHECK(store->CountFacts()->bytes <= 35'000 + 3 * 4100);
  }
  const FactsKept kept = *store->CountFacts();
  CHECK(kept.count + kept.forgotten == 40);
  CHECK(kept.count >= 6);
  int64_t read = 0;
  CHECK(store
            ->ReadFacts("s", true,
                        [&](Facts facts) {
                          CHECK(facts.name == absl::StrCat(39 - read));
                          return ++read > 0;
                        })
            .ok());
  CHECK(read == kept.count);
  int files = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder / "bulk")) {
    files += absl::StartsWith(file.path().filename().string(), "facts-");
  }
  CHECK(files <= 5);
}

TEST_CASE("redis: a large checkpoint goes in pieces, and is there whole or not at all") {
  RedisServer redis;
  TemporaryFolder folder;
  RedisStore::Options options = OptionsOf(redis.address(), folder);
  options.piece_bytes = 1000;
  auto store = *RedisStore::Open(options);
  const int64_t epoch = *store->Lead();
  REQUIRE(store->Commit({epoch, 0, {"1", "2"}, {}}).ok());
  Checkpoint large{1, {}, {}, {}};
  for (int i = 0; i < 500; ++i) large.put.push_back({absl::StrCat(i), std::string(50, 'x')});
  REQUIRE(store->SaveCheckpoint(epoch, large).ok());
  const auto entries = [&] {
    int64_t count = 0;
    CHECK(store->LoadCheckpoint([&](Entry) { ++count; }).ok());
    return count;
  };
  CHECK(entries() == 500);
  // One whose writer ended, or was deposed, in the middle leaves nothing of it.
  Checkpoint next = large;
  next.revision = 2;
  for (Entry& entry : next.put) entry.key = "n" + entry.key;
  const int64_t later = *store->Lead();
  CHECK(IsStaleEpoch(store->SaveCheckpoint(epoch, next)));
  CHECK(entries() == 500);
  next.erase = {"0", "1"};
  REQUIRE(store->SaveCheckpoint(later, next).ok());
  CHECK(entries() == 998);
  CHECK(redis.Do({"EXISTS", "warpsmith:{default}:next"}) == "0");
}

TEST_CASE("redis: the log is kept for who follows, some events behind the checkpoint") {
  RedisServer redis;
  TemporaryFolder folder;
  RedisStore::Options options = OptionsOf(redis.address(), folder);
  options.kept_events = 3;
  auto store = *RedisStore::Open(options);
  const int64_t epoch = *store->Lead();
  for (int i = 0; i < 10; ++i) REQUIRE(store->Commit({epoch, i, {absl::StrCat(i)}, {}}).ok());
  REQUIRE(store->SaveCheckpoint(epoch, {2, {}, {}}).ok());
  CHECK(store->Read(0, 100)->size() == 10);
  REQUIRE(store->SaveCheckpoint(epoch, {8, {}, {}}).ok());
  CHECK(absl::IsOutOfRange(store->Read(4, 100).status()));
  CHECK(store->Read(5, 100)->size() == 5);
  REQUIRE(store->SaveCheckpoint(epoch, {10, {}, {}}).ok());
  CHECK(store->Read(7, 100)->size() == 3);
}

// ---- who leads ----------------------------------------------------------------------------------

TEST_CASE("redis: who looks while others write sees no loss where there is none") {
  RedisServer redis;
  TemporaryFolder folder;
  auto store = *RedisStore::Open(OptionsOf(redis.address(), folder));
  const int64_t epoch = *store->Lead();
  std::atomic<bool> done{false};
  std::atomic<int> failed{0};
  std::thread looks([&] {
    while (!done) failed += !store->Look().ok() || !store->Beat(epoch, "here").ok();
  });
  for (int i = 0; i < 400; ++i) CHECK(store->Commit({epoch, i, {"e"}, {}}).ok());
  done = true;
  looks.join();
  CHECK(failed == 0);
}

TEST_CASE("redis: another history begins where it is raised, and its leader is deposed") {
  RedisServer redis;
  TemporaryFolder folder;
  auto store = *RedisStore::Open(OptionsOf(redis.address(), folder));
  const int64_t epoch = *store->Lead();
  REQUIRE(store->Commit({epoch, 0, {"a"}, {}}).ok());
  CHECK(*store->RaiseGeneration() == 2);
  CHECK(IsStaleEpoch(store->Commit({epoch, 1, {"b"}, {}})));
  CHECK(store->Identify()->generation == 2);
  CHECK(*store->LastRevision() == 1);
}

}  // namespace warpsmith::store
