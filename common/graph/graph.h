// The graph language: what is to be computed, independent of how.
//
// A graph has typed tensors with static shapes and nodes of three kinds. A `map` gives each element
// of its output as an expression over elements of other tensors; a `reduce` combines such an
// expression over axes; a `scan` combines it along an axis up to each element. They are written the
// way one writes them on paper, a line each:
//
//   input x: f32[R, C] ~ normal
//   m: f32[r: R] = max[c: C](x[r, c])
//   e: f32[r: R, c: C] = exp(x[r, c] - m[r])
//   s: f32[r: R] = sum[c: C](e[r, c])
//   y: f32[r: R, c: C] = e[r, c] / s[r]
//   output y
//
// and scans, forwards or in reverse, each element with or without its own value:
//
//   a: f32[r: R, c: C] = cumsum[c](x[r, c])
//   b: f32[r: R, c: C] = cumprod[r, reverse, exclusive](x[r, c])
//   v, i: f32[r: R, c: C] = cumargmax[c](x[r, c])
//
// The text is also the stored form (Problem.graph). It is parsed under one workload's values for
// the named dimensions, so a Graph has only numbers in it; `Print` gives the canonical text.
//
// Meaning, exactly:
//  * Every expression has a type; both sides of an operator have the same one, and rounding happens
//    only at casts, written as the type: f64(x[i]). (Contraction to FMA and the order of a
//    floating-point sum are free.) A bare literal takes the type of what it is combined with.
//  * min, max, clamp and the max/min/argmax/argmin reduces propagate NaN; ties of argmax and argmin
//  go
//    to the first element in row-major order of the reduce axes; the index is its linear position.
//  * A scan goes along its axis from 0 to the end, in reverse from the end to 0, and gives at each
//    place what its combiner makes of the values from the start to there; an exclusive one leaves
//    that place's own value out, so that the first is what nothing combines to: 0 of a sum, 1 of a
//    product, the type's infinity (or end, or bool) that loses of max and min, -inf of logsumexp.
//    cumargmax and cumargmin give the *last* met of equals, as PyTorch's cummax does, and of NaNs;
//    the index is the position on the axis, whichever way the scan goes.
//  * Integers wrap; integer / is floor division and % has the divisor's sign. Indexes are i64.
//    Integer division by zero is an error of the graph. sign(NaN) is 0, as in PyTorch.
//  * A float cast to an integer is truncated; what lies beyond the integer's range, infinities
//    included, becomes the nearest end of it. NaN becomes 0, but the smallest integer where f64
//    becomes i32 and where anything becomes i64: what the conversions of a CUDA card give (PTX ISA,
//    cvt), and PyTorch there (whose casts to bytes wrap instead). To bool everything but 0 is true,
//    NaN too.
//  * select(c, a, b) evaluates only the side it takes, and `and`/`or` short-circuit, so an
//    out-of-bounds load behind a false condition does not happen. Any other is an error of the
//    graph.
//  * An index may be any i64 expression, loads included (gather).
//
// Everything here is immutable after construction or plain data; functions are pure and
// thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/graph/roof.h"

