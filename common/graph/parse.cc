// Statements: each line of graph text is an input, a map, a reduce, a scan, an output or an update.
#include <cmath>
#include <set>

#include "absl/strings/str_cat.h"
#include "common/graph/ast.h"
#include "common/graph/graph.h"
#include "common/graph/operators.h"

namespace warpsmith::graph {
namespace {

class Parser {
 public:
  explicit Parser(const Dims& dims) : dims_(dims) {}

  absl::Status Line(const std::string& text, int number) {
    if (text.size() > kMaxLineBytes) {
      return SyntaxError(number, 1,
                         absl::StrCat("a line of ", text.size(), " bytes; the limit is ",
                                      kMaxLineBytes, ": use a map for a part of it"));
    }
    auto tokens = Tokenize(text, number);
    if (!tokens.ok()) return tokens.status();
    TokenReader reader(*std::move(tokens), number);
    if (reader.Peek().kind == Token::Kind::kEnd) return absl::OkStatus();
    auto status = Statement(reader);
    return status.ok() ? reader.ExpectEnd() : status;
  }

  Graph Take() { return std::move(graph_); }

 private:
  // An axis list `[r: R, c: C]`, with the place of each for errors.
  struct AxisList {
    std::vector<Axis> axes;
    std::vector<int> columns;
  };

  absl::Status Statement(TokenReader& reader) {
    // Words that start a statement are names like any other elsewhere.
    if (reader.Peek(1).kind == Token::Kind::kName) {
      if (reader.Take("input")) return Input(reader, Role::kInput);
      if (reader.Take("param")) return Input(reader, Role::kParam);
      if (reader.Take("state")) return Input(reader, Role::kState);
      if (reader.Take("inout")) return Input(reader, Role::kState, /*inout=*/true);
      if (reader.Take("output")) return Output(reader);
      if (reader.Take("update")) return Update(reader);
      return reader.ErrorHere(
          "expected input, param, state, inout, output, update or a tensor's name");
    }
    return NodeOf(reader);
  }

  absl::StatusOr<Token> NewName(TokenReader& reader) {
    auto name = reader.ExpectName("a name for a tensor");
    if (name.ok() && graph_.Find(name->text) >= 0) {
      return reader.ErrorAt(name->column, absl::StrCat("'", name->text, "' is defined already"));
    }
    return name;
  }

  absl::StatusOr<int> KnownTensor(TokenReader& reader) {
    auto name = reader.ExpectName("a tensor's name");
    if (!name.ok()) return name.status();
    const int id = graph_.Find(name->text);
    if (id < 0)
      return reader.ErrorAt(name->column, absl::StrCat("unknown tensor '", name->text, "'"));
    return id;
  }

  absl::StatusOr<DType> TypeName(TokenReader& reader) {
    const auto type = FindType(reader.Peek().text);
    if (!type) return reader.ErrorHere("expected a type: bool, i32, i64, f16, bf16, f32 or f64");
    reader.Next();
    return *type;
  }

  // `points`: those of the extents before it; with this one no more than `most`.
  absl::StatusOr<int64_t> Extent(TokenReader& reader, int64_t most, int64_t& points) {
    const int column = reader.Peek().column;
    auto extent = ParseInteger(reader, dims_);
    if (!extent.ok()) return extent;
    if (*extent < 1) {
      return reader.ErrorAt(column, absl::StrCat("extent ", *extent, " is less than 1"));
    }
    if (*extent > most / points) {
      return reader.ErrorAt(column, absl::StrCat("more than ", most, " elements"));
    }
    points *= *extent;
    return extent;
  }

  // Calls `item` for each item of a bracketed list; nothing if there is no bracket.
  template <class Item>
  absl::Status Bracketed(TokenReader& reader, Item item) {
    if (!reader.Take("[")) return absl::OkStatus();
    if (reader.Take("]")) return absl::OkStatus();
    for (int count = 1;; ++count) {
      if (count > kMaxRank) {
        return reader.ErrorAt(reader.Peek().column, absl::StrCat("more than ", kMaxRank, " axes"));
      }
      if (absl::Status status = item(); !status.ok()) return status;
      if (reader.Take("]")) return absl::OkStatus();
      if (!reader.Take(",")) return reader.ErrorHere("expected ',' or ']'");
    }
  }

