#include "worker/codegen/group/placement.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "worker/codegen/group/axes.h"
#include "worker/codegen/group/bijection.h"
#include "worker/codegen/group/trace.h"
#include "worker/codegen/group/values.h"

namespace warpsmith::codegen {

using absl::StrCat;
using graph::Node;

namespace {

// A coordinate that is a number made of axes, the slowest first: of axes i of 4 and k of 512, i *
// 512
// + k. Empty: it is not one.
std::vector<int> AxesOfNumber(const Index& index, const std::vector<int64_t>& extents) {
  std::vector<Index::Term> terms(index.terms().begin(), index.terms().end());
  std::sort(terms.begin(), terms.end(),
            [](const auto& a, const auto& b) { return a.coefficient > b.coefficient; });
  std::vector<int> axes;
  int64_t next = 1;
  for (auto term = terms.rbegin(); term != terms.rend(); ++term) {
    const bool plain = term->atom->kind == Atom::Kind::kVariable && term->coefficient == next;
    const int id = plain ? term->atom->variable.id : -1;
    if (id < 0 || id >= static_cast<int>(extents.size())) return {};
    next *= extents[id];
    axes.insert(axes.begin(), id);
  }
  return index.constant() == 0 ? axes : std::vector<int>();
}

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

// The axis of which a coordinate is a digit, from some place before its first element on, and by
// how much its steps count: v, v / n and v % n; of the latter n, else 0. nullopt: it is something
// else.
struct PartOfAxis {
  int axis = -1;
  int64_t before = 0, counts = 1, modulus = 0;
};
std::optional<PartOfAxis> PartOf(const Index& index, int axes) {
  PartOfAxis part;
  Index of = index;
  if (index.terms().size() == 1 && index.constant() == 0 && index.terms()[0].coefficient == 1 &&
      index.terms()[0].atom->inner) {
    const Atom& atom = *index.terms()[0].atom;
    of = *atom.inner;
    (atom.kind == Atom::Kind::kDiv ? part.counts : part.modulus) = atom.divisor;
  }
  part.before = of.constant();
  part.axis = PlainAxis(of - Index(part.before), axes);
  return part.axis < 0 ? std::nullopt : std::optional<PartOfAxis>(part);
}

class Placer {
 public:
  Placer(const graph::Graph& graph, const InMemory& in_memory, const std::set<int>& placed,
         const Domain& domain)
      : graph_(graph), in_memory_(in_memory), placed_(placed), domain_(domain) {}

  // Where a root lies that has not an element for each row: the digits of its axes are a reduce's
  // axes, which may begin before it and go on behind it; nullopt: it does not lie so.
  std::optional<std::vector<Index>> Cropped(int tensor) {
    shape_ = graph_.tensors[tensor].shape;
    const Node& node = graph_.nodes[graph_.tensors[tensor].node];
    if (!node.map()) return std::nullopt;
    Traced traced;
    Trace(graph_, in_memory_, placed_, node, traced);
    if (traced.stage_reads.empty()) return std::nullopt;
    const auto& [stage, read] = traced.stage_reads[0];  // a kernel reads all where it reads this
    const std::vector<int64_t>& of_stage = graph_.tensors[stage].shape;
    const std::vector<Index>& producer = *PlaceOf(graph_.tensors[stage].node);
    std::vector<std::vector<std::pair<int64_t, size_t>>> parts(shape_.size());
    std::vector<std::optional<int64_t>> before(shape_.size());
    for (size_t a = 0; a < read.size(); ++a) {
      if (of_stage[a] == 1) continue;
      const auto part = PartOf(read[a], static_cast<int>(shape_.size()));
      if (!part || (part->modulus != 0 && part->modulus != of_stage[a]) || part->before < 0 ||
          before[part->axis].value_or(part->before) != part->before)
        return std::nullopt;
      before[part->axis] = part->before;
      parts[part->axis].emplace_back(part->counts, a);
    }
    std::vector<Index> at;
    for (size_t axis = 0; axis < shape_.size(); ++axis) {
      std::sort(parts[axis].begin(), parts[axis].end());
      int64_t next = 1;
      Index place;
      for (const auto& [counts, a] : parts[axis]) {
        if (counts != next) return std::nullopt;
        place = place + producer[a] * counts;
        next *= of_stage[a];
      }
      const int64_t first = before[axis].value_or(0);
      if (next < first + shape_[axis]) return std::nullopt;
      at.push_back(place - Index(first));
    }
    return at;
  }

