#include "worker/device/host_product.h"

#include <cstdint>
#include <cstring>

#include "common/graph/numeric.h"

namespace warpsmith::device {
namespace {

graph::DType HalfOf(const std::string& dtype) {
  return dtype == "bf16" ? graph::DType::kBF16 : graph::DType::kF16;
}

float GetHalf(graph::DType type, const char* from) {
  uint16_t bits = 0;
  std::memcpy(&bits, from, 2);
  return static_cast<float>(graph::FromHalf(type, bits));
}

// The elements of a batch's matrices.
class Elements {
 public:
  Elements(const v1::Matrix& matrix, const char* buffer)
      : matrix_(matrix), from_(buffer + matrix.offset()), type_(HalfOf(matrix.dtype())) {}
  int64_t At(int64_t batch, int64_t row, int64_t column) const {
    return batch * matrix_.batch() +
           (matrix_.along_rows() ? column * matrix_.line() + row : row * matrix_.line() + column);
  }
  float Get(int64_t at) const { return GetHalf(type_, from_ + 2 * at); }

 private:
  const v1::Matrix& matrix_;
  const char* const from_;
  const graph::DType type_;
};

}  // namespace

void RunHostProduct(const v1::LibraryProduct& product, const char* a, const char* b,
                    const char* bias, char* d) {
  const Elements of_a(product.a(), a), of_b(product.b(), b), of_d(product.d(), d);
  char* const to = d + product.d().offset();
  const bool wide = product.d().dtype() == "f32";
  const graph::DType type = HalfOf(product.d().dtype());
  const auto added = [&](int64_t n) {
    if (!product.has_bias()) return 0.0F;
    const char* const from = bias + product.bias().offset();
    if (!wide) return GetHalf(type, from + 2 * n);
    float value = 0;
    std::memcpy(&value, from + 4 * n, 4);
    return value;
  };
  for (int64_t batch = 0; batch < product.batches(); ++batch) {
    for (int64_t m = 0; m < product.m(); ++m) {
      for (int64_t n = 0; n < product.n(); ++n) {
        double sum = added(n);
        for (int64_t k = 0; k < product.k(); ++k)
          sum +=
              static_cast<double>(of_a.Get(of_a.At(batch, m, k))) * of_b.Get(of_b.At(batch, n, k));
        const auto rounded = static_cast<float>(sum);
        const int64_t at = of_d.At(batch, m, n);
        if (wide) {
          std::memcpy(to + 4 * at, &rounded, 4);
          continue;
        }
        const uint16_t bits = graph::ToHalf(type, rounded);
        std::memcpy(to + 2 * at, &bits, 2);
      }
    }
  }
}

}  // namespace warpsmith::device
