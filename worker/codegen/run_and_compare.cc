#include "worker/codegen/run_and_compare.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "common/graph/numeric.h"
#include "worker/device/device.h"
#include "worker/device/host_compiler.h"
#include "worker/oracle/oracle.h"

namespace warpsmith::codegen {

namespace {

using absl::StrCat;
using graph::DType;

constexpr absl::Duration kCompileLimit = absl::Seconds(240);  // others compile as well
constexpr absl::Duration kRunLimit = absl::Seconds(30);
// A legal schedule may give a thousand threads to each of thousands of rows; a thread of the host
// that does nothing takes 5 us where the code is quick to compile and the machine is idle.
constexpr absl::Duration kRunLimitOfThread = absl::Microseconds(30);
constexpr uint32_t kPoison = 0xffc0dead;        // a NaN as f32
constexpr uint32_t kFinitePoison = 0x4b4c4d4e;  // a number in every type

// `quick`: quick to compile instead of quick to run.
device::Compiler& HostCompiler(bool quick) {
  static const auto make = [](const char* name, const std::vector<std::string>& flags) {
    const auto dir = std::filesystem::temp_directory_path() / StrCat(name, getuid());
    return device::HostCompiler::Make(dir.string(), flags).value().release();
  };
  static device::Compiler* const plain = make("warpsmith-codegen-test-", {});
  static device::Compiler* const quickly = make("warpsmith-codegen-test-quick-", {"-O0"});
  return quick ? *quickly : *plain;
}

template <class T>
void Put(double value, std::string& bytes) {
  const T t = static_cast<T>(value);
  bytes.append(reinterpret_cast<const char*>(&t), sizeof(t));
}

std::string Encode(DType type, const std::vector<double>& values) {
  std::string bytes;
  for (double v : values) {
    switch (type) {
      case DType::kBool:
        Put<uint8_t>(v != 0, bytes);
        break;
      case DType::kI8:
        Put<int8_t>(v, bytes);
        break;
      case DType::kU8:
        Put<uint8_t>(v, bytes);
        break;
      case DType::kI32:
        Put<int32_t>(v, bytes);
        break;
      case DType::kI64:
        Put<int64_t>(v, bytes);
        break;
      case DType::kF32:
        Put<float>(v, bytes);
        break;
      case DType::kF64:
        Put<double>(v, bytes);
        break;
      default:
        Put<uint16_t>(graph::ToHalf(type, v), bytes);
        break;
    }
  }
  return bytes;
}

template <class T>
T Take(const std::string& bytes, size_t i) {
  T t;
  std::memcpy(&t, bytes.data() + i * sizeof(T), sizeof(T));
  return t;
}

double Decode(DType type, const std::string& bytes, size_t i) {
  switch (type) {
    case DType::kBool:
      return Take<uint8_t>(bytes, i);
    case DType::kI8:
      return Take<int8_t>(bytes, i);
    case DType::kU8:
      return Take<uint8_t>(bytes, i);
    case DType::kI32:
      return Take<int32_t>(bytes, i);
    case DType::kI64:
      return static_cast<double>(Take<int64_t>(bytes, i));
    case DType::kF32:
      return Take<float>(bytes, i);
    case DType::kF64:
      return Take<double>(bytes, i);
    default:
      return graph::FromHalf(type, Take<uint16_t>(bytes, i));
  }
}

// What rounding of a type may leave, relative to the largest magnitude of an answer.
double ToleranceOf(DType type) {
  switch (type) {
    case DType::kF64:
      return 1e-11;
    case DType::kF16:
      return 2e-3;  // the neighbour
    case DType::kBF16:
      return 1.6e-2;
    default:
      return 2e-5;
  }
}

// Of each tensor: its own type's and those of what was computed on the way to it.
std::vector<double> TolerancesOf(const graph::Graph& graph) {
  std::vector<double> tolerances(graph.tensors.size());
  for (const graph::Node& node : graph.nodes) {
    double worst = 0;
    for (int loaded : graph::LoadedTensors(node.value)) {
      worst = std::max(worst, tolerances[loaded]);
    }
    // Casts within the expression count too.
    std::set<const graph::Expr*> seen;
    std::function<void(const graph::ExprPtr&)> visit = [&](const graph::ExprPtr& e) {
      if (!seen.insert(e.get()).second) return;
      if (graph::IsFloat(e->type) && e->op != graph::Op::kLoad && e->op != graph::Op::kConst) {
        worst = std::max(worst, ToleranceOf(e->type));
      }
      for (const graph::ExprPtr& arg : e->args) visit(arg);
    };
    visit(node.value);
    for (int output : node.outputs) {
      const DType type = graph.tensors[output].type;
      tolerances[output] = graph::IsFloat(type) ? std::max(worst, ToleranceOf(type)) : worst;
    }
  }
  return tolerances;
}

// A few elements that are no numbers, or infinite.
void Sprinkle(uint64_t seed, oracle::Values& values) {
  std::mt19937_64 random(seed);
  if (random() % 2 == 0) return;
  for (uint64_t n = 1 + random() % 3; n > 0; --n) {
    const double special[] = {NAN, INFINITY, -INFINITY};
    values[random() % values.size()] = special[random() % 3];
  }
}

absl::Status Compare(const graph::Tensor& tensor, const std::string& bytes,
                     const std::vector<double>& expected, double tolerance) {
  double largest = 3;  // what cancels on the way leaves rounding of values of about this size
  for (double e : expected) {
    if (std::isfinite(e)) largest = std::max(largest, std::abs(e));
  }
  const bool exact = !graph::IsFloat(tensor.type);
  for (size_t i = 0; i < expected.size(); ++i) {
    const double got = Decode(tensor.type, bytes, i),
                 want = exact ? expected[i] : graph::RoundTo(tensor.type, expected[i]);
    const bool same = got == want || (std::isnan(got) && std::isnan(want)) ||
                      (!exact && std::isfinite(want) &&
                       std::abs(got - want) <= tolerance * (std::abs(want) + 0.1 * largest));
    if (!same)
      return absl::InternalError(StrCat("'", tensor.name, "' element ", i, " of ", expected.size(),
                                        " is ", got, ", not ", want));
  }
  return absl::OkStatus();
}

}  // namespace

Target TestTarget() {
  Target target;
  target.arch = "host";
  target.sm_count = 4;
  target.library = device::kHostLibrary;
  return target;
}

namespace {

absl::StatusOr<v1::Plan> LowerTrial(const Trial& trial) {
  auto rewritten = Rewrite(trial.graph, trial.schedule.rewrites());
  if (!rewritten.ok()) return rewritten.status();
  return Lower(*rewritten, trial.schedule, trial.target.value_or(TestTarget()));
}

// The inputs of a trial, in order of tensors.
struct Drawn {
  std::vector<int> tensors;
  std::vector<oracle::Values> values;
};
Drawn Draw(const Trial& trial) {
  Drawn drawn;
  for (size_t t = 0; t < trial.graph.tensors.size(); ++t) {
    const graph::Tensor& tensor = trial.graph.tensors[t];
    if (tensor.node >= 0) continue;
    drawn.tensors.push_back(static_cast<int>(t));
    drawn.values.push_back(oracle::DrawOnHost(tensor, trial.seed + t, oracle::Variation::kNone));
    if (!graph::IsFloat(tensor.type)) continue;
    if (trial.special) Sprinkle(trial.seed * 1000 + t, drawn.values.back());
    for (double& v : drawn.values.back()) v = graph::RoundTo(tensor.type, v);
  }
  return drawn;
}

constexpr int kRunsOfLanes = 6;

// A plan with its program and memory on a host device of its own.
class Bench {
 public:
  static absl::StatusOr<std::unique_ptr<Bench>> Make(const v1::Plan& plan,
                                                     const device::Binary& binary) {
    auto bench = std::make_unique<Bench>();
    bench->plan_ = plan;
    auto device = device::MakeDevice("host");
    if (!device.ok()) return device.status();
    bench->device_ = *std::move(device);
    for (const v1::Buffer& buffer : plan.buffers()) {
      auto allocated = bench->device_->Allocate(buffer.bytes());
      if (!allocated.ok()) return allocated.status();
      bench->memory_.push_back(*std::move(allocated));
    }
    auto program = bench->device_->Load(plan, binary);
    if (!program.ok()) return program.status();
    bench->program_ = *std::move(program);
    if (!plan.has_prepare()) return bench;
    auto preparation = bench->device_->Load(plan.prepare(), binary);
    if (!preparation.ok()) return preparation.status();
    bench->preparation_ = *std::move(preparation);
    return bench;
  }

