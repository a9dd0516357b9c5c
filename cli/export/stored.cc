#include "cli/export/stored.h"

#include <algorithm>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/graph/graph.h"
#include "common/problem/problem.h"

namespace warpsmith::exporter {

absl::StatusOr<std::vector<Stored>> StoredIn(const v1::Problem& problem, const Kernels::One& one) {
  auto graph = problem::GraphOf(problem, one.workload);
  if (!graph.ok()) return graph.status();
  std::vector<Stored> stored;
  std::set<int> used;
  for (const int output : graph->outputs) {
    const std::string& name = graph->tensors[output].name;
    int found = -1;
    for (int i = 0; i < one.plan.buffers_size(); ++i) {
      const v1::Buffer& buffer = one.plan.buffers(i);
      if (buffer.kind() != v1::Buffer::OUTPUT || buffer.tensor() != name) continue;
      // A graph may give a tensor several times, each in a buffer of its own or all in one.
      if (found < 0 || used.count(found) > 0) found = i;
    }
    if (found < 0) {
      return absl::InvalidArgumentError(absl::StrCat("the plan has no output '", name, "'"));
    }
    used.insert(found);
    stored.push_back({found, {}});
    if (stored.size() > static_cast<size_t>(problem.torch().orders_size())) continue;
    const auto& axes = problem.torch().orders(static_cast<int>(stored.size()) - 1).axes();
    if (!std::is_sorted(axes.begin(), axes.end())) {
      stored.back().order.assign(axes.begin(), axes.end());
    }
  }
  return stored;
}

}  // namespace warpsmith::exporter
