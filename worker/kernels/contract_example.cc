#include "worker/kernels/contract_example.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace warpsmith::kernels {
namespace {

constexpr int kRowBytes = 128;  // ws::hopper::kRowBytes
constexpr int kStepK = 64;      // ws::Contract::kStepK
constexpr int kGroupRows = 64;  // of a warpgroup

constexpr char kText[] = R"(#include <warpsmith/contract.cuh>
#include <warpsmith/split.cuh>
struct Config {
  using Type = ws::hopper::@type;
  using Out = @out;
  static constexpr int kM = @m, kN = @n, kK = @k, kBatch = @batch;
  static constexpr int kTileM = @tile_m, kTileN = @tile_n, kStages = @stages, kCluster = @cluster, kRaster = @raster;
  static constexpr bool kAlongM = @along_m, kAlongN = @along_n;
  static constexpr int kParts = @parts, kRun = @run;
};
struct Finish {
  const float* back_a;
  const float* back_b;
  WS_DEVICE void operator()(int m, int n, int batch, float x, float y, Config::Out (&out)[2]) const {
    if constexpr (Config::kParts == 2) {
      const float a = m < Config::kM ? back_a[m] : 0.0f;
      x *= a * (n < Config::kN ? back_b[n] : 0.0f);
      y *= a * (n + 1 < Config::kN ? back_b[n + 1] : 0.0f);
    }
    put(x, out[0]);
    put(y, out[1]);
  }
  static WS_DEVICE void put(float x, float& to) { to = x; }
  template <class T> static WS_DEVICE void put(float x, T& to) { to = ws::from_float<T>(x); }
};
extern "C" __global__ void __launch_bounds__(ws::Contract<Config>::kThreads, 1)
product(const __grid_constant__ ws::hopper::Map a, const __grid_constant__ ws::hopper::Map b,
        const __grid_constant__ ws::hopper::Map y@parameters) {
  extern __shared__ unsigned char shared[];
  ws::Contract<Config> contract(shared);
  Finish finish{@arguments};
  contract.run(a, b, y, finish);
}
)";

constexpr char kSplits[] = R"(
extern "C" __global__ void __launch_bounds__(256) split_a(const float* x, ws::f16* parts, float* back) {
  const long long at = blockIdx.x * @kll;
  ws::split_row<@k>(x + at, parts + at, parts + @mll * @k + at, back + blockIdx.x);
}
extern "C" __global__ void __launch_bounds__(256) split_b(const float* x, ws::f16* parts, float* back) {
  const long long at = blockIdx.x * @kll;
  ws::split_row<@k>(x + at, parts + at, parts + @nll * @k + at, back + blockIdx.x);
}
)";

int64_t Over(int64_t a, int64_t b) { return (a + b - 1) / b; }

int Parts(const ProductProblem& problem) {
  return problem.math == ProductProblem::Math::kFp16x3 ? 2 : 1;
}

std::string Flag(bool flag) { return flag ? "true" : "false"; }

}  // namespace

std::string Misfit(const ProductProblem& problem, const ProductKnobs& knobs,
                   int64_t shared_per_block) {
  const bool parts = Parts(problem) == 2;
  if (parts && (problem.along_m || problem.along_n || problem.batch != 1 || !problem.fp32_out)) {
    return "parts are of one batch, along K, and summed to fp32";
  }
  if (problem.k % 8 != 0 || (problem.along_m && problem.m % 8 != 0) ||
      (problem.along_n && problem.n % 8 != 0) || problem.n % (problem.fp32_out ? 4 : 8) != 0) {
    return "rows that do not begin at multiples of 16 bytes";
  }
  if (knobs.tile_m % kGroupRows != 0 || knobs.tile_m > 4 * kGroupRows)
    return "a tile of other than 64 to 256 rows";
  const int share = knobs.tile_n / knobs.cluster;  // of B, that a block brings
  if (knobs.tile_n % (knobs.cluster * (problem.along_n ? 64 : 8)) != 0 || share > 256 ||
      knobs.tile_n > 256 || knobs.tile_n % 64 != 0) {
    return "a tile whose columns do not go in boxes";
  }
  if (knobs.stages < 2) return "fewer than two stages";
  const int64_t shared = LaunchOf(problem, knobs).shared_bytes;
  if (shared > shared_per_block) return absl::StrCat(shared, " bytes of shared memory");
  return "";
}

std::string ProductSource(const ProductProblem& problem, const ProductKnobs& knobs) {
  const bool parts = Parts(problem) == 2;
  const bool bf16 = problem.math == ProductProblem::Math::kBf16;
  const std::string text = absl::StrCat(kText, parts ? kSplits : "");
  return absl::StrReplaceAll(
      text, {{"@type", bf16 ? "Bf16" : "Fp16"},
             {"@out", problem.fp32_out ? "float"
                      : bf16           ? "ws::bf16"
                                       : "ws::f16"},
             {"@mll", absl::StrCat(problem.m, "ll")},
             {"@nll", absl::StrCat(problem.n, "ll")},
             {"@kll", absl::StrCat(problem.k, "ll")},
             {"@m", absl::StrCat(problem.m)},
             {"@n", absl::StrCat(problem.n)},
             {"@k", absl::StrCat(problem.k)},
             {"@batch", absl::StrCat(problem.batch)},
             {"@tile_m", absl::StrCat(knobs.tile_m)},
             {"@tile_n", absl::StrCat(knobs.tile_n)},
             {"@stages", absl::StrCat(knobs.stages)},
             {"@cluster", absl::StrCat(knobs.cluster)},
             {"@raster", absl::StrCat(knobs.raster)},
             {"@along_m", Flag(problem.along_m)},
             {"@along_n", Flag(problem.along_n)},
             {"@parts", absl::StrCat(Parts(problem))},
             {"@run", absl::StrCat(knobs.run)},
             {"@parameters", parts ? ", const float* back_a, const float* back_b" : ""},
             {"@arguments", parts ? "back_a, back_b" : "nullptr, nullptr"}});
}

ProductLaunch LaunchOf(const ProductProblem& problem, const ProductKnobs& knobs) {
  const int groups = knobs.tile_m / kGroupRows, parts = Parts(problem);
  ProductLaunch launch;
  launch.threads = 128 * (groups + 1);
  launch.shared_bytes = 1024 +
                        int64_t{knobs.stages} * parts * (knobs.tile_m + knobs.tile_n) * kRowBytes +
                        groups * 2 * kGroupRows * kRowBytes + 16 * knobs.stages;
  launch.blocks = Over(Over(problem.m, knobs.tile_m), knobs.cluster) *
                  Over(problem.n, knobs.tile_n) * problem.batch * knobs.cluster;
  const std::string dtype = problem.math == ProductProblem::Math::kBf16 ? "bf16" : "f16";
  const auto operand = [&](bool along, int64_t rows, int tile) -> ProductMap {
    const int64_t batches = problem.batch * parts;
    if (along) return {dtype, {rows, problem.k, batches}, {kRowBytes / 2, kStepK, 1}};
    return {dtype, {problem.k, rows, batches}, {kStepK, tile, 1}};
  };
  launch.a = operand(problem.along_m, problem.m, knobs.tile_m);
  launch.b = operand(problem.along_n, problem.n, knobs.tile_n / knobs.cluster);
  launch.y = {problem.fp32_out ? "f32" : dtype,
              {problem.n, problem.m, problem.batch},
              {kRowBytes / (problem.fp32_out ? 4 : 2), kGroupRows, 1}};
  return launch;
}

}  // namespace warpsmith::kernels
