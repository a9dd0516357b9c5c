// What a candidate does once for each version of the weights (Plan.prepare): loaded beside its
// plan, run with nothing but weights within its reach, and looked at as inputs are.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "worker/judge/workbench.h"

namespace warpsmith::judge {
namespace {

// Beside what a run may take.
constexpr absl::Duration kMoreToPrepare = absl::Seconds(2);

}  // namespace

absl::Status Workbench::LoadPreparation(const v1::CompiledPlan& plan, int64_t allowance,
                                        int64_t& left, Loaded& loaded) {
  const v1::Plan& given = plan.plan().prepare();
  if (!plan.plan().has_prepare()) return absl::OkStatus();
  if (!graph_.constant_params) {
    return absl::InvalidArgumentError(
        absl::StrCat(label_,
                     ": the plan prepares weights, which the problem does not call constants "
                     "(weights_constant)"));
  }
  loaded.preparation_ = std::make_unique<Loaded>();
  Loaded& preparation = *loaded.preparation_;
  std::vector<bool> none;
  for (const v1::Buffer& buffer : given.buffers()) {
    const v1::Buffer::Kind kind = buffer.kind();
    if (kind != v1::Buffer::PARAM && kind != v1::Buffer::WORKSPACE && kind != v1::Buffer::OUTPUT)
      return Refuse(buffer, "is none of weights, which are all that may be prepared of");
    if (kind != v1::Buffer::PARAM) {
      if (absl::Status s = Take(buffer, allowance, left); !s.ok()) return s;
    }
    if (kind == v1::Buffer::OUTPUT) {
      auto memory = device_.Allocate(buffer.bytes());
      if (!memory.ok()) return memory.status();
      preparation.bindings_.push_back({kind, static_cast<int>(loaded.prepared_.size())});
      loaded.prepared_.push_back(*std::move(memory));
      loaded.prepared_names_.push_back(buffer.tensor());
      continue;
    }
    auto binding = BindingOf(buffer, none, static_cast<int>(preparation.workspace_bytes_.size()));
    if (!binding.ok()) return binding.status();
    if (kind == v1::Buffer::WORKSPACE) preparation.workspace_bytes_.push_back(buffer.bytes());
    preparation.bindings_.push_back(*binding);
  }
  auto program = device_.Load(given, device::Binary{plan.binary(), plan.report()});
  if (!program.ok()) return program.status();
  preparation.program_ = *std::move(program);
  return absl::OkStatus();
}

absl::StatusOr<Loaded::Binding> Workbench::PreparedBinding(const v1::Buffer& buffer,
                                                           const Loaded& loaded) const {
  const auto& names = loaded.prepared_names_;
  const auto found = std::find(names.begin(), names.end(), buffer.tensor());
  if (found == names.end()) return Refuse(buffer, "is nothing that the plan prepares");
  const auto index = static_cast<int>(found - names.begin());
  const int64_t bytes = loaded.prepared_[index]->bytes();
  if (bytes != buffer.bytes())
    return Refuse(buffer, absl::StrCat("has ", buffer.bytes(), " bytes; prepared are ", bytes));
  return Loaded::Binding{v1::Buffer::PREPARED, index};
}

absl::Status Workbench::Reach(bool rest) {
  const auto reach = [&](device::Memory* memory) {
    if (memory == nullptr || rest == (memory->address() != 0)) return absl::OkStatus();
    if (!rest) return memory->Unmap();
    if (absl::Status s = memory->Map(); !s.ok()) return s;
    // Who is first at new addresses walks the page tables: that is not to be a timed run.
    return comparer_.Hash(*memory).status();
  };
  ++generation_;
  for (Memories* memories : {&outputs_, &state_memories_}) {
    for (auto& memory : *memories) {
      if (absl::Status s = reach(memory.get()); !s.ok()) return s;
    }
  }
  for (Held& held : cases_) {
    for (size_t i = 0; held.valid && i < inputs_.size(); ++i) {
      if (graph_.tensors[inputs_[i]].role == graph::Role::kParam) continue;
      if (absl::Status s = reach(held.drawn.inputs[i].get()); !s.ok()) return s;
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Finding> Workbench::PrepareFor(Loaded& loaded, int slot, absl::Duration limit) {
  const Held& held = cases_[slot];
  if (loaded.preparation_ == nullptr || loaded.prepared_for_ == held.version) return Finding();
  // What runs since the last look did to it, which is gone afterwards.
  if (auto before = CheckPrepared(loaded, /*whole=*/false); !before.ok() || !before->ok())
    return before;
  loaded.prepared_for_ = 0;
  Loaded& preparation = *loaded.preparation_;
  auto workspace = Claim(preparation.workspace_bytes_);
  if (!workspace.ok()) return workspace.status();
  std::vector<device::Memory*> bound, written = *workspace;
  for (const auto& memory : loaded.prepared_) written.push_back(memory.get());
  for (const auto& memory : loaded.prepared_) {  // to other addresses, as with all that is written
    if (absl::Status s = memory->Unmap(); !s.ok()) return s;
    if (absl::Status s = memory->Map(); !s.ok()) return s;
  }
  for (device::Memory* memory : written) {
    if (absl::Status s = device_.Fill(*memory, kPoisons[0]); !s.ok()) return s;
  }
  for (const Loaded::Binding& b : preparation.bindings_) {
    bound.push_back(b.kind == v1::Buffer::OUTPUT      ? loaded.prepared_[b.index].get()
                    : b.kind == v1::Buffer::WORKSPACE ? (*workspace)[b.index]
                                                      : held.drawn.inputs[b.index].get());
  }
  if (absl::Status s = preparation.program_->Bind(bound); !s.ok()) return s;
  if (absl::Status s = Reach(/*rest=*/false); !s.ok()) return s;
  const absl::Status run = device_.Run(*preparation.program_, limit + kMoreToPrepare);
  if (absl::Status s = IsFatal(run) ? absl::OkStatus() : Reach(/*rest=*/true); !s.ok()) return s;
  auto finding = FindingOf(run, absl::StrCat(label_, ", preparing weights"));
  if (!finding.ok() || !finding->ok()) return finding;
  loaded.prepared_hashes_.clear();
  for (const auto& memory : loaded.prepared_) {
    auto hash = comparer_.Hash(*memory);
    if (!hash.ok()) return hash.status();
    loaded.prepared_hashes_.push_back(*hash);
  }
  loaded.prepared_for_ = held.version;
  return Finding();
}

absl::StatusOr<Finding> Workbench::CheckPrepared(Loaded& loaded, bool whole) {
  Finding finding;
  if (loaded.prepared_for_ == 0) return finding;
  for (size_t i = 0; i < loaded.prepared_.size(); ++i) {
    device::Memory& memory = *loaded.prepared_[i];
    auto intact = whole ? memory.WholeGuardIntact() : memory.GuardIntact();
    if (!intact.ok()) return intact.status();
    auto hash = comparer_.Hash(memory);
    if (!hash.ok()) return hash.status();
    if (*intact && *hash == loaded.prepared_hashes_[i]) continue;
    finding.verdict = v1::OUT_OF_BOUNDS;
    finding.reason =
        absl::StrCat(label_, *intact ? ": changed '" : ": wrote outside of '",
                     loaded.prepared_names_[i], "', which was prepared and runs only read");
    loaded.prepared_for_ = 0;
    return finding;
  }
  return finding;
}

}  // namespace warpsmith::judge
