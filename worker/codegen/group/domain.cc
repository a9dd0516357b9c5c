#include "worker/codegen/group/domain.h"

#include <algorithm>
#include <optional>
#include <set>

#include "absl/strings/str_cat.h"
#include "worker/codegen/group/values.h"

namespace warpsmith::codegen {

using absl::StrCat;
using graph::DType;
using graph::Node;

namespace {

std::string NameOf(const graph::Graph& graph, int tensor) {
  return StrCat("'", graph.tensors[tensor].name, "'");
}

// A coordinate that is an axis variable itself: its number, else -1. `first`: id of axis 0.
int PlainAxis(const Index& index, int axes) {
  if (index.terms().size() != 1 || index.constant() != 0) return -1;
  const Index::Term& term = index.terms()[0];
  if (term.coefficient != 1 || term.atom->kind != Atom::Kind::kVariable) return -1;
  return term.atom->variable.id < axes ? term.atom->variable.id : -1;
}

// A node's expression over plain axis variables (ids 0, 1, ...: axes, then reduce axes), and what
// it read on the way.
struct Traced {
  Values values;
  std::vector<Index> env;
  ValuePtr value = nullptr;
  absl::Status status;
  std::vector<std::pair<int, std::vector<Index>>> stage_reads;  // tensor, coordinates
  std::map<int, std::vector<Index>> inlined;                    // tensor, first coordinates
};

void Trace(const graph::Graph& graph, const InMemory& in_memory, const std::set<int>& stage_nodes,
           const Node& node, Traced& traced) {
  std::vector<graph::Axis> axes = node.axes;
  axes.insert(axes.end(), node.reduce_axes.begin(), node.reduce_axes.end());
  for (const graph::Axis& axis : axes) {
    traced.env.push_back(Index::Of(traced.values.NewVariable(axis.name, {0, axis.extent - 1})));
  }
  TensorAccess access;
  access.in_memory = in_memory;
  access.observe = [&](int tensor, const std::vector<Index>& at) {
    traced.inlined.emplace(tensor, at);
  };
  access.stage = [&](int tensor, const std::vector<Index>& at) -> absl::StatusOr<ValuePtr> {
    const int producer = graph.tensors[tensor].node;
    if (stage_nodes.count(producer) == 0) return nullptr;
    traced.stage_reads.push_back({tensor, at});
    return traced.values.Result(producer, graph.nodes[producer].outputs[0] == tensor ? 0 : 1, 0,
                                graph.tensors[tensor].type, 0);
  };
  Inliner inliner(graph, traced.values, access);
  auto value = inliner.Body(node, traced.env);
  traced.status = value.status();
  if (value.ok()) traced.value = *value;
}

// How a reduce reads memory along its own axes, then its reduce axes.
struct Reading {
  bool known = false, guarded = false, overlapping = false;
  std::vector<int64_t> stride;  // of the main load; 0: none
};

// The load that runs along most of the reduced axes.
void FindMainLoad(const Node& node, const Traced& traced, const graph::Graph& graph,
                  const std::vector<graph::Axis>& axes, Reading& reading) {
  int64_t best = -1;
  for (ValuePtr value : traced.values.Closure({traced.value})) {
    if (value->kind != Value::Kind::kLoad) continue;
    std::vector<int64_t> stride(axes.size());
    int64_t reduced = 0, seen = 0;
    for (size_t a = 0; a < axes.size(); ++a) {
      if (traced.env[a].is_constant()) continue;
      stride[a] = value->index.CoefficientOf(traced.env[a].terms()[0].atom->variable);
      if (stride[a] == 0) continue;
      ++seen;
      if (a >= node.axes.size()) ++reduced;
    }
    const int64_t score = reduced * 1000 + seen * 10 + (value->args.empty() ? 1 : 0);
    const int64_t elements = graph.tensors[value->tensor].elements();
    if (reduced > 0 && (score > best || (score == best && elements > 0 && !reading.known))) {
      best = score;
      reading.stride = stride;
      reading.guarded = !value->args.empty();
      reading.known = true;
    }
  }
}

Reading ReadingOf(const Node& node, const Traced& traced, const graph::Graph& graph) {
  Reading reading;
  if (traced.value == nullptr) return reading;
  std::vector<graph::Axis> axes = node.axes;
  axes.insert(axes.end(), node.reduce_axes.begin(), node.reduce_axes.end());
  FindMainLoad(node, traced, graph, axes, reading);
  if (!reading.known) return reading;
  // Windows overlap where strides are not those of a mixed radix.
  std::vector<std::pair<int64_t, int64_t>> digits;  // stride, extent
  for (size_t a = 0; a < axes.size(); ++a) {
    if (reading.stride[a] != 0 && axes[a].extent > 1)
      digits.push_back({std::abs(reading.stride[a]), axes[a].extent});
  }
  std::sort(digits.begin(), digits.end());
  for (size_t d = 0; d + 1 < digits.size(); ++d) {
    if (digits[d + 1].first < digits[d].first * (digits[d].second - 1) + 1)
      reading.overlapping = true;
  }
  return reading;
}

// A node's reduce axes, outermost in memory first.
std::vector<int> ReduceOrder(const Node& node, const Reading& reading) {
  std::vector<int> order;
  for (size_t a = 0; a < node.reduce_axes.size(); ++a) order.push_back(static_cast<int>(a));
  if (reading.known) {
    const size_t kept = node.axes.size();
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
      return std::abs(reading.stride[kept + a]) > std::abs(reading.stride[kept + b]);
    });
  }
  return order;
}

