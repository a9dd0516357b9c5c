// The clock without a card: on a driver whose card says what the test wants.
#include <catch2/catch.hpp>
#include <string>

#include "worker/device/cuda_clock.h"
#include "worker/device/same_time.h"

namespace warpsmith::device {
namespace {

// Events are numbers, in the order of their making. What was recorded before the event `stuck`
// has happened; it never does itself.
struct Card {
  long events = 0, stuck = 0, queries = 0;
  bool capturing = false;
  cuda::Result write = cuda::kSuccess;  // while capturing
  std::string graphs;                   // what was done with graphs
};
Card card;

cuda::Driver DriverOfCard() {
  cuda::Driver driver = {};
  driver.CtxResetPersistingL2Cache = [] { return cuda::Result{cuda::kSuccess}; };
  driver.MemAlloc = [](cuda::Address*, size_t) { return cuda::Result{cuda::kSuccess}; };
  driver.MemsetD32Async = [](cuda::Address, unsigned, size_t, cuda::Stream) {
    return card.capturing ? card.write : cuda::Result{cuda::kSuccess};
  };
  driver.StreamBeginCapture = [](cuda::Stream, int) {
    card.capturing = true;
    return cuda::Result{cuda::kSuccess};
  };
  driver.StreamEndCapture = [](cuda::Stream, cuda::Graph* graph) {
    card.capturing = false;
    *graph = reinterpret_cast<cuda::Graph>(1);
    return cuda::Result{cuda::kSuccess};
  };
  driver.GraphInstantiate = [](cuda::GraphExec* exec, cuda::Graph, unsigned long long) {
    *exec = reinterpret_cast<cuda::GraphExec>(2);
    card.graphs += "made ";
    return cuda::Result{cuda::kSuccess};
  };
  driver.GraphUpload = [](cuda::GraphExec, cuda::Stream) { return cuda::Result{cuda::kSuccess}; };
  driver.GraphDestroy = [](cuda::Graph) {
    card.graphs += "graph-freed ";
    return cuda::Result{cuda::kSuccess};
  };
  driver.GraphLaunch = [](cuda::GraphExec, cuda::Stream) {
    card.graphs += "launched ";
    return cuda::Result{cuda::kSuccess};
  };
  driver.GraphExecDestroy = [](cuda::GraphExec) {
    card.graphs += "freed ";
    return cuda::Result{cuda::kSuccess};
  };
  driver.EventDestroy = [](cuda::Event) { return cuda::Result{cuda::kSuccess}; };
  driver.EventCreate = [](cuda::Event* event, unsigned) {
    *event = reinterpret_cast<cuda::Event>(++card.events);
    return cuda::Result{cuda::kSuccess};
  };
  driver.EventRecord = [](cuda::Event, cuda::Stream) { return cuda::Result{cuda::kSuccess}; };
  driver.EventQuery = [](cuda::Event event) {
    ++card.queries;
    return cuda::Result{reinterpret_cast<long>(event) == card.stuck ? cuda::kNotReady
                                                                    : cuda::kSuccess};
  };
  driver.EventElapsedTime = [](float* milliseconds, cuda::Event, cuda::Event) {
    *milliseconds = 1;
    return cuda::Result{cuda::kSuccess};
  };
  return driver;
}

TEST_CASE("the clock waits for a card that does not answer, and not for ever") {
  constexpr double kLimit = 0.001;
  const cuda::Driver driver = DriverOfCard();
  // Of a run whose launching counts the first event is that of the flush, the second the start's.
  for (const auto& [stuck, result] :
       {std::pair{0l, cuda::kSuccess}, {1l, cuda::kNotReady}, {2l, cuda::kNotReady}}) {
    INFO("event " << stuck);
    card = {.stuck = stuck};
    cuda::Clock clock(driver, nullptr, kLimit);
    CHECK(clock.Begin(Launching::kCounted) == result);
    CHECK(card.events == (stuck == 1 ? 1 : 2));
    CHECK(card.queries >= (stuck == 1 ? 1 : 2));
  }
  // Hidden launching waits for nothing.
  card = {.stuck = 1};
  cuda::Clock clock(driver, nullptr, kLimit);
  CHECK(clock.Begin(Launching::kHidden) == cuda::kSuccess);
  CHECK(card.queries == 0);
  card = {.stuck = 2};
  cuda::Clock probing(driver, nullptr, kLimit);
  CHECK(probing.Settle(1) == cuda::kNotReady);
}

TEST_CASE("the clock tells what launching takes") {
  const cuda::Driver driver = DriverOfCard();
  card = {};
  cuda::Clock clock(driver, nullptr, 0.001);
  double seconds = 0;
  for (int i = 0; i < 2; ++i) {
    CHECK(clock.TimeLaunch(&seconds) == cuda::kSuccess);
    CHECK(seconds == Approx(1e-3));
  }
  clock.Close();
  CHECK(card.graphs == "made graph-freed launched launched freed ");
  // A stream that cannot take the write leaves capture all the same.
  card = {.write = cuda::kOutOfMemory};
  cuda::Clock failing(driver, nullptr, 0.001);
  CHECK(failing.TimeLaunch(&seconds) == cuda::kOutOfMemory);
  CHECK_FALSE(card.capturing);
  CHECK(card.graphs == "graph-freed ");
}

TEST_CASE("two times are the same within 3 % or 0.3 us") {
  struct Case {
    double a, b;
    bool same;
  };
  for (const Case& c :
       {Case{1, 1.29, true}, {1, 1.31, false}, {100, 102.9, true}, {100, 104, false}}) {
    CHECK(SameTime(c.a, c.b) == c.same);
    CHECK(SameTime(c.b, c.a) == c.same);
  }
}

}  // namespace
}  // namespace warpsmith::device
