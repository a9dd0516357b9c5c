// Glue of the rows skeleton.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "worker/codegen/skeleton/glue.h"
#include "worker/codegen/skeleton/staged/staged.h"

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

// Loads of the stages that every pass reads vector by vector, largest elements first.
std::vector<ValuePtr> StreamsOf(const GroupContext& context, const Kernel& kernel,
                                const Alignment& aligned) {
  std::vector<ValuePtr> stage_values, streams;
  for (const Kernel::Reduce& reduce : kernel.reduces) stage_values.push_back(reduce.value);
  const Frame& frame = kernel.frame;
  uint64_t known = BitOf(frame.row) | BitOf(frame.k);
  if (frame.width > 1) known |= BitOf(frame.lane);
  for (ValuePtr load : kernel.values->Closure(stage_values)) {
    if (load->kind != Value::Kind::kLoad || !load->args.empty() || load->index.has_opaque())
      continue;
    if ((load->variables & ~known) != 0 || !DependsOnRowAndK(load, frame, context.space->rows))
      continue;
    if (!IsContiguous(load->index, frame) || !aligned(load->index) ||
        !FitsVector(load->type, frame.width))
      continue;
    streams.push_back(load);
  }
  std::stable_sort(streams.begin(), streams.end(), [](ValuePtr a, ValuePtr b) {
    return graph::SizeOf(a->type) > graph::SizeOf(b->type);
  });
  return streams;
}

// Everything that runs along rows is contiguous and aligned at this width.
bool Vectorises(const GroupContext& context, const Kernel& kernel, const Alignment& aligned) {
  const Frame& frame = kernel.frame;
  for (ValuePtr load : LoadsOf(kernel)) {
    if ((load->variables & BitOf(frame.lane)) == 0 ||
        !DependsOnRowAndK(load, frame, context.space->rows))
      continue;
    if (!load->args.empty() || load->index.has_opaque()) continue;
    if (FitsVector(load->type, frame.width) && IsContiguous(load->index, frame) &&
        !aligned(load->index))
      return false;
  }
  for (const Kernel::Root& root : kernel.roots) {
    if (root.kind == RootPlan::Kind::kFull && IsContiguous(root.address, frame) &&
        !aligned(root.address))
      return false;
  }
  return !StreamsOf(context, kernel, aligned).empty();
}

}  // namespace

