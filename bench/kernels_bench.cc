// How near the memory's speed the skeletons for any map and any reduction come: permuted copies and
// sums over subsets of axes, drawn at random, each timed with the variants of knobs asked for.
// Shares are of
// --roof, each byte in and out once; a plain copy and a plain read are timed beside them.
//
//   warpsmith-bench-kernels permute --device cuda:0 --count 40 --bytes 1073741824
//   warpsmith-bench-kernels fold --device cuda:0 --variant threads=256 --variant threads=512
//
// With `norm`, norms with several rows at once, each with the same list of knobs. Answers of
// permuted copies are checked; those of sums with --check (slow: a thread for each output).
#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <functional>
#include <future>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "worker/device/device.h"
#include "worker/device/plan_builder.h"
#include "worker/kernels/fold_rule.h"
#include "worker/kernels/norm_example.h"
#include "worker/kernels/tile_rule.h"

namespace warpsmith {
namespace {

constexpr absl::Duration kLimit = absl::Seconds(60);
constexpr int kCompilers = 16;

struct Options {
  std::string what, device = "host", compile, nvrtc, cache = "/tmp/warpsmith-bench-cache", dump;
  std::vector<std::string> variants;
  std::vector<int> sizes = {1, 2, 4, 8};  // bytes of an element
  int64_t bytes = 1 << 24;                // of the input
  int count = 40, samples = 5;
  int seed = 1;
  double roof = 4.3e12;
  bool check = false;
};

using Numbers = std::map<std::string, int64_t>;

// One thing to time: a plan, the bytes it must move, and a line that says what it is.
struct Job {
  std::string label, source, group;
  std::function<void(device::PlanBuilder&)> steps, check;
  double bytes = 0;
  absl::Status status;
  absl::StatusOr<device::Binary> binary = absl::UnknownError("not compiled");
};

constexpr char kCommon[] = R"(
#include <warpsmith/base.cuh>
extern "C" __global__ void init(unsigned* x, long long words, int floats) {
  const long long stride = (long long)gridDim.x * blockDim.x;
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < words; i += stride) {
    unsigned h = (unsigned)i * 2654435761u;
    h ^= h >> 15; h *= 2246822519u; h ^= h >> 13;
    x[i] = floats ? (0x3f003f00u | (h & 0x007f007fu)) : h;
  }
}
extern "C" __global__ void __launch_bounds__(256) plain_copy(const uint4* x, uint4* y, long long n) {
  const long long i = blockIdx.x * 1024ll + threadIdx.x;
  uint4 v[4];
#pragma unroll
  for (int j = 0; j < 4; ++j) if (i + j * 256 < n) v[j] = x[i + j * 256];
#pragma unroll
  for (int j = 0; j < 4; ++j) if (i + j * 256 < n) y[i + j * 256] = v[j];
}
)";

// Odd shapes come out a little larger than asked for.
int64_t Capacity(const Options& options) { return options.bytes + options.bytes / 8 + (1 << 20); }

class Bench {
 public:
  Bench(const Options& options, device::Device& device) : options_(options), device_(device) {}

  absl::Status Start() {
    capacity_ = Capacity(options_);
    for (int64_t bytes : {capacity_, capacity_, kScratchBytes, kWeightBytes, kWeightBytes}) {
      auto memory = device_.Allocate(bytes);
      if (!memory.ok()) return memory.status();
      memory_.push_back(*std::move(memory));
    }
    return absl::OkStatus();
  }

  device::PlanBuilder Plan(const std::string& source) const {
    return device::PlanBuilder(source)
        .Buffer("x", capacity_)
        .Buffer("y", capacity_)
        .Buffer("scratch", kScratchBytes)
        .Buffer("weight", kWeightBytes)
        .Buffer("bias", kWeightBytes);
  }
  int64_t capacity() const { return capacity_; }
  static constexpr int64_t kWeightBytes = int64_t{16} << 20;
  static constexpr int64_t kScratchBytes = int64_t{256} << 20;

