#include "worker/codegen/ir/index.h"

#include <catch2/catch.hpp>
#include <functional>
#include <map>
#include <random>

namespace warpsmith::codegen {
namespace {

int64_t Evaluate(const Index& index, const std::map<int, int64_t>& values) {
  int64_t sum = index.constant();
  for (const Index::Term& term : index.terms()) {
    const Atom& atom = *term.atom;
    int64_t value = 0;
    if (atom.kind == Atom::Kind::kVariable) {
      value = values.at(atom.variable.id);
    } else {
      const int64_t inner = Evaluate(*atom.inner, values), d = atom.divisor;
      const int64_t quotient = inner / d - (inner % d != 0 && inner < 0);
      value = atom.kind == Atom::Kind::kDiv ? quotient : inner - quotient * d;
    }
    sum += term.coefficient * value;
  }
  return sum;
}

Variable Var(int id, int64_t extent, int64_t multiple = 1) {
  return {id, std::string(1, static_cast<char>('a' + id)), {0, extent - 1}, multiple};
}

TEST_CASE("sums become canonical", "[index]") {
  const Index a = Index::Of(Var(0, 60)), b = Index::Of(Var(1, 32)), r = Index::Of(Var(2, 6));
  struct Case {
    const char* what;
    Index got, want;
  };
  const Case cases[] = {
      {"(a / 6) * 6 + a % 6", FloorDiv(a, 6) * 6 + FloorMod(a, 6), a},
      {"the same, three times", (FloorDiv(a, 6) * 6 + FloorMod(a, 6)) * 3, a * 3},
      {"(3a + 2) / 3", FloorDiv(a * 3 + Index(2), 3), a},
      {"(3a + 5) % 3", FloorMod(a * 3 + Index(5), 3), Index(2)},
      {"small / large", FloorDiv(b, 32), Index(0)},
      {"small % large", FloorMod(b, 32), b},
      {"nested divisions", FloorDiv(FloorDiv(a, 4), 5), FloorDiv(a, 20)},
      {"nested remainders", FloorMod(FloorMod(a, 20), 5), FloorMod(a, 5)},
      {"digits of a digit", FloorDiv(FloorMod(a, 20), 5), FloorMod(FloorDiv(a, 5), 4)},
      {"joined digits", FloorMod(FloorDiv(a, 5), 4) * 5 + FloorMod(a, 5), FloorMod(a, 20)},
      {"(32 r + b) / 8 % 12", FloorMod(FloorDiv(r * 32 + b, 8), 12),
       FloorMod(r, 3) * 4 + FloorDiv(b, 8)},
      {"a - (a / 7) * 7", a - FloorDiv(a, 7) * 7, FloorMod(a, 7)},
      {"negative constants", FloorDiv(b - Index(32), 32), Index(-1)},
      {"terms cancel", a + b - a, b},
  };
  for (const Case& c : cases) {
    INFO(c.what << ": " << c.got.key() << " and not " << c.want.key());
    CHECK(c.got == c.want);
  }
}

TEST_CASE("reshapes of row-major tensors are the identity", "[index]") {
  const int64_t shapes[][4] = {{2, 3, 4, 5}, {1, 7, 1, 9}, {8, 1, 1, 1}, {3, 3, 3, 3}};
  for (const auto& shape : shapes) {
    const std::vector<int64_t> from(shape, shape + 4);
    const int64_t n = from[0] * from[1] * from[2] * from[3];
    const Index i = Index::Of(Var(0, n));
    CHECK(Flatten(Unflatten(i, from), from) == i);
    const std::vector<int64_t> to = {from[0] * from[1], from[2] * from[3]};
    CHECK(Flatten(Unflatten(Flatten(Unflatten(i, from), from), to), to) == i);
  }
}

TEST_CASE("a vector over several lines that it holds whole is one run", "[index]") {
  // i + j of lines of 4, and of 2 in 2: what (i + j) % 4 is does not depend on i.
  const Index i = Index::Of(Var(0, 4000, 8)), j = Index::Of(Var(1, 8)), at = i + j;
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{1000, 4}, {1000, 2, 2}}) {
    const Index linear = Flatten(Unflatten(at, shape), shape);
    INFO(linear.key());
    CHECK(linear == at);
  }
}

TEST_CASE("an aligned vector stays in its row", "[index]") {
  // i is a multiple of 4, j a lane: both lie in the same row of 8.
  const Index i = Index::Of({0, "i", {0, 60}, 4}), j = Index::Of({1, "j", {0, 3}, 1});
  CHECK(FloorDiv(i + j, 8) == FloorDiv(i, 8));
  CHECK(FloorMod(i + j, 8) == FloorMod(i, 8) + j);
  CHECK(FloorMod(i + j, 4) == j);
  CHECK((i * 3 + Index(8)).multiple() == 4);
  // Rows of 6 do not hold whole vectors.
  CHECK_FALSE(FloorDiv(i + j, 6) == FloorDiv(i, 6));
}