  // How long a run may take: so many threads as the plan launches want their time.
  absl::Duration RunLimit() const {
    absl::Duration limit = kRunLimit;
    for (const v1::Step& step : plan_.steps()) {
      if (!step.has_launch()) continue;
      int64_t threads = 1;
      for (uint32_t extent : step.launch().grid()) threads *= extent;
      for (uint32_t extent : step.launch().block()) threads *= extent;
      limit += threads * kRunLimitOfThread;
    }
    return limit;
  }

  // Writes the inputs, `poison` everywhere else, and runs. What is prepared is so the first time.
  absl::Status Run(const Trial& trial, const Drawn& inputs, uint32_t poison) {
    given_.clear();
    for (int b = 0; b < plan_.buffers_size(); ++b) {
      absl::Status status;
      if (IsGiven(b)) {
        const size_t i = given_.size();
        given_.push_back(Encode(trial.graph.tensors[inputs.tensors[i]].type, inputs.values[i]));
        status = device_->Write(*memory_[b], given_[i].data(), given_[i].size());
      } else if (plan_.buffers(b).kind() != v1::Buffer::PREPARED || !prepared_) {
        status = device_->Fill(*memory_[b], poison);
      }
      if (!status.ok()) return status;
    }
    if (preparation_ != nullptr && !prepared_) {
      if (absl::Status s = Prepare(poison); !s.ok()) return s;
      prepared_ = true;
    }
    std::vector<device::Memory*> bound;
    for (const auto& memory : memory_) bound.push_back(memory.get());
    if (absl::Status s = program_->Bind(bound); !s.ok()) return s;
    return device_->Run(*program_, RunLimit());
  }