  // Runs a plan once, or gives the median seconds of several.
  absl::StatusOr<double> Time(const v1::Plan& plan, const device::Binary& binary, int samples) {
    auto program = device_.Load(plan, binary);
    if (!program.ok()) return program.status();
    std::vector<device::Memory*> bound;
    for (auto& memory : memory_) bound.push_back(memory.get());
    if (auto s = (*program)->Bind(bound); !s.ok()) return s;
    if (samples == 0) {
      const absl::Status status = device_.Run(**program, kLimit);
      if (!status.ok()) return status;
      return 0.0;
    }
    std::vector<double> times;
    for (int i = 0; i < samples; ++i) {
      auto seconds = device_.Time(**program, kLimit);
      if (!seconds.ok()) return seconds.status();
      times.push_back(*seconds);
    }
    std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
    return times[times.size() / 2];
  }

  absl::StatusOr<unsigned> Mismatches() {
    unsigned count = 0;
    if (auto s = device_.Read(*memory_[2], &count, 4, kScratchBytes - 4096); !s.ok()) return s;
    return count;
  }
  absl::Status ForgetMismatches() {
    const unsigned none = 0;
    return device_.Write(*memory_[2], &none, 4, kScratchBytes - 4096);
  }
  device::Device& device() { return device_; }
  absl::Status Poison() { return device_.Fill(*memory_[1], 0xdeadbeefu); }

 private:
  const Options& options_;
  device::Device& device_;
  int64_t capacity_ = 0;
  std::vector<std::unique_ptr<device::Memory>> memory_;
};

int64_t Product(const std::vector<int64_t>& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), int64_t{1}, std::multiplies<>());
}

// Extents of about `elements`, log-uniform from 2 on; every other draw powers of two, else
// anything.
std::vector<int64_t> DrawExtents(int rank, double elements, std::mt19937& random) {
  const bool tidy = random() % 2 == 0;
  std::vector<double> parts;
  double left = std::log2(elements) - rank;
  std::uniform_real_distribution<double> uniform(0, 1);
  std::vector<double> cuts = {0, left};
  for (int i = 1; i < rank; ++i) cuts.push_back(uniform(random) * left);
  std::sort(cuts.begin(), cuts.end());
  std::vector<int64_t> extents;
  double have = 1;
  for (int i = 0; i < rank; ++i) {
    double n = std::exp2(1 + cuts[i + 1] - cuts[i]);
    if (tidy) n = std::exp2(std::round(std::log2(n)));
    if (i == rank - 1) n = std::max(2.0, elements / have);
    extents.push_back(std::max<int64_t>(2, static_cast<int64_t>(n)));
    have *= static_cast<double>(extents.back());
  }
  std::shuffle(extents.begin(), extents.end(), random);
  return extents;
}

Numbers ParseVariant(const std::string& text) {
  Numbers numbers;
  for (auto part : absl::StrSplit(text, absl::ByAnyChar(" ,"), absl::SkipEmpty())) {
    const std::pair<std::string, std::string> both = absl::StrSplit(part, absl::MaxSplits('=', 1));
    int64_t value = 0;
    if (absl::SimpleAtoi(both.second, &value)) numbers[both.first] = value;
  }
  return numbers;
}

void Set(const Numbers& numbers, const char* name, int& knob) {
  const auto found = numbers.find(name);
  if (found != numbers.end()) knob = static_cast<int>(found->second);
}

// ---- permuted copies ----------------------------------------------------------------------------

std::string Naive(const kernels::TileProblem& problem) {
  const char* const types[] = {"", "unsigned char",     "unsigned short", "", "unsigned", "", "",
                               "", "unsigned long long"};
  const std::string type = types[problem.write_bytes];
  std::string text = absl::StrCat(
      "extern \"C\" __global__ void compare(const ", type, "* x, const ", type,
      "* y, unsigned* bad) {\n  const long long i = blockIdx.x * 256ll + threadIdx.x;\n  if (i >= ",
      Product(problem.extents), "ll) return;\n  long long rest = i, at = 0;\n");
  for (int d = static_cast<int>(problem.extents.size()) - 1; d >= 0; --d) {
    absl::StrAppend(&text, "  at += rest % ", problem.extents[d], "ll * ",
                    problem.inputs[0].strides[d], "ll; rest /= ", problem.extents[d], "ll;\n");
  }
  absl::StrAppend(&text, "  if (x[at] != y[i]) atomicAdd(bad + ", Bench::kScratchBytes / 4 - 1024,
                  ", 1u);\n}\n");
  return text;
}

