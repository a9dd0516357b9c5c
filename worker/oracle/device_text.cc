#include "worker/oracle/device_text.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace warpsmith::oracle {

using graph::Axis;
using graph::Expr;
using graph::ExprPtr;
using graph::Op;

int64_t Extent(const std::vector<Axis>& axes) {
  int64_t n = 1;
  for (const Axis& axis : axes) n *= axis.extent;
  return n;
}

void Collect(const ExprPtr& e, std::set<const Expr*>& seen, std::vector<int>& tensors) {
  if (!seen.insert(e.get()).second) return;
  if (e->op == Op::kLoad && std::find(tensors.begin(), tensors.end(), e->tensor) == tensors.end()) {
    tensors.push_back(e->tensor);
  }
  for (const ExprPtr& a : e->args) Collect(a, seen, tensors);
}

std::string Decode(const std::vector<Axis>& axes, int first, const std::string& from, int indent) {
  const std::string pad(indent, ' ');
  if (axes.empty()) return "";
  const char* type = Extent(axes) < (int64_t{1} << 31) ? "unsigned" : "u64";
  std::string rest = absl::StrCat("r", first), text;
  absl::StrAppend(&text, pad, type, " ", rest, " = (", type, ")", from, ";\n");
  for (int i = static_cast<int>(axes.size()) - 1; i >= 0; --i) {
    std::string extent =
        absl::StrCat(axes[i].extent, Extent(axes) < (int64_t{1} << 31) ? "u" : "ull");
    if (i == 0) {
      absl::StrAppend(&text, pad, "const i64 v", first, " = (i64)", rest, ";\n");
    } else {
      absl::StrAppend(&text, pad, "const i64 v", first + i, " = (i64)(", rest, " % ", extent, "); ",
                      rest, " /= ", extent, ";\n");
    }
  }
  return text;
}

std::string Begin(const std::string& name, const std::vector<std::string>& parameters,
                  int64_t count) {
  return absl::StrCat("extern \"C\" __global__ void ", name, "(", absl::StrJoin(parameters, ", "),
                      ") {\n  const i64 stride = (i64)gridDim.x * blockDim.x;\n"
                      "  for (i64 n = (i64)blockIdx.x * blockDim.x + threadIdx.x; n < ",
                      count, "ll; n += stride) {\n");
}
}  // namespace warpsmith::oracle
