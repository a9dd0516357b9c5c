// Ends of tiles of the tensor cores' main loop (contract.cuh) on the host device: a block is one
// group of warps, which has sums at hand instead of multiplying.
#include <random>

#include "worker/kernels/kernel_testing.h"

namespace warpsmith::kernels {
namespace {

struct Case {
  int m, n, tile_m, tile_n, width;
  bool reads, down, across, pair = false, row_pairs = false, together = false;
};

// y = s * r + 1 (or s + 1), all elements once, and the sums of what is stored. Of a pair s and r
// are both products.
std::string SourceOf(const Case& c) {
  const auto text = [](bool b) { return b ? "true" : "false"; };
  const std::string totals = c.down || c.across ? ", float (&value)[V]" : "";
  return absl::StrCat(
      R"(#include <warpsmith/contract.cuh>
struct G {
  using Index = int;
  using Sum = float;
  static constexpr long long kBatch = 1, kM = )",
      c.m, ", kN = ", c.n, ", kK = 64;\n  static constexpr int kWidth = ", c.width,
      ", kRawRow = 0, kRawEnd = ", c.reads ? c.width : 0,
      ";\n  static constexpr bool kPair = ", text(c.pair), ", kRowPairs = ", text(c.row_pairs),
      ", kRowsTogether = ", text(c.together), ", kTotalDown = ", text(c.down),
      ", kTotalAcross = ", text(c.across), R"(;
  const float* r;
  float* y;
  struct RawRow {};
  struct RawEnd { float x[)",
      c.width, R"(]; };
  WS_DEVICE void load_end(int, int m, int n, RawEnd& raw) const {)",
      c.reads ? "\n    ws::load<kWidth, float, 0>(r + m * kN + n, raw.x);\n" : "", R"(  }
  template <int V>
  WS_DEVICE void finish(int, int m, int n, const RawEnd& raw, const float (&sums)[kPair ? 2 * V : V])",
      totals,
      R"() const {
    for (int v = 0; v < V; ++v) y[m * kN + n + v] += sums[v] * )",
      c.pair    ? "sums[V + v]"
      : c.reads ? "raw.x[v]"
                : "1",
      R"( + 1;
)",
      totals.empty() ? "" : "    for (int v = 0; v < V; ++v) value[v] = y[m * kN + n + v];\n",
      R"(  }
)",
      c.together ? absl::StrCat(R"(
  static constexpr int kRawOfRows = 0, kRawRows = )",
                                c.reads ? 2 : 0, R"(;
  struct RawOfRows {};
  struct RawRows { float x[2]; };
  WS_DEVICE void load_rows(int, int m, int n, RawRows& raw) const {
    for (int j = 0; j < 2; ++j) raw.x[j] = r[(m + j) * kN + n];
  }
  template <int V>
  WS_DEVICE void finish_rows(int, int m, int n, const RawRows& raw, const float (&sums)[2]) const {
    for (int j = 0; j < 2; ++j) y[(m + j) * kN + n] += sums[j] * )",
                                c.reads ? "raw.x[j]" : "1", R"( + 1;
  }
)")
                 : "",
      R"(
  static WS_DEVICE bool wanted(int, int, int, int) { return true; }
};
struct Tiles {
  using Glue = G;
  using Type = ws::hopper::Bf16;
  static constexpr int kM = G::kM, kN = G::kN, kK = 64, kBatch = 1, kTileM = )",
      c.tile_m, ", kTileN = ", c.tile_n, R"(, kStages = 2;
  static constexpr int kCluster = 1, kRaster = 2, kSplit = 1, kParts = 1, kRun = 0, kRunsOfStep = 1, kTail = 1;
  static constexpr int kWhole = 1 << 20, kBlocksOfSm = 1, kJoined = 0, kCut = 0;
  using Window = ws::NoWindow;
  static constexpr bool kAlongM = false, kAlongN = false, kMeet = false, kInline = false, kLast = false;
  static constexpr bool kTurned = false, kOneA = false, kOneB = false, kOnceA = false, kOnceB = false, kTurns = 0, kScaled = false;
};
extern "C" __global__ void __launch_bounds__(128) ends(const float* s, const float* r, float* y, float* down, float* across) {
  using End = ws::WholeSums<G>;
  using K = ws::Contract<Tiles, End>;
  static_assert(!G::kRawEnd || K::kBoxAhead, "a box is read while the one before it is finished");
  const G g{r, y};
  const End end(g, {down, across});
  K contract;
  if (threadIdx.x == 0) ws::hopper::begin_groups();
  __syncthreads();
  constexpr int kGroups = Tiles::kTileM / 64;
  float sums[Tiles::kTileN / 2];
  unsigned meeting = 0;
  typename K::Ahead ahead;
  ahead.read(contract, end, K::rows_at(0, 0), 0);
  for (int at = 0; at < K::kTiles; ++at) {
    for (int rows = 0; rows < kGroups; ++rows) {
      const auto tile = K::rows_of(K::tile_at(at), rows);
      for (int v = 0; v < Tiles::kTileN / 2; ++v) {
        const ws::hopper::Place place = ws::hopper::place(threadIdx.x, v);
        const int m = tile.m + place.row, n = tile.n + place.column % K::kTileColumns;
        sums[v] = m < G::kM && n < G::kN ? (place.column < K::kTileColumns ? s : r)[m * G::kN + n] : 1e30f;
      }
      const auto next = rows + 1 < kGroups ? K::rows_of(K::tile_at(at), rows + 1) : K::rows_at(at + 1, 0);
      contract.store(0, tile, sums, end, {}, meeting, ahead, next);
    }
  }
}
)");
}

}  // namespace

