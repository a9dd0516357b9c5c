#include "common/problem/credits.h"

#include <catch2/catch.hpp>

namespace warpsmith::problem {

TEST_CASE("gains are credited to the specialist and action that made them") {
  v1::TrialBatch trials;
  auto add = [&](const char* specialist, v1::Verdict verdict, double us, double incumbent_us) {
    v1::Trial& trial = *trials.add_trials();
    trial.set_specialist(specialist);
    trial.set_action(std::string(specialist) + " action");
    trial.set_verdict(verdict);
    trial.mutable_timing()->set_median_us(us);
    trial.mutable_timing()->set_incumbent_us(incumbent_us);
    trial.set_seconds(0.5);
  };
  add("", v1::ACCEPTED, 100, 0);
  add("memory", v1::ACCEPTED, 50, 100);
  add("memory", v1::SLOWER, 60, 50);
  add("compute", v1::NOT_COMPILED, 0, 0);
  add("occupancy", v1::ACCEPTED, 40, 50);
  add("memory", v1::ACCEPTED, 20, 40);
  const Credits credits = CreditsOf(trials);
  CHECK(credits.gain == Approx(5));
  REQUIRE(credits.accepted.size() == 4);
  CHECK(credits.accepted[0].specialist == "opening");
  CHECK(credits.accepted[0].gain == 1);
  CHECK(credits.accepted[3].trial == 6);
  CHECK(credits.accepted[3].seconds == Approx(3));
  REQUIRE(credits.shares.size() == 4);
  CHECK(credits.shares[0].specialist == "memory");
  CHECK(credits.shares[0].gain == Approx(4));
  CHECK(credits.shares[0].trials == 3);
  CHECK(credits.shares[1].specialist == "occupancy");
  for (const Share& share : credits.shares) {
    if (share.specialist == "compute") CHECK(share.judged == 0);
  }
}

}  // namespace warpsmith::problem
