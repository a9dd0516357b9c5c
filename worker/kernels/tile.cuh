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

// One stream of the box.
template <class G, class C, class ST, int S>
struct TileStage {
  using Index = typename G::Index;
  using Element = typename G::template Element<S>;
  static constexpr int kRank = C::kRank, V = ST::V, P = ST::kPack, kLast = C::kRank - 1;
  using Order = TileOrder<C, typename ST::Order, kLast, P>;
  static constexpr int kVectors = Order::kCount / V;
  static constexpr int kTurns = (kVectors + C::kThreads - 1) / C::kThreads;
  static_assert(Order::kCount % V == 0, "lines of a tile are whole vectors");
  static_assert(P == 1 || C::kStride > 0 || C::Tile::at(kLast) % P == 0, "words are whole");

  // Elements between the stream's first byte of shared memory, which is aligned, and the box's first element.
  static WS_DEVICE int skew(const G& g, const TileBox<C, G>& box) {
    if constexpr (ST::kLine > 0) {
#ifdef WS_HOST
      const auto at = reinterpret_cast<unsigned long>(g.template at<S>(box.origin));
#else
      const auto at = static_cast<unsigned>(reinterpret_cast<unsigned long long>(g.template at<S>(box.origin)));
#endif
      return int(at % 16 / sizeof(Element));
    }
    return 0;
  }
  static WS_DEVICE Element* shared_stream() { return reinterpret_cast<Element*>(shared() + ST::kOffset); }
  static WS_DEVICE int position(const int (&x)[kRank]) {
    int p = 0;
#pragma unroll
    for (int k = 0; k < kRank; ++k) {
      const int d = k;
      const int place = int(ST::Place::at(d));
      if (d == kLast && P > 1) p += x[d] / P * place + x[d] % P;
      else p += x[d] * place;
    }
    return p;
  }
  // How many of `width` neighbours on axis `fast` are neighbours in shared memory too, and aligned, when one
  // of them is `unit` elements.
  static WS_DEVICE constexpr int together(int fast, int width, int unit) {
    if (ST::kLine > 0) return ST::kUnit < width ? ST::kUnit : width;
    if (ST::Place::at(fast) != unit) return 1;
    for (int n = width; n > 1; n /= 2) {
      bool fits = n * unit * int(sizeof(Element)) <= 16 && C::Tile::at(fast) % n == 0;
      for (int d = 0; d < kRank; ++d) {
        fits = fits && (d == fast || C::Tile::at(d) == 1 || ST::Place::at(d) % (n * unit) == 0);
      }
      if (fits) return n;
    }
    return 1;
  }

  static WS_DEVICE void put(int number, int (&x)[kRank], const Element (&values)[P][V]) {
    constexpr int kFast = Order::kFastest;
    constexpr int K = together(kFast, V, P);
    constexpr bool kStraight = Order::radix(kFast) % V == 0;   // a vector stays on one axis
    constexpr bool kOnce = !kStraight && Order::radix(kFast) >= V && kFast != kLast;   // or leaves it once
    int p = position(x);
    const typename Order::template Around<typename ST::Place> around(x, p);
#pragma unroll
    for (int v = 0; v < V; v += K) {
      if constexpr (kOnce) p = around.at(v);
      if constexpr (!kStraight && !kOnce && P > 1) {
        if (v > 0) {
          int y[kRank];
          Order::at(number + v, y);
          p = position(y);
        }
      }
      Element word[K * P];
#pragma unroll
      for (int k = 0; k < K; ++k) {
#pragma unroll
        for (int q = 0; q < P; ++q) word[k * P + q] = values[q][v + k];
      }
      store<K * P, Element, 0>(shared_stream() + p + (kStraight ? v * int(ST::Place::at(kFast)) : 0), word);
      if constexpr (!kStraight && !kOnce && P == 1) {
#pragma unroll
        for (int k = 0; k < K; ++k) Order::template next<typename ST::Place>(x, p);
      }
    }
  }

