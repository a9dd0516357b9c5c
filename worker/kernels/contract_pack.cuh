// Operands of the skeleton contract that the copy engine cannot bring as they are, written out for it: [batch x
// parts][rows][K], or [batch x parts][K][rows] where neighbours lie along the rows, each line of memory at a multiple of
// 128 bytes.
//
// In one part: elements that have 16 bits or 8. In two parts of fp16: elements of fp32, each row times a power of two
// that brings its largest near fp16's, so that what the second part leaves is 2^-24 of an element, or 2^-40 of the row's
// largest. Where a row is too wide for that (many of its elements are lost to fp16's least numbers) or has infinities or
// NaN, products with it are made in fp32 instead, but for those of rows that can't show what is lost: `contract_rest`, RowKind.
#pragma once

#include <warpsmith/contract_plain.cuh>

namespace ws {

// Elements as T.
template <class T, class Sum, int W>
WS_DEVICE void narrow(const Sum (&x)[W], T (&to)[W]) {
#ifdef WS_EIGHT_BITS
  if constexpr (sizeof(T) == 1 && W % 2 == 0) {   // an instruction for two
#pragma unroll
    for (int v = 0; v < W; v += 2) {
      unsigned short pair;
      asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(x[v + 1]), "f"(x[v]));
      to[v] = T{static_cast<unsigned char>(pair)}, to[v + 1] = T{static_cast<unsigned char>(pair >> 8)};
    }
    return;
  }
#endif
#pragma unroll
  for (int v = 0; v < W; ++v) to[v] = from_float<T>(x[v]);
}

// One operand of the glue G (contract_plain.cuh), A or B, in elements of T.
template <class G, bool B, class T>
struct Operand {
  static constexpr int kWidth = B ? G::kWidthB : G::kWidthA;
  static constexpr bool kAlongRows = B ? G::kAlongN : G::kAlongM;
  static constexpr long long kRows = B ? G::kN : G::kM, kK = G::kK;
  static constexpr int kEven = 128 / sizeof(T);
  // Elements from one line to the next, and of a part.
  static constexpr long long kLine = ((kAlongRows ? kRows : kK) + kEven - 1) / kEven * kEven;
  static constexpr long long kPart = kLine * (kAlongRows ? kK : kRows);
  using Index = typename G::Index;
  using Sum = typename G::Sum;

  const G& g;
  WS_DEVICE void read(Index batch, Index row, Index k, Sum (&x)[kWidth]) const {
    if constexpr (B) g.template b<kWidth>(batch, row, k, x); else g.template a<kWidth>(batch, row, k, x);
  }
  static WS_DEVICE long long at(long long part, Index row, Index k) {
    return part * kPart + (kAlongRows ? k * kLine + row : row * kLine + k);
  }
};

constexpr int kPackThreads = 256;
// Of a thread that reads its part of a row once; more is read again.
constexpr int kMostKept = 32;
// And of one that reads its part of rows that lie beside each other.
constexpr int kMostKeptBeside = 32;

// What a thread has seen of a row: its largest, whether all are numbers; how many lose digits of those that are not
// zero, and how many lie near the largest.
struct Spread {
  float most;
  int lost, counted, near;
  WS_DEVICE void begin_count() { lost = counted = near = 0; }
  WS_DEVICE void see(float x) { most = fmaxf(most, fabsf(x)); if (x != x) most = bits_float(0x7f800000u); }
  WS_DEVICE void join(const Spread& other) {
    most = fmaxf(most, other.most);
    lost += other.lost;
    counted += other.counted;
    near += other.near;
  }
};

// Powers of two: of a row whose largest is `most`, times which it comes to 2^14 up to 2^15, and back.
struct RowScale {
  float up, back;
  WS_DEVICE explicit RowScale(float most) {
    const int exponent = static_cast<int>(float_bits(most) >> 23);
    int by = most > 0 ? 127 + 14 - exponent : 0;
    by = by > 126 ? 126 : by < -126 ? -126 : by;
    up = bits_float(static_cast<unsigned>(127 + by) << 23);
    back = bits_float(static_cast<unsigned>(127 - by) << 23);
  }
};

// An element in PARTS, one or two; counts it among those that keep fewer than 20 digits if so (one: fewer than ten), and among
// those within 2^-10 of the largest, which was brought to 2^14 at least.
template <int PARTS>
WS_DEVICE void part(float x, f16& greater, f16& lesser, Spread& spread) {
  greater = from_float<f16>(x);
  const float rest = x - to_float(greater);
  lesser = from_float<f16>(rest);
  spread.counted += x != 0;
  spread.lost += PARTS == 2 ? fabsf(rest - to_float(lesser)) > 0x1p-20f * fabsf(x) : fabsf(rest) > 0x1p-10f * fabsf(x);
  spread.near += fabsf(x) >= 16;
}

