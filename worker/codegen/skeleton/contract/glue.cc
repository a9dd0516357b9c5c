#include "worker/codegen/skeleton/contract/glue.h"

#include <algorithm>
#include <functional>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "worker/codegen/skeleton/contract/apart.h"
#include "worker/codegen/skeleton/contract/contract.h"
#include "worker/codegen/skeleton/contract/sums.h"

namespace warpsmith::codegen {
namespace {

using absl::StrCat;

const char* Bool(bool b) { return b ? "true" : "false"; }

// Whether a vector may begin there.
bool IsEven(ValuePtr, const Index& base, int width) { return base.multiple() % width == 0; }

// x[lane] = the operand's element; `away`: rounded to eleven bits, ties away from zero.
std::string OperandBody(const Dialect& dialect, const Kernel& kernel, ValuePtr operand,
                        uint64_t known, bool away) {
  const Frame& frame = kernel.frame;
  Emitter emit(dialect, known);
  emit.Expect({operand});
  LoadContiguous(emit, kernel, {operand}, IsEven);
  OpenLanes(emit, frame);
  const std::string element = emit.Use(operand);
  emit.Line(StrCat("x[", LaneName(frame),
                   "] = ", away ? StrCat("ws::eleven_bits(", element, ")") : element, ";"));
  CloseLanes(emit, frame);
  return emit.Finish();
}

// What an element that is written in 16 bits was before it was rounded to them.
ValuePtr BeforeRounding(ValuePtr element, graph::DType type) {
  const auto casts = [](ValuePtr value, graph::DType to, graph::DType from) {
    return value->kind == Value::Kind::kOp && value->op == graph::Op::kCast && value->type == to &&
           value->args[0]->type == from;
  };
  const bool rounds =
      casts(element, graph::DType::kF32, type) && casts(element->args[0], type, graph::DType::kF32);
  return rounds ? element->args[0]->args[0] : element;
}

// What is made of elements in two parts: reading them as they are in memory, and what is made of
// that. Under conditions, and where something else in memory says, they are read where they are
// made.
struct ReadAhead {
  std::string members, load;
  int words = 0;                                         // of 4 bytes
  std::vector<std::pair<ValuePtr, std::string>> values;  // loads, and what they are afterwards
};
// `of`: which loads; their members begin with `prefix`.
ReadAhead ReadAheadOf(const Dialect& dialect, const Kernel& kernel,
                      const std::vector<ValuePtr>& values, uint64_t known,
                      const std::function<bool(ValuePtr)>& of, const std::string& prefix = "w") {
  const Frame& frame = kernel.frame;
  Emitter load(dialect, known);
  Text members;
  ReadAhead ahead;
  for (ValuePtr value : kernel.values->Closure(values)) {
    if (value->kind != Value::Kind::kLoad || !value->args.empty() || value->index.has_opaque() ||
        !of(value))
      continue;
    const std::string type = StorageType(value->type);
    const bool vector = frame.width > 1 && (value->variables & BitOf(frame.lane)) != 0;
    const Index base = LaneBase(value->index, frame);
    if (vector && (!IsContiguous(value->index, frame) || !IsEven(value, base, frame.width) ||
                   !FitsAccesses(value->type, frame.width)))
      continue;
    const std::string name = StrCat(prefix, ahead.values.size()), raw = StrCat("raw.", name);
    const int64_t bytes = graph::SizeOf(value->type) * (vector ? frame.width : 1);
    ahead.words += static_cast<int>((bytes + 3) / 4);
    if (vector) {
      members.Line(StrCat(type, " ", name, "[", frame.width, "];"));
      load.LoadVector(value, base, frame.width, raw);
      ahead.values.emplace_back(value,
                                ToRegister(value->type, StrCat(raw, "[", LaneName(frame), "]")));
    } else {
      members.Line(StrCat(type, " ", name, ";"));
      load.Line(StrCat(raw, " = ", load.Element(value->tensor, value->index), ";"));
      ahead.values.emplace_back(value, ToRegister(value->type, raw));
    }
  }
  ahead.members = members.str();
  ahead.load = load.Finish();
  return ahead;
}

// x[lane] = the operand's element, of what was read ahead.
std::string MakeBody(const Dialect& dialect, const Kernel& kernel, ValuePtr operand, uint64_t known,
                     const ReadAhead& ahead) {
  const Frame& frame = kernel.frame;
  Emitter make(dialect, known);
  for (const auto& [value, name] : ahead.values) make.Bind(value, name);
  make.Expect({operand});
  LoadContiguous(make, kernel, {operand}, IsEven);
  OpenLanes(make, frame);
  make.Line(StrCat("x[", LaneName(frame), "] = ", make.Use(operand), ";"));
  CloseLanes(make, frame);
  return make.Finish();
}

// A scale of an operand, at one place. An infinite one makes NaN of zeros, and of elements of both
// signs, that are multiplied by it one by one: of what is left of a sum it shall, too.
std::string ScaleBody(const Dialect& dialect, ValuePtr scale, uint64_t known) {
  Emitter emit(dialect, known);
  emit.Expect({scale});
  emit.Line(StrCat("return ws::finite_or_nan(", emit.Use(scale), ");"));
  return emit.Finish();
}

std::vector<ValuePtr> ValuesOf(const Kernel& kernel) {
  std::vector<ValuePtr> values;
  for (const Kernel::Root& root : kernel.roots) values.push_back(root.value);
  return values;
}

// Roots of sums[lane], and of what was read ahead; of what is summed, value[lane].
// A pair's second sums are behind its first ones.
std::string FinishBody(const GroupContext& context, const Dialect& dialect, const Kernel& kernel,
                       const ContractForm& form, uint64_t known, const std::string& sums,
                       const std::vector<std::pair<ValuePtr, std::string>>& ahead) {
  const Frame& frame = kernel.frame;
  std::vector<const Kernel::Root*> roots;
  std::vector<ValuePtr> values;
  ValuePtr summed = nullptr;
  for (const Kernel::Root& root : kernel.roots) {
    if (root.tensor == form.summed) {
      summed = root.value;
      if (IsHalf(summed->type))
        summed = kernel.values->Op(graph::Op::kCast, graph::DType::kF32, {summed});
      values.push_back(summed);
      if (!form.writes_summed) continue;
    }
    roots.push_back(&root);
    values.push_back(root.value);
  }
  Emitter emit(dialect, known);
  for (ValuePtr value : kernel.values->Closure(values)) {
    if (value->kind != Value::Kind::kResult) continue;
    const bool second = value->node != kernel.reduces[0].node;
    emit.Bind(value,
              StrCat(sums, "[", second ? StrCat(frame.width, " + ") : "", LaneName(frame), "]"));
  }
  for (const auto& [value, name] : ahead) emit.Bind(value, name);
  emit.Expect(values);
  LoadContiguous(emit, kernel, values, IsEven);
  if (summed != nullptr) {  // first: others may be made of it
    const std::string value = StrCat("value[", LaneName(frame), "]");
    OpenLanes(emit, frame);
    emit.Line(StrCat(value, " = ", emit.Use(summed), ";"));
    CloseLanes(emit, frame);
    emit.Bind(summed, value);
  }
  if (!roots.empty()) {
    StoreRoots(emit, dialect, context, kernel, roots,
               [&](const Index& address) { return IsVector(address, frame); });
  }
  return emit.Finish();
}

// What becomes of a sum of what the end makes, of a line of the result.
std::string TotalText(const GroupContext& context, const Analysis& group, const Domain& domain,
                      const ContractForm& form, const EndSum& sum, const Kernel& of_sum,
                      const Kernel& single, const std::vector<Parameter>& parameters,
                      const std::string& index) {
  const std::string name = sum.over_rows ? "total_down" : "total_across";
  Text text;
  std::string then;
  if (!of_sum.roots.empty()) {
    const Dialect dialect = MakeDialect(context, of_sum, parameters, index);
    Emitter emit(dialect, BitOf(of_sum.frame.element));
    for (ValuePtr load : LoadsOf(of_sum)) {
      if (load->tensor == sum.sum) emit.Bind(load, "value");
    }
    std::vector<const Kernel::Root*> roots;
    for (const Kernel::Root& root : of_sum.roots) roots.push_back(&root);
    emit.Expect(ValuesOf(of_sum));
    StoreRoots(emit, dialect, context, of_sum, roots, [](const Index&) { return true; });
    text.Open(StrCat("WS_DEVICE void ", name, "_at(Index i, Sum value) const {"));
    text.Append(emit.Finish());
    text.Close();
    then = StrCat(name, "_at(at, value);\n");
  }
  const Frame& frame = single.frame;
  const Dialect dialect = MakeDialect(context, single, parameters, index);
  Emitter emit(dialect, BitOf(frame.outer) | BitOf(sum.over_rows ? frame.column : frame.row));
  emit.Line(StrCat("const Index at = ", emit.Use(PlaceOf(group, domain, form, sum, frame)), ";"));
  if (std::count(sum.roots.begin(), sum.roots.end(), sum.sum) > 0)
    emit.Line(StrCat(PointerOf(parameters, sum.sum), "[at] = value;"));
  emit.Append(then);
  text.Open(StrCat("WS_DEVICE void ", name, "(Index b, Index ", sum.over_rows ? "n" : "m",
                   ", Sum value) const {"));
  text.Append(emit.Finish());
  text.Close();
  return text.str();
}

// The index that says by 0 <= index whether an element of the root is made of its sum, where that
// is a line across M and N (what is left of a triangle); nullopt: it always may be.
std::optional<Index> SumIsUsed(const Kernel& kernel, ValuePtr value) {
  while (value->kind == Value::Kind::kOp && value->op == graph::Op::kCast) value = value->args[0];
  if (value->kind != Value::Kind::kOp || value->op != graph::Op::kSelect) return std::nullopt;
  const ValuePtr condition = value->args[0];
  if (condition->kind != Value::Kind::kCompare || condition->op != graph::Op::kLe)
    return std::nullopt;
  const auto uses = [&](ValuePtr side) {
    const std::vector<ValuePtr> all = kernel.values->Closure({side});
    return std::any_of(all.begin(), all.end(),
                       [](ValuePtr one) { return one->kind == Value::Kind::kResult; });
  };
  const bool where = uses(value->args[1]), elsewhere = uses(value->args[2]);
  if (where == elsewhere) return std::nullopt;
  const Index index = where ? condition->index : Index(-1) - condition->index;
  const Frame& frame = kernel.frame;
  return index.Without(frame.row).Without(frame.column).is_constant() ? std::optional<Index>(index)
                                                                      : std::nullopt;
}

// Whether a tile has an element that some root makes of its sum. `kernel`: of single elements.
std::string WantedBody(const Kernel& kernel) {
  std::vector<std::string> any;
  for (const Kernel::Root& root : kernel.roots) {
    const std::optional<Index> index = SumIsUsed(kernel, root.value);
    if (!index) return "return true;\n";
    // The largest in the tile.
    std::string most = StrCat(index->constant());
    const auto add = [&](const Variable& variable, const char* first, const char* extent) {
      const int64_t by = index->CoefficientOf(variable);
      if (by == 0) return;
      absl::StrAppend(&most, " + ", by, "ll * (", first,
                      by > 0 ? StrCat(" + ", extent, " - 1") : "", ")");
    };
    add(kernel.frame.row, "m", "rows");
    add(kernel.frame.column, "n", "columns");
    any.push_back(StrCat("0 <= ", most));
  }
  return StrCat("return ", absl::StrJoin(any, " || "), ";\n");
}

// What an end is called: of neighbours along N, and of those of a column of two rows.
struct EndNames {
  const char *of_row, *raw, *load_of_row, *load_own, *load, *finish, *words_of_row, *words;
};
constexpr EndNames kOfLine = {"RawRow",   "RawEnd", "load_row", "load_own",
                              "load_end", "finish", "kRawRow",  "kRawEnd"};
constexpr EndNames kOfRows = {"RawOfRows", "RawRows",     "load_of_rows", "load_rows_own",
                              "load_rows", "finish_rows", "kRawOfRows",   "kRawRows"};

// What each line of a tile has of its own, and what becomes of its sums. `scaled`: they are
// multiplied by scales of rows first.
std::string EndText(const GroupContext& context, const ContractForm& form, const Kernel& end,
                    const std::vector<Parameter>& parameters, const std::string& index,
                    const EndNames& names, bool scaled) {
  const Frame& frame = end.frame;
  const uint64_t place = BitOf(frame.outer) | BitOf(frame.row) | BitOf(frame.column);
  Dialect dialect = MakeDialect(context, end, parameters, index);
  // A branch would keep apart what several lines of a tile read and make at once.
  dialect.both_sides = true;
  dialect.one_sum = true;
  dialect.store_hint = 2;
  // Rows' own variables; lanes are of two rows, or of neighbours along N.
  const uint64_t rows_lane = &names == &kOfRows ? BitOf(frame.lane) : 0;
  const uint64_t of_row = BitOf(frame.outer) | BitOf(frame.row) | rows_lane;
  const auto ahead_of = [&](bool rows) {
    return ReadAheadOf(
        dialect, end, ValuesOf(end), place,
        [&](ValuePtr value) {
          // Words of rows lie beside each other.
          const bool alike = (value->variables & ~of_row) == 0 && graph::SizeOf(value->type) <= 4;
          return (value->variables & BitOf(frame.row)) != 0 && alike == rows;
        },
        rows ? "r" : "w");
  };
  const ReadAhead rows = ahead_of(true), own = ahead_of(false);
  Text text;
  text.Line(StrCat("static constexpr int ", names.words_of_row, " = ", rows.words, ", ",
                   names.words, " = ", rows.words + own.words, ";"));
  text.Open(StrCat("struct ", names.of_row, " {"));
  text.Append(rows.members);
  text.Close("};");
  text.Open(StrCat("struct ", names.raw, " : ", names.of_row, " {"));
  text.Append(own.members);
  text.Close("};");
  text.Open(StrCat("WS_DEVICE void ", names.load_of_row, "(Index b, Index m, ", names.of_row,
                   "& raw) const {"));
  text.Append(rows.load);
  text.Close();
  const std::string of_raw = StrCat("(Index b, Index m, Index n, ", names.raw, "& raw) const {");
  text.Open(StrCat("WS_DEVICE void ", names.load_own, of_raw));
  text.Append(own.load);
  text.Close();
  text.Open(StrCat("WS_DEVICE void ", names.load, of_raw));
  text.Line(StrCat(names.load_of_row, "(b, m, raw);"));
  text.Line(StrCat(names.load_own, "(b, m, n, raw);"));
  text.Close();
  std::vector<std::pair<ValuePtr, std::string>> ahead = rows.values;
  ahead.insert(ahead.end(), own.values.begin(), own.values.end());
  // What is summed comes back to who adds it up.
  const bool summed = form.summed >= 0;
  const std::string sums = StrCat("const Sum (&sums)[", form.pair ? "2 * V" : "V", "]",
                                  summed ? ", Sum (&value)[V]" : "", ") const {");
  text.Line("template <int V>");
  text.Open(StrCat("WS_DEVICE void ", names.finish, "(Index b, Index m, Index n, const ", names.raw,
                   "& raw, ", sums));
  if (scaled) {
    text.Line("Sum done[V];");
    text.Line("const Sum of_row = rows_a(b, m);");
    text.Line("for (int j = 0; j < V; ++j) done[j] = sums[j] * (of_row * rows_b(b, n + j));");
  }
  text.Append(FinishBody(context, dialect, end, form, place, scaled ? "done" : "sums", ahead));
  text.Close();
  if (&names == &kOfRows) return text.str();
  text.Line("template <int V>");
  text.Open(StrCat("WS_DEVICE void finish(Index b, Index m, Index n, ", sums));
  text.Line("RawEnd raw;");
  text.Line("load_end(b, m, n, raw);");
  text.Line(StrCat("finish<V>(b, m, n, raw, sums", summed ? ", value" : "", ");"));
  text.Close();
  return text.str();
}

// Whether what is written of rows 2i and 2i + 1 is one access of two: then they are finished
// together. Not where tiles of 128 x 128 leave no registers to ask for what sums have of their own
// in time, which more neighbours of a line make up for (2/26 of an H200: 824 us, and 1,122).
std::optional<Kernel> RowsTogether(const Analysis& group, const Domain& domain,
                                   const ContractForm& form) {
  if (!form.row_pairs || form.pair || form.summed >= 0 || form.apart.run > 0) return std::nullopt;
  if (!IsShifts(form) && form.own_bytes > 4 * form.row_words) return std::nullopt;
  auto kernel = BuildContract(group, domain, form, Lane::kM, 2);
  if (!kernel.ok()) return std::nullopt;
  const Frame& frame = kernel->frame;
  for (const Kernel::Root& root : kernel->roots) {
    const bool parted =
        root.condition != nullptr && (root.condition->variables & BitOf(frame.lane)) != 0;
    if (parted || root.greatest || !IsVector(root.address, frame) ||
        !FitsAccesses(root.value->type, 2))
      return std::nullopt;
  }
  return *std::move(kernel);
}

}  // namespace

absl::Status WriteContractGlue(const Analysis& group, const Domain& domain,
                               const ContractForm& form, const v1::Group& resolved,
                               KernelWriter& writer) {
  const ContractWidths& widths = WidthsOf(group, domain, form, resolved.contract());
  const bool apart = IsApart(form, resolved.contract().math());
  const bool away = resolved.contract().ties() == 2;
  const auto build = [&](const Reading& reading, Lane rows) {
    return BuildContract(group, domain, form, reading.along_rows ? rows : Lane::kK, reading.width);
  };
  const auto a = build(widths.a, Lane::kM), b = build(widths.b, Lane::kN);
  const auto end = BuildContract(group, domain, form, Lane::kN, widths.finish);
  const auto single = BuildContract(group, domain, form, Lane::kNone, 1);
  for (const auto* kernel : {&a, &b, &end, &single}) {
    if (!kernel->ok()) return kernel->status();
  }
  std::optional<Kernel> image;
  if (form.windows) {
    const int width = ImageWidth(group, domain, form, resolved.contract().vector_bytes());
    auto kernel = BuildImage(group, domain, form, width);
    if (!kernel.ok()) return kernel.status();
    image = *std::move(kernel);
  }
  // What becomes of each sum of what the end makes; roots that are written.
  std::vector<Kernel> of_sums;
  Domain written = domain;
  if (!form.writes_summed)
    std::erase_if(written.roots, [&](const auto& root) { return root.tensor == form.summed; });
  for (const EndSum& sum : form.end_sums) {
    auto kernel = KernelOf(group, sum);
    if (!kernel.ok()) return kernel.status();
    of_sums.push_back(*std::move(kernel));
    for (int root : sum.roots) {
      RootPlace place;
      place.tensor = root;
      written.roots.push_back(place);
    }
  }
  const GroupContext context = ContextOf(group, written, StyleOf(resolved), writer.glue());
  const std::optional<Kernel> together = RowsTogether(group, domain, form);
  std::vector<const Kernel*> kernels = {&*a, &*b, &*end};
  if (together) kernels.push_back(&*together);
  if (image) kernels.push_back(&*image);
  for (const Kernel& kernel : of_sums) {
    if (!kernel.roots.empty()) kernels.push_back(&kernel);
  }
  std::vector<Parameter> parameters = ParametersOf(context, kernels);
  std::erase_if(parameters, [&](const Parameter& parameter) {
    return !parameter.written &&
           std::any_of(form.end_sums.begin(), form.end_sums.end(),
                       [&](const EndSum& sum) { return sum.sum == parameter.tensor; });
  });
  bool fits = true;
  for (const auto* kernel : {&a, &b, &end}) fits = fits && FitsInt(group.graph(), **kernel);
  if (image)
    fits = fits && FitsInt(group.graph(), *image) &&
           form.batch * form.windows->rows() <= kMaxIntPosition;
  for (int64_t extent : {form.m, form.n, form.k, form.batch})
    fits = fits && extent <= kMaxIntPosition;
  const std::string index = fits ? "int" : "long long", sum = ComputeType(form.sums);

  Text text;
  text.Open(StrCat("struct ", context.name, " {"));
  text.Line(StrCat("using Index = ", index, ";"));
  text.Line(StrCat("using Sum = ", sum, ";"));
  text.Line(StrCat("static constexpr long long kBatch = ", form.batch, ", kM = ", form.m,
                   ", kN = ", form.n, ", kK = ", form.k, ";"));
  text.Line(StrCat("static constexpr int kWidthA = ", widths.a.width,
                   ", kWidthB = ", widths.b.width, ", kWidth = ", widths.finish, ";"));
  text.Line(StrCat("static constexpr bool kAlongM = ", Bool(widths.a.along_rows),
                   ", kAlongN = ", Bool(widths.b.along_rows), ", kPair = ", Bool(form.pair),
                   ", kRowPairs = ", Bool(form.row_pairs), ";"));
  const auto sums_over = [&](bool rows) {
    return std::any_of(form.end_sums.begin(), form.end_sums.end(),
                       [&](const EndSum& sum) { return sum.over_rows == rows; });
  };
  text.Line(StrCat("static constexpr bool kTotalDown = ", Bool(sums_over(true)),
                   ", kTotalAcross = ", Bool(sums_over(false)), ";"));
  for (const Parameter& p : parameters) text.Line(StrCat(p.type, " ", p.name, ";"));
  const auto known = [](const Frame& frame, const Variable& row) {
    return BitOf(frame.outer) | BitOf(row) | BitOf(frame.k);
  };
  for (int operand = 0; operand < 1 + form.of(); ++operand) {
    const Kernel& kernel = operand == 0 ? *a : *b;
    const Frame& frame = kernel.frame;
    const char* name = operand == 0 ? "a" : operand == 1 ? "b" : "second";
    const char* row = operand == 0 ? "m" : "n";
    const Dialect dialect = MakeDialect(context, kernel, parameters, index);
    ValuePtr element = apart && operand < 2 ? ApartOf(form, kernel, operand).narrow
                                            : OperandOf(form, kernel, operand);
    if (apart && operand < 2) element = BeforeRounding(element, form.apart.type);
    const uint64_t place = known(frame, operand == 0 ? frame.row : frame.column);
    const std::string at = StrCat("(Index b, Index ", row, ", Index k, ");
    std::string body;
    if (resolved.contract().math() == v1::PRODUCT_FEW) {
      const ReadAhead ahead =
          ReadAheadOf(dialect, kernel, {element}, place, [](ValuePtr) { return true; });
      const std::string raw = operand == 0 ? "RawA" : "RawB";
      text.Open(StrCat("struct ", raw, " {"));
      text.Append(ahead.members);
      text.Close("};");
      text.Open(StrCat("WS_DEVICE void load_", name, at, raw, "& raw) const {"));
      text.Append(ahead.load);
      text.Close();
      text.Line("template <int V>");
      text.Open(
          StrCat("WS_DEVICE void make_", name, at, "const ", raw, "& raw, Sum (&x)[V]) const {"));
      text.Append(MakeBody(dialect, kernel, element, place, ahead));
      text.Close();
      body = StrCat(raw, " raw;\nload_", name, "(b, ", row, ", k, raw);\nmake_", name, "(b, ", row,
                    ", k, raw, x);\n");
    } else {
      body = OperandBody(dialect, kernel, element, place, away);
    }
    text.Line("template <int V>");
    text.Open(StrCat("WS_DEVICE void ", name, at, "Sum (&x)[V]) const {"));
    text.Append(body);
    text.Close();
  }
  if (image) {
    const Frame& frame = image->frame;
    const Dialect dialect = MakeDialect(context, *image, parameters, index);
    ValuePtr element = OperandOf(form, *image, 1);
    if (apart) element = BeforeRounding(ApartOf(form, *image, 1).narrow, form.apart.type);
    text.Line(StrCat("static constexpr int kWidthImage = ", frame.width, ";"));
    text.Line("template <int V>");
    text.Open("WS_DEVICE void image(Index b, Index row, Index k, Sum (&x)[V]) const {");
    text.Append(OperandBody(dialect, *image, element, known(frame, frame.row), away));
    text.Close();
  }
  bool scaled = false;  // by rows
  for (int operand = 0; apart && operand < 2; ++operand) {
    const OperandApart scales = ApartOf(form, *single, operand);
    const Frame& frame = single->frame;
    const char* of = operand == 0 ? "a" : "b";
    const char* row = operand == 0 ? "m" : "n";
    const uint64_t place = known(frame, operand == 0 ? frame.row : frame.column);
    const Dialect dialect = MakeDialect(context, *single, parameters, index);
    scaled = scaled || scales.rows != nullptr;
    text.Open(StrCat("WS_DEVICE float rows_", of, "(Index b, Index ", row, ") const {"));
    text.Append(scales.rows == nullptr ? "return 1;\n"
                                       : ScaleBody(dialect, scales.rows, place & ~BitOf(frame.k)));
    text.Close();
    if (form.apart.run == 0) continue;
    text.Line(StrCat("static constexpr int kBeside", operand == 0 ? "A" : "B", " = ",
                     scales.runs == nullptr ? 0 : form.apart.beside[operand], ";"));
    text.Open(StrCat("WS_DEVICE float run_", of, "(Index b, Index ", row, ", Index k) const {"));
    text.Append(scales.runs == nullptr ? "return 1;\n" : ScaleBody(dialect, scales.runs, place));
    text.Close();
  }
  text.Open("static WS_DEVICE bool wanted(Index m, Index n, int rows, int columns) {");
  text.Append(WantedBody(*single));
  text.Close();
  text.Append(EndText(context, form, *end, parameters, index, kOfLine, scaled));
  text.Line(StrCat("static constexpr bool kRowsTogether = ", Bool(together.has_value()), ";"));
  if (together) text.Append(EndText(context, form, *together, parameters, index, kOfRows, false));
  for (size_t i = 0; i < form.end_sums.size(); ++i) {
    text.Append(TotalText(context, group, domain, form, form.end_sums[i], of_sums[i], *single,
                          parameters, index));
  }
  text.Close("};");
  writer.Struct(text.str(), parameters);
  return absl::OkStatus();
}

}  // namespace warpsmith::codegen
