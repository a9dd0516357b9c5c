// Skeleton contract, sm_90a: Y[b, m, n] = finish(sum of k: A[b, m, k] B[b, n, k]) of operands of 16 bits, or 8, sums in fp32.
//
// A block computes tiles of kTileM x kTileN, one after the other. Its last warpgroup has the copy engine
// bring boxes of both operands, kStages steps of 128 bytes along K ahead; the others each multiply their 64 rows
// of the tile and finish them, while the next tile's operands are on their way. Blocks of a cluster work on
// tiles below each other: each brings a part of B for all.
//
// Operands may lie along K (row major A, column major B as mathematics writes it) or along M and N; the
// maps' boxes are of 128 bytes by rows, swapped by 128 bytes (wgmma.cuh). Sizes are those of the maps: what
// lies outside comes as zero and is not finished.
#pragma once

#include <warpsmith/contract_ends.cuh>
#include <warpsmith/contract_windows.cuh>
#include <warpsmith/wgmma.cuh>

namespace ws {

// What a kernel of it is made of. Config has: Type (hopper::Bf16, Fp16; E4m3, whose operands lie along K), Glue (contract_plain.cuh), kM, kN, kK, kBatch; kTileM (64 a
// group), kTileN, kStages, kCluster, kRaster (clusters that lie below each other in the order of tiles),
// kAlongM, kAlongN; kSplit (blocks that share a tile's K) and kMeet: whether they are a cluster, and each finishes a part
// of the tile with the sums of all, in their order (kCluster is 1); kParts: 1, or 2 where each operand is the sum
// of two, the greater first, as two batches of its map: the product of the two lesser is left out. kInline: A is brought as
// the fp32 that it is, and made two parts of on its way into registers, a step at a time, each row times a power of two
// of its own; kScaled: a run's sums are multiplied by the glue's run_a(b, m, k) and run_b(b, n, k) of its first k where they
// are added up, which are one for kBesideA and kBesideB rows side by side (0: none has one); kTurned: that A is the B of the glue, whose rows and columns are the other way round. kOneA, kOneB: it is the same for all batches. kOnceA, kOnceB: one tile alone reads
// of it what it reads.
// kTurns: 0, or so many groups do not
// share a tile but take turns, each finishing its own while another multiplies. kTail: where a last wave of tiles is not full
// (those from kWhole on, a multiple of the grid's blocks), the blocks of a cluster that share K of each of them (kSplit and
// kCluster are 1); 1: blocks finish all tiles alone. kLast: whether a tile over which a block meets others is its last.
// kJoined: 1 where A, 2 where B is two tensors one behind the other along K, of which the second begins with step kCut and has
// a map of its own. kBlocksOfSm: blocks of a multiprocessor, that share its registers.
// Window: NoWindow, or B's rows are places of an image's windows (contract_windows.cuh), of which its map is; or Shifts of these
// (contract_shifts.cuh): there are no maps, A's rows of a tile stay in shared memory, and groups take turns (kRun 1: a step's
// products are added up in kRunsOfStep runs).
// Where the glue is a pair (contract_plain.cuh), the second product's B has a map of its own, likewise (`behind`), and half of a
// tile's columns are those of either, side by side; ends take both sums of a place.
// kRun: steps after which what the tensor cores have summed is added up in fp32 registers, or with kRunsOfStep > 1
// (and kRun 1) a part of a step, since they truncate (Ootomo and Yokota, Recovering single precision accuracy from Tensor Cores, 2022); 0: never.
//
// End: what becomes of a tile's sums. Of a group's 64 rows of a tile: begin(batch, m, n, thread), called by its 128
// threads before the tile's products, fetches what they all need, an End::Begun each; leave(begun, kept, thread)
// leaves that in kKept floats of shared memory, and says whether what it saw asks for a look at each sum, which it may where kLooks;
// place<W>(kept, at) is what W neighbours of each line there have in common, an End::Place<W>: from column `at` of rows on, or
// turned from row `at` of columns; kRowsAtOnce: rows, one below the other, that are finished together. read(batch, m, n, raw) asks for what kWidth neighbours have of their own, an End::Raw of kRaw
// words (of shifts, read_own what a line has of its own of it, and read_row of a row what all of that has alike, kRawRow words, a
// RawRow); of_row(kept, row, column), within the group's part of the tile, what all of a line has in common, an End::OfRow of kOfRow
// words; finish<W, LOOK>(of_row, place, batch, m, n, part, raw, sums) makes of it and of their sums what they become. kDown, kAcross: finish<W>(batch, m, n, raw, sums, value) does, and says what
// is summed over M or over N: what a box adds goes to left.down and left.across (EndTotals).
template <class C, class End>
struct Contract {
  using Barrier = hopper::Barrier;
  static constexpr int kStepK = hopper::kRowBytes / C::Type::kBytes;
  static constexpr int kProducts = hopper::kRowBytes / hopper::kProductBytes;   // of a step, one after the other along K
  static constexpr int kGroups = C::kTurns ? C::kTurns : C::kTileM / 64;   // of warps that multiply
  static constexpr int kEach = C::kTurns ? C::kTileM / 64 : 1;     // times 64 rows of a tile, a group's
  static constexpr int kSharing = C::kTurns ? 1 : kGroups;         // groups that multiply a step
  static constexpr int kThreads = 128 * (kGroups + 1);
  static constexpr int kBytesA = C::kTileM * hopper::kRowBytes * (C::kInline ? 2 : 1);   // of a part
  static constexpr int kBytesB = C::kTileN * hopper::kRowBytes;
  static constexpr int kPartsA = C::kInline ? 1 : C::kParts;   // as it is brought
  using Window = typename C::Window;
  static constexpr bool kShifts = Window::kShifts;
  // Of windows, blocks take the next tile when they have room for it, so that those that are finished at about the same time lie side by
  // side: what they read is still near, and what they write fills lines of memory. (Blocks that have every so many'th drift
  // apart.) Who multiplies learns which one it is from who brought it.
  static constexpr bool kTaken = Window::kAxes > 0 && C::kCluster == 1 && C::kSplit == 1 && C::kTail == 1 && !C::kInline;
  static constexpr int kStepBytes = kShifts ? Window::kStepBytes : kPartsA * kBytesA + C::kParts * kBytesB;
  // Rows of A that are brought along K: where there are fewer than a tile's, the others hold anything, and so do sums
  // that nobody finishes. (To fill what lies outside takes the copy engine as long as to bring it.)
  static constexpr int kRowsBrought = !C::kAlongM && !C::kInline && C::kM < C::kTileM ? (C::kM + 7) / 8 * 8 : C::kTileM;
  static constexpr int kBytesBrought = kStepBytes - C::kParts * (C::kTileM - kRowsBrought) * hopper::kRowBytes;   // of a step
  static constexpr int kOf = C::Glue::kPair ? 2 : 1;
  static constexpr int kColumns = C::kTileN < 64 ? C::kTileN : 64;   // of a group's rows, finished at a time
  static constexpr int kEndBoxes = (C::kTileN + kColumns - 1) / kColumns;   // of a tile's end; the last may have fewer columns
  static constexpr int kTileColumns = C::kTileN / kOf, kBoxColumns = kColumns / kOf;   // of N, of a tile and at a time
  static constexpr int kBoxBytes = 64 * kColumns * sizeof(float);
  // Of a group; behind what an end keeps of a tile, where a block's tiles are of the same rows, what rows have of their own.
  static constexpr bool kKeepsRows = kShifts && End::kRawRow > 0;
  static constexpr int kRawOwn = kKeepsRows ? End::kRaw - End::kRawRow : End::kRaw;   // words that are read for a line of a tile
  static constexpr int kKeptOfTile = End::template kKept<C::kTileN> * sizeof(float);
  static constexpr int kKeptBytes = kKeptOfTile + (kKeepsRows ? (C::kTileM / End::kRowsAtOnce * End::kRawRow * 4 + 15) / 16 * 16 : 0);
  static constexpr int kSharedBytes = 1024 + Window::kResidentBytes + C::kStages * kStepBytes + Window::kZeroBytes + kGroups * (kBoxBytes + kKeptBytes) +
                                      (2 * (C::kStages + kGroups) + kShifts) * sizeof(Barrier) + (kTaken ? C::kStages * 4 : 0);
  static_assert(!C::kMeet || C::kCluster == 1, "a cluster shares B or K");
  static_assert(kOf == 1 || (C::kParts == 1 && C::kJoined == 0 && !C::kTurned && (C::kSplit == 1 || C::kMeet)),
                "a pair's sums are there together at a tile's end");
  static_assert(!C::kInline || (C::kParts == 2 && C::kRun == 1 && C::kRunsOfStep == 1 && !C::kMeet), "rows have a scale a step");
  static_assert(!C::kScaled || (C::kRun > 0 && C::kParts == 1 && !C::kTurned), "runs have scales");
  static_assert(C::Type::kBytes == 2 || (!C::kAlongM && !C::kAlongN), "products of eight bits are of rows along K");
  static_assert(!C::kTurns || kShifts || (C::kRun == 0 && C::kParts == 1), "turns have no registers for runs");
  static_assert(!C::kTurns || !C::kMeet, "who takes turns has no cluster to meet in");
  static_assert(!kShifts || (C::kTurns && C::kBatch == 1 && C::kCluster == 1 && C::kSplit == 1 && C::kTail == 1 && C::kBlocksOfSm == 1),
                "blocks bring their own");
  static_assert(!kShifts || C::kRun == 0 || kEach == 1, "runs have registers of their own");
  static constexpr int kReleases = C::kInline ? 4 : 1;   // of a step, by a group: warps read it themselves, or the tensor cores
  static_assert(C::kTail == 1 || (C::kSplit == 1 && C::kCluster == 1 && !C::kTurns && !C::kInline), "a tail's blocks share K alone");
  static constexpr int kBlocks = C::kMeet ? C::kSplit : C::kCluster;   // of a cluster that share each tile
  static constexpr int kOfCluster = C::kTail > 1 ? C::kTail : kBlocks;
  static constexpr int kMeeting = C::kTail > 1 ? C::kTail : C::kSplit;   // blocks whose sums of a tile meet, if any do
  static constexpr bool kMeets = C::kMeet || C::kTail > 1;
  // Of a thread; together no more than the block was launched with, or who asks for more waits for ever. One group asks for none.
  static constexpr int kRegistersLaunched = 65536 / (kThreads * C::kBlocksOfSm) / 8 * 8;
  static constexpr int kRegistersBringing = kGroups == 2 && C::kBlocksOfSm == 1 ? 40 : kGroups == 3 ? 32 : 24;
  static constexpr int kRegistersToTake = (kRegistersLaunched * (kGroups + 1) - kRegistersBringing) / kGroups / 8 * 8;
  static constexpr int kRegistersMultiplying = kGroups > 1 ? kRegistersToTake : kRegistersLaunched < 255 ? kRegistersLaunched : 255;
  static constexpr int kSteps = kShifts ? Window::kOfSteps : (C::kK + kStepK - 1) / kStepK;
  static constexpr int kUnit = C::kRun > 0 ? C::kRun : 1;   // steps of a part of K: whole runs
  static constexpr int kPart = ((kSteps + kUnit - 1) / kUnit + C::kSplit - 1) / C::kSplit * kUnit;
  static_assert(kPart * (C::kSplit - 1) < kSteps, "each part of K has steps");
  static constexpr int kTailPart = ((kSteps + kUnit - 1) / kUnit + C::kTail - 1) / C::kTail * kUnit;
  static_assert(kTailPart * (C::kTail - 1) < kSteps, "each part of K has steps");
  static constexpr int kTilesM = (C::kM + C::kTileM - 1) / C::kTileM;
  static constexpr int kRowsM = (kTilesM + C::kCluster - 1) / C::kCluster;          // of clusters
  static constexpr int kTilesN = kShifts ? Window::kTiles : (C::kN + kTileColumns - 1) / kTileColumns;
  static constexpr int kTiles = kRowsM * kTilesN * C::kBatch * (C::kMeet ? 1 : C::kSplit);   // of clusters

