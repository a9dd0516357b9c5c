// Glue of the rows skeleton.
#include "worker/codegen/skeleton/glue.h"

#include <algorithm>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "worker/codegen/skeleton/rows/rows.h"

namespace warpsmith::codegen {
namespace {

using absl::StrCat;

// Rows that are no whole number of vectors are read by vectors from this many on.
constexpr int64_t kMinRaggedVectors = 16;

// Whether vectors that begin at `index` (lanes are neighbours) are aligned.
struct Alignment {
  const Frame* frame;
  int64_t row_elements;
  bool ragged;

  bool operator()(const Index& index) const {
    if (frame->width == 1) return true;
    Index base = index.Without(frame->lane);
    // Ragged rows: whatever r * K + k is, k is chosen so that it is a multiple of the width.
    if (ragged) base = base - Index::Of(frame->row) * row_elements - Index::Of(frame->k);
    return base.multiple() % frame->width == 0;
  }
};

bool DependsOnRowAndK(ValuePtr load, const Frame& frame, int64_t rows) {
  const bool on_row = rows == 1 || (load->variables & BitOf(frame.row)) != 0;
  return on_row && (load->variables & BitOf(frame.k)) != 0;
}

// Whether what tables say of the index is one for a whole row.
bool FindsByRow(const Index& index, const Frame& frame) {
  return std::all_of(index.terms().begin(), index.terms().end(), [&](const Index::Term& term) {
    if (term.atom->kind == Atom::Kind::kOpaque)
      return (term.atom->variables & ~BitOf(frame.row)) == 0;
    return term.atom->inner == nullptr || !term.atom->inner->has_opaque();
  });
}

// By which streams of two kernels are told to be one: by their loads, of what tables say of those
// all but what they say. Conditions of lanes together are spelled otherwise than an element's.
std::string PlaceOf(ValuePtr stream, const Frame& frame) {
  if (stream->kind == Value::Kind::kConst)
    return StrCat("=", Literal(stream->type, stream->number, stream->integer));
  if (stream->kind != Value::Kind::kLoad)
    return StrCat("(", PlaceOf(stream->args[1], frame), ",", PlaceOf(stream->args[2], frame), ")");
  const Index index = frame.width > 1 ? stream->index.Without(frame.lane) : stream->index;
  std::string place = StrCat(stream->tensor, "@", index.constant());
  for (const Index::Term& term : index.terms()) {
    const bool opaque = term.atom->kind == Atom::Kind::kOpaque;
    absl::StrAppend(&place, "+", term.coefficient, "*", opaque ? "?" : term.atom->key);
  }
  return place;
}

// Whether more than PlaceOf tells it from others.
bool IsMoreThanItsPlace(ValuePtr stream) {
  return stream->kind != Value::Kind::kLoad || stream->index.has_opaque();
}

// What every pass of the stages reads vector by vector.
class StreamFinder {
 public:
  StreamFinder(const Domain& domain, const Kernel& kernel, const Alignment& aligned)
      : domain_(domain), kernel_(kernel), frame_(kernel.frame), aligned_(aligned) {
    known_ = BitOf(frame_.row) | BitOf(frame_.k);
    if (frame_.width > 1) known_ |= BitOf(frame_.lane);
  }

  // Loads, and selects of loads and constants one of which all lanes take, largest elements first.
  std::vector<ValuePtr> Run() {
    std::vector<ValuePtr> stage_values, streams;
    for (const Kernel::Reduce& reduce : kernel_.reduces) stage_values.push_back(reduce.value);
    const auto is = [this](ValuePtr value) { return IsStream(value); };
    for (ValuePtr value : kernel_.values->Closure(stage_values, is)) {
      if (is(value)) streams.push_back(value);
    }
    std::stable_sort(streams.begin(), streams.end(), [](ValuePtr a, ValuePtr b) {
      return graph::SizeOf(a->type) > graph::SizeOf(b->type);
    });
    return streams;
  }

