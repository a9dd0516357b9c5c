#include "worker/daemon/lineage.h"

#include <catch2/catch.hpp>
#include <set>

#include "worker/daemon/memory_file.h"

namespace warpsmith::daemon {
namespace {

using Names = std::vector<std::string>;

std::unique_ptr<Lineage> Start(MemoryFile& disk, const std::string& instance) {
  return *Lineage::Open(*disk.Open(), instance);
}

TEST_CASE("a start follows the last that was answered, and those since that may have been") {
  MemoryFile disk;
  {
    const auto first = Start(disk, "a");
    CHECK(first->instance() == "a");
    CHECK(first->follows().empty());
    first->Answered();
  }
  CHECK(Start(disk, "b")->follows() == Names{"a"});
  CHECK(Start(disk, "c")->follows() == Names{"a", "b"});
  {
    const auto answered = Start(disk, "d");
    CHECK(answered->follows() == Names{"a", "b", "c"});
    answered->Answered();
    CHECK(answered->follows() == Names{"a", "b", "c"});
  }
  disk.LosePower(0);
  CHECK(Start(disk, "e")->follows() == Names{"d"});
}

TEST_CASE("of many starts that nobody answered the last answered and the newest are kept") {
  MemoryFile disk;
  Start(disk, "answered")->Answered();
  for (int i = 0; i < 100; ++i) Start(disk, "i" + std::to_string(i));
  const Names follows = Start(disk, "last")->follows();
  CHECK(follows.size() == kMaxFollowed);
  CHECK(follows.front() == "answered");
  CHECK(follows.back() == "i99");
}

TEST_CASE("a file that cannot be written, or is damaged, does not keep a worker from starting") {
  MemoryFile disk;
  Start(disk, "a")->Answered();
  disk.set_capacity(0);
  {
    const auto full = Start(disk, "b");
    CHECK(full->follows() == Names{"a"});
    full->Answered();
  }
  CHECK(Start(disk, "c")->follows() == Names{"a"});
  disk.set_bytes("a\nb|\n" + std::string(65, 'x') + "\n\xff\nd");
  CHECK(Start(disk, "e")->follows() == Names{"a", "d"});
}

TEST_CASE("no two starts draw the same instance") {
  std::set<std::string> drawn;
  for (int i = 0; i < 1000; ++i) drawn.insert(DrawInstance());
  CHECK(drawn.size() == 1000);
  CHECK(drawn.begin()->size() == 32);
}

}  // namespace
}  // namespace warpsmith::daemon
