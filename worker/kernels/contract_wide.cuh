// A tile of a product by ordinary instructions, for rows that are too wide for parts: a block's threads bring a few k of both
// operands to shared memory as fp32 and share the tile's sums.
#pragma once
#include <warpsmith/contract_pack.cuh>

namespace ws {

// MANY, FEW: operands (Operand). TILE rows of `many`, a multiple of 16, by COLUMNS rows of `few`, a multiple of 8; kPlainThreads.
template <class MANY, class FEW, int TILE, int COLUMNS>
struct WideTile {
  using Index = typename MANY::Index;
  static constexpr int kDeep = 16;   // of K, at once
  // A thread has a row of each kLanes and a column of each kGroups: neighbours read neighbours, of columns all the same.
  static constexpr int kLanes = TILE % 32 == 0 ? 32 : 16, kGroups = kPlainThreads / kLanes, kDown = TILE / kLanes;
  // More columns than registers are for come after each other, as many at once as vectors of them are whole.
  static constexpr int kEvery = (COLUMNS + kGroups - 1) / kGroups, kMost = kDown > 4 ? 2 : kDown > 2 ? 4 : 8;
  static constexpr int kAcross = kEvery < kMost ? kEvery : kMost, kPiece = kAcross * kGroups;
  static constexpr int kWords = kDeep * (TILE + kPiece);   // of shared memory

  const MANY many;
  const FEW few;
  Index batch, first_many, first_few;

  using Sums = float[kDown][kAcross];
  static WS_DEVICE void clear(Sums& sums) {
#pragma unroll
    for (int r = 0; r < kDown; ++r) {
#pragma unroll
      for (int c = 0; c < kAcross; ++c) sums[r][c] = 0;
    }
  }

  // ROWS of an operand from `first` on and kDeep of K from k0 on, [k][row]; zeros beyond the ends.
  template <int ROWS, class O>
  WS_DEVICE void bring(const O& operand, Index first, Index k0, Index end, float* to) const {
    constexpr int W = O::kWidth, kVectors = O::kAlongRows ? ROWS / W : ROWS;
    static_assert(ROWS % (O::kAlongRows ? W : 1) == 0 && kDeep % (O::kAlongRows ? 1 : W) == 0, "whole vectors");
#pragma unroll 1
    for (int i = thread(); i < ROWS * kDeep / W; i += kPlainThreads) {
      const int row = i % kVectors * (O::kAlongRows ? W : 1), k = i / kVectors * (O::kAlongRows ? 1 : W);
      float x[W];
#pragma unroll
      for (int v = 0; v < W; ++v) x[v] = 0;
      if (first + row < Index(O::kRows) && k0 + k < end) operand.read(batch, first + row, k0 + k, x);
#pragma unroll
      for (int v = 0; v < W; ++v) to[(O::kAlongRows ? k : k + v) * ROWS + row + (O::kAlongRows ? v : 0)] = x[v];
    }
  }

  // each(row of `many`, row of `few`, their sum over K from `from` to `end`), of the tile's. `stage`: kWords of shared memory.
  template <class Each>
  WS_DEVICE void run(Index from, Index end, float* stage, Each&& each) const {
    float* const xs = stage + thread() % kLanes;
    float* const ys = stage + kDeep * TILE + thread() / kLanes;
#pragma unroll 1
    for (int piece = 0; piece < COLUMNS; piece += kPiece) {
      Sums total;
      clear(total);
#pragma unroll 1
      for (Index k = from; k < end; k += kDeep) {
        sync_block();   // what was there has been read
        bring<TILE>(many, first_many, k, end, stage);
        bring<kPiece>(few, first_few + piece, k, end, stage + kDeep * TILE);
        sync_block();
        Sums sum;
        clear(sum);
#pragma unroll 4
        for (int d = 0; d < kDeep; ++d) {
          float x[kDown];
#pragma unroll
          for (int r = 0; r < kDown; ++r) x[r] = xs[d * TILE + r * kLanes];
#pragma unroll
          for (int c = 0; c < kAcross; ++c) {
            const float y = ys[d * kPiece + c * kGroups];
#pragma unroll
            for (int r = 0; r < kDown; ++r) sum[r][c] += x[r] * y;
          }
        }
#pragma unroll
        for (int r = 0; r < kDown; ++r) {
#pragma unroll
          for (int c = 0; c < kAcross; ++c) total[r][c] += sum[r][c];
        }
      }
#pragma unroll
      for (int r = 0; r < kDown; ++r) {
#pragma unroll
        for (int c = 0; c < kAcross; ++c) {
          const int column = piece + thread() / kLanes + c * kGroups;
          if (column < COLUMNS) each(thread() % kLanes + r * kLanes, column, total[r][c]);
        }
      }
    }
  }
};

}  // namespace ws
