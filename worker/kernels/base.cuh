// The vocabulary of generated device code: vector accesses, conversions, mathematics with PyTorch's
// semantics, and the ways in which lanes, threads and blocks meet. No other header is included, so
// that a kernel compiles in milliseconds; the host versions are in host.cuh.
#pragma once

#ifdef WS_HOST
#include <warpsmith/host.cuh>
#endif
#ifndef WS_EXPORT
#define WS_EXPORT(name)   // the host device needs a line for each kernel; a card does not
#endif

#define WS_DEVICE __device__ __forceinline__
#define WS_RARELY __device__ __noinline__   // code that seldom runs, once in the kernel

namespace ws {

// A thread's accumulator takes this many vectors of a long reduction before it is merged into one
// above it: the error of a long sum grows with the length of these chains, not with its own.
inline constexpr int kChain = 32;

// ---- memory ---------------------------------------------------------------------------------------

template <int Bytes> struct Word;
template <> struct Word<1> { using Type = unsigned char; };
template <> struct Word<2> { using Type = unsigned short; };
template <> struct Word<4> { using Type = unsigned; };
template <> struct Word<8> { using Type = uint2; };
template <> struct Word<16> { using Type = uint4; };

// The first of two types, or the second.
template <bool FIRST, class A, class B> struct Either { using Type = A; };
template <class A, class B> struct Either<false, A, B> { using Type = B; };

// A place, elements from where memory begins. Where it is made of divisions the compiler, not knowing how, no longer sees that
// what a vector's access touches lies side by side, and makes words of it that are 4 bytes each; here it is told nothing.
WS_DEVICE long long placed(long long at) {
#ifndef WS_HOST
  asm("" : "+l"(at));
#endif
  return at;
}

// V consecutive elements in one access of V * sizeof(T) <= 16 bytes; p aligned to that.
// Hint 1: evict first. Hint 2: nobody writes it while the kernel runs (weights). Hint 3: the same, and the
// second-level cache keeps it while what passes by once goes first (16 bytes; others as hint 2). Hint 4: it
// keeps what may have been written (16 bytes; others as no hint). Hint 5: as hint 2, asked for in the order of the text;
// hint 6: read once, too, by parts of lines that the second-level cache brings whole (16 bytes; others as hint 2).
template <int V, class T, int Hint>
WS_DEVICE void load_once(const T* p, T (&out)[V]) {
  using W = typename Word<V * sizeof(T)>::Type;
#ifndef WS_HOST
  W w;
  if constexpr (Hint == 1) {
    w = __ldcs(reinterpret_cast<const W*>(p));
  } else if constexpr (Hint == 3 && sizeof(W) == 16) {
    unsigned long long policy;
    asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
    asm("ld.global.nc.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
        : "=r"(w.x), "=r"(w.y), "=r"(w.z), "=r"(w.w) : "l"(p), "l"(policy));
  } else if constexpr (Hint == 4 && sizeof(W) == 16) {
    unsigned long long policy;
    asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
    asm volatile("ld.global.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
                 : "=r"(w.x), "=r"(w.y), "=r"(w.z), "=r"(w.w) : "l"(p), "l"(policy) : "memory");
  } else if constexpr (Hint == 5 && sizeof(W) == 16) {
    asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(w.x), "=r"(w.y), "=r"(w.z), "=r"(w.w) : "l"(p));
  } else if constexpr (Hint == 6 && sizeof(W) == 16) {
    asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(w.x), "=r"(w.y), "=r"(w.z), "=r"(w.w) : "l"(p));
  } else if constexpr (Hint == 2 || Hint == 3 || Hint == 5 || Hint == 6) {
    w = __ldg(reinterpret_cast<const W*>(p));
  } else {
    w = *reinterpret_cast<const W*>(p);
  }
  memcpy(out, &w, sizeof(W));
#else
  host::check_aligned(p, sizeof(W));   // a card would fault
  memcpy(out, p, sizeof(W));
#endif
}

// Hint 2: to memory that the kernel does not read there, in one access though the compiler sees neighbours apart (placed()).
template <int V, class T, int Hint>
WS_DEVICE void store_once(T* p, const T (&in)[V]) {
  using W = typename Word<V * sizeof(T)>::Type;
#ifndef WS_HOST
  W w;
  memcpy(&w, in, sizeof(W));
  if constexpr (Hint == 1) {
    __stcs(reinterpret_cast<W*>(p), w);
  } else if constexpr (Hint == 2 && sizeof(W) == 8) {
    asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(p), "r"(w.x), "r"(w.y));
  } else if constexpr (Hint == 2 && sizeof(W) == 16) {
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(w.x), "r"(w.y), "r"(w.z), "r"(w.w));
  } else {
    *reinterpret_cast<W*>(p) = w;
  }
