// Skeleton `fold` by way of shared memory: for boxes whose lines begin anywhere, or that are summed up in a
// few steps. A box is one run of memory; the 16-byte pieces that it lies in are copied as they are, whatever
// they begin and end with, and its elements are then taken from shared memory one by one, each by the
// thread that sums what belongs to its output. Copies of the next STAGES - 1 steps are in flight meanwhile.
//
// Of a block's threads ALONG neighbours (a power of two, at most 32) go along the last axis, where it is
// summed; SLOTS of those groups have an output each, which are SLOTS outputs of the box at once; and ACROSS
// of all that share the elements of axis LANE_AXIS. Lanes of a warp should meet different banks.
//
// Wanted of G beside what fold.cuh says:
//     static constexpr int kStreams = 1;                // tensors that run along all axes
//     template <int S> using Element = float;           // in memory
//     template <int S> WS_DEVICE const Element<S>* at(const Index (&c)[4]) const;
//     template <int S, int V> static WS_DEVICE auto& of(Values<V>& values) { return values.s0; }
//     template <int S> WS_DEVICE void take(const Index (&c)[4], const Values<1>& values, Acc<S>& acc) const;
//
// Dynamic shared memory: STAGES times the bytes of a box, for each stream with up to 30 bytes that its pieces
// bring along, in whole pieces; at least THREADS / ALONG accumulators for each output of a thread.
#pragma once
#include <warpsmith/fold_axes.cuh>

namespace ws {

template <int THREADS, int STAGES, int ALONG, int ACROSS, int LANE_AXIS, int SLOTS, int SPLIT, class EXTENTS, class KEPT, class BOX>
struct FoldStagedConfig : FoldAxes<EXTENTS, KEPT, BOX> {
  using Axes = FoldAxes<EXTENTS, KEPT, BOX>;
  static constexpr int kThreads = THREADS, kStages = STAGES, kAlong = ALONG, kAcross = ACROSS, kLaneAxis = LANE_AXIS;
  static constexpr int kSlots = SLOTS, kSplit = SPLIT, kRank = Axes::kRank;
  static constexpr long long kSteps = Axes::count(false), kOutputs = Axes::outputs();
  static constexpr int kElements = int(BOX::product());
  static constexpr int kInBox = Axes::inside(true);           // outputs
  static constexpr int kRounds = (kInBox + SLOTS - 1) / SLOTS;   // of them, a thread's
  static_assert(ALONG * ACROSS * SLOTS <= THREADS, "threads");
  static_assert(STAGES > 1 || kSteps == SPLIT, "a block of several steps copies ahead");
  // Each output is ended by the step that begins it.
  static constexpr bool kAtOnce = kSteps == 1 && ACROSS == 1;

  // The slowest axis that a box has more than one element of, and elements of a step along it.
  static WS_DEVICE constexpr int slowest() {
    for (int d = 0; d < kRank; ++d) {
      if (Axes::box(d) > 1) return d;
    }
    return kRank - 1;
  }
  static WS_DEVICE constexpr int stride(int d) { return int(BOX::product(d + 1)); }
  static WS_DEVICE constexpr bool cut(int d) { return Axes::extent(d) % Axes::box(d) != 0; }
  // The slowest kept axis of a box, and its outputs for one place of that axis.
  static WS_DEVICE constexpr int kept_axis() {
    for (int d = 0; d < kRank; ++d) {
      if (Axes::kept(d) && Axes::box(d) > 1) return d;
    }
    return -1;
  }
  static WS_DEVICE constexpr int inner() { return kept_axis() < 0 ? 1 : kInBox / Axes::box(kept_axis()); }
};

template <class G, class C>
struct FoldStaged {
  using Index = typename G::Index;
  using Acc = typename G::template Acc<0>;
  using Values = typename G::template Values<1>;
  static constexpr int kRank = C::kRank;
  // Bytes of a box of stream S in shared memory, and of those before it.
  template <int S>
  static WS_DEVICE constexpr int region() {
    return (C::kElements * int(sizeof(typename G::template Element<S>)) + 30) / 16 * 16;
  }
  template <int S>
  static WS_DEVICE constexpr int before() {
    if constexpr (S == 0) return 0;
    else return before<S - 1>() + region<S - 1>();
  }
  static constexpr int kStage = before<G::kStreams>();

  const G& g;
  Index origin[kRank];
  const int along, slot, across;
  const bool works, comes;   // where lanes meet in a step, all of a warp come
  Acc acc[C::kAtOnce ? 1 : C::kRounds];