  // Lines as they lie in memory.
  static WS_DEVICE void copy_lines(const G& g, const TileBox<C, G>& box) {
    constexpr int kPiece = 16 / int(sizeof(Element)), kSlow = int(ST::Order::at(ST::kLine - 1));
    constexpr int kInner = line(ST::kLine - 1), kLine = kInner * int(C::Tile::at(kSlow));
    constexpr int kPieces = (kLine + 2 * (kPiece - 1)) / kPiece;   // that a line may touch
    constexpr int kCount = C::kElements / kLine * kPieces;
    const int before = skew(g, box);
    const Index left = Index(C::Extents::at(kSlow)) - box.origin[kSlow];
    const int length = left < Index(C::Tile::at(kSlow)) ? int(left) * kInner : kLine;
    char* const to = reinterpret_cast<char*>(shared_stream());
#pragma unroll 4
    for (int turn = 0; turn < (kCount + C::kThreads - 1) / C::kThreads; ++turn) {
      const int number = turn * C::kThreads + thread(), piece = number % kPieces;
      if (kCount % C::kThreads != 0 && number >= kCount) break;
      int x[kRank];
      Index c[kRank];
      Order::template at<ST::kLine>(number / kPieces, x);
      const bool there = box.coordinates(x, c);
      const int p = before + position(x), begin = p % kPiece, at = piece * kPiece - begin;
      if (there && at < length) copy_async<kPiece>(to + (p + at) * int(sizeof(Element)), g.template at<S>(c) + at);
    }
    copy_commit();
  }
  // Elements of the first axes of the order.
  static WS_DEVICE constexpr int line(int axes) {
    int n = 1;
    for (int k = 0; k < axes; ++k) n *= int(C::Tile::at(int(ST::Order::at(k))));
    return n;
  }

  static WS_DEVICE void bring(const G& g, const TileBox<C, G>& box) {
    if constexpr (ST::kLine > 0) copy_lines(g, box);
    else load_and_put(g, box);
  }
  static WS_DEVICE void load_and_put(const G& g, const TileBox<C, G>& box) {
    // In flight together: up to 64 bytes a thread, in at most 8 accesses.
    constexpr int kBytes = V * P * int(sizeof(Element));
    constexpr int kByBytes = kBytes >= 64 ? 1 : 64 / kBytes;
    constexpr int kWanted = kByBytes * P <= 8 ? kByBytes : P < 8 ? 8 / P : 1;
    constexpr int kTogether = kWanted < kTurns ? kWanted : kTurns;
#pragma unroll 1
    for (int turn = 0; turn < kTurns; turn += kTogether) {
      Element values[kTogether][P][V];
      bool there[kTogether];
#pragma unroll
      for (int u = 0; u < kTogether; ++u) {
        const int vector = (turn + u) * C::kThreads + thread();
        int x[kRank];
        Index c[kRank];
        Order::at(vector * V, x);
        there[u] = box.coordinates(x, c);
        if (kVectors % (C::kThreads * kTogether) != 0) there[u] = there[u] && vector < kVectors;
        if (there[u]) {
#pragma unroll
          for (int q = 0; q < P; ++q) {
            if constexpr (P > 1 && C::Extents::at(kLast) % P != 0) {
              if (q > 0 && c[kLast] + 1 >= Index(C::Extents::at(kLast))) break;
            }
            if (q > 0) c[kLast] += 1;
            g.template load<S, V>(c, values[u][q]);
          }
        }
      }
#pragma unroll
      for (int u = 0; u < kTogether; ++u) {
        const int vector = (turn + u) * C::kThreads + thread();
        int x[kRank];
        Order::at(vector * V, x);
        if (there[u]) put(vector * V, x, values[u]);
      }
    }
  }

