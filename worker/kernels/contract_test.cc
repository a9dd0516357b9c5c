// Layouts of products on tensor cores are what they say. Skipped where there is no NVRTC.
#include <catch2/catch.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "worker/device/device.h"

namespace warpsmith::kernels {
namespace {

constexpr absl::Duration kLimit = absl::Minutes(20);

device::Compiler* Hopper() {
  static const auto* made =
      new absl::StatusOr<std::unique_ptr<device::Compiler>>(device::MakeCompiler("sm_90a", "", ""));
  if (made->ok()) return (*made)->get();
  WARN("not run: " << made->status());
  return nullptr;
}

// Proofs: the compiler refuses the text where one does not hold.
constexpr char kProofs[] = R"(#include <warpsmith/contract.cuh>
using namespace ws::hopper;

// Each element of a group's 64 x 64 result is one value of one thread.
__device__ constexpr bool each_place_once() {
  bool seen[64 * 64] = {};
  for (int t = 0; t < 128; ++t) {
    for (int v = 0; v < 32; ++v) {
      const Place p = place(t, v);
      if (p.row < 0 || p.row >= 64 || p.column < 0 || p.column >= 64 || seen[p.row * 64 + p.column]) return false;
      seen[p.row * 64 + p.column] = true;
    }
  }
  return true;
}
static_assert(each_place_once());

// Swapping pieces keeps each byte of a box of 64 rows apart, and bytes of a piece together.
__device__ constexpr bool swapped_stay_apart() {
  bool seen[64 * kRowBytes] = {};
  for (int row = 0; row < 64; ++row) {
    for (int byte = 0; byte < kRowBytes; ++byte) {
      const int at = swizzled(row, byte);
      if (at / kRowBytes != row || seen[at] || swizzled(row, byte & ~15) + byte % 16 != at) return false;
      seen[at] = true;
    }
  }
  return true;
}
static_assert(swapped_stay_apart());

// Where windows' taps are shifts: what a product reads of a tile's column is the element that was written there for the glue's k,
// each place of a window is one tile's column, and each k is multiplied once.
template <class S, int TILE_N>
__device__ constexpr bool shifts_find_elements(int places, int k) {
  int found = 0;
  for (int tile = 0; tile < S::kTiles * TILE_N; tile += TILE_N) {
    for (int column = 0; column < TILE_N; ++column) {
      const int n = S::column(tile + column);
      found += n >= 0;
      if (n >= places) return false;
      if (n < 0) continue;
      int multiplied = 0;
      for (int at = 0; at < S::kDepth; ++at) {
        const int of_glue = S::glue_k(at);
        if (of_glue < 0) continue;
        ++multiplied;
        const int step = at / (S::kUnits * 16), first = S::piece(at / 8 % (S::kUnits * 2)), plane = first / S::kPlaneBytes;
        const int line = S::kSegments > 1 ? first % S::kPlaneBytes / (S::kSegment * 16) : 0;
        const int place = first % S::kPlaneBytes / 16 - line * S::kSegment + column;
        if (place >= S::kSegment) return false;
        const auto written = S::place(0, n, of_glue);
        if (written.k != at || written.at != S::at_step(tile, step, plane, line) + place * 8 + at % 8) return false;
      }
      if (multiplied != k) return false;
    }
  }
  return found == places;
}
// Each element of the first tiles' rows that are there has a place of its own, and a tile's are all of what stays of it.
template <class S, int ROWS, int TILE_M, int PARTS>
__device__ constexpr bool weights_have_places() {
  constexpr int kOfTile = S::kResidentBytes / 2;
  bool taken[kOfTile] = {};
  for (int row = 0; row < ROWS; ++row) {
    for (int part = 0; part < PARTS; ++part) {
      for (int at = 0; at < S::kDepth; ++at) {
        const long long place = S::template at_weight<PARTS>(0, row, 0, part, at);
        if (place < 0 || place >= kOfTile || taken[place] || S::template at_weight<PARTS>(0, row + TILE_M, 0, part, at) != place + kOfTile)
          return false;
        taken[place] = true;
      }
    }
  }
  return kOfTile == ROWS * PARTS * S::kDepth;
}
using Line = ws::WindowAxis<1, 1, 1, 1, 1, 0, 1>;
// Ten channels, two images of 4 x 6 windows of 3 x 3, padded to the left and above, lines of eight places; three volumes of
// 2 x 3 x 3 windows of 2 x 2 x 2, whose taps are two apart along the outermost axis, of one channel; three channels, 5 x 70 windows
// of 2 x 2, whose taps are three and four apart, in segments.
using Flat = ws::Window<4, Line, ws::WindowAxis<4, 3, 1, 1, 1, -1, 5>, ws::WindowAxis<6, 3, 1, 1, 1, -1, 7>, 2, 10, 16, 0>;
using Volumes = ws::Window<5, ws::WindowAxis<2, 2, 1, 1, 2, 0, 4>, ws::WindowAxis<3, 2, 1, 1, 1, 0, 4>, ws::WindowAxis<3, 2, 1, 1, 1, 0, 4>, 3, 1, 8, 0>;
using Apart = ws::Window<4, Line, ws::WindowAxis<5, 2, 1, 1, 3, 0, 8>, ws::WindowAxis<70, 2, 1, 1, 4, 0, 74>, 1, 3, 8, 0>;
static_assert(shifts_find_elements<ws::Shifts<Flat, 2, 64, 64, 8>, 64>(2 * 4 * 6, 90));
static_assert(shifts_find_elements<ws::Shifts<Volumes, 1, 64, 64, 4>, 64>(3 * 2 * 3 * 3, 8));
static_assert(shifts_find_elements<ws::Shifts<Volumes, 1, 64, 64, 4, 24>, 64>(3 * 2 * 3 * 3, 8));
static_assert(weights_have_places<ws::Shifts<Volumes, 2, 64, 64, 4, 24>, 24, 64, 2>() &&
              weights_have_places<ws::Shifts<Volumes, 1, 128, 64, 4>, 128, 128, 1>());
using InSegments = ws::Shifts<Apart, 1, 64, 64, 74>;
static_assert(InSegments::kSegments == 2 && InSegments::kOdd == false);
static_assert(shifts_find_elements<InSegments, 64>(5 * 70, 12));

// A 16-byte piece of eight rows, one below the other, meets each of the 32 banks once: a matrix of stmatrix, a column of K.
__device__ constexpr bool pieces_meet_all_banks() {
  for (int piece = 0; piece < 8; ++piece) {
    unsigned banks = 0;
    for (int row = 0; row < 8; ++row) banks |= 0xfu << swizzled(row, piece * 16) % 128 / 4;
    if (banks != 0xffffffffu) return false;
  }
  return true;
}
static_assert(pieces_meet_all_banks());

// Pairs of fp32 that a warp writes at once: 8 rows by 4 threads of 8 bytes take the two turns that 256 bytes need.
__device__ constexpr bool pairs_take_two_turns() {
  for (int j = 0; j < 4; ++j) {
    int turns[32] = {};
    for (int lane = 0; lane < 32; ++lane) {
      const int bank = swizzled(lane / 4, j * 32 + lane % 4 * 8) % 128 / 4;
      if (++turns[bank] > 2 || ++turns[bank + 1] > 2) return false;
    }
  }
  return true;
}
static_assert(pairs_take_two_turns());

// Sums on their way to their finish: each element of a box has a place of its own, and pairs that half a
// warp writes (4 rows by 4 pairs of 8 bytes) meet each bank once.
struct AllWanted {
  static constexpr bool kPair = false, kRowPairs = false, kRowsTogether = false, kTotalDown = false, kTotalAcross = false;
  static __device__ bool wanted(int, int, int, int) { return true; }
};
struct Config {
  using Type = Bf16;
  using Glue = AllWanted;
  static constexpr int kM = 64, kN = 256, kK = 64, kBatch = 1, kTileM = 64, kStages = 2, kCluster = 1, kRaster = 1;
  static constexpr int kSplit = 1, kParts = 1, kRun = 0, kRunsOfStep = 1;
  static constexpr bool kMeet = false, kInline = false, kTurned = false, kTurns = false, kScaled = false, kOneA = false, kOneB = false;
  using Window = ws::NoWindow;
  static constexpr int kJoined = 0, kCut = 0, kLast = false, kTail = 1, kWhole = 1 << 30, kBlocksOfSm = 1;
  static constexpr bool kAlongM = false, kAlongN = false;
};
struct Keeping : ws::KeepsNothing {
  static constexpr int kRowsAtOnce = 1, kWidth = 4, kRaw = 0, kRawRow = 0;
  struct Raw {};
};
template <int N> struct Wide : Config { static constexpr int kTileN = N; };
template <int N>
__device__ constexpr bool boxes_meet_all_banks() {
  using Tiles = ws::Contract<Wide<N>, Keeping>;
  constexpr int kColumns = Tiles::kColumns;
  bool seen[64 * kColumns] = {};
  for (int row = 0; row < 64; ++row) {
    for (int column = 0; column < kColumns; ++column) {
      const int at = Tiles::place_in_box(row, column);
      if (at < 0 || at >= 64 * kColumns || seen[at] || at % 4 != column % 4) return false;
      seen[at] = true;
    }
  }
  for (int column = 0; column < kColumns; column += 8) {
    for (int first = 0; first < 64; first += 4) {
      unsigned banks = 0;
      for (int lane = 0; lane < 16; ++lane) {
        const int bank = Tiles::place_in_box(first + lane / 4, column + lane % 4 * 2) % 32;
        if ((banks >> bank & 3) != 0) return false;
        banks |= 3u << bank;
      }
    }
  }
  return true;
}
static_assert(boxes_meet_all_banks<16>() && boxes_meet_all_banks<32>() && boxes_meet_all_banks<64>() &&
              boxes_meet_all_banks<256>());

// Turned: neighbours are rows, and each of the two values that a warp writes at once meets each bank once.
template <int N> struct Turned : Wide<N> {
  static constexpr int kParts = 2, kRun = 1;
  static constexpr bool kInline = true, kTurned = true;
};
template <int N>
__device__ constexpr bool turned_boxes_meet_all_banks() {
  using Tiles = ws::Contract<Turned<N>, Keeping>;
  constexpr int kColumns = Tiles::kColumns;
  bool seen[64 * kColumns] = {};
  for (int row = 0; row < 64; ++row) {
    for (int column = 0; column < kColumns; ++column) {
      const int at = Tiles::place_in_box(row, column);
      if (at < 0 || at >= 64 * kColumns || seen[at] || at % 4 != row % 4) return false;
      seen[at] = true;
    }
  }
  for (int v = 0; v < kColumns / 2; ++v) {
    for (int warp = 0; warp < 4; ++warp) {
      unsigned banks = 0;
      for (int lane = 0; lane < 32; ++lane) {
        const Place at = place(warp * 32 + lane, v);
        banks |= 1u << Tiles::place_in_box(at.row, at.column) % 32;
      }
      if (banks != 0xffffffffu) return false;
    }
  }
  return true;
}
static_assert(turned_boxes_meet_all_banks<16>() && turned_boxes_meet_all_banks<64>());
extern "C" __global__ void f() {}
)";

}  // namespace

