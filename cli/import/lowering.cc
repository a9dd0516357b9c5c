#include "cli/import/lowering.h"

#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "cli/import/order_matters.h"
#include "common/base/check.h"
#include "common/graph/operators.h"

namespace warpsmith::import {
namespace {

using graph::Axis;
using graph::Binary;
using graph::DType;
using graph::ExprPtr;
using graph::Op;
using nlohmann::json;

bool IsNode(const json& value) { return value.is_object() && value.contains("node"); }

// The name of the node that an argument is, and "getitem" seen through by the caller.
std::string NodeName(const json& value) { return value["node"].get<std::string>(); }

bool IsKind(char kind, const json& value) {
  switch (kind) {
    case 't':
    case 'e':
      return IsNode(value);
    case 'i':
      return value.is_number_integer();
    case 'n':
      return IsNumber(value);
    case 'b':
      return value.is_boolean();
    case 'd':
      return value.is_object() && value.contains("dtype");
    case 's':
      return value.is_string();
    case 'x':  // a tensor or a number
      return IsNode(value) || IsNumber(value);
    default:
      return false;
  }
}

void CollectUses(const json& value, std::set<std::string>* nodes) {
  if (IsNode(value)) nodes->insert(NodeName(value));
  if (value.is_array()) {
    for (const json& element : value) CollectUses(element, nodes);
  }
}

}  // namespace

bool IsNumber(const json& value) {
  return value.is_number() || value.is_boolean() ||
         (value.is_object() && value.contains("number") && value["number"].is_string());
}

double NumberOf(const json& value) {
  if (value.is_boolean()) return value.get<bool>() ? 1 : 0;
  if (value.is_number()) return value.get<double>();
  const std::string name = value["number"].get<std::string>();
  if (name == "inf") return std::numeric_limits<double>::infinity();
  if (name == "-inf") return -std::numeric_limits<double>::infinity();
  return std::numeric_limits<double>::quiet_NaN();
}

Lowering::Lowering(const Dump& dump) : dump_(dump) {
  for (const AtenNode& node : dump.nodes) {
    if (node.op == "getitem") {
      const auto self = node.args.find("self"), index = node.args.find("index");
      if (self != node.args.end() && index != node.args.end() && IsNode(self->second) &&
          index->second.is_number_integer()) {
        used_.insert({NodeName(self->second), index->second.get<int>()});
      }
      continue;
    }
    std::set<std::string> nodes;
    for (const auto& [name, value] : node.args) CollectUses(value, &nodes);
    for (const std::string& name : nodes) used_.insert({name, 0});
  }
  for (const Dump::Output& output : dump.outputs) {
    if (output.given.empty()) used_.insert({output.node, 0});
  }
  for (const Dump::Update& update : dump.updates) used_.insert({update.node, 0});
}

// ---- arguments ------------------------------------------------------------------------------

const json* Lowering::Find(std::string_view argument) const {
  const auto found = node_->args.find(std::string(argument));
  return found == node_->args.end() || found->second.is_null() ? nullptr : &found->second;
}

const json& Lowering::Get(std::string_view argument) const {
  const json* value = Find(argument);
  WS_CHECK(value != nullptr, absl::StrCat(node_->op, " has no argument ", std::string(argument)));
  return *value;
}

bool Lowering::Has(std::string_view argument) const { return Find(argument) != nullptr; }

bool Lowering::IsTensor(std::string_view argument) const {
  const json* value = Find(argument);
  return value != nullptr && IsNode(*value);
}

int Lowering::Tensor(std::string_view argument) const { return Bound(NodeName(Get(argument))); }

std::vector<int> Lowering::Tensors(std::string_view argument) const {
  std::vector<int> tensors;
  for (const json& value : Get(argument)) {
    tensors.push_back(value.is_null() ? -1 : Bound(NodeName(value)));
  }
  return tensors;
}

int64_t Lowering::Int(std::string_view argument) const { return Get(argument).get<int64_t>(); }

std::vector<int64_t> Lowering::Ints(std::string_view argument) const {
  const json* value = Find(argument);
  if (value == nullptr) return {};
  if (value->is_number_integer()) return {value->get<int64_t>()};
  return value->get<std::vector<int64_t>>();
}

double Lowering::Number(std::string_view argument) const { return NumberOf(Get(argument)); }

std::vector<double> Lowering::Numbers(std::string_view argument) const {
  std::vector<double> numbers;
  for (const json& value : Get(argument)) numbers.push_back(NumberOf(value));
  return numbers;
}

bool Lowering::IsIntegral(std::string_view argument) const {
  const json& value = Get(argument);
  return value.is_number_integer() || value.is_boolean();
}

bool Lowering::Bool(std::string_view argument) const { return Get(argument).get<bool>(); }

std::string Lowering::String(std::string_view argument) const {
  return Get(argument).get<std::string>();
}

DType Lowering::Type(std::string_view argument) const {
  return graph::FindType(Get(argument)["dtype"].get<std::string>()).value_or(DType::kF64);
}

const Meta& Lowering::Out(int output) const {
  WS_CHECK(output < node_->outputs.size() && node_->outputs[output].present,
           absl::StrCat(node_->op, " has no output ", output));
  return node_->outputs[output];
}

bool Lowering::Used(int output) const { return used_.count({node_->name, output}) > 0; }

bool Lowering::OrderMatters() const { return import::OrderMatters(dump_, *node_); }

int Lowering::Bound(const std::string& node, int output) const {
  const auto found = bound_.find({node, output});
  return found == bound_.end() ? -1 : found->second;
}

absl::Status Lowering::Unsupported(std::string_view what) const {
  return absl::InvalidArgumentError(absl::StrCat(node_->op, ": ", std::string(what)));
}

absl::Status Lowering::CheckArguments(std::string_view declared) const {
  for (absl::string_view word : absl::StrSplit(absl::string_view(declared.data(), declared.size()),
                                               ' ', absl::SkipEmpty())) {
    const std::pair<std::string, std::string> parts = absl::StrSplit(word, ':');
    const auto& [name, kind] = parts;
    const bool list = kind.find('*') != std::string::npos;
    const bool optional = kind.find('?') != std::string::npos;
    const json* value = Find(name);
    if (value == nullptr) {
      if (optional) continue;
      return Unsupported(absl::StrCat("argument '", name, "' is missing"));
    }
    bool good = list && value->is_array();
    if (good) {
      for (const json& element : *value) {
        good = good && ((optional && element.is_null()) || IsKind(kind[0], element));
      }
    } else {
      good = (!list || kind[0] == 'i') && IsKind(kind[0], *value);
    }
    if (!good) return Unsupported(absl::StrCat("argument '", name, "' is ", value->dump()));
    std::set<std::string> nodes;
    CollectUses(*value, &nodes);
    for (const std::string& node : nodes) {
      const int bound = Bound(node);
      if (bound == kEmpty && kind[0] != 'e') {
        return Unsupported(absl::StrCat("argument '", name, "' has no elements"));
      }
      if (bound == -1) {
        return Unsupported(absl::StrCat("argument '", name, "' is no tensor: '", node, "'"));
      }
    }
  }
  return absl::OkStatus();
}

// ---- names ----------------------------------------------------------------------------------

std::string Lowering::FreeName(std::string wanted) const {
  while (!graph::IsName(wanted) || graph.Find(wanted) >= 0) wanted += "_";
  return wanted;
}

std::string Lowering::Name(std::string_view part) const {
  // What only matters inside PyTorch is left out: _native_batch_norm_legit_functional_1 is
  // batch_norm_1.
  std::string name = absl::StrReplaceAll(node_->name, {{"native_", ""},
                                                       {"linalg_", ""},
                                                       {"_legit_no_training", ""},
                                                       {"_legit_functional", ""},
                                                       {"_legit", ""},
                                                       {"_with_indices", ""}});
  name.erase(0, name.find_first_not_of('_'));
  if (name.empty() || (name[0] >= '0' && name[0] <= '9')) name = "t" + name;
  return FreeName(part.empty() ? name : absl::StrCat(name, ".", std::string(part)));
}

// ---- nodes ----------------------------------------------------------------------------------

std::vector<Axis> Lowering::NameAxes(const Shape& extents, const char* letters,
                                     std::set<std::string>* taken) const {
  std::vector<Axis> axes;
  for (int64_t extent : extents) {
    const size_t at = axes.size();
    const std::string_view alphabet = letters;
    std::string name(1, alphabet[at % alphabet.size()]);
    if (at >= alphabet.size()) absl::StrAppend(&name, at / alphabet.size());
    while (graph.Find(name) >= 0 || taken->count(name) > 0) name += "_";
    taken->insert(name);
    axes.push_back({std::move(name), extent});
  }
  return axes;
}

// The index variables of a node's axes; 0 for those of one element.
static Exprs Indexes(const std::vector<Axis>& axes) {
  Exprs indexes;
  for (int axis = 0; axis < axes.size(); ++axis) {
    indexes.push_back(axes[axis].extent == 1 ? I(0) : graph::Index(axis));
  }
  return indexes;
}

int Lowering::AddMap(std::string name, const Shape& shape, const Element& element) {
  std::set<std::string> taken;
  std::vector<Axis> axes = NameAxes(shape, "ijklmn", &taken);
  ExprPtr value = element(Indexes(axes));
  return graph.AddMap(std::move(name), std::move(axes), std::move(value));
}

int Lowering::AddScan(std::string name, graph::Combiner combiner, const Shape& shape, int64_t dim,
                      const Element& element, std::string index_name) {
  std::set<std::string> taken;
  std::vector<Axis> axes = NameAxes(shape, "ijklmn", &taken);
  ExprPtr value = element(Indexes(axes));
  return graph.AddScan(std::move(name), combiner, std::move(axes), {.axis = static_cast<int>(dim)},
                       std::move(value), std::move(index_name));
}

int Lowering::AddReduce(std::string name, graph::Combiner combiner, const Shape& shape,
                        const std::vector<bool>& reduced, bool keep, const Element& element,
                        std::string index_name) {
  Shape outer, inner;
  for (int dim = 0; dim < shape.size(); ++dim) {
    if (reduced[dim]) {
      inner.push_back(shape[dim]);
      if (keep) outer.push_back(1);
    } else {
      outer.push_back(shape[dim]);
    }
  }
  return AddWindow(
      std::move(name), combiner, outer, inner,
      [&](const Exprs& at, const Exprs& in) {
        Exprs indexes;
        int next_outer = 0, next_inner = 0;
        for (int dim = 0; dim < shape.size(); ++dim) {
          if (reduced[dim]) {
            indexes.push_back(in[next_inner++]);
            next_outer += keep;
          } else {
            indexes.push_back(at[next_outer++]);
          }
        }
        return element(indexes);
      },
      std::move(index_name));
}

int Lowering::AddWindow(std::string name, graph::Combiner combiner, const Shape& shape,
                        const Shape& window,
                        const std::function<ExprPtr(const Exprs& at, const Exprs& in)>& element,
                        std::string index_name) {
  const bool indexed = combiner == graph::Combiner::kArgMax || combiner == graph::Combiner::kArgMin;
  // Axes of extent 1 need no loop, except that a reduce must have an axis.
  Shape loops;
  for (int64_t extent : window) {
    if (extent != 1) loops.push_back(extent);
  }
  if (loops.empty() && indexed) loops.push_back(1);
  std::set<std::string> taken;
  std::vector<Axis> axes = NameAxes(shape, "ijklmn", &taken);
  std::vector<Axis> reduce_axes = NameAxes(loops, "rstuvw", &taken);
  Exprs at, in;
  for (int axis = 0; axis < axes.size(); ++axis) {
    at.push_back(axes[axis].extent == 1 ? I(0) : graph::Index(axis));
  }
  int var = static_cast<int>(axes.size());
  for (int64_t extent : window) in.push_back(extent == 1 ? I(0) : graph::Index(var++));
  ExprPtr value = element(at, in);
  if (reduce_axes.empty()) return graph.AddMap(std::move(name), std::move(axes), std::move(value));
  return graph.AddReduce(std::move(name), combiner, std::move(axes), std::move(reduce_axes),
                         std::move(value), std::move(index_name));
}

ExprPtr Lowering::LoadBroadcast(int tensor, const Exprs& indexes) const {
  const Shape& shape = ShapeOf(tensor);
  WS_CHECK(shape.size() <= indexes.size(), "a tensor broadcasts to fewer axes than it has");
  const size_t skip = indexes.size() - shape.size();
  Exprs own;
  for (int dim = 0; dim < shape.size(); ++dim) {
    own.push_back(shape[dim] == 1 ? I(0) : indexes[skip + dim]);
  }
  return graph::Load(graph, tensor, std::move(own));
}

ExprPtr Lowering::Operand(std::string_view argument, DType type, const Exprs& indexes) const {
  if (IsTensor(argument)) return graph::Cast(type, LoadBroadcast(Tensor(argument), indexes));
  // Not by way of a double: that has 53 bits.
  if (graph::IsInteger(type) && Get(argument).is_number_integer()) {
    return graph::ConstInt(type, Int(argument));
  }
  return Literal(type, Number(argument));
}

ExprPtr Lowering::NextSeed() {
  WS_CHECK(seeds >= 0 && draws_ < ShapeOf(seeds)[0], "a draw without a seed");
  return graph::Load(graph, seeds, {I(draws_++)});
}

int Lowering::CastTensor(int tensor, DType type, std::string name) {
  if (TypeOf(tensor) == type) return tensor;
  const Shape shape = ShapeOf(tensor);
  return AddMap(std::move(name), shape, [&](const Exprs& indexes) {
    return graph::Cast(type, LoadBroadcast(tensor, indexes));
  });
}

// ---- expressions ----------------------------------------------------------------------------

DType OpMath(DType type) {
  return type == DType::kF16 || type == DType::kBF16 ? DType::kF32 : type;
}

ExprPtr Literal(DType type, double value) {
  if (graph::IsFloat(type)) return graph::Const(type, value);
  if (type == DType::kBool) return graph::ConstInt(type, value != 0);
  return graph::ConstInt(type, static_cast<int64_t>(value));
}

ExprPtr I(int64_t value) { return graph::ConstInt(DType::kI64, value); }
ExprPtr Add(ExprPtr a, ExprPtr b) { return Binary(Op::kAdd, std::move(a), std::move(b)); }
ExprPtr Sub(ExprPtr a, ExprPtr b) { return Binary(Op::kSub, std::move(a), std::move(b)); }
ExprPtr Mul(ExprPtr a, ExprPtr b) { return Binary(Op::kMul, std::move(a), std::move(b)); }
ExprPtr Div(ExprPtr a, ExprPtr b) { return Binary(Op::kDiv, std::move(a), std::move(b)); }
ExprPtr Mod(ExprPtr a, ExprPtr b) { return Binary(Op::kMod, std::move(a), std::move(b)); }
ExprPtr Less(ExprPtr a, ExprPtr b) { return Binary(Op::kLt, std::move(a), std::move(b)); }
ExprPtr LessEqual(ExprPtr a, ExprPtr b) { return Binary(Op::kLe, std::move(a), std::move(b)); }
ExprPtr And(ExprPtr a, ExprPtr b) {
  if (a == nullptr) return b;
  if (b == nullptr) return a;
  return Binary(Op::kAnd, std::move(a), std::move(b));
}

int64_t Wrap(int64_t dim, int64_t rank) {
  if (rank == 0) rank = 1;  // PyTorch takes a scalar for a tensor of one dimension here
  WS_CHECK(dim >= -rank && dim < rank, absl::StrCat("dimension ", dim, " of rank ", rank));
  return dim < 0 ? dim + rank : dim;
}

std::vector<bool> Marked(const std::vector<int64_t>& dims, int64_t rank) {
  std::vector<bool> marked(rank, dims.empty());
  for (int64_t dim : dims) {
    const int64_t at = Wrap(dim, rank);
    if (at < rank) marked[at] = true;
  }
  return marked;
}

int64_t Product(absl::Span<const int64_t> extents) {
  int64_t product = 1;
  for (int64_t extent : extents) product *= extent;
  return product;
}

}  // namespace warpsmith::import
