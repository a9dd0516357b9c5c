// Skeleton `rows`: reductions over the contiguous axis, in as many dependent stages as needed, with
// maps before, between and after (sums, softmax, norms, losses, argmax).
//
// A row of K elements belongs to THREADS_PER_ROW threads of a block, or to BLOCKS_PER_ROW whole
// blocks. It is cut into vectors of V elements; vector j * T + t belongs to thread t of the row's T.
// A thread's first REGISTER_VECTORS vectors stay in registers and the next SHARED_VECTORS in its own
// slots of shared memory from one stage to the next; what is left is read again, UNROLL vectors in
// flight. Persistent blocks refill each slot with the next row's vector as soon as the old one has
// been stored, so that memory stays busy while the blocks meet.
//
// Blocks of a row meet in a cluster (distributed shared memory) or in global memory; for the latter
// all blocks must be resident (cooperative launch), and `exchange` has kExchangeBytes of zeros for each
// group of BLOCKS_PER_ROW blocks in the grid. Partial results alternate between two places, so one
// meeting a stage is enough.
//
// Loops over shared slots are hardly unrolled, unless something else is read for each (G::kEmitReads):
// there is nothing to keep in flight, and the compiler would hold many slots' values at once and spill
// the registers that hold the row.
//
// Dynamic shared memory: RowsConfig::kScratchBytes + SHARED_VECTORS * THREADS * V * kStreamBytes.
//
// With CARRIES what a stage computes of a vector in registers is at hand in those after it (and takes more
// registers); a row then has a vector at least, and threads beyond its last one compute that again, so that
// no condition stands between. Else each stage computes it anew.
//
// chained<S>() says that a stage adds up floats: a long sum is then cut into chains (kChain).
//
// joined<S>() says that stage S sums and stage S + 1 sums the squares around the means of just that. They
// then meet once: `deviate` adds up how far a few vectors lie from the first element of them, and the squares
// of that (a Part<S>), `gather` adds such a part to a Joined<S>, which holds sums and sums of squares around 0
// in fp64; those merge by addition, and `split` makes of them what each stage would have given.
//
// Rows that start anywhere (G::kRagged): head(row) elements before the first aligned vector and the
// elements behind the last are single elements of the first 2 * V threads of the row.
#pragma once
#include <warpsmith/base.cuh>

namespace ws {

inline constexpr int kMaxAcc = 32;   // bytes of a stage's accumulators

enum Meeting { kAlone = 0, kCluster = 1, kCounter = 2 };

template <int V_, int THREADS_, int THREADS_PER_ROW_, int BLOCKS_PER_ROW_, int MEETING_, int REGISTER_VECTORS_,
          int SHARED_VECTORS_, int UNROLL_, bool PERSISTENT_, bool CARRIES_ = false>
struct RowsConfig {
  static constexpr int V = V_, kThreads = THREADS_, kThreadsPerRow = THREADS_PER_ROW_, kBlocksPerRow = BLOCKS_PER_ROW_;
  static constexpr int kMeeting = MEETING_, kRegisters = REGISTER_VECTORS_, kShared = SHARED_VECTORS_, kUnroll = UNROLL_;
  static constexpr bool kPersistent = PERSISTENT_, kCarries = CARRIES_;
  static constexpr int kRowsPerBlock = BLOCKS_PER_ROW_ > 1 ? 1 : THREADS_ / THREADS_PER_ROW_;
  static constexpr int kRowThreads = kThreadsPerRow * kBlocksPerRow;            // T
  static constexpr int kExchangeBytes = 2 * BLOCKS_PER_ROW_ * (kMaxAcc / 4) * 8;   // a group
  static constexpr int kScratchBytes = 2 * kMaxAcc * (THREADS_ / 32) + 2 * kMaxAcc;
  static_assert(BLOCKS_PER_ROW_ == 1 || THREADS_PER_ROW_ == THREADS_, "a row of several blocks has them whole");
};

// What a part of a row gives at the meeting that begins with stage S.
template <class G, int S, bool JOINED = G::template joined<S>()>
struct MeetingOf {
  using Acc = typename G::template Acc<S>;
  static WS_DEVICE Acc nothing() { return G::template identity<S>(); }
  static WS_DEVICE void merge(Acc& a, const Acc& b) { G::template combine<S>(a, b); }
  static WS_DEVICE void finish(const G& g, typename G::Row& row, const Acc& acc) { g.template finish<S>(row, acc); }
};
template <class G, int S>
struct MeetingOf<G, S, true> {
  using Acc = typename G::template Joined<S>;
  static WS_DEVICE Acc nothing() { return G::template identity_joined<S>(); }
  static WS_DEVICE void merge(Acc& a, const Acc& b) { G::template combine_joined<S>(a, b); }
  static WS_DEVICE void finish(const G& g, typename G::Row& row, const Acc& acc) {
    typename G::template Acc<S> sums;
    typename G::template Acc<S + 1> squares;
    G::template split<S>(acc, sums, squares);
    g.template finish<S>(row, sums);
    g.template finish<S + 1>(row, squares);
  }
};

// The meetings of one row's threads. `reduce` leaves the combined value in every thread.
template <class G, class C>
struct RowGroup {
  int lane;                // thread of the row within this block
  int rank = 0;            // block of the row
  int parity = 0;
  unsigned tag = 0;        // counter: number of the last meeting
  unsigned long long* exchange = nullptr;

