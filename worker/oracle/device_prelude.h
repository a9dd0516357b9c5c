// The device functions that every source of the native device oracle begins with.
//
// Plain CUDA C++ without an include; it shares nothing with worker/kernels, so that a mistake there
// cannot hide itself here.
#pragma once

namespace warpsmith::oracle {

inline constexpr char kDevicePrelude[] = R"cuda(
#define ORACLE static __device__ __forceinline__
typedef long long i64;
typedef unsigned long long u64;

// ---- numbers ----
ORACLE double infinity() { return __longlong_as_double(0x7ff0000000000000ll); }
ORACLE double not_a_number() { return __longlong_as_double(0x7ff8000000000000ll); }
ORACLE bool is_nan(double x) { return x != x; }
ORACLE bool is_nan(float x) { return x != x; }
ORACLE bool is_nan(int) { return false; }
ORACLE bool is_nan(i64) { return false; }
ORACLE bool is_nan(bool) { return false; }

// bfloat16 and half as their bits.
ORACLE float from_bf16(unsigned short h) { return __uint_as_float((unsigned)h << 16); }
ORACLE unsigned short to_bf16(float x) {
  unsigned u = __float_as_uint(x);
  if (x != x) return 0x7fc0;
  return (unsigned short)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}
ORACLE float from_f16(unsigned short h) {
  unsigned sign = (unsigned)(h & 0x8000u) << 16, exponent = (h >> 10) & 31u, fraction = h & 1023u;
  if (exponent == 31) return __uint_as_float(sign | 0x7f800000u | (fraction << 13));
  if (exponent != 0) return __uint_as_float(sign | ((exponent + 112u) << 23) | (fraction << 13));
  float x = (float)fraction * 5.9604644775390625e-08f;   // 2^-24
  return sign ? -x : x;
}
ORACLE unsigned short to_f16(float x) {
  unsigned u = __float_as_uint(x), sign = (u >> 16) & 0x8000u, magnitude = u & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return (unsigned short)(sign | 0x7e00u);
  if (magnitude >= 0x477ff000u) return (unsigned short)(sign | 0x7c00u);   // rounds past 65504
  if (magnitude < 0x38800000u) {                                          // subnormal: units of 2^-24
    float scaled = __uint_as_float(magnitude) * 16777216.0f;
    return (unsigned short)(sign | (unsigned)rint(scaled));
  }
  unsigned rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return (unsigned short)(sign | ((rounded - 0x38000000u) >> 13));
}
// Two steps with the first rounded to odd, so that the second rounds as one step would.
ORACLE float to_float_odd(double x) {
  float f = (float)x;
  if ((double)f == x || x != x || fabs(x) > 3.4e38) return f;
  unsigned u = __float_as_uint(f);
  if (u & 1u) return f;
  bool away = fabs((double)f) > fabs(x);
  return __uint_as_float(away ? u - 1 : u + 1);
}
ORACLE unsigned short to_bf16(double x) { return to_bf16(to_float_odd(x)); }
ORACLE unsigned short to_f16(double x) { return to_f16(to_float_odd(x)); }

// ---- arithmetic ----
ORACLE int wrap_add(int a, int b) { return (int)((unsigned)a + (unsigned)b); }
ORACLE int wrap_sub(int a, int b) { return (int)((unsigned)a - (unsigned)b); }
ORACLE int wrap_mul(int a, int b) { return (int)((unsigned)a * (unsigned)b); }
ORACLE i64 wrap_add(i64 a, i64 b) { return (i64)((u64)a + (u64)b); }
ORACLE i64 wrap_sub(i64 a, i64 b) { return (i64)((u64)a - (u64)b); }
ORACLE i64 wrap_mul(i64 a, i64 b) { return (i64)((u64)a * (u64)b); }
// Casts to integers: truncated, clamped; `nan` is what NaN gives.
ORACLE int to_i32(double x, int nan) {
  if (x != x) return nan;
  if (x >= 2147483647.0) return 2147483647;
  if (x <= -2147483648.0) return -2147483647 - 1;
  return (int)x;
}
ORACLE i64 to_i64(double x) {
  if (x >= 9223372036854775808.0) return 9223372036854775807ll;
  if (!(x > -9223372036854775808.0)) return -9223372036854775807ll - 1;   // NaN too
  return (i64)x;
}
template <class T> ORACLE T floor_div(T a, T b) {
  if (b == -1) return wrap_sub((T)0, a);   // the smallest wraps
  T q = a / b;
  return (a % b != 0 && ((a < 0) != (b < 0))) ? q - 1 : q;
}
// Philox4x32-10, of which a place is a quarter: the upper 24 bits of its word.
ORACLE i64 random_bits(i64 seed, i64 place) {
  unsigned x[4] = {(unsigned)((u64)place >> 2), (unsigned)((u64)place >> 34), 0, 0};
  unsigned key[2] = {(unsigned)seed, (unsigned)((u64)seed >> 32)};
  for (int round = 0; round < 10; round++) {
    unsigned y[4] = {__umulhi(0xCD9E8D57u, x[2]) ^ x[1] ^ key[0], 0xCD9E8D57u * x[2],
                     __umulhi(0xD2511F53u, x[0]) ^ x[3] ^ key[1], 0xD2511F53u * x[0]};
    for (int i = 0; i < 4; i++) x[i] = y[i];
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return x[place & 3] >> 8;
}
template <class T> ORACLE T floor_mod(T a, T b) {
  if (b == -1) return 0;
  T r = a % b;
  return (r != 0 && ((r < 0) != (b < 0))) ? r + b : r;
}
ORACLE float floor_mod(float a, float b) {
  float r = fmod(a, b);
  return (r != 0 && ((r < 0) != (b < 0))) ? r + b : r;
}
ORACLE double floor_mod(double a, double b) {
  double r = fmod(a, b);
  return (r != 0 && ((r < 0) != (b < 0))) ? r + b : r;
}
// float8_e4m3fn: three binary digits behind the first, none of them below 2^-9; 480 would be NaN.
ORACLE double nearest_e4m3(double a) {
  const double size = fabs(a);
  if (!(size <= 464)) return 0 / (a - a);
  int exponent = 0;
  frexp(size, &exponent);
  const double step = ldexp(1.0, (exponent - 1 < -6 ? -6 : exponent - 1) - 3);
  return copysign(rint(size / step) * step, a);
}
ORACLE float nearest_e4m3(float a) { return (float)nearest_e4m3((double)a); }
ORACLE double e4m3_of_bits(double a) {
  const int bits = a >= 0 && a < 256 ? (int)a : 127, exponent = bits / 8 % 16;
  if (bits % 128 == 127) return 0 / (a - a);
  const double size = exponent == 0 ? ldexp((double)(bits % 8), -9) : ldexp((double)(8 + bits % 8), exponent - 10);
  return bits < 128 ? size : -size;
}
ORACLE float e4m3_of_bits(float a) { return (float)e4m3_of_bits((double)a); }
template <class T> ORACLE bool above(T a, T b) { return a > b || (is_nan(a) && !is_nan(b)); }
template <class T> ORACLE bool below(T a, T b) { return a < b || (is_nan(a) && !is_nan(b)); }
template <class T> ORACLE T larger(T a, T b) { return above(b, a) ? b : a; }
template <class T> ORACLE T smaller(T a, T b) { return below(b, a) ? b : a; }
// log(exp(a) + exp(b)).
template <class T> ORACLE T log_add(T a, T b) {
  if (is_nan(a) || is_nan(b)) return a + b;
  const T most = a > b ? a : b, least = a > b ? b : a;
  return most == least && most - most != 0 ? most : most + log1p(exp(least - most));
}
template <class T> ORACLE T sign_of(T a) { return (T)((a > (T)0) - (a < (T)0)); }
template <class T> ORACLE T magnitude(T a) { return a < (T)0 ? wrap_sub((T)0, a) : a; }
ORACLE float magnitude(float a) { return fabs(a); }
ORACLE double magnitude(double a) { return fabs(a); }
template <class T> ORACLE T integer_power(T a, T b) {
  if (b < 0) return a == 1 ? 1 : a == -1 ? ((b & 1) ? -1 : 1) : 0;
  T r = 1;
  for (; b > 0; b >>= 1, a = wrap_mul(a, a)) if (b & 1) r = wrap_mul(r, a);
  return r;
}

// Truncated, within [low, high], both small; NaN is 0.
ORACLE int saturate(double x, int low, int high) {
  if (is_nan(x)) return 0;
  return x <= low ? low : x >= high ? high : (int)x;
}

// ---- random numbers: Philox 4x32-10 (Salmon et al., SC11) ----
ORACLE uint4 philox(u64 seed, u64 stream, u64 index) {
  unsigned k0 = (unsigned)seed, k1 = (unsigned)(seed >> 32);
  unsigned c0 = (unsigned)index, c1 = (unsigned)(index >> 32);
  unsigned c2 = (unsigned)stream, c3 = (unsigned)(stream >> 32);
  for (int round = 0; round < 10; ++round) {
    u64 p0 = (u64)0xD2511F53u * c0, p1 = (u64)0xCD9E8D57u * c2;
    unsigned n0 = (unsigned)(p1 >> 32) ^ c1 ^ k0, n2 = (unsigned)(p0 >> 32) ^ c3 ^ k1;
    c1 = (unsigned)p1; c3 = (unsigned)p0; c0 = n0; c2 = n2;
    k0 += 0x9E3779B9u; k1 += 0xBB67AE85u;
  }
  uint4 r; r.x = c0; r.y = c1; r.z = c2; r.w = c3;
  return r;
}
ORACLE double unit(unsigned a, unsigned b) {   // [0, 1)
  return ((double)(a >> 5) * 67108864.0 + (double)(b >> 6)) * (1.0 / 9007199254740992.0);
}
ORACLE float normal(unsigned a, unsigned b) {  // Box and Muller
  float u = ((float)(a >> 8) + 0.5f) * 5.9604644775390625e-08f;
  float angle = (float)(b >> 8) * (6.283185307179586f * 5.9604644775390625e-08f);
  return sqrt(-2.0f * log(u)) * cos(angle);
}
)cuda";

}  // namespace warpsmith::oracle
