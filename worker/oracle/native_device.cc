#include "worker/oracle/native_device.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "worker/oracle/device_prelude.h"
#include "worker/oracle/device_source.h"
#include "worker/oracle/errors.h"

namespace warpsmith::oracle {
namespace {

using graph::Graph;
using graph::Node;
using graph::Tensor;

constexpr int kBlockThreads = 256;
constexpr int kBlocksPerSm = 8;
constexpr absl::Duration kCompileLimit = absl::Minutes(2);
constexpr absl::Duration kRunLimit = absl::Minutes(2);

// The graph with a node of its own behind each answer.
struct Prepared {
  Graph graph;
  std::vector<int> answers;   // tensor of each
  std::vector<bool> sampled;  // floating point
  std::vector<int> inputs;    // inputs, params and states, in tensor order
};

int Copied(Graph& graph, int tensor, int answer) {
  const Tensor from = graph.tensors[tensor];
  std::vector<graph::Axis> axes;
  std::vector<graph::ExprPtr> indexes;
  for (size_t i = 0; i < from.shape.size(); ++i) {
    axes.push_back({absl::StrCat("i", i), from.shape[i]});
    indexes.push_back(graph::Index(static_cast<int>(i)));
  }
  std::string name = absl::StrCat("answer_", answer);
  while (graph.Find(name) >= 0) name += "_";
  return graph.AddMap(name, axes, graph::Load(graph, tensor, indexes));
}

Prepared Prepare(const Graph& graph) {
  Prepared p;
  p.graph = graph;
  std::vector<int> wanted = graph.outputs;
  for (const Graph::Update& update : graph.updates) wanted.push_back(update.value);
  std::set<int> taken;
  for (size_t i = 0; i < wanted.size(); ++i) {
    int tensor = wanted[i];
    if (graph.tensors[tensor].node < 0 || !taken.insert(tensor).second) {
      tensor = Copied(p.graph, tensor, static_cast<int>(i));
    }
    p.answers.push_back(tensor);
    p.sampled.push_back(graph::IsFloat(p.graph.tensors[tensor].type));
  }
  for (size_t t = 0; t < graph.tensors.size(); ++t) {
    if (graph.tensors[t].role != graph::Role::kIntermediate)
      p.inputs.push_back(static_cast<int>(t));
  }
  return p;
}

void Loads(const graph::ExprPtr& e, std::set<const graph::Expr*>& seen, std::set<int>& tensors) {
  if (!seen.insert(e.get()).second) return;
  if (e->op == graph::Op::kLoad) tensors.insert(e->tensor);
  for (const graph::ExprPtr& a : e->args) Loads(a, seen, tensors);
}
std::set<int> Loads(const Node& node) {
  std::set<const graph::Expr*> seen;
  std::set<int> tensors;
  Loads(node.value, seen, tensors);
  return tensors;
}

// Memory shared by tensors that are not held at the same time. Sizes are planned before any of it
// is allocated, so a slot may still grow.
class Slots {
 public:
  int Acquire(int64_t bytes) {
    int best = -1;
    for (size_t i = 0; i < bytes_.size(); ++i) {
      if (!free_[i]) continue;
      bool fits = bytes_[i] >= bytes;
      bool best_fits = best >= 0 && bytes_[best] >= bytes;
      bool better =
          best < 0 || (fits && !best_fits) ||
          (fits == best_fits && (fits ? bytes_[i] < bytes_[best] : bytes_[i] > bytes_[best]));
      if (better) best = static_cast<int>(i);
    }
    if (best < 0) {
      best = static_cast<int>(bytes_.size());
      bytes_.push_back(0);
      free_.push_back(true);
    }
    bytes_[best] = std::max(bytes_[best], bytes);
    free_[best] = false;
    return best;
  }
  void Release(int slot) { free_[slot] = true; }
  const std::vector<int64_t>& bytes() const { return bytes_; }