  WS_DEVICE FoldStaged(const G& g, int job)
      : g(g), along(thread() % C::kAlong), slot(thread() / C::kAlong % C::kSlots), across(thread() / (C::kAlong * C::kSlots)),
        works(C::kAlong * C::kAcross * C::kSlots == C::kThreads || across < C::kAcross),
        comes(works || (C::kAtOnce && thread() / 32 * 32 < C::kAlong * C::kSlots)) {
    fold_job<C>(Index(job), origin);
#pragma unroll
    for (int i = 0; i < int(sizeof(acc) / sizeof(Acc)); ++i) acc[i] = g.template identity<0>();
  }

  // Where step `step` begins.
  WS_DEVICE void begin(Index step, Index (&c)[kRank]) const {
#pragma unroll
    for (int k = 0; k < kRank; ++k) {
      const int d = kRank - 1 - k;
      c[d] = origin[d];
      if (!C::kept(d) && C::boxes(d) > 1) {
        const Index n = Index(C::boxes(d));
        c[d] = (C::outermost_boxes(d) ? step : step % n) * C::box(d);
        step /= n;
      }
    }
  }
  // Elements along the slowest axis that exist.
  static WS_DEVICE int there(const Index (&c)[kRank]) {
    constexpr int d = C::slowest();
    if constexpr (!C::cut(d)) return C::box(d);
    const Index left = Index(C::extent(d)) - c[d];
    return left < Index(C::box(d)) ? int(left) : C::box(d);
  }

  // Starts copying what the streams have of a step.
  template <int S = 0>
  WS_DEVICE void bring(const Index (&c)[kRank], int stage) const {
    if constexpr (S < G::kStreams) {
      using Element = typename G::template Element<S>;
      const Element* const first = g.template at<S>(c);
      const int skew = int(reinterpret_cast<unsigned long long>(first) & 15);
      constexpr int kPlace = C::stride(C::slowest()) * int(sizeof(Element));   // of the slowest axis
      const int bytes = skew + there(c) * kPlace;
      const char* const from = reinterpret_cast<const char*>(first) - skew;
      char* const to = shared() + stage * kStage + before<S>();
#pragma unroll
      for (int i = 0; i < (region<S>() / 16 + C::kThreads - 1) / C::kThreads; ++i) {
        const int at = (i * C::kThreads + thread()) * 16;
        if (at < bytes) copy_async<16>(to + at, from + at);
      }
      bring<S + 1>(c, stage);
    }
  }
  template <int S = 0>
  WS_DEVICE void skews(const Index (&c)[kRank], int stage, const char* (&from)[G::kStreams]) const {
    if constexpr (S < G::kStreams) {
      from[S] = shared() + stage * kStage + before<S>() + (reinterpret_cast<unsigned long long>(g.template at<S>(c)) & 15);
      skews<S + 1>(c, stage, from);
    }
  }
  template <int S = 0>
  static WS_DEVICE void fetch(const char* const (&from)[G::kStreams], int place, Values& values) {
    if constexpr (S < G::kStreams) {
      using Element = typename G::template Element<S>;
      G::template of<S, 1>(values)[0] = reinterpret_cast<const Element*>(from[S])[place];
      fetch<S + 1>(from, place, values);
    }
  }

  // Output `number` of the box: its coordinates, and the place of its first element. False: not there.
  WS_DEVICE static int locate(int number, int (&x)[kRank]) {
    int place = 0, stride = 1;
#pragma unroll
    for (int k = 0; k < kRank; ++k) {
      const int d = kRank - 1 - k;
      x[d] = 0;
      if (C::kept(d) && C::box(d) > 1) {
        x[d] = d == C::kept_axis() ? number : number % C::box(d);
        number /= C::box(d);
        place += x[d] * stride;
      }
      stride *= C::box(d);
    }
    return place;
  }
  // The thread's output of a round. Rounds of whole slices of the slowest kept axis differ in that alone.
  WS_DEVICE int output(int round, int (&x)[kRank]) const {
    constexpr int kAxis = C::kept_axis();
    if constexpr (kAxis >= 0 && C::kSlots % C::inner() == 0) {
      constexpr int kStep = C::kSlots / C::inner(), kStride = C::stride(kAxis);
      const int place = locate(slot, x);
      x[kAxis] += round * kStep;
      return place + round * (kStep * kStride);
    } else {
      return locate(slot + round * C::kSlots, x);
    }
  }
  // `many`: places of the slowest axis that exist, all where the box is WHOLE. What does not is not even looked at.
  template <bool WHOLE>
  static WS_DEVICE bool exists(int number, const int (&x)[kRank], int many) {
    constexpr int d = C::slowest();
    return number < C::kInBox && (WHOLE || !C::kept(d) || !C::cut(d) || x[d] < many);
  }
  // The number of the thread's output of a round; those before the last all exist.
  WS_DEVICE int number(int round) const { return C::kInBox % C::kSlots == 0 || round + 1 < C::kRounds ? 0 : slot + round * C::kSlots; }