kernels::TileProblem DrawPermutation(const Options& options, int bytes, std::mt19937& random) {
  for (;;) {
    const int rank = 2 + static_cast<int>(random() % 5);
    const auto input = DrawExtents(rank, static_cast<double>(options.bytes) / bytes, random);
    std::vector<int> axes(rank);
    std::iota(axes.begin(), axes.end(), 0);
    std::shuffle(axes.begin(), axes.end(), random);
    kernels::TileProblem problem;
    problem.write_bytes = bytes;
    problem.inputs.resize(1);
    problem.inputs[0].bytes = bytes;
    for (int axis : axes) {
      problem.extents.push_back(input[axis]);
      problem.inputs[0].strides.push_back(Product({input.begin() + axis + 1, input.end()}));
    }
    problem = kernels::MergeAxes(problem);
    if (problem.extents.size() > 1 && Product(input) * bytes <= Capacity(options)) return problem;
  }
}

Job PermuteJob(const kernels::TileProblem& problem, const std::string& variant) {
  kernels::TileKnobs knobs;
  const Numbers numbers = ParseVariant(variant);
  Set(numbers, "threads", knobs.threads);
  Set(numbers, "line", knobs.line_bytes);
  Set(numbers, "box", knobs.box_bytes);
  Set(numbers, "vector", knobs.vector_bytes);
  if (numbers.count("anywhere")) knobs.anywhere = numbers.at("anywhere") != 0;
  if (numbers.count("raster")) knobs.raster_input = numbers.at("raster") != 0;
  Job job;
  auto choice = kernels::ChooseTile(problem, knobs);
  job.status = choice.status();
  if (!choice.ok()) return job;
  const int64_t elements = Product(problem.extents);
  job.source = absl::StrCat(kernels::TileCopySource(problem, *choice, "permute"), Naive(problem));
  job.bytes = 2.0 * static_cast<double>(elements * problem.write_bytes);
  job.group = absl::StrCat(problem.write_bytes, " B");
  job.label = absl::StrCat(
      absl::StrJoin(problem.extents, "x"), " from ", absl::StrJoin(problem.inputs[0].strides, ","),
      " | ", absl::StrJoin(choice->tile, "x"), " v", choice->streams[0].vector,
      choice->streams[0].anywhere ? "a" : "", " w", choice->write, choice->run > 0 ? "a" : "", " p",
      choice->streams[0].pack, " passes ", choice->passes, "/", choice->fewest_passes);
  const kernels::TileChoice c = *choice;
  job.steps = [c](device::PlanBuilder& plan) {
    plan.Launch("permute", static_cast<uint32_t>(c.boxes), static_cast<uint32_t>(c.threads),
                {device::Arg(0), device::Arg(1)})
        .Shared(static_cast<uint32_t>(c.shared_bytes));
  };
  job.check = [elements](device::PlanBuilder& plan) {
    plan.Launch("compare", static_cast<uint32_t>((elements + 255) / 256), 256,
                {device::Arg(0), device::Arg(1), device::Arg(2)});
  };
  return job;
}

// ---- sums over any axes -------------------------------------------------------------------------

kernels::FoldProblem DrawFold(const Options& options, int bytes, std::mt19937& random) {
  for (;;) {
    const int rank = 1 + static_cast<int>(random() % 6);
    const auto extents = DrawExtents(rank, static_cast<double>(options.bytes) / bytes, random);
    std::vector<bool> kept;
    bool sums = false;
    for (int d = 0; d < rank; ++d) {
      kept.push_back(random() % 2 == 0);
      sums = sums || !kept.back();
    }
    if (sums && Product(extents) * bytes <= Capacity(options))
      return kernels::MergeAxes(kernels::DenseFold(extents, kept, bytes));
  }
}