// ---- rows in two parts, a step along K at a time

// Two elements of 16 bits in a word, the first below.
template <class T> WS_DEVICE unsigned pair_of(float first, float second) {
  const unsigned low = from_float<T>(first).bits, high = from_float<T>(second).bits;
  return high << 16 | low;
}
#ifndef WS_HOST
template <> WS_DEVICE unsigned pair_of<f16>(float first, float second) {
  unsigned both;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(second), "f"(first));
  return both;
}
template <> WS_DEVICE unsigned pair_of<bf16>(float first, float second) {
  unsigned both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(second), "f"(first));
  return both;
}
#endif
template <class T> WS_DEVICE float first_of(unsigned both) { return to_float(T{static_cast<unsigned short>(both)}); }
template <class T> WS_DEVICE float second_of(unsigned both) { return to_float(T{static_cast<unsigned short>(both >> 16)}); }

// The greater of two, NaN if one is.
WS_DEVICE float greater_of(float a, float b) {
#ifndef WS_HOST
  float greater;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(greater) : "f"(a), "f"(b));
  return greater;
#else
  return a != a ? a : b != b ? b : fmaxf(a, b);
#endif
}
// Of elements of a row and step: the largest (NaN with NaN), and how many are lost beside it.
template <int N>
WS_DEVICE float largest_of(const float (&x)[N]) {
  float most = 0;
#pragma unroll
  for (int i = 0; i < N; ++i) most = greater_of(most, fabsf(x[i]));
  return most;
}
constexpr float kLostBeside = 0x1p-19f;
template <int N>
WS_DEVICE int lost_beside(const float (&x)[N], float most) {
  const float least = most * kLostBeside;
  int count = 0;
#pragma unroll
  for (int i = 0; i < N; ++i) count += fabsf(x[i]) < least && x[i] != 0;
  return count;
}
WS_DEVICE bool is_finite(float most) { return most < bits_float(0x7f800000u); }
WS_DEVICE bool is_wide(float most, int lost, int step) { return !is_finite(most) || lost * 16 > step; }

// ---- what a row in two parts is

// Dense: seven of eight elements are within 2^-10 of the largest (a signal in a window, not what ReLU leaves). Thin: fewer. Wide:
// many are lost, yet a quarter are near. Alone: many are lost and few are near, or some are no finite numbers.
enum RowKind { kDenseRow = 0, kThinRow = 1, kWideRow = 2, kLoneRow = 3 };
// What a row's products have to be multiplied by again, a power of two, with its kind in the last bits.
WS_DEVICE float back_of(float factor, RowKind kind) {
  return kind == kLoneRow ? bits_float(0x7fc00003u) : bits_float(float_bits(factor) | kind);
}
WS_DEVICE float factor_of(float back) { return bits_float(float_bits(back) & 0x7f800000u); }
WS_DEVICE int kind_of(float back) { return static_cast<int>(float_bits(back) & 3); }
// Whether products of two rows of these kinds, or of a tile's greatest, are made in fp32: all of one that is alone, and those of a wide
// one but with dense ones. Of these an eighth of all elements at least are near the largest in both, so that no sum is made of lost
// elements alone; what one may be off is 2^-40 of its row's largest, where fp32 rounds off 2^-24 of the products of those that are near.
WS_DEVICE bool is_rest(int a, int b) { return a + b >= 3; }

// Of a row and a step of elements, of which so many are `inside` and the others zero, by what count_beside says of all.
template <int N>
WS_DEVICE int count_beside(const float (&x)[N], float most) {   // those that are lost, times 2^16, and those that are not near
  int count = 0;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const float magnitude = fabsf(x[i]);
    if (!(magnitude >= most * 0x1p-10f)) count += magnitude < most * kLostBeside && magnitude != 0 ? 0x10001 : 1;
  }
  return count;
}
// By counts of those that are lost of so many that `may` be, and of those that are near of all.
WS_DEVICE RowKind kind_of(float most, long long lost, long long may, long long near, long long all) {
  if (!is_finite(most)) return kLoneRow;
  if (lost * 16 > may) return near * 4 >= all ? kWideRow : kLoneRow;
  return near * 8 >= all * 7 ? kDenseRow : kThinRow;
}
WS_DEVICE RowKind kind_of_step(float most, int count, int inside, int step) {
  return kind_of(most, count >> 16, step, step - (count & 0xffff), inside);
}
WS_DEVICE RowKind kind_of(const Spread& spread, long long elements) {
  return kind_of(spread.most, spread.lost, spread.counted, spread.near, elements);
}

