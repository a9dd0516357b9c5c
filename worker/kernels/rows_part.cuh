// A thread's part of a row in the `rows` skeleton: what it keeps of it in registers and shared memory, how
// stages run over it, and how it is written and refilled (rows.cuh).
#pragma once
#include <warpsmith/rows_meeting.cuh>
#include <warpsmith/rows_totals.cuh>

namespace ws {

// One thread's part of a row.
template <class G, class C>
struct RowPart {
  using Index = typename G::Index;
  using Vector = typename G::template Values<C::V>;
  static constexpr int V = C::V, T = C::kRowThreads;
  static constexpr int kKept = C::kRegisters + C::kShared;
  // Shared slots that are written at once: as many as what is read for them is to be in flight.
  static constexpr int kTogether = !G::kEmitReads ? 1 : C::kUnroll < C::kShared ? C::kUnroll : C::kShared > 0 ? C::kShared : 1;

  // Vectors that are worked on together where they only are combined.
  static constexpr int kTaken = sizeof(Vector) <= 32 ? 2 : 1;
  // Slots arrive in groups of kGroup, the first of which is worked on while others are on their way.
  static constexpr int kStep = kTogether > kTaken ? kTogether : kTaken;   // powers of two, or one group
  static constexpr int kQuarter = (C::kShared + 3) / 4;
  static constexpr int kGroup = C::kShared <= kStep ? kStep : (kQuarter + kStep - 1) / kStep * kStep;
  static constexpr int kGroups = (C::kShared + kGroup - 1) / kGroup;

  const G& g;
  const Index K;
  const int t;                                // thread of the row
  Vector kept[C::kRegisters > 0 ? C::kRegisters : 1];
  Index at[C::kRegisters > 0 ? C::kRegisters : 1];
  typename G::template Values<1> edge;

  WS_DEVICE RowPart(const G& g, Index K, int t) : g(g), K(K), t(t) {}

  // Slots of a row, or with AHEAD a ring of more, in which the row begins at `begin`.
  static constexpr int kSlotStep = C::kThreads * V * G::kStreamBytes, kRing = (C::kShared + C::kAhead) * kSlotStep;
  int begin = thread() * (V * G::kStreamBytes);

  WS_DEVICE char* slot(int j) const {
    int at = begin + j * kSlotStep;
    if constexpr (C::kAhead > 0) at -= at < kRing ? 0 : kRing;
    return shared() + C::kScratchBytes + at;
  }
  WS_DEVICE int head(const typename G::Row& row) const { if constexpr (G::kRagged) return g.head(row); else return 0; }
  WS_DEVICE Index vectors(int head) const { return (K - head) / V; }
  // Vector j of every thread lies within the row, whatever the head.
  WS_DEVICE bool full(int j) const { return Index(j + 1) * T <= (G::kRagged ? (K - (V - 1)) / V : K / V); }
  // The single element of this thread, or -1.
  WS_DEVICE Index edge_position(int head) const {
    if constexpr (V == 1) return -1;
    if constexpr (!G::kRagged) { if (K % V == 0) return -1; }
    const Index behind = head + vectors(head) * V;
    if (t < head) return t;
    if (t >= V && t - V < K - behind) return behind + (t - V);
    return -1;
  }

  // Number of the vector that this thread has in register j of a row of n: with CARRIES always one that exists.
  WS_DEVICE Index place(int j, Index n) const {
    const Index v = Index(j) * T + t;
    return C::kCarries && !full(j) && v >= n ? n - 1 : v;
  }

