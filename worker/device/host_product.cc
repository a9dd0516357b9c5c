#include "worker/device/host_product.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>

#include "absl/base/casts.h"

namespace warpsmith::device {
namespace {

float FromBf16(uint16_t bits) { return absl::bit_cast<float>(uint32_t{bits} << 16); }

uint16_t ToBf16(float value) {
  const auto bits = absl::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float FromF16(uint16_t bits) {
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  const double size = exponent == 0    ? std::ldexp(mantissa, -24)
                      : exponent == 31 ? (mantissa != 0 ? NAN : INFINITY)
                                       : std::ldexp(1024 + mantissa, exponent - 25);
  return static_cast<float>((bits & 0x8000) != 0 ? -size : size);
}

uint16_t ToF16(float value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return sign | 0x7e00;
  const double size = std::abs(static_cast<double>(value));
  // Steps of the result's last place, to the nearest, ties to even: subnormal below 2^-14.
  const int exponent = size < std::ldexp(1, -14) ? -14 : std::ilogb(size);
  if (exponent > 15) return sign | 0x7c00;
  const auto steps = static_cast<int>(std::nearbyint(std::ldexp(size, 10 - exponent)));
  // What is rounded up to the next power of two carries into the exponent.
  return static_cast<uint16_t>(sign + ((exponent + 14) << 10) + steps);
}

// The elements of a batch's matrices.
class Elements {
 public:
  Elements(const v1::Matrix& matrix, const char* buffer)
      : matrix_(matrix), from_(buffer + matrix.offset()), brain_(matrix.dtype() == "bf16") {}
  int64_t At(int64_t batch, int64_t row, int64_t column) const {
    return batch * matrix_.batch() +
           (matrix_.along_rows() ? column * matrix_.line() + row : row * matrix_.line() + column);
  }
  float Get(int64_t at) const {
    uint16_t bits = 0;
    std::memcpy(&bits, from_ + 2 * at, 2);
    return brain_ ? FromBf16(bits) : FromF16(bits);
  }

 private:
  const v1::Matrix& matrix_;
  const char* const from_;
  const bool brain_;
};

}  // namespace

void RunHostProduct(const v1::LibraryProduct& product, const char* a, const char* b, char* d) {
  const Elements of_a(product.a(), a), of_b(product.b(), b), of_d(product.d(), d);
  char* const to = d + product.d().offset();
  const std::string& type = product.d().dtype();
  for (int64_t batch = 0; batch < product.batches(); ++batch) {
    for (int64_t m = 0; m < product.m(); ++m) {
      for (int64_t n = 0; n < product.n(); ++n) {
        double sum = 0;
        for (int64_t k = 0; k < product.k(); ++k)
          sum +=
              static_cast<double>(of_a.Get(of_a.At(batch, m, k))) * of_b.Get(of_b.At(batch, n, k));
        const auto rounded = static_cast<float>(sum);
        const int64_t at = of_d.At(batch, m, n);
        if (type == "f32") {
          std::memcpy(to + 4 * at, &rounded, 4);
          continue;
        }
        const uint16_t bits = type == "bf16" ? ToBf16(rounded) : ToF16(rounded);
        std::memcpy(to + 2 * at, &bits, 2);
      }
    }
  }
}

}  // namespace warpsmith::device