  template <int S>
  WS_DEVICE void reduce(typename MeetingOf<G, S>::Acc& acc) {
    using Acc = typename MeetingOf<G, S>::Acc;
    static_assert(sizeof(Acc) <= kMaxAcc, "a stage has too many accumulators");
    constexpr int kWarpLanes = C::kThreadsPerRow < 32 ? C::kThreadsPerRow : 32;
#pragma unroll
    for (int mask = kWarpLanes / 2; mask > 0; mask /= 2) MeetingOf<G, S>::merge(acc, shuffle_xor(acc, mask));
    if constexpr (C::kThreadsPerRow > 32 || C::kBlocksPerRow > 1) {
      constexpr int kWarps = (C::kThreadsPerRow + 31) / 32;
      char* const slots = shared() + parity * kMaxAcc * (C::kThreads / 32);
      if constexpr (kWarps > 1) {
        const int warp = thread() / 32;
        if (thread() % 32 == 0) *reinterpret_cast<Acc*>(slots + warp * kMaxAcc) = acc;
        sync_block();
        const int first = warp / kWarps * kWarps;
        acc = *reinterpret_cast<const Acc*>(slots + (first + thread() % kWarps) * kMaxAcc);
#pragma unroll
        for (int mask = kWarps / 2; mask > 0; mask /= 2) MeetingOf<G, S>::merge(acc, shuffle_xor(acc, mask));
      }
      if constexpr (C::kBlocksPerRow > 1) meet<S>(acc);
      parity ^= 1;
    }
  }

  template <int S>
  WS_DEVICE void meet(typename MeetingOf<G, S>::Acc& acc) {
    using Acc = typename MeetingOf<G, S>::Acc;
    constexpr int kLanes = C::kBlocksPerRow < 32 ? C::kBlocksPerRow : 32;
    if constexpr (C::kMeeting == kCluster) {
      char* const mine = shared() + 2 * kMaxAcc * (C::kThreads / 32) + parity * kMaxAcc;
      if (thread() == 0) *reinterpret_cast<Acc*>(mine) = acc;
      sync_cluster();
      acc = *reinterpret_cast<const Acc*>(peer(mine, thread() % kLanes));
#pragma unroll
      for (int mask = kLanes / 2; mask > 0; mask /= 2) MeetingOf<G, S>::merge(acc, shuffle_xor(acc, mask));
    } else if constexpr (C::kMeeting == kCounter) {
      // Each word travels with the number of the meeting, so that no counter, fence or second read is needed.
      tag += 1;
      constexpr int kWords = sizeof(Acc) / 4;
      unsigned long long* const slots = exchange + parity * C::kBlocksPerRow * (kMaxAcc / 4);
      Acc* const result = reinterpret_cast<Acc*>(shared() + 2 * kMaxAcc * (C::kThreads / 32) + parity * kMaxAcc);
      if (thread() < 32) {
        if (thread() == 0) {
          Words<Acc> words;
          memcpy(&words, &acc, sizeof(Acc));
#pragma unroll
          for (int w = 0; w < kWords; ++w) post(slots + w * C::kBlocksPerRow + rank, words.w[w], tag);
        }
        // All words in flight together; the loop ends when each shows this meeting's tag.
        constexpr int kRounds = C::kBlocksPerRow / kLanes;
        unsigned long long got[kRounds][kWords];
        bool ready;
        do {
          ready = true;
#pragma unroll
          for (int i = 0; i < kRounds; ++i) {
#pragma unroll
            for (int w = 0; w < kWords; ++w) got[i][w] = peek(slots + w * C::kBlocksPerRow + i * kLanes + thread() % kLanes, tag);
          }
#pragma unroll
          for (int i = 0; i < kRounds; ++i) {
#pragma unroll
            for (int w = 0; w < kWords; ++w) ready &= static_cast<unsigned>(got[i][w] >> 32) == tag;
          }
        } while (!ready);
#pragma unroll
        for (int i = 0; i < kRounds; ++i) {
          Words<Acc> words;
#pragma unroll
          for (int w = 0; w < kWords; ++w) words.w[w] = static_cast<unsigned>(got[i][w]);
          Acc theirs;
          memcpy(&theirs, &words, sizeof(Acc));
          if (i == 0) acc = theirs; else MeetingOf<G, S>::merge(acc, theirs);
        }
#pragma unroll
        for (int mask = kLanes / 2; mask > 0; mask /= 2) MeetingOf<G, S>::merge(acc, shuffle_xor(acc, mask));
        if (thread() == 0) *result = acc;
      }
      sync_block();
      acc = *result;
    }
  }
};

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

