#include "common/graph/numeric.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/base/casts.h"
#include "common/base/check.h"

namespace warpsmith::graph {
namespace {

// To `mantissa` explicit bits, with the format's smallest normal exponent and largest value.
double RoundToBits(double value, int mantissa, int min_exponent, double largest) {
  if (!std::isfinite(value) || value == 0) return value;
  const int exponent = std::max(std::ilogb(value), min_exponent);
  const double unit = std::ldexp(1.0, exponent - mantissa);
  const double rounded = std::nearbyint(value / unit) * unit;  // both exact: unit is a power of two
  if (std::fabs(rounded) > largest) return std::copysign(INFINITY, value);
  return rounded == 0 ? std::copysign(0.0, value) : rounded;
}

uint64_t U(int64_t value) { return static_cast<uint64_t>(value); }

template <class T>
bool Compare(Op op, T a, T b) {
  switch (op) {
    case Op::kLt:
      return a < b;
    case Op::kLe:
      return a <= b;
    case Op::kEq:
      return a == b;
    case Op::kNe:
      return a != b;
    default:
      WS_CHECK(false, "not a comparison");
  }
}

// Of a type without infinities.
double OrNan(double x) { return std::isfinite(x) ? x : std::numeric_limits<double>::quiet_NaN(); }

// A sign, four bits of exponent and three behind the point; all ones is NaN.
double E4m3OfBits(double x) {
  if (!(x >= 0 && x < 256)) return std::numeric_limits<double>::quiet_NaN();
  const int bits = static_cast<int>(x), exponent = bits >> 3 & 15, fraction = bits & 7;
  if ((bits & 127) == 127) return std::numeric_limits<double>::quiet_NaN();
  const double size =
      exponent == 0 ? std::ldexp(fraction, -9) : std::ldexp(8 + fraction, exponent - 10);
  return bits < 128 ? size : -size;
}

}  // namespace

double RoundTo(DType type, double value) {
  switch (type) {
    case DType::kF64:
      return value;
    case DType::kF32:
      return static_cast<float>(value);
    case DType::kF16:
      return RoundToBits(value, 10, -14, 65504.0);
    case DType::kBF16:
      return RoundToBits(value, 7, -126, std::ldexp(255.0, 120));
    default:
      WS_CHECK(false, "rounds to floating-point types only");
  }
}

double FromHalf(DType type, uint16_t bits) {
  if (type == DType::kBF16) return absl::bit_cast<float>(uint32_t{bits} << 16);
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == 31) return mantissa != 0 ? NAN : sign * INFINITY;
  return exponent == 0 ? sign * std::ldexp(mantissa, -24)
                       : sign * std::ldexp(1024 + mantissa, exponent - 25);
}

uint16_t ToHalf(DType type, double value) {
  const auto nearest = static_cast<float>(RoundTo(type, value));
  const auto bits = absl::bit_cast<uint32_t>(nearest);
  if (type == DType::kBF16)
    return static_cast<uint16_t>(bits >> 16 | (std::isnan(nearest) ? 0x40 : 0));
  const uint32_t sign = bits >> 16 & 0x8000;
  const double magnitude = std::abs(nearest);
  if (std::isnan(nearest)) return 0x7e00;
  if (std::isinf(nearest)) return static_cast<uint16_t>(sign | 0x7c00);
  // Below 2^-14 in steps of the least; above, the exponent's bias and digits are fewer.
  if (magnitude < 0x1p-14)
    return static_cast<uint16_t>(sign | static_cast<uint32_t>(magnitude * 0x1p24));
  return static_cast<uint16_t>(sign | ((bits & 0x7fffffff) - 0x38000000) >> 13);
}

int64_t WrapTo(DType type, int64_t value) {
  switch (type) {
    case DType::kI64:
      return value;
    case DType::kI32:
      return static_cast<int32_t>(static_cast<uint32_t>(U(value)));
    case DType::kI8:
      return static_cast<int8_t>(static_cast<uint8_t>(U(value)));
    case DType::kU8:
      return static_cast<uint8_t>(U(value));
    case DType::kBool:
      return value != 0;
    default:
      WS_CHECK(false, "wraps to integer types only");
  }
}

int64_t FloorDiv(int64_t a, int64_t b) {
  if (b == -1) return static_cast<int64_t>(-U(a));  // the smallest number wraps
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

int64_t FloorMod(int64_t a, int64_t b) {
  if (b == -1) return 0;
  const int64_t r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

std::array<uint32_t, 4> Philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  constexpr uint64_t kFactors[] = {0xD2511F53, 0xCD9E8D57};
  constexpr uint32_t kSteps[] = {0x9E3779B9, 0xBB67AE85};
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = kFactors[0] * counter[0], b = kFactors[1] * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
    key = {key[0] + kSteps[0], key[1] + kSteps[1]};
  }
  return counter;
}

