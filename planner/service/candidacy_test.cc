#include "planner/service/candidacy.h"

#include <catch2/catch.hpp>
#include <utility>

#include "common/store/store.h"

namespace warpsmith::planner {
namespace {

struct Led final : Contender {
  absl::Status CatchUp(const store::Standing&) override { return caught_up; }
  absl::Status Lead(int64_t epoch, int64_t asked_ms) override {
    confirmed_ms = asked_ms;
    leads = epoch;
    return led;
  }
  void Confirm(int64_t sent_ms) override { confirmed_ms = sent_ms; }
  int64_t alive_ms() const override { return alive; }

  absl::Status caught_up, led;
  int64_t leads = 0, confirmed_ms = 0, alive = 0;
};

const store::Standing kNobody{3, 0, ""}, kAnother{3, 0, "there"};
const absl::Status kAway = absl::DeadlineExceededError("away");

}  // namespace

TEST_CASE("who leads is known as the leader since it asked, and since its beats were sent") {
  Led planner;
  Candidacy candidacy(&planner);
  REQUIRE(candidacy.Looked(kNobody, 0) == Candidacy::kTakeOver);
  CHECK(candidacy.seen().epoch == 3);
  // It stood still before it heard.
  REQUIRE(candidacy.TookOver(4, 1'000) == Candidacy::kBeat);
  CHECK((planner.leads == 4 && planner.confirmed_ms == 1'000 && candidacy.epoch() == 4));
  CHECK(candidacy.Beaten(absl::OkStatus(), 2'000) == Candidacy::kBeat);
  CHECK(planner.confirmed_ms == 2'000);
  CHECK(candidacy.Beaten(kAway, 3'000) == Candidacy::kBeat);
  CHECK(planner.confirmed_ms == 2'000);
  CHECK(candidacy.MayBeat(kStuckMs));
  CHECK_FALSE(candidacy.MayBeat(kStuckMs + 1));
  CHECK(candidacy.Beaten(store::StaleEpoch(4, 5), 4'000) == Candidacy::kDeposed);
  CHECK(candidacy.Beaten(absl::DataLossError("shorter"), 4'000) == Candidacy::kFatal);
  CHECK(candidacy.Beaten(absl::FailedPreconditionError("another"), 4'000) == Candidacy::kFatal);
}

TEST_CASE(
    "a leader whose answers do not come leaves its counter alone, so that another one leads") {
  Led planner;
  Candidacy candidacy(&planner);
  REQUIRE(candidacy.Looked(kNobody, 0) == Candidacy::kTakeOver);
  REQUIRE(candidacy.TookOver(4, 0) == Candidacy::kBeat);
  CHECK(candidacy.Beaten(absl::OkStatus(), 1'000) == Candidacy::kBeat);
  CHECK_FALSE(candidacy.Doubts(1'000 + kUnconfirmedMs));  // it was busy, and asks again
  CHECK(candidacy.Beaten(kAway, 2'000) == Candidacy::kBeat);
  CHECK_FALSE(candidacy.Doubts(999 + kUnconfirmedMs));
  CHECK(candidacy.Doubts(1'000 + kUnconfirmedMs));
  CHECK(candidacy.LookedAgain(kAway) == Candidacy::kBeat);
  CHECK(candidacy.Doubts(8'000));
  // The store answers, and knows no other: it goes on, and answers once that is confirmed.
  CHECK(candidacy.LookedAgain(store::Standing{4, 7, "here"}) == Candidacy::kBeat);
  CHECK_FALSE(candidacy.Doubts(9'000));
  CHECK(planner.confirmed_ms == 1'000);
  CHECK(candidacy.Beaten(absl::OkStatus(), 9'000) == Candidacy::kBeat);
  CHECK(planner.confirmed_ms == 9'000);
  CHECK(candidacy.LookedAgain(store::Standing{5, 0, "there"}) == Candidacy::kDeposed);
  CHECK(store::IsStaleEpoch(candidacy.why()));
  CHECK(candidacy.LookedAgain(absl::DataLossError("shorter")) == Candidacy::kFatal);
}

TEST_CASE("what a candidate does about what it hears") {
  Led planner;
  Candidacy candidacy(&planner);
  CHECK(candidacy.Looked(kAnother, 0) == Candidacy::kLook);
  CHECK(candidacy.Looked(kAnother, kSilenceMs) == Candidacy::kTakeOver);
  // Another one was quicker, or nobody knows.
  CHECK(candidacy.TookOver(store::StaleEpoch(3, 4), kSilenceMs) == Candidacy::kLook);
  CHECK(candidacy.TookOver(kAway, kSilenceMs) == Candidacy::kLook);
  CHECK(candidacy.Looked(kAnother, 2 * kSilenceMs) == Candidacy::kLook);  // watched anew
  CHECK(candidacy.Looked(kAway, 2 * kSilenceMs) == Candidacy::kLook);
  planner.caught_up = kAway;
  CHECK(candidacy.Looked(kNobody, 2 * kSilenceMs) == Candidacy::kLook);
  for (const auto& [error, next] :
       {std::pair(absl::OutOfRangeError("behind"), Candidacy::kDeposed),
        std::pair(absl::FailedPreconditionError("another history"), Candidacy::kDeposed),
        std::pair(absl::DataLossError("shorter"), Candidacy::kFatal)}) {
    planner.caught_up = error;
    CHECK(candidacy.Looked(kNobody, 2 * kSilenceMs) == next);
    CHECK(candidacy.why() == error);
  }
  CHECK(candidacy.Looked(absl::DataLossError("shorter"), 0) == Candidacy::kFatal);
  CHECK(candidacy.TookOver(absl::DataLossError("known"), 0) == Candidacy::kFatal);
  // It was made the leader, and cannot begin.
  planner.led = kAway;
  CHECK(candidacy.TookOver(4, 0) == Candidacy::kDeposed);
  CHECK_FALSE(candidacy.leads());
}

TEST_CASE("a leader is followed by another when its counter has not moved for long enough") {
  Watch watch;
  const store::Standing first{1, 5, "here"}, moved{1, 6, "here"}, next{2, 0, "there"};
  CHECK_FALSE(watch.Sees(first, 1'000'000));
  CHECK_FALSE(watch.moves());
  CHECK_FALSE(watch.Sees(first, 1'000'000 + kSilenceMs - 1));
  CHECK(watch.Sees(first, 1'000'000 + kSilenceMs));
  CHECK_FALSE(watch.Sees(moved, 1'010'000));
  CHECK(watch.moves());
  CHECK_FALSE(watch.Sees(next, 1'010'000 + kSilenceMs));
  CHECK(watch.Sees(next, 1'010'000 + 2 * kSilenceMs));
  // Time in which the store did not answer is nobody's silence.
  CHECK_FALSE(watch.Sees(moved, 2'000'000));
  watch.SeesNothing();
  CHECK_FALSE(watch.Sees(moved, 2'000'000 + kSilenceMs));
  CHECK(watch.Sees(moved, 2'000'000 + 2 * kSilenceMs));
}

TEST_CASE("where nobody leads, or the leader has resigned, nobody is waited for") {
  Watch watch;
  CHECK(watch.Sees({0, 0, ""}, 0));
  CHECK_FALSE(watch.Sees({1, 0, "here"}, 1));
  CHECK(watch.Sees({1, 1, ""}, 2));
}

}  // namespace warpsmith::planner
