// Products beside cuBLASLt: square, tall, skinny, small, ragged and turned ones of 16-bit operands,
// and of fp32 operands in two fp16 parts beside the library's fp32. All on the same memory, in an
// order that is drawn anew for each sample, caches flushed by reading something else before each,
// the launch hidden behind that; medians. Of the library the quickest of the algorithms that its
// heuristic names; PRODUCT_LIBRARY are its first ones as steps of a plan.
//
//   warpsmith-bench-contract --device cuda:0            warpsmith-bench-contract --device sm_90a
//   (compiled, not run)
//
// With --busy S each runs back to back for S seconds instead and the second half is timed, a row's
// mean: what is left of its speed where the card's power is the limit. A short run alone between
// pauses doesn't show that.
//
// With --drawn N products of drawn sizes instead, or with --product MxNxK those, each with all
// tiles of 16 bits that a search would try, and what each is estimated at, of the default's
// estimate.
//
// Errors: of 16-bit products against the library's (rms of the difference over the rms), of fp32
// against fp64 at 2,000 places drawn, the largest over the library's largest.
#include <google/protobuf/text_format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "bench/contract_cases.h"
#include "common/graph/numeric.h"
#include "worker/codegen/codegen.h"
#include "worker/device/cuda_memory.h"
#include "worker/device/cuda_program.h"
#include "worker/device/device.h"
#include "worker/device/plan_builder.h"

