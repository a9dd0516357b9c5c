#include "worker/codegen/group/axes.h"

#include "absl/strings/str_cat.h"

namespace warpsmith::codegen {

using absl::StrCat;

std::string TensorName(const graph::Graph& graph, int tensor) {
  return StrCat("'", graph.tensors[tensor].name, "'");
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

std::vector<Index> AxesOf(const Domain& domain, Role role) {
  std::vector<Index> axes;
  for (const DomainAxis& axis : domain.axes) {
    if (axis.role == role) axes.push_back(Index::Of(axis.variable));
  }
  return axes;
}

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

}  // namespace warpsmith::codegen
