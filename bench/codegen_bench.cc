// What code generation makes of a problem set without any search: for each workload the default
// schedule and the op-by-op one, compiled and timed on one device, beside the speed of light.
// Answers are not checked here; that is the judge's work.
//
//   warpsmith-bench-codegen problems/starter.json --device cuda:0 --only softmax
//
// With --variants, a file of schedules as text, one a line ("rewrites: 'rule:tensor' groups { rows
// { unroll: 2 } }"): each is timed beside the default, the knobs of its group merged into all
// groups; one whose groups have roots is taken as it is. With --starts those that a search goes on
// with where the default is not right. With --groups what each group takes by itself, measured
// beside what was estimated.
#include <google/protobuf/text_format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/base/casts.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/base/clock.h"
#include "common/graph/graph.h"
#include "common/graph/numeric.h"
#include "common/graph/operators.h"
#include "common/problem/problem.h"
#include "common/problem/units.h"
#include "warpsmith/v1/schedule.pb.h"
#include "worker/agent/starts.h"
#include "worker/codegen/codegen.h"
#include "worker/codegen/knob/knob.h"
#include "worker/codegen/plan/entry.h"
#include "worker/device/device.h"
#include "worker/device/target.h"

namespace warpsmith {
namespace {

struct Options {
  std::string problems;
  std::string device = "host";
  std::string only;
  std::string dump;  // folder for the sources
  bool estimate = false, starts = false, one_pass = false;
  bool alone = false;  // variants without the default
  bool bound_waits = false;
  std::string variants;
  bool op_by_op = false, groups = false;
  int samples = 9;
  float fill = 1;       // every element of fp32 buffers
  bool random = false;  // elements are drawn instead, uniform in -1 to 1
  int moves = 0;        // times that all memory is moved to other addresses and timed again
};

struct Measured {
  double seconds = 0;
  std::vector<double> moved;              // seconds after each move
  std::map<std::string, double> entries;  // seconds of each kernel alone, by its entry
  double compile_ms = 0;
  int registers = 0, spills = 0, launches = 0;
};

// What is done once for each version of the weights. `bound`: the plan's memory.
absl::Status Prepare(device::Device& device, const v1::Plan& plan, const device::Binary& binary,
                     const std::vector<device::Memory*>& bound) {
  auto program = device.Load(plan.prepare(), binary);
  if (!program.ok()) return program.status();
  std::vector<std::unique_ptr<device::Memory>> workspace;
  std::vector<device::Memory*> memory;
  for (const auto& buffer : plan.prepare().buffers()) {
    device::Memory* shared = nullptr;
    for (int b = 0; b < plan.buffers_size(); ++b) {
      const v1::Buffer::Kind kind = plan.buffers(b).kind();
      if ((kind == v1::Buffer::PARAM || kind == v1::Buffer::PREPARED) &&
          plan.buffers(b).tensor() == buffer.tensor())
        shared = bound[b];
    }
    if (shared == nullptr) {
      auto one = device.Allocate(buffer.bytes());
      if (!one.ok()) return one.status();
      workspace.push_back(*std::move(one));
      shared = workspace.back().get();
    }
    memory.push_back(shared);
  }
  if (auto s = (*program)->Bind(memory); !s.ok()) return s;
  return device.Run(**program, absl::Seconds(20));
}

// Fills memory of 16-bit or 32-bit floats with what was drawn, repeated, though not at distances
// that tensors' axes have: channels that are alike make a range that no one would draw.
absl::Status Draw(device::Device& device, const std::string& dtype, device::Memory& memory) {
  constexpr int64_t kDrawn = (int64_t{1} << 22) - 4 * 57;  // bytes
  std::mt19937 random(7);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::string bytes;
  while (static_cast<int64_t>(bytes.size()) < std::min(kDrawn, memory.bytes())) {
    const double value = uniform(random);
    if (dtype == "f32") {
      const auto single = static_cast<float>(value);
      bytes.append(reinterpret_cast<const char*>(&single), sizeof single);
    } else {
      const uint16_t half = graph::ToHalf(*graph::FindType(dtype), value);
      bytes.append(reinterpret_cast<const char*>(&half), sizeof half);
    }
  }
  for (int64_t at = 0; at < memory.bytes(); at += kDrawn) {
    const int64_t length = std::min(kDrawn, memory.bytes() - at);
    if (auto s = device.Write(memory, bytes.data(), length, at); !s.ok()) return s;
  }
  return absl::OkStatus();
}

// Without a device: compiled, not run.
absl::StatusOr<Measured> Measure(device::Device* device, device::Compiler& compiler,
                                 const v1::Plan& plan, const Options& options) {
  const base::Instant start = base::Now();
  auto binary = compiler.Compile(plan.source(), absl::Seconds(60));
  if (!binary.ok()) return binary.status();
  Measured measured;
  measured.compile_ms = absl::ToDoubleMilliseconds(base::Now() - start);
  for (const auto& kernel : binary->report.kernels()) {
    measured.registers = std::max(measured.registers, kernel.registers());
    measured.spills = std::max(measured.spills, kernel.spill_bytes());
  }
  for (const auto& step : plan.steps()) measured.launches += step.has_launch();
  if (device == nullptr) return measured;
  auto program = device->Load(plan, *binary);
  if (!program.ok()) return program.status();
  std::vector<std::unique_ptr<device::Memory>> memory;
  std::vector<device::Memory*> bound;
  for (const auto& buffer : plan.buffers()) {
    auto one = device->Allocate(buffer.bytes());
    if (!one.ok()) return one.status();
    // `fill` in fp32 and its bits in other types; indexes stay inside (zero).
    const bool integer = buffer.dtype() == "i64" || buffer.dtype() == "i32" ||
                         buffer.dtype() == "i8" || buffer.dtype() == "u8";
    const bool drawn = options.random && (buffer.dtype() == "f32" || buffer.dtype() == "bf16" ||
                                          buffer.dtype() == "f16");
    const absl::Status filled =
        drawn ? Draw(*device, buffer.dtype(), **one)
              : device->Fill(**one, integer ? 0u : absl::bit_cast<uint32_t>(options.fill));
    if (!filled.ok()) return filled;
    bound.push_back(one->get());
    memory.push_back(std::move(*one));
  }
  if (plan.has_prepare()) {
    if (auto s = Prepare(*device, plan, *binary, bound); !s.ok()) return s;
  }
  if (auto s = (*program)->Bind(bound); !s.ok()) return s;
  if (auto s = device->Run(**program, absl::Seconds(20)); !s.ok()) return s;
  const auto median = [&]() -> absl::StatusOr<double> {
    std::vector<double> times;
    for (int i = 0; i < options.samples; ++i) {
      auto seconds = device->Time(**program, absl::Seconds(20));
      if (!seconds.ok()) return seconds.status();
      times.push_back(*seconds);
    }
    std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
    return times[times.size() / 2];
  };
  auto first = median();
  if (!first.ok()) return first.status();
  measured.seconds = *first;
  if (options.groups) {
    auto each = device->TimeLaunches(**program, absl::Seconds(20));
    if (!each.ok()) return each.status();
    size_t started = 0;
    for (const auto& step : plan.steps()) {
      if (step.has_launch()) measured.entries[step.launch().entry()] += (*each)[started++];
      if (step.has_product()) measured.entries[step.product().entry()] += (*each)[started++];
    }
  }
  for (int move = 0; move < options.moves; ++move) {
    for (auto& one : memory) {
      if (auto s = one->Unmap(); !s.ok()) return s;
    }
    for (auto& one : memory) {
      if (auto s = one->Map(); !s.ok()) return s;
    }
    if (auto s = (*program)->Bind(bound); !s.ok()) return s;
    auto again = median();
    if (!again.ok()) return again.status();
    measured.moved.push_back(*again);
  }
  return measured;
}

// Whether it says which groups there are, not only what to change of the default's.
bool IsWhole(const v1::Schedule& variant) {
  return variant.groups_size() > 0 &&
         std::all_of(variant.groups().begin(), variant.groups().end(),
                     [](const v1::Group& group) { return group.roots_size() > 0; });
}

// Schedules of a file, a line each; the first is empty: the default.
absl::StatusOr<std::vector<v1::Schedule>> ReadVariants(const std::string& path) {
  std::vector<v1::Schedule> variants(1);
  if (path.empty()) return variants;
  std::ifstream file(path);
  if (!file) return absl::NotFoundError(absl::StrCat("cannot read '", path, "'"));
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (line.empty() || line[0] == '#') continue;
    v1::Schedule variant;
    if (!google::protobuf::TextFormat::ParseFromString(line, &variant) ||
        (variant.groups_size() > 1 && !IsWhole(variant))) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ":", number,
                       ": not a schedule of at most one group, or groups with roots: ", line));
    }
    variants.push_back(variant);
  }
  return variants;
}