  struct Tile {
    int m, n, batch;   // its first row and column
    int part;          // of K
    bool shared;       // by a cluster, of the tail
    WS_DEVICE int from() const { return C::kTail > 1 && shared ? cluster_rank() * kTailPart : part * kPart; }   // its steps
    // None where no sum of the cluster matters: its blocks bring operands for each other.
    WS_DEVICE int to() const {
      if constexpr (kTaken) return kSteps;
      const int first = C::kCluster == 1 ? m : m - cluster_rank() * C::kTileM;
      constexpr int kRows = C::kCluster * C::kTileM;
      if (!(C::kTurned ? C::Glue::wanted(n, first, C::kTileN, kRows) : C::Glue::wanted(first, n, kRows, kTileColumns))) return from();
      const int end = from() + (C::kTail > 1 && shared ? kTailPart : kPart);
      return end < kSteps ? end : kSteps;
    }
  };

  // The place of a cluster's tile in the order: kRaster rows of tiles at a time, column by column, so that
  // what runs at once shares rows of A and columns of B.
  // A block's first tile, and the next: alone, then, of the tail, with its cluster.
  static WS_DEVICE int first_at() { return blockIdx.x / kBlocks; }
  static WS_DEVICE int next_at(int at) {
    if constexpr (C::kTail > 1) {
      if (at >= C::kWhole) return at + gridDim.x / C::kTail;
      return at + gridDim.x < C::kWhole ? at + gridDim.x : C::kWhole + blockIdx.x / C::kTail;
    }
    return at + gridDim.x / kBlocks;
  }
  // Those that are taken are told apart by their place in the order, of shifts of those of the same rows: how many are so that blocks do
  // not begin with. `order`: a word for each, zero before.
  static constexpr int kOrders = kShifts ? kTilesM : 1;
  static WS_DEVICE int take(int* order) { return hopper::take_one(order + first_at() % kOrders); }
  static WS_DEVICE int taken_at(int taken) { return (taken + static_cast<int>(gridDim.x) / kOrders) * kOrders + first_at() % kOrders; }
  // Of blocks that finish all tiles alone: so many tiles later.
  static WS_DEVICE int later_at(int at, int tiles) { return at + tiles * static_cast<int>(gridDim.x / kBlocks); }
  static WS_DEVICE Tile tile_at(int at) {
    // A block's tiles are of the same rows: as many blocks as there are of these, or a multiple, run.
    if constexpr (kShifts) return {at % kTilesM * C::kTileM, at / kTilesM * C::kTileN, 0, 0, false};
    const int shared_by = at / (kRowsM * kTilesN), within = at % (kRowsM * kTilesN);
    const int first = within / (C::kRaster * kTilesN) * C::kRaster;
    const int rows = kRowsM - first < C::kRaster ? kRowsM - first : C::kRaster;
    const int rest = within % (C::kRaster * kTilesN);
    const int row = (first + rest % rows) * C::kCluster + (C::kCluster == 1 ? 0 : cluster_rank());
    if (C::kMeet) return {row * C::kTileM, rest / rows * kTileColumns, shared_by, cluster_rank(), false};
    return {row * C::kTileM, rest / rows * kTileColumns, shared_by / C::kSplit, shared_by % C::kSplit, at >= C::kWhole};
  }

  // A group's rows of a tile; of the tile that is there in the order, outside the result behind the last.
  static WS_DEVICE Tile rows_of(Tile tile, int rows) {
    tile.m += rows * 64;
    return tile;
  }
  static WS_DEVICE Tile rows_at(int at, int rows) {
    return at < kTiles ? rows_of(tile_at(at), rows) : Tile{static_cast<int>(C::kM), 0, 0, 0, false};
  }

  // A ring of steps: where one is, and the parity of the phase in which its barriers are.
  struct Ring {
    int stage = 0;
    unsigned parity = 0;
    WS_DEVICE void next() {
      if (++stage == C::kStages) stage = 0, parity ^= 1;
    }
    WS_DEVICE void skip(int steps) {
      stage += steps;
      parity ^= stage / C::kStages & 1;
      stage %= C::kStages;
    }
  };

  // The glue's n of a tile's column; -1: none.
  static WS_DEVICE int column_of(Tile tile, int column) {
    if constexpr (kShifts) return Window::column(tile.n + column);
    return tile.n + column < C::kN ? tile.n + column : -1;
  }

  unsigned char* stays;   // A's rows, where windows are shifts
  unsigned char* steps;
  unsigned char* zeros;
  unsigned char* boxes;   // of sums on their way to their finish, each with what a group's end keeps behind it
  Barrier* full;          // a step's bytes have come
  Barrier* empty;         // all groups of the cluster have multiplied it
  Barrier* left;          // of a group: its box is there in each of the cluster's blocks; by turns: it is its turn
  Barrier* read;          // and has been read by all of them
  Barrier* there;         // what stays has come
  int* numbers;           // where tiles are taken, that whose first step a stage has; kTiles: there are no more

  WS_DEVICE Contract() {
    unsigned char* const all = reinterpret_cast<unsigned char*>(shared());
    stays = all + (1024 - hopper::shared_address(all) % 1024) % 1024;
    steps = stays + Window::kResidentBytes;
    zeros = steps + C::kStages * kStepBytes;
    boxes = zeros + Window::kZeroBytes;
    full = reinterpret_cast<Barrier*>(boxes + kGroups * (kBoxBytes + kKeptBytes));
    empty = full + C::kStages;
    left = empty + C::kStages;
    read = left + kGroups;
    there = read + kGroups;
    numbers = reinterpret_cast<int*>(there + kShifts);
  }

  WS_DEVICE void begin() {
    if (threadIdx.x == 0) {
      hopper::begin_groups();
      for (int s = 0; s < C::kStages; ++s) {
        hopper::init(full[s], 1);
        hopper::init(empty[s], kSharing * C::kCluster * kReleases);
      }
      for (int group = 0; kMeets && group < kGroups; ++group) {
        hopper::init(left[group], kMeeting);
        hopper::init(read[group], kMeeting);
      }
      for (int group = 0; C::kTurns && group < kGroups; ++group) hopper::init(left[group], 1);
      if (kShifts) hopper::init(*there, 1);
      hopper::init_done();
    }
    if constexpr (kShifts) {
      for (int i = threadIdx.x; i < Window::kZeroBytes / 4; i += kThreads) reinterpret_cast<unsigned*>(zeros)[i] = 0;
    }
    hopper::fence_async();
    if constexpr (kOfCluster > 1) sync_cluster(); else __syncthreads();
  }

  // One part of A's step at k: boxes of 128 bytes by rows, or by so many of K.
  WS_DEVICE void bring_a(const hopper::Map& a, int stage, int part, Tile tile, int k) {
    constexpr int kBeside = C::kInline ? 32 : kStepK;   // elements of 128 bytes
    constexpr int kBoxes = (C::kAlongM ? C::kTileM : kStepK) / kBeside, kBox = (C::kAlongM ? kStepK : C::kTileM) * hopper::kRowBytes;
    unsigned char* const to = steps + stage * kStepBytes + part * kBytesA;
    const int batch = (C::kOneA ? 0 : tile.batch) * kPartsA + part;
#pragma unroll
    for (int i = 0; i < kBoxes; ++i) {
      if constexpr (C::kAlongM) hopper::load_box<C::kOnceA>(to + i * kBox, a, full[stage], tile.m + i * kBeside, k, batch);
      else hopper::load_box<C::kOnceA>(to + i * kBox, a, full[stage], k + i * kBeside, tile.m, batch);
    }
  }

  // Likewise, with what the cluster's other blocks bring; `part` of two, or of a pair the first or the second B.
  WS_DEVICE void bring_b(const hopper::Map& b, int stage, int part, Tile tile, int k) {
    if constexpr (C::Window::kAxes > 0) return bring_window(b, stage, part, tile, k);
    unsigned char* const to_b = steps + stage * kStepBytes + kPartsA * kBytesA + part * (kBytesB / kOf);
    const int batch = (C::kOneB ? 0 : tile.batch) * C::kParts + (kOf == 1 ? part : 0);
    constexpr int kShare = kTileColumns / C::kCluster;   // of B, by each block
    const int column = C::kCluster == 1 ? 0 : cluster_rank() * kShare;
    if constexpr (!C::kAlongN) {
      bring_shared<C::kOnceB>(to_b + column * hopper::kRowBytes, b, stage, k, tile.n + column, batch);
    } else {
#pragma unroll
      for (int i = 0; i < kShare / 64; ++i) {
        bring_shared<C::kOnceB>(to_b + (column + i * 64) * hopper::kRowBytes, b, stage, tile.n + column + i * 64, k, batch);
      }
    }
  }

