// What is known of a group before any skeleton or text: how it can be seen as a domain, and what it
// must move and compute at the least. Knobs change nothing of it, so it is made once for all
// schedules that have the group.
#pragma once

#include <any>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/graph/graph.h"
#include "worker/codegen/group/domain.h"
#include "worker/codegen/group/values.h"

namespace warpsmith::codegen {

// A load or store as the points of a domain do it.
struct Access {
  int tensor = -1;
  bool write = false;
  bool affine = false;   // `stride` says all; else gathered, divided or in a loop of the thread
  bool guarded = false;  // under a condition
  bool in_loop = false;  // a loop of the thread repeats it
  std::vector<int64_t> stride;  // elements, for each axis of the domain
  Index index;                  // over the domain's axes
};

// At the least: each element that is used once.
struct Demand {
  int64_t bytes_read = 0, bytes_written = 0;
  double operations = 0,
         transcendental = 0;  // scalar, over all points, maps counted where they stand
  int64_t element_bytes = 1;  // of the widest tensor of more than one element
  std::vector<int> reads;     // tensors
};

// Not thread-safe: what skeletons derive is kept in it. `graph` outlives it.
class Analysis {
 public:
  // The roots are computed where the tensors of `in_memory` (inputs, and what earlier groups wrote)
  // can be read.
  Analysis(const graph::Graph& graph, std::vector<int> roots, std::set<int> in_memory);
  Analysis(const Analysis&) = delete;

  const graph::Graph& graph() const { return graph_; }
  const std::vector<int>& roots() const { return roots_; }
  // "y": the first root, by which people know the group.
  const std::string& name() const { return graph_.tensors[roots_[0]].name; }
  const InMemory& in_memory() const { return in_memory_; }
  int largest_reduce() const { return largest_reduce_; }  // a node, or -1
  // Whether all that it makes depends on constant weights alone, and is no answer: no run makes it.
  bool constant() const { return constant_; }
  const Demand& demand() const { return demand_; }

  const absl::StatusOr<Domain>& elements() const;
  const absl::StatusOr<Domain>& places() const;
  const absl::StatusOr<Domain>& stages() const;
  // The same with every softmax-like pair as one stage; InvalidArgument where there is none.
  const absl::StatusOr<Domain>& online() const;
  const absl::StatusOr<Domain>& scan() const;

  // What a point of a domain of this analysis computes (PointFrame).
  const absl::StatusOr<Kernel>& PointsOf(const Domain& domain) const;
  // Its loads and stores.
  const std::vector<Access>& AccessesOf(const Domain& domain) const;

  // Derived once under a key, which names all that it depends on beside the group.
  template <class T>
  const T& Derived(const std::string& key, const std::function<T()>& make) const {
    std::any& kept = derived_[key];
    if (!kept.has_value()) kept = std::make_shared<T>(make());
    return *std::any_cast<std::shared_ptr<T>&>(kept);
  }

 private:
  const graph::Graph& graph_;
  const std::vector<int> roots_;
  const std::set<int> memory_;
  const InMemory in_memory_;
  int largest_reduce_ = -1;
  bool constant_ = false;
  Demand demand_;
  mutable std::unique_ptr<absl::StatusOr<Domain>> elements_, places_, stages_, online_, scan_;
  mutable std::map<const Domain*, absl::StatusOr<Kernel>> points_;
  mutable std::map<const Domain*, std::vector<Access>> accesses_;
  mutable std::map<std::string, std::any> derived_;
};

// A refusal that says of which group it is.
absl::Status OfGroup(const Analysis& group, const absl::Status& status);

// States (tensor) that a root (tensor) may overwrite while the kernel runs, as far as the group's
// own reads go: read at the element that it writes, by this root alone or (reads_first: a thread
// reads everything of a place before it writes there) by reduces and by roots that are written at
// the same place.
std::set<std::pair<int, int>> ReadsWhereItWrites(const Analysis& group, const Domain& domain,
                                                 bool reads_first);

}  // namespace warpsmith::codegen