#else
  host::check_aligned(p, sizeof(W));
  memcpy(p, in, sizeof(W));
#endif
}

// The same in as many accesses of 16 bytes as it takes.
template <int V, class T, int Hint>
WS_DEVICE void load(const T* p, T (&out)[V]) {
  if constexpr (V * sizeof(T) <= 16) {
    load_once<V, T, Hint>(p, out);
  } else {
    constexpr int kOnce = 16 / sizeof(T);
#pragma unroll
    for (int v = 0; v < V; v += kOnce) {
      T part[kOnce];
      load_once<kOnce, T, Hint>(p + v, part);
      memcpy(out + v, part, sizeof(part));
    }
  }
}

// The same where they are there, else zeros: whole words, of which a few moves make nothing.
template <int V, class T, int Hint>
WS_DEVICE void load_if(bool there, const T* p, T (&out)[V]) {
  constexpr int kBytes = V * sizeof(T), kAccess = kBytes < 16 ? kBytes : 16;
  typename Word<kAccess>::Type words[kBytes / kAccess] = {};
  if (there) {
    T read[V];
    load<V, T, Hint>(p, read);
    memcpy(words, read, kBytes);
  }
  memcpy(out, words, kBytes);
}

template <int V, class T, int Hint>
WS_DEVICE void store(T* p, const T (&in)[V]) {
  if constexpr (V * sizeof(T) <= 16) {
    store_once<V, T, Hint>(p, in);
  } else {
    constexpr int kOnce = 16 / sizeof(T);
#pragma unroll
    for (int v = 0; v < V; v += kOnce) {
      T part[kOnce];
      memcpy(part, in + v, sizeof(part));
      store_once<kOnce, T, Hint>(p + v, part);
    }
  }
}

// V consecutive elements that begin anywhere: V * sizeof(T) is 4 or 8 bytes, by two or three accesses of
// words. Nothing is touched behind the word that holds the element before `end`; what would lie there
// is undefined.
template <int V, class T>
WS_DEVICE void load_anywhere(const T* p, const T* end, T (&out)[V]) {
#ifndef WS_HOST
  constexpr int kWords = V * sizeof(T) / 4;
  static_assert(V * sizeof(T) % 4 == 0, "whole words");
  const unsigned long long at = reinterpret_cast<unsigned long long>(p);
  const unsigned long long last = (reinterpret_cast<unsigned long long>(end) - 1) & ~3ull;
  const unsigned shift = static_cast<unsigned>(at & 3) * 8;
  unsigned words[kWords + 1], shifted[kWords];
#pragma unroll
  for (int i = 0; i <= kWords; ++i) {
    unsigned long long word = (at + 4 * i - (i == kWords)) & ~3ull;   // of the last byte
    if (word > last) word = last;
    words[i] = *reinterpret_cast<const unsigned*>(word);
  }
#pragma unroll
  for (int i = 0; i < kWords; ++i) shifted[i] = __funnelshift_r(words[i], words[i + 1], shift);
  memcpy(out, shifted, sizeof(shifted));
#else
  for (int i = 0; i < V && p + i < end; ++i) out[i] = p[i];
#endif
}

// Any trivially copyable T whose size is a multiple of four bytes, as words.
template <class T> struct Words {
  static_assert(sizeof(T) % 4 == 0, "accumulators are whole words");
  unsigned w[sizeof(T) / 4];
};

// The value stays, but the compiler no longer knows how it came about.
template <class T>
WS_DEVICE void opaque(T& value) {
#ifndef WS_HOST
  if constexpr (sizeof(T) % 4 == 0) {
    Words<T> words;
    memcpy(&words, &value, sizeof(T));
#pragma unroll
    for (int i = 0; i < int(sizeof(T) / 4); ++i) asm volatile("" : "+r"(words.w[i]));
    memcpy(&value, &words, sizeof(T));
  }
#endif
}

#ifndef WS_HOST

extern __shared__ uint4 dynamic_shared[];
WS_DEVICE char* shared() { return reinterpret_cast<char*>(dynamic_shared); }

