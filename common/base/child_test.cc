#include "common/base/child.h"

#include <sys/wait.h>

#include <catch2/catch.hpp>
#include <csignal>

#include "common/base/clock.h"

namespace warpsmith::base {
namespace {

Instant Soon() { return Now() + absl::Seconds(20); }

TEST_CASE("a child answers line by line", "[child]") {
  auto child = Child::Start({"cat"});
  REQUIRE(child.ok());
  const std::string large(300'000, 'x');
  for (const std::string& line : {std::string("one"), std::string(), large}) {
    REQUIRE((*child)->WriteLine(line, Soon()).ok());
    CHECK((*child)->ReadLine(Soon()).value() == line);
  }
  (*child)->CloseInput();
  CHECK((*child)->ReadLine(Soon()).status().code() == absl::StatusCode::kOutOfRange);
}

TEST_CASE("its environment has what was added, and its errors are kept", "[child]") {
  auto child = Child::Start({"sh", "-c", "echo $WORD; echo wrong >&2"}, {{"WORD", "here"}});
  REQUIRE(child.ok());
  CHECK((*child)->ReadLine(Soon()).value() == "here");
  CHECK((*child)->ReadLine(Soon()).status().code() == absl::StatusCode::kOutOfRange);
  CHECK((*child)->errors() == "wrong\n");
  // A peer that is gone is an error, not a signal.
  absl::Status status;
  for (int i = 0; i < 100 && status.ok(); ++i) status = (*child)->WriteLine("too late", Soon());
  CHECK(status.code() == absl::StatusCode::kUnavailable);
}

TEST_CASE("what cannot be started or does not answer is told apart", "[child]") {
  auto ended = Child::Start({"sh", "-c", "echo why >&2; exit 3"});
  REQUIRE(ended.ok());
  const auto status = (*ended)->End(Soon());
  REQUIRE(status.has_value());
  CHECK((WIFEXITED(*status) && WEXITSTATUS(*status) == 3));
  CHECK((*ended)->errors() == "why\n");
  auto killed = Child::Start({"sh", "-c", "kill -9 $$"});
  REQUIRE(killed.ok());
  const auto by = (*killed)->End(Soon());
  REQUIRE(by.has_value());
  CHECK((WIFSIGNALED(*by) && WTERMSIG(*by) == SIGKILL));
  CHECK(Child::Start({"no-such-program-anywhere"}).status().code() == absl::StatusCode::kNotFound);
  auto child = Child::Start({"cat"});
  REQUIRE(child.ok());
  CHECK((*child)->ReadLine(Now() + absl::Milliseconds(5)).status().code() ==
        absl::StatusCode::kDeadlineExceeded);
}

}  // namespace
}  // namespace warpsmith::base
