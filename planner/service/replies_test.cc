#include "planner/service/replies.h"

#include <catch2/catch.hpp>
#include <string>

#include "common/store/memory_store.h"

namespace warpsmith::planner {
namespace {

void AddTrial(const std::string& digest, v1::Verdict verdict, v1::TrialBatch& batch) {
  v1::Trial& trial = *batch.add_trials();
  trial.set_id("t");
  trial.set_source_digest(digest);
  trial.set_verdict(verdict);
  // Fields of every wire type stand between those that are read.
  (*trial.mutable_state())["bytes"] = 1;
  trial.mutable_timing()->set_median_us(2);
  trial.set_at_unix_ms(3);
  trial.mutable_before()->set_aligned(true);
}

}  // namespace

TEST_CASE("a lease names what was judged in earlier slices, and nothing of damaged ones") {
  store::MemoryStore store;
  SynchronizeAnswer answer;
  Grant& grant = answer.start.emplace_back();
  grant.problem_blob = *store.Put(v1::Problem().SerializeAsString());
  v1::TrialBatch older, newer;
  AddTrial("slower", v1::SLOWER, older);
  AddTrial("ours", v1::JUDGE_FAILED, older);  // not its fault: to be tried again
  AddTrial("", v1::NOT_LOWERED, older);
  AddTrial("wrong", v1::WRONG, newer);
  AddTrial("slower", v1::DUPLICATE, newer);
  for (const v1::TrialBatch* batch : {&older, &newer}) {
    grant.trial_blobs.push_back(*store.Put(batch->SerializeAsString()));
  }
  const auto reply = MakeReply(answer, store);
  REQUIRE(reply.ok());
  const auto& judged = reply->start(0).judged_sources();
  CHECK(std::vector<std::string>(judged.begin(), judged.end()) ==
        std::vector<std::string>{"slower", "wrong"});

  const std::string whole = older.SerializeAsString();
  for (const size_t size : {whole.size() - 1, whole.size() / 2, size_t{1}}) {
    grant.trial_blobs = {*store.Put(whole.substr(0, size))};
    INFO(size << " of " << whole.size() << " bytes");
    CHECK(absl::IsDataLoss(MakeReply(answer, store).status()));
  }
}

}  // namespace warpsmith::planner
