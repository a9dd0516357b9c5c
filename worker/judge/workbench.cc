#include "worker/judge/workbench.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "worker/device/cuda_counters.h"
#include "worker/judge/stats.h"

namespace warpsmith::judge {

// Of which a kernel's time is the median, as many as there is time for.
constexpr int kProfileRuns = 5;
constexpr absl::Duration kProfileLimit = absl::Milliseconds(100);

using graph::Role;
using graph::Tensor;

bool IsFatal(const absl::Status& status) {
  return absl::IsDeadlineExceeded(status) || absl::IsOutOfRange(status) ||
         absl::IsAborted(status) || absl::IsDataLoss(status);
}

absl::StatusOr<Finding> FindingOf(const absl::Status& run, const std::string& what) {
  Finding finding;
  if (run.ok()) return finding;
  finding.fatal = true;
  finding.reason = absl::StrCat(what, ": ", std::string(run.message()));
  switch (run.code()) {
    case absl::StatusCode::kDeadlineExceeded:
      finding.verdict = v1::HANG;
      return finding;
    case absl::StatusCode::kOutOfRange:
      finding.verdict = v1::OUT_OF_BOUNDS;
      return finding;
    case absl::StatusCode::kAborted:
      finding.verdict = v1::CRASHED;
      return finding;
    default:
      return absl::Status(run.code(), finding.reason);
  }
}

Workbench::Workbench(device::Device& device, oracle::Comparer& comparer, graph::Graph graph,
                     std::string label, v1::AccuracyRule accuracy,
                     std::unique_ptr<oracle::Oracle> oracle)
    : device_(device),
      comparer_(comparer),
      graph_(std::move(graph)),
      label_(std::move(label)),
      accuracy_(std::move(accuracy)),
      oracle_(std::move(oracle)) {
  for (size_t t = 0; t < graph_.tensors.size(); ++t) {
    const Tensor& tensor = graph_.tensors[t];
    if (tensor.role == Role::kIntermediate) {
      intermediate_bytes_ += tensor.bytes();
      continue;
    }
    inputs_.push_back(static_cast<int>(t));
    case_bytes_ += tensor.bytes();
    if (tensor.role == Role::kState) {
      states_.push_back(static_cast<int>(t));
      written_bytes_ += tensor.bytes();
    }
  }
  for (int t : graph_.outputs) {
    case_bytes_ += graph_.tensors[t].bytes();
    written_bytes_ += graph_.tensors[t].bytes();
  }
  for (const auto& update : graph_.updates) case_bytes_ += graph_.tensors[update.state].bytes();
}

absl::Status Workbench::Prepare(device::Compiler& compiler) {
  const std::vector<bool> rounded = RoundedFloats(graph_);
  for (int a = 0; a < answers(); ++a) {
    rounded_.push_back(rounded[ValueOf(a)]);
    auto rule = comparer_.MakeIndexRule(graph_, ValueOf(a), compiler);
    if (!rule.ok()) return rule.status();
    index_rules_.push_back(*std::move(rule));
  }
  return absl::OkStatus();
}

// ---- cases --------------------------------------------------------------------------------------

absl::Status Workbench::Draw(int slot, uint64_t seed, oracle::Variation variation) {
  Drop(slot);
  ++generation_;
  auto drawn = oracle_->Draw(device_, seed, variation);
  if (!drawn.ok()) {
    return absl::Status(drawn.status().code(),
                        absl::StrCat(label_, ": drawing inputs (", oracle::NameOf(variation),
                                     "): ", std::string(drawn.status().message())));
  }
  Held held;
  held.drawn = *std::move(drawn);
  if (variation == oracle::Variation::kNone) {
    ordinary_reference_.resize(held.drawn.reference.size());
    for (size_t a = 0; a < ordinary_reference_.size(); ++a) {
      const double plain = held.drawn.reference[a].plain;
      if (plain > ordinary_reference_[a]) ordinary_reference_[a] = plain;
    }
  }
  for (size_t a = 0; a < held.drawn.answers.size(); ++a) {
    const bool whole = a < held.drawn.rms.size() && held.drawn.rms[a] > 0;
    held.rms.push_back(whole                         ? held.drawn.rms[a]
                       : a < held.drawn.exact.size() ? oracle::RmsOf(held.drawn.exact[a])
                                                     : 0);
  }
  for (const auto& answer : held.drawn.answers) {
    if (absl::Status s = answer->Unmap(); !s.ok()) return s;
  }
  for (const auto& input : held.drawn.inputs) {
    auto hash = comparer_.Hash(*input);
    if (!hash.ok()) return hash.status();
    held.hashes.push_back(*hash);
  }
  held.valid = true;
  held.version = ++versions_;
  cases_[slot] = std::move(held);
  return absl::OkStatus();
}

// ---- memory -------------------------------------------------------------------------------------

absl::Status Workbench::AllocateWritten() {
  auto allocate = [&](const std::vector<int>& tensors, Memories& memories) {
    memories.resize(tensors.size());
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (memories[i] != nullptr) continue;
      auto memory = device_.Allocate(graph_.tensors[tensors[i]].bytes());
      if (!memory.ok()) return memory.status();
      memories[i] = *std::move(memory);
      ++generation_;
    }
    return absl::OkStatus();
  };
  absl::Status s = allocate(graph_.outputs, outputs_);
  return s.ok() ? allocate(states_, state_memories_) : s;
}

