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