WS_DEVICE unsigned shared_address(const void* p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

// Starts a copy of V elements into the thread's own slot; 4, 8 or 16 bytes.
template <int V, class T>
WS_DEVICE void copy_async(char* slot, const T* p) {
  constexpr int kBytes = V * sizeof(T);
  if constexpr (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(slot)), "l"(p) : "memory");
  } else if constexpr (kBytes == 8 || kBytes == 4) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(shared_address(slot)), "l"(p), "n"(kBytes) : "memory");
  } else {
    memcpy(slot, p, kBytes);
  }
}
// The same, and it goes first when the second-level cache needs room.
template <int V, int Hint, class T>
WS_DEVICE void copy_async(char* slot, const T* p) {
  if constexpr (Hint == 1 && V * sizeof(T) == 16) {
    // Where a slot's place is the thread's and one that all threads have in common, ptxas 13.0 writes both of them
    // and the policy into one instruction, an illegal one. It does not know that p is a multiple of 16.
    const unsigned place = shared_address(slot) ^ (static_cast<unsigned>(reinterpret_cast<unsigned long long>(p)) & 15u);
    unsigned long long policy;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2;" ::"r"(place), "l"(p), "l"(policy) : "memory");
  } else {
    copy_async<V>(slot, p);
  }
}
WS_DEVICE void copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N>
WS_DEVICE void copy_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }

// ---- who am I -------------------------------------------------------------------------------------

WS_DEVICE int thread() { return threadIdx.x; }
WS_DEVICE int block_threads() { return blockDim.x; }
WS_DEVICE int block() { return blockIdx.x; }
WS_DEVICE int blocks() { return gridDim.x; }

// ---- meeting --------------------------------------------------------------------------------------

WS_DEVICE void sync_block() { __syncthreads(); }
WS_DEVICE void sync_warp() { __syncwarp(); }

// Makes a number in shared memory at least `value`, whoever else does.
WS_DEVICE void shared_max(int* place, int value) { atomicMax(place, value); }
// The same in global memory.
WS_DEVICE void global_max(long long* place, long long value) { atomicMax(place, value); }
// Adds to a number in shared memory, whoever else does.
WS_DEVICE void shared_add(int* place, int value) { atomicAdd(place, value); }

// The value with each of its words put through f.
template <class T, class F>
WS_DEVICE T by_words(T value, F f) {
  Words<T> words;
  memcpy(&words, &value, sizeof(T));
#pragma unroll
  for (int i = 0; i < int(sizeof(T) / 4); ++i) words.w[i] = f(words.w[i]);
  memcpy(&value, &words, sizeof(T));
  return value;
}

template <class T>
WS_DEVICE T shuffle_xor(T value, int mask) {
  return by_words(value, [mask](unsigned word) { return __shfl_xor_sync(0xffffffffu, word, mask); });
}

// Whether it holds for any of the warp's lanes; every one of them comes here.
WS_DEVICE bool any_of_warp(bool one) { return __any_sync(0xffffffffu, one); }

// The lanes of the warp that have the same number, as bits; every one of them comes here.
WS_DEVICE unsigned match_of_warp(int number) { return __match_any_sync(0xffffffffu, number); }
WS_DEVICE int count_bits(unsigned bits) { return __popc(bits); }

// The value of another lane of the warp; every lane of the warp comes here.
template <class T>
WS_DEVICE T shuffle(T value, int lane) {
  return by_words(value, [lane](unsigned word) { return __shfl_sync(0xffffffffu, word, lane); });
}

// The value of the lane `delta` below, one's own where there is none; every lane of the warp comes here.
template <class T>
WS_DEVICE T shuffle_up(T value, int delta) {
  return by_words(value, [delta](unsigned word) { return __shfl_up_sync(0xffffffffu, word, delta); });
}

