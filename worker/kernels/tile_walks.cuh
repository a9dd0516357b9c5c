// Small elements of the `tile` skeleton, written in whole words of memory (tile.cuh; tile_walks.h says which
// walks there are).
#pragma once
#include <warpsmith/tile_lines.cuh>

namespace ws {

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

}  // namespace ws
