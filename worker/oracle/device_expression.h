// Expressions of the graph language as CUDA statements: types, literals, operators. Part of the
// native device oracle's own source (device_source.h). Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/graph/graph.h"

namespace warpsmith::oracle {

// kExact: floats are double throughout and never rounded before an answer is stored.
// kPlain: what a plain evaluation in the graph's own types gives: each stored tensor is rounded to
// its type, sums of f32 (and less) are f32, in blocks.
enum class Pass { kExact, kPlain };

// C type in memory: "float", "unsigned short" (f16, bf16), "unsigned char" (bool), "i64", ...
std::string StorageType(graph::DType type);
// C type that arithmetic on `type` is done in.
std::string ComputeType(graph::DType type, Pass pass);
// Expression that reads element `index` of `pointer` as a value for arithmetic, and one that turns
// `value` into what is stored.
std::string LoadText(graph::DType type, const std::string& pointer, const std::string& index);
std::string StoreText(graph::DType type, const std::string& value);
std::string FloatText(double x, const std::string& type);
// Value `a` of type `from` as one of type `to`; both as they are computed with.
std::string CastText(graph::DType from, graph::DType to, Pass pass, const std::string& a);

// How a pass holds a tensor: floats that nodes give are double in kExact.
bool HeldWide(const graph::Tensor& tensor, Pass pass);
std::string HeldType(const graph::Tensor& tensor, Pass pass);
int64_t HeldBytes(const graph::Tensor& tensor, Pass pass);

// Writes an expression as statements, each subexpression once in the scope where it is needed.
// Index variable n is v<n>, tensor t the pointer t<t>.
class ExprWriter {
 public:
  // Appends to *out, indented.
  ExprWriter(const graph::Graph& graph, Pass pass, std::string* out, int indent)
      : graph_(graph), pass_(pass), out_(out), indent_(indent), scopes_(1) {}

  // Gives the name or literal that holds the value.
  std::string Write(const graph::ExprPtr& e);

 private:
  void Line(const std::string& text);
  std::string Fresh();
  std::string Define(graph::DType type, const std::string& value);
  std::string Compute(const graph::ExprPtr& e);
  std::string WriteLoad(const graph::ExprPtr& e);
  std::string Branch(graph::DType type, const std::string& condition, const graph::ExprPtr& then,
                     const graph::ExprPtr& otherwise, const std::string& then_text,
                     const std::string& otherwise_text);

  const graph::Graph& graph_;
  const Pass pass_;
  std::string* out_;
  int indent_;
  int next_ = 0;
  std::vector<std::map<const graph::Expr*, std::string>> scopes_;
};

}  // namespace warpsmith::oracle
