// Skeleton `scan`: cumulative combinations along one axis, in one pass, with maps before and after.
//
// The axis is gone through in chunks, each in the registers of its threads; what stands before a chunk
// is carried along. Loads of the next STAGES chunks are in flight in the threads' own slots of shared
// memory all the while, also while threads meet. A chunk is combined within threads, then among the
// lanes of a warp, the warps of a block and the blocks of a row, in order at each level, so that errors
// of floating-point sums grow with the depth of that tree and the number of chunks, not of elements.
//
// Where rows (or columns) are too few to keep the card busy, BLOCKS of them share each chunk: every
// block posts what its part combines to and reads what all others posted, in one meeting a chunk. All
// blocks must be resident then (cooperative launch), and `exchange` has kExchangeBytes of zeros for each
// group of BLOCKS blocks in the grid. Nobody waits for what another block made of its predecessors, so
// there is no chain of waits and the result is the same in each run. Along rows a block posts a chunk
// some chunks before it needs the others' posts for it, so that the way there and back costs nothing;
// the chunk stays in shared memory until then.
//
// `scan_rows` goes along the contiguous axis: vectors of V elements, V divides the row, THREADS_PER_ROW
// threads (or all of BLOCKS blocks) a row; a chunk of a thread is VECTORS vectors, a warp's stand
// together. `scan_columns` goes along an outer axis: a thread has V neighbouring columns and VECTORS
// consecutive places of the axis, and THREAD_ROWS threads of a block share the axis.
//
// G gives the kernels meaning: kReverse (the axis is gone through from its end), kExclusive, Acc with
// identity() and combine(acc, next) (acc becomes acc, then next), loads, elements (the values that are
// combined: Element, no_element() where there is none) and emit (what is stored). Element is Acc, but
// for products of floats (kProduct): a float there, and Acc is Gain. Loads go to slots of shared memory: of the N vectors of a chunk
// each stream has its own array.
//
// Dynamic shared memory: kScratchBytes + STAGES * VECTORS * THREADS * V * G::kStreamBytes.
#pragma once
#include <warpsmith/base.cuh>

namespace ws {

inline constexpr int kMaxScanned = 16;   // bytes of an accumulator

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

// ---- order ------------------------------------------------------------------------------------------

// What stands before and what comes next, combined; neither changes.
template <class G>
WS_DEVICE typename G::Acc joined(typename G::Acc before, const typename G::Acc& next) {
  G::combine(before, next);
  return before;
}

// `acc` of each of LANES neighbouring lanes becomes what theirs up to its own combine to. All lanes of
// the warp come here.
template <class G, int LANES>
WS_DEVICE void scan_lanes(typename G::Acc& acc) {
  const int in_group = thread() % 32 % LANES;
#pragma unroll
  for (int d = 1; d < LANES; d *= 2) {
    const typename G::Acc before = shuffle_up(acc, d);
    if (in_group >= d) acc = joined<G>(before, acc);
  }
}
// What stands before the lane's own, after scan_lanes.
template <class G, int LANES>
WS_DEVICE typename G::Acc before_lane(const typename G::Acc& through) {
  const int lane = thread() % 32;
  if constexpr (LANES == 1) return G::identity();
  const typename G::Acc before = shuffle_up(through, 1);
  return lane % LANES > 0 ? before : G::identity();
}

// Tagged words of an accumulator (see post): word w of place p is slots[w * places + p].
template <class Acc>
WS_DEVICE void post_words(unsigned long long* slots, int places, int p, const Acc& acc, unsigned tag) {
  Words<Acc> words;
  memcpy(&words, &acc, sizeof(Acc));
#pragma unroll
  for (int w = 0; w < int(sizeof(Acc) / 4); ++w) post(slots + w * places + p, words.w[w], tag);
}
// COUNT places from `first` on that are below `end`; all their words are in flight together.
template <class Acc, int COUNT>
WS_DEVICE void peek_words(const unsigned long long* slots, int places, int first, int step, int end, unsigned tag,
                          Acc (&acc)[COUNT]) {
  constexpr int kWords = sizeof(Acc) / 4;
  unsigned long long got[COUNT][kWords];
  bool ready;
  do {
    ready = true;
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
      const int p = first + i * step;
      if (p >= end) continue;
#pragma unroll
      for (int w = 0; w < kWords; ++w) got[i][w] = peek(slots + w * places + p, tag);
    }
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
      if (first + i * step >= end) continue;
#pragma unroll
      for (int w = 0; w < kWords; ++w) ready &= static_cast<unsigned>(got[i][w] >> 32) == tag;
    }
  } while (!ready);
