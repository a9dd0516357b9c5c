// Skeleton `columns`: reductions over outer axes while the contiguous axis stays. The full space is
// (o, k, c): outer kept, reduced (K), and C contiguous columns.
//
// A block covers THREADS / THREAD_ROWS * V columns that follow each other, of one o and those behind it. Thread row j takes k = j, j + THREAD_ROWS,
// ..., UNROLL of them in flight, and keeps its first REGISTER_VECTORS in registers from one stage to the
// next, where a stage may leave in their place what it made of them. The thread rows meet in shared memory, one barrier a stage (two places take turns).
// With SPLIT > 1 that many blocks share the reduced axis and leave partial results
// [SPLIT][outer][C] for `columns_combine`.
// chained<S>() says that a stage adds up floats: a long sum is then cut into chains (kChain).
//
// V divides C. Dynamic shared memory: 2 * THREADS * V * (bytes of the largest stage's accumulators)
// if THREAD_ROWS > 1, else none.
#pragma once
#include <warpsmith/base.cuh>

namespace ws {

template <int V_, int THREADS_, int THREAD_ROWS_, int REGISTER_VECTORS_, int UNROLL_, bool PERSISTENT_, int SPLIT_>
struct ColumnsConfig {
  static constexpr int V = V_, kThreads = THREADS_, kThreadRows = THREAD_ROWS_, kRegisters = REGISTER_VECTORS_;
  static constexpr int kUnroll = UNROLL_, kSplit = SPLIT_;
  static constexpr bool kPersistent = PERSISTENT_;
  static constexpr int kThreadColumns = THREADS_ / THREAD_ROWS_;
};

// All of them to the first, as a tree: half of the roundings that a chain has, and fewer in a row.
template <class G, int S, int N>
WS_DEVICE void combine_all(typename G::template Acc<S> (&some)[N]) {
#pragma unroll
  for (int step = 1; step < N; step *= 2) {
#pragma unroll
    for (int i = 0; i + step < N; i += 2 * step) G::template combine<S>(some[i], some[i + step]);
  }
}

// One thread's part of V columns.
template <class G, class C>
struct ColumnPart {
  using Index = typename G::Index;
  using Column = typename G::template Column<C::V>;
  using Vector = typename G::template Values<C::V>;
  static constexpr int V = C::V;

  const G& g;
  Index first, K;                  // of the reduced axis: this thread's first k, and its end
  bool inside;                     // the columns exist
  int parity = 0;
  Vector kept[C::kRegisters > 0 ? C::kRegisters : 1];

  WS_DEVICE explicit ColumnPart(const G& g) : g(g) {}

