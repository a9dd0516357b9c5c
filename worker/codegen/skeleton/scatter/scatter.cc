// Skeleton scatter: lists of the rows that each place has, then sums along them.
#include "worker/codegen/skeleton/scatter/scatter.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "worker/codegen/cost/cost.h"
#include "worker/codegen/skeleton/glue.h"
#include "worker/codegen/skeleton/scatter/form.h"

namespace warpsmith::codegen {
namespace {

using absl::StrCat;

// Of the lists' kernel (worker/kernels/scatter.cuh): warps of a block, rows whose keys are in
// shared memory at a time, rows that a warp takes at a step, places of a warp at the most.
constexpr int kListWarps = 8, kHostWarps = 2;
constexpr int64_t kMostTile = 2048, kListStep = 128, kMostPlaces = 2048;
// Lists are cut in parts where they may be so many of them long.
constexpr int64_t kFewestParts = 4;
constexpr int64_t kLeastPart = 32;

// What a row takes of each block of lists, in seconds beside operations: a warp looks at it twice
// (believed).
constexpr double kRowSeconds = 1e-9, kListSeconds = 3e-6;
// Operations that a warp's look at a row takes of each thread's share, and an element that of its
// list.
constexpr double kLookSteps = 10, kElementSteps = 30;

// How lists are made and cut.
struct Lists {
  int warps = kListWarps;
  int64_t places = 1, tile = kMostTile, blocks = 1;  // places of a warp; blocks in all
  int64_t part = 0, parts = 0;                       // rows of a part; 0: lists are not cut
  int64_t shared_bytes() const {
    return static_cast<int64_t>(sizeof(int)) * (tile + warps * places);
  }
};

Lists ListsOf(const ScatterForm& form, int64_t part_rows, const Target& target) {
  Lists lists;
  lists.warps = target.fibers() ? kHostWarps : kListWarps;
  const int64_t all = form.batch_count * form.place_count;
  lists.places = std::min(PowerOfTwoAtLeast(CeilDiv(all, int64_t{target.sm_count} * lists.warps)),
                          PowerOfTwoAtLeast(CeilDiv(form.place_count, lists.warps)));
  lists.places = std::min(lists.places, kMostPlaces);
  lists.tile = std::min(kMostTile, CeilDiv(form.row_count, kListStep) * kListStep);
  lists.blocks = form.batch_count * CeilDiv(form.place_count, lists.warps * lists.places);
  if (form.row_count >= kFewestParts * part_rows) {
    lists.part = part_rows;
    lists.parts = CeilDiv(form.batch_count * form.row_count, part_rows);
  }
  return lists;
}

const absl::StatusOr<ScatterForm>& FormOf(const Analysis& group) {
  return group.Derived<absl::StatusOr<ScatterForm>>(
      "scatter",
      std::function<absl::StatusOr<ScatterForm>()>([&] { return ScatterFormOf(group); }));
}

// Every axis a coordinate c[a], or digit r[k] of the row's number; V neighbours along the last axis
// of the form's order.
FrameMaker ScatterFrame(const ScatterForm& form, const Domain& domain, int width) {
  return [&form, &domain, width](Values& values) {
    Frame frame;
    frame.width = width;
    for (size_t a = 0; a < domain.axes.size(); ++a) {
      const DomainAxis& axis = domain.axes[a];
      const bool wide = width > 1 && static_cast<int>(a) == form.order.back();
      const Variable variable =
          values.NewVariable(StrCat(axis.role == Role::kKept ? "c[" : "r[", a, "]"),
                             axis.variable.range, wide ? width : 1);
      if (axis.role == Role::kKept) frame.row_variables |= BitOf(variable);
      frame.axes.push_back(Index::Of(variable));
    }
    if (width > 1) {
      frame.lane = values.NewVariable("j", {0, width - 1});
      frame.axes[form.order.back()] = frame.axes[form.order.back()] + Index::Of(frame.lane);
      frame.row_variables |= BitOf(frame.lane);
    }
    return frame;
  };
}

// Neighbours that a thread has: of elements alone, in whole vectors.
int WidthOf(const Analysis& group, const ScatterForm& form, const Domain& domain, int64_t bytes) {
  const int last = form.order.back();
  if (form.elements.empty() || form.elements.back() != last) return 1;
  int width = WidthFor(group, bytes);
  while (width > 1 && domain.axes[last].extent() % width != 0) width /= 2;
  return width;
}

// One of the sums, with the prefix of its accumulator's fields.
struct Member {
  int node = -1;
  Reduction reduction;
  std::string prefix;
};

class Writer {
 public:
  Writer(const Analysis& group, const ScatterForm& form, const Domain& domain, const Lists& lists,
         const Style& style, int width, const std::string& name)
      : group_(group),
        form_(form),
        domain_(domain),
        lists_(lists),
        context_(ContextOf(group, domain, style, name)),
        width_(width) {}

