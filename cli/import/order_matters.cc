#include "cli/import/order_matters.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "cli/import/lowering.h"

namespace warpsmith::import {
namespace {

using nlohmann::json;

// Follows what is in the order, node by node.
class Follower {
 public:
  Follower(const Dump& dump, const AtenNode& topk) : topk_(topk) {
    for (const Placeholder& p : dump.placeholders) shapes_[p.name] = p.meta.shape;
  }

  // Whether what the node gives is of use only with its order.
  bool Matters(const AtenNode& node) {
    if (node.outputs.size() == 1) shapes_[node.name] = node.outputs[0].shape;
    if (node.op == "getitem" && NameOf(node, "self") == topk_.name) {
      const int64_t dim = IntOr(topk_, "dim", -1);
      ordered_[node.name] = dim < 0 ? dim : dim - RankOf(node.name);
      if (IntOr(node, "index", 0) == 1) indexes_.insert(node.name);
      return false;
    }
    std::set<std::string> used;
    for (const auto& [name, value] : node.args) Collect(value, used);
    const bool any = std::any_of(used.begin(), used.end(), [&](const std::string& name) {
      return name == topk_.name || ordered_.count(name) > 0;
    });
    return any && (node.outputs.size() != 1 || (!Keeps(node, used) && !Ends(node)));
  }
  bool InOrder(const std::string& node) const { return ordered_.count(node) > 0; }

 private:
  static void Collect(const json& value, std::set<std::string>& names) {
    if (value.is_object() && value.contains("node")) names.insert(value["node"]);
    if (value.is_array()) {
      for (const json& element : value) Collect(element, names);
    }
  }
  static std::string NameOf(const AtenNode& node, const std::string& argument) {
    const auto found = node.args.find(argument);
    if (found == node.args.end() || !found->second.is_object()) return "";
    return found->second.value("node", "");
  }
  static int64_t IntOr(const AtenNode& node, const std::string& argument, int64_t otherwise) {
    const auto found = node.args.find(argument);
    return found == node.args.end() || !found->second.is_number_integer()
               ? otherwise
               : found->second.get<int64_t>();
  }
  int64_t RankOf(const std::string& name) const {
    return static_cast<int64_t>(shapes_.at(name).size());
  }
  // The dimension that is in the order, counted from the end: -1, -2, ...; nothing: none is.
  std::optional<int64_t> DimOf(const std::string& name) const {
    const auto found = ordered_.find(name);
    return found == ordered_.end() ? std::nullopt : std::optional(found->second);
  }
  // The operator's own dimension, counted so of its argument.
  int64_t DimOf(const AtenNode& node, const std::string& argument) const {
    const int64_t dim = IntOr(node, "dim", 0);
    return dim < 0 ? dim : dim - RankOf(NameOf(node, argument));
  }

  // Element by element, or elements picked at indexes: the result is in the order as well.
  bool Keeps(const AtenNode& node, const std::set<std::string>& used) {
    if (node.op == "aten.gather.default") {
      const std::string index = NameOf(node, "index");
      const auto dim = DimOf(index);
      if (InOrder(NameOf(node, "self")) || dim != DimOf(node, "index")) return false;
      ordered_[node.name] = *dim;
      return true;
    }
    if (PointwiseOperators().count(node.op) == 0) return false;
    std::optional<int64_t> dim;
    for (const std::string& name : used) {
      const auto own = DimOf(name);
      if (own && dim && *own != *dim) return false;
      if (own) dim = own;
    }
    for (const std::string& name : used) {
      const auto shape = shapes_.find(name);
      if (!dim || shape == shapes_.end()) return false;
      if (InOrder(name)) continue;
      // One for all places.
      const int64_t axis = RankOf(name) + *dim;
      if (axis >= 0 && shape->second[axis] != 1) return false;
    }
    const int64_t axis = RankOf(node.name) + *dim;
    if (axis < 0) return false;
    ordered_[node.name] = *dim;
    return true;
  }

  // All places are joined, or written where indexes say: the result is the same in any order.
  bool Ends(const AtenNode& node) const {
    const std::string self = NameOf(node, "self"), index = NameOf(node, "index");
    if (node.op == "aten.sum.default") return true;
    if (node.op == "aten.sum.dim_IntList" || node.op == "aten.mean.dim" ||
        node.op == "aten.amax.default" || node.op == "aten.amin.default") {
      const auto dims = node.args.find("dim");
      const int64_t own = *DimOf(self);
      return dims != node.args.end() && dims->second.is_array() &&
             (dims->second.empty() ||
              std::any_of(dims->second.begin(), dims->second.end(), [&](const json& dim) {
                return dim == own || dim == own + RankOf(self);
              }));
    }
    if (InOrder(self) || DimOf(index) != DimOf(node, "index")) return false;
    if (node.op == "aten.scatter.value") return true;
    // No index is there twice, so nothing is written over; and sums are of what they were.
    if (node.op == "aten.scatter.src" && indexes_.count(index) == 0) return false;
    if (node.op != "aten.scatter.src" && node.op != "aten.scatter_add.default") return false;
    return DimOf(NameOf(node, "src")) == DimOf(index);
  }

  const AtenNode& topk_;
  std::map<std::string, std::vector<int64_t>> shapes_;
  std::map<std::string, int64_t> ordered_;
  std::set<std::string> indexes_;  // those of them that are the indexes themselves
};

}  // namespace

bool OrderMatters(const Dump& dump, const AtenNode& topk) {
  if (topk.outputs.empty() || topk.outputs[0].shape.empty()) return true;
  Follower follower(dump, topk);
  for (const AtenNode& node : dump.nodes) {
    if (follower.Matters(node)) return true;
  }
  for (const Dump::Output& output : dump.outputs) {
    if (follower.InOrder(output.node)) return true;
  }
  return std::any_of(dump.updates.begin(), dump.updates.end(),
                     [&](const auto& update) { return follower.InOrder(update.node); });
}

}  // namespace warpsmith::import
