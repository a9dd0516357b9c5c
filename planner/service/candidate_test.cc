#include "planner/service/candidate.h"

#include <catch2/catch.hpp>

namespace warpsmith::planner {

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
