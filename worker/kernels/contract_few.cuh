// Skeleton contract by blocks that have few rows of one operand: Y[b, m, n] = finish(sum of k: A[b, m, k] B[b, n, k]) of 16-bit or
// fp32 operands on tensor cores, in one kernel that reads the other operand, `many`, once, from memory into registers.
//
// A block of eight warps has kTile rows of `many` and a piece of `few`, all of its rows where they are few. Warps have 16 * kBlocks of those rows each and
// share their K, kStep at a time in turn (slices). Which k has which place in a fragment is the same for both operands,
// and so that a thread's elements lie side by side in memory.
//
// Where both operands lie along K in 16 bits (kDirect), the words of a thread in memory are its words of the fragments:
// it reads those of a step, of both, before it multiplies (mma, 16 x 8 x 16) those of the step before. Else elements are
// whatever maps before the product make of them. Each thread reads what its elements of a step of `many` are made of,
// kAhead steps before it multiplies them; without, registers are for more blocks that wait for the memory at once. Those of `few`
// go to shared memory as the fragments that all warps of a slice multiply.
//
// fp32: an operand's elements of a row and a step are two fp16 parts, times the power of two that brings the largest
// of them near fp16's; three of four products are taken, the lesser first, and added up in fp32 with what they were
// divided by, a step at a time (Ootomo and Yokota, Recovering single precision accuracy from Tensor Cores, 2022).
// Rows of which a step is too wide for that (more than one of sixteen elements keeps fewer than 20 digits) are multiplied by
// ordinary instructions instead, at the end, with rows that are not dense, and rows that have infinities or NaN with all
// (contract_pack.cuh, RowKind; contract_wide.cuh).
//
// fp32 of at most 16 rows of `few`: by ordinary instructions, a multiply-add for each product, which is less than
// making parts of an element takes. A thread adds up its elements' products with all rows of `few`, which lie in shared
// memory as fp32; the four threads that share a row meet behind the last step.
//
// Scaled: a step's sums are multiplied by the glue's run_a(b, m, k) and run_b(b, n, k) of its first k where they are added up.
#pragma once

#include <warpsmith/contract_wide.cuh>

namespace ws {

// sums += A B by a warp: A 16 x 16 (rows lane / 4 and 8 more; k 2 (lane % 4), 1 more, 8 and 9 more), B 16 x 8 (column
// lane / 4, likewise), sums 16 x 8 (rows as A's, columns 2 (lane % 4) and 1 more). PTX ISA, mma.m16n8k16.
template <class T>
WS_DEVICE void multiply_fragments(float (&sums)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
#ifndef WS_HOST
  if constexpr (T::kBrain) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
#else
  const int lane = thread() % 32;
  for (int t = 0; t < 4; ++t) {
    unsigned of_a[4];
    for (int i = 0; i < 4; ++i) of_a[i] = shuffle(a[i], lane / 4 * 4 + t);
    for (int c = 0; c < 2; ++c) {
      const int from = (lane % 4 * 2 + c) * 4 + t;
      const unsigned of_b[2] = {shuffle(b0, from), shuffle(b1, from)};
      for (int i = 0; i < 4; ++i) {
        float& sum = sums[i % 2 * 2 + c];   // of row lane / 4, or 8 more
        sum += first_of<typename T::Bits>(of_a[i]) * first_of<typename T::Bits>(of_b[i / 2]);
        sum += second_of<typename T::Bits>(of_a[i]) * second_of<typename T::Bits>(of_b[i / 2]);
      }
    }
  }
#endif
}
struct FewFp16 {
  using Bits = f16;
  static constexpr bool kBrain = false;
};
struct FewBf16 {
  using Bits = bf16;
  static constexpr bool kBrain = true;
};

// Elements of 16 bits that lie along K: of the buffer before the first, from a batch to the next, from a row to the
// next; multiples of eight.
template <long long OFFSET, long long BATCH, long long ROW>
struct Lines {
  static constexpr bool kThere = true;
  static constexpr long long kRow = ROW;
  static WS_DEVICE const unsigned* row(const void* buffer, long long batch, long long row) {
    return static_cast<const unsigned*>(buffer) + (OFFSET + batch * BATCH + row * ROW) / 2;
  }
};
// TYPE: FewFp16 or FewBf16, of the parts (PARTS 1 or 2; 0: fp32 by ordinary instructions). MANY_M: `many` is A. TILE: its rows of a
// block. PIECE: rows of `few` of a block, all of them or a multiple of eight. BLOCKS: of 16 of them, a warp's. STEP: 32, 64 or 128. AHEAD: so many steps are read before the one
// before them is multiplied; 0: none. SPLIT blocks share K: those of a cluster (MEET), each of which finishes a
// part of the tile, or they leave their sums [SPLIT][batch][M][N]. MANY_LINES, FEW_LINES: where the
// operands lie, if threads read words of them.
template <class TYPE, int PARTS, bool MANY_M, int TILE, int PIECE, int BLOCKS, int STEP, int AHEAD, int SPLIT, bool MEET,
          class MANY_LINES = NoLines, class FEW_LINES = NoLines, bool SCALED = false>
struct FewConfig {
  static constexpr bool kScaled = SCALED;
  using Type = TYPE;
  using ManyLines = MANY_LINES;
  using FewLines = FEW_LINES;
  static constexpr int kParts = PARTS, kTile = TILE, kPiece = PIECE, kBlocks = BLOCKS, kStep = STEP, kSplit = SPLIT;
  static constexpr int kAhead = AHEAD;
  static constexpr bool kManyM = MANY_M, kMeet = MEET, kDirect = MANY_LINES::kThere, kExact = PARTS == 0;
};

template <class G, bool B> struct RawOf { using Type = typename G::RawA; };
template <class G> struct RawOf<G, true> { using Type = typename G::RawB; };

template <class G, class C>
struct FewContract {
  using Index = typename G::Index;
  using Bits = typename C::Type::Bits;
  using Many = Operand<G, !C::kManyM, f16>;
  using Few = Operand<G, C::kManyM, f16>;
  static constexpr int kWarps = kPlainThreads / 32, kRowsOfWarp = 16 * C::kBlocks, kAcross = C::kTile / kRowsOfWarp;
  static constexpr int kSlices = kWarps / kAcross, kSliceThreads = 32 * kAcross;
  static_assert(kAcross * kRowsOfWarp == C::kTile && kAcross * kSlices == kWarps, "warps share a tile evenly");
  static constexpr int kFew = C::kPiece, kColumns = (kFew + 7) / 8;   // of fragments
  static constexpr bool kWholePieces = Few::kRows % kFew == 0;
  static constexpr int kSteps16 = C::kStep / 16, kEach = C::kStep / 4;   // elements of a row, a thread's
  static constexpr int kRows = 2 * C::kBlocks;                           // of `many`, a thread's
  static constexpr int kBeside = Many::kAlongRows ? 1 : Many::kWidth;    // a thread's elements that are side by side along K
  static_assert(C::kStep % (4 * kBeside) == 0 && (!Many::kAlongRows || kRows % Many::kWidth == 0), "whole vectors");
  static constexpr int kTiles = static_cast<int>((Many::kRows + C::kTile - 1) / C::kTile);
  static constexpr int kPieces = static_cast<int>((Few::kRows + kFew - 1) / kFew);
  static_assert(kPieces == 1 || kFew % 8 == 0, "pieces are whole fragments");
  static constexpr Index kSteps = (G::kK + C::kStep - 1) / C::kStep, kPart = (kSteps + C::kSplit - 1) / C::kSplit;

