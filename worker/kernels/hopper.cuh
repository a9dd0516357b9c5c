// What sm_90a has beside ordinary loads and arithmetic: barriers that count bytes, the copy engine that
// moves boxes of tensors (TMA), and products by groups of four warps (wgmma). Names follow PTX; each
// function is an instruction or two. Of one thread where nothing else is said. No kernel of other cards includes it; on the host
// device some of it is there for tests (hopper_host.cuh).
#pragma once

#include <warpsmith/base.cuh>
#ifdef WS_HOST
#include <warpsmith/hopper_host.cuh>
#endif

namespace ws::hopper {

// What the driver makes of a tensor's address, sizes and box; a parameter of the kernel: `const
// __grid_constant__ Map`.
struct alignas(64) Map {
  unsigned long long words[16];
};

#ifndef WS_HOST
WS_DEVICE unsigned shared_address(const void* p) { return static_cast<unsigned>(__cvta_generic_to_shared(p)); }
#endif

// Two floats to 8 bytes of shared memory, in one access though the compiler sees neighbours apart. In order with what it does
// with memory itself.
WS_DEVICE void store_pair(float* p, float first, float second) {
#ifndef WS_HOST
  asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(shared_address(p)), "f"(first), "f"(second) : "memory");
#else
  p[0] = first, p[1] = second;
#endif
}

// ---- barriers

#ifndef WS_HOST
// A word of shared memory in phases, each of which ends when so many have arrived and so many bytes have come.
struct Barrier {
  unsigned long long word;
};

WS_DEVICE void init(Barrier& barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(&barrier)), "r"(arrivals) : "memory");
}

// Makes what `init` wrote known to the cluster's threads and to the copy engine.
WS_DEVICE void init_done() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

WS_DEVICE void arrive(Barrier& barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(&barrier)) : "memory");
}
#endif

// At the barrier that lies at the same place in block `rank` of the cluster. It says that this thread has
// done with what lies there, and makes nothing known that it wrote: a release over the cluster would wait
// for all of its stores, at each step.
WS_DEVICE void arrive_at(Barrier& barrier, unsigned rank) {
  asm volatile(
      "{\n.reg .b32 remote;\nmapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [remote];\n}" ::"r"(shared_address(&barrier)),
      "r"(rank)
      : "memory");
}

// The same, and what the thread wrote before, or knows to have been written, is there for whoever waits with
// `wait_for_blocks`.
WS_DEVICE void tell(Barrier& barrier, unsigned rank) {
  asm volatile(
      "{\n.reg .b32 remote;\nmapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [remote];\n}" ::"r"(shared_address(&barrier)),
      "r"(rank)
      : "memory");
}

#ifndef WS_HOST
WS_DEVICE void arrive_expecting(Barrier& barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&barrier)), "r"(bytes)
               : "memory");
}

// How many have taken one before of what threads of all blocks count in `place`. (Additions are gathered over a warp's threads by
// the compiler, and waited for at once.)
WS_DEVICE int take_one(int* place) {
  int before;
  asm volatile("atom.relaxed.gpu.global.inc.u32 %0, [%1], 0x7fffffff;" : "=r"(before) : "l"(place) : "memory");
  return before;
}
#endif

#ifdef WS_BOUND_WAITS   // to find where a kernel hangs (worker/device/waited.h)

// Where who gives up first says so, in words of host memory: whether one has, whether it is said, the stage, the block, the
// thread, and the barrier's name. Set by who loads the module.
extern "C" __constant__ unsigned* ws_waited;

[[noreturn]] WS_DEVICE void give_up(const char* name, int stage) {
  volatile unsigned* const said = ws_waited;
  if (said != nullptr && atomicCAS(ws_waited, 0u, 1u) == 0) {
    said[2] = stage, said[3] = blockIdx.x, said[4] = threadIdx.x;
    for (int i = 0, word = 0; i < 24; ++i) {
      word |= static_cast<unsigned>(*name) << i % 4 * 8;
      if (*name != 0) ++name;
      if (i % 4 == 3) said[5 + i / 4] = word, word = 0;
    }
    __threadfence_system();
    said[1] = 1;
    __threadfence_system();
  }
  __nanosleep(1000000);   // or others end the run before that is written
  __trap();
}

