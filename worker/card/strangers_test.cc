#include "worker/card/strangers.h"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>

namespace warpsmith::card {
namespace {

using Catch::Contains;

TEST_CASE("what the worker started is no stranger, what others started is") {
  int pipe_ends[2];
  REQUIRE(pipe(pipe_ends) == 0);
  // A child that has a child, whose number it tells.
  const pid_t child = fork();
  if (child == 0) {
    const pid_t grandchild = fork();
    if (grandchild == 0) {
      pause();
      _exit(0);
    }
    if (write(pipe_ends[1], &grandchild, sizeof grandchild) != sizeof grandchild) _exit(1);
    pause();
    _exit(0);
  }
  pid_t grandchild = 0;
  REQUIRE(read(pipe_ends[0], &grandchild, sizeof grandchild) == sizeof grandchild);
  const std::vector<int> all = {getpid(), child, grandchild, getppid()};
  CHECK(StrangersOf(all, getpid()) == std::vector<int>{getppid()});
  CHECK(StrangersOf(all, child) == std::vector<int>{getpid(), getppid()});
  kill(grandchild, SIGKILL);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  CHECK(StrangersOf({child}, getpid()).empty());  // who has ended is nobody
}

TEST_CASE("who has a card beside a worker that has not touched it") {
  device::CardReading reading;
  CHECK(SharedWith(reading, /*served=*/false, getpid(), /*sees=*/true) == "");
  CHECK_THAT(SharedWith(reading, /*served=*/true, getpid(), true), Contains("MPS"));
  reading.processes = {getpid()};
  CHECK(SharedWith(reading, false, getpid(), true) == "");
  // Where numbers of processes mean nothing, any is another's: the worker has not begun.
  CHECK(SharedWith(reading, false, getpid(), /*sees=*/false) ==
        "process " + std::to_string(getpid()) + " uses it, too");
  reading.processes = {getppid()};
  CHECK_THAT(SharedWith(reading, false, getpid(), true), Contains("uses it, too"));
  reading.sliced = true;
  CHECK_THAT(SharedWith(reading, false, getpid(), true), Contains("MIG"));
}

}  // namespace
}  // namespace warpsmith::card
