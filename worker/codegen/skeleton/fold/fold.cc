#include "worker/codegen/skeleton/fold/fold.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "worker/codegen/skeleton/glue.h"
#include "worker/kernels/fold_rule.h"

namespace warpsmith::codegen {
namespace {

using absl::StrCat;

// Axes of a box, one behind the other in memory: each stands for one or several of the domain.
struct MemoryAxes {
  kernels::FoldProblem problem;         // merged
  std::vector<std::vector<int>> parts;  // of each merged axis: axes of the domain, outermost first
};

// Loads that run along the whole domain just as the main one does.
std::vector<ValuePtr> StreamsOf(const Domain& domain, const Kernel& points) {
  std::vector<ValuePtr> streams;
  for (ValuePtr load : LoadsOf(points)) {
    bool same = load->args.empty() && !load->index.has_opaque();
    Index rest = load->index;
    for (const DomainAxis& axis : domain.axes) {
      same = same && rest.CoefficientOf(axis.variable) == domain.pattern.stride[axis.variable.id];
      rest = rest.Without(axis.variable);
    }
    if (same && rest.is_constant()) streams.push_back(load);
  }
  return streams;
}

MemoryAxes AxesOf(const Analysis& group, const Domain& domain) {
  MemoryAxes axes;
  std::vector<int> order(domain.axes.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return domain.pattern.stride[a] > domain.pattern.stride[b];
  });
  for (int a : order) {
    axes.problem.axes.push_back(
        {domain.axes[a].extent(), domain.axes[a].role == Role::kKept, domain.pattern.stride[a]});
  }
  const auto& points = group.PointsOf(domain);
  axes.problem.bytes = 1;
  if (points.ok()) {
    for (ValuePtr stream : StreamsOf(domain, *points)) {
      const auto bytes = static_cast<int>(graph::SizeOf(stream->type));
      axes.problem.bytes = std::max(axes.problem.bytes, bytes);
      axes.problem.stream_bytes.push_back(bytes);
      axes.problem.offset = std::gcd(axes.problem.offset, stream->index.constant());
    }
  }
  axes.problem = kernels::MergeAxes(axes.problem);
  size_t next = 0;
  for (const kernels::FoldAxis& merged : axes.problem.axes) {
    axes.parts.emplace_back();
    for (int64_t left = merged.extent; left > 1; ++next) {
      axes.parts.back().push_back(order[next]);
      left /= domain.axes[order[next]].extent();
    }
  }
  return axes;
}

// Whether lines of what is reduced together leave some of memory between them out.
bool HasGaps(const MemoryAxes& axes) {
  const auto& merged = axes.problem.axes;
  for (size_t m = 0; m + 1 < merged.size(); ++m) {
    if (!merged[m].kept && merged[m].stride > merged[m + 1].stride * merged[m + 1].extent)
      return true;
  }
  return false;
}

// Coordinates c of a vector's first element, and V neighbours in memory from there. Where vectors
// may cross the end of an axis, the axes behind one another in memory count as one position.
FrameMaker FoldFrame(const Domain& domain, const MemoryAxes& axes, int width, bool crosses) {
  return [&domain, &axes, width, crosses](Values& values) {
    Frame frame;
    frame.width = width;
    const auto& merged = axes.problem.axes;
    const int rank = static_cast<int>(merged.size());
    std::vector<Index> c;
    for (int m = 0; m < rank; ++m) {
      const bool whole = m + 1 == rank && !crosses;
      const Variable variable =
          values.NewVariable(StrCat("c[", m, "]"), {0, merged[m].extent - 1}, whole ? width : 1);
      if (merged[m].kept) frame.row_variables |= BitOf(variable);
      c.push_back(Index::Of(variable));
    }
    if (width > 1) {
      frame.lane = values.NewVariable("j", {0, width - 1});
      int first = rank - 1;
      while (crosses && first > 0 &&
             merged[first - 1].stride == merged[first].stride * merged[first].extent)
        --first;
      std::vector<int64_t> extents;
      for (int m = first; m < rank; ++m) extents.push_back(merged[m].extent);
      const Index position = Flatten({c.begin() + first, c.end()}, extents) + Index::Of(frame.lane);
      const std::vector<Index> moved = Unflatten(position, extents);
      std::copy(moved.begin(), moved.end(), c.begin() + first);
    }
    frame.axes.resize(domain.axes.size());
    for (int m = 0; m < rank; ++m) {
      std::vector<int64_t> extents;
      for (int a : axes.parts[m]) extents.push_back(domain.axes[a].extent());
      const std::vector<Index> at = Unflatten(c[m], extents);
      for (size_t p = 0; p < at.size(); ++p) frame.axes[axes.parts[m][p]] = at[p];
    }
    return frame;
  };
}

struct Form {
  absl::Status status;
  MemoryAxes axes;
  kernels::FoldChoice choice;
  bool crosses = false;
};

// The reductions of the only stage, with the names of their accumulators' fields.
struct Member {
  const Kernel::Reduce* reduce;
  Reduction reduction;
  std::string prefix;
};

std::vector<Member> MembersOf(const Analysis& group, const Domain& domain, const Kernel& kernel,
                              const Style& style) {
  std::vector<Member> members;
  for (const Kernel::Reduce& reduce : kernel.reduces) {
    Member member{&reduce, {}, StrCat("a", members.size(), "_")};
    member.reduction.combiner = group.graph().nodes[reduce.node].combiner;
    member.reduction.type = reduce.value->type;
    member.reduction.accumulator = style.accumulator;
    member.reduction.elements = domain.reduced();
    member.reduction.fast_math = style.fast_math;
    members.push_back(member);
  }
  return members;
}

int AccBytes(const std::vector<Member>& members) {
  int bytes = 0;
  bool wide = false;
  for (const Member& member : members) {
    for (const Field& field : FieldsOf(member.reduction)) {
      bytes += IsWide(field) ? 8 : 4;
      wide = wide || IsWide(field);
    }
  }
  return wide ? (bytes + 7) / 8 * 8 : bytes;
}

std::string AccText(const std::vector<Member>& members) {
  std::vector<Accumulated> all;
  for (const Member& member : members) all.push_back({member.reduction, member.prefix});
  Text text;
  text.Append(AccumulatorText(all, "S"));
  bool chained = false;
  for (const Member& member : members) chained = chained || IsRunningSum(member.reduction);
  text.Line(StrCat("static constexpr bool kChained = ", chained ? "true" : "false", ";"));
  return text.str();
}

uint64_t KnownOf(const Kernel& kernel, size_t rank) {
  (void)kernel;
  return (uint64_t{1} << rank) - 1;  // c[0] and on are the first variables
}

class Writer {
 public:
  Writer(const Analysis& group, const Domain& domain, const Form& form, const Style& style,
         const std::string& name)
      : group_(group),
        domain_(domain),
        form_(form),
        context_(ContextOf(group, domain, style, name)),
        rank_(form.axes.problem.axes.size()) {}