namespace warpsmith::bench {
namespace {

using device::Arg;

constexpr absl::Duration kLimit = absl::Seconds(60);
constexpr int64_t kFlushBytes = 256 << 20;
constexpr int64_t kLibraryBytes = 64 << 20;  // of workspace
constexpr int kPlaces = 2000;

struct Options {
  std::string device = "cuda:0", nvrtc, cublaslt, only;
  int samples = 15;
  double busy = 0;  // seconds; 0: each run alone, caches flushed before it
  bool uniform = false;
  int drawn = 0;                      // products of drawn sizes instead of the table's
  std::vector<std::string> products;  // or these: "MxNxK"
  uint64_t seed = 1;
};

// Fills with what a hash of the place draws: normal or, in fp32, uniform.
constexpr char kFill[] = R"(#include <warpsmith/base.cuh>
WS_DEVICE float drawn(unsigned long long i, unsigned seed, int uniform) {
  unsigned long long h = (i + 1) * 0x9e3779b97f4a7c15ull + seed * 0xd1b54a32d192ed03ull;
  h = (h ^ h >> 32) * 0xbf58476d1ce4e5b9ull;
  h = (h ^ h >> 29) * 0x94d049bb133111ebull;
  h ^= h >> 32;
  const float u = ((h & 0xffffff) + 1) / 16777217.0f, v = (h >> 24 & 0xffffff) / 16777216.0f;
  return uniform ? u : sqrtf(-2 * logf(u)) * cospif(2 * v);
}
template <class T> WS_DEVICE void fill(T* y, long long count, int seed, int uniform) {
  for (long long i = blockIdx.x * 256ll + threadIdx.x; i < count; i += gridDim.x * 256ll) {
    if constexpr (sizeof(T) == 4) y[i] = drawn(i, seed, uniform); else y[i] = ws::from_float<T>(drawn(i, seed, uniform));
  }
}
// Reads all of it, so that caches hold nothing else and nothing that is yet to be written.
extern "C" __global__ void read_all(const uint4* y, long long count, unsigned* sum) {
  unsigned all = 0;
  for (long long i = blockIdx.x * 256ll + threadIdx.x; i < count; i += gridDim.x * 256ll) all += y[i].x ^ y[i].w;
  if (all == 0x9e3779b9u) *sum = all;
}
extern "C" __global__ void fill_f32(float* y, long long n, int seed, int uniform) { fill(y, n, seed, uniform); }
extern "C" __global__ void fill_f16(ws::f16* y, long long n, int seed, int uniform) { fill(y, n, seed, uniform); }
extern "C" __global__ void fill_u8(ws::f8* y, long long n, int seed, int uniform) { fill(y, n, seed, uniform); }
extern "C" __global__ void fill_bf16(ws::bf16* y, long long n, int seed, int uniform) { fill(y, n, seed, uniform); }
)";

// Of an operand; of "u8", the bits of float8_e4m3fn, the result is bf16.
int64_t ElementBytes(const ProductProblem& p) {
  return p.type == "f32" ? 4 : p.type == "u8" ? 1 : 2;
}
std::string ResultOf(const ProductProblem& p) { return p.type == "u8" ? "bf16" : p.type; }
int64_t ResultBytes(const ProductProblem& p) { return std::max<int64_t>(2, ElementBytes(p)); }

// As the library's step: operands in buffers 0 and 1, the result in 2.
v1::LibraryProduct StepOf(const ProductProblem& p) {
  v1::LibraryProduct step;
  step.set_m(p.m);
  step.set_n(p.n);
  step.set_k(p.k);
  step.set_batches(p.batch);
  const auto fill = [&](v1::Matrix* matrix, int buffer, int64_t rows, int64_t columns, bool along) {
    matrix->set_buffer(buffer);
    matrix->set_dtype(buffer < 2 ? p.type : ResultOf(p));
    matrix->set_line(along ? rows : columns);
    matrix->set_batch(rows * columns);
    matrix->set_along_rows(along);
  };
  fill(step.mutable_a(), 0, p.m, p.k, p.along_m);
  fill(step.mutable_b(), 1, p.n, p.k, p.along_n);
  fill(step.mutable_d(), 2, p.m, p.n, false);
  return step;
}

absl::StatusOr<graph::Graph> GraphOf(const ProductProblem& p) {
  const auto shape = [&](bool along, int64_t rows) {
    return along ? absl::StrCat(p.batch, ", ", p.k, ", ", rows)
                 : absl::StrCat(p.batch, ", ", rows, ", ", p.k);
  };
  const std::string at_a = p.along_m ? "a[b, k, m]" : "a[b, m, k]",
                    at_b = p.along_n ? "b[b, k, n]" : "b[b, n, k]";
  const std::string axes = absl::StrCat("[b: ", p.batch, ", m: ", p.m, ", n: ", p.n, "]");
  const std::string draw = p.type == "u8" ? " ~ integers(0, 255)" : " ~ normal";
  std::vector<std::string> lines = {
      absl::StrCat("input a: ", p.type, "[", shape(p.along_m, p.m), "]", draw),
      absl::StrCat("input b: ", p.type, "[", shape(p.along_n, p.n), "]", draw)};
  if (p.type == "f32") {
    lines.push_back(absl::StrCat("y: f32", axes, " = sum[k: ", p.k, "](", at_a, " * ", at_b, ")"));
  } else {
    const auto number = [&](const std::string& at) {
      return p.type == "u8" ? absl::StrCat("e4m3_of_bits(f32(", at, "))")
                            : absl::StrCat("f32(", at, ")");
    };
    lines.push_back(absl::StrCat("s: f32", axes, " = sum[k: ", p.k, "](", number(at_a), " * ",
                                 number(at_b), ")"));
    lines.push_back(absl::StrCat("y: ", ResultOf(p), axes, " = ", ResultOf(p), "(s[b, m, n])"));
  }
  lines.push_back("output y");
  return graph::Parse(lines, {});
}

struct Lowered {
  v1::Plan plan;  // buffers: a, b, y, then workspace
  std::string knobs;
};

struct Try {
  std::string knobs;
  double estimated = 1;  // of what the default is estimated at
};

// The tiles that a search of the product would try beside its default, of 16 bits on tensor cores,
// as knobs; not those that are estimated to be far slower.
absl::StatusOr<std::vector<Try>> TilesToTry(const ProductProblem& p, int multiprocessors) {
  constexpr double kDefaultPrior = 0.2, kMost = 2.5;
  auto graph = GraphOf(p);
  if (!graph.ok()) return graph.status();
  codegen::Target target;
  target.sm_count = multiprocessors;
  v1::Schedule schedule;
  v1::Group& group = *schedule.add_groups();
  group.mutable_contract()->set_math(v1::PRODUCT_TENSOR);
  group.add_roots("y");
  codegen::Describer describer(*graph, target);
  if (auto infos = describer.Describe(schedule); !infos.ok()) return infos.status();
  std::vector<Try> all;
  for (const codegen::Layout& layout : describer.Layouts(schedule, 0)) {
    if (layout.owner != v1::OCCUPANCY || layout.prior < kDefaultPrior / kMost) continue;
    std::string knobs;
    for (const auto& [name, value] : layout.knobs)
      if (value > 0) absl::StrAppend(&knobs, knobs.empty() ? "" : " ", name, ": ", value);
    all.push_back({knobs, kDefaultPrior / layout.prior});
  }
  return all;
}

absl::StatusOr<Lowered> LowerProblem(const ProductProblem& p, const std::string& knobs,
                                     int multiprocessors, const std::string& library) {
  auto graph = GraphOf(p);
  if (!graph.ok()) return graph.status();
  codegen::Target target;
  target.sm_count = multiprocessors;
  target.library = library;
  v1::Schedule schedule;
  v1::Group& group = *schedule.add_groups();
  const bool skeleton = absl::StrContains(knobs, "{");  // another one, named with its knobs
  const std::string text = skeleton
                               ? knobs
                               : absl::StrCat("contract { ",
                                              knobs.empty() || absl::StrContains(knobs, "math") ? ""
                                              : p.type == "f32" ? "math: PRODUCT_FP16X3 "
                                              : p.type == "u8"  ? "math: PRODUCT_FP8 "
                                                                : "math: PRODUCT_TENSOR ",
                                              knobs, " }");
  if (!google::protobuf::TextFormat::ParseFromString(text, &group))
    return absl::InvalidArgumentError(text);
  group.add_roots("y");
  auto plan = codegen::Lower(*graph, schedule, target);
  if (!plan.ok()) return plan.status();
  auto infos = codegen::Describe(*graph, schedule, target);
  if (!infos.ok()) return infos.status();
  const v1::ContractKnobs& used = (*infos)[0].resolved.contract();
  const bool few = used.math() == v1::PRODUCT_FEW;
  const std::string tiles =
      few ? absl::StrCat("few, ", std::max(used.tile_m(), used.tile_n()), " by ", used.split())
          : absl::StrCat(
                Tiles(used.tile_m(), used.tile_n(), used.stages(), used.cluster(), used.split()),
                used.turns() > 1  ? absl::StrCat(" turns: ", used.turns())
                : used.tail() > 1 ? absl::StrCat(" tail: ", used.tail())
                                  : "");
  return Lowered{*std::move(plan), knobs.empty() ? absl::StrCat("default, ", tiles) : knobs};
}

std::string Name(const Case& c) {
  return absl::StrCat(c.name, " ", c.problem.m, "x", c.problem.n, "x", c.problem.k,
                      c.problem.along_m ? " along m" : "", c.problem.along_n ? " along n" : "");
}

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

class Bench {
 public:
  Bench(const Options& options, std::unique_ptr<device::Device> device,
        std::shared_ptr<device::CudaContext> context, std::unique_ptr<device::Compiler> compiler)
      : options_(options),
        device_(std::move(device)),
        context_(std::move(context)),
        compiler_(std::move(compiler)) {}