  // Fragments of a step of `few` in shared memory: of each 16 of K and 8 columns a lane's words side by side, and
  // what columns were divided by.
  static constexpr int kWords = 2 * C::kParts;
  // Where exact, its elements: kVector of them side by side, along K or rows as a thread has those of `many`, and those of
  // four threads beside each other.
  static constexpr int kVector = Many::kAlongRows ? 4 : kBeside, kFewThere = kColumns * 8;
  static constexpr int kFragments = C::kExact ? C::kStep * kFewThere : kSteps16 * kColumns * 32 * kWords;
  static constexpr int kStage = kFragments + (C::kParts == 2 ? kColumns * 8 : 0);   // words
  // Then sums of the tile, [slice][M][N], in the same place; and kinds of rows.
  static constexpr int kSums = C::kTile * kColumns * 8;
  static constexpr int kStages = C::kDirect ? 0 : 2 * kSlices * kStage;
  using Anew = WideTile<Many, Few, C::kTile, kColumns * 8>;   // behind sums of one slice
  static constexpr int kWithAnew = kSums + (C::kParts == 2 ? Anew::kWords : 0);
  static constexpr int kOfSums = kSlices * kSums > kWithAnew ? kSlices * kSums : kWithAnew;
  static constexpr int kKinds = kStages > kOfSums ? kStages : kOfSums;
  static constexpr int kSharedBytes = 4 * (kKinds + C::kTile + kColumns * 8 + 4);

  // How threads of a slice read `few`: kLanes share a row, or kWidth of them, each kReads vectors of it; kPasses rows after each other.
  static constexpr int kWidth = Few::kWidth, kVectors = Few::kAlongRows ? C::kStep : C::kStep / kWidth;
  static constexpr int kLanes = kVectors < 16 ? kVectors : 16, kReads = kVectors / kLanes;
  static constexpr int kAtOnce = kSliceThreads / kLanes * (Few::kAlongRows ? kWidth : 1);
  static constexpr int kPasses = (kColumns * 8 + kAtOnce - 1) / kAtOnce;

  const G& g;
  Index batch;
  int part, first, other; // of K; first rows of `many` and of `few`
  Index from, to, end;    // its steps, and K's last
  unsigned* const words;
  int* const kinds_many;
  int* const kinds_few;