Job FoldJob(const kernels::FoldProblem& problem, const std::string& variant, int sm_count) {
  kernels::FoldKnobs knobs;
  const Numbers numbers = ParseVariant(variant);
  Set(numbers, "threads", knobs.threads);
  Set(numbers, "vector", knobs.vector_bytes);
  Set(numbers, "flight", knobs.flight_bytes);
  Set(numbers, "resident", knobs.resident_blocks);
  Set(numbers, "split", knobs.split);
  Job job;
  auto choice = kernels::ChooseFold(problem, knobs, sm_count);
  job.status = choice.status();
  if (!choice.ok()) return job;
  std::string label;
  int64_t elements = 1;
  for (const auto& axis : problem.axes) {
    absl::StrAppend(&label, label.empty() ? "" : " ", axis.kept ? "K" : "S", axis.extent);
    elements *= axis.extent;
  }
  job.source = kernels::FoldSumSource(problem, *choice, "sum");
  job.bytes = static_cast<double>(elements * problem.bytes + choice->outputs * 4);
  job.group = absl::StrCat(problem.bytes, " B");
  job.label = absl::StrCat(label, " | ", absl::StrJoin(choice->box, "x"), " v", choice->vector,
                           " u", choice->vectors, "x", choice->unroll, " jobs ", choice->jobs,
                           " steps ", choice->steps, " split ", choice->split);
  if (choice->partial_bytes > Bench::kScratchBytes - 8192) {
    job.status = absl::InvalidArgumentError("partial results outgrow the scratch buffer");
    return job;
  }
  const kernels::FoldChoice c = *choice;
  job.steps = [c](device::PlanBuilder& plan) {
    std::vector<v1::Argument> arguments = {device::Arg(0), device::Arg(1)};
    if (c.split > 1) arguments.push_back(device::Arg(2));
    plan.Launch("sum", static_cast<uint32_t>(c.jobs * c.split), static_cast<uint32_t>(c.threads),
                arguments)
        .Shared(static_cast<uint32_t>(c.shared_bytes));
    if (c.split == 1) return;
    plan.Launch("sum_combine", static_cast<uint32_t>(c.combine_blocks),
                static_cast<uint32_t>(c.combine_threads), arguments)
        .Shared(static_cast<uint32_t>(c.combine_shared_bytes));
  };
  // Every output against a double sum by one thread.
  const std::string type = problem.bytes == 4   ? "float"
                           : problem.bytes == 2 ? "ws::bf16"
                                                : "unsigned char";
  absl::StrAppend(&job.source, "extern \"C\" __global__ void compare(const ", type,
                  "* x, const float* y, unsigned* bad) {\n  const long long o = blockIdx.x * 256ll "
                  "+ threadIdx.x;\n  if (o >= ",
                  c.outputs, "ll) return;\n  long long base = 0, rest = o;\n");
  int64_t summed = 1;
  for (int d = static_cast<int>(problem.axes.size()) - 1; d >= 0; --d) {
    const auto& axis = problem.axes[d];
    if (axis.kept)
      absl::StrAppend(&job.source, "  base += rest % ", axis.extent, "ll * ", axis.stride,
                      "ll; rest /= ", axis.extent, "ll;\n");
    else
      summed *= axis.extent;
  }
  absl::StrAppend(&job.source, "  double sum = 0;\n  for (long long s = 0; s < ", summed,
                  "ll; ++s) {\n    long long at = base, left = s;\n");
  for (int d = static_cast<int>(problem.axes.size()) - 1; d >= 0; --d) {
    const auto& axis = problem.axes[d];
    if (!axis.kept)
      absl::StrAppend(&job.source, "    at += left % ", axis.extent, "ll * ", axis.stride,
                      "ll; left /= ", axis.extent, "ll;\n");
  }
  absl::StrAppend(&job.source, "    sum += ", problem.bytes == 2 ? "ws::to_float(x[at])" : "x[at]",
                  ";\n  }\n  const double error = sum - y[o];\n  if (!(error * error <= 1e-12 * "
                  "sum * sum)) atomicAdd(bad + ",
                  Bench::kScratchBytes / 4 - 1024, ", 1u);\n}\n");
  job.check = [c](device::PlanBuilder& plan) {
    plan.Launch("compare", static_cast<uint32_t>((c.outputs + 255) / 256), 256,
                {device::Arg(0), device::Arg(1), device::Arg(2)});
  };
  return job;
}