  // W values from a place of the box on, in the output's order.
  template <int W, class WRITE_ORDER>
  static WS_DEVICE void take(const G& g, const TileBox<C, G>& box, int number, const int (&x)[kRank], Element (&values)[W]) {
    constexpr bool kStraight = C::Tile::at(kLast) % W == 0;
    constexpr int K = P > 1 ? (kStraight && W % P == 0 ? P : 1) : together(kLast, W, 1);
    const Element* const from = shared_stream() + skew(g, box);
    int y[kRank];
#pragma unroll
    for (int d = 0; d < kRank; ++d) y[d] = x[d];
    int p = position(x);
    constexpr bool kOnce = !kStraight && P == 1 && C::Tile::at(kLast) >= W;   // a vector leaves its axis once
    const typename WRITE_ORDER::template Around<typename ST::Place> around(x, p);
#pragma unroll
    for (int w = 0; w < W; w += K) {
      if constexpr (kOnce) p = around.at(w);
      if constexpr (!kStraight && P > 1) {
        if (w > 0) {
          WRITE_ORDER::at(number + w, y);
          p = position(y);
        }
      }
      constexpr int kPlace = int(ST::Place::at(kLast));
      Element word[K];
      load<K, Element, 0>(from + p + (kStraight ? (P > 1 ? w / P * kPlace + w % P : w * kPlace) : 0), word);
#pragma unroll
      for (int k = 0; k < K; ++k) values[w + k] = word[k];
      if constexpr (!kStraight && !kOnce && P == 1) WRITE_ORDER::template next<typename ST::Place, K>(y, p);
    }
  }
  // The same from a number that is no multiple of W. The line's RUN axes in x may be beyond the box where
  // values are not used.
  template <int W, class WRITE_ORDER>
  static WS_DEVICE void take_anywhere(const G& g, const TileBox<C, G>& box, int number, const int (&at)[kRank],
                                      Element (&values)[W]) {
    const Element* const from = shared_stream() + skew(g, box);
    int x[kRank];
#pragma unroll
    for (int d = 0; d < kRank; ++d) x[d] = at[d];
    if constexpr (P > 1 && W == P && C::kRun == 1) {
      // Two words that are neighbours along the line hold the values.
      constexpr int kPlace = int(ST::Place::at(kLast));
      const int skip = x[kLast] % P;
      x[kLast] -= skip;
      const Element* const word = from + position(x);
      values_between(word, word + (skip > 0 ? kPlace : 0), skip, values);
    } else {
      // A run of one axis: neighbours lie a constant apart.
      constexpr bool kStraight = P == 1 && C::kRun == 1;
      constexpr bool kOnce = !kStraight && P == 1 && C::Tile::at(kLast) >= W;
      int p = position(x);
      const typename WRITE_ORDER::template Around<typename ST::Place> around(x, p);
      constexpr int K = ST::kLine > 0 ? together(kLast, W, 1) : 1;
#pragma unroll
      for (int w = 0; w < W; w += K) {
        if constexpr (kOnce) p = around.at(w);
        if (w > 0 && !kStraight && P > 1) {
          WRITE_ORDER::at(number + w, x);
          p = position(x);
        }
        Element word[K];
        load<K, Element, 0>(from + p + (kStraight ? w * int(ST::Place::at(kLast)) : 0), word);
#pragma unroll
        for (int k = 0; k < K; ++k) values[w + k] = word[k];
        if constexpr (!kStraight && !kOnce && P == 1) WRITE_ORDER::template next<typename ST::Place, K>(x, p);
      }
    }
  }
  // Where W neighbours of a run lie, from x on, each by itself.
  template <int W, class WRITE_ORDER>
  static WS_DEVICE void find(int (&x)[kRank], int (&places)[W]) {
    if constexpr (P > 1) {
#pragma unroll
      for (int w = 0; w < W; ++w) {
        places[w] = position(x);
        int unused = 0;
        WRITE_ORDER::template next<typename ST::Place>(x, unused);
      }
      return;
    }
    constexpr bool kStraight = C::kRun == 1, kOnce = !kStraight && C::Tile::at(kLast) >= W;
    int p = position(x);
    const typename WRITE_ORDER::template Around<typename ST::Place> around(x, p);
#pragma unroll
    for (int w = 0; w < W; ++w) {
      places[w] = kStraight ? p + w * int(ST::Place::at(kLast)) : kOnce ? around.at(w) : p;
      if constexpr (!kStraight && !kOnce) WRITE_ORDER::template next<typename ST::Place>(x, p);
    }
  }
  // How much further elements lie that are BY steps of the walks' axis away.
  template <int BY>
  static WS_DEVICE constexpr int further() {
    return BY * int(ST::Place::at(C::kRepeat)) / (C::kRepeat == kLast ? P : 1);
  }
  // Elements `by` further than `places`.
  template <int W>
  static WS_DEVICE void fetch(const Element* from, const int (&places)[W], int by, Element (&values)[W]) {
#pragma unroll
    for (int w = 0; w < W; ++w) values[w] = from[places[w] + by];
  }
  // P elements behind the first `skip` of two words.
  static WS_DEVICE void values_between(const Element* low, const Element* high, int skip, Element (&values)[P]) {
    Element both[2][P];
    load<P, Element, 0>(low, both[0]);
    load<P, Element, 0>(high, both[1]);
    unsigned words[2];
    memcpy(words, both, sizeof(words));
    const unsigned shift = unsigned(skip) * sizeof(Element) * 8;
    const unsigned word = static_cast<unsigned>(((static_cast<unsigned long long>(words[1]) << 32) | words[0]) >> shift);
    memcpy(values, &word, sizeof(word));
  }
};

