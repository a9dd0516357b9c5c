#include "common/graph/graph.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/graph/operators.h"

namespace warpsmith::graph {
namespace {

std::vector<int64_t> Extents(const std::vector<Axis>& axes) {
  std::vector<int64_t> extents;
  for (const Axis& axis : axes) extents.push_back(axis.extent);
  return extents;
}

int AddTensor(Graph& graph, Tensor tensor) {
  WS_CHECK(IsName(tensor.name), absl::StrCat("'", tensor.name, "' is no name for a tensor"));
  WS_CHECK(graph.Find(tensor.name) < 0, absl::StrCat("a second tensor '", tensor.name, "'"));
  for (int64_t extent : tensor.shape) {
    WS_CHECK(extent >= 1, absl::StrCat("'", tensor.name, "' has an axis of extent ", extent));
  }
  graph.tensors.push_back(std::move(tensor));
  return static_cast<int>(graph.tensors.size()) - 1;
}

int AddOutput(Graph& graph, std::string name, DType type, const std::vector<Axis>& axes) {
  Tensor tensor;
  tensor.name = std::move(name);
  tensor.type = type;
  tensor.shape = Extents(axes);
  tensor.node = static_cast<int>(graph.nodes.size());
  return AddTensor(graph, std::move(tensor));
}

// Gives `node`, a reduce or a scan that lacks only these, its outputs and appends it.
int AddCombined(Graph& graph, Node node, std::string name, std::vector<Axis> axes, ExprPtr value,
                std::string index_name) {
  WS_CHECK(HasIndex(node.combiner) || index_name.empty(),
           absl::StrCat(NameOf(node.combiner), " gives no index"));
  if (index_name.empty()) index_name = name + "_index";
  const int id = AddOutput(graph, std::move(name), value->type, axes);
  node.outputs = {id};
  if (HasIndex(node.combiner)) {
    node.outputs.push_back(AddOutput(graph, std::move(index_name), DType::kI64, axes));
  }
  node.axes = std::move(axes);
  node.value = std::move(value);
  graph.nodes.push_back(std::move(node));
  return id;
}

// Replaces tensor ids in loads. Shared parts stay shared.
class Renumbering {
 public:
  explicit Renumbering(const std::vector<int>& ids) : ids_(ids) {}
  ExprPtr Apply(const ExprPtr& e) {
    if (auto it = done_.find(e.get()); it != done_.end()) return it->second;
    auto copy = std::make_shared<Expr>(*e);
    if (e->op == Op::kLoad) copy->tensor = ids_[e->tensor];
    for (ExprPtr& arg : copy->args) arg = Apply(arg);
    return done_[e.get()] = copy;
  }