 private:
  std::vector<int64_t> bytes_;
  std::vector<bool> free_;
};

// A launch plan and what each of its buffers stands for. Beside Operand's kinds, kTensor stands for
// a graph input only, and kPartial for slot `index`.
struct Staged {
  v1::Plan plan;
  std::vector<Operand> buffers;
  std::vector<int64_t> slot_bytes;
  std::string source;

  int64_t SlotBytes() const {
    int64_t sum = 0;
    for (int64_t b : slot_bytes) sum += b;
    return sum;
  }
};

class Stager {
 public:
  Stager(const Prepared& prepared, const device::DeviceInfo& info)
      : p_(prepared), blocks_(std::max(1, info.sm_count) * kBlocksPerSm) {}

  Staged Draw() {
    for (int t : p_.inputs) Append(DrawCode(p_.graph, t, absl::StrCat("draw", t)));
    return Finish();
  }

  Staged Evaluate(Pass pass) {
    FindNeeds(pass);
    const std::string prefix = pass == Pass::kExact ? "exact" : "plain";
    for (size_t n = 0; n < p_.graph.nodes.size(); ++n) {
      if (!needed_[n]) continue;
      const Node& node = p_.graph.nodes[n];
      std::vector<Target> targets;
      bool whole = false;
      for (int t : node.outputs) {
        Target target;
        target.hold = last_use_[t] > static_cast<int>(n);
        int answer = AnswerOf(t);
        if (pass == Pass::kExact) target.answer = answer;
        if (answer >= 0 && p_.sampled[answer]) {
          const bool all = Count(answer) == Elements(t);
          if (all || node.scan) target.samples = answer;
          if (!all && node.scan) target.sampled = Count(answer);
        }
        if (target.hold) slot_of_[t] = slots_.Acquire(HeldBytes(p_.graph.tensors[t], pass));
        whole = whole || target.hold || target.answer >= 0 || target.samples >= 0;
        targets.push_back(target);
      }
      if (whole) {
        Append(NodeCode(p_.graph, static_cast<int>(n), pass, absl::StrCat(prefix, n), targets));
      }
      for (size_t i = 0; i < node.outputs.size(); ++i) {
        int answer = AnswerOf(node.outputs[i]);
        if (answer < 0 || !p_.sampled[answer] || targets[i].samples >= 0) continue;
        Append(SampleCode(p_.graph, static_cast<int>(n), static_cast<int>(i), pass,
                          absl::StrCat(prefix, "_sample", answer), answer, Count(answer)));
      }
      for (auto held = slot_of_.begin(); held != slot_of_.end();) {
        bool over = last_use_[held->first] <= static_cast<int>(n);
        if (over) slots_.Release(held->second);
        held = over ? slot_of_.erase(held) : std::next(held);
      }
    }
    return Finish();
  }

 private:
  int64_t Elements(int tensor) const { return p_.graph.tensors[tensor].elements(); }
  int64_t Count(int answer) const { return std::min(kSampled, Elements(p_.answers[answer])); }
  int AnswerOf(int tensor) const {
    auto found = std::find(p_.answers.begin(), p_.answers.end(), tensor);
    return found == p_.answers.end() ? -1 : static_cast<int>(found - p_.answers.begin());
  }

  // Which nodes the answers need, and the last node that reads each tensor.
  void FindNeeds(Pass pass) {
    const Graph& graph = p_.graph;
    needed_.assign(graph.nodes.size(), false);
    last_use_.assign(graph.tensors.size(), -1);
    for (size_t a = 0; a < p_.answers.size(); ++a) {
      if (pass == Pass::kExact || p_.sampled[a]) {
        needed_[graph.tensors[p_.answers[a]].node] = true;
      }
    }
    for (int n = static_cast<int>(graph.nodes.size()) - 1; n >= 0; --n) {
      if (!needed_[n]) continue;
      for (int t : Loads(graph.nodes[n])) {
        last_use_[t] = std::max(last_use_[t], n);
        if (graph.tensors[t].node >= 0) needed_[graph.tensors[t].node] = true;
      }
    }
  }

