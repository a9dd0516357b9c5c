// Skeleton `topk`: where the first K elements of each row are, in order; of equal ones the first
// comes first.
//
//   extern "C" __global__ void __launch_bounds__(128) first(const float* x, long long* y) {
//     G g{x, y};
//     ws::topk<G, ws::TopkConfig<256, 8, 128, 32>>(g, 4096);
//   }
//
// G gives `Index`, `Key`, `key(row, column)`, `before(a, b)`, whether the one comes before the
// other, and `put(row, place, column)`. The elements of a row are in registers of its threads, at
// most 32 a thread; in each of K rounds they agree on the first of those that are left. A NaN comes
// before and behind nothing: the last of them shares the first place, and the later of the two that
// share it is put there. Places that no element has get column 0. Grid: THREADS / THREADS_PER_ROW
// rows a block.
#pragma once
#include <warpsmith/base.cuh>

namespace ws {

template <int N_, int K_, int THREADS_, int THREADS_PER_ROW_>
struct TopkConfig {
  static constexpr int N = N_, K = K_, kThreads = THREADS_, kThreadsPerRow = THREADS_PER_ROW_;
  static constexpr int kEach = (N_ + THREADS_PER_ROW_ - 1) / THREADS_PER_ROW_;
  static_assert(kEach <= 32 && THREADS_PER_ROW_ <= 32, "a bit for each element of a thread");
};

template <class G, class C>
WS_DEVICE void topk(const G& g, typename G::Index rows) {
  using Index = typename G::Index;
  using Key = typename G::Key;
  constexpr int N = C::N, T = C::kThreadsPerRow;
  const int lane = thread() % T;
  const Index number = Index(block()) * (C::kThreads / T) + thread() / T;
  const Index row = number < rows ? number : rows - 1;  // beside the last row it is repeated
  Key keys[C::kEach];
  unsigned left = 0;  // elements of this thread that have no place yet
  int unordered = -1;
#pragma unroll
  for (int j = 0; j < C::kEach; ++j) {
    const int column = j * T + lane;
    keys[j] = Key();
    if (column < N) keys[j] = g.key(row, column);
    if (column < N && keys[j] == keys[j]) left |= 1u << j;
    if (column < N && keys[j] != keys[j]) unordered = column;
  }
#pragma unroll
  for (int by = T / 2; by > 0; by /= 2) {
    const int other = shuffle_xor(unordered, by);
    if (other > unordered) unordered = other;
  }
#pragma unroll 1
  for (int place = 0; place < C::K; ++place) {
    Key first = Key();
    int from = N;  // N: none is left
#pragma unroll
    for (int j = 0; j < C::kEach; ++j) {
      if ((left >> j & 1) == 0 || (from < N && !G::before(keys[j], first))) continue;
      first = keys[j];
      from = j * T + lane;
    }
#pragma unroll
    for (int by = T / 2; by > 0; by /= 2) {
      const Key other = shuffle_xor(first, by);
      const int where = shuffle_xor(from, by);
      const bool wins = from == N || G::before(other, first) || (other == first && where < from);
      if (where == N || !wins) continue;
      first = other;
      from = where;
    }
    if (from < N && from % T == lane) left &= ~(1u << (from / T));
    if (from == N) from = 0;
    if (place == 0 && unordered > from) from = unordered;
    if (number < rows && lane == place % T) g.put(row, place, from);
  }
}

}  // namespace ws