  absl::Status Write(KernelWriter& writer) {
    const int width = form_.choice.vector;
    auto wide = BuildKernel(group_.graph(), domain_, group_.in_memory(),
                            FoldFrame(domain_, form_.axes, width, form_.crosses));
    if (!wide.ok()) return wide.status();
    auto narrow = BuildKernel(group_.graph(), domain_, group_.in_memory(),
                              FoldFrame(domain_, form_.axes, 1, false));
    if (!narrow.ok()) return narrow.status();
    parameters_ = ParametersOf(context_, {&*wide, &*narrow});
    const bool fits = FitsInt(group_.graph(), *wide) && FitsInt(group_.graph(), *narrow) &&
                      domain_.kept() * domain_.reduced() <= kMaxIntPosition;
    index_type_ = fits ? "int" : "long long";
    const std::string coordinate_type = CoordinatesFit() ? "int" : "long long";
    if (coordinate_type != index_type_) {
      // Positions of more than 32 bits from coordinates of 32, which take half the registers.
      widen_ = StrCat("const ", index_type_, " c[", rank_, "] = {at[0]");
      for (size_t d = 1; d < rank_; ++d) absl::StrAppend(&widen_, ", at[", d, "]");
      widen_ += "};";
    }
    Text text;
    text.Open(StrCat("struct ", context_.name, " {"));
    text.Line(StrCat("using Index = ", coordinate_type, ";"));
    for (const Parameter& p : parameters_) text.Line(StrCat(p.type, " ", p.name, ";"));
    text.Append(AccText(MembersOf(group_, domain_, *wide, context_.style)));
    if (form_.choice.staging.stages > 0) {
      AddStaged(*narrow, text);
    } else {
      AddVectors(*wide, text);
    }
    AddEnd(*narrow, text);
    text.Close("};");
    writer.Struct(text.str(), parameters_);
    return absl::OkStatus();
  }

