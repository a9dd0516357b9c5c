// A group as elements.
#include <functional>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "worker/codegen/group/axes.h"
#include "worker/codegen/group/bijection.h"
#include "worker/codegen/group/domain.h"
#include "worker/codegen/group/values.h"

namespace warpsmith::codegen {

using absl::StrCat;

namespace {

// The domain of elements whose axes have these extents.
Domain ElementsAlong(const graph::Graph& graph, const std::vector<int>& roots,
                     const std::vector<int64_t>& extents) {
  Domain domain;
  for (int64_t extent : extents) AddAxis({"", extent}, Role::kKept, 0, domain);
  const Index linear = Flatten(AxesOf(domain, Role::kKept), domain.Extents(Role::kKept));
  for (int tensor : roots)
    domain.roots.push_back(
        {tensor, Level::kPoints, Unflatten(linear, graph.tensors[tensor].shape)});
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

}  // namespace

absl::StatusOr<Domain> ElementsOf(const graph::Graph& graph, const std::vector<int>& roots,
                                  const InMemory& in_memory) {
  for (int tensor : roots) {
    const graph::Tensor &t = graph.tensors[tensor], &first = graph.tensors[roots[0]];
    if (t.elements() == first.elements()) continue;
    return absl::InvalidArgumentError(StrCat("roots ", TensorName(graph, roots[0]), " and ",
                                             TensorName(graph, tensor), " of a map group have ",
                                             first.elements(), " and ", t.elements(),
                                             " elements; they must have the same number"));
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

}  // namespace warpsmith::codegen
