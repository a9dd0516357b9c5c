// The device functions with which the comparison kernels count what they find.
#pragma once

namespace warpsmith::oracle {

// control: elements (or bytes), poison, absolute, relative (as the bits of doubles).
// stats: field f of thread t at [f * threads + t].
inline constexpr char kCompareText[] = R"cuda(
// What is compared with `want`: `got`, or where these are neighbours in a type of 16 bits `want` itself,
// since rounding may go either way.
template <class E>
ORACLE auto settled(typename E::T got, typename E::T want) -> decltype(E::value(got)) {
  if constexpr (E::kHalf) {
    const int a = got & 0x8000 ? -(got & 0x7fff) : got, b = want & 0x8000 ? -(want & 0x7fff) : want;
    const double x = E::value(got), y = E::value(want);
    if (a - b <= 1 && b - a <= 1 && x == x && y == y) return y;
  }
  return E::value(got);
}

struct Bool {
  typedef unsigned char T;
  static constexpr bool kHalf = false;
  static __device__ i64 value(T x) { return x; }   // a byte that is neither 0 nor 1 is no bool
  static __device__ u64 bits(T x) { return x; }
};
struct I8 {
  typedef signed char T;
  static constexpr bool kHalf = false;
  static __device__ i64 value(T x) { return x; }
  static __device__ u64 bits(T x) { return (unsigned char)x; }
};
struct U8 {
  typedef unsigned char T;
  static constexpr bool kHalf = false;
  static __device__ i64 value(T x) { return x; }
  static __device__ u64 bits(T x) { return x; }
};
struct I32 {
  typedef int T;
  static constexpr bool kHalf = false;
  static __device__ i64 value(T x) { return x; }
  static __device__ u64 bits(T x) { return (unsigned)x; }
};
struct I64 {
  typedef i64 T;
  static constexpr bool kHalf = false;
  static __device__ i64 value(T x) { return x; }
  static __device__ u64 bits(T x) { return (u64)x; }
};
struct F16 {
  typedef unsigned short T;
  static constexpr bool kHalf = true;
  static __device__ double value(T x) { return (double)from_f16(x); }
  static __device__ u64 bits(T x) { return x; }
};
struct BF16 {
  typedef unsigned short T;
  static constexpr bool kHalf = true;
  static __device__ double value(T x) { return (double)from_bf16(x); }
  static __device__ u64 bits(T x) { return x; }
};
struct F32 {
  typedef float T;
  static constexpr bool kHalf = false;
  static __device__ double value(T x) { return (double)x; }
  static __device__ u64 bits(T x) { return __float_as_uint(x); }
};
struct F64 {
  typedef double T;
  static constexpr bool kHalf = false;
  static __device__ double value(T x) { return x; }
  static __device__ u64 bits(T x) { return (u64)__double_as_longlong(x); }
};

struct Stats {
  i64 beyond, first_beyond, disagree, first_disagree, unwritten, first_unwritten, finite;
  double largest, squares;
};
ORACLE Stats nothing() {
  Stats s;
  s.beyond = s.disagree = s.unwritten = s.finite = 0;
  s.first_beyond = s.first_disagree = s.first_unwritten = -1;
  s.largest = s.squares = 0;
  return s;
}
ORACLE void keep(const Stats& s, i64* stats, i64 threads, i64 me) {
  stats[0 * threads + me] = s.beyond;
  stats[1 * threads + me] = s.first_beyond;
  stats[2 * threads + me] = s.disagree;
  stats[3 * threads + me] = s.first_disagree;
  stats[4 * threads + me] = s.unwritten;
  stats[5 * threads + me] = s.first_unwritten;
  stats[6 * threads + me] = s.finite;
  stats[7 * threads + me] = __double_as_longlong(s.largest);
  stats[8 * threads + me] = __double_as_longlong(s.squares);
}
ORACLE void note(i64& count, i64& first, i64 at) {
  ++count;
  if (first < 0 || at < first) first = at;
}
ORACLE bool is_finite(double x) { return x - x == 0; }

ORACLE void judge(Stats& s, double got, double want, double absolute, double relative, i64 at,
                  bool poisoned) {
  if (is_finite(got) && is_finite(want)) {
    double difference = fabs(got - want);
    ++s.finite;
    s.squares += want * want;
    if (difference > s.largest) s.largest = difference;
    if (difference > absolute + relative * fabs(want)) {
      note(s.beyond, s.first_beyond, at);
      if (poisoned) note(s.unwritten, s.first_unwritten, at);
    }
  } else if (!(got == want || (is_nan(got) && is_nan(want)))) {
    note(s.disagree, s.first_disagree, at);
    if (poisoned) note(s.unwritten, s.first_unwritten, at);
  }
}
ORACLE void judge(Stats& s, i64 got, i64 want, double absolute, double, i64 at, bool poisoned) {
  ++s.finite;
  if (got == want) return;
  s.squares += 1;   // of integers: how many differ
  // By the difference: beyond 2^53 a double does not tell an integer from the next.
  const u64 difference = got > want ? (u64)got - (u64)want : (u64)want - (u64)got;
  if ((double)difference <= absolute) return;
  note(s.beyond, s.first_beyond, at);
  if (poisoned) note(s.unwritten, s.first_unwritten, at);
}

template <class E>
ORACLE void compare(const i64* control, const typename E::T* got, const typename E::T* want,
                    i64* stats) {
  const i64 count = control[0];
  u64 pattern = (u64)control[1] & 0xffu;
  u64 poison = 0;
  for (int i = 0; i < (int)sizeof(typename E::T); ++i) poison |= pattern << (8 * i);
  const double absolute = __longlong_as_double(control[2]);
  const double relative = __longlong_as_double(control[3]);
  Stats s = nothing();
  const i64 threads = (i64)gridDim.x * blockDim.x;
  const i64 me = (i64)blockIdx.x * blockDim.x + threadIdx.x;
  i64 n = me;
  for (; n + 3 * threads < count; n += 4 * threads) {   // four loads of each in flight
    typename E::T g[4], w[4];
    for (int j = 0; j < 4; ++j) g[j] = got[n + j * threads];
    for (int j = 0; j < 4; ++j) w[j] = want[n + j * threads];
    for (int j = 0; j < 4; ++j) {
      judge(s, settled<E>(g[j], w[j]), E::value(w[j]), absolute, relative, n + j * threads,
            E::bits(g[j]) == poison);
    }
  }
  for (; n < count; n += threads) {
    judge(s, settled<E>(got[n], want[n]), E::value(want[n]), absolute, relative, n,
          E::bits(got[n]) == poison);
  }
  keep(s, stats, threads, me);
}

ORACLE i64 first_of(i64 a, i64 b) { return a < 0 ? b : b < 0 ? a : a < b ? a : b; }

extern "C" __global__ void merge(const i64* control, const i64* stats, i64* merged) {
  const i64 from = control[4], threads = (i64)gridDim.x * blockDim.x;
  const i64 me = (i64)blockIdx.x * blockDim.x + threadIdx.x;
  i64 count[9], first[3] = {-1, -1, -1};
  for (int f = 0; f < 9; ++f) count[f] = 0;
  double largest = 0, squares = 0;
  for (i64 t = me; t < from; t += threads) {
    for (int f = 0; f < 7; ++f) {
      i64 part = stats[f * from + t];
      if (f == 1 || f == 3 || f == 5) {
        first[f / 2] = first_of(first[f / 2], part);
      } else {
        count[f] += part;
      }
    }
    double part = __longlong_as_double(stats[7 * from + t]);
    if (part > largest) largest = part;
    squares += __longlong_as_double(stats[8 * from + t]);
  }
  for (int f = 0; f < 7; ++f) {
    merged[f * threads + me] = f == 1 || f == 3 || f == 5 ? first[f / 2] : count[f];
  }
  merged[7 * threads + me] = __double_as_longlong(largest);
  merged[8 * threads + me] = __double_as_longlong(squares);
}

ORACLE u64 mix(u64 x) {   // splitmix64's end
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}
extern "C" __global__ void hash(const i64* control, const unsigned char* memory, i64* stats) {
  const i64 bytes = control[0], words = bytes / 8;
  const u64* word = (const u64*)memory;
  const i64 threads = (i64)gridDim.x * blockDim.x;
  const i64 me = (i64)blockIdx.x * blockDim.x + threadIdx.x;
  u64 sum = 0;
  i64 n = me;
  for (; n + 3 * threads < words; n += 4 * threads) {
    u64 w[4];
    for (int j = 0; j < 4; ++j) w[j] = word[n + j * threads];
    for (int j = 0; j < 4; ++j) sum += mix(w[j] + mix((u64)(n + j * threads) + 0x9e3779b97f4a7c15ull));
  }
  for (; n < words; n += threads) sum += mix(word[n] + mix((u64)n + 0x9e3779b97f4a7c15ull));
  if (me == 0) {
    u64 rest = 0;
    for (i64 b = words * 8; b < bytes; ++b) rest = rest << 8 | memory[b];
    sum += mix(rest + mix((u64)words + 0x9e3779b97f4a7c15ull));
  }
  for (int f = 1; f < 9; ++f) stats[f * threads + me] = 0;
  stats[me] = (i64)sum;
}

// Turns each part of `length` elements around; once more, and they are as they were.
template <class T>
ORACLE void reverse(const i64* control, T* memory) {
  const i64 count = control[0], length = control[1];
  for (i64 n = (i64)blockIdx.x * blockDim.x + threadIdx.x; n < count;
       n += (i64)gridDim.x * blockDim.x) {
    const i64 begin = n / length * length;
    const i64 end = begin + length < count ? begin + length : count;
    const i64 other = begin + (end - 1 - n);
    if (other <= n) continue;
    const T kept = memory[n];
    memory[n] = memory[other];
    memory[other] = kept;
  }
}
extern "C" __global__ void reverse_1(const i64* control, unsigned char* memory) {
  reverse(control, memory);
}
extern "C" __global__ void reverse_2(const i64* control, unsigned short* memory) {
  reverse(control, memory);
}
extern "C" __global__ void reverse_4(const i64* control, unsigned* memory) {
  reverse(control, memory);
}
extern "C" __global__ void reverse_8(const i64* control, u64* memory) { reverse(control, memory); }

template <class E>
ORACLE void gather(const i64* control, const typename E::T* memory, const i64* positions,
                   double* values) {
  for (i64 n = (i64)blockIdx.x * blockDim.x + threadIdx.x; n < control[0];
       n += (i64)gridDim.x * blockDim.x) {
    values[n] = (double)E::value(memory[positions[n]]);
  }
}
)cuda";

}  // namespace warpsmith::oracle