 private:
  // Whether all that is counted fits an int: coordinates, and partial results.
  bool CoordinatesFit() const {
    const kernels::FoldChoice& choice = form_.choice;
    bool fit = choice.steps <= kMaxIntPosition && choice.outputs * choice.split <= kMaxIntPosition;
    for (const kernels::FoldAxis& axis : choice.axes) fit = fit && axis.extent <= kMaxIntPosition;
    return fit;
  }
  std::string Coordinates() const {
    return StrCat("const Index (&", widen_.empty() ? "c" : "at", ")[", rank_, "]");
  }
  void OpenFunction(const std::string& signature, Text& text) const {
    text.Open(signature);
    if (!widen_.empty()) text.Line(widen_);
  }

  // The structure that holds elements of all streams.
  void AddValues(const std::vector<ValuePtr>& streams, Text& text) const {
    text.Open("template <int V> struct Values {");
    for (size_t i = 0; i < streams.size(); ++i)
      text.Line(StrCat(StorageType(streams[i]->type), " s", i, "[V];"));
    text.Close("};");
  }

  // load and accumulate, of V elements.
  void AddVectors(const Kernel& kernel, Text& text) {
    const Frame& frame = kernel.frame;
    const Dialect dialect = MakeDialect(context_, kernel, parameters_, index_type_);
    const std::vector<ValuePtr> streams = Contiguous(kernel);
    AddValues(streams, text);
    Emitter load(dialect, KnownOf(kernel, rank_));
    for (size_t i = 0; i < streams.size(); ++i)
      load.LoadVector(streams[i], LaneBase(streams[i]->index, frame), frame.width,
                      StrCat("values.s", i));
    text.Line("template <int V>");
    OpenFunction(StrCat("WS_DEVICE void load(", Coordinates(), ", Values<V>& values) const {"),
                 text);
    text.Append(load.Finish());
    text.Close();
    text.Line("template <int S, int V>");
    OpenFunction(StrCat("WS_DEVICE void accumulate(", Coordinates(),
                        ", const Values<V>& values, Acc<S> (&acc)[V]) const {"),
                 text);
    text.Append(Accumulation(kernel, streams, StrCat("acc[", LaneName(frame), "]")));
    text.Close();
  }

  // What fold_staged.cuh asks for: where elements are, and one of them taken.
  void AddStaged(const Kernel& kernel, Text& text) {
    const Dialect dialect = MakeDialect(context_, kernel, parameters_, index_type_);
    const std::vector<ValuePtr> streams = Contiguous(kernel);
    text.Line(StrCat("static constexpr int kStreams = ", streams.size(), ";"));
    AddValues(streams, text);
    text.Line("template <int S, class = void> struct Of;");
    std::string at, of;
    for (size_t i = 0; i < streams.size(); ++i) {
      text.Line(StrCat("template <class Unused> struct Of<", i,
                       ", Unused> { using Type = ", StorageType(streams[i]->type), "; };"));
      const std::string which = StrCat(i > 0 ? "else " : "", "if constexpr (S == ", i, ") ");
      Emitter emit(dialect, KnownOf(kernel, rank_));
      emit.Line(StrCat(which, "return ", emit.Address(streams[i]->tensor, streams[i]->index), ";"));
      absl::StrAppend(&at, emit.Finish());
      absl::StrAppend(&of, which, "return values.s", i, ";\n");
    }
    text.Line("template <int S> using Element = typename Of<S>::Type;");
    text.Line("template <int S, int V>");
    text.Open("static WS_DEVICE auto& of(Values<V>& values) {");
    text.Append(of);
    text.Close();
    text.Line("template <int S>");
    OpenFunction(StrCat("WS_DEVICE const Element<S>* at(", Coordinates(), ") const {"), text);
    text.Append(at);
    text.Close();
    text.Line("template <int S>");
    OpenFunction(StrCat("WS_DEVICE void take(", Coordinates(),
                        ", const Values<1>& values, Acc<S>& acc) const {"),
                 text);
    text.Append(Accumulation(kernel, streams, "acc"));
    text.Close();
  }

