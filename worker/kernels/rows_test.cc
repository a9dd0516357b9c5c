#include <catch2/catch.hpp>
#include <cmath>
#include <random>

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

}  // namespace
}  // namespace warpsmith::kernels