  WS_DEVICE void load_register(const typename G::Row& row, int head, int j) {
    const Index v = place(j, vectors(head));
    at[j] = head + v * V;
    if (C::kCarries || full(j) || v < vectors(head)) g.template load<V>(row, at[j], kept[j]);
  }
  // Position in the row of the vector in register j. One value in all stages, if results are carried: what
  // is computed of it is then the same to the compiler.
  WS_DEVICE Index position(int j, int head) const {
    if constexpr (C::kCarries) return at[j]; else return head + (Index(j) * T + t) * V;
  }
  WS_DEVICE void load_slot(const typename G::Row& row, int head, int j) {
    const Index v = Index(C::kRegisters + j) * T + t;
    if (full(C::kRegisters + j) || v < vectors(head)) g.template load_shared<V>(row, head + v * V, slot(j));
  }
  static WS_DEVICE constexpr bool ends_group(int slots) { return slots % kGroup == 0 || slots >= C::kShared; }
  WS_DEVICE void load_edge(const typename G::Row& row, int head) {
    const Index k = edge_position(head);
    if (k >= 0) g.template load<1>(row, k, edge);
  }
  WS_DEVICE void load_all(const typename G::Row& row) {
    const int h = head(row);
#pragma unroll 1
    for (int j = 0; j < C::kShared; ++j) {
      load_slot(row, h, j);
      if (ends_group(j + 1)) copy_commit();
    }
#pragma unroll
    for (int j = 0; j < C::kRegisters; ++j) load_register(row, h, j);
    load_edge(row, h);
  }

  // What is done with N vectors at once, T * V elements apart, the first of which begins at k. (No lambdas:
  // NVRTC takes a generic one for code of the host.)
  template <int S>
  struct Accumulates {
    const G& g;
    const typename G::Row& row;
    typename G::template Acc<S>& acc;
    template <int N>
    WS_DEVICE void operator()(Index k, const Vector (&values)[N]) const {
#pragma unroll
      for (int u = 0; u < N; ++u) g.template accumulate<S, V>(row, k + Index(u) * (T * V), values[u], acc);
    }
    // Computes in any case, and counts it if `exists`.
    WS_DEVICE void when(bool exists, Index k, const Vector (&values)[1]) const {
      auto with = acc;
      Accumulates{g, row, with}(k, values);
      if (exists) acc = with;
    }
  };
  template <int S>
  struct Gathers {
    const G& g;
    const typename G::Row& row;
    typename MeetingOf<G, S>::Acc& all;
    template <int N>
    WS_DEVICE void operator()(Index k, const Vector (&values)[N]) const {
      auto some = G::template part<S>();
#pragma unroll
      for (int u = 0; u < N; ++u) g.template deviate<S, V>(row, k + Index(u) * (T * V), values[u], u == 0, some);
      G::template gather<S>(all, some, N * V);
    }
    WS_DEVICE void when(bool exists, Index k, const Vector (&values)[1]) const {
      auto with = all;
      Gathers{g, row, with}(k, values);
      if (exists) all = with;
    }
  };
  struct Emits {
    const G& g;
    const typename G::Row& row;
    template <int N>
    WS_DEVICE void operator()(Index k, const Vector (&values)[N]) const {
#pragma unroll
      for (int u = 0; u < N; ++u) g.template emit<V>(row, k + Index(u) * (T * V), values[u]);
    }
  };

  // f of the slots from j to `end`, N at once and the rest by fewer.
  template <int N, class F>
  WS_DEVICE void take_slots(int h, int j, int end, const F& f) const {
#pragma unroll 1
    for (; j + N <= end; j += N) {
      const Index v = Index(C::kRegisters + j) * T + t;
      if (N > 1 ? full(C::kRegisters + j + N - 1) : full(C::kRegisters + j) || v < vectors(h)) {
        Vector values[N];
#pragma unroll
        for (int u = 0; u < N; ++u) G::template from_shared<V>(slot(j + u), values[u]);
        f(h + v * V, values);
      } else if constexpr (N > 1) {
        take_slots<1>(h, j, j + N, f);
      }
    }
    if constexpr (N > 1) take_slots<N / 2>(h, j, end, f);
  }
  // The same of slots as they arrive.
  template <bool ARRIVE, int GROUP, class F>
  WS_DEVICE void take_groups(int h, const F& f) const {
    if constexpr (GROUP < kGroups) {
      if constexpr (ARRIVE) copy_wait<kGroups - 1 - GROUP>();
      take_slots<kTaken>(h, GROUP * kGroup, (GROUP + 1) * kGroup < C::kShared ? (GROUP + 1) * kGroup : C::kShared, f);
      take_groups<ARRIVE, GROUP + 1>(h, f);
    }
  }
  template <int N, class F>
  WS_DEVICE void take_registers(int h, const F& f) const {
    if constexpr (C::kCarries) {
#pragma unroll
      for (int j = 0; j < C::kRegisters; ++j) {
        const Vector values[1] = {kept[j]};
        f.when(full(j) || Index(j) * T + t < vectors(h), position(j, h), values);
      }
      return;
    }
#pragma unroll
    for (int j = 0; j < C::kRegisters; j += N) {
      if (j + N <= C::kRegisters && full(j + N - 1)) {
        Vector values[N];
#pragma unroll
        for (int u = 0; u < N; ++u) values[u] = kept[j + u < C::kRegisters ? j + u : 0];
        f(h + (Index(j) * T + t) * V, values);
        continue;
      }
#pragma unroll
      for (int u = 0; u < N && j + u < C::kRegisters; ++u) {
        const Index v = Index(j + u) * T + t;
        Vector values[1] = {kept[j + u]};
        if (full(j + u) || v < vectors(h)) f(h + v * V, values);
      }
    }
  }
  // f of what the thread keeps, the edge aside. Slots were asked for first, so they come first.
  template <bool ARRIVE, class F>
  WS_DEVICE void take_kept(int h, const F& f) const {
    take_groups<ARRIVE, 0>(h, f);
    take_registers<kTaken>(h, f);
  }

