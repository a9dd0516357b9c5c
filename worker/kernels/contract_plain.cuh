// Skeleton contract by ordinary instructions, on any card and on the host: Y[b, m, n] = finish(sum of k:
// A[b, m, k] B[b, n, k]).
//
// A block of 256 threads computes a tile of TILE_M x TILE_N, STEP of K at a time: the next step's operands are
// read into registers while the present one's, in shared memory, are multiplied. A thread has TILE_M / 16 x
// TILE_N / 16 of the tile. Sums of RUN elements of K are added up in TOTAL, so that the error of a long sum grows
// with the length of its runs. With SPLIT > 1 that many blocks share a tile's K and leave their sums
// [SPLIT][batch][M][N] for `contract_combine`, which adds them up in their order. SCALED: a run's sums are multiplied by
// the glue's run_a(b, m, k) and run_b(b, n, k), of its first k, where they join.
//
// The glue G says what the operands are and what becomes of a sum:
//   Index, Sum (of products: float, double, int, long long), kBatch, kM, kN, kK
//   kWidthA, kAlongM: a<kWidthA>(b, m, k, x) reads so many neighbours along M, or else along K; of B likewise
//   kWidth: finish<kWidth>(b, m, n, sums) takes so many neighbours along N. It is load_end(b, m, n, raw), what it reads that
//   a row has of its own, a RawEnd of kRawEnd words, and finish<kWidth>(b, m, n, raw, sums); load_end is load_row(b, m, raw), of the
//   RawRow of kRawRow words in it that all of a row has alike, and load_own(b, m, n, raw)
//   wanted(m, n, rows, columns): whether a tile from (m, n) on has sums that matter; the others' may be zero
//   kPair: there are two products of A, the other with second<kWidthB>(b, n, k, x) for B. Half of a tile's columns are one's, half
//   the other's, of the same N; finish takes kWidth sums of the first and then as many of the second
//   kRowPairs: what finish writes of rows 2i and 2i + 1 lies side by side, and of neighbours along N it does not; kRowsTogether: there
//   is also finish_rows<2>(b, m, n, raw, sums), which takes both of a column, of a RawRows (kRawRows words) that load_rows reads, and of
//   it load_of_rows what all of two rows has alike, a RawOfRows (kRawOfRows), and load_rows_own the others
//   kTotalDown, kTotalAcross: finish has a further argument, `value`, in which it leaves what is summed over M or over N; there is no
//   pair, and Sum is float. What tiles leave of the sums is added up by `contract_totals`, which calls total_down(b, n, sum) or
//   total_across(b, m, sum) for each
// Widths divide what they lie along. All of a tile that is inside the result is finished once.
#pragma once

#include <warpsmith/base.cuh>

