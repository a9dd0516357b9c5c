#include "worker/device/host_product.h"

#include <cstdint>
#include <cstring>

#include "common/graph/numeric.h"

namespace warpsmith::device {
namespace {

graph::DType TypeOf(const std::string& dtype) {
  return dtype == "f32"    ? graph::DType::kF32
         : dtype == "bf16" ? graph::DType::kBF16
                           : graph::DType::kF16;
}

// Elements of a type, by their number.
float Get(graph::DType type, const char* from, int64_t at) {
  if (type == graph::DType::kF32) {
    float value = 0;
    std::memcpy(&value, from + 4 * at, 4);
    return value;
  }
  uint16_t bits = 0;
  std::memcpy(&bits, from + 2 * at, 2);
  return static_cast<float>(graph::FromHalf(type, bits));
}

void Put(graph::DType type, char* to, int64_t at, float value) {
  if (type == graph::DType::kF32) {
    std::memcpy(to + 4 * at, &value, 4);
    return;
  }
  const uint16_t bits = graph::ToHalf(type, value);
  std::memcpy(to + 2 * at, &bits, 2);
}

// The elements of a batch's matrices.
class Elements {
 public:
  Elements(const v1::Matrix& matrix, const char* buffer)
      : matrix_(matrix), from_(buffer + matrix.offset()), type_(TypeOf(matrix.dtype())) {}
  int64_t At(int64_t batch, int64_t row, int64_t column) const {
    return batch * matrix_.batch() +
           (matrix_.along_rows() ? column * matrix_.line() + row : row * matrix_.line() + column);
  }
  float Of(int64_t at) const { return Get(type_, from_, at); }

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
  const graph::DType type = TypeOf(product.d().dtype());
  const auto added = [&](int64_t n) {
    return product.has_bias() ? Get(type, bias + product.bias().offset(), n) : 0.0F;
  };
  for (int64_t batch = 0; batch < product.batches(); ++batch) {
    for (int64_t m = 0; m < product.m(); ++m) {
      for (int64_t n = 0; n < product.n(); ++n) {
        double sum = added(n);
        for (int64_t k = 0; k < product.k(); ++k)
          sum += static_cast<double>(of_a.Of(of_a.At(batch, m, k))) * of_b.Of(of_b.At(batch, n, k));
        Put(type, to, of_d.At(batch, m, n), static_cast<float>(sum));
      }
    }
  }
}

}  // namespace warpsmith::device
