// How the threads of the `rows` skeleton share rows (rows.cuh says what the parameters are).
#pragma once
#include <warpsmith/base.cuh>

namespace ws {

inline constexpr int kMaxAcc = 32;   // bytes of a stage's accumulators

enum Meeting { kAlone = 0, kCluster = 1, kCounter = 2 };

template <int V_, int THREADS_, int THREADS_PER_ROW_, int BLOCKS_PER_ROW_, int MEETING_, int REGISTER_VECTORS_,
          int SHARED_VECTORS_, int UNROLL_, bool PERSISTENT_, bool CARRIES_ = false, int AHEAD_ = 0, int COMMON_ = 0,
          bool CACHED_ = false>
struct RowsConfig {
  static constexpr int V = V_, kThreads = THREADS_, kThreadsPerRow = THREADS_PER_ROW_, kBlocksPerRow = BLOCKS_PER_ROW_;
  static constexpr int kMeeting = MEETING_, kRegisters = REGISTER_VECTORS_, kShared = SHARED_VECTORS_, kUnroll = UNROLL_;
  static constexpr bool kPersistent = PERSISTENT_, kCarries = CARRIES_;
  static constexpr int kAhead = AHEAD_, kCommon = COMMON_;
  static constexpr bool kCached = CACHED_;
  static constexpr int kRowsPerBlock = BLOCKS_PER_ROW_ > 1 ? 1 : THREADS_ / THREADS_PER_ROW_;
  static constexpr int kRowThreads = kThreadsPerRow * kBlocksPerRow;            // T
  static constexpr int kExchangeBytes = 2 * BLOCKS_PER_ROW_ * (kMaxAcc / 4) * 8;   // a group
  static constexpr int kScratchBytes = 2 * kMaxAcc * (THREADS_ / 32) + 2 * kMaxAcc;
  static_assert(BLOCKS_PER_ROW_ == 1 || THREADS_PER_ROW_ == THREADS_, "a row of several blocks has them whole");
};

// The same blocks, but they do not meet.
template <class C>
struct Unmet : C {
  static constexpr int kBlocksPerRow = 1;
};

}  // namespace ws