void AddAxis(const graph::Axis& axis, Role role, int64_t stride, Domain& domain) {
  if (axis.extent == 1) return;
  DomainAxis added;
  added.variable.id = static_cast<int>(domain.axes.size());
  added.variable.name = StrCat("a", domain.axes.size());
  added.variable.range = {0, axis.extent - 1};
  added.role = role;
  domain.axes.push_back(added);
  domain.pattern.stride.push_back(stride);
}

// The axes of one role as indexes.
std::vector<Index> AxesOf(const Domain& domain, Role role) {
  std::vector<Index> axes;
  for (const DomainAxis& axis : domain.axes) {
    if (axis.role == role) axes.push_back(Index::Of(axis.variable));
  }
  return axes;
}

// Axes of these extents along those of a role: one for one, extents of 1 aside, or else the same
// points in row-major order.
std::vector<Index> Along(const Domain& domain, Role role, const std::vector<int64_t>& extents) {
  const std::vector<Index> axes = AxesOf(domain, role);
  const std::vector<int64_t> own = domain.Extents(role);
  std::vector<int64_t> plain;
  for (int64_t extent : extents) {
    if (extent > 1) plain.push_back(extent);
  }
  if (plain != own) return Unflatten(Flatten(axes, own), extents);
  std::vector<Index> at;
  size_t next = 0;
  for (int64_t extent : extents) at.push_back(extent == 1 ? Index(0) : axes[next++]);
  return at;
}

StageNode PlaceNode(const graph::Graph& graph, const Domain& domain, int id,
                    const Reading& reading) {
  const Node& node = graph.nodes[id];
  StageNode stage;
  stage.node = id;
  stage.at = Along(domain, Role::kKept, ExtentsOf(node.axes));
  const std::vector<int> order = ReduceOrder(node, reading);
  std::vector<int64_t> ordered;
  for (int axis : order) ordered.push_back(node.reduce_axes[axis].extent);
  const std::vector<Index> position = Along(domain, Role::kReduced, ordered);
  const size_t kept = stage.at.size();
  stage.at.resize(kept + order.size());
  for (size_t a = 0; a < order.size(); ++a) stage.at[kept + order[a]] = position[a];
  return stage;
}