// ---- operands that are written out

// visit(k, x) of a thread's COUNT vectors of its rows: from, from + STEP and so on before `end`; EVEN: all are. Where
// they are read ONCE each has a place in `kept`, or they share one.
template <bool ONCE, bool EVEN, int COUNT, int STEP, class Index, int KEPT, int W, class Visit>
WS_DEVICE void visit_all(Index from, Index end, float (&kept)[KEPT][W], const Visit& visit) {
  if constexpr (ONCE) {
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
      if (EVEN || from + i * STEP < end) visit(Index(from + i * STEP), kept[i]);
    }
  } else {
#pragma unroll 4
    for (Index k = from; k < end; k += STEP) visit(k, kept[0]);
  }
}

// Of a row that LANES threads side by side have seen, known to all of them. Dynamic shared memory: a Spread a warp.
template <int LANES>
WS_DEVICE Spread meet_row(Spread spread) {
#pragma unroll
  for (int step = (LANES < 32 ? LANES : 32) / 2; step > 0; step /= 2) spread.join(shuffle_xor(spread, step));
  if constexpr (LANES > 32) {
    static_assert(LANES % 32 == 0 && kPackThreads % LANES == 0, "whole warps");
    Spread* const of_warp = reinterpret_cast<Spread*>(shared());
    sync_block();   // the rows before have been read
    if (thread() % 32 == 0) of_warp[thread() / 32] = spread;
    sync_block();
    const Spread* const of_row = of_warp + thread() / LANES * (LANES / 32);
    spread = of_row[0];
#pragma unroll
    for (int w = 1; w < LANES / 32; ++w) spread.join(of_row[w]);
  }
  return spread;
}

// Rows that lie along K, each by LANES threads. True: this thread was at one that is too wide.
template <class G, bool B, class T, int PARTS, bool SCALED, int LANES>
WS_DEVICE bool pack_rows(const G& g, T* parts, float* back) {
  using O = Operand<G, B, T>;
  using Index = typename G::Index;
  constexpr int W = O::kWidth, kStep = LANES * W, kVectors = (O::kK + kStep - 1) / kStep;
  constexpr bool kOnce = SCALED && kVectors * W <= kMostKept, kEven = O::kK % kStep == 0;
  constexpr long long kRows = G::kBatch * O::kRows, kAtOnce = kPackThreads / LANES;
  const O operand{g};
  const Index from = thread() % LANES * W;
  bool any = false;
  for (long long first_row = block() * kAtOnce; first_row < kRows; first_row += blocks() * kAtOnce) {
    const long long at = first_row + thread() / LANES;
    const bool inside = at < kRows;   // or it reads the last one, to come where the others meet
    const Index batch = (inside ? at : kRows - 1) / O::kRows, row = (inside ? at : kRows - 1) % O::kRows;
    T* const first = parts + placed(O::at(static_cast<long long>(batch) * PARTS, row, 0));
    if constexpr (!SCALED) {
#pragma unroll 4
      for (Index k = from; k < Index(O::kK); k += kStep) {
        typename G::Sum x[W];
        operand.read(batch, row, k, x);
        T narrowed[W];
        narrow(x, narrowed);
        if (inside) store<W, T, 0>(first + k, narrowed);
      }
    } else {
      float kept[kOnce ? kVectors : 1][W];
      Spread spread = {0, 0, 0, 0};
      const auto read = [&](Index k, float (&x)[W]) { operand.read(batch, row, k, x); };
      const auto see = [&](Index, float (&x)[W]) {
#pragma unroll
        for (int v = 0; v < W; ++v) spread.see(x[v]);
      };
      const auto read_and_see = [&](Index k, float (&x)[W]) { read(k, x); see(k, x); };
      if constexpr (kOnce) {
        visit_all<kOnce, kEven, kVectors, kStep>(from, Index(O::kK), kept, read);
        visit_all<kOnce, kEven, kVectors, kStep>(from, Index(O::kK), kept, see);
      } else {
        visit_all<kOnce, kEven, kVectors, kStep>(from, Index(O::kK), kept, read_and_see);
      }
      spread = meet_row<LANES>(spread);
      const RowScale scale(spread.most);
      spread.begin_count();
      visit_all<kOnce, kEven, kVectors, kStep>(from, Index(O::kK), kept, [&](Index k, float (&x)[W]) {
        if constexpr (!kOnce) read(k, x);
        T greater[W], lesser[W];
#pragma unroll
        for (int v = 0; v < W; ++v) part<PARTS>(x[v] * scale.up, greater[v], lesser[v], spread);
        if (!inside) return;
        store<W, T, 0>(first + k, greater);
        if constexpr (PARTS == 2) store<W, T, 0>(first + O::kPart + k, lesser);
      });
      const RowKind kind = kind_of(meet_row<LANES>(spread), O::kK);
      any = any || kind >= kWideRow;
      if (inside && thread() % LANES == 0) back[at] = back_of(scale.back, kind);
    }
  }
  return any;
}