// ---- norms, several rows at once ----------------------------------------------------------------

struct NormCase {
  const char* what;
  kernels::NormProblem problem;
  std::vector<kernels::NormKnobs> knobs;
};

std::vector<NormCase> NormCases() {
  std::vector<NormCase> cases;
  // vector, threads, threads a row, blocks a row, meeting, registers, shared, unroll, persistent,
  // together, hint
  std::vector<kernels::NormKnobs> huge = {{4, 512, 512, 128, 2, 8, 8, 4, true, 1, 0, 0},
                                          {4, 512, 512, 128, 2, 8, 8, 4, true, 1, 2, 0},
                                          {4, 512, 512, 128, 2, 8, 8, 4, true, 1, 2, 1},
                                          {4, 512, 512, 128, 2, 8, 8, 4, true, 1, 3, 1},
                                          {4, 512, 512, 128, 2, 8, 8, 8, true, 1, 3, 1},
                                          {4, 512, 512, 128, 2, 6, 10, 4, true, 1, 3, 1},
                                          {4, 512, 512, 256, 2, 4, 4, 2, true, 2, 2, 0},
                                          {4, 512, 512, 256, 2, 4, 4, 2, true, 2, 3, 1},
                                          {4, 512, 512, 256, 2, 3, 5, 4, true, 2, 3, 1},
                                          {4, 512, 512, 256, 2, 4, 4, 4, true, 2, 3, 1},
                                          {4, 1024, 1024, 128, 2, 4, 4, 4, true, 2, 3, 1},
                                          {4, 1024, 1024, 64, 2, 8, 8, 4, true, 1, 3, 1}};
  cases.push_back({"layer norm 16 x 4,194,304", {16, 4194304, 1, 0, 4, true, false}, huge});
  cases.push_back({"the same, one meeting", {16, 4194304, 1, 0, 4, true, true}, huge});
  for (int bytes : {2, 4}) {
    for (int64_t head : {64, 128, 256}) {
      std::vector<kernels::NormKnobs> knobs;
      const int v = 16 / bytes, lanes = static_cast<int>(head) / v;
      for (int together : {1, 2, 4}) {
        for (bool persistent : {false, true})
          knobs.push_back({v, 256, lanes, 1, 0, 1, 0, 1, persistent, together, 2, 0, persistent});
      }
      knobs.push_back({v, 256, lanes, 1, 0, 1, 0, 1, false, 1, 0});
      knobs.push_back({v, 128, lanes, 1, 0, 1, 0, 1, false, 2, 2});
      knobs.push_back({v / 2, 256, lanes * 2 > 32 ? 32 : lanes * 2, 1, 0,
                       lanes * 2 > 32 ? lanes * 2 / 32 : 1, 0, 1, false, 2, 2});
      // The query heads of a layout [tokens, 3 * 16 heads, head].
      const int64_t rows = (int64_t{1} << 28) / head / bytes;
      cases.push_back(
          {"RMS norm of heads", {rows, head, 16, 48 * head, bytes, false, true}, knobs});
    }
  }
  return cases;
}

