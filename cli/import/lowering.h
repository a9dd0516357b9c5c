// What the operator tables share: the graph being built, the arguments of the operator at hand, and
// helpers that write the usual kinds of nodes.
//
// An operator is a row of a table: its name, the arguments it needs, and a function that adds
// nodes to the graph and binds the operator's outputs to their tensors:
//
//   {"aten.flip.default", {"self:t dims:i*", Flip}},
//
// An operator that gives only tensors without elements is not asked: they are bound to kEmpty.
// Arguments are declared as name:kind with the kinds t tensor, e tensor that may be empty, i
// integer, n number, b bool, d type, s string, x a tensor or a number; `*` a list of them, `?` may
// be null or absent (a list: also its elements). The walk checks them first, so that a function may
// take them for granted: a wrong access is a bug.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "cli/import/dump.h"
#include "common/graph/graph.h"

namespace warpsmith::import {

using Shape = std::vector<int64_t>;
using Exprs = std::vector<graph::ExprPtr>;

// What a tensor without elements is bound to.
inline constexpr int kEmpty = -2;

class Lowering {
 public:
  explicit Lowering(const Dump& dump);  // outlives it

  graph::Graph graph;

  // ---- the operator at hand -----------------------------------------------------------------
  void Begin(const AtenNode& node) { node_ = &node; }
  const std::string& op() const { return node_->op; }
  bool Has(std::string_view argument) const;  // it is not null
  bool IsTensor(std::string_view argument) const;
  int Tensor(std::string_view argument) const;
  std::vector<int> Tensors(std::string_view argument) const;  // -1: null, kEmpty: no elements
  int64_t Int(std::string_view argument) const;
  std::vector<int64_t> Ints(std::string_view argument) const;    // an integer is a list of one
  double Number(std::string_view argument) const;                // bools are 0 and 1
  std::vector<double> Numbers(std::string_view argument) const;  // of a list
  bool IsIntegral(std::string_view argument) const;              // an integer or bool, no float
  bool Bool(std::string_view argument) const;
  std::string String(std::string_view argument) const;
  graph::DType Type(std::string_view argument) const;

  const Meta& Out(int output = 0) const;  // what PyTorch says it gives
  bool Used(int output) const;            // by anything; the others need no binding
  // Whether it matters in which order its outputs are along the operator's dimension.
  bool OrderMatters() const;
  void Bind(int tensor, int output = 0) { bound_[{node_->name, output}] = tensor; }
  void BindPlaceholder(const std::string& name, int tensor) { bound_[{name, 0}] = tensor; }
  // The tensor an earlier node's output was bound to, or kEmpty; -1 if there is none.
  int Bound(const std::string& node, int output = 0) const;

  // InvalidArgument "aten.mean.dim: integer tensors are not supported".
  absl::Status Unsupported(std::string_view what) const;
  // OK if the declared arguments are there and of their kinds.
  absl::Status CheckArguments(std::string_view declared) const;

  // ---- tensors and names --------------------------------------------------------------------
  const Shape& ShapeOf(int tensor) const { return graph.tensors[tensor].shape; }
  graph::DType TypeOf(int tensor) const { return graph.tensors[tensor].type; }
  // A free name: the operator's own, or "<operator>.<part>" for a tensor on the way to it.
  std::string Name(std::string_view part = "") const;
  // `wanted`, with underscores added until it is free and may be one.
  std::string FreeName(std::string wanted) const;

  // ---- nodes --------------------------------------------------------------------------------
  using Element = std::function<graph::ExprPtr(const Exprs& indexes)>;
  // A map over `shape`; the function gets the index variables of the axes.
  int AddMap(std::string name, const Shape& shape, const Element& element);
  // A reduce of `element` over the dimensions of `shape` that `reduced` marks; the function gets
  // one index for each dimension. keep: reduced dimensions stay, with extent 1. A reduce over
  // nothing is a map. For argmax and argmin the index is the tensor after the result.
  int AddReduce(std::string name, graph::Combiner combiner, const Shape& shape,
                const std::vector<bool>& reduced, bool keep, const Element& element,
                std::string index_name = "");
  // A scan of `element` along dimension `dim` of `shape`, from its first element on. For argmax and
  // argmin the index is the tensor after the result.
  int AddScan(std::string name, graph::Combiner combiner, const Shape& shape, int64_t dim,
              const Element& element, std::string index_name = "");
  // A reduce over axes of the output and a window beside them.
  int AddWindow(std::string name, graph::Combiner combiner, const Shape& shape, const Shape& window,
                const std::function<graph::ExprPtr(const Exprs& at, const Exprs& in)>& element,
                std::string index_name = "");

