#include "common/graph/numeric.h"

#include <catch2/catch.hpp>
#include <cmath>

namespace warpsmith::graph {

TEST_CASE("numbers of 16 bits come back as they were") {
  for (const DType type : {DType::kF16, DType::kBF16}) {
    int wrong = 0;
    for (uint32_t bits = 0; bits < 1 << 16; ++bits) {
      const double value = FromHalf(type, static_cast<uint16_t>(bits));
      const uint16_t back = ToHalf(type, value);
      wrong += std::isnan(value) ? !std::isnan(FromHalf(type, back)) : back != bits;
    }
    CHECK(wrong == 0);
  }
  CHECK(FromHalf(DType::kF16, 0x3c01) == 1 + 0x1p-10);
  CHECK(FromHalf(DType::kF16, 0x8001) == -0x1p-24);
  CHECK(FromHalf(DType::kBF16, 0x3f81) == 1 + 0x1p-7);
}

// The known answers of Random123, the authors' own code.
TEST_CASE("Philox gives its authors' numbers") {
  using Words = std::array<uint32_t, 4>;
  CHECK(Philox({0, 0, 0, 0}, {0, 0}) == Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  const uint32_t ones = 0xffffffff;
  CHECK(Philox({ones, ones, ones, ones}, {ones, ones}) ==
        Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(Philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
  for (int64_t place : {0, 1, 2, 3}) {
    const Words words = Philox({0, 0, 0, 0}, {0, 0});
    CHECK(RandomBits(0, place) == words[place] >> 8);
  }
  const Words far = Philox({0x80000000, 0x3fffffff, 0, 0}, {0xfffffffe, ones});
  CHECK(RandomBits(-2, (int64_t{0x3fffffff} << 34) + (int64_t{0x80000000} << 2) + 1) ==
        far[1] >> 8);
}

TEST_CASE("between two numbers of 16 bits the nearest is taken, in the middle the even one") {
  int wrong = 0;
  for (const DType type : {DType::kF16, DType::kBF16}) {
    const uint32_t infinity = type == DType::kF16 ? 0x7c00 : 0x7f80;
    for (uint32_t low = 0; low + 1 < infinity; ++low) {
      const double a = FromHalf(type, static_cast<uint16_t>(low)),
                   b = FromHalf(type, static_cast<uint16_t>(low + 1)), middle = (a + b) / 2;
      const uint32_t even = low % 2 == 0 ? low : low + 1;
      wrong += ToHalf(type, middle) != even;
      wrong += ToHalf(type, -middle) != (even | 0x8000);
      wrong += ToHalf(type, std::nextafter(middle, a)) != low;
      wrong += ToHalf(type, std::nextafter(middle, b)) != low + 1;
    }
  }
  CHECK(wrong == 0);
  // Beyond the last: half a step further is infinite.
  CHECK(ToHalf(DType::kF16, 65519.99) == 0x7bff);
  CHECK(ToHalf(DType::kF16, 65520) == 0x7c00);
  CHECK(ToHalf(DType::kF16, 1e30) == 0x7c00);
  CHECK(ToHalf(DType::kBF16, 3.4e38) == 0x7f80);
}

}  // namespace warpsmith::graph
