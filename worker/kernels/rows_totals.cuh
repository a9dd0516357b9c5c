// Totals of the `rows` skeleton: sums over rows (or maxima, ...) for each place of a row, beside what is done
// along rows. Each thread adds up what its places give over all rows that its block works on, a block leaves
// that as [group of blocks][K], and a second kernel (`rows_total`) puts those together in a fixed order.
//
// A struct with kTotals has, for all of them together,
//   struct Total; identity_total(); combine_total(Total&, const Total&);
//   total<V>(row, k, values, Total (&totals)[V]): adds what elements k to k + V - 1 of a row give
//   emit_total(r, k, total): writes the results of place k of the segment that row r lies in
//
// A thread has the same places in every row: rows are not ragged, and lie wholly in registers and in slots of
// shared memory, where their totals lie too. A total is made of one element after another: fp32 sums want
// blocks of few rows (the launch sees to it).
//
// Dynamic shared memory behind the row's slots: SHARED_VECTORS * THREADS * V Totals, and THREADS * V more
// where several rows share a block, whose threads meet at the end.
#pragma once
#include <warpsmith/rows_config.cuh>

namespace ws {

// A thread's totals. Without any, nothing is done.
template <class G, class C, bool ANY = G::kTotals>
struct RowTotals {
  WS_DEVICE void begin() {}
  template <class Vector>
  WS_DEVICE void add_register(const G&, int, const typename G::Row&, typename G::Index, const Vector&) {}
  template <class Vector>
  WS_DEVICE void add_slot(const G&, int, const typename G::Row&, typename G::Index, const Vector&) const {}
  template <class Vector>
  WS_DEVICE void add_edge(const G&, const typename G::Row&, typename G::Index, const Vector&) {}
  WS_DEVICE void leave(typename G::Index, int, typename G::Index, typename G::Total*) {}
};

template <class G, class C>
struct RowTotals<G, C, true> {
  using Index = typename G::Index;
  using Total = typename G::Total;
  static constexpr int V = C::V;
  static_assert(!G::kRagged, "totals need places that stay the same");
  struct Lanes { Total of[V]; };

  Lanes kept[C::kRegisters > 0 ? C::kRegisters : 1];
  Total edge[1];

  static WS_DEVICE char* place() { return shared() + C::kScratchBytes + C::kShared * C::kThreads * (V * G::kStreamBytes); }
  static WS_DEVICE Lanes* slot(int j) { return reinterpret_cast<Lanes*>(place()) + (j * C::kThreads + thread()); }

  WS_DEVICE void begin() {
    Lanes nothing;
#pragma unroll
    for (int v = 0; v < V; ++v) nothing.of[v] = G::identity_total();
#pragma unroll
    for (int j = 0; j < C::kRegisters; ++j) kept[j] = nothing;
#pragma unroll 1
    for (int j = 0; j < C::kShared; ++j) *slot(j) = nothing;
    edge[0] = G::identity_total();
  }
  template <class Vector>
  WS_DEVICE void add_register(const G& g, int j, const typename G::Row& row, Index k, const Vector& values) {
    g.template total<V>(row, k, values, kept[j].of);
  }
  template <class Vector>
  WS_DEVICE void add_slot(const G& g, int j, const typename G::Row& row, Index k, const Vector& values) const {
    Lanes lanes = *slot(j);
    g.template total<V>(row, k, values, lanes.of);
    *slot(j) = lanes;
  }
  template <class Vector>
  WS_DEVICE void add_edge(const G& g, const typename G::Row& row, Index k, const Vector& values) {
    g.template total<1>(row, k, values, edge);
  }