// All of them.
template <class G, class C, int S, class... STREAMS>
struct TileStages {
  static WS_DEVICE void bring(const G&, const TileBox<C, G>&) {}
  template <int W, class ORDER>
  static WS_DEVICE void take(const G&, const TileBox<C, G>&, int, const int (&)[C::kRank], typename G::template Staged<W>&) {}
  template <int W, class ORDER>
  static WS_DEVICE void take_anywhere(const G&, const TileBox<C, G>&, int, const int (&)[C::kRank],
                                      typename G::template Staged<W>&) {}
  template <int W, class ORDER>
  static WS_DEVICE void find(const G&, const TileBox<C, G>&, const int (&)[C::kRank], int (&)[G::kStreams][W]) {}
  template <int W, int BY>
  static WS_DEVICE void fetch(const int (&)[G::kStreams][W], int, typename G::template Staged<W>&) {}
  template <int W, int BY>
  static WS_DEVICE void step(int (&)[G::kStreams][W], int) {}
};
template <class G, class C, int S, class FIRST, class... REST>
struct TileStages<G, C, S, FIRST, REST...> {
  static WS_DEVICE void bring(const G& g, const TileBox<C, G>& box) {
    TileStage<G, C, FIRST, S>::bring(g, box);
    TileStages<G, C, S + 1, REST...>::bring(g, box);
  }
  template <int W, class ORDER>
  static WS_DEVICE void take(const G& g, const TileBox<C, G>& box, int number, const int (&x)[C::kRank],
                             typename G::template Staged<W>& staged) {
    TileStage<G, C, FIRST, S>::template take<W, ORDER>(g, box, number, x, G::template of<S, W>(staged));
    TileStages<G, C, S + 1, REST...>::template take<W, ORDER>(g, box, number, x, staged);
  }
  template <int W, class ORDER>
  static WS_DEVICE void take_anywhere(const G& g, const TileBox<C, G>& box, int number, const int (&x)[C::kRank],
                                      typename G::template Staged<W>& staged) {
    TileStage<G, C, FIRST, S>::template take_anywhere<W, ORDER>(g, box, number, x, G::template of<S, W>(staged));
    TileStages<G, C, S + 1, REST...>::template take_anywhere<W, ORDER>(g, box, number, x, staged);
  }
  // Where W neighbours of a run lie in each stream.
  template <int W, class ORDER>
  static WS_DEVICE void find(const G& g, const TileBox<C, G>& box, const int (&x)[C::kRank], int (&places)[G::kStreams][W]) {
    using Stage = TileStage<G, C, FIRST, S>;
    int y[C::kRank];
#pragma unroll
    for (int d = 0; d < C::kRank; ++d) y[d] = x[d];
    Stage::template find<W, ORDER>(y, places[S]);
    const int skew = Stage::skew(g, box);
#pragma unroll
    for (int w = 0; w < W; ++w) places[S][w] += skew;
    TileStages<G, C, S + 1, REST...>::template find<W, ORDER>(g, box, x, places);
  }
  // The elements `times` BY steps of the walks' axis from there.
  template <int W, int BY>
  static WS_DEVICE void fetch(const int (&places)[G::kStreams][W], int times, typename G::template Staged<W>& staged) {
    using Stage = TileStage<G, C, FIRST, S>;
    Stage::fetch(Stage::shared_stream(), places[S], times * Stage::template further<BY>(), G::template of<S, W>(staged));
    TileStages<G, C, S + 1, REST...>::template fetch<W, BY>(places, times, staged);
  }
  template <int W, int BY>
  static WS_DEVICE void step(int (&places)[G::kStreams][W], int times) {
#pragma unroll
    for (int w = 0; w < W; ++w) places[S][w] += times * TileStage<G, C, FIRST, S>::template further<BY>();
    TileStages<G, C, S + 1, REST...>::template step<W, BY>(places, times);
  }
};

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