#define WS_WAIT(SCOPE)                                                                                             \
  for (int tries = 0;; ++tries) {                                                                                  \
    unsigned done;                                                                                                 \
    asm volatile("{\n.reg .pred done;\nmbarrier.try_wait.parity" SCOPE ".shared::cta.b64 done, [%1], %2;\n"         \
                 "selp.u32 %0, 1, 0, done;\n}" : "=r"(done) : "r"(shared_address(&barrier)), "r"(parity) : "memory"); \
    if (done != 0) break;                                                                                          \
    if (tries > 200000) give_up(name, stage);                                                                      \
    __nanosleep(1000);                                                                                             \
  }
#else
#define WS_WAIT(SCOPE)                                                        \
  (void)name, (void)stage;                                                    \
  asm volatile(                                                               \
      "{\n.reg .pred done;\nagain:\n"                                         \
      "mbarrier.try_wait.parity" SCOPE ".shared::cta.b64 done, [%0], %1;\n"   \
      "@done bra end;\nbra again;\nend:\n}" ::"r"(shared_address(&barrier)), \
      "r"(parity)                                                             \
      : "memory");
#endif

// Until the phase of this parity has ended: 0 of the first, third, ... phase. `name` and `stage`: of the barrier, for people.
#ifndef WS_HOST
WS_DEVICE void wait(Barrier& barrier, unsigned parity, const char* name, int stage) { WS_WAIT("") }
#endif

// The same, for what threads of all of the cluster's blocks wrote before they told.
WS_DEVICE void wait_for_blocks(Barrier& barrier, unsigned parity, const char* name, int stage) { WS_WAIT(".acquire.cluster") }
#undef WS_WAIT

// ---- the copy engine

WS_DEVICE void prefetch(const Map& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

// The box that begins at element (x, y, z), x innermost; places outside of the tensor come as zero. ONCE: nobody else wants it:
// it goes from the second-level cache first, and what others left there stays (and need not be written back for it).
template <bool ONCE = false>
WS_DEVICE void load_box(void* to, const Map& map, Barrier& barrier, int x, int y, int z) {
  if constexpr (ONCE) {
    unsigned long long policy;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, {%3, %4, %5}], [%2], %6;" ::"r"(
            shared_address(to)),
        "l"(&map), "r"(shared_address(&barrier)), "r"(x), "r"(y), "r"(z), "l"(policy)
        : "memory");
    return;
  }
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];" ::"r"(
          shared_address(to)),
      "l"(&map), "r"(shared_address(&barrier)), "r"(x), "r"(y), "r"(z)
      : "memory");
}

// To the same place of each block of the cluster in `blocks` (a bit each), whose barrier at the same place
// counts the bytes.
WS_DEVICE void load_box_to(void* to, const Map& map, Barrier& barrier, unsigned short blocks, int x, int y, int z) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
      "[%1, {%3, %4, %5}], [%2], %6;" ::"r"(shared_address(to)),
      "l"(&map), "r"(shared_address(&barrier)), "r"(x), "r"(y), "r"(z), "h"(blocks)
      : "memory");
}

// The places from (w, h) of image n on that a map's window takes, each moved by (across, down): of each the channels from c on;
// the map says how many. What is outside of the image is zero.
WS_DEVICE void load_window(void* to, const Map& map, Barrier& barrier, int c, int w, int h, int n, int across, int down) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], [%2], {%7, %8};" ::"r"(
          shared_address(to)),
      "l"(&map), "r"(shared_address(&barrier)), "r"(c), "r"(w), "r"(h), "r"(n), "h"(static_cast<unsigned short>(across)),
      "h"(static_cast<unsigned short>(down))
      : "memory");
}
// Of volumes, from (w, h, d) of volume n on.
WS_DEVICE void load_window(void* to, const Map& map, Barrier& barrier, int c, int w, int h, int d, int n, int across, int down, int deep) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6, %7}], [%2], {%8, "
      "%9, %10};" ::"r"(shared_address(to)),
      "l"(&map), "r"(shared_address(&barrier)), "r"(c), "r"(w), "r"(h), "r"(d), "r"(n), "h"(static_cast<unsigned short>(across)),
      "h"(static_cast<unsigned short>(down)), "h"(static_cast<unsigned short>(deep))
      : "memory");
}

