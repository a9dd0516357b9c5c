// Makes CUDA-style device code compile with a C++ compiler (-std=c++17) for the host device.
//
// It holds CUDA's keywords and built-in variables, the small vector types, the usual mathematics,
// and the primitives through which threads meet. Threads are fibers, one at a time runs, and a
// switch happens only inside a primitive below: plain reads and writes of shared and global memory
// are therefore atomic here, and what is missing between them (a barrier) shows by the order in
// which the device lets threads run, which changes from run to run.
//
// Not there, on purpose: static __shared__ (kernels use the dynamic block only) and inline PTX.
//
// The device's compiler includes this file first and adds WS_EXPORT(name) for each
// `extern "C" __global__` kernel; sources need to do neither. They see WS_HOST defined.
#pragma once

#ifndef WS_HOST
#define WS_HOST 1
#endif

// The C header alone: <cmath> brings overloads that collide with the ones below.
#define _GLIBCXX_INCLUDE_NEXT_C_HEADERS
#include <math.h>
#undef _GLIBCXX_INCLUDE_NEXT_C_HEADERS
#include <stdint.h>
#include <string.h>

#include <warpsmith/host_abi.cuh>

#define __device__
#define __host__
#define __global__ __attribute__((visibility("hidden")))
#define __noinline__ inline
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __grid_constant__
// Beside the data that a kernel may not write (worker/device/elf.cc).
#define __constant__ static __attribute__((section(".ws_constant")))
#define __align__(n) __attribute__((aligned(n)))

// ---- types --------------------------------------------------------------------------------------

using uint3 = ws::host::Index3;
struct __align__(8) float2 {
  float x, y;
};
struct __align__(16) float4 {
  float x, y, z, w;
};
struct __align__(16) double2 {
  double x, y;
};
struct __align__(8) int2 {
  int x, y;
};
struct __align__(16) int4 {
  int x, y, z, w;
};
struct __align__(8) uint2 {
  unsigned x, y;
};
struct __align__(16) uint4 {
  unsigned x, y, z, w;
};
struct __align__(16) longlong2 {
  long long x, y;
};

inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline double2 make_double2(double x, double y) { return {x, y}; }
inline int2 make_int2(int x, int y) { return {x, y}; }
inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

// ---- where a thread stands ----------------------------------------------------------------------

namespace ws {
namespace host {

static Context context;  // one running thread at a time: the device sets it before each switch

template <class To, class From>
inline To bits(From from) {
  static_assert(sizeof(To) == sizeof(From), "sizes differ");
  To to;
  __builtin_memcpy(&to, &from, sizeof(to));
  return to;
}

// What a card answers with a fault is one here too.
inline void check_aligned(const void* p, unsigned long bytes) {
  if (reinterpret_cast<unsigned long>(p) % bytes != 0) __builtin_trap();
}

// Calls a kernel with arguments behind pointers.
template <int... I>
struct Indexes {};
template <int N, int... I>
struct MakeIndexes : MakeIndexes<N - 1, N - 1, I...> {};
template <int... I>
struct MakeIndexes<0, I...> {
  using type = Indexes<I...>;
};

template <class Kernel>
struct Invoke;
template <class... P>
struct Invoke<void (*)(P...)> {
  static constexpr int kParameters = sizeof...(P);
  static constexpr int kBytes[kParameters + 1] = {sizeof(P)..., 0};
  template <int... I>
  static inline void call(void (*kernel)(P...), void** arguments, Indexes<I...>) {
    kernel(*static_cast<P*>(arguments[I])...);
  }
  static inline void call(void (*kernel)(P...), void** arguments) {
    call(kernel, arguments, typename MakeIndexes<kParameters>::type());
  }
};

}  // namespace host
}  // namespace ws

#define WS_EXPORTED extern "C" __attribute__((visibility("default"), used))
WS_EXPORTED int warpsmith_abi_version() { return ws::host::kAbiVersion; }
WS_EXPORTED ws::host::Context* warpsmith_context() { return &ws::host::context; }