TEST_CASE("ends of tiles finish each sum once, and add up what they finish") {
  const Case cases[] = {
      {128, 128, 64, 64, 4, true, true, true},
      {200, 100, 64, 64, 4, true, true, true},
      {72, 200, 128, 128, 4, true, true, false},
      {130, 264, 128, 128, 8, true, false, true},
      {65, 99, 64, 32, 1, true, true, true},
      {70, 48, 64, 16, 1, false, true, true},
      {200, 130, 64, 64, 2, false, true, true},
      {100, 100, 64, 128, 4, false, false, false},
      {100, 72, 64, 64, 2, false, false, false, true},
      {72, 200, 128, 128, 4, false, false, false, true},
      {300, 72, 64, 64, 4, true, false, false},
      {70, 131, 64, 64, 1, false, true, true},
      // The last box of a tile has fewer columns.
      {130, 200, 64, 80, 4, true, false, false},
      {200, 424, 128, 208, 8, false, false, false},
      {70, 333, 64, 160, 1, false, false, false},
      {72, 150, 64, 96, 2, false, false, false, true},
      {100, 232, 128, 224, 4, false, false, false, true},
      // Rows by pairs.
      {100, 131, 64, 64, 1, true, false, false, false, true},
      {130, 264, 128, 128, 2, false, false, false, false, true},
      {64, 100, 64, 32, 4, true, false, false, false, true},
      // Two rows of a column together.
      {100, 131, 64, 64, 1, true, false, false, false, true, true},
      {130, 264, 128, 128, 2, false, false, false, false, true, true},
      {70, 99, 64, 32, 1, true, false, false, false, true, true},
      {74, 333, 64, 160, 4, true, false, false, false, true, true},
  };
  std::mt19937 random(7);
  std::uniform_int_distribution<int> whole(-8, 8);  // all sums are exact
  for (const Case& c : cases) {
    INFO(c.m << " x " << c.n << " in " << c.tile_m << " x " << c.tile_n << " by " << c.width
             << (c.reads ? ", reads" : "") << (c.down ? ", down" : "")
             << (c.across ? ", across" : "") << (c.pair ? ", a pair" : "")
             << (c.row_pairs ? ", rows by pairs" : "") << (c.together ? ", together" : ""));
    const int down = (c.m + 63) / 64;
    const int across = (c.n + c.tile_n - 1) / c.tile_n * (c.tile_n >= 64 ? 2 : 1);
    device::PlanBuilder builder(SourceOf(c));
    const int64_t all = int64_t{4} * c.m * c.n;
    builder.Buffer("s", all).Buffer("r", all).Buffer("y", all);
    builder.Buffer("down", 4 * down * c.n).Buffer("across", 4 * across * c.m);
    builder.Launch(
        "ends", 1, 128,
        {device::Arg(0), device::Arg(1), device::Arg(2), device::Arg(3), device::Arg(4)});
    builder.Shared(128 << 10);
    TestRun run(builder.Build());
    std::vector<float> s(c.m * c.n), r(c.m * c.n), expected(c.m * c.n);
    for (size_t i = 0; i < s.size(); ++i) {
      s[i] = static_cast<float>(whole(random));
      r[i] = static_cast<float>(whole(random));
      expected[i] = s[i] * (c.reads || c.pair ? r[i] : 1) + 1;
    }
    run.Write(0, s);
    run.Write(1, r);
    run.Write(2, std::vector<float>(s.size(), 0));
    run.Run();
    CHECK(run.Read<float>(2) == expected);
    std::vector<float> columns(c.n, 0), rows(c.m, 0), columns_had(c.n, 0), rows_had(c.m, 0);
    for (int m = 0; m < c.m; ++m) {
      for (int n = 0; n < c.n; ++n) {
        columns[n] += expected[m * c.n + n];
        rows[m] += expected[m * c.n + n];
      }
    }
    const auto left_down = run.Read<float>(3), left_across = run.Read<float>(4);
    for (int p = 0; p < down; ++p) {
      for (int n = 0; n < c.n; ++n) columns_had[n] += left_down[p * c.n + n];
    }
    for (int p = 0; p < across; ++p) {
      for (int m = 0; m < c.m; ++m) rows_had[m] += left_across[p * c.m + m];
    }
    if (c.down) CHECK(columns_had == columns);
    if (c.across) CHECK(rows_had == rows);
  }
}

}  // namespace warpsmith::kernels
