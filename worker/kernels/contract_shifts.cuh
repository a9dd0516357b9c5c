// Skeleton contract, products with windows that move an element at a time (worker/codegen/skeleton/contract/windows.h): a block
// brings what the windows of a tile see of some channels once, and each tap's operand is that, some places on.
//
// In memory and in shared memory the image lies in planes of eight channels, 16 bytes a place, a line of it every PITCH places,
// with zeros round it where windows reach beyond it: so eight neighbouring rows of an operand are 128 bytes, as wgmma takes them
// where nothing is swizzled, whatever place the first is. A tile's columns are places that follow each other; those where no
// window begins, at the ends of lines, are multiplied in vain.
#pragma once

#include <warpsmith/contract_pack.cuh>

namespace ws {

// What there is of it where windows are none of these.
struct NoShifts {
  static constexpr bool kShifts = false;
  static constexpr int kOfSteps = 0, kStepBytes = 0, kRowsThere = 0, kResidentBytes = 0, kZeroBytes = 0, kTiles = 0;
};

// Of a Window (contract_windows.cuh) whose rows have the channels of one tap, in PARTS, by tiles of TILE_M x TILE_N, of whose rows
// ROWS are there, whole eights (behind them a product reads what follows, and makes sums that nobody finishes). K is multiplied
// in steps: of each tap along the outermost axis and of each sixteen channels (eight, where there are no more) all taps of a plane;
// a unit is the sixteen elements of K that one product takes, of a tap all or of two taps eight channels each.
template <class Of, int PARTS, int TILE_M, int TILE_N, int PITCH, int ROWS = TILE_M>
struct Shifts {
  static constexpr bool kShifts = true;
  using W = typename Of::W;
  using H = typename Of::H;
  using D = typename Of::D;
  static constexpr int kAxes = Of::kAxes, kUnit = Of::kUnit, kChannels = Of::kChannels, kImages = Of::kImages, kInner = kChannels;
  static constexpr long long kRows = Of::kRows;
  template <class A> static WS_DEVICE constexpr int extent() { return A::kPlaces + A::kMove * (A::kTaps - 1); }
  static constexpr int kEights = kChannels <= 8 ? 1 : (kChannels + 15) / 16 * 2, kOfStep = kChannels <= 8 ? 1 : 2;   // planes
  static constexpr int kDeep = extent<D>(), kLines = extent<H>();
  static constexpr long long kSlice = (long long)(kLines) * PITCH;   // places of a plane
  static constexpr long long kPart = kImages * (long long)(kEights) * kDeep * kSlice * 8;   // elements
  static_assert(PITCH >= extent<W>(), "a line has room for its windows");
  static constexpr int kGroups = kEights / kOfStep, kOfSteps = D::kTaps * kGroups;
  static constexpr int kPieces = H::kTaps * W::kTaps * kOfStep, kUnits = (kPieces + 1) / 2;   // of a step; pieces: eight of K
  static constexpr bool kOdd = kPieces % 2 == 1;
  static constexpr int kDepth = kOfSteps * kUnits * 16;
  // Places of a plane that a step brings: from the first tap's to the last's, or of each line of taps its own.
  static constexpr int kAcross = W::kMove * (W::kTaps - 1), kDown = H::kMove * PITCH;
  static constexpr int kWhole = (TILE_N + kDown * (H::kTaps - 1) + kAcross + 7) / 8 * 8, kLine = (TILE_N + kAcross + 7) / 8 * 8;
  static constexpr int kSegments = H::kTaps * kLine < kWhole ? H::kTaps : 1, kSegment = kSegments > 1 ? kLine : kWhole;
  static constexpr int kPlaneBytes = kSegments * kSegment * 16, kPartBytes = kOfStep * kPlaneBytes, kStepBytes = PARTS * kPartBytes;
  static_assert(ROWS % 8 == 0 && ROWS <= TILE_M && (ROWS == TILE_M || TILE_M == 64), "whole eights of rows");
  static constexpr int kRowsThere = ROWS, kResidentBytes = PARTS * kDepth * ROWS * 2;   // what windows are multiplied with, of a tile's rows
  static constexpr int kZeroBytes = kOdd ? TILE_N * 16 : 0;
  // Tiles of a plane, whose windows begin before its last lines.
  static constexpr int kTilesOfSlice = ((H::kPlaces - 1) * PITCH + W::kPlaces + TILE_N - 1) / TILE_N;
  static constexpr int kTiles = kImages * D::kPlaces * kTilesOfSlice;

  // A piece's first byte in a step's planes.
  static WS_DEVICE constexpr int piece(int i) {
    const int tap = i / kOfStep, down = tap / W::kTaps, across = tap % W::kTaps;
    return i % kOfStep * kPlaneBytes + ((kSegments > 1 ? down * kSegment : down * kDown) + across * W::kMove) * 16;
  }

  // Of a tile's place in the order of columns (tiles of TILE_N, slice by slice) the glue's n; -1: no window begins there.
  static WS_DEVICE constexpr int column(int at) {
    const int slice = at / (kTilesOfSlice * TILE_N), place = at % (kTilesOfSlice * TILE_N);
    const int down = place / PITCH, across = place % PITCH;
    return down < H::kPlaces && across < W::kPlaces ? (slice * H::kPlaces + down) * W::kPlaces + across : -1;
  }
  // The first element in memory of a step's plane, at a tile's place; `line`: of the lines of taps, where each has a segment.
  static WS_DEVICE constexpr long long at_step(int tile, int step, int plane, int line) {
    const int slice = tile / (kTilesOfSlice * TILE_N), place = tile % (kTilesOfSlice * TILE_N);
    const int image = slice / D::kPlaces, deep = slice % D::kPlaces + step / kGroups * D::kMove;
    const int eight = step % kGroups * kOfStep + plane;
    return ((((long long)(image) * kEights + eight) * kDeep + deep) * kSlice + place + line * kDown) * 8;
  }

