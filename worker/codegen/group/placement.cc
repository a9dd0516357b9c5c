#include "worker/codegen/group/placement.h"

#include "absl/strings/str_cat.h"
#include "worker/codegen/group/axes.h"
#include "worker/codegen/group/bijection.h"
#include "worker/codegen/group/trace.h"
#include "worker/codegen/group/values.h"

namespace warpsmith::codegen {

using absl::StrCat;
using graph::Node;

namespace {

// A coordinate that is an axis variable itself: its number, else -1. `first`: id of axis 0.
int PlainAxis(const Index& index, int axes) {
  if (index.terms().size() != 1 || index.constant() != 0) return -1;
  const Index::Term& term = index.terms()[0];
  if (term.coefficient != 1 || term.atom->kind != Atom::Kind::kVariable) return -1;
  return term.atom->variable.id < axes ? term.atom->variable.id : -1;
}

// The points of the domain that a root has elements for, in orders that a root may be stored in.
std::vector<std::vector<Index>> LinearOrders(const Domain& domain, bool row,
                                             const std::vector<int64_t>& shape) {
  std::vector<std::vector<Index>> orders;
  auto offer = [&](const std::vector<const DomainAxis*>& axes) {
    std::vector<Index> at;
    std::vector<int64_t> extents;
    for (const DomainAxis* axis : axes) {
      at.push_back(Index::Of(axis->variable));
      extents.push_back(axis->extent());
    }
    orders.push_back(Unflatten(Flatten(at, extents), shape));
  };
  std::vector<const DomainAxis*> kept, reduced, outer, inner;
  const std::vector<bool> is_inner = InnerAxes(domain);
  for (size_t a = 0; a < domain.axes.size(); ++a) {
    const DomainAxis* axis = &domain.axes[a];
    if (axis->role == Role::kReduced) {
      reduced.push_back(axis);
    } else {
      kept.push_back(axis);
      (is_inner[a] ? inner : outer).push_back(axis);
    }
  }
  if (row) {
    offer(kept);
    return orders;
  }
  std::vector<const DomainAxis*> all = outer;  // as a reduce over outer axes has it
  all.insert(all.end(), reduced.begin(), reduced.end());
  all.insert(all.end(), inner.begin(), inner.end());
  std::vector<const DomainAxis*> last = kept;
  last.insert(last.end(), reduced.begin(), reduced.end());
  if (!inner.empty()) offer(all);
  offer(last);
  return orders;
}

// Where a root's coordinates lie if each is an axis of a stage, or else a part of the position
// among the reduced axes.
struct AxisSource {
  const StageNode* stage = nullptr;
  int axis = 0;
};

class Placer {
 public:
  Placer(const graph::Graph& graph, const InMemory& in_memory, const std::set<int>& stage_nodes,
         const Domain& domain)
      : graph_(graph), in_memory_(in_memory), stage_nodes_(stage_nodes), domain_(domain) {}

  // The ways in which a root may lie in the domain, the most telling first.
  std::vector<std::vector<Index>> Candidates(int tensor, bool row) {
    shape_ = graph_.tensors[tensor].shape;
    row_ = row;
    found_.clear();
    const Node& node = graph_.nodes[graph_.tensors[tensor].node];
    if (const StageNode* own = domain_.Find(graph_.tensors[tensor].node)) {  // a stage's own result
      found_.push_back(std::vector<Index>(own->at.begin(), own->at.begin() + node.axes.size()));
      return found_;
    }
    if (node.map()) ByItsReads(node);
    for (const StageNode& stage : domain_.nodes) ByItsReader(tensor, stage);
    for (auto& order : LinearOrders(domain_, row, shape_)) found_.push_back(order);
    return found_;
  }