TEST_CASE("layouts of products are bijections that meet no bank twice") {
  device::Compiler* const compiler = Hopper();
  if (compiler == nullptr) return;
  const auto binary = compiler->Compile(kProofs, kLimit);
  INFO(binary.status());
  CHECK(binary.ok());
}

TEST_CASE("products that wait for each other are seen in what the compiler says") {
  device::Compiler* const compiler = Hopper();
  if (compiler == nullptr) return;
  const auto binary = compiler->Compile(R"(#include <warpsmith/wgmma.cuh>
extern "C" __global__ void __launch_bounds__(128) f(float* y, unsigned long long a) {
  using namespace ws::hopper;
  float sums[32];
  products_begin();
  for (int k = 0; k < 4; ++k) {
    Product<Bf16, 64, 0, 0>::run(sums, a + k, a + k, k > 0);
    sums[k] += y[k];
  }
  products_commit();
  products_wait<0>();
  for (int v = 0; v < 32; ++v) y[threadIdx.x * 32 + v] = sums[v];
})",
                                        kLimit);
  INFO(binary.status());
  REQUIRE(binary.ok());
  REQUIRE(binary->report.warnings_size() > 0);
  CHECK(absl::StrContains(binary->report.warnings(0), "serialized"));
}

}  // namespace warpsmith::kernels
