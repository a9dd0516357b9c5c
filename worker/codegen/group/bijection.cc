#include "worker/codegen/group/bijection.h"

#include <algorithm>
#include <map>
#include <utility>

namespace warpsmith::codegen {

namespace {

// The digits of which positions are sums, and how far apart neighbours of each lie.
class Places {
 public:
  void Add(const Index& index, int64_t stride) {
    known_ = known_ && index.constant() == 0;
    for (const Index::Term& term : index.terms()) {
      const auto digit = DigitOf(*term.atom);
      known_ = known_ && digit.has_value() && term.coefficient > 0;
      if (!known_) return;
      of_axis_[digit->axis].push_back(*digit);
      places_.push_back({term.coefficient * stride, digit->high / digit->low});
    }
  }

  // Every axis once: its digits follow each other from 1 to its extent. Every element once: places
  // follow each other from 1 to the number of elements.
  bool Cover(const std::vector<DomainAxis>& over, int64_t elements) {
    if (!known_) return false;
    size_t used = 0;
    for (const DomainAxis& axis : over) {
      int64_t next = 1;
      std::vector<Digit>& digits = of_axis_[axis.variable.id];
      std::sort(digits.begin(), digits.end(),
                [](const Digit& a, const Digit& b) { return a.low < b.low; });
      for (const Digit& digit : digits) {
        if (digit.low != next) return false;
        next = digit.high;
      }
      if (next != axis.extent()) return false;
      used += digits.size();
    }
    if (used != places_.size()) return false;
    std::sort(places_.begin(), places_.end());
    int64_t next = 1;
    for (const auto& [place, extent] : places_) {
      if (place != next) return false;
      next *= extent;
    }
    return next == elements;
  }

 private:
  bool known_ = true;
  std::map<int, std::vector<Digit>> of_axis_;
  std::vector<std::pair<int64_t, int64_t>> places_;  // how far apart, how many
};

}  // namespace

std::optional<Digit> DigitOf(const Atom& atom) {
  if (atom.kind == Atom::Kind::kVariable)
    return Digit{atom.variable.id, 1, atom.variable.range.high + 1};
  if (atom.kind == Atom::Kind::kOpaque) return std::nullopt;
  const Index& inner = *atom.inner;
  if (inner.terms().size() != 1 || inner.constant() != 0 || inner.terms()[0].coefficient != 1)
    return std::nullopt;
  auto digit = DigitOf(*inner.terms()[0].atom);
  if (!digit.has_value() || digit->high / digit->low % atom.divisor != 0) return std::nullopt;
  if (atom.kind == Atom::Kind::kDiv) {
    digit->low *= atom.divisor;
  } else {
    digit->high = digit->low * atom.divisor;
  }
  return digit;
}

bool IsBijection(const std::vector<Index>& at, const std::vector<int64_t>& shape,
                 const std::vector<DomainAxis>& over) {
  int64_t stride = 1;
  Places apart;  // as the coordinates spell it, and as the position does: either may be plainer
  for (int a = static_cast<int>(at.size()) - 1; a >= 0; --a) {
    if (!at[a].range().Within(0, shape[a] - 1)) return false;
    apart.Add(at[a], stride);
    stride *= shape[a];
  }
  Places together;
  together.Add(Flatten(at, shape), 1);
  return apart.Cover(over, Product(shape)) || together.Cover(over, Product(shape));
}

}  // namespace warpsmith::codegen