  absl::Status Write(KernelWriter& writer) {
    auto kernel = BuildKernel(group_.graph(), domain_, group_.in_memory(),
                              ScatterFrame(form_, domain_, width_));
    if (!kernel.ok()) return kernel.status();
    auto parts = ScatterPartsOf(form_, domain_, *kernel);
    if (!parts.ok()) return parts.status();
    for (const Kernel::Reduce& reduce : kernel->reduces) {
      Member member{reduce.node, {}, StrCat("a", members_.size(), "_")};
      member.reduction.type = reduce.value->type;
      member.reduction.accumulator = context_.style.accumulator;
      member.reduction.elements = form_.row_count;
      members_.push_back(member);
    }
    const std::vector<Parameter> parameters = ParametersOf(context_, {&*kernel});
    bool fits = FitsInt(group_.graph(), *kernel) && domain_.kept() <= kMaxIntPosition;
    for (const PlaceKey& key : parts->keys) fits = fits && FitsInt(key.index);
    index_type_ = fits ? "int" : "long long";

    Text text;
    text.Open(StrCat("struct ", context_.name, " {"));
    text.Line(StrCat("using Index = ", index_type_, ";"));
    for (const Parameter& p : parameters) text.Line(StrCat(p.type, " ", p.name, ";"));
    AddConstants(text);
    AddAccumulators(text);
    AddCoordinates(text);
    AddPlace(*kernel, *parts, parameters, text);
    AddTerms(*kernel, *parts, parameters, text);
    AddEnd(*kernel, parameters, text);
    text.Close("};");
    writer.Struct(text.str(), parameters);
    return absl::OkStatus();
  }

 private:
  void AddConstants(Text& text) const {
    const auto constant = [&](const char* name, int64_t value) {
      text.Line(StrCat("static constexpr int ", name, " = ", value, ";"));
    };
    constant("kRank", static_cast<int64_t>(domain_.axes.size()));
    constant("kPlaces", form_.place_count);
    constant("kBatches", form_.batch_count);
    constant("kElements", form_.element_count);
    constant("kRows", form_.row_count);
    constant("kPart", lists_.part);
  }

  void AddAccumulators(Text& text) const {
    std::vector<Accumulated> all;
    for (const Member& member : members_) all.push_back({member.reduction, member.prefix});
    text.Append(AccumulatorText(all, ""));
  }

  // Statements that take a row-major number, which they use up, apart into coordinates.
  void Decode(const std::string& number, const std::vector<int>& axes, const char* array,
              Text& text) const {
    for (size_t k = axes.size(); k-- > 0;) {
      const int64_t extent = domain_.axes[axes[k]].extent();
      text.Line(StrCat(array, "[", axes[k], "] = ", number,
                       k > 0 ? StrCat(" % ", extent, ";") : std::string(";")));
      if (k > 0) text.Line(StrCat(number, " /= ", extent, ";"));
    }
  }
  std::string Encode(const std::vector<int>& axes) const {
    std::string number;
    for (int axis : axes) {
      const std::string own = StrCat("c[", axis, "]");
      number = number.empty()
                   ? own
                   : StrCat("(", number, ") * ", domain_.axes[axis].extent(), " + ", own);
    }
    return number.empty() ? "0" : number;
  }
  std::vector<int> BatchesAndPlaces() const {
    std::vector<int> axes = form_.batches;
    axes.insert(axes.end(), form_.places.begin(), form_.places.end());
    return axes;
  }

