#include <algorithm>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/graph/affine.h"
#include "common/graph/graph.h"
#include "common/graph/operators.h"

namespace warpsmith::graph {
namespace {

absl::Status Wrong(const std::string& message) { return absl::InvalidArgumentError(message); }

// Checks one node. Ids of tensors and the tensors themselves are known to be sound.
class NodeValidator {
 public:
  NodeValidator(const Graph& graph, int index)
      : graph_(graph), node_(graph.nodes[index]), index_(index) {}

  absl::Status Run() {
    if (auto status = Shape(); !status.ok()) return status;
    if (node_.value == nullptr) return Error("has no expression");
    if (auto status = Types(node_.value, 1); !status.ok()) return status;
    if (heights_[node_.value.get()] > kMaxDepth) return TooDeep();
    if (auto status = Outputs(); !status.ok()) return status;
    return Bounds(node_.value);
  }

 private:
  absl::Status Error(const std::string& message) const {
    const bool named = !node_.outputs.empty();
    return Wrong(absl::StrCat(named ? absl::StrCat("'", graph_.tensors[node_.outputs[0]].name, "'")
                                    : absl::StrCat("node ", index_),
                              ": ", message));
  }

  absl::Status Shape() const {
    if (node_.outputs.size() != (!node_.map() && HasIndex(node_.combiner) ? 2 : 1)) {
      return Error("has the wrong number of outputs");
    }
    if (node_.reduce == node_.reduce_axes.empty()) {
      return Error(node_.reduce ? "reduces over no axis" : "has reduce axes but is no reduce");
    }
    if (auto status = Combination(); !status.ok()) return status;
    std::set<std::string> names;
    int64_t points = 1;
    for (const auto* axes : {&node_.axes, &node_.reduce_axes}) {
      for (const Axis& axis : *axes) {
        if (!IsName(axis.name)) return Error(absl::StrCat("'", axis.name, "' is no name"));
        if (!names.insert(axis.name).second) {
          return Error(absl::StrCat("has a second axis '", axis.name, "'"));
        }
        if (axis.extent < 1) return Error(absl::StrCat("axis '", axis.name, "' is empty"));
        if (axis.extent > kMaxPoints / points) {
          return Error(absl::StrCat("has more than ", kMaxPoints, " points"));
        }
        points *= axis.extent;
      }
    }
    if (names.size() > kMaxRank) return Error(absl::StrCat("has more than ", kMaxRank, " axes"));
    return absl::OkStatus();
  }

  absl::Status Combination() const {
    if (node_.reduce && node_.scan) return Error("is a reduce and a scan");
    if (node_.reduce && node_.combiner == Combiner::kLogSumExp) {
      return Error("logsumexp is for scans");
    }
    if (!node_.scan) return absl::OkStatus();
    if (node_.scan->axis < 0 || node_.scan->axis >= node_.axes.size()) {
      return Error("scans along no axis");
    }
    if (node_.scan->exclusive && HasIndex(node_.combiner)) {
      return Error("the first of an exclusive scan has no index");
    }
    return absl::OkStatus();
  }

  absl::Status Outputs() const {
    for (size_t i = 0; i < node_.outputs.size(); ++i) {
      const Tensor& tensor = graph_.tensors[node_.outputs[i]];
      if (tensor.type != (i == 0 ? node_.value->type : DType::kI64)) {
        return Error(absl::StrCat("type ", NameOf(tensor.type), " differs from the expression's"));
      }
      bool same = tensor.shape.size() == node_.axes.size();
      for (size_t a = 0; same && a < node_.axes.size(); ++a) {
        same = tensor.shape[a] == node_.axes[a].extent;
      }
      if (!same) return Error("shape differs from the axes");
    }
    if (!node_.map() && !Takes(node_.combiner, node_.value->type)) {
      return Error(absl::StrCat(NameOf(node_.combiner), " of ", NameOf(node_.value->type)));
    }
    return absl::OkStatus();
  }

  absl::Status TooDeep() const {
    return Error(absl::StrCat("an expression deeper than ", kMaxDepth));
  }

