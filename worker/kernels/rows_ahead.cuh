// Rows of the `rows` skeleton that lie in shared memory whole, and the beginning of the next row with them
// (rows.cuh). A row's blocks share out all of the card, so that while they meet nothing else would run:
//
//   step j of writing row r:   write vector j of it, ask for what comes AHEAD vectors after the row's next one,
//                              add up a vector of row r + 1 that came meanwhile
//
// and when the last one of row r + 1 is added up, some steps before row r is written, its blocks begin to meet.
// The slots are a ring of SHARED_VECTORS + AHEAD. What is asked for shall arrive before it is added up, which
// takes steps, and so does the meeting: both are paid with AHEAD.
//
// What rows share (weights) a thread needs at the same places of every row: with COMMON the first so many vectors
// of it stay in registers.
#pragma once
#include <warpsmith/rows_part.cuh>

namespace ws {

template <class G, class C>
struct RowsAhead : RowPart<G, C> {
  using Part = RowPart<G, C>;
  using typename Part::Index;
  using typename Part::Vector;
  using Row = typename G::Row;
  using Meet = MeetingOf<G, 0>;
  static constexpr int V = C::V, T = C::kRowThreads, S = C::kShared, A = C::kAhead;
  static_assert(C::kRegisters == 0 && A > 0 && A <= S && !G::kRagged && !C::kCarries, "whole rows in shared memory");
  // Vectors that are added up together, of one row; of the next row before this one is written; and how many are
  // on their way while the next is waited for.
  static constexpr int kPair = S % 2 == 0 && A > 1 ? Part::kTaken : 1;
  static constexpr int kAdded = (A - kPair) / kPair * kPair, kLag = A - kAdded;
  // All steps in one go where there are few, so that loads of what they share are early.
  static constexpr int kSteps = S <= 32 ? S : kPair;
  static_assert(C::kCommon <= (S <= 32 ? S : 0), "registers are not indexed");

  WS_DEVICE RowsAhead(const G& g, Index K, int t) : Part(g, K, t) {}

  // Asks for vector j of a row into the ring's place `to`, counted from where the row that is written begins.
  WS_DEVICE void ask(const Row& row, bool exists, int j, int to) const {
    const Index v = Index(j) * T + this->t;
    if (exists && (this->full(j) || v < this->K / V)) this->g.template load_shared<V>(row, v * V, this->slot(to));
    copy_commit();
  }
  // Adds up N vectors of a row from j on.
  template <int N>
  WS_DEVICE void add(const Row& row, int j, int at, typename Meet::Acc& acc) const {
    const Index v = Index(j) * T + this->t;
    if (this->full(j + N - 1)) {
      Vector values[N];
#pragma unroll
      for (int u = 0; u < N; ++u) G::template from_shared<V>(this->slot(wrap(at + u)), values[u]);
      sum(row, v * V, values, acc);
    } else {
#pragma unroll
      for (int u = 0; u < N; ++u) {
        if (v + Index(u) * T >= this->K / V) break;
        Vector values[1];
        G::template from_shared<V>(this->slot(wrap(at + u)), values[0]);
        sum(row, (v + Index(u) * T) * V, values, acc);
      }
    }
  }
  template <int N>
  WS_DEVICE void sum(const Row& row, Index k, const Vector (&values)[N], typename Meet::Acc& acc) const {
    if constexpr (G::template joined<0>()) {
      typename Part::template Gathers<0>{this->g, row, acc}(k, values);
    } else {
      typename Part::template Accumulates<0>{this->g, row, acc}(k, values);
    }
  }
  static WS_DEVICE constexpr int wrap(int place) { return place % (S + A); }

  // The first row, a quarter at a time as it arrives, and the beginning of the next.
  template <int QUARTER>
  WS_DEVICE void add_first(const Row& row, typename Meet::Acc& acc) const {
    if constexpr (QUARTER < 4) {
      constexpr int kPairs = S / kPair, kFrom = kPairs * QUARTER / 4 * kPair, kTo = kPairs * (QUARTER + 1) / 4 * kPair;
      copy_wait<S + A - kTo>();
#pragma unroll 1
      for (int j = kFrom; j < kTo; j += kPair) add<kPair>(row, j, j, acc);
      add_first<QUARTER + 1>(row, acc);
    }
  }
  WS_DEVICE void load_first(const Row& row, const Row& next, bool more) const {
#pragma unroll 1
    for (int j = 0; j < S; ++j) ask(row, true, j, j);
#pragma unroll 1
    for (int j = 0; j < A; ++j) ask(next, more, j, S + j);
  }

