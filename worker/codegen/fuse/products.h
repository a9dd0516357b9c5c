// What products of matrices ask of fusion: operands that had better be in memory, and which of the
// maps behind a product its kernel writes.
#pragma once

#include <set>
#include <vector>

#include "worker/codegen/codegen.h"
#include "worker/codegen/group/domain.h"

namespace warpsmith::codegen {

// What a tensor is a view of, through any number of maps that only move elements.
int ViewedBy(const graph::Graph& graph, int tensor);

// The first tensor that lies in memory as this one, of those it is a view of through maps that move
// nothing. Who wants a view in memory has that written: others may view it otherwise.
int SameInMemory(const graph::Graph& graph, int tensor);

// Whether the node is a product of matrices where the tensors of `stored` and all inputs are in
// memory. `to_store`: maps of 16 bits that its operands are views of, which the copy engine brings
// from memory, if somebody writes them there (of a concatenation its parts, where it can bring
// those).
bool IsProduct(const graph::Graph& graph, int node, const std::set<int>& stored,
               const Target& target, std::vector<int>* to_store);

// The tensor behind `sum`, of as many elements, that all who need it need by way of maps: the one
// of the fewest bytes, the last of those; or one of fewer, more than half as many (a transposed
// convolution whose last places are left out), where much is made of a sum and several read it.
// What else it is made of is there before the sum, and it is none of `taken`. `needed`: nodes, in
// graph order; `required`: outputs and new values of states.
int LastOfEpilogue(const graph::Graph& graph, int sum, const std::vector<int>& needed,
                   const std::set<int>& required, const std::set<int>& taken);

}  // namespace warpsmith::codegen