  absl::Status Begin();
  absl::Status Run(const Case& c);

 private:
  using Work = std::function<absl::Status()>;
  struct Candidate {
    std::string name;
    v1::Plan plan;
    std::unique_ptr<device::CudaProgram> program;
    std::vector<std::unique_ptr<device::CudaMemory>> workspace;
    double compile_ms = 0, error = 0, estimated = 0;
    std::vector<double> seconds;
  };

  absl::StatusOr<std::unique_ptr<device::CudaMemory>> Drawn(int64_t count, const std::string& dtype,
                                                            int64_t bytes, int seed);
  // Seconds of one run; with --busy its share of many.
  absl::StatusOr<double> Time(const Work& work);
  absl::StatusOr<double> TimeAlone(const Work& work);
  absl::StatusOr<double> Compare(const ProductProblem& p,
                                 const std::vector<device::Memory*>& memory,
                                 device::Memory& expected);

  const Options options_;
  const std::unique_ptr<device::Device> device_;  // for what it is and for copies
  const std::shared_ptr<device::CudaContext> context_;
  const std::unique_ptr<device::Compiler> compiler_;
  std::unique_ptr<device::CudaMemory> flush_, workspace_;
  std::unique_ptr<device::CudaProgram> read_all_;
  device::Binary fill_;
  std::string library_;  // cuBLASLt with its version; empty: nothing runs
  device::cuda::Event before_ = nullptr, after_ = nullptr;
};

absl::Status Bench::Begin() {
  context_->cublaslt = options_.cublaslt;
  auto library = context_->Library();
  if (!library.ok()) return library.status();
  library_ = (*library)->name();
  WS_CUDA(*context_, EventCreate(&before_, 0));
  WS_CUDA(*context_, EventCreate(&after_, 0));
  auto flush = device::CudaMemory::Make(context_, kFlushBytes);
  if (!flush.ok()) return flush.status();
  flush_ = *std::move(flush);
  auto workspace = device::CudaMemory::Make(context_, kLibraryBytes);
  if (!workspace.ok()) return workspace.status();
  workspace_ = *std::move(workspace);
  auto fill = compiler_->Compile(kFill, kLimit);
  if (!fill.ok()) return fill.status();
  fill_ = *std::move(fill);
  WS_CUDA(*context_, MemsetD8Async(flush_->address(), 0, kFlushBytes, context_->stream()));
  const v1::Plan plan =
      device::PlanBuilder(kFill)
          .Buffer("y", kFlushBytes)
          .Launch("read_all", 1024, 256, {Arg(0), device::Arg64(kFlushBytes / 16), Arg(0)})
          .Build();
  auto read_all = device::CudaProgram::Make(context_, device_->info(), plan, fill_.bytes);
  if (!read_all.ok()) return read_all.status();
  read_all_ = *std::move(read_all);
  device::Memory* const bound[] = {flush_.get()};
  return read_all_->Bind(bound);
}

absl::StatusOr<std::unique_ptr<device::CudaMemory>> Bench::Drawn(int64_t count,
                                                                 const std::string& dtype,
                                                                 int64_t bytes, int seed) {
  auto memory = device::CudaMemory::Make(context_, bytes);
  if (!memory.ok() || count == 0) return memory;
  const v1::Plan plan = device::PlanBuilder(kFill)
                            .Buffer("y", bytes)
                            .Launch(absl::StrCat("fill_", dtype), 1024, 256,
                                    {Arg(0), device::Arg64(count), device::Arg32(seed),
                                     device::Arg32(options_.uniform)})
                            .Build();
  auto program = device::CudaProgram::Make(context_, device_->info(), plan, fill_.bytes);
  if (!program.ok()) return program.status();
  device::Memory* const bound[] = {memory->get()};
  absl::Status status = (*program)->Bind(bound);
  status.Update((*program)->Launch());
  status.Update(context_->Synchronize());
  if (!status.ok()) return status;
  return memory;
}

absl::StatusOr<double> Bench::Time(const Work& work) {
  auto alone = TimeAlone(work);
  if (!alone.ok() || options_.busy == 0) return alone;
  const int half = static_cast<int>(std::ceil(options_.busy / 2 / std::max(*alone, 1e-6)));
  for (device::cuda::Event event : {before_, after_}) {
    for (int i = 0; i < half; ++i) {
      if (auto status = work(); !status.ok()) return status;
    }
    WS_CUDA(*context_, EventRecord(event, context_->stream()));
  }
  if (auto status = context_->Synchronize(); !status.ok()) return status;
  float milliseconds = 0;
  WS_CUDA(*context_, EventElapsedTime(&milliseconds, before_, after_));
  return milliseconds * 1e-3 / half;
}

absl::StatusOr<double> Bench::TimeAlone(const Work& work) {
  if (auto status = read_all_->Launch(); !status.ok()) return status;
  WS_CUDA(*context_, EventRecord(before_, context_->stream()));
  if (auto status = work(); !status.ok()) return status;
  WS_CUDA(*context_, EventRecord(after_, context_->stream()));
  if (auto status = context_->Synchronize(); !status.ok()) return status;
  float milliseconds = 0;
  WS_CUDA(*context_, EventElapsedTime(&milliseconds, before_, after_));
  return milliseconds * 1e-3;
}

float FloatAt(const std::string& bytes, int64_t at) {
  float x;
  std::memcpy(&x, bytes.data() + sizeof x * at, sizeof x);
  return x;
}

// rms of y - z over that of z, both of 16-bit elements.
double RmsDifference(const std::string& y, const std::string& z, const std::string& dtype) {
  const auto type = dtype == "bf16" ? graph::DType::kBF16 : graph::DType::kF16;
  std::vector<double> values(65536);
  for (int bits = 0; bits < 65536; ++bits) values[bits] = graph::FromHalf(type, bits);
  double squares = 0, differences = 0;
  for (size_t i = 0; i + 2 <= y.size(); i += 2) {
    uint16_t a, b;
    std::memcpy(&a, y.data() + i, 2);
    std::memcpy(&b, z.data() + i, 2);
    const double difference = values[a] - values[b];
    squares += values[b] * values[b];
    differences += difference * difference;
  }
  return std::sqrt(differences / squares);  // NaN where any is
}

// 16-bit: rms of the difference from `expected` over its rms. fp32: the largest error at places
// drawn over that of `expected`.
absl::StatusOr<double> Bench::Compare(const ProductProblem& p,
                                      const std::vector<device::Memory*>& memory,
                                      device::Memory& expected) {
  const auto read = [&](device::Memory& from) -> absl::StatusOr<std::string> {
    std::string bytes(from.bytes(), '\0');
    if (auto status = device_->Read(from, bytes.data(), from.bytes()); !status.ok()) return status;
    return bytes;
  };
  auto y = read(*memory[2]), z = read(expected);
  if (!y.ok()) return y.status();
  if (!z.ok()) return z.status();
  if (p.type != "f32") return RmsDifference(*y, *z, ResultOf(p));
  auto a = read(*memory[0]), b = read(*memory[1]);
  if (!a.ok()) return a.status();
  if (!b.ok()) return b.status();
  std::mt19937_64 draw(1);
  double ours = 0, theirs = 0;
  for (int i = 0; i < kPlaces; ++i) {
    const int64_t m = draw() % p.m, n = draw() % p.n;
    double exact = 0;
    for (int64_t k = 0; k < p.k; ++k) {
      exact += static_cast<double>(FloatAt(*a, m * p.k + k)) * FloatAt(*b, n * p.k + k);
    }
    const double error = std::abs(FloatAt(*y, m * p.n + n) - exact);
    ours = error <= ours ? ours : error;  // NaN stays
    theirs = std::max(theirs, std::abs(FloatAt(*z, m * p.n + n) - exact));
  }
  return ours / theirs;
}

absl::Status Bench::Run(const Case& c) {
  const ProductProblem& p = c.problem;
  std::vector<Candidate> candidates;
  const int multiprocessors = device_ == nullptr ? 132 : device_->info().sm_count;
  std::vector<Try> all;
  for (const std::string& knobs : c.knobs) all.push_back({knobs});
  if (options_.drawn > 0 || !options_.products.empty()) {
    auto tiles = TilesToTry(p, multiprocessors);
    if (!tiles.ok()) return tiles.status();
    all.insert(all.end(), tiles->begin(), tiles->end());
  }
  for (const auto& [knobs, estimated] : all) {
    auto lowered = LowerProblem(p, knobs, multiprocessors, library_);
    if (!lowered.ok()) {
      std::printf("  %-60s %s\n", knobs.c_str(), std::string(lowered.status().message()).c_str());
      continue;
    }
    auto binary = compiler_->Compile(lowered->plan.source(), kLimit);
    if (!binary.ok()) return binary.status();
    Candidate candidate;
    candidate.name = lowered->knobs;
    candidate.estimated = estimated;
    candidate.compile_ms = binary->report.compile_ms();
    candidate.plan = std::move(lowered->plan);
    if (device_ != nullptr) {
      auto program =
          device::CudaProgram::Make(context_, device_->info(), candidate.plan, binary->bytes);
      if (!program.ok()) return program.status();
      candidate.program = *std::move(program);
    }
    candidates.push_back(std::move(candidate));
  }
  if (device_ == nullptr) {
    std::printf("%s\n", Name(c).c_str());
    for (const Candidate& each : candidates)
      std::printf("  %-60s compiled in %4.0f ms, estimated at %.2f of the default\n",
                  each.name.c_str(), each.compile_ms, each.estimated);
    return absl::OkStatus();
  }

  const int64_t counts[] = {p.batch * p.m * p.k, p.batch * p.n * p.k, p.batch * p.m * p.n};
  std::vector<std::unique_ptr<device::CudaMemory>> owned;
  std::vector<device::Memory*> memory;  // a, b, y
  for (int i = 0; i < 3; ++i) {
    auto made = Drawn(i < 2 ? counts[i] : 0, p.type,
                      counts[i] * (i < 2 ? ElementBytes(p) : ResultBytes(p)), i + 1);
    if (!made.ok()) return made.status();
    memory.push_back(made->get());
    owned.push_back(*std::move(made));
  }
  auto expected = device::CudaMemory::Make(context_, memory[2]->bytes());
  if (!expected.ok()) return expected.status();
  auto opened = context_->Library();
  if (!opened.ok()) return opened.status();
  auto library =
      device::LibraryProduct::Make(*opened, StepOf(p), kLibraryBytes, /*any_reduction=*/true);
  if (!library.ok()) return library.status();
  int algorithm = 1;
  const Work theirs = [&] {
    return (*library)->Run(algorithm, memory[0]->address(), memory[1]->address(), 0,
                           (*expected)->address(), workspace_->address(), context_->stream());
  };
  std::pair<double, int> best = {1e9, 0};
  for (algorithm = 1; algorithm <= (*library)->algorithms(); ++algorithm) {
    std::vector<double> times;
    for (int i = 0; i < 4; ++i) {
      auto seconds = TimeAlone(theirs);
      if (!seconds.ok()) return seconds.status();
      if (i > 0) times.push_back(*seconds);
    }
    best = std::min(best, {Median(times), algorithm});
  }
  algorithm = best.second;
  if (auto status = theirs(); !status.ok()) return status;
  for (Candidate& each : candidates) {
    absl::Status status =
        device_->Fill(*memory[2], 0xffffffffu);  // NaN: what is not written is seen
    std::vector<device::Memory*> all = memory;
    for (int i = 3; i < each.plan.buffers_size(); ++i) {
      auto made = device::CudaMemory::Make(context_, each.plan.buffers(i).bytes());
      if (!made.ok()) return made.status();
      all.push_back(made->get());
      each.workspace.push_back(*std::move(made));
    }
    status.Update(each.program->Bind(all));
    status.Update(each.program->Launch());
    status.Update(context_->Synchronize());
    if (!status.ok()) return status;
    auto error = Compare(p, memory, **expected);
    if (!error.ok()) return error.status();
    each.error = *error;
  }
  // In another order each time: what ran before leaves the card's clock where its power allows.
  std::vector<double> library_seconds;
  std::vector<Candidate*> order = {nullptr};  // the library
  for (Candidate& each : candidates) order.push_back(&each);
  std::mt19937 shuffled(1);
  for (int i = 0; i < options_.samples; ++i) {
    std::shuffle(order.begin(), order.end(), shuffled);
    for (Candidate* each : order) {
      auto seconds = Time(each == nullptr ? theirs : [each] { return each->program->Launch(); });
      if (!seconds.ok()) return seconds.status();
      (each == nullptr ? library_seconds : each->seconds).push_back(*seconds);
    }
  }
  const double median = Median(library_seconds), operations = 2.0 * p.batch * p.m * p.n * p.k;
  std::printf("%-60s cuBLASLt %8.1f us %5.0f TFLOP/s, %d algorithms\n", Name(c).c_str(),
              median * 1e6, operations / median * 1e-12, (*library)->algorithms());
  for (const Candidate& each : candidates) {
    const double own = Median(each.seconds);
    std::printf(
        "  %-60s %8.1f us %5.0f TFLOP/s %6.3f of cuBLASLt, error %.2g, compiled in %4.0f ms, "
        "estimated at %.2f of the default\n",
        each.name.c_str(), own * 1e6, operations / own * 1e-12, median / own, each.error,
        each.compile_ms, each.estimated);
  }
  std::fflush(stdout);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Case>> CasesOf(const Options& options) {
  if (options.drawn > 0) return DrawnCases(options.drawn, options.seed);
  if (options.products.empty()) return Cases();
  std::vector<Case> cases;
  for (const std::string& text : options.products) {
    const std::vector<std::string> sizes = absl::StrSplit(text, 'x');
    ProductProblem p;
    if (sizes.size() != 3 || !absl::SimpleAtoi(sizes[0], &p.m) ||
        !absl::SimpleAtoi(sizes[1], &p.n) || !absl::SimpleAtoi(sizes[2], &p.k) ||
        std::min({p.m, p.n, p.k}) < 1)
      return absl::InvalidArgumentError(
          absl::StrCat("'", text, "' is no product; one is MxNxK, each at least 1"));
    cases.push_back({"product", p, {""}});
  }
  return cases;
}

absl::Status RunAll(const Options& options) {
  const bool runs = absl::StartsWith(options.device, "cuda:");
  std::unique_ptr<device::Device> device;
  std::shared_ptr<device::CudaContext> context;
  if (runs) {
    auto made = device::MakeDevice(options.device, options.nvrtc);
    if (!made.ok()) return made.status();
    device = *std::move(made);
    int ordinal = 0;
    if (!absl::SimpleAtoi(options.device.substr(5), &ordinal))
      return absl::InvalidArgumentError("cuda:N");
    auto shared = device::CudaContext::Make(ordinal);
    if (!shared.ok()) return shared.status();
    context = *std::move(shared);
  }
  auto compiler =
      device::MakeCompiler(runs ? device->info().arch : options.device, "", options.nvrtc);
  if (!compiler.ok()) return compiler.status();
  if (runs)
    std::printf("%s, driver %s\n", device->info().name.c_str(), device->info().driver.c_str());
  Bench bench(options, std::move(device), context, *std::move(compiler));
  if (runs) {
    if (auto status = bench.Begin(); !status.ok()) return status;
  }
  auto cases = CasesOf(options);
  if (!cases.ok()) return cases.status();
  for (const Case& c : *cases) {
    if (!absl::StrContains(Name(c), options.only)) continue;
    if (auto status = bench.Run(c); !status.ok()) {
      return absl::Status(status.code(), absl::StrCat(Name(c), ": ", status.message()));
    }
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace warpsmith::bench

int main(int argc, char** argv) {
  warpsmith::bench::Options options;
  CLI::App app("Times products beside cuBLASLt", "warpsmith-bench-contract");
  app.add_option("--device", options.device, "cuda:N, or sm_90a: compiled, not run")
      ->capture_default_str();
  app.add_option("--only", options.only, "products whose name contains this");
  app.add_option("--samples", options.samples, "timed runs")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--busy", options.busy, "seconds that each runs back to back; 0: runs alone")
      ->check(CLI::Range(0.0, 60.0))
      ->capture_default_str();
  app.add_option("--drawn", options.drawn, "so many products of drawn sizes, not the table's")
      ->check(CLI::Range(0, 10000))
      ->capture_default_str();
  app.add_option("--product", options.products,
                 "MxNxK of bf16, with the tiles that a search would try; may be repeated")
      ->excludes("--drawn");
  app.add_option("--seed", options.seed, "of drawn sizes")->capture_default_str();
  app.add_flag("--uniform", options.uniform, "operands from 0 to 1, not normal");
  app.add_option("--nvrtc", options.nvrtc, "path of libnvrtc.so, where it is not found by itself");
  app.add_option("--cublaslt", options.cublaslt, "path of libcublasLt.so, likewise");
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = warpsmith::bench::RunAll(options);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