  WS_DEVICE explicit FewContract(const G& g) : g(g), words(reinterpret_cast<unsigned*>(shared())),
      kinds_many(reinterpret_cast<int*>(shared()) + kKinds), kinds_few(kinds_many + C::kTile) {
    const int at = block() / C::kSplit;
    part = block() % C::kSplit;
    first = at % kTiles * C::kTile;
    other = at / kTiles % kPieces * kFew;
    batch = at / (kTiles * kPieces);
    from = part * kPart;
    to = from + kPart < kSteps ? from + kPart : kSteps;
    const bool wanted = C::kManyM ? G::wanted(first, other, C::kTile, kFew) : G::wanted(other, first, kFew, C::kTile);
    if (!wanted || to < from) to = from;
    end = to * C::kStep < Index(G::kK) ? to * C::kStep : Index(G::kK);
  }

  static WS_DEVICE int lane() { return thread() % 32; }
  static WS_DEVICE int slice() { return thread() / kSliceThreads; }
  static WS_DEVICE void meet() { if constexpr (kAcross == 1) sync_warp(); else sync_block(); }
  // Row r of a thread among its tile's, and element e of a step along K.
  static WS_DEVICE int row(int r) {
    const int warps = thread() / 32 % kAcross * kRowsOfWarp, group = lane() / 4;
    if constexpr (Many::kAlongRows) return warps + r / Many::kWidth * 8 * Many::kWidth + group * Many::kWidth + r % Many::kWidth;
    return warps + group + 8 * r;
  }
  static WS_DEVICE constexpr int along(int e) { return e / kBeside * 4 * kBeside + e % kBeside; }   // + lane() % 4 * kBeside

  // ---- `many`

  // What a vector of `many` is made of, as it is in memory; from a row of the thread to the next with one, and along K.
  using Raw = typename RawOf<G, !C::kManyM>::Type;
  static constexpr int kDown = Many::kAlongRows ? Many::kWidth : 1, kRawRows = kRows / kDown, kRawEach = kEach / kBeside;

  template <bool B, class R>
  WS_DEVICE void load_raw(Index row, Index k, R& raw) const {
    if constexpr (B) g.load_b(batch, row, k, raw); else g.load_a(batch, row, k, raw);
  }
  template <bool B, class R, int W>
  WS_DEVICE void make_elements(Index row, Index k, const R& raw, float (&x)[W]) const {
    if constexpr (B) g.template make_b<W>(batch, row, k, raw, x); else g.template make_a<W>(batch, row, k, raw, x);
  }

  // each(row, k, there, r, e) of a thread's vectors of a step. What is beyond the ends lies at the beginning instead, and
  // is not there, so that nothing branches: loads of all rows are asked for before the first has come.
  template <class Each>
  WS_DEVICE void each_of_many(Index step, Each&& each) const {
    constexpr bool kWholeRows = Many::kRows % C::kTile == 0;
    // Every slice of every part has as many whole steps.
    constexpr bool kWholeSteps = G::kK % C::kStep == 0 && kSteps % kPart == 0 && kPart % kSlices == 0;
    const Index k0 = step * C::kStep + lane() % 4 * kBeside;
#pragma unroll
    for (int r = 0; r < kRawRows; ++r) {
      const Index at = first + row(r * kDown);
#pragma unroll
      for (int e = 0; e < kRawEach; ++e) {
        const Index k = k0 + along(e * kBeside);
        const bool is_row = kWholeRows || at < Index(Many::kRows), is_k = kWholeSteps || k < end;
        each(is_row ? at : Index(0), is_k ? k : Index(0), is_row && is_k, r, e);
      }
    }
  }
  WS_DEVICE void read_many(Index step, Raw (&raw)[kRawRows][kRawEach]) const {
    each_of_many(step, [&](Index row, Index k, bool, int r, int e) { load_raw<!C::kManyM>(row, k, raw[r][e]); });
  }
  WS_DEVICE void make_many(Index step, const Raw (&raw)[kRawRows][kRawEach], float (&x)[kRows][kEach]) const {
    constexpr int W = Many::kWidth;
    each_of_many(step, [&](Index row, Index k, bool there, int r, int e) {
      float made[W];
      make_elements<!C::kManyM>(row, k, raw[r][e], made);
#pragma unroll
      for (int v = 0; v < W; ++v) x[r * kDown + (Many::kAlongRows ? v : 0)][e * kBeside + (Many::kAlongRows ? 0 : v)] = there ? made[v] : 0;
    });
  }

  // Scales of a step of the thread's rows of `many` and of its columns of `few`.
  struct StepScales {
    float many[kRows], few[kColumns][2];
  };
  template <bool B>
  WS_DEVICE float scale(Index at, Index k) const {
    const Index rows = B ? G::kN : G::kM, inside = at < rows ? at : rows - 1;
    if constexpr (B) return g.run_b(batch, inside, k); else return g.run_a(batch, inside, k);
  }
  WS_DEVICE void read_scales(Index step, StepScales& scales) const {
    if constexpr (C::kScaled) {
      const Index k = step * C::kStep < Index(G::kK) ? step * C::kStep : Index(G::kK) - 1;
#pragma unroll
      for (int r = 0; r < kRows; ++r) scales.many[r] = scale<!C::kManyM>(first + row(r), k);
#pragma unroll
      for (int j = 0; j < kColumns; ++j) {
#pragma unroll
        for (int i = 0; i < 2; ++i) scales.few[j][i] = scale<C::kManyM>(other + j * 8 + lane() % 4 * 2 + i, k);
      }
    }
  }