// Threads side by side on rows that lie beside each other, W by each: enough for 128 bytes of fp32.
WS_DEVICE constexpr int pack_across(int w) { return w < 4 ? 32 / w : 8; }

// Of pack_across(W) * W rows beside each other that SHARE blocks have seen, W by a thread, known to all of them. `turn`: 0 and 1 by
// turns, so that a block may go on while others read what it left. Dynamic shared memory: a Spread for each, 11 times.
template <int W, int SHARE>
WS_DEVICE void meet_columns(Spread (&spread)[W], int turn) {
  constexpr int kAcross = pack_across(W), kRow = kAcross * W, kWarps = kPackThreads / 32;
  Spread* const of_warp = reinterpret_cast<Spread*>(shared());   // [kWarps][kRow]
  Spread* const of_block = of_warp + (kWarps + turn) * kRow;      // of this turn, for the cluster
  Spread* const of_all = of_warp + (kWarps + 2) * kRow;
  const int at = thread() % kAcross * W;
#pragma unroll
  for (int v = 0; v < W; ++v) {
#pragma unroll
    for (int step = kAcross; step < 32; step *= 2) spread[v].join(shuffle_xor(spread[v], step));
    if (thread() % 32 < kAcross) of_warp[thread() / 32 * kRow + at + v] = spread[v];
  }
  sync_block();
  Spread all = {0, 0, 0, 0};
  if (thread() < kRow) {
#pragma unroll
    for (int w = 0; w < kWarps; ++w) all.join(of_warp[w * kRow + thread()]);
  }
  if constexpr (SHARE > 1) {
    if (thread() < kRow) of_block[thread()] = all;
    sync_cluster();
    all = {0, 0, 0, 0};
    if (thread() < kRow) {
#pragma unroll
      for (int rank = 0; rank < SHARE; ++rank) all.join(peer(of_block, rank)[thread()]);
    }
  }
  if (thread() < kRow) of_all[thread()] = all;
  sync_block();
#pragma unroll
  for (int v = 0; v < W; ++v) spread[v] = of_all[at + v];
}