class Bench {
 public:
  // `device` may be null: then plans are for `target` and are not run.
  Bench(const Options& options, device::Device* device, device::Compiler& compiler,
        const graph::Roof& roof, const codegen::Target& target)
      : options_(options), device_(device), compiler_(compiler), roof_(roof), target_(target) {}

  void Header() const {
    if (options_.estimate) {
      std::printf("%-48s %10s %4s\n", "problem", "estimated", "groups");
      return;
    }
    if (device_ == nullptr) {
      std::printf("compiled for %s, not run\n", target_.arch.c_str());
    } else {
      std::printf("%s, copies at %.2f TB/s, %.1f TFLOP/s fp32, products of 16 bits %.0f\n",
                  device_->info().name.c_str(), roof_.copy_bytes / 1e12, roof_.operations / 1e12,
                  roof_.products / 1e12);
    }
    std::printf("%-36s %10s %10s %6s %4s %9s %5s %6s\n", "problem", "us", "light us", "share",
                "kern", "compile", "regs", "spill");
  }

  // What a search begins with after a wrong start, in order.
  std::vector<v1::Schedule> Starts(const graph::Graph& graph) const {
    const auto lowers = [&](const v1::Schedule& schedule) {
      const auto rewritten = codegen::Rewrite(graph, schedule.rewrites());
      return rewritten.ok() && codegen::Lower(*rewritten, schedule, target_).ok();
    };
    agent::StartsAfterWrong starts(std::make_shared<const graph::Graph>(graph), target_, lowers);
    std::vector<v1::Schedule> all;
    while (auto start = starts.Next()) all.push_back(*std::move(start));
    return all;
  }

