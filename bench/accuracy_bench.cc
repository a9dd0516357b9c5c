// How far off first schedules are beside what they replace, by the judge's measure and without its
// timing: each workload's default plan, as it would be chosen for an H200, runs on the host device
// on inputs of many seeds, ordinary ones and such that spread over decades.
//
//   warpsmith-bench-accuracy models.json --python /path/to/python --seeds 20
//
// A line for each workload and kind of inputs: of how many draws the judge would refuse the error
// beside PyTorch's (a problem with a module, and --python) or a plain evaluation's, how large the
// worst ratio of the two is, and both errors there, over the answer's rms.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/graph/graph.h"
#include "common/problem/problem.h"
#include "worker/codegen/codegen.h"
#include "worker/device/device.h"
#include "worker/judge/accuracy.h"
#include "worker/oracle/compare.h"
#include "worker/oracle/native_device.h"
#include "worker/oracle/torch_oracle.h"

namespace warpsmith {
namespace {

using oracle::Variation;

struct Options {
  std::string problems;
  std::string only, workload;  // names that contain this
  std::string python, python_path = "python";
  int seeds = 20;
  bool op_by_op = false, all = false;
  bool no_tensor_cores = false;  // whose kernels do not run on the host
};

constexpr absl::Duration kLimit = absl::Seconds(120);

// A workload's plan on the host.
class Subject {
 public:
  static absl::StatusOr<std::unique_ptr<Subject>> Make(const graph::Graph& graph,
                                                       const Options& options,
                                                       device::Device& device,
                                                       device::Compiler& compiler) {
    auto subject = std::make_unique<Subject>();
    subject->graph_ = graph;
    subject->graph_.constant_params = false;  // all is made in each run
    subject->device_ = &device;
    codegen::Target target;
    if (options.no_tensor_cores) {
      target.tensor_products_per_second = 0;
      target.arch = "sm_80";  // of which none of ours are used
    }
    const auto schedule = options.op_by_op ? codegen::OpByOpSchedule(subject->graph_, target)
                                           : codegen::FirstSchedule(subject->graph_, target);
    auto rewritten = codegen::Rewrite(subject->graph_, schedule.rewrites());
    if (!rewritten.ok()) return rewritten.status();
    auto plan = codegen::Lower(*rewritten, schedule, target);
    if (!plan.ok()) return plan.status();
    subject->plan_ = *plan;
    auto binary = compiler.Compile(plan->source(), kLimit);
    if (!binary.ok()) return binary.status();
    auto program = device.Load(*plan, *binary);
    if (!program.ok()) return program.status();
    subject->program_ = *std::move(program);
    for (const v1::Buffer& buffer : plan->buffers()) {
      auto memory = device.Allocate(buffer.bytes());
      if (!memory.ok()) return memory.status();
      subject->memory_.push_back(*std::move(memory));
    }
    return subject;
  }

  // Errors of each answer: outputs, then updated states.
  absl::StatusOr<std::vector<oracle::Errors>> Run(const oracle::Case& drawn,
                                                  oracle::Comparer& comparer) {
    std::vector<device::Memory*> bound;
    size_t given = 0;
    for (int b = 0; b < plan_.buffers_size(); ++b) {
      bound.push_back(memory_[b].get());
      const auto kind = plan_.buffers(b).kind();
      if (kind == v1::Buffer::OUTPUT || kind == v1::Buffer::WORKSPACE) continue;
      device::Memory& input = *drawn.inputs[given++];
      if (absl::Status s = device_->Copy(input, *bound.back(), input.bytes()); !s.ok()) return s;
    }
    if (absl::Status s = program_->Bind(bound); !s.ok()) return s;
    if (absl::Status s = device_->Run(*program_, kLimit); !s.ok()) return s;
    std::vector<oracle::Errors> errors;
    for (size_t a = 0; a < drawn.exact.size(); ++a) {
      errors.emplace_back();
      const graph::DType type = TypeOf(a);
      if (drawn.exact[a].empty()) continue;
      auto got = comparer.Gather(type, *MemoryOf(a), drawn.sample[a]);
      if (!got.ok()) return got.status();
      errors.back() =
          oracle::ErrorsOf(type, *got, drawn.exact[a], drawn.rms.empty() ? 0 : drawn.rms[a]);
    }
    return errors;
  }

