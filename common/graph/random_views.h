// Random views: maps that move elements and compute nothing.
#pragma once

#include <cstdint>
#include <vector>

#include "common/graph/random_builder.h"

namespace warpsmith::graph {

class RandomViews : public RandomBuilder {
 protected:
  using RandomBuilder::RandomBuilder;

  // Any of those below.
  Value View(const Value& x);
  Value Moved(const Value& x, const Shape& shape, std::vector<ExprPtr> indexes);
  // A new axis along which the value repeats.
  Value Expand(const Value& x);

 private:
  // One axis replaced: the new extent, and the old index as a function of the new.
  struct AxisChange {
    size_t axis;
    int64_t extent;
    ExprPtr index;
  };
  Value Permute(const Value& x);
  Value Change(const Value& x, const AxisChange& change);
  Value Slice(const Value& x);
  Value Flip(const Value& x);
  Value Roll(const Value& x);
  Value Pad(const Value& x);
  // Keeps what is on or below a diagonal of the last two axes.
  Value Triangle(const Value& x);
  Value Concat(const Value& x);
  // Merges two axes, or splits one, written over the linear position.
  Value Reshape(const Value& x);
};

}  // namespace warpsmith::graph