  WS_DEVICE void load_kept(const Column& column) {
    if (!inside) return;
#pragma unroll
    for (int j = 0; j < C::kRegisters; ++j) {
      const Index k = first + Index(j) * C::kThreadRows;
      if (k < K) g.template load<V>(column, k, kept[j]);
    }
  }
  // ROUNDS times UNROLL of the thread's k from `k` on, which all exist.
  template <int ROUNDS, class F>
  WS_DEVICE void rounds(const Column& column, Index k, F&& f) const {
    // UNROLL loads are in flight and no more: lines of memory that lie far apart are better opened few at a time.
#pragma unroll 1
    for (int round = 0; round < ROUNDS; ++round, k += Index(C::kUnroll) * C::kThreadRows) {
      Vector values[C::kUnroll];
#pragma unroll
      for (int u = 0; u < C::kUnroll; ++u) g.template load<V>(column, k + Index(u) * C::kThreadRows, values[u]);
#pragma unroll
      for (int u = 0; u < C::kUnroll; ++u) f(k + Index(u) * C::kThreadRows, values[u]);
    }
  }
  // f(k, values) for each of the thread's k. With CHAINED also pause() after every kChain of them.
  template <bool CHAINED, class F, class P>
  WS_DEVICE void each(const Column& column, F&& f, P&& pause) {
    if (!inside) return;
    constexpr Index kStep = Index(C::kUnroll) * C::kThreadRows;
#pragma unroll
    for (int j = 0; j < C::kRegisters; ++j) {
      const Index k = first + Index(j) * C::kThreadRows;
      if (k < K) f(k, kept[j]);
    }
    Index k = first + Index(C::kRegisters) * C::kThreadRows;
    if constexpr (CHAINED) {
      constexpr int kRounds = C::kUnroll < kChain ? kChain / C::kUnroll : 1;
#pragma unroll 1
      for (; k + (kRounds * kStep - C::kThreadRows) < K; k += kRounds * kStep) {
        rounds<kRounds>(column, k, f);
        pause();
      }
    }
#pragma unroll 1
    for (; k + (kStep - C::kThreadRows) < K; k += kStep) rounds<1>(column, k, f);
    if constexpr (C::kUnroll > 1) {
      for (; k < K; k += C::kThreadRows) {
        Vector values;
        g.template load<V>(column, k, values);
        f(k, values);
      }
    }
  }
  // What the thread's elements of a stage give. `span`: of the reduced axis that all thread rows share.
  template <int S>
  WS_DEVICE void accumulate(const Column& column, Index span, typename G::template Acc<S> (&acc)[V]) {
    auto take = [&](Index k, Vector& values) { g.template accumulate<S, V>(column, k, values, acc); };
#pragma unroll
    for (int v = 0; v < V; ++v) acc[v] = g.template identity<S>();
    if (!G::template chained<S>() || span <= Index(C::kRegisters + 2 * kChain) * C::kThreadRows) {
      each<false>(column, take, [] {});
      return;
    }
    typename G::template Acc<S> total[V];
#pragma unroll
    for (int v = 0; v < V; ++v) total[v] = acc[v];
    each<G::template chained<S>()>(column, take, [&] {
#pragma unroll
      for (int v = 0; v < V; ++v) {
        G::template combine<S>(total[v], acc[v]);
        acc[v] = g.template identity<S>();
      }
    });
#pragma unroll
    for (int v = 0; v < V; ++v) G::template combine<S>(acc[v], total[v]);
  }

  // Combines the thread rows' accumulators; every thread has the result.
  template <int S>
  WS_DEVICE void meet(typename G::template Acc<S> (&acc)[V]) {
    if constexpr (C::kThreadRows > 1) {
      using Acc = typename G::template Acc<S>;
      // [thread row][v][thread column]: neighbouring lanes use neighbouring words
      Acc* const place = reinterpret_cast<Acc*>(shared() + parity * (C::kThreads * V * G::kMaxAccBytes));
      const int column = thread() % C::kThreadColumns, line = thread() / C::kThreadColumns;
#pragma unroll
      for (int v = 0; v < V; ++v) place[(line * V + v) * C::kThreadColumns + column] = acc[v];
      sync_block();
      constexpr int kResults = V * C::kThreadColumns, kParts = parts();
      if constexpr (kParts > 0) {
        const int part = thread() / kResults, result = thread() % kResults;
        if (part < kParts) place[part * kResults + result] = combined<S, C::kThreadRows, kParts>(place, part, result);
        sync_block();
      }
#pragma unroll
      for (int v = 0; v < V; ++v)
        acc[v] = combined<S, kParts == 0 ? C::kThreadRows : kParts, 1>(place, 0, v * C::kThreadColumns + column);
      parity ^= 1;
    }
  }

  // Where there are more thread rows than a thread has columns, others combine first what each would: so many parts of each
  // result's rows, a thread each, such that the one takes as long as the other. 0: nobody does.
  static WS_DEVICE constexpr int parts() {
    if (C::kThreadRows < V || C::kThreadRows < 8) return 0;
    int parts = 1;
    while (4 * parts * parts * V <= C::kThreadRows) parts *= 2;
    return parts;
  }

