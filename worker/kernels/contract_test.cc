// The skeleton contract compiles for sm_90a as it must to be quick, and its layouts are what they
// say. Skipped where there is no NVRTC; what it computes and how fast is measured on a card
// (bench/contract_bench.cc).
#include <catch2/catch.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "worker/device/device.h"
#include "worker/kernels/contract_example.h"

namespace warpsmith::kernels {
namespace {

constexpr absl::Duration kLimit = absl::Minutes(20);
constexpr int64_t kSharedPerBlock = 227 << 10;  // of an H200
constexpr int kRegistersPerBlock = 64 << 10;

device::Compiler* Hopper() {
  static const auto* made =
      new absl::StatusOr<std::unique_ptr<device::Compiler>>(device::MakeCompiler("sm_90a", "", ""));
  if (made->ok()) return (*made)->get();
  WARN("not run: " << made->status());
  return nullptr;
}

// Proofs: the compiler refuses the text where one does not hold.
constexpr char kProofs[] = R"(#include <warpsmith/wgmma.cuh>
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
extern "C" __global__ void f() {}
)";

struct Case {
  const char* name;
  ProductProblem problem;
  ProductKnobs knobs;
};

std::vector<Case> Cases() {
  using Math = ProductProblem::Math;
  const auto product = [](Math math, int64_t m, int64_t n, int64_t k, bool along_m = false,
                          bool along_n = false) {
    ProductProblem problem;
    problem.math = math;
    problem.m = m;
    problem.n = n;
    problem.k = k;
    problem.along_m = along_m;
    problem.along_n = along_n;
    problem.fp32_out = math == Math::kFp16x3;
    return problem;
  };
  const auto knobs = [](int tile_m, int tile_n, int stages, int cluster, int run = 0) {
    ProductKnobs knobs;
    knobs.tile_m = tile_m;
    knobs.tile_n = tile_n;
    knobs.stages = stages;
    knobs.cluster = cluster;
    knobs.run = run;
    return knobs;
  };
  return {
      {"square", product(Math::kBf16, 8192, 8192, 8192), knobs(128, 256, 4, 2)},
      {"alone", product(Math::kFp16, 4096, 4096, 4096), knobs(128, 256, 4, 1)},
      {"both turned", product(Math::kBf16, 4096, 4096, 4096, true, true), knobs(128, 256, 4, 2)},
      {"ragged", product(Math::kBf16, 1000, 3000, 2008), knobs(128, 192, 4, 2)},
      {"small tiles", product(Math::kFp16, 512, 512, 512), knobs(128, 128, 6, 2)},
      {"one group", product(Math::kBf16, 64, 4096, 4096), knobs(64, 64, 10, 1)},
      {"three groups", product(Math::kBf16, 4096, 4096, 4096), knobs(192, 192, 3, 2)},
      {"two parts", product(Math::kFp16x3, 4096, 4096, 4096), knobs(128, 128, 3, 2, 2)},
  };
}

}  // namespace

TEST_CASE("layouts of products are bijections that meet no bank twice") {
  device::Compiler* const compiler = Hopper();
  if (compiler == nullptr) return;
  const auto binary = compiler->Compile(kProofs, kLimit);
  INFO(binary.status());
  CHECK(binary.ok());
}

TEST_CASE("products compile without spills, and none waits for another") {
  device::Compiler* const compiler = Hopper();
  if (compiler == nullptr) return;
  for (const Case& c : Cases()) {
    INFO(c.name);
    REQUIRE(Misfit(c.problem, c.knobs, kSharedPerBlock) == "");
    const auto binary = compiler->Compile(ProductSource(c.problem, c.knobs), kLimit);
    INFO(binary.status());
    REQUIRE(binary.ok());
    CHECK(binary->report.warnings_size() == 0);
    bool found = false;
    for (const auto& kernel : binary->report.kernels()) {
      INFO(kernel.entry());
      CHECK(kernel.spill_bytes() == 0);
      if (kernel.entry() != "product") continue;
      found = true;
      CHECK(kernel.registers() * LaunchOf(c.problem, c.knobs).threads <= kRegistersPerBlock);
    }
    CHECK(found);
  }
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

TEST_CASE("knobs that do not fit a product are refused before there is text") {
  ProductProblem problem;
  problem.m = problem.n = problem.k = 256;
  ProductKnobs knobs;
  CHECK(Misfit(problem, knobs, kSharedPerBlock) == "");
  const auto with = [&](auto change) {
    ProductProblem other = problem;
    ProductKnobs changed = knobs;
    change(other, changed);
    return Misfit(other, changed, kSharedPerBlock);
  };
  CHECK(with([](auto& p, auto&) { p.k = 100; }) ==
        "rows that do not begin at multiples of 16 bytes");
  CHECK(with([](auto&, auto& k) { k.tile_m = 96; }) == "a tile of other than 64 to 256 rows");
  CHECK(with([](auto&, auto& k) { k.tile_n = 320; }) == "a tile whose columns do not go in boxes");
  CHECK(with([](auto&, auto& k) { k.stages = 5; }) == "279632 bytes of shared memory");
  CHECK(with([](auto& p, auto&) { p.math = ProductProblem::Math::kFp16x3; }) ==
        "parts are of one batch, along K, and summed to fp32");
}

}  // namespace warpsmith::kernels