  // B's rows as windows' places in an image (contract_windows.cuh): those of a tile from its first on, moved by the taps that the step
  // is of.
  WS_DEVICE void bring_window(const hopper::Map& b, int stage, int part, Tile tile, int k) {
    using Of = typename C::Window;
    using W = typename Of::W;
    using H = typename Of::H;
    using D = typename Of::D;
    constexpr int kShare = kTileColumns / C::kCluster, kOfStep = 64 / Of::kUnit;
    const int column = C::kCluster == 1 ? 0 : cluster_rank() * kShare;
    unsigned char* const of_part = steps + stage * kStepBytes + kPartsA * kBytesA + part * kBytesB + column * hopper::kRowBytes / kOfStep;
    int place = tile.n + column;
    const int w = place % W::kPlaces * W::kStep + W::kLower;
    place /= W::kPlaces;
    const int h = place % H::kPlaces * H::kStep + H::kLower;
    place /= H::kPlaces;
    const int d = place % D::kPlaces * D::kStep + D::kLower, image = part * Of::kImages + place / D::kPlaces;
    constexpr unsigned short kAll = (1 << C::kCluster) - 1;
#pragma unroll
    for (int i = 0; i < kOfStep; ++i) {
      unsigned char* const to = of_part + i * kHalfB;
      // Behind the last unit is none: a channel behind a row's is zero.
      const int unit = k / Of::kUnit + i, at = (unit < Of::kUnits ? unit : Of::kUnits - 1) * Of::kUnit;
      int taps = at / Of::kOfTaps;
      const int c = unit < Of::kUnits ? tile.batch * Of::kGroup + at % Of::kOfTaps : Of::kLine, across = taps % W::kSteps * W::kMove;
      taps /= W::kSteps;
      const int down = taps % H::kSteps * H::kMove, deep = taps / H::kSteps * D::kMove;
      if constexpr (Of::kAxes == 5) {
        if constexpr (C::kCluster == 1) hopper::load_window(to, b, full[stage], c, w, h, d, image, across, down, deep);
        else hopper::load_window_to(to, b, full[stage], kAll, c, w, h, d, image, across, down, deep);
      } else {
        if constexpr (C::kCluster == 1) hopper::load_window(to, b, full[stage], c, w, h, image, across, down);
        else hopper::load_window_to(to, b, full[stage], kAll, c, w, h, image, across, down);
      }
    }
  }

  template <bool ONCE>
  WS_DEVICE void bring_shared(unsigned char* to, const hopper::Map& map, int stage, int x, int y, int z) {
    if constexpr (C::kCluster == 1) {
      hopper::load_box<ONCE>(to, map, full[stage], x, y, z);
    } else {
      hopper::load_box_to(to, map, full[stage], (1 << C::kCluster) - 1, x, y, z);
    }
  }

  // Steps of a tile, `at` in the order, of operands whose maps begin with those steps of K. `second`: of a pair the other B.
  WS_DEVICE void bring_steps(const hopper::Map& a, const hopper::Map& b, const hopper::Map& second, int at, Tile tile, int from, int to,
                             int first_a, int first_b, Ring& ring) {
#pragma unroll 1
    for (int step = from; step < to; ++step, ring.next()) {
      hopper::wait(empty[ring.stage], ring.parity ^ 1, "empty", ring.stage);
      if (kTaken && step == from) numbers[ring.stage] = at;
      hopper::arrive_expecting(full[ring.stage], kBytesBrought);
#pragma unroll
      for (int part = 0; part < C::kParts; ++part) {
        if (part < kPartsA) bring_a(a, ring.stage, part, tile, (step - first_a) * kStepK);
        bring_b(b, ring.stage, part, tile, (step - first_b) * kStepK);
      }
      if constexpr (kOf == 2) bring_b(second, ring.stage, 1, tile, (step - first_b) * kStepK);
    }
  }

  // One thread: brings the operands of all of the block's tiles. `behind`: the second part of the one that is in two, or
  // the second B of a pair. `order`: where tiles are taken.
  WS_DEVICE void bring(const hopper::Map& a, const hopper::Map& b, const hopper::Map& behind, int* order) {
    hopper::prefetch(a);
    hopper::prefetch(b);
    if constexpr (C::kJoined != 0 || kOf == 2) hopper::prefetch(behind);
    Ring ring;
    for (int at = first_at(), taken = 0; at < kTiles; at = kTaken ? taken_at(taken) : next_at(at)) {
      if constexpr (kTaken) taken = take(order);   // there when this tile's steps are on their way
      const Tile tile = tile_at(at);
      const int from = tile.from(), to = tile.to();
      if constexpr (C::kJoined == 0) {
        bring_steps(a, b, behind, at, tile, from, to, 0, 0, ring);
      } else {
        // Each with a loop of its own: an address of a map goes to the copy engine and nowhere else.
        const int second = from > C::kCut ? from : C::kCut;
        bring_steps(a, b, b, at, tile, from, to < C::kCut ? to : C::kCut, 0, 0, ring);
        if constexpr (C::kJoined == 1) bring_steps(behind, b, b, at, tile, second, to, C::kCut, 0, ring);
        else bring_steps(a, behind, behind, at, tile, second, to, 0, C::kCut, ring);
      }
    }
    if constexpr (kTaken) bring_end(ring);
  }

  // Behind the last tile each group, or all that share tiles, have one that says so. One thread.
  WS_DEVICE void bring_end(Ring& ring) {
#pragma unroll 1
    for (int step = 0; step < (C::kTurns ? kGroups * kSteps : 1); ++step, ring.next()) {
      hopper::wait(empty[ring.stage], ring.parity ^ 1, "empty", ring.stage);
      numbers[ring.stage] = kTiles;
      hopper::arrive(full[ring.stage]);
    }
  }

  // Of shifts: what stays, then all steps of the block's tiles; a warp, of which each lane has copies of its own of a step (one thread
  // would take as long to say where all of them are as to multiply them).
  WS_DEVICE void bring_shifts(const void* a, const void* b, int* order) {
    constexpr int kPiece = 16384, kCopies = C::kParts * Window::kOfStep * Window::kSegments;
    const int lane = threadIdx.x % 32, rows = first_at() % kTilesM;
    if (first_at() < kTiles && lane == 0) {
      hopper::arrive_expecting(*there, Window::kResidentBytes);
      const unsigned char* const weights = static_cast<const unsigned char*>(a) + (long long)(rows) * Window::kResidentBytes;
      for (int at = 0; at < Window::kResidentBytes; at += kPiece) {
        const int bytes = Window::kResidentBytes - at < kPiece ? Window::kResidentBytes - at : kPiece;
        hopper::load_bytes(stays + at, weights + at, bytes, *there);
      }
    }
    // Copy i of a step: where it comes from and goes to, of a tile's first step and of the first stage.
    const auto to = [](int i) {
      return i % C::kParts * Window::kPartBytes + i / C::kParts % Window::kOfStep * Window::kPlaneBytes + i / C::kParts / Window::kOfStep * Window::kSegment * 16;
    };
    const auto from = [](int i) {
      return (i % C::kParts * Window::kPart + Window::at_step(0, 0, i / C::kParts % Window::kOfStep, i / C::kParts / Window::kOfStep)) * 2;
    };
    const unsigned char* const own = static_cast<const unsigned char*>(b) + from(lane);
    Ring ring;
    for (int at = first_at(), taken = 0; at < kTiles; at = taken_at(shuffle(taken, 0))) {
      const Tile tile = tile_at(at);
      if (lane == 0) taken = take(order);   // there when this tile's steps are on their way
#pragma unroll 1
      for (int step = 0; step < kSteps; ++step, ring.next()) {
        hopper::wait(empty[ring.stage], ring.parity ^ 1, "empty", ring.stage);
        if (lane == 0) {
          if (step == 0) numbers[ring.stage] = at;
          hopper::arrive_expecting(full[ring.stage], kStepBytes);
        }
        sync_warp();
        const long long first = Window::at_step(tile.n, step, 0, 0) * 2;
        unsigned char* const stage = steps + ring.stage * kStepBytes;
        if (lane < kCopies) hopper::load_bytes(stage + to(lane), own + first, Window::kSegment * 16, full[ring.stage]);
        for (int i = lane + 32; i < kCopies; i += 32)
          hopper::load_bytes(stage + to(i), static_cast<const unsigned char*>(b) + from(i) + first, Window::kSegment * 16, full[ring.stage]);
      }
    }
    if (lane == 0) bring_end(ring);
  }

  // The operands of one of a step's products, from 1,024-byte patterns: what to add to `operand` for each.
  static constexpr int kAheadA = C::kAlongM ? 2 * hopper::kPatternBytes : hopper::kProductBytes;
  static constexpr int kAheadB = C::kAlongN ? 2 * hopper::kPatternBytes : hopper::kProductBytes;
  static constexpr bool kHalves = C::Window::kUnit == 32;   // B's steps come in halves, one behind the other
  static constexpr int kHalfB = C::kTileN * hopper::kRowBytes / 2;
  static WS_DEVICE constexpr int ahead_b(int k) { return kHalves ? k / 2 * kHalfB + k % 2 * hopper::kProductBytes : k * kAheadB; }