WS_DEVICE int cluster_rank() {
  int rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
WS_DEVICE int cluster_size() {
  int size;
  asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
  return size;
}
WS_DEVICE void sync_cluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
// The same shared variable in another block of the cluster.
template <class T>
WS_DEVICE T* peer(T* pointer, int rank) {
  unsigned long long address;
  asm volatile("mapa.u64 %0, %1, %2;" : "=l"(address) : "l"(pointer), "r"(rank));
  return reinterpret_cast<T*>(address);
}

// A word that blocks exchange through global memory, together with a tag that says which meeting it is
// of. Both travel in one access, so that no fence is needed: who sees the tag (the upper half of what
// `peek` gives) has the word. The place holds an earlier tag before (zero at the start). Callers poll;
// the host version waits for `tag` itself.
WS_DEVICE void post(unsigned long long* place, unsigned word, unsigned tag) {
  const unsigned long long both = (static_cast<unsigned long long>(tag) << 32) | word;
  asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(place), "l"(both) : "memory");
}
WS_DEVICE unsigned long long peek(const unsigned long long* place, unsigned) {
  unsigned long long both;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(both) : "l"(place) : "memory");
  return both;
}

// With a programmatic launch: what the kernel before wrote is visible after this.
WS_DEVICE void grid_wait() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
WS_DEVICE void grid_launch_dependents() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }

#endif  // WS_HOST

// ---- floats of 16 and 8 bits ----------------------------------------------------------------------------------

struct f16 { unsigned short bits; };
struct bf16 { unsigned short bits; };

#ifndef WS_HOST
WS_DEVICE unsigned float_bits(float x) { return __float_as_uint(x); }
WS_DEVICE float bits_float(unsigned x) { return __uint_as_float(x); }
WS_DEVICE float to_float(f16 x) {
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(x.bits));
  return f;
}
// One instruction for either half of a word; a shift of the upper half takes two.
WS_DEVICE float to_float(bf16 x) {
  float f;
  asm("mov.b32 %0, {%1, %2};" : "=f"(f) : "h"(static_cast<unsigned short>(0)), "h"(x.bits));
  return f;
}
#else
inline unsigned float_bits(float x) { unsigned u; memcpy(&u, &x, 4); return u; }
inline float bits_float(unsigned x) { float f; memcpy(&f, &x, 4); return f; }
inline float to_float(f16 x) {
  const unsigned sign = (x.bits & 0x8000u) << 16, exponent = (x.bits >> 10) & 31, mantissa = x.bits & 1023;
  if (exponent == 31) return bits_float(sign | 0x7f800000u | (mantissa << 13));
  if (exponent == 0) {
    const float tiny = float(mantissa) * 5.9604644775390625e-8f;  // 2^-24
    return bits_float(sign | float_bits(tiny));
  }
  return bits_float(sign | ((exponent + 112) << 23) | (mantissa << 13));
}
inline float to_float(bf16 x) { return bits_float(unsigned(x.bits) << 16); }
#endif

template <class T> WS_DEVICE T from_float(float x);
template <> WS_DEVICE f16 from_float<f16>(float x) {
#ifndef WS_HOST
  f16 h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h.bits) : "f"(x));
  return h;
#else
  const unsigned u = float_bits(x), sign = (u >> 16) & 0x8000u, magnitude = u & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return f16{static_cast<unsigned short>(0x7fff)};
  if (magnitude >= 0x477ff000u) return f16{static_cast<unsigned short>(sign | 0x7c00u)};  // rounds to infinity
  if (magnitude < 0x38800000u) {  // subnormal: the addition rounds to nearest even at 2^-24
    const unsigned shifted = float_bits(bits_float(magnitude) + 0.5f) - float_bits(0.5f);
    return f16{static_cast<unsigned short>(sign | shifted)};
  }
  const unsigned rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return f16{static_cast<unsigned short>(sign | ((rounded - 0x38000000u) >> 13))};
#endif
}
template <> WS_DEVICE bf16 from_float<bf16>(float x) {
#ifndef WS_HOST
  bf16 h;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h.bits) : "f"(x));
  return h;
#else
  const unsigned u = float_bits(x);
  if ((u & 0x7fffffffu) > 0x7f800000u) return bf16{0x7fff};
  return bf16{static_cast<unsigned short>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16)};
#endif
}
// The number of a value that float8_e4m3fn has: as bits of f16 its exponent and digits stand a place higher, eight too low.
struct f8 { unsigned char bits; };
#ifndef WS_HOST
#if __CUDA_ARCH__ >= 890
#define WS_EIGHT_BITS   // instructions for them
#endif
#endif
template <> WS_DEVICE f8 from_float<f8>(float x) {
#ifdef WS_EIGHT_BITS
  unsigned short pair;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(x));
  return f8{static_cast<unsigned char>(pair)};
#else
  const unsigned half = from_float<f16>(x / 256.0f).bits;
  return f8{static_cast<unsigned char>((half >> 8 & 128u) | (x == x ? half >> 7 & 127u : 127u))};
