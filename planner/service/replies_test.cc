#include "planner/service/replies.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "common/base/sha256.h"
#include "common/store/memory_store.h"
#include "planner/service/convert.h"

namespace warpsmith::planner {
namespace {

std::string DigestOf(const std::string& source) { return base::Sha256Hex(source); }

void AddTrial(const std::string& source, v1::Verdict verdict, v1::TrialBatch& batch) {
  v1::Trial& trial = *batch.add_trials();
  trial.set_id("t");
  if (!source.empty()) trial.set_source_digest(DigestOf(source));
  trial.set_verdict(verdict);
}

// Puts the batches there, as their recording does.
void Record(const std::string& task_id, const std::vector<v1::TrialBatch>& batches,
            store::MemoryStore& store) {
  const int64_t epoch = *store.Lead();
  for (const v1::TrialBatch& batch : batches) {
    REQUIRE(store
                .Commit({epoch,
                         *store.LastRevision(),
                         {"recorded"},
                         {},
                         {FactsOf(task_id, "batch", problem::Seal(batch, 1))}})
                .ok());
  }
}

// Of a task with a problem and nothing else.
SynchronizeAnswer GrantOf(const std::string& task_id, store::MemoryStore& store) {
  SynchronizeAnswer answer;
  Grant& grant = answer.start.emplace_back();
  grant.task_id = task_id;
  grant.problem_blob = *store.Put(v1::Problem().SerializeAsString());
  return answer;
}

}  // namespace

TEST_CASE("a lease names what was judged in earlier slices") {
  store::MemoryStore store;
  v1::TrialBatch older, newer;
  AddTrial("slower", v1::SLOWER, older);
  AddTrial("ours", v1::JUDGE_FAILED, older);  // not its fault: to be tried again
  AddTrial("", v1::NOT_LOWERED, older);
  AddTrial("wrong", v1::WRONG, newer);
  AddTrial("slower", v1::DUPLICATE, newer);
  Record("a", {older, newer}, store);
  Damage damage;
  Lender lender(&store);
  const auto reply = lender.Reply(GrantOf("a", store), damage);
  REQUIRE(reply.ok());
  CHECK(damage.empty());
  const auto& judged = reply->start(0).judged_sources();
  std::vector<std::string> known = {DigestOf("slower"), DigestOf("wrong")};
  std::sort(known.begin(), known.end());
  CHECK(std::vector<std::string>(judged.begin(), judged.end()) == known);
  const auto other = lender.Reply(GrantOf("b", store), damage);
  REQUIRE(other.ok());
  CHECK(other->start(0).judged_sources().empty());
}

TEST_CASE("a lease whose contents are damaged is left out and named, the others are given") {
  store::MemoryStore store;
  SynchronizeAnswer answer = GrantOf("whole", store);
  answer.start.push_back(GrantOf("no problem", store).start[0]);
  answer.start.back().problem_blob = DigestOf("what is not there");
  answer.start.push_back(GrantOf("no incumbent", store).start[0]);
  answer.start.back().incumbent_blob = *store.Put("an incumbent");
  answer.start.push_back(GrantOf("whole too", store).start[0]);
  {
    const auto disk = store.disk();
    absl::MutexLock lock(&disk->mutex);
    disk->blobs.at(DigestOf("an incumbent"))[3] ^= 1;
  }
  Damage damage;
  const auto reply = Lender(&store).Reply(answer, damage);
  REQUIRE(reply.ok());
  REQUIRE(reply->start_size() == 2);
  CHECK(reply->start(0).task_id() == "whole");
  CHECK(reply->start(1).task_id() == "whole too");
  REQUIRE(damage.size() == 2);
  CHECK(absl::IsNotFound(damage.at("no problem")));
  CHECK(absl::IsDataLoss(damage.at("no incumbent")));
}

TEST_CASE("a lease has the problem with its workload alone and the incumbent that was recorded") {
  store::MemoryStore store;
  v1::Problem problem;
  problem.set_name("p");
  for (const char* name : {"small", "large"}) problem.add_workloads()->set_name(name);
  v1::Incumbent incumbent;
  incumbent.set_speedup(2);
  SynchronizeAnswer answer;
  for (const char* workload : {"large", "small", "large"}) {
    Grant& grant = answer.start.emplace_back();
    grant.task_id = workload;
    grant.problem_blob = *store.Put(problem.SerializeAsString());
    grant.workload = workload;
    grant.incumbent_blob = *store.Put(incumbent.SerializeAsString());
  }
  Damage damage;
  const auto reply = Lender(&store).Reply(answer, damage);
  REQUIRE(reply.ok());
  v1::SynchronizeReply read;  // as a worker does
  REQUIRE(read.ParseFromString(reply->SerializeAsString()));
  REQUIRE(read.start_size() == 3);
  for (const v1::Lease& lease : read.start()) {
    REQUIRE(lease.problem().workloads_size() == 1);
    CHECK(lease.problem().workloads(0).name() == lease.task_id());
    CHECK(lease.problem().name() == "p");
    CHECK(lease.incumbent().speedup() == 2);
  }
}

TEST_CASE("a task's trials come whole, oldest first, and damaged ones are an error") {
  store::MemoryStore store;
  v1::Task task;
  task.set_id("a");
  task.set_problem_blob(*store.Put(v1::Problem().SerializeAsString()));
  v1::TrialBatch older, newer;
  AddTrial("1", v1::SLOWER, older);
  AddTrial("2", v1::WRONG, older);
  AddTrial("3", v1::ACCEPTED, newer);
  Record("a", {older, newer}, store);
  const auto reply = MakeReply(task, /*with_trials=*/true, store);
  REQUIRE(reply.ok());
  REQUIRE(reply->trials().trials_size() == 3);
  CHECK(reply->trials().trials(0).source_digest() == DigestOf("1"));
  CHECK(reply->trials().trials(2).source_digest() == DigestOf("3"));
  {
    const auto disk = store.disk();
    absl::MutexLock lock(&disk->mutex);
    disk->facts[0].body[20] ^= 1;
  }
  CHECK(absl::IsDataLoss(MakeReply(task, true, store).status()));
  CHECK(MakeReply(task, false, store).ok());
}

}  // namespace warpsmith::planner