  // The element of a tensor that broadcasts to the shape the indexes run over.
  graph::ExprPtr LoadBroadcast(int tensor, const Exprs& indexes) const;
  // The same of an argument that is a tensor or a number, in `type`.
  graph::ExprPtr Operand(std::string_view argument, graph::DType type, const Exprs& indexes) const;
  // The seed of the operator's draw: each call takes the next of `seeds`, which has to have one.
  graph::ExprPtr NextSeed();
  int seeds = -1;  // the tensor with the seeds of what forward draws; -1: it draws nothing

  // An existing tensor in another type: itself, or a map that casts.
  int CastTensor(int tensor, graph::DType type, std::string name);

 private:
  const nlohmann::json* Find(std::string_view argument) const;
  const nlohmann::json& Get(std::string_view argument) const;
  std::vector<graph::Axis> NameAxes(const Shape& extents, const char* letters,
                                    std::set<std::string>* taken) const;

  const Dump& dump_;
  const AtenNode* node_ = nullptr;
  std::map<std::pair<std::string, int>, int> bound_;
  int64_t draws_ = 0;  // so far
  std::set<std::pair<std::string, int>> used_;
};

using Handler = std::function<absl::Status(Lowering&)>;
struct Operator {
  const char* arguments;
  Handler lower;
};
using OperatorTable = std::map<std::string, Operator>;

const OperatorTable& PointwiseOperators();
const OperatorTable& CreationOperators();
const OperatorTable& ViewOperators();
const OperatorTable& IndexingOperators();
const OperatorTable& ReductionOperators();
const OperatorTable& ScanOperators();
const OperatorTable& NormOperators();
const OperatorTable& ProductOperators();
const OperatorTable& ConvolutionOperators();
const OperatorTable& PoolingOperators();
const OperatorTable& PoolingGradients();
const OperatorTable& ResizeOperators();
const OperatorTable& RandomOperators();
// Whether the node, of an operator of RandomOperators, draws: not a dropout that keeps all or none.
bool Draws(const AtenNode& node);

// ---- expressions, in short ------------------------------------------------------------------

// A number of a dump: also a bool, or {"number": "inf"}.
bool IsNumber(const nlohmann::json& value);
double NumberOf(const nlohmann::json& value);

// The type PyTorch computes in: f32 for f16 and bf16, otherwise the type itself.
graph::DType OpMath(graph::DType type);
graph::ExprPtr Literal(graph::DType type, double value);
graph::ExprPtr I(int64_t value);  // an i64
graph::ExprPtr Add(graph::ExprPtr a, graph::ExprPtr b);
graph::ExprPtr Sub(graph::ExprPtr a, graph::ExprPtr b);
graph::ExprPtr Mul(graph::ExprPtr a, graph::ExprPtr b);
graph::ExprPtr Div(graph::ExprPtr a, graph::ExprPtr b);
graph::ExprPtr Mod(graph::ExprPtr a, graph::ExprPtr b);
graph::ExprPtr Less(graph::ExprPtr a, graph::ExprPtr b);
graph::ExprPtr LessEqual(graph::ExprPtr a, graph::ExprPtr b);
graph::ExprPtr And(graph::ExprPtr a, graph::ExprPtr b);  // either may be null: true

// Dimension `dim` of `rank`, counted from the end if negative. WS_CHECKs its range, which PyTorch
// has checked before.
int64_t Wrap(int64_t dim, int64_t rank);
// Which dimensions a list names; an empty list names all.
std::vector<bool> Marked(const std::vector<int64_t>& dims, int64_t rank);
int64_t Product(absl::Span<const int64_t> extents);

}  // namespace warpsmith::import
