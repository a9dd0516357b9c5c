// Skeleton columns: reductions over outer axes while contiguous ones stay.
// worker/kernels/columns.cuh runs them.
#include "worker/codegen/skeleton/columns/columns.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "worker/codegen/skeleton/glue.h"

namespace warpsmith::codegen {
namespace {

using absl::StrCat;

constexpr int kCombineThreads = 256;

const char* Bool(bool b) { return b ? "true" : "false"; }

bool IsAligned(const Index& index, const Frame& frame) {
  return frame.width == 1 || index.Without(frame.lane).multiple() % frame.width == 0;
}

// Loads of the stages along the reduced axis that one access brings for all lanes. Not those that
// depend on K alone: they are in the cache, and a thread's registers are for others.
std::vector<ValuePtr> StreamsOf(const Kernel& kernel) {
  const Frame& frame = kernel.frame;
  std::vector<ValuePtr> values, streams;
  for (const Kernel::Reduce& reduce : kernel.reduces) values.push_back(reduce.value);
  const uint64_t known = frame.row_variables | BitOf(frame.k);
  for (ValuePtr load : kernel.values->Closure(values)) {
    if (load->kind != Value::Kind::kLoad || !load->args.empty() || load->index.has_opaque())
      continue;
    if ((load->variables & ~known) != 0 || (load->variables & BitOf(frame.k)) == 0 ||
        (load->variables & frame.row_variables) == 0)
      continue;
    if (!IsContiguous(load->index, frame) || !IsAligned(load->index, frame) ||
        !FitsVector(load->type, frame.width))
      continue;
    streams.push_back(load);
  }
  return streams;
}

bool Vectorises(const Kernel& kernel) {
  const Frame& frame = kernel.frame;
  bool shares = false;  // lanes read parts of elements that lie beside each other
  for (ValuePtr load : LoadsOf(kernel)) {
    if (!load->args.empty() || load->index.has_opaque() || (load->variables & BitOf(frame.k)) == 0)
      continue;
    if (FitsVector(load->type, frame.width) && IsContiguous(load->index, frame) &&
        !IsAligned(load->index, frame))
      return false;
    const SharedLanes shared = SharedLanesOf(load->index, frame);
    shares =
        shares || (shared.lanes > 1 && shared.base.multiple() % (frame.width / shared.lanes) == 0);
  }
  return shares || !StreamsOf(kernel).empty();
}

// Everything of the struct that depends on the vector width.
struct Parts {
  std::string column_struct, column, load, finish, emit_row, emit;
  std::vector<std::string> accumulate;
  std::string values, accs, statics;
};

// `keeps`: all of a column stays in registers between passes.
absl::StatusOr<Parts> Generate(const GroupContext& context, const Kernel& kernel, int64_t split,
                               bool keeps, const std::vector<Parameter>& parameters,
                               std::string& index_type) {
  RowMembers members;
  StagedGlue glue(context, kernel, parameters, "column", split, members);
  if (absl::Status status = glue.Prepare(); !status.ok()) return status;
  if (index_type.empty()) index_type = glue.FitsInt() ? "int" : "long long";
  glue.SetIndexType(index_type);
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
  if (keeps) glue.HoldValues();
  parts.values = values.str();
  parts.load = glue.LoadBody(streams);
  for (int s = 0; s < context.domain->stages; ++s)
    parts.accumulate.push_back(glue.AccumulateBody(s));
  parts.emit = glue.EmitBody();
  parts.emit_row = glue.EmitRowBody();
  Text finish;
  for (int s = 0; s < context.domain->stages; ++s) {
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

// What of the kept axes is outside of the reduced ones (o), the position k among those, and the
// column c, V neighbours at once.
FrameMaker ColumnsFrame(const Domain& domain, const ColumnsSizes& sizes, int width) {
  return [&domain, sizes, width](Values& values) {
    Frame frame;
    frame.width = width;
    frame.outer = values.NewVariable("o", {0, sizes.outer - 1});
    frame.k = values.NewVariable("k", {0, domain.reduced() - 1});
    frame.column = values.NewVariable("c", {0, std::max<int64_t>(0, sizes.columns - width)}, width);
    Index column = Index::Of(frame.column);
    frame.row_variables = BitOf(frame.outer) | BitOf(frame.column);
    if (width > 1) {
      frame.lane = values.NewVariable("j", {0, width - 1});
      column = column + Index::Of(frame.lane);
      frame.row_variables |= BitOf(frame.lane);
    }
    std::vector<int64_t> outer_extents, inner_extents;
    for (size_t a = 0; a < domain.axes.size(); ++a) {
      if (domain.axes[a].role == Role::kKept)
        (sizes.inner[a] ? inner_extents : outer_extents).push_back(domain.axes[a].extent());
    }
    const std::vector<Index> outer = Unflatten(Index::Of(frame.outer), outer_extents);
    const std::vector<Index> inner = Unflatten(column, inner_extents);
    const std::vector<Index> reduced =
        Unflatten(Index::Of(frame.k), domain.Extents(Role::kReduced));
    size_t next_outer = 0, next_inner = 0, next_reduced = 0;
    for (size_t a = 0; a < domain.axes.size(); ++a) {
      frame.axes.push_back(domain.axes[a].role == Role::kReduced ? reduced[next_reduced++]
                           : sizes.inner[a]                      ? inner[next_inner++]
                                                                 : outer[next_outer++]);
    }
    return frame;
  };
}

absl::StatusOr<Kernel> BuildColumns(const Analysis& group, const Domain& domain,
                                    const ColumnsSizes& sizes, int width) {
  return BuildKernel(group.graph(), domain, group.in_memory(), ColumnsFrame(domain, sizes, width));
}

absl::Status WriteColumns(const Analysis& group, const Domain& domain, const v1::Group& resolved,
                          const ColumnsForm& form, KernelWriter& writer) {
  const GroupContext context =
      ContextOf(group, domain, StyleOf(resolved, resolved.columns()), writer.glue());
  // The end of a split works on single columns.
  const int64_t split = resolved.columns().split();
  const bool both = form.width > 1 && split > 1;
  auto wide = BuildColumns(group, domain, form.sizes, form.width);
  if (!wide.ok()) return wide.status();
  auto narrow = BuildColumns(group, domain, form.sizes, 1);
  if (!narrow.ok()) return narrow.status();
  const std::vector<Parameter> parameters = ParametersOf(context, {&*wide, &*narrow});
  std::string index_type;
  const v1::ColumnsKnobs& columns = resolved.columns();
  const bool keeps =
      int64_t{columns.register_vectors()} * columns.thread_rows() >= domain.reduced();
  auto main = Generate(context, *wide, split, keeps, parameters, index_type);
  if (!main.ok()) return main.status();
  Parts single;
  if (both) {
    auto parts = Generate(context, *narrow, split, /*keeps=*/false, parameters, index_type);
    if (!parts.ok()) return parts.status();
    single = *parts;
  }

  Text text;
  text.Open(StrCat("struct ", context.name, " {"));
  text.Line(StrCat("using Index = ", index_type, ";"));
  text.Line(StrCat("static constexpr int kStages = ", domain.stages,
                   ", kMaxAccBytes = ", form.max_acc_bytes, ";"));
  text.Line(StrCat("static constexpr bool kEmits = ", form.emits ? "true" : "false",
                   ", kRowOutputs = ", form.row_outputs ? "true" : "false", ";"));
  for (const Parameter& p : parameters) text.Line(StrCat(p.type, " ", p.name, ";"));
  auto structs = [&](const char* name, const std::string& a, const std::string& b) {
    text.Line(StrCat("template <int V, class = void> struct ", name, ";"));
    text.Line(StrCat("template <class Unused> struct ", name, "<", form.width, ", Unused> {"));
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
    return both ? ByWidth(form.width, a, b) : a;
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
      "WS_DEVICE void accumulate(const Column<V>& column, Index k, Values<V>& values, Acc<S> "
      "(&acc)[V]) const {");
  for (int s = 0; s < domain.stages; ++s) {
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
  writer.Struct(text.str(), parameters);
  return absl::OkStatus();
}

class Columns : public Skeleton {
 public:
  SkeletonCase id() const override { return v1::Group::kColumns; }
  const char* header(const v1::Group&, const Target&) const override { return "columns"; }

  absl::StatusOr<const Domain*> Matches(const Analysis& group) const override {
    if (!group.stages().ok()) return group.stages().status();
    if (!group.stages()->totals.empty()) {
      return absl::InvalidArgumentError(
          "columns reduce one way; give what reduces rows and what reduces columns a group each");
    }
    return &*group.stages();
  }

  double Suits(const Analysis& group, const Target&) const override {
    return WalkOf(*group.stages()) == Walk::kAcross ? 0.6 : 0.1;
  }

  absl::StatusOr<v1::Group> Resolve(const Analysis& group, const v1::Group& knobs,
                                    const Target& target) const override {
    auto domain = DomainOf(group, knobs.columns());
    if (!domain.ok()) return domain.status();
    v1::Group wide = knobs;
    if (wide.columns().vector_bytes() == 0) wide.mutable_columns()->set_vector_bytes(16);
    const ColumnsForm& form = FormOf(group, **domain, wide);
    if (!form.status.ok()) return form.status;
    auto resolved = ResolveColumns(group, **domain, form, wide, target);
    if (!resolved.ok()) return resolved;
    if (const absl::Status& s = FormOf(group, **domain, *resolved).status; !s.ok()) return s;
    return resolved;
  }

  absl::StatusOr<Usage> Use(const Analysis& group, const v1::Group& resolved,
                            const Target& target) const override {
    const v1::ColumnsKnobs& columns = resolved.columns();
    auto domain = DomainOf(group, columns);
    if (!domain.ok()) return domain.status();
    const ColumnsForm& form = FormOf(group, **domain, resolved);
    if (!form.status.ok()) return form.status;
    Usage use;
    use.threads = columns.block_threads();
    use.shared_bytes = ColumnsSharedBytes(columns, form);
    use.registers =
        kWorkRegisters + columns.register_vectors() * form.width * form.stream_bytes / 4;
    use.blocks_per_sm = columns.blocks_per_sm();
    use.blocks = GridOf(form, columns, target);
    use.width = form.width;
    use.streams = form.streams;
    use.stream_bytes = form.stream_bytes;
    use.passes = (*domain)->stages + (form.emits ? 1 : 0);
    use.kept =
        std::min(1.0, columns.register_vectors() * static_cast<double>(columns.thread_rows()) /
                          static_cast<double>((*domain)->reduced()));
    use.cached = true;  // tiles are read again from L2
    use.reads_first = form.writes_at_once && (*domain)->stages == 1;
    if (columns.split() > 1) {
      use.launches = 2;
      use.workspace_bytes = columns.split() * (*domain)->kept() * form.acc_bytes[0];
    }
    return use;
  }

  std::vector<Layout> Layouts(const Analysis& group, const v1::Group& resolved,
                              const Target& target) const override {
    auto domain = DomainOf(group, resolved.columns());
    if (!domain.ok()) return {};
    const ColumnsForm& form = FormOf(group, **domain, resolved);
    return form.status.ok() ? ColumnsLayouts(**domain, form, resolved, target)
                            : std::vector<Layout>();
  }

  absl::Status Emit(const Analysis& group, const v1::Group& resolved, const Target& target,
                    KernelWriter& writer) const override {
    const v1::ColumnsKnobs& columns = resolved.columns();
    auto found = DomainOf(group, columns);
    if (!found.ok()) return found.status();
    const Domain& domain = **found;
    const ColumnsForm& form = FormOf(group, domain, resolved);
    if (!form.status.ok()) return form.status;
    if (absl::Status s = WriteColumns(group, domain, resolved, form, writer); !s.ok()) return s;
    const ColumnsSizes& sizes = form.sizes;
    const int split = columns.split();
    const std::string type = StrCat(writer.glue(), "::Acc<0>");
    std::vector<KernelArgument> extra;
    int partial = -1;
    if (split > 1) {
      partial = writer.Workspace("_partial", split * domain.kept() * form.acc_bytes[0]);
      extra = {{StrCat(type, "* partial"), partial}};
    }
    const std::string config =
        StrCat("ws::ColumnsConfig<", form.width, ", ", columns.block_threads(), ", ",
               columns.thread_rows(), ", ", columns.register_vectors(), ", ", columns.unroll(),
               ", ", Bool(columns.blocks_per_sm() > 0), ", ", split, ">");
    auto launch = writer.Kernel(split > 1 ? "_partial" : "",
                                {columns.block_threads(), columns.blocks_per_sm(),
                                 GridOf(form, columns, target), ColumnsSharedBytes(columns, form)},
                                extra,
                                StrCat("ws::columns<", writer.glue(), ", ", config, ">(g, ",
                                       sizes.outer, ", ", domain.reduced(), ", ", sizes.columns,
                                       ", ", split > 1 ? "partial" : "nullptr", ")"));
    if (!launch.ok() || split <= 1) return launch.status();
    return writer
        .Kernel("_combine", {kCombineThreads, 0, CeilDiv(domain.kept(), kCombineThreads), 0},
                {{StrCat("const ", type, "* partial"), partial}},
                StrCat("ws::columns_combine<", writer.glue(), ", ", kCombineThreads, ">(g, ", split,
                       ", ", sizes.outer, ", ", sizes.columns, ", partial)"))
        .status();
  }

 private:
  static absl::StatusOr<const Domain*> DomainOf(const Analysis& group,
                                                const v1::ColumnsKnobs& columns) {
    const auto& domain = columns.online() ? group.online() : group.stages();
    if (!domain.ok()) return domain.status();
    return &*domain;
  }

  static const ColumnsForm& FormOf(const Analysis& group, const Domain& domain,
                                   const v1::Group& knobs) {
    const int bytes = knobs.columns().vector_bytes();
    const v1::Accumulator accumulator = knobs.precision().accumulator();
    return group.Derived<ColumnsForm>(
        StrCat("columns ", bytes, " ", accumulator, knobs.columns().online() ? " online" : ""),
        std::function<ColumnsForm()>(
            [&] { return FormColumns(group, domain, bytes, accumulator); }));
  }

  static int64_t GridOf(const ColumnsForm& form, const v1::ColumnsKnobs& columns,
                        const Target& target) {
    const int64_t across = int64_t{columns.block_threads()} / columns.thread_rows() * form.width;
    const int64_t jobs = CeilDiv(form.sizes.columns * form.sizes.outer, across) * columns.split();
    const int64_t resident = int64_t{columns.blocks_per_sm()} * target.sm_count;
    return resident > 0 ? std::min(jobs, resident) : jobs;
  }
};

}  // namespace

ColumnsForm FormColumns(const Analysis& group, const Domain& domain, int bytes,
                        v1::Accumulator accumulator) {
  ColumnsForm form;
  form.sizes.inner = InnerAxes(domain);
  for (size_t a = 0; a < domain.axes.size(); ++a) {
    if (domain.axes[a].role == Role::kKept)
      (form.sizes.inner[a] ? form.sizes.columns : form.sizes.outer) *= domain.axes[a].extent();
  }
  absl::StatusOr<Kernel> kernel = absl::InternalError("no kernel");
  for (form.width = WidthFor(group, bytes);; form.width /= 2) {
    if (form.width > 1 && form.sizes.columns % form.width != 0) continue;
    kernel = BuildColumns(group, domain, form.sizes, form.width);
    form.status = kernel.status();
    if (!kernel.ok()) return form;
    if (form.width == 1 || Vectorises(*kernel)) break;
  }
  Style style;
  style.accumulator = accumulator;
  const GroupContext context = ContextOf(group, domain, style, "");
  const std::vector<Parameter> parameters = ParametersOf(context, {&*kernel});
  RowMembers members;
  StagedGlue glue(context, *kernel, parameters, "column", 1, members);
  form.status = glue.Prepare();
  if (!form.status.ok()) return form;
  for (int s = 0; s < domain.stages; ++s) {
    form.acc_bytes.push_back(glue.AccBytes(s));
    form.max_acc_bytes = std::max(form.max_acc_bytes, form.acc_bytes.back());
  }
  form.writes_at_once = glue.WritesAtOnce();
  form.emits = glue.HasRoots(Level::kPoints) && !form.writes_at_once;
  form.row_outputs = glue.HasRoots(Level::kRows);
  for (ValuePtr stream : StreamsOf(*kernel)) {
    ++form.streams;
    form.stream_bytes += static_cast<int>(graph::SizeOf(stream->type));
  }
  return form;
}

const Skeleton* ColumnsSkeleton() {
  static const Columns skeleton;
  return &skeleton;
}

}  // namespace warpsmith::codegen