  // The ways in which a root may lie in the domain, the most telling first.
  std::vector<std::vector<Index>> Candidates(int tensor, Level level) {
    shape_ = graph_.tensors[tensor].shape;
    level_ = level;
    found_.clear();
    const Node& node = graph_.nodes[graph_.tensors[tensor].node];
    if (const auto* own = PlaceOf(graph_.tensors[tensor].node)) {  // a reduce's own result
      found_.push_back(std::vector<Index>(own->begin(), own->begin() + node.axes.size()));
      return found_;
    }
    if (node.map()) ByItsReads(node);
    if (level != Level::kTotals) {
      for (const StageNode& stage : domain_.nodes) ByItsReader(tensor, stage.node, stage.at);
    }
    for (const TotalNode& total : domain_.totals) {
      ByItsReader(tensor, total.node, total.at);
      if (level == Level::kTotals) InOrderOf(total);
    }
    if (level != Level::kTotals) {
      for (auto& order : LinearOrders(domain_, level == Level::kRows, shape_))
        found_.push_back(order);
    }
    return found_;
  }

 private:
  // Of a stage or a total; nullptr.
  const std::vector<Index>* PlaceOf(int node) const {
    if (const StageNode* stage = domain_.Find(node)) return &stage->at;
    if (const TotalNode* total = domain_.FindTotal(node)) return &total->at;
    return nullptr;
  }

  // It reads the results of reduces: its coordinates are theirs, or the digits of theirs.
  void ByItsReads(const Node& node) {
    Traced traced;
    Trace(graph_, in_memory_, placed_, node, traced);
    std::vector<std::optional<Index>> sources(shape_.size());
    bool known = !traced.stage_reads.empty();
    for (const auto& [stage, at] : traced.stage_reads) {
      const std::vector<Index>& producer = *PlaceOf(graph_.tensors[stage].node);
      for (size_t a = 0; a < at.size(); ++a) {
        if (graph_.tensors[stage].shape[a] == 1) continue;
        const std::vector<int> axes = AxesOfNumber(at[a], shape_);
        std::vector<int64_t> extents;
        for (int axis : axes) extents.push_back(shape_[axis]);
        known = known && !axes.empty() && Product(extents) == graph_.tensors[stage].shape[a];
        if (!known) return;
        const std::vector<Index> digits =
            axes.size() == 1 ? std::vector<Index>{producer[a]} : Unflatten(producer[a], extents);
        for (size_t i = 0; i < axes.size(); ++i) {
          if (!sources[axes[i]]) sources[axes[i]] = digits[i];
        }
      }
    }
    if (known) Offer(sources);
  }

  // Read by a reduce at its own axes: it lies where that reads it.
  void ByItsReader(int tensor, int reader_node, const std::vector<Index>& place) {
    const Node& reader = graph_.nodes[reader_node];
    Traced traced;
    Trace(graph_, in_memory_, placed_, reader, traced);
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
      at.push_back(shape_[a] == 1 ? Index(0) : place[axis]);
    }
    found_.push_back(at);
  }

  // Its elements as those of the total follow each other.
  void InOrderOf(const TotalNode& total) {
    const std::vector<graph::Axis>& axes = graph_.nodes[total.node].axes;
    const std::vector<Index> own(total.at.begin(), total.at.begin() + axes.size());
    found_.push_back(Unflatten(Flatten(own, ExtentsOf(axes)), shape_));
  }

