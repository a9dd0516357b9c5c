// Scans along an outer axis (see scan.cuh).
#pragma once
#include <warpsmith/scan_order.cuh>

namespace ws {

// ACC: bytes of an accumulator.
template <int V_, int THREADS_, int THREAD_ROWS_, int BLOCKS_, int VECTORS_, int STAGES_, int ACC_>
struct ScanColumnsConfig {
  static constexpr int V = V_, kThreads = THREADS_, kThreadRows = THREAD_ROWS_, kBlocks = BLOCKS_;
  static constexpr int kVectors = VECTORS_, kStages = STAGES_;
  static constexpr int kThreadColumns = THREADS_ / THREAD_ROWS_;
  static constexpr int kLaneRows = kThreadColumns < 32 ? 32 / kThreadColumns : 1;   // thread rows of a warp
  static constexpr int kLines = kThreadRows / kLaneRows;                            // warps deep
  static constexpr int kPlaces = kThreadColumns * V_;                               // columns of a block
  static constexpr int kOrderBytes = kLines * kPlaces * ACC_;
  static constexpr int kScratchBytes = (2 * kOrderBytes + (BLOCKS_ > 1 ? 2 * (kOrderBytes + kPlaces * ACC_) : 0) + 15) / 16 * 16;
  static constexpr int kExchangeBytes = 2 * BLOCKS_ * kPlaces * ACC_ / 4 * 8;   // a group
  static_assert(STAGES_ >= 1 && THREADS_ % 32 == 0, "a chunk in flight, and whole warps");
};

// What a block's thread rows, and an axis's blocks, have before them in a chunk, for V columns.
template <class G, class C>
struct ScanColumnMeeting {
  using Acc = typename G::Acc;
  static constexpr int V = C::V, TC = C::kThreadColumns;
  int parity = 0;
  unsigned tag = 0;
  int rank = 0;
  unsigned long long* exchange = nullptr;

  // [line][v][thread column]: neighbouring lanes use neighbouring words
  WS_DEVICE static int place(int line, int v) { return (line * V + v) * TC + thread() % TC; }

  // `mine` of the thread rows in order: what stands before this one's, and all. `totals`: kOrderBytes.
  WS_DEVICE static void order(char* scratch, const Acc (&mine)[V], Acc (&before)[V], Acc (&all)[V]) {
    Acc* const totals = reinterpret_cast<Acc*>(scratch);
    const int lane = thread() % 32, lane_row = lane / TC, line = thread() / TC / C::kLaneRows;
#pragma unroll
    for (int v = 0; v < V; ++v) {
      all[v] = mine[v];
      before[v] = G::identity();
      if constexpr (C::kLaneRows > 1) {
#pragma unroll
        for (int d = 1; d < C::kLaneRows; d *= 2) {
          const Acc earlier = shuffle_up(all[v], d * TC);
          if (lane_row >= d) all[v] = joined<G>(earlier, all[v]);
        }
        const Acc earlier = shuffle_up(all[v], TC);
        if (lane_row > 0) before[v] = earlier;
        all[v] = shuffle(all[v], 32 - TC + lane % TC);
      }
    }
    if constexpr (C::kLines > 1) {
      if (lane_row == 0 || C::kLaneRows == 1) {
#pragma unroll
        for (int v = 0; v < V; ++v) totals[place(line, v)] = all[v];
      }
      sync_block();
#pragma unroll
      for (int v = 0; v < V; ++v) {
        Acc upto = totals[place(0, v)], earlier = G::identity();
#pragma unroll
        for (int l = 1; l < C::kLines; ++l) {
          if (l == line) earlier = upto;
          G::combine(upto, totals[place(l, v)]);
        }
        before[v] = joined<G>(earlier, before[v]);
        all[v] = upto;
      }
    }
  }

  WS_DEVICE void meet(const Acc (&mine)[V], Acc (&before)[V], Acc (&all)[V]) {
    static_assert(C::kOrderBytes == C::kLines * C::kPlaces * int(sizeof(Acc)), "the accumulator is as large as was said");
    order(shared() + parity * C::kOrderBytes, mine, before, all);
    if constexpr (C::kBlocks > 1) meet_blocks(before, all);
    parity ^= 1;
  }

