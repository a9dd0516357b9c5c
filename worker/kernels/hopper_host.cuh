// What stands on the host device for instructions of sm_90a (hopper.cuh, wgmma.cuh), so that tests run there what is written for a
// card: as far as convolutions whose taps are shifts need it (contract_shifts.cuh). Barriers count arrivals and bytes in phases of
// which who waits knows the parity alone, as on a card: who comes a phase too late waits for ever, and the device says so. Copies
// arrive at once. Warps of a group meet where products begin and where they are waited for.
#pragma once

#include <warpsmith/base.cuh>

namespace ws::hopper {

// Shared memory begins there, as the operands of products know it: behind what groups meet at.
constexpr int kHostShared = 512, kHostGroups = 16;
WS_DEVICE unsigned shared_address(const void* p) { return static_cast<unsigned>(static_cast<const char*>(p) - ws::shared()) + kHostShared; }

struct Barrier {
  unsigned phase;
  unsigned char arrivals, missing;
  unsigned short pieces;   // of 16 bytes that are to come
};
WS_DEVICE void advance(Barrier& barrier) {
  if (barrier.missing != 0 || barrier.pieces != 0) return;
  ++barrier.phase;
  barrier.missing = barrier.arrivals;
  host::context.runtime.arrived(&barrier.phase);
}
WS_DEVICE void init(Barrier& barrier, int arrivals) {
  barrier = {0, static_cast<unsigned char>(arrivals), static_cast<unsigned char>(arrivals), 0};
}
WS_DEVICE void init_done() {}
WS_DEVICE void fence_async() {}
WS_DEVICE void arrive(Barrier& barrier) {
  --barrier.missing;
  advance(barrier);
}
WS_DEVICE void arrive_expecting(Barrier& barrier, unsigned bytes) {
  barrier.pieces += bytes / 16;
  arrive(barrier);
}
WS_DEVICE void wait(Barrier& barrier, unsigned parity, const char*, int) {
  while ((barrier.phase & 1) == parity) host::context.runtime.wait(&barrier.phase, barrier.phase + 1);
}
WS_DEVICE void load_bytes(void* to, const void* from, unsigned bytes, Barrier& barrier) {
  host::check_aligned(from, 16);
  host::check_aligned(to, 16);
  memcpy(to, from, bytes);
  barrier.pieces -= bytes / 16;
  advance(barrier);
}
WS_DEVICE int take_one(int* place) { return __atomic_fetch_add(place, 1, __ATOMIC_RELAXED); }

// Where groups of threads meet, by number; one thread of a block begins them before others are there.
struct HostGroup {
  unsigned turn, arrived;
  int any, was;   // of the meeting under way, and of the one before
};
static_assert(kHostGroups * sizeof(HostGroup) <= kHostShared, "in front of what kernels have");
WS_DEVICE HostGroup& host_group(int number) { return reinterpret_cast<HostGroup*>(ws::shared())[number]; }
WS_DEVICE void begin_groups() {
  for (int i = 0; i < kHostGroups; ++i) host_group(i) = {};
}
WS_DEVICE bool group_any(int number, int threads, bool one) {
  HostGroup& group = host_group(number);
  const unsigned turn = group.turn;
  group.any |= one;
  if (++group.arrived == static_cast<unsigned>(threads)) {
    group.was = group.any;
    group.any = 0;
    group.arrived = 0;
    ++group.turn;
    host::context.runtime.arrived(&group.turn);
  } else {
    host::context.runtime.wait(&group.turn, turn + 1);
  }
  return group.was != 0;   // nobody has met again before all have left: who is missing is still here
}
WS_DEVICE void group_sync(int number, int threads) { group_any(number, threads, false); }

template <int Registers> WS_DEVICE void give_registers() {}
template <int Registers> WS_DEVICE void take_registers() {}

}  // namespace ws::hopper