namespace warpsmith::graph {

// Limits; a text or a graph beyond them is an InvalidArgument.
inline constexpr int kMaxRank = 16;  // axes and reduce axes of a node together
inline constexpr int64_t kMaxElements = int64_t{1} << 40;  // of a tensor
inline constexpr int64_t kMaxPoints = int64_t{1} << 48;    // of a node's axes and reduce axes
inline constexpr int kMaxLines = 1 << 14;                  // of a text
inline constexpr int kMaxLineBytes = 1 << 16;
inline constexpr int kMaxNesting = 256;  // of parentheses and calls in a line
inline constexpr int kMaxDepth = 1024;   // of an expression; a + b + c has 3

enum class DType { kBool, kI8, kU8, kI32, kI64, kF16, kBF16, kF32, kF64 };

// [A-Za-z_][A-Za-z0-9_.]*, and none of and, or, not, inf, nan, true, false: what tensors and axes
// may be called.
bool IsName(const std::string& text);

int64_t SizeOf(DType type);      // bytes in memory; bool is 1
const char* NameOf(DType type);  // "bool", "i8", "u8", "i32", "i64", "f16", "bf16", "f32", "f64"
bool IsFloat(DType type);
bool IsInteger(DType type);  // i8, u8, i32, i64
bool IsNarrow(DType type);   // i8, u8: integers of a byte

enum class Op {
  kConst,  // `number` (floats) or `integer` (integers, bool)
  kIndex,  // the node's index variable `var`, an i64: axes first, then reduce axes
  kLoad,   // element of `tensor` at args (i64, one for each of its axes)
  // binary
  kAdd,
  kSub,
  kMul,
  kDiv,
  kMod,
  kMin,
  kMax,
  kPow,
  kAtan2,
  kRandom,  // of i64: 24 random bits, a number below 2^24, of a seed and a place (numeric.h)
  kLt,
  kLe,
  kEq,
  kNe,
  kAnd,
  kOr,  // give bool; a > b is written as b < a
  // unary
  kNeg,
  kAbs,
  kSign,
  kSqrt,
  kRsqrt,
  kExp,
  kExp2,
  kExpm1,
  kLog,
  kLog2,
  kLog1p,
  kTanh,
  kErf,
  kSin,
  kCos,
  kFloor,
  kCeil,
  kRound,
  kTrunc,       // round: ties to even
  kE4m3,        // the nearest of float8_e4m3fn's numbers, ties to even; NaN beyond 464
  kE4m3OfBits,  // the number of float8_e4m3fn whose bits this is, 0 to 255, rounded down; NaN
                // elsewhere
  kNot,
  kIsNan,  // kNot: bool
  // other
  kSelect,  // args: bool, then, else
  kCast,    // args[0] to `type`; float to integer truncates (above); integer to integer wraps;
            // to bool is != 0
};

struct Expr;
using ExprPtr = std::shared_ptr<const Expr>;
struct Expr {
  Op op;
  DType type;
  double number = 0;
  int64_t integer = 0;
  int var = -1;
  int tensor = -1;
  std::vector<ExprPtr> args;
};

// Builders. They check types with CHECK: a mismatch is a bug of the caller (parse and import report
// errors of their input before they get here). Constants fold; x + 0, x * 1 and i64 arithmetic on
// constants simplify; nothing that could change a floating-point result does (so x + 0 stays where
// x is a float, which might be -0). Floating-point constants are rounded to their type.
ExprPtr Const(DType type, double number);
ExprPtr ConstInt(DType type, int64_t integer);  // integers, kBool
ExprPtr Index(int var);
ExprPtr Load(const struct Graph& graph, int tensor, std::vector<ExprPtr> indexes);
ExprPtr Unary(Op op, ExprPtr a);
ExprPtr Binary(Op op, ExprPtr a, ExprPtr b);
ExprPtr Select(ExprPtr condition, ExprPtr a, ExprPtr b);
ExprPtr Cast(DType type, ExprPtr a);
bool Same(const ExprPtr& a, const ExprPtr& b);  // structural equality
// The tensors it loads, each once, ascending.
std::vector<int> LoadedTensors(const ExprPtr& e);
// Replaces every index variable v with vars[v] (nullptr keeps it).
ExprPtr Substitute(const ExprPtr& e, const std::vector<ExprPtr>& vars);

enum class Role { kInput, kParam, kState, kIntermediate };

// How a graph input is drawn when no PyTorch module draws it.
struct Distribution {
  enum class Kind { kNormal, kUniform, kIntegers, kConstant } kind = Kind::kNormal;
  double low = 0;   // uniform [low, high), integers [low, high), constant: low; normal: mean
  double high = 1;  // normal: standard deviation
};

struct Axis {
  std::string name;  // unique in its node; for people
  int64_t extent;    // >= 1
};

struct Tensor {
  std::string name;  // unique: IsName; params and states: the module's state-dict name
  DType type;
  std::vector<int64_t> shape;  // row major, dense; empty: a scalar
  Role role = Role::kIntermediate;
  // A state that forward is given, as its inputs, and changes in place. Text: `inout cache:
  // f32[8]`.
  bool inout = false;
  Distribution distribution;  // inputs, params, states
  int node = -1;              // its producer; -1 for inputs, params, states
  bool given() const { return role == Role::kInput || inout; }  // by who calls forward
  int64_t elements() const;
  int64_t bytes() const;
};

// kLogSumExp, log(sum(exp(x))) without overflow, is for scans of floats: a reduce of it is three
// nodes.
enum class Combiner { kSum, kProd, kMax, kMin, kArgMax, kArgMin, kLogSumExp };

// How a scan goes.
struct Scan {
  int axis = 0;            // of the node's axes
  bool reverse = false;    // from the last element to the first
  bool exclusive = false;  // without the element's own value
  bool operator==(const Scan&) const = default;
};

// A map if it is neither a reduce nor a scan.
struct Node {
  bool reduce = false;
  std::optional<Scan> scan;       // a scan; not with `reduce`
  std::vector<Axis> axes;         // of the output, in its order
  std::vector<Axis> reduce_axes;  // reduce only; at least one
  Combiner combiner = Combiner::kSum;
  ExprPtr value;  // over axes and reduce_axes
  // One tensor; argmax and argmin have two: the value (of value's type) and the index (i64).
  // Text: `v, i: f32[r: R] = argmax[c: C](x[r, c])`. The value of argmax is what max gives.
  std::vector<int> outputs;