  // Each thread row reads the posts of its share of the blocks.
  WS_DEVICE void meet_blocks(Acc (&before)[V], Acc (&all)[V]) {
    constexpr int kRounds = (C::kBlocks + C::kThreadRows - 1) / C::kThreadRows, kSlots = C::kBlocks * C::kPlaces;
    tag += 1;
    const int row = thread() / TC, first = row * kRounds;
    unsigned long long* const slots = exchange + parity * (C::kExchangeBytes / 16);
    char* const scratch = shared() + 2 * C::kOrderBytes + parity * (C::kOrderBytes + C::kPlaces * int(sizeof(Acc)));
    Acc through[V], own[V], until[V];   // own: of this thread row's blocks, those before `rank`
#pragma unroll
    for (int v = 0; v < V; ++v) {
      if (row == 0) post_words(slots, kSlots, rank * C::kPlaces + place(0, v), all[v], tag);
    }
#pragma unroll
    for (int v = 0; v < V; ++v) {
      Acc parts[kRounds];
      peek_words(slots, kSlots, first * C::kPlaces + place(0, v), C::kPlaces, kSlots, tag, parts);
      through[v] = G::identity();
      own[v] = G::identity();
#pragma unroll
      for (int i = 0; i < kRounds; ++i) {
        if (first + i == rank) own[v] = through[v];
        if (first + i < C::kBlocks) G::combine(through[v], parts[i]);
      }
    }
    order(scratch, through, until, all);
    Acc* const earlier = reinterpret_cast<Acc*>(scratch + C::kOrderBytes);
    if (row == rank / kRounds) {
#pragma unroll
      for (int v = 0; v < V; ++v) earlier[place(0, v)] = joined<G>(until[v], own[v]);
    }
    sync_block();
#pragma unroll
    for (int v = 0; v < V; ++v) before[v] = joined<G>(earlier[place(0, v)], before[v]);
  }
};

// What a thread's places of column v combine to.
template <class G, int J, int V>
WS_DEVICE typename G::Acc column_total(const typename G::Element (&upto)[J][V], int v) {
  if constexpr (G::kProduct) {
    float product = 1, least = 1, most = 1;
#pragma unroll
    for (int j = 0; j < J; ++j) {
      product *= upto[j][v].v;
      least = minimum(least, abs(product));
      most = maximum(most, abs(product));
    }
    if (least >= 1 / kTame && most <= kTame) return gain_of_tame(product, least, most);
    Gain gain = no_gain();
#pragma unroll
    for (int j = 0; j < J; ++j) gain = followed(gain, upto[j][v].v);
    return gain;
  } else {
    return upto[J - 1][v];
  }
}
// The result at place j, asked for in order; `before` is what stands before the thread's places.
template <class G, int J, int V>
WS_DEVICE typename G::Element column_result(typename ScanState<G>::Type& before, const typename G::Element (&upto)[J][V], int j, int v) {
  if constexpr (G::kProduct) {
    const float product = before * upto[j][v].v;
    const float result = G::kExclusive ? before : product;
    before = product;
    return {result};
  } else if constexpr (G::kExclusive) {
    return j == 0 ? before : joined<G>(before, upto[j > 0 ? j - 1 : 0][v]);
  } else {
    return joined<G>(before, upto[j][v]);
  }
}

template <class G, class C>
WS_DEVICE void scan_columns(const G& g, typename G::Index outer, typename G::Index K, typename G::Index columns,
                            void* exchange) {
  using Index = typename G::Index;
  using Acc = typename G::Acc;
  constexpr int V = C::V, J = C::kVectors;
  constexpr Index kWidth = Index(C::kThreadColumns) * V, kPart = Index(J) * C::kThreadRows, kChunk = kPart * C::kBlocks;
  const Index tiles = (columns + kWidth - 1) / kWidth, jobs = tiles * outer, chunks = (K + kChunk - 1) / kChunk;
  const Index groups = blocks() / C::kBlocks, group = block() / C::kBlocks;
  ScanColumnMeeting<G, C> meeting;
  meeting.rank = C::kBlocks > 1 ? block() % C::kBlocks : 0;
  if constexpr (C::kBlocks > 1) {
    meeting.exchange = static_cast<unsigned long long*>(exchange) + group * Index(C::kExchangeBytes / 8);
  }
  const Index own = meeting.rank * kPart + Index(thread() / C::kThreadColumns) * J;
  const auto position = [&](Index p) { return G::kReverse ? K - 1 - p : p; };
  constexpr int kSlots = J * C::kThreads;   // of a chunk, each of a vector of every stream
  const auto slots = [](int stage) {
    return shared() + C::kScratchBytes + Index(stage) * (kSlots * V * G::kStreamBytes);
  };
  const auto slot = [](int j) { return j * C::kThreads + thread(); };
  const auto column_of = [&](Index job) { return job % tiles * kWidth + Index(thread() % C::kThreadColumns) * V; };
  const auto column_at = [&](Index job) {
    const Index c = column_of(job);
    return g.template column<V>(job < jobs ? job / tiles : 0, c < columns ? c : 0);
  };

  Index load_job = group, load_chunk = 0;
  typename G::template Column<V> load_column = column_at(group);
  const auto load_next = [&](int stage) {
    if (load_job < jobs) {
      if (column_of(load_job) < columns) {
#pragma unroll
        for (int j = 0; j < J; ++j) {
          const Index p = load_chunk * kChunk + own + j;
          if (p < K) g.template load_shared<V, kSlots>(load_column, position(p), slots(stage), slot(j));
        }
      }
      if (++load_chunk == chunks) {
        load_chunk = 0;
        load_job += groups;
        load_column = column_at(load_job);
      }
    }
    copy_commit();
  };
#pragma unroll 1
  for (int stage = 0; stage < C::kStages; ++stage) load_next(stage);

  int stage = 0;
  for (Index job = group; job < jobs; job += groups) {
    const bool mine = column_of(job) < columns;
    const typename G::template Column<V> column = column_at(job);
    typename ScanState<G>::Type carry[V];
#pragma unroll
    for (int v = 0; v < V; ++v) carry[v] = ScanState<G>::start();
    for (Index chunk = 0; chunk < chunks; ++chunk) {
      const Index first = chunk * kChunk + own;
      copy_wait<C::kStages - 1>();
      typename G::template Values<V> values[J];
      typename G::Element upto[J][V];   // of the thread's own places; of products the elements
#pragma unroll
      for (int j = 0; j < J; ++j) {
        if (mine && first + j < K) {
          G::template from_shared<V, kSlots>(slots(stage), slot(j), values[j]);
          g.template elements<V>(column, position(first + j), values[j], upto[j]);
        } else {
#pragma unroll
          for (int v = 0; v < V; ++v) upto[j][v] = G::no_element();
        }
        if constexpr (!G::kProduct) {
#pragma unroll
          for (int v = 0; v < V; ++v) upto[j][v] = j > 0 ? joined<G>(upto[j > 0 ? j - 1 : 0][v], upto[j][v]) : upto[j][v];
        }
      }
      load_next(stage);
      stage = stage + 1 == C::kStages ? 0 : stage + 1;

      Acc mine_all[V], before[V], all[V];
#pragma unroll
      for (int v = 0; v < V; ++v) mine_all[v] = column_total<G>(upto, v);
      meeting.meet(mine_all, before, all);
      typename ScanState<G>::Type running[V];
#pragma unroll
      for (int v = 0; v < V; ++v) {
        running[v] = ScanState<G>::after(carry[v], before[v]);
        carry[v] = ScanState<G>::after(carry[v], all[v]);
      }
      if (!mine) continue;
#pragma unroll
      for (int j = 0; j < J; ++j) {
        if (first + j >= K) continue;
        typename G::Element result[V];
#pragma unroll
        for (int v = 0; v < V; ++v) result[v] = column_result<G>(running[v], upto, j, v);
        g.template emit<V>(column, position(first + j), values[j], result);
      }
    }
  }
}

}  // namespace ws
