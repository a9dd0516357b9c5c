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

}  // namespace ws
