// What weighs the ways to make a sum over windows of a product's windows against each other.
#pragma once

#include <optional>

#include "common/graph/graph.h"

namespace warpsmith::codegen {

// WaysCost (linear.h) of node `id` as window_of_windows makes it; nullopt: it does not apply.
std::optional<double> CostOfWindows(const graph::Graph& graph, int id);

}  // namespace warpsmith::codegen
