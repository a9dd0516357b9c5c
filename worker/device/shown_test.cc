#include "worker/device/shown.h"

#include <catch2/catch.hpp>

namespace warpsmith::device {
namespace {

const std::vector<VisibleCard> kTwo = {{"cuda:0", "8c4c1a2b"}, {"cuda:1", "5767568c"}};
using Environment = std::vector<std::pair<std::string, std::string>>;

TEST_CASE("a child sees its card alone, by the card's own name") {
  const ShownCard second = ShowAlone("cuda:1", kTwo);
  CHECK(second.name == "cuda:0");
  CHECK(second.environment == Environment{{"CUDA_VISIBLE_DEVICES", "GPU-5767568c"}});
  CHECK(ShowAlone("cuda:0", kTwo).environment ==
        Environment{{"CUDA_VISIBLE_DEVICES", "GPU-8c4c1a2b"}});
}

TEST_CASE("where there is nothing to hide nothing is said") {
  // A slice is the only one that CUDA shows, and has a name of another kind.
  const ShownCard only = ShowAlone("cuda:0", {{"cuda:0", "MIG-1"}});
  CHECK(only.name == "cuda:0");
  CHECK(only.environment.empty());
  for (const char* name : {"cpu", "host", "cuda:7"}) {
    CHECK(ShowAlone(name, kTwo).name == name);
    CHECK(ShowAlone(name, kTwo).environment.empty());
  }
}

}  // namespace
}  // namespace warpsmith::device
