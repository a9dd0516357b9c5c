// Ends of the skeleton contract's tiles on tensor cores (contract.cuh, where End is described): what becomes of a group's
// 64 rows of sums. They go to the glue, or to memory for who adds up the parts of K; sums of operands in two parts are
// multiplied by what their rows were divided by.
#pragma once

#include <warpsmith/contract_pack.cuh>

namespace ws {

// Ends of a tile's sums that keep nothing: what the glue makes of them, or where the parts of K leave theirs,
// [part][batch][M][N].
struct KeepsNothing {
  static constexpr bool kLooks = false, kDown = false, kAcross = false;
  struct Begun {};
  template <int W> struct Place {};
  static constexpr int kOfRow = 0;
  struct OfRow {};
  struct RawRow {};
  template <int TILE_N> static constexpr int kKept = 0;
  template <int TILE_N> WS_DEVICE Begun begin(int, int, int, int) const { return {}; }
  template <int TILE_N> WS_DEVICE bool leave(const Begun&, float*, int) const { return false; }
  template <int W> WS_DEVICE Place<W> place(const float*, int) const { return {}; }
  WS_DEVICE OfRow of_row(const float*, int, int) const { return {}; }
};
// What a glue takes of a line at once, and how: neighbours along N, or those of a column of two rows that are written side by side.
template <class G, bool TOGETHER = G::kRowsTogether>
struct LinesOf {
  static constexpr int kRowsAtOnce = 1, kWidth = G::kWidth, kRaw = G::kRawEnd, kRawRow = G::kRawRow;
  using Raw = typename G::RawEnd;
  using RawRow = typename G::RawRow;
  static WS_DEVICE void read(const G& g, int batch, int m, int n, Raw& raw) { g.load_end(batch, m, n, raw); }
  static WS_DEVICE void read_row(const G& g, int batch, int m, RawRow& raw) { g.load_row(batch, m, raw); }
  static WS_DEVICE void read_own(const G& g, int batch, int m, int n, Raw& raw) { g.load_own(batch, m, n, raw); }
  template <int V>
  static WS_DEVICE void finish(const G& g, int batch, int m, int n, const Raw& raw, const float (&sums)[V]) {
    g.template finish<G::kWidth>(batch, m, n, raw, sums);
  }
};
template <class G>
struct LinesOf<G, true> {
  static constexpr int kRowsAtOnce = 2, kWidth = 1, kRaw = G::kRawRows, kRawRow = G::kRawOfRows;
  using Raw = typename G::RawRows;
  using RawRow = typename G::RawOfRows;
  static WS_DEVICE void read(const G& g, int batch, int m, int n, Raw& raw) { g.load_rows(batch, m, n, raw); }
  static WS_DEVICE void read_row(const G& g, int batch, int m, RawRow& raw) { g.load_of_rows(batch, m, raw); }
  static WS_DEVICE void read_own(const G& g, int batch, int m, int n, Raw& raw) { g.load_rows_own(batch, m, n, raw); }
  static WS_DEVICE void finish(const G& g, int batch, int m, int n, const Raw& raw, const float (&sums)[2]) {
    g.template finish_rows<2>(batch, m, n, raw, sums);
  }
};

template <class G>
struct WholeSums : KeepsNothing {
  using Lines = LinesOf<G>;
  static constexpr int kRowsAtOnce = Lines::kRowsAtOnce, kWidth = Lines::kWidth;
  static constexpr bool kDown = G::kTotalDown, kAcross = G::kTotalAcross;
  const G& g;
  const EndTotals left;
  WS_DEVICE WholeSums(const G& g, EndTotals left) : g(g), left(left) {}
  static constexpr int kRaw = Lines::kRaw, kRawRow = Lines::kRawRow;
  using Raw = typename Lines::Raw;
  using RawRow = typename Lines::RawRow;
  WS_DEVICE void read(int batch, int m, int n, Raw& raw) const { Lines::read(g, batch, m, n, raw); }
  WS_DEVICE void read_row(int batch, int m, RawRow& raw) const { Lines::read_row(g, batch, m, raw); }
  WS_DEVICE void read_own(int batch, int m, int n, Raw& raw) const { Lines::read_own(g, batch, m, n, raw); }
  template <int W, bool LOOK, int V>
  WS_DEVICE void finish(const OfRow&, const Place<W>&, int batch, int m, int n, int, const Raw& raw, const float (&sums)[V]) const {
    Lines::finish(g, batch, m, n, raw, sums);
  }
  template <int W>
  WS_DEVICE void finish(int batch, int m, int n, const Raw& raw, const float (&sums)[W], float (&value)[W]) const {
    g.template finish<W>(batch, m, n, raw, sums, value);
  }
};
template <class G>
struct PartialSums : KeepsNothing {
  static constexpr int kRowsAtOnce = 1, kWidth = G::kWidth, kRaw = 0, kRawRow = 0;
  float* partial;
  WS_DEVICE explicit PartialSums(float* partial) : partial(partial) {}
  struct Raw {};
  WS_DEVICE void read(int, int, int, Raw&) const {}
  template <int W, bool LOOK>
  WS_DEVICE void finish(const OfRow&, const Place<W>&, int batch, int m, int n, int part, const Raw&, const float (&sums)[W]) const {
    store<W, float, 0>(partial + placed((((long long)(part) * G::kBatch + batch) * G::kM + m) * G::kN + n), sums);
  }
};

// The end of sums of operands in two parts: keeps what a tile's rows and columns were divided by.
template <class G, bool ONE>
struct WholeSums<Scaled<G, false, ONE>> {
  using Lines = LinesOf<G>;
  static constexpr bool kLooks = true, kDown = false, kAcross = false;
  static constexpr int kRowsAtOnce = Lines::kRowsAtOnce, kWidth = Lines::kWidth, kRaw = Lines::kRaw, kRawRow = Lines::kRawRow;
  using Raw = typename Lines::Raw;
  using RawRow = typename Lines::RawRow;
  template <int TILE_N> static constexpr int kKept = 64 + TILE_N;
  struct Begun {
    float row, columns[2];
  };
  template <int W> struct Place {
    float back[W];
  };
  static constexpr int kOfRow = kRowsAtOnce;
  struct OfRow {
    float back[kRowsAtOnce];
  };
  const Scaled<G, false, ONE>& g;
  WS_DEVICE WholeSums(const Scaled<G, false, ONE>& g, EndTotals) : g(g) {}
  template <int TILE_N>
  WS_DEVICE Begun begin(int batch, int m, int n, int thread) const {
    Begun begun = {1, {1, 1}};
    if (thread < 64 && m + thread < G::kM) begun.row = __ldg(g.back_a + batch * G::kM + m + thread);
#pragma unroll
    for (int i = 0; i < (TILE_N + 127) / 128; ++i) {
      const int column = i * 128 + thread;
      if (column < TILE_N && (ONE || n + column < G::kN)) begun.columns[i] = __ldg(g.back_b + g.at_b(batch, n + column));
    }
    return begun;
  }
  template <int TILE_N>
  WS_DEVICE bool leave(const Begun& begun, float* kept, int thread) const {
    if (thread < 64) kept[thread] = begun.row;
    bool wide = kind_of(begun.row) >= kWideRow;
#pragma unroll
    for (int i = 0; i < (TILE_N + 127) / 128; ++i) {
      if (i * 128 + thread < TILE_N) kept[64 + i * 128 + thread] = begun.columns[i];
      wide = wide || kind_of(begun.columns[i]) >= kWideRow;
    }
    return wide;
  }
  template <int W>
  WS_DEVICE Place<W> place(const float* kept, int column) const {
    Place<W> place;
    load<W, float, 0>(kept + 64 + column, place.back);
    return place;
  }
  WS_DEVICE OfRow of_row(const float* kept, int row, int) const {
    OfRow of;
    load<kRowsAtOnce, float, 0>(kept + row, of.back);
    return of;
  }
  WS_DEVICE void read(int batch, int m, int n, Raw& raw) const { Lines::read(g, batch, m, n, raw); }
  WS_DEVICE void read_row(int batch, int m, RawRow& raw) const { Lines::read_row(g, batch, m, raw); }
  WS_DEVICE void read_own(int batch, int m, int n, Raw& raw) const { Lines::read_own(g, batch, m, n, raw); }
  // One of two rows that another kernel makes is written here first.
  template <int W, bool LOOK, int V>
  WS_DEVICE void finish(const OfRow& of, const Place<W>& place, int batch, int m, int n, int, const Raw& raw, const float (&sums)[V]) const {
    float done[V];
    if (LOOK) {
      bool out = true;
#pragma unroll
      for (int r = 0; r < kRowsAtOnce; ++r) out = out && g.leaves_out(of.back[r], place.back);
      if (out) return;
    }
#pragma unroll
    for (int v = 0; v < V; ++v) done[v] = sums[v] * factor_of(of.back[v / W]) * factor_of(place.back[v % W]);
    Lines::finish(static_cast<const G&>(g), batch, m, n, raw, done);
  }
};

// The end of sums with an operand that was made two parts of on its way, TURNED: the glue's B. What it was divided by, its
// products were multiplied by again; those of its rows that are too wide are said to be so in `rows` and `any`.
// PARTIAL: sums are left as they are in `partial`.
template <class G, bool TURNED, bool PARTIAL>
struct InlineSums {
  static constexpr bool kLooks = true, kDown = false, kAcross = false;
  static constexpr int kRowsAtOnce = 1, kWidth = G::kWidth, kRaw = PARTIAL ? 0 : G::kRawEnd, kRawRow = 0;
  using Raw = typename G::RawEnd;
  static constexpr int kRows = TURNED ? G::kN : G::kM, kColumns = TURNED ? G::kM : G::kN;
  template <int TILE_N> static constexpr int kKept = 64 + TILE_N;
  struct Begun {
    bool wide[2];   // the thread's rows
    float column;
    int batch, m;
  };
  template <int W> struct Place {   // turned: rows, which are the glue's columns
    float back[W];
  };
  static constexpr int kOfRow = 1;
  struct OfRow {   // turned: of a column
    float back;
  };
  using RawRow = typename G::RawRow;
  const Scaled<G, false>& g;
  float* const rows;   // [batch][kRows], 1 and kThinRow so far
  int* const any;
  float* const partial;
  WS_DEVICE InlineSums(const Scaled<G, false>& g, float* rows, int* any, float* partial) : g(g), rows(rows), any(any), partial(partial) {}