  // Outputs and updated states against the answers, in their order.
  absl::Status Check(const Trial& trial, const std::vector<oracle::Values>& answers,
                     const std::vector<double>& tolerances) {
    const graph::Graph& graph = trial.graph;
    size_t answer = 0;
    for (int b = 0; b < plan_.buffers_size(); ++b) {
      if (plan_.buffers(b).kind() != v1::Buffer::OUTPUT) continue;
      const int tensor = graph.outputs[answer];
      if (absl::Status s = Compare(graph.tensors[tensor], Read(b, graph.tensors[tensor].bytes()),
                                   answers[answer], tolerances[tensor]);
          !s.ok()) {
        return s;
      }
      ++answer;
    }
    for (const auto& update : graph.updates) {
      const graph::Tensor& state = graph.tensors[update.state];
      for (int b = 0; b < plan_.buffers_size(); ++b) {
        if (plan_.buffers(b).kind() != v1::Buffer::STATE || plan_.buffers(b).tensor() != state.name)
          continue;
        if (absl::Status s =
                Compare(state, Read(b, state.bytes()), answers[answer], tolerances[update.value]);
            !s.ok()) {
          return s;
        }
      }
      ++answer;
    }
    return CheckUntouched(graph);
  }

 private:
  bool IsGiven(int b) const {
    const auto kind = plan_.buffers(b).kind();
    return kind != v1::Buffer::OUTPUT && kind != v1::Buffer::WORKSPACE &&
           kind != v1::Buffer::PREPARED;
  }
  // With weights alone within reach.
  absl::Status Prepare(uint32_t poison) {
    std::vector<std::unique_ptr<device::Memory>> workspace;
    std::vector<device::Memory*> bound;
    for (const v1::Buffer& buffer : plan_.prepare().buffers()) {
      device::Memory* memory = nullptr;
      for (int b = 0; b < plan_.buffers_size(); ++b) {
        const bool kept = plan_.buffers(b).kind() == v1::Buffer::PARAM ||
                          plan_.buffers(b).kind() == v1::Buffer::PREPARED;
        if (kept && plan_.buffers(b).tensor() == buffer.tensor()) memory = memory_[b].get();
      }
      if (memory == nullptr) {
        if (buffer.kind() != v1::Buffer::WORKSPACE)
          return absl::InternalError(StrCat("no run takes '", buffer.tensor(), "'"));
        auto allocated = device_->Allocate(buffer.bytes());
        if (!allocated.ok()) return allocated.status();
        if (absl::Status s = device_->Fill(**allocated, poison); !s.ok()) return s;
        workspace.push_back(*std::move(allocated));
        memory = workspace.back().get();
      }
      bound.push_back(memory);
    }
    if (absl::Status s = preparation_->Bind(bound); !s.ok()) return s;
    std::vector<device::Memory*> rest;
    for (int b = 0; b < plan_.buffers_size(); ++b) {
      const auto kind = plan_.buffers(b).kind();
      if (kind != v1::Buffer::PARAM && kind != v1::Buffer::PREPARED)
        rest.push_back(memory_[b].get());
    }
    for (device::Memory* memory : rest) {
      if (absl::Status s = memory->Unmap(); !s.ok()) return s;
    }
    if (absl::Status s = device_->Run(*preparation_, RunLimit()); !s.ok()) return s;
    for (device::Memory* memory : rest) {
      if (absl::Status s = memory->Map(); !s.ok()) return s;
    }
    return absl::OkStatus();
  }
  std::string Read(int b, int64_t bytes) {
    std::string data(bytes, '\0');
    (void)device_->Read(*memory_[b], data.data(), bytes);
    return data;
  }
  // Guard bands, inputs, and states that nothing updates.
  absl::Status CheckUntouched(const graph::Graph& graph) {
    for (int b = 0, i = 0; b < plan_.buffers_size(); ++b) {
      const v1::Buffer& buffer = plan_.buffers(b);
      auto intact = memory_[b]->GuardIntact();
      if (!intact.ok() || !*intact)
        return absl::InternalError(StrCat("wrote beyond '", buffer.tensor(), "'"));
      if (!IsGiven(b)) continue;
      const bool updated = std::any_of(graph.updates.begin(), graph.updates.end(),
                                       [&](const graph::Graph::Update& update) {
                                         return graph.tensors[update.state].name == buffer.tensor();
                                       });
      if (!updated && Read(b, given_[i].size()) != given_[i])
        return absl::InternalError(StrCat("changed the input '", buffer.tensor(), "'"));
      ++i;
    }
    return absl::OkStatus();
  }