  void Append(const Code& code) {
    staged_.source += code.source;
    std::vector<int> partials;
    for (int64_t bytes : code.partial_bytes) partials.push_back(slots_.Acquire(bytes));
    for (const Kernel& kernel : code.kernels) {
      v1::Launch* launch = staged_.plan.add_steps()->mutable_launch();
      launch->set_entry(kernel.name);
      int64_t blocks = (kernel.threads + kBlockThreads - 1) / kBlockThreads;
      launch->add_grid(static_cast<uint32_t>(std::clamp<int64_t>(blocks, 1, blocks_)));
      launch->add_block(kBlockThreads);
      for (int i = 0; i < 2; ++i) launch->add_grid(1), launch->add_block(1);
      for (Operand operand : kernel.operands) {
        if (operand.kind == Operand::kPartial) operand.index = partials[operand.index];
        if (operand.kind == Operand::kTensor && p_.graph.tensors[operand.index].node >= 0) {
          operand = {Operand::kPartial, slot_of_.at(operand.index)};
        }
        launch->add_arguments()->set_buffer(BufferOf(operand));
      }
    }
    for (int slot : partials) slots_.Release(slot);
  }

  int BufferOf(const Operand& operand) {
    for (size_t i = 0; i < staged_.buffers.size(); ++i) {
      if (staged_.buffers[i].kind == operand.kind && staged_.buffers[i].index == operand.index) {
        return static_cast<int>(i);
      }
    }
    staged_.buffers.push_back(operand);
    return static_cast<int>(staged_.buffers.size()) - 1;
  }

  int64_t BytesOf(const Operand& operand) const {
    switch (operand.kind) {
      case Operand::kControl:
        return 16;
      case Operand::kTensor:
        return p_.graph.tensors[operand.index].bytes();
      case Operand::kAnswer:
        return p_.graph.tensors[p_.answers[operand.index]].bytes();
      case Operand::kPositions:
      case Operand::kSamples:
        return Count(operand.index) * 8;
      case Operand::kPartial:
        return slots_.bytes()[operand.index];
    }
    return 0;
  }

  Staged Finish() {
    for (const Operand& operand : staged_.buffers) {
      v1::Buffer* buffer = staged_.plan.add_buffers();
      buffer->set_kind(v1::Buffer::WORKSPACE);
      buffer->set_bytes(BytesOf(operand));
    }
    staged_.slot_bytes = slots_.bytes();
    return std::move(staged_);
  }

  const Prepared& p_;
  const int64_t blocks_;
  std::vector<bool> needed_;
  std::vector<int> last_use_;
  std::map<int, int> slot_of_;
  Slots slots_;
  Staged staged_;
};

// Positions in increasing order, one in each of as many equal parts (Target::sampled relies on it),
// the first and the last among them.
std::vector<int64_t> SamplePositions(int64_t elements, uint64_t seed) {
  int64_t count = std::min(kSampled, elements);
  std::vector<int64_t> positions(count);
  if (count == elements) {
    for (int64_t i = 0; i < count; ++i) positions[i] = i;
    return positions;
  }
  uint64_t state = seed;
  for (int64_t i = 0; i < count; ++i) {
    int64_t from = static_cast<int64_t>(static_cast<__int128>(elements) * i / count);
    int64_t to = static_cast<int64_t>(static_cast<__int128>(elements) * (i + 1) / count);
    uint64_t z = (state += 0x9e3779b97f4a7c15ull);  // splitmix64
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    positions[i] = from + static_cast<int64_t>((z ^ (z >> 31)) % static_cast<uint64_t>(to - from));
  }
  positions.front() = 0;
  positions.back() = elements - 1;
  return positions;
}

std::string SourceOf(const Staged& draw, const Staged& exact, const Staged& plain) {
  return absl::StrCat(kDevicePrelude, draw.source, exact.source, plain.source);
}

class NativeDeviceOracle final : public Oracle {
 public:
  NativeDeviceOracle(Prepared prepared, Staged draw, Staged exact, Staged plain,
                     device::Binary binary, const device::DeviceInfo& info)
      : p_(std::move(prepared)),
        draw_(std::move(draw)),
        exact_(std::move(exact)),
        plain_(std::move(plain)),
        binary_(std::move(binary)),
        card_(info.name),
        driver_(info.driver) {}