  // Coordinates that are known, and the position among the reduced axes in the order of the others.
  void Offer(const std::vector<std::optional<Index>>& sources) {
    std::vector<int64_t> rest;
    for (size_t a = 0; a < sources.size(); ++a) {
      if (!sources[a]) rest.push_back(shape_[a]);
    }
    const bool points = level_ == Level::kPoints;
    if (Product(rest) != (points ? domain_.reduced() : 1)) return;
    const std::vector<Index> position =
        points ? Along(domain_, Role::kReduced, rest) : std::vector<Index>(rest.size(), Index(0));
    std::vector<Index> at;
    size_t next = 0;
    for (const auto& source : sources) at.push_back(source ? *source : position[next++]);
    found_.push_back(at);
  }

  const graph::Graph& graph_;
  const InMemory& in_memory_;
  const std::set<int>& placed_;
  const Domain& domain_;
  std::vector<int64_t> shape_;
  Level level_ = Level::kPoints;
  std::vector<std::vector<Index>> found_;
};

// The levels that have as many elements.
std::vector<Level> LevelsOf(const Domain& domain, int64_t elements) {
  std::vector<Level> levels;
  if (elements == domain.kept()) {
    levels.push_back(Level::kRows);
  } else if (elements == domain.kept() * domain.reduced()) {
    levels.push_back(Level::kPoints);
  }
  if (!domain.totals.empty() && elements == domain.segment_count() * domain.reduced())
    levels.push_back(Level::kTotals);
  return levels;
}

absl::StatusOr<RootPlace> PlaceRoot(const graph::Graph& graph, const InMemory& in_memory,
                                    const Domain& domain, int tensor, bool cropped,
                                    Placer& placer) {
  const graph::Tensor& t = graph.tensors[tensor];
  const std::vector<Level> levels = LevelsOf(domain, t.elements());
  if (levels.empty() && cropped && t.elements() < domain.kept()) {
    if (const auto at = placer.Cropped(tensor)) {
      Domain trial = domain;
      trial.roots = {{tensor, Level::kRows, *at, -1, nullptr, /*cropped=*/true}};
      auto built = BuildKernel(graph, trial, in_memory,
                               [&](Values& values) { return PointFrame(domain, values); });
      return built.ok() ? absl::StatusOr<RootPlace>(trial.roots[0]) : built.status();
    }
  }
  if (levels.empty()) {
    return absl::InvalidArgumentError(StrCat("root ", TensorName(graph, tensor), " has ",
                                             t.elements(), " elements, but its group works on ",
                                             domain.kept(), " rows of ", domain.reduced(),
                                             "; give it a group of its own"));
  }
  absl::Status why = absl::InvalidArgumentError(
      StrCat("root ", TensorName(graph, tensor),
             " does not lie along the rows of its group; give it a group of its own"));
  for (Level level : levels) {
    const std::vector<DomainAxis> over = domain.AxesOf(level);
    for (const std::vector<Index>& at : placer.Candidates(tensor, level)) {
      if (!IsBijection(at, t.shape, over)) continue;
      Domain trial = domain;
      trial.roots = {{tensor, level, at}};
      auto built = BuildKernel(graph, trial, in_memory,
                               [&](Values& values) { return PointFrame(domain, values); });
      if (built.ok()) return trial.roots[0];
      why = built.status();
    }
  }
  return why;
}

}  // namespace

absl::Status PlaceRoots(const graph::Graph& graph, const InMemory& in_memory,
                        const std::set<int>& placed, const std::vector<int>& roots, bool cropped,
                        Domain& domain) {
  Placer placer(graph, in_memory, placed, domain);
  std::vector<RootPlace> places;
  for (int tensor : roots) {
    auto place = PlaceRoot(graph, in_memory, domain, tensor, cropped, placer);
    if (!place.ok()) return place.status();
    places.push_back(*std::move(place));
  }
  domain.roots = places;
  return absl::OkStatus();
}

}  // namespace warpsmith::codegen