  // ROUNDS times UNROLL of the thread's vectors from number v on, which all exist.
  template <int ROUNDS, bool LAST, class F>
  WS_DEVICE void rounds(const typename G::Row& row, int head, Index v, F&& f) const {
    // Two rounds' loads may be in flight together.
#pragma unroll 2
    for (int round = 0; round < ROUNDS; ++round, v += Index(C::kUnroll) * T) {
      Vector values[C::kUnroll];
#pragma unroll
      for (int u = 0; u < C::kUnroll; ++u) load_again<LAST>(row, head + (v + Index(u) * T) * V, values[u]);
      f(head + v * V, values);
    }
  }
  // With CACHED the second-level cache has what is read again from the first reading to the LAST.
  template <bool LAST>
  WS_DEVICE void load_again(const typename G::Row& row, Index k, Vector& values) const {
    if constexpr (C::kCached) {
      g.template load<V, LAST ? 1 : 4>(row, k, values);
    } else {
      g.template load<V>(row, k, values);
    }
  }
  // Calls f(k, values) for the vectors that are read again (edges are kept), as many at once as are in
  // flight. With CHAINED also pause() after every kChain of them.
  template <bool CHAINED, bool LAST, class F, class P>
  WS_DEVICE void rest(const typename G::Row& row, int head, F&& f, P&& pause) const {
    const Index n = vectors(head);
    if (Index(kKept) * T >= (G::kRagged ? K / V : n)) return;
    constexpr Index kStep = Index(C::kUnroll) * T;
    Index v = Index(kKept) * T + t;
    if constexpr (CHAINED) {
      constexpr int kRounds = C::kUnroll < kChain ? kChain / C::kUnroll : 1;
#pragma unroll 1
      for (; v + (kRounds * kStep - T) < n; v += kRounds * kStep) {
        rounds<kRounds, LAST>(row, head, v, f);
        pause();
      }
    }
    for (; v + (kStep - T) < n; v += kStep) rounds<1, LAST>(row, head, v, f);
    if constexpr (C::kUnroll > 1) {
      for (; v < n; v += T) {
        Vector values[1];
        load_again<LAST>(row, head + v * V, values[0]);
        f(head + v * V, values);
      }
    }
  }

  // What was computed from kept values in one stage is computed again in the next, not carried along:
  // the compiler would otherwise trade the registers that hold the row for those results.
  WS_DEVICE void forget() {
    if constexpr (C::kCarries) return;
#pragma unroll
    for (int j = 0; j < C::kRegisters; ++j) opaque(kept[j]);
  }