  absl::Status Input(TokenReader& reader, Role role, bool inout = false) {
    auto name = NewName(reader);
    if (!name.ok()) return name.status();
    if (auto status = reader.Expect(":"); !status.ok()) return status;
    auto type = TypeName(reader);
    if (!type.ok()) return type.status();
    std::vector<int64_t> shape;
    int64_t points = 1;
    auto status = Bracketed(reader, [&] {
      auto extent = Extent(reader, kMaxElements, points);
      if (extent.ok()) shape.push_back(*extent);
      return extent.status();
    });
    if (!status.ok()) return status;
    Distribution distribution;
    if (reader.Take("~")) {
      auto read = ReadDistribution(reader);
      if (!read.ok()) return read.status();
      distribution = *read;
    }
    const int id = graph_.AddInput(role, name->text, *type, std::move(shape), distribution);
    graph_.tensors[id].inout = inout;
    return absl::OkStatus();
  }

  absl::StatusOr<Distribution> ReadDistribution(TokenReader& reader) {
    using Kind = Distribution::Kind;
    Distribution d;
    const int column = reader.Peek().column;
    if (reader.Take("normal")) {
      d.kind = Kind::kNormal;
      if (!reader.At("(")) return d;
    } else if (reader.Take("uniform")) {
      d.kind = Kind::kUniform;
    } else if (reader.Take("integers")) {
      d.kind = Kind::kIntegers;
    } else if (reader.Take("constant")) {
      d.kind = Kind::kConstant;
    } else {
      return reader.ErrorHere("expected normal, uniform(a, b), integers(a, b) or constant(a)");
    }
    if (auto status = reader.Expect("("); !status.ok()) return status;
    auto low = ParseNumber(reader, dims_);
    if (!low.ok()) return low.status();
    d.low = *low;
    if (d.kind != Kind::kConstant) {
      if (auto status = reader.Expect(","); !status.ok()) return status;
      auto high = ParseNumber(reader, dims_);
      if (!high.ok()) return high.status();
      d.high = *high;
    }
    if (auto status = reader.Expect(")"); !status.ok()) return status;
    if (d.kind != Kind::kConstant && !(std::isfinite(d.low) && std::isfinite(d.high))) {
      return reader.ErrorAt(column, "the numbers of a distribution are finite");
    }
    if (d.kind == Kind::kNormal && !(d.high >= 0)) {
      return reader.ErrorAt(column, "a standard deviation is not negative");
    }
    if ((d.kind == Kind::kUniform || d.kind == Kind::kIntegers) && !(d.low < d.high)) {
      return reader.ErrorAt(column, "the range is empty: the first bound must be the smaller");
    }
    return d;
  }

  absl::StatusOr<AxisList> Axes(TokenReader& reader, int64_t most, int64_t& points) {
    AxisList list;
    auto status = Bracketed(reader, [&]() -> absl::Status {
      auto name = reader.ExpectName("a name for an axis");
      if (!name.ok()) return name.status();
      if (auto status = reader.Expect(":"); !status.ok()) return status;
      auto extent = Extent(reader, most, points);
      if (!extent.ok()) return extent.status();
      list.axes.push_back({name->text, *extent});
      list.columns.push_back(name->column);
      return absl::OkStatus();
    });
    if (!status.ok()) return status;
    return list;
  }

  absl::Status CheckAxes(const TokenReader& reader, const AxisList& axes, const AxisList& reduced) {
    std::set<std::string> names;
    for (const AxisList* list : {&axes, &reduced}) {
      for (size_t i = 0; i < list->axes.size(); ++i) {
        if (!names.insert(list->axes[i].name).second) {
          return reader.ErrorAt(list->columns[i],
                                absl::StrCat("a second axis '", list->axes[i].name, "'"));
        }
      }
    }
    if (names.size() > kMaxRank) {
      return reader.ErrorAt(1, absl::StrCat("more than ", kMaxRank, " axes"));
    }
    return absl::OkStatus();
  }