TEST_CASE("what the lanes of a vector share does not depend on the lane", "[index]") {
  const Index i = Index::Of(Var(0, 4096, 8)), j = Index::Of(Var(1, 8));
  CHECK(FloorDiv(i + j, 2) == FloorDiv(i, 2) + FloorDiv(j, 2));
  CHECK(FloorDiv(i + j, 2) * 2 + FloorMod(i + j, 2) == i + j);
  CHECK(FloorDiv(i + j, 16) == FloorDiv(i, 16));
  CHECK(FloorMod(FloorDiv(i + j, 4), 2) == FloorDiv(j, 4));
  const Index at = FloorMod(i, 128);
  CHECK(WithoutLanes(Index(63) - at - j) == Index(56) - at);
  CHECK(WithoutLanes(at + j - Index(64)) == at - Index(64));
  CHECK(WithoutLanes(at + j - Index(60)) == at + j - Index(60));
  for (int64_t x = 0; x < 128; ++x) {
    const std::map<int, int64_t> values = {{0, x / 8 * 8}, {1, x % 8}};
    for (int64_t limit : {-9, -8, 0, 1, 55, 56, 63, 64}) {
      const Index rest = Index(limit) - at - j;
      CHECK((Evaluate(rest, values) >= 0) == (Evaluate(WithoutLanes(rest), values) >= 0));
    }
  }
}

TEST_CASE("simplification keeps values", "[index]") {
  std::mt19937 random(7);
  auto pick = [&](int n) { return static_cast<int>(random() % n); };
  for (int round = 0; round < 2000; ++round) {
    std::vector<Variable> variables;
    for (int v = 0; v < 3; ++v) {
      Variable variable = Var(v, 1 + pick(7));
      variable.range.low -= pick(4);
      if (pick(3) == 0) {
        variable.multiple = 2;
        variable.range = {-2 * pick(2), 2 * (1 + pick(4))};
      }
      variables.push_back(variable);
    }
    // A random expression, simplified as it is built, beside a function that computes it.
    using Function = std::function<int64_t(const std::map<int, int64_t>&)>;
    std::vector<std::pair<Index, Function>> pool;
    for (const Variable& v : variables) {
      pool.push_back(
          {Index::Of(v), [id = v.id](const std::map<int, int64_t>& at) { return at.at(id); }});
    }
    for (int step = 0; step < 12; ++step) {
      const auto a = pool[pick(static_cast<int>(pool.size()))],
                 b = pool[pick(static_cast<int>(pool.size()))];
      const int64_t c = 1 + pick(9);
      switch (pick(6)) {
        case 0:
          pool.push_back(
              {a.first + b.first, [a, b](const auto& at) { return a.second(at) + b.second(at); }});
          break;
        case 1:
          pool.push_back({a.first - b.first * c,
                          [a, b, c](const auto& at) { return a.second(at) - c * b.second(at); }});
          break;
        case 2:
          pool.push_back({a.first * c + Index(c - 4),
                          [a, c](const auto& at) { return a.second(at) * c + c - 4; }});
          break;
        case 3:
        case 4:
          pool.push_back({FloorDiv(a.first, c), [a, c](const auto& at) {
                            const int64_t x = a.second(at);
                            return x / c - (x % c != 0 && x < 0);
                          }});
          break;
        default:
          pool.push_back({FloorMod(a.first, c),
                          [a, c](const auto& at) { return ((a.second(at) % c) + c) % c; }});
          break;
      }
    }
    std::map<int, int64_t> at;
    std::function<void(size_t)> each = [&](size_t v) {
      if (v < variables.size()) {
        for (int64_t x = variables[v].range.low; x <= variables[v].range.high;
             x += variables[v].multiple) {
          if (x % variables[v].multiple != 0) continue;
          at[variables[v].id] = x;
          each(v + 1);
        }
        return;
      }
      for (const auto& [index, function] : pool) {
        const int64_t want = function(at);
        if (Evaluate(index, at) != want || want < index.range().low || want > index.range().high) {
          FAIL("round " << round << ": " << index.key() << " gives " << Evaluate(index, at)
                        << ", not " << want);
        }
        if (index.multiple() > 1 && want % index.multiple() != 0)
          FAIL("round " << round << ": " << index.key() << " is no multiple");
      }
    };
    each(0);
  }
  SUCCEED();
}

TEST_CASE("a magnitude counts every step on the way", "[index]") {
  const Index a = Index::Of(Var(0, 8));
  CHECK(Magnitude(a * 5 - Index(3)) == 38);
  CHECK(Magnitude(FloorMod(a * 5 - Index(3), 4)) == 8);  // a + 1 is divided
  CHECK(Magnitude(a * (int64_t{1} << 61)) > kExactMagnitude);
  // Nothing is opened up or joined that would leave i64.
  const int64_t large = int64_t{1} << 50;
  const Index e = FloorMod(a * 3, 7) * large;
  CHECK(Magnitude(FloorMod(e, 7 * large)) <= kExactMagnitude);
  CHECK(Magnitude(FloorDiv(FloorDiv(Index::Opaque(0, {}, 0), large), large)) <= kUnbounded);
}

}  // namespace
}  // namespace warpsmith::codegen
