// What people write on board.md, by a planner with a server and a store.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "common/base/file.h"
#include "planner/service/served.h"
#include "planner/service/testing.h"

namespace warpsmith::planner {
namespace {

using testing::Client;
using testing::Folder;
using testing::Served;
using testing::SyncOf;

}  // namespace

TEST_CASE("what people write on the board is done, or named there") {
  const Folder folder;
  const std::string path = folder.path() + "/board.md";
  Served served(folder);
  Client client(served.address());
  REQUIRE(client.Submit(3).ok());
  REQUIRE(client.Synchronize(SyncOf("w0", "")).ok());
  const auto page = [&] { return base::ReadFile(path).value_or(""); };
  const auto pass = [&] {  // a second, and what was to be drawn in it
    served.Pass(1000);
    REQUIRE(client.GetBoard().ok());
  };
  const auto state = [&](int task) { return client.List()->tasks(task).state(); };
  const auto shows = [&](const std::string& text) {
    for (int i = 0; i < 50 && !absl::StrContains(page(), text); ++i) pass();
    return absl::StrContains(page(), text);
  };
  REQUIRE(shows("| p2 | queued |"));
  const auto rewrite = [&](const std::vector<std::pair<absl::string_view, absl::string_view>>& by) {
    const std::string edited = absl::StrReplaceAll(page(), by);
    REQUIRE(edited != page());
    std::ofstream(path, std::ios::trunc) << edited;
  };

  rewrite({{"| p0 | queued |", "| p0 | hold: wanted |"},
           {"| w0 | - | host | up |", "| w0 | - | host | hold: a new fan |"}});
  REQUIRE(shows(": hold r1/p0: done"));
  CHECK(shows("hold worker w0: done"));
  CHECK(state(0) == v1::HELD);
  CHECK(client.List()->tasks(0).reason() == "wanted");
  CHECK(client.List()->workers(0).held());
  CHECK(client.List()->workers(0).held_reason() == "a new fan");
  CHECK(shows("| p0 | held |"));
  CHECK_FALSE(std::filesystem::exists(folder.path() + "/board.edited-1.md"));

  // What is wrong is named with its line, what is right is done, and the page is kept.
  rewrite({{"| p0 | held |", "| p0 | release |"},
           {"| p1 | queued |", "| p1 | hlod |"},
           {"| p2 | queued |", "| p2 | cancel |"}});
  const std::string mine = page();
  REQUIRE(shows("'hlod' is neither a state nor a verb"));
  CHECK(shows("the whole page is in " + folder.path() + "/board.edited-1.md"));
  CHECK(state(0) == v1::QUEUED);
  CHECK(state(1) == v1::QUEUED);
  CHECK(state(2) == v1::CANCELLED);
  CHECK(*base::ReadFile(folder.path() + "/board.edited-1.md") == mine);

  // Saved again, the same buffer has what was done before in it.
  REQUIRE(client.SetTask("r1/p0@host", v1::HELD).ok());
  REQUIRE(base::WriteFileAtomically(path, mine).ok());
  REQUIRE(shows("it was done when this page was saved before"));
  CHECK(state(0) == v1::HELD);
  REQUIRE(client.SetTask("r1/p0@host", v1::QUEUED).ok());

  // What cannot be done says why.
  REQUIRE(shows("| p0 | queued |"));
  rewrite({{"| p0 | queued |", "| p0 | release |"}, {"## Run r1: set\n", "## Run r1: mine\n"}});
  REQUIRE(shows("only rows of tasks and workers are read"));

  // A page that was only put in order is written anew, though nothing else happens.
  for (int i = 0; i < 3; ++i) pass();
  const std::string last = page();
  std::ofstream(path, std::ios::trunc) << absl::StrReplaceAll(last, {{"\n", "\r\n"}});
  for (int i = 0; i < 300 && page() != last; ++i) pass();
  CHECK(page() == last);
  CHECK(client.SetTask("r1/p0@host", v1::QUEUED).ok());
  REQUIRE(shows("| p0 | queued |"));

  // What was written while no planner was there is read by the next one.
  served.Close();
  rewrite({{"| p0 | queued |", "| p0 | hold |"}});
  Served next(folder);
  Client later(next.address());
  for (int i = 0; i < 50 && later.List()->tasks(0).state() != v1::HELD; ++i) {
    next.Pass(1000);
    REQUIRE(later.GetBoard().ok());
  }
  CHECK(later.List()->tasks(0).state() == v1::HELD);
}

TEST_CASE("a copy that was changed is kept, and nothing of it is done") {
  const Folder folder;
  const std::string path = folder.path() + "/board.md";
  Served served(folder);
  Client client(served.address());
  REQUIRE(client.Submit(1).ok());
  const auto pass = [&] {
    served.Pass(1000);
    REQUIRE(client.GetBoard().ok());
  };
  for (int i = 0; i < 50 && !absl::StrContains(base::ReadFile(path).value_or(""), "| queued |");
       ++i)
    pass();
  // Of a time in which it followed another one.
  board::Picture copy;
  copy.BeCopy(true);
  const std::string mine =
      absl::StrReplaceAll(board::Render(copy), {{"# Warpsmith", "hold all of it\n\n# Warpsmith"}});
  REQUIRE(base::WriteFileAtomically(path, mine).ok());
  for (int i = 0; i < 50 && !absl::StrContains(base::ReadFile(path).value_or(""), "was a copy");
       ++i)
    pass();
  CHECK_THAT(*base::ReadFile(path),
             Catch::Contains("board.edited-1.md") && Catch::Contains("`warpsmith board edit`"));
  CHECK(*base::ReadFile(folder.path() + "/board.edited-1.md") == mine);
  CHECK(client.List()->tasks(0).state() == v1::QUEUED);
}

}  // namespace warpsmith::planner