  std::string name() const override { return "native"; }
  bool DrawsElementsAlone() const override { return true; }

  int64_t WorkingBytes() const override {
    int64_t samples = 0;
    for (int answer : p_.answers) {
      samples += std::min(kSampled, p_.graph.tensors[answer].elements()) * 16;
    }
    return std::max(exact_.SlotBytes(), plain_.SlotBytes()) + samples;
  }

  absl::StatusOr<v1::BaselineReport> TimeBaselines(device::Device&) override {
    v1::BaselineReport report;
    report.set_card(card_);
    report.set_driver(driver_);
    report.set_oracle(name());
    return report;
  }

  absl::StatusOr<Case> Draw(device::Device& device, uint64_t seed, Variation variation) override {
    Case drawn;
    drawn.variation = variation;
    drawn.seed = seed;
    if (absl::Status s = AllocateCase(device, &drawn); !s.ok()) return s;
    Scratch scratch;
    if (absl::Status s = AllocateScratch(device, drawn, &scratch); !s.ok()) return s;
    const int64_t control[2] = {static_cast<int64_t>(seed), static_cast<int64_t>(variation)};
    if (absl::Status s = device.Write(*scratch.control, control, sizeof(control)); !s.ok())
      return s;
    if (absl::Status s = Run(device, draw_, &draw_program_, drawn, scratch); !s.ok()) return s;
    if (absl::Status s = Run(device, exact_, &exact_program_, drawn, scratch); !s.ok()) return s;
    if (absl::Status s = ReadSamples(device, scratch, &drawn.exact); !s.ok()) return s;
    if (absl::Status s = Run(device, plain_, &plain_program_, drawn, scratch); !s.ok()) return s;
    std::vector<std::vector<double>> plain;
    if (absl::Status s = ReadSamples(device, scratch, &plain); !s.ok()) return s;
    for (size_t a = 0; a < plain.size(); ++a) {
      drawn.AddReference(p_.graph.tensors[p_.answers[a]].type, std::move(plain[a]), drawn.exact[a]);
    }
    return drawn;
  }

 private:
  using Memories = std::vector<std::unique_ptr<device::Memory>>;
  struct Scratch {
    std::unique_ptr<device::Memory> control;
    Memories positions, samples,
        slots;  // positions and samples: one an answer, null if not sampled
  };

  static absl::Status Allocate(device::Device& device, int64_t bytes, Memories* to) {
    auto memory = device.Allocate(bytes);
    if (!memory.ok()) return memory.status();
    to->push_back(*std::move(memory));
    return absl::OkStatus();
  }

  absl::Status AllocateCase(device::Device& device, Case* drawn) const {
    for (int t : p_.inputs) {
      absl::Status s = Allocate(device, p_.graph.tensors[t].bytes(), &drawn->inputs);
      if (!s.ok()) return s;
    }
    for (size_t a = 0; a < p_.answers.size(); ++a) {
      const Tensor& tensor = p_.graph.tensors[p_.answers[a]];
      absl::Status s = Allocate(device, tensor.bytes(), &drawn->answers);
      if (!s.ok()) return s;
      drawn->sample.push_back(p_.sampled[a] ? SamplePositions(tensor.elements(), drawn->seed + a)
                                            : std::vector<int64_t>());
    }
    return absl::OkStatus();
  }

  absl::Status AllocateScratch(device::Device& device, const Case& drawn, Scratch* scratch) const {
    auto control = device.Allocate(16);
    if (!control.ok()) return control.status();
    scratch->control = *std::move(control);
    for (const std::vector<int64_t>& positions : drawn.sample) {
      if (positions.empty()) {
        scratch->positions.push_back(nullptr);
        scratch->samples.push_back(nullptr);
        continue;
      }
      const int64_t bytes = static_cast<int64_t>(positions.size()) * 8;
      if (absl::Status s = Allocate(device, bytes, &scratch->positions); !s.ok()) return s;
      if (absl::Status s = Allocate(device, bytes, &scratch->samples); !s.ok()) return s;
      absl::Status s = device.Write(*scratch->positions.back(), positions.data(), bytes);
      if (!s.ok()) return s;
    }
    return absl::OkStatus();
  }