  // COUNT products of a step from FROM on, of the tile's rows 64 * `rows` and 63 more.
  template <int FROM = 0, int COUNT = kProducts>
  WS_DEVICE void multiply_step(int rows, int stage, float (&sums)[C::kTileN / 2], bool add) {
    constexpr int kLeading = kStepK * hopper::kRowBytes;
    // The lesser products first.
#pragma unroll
    for (int parts = C::kParts == 1 ? 0 : 2; parts >= 0; --parts) {
      const unsigned char* at_a = steps + (parts == 2) * kBytesA + rows * 64 * hopper::kRowBytes;
      const unsigned char* at_b = steps + C::kParts * kBytesA + (parts == 1) * kBytesB;
      // Of the first stage, once for all steps, and from there: each instruction of a step costs power.
      const unsigned long long a =
          hopper::operand(at_a, hopper::kPatternBytes, C::kAlongM ? kLeading : 16) + static_cast<unsigned>(stage) * (kStepBytes >> 4);
      const unsigned long long b =
          (kHalves ? hopper::operand_of_halves(at_b) : hopper::operand(at_b, hopper::kPatternBytes, C::kAlongN ? kLeading : 16)) +
          static_cast<unsigned>(stage) * (kStepBytes >> 4);
#pragma unroll
      for (int k = FROM; k < FROM + COUNT; ++k) {
        hopper::Product<typename C::Type, C::kTileN, C::kAlongM, C::kAlongN>::run(
            sums, a + k * (kAheadA >> 4), b + (ahead_b(k) >> 4), add || k > FROM || parts != (C::kParts == 1 ? 0 : 2));
      }
    }
  }

  // Of shifts, COUNT units of a step from FROM on: each of A as it stays, and of what the step brought from its piece's first byte on.
  template <int FROM, int COUNT>
  WS_DEVICE void multiply_units(int rows, int step, int stage, float (&sums)[C::kTileN / 2], bool add) {
    constexpr int kUnitBytes = Window::kRowsThere * 32;   // of A: sixteen of K, in two times eight
    const auto word = [](int bytes) { return static_cast<unsigned long long>(bytes >> 4); };
    const unsigned long long first_a = hopper::operand_of_eights(stays + rows * 1024, Window::kRowsThere * 16) + word(step * Window::kUnits * kUnitBytes);
    const unsigned char* const at_b = steps + stage * kStepBytes;
#pragma unroll
    for (int parts = C::kParts == 1 ? 0 : 2; parts >= 0; --parts) {
      const unsigned long long a = first_a + word((parts == 2) * kSteps * Window::kUnits * kUnitBytes);
      const unsigned char* const of_part = at_b + (parts == 1) * Window::kPartBytes;
      const unsigned long long b = hopper::operand_of_eights(of_part, 0);
#pragma unroll
      for (int u = FROM; u < FROM + COUNT; ++u) {
        const int first = Window::piece(2 * u), apart = Window::piece(2 * u + 1) - first;   // bytes
        // Of one piece alone the other eight of K are zero.
        const unsigned long long second = word(Window::kOdd && u == Window::kUnits - 1 ? static_cast<int>(zeros - of_part) - first : apart);
        hopper::Product<typename C::Type, C::kTileN, 0, 0>::run(sums, a + word(u * kUnitBytes), b + word(first) + (second << 16),
                                                                 add || u > FROM || parts != (C::kParts == 1 ? 0 : 2));
      }
    }
  }
  // Of shifts, the units of a step in runs RUN, RUN + 1 and so on, each added up in registers.
  template <int RUN = 0>
  WS_DEVICE void multiply_unit_runs(int step, int stage, float (&sums)[C::kTileN / 2]) {
    constexpr int kFrom = Window::kUnits * RUN / C::kRunsOfStep, kTo = Window::kUnits * (RUN + 1) / C::kRunsOfStep;
    float run[C::kTileN / 2];
    hopper::products_begin();
    multiply_units<kFrom, kTo - kFrom>(0, step, stage, run, false);
    hopper::products_commit();
    hopper::products_wait<0>();
#pragma unroll
    for (int v = 0; v < C::kTileN / 2; ++v) sums[v] += run[v];
    if constexpr (RUN + 1 < C::kRunsOfStep) multiply_unit_runs<RUN + 1>(step, stage, sums);
  }

  // Products of steps from..to, added up by the tensor cores; a step is released when the next one's are under way.
  WS_DEVICE void multiply_steps(int group, int from, int to, Ring& ring, float (&sums)[C::kTileN / 2]) {
    int before = 0;   // the stage whose products are under way
#pragma unroll 1
    for (int step = from; step < to; ++step, ring.next()) {
      hopper::wait(full[ring.stage], ring.parity, "full", ring.stage);
      hopper::products_begin();
      multiply_step(group, ring.stage, sums, step > from);
      hopper::products_commit();
      hopper::products_wait<1>();
      if (step > from) release(before);
      before = ring.stage;
    }
    hopper::products_wait<0>();
    release(before);
  }

  // ---- runs of K

  // Scales of a run's sums, of the rows and columns of a thread: asked for before its products, so that they are there
  // behind them.
  struct NoScales {
    WS_DEVICE NoScales(const typename C::Glue&, Tile, int, int) {}
    WS_DEVICE void add(const float (&run)[C::kTileN / 2], float (&sums)[C::kTileN / 2]) const {
#pragma unroll
      for (int v = 0; v < C::kTileN / 2; ++v) sums[v] += run[v];
    }
  };
  template <class G>
  struct GlueScales {
    using Index = typename G::Index;
    // Columns of a thread that have one.
    static constexpr int kBeside = G::kBesideB == 0 || G::kBesideB > C::kTileN ? C::kTileN : G::kBesideB;
    static constexpr int kColumnScales = kBeside >= 8 ? C::kTileN / kBeside : C::kTileN / 4;
    float rows[2], columns[kColumnScales];
    WS_DEVICE GlueScales(const G& g, Tile tile, int rows_from, int k) {
      const auto inside = [](int at, int end) { return at < end ? at : end - 1; };
      const hopper::Place first = hopper::place(threadIdx.x % 128, 0);
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        rows[r] = G::kBesideA == 0 ? 1 : g.run_a(tile.batch, inside(tile.m + rows_from + first.row + 8 * r, C::kM), k);
      }
#pragma unroll
      for (int c = 0; c < kColumnScales; ++c) {
        const int column = kBeside >= 8 ? c * kBeside : c / 2 * 8 + first.column + c % 2;
        columns[c] = G::kBesideB == 0 ? 1 : g.run_b(tile.batch, inside(tile.n + column, C::kN), k);
      }
    }
    WS_DEVICE void add(const float (&run)[C::kTileN / 2], float (&sums)[C::kTileN / 2]) const {
#pragma unroll
      for (int v = 0; v < C::kTileN / 2; ++v) {
        sums[v] += run[v] * (rows[v / 2 % 2] * columns[kBeside >= 8 ? v / 4 * 8 / kBeside : v / 4 * 2 + v % 2]);
      }
    }
  };
  using Scales = typename Either<C::kScaled, GlueScales<typename C::Glue>, NoScales>::Type;

  // Products of a step, of which runs FROM, FROM + 1 and so on are added up one after the other.
  template <int FROM = 0>
  WS_DEVICE void multiply_runs(const typename C::Glue& g, Tile tile, int group, int step, int stage, float (&sums)[C::kTileN / 2]) {
    constexpr int kCount = kProducts / C::kRunsOfStep;
    float run[C::kTileN / 2];
    const Scales scales(g, tile, group * 64, step * kStepK + FROM * (kStepK / C::kRunsOfStep));
    hopper::products_begin();
    multiply_step<FROM * kCount, kCount>(group, stage, run, false);
    hopper::products_commit();
    hopper::products_wait<0>();
    scales.add(run, sums);
    if constexpr (FROM + 1 < C::kRunsOfStep) multiply_runs<FROM + 1>(g, tile, group, step, stage, sums);
  }

  // ---- A in fp32, and in parts in registers

  static constexpr int kOfThread = kStepK / 4;   // elements of a step of either of a thread's rows
  // A thread's elements of a step of row r or r + 8 (SECOND), as products of registers want them.
  template <int SECOND>
  WS_DEVICE void read_row(int group, int stage, float (&x)[kOfThread]) const {
    const unsigned char* const at = steps + stage * kStepBytes;
    const int lane = threadIdx.x % 32, beside = lane % 4 * 2, row = group * 64 + threadIdx.x % 128 / 32 * 16 + lane / 4 + 8 * SECOND;
#pragma unroll
    for (int i = 0; i < kOfThread; i += 2) {
      const int k = i / 4 * 16 + i % 4 / 2 * 8;   // and `beside` more
      if constexpr (C::kAlongM) {
        const unsigned char* const box = at + row / 32 * kStepK * hopper::kRowBytes + k * hopper::kRowBytes;
#pragma unroll
        for (int j = 0; j < 2; ++j) x[i + j] = *reinterpret_cast<const float*>(box + hopper::swizzled(beside + j, row % 32 * 4));
      } else {
        const unsigned char* const box = at + k / 32 * C::kTileM * hopper::kRowBytes;
        const float2 two = *reinterpret_cast<const float2*>(box + hopper::swizzled(row, k % 32 * 4 + beside * 4));
        x[i] = two.x;
        x[i + 1] = two.y;
      }
    }
  }

  // What a row is multiplied by, and its products by again; whether it is too wide. Four threads have it.
  static WS_DEVICE RowScale scale_of(const float (&x)[kOfThread], bool& wide) {
    float most = largest_of(x), least = fabsf(x[0]);
#pragma unroll
    for (int i = 1; i < kOfThread; ++i) least = fminf(least, fabsf(x[i]));
#pragma unroll
    for (int by = 1; by < 4; by *= 2) most = greater_of(most, shuffle_xor(most, by));
    int lost = 0;
    if (any_of_warp(!(least >= most * kLostBeside))) {
      lost = lost_beside(x, most);
#pragma unroll
      for (int by = 1; by < 4; by *= 2) lost += shuffle_xor(lost, by);
    }
    wide = wide || is_wide(most, lost, kStepK);
    return RowScale(most);
  }

  using Fragments = unsigned[kProducts][4];
  template <int SECOND>
  static WS_DEVICE void split_row(const float (&x)[kOfThread], float up, Fragments& greater, Fragments& lesser) {
#pragma unroll
    for (int i = 0; i < kOfThread; i += 2) {
      const float first = x[i] * up, second = x[i + 1] * up;
      const unsigned both = greater[i / 4][i % 4 + SECOND] = pair_of<f16>(first, second);
      lesser[i / 4][i % 4 + SECOND] = pair_of<f16>(first - first_of<f16>(both), second - second_of<f16>(both));
    }
  }

