// Operands of the skeleton contract that the copy engine cannot bring as they are, written out for it: [batch x
// parts][rows][K], or [batch x parts][K][rows] where neighbours lie along the rows, in 16 bits, each line of
// memory at a multiple of 16 bytes.
//
// In one part: elements that have 16 bits. In two parts of fp16: elements of fp32, each row times a power of two
// that brings its largest near fp16's, so that what the second part leaves is 2^-24 of an element. Where a row is
// too wide for that (many of its elements are lost to fp16's least numbers) or has infinities or NaN, products
// with it are made in fp32 instead: `contract_rest`.
#pragma once

#include <warpsmith/contract_plain.cuh>

namespace ws {

// One operand of the glue G (contract_plain.cuh): A, or B.
template <class G, bool B>
struct Operand {
  static constexpr int kWidth = B ? G::kWidthB : G::kWidthA;
  static constexpr bool kAlongRows = B ? G::kAlongN : G::kAlongM;
  static constexpr long long kRows = B ? G::kN : G::kM, kK = G::kK;
  static constexpr int kEven = 8;   // elements of 16 bytes
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

// What a thread has seen of a row: its largest, whether all are numbers, and how many lose digits.
struct Spread {
  float most;
  int lost, counted;
  WS_DEVICE void see(float x) { most = fmaxf(most, fabsf(x)); if (x != x) most = bits_float(0x7f800000u); }
  WS_DEVICE void join(const Spread& other) {
    most = fmaxf(most, other.most);
    lost += other.lost;
    counted += other.counted;
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

// An element in two parts; counts it among those that keep fewer than 20 digits if so.
WS_DEVICE void part(float x, f16& greater, f16& lesser, Spread& spread) {
  greater = from_float<f16>(x);
  const float rest = x - to_float(greater);
  lesser = from_float<f16>(rest);
  spread.counted += x != 0;
  spread.lost += fabsf(rest - to_float(lesser)) > 0x1p-20f * fabsf(x);
}

// What a row's products have to be multiplied by again; NaN: they are made in fp32 instead.
WS_DEVICE float back_of(const Spread& spread, float back) {
  const bool wide = !(spread.most < bits_float(0x7f800000u)) || spread.lost * 16 > spread.counted;
  return wide ? bits_float(0x7fc00000u) : back;
}

// A block: one row that lies along K. Rows that a thread has few vectors of are read once.
template <class G, bool B, class T, int PARTS>
WS_DEVICE void pack_row(const G& g, long long job, T* parts, float* back) {
  using O = Operand<G, B>;
  using Index = typename G::Index;
  constexpr int W = O::kWidth, kVectors = (O::kK + W * kPackThreads - 1) / (W * kPackThreads);
  constexpr int kKept = PARTS == 1 ? 0 : kVectors * W <= 32 ? kVectors : 0;
  const O operand{g};
  const Index batch = job / O::kRows, row = job % O::kRows;
  T* const first = parts + O::at(static_cast<long long>(batch) * PARTS, row, 0);
  if constexpr (PARTS == 1) {
    for (Index k = thread() * W; k < Index(O::kK); k += kPackThreads * W) {
      typename G::Sum x[W];
      operand.read(batch, row, k, x);
      T narrow[W];
#pragma unroll
      for (int v = 0; v < W; ++v) narrow[v] = from_float<T>(x[v]);
      store<W, T, 0>(first + k, narrow);
    }
  } else {
    T* const second = first + O::kPart;
    float kept[kKept > 0 ? kKept : 1][W];
    Spread spread = {0, 0, 0};
    const auto take = [&](Index k, float (&x)[W]) {
      operand.read(batch, row, k, x);
#pragma unroll
      for (int v = 0; v < W; ++v) spread.see(x[v]);
    };
    if constexpr (kKept > 0) {
#pragma unroll
      for (int i = 0; i < kKept; ++i) {
        const Index k = (i * kPackThreads + thread()) * W;
        if (k < Index(O::kK)) take(k, kept[i]);
      }
    } else {
#pragma unroll 4
      for (Index k = thread() * W; k < Index(O::kK); k += kPackThreads * W) take(k, kept[0]);
    }
    Spread* const of_warp = reinterpret_cast<Spread*>(shared());   // of each
    const auto meet = [&] {
#pragma unroll
      for (int step = 16; step > 0; step /= 2) spread.join(shuffle_xor(spread, step));
      if (thread() % 32 == 0) of_warp[thread() / 32] = spread;
      sync_block();
      spread = of_warp[0];
#pragma unroll
      for (int w = 1; w < kPackThreads / 32; ++w) spread.join(of_warp[w]);
    };
    meet();
    const RowScale scale(spread.most);
    const auto leave = [&](Index k, const float (&x)[W]) {
      T greater[W], lesser[W];
#pragma unroll
      for (int v = 0; v < W; ++v) part(x[v] * scale.up, greater[v], lesser[v], spread);
      store<W, T, 0>(first + k, greater);
      store<W, T, 0>(second + k, lesser);
    };
    if constexpr (kKept > 0) {
#pragma unroll
      for (int i = 0; i < kKept; ++i) {
        const Index k = (i * kPackThreads + thread()) * W;
        if (k < Index(O::kK)) leave(k, kept[i]);
      }
    } else {
#pragma unroll 4
      for (Index k = thread() * W; k < Index(O::kK); k += kPackThreads * W) {
        operand.read(batch, row, k, kept[0]);
        leave(k, kept[0]);
      }
    }
    sync_block();   // what warps left has been read
    meet();
    if (thread() == 0) back[job] = back_of(spread, scale.back);
  }
}

// A block: 8 vectors of rows that lie beside each other, all of K by 32 threads each.
template <class G, bool B, class T, int PARTS>
WS_DEVICE void pack_columns(const G& g, long long job, T* parts, float* back) {
  using O = Operand<G, B>;
  using Index = typename G::Index;
  constexpr int W = O::kWidth, kAcross = 8, kDown = kPackThreads / kAcross;
  constexpr long long kJobs = (O::kRows + kAcross * W - 1) / (kAcross * W);
  const O operand{g};
  const int x_at = thread() % kAcross, k_at = thread() / kAcross;
  const Index batch = job / kJobs, row = (job % kJobs * kAcross + x_at) * W;
  const bool inside = row < Index(O::kRows);
  T* const first = parts + O::at(static_cast<long long>(batch) * PARTS, inside ? row : 0, 0);
  if constexpr (PARTS == 1) {
    if (!inside) return;
#pragma unroll 4
    for (Index k = k_at; k < Index(O::kK); k += kDown) {
      typename G::Sum x[W];
      operand.read(batch, row, k, x);
      T narrow[W];
#pragma unroll
      for (int v = 0; v < W; ++v) narrow[v] = from_float<T>(x[v]);
      store<W, T, 0>(first + k * O::kLine, narrow);
    }
  } else {
    T* const second = first + O::kPart;
    Spread spread[W];
#pragma unroll
    for (int v = 0; v < W; ++v) spread[v] = {0, 0, 0};
    if (inside) {
#pragma unroll 4
      for (Index k = k_at; k < Index(O::kK); k += kDown) {
        float x[W];
        operand.read(batch, row, k, x);
#pragma unroll
        for (int v = 0; v < W; ++v) spread[v].see(x[v]);
      }
    }
    Spread* const of_thread = reinterpret_cast<Spread*>(shared());   // [kDown][kAcross * W]
    constexpr int kRow = kAcross * W;
    const auto meet = [&] {
#pragma unroll
      for (int v = 0; v < W; ++v) of_thread[k_at * kRow + x_at * W + v] = spread[v];
      sync_block();
      if (thread() < kRow) {
        for (int d = 1; d < kDown; ++d) of_thread[thread()].join(of_thread[d * kRow + thread()]);
      }
      sync_block();
#pragma unroll
      for (int v = 0; v < W; ++v) spread[v] = of_thread[x_at * W + v];
      sync_block();
    };
    meet();
    float up[W], down[W];
#pragma unroll
    for (int v = 0; v < W; ++v) {
      const RowScale scale(spread[v].most);
      up[v] = scale.up;
      down[v] = scale.back;
    }
    if (inside) {
#pragma unroll 4
      for (Index k = k_at; k < Index(O::kK); k += kDown) {
        float x[W];
        operand.read(batch, row, k, x);
        T greater[W], lesser[W];
#pragma unroll
        for (int v = 0; v < W; ++v) part(x[v] * up[v], greater[v], lesser[v], spread[v]);
        store<W, T, 0>(first + k * O::kLine, greater);
        store<W, T, 0>(second + k * O::kLine, lesser);
      }
    }
    meet();
    if (inside && k_at == 0) {
#pragma unroll
      for (int v = 0; v < W; ++v) back[batch * O::kRows + row + v] = back_of(spread[v], down[v]);
    }
  }
}

template <class G, bool B, class T, int PARTS>
WS_DEVICE void pack(const G& g, long long job, T* parts, float* back) {
  if constexpr (Operand<G, B>::kAlongRows) pack_columns<G, B, T, PARTS>(g, job, parts, back);
  else pack_row<G, B, T, PARTS>(g, job, parts, back);
}

// All blocks: the first JOBS_A pack A, the others B. Dynamic shared memory: 12 bytes for each row of a block and
// each of the 32 threads that share it.
template <class G, class T, int PARTS, long long JOBS_A, bool BOTH>
WS_DEVICE void contract_pack(const G& g, T* a, float* back_a, T* b, float* back_b) {
  if (JOBS_A > 0 && (!BOTH || block() < JOBS_A)) {
    if constexpr (JOBS_A > 0) pack<G, false, T, PARTS>(g, block(), a, back_a);
  } else {
    if constexpr (JOBS_A == 0 || BOTH) pack<G, true, T, PARTS>(g, block() - JOBS_A, b, back_b);
  }
}

// ---- what becomes of sums of operands in two parts

// The glue G for rows that are not too wide (REST: for those that are): sums are multiplied by what their rows
// were divided by. Neighbours that are finished together are of one kind: one that is wide makes all so.
template <class G, bool REST>
struct Scaled : G {
  const float* back_a;   // [batch][M]
  const float* back_b;   // [batch][N]
  WS_DEVICE Scaled(const G& g, const float* back_a, const float* back_b) : G(g), back_a(back_a), back_b(back_b) {}
  template <int W>
  WS_DEVICE void finish(typename G::Index batch, typename G::Index m, typename G::Index n, const float (&sums)[W]) const {
    const float a = back_a[batch * G::kM + m];
    float b[W], done[W];
    bool wide = a != a;
#pragma unroll
    for (int v = 0; v < W; ++v) {
      b[v] = back_b[batch * G::kN + n + v];
      wide = wide || b[v] != b[v];
    }
    if (wide != REST) return;
#pragma unroll
    for (int v = 0; v < W; ++v) done[v] = REST ? sums[v] : sums[v] * a * b[v];
    G::template finish<W>(batch, m, n, done);
  }
};

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

// The glue of operands that were packed in two parts, for the plain main loop: what the tensor cores are given.
template <class G>
struct Parts : Scaled<G, false> {
  using Sum = typename G::Sum;
  using Index = typename G::Index;
  const f16* parts_a;
  const f16* parts_b;
  WS_DEVICE Parts(const Scaled<G, false>& g, const f16* parts_a, const f16* parts_b)
      : Scaled<G, false>(g), parts_a(parts_a), parts_b(parts_b) {}
  template <bool B, int W>
  WS_DEVICE void both(const f16* from, Index batch, Index row, Index k, Sum (&x)[W]) const {
    using O = Operand<G, B>;
    const f16* const first = from + O::at(batch * 2ll, row, k);
#pragma unroll
    for (int v = 0; v < W; ++v) x[v] = to_float(first[v]) + to_float(first[O::kPart + v]);
  }
  template <int W> WS_DEVICE void a(Index batch, Index m, Index k, Sum (&x)[W]) const { both<false>(parts_a, batch, m, k, x); }
  template <int W> WS_DEVICE void b(Index batch, Index n, Index k, Sum (&x)[W]) const { both<true>(parts_b, batch, n, k, x); }
};

// Sums with rows that are too wide, in fp32: tiles that have none cost a look at their rows.
template <class G, class C>
WS_DEVICE void contract_rest(const G& g, const float* back_a, const float* back_b) {
  using Index = typename G::Index;
  using Rest = Scaled<G, true>;
  using Tiles = PlainContract<Rest, C>;
  const auto wide = [&](const float* from, long long count) {
    bool any = false;
    for (long long i = thread(); i < count; i += kPlainThreads) any = any || from[i] != from[i];
    return any;
  };
  const auto least = [](long long a, long long b) { return a < b ? a : b; };
  if (!any_of_block(wide(back_a, G::kBatch * G::kM) || wide(back_b, G::kBatch * G::kN))) return;
  const Rest rest(g, back_a, back_b);
  constexpr long long kTiles = (long long)(Tiles::kTilesM) * Tiles::kTilesN * G::kBatch;
  for (long long at = block(); at < kTiles; at += blocks()) {
    const Tiles tile(rest, static_cast<Index>(at));
    const bool any = wide(back_a + tile.batch * G::kM + tile.m, least(C::kTileM, G::kM - tile.m)) ||
                     wide(back_b + tile.batch * G::kN + tile.n, least(C::kTileN, G::kN - tile.n));
    if (any_of_block(any)) tile.run(nullptr);
  }
}

}  // namespace ws