  // What the rows of a block gave each place, to its first row's threads.
  template <int N>
  static WS_DEVICE void meet(Total (&mine)[N]) {
    if constexpr (C::kRowsPerBlock > 1) {
      Total* const all = reinterpret_cast<Total*>(place()) + C::kShared * C::kThreads * V + thread();   // [v][thread]
      const int line = thread() / C::kThreadsPerRow;
      sync_block();   // of the last meeting
#pragma unroll
      for (int v = 0; v < N; ++v) all[v * C::kThreads] = mine[v];
#pragma unroll 1
      for (int lines = C::kRowsPerBlock; lines > 1; lines = (lines + 1) / 2) {
        const int half = (lines + 1) / 2;
        sync_block();
        if (line + half >= lines) continue;
#pragma unroll
        for (int v = 0; v < N; ++v) {
          G::combine_total(mine[v], all[v * C::kThreads + half * C::kThreadsPerRow]);
          all[v * C::kThreads] = mine[v];
        }
      }
    }
  }
  // Thread t of a row of K leaves its places in partial[group][K].
  WS_DEVICE void leave(Index K, int t, Index group, Total* partial) {
    Total* const to = partial + static_cast<long long>(group) * K;
    const bool first = C::kRowsPerBlock == 1 || thread() < C::kThreadsPerRow;
    const Index n = K / V;
#pragma unroll
    for (int j = 0; j < C::kRegisters; ++j) {
      meet(kept[j].of);
      const Index at = Index(j) * C::kRowThreads + t;
      if (first && at < n) store(K, kept[j], to + at * V);
    }
#pragma unroll 1
    for (int j = 0; j < C::kShared; ++j) {
      Lanes lanes = *slot(j);
      meet(lanes.of);
      const Index at = Index(C::kRegisters + j) * C::kRowThreads + t;
      if (first && at < n) store(K, lanes, to + at * V);
    }
    if (V > 1 && n * V < K) {
      meet(edge);
      if (first && t >= V && t - V < K - n * V) to[n * V + (t - V)] = edge[0];
    }
  }
  static WS_DEVICE void store(Index K, const Lanes& lanes, Total* to) {
    constexpr int kWords = sizeof(Lanes) / 4, kAccess = kWords % 4 == 0 ? 4 : kWords % 2 == 0 ? 2 : 1;
    if (K % V == 0 && K * static_cast<int>(sizeof(Total) / 4) % kAccess == 0) {   // where each group begins
      float words[kWords];
      memcpy(words, &lanes, sizeof(lanes));
#pragma unroll
      for (int w = 0; w < kWords; w += kAccess) {
        float some[kAccess];
#pragma unroll
        for (int i = 0; i < kAccess; ++i) some[i] = words[w + i];
        ws::store<kAccess, float, 0>(reinterpret_cast<float*>(to) + w, some);
      }
      return;
    }
#pragma unroll
    for (int v = 0; v < V; ++v) to[v] = lanes.of[v];
  }
};

// Second of two kernels, blocks of THREADS: THREADS / LINES neighbouring places each, the LINES threads of a
// place share what `groups` groups of blocks left of its segment. (K + places - 1) / places blocks for each
// segment of `rows` rows. Dynamic shared memory: THREADS Totals.
template <class G, int THREADS, int LINES>
WS_DEVICE void rows_total(const G& g, long long rows, long long groups, long long K, const typename G::Total* partial) {
  using Total = typename G::Total;
  constexpr int kPlaces = THREADS / LINES;
  const long long tiles = (K + kPlaces - 1) / kPlaces, segment = block() / tiles;
  const long long k = (block() - segment * tiles) * kPlaces + thread() % kPlaces;
  const int line = thread() / kPlaces;
  Total acc = G::identity_total();
  if (k < K) {
    constexpr int kFlight = 8;   // in flight, and put together as a tree
    const Total* from = partial + (segment * groups + line) * K + k;
    for (long long left = groups - line; left > 0; left -= kFlight * LINES, from += kFlight * LINES * K) {
      Total some[kFlight];
#pragma unroll
      for (int i = 0; i < kFlight; ++i) {
        if (i * LINES < left) some[i] = from[i * (LINES * K)];
      }
#pragma unroll
      for (int step = 1; step < kFlight; step *= 2) {
#pragma unroll
        for (int i = 0; i + step < kFlight; i += 2 * step) {
          if ((i + step) * LINES < left) G::combine_total(some[i], some[i + step]);
        }
      }
      G::combine_total(acc, some[0]);
    }
  }
  if constexpr (LINES > 1) {
    Total* const all = reinterpret_cast<Total*>(shared()) + thread();
    *all = acc;
#pragma unroll
    for (int lines = LINES / 2; lines > 0; lines /= 2) {
      sync_block();
      if (line >= lines) continue;
      G::combine_total(acc, all[lines * kPlaces]);
      *all = acc;
    }
  }
  if (line == 0 && k < K) g.emit_total(segment * rows, k, acc);
}

}  // namespace ws