  // Puts the lanes' elements, whose streams are in `values`, into accumulators.
  std::string Accumulation(const Kernel& kernel, const std::vector<ValuePtr>& streams,
                           const std::string& accumulator) const {
    const Frame& frame = kernel.frame;
    const Dialect dialect = MakeDialect(context_, kernel, parameters_, index_type_);
    const std::vector<Member> members = MembersOf(group_, domain_, kernel, context_.style);
    Emitter emit(dialect, KnownOf(kernel, rank_));
    for (size_t i = 0; i < streams.size(); ++i) {
      emit.Bind(streams[i],
                ToRegister(streams[i]->type, StrCat("values.s", i, "[", LaneName(frame), "]")));
    }
    std::vector<ValuePtr> targets;
    for (const Member& member : members) {
      targets.push_back(member.reduce->value);
      if (IsIndexed(member.reduction)) targets.push_back(member.reduce->position);
    }
    emit.Expect(targets);
    OpenLanes(emit, frame);
    for (const Member& member : members) {
      const bool indexed = IsIndexed(member.reduction);
      const std::string value =
          indexed ? emit.Name(member.reduce->value) : emit.Use(member.reduce->value);
      std::vector<std::string> positions;
      if (indexed) {
        positions.push_back(StrCat("static_cast<", FieldsOf(member.reduction)[1].type, ">(",
                                   emit.Use(kernel.values->AsIndex(member.reduce->position)), ")"));
      }
      const std::string acc = StrCat(accumulator, ".", member.prefix);
      for (const std::string& line : Accumulate(member.reduction, acc, {value}, positions))
        emit.Line(line);
    }
    CloseLanes(emit, frame);
    return emit.Finish();
  }

  // What is made of one output's accumulators.
  void AddEnd(const Kernel& kernel, Text& text) {
    const Dialect dialect = MakeDialect(context_, kernel, parameters_, index_type_);
    Emitter emit(dialect, KnownOf(kernel, rank_));
    const std::vector<Member> members = MembersOf(group_, domain_, kernel, context_.style);
    std::vector<ValuePtr> targets;
    for (const Kernel::Root& root : kernel.roots) targets.push_back(root.value);
    for (ValuePtr value : kernel.values->Closure(targets)) {
      if (value->kind != Value::Kind::kResult) continue;
      for (const Member& member : members) {
        if (member.reduce->node == value->node)
          emit.Bind(value,
                    ResultOf(member.reduction, StrCat("acc.", member.prefix), value->output));
      }
    }
    emit.Expect(targets);
    for (const Kernel::Root& root : kernel.roots) {
      const std::string value = emit.Stored(root.value);
      emit.Line(StrCat(emit.Element(root.tensor, root.address), " = ", value, ";"));
    }
    OpenFunction(StrCat("WS_DEVICE void emit(", Coordinates(), ", const Acc<0>& acc) const {"),
                 text);
    text.Append(emit.Finish());
    text.Close();
  }