  static WS_DEVICE void products_had(Fragments& a) {
#pragma unroll
    for (int k = 0; k < kProducts; ++k) {
#pragma unroll
      for (int i = 0; i < 4; ++i) hopper::products_had(a[k][i]);
    }
  }

  // run (+)= a B of a step, with the greater or the lesser part of B.
  WS_DEVICE void multiply_fragments(int stage, const Fragments& a, bool lesser, float (&run)[C::kTileN / 2], bool add) {
    const unsigned char* const at = steps + stage * kStepBytes + kPartsA * kBytesA + lesser * kBytesB;
    const unsigned long long b = hopper::operand(at, hopper::kPatternBytes, C::kAlongN ? kStepK * hopper::kRowBytes : 16);
#pragma unroll
    for (int k = 0; k < kProducts; ++k) {
      hopper::ProductOfRegisters<typename C::Type, C::kTileN, C::kAlongN>::run(run, a[k], b + k * (kAheadB >> 4), add || k > 0);
    }
  }

  // All of a tile's steps, the lesser products first: the next step's rows are made parts of while products are under way.
  WS_DEVICE void multiply_inline(int group, int from, int to, Ring& ring, float (&sums)[C::kTileN / 2], bool (&wide)[2]) {
    if (from >= to) return;
    float run[C::kTileN / 2], back[2];
    Fragments greater, lesser, next;
    hopper::wait(full[ring.stage], ring.parity, "full", ring.stage);
    {
      float x[kOfThread];
      read_row<0>(group, ring.stage, x);
      const RowScale first = scale_of(x, wide[0]);
      split_row<0>(x, first.up, greater, lesser);
      read_row<1>(group, ring.stage, x);
      const RowScale second = scale_of(x, wide[1]);
      split_row<1>(x, second.up, greater, lesser);
      back[0] = first.back, back[1] = second.back;
    }
#pragma unroll 1
    for (int step = from; step < to; ++step) {
      const int stage = ring.stage;
      hopper::products_begin();
      multiply_fragments(stage, lesser, false, run, false);
      hopper::products_commit();
      multiply_fragments(stage, greater, true, run, true);
      multiply_fragments(stage, greater, false, run, true);
      hopper::products_commit();
      ring.next();
      float back_next[2] = {1, 1};
      if (step + 1 < to) {
        float x[kOfThread];
        hopper::wait(full[ring.stage], ring.parity, "full", ring.stage);
        read_row<0>(group, ring.stage, x);
        const RowScale first = scale_of(x, wide[0]);
        hopper::products_wait<1>();   // with the lesser parts
        products_had(lesser);
        split_row<0>(x, first.up, next, lesser);
        read_row<1>(group, ring.stage, x);
        const RowScale second = scale_of(x, wide[1]);
        split_row<1>(x, second.up, next, lesser);
        back_next[0] = first.back, back_next[1] = second.back;
      }
      hopper::products_wait<0>();
      products_had(greater);
      release(stage);
#pragma unroll
      for (int v = 0; v < C::kTileN / 2; ++v) sums[v] += run[v] * back[v / 2 % 2];
#pragma unroll
      for (int k = 0; k < kProducts; ++k) {
#pragma unroll
        for (int i = 0; i < 4; ++i) greater[k][i] = next[k][i];
      }
      back[0] = back_next[0], back[1] = back_next[1];
    }
  }

  // ---- tiles

  // A group of warps: multiplies and finishes one of kGroups of the block's tiles. It waits until the one before it has seen all steps
  // of the tile before: a barrier's phase is known by its parity alone to who is no more than one behind.
  WS_DEVICE void multiply_by_turns(int group, const End& end) {
    float sums[kEach][C::kTileN / 2];
    Ring ring;
    unsigned meeting = 0, parity = group == 0 ? 1 : 0;   // of the phase that ends when it is this group's turn
    int turn = 0;
    Ahead ahead;
    ahead.read(*this, end, rows_at(later_at(first_at(), group), 0), 0);
    for (int at = first_at(); at < kTiles; at = next_at(at), turn = turn + 1 == kGroups ? 0 : turn + 1) {
      const Tile tile = tile_at(at);
      const int to = tile.to();
      if (turn != group) {
        ring.skip(to - tile.from());
        continue;
      }
#pragma unroll
      for (int rows = 0; rows < kEach; ++rows) {
#pragma unroll
        for (int v = 0; v < C::kTileN / 2; ++v) sums[rows][v] = 0;
      }
      hopper::wait(left[group], parity, "turn", group);
      parity ^= 1;
      int before = 0;   // the stage whose products are under way
#pragma unroll 1
      for (int step = tile.from(); step < to; ++step, ring.next()) {
        hopper::wait(full[ring.stage], ring.parity, "full", ring.stage);
        hopper::products_begin();
#pragma unroll
        for (int rows = 0; rows < kEach; ++rows) multiply_step(rows, ring.stage, sums[rows], step > tile.from());
        hopper::products_commit();
        hopper::products_wait<1>();
        if (step > tile.from()) release(before);
        before = ring.stage;
      }
      if (threadIdx.x % 128 == 0) hopper::arrive(left[group + 1 == kGroups ? 0 : group + 1]);
      hopper::products_wait<0>();
      if (tile.from() < to) release(before);
#pragma unroll
      for (int rows = 0; rows < kEach; ++rows) {
        const typename End::Begun begun = end.template begin<C::kTileN>(tile.batch, tile.m + rows * 64, tile.n, threadIdx.x % 128);
        const Tile next = rows + 1 < kEach ? rows_of(tile, rows + 1) : rows_at(later_at(at, kGroups), 0);
        store(group, rows_of(tile, rows), sums[rows], end, begun, meeting, ahead, next);
      }
    }
  }

  // The tile whose steps come next, where tiles are taken; kTiles or more: there are no more.
  WS_DEVICE int next_of_ring(const Ring& ring) const {
    hopper::wait(full[ring.stage], ring.parity, "full", ring.stage);
    return *static_cast<volatile int*>(numbers + ring.stage);
  }

  // The same of tiles that are taken, each group every kGroups'th. (Groups that wait for each other only where stages serve several of
  // them are not quicker.)
  WS_DEVICE void multiply_taken_by_turns(int group, const End& end) {
    if (first_at() >= kTiles) return;
    const int thread = threadIdx.x % 128;
    typename End::Begun begun[kEach];
    const auto begin_rows = [&](Tile tile) {
#pragma unroll
      for (int rows = 0; rows < kEach; ++rows) begun[rows] = end.template begin<C::kTileN>(tile.batch, tile.m + rows * 64, tile.n, thread);
    };
    if constexpr (kShifts) {   // all of a block's tiles are of the same rows, and columns have nothing of their own
      begin_rows(tile_at(first_at()));
      keep_rows(end, reinterpret_cast<float*>(boxes + group * (kBoxBytes + kKeptBytes) + kBoxBytes));   // seen behind the first sync
      hopper::wait(*there, 0, "there", 0);
    }
    Lasting lasting;
    if constexpr (kLasts) lasting = leave_for_all(group, end, begun[0]);
    float sums[kEach][C::kTileN / 2];
    Ring ring;
    ring.skip(group * kSteps);
    unsigned meeting = 0, parity = group == 0 ? 1 : 0;   // of the phase that ends when it is this group's turn
    const auto give_turn = [&] {
      if (thread == 0) hopper::arrive(left[group + 1 == kGroups ? 0 : group + 1]);
    };
    for (;; ring.skip((kGroups - 1) * kSteps), parity ^= 1) {
      hopper::wait(left[group], parity, "turn", group);
      const int at = next_of_ring(ring);
      if (at >= kTiles) break;
      const Tile tile = tile_at(at);
      Ahead ahead;
      ahead.read(*this, end, tile, 0);
#pragma unroll
      for (int rows = 0; rows < kEach; ++rows) {
#pragma unroll
        for (int v = 0; v < C::kTileN / 2; ++v) sums[rows][v] = 0;
      }
      int before = 0;   // the stage whose products are under way
#pragma unroll 1
      for (int step = 0; step < kSteps; ++step, ring.next()) {
        if (step > 0) hopper::wait(full[ring.stage], ring.parity, "full", ring.stage);
        if constexpr (kShifts && C::kRun > 0) {
          multiply_unit_runs(step, ring.stage, sums[0]);
          release(ring.stage);
          continue;
        }
        hopper::products_begin();
#pragma unroll
        for (int rows = 0; rows < kEach; ++rows) {
          if constexpr (kShifts) multiply_units<0, Window::kUnits>(rows, step, ring.stage, sums[rows], step > 0);
          else multiply_step(rows, ring.stage, sums[rows], step > 0);
        }
        hopper::products_commit();
        hopper::products_wait<1>();
        if (step > 0) release(before);
        before = ring.stage;
      }
      give_turn();
      hopper::products_wait<0>();
      if (!kShifts || C::kRun == 0) release(before);
      if constexpr (!kShifts) begin_rows(tile);
#pragma unroll
      for (int rows = 0; rows < kEach; ++rows) {
        // Which tile comes next is not known yet.
        const Tile next = rows + 1 < kEach ? rows_of(tile, rows + 1) : rows_at(kTiles, 0);
        store(group, rows_of(tile, rows), sums[rows], end, begun[rows], meeting, ahead, next, lasting);
      }
    }
    // When all of the group have seen that there are no more, one lets the others' tiles come.
    hopper::group_sync(1 + group, 128);
    if (thread != 0) return;
#pragma unroll 1
    for (int step = 0; step < kSteps; ++step, ring.next()) {
      hopper::wait(full[ring.stage], ring.parity, "full", ring.stage);
      release(ring.stage);
    }
    give_turn();
  }