  graph::DType TypeOf(size_t answer) const { return graph_.tensors[TensorOf(answer)].type; }
  const std::string& NameOf(size_t answer) const { return graph_.tensors[TensorOf(answer)].name; }

 private:
  int TensorOf(size_t answer) const {
    return answer < graph_.outputs.size() ? graph_.outputs[answer]
                                          : graph_.updates[answer - graph_.outputs.size()].state;
  }
  device::Memory* MemoryOf(size_t answer) const {
    size_t output = 0;
    for (int b = 0; b < plan_.buffers_size(); ++b) {
      const v1::Buffer& buffer = plan_.buffers(b);
      const bool is_output = buffer.kind() == v1::Buffer::OUTPUT;
      if (answer < graph_.outputs.size()
              ? is_output && output++ == answer
              : buffer.kind() == v1::Buffer::STATE && buffer.tensor() == NameOf(answer))
        return memory_[b].get();
    }
    return nullptr;
  }

  graph::Graph graph_;
  device::Device* device_ = nullptr;
  v1::Plan plan_;
  std::unique_ptr<device::Program> program_;
  std::vector<std::unique_ptr<device::Memory>> memory_;
};

class Bench {
 public:
  Bench(const Options& options, device::Device& device, device::Compiler& compiler,
        oracle::Comparer& comparer, std::shared_ptr<oracle::TorchChild> child)
      : options_(options),
        device_(device),
        compiler_(compiler),
        comparer_(comparer),
        child_(std::move(child)) {}

