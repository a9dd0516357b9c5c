// Skeleton `map`: every thread computes output elements, UNROLL vectors of V consecutive ones: all
// loads first, so that they are in flight together, then all stores.
//
//   extern "C" __global__ void __launch_bounds__(256) relu(const float* x, float* y) {
//     G g{x, y};
//     ws::map<G, 4, 2, false, false>(g, 1 << 20);
//   }
//
// G gives `Index`, `Values<V>`, `load<V>(i, values)` and `emit<V>(i, values)` for output elements
// [i, i + V) in row-major order. count % V elements are left for V = 1. Grid: a block for every
// V * UNROLL * THREADS elements, or any number of blocks when PERSISTENT.
//
// With SEARCHES, elements are written at places that a table names, and of those that name one the
// last writes: a block finds out who that is for all its elements, once for G::kPart of them that
// follow each other. G gives further
//   template <int K> static constexpr int candidates();
//   template <int K> long long candidate(Index i, Index c) const;
// the number of candidate c if it names the place of element i, -1 if not, and Values<V> has
// `places`, where the last one is found. Dynamic shared memory: an int for each search and part of
// the elements that a block works on at once, one part more than fit.
#pragma once
#include <warpsmith/base.cuh>

namespace ws {

// What the searches of one tile have found.
template <class Index>
struct Places {
  const int* found;
  Index first;  // part
  int parts;
  // The last that names the place of element i; -1: none.
  template <int K, int PART>
  WS_DEVICE long long last(Index i) const {
    return found[K * parts + int(i / PART - first)];
  }
};

template <int K, int SEARCHES, class G>
WS_DEVICE void search_from(const G& g, int* found, typename G::Index first, int parts) {
  using Index = typename G::Index;
  constexpr Index kCandidates = G::template candidates<K>();
  for (Index s = thread(); s < parts * kCandidates; s += block_threads()) {
    const Index part = s / kCandidates;
    const long long c = g.template candidate<K>((first + part) * G::kPart, s % kCandidates);
    if (c >= 0) shared_max(found + K * parts + part, int(c));
  }
  if constexpr (K + 1 < SEARCHES) search_from<K + 1, SEARCHES>(g, found, first, parts);
}

// For elements [begin, end), all threads of the block together. AGAIN: it may not be the first time.
template <int SEARCHES, bool AGAIN, class G>
WS_DEVICE Places<typename G::Index> search(const G& g, typename G::Index begin, typename G::Index end) {
  int* const found = reinterpret_cast<int*>(shared());
  const typename G::Index first = begin / G::kPart;
  const int parts = int((end - 1) / G::kPart - first) + 1;
  if constexpr (AGAIN) sync_block();
  for (int p = thread(); p < SEARCHES * parts; p += block_threads()) found[p] = -1;
  sync_block();
  search_from<0, SEARCHES>(g, found, first, parts);
  sync_block();
  return {found, first, parts};
}

template <class G, int V, int UNROLL, bool PERSISTENT, bool REVERSE, int SEARCHES = 0>
WS_DEVICE void map(const G& g, typename G::Index count) {
  using Index = typename G::Index;
  const Index vectors = count / V;
  const Index tile_vectors = Index(UNROLL) * block_threads();
  const Index tiles = (vectors + tile_vectors - 1) / tile_vectors;
  for (Index step = block(); step < tiles; step += blocks()) {
    const Index tile = REVERSE ? tiles - 1 - step : step;
    const Index begin = tile * tile_vectors, first = begin + thread();
    typename G::template Values<V> values[UNROLL];
    const auto find = [&] {
      if constexpr (SEARCHES > 0) {
        const Index end = minimum(begin + tile_vectors, vectors);
        const auto places = search<SEARCHES, PERSISTENT>(g, begin * V, end * V);
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) values[u].places = places;
      }
    };
    if (begin + tile_vectors <= vectors) {
#pragma unroll
      for (int u = 0; u < UNROLL; ++u) g.template load<V>((first + u * block_threads()) * V, values[u]);
      find();
#pragma unroll
      for (int u = 0; u < UNROLL; ++u) g.template emit<V>((first + u * block_threads()) * V, values[u]);
    } else {
#pragma unroll
      for (int u = 0; u < UNROLL; ++u) {
        const Index i = first + u * block_threads();
        if (i < vectors) g.template load<V>(i * V, values[u]);
      }
      find();
#pragma unroll
      for (int u = 0; u < UNROLL; ++u) {
        const Index i = first + u * block_threads();
        if (i < vectors) g.template emit<V>(i * V, values[u]);
      }
    }
    if constexpr (!PERSISTENT) break;
  }
  if constexpr (V > 1) {
    if (block() == 0 && vectors * V < count) {
      const Index i = vectors * V + thread();
      typename G::template Values<1> values;
      if constexpr (SEARCHES > 0) values.places = search<SEARCHES, true>(g, vectors * V, count);
      if (i < count) {
        g.template load<1>(i, values);
        g.template emit<1>(i, values);
      }
    }
  }
}

}  // namespace ws
