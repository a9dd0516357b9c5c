// Random expressions with known magnitude and exactness.
#pragma once

#include <cstdint>
#include <vector>

#include "common/graph/graph.h"

namespace warpsmith::graph {

// Repeats itself on every platform, unlike the standard distributions.
class Dice {
 public:
  explicit Dice(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 1) {}
  uint64_t Next();
  int64_t Below(int64_t n) { return static_cast<int64_t>(Next() % n); }  // [0, n)
  int64_t Between(int64_t low, int64_t high) { return low + Below(high - low + 1); }
  bool OneIn(int64_t n) { return Below(n) == 0; }
  template <class T>
  const T& Pick(const std::vector<T>& items) {
    return items[Below(items.size())];
  }

 private:
  uint64_t state_;
};

// An expression of a number type that is no f16 or bf16.
struct Term {
  ExprPtr e;
  double limit = 1;    // the largest magnitude, about
  bool exact = false;  // every correct evaluation gives the same bits
};

// With the magnitude brought down where it is large.
Term Tame(Term x);
Term RandomUnary(Dice& dice, const Term& x);
Term RandomBinary(Dice& dice, const Term& a, const Term& b);  // of one type
// A bool of exact terms.
ExprPtr RandomCondition(Dice& dice, const Term& x);

Term Scale(const Term& x, double factor);  // floats

}  // namespace warpsmith::graph