  // Takes what is summed from axis D on into `sum`; `place`: of the elements before.
  template <bool WHOLE, int D = 0>
  WS_DEVICE void each(const char* const (&from)[G::kStreams], int many, int place, Index (&c)[kRank], Acc& sum) const {
    if constexpr (D == kRank) {
      Values values;
      fetch(from, place, values);
      g.template take<0>(c, values, sum);
    } else if constexpr (C::kept(D) || C::box(D) == 1) {
      each<WHOLE, D + 1>(from, many, place, c, sum);
    } else {
      constexpr int kAlong = D == kRank - 1 ? C::kAlong : 1;
      constexpr int kStep = kAlong * (D == C::kLaneAxis ? C::kAcross : 1), kStride = C::stride(D);
      const int first = (kAlong > 1 ? along : 0) + (D == C::kLaneAxis ? across * kAlong : 0);
      const Index start = c[D];
      const auto visit = [&](int x) {
        c[D] = start + x;
        each<WHOLE, D + 1>(from, many, place + x * kStride, c, sum);
      };
      if constexpr (WHOLE || D != C::slowest()) {
        constexpr int kFull = C::box(D) / kStep;
#pragma unroll 16
        for (int i = 0; i < kFull; ++i) visit(first + i * kStep);
        if constexpr (C::box(D) % kStep != 0) {
          if (first + kFull * kStep < C::box(D)) visit(first + kFull * kStep);
        }
      } else {
#pragma unroll 4
        for (int x = first; x < many; x += kStep) visit(x);
      }
      c[D] = start;
    }
  }

  // Elements of an output that a thread takes in a step, at most.
  static WS_DEVICE constexpr int elements() {
    int n = 1;
    for (int d = 0; d < kRank; ++d) {
      const int step = (d == kRank - 1 ? C::kAlong : 1) * (d == C::kLaneAxis ? C::kAcross : 1);
      if (!C::kept(d)) n *= (C::box(d) + step - 1) / step;
    }
    return n;
  }
  // Adds what the step has of the output of a round.
  template <bool WHOLE>
  WS_DEVICE void part(const char* const (&from)[G::kStreams], int many, const Index (&start)[kRank], int round, Acc& sum) const {
    int x[kRank];
    const int place = output(round, x);
    Index c[kRank];
#pragma unroll
    for (int d = 0; d < kRank; ++d) c[d] = start[d] + x[d];
    if (exists<WHOLE>(number(round), x, many)) each<WHOLE>(from, many, place, c, sum);
  }
  template <bool WHOLE, class F>
  WS_DEVICE void take(const char* const (&from)[G::kStreams], int many, const Index (&start)[kRank], F&& done) {
    if constexpr (C::kAtOnce) {
#pragma unroll 2
      for (int i = 0; i < C::kRounds; ++i) {
        Acc sum = g.template identity<0>();
        part<WHOLE>(from, many, start, i, sum);
        end_along(sum);
        if (along == 0) end(i, sum, done);
      }
    } else {
#pragma unroll
      for (int i = 0; i < C::kRounds; ++i) {
        if constexpr (elements() <= 2) {
          part<WHOLE>(from, many, start, i, acc[i]);
        } else {
          Acc sum = g.template identity<0>();
          part<WHOLE>(from, many, start, i, sum);
          G::template combine<0>(acc[i], sum);
        }
      }
    }
  }
  template <class F>
  WS_DEVICE void step(Index step, int stage, F&& done) {
    Index start[kRank];
    begin(step, start);
    const char* from[G::kStreams];
    skews(start, stage, from);
    constexpr int d = C::slowest();
    const int many = there(start);
    if constexpr (!C::cut(d)) {
      take<true>(from, many, start, done);
    } else {
      if (many == C::box(d)) take<true>(from, many, start, done);
      else take<false>(from, many, start, done);
    }
  }

