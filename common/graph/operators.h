// The operators: what each is called and which types it takes. One table for parser, printer,
// validation and builders.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "common/graph/graph.h"

namespace warpsmith::graph {

enum class Accepts { kAny, kNumber, kFloat, kInteger, kIndex, kBool };

struct OpInfo {
  Op op;
  const char* name;  // the function's, or the infix symbol
  int args;          // 1 or 2
  int precedence;    // 0: written as a function; else infix (or prefix), higher binds tighter
  Accepts accepts;   // its operands, which all have one type
  bool gives_bool;   // otherwise the type of its operands
};

inline constexpr int kOrPrecedence = 1;
inline constexpr int kAndPrecedence = 2;
inline constexpr int kNotPrecedence = 3;
inline constexpr int kComparePrecedence = 4;  // comparisons do not chain
inline constexpr int kAddPrecedence = 5;
inline constexpr int kMulPrecedence = 6;
inline constexpr int kNegPrecedence = 7;

// nullptr for constants, indexes, loads, select and cast.
const OpInfo* FindOp(Op op);
// Of the operators written as functions; nullptr if there is none.
const OpInfo* FindFunction(std::string_view name);
bool Takes(Accepts accepts, DType type);
const char* NameOf(Accepts accepts);  // "numbers", "floats", ...

std::optional<DType> FindType(std::string_view name);
const char* NameOf(Combiner combiner);  // "sum", "argmax", ...
std::optional<Combiner> FindCombiner(std::string_view name);
// Of a scan: "cumsum", "cumargmax", "cumlogsumexp", ...
std::string ScanNameOf(Combiner combiner);
std::optional<Combiner> FindScan(std::string_view name);
bool HasIndex(Combiner combiner);  // argmax, argmin
// sum and prod take numbers, logsumexp floats, the others bool too.
bool Takes(Combiner combiner, DType type);

}  // namespace warpsmith::graph
