// Skeleton `fold`: one reduction over any subset of the axes, in whatever order kept and summed axes
// follow each other in memory. Every byte is read once: by vectors, as this file has it, or by way of
// shared memory (fold_staged.cuh).
//
//   struct G {                                       // y[b, c] = sum of x[b, h, c, w] over h and w
//     using Index = int;
//     template <int S> struct Acc { float sum; };
//     template <int S> static WS_DEVICE Acc<S> identity() { return {0}; }
//     template <int S> static WS_DEVICE void combine(Acc<S>& a, const Acc<S>& b) { a.sum += b.sum; }
//     static constexpr bool kChained = true;         // it adds up floats: a long sum is cut into chains (kChain)
//     template <int V> struct Values { float s0[V]; };
//     const float* x; float* y;
//     template <int V> WS_DEVICE void load(const Index (&c)[4], Values<V>& values) const;
//     template <int S, int V> WS_DEVICE void accumulate(const Index (&c)[4], const Values<V>& values, Acc<S> (&acc)[V]) const;
//     WS_DEVICE void emit(const Index (&c)[4], const Acc<0>& acc) const { y[c[0] * 7 + c[2]] = acc.sum; }
//   };
//   using C = ws::FoldConfig<256, 4, 4, 1, 1, ws::Axes<64, 500, 7, 20>, ws::Axes<1, 0, 1, 0>, ws::Axes<1, 25, 7, 20>>;
//   ws::fold<G, C>(G{x, y}, nullptr);
//
// Axes are those of the input, in the order in which they lie in its memory, fastest last; KEPT says which
// stay. A block covers a box of at most THREADS * V * U elements, numbered in memory order: vector
// u * THREADS + t is thread t's. Boxes that differ in summed axes are steps: each thread adds what it has at
// the same place of all of them up in registers, in UNROLL sums that take turns; then the block combines
// in shared memory, once, what belongs to one output. Boxes that differ in kept axes are jobs: one a block,
// or SPLIT blocks that share the job's steps and leave partial results for `fold_combine`.
//
// `c` are coordinates of a vector's first element; a vector may go on over the end of an axis that the box
// has whole. emit ends one output: kept coordinates in their places, zero in the others'.
//
// Wanted of the caller (worker/kernels/fold_rule.h finds such boxes): V divides the length of each line
// of the box and the address where it begins.
//
// Grid: jobs * SPLIT blocks. Dynamic shared memory: place(kStored) accumulators.
#pragma once
#include <warpsmith/fold_axes.cuh>
#include <warpsmith/fold_staged.cuh>

namespace ws {

template <int THREADS, int V_, int U, int UNROLL, int SPLIT, class EXTENTS, class KEPT, class BOX>
struct FoldConfig : FoldAxes<EXTENTS, KEPT, BOX> {
  using Axes = FoldAxes<EXTENTS, KEPT, BOX>;
  static constexpr int kThreads = THREADS, V = V_, kVectors = U, kUnroll = UNROLL, kSplit = SPLIT;
  static constexpr int kRank = Axes::kRank;
  static constexpr int kElements = int(BOX::product());
  static_assert(kElements % V == 0 && kElements <= THREADS * V * U, "a box is at most U vectors for each thread");
  static constexpr long long kSteps = Axes::count(false), kOutputs = Axes::outputs();

  // All lanes of a vector belong to one output: they are combined before they are put anywhere.
  static constexpr int kFolded = !Axes::kept(kRank - 1) && Axes::box(kRank - 1) % V == 0 ? V : 1;
  static constexpr int kStored = kElements / kFolded;
  // Threads that combine one output.
  static WS_DEVICE constexpr int lanes() {
    int n = 1;
    while (n < 32 && n * 2 <= Axes::inside(false) / kFolded && n * 2 * Axes::inside(true) <= THREADS) n *= 2;
    return n;
  }
  // Where stored value i is: powers of two apart would be one bank.
  static WS_DEVICE constexpr int place(int i) { return i + i / 32; }
};

template <class G, class C>
struct Fold {
  using Index = typename G::Index;
  using Acc = typename G::template Acc<0>;
  using Vector = typename G::template Values<C::V>;
  static constexpr int kRank = C::kRank, V = C::V, U = C::kVectors;