// Workspace of exactly these sizes, so that each ends at its guard. Candidates share it.
absl::StatusOr<std::vector<device::Memory*>> Workbench::Claim(const std::vector<int64_t>& sizes) {
  std::vector<bool> taken(pool_.size(), false);
  std::vector<device::Memory*> claimed;
  for (int64_t bytes : sizes) {
    size_t i = 0;
    while (i < pool_.size() && (taken[i] || pool_[i]->bytes() != bytes)) ++i;
    if (i == pool_.size()) {
      auto memory = device_.Allocate(bytes);
      if (!memory.ok()) return memory.status();
      pool_.push_back(*std::move(memory));
      taken.push_back(false);
    }
    taken[i] = true;
    claimed.push_back(pool_[i].get());
  }
  return claimed;
}

void Workbench::Trim(const Loaded* kept) {
  std::vector<int64_t> wanted = kept == nullptr ? std::vector<int64_t>() : kept->workspace_bytes_;
  Memories left;
  for (auto& memory : pool_) {
    auto found = std::find(wanted.begin(), wanted.end(), memory->bytes());
    if (found == wanted.end()) continue;
    wanted.erase(found);
    left.push_back(std::move(memory));
  }
  if (left.size() != pool_.size()) ++generation_;
  pool_ = std::move(left);
}

void Workbench::Shed() {
  Trim(nullptr);
  outputs_.clear();
  state_memories_.clear();
  ++generation_;
}

int64_t Workbench::pool_bytes() const {
  int64_t bytes = 0;
  for (const auto& memory : pool_) bytes += memory->bytes();
  return bytes;
}

absl::Status Workbench::Move() {
  auto move = [](Memories& memories) {
    for (auto& memory : memories) {
      if (memory == nullptr) continue;
      if (absl::Status s = memory->Unmap(); !s.ok()) return s;
      if (absl::Status s = memory->Map(); !s.ok()) return s;
    }
    return absl::OkStatus();
  };
  ++generation_;
  for (Memories* memories : {&outputs_, &state_memories_, &pool_}) {
    if (absl::Status s = move(*memories); !s.ok()) return s;
  }
  for (Held& held : cases_) {
    if (absl::Status s = move(held.drawn.inputs); !s.ok()) return s;
  }
  return absl::OkStatus();
}

// ---- loading ------------------------------------------------------------------------------------

absl::Status Workbench::Refuse(const v1::Buffer& buffer, absl::string_view why) const {
  return absl::InvalidArgumentError(
      absl::StrCat(label_, ": the plan's buffer '", buffer.tensor(), "' ", why));
}

