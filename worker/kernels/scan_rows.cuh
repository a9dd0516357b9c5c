// Scans along the contiguous axis (see scan.cuh).
#pragma once
#include <warpsmith/scan_order.cuh>

namespace ws {

template <int V_, int THREADS_, int THREADS_PER_ROW_, int BLOCKS_, int VECTORS_, int STAGES_>
struct ScanRowsConfig {
  static constexpr int V = V_, kThreads = THREADS_, kThreadsPerRow = THREADS_PER_ROW_, kBlocks = BLOCKS_;
  static constexpr int kVectors = VECTORS_, kStages = STAGES_;
  static constexpr int kRowsPerBlock = THREADS_ / THREADS_PER_ROW_;
  static constexpr int kLanes = THREADS_PER_ROW_ < 32 ? THREADS_PER_ROW_ : 32, kWarps = THREADS_PER_ROW_ / kLanes;
  static constexpr int kAhead = STAGES_ / 2;          // chunks that are posted before one is stored
  static constexpr int kPlaces = 2 * kAhead + 2;      // a fast block is so far before a slow one, and less
  static constexpr int kKept = BLOCKS_ > 1 ? kAhead + 2 : 2;   // chunks whose warps' totals are there
  static constexpr int kBlockWarps = (THREADS_ + 31) / 32;
  static constexpr int kScratchBytes = (kKept * kBlockWarps + 4) * kMaxScanned;
  static constexpr int kExchangeBytes = kPlaces * BLOCKS_ * (kMaxScanned / 4) * 8;   // a group
  static_assert(BLOCKS_ == 1 || THREADS_PER_ROW_ == THREADS_, "a row of several blocks has them whole");
  static_assert(STAGES_ >= 1 && kWarps <= 32, "a chunk in flight, and 32 warps at most");
};

// Where a thread is in its rows: a chunk of the row that its block is at.
template <class G, class C>
struct ScanCursor {
  using Index = typename G::Index;
  const G& g;
  const Index rows, sets, groups, chunks;
  Index set, chunk = 0;
  typename G::Row row;
  bool mine;   // there is such a row

  WS_DEVICE ScanCursor(const G& g, Index rows, Index chunks)
      : g(g),
        rows(rows),
        sets((rows + C::kRowsPerBlock - 1) / C::kRowsPerBlock),
        groups(blocks() / C::kBlocks),
        chunks(chunks),
        set(block() / C::kBlocks) {
    find();
  }
  WS_DEVICE void find() {
    const Index r = set * C::kRowsPerBlock + (C::kRowsPerBlock > 1 ? thread() / C::kThreadsPerRow : 0);
    mine = r < rows;
    row = g.row(mine ? r : rows - 1);
  }
  WS_DEVICE bool done() const { return set >= sets; }
  WS_DEVICE void next() {
    if (++chunk < chunks) return;
    chunk = 0;
    set += groups;
    find();
  }
};

// A thread's part of a chunk: where it is, and what it holds.
template <class G, class C>
struct ScanElements {
  using Index = typename G::Index;
  using Cursor = ScanCursor<G, C>;
  static constexpr int V = C::V, J = C::kVectors, L = C::kLanes;
  static constexpr Index kPart = Index(J) * C::kThreadsPerRow, kChunk = kPart * C::kBlocks;   // vectors
  static_assert(sizeof(typename G::Acc) <= kMaxScanned, "the accumulator is too large");

  const G& g;
  const Index N;     // vectors of a row
  const Index own;   // the thread's first of a chunk, in the scan's direction; its others follow L apart
  typename G::template Values<V> values[J];
  typename G::Element element[J][V];

  WS_DEVICE ScanElements(const G& g, Index K, int rank)
      : g(g),
        N(K / V),
        own(rank * kPart + Index(thread() % C::kThreadsPerRow / L) * (J * L) + thread() % C::kThreadsPerRow % L) {}