Job NormJob(const NormCase& one, const kernels::NormKnobs& knobs, int sm_count, int64_t capacity) {
  Job job;
  const kernels::NormProblem& p = one.problem;
  const kernels::NormLaunch launch = kernels::LaunchOf(p, knobs);
  const int64_t pitch = p.pitch > 0 ? p.pitch : p.heads * p.elements;
  if (p.rows / p.heads * pitch * p.bytes > capacity)
    job.status = absl::InvalidArgumentError("more than --bytes");
  const int64_t resident =
      int64_t{sm_count} * (knobs.blocks_per_row > 1 ? 1024 / knobs.threads : 2048 / knobs.threads);
  const int64_t groups =
      knobs.persistent ? std::min(launch.groups, resident / launch.blocks_per_wave) : launch.groups;
  job.source = kernels::NormSource(p, knobs, "norm");
  job.bytes = 2.0 * static_cast<double>(p.rows * p.elements * p.bytes) +
              static_cast<double>(p.elements) * 4 * (p.centred ? 2 : 1);
  job.group = one.what;
  job.label =
      absl::StrCat(one.what, " ", p.elements, " of ", p.bytes, " B | v", knobs.vector, " threads ",
                   knobs.threads, " a row ", knobs.threads_per_row, " x ", knobs.blocks_per_row,
                   " kept ", knobs.registers, "+", knobs.shared,
                   knobs.persistent ? " persistent" : "", " together ", knobs.rows_at_once,
                   " hints ", knobs.weight_hint, knobs.stream_hint, knobs.keep ? " kept" : "");
  const uint32_t blocks = static_cast<uint32_t>(groups * launch.blocks_per_wave);
  job.steps = [=](device::PlanBuilder& plan) {
    if (knobs.blocks_per_row > 1) plan.Fill(2, 0, groups * launch.exchange_bytes);
    plan.Launch("norm", blocks, static_cast<uint32_t>(knobs.threads),
                {device::Arg(0), device::Arg(3), device::Arg(4), device::Arg(1), device::Arg(2)})
        .Shared(static_cast<uint32_t>(launch.shared_bytes));
    if (knobs.blocks_per_row > 1) plan.Cooperative();
  };
  return job;
}

// ---- all of it ----------------------------------------------------------------------------------

void CompileAll(device::Compiler& compiler, std::vector<Job>& jobs) {
  std::atomic<size_t> next = 0;
  std::vector<std::future<void>> workers;
  for (int w = 0; w < kCompilers; ++w) {
    workers.push_back(std::async(std::launch::async, [&] {
      for (size_t i; (i = next++) < jobs.size();) {
        if (jobs[i].status.ok()) jobs[i].binary = compiler.Compile(jobs[i].source, kLimit);
      }
    }));
  }
}

absl::StatusOr<double> TimeJob(Bench& bench, const Options& options, const Job& job, bool check) {
  if (!job.status.ok()) return job.status;
  if (!job.binary.ok()) return job.binary.status();
  auto timed = bench.Plan(job.source);
  job.steps(timed);
  if (check) {
    if (auto s = bench.Poison(); !s.ok()) return s;
    if (auto s = bench.ForgetMismatches(); !s.ok()) return s;
    auto plan = bench.Plan(job.source);
    job.steps(plan);
    job.check(plan);
    if (auto once = bench.Time(plan.Build(), *job.binary, 0); !once.ok()) return once;
    auto bad = bench.Mismatches();
    if (!bad.ok()) return bad.status();
    if (*bad > 0) return absl::InternalError(absl::StrCat("WRONG: ", *bad, " elements differ"));
  }
  return bench.Time(timed.Build(), *job.binary, options.samples);
}

int Registers(const Job& job, int& spills) {
  int registers = 0;
  spills = 0;
  if (!job.binary.ok()) return 0;
  for (const auto& kernel : job.binary->report.kernels()) {
    if (kernel.entry() == "compare") continue;
    registers = std::max(registers, kernel.registers());
    spills = std::max(spills, kernel.spill_bytes());
  }
  return registers;
}

std::vector<std::string> VariantsOf(const Options& options) {
  return options.variants.empty() ? std::vector<std::string>{""} : options.variants;
}

// Every problem with every variant.
std::vector<Job> DrawJobs(const Options& options, int sm_count) {
  std::vector<Job> jobs;
  if (options.what == "norm") {
    for (const NormCase& one : NormCases()) {
      for (const auto& knobs : one.knobs)
        jobs.push_back(NormJob(one, knobs, sm_count, Capacity(options)));
    }
    return jobs;
  }
  const bool fold = options.what == "fold";
  for (int bytes : options.sizes) {
    if (fold && bytes == 8) continue;
    std::mt19937 random(static_cast<unsigned>(options.seed * 16 + bytes));
    for (int i = 0; i < options.count; ++i) {
      if (fold) {
        const auto problem = DrawFold(options, bytes, random);
        for (const auto& variant : VariantsOf(options))
          jobs.push_back(FoldJob(problem, variant, sm_count));
      } else {
        const auto problem = DrawPermutation(options, bytes, random);
        for (const auto& variant : VariantsOf(options))
          jobs.push_back(PermuteJob(problem, variant));
      }
    }
  }
  return jobs;
}