  // A group of warps: multiplies and finishes its rows of all of the block's tiles.
  WS_DEVICE void multiply(int group, const typename C::Glue& g, const End& end) {
    float sums[C::kTileN / 2];
    Ring ring;
    unsigned meeting = 0;   // parity of the next one's phase
    Ahead ahead;
    if constexpr (!kTaken) ahead.read(*this, end, rows_at(first_at(), group), 0);
    for (int at = first_at(); at < kTiles; at = next_at(at)) {
      if constexpr (kTaken) {
        at = next_of_ring(ring);
        if (at >= kTiles) break;
        ahead.read(*this, end, rows_at(at, group), 0);
      }
      const Tile tile = tile_at(at);
      const int to = tile.to();
      typename End::Begun begun = end.template begin<C::kTileN>(tile.batch, tile.m + group * 64, tile.n, threadIdx.x % 128);
      // Also what the first product overwrites: a branch round it costs registers.
#pragma unroll
      for (int v = 0; v < C::kTileN / 2; ++v) sums[v] = 0;
      if constexpr (C::kInline) {
        multiply_inline(group, tile.from(), to, ring, sums, begun.wide);
      } else if constexpr (C::kRun == 0) {
        if (tile.from() < to) multiply_steps(group, tile.from(), to, ring, sums);
      } else if constexpr (C::kRunsOfStep > 1) {
#pragma unroll 1
        for (int step = tile.from(); step < to; ++step, ring.next()) {
          hopper::wait(full[ring.stage], ring.parity, "full", ring.stage);
          multiply_runs(g, tile, group, step, ring.stage, sums);
          release(ring.stage);
        }
      } else {
        float run[C::kTileN / 2];
#pragma unroll 1
        for (int step = tile.from(); step < to; step += C::kRun) {
          const Scales scales(g, tile, group * 64, step * kStepK);
          multiply_steps(group, step, step + C::kRun < to ? step + C::kRun : to, ring, run);
          scales.add(run, sums);
        }
      }
      store(group, rows_of(tile, group), sums, end, begun, meeting, ahead, rows_at(kTaken ? kTiles : next_at(at), group));
    }
  }

  WS_DEVICE void release(int stage) {
    constexpr int kThreads = 128 / kReleases;
    if constexpr (kReleases > 1) sync_warp();   // all of it have read
    if constexpr (C::kCluster == 1) {
      if (threadIdx.x % kThreads == 0) hopper::arrive(empty[stage]);
    } else {
      if (threadIdx.x % kThreads < C::kCluster) hopper::arrive_at(empty[stage], threadIdx.x % kThreads);
    }
  }

  // Where element (row, column) of a box is: rows that a warp writes at once meet different banks, and halves of two rows, too.
  static WS_DEVICE constexpr int place_in_box(int row, int column) {
    if (C::kTurned) return column * 64 + (row ^ (column / 2 % 4 * 8));
    constexpr int kRowsOfBanks = kColumns < 32 ? 32 / kColumns : 1, kTurns = kColumns < 32 ? kColumns / 8 : 4;
    const int turn = row / kRowsOfBanks % kTurns;
    return row * kColumns + (column ^ (kTurns == 4 ? turn % 2 * 16 + turn / 2 * 8 : turn * 8));
  }

  static constexpr bool kTotals = End::kDown || End::kAcross;   // what is finished is summed
  // What a thread finishes of a box of kBoxColumns of a group's rows: neighbours in a line (a row, turned: a column) that `end`
  // takes kWidth of, a line's threads being neighbours; where blocks meet, its part of them. The thread's are at the same place
  // of lines that are kApart from each other, kOwn of them, so that what belongs to the place is had once.
  template <bool MEET>
  struct Own {
    static constexpr int kInLine = (C::kTurned ? 64 : kBoxColumns) / End::kWidth, kLines = C::kTurned ? kColumns : 64 / End::kRowsAtOnce;
    static constexpr int kThreads = MEET ? 128 * kMeeting : 128;
    static constexpr bool kEven = kInLine * kLines % kThreads == 0 && kThreads % kInLine == 0;
    // Threads beside each other have lines of which what is written lies side by side, where each has one column of them: of two,
    // a store would have half of what lies there.
    static constexpr bool kPaired = C::Glue::kRowPairs && End::kRowsAtOnce == 1 && End::kWidth == 1 && !C::kTurned && !End::kDown && !End::kAcross && kEven && kThreads / kInLine % 2 == 0;
    static constexpr int kApart = kEven ? kThreads / kInLine : 1, kOwn = kEven ? kLines / kApart : 0;
    // Lines of which it reads what they have of their own before sums are there, as many as it has registers for.
    static constexpr int kFree = (kRegistersMultiplying < 232 ? kRegistersMultiplying : 232) - kEach * C::kTileN / 2 - 72, kSpare = kFree < 32 ? kFree : 32;
    static constexpr int kFit = kRawOwn > 0 && kSpare > 0 ? kSpare / (kRawOwn > 0 ? kRawOwn : 1) : 0;
    static constexpr int kAhead = kFit >= kOwn ? kOwn : kFit >= 4 && kOwn % 4 == 0 ? 4 : 0;
    int first, line, at;
    WS_DEVICE Own() {
      first = (MEET ? cluster_rank() * 128 : 0) + threadIdx.x % 128;
      line = kPaired ? first / 2 / kInLine * 2 + first % 2 : first / kInLine;
      at = (kPaired ? first / 2 : first) % kInLine * End::kWidth;
    }
    // Lines of the box that are of the result, and whether a place of them is.
    static WS_DEVICE int inside(Tile tile, int first_column) {
      const int lines = C::kTurned ? C::kN - tile.n - first_column : (C::kM - tile.m) / End::kRowsAtOnce;
      return lines < kLines ? lines : kLines;
    }
    static WS_DEVICE bool is_inside(Tile tile, int first_column, int at) {
      return C::kTurned ? tile.m + at < C::kM : first_column + at < kTileColumns && column_of(tile, first_column + at) >= 0;
    }
  };
  template <bool MEET>
  struct Raws { typename End::Raw of[Own<MEET>::kAhead > 0 ? Own<MEET>::kAhead : 1]; };
  // Where there are registers for it all lines of a box are read while the one before it is finished, of the next tile's too.
  static constexpr int kRaws = Own<false>::kOwn * kRawOwn, kRegistersFree = kRegistersMultiplying - 72;
  static constexpr bool kBoxAhead = !kMeets && !C::kInline && kRaws > 0 && Own<false>::kAhead == Own<false>::kOwn &&
                                    kEach * C::kTileN / 2 * (C::kRun > 0 ? 2 : 1) + kRaws <= kRegistersFree &&
                                    kEach * C::kTileN / 2 + 2 * kRaws <= kRegistersFree;
  struct Nothing {
    WS_DEVICE void read(const Contract&, const End&, Tile, int) {}
  };
  struct Box {
    Raws<false> raws;
    WS_DEVICE void read(const Contract& contract, const End& end, Tile tile, int first_column) {
      contract.read_ahead<false>(end, tile, first_column, 0, raws);
    }
  };
  using Ahead = typename Either<kBoxAhead, Box, Nothing>::Type;   // what has been read of the box that is finished next

  static WS_DEVICE void read_end(const End& end, Tile tile, int first_column, int line, int at, typename End::Raw& raw) {
    const int column = first_column + (C::kTurned ? line : at);
    if constexpr (kKeepsRows) {
      if constexpr (kRawOwn > 0) end.read_own(tile.batch, tile.m + line * End::kRowsAtOnce, column_of(tile, column), raw);
    } else {
      end.read(tile.batch, tile.m + (C::kTurned ? at : line * End::kRowsAtOnce), kShifts ? column_of(tile, column) : tile.n + column, raw);
    }
  }
  // What rows of a block's tiles have of their own, behind what the group's end keeps: put there, and of a tile's row with the rest.
  WS_DEVICE void keep_rows(const End& end, float* kept) const {
    if constexpr (kKeepsRows) {
      auto* const rows = reinterpret_cast<typename End::RawRow*>(kept + kKeptOfTile / sizeof(float));
      static_assert(sizeof(*rows) <= End::kRawRow * 4, "words");
      const int m = tile_at(first_at()).m;
      for (int line = threadIdx.x % 128; line < C::kTileM / End::kRowsAtOnce; line += 128) {
        if (m + line * End::kRowsAtOnce < C::kM) end.read_row(0, m + line * End::kRowsAtOnce, rows[line]);
      }
    }
  }
  static WS_DEVICE typename End::Raw with_row(const float* kept, Tile tile, int row, const typename End::Raw& raw) {
    typename End::Raw all = raw;
    if constexpr (kKeepsRows)
      static_cast<typename End::RawRow&>(all) = reinterpret_cast<const typename End::RawRow*>(kept + kKeptOfTile / sizeof(float))[(tile.m % C::kTileM + row) / End::kRowsAtOnce];
    return all;
  }
  // What is left of a tile's rows and columns is that of all tiles, where these are of the same 64 rows; where there are registers for
  // it, each thread has there what its lines have in common.
  static constexpr bool kLasts = kShifts && kEach == 1;
  static constexpr int kHeldWords = kRawOwn == 0 ? Own<false>::kOwn * (End::kOfRow + (kKeepsRows ? End::kRawRow : 0)) : 0;
  static constexpr bool kHolds = kLasts && kHeldWords > 0 && kHeldWords <= 48 &&
                                 kRegistersMultiplying - 72 - C::kTileN / 2 * (C::kRun > 0 ? 2 : 1) >= kHeldWords;
  struct Lasting {
    bool look = false;
    typename End::OfRow of[kHolds ? Own<false>::kOwn : 1];
    typename End::RawRow raw[kHolds ? Own<false>::kOwn : 1];
  };
  WS_DEVICE Lasting leave_for_all(int group, const End& end, const typename End::Begun& begun) const {
    float* const kept = reinterpret_cast<float*>(boxes + group * (kBoxBytes + kKeptBytes) + kBoxBytes);
    Lasting lasting;
    const bool look = end.template leave<C::kTileN>(begun, kept, threadIdx.x % 128);
    if (End::kLooks) lasting.look = hopper::group_any(1 + group, 128, look); else hopper::group_sync(1 + group, 128);
    if constexpr (kHolds) {
      const Own<false> own;
#pragma unroll
      for (int i = 0; i < Own<false>::kOwn; ++i) {
        const int line = own.line + i * Own<false>::kApart;
        lasting.of[i] = end.of_row(kept, line * End::kRowsAtOnce, 0);
        if constexpr (kKeepsRows) lasting.raw[i] = reinterpret_cast<const typename End::RawRow*>(kept + kKeptOfTile / sizeof(float))[line];
      }
    }
    return lasting;
  }
  // Reads for the thread's lines from number `from` on; instead of those that are not of the result its first one again.
  template <bool MEET>
  WS_DEVICE void read_ahead(const End& end, Tile tile, int first_column, int from, Raws<MEET>& raws) const {
    using O = Own<MEET>;
    if constexpr (O::kAhead > 0) {
      const O own;
      const int lines = O::inside(tile, first_column);
      if (own.line >= lines || !O::is_inside(tile, first_column, own.at)) return;
#pragma unroll
      for (int i = 0; i < O::kAhead; ++i) {
        const int line = own.line + (from + i) * O::kApart;
        read_end(end, tile, first_column, line < lines ? line : own.line, own.at, raws.of[i]);
      }
    }
  }

