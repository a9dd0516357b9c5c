#include "worker/codegen/group/analysis.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/graph/operations.h"
#include "common/graph/places.h"

namespace warpsmith::codegen {

namespace {

Access AccessOf(const Domain& domain, int tensor, bool write, const Index& index) {
  Access access;
  access.tensor = tensor;
  access.write = write;
  access.index = index;
  access.affine = true;
  access.stride.resize(domain.axes.size());
  for (const Index::Term& term : index.terms()) {
    const bool axis = term.atom->kind == Atom::Kind::kVariable &&
                      term.atom->variable.id < static_cast<int>(domain.axes.size());
    if (axis) access.stride[term.atom->variable.id] = term.coefficient;
    access.affine = access.affine && axis;
  }
  return access;
}

// Adds to each tensor in memory at how many places at the most the expression loads it: as many as
// there are points by the variables that its index has.
void AddPlaces(const graph::ExprPtr& e, const graph::Node& node, const InMemory& in_memory,
               std::map<int, double>& places) {
  if (e->op == graph::Op::kLoad && in_memory(e->tensor)) {
    std::vector<bool> used(node.axes.size() + node.reduce_axes.size());
    for (const graph::ExprPtr& arg : e->args) graph::MarkVariables(*arg, used);
    double points = 1;
    for (size_t v = 0; v < used.size(); ++v) {
      const graph::Axis& axis =
          v < node.axes.size() ? node.axes[v] : node.reduce_axes[v - node.axes.size()];
      if (used[v]) points *= static_cast<double>(axis.extent);
    }
    places[e->tensor] += points;
  }
  for (const graph::ExprPtr& arg : e->args) AddPlaces(arg, node, in_memory, places);
}

Demand DemandOf(const graph::Graph& graph, const std::vector<int>& roots,
                const InMemory& in_memory) {
  Demand demand;
  std::map<int, double> reads;  // tensors: places, at the most
  for (int id : NeededNodes(graph, roots, in_memory)) {
    const graph::Node& node = graph.nodes[id];
    AddPlaces(node.value, node, in_memory, reads);
    const double times =
        static_cast<double>(Product(node.axes)) * static_cast<double>(Product(node.reduce_axes));
    const graph::Operations each = graph::OperationsOf(node.value);
    demand.operations += times * (each.all + (node.map() ? 0 : 1));
    demand.transcendental += times * each.transcendental;
  }
  auto widen = [&](const graph::Tensor& t) {
    if (t.elements() > 1)
      demand.element_bytes = std::max(demand.element_bytes, graph::SizeOf(t.type));
  };
  for (const auto& [tensor, places] : reads) {
    const graph::Tensor& t = graph.tensors[tensor];
    const double part =
        std::min(1.0, places / static_cast<double>(std::max<int64_t>(1, t.elements())));
    demand.bytes_read += std::llround(part * static_cast<double>(t.bytes()));
    demand.reads.push_back(tensor);
    widen(t);
  }
  for (int tensor : roots) {
    demand.bytes_written += graph.tensors[tensor].bytes();
    widen(graph.tensors[tensor]);
  }
  return demand;
}

// What stays as it is is neither read nor written.
void KeepToPlaces(const graph::Graph& graph, const Domain& places, Demand& demand) {
  const auto reduce = [&](int tensor, int64_t& bytes) {
    const graph::Tensor& t = graph.tensors[tensor];
    bytes -= std::max<int64_t>(0, t.elements() - places.kept()) * graph::SizeOf(t.type);
  };
  std::set<int> bases;
  for (const RootPlace& root : places.roots) {
    if (root.base < 0) continue;
    reduce(root.tensor, demand.bytes_written);
    if (bases.insert(root.base).second) reduce(root.base, demand.bytes_read);
  }
}

bool AreConstant(const graph::Graph& graph, const std::vector<int>& roots) {
  if (!graph.constant_params) return false;
  const std::vector<bool> constant = graph::ConstantTensors(graph);
  return std::all_of(roots.begin(), roots.end(), [&](int root) { return constant[root]; });
}

}  // namespace

Analysis::Analysis(const graph::Graph& graph, std::vector<int> roots, std::set<int> in_memory)
    : graph_(graph),
      roots_(std::move(roots)),
      memory_(std::move(in_memory)),
      in_memory_([this](int tensor) { return memory_.count(tensor) > 0; }),
      largest_reduce_(LargestReduce(graph_, roots_, in_memory_)),
      constant_(AreConstant(graph_, roots_)),
      demand_(DemandOf(graph_, roots_, in_memory_)) {
  if (places().ok()) KeepToPlaces(graph_, *places(), demand_);
}

const absl::StatusOr<Domain>& Analysis::elements() const {
  if (elements_ == nullptr)
    elements_ = std::make_unique<absl::StatusOr<Domain>>(ElementsOf(graph_, roots_, in_memory_));
  return *elements_;
}

const absl::StatusOr<Domain>& Analysis::places() const {
  if (places_ == nullptr)
    places_ = std::make_unique<absl::StatusOr<Domain>>(PlacesOf(graph_, roots_, in_memory_));
  return *places_;
}

const absl::StatusOr<Domain>& Analysis::stages() const {
  if (stages_ == nullptr)
    stages_ = std::make_unique<absl::StatusOr<Domain>>(StagesOf(graph_, roots_, in_memory_));
  return *stages_;
}

const absl::StatusOr<Domain>& Analysis::online() const {
  if (online_ == nullptr) {
    absl::StatusOr<Domain> domain = stages();
    if (domain.ok() && domain->online.empty()) {
      domain = absl::InvalidArgumentError(
          "online needs a maximum and the sum of exp(x - maximum) over the same elements");
    } else if (domain.ok()) {
      MakeOnline(graph_, in_memory_, *domain);
    }
    online_ = std::make_unique<absl::StatusOr<Domain>>(std::move(domain));
  }
  return *online_;
}

const absl::StatusOr<Domain>& Analysis::scan() const {
  if (scan_ == nullptr)
    scan_ = std::make_unique<absl::StatusOr<Domain>>(ScanOf(graph_, roots_, in_memory_));
  return *scan_;
}

const absl::StatusOr<Kernel>& Analysis::PointsOf(const Domain& domain) const {
  auto known = points_.find(&domain);
  if (known != points_.end()) return known->second;
  auto kernel = BuildKernel(graph_, domain, in_memory_,
                            [&](Values& values) { return PointFrame(domain, values); });
  return points_.emplace(&domain, std::move(kernel)).first->second;
}

const std::vector<Access>& Analysis::AccessesOf(const Domain& domain) const {
  auto known = accesses_.find(&domain);
  if (known != accesses_.end()) return known->second;
  std::vector<Access>& accesses = accesses_[&domain];
  const absl::StatusOr<Kernel>& kernel = PointsOf(domain);
  if (!kernel.ok()) return accesses;  // a domain was built from its kernel: it is
  uint64_t axes = 0;
  for (const DomainAxis& axis : domain.axes) axes |= BitOf(axis.variable);
  for (ValuePtr load : LoadsOf(*kernel)) {
    accesses.push_back(AccessOf(domain, load->tensor, false, load->index));
    accesses.back().guarded = !load->args.empty();
    accesses.back().in_loop = (load->variables & ~axes) != 0;
  }
  for (const Kernel::Root& root : kernel->roots)
    accesses.push_back(AccessOf(domain, root.tensor, true, root.address));
  return accesses;
}

absl::Status OfGroup(const Analysis& group, const absl::Status& status) {
  if (status.ok() || absl::StartsWith(status.message(), "group '")) return status;
  return absl::Status(status.code(),
                      absl::StrCat("group '", group.name(), "': ", status.message()));
}

std::set<std::pair<int, int>> ReadsWhereItWrites(const Analysis& group, const Domain& domain,
                                                 bool reads_first) {
  const graph::Graph& graph = group.graph();
  std::set<std::pair<int, int>> pairs;
  const absl::StatusOr<Kernel>& kernel = group.PointsOf(domain);
  if (!kernel.ok()) return pairs;
  auto needs = [&](ValuePtr value, ValuePtr load) {
    const std::vector<ValuePtr> all = kernel->values->Closure({value});
    return std::find(all.begin(), all.end(), load) != all.end();
  };
  const std::vector<ValuePtr> loads = LoadsOf(*kernel);
  const auto is_read = [&](int tensor) {
    return std::any_of(loads.begin(), loads.end(),
                       [&](ValuePtr load) { return load->tensor == tensor; });
  };
  for (const RootPlace& root : domain.roots) {
    if (root.base >= 0 && !is_read(root.base)) pairs.insert({root.base, root.tensor});
  }
  for (const Kernel::Root& root : kernel->roots) {
    for (ValuePtr load : loads) {
      if (graph.tensors[load->tensor].role != graph::Role::kState) continue;
      bool same = true;
      for (ValuePtr other : loads) {
        if (other->tensor == load->tensor)
          same = same && other->index == root.address && other->stage < 0;
      }
      // Read by nobody else: other threads may do that, or this one after it has written.
      for (const Kernel::Root& other : kernel->roots)
        same = same && (&other == &root || (reads_first && other.address == root.address) ||
                        !(needs(other.value, load) ||
                          (other.condition != nullptr && needs(other.condition, load))));
      for (const Kernel::Reduce& reduce : kernel->reduces)
        same = same && (reads_first || !needs(reduce.value, load));
      for (const Kernel::Reduce& total : kernel->totals) same = same && !needs(total.value, load);
      if (same) pairs.insert({load->tensor, root.tensor});
    }
  }
  return pairs;
}

}  // namespace warpsmith::codegen