 private:
  const std::vector<int>& ids_;
  std::unordered_map<const Expr*, ExprPtr> done_;
};

void AddLoads(const ExprPtr& e, std::unordered_set<const Expr*>& seen, std::set<int>& tensors) {
  if (!seen.insert(e.get()).second) return;
  if (e->op == Op::kLoad) tensors.insert(e->tensor);
  for (const ExprPtr& arg : e->args) AddLoads(arg, seen, tensors);
}

}  // namespace

bool IsName(const std::string& text) {
  static constexpr const char* kReserved[] = {"and", "or", "not", "inf", "nan", "true", "false"};
  if (text.empty() || (!std::isalpha(static_cast<unsigned char>(text[0])) && text[0] != '_')) {
    return false;
  }
  for (unsigned char c : text) {
    if (!std::isalnum(c) && c != '_' && c != '.') return false;
  }
  return std::find(std::begin(kReserved), std::end(kReserved), text) == std::end(kReserved);
}

int64_t Tensor::elements() const {
  int64_t n = 1;
  for (int64_t extent : shape) n *= extent;
  return n;
}

int64_t Tensor::bytes() const { return elements() * SizeOf(type); }

int Graph::Find(const std::string& name) const {
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

int Graph::AddInput(Role role, std::string name, DType type, std::vector<int64_t> shape,
                    Distribution distribution) {
  WS_CHECK(role != Role::kIntermediate, "an input has the role of an intermediate");
  Tensor tensor;
  tensor.name = std::move(name);
  tensor.type = type;
  tensor.shape = std::move(shape);
  tensor.role = role;
  tensor.distribution = distribution;
  return AddTensor(*this, std::move(tensor));
}

int Graph::AddMap(std::string name, std::vector<Axis> axes, ExprPtr value) {
  const int id = AddOutput(*this, std::move(name), value->type, axes);
  Node node;
  node.axes = std::move(axes);
  node.value = std::move(value);
  node.outputs = {id};
  nodes.push_back(std::move(node));
  return id;
}

int Graph::AddReduce(std::string name, Combiner combiner, std::vector<Axis> axes,
                     std::vector<Axis> reduce_axes, ExprPtr value, std::string index_name) {
  WS_CHECK(!reduce_axes.empty(), absl::StrCat("'", name, "' reduces over no axis"));
  WS_CHECK(Takes(combiner, value->type),
           absl::StrCat(NameOf(combiner), " of ", NameOf(value->type)));
  WS_CHECK(combiner != Combiner::kLogSumExp, absl::StrCat("'", name, "': logsumexp is for scans"));
  Node node;
  node.reduce = true;
  node.combiner = combiner;
  node.reduce_axes = std::move(reduce_axes);
  return AddCombined(*this, std::move(node), std::move(name), std::move(axes), std::move(value),
                     std::move(index_name));
}

int Graph::AddScan(std::string name, Combiner combiner, std::vector<Axis> axes, Scan scan,
                   ExprPtr value, std::string index_name) {
  WS_CHECK(scan.axis >= 0 && scan.axis < static_cast<int>(axes.size()),
           absl::StrCat("'", name, "' scans along no axis"));
  WS_CHECK(Takes(combiner, value->type),
           absl::StrCat(ScanNameOf(combiner), " of ", NameOf(value->type)));
  WS_CHECK(!HasIndex(combiner) || !scan.exclusive,
           absl::StrCat("'", name, "': the first of an exclusive scan has no index"));
  Node node;
  node.scan = scan;
  node.combiner = combiner;
  return AddCombined(*this, std::move(node), std::move(name), std::move(axes), std::move(value),
                     std::move(index_name));
}

std::vector<int> LoadedTensors(const ExprPtr& e) {
  std::unordered_set<const Expr*> seen;
  std::set<int> tensors;
  AddLoads(e, seen, tensors);
  return std::vector<int>(tensors.begin(), tensors.end());
}

std::vector<bool> ConstantTensors(const Graph& graph) {
  std::vector<bool> constant(graph.tensors.size(), false), answer(graph.tensors.size(), false);
  if (!graph.constant_params) return constant;
  for (int output : graph.outputs) answer[output] = true;
  for (const Graph::Update& update : graph.updates) answer[update.value] = true;
  for (size_t t = 0; t < graph.tensors.size(); ++t)
    constant[t] = graph.tensors[t].node < 0 && graph.tensors[t].role == Role::kParam;
  for (const Node& node : graph.nodes) {
    const std::vector<int> loaded = LoadedTensors(node.value);
    const bool all = std::all_of(loaded.begin(), loaded.end(), [&](int t) { return constant[t]; });
    for (int output : node.outputs) constant[output] = all && !answer[output];
  }
  return constant;
}

Graph Prune(const Graph& graph) {
  std::vector<bool> needed(graph.tensors.size(), false);
  for (int output : graph.outputs) needed[output] = true;
  for (const Graph::Update& update : graph.updates) needed[update.value] = true;
  for (size_t n = graph.nodes.size(); n-- > 0;) {
    const Node& node = graph.nodes[n];
    const bool live = std::any_of(node.outputs.begin(), node.outputs.end(),
                                  [&](int output) { return needed[output]; });
    if (!live) continue;
    for (int output : node.outputs) needed[output] = true;
    for (int loaded : LoadedTensors(node.value)) needed[loaded] = true;
  }
  // Inputs stay, used or not: they are what the problem is called with.
  Graph result;
  result.constant_params = graph.constant_params;
  result.tolerance_alone = graph.tolerance_alone;
  std::vector<int> ids(graph.tensors.size(), -1), nodes(graph.nodes.size(), -1);
  for (size_t n = 0, kept = 0; n < graph.nodes.size(); ++n) {
    if (needed[graph.nodes[n].outputs[0]]) nodes[n] = static_cast<int>(kept++);
  }
  for (size_t t = 0; t < graph.tensors.size(); ++t) {
    const Tensor& tensor = graph.tensors[t];
    if (tensor.node >= 0 && !needed[t]) continue;
    ids[t] = static_cast<int>(result.tensors.size());
    result.tensors.push_back(tensor);
    if (tensor.node >= 0) result.tensors.back().node = nodes[tensor.node];
  }
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    if (nodes[n] < 0) continue;
    Node node = graph.nodes[n];
    node.value = Renumbering(ids).Apply(node.value);
    for (int& output : node.outputs) output = ids[output];
    result.nodes.push_back(std::move(node));
  }
  for (int output : graph.outputs) result.outputs.push_back(ids[output]);
  for (const Graph::Update& update : graph.updates) {
    result.updates.push_back({ids[update.state], ids[update.value]});
  }
  return result;
}

}  // namespace warpsmith::graph
