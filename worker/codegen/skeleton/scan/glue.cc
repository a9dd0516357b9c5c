// Glue of the scan skeleton.
#include "worker/codegen/skeleton/glue.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "worker/codegen/skeleton/scan/scan.h"

namespace warpsmith::codegen {
namespace {

using absl::StrCat;
using graph::Combiner;

bool IsAligned(const Index& index, const Frame& frame) {
  return frame.width == 1 || index.Without(frame.lane).multiple() % frame.width == 0;
}

// Whether an element is one of the scan's alone, and not shared by many rows.
bool IsOfScan(ValuePtr load, const Domain& domain, const Frame& frame) {
  const uint64_t rows = frame.row_variables & ~(frame.width > 1 ? BitOf(frame.lane) : 0);
  return (load->variables & BitOf(frame.k)) != 0 &&
         (domain.kept() == 1 || (load->variables & rows) != 0);
}

// Loads of what is scanned that one access brings for all lanes, largest elements first.
std::vector<ValuePtr> StreamsOf(const Domain& domain, const Kernel& kernel) {
  const Frame& frame = kernel.frame;
  std::vector<ValuePtr> streams;
  for (ValuePtr load : kernel.values->Closure({kernel.reduces[0].value})) {
    if (load->kind != Value::Kind::kLoad || !load->args.empty() || load->index.has_opaque()) {
      continue;
    }
    if (IsOfScan(load, domain, frame) && IsContiguous(load->index, frame) &&
        IsAligned(load->index, frame) && FitsVector(load->type, frame.width)) {
      streams.push_back(load);
    }
  }
  std::stable_sort(streams.begin(), streams.end(), [](ValuePtr a, ValuePtr b) {
    return graph::SizeOf(a->type) > graph::SizeOf(b->type);
  });
  return streams;
}

// Everything that runs along lanes is aligned at this width.
bool Vectorises(const Domain& domain, const Kernel& kernel) {
  const Frame& frame = kernel.frame;
  const auto splits = [&](const Index& index) {
    return IsContiguous(index, frame) && !IsAligned(index, frame);
  };
  for (ValuePtr load : LoadsOf(kernel)) {
    if (!load->args.empty() || load->index.has_opaque() || !IsOfScan(load, domain, frame)) continue;
    if (FitsVector(load->type, frame.width) && splits(load->index)) return false;
  }
  return std::none_of(kernel.roots.begin(), kernel.roots.end(),
                      [&](const Kernel::Root& root) { return splits(root.address); });
}

// (r, k), lanes along k; or (o, k, c), lanes along c.
FrameMaker ScanFrame(const Domain& domain, const ScanSizes& sizes, int width) {
  return [&domain, sizes, width](Values& values) {
    Frame frame;
    frame.width = width;
    const auto lanes_from = [&](int64_t elements, const char* name, Variable& base) {
      base = values.NewVariable(name, {0, elements - width}, width);
      if (width == 1) return Index::Of(base);
      frame.lane = values.NewVariable("j", {0, width - 1});
      return Index::Of(base) + Index::Of(frame.lane);
    };
    Index outside, along, inside(0);
    if (sizes.rows()) {
      frame.row = values.NewVariable("r", {0, sizes.outer - 1});
      frame.row_variables = BitOf(frame.row);
      outside = Index::Of(frame.row);
      along = lanes_from(domain.carried(), "k", frame.k);
    } else {
      frame.outer = values.NewVariable("o", {0, sizes.outer - 1});
      frame.k = values.NewVariable("k", {0, domain.carried() - 1});
      outside = Index::Of(frame.outer);
      along = Index::Of(frame.k);
      inside = lanes_from(sizes.columns, "c", frame.column);
      frame.row_variables = BitOf(frame.outer) | BitOf(frame.column);
      if (width > 1) frame.row_variables |= BitOf(frame.lane);
    }
    std::vector<int64_t> outer_extents, inner_extents;
    for (size_t a = 0; a < domain.axes.size(); ++a) {
      if (domain.axes[a].role == Role::kKept)
        (sizes.inner[a] ? inner_extents : outer_extents).push_back(domain.axes[a].extent());
    }
    const std::vector<Index> outer = Unflatten(outside, outer_extents);
    const std::vector<Index> inner = Unflatten(inside, inner_extents);
    size_t next_outer = 0, next_inner = 0;
    for (size_t a = 0; a < domain.axes.size(); ++a) {
      frame.axes.push_back(domain.axes[a].role == Role::kCarried ? along
                           : sizes.inner[a]                      ? inner[next_inner++]
                                                                 : outer[next_outer++]);
    }
    return frame;
  };
}

ScanSizes SizesOf(const graph::Graph& graph, const Domain& domain) {
  const graph::Node& scan = graph.nodes[domain.primary];
  ScanSizes sizes;
  for (int a = 0; a < static_cast<int>(scan.axes.size()); ++a) {
    const int64_t extent = scan.axes[a].extent;
    if (extent == 1 || a == scan.scan->axis) continue;  // the carried axis comes last
    sizes.inner.push_back(a > scan.scan->axis);
    (sizes.inner.back() ? sizes.columns : sizes.outer) *= extent;
  }
  sizes.inner.resize(domain.axes.size());
  return sizes;
}

// Products of floats keep where they leave the range of float (ws::Gain).
bool IsGain(const Reduction& r) {
  return r.combiner == Combiner::kProd && ComputeType(r.type) == "float";
}

// Acc, identity and combine, and Element. Wide fields first, so that there are no holes.
std::string Accumulators(const Reduction& r) {
  Text text;
  if (IsGain(r)) {
    text.Line("static constexpr bool kProduct = true;");
    text.Line("using Acc = ws::Gain;");
    text.Line("struct Element { float v; };");
    text.Line("static WS_DEVICE Acc identity() { return ws::no_gain(); }");
    text.Line("static WS_DEVICE Element no_element() { return {1.0f}; }");
    text.Line(
        "static WS_DEVICE void combine(Acc& acc, const Acc& next) { ws::follow(acc, next); }");
    return text.str();
  }
  text.Line("static constexpr bool kProduct = false;");
  std::string members;
  for (bool wide : {true, false}) {
    for (const Field& field : FieldsOf(r)) {
      if (IsWide(field) == wide) absl::StrAppend(&members, " ", field.type, " ", field.name, ";");
    }
  }
  text.Line(StrCat("struct Acc {", members, " };"));
  text.Open("static WS_DEVICE Acc identity() {");
  text.Line("Acc acc;");
  for (const std::string& line : Identity(r, "acc.")) text.Line(line);
  text.Line("return acc;");
  text.Close();
  text.Line("using Element = Acc;");
  text.Line("static WS_DEVICE Element no_element() { return identity(); }");
  text.Open("static WS_DEVICE void combine(Acc& acc, const Acc& next) {");
  if (IsIndexed(r)) {
    // Of equals and of NaNs the latest stays.
    const char* beats = r.combiner == Combiner::kArgMax ? " > " : " < ";
    text.Line(StrCat("if (!(acc.v", beats, "next.v || (acc.v != acc.v && next.v == next.v))) ",
                     "acc = next;"));
  } else if (r.combiner == Combiner::kLogSumExp) {
    text.Line("acc.v = ws::log_add(acc.v, next.v);");
  } else {
    for (const std::string& line : Merge(r, "acc.", "next.")) text.Line(line);
  }
  text.Close();
  return text.str();
}

// The functions of elements, and then those of a row, which has to keep what they asked for.
std::string Functions(StagedGlue& glue, const ScanForm& form) {
  const bool rows = form.sizes.rows();
  const Frame& frame = form.kernel.frame;
  const std::string place = rows ? "const Row& row, Index k" : "const Column<V>& column, Index k";
  Text text;
  // Each stream has an array of the chunk's vectors.
  const auto slot_of = [&](size_t i) {
    return StrCat("chunk + N * V * ", form.offsets[i], " + slot_number * (V * ",
                  graph::SizeOf(form.streams[i]->type), ")");
  };
  text.Line("template <int V, int N>");
  text.Line(
      StrCat("WS_DEVICE void load_shared(", place, ", char* chunk, int slot_number) const {"));
  for (size_t i = 0; i < form.streams.size(); ++i) {
    text.Line("{");
    text.Line(StrCat("char* const slot = ", slot_of(i), ";"));
    text.Append(glue.LoadSharedBody({form.streams[i]}, {0}));
    text.Line("}");
  }
  text.Line("}");
  text.Line("template <int V, int N>");
  text.Open(
      "static WS_DEVICE void from_shared(const char* chunk, int slot_number, Values<V>& values) {");
  for (size_t i = 0; i < form.streams.size(); ++i) {
    const std::string type = StorageType(form.streams[i]->type);
    text.Line(StrCat("ws::load<V, ", type, ", 0>(reinterpret_cast<const ", type, "*>(", slot_of(i),
                     "), values.s", i, ");"));
  }
  text.Close();
  text.Line("template <int V>");
  text.Line(StrCat("WS_DEVICE void elements(", place,
                   ", const Values<V>& values, Element (&element)[V]) const {"));
  text.Append(glue.ScanElementsBody());
  text.Line("}");
  text.Line("template <int V>");
  text.Line(StrCat("WS_DEVICE void emit(", place,
                   ", const Values<V>& values, const Element (&result)[V]",
                   form.ends ? ", const Acc& end" : "", ") const {"));
  text.Append(glue.EmitBody());
  text.Line("}");
  if (rows) {
    text.Open("WS_DEVICE Row row(Index number) const {");
    text.Line("Row row;");
    text.Line(StrCat("row.", frame.row.name, " = number;"));
  } else {
    text.Line("template <int V>");
    text.Open("WS_DEVICE Column<V> column(Index outer, Index first) const {");
    text.Line("Column<V> column;");
    text.Line(StrCat("column.", frame.outer.name, " = outer;"));
    text.Line(StrCat("column.", frame.column.name, " = first;"));
  }
  text.Line("{");
  text.Append(glue.FinishBody(-1, false));
  text.Line("}");
  text.Line(rows ? "return row;" : "return column;");
  text.Close();
  return text.str();
}

}  // namespace

ScanForm FormScan(const Analysis& group, const Domain& domain, int bytes,
                  v1::Accumulator accumulator) {
  ScanForm form;
  form.sizes = SizesOf(group.graph(), domain);
  const bool rows = form.sizes.rows();
  for (form.width = WidthFor(group, bytes);; form.width /= 2) {
    if ((rows ? domain.carried() : form.sizes.columns) % form.width != 0) continue;
    auto kernel = BuildKernel(group.graph(), domain, group.in_memory(),
                              ScanFrame(domain, form.sizes, form.width));
    form.status = kernel.status();
    if (!kernel.ok()) return form;
    form.kernel = std::move(*kernel);
    if (form.width == 1 || Vectorises(domain, form.kernel)) break;
  }
  form.length = rows ? domain.carried() / form.width : domain.carried();
  const graph::Node& scan = group.graph().nodes[domain.primary];
  form.reduction.combiner = scan.combiner;
  form.reduction.type = scan.value->type;
  form.reduction.accumulator = accumulator;
  form.reduction.elements = domain.carried();
  form.acc_bytes = 0;
  for (const Field& field : FieldsOf(form.reduction)) form.acc_bytes += IsWide(field) ? 8 : 4;
  form.gains = IsGain(form.reduction);
  if (form.acc_bytes > 8 || form.gains) form.acc_bytes = 16;
  for (ValuePtr value : form.kernel.values->Closure(TargetsOf(form.kernel)))
    form.ends = form.ends || (value->kind == Value::Kind::kResult && value->output == kScanEnd);
  if (form.ends && !rows) {
    form.status = absl::InvalidArgumentError(
        "what a scan along an outer axis comes to at its end is needed all along it; put what uses "
        "it into another group");
    return form;
  }
  form.streams = StreamsOf(domain, form.kernel);
  for (ValuePtr stream : form.streams) {
    form.offsets.push_back(form.stream_bytes);
    form.stream_bytes += static_cast<int>(graph::SizeOf(stream->type));
  }
  return form;
}

absl::Status WriteScan(const Analysis& group, const Domain& domain, const v1::Group& resolved,
                       const ScanForm& form, KernelWriter& writer) {
  const GroupContext context =
      ContextOf(group, domain, StyleOf(resolved, resolved.scan()), writer.glue());
  const bool rows = form.sizes.rows();
  const Frame& frame = form.kernel.frame;
  const std::vector<Parameter> parameters = ParametersOf(context, {&form.kernel});
  RowMembers members;
  StagedGlue glue(context, form.kernel, parameters, rows ? "row" : "column", 1, members);
  if (absl::Status status = glue.Prepare(); !status.ok()) return status;
  const std::string index_type = glue.FitsInt() ? "int" : "long long";
  glue.SetIndexType(index_type);
  glue.SetAligned([&frame](const Index& index) { return IsAligned(index, frame); });
  glue.BindScan(form.reduction);
  Text values;
  for (size_t i = 0; i < form.streams.size(); ++i) {
    const graph::DType type = form.streams[i]->type;
    glue.BindStream(form.streams[i],
                    ToRegister(type, StrCat("values.s", i, "[", LaneName(frame), "]")));
    values.Line(StrCat(StorageType(type), " s", i, "[V];"));
  }
  const std::string functions = Functions(glue, form);

  const graph::Scan& scan = *group.graph().nodes[domain.primary].scan;
  Text text;
  text.Open(StrCat("struct ", context.name, " {"));
  text.Line(StrCat("using Index = ", index_type, ";"));
  text.Line(StrCat("static constexpr int kStreamBytes = ", form.stream_bytes, ";"));
  text.Line(StrCat("static constexpr bool kReverse = ", scan.reverse ? "true" : "false",
                   ", kExclusive = ", scan.exclusive ? "true" : "false",
                   ", kEnds = ", form.ends ? "true" : "false", ";"));
  for (const Parameter& p : parameters) text.Line(StrCat(p.type, " ", p.name, ";"));
  text.Open(rows ? "struct Row {" : "template <int V> struct Column {");
  text.Append(glue.RowStruct());
  text.Close("};");
  text.Open("template <int V> struct Values {");
  text.Append(values.str());
  text.Close("};");
  text.Append(Accumulators(form.reduction));
  text.Append(functions);
  text.Close("};");
  writer.Struct(text.str(), parameters);
  return absl::OkStatus();
}

}  // namespace warpsmith::codegen