absl::StatusOr<Loaded::Binding> Workbench::BindingOf(const v1::Buffer& buffer,
                                                     std::vector<bool>& taken,
                                                     int workspace) const {
  auto refuse = [&](const std::string& why) { return Refuse(buffer, why); };
  if (buffer.kind() == v1::Buffer::WORKSPACE) return Loaded::Binding{buffer.kind(), workspace};
  Loaded::Binding binding{buffer.kind(), -1};
  const Tensor* tensor = nullptr;
  if (buffer.kind() == v1::Buffer::OUTPUT) {
    for (size_t i = 0; i < graph_.outputs.size() && binding.index < 0; ++i) {
      if (taken[i] || graph_.tensors[graph_.outputs[i]].name != buffer.tensor()) continue;
      binding.index = static_cast<int>(i);
      taken[i] = true;
      tensor = &graph_.tensors[graph_.outputs[i]];
    }
    if (tensor == nullptr) return refuse("is no output of the problem");
  } else {
    const Role role = buffer.kind() == v1::Buffer::INPUT   ? Role::kInput
                      : buffer.kind() == v1::Buffer::PARAM ? Role::kParam
                                                           : Role::kState;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const Tensor& candidate = graph_.tensors[inputs_[i]];
      if (candidate.name != buffer.tensor() || candidate.role != role) continue;
      binding.index = static_cast<int>(i);
      tensor = &candidate;
    }
    if (tensor == nullptr) return refuse("is no input, weight or state of the problem");
  }
  if (buffer.bytes() != tensor->bytes() || buffer.dtype() != graph::NameOf(tensor->type)) {
    return refuse(absl::StrCat("has ", buffer.bytes(), " bytes of ", buffer.dtype(),
                               "; the tensor has ", tensor->bytes(), " of ",
                               graph::NameOf(tensor->type)));
  }
  return binding;
}

absl::Status Workbench::Take(const v1::Buffer& buffer, int64_t allowance, int64_t& left) const {
  if (buffer.bytes() <= 0 || buffer.bytes() > left) {
    return absl::InvalidArgumentError(absl::StrCat(label_,
                                                   ": the plan's workspace takes more than the ",
                                                   allowance, " bytes that there are for it"));
  }
  left -= buffer.bytes();
  return absl::OkStatus();
}

absl::StatusOr<Loaded> Workbench::Load(const v1::CompiledPlan& plan, int64_t allowance) {
  Loaded loaded;
  std::vector<bool> taken(graph_.outputs.size(), false);
  int64_t left = allowance;
  if (absl::Status s = LoadPreparation(plan, allowance, left, loaded); !s.ok()) return s;
  for (const v1::Buffer& buffer : plan.plan().buffers()) {
    auto binding = buffer.kind() == v1::Buffer::PREPARED
                       ? PreparedBinding(buffer, loaded)
                       : BindingOf(buffer, taken, static_cast<int>(loaded.workspace_bytes_.size()));
    if (!binding.ok()) return binding.status();
    if (binding->kind == v1::Buffer::WORKSPACE) {
      if (absl::Status s = Take(buffer, allowance, left); !s.ok()) return s;
      loaded.workspace_bytes_.push_back(buffer.bytes());
    }
    loaded.bindings_.push_back(*binding);
  }
  for (size_t i = 0; i < taken.size(); ++i) {
    if (taken[i]) continue;
    return absl::InvalidArgumentError(absl::StrCat(label_, ": the plan has no buffer for output '",
                                                   graph_.tensors[graph_.outputs[i]].name, "'"));
  }
  for (const auto& update : graph_.updates) {
    auto writes = [&](const Loaded::Binding& b) {
      return b.kind == v1::Buffer::STATE && inputs_[b.index] == update.state;
    };
    if (std::none_of(loaded.bindings_.begin(), loaded.bindings_.end(), writes)) {
      return absl::InvalidArgumentError(absl::StrCat(label_, ": the plan has no buffer for state '",
                                                     graph_.tensors[update.state].name,
                                                     "', which has to be updated"));
    }
  }
  device::Binary binary{plan.binary(), plan.report()};
  auto program = device_.Load(plan.plan(), binary);
  if (!program.ok()) return program.status();
  loaded.program_ = *std::move(program);
  for (const v1::Step& step : plan.plan().steps()) {
    if (step.has_launch()) loaded.entries_.push_back(step.launch().entry());
    // Plans of earlier generators give it no name.
    if (step.has_product())
      loaded.entries_.push_back(step.product().entry().empty() ? step.product().library()
                                                               : step.product().entry());
  }
  return loaded;
}

