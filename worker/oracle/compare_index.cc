// Indexes judged by the values they point at.
#include <functional>
#include <memory>

#include "absl/strings/str_cat.h"
#include "worker/oracle/compare.h"
#include "worker/oracle/compare_text.h"
#include "worker/oracle/device_prelude.h"
#include "worker/oracle/device_source.h"
#include "worker/oracle/errors.h"

namespace warpsmith::oracle {
namespace {

using graph::Expr;
using graph::ExprPtr;
using graph::Graph;
using graph::Node;
using graph::Op;

constexpr absl::Duration kCompileLimit = absl::Minutes(1);
constexpr int kMostInlined = 10000;  // expressions; beyond, indexes have to be the same

// The expression with every tensor that a map gives replaced by that map, or null where a reduce
// or a scan stands behind it.
ExprPtr Inlined(const Graph& graph, const ExprPtr& e, int* left) {
  if (--*left < 0) return nullptr;
  auto copy = std::make_shared<Expr>(*e);
  for (ExprPtr& a : copy->args) {
    a = Inlined(graph, a, left);
    if (a == nullptr) return nullptr;
  }
  if (e->op != Op::kLoad || graph.tensors[e->tensor].node < 0) return copy;
  const Node& from = graph.nodes[graph.tensors[e->tensor].node];
  if (!from.map()) return nullptr;
  return Inlined(graph, graph::Substitute(from.value, copy->args), left);
}

int64_t Extent(const std::vector<graph::Axis>& axes) {
  int64_t n = 1;
  for (const graph::Axis& axis : axes) n *= axis.extent;
  return n;
}

constexpr char kIndexText[] = R"cuda(
extern "C" __global__ void indexes(const i64* control, const i64* got, const i64* want, $PARAMETERS,
                                   i64* stats) {
  const i64 count = control[0];
  u64 poison = (u64)control[1] & 0xffffffffu;
  poison |= poison << 32;
  const double absolute = __longlong_as_double(control[2]);
  const double relative = __longlong_as_double(control[3]);
  Stats s = nothing();
  const i64 threads = (i64)gridDim.x * blockDim.x;
  const i64 me = (i64)blockIdx.x * blockDim.x + threadIdx.x;
  for (i64 n = me; n < count; n += threads) {
    const i64 g = got[n], w = want[n];
    ++s.finite;
    if (g == w) continue;
    bool right = false;
    if ($MAY_BE) {
      const double mine = (double)value($ARGUMENTS, n, g), theirs = (double)value($ARGUMENTS, n, w);
      const double off = fabs(mine - theirs), size = fabs(theirs);
      if (mine == theirs || (is_nan(mine) && is_nan(theirs)) || off <= $ROUNDING * size) continue;
      right = off <= absolute * fmin(1.0, size) + relative * size;
    }
    if (right) s.squares += 1;
    if (right) continue;
    note(s.beyond, s.first_beyond, n);
    if ((u64)g == poison) note(s.unwritten, s.first_unwritten, n);
  }
  keep(s, stats, threads, me);
}
)cuda";

// Whether the index `g` is of an element that the result at position `n` was combined from.
std::string MayBe(const Node& node) {
  if (node.reduce) return absl::StrCat("g >= 0 && g < ", Extent(node.reduce_axes), "ll");
  const int axis = node.scan->axis;
  const int64_t inner = Extent({node.axes.begin() + axis + 1, node.axes.end()});
  const std::string own = absl::StrCat("n / ", inner, "ll % ", node.axes[axis].extent, "ll");
  if (!node.scan->reverse) return absl::StrCat("g >= 0 && g <= ", own);
  return absl::StrCat("g >= ", own, " && g < ", node.axes[axis].extent, "ll");
}

std::string Replaced(std::string text, const std::string& what, const std::string& by) {
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size())) {
    text.replace(at, what.size(), by);
  }
  return text;
}

}  // namespace

absl::StatusOr<std::unique_ptr<IndexRule>> Comparer::MakeIndexRule(const Graph& graph, int tensor,
                                                                   device::Compiler& compiler) {
  const int number = graph.tensors[tensor].node;
  if (number < 0) return nullptr;
  const Node& node = graph.nodes[number];
  if (node.outputs.size() != 2 || node.outputs[1] != tensor) return nullptr;
  if (!graph::IsFloat(node.value->type)) return nullptr;
  int left = kMostInlined;
  ExprPtr value = Inlined(graph, node.value, &left);
  // An input's own values have no rounding: the first of equals is the answer.
  if (value == nullptr || value->op == Op::kLoad) return nullptr;

  Graph inlined = graph;
  inlined.nodes[number].value = value;
  auto rule = std::make_unique<IndexRule>();
  std::string function = ValueFunction(inlined, number, "value", &rule->inputs);
  if (rule->inputs.empty()) return nullptr;
  std::string parameters, arguments;
  for (int t : rule->inputs) {
    const char* comma = parameters.empty() ? "" : ", ";
    absl::StrAppend(&parameters, comma, "const ", StorageType(graph.tensors[t].type), "* t", t);
    absl::StrAppend(&arguments, comma, "t", t);
  }
  std::string kernel = Replaced(kIndexText, "$PARAMETERS", parameters);
  kernel = Replaced(kernel, "$ARGUMENTS", arguments);
  kernel = Replaced(kernel, "$MAY_BE", MayBe(node));
  kernel = Replaced(kernel, "$ROUNDING", absl::StrCat(ErrorFloor(node.value->type)));
  auto binary =
      compiler.Compile(absl::StrCat(kDevicePrelude, kCompareText, function, kernel), kCompileLimit);
  if (!binary.ok()) {
    return absl::Status(
        binary.status().code(),
        absl::StrCat("the judge's kernel for indexes: ", std::string(binary.status().message())));
  }
  auto program =
      LoadKernel(*binary, "indexes", static_cast<int>(rule->inputs.size()) + 3, /*merged=*/true);
  if (!program.ok()) return program.status();
  rule->program = *std::move(program);
  return rule;
}

absl::StatusOr<Difference> Comparer::CompareIndexes(IndexRule& rule, device::Memory& got,
                                                    device::Memory& want,
                                                    absl::Span<device::Memory* const> inputs,
                                                    int64_t elements, double absolute,
                                                    double relative, uint32_t poison) {
  std::vector<device::Memory*> compared = {&got, &want};
  compared.insert(compared.end(), inputs.begin(), inputs.end());
  return RunComparison(*rule.program, compared, elements, absolute, relative, poison);
}

}  // namespace warpsmith::oracle
