// Rows of the `rows` skeleton that are worked on together (rows.cuh).
#pragma once
#include <warpsmith/rows_config.cuh>

namespace ws {

// R rows that are worked on together, as one row of `rows<RowsAtOnce<G, R, ROWS>, Config>`: what all rows
// share (weights) is read once for R of them, and they meet together. Rows in groups of R, (ROWS + R - 1) / R
// of them: pass that as `rows`. Behind the last row it is done again, with the same result.
//
// G gives what all rows share at k as `Common<V>`, `common<V>(k, common)`, and `emit<V>(row, k, values,
// common)`. With KEEP each thread reads it once for all of its rows: call keep<Config>(K) first; for rows
// of which a thread has one vector.
//
// The registers and shared memory of a vector, its bytes and those of accumulators count R times: R * V *
// kStreamBytes of a shared slot, R * sizeof(Acc) <= kMaxAcc. Not for ragged rows: each begins elsewhere.
template <class G, int V, bool KEEP> struct KeptCommon { typename G::template Common<V> common; };
template <class G, int V> struct KeptCommon<G, V, false> {};

template <class G, int R, long long ROWS, int KEEP = 0>   // KEEP: the width V of what is kept, or 0
struct RowsAtOnce {
  static_assert(!G::kRagged || R == 1, "ragged rows begin anywhere: one at a time");
  using Index = typename G::Index;
  static constexpr int kStages = G::kStages, kStreamBytes = R * G::kStreamBytes;
  static constexpr bool kEmits = G::kEmits, kRowOutputs = G::kRowOutputs, kRagged = false, kEmitReads = G::kEmitReads;
  static constexpr bool kTotals = G::kTotals;
  using Total = typename G::Total;
  struct Row { typename G::Row r[R]; Index number; };
  template <int V> struct Values { typename G::template Values<V> r[R]; };
  template <int S> struct Acc { typename G::template Acc<S> r[R]; };

  G g;
  KeptCommon<G, KEEP, (KEEP > 0)> kept;