  void AddCoordinates(Text& text) const {
    text.Open("static WS_DEVICE void element(Index i, Index (&c)[kRank]) {");
    Decode("i", form_.order, "c", text);
    text.Close();
    text.Open("static WS_DEVICE void element_of(int place, int e, Index (&c)[kRank]) {");
    Decode("place", BatchesAndPlaces(), "c", text);
    if (!form_.elements.empty()) Decode("e", form_.elements, "c", text);
    text.Close();
    text.Line(
        StrCat("static WS_DEVICE int place_of(const Index (&c)[kRank]) { return static_cast<int>(",
               Encode(BatchesAndPlaces()), "); }"));
    text.Line(
        StrCat("static WS_DEVICE int within(const Index (&c)[kRank]) { return static_cast<int>(",
               Encode(form_.elements), "); }"));
  }

  uint64_t Known(const Kernel& kernel) const {
    uint64_t known = 0;
    for (const Index& axis : kernel.frame.axes) known |= axis.variables();
    return width_ > 1 ? known & ~BitOf(kernel.frame.lane) : known;
  }
  void OpenRow(Text& text) const {
    text.Line("Index r[kRank];");
    Decode("row", form_.rows, "r", text);
  }

  void AddPlace(const Kernel& kernel, const ScatterParts& parts,
                const std::vector<Parameter>& parameters, Text& text) const {
    const Dialect dialect = MakeDialect(context_, kernel, parameters, index_type_);
    Emitter emit(dialect, Known(kernel));
    std::vector<ValuePtr> targets = parts.counts;
    for (const PlaceKey& key : parts.keys) {
      if (key.number != nullptr) targets.push_back(key.number);
    }
    emit.Expect(targets);
    for (ValuePtr condition : parts.counts)
      emit.Line(StrCat("if (!(", emit.Use(condition), ")) return -1;"));
    std::string place = "0";
    for (const PlaceKey& key : parts.keys) {
      const std::string name = emit.NewName("key");
      const int64_t extent = domain_.axes[key.axis].extent();
      const std::string number = key.number != nullptr ? emit.Use(key.number) : emit.Use(key.index);
      // i64 wraps.
      emit.Line(key.minus == 0
                    ? StrCat("const long long ", name, " = ", number, ";")
                    : StrCat("const long long ", name,
                             " = static_cast<long long>(static_cast<unsigned long long>(", number,
                             ") - static_cast<unsigned long long>(", key.minus, "ll));"));
      emit.Line(StrCat("if (", name, " < 0 || ", name, " >= ", extent, ") return -1;"));
      place = place == "0" ? StrCat("static_cast<int>(", name, ")")
                           : StrCat("(", place, ") * ", extent, " + static_cast<int>(", name, ")");
    }
    text.Open("WS_DEVICE int place(int batch, int row) const {");
    text.Line("Index c[kRank];");
    if (!form_.batches.empty()) Decode("batch", form_.batches, "c", text);
    OpenRow(text);
    text.Append(emit.Finish());
    text.Line(StrCat("return ", place, ";"));
    text.Close();
  }