#endif
}
WS_DEVICE float to_float(f8 x) {
#ifdef WS_EIGHT_BITS
  unsigned pair;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pair) : "h"(static_cast<unsigned short>(x.bits)));
  return to_float(f16{static_cast<unsigned short>(pair)});
#else
  const unsigned short half = static_cast<unsigned short>((x.bits & 128) << 8 | (x.bits & 127) << 7);
  return (x.bits & 127) == 127 ? bits_float(0x7fc00000u) : to_float(f16{half}) * 256.0f;
#endif
}
// The value of the nearest number of that type.
template <class T> WS_DEVICE float rounded(float x) { return to_float(from_float<T>(x)); }
#ifndef WS_HOST
// Conversions of pairs are several times as quick as single ones.
template <> WS_DEVICE float rounded<bf16>(float x) {
  unsigned pair;   // as the upper half, above zero: the bits of a float
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(x), "f"(0.0f));
  return bits_float(pair);
}
template <> WS_DEVICE float rounded<f16>(float x) {
  unsigned pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(0.0f), "f"(x));
  return to_float(f16{static_cast<unsigned short>(pair)});
}
#endif
// From double with one rounding: to float towards zero with a sticky last bit, then to nearest.
WS_DEVICE float to_odd(double x) {
  float f = static_cast<float>(x);
  const double back = static_cast<double>(f);
  if (back == x || x != x || f - f != 0) return f;
  unsigned bits = float_bits(f);
  if ((back > x) == (x > 0)) bits -= 1;   // towards zero (x != 0: zero converts exactly)
  return bits_float(bits | 1u);
}
template <class T> WS_DEVICE T from_double(double x) { return from_float<T>(to_odd(x)); }

// ---- mathematics: PyTorch's meaning ------------------------------------------------------------------

#ifndef WS_HOST
WS_DEVICE float maximum(float a, float b) { float r; asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); return r; }
WS_DEVICE float minimum(float a, float b) { float r; asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); return r; }
#else
inline float maximum(float a, float b) { return a != a ? a : (b != b ? b : (a > b ? a : b)); }
inline float minimum(float a, float b) { return a != a ? a : (b != b ? b : (a < b ? a : b)); }
#endif
WS_DEVICE double maximum(double a, double b) { return a != a ? a : (b != b ? b : (a > b ? a : b)); }
WS_DEVICE double minimum(double a, double b) { return a != a ? a : (b != b ? b : (a < b ? a : b)); }
WS_DEVICE int maximum(int a, int b) { return a > b ? a : b; }
WS_DEVICE int minimum(int a, int b) { return a < b ? a : b; }
WS_DEVICE long long maximum(long long a, long long b) { return a > b ? a : b; }
WS_DEVICE long long minimum(long long a, long long b) { return a < b ? a : b; }

#define WS_MATH1(name, f, d)                                  \
  WS_DEVICE float name(float x) { return f(x); }              \
  WS_DEVICE double name(double x) { return d(x); }
WS_MATH1(exp, ::expf, ::exp)
WS_MATH1(exp2, ::exp2f, ::exp2)
WS_MATH1(expm1, ::expm1f, ::expm1)
WS_MATH1(log, ::logf, ::log)
WS_MATH1(log2, ::log2f, ::log2)
WS_MATH1(log1p, ::log1pf, ::log1p)
WS_MATH1(tanh, ::tanhf, ::tanh)
WS_MATH1(erf, ::erff, ::erf)
WS_MATH1(sqrt, ::sqrtf, ::sqrt)
WS_MATH1(floor, ::floorf, ::floor)
WS_MATH1(ceil, ::ceilf, ::ceil)
WS_MATH1(round, ::rintf, ::rint)
WS_MATH1(trunc, ::truncf, ::trunc)
WS_MATH1(abs, ::fabsf, ::fabs)
#undef WS_MATH1