  bool map() const { return !reduce && !scan; }
};

struct Graph {
  std::vector<Tensor> tensors;
  std::vector<Node> nodes;   // in an order in which each uses only what stands before
  std::vector<int> outputs;  // tensors, in order; may name an input
  struct Update {
    int state;
    int value;
  };                            // text: `update running_mean = new_mean`
  std::vector<Update> updates;  // states are written after everything was read
  // Whether what is made of params alone may be made once for each version of them. It is not of
  // the text: the problem says so (Problem.weights_constant).
  bool constant_params = false;
  // Likewise (AccuracyRule.tolerance_only): whether answers are held to the tolerance, and not to
  // the errors of what is replaced.
  bool tolerance_alone = false;

  int Find(const std::string& name) const;  // -1 if there is none
  // Appends; names must be new, shapes and types consistent (CHECK). Return the tensor's id
  // (for AddReduce with argmax/argmin: of the value; the index is the next id, named `index_name`,
  // which is name + "_index" if empty).
  int AddInput(Role role, std::string name, DType type, std::vector<int64_t> shape,
               Distribution distribution = {});
  int AddMap(std::string name, std::vector<Axis> axes, ExprPtr value);
  int AddReduce(std::string name, Combiner combiner, std::vector<Axis> axes,
                std::vector<Axis> reduce_axes, ExprPtr value, std::string index_name = "");
  // As AddReduce; `value` is over `axes`. No index of an exclusive scan.
  int AddScan(std::string name, Combiner combiner, std::vector<Axis> axes, Scan scan, ExprPtr value,
              std::string index_name = "");
};

// Dimension values by name, as in Workload.dims.
using Dims = std::map<std::string, int64_t>;

// Parses under a workload's dimensions. Extents and bounds in the text may use names of dims and
// + - * / % ( ) on them, which must not go beyond i64. InvalidArgument names the line, the column
// and what was expected.
absl::StatusOr<Graph> Parse(const std::vector<std::string>& lines, const Dims& dims);
// Canonical text, numbers in place of names. Parse(Print(g)) gives an equal graph.
std::vector<std::string> Print(const Graph& graph);
std::string PrintExpr(const Graph& graph, const Node& node, const ExprPtr& e);

// Types, shapes, order, names, that outputs exist, and that loads that can be proven out of bounds
// (affine indexes over the axes' ranges, not behind a select or and/or) are not there.
absl::Status Validate(const Graph& graph);

// Removes nodes that no output or update needs; renumbers tensors.
Graph Prune(const Graph& graph);
// By tensor: whether constant params alone decide its elements, so that it may be made once for
// each version of them. Answers are made by each run, and so is what is made of them.
std::vector<bool> ConstantTensors(const Graph& graph);

// What a run must do at the least.
Cost Count(const Graph& graph);
// What its products may be made of, as far as the graph says: 11 bits of a factor are enough where
// the tolerance alone counts, and where an answer is rounded to 16 bits itself.
Fp32 Fp32Of(const Graph& graph, bool tolerance_only);

}  // namespace warpsmith::graph