namespace ws {

template <int TILE_M, int TILE_N, int STEP, int RUN, int SPLIT, int RASTER, class TOTAL, bool SCALED = false>
struct PlainConfig {
  static constexpr bool kScaled = SCALED;
  static constexpr int kTileM = TILE_M, kTileN = TILE_N, kStep = STEP, kRun = RUN, kSplit = SPLIT, kRaster = RASTER;
  using Total = TOTAL;
};

constexpr int kPlainThreads = 256;

// Of integers modulo 2^32 and 2^64.
WS_DEVICE float times(float a, float b) { return a * b; }
WS_DEVICE double times(double a, double b) { return a * b; }
WS_DEVICE int times(int a, int b) { return static_cast<int>(static_cast<unsigned>(a) * static_cast<unsigned>(b)); }
WS_DEVICE long long times(long long a, long long b) {
  return static_cast<long long>(static_cast<unsigned long long>(a) * static_cast<unsigned long long>(b));
}
WS_DEVICE float plus(float a, float b) { return a + b; }
WS_DEVICE double plus(double a, double b) { return a + b; }
WS_DEVICE int plus(int a, int b) { return static_cast<int>(static_cast<unsigned>(a) + static_cast<unsigned>(b)); }
WS_DEVICE long long plus(long long a, long long b) {
  return static_cast<long long>(static_cast<unsigned long long>(a) + static_cast<unsigned long long>(b));
}

// The nearest number of eleven significant bits; of two that are as near the greater in size (cvt.rna.tf32).
WS_DEVICE float eleven_bits(float x) {
  const float rounded = bits_float((float_bits(x) + 0x1000u) & ~0x1fffu);
  return fabsf(x) < bits_float(0x7f800000u) ? rounded : x;
}

WS_DEVICE float finite_or_nan(float x) { return fmaf(x, 0.0f, x); }

// Where tiles leave what they add to sums over M, [batch][parts of M][N], and over N, [batch][parts of N][M].
struct EndTotals {
  float *down, *across;
};

template <class G, class C>
struct PlainContract {
  using Index = typename G::Index;
  using Sum = typename G::Sum;
  using Total = typename C::Total;
  static constexpr int kEachM = C::kTileM / 16, kEachN = C::kTileN / 16;   // of a thread
  static constexpr int kPitchM = C::kTileM + 4, kPitchN = C::kTileN + 4;   // of a row of one k in shared memory
  static constexpr int kStage = C::kStep * (kPitchM + kPitchN);
  static constexpr int kSharedBytes = 2 * kStage * sizeof(Sum);
  static constexpr int kOf = G::kPair ? 2 : 1;
  static constexpr int kColumns = C::kTileN / kOf, kEachColumn = kEachN / kOf;   // of N, of a tile and of a thread
  static constexpr Index kTilesM = (G::kM + C::kTileM - 1) / C::kTileM, kTilesN = (G::kN + kColumns - 1) / kColumns;
  // A block's part of K, whole runs.
  static constexpr int kUnit = C::kRun > 0 ? C::kRun : C::kStep;
  static constexpr Index kPart = ((G::kK + kUnit - 1) / kUnit + C::kSplit - 1) / C::kSplit * kUnit;
  static_assert(C::kRun % C::kStep == 0, "runs are whole steps");

  // Neighbours of a thread among its rows (or columns), and where row i of thread t is in the tile.
  static WS_DEVICE constexpr int chunk(int each) { return each % 4 == 0 ? 4 : each % 2 == 0 ? 2 : 1; }
  static WS_DEVICE constexpr int place(int each, int t, int i) {
    return i / chunk(each) * 16 * chunk(each) + t * chunk(each) + i % chunk(each);
  }

  // Where the thread's sum j of a row is in the tile.
  static WS_DEVICE constexpr int column(int x, int j) { return j / kEachColumn * kColumns + place(kEachColumn, x, j % kEachColumn); }

  // A step of one operand, or of OF, on its way to shared memory, where each k has a row of the tile's rows, all of one
  // operand's and then of the other's.
  template <int TILE, int W, bool ALONG, int PITCH, int OF>
  struct Step {
    static constexpr int kRows = TILE / OF;
    static constexpr int kVectors = TILE * C::kStep / W, kEach = (kVectors + kPlainThreads - 1) / kPlainThreads;
    static_assert(C::kStep % W == 0 && kRows % W == 0, "vectors lie within a step");
    Sum x[kEach][W];

    static WS_DEVICE int row(int v) { return ALONG ? v % (TILE / W) * W : v / (C::kStep / W); }
    static WS_DEVICE int k(int v) { return ALONG ? v / (TILE / W) : v % (C::kStep / W) * W; }