  // `depth` bounds the recursion; parts that are shared may hang deeper elsewhere, which only their
  // heights tell.
  absl::Status Types(const ExprPtr& e, int depth) {
    if (heights_.count(e.get()) > 0) return absl::OkStatus();
    if (depth > kMaxDepth) return TooDeep();
    int height = 1;
    for (const ExprPtr& arg : e->args) {
      if (arg == nullptr) return Error("an argument is missing");
      if (auto status = Types(arg, depth + 1); !status.ok()) return status;
      height = std::max(height, heights_[arg.get()] + 1);
    }
    heights_[e.get()] = height;
    switch (e->op) {
      case Op::kConst:
        return Arguments(*e, 0);
      case Op::kIndex:
        if (e->var < 0 || e->var >= node_.axes.size() + node_.reduce_axes.size() ||
            e->type != DType::kI64) {
          return Error("an index variable does not exist");
        }
        return Arguments(*e, 0);
      case Op::kLoad:
        return LoadTypes(*e);
      case Op::kCast:
        return Arguments(*e, 1);
      case Op::kSelect:
        if (auto status = Arguments(*e, 3); !status.ok()) return status;
        if (e->args[0]->type != DType::kBool || e->args[1]->type != e->type ||
            e->args[2]->type != e->type) {
          return Error("select of differing types");
        }
        return absl::OkStatus();
      default:
        return OperatorTypes(*e);
    }
  }

  absl::Status Arguments(const Expr& e, size_t count) const {
    return e.args.size() == count ? absl::OkStatus() : Error("wrong number of arguments");
  }

  absl::Status LoadTypes(const Expr& e) const {
    if (e.tensor < 0 || e.tensor >= graph_.tensors.size()) return Error("loads no tensor");
    const Tensor& tensor = graph_.tensors[e.tensor];
    if (tensor.node >= index_) {
      return Error(absl::StrCat("uses '", tensor.name, "', which is computed later"));
    }
    if (e.type != tensor.type || e.args.size() != tensor.shape.size()) {
      return Error(absl::StrCat("loads '", tensor.name, "' with another type or rank"));
    }
    for (const ExprPtr& arg : e.args) {
      if (arg->type != DType::kI64) {
        return Error(absl::StrCat("an index of '", tensor.name, "' is no i64"));
      }
    }
    return absl::OkStatus();
  }

  absl::Status OperatorTypes(const Expr& e) const {
    const OpInfo* info = FindOp(e.op);
    if (info == nullptr) return Error("an unknown operator");
    if (auto status = Arguments(e, info->args); !status.ok()) return status;
    const DType type = e.args[0]->type;
    if ((info->args == 2 && e.args[1]->type != type) || !Takes(info->accepts, type) ||
        e.type != (info->gives_bool ? DType::kBool : type)) {
      return Error(absl::StrCat("'", info->name, "' with wrong types"));
    }
    return absl::OkStatus();
  }

  // Loads and divisions that certainly happen: what stands behind a condition is left out.
  absl::Status Bounds(const ExprPtr& e) {
    if (!bounded_.insert(e.get()).second) return absl::OkStatus();
    const bool guards = e->op == Op::kSelect || e->op == Op::kAnd || e->op == Op::kOr;
    for (size_t i = 0; i < (guards ? 1 : e->args.size()); ++i) {
      if (auto status = Bounds(e->args[i]); !status.ok()) return status;
    }
    if (e->op == Op::kLoad) return LoadBounds(*e);
    if ((e->op == Op::kDiv || e->op == Op::kMod) && !IsFloat(e->type)) {
      return FindPoint(
          e->args[1], [](int64_t divisor) { return divisor == 0; },
          [](int64_t, const std::string&) { return "divides by zero"; });
    }
    return absl::OkStatus();
  }