 private:
  bool IsStream(ValuePtr value) const {
    if (value->kind == Value::Kind::kLoad) return value->args.empty() && IsLoad(value, value->type);
    return IsSelect(value) && value->loads && IsOneOfLoads(value, value->type);
  }

  static bool IsSelect(ValuePtr value) {
    return value->kind == Value::Kind::kOp && value->op == graph::Op::kSelect;
  }

  bool IsOneOfLoads(ValuePtr value, graph::DType type) const {
    if (value->kind == Value::Kind::kConst) return value->type == type;
    if (!IsSelect(value)) return value->kind == Value::Kind::kLoad && IsLoad(value, type);
    return IsPlaceOfAll(value->args[0]) && IsOneOfLoads(value->args[1], type) &&
           IsOneOfLoads(value->args[2], type);
  }

  // A condition that is known by the place alone, one for all lanes.
  bool IsPlaceOfAll(ValuePtr condition) const {
    const uint64_t place = BitOf(frame_.row) | BitOf(frame_.k);
    return !condition->loads && condition->stage < 0 && (condition->variables & ~place) == 0;
  }

  bool IsLoad(ValuePtr load, graph::DType type) const {
    for (ValuePtr guard : load->args) {
      if (!IsPlaceOfAll(guard)) return false;
    }
    return load->type == type && FindsByRow(load->index, frame_) &&
           (load->variables & ~known_) == 0 && DependsOnRowAndK(load, frame_, domain_.kept()) &&
           IsContiguous(load->index, frame_) && aligned_(load->index) &&
           FitsVector(load->type, frame_.width);
  }

