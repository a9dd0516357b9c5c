#include "worker/oracle/errors.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>

#include "common/base/check.h"

namespace warpsmith::oracle {

namespace {

// A type of 16 bits: sign, exponent, mantissa.
struct Half {
  int mantissa_bits;
  int least_exponent;  // of a normal number
  int greatest_exponent;
};
constexpr Half kF16 = {10, -14, 15};
constexpr Half kBF16 = {7, -126, 127};

bool IsHalf(graph::DType type) { return type == graph::DType::kF16 || type == graph::DType::kBF16; }

constexpr int kDoubleBits = 52, kDoubleBias = 1023;

// Of 1.xxx times two to that; of zero and what double has below its normal numbers, less than any
// type's of 16 bits. Here and below by bits, where the library's functions take ten times as long:
// every draw has a hundred thousand values.
int ExponentOf(double x) {
  return static_cast<int>(std::bit_cast<uint64_t>(x) >> kDoubleBits & 0x7ff) - kDoubleBias;
}

// Two to that, a normal number of double.
double PowerOfTwo(int exponent) {
  return std::bit_cast<double>(static_cast<uint64_t>(exponent + kDoubleBias) << kDoubleBits);
}

// The number of the value among those of the type, in their order: neighbours differ by one, an
// infinity is the largest's. Rounds to nearest, ties to even. Not of NaN.
int64_t RankOf(const Half& half, double value) {
  const int64_t per_exponent = int64_t{1} << half.mantissa_bits;
  const int exponents = half.greatest_exponent - half.least_exponent + 1;
  const int64_t infinity = (exponents + 1) * per_exponent;
  const double magnitude = std::abs(value);
  int64_t rank = 0;
  if (ExponentOf(magnitude) >= half.least_exponent) {
    // The bits of a double are its rank among doubles; those that the type does not have round it.
    const int dropped = kDoubleBits - half.mantissa_bits;
    const auto bits = std::bit_cast<int64_t>(magnitude);
    const int64_t kept = bits >> dropped, rest = bits & ((int64_t{1} << dropped) - 1);
    const int64_t middle = int64_t{1} << (dropped - 1);
    rank = kept + (rest > middle || (rest == middle && kept % 2 != 0)) -
           (half.least_exponent + kDoubleBias - 1) * per_exponent;
    rank = std::min(infinity, rank);
  } else {
    // Subnormal numbers have the least exponent's units of the last place, and no leading one.
    rank = static_cast<int64_t>(
        std::nearbyint(magnitude * PowerOfTwo(half.mantissa_bits - half.least_exponent)));
  }
  return value < 0 ? -rank : rank;
}

}  // namespace

void Errors::Add(const Errors& more) {
  const auto add = [](double& to, double value) {
    if (!std::isnan(to) && !(value <= to)) to = value;
  };
  add(max, more.max);
  add(rms, more.rms);
  add(plain, more.plain);
  add(disagree, more.disagree);
  add(beyond, more.beyond);
}

double ErrorFloor(graph::DType type) {
  switch (type) {
    case graph::DType::kF16:
      return std::ldexp(1.0, -kF16.mantissa_bits);
    case graph::DType::kBF16:
      return std::ldexp(1.0, -kBF16.mantissa_bits);
    default:
      return 5e-7;
  }
}

double RmsFloor(graph::DType type) { return ErrorFloor(type) / (IsHalf(type) ? 16 : 1); }

double LeastStep(graph::DType type) {
  switch (type) {
    case graph::DType::kF16:
      return std::ldexp(1.0, kF16.least_exponent - kF16.mantissa_bits);
    case graph::DType::kBF16:
      return std::ldexp(1.0, kBF16.least_exponent - kBF16.mantissa_bits);
    case graph::DType::kF32:
      return std::numeric_limits<float>::denorm_min();
    case graph::DType::kF64:
      return std::numeric_limits<double>::denorm_min();
    default:
      return 0;
  }
}

bool IsNearest(graph::DType type, double got, double exact) {
  constexpr double kSteps = 0.75;
  if (std::isnan(got) || std::isnan(exact)) return false;
  const Half& half = type == graph::DType::kF16 ? kF16 : kBF16;
  if (std::abs(RankOf(half, got) - RankOf(half, exact)) > 1) return false;
  const double magnitude = std::max(std::abs(got), std::abs(exact));
  if (RankOf(half, magnitude) >= RankOf(half, INFINITY)) return true;
  const int exponent = std::max(ExponentOf(magnitude), half.least_exponent);
  return std::abs(got - exact) <= kSteps * PowerOfTwo(exponent - half.mantissa_bits);
}

namespace {

bool IsWithinAStep(double difference, double exact) {
  constexpr int kMantissaBits = 23, kLeastExponent = -126;  // of fp32
  return difference <= PowerOfTwo(std::max(ExponentOf(exact), kLeastExponent) - kMantissaBits);
}

// The square of an error that counts; nullopt: there is none to be had.
std::optional<double> SquareOf(graph::DType type, double got, double exact) {
  if (!std::isfinite(got) || !std::isfinite(exact)) return std::nullopt;
  if (IsHalf(type) && IsNearest(type, got, exact)) return 0;
  return (got - exact) * (got - exact);
}

}  // namespace

double ExcessOf(graph::DType type, absl::Span<const double> got, absl::Span<const double> reference,
                absl::Span<const double> exact) {
  WS_CHECK(got.size() == exact.size() && reference.size() == exact.size(),
           "values, the reference's and exact values are not as many");
  double sum = 0, squares = 0;
  for (size_t i = 0; i < exact.size(); ++i) {
    const double difference = SquareOf(type, got[i], exact[i]).value_or(NAN) -
                              SquareOf(type, reference[i], exact[i]).value_or(NAN);
    if (std::isnan(difference)) continue;
    sum += difference;
    squares += difference * difference;
  }
  return squares > 0 ? sum / std::sqrt(squares) : 0;
}

int64_t LargerOf(graph::DType type, absl::Span<const double> got,
                 absl::Span<const double> reference, absl::Span<const double> exact) {
  WS_CHECK(got.size() == exact.size() && reference.size() == exact.size(),
           "values, the reference's and exact values are not as many");
  double largest = 0;
  for (size_t i = 0; i < exact.size(); ++i)
    largest = std::max(largest, SquareOf(type, reference[i], exact[i]).value_or(0));
  int64_t larger = 0;
  for (size_t i = 0; i < exact.size(); ++i)
    larger += SquareOf(type, got[i], exact[i]).value_or(0) > largest;
  return larger;
}

double RmsOf(absl::Span<const double> values) {
  double total = 0;
  int64_t count = 0;
  for (double value : values) {
    if (!std::isfinite(value)) continue;
    total += value * value;
    ++count;
  }
  return count > 0 ? std::sqrt(total / static_cast<double>(count)) : 0;
}

Errors ErrorsOf(graph::DType type, absl::Span<const double> got, absl::Span<const double> exact,
                double rms) {
  WS_CHECK(got.size() == exact.size(), "values and exact values are not as many");
  double largest = 0, plain = 0, beyond = 0, squares = 0, total = 0;
  int64_t count = 0, disagree = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    if (IsHalf(type) && IsNearest(type, got[i], exact[i])) {
      if (!std::isfinite(exact[i])) continue;
      if (std::isfinite(got[i])) plain = std::max(plain, std::abs(got[i] - exact[i]));
      total += exact[i] * exact[i];
      ++count;
      continue;
    }
    if (!std::isfinite(got[i]) || !std::isfinite(exact[i])) {
      bool same = got[i] == exact[i] || (std::isnan(got[i]) && std::isnan(exact[i]));
      disagree += !same;
      continue;
    }
    double difference = std::abs(got[i] - exact[i]);
    largest = std::max(largest, difference);
    if (type != graph::DType::kF32 || !IsWithinAStep(difference, exact[i]))
      beyond = std::max(beyond, difference);
    squares += difference * difference;
    total += exact[i] * exact[i];
    ++count;
  }
  if (disagree > 0) {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const double part = static_cast<double>(disagree) / static_cast<double>(got.size());
    return {nan, nan, nan, part, nan};
  }
  if (count == 0) return {};
  if (rms <= 0) rms = total > 0 ? std::sqrt(total / count) : 1.0;
  return {largest / rms, std::sqrt(squares / count) / rms, std::max(largest, plain) / rms, 0,
          beyond / rms};
}

}  // namespace warpsmith::oracle
