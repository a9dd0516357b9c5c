#include "planner/board/file.h"

#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/base/file.h"
#include "planner/board/board.h"
#include "tests/support/temporary_folder.h"

namespace warpsmith::board {
namespace {

std::string PageOf(int64_t revision) {
  v1::PlannerState state;
  state.set_revision(revision);
  Picture picture;
  picture.Take({state, {}});
  return Render(picture);
}
std::string Changed(const std::string& page) {
  return absl::StrReplaceAll(page, {{"# Warpsmith board", "# Our board"}});
}

class Board {
 public:
  std::string path() const { return folder_ / "board.md"; }
  std::string kept(int number) const {
    return folder_ / absl::StrCat("board.edited-", number, ".md");
  }
  BoardFile& file() { return *file_; }
  void Restart() {
    file_.emplace(path());
    file_->Begin();
  }
  std::string Read() const { return base::ReadFile(path()).value_or("nothing"); }
  // As an editor that writes into the file.
  void WriteInto(const std::string& page) {
    std::ofstream(path(), std::ios::binary | std::ios::trunc) << page;
  }
  // As one that replaces it.
  void Replace(const std::string& page) { REQUIRE(base::WriteFileAtomically(path(), page).ok()); }
  // A second later.
  std::optional<Edited> Take() {
    now_ = now_ + absl::Seconds(1);
    return file_->Take(now_);
  }
  int Files() const {
    const std::filesystem::directory_iterator all(std::filesystem::path(path()).parent_path());
    return static_cast<int>(std::distance(begin(all), end(all)));
  }

