#include "worker/daemon/log_file.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>

#include "tests/support/temporary_folder.h"
#include "worker/daemon/memory_file.h"

namespace warpsmith::daemon {
namespace {

// A place with one file in it, opened again and again.
struct Disk {
  support::TemporaryFolder folder;
  absl::StatusOr<std::unique_ptr<LogFile>> Open() { return OpenLogFile(folder / "log"); }
};

TEMPLATE_TEST_CASE("a log file holds what was appended, over who has it open", "", Disk,
                   MemoryFile) {
  TestType disk;
  {
    auto file = *disk.Open();
    CHECK(*file->Read() == "");
    CHECK(file->Append("one ").ok());
    CHECK(file->Append(std::string("t\0o", 3)).ok());
    CHECK(file->Sync().ok());
    CHECK(*file->Read() == std::string("one t\0o", 7));
  }
  auto file = *disk.Open();
  CHECK(*file->Read() == std::string("one t\0o", 7));
  CHECK(file->Truncate(4).ok());
  CHECK(file->Append("three").ok());
  CHECK(*file->Read() == "one three");
  CHECK(file->Replace("new").ok());
  CHECK(*file->Read() == "new");
  CHECK(file->Append(" and more").ok());
  CHECK(file->Sync().ok());
  CHECK(*file->Read() == "new and more");
  file.reset();
  CHECK(*(*disk.Open())->Read() == "new and more");
}

TEMPLATE_TEST_CASE("one at a time has a log file open, also after it was replaced", "", Disk,
                   MemoryFile) {
  TestType disk;
  auto file = disk.Open();
  REQUIRE(file.ok());
  CHECK(absl::IsFailedPrecondition(disk.Open().status()));
  REQUIRE((*file)->Replace("new").ok());
  CHECK(absl::IsFailedPrecondition(disk.Open().status()));
  file->reset();
  CHECK(disk.Open().ok());
}

TEST_CASE("a log file that cannot be made or replaced says why and where") {
  support::TemporaryFolder folder;
  const std::string path = folder / "gone/log";
  auto none = OpenLogFile(path);
  CHECK(std::string(none.status().message()).find(path) != std::string::npos);

  auto file = *OpenLogFile(folder / "log");
  REQUIRE(file->Append("old").ok());
  std::filesystem::create_directory(folder / "log.new");
  const absl::Status replaced = file->Replace("new");
  CHECK(std::string(replaced.message()).find("log.new") != std::string::npos);
  CHECK(*file->Read() == "old");
}

TEST_CASE("a file in memory fails as it is told to") {
  MemoryFile disk;
  auto file = *disk.Open();
  REQUIRE(file->Append("0123").ok());
  SECTION("an append by the plan") {
    const auto [fault, holds] = GENERATE(table<FileFault, std::string>({
        {FileFault::kFails, "0123"},
        {FileFault::kPart, "012345"},
        {FileFault::kDoneButFails, "01234567"},
    }));
    disk.set_plan([fault = fault](absl::string_view call) {
      return call == "Append" ? fault : FileFault::kNone;
    });
    CHECK_FALSE(file->Append("4567").ok());
    CHECK(disk.bytes() == holds);
  }
  SECTION("a full disk") {
    disk.set_capacity(6);
    CHECK_FALSE(file->Append("4567").ok());
    CHECK(disk.bytes() == "012345");
    CHECK_FALSE(file->Replace("x").ok());
    CHECK(disk.bytes() == "012345");
    CHECK(file->Truncate(1).ok());
    CHECK(file->Replace("12345").ok());
    CHECK(disk.bytes() == "12345");
  }
}

TEST_CASE("a file in memory loses with the power what was not synced, the newest first") {
  MemoryFile disk;
  auto file = *disk.Open();
  REQUIRE(file->Append("a").ok());
  REQUIRE(file->Sync().ok());
  REQUIRE(file->Append("bb").ok());
  REQUIRE(file->Append("cccc").ok());
  SECTION("in order, and torn") {
    const auto [kept, more, holds] = GENERATE(table<int, size_t, std::string>({
        {0, 0, "a"},
        {0, 1, "ab"},
        {1, 0, "abb"},
        {1, 3, "abbccc"},
        {2, 9, "abbcccc"},
    }));
    file.reset();
    disk.LosePower(kept, more);
    CHECK(disk.bytes() == holds);
  }
  SECTION("a replaced content comes whole or not at all") {
    REQUIRE(file->Replace("dd").ok());
    file.reset();
    disk.LosePower(2, 1);
    CHECK(disk.bytes() == "abbcccc");
  }
  SECTION("after a sync that failed none keeps anything, until it is replaced") {
    bool fails = true;
    disk.set_plan([&](absl::string_view call) {
      return call == "Sync" && fails ? FileFault::kFails : FileFault::kNone;
    });
    CHECK_FALSE(file->Sync().ok());
    fails = false;
    CHECK(file->Sync().ok());
    CHECK(disk.unsynced() == 2);
    REQUIRE(file->Replace("dd").ok());
    CHECK(file->Sync().ok());
    CHECK(disk.unsynced() == 0);
  }
}

}  // namespace
}  // namespace warpsmith::daemon