  void AddTerms(const Kernel& kernel, const ScatterParts& parts,
                const std::vector<Parameter>& parameters, Text& text) const {
    const Dialect dialect = MakeDialect(context_, kernel, parameters, index_type_);
    Emitter emit(dialect, Known(kernel));
    for (ValuePtr condition : parts.met) emit.Bind(condition, "true");
    emit.Expect(parts.terms);
    LoadContiguous(emit, kernel, parts.terms, [](ValuePtr, const Index& base, int width) {
      return base.multiple() % width == 0;
    });
    OpenLanes(emit, kernel.frame);
    for (size_t k = 0; k < members_.size(); ++k) {
      const std::string acc = StrCat("acc[", LaneName(kernel.frame), "].", members_[k].prefix);
      for (const std::string& line :
           Accumulate(members_[k].reduction, acc, {emit.Use(parts.terms[k])}, {}))
        emit.Line(line);
    }
    CloseLanes(emit, kernel.frame);
    text.Line("template <int V>");
    text.Open("WS_DEVICE void add(const Index (&c)[kRank], int row, Acc (&acc)[V]) const {");
    OpenRow(text);
    text.Append(emit.Finish());
    text.Close();
  }

  void AddEnd(const Kernel& kernel, const std::vector<Parameter>& parameters, Text& text) const {
    const Dialect dialect = MakeDialect(context_, kernel, parameters, index_type_);
    Emitter emit(dialect, Known(kernel));
    std::vector<ValuePtr> targets;
    std::vector<const Kernel::Root*> roots;
    for (const Kernel::Root& root : kernel.roots) {
      targets.push_back(root.value);
      roots.push_back(&root);
    }
    for (ValuePtr value : kernel.values->Closure(targets)) {
      if (value->kind != Value::Kind::kResult) continue;
      for (const Member& member : members_) {
        const std::string acc = StrCat("acc[", LaneName(kernel.frame), "].", member.prefix);
        if (member.node == value->node) emit.Bind(value, ResultOf(member.reduction, acc, 0));
      }
    }
    emit.Expect(targets);
    LoadContiguous(emit, kernel, targets, [](ValuePtr, const Index& base, int width) {
      return base.multiple() % width == 0;
    });
    StoreRoots(emit, dialect, context_, kernel, roots, [&](const Index& address) {
      return LaneBase(address, kernel.frame).multiple() % width_ == 0;
    });
    text.Line("template <int V>");
    text.Open("WS_DEVICE void emit(const Index (&c)[kRank], const Acc (&acc)[V]) const {");
    text.Append(emit.Finish());
    text.Close();
  }

  const Analysis& group_;
  const ScatterForm& form_;
  const Domain& domain_;
  const Lists& lists_;
  const GroupContext context_;
  const int width_;
  std::vector<Member> members_;
  std::string index_type_;
};

int AccBytes(const Analysis& group, const Domain& domain, const Style& style) {
  int bytes = 0;
  bool wide = false;
  for (const StageNode& stage : domain.nodes) {
    Reduction reduction;
    reduction.type = group.graph().nodes[stage.node].value->type;
    reduction.accumulator = style.accumulator;
    for (const Field& field : FieldsOf(reduction)) {
      const bool own = field.type == "double" || field.type == "long long";
      bytes += own ? 8 : 4;
      wide = wide || own;
    }
  }
  return wide ? static_cast<int>(CeilDiv(bytes, 8)) * 8 : bytes;
}

class Scatter : public Skeleton {
 public:
  SkeletonCase id() const override { return v1::Group::kScatter; }
  const char* header(const v1::Group&, const Target&) const override { return "scatter"; }

  absl::StatusOr<const Domain*> Matches(const Analysis& group) const override {
    const absl::StatusOr<ScatterForm>& form = FormOf(group);
    if (!form.ok()) return form.status();
    const int64_t most = kMaxIntPosition;
    if (form->batch_count * form->place_count > most / 2 ||
        form->batch_count * form->row_count > most || form->element_count > most)
      return absl::InvalidArgumentError("its places and rows are more than an int counts");
    return &*group.stages();
  }