// A box whose lines begin anywhere: the last RUN axes of the box are a line, and boxes may cut its slowest.
template <class G, class C, class ORDER, class STAGES>
struct TileLines {
  using Index = typename G::Index;
  static constexpr int W = C::kWrite, A = C::kAlign, kFirst = C::kRank - C::kRun;
  static constexpr int kInner = int(C::Tile::product(kFirst + 1));
  static constexpr int kLine = kInner * int(C::Tile::at(kFirst)), kLines = C::kElements / kLine;
  static constexpr int kStep = kInner * int(C::step(kFirst));
  static_assert(C::kOverlap == 0 || kLine >= kStep + A - 1, "a box has the whole of its last piece");
  const G& g;
  const TileBox<C, G>& box;
  int length;         // of a line that is there
  bool first, last;   // no box before writes these lines, none behind
  bool ends_here;     // lines may be at their end

  WS_DEVICE TileLines(const G& g, const TileBox<C, G>& box) : g(g), box(box) {
    const Index left = Index(C::Extents::at(kFirst)) - box.origin[kFirst];
    length = left < Index(C::Tile::at(kFirst)) ? int(left) * kInner : kLine;
    first = C::kOverlap == 0 || box.origin[kFirst] == 0;
    last = C::kOverlap == 0 || left <= Index(C::step(kFirst));
    ends_here = C::kOverlap == 0 || left <= Index(C::Tile::at(kFirst));
  }
  // Elements before the first whole piece of a line that begins at output `begin`.
  static WS_DEVICE int head(Index begin) { return int(Index(0) - begin & Index(A - 1)); }
  // How far the box writes the line, in whole pieces where it goes on in the next.
  WS_DEVICE int end(Index begin) const {
    const int piece = kStep + (kStep % A == 0 ? head(begin) : head(begin + kStep));
    return last || length < piece ? length : piece;
  }
  // A line's place in the box and the number of its first output; false if it does not exist.
  WS_DEVICE bool begins(int line, int (&x)[C::kRank], Index& begin) const {
    ORDER::template at<C::kRun>(line, x);
    Index c[C::kRank];
    const bool there = box.coordinates(x, c);
    begin = TileBox<C, G>::linear(c);
    return there;
  }
  // N outputs from place `at` of the line on, which lies at x.
  template <int N>
  WS_DEVICE void write(int line, int (&x)[C::kRank], int at, Index begin) const {
    int rest = at;
#pragma unroll
    for (int d = C::kRank - 1; d >= kFirst; --d) {
      x[d] = d == kFirst ? rest : rest % int(C::Tile::at(d));
      rest /= int(C::Tile::at(d));
    }
    Index c[C::kRank];
    box.coordinates(x, c);
    typename G::template Staged<N> staged;
    STAGES::template take_anywhere<N, ORDER>(g, box, line * kLine + at, x, staged);
    g.template emit<N>(c, begin + at, staged);
  }
  // Vectors of memory that lie within a line.
  WS_DEVICE void vectors() const {
    constexpr int kOwn = C::kOverlap == 0 ? kLine : kStep % A == 0 ? kStep : kStep + A - 1;
    constexpr int kInLine = kOwn / W, kVectors = kLines * kInLine;
    if constexpr (C::kBeside > 1 || (kInLine >= 32 && C::kRun == 1)) {
      // A warp for a line or several: their places are found once.
      constexpr int kLanes = 32 / C::kBeside, kGroup = C::kBeside * W;
      constexpr int kItems = C::kBeside > 1 ? (kLines + kGroup - 1) / kGroup * W : kLines;
      const int lane = thread() % 32;
      for (int item = thread() / 32; item < kItems; item += C::kThreads / 32) {
        const int line = C::kBeside > 1 ? item / W * kGroup + lane / kLanes * W + item % W : item;
        int x[C::kRank];
        Index begin;
        if ((kLines % kGroup != 0 && line >= kLines) || !begins(line, x, begin)) continue;
        const int before = head(begin), stop = end(begin);
#pragma unroll 4
        for (int vector = 0; vector < kInLine; vector += kLanes) {
          const int at = before + (vector + lane % kLanes) * W;
          if (at + W <= stop) write<W>(line, x, at, begin);
        }
      }
      return;
    }
#pragma unroll 4
    for (int turn = 0; turn < (kVectors + C::kThreads - 1) / C::kThreads; ++turn) {
      const int vector = turn * C::kThreads + thread(), line = vector / kInLine;
      if (kVectors % C::kThreads != 0 && vector >= kVectors) break;
      int x[C::kRank];
      Index begin;
      if (!begins(line, x, begin)) continue;
      const int at = vector % kInLine * W + head(begin);
      if (at + W <= end(begin)) write<W>(line, x, at, begin);
    }
  }
  // What is left of lines at their ends: single elements, of threads that have nothing else to do then.
  WS_DEVICE void ends() const {
    constexpr int kEnds = A + W - 2;
    if (!first && !ends_here) return;
#pragma unroll 1
    for (int number = thread(); number < kLines * kEnds; number += C::kThreads) {
      const int line = number / kEnds, place = number % kEnds;
      int x[C::kRank];
      Index begin;
      if (!begins(line, x, begin)) continue;
      const int before = head(begin), stop = end(begin), whole = stop > before ? (stop - before) / W * W : 0;
      const bool of_head = place < A - 1;
      const int at = of_head ? place : place - (A - 1) + before + whole;
      if (at < stop && (!of_head || (first && at < before))) write<1>(line, x, at, begin);
    }
  }
};

