// Glue of the columns skeleton.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "worker/codegen/skeleton/glue.h"
#include "worker/codegen/skeleton/staged/staged.h"

namespace warpsmith::codegen {
namespace {

using absl::StrCat;

bool IsAligned(const Index& index, const Frame& frame) {
  return frame.width == 1 || index.Without(frame.lane).multiple() % frame.width == 0;
}

// Loads of the stages along the reduced axis that one access brings for all lanes.
std::vector<ValuePtr> StreamsOf(const Kernel& kernel) {
  const Frame& frame = kernel.frame;
  std::vector<ValuePtr> values, streams;
  for (const Kernel::Reduce& reduce : kernel.reduces) values.push_back(reduce.value);
  const uint64_t known = frame.row_variables | BitOf(frame.k);
  for (ValuePtr load : kernel.values->Closure(values)) {
    if (load->kind != Value::Kind::kLoad || !load->args.empty() || load->index.has_opaque())
      continue;
    if ((load->variables & ~known) != 0 || (load->variables & BitOf(frame.k)) == 0) continue;
    if (!IsContiguous(load->index, frame) || !IsAligned(load->index, frame) ||
        !FitsVector(load->type, frame.width))
      continue;
    streams.push_back(load);
  }
  return streams;
}

bool Vectorises(const Kernel& kernel) {
  const Frame& frame = kernel.frame;
  for (ValuePtr load : LoadsOf(kernel)) {
    if (!load->args.empty() || load->index.has_opaque() || (load->variables & BitOf(frame.k)) == 0)
      continue;
    if (FitsVector(load->type, frame.width) && IsContiguous(load->index, frame) &&
        !IsAligned(load->index, frame))
      return false;
  }
  return !StreamsOf(kernel).empty();
}

// Everything of the struct that depends on the vector width.
struct Parts {
  std::string column_struct, column, load, finish, emit_row, emit;
  std::vector<std::string> accumulate;
  std::string values, accs, statics;
};

absl::StatusOr<Parts> Generate(const GroupContext& context, const Kernel& kernel,
                               GroupSource& source) {
  RowMembers members;
  StagedGlue glue(context, kernel, source.parameters, "column", members);
  if (absl::Status status = glue.Prepare(); !status.ok()) return status;
  if (source.index_type.empty()) source.index_type = glue.FitsInt() ? "int" : "long long";
  glue.SetIndexType(source.index_type);
  const Frame& frame = kernel.frame;
  glue.SetAligned([&frame](const Index& index) { return IsAligned(index, frame); });
  const std::vector<ValuePtr> streams = StreamsOf(kernel);
  Parts parts;
  Text values;
  for (size_t i = 0; i < streams.size(); ++i) {
    glue.BindStream(streams[i],
                    ToRegister(streams[i]->type, StrCat("values.s", i, "[", LaneName(frame), "]")));
    values.Line(StrCat(StorageType(streams[i]->type), " s", i, "[", frame.width, "];"));
  }
  parts.values = values.str();
  source.streams = static_cast<int>(streams.size());
  source.stream_bytes = 0;
  for (ValuePtr stream : streams)
    source.stream_bytes += static_cast<int>(graph::SizeOf(stream->type));
  source.stages = context.space->stages;
  source.emits = glue.HasRoots(RootPlan::Kind::kFull);
  source.row_outputs = glue.HasRoots(RootPlan::Kind::kRow);
  source.acc_bytes.clear();
  for (int s = 0; s < source.stages; ++s) source.acc_bytes.push_back(glue.AccBytes(s));
  parts.load = glue.LoadBody(streams);
  for (int s = 0; s < source.stages; ++s) parts.accumulate.push_back(glue.AccumulateBody(s));
  parts.emit = glue.EmitBody();
  parts.emit_row = glue.EmitRowBody();
  Text finish;
  for (int s = 0; s < source.stages; ++s) {
    finish.Open(StrCat("if constexpr (S == ", s, ") {"));
    finish.Append(glue.FinishBody(s, true));
    finish.Close();
  }
  parts.finish = finish.str();
  parts.column = glue.FinishBody(-1, false);
  parts.column_struct = glue.RowStruct();
  parts.accs = glue.AccStructs();
  parts.statics = glue.StaticFunctions();
  return parts;
}

}  // namespace

absl::StatusOr<GroupSource> GenerateColumns(const GroupContext& context) {
  const graph::Graph& graph = *context.graph;
  const Space& space = *context.space;
  GroupSource source;
  source.index_type.clear();
  absl::StatusOr<Kernel> wide = absl::InternalError("no kernel");
  source.width = WidthFor(context, context.knobs->memory().vector_bytes());
  for (;; source.width /= 2) {
    if (source.width > 1 && space.columns % source.width != 0) continue;
    wide = BuildKernel(graph, space, context.in_memory, source.width, true);
    if (!wide.ok()) return wide.status();
    if (source.width == 1 || Vectorises(*wide)) break;
  }
  // The end of a split works on single columns.
  const bool both = source.width > 1 && context.knobs->occupancy().blocks_per_row() > 1;
  auto narrow = BuildKernel(graph, space, context.in_memory, 1, true);
  if (!narrow.ok()) return narrow.status();
  source.parameters = ParametersOf(context, {&*wide, &*narrow});
  if (wide->values->full()) return absl::InvalidArgumentError("too many variables in one kernel");
  auto main = Generate(context, *wide, source);
  if (!main.ok()) return main.status();
  Parts single;
  if (both) {
    auto parts = Generate(context, *narrow, source);
    if (!parts.ok()) return parts.status();
    single = *parts;
  }

  Text text;
  text.Open(StrCat("struct ", context.name, " {"));
  text.Line(StrCat("using Index = ", source.index_type, ";"));
  const int max_acc = *std::max_element(source.acc_bytes.begin(), source.acc_bytes.end());
  text.Line(
      StrCat("static constexpr int kStages = ", space.stages, ", kMaxAccBytes = ", max_acc, ";"));
  text.Line(StrCat("static constexpr bool kEmits = ", source.emits ? "true" : "false",
                   ", kRowOutputs = ", source.row_outputs ? "true" : "false", ";"));
  for (const Parameter& p : source.parameters) text.Line(StrCat(p.type, " ", p.name, ";"));
  auto structs = [&](const char* name, const std::string& a, const std::string& b) {
    text.Line(StrCat("template <int V, class = void> struct ", name, ";"));
    text.Line(StrCat("template <class Unused> struct ", name, "<", source.width, ", Unused> {"));
    text.Append(a);
    text.Line("};");
    if (!both) return;
    text.Line(StrCat("template <class Unused> struct ", name, "<1, Unused> {"));
    text.Append(b);
    text.Line("};");
  };
  structs("Column", main->column_struct, single.column_struct);
  structs("Values", main->values, single.values);
  text.Append(main->accs);
  auto by_width = [&](const std::string& a, const std::string& b) {
    return both ? ByWidth(source.width, a, b) : a;
  };
  text.Line("template <int V>");
  text.Open("WS_DEVICE Column<V> column(Index o, Index c) const {");
  text.Line("Column<V> column;");
  text.Line("column.o = o;");
  text.Line("column.c = c;");
  text.Line("{");
  text.Append(by_width(main->column, single.column));
  text.Line("}");
  text.Line("return column;");
  text.Close();
  text.Line("template <int V>");
  text.Line("WS_DEVICE void load(const Column<V>& column, Index k, Values<V>& values) const {");
  text.Append(by_width(main->load, single.load));
  text.Line("}");
  text.Append(main->statics);
  text.Line("template <int S, int V>");
  text.Open(
      "WS_DEVICE void accumulate(const Column<V>& column, Index k, const Values<V>& values, Acc<S> "
      "(&acc)[V]) const {");
  for (int s = 0; s < space.stages; ++s) {
    text.Open(StrCat("if constexpr (S == ", s, ") {"));
    text.Append(by_width(main->accumulate[s], both ? single.accumulate[s] : ""));
    text.Close();
  }
  text.Close();
  text.Line("template <int S, int V>");
  text.Line("WS_DEVICE void finish(Column<V>& column, const Acc<S> (&acc)[V]) const {");
  text.Append(by_width(main->finish, single.finish));
  text.Line("}");
  text.Line("template <int V>");
  text.Line(
      "WS_DEVICE void emit(const Column<V>& column, Index k, const Values<V>& values) const {");
  text.Append(by_width(main->emit, single.emit));
  text.Line("}");
  text.Line("template <int V>");
  text.Line("WS_DEVICE void emit_row(const Column<V>& column) const {");
  text.Append(by_width(main->emit_row, single.emit_row));
  text.Line("}");
  text.Close("};");
  source.text = text.str();
  return source;
}

}  // namespace warpsmith::codegen
