// Skeleton `scatter`: sums of rows into places that their keys name, in time proportional to places and
// rows. Three kernels, and the same bits in each run, for no float is added by who comes first:
//
//  * `scatter_lists`: which rows each place has. Places are dealt to warps, and every warp goes through the
//    keys of all rows in their order, twice: it counts what its places have, which tells where their lists
//    begin among those of all places, and then writes the numbers of their rows one behind the other. It
//    needs no atomics in global memory, and lists are in the order of the rows.
//  * `scatter_parts`: kPart neighbours among all that lists hold, from a multiple of kPart on, are a part.
//    Where a place has all of one, its rows are added up here, so that no thread goes through a long list.
//  * `scatter_sum`: every thread adds up what places have for UNROLL vectors of V of their elements: rows up
//    to the first whole part, the parts, the rows behind them. What is made of a sum is written at once.
//
// G gives the meaning: Index; kPlaces and kRows, of each of kBatches batches, which have keys of their own;
// kElements that a place has, and as many a row; kPart, 0: no parts; Acc with identity() and
// combine(acc, next);
//   int place(int batch, int row) const;   // that the row is added to; -1: none
//   static void element(Index i, Index (&c)[kRank]);   // of V neighbours, number i on: coordinates of the first
//   static void element_of(int place, int e, Index (&c)[kRank]);   // `place` counts on from batch to batch
//   static int place_of(const Index (&c)[kRank]), within(const Index (&c)[kRank]);   // and back: place, e
//   template <int V> void add(const Index (&c)[kRank], int row, Acc (&acc)[V]) const;
//   template <int V> void emit(const Index (&c)[kRank], const Acc (&acc)[V]) const;
//
// `spans`: begin and end of each place's list in `rows`. `parts`: the place that has all of a part; -1:
// none.
#pragma once
#include <warpsmith/base.cuh>

namespace ws {

// Keys that a lane looks at before it asks whether any of its warp's is of one of their places.
inline constexpr int kKeysAtOnce = 4;

// WARPS of a block, PLACES of a warp; keys of TILE rows at a time are in shared memory, a multiple of
// 32 * kKeysAtOnce. Grid: for each batch a block for every WARPS * PLACES places. Dynamic shared memory:
// TILE + WARPS * PLACES ints.
template <class G, int WARPS, int PLACES, int TILE>
struct ScatterLists {
  static constexpr int kBlocks = (G::kPlaces + WARPS * PLACES - 1) / (WARPS * PLACES);
  static constexpr int kStep = 32 * kKeysAtOnce;
  static_assert(TILE % kStep == 0, "a tile is whole steps of a warp");

  const G& g;
  int* const keys = reinterpret_cast<int*>(shared());
  int* const next = keys + TILE + thread() / 32 * PLACES;   // of each place: how many, then where the next row goes
  const int lane = thread() % 32;
  const int batch = block() / kBlocks;
  const int low = ((block() % kBlocks) * WARPS + thread() / 32) * PLACES;
  const int high = minimum(low + PLACES, int(G::kPlaces));
  int before = 0;   // rows that name earlier places of the batch; then where the list behind all of the warp's begins

  WS_DEVICE bool is_mine(int key) const { return key >= low && key < high; }

  WS_DEVICE void bring(int first) {
    sync_block();
    for (int t = thread(); t < TILE; t += 32 * WARPS) {
      keys[t] = first + t < G::kRows ? g.place(batch, first + t) : -1;
    }
    sync_block();
  }

  WS_DEVICE void count() {
    for (int i = lane; i < PLACES; i += 32) next[i] = 0;
    for (int first = 0; first < G::kRows; first += TILE) {
      bring(first);
#pragma unroll 4
      for (int t = lane; t < TILE; t += 32) {
        const int key = keys[t];
        before += key >= 0 && key < low;
        if (is_mine(key)) shared_add(next + (key - low), 1);
      }
    }
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2) before += shuffle_xor(before, mask);
    sync_warp();
  }

  // From how many rows places have to where their lists are.
  WS_DEVICE void place(int* spans) {
    before += batch * G::kRows;
    for (int first = 0; first < PLACES; first += 32) {
      const int i = first + lane, own = i < PLACES ? next[i] : 0;
      int sum = own;
#pragma unroll
      for (int by = 1; by < 32; by *= 2) {
        const int other = shuffle_up(sum, by);
        if (lane >= by) sum += other;
      }
      if (i < PLACES) next[i] = before + sum - own;
      if (low + i < high) {
        int* const span = spans + 2 * (batch * G::kPlaces + low + i);
        span[0] = before + sum - own;
        span[1] = before + sum;
      }
      before += shuffle(sum, 31);
    }
    sync_warp();
  }