  WS_DEVICE Index vector(const Cursor& at, int j) const { return at.chunk * kChunk + own + j * L; }
  WS_DEVICE Index position(Index s) const { return (G::kReverse ? N - 1 - s : s) * V; }
  static constexpr int kSlots = J * C::kThreads;   // of a chunk, each of a vector of every stream
  WS_DEVICE static char* slots(int stage) {
    return shared() + C::kScratchBytes + Index(stage) * (kSlots * V * G::kStreamBytes);
  }
  WS_DEVICE static int slot(int j) { return j * C::kThreads + thread(); }

  // Starts the loads of a chunk; its end is a group of copies of its own.
  WS_DEVICE void load(const Cursor& at, int stage) const {
    if (at.done() || !at.mine) return;
#pragma unroll
    for (int j = 0; j < J; ++j) {
      const Index s = vector(at, j);
      if (s < N) g.template load_shared<V, kSlots>(at.row, position(s), slots(stage), slot(j));
    }
  }
  // Reads a chunk that has arrived.
  WS_DEVICE void read(const Cursor& at, int stage) {
#pragma unroll
    for (int j = 0; j < J; ++j) {
      const Index s = vector(at, j);
      if (at.mine && s < N) {
        G::template from_shared<V, kSlots>(slots(stage), slot(j), values[j]);
        g.template elements<V>(at.row, position(s), values[j], element[j]);
      } else {
#pragma unroll
        for (int i = 0; i < V; ++i) element[j][i] = G::no_element();
      }
    }
  }
};

// How chunks of it are combined; `upto`, its elements, become what the vector combines to up to each.
template <class G, class C>
struct ScanPart : ScanElements<G, C> {
  using Base = ScanElements<G, C>;
  using Acc = typename G::Acc;
  using typename Base::Cursor;
  using typename Base::Index;
  using Base::Base, Base::J, Base::L, Base::V;

  Acc before[J];     // in the warp's part of the chunk

  WS_DEVICE void read(const Cursor& at, int stage) {
    Base::read(at, stage);
    auto& upto = this->element;
#pragma unroll
    for (int j = 0; j < J; ++j) {
#pragma unroll
      for (int i = 1; i < V; ++i) {
        upto[j][in_order<G, V>(i)] = joined<G>(upto[j][in_order<G, V>(i - 1)], upto[j][in_order<G, V>(i)]);
      }
    }
  }
  // Fills `before`, and gives the warp's whole part, in every lane.
  WS_DEVICE Acc order(const Acc*) {
    Acc warp = G::identity();
#pragma unroll
    for (int j = 0; j < J; ++j) {
      Acc through = this->element[j][in_order<G, V>(V - 1)];
      scan_lanes<G, L>(through);
      before[j] = joined<G>(warp, before_lane<G, L>(through));
      G::combine(warp, shuffle(through, thread() % 32 / L * L + L - 1));
    }
    return warp;
  }
  // Stores the chunk, `base` being what stands before the warp's part, `end` what the chunk comes to.
  WS_DEVICE void store(const Cursor& at, const Acc& base, const Acc& end) const {
    const auto& upto = this->element;
#pragma unroll
    for (int j = 0; j < J; ++j) {
      const Index s = this->vector(at, j);
      if (!at.mine || s >= this->N) continue;
      const Acc running = joined<G>(base, before[j]);
      Acc result[V];
#pragma unroll
      for (int i = 0; i < V; ++i) {
        const int v = in_order<G, V>(i);
        if constexpr (G::kExclusive) {
          result[v] = i == 0 ? running : joined<G>(running, upto[j][in_order<G, V>(i > 0 ? i - 1 : 0)]);
        } else {
          result[v] = joined<G>(running, upto[j][v]);
        }
      }
      if constexpr (G::kEnds) {
        this->g.template emit<V>(at.row, this->position(s), this->values[j], result, end);
      } else {
        this->g.template emit<V>(at.row, this->position(s), this->values[j], result);
      }
    }
  }
};

// The same for products of floats: their accumulator is a Gain. Lanes are combined as plain floats
// where nothing in the warp's part comes near the ends of the range, or all of it can only shrink;
// where elements or what stands before them say otherwise, as gains.
template <class G, class C>
struct ScanProductPart : ScanElements<G, C> {
  using Base = ScanElements<G, C>;
  using typename Base::Cursor;
  using typename Base::Index;
  using Base::Base, Base::J, Base::L, Base::V;

