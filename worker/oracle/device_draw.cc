// Inputs as they are drawn, and a node's value at one place.
#include <cmath>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "worker/oracle/device_source.h"
#include "worker/oracle/device_text.h"

namespace warpsmith::oracle {
namespace {

using graph::DType;
using graph::Expr;
using graph::Graph;
using graph::IsFloat;
using graph::Node;
using graph::Tensor;

// What a param's values are about as large as, for perturbing it in proportion.
double TypicalSize(const graph::Distribution& d) {
  switch (d.kind) {
    case graph::Distribution::Kind::kNormal:
      return std::abs(d.low) + 0.8 * std::abs(d.high);
    case graph::Distribution::Kind::kUniform:
      return 0.5 * std::max(std::abs(d.low), std::abs(d.high));
    default:
      return std::abs(d.low);
  }
}

// The drawn number `x`, a double, in the type.
std::string Drawn(DType type) {
  if (type == DType::kBool) return "x > 0";  // normal: one in two
  return graph::IsNarrow(type) ? CastText(DType::kF64, type, Pass::kExact, "x") : "x";
}

}  // namespace

Code DrawCode(const Graph& graph, int tensor, const std::string& name) {
  const Tensor& t = graph.tensors[tensor];
  const graph::Distribution& d = t.distribution;
  const int64_t count = t.elements();
  Code code;
  code.kernels.push_back({name, {{Operand::kControl, 0}, {Operand::kTensor, tensor}}, count});
  std::string text = Begin(name, {"const i64* control", StorageType(t.type) + "* out"}, count);
  absl::StrAppend(&text, "    const i64 variation = control[1]; (void)variation;\n",
                  "    const uint4 r = philox((u64)control[0], ", tensor,
                  "ull, (u64)n); (void)r;\n");
  std::string low = FloatText(d.low, "double"), high = FloatText(d.high, "double");
  std::string value;
  switch (d.kind) {
    case graph::Distribution::Kind::kNormal:
      value = absl::StrCat(low, " + ", high, " * (double)normal(r.x, r.y)");
      break;
    case graph::Distribution::Kind::kUniform:
      value = absl::StrCat(low, " + (", high, " - ", low, ") * unit(r.x, r.y)");
      break;
    case graph::Distribution::Kind::kIntegers:
      value = absl::StrCat("floor(", low, " + (", high, " - ", low, ") * unit(r.x, r.y))");
      break;
    case graph::Distribution::Kind::kConstant:
      value = low;
      break;
  }
  absl::StrAppend(&text, "    double x = ", value, ";\n");
  if (IsFloat(t.type) && t.given()) {
    // The numbers are those of Variation.
    text +=
        "    switch ((int)variation) {\n"
        "      case 1: x *= 3; break;\n"
        "      case 2: x *= 0.01; break;\n"
        "      case 3: x = -x; break;\n"
        "      case 4: x = (double)normal(r.z, r.w); break;\n"
        "      case 7: x = rint((double)normal(r.z, r.w)) + 0.5; break;\n"
        "      case 5: x *= exp(2.0 * (double)normal(r.z, r.w)); break;\n"
        "      default: break;\n"
        "    }\n";
  }
  if (IsFloat(t.type) && t.role == graph::Role::kParam) {
    double amount = 0.1 * std::max(0.05, TypicalSize(d));
    absl::StrAppend(&text, "    if (variation == 6) x += ", FloatText(amount, "double"),
                    " * (double)normal(r.z, r.w);\n");
  }
  absl::StrAppend(&text, "    out[n] = ", StoreText(t.type, Drawn(t.type)), ";\n", kEnd);
  code.source = text;
  return code;
}

std::string ValueFunction(const Graph& graph, int node, const std::string& name,
                          std::vector<int>* tensors) {
  const Node& n = graph.nodes[node];
  std::set<const Expr*> seen;
  tensors->clear();
  Collect(n.value, seen, *tensors);
  std::vector<std::string> parameters;
  for (int t : *tensors) {
    parameters.push_back(
        absl::StrCat("const ", HeldType(graph.tensors[t], Pass::kExact), "* t", t));
  }
  parameters.push_back("i64 e");
  parameters.push_back("i64 k");
  std::string text =
      absl::StrCat("static __device__ ", ComputeType(n.value->type, Pass::kExact), " ", name, "(",
                   absl::StrJoin(parameters, ", "), ") {\n  (void)e; (void)k;\n");
  if (n.scan) {
    int64_t inner = 1;
    for (size_t a = n.scan->axis + 1; a < n.axes.size(); ++a) inner *= n.axes[a].extent;
    absl::StrAppend(&text, "  e += (k - e / ", inner, "ll % ", n.axes[n.scan->axis].extent,
                    "ll) * ", inner, "ll;\n");
  }
  text += Decode(n.axes, 0, "e", 2);
  text += Decode(n.reduce_axes, static_cast<int>(n.axes.size()), "k", 2);
  std::string value = ExprWriter(graph, Pass::kExact, &text, 2).Write(n.value);
  absl::StrAppend(&text, "  return ", value, ";\n}\n");
  return text;
}

}  // namespace warpsmith::oracle
