#include "common/problem/compressed.h"

#include <catch2/catch.hpp>
#include <random>
#include <string>

namespace warpsmith::problem {

TEST_CASE("what is compressed comes back, and damage is found") {
  std::mt19937 random(1);
  for (const size_t size : {0u, 1u, 100u, 300'000u}) {
    std::string bytes(size, '\0');
    for (char& c : bytes) c = static_cast<char>(random() % 7);
    const std::string compressed = Compressed(bytes);
    if (size > 1000) CHECK(compressed.size() < size / 2);
    CHECK(*Uncompressed(compressed, "it") == bytes);
    for (int i = 0; i < 50; ++i) {
      std::string damaged = compressed;
      damaged[random() % damaged.size()] ^= static_cast<char>(1 << (random() % 8));
      const auto read = Uncompressed(damaged, "a cubin");
      // The head has bits that mean nothing.
      if (read.ok()) CHECK(*read == bytes);
      if (!read.ok()) CHECK_THAT(std::string(read.status().message()), Catch::Contains("a cubin"));
    }
    CHECK(absl::IsDataLoss(
        Uncompressed(absl::string_view(compressed).substr(0, compressed.size() - 1), "it")
            .status()));
  }
  CHECK(absl::IsDataLoss(Uncompressed("no frame at all", "it").status()));
}

}  // namespace warpsmith::problem
