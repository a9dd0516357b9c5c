// Streams of the `tile` skeleton on their way through shared memory: brought in their own order, taken in the
// output's (tile.cuh).
#pragma once
#include <warpsmith/tile_box.cuh>

namespace ws {

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

}  // namespace ws
