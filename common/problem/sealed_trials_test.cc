#include "common/problem/sealed_trials.h"

#include <catch2/catch.hpp>
#include <limits>

#include "absl/strings/str_cat.h"
#include "common/base/sha256.h"

namespace warpsmith::problem {
namespace {

v1::TrialBatch BatchOf(int trials) {
  v1::TrialBatch batch;
  for (int i = 0; i < trials; ++i) {
    v1::Trial& trial = *batch.add_trials();
    trial.set_id(absl::StrCat("r1/t@host#1/", i));
    trial.set_specialist(i % 2 == 0 ? "memory" : "compute");
    trial.set_verdict(i % 3 == 0 ? v1::ACCEPTED : i % 3 == 1 ? v1::SLOWER : v1::DUPLICATE);
    trial.set_seconds(0.5);
    trial.set_source_digest(base::Sha256Hex(absl::StrCat(i)));
    (*trial.mutable_state())["a"] = i;
    (*trial.mutable_state())["b"] = 1;
  }
  return batch;
}

absl::StatusCode Check(const v1::SealedTrials& sealed) { return CheckSummary(sealed).code(); }

}  // namespace

TEST_CASE("sealed trials: the summary says what is in them, and they open to what was sealed") {
  const v1::TrialBatch batch = BatchOf(30);
  const v1::SealedTrials sealed = Seal(batch, 7);
  CHECK(CheckSummary(sealed).ok());
  CHECK(sealed.first() == 7);
  const v1::TrialSummary& summary = sealed.summary();
  CHECK(summary.trials() == 30);
  CHECK(summary.judged() == 20);
  CHECK(summary.seconds() == 15);
  CHECK(summary.specialist() == "compute");
  REQUIRE(summary.counts_size() == 2);
  CHECK(summary.counts(0).specialist() == "memory");
  CHECK(summary.counts(0).trials() == 15);
  CHECK(summary.counts(0).judged() == 10);
  CHECK(summary.counts(0).accepted() == 5);
  CHECK(summary.counts(0).seconds() == 7.5);
  std::set<std::string> known;
  AddJudgedSources(summary.judged_sources(), 100, known);
  CHECK(known.size() == 20);
  CHECK(known.count(base::Sha256Hex("0")) == 1);
  CHECK(known.count(base::Sha256Hex("2")) == 0);
  std::set<std::string> some;
  AddJudgedSources(summary.judged_sources(), 3, some);
  CHECK(some.size() == 3);
  const auto opened = Open(sealed);
  REQUIRE(opened.ok());
  CHECK(opened->SerializeAsString().size() == batch.SerializeAsString().size());
  CHECK(Seal(*opened, 7).sealed() == sealed.sealed());
  // What many trials have in common is told once.
  CHECK(2 * sealed.sealed().size() < batch.ByteSizeLong());
}

TEST_CASE("sealed trials: what is damaged, or not what the summary says, does not open") {
  const v1::SealedTrials whole = Seal(BatchOf(20), 1);
  for (size_t at = 0; at < whole.sealed().size(); ++at) {
    v1::SealedTrials flipped = whole;
    (*flipped.mutable_sealed())[at] ^= 1 << (at % 8);
    const auto opened = Open(flipped);
    INFO(at);
    if (opened.ok()) CHECK(opened->SerializeAsString().size() > 0);
    // zstd's frame has bits that say nothing; whatever opens is what was sealed.
    CHECK((!opened.ok() || Seal(*opened, 1).sealed() == whole.sealed()));
  }
  v1::SealedTrials cut = whole;
  cut.mutable_sealed()->resize(whole.sealed().size() / 2);
  CHECK(Open(cut).status().code() == absl::StatusCode::kDataLoss);
  v1::SealedTrials other = whole;
  other.mutable_summary()->set_trials(19);
  CHECK(Open(other).status().code() == absl::StatusCode::kDataLoss);
  CHECK(Open(v1::SealedTrials()).status().code() == absl::StatusCode::kDataLoss);
}

TEST_CASE("sealed trials: numbers that cannot be are refused before anybody counts them") {
  const v1::SealedTrials right = Seal(BatchOf(6), 1);
  REQUIRE(CheckSummary(right).ok());
  const auto with = [&](const std::function<void(v1::SealedTrials&)>& edit) {
    v1::SealedTrials wrong = right;
    edit(wrong);
    return Check(wrong);
  };
  constexpr auto kWrong = absl::StatusCode::kInvalidArgument;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(Check(v1::SealedTrials()) == kWrong);
  CHECK(with([](auto& s) { s.clear_sealed(); }) == kWrong);
  CHECK(with([](auto& s) { s.mutable_sealed()->resize(kMaxSealedBytes + 1); }) == kWrong);
  CHECK(with([](auto& s) { s.set_first(-1); }) == kWrong);
  CHECK(with([](auto& s) { s.set_first(INT64_MAX); }) == kWrong);
  CHECK(with([](auto& s) { s.mutable_summary()->set_trials(0); }) == kWrong);
  CHECK(with([](auto& s) { s.mutable_summary()->set_trials(kMaxTrialsInBatch + 1); }) == kWrong);
  CHECK(with([](auto& s) { s.mutable_summary()->set_trials(7); }) == kWrong);
  CHECK(with([](auto& s) { s.mutable_summary()->set_judged(7); }) == kWrong);
  CHECK(with([](auto& s) { s.mutable_summary()->set_judged(-1); }) == kWrong);
  CHECK(with([&](auto& s) { s.mutable_summary()->set_seconds(nan); }) == kWrong);
  CHECK(with([](auto& s) { s.mutable_summary()->set_seconds(-1); }) == kWrong);
  CHECK(with([](auto& s) { s.mutable_summary()->mutable_judged_sources()->push_back('x'); }) ==
        kWrong);
  CHECK(with([](auto& s) { s.mutable_summary()->mutable_judged_sources()->resize(7 * 32); }) ==
        kWrong);
  CHECK(with([](auto& s) { s.mutable_summary()->mutable_counts(0)->set_trials(-1); }) == kWrong);
  CHECK(with([](auto& s) { s.mutable_summary()->mutable_counts(0)->set_accepted(9); }) == kWrong);
  CHECK(with([&](auto& s) { s.mutable_summary()->mutable_counts(0)->set_seconds(nan); }) == kWrong);
  CHECK(with([](auto& s) {
          while (s.summary().counts_size() <= kMaxSpecialists) s.mutable_summary()->add_counts();
        }) == kWrong);
}

TEST_CASE("sealed trials: more specialists than are counted are counted together") {
  v1::TrialBatch batch = BatchOf(200);
  for (int i = 0; i < 200; ++i) batch.mutable_trials(i)->set_specialist(absl::StrCat("s", i));
  const v1::SealedTrials sealed = Seal(batch, 1);
  CHECK(CheckSummary(sealed).ok());
  CHECK(sealed.summary().counts_size() == kMaxSpecialists);
  CHECK(sealed.summary().counts(kMaxSpecialists - 1).specialist() == kOtherSpecialists);
  CHECK(sealed.summary().counts(kMaxSpecialists - 1).trials() == 200 - (kMaxSpecialists - 1));
}

}  // namespace warpsmith::problem