  v1::Plan plan_;
  std::unique_ptr<device::Device> device_;
  std::vector<std::unique_ptr<device::Memory>> memory_;
  std::unique_ptr<device::Program> program_, preparation_;
  bool prepared_ = false;
  std::vector<std::string> given_;
};

absl::Status RunCompiled(const Trial& trial, const v1::Plan& plan, const device::Binary& binary) {
  const Drawn inputs = Draw(trial);
  auto answers = oracle::EvaluateOnHost(trial.graph, inputs.values, false);
  if (!answers.ok()) return answers.status();
  std::vector<double> tolerances = TolerancesOf(trial.graph);
  if (trial.tolerance > 0) std::fill(tolerances.begin(), tolerances.end(), trial.tolerance);
  auto bench = Bench::Make(plan, binary);
  if (!bench.ok()) return bench.status();
  // Twice: workspace of the first run must not matter to the second. A NaN that was asked for may
  // be the poison that nobody wrote over, so the second is a number. More often where each run has
  // an order of steps of its own.
  const bool lanes = std::any_of(plan.steps().begin(), plan.steps().end(),
                                 [](const v1::Step& step) { return step.lane() > 0; });
  for (int run = 0; run < (lanes ? kRunsOfLanes : 2); ++run) {
    const uint32_t poison = run % 2 == 0 ? kPoison : kFinitePoison;
    if (absl::Status s = (*bench)->Run(trial, inputs, poison); !s.ok()) return s;
    if (absl::Status s = (*bench)->Check(trial, *answers, tolerances); !s.ok()) return s;
  }
  return absl::OkStatus();
}

// Anything that is wrong once code was generated, with the code.
absl::Status WithSource(const absl::Status& status, const v1::Plan& plan) {
  if (status.ok()) return status;
  return absl::InternalError(StrCat(status.message(), "\n", plan.source()));
}

absl::Status RunAlone(const Trial& trial, const v1::Plan& plan, bool quick) {
  auto binary = HostCompiler(quick).Compile(plan.source(), kCompileLimit);
  return WithSource(binary.ok() ? RunCompiled(trial, plan, *binary) : binary.status(), plan);
}

// Plans in one source: each in a namespace of its own, its kernels under names of their own.
class Together {
 public:
  // The plan with its kernels' new names.
  v1::Plan Add(const v1::Plan& plan) {
    v1::Plan renamed = plan;
    const std::string name = StrCat("p", plans_++);
    std::vector<std::pair<std::string, std::string>> names;
    const auto rename = [&](v1::Plan& of) {
      for (v1::Step& step : *of.mutable_steps()) {
        if (!step.has_launch()) continue;
        const std::string entry = step.launch().entry();
        names.push_back({StrCat(" ", entry, "("), StrCat(" ", name, "_", entry, "(")});
        step.mutable_launch()->set_entry(StrCat(name, "_", entry));
      }
    };
    rename(renamed);
    if (renamed.has_prepare()) rename(*renamed.mutable_prepare());
    std::string body;
    for (absl::string_view line : absl::StrSplit(plan.source(), '\n')) {
      if (absl::StartsWith(line, "#include")) {
        includes_.insert(std::string(line));
      } else {
        absl::StrAppend(&body, line, "\n");
      }
    }
    absl::StrAppend(&bodies_, "namespace ", name, " {\n", absl::StrReplaceAll(body, names),
                    "}\nusing namespace ", name, ";\n");
    return renamed;
  }
  std::string Source() const { return StrCat(absl::StrJoin(includes_, "\n"), "\n", bodies_); }

