// Boxes of the `tile` skeleton: how they are configured, in which orders their elements are numbered, and which
// part of the output a block has (tile.cuh).
#pragma once
#include <warpsmith/axes.cuh>

namespace ws {

// WRITE: elements an output access. EXTENTS, TILE by axis; RASTER: axes in which neighbouring blocks differ,
// first the fastest.
//
// RUN > 0: lines of the output begin anywhere, and are the last RUN axes of a box; the vectors of each are
// those of its memory, single elements at its ends. OVERLAP > 0: so many steps of the line's slowest axis
// (axis kRank - RUN) are in the next box as well, so that a box ends with a whole piece of ALIGN elements of
// memory, and single elements are left at the ends of the tensor's own lines alone. They are at least
// ALIGN - 1 elements; ALIGN is a power of two, and WRITE of them or more.
//
// BESIDE > 1: a warp writes pieces of BESIDE lines, WRITE lines from each other, where a line alone would
// have its lanes in few banks.
//
// STRIDE > 0: lines are written by walks (TileWalks), STRIDE steps of axis REPEAT from a word to the next, CHUNKS
// walks one behind the other. The tile need then be no multiple of PACK.
template <int THREADS, int WRITE, class EXTENTS, class TILE, class RASTER, int RUN = 0, int OVERLAP = 0,
          int ALIGN = WRITE, int BESIDE = 1, int REPEAT = 0, int STRIDE = 0, int CHUNKS = 1>
struct TileConfig {
  static constexpr int kThreads = THREADS, kWrite = WRITE, kRank = EXTENTS::kRank, kRun = RUN;
  static constexpr int kOverlap = OVERLAP, kAlign = ALIGN, kBeside = BESIDE;
  static constexpr int kRepeat = REPEAT, kStride = STRIDE, kChunks = CHUNKS;
  using Extents = EXTENTS;
  using Tile = TILE;
  using Raster = RASTER;
  static constexpr int kElements = int(TILE::product());
  // From a box to the next.
  static WS_DEVICE constexpr long long step(int d) {
    return TILE::at(d) - (d == kRank - RUN ? OVERLAP : 0);
  }
  static WS_DEVICE constexpr long long tiles(int d) { return (EXTENTS::at(d) + step(d) - 1) / step(d); }
  // Whether boxes reach beyond the axis.
  static WS_DEVICE constexpr bool beyond(int d) {
    return (tiles(d) - 1) * step(d) + TILE::at(d) > EXTENTS::at(d);
  }
};

template <int V_, int PACK_, int OFFSET_, class ORDER, class PLACE, int LINE = 0, int UNIT = 1>
struct TileStream {
  static constexpr int V = V_, kPack = PACK_, kOffset = OFFSET_, kLine = LINE, kUnit = UNIT;
  using Order = ORDER;
  using Place = PLACE;
};

// The box in the order of one side: from a number of an element to its coordinates in the box. Axis
// GROUPED is counted in groups of GROUP.
template <class C, class ORDER, int GROUPED, int GROUP>
struct TileOrder {
  static WS_DEVICE constexpr int radix(int d) {
    return (int(C::Tile::at(d)) + (d == GROUPED ? GROUP - 1 : 0)) / (d == GROUPED ? GROUP : 1);
  }
  static WS_DEVICE constexpr int count() {
    int n = 1;
    for (int d = 0; d < C::kRank; ++d) n *= radix(d);
    return n;
  }
  static constexpr int kCount = count();
  static constexpr int kFastest = int(ORDER::at(0));
  // FIRST: the faster axes stay at 0, and the number is of what is left.
  template <int FIRST = 0>
  static WS_DEVICE void at(int number, int (&x)[C::kRank]) {
#pragma unroll
    for (int k = 0; k < C::kRank; ++k) {
      const int d = int(ORDER::at(k));
      const int n = radix(d);
      if (k < FIRST) {
        x[d] = 0;
      } else if (k == C::kRank - 1) {
        x[d] = number;
      } else {
        x[d] = number % n;
        number /= n;
      }
      if (d == GROUPED) x[d] *= GROUP;
    }
  }
  // How much further than straight on the next line's first element lies in shared memory behind the last
  // of the fastest axis. Not beyond an axis in groups.
  template <class PLACE>
  static WS_DEVICE int jump(const int (&x)[C::kRank]) {
    int p = -radix(kFastest) * int(PLACE::at(kFastest));
    bool carry = true;
#pragma unroll
    for (int k = 1; k < C::kRank; ++k) {
      const int d = int(ORDER::at(k));
      if (radix(d) == 1 && k < C::kRank - 1) continue;
      if (carry) p += int(PLACE::at(d));
      carry = carry && k < C::kRank - 1 && x[d] + 1 == radix(d);
      if (carry) p -= radix(d) * int(PLACE::at(d));
    }
    return p;
  }
  // Places of N neighbours from x on, whose first is p: straight on, and once around a corner.
  template <class PLACE>
  struct Around {
    int p, left, further;
    WS_DEVICE Around(const int (&x)[C::kRank], int p) : p(p), left(radix(kFastest) - x[kFastest]), further(jump<PLACE>(x)) {}
    WS_DEVICE int at(int n) const { return p + n * int(PLACE::at(kFastest)) + (n >= left ? further : 0); }
  };
  // From one element to the one BY places further along the fastest axis, or at the next one's beginning;
  // its place in shared memory is p (axes in groups have no such place).
  template <class PLACE, int BY = 1>
  static WS_DEVICE void next(int (&x)[C::kRank], int& p) {
    bool carry = true;
#pragma unroll
    for (int k = 0; k < C::kRank; ++k) {
      const int d = int(ORDER::at(k));
      if (carry) {
        x[d] += k == 0 ? BY : 1;
        p += (k == 0 ? BY : 1) * int(PLACE::at(d));
        carry = k < C::kRank - 1 && x[d] == radix(d);
        if (carry) {
          x[d] = 0;
          p -= radix(d) * int(PLACE::at(d));
        }
      }
    }
  }
};

template <int RANK, int I = 0, long long... N>
WS_DEVICE constexpr auto row_major() {
  if constexpr (I == RANK) return Axes<N...>{};
  else return row_major<RANK, I + 1, I, N...>();
}

template <class C, class G>
struct TileBox {
  using Index = typename G::Index;
  static constexpr int kRank = C::kRank;
  Index origin[kRank];

  WS_DEVICE void place(int number) {
#pragma unroll
    for (int k = 0; k < kRank; ++k) {
      const int d = int(C::Raster::at(k));
      const int n = int(C::tiles(d));
      if (k == kRank - 1) {
        origin[d] = Index(number) * int(C::step(d));
      } else {
        origin[d] = Index(number % n) * int(C::step(d));
        number /= n;
      }
    }
  }
  // Output coordinates of a place in the box, and whether they exist.
  WS_DEVICE bool coordinates(const int (&x)[kRank], Index (&c)[kRank]) const {
    bool inside = true;
#pragma unroll
    for (int k = 0; k < kRank; ++k) {
      const int d = k;
      c[d] = origin[d] + x[d];
      if (C::beyond(d)) {
        inside = inside && c[d] < Index(C::Extents::at(d));
      }
    }
    return inside;
  }
  static WS_DEVICE Index linear(const Index (&c)[kRank]) {
    Index i = c[0];
#pragma unroll
    for (int k = 0; k < kRank - 1; ++k) {
      const int d = k + 1;
      i = i * Index(C::Extents::at(d)) + c[d];
    }
    return i;
  }
};

}  // namespace ws