// Rows that lie beside each other, pack_across vectors of them by SHARE blocks (a cluster, where they are packed in two
// parts), each a part of K. True: this thread was at one that is too wide.
template <class G, bool B, class T, int PARTS, bool SCALED, int SHARE>
WS_DEVICE bool pack_columns(const G& g, T* parts, float* back) {
  using O = Operand<G, B, T>;
  using Index = typename G::Index;
  constexpr int W = O::kWidth, kBeside = pack_across(W), kDown = kPackThreads / kBeside;
  constexpr int kEach = (O::kK + kDown * SHARE - 1) / (kDown * SHARE);   // of a thread
  constexpr bool kOnce = SCALED && kEach * W <= kMostKeptBeside, kEven = O::kK % (kDown * SHARE) == 0;
  constexpr long long kAcross = (O::kRows + kBeside * W - 1) / (kBeside * W), kJobs = kAcross * G::kBatch;
  const O operand{g};
  const Index from = (block() % SHARE) * kEach * kDown + thread() / kBeside;
  const Index end = O::kK - from < kEach * kDown ? Index(O::kK) : Index(from + kEach * kDown);
  bool any = false;
  for (long long job = block() / SHARE; job < kJobs; job += blocks() / SHARE) {
    const Index batch = job / kAcross, at = (job % kAcross * kBeside + thread() % kBeside) * W;
    const bool inside = at < Index(O::kRows);   // or it reads the last ones, to come where the others meet
    const Index row = inside ? at : Index(O::kRows - W);
    // Where rows are scaled it is told how the place is made: not knowing cost more registers than its stores.
    const long long first_at = O::at(static_cast<long long>(batch) * PARTS, row, 0);
    T* const first = parts + (SCALED ? first_at : placed(first_at));
    if constexpr (!SCALED) {
#pragma unroll 4
      for (Index k = from; k < end; k += kDown) {
        typename G::Sum x[W];
        operand.read(batch, row, k, x);
        T narrowed[W];
        narrow(x, narrowed);
        if (inside) store<W, T, 0>(first + k * O::kLine, narrowed);
      }
    } else {
      float kept[kOnce ? kEach : 1][W], down[W], up[W];
      Spread spread[W];
#pragma unroll
      for (int v = 0; v < W; ++v) spread[v] = {0, 0, 0, 0};
      const auto read = [&](Index k, float (&x)[W]) { operand.read(batch, row, k, x); };
      const auto see = [&](Index, float (&x)[W]) {
#pragma unroll
        for (int v = 0; v < W; ++v) spread[v].see(x[v]);
      };
      const auto read_and_see = [&](Index k, float (&x)[W]) { read(k, x); see(k, x); };
      if constexpr (kOnce) {
        visit_all<kOnce, kEven, kEach, kDown>(from, end, kept, read);
        visit_all<kOnce, kEven, kEach, kDown>(from, end, kept, see);
      } else {
        visit_all<kOnce, kEven, kEach, kDown>(from, end, kept, read_and_see);
      }
      meet_columns<W, SHARE>(spread, 0);
#pragma unroll
      for (int v = 0; v < W; ++v) {
        const RowScale scale(spread[v].most);
        up[v] = scale.up;
        down[v] = scale.back;
        spread[v].begin_count();
      }
      visit_all<kOnce, kEven, kEach, kDown>(from, end, kept, [&](Index k, float (&x)[W]) {
        if constexpr (!kOnce) read(k, x);
        T greater[W], lesser[W];
#pragma unroll
        for (int v = 0; v < W; ++v) part<PARTS>(x[v] * up[v], greater[v], lesser[v], spread[v]);
        if (!inside) return;
        store<W, T, 0>(first + k * O::kLine, greater);
        if constexpr (PARTS == 2) store<W, T, 0>(first + O::kPart + k * O::kLine, lesser);
      });
      meet_columns<W, SHARE>(spread, 1);
#pragma unroll
      for (int v = 0; v < W; ++v) {
        const RowKind kind = kind_of(spread[v], O::kK);
        any = any || kind >= kWideRow;
        if (inside && block() % SHARE == 0 && thread() < kBeside) back[batch * O::kRows + row + v] = back_of(down[v], kind);
      }
    }
  }
  if constexpr (SCALED && SHARE > 1) sync_cluster();   // what this block left has been read
  return any;
}

// The greatest kind that a thread of the block has; the first words of shared memory are used.
WS_DEVICE int greatest_of_block(int kind) {
  int* const seen = reinterpret_cast<int*>(shared());   // of a kind, whether some thread has it
  sync_block();
  if (thread() <= kLoneRow) seen[thread()] = 0;
  sync_block();
  seen[kind] = 1;
  sync_block();
  int greatest = kLoneRow;
  while (greatest > kDenseRow && seen[greatest] == 0) --greatest;
  sync_block();
  return greatest;
}

// Whether it holds for any thread of the block; the first word of shared memory is used.
WS_DEVICE bool any_of_block(bool one) {
  int* const word = reinterpret_cast<int*>(shared());
  sync_block();
  if (thread() == 0) *word = 0;
  sync_block();
  if (one) *word = 1;
  sync_block();
  const bool any = *word != 0;
  sync_block();
  return any;
}

// Lines of an operand's elements in memory that begin anywhere: of the buffer, of so many ELEMENTS, before the first; from
// a batch to the next; from a line to the next. NoLines: the operand is made of something.
template <long long OFFSET, long long BATCH, long long LINE, long long ELEMENTS>
struct UnevenLines {
  static constexpr bool kThere = true;
  static constexpr long long kOffset = OFFSET, kBatch = BATCH, kLine = LINE, kElements = ELEMENTS;
};
struct NoLines {
  static constexpr bool kThere = false;
};