 private:
  int plans_ = 0;
  std::set<std::string> includes_;
  std::string bodies_;
};

}  // namespace

absl::Status RunAndCompare(const graph::Graph& graph, const v1::Schedule& schedule, uint64_t seed) {
  const Trial trial{graph, schedule, seed};
  auto plan = LowerTrial(trial);
  if (!plan.ok()) return plan.status();
  return RunAlone(trial, *plan, false);
}

std::vector<absl::Status> RunAndCompareAll(const std::vector<Trial>& trials) {
  std::vector<absl::Status> statuses(trials.size());
  std::vector<std::pair<size_t, v1::Plan>> alone, together;
  Together source;
  for (size_t i = 0; i < trials.size(); ++i) {
    auto plan = LowerTrial(trials[i]);
    statuses[i] = plan.status();
    if (!plan.ok()) continue;
    together.push_back({i, source.Add(*plan)});
    alone.push_back({i, *std::move(plan)});
  }
  auto binary = HostCompiler(true).Compile(source.Source(), kCompileLimit);
  for (size_t n = 0; n < alone.size(); ++n) {
    const auto& [i, plan] = alone[n];
    statuses[i] = binary.ok()
                      ? WithSource(RunCompiled(trials[i], together[n].second, *binary), plan)
                      : RunAlone(trials[i], plan, true);
  }
  return statuses;
}

}  // namespace warpsmith::codegen
