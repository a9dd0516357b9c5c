#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>

#include "common/graph/numeric.h"
#include "worker/kernels/kernel_testing.h"

namespace warpsmith::kernels {
namespace {

// How many floats lie between two of one sign.
int64_t Ulps(float a, float b) {
  const auto bits = [](float x) {
    int32_t i;
    memcpy(&i, &x, 4);
    return static_cast<int64_t>(i);
  };
  return std::abs(bits(a) - bits(b));
}

}  // namespace

TEST_CASE("a product is rounded, whatever it is added to") {
  const float a = 1 + 0x1p-12f;  // its square has more bits than a float
  device::PlanBuilder builder(R"(#include <warpsmith/base.cuh>
extern "C" __global__ void __launch_bounds__(32) sums(const float* a, const double* b, float* s, double* t) {
  if (ws::thread() > 0) return;
  s[0] = ws::product(a[0], a[0]) - a[1];
  t[0] = ws::product(b[0], b[0]) - b[1];
}
)");
  builder.Buffer("a", 8).Buffer("b", 16).Buffer("s", 4).Buffer("t", 8);
  builder.Launch("sums", 1, 32, {device::Arg(0), device::Arg(1), device::Arg(2), device::Arg(3)});
  TestRun run(builder.Build());
  run.Write(0, std::vector<float>{a, 1});
  const double b = 1 + 0x1p-27;
  run.Write(1, std::vector<double>{b, 1});
  run.Run();
  CHECK(run.Read<float>(2)[0] == 0x1p-11f);
  CHECK(run.Read<double>(3)[0] == 0x1p-26);
}

TEST_CASE("many quotients of one divisor are as a division makes them") {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> a, b;
  std::mt19937 random(20261122);
  std::uniform_real_distribution<float> mantissa(1, 2);
  for (int i = 0; i < 400000; ++i) {
    const auto exponent = [&](int most) { return static_cast<int>(random() % (2 * most)) - most; };
    b.push_back(std::ldexp(mantissa(random), exponent(58)) * (random() % 2 == 0 ? 1.0f : -1.0f));
    // Quotients within 2^59 and among them whole ones, and their neighbours.
    const float q = i % 4 == 0 ? static_cast<float>(1 + random() % 128)
                               : std::ldexp(mantissa(random), exponent(59));
    a.push_back(std::nextafter(q * b.back(), i % 3 == 0 ? 0.0f : q * b.back()));
  }
  const size_t exact = a.size();
  for (float x : {0.0f, 1.0f, -3.0f, 1e-40f, 3e38f, kInf, -kInf, kNan}) {
    for (float y : {0.0f, 1.0f, -7.0f, 1e-36f, 2e38f, kInf, -kInf, kNan}) {
      a.push_back(x);
      b.push_back(y);
    }
  }
  const auto bytes = static_cast<int64_t>(a.size() * sizeof(float));
  device::PlanBuilder builder(R"(#include <warpsmith/base.cuh>
extern "C" __global__ void __launch_bounds__(32) quotients(const float* a, const float* b, float* q, int n) {
  for (int i = ws::thread(); i < n; i += 32) q[i] = ws::divide(a[i], ws::Divisor(b[i]));
}
)");
  builder.Buffer("a", bytes).Buffer("b", bytes).Buffer("q", bytes);
  builder.Launch("quotients", 1, 32,
                 {device::Arg(0), device::Arg(1), device::Arg(2),
                  device::Arg32(static_cast<int32_t>(a.size()))});
  TestRun run(builder.Build());
  run.Write(0, a);
  run.Write(1, b);
  run.Run();
  const std::vector<float> got = run.Read<float>(2);
  size_t wrong = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const float wanted = a[i] / b[i];
    bool same = std::isnan(wanted) ? std::isnan(got[i]) : got[i] == wanted;
    if (i >= exact && std::isfinite(wanted) && wanted != 0) same = Ulps(got[i], wanted) <= 2;
    wrong += !same;
    if (!same && wrong < 10)
      UNSCOPED_INFO(a[i] << " / " << b[i] << " = " << wanted << ", got " << got[i]);
  }
  CHECK(wrong == 0);
}