  std::optional<v1::Schedule> InOnePass(const graph::Graph& graph) const {
    return agent::InOnePass(std::make_shared<const graph::Graph>(graph),
                            codegen::FirstSchedule(graph, target_), target_, /*ties=*/1);
  }

  // The default with what the variant says: rewrites, launches, and a group's knobs for all groups
  // that can have them.
  absl::StatusOr<v1::Schedule> ScheduleOf(const graph::Graph& graph,
                                          const v1::Schedule& variant) const {
    if (IsWhole(variant)) return variant;
    auto rewritten = codegen::Rewrite(graph, variant.rewrites());
    if (!rewritten.ok()) return rewritten.status();
    v1::Schedule schedule;
    if (options_.op_by_op || variant.rewrites_size() > 0) {
      schedule = options_.op_by_op ? codegen::OpByOpSchedule(*rewritten, target_)
                                   : codegen::DefaultSchedule(*rewritten, target_);
      *schedule.mutable_rewrites() = variant.rewrites();
    } else {
      schedule = codegen::FirstSchedule(*rewritten, target_);
      rewritten = codegen::Rewrite(graph, schedule.rewrites());
      if (!rewritten.ok()) return rewritten.status();
    }
    *schedule.mutable_launch() = variant.launch();
    if (variant.groups_size() == 0) return schedule;
    const auto infos = codegen::Describe(*rewritten, schedule, target_);
    if (!infos.ok()) return infos.status();
    for (int g = 0; g < schedule.groups_size(); ++g) {
      const auto& others = (*infos)[g].others;
      const auto wanted = variant.groups(0).skeleton_case();
      if (wanted == v1::Group::SKELETON_NOT_SET || wanted == (*infos)[g].skeleton ||
          std::find(others.begin(), others.end(), wanted) != others.end())
        schedule.mutable_groups(g)->MergeFrom(variant.groups(0));
    }
    return schedule;
  }