  template <int TILE_N>
  WS_DEVICE Begun begin(int batch, int m, int n, int thread) const {
    Begun begun = {{false, false}, 1, batch, m};
    if (!PARTIAL && thread < TILE_N && n + thread < kColumns) begun.column = __ldg((TURNED ? g.back_a : g.back_b) + batch * kColumns + n + thread);
    return begun;
  }
  template <int TILE_N>
  WS_DEVICE bool leave(const Begun& begun, float* kept, int thread) const {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = thread / 32 * 16 + thread % 32 / 4 + 8 * r;
      const float back = back_of(1, begun.wide[r] ? kLoneRow : kThinRow);
      if (thread % 4 == 0) kept[row] = back;
      if (begun.wide[r] && begun.m + row < kRows) {
        rows[begun.batch * kRows + begun.m + row] = back;
        *any = 1;
      }
    }
    if (thread < TILE_N) kept[64 + thread] = begun.column;
    return begun.wide[0] || begun.wide[1] || kind_of(begun.column) >= kWideRow;
  }
  template <int W>
  WS_DEVICE Place<W> place(const float* kept, int at) const {
    Place<W> place;
    load<W, float, 0>(kept + (TURNED ? at : 64 + at), place.back);
    return place;
  }
  WS_DEVICE OfRow of_row(const float* kept, int row, int column) const { return {kept[TURNED ? 64 + column : row]}; }
  WS_DEVICE void read(int batch, int row, int column, Raw& raw) const {
    if constexpr (!PARTIAL) g.load_end(batch, TURNED ? column : row, TURNED ? row : column, raw);
  }
  template <int W, bool LOOK>
  WS_DEVICE void finish(const OfRow& of, const Place<W>& place, int batch, int row_of_all, int column_of_all, int part, const Raw& raw,
                        const float (&sums)[W]) const {
    const int m = TURNED ? column_of_all : row_of_all, n = TURNED ? row_of_all : column_of_all;
    if constexpr (PARTIAL) {
      store<W, float, 0>(partial + placed((((long long)(part) * G::kBatch + batch) * G::kM + m) * G::kN + n), sums);
    } else {
      float done[W];
      if (LOOK) {
        if (g.leaves_out(of.back, place.back)) return;
      }
#pragma unroll
      for (int v = 0; v < W; ++v) done[v] = sums[v] * factor_of(of.back) * factor_of(place.back[v]);
      static_cast<const G&>(g).template finish<W>(batch, m, n, raw, done);
    }
  }
};

}  // namespace ws