TEST_CASE("a quick error function is off by 2^-22 at most") {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  std::vector<float> x = {
      0.0f,       -0.0f, 1e-40f, 4.0f,  -4.0f,
      4.0000005f, 3e38f, kInf,   -kInf, std::numeric_limits<float>::quiet_NaN()};
  for (int i = -150000; i <= 150000; ++i) x.push_back(static_cast<float>(i) / 25000);
  const int n = static_cast<int>(x.size());
  device::PlanBuilder builder(R"(#include <warpsmith/base.cuh>
extern "C" __global__ void __launch_bounds__(128) erfs(const float* x, float* y, int n) {
  const int i = ws::block() * 128 + ws::thread();
  if (i < n) y[i] = ws::fast_erf(x[i]);
}
)");
  builder.Buffer("x", 4 * n).Buffer("y", 4 * n);
  builder.Launch("erfs", (n + 127) / 128, 128, {device::Arg(0), device::Arg(1), device::Arg32(n)});
  TestRun run(builder.Build());
  run.Write(0, x);
  run.Run();
  const std::vector<float> y = run.Read<float>(1);
  double worst = 0;
  for (int i = 0; i < n; ++i) {
    if (x[i] != x[i]) {
      CHECK(y[i] != y[i]);
      continue;
    }
    CHECK(std::signbit(y[i]) == std::signbit(x[i]));
    worst = std::max(worst, std::abs(y[i] - std::erf(static_cast<double>(x[i]))));
  }
  CHECK(worst < 0x1p-22);
}

TEST_CASE("a logarithm has more digits as two parts") {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  std::vector<float> x;
  std::mt19937 random(20261123);
  std::uniform_real_distribution<float> mantissa(1, 2);
  for (int exponent = -126; exponent < 128; ++exponent) {
    for (int i = 0; i < 500; ++i) x.push_back(std::ldexp(mantissa(random), exponent));
    x.push_back(std::ldexp(1.0f, exponent));
  }
  const size_t normal = x.size();
  for (float other : {0.0f, 1e-40f, -1.0f, kInf, -kInf, std::nanf("")}) x.push_back(other);
  const auto n = static_cast<int64_t>(x.size());
  device::PlanBuilder builder(R"(#include <warpsmith/base.cuh>
extern "C" __global__ void __launch_bounds__(32) logs(const float* x, float* whole, float* rest, int n) {
  if (ws::thread() > 0) return;
  for (int i = 0; i < n; ++i) {
    whole[i] = ws::log_whole(x[i]);
    rest[i] = ws::log_rest(x[i]);
  }
}
)");
  builder.Buffer("x", 4 * n).Buffer("whole", 4 * n).Buffer("rest", 4 * n);
  builder.Launch(
      "logs", 1, 32,
      {device::Arg(0), device::Arg(1), device::Arg(2), device::Arg32(static_cast<int>(n))});
  TestRun run(builder.Build());
  run.Write(0, x);
  run.Run();
  const auto whole = run.Read<float>(1), rest = run.Read<float>(2);
  for (size_t i = 0; i < normal; ++i) {
    const double want = std::log(static_cast<double>(x[i]));
    INFO(x[i]);
    REQUIRE(std::abs(static_cast<double>(whole[i]) + rest[i] - want) <= 0x1.2p-25);
    REQUIRE(std::abs(rest[i]) < 0.38f);
    REQUIRE(std::fmod(whole[i], 0x1p-9f) == 0);
  }
  for (size_t i = normal; i < x.size(); ++i) {
    INFO(x[i]);
    const float want = std::log(x[i]);
    CHECK(whole[i] == 0);
    CHECK((rest[i] == want || (std::isnan(rest[i]) && std::isnan(want))));
  }
}

