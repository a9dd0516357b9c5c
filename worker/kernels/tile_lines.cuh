// Boxes of the `tile` skeleton whose lines begin anywhere in memory (tile.cuh).
#pragma once
#include <warpsmith/tile_box.cuh>

namespace ws {

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

}  // namespace ws
