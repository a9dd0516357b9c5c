#include "common/graph/operations.h"

#include <algorithm>
#include <unordered_map>

#include "common/graph/operators.h"

namespace warpsmith::graph {
namespace {

// Each part is counted wherever it stands, but looked at once.
class OperationCounter {
 public:
  Operations Of(const ExprPtr& e) {
    if (auto it = done_.find(e.get()); it != done_.end()) return it->second;
    Operations sum;
    for (const ExprPtr& arg : e->args) {
      const Operations inner = Of(arg);
      sum.all += inner.all;
      sum.transcendental += inner.transcendental;
    }
    if (e->op == Op::kSelect) {
      const Operations a = Of(e->args[1]), b = Of(e->args[2]);
      sum.all -= std::min(a.all, b.all);
      sum.transcendental -= std::min(a.transcendental, b.transcendental);
    }
    if (FindOp(e->op) != nullptr && IsFloat(e->args[0]->type)) {
      sum.all += 1;
      sum.transcendental += IsTranscendental(e->op);
    }
    return done_[e.get()] = sum;
  }

 private:
  std::unordered_map<const Expr*, Operations> done_;
};

}  // namespace

bool IsTranscendental(Op op) {
  switch (op) {
    case Op::kDiv:
    case Op::kPow:
    case Op::kAtan2:
    case Op::kSqrt:
    case Op::kRsqrt:
    case Op::kExp:
    case Op::kExp2:
    case Op::kExpm1:
    case Op::kLog:
    case Op::kLog2:
    case Op::kLog1p:
    case Op::kTanh:
    case Op::kErf:
    case Op::kSin:
    case Op::kCos:
      return true;
    default:
      return false;
  }
}

Operations OperationsOf(const ExprPtr& e) { return OperationCounter().Of(e); }

}  // namespace warpsmith::graph