// The nearest number of float8_e4m3fn, ties to even; NaN beyond 464. What is added has the step between
// such numbers, 2^-3 of the power of two below x and at the least 2^-9, for its last digit.
WS_DEVICE float e4m3(float x) {
#ifdef WS_EIGHT_BITS
  float nearest;
  asm("{\n.reg .b16 eight, low, high;\n.reg .b32 pair;\n"
      "cvt.rn.satfinite.e4m3x2.f32 eight, %1, %2;\n"
      "cvt.rn.f16x2.e4m3x2 pair, eight;\n"
      "mov.b32 {low, high}, pair;\n"
      "cvt.f32.f16 %0, low;\n}" : "=f"(nearest) : "f"(0.0f), "f"(x));
  return fabsf(x) > 464.0f ? bits_float(0x7fc00000u) : nearest;
#else
  const unsigned sign = float_bits(x) & 0x80000000u, below = float_bits(x) & 0x7f800000u, least = 121u << 23;
  const float size = bits_float(float_bits(x) ^ sign);
  const float most = bits_float((below < least ? least : below) + (20u << 23)) * 1.5f;
  const float nearest = (size + most) - most;
  return size <= 464.0f ? bits_float(float_bits(nearest) | sign) : bits_float(0x7fc00000u);
#endif
}
WS_DEVICE double e4m3(double x) { return e4m3(to_odd(x)); }
// The number of float8_e4m3fn that has these bits, 0 to 255.
WS_DEVICE float e4m3_of_bits(int bits) { return to_float(f8{static_cast<unsigned char>(bits)}); }
WS_DEVICE float e4m3_of_bits(float x) { return x >= 0 && x < 256 ? e4m3_of_bits(static_cast<int>(x)) : bits_float(0x7fc00000u); }
WS_DEVICE double e4m3_of_bits(double x) { return x >= 0 && x < 256 ? e4m3_of_bits(static_cast<int>(x)) : bits_float(0x7fc00000u); }