    // read(which, row, k, x) for what is below ROWS and `end`; the rest is zero, and read at the beginning instead, so that
    // nothing branches: all loads of a step are asked for before the first has come. WHOLE: every step lies below `end`.
    template <Index ROWS, bool WHOLE, class Read>
    WS_DEVICE void bring(Index row0, Index k0, Index end, Read&& read) {
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        const int v = i * kPlainThreads + thread();
        if (kVectors % kPlainThreads != 0 && v >= kVectors) continue;
        const int which = OF == 1 ? 0 : row(v) / kRows;
        const Index at = row0 + row(v) - which * kRows, along = k0 + k(v);
        const bool is_row = ROWS % kRows == 0 || at < ROWS, is_k = WHOLE || along < end;
        read(which, is_row ? at : Index(0), is_k ? along : Index(0), x[i]);
#pragma unroll
        for (int j = 0; j < W; ++j) x[i][j] = is_row && is_k ? x[i][j] : Sum(0);
      }
    }
    WS_DEVICE void put(Sum* to) const {
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        const int v = i * kPlainThreads + thread();
        if (kVectors % kPlainThreads != 0 && v >= kVectors) continue;
#pragma unroll
        for (int j = 0; j < W; ++j) to[(k(v) + (ALONG ? 0 : j)) * PITCH + row(v) + (ALONG ? j : 0)] = x[i][j];
      }
    }
  };
  using StepA = Step<C::kTileM, G::kWidthA, G::kAlongM, kPitchM, 1>;
  using StepB = Step<C::kTileN, G::kWidthB, G::kAlongN, kPitchN, kOf>;

  const G& g;
  Index batch, part, m, n;   // of the block: its tile's first row and column
  Index from, to;            // its K

  // Tiles of a batch, RASTER rows of them at a time, column by column.
  WS_DEVICE explicit PlainContract(const G& g, Index at) : g(g) {
    const Index tiles = kTilesM * kTilesN, within = at % tiles;
    part = at / tiles % C::kSplit;
    batch = at / tiles / C::kSplit;
    const Index first = within / (C::kRaster * kTilesN) * C::kRaster;
    const Index rows = kTilesM - first < C::kRaster ? kTilesM - first : Index(C::kRaster);
    const Index rest = within % (C::kRaster * kTilesN);
    m = (first + rest % rows) * C::kTileM;
    n = rest / rows * kColumns;
    from = part * kPart;
    to = from + kPart < Index(G::kK) ? from + kPart : Index(G::kK);
    if (!G::wanted(m, n, C::kTileM, kColumns)) to = from;
  }

  WS_DEVICE void bring(Index k, StepA& a, StepB& b) const {
    constexpr bool kWhole = G::kK % C::kStep == 0;
    a.template bring<Index(G::kM), kWhole>(m, k, to, [&](int, Index row, Index at, Sum (&x)[G::kWidthA]) {
      g.template a<G::kWidthA>(batch, row, at, x);
    });
    b.template bring<Index(G::kN), kWhole>(n, k, to, [&](int which, Index row, Index at, Sum (&x)[G::kWidthB]) {
      if constexpr (G::kPair) {
        if (which == 1) return g.template second<G::kWidthB>(batch, row, at, x);
      }
      g.template b<G::kWidthB>(batch, row, at, x);
    });
  }

  WS_DEVICE void multiply(const Sum* stage, Sum (&sums)[kEachM][kEachN]) const {
    const Sum* const rows = stage;
    const Sum* const columns = stage + C::kStep * kPitchM;
    const int y = thread() / 16, x = thread() % 16;
    // Some 128 products between branches.
    constexpr int kOfK = kEachM * kEachN, kUnroll = kOfK >= 64 ? 2 : 128 / kOfK < C::kStep ? 128 / kOfK : C::kStep;
#pragma unroll kUnroll
    for (int k = 0; k < C::kStep; ++k) {
      Sum a[kEachM], b[kEachN];
#pragma unroll
      for (int i = 0; i < kEachM; ++i) a[i] = rows[k * kPitchM + place(kEachM, y, i)];
#pragma unroll
      for (int j = 0; j < kEachN; ++j) b[j] = columns[k * kPitchN + column(x, j)];
#pragma unroll
      for (int i = 0; i < kEachM; ++i) {
#pragma unroll
        for (int j = 0; j < kEachN; ++j) sums[i][j] = plus(sums[i][j], times(a[i], b[j]));
      }
    }
  }

  template <class To, class F>
  static WS_DEVICE void each(To& to, F&& f) {
#pragma unroll
    for (int i = 0; i < kEachM; ++i) {
#pragma unroll
      for (int j = 0; j < kEachN; ++j) f(to[i][j], i, j);
    }
  }

  // All threads of the block. `partial`: [SPLIT][batch][M][N], null without a split.
  WS_DEVICE void run(Total* partial, EndTotals left = {nullptr, nullptr}) const {
    Sum* const stages = reinterpret_cast<Sum*>(shared());
    Sum sums[kEachM][kEachN];
    Total totals[kEachM][kEachN];
    each(sums, [](Sum& sum, int, int) { sum = 0; });
    each(totals, [](Total& total, int, int) { total = 0; });
    StepA a;
    StepB b;
    if (from < to) {   // the last parts of K may have nothing
      bring(from, a, b);
      a.put(stages);
      b.put(stages + C::kStep * kPitchM);
    }
    sync_block();
    int turn = 0;
#pragma unroll 1
    for (Index k = from; k < to; k += C::kStep) {
      const bool more = k + C::kStep < to;
      if (more) bring(k + C::kStep, a, b);
      multiply(stages + turn * kStage, sums);
      if (C::kRun > 0 && (k - from + C::kStep) % C::kRun == 0) {
        if constexpr (C::kScaled) scale(k + C::kStep - C::kRun, sums);
        each(totals, [&](Total& total, int i, int j) { total = plus(total, Total(sums[i][j])); });
        each(sums, [](Sum& sum, int, int) { sum = 0; });
      }
      turn ^= 1;
      if (more) {
        a.put(stages + turn * kStage);
        b.put(stages + turn * kStage + C::kStep * kPitchM);
      }
      sync_block();
    }
    each(totals, [&](Total& total, int i, int j) { total = plus(total, Total(sums[i][j])); });
    if constexpr (G::kTotalDown || G::kTotalAcross) finish_and_total(totals, left); else store(totals, partial);
  }

  // Parts of the sums are a tile's.
  WS_DEVICE void finish_and_total(const Total (&totals)[kEachM][kEachN], EndTotals left) const {
    static_assert(kOf == 1 && C::kSplit == 1, "sums of what tiles finish alone");
    const int y = thread() / 16, x = thread() % 16;
    constexpr int W = G::kWidth;
    Sum down[kEachN], across[kEachM];
#pragma unroll
    for (int j = 0; j < kEachN; ++j) down[j] = 0;
#pragma unroll
    for (int i = 0; i < kEachM; ++i) {
      across[i] = 0;
      const Index row = m + place(kEachM, y, i);
      if (row >= Index(G::kM)) continue;
#pragma unroll
      for (int j = 0; j < kEachN; j += W) {
        const Index at_n = n + column(x, j);
        if (at_n >= Index(G::kN)) continue;
        Sum done[W], value[W];
#pragma unroll
        for (int v = 0; v < W; ++v) done[v] = static_cast<Sum>(totals[i][j + v]);
        g.template finish<W>(batch, row, at_n, done, value);
#pragma unroll
        for (int v = 0; v < W; ++v) down[j + v] += value[v], across[i] += value[v];
      }
    }
    Sum* const box = reinterpret_cast<Sum*>(shared());   // [16][rows or columns of the tile]
    const auto leave = [&](int lines, Index first, Index end, long long part, float* to) {
      sync_block();
      for (int line = thread(); line < lines; line += kPlainThreads) {
        Sum sum = 0;
        for (int t = 0; t < 16; ++t) sum += box[t * lines + line];
        if (first + line < end) to[part * end + first + line] = sum;
      }
      sync_block();
    };
    if constexpr (G::kTotalDown) {
#pragma unroll
      for (int j = 0; j < kEachN; ++j) box[y * C::kTileN + column(x, j)] = down[j];
      leave(C::kTileN, n, Index(G::kN), (long long)(batch) * kTilesM + m / C::kTileM, left.down);
    }
    if constexpr (G::kTotalAcross) {
#pragma unroll
      for (int i = 0; i < kEachM; ++i) box[x * C::kTileM + place(kEachM, y, i)] = across[i];
      leave(C::kTileM, m, Index(G::kM), (long long)(batch) * kTilesN + n / C::kTileN, left.across);
    }
  }

  // Sums of the run from k on, times its scales.
  WS_DEVICE void scale(Index k, Sum (&sums)[kEachM][kEachN]) const {
    const int y = thread() / 16, x = thread() % 16;
    const auto inside = [](Index at, Index end) { return at < end ? at : end - 1; };
    each(sums, [&](Sum& sum, int i, int j) {
      sum *= g.run_a(batch, inside(m + place(kEachM, y, i), G::kM), k) * g.run_b(batch, inside(n + column(x, j), G::kN), k);
    });
  }

  WS_DEVICE void store(const Total (&totals)[kEachM][kEachN], Total* partial) const {
    const int y = thread() / 16, x = thread() % 16;
    constexpr int W = G::kWidth;
    static_assert(chunk(kEachColumn) % W == 0, "a thread has whole vectors");
    static_assert(kOf == 1 || C::kSplit == 1, "sums of one product are left for who adds them up");
#pragma unroll
    for (int i = 0; i < kEachM; ++i) {
      const Index row = m + place(kEachM, y, i);
      if (row >= Index(G::kM)) continue;
#pragma unroll
      for (int j = 0; j < kEachColumn; j += W) {
        const Index at_n = n + column(x, j);
        if (at_n >= Index(G::kN)) continue;
        if constexpr (C::kSplit > 1) {
          Total left[W];
#pragma unroll
          for (int v = 0; v < W; ++v) left[v] = totals[i][j + v];
          ws::store<W, Total, 0>(partial + placed((((long long)(part) * G::kBatch + batch) * G::kM + row) * G::kN + at_n), left);
        } else {
          Sum done[kOf * W];
#pragma unroll
          for (int v = 0; v < kOf * W; ++v) done[v] = static_cast<Sum>(totals[i][v / W * kEachColumn + j + v % W]);
          g.template finish<W>(batch, row, at_n, done);
        }
      }
    }
  }
};

