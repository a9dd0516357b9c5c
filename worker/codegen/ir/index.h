// Integer index expressions in a canonical form, with the ranges of their variables.
//
// An Index is a sum of coefficient * atom, plus a constant. An atom is a variable, a floor division
// or a remainder of a sum by a positive constant, or a value that only the running kernel knows (a
// gathered index). Because sums are canonical, two expressions that are equal for every value of
// their variables usually have the same form, so that a chain of reshapes becomes the identity and
// the bounds predicate of an unpadded window becomes true:
//
//   (i / 6) * 6 + i % 6                  ->  i
//   (4 * r + k / 8) % 12, k < 32, r < 6  ->  4 * (r % 3) + k / 8
//
// Simplifications hold for every value within the variables' ranges, not outside of them. Variables
// may be known to be multiples of a number (the first element of an aligned vector).
//
// An Index is a number of mathematics, while i64 arithmetic wraps. The two agree where nothing on
// the way to a result can leave i64: Magnitude says how far the ranges allow it to go, and the
// arithmetic of a graph is only written as an Index where that is at most kExactMagnitude
// (Inliner); otherwise it stays what it is, operators that wrap. Simplifying never raises the
// magnitude beyond that. Positions in tensors are far below it by the limits of a graph.
//
// Immutable values; arithmetic on ranges saturates at +-kUnbounded.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"

namespace warpsmith::codegen {

inline constexpr int64_t kUnbounded = int64_t{1} << 62;
inline constexpr int64_t kExactMagnitude = int64_t{1} << 60;

struct Range {  // inclusive
  int64_t low = -kUnbounded;
  int64_t high = kUnbounded;
  bool Within(int64_t from, int64_t to) const { return low >= from && high <= to; }
};

struct Variable {
  int id = 0;        // 0 to kMaxVariables - 1, unique in a kernel
  std::string name;  // as it is spelled in generated code
  Range range;
  int64_t multiple = 1;  // every value is a multiple of it
};
inline constexpr int kMaxVariables = 64;

class Index;

struct Atom {
  enum class Kind { kVariable, kDiv, kMod, kOpaque };
  Kind kind;
  Variable variable;                   // kVariable
  std::shared_ptr<const Index> inner;  // kDiv, kMod: what is divided
  int64_t divisor = 1;                 // kDiv, kMod
  int value = -1;                      // kOpaque: id of the value (value.h)
  Range range;
  int64_t multiple = 1;
  uint64_t variables = 0;  // mask of the ids it depends on
  std::string key;         // equal ones' alone
  size_t hash = 0;         // of the key
};
using AtomPtr = std::shared_ptr<const Atom>;

class Index {
 public:
  struct Term {
    AtomPtr atom;
    int64_t coefficient;
  };
  using Terms = absl::InlinedVector<Term, 2>;  // most have no more

  Index(int64_t constant = 0) : constant_(constant) {}  // NOLINT: a number is an index
  static Index Of(const Variable& variable);
  static Index Of(AtomPtr atom);
  // A value that the simplifier knows nothing else about. `variables`: what it depends on.
  static Index Opaque(int value, Range range, uint64_t variables);

  const Terms& terms() const { return terms_; }  // by key, no zero coefficients
  int64_t constant() const { return constant_; }
  bool is_constant() const { return terms_.empty(); }
  Range range() const;
  int64_t multiple() const;  // the value is a multiple of it; 0 for the constant 0
  uint64_t variables() const;
  bool has_opaque() const;
  std::string key() const;  // as text: equal forms have equal keys

  // The coefficient of a variable in the sum (0 if it does not stand there by itself).
  int64_t CoefficientOf(const Variable& variable) const;
  // Without the variable's own term.
  Index Without(const Variable& variable) const;

  friend Index operator+(const Index& a, const Index& b);
  friend Index operator-(const Index& a, const Index& b);
  friend Index operator*(const Index& a, int64_t factor);
  friend bool operator==(const Index& a, const Index& b);  // of forms
  template <class H>
  friend H AbslHashValue(H h, const Index& index) {
    for (const Term& term : index.terms_)
      h = H::combine(std::move(h), term.coefficient, term.atom->hash);
    return H::combine(std::move(h), index.constant_);
  }

 private:
  friend Index FloorDiv(const Index&, int64_t);
  friend Index FloorMod(const Index&, int64_t);
  void AddTerm(const AtomPtr& atom, int64_t coefficient);  // keeps order, drops zeros
  bool AddScaled(const Index& what, int64_t factor);       // false: too large for it
  void Simplify();

  Terms terms_;
  int64_t constant_ = 0;
};

Index operator+(const Index& a, const Index& b);
Index operator-(const Index& a, const Index& b);
Index operator*(const Index& a, int64_t factor);
// What no partial sum of the index, nor of a sum that is divided in it, exceeds in size; saturates
// at kUnbounded.
int64_t Magnitude(const Index& index);
// Rounding towards minus infinity, and the remainder that goes with it; divisor > 0.
Index FloorDiv(const Index& a, int64_t divisor);
Index FloorMod(const Index& a, int64_t divisor);

// Without terms that never decide whether it is negative: 0 <= 8 * i - j + 7, j < 8, is 0 <= 8 * i.
// So what all lanes of a vector agree about does not depend on the lane.
Index WithoutLanes(const Index& a);

// The expression with `by[id]` in place of the variable with that id; every variable has one.
Index Substitute(const Index& index, const std::vector<Index>& by);

// Coordinates of the element at row-major position `linear` of a tensor of these extents.
std::vector<Index> Unflatten(const Index& linear, const std::vector<int64_t>& extents);
// Row-major position.
Index Flatten(const std::vector<Index>& coordinates, const std::vector<int64_t>& extents);

}  // namespace warpsmith::codegen
