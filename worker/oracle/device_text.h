// Text that the native device oracle's generators share.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "common/graph/graph.h"

namespace warpsmith::oracle {

int64_t Extent(const std::vector<graph::Axis>& axes);
// The tensors that it loads, each once, in the order of the text.
void Collect(const graph::ExprPtr& e, std::set<const graph::Expr*>& seen,
             std::vector<int>& tensors);
// Statements that take the linear `from` apart into index variables first, first + 1, ...
std::string Decode(const std::vector<graph::Axis>& axes, int first, const std::string& from,
                   int indent);
// A kernel's beginning, in which `n` goes through `count` numbers; and its end.
std::string Begin(const std::string& name, const std::vector<std::string>& parameters,
                  int64_t count);
inline constexpr char kEnd[] = "  }\n}\n";

}  // namespace warpsmith::oracle