  absl::Status NodeOf(TokenReader& reader) {
    auto name = NewName(reader);
    if (!name.ok()) return name.status();
    std::string index_name;
    if (reader.Take(",")) {
      auto index = NewName(reader);
      if (!index.ok()) return index.status();
      if (index->text == name->text) {
        return reader.ErrorAt(index->column, "value and index need different names");
      }
      index_name = index->text;
    }
    if (auto status = reader.Expect(":"); !status.ok()) return status;
    auto type = TypeName(reader);
    if (!type.ok()) return type.status();
    int64_t points = 1;
    auto axes = Axes(reader, kMaxElements, points);
    if (!axes.ok()) return axes.status();
    if (auto status = reader.Expect("="); !status.ok()) return status;

    // `max[c: C](...)` is a reduce; `max[c]` a load of a tensor that is called max.
    const auto combiner = FindCombiner(reader.Peek().text);
    const bool reduce = combiner && reader.At("[", 1) && reader.At(":", 3);
    if (!reduce) {
      if (const auto scanned = FindScan(reader.Peek().text); scanned && AtScan(reader)) {
        return ScanOf(reader, name->text, index_name, *type, *std::move(axes), *scanned);
      }
      if (!index_name.empty()) {
        return reader.ErrorHere(
            "two outputs need argmax[...](...), argmin[...](...), cumargmax[...](...) or "
            "cumargmin[...](...)");
      }
      if (auto status = CheckAxes(reader, *axes, {}); !status.ok()) return status;
      auto value = Value(reader, *axes, {}, *type);
      if (!value.ok()) return value.status();
      graph_.AddMap(name->text, std::move(axes->axes), *std::move(value));
      return absl::OkStatus();
    }
    return ReduceOf(reader, name->text, index_name, *type, *std::move(axes), points, *combiner);
  }

  absl::Status ReduceOf(TokenReader& reader, const std::string& name, const std::string& index_name,
                        DType type, AxisList axes, int64_t points, Combiner combiner) {
    const int column = reader.Next().column;
    if (combiner == Combiner::kLogSumExp) {
      return reader.ErrorAt(column,
                            "logsumexp is for scans: write max, sum[...](exp(...)) and log");
    }
    if (auto status = CheckCombiner(reader, column, NameOf(combiner), combiner, index_name, type);
        !status.ok()) {
      return status;
    }
    auto reduced = Axes(reader, kMaxPoints, points);
    if (!reduced.ok()) return reduced.status();
    if (auto status = CheckAxes(reader, axes, *reduced); !status.ok()) return status;
    auto value = CombinedValue(reader, axes, *reduced, type, "reduce");
    if (!value.ok()) return value.status();
    graph_.AddReduce(name, combiner, std::move(axes.axes), std::move(reduced->axes),
                     *std::move(value), index_name);
    return absl::OkStatus();
  }

  absl::Status CheckCombiner(const TokenReader& reader, int column, const std::string& called,
                             Combiner combiner, const std::string& index_name, DType type) {
    if (HasIndex(combiner) != !index_name.empty()) {
      return reader.ErrorAt(column,
                            HasIndex(combiner)
                                ? absl::StrCat(called, " gives two outputs: `value, index: ...`")
                                : absl::StrCat(called, " gives one output"));
    }
    if (!Takes(combiner, type)) {
      return reader.ErrorAt(column, absl::StrCat(called, " of ", NameOf(type)));
    }
    return absl::OkStatus();
  }

  // The `(expression)` that ends a reduce or a scan.
  absl::StatusOr<ExprPtr> CombinedValue(TokenReader& reader, const AxisList& axes,
                                        const AxisList& reduced, DType type, const char* kind) {
    if (auto status = reader.Expect("("); !status.ok()) return status;
    auto value = Value(reader, axes, reduced, type);
    if (!value.ok()) return value;
    if (auto status = reader.Expect(")"); !status.ok()) return status;
    if (reader.Peek().kind != Token::Kind::kEnd) {
      return reader.ErrorHere(
          absl::StrCat("a ", kind, " stands alone, go on in a map: expected the end of the line"));
    }
    return value;
  }

  // Whether `cumsum[...](` stands here: `cumsum[r]` alone loads a tensor that is called cumsum.
  static bool AtScan(const TokenReader& reader) {
    if (!reader.At("[", 1)) return false;
    int at = 2;
    while (reader.Peek(at).kind == Token::Kind::kName || reader.At(",", at)) ++at;
    return reader.At("]", at) && reader.At("(", at + 1);
  }

