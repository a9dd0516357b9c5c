// What random graphs are put together with: a graph that grows, and what is known of its values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/graph/graph.h"
#include "common/graph/random_graph.h"
#include "common/graph/random_terms.h"

namespace warpsmith::graph {

using Shape = std::vector<int64_t>;

int64_t Product(const Shape& shape);
ExprPtr I(int64_t value);  // an i64 constant

// A tensor and what is known of its values.
struct Value {
  int tensor;
  double limit;
  bool exact;
};

class RandomBuilder {
 protected:
  RandomBuilder(uint64_t seed, const RandomGraphOptions& options);

  const Shape& ShapeOf(const Value& v) const { return graph_.tensors[v.tensor].shape; }
  DType TypeOf(const Value& v) const { return graph_.tensors[v.tensor].type; }

  std::string NewName(const char* stem);
  // What is computed in: halves are stored only.
  static DType Computed(DType type);
  static std::vector<ExprPtr> Variables(int first, size_t count);
  std::vector<Axis> AxesOf(const Shape& shape, const char* stem) const;

  // The latest as often as all others together.
  const Value& PickValue() { return dice_.OneIn(2) ? pool_.back() : dice_.Pick(pool_); }
  Shape RandomShape();
  Value NewInput(const Shape& shape, DType type);
  // An element, in the type that is computed in.
  Term At(const Value& v, std::vector<ExprPtr> indexes) const;
  Value Map(const Shape& shape, const Term& term);
  Value Reduce(Combiner combiner, const Shape& kept, const Shape& reduced, const Term& term);
  Value ScanOf(Combiner combiner, const Shape& shape, const Scan& scan, const Term& term);
  // A map that brings the magnitude down, if that is needed.
  Value Tamed(const Value& v);

  Dice dice_;
  const RandomGraphOptions options_;
  Graph graph_;
  const DType type_;  // the graph's own
  std::vector<Value> pool_;

 private:
  DType PickType();

  int64_t common_extent_ = 0;  // that most axes have; 0: none
  int names_ = 0;
};

}  // namespace warpsmith::graph