  const G& g;
  Index origin[kRank];         // of the job's boxes along kept axes
  int at[U][kRank];            // of this thread's vectors in the box
  Acc acc[C::kUnroll][U][V];

  WS_DEVICE Fold(const G& g, int job) : g(g) {
    fold_job<C>(Index(job), origin);
#pragma unroll
    for (int u = 0; u < U; ++u) {
      int number = (u * C::kThreads + thread()) * V;
#pragma unroll
      for (int k = 0; k < kRank; ++k) {
        const int d = kRank - 1 - k;
        if (d == 0) {
          at[u][d] = number;     // beyond the box for a thread that has nothing to do
        } else {
          at[u][d] = number % C::box(d);
          number /= C::box(d);
        }
      }
    }
    empty();
  }

  WS_DEVICE bool works(int u) const {
    return C::kElements == C::kThreads * V * U || (u * C::kThreads + thread()) * V < C::kElements;
  }
  // Coordinates of vector u in a step, and whether they exist.
  WS_DEVICE bool coordinates(Index step, int u, Index (&c)[kRank]) const {
    bool inside = works(u);
#pragma unroll
    for (int k = 0; k < kRank; ++k) {
      const int d = kRank - 1 - k;
      c[d] = origin[d] + at[u][d];
      if (!C::kept(d)) {
        const Index n = Index(C::boxes(d));
        if (n > 1) {
          c[d] += step % n * C::box(d);
          step /= n;
        }
      }
      if (C::extent(d) % C::box(d) != 0) {
        inside = inside && c[d] < Index(C::extent(d));
      }
    }
    return inside;
  }