  // LOOK: at each, whether the end leaves it out. Without, `raws` are what was read ahead for the thread's first lines.
  template <bool LOOK, bool MEET>
  WS_DEVICE void finish_box(float* box, const float* kept, Tile tile, int first_column, const End& end, Raws<MEET>& raws,
                            const Lasting& lasting) {
    using O = Own<MEET>;
    constexpr int W = End::kWidth;
    const O own;
    const int lines = O::inside(tile, first_column);
    const auto place = [&](int at) { return end.template place<W>(kept, C::kTurned ? at : first_column + at); };
    const auto finish = [&](int line, int at, const typename End::OfRow& of, const typename End::template Place<W>& place, const typename End::Raw& raw) {
      const int row = C::kTurned ? at : line * End::kRowsAtOnce, column = C::kTurned ? line : at;
      const int n = kShifts ? column_of(tile, first_column + column) : tile.n + first_column + column;
      static_assert(End::kRowsAtOnce == 1 || (kOf == 1 && W == 1), "of one product, a column");
      float done[kOf * End::kRowsAtOnce * W];
#pragma unroll
      for (int of = 0; of < kOf * End::kRowsAtOnce; ++of) {
        const int at_sums = End::kRowsAtOnce > 1 ? place_in_box(row + of, column) : place_in_box(row, column + of * kBoxColumns);
        float parts[MEET ? kMeeting : 1][W];
        if constexpr (MEET) {
#pragma unroll
          for (int rank = 0; rank < kMeeting; ++rank) load<W, float, 0>(peer(box, rank) + at_sums, parts[rank]);
        } else {
          load<W, float, 0>(box + at_sums, parts[0]);
        }
#pragma unroll
        for (int v = 0; v < W; ++v) {
          done[of * W + v] = parts[0][v];
#pragma unroll
          for (int rank = 1; MEET && rank < kMeeting; ++rank) done[of * W + v] += parts[rank][v];
        }
      }
      end.template finish<W, LOOK>(of, place, tile.batch, tile.m + row, n, tile.part, raw, done);
    };
    const auto of_row = [&](int line, int at) {
      return end.of_row(kept, C::kTurned ? at : line * End::kRowsAtOnce, first_column + (C::kTurned ? line : at));
    };
    const auto finish_read = [&](int line, int at, const typename End::template Place<W>& place, const typename End::Raw& raw) {
      finish(line, at, of_row(line, at), place, with_row(kept, tile, line * End::kRowsAtOnce, raw));
    };
    const auto read_and_finish = [&](int line, int at, const typename End::template Place<W>& place) {
      typename End::Raw raw;
      read_end(end, tile, first_column, line, at, raw);
      finish_read(line, at, place, raw);
    };
    if constexpr (LOOK || !O::kEven) {
#pragma unroll 1
      for (int vector = own.first; vector < O::kInLine * O::kLines; vector += O::kThreads) {
        const int line = vector / O::kInLine, at = vector % O::kInLine * W;
        if (line < lines && O::is_inside(tile, first_column, at)) read_and_finish(line, at, place(at));
      }
      return;
    }
    if (!O::is_inside(tile, first_column, own.at)) return;
    const typename End::template Place<W> all = place(own.at);
    if constexpr (kHolds && !MEET) {
#pragma unroll
      for (int i = 0; i < O::kOwn; ++i) {
        const int line = own.line + i * O::kApart;
        typename End::Raw raw;
        static_cast<typename End::RawRow&>(raw) = lasting.raw[i];
        if (line < lines) finish(line, own.at, lasting.of[i], all, raw);
      }
    } else if constexpr (O::kAhead > 0) {
#pragma unroll 1
      for (int from = 0; from < O::kOwn; from += O::kAhead) {
        if (O::kAhead < O::kOwn && from > 0) read_ahead<MEET>(end, tile, first_column, from, raws);
        if (lines == O::kLines) {   // without a branch at each
#pragma unroll
          for (int i = 0; i < O::kAhead; ++i) finish_read(own.line + (from + i) * O::kApart, own.at, all, raws.of[i]);
        } else {
#pragma unroll
          for (int i = 0; i < O::kAhead; ++i) {
            const int line = own.line + (from + i) * O::kApart;
            if (line < lines) finish_read(line, own.at, all, raws.of[i]);
          }
        }
      }
    } else {
      // Together, so that what several of them read is on its way at once; where there are registers for it.
      constexpr int kTogether = kOf == 1 ? 4 : O::kFree > 0 ? 2 : 1;
      if (lines == O::kLines) {
#pragma unroll kTogether
        for (int i = 0; i < O::kOwn; ++i) read_and_finish(own.line + i * O::kApart, own.at, all);
      } else {
#pragma unroll 2
        for (int line = own.line; line < lines; line += O::kApart) read_and_finish(line, own.at, all);
      }
    }
  }
  template <bool MEET>
  WS_DEVICE void finish_box(bool look, float* box, const float* kept, Tile tile, int first_column, const End& end, Raws<MEET>& raws,
                            const Lasting& lasting) {
    if constexpr (End::kLooks) {
      if (look) return finish_box<true, MEET>(box, kept, tile, first_column, end, raws, lasting);
    }
    finish_box<false, MEET>(box, kept, tile, first_column, end, raws, lasting);
  }

  // ---- sums of what is finished: of 64 rows of a column; and of a row those of a tile's columns that are in the first or the
  // second half of their box

  static_assert(!kTotals || (kOf == 1 && End::kRowsAtOnce == 1 && !kShifts && !C::kTurned && !kMeets && C::kSplit == 1), "sums of what a block finishes alone");
  static constexpr int kAcrossColumns = kColumns < 32 ? kColumns : 32;   // those of neighbouring threads of a warp
  static constexpr int kOwn = kTotals ? Own<false>::kOwn : 1;
  static constexpr int kTogether = Own<false>::kAhead > 0 && kTotals ? Own<false>::kAhead : kOwn < 4 ? kOwn : 4;
  // What a thread adds up: columns of a box, and rows of a tile.
  struct Totals { float down[End::kWidth], across[kOwn / kTogether]; };
  // Sums of each of LINES lines of which THREADS neighbours have a part each: another of them gets the sum of another line, in
  // sums[0]; where there are more threads than lines several have the same. Which line that is.
  template <int LINES, int THREADS>
  static WS_DEVICE void add_up_lines(float (&sums)[LINES]) {
    static_assert(THREADS >= LINES && (LINES & (LINES - 1)) == 0, "a line has a thread");
#pragma unroll
    for (int by = THREADS / 2, half = LINES / 2; by > 0; by /= 2, half /= 2) {
      if (half == 0) {
        sums[0] += shuffle_xor(sums[0], by);
        continue;
      }
      const bool upper = (threadIdx.x & by) != 0;
#pragma unroll
      for (int i = 0; i < half; ++i) {
        const float first = sums[i], second = sums[i + half];   // or the choice would be one of addresses
        sums[i] = (upper ? second : first) + shuffle_xor(upper ? first : second, by);
      }
    }
  }
  template <int LINES, int THREADS>
  static WS_DEVICE int line_of() {
    return threadIdx.x % THREADS / (THREADS / LINES);
  }