  // Where looking through all rows at every place takes longer.
  double Suits(const Analysis& group, const Target& target) const override {
    auto resolved = Resolve(group, {}, target);
    if (!resolved.ok()) return 0;
    auto use = Use(group, *resolved, target);
    if (!use.ok()) return 0;
    const Domain& domain = *group.stages();
    Usage all = *use;
    all.points = static_cast<double>(domain.kept()) * static_cast<double>(domain.reduced());
    all.launches = 1;
    all.left_bytes = 0;
    all.summing_seconds = all.operations = 0;
    return SecondsOf(group, domain, *use, target) < SecondsOf(group, domain, all, target) ? 1 : 0;
  }

  absl::StatusOr<v1::Group> Resolve(const Analysis& group, const v1::Group& knobs,
                                    const Target& target) const override {
    auto domain = Matches(group);
    if (!domain.ok()) return domain.status();
    const ScatterForm& form = *FormOf(group);
    v1::Group resolved = knobs;
    v1::ScatterKnobs& scatter = *resolved.mutable_scatter();
    if (scatter.vector_bytes() == 0) scatter.set_vector_bytes(16);
    if (scatter.block_threads() == 0) scatter.set_block_threads(256);
    if (scatter.unroll() == 0) {
      // One more list to look up meanwhile, where there are blocks enough without.
      const int64_t vectors =
          (*domain)->kept() / WidthOf(group, form, **domain, scatter.vector_bytes());
      scatter.set_unroll(vectors / scatter.block_threads() < 8 * target.sm_count ? 1 : 2);
    }
    // As many rows of a part as parts of the longest list.
    const auto root = static_cast<int64_t>(std::sqrt(static_cast<double>(form.row_count)));
    if (scatter.part_rows() == 0)
      scatter.set_part_rows(static_cast<int>(std::max(kLeastPart, PowerOfTwoAtLeast(root))));
    const Lists lists = ListsOf(form, scatter.part_rows(), target);
    if (resolved.precision().accumulator() == v1::ACCUMULATOR_AUTO) {
      resolved.mutable_precision()->set_accumulator(AccumulatorFor(
          group, **domain,
          lists.part > 0 ? 2 * lists.part + CeilDiv(form.row_count, lists.part) : form.row_count));
    }
    Checker check(group.name());
    CheckResidency("scatter", scatter.block_threads(), 0, lists.shared_bytes(),
                   "scatter.block_threads", target, check);
    if (!check.status().ok()) return check.status();
    return resolved;
  }

  absl::StatusOr<Usage> Use(const Analysis& group, const v1::Group& resolved,
                            const Target& target) const override {
    auto domain = Matches(group);
    if (!domain.ok()) return domain.status();
    const ScatterForm& form = *FormOf(group);
    const v1::ScatterKnobs& scatter = resolved.scatter();
    const Lists lists = ListsOf(form, scatter.part_rows(), target);
    Usage use;
    use.width = WidthOf(group, form, **domain, scatter.vector_bytes());
    use.threads = scatter.block_threads();
    use.blocks =
        CeilDiv((*domain)->kept() / use.width, int64_t{scatter.unroll()} * scatter.block_threads());
    use.shared_bytes = lists.shared_bytes();
    use.streams = static_cast<int>(group.demand().reads.size());
    use.launches = lists.part > 0 ? 3 : 2;
    use.workspace_bytes = use.left_bytes = WorkspaceOf(group, **domain, form, lists, resolved);
    const auto rows = static_cast<double>(form.batch_count * form.row_count);
    use.points = rows * static_cast<double>(form.element_count);
    // The rows of a batch are looked at by every warp of it.
    const double looks =
        static_cast<double>(lists.blocks * lists.warps) * static_cast<double>(form.row_count);
    use.operations =
        looks * kLookSteps + static_cast<double>((*domain)->kept() / use.width) * kElementSteps;
    const double waves = std::ceil(static_cast<double>(lists.blocks) / target.sm_count);
    use.summing_seconds = kListSeconds + waves * static_cast<double>(form.row_count) * kRowSeconds;
    return use;
  }