  absl::Status LoadBounds(const Expr& e) const {
    const Tensor& tensor = graph_.tensors[e.tensor];
    for (size_t a = 0; a < e.args.size(); ++a) {
      const int64_t extent = tensor.shape[a];
      const auto bounds = BoundsOf(e.args[a], RangesOf(node_));
      if (bounds && bounds->low >= 0 && bounds->high < extent) continue;
      auto status = FindPoint(
          e.args[a], [&](int64_t index) { return index < 0 || index >= extent; },
          [&](int64_t index, const std::string& where) {
            return absl::StrCat("loads '", tensor.name, "' out of bounds: its axis ", a,
                                " has extent ", extent, " but ",
                                PrintExpr(graph_, node_, e.args[a]), " is ", index, where);
          });
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  // An error if `wrong` holds at a corner of the axes' ranges, where an affine expression is at its
  // extremes. Expressions that load have no value here and pass.
  template <class Wrong, class Message>
  absl::Status FindPoint(const ExprPtr& e, Wrong wrong, Message message) const {
    const auto ranges = RangesOf(node_);
    std::vector<int> used;
    for (int v = 0; v < ranges.size(); ++v) {
      if (ranges[v].high > 0 && Uses(e, v)) used.push_back(v);
    }
    if (used.size() > kMaxCornerAxes) return absl::OkStatus();
    for (int corner = 0; corner < (1 << used.size()); ++corner) {
      std::vector<int64_t> point(ranges.size(), 0);
      std::vector<std::string> where;
      for (size_t i = 0; i < used.size(); ++i) {
        if (corner >> i & 1) point[used[i]] = ranges[used[i]].high;
        where.push_back(
            absl::StrCat(PrintExpr(graph_, node_, Index(used[i])), " = ", point[used[i]]));
      }
      const auto value = EvaluateAt(*e, point);
      if (!value || !wrong(*value)) continue;
      return Error(message(*value, where.empty()
                                       ? std::string()
                                       : absl::StrCat(" at ", absl::StrJoin(where, ", "))));
    }
    return absl::OkStatus();
  }

  static bool Uses(const ExprPtr& e, int variable) {
    if (e->op == Op::kIndex) return e->var == variable;
    for (const ExprPtr& arg : e->args) {
      if (Uses(arg, variable)) return true;
    }
    return false;
  }

  static constexpr int kMaxCornerAxes = 10;

  const Graph& graph_;
  const Node& node_;
  const int index_;
  std::unordered_map<const Expr*, int> heights_;  // of what was typed; a leaf has 1
  std::unordered_set<const Expr*> bounded_;
};

absl::Status ValidateTensors(const Graph& graph) {
  std::set<std::string> names;
  const int count = static_cast<int>(graph.tensors.size());
  for (const Tensor& tensor : graph.tensors) {
    const auto error = [&](const std::string& message) {
      return Wrong(absl::StrCat("tensor '", tensor.name, "': ", message));
    };
    if (!IsName(tensor.name)) return error("is no name");
    if (!names.insert(tensor.name).second) return error("is defined twice");
    if (tensor.shape.size() > kMaxRank) return error(absl::StrCat("rank above ", kMaxRank));
    int64_t elements = 1;
    for (int64_t extent : tensor.shape) {
      if (extent < 1) return error(absl::StrCat("extent ", extent, " is less than 1"));
      if (extent > kMaxElements / elements) {
        return error(absl::StrCat("more than ", kMaxElements, " elements"));
      }
      elements *= extent;
    }
    if ((tensor.node < 0) != (tensor.role != Role::kIntermediate) ||
        tensor.node >= static_cast<int>(graph.nodes.size())) {
      return error("its producer does not fit its role");
    }
    if (tensor.inout && tensor.role != Role::kState) return error("is inout, and no state");
  }
  std::vector<int> produced(count, 0);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    for (int output : graph.nodes[n].outputs) {
      if (output < 0 || output >= count || graph.tensors[output].node != n || produced[output]++) {
        return Wrong(absl::StrCat("node ", n, ": its outputs are not its own"));
      }
    }
  }
  for (int t = 0; t < count; ++t) {
    if (graph.tensors[t].node >= 0 && produced[t] == 0) {
      return Wrong(absl::StrCat("tensor '", graph.tensors[t].name, "': no node produces it"));
    }
  }
  return absl::OkStatus();
}

absl::Status ValidateResults(const Graph& graph) {
  const int count = static_cast<int>(graph.tensors.size());
  if (graph.outputs.empty() && graph.updates.empty()) {
    return Wrong("the graph has no output and no update");
  }
  std::set<int> seen;
  for (int output : graph.outputs) {
    if (output < 0 || output >= count) return Wrong("an output does not exist");
    if (!seen.insert(output).second) {
      return Wrong(absl::StrCat("'", graph.tensors[output].name, "' is an output twice"));
    }
  }
  std::set<int> states;
  for (const Graph::Update& update : graph.updates) {
    if (update.state < 0 || update.state >= count || update.value < 0 || update.value >= count) {
      return Wrong("an update names a tensor that does not exist");
    }
    const Tensor& state = graph.tensors[update.state];
    const Tensor& value = graph.tensors[update.value];
    if (state.role != Role::kState) return Wrong(absl::StrCat("'", state.name, "' is no state"));
    if (!states.insert(update.state).second) {
      return Wrong(absl::StrCat("'", state.name, "' is updated twice"));
    }
    if (state.type != value.type || state.shape != value.shape) {
      return Wrong(absl::StrCat("update of '", state.name, "': '", value.name,
                                "' differs in type or shape"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Validate(const Graph& graph) {
  if (auto status = ValidateTensors(graph); !status.ok()) return status;
  for (int n = 0; n < graph.nodes.size(); ++n) {
    if (auto status = NodeValidator(graph, n).Run(); !status.ok()) return status;
  }
  return ValidateResults(graph);
}

}  // namespace warpsmith::graph