  const Domain& domain_;
  const Kernel& kernel_;
  const Frame& frame_;
  const Alignment& aligned_;
  uint64_t known_;
};

std::vector<ValuePtr> StreamsOf(const Domain& domain, const Kernel& kernel,
                                const Alignment& aligned) {
  return StreamFinder(domain, kernel, aligned).Run();
}

// Everything that runs along rows is contiguous and aligned at this width.
bool Vectorises(const Domain& domain, const Kernel& kernel, const Alignment& aligned) {
  const Frame& frame = kernel.frame;
  for (ValuePtr load : LoadsOf(kernel)) {
    if ((load->variables & BitOf(frame.lane)) == 0 || !DependsOnRowAndK(load, frame, domain.kept()))
      continue;
    if (!load->args.empty() || load->index.has_opaque()) continue;
    if (FitsVector(load->type, frame.width) && IsContiguous(load->index, frame) &&
        !aligned(load->index))
      return false;
  }
  for (const Kernel::Root& root : kernel.roots) {
    if (root.level == Level::kPoints && IsContiguous(root.address, frame) && !aligned(root.address))
      return false;
  }
  return !StreamsOf(domain, kernel, aligned).empty();
}

// The kept axes from a row's number: rows of a segment follow each other.
std::vector<Index> RowCoordinates(const Domain& domain, const Index& row) {
  std::vector<size_t> order;
  for (bool segment : {true, false}) {
    for (size_t a = 0; a < domain.axes.size(); ++a) {
      if (domain.axes[a].role == Role::kKept && domain.IsSegment(a) == segment) order.push_back(a);
    }
  }
  std::vector<int64_t> extents;
  for (size_t a : order) extents.push_back(domain.axes[a].extent());
  const std::vector<Index> digits = Unflatten(row, extents);
  std::vector<Index> at(domain.axes.size(), Index(0));
  for (size_t i = 0; i < order.size(); ++i) at[order[i]] = digits[i];
  at.resize(order.size());  // kept axes come first
  return at;
}

// A row's number r, and the position k within it, V neighbours at once.
FrameMaker RowsFrame(const Domain& domain, int width, bool aligned) {
  return [&domain, width, aligned](Values& values) {
    Frame frame;
    frame.width = width;
    frame.row = values.NewVariable("r", {0, domain.kept() - 1});
    frame.k = values.NewVariable("k", {0, std::max<int64_t>(0, domain.reduced() - width)},
                                 aligned ? width : 1);
    Index position = Index::Of(frame.k);
    if (width > 1) {
      frame.lane = values.NewVariable("j", {0, width - 1});
      position = position + Index::Of(frame.lane);
    }
    frame.axes = RowCoordinates(domain, Index::Of(frame.row));
    for (const Index& index : Unflatten(position, domain.Extents(Role::kReduced)))
      frame.axes.push_back(index);
    frame.row_variables = BitOf(frame.row);
    return frame;
  };
}

// Streams of the wide kernel, the same loads of the narrow one, and where each lies in a slot.
void FindStreams(const Domain& domain, const Alignment& aligned, RowsForm& form) {
  // Of an element every kind of both is seen, whatever lies where vectors may.
  const Alignment any{&form.narrow.frame, form.row_elements, form.ragged};
  const std::vector<ValuePtr> streams = StreamsOf(domain, form.wide, aligned);
  std::map<std::string, std::vector<ValuePtr>> wide, narrow;
  for (ValuePtr stream : streams) wide[PlaceOf(stream, form.wide.frame)].push_back(stream);
  for (ValuePtr stream : StreamsOf(domain, form.narrow, any))
    narrow[PlaceOf(stream, form.narrow.frame)].push_back(stream);
  int bytes = 0, widest = 1;
  for (ValuePtr stream : streams) {
    const std::string place = PlaceOf(stream, form.wide.frame);
    const std::vector<ValuePtr>& same = narrow[place];
    // Two that their places do not tell apart are not known from each other.
    if (IsMoreThanItsPlace(stream) && (same.size() != 1 || wide[place].size() != 1)) continue;
    form.streams.push_back(stream);
    form.single.push_back(same.empty() ? nullptr : same[0]);
    const int size = static_cast<int>(graph::SizeOf(stream->type));
    form.offsets.push_back(bytes);
    bytes += size;
    form.stream_words += std::max(size, 4) / 4;
    widest = std::max(widest, size);
  }
  form.stream_bytes = (bytes + widest - 1) / widest * widest;  // slots stay aligned
}

// Operations of a position whose results more than one pass over the row needs.
double SharedSteps(const Domain& domain, const Kernel& kernel, bool writes_at_once) {
  std::vector<std::vector<ValuePtr>> passes(domain.stages + 1);
  for (const Kernel::Reduce& reduce : kernel.reduces) passes[reduce.stage].push_back(reduce.value);
  for (const Kernel::Root& root : kernel.roots) {
    if (root.level == Level::kPoints)
      (writes_at_once ? passes.front() : passes.back()).push_back(root.value);
  }
  for (const Kernel::Reduce& total : kernel.totals) passes.back().push_back(total.value);
  std::map<int, int> needs;
  double steps = 0;
  for (const std::vector<ValuePtr>& pass : passes) {
    for (ValuePtr value : kernel.values->Closure(pass)) {
      const bool along = (value->variables & BitOf(kernel.frame.k)) != 0;
      if (value->kind == Value::Kind::kOp && along && ++needs[value->id] == 2)
        steps += StepsOf(value->op);
    }
  }
  return steps;
}

// The two glues of a form: whole vectors, and single elements.
struct Glues {
  std::vector<Parameter> parameters;
  RowMembers members;
  StagedGlue main, edge;