 private:
  // It reads stages' results: its coordinates are theirs.
  void ByItsReads(const Node& node) {
    Traced traced;
    Trace(graph_, in_memory_, stage_nodes_, node, traced);
    std::vector<AxisSource> axes(shape_.size());
    bool plain = !traced.stage_reads.empty();
    for (const auto& [stage, at] : traced.stage_reads) {
      const StageNode* producer = domain_.Find(graph_.tensors[stage].node);
      for (size_t a = 0; a < at.size(); ++a) {
        if (graph_.tensors[stage].shape[a] == 1) continue;
        const int axis = PlainAxis(at[a], static_cast<int>(shape_.size()));
        if (axis < 0) {
          plain = false;
        } else if (axes[axis].stage == nullptr) {
          axes[axis] = {producer, static_cast<int>(a)};
        }
      }
    }
    if (plain) Offer(axes);
  }

  // Read by a stage at its own axes: it lies where the stage reads it.
  void ByItsReader(int tensor, const StageNode& stage) {
    const Node& reader = graph_.nodes[stage.node];
    Traced traced;
    Trace(graph_, in_memory_, stage_nodes_, reader, traced);
    auto found = traced.inlined.find(tensor);
    if (found == traced.inlined.end()) return;
    std::vector<Index> at;
    for (size_t a = 0; a < shape_.size(); ++a) {
      const int axis =
          shape_[a] == 1
              ? -1
              : PlainAxis(found->second[a],
                          static_cast<int>(reader.axes.size() + reader.reduce_axes.size()));
      if (shape_[a] > 1 && axis < 0) return;
      at.push_back(shape_[a] == 1 ? Index(0) : stage.at[axis]);
    }
    found_.push_back(at);
  }

  // Coordinates of stages, and the position among the reduced axes in the order of the others.
  void Offer(const std::vector<AxisSource>& axes) {
    std::vector<int64_t> rest;
    for (size_t a = 0; a < axes.size(); ++a) {
      if (axes[a].stage == nullptr) rest.push_back(shape_[a]);
    }
    if (Product(rest) != (row_ ? 1 : domain_.reduced())) return;
    const std::vector<Index> position =
        row_ ? std::vector<Index>(rest.size(), Index(0)) : Along(domain_, Role::kReduced, rest);
    std::vector<Index> at;
    size_t next = 0;
    for (const AxisSource& source : axes) {
      at.push_back(source.stage == nullptr ? position[next++] : source.stage->at[source.axis]);
    }
    found_.push_back(at);
  }

  const graph::Graph& graph_;
  const InMemory& in_memory_;
  const std::set<int>& stage_nodes_;
  const Domain& domain_;
  std::vector<int64_t> shape_;
  bool row_ = false;
  std::vector<std::vector<Index>> found_;
};

}  // namespace

absl::Status PlaceRoots(const graph::Graph& graph, const InMemory& in_memory,
                        const std::set<int>& stage_nodes, const std::vector<int>& roots,
                        Domain& domain) {
  Placer placer(graph, in_memory, stage_nodes, domain);
  std::vector<DomainAxis> kept;
  for (const DomainAxis& axis : domain.axes) {
    if (axis.role == Role::kKept) kept.push_back(axis);
  }
  std::vector<RootPlace> places;
  for (int tensor : roots) {
    const graph::Tensor& t = graph.tensors[tensor];
    const bool row = t.elements() == domain.kept();
    if (!row && t.elements() != domain.kept() * domain.reduced()) {
      return absl::InvalidArgumentError(StrCat("root ", TensorName(graph, tensor), " has ",
                                               t.elements(), " elements, but its group works on ",
                                               domain.kept(), " rows of ", domain.reduced(),
                                               "; give it a group of its own"));
    }
    absl::Status why = absl::InvalidArgumentError(
        StrCat("root ", TensorName(graph, tensor),
               " does not lie along the rows of its group; give it a group of its own"));
    bool placed = false;
    for (const std::vector<Index>& at : placer.Candidates(tensor, row)) {
      if (!IsBijection(at, t.shape, row ? kept : domain.axes)) continue;
      Domain trial = domain;
      trial.roots = {{tensor, row, at}};
      auto built = BuildKernel(graph, trial, in_memory,
                               [&](Values& values) { return PointFrame(domain, values); });
      if (built.ok()) {
        places.push_back(trial.roots[0]);
        placed = true;
        break;
      }
      why = built.status();
    }
    if (!placed) return why;
  }
  domain.roots = places;
  return absl::OkStatus();
}

}  // namespace warpsmith::codegen