#pragma unroll
  for (int i = 0; i < COUNT; ++i) {
    if (first + i * step >= end) continue;
    Words<Acc> words;
#pragma unroll
    for (int w = 0; w < kWords; ++w) words.w[w] = static_cast<unsigned>(got[i][w]);
    memcpy(&acc[i], &words, sizeof(Acc));
  }
}

// log(exp(a) + exp(b)), also where both are infinities.
template <class T>
WS_DEVICE T log_add(T a, T b) {
  const T most = maximum(a, b), least = minimum(a, b);
  return most - most != 0 ? most : most + log1p(exp(least - most));   // NaN and infinity stay
}

// ---- products of floats -------------------------------------------------------------------------------
//
// One element after the other, a product that has left the range of its type stays there: infinity
// until a zero makes it NaN, zero until an infinity does. Parts of the axis that are multiplied on their
// own know nothing of that: 1e-30 * (1e20 * 1e20) would be infinite, and 0 times that no number. So what
// a part does to a product that comes in is kept with the range in which that product survives it:
// |x| > over becomes infinite on the way, |x| <= under zero, others x * m * 2^e, of any magnitude. What
// left the range meets the part's own zeros and infinities in m. All x go through the same ups and
// downs in the same order, so that no larger x becomes zero where a smaller one becomes infinite: two
// bounds say it all.
struct Gain {
  float m;       // 1 <= |m| < 2; zero, infinite or NaN where the part's elements make it so
  int e;
  float over;    // infinity: nothing finite becomes infinite
  float under;   // of numbers that come in as denormals it is as coarse as they are
};

inline constexpr int kMaxGain = 1 << 20;   // exponents are cut here, far beyond what anything survives
inline constexpr float kLargest = 3.402823466e+38f, kNormal = 1.175494351e-38f, kLeast = 1.401298464e-45f;
inline constexpr float kHalfLeastOfNormal = 5.9604645e-8f;   // 2^-150, which rounds to zero, of 2^-126
inline constexpr float kTame = 1.1529215e+18f;   // 2^60: products of two such, and of their inverses, are far from the ends

WS_DEVICE float infinity() { return bits_float(0x7f800000u); }
WS_DEVICE bool is_special(float m) { return (float_bits(m) & 0x7f800000u) != 0x3f800000u; }   // of a Gain's m
WS_DEVICE float power_of_two(int e) { return bits_float(static_cast<unsigned>(127 + e) << 23); }   // of normal ones

// What takes a number to the e-th power of two of it, saturated.
struct Scaling {
  float some, rest;
  WS_DEVICE explicit Scaling(int e) {
    e = e < -360 ? -360 : e > 360 ? 360 : e;
    const int third = e * 171 >> 9;   // so that none of the three leaves the range
    some = power_of_two(third);
    rest = power_of_two(e - 2 * third);
  }
  WS_DEVICE float of(float x) const { return x * rest * some * some; }
};

// m is a normal number, or zero, infinite or NaN.
WS_DEVICE void normalise(Gain& gain) {
  const unsigned bits = float_bits(gain.m), exponent = bits >> 23 & 255;
  if (exponent == 0 || exponent == 255) return;
  gain.e += static_cast<int>(exponent) - 127;
  gain.m = bits_float((bits & 0x807fffffu) | 0x3f800000u);
}

