#include "worker/codegen/skeleton/contract/glue.h"

#include "absl/strings/str_cat.h"

namespace warpsmith::codegen {
namespace {

using absl::StrCat;

const char* Bool(bool b) { return b ? "true" : "false"; }

// x[lane] = the operand's element.
std::string OperandBody(const Dialect& dialect, const Kernel& kernel, ValuePtr operand,
                        uint64_t known) {
  const Frame& frame = kernel.frame;
  Emitter emit(dialect, known);
  emit.Expect({operand});
  LoadContiguous(emit, kernel, {operand},
                 [&](ValuePtr load) { return IsVector(load->index, frame); });
  OpenLanes(emit, frame);
  emit.Line(StrCat("x[", LaneName(frame), "] = ", emit.Use(operand), ";"));
  CloseLanes(emit, frame);
  return emit.Finish();
}

// Roots of sums[lane].
std::string FinishBody(const GroupContext& context, const Dialect& dialect, const Kernel& kernel,
                       uint64_t known) {
  const Frame& frame = kernel.frame;
  std::vector<const Kernel::Root*> roots;
  std::vector<ValuePtr> values;
  for (const Kernel::Root& root : kernel.roots) {
    roots.push_back(&root);
    values.push_back(root.value);
  }
  Emitter emit(dialect, known);
  for (ValuePtr value : kernel.values->Closure(values)) {
    if (value->kind == Value::Kind::kResult)
      emit.Bind(value, StrCat("sums[", LaneName(frame), "]"));
  }
  emit.Expect(values);
  LoadContiguous(emit, kernel, values, [&](ValuePtr load) { return IsVector(load->index, frame); });
  StoreRoots(emit, dialect, context, kernel, roots,
             [&](const Index& address) { return IsVector(address, frame); });
  return emit.Finish();
}

}  // namespace

absl::Status WriteContractGlue(const Analysis& group, const Domain& domain,
                               const ContractForm& form, const ContractWidths& widths,
                               const Style& style, KernelWriter& writer) {
  const auto build = [&](const Reading& reading, Lane rows) {
    return BuildContract(group, domain, form, reading.along_rows ? rows : Lane::kK, reading.width);
  };
  const auto a = build(widths.a, Lane::kM), b = build(widths.b, Lane::kN);
  const auto end = BuildContract(group, domain, form, Lane::kN, widths.finish);
  for (const auto* kernel : {&a, &b, &end}) {
    if (!kernel->ok()) return kernel->status();
  }
  const GroupContext context = ContextOf(group, domain, style, writer.glue());
  const std::vector<Parameter> parameters = ParametersOf(context, {&*a, &*b, &*end});
  bool fits = true;
  for (const auto* kernel : {&a, &b, &end}) fits = fits && FitsInt(group.graph(), **kernel);
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
                   ", kAlongN = ", Bool(widths.b.along_rows), ";"));
  for (const Parameter& p : parameters) text.Line(StrCat(p.type, " ", p.name, ";"));
  const auto known = [](const Frame& frame, const Variable& row) {
    return BitOf(frame.outer) | BitOf(row) | BitOf(frame.k);
  };
  for (int operand : {0, 1}) {
    const Kernel& kernel = operand == 0 ? *a : *b;
    const Frame& frame = kernel.frame;
    const char* name = operand == 0 ? "a" : "b";
    const char* row = operand == 0 ? "m" : "n";
    text.Line("template <int V>");
    text.Open(StrCat("WS_DEVICE void ", name, "(Index b, Index ", row,
                     ", Index k, Sum (&x)[V]) const {"));
    text.Append(OperandBody(MakeDialect(context, kernel, parameters, index), kernel,
                            OperandOf(form, kernel, operand),
                            known(frame, operand == 0 ? frame.row : frame.column)));
    text.Close();
  }
  text.Line("template <int V>");
  text.Open("WS_DEVICE void finish(Index b, Index m, Index n, const Sum (&sums)[V]) const {");
  const Frame& frame = end->frame;
  text.Append(FinishBody(context, MakeDialect(context, *end, parameters, index), *end,
                         BitOf(frame.outer) | BitOf(frame.row) | BitOf(frame.column)));
  text.Close();
  text.Close("};");
  writer.Struct(text.str(), parameters);
  return absl::OkStatus();
}

}  // namespace warpsmith::codegen