  // Gives done() the coordinates of the output of a round.
  template <class F>
  WS_DEVICE void end(int round, const Acc& sum, F&& done) const {
    int x[kRank];
    output(round, x);
    if (works && exists<false>(number(round), x, there(origin))) end_at(x, sum, done);
  }
  template <class F>
  WS_DEVICE void end_at(const int (&x)[kRank], const Acc& sum, F&& done) const {
    Index c[kRank];
#pragma unroll
    for (int d = 0; d < kRank; ++d) c[d] = C::kept(d) ? origin[d] + x[d] : Index(0);
    done(c, sum);
  }
  static WS_DEVICE void end_along(Acc& sum) {
#pragma unroll
    for (int mask = C::kAlong / 2; mask > 0; mask /= 2) G::template combine<0>(sum, shuffle_xor(sum, mask));
  }

  template <class F>
  WS_DEVICE void run(Index first, Index last, F&& done) {
    // Slot `stage` is free again once all threads have come to the step after the one it held.
    constexpr int kAhead = C::kStages - 1;
    Index start[kRank];
#pragma unroll
    for (int i = 0; i < (kAhead > 0 ? kAhead : 1); ++i) {
      begin(first + i, start);
      if (first + i < last) bring(start, i);
      copy_commit();
    }
    [[maybe_unused]] Acc total[C::kAtOnce ? 1 : C::kRounds];
    constexpr bool kChained = G::kChained && C::kSteps / C::kSplit > 2 * kChain;
    if constexpr (kChained) {
#pragma unroll
      for (int i = 0; i < C::kRounds; ++i) total[i] = acc[i];
    }
    int stage = 0;
    [[maybe_unused]] int chain = 0;
#pragma unroll 1
    for (; first < last; ++first) {
      copy_wait<kAhead == 0 ? 0 : kAhead - 1>();
      sync_block();
      if constexpr (kAhead > 0) {
        if (first + kAhead < last) {
          begin(first + kAhead, start);
          bring(start, stage == 0 ? kAhead : stage - 1);
        }
        copy_commit();
      }
      if (comes) step(first, stage, done);
      stage = stage == kAhead ? 0 : stage + 1;
      if constexpr (kChained) {
        if (++chain == kChain) {
          chain = 0;
#pragma unroll
          for (int i = 0; i < C::kRounds; ++i) {
            G::template combine<0>(total[i], acc[i]);
            acc[i] = g.template identity<0>();
          }
        }
      }
    }
    if constexpr (kChained) {
#pragma unroll
      for (int i = 0; i < C::kRounds; ++i) G::template combine<0>(acc[i], total[i]);
    }
    if constexpr (!C::kAtOnce) finish(done);
  }

  // Combines what the threads of an output have.
  template <class F>
  WS_DEVICE void finish(F&& done) {
#pragma unroll
    for (int i = 0; i < C::kRounds; ++i) end_along(acc[i]);
    if constexpr (C::kAcross == 1) {
      if (along != 0) return;
#pragma unroll
      for (int i = 0; i < C::kRounds; ++i) end(i, acc[i], done);
    } else {
      sync_block();
      Acc* const stored = reinterpret_cast<Acc*>(shared());   // [across][round][slot]
      if (works && along == 0) {
#pragma unroll
        for (int i = 0; i < C::kRounds; ++i) stored[(across * C::kRounds + i) * C::kSlots + slot] = acc[i];
      }
      sync_block();
      constexpr int kLanes = lanes(), kOnce = C::kThreads / kLanes;
      for (int begin = 0; begin < C::kInBox; begin += kOnce) {
        const int number = begin + thread() / kLanes;
        Acc sum = g.template identity<0>();
        if (number < C::kInBox) {
          for (int a = thread() % kLanes; a < C::kAcross; a += kLanes) {
            G::template combine<0>(sum, stored[a * (C::kRounds * C::kSlots) + number]);
          }
        }
#pragma unroll
        for (int mask = kLanes / 2; mask > 0; mask /= 2) G::template combine<0>(sum, shuffle_xor(sum, mask));
        int x[kRank];
        locate(number, x);
        if (thread() % kLanes == 0 && exists<false>(number, x, there(origin))) end_at(x, sum, done);
      }
    }
  }
  // Threads that combine one output.
  static WS_DEVICE constexpr int lanes() {
    int n = 1;
    while (n < 32 && n * 2 <= C::kAcross && n * 2 * C::kInBox <= C::kThreads) n *= 2;
    return n;
  }
};

template <class G, class C, int LANES = 1>
WS_DEVICE void fold_staged(const G& g, typename G::template Acc<0>* partial) {
  FoldStaged<G, C> box(g, block() % int(C::count(true)));
  fold_share<G, C, LANES>(g, box, partial);
}

}  // namespace ws
