#include "worker/codegen/plan/writer.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/problem/units.h"
#include "worker/codegen/ir/emit.h"
#include "worker/codegen/plan/entry.h"

namespace warpsmith::codegen {

using absl::StrCat;

namespace {

constexpr int64_t kMaxGrid = (int64_t{1} << 31) - 1;

}  // namespace

std::string EntryPrefix(int root) { return StrCat("k", root, "_"); }

KernelWriter::KernelWriter(const graph::Graph& graph, int root, const v1::LaunchKnobs& knobs,
                           Storage& storage, v1::Plan& plan, v1::Plan& steps, OnlyRead* only_read)
    : graph_(graph),
      first_(root),
      root_(graph.tensors[root].name),
      base_(StrCat(EntryPrefix(root), Identifier(root_))),
      glue_(StrCat("G", root)),
      knobs_(knobs),
      storage_(storage),
      plan_(plan),
      steps_(steps),
      only_read_(only_read) {}

KernelWriter* KernelWriter::Preparing(const std::vector<int>& tensors) {
  Storage* const storage = storage_.preparation();
  if (storage == nullptr) return nullptr;
  for (int tensor : tensors) {
    if (storage->BufferOf(tensor) < 0) return nullptr;
  }
  if (preparing_ == nullptr) {
    preparing_ = std::make_unique<KernelWriter>(graph_, first_, knobs_, *storage, plan_,
                                                *plan_.mutable_prepare(), nullptr);
    preparing_->parameters_ = parameters_;
  }
  return preparing_.get();
}

Storage::Left KernelWriter::Prepared(const std::string& suffix, int64_t bytes) {
  return storage_.AddPrepared(StrCat(base_, suffix), bytes);
}

void KernelWriter::Struct(const std::string& text, std::vector<Parameter> parameters) {
  parameters_ = std::move(parameters);
  absl::StrAppend(plan_.mutable_source(), "\n", problem::kSharedMark, Indented(text), "\n");
}

void KernelWriter::Text(const std::string& text) { absl::StrAppend(&text_, text, "\n"); }

int KernelWriter::Workspace(const std::string& suffix, int64_t bytes) {
  return storage_.AddWorkspace(StrCat(base_, suffix), bytes);
}

void KernelWriter::Fill(int buffer, uint32_t pattern, int64_t bytes) {
  v1::Fill* fill = steps_.add_steps()->mutable_fill();
  fill->set_buffer(buffer);
  fill->set_pattern(pattern);
  fill->set_bytes(bytes);
}

void KernelWriter::Zero(int buffer, int64_t bytes) { Fill(buffer, 0, bytes); }

void KernelWriter::Product(const v1::LibraryProduct& product) {
  v1::LibraryProduct* step = steps_.add_steps()->mutable_product();
  *step = product;
  step->set_entry(StrCat(base_, "_product"));
}

void KernelWriter::FillWithMinusOne(int root) {
  Fill(storage_.BufferOf(root), ~uint32_t{0}, graph_.tensors[root].bytes());
}

void KernelWriter::Copy(int tensor, int root) {
  const int from = storage_.BufferOf(tensor), to = storage_.BufferOf(root);
  if (from == to) return;
  v1::Copy* copy = steps_.add_steps()->mutable_copy();
  copy->set_from(from);
  copy->set_to(to);
  copy->set_bytes(graph_.tensors[root].bytes());
}

// Whether what the parameter points to stays as it is while the kernel works, so that the compiler
// may move loads of it over stores. A state may be overwritten through another parameter.
bool KernelWriter::LoadsMayMove(const Parameter& p) const {
  const graph::Role role = graph_.tensors[p.tensor].role;
  return !p.written && (role == graph::Role::kInput || role == graph::Role::kParam ||
                        role == graph::Role::kIntermediate);
}

std::set<int> KernelWriter::OnlyReadBuffers(const std::vector<KernelArgument>& extra) const {
  std::set<int> read, written;
  for (const Parameter& p : parameters_)
    (p.written ? written : read).insert(storage_.BufferOf(p.tensor));
  for (const KernelArgument& argument : extra) {
    const bool only_read =
        argument.map ? argument.only_read : absl::StartsWith(argument.declaration, "const ");
    (only_read ? read : written).insert(argument.map ? argument.map->buffer() : argument.buffer);
  }
  for (const int buffer : written) read.erase(buffer);
  return read;
}

absl::StatusOr<v1::Launch*> KernelWriter::Kernel(const std::string& suffix,
                                                 const KernelShape& shape,
                                                 const std::vector<KernelArgument>& extra,
                                                 const std::string& body) {
  if (shape.grid > kMaxGrid) {
    return absl::InvalidArgumentError(StrCat("group '", root_, "': a grid of ", shape.grid,
                                             " blocks, at most ", kMaxGrid,
                                             "; raise block_threads or unroll"));
  }
  const std::string name = base_ + suffix;
  std::string parameters, given, members, steady;
  for (const Parameter& p : parameters_) {
    const bool there = storage_.BufferOf(p.tensor) >= 0;
    absl::StrAppend(&members, members.empty() ? "" : ", ", there ? p.name : "nullptr");
    if (!there) continue;
    const char* comma = given.empty() ? "" : ", ";
    absl::StrAppend(&steady, comma, p.type, LoadsMayMove(p) ? " __restrict__ " : " ", p.name);
    absl::StrAppend(&parameters, comma, p.type, " ", p.name);
    absl::StrAppend(&given, comma, p.name);
  }
  std::string work = StrCat("  const ", glue_, " g{", members, "};\n  ", body, ";\n");
  if (knobs_.programmatic()) {
    // What the kernel before writes is there and steady once it was waited for, so that to the
    // compiler it is so of parameters that come after that, and not of the kernel's.
    work = StrCat(knobs_.when_ended() ? "" : "  ws::grid_launch_dependents();\n",
                  "  ws::grid_wait();\n  [&](", steady, ") {\n", work, "  }(", given, ");\n");
  } else {
    parameters = steady;
  }
  for (const KernelArgument& argument : extra)
    absl::StrAppend(&parameters, parameters.empty() ? "" : ", ", argument.declaration);
  absl::StrAppend(plan_.mutable_source(), problem::kUnitMark, std::exchange(text_, ""),
                  "extern \"C\" __global__ void __launch_bounds__(", shape.threads,
                  shape.blocks_per_sm > 0 ? StrCat(", ", shape.blocks_per_sm) : "", ") ", name, "(",
                  parameters, ") {\n", work, "}\n");

  const auto& steps = steps_.steps();
  const bool after_launch =
      !steps.empty() && steps.rbegin()->has_launch() && !steps.rbegin()->launch().cooperative();
  if (only_read_ != nullptr) (*only_read_)[steps.size()] = OnlyReadBuffers(extra);
  v1::Launch* launch = steps_.add_steps()->mutable_launch();
  launch->set_entry(name);
  for (int64_t n : {shape.grid, int64_t{1}, int64_t{1}}) launch->add_grid(static_cast<uint32_t>(n));
  for (int n : {shape.threads, 1, 1}) launch->add_block(n);
  if (shape.cluster > 1) {
    for (int n : {shape.cluster, 1, 1}) launch->add_cluster(n);
  }
  launch->set_shared_bytes(static_cast<uint32_t>(shape.shared_bytes));
  launch->set_programmatic(knobs_.programmatic() && after_launch);
  for (const Parameter& p : parameters_) {
    if (const int buffer = storage_.BufferOf(p.tensor); buffer >= 0)
      launch->add_arguments()->set_buffer(buffer);
  }
  for (const KernelArgument& argument : extra) {
    if (argument.map) {
      *launch->add_arguments()->mutable_map() = *argument.map;
    } else {
      launch->add_arguments()->set_buffer(argument.buffer);
    }
  }
  return launch;
}

}  // namespace warpsmith::codegen
