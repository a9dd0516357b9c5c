// What both forms of the skeleton `fold` (fold.cuh) share: the axes of a tensor and of the boxes it is
// reduced by, where a job's boxes begin, and what becomes of a box's results.
#pragma once
#include <warpsmith/axes.cuh>

namespace ws {

template <class EXTENTS, class KEPT, class BOX>
struct FoldAxes {
  static constexpr int kRank = EXTENTS::kRank;
  static WS_DEVICE constexpr long long extent(int d) { return EXTENTS::at(d); }
  static WS_DEVICE constexpr int box(int d) { return int(BOX::at(d)); }
  static WS_DEVICE constexpr bool kept(int d) { return KEPT::at(d) != 0; }
  static WS_DEVICE constexpr long long boxes(int d) { return (extent(d) + box(d) - 1) / box(d); }
  // Products over the kept or the summed axes: boxes, and elements of a box.
  static WS_DEVICE constexpr long long count(bool which) {
    long long product = 1;
    for (int d = 0; d < kRank; ++d) product *= kept(d) == which ? boxes(d) : 1;
    return product;
  }
  static WS_DEVICE constexpr int inside(bool which) {
    int product = 1;
    for (int d = 0; d < kRank; ++d) product *= kept(d) == which ? box(d) : 1;
    return product;
  }
  // Whether no axis before d of its kind has more than one element in a box.
  static WS_DEVICE constexpr bool outermost(bool which, int d) {
    for (int e = 0; e < d; ++e) {
      if (kept(e) == which && box(e) > 1) return false;
    }
    return true;
  }
  // Whether no axis before d of its kind has several boxes.
  static WS_DEVICE constexpr bool outermost_boxes(int d) {
    for (int e = 0; e < d; ++e) {
      if (kept(e) == kept(d) && boxes(e) > 1) return false;
    }
    return true;
  }
  static WS_DEVICE constexpr long long outputs() {
    long long product = 1;
    for (int d = 0; d < kRank; ++d) product *= kept(d) ? extent(d) : 1;
    return product;
  }
};

// Where the boxes of job `job` begin along kept axes; zero along summed ones.
template <class C, class Index>
WS_DEVICE void fold_job(Index job, Index (&origin)[C::kRank]) {
#pragma unroll
  for (int k = 0; k < C::kRank; ++k) {
    const int d = C::kRank - 1 - k;
    origin[d] = 0;
    if (C::kept(d)) {
      const Index n = Index(C::boxes(d));
      origin[d] = job % n * C::box(d);
      job /= n;
    }
  }
}

// The row-major number of an output.
template <class C, class Index>
WS_DEVICE Index fold_output(const Index (&c)[C::kRank]) {
  Index i = 0;
#pragma unroll
  for (int k = 0; k < C::kRank; ++k) {
    const int d = k;
    if (C::kept(d)) i = i * Index(C::extent(d)) + c[d];
  }
  return i;
}

// Runs `box`, a block's own form of the skeleton, on its share of the job's steps and writes what comes out.
// Partial results: [SPLIT][outputs], or [outputs][SPLIT] where several threads of `fold_combine` share an
// output (LANES > 1).
template <class G, class C, int LANES, class F>
WS_DEVICE void fold_share(const G& g, F& box, typename G::template Acc<0>* partial) {
  using Index = typename G::Index;
  constexpr int kJobs = int(C::count(true));
  if constexpr (C::kSplit == 1) {
    box.run(0, Index(C::kSteps), [&](const Index (&c)[C::kRank], const typename G::template Acc<0>& acc) { g.emit(c, acc); });
  } else {
    // Shares differ by one step at most.
    const Index split = block() / kJobs;
    constexpr Index kShare = Index(C::kSteps / C::kSplit), kMore = Index(C::kSteps % C::kSplit);
    const Index first = split * kShare + (split < kMore ? split : kMore);
    box.run(first, first + kShare + (split < kMore), [&](const Index (&c)[C::kRank], const typename G::template Acc<0>& acc) {
      const Index output = fold_output<C>(c);
      if constexpr (LANES > 1) partial[output * C::kSplit + split] = acc;
      else partial[split * Index(C::kOutputs) + output] = acc;
    });
  }
}

// Ends a split fold: LANES threads (a power of two, at most THREADS) for each output. Grid: outputs * LANES
// threads. Dynamic shared memory: THREADS / 32 accumulators if LANES > 32.
template <class G, class C, int THREADS, int LANES>
WS_DEVICE void fold_combine(const G& g, const typename G::template Acc<0>* partial) {
  using Index = typename G::Index;
  using Acc = typename G::template Acc<0>;
  constexpr Index kOutputs = Index(C::kOutputs);
  const int lane = thread() % LANES;
  const Index output = Index(block()) * (THREADS / LANES) + thread() / LANES;
  const bool mine = output < kOutputs;
  Acc total = g.template identity<0>();
  if (mine) {
#pragma unroll 4
    for (int s = lane; s < C::kSplit; s += LANES) {
      G::template combine<0>(total, LANES > 1 ? partial[output * C::kSplit + s] : partial[s * kOutputs + output]);
    }
  }
  constexpr int kWarpLanes = LANES < 32 ? LANES : 32;
#pragma unroll
  for (int mask = kWarpLanes / 2; mask > 0; mask /= 2) G::template combine<0>(total, shuffle_xor(total, mask));
  if constexpr (LANES > 32) {
    Acc* const slots = reinterpret_cast<Acc*>(shared());
    if (thread() % 32 == 0) slots[thread() / 32] = total;
    sync_block();
    constexpr int kWarps = LANES / 32;
    total = slots[thread() / LANES * kWarps];
    for (int w = 1; w < kWarps; ++w) G::template combine<0>(total, slots[thread() / LANES * kWarps + w]);
  }
  if (!mine || lane != 0) return;
  Index c[C::kRank];
  Index rest = output;
#pragma unroll
  for (int k = 0; k < C::kRank; ++k) {
    const int d = C::kRank - 1 - k;
    c[d] = 0;
    if (C::kept(d)) {
      c[d] = rest % Index(C::extent(d));
      rest /= Index(C::extent(d));
    }
  }
  g.emit(c, total);
}

}  // namespace ws
