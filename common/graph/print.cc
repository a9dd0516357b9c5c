// The canonical text of a graph. Literals are written so that reading them back gives the same bits
// and the same type.
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/check.h"
#include "common/graph/graph.h"
#include "common/graph/numeric.h"
#include "common/graph/operators.h"

namespace warpsmith::graph {
namespace {

template <class T>
std::string Shortest(T value) {
  std::array<char, 64> buffer;
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  return std::string(buffer.data(), result.ptr);
}

std::string PrintNumber(DType type, double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::string text = Shortest(static_cast<float>(value));
  // The shortest digits of a double always suffice; those of a float nearly always do.
  if (type == DType::kF64 || RoundTo(type, std::strtod(text.c_str(), nullptr)) != value) {
    text = Shortest(value);
  }
  if (value == 0 && std::signbit(value)) return "-0.0";  // -0 would be the integer 0
  // Digits alone are an integer, which this would be too large for.
  if (std::fabs(value) >= 0x1p63 && text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

class Printer {
 public:
  Printer(const Graph& graph, const Node& node) : graph_(graph), node_(node) {}

  // `known`: the surroundings give literals in it their type. Parenthesised where it binds less
  // tightly than `precedence`.
  std::string Print(const ExprPtr& e, int precedence, bool known) const {
    switch (e->op) {
      case Op::kConst:
        return Literal(*e, known);
      case Op::kIndex:
        return AxisName(e->var);
      case Op::kLoad:
        return absl::StrCat(graph_.tensors[e->tensor].name, "[", List(e->args, true), "]");
      case Op::kCast:
        return absl::StrCat(NameOf(e->type), "(", Print(e->args[0], 0, false), ")");
      case Op::kSelect: {
        const bool typed = known || Natural(e->args[1]) || Natural(e->args[2]);
        return absl::StrCat("select(", Print(e->args[0], 0, true), ", ",
                            Print(e->args[1], 0, typed), ", ", Print(e->args[2], 0, typed), ")");
      }
      default:
        return Operation(*e, precedence, known);
    }
  }

 private:
  // Whether the text alone tells the type.
  static bool Natural(const ExprPtr& e) {
    switch (e->op) {
      case Op::kConst:
        return e->type == DType::kBool;
      case Op::kIndex:
      case Op::kLoad:
      case Op::kCast:
        return true;
      case Op::kSelect:
        return Natural(e->args[1]) || Natural(e->args[2]);
      default:
        break;
    }
    if (FindOp(e->op)->gives_bool) return true;
    return Natural(e->args[0]) || (e->args.size() == 2 && Natural(e->args[1]));
  }

  std::string Literal(const Expr& e, bool known) const {
    if (e.type == DType::kBool) return e.integer != 0 ? "true" : "false";
    const std::string text =
        IsFloat(e.type) ? PrintNumber(e.type, e.number) : absl::StrCat(e.integer);
    return known ? text : absl::StrCat(NameOf(e.type), "(", text, ")");
  }

  std::string AxisName(int var) const {
    if (var < node_.axes.size()) return node_.axes[var].name;
    const size_t reduced = var - node_.axes.size();
    WS_CHECK(reduced < node_.reduce_axes.size(), absl::StrCat("no index variable ", var));
    return node_.reduce_axes[reduced].name;
  }

  std::string List(const std::vector<ExprPtr>& items, bool known) const {
    std::vector<std::string> texts;
    for (const ExprPtr& item : items) texts.push_back(Print(item, 0, known));
    return absl::StrJoin(texts, ", ");
  }

  std::string Operation(const Expr& e, int precedence, bool known) const {
    const OpInfo& info = *FindOp(e.op);
    // What gives bool says nothing of its operands' type, but they say it of each other.
    bool typed = info.accepts == Accepts::kBool || (!info.gives_bool && known);
    for (const ExprPtr& arg : e.args) typed = typed || Natural(arg);
    if (info.precedence == 0) return absl::StrCat(info.name, "(", List(e.args, typed), ")");
    std::string text;
    if (e.args.size() == 1) {
      const char* space = e.op == Op::kNot ? " " : "";
      text = absl::StrCat(info.name, space, Print(e.args[0], info.precedence + 1, typed));
    } else {
      const bool chains = info.precedence != kComparePrecedence;
      text = absl::StrCat(Print(e.args[0], info.precedence + !chains, typed), " ", info.name, " ",
                          Print(e.args[1], info.precedence + 1, typed));
    }
    return info.precedence < precedence ? absl::StrCat("(", text, ")") : text;
  }

  const Graph& graph_;
  const Node& node_;
};

std::string PrintAxes(const std::vector<Axis>& axes) {
  if (axes.empty()) return "";
  std::vector<std::string> items;
  for (const Axis& axis : axes) items.push_back(absl::StrCat(axis.name, ": ", axis.extent));
  return absl::StrCat("[", absl::StrJoin(items, ", "), "]");
}

std::string PrintDistribution(const Distribution& d) {
  const std::string low = PrintNumber(DType::kF64, d.low);
  const std::string high = PrintNumber(DType::kF64, d.high);
  switch (d.kind) {
    case Distribution::Kind::kNormal:
      return d.low == 0 && d.high == 1 ? "normal" : absl::StrCat("normal(", low, ", ", high, ")");
    case Distribution::Kind::kUniform:
      return absl::StrCat("uniform(", low, ", ", high, ")");
    case Distribution::Kind::kIntegers:
      return absl::StrCat("integers(", low, ", ", high, ")");
    case Distribution::Kind::kConstant:
      return absl::StrCat("constant(", low, ")");
  }
  return "";
}

std::string PrintInput(const Tensor& tensor) {
  const char* role = tensor.role == Role::kInput   ? "input"
                     : tensor.role == Role::kParam ? "param"
                     : tensor.inout                ? "inout"
                                                   : "state";
  const std::string shape =
      tensor.shape.empty() ? "" : absl::StrCat("[", absl::StrJoin(tensor.shape, ", "), "]");
  return absl::StrCat(role, " ", tensor.name, ": ", NameOf(tensor.type), shape, " ~ ",
                      PrintDistribution(tensor.distribution));
}

std::string PrintNode(const Graph& graph, const Node& node) {
  std::vector<std::string> names;
  for (int output : node.outputs) names.push_back(graph.tensors[output].name);
  const std::string head = absl::StrCat(absl::StrJoin(names, ", "), ": ", NameOf(node.value->type),
                                        PrintAxes(node.axes), " = ");
  const std::string value = PrintExpr(graph, node, node.value);
  if (node.scan) {
    return absl::StrCat(head, ScanNameOf(node.combiner), "[", node.axes[node.scan->axis].name,
                        node.scan->reverse ? ", reverse" : "",
                        node.scan->exclusive ? ", exclusive" : "", "](", value, ")");
  }
  if (!node.reduce) return head + value;
  return absl::StrCat(head, NameOf(node.combiner), PrintAxes(node.reduce_axes), "(", value, ")");
}

}  // namespace

std::string PrintExpr(const Graph& graph, const Node& node, const ExprPtr& e) {
  return Printer(graph, node).Print(e, 0, true);
}

std::vector<std::string> Print(const Graph& graph) {
  std::vector<std::string> lines;
  // Tensors are numbered in the order of their lines.
  for (size_t t = 0; t < graph.tensors.size(); ++t) {
    const Tensor& tensor = graph.tensors[t];
    if (tensor.node < 0) {
      lines.push_back(PrintInput(tensor));
    } else if (graph.nodes[tensor.node].outputs[0] == static_cast<int>(t)) {
      lines.push_back(PrintNode(graph, graph.nodes[tensor.node]));
    }
  }
  for (int output : graph.outputs) {
    lines.push_back(absl::StrCat("output ", graph.tensors[output].name));
  }
  for (const Graph::Update& update : graph.updates) {
    lines.push_back(absl::StrCat("update ", graph.tensors[update.state].name, " = ",
                                 graph.tensors[update.value].name));
  }
  return lines;
}

}  // namespace warpsmith::graph