// Without a device: what the compiler says of each kernel.
absl::Status CompileOnly(const Options& options) {
  auto compiler = device::MakeCompiler(options.compile, options.cache, options.nvrtc);
  if (!compiler.ok()) return compiler.status();
  std::vector<Job> jobs = DrawJobs(options, 132);
  CompileAll(**compiler, jobs);
  int failures = 0;
  for (const Job& job : jobs) {
    const absl::Status status = job.status.ok() ? job.binary.status() : job.status;
    failures += !status.ok();
    int spills = 0;
    const int registers = Registers(job, spills);
    std::printf("%s %3d regs %d spilled %5.0f ms  %s%s\n", job.group.c_str(), registers, spills,
                job.binary.ok() ? job.binary->report.compile_ms() : 0.0, job.label.c_str(),
                status.ok() ? "" : std::string(status.message()).substr(0, 600).c_str());
  }
  return failures > 0 ? absl::InternalError(absl::StrCat(failures, " do not compile"))
                      : absl::OkStatus();
}

absl::Status RunNorms(Bench& bench, device::Compiler& compiler, const Options& options) {
  std::vector<Job> jobs = DrawJobs(options, bench.device().info().sm_count);
  CompileAll(compiler, jobs);
  for (const Job& job : jobs) {
    auto seconds = TimeJob(bench, options, job, false);
    int spills = 0;
    const int registers = Registers(job, spills);
    if (seconds.ok()) {
      std::printf("%8.1f us %6.3f %4d regs%s  %s\n", *seconds * 1e6,
                  job.bytes / *seconds / options.roof, registers, spills > 0 ? "!" : " ",
                  job.label.c_str());
    } else {
      std::printf("FAILED %s: %s\n", job.label.c_str(),
                  std::string(seconds.status().message()).substr(0, 300).c_str());
      if (absl::IsOutOfRange(seconds.status()) || absl::IsAborted(seconds.status()))
        return seconds.status();
    }
    std::fflush(stdout);
  }
  return absl::OkStatus();
}

