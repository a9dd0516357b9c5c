// Applies the rules (rule.h) that a schedule names, and finds those that apply.
//
// Reduces and views that are the same are one, always: the later one becomes a view of the first.
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "worker/codegen/codegen.h"
#include "worker/codegen/rewrite/rule.h"

namespace warpsmith::codegen {

namespace {

using absl::StrCat;
using graph::ExprPtr;
using graph::Graph;
using graph::Node;
using graph::Op;

const std::vector<const Rule*>& Rules() {
  static const std::vector<const Rule*> rules = {
      &SinglePassVariance(), &SplitConcatenation(), &SplitReduction(),
      &SumBeforeProduct(),   &SumOfProducts(),      &WindowOfWindows(),
      &ProductInHalves(),    &OwnRounding(),        &FactorBehindSum()};
  return rules;
}

const Rule* FindRule(const std::string& name) {
  for (const Rule* rule : Rules()) {
    if (rule->name == name) return rule;
  }
  return nullptr;
}

// Kept axes of more than one point.
std::vector<size_t> WideAxes(const Node& node) {
  std::vector<size_t> wide;
  for (size_t a = 0; a < node.axes.size(); ++a) {
    if (node.axes[a].extent > 1) wide.push_back(a);
  }
  return wide;
}

// What a node is but for kept axes of one point.
struct Narrow {
  std::vector<int64_t> kept, reduced;  // extents
  ExprPtr value;
};

Narrow NarrowOf(const Node& node, const ExprPtr& value) {
  Narrow narrow;
  std::vector<ExprPtr> vars(node.axes.size(), graph::ConstInt(graph::DType::kI64, 0));
  for (size_t a : WideAxes(node)) {
    vars[a] = graph::Index(static_cast<int>(narrow.kept.size()));
    narrow.kept.push_back(node.axes[a].extent);
  }
  for (const graph::Axis& axis : node.reduce_axes) {
    vars.push_back(graph::Index(static_cast<int>(narrow.kept.size() + narrow.reduced.size())));
    narrow.reduced.push_back(axis.extent);
  }
  narrow.value = graph::Substitute(value, vars);
  return narrow;
}

// What one node's result is in another's that is the same but for axes of one point.
std::vector<ExprPtr> CoordinatesIn(const Node& other, const Node& node) {
  std::vector<ExprPtr> at(other.axes.size(), graph::ConstInt(graph::DType::kI64, 0));
  const std::vector<size_t> from = WideAxes(node), to = WideAxes(other);
  for (size_t i = 0; i < to.size(); ++i) at[to[i]] = graph::Index(static_cast<int>(from[i]));
  return at;
}

ExprPtr Renamed(const ExprPtr& e, const std::map<int, int>& to) {
  if (e->args.empty() && e->op != Op::kLoad) return e;
  auto copy = std::make_shared<graph::Expr>(*e);
  if (e->op == Op::kLoad) {
    auto found = to.find(e->tensor);
    if (found != to.end()) copy->tensor = found->second;
  }
  for (ExprPtr& arg : copy->args) arg = Renamed(arg, to);
  return copy;
}

// Nodes stay, and what reads them, so that a schedule made for the graph as it was still holds: a
// repeated one becomes a view of the first.
Graph ShareCommonNodes(const Graph& before) {
  Graph graph = before;
  std::vector<Narrow> narrow(graph.nodes.size());  // with the first ones in place of the repeated
  std::map<int, int> first;                        // tensor -> the same one before
  std::map<std::vector<int64_t>, std::vector<size_t>> by_shape;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    Node& node = graph.nodes[n];
    if (node.scan || (!node.reduce && node.value->op != Op::kLoad)) continue;  // maps are inlined
    narrow[n] = NarrowOf(node, first.empty() ? node.value : Renamed(node.value, first));
    std::vector<int64_t> shape = narrow[n].kept;
    shape.push_back(node.reduce ? -static_cast<int64_t>(node.combiner) - 1 : 0);
    shape.insert(shape.end(), narrow[n].reduced.begin(), narrow[n].reduced.end());
    bool repeated = false;
    for (size_t m : by_shape[shape]) {
      const Node& other = graph.nodes[m];
      if (other.outputs.size() != node.outputs.size() ||
          !graph::Same(narrow[m].value, narrow[n].value))
        continue;
      if (node.outputs.size() > 1) break;  // argmax: two views would need two nodes
      if (other.axes.size() == node.axes.size()) first[node.outputs[0]] = other.outputs[0];
      const std::vector<ExprPtr> at = CoordinatesIn(other, node);
      node.reduce = false;
      node.reduce_axes.clear();
      node.value = graph::Load(graph, other.outputs[0], at);
      repeated = true;
      break;
    }
    if (!repeated) by_shape[shape].push_back(n);
  }
  return graph;
}

std::vector<std::string> Applicable(const Graph& graph, const std::set<Rule::Use>& uses) {
  std::vector<std::string> rewrites;
  for (int n = 0; n < graph.nodes.size(); ++n) {
    for (const Rule* rule : Rules()) {
      if (uses.count(rule->use) > 0 && rule->applies(graph, n)) {
        rewrites.push_back(StrCat(rule->name, ":", graph.tensors[graph.nodes[n].outputs[0]].name));
      }
    }
  }
  return rewrites;
}

}  // namespace

std::vector<std::string> ApplicableRewrites(const Graph& graph) {
  return Applicable(graph, {Rule::Use::kFirst, Rule::Use::kMove});
}

std::vector<std::string> RewritesAtOnce(const Graph& graph) {
  return Applicable(graph, {Rule::Use::kFirst});
}

std::vector<std::string> RewritesForDigits(const Graph& graph) {
  return Applicable(graph, {Rule::Use::kDigits});
}

absl::StatusOr<Graph> Rewrite(const Graph& graph,
                              const google::protobuf::RepeatedPtrField<std::string>& rewrites) {
  Graph result = ShareCommonNodes(graph);
  for (const std::string& rewrite : rewrites) {
    const std::vector<std::string> parts = absl::StrSplit(rewrite, absl::MaxSplits(':', 1));
    const Rule* const rule = parts.size() == 2 ? FindRule(parts[0]) : nullptr;
    if (rule == nullptr) {
      const auto spelled = [](std::string* out, const Rule* one) {
        absl::StrAppend(out, one->name, ":TENSOR");
      };
      return absl::InvalidArgumentError(StrCat("rewrite '", rewrite, "' is unknown; there is ",
                                               absl::StrJoin(Rules(), ", ", spelled)));
    }
    const int tensor = result.Find(parts[1]);
    if (tensor < 0 || result.tensors[tensor].node < 0) {
      return absl::InvalidArgumentError(
          StrCat("rewrite '", rewrite, "': no node computes '", parts[1], "'"));
    }
    const int node = result.tensors[tensor].node;
    if (!rule->applies(result, node)) {
      return absl::InvalidArgumentError(
          StrCat("rewrite '", rewrite, "' does not apply: '", parts[1], "' is not ", rule->wants));
    }
    result = rule->apply(result, node);
  }
  return result;
}

}  // namespace warpsmith::codegen
