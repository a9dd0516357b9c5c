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
#pragma once
#include <warpsmith/base.cuh>

namespace ws {

template <class G, int V, int UNROLL, bool PERSISTENT, bool REVERSE>
WS_DEVICE void map(const G& g, typename G::Index count) {
  using Index = typename G::Index;
  const Index vectors = count / V;
  const Index tile_vectors = Index(UNROLL) * block_threads();
  const Index tiles = (vectors + tile_vectors - 1) / tile_vectors;
  for (Index step = block(); step < tiles; step += blocks()) {
    const Index tile = REVERSE ? tiles - 1 - step : step;
    const Index first = tile * tile_vectors + thread();
    typename G::template Values<V> values[UNROLL];
    if (tile * tile_vectors + tile_vectors <= vectors) {
#pragma unroll
      for (int u = 0; u < UNROLL; ++u) g.template load<V>((first + u * block_threads()) * V, values[u]);
#pragma unroll
      for (int u = 0; u < UNROLL; ++u) g.template emit<V>((first + u * block_threads()) * V, values[u]);
    } else {
#pragma unroll
      for (int u = 0; u < UNROLL; ++u) {
        const Index i = first + u * block_threads();
        if (i < vectors) g.template load<V>(i * V, values[u]);
      }
#pragma unroll
      for (int u = 0; u < UNROLL; ++u) {
        const Index i = first + u * block_threads();
        if (i < vectors) g.template emit<V>(i * V, values[u]);
      }
    }
    if constexpr (!PERSISTENT) break;
  }
  if constexpr (V > 1) {
    if (block() == 0) {
      const Index i = vectors * V + thread();
      if (i < count) {
        typename G::template Values<1> values;
        g.template load<1>(i, values);
        g.template emit<1>(i, values);
      }
    }
  }
}

}  // namespace ws
