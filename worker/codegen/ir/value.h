// What one group computes, as a graph of values in which equal values are one.
//
// Maps are inlined, index arithmetic is simplified (index.h), a load knows its position in its
// tensor and the condition under which it may happen, so that everything else can be computed
// eagerly and in any place where its variables are known. The emitter (emit.h) writes values as
// statements.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "common/graph/graph.h"
#include "worker/codegen/ir/index.h"

namespace warpsmith::codegen {

struct Value {
  enum class Kind {
    kConst,    // number (floats) or integer (integers, bool)
    kIndex,    // index, as an i64
    kCompare,  // op kLe: 0 <= index; kEq: index == 0
    kLoad,     // element `index` of `tensor`; args: the condition it needs, or none
    kOp,       // op of args
    kResult,   // of the reduce `node` of an earlier stage
    kReduce,   // loop in the thread over `loops` combining args[0]
  };
  Kind kind;
  graph::DType type;
  graph::Op op = graph::Op::kConst;
  double number = 0;
  int64_t integer = 0;
  Index index;
  int tensor = -1;
  int node = -1;
  // kResult, kReduce: 0 value, 1 index of argmax and argmin, kScanEnd. A logarithm: 0, or of what
  // is the sum of two, kLogRest and kLogWhole.
  int output = 0;
  std::vector<Variable> loops;  // kReduce, outermost first
  std::vector<const Value*> args;

  int id = 0;
  uint64_t variables = 0;  // mask of free variables
  int stage = -1;          // last stage whose result it depends on, -1: none
  bool loads = false;      // depends on memory
};
using ValuePtr = const Value*;

// What a scan comes to at its axis' end, as an output of it.
inline constexpr int kScanEnd = 2;
// Parts of a logarithm (ws::log_rest, ws::log_whole).
inline constexpr int kLogRest = 1, kLogWhole = 2;

class Values {
 public:
  Variable NewVariable(const std::string& name, Range range, int64_t multiple = 1);
  bool full() const { return next_variable_ > kMaxVariables; }  // a value used too many variables

  ValuePtr Const(graph::DType type, double number);
  ValuePtr ConstInt(graph::DType type, int64_t integer);
  ValuePtr Bool(bool b) { return ConstInt(graph::DType::kBool, b); }
  ValuePtr OfIndex(const Index& index);
  ValuePtr Compare(graph::Op op, const Index& index);  // decided by the range where possible
  // `guard`: nullptr for none.
  ValuePtr Load(int tensor, graph::DType type, const Index& position, ValuePtr guard);
  ValuePtr Op(graph::Op op, graph::DType type, std::vector<ValuePtr> args);
  ValuePtr Result(int node, int output, int stage, graph::DType type, uint64_t variables);
  ValuePtr Reduce(int node, int output, graph::DType type, std::vector<Variable> loops,
                  ValuePtr body);

  ValuePtr Get(int id) const { return values_[id].get(); }
  Range RangeOf(ValuePtr value) const;  // of integers
  // The value as an index: itself if it is one, else as an opaque atom.
  Index AsIndex(ValuePtr value) const;

  // Arguments, and values that stand in its index expression.
  void ForEachChild(ValuePtr value, const std::function<void(ValuePtr)>& f) const;
  // Every value that `roots` need, each once, arguments first; of one for which `known` holds not
  // what that needs.
  std::vector<ValuePtr> Closure(const std::vector<ValuePtr>& roots,
                                const std::function<bool(ValuePtr)>& known = nullptr) const;

 private:
  // By what a value is made of; of a kResult, its node and output say all.
  struct SameContent {
    size_t operator()(ValuePtr value) const;
    bool operator()(ValuePtr a, ValuePtr b) const;
  };
  ValuePtr Intern(Value value);
  ValuePtr PartOfLog(ValuePtr log, int part);

  std::vector<std::unique_ptr<Value>> values_;
  absl::flat_hash_set<ValuePtr, SameContent, SameContent> interned_;
  int next_variable_ = 0;
};

// Simple operations that an operator takes.
double StepsOf(graph::Op op);
bool IsConst(ValuePtr value, int64_t integer);  // an integer or bool constant of this value
// Calls f for the id of every opaque value in an index.
void ForEachOpaque(const Index& index, const std::function<void(int)>& f);

}  // namespace warpsmith::codegen