int Workbench::StateMemory(int tensor) const {
  auto found = std::find(states_.begin(), states_.end(), tensor);
  WS_CHECK(found != states_.end(), "not a state");
  return static_cast<int>(found - states_.begin());
}

absl::Status Workbench::Bind(Loaded& loaded, int slot) {
  WS_CHECK(cases_[slot].valid, "no case in this slot");
  if (absl::Status s = AllocateWritten(); !s.ok()) return s;
  auto workspace = Claim(loaded.workspace_bytes_);
  if (!workspace.ok()) return workspace.status();
  if (loaded.bound_slot_ == slot && loaded.bound_generation_ == generation_) {
    return absl::OkStatus();
  }
  std::vector<device::Memory*> bound;
  for (const Loaded::Binding& b : loaded.bindings_) {
    switch (b.kind) {
      case v1::Buffer::OUTPUT:
        bound.push_back(outputs_[b.index].get());
        break;
      case v1::Buffer::STATE:
        bound.push_back(state_memories_[StateMemory(inputs_[b.index])].get());
        break;
      case v1::Buffer::WORKSPACE:
        bound.push_back((*workspace)[b.index]);
        break;
      case v1::Buffer::PREPARED:
        bound.push_back(loaded.prepared_[b.index].get());
        break;
      default:
        bound.push_back(cases_[slot].drawn.inputs[b.index].get());
    }
  }
  if (absl::Status s = loaded.program_->Bind(bound); !s.ok()) return s;
  loaded.bound_slot_ = slot;
  loaded.bound_generation_ = generation_;
  return absl::OkStatus();
}

// ---- running ------------------------------------------------------------------------------------