  // What the row's elements give at the meeting that begins with stage S.
  template <int S>
  WS_DEVICE typename MeetingOf<G, S>::Acc accumulate(const typename G::Row& row) const {
    if constexpr (G::template joined<S>()) {
      auto acc = MeetingOf<G, S>::nothing();
      take_all<S, false>(row, Gathers<S>{g, row, acc}, [] {});
      if (const Index k = edge_position(head(row)); k >= 0) {
        auto some = G::template part<S>();
        g.template deviate<S, 1>(row, k, edge, true, some);
        G::template gather<S>(acc, some, 1);
      }
      return acc;
    } else {
      auto acc = G::template identity<S>(), total = acc;
      // Long sums in chains.
      const bool many = G::template chained<S>() && K / V > Index(kKept + 2 * kChain) * T;
      const auto pause = [&] {
        G::template combine<S>(total, acc);
        acc = G::template identity<S>();
      };
      const Accumulates<S> take{g, row, acc};
      if (many) {
        take_all<S, G::template chained<S>()>(row, take, pause);
        G::template combine<S>(acc, total);
      } else {
        take_all<S, false>(row, take, [] {});
      }
      if (const Index k = edge_position(head(row)); k >= 0) g.template accumulate<S, 1>(row, k, edge, acc);
      return acc;
    }
  }
  template <int S, bool CHAINED, class F, class P>
  WS_DEVICE void take_all(const typename G::Row& row, const F& f, P&& pause) const {
    const int h = head(row);
    take_kept<S == 0>(h, f);
    rest<CHAINED, false>(row, h, f, pause);
  }

  // Something is done with each element behind all stages.
  static constexpr bool kEnds = G::kEmits || G::kTotals;
  WS_DEVICE void end_slot(const typename G::Row& row, int j, Index k, const Vector& values, const RowTotals<G, C>& totals) const {
    totals.add_slot(g, j, row, k, values);
    if constexpr (G::kEmits) g.template emit<V>(row, k, values);
  }
  // Writes the row's elements and adds to its totals; behind each kept vector its slot takes up the next row's.
  template <bool REFILL>
  WS_DEVICE void emit(const typename G::Row& row, const typename G::Row& next, bool more, RowTotals<G, C>& totals) {
    const int h = head(row);
    const int hn = REFILL ? head(next) : 0;
    const Index n = vectors(h);
    if constexpr (G::kEmits) rest<false, true>(row, h, Emits{g, row}, [] {});
#pragma unroll 1
    for (int j = 0; j < C::kShared; j += kTogether) {
      if constexpr (kEnds) {
        if (full(C::kRegisters + j + kTogether - 1) && j + kTogether <= C::kShared) {
#pragma unroll
          for (int u = 0; u < kTogether; ++u) {
            Vector values;
            G::template from_shared<V>(slot(j + u), values);
            end_slot(row, j + u, h + (Index(C::kRegisters + j + u) * T + t) * V, values, totals);
          }
        } else {
#pragma unroll 1
          for (int u = 0; u < kTogether && j + u < C::kShared; ++u) {
            const Index v = Index(C::kRegisters + j + u) * T + t;
            if (!full(C::kRegisters + j + u) && v >= n) continue;
            Vector values;
            G::template from_shared<V>(slot(j + u), values);
            end_slot(row, j + u, h + v * V, values, totals);
          }
        }
      }
      if (REFILL && more) {
#pragma unroll
        for (int u = 0; u < kTogether; ++u) {
          if (j + u < C::kShared) load_slot(next, hn, j + u);
        }
      }
      if (REFILL && ends_group(j + kTogether)) copy_commit();
    }
#pragma unroll
    for (int j = 0; j < C::kRegisters; ++j) {
      if constexpr (kEnds) {
        if (full(j) || Index(j) * T + t < n) {
          totals.add_register(g, j, row, position(j, h), kept[j]);
          if constexpr (G::kEmits) g.template emit<V>(row, position(j, h), kept[j]);
        }
      }
      if (REFILL && more) load_register(next, hn, j);
    }
    if constexpr (kEnds) {
      const Index k = edge_position(h);
      if (k >= 0) {
        totals.add_edge(g, row, k, edge);
        if constexpr (G::kEmits) g.template emit<1>(row, k, edge);
      }
    }
    if (REFILL && more) load_edge(next, hn);
  }
};

// A row's stages from S on.
template <class G, class C, int S>
WS_DEVICE void row_stages(const G& g, RowPart<G, C>& part, RowGroup<G, C>& group, typename G::Row& row) {
  if constexpr (S < G::kStages) {
    auto acc = part.template accumulate<S>(row);
    group.template reduce<S>(acc);
    MeetingOf<G, S>::finish(g, row, acc);
    part.forget();
    row_stages<G, C, S + (G::template joined<S>() ? 2 : 1)>(g, part, group, row);
  }
}

}  // namespace ws
