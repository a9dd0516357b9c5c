// Writes values as C++ statements, each once, in the outermost scope where its variables are known.
//
// A function body begins as one scope; loops open further ones. What depends on no variable of a
// loop is written before that loop. Names that stand for values already there (members of a row,
// loaded vectors) are bound beforehand.
#pragma once

#include <functional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/graph/graph.h"
#include "warpsmith/v1/schedule.pb.h"
#include "worker/codegen/ir/combine.h"
#include "worker/codegen/ir/value.h"

namespace warpsmith::codegen {

// What all code of a kernel shares.
struct Dialect {
  const graph::Graph* graph = nullptr;
  const Values* values = nullptr;
  std::string index_type = "int";  // of positions and addresses
  bool fast_math = false;
  bool separate = false;   // products are rounded before they are added to
  bool unrounded = false;  // what is cast to 16 bits keeps its digits until it is stored
  // Both sides of a choice are computed, so that no branch parts what is the same in several
  // places.
  bool both_sides = false;
  // Positions are added up before they are added to a pointer. In a loop the compiler keeps more
  // where they are not.
  bool one_sum = false;
  int load_hint = 0, store_hint = 0;
  v1::Accumulator accumulator = v1::ACCUMULATOR_AUTO;
  // Where an element is: a pointer's name and what is left of the position.
  std::function<std::pair<std::string, Index>(int tensor, const Index& position)> locate;
};

// Lines of code. How far each is indented follows from the braces around it (Indented).
class Text {
 public:
  void Line(const std::string& line) { text_ += line + "\n"; }
  void Open(const std::string& line) { Line(line); }
  void Close(const std::string& line = "}") { Line(line); }
  void Append(const std::string& text) { text_ += text; }
  const std::string& str() const { return text_; }

 private:
  std::string text_;
};

// The code with every line two spaces further in for each brace that is open; lines of the
// preprocessor at the margin.
std::string Indented(const std::string& code);

// A tensor's name as C++ takes it.
std::string Identifier(const std::string& name);

class Emitter {
 public:
  // `variables`: what the function's parameters give.
  Emitter(const Dialect& dialect, uint64_t variables);

  void Bind(ValuePtr value, const std::string& text) { bound_[value->id] = text; }
  bool IsBound(ValuePtr value) const { return bound_.count(value->id) > 0; }
  // Tells what will be used, so that values of one use are written in place.
  void Expect(const std::vector<ValuePtr>& values);

  std::string Use(ValuePtr value) { return Use(value, scopes_.size() - 1); }
  std::string Use(const Index& index) { return Use(index, scopes_.size() - 1); }
  // The value under a name.
  std::string Name(ValuePtr value);
  std::string NewName(const std::string& prefix);

  // `header` opens a block, e.g. "for (int j = 0; j < 4; ++j) {".
  void Open(const std::string& header, uint64_t variables, bool unroll = false);
  void Close();
  void Line(const std::string& line) { scopes_.back().text.Line(line); }
  void Append(const std::string& lines) { scopes_.back().text.Append(lines); }

  // That many contiguous elements of the load's tensor, from `base` on, into an array; under the
  // load's guard. `hint`: of ws::load; the dialect's if empty.
  void LoadVector(ValuePtr load, const Index& base, int width, const std::string& array,
                  const std::string& hint = "");
  // The same, to be written where what it uses is known.
  std::string VectorText(ValuePtr load, const Index& base, int width, const std::string& array,
                         const std::string& hint = "");
  // The value as it is in memory, of its own type.
  std::string Stored(ValuePtr value);
  // "pointer[position]"
  std::string Element(int tensor, const Index& position) {
    return Element(tensor, position, scopes_.size() - 1);
  }
  // "pointer + position"
  std::string Address(int tensor, const Index& position);

  // The whole text; all opened scopes are closed.
  std::string Finish();

 private:
  struct Scope {
    std::string header;
    bool unroll = false;
    uint64_t variables;
    Text text;
    std::unordered_map<int, std::string> names;          // values
    std::unordered_map<std::string, std::string> atoms;  // divisions and remainders
    std::unordered_map<int, std::string> divisors;       // values that are divided by
  };

  std::string Element(int tensor, const Index& position, size_t depth);
  std::string Use(ValuePtr value, size_t depth);
  std::string Use(const Index& index, size_t depth);
  std::string UseAtom(const Atom& atom, size_t depth);
  std::string Sum(const Index& index, size_t depth, bool with_constant);
  size_t ScopeOf(uint64_t variables) const;
  std::string Expression(ValuePtr value, size_t depth);
  std::string OpExpression(ValuePtr value, size_t depth);
  bool IsUnsigned(ValuePtr division) const;
  std::string CastExpression(ValuePtr value, size_t depth);
  std::string DivisionExpression(ValuePtr value, size_t depth);
  std::string QuotientExpression(ValuePtr value, size_t depth);
  std::string Unrounded(ValuePtr value, size_t depth);
  std::string Product(graph::DType type, const std::string& a, const std::string& b) const;
  std::string PowExpression(ValuePtr value, size_t depth);
  void EmitReduce(ValuePtr value, size_t depth);
  void StartAccumulator(const Reduction& r, const std::string& acc, size_t home);

  const Dialect& dialect_;
  uint64_t given_;
  std::vector<Scope> scopes_;
  std::unordered_map<int, std::string> bound_;
  std::unordered_map<int, int> uses_;
  int names_ = 0;
};

}  // namespace warpsmith::codegen