// Stages by dependency: one more than the latest stage that a reduce reads.
void NumberStages(const graph::Graph& graph, const InMemory& in_memory, Domain& domain) {
  std::map<int, int> last;  // node -> last stage it depends on, -1
  std::function<int(int)> visit = [&](int id) -> int {
    auto found = last.find(id);
    if (found != last.end()) return found->second;
    int stage = -1;
    auto joined = domain.online.find(id);
    if (domain.online_used && joined != domain.online.end()) {
      // Of the stage of its maximum, which reads all that the sum reads beside it.
      stage = visit(joined->second) - 1;
    } else {
      for (int tensor : graph::LoadedTensors(graph.nodes[id].value)) {
        if (!in_memory(tensor)) stage = std::max(stage, visit(graph.tensors[tensor].node));
      }
    }
    for (StageNode& node : domain.nodes) {
      if (node.node != id) continue;
      node.stage = ++stage;
    }
    return last[id] = stage;
  };
  domain.stages = 0;
  for (StageNode& node : domain.nodes) {
    visit(node.node);
    domain.stages = std::max(domain.stages, node.stage + 1);
  }
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
      return absl::InvalidArgumentError(StrCat("root ", NameOf(graph, tensor), " has ",
                                               t.elements(), " elements, but its group works on ",
                                               domain.kept(), " rows of ", domain.reduced(),
                                               "; give it a group of its own"));
    }
    absl::Status why = absl::InvalidArgumentError(
        StrCat("root ", NameOf(graph, tensor),
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

// Roots of a scan's group lie where the scan does: the same axes but for some of extent 1, or the
// same place in row-major order.
absl::Status PlaceBesideScan(const graph::Graph& graph, const InMemory& in_memory, const Node& scan,
                             const std::vector<int>& roots, Domain& domain) {
  const std::vector<Index> at = domain.nodes[0].at;
  const std::vector<int64_t> extents = ExtentsOf(scan.axes);
  const auto plain = [](const std::vector<int64_t>& shape) {
    std::vector<int64_t> more;
    std::copy_if(shape.begin(), shape.end(), std::back_inserter(more),
                 [](int64_t extent) { return extent > 1; });
    return more;
  };
  for (int tensor : roots) {
    const graph::Tensor& t = graph.tensors[tensor];
    if (t.elements() != Product(extents)) {
      return absl::InvalidArgumentError(StrCat(
          "root ", NameOf(graph, tensor), " has ", t.elements(), " elements, the scan ",
          NameOf(graph, scan.outputs[0]), " ", Product(extents), "; give it a group of its own"));
    }
    std::vector<Index> place;
    if (plain(t.shape) == plain(extents)) {
      size_t next = 0;
      for (int64_t extent : t.shape) {
        while (extent > 1 && extents[next] == 1) ++next;
        place.push_back(extent == 1 ? Index(0) : at[next++]);
      }
    } else {
      place = Unflatten(Flatten(at, extents), t.shape);
    }
    if (!IsBijection(place, t.shape, domain.axes)) {
      return absl::InvalidArgumentError(StrCat("root ", NameOf(graph, tensor),
                                               " does not lie along the scan of its group; give it "
                                               "a group of its own"));
    }
    domain.roots.push_back({tensor, false, place});
  }
  return BuildKernel(graph, domain, in_memory,
                     [&](Values& values) { return PointFrame(domain, values); })
      .status();
}

// Pairs of a maximum and the sum of exp(the same - that maximum); a maximum is in one pair.
void FindOnline(const Kernel& kernel, Domain& domain) {
  std::set<int> taken;
  for (const Kernel::Reduce& sum : kernel.reduces) {
    const ValuePtr v = sum.value;
    if (v->kind != Value::Kind::kOp || v->op != graph::Op::kExp ||
        (v->type != DType::kF32 && v->type != DType::kF64))
      continue;
    const ValuePtr d = v->args[0];
    if (d->kind != Value::Kind::kOp || d->op != graph::Op::kSub ||
        d->args[1]->kind != Value::Kind::kResult)
      continue;
    for (const Kernel::Reduce& max : kernel.reduces) {
      if (max.node == d->args[1]->node && max.value == d->args[0] && sum.stage == max.stage + 1 &&
          taken.insert(max.node).second) {
        domain.online[sum.node] = max.node;
      }
    }
  }
}

// A digit of an axis: (v / low) % (high / low).
struct Digit {
  int axis = -1;
  int64_t low = 1, high = 1;
};

std::optional<Digit> DigitOf(const Atom& atom) {
  if (atom.kind == Atom::Kind::kVariable)
    return Digit{atom.variable.id, 1, atom.variable.range.high + 1};
  if (atom.kind == Atom::Kind::kOpaque) return std::nullopt;
  const Index& inner = *atom.inner;
  if (inner.terms().size() != 1 || inner.constant() != 0 || inner.terms()[0].coefficient != 1)
    return std::nullopt;
  auto digit = DigitOf(*inner.terms()[0].atom);
  if (!digit.has_value() || digit->high / digit->low % atom.divisor != 0) return std::nullopt;
  if (atom.kind == Atom::Kind::kDiv) {
    digit->low *= atom.divisor;
  } else {
    digit->high = digit->low * atom.divisor;
  }
  return digit;
}

// The domain of elements whose axes have these extents.
Domain ElementsAlong(const graph::Graph& graph, const std::vector<int>& roots,
                     const std::vector<int64_t>& extents) {
  Domain domain;
  for (int64_t extent : extents) AddAxis({"", extent}, Role::kKept, 0, domain);
  const Index linear = Flatten(AxesOf(domain, Role::kKept), domain.Extents(Role::kKept));
  for (int tensor : roots)
    domain.roots.push_back({tensor, false, Unflatten(linear, graph.tensors[tensor].shape)});
  return domain;
}

// Extents of the axes cut where loads divide them (a pixel shuffle reads h / 2 and h % 2), so that
// what is read is affine. Axes whose cuts do not divide each other stay whole.
std::vector<int64_t> DigitsOf(const Domain& domain, const Kernel& points) {
  std::map<int, std::set<int64_t>> cuts;
  std::function<void(const Index&)> look = [&](const Index& index) {
    for (const Index::Term& term : index.terms()) {
      if (term.atom->kind != Atom::Kind::kDiv && term.atom->kind != Atom::Kind::kMod) continue;
      if (const auto digit = DigitOf(*term.atom); digit.has_value()) {
        cuts[digit->axis].insert({digit->low, digit->high});
      } else {
        look(*term.atom->inner);
      }
    }
  };
  for (ValuePtr value : points.values->Closure(TargetsOf(points))) {
    if (value->kind == Value::Kind::kLoad) look(value->index);
  }
  std::vector<int64_t> extents;
  for (const DomainAxis& axis : domain.axes) {
    std::set<int64_t> places = cuts[axis.variable.id];
    places.insert({1, axis.extent()});
    std::vector<int64_t> parts;  // the fastest first
    int64_t last = 1;
    bool divides = *places.rbegin() == axis.extent();
    for (int64_t place : places) {
      divides = divides && place % last == 0;
      if (place > last) parts.push_back(place / last);
      last = place;
    }
    if (!divides) parts = {axis.extent()};
    extents.insert(extents.end(), parts.rbegin(), parts.rend());
  }
  return extents;
}

// The digits of which positions are sums, and how far apart neighbours of each lie.
class Places {
 public:
  void Add(const Index& index, int64_t stride) {
    known_ = known_ && index.constant() == 0;
    for (const Index::Term& term : index.terms()) {
      const auto digit = DigitOf(*term.atom);
      known_ = known_ && digit.has_value() && term.coefficient > 0;
      if (!known_) return;
      of_axis_[digit->axis].push_back(*digit);
      places_.push_back({term.coefficient * stride, digit->high / digit->low});
    }
  }

  // Every axis once: its digits follow each other from 1 to its extent. Every element once: places
  // follow each other from 1 to the number of elements.
  bool Cover(const std::vector<DomainAxis>& over, int64_t elements) {
    if (!known_) return false;
    size_t used = 0;
    for (const DomainAxis& axis : over) {
      int64_t next = 1;
      std::vector<Digit>& digits = of_axis_[axis.variable.id];
      std::sort(digits.begin(), digits.end(),
                [](const Digit& a, const Digit& b) { return a.low < b.low; });
      for (const Digit& digit : digits) {
        if (digit.low != next) return false;
        next = digit.high;
      }
      if (next != axis.extent()) return false;
      used += digits.size();
    }
    if (used != places_.size()) return false;
    std::sort(places_.begin(), places_.end());
    int64_t next = 1;
    for (const auto& [place, extent] : places_) {
      if (place != next) return false;
      next *= extent;
    }
    return next == elements;
  }

 private:
  bool known_ = true;
  std::map<int, std::vector<Digit>> of_axis_;
  std::vector<std::pair<int64_t, int64_t>> places_;  // how far apart, how many
};

}  // namespace

int64_t Product(const std::vector<graph::Axis>& axes) { return Product(ExtentsOf(axes)); }

int64_t Product(const std::vector<int64_t>& extents) {
  int64_t n = 1;
  for (int64_t extent : extents) n *= extent;
  return n;
}

std::vector<int64_t> ExtentsOf(const std::vector<graph::Axis>& axes) {
  std::vector<int64_t> extents;
  for (const graph::Axis& axis : axes) extents.push_back(axis.extent);
  return extents;
}

const StageNode* Domain::Find(int node) const {
  for (const StageNode& stage : nodes) {
    if (stage.node == node) return &stage;
  }
  return nullptr;
}

std::vector<int64_t> Domain::Extents(Role role) const {
  std::vector<int64_t> extents;
  for (const DomainAxis& axis : axes) {
    if (axis.role == role) extents.push_back(axis.extent());
  }
  return extents;
}

int64_t Domain::Points(Role role) const { return Product(Extents(role)); }

bool IsBijection(const std::vector<Index>& at, const std::vector<int64_t>& shape,
                 const std::vector<DomainAxis>& over) {
  int64_t stride = 1;
  Places apart;  // as the coordinates spell it, and as the position does: either may be plainer
  for (int a = static_cast<int>(at.size()) - 1; a >= 0; --a) {
    if (!at[a].range().Within(0, shape[a] - 1)) return false;
    apart.Add(at[a], stride);
    stride *= shape[a];
  }
  Places together;
  together.Add(Flatten(at, shape), 1);
  return apart.Cover(over, Product(shape)) || together.Cover(over, Product(shape));
}

std::vector<bool> InnerAxes(const Domain& domain) {
  std::vector<bool> inner(domain.axes.size());
  int64_t run = 1;
  for (bool grown = true; grown && domain.pattern.known;) {
    grown = false;
    for (int a = static_cast<int>(domain.axes.size()) - 1; a >= 0; --a) {
      const DomainAxis& axis = domain.axes[a];
      if (axis.role == Role::kKept && !inner[a] && domain.pattern.stride[a] == run) {
        inner[a] = true;
        run *= axis.extent();
        grown = true;
        break;
      }
    }
  }
  return inner;
}

int64_t ReducedRun(const Domain& domain) {
  int64_t run = 1;
  bool any = false;
  for (bool grown = domain.pattern.known; grown;) {
    grown = false;
    for (size_t a = 0; a < domain.axes.size(); ++a) {
      if (domain.axes[a].role == Role::kReduced && domain.pattern.stride[a] == run) {
        run *= domain.axes[a].extent();
        grown = any = true;
        break;
      }
    }
  }
  return any ? run : 0;
}

std::vector<int> NeededNodes(const graph::Graph& graph, const std::vector<int>& roots,
                             const InMemory& in_memory) {
  std::set<int> nodes;
  std::vector<int> work;
  for (int root : roots) {
    if (graph.tensors[root].node >= 0) work.push_back(graph.tensors[root].node);
  }
  while (!work.empty()) {
    const int id = work.back();
    work.pop_back();
    if (!nodes.insert(id).second) continue;
    for (int tensor : graph::LoadedTensors(graph.nodes[id].value)) {
      if (!in_memory(tensor)) work.push_back(graph.tensors[tensor].node);
    }
  }
  return {nodes.begin(), nodes.end()};
}

int LargestReduce(const graph::Graph& graph, const std::vector<int>& roots,
                  const InMemory& in_memory) {
  int largest = -1;
  int64_t most = 0;
  for (int id : NeededNodes(graph, roots, in_memory)) {
    const Node& node = graph.nodes[id];
    if (!node.reduce) continue;
    const int64_t size = Product(node.axes) * Product(node.reduce_axes);
    if (size <= most) continue;
    most = size;
    largest = id;
  }
  return largest;
}

absl::StatusOr<Domain> ElementsOf(const graph::Graph& graph, const std::vector<int>& roots,
                                  const InMemory& in_memory) {
  for (int tensor : roots) {
    const graph::Tensor &t = graph.tensors[tensor], &first = graph.tensors[roots[0]];
    if (t.elements() == first.elements()) continue;
    return absl::InvalidArgumentError(StrCat(
        "roots ", NameOf(graph, roots[0]), " and ", NameOf(graph, tensor), " of a map group have ",
        first.elements(), " and ", t.elements(), " elements; they must have the same number"));
  }
  Domain domain = ElementsAlong(graph, roots, graph.tensors[roots[0]].shape);
  auto built = BuildKernel(graph, domain, in_memory,
                           [&](Values& values) { return PointFrame(domain, values); });
  if (!built.ok()) return built.status();
  const std::vector<int64_t> digits = DigitsOf(domain, *built);
  if (digits.size() > domain.axes.size() && digits.size() <= graph::kMaxRank)
    return ElementsAlong(graph, roots, digits);
  return domain;
}

absl::StatusOr<Domain> StagesOf(const graph::Graph& graph, const std::vector<int>& roots,
                                const InMemory& in_memory) {
  Domain domain;
  domain.primary = LargestReduce(graph, roots, in_memory);
  if (domain.primary < 0) return absl::InvalidArgumentError("it has no reduce");
  const Node& primary = graph.nodes[domain.primary];
  const int64_t rows = Product(primary.axes), elements = Product(primary.reduce_axes);
  std::set<int> stage_nodes;
  for (int id : NeededNodes(graph, roots, in_memory)) {
    const Node& node = graph.nodes[id];
    if (node.reduce && Product(node.axes) == rows && Product(node.reduce_axes) == elements)
      stage_nodes.insert(id);
  }
  Traced traced;
  Trace(graph, in_memory, stage_nodes, primary, traced);
  if (!traced.status.ok()) return traced.status;
  Reading reading = ReadingOf(primary, traced, graph);
  const std::vector<int> order = ReduceOrder(primary, reading);
  reading.stride.resize(primary.axes.size() + primary.reduce_axes.size());
  for (size_t a = 0; a < primary.axes.size(); ++a)
    AddAxis(primary.axes[a], Role::kKept, reading.stride[a], domain);
  for (int a : order) {
    AddAxis(primary.reduce_axes[a], Role::kReduced, reading.stride[primary.axes.size() + a],
            domain);
  }
  domain.pattern.known = reading.known;
  domain.pattern.guarded = reading.guarded;
  domain.pattern.overlapping = reading.overlapping;
  for (int id : stage_nodes) {
    Traced own;
    Trace(graph, in_memory, stage_nodes, graph.nodes[id], own);
    if (!own.status.ok()) return own.status;
    domain.nodes.push_back(PlaceNode(graph, domain, id, ReadingOf(graph.nodes[id], own, graph)));
  }
  NumberStages(graph, in_memory, domain);
  if (absl::Status s = PlaceRoots(graph, in_memory, stage_nodes, roots, domain); !s.ok()) return s;
  auto built = BuildKernel(graph, domain, in_memory,
                           [&](Values& values) { return PointFrame(domain, values); });
  if (!built.ok()) return built.status();
  FindOnline(*built, domain);
  return domain;
}

absl::StatusOr<Domain> ScanOf(const graph::Graph& graph, const std::vector<int>& roots,
                              const InMemory& in_memory) {
  Domain domain;
  const std::vector<int> needed = NeededNodes(graph, roots, in_memory);
  for (int id : needed) {
    if (graph.nodes[id].scan) domain.primary = id;
  }
  if (domain.primary < 0) return absl::InvalidArgumentError("it has no scan");
  const Node& scan = graph.nodes[domain.primary];
  for (int id : needed) {
    if (graph.nodes[id].map() || id == domain.primary) continue;
    return absl::InvalidArgumentError(StrCat(NameOf(graph, graph.nodes[id].outputs[0]),
                                             " and the scan ", NameOf(graph, scan.outputs[0]),
                                             " need groups of their own"));
  }
  StageNode node;
  node.node = domain.primary;
  const int axis = scan.scan->axis;
  for (int a = 0; a < static_cast<int>(scan.axes.size()); ++a) {
    if (a != axis) AddAxis(scan.axes[a], Role::kKept, 0, domain);
  }
  AddAxis(scan.axes[axis], Role::kCarried, 0, domain);
  std::vector<int64_t> kept;
  for (int a = 0; a < static_cast<int>(scan.axes.size()); ++a) {
    if (a != axis) kept.push_back(scan.axes[a].extent);
  }
  node.at = Along(domain, Role::kKept, kept);
  const std::vector<Index> along = Along(domain, Role::kCarried, {scan.axes[axis].extent});
  node.at.insert(node.at.begin() + axis, along[0]);
  domain.nodes.push_back(node);
  if (absl::Status s = PlaceBesideScan(graph, in_memory, scan, roots, domain); !s.ok()) return s;
  return domain;
}

void MakeOnline(const graph::Graph& graph, const InMemory& in_memory, Domain& domain) {
  domain.online_used = !domain.online.empty();
  NumberStages(graph, in_memory, domain);
}

}  // namespace warpsmith::codegen