absl::StatusOr<GroupSource> GenerateRows(const GroupContext& context) {
  const graph::Graph& graph = *context.graph;
  const Space& space = *context.space;
  const int64_t k = space.row_elements;
  GroupSource source;
  // The widest vectors that fit.
  absl::StatusOr<Kernel> wide = absl::InternalError("no kernel");
  source.width = WidthFor(context, context.knobs->memory().vector_bytes());
  for (;; source.width /= 2) {
    source.ragged = source.width > 1 && k % source.width != 0 && space.rows > 1;
    // Short rows with edges would be mostly edges.
    if (source.width > 1 && k % source.width != 0 && k < kMinRaggedVectors * source.width) continue;
    // One row begins where the tensor does: aligned, with a rest behind the last vector.
    wide = BuildKernel(graph, space, context.in_memory, source.width, !source.ragged);
    if (!wide.ok()) return wide.status();
    if (source.width == 1 || Vectorises(context, *wide, {&wide->frame, k, source.ragged})) break;
  }
  const Alignment aligned{&wide->frame, k, source.ragged};
  const bool both = source.width > 1;
  auto narrow = BuildKernel(graph, space, context.in_memory, 1, true);
  if (!narrow.ok()) return narrow.status();
  source.parameters = ParametersOf(context, {&*wide, &*narrow});

  RowMembers members;
  StagedGlue main(context, *wide, source.parameters, "row", members);
  StagedGlue edge(context, *narrow, source.parameters, "row", members);
  if (absl::Status status = main.Prepare(); !status.ok()) return status;
  if (absl::Status status = edge.Prepare(); !status.ok()) return status;
  source.index_type = main.FitsInt() && edge.FitsInt() ? "int" : "long long";
  main.SetIndexType(source.index_type);
  edge.SetIndexType(source.index_type);
  main.SetAligned(aligned);
  edge.SetAligned([](const Index&) { return true; });

  // Streams, and the same loads of the narrow kernel.
  const std::vector<ValuePtr> streams = StreamsOf(context, *wide, aligned);
  std::vector<ValuePtr> single(streams.size(), nullptr);
  std::vector<int> offsets;
  int bytes = 0, widest = 1;
  for (size_t i = 0; i < streams.size(); ++i) {
    const std::string form =
        (both ? streams[i]->index.Without(wide->frame.lane) : streams[i]->index).key();
    for (ValuePtr load : LoadsOf(*narrow)) {
      if (load->tensor == streams[i]->tensor && load->args.empty() && load->index.key() == form)
        single[i] = load;
    }
    const int size = static_cast<int>(graph::SizeOf(streams[i]->type));
    offsets.push_back(bytes);
    bytes += size;
    widest = std::max(widest, size);
    main.BindStream(streams[i], ToRegister(streams[i]->type,
                                           StrCat("values.s", i, "[", LaneName(wide->frame), "]")));
    if (single[i] != nullptr) {
      edge.BindStream(single[i], ToRegister(streams[i]->type, StrCat("values.s", i, "[0]")));
    }
  }
  source.streams = static_cast<int>(streams.size());
  source.stream_bytes = (bytes + widest - 1) / widest * widest;  // slots stay aligned
  source.stages = space.stages;
  for (int s = 0; s < space.stages; ++s) source.acc_bytes.push_back(main.AccBytes(s));
  source.emits = main.HasRoots(RootPlan::Kind::kFull);
  source.emit_reads = main.EmitReads();
  source.row_outputs = main.HasRoots(RootPlan::Kind::kRow);

  // Functions of the elements first: they say what a row has to keep.
  auto by_width = [&](const std::string& a, const std::string& b) {
    return both ? ByWidth(source.width, a, b) : a;
  };
  Text functions;
  functions.Line("template <int V>");
  functions.Line("WS_DEVICE void load(const Row& row, Index k, Values<V>& values) const {");
  functions.Append(by_width(main.LoadBody(streams), both ? edge.LoadBody(single) : ""));
  functions.Line("}");
  functions.Line("template <int V>");
  functions.Line("WS_DEVICE void load_shared(const Row& row, Index k, char* slot) const {");
  functions.Append(by_width(main.LoadSharedBody(streams, offsets),
                            both ? edge.LoadSharedBody(single, offsets) : ""));
  functions.Line("}");
  functions.Line("template <int V>");
  functions.Open("static WS_DEVICE void from_shared(const char* slot, Values<V>& values) {");
  for (size_t i = 0; i < streams.size(); ++i) {
    const std::string type = StorageType(streams[i]->type);
    functions.Line(StrCat("ws::load<V, ", type, ", 0>(reinterpret_cast<const ", type, "*>(slot",
                          offsets[i] > 0 ? StrCat(" + V * ", offsets[i]) : "", "), values.s", i,
                          ");"));
  }
  functions.Close();
  functions.Append(main.StaticFunctions());
  functions.Line("template <int S, int V>");
  functions.Open(
      "WS_DEVICE void accumulate(const Row& row, Index k, const Values<V>& values, Acc<S>& acc) "
      "const {");
  for (int s = 0; s < space.stages; ++s) {
    functions.Open(StrCat("if constexpr (S == ", s, ") {"));
    functions.Append(by_width(main.AccumulateBody(s), both ? edge.AccumulateBody(s) : ""));
    functions.Close();
  }
  functions.Close();
  functions.Line("template <int V>");
  functions.Line("WS_DEVICE void emit(const Row& row, Index k, const Values<V>& values) const {");
  functions.Append(by_width(main.EmitBody(), both ? edge.EmitBody() : ""));
  functions.Line("}");
  functions.Line("WS_DEVICE void emit_row(const Row& row) const {");
  functions.Append(main.EmitRowBody());
  functions.Line("}");
  functions.Line("template <int S>");
  functions.Open("WS_DEVICE void finish(Row& row, const Acc<S>& acc) const {");
  for (int s = 0; s < space.stages; ++s) {
    functions.Open(StrCat("if constexpr (S == ", s, ") {"));
    functions.Append(main.FinishBody(s, true));
    if (both) functions.Append(edge.FinishBody(s, false));
    functions.Close();
  }
  functions.Close();
  functions.Open("WS_DEVICE Row row(Index number) const {");
  functions.Line("Row row;");
  functions.Line("row.r = number;");
  functions.Append(main.FinishBody(-1, false));
  if (both) {
    // A scope of its own: both may spell the row's number.
    functions.Line("{");
    functions.Append(edge.FinishBody(-1, false));
    functions.Line("}");
  }
  functions.Line("return row;");
  functions.Close();
  if (source.ragged) {
    functions.Line("WS_DEVICE int head(const Row& row) const {");
    functions.Line(StrCat("  return static_cast<int>((0u - static_cast<unsigned>(row.r) * ",
                          k % source.width, "u) & ", source.width - 1, "u);"));
    functions.Line("}");
  } else {
    functions.Line("WS_DEVICE int head(const Row&) const { return 0; }");
  }

  Text text;
  text.Open(StrCat("struct ", context.name, " {"));
  text.Line(StrCat("using Index = ", source.index_type, ";"));
  text.Line(StrCat("static constexpr int kStages = ", space.stages,
                   ", kStreamBytes = ", source.stream_bytes, ";"));
  text.Line(StrCat("static constexpr bool kEmits = ", source.emits ? "true" : "false",
                   ", kRowOutputs = ", source.row_outputs ? "true" : "false",
                   ", kRagged = ", source.ragged ? "true" : "false",
                   ", kEmitReads = ", source.emit_reads ? "true" : "false", ";"));
  for (const Parameter& p : source.parameters) text.Line(StrCat(p.type, " ", p.name, ";"));
  text.Open("struct Row {");
  text.Append(main.RowStruct());
  text.Close("};");
  text.Open("template <int V> struct Values {");
  for (size_t i = 0; i < streams.size(); ++i)
    text.Line(StrCat(StorageType(streams[i]->type), " s", i, "[V];"));
  text.Close("};");
  text.Append(main.AccStructs());
  text.Append(functions.str());
  text.Close("};");
  source.text = text.str();
  return source;
}

}  // namespace warpsmith::codegen