// Of elements that multiply to `product`, a normal number or zero, infinite or NaN. Bounds count for the first.
WS_DEVICE Gain gain_of(float product, float over, float under) {
  Gain gain = {product, 0, infinity(), 0};
  normalise(gain);
  if (is_special(gain.m)) return gain;
  gain.over = over;
  gain.under = under;
  return gain;
}
WS_DEVICE Gain no_gain() { return {1, 0, infinity(), 0}; }
// The same of elements that stay within kTame.
WS_DEVICE Gain gain_of_tame(float product, float least, float most) {
  return gain_of(product, fast_div(kLargest, most), fast_div(kNormal, least) * kHalfLeastOfNormal);
}

WS_DEVICE bool changes(const Gain& gain) {
  return gain.m != 1 || gain.e != 0 || gain.over != infinity() || gain.under != 0;
}
// First `gain`, then `next`.
WS_DEVICE void follow(Gain& gain, const Gain& next) {
  if (!changes(next)) return;
  if (!is_special(gain.m)) {
    const float back = fast_div(1.0f, abs(gain.m));
    const Scaling scaling(-gain.e);
    gain.over = minimum(gain.over, maximum(gain.under, scaling.of(next.over * back)));
    gain.under = maximum(gain.under, minimum(gain.over, scaling.of(next.under * back)));
  }
  gain.m *= next.m;
  gain.e += next.e;
  gain.e = gain.e < -kMaxGain ? -kMaxGain : gain.e > kMaxGain ? kMaxGain : gain.e;
  normalise(gain);
}
WS_RARELY Gain followed(Gain gain, Gain next) {
  follow(gain, next);
  return gain;
}
WS_RARELY Gain followed(Gain gain, float x) {
  const float size = abs(x);
  const bool denormal = size > 0 && size < kNormal;
  Gain next = gain_of(denormal ? x * 16777216.0f : x, kLargest / size, kLeast / size * 0.5f);
  if (denormal) next.e -= 24;
  follow(gain, next);
  return gain;
}

// What becomes of x.
WS_DEVICE float through(const Gain& gain, float x) {
  const float size = abs(x);
  if (size > gain.over) x *= infinity();
  if (size <= gain.under && size <= kLargest) x *= 0.0f;
  if (is_special(gain.m)) return x * gain.m;
  return size > 1 ? Scaling(gain.e + 1).of(x * (0.5f * gain.m)) : Scaling(gain.e).of(x * gain.m);
}
// Whether no factor but zero and infinity changes it.
WS_DEVICE bool stays(float x) { return x == 0 || x - x != 0; }
WS_RARELY float through_rarely(Gain gain, float x) { return through(gain, x); }

// What stands before a place of the axis: of products the number, else an accumulator.
template <class G, bool PRODUCT = G::kProduct>
struct ScanState {
  using Type = typename G::Acc;
  static WS_DEVICE Type start() { return G::identity(); }
  static WS_DEVICE Type after(const Type& before, const typename G::Acc& next) { return joined<G>(before, next); }
};
template <class G>
struct ScanState<G, true> {
  using Type = float;
  static WS_DEVICE Type start() { return 1; }
  static WS_DEVICE Type after(Type before, const Gain& next) { return changes(next) ? through(next, before) : before; }
};

// Elements of a vector in the scan's direction.
template <class G, int V>
WS_DEVICE constexpr int in_order(int i) { return G::kReverse ? V - 1 - i : i; }

// ---- along the contiguous axis ------------------------------------------------------------------------

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
  // Stores the chunk, `base` being what stands before the warp's part.
  WS_DEVICE void store(const Cursor& at, const Acc& base) const {
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
      this->g.template emit<V>(at.row, this->position(s), this->values[j], result);
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
  WS_DEVICE void store(const Cursor& at, float x) const {
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
    part.store(at, State::after(carry, before));
    carry = State::after(carry, all);
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
      part.store(at, State::after(State::after(carry, result[0]), before));
      carry = State::after(carry, result[1]);
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

// ---- along an outer axis --------------------------------------------------------------------------------

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