// Sines of arguments beyond kFar take hundreds of instructions, a table and a stack. Those stand once in a kernel behind
// a call; below, which is where the library draws the line too, a sine is straight code, so that equal ones are one.
#ifndef WS_HOST
constexpr float kFar = 105615.0f;
inline __device__ __noinline__ float sin_far(float x) { return ::sinf(x); }
inline __device__ __noinline__ float cos_far(float x) { return ::cosf(x); }
WS_DEVICE float near(float x) {   // what is far is 0
  const float y = ::fabsf(x) >= kFar ? 0.0f : x;
  __builtin_assume(!(::fabsf(y) >= kFar));
  return y;
}
WS_DEVICE float sin(float x) {
  float y = ::sinf(near(x));
  if (::fabsf(x) >= kFar) y = sin_far(x);
  return y;
}
WS_DEVICE float cos(float x) {
  float y = ::cosf(near(x));
  if (::fabsf(x) >= kFar) y = cos_far(x);
  return y;
}
#else
inline float sin(float x) { return ::sinf(x); }
inline float cos(float x) { return ::cosf(x); }
#endif
WS_DEVICE double sin(double x) { return ::sin(x); }
WS_DEVICE double cos(double x) { return ::cos(x); }
WS_DEVICE int abs(int x) { return x < 0 ? static_cast<int>(0u - static_cast<unsigned>(x)) : x; }   // wraps
WS_DEVICE long long abs(long long x) { return x < 0 ? static_cast<long long>(0ull - static_cast<unsigned long long>(x)) : x; }
#ifndef WS_HOST
WS_DEVICE float rsqrt(float x) { return ::rsqrtf(x); }
WS_DEVICE double rsqrt(double x) { return ::rsqrt(x); }
#else
inline float rsqrt(float x) { return 1.0f / ::sqrtf(x); }
inline double rsqrt(double x) { return 1.0 / ::sqrt(x); }
#endif
WS_DEVICE float pow(float x, float y) { return ::powf(x, y); }
WS_DEVICE double pow(double x, double y) { return ::pow(x, y); }
// 24 random bits of a place: those of word `place` % 4 of Philox4x32-10 at the counter `place` / 4, keyed by the seed
// (Salmon et al., SC 2011).
WS_DEVICE unsigned random_bits(long long seed, long long place) {
  const unsigned long long block = static_cast<unsigned long long>(place) >> 2;
  unsigned c0 = static_cast<unsigned>(block), c1 = static_cast<unsigned>(block >> 32), c2 = 0, c3 = 0;
  unsigned k0 = static_cast<unsigned>(seed), k1 = static_cast<unsigned>(static_cast<unsigned long long>(seed) >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const unsigned long long a = 0xD2511F53ull * c0, b = 0xCD9E8D57ull * c2;
    c0 = static_cast<unsigned>(b >> 32) ^ c1 ^ k0;
    c2 = static_cast<unsigned>(a >> 32) ^ c3 ^ k1;
    c1 = static_cast<unsigned>(b);
    c3 = static_cast<unsigned>(a);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  const unsigned low = (place & 1) != 0 ? c1 : c0, high = (place & 1) != 0 ? c3 : c2;
  return ((place & 2) != 0 ? high : low) >> 8;
}
WS_DEVICE float atan2(float x, float y) { return ::atan2f(x, y); }
WS_DEVICE double atan2(double x, double y) { return ::atan2(x, y); }
template <class T> WS_DEVICE bool is_nan(T x) { return x != x; }

// Approximations that are off by some 2^-21 of the value: exponentials of up to 2^7 in size, 0 where they are
// below 2^-126; quotients of divisors above 2^-124.
#ifndef WS_HOST
WS_DEVICE float fast_reciprocal(float x) { float r; asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x)); return r; }
WS_DEVICE float fast_exp2(float x) { float r; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x)); return r; }
WS_DEVICE float fast_exp(float x) { return fast_exp2(x * 1.4426950408889634f); }
#else
inline float fast_reciprocal(float x) { return 1.0f / x; }
inline float fast_exp2(float x) { return ::exp2f(x); }
inline float fast_exp(float x) { return ::expf(x); }
#endif
// A quarter of both, so that no reciprocal is too small for a normal number.
WS_DEVICE float fast_div(float a, float b) { return a * 0.25f * fast_reciprocal(b * 0.25f); }
WS_DEVICE float fast_tanh(float x) {   // 1 - 2 / (1 + e^2x) has the absolute error of an ulp of 1
  const float far = ::fmaf(-2.0f, fast_reciprocal(1.0f + fast_exp2(x * 2.8853900817779268f)), 1.0f);
  const float near = x * (1.0f - x * x * (1.0f / 3.0f));
  return abs(x) < 0.04f ? near : far;
}
// Off by at most 2^-22: 1 - 2^(-x P(x)), P a fit of -log2(erfc(x)) / x on [0, 4] whose largest error in erf is least
// (Lawson's reweighted least squares, 1961). Beyond 4 it is 1 give or take 2^-26.
WS_DEVICE float fast_erf(float x) {
  const float a = minimum(abs(x), 4.0f);
  float p = ::fmaf(4.53585235e-5f, a, -4.45506827e-4f);
  p = ::fmaf(p, a, 1.48943847e-3f);
  p = ::fmaf(p, a, 7.74635584e-4f);
  p = ::fmaf(p, a, -2.82536875e-2f);
  p = ::fmaf(p, a, 1.48481622e-1f);
  p = ::fmaf(p, a, 9.18416381e-1f);
  p = ::fmaf(p, a, 1.62790859f);
  return ::copysignf(1.0f - fast_exp2(-a * p), x);
}
// Rounded, whatever it is added to.
#ifndef WS_HOST
WS_DEVICE float product(float a, float b) { return __fmul_rn(a, b); }
WS_DEVICE double product(double a, double b) { return __dmul_rn(a, b); }
#else
template <class T> T product(T a, T b) { T c = a * b; asm("" : "+m"(c)); return c; }
#endif
WS_DEVICE double fast_exp(double x) { return ::exp(x); }
WS_DEVICE double fast_div(double a, double b) { return a / b; }
WS_DEVICE double fast_tanh(double x) { return ::tanh(x); }
WS_DEVICE double fast_erf(double x) { return ::erf(x); }

// log(x) as a sum: for x = m * 2^e, e * ln(2) in so few bits that it is exact, and what it lacks with log(m), less
// than half and so with more digits (Cody and Waite, Software Manual for the Elementary Functions, 1980). m is near
// 1; e is 0 for what is no positive normal number.
WS_DEVICE int log_exponent(float x) {
  const int bits = int(float_bits(x));
  return bits >= 0x00800000 && bits < 0x7f800000 ? (bits - 0x3f3504f3) >> 23 : 0;
}
WS_DEVICE float log_whole(float x) { return float(log_exponent(x)) * 0.693359375f; }
WS_DEVICE float log_rest(float x) {
  const int e = log_exponent(x);
  return ::fmaf(float(e), -2.12194440e-4f, ::logf(bits_float(float_bits(x) - unsigned(e) * 0x00800000u)));
}