  // Loads of whole vectors: those that run as the main one does.
  std::vector<ValuePtr> Contiguous(const Kernel& kernel) const {
    std::vector<ValuePtr> streams;
    const auto& points = group_.PointsOf(domain_);
    if (!points.ok()) return streams;
    std::vector<std::pair<int, int64_t>> wanted;  // tensor, offset
    for (ValuePtr stream : StreamsOf(domain_, *points))
      wanted.push_back({stream->tensor, stream->index.constant()});
    for (ValuePtr load : LoadsOf(kernel)) {
      if (!load->args.empty() || !IsContiguous(load->index, kernel.frame) ||
          !FitsVector(load->type, kernel.frame.width))
        continue;
      const std::pair<int, int64_t> key = {load->tensor, load->index.constant()};
      if (std::find(wanted.begin(), wanted.end(), key) != wanted.end() &&
          AlongAll(load, kernel.frame))
        streams.push_back(load);
    }
    return streams;
  }

  // Its position is the sum of every coordinate at its place in memory: not that of the same tensor
  // with axes exchanged.
  bool AlongAll(ValuePtr load, const Frame& frame) const {
    Index along;
    for (size_t a = 0; a < domain_.axes.size(); ++a)
      along = along + frame.axes[a] * domain_.pattern.stride[domain_.axes[a].variable.id];
    return load->index == along + (load->index.constant() - along.constant());
  }

  const Analysis& group_;
  const Domain& domain_;
  const Form& form_;
  const GroupContext context_;
  const size_t rank_;
  std::vector<Parameter> parameters_;
  std::string index_type_;
  std::string widen_;  // a line, where bodies compute with more bits than coordinates have
};

class Fold : public Skeleton {
 public:
  SkeletonCase id() const override { return v1::Group::kFold; }
  const char* header(const v1::Group&, const Target&) const override { return "fold"; }

  absl::StatusOr<const Domain*> Matches(const Analysis& group) const override {
    if (!group.stages().ok()) return group.stages().status();
    const Domain& domain = *group.stages();
    bool rows = true, dense = domain.pattern.known && !domain.pattern.guarded &&
                              !domain.pattern.parted && !domain.pattern.overlapping &&
                              domain.reduced() > 1;
    for (const RootPlace& root : domain.roots) rows = rows && root.level == Level::kRows;
    for (int64_t stride : domain.pattern.stride) dense = dense && stride > 0;
    if (domain.stages != 1 || !rows || !domain.totals.empty()) {
      return absl::InvalidArgumentError(
          "a fold is one reduction whose results alone are written; give the rest another group");
    }
    if (!dense || domain.axes.size() > kernels::kMaxFoldRank)
      return absl::InvalidArgumentError("no input runs along all its axes");
    return &domain;
  }

  // Where one long run of memory is reduced, or one long run is kept, others do better (measured on
  // an H200: sums over the middle of 128 x 4096 x 4095 at 0.76 of the roof, against 1.0); anything
  // else it does best.
  double Suits(const Analysis& group, const Target& target) const override {
    if (target.fibers()) return 0.05;
    const Domain& domain = *group.stages();
    if (WalkOf(domain) == Walk::kAlong && ReducedRun(domain) == domain.reduced() &&
        domain.reduced() >= kLongRun)
      return 0.4;
    int64_t kept = 1;
    const std::vector<bool> inner = InnerAxes(domain);
    for (size_t a = 0; a < inner.size(); ++a) {
      if (inner[a]) kept *= domain.axes[a].extent();
    }
    // A thread of the columns skeleton would have little to do. Short lines with some of memory
    // left out behind them make small boxes: of 4x4 windows of lines of 126, the last two elements
    // left out, they took four times as long as those who read what they reduce (498 and 126 us; of
    // 254 914 and 514).
    if (domain.reduced() <= kFewSummed)
      return domain.reduced() > kFewSummed / 2 && HasGaps(AxesOf(group, domain)) ? 0.05 : 0.7;
    if (WalkOf(domain) != Walk::kAcross || kept < kLongRun) return 0.7;
    // Columns of less than words that begin anywhere are better staged than read one by one; a warp
    // reads words as well by themselves.
    const int width = WidthFor(group, 16);
    return width <= kWordsOfVector || kept % kLeastVector == 0 ? 0.4 : 0.7;
  }