  template <class C> WS_DEVICE void keep(Index K) {
    static_assert(KEEP == C::V && C::kRegisters == 1 && C::kShared == 0 && C::kBlocksPerRow == 1, "one vector a thread");
    const Index k = Index(thread() % C::kThreadsPerRow) * C::V;
    if (k < K) g.template common<C::V>(k, kept.common);
  }
  WS_DEVICE Row row(Index number) const {
    Row rows;
    rows.number = number;
#pragma unroll
    for (int i = 0; i < R; ++i) {
      const Index r = number * R + i;
      rows.r[i] = g.row(ROWS % R == 0 || r < Index(ROWS) ? r : Index(ROWS) - 1);
    }
    return rows;
  }
  WS_DEVICE int head(const Row&) const { return 0; }
  template <int V> WS_DEVICE void load(const Row& row, Index k, Values<V>& values) const {
#pragma unroll
    for (int i = 0; i < R; ++i) g.template load<V>(row.r[i], k, values.r[i]);
  }
  template <int V, int HINT> WS_DEVICE void load(const Row& row, Index k, Values<V>& values) const {
#pragma unroll
    for (int i = 0; i < R; ++i) g.template load<V, HINT>(row.r[i], k, values.r[i]);
  }
  template <int V> using Common = typename G::template Common<V>;
  template <int V> WS_DEVICE void common(Index k, Common<V>& common) const { g.template common<V>(k, common); }
  template <int V> WS_DEVICE void load_shared(const Row& row, Index k, char* slot) const {
#pragma unroll
    for (int i = 0; i < R; ++i) g.template load_shared<V>(row.r[i], k, slot + i * (V * G::kStreamBytes));
  }
  template <int V> static WS_DEVICE void from_shared(const char* slot, Values<V>& values) {
#pragma unroll
    for (int i = 0; i < R; ++i) G::template from_shared<V>(slot + i * (V * G::kStreamBytes), values.r[i]);
  }
  template <int S> static WS_DEVICE constexpr bool chained() { return G::template chained<S>(); }
  template <int S> static WS_DEVICE Acc<S> identity() {
    Acc<S> acc;
#pragma unroll
    for (int i = 0; i < R; ++i) acc.r[i] = G::template identity<S>();
    return acc;
  }
  template <int S> static WS_DEVICE void combine(Acc<S>& a, const Acc<S>& b) {
#pragma unroll
    for (int i = 0; i < R; ++i) G::template combine<S>(a.r[i], b.r[i]);
  }
  template <int S> struct Joined { typename G::template Joined<S> r[R]; };
  template <int S> static WS_DEVICE constexpr bool joined() { return G::template joined<S>(); }
  template <int S> static WS_DEVICE Joined<S> identity_joined() {
    Joined<S> all;
#pragma unroll
    for (int i = 0; i < R; ++i) all.r[i] = G::template identity_joined<S>();
    return all;
  }
  template <int S> static WS_DEVICE void combine_joined(Joined<S>& a, const Joined<S>& b) {
#pragma unroll
    for (int i = 0; i < R; ++i) G::template combine_joined<S>(a.r[i], b.r[i]);
  }
  template <int S> struct Part { typename G::template Part<S> r[R]; };
  template <int S> static WS_DEVICE Part<S> part() {
    Part<S> some;
#pragma unroll
    for (int i = 0; i < R; ++i) some.r[i] = G::template part<S>();
    return some;
  }
  template <int S, int V>
  WS_DEVICE void deviate(const Row& row, Index k, const Values<V>& values, bool first, Part<S>& some) const {
#pragma unroll
    for (int i = 0; i < R; ++i) g.template deviate<S, V>(row.r[i], k, values.r[i], first, some.r[i]);
  }
  template <int S> static WS_DEVICE void gather(Joined<S>& all, const Part<S>& some, int count) {
#pragma unroll
    for (int i = 0; i < R; ++i) G::template gather<S>(all.r[i], some.r[i], count);
  }
  template <int S> static WS_DEVICE void split(const Joined<S>& all, Acc<S>& sums, Acc<S + 1>& squares) {
#pragma unroll
    for (int i = 0; i < R; ++i) G::template split<S>(all.r[i], sums.r[i], squares.r[i]);
  }
  template <int S, int V> WS_DEVICE void accumulate(const Row& row, Index k, const Values<V>& values, Acc<S>& acc) const {
#pragma unroll
    for (int i = 0; i < R; ++i) g.template accumulate<S, V>(row.r[i], k, values.r[i], acc.r[i]);
  }
  template <int S> WS_DEVICE void finish(Row& row, const Acc<S>& acc) const {
#pragma unroll
    for (int i = 0; i < R; ++i) g.template finish<S>(row.r[i], acc.r[i]);
  }
  template <int V> WS_DEVICE void emit(const Row& row, Index k, const Values<V>& values) const {
    if constexpr (KEEP == V) {
      emit_with<V>(row, k, values, kept.common);
    } else {
      typename G::template Common<V> common;
      g.template common<V>(k, common);
      emit_with<V>(row, k, values, common);
    }
  }
  template <int V>
  WS_DEVICE void emit_with(const Row& row, Index k, const Values<V>& values, const typename G::template Common<V>& common) const {
#pragma unroll
    for (int i = 0; i < R; ++i) g.template emit<V>(row.r[i], k, values.r[i], common);
  }
  static WS_DEVICE Total identity_total() { return G::identity_total(); }
  static WS_DEVICE void combine_total(Total& a, const Total& b) { G::combine_total(a, b); }
  template <int V> WS_DEVICE void total(const Row& row, Index k, const Values<V>& values, Total (&totals)[V]) const {
#pragma unroll
    for (int i = 0; i < R; ++i) {   // a row that is done again counts once
      if (ROWS % R == 0 || row.number * R + i < Index(ROWS)) g.template total<V>(row.r[i], k, values.r[i], totals);
    }
  }
  WS_DEVICE void emit_row(const Row& row) const {
#pragma unroll
    for (int i = 0; i < R; ++i) g.emit_row(row.r[i]);
  }
};

}  // namespace ws