// Eight elements of 16 bits from element `at` of a buffer of ELEMENTS, which begins at a multiple of 16 bytes; those
// behind its end are undefined, and are not touched.
template <long long ELEMENTS>
WS_DEVICE void load_eight(const unsigned short* buffer, long long at, unsigned short (&x)[8]) {
  const long long first = at / 8 * 8;
  if (first + 16 > ELEMENTS) {
#pragma unroll
    for (int v = 0; v < 8; ++v) x[v] = at + v < ELEMENTS ? buffer[at + v] : 0;
    return;
  }
  const int by = static_cast<int>(at - first);
  unsigned words[8];
  load<4, unsigned, 0>(reinterpret_cast<const unsigned*>(buffer + first), reinterpret_cast<unsigned (&)[4]>(words[0]));
  if (by > 0) load<4, unsigned, 0>(reinterpret_cast<const unsigned*>(buffer + first + 8), reinterpret_cast<unsigned (&)[4]>(words[4]));
#pragma unroll
  for (int step = 4; step > 1; step /= 2) {
#pragma unroll
    for (int i = 0; i + step / 2 < 8; ++i) words[i] = (by & step) != 0 ? words[i + step / 2] : words[i];
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) words[i] = (by & 1) != 0 ? words[i] >> 16 | words[i + 1] << 16 : words[i];
  memcpy(x, words, sizeof(x));
}

// Copies lines of elements as they are to where lines begin evenly.
template <class G, bool B, class T, class LINES>
WS_DEVICE void copy_lines(const void* from, T* to) {
  using O = Operand<G, B, T>;
  constexpr long long kInner = O::kAlongRows ? O::kRows : O::kK, kLines = O::kAlongRows ? O::kK : O::kRows;
  constexpr long long kVectors = (kInner + 7) / 8, kAll = G::kBatch * kLines * kVectors;
#pragma unroll 4
  for (long long i = block() * kPackThreads + thread(); i < kAll; i += blocks() * kPackThreads) {
    const long long line = i / kVectors % kLines, batch = i / (kVectors * kLines), inner = i % kVectors * 8;
    unsigned short x[8];
    load_eight<LINES::kElements>(static_cast<const unsigned short*>(from),
                                 LINES::kOffset + batch * LINES::kBatch + line * LINES::kLine + inner, x);
    store<8, unsigned short, 0>(reinterpret_cast<unsigned short*>(to) + placed(batch * O::kPart + line * O::kLine + inner), x);
  }
}

// All blocks, a multiple of SHARE, pack A, B or both; of one that others pack both pointers are null. LANES_A, LANES_B: threads that share a row that lies along K. `wide`
// is told by each block whether it was at rows that are too wide; behind that it has a word for who multiplies. LINES_A,
// LINES_B: of operands of one part that are copied as they are, `from_a` and `from_b`.
template <class G, class T, int PARTS, bool SCALED, bool A, bool B, int LANES_A, int LANES_B, int SHARE, class LINES_A, class LINES_B>
WS_DEVICE void contract_pack(const G& g, T* a, float* back_a, T* b, float* back_b, int* wide, const void* from_a, const void* from_b) {
  bool any = false;
  if constexpr (A) {
    if constexpr (LINES_A::kThere) copy_lines<G, false, T, LINES_A>(from_a, a);
    else if constexpr (Operand<G, false, T>::kAlongRows) any = pack_columns<G, false, T, PARTS, SCALED, SHARE>(g, a, back_a);
    else any = pack_rows<G, false, T, PARTS, SCALED, LANES_A>(g, a, back_a);
  }
  if constexpr (A && B) sync_block();   // shared memory is B's
  if constexpr (B) {
    bool other = false;
    if constexpr (LINES_B::kThere) copy_lines<G, true, T, LINES_B>(from_b, b);
    else if constexpr (Operand<G, true, T>::kAlongRows) other = pack_columns<G, true, T, PARTS, SCALED, SHARE>(g, b, back_b);
    else other = pack_rows<G, true, T, PARTS, SCALED, LANES_B>(g, b, back_b);
    any = any || other;
  }
  if constexpr (SCALED) {
    any = any_of_block(any);
    if (thread() == 0) wide[block()] = any;
    if (block() == 0 && thread() == 0) wide[blocks()] = 0;
    // Of an operand that the products' kernel makes two parts of itself, and says where it is too wide; not where it is dense.
    const auto none = [](float* back, long long rows) {
      if (back == nullptr) return;
      for (long long i = block() * kPackThreads + thread(); i < rows; i += blocks() * kPackThreads) back[i] = back_of(1, kThinRow);
    };
    if constexpr (!A) none(back_a, (long long)(G::kBatch) * G::kM);
    if constexpr (!B) none(back_b, (long long)(G::kBatch) * G::kN);
  }
}