absl::Status Run(const Options& options) {
  if (!options.compile.empty()) return CompileOnly(options);
  auto device = device::MakeDevice(options.device);
  if (!device.ok()) return device.status();
  auto compiler = device::MakeCompiler((*device)->info().arch, options.cache, options.nvrtc);
  if (!compiler.ok()) return compiler.status();
  Bench bench(options, **device);
  if (auto s = bench.Start(); !s.ok()) return s;
  auto common = (*compiler)->Compile(kCommon, kLimit);
  if (!common.ok()) return common.status();
  const bool fold = options.what != "permute";
  const int64_t words = bench.capacity() / 4, vectors = options.bytes / 16;
  auto init = bench.Plan(kCommon).Launch(
      "init", 4096, 256, {device::Arg(0), device::Arg64(words), device::Arg32(fold)});
  if (auto s = bench.Time(init.Build(), *common, 0); !s.ok()) return s.status();
  if (auto s = (*device)->Settle(absl::Seconds(1)); !s.ok()) return s;
  auto copy = bench.Time(bench.Plan(kCommon)
                             .Launch("plain_copy", static_cast<uint32_t>((vectors + 1023) / 1024),
                                     256, {device::Arg(0), device::Arg(1), device::Arg64(vectors)})
                             .Build(),
                         *common, options.samples);
  if (!copy.ok()) return copy.status();
  const double copy_bytes = 2.0 * static_cast<double>(options.bytes);
  std::printf("%s: a plain copy of %lld MiB takes %.1f us, %.2f of the roof\n",
              (*device)->info().name.c_str(), static_cast<long long>(options.bytes >> 20),
              *copy * 1e6, copy_bytes / *copy / options.roof);

  if (options.what == "norm") return RunNorms(bench, **compiler, options);

  const std::vector<std::string> variants = VariantsOf(options);
  std::vector<Job> jobs = DrawJobs(options, (*device)->info().sm_count);
  CompileAll(**compiler, jobs);
  std::map<std::string, std::vector<std::vector<double>>> shares;  // by size, then variant
  int failures = 0;
  for (size_t i = 0; i < jobs.size(); i += variants.size()) {
    auto& group = shares[jobs[i].group];
    group.resize(variants.size() + 1);
    double best = 0;
    std::string line;
    for (size_t v = 0; v < variants.size(); ++v) {
      const Job& job = jobs[i + v];
      auto seconds = TimeJob(bench, options, job, fold ? options.check : true);
      double share = 0;
      if (seconds.ok()) {
        share = job.bytes / *seconds / options.roof;
      } else {
        ++failures;
        std::printf("FAILED %s: %s\n", job.label.c_str(),
                    std::string(seconds.status().message()).substr(0, 600).c_str());
        if (absl::IsOutOfRange(seconds.status()) || absl::IsAborted(seconds.status()))
          return seconds.status();
      }
      group[v].push_back(share);
      best = std::max(best, share);
      int spills = 0;
      const int registers = Registers(job, spills);
      absl::StrAppend(&line, "  ", absl::StrCat(static_cast<int>(share * 1000 + 0.5)),
                      spills > 0 ? "!" : "");
      if (v == 0) absl::StrAppend(&line, " (", registers, " regs)");
    }
    group[variants.size()].push_back(best);
    std::printf("%s%s  %s\n", jobs[i].group.c_str(), line.c_str(), jobs[i].label.c_str());
    std::fflush(stdout);
  }
  std::printf("\n%-6s %-44s %6s %6s %6s %6s\n", "bytes", "variant", "worst", "10 %", "median",
              "mean");
  for (auto& [size, group] : shares) {
    for (size_t v = 0; v <= variants.size(); ++v) {
      if (v == variants.size() && v == 1) break;
      auto& list = group[v];
      std::sort(list.begin(), list.end());
      double log = 0;
      for (double share : list) log += std::log(std::max(share, 1e-4));
      std::printf("%-6s %-44s %6.3f %6.3f %6.3f %6.3f\n", size.c_str(),
                  v == variants.size()  ? "(best of all)"
                  : variants[v].empty() ? "default"
                                        : variants[v].c_str(),
                  list[0], list[list.size() / 10], list[list.size() / 2],
                  std::exp(log / static_cast<double>(list.size())));
    }
  }
  if (failures > 0) return absl::InternalError(absl::StrCat(failures, " failed"));
  return absl::OkStatus();
}

}  // namespace
}  // namespace warpsmith

int main(int argc, char** argv) {
  warpsmith::Options options;
  CLI::App app("Times permuted copies and sums over any axes, drawn at random");
  app.add_option("what", options.what, "permute, fold or norm")
      ->required()
      ->check(CLI::IsMember({"permute", "fold", "norm"}));
  app.add_option("--device", options.device, "host or cuda:N")->capture_default_str();
  app.add_option("--compile", options.compile, "compile for this architecture and run nothing");
  app.add_option("--nvrtc", options.nvrtc, "path of libnvrtc.so, where it is not found");
  app.add_option("--variant", options.variants,
                 "knobs to time, as 'line=256 box=32768'; may be repeated");
  app.add_option("--sizes", options.sizes, "bytes of an element")->capture_default_str();
  app.add_option("--bytes", options.bytes, "of the input, about")->capture_default_str();
  app.add_option("--count", options.count, "problems of each size")->capture_default_str();
  app.add_option("--samples", options.samples, "timed runs")->capture_default_str();
  app.add_option("--seed", options.seed, "of the draw")->capture_default_str();
  app.add_option("--roof", options.roof, "bytes a second")->capture_default_str();
  app.add_flag("--check", options.check, "check sums too");
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = warpsmith::Run(options);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