  template <int COUNT>
  WS_DEVICE void steps(Index first) {
    Vector values[COUNT][U];
    bool there[COUNT][U];
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
#pragma unroll
      for (int u = 0; u < U; ++u) {
        Index c[kRank];
        there[i][u] = coordinates(first + i, u, c);
        if (there[i][u]) g.template load<V>(c, values[i][u]);
      }
    }
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
#pragma unroll
      for (int u = 0; u < U; ++u) {
        Index c[kRank];
        coordinates(first + i, u, c);
        if (there[i][u]) g.template accumulate<0, V>(c, values[i][u], acc[i][u]);
      }
    }
  }

  // Steps of a share, in whole rounds of UNROLL, which make chains of kChain in each sum.
  WS_DEVICE void rounds(Index& first, Index end) {
    // Not unrolled further: the compiler would rather load one after the other than use more registers.
#pragma unroll 1
    for (; first + (C::kUnroll - 1) < end; first += C::kUnroll) steps<C::kUnroll>(first);
  }
  // Puts what all sums of a place have where the block combines it, or adds it to what is there already;
  // the sums are empty then.
  template <bool MORE>
  WS_DEVICE void put() {
    Acc* const stored = reinterpret_cast<Acc*>(shared());
#pragma unroll
    for (int u = 0; u < U; ++u) {
      const int first = (u * C::kThreads + thread()) * (V / C::kFolded);
#pragma unroll
      for (int i = 1; i < C::kUnroll; ++i) {
#pragma unroll
        for (int v = 0; v < V; ++v) G::template combine<0>(acc[0][u][v], acc[i][u][v]);
      }
      if constexpr (C::kFolded > 1) {
#pragma unroll
        for (int v = 1; v < V; ++v) G::template combine<0>(acc[0][u][0], acc[0][u][v]);
      }
      if (works(u)) {
#pragma unroll
        for (int v = 0; v < V / C::kFolded; ++v) {
          Acc& place = stored[C::place(first + v)];
          if constexpr (MORE) G::template combine<0>(acc[0][u][v], place);
          place = acc[0][u][v];
        }
      }
    }
    empty();
  }
  WS_DEVICE void empty() {
#pragma unroll
    for (int i = 0; i < C::kUnroll; ++i) {
#pragma unroll
      for (int u = 0; u < U; ++u) {
#pragma unroll
        for (int v = 0; v < V; ++v) acc[i][u][v] = g.template identity<0>();
      }
    }
  }

  // Takes steps `first` to `end`; done(c, acc) is called once for each output of the box.
  template <class F>
  WS_DEVICE void run(Index first, Index end, F&& done) {
    constexpr Index kOnce = Index(kChain) * C::kUnroll;
    constexpr bool kChained = G::kChained && C::kSteps / C::kSplit >= 2 * kOnce;
    if constexpr (kChained) {
      put<false>();
#pragma unroll 1
      for (; first + (kOnce - 1) < end;) {
        rounds(first, first + kOnce);
        put<true>();
      }
    }
    rounds(first, end);
    if constexpr (C::kUnroll > 1) {
      for (; first < end; ++first) steps<1>(first);
    }
    put<kChained>();
    finish(done);
  }

  template <class F>
  WS_DEVICE void finish(F&& done) {
    const Acc* const stored = reinterpret_cast<const Acc*>(shared());
    sync_block();
    constexpr int kOutputs = C::inside(true), kSummed = C::inside(false) / C::kFolded;
    constexpr int kLanes = C::lanes(), kAtOnce = C::kThreads / kLanes;
    for (int begin = 0; begin < kOutputs; begin += kAtOnce) {
      const int output = begin + thread() / kLanes;
      Acc total = g.template identity<0>();
      Index c[kRank];
      const int base = base_of(output < kOutputs ? output : 0, c);
#pragma unroll 4
      for (int r = thread() % kLanes; r < kSummed; r += kLanes) {
        G::template combine<0>(total, stored[C::place(base + offset_of(r))]);
      }
#pragma unroll
      for (int mask = kLanes / 2; mask > 0; mask /= 2) G::template combine<0>(total, shuffle_xor(total, mask));
      bool inside = output < kOutputs && thread() % kLanes == 0;
#pragma unroll
      for (int k = 0; k < kRank; ++k) {
        const int d = k;
        if (C::kept(d) && C::extent(d) % C::box(d) != 0) {
          inside = inside && c[d] < Index(C::extent(d));
        }
      }
      if (inside) done(c, total);
    }
  }
  // Stored number of an output's first value, and its coordinates.
  WS_DEVICE int base_of(int output, Index (&c)[kRank]) const {
    int base = 0, stride = 1;
#pragma unroll
    for (int k = 0; k < kRank; ++k) {
      const int d = kRank - 1 - k;
      const int n = C::box(d);
      c[d] = 0;
      if (C::kept(d)) {
        const int x = C::outermost(true, d) ? output : output % n;
        output /= n;
        base += x * stride;
        c[d] = origin[d] + x;
      }
      stride *= d == kRank - 1 ? n / C::kFolded : n;
    }
    return base;
  }
  static WS_DEVICE int offset_of(int r) {
    int offset = 0, stride = 1;
#pragma unroll
    for (int k = 0; k < kRank; ++k) {
      const int d = kRank - 1 - k;
      const int n = d == kRank - 1 ? C::box(d) / C::kFolded : C::box(d);
      if (!C::kept(d) && n > 0) {
        offset += (C::outermost(false, d) ? r : r % n) * stride;
        r /= n;
      }
      stride *= n > 0 ? n : 1;
    }
    return offset;
  }
};

template <class G, class C, int LANES = 1>
WS_DEVICE void fold(const G& g, typename G::template Acc<0>* partial) {
  Fold<G, C> box(g, block() % int(C::count(true)));
  fold_share<G, C, LANES>(g, box, partial);
}

}  // namespace ws