  // Of a row that several steps are seen of, the widest.
  static WS_DEVICE void note(int* kind, RowKind of_step) {
    if (of_step > kDenseRow) shared_max(kind, of_step);
  }

  // What of a step of `many` waits to be multiplied: words of the fragments of rows r and r + 1, and what rows were
  // divided by; or its elements.
  template <int PARTS, class T>
  struct PreparedOf {
    unsigned a[PARTS][C::kBlocks][kSteps16][4];
    float back[kRows];
  };
  template <class T>
  struct PreparedOf<0, T> {
    float x[kRows][kEach];
  };
  using Prepared = PreparedOf<C::kParts, float>;

  WS_DEVICE void prepare_many(float (&x)[kRows][kEach], int inside, Prepared& prepared) const {
    if constexpr (C::kExact) {
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
#pragma unroll
        for (int e = 0; e < kEach; ++e) prepared.x[r][e] = x[r][e];
      }
    } else {
      split_many(x, inside, prepared.a, prepared.back);
    }
  }
  template <class A>
  WS_DEVICE void split_many(float (&x)[kRows][kEach], int inside, A& a, float (&back)[kRows]) const {
    if constexpr (C::kParts == 2) {
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        float most = largest_of(x[r]);
#pragma unroll
        for (int by = 1; by < 4; by *= 2) most = greater_of(most, shuffle_xor(most, by));
        int count = count_beside(x[r], most);
#pragma unroll
        for (int by = 1; by < 4; by *= 2) count += shuffle_xor(count, by);
        note(kinds_many + row(r), kind_of_step(most, count, inside, C::kStep));
        const RowScale scale(most);
        back[r] = scale.back;
#pragma unroll
        for (int e = 0; e < kEach; ++e) x[r][e] *= scale.up;
      }
    }
#pragma unroll
    for (int q = 0; q < C::kBlocks; ++q) {
#pragma unroll
      for (int s = 0; s < kSteps16; ++s) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int r = 2 * q + i % 2, e = 4 * s + i / 2 * 2;
          a[0][q][s][i] = pair_of<Bits>(x[r][e], x[r][e + 1]);
          if constexpr (C::kParts == 2) {
            a[1][q][s][i] = pair_of<Bits>(x[r][e] - first_of<Bits>(a[0][q][s][i]), x[r][e + 1] - second_of<Bits>(a[0][q][s][i]));
          }
        }
      }
    }
  }

  // ---- `few`

  // The first row of a pass, and k of one of its vectors.
  static WS_DEVICE int few_row(int pass) {
    return pass * kAtOnce + thread() % kSliceThreads / kLanes * (Few::kAlongRows ? kWidth : 1);
  }
  static WS_DEVICE int few_k(int i) { return (i * kLanes + thread() % kLanes) * (Few::kAlongRows ? 1 : kWidth); }

  using FewRaw = typename RawOf<G, C::kManyM>::Type;
  template <class Each>
  WS_DEVICE void each_of_few(Index step, Each&& each) const {
#pragma unroll
    for (int pass = 0; pass < kPasses; ++pass) {
#pragma unroll
      for (int i = 0; i < kReads; ++i) {
        const Index row = few_row(pass), k = step * C::kStep + few_k(i);
        const bool is_row = (kAtOnce * kPasses == kFew || row < kFew) && (kWholePieces || other + row < Index(Few::kRows)), is_k = k < end;
        each(is_row ? other + row : Index(0), is_k ? k : Index(0), is_row && is_k, pass, i);
      }
    }
  }
  WS_DEVICE void read_few(Index step, FewRaw (&raw)[kPasses][kReads]) const {
    each_of_few(step, [&](Index row, Index k, bool, int pass, int i) { load_raw<C::kManyM>(row, k, raw[pass][i]); });
  }
  WS_DEVICE void make_few(Index step, const FewRaw (&raw)[kPasses][kReads], float (&x)[kPasses][kReads][kWidth]) const {
    each_of_few(step, [&](Index row, Index k, bool there, int pass, int i) {
      float made[kWidth];
      make_elements<C::kManyM>(row, k, raw[pass][i], made);
#pragma unroll
      for (int v = 0; v < kWidth; ++v) x[pass][i][v] = there ? made[v] : 0;
    });
  }

  // Where an element is as such.
  static WS_DEVICE int place_of(int row, int k) {
    const int t = k / kBeside % 4, vector = k / (4 * kBeside);
    const int at = Many::kAlongRows ? vector * (kFewThere / 4) + row / 4 : vector * kFewThere + row;
    return (at * 4 + t) * kVector + (Many::kAlongRows ? row : k) % kVector;
  }
  WS_DEVICE void put_exactly(unsigned* stage, const float (&x)[kPasses][kReads][kWidth]) const {
    // Whether a thread's neighbours stay neighbours.
    constexpr bool kTogether = Few::kAlongRows == Many::kAlongRows && kVector % kWidth == 0;
    float* const elements = reinterpret_cast<float*>(stage);
#pragma unroll
    for (int pass = 0; pass < kPasses; ++pass) {
      const int row = few_row(pass);
#pragma unroll
      for (int i = 0; i < kReads; ++i) {
        const int k = few_k(i);
        if constexpr (kTogether) {
          if (row < kFewThere) store<kWidth, float, 0>(elements + place_of(row, k), x[pass][i]);
        } else {
#pragma unroll
          for (int v = 0; v < kWidth; ++v) {
            const int at = Few::kAlongRows ? row + v : row;
            if (at < kFewThere) elements[place_of(at, Few::kAlongRows ? k : k + v)] = x[pass][i][v];
          }
        }
      }
    }
  }

  // Where an element's half word is.
  static WS_DEVICE int half_of(int row, int k, int part) {
    const int t = k / kBeside % 4, e = k / (4 * kBeside) * kBeside + k % kBeside;
    const int fragment = e / 4 * kColumns + row / 8, lane = row % 8 * 4 + t;
    return ((fragment * 32 + lane) * kWords + part * 2 + e % 4 / 2) * 2 + e % 2;
  }
  WS_DEVICE void put(unsigned* stage, int row, int k, float x) const {
    unsigned short* const halves = reinterpret_cast<unsigned short*>(stage);
    const Bits greater = from_float<Bits>(x);
    halves[half_of(row, k, 0)] = greater.bits;
    if constexpr (C::kParts == 2) halves[half_of(row, k, 1)] = from_float<Bits>(x - to_float(greater)).bits;
  }
  WS_DEVICE void put_two(unsigned* stage, int row, int k, float x, float y) const {
    const unsigned greater = pair_of<Bits>(x, y);
    stage[half_of(row, k, 0) / 2] = greater;
    if constexpr (C::kParts == 2) {
      stage[half_of(row, k, 1) / 2] = pair_of<Bits>(x - first_of<Bits>(greater), y - second_of<Bits>(greater));
    }
  }

  WS_DEVICE void put_few(unsigned* stage, int inside, float (&x)[kPasses][kReads][kWidth]) const {
    if constexpr (C::kExact) {
      put_exactly(stage, x);
      return;
    }
    constexpr int kOfThread = Few::kAlongRows ? kWidth : 1;   // rows
    float* const back = reinterpret_cast<float*>(stage + kFragments);
#pragma unroll
    for (int pass = 0; pass < kPasses; ++pass) {
      const int row = few_row(pass);
      if constexpr (C::kParts == 2) {
#pragma unroll
        for (int j = 0; j < kOfThread; ++j) {
          // The thread's elements of row j.
          float of_row[kReads * kWidth / kOfThread];
#pragma unroll
          for (int i = 0; i < kReads * kWidth / kOfThread; ++i) {
            of_row[i] = Few::kAlongRows ? x[pass][i][j] : x[pass][i / kWidth][i % kWidth];
          }
          float most = largest_of(of_row);
#pragma unroll
          for (int by = 1; by < kLanes; by *= 2) most = greater_of(most, shuffle_xor(most, by));
          int count = count_beside(of_row, most);
#pragma unroll
          for (int by = 1; by < kLanes; by *= 2) count += shuffle_xor(count, by);
          const RowScale scale(most);
#pragma unroll
          for (int i = 0; i < kReads * kWidth / kOfThread; ++i) {
            (Few::kAlongRows ? x[pass][i][j] : x[pass][i / kWidth][i % kWidth]) *= scale.up;
          }
          if (thread() % kLanes == 0 && row + j < kColumns * 8) {
            back[row + j] = scale.back;
            note(kinds_few + row + j, kind_of_step(most, count, inside, C::kStep));
          }
        }
      }
      if (row >= kColumns * 8) continue;
#pragma unroll
      for (int i = 0; i < kReads; ++i) {
        const int k = few_k(i);
        if constexpr (!Few::kAlongRows && kWidth % 2 == 0 && kBeside % 2 == 0) {
#pragma unroll
          for (int v = 0; v < kWidth; v += 2) put_two(stage, row, k + v, x[pass][i][v], x[pass][i][v + 1]);
        } else {
#pragma unroll
          for (int v = 0; v < kWidth; ++v) {
            put(stage, Few::kAlongRows ? row + v : row, Few::kAlongRows ? k : k + v, x[pass][i][v]);
          }
        }
      }
    }
  }

  // ---- products

  // Of fragments of rows q and columns j; of row q and four columns j, where exact.
  static constexpr int kSumsDown = C::kExact ? kRows : C::kBlocks, kSumsAcross = C::kExact ? (kFew + 3) / 4 : kColumns;
  using Sums = float[kSumsDown][kSumsAcross][4];
  static WS_DEVICE void clear(Sums& sums) {
#pragma unroll
    for (int q = 0; q < kSumsDown; ++q) {
#pragma unroll
      for (int j = 0; j < kSumsAcross; ++j) {
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[q][j][i] = 0;
      }
    }
  }

  WS_DEVICE void multiply_exactly(const unsigned* stage, const float (&x)[kRows][kEach], Sums& totals) const {
    const float* const elements = reinterpret_cast<const float*>(stage) + lane() % 4 * kVector;
    constexpr int kOnce = Many::kAlongRows ? 1 : kVector;   // elements of a row that are multiplied at once
#pragma unroll
    for (int e = 0; e < kEach; e += kOnce) {
#pragma unroll
      for (int j = 0; j < (Many::kAlongRows ? kSumsAcross : kFew); ++j) {
        float few[kVector];
        load<kVector, float, 0>(elements + (e / kOnce * (Many::kAlongRows ? kFewThere / 4 : kFewThere) + j) * 4 * kVector, few);
#pragma unroll
        for (int v = 0; v < kVector; ++v) {
#pragma unroll
          for (int r = 0; r < kRows; ++r) {
            if constexpr (Many::kAlongRows) totals[r][j][v] += x[r][e] * few[v];
            else totals[r][j / 4][j % 4] += x[r][e + v] * few[v];
          }
        }
      }
    }
  }
  // Of the four threads that share rows: the sum of column lane() % 4 of four. Of two columns either thread keeps one.
  static WS_DEVICE float meet_in_row(const float (&sums)[4]) {
    const bool odd = lane() % 2 == 1, upper = lane() % 4 >= 2;
    const float a = sums[0], b = sums[1], c = sums[2], d = sums[3];
    const float lower_pair = (odd ? b : a) + shuffle_xor(odd ? a : b, 1), upper_pair = (odd ? d : c) + shuffle_xor(odd ? c : d, 1);
    return (upper ? upper_pair : lower_pair) + shuffle_xor(upper ? lower_pair : upper_pair, 2);
  }

  WS_DEVICE void multiply(const unsigned* stage, const Prepared& prepared, const StepScales& scales, Sums& totals) const {
    if constexpr (C::kExact) multiply_exactly(stage, prepared.x, totals);
    else multiply_fragments_of(stage, prepared.a, prepared.back, scales, totals);
  }
  template <class A>
  WS_DEVICE void multiply_fragments_of(const unsigned* stage, const A& a, const float (&back)[kRows], const StepScales& scales,
                                       Sums& totals) const {
    Sums sums;
    clear(sums);
    // A product waits for the one before it of the same sums: others come between them.
    constexpr int kTogether = kColumns < 4 ? kColumns : 4;
#pragma unroll
    for (int s = 0; s < kSteps16; ++s) {
#pragma unroll
      for (int from = 0; from < kColumns; from += kTogether) {
        unsigned b[kTogether][kWords];
#pragma unroll
        for (int j = 0; j < kTogether; ++j) {
          if (from + j < kColumns) load<kWords, unsigned, 0>(stage + ((s * kColumns + from + j) * 32 + lane()) * kWords, b[j]);
        }
#pragma unroll
        for (int parts = C::kParts == 1 ? 0 : 2; parts >= 0; --parts) {
#pragma unroll
          for (int j = 0; j < kTogether; ++j) {
#pragma unroll
            for (int q = 0; q < C::kBlocks; ++q) {
              if (from + j >= kColumns) continue;
              const unsigned* const word = b[j] + (parts == 1) * 2 % kWords;
              multiply_fragments<typename C::Type>(sums[q][from + j], a[(parts == 2) % C::kParts][q][s], word[0], word[1]);
            }
          }
        }
      }
    }
    const float* const columns = reinterpret_cast<const float*>(stage + kFragments);
#pragma unroll
    for (int j = 0; j < kColumns; ++j) {
      float of_column[2] = {1, 1};
      if constexpr (C::kParts == 2) load<2, float, 0>(columns + j * 8 + lane() % 4 * 2, of_column);
#pragma unroll
      for (int q = 0; q < C::kBlocks; ++q) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          if constexpr (C::kParts == 2) totals[q][j][i] += sums[q][j][i] * (back[2 * q + i / 2] * of_column[i % 2]);
          else if constexpr (C::kScaled) totals[q][j][i] += sums[q][j][i] * (scales.many[2 * q + i / 2] * scales.few[j][i % 2]);
          else totals[q][j][i] += sums[q][j][i];
        }
      }
    }
  }

  // A warp's steps, of words that lie as they are multiplied; sums of all are in one run.
  WS_DEVICE void multiply_directly(const void* many, const void* few, Sums& totals) const {
    static_assert(C::kParts == 1 && G::kK % 8 == 0, "whole vectors of 16 bits");
    constexpr int kVectors = C::kStep / 32, kRound = kSlices * C::kStep;   // of a row, a thread's, in a step
    constexpr bool kWhole = G::kK % C::kStep == 0;
    const unsigned* const of_many = C::ManyLines::row(many, batch, first + row_of_words(0)) + lane() % 4 * 4;
    const unsigned* const of_few = C::FewLines::row(few, batch, other + lane() / 4) + lane() % 4 * 4;
    bool is_many[kRows], is_few[kColumns];
#pragma unroll
    for (int r = 0; r < kRows; ++r) is_many[r] = Many::kRows % C::kTile == 0 || first + row_of_words(r) < Index(Many::kRows);
#pragma unroll
    for (int j = 0; j < kColumns; ++j) is_few[j] = (kFew % 8 == 0 && kWholePieces) || other + j * 8 + lane() / 4 < Index(Few::kRows);
    unsigned a[kRows][kVectors][4], b[kColumns][kVectors][4];
    const auto bring = [&](Index k) {
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
        const bool is_k = kWhole || k + v * 32 + lane() % 4 * 8 < end;
#pragma unroll
        for (int r = 0; r < kRows; ++r) read_words<6>(of_many + (C::ManyLines::kRow * 8 * r + k + v * 32) / 2, is_many[r] && is_k, a[r][v]);
#pragma unroll
        for (int j = 0; j < kColumns; ++j) read_words<5>(of_few + (C::FewLines::kRow * 8 * j + k + v * 32) / 2, is_few[j] && is_k, b[j][v]);
      }
    };
    Index k = (from + slice()) * C::kStep;
    if (k >= end) return;
    bring(k);
