// Meetings of the `rows` skeleton: the threads of a row, in one block or several, combine what each of them
// has of a stage (rows.cuh).
#pragma once
#include <warpsmith/rows_config.cuh>

namespace ws {

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
    if constexpr (C::kBlocksPerRow > 1 && C::kMeeting == kCounter) {
      begin<S>(acc);
      end<S>(acc);
      return;
    }
    using Acc = typename MeetingOf<G, S>::Acc;
    static_assert(sizeof(Acc) <= kMaxAcc, "a stage has too many accumulators");
    merge_lanes<S, (C::kThreadsPerRow < 32 ? C::kThreadsPerRow : 32)>(acc);
    if constexpr (C::kThreadsPerRow > 32 || C::kBlocksPerRow > 1) {
      if constexpr (kWarps > 1) {
        leave_warp(acc);
        sync_block();
        merge_warps<S>(acc);
      }
      if constexpr (C::kBlocksPerRow > 1) meet_cluster<S>(acc);
      parity ^= 1;
    }
  }

  // `reduce` of blocks that meet at a counter, in two steps between which something else can be done: what the
  // block has goes out, and what all of them had comes in.
  template <int S>
  WS_DEVICE void begin(typename MeetingOf<G, S>::Acc acc) {
    using Acc = typename MeetingOf<G, S>::Acc;
    static_assert(sizeof(Acc) <= kMaxAcc, "a stage has too many accumulators");
    merge_lanes<S, 32>(acc);
    if constexpr (kWarps > 1) {
      leave_warp(acc);
      sync_block();
      if (thread() < 32) merge_warps<S>(acc);
    }
    // Each word travels with the number of the meeting, so that no counter, fence or second read is needed.
    tag += 1;
    if (thread() == 0) {
      Words<Acc> words;
      memcpy(&words, &acc, sizeof(Acc));
#pragma unroll
      for (int w = 0; w < int(sizeof(Acc) / 4); ++w) post(place() + w * C::kBlocksPerRow + rank, words.w[w], tag);
    }
  }
  template <int S>
  WS_DEVICE void end(typename MeetingOf<G, S>::Acc& acc) {
    using Acc = typename MeetingOf<G, S>::Acc;
    constexpr int kWords = sizeof(Acc) / 4, kLanes = C::kBlocksPerRow < 32 ? C::kBlocksPerRow : 32;
    Acc* const result = reinterpret_cast<Acc*>(shared() + 2 * kMaxAcc * (C::kThreads / 32) + parity * kMaxAcc);
    if (thread() < 32) {
      // All words in flight together; the loop ends when each shows this meeting's tag.
      constexpr int kRounds = C::kBlocksPerRow / kLanes;
      unsigned long long got[kRounds][kWords];
      bool ready;
      do {
        ready = true;
#pragma unroll
        for (int i = 0; i < kRounds; ++i) {
#pragma unroll
          for (int w = 0; w < kWords; ++w) got[i][w] = peek(place() + w * C::kBlocksPerRow + i * kLanes + thread() % kLanes, tag);
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
      merge_lanes<S, kLanes>(acc);
      if (thread() == 0) *result = acc;
    }
    sync_block();
    acc = *result;
    parity ^= 1;
  }

 private:
  static constexpr int kWarps = (C::kThreadsPerRow + 31) / 32;

  template <int S, int LANES>
  static WS_DEVICE void merge_lanes(typename MeetingOf<G, S>::Acc& acc) {
#pragma unroll
    for (int mask = LANES / 2; mask > 0; mask /= 2) MeetingOf<G, S>::merge(acc, shuffle_xor(acc, mask));
  }
  WS_DEVICE char* slots() const { return shared() + parity * kMaxAcc * (C::kThreads / 32); }
  // Where the blocks of this meeting leave their words.
  WS_DEVICE unsigned long long* place() const { return exchange + parity * C::kBlocksPerRow * (kMaxAcc / 4); }
  template <class Acc>
  WS_DEVICE void leave_warp(const Acc& acc) const {
    if (thread() % 32 == 0) *reinterpret_cast<Acc*>(slots() + thread() / 32 * kMaxAcc) = acc;
  }
  // What the warps of the row left.
  template <int S>
  WS_DEVICE void merge_warps(typename MeetingOf<G, S>::Acc& acc) const {
    const int first = thread() / 32 / kWarps * kWarps;
    acc = *reinterpret_cast<const typename MeetingOf<G, S>::Acc*>(slots() + (first + thread() % kWarps) * kMaxAcc);
    merge_lanes<S, kWarps>(acc);
  }
  template <int S>
  WS_DEVICE void meet_cluster(typename MeetingOf<G, S>::Acc& acc) const {
    using Acc = typename MeetingOf<G, S>::Acc;
    constexpr int kLanes = C::kBlocksPerRow < 32 ? C::kBlocksPerRow : 32;
    char* const mine = shared() + 2 * kMaxAcc * (C::kThreads / 32) + parity * kMaxAcc;
    if (thread() == 0) *reinterpret_cast<Acc*>(mine) = acc;
    sync_cluster();
    acc = *reinterpret_cast<const Acc*>(peer(mine, thread() % kLanes));
    merge_lanes<S, kLanes>(acc);
  }
};

}  // namespace ws
