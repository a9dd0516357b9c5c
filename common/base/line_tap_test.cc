#include "common/base/line_tap.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace warpsmith::base {

TEST_CASE("what children write is heard in lines, and all of it") {
  std::vector<std::string> heard;
  {
    LineTap tap([&](const std::string& line) { heard.push_back(line); });
    // Two children, of which the second leaves one behind that keeps its end open.
    const int copy = dup(tap.fd());  // not closed by exec
    const std::string command = absl::StrCat("exec 2>&", copy, "; printf 'one\\n\\ntwo' >&2; ");
    REQUIRE(std::system((command + "printf ' and a half\\n' >&2").c_str()) == 0);
    REQUIRE(std::system(
                (command + "echo >&2; sleep 3 >/dev/null </dev/null & printf 'cut' >&2").c_str()) ==
            0);
    close(copy);
  }
  CHECK(heard == std::vector<std::string>{"one", "two and a half", "one", "two", "cut"});
}

TEST_CASE("a line without an end comes in parts") {
  std::vector<std::string> heard;
  {
    LineTap tap([&](const std::string& line) { heard.push_back(line); });
    const std::string long_line(3 * kMaxTapLine, 'x');
    for (size_t at = 0; at < long_line.size();) {
      const ssize_t written = write(tap.fd(), long_line.data() + at, long_line.size() - at);
      REQUIRE(written > 0);
      at += static_cast<size_t>(written);
    }
  }
  size_t bytes = 0;
  for (const std::string& part : heard) {
    CHECK(part.size() < 2 * kMaxTapLine);
    bytes += part.size();
  }
  CHECK(bytes == 3 * kMaxTapLine);
  CHECK(heard.size() >= 2);
}

}  // namespace warpsmith::base