  WS_DEVICE void list(const int* spans, int* rows, int* parts) {
    for (int first = 0; first < G::kRows; first += TILE) {
      if constexpr (G::kRows > TILE) bring(first);
#pragma unroll 1
      for (int step = 0; step < TILE; step += kStep) {
        int key[kKeysAtOnce];
        bool any = false;
#pragma unroll
        for (int k = 0; k < kKeysAtOnce; ++k) {
          key[k] = keys[step + k * 32 + lane];
          any = any || is_mine(key[k]);
        }
        if (!any_of_warp(any)) continue;
#pragma unroll
        for (int k = 0; k < kKeysAtOnce; ++k) {
          const bool mine = is_mine(key[k]);
          const unsigned same = match_of_warp(mine ? key[k] : -1);
          int at = 0;
          if (mine) {
            at = next[key[k] - low] + count_bits(same & ((1u << lane) - 1));
            rows[at] = first + step + k * 32 + lane;
            if constexpr (G::kPart > 0) {
              const int place = batch * G::kPlaces + key[k];
              if (at % G::kPart == 0) parts[at / G::kPart] = at + G::kPart <= spans[2 * place + 1] ? place : -1;
            }
          }
          sync_warp();
          if (mine && same >> lane == 1) next[key[k] - low] = at + 1;
          sync_warp();
        }
      }
    }
  }

  // Parts that begin where no row is, behind all of the batch's.
  WS_DEVICE void close(int* parts) const {
    if constexpr (G::kPart > 0) {
      if (low >= high || high < G::kPlaces) return;
      const int first = (before + G::kPart - 1) / G::kPart;
      for (int part = first + lane; part * G::kPart < (batch + 1) * G::kRows; part += 32) parts[part] = -1;
    }
  }
};

template <class G, int WARPS, int PLACES, int TILE>
WS_DEVICE void scatter_lists(const G& g, int* spans, int* rows, int* parts) {
  ScatterLists<G, WARPS, PLACES, TILE> lists{g};
  lists.count();
  lists.place(spans);
  lists.list(spans, rows, parts);
  lists.close(parts);
}

// Rows [from, to) of the lists.
template <int V, class G>
WS_DEVICE void scatter_add(const G& g, const typename G::Index (&c)[G::kRank], const int* rows, int from, int to,
                           typename G::Acc (&acc)[V]) {
#pragma unroll 4
  for (int at = from; at < to; ++at) g.template add<V>(c, rows[at], acc);
}

// `partial`: of each part kElements. Grid: a thread for each V of them.
template <class G, int V>
WS_DEVICE void scatter_parts(const G& g, const int* rows, const int* parts, typename G::Acc* partial) {
  constexpr int kVectors = G::kElements / V;
  constexpr int kParts = (G::kBatches * G::kRows + G::kPart - 1) / G::kPart;
  const long long number = static_cast<long long>(block()) * block_threads() + thread();
  const int part = int(number / kVectors), e = int(number % kVectors) * V;
  if (part >= kParts) return;
  const int place = parts[part];
  if (place < 0) return;
  typename G::Index c[G::kRank];
  G::element_of(place, e, c);
  typename G::Acc acc[V];
#pragma unroll
  for (int v = 0; v < V; ++v) acc[v] = G::identity();
  scatter_add<V>(g, c, rows, part * G::kPart, (part + 1) * G::kPart, acc);
#pragma unroll
  for (int v = 0; v < V; ++v) partial[static_cast<long long>(part) * G::kElements + e + v] = acc[v];
}

// The sum of V elements of a place, whose rows are [from, to) of the lists, and what is made of it.
template <int V, class G>
WS_DEVICE void scatter_place(const G& g, const typename G::Index (&c)[G::kRank], const int* rows,
                             const typename G::Acc* partial, int from, int to) {
  typename G::Acc acc[V];
#pragma unroll
  for (int v = 0; v < V; ++v) acc[v] = G::identity();
  if constexpr (G::kPart > 0) {
    const int first = (from + G::kPart - 1) / G::kPart, last = to / G::kPart;
    if (first < last) {
      scatter_add<V>(g, c, rows, from, first * G::kPart, acc);
      const typename G::Acc* const mine = partial + G::within(c);
#pragma unroll 4
      for (int part = first; part < last; ++part) {
#pragma unroll
        for (int v = 0; v < V; ++v) G::combine(acc[v], mine[static_cast<long long>(part) * G::kElements + v]);
      }
      from = last * G::kPart;
    }
  }
  scatter_add<V>(g, c, rows, from, to, acc);
  g.template emit<V>(c, acc);
}

// Grid: a thread for every UNROLL vectors of V of `count` elements. It looks up all their lists at once.
template <class G, int V, int UNROLL>
WS_DEVICE void scatter_sum(const G& g, const int* spans, const int* rows, const typename G::Acc* partial,
                           typename G::Index count) {
  using Index = typename G::Index;
  const long long first = static_cast<long long>(block()) * block_threads() * UNROLL + thread();
  Index c[UNROLL][G::kRank];
  int from[UNROLL], to[UNROLL];
#pragma unroll
  for (int u = 0; u < UNROLL; ++u) {
    const long long number = first + u * block_threads();
    if (number >= count / V) continue;
    G::element(Index(number) * V, c[u]);
    const int* const span = spans + 2 * G::place_of(c[u]);
    from[u] = span[0];
    to[u] = span[1];
  }
#pragma unroll
  for (int u = 0; u < UNROLL; ++u) {
    if (first + u * block_threads() < count / V) scatter_place<V>(g, c[u], rows, partial, from[u], to[u]);
  }
}

}  // namespace ws