  // `[axis, reverse, exclusive]`; the words in either order or not at all.
  absl::StatusOr<Scan> ScanAlong(TokenReader& reader, const std::vector<Axis>& axes) {
    if (auto status = reader.Expect("["); !status.ok()) return status;
    const Token axis = reader.Next();
    Scan scan;
    scan.axis = -1;
    for (size_t a = 0; a < axes.size(); ++a) {
      if (axes[a].name == axis.text) scan.axis = static_cast<int>(a);
    }
    if (scan.axis < 0) {
      return reader.ErrorAt(axis.column,
                            absl::StrCat("'", axis.text, "' is no axis of the output"));
    }
    while (reader.Take(",")) {
      bool& word = reader.At("reverse") ? scan.reverse : scan.exclusive;
      if (word || !(reader.Take("reverse") || reader.Take("exclusive"))) {
        return reader.ErrorHere("expected reverse or exclusive, each once");
      }
      word = true;
    }
    if (auto status = reader.Expect("]"); !status.ok()) return status;
    return scan;
  }

  absl::Status ScanOf(TokenReader& reader, const std::string& name, const std::string& index_name,
                      DType type, AxisList axes, Combiner combiner) {
    const int column = reader.Next().column;
    const std::string called = ScanNameOf(combiner);
    if (auto status = CheckAxes(reader, axes, {}); !status.ok()) return status;
    if (auto status = CheckCombiner(reader, column, called, combiner, index_name, type);
        !status.ok()) {
      return status;
    }
    auto scan = ScanAlong(reader, axes.axes);
    if (!scan.ok()) return scan.status();
    if (scan->exclusive && HasIndex(combiner)) {
      return reader.ErrorAt(
          column,
          absl::StrCat(called, " is not exclusive: where nothing was met there is no index"));
    }
    auto value = CombinedValue(reader, axes, {}, type, "scan");
    if (!value.ok()) return value.status();
    graph_.AddScan(name, combiner, std::move(axes.axes), *scan, *std::move(value), index_name);
    return absl::OkStatus();
  }

  absl::StatusOr<ExprPtr> Value(TokenReader& reader, const AxisList& axes, const AxisList& reduced,
                                DType type) {
    Scope scope{&graph_, &dims_, {}};
    for (const AxisList* list : {&axes, &reduced}) {
      for (const Axis& axis : list->axes) scope.variables.push_back(axis.name);
    }
    auto ast = ParseExpression(reader, scope);
    if (!ast.ok()) return ast.status();
    return Build(reader, scope, **ast, type);
  }

  absl::Status Output(TokenReader& reader) {
    do {
      const int column = reader.Peek().column;
      auto tensor = KnownTensor(reader);
      if (!tensor.ok()) return tensor.status();
      for (int other : graph_.outputs) {
        if (other == *tensor)
          return reader.ErrorAt(
              column, absl::StrCat("'", graph_.tensors[other].name, "' is an output already"));
      }
      graph_.outputs.push_back(*tensor);
    } while (reader.Take(","));
    return absl::OkStatus();
  }

  absl::Status Update(TokenReader& reader) {
    const int column = reader.Peek().column;
    auto state = KnownTensor(reader);
    if (!state.ok()) return state.status();
    const Tensor& target = graph_.tensors[*state];
    if (target.role != Role::kState) {
      return reader.ErrorAt(column, absl::StrCat("'", target.name, "' is no state"));
    }
    for (const Graph::Update& other : graph_.updates) {
      if (other.state == *state) {
        return reader.ErrorAt(column, absl::StrCat("'", target.name, "' is updated already"));
      }
    }
    if (auto status = reader.Expect("="); !status.ok()) return status;
    const int value_column = reader.Peek().column;
    auto value = KnownTensor(reader);
    if (!value.ok()) return value.status();
    const Tensor& source = graph_.tensors[*value];
    if (source.type != target.type || source.shape != target.shape) {
      return reader.ErrorAt(value_column, absl::StrCat("'", source.name, "' differs from '",
                                                       target.name, "' in type or shape"));
    }
    graph_.updates.push_back({*state, *value});
    return absl::OkStatus();
  }

  const Dims& dims_;
  Graph graph_;
};

}  // namespace

absl::StatusOr<Graph> Parse(const std::vector<std::string>& lines, const Dims& dims) {
  if (lines.size() > kMaxLines) {
    return absl::InvalidArgumentError(
        absl::StrCat("the graph has ", lines.size(), " lines; the limit is ", kMaxLines));
  }
  Parser parser(dims);
  for (size_t i = 0; i < lines.size(); ++i) {
    if (auto status = parser.Line(lines[i], static_cast<int>(i) + 1); !status.ok()) return status;
  }
  return parser.Take();
}

}  // namespace warpsmith::graph