  WS_DEVICE char* slot(int j) const {
    return shared() + C::kScratchBytes + (Index(j) * C::kThreads + thread()) * (V * G::kStreamBytes);
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
  template <int ROUNDS, class F>
  WS_DEVICE void rounds(const typename G::Row& row, int head, Index v, F&& f) const {
    // Two rounds' loads may be in flight together.
#pragma unroll 2
    for (int round = 0; round < ROUNDS; ++round, v += Index(C::kUnroll) * T) {
      Vector values[C::kUnroll];
#pragma unroll
      for (int u = 0; u < C::kUnroll; ++u) g.template load<V>(row, head + (v + Index(u) * T) * V, values[u]);
      f(head + v * V, values);
    }
  }
  // Calls f(k, values) for the vectors that are read again (edges are kept), as many at once as are in
  // flight. With CHAINED also pause() after every kChain of them.
  template <bool CHAINED, class F, class P>
  WS_DEVICE void rest(const typename G::Row& row, int head, F&& f, P&& pause) const {
    const Index n = vectors(head);
    if (Index(kKept) * T >= (G::kRagged ? K / V : n)) return;
    constexpr Index kStep = Index(C::kUnroll) * T;
    Index v = Index(kKept) * T + t;
    if constexpr (CHAINED) {
      constexpr int kRounds = C::kUnroll < kChain ? kChain / C::kUnroll : 1;
#pragma unroll 1
      for (; v + (kRounds * kStep - T) < n; v += kRounds * kStep) {
        rounds<kRounds>(row, head, v, f);
        pause();
      }
    }
    for (; v + (kStep - T) < n; v += kStep) rounds<1>(row, head, v, f);
    if constexpr (C::kUnroll > 1) {
      for (; v < n; v += T) {
        Vector values[1];
        g.template load<V>(row, head + v * V, values[0]);
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
    rest<CHAINED>(row, h, f, pause);
  }

  // Writes the row's elements; behind each kept vector its slot takes up the next row's.
  template <bool REFILL>
  WS_DEVICE void emit(const typename G::Row& row, const typename G::Row& next, bool more) {
    const int h = head(row);
    const int hn = REFILL ? head(next) : 0;
    const Index n = vectors(h);
    if constexpr (G::kEmits) rest<false>(row, h, Emits{g, row}, [] {});
#pragma unroll 1
    for (int j = 0; j < C::kShared; j += kTogether) {
      if constexpr (G::kEmits) {
        if (full(C::kRegisters + j + kTogether - 1) && j + kTogether <= C::kShared) {
#pragma unroll
          for (int u = 0; u < kTogether; ++u) {
            Vector values;
            G::template from_shared<V>(slot(j + u), values);
            g.template emit<V>(row, h + (Index(C::kRegisters + j + u) * T + t) * V, values);
          }
        } else {
#pragma unroll 1
          for (int u = 0; u < kTogether && j + u < C::kShared; ++u) {
            const Index v = Index(C::kRegisters + j + u) * T + t;
            if (!full(C::kRegisters + j + u) && v >= n) continue;
            Vector values;
            G::template from_shared<V>(slot(j + u), values);
            g.template emit<V>(row, h + v * V, values);
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
      if constexpr (G::kEmits) {
        if (full(j) || Index(j) * T + t < n) g.template emit<V>(row, position(j, h), kept[j]);
      }
      if (REFILL && more) load_register(next, hn, j);
    }
    if constexpr (G::kEmits) {
      const Index k = edge_position(h);
      if (k >= 0) g.template emit<1>(row, k, edge);
    }
    if (REFILL && more) load_edge(next, hn);
  }
};

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

template <class G, class C>
WS_DEVICE void rows(const G& g, typename G::Index rows, typename G::Index K, void* exchange) {
  using Index = typename G::Index;
  RowGroup<G, C> group;
  group.lane = thread() % C::kThreadsPerRow;
  group.rank = C::kBlocksPerRow > 1 ? block() % C::kBlocksPerRow : 0;
  const Index first_group = block() / C::kBlocksPerRow;
  const Index groups = blocks() / C::kBlocksPerRow;
  if constexpr (C::kMeeting == kCounter) {
    group.exchange = static_cast<unsigned long long*>(exchange) + first_group * Index(2 * C::kBlocksPerRow * (kMaxAcc / 4));
  }
  RowPart<G, C> part(g, K, group.rank * C::kThreads + group.lane);
  const Index in_block = C::kRowsPerBlock > 1 ? thread() / C::kThreadsPerRow : 0;
  Index r = first_group * C::kRowsPerBlock + in_block;
  // Threads of a row beyond the last one meet like the others but work on no row of their own.
  const Index steps = C::kPersistent ? (rows + C::kRowsPerBlock - 1) / C::kRowsPerBlock : first_group + 1;
  typename G::Row row = g.row(r < rows ? r : rows - 1);
  part.load_all(row);
  for (Index step = first_group; step < steps; step += groups) {
    row_stages<G, C, 0>(g, part, group, row);
    const bool mine = C::kRowsPerBlock == 1 || r < rows;
    const Index next_r = r + groups * C::kRowsPerBlock;
    const bool more = C::kPersistent && step + groups < steps;
    typename G::Row next = g.row(more && next_r < rows ? next_r : rows - 1);
    if constexpr (G::kRowOutputs) {
      if (mine && part.t == 0) g.emit_row(row);
    }
    if (mine) {
      part.template emit<C::kPersistent>(row, next, more);
    }
    row = next;
    r = next_r;
  }
  if constexpr (C::kMeeting == kCluster) sync_cluster();   // a peer may still read this block's partials
}

// The same blocks, but they do not meet.
template <class C>
struct Unmet : C {
  static constexpr int kBlocksPerRow = 1;
};

// First of two kernels: BLOCKS_PER_ROW blocks each leave a partial result of a row.
template <class G, class C>
WS_DEVICE void rows_partial(const G& g, typename G::Index K, typename MeetingOf<G, 0>::Acc* partial) {
  using Index = typename G::Index;
  const int rank = block() % C::kBlocksPerRow;
  const Index r = block() / C::kBlocksPerRow;
  RowPart<G, C> part(g, K, rank * C::kThreads + thread());
  RowGroup<G, Unmet<C>> group;
  group.lane = thread();
  const typename G::Row row = g.row(r);
  part.load_all(row);
  auto acc = part.template accumulate<0>(row);
  group.template reduce<0>(acc);
  if (thread() == 0) partial[r * Index(C::kBlocksPerRow) + rank] = acc;
}

// Second: a block of THREADS for each row combines them and ends the row.
template <class G, int THREADS>
WS_DEVICE void rows_combine(const G& g, typename G::Index blocks_per_row, const typename MeetingOf<G, 0>::Acc* partial) {
  using Index = typename G::Index;
  using C = RowsConfig<1, THREADS, THREADS, 1, kAlone, 0, 0, 1, false>;
  const Index r = block();
  typename G::Row row = g.row(r);
  auto acc = MeetingOf<G, 0>::nothing();
  for (Index i = thread(); i < blocks_per_row; i += THREADS) MeetingOf<G, 0>::merge(acc, partial[r * blocks_per_row + i]);
  RowGroup<G, C> group;
  group.lane = thread();
  group.template reduce<0>(acc);
  MeetingOf<G, 0>::finish(g, row, acc);
  if constexpr (G::kRowOutputs) {
    if (thread() == 0) g.emit_row(row);
  }
}

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
  struct Row { typename G::Row r[R]; };
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
  WS_DEVICE void emit_row(const Row& row) const {
#pragma unroll
    for (int i = 0; i < R; ++i) g.emit_row(row.r[i]);
  }
};

}  // namespace ws