TEST_CASE("rounded to a byte: to the nearest, even at halves, and to the ends of the range") {
  const std::vector<float> x = {-1000,
                                -128.6f,
                                -128.5f,
                                -1.5f,
                                -0.5f,
                                0.49f,
                                0.5f,
                                1.5f,
                                2.5f,
                                126.5f,
                                127.4f,
                                127.5f,
                                255.4f,
                                300,
                                std::numeric_limits<float>::quiet_NaN(),
                                std::numeric_limits<float>::infinity()};
  const std::vector<int> small = {-128, -128, -128, -2,  0,   0,   0, 2,
                                  2,    126,  127,  127, 127, 127, 0, 127};
  const std::vector<int> whole = {0, 0, 0, 0, 0, 0, 0, 2, 2, 126, 127, 128, 255, 255, 0, 255};
  const auto n = static_cast<int64_t>(x.size());
  device::PlanBuilder builder(R"(#include <warpsmith/base.cuh>
extern "C" __global__ void __launch_bounds__(32) bytes(const float* x, int* s, int* u) {
  const int i = ws::thread();
  if (i >= 16) return;
  s[i] = ws::saturate_round<signed char>(x[i]);
  u[i] = ws::saturate_round<unsigned char>(x[i]);
}
)");
  builder.Buffer("x", n * 4).Buffer("s", n * 4).Buffer("u", n * 4);
  builder.Launch("bytes", 1, 32, {device::Arg(0), device::Arg(1), device::Arg(2)});
  TestRun run(builder.Build());
  run.Write(0, x);
  run.Run();
  CHECK(run.Read<int>(1) == small);
  CHECK(run.Read<int>(2) == whole);
}

TEST_CASE("rounded to eight bits: the nearest of all numbers that there are") {
  std::vector<double> numbers;  // of float8_e4m3fn, from 0 on, and what would come next
  for (int i = 0; i < 8; ++i) numbers.push_back(std::ldexp(i, -9));
  for (int exponent = -6; exponent <= 8; ++exponent) {
    for (int i = 8; i < 16; ++i) numbers.push_back(std::ldexp(i, exponent - 3));
  }
  REQUIRE(numbers.back() == 480);
  std::vector<float> x, nearest;
  const auto add = [&](float at, double to) {
    for (float sign : {1.0f, -1.0f}) {
      x.push_back(sign * at);
      nearest.push_back(to < 480 ? sign * static_cast<float>(to) : NAN);
    }
  };
  for (size_t i = 0; i + 1 < numbers.size(); ++i) {
    const float low = static_cast<float>(numbers[i]);
    const auto half = static_cast<float>((numbers[i] + numbers[i + 1]) / 2);
    add(low, numbers[i]);
    add(std::nextafter(half, 0.0f), numbers[i]);
    add(half, numbers[i + i % 2]);  // to even
    add(std::nextafter(half, 1000.0f), numbers[i + 1]);
  }
  for (float beyond : {480.0f, 1e30f, std::numeric_limits<float>::infinity(),
                       std::numeric_limits<float>::quiet_NaN()})
    add(beyond, 480);
  const auto n = static_cast<int64_t>(x.size());
  device::PlanBuilder builder(R"(#include <warpsmith/base.cuh>
extern "C" __global__ void __launch_bounds__(32) eighths(const float* x, float* y, float* z, float* again, int n) {
  for (int i = ws::thread(); i < n; i += 32) {
    y[i] = ws::e4m3(x[i]);
    again[i] = ws::to_float(ws::from_float<ws::f8>(y[i]));
    z[i] = static_cast<float>(ws::e4m3(static_cast<double>(x[i])));
  }
}
)");
  builder.Buffer("x", n * 4).Buffer("y", n * 4).Buffer("z", n * 4).Buffer("again", n * 4);
  builder.Launch("eighths", 1, 32,
                 {device::Arg(0), device::Arg(1), device::Arg(2), device::Arg(3),
                  device::Arg32(static_cast<int>(n))});
  TestRun run(builder.Build());
  run.Write(0, x);
  run.Run();
  const auto y = run.Read<float>(1), z = run.Read<float>(2), again = run.Read<float>(3);
  for (size_t i = 0; i < x.size(); ++i) {
    INFO(x[i] << " gives " << y[i] << " and " << z[i] << ", not " << nearest[i]);
    const auto same = [&](float got) {
      return std::isnan(nearest[i]) ? std::isnan(got)
                                    : got == nearest[i] && std::signbit(got) == std::signbit(x[i]);
    };
    CHECK((same(y[i]) && same(z[i]) && same(again[i])));
    CHECK(same(static_cast<float>(graph::ApplyFloat(graph::Op::kE4m3, x[i]))));
  }
}

}  // namespace warpsmith::kernels