  template <class Common>
  WS_DEVICE void write(const Row& row, int j, const Common* common) const {
    const Index v = Index(j) * T + this->t;
    if (!this->full(j) && v >= this->K / V) return;
    Vector values;
    G::template from_shared<V>(this->slot(j), values);
    if constexpr (C::kCommon > 0) {
      if (j < C::kCommon) {
        this->g.template emit_with<V>(row, v * V, values, common[j < C::kCommon ? j : 0]);
        return;
      }
    }
    this->g.template emit<V>(row, v * V, values);
  }
};

// What rows share of a thread's first vectors; `of` of nothing is not touched.
template <class G, class C, bool ANY = (C::kCommon > 0)>
struct CommonKept {
  typename G::template Common<C::V> of[C::kCommon];
  template <class Part>
  WS_DEVICE void load(const Part& part) {
#pragma unroll
    for (int j = 0; j < C::kCommon; ++j) {
      const typename G::Index v = typename G::Index(j) * C::kRowThreads + part.t;
      if (part.full(j) || v < part.K / C::V) part.g.template common<C::V>(v * C::V, of[j]);
    }
  }
};
template <class G, class C>
struct CommonKept<G, C, false> {
  int of[1];
  template <class Part>
  WS_DEVICE void load(const Part&) {}
};

// The rows of a group of blocks: the first of them, and every `step`-th up to `rows`.
template <class G, class C>
WS_DEVICE void rows_ahead(const G& g, RowGroup<G, C>& group, typename G::Index first, typename G::Index step, typename G::Index rows,
                          typename G::Index K) {
  using Index = typename G::Index;
  using Part = RowsAhead<G, C>;
  using Meet = typename Part::Meet;
  constexpr int S = Part::S, A = Part::A, kPair = Part::kPair, kAdded = Part::kAdded;
  Part part(g, K, group.rank * C::kThreads + group.lane);
  Index r = first;
  const auto row_at = [&](Index number) { return g.row(number < rows ? number : rows - 1); };
  typename G::Row row = g.row(r), next = row_at(r + step);
  part.load_first(row, next, r + step < rows);
  CommonKept<G, C> common;
  common.load(part);
  typename Meet::Acc acc = Meet::nothing();
  part.template add_first<0>(row, acc);
  group.template begin<0>(acc);
  acc = Meet::nothing();
  copy_wait<Part::kLag>();
  if (r + step < rows) {
#pragma unroll 1
    for (int j = 0; j < kAdded; j += kPair) part.template add<kPair>(next, j, S + j, acc);
  }
  for (;; r += step) {
    const bool more = r + step < rows, yet_more = r + 2 * step < rows;
    typename G::Row after = row_at(r + 2 * step);
    typename Meet::Acc all;
    group.template end<0>(all);
    Meet::finish(g, row, all);
    row_stages<G, C, (G::template joined<0>() ? 2 : 1)>(g, part, group, row);
    if constexpr (G::kRowOutputs) {
      if (part.t == 0) g.emit_row(row);
    }
#pragma unroll (Part::kSteps)
    for (int j = 0; j < S; ++j) {
      part.write(row, j, common.of);
      if (j + A < S) part.ask(next, more, j + A, j); else part.ask(after, yet_more, j + A - S, j);
      if (j % kPair != kPair - 1) continue;
      copy_wait<Part::kLag>();
      const int at = kAdded + j + 1 - kPair;   // of the next row
      if (at < S) {
        if (more) part.template add<kPair>(next, at, S + at, acc);
        if (at + kPair == S && more) {
          group.template begin<0>(acc);
          acc = Meet::nothing();
        }
      } else if (yet_more) {
        part.template add<kPair>(after, at - S, S + at, acc);
      }
    }
    if (!more) break;
    part.begin += S * Part::kSlotStep;
    part.begin -= part.begin < Part::kRing ? 0 : Part::kRing;
    row = next;
    next = after;
  }
}

}  // namespace ws
