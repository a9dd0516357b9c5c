#include "worker/card/condition.h"

#include <catch2/catch.hpp>

#include "worker/card/xid.h"

namespace warpsmith::card {
namespace {

using Catch::Contains;
using device::CardReading;

TEST_CASE("an Xid error is the candidate's, the memory's or the card's") {
  struct Case {
    int xid;
    XidKind kind;
    const char* text;
    const char* label;
  };
  const Case cases[] = {
      {13, XidKind::kCandidate, "Xid 13: an exception of the compute engine", "13"},
      {31, XidKind::kCandidate, "Xid 31: a fault of its memory management", "31"},
      {43, XidKind::kCandidate, "Xid 43: a channel was stopped", "43"},
      {45, XidKind::kCandidate, "Xid 45: a channel was cleaned up", "45"},
      {48, XidKind::kFault, "Xid 48: an uncorrectable error of its memory; reset the card", "48"},
      {79, XidKind::kFault, "Xid 79: the card has fallen off the bus; restart the machine", "79"},
      {94, XidKind::kMemory, "Xid 94: an uncorrectable error of its memory, contained", "94"},
      {63, XidKind::kNotice, "Xid 63: a row of its memory is marked to be replaced", "63"},
      {999, XidKind::kNotice, "Xid 999", "other"},
      {-1, XidKind::kNotice, "Xid -1", "other"},
  };
  for (const Case& one : cases) {
    INFO(one.xid);
    CHECK(KindOf(one.xid) == one.kind);
    CHECK(TextOf(one.xid) == one.text);
    CHECK(LabelOf(one.xid) == one.label);
  }
}

TEST_CASE("a fault stays, the first that there was") {
  Condition condition(/*alone=*/true);
  CHECK(condition.health() == daemon::Health());
  CHECK(condition.TakeXid(31) == "");
  CHECK(condition.health() == daemon::Health());
  CHECK_THAT(condition.TakeXid(48), Contains("Xid 48"));
  CHECK_THAT(condition.TakeXid(79), Contains("Xid 79"));
  condition.Take(CardReading(), {});
  const daemon::Health health = condition.health();
  CHECK_FALSE(health.healthy);
  CHECK_THAT(health.reason, Contains("Xid 48"));
  CHECK(health.fault == health.reason);
}

TEST_CASE("memory that gave way ends what runs, and the card goes on") {
  Condition condition(/*alone=*/true);
  CHECK_THAT(condition.TakeXid(94), Contains("contained"));
  CHECK(condition.health().healthy);
  // Counted by the card, with an Xid error or without.
  CardReading reading;
  CHECK(condition.Take(reading, {}) == "");
  reading.uncorrectable_errors = 3;  // as it was found
  CHECK(condition.Take(reading, {}) == "");
  CHECK(condition.Take(reading, {}) == "");
  reading.uncorrectable_errors = 5;
  CHECK(condition.Take(reading, {}) == "the card counts 2 uncorrectable errors more");
  CHECK(condition.Take(reading, {}) == "");
  CHECK(condition.health().healthy);
}

TEST_CASE("memory that gives way again and again is a fault") {
  Condition condition(/*alone=*/true);
  condition.TakeXid(94);
  condition.TakeXid(94);
  CHECK(condition.health().healthy);
  condition.TakeXid(94);
  CHECK_THAT(condition.health().fault, Contains("gave way 3 times; reset the card"));
}

TEST_CASE("rows to be replaced are told, and a row that cannot be is a fault") {
  Condition condition(/*alone=*/true);
  CardReading reading;
  reading.remap_pending = true;
  CHECK(condition.Take(reading, {}) == "");
  CHECK(condition.health().healthy);
  CHECK_THAT(condition.health().reason, Contains("reset the card when it is free"));
  reading.remap_pending = false;
  condition.Take(reading, {});
  CHECK(condition.health() == daemon::Health());
  reading.remap_failed = true;
  condition.Take(reading, {});
  CHECK_THAT(condition.health().fault, Contains("could not be replaced"));
}

TEST_CASE("what a worker has to say besides is said while it is well") {
  Condition condition(/*alone=*/true, "no counters");
  CHECK(condition.health() == daemon::Health{.reason = "no counters"});
  CardReading reading;
  reading.remap_pending = true;
  condition.Take(reading, {});
  CHECK_THAT(condition.health().reason, Contains("when it is free; no counters"));
  condition.TakeXid(79);
  CHECK_THAT(condition.health().reason, !Contains("no counters"));
}

TEST_CASE("a card that is not reached is lost for good") {
  Condition condition(/*alone=*/true);
  CardReading lost;
  lost.lost = true;
  CHECK_THAT(condition.Take(lost, {}), Contains("does not reach the card"));
  CHECK_FALSE(condition.health().fault.empty());
  condition.Take(CardReading(), {});
  CHECK_FALSE(condition.health().fault.empty());
}

TEST_CASE("others make the worker sick while they are there, if it is to be alone") {
  Condition condition(/*alone=*/true);
  condition.Take(CardReading(), {17});  // it may have looked at the card only
  CHECK(condition.health().healthy);
  condition.Take(CardReading(), {18});
  CHECK(condition.health().healthy);
  condition.Take(CardReading(), {18, 19});
  CHECK(condition.health() ==
        daemon::Health{.healthy = false, .reason = "others use the card, too: process 18"});
  condition.Take(CardReading(), {});
  CHECK(condition.health().healthy);

  Condition sharing(/*alone=*/false);
  sharing.Take(CardReading(), {18});
  sharing.Take(CardReading(), {18});
  CHECK(sharing.health().healthy);
}

}  // namespace
}  // namespace warpsmith::card