#pragma unroll 1
    while (true) {
      unsigned now_a[kRows][kVectors][4], now_b[kColumns][kVectors][4];
      memcpy(now_a, a, sizeof(a));
      memcpy(now_b, b, sizeof(b));
      k += kRound;
      const bool more = k < end;
      if (more) bring(k);
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
#pragma unroll
        for (int half = 0; half < 4; half += 2) {
#pragma unroll
          for (int j = 0; j < kColumns; ++j) {
#pragma unroll
            for (int q = 0; q < C::kBlocks; ++q) {
              const unsigned (&upper)[4] = now_a[2 * q][v], (&lower)[4] = now_a[2 * q + 1][v];
              const unsigned fragment[4] = {upper[half], lower[half], upper[half + 1], lower[half + 1]};
              multiply_fragments<typename C::Type>(totals[q][j], fragment, now_b[j][v][half], now_b[j][v][half + 1]);
            }
          }
        }
      }
      if (!more) return;
    }
  }
  // Row r of a thread where it reads words.
  static WS_DEVICE int row_of_words(int r) { return thread() / 32 % kAcross * kRowsOfWarp + lane() / 4 + 8 * r; }
  template <int Hint>
  static WS_DEVICE void read_words(const unsigned* p, bool there, unsigned (&x)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) x[i] = 0;
    if (there) load_once<4, unsigned, Hint>(p, x);
  }

  // Where a sum is: rows of Y side by side.
  static WS_DEVICE int place(int many, int few) { return C::kManyM ? many * kColumns * 8 + few : few * C::kTile + many; }

  // A slice's steps, `few` by way of shared memory.
  WS_DEVICE void multiply_staged(Sums& totals) {
    for (int i = thread(); i < C::kTile + kColumns * 8; i += kPlainThreads) kinds_many[i] = kDenseRow;
    sync_block();
    // All slices meet as often: those past the last step multiply zeros.
    unsigned* const stages = words + slice() * 2 * kStage;
    // Steps that have been read, the next first. In two parts elements are scaled by all of a step: they are made when
    // they are read.
    constexpr int kDepth = C::kAhead > 0 ? C::kAhead : 1;
    static_assert(kDepth == 1 || C::kParts <= 1, "steps wait as they are in memory");
    struct Read {
      Raw many[kRawRows][kRawEach];
      FewRaw few[kPasses][kReads];
      StepScales scales;
    } ahead[kDepth];
    float many[kRows][kEach], few[kPasses][kReads][kWidth];
    Index step = from + slice();   // the next that is prepared
    int turn = 0;
    Prepared prepared;
    StepScales scales;
    const auto make = [&](Index at, const Read& read) {
      make_many(at, read.many, many);
      make_few(at, read.few, few);
    };
    const auto bring = [&](Index at, Read& read) {
      read_many(at, read.many);
      read_few(at, read.few);
      read_scales(at, read.scales);
      if constexpr (C::kParts == 2) make(at, read);
    };
    const auto prepare = [&] {
      // Those past the last step have nothing inside.
      const int inside = end - step * C::kStep < C::kStep ? maximum(static_cast<int>(end - step * C::kStep), 0) : C::kStep;
      if constexpr (C::kParts <= 1) make(step, ahead[0]);
      put_few(stages + turn * kStage, inside, few);
      prepare_many(many, inside, prepared);
      if constexpr (C::kScaled) scales = ahead[0].scales;
      meet();
#pragma unroll
      for (int d = 1; d < kDepth; ++d) ahead[d - 1] = ahead[d];
      step += kSlices;
    };
    if constexpr (C::kAhead > 0) {
      if (from < to) {
#pragma unroll
        for (int d = 0; d < kDepth; ++d) bring(step + d * kSlices, ahead[d]);
        prepare();
      }
#pragma unroll 1
      for (Index round = from; round < to; round += kSlices) {
        if (round + kDepth * kSlices < to) bring(step + (kDepth - 1) * kSlices, ahead[kDepth - 1]);
        multiply(stages + turn * kStage, prepared, scales, totals);
        turn ^= 1;
        if (round + kSlices < to) prepare();
      }
    } else {
#pragma unroll 1
      for (Index round = from; round < to; round += kSlices, turn ^= 1) {
        bring(step, ahead[0]);
        prepare();
        multiply(stages + turn * kStage, prepared, scales, totals);
      }
    }
    sync_block();   // stages have been read
  }

  // Sums of the block's part of K, in shared memory.
  WS_DEVICE void add_up(const void* many, const void* few) {
    Sums totals;
    clear(totals);
    if constexpr (C::kDirect) multiply_directly(many, few, totals); else multiply_staged(totals);
    float* const sums = reinterpret_cast<float*>(words) + slice() * kSums;
    if constexpr (C::kExact) {
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
#pragma unroll
        for (int j = 0; j < kSumsAcross; ++j) sums[place(row(r), j * 4 + lane() % 4)] = meet_in_row(totals[r][j]);
      }
    } else {
#pragma unroll
      for (int q = 0; q < C::kBlocks; ++q) {
#pragma unroll
        for (int j = 0; j < kColumns; ++j) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const int r = 2 * q + i / 2;
            sums[place(C::kDirect ? row_of_words(r) : row(r), j * 8 + lane() % 4 * 2 + i % 2)] = totals[q][j][i];
          }
        }
      }
    }
    sync_block();
    bool any = false;
    if constexpr (C::kParts == 2) {
      for (int i = thread(); i < C::kTile + kColumns * 8; i += kPlainThreads) any = any || kinds_many[i] >= kWideRow;
      any = any_of_block_at(kinds_many + C::kTile + kColumns * 8, any);
    }
    join(any);
  }

  // Whether it holds for any thread of the block, by a word of shared memory of its own.
  static WS_DEVICE bool any_of_block_at(int* word, bool one) {
    if (thread() == 0) *word = 0;
    sync_block();
    if (one) *word = 1;
    sync_block();
    return *word != 0;
  }

  // Adds up slices' sums; those of rows that are too wide are made anew, of the block's part of K.
  WS_DEVICE void join(bool any_wide) {
    float* const sums = reinterpret_cast<float*>(words);
    if constexpr (kSlices > 1) {
#pragma unroll 1
      for (int i = thread(); i < kSums; i += kPlainThreads) {
        float sum = sums[i];
#pragma unroll
        for (int s = 1; s < kSlices; ++s) sum += sums[s * kSums + i];
        sums[i] = sum;
      }
      sync_block();
    }
    if constexpr (C::kParts == 2) {
      if (!any_wide) return;
      const Anew tile{{g}, {g}, batch, first, other};
      tile.run(from * C::kStep, end, sums + kSums, [&](int many, int few, float sum) {
        if (is_rest(kinds_many[many], kinds_few[few])) sums[place(many, few)] = sum;
      });
      sync_block();
    }
  }

  // All threads of the block. `partial`: [SPLIT][batch][M][N], null where blocks meet or are alone. `many`, `few`: the
  // operands' buffers, null where elements are what maps make of them.
  WS_DEVICE void run(float* partial, const void* many, const void* few) {
    add_up(many, few);
    constexpr int W = G::kWidth, kRowsY = C::kManyM ? C::kTile : kColumns * 8, kLine = kSums / kRowsY;
    static_assert(kLine % W == 0, "lines are whole vectors");
    if constexpr (C::kMeet) sync_cluster();
    const int share = C::kMeet ? C::kSplit : 1;
    float* const sums = reinterpret_cast<float*>(words);
    for (int i = (C::kMeet ? part * kPlainThreads : 0) + thread(); i < kSums / W; i += share * kPlainThreads) {
      const int y = i * W / kLine, x = i * W % kLine;
      const Index m = C::kManyM ? first + y : other + y, n = C::kManyM ? other + x : first + x;
      if (m >= Index(G::kM) || n >= Index(G::kN)) continue;
      float done[W];
      if constexpr (C::kMeet) {
        load<W, float, 0>(peer(sums, 0) + i * W, done);
#pragma unroll
        for (int rank = 1; rank < C::kSplit; ++rank) {
          float other[W];
          load<W, float, 0>(peer(sums, rank) + i * W, other);
#pragma unroll
          for (int v = 0; v < W; ++v) done[v] += other[v];
        }
      } else {
        load<W, float, 0>(sums + i * W, done);
      }
      if constexpr (C::kSplit > 1 && !C::kMeet) {
        store<W, float, 0>(partial + placed((((long long)(part) * G::kBatch + batch) * G::kM + m) * G::kN + n), done);
      } else {
        g.template finish<W>(batch, m, n, done);
      }
    }
    if constexpr (C::kMeet) sync_cluster();   // others may still read what is here
  }
};

template <class G, class C>
WS_DEVICE void contract_few(const G& g, float* partial, const void* many = nullptr, const void* few = nullptr) {
  FewContract<G, C>(g).run(partial, many, few);
}

}  // namespace ws