// Makes a kernel known to the device.
#define WS_EXPORT(name)                                                                         \
  static void warpsmith_run_##name(void** arguments) {                                          \
    ws::host::Invoke<decltype(&name)>::call(&name, arguments);                                  \
  }                                                                                             \
  WS_EXPORTED const ws::host::KernelInfo* warpsmith_kernel_##name() {                           \
    using Invoke = ws::host::Invoke<decltype(&name)>;                                           \
    static constexpr ws::host::KernelInfo info = {#name, &warpsmith_run_##name, Invoke::kBytes, \
                                                  Invoke::kParameters};                         \
    return &info;                                                                               \
  }

#define threadIdx (::ws::host::context.thread)
#define blockIdx (::ws::host::context.block)
#define blockDim (::ws::host::context.block_threads)
#define gridDim (::ws::host::context.blocks)
#define warpSize 32

// ---- primitives ---------------------------------------------------------------------------------

namespace ws {

// x dimension.
inline int thread() { return static_cast<int>(host::context.thread.x); }
inline int block_threads() { return static_cast<int>(host::context.block_threads.x); }
inline int block() { return static_cast<int>(host::context.block.x); }
inline int blocks() { return static_cast<int>(host::context.blocks.x); }

// Dynamic shared memory of the block, 16-byte aligned.
inline char* shared() { return host::context.shared; }

// Every thread of the block, warp or cluster has to come here: one that ended does not count, and
// what it is missing from never goes on (the device reports a hang).
inline void sync_block() { host::context.runtime.meet(host::kBlock); }
inline void sync_warp() { host::context.runtime.meet(host::kWarp); }
inline void sync_cluster() { host::context.runtime.meet(host::kCluster); }

// Makes a number in shared memory at least `value`, whoever else does.
inline void shared_max(int* place, int value) {
  if (*place < value) *place = value;
}

// The same in global memory; blocks run beside each other.
inline void global_max(long long* place, long long value) {
  long long there = __atomic_load_n(place, __ATOMIC_RELAXED);
  while (there < value && !__atomic_compare_exchange_n(place, &there, value, false,
                                                       __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
}

// Adds to a number in shared memory, whoever else does.
inline void shared_add(int* place, int value) { *place += value; }

// The value of another lane of the warp; one's own where that lane does not exist.
template <class T>
inline T shuffle(T value, int lane) {
  static_assert(sizeof(T) % 4 == 0 && sizeof(T) <= host::kMaxShuffleBytes, "4 to 64 bytes");
  static_assert(__is_trivially_copyable(T), "shuffled values are copied byte by byte");
  host::context.runtime.shuffle(&value, sizeof(T), lane);
  return value;
}
template <class T>
inline T shuffle_xor(T value, int mask) {
  return shuffle(value, (host::context.thread_in_block & 31) ^ mask);
}
inline bool any_of_warp(bool one) {
  int any = one ? 1 : 0;
  for (int by = 1; by < 32; by *= 2) any |= shuffle_xor(any, by);
  return any != 0;
}
// The lanes of the warp that have the same number, as bits.
inline unsigned match_of_warp(int number) {
  unsigned same = 0;
  for (int lane = 0; lane < 32; ++lane)
    same |= static_cast<unsigned>(shuffle(number, lane) == number) << lane;
  return same;
}
inline int count_bits(unsigned bits) { return __builtin_popcount(bits); }
template <class T>
inline T shuffle_down(T value, int delta) {
  int lane = host::context.thread_in_block & 31;
  return shuffle(value, lane + delta > 31 ? lane : lane + delta);
}
template <class T>
inline T shuffle_up(T value, int delta) {
  int lane = host::context.thread_in_block & 31;
  return shuffle(value, lane < delta ? lane : lane - delta);
}
inline int cluster_rank() { return host::context.cluster_rank; }
inline int cluster_size() { return host::context.cluster_size; }
// The same place in the shared memory of another block of the cluster.
template <class T>
inline T* peer(T* pointer, int rank) {
  return reinterpret_cast<T*>(reinterpret_cast<char*>(pointer) +
                              (rank - host::context.cluster_rank) * host::context.shared_stride);
}

// A word and the tag of the meeting it is of, in one access; the waiting is done here, so that what
// peek gives always shows the tag.
inline void post(unsigned long long* place, unsigned word, unsigned tag) {
  *place = (static_cast<unsigned long long>(tag) << 32) | word;
  host::context.runtime.arrived(reinterpret_cast<const unsigned*>(place) + 1);
}
inline unsigned long long peek(const unsigned long long* place, unsigned tag) {
  host::context.runtime.wait(reinterpret_cast<const unsigned*>(place) + 1, tag);
  return *place;
}

// Kernels follow each other here: the one before has ended. A kernel that may start earlier and
// never says this is refused.
inline void grid_wait() { host::context.runtime.grid_wait(); }
inline void grid_launch_dependents() {}

// What is copied arrives when its group is waited for and not before; until then there are NaNs.
template <int V, class T>
inline void copy_async(char* to, const T* from) {
  constexpr int kBytes = V * sizeof(T);
  host::check_aligned(from, kBytes);
  host::check_aligned(to, kBytes);
  if (kBytes < 4) {  // a card has no such copies and copies at once
    __builtin_memcpy(to, from, kBytes);
  } else {
    host::context.runtime.copy(to, from, kBytes);
  }
}
template <int V, int Hint, class T>
inline void copy_async(char* to, const T* from) {
  copy_async<V>(to, from);
}
inline void copy_commit() { host::context.runtime.copy_commit(); }
template <int N>
inline void copy_wait() {
  host::context.runtime.copy_wait(N);
}

}  // namespace ws

// ---- CUDA's own spellings, for hand-written kernels
// ------------------------------------------------

inline void __syncthreads() { ws::sync_block(); }
inline void __syncwarp(unsigned = ~0u) { ws::sync_warp(); }
inline void __threadfence() {}
inline void __threadfence_block() {}
template <class T>
inline T __shfl_sync(unsigned, T value, int lane) {
  return ws::shuffle(value, lane & 31);
}
template <class T>
inline T __shfl_xor_sync(unsigned, T value, int mask) {
  return ws::shuffle_xor(value, mask);
}
template <class T>
inline T __shfl_down_sync(unsigned, T value, unsigned delta) {
  return ws::shuffle_down(value, static_cast<int>(delta));
}
template <class T>
inline T __shfl_up_sync(unsigned, T value, unsigned delta) {
  return ws::shuffle_up(value, static_cast<int>(delta));
}
template <class T>
inline T __ldg(const T* p) {
  return *p;
}
template <class T>
inline T __ldcs(const T* p) {
  return *p;
}
template <class T>
inline void __stcs(T* p, T value) {
  *p = value;
}

template <class T>
inline T atomicAdd(T* p, T value) {
  T old = *p;
  *p = old + value;
  ws::host::context.runtime.arrived(reinterpret_cast<const unsigned*>(p));
  return old;
}
template <class T>
inline T atomicMax(T* p, T value) {
  T old = *p;
  if (value > old) *p = value;
  return old;
}
template <class T>
inline T atomicMin(T* p, T value) {
  T old = *p;
  if (value < old) *p = value;
  return old;
}
template <class T>
inline T atomicExch(T* p, T value) {
  T old = *p;
  *p = value;
  return old;
}
template <class T>
inline T atomicCAS(T* p, T compare, T value) {
  T old = *p;
  if (old == compare) *p = value;
  return old;
}

inline int __float_as_int(float x) { return ws::host::bits<int>(x); }
inline unsigned __float_as_uint(float x) { return ws::host::bits<unsigned>(x); }
inline float __int_as_float(int x) { return ws::host::bits<float>(x); }
inline float __uint_as_float(unsigned x) { return ws::host::bits<float>(x); }
inline long long __double_as_longlong(double x) { return ws::host::bits<long long>(x); }
inline double __longlong_as_double(long long x) { return ws::host::bits<double>(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x)); }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>((static_cast<unsigned long long>(a) * b) >> 32);
}

inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline double rsqrt(double x) { return 1.0 / sqrt(x); }
inline float __expf(float x) { return expf(x); }
inline float __logf(float x) { return logf(x); }
inline float __log2f(float x) { return log2f(x); }
inline float __powf(float x, float y) { return powf(x, y); }
inline float __sinf(float x) { return sinf(x); }
inline float __cosf(float x) { return cosf(x); }
inline float __fdividef(float x, float y) { return x / y; }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __fsqrt_rn(float x) { return sqrtf(x); }
inline float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }

// float beside C's double, as in CUDA.
#define WS_HOST_MATH1(name) \
  inline float name(float x) { return name##f(x); }
WS_HOST_MATH1(exp)
WS_HOST_MATH1(exp2) WS_HOST_MATH1(expm1) WS_HOST_MATH1(log) WS_HOST_MATH1(log2) WS_HOST_MATH1(log10)
    WS_HOST_MATH1(log1p) WS_HOST_MATH1(sqrt) WS_HOST_MATH1(rsqrt) WS_HOST_MATH1(cbrt)
        WS_HOST_MATH1(sin) WS_HOST_MATH1(cos) WS_HOST_MATH1(tan) WS_HOST_MATH1(asin)
            WS_HOST_MATH1(acos) WS_HOST_MATH1(atan) WS_HOST_MATH1(sinh) WS_HOST_MATH1(cosh)
                WS_HOST_MATH1(tanh) WS_HOST_MATH1(asinh) WS_HOST_MATH1(acosh) WS_HOST_MATH1(atanh)
                    WS_HOST_MATH1(erf) WS_HOST_MATH1(erfc) WS_HOST_MATH1(fabs) WS_HOST_MATH1(floor)
                        WS_HOST_MATH1(ceil) WS_HOST_MATH1(trunc) WS_HOST_MATH1(rint)
                            WS_HOST_MATH1(nearbyint) WS_HOST_MATH1(round) WS_HOST_MATH1(lgamma)
                                WS_HOST_MATH1(tgamma)
#undef WS_HOST_MATH1
#define WS_HOST_MATH2(name) \
  inline float name(float x, float y) { return name##f(x, y); }
                                    WS_HOST_MATH2(pow) WS_HOST_MATH2(fmod) WS_HOST_MATH2(fmax)
                                        WS_HOST_MATH2(fmin) WS_HOST_MATH2(atan2)
                                            WS_HOST_MATH2(copysign) WS_HOST_MATH2(hypot)
                                                WS_HOST_MATH2(remainder)
#undef WS_HOST_MATH2
                                                    inline float fma(float x, float y, float z) {
  return fmaf(x, y, z);
}

inline int abs(int x) { return x < 0 ? -x : x; }
inline long long abs(long long x) { return x < 0 ? -x : x; }
inline float abs(float x) { return fabsf(x); }
inline double abs(double x) { return ::fabs(x); }
#define WS_HOST_MINMAX(type)                                \
  inline type min(type a, type b) { return b < a ? b : a; } \
  inline type max(type a, type b) { return a < b ? b : a; }
WS_HOST_MINMAX(int)
WS_HOST_MINMAX(unsigned) WS_HOST_MINMAX(long long) WS_HOST_MINMAX(unsigned long long)
#undef WS_HOST_MINMAX
    inline float min(float a, float b) {
  return fminf(a, b);
}
inline float max(float a, float b) { return fmaxf(a, b); }
inline double min(double a, double b) { return ::fmin(a, b); }
inline double max(double a, double b) { return ::fmax(a, b); }