  float before[J];     // in the warp's part, as a plain product
  float least, most;   // magnitudes of plain products there, of the row's lanes
  // Of the whole warp: what stands before a row's chunk stays as it is; all products are between 1 / kTame
  // and kTame; no element is beyond 1.
  bool lost, tame, shrinks;

  WS_DEVICE float factor(int j, int i) const { return this->element[j][in_order<G, V>(i)].v; }

  // Of the chunk at `carry`, what stands before it; nullptr: not known yet.
  WS_DEVICE Gain order(const float* carry) {
    lost = carry != nullptr && is_lost(*carry);
    if (lost) return no_gain();
    float running = 1;
    bool own_shrink = true;
    least = most = 1;
    Gain total = no_gain();
#pragma unroll
    for (int j = 0; j < J; ++j) {
      float upto[V];
#pragma unroll
      for (int i = 0; i < V; ++i) {
        upto[i] = i == 0 ? factor(j, 0) : upto[i > 0 ? i - 1 : 0] * factor(j, i);
        own_shrink &= abs(factor(j, i)) <= 1;
      }
      own_shrink &= abs(upto[V - 1]) >= kNormal;
      total.m *= upto[V - 1];
      if (own_shrink) normalise(total);
      float until = upto[V - 1];
#pragma unroll
      for (int d = 1; d < L; d *= 2) {
        const float earlier = shuffle_up(until, d);
        if (thread() % 32 % L >= d) until *= earlier;
      }
      const float previous = shuffle_up(until, 1);
      before[j] = thread() % L > 0 && L > 1 ? running * previous : running;
#pragma unroll
      for (int i = 0; i < V; ++i) {
        const float size = abs(before[j] * upto[i]);
        least = minimum(least, size);
        most = maximum(most, size);
      }
      running *= shuffle(until, thread() % 32 / L * L + L - 1);
    }
#pragma unroll
    for (int d = 1; d < L; d *= 2) {
      least = minimum(least, shuffle_xor(least, d));
      most = maximum(most, shuffle_xor(most, d));
    }
    int wild = (least >= 1 / kTame && most <= kTame ? 0 : 1) + (own_shrink ? 0 : 2);
#pragma unroll
    for (int d = 1; d < 32; d *= 2) wild |= shuffle_xor(wild, d);
    tame = (wild & 1) == 0;
    shrinks = (wild & 2) == 0;
    if (tame) return gain_of_tame(running, least, most);
    if (shrinks) {
#pragma unroll
      for (int d = 1; d < L; d *= 2) {
        total.m *= shuffle_xor(total.m, d);
        total.e += shuffle_xor(total.e, d);
      }
      normalise(total);
      total.under = Scaling(-150 - total.e).of(fast_div(1.0f, abs(total.m)));
      return total;
    }
    total = no_gain();
#pragma unroll
    for (int j = 0; j < J; ++j) total = followed(total, shuffle(lanes(j), thread() % 32 / L * L + L - 1));
    return total;
  }
  // Whether a product x is zero or no number, or infinite with its sign, after each of the warp's elements.
  WS_DEVICE bool is_lost(float x) const {
    int differs = !stays(x);
#pragma unroll
    for (int j = 0; j < J; ++j) {
#pragma unroll
      for (int i = 0; i < V; ++i) {
        const float f = factor(j, i), size = x - x == 0 ? abs(f) : f;
        differs |= !(size > 0 && size <= kLargest);
      }
    }
#pragma unroll
    for (int d = 1; d < 32; d *= 2) differs |= shuffle_xor(differs, d);
    return differs == 0;
  }
  // What the lanes up to this one make of a product.
  WS_DEVICE Gain lanes(int j) const {
    Gain until = no_gain();
#pragma unroll
    for (int i = 0; i < V; ++i) until = followed(until, factor(j, i));
#pragma unroll 1
    for (int d = 1; d < L; d *= 2) {
      const Gain earlier = shuffle_up(until, d);
      if (thread() % 32 % L >= d) until = followed(earlier, until);
    }
    return until;
  }