  // A result's accumulators of rows `first`, first + EACH and so on.
  template <int S, int ROWS, int EACH>
  static WS_DEVICE typename G::template Acc<S> combined(const typename G::template Acc<S>* place, int first, int result) {
    constexpr int kResults = V * C::kThreadColumns, kCount = ROWS / EACH;
    constexpr int kTogether = kCount % 4 == 0 ? 4 : kCount % 2 == 0 ? 2 : 1;
    static_assert(ROWS % EACH == 0, "parts are equal");
    typename G::template Acc<S> all;
    for (int l = 0; l < kCount; l += kTogether) {
      typename G::template Acc<S> some[kTogether];
#pragma unroll
      for (int i = 0; i < kTogether; ++i) some[i] = place[((l + i) * EACH + first) * kResults + result];
      combine_all<G, S>(some);
      if (l == 0) all = some[0]; else G::template combine<S>(all, some[0]);
    }
    return all;
  }
};

template <class G, class C, int S>
WS_DEVICE void column_stages(const G& g, ColumnPart<G, C>& part, typename G::template Column<C::V>& column) {
  if constexpr (S < G::kStages) {
    constexpr int V = C::V;
    typename G::template Acc<S> acc[V];
    part.template accumulate<S>(column, part.K, acc);
    part.template meet<S>(acc);
    g.template finish<S, V>(column, acc);
    column_stages<G, C, S + 1>(g, part, column);
  }
}

template <class G, class C>
WS_DEVICE void columns(const G& g, typename G::Index outer, typename G::Index K, typename G::Index columns,
                       typename G::template Acc<0>* partial) {
  using Index = typename G::Index;
  constexpr int V = C::V;
  constexpr Index kWidth = C::kThreadColumns * V;
  const Index all = outer * columns, tiles = (all + kWidth - 1) / kWidth;
  const Index total = tiles * C::kSplit;
  ColumnPart<G, C> part(g);
  for (Index job = block(); job < total; job += blocks()) {
    const Index tile = job % tiles;
    const Index split = C::kSplit > 1 ? job / tiles : 0;
    const Index span = (K + C::kSplit - 1) / C::kSplit;
    const int line = thread() / C::kThreadColumns;
    const Index of_all = tile * kWidth + Index(thread() % C::kThreadColumns) * V, o = of_all / columns, c = of_all % columns;
    part.inside = of_all < all;
    part.first = split * span + line;
    part.K = (split + 1) * span < K ? (split + 1) * span : K;
    auto column = g.template column<V>(part.inside ? o : 0, part.inside ? c : 0);
    part.load_kept(column);
    if constexpr (C::kSplit > 1) {
      typename G::template Acc<0> acc[V];
      part.template accumulate<0>(column, span, acc);
      part.template meet<0>(acc);
      if (part.inside && line == 0) {
#pragma unroll
        for (int v = 0; v < V; ++v) partial[split * all + of_all + v] = acc[v];
      }
    } else {
      column_stages<G, C, 0>(g, part, column);
      if constexpr (G::kRowOutputs) {
        if (part.inside && line == 0) g.template emit_row<V>(column);
      }
      if constexpr (G::kEmits) {
        part.template each<false>(column, [&](Index k, const typename G::template Values<V>& values) { g.template emit<V>(column, k, values); }, [] {});
      }
    }
    if constexpr (!C::kPersistent) break;
    sync_block();   // the next tile writes where a slow thread may still read
  }
}

// Ends a split reduction: a thread for each column.
template <class G, int THREADS>
WS_DEVICE void columns_combine(const G& g, typename G::Index split, typename G::Index outer, typename G::Index columns,
                               const typename G::template Acc<0>* partial) {
  using Index = typename G::Index;
  const Index i = Index(block()) * THREADS + thread();
  if (i >= outer * columns) return;
  typename G::template Acc<0> acc[1] = {g.template identity<0>()};
  constexpr int kFlight = 8;
  Index s = 0;
  for (; s + kFlight <= split; s += kFlight) {
    typename G::template Acc<0> some[kFlight];
#pragma unroll
    for (int u = 0; u < kFlight; ++u) some[u] = partial[(s + u) * outer * columns + i];
    combine_all<G, 0>(some);
    G::template combine<0>(acc[0], some[0]);
  }
  for (; s < split; ++s) G::template combine<0>(acc[0], partial[s * outer * columns + i]);
  auto column = g.template column<1>(i / columns, i % columns);
  g.template finish<0, 1>(column, acc);
  if constexpr (G::kRowOutputs) g.template emit_row<1>(column);
}

}  // namespace ws