// ---- what becomes of sums of operands in two parts

// The glue G for products of parts (REST: for those that are made in fp32): sums are multiplied by what their rows
// were divided by. Neighbours that are finished together are of one kind: one that is made in fp32 makes all so.
// ONE: all of B was divided by one.
template <class G, bool REST, bool ONE = false>
struct Scaled : G {
  const float* back_a;   // [batch][M]
  const float* back_b;   // [batch][N], or one
  bool all = false;      // are made in fp32
  WS_DEVICE Scaled(const G& g, const float* back_a, const float* back_b) : G(g), back_a(back_a), back_b(back_b) {}
  static WS_DEVICE long long at_b(long long batch, long long n) { return ONE ? 0 : batch * G::kN + n; }
  // Whether sums of a row and these columns are another kernel's.
  template <int W>
  WS_DEVICE bool leaves_out(float a, const float (&b)[W]) const {
    bool rest = all;
#pragma unroll
    for (int v = 0; v < W; ++v) rest = rest || is_rest(kind_of(a), kind_of(b[v]));
    return rest != REST;
  }
  template <int W>
  WS_DEVICE void finish(typename G::Index batch, typename G::Index m, typename G::Index n, const float (&sums)[W]) const {
    const float a = back_a[batch * G::kM + m];
    float b[W], done[W];
#pragma unroll
    for (int v = 0; v < W; ++v) b[v] = back_b[at_b(batch, n + v)];
    if (leaves_out(a, b)) return;
#pragma unroll
    for (int v = 0; v < W; ++v) done[v] = REST ? sums[v] : sums[v] * factor_of(a) * factor_of(b[v]);
    G::template finish<W>(batch, m, n, done);
  }
};

// The glue of operands of which A, B or both were packed in PARTS of T, for the plain main loop: what the tensor cores are given.
template <class G, class T, int PARTS, bool A, bool B>
struct Packed : G {
  using Sum = typename G::Sum;
  using Index = typename G::Index;
  const T* packed_a;
  const T* packed_b;
  WS_DEVICE Packed(const G& g, const T* packed_a, const T* packed_b) : G(g), packed_a(packed_a), packed_b(packed_b) {}
  template <bool OF_B, int W>
  WS_DEVICE void read(const T* from, Index batch, Index row, Index k, Sum (&x)[W]) const {
    using O = Operand<G, OF_B, T>;
    const T* const first = from + O::at(static_cast<long long>(batch) * PARTS, row, k);
#pragma unroll
    for (int v = 0; v < W; ++v) {
      x[v] = to_float(first[v]);
      if constexpr (PARTS == 2) x[v] += to_float(first[O::kPart + v]);
    }
  }
  template <int W> WS_DEVICE void a(Index batch, Index m, Index k, Sum (&x)[W]) const {
    if constexpr (A) read<false>(packed_a, batch, m, k, x); else G::template a<W>(batch, m, k, x);
  }
  template <int W> WS_DEVICE void b(Index batch, Index n, Index k, Sum (&x)[W]) const {
    if constexpr (B) read<true>(packed_b, batch, n, k, x); else G::template b<W>(batch, n, k, x);
  }
};

// The glue G of a tile of ROWS rows that lie anywhere in the operand A: `count` units of neighbours that are read at once, whose
// numbers are in shared memory. What is behind them is read of the first, and finished nowhere.
template <class G, int ROWS>
struct Gathered : G {
  using Index = typename G::Index;
  static constexpr long long kM = ROWS;
  static constexpr int kUnit = G::kAlongM ? G::kWidthA : 1;
  const int* units;
  int count;
  WS_DEVICE Gathered(const G& g, const int* units, int count) : G(g), units(units), count(count) {}
  static WS_DEVICE bool wanted(Index, Index, int, int) { return true; }
  WS_DEVICE Index row(Index m) const {
    const int unit = m / kUnit;
    return Index(units[unit < count ? unit : 0]) * kUnit + m % kUnit;
  }
  template <int W> WS_DEVICE void a(Index batch, Index m, Index k, typename G::Sum (&x)[W]) const {
    G::template a<W>(batch, row(m), k, x);
  }
  template <int W> WS_DEVICE void finish(Index batch, Index m, Index n, const typename G::Sum (&sums)[W]) const {
    if (m / kUnit < count) G::template finish<W>(batch, row(m), n, sums);
  }
};

