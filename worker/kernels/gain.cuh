// Products of floats, as one element after the other has them.
//
// One element after the other, a product that has left the range of its type stays there: infinity
// until a zero makes it NaN, zero until an infinity does. Parts of the axis that are multiplied on their
// own know nothing of that: 1e-30 * (1e20 * 1e20) would be infinite, and 0 times that no number. So what
// a part does to a product that comes in is kept with the range in which that product survives it:
// |x| > over becomes infinite on the way, |x| <= under zero, others x * m * 2^e, of any magnitude. What
// left the range meets the part's own zeros and infinities in m. All x go through the same ups and
// downs in the same order, so that no larger x becomes zero where a smaller one becomes infinite: two
// bounds say it all.
#pragma once
#include <warpsmith/base.cuh>

namespace ws {

struct Gain {
  float m;       // 1 <= |m| < 2; zero, infinite or NaN where the part's elements make it so
  int e;
  float over;    // infinity: nothing finite becomes infinite
  float under;   // of numbers that come in as denormals it is as coarse as they are
};

inline constexpr int kMaxGain = 1 << 20;   // exponents are cut here, far beyond what anything survives
inline constexpr float kLargest = 3.402823466e+38f, kNormal = 1.175494351e-38f, kLeast = 1.401298464e-45f;
inline constexpr float kHalfLeastOfNormal = 5.9604645e-8f;   // 2^-150, which rounds to zero, of 2^-126
inline constexpr float kTame = 1.1529215e+18f;   // 2^60: products of two such, and of their inverses, are far from the ends

WS_DEVICE float infinity() { return bits_float(0x7f800000u); }
WS_DEVICE bool is_special(float m) { return (float_bits(m) & 0x7f800000u) != 0x3f800000u; }   // of a Gain's m
WS_DEVICE float power_of_two(int e) { return bits_float(static_cast<unsigned>(127 + e) << 23); }   // of normal ones

// What takes a number to the e-th power of two of it, saturated.
struct Scaling {
  float some, rest;
  WS_DEVICE explicit Scaling(int e) {
    e = e < -360 ? -360 : e > 360 ? 360 : e;
    const int third = e * 171 >> 9;   // so that none of the three leaves the range
    some = power_of_two(third);
    rest = power_of_two(e - 2 * third);
  }
  WS_DEVICE float of(float x) const { return x * rest * some * some; }
};

// m is a normal number, or zero, infinite or NaN.
WS_DEVICE void normalise(Gain& gain) {
  const unsigned bits = float_bits(gain.m), exponent = bits >> 23 & 255;
  if (exponent == 0 || exponent == 255) return;
  gain.e += static_cast<int>(exponent) - 127;
  gain.m = bits_float((bits & 0x807fffffu) | 0x3f800000u);
}

// Of elements that multiply to `product`, a normal number or zero, infinite or NaN. Bounds count for the first.
WS_DEVICE Gain gain_of(float product, float over, float under) {
  Gain gain = {product, 0, infinity(), 0};
  normalise(gain);
  if (is_special(gain.m)) return gain;
  gain.over = over;
  gain.under = under;
  return gain;
}
WS_DEVICE Gain no_gain() { return {1, 0, infinity(), 0}; }
// The same of elements that stay within kTame.
WS_DEVICE Gain gain_of_tame(float product, float least, float most) {
  return gain_of(product, fast_div(kLargest, most), fast_div(kNormal, least) * kHalfLeastOfNormal);
}

WS_DEVICE bool changes(const Gain& gain) {
  return gain.m != 1 || gain.e != 0 || gain.over != infinity() || gain.under != 0;
}
// First `gain`, then `next`.
WS_DEVICE void follow(Gain& gain, const Gain& next) {
  if (!changes(next)) return;
  if (!is_special(gain.m)) {
    const float back = fast_div(1.0f, abs(gain.m));
    const Scaling scaling(-gain.e);
    gain.over = minimum(gain.over, maximum(gain.under, scaling.of(next.over * back)));
    gain.under = maximum(gain.under, minimum(gain.over, scaling.of(next.under * back)));
  }
  gain.m *= next.m;
  gain.e += next.e;
  gain.e = gain.e < -kMaxGain ? -kMaxGain : gain.e > kMaxGain ? kMaxGain : gain.e;
  normalise(gain);
}
WS_RARELY Gain followed(Gain gain, Gain next) {
  follow(gain, next);
  return gain;
}
WS_RARELY Gain followed(Gain gain, float x) {
  const float size = abs(x);
  const bool denormal = size > 0 && size < kNormal;
  Gain next = gain_of(denormal ? x * 16777216.0f : x, kLargest / size, kLeast / size * 0.5f);
  if (denormal) next.e -= 24;
  follow(gain, next);
  return gain;
}

// What becomes of x.
WS_DEVICE float through(const Gain& gain, float x) {
  const float size = abs(x);
  if (size > gain.over) x *= infinity();
  if (size <= gain.under && size <= kLargest) x *= 0.0f;
  if (is_special(gain.m)) return x * gain.m;
  return size > 1 ? Scaling(gain.e + 1).of(x * (0.5f * gain.m)) : Scaling(gain.e).of(x * gain.m);
}
// Whether no factor but zero and infinity changes it.
WS_DEVICE bool stays(float x) { return x == 0 || x - x != 0; }
WS_RARELY float through_rarely(Gain gain, float x) { return through(gain, x); }

}  // namespace ws
