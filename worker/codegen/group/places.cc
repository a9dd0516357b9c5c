// A group as the places that it changes of tensors that stay as they are elsewhere.
#include <algorithm>
#include <numeric>
#include <optional>

#include "absl/strings/str_cat.h"
#include "common/graph/partial.h"
#include "worker/codegen/group/axes.h"
#include "worker/codegen/group/domain.h"
#include "worker/codegen/group/values.h"

namespace warpsmith::codegen {

using absl::StrCat;

namespace {

// What a root has elements for.
struct Places {
  std::vector<int64_t> extents;
  std::vector<int64_t> first;  // of a slice, for each axis
  int base = -1;
  std::shared_ptr<const graph::Scatter> scatter;
};

// Whether the tensor only takes the place of the state that stays: nothing else needs either, so
// that a slice of it can be written where the state is. What could not would be a copy of the state
// and the slice, which one walk over both does as well.
bool TakesThePlaceOf(const graph::Graph& graph, int tensor, int state) {
  int updates = 0, other = 0;
  for (const graph::Graph::Update& update : graph.updates) {
    updates += update.value == tensor && update.state == state;
    other += update.value == state;
  }
  for (int output : graph.outputs) other += output == tensor || output == state;
  return updates == 1 && other == 0;
}

// The slice outside of which a state stays.
std::optional<Places> SliceOf(const graph::Graph& graph, int root) {
  const graph::Tensor& t = graph.tensors[root];
  for (const graph::PartialUpdate& partial : graph::PartialMapsOf(graph, root)) {
    if (!TakesThePlaceOf(graph, root, partial.base)) continue;
    Places slice;
    slice.base = partial.base;
    for (const graph::Interval& range : graph::ChangedBox(graph, root, partial)) {
      const int64_t low = std::clamp<int64_t>(range.low, 0, t.shape[slice.first.size()] - 1);
      slice.first.push_back(low);
      slice.extents.push_back(std::max<int64_t>(1, range.high - low + 1));
    }
    return slice;
  }
  return std::nullopt;
}

// Slices of tensors of one shape are one that holds them all: where a state stays there, it does by
// its condition.
void Join(const graph::Graph& graph, const std::vector<int>& roots, std::vector<Places>& places) {
  for (Places& one : places) {
    for (size_t r = 0; r < roots.size(); ++r) {
      const Places& other = places[r];
      if (one.first.empty() || other.first.empty()) continue;
      if (one.first.size() != other.first.size()) continue;
      if (graph.tensors[roots[r]].shape != graph.tensors[roots[&one - &places[0]]].shape) continue;
      for (size_t a = 0; a < one.first.size(); ++a) {
        const int64_t end =
            std::max(one.first[a] + one.extents[a], other.first[a] + other.extents[a]);
        one.first[a] = std::min(one.first[a], other.first[a]);
        one.extents[a] = end - one.first[a];
      }
    }
  }
}

}  // namespace

absl::StatusOr<Domain> PlacesOf(const graph::Graph& graph, const std::vector<int>& roots,
                                const InMemory& in_memory) {
  std::vector<Places> places;
  const Places* first = nullptr;  // gives the axes
  for (int root : roots) {
    Places one;
    auto scatter = graph::ScatterOf(graph, root);
    if (scatter && (scatter->base < 0 || in_memory(scatter->base))) {
      one.base = scatter->base;
      one.scatter = std::make_shared<const graph::Scatter>(*std::move(scatter));
      one.extents = ExtentsOf(one.scatter->axes);
    } else if (auto slice = SliceOf(graph, root)) {
      one = *std::move(slice);
    } else {
      one.extents = graph.tensors[root].shape;
    }
    places.push_back(std::move(one));
  }
  Join(graph, roots, places);
  bool fewer = false;  // places than elements, or than there are to look through
  for (size_t r = 0; r < roots.size(); ++r) {
    const Places& one = places[r];
    if (one.base < 0 && !one.scatter) continue;
    fewer = fewer || one.scatter || Product(one.extents) < graph.tensors[roots[r]].elements();
    if (first == nullptr || (one.scatter && !first->scatter)) first = &one;
  }
  if (!fewer) return absl::InvalidArgumentError("it leaves nothing of what it writes as it was");

  Domain domain;
  for (int64_t extent : first->extents) AddAxis({"", extent}, Role::kKept, 0, domain);
  for (size_t r = 0; r < roots.size(); ++r) {
    const Places& one = places[r];
    if (Product(one.extents) != domain.kept()) {
      return absl::InvalidArgumentError(
          StrCat("roots ", TensorName(graph, roots[0]), " and ", TensorName(graph, roots[r]),
                 " do not change as many places; give them a group each"));
    }
    RootPlace place{roots[r], Level::kPoints, Along(domain, Role::kKept, one.extents), one.base,
                    one.scatter};
    for (size_t a = 0; a < one.first.size(); ++a) place.at[a] = place.at[a] + Index(one.first[a]);
    domain.roots.push_back(std::move(place));
  }
  for (const RootPlace& root : domain.roots) {
    if (!root.scatter || root.scatter->search < 0 || in_memory(root.scatter->search)) continue;
    domain.searches.push_back(graph.tensors[root.scatter->search].node);
    domain.part = std::gcd(domain.part, root.scatter->part);
  }
  auto built = BuildKernel(graph, domain, in_memory,
                           [&](Values& values) { return PointFrame(domain, values); });
  if (!built.ok()) return built.status();
  return domain;
}

}  // namespace warpsmith::codegen