  std::vector<Layout> Layouts(const Analysis&, const v1::Group&,
                              const Target& target) const override {
    std::vector<Layout> layouts;
    for (int block : {128, 256, 512, 1024, 64}) {
      if (block > target.max_threads_per_sm) continue;
      Layout layout;
      layout.kind = "layout";
      layout.name = StrCat(block, " threads");
      layout.knobs = {{"block_threads", block}};
      layout.prior = 0.03;
      layouts.push_back(layout);
    }
    return layouts;
  }

  absl::Status Emit(const Analysis& group, const v1::Group& resolved, const Target& target,
                    KernelWriter& writer) const override {
    auto domain = Matches(group);
    if (!domain.ok()) return domain.status();
    const ScatterForm& form = *FormOf(group);
    const v1::ScatterKnobs& scatter = resolved.scatter();
    const Lists lists = ListsOf(form, scatter.part_rows(), target);
    const Style style = StyleOf(resolved, scatter);
    const int width = WidthOf(group, form, **domain, scatter.vector_bytes());
    Writer glue(group, form, **domain, lists, style, width, writer.glue());
    if (absl::Status s = glue.Write(writer); !s.ok()) return s;

    const bool cut = lists.part > 0;
    const int64_t word = sizeof(int), rows = form.batch_count * form.row_count;
    const KernelArgument spans = {
        "int* spans", writer.Workspace("_spans", 2 * word * form.batch_count * form.place_count)};
    const KernelArgument list = {"int* rows", writer.Workspace("_rows", word * rows)};
    std::vector<KernelArgument> of_lists = {spans, list};
    KernelArgument parts, partial;
    if (cut) {
      parts = {"int* parts", writer.Workspace("_parts", word * lists.parts)};
      of_lists.push_back(parts);
      partial = {StrCat(writer.glue(), "::Acc* partial"),
                 writer.Workspace("_partial", lists.parts * form.element_count *
                                                  AccBytes(group, **domain, style))};
    }
    const std::string& g = writer.glue();
    auto made =
        writer.Kernel("_lists", {32 * lists.warps, 0, lists.blocks, lists.shared_bytes()}, of_lists,
                      StrCat("ws::scatter_lists<", g, ", ", lists.warps, ", ", lists.places, ", ",
                             lists.tile, ">(g, spans, rows, ", cut ? "parts" : "nullptr", ")"));
    if (!made.ok()) return made.status();
    const int threads = scatter.block_threads();
    if (cut) {
      made = writer.Kernel(
          "_partial", {threads, 0, CeilDiv(lists.parts * (form.element_count / width), threads)},
          {list, parts, partial},
          StrCat("ws::scatter_parts<", g, ", ", width, ">(g, rows, parts, partial)"));
      if (!made.ok()) return made.status();
    }
    std::vector<KernelArgument> of_sums = {spans, list};
    if (cut) of_sums.push_back(partial);
    return writer
        .Kernel(
            "",
            {threads, 0, CeilDiv((*domain)->kept() / width, int64_t{threads} * scatter.unroll())},
            of_sums,
            StrCat("ws::scatter_sum<", g, ", ", width, ", ", scatter.unroll(), ">(g, spans, rows, ",
                   cut ? "partial" : "nullptr", ", ", (*domain)->kept(), ")"))
        .status();
  }

 private:
  static int64_t WorkspaceOf(const Analysis& group, const Domain& domain, const ScatterForm& form,
                             const Lists& lists, const v1::Group& resolved) {
    const int64_t word = sizeof(int);
    return word * (2 * form.batch_count * form.place_count + form.batch_count * form.row_count +
                   lists.parts) +
           lists.parts * form.element_count *
               AccBytes(group, domain, StyleOf(resolved, resolved.scatter()));
  }
};

}  // namespace

const Skeleton* ScatterSkeleton() {
  static const Scatter skeleton;
  return &skeleton;
}

}  // namespace warpsmith::codegen
