#include "worker/daemon/outbox.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/temporary_folder.h"
#include "worker/daemon/testing.h"

namespace warpsmith::daemon {
namespace {

struct Folder : support::TemporaryFolder {
  std::string file() const { return *this / "outbox"; }
};

v1::Lease MakeLease(const std::string& id, int64_t fence = 1) {
  v1::Lease lease;
  lease.set_id(id);
  lease.set_task_id("r1/softmax@host");
  lease.set_fence(fence);
  return lease;
}

v1::Trial MakeTrial(int number, size_t padding = 0) {
  v1::Trial trial;
  trial.set_id("L1/" + std::to_string(number));
  trial.set_reason(std::string(padding, 'x'));
  return trial;
}

v1::Incumbent MakeIncumbent(double speedup) {
  v1::Incumbent incumbent;
  incumbent.set_speedup(speedup);
  incumbent.mutable_trial()->set_id("L1/0");
  return incumbent;
}

v1::SynchronizeReply Names(const std::string& lease) {
  v1::SynchronizeReply reply;
  reply.add_recorded(lease);
  return reply;
}

std::vector<v1::LeaseResult> Next(Outbox& outbox, int64_t bytes = 1 << 20) {
  return outbox.Next(bytes, Form::kPlain);
}

TEST_CASE("an incumbent that takes another's place has beaten whom that had beaten") {
  Folder folder;
  auto outbox = *Outbox::Open(folder.file());
  const auto add = [&](const char* trial, const char* beaten, double speedup) {
    v1::Incumbent incumbent = MakeIncumbent(speedup);
    incumbent.mutable_trial()->set_id(trial);
    incumbent.set_beat_trial_id(beaten);
    outbox->AddIncumbent(MakeLease("L1"), incumbent);
  };
  add("L1/1", "L0/9", 1.5);
  add("L1/2", "L1/1", 1.4);
  add("L1/3", "L1/2", 1.6);
  add("L1/3", "L1/2", 1.55);  // measured again
  auto results = Next(*outbox);
  REQUIRE(results.size() == 1);
  CHECK(results[0].incumbent().speedup() == 1.55);
  CHECK(results[0].incumbent().beat_trial_id() == "L0/9");
  // What was sent stays as it is; what comes after it names it.
  add("L1/4", "L1/3", 1.7);
  results = Next(*outbox);
  REQUIRE(results.size() == 2);
  CHECK(results[0].incumbent().beat_trial_id() == "L0/9");
  CHECK(results[1].incumbent().beat_trial_id() == "L1/3");
}

TEST_CASE("what was added comes back after a restart, and only until it is recorded") {
  Folder folder;
  {
    auto outbox = Outbox::Open(folder.file());
    REQUIRE(outbox.ok());
    for (int i = 0; i < 3; ++i) (*outbox)->AddTrial(MakeLease("L1"), MakeTrial(i));
    (*outbox)->AddIncumbent(MakeLease("L1"), MakeIncumbent(1.5));
  }
  auto outbox = *Outbox::Open(folder.file());
  auto results = Next(*outbox);
  REQUIRE(results.size() == 1);
  CHECK(results[0].trials().trials_size() == 3);
  CHECK(results[0].incumbent().speedup() == 1.5);
  CHECK(results[0].fence() == 1);
  outbox->Recorded(Names("another lease"));
  CHECK_FALSE(outbox->empty());
  outbox->Recorded(Names("L1"));
  CHECK_FALSE(outbox->empty());  // nothing was said of the incumbent
  v1::SynchronizeReply reply = Names("L1");
  reply.add_recorded("L1/0");
  outbox->Recorded(reply);
  CHECK(outbox->empty());
  CHECK(outbox->bytes() == 0);
  CHECK(std::filesystem::file_size(folder.file()) == 0);
}

TEST_CASE("a batch that was sent does not change, also over a restart") {
  Folder folder;
  std::string sent;
  {
    auto outbox = *Outbox::Open(folder.file());
    outbox->AddTrial(MakeLease("L1"), MakeTrial(0));
    sent = Next(*outbox)[0].SerializeAsString();
    outbox->AddTrial(MakeLease("L1"), MakeTrial(1));
    CHECK(outbox->HasUnsent("L1"));
  }
  auto outbox = *Outbox::Open(folder.file());
  auto results = Next(*outbox);
  REQUIRE(results.size() == 2);
  CHECK(results[0].SerializeAsString() == sent);
  CHECK(results[1].trials().trials(0).id() == "L1/1");
  CHECK_FALSE(outbox->HasUnsent("L1"));
}

TEST_CASE("what was recorded stays recorded over a restart while more is waiting") {
  Folder folder;
  {
    auto outbox = *Outbox::Open(folder.file());
    outbox->AddTrial(MakeLease("L1"), MakeTrial(0));
    Next(*outbox);
    outbox->AddTrial(MakeLease("L1"), MakeTrial(1));
    outbox->Recorded(Names("L1"));
  }
  auto outbox = *Outbox::Open(folder.file());
  auto results = Next(*outbox);
  REQUIRE(results.size() == 1);
  CHECK(results[0].trials().trials(0).id() == "L1/1");
}

TEST_CASE("the last incumbent of a lease takes the place of one that waits, never of one sent") {
  Folder folder;
  auto outbox = *Outbox::Open(folder.file());
  outbox->AddIncumbent(MakeLease("L1"), MakeIncumbent(1.1));
  outbox->AddIncumbent(MakeLease("L1"), MakeIncumbent(1.2));
  auto results = Next(*outbox);
  REQUIRE(results.size() == 1);
  CHECK(results[0].incumbent().speedup() == 1.2);
  outbox->AddIncumbent(MakeLease("L1"), MakeIncumbent(1.3));
  results = Next(*outbox);
  REQUIRE(results.size() == 2);
  CHECK(results[0].incumbent().speedup() == 1.2);
  CHECK(results[1].incumbent().speedup() == 1.3);
}

TEST_CASE("requests are bounded and nothing is left behind") {
  Folder folder;
  auto outbox = *Outbox::Open(folder.file());
  constexpr int kTrials = 40;
  for (int i = 0; i < kTrials; ++i) {
    outbox->AddTrial(MakeLease("L1"), MakeTrial(i, kMaxBatchBytes / 4));
  }
  int seen = 0;
  for (int calls = 0; !outbox->empty(); ++calls) {
    REQUIRE(calls < kTrials);
    int64_t bytes = 0;
    for (const auto& result : Next(*outbox, 2 * kMaxBatchBytes)) {
      bytes += result.ByteSizeLong();
      for (const auto& trial : result.trials().trials()) {
        CHECK(trial.id() == "L1/" + std::to_string(seen++));
      }
    }
    CHECK(bytes <= 3 * kMaxBatchBytes);
    outbox->Recorded(Names("L1"));
  }
  CHECK(seen == kTrials);
}

// Of so many bytes that do not become much fewer when they are compressed.
v1::Trial DenseTrial(uint32_t number, size_t bytes) {
  v1::Trial trial = MakeTrial(static_cast<int>(number));
  for (uint32_t random = number; trial.reason().size() < bytes;) {
    random = random * 1664525 + 1013904223;
    trial.mutable_reason()->push_back(static_cast<char>('0' + (random >> 26)));
  }
  return trial;
}

TEST_CASE("where not all can be sent, incumbents go first, and trials follow in their order") {
  Folder folder;
  auto outbox = *Outbox::Open(folder.file());
  constexpr int kTrials = 12;
  const std::string lease = GENERATE("answered", "dropped", "discarded");
  for (int i = 0; i < kTrials; ++i) {
    outbox->AddTrial(MakeLease("L1"), DenseTrial(i, kMaxBatchBytes / 2));
  }
  outbox->AddIncumbent(MakeLease("L1"), MakeIncumbent(1.5));
  auto results = outbox->Next(kMaxBatchBytes, Form::kSealed);
  REQUIRE(results.size() == 2);
  CHECK(outbox->more());
  CHECK(outbox->HasUnsent("L1"));
  CHECK(results[0].incumbent().speedup() == 1.5);
  CHECK_FALSE(results[0].has_sealed());
  CHECK_FALSE(results[1].has_incumbent());
  CHECK(results[1].sealed().first() == 1);
  // Said again until it is answered.
  results = outbox->Next(kMaxBatchBytes, Form::kSealed);
  REQUIRE(results.size() == 2);
  CHECK(results[0].has_incumbent());
  if (lease == "discarded") {
    CHECK(outbox->Discard() == 2);
    results = outbox->Next(1 << 30, Form::kSealed);
    CHECK(results.at(0).sealed().first() > 1);
    for (const v1::LeaseResult& result : results) CHECK_FALSE(result.has_incumbent());
    return;
  }
  if (lease == "dropped") {
    v1::SynchronizeReply reply;
    reply.add_drop("L1");
    outbox->Recorded(reply);
    results = outbox->Next(1 << 30, Form::kSealed);
    CHECK(results.at(0).sealed().first() > 1);
    for (const v1::LeaseResult& result : results) CHECK_FALSE(result.has_incumbent());
    return;
  }
  int seen = 0;
  for (int calls = 0; !outbox->empty(); ++calls) {
    REQUIRE(calls <= kTrials);
    v1::SynchronizeReply reply;
    for (const v1::LeaseResult& result : results) {
      testing::Record(result, reply);
      if (!result.has_sealed()) continue;
      const v1::LeaseResult opened = testing::Opened(result);
      for (const v1::Trial& trial : opened.trials().trials()) {
        CHECK(trial.id() == MakeTrial(seen++).id());
      }
    }
    outbox->Recorded(reply);
    results = outbox->Next(kMaxBatchBytes, Form::kSealed);
    for (const v1::LeaseResult& result : results) CHECK_FALSE(result.has_incumbent());
  }
  CHECK(seen == kTrials);
  CHECK(outbox->bytes() == 0);
}

TEST_CASE("where much waits, what was refused or judged before is kept as a count") {
  Folder folder;
  auto outbox = *Outbox::Open(folder.file());
  v1::Trial full = MakeTrial(0);
  full.set_specialist("memory");
  full.set_action("group y: vector 4 -> 8");
  full.set_seconds(2);
  full.mutable_schedule()->add_groups();
  const auto add = [&](v1::Verdict verdict) {
    full.set_verdict(verdict);
    outbox->AddTrial(MakeLease("L1"), full);
  };
  add(v1::DUPLICATE);  // nothing waits yet
  int trials = 1;
  for (; outbox->bytes() < kThinOutboxBytes; ++trials) {
    outbox->AddTrial(MakeLease("L1"), MakeTrial(trials, 1 << 20));
  }
  for (const v1::Verdict verdict : {v1::DUPLICATE, v1::NOT_LOWERED, v1::REFUSED, v1::SLOWER}) {
    add(verdict);
    ++trials;
  }
  int64_t counted = 0;
  std::vector<v1::Trial> memory;
  for (const v1::LeaseResult& result : outbox->Next(1 << 30, Form::kSealed)) {
    CHECK(result.sealed().first() == counted + 1);
    counted += result.sealed().summary().trials();
    const v1::LeaseResult opened = testing::Opened(result);
    for (const v1::Trial& trial : opened.trials().trials()) {
      if (trial.specialist() == "memory") memory.push_back(trial);
    }
  }
  CHECK(counted == trials);
  REQUIRE(memory.size() == 5);
  for (size_t i = 0; i < memory.size(); ++i) {
    const bool thin = i > 0 && i < 4;
    CHECK(memory[i].has_schedule() != thin);
    CHECK(memory[i].action().empty() == thin);
    CHECK(memory[i].seconds() == 2);
  }
  CHECK(memory[1].verdict() == v1::DUPLICATE);
  CHECK(outbox->dropped() == 0);
}

TEST_CASE("a torn tail is cut off and what stood before it is kept") {
  Folder folder;
  {
    auto outbox = *Outbox::Open(folder.file());
    for (int i = 0; i < 4; ++i) outbox->AddTrial(MakeLease("L1"), MakeTrial(i, 100));
  }
  const auto whole = std::filesystem::file_size(folder.file());
  int cut = GENERATE(1, 60, 130);
  SECTION("truncated") { std::filesystem::resize_file(folder.file(), whole - cut); }
  SECTION("damaged") {
    std::fstream file(folder.file(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(whole - cut);
    file.put('\xff');
  }
  int before = 0;
  {
    auto outbox = *Outbox::Open(folder.file());
    before = Next(*outbox)[0].trials().trials_size();
    CHECK(before >= 2);
    CHECK(before < 4);
    outbox->AddTrial(MakeLease("L1"), MakeTrial(9));
  }
  auto outbox = *Outbox::Open(folder.file());
  auto results = Next(*outbox);
  REQUIRE(results.size() == 2);
  CHECK(results[0].trials().trials_size() == before);
  CHECK(results[1].trials().trials(0).id() == "L1/9");
}

TEST_CASE("sealed trials have numbers, without gaps in a batch, over restarts and dropped ones") {
  Folder folder;
  std::string sent;
  {
    auto outbox = *Outbox::Open(folder.file());
    for (int i = 0; i < 3; ++i) outbox->AddTrial(MakeLease("L1"), MakeTrial(i));
    const auto results = outbox->Next(1 << 20, Form::kSealed);
    REQUIRE(results.size() == 1);
    CHECK(results[0].sealed().first() == 1);
    CHECK(results[0].sealed().summary().trials() == 3);
    sent = results[0].SerializeAsString();
    outbox->AddTrial(MakeLease("L1"), MakeTrial(3));
    outbox->AddTrial(MakeLease("L2"), MakeTrial(0));
  }
  auto outbox = *Outbox::Open(folder.file());
  auto results = outbox->Next(1 << 20, Form::kSealed);
  REQUIRE(results.size() == 3);
  CHECK(results[0].SerializeAsString() == sent);
  CHECK(results[1].sealed().first() == 4);
  CHECK(testing::Opened(results[1]).trials().trials(0).id() == "L1/3");
  CHECK(results[2].sealed().first() == 1);
  CHECK(results[2].lease_id() == "L2");
}

TEST_CASE("of a batch that is recorded in part the rest is sent anew") {
  Folder folder;
  auto outbox = *Outbox::Open(folder.file());
  for (int i = 0; i < 5; ++i) outbox->AddTrial(MakeLease("L1"), MakeTrial(i));
  outbox->Next(1 << 20, Form::kSealed);
  v1::SynchronizeReply reply = Names("L1");
  outbox->Recorded(reply);  // it says nothing of sealed trials
  CHECK(outbox->Next(1 << 20, Form::kSealed).size() == 1);
  v1::Heard& heard = *reply.add_heard();
  heard.set_lease_id("L1");
  heard.set_trials(2);
  outbox->Recorded(reply);
  auto results = outbox->Next(1 << 20, Form::kSealed);
  REQUIRE(results.size() == 1);
  CHECK(results[0].sealed().first() == 3);
  const v1::LeaseResult opened = testing::Opened(results[0]);
  REQUIRE(opened.trials().trials_size() == 3);
  CHECK(opened.trials().trials(0).id() == "L1/2");
  CHECK(outbox->bytes() == static_cast<int64_t>(results[0].ByteSizeLong()));
  heard.set_trials(5);
  outbox->Recorded(reply);
  CHECK(outbox->empty());
  CHECK(outbox->bytes() == 0);
}

TEST_CASE("a planner that knows nothing of sealed trials gets them as they are, and stays so") {
  Folder folder;
  auto outbox = *Outbox::Open(folder.file());
  outbox->AddTrial(MakeLease("L1"), MakeTrial(0));
  outbox->Next(1 << 20, Form::kSealed);  // to one that has gone since
  auto results = outbox->Next(1 << 20, Form::kPlain);
  REQUIRE(results.size() == 1);
  CHECK_FALSE(results[0].has_sealed());
  REQUIRE(results[0].trials().trials_size() == 1);
  // It may have recorded that under its content: a newer one must be told the same.
  CHECK(outbox->Next(1 << 20, Form::kSealed)[0].SerializeAsString() ==
        results[0].SerializeAsString());
  outbox->Recorded(Names("L1"));
  CHECK(outbox->empty());
}

TEST_CASE("before a planner has answered nothing is sent, and all of it is still to be told") {
  Folder folder;
  auto outbox = *Outbox::Open(folder.file());
  outbox->AddTrial(MakeLease("L1"), MakeTrial(0));
  outbox->Next(1 << 20, Form::kSealed);
  outbox->Wait();
  CHECK(outbox->more());
  CHECK(outbox->HasUnsent("L1"));
  outbox->Recorded(Names("L1"));
  CHECK_FALSE(outbox->empty());
}

TEST_CASE("what the planner refuses is forgotten") {
  Folder folder;
  auto outbox = *Outbox::Open(folder.file());
  outbox->AddIncumbent(MakeLease("L1"), MakeIncumbent(1.1));
  Next(*outbox);
  v1::SynchronizeReply reply;
  reply.add_drop("L1");
  outbox->Recorded(reply);
  CHECK(outbox->empty());
}

// While it lives files of this process cannot grow beyond `bytes`, as on a full disk.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) {
    REQUIRE(getrlimit(RLIMIT_FSIZE, &before_) == 0);
    signal(SIGXFSZ, SIG_IGN);
    rlimit limit = before_;
    limit.rlim_cur = bytes;
    REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
  }
  ~FullDisk() { setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_;
};

TEST_CASE("a disk that is full for a while loses nothing and holds nothing up") {
  Folder folder;
  {
    auto outbox = *Outbox::Open(folder.file());
    outbox->AddTrial(MakeLease("L1"), MakeTrial(0));
    Next(*outbox);
    {
      FullDisk full(std::filesystem::file_size(folder.file()) + 20);
      outbox->AddTrial(MakeLease("L1"), MakeTrial(1));
      outbox->AddIncumbent(MakeLease("L1"), MakeIncumbent(1.5));
      auto results = Next(*outbox);
      REQUIRE(results.size() == 2);
      CHECK(results[1].trials().trials(0).id() == "L1/1");
      CHECK(results[1].incumbent().speedup() == 1.5);
      outbox->AddTrial(MakeLease("L2"), MakeTrial(2));
    }
    // The first batch is recorded, the others wait: the next call writes them.
    outbox->Recorded(Names("L1"));
    CHECK(Next(*outbox).size() == 2);
    outbox->AddTrial(MakeLease("L3"), MakeTrial(3));
  }
  auto outbox = *Outbox::Open(folder.file());
  auto results = Next(*outbox);
  REQUIRE(results.size() == 3);
  CHECK(results[0].trials().trials(0).id() == "L1/1");
  CHECK(results[0].incumbent().speedup() == 1.5);
  CHECK(results[1].lease_id() == "L2");
  CHECK(results[2].lease_id() == "L3");
}

TEST_CASE("a compiler's words that were cut within a character do no harm") {
  Folder folder;
  v1::Trial cut = MakeTrial(0);
  cut.set_reason("error: \xe2\x80");
  {
    auto outbox = *Outbox::Open(folder.file());
    outbox->AddTrial(MakeLease("L1"), cut);
    outbox->AddTrial(MakeLease("L1"), MakeTrial(1));
  }
  auto outbox = *Outbox::Open(folder.file());
  auto results = Next(*outbox);
  REQUIRE(results.size() == 1);
  REQUIRE(results[0].trials().trials_size() == 2);
  CHECK(results[0].trials().trials(0).reason().substr(0, 7) == "error: ");
}

TEST_CASE("one process holds the outbox") {
  Folder folder;
  auto first = Outbox::Open(folder.file());
  REQUIRE(first.ok());
  auto second = Outbox::Open(folder.file());
  CHECK(absl::IsFailedPrecondition(second.status()));
  CHECK(std::string(second.status().message()).find("--name") != std::string::npos);
}

}  // namespace
}  // namespace warpsmith::daemon