// Units that are looked through for a tile, of which it takes those that it finds.
constexpr int kRestEach = 4, kRestWindow = kRestEach * kPackThreads;

// Of units first, first + 1 and so on, below `end`, those that is(unit) says: to `found`, the MOST from number `skip` on. How many
// there are in all. `totals`: a word a warp.
template <int MOST, class Is>
WS_DEVICE int find_units(int first, int end, int skip, int* found, int* totals, const Is& is) {
  bool mine[kRestEach];
  int count = 0;
#pragma unroll
  for (int i = 0; i < kRestEach; ++i) {
    const int unit = first + thread() * kRestEach + i;
    mine[i] = unit < end && is(unit);
    count += mine[i];
  }
  int before = count;   // of the warp's threads up to this one
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const int others = shuffle_up(before, step);
    if (thread() % 32 >= step) before += others;
  }
  sync_block();   // what was found before has been read
  if (thread() % 32 == 31) totals[thread() / 32] = before;
  sync_block();
  int all = 0;
#pragma unroll
  for (int w = 0; w < kPackThreads / 32; ++w) {
    if (w == thread() / 32) before += all;
    all += totals[w];
  }
  int at = before - count - skip;
#pragma unroll
  for (int i = 0; i < kRestEach; ++i) {
    if (mine[i] && at >= 0 && at < MOST) found[at] = first + thread() * kRestEach + i;
    at += mine[i];
  }
  sync_block();
  return all;
}

// Sums that are made in fp32, where one of the `words` of `wide`, or of what was packed once, says that there are rows that are too
// wide: for the columns of each tile those rows that need it with one of them, put together in tiles. ONE: as Scaled has it; a
// word of 2 is of an image that is too wide, and all sums are made.
template <class G, class C, bool ONE = false>
WS_DEVICE void contract_rest(const G& g, const float* back_a, const float* back_b, const int* wide, int words,
                             const int* once_wide, int once_words) {
  using Index = typename G::Index;
  using Of = Scaled<G, true, ONE>;
  using Rest = Gathered<Of, C::kTileM>;
  using Tiles = PlainContract<Rest, C>;
  constexpr int kUnit = Rest::kUnit, kOfTile = C::kTileM / kUnit, kTilesOfWindow = kRestWindow / kOfTile;
  static_assert(kRestWindow % kOfTile == 0, "whole tiles");
  constexpr long long kUnits = G::kM / kUnit, kTilesM = (kUnits + kOfTile - 1) / kOfTile;
  const auto least = [](long long a, long long b) { return a < b ? a : b; };
  int some = 0;
  for (int i = thread(); i < words; i += kPlainThreads) some = maximum(some, wide[i]);
  for (int i = thread(); i < once_words; i += kPlainThreads) some = maximum(some, once_wide[i]);
  some = greatest_of_block(some);
  if (some == 0) return;
  Of finished(g, back_a, back_b);
  finished.all = some == 2;
  int* const found = reinterpret_cast<int*>(shared() + Tiles::kSharedBytes);   // of a tile, and a word a warp behind its rows
  for (long long at = block(); at < kTilesM * Tiles::kTilesN * G::kBatch; at += blocks()) {
    const long long batch = at / (kTilesM * Tiles::kTilesN), rows = at / Tiles::kTilesN % kTilesM;
    const long long n = at % Tiles::kTilesN * Tiles::kColumns;
    const float* const of_a = back_a + batch * G::kM;
    int kind = finished.all ? kLoneRow : kDenseRow;
    for (long long i = thread(); i < least(Tiles::kColumns, G::kN - n); i += kPlainThreads)
      kind = maximum(kind, kind_of(back_b[Of::at_b(batch, n + i)]));
    kind = greatest_of_block(kind);
    const int skip = static_cast<int>(rows % kTilesOfWindow) * kOfTile;
    const int there = find_units<kOfTile>(static_cast<int>(rows / kTilesOfWindow) * kRestWindow, static_cast<int>(kUnits), skip, found, found + C::kTileM, [&](int unit) {
      bool is = false;
#pragma unroll
      for (int v = 0; v < kUnit; ++v) is = is || is_rest(kind_of(of_a[unit * kUnit + v]), kind);
      return is;
    });
    if (there <= skip) continue;
    const Rest rest(finished, found, there - skip < kOfTile ? there - skip : kOfTile);
    Tiles(rest, static_cast<Index>(batch * Tiles::kTilesN + at % Tiles::kTilesN)).run(nullptr);
  }
}

}  // namespace ws
