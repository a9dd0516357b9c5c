// Skeleton `tile`: a map whose inputs do not lie in the order of its output (transposes, permutations,
// views that change the fastest axis), so that reading and writing in one order would leave most of each
// memory transaction unused. Values go through shared memory.
//
//   struct G {
//     using Index = int;
//     static constexpr int kStreams = 1;                          // what goes through shared memory
//     template <int S> using Element = float;                     // 1, 2, 4 or 8 bytes
//     template <int V> struct Staged { float s0[V]; };
//     template <int S, int V> static WS_DEVICE auto& of(Staged<V>& staged) { return staged.s0; }
//     const float* x; float* y;
//     template <int S, int V> WS_DEVICE void load(const Index (&c)[2], float (&out)[V]) const {
//       ws::load<V, float, 0>(x + c[1] * 4096 + c[0], out);
//     }
//     template <int V> WS_DEVICE void emit(const Index (&c)[2], Index i, const Staged<V>& staged) const {
//       ws::store<V, float, 0>(y + i, staged.s0);
//     }
//   };
//   extern "C" __global__ void __launch_bounds__(256) transpose(const float* x, float* y) {
//     using C = ws::TileConfig<256, 4, ws::Axes<4096, 4096>, ws::Axes<64, 64>, ws::Axes<1, 0>>;
//     ws::tile<G, C, ws::TileStream<4, 1, 0, ws::Axes<0, 1>, ws::Axes<1, 65>>>(G{x, y});
//   }
//
// Axes are the output's, outermost first; extents may be any, also where a tile does not divide them. A
// block moves one box of TILE elements. `c` are output coordinates and i is the element's row-major number.
//
// load<S, V>(c, out) gives V values from c on, in stream S's own order (neighbours in its memory, or what
// a map makes of them); emit<V>(c, i, staged) writes outputs [i, i + V). A vector may run over the end of
// an axis where the tile has that axis whole: then its neighbours in memory go on with the next one.
//
// A stream has V elements an access; ORDER, its axes from the fastest in its memory on; and PLACE, how far
// apart neighbours on each axis lie in shared memory, in elements. PACK elements along the output's
// fastest axis are put together in registers into one word of shared memory (1- and 2-byte types): their
// place is PACK wide, the fastest axis' PLACE holds for PACK of them, and its tile is a multiple of PACK.
//
// LINE > 0: the first LINE axes of ORDER are a line of the stream's memory, which is copied as it lies there, in
// aligned pieces of 16 bytes whose ends may belong to others; at<S>(c), the address of an element, is asked
// for in place of load. PLACE is then the same as in memory modulo 16 bytes, so that all pieces stay
// aligned wherever a line begins; between lines there are at least 15 bytes, and behind the last and before
// the first 15. V and PACK are 1. UNIT neighbours along the output's fastest axis are neighbours in memory,
// and lie at whole multiples of UNIT, wherever they are.
//
// Wanted of the caller (worker/kernels/tile_rule.h finds such tiles): V divides the length of each line
// of the tile and the address where it begins.
//
// Dynamic shared memory: the end of the last stream's bytes (OFFSET + its elements' places).
#pragma once
#include <warpsmith/tile_stages.cuh>
#include <warpsmith/tile_walks.cuh>

namespace ws {

// Writes a box whose lines are whole vectors.
template <class G, class C, class ORDER, class STAGES>
WS_DEVICE void tile_write(const G& g, const TileBox<C, G>& box) {
  using Index = typename G::Index;
  constexpr int W = C::kWrite, kVectors = C::kElements / W;
  static_assert(C::kElements % W == 0, "lines of a tile are whole vectors");
#pragma unroll 4
  for (int turn = 0; turn < (kVectors + C::kThreads - 1) / C::kThreads; ++turn) {
    const int vector = turn * C::kThreads + thread();
    if (kVectors % C::kThreads != 0 && vector >= kVectors) break;
    int x[C::kRank];
    Index c[C::kRank];
    ORDER::at(vector * W, x);
    if (!box.coordinates(x, c)) continue;
    typename G::template Staged<W> staged;
    STAGES::template take<W, ORDER>(g, box, vector * W, x, staged);
    g.template emit<W>(c, TileBox<C, G>::linear(c), staged);
  }
}

// Grid: a block for each box.
template <class G, class C, class... STREAMS>
WS_DEVICE void tile(const G& g) {
  using Stages = TileStages<G, C, 0, STREAMS...>;
  using Order = TileOrder<C, decltype(row_major<C::kRank>()), -1, 1>;
  TileBox<C, G> box;
  box.place(block());
  Stages::bring(g, box);
  if constexpr (((STREAMS::kLine > 0) || ...)) copy_wait<0>();
  sync_block();
  if constexpr (C::kStride > 0) {
    const TileWalks<G, C, Order, Stages> walks(g, box);
    walks.words();
    walks.ends();
  } else if constexpr (C::kRun > 0) {
    const TileLines<G, C, Order, Stages> lines(g, box);
    lines.vectors();
    lines.ends();
  } else {
    tile_write<G, C, Order, Stages>(g, box);
  }
}

}  // namespace ws