// Small elements: lines that begin anywhere, written in whole words of memory by walks. A walk is what a thread
// writes from one word on: every next one is STRIDE further on axis REPEAT, so that its elements all lie equally
// far on in the streams, and their places are found once. REPEAT is the slowest axis of the line (STRIDE of its
// lines are whole words), or an axis outside of it (STRIDE lines on, a line lies to words of memory as this one
// does, and if boxes overlap then to pieces as well).
template <class G, class C, class ORDER, class STAGES>
struct TileWalks : TileLines<G, C, ORDER, STAGES> {
  using Lines = TileLines<G, C, ORDER, STAGES>;
  using Index = typename G::Index;
  using Lines::box, Lines::first, Lines::g, Lines::kFirst, Lines::kInner, Lines::kLine, Lines::kLines, Lines::W;
  static constexpr int R = C::kRepeat, kStride = C::kStride;
  static constexpr bool kAlong = R == kFirst;
  static constexpr long long kOutput = C::Extents::product(R + 1);   // outputs from an index of R to the next
  static_assert(R <= kFirst && kStride * kOutput % (kAlong ? W : C::kOverlap > 0 ? C::kAlign : W) == 0, "walks go by whole words");
  // Walks begin where memory's sectors do, if they go on by whole ones.
  static constexpr int kSector = 8 * W;   // elements, as W are 4 bytes
  static constexpr int kPiece = kStride * kOutput % kSector == 0 ? kSector : W;
  // Words at which walks of a line begin, and walks beside each other: of a warp, some are along the line,
  // others as far along axis R as makes the next word of shared memory.
  static constexpr int kWords = kAlong ? kStride * kInner / W : (kLine + kPiece - 1) / W;
  static constexpr int kBeside = C::kBeside, kLanes = 32 / kBeside;
  static constexpr int kPadded = kBeside == 1 ? kWords : (kWords + kLanes - 1) / kLanes * kLanes;
  static constexpr int kClasses = kAlong ? 1 : kStride / kBeside;
  static_assert(kAlong || kBeside == 1 || kStride % (kBeside * W) == 0, "walks beside each other begin a word apart");
  static constexpr int kBy = kAlong ? kStride * kBeside : kStride;         // steps of R from a word to the next
  static constexpr int kFurther = kAlong ? kBy * kInner : 0;           // outputs along the line
  static_assert(!kAlong || kFurther >= kPiece, "at most one word is before the line's first");
  static constexpr int kMost =                                         // words of a walk
      kAlong ? (kLine + kPiece + kFurther - 2) / kFurther : (int(C::Tile::at(R)) + kBy - 1) / kBy;
  static constexpr int kEach = (kMost + C::kChunks - 1) / C::kChunks;  // and of a chunk of it
  static constexpr int kOthers = kAlong ? kLines : kLines / int(C::Tile::at(R));
  static constexpr int kItems = kPadded * kBeside * kClasses * C::kChunks * kOthers;

  WS_DEVICE TileWalks(const G& g, const TileBox<C, G>& box) : Lines(g, box) {}