  absl::Status Time(const std::string& label, const graph::Graph& graph,
                    const v1::Schedule& schedule) const {
    const auto rewritten = codegen::Rewrite(graph, schedule.rewrites());
    if (!rewritten.ok()) return rewritten.status();
    const auto infos = codegen::Describe(*rewritten, schedule, target_);
    if (!infos.ok()) return infos.status();
    auto plan = codegen::Lower(*rewritten, schedule, target_);
    if (!plan.ok()) return plan.status();
    if (!options_.dump.empty()) {
      const std::string file =
          absl::StrCat(options_.dump, "/", absl::StrReplaceAll(label, {{"/", "."}}));
      std::ofstream(file + ".cu") << plan->source();
      std::ofstream(file + ".txt") << schedule.DebugString();
    }
    if (options_.estimate) {
      double seconds = 0;
      for (const codegen::GroupInfo& group : *infos) seconds += group.seconds;
      std::printf("%-48s %10.1f %4d\n", label.c_str(), seconds * 1e6, schedule.groups_size());
      for (int g = 0; g < schedule.groups_size(); ++g) {
        const codegen::GroupInfo& group = (*infos)[g];
        std::printf("  %-46s %10.1f %s\n", schedule.groups(g).roots(0).c_str(), group.seconds * 1e6,
                    codegen::NameOf(group.skeleton).c_str());
      }
      return absl::OkStatus();
    }
    if (options_.bound_waits) plan->set_source(absl::StrCat(problem::kBoundWaits, plan->source()));
    auto measured = Measure(device_, compiler_, *plan, options_);
    if (!measured.ok()) return measured.status();
    const bool ran = device_ != nullptr;
    const double light = ran ? graph::LightSeconds(graph::Count(graph), roof_) : 0;
    std::printf("%-36s %10.1f %10.1f %6.2f %4d %6.0f ms %5d %6d\n", label.c_str(),
                measured->seconds * 1e6, light * 1e6, ran ? light / measured->seconds : 0,
                measured->launches, measured->compile_ms, measured->registers, measured->spills);
    for (double moved : measured->moved) {
      std::printf("%36s %10.1f  moved\n", "", moved * 1e6);
    }
    if (options_.groups) Groups(*rewritten, schedule, *infos, measured->entries);
    return absl::OkStatus();
  }

  // A line for each group that runs something.
  static void Groups(const graph::Graph& graph, const v1::Schedule& schedule,
                     const std::vector<codegen::GroupInfo>& infos,
                     const std::map<std::string, double>& entries) {
    for (int g = 0; g < schedule.groups_size(); ++g) {
      const std::string& root = schedule.groups(g).roots(0);
      const std::string prefix = codegen::EntryPrefix(graph.Find(root));
      double seconds = 0;
      for (const auto& [entry, each] : entries) {
        if (absl::StartsWith(entry, prefix)) seconds += each;
      }
      if (seconds == 0) continue;
      std::printf("  %-34s %10.1f us, estimated %8.1f, %5.2f of it, %s\n", root.c_str(),
                  seconds * 1e6, infos[g].seconds * 1e6, seconds / infos[g].seconds,
                  codegen::NameOf(infos[g].skeleton).c_str());
    }
  }

 private:
  const Options& options_;
  device::Device* const device_;
  device::Compiler& compiler_;
  const graph::Roof roof_;
  const codegen::Target target_;
};

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
}