absl::Status Workbench::Poison(Loaded& loaded, int slot, uint32_t poison) {
  if (absl::Status s = AllocateWritten(); !s.ok()) return s;
  auto workspace = Claim(loaded.workspace_bytes_);
  if (!workspace.ok()) return workspace.status();
  for (const auto& memory : outputs_) {
    if (absl::Status s = device_.Fill(*memory, poison); !s.ok()) return s;
  }
  for (device::Memory* memory : *workspace) {
    if (absl::Status s = device_.Fill(*memory, poison); !s.ok()) return s;
  }
  for (size_t i = 0; i < states_.size(); ++i) {
    auto at = std::find(inputs_.begin(), inputs_.end(), states_[i]) - inputs_.begin();
    const device::Memory& from = *cases_[slot].drawn.inputs[at];
    if (absl::Status s = device_.Copy(from, *state_memories_[i], from.bytes()); !s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::StatusOr<Finding> Workbench::Check(Loaded& loaded, int slot, uint32_t poison,
                                         absl::Duration limit, Strictness strictness) {
  if (absl::Status s = Poison(loaded, slot, poison); !s.ok()) return s;
  if (auto prepared = PrepareFor(loaded, slot, limit); !prepared.ok() || !prepared->ok())
    return prepared;
  if (absl::Status s = Bind(loaded, slot); !s.ok()) return s;
  base::Instant start = base::Now();
  absl::Status run = device_.Run(*loaded.program_, limit);
  double seconds = absl::ToDoubleSeconds(base::Now() - start);
  auto finding = FindingOf(run, label_);
  if (!finding.ok() || !finding->ok()) return finding;
  finding = Inspect(loaded, slot, poison, strictness);
  if (!finding.ok() || !finding->ok()) return finding;
  finding->seconds = seconds;
  if (cases_[slot].drawn.variation != oracle::Variation::kNone) return finding;
  for (int a = 0; a < answers(); ++a) {
    auto hash = comparer_.Hash(*AnswerAt(a).memory);
    if (!hash.ok()) return hash.status();
    finding->hashes.push_back(*hash);
  }
  return finding;
}

absl::StatusOr<Finding> Workbench::Inspect(Loaded& loaded, int slot, uint32_t poison,
                                           Strictness strictness) {
  auto finding = CheckSurroundings(loaded, slot, /*whole=*/false);
  if (!finding.ok() || !finding->ok()) return finding;
  finding = CheckReadStates(slot);
  if (!finding.ok() || !finding->ok()) return finding;
  Finding all;
  for (int a = 0; a < answers(); ++a) {
    finding = CompareAnswer(loaded, a, slot, poison, strictness);
    if (!finding.ok() || !finding->ok()) return finding;
    all.errors.Add(finding->errors);
    all.measured = all.measured && finding->measured;
    all.nearer = all.nearer || finding->nearer;
    all.even = all.even || finding->even;
    all.strays = all.strays || finding->strays;
    if (finding->error_ratio > all.error_ratio) {
      all.error_ratio = finding->error_ratio;
      all.worst = finding->worst;
    }
  }
  return all;
}

absl::StatusOr<Finding> Workbench::InspectLeftovers(Loaded& loaded, bool whole) {
  for (int slot = 0; slot < kSlots; ++slot) {
    if (!cases_[slot].valid || (!cases_[slot].unlooked && !whole)) continue;
    auto finding = CheckSurroundings(loaded, slot, whole);
    if (!finding.ok() || !finding->ok()) return finding;
  }
  return Finding();
}

absl::Status Workbench::Stir(int slot, int64_t parts) {
  cases_[slot].version = ++versions_;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const graph::DType type = graph_.tensors[inputs_[i]].type;
    if (!graph::IsFloat(type) && !oracle_->DrawsElementsAlone()) continue;
    absl::Status s = comparer_.Reverse(type, *cases_[slot].drawn.inputs[i], parts);
    if (!s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::StatusOr<Finding> Workbench::Time(Loaded& loaded, int slot, absl::Duration limit,
                                        device::Launching how) {
  if (auto prepared = PrepareFor(loaded, slot, limit); !prepared.ok() || !prepared->ok())
    return prepared;
  if (absl::Status s = Bind(loaded, slot); !s.ok()) return s;
  cases_[slot].unlooked = true;
  auto seconds = device_.Time(*loaded.program_, limit, how);
  auto finding = FindingOf(seconds.status(), label_);
  if (finding.ok() && finding->ok()) finding->seconds = *seconds;
  return finding;
}

absl::StatusOr<Finding> Workbench::Profile(Loaded& loaded, int slot, absl::Duration limit,
                                           bool counted, std::vector<v1::Profile::Kernel>* kernels,
                                           std::string* missing) {
  if (absl::Status s = Poison(loaded, slot, kPoisons[0]); !s.ok()) return s;
  if (auto prepared = PrepareFor(loaded, slot, limit); !prepared.ok() || !prepared->ok())
    return prepared;
  if (absl::Status s = Bind(loaded, slot); !s.ok()) return s;
  cases_[slot].unlooked = true;
  const size_t launches = loaded.entries_.size();
  std::vector<std::vector<double>> samples(launches);
  const base::Instant start = base::Now();
  for (int run = 0; run < kProfileRuns; ++run) {
    if (run > 0 && base::Now() - start > kProfileLimit) break;
    auto seconds = device_.TimeLaunches(*loaded.program_, limit);
    if (!seconds.ok()) return FindingOf(seconds.status(), label_);
    for (size_t k = 0; k < launches; ++k) samples[k].push_back((*seconds)[k]);
  }
  std::vector<std::optional<v1::Counters>> counters(launches);
  if (counted) {
    auto read = device_.Count(*loaded.program_, limit);
    if (read.ok()) {
      counters = *std::move(read);
    } else {
      auto finding = FindingOf(read.status(), label_);
      if (finding.ok()) return finding;  // the run's own fault
      *missing = std::string(read.status().message());
    }
  }
  for (size_t k = 0; k < launches; ++k) {
    v1::Profile::Kernel& kernel = kernels->emplace_back();
    kernel.set_entry(loaded.entries_[k]);
    kernel.set_us(Median(samples[k]) * 1e6);
    if (!counters[k]) continue;
    *kernel.mutable_counters() = *std::move(counters[k]);
    device::RelateToKernel(kernel.us(), *kernel.mutable_counters());
  }
  return Finding();
}

}  // namespace warpsmith::judge