  Glues(const GroupContext& context, const RowsForm& form)
      : parameters(ParametersOf(context, {&form.wide, &form.narrow})),
        main(context, form.wide, parameters, "row", 1, members),
        edge(context, form.narrow, parameters, "row", 1, members) {
    for (size_t i = 0; i < form.streams.size(); ++i) {
      const graph::DType type = form.streams[i]->type;
      main.BindStream(form.streams[i],
                      ToRegister(type, StrCat("values.s", i, "[", LaneName(form.wide.frame), "]")));
      if (form.single[i] != nullptr)
        edge.BindStream(form.single[i], ToRegister(type, StrCat("values.s", i, "[0]")));
    }
  }
};

}  // namespace

RowsForm FormRows(const Analysis& group, const Domain& domain, int bytes,
                  v1::Accumulator accumulator, v1::Accumulator total_accumulator,
                  bool one_meeting) {
  RowsForm form;
  form.row_elements = domain.reduced();
  const int64_t k = form.row_elements;
  for (form.width = WidthFor(group, bytes);; form.width /= 2) {
    form.ragged = form.width > 1 && k % form.width != 0 && domain.kept() > 1;
    // Short rows with edges would be mostly edges.
    if (form.width > 1 && k % form.width != 0 && k < kMinRaggedVectors * form.width) continue;
    // A thread adds up the same places of all rows.
    if (form.ragged && !domain.totals.empty()) continue;
    // One row begins where the tensor does: aligned, with a rest behind the last vector.
    auto wide = BuildKernel(group.graph(), domain, group.in_memory(),
                            RowsFrame(domain, form.width, !form.ragged));
    form.status = wide.status();
    if (!wide.ok()) return form;
    form.wide = *std::move(wide);
    if (form.width == 1 || Vectorises(domain, form.wide, {&form.wide.frame, k, form.ragged})) break;
  }
  auto narrow = BuildKernel(group.graph(), domain, group.in_memory(), RowsFrame(domain, 1, true));
  form.status = narrow.status();
  if (!narrow.ok()) return form;
  form.narrow = *std::move(narrow);
  FindStreams(domain, {&form.wide.frame, k, form.ragged}, form);
  form.could_join = !JoinedStages(group.graph(), domain, form.narrow).empty();
  Style style;
  style.accumulator = accumulator;
  style.total_accumulator = total_accumulator;
  style.one_meeting = one_meeting;
  const GroupContext context = ContextOf(group, domain, style, "");
  Glues glues(context, form);
  form.status = glues.main.Prepare();
  if (!form.status.ok()) return form;
  for (int s = 0; s < domain.stages; ++s) {
    const bool joined = glues.main.IsJoined(s);
    form.acc_bytes.push_back(joined ? glues.main.JoinedBytes(s) : glues.main.AccBytes(s));
    form.max_acc_bytes = std::max(form.max_acc_bytes, form.acc_bytes.back());
    if (joined) form.joined.push_back(s++);  // the next stage meets with it
  }
  if (form.max_acc_bytes > kMaxAccBytes) {
    form.status = absl::InvalidArgumentError(
        StrCat("group of '", group.name(), "': a mean and the squares around it meet as ",
               form.max_acc_bytes, " bytes, at most ", kMaxAccBytes, "; set rows.meet_twice"));
    return form;
  }
  form.writes_at_once = glues.main.WritesAtOnce();
  form.emits = glues.main.HasRoots(Level::kPoints) && !form.writes_at_once;
  form.row_outputs = glues.main.HasRoots(Level::kRows);
  form.total_bytes = glues.main.TotalBytes();
  form.totals_round = glues.main.TotalsRound();
  form.emit_reads = glues.main.EmitReads();
  for (ValuePtr load : LoadsOf(form.narrow)) form.finds = form.finds || load->index.has_opaque();
  glues.main.SetAligned(Alignment{&form.wide.frame, k, form.ragged});
  form.common_bytes = glues.main.CommonBytes();
  form.shared_steps = SharedSteps(domain, form.narrow, form.writes_at_once);
  return form;
}

absl::Status WriteRows(const Analysis& group, const Domain& domain, const v1::Group& resolved,
                       const RowsForm& form, bool cached, KernelWriter& writer) {
  Style style = StyleOf(resolved, resolved.rows());
  style.rows_share = form.Shares(resolved.rows());
  style.passes_by = cached || form.Ahead(resolved.rows()) > 0;
  if (style.passes_by) style.store_hint = 1;
  style.one_meeting = !form.joined.empty();
  style.total_accumulator = TotalAccumulator(resolved);
  style.carries = resolved.rows().results() == v1::RESULTS_CARRIED;
  const GroupContext context = ContextOf(group, domain, style, writer.glue());
  Glues glues(context, form);
  StagedGlue &main = glues.main, &edge = glues.edge;
  const std::vector<Parameter>& parameters = glues.parameters;
  const bool both = form.width > 1;
  const int64_t k = form.row_elements;
  if (absl::Status status = main.Prepare(); !status.ok()) return status;
  if (absl::Status status = edge.Prepare(); !status.ok()) return status;
  const std::string index_type = main.FitsInt() && edge.FitsInt() ? "int" : "long long";
  main.SetIndexType(index_type);
  edge.SetIndexType(index_type);
  main.SetAligned(Alignment{&form.wide.frame, k, form.ragged});
  edge.SetAligned([](const Index&) { return true; });

  // Functions of the elements first: they say what a row has to keep.
  auto by_width = [&](const std::string& a, const std::string& b) {
    return both ? ByWidth(form.width, a, b) : a;
  };
  Text functions;
  functions.Line(
      StrCat("template <int V, int HINT = ", style.passes_by ? 1 : style.load_hint, ">"));
  functions.Line("WS_DEVICE void load(const Row& row, Index k, Values<V>& values) const {");
  functions.Append(by_width(main.LoadBody(form.streams, "HINT"),
                            both ? edge.LoadBody(form.single, "HINT") : ""));
  functions.Line("}");
  functions.Line("template <int V>");
  functions.Line("WS_DEVICE void load_shared(const Row& row, Index k, char* slot) const {");
  functions.Append(by_width(main.LoadSharedBody(form.streams, form.offsets),
                            both ? edge.LoadSharedBody(form.single, form.offsets) : ""));
  functions.Line("}");
  functions.Line("template <int V>");
  functions.Open("static WS_DEVICE void from_shared(const char* slot, Values<V>& values) {");
  for (size_t i = 0; i < form.streams.size(); ++i) {
    const std::string type = StorageType(form.streams[i]->type);
    functions.Line(StrCat("ws::load<V, ", type, ", 0>(reinterpret_cast<const ", type, "*>(slot",
                          form.offsets[i] > 0 ? StrCat(" + V * ", form.offsets[i]) : "",
                          "), values.s", i, ");"));
  }
  functions.Close();
  functions.Append(main.StaticFunctions());
  functions.Line("template <int S, int V>");
  functions.Open(
      "WS_DEVICE void accumulate(const Row& row, Index k, const Values<V>& values, Acc<S>& acc) "
      "const {");
  for (int s = 0; s < domain.stages; ++s) {
    functions.Open(StrCat("if constexpr (S == ", s, ") {"));
    functions.Append(by_width(main.AccumulateBody(s), both ? edge.AccumulateBody(s) : ""));
    functions.Close();
  }
  functions.Close();
  if (!form.joined.empty()) {
    functions.Line("template <int S, int V>");
    functions.Open(
        "WS_DEVICE void deviate(const Row& row, Index k, const Values<V>& values, bool first, "
        "Part<S>& acc) const {");
    for (int s : form.joined) {
      functions.Open(StrCat("if constexpr (S == ", s, ") {"));
      functions.Append(
          by_width(main.AccumulateBody(s, true), both ? edge.AccumulateBody(s, true) : ""));
      functions.Close();
    }
    functions.Close();
  }
  const bool share = context.style.rows_share;
  if (share) {
    functions.Line("template <int V>");
    functions.Line("WS_DEVICE void common(Index k, Common<V>& common) const {");
    functions.Append(by_width(main.CommonBody(), both ? edge.CommonBody() : ""));
    functions.Line("}");
  }
  functions.Line("template <int V>");
  functions.Line(StrCat("WS_DEVICE void emit(const Row& row, Index k, const Values<V>& values",
                        share ? ", const Common<V>& common" : "", ") const {"));
  functions.Append(by_width(main.EmitBody(), both ? edge.EmitBody() : ""));
  functions.Line("}");
  if (main.HasTotals()) {
    functions.Append(main.TotalFunctions());
    functions.Line("template <int V>");
    functions.Line(
        "WS_DEVICE void total(const Row& row, Index k, const Values<V>& values, Total "
        "(&totals)[V]) "
        "const {");
    functions.Append(by_width(main.TotalBody(), both ? edge.TotalBody() : ""));
    functions.Line("}");
    functions.Line(
        "WS_DEVICE void emit_total(long long r, long long k, const Total& total) const {");
    functions.Append((both ? edge : main).EmitTotalBody());
    functions.Line("}");
  } else {
    functions.Line("struct Total {};");
  }
  functions.Line("WS_DEVICE void emit_row(const Row& row) const {");
  functions.Append(main.EmitRowBody());
  functions.Line("}");
  // In a scope of its own: both may spell the row's number, and loops of a row alike.
  const auto append_edge = [&](int stage) {
    functions.Line("{");
    functions.Append(edge.FinishBody(stage, false));
    functions.Line("}");
  };
  functions.Line("template <int S>");
  functions.Open("WS_DEVICE void finish(Row& row, const Acc<S>& acc) const {");
  for (int s = 0; s < domain.stages; ++s) {
    functions.Open(StrCat("if constexpr (S == ", s, ") {"));
    functions.Append(main.FinishBody(s, true));
    if (both) append_edge(s);
    functions.Close();
  }
  functions.Close();
  functions.Open("WS_DEVICE Row row(Index number) const {");
  functions.Line("Row row;");
  functions.Line("row.r = number;");
  functions.Append(main.FinishBody(-1, false));
  if (both) append_edge(-1);
  functions.Line("return row;");
  functions.Close();
  if (form.ragged) {
    functions.Line("WS_DEVICE int head(const Row& row) const {");
    functions.Line(StrCat("  return static_cast<int>((0u - static_cast<unsigned>(row.r) * ",
                          k % form.width, "u) & ", form.width - 1, "u);"));
    functions.Line("}");
  } else {
    functions.Line("WS_DEVICE int head(const Row&) const { return 0; }");
  }

  Text text;
  text.Open(StrCat("struct ", context.name, " {"));
  text.Line(StrCat("using Index = ", index_type, ";"));
  text.Line(StrCat("static constexpr int kStages = ", domain.stages,
                   ", kStreamBytes = ", form.stream_bytes, ";"));
  text.Line(StrCat("static constexpr bool kEmits = ", form.emits ? "true" : "false",
                   ", kRowOutputs = ", form.row_outputs ? "true" : "false",
                   ", kRagged = ", form.ragged ? "true" : "false",
                   ", kEmitReads = ", form.emit_reads ? "true" : "false",
                   ", kTotals = ", form.total_bytes > 0 ? "true" : "false", ";"));
  for (const Parameter& p : parameters) text.Line(StrCat(p.type, " ", p.name, ";"));
  text.Open("struct Row {");
  text.Append(main.RowStruct());
  text.Close("};");
  text.Open("template <int V> struct Values {");
  for (size_t i = 0; i < form.streams.size(); ++i)
    text.Line(StrCat(StorageType(form.streams[i]->type), " s", i, "[V];"));
  text.Close("};");
  if (share) {
    text.Line("template <int V, class = void> struct Common;");
    text.Line(StrCat("template <class Unused> struct Common<", form.width, ", Unused> {"));
    text.Append(main.CommonMembers());
    text.Line("};");
    if (both) {
      text.Line("template <class Unused> struct Common<1, Unused> {");
      text.Append(edge.CommonMembers());
      text.Line("};");
    }
  }
  text.Append(main.AccStructs());
  text.Append(functions.str());
  text.Close("};");
  writer.Struct(text.str(), parameters);
  return absl::OkStatus();
}

}  // namespace warpsmith::codegen