  absl::StatusOr<v1::Group> Resolve(const Analysis& group, const v1::Group& knobs,
                                    const Target& target) const override {
    auto domain = Matches(group);
    if (!domain.ok()) return domain.status();
    v1::Group resolved = knobs;
    v1::FoldKnobs& fold = *resolved.mutable_fold();
    if (fold.vector_bytes() == 0) fold.set_vector_bytes(16);
    const bool open = fold.block_threads() == 0;
    if (open) fold.set_block_threads(256);
    if (fold.flight_bytes() == 0) fold.set_flight_bytes(64);
    v1::Group provisional = resolved;
    if (resolved.precision().accumulator() == v1::ACCUMULATOR_AUTO)
      provisional.mutable_precision()->set_accumulator(v1::ACCUMULATOR_F32);
    const Form* form_of_first = &FormOf(group, **domain, provisional, target);
    if (open && form_of_first->status.ok() && kernels::WantsFewThreads(form_of_first->choice)) {
      fold.set_block_threads(128);
      provisional.mutable_fold()->set_block_threads(128);
      form_of_first = &FormOf(group, **domain, provisional, target);
    }
    const Form& first = *form_of_first;
    if (!first.status.ok()) return first.status;
    if (resolved.precision().accumulator() == v1::ACCUMULATOR_AUTO) {
      const kernels::FoldChoice& choice = first.choice;
      resolved.mutable_precision()->set_accumulator(AccumulatorFor(
          group, **domain, CeilDiv(choice.steps, int64_t{choice.split} * choice.unroll)));
    }
    const Form& form = FormOf(group, **domain, resolved, target);
    if (!form.status.ok()) return form.status;
    fold.set_split(form.choice.split);
    Checker check(group.name());
    CheckResidency("fold", fold.block_threads(), 0, form.choice.shared_bytes, "fold.block_threads",
                   target, check);
    if (!check.status().ok()) return check.status();
    return resolved;
  }

  absl::StatusOr<Usage> Use(const Analysis& group, const v1::Group& resolved,
                            const Target& target) const override {
    auto domain = Matches(group);
    if (!domain.ok()) return domain.status();
    const Form& form = FormOf(group, **domain, resolved, target);
    if (!form.status.ok()) return form.status;
    const kernels::FoldChoice& choice = form.choice;
    Usage use;
    use.threads = choice.threads;
    use.shared_bytes = choice.shared_bytes;
    use.blocks = choice.jobs * choice.split;
    use.width = choice.staging.stages > 0 ? 1 : choice.vector;
    use.streams = static_cast<int>(group.demand().reads.size());
    use.stream_bytes = form.axes.problem.bytes;
    use.workspace_bytes = choice.partial_bytes;
    use.launches = choice.split > 1 ? 2 : 1;
    return use;
  }

  std::vector<Layout> Layouts(const Analysis& group, const v1::Group& resolved,
                              const Target& target) const override {
    std::vector<Layout> layouts;
    const auto domain = Matches(group);
    if (!domain.ok()) return layouts;
    const Form& form = FormOf(group, **domain, resolved, target);
    for (int threads : {128, 256, 512}) {
      for (int64_t waves : {0, 1, 2, 4, 8, 16}) {
        int64_t split = 0;  // as the rule has it
        if (waves > 0) {
          split = CeilDiv(waves * target.sm_count, std::max<int64_t>(1, form.choice.jobs));
          if (split > form.choice.steps || split > kMostSplit) continue;
        }
        Layout layout;
        layout.kind = "layout";
        layout.name =
            StrCat(threads, " threads", split > 0 ? StrCat(", ", split, " blocks a job") : "");
        layout.knobs = {{"block_threads", threads}, {"split", split}};
        layout.prior = waves == 0 ? 0.06 : 0.08;
        layouts.push_back(layout);
      }
    }
    return layouts;
  }