// A divisor of many numbers: its reciprocal is made once, and a quotient is a product and the correction of
// its remainder (Markstein, IBM J. Res. Dev. 34(1), 1990).
struct Divisor {
  float b, r;
  WS_DEVICE Divisor(float b, float r) : b(b), r(r) {}
  WS_DEVICE explicit Divisor(float b) : b(b), r(1.0f / b) {
    if (abs(b) > 3.4028235e38f) this->b = 1;   // what is left of a division by infinity is not asked for
  }
};
// a / b, rounded as a division is from 2^-60 to 2^60 with a divisor in that range, off by an ulp or two
// elsewhere; divisors below 2^-127 do not make 0 of 0, and a zero divided by less than zero may lose its sign.
WS_DEVICE float divide(float a, Divisor d) {
  const float near = a * d.r, q = ::fmaf(-::fmaf(d.b, near, -a), d.r, near);
  return abs(near) < 0x1p60f ? q : near;
}

// Casts to integers: truncated, what is beyond the range to the nearest end of it, NaN to what the
// instruction gives: 0 from float to int, the smallest number else. A plain cast leaves both to the
// compiler.
#ifndef WS_HOST
WS_DEVICE int to_int(float x) { int i; asm("cvt.rzi.s32.f32 %0, %1;" : "=r"(i) : "f"(x)); return i; }
WS_DEVICE int to_int(double x) { int i; asm("cvt.rzi.s32.f64 %0, %1;" : "=r"(i) : "d"(x)); return i; }
WS_DEVICE long long to_long(float x) { long long i; asm("cvt.rzi.s64.f32 %0, %1;" : "=l"(i) : "f"(x)); return i; }
WS_DEVICE long long to_long(double x) { long long i; asm("cvt.rzi.s64.f64 %0, %1;" : "=l"(i) : "d"(x)); return i; }
#else
inline int to_int(float x) { return x != x ? 0 : x >= 0x1p31f ? 2147483647 : x <= -0x1p31f ? -2147483647 - 1 : static_cast<int>(x); }
inline int to_int(double x) { return x >= 0x1p31 ? 2147483647 : x > -0x1p31 ? static_cast<int>(x) : -2147483647 - 1; }
inline long long to_long(double x) {
  return x >= 0x1p63 ? 9223372036854775807LL : x > -0x1p63 ? static_cast<long long>(x) : -9223372036854775807LL - 1;
}
inline long long to_long(float x) { return to_long(static_cast<double>(x)); }
#endif

// The same to an integer of one byte; NaN is 0.
template <class S, class T> WS_DEVICE int saturate(T x) {
  constexpr int kLow = S(-1) < S(0) ? -128 : 0, kHigh = kLow + 255;
  return x != x ? 0 : x <= T(kLow) ? kLow : x >= T(kHigh) ? kHigh : static_cast<int>(x);
}
// The same of the nearest whole number, even at halves.
template <class S> WS_DEVICE int saturate_round(double x) { return saturate<S>(round(x)); }
template <class S> WS_DEVICE int saturate_round(float x) {
#ifndef WS_HOST
  int i;
  if constexpr (S(-1) < S(0)) {
    asm("cvt.rni.s8.f32 %0, %1;" : "=r"(i) : "f"(x));
  } else {
    asm("cvt.rni.u8.f32 %0, %1;" : "=r"(i) : "f"(x));
  }
  return i;
#else
  return saturate<S>(round(x));
#endif
}

// Floor division and the remainder with the divisor's sign; b != 0. The smallest number divided by -1
// wraps.
template <class T> WS_DEVICE constexpr T floor_div(T a, T b) {
  if (b == -1) return static_cast<T>(0 - static_cast<unsigned long long>(a));
  const T q = a / b;
  return q - ((a % b != 0) && ((a < 0) != (b < 0)));
}
template <class T> WS_DEVICE constexpr T floor_mod(T a, T b) {
  if (b == -1) return 0;
  const T r = a % b;
  return r != 0 && ((r < 0) != (b < 0)) ? r + b : r;
}
WS_DEVICE float floor_div(float a, float b) { return ::floorf(a / b); }
WS_DEVICE double floor_div(double a, double b) { return ::floor(a / b); }
WS_DEVICE float floor_mod(float a, float b) { const float r = ::fmodf(a, b); return r != 0 && ((r < 0) != (b < 0)) ? r + b : r; }
WS_DEVICE double floor_mod(double a, double b) { const double r = ::fmod(a, b); return r != 0 && ((r < 0) != (b < 0)) ? r + b : r; }

}  // namespace ws