  // The glue's k of one that is multiplied; -1: zeros.
  static WS_DEVICE constexpr int glue_k(int at) {
    const int step = at / (kUnits * 16), piece = at / 8 % (kUnits * 2), tap = piece / kOfStep;
    const int channel = (step % kGroups * kOfStep + piece % kOfStep) * 8 + at % 8;
    if (piece >= kPieces || channel >= kChannels) return -1;
    return (step / kGroups * H::kTaps * W::kTaps + tap) * kChannels + channel;
  }
  // Where element `at` of row m is in what windows are multiplied with, [tile][part][eight of K][row that is there][8].
  template <int>
  static WS_DEVICE constexpr long long at_weight(long long, long long m, long long, int part, int at) {
    return ((m / TILE_M * PARTS + part) * (kDepth / 8) + at / 8) * (ROWS * 8) + m % TILE_M * 8 + at % 8;
  }

  struct Place {
    int k;
    long long at;
  };
  // Where the glue's element of n and k is: its k as it is multiplied, and its place in the image.
  static WS_DEVICE constexpr Place place(long long, long long n, int k) {
    const int channel = k % kChannels;
    k /= kChannels;
    const int w = k % W::kTaps, h = k / W::kTaps % H::kTaps, d = k / W::kTaps / H::kTaps;
    const int across = static_cast<int>(n % W::kPlaces) + w * W::kMove;
    n /= W::kPlaces;
    const int down = static_cast<int>(n % H::kPlaces) + h * H::kMove;
    n /= H::kPlaces;
    const int deep = static_cast<int>(n % D::kPlaces) + d * D::kMove, eight = channel / 8;
    n /= D::kPlaces;
    const int step = d * kGroups + eight / kOfStep, piece = (h * W::kTaps + w) * kOfStep + eight % kOfStep;
    return {(step * kUnits * 2 + piece) * 8 + channel % 8,
            (((n * kEights + eight) * kDeep + deep) * kSlice + (long long)(down) * PITCH + across) * 8 + channel % 8};
  }

  // Eight channels of a place of the image, zeros where there is none.
  template <class G>
  static WS_DEVICE void read(const G& g, long long plane, int down, int across, float (&x)[8]) {
    using Index = typename G::Index;
    const int w = across + W::kLower, h = down + H::kLower, d = static_cast<int>(plane % kDeep) + D::kLower;
    const int eight = static_cast<int>(plane / kDeep % kEights);
    const long long n = plane / kDeep / kEights;
    const bool inside = w >= 0 && w < W::kRows && h >= 0 && h < H::kRows && d >= 0 && d < D::kRows;
    const Index row = static_cast<Index>(((n * D::kRows + d) * H::kRows + h) * W::kRows + w);
#pragma unroll
    for (int c = 0; c < 8; ++c) {
      typename G::Sum one[1] = {0};
      if (inside && eight * 8 + c < kChannels) g.template image<1>(Index(0), row, Index(eight * 8 + c), one);
      x[c] = static_cast<float>(one[0]);
    }
  }

  // Writes the image, all of it with its zeros, a place by a thread, so that a warp's are whole lines; two at a time, of which the
  // second is read before the first is written.
  template <class G, class T, bool SCALED, class Spread>
  static WS_DEVICE void pack(const G& g, T* image, float up, Spread& spread) {
    static_assert(G::kWidthImage == 1, "places one by one");
    constexpr int kAtOnce = 2;
    constexpr long long kJobs = kImages * (long long)(kEights) * kDeep * kSlice;
    using Job = typename Either<(kJobs < 1ll << 30), unsigned, unsigned long long>::Type;
    const int lane = thread() % 32;
    // All of a warp, so that threads can tell each other what they saw.
    for (Job of_warp = block() * (kAtOnce * kPackThreads) + thread() - lane; of_warp < kJobs; of_warp += blocks() * (kAtOnce * kPackThreads)) {
      float x[kAtOnce][8];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const Job job = of_warp + lane + i * kPackThreads;
        if (job < kJobs) {
          read(g, job / static_cast<Job>(kSlice), static_cast<int>(job / PITCH % kLines), static_cast<int>(job % PITCH), x[i]);
        } else {
#pragma unroll
          for (int c = 0; c < 8; ++c) x[i][c] = 0;
        }
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const Job job = of_warp + lane + i * kPackThreads;
        unsigned words[PARTS][4];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          float pair[2] = {x[i][2 * j], x[i][2 * j + 1]};
          if constexpr (SCALED) {
#pragma unroll
            for (int e = 0; e < 2; ++e) pair[e] *= up, spread.see(pair[e]);
          }
          const unsigned both = words[0][j] = pair_of<T>(pair[0], pair[1]);
          if constexpr (PARTS == 2) words[1][j] = pair_of<T>(pair[0] - first_of<T>(both), pair[1] - second_of<T>(both));
        }
        // Few channels say little of one place.
        if constexpr (SCALED && kChannels < 8) spread.see_with_neighbours();
        else spread.see_together();
#pragma unroll
        for (int part = 0; part < PARTS; ++part)
          if (job < kJobs) store<4, unsigned, 0>(reinterpret_cast<unsigned*>(image + placed(part * kPart + (long long)(job) * 8)), words[part]);
      }
    }
  }
};

}  // namespace ws