int Run(const Options& options) {
  auto variants = ReadVariants(options.variants);
  if (!variants.ok()) return Fail(variants.status());
  auto set = problem::LoadSet(options.problems);
  if (!set.ok()) return Fail(set.status());
  codegen::Target target;
  graph::Roof roof;
  std::unique_ptr<device::Device> device;
  if (absl::StartsWith(options.device, "sm_")) {
    target.arch = options.device;
  } else {
    auto made = device::MakeDevice(options.device);
    if (!made.ok()) return Fail(made.status());
    device = *std::move(made);
    auto measured = device->MeasureRoof();
    if (!measured.ok()) return Fail(measured.status());
    roof = *measured;
    target = device::TargetOf(device->info());
  }
  auto compiler = device::MakeCompiler(target.arch, "/tmp/warpsmith-bench-cache");
  if (!compiler.ok()) return Fail(compiler.status());
  const Bench bench(options, device.get(), **compiler, roof, target);
  bench.Header();
  int failures = 0;
  for (const auto& problem : set->problems()) {
    if (!options.only.empty() && !absl::StrContains(problem.name(), options.only)) continue;
    for (const auto& workload : problem.workloads()) {
      auto graph = problem::GraphOf(problem, workload);
      if (!graph.ok()) return Fail(graph.status());
      std::vector<absl::StatusOr<v1::Schedule>> schedules;
      if (options.one_pass) {
        schedules.push_back(bench.ScheduleOf(*graph, {}));
        if (auto start = bench.InOnePass(*graph)) schedules.push_back(*std::move(start));
      } else if (options.starts) {
        for (v1::Schedule& start : bench.Starts(*graph)) schedules.push_back(std::move(start));
      } else {
        for (const v1::Schedule& variant : *variants)
          schedules.push_back(bench.ScheduleOf(*graph, variant));
      }
      for (size_t v = options.alone ? 1 : 0; v < schedules.size(); ++v) {
        const std::string label =
            absl::StrCat(problem.name(), "/", workload.name(), v > 0 ? absl::StrCat(" #", v) : "");
        absl::Status status = schedules[v].status();
        if (status.ok()) status = bench.Time(label, *graph, *schedules[v]);
        if (!status.ok()) {
          ++failures;
          std::printf("%-36s %s\n", label.c_str(),
                      std::string(status.message()).substr(0, 400).c_str());
        }
        std::fflush(stdout);
      }
    }
  }
  return failures > 0 ? 2 : 0;
}

}  // namespace
}  // namespace warpsmith

int main(int argc, char** argv) {
  warpsmith::Options options;
  CLI::App app("Times what code generation makes of a problem set without search");
  app.add_option("problems", options.problems, "problem set (JSON)")->required();
  app.add_option("--device", options.device,
                 "host, cuda:N, or an architecture (sm_90a): compiled, not run")
      ->capture_default_str();
  app.add_option("--only", options.only, "problems whose name contains this");
  app.add_option("--dump", options.dump, "existing folder for sources and schedules");
  app.add_option("--variants", options.variants, "file of schedules to time beside the default");
  app.add_flag("--bound-waits", options.bound_waits, "kernels that hang say at which barrier");
  app.add_flag("--alone", options.alone, "all but the default");
  app.add_flag("--starts", options.starts,
               "what a search goes on with, one after the other, where its start is not right")
      ->excludes("--variants");
  app.add_flag("--estimate", options.estimate, "estimated us of the default; nothing is compiled");
  app.add_flag("--one-pass", options.one_pass, "products in one pass of fp16 beside the default")
      ->excludes("--starts");
  app.add_flag("--op-by-op", options.op_by_op, "one kernel for each node")->excludes("--starts");
  app.add_option("--samples", options.samples, "timed runs")->capture_default_str();
  app.add_option("--fill", options.fill, "value of every element")->capture_default_str();
  app.add_flag("--random", options.random, "elements are drawn instead");
  app.add_flag("--groups", options.groups, "each group by itself, beside its estimate");
  app.add_option("--moves", options.moves, "times again at other addresses")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  return warpsmith::Run(options);
}