// The same, to all blocks of the cluster in `blocks`, as load_box_to.
WS_DEVICE void load_window_to(void* to, const Map& map, Barrier& barrier, unsigned short blocks, int c, int w, int h, int n, int across,
                              int down) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%3, %4, %5, %6}], "
      "[%2], {%7, %8}, %9;" ::"r"(shared_address(to)),
      "l"(&map), "r"(shared_address(&barrier)), "r"(c), "r"(w), "r"(h), "r"(n), "h"(static_cast<unsigned short>(across)),
      "h"(static_cast<unsigned short>(down)), "h"(blocks)
      : "memory");
}
WS_DEVICE void load_window_to(void* to, const Map& map, Barrier& barrier, unsigned short blocks, int c, int w, int h, int d, int n,
                              int across, int down, int deep) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%3, %4, %5, %6, "
      "%7}], [%2], {%8, %9, %10}, %11;" ::"r"(shared_address(to)),
      "l"(&map), "r"(shared_address(&barrier)), "r"(c), "r"(w), "r"(h), "r"(d), "r"(n), "h"(static_cast<unsigned short>(across)),
      "h"(static_cast<unsigned short>(down)), "h"(static_cast<unsigned short>(deep)), "h"(blocks)
      : "memory");
}

// Bytes that follow each other, a multiple of 16 from multiples of 16 on.
#ifndef WS_HOST
WS_DEVICE void load_bytes(void* to, const void* from, unsigned bytes, Barrier& barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared_address(to)),
               "l"(from), "r"(bytes), "r"(shared_address(&barrier))
               : "memory");
}
#endif

// Places outside of the tensor are left out.
WS_DEVICE void store_box(const Map& map, const void* from, int x, int y, int z) {
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(&map),
               "r"(shared_address(from)), "r"(x), "r"(y), "r"(z)
               : "memory");
}

WS_DEVICE void commit_stores() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// Until at most `Left` groups of stores of this thread have not yet read their shared memory.
template <int Left>
WS_DEVICE void wait_stores_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(Left) : "memory");
}
template <int Left>
WS_DEVICE void wait_stores() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(Left) : "memory");
}

// What this thread wrote to shared memory is seen by the copy engine and by wgmma.
#ifndef WS_HOST
WS_DEVICE void fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
#endif

// ---- groups of warps

// A thread of a block, before others meet by groups.
#ifndef WS_HOST
WS_DEVICE void begin_groups() {}

// A barrier of `threads` threads, by number: 0 is __syncthreads's.
WS_DEVICE void group_sync(int number, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}
#endif

// Arrives there without waiting; who waits with group_sync goes on when `threads` have come.
WS_DEVICE void group_arrive(int number, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

#ifndef WS_HOST
// The same as group_sync; whether `one` holds for any of the threads.
WS_DEVICE bool group_any(int number, int threads, bool one) {
  int any;
  asm volatile(
      "{\n.reg .pred in, out;\nsetp.ne.s32 in, %1, 0;\nbarrier.cta.red.or.pred out, %2, %3, in;\n"
      "selp.s32 %0, 1, 0, out;\n}" : "=r"(any) : "r"(int(one)), "r"(number), "r"(threads) : "memory");
  return any != 0;
}

// All warps of a warpgroup: registers a thread from here on, a multiple of 8 from 24 to 256.
template <int Registers>
WS_DEVICE void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Registers));
}
template <int Registers>
WS_DEVICE void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Registers));
}
#endif

// Four 8x8 matrices of 16-bit elements from registers: lane l names the row of 16 bytes that is row l % 8
// of matrix l / 8.
WS_DEVICE void store_matrices(void* row, unsigned a, unsigned b, unsigned c, unsigned d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared_address(row)), "r"(a),
               "r"(b), "r"(c), "r"(d)
               : "memory");
}

}  // namespace ws::hopper