 private:
  support::TemporaryFolder folder_;
  std::optional<BoardFile> file_{path()};
  base::Instant now_;
};

}  // namespace

TEST_CASE("pages are written one over the other, and nothing else is left there") {
  Board board;
  for (int i = 1; i <= 3; ++i) {
    REQUIRE(board.file().Write(PageOf(i)).ok());
    CHECK(board.Read() == PageOf(i));
    CHECK_FALSE(board.Take().has_value());
  }
  CHECK(board.Files() == 1);
}

TEST_CASE("a page that was changed is not written over, and taken when it is quiet") {
  Board board;
  REQUIRE(board.file().Write(PageOf(1)).ok());
  const std::string mine = Changed(PageOf(1));
  const bool into = GENERATE(true, false);
  into ? board.WriteInto(mine) : board.Replace(mine);
  CHECK(absl::IsAborted(board.file().Write(PageOf(2))));
  CHECK_FALSE(board.Take().has_value());  // perhaps it is still being written
  CHECK(board.Read() == mine);
  const std::optional<Edited> edited = board.Take();
  REQUIRE(edited.has_value());
  CHECK(edited->page.value() == mine);
  CHECK(edited->base == PageOf(1));
  CHECK(edited->kept == board.kept(1));
  CHECK(*base::ReadFile(board.kept(1)) == mine);
  CHECK(board.file().Write(PageOf(2)).ok());
  CHECK(board.Read() == PageOf(2));
  CHECK_FALSE(board.Take().has_value());
  board.file().Discard(*edited);
  CHECK(board.Files() == 1);
}

TEST_CASE("a page of long ago is known, and one of another process is not") {
  Board board;
  for (int i = 1; i <= 20; ++i) REQUIRE(board.file().Write(PageOf(i)).ok());
  board.Replace(Changed(PageOf(3)));
  board.Take();
  std::optional<Edited> edited = board.Take();
  REQUIRE(edited.has_value());
  CHECK(edited->base == PageOf(3));
  board.Replace(Changed(PageOf(3)));
  board.Restart();
  CHECK(absl::IsAborted(board.file().Write(PageOf(21))));
  board.Take();
  edited = board.Take();
  REQUIRE(edited.has_value());
  CHECK(edited->base == "");
  CHECK(edited->page.value() == Changed(PageOf(3)));
  // What was kept before stays.
  CHECK(edited->kept == board.kept(2));
  CHECK(board.file().Kept() == std::vector<std::string>{board.kept(1), board.kept(2)});
}

TEST_CASE("a half-written page is waited for") {
  Board board;
  REQUIRE(board.file().Write(PageOf(1)).ok());
  const std::string mine = Changed(PageOf(1));
  board.WriteInto(mine.substr(0, mine.size() / 2));
  for (int i = 0; i < 8; ++i) CHECK_FALSE(board.Take().has_value());
  CHECK(absl::IsAborted(board.file().Write(PageOf(2))));
  SECTION("and is whole then") {
    board.WriteInto(mine);
    board.Take();
    const std::optional<Edited> edited = board.Take();
    REQUIRE(edited.has_value());
    CHECK(edited->page.value() == mine);
  }
  SECTION("but not for ever") {
    std::optional<Edited> edited;
    for (int i = 0; i < 5 && !edited.has_value(); ++i) edited = board.Take();
    REQUIRE(edited.has_value());
    CHECK(edited->page.value() == mine.substr(0, mine.size() / 2));
    CHECK(board.file().Write(PageOf(2)).ok());
  }
}

TEST_CASE("a page that was touched, brought back or removed is no edit") {
  Board board;
  REQUIRE(board.file().Write(PageOf(1)).ok());
  SECTION("touched") { board.WriteInto(PageOf(1)); }
  SECTION("brought back") { board.Replace(PageOf(0)); }
  SECTION("removed") { std::filesystem::remove(board.path()); }
  SECTION("of a version that read no edits") {
    const std::string page = PageOf(0);
    board.Replace(absl::StrCat("# Warpsmith board\n\n---\n\n",
                               page.substr(page.find("Speedups are"),
                                           page.find("<!-- page") - page.find("Speedups are"))));
  }
  for (int i = 0; i < 15; ++i) CHECK_FALSE(board.Take().has_value());
  CHECK(board.file().Write(PageOf(2)).ok());
  CHECK(board.Read() == PageOf(2));
  CHECK(board.Files() == 1);
}

TEST_CASE("what a process did not come to look at is found by the next") {
  Board board;
  REQUIRE(board.file().Write(PageOf(1)).ok());
  // It had put its page in the place of one that was just saved.
  REQUIRE(base::WriteFileAtomically(board.path() + ".next", Changed(PageOf(0))).ok());
  board.Restart();
  const std::optional<Edited> edited = board.Take();
  REQUIRE(edited.has_value());
  CHECK(edited->page.value() == Changed(PageOf(0)));
  CHECK(board.Read() == PageOf(1));
}

TEST_CASE("something written into a page after it was taken keeps it") {
  Board board;
  REQUIRE(board.file().Write(PageOf(1)).ok());
  board.WriteInto(Changed(PageOf(1)));
  board.Take();
  const std::optional<Edited> edited = board.Take();
  REQUIRE(edited.has_value());
  std::ofstream(edited->kept, std::ios::app) << "and this";
  spdlog::set_level(spdlog::level::off);
  board.file().Discard(*edited);
  CHECK(absl::EndsWith(*base::ReadFile(edited->kept), "and this"));
}

TEST_CASE("a pipe in the board's place is not waited for") {
  Board board;
  REQUIRE(mkfifo(board.path().c_str(), 0600) == 0);
  for (int i = 0; i < 15; ++i) CHECK_FALSE(board.Take().has_value());
  CHECK(absl::IsFailedPrecondition(board.file().Write(PageOf(1))));
  REQUIRE(mkfifo((board.path() + ".next").c_str(), 0600) == 0);
  board.Restart();
  CHECK(board.file().Kept().size() == 1);
}

TEST_CASE("a page that is too large is moved aside unread") {
  Board board;
  REQUIRE(board.file().Write(PageOf(1)).ok());
  std::filesystem::resize_file(board.path(), kMaxPageBytes + 1);
  std::optional<Edited> edited;
  for (int i = 0; i < 9; ++i) {
    CHECK_FALSE(board.Take().has_value());
    CHECK(absl::IsAborted(board.file().Write(PageOf(2))));
  }
  for (int i = 0; i < 5 && !edited.has_value(); ++i) edited = board.Take();
  REQUIRE(edited.has_value());
  CHECK(absl::IsResourceExhausted(edited->page.status()));
  CHECK(std::filesystem::file_size(edited->kept) == kMaxPageBytes + 1);
  CHECK(board.file().Write(PageOf(2)).ok());
  CHECK(board.Read() == PageOf(2));
}

TEST_CASE("where nothing can be moved aside nothing is written over") {
  Board board;
  REQUIRE(board.file().Write(PageOf(1)).ok());
  for (int i = 1; i <= 1000; ++i) std::ofstream(board.kept(i)) << i;
  spdlog::set_level(spdlog::level::off);
  const std::string mine = Changed(PageOf(1));
  board.Replace(mine);
  for (int i = 0; i < 15; ++i) {
    CHECK_FALSE(board.Take().has_value());
    CHECK(absl::IsAborted(board.file().Write(PageOf(2))));
  }
  CHECK(board.Read() == mine);
  std::filesystem::rename(board.path(), board.path() + ".next");
  CHECK(absl::IsFailedPrecondition(board.file().Write(PageOf(2))));
  CHECK(*base::ReadFile(board.path() + ".next") == mine);
  std::filesystem::remove(board.kept(7));
  CHECK(board.file().Write(PageOf(2)).ok());
  CHECK(*base::ReadFile(board.kept(7)) == mine);
}

TEST_CASE("looks that come at once do not make a page quiet") {
  Board board;
  REQUIRE(board.file().Write(PageOf(1)).ok());
  board.WriteInto(Changed(PageOf(1)));
  const base::Instant now = base::Now();
  for (int i = 0; i < 10; ++i) CHECK_FALSE(board.file().Take(now).has_value());
  CHECK(board.file().Take(now + kQuiet).has_value());
}

TEST_CASE("without a path there is nothing") {
  BoardFile file("");
  file.Begin();
  CHECK_FALSE(file.Take(base::Now()).has_value());
  CHECK(file.Kept().empty());
}

TEST_CASE("a folder in the board's place is left alone") {
  Board board;
  std::filesystem::create_directory(board.path());
  CHECK(absl::IsFailedPrecondition(board.file().Write(PageOf(1))));
  CHECK_FALSE(board.Take().has_value());
  CHECK(std::filesystem::is_directory(board.path()));
}

}  // namespace warpsmith::board