template <class G, class C>
WS_DEVICE void contract_plain(const G& g, typename C::Total* partial, EndTotals left = {nullptr, nullptr}) {
  PlainContract<G, C>(g, block()).run(partial, left);
}

// Adds up what was left of sums over M (DOWN) or over N, so many parts of each: 32 sums a block, by eight threads each, in an
// order of their own. Dynamic shared memory: a float a thread.
template <class G, bool DOWN>
WS_DEVICE void contract_totals(const G& g, int parts, const float* left) {
  using Index = typename G::Index;
  constexpr int kAcross = 32, kDown = kPlainThreads / kAcross;
  constexpr long long kLines = DOWN ? G::kN : G::kM, kJobs = (kLines + kAcross - 1) / kAcross;
  const long long batch = block() / kJobs, line = block() % kJobs * kAcross + thread() % kAcross;
  float sum = 0;
  if (line < kLines) {
    const float* const from = left + batch * parts * kLines + line;
#pragma unroll 4
    for (int part = thread() / kAcross; part < parts; part += kDown) sum += from[part * kLines];
  }
  float* const sums = reinterpret_cast<float*>(shared());
  sums[thread()] = sum;
  sync_block();
  if (thread() >= kAcross || line >= kLines) return;
#pragma unroll
  for (int i = 1; i < kDown; ++i) sum += sums[i * kAcross + thread()];
  if constexpr (DOWN) g.total_down(Index(batch), Index(line), sum); else g.total_across(Index(batch), Index(line), sum);
}

// What `split` blocks left of each sum, and its end. A thread: kWidth neighbours along N.
template <class G, class Total>
WS_DEVICE void contract_combine(const G& g, int split, const Total* partial) {
  using Index = typename G::Index;
  using Sum = typename G::Sum;
  constexpr int W = G::kWidth;
  const long long sums = (long long)(G::kBatch) * G::kM * G::kN;
  const long long at = ((long long)(block()) * kPlainThreads + thread()) * W;
  if (at >= sums) return;
  Total totals[W];
  load<W, Total, 0>(partial + at, totals);
#pragma unroll 4
  for (int s = 1; s < split; ++s) {
    Total more[W];
    load<W, Total, 0>(partial + s * sums + at, more);
#pragma unroll
    for (int v = 0; v < W; ++v) totals[v] = plus(totals[v], more[v]);
  }
  Sum done[W];
#pragma unroll
  for (int v = 0; v < W; ++v) done[v] = static_cast<Sum>(totals[v]);
  const Index n = at % G::kN, row = at / G::kN;
  g.template finish<W>(row / Index(G::kM), row % Index(G::kM), n, done);
}

}  // namespace ws