  // A thread's lines of a box, and what they add to sums; WHOLE: all of the box is of the result.
  template <bool WHOLE>
  WS_DEVICE void finish_lines(const float* box, Tile tile, int first_column, const End& end, Raws<false>& raws, Totals& totals) const {
    using O = Own<false>;
    constexpr int W = End::kWidth;
    const O own;
    const int lines = O::inside(tile, first_column), n = tile.n + first_column + own.at;
    const auto is_inside = [&](int line) { return WHOLE || (line < lines && O::is_inside(tile, first_column, own.at)); };
#pragma unroll
    for (int from = 0; from < O::kOwn; from += kTogether) {
      if (O::kAhead > 0 && O::kAhead < O::kOwn && from > 0) read_ahead<false>(end, tile, first_column, from, raws);
      float across[kTogether];
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        const int line = own.line + (from + i) * O::kApart;
        float sums[W], value[W] = {};
        load<W, float, 0>(box + place_in_box(line, own.at), sums);
        if constexpr (O::kAhead > 0) {
          if (is_inside(line)) end.template finish<W>(tile.batch, tile.m + line, n, raws.of[i], sums, value);
        } else if (is_inside(line)) {
          typename End::Raw raw;
          read_end(end, tile, first_column, line, own.at, raw);
          end.template finish<W>(tile.batch, tile.m + line, n, raw, sums, value);
        }
        across[i] = 0;
#pragma unroll
        for (int v = 0; v < W; ++v) totals.down[v] += value[v], across[i] += value[v];
      }
      if constexpr (End::kAcross) {
        add_up_lines<kTogether, kAcrossColumns / W>(across);
        totals.across[from / kTogether] += across[0];
      }
    }
  }

  // Finishes a box, as finish_box does, and leaves its sums; those across when the tile's last box is finished.
  WS_DEVICE void finish_and_total(int group, float* box, Tile tile, int first_column, const End& end, Raws<false>& raws,
                                  Totals& totals) const {
    using O = Own<false>;
    constexpr int W = End::kWidth, kThreads = kAcrossColumns / W;
    static_assert(!kTotals || (O::kEven && kAcrossColumns % W == 0), "threads have places of their own");
#pragma unroll
    for (int v = 0; v < W; ++v) totals.down[v] = 0;
#pragma unroll
    for (int i = 0; i < kOwn / kTogether; ++i) totals.across[i] = first_column == 0 ? 0 : totals.across[i];
    if (O::inside(tile, first_column) == O::kLines && tile.n + first_column + kBoxColumns <= C::kN) {
      finish_lines<true>(box, tile, first_column, end, raws, totals);
    } else {
      finish_lines<false>(box, tile, first_column, end, raws, totals);
    }
    const O own;
    const int thread = threadIdx.x % 128, lines = O::inside(tile, first_column);
    if constexpr (End::kAcross) {
      constexpr int kHalves = kColumns / kAcrossColumns, kParts = kTilesN * kHalves;
      float* const left = end.left.across + ((long long)(tile.batch) * kParts + tile.n / kTileColumns * kHalves + own.at / kAcrossColumns) * C::kM;
      const bool leaves = first_column + kBoxColumns == kTileColumns && threadIdx.x % (kThreads / kTogether) == 0;
#pragma unroll
      for (int from = 0; from < O::kOwn; from += kTogether) {
        const int line = own.line + (from + line_of<kTogether, kThreads>()) * O::kApart;
        if (leaves && line < lines) left[tile.m + line] = totals.across[from / kTogether];
      }
    }
    if constexpr (End::kDown) {
      constexpr int kParts = (C::kM + 63) / 64;
      ws::store<W, float, 0>(box + place_in_box(own.line, own.at), totals.down);   // where it read its first line
      hopper::group_sync(1 + group, 128);
      const int column = tile.n + first_column + thread;
      if (thread >= kColumns || column >= C::kN) return;
      float sum = 0;
#pragma unroll
      for (int line = 0; line < O::kApart; ++line) sum += box[place_in_box(line, thread)];
      end.left.down[((long long)(tile.batch) * kParts + tile.m / 64) * C::kN + column] = sum;
    }
  }

  static constexpr int kChunk = kBoxColumns / 2;   // of a thread's sums of a product, those in a box
  // The thread's sums of the box's columns, of which those of the (first) product begin with `first`.
  static WS_DEVICE void fill_box(float* box, int thread, int first, const float (&sums)[C::kTileN / 2]) {
#pragma unroll
    for (int j = 0; j < kColumns / 4; ++j) {
      const hopper::Place place = hopper::place(thread, 2 * j);
      const int from = first + 2 * j / kChunk * (kTileColumns / 2) + 2 * j % kChunk;
      if constexpr (C::kTurned) {
        box[place_in_box(place.row, place.column)] = sums[from];
        box[place_in_box(place.row, place.column + 1)] = sums[from + 1];
      } else {
        // Of a tile's last box behind its columns there are none, and nobody reads them.
        if (from < C::kTileN / 2) hopper::store_pair(box + place_in_box(place.row, place.column), sums[from], sums[from + 1]);
      }
    }
  }

  // Finishes the 64 rows from the tile's first on by way of the group's shared memory, kBoxColumns at a time; `next` is what the
  // group finishes behind them.
  template <bool MEET>
  WS_DEVICE void store_rows(int group, Tile tile, float (&sums)[C::kTileN / 2], const End& end,
                       const typename End::Begun& begun, unsigned& meeting, Ahead& ahead, Tile next, const Lasting& lasting) {
    const int thread = threadIdx.x % 128;
    float* const box = reinterpret_cast<float*>(boxes + group * (kBoxBytes + kKeptBytes));
    float* const kept = box + kBoxBytes / sizeof(float);
    bool look = lasting.look;
    Totals totals;
    // Written once, whatever an end is: sums that are left move to where the first ones were.
#pragma unroll 1
    for (int c = 0; c < kEndBoxes; ++c) {
      Raws<MEET> raws;
      if constexpr (!kBoxAhead) read_ahead<MEET>(end, tile, c * kBoxColumns, 0, raws);
      hopper::group_sync(1 + group, 128);   // the box has been read
      if constexpr (MEET) hopper::wait_for_blocks(read[group], meeting ^ 1, "read", group);
      if (!kLasts && c == 0) look = end.template leave<C::kTileN>(begun, kept, thread);
      fill_box(box, thread, 0, sums);
#pragma unroll
      for (int v = 0; v + kChunk < C::kTileN / 2; ++v) sums[v] = sums[v + kChunk];
      if (!kLasts && End::kLooks && c == 0) look = hopper::group_any(1 + group, 128, look); else hopper::group_sync(1 + group, 128);
      if constexpr (MEET) {
        if (thread < kMeeting) hopper::tell(left[group], thread);
        hopper::wait_for_blocks(left[group], meeting, "left", group);
      }
      if constexpr (kBoxAhead) {
        raws = ahead.raws;
        const bool last = c + 1 == kEndBoxes;
        ahead.read(*this, end, last ? next : tile, last ? 0 : (c + 1) * kBoxColumns);
      }
      if constexpr (kTotals) finish_and_total(group, box, tile, c * kBoxColumns, end, raws, totals);
      else finish_box<MEET>(look, box, kept, tile, c * kBoxColumns, end, raws, lasting);
      if constexpr (MEET) {
        hopper::group_sync(1 + group, 128);   // all of the group have read
        if (thread < kMeeting) hopper::tell(read[group], thread);
        meeting ^= 1;
      }
    }
  }

  // The same of the last tile of blocks that meet, where its boxes fit what steps had: all of them at once, since to meet takes
  // some 2.5 us (of an H200) whatever there is to read.
  static constexpr bool kOnce = kMeets && C::kLast && kGroups * kEndBoxes * kBoxBytes <= C::kStages * kStepBytes;
  WS_DEVICE void store_at_once(int group, Tile tile, float (&sums)[C::kTileN / 2], const End& end, const typename End::Begun& begun) {
    constexpr int kBox = kBoxBytes / sizeof(float);
    const int thread = threadIdx.x % 128;
    float* const box = reinterpret_cast<float*>(steps) + group * kEndBoxes * kBox;
    float* const kept = reinterpret_cast<float*>(boxes + group * (kBoxBytes + kKeptBytes)) + kBox;
    hopper::group_sync(1 + kGroups, 128 * kGroups);   // all have multiplied what was there
    bool look = end.template leave<C::kTileN>(begun, kept, thread);
#pragma unroll
    for (int c = 0; c < kEndBoxes; ++c) fill_box(box + c * kBox, thread, c * kChunk, sums);
    if constexpr (End::kLooks) look = hopper::group_any(1 + group, 128, look); else hopper::group_sync(1 + group, 128);
    if (thread < kMeeting) hopper::tell(left[group], thread);
    hopper::wait_for_blocks(left[group], 0, "left", group);
#pragma unroll 1
    for (int c = 0; c < kEndBoxes; ++c) {
      Raws<true> raws;
      read_ahead<true>(end, tile, c * kBoxColumns, 0, raws);
      finish_box<true>(look, box + c * kBox, kept, tile, c * kBoxColumns, end, raws, {});
    }
  }

  WS_DEVICE void store(int group, Tile tile, float (&sums)[C::kTileN / 2], const End& end, const typename End::Begun& begun,
                       unsigned& meeting, Ahead& ahead, Tile next, const Lasting& lasting = {}) {
    if constexpr (C::kTail > 1) {
      if (!tile.shared) return store_rows<false>(group, tile, sums, end, begun, meeting, ahead, next, lasting);
    }
    if constexpr (kOnce) store_at_once(group, tile, sums, end, begun);
    else store_rows<kMeets>(group, tile, sums, end, begun, meeting, ahead, next, lasting);
  }

  // All threads of the block. A: what brings the operands of all tiles, of one thread; of shifts, of a warp.
  template <class A>
  WS_DEVICE void run(const A& bring, const typename C::Glue& g, const End& end) {
    begin();
    const int group = shuffle(static_cast<int>(threadIdx.x / 128), 0);   // so the compiler sees one for a warp
    if (group == kGroups) {
      if constexpr (kGroups > 1) hopper::give_registers<kRegistersBringing>();
      if (threadIdx.x % 128 < (kShifts ? 32 : 1)) bring();
    } else {
      if constexpr (kGroups > 1) hopper::take_registers<kRegistersMultiplying>();
      if constexpr (C::kTurns && kTaken) multiply_taken_by_turns(group, end);
      else if constexpr (C::kTurns) multiply_by_turns(group, end);
      else multiply(group, g, end);
    }
    if constexpr (kOfCluster > 1) sync_cluster();   // others may still need what is here
  }
  WS_DEVICE void run(const hopper::Map& a, const hopper::Map& b, const hopper::Map& behind, const typename C::Glue& g,
                     const End& end, int* order = nullptr) {
    run([&] { bring(a, b, behind, order); }, g, end);
  }
};

// ---- with their ends (contract_ends.cuh)

template <class C, class G>
WS_DEVICE void contract_inline(const Scaled<G, false>& g, const hopper::Map& a, const hopper::Map& b, float* rows, int* any,
                               float* partial) {
  using End = InlineSums<G, C::kTurned, (C::kSplit > 1)>;
  Contract<C, End>().run(a, b, a, g, End(g, rows, any, partial));
}

template <class C, class G>
WS_DEVICE void contract(const G& g, const hopper::Map& a, const hopper::Map& b, const hopper::Map& behind, float* partial,
                        EndTotals left = {nullptr, nullptr}) {
  if constexpr (C::kSplit > 1 && !C::kMeet) {
    Contract<C, PartialSums<G>>().run(a, b, behind, g, PartialSums<G>(partial));
  } else {
    Contract<C, WholeSums<G>>().run(a, b, behind, g, WholeSums<G>(g, left));
  }
}

// Of windows that take tiles: with `order`, a word that is zero before.
template <class C, class G>
WS_DEVICE void contract_windows(const G& g, const hopper::Map& a, const hopper::Map& b, EndTotals left, int* order) {
  Contract<C, WholeSums<G>>().run(a, b, a, g, WholeSums<G>(g, left), order);
}

// Of shifts: the packed operands (contract_shifts.cuh), and `order`, a word of each row of tiles that is zero before.
template <class C, class G>
WS_DEVICE void contract_shifts(const G& g, const void* a, const void* b, int* order) {
  Contract<C, WholeSums<G>> all;
  all.run([&] { all.bring_shifts(a, b, order); }, g, WholeSums<G>(g, {nullptr, nullptr}));
}

}  // namespace ws