  // The first word of memory that the box writes of a line.
  WS_DEVICE int start(Index begin) const {
    return first ? int(Index(0) - begin & Index(W - 1)) : Lines::head(begin);
  }
  // Coordinates of line `other`, counted without axis R, which stays 0.
  static WS_DEVICE void line_at(int other, int (&x)[C::kRank]) {
#pragma unroll
    for (int d = C::kRank - 1; d >= 0; --d) {
      if (d >= kFirst || d == R) {
        x[d] = 0;
      } else {
        x[d] = other % int(C::Tile::at(d));
        other /= int(C::Tile::at(d));
      }
    }
  }
  WS_DEVICE void words() const {
#pragma unroll 1
    for (int item = thread(); item < kItems; item += C::kThreads) {
      int rest = item;
      const int lane = kBeside == 1 ? 0 : rest % kLanes;
      if constexpr (kBeside > 1) rest /= kLanes;
      const int beside = rest % kBeside;
      rest /= kBeside;
      const int word = rest % (kPadded / (kBeside == 1 ? 1 : kLanes)) * (kBeside == 1 ? 1 : kLanes) + lane;
      rest /= kPadded / (kBeside == 1 ? 1 : kLanes);
      if (kPadded > kWords && word >= kWords) continue;
      const int of_class = rest % kClasses;
      rest /= kClasses;
      walk(word, beside, of_class, rest % C::kChunks, rest / C::kChunks);
    }
  }
  WS_DEVICE void walk(int word, int beside, int of_class, int chunk, int other) const {
    int x[C::kRank];
    line_at(other, x);
    if constexpr (!kAlong) {
      x[R] = chunk * kEach * kBy +
             (kBeside == 1 ? of_class : of_class / W * (W * kBeside) + beside * W + of_class % W);
    }
    Index c[C::kRank];
    if (!box.coordinates(x, c)) return;
    const Index begin = TileBox<C, G>::linear(c);
    const int from = start(begin), end = Lines::end(begin);
    int at = (first ? -int(begin & Index(kPiece - 1)) : from) + word * W, left = kEach;
    if constexpr (kAlong) {
      at += (beside * kWords + chunk * kEach * kBeside * kWords) * W;
      if (at < from) {
        at += kFurther;
        --left;
      }
    }
    if (at < from || at + W > end) return;
    int there = 0;
    if constexpr (kAlong) {
      there = (end - W - at) / kFurther + 1;
    } else {
      const Index inside = Index(C::Extents::at(R)) - box.origin[R];
      const int stop = inside < Index(C::Tile::at(R)) ? int(inside) : int(C::Tile::at(R));
      there = (stop - x[R] + kBy - 1) / kBy;
    }
    left = there < left ? there : left;
    int rest = at;
#pragma unroll
    for (int d = C::kRank - 1; d >= kFirst; --d) {
      x[d] = d == kFirst ? rest : rest % int(C::Tile::at(d));
      rest /= int(C::Tile::at(d));
    }
    int places[G::kStreams][W];
    STAGES::template find<W, ORDER>(g, box, x, places);
    Index to = begin + at;
    constexpr int kTogether = G::kStreams > 1 ? 2 : 16 / W;
#pragma unroll 1
    for (; left >= kTogether; left -= kTogether) go<kTogether>(places, c, to);
    if (kTogether > 4 && (left & 4)) go<4>(places, c, to);
    if (kTogether > 2 && (left & 2)) go<2>(places, c, to);
    if (left & 1) go<1>(places, c, to);
  }
  // N words of a walk.
  template <int N>
  WS_DEVICE void go(int (&places)[G::kStreams][W], const Index (&c)[C::kRank], Index& to) const {
    typename G::template Staged<W> staged[N];
#pragma unroll
    for (int n = 0; n < N; ++n) STAGES::template fetch<W, kBy>(places, n, staged[n]);
#pragma unroll
    for (int n = 0; n < N; ++n) g.template emit<W>(c, to + n * Index(kBy * kOutput), staged[n]);
    STAGES::template step<W, kBy>(places, N);
    to += N * Index(kBy * kOutput);
  }
  // What is left of lines at their ends: single elements, where no box beside writes the word.
  WS_DEVICE void ends() const {
    constexpr int kEnds = 2 * (W - 1);
    if (!first && !Lines::ends_here) return;
#pragma unroll 1
    for (int number = thread(); number < kLines * kEnds; number += C::kThreads) {
      const int line = number / kEnds, place = number % kEnds;
      int x[C::kRank];
      Index begin;
      if (!Lines::begins(line, x, begin)) continue;
      const int from = start(begin), end = Lines::end(begin), whole = end > from ? (end - from) / W * W : 0;
      const bool of_head = place < W - 1;
      const int at = of_head ? place : place - (W - 1) + from + whole;
      if (at < end && (!of_head || (first && at < from))) Lines::template write<1>(line, x, at, begin);
    }
  }
};

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
