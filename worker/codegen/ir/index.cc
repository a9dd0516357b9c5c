#include "worker/codegen/ir/index.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"

namespace warpsmith::codegen {
namespace {

int64_t Clamp(__int128 x) {
  if (x > kUnbounded) return kUnbounded;
  if (x < -kUnbounded) return -kUnbounded;
  return static_cast<int64_t>(x);
}
int64_t AddSaturating(int64_t a, int64_t b) { return Clamp(static_cast<__int128>(a) + b); }
int64_t MulSaturating(int64_t a, int64_t b) { return Clamp(static_cast<__int128>(a) * b); }

// Constants that a graph loads at, behind conditions that never hold, may be any.
int64_t AddWrapped(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
int64_t MulWrapped(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

int64_t FloorDivide(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }
int64_t FloorRemainder(int64_t a, int64_t b) { return a - FloorDivide(a, b) * b; }

Range Scaled(Range r, int64_t factor) {
  const int64_t a = MulSaturating(r.low, factor), b = MulSaturating(r.high, factor);
  return {std::min(a, b), std::max(a, b)};
}

bool IsExact(const Index& index) { return Magnitude(index) <= kExactMagnitude; }
// Whether a * b is small enough to be a coefficient, a constant or a divisor.
bool IsExact(int64_t a, int64_t b) {
  const __int128 product = static_cast<__int128>(a) * b;
  return product >= -kExactMagnitude && product <= kExactMagnitude;
}

void SetKey(std::string key, Atom& atom) {
  atom.hash = std::hash<std::string>()(key);
  atom.key = std::move(key);
}

AtomPtr MakeDiv(const Index& inner, int64_t divisor) {
  auto atom = std::make_shared<Atom>();
  atom->kind = Atom::Kind::kDiv;
  atom->inner = std::make_shared<Index>(inner);
  atom->divisor = divisor;
  const Range r = inner.range();
  atom->range = {FloorDivide(r.low, divisor), FloorDivide(r.high, divisor)};
  const int64_t multiple = inner.multiple();
  atom->multiple = multiple % divisor == 0 ? std::max<int64_t>(1, multiple / divisor) : 1;
  atom->variables = inner.variables();
  SetKey(absl::StrCat("(", inner.key(), "/", divisor, ")"), *atom);
  return atom;
}

AtomPtr MakeMod(const Index& inner, int64_t divisor) {
  auto atom = std::make_shared<Atom>();
  atom->kind = Atom::Kind::kMod;
  atom->inner = std::make_shared<Index>(inner);
  atom->divisor = divisor;
  atom->multiple = std::max<int64_t>(1, std::gcd(inner.multiple(), divisor));
  atom->range = {0, divisor - atom->multiple};
  atom->variables = inner.variables();
  SetKey(absl::StrCat("(", inner.key(), "%", divisor, ")"), *atom);
  return atom;
}

// What a sum costs to compute and to understand: divisions above all.
int64_t CostOf(const Index& index) {
  int64_t cost = 0;
  for (const Index::Term& term : index.terms()) {
    cost += 1 + (term.atom->inner ? 4 + CostOf(*term.atom->inner) : 0);
  }
  return cost;
}

// What a term is a multiple of.
int64_t MultipleOf(const Index::Term& term) {
  const __int128 m = static_cast<__int128>(std::abs(term.coefficient)) * term.atom->multiple;
  return m <= kUnbounded ? static_cast<int64_t>(m) : std::abs(term.coefficient);
}

}  // namespace

Index Index::Of(const Variable& variable) {
  WS_CHECK(variable.id >= 0 && variable.id < kMaxVariables, "too many variables in a kernel");
  if (variable.range.low == variable.range.high) return Index(variable.range.low);
  auto atom = std::make_shared<Atom>();
  atom->kind = Atom::Kind::kVariable;
  atom->variable = variable;
  atom->range = variable.range;
  atom->multiple = std::max<int64_t>(1, variable.multiple);
  atom->variables = uint64_t{1} << variable.id;
  SetKey(absl::StrCat(variable.id < 10 ? "v0" : "v", variable.id), *atom);
  return Of(AtomPtr(atom));
}

Index Index::Opaque(int value, Range range, uint64_t variables) {
  auto atom = std::make_shared<Atom>();
  atom->kind = Atom::Kind::kOpaque;
  atom->value = value;
  atom->range = range;
  atom->variables = variables;
  SetKey(absl::StrCat("o", value), *atom);
  return Of(AtomPtr(atom));
}

Index Index::Of(AtomPtr atom) {
  Index index;
  index.terms_.push_back({std::move(atom), 1});
  return index;
}

Range Index::range() const {
  Range r{constant_, constant_};
  for (const Term& term : terms_) {
    const Range t = Scaled(term.atom->range, term.coefficient);
    r = {AddSaturating(r.low, t.low), AddSaturating(r.high, t.high)};
  }
  return r;
}

int64_t Index::multiple() const {
  int64_t m = std::abs(constant_);
  for (const Term& term : terms_) m = std::gcd(m, MultipleOf(term));
  return m;
}

uint64_t Index::variables() const {
  uint64_t mask = 0;
  for (const Term& term : terms_) mask |= term.atom->variables;
  return mask;
}

bool Index::has_opaque() const {
  for (const Term& term : terms_) {
    if (term.atom->kind == Atom::Kind::kOpaque) return true;
    if (term.atom->inner && term.atom->inner->has_opaque()) return true;
  }
  return false;
}

std::string Index::key() const {
  std::string key;
  for (const Term& term : terms_) {
    if (term.coefficient != 1) absl::StrAppend(&key, term.coefficient, "*");
    absl::StrAppend(&key, term.atom->key, "+");
  }
  absl::StrAppend(&key, constant_);
  return key;
}

int64_t Index::CoefficientOf(const Variable& variable) const {
  for (const Term& term : terms_) {
    if (term.atom->kind == Atom::Kind::kVariable && term.atom->variable.id == variable.id) {
      return term.coefficient;
    }
  }
  return 0;
}

Index Index::Without(const Variable& variable) const {
  Index rest(constant_);
  for (const Term& term : terms_) {
    if (term.atom->kind != Atom::Kind::kVariable || term.atom->variable.id != variable.id) {
      rest.terms_.push_back(term);
    }
  }
  return rest;
}

void Index::AddTerm(const AtomPtr& atom, int64_t coefficient) {
  auto at =
      std::lower_bound(terms_.begin(), terms_.end(), atom->key,
                       [](const Term& t, const std::string& key) { return t.atom->key < key; });
  if (at != terms_.end() && at->atom->key == atom->key) {
    at->coefficient = AddWrapped(at->coefficient, coefficient);
    if (at->coefficient == 0) terms_.erase(at);
  } else if (coefficient != 0) {
    terms_.insert(at, {atom, coefficient});
  }
}

bool Index::AddScaled(const Index& what, int64_t factor) {
  for (const Term& term : what.terms_) {
    if (!IsExact(term.coefficient, factor)) return false;
    AddTerm(term.atom, term.coefficient * factor);
  }
  if (!IsExact(what.constant_, factor)) return false;
  constant_ += what.constant_ * factor;
  return IsExact(*this);
}

// Where m * c * (f / c), or that modulo something, stands beside m * (e % c), and e and f differ by
// a multiple of c: what both make together, else nothing.
std::optional<Index> JoinRemainder(const Index::Term& remainder, const Index::Term& other) {
  const Index& e = *remainder.atom->inner;
  const int64_t c = remainder.atom->divisor;
  if (!IsExact(remainder.coefficient, c) || other.coefficient != remainder.coefficient * c)
    return std::nullopt;
  const Atom* quotient = other.atom.get();
  int64_t modulus = 0;
  if (quotient->kind == Atom::Kind::kMod) {
    const Index& inner = *quotient->inner;
    modulus = quotient->divisor;
    if (inner.terms().size() != 1 || inner.constant() != 0 || inner.terms()[0].coefficient != 1 ||
        !IsExact(modulus, c))
      return std::nullopt;
    quotient = inner.terms()[0].atom.get();
  }
  if (quotient->kind != Atom::Kind::kDiv || quotient->divisor != c ||
      (*quotient->inner - e).multiple() % c != 0)
    return std::nullopt;
  return modulus > 0 ? FloorMod(*quotient->inner, modulus * c) : *quotient->inner;
}

// Rules over pairs of terms; each makes the sum cheaper:
//   m * (e % c) + m * c * (e / c)               ->  m * e
//   m * e - m * c * (e / c)                     ->  m * (e % c)
//   m * c * ((e / c) % b) + m * (e % c)         ->  m * (e % (b * c))
// In the first and the last what is divided may differ from e by a multiple of c.
void Index::Simplify() {
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t t = 0; t < terms_.size() && !changed; ++t) {
      const Term term = terms_[t];
      if (term.atom->kind != Atom::Kind::kMod && term.atom->kind != Atom::Kind::kDiv) continue;
      const Index& e = *term.atom->inner;
      const int64_t c = term.atom->divisor;
      Index candidate = *this;
      candidate.AddTerm(term.atom, -term.coefficient);
      if (term.atom->kind == Atom::Kind::kMod) {
        if (!IsExact(term.coefficient, c)) continue;
        const Index quotient = FloorDiv(e, c);
        if (candidate.AddScaled(e, term.coefficient) &&
            candidate.AddScaled(quotient, -term.coefficient * c) &&
            CostOf(candidate) < CostOf(*this)) {
          *this = candidate;
          changed = true;
          continue;
        }
        for (size_t o = 0; o < terms_.size() && !changed; ++o) {
          const auto joined = JoinRemainder(term, terms_[o]);
          if (!joined.has_value()) continue;
          Index merged = *this;
          merged.AddTerm(term.atom, -term.coefficient);
          merged.AddTerm(terms_[o].atom, -terms_[o].coefficient);
          if (merged.AddScaled(*joined, term.coefficient) && CostOf(merged) < CostOf(*this)) {
            *this = merged;
            changed = true;
          }
        }
        if (changed) continue;
        if (quotient.terms_.size() != 1 || quotient.constant_ != 0 ||
            quotient.terms_[0].coefficient != 1) {
          continue;
        }
        for (const Term& other : terms_) {
          if (other.atom->kind != Atom::Kind::kMod || other.coefficient != term.coefficient * c ||
              !IsExact(other.atom->divisor, c) || !(*other.atom->inner == quotient)) {
            continue;
          }
          Index merged = *this;
          merged.AddTerm(term.atom, -term.coefficient);
          merged.AddTerm(other.atom, -other.coefficient);
          const Index joined = FloorMod(e, other.atom->divisor * c);
          if (merged.AddScaled(joined, term.coefficient) && CostOf(merged) < CostOf(*this)) {
            *this = merged;
            changed = true;
          }
          break;
        }
      } else if (term.coefficient % c == 0) {
        const int64_t m = -term.coefficient / c;
        const Index rest = e.multiple() % c == 0 ? Index(0) : Index::Of(MakeMod(e, c));
        if (candidate.AddScaled(e, -m) && candidate.AddScaled(rest, m) &&
            CostOf(candidate) < CostOf(*this)) {
          *this = candidate;
          changed = true;
        }
      }
    }
  }
}

bool operator==(const Index& a, const Index& b) {
  return a.constant_ == b.constant_ &&
         std::equal(a.terms_.begin(), a.terms_.end(), b.terms_.begin(), b.terms_.end(),
                    [](const Index::Term& x, const Index::Term& y) {
                      return x.coefficient == y.coefficient &&
                             (x.atom == y.atom ||
                              (x.atom->hash == y.atom->hash && x.atom->key == y.atom->key));
                    });
}

Index operator+(const Index& a, const Index& b) {
  Index sum = a;
  for (const Index::Term& term : b.terms_) sum.AddTerm(term.atom, term.coefficient);
  sum.constant_ = AddWrapped(sum.constant_, b.constant_);
  if (!a.is_constant() && !b.is_constant()) sum.Simplify();
  return sum;
}

Index operator*(const Index& a, int64_t factor) {
  if (factor == 0) return Index(0);
  Index product = a;
  for (Index::Term& term : product.terms_) {
    term.coefficient = MulWrapped(term.coefficient, factor);
  }
  product.constant_ = MulWrapped(product.constant_, factor);
  return product;
}

Index operator-(const Index& a, const Index& b) { return a + b * -1; }

int64_t Magnitude(const Index& index) {
  int64_t sum = Clamp(index.constant() < 0 ? -static_cast<__int128>(index.constant())
                                           : static_cast<__int128>(index.constant()));
  int64_t inner = 0;
  for (const Index::Term& term : index.terms()) {
    const Range r = Scaled(term.atom->range, term.coefficient);
    sum = AddSaturating(sum, std::max(std::abs(r.low), std::abs(r.high)));
    if (term.atom->inner) inner = std::max(inner, Magnitude(*term.atom->inner));
  }
  return std::max(sum, inner);
}

namespace {

// Divisors that split a sum into multiples of g and a small rest, largest first.
std::vector<int64_t> SplitCandidates(const Index& sum, int64_t divisor) {
  std::vector<int64_t> candidates;
  for (const Index::Term& term : sum.terms()) {
    const int64_t g = std::gcd(divisor, MultipleOf(term));
    if (g > 1) candidates.push_back(g);
  }
  std::sort(candidates.rbegin(), candidates.rend());
  candidates.erase(std::unique(candidates.begin(), candidates.end()), candidates.end());
  return candidates;
}

}  // namespace

Index FloorDiv(const Index& a, int64_t c) {
  WS_CHECK(c > 0, "division by " + std::to_string(c));
  if (c == 1) return a;
  // What divides evenly leaves the division.
  Index quotient(FloorDivide(a.constant_, c)), rest(FloorRemainder(a.constant_, c));
  for (const Index::Term& term : a.terms_) {
    if (term.coefficient % c == 0) {
      quotient.AddTerm(term.atom, term.coefficient / c);
    } else {
      rest.AddTerm(term.atom, term.coefficient);
    }
  }
  if (!quotient.is_constant()) quotient.Simplify();
  const Range range = rest.range();
  if (FloorDivide(range.low, c) == FloorDivide(range.high, c)) {
    return quotient + Index(FloorDivide(range.low, c));
  }
  // (g * s + b) / (g * d) with 0 <= b < g is s / d.
  for (int64_t g : SplitCandidates(rest, c)) {
    Index multiples(rest.constant_ - FloorRemainder(rest.constant_, g));
    Index small(FloorRemainder(rest.constant_, g));
    for (const Index::Term& term : rest.terms_) {
      (MultipleOf(term) % g == 0 ? multiples : small).AddTerm(term.atom, term.coefficient);
    }
    if (small.is_constant() && small.constant_ == 0) continue;
    if (small.range().Within(0, g - 1)) return quotient + FloorDiv(multiples, c);
  }
  int64_t g = std::gcd(c, rest.constant_);
  for (const Index::Term& term : rest.terms_) g = std::gcd(g, std::abs(term.coefficient));
  if (g > 1) {
    Index smaller(rest.constant_ / g);
    for (const Index::Term& term : rest.terms_) {
      smaller.AddTerm(term.atom, term.coefficient / g);
    }
    return quotient + FloorDiv(smaller, c / g);
  }
  if (rest.terms_.size() == 1 && rest.terms_[0].coefficient == 1) {
    const Atom& atom = *rest.terms_[0].atom;
    // (e / d + b) / c = (e + b * d) / (d * c)
    if (atom.kind == Atom::Kind::kDiv && IsExact(atom.divisor, c) && IsExact(*atom.inner) &&
        IsExact(rest.constant_, atom.divisor)) {
      return quotient +
             FloorDiv(*atom.inner + Index(rest.constant_ * atom.divisor), atom.divisor * c);
    }
    if (atom.kind == Atom::Kind::kMod && rest.constant_ == 0 && atom.divisor % c == 0) {
      return quotient + FloorMod(FloorDiv(*atom.inner, c), atom.divisor / c);
    }
  }
  // (e + b) / c is e / c + b / c where e is a multiple of c: the lanes of a vector.
  Index even, odd(rest.constant_);
  for (const Index::Term& term : rest.terms_) {
    (MultipleOf(term) % c == 0 ? even : odd).AddTerm(term.atom, term.coefficient);
  }
  if (!even.terms_.empty() && !odd.terms_.empty()) {
    return quotient + FloorDiv(even, c) + FloorDiv(odd, c);
  }
  return quotient + Index::Of(MakeDiv(rest, c));
}

Index FloorMod(const Index& a, int64_t c) {
  WS_CHECK(c > 0, "remainder by " + std::to_string(c));
  if (c == 1) return Index(0);
  Index rest(FloorRemainder(a.constant_, c));
  bool opened = false;
  for (const Index::Term& term : a.terms_) {
    if (MultipleOf(term) % c == 0) continue;
    if (term.atom->kind == Atom::Kind::kMod && IsExact(term.coefficient, term.atom->divisor) &&
        term.coefficient * term.atom->divisor % c == 0) {
      // coefficient * (e % d) and coefficient * e differ by a multiple of c
      Index open = rest;
      if (open.AddScaled(*term.atom->inner, term.coefficient)) {
        rest = open;
        opened = true;
        continue;
      }
    }
    rest.AddTerm(term.atom, term.coefficient % c);
  }
  if (opened) {
    rest.Simplify();
    return FloorMod(rest, c);
  }
  const Range range = rest.range();
  const int64_t period = FloorDivide(range.low, c);
  if (period == FloorDivide(range.high, c)) return rest - Index(period * c);
  for (int64_t g : SplitCandidates(rest, c)) {
    Index multiples(rest.constant_ - FloorRemainder(rest.constant_, g));
    Index small(FloorRemainder(rest.constant_, g));
    for (const Index::Term& term : rest.terms_) {
      (MultipleOf(term) % g == 0 ? multiples : small).AddTerm(term.atom, term.coefficient);
    }
    if (small.is_constant() && small.constant_ == 0) continue;
    if (small.range().Within(0, g - 1)) return FloorMod(multiples, c) + small;
  }
  int64_t g = std::gcd(c, rest.constant_);
  for (const Index::Term& term : rest.terms_) g = std::gcd(g, std::abs(term.coefficient));
  if (g > 1) {
    Index smaller(rest.constant_ / g);
    for (const Index::Term& term : rest.terms_) {
      smaller.AddTerm(term.atom, term.coefficient / g);
    }
    return FloorMod(smaller, c / g) * g;
  }
  return Index::Of(MakeMod(rest, c));
}

Index WithoutLanes(const Index& a) {
  for (const Index::Term& one : a.terms()) {
    const int64_t g = MultipleOf(one);
    if (g <= 1 || g > kExactMagnitude) continue;
    Index multiples(a.constant() - FloorRemainder(a.constant(), g));
    Index small(FloorRemainder(a.constant(), g));
    for (const Index::Term& term : a.terms()) {
      Index& part = MultipleOf(term) % g == 0 ? multiples : small;
      part = part + Index::Of(term.atom) * term.coefficient;
    }
    if (!small.is_constant() && small.range().Within(0, g - 1)) return multiples;
  }
  return a;
}

Index Substitute(const Index& index, const std::vector<Index>& by) {
  Index result(index.constant());
  for (const Index::Term& term : index.terms()) {
    const Atom& atom = *term.atom;
    switch (atom.kind) {
      case Atom::Kind::kVariable:
        result = result + by[atom.variable.id] * term.coefficient;
        break;
      case Atom::Kind::kDiv:
        result = result + FloorDiv(Substitute(*atom.inner, by), atom.divisor) * term.coefficient;
        break;
      case Atom::Kind::kMod:
        result = result + FloorMod(Substitute(*atom.inner, by), atom.divisor) * term.coefficient;
        break;
      case Atom::Kind::kOpaque:
        result = result + Index::Of(term.atom) * term.coefficient;
        break;
    }
  }
  return result;
}

std::vector<Index> Unflatten(const Index& linear, const std::vector<int64_t>& extents) {
  std::vector<Index> coordinates(extents.size());
  Index rest = linear;
  for (int a = static_cast<int>(extents.size()) - 1; a >= 0; --a) {
    coordinates[a] = extents[a] == 1 ? Index(0) : a == 0 ? rest : FloorMod(rest, extents[a]);
    rest = FloorDiv(rest, extents[a]);
  }
  return coordinates;
}

Index Flatten(const std::vector<Index>& coordinates, const std::vector<int64_t>& extents) {
  Index linear(0);
  int64_t stride = 1;
  for (int a = static_cast<int>(extents.size()) - 1; a >= 0; --a) {
    linear = linear + coordinates[a] * stride;
    stride *= extents[a];
  }
  return linear;
}

}  // namespace warpsmith::codegen
