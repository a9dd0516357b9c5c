// What both ways of scanning (scan.cuh) are made of: accumulators in order, among lanes and blocks.
#pragma once
#include <warpsmith/gain.cuh>

namespace ws {

inline constexpr int kMaxScanned = 16;   // bytes of an accumulator

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

}  // namespace ws