  absl::Status Emit(const Analysis& group, const v1::Group& resolved, const Target& target,
                    KernelWriter& writer) const override {
    auto domain = Matches(group);
    if (!domain.ok()) return domain.status();
    const Form& form = FormOf(group, **domain, resolved, target);
    if (!form.status.ok()) return form.status;
    const Style style = StyleOf(resolved, resolved.fold());
    Writer glue(group, **domain, form, style, writer.glue());
    if (absl::Status s = glue.Write(writer); !s.ok()) return s;
    const kernels::FoldChoice& choice = form.choice;
    const std::string types = StrCat(kernels::FoldFunction(choice), "<", writer.glue(), ", ",
                                     kernels::FoldConfigText(choice));
    const KernelShape shape{choice.threads, choice.resident, choice.jobs * choice.split,
                            choice.shared_bytes};
    if (choice.split == 1) {
      return writer.Kernel("", shape, {}, StrCat(types, ">(g, nullptr)")).status();
    }
    const int partial = writer.Workspace("_partial", choice.partial_bytes);
    const std::vector<KernelArgument> extra = {
        {StrCat(writer.glue(), "::Acc<0>* partial"), partial}};
    auto first = writer.Kernel("_partial", shape, extra,
                               StrCat(types, ", ", choice.combine_lanes, ">(g, partial)"));
    if (!first.ok()) return first.status();
    return writer
        .Kernel("_combine",
                {choice.combine_threads, 0, choice.combine_blocks, choice.combine_shared_bytes},
                extra,
                StrCat("ws::fold_combine<", writer.glue(), ", ", kernels::FoldConfigText(choice),
                       ", ", choice.combine_threads, ", ", choice.combine_lanes, ">(g, partial)"))
        .status();
  }

 private:
  // Elements of one run of memory.
  static constexpr int64_t kLongRun = 1024;
  // Elements of a sum that leave the threads of other skeletons idle.
  static constexpr int64_t kFewSummed = 16;
  static constexpr int64_t kMostSplit = 4096;
  static constexpr int kLeastVector = 2, kWordsOfVector = 4;

  static const Form& FormOf(const Analysis& group, const Domain& domain, const v1::Group& knobs,
                            const Target& target) {
    const v1::FoldKnobs& fold = knobs.fold();
    const Style style = StyleOf(knobs, fold);
    return group.Derived<Form>(
        StrCat("fold ", fold.vector_bytes(), " ", fold.block_threads(), " ", fold.flight_bytes(),
               " ", fold.split(), " ", style.accumulator, " ", target.shared_per_block),
        std::function<Form()>([&] {
          Form form;
          form.axes = AxesOf(group, domain);
          const auto& points = group.PointsOf(domain);
          form.status = points.status();
          if (!points.ok()) return form;
          if (StreamsOf(domain, *points).empty()) {
            form.status = absl::InvalidArgumentError("no input runs along all its axes");
            return form;
          }
          form.axes.problem.acc_bytes = AccBytes(MembersOf(group, domain, *points, style));
          kernels::FoldKnobs wanted;
          wanted.threads = fold.block_threads();
          wanted.vector_bytes = fold.vector_bytes();
          wanted.flight_bytes = fold.flight_bytes();
          wanted.split = fold.split();
          wanted.shared_bytes = static_cast<int>(target.shared_per_block);
          wanted.shared_bytes_per_sm = static_cast<int>(target.shared_per_sm);
          wanted.registers_per_sm = static_cast<int>(target.registers_per_sm);
          wanted.threads_per_sm = target.max_threads_per_sm;
          auto choice = kernels::ChooseFold(form.axes.problem, wanted, target.sm_count);
          form.status = choice.status();
          if (!choice.ok()) return form;
          form.choice = *choice;
          form.crosses = choice->staging.stages == 0 && choice->vector > 1 &&
                         choice->box.back() % choice->vector != 0;
          return form;
        }));
  }
};

}  // namespace

const Skeleton* FoldSkeleton() {
  static const Fold skeleton;
  return &skeleton;
}

}  // namespace warpsmith::codegen
