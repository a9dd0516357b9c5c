#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "worker/kernels/kernel_testing.h"
#include "worker/kernels/norm_example.h"

namespace warpsmith::kernels {
namespace {

struct Case {
  std::string what;
  NormProblem problem;
  NormKnobs knobs;
};

TEST_CASE("rows that are worked on together are what they are alone") {
  std::vector<Case> cases;
  for (int together : {1, 2, 3}) {
    for (bool persistent : {false, true}) {
      cases.push_back({"in registers",
                       {7, 128, 1, 0, 4, true, false},
                       {4, 64, 32, 1, 0, 1, 0, 1, persistent, together, 2}});
      cases.push_back({"half and half",
                       {5, 512, 1, 0, 4, true, true},
                       {4, 32, 32, 1, 0, 2, 2, 1, persistent, together, 2}});
      cases.push_back({"read again",
                       {5, 256, 1, 0, 4, true, false},
                       {4, 32, 32, 1, 0, 0, 1, 2, persistent, together, 0}});
    }
    cases.push_back({"heads of a larger layout",
                     {20, 64, 4, 768, 2, false, false},
                     {8, 64, 8, 1, 0, 1, 0, 1, true, together, 2, 0, together > 1}});
    cases.push_back({"several blocks",
                     {5, 1024, 1, 0, 4, true, false},
                     {4, 64, 64, 2, 2, 1, 1, 1, true, together, 2}});
  }
  std::string source;
  for (size_t i = 0; i < cases.size(); ++i)
    source += NormSource(cases[i].problem, cases[i].knobs, absl::StrCat("k", i));
  for (size_t i = 0; i < cases.size(); ++i) {
    const NormProblem& problem = cases[i].problem;
    const NormLaunch launch = LaunchOf(problem, cases[i].knobs);
    INFO(cases[i].what << ", together " << cases[i].knobs.rows_at_once << ", persistent "
                       << cases[i].knobs.persistent);
    const int64_t K = problem.elements,
                  pitch = problem.pitch > 0 ? problem.pitch : problem.heads * K;
    const int64_t count = (problem.rows + problem.heads - 1) / problem.heads * pitch;
    const int64_t wanted_groups = cases[i].knobs.persistent ? 2 : launch.groups;
    const int64_t groups = std::min(launch.groups, wanted_groups);
    device::PlanBuilder plan(source);
    plan.Buffer("x", count * problem.bytes)
        .Buffer("weight", K * 4)
        .Buffer("bias", K * 4)
        .Buffer("y", problem.rows * K * problem.bytes)
        .Buffer("exchange", groups * launch.exchange_bytes)
        .Fill(4, 0, groups * launch.exchange_bytes)
        .Launch(absl::StrCat("k", i), static_cast<uint32_t>(groups * launch.blocks_per_wave),
                cases[i].knobs.threads,
                {device::Arg(0), device::Arg(1), device::Arg(2), device::Arg(3), device::Arg(4)})
        .Shared(launch.shared_bytes);
    if (cases[i].knobs.blocks_per_row > 1) plan.Cooperative();
    TestRun run(plan.Build());
    std::mt19937 random(3);
    std::uniform_real_distribution<float> uniform(-1, 1);
    std::vector<float> x(count), weight(K), bias(K);
    for (auto* list : {&x, &weight, &bias}) {
      for (float& value : *list)
        value = static_cast<float>(static_cast<int>(uniform(random) * 64)) / 32;  // exact in bf16
    }
    std::vector<uint16_t> narrow(count);
    for (int64_t e = 0; e < count; ++e) {
      uint32_t bits;
      memcpy(&bits, &x[e], 4);
      narrow[e] = static_cast<uint16_t>(bits >> 16);
    }
    if (problem.bytes == 4)
      run.Write(0, x);
    else
      run.Write(0, narrow);
    run.Write(1, weight);
    run.Write(2, bias);
    run.Run();
    const auto wide = problem.bytes == 4 ? run.Read<float>(3) : std::vector<float>();
    const auto halves = problem.bytes == 2 ? run.Read<uint16_t>(3) : std::vector<uint16_t>();
    for (int64_t r = 0; r < problem.rows; ++r) {
      const float* const row = x.data() + r / problem.heads * pitch + r % problem.heads * K;
      double mean = 0, squares = 0;
      for (int64_t k = 0; k < K; ++k) mean += row[k] / static_cast<double>(K);
      if (!problem.centred) mean = 0;
      for (int64_t k = 0; k < K; ++k)
        squares += (row[k] - mean) * (row[k] - mean) / static_cast<double>(K);
      for (int64_t k = 0; k < K; ++k) {
        const double y = (row[k] - mean) / std::sqrt(squares + 1e-5) * weight[k] +
                         (problem.centred ? bias[k] : 0.0f);
        float got = 0;
        if (problem.bytes == 4) {
          got = wide[r * K + k];
        } else {
          const uint32_t bits = static_cast<uint32_t>(halves[r * K + k]) << 16;
          memcpy(&got, &bits, 4);
        }
        INFO("row " << r << ", element " << k);
        REQUIRE(std::fabs(got - y) <= (problem.bytes == 4 ? 1e-5 : 1e-2) * (1 + std::fabs(y)));
      }
    }
  }
}

// Sums over rows beside one along each: y[s, k] = sum over rows r of segment s of x[r, k] *
// sum(x[r]).
constexpr char kTotals[] = R"(#include <warpsmith/rows.cuh>
struct G_@name {
  using Index = int;
  static constexpr int kStages = 1, kStreamBytes = 4;
  static constexpr bool kEmits = false, kRowOutputs = false, kRagged = false, kEmitReads = false, kTotals = true;
  const float* x; float* y;
  struct Row { const float* x; float sum; };
  template <int V> struct Values { float s[V]; };
  template <int S> struct Acc { float sum; };
  struct Total { float sum, most; };
  WS_DEVICE Row row(Index r) const { return {x + r * @pitch, 0}; }
  WS_DEVICE int head(const Row&) const { return 0; }
  template <int V> WS_DEVICE void load(const Row& row, Index k, Values<V>& values) const { ws::load<V, float, 0>(row.x + k, values.s); }
  template <int V> WS_DEVICE void load_shared(const Row& row, Index k, char* slot) const { ws::copy_async<V>(slot, row.x + k); }
  template <int V> static WS_DEVICE void from_shared(const char* slot, Values<V>& values) {
    ws::load<V, float, 0>(reinterpret_cast<const float*>(slot), values.s);
  }
  template <int S> static WS_DEVICE constexpr bool chained() { return true; }
  template <int S> static WS_DEVICE constexpr bool joined() { return false; }
  template <int S> static WS_DEVICE Acc<S> identity() { return {0}; }
  template <int S> static WS_DEVICE void combine(Acc<S>& a, const Acc<S>& b) { a.sum += b.sum; }
  template <int S, int V> WS_DEVICE void accumulate(const Row&, Index, const Values<V>& values, Acc<S>& acc) const {
    for (int v = 0; v < V; ++v) acc.sum += values.s[v];
  }
  template <int S> WS_DEVICE void finish(Row& row, const Acc<S>& acc) const { row.sum = acc.sum; }
  template <int V> struct Common {};
  template <int V> WS_DEVICE void common(Index, Common<V>&) const {}
  template <int V> WS_DEVICE void emit(const Row&, Index, const Values<V>&, const Common<V>&) const {}
  WS_DEVICE void emit_row(const Row&) const {}
  static WS_DEVICE Total identity_total() { return {0, -1e30f}; }
  static WS_DEVICE void combine_total(Total& a, const Total& b) { a.sum += b.sum; a.most = ws::maximum(a.most, b.most); }
  template <int V> WS_DEVICE void total(const Row& row, Index, const Values<V>& values, Total (&totals)[V]) const {
    for (int v = 0; v < V; ++v) combine_total(totals[v], {values.s[v] * row.sum, values.s[v]});
  }
  WS_DEVICE void emit_total(long long r, long long k, const Total& total) const {
    y[r / @rows * @K + k] = total.sum + 1000 * total.most;
  }
};
extern "C" __global__ void __launch_bounds__(@threads) @name(const float* x, float* y, void* exchange, G_@name::Total* partial) {
  using R = ws::RowsAtOnce<G_@name, @together, @all>;
  ws::rows<R, ws::RowsConfig<@config>>(R{{x, y}, {}}, (@rows + @together - 1) / @together, @K, exchange, @segments, partial);
}
extern "C" __global__ void __launch_bounds__(64) @name_totals(const float* x, float* y, const G_@name::Total* partial) {
  ws::rows_total<G_@name, 64, @lines>(G_@name{x, y}, @rows, @groups, @K, partial);
}
)";

// Rows begin where vectors may.
int PitchOf(int elements) { return (elements + 3) / 4 * 4; }

TEST_CASE("places of rows are added up over the rows of each segment") {
  struct {
    const char* what;
    int rows, K, segments, groups, threads, lines, together;
    const char* config;  // RowsConfig
    int blocks = 1, shared_slots = 0, rows_per_block = 1;
  } cases[] = {
      {"in registers", 7, 64, 1, 3, 32, 2, 1, "4, 32, 32, 1, 0, 1, 0, 1, true"},
      {"with an edge", 5, 75, 1, 2, 32, 1, 1, "4, 32, 32, 1, 0, 1, 0, 1, true"},
      {"three rows a block", 8, 40, 2, 2, 96, 4, 1, "4, 96, 32, 1, 0, 1, 0, 1, true", 1, 0, 3},
      {"half in shared memory", 9, 250, 3, 2, 32, 8, 1, "4, 32, 32, 1, 0, 1, 1, 1, true", 1, 1},
      {"a counter", 6, 256, 1, 2, 32, 2, 1, "4, 32, 32, 2, 2, 1, 0, 1, true", 2},
      {"a cluster", 6, 256, 2, 2, 32, 2, 1, "4, 32, 32, 2, 1, 1, 0, 1, true", 2},
      {"two at once, an odd one left", 7, 64, 1, 2, 64, 2, 2, "2, 64, 32, 1, 0, 1, 0, 1, true", 1,
       0, 2},
      {"two at once in segments", 6, 64, 2, 2, 32, 2, 2, "2, 32, 32, 1, 0, 0, 1, 1, true", 1, 1},
      {"carried", 10, 68, 1, 4, 32, 16, 1, "4, 32, 32, 1, 0, 1, 0, 1, true, true"},
  };
  std::string source;
  int number = 0;
  for (const auto& c : cases) {
    source += absl::StrReplaceAll(kTotals, {{"@name", absl::StrCat("k", number++)},
                                            {"@K", absl::StrCat(c.K)},
                                            {"@pitch", absl::StrCat(PitchOf(c.K))},
                                            {"@rows", absl::StrCat(c.rows)},
                                            {"@all", absl::StrCat(c.rows * c.segments)},
                                            {"@segments", absl::StrCat(c.segments)},
                                            {"@groups", absl::StrCat(c.groups)},
                                            {"@threads", absl::StrCat(c.threads)},
                                            {"@lines", absl::StrCat(c.lines)},
                                            {"@together", absl::StrCat(c.together)},
                                            {"@config", c.config}});
  }
  number = 0;
  for (const auto& c : cases) {
    INFO(c.what);
    const std::string name = absl::StrCat("k", number++);
    const int V = c.config[0] - '0', groups = c.groups * c.segments, all = c.rows * c.segments;
    const int slots = c.shared_slots * c.threads * V;
    device::PlanBuilder plan(source);
    plan.Buffer("x", int64_t{4} * all * PitchOf(c.K))
        .Buffer("y", int64_t{4} * c.segments * c.K)
        .Buffer("exchange", int64_t{2} * 8 * 8 * c.blocks * groups)
        .Buffer("partial", int64_t{8} * groups * c.K)
        .Fill(2, 0, int64_t{2} * 8 * 8 * c.blocks * groups)
        .Launch(name, static_cast<uint32_t>(groups * c.blocks), c.threads,
                {device::Arg(0), device::Arg(1), device::Arg(2), device::Arg(3)})
        .Shared(64 * (c.threads / 32) + 64 + slots * (4 * c.together + 8) +
                (c.rows_per_block > 1 ? c.threads * V * 8 : 0));
    if (absl::StrContains(c.config, "32, 32, 2, 2")) plan.Cooperative();
    if (absl::StrContains(c.config, "32, 32, 2, 1")) plan.Cluster(2);
    const int places = 64 / c.lines;
    plan.Launch(name + "_totals", static_cast<uint32_t>(c.segments * ((c.K + places - 1) / places)),
                64, {device::Arg(0), device::Arg(1), device::Arg(3)})
        .Shared(64 * 8);
    TestRun run(plan.Build());
    std::mt19937 random(5);
    std::vector<float> x(static_cast<size_t>(all) * PitchOf(c.K));
    for (float& value : x) value = static_cast<float>(static_cast<int>(random() % 17) - 8);
    run.Write(0, x);
    run.Run();
    const auto y = run.Read<float>(1);
    for (int s = 0; s < c.segments; ++s) {
      for (int k = 0; k < c.K; ++k) {
        double sum = 0, most = -1e30;
        for (int r = s * c.rows; r < (s + 1) * c.rows; ++r) {
          const float* const row = x.data() + static_cast<size_t>(r) * PitchOf(c.K);
          sum += row[k] * std::accumulate(row, row + c.K, 0.0);
          most = std::max<double>(most, row[k]);
        }
        INFO("segment " << s << ", place " << k);
        REQUIRE(y[s * c.K + k] == static_cast<float>(sum + 1000 * most));
      }
    }
  }
}

}  // namespace
}  // namespace warpsmith::kernels