int64_t RandomBits(int64_t seed, int64_t place) {
  const uint64_t block = U(place) >> 2;
  const auto words =
      Philox({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), 0, 0},
             {static_cast<uint32_t>(U(seed)), static_cast<uint32_t>(U(seed) >> 32)});
  return words[place & 3] >> 8;
}

double ApplyFloat(Op op, double a, double b) {
  switch (op) {
    case Op::kAdd:
      return a + b;
    case Op::kSub:
      return a - b;
    case Op::kMul:
      return a * b;
    case Op::kDiv:
      return a / b;
    case Op::kMin:
      return std::isnan(a) || a < b ? a : b;
    case Op::kMax:
      return std::isnan(a) || a > b ? a : b;
    case Op::kPow:
      return std::pow(a, b);
    case Op::kAtan2:
      return std::atan2(a, b);
    default:
      WS_CHECK(false, "not a binary operator of floats");
  }
}

double ApplyFloat(Op op, double a) {
  switch (op) {
    case Op::kNeg:
      return -a;
    case Op::kAbs:
      return std::fabs(a);
    case Op::kSign:
      return (a > 0) - (a < 0);
    case Op::kSqrt:
      return std::sqrt(a);
    case Op::kRsqrt:
      return 1 / std::sqrt(a);
    case Op::kExp:
      return std::exp(a);
    case Op::kExp2:
      return std::exp2(a);
    case Op::kExpm1:
      return std::expm1(a);
    case Op::kLog:
      return std::log(a);
    case Op::kLog2:
      return std::log2(a);
    case Op::kLog1p:
      return std::log1p(a);
    case Op::kTanh:
      return std::tanh(a);
    case Op::kErf:
      return std::erf(a);
    case Op::kSin:
      return std::sin(a);
    case Op::kCos:
      return std::cos(a);
    case Op::kFloor:
      return std::floor(a);
    case Op::kCeil:
      return std::ceil(a);
    case Op::kRound:
      return std::nearbyint(a);
    case Op::kTrunc:
      return std::trunc(a);
    case Op::kE4m3:
      return OrNan(RoundToBits(a, 3, -6, 448));
    case Op::kE4m3OfBits:
      return E4m3OfBits(a);
    default:
      WS_CHECK(false, "not a unary operator of floats");
  }
}

int64_t ApplyInteger(Op op, DType type, int64_t a, int64_t b) {
  switch (op) {
    case Op::kAdd:
      return WrapTo(type, static_cast<int64_t>(U(a) + U(b)));
    case Op::kSub:
      return WrapTo(type, static_cast<int64_t>(U(a) - U(b)));
    case Op::kMul:
      return WrapTo(type, static_cast<int64_t>(U(a) * U(b)));
    case Op::kDiv:
      return WrapTo(type, FloorDiv(a, b));
    case Op::kMod:
      return FloorMod(a, b);
    case Op::kMin:
      return a < b ? a : b;
    case Op::kMax:
      return a > b ? a : b;
    case Op::kRandom:
      return RandomBits(a, b);
    default:
      WS_CHECK(false, "not a binary operator of integers");
  }
}

int64_t ApplyInteger(Op op, DType type, int64_t a) {
  switch (op) {
    case Op::kNeg:
      return WrapTo(type, static_cast<int64_t>(-U(a)));
    case Op::kAbs:
      return a < 0 ? WrapTo(type, static_cast<int64_t>(-U(a))) : a;
    case Op::kSign:
      return (a > 0) - (a < 0);
    default:
      WS_CHECK(false, "not a unary operator of integers");
  }
}

bool CompareFloat(Op op, double a, double b) { return Compare(op, a, b); }

bool CompareInteger(Op op, int64_t a, int64_t b) { return Compare(op, a, b); }

int64_t LowestOf(DType type) {
  switch (type) {
    case DType::kI8:
      return std::numeric_limits<int8_t>::min();
    case DType::kI32:
      return std::numeric_limits<int32_t>::min();
    case DType::kI64:
      return std::numeric_limits<int64_t>::min();
    default:
      return 0;
  }
}

int64_t HighestOf(DType type) {
  switch (type) {
    case DType::kI8:
      return std::numeric_limits<int8_t>::max();
    case DType::kU8:
      return std::numeric_limits<uint8_t>::max();
    case DType::kI32:
      return std::numeric_limits<int32_t>::max();
    case DType::kI64:
      return std::numeric_limits<int64_t>::max();
    default:
      return 1;
  }
}

int64_t FloatToInteger(DType from, DType to, double value) {
  if (to == DType::kBool) return value != 0;
  const int64_t low = LowestOf(to), high = HighestOf(to);
  if (std::isnan(value)) {
    const bool smallest = to == DType::kI64 || (to == DType::kI32 && from == DType::kF64);
    return smallest ? low : 0;
  }
  if (value <= static_cast<double>(low)) return low;
  if (value >= static_cast<double>(high)) return high;  // for i64: 2^63
  return static_cast<int64_t>(value);
}

}  // namespace warpsmith::graph