  absl::Status Measure(const v1::Problem& problem, const v1::Workload& workload) const {
    auto graph = problem::GraphOf(problem, workload);
    if (!graph.ok()) return graph.status();
    auto oracle = OracleOf(problem, workload, *graph);
    if (!oracle.ok()) return oracle.status();
    auto subject = Subject::Make(*graph, options_, device_, compiler_);
    if (!subject.ok()) return subject.status();
    for (const Variation variation : {Variation::kNone, Variation::kWide}) {
      absl::Status s = Measure(absl::StrCat(problem.name(), "/", workload.name()), **oracle,
                               **subject, variation);
      if (!s.ok()) return s;
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Measure(const std::string& label, oracle::Oracle& oracle, Subject& subject,
                       Variation variation) const {
    const double most = variation == Variation::kWide ? judge::kWideRatio : judge::kOrdinaryRatio;
    struct Worst {
      int refused = 0;
      double ratio = 0, error = 0, reference = 0, mine = 0, theirs = 0;
    };
    std::map<std::string, Worst> outputs;
    int refused = 0;
    for (int seed = 1; seed <= options_.seeds; ++seed) {
      auto drawn = oracle.Draw(device_, seed, variation);
      if (!drawn.ok()) return drawn.status();
      auto errors = subject.Run(*drawn, comparer_);
      if (!errors.ok()) return errors.status();
      bool bad = false;
      for (size_t a = 0; a < errors->size(); ++a) {
        if (drawn->exact[a].empty()) continue;
        const double error = (*errors)[a].beyond, reference = drawn->reference[a].max;
        const double ratio =
            std::max(judge::ErrorRatio(subject.TypeOf(a), error, reference),
                     judge::RmsRatio(subject.TypeOf(a), (*errors)[a].rms, drawn->reference[a].rms));
        Worst& worst = outputs[subject.NameOf(a)];
        worst.refused += ratio > most;
        bad = bad || ratio > most;
        worst.mine += (*errors)[a].max / options_.seeds;
        worst.theirs += reference / options_.seeds;
        if (ratio >= worst.ratio) {
          worst.ratio = ratio;
          worst.error = error;
          worst.reference = reference;
        }
      }
      refused += bad;
    }
    for (const auto& [name, worst] : outputs) {
      if (!options_.all && outputs.size() > 1 && worst.refused == 0) continue;
      std::printf("%-42s %-8s %-12s %3d of %d  %6.2f  %8.2g %8.2g   means %8.2g %8.2g\n",
                  label.c_str(), oracle::NameOf(variation), name.c_str(), worst.refused,
                  options_.seeds, worst.ratio, worst.error, worst.reference, worst.mine,
                  worst.theirs);
    }
    if (outputs.size() > 1 || outputs.empty())
      std::printf("%-42s %-8s %-12s %3d of %d\n", label.c_str(), oracle::NameOf(variation), "any",
                  refused, options_.seeds);
    std::fflush(stdout);
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<oracle::Oracle>> OracleOf(const v1::Problem& problem,
                                                           const v1::Workload& workload,
                                                           const graph::Graph& graph) const {
    if (child_ == nullptr || !problem.has_torch())
      return oracle::MakeNativeOracle(graph, compiler_, device_.info());
    oracle::TorchOracleOptions options;
    options.python = options_.python;
    options.python_path = options_.python_path;
    options.device = "cpu";
    options.workload = workload.name();
    options.child = child_;
    return oracle::MakeTorchOracle(options, problem, graph);
  }

  const Options& options_;
  device::Device& device_;
  device::Compiler& compiler_;
  oracle::Comparer& comparer_;
  std::shared_ptr<oracle::TorchChild> child_;
};

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
}

int Run(const Options& options) {
  auto set = problem::LoadSet(options.problems);
  if (!set.ok()) return Fail(set.status());
  auto device = device::MakeDevice("host");
  if (!device.ok()) return Fail(device.status());
  auto compiler = device::MakeCompiler("host", "/tmp/warpsmith-bench-cache");
  if (!compiler.ok()) return Fail(compiler.status());
  auto comparer = oracle::Comparer::Make(**device, **compiler);
  if (!comparer.ok()) return Fail(comparer.status());
  std::shared_ptr<oracle::TorchChild> child;
  if (!options.python.empty()) {
    oracle::TorchOracleOptions torch;
    torch.python = options.python;
    torch.python_path = options.python_path;
    torch.device = "cpu";
    auto started = oracle::StartTorch(torch);
    if (!started.ok()) return Fail(started.status());
    child = *std::move(started);
  }
  const Bench bench(options, **device, **compiler, **comparer, child);
  int failures = 0;
  for (const auto& problem : set->problems()) {
    if (!absl::StrContains(problem.name(), options.only)) continue;
    for (const auto& workload : problem.workloads()) {
      if (!absl::StrContains(workload.name(), options.workload)) continue;
      const absl::Status status = bench.Measure(problem, workload);
      if (status.ok()) continue;
      ++failures;
      std::printf("%s/%s: %s\n", problem.name().c_str(), workload.name().c_str(),
                  std::string(status.message()).substr(0, 400).c_str());
    }
  }
  return failures > 0 ? 2 : 0;
}

}  // namespace
}  // namespace warpsmith

int main(int argc, char** argv) {
  warpsmith::Options options;
  CLI::App app("How often first schedules are less accurate than the judge allows");
  app.add_option("problems", options.problems, "problem set (JSON)")->required();
  app.add_option("--only", options.only, "problems whose name contains this");
  app.add_option("--workload", options.workload, "workloads whose name contains this");
  app.add_option("--python", options.python, "interpreter with PyTorch, for problems with modules");
  app.add_option("--python-path", options.python_path, "folder that has warpsmith_torch")
      ->capture_default_str();
  app.add_option("--seeds", options.seeds, "draws of each kind")->capture_default_str();
  app.add_flag("--op-by-op", options.op_by_op, "one kernel for each node");
  app.add_flag("--no-tensor-cores", options.no_tensor_cores,
               "products by threads: those of tensor cores do not run on the host");
  app.add_flag("--all", options.all, "each answer, also where none is refused");
  CLI11_PARSE(app, argc, argv);
  return warpsmith::Run(options);
}