  absl::Status Run(device::Device& device, const Staged& staged,
                   std::unique_ptr<device::Program>* program, const Case& drawn, Scratch& scratch) {
    if (staged.plan.steps_size() == 0) return absl::OkStatus();
    if (*program == nullptr) {
      auto loaded = device.Load(staged.plan, binary_);
      if (!loaded.ok()) return loaded.status();
      *program = *std::move(loaded);
    }
    scratch.slots.clear();
    for (int64_t bytes : staged.slot_bytes) {
      if (absl::Status s = Allocate(device, bytes, &scratch.slots); !s.ok()) return s;
    }
    std::vector<device::Memory*> bound;
    for (const Operand& operand : staged.buffers) {
      bound.push_back(MemoryOf(operand, drawn, scratch));
    }
    if (absl::Status s = (*program)->Bind(bound); !s.ok()) return s;
    absl::Status s = device.Run(**program, kRunLimit);
    scratch.slots.clear();
    if (s.ok()) return s;
    return absl::Status(s.code(), absl::StrCat("the native oracle: ", std::string(s.message())));
  }

  device::Memory* MemoryOf(const Operand& operand, const Case& drawn,
                           const Scratch& scratch) const {
    switch (operand.kind) {
      case Operand::kControl:
        return scratch.control.get();
      case Operand::kTensor: {
        auto at = std::find(p_.inputs.begin(), p_.inputs.end(), operand.index);
        return drawn.inputs[at - p_.inputs.begin()].get();
      }
      case Operand::kAnswer:
        return drawn.answers[operand.index].get();
      case Operand::kPositions:
        return scratch.positions[operand.index].get();
      case Operand::kSamples:
        return scratch.samples[operand.index].get();
      case Operand::kPartial:
        return scratch.slots[operand.index].get();
    }
    return nullptr;
  }

  static absl::Status ReadSamples(device::Device& device, const Scratch& scratch,
                                  std::vector<std::vector<double>>* values) {
    for (const auto& memory : scratch.samples) {
      std::vector<double> read(memory == nullptr ? 0 : memory->bytes() / 8);
      if (memory != nullptr) {
        absl::Status s = device.Read(*memory, read.data(), memory->bytes());
        if (!s.ok()) return s;
      }
      values->push_back(std::move(read));
    }
    return absl::OkStatus();
  }

  const Prepared p_;
  const Staged draw_, exact_, plain_;
  const device::Binary binary_;
  const std::string card_, driver_;
  std::unique_ptr<device::Program> draw_program_, exact_program_, plain_program_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Oracle>> MakeNativeOracle(const Graph& graph,
                                                         device::Compiler& compiler,
                                                         const device::DeviceInfo& info) {
  Prepared prepared = Prepare(graph);
  Staged draw = Stager(prepared, info).Draw();
  Staged exact = Stager(prepared, info).Evaluate(Pass::kExact);
  Staged plain = Stager(prepared, info).Evaluate(Pass::kPlain);
  const std::string source = SourceOf(draw, exact, plain);
  for (Staged* staged : {&draw, &exact, &plain}) staged->plan.set_source(source);
  auto binary = compiler.Compile(source, kCompileLimit);
  if (!binary.ok()) {
    return absl::Status(
        binary.status().code(),
        absl::StrCat("the native oracle's own kernels: ", std::string(binary.status().message())));
  }
  return std::make_unique<NativeDeviceOracle>(std::move(prepared), std::move(draw),
                                              std::move(exact), std::move(plain),
                                              *std::move(binary), info);
}

std::string NativeOracleSource(const Graph& graph, const device::DeviceInfo& info) {
  Prepared prepared = Prepare(graph);
  return SourceOf(Stager(prepared, info).Draw(), Stager(prepared, info).Evaluate(Pass::kExact),
                  Stager(prepared, info).Evaluate(Pass::kPlain));
}

}  // namespace warpsmith::oracle
