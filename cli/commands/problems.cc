#include <iostream>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/table.h"
#include "common/graph/graph.h"
#include "common/problem/problem.h"

namespace warpsmith::cli {
namespace {

// What an NVIDIA H200 reaches: a device copy's bandwidth, fp32 outside of tensor cores, and
// products of 16 bits on them.
constexpr double kDefaultGigabytesPerSecond = 4300;
constexpr double kDefaultTeraflops = 60;
constexpr double kDefaultTensorTeraflops = 790;

struct Flags {
  std::string file;
  double gigabytes_per_second = kDefaultGigabytesPerSecond;
  double teraflops = kDefaultTeraflops;
  double tensor_teraflops = kDefaultTensorTeraflops;
};

absl::StatusOr<int> Problems(const Context& context, const Flags& flags) {
  absl::StatusOr<v1::ProblemSet> set = problem::LoadSet(flags.file);
  if (!set.ok()) return set.status();
  auto roof = graph::Roof::Of(flags.gigabytes_per_second * 1e9, flags.teraflops * 1e12);
  roof.products = flags.tensor_teraflops * 1e12;

  Table table({{"problem"},
               {"workload"},
               {"nodes", kRight},
               {"bytes", kRight},
               {"operations", kRight},
               {"light", kRight},
               {"from"}});
  nlohmann::json rows = nlohmann::json::array();
  for (const v1::Problem& problem : set->problems()) {
    const std::string from = problem.torch().path().empty() ? "own" : problem.torch().path();
    for (const v1::Workload& workload : problem.workloads()) {
      if (problem.graph().empty()) {
        table.Add({problem.name(), workload.name(), "-", "-", "-", "-", from});
        rows.push_back(
            {{"problem", problem.name()}, {"workload", workload.name()}, {"from", from}});
        continue;
      }
      absl::StatusOr<graph::Graph> graph = problem::GraphOf(problem, workload);
      if (!graph.ok()) return graph.status();
      const graph::Cost cost = graph::Count(*graph);
      const graph::Fp32 fp32 = graph::Fp32Of(*graph, problem.accuracy().tolerance_only());
      const double light_us = graph::LightSeconds(cost, roof, fp32) * 1e6;
      table.Add({problem.name(), workload.name(), std::to_string(graph->nodes.size()),
                 Bytes(static_cast<double>(cost.bytes())), Count(cost.operations),
                 Microseconds(light_us), from});
      rows.push_back({{"problem", problem.name()},
                      {"workload", workload.name()},
                      {"nodes", graph->nodes.size()},
                      {"bytes", cost.bytes()},
                      {"operations", cost.operations},
                      {"light_us", light_us},
                      {"from", from}});
    }
  }
  if (context.json) {
    std::cout << rows.dump(2) << "\n";
  } else {
    std::cout << table.Text();
    std::cerr << Counted(set->problems_size(), "problem") << " in " << set->name() << "; light: at "
              << flags.gigabytes_per_second << " GB/s, " << flags.teraflops << " TFLOP/s and "
              << flags.tensor_teraflops << " TFLOP/s of tensor cores\n";
  }
  return kDone;
}

}  // namespace

void AddProblems(CLI::App& app, const Context& context, Command& chosen) {
  auto flags = std::make_shared<Flags>();
  CLI::App* sub = app.add_subcommand(
      "problems", "Check a problem set and list its problems, their work and time at light speed");
  sub->add_option("FILE", flags->file, "problem set, e.g. problems/starter.json")->required();
  sub->add_option("--bandwidth", flags->gigabytes_per_second,
                  "GB/s of the card's memory (default: H200)")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  sub->add_option("--teraflops", flags->teraflops, "fp32 TFLOP/s of the card (default: H200)")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  sub->add_option(
         "--tensor-teraflops", flags->tensor_teraflops,
         "TFLOP/s of products of 16 bits on its tensor cores, 0 if it has none (default: H200)")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  sub->callback([&context, &chosen, flags] {
    chosen = [&context, flags] { return Problems(context, *flags); };
  });
}

}  // namespace warpsmith::cli