  // Stores the chunk, x being what stands before the warp's part.
  WS_DEVICE void store(const Cursor& at, float x, float) const {
    const float size = abs(x);
    int wild = lost ? 0 : tame ? !(stays(x) || (size <= kLargest / most && size * least >= kNormal)) : !shrinks || size > 1;
#pragma unroll
    for (int d = 1; d < 32; d *= 2) wild |= shuffle_xor(wild, d);
#pragma unroll
    for (int j = 0; j < J; ++j) {
      float running = lost ? x : x * before[j];
      if (wild) {
        const Gain until = lanes(j), previous = shuffle_up(until, 1);
        running = thread() % L > 0 && L > 1 ? through_rarely(previous, x) : x;
        x = through_rarely(shuffle(until, thread() % 32 / L * L + L - 1), x);
      }
      const Index s = this->vector(at, j);
      if (!at.mine || s >= this->N) continue;
      typename G::Element result[V];
#pragma unroll
      for (int i = 0; i < V; ++i) {
        if constexpr (G::kExclusive) result[in_order<G, V>(i)].v = running;
        running *= factor(j, i);
        if constexpr (!G::kExclusive) result[in_order<G, V>(i)].v = running;
      }
      this->g.template emit<V>(at.row, this->position(s), this->values[j], result);
    }
  }
};

// Of what the row's warps have in a chunk (`totals`, of the block's): what stands before this one, and all.
template <class G, class C>
WS_DEVICE void order_warps(const typename G::Acc* totals, typename G::Acc& before, typename G::Acc& all) {
  const int warp = thread() / 32, in_row = warp % C::kWarps;
  typename G::Acc through = totals[warp - in_row + thread() % 32 % C::kWarps];
  if constexpr (G::kProduct) {
    int differs = changes(through);
#pragma unroll
    for (int d = 1; d < C::kWarps; d *= 2) differs |= shuffle_xor(differs, d);
    if (differs == 0) {
      before = all = G::identity();
      return;
    }
  }
  scan_lanes<G, C::kWarps>(through);
  all = shuffle(through, C::kWarps - 1);
  const typename G::Acc previous = shuffle(through, in_row > 0 ? in_row - 1 : 0);
  before = in_row > 0 ? previous : G::identity();
}

// Rows that have a block, or a part of one, to themselves.
template <class G, class C, class Part>
WS_DEVICE void scan_rows_alone(Part& part, ScanCursor<G, C> at) {
  using Acc = typename G::Acc;
  using State = ScanState<G>;
  ScanCursor<G, C> ahead = at;
#pragma unroll 1
  for (int stage = 0; stage < C::kStages; ++stage, ahead.next()) {
    part.load(ahead, stage);
    copy_commit();
  }
  int stage = 0, parity = 0;
  typename State::Type carry = State::start();
  for (; !at.done(); at.next()) {
    if (at.chunk == 0) carry = State::start();
    copy_wait<C::kStages - 1>();
    part.read(at, stage);
    part.load(ahead, stage);
    copy_commit();
    ahead.next();
    stage = stage + 1 == C::kStages ? 0 : stage + 1;
    const Acc warp = part.order(&carry);
    Acc before = G::identity(), all = warp;
    if constexpr (C::kWarps > 1) {
      Acc* const totals = reinterpret_cast<Acc*>(shared() + parity * (kMaxScanned * C::kBlockWarps));
      if (thread() % 32 == 0) totals[thread() / 32] = warp;
      sync_block();
      order_warps<G, C>(totals, before, all);
      parity ^= 1;
    }
    const typename State::Type until = State::after(carry, all);
    part.store(at, State::after(carry, before), until);
    carry = until;
  }
}

// Of what the blocks of a row posted for a chunk: what stands before `rank`, and all. By the first warp.
template <class G, class C>
WS_DEVICE void gather_blocks(const unsigned long long* slots, int rank, unsigned tag, typename G::Acc* result) {
  using Acc = typename G::Acc;
  constexpr int kRounds = (C::kBlocks + 31) / 32;
  const int first = thread() * kRounds;
  Acc parts[kRounds];
  peek_words(slots, C::kBlocks, first, 1, C::kBlocks, tag, parts);
  Acc through = G::identity(), own = G::identity();   // own: of this lane's blocks, those before `rank`
#pragma unroll
  for (int i = 0; i < kRounds; ++i) {
    if (first + i == rank) own = through;
    if (first + i < C::kBlocks) G::combine(through, parts[i]);
  }
  scan_lanes<G, 32>(through);
  const Acc until = before_lane<G, 32>(through);
  if (thread() == rank / kRounds) result[0] = joined<G>(until, own);
  if (thread() == 31) result[1] = through;
}

// Rows that blocks share. Chunk i is read and posted kAhead chunks before it is stored, and read again then.
template <class G, class C, class Part>
WS_DEVICE void scan_rows_shared(Part& part, ScanCursor<G, C> at, int rank, unsigned long long* exchange) {
  using Acc = typename G::Acc;
  using State = ScanState<G>;
  constexpr int kPlace = C::kBlocks * (kMaxScanned / 4);
  ScanCursor<G, C> ahead = at, posted = at;
#pragma unroll 1
  for (int stage = 0; stage < C::kStages; ++stage, ahead.next()) {
    part.load(ahead, stage);
    copy_commit();
  }
  const auto totals_of = [](unsigned chunk) {
    return reinterpret_cast<Acc*>(shared() + chunk % C::kKept * (kMaxScanned * C::kBlockWarps));
  };
  const auto place_of = [&](unsigned chunk) { return exchange + chunk % C::kPlaces * kPlace; };
  typename State::Type carry = State::start();
  for (unsigned chunk = 0; !at.done(); ++chunk) {
    const bool posts = !posted.done(), stores = chunk >= C::kAhead;
    const unsigned stored = chunk - C::kAhead;
    Acc* const result = reinterpret_cast<Acc*>(shared() + C::kKept * C::kBlockWarps * kMaxScanned +
                                               chunk % 2 * (2 * kMaxScanned));
    copy_wait<C::kStages - C::kAhead - 1>();
    if (posts) {
      part.read(posted, chunk % C::kStages);
      const Acc warp = part.order(nullptr);
      if (thread() % 32 == 0) totals_of(chunk)[thread() / 32] = warp;
      posted.next();
    }
    sync_block();
    if (thread() < 32) {
      if (posts) {
        Acc before, all;
        order_warps<G, C>(totals_of(chunk), before, all);
        if (thread() == 0) post_words(place_of(chunk), C::kBlocks, rank, all, chunk + 1);
      }
      if (stores) gather_blocks<G, C>(place_of(stored), rank, stored + 1, result);
    }
    if (stores) {
      if (at.chunk == 0) carry = State::start();
      part.read(at, stored % C::kStages);
      part.order(nullptr);
      sync_block();
      Acc before, all;
      order_warps<G, C>(totals_of(stored), before, all);
      const typename State::Type until = State::after(carry, result[1]);
      part.store(at, State::after(State::after(carry, result[0]), before), until);
      carry = until;
      part.load(ahead, stored % C::kStages);
      ahead.next();
      at.next();
    }
    copy_commit();
  }
}

template <class G, class C, bool PRODUCT> struct ScanPartOf { using Type = ScanPart<G, C>; };
template <class G, class C> struct ScanPartOf<G, C, true> { using Type = ScanProductPart<G, C>; };

template <class G, class C>
WS_DEVICE void scan_rows(const G& g, typename G::Index rows, typename G::Index K, void* exchange) {
  using Index = typename G::Index;
  using Part = typename ScanPartOf<G, C, G::kProduct>::Type;
  const int rank = C::kBlocks > 1 ? block() % C::kBlocks : 0;
  Part part(g, K, rank);
  const ScanCursor<G, C> start(g, rows, (part.N + Part::kChunk - 1) / Part::kChunk);
  if constexpr (C::kBlocks > 1) {
    const Index group = block() / C::kBlocks;
    scan_rows_shared<G, C>(part, start, rank,
                           static_cast<unsigned long long*>(exchange) + group * Index(C::kExchangeBytes / 8));
  } else {
    scan_rows_alone<G, C>(part, start);
  }
}

}  // namespace ws
