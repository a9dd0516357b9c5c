// Skeleton map: pointwise operations, broadcasts and views, and reduces as loops of the thread.
#include "worker/codegen/skeleton/map/map.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "worker/codegen/skeleton/glue.h"

namespace warpsmith::codegen {
namespace {

using absl::StrCat;

// Of whole vectors that a thread reads at a time: less does not keep memory busy.
constexpr int64_t kFullVector = 16;

// A load whose address needs no other load: all of them are issued before anything is computed.
bool IsEarly(const Kernel& kernel, ValuePtr load) {
  const Frame& frame = kernel.frame;
  const uint64_t known = BitOf(frame.element) | (frame.width > 1 ? BitOf(frame.lane) : 0);
  if ((load->variables & ~known) != 0 || load->index.has_opaque()) return false;
  return load->args.empty() || !load->args[0]->loads;
}

// Of lanes that are neighbours in memory, from a vector's first element on.
bool IsNeighbours(const Index& index, const Frame& frame) {
  return IsContiguous(index, frame) && LaneBase(index, frame).multiple() % frame.width == 0;
}

// Of an early load: accesses of neighbours, one for several lanes each, one a lane, one.
enum class Shape { kVector, kShared, kLanes, kScalar };

Shape ShapeOf(const Kernel& kernel, ValuePtr load) {
  const Frame& frame = kernel.frame;
  if (frame.width == 1 || (load->variables & BitOf(frame.lane)) == 0) return Shape::kScalar;
  const bool guarded_by_lane =
      !load->args.empty() && (load->args[0]->variables & BitOf(frame.lane));
  if (guarded_by_lane || !FitsAccesses(load->type, frame.width)) return Shape::kLanes;
  if (IsNeighbours(load->index, frame)) return Shape::kVector;
  const SharedLanes shared = SharedLanesOf(load->index, frame);
  return shared.lanes > 1 && shared.base.multiple() % (frame.width / shared.lanes) == 0
             ? Shape::kShared
             : Shape::kLanes;
}

// A zero as it is in memory.
std::string Zero(graph::DType type) {
  const std::string storage = StorageType(type);
  if (storage == ComputeType(type)) return Literal(type, 0, 0);
  return graph::IsNarrow(type) ? StrCat("static_cast<", storage, ">(0)") : StrCat(storage, "{}");
}

bool IsHeavy(ValuePtr value) {
  if (value->kind != Value::Kind::kOp || !graph::IsFloat(value->type)) return false;
  switch (value->op) {
    case graph::Op::kExp:
    case graph::Op::kExp2:
    case graph::Op::kExpm1:
    case graph::Op::kLog:
    case graph::Op::kLog2:
    case graph::Op::kLog1p:
    case graph::Op::kTanh:
    case graph::Op::kErf:
    case graph::Op::kSin:
    case graph::Op::kCos:
    case graph::Op::kAtan2:
      return true;
    case graph::Op::kPow: {  // small powers are products
      const ValuePtr power = value->args[1];
      return power->kind != Value::Kind::kConst || power->number < -1 || power->number > 3 ||
             power->number != static_cast<int>(power->number);
    }
    default:
      return false;
  }
}

// What search `number` has found, as `emit` finds it: of a vector that may lie in two parts, for
// each lane.
std::string FoundText(const Domain& domain, const Frame& frame, ValuePtr search, size_t number) {
  const bool parted = frame.width > 1 && domain.part % frame.width != 0 &&
                      (search->variables & BitOf(frame.lane)) != 0;
  return StrCat("values.places.template last<", number, ", ", domain.part, ">(", frame.element.name,
                parted ? StrCat(" + ", frame.lane.name) : "", ")");
}

int64_t CandidatesOf(ValuePtr search) {
  int64_t candidates = 1;
  for (const Variable& loop : search->loops) candidates *= loop.range.high + 1;
  return candidates;
}

struct Bodies {
  std::string members, load, emit;
};

Bodies Generate(const GroupContext& context, const Kernel& kernel,
                const std::vector<Parameter>& parameters, const std::string& index_type) {
  const Frame& frame = kernel.frame;
  Dialect dialect = MakeDialect(context, kernel, parameters, index_type);
  dialect.one_sum = true;
  std::vector<ValuePtr> early;
  for (ValuePtr load : LoadsOf(kernel)) {
    if (IsEarly(kernel, load)) early.push_back(load);
  }
  Text members;
  Emitter load(dialect, BitOf(frame.element));
  Emitter emit(dialect, BitOf(frame.element));
  const std::vector<ValuePtr> searches = SearchesOf(*context.domain, kernel);
  for (size_t k = 0; k < searches.size(); ++k)
    emit.Bind(searches[k], FoundText(*context.domain, frame, searches[k], k));
  if (!searches.empty()) members.Line("ws::Places<Index> places;");
  std::vector<ValuePtr> guards;
  for (ValuePtr value : early) guards.insert(guards.end(), value->args.begin(), value->args.end());
  load.Expect(guards);
  int number = 0;
  std::vector<std::pair<ValuePtr, std::string>> lanes;
  for (ValuePtr value : early) {
    const std::string name = StrCat("x", number++);
    const std::string type = StorageType(value->type);
    const Shape shape = ShapeOf(kernel, value);
    const int sharing = shape == Shape::kShared ? SharedLanesOf(value->index, frame).lanes : 1;
    const int count = shape == Shape::kScalar ? 1 : frame.width / sharing;
    const bool array = shape != Shape::kScalar;
    members.Line(StrCat(type, " ", name, array ? StrCat("[", count, "]") : "", ";"));
    const std::string at = sharing > 1 ? StrCat("[j / ", sharing, "]") : array ? "[j]" : "";
    emit.Bind(value, ToRegister(value->type, StrCat("values.", name, at)));
    if (shape == Shape::kVector) {
      load.LoadVector(value, LaneBase(value->index, frame), count, StrCat("values.", name));
    } else if (shape == Shape::kShared) {
      load.LoadVector(value, SharedLanesOf(value->index, frame).base, count,
                      StrCat("values.", name));
    } else if (shape == Shape::kLanes) {
      lanes.push_back({value, StrCat("values.", name, "[j]")});
    } else {
      const std::string element = load.Element(value->tensor, value->index);
      load.Line(StrCat("values.", name, " = ",
                       value->args.empty() ? element
                                           : StrCat(load.Use(value->args[0]), " ? ", element, " : ",
                                                    Zero(value->type)),
                       ";"));
    }
  }
  if (!lanes.empty()) {
    OpenLanes(load, frame);
    for (const auto& [value, name] : lanes) {
      const std::string guard = value->args.empty() ? "" : load.Use(value->args[0]);
      const std::string element = load.Element(value->tensor, value->index);
      load.Line(StrCat(
          name, " = ",
          guard.empty() ? element : StrCat(guard, " ? ", element, " : ", Zero(value->type)), ";"));
    }
    CloseLanes(load, frame);
  }

  std::vector<const Kernel::Root*> roots;
  for (const Kernel::Root& root : kernel.roots) roots.push_back(&root);
  const std::vector<ValuePtr> targets = TargetsOf(kernel);
  emit.Expect(targets);
  const uint64_t lane = frame.width > 1 ? BitOf(frame.lane) : 0;
  if (std::all_of(roots.begin(), roots.end(), [lane](const Kernel::Root* root) {
        return root->condition != nullptr && (root->condition->variables & lane) == 0;
      })) {
    std::vector<std::string> where;
    for (const Kernel::Root* root : roots) where.push_back(WhereWritten(emit, *root));
    emit.Line(StrCat("if (!(", absl::StrJoin(where, " || "), ")) return;"));
  }
  LoadContiguous(emit, kernel, targets, [&](ValuePtr value, const Index& base, int width) {
    return (value->variables & ~(BitOf(frame.element) | BitOf(frame.lane))) == 0 &&
           base.multiple() % width == 0;
  });
  StoreRoots(emit, dialect, context, kernel, roots,
             [&](const Index& address) { return IsNeighbours(address, frame); });
  return {members.str(), load.Finish(), emit.Finish()};
}

absl::StatusOr<Kernel> BuildElements(const Analysis& group, const Domain& domain, int width) {
  return BuildKernel(group.graph(), domain, group.in_memory(), ElementFrame(domain, width));
}

// The functions that searches are made of (map.cuh). `kernel`: of single elements.
std::string SearchText(const GroupContext& context, const Kernel& kernel,
                       const std::vector<Parameter>& parameters, const std::string& index_type) {
  const Domain& domain = *context.domain;
  const std::vector<ValuePtr> searches = SearchesOf(domain, kernel);
  if (searches.empty()) return "";
  const Dialect dialect = MakeDialect(context, kernel, parameters, index_type);
  Text counts, bodies;
  for (size_t k = 0; k < searches.size(); ++k) {
    const std::vector<Variable>& loops = searches[k]->loops;
    uint64_t known = BitOf(kernel.frame.element);
    for (const Variable& loop : loops) known |= BitOf(loop);
    Emitter body(dialect, known);
    int64_t inside = 1;  // candidates along the loops behind
    for (size_t l = loops.size(); l-- > 0;) {
      const int64_t extent = loops[l].range.high + 1;
      body.Line(StrCat("const Index ", loops[l].name, " = c / ", inside, " % ", extent, ";"));
      inside *= extent;
    }
    body.Expect({searches[k]->args[0]});
    const std::string number = body.Use(searches[k]->args[0]);
    body.Line(StrCat("return ", number, ";"));
    counts.Line(StrCat("if constexpr (K == ", k, ") return ", CandidatesOf(searches[k]), ";"));
    bodies.Line(StrCat("if constexpr (K == ", k, ") {"));
    bodies.Append(body.Finish());
    bodies.Line("}");
  }
  Text text;
  text.Line(StrCat("static constexpr int kPart = ", domain.part, ";"));
  text.Line("template <int K>");
  text.Line("static constexpr WS_DEVICE int candidates() {");
  text.Append(counts.str());
  text.Line("}");
  text.Line("template <int K>");
  text.Line("WS_DEVICE long long candidate(Index i, Index c) const {");
  text.Append(bodies.str());
  text.Line("}");
  return text.str();
}

// Of a tensor that is overwritten in place (of a state, or of a copy of it), elements that stay as
// they are need not be touched. Only where all lanes agree about it.
void KeepInPlace(Kernel::Root& root, int state, const Frame& frame) {
  const ValuePtr value = root.value;
  if (state < 0 || root.condition != nullptr) return;
  if (value->kind != Value::Kind::kOp || value->op != graph::Op::kSelect) return;
  if (frame.width > 1 && (value->args[0]->variables & BitOf(frame.lane)) != 0) return;
  for (int written : {1, 2}) {
    const ValuePtr other = value->args[3 - written];
    if (other->kind != Value::Kind::kLoad || other->tensor != state ||
        !(other->index == root.address))
      continue;
    root.condition = value->args[0];
    root.where = written == 1;
    root.value = value->args[written];
    return;
  }
}

int WidthOf(const Analysis& group, const Domain& domain, int bytes) {
  int width = WidthFor(group, bytes);
  while (width > 1 && domain.kept() < width) width /= 2;
  return width;
}

bool IsScattered(const Kernel& kernel, ValuePtr load) {
  if (!IsEarly(kernel, load)) return true;
  const Shape shape = ShapeOf(kernel, load);
  return shape == Shape::kLanes || shape == Shape::kShared;
}

// What defaults and usage follow from.
struct Form {
  absl::Status status;
  int width = 1, streams = 0, vectors = 0;  // of the streams those that are read in whole vectors
  int64_t stream_bytes = 0, vector_bytes = 0;  // of an element of all; of a vector of each of those
  bool scattered = false;           // elements that are not neighbours, or that another load finds
  bool heavy = false;               // exponentials and the like
  double accesses = 0;              // of memory, an element: whole vectors count once
  std::vector<int64_t> candidates;  // of each search
};

double AccessesOf(const Kernel& kernel) {
  const int width = kernel.frame.width;
  double accesses = 0;
  for (ValuePtr load : LoadsOf(kernel)) {
    const Shape shape = IsEarly(kernel, load) ? ShapeOf(kernel, load) : Shape::kLanes;
    accesses += shape == Shape::kLanes ? 1.0 : 1.0 / width;
  }
  for (const Kernel::Root& root : kernel.roots) {
    accesses += IsNeighbours(root.address, kernel.frame) ? 1.0 / width : 1.0;
  }
  return accesses;
}

Form MakeForm(const Analysis& group, const Domain& domain, int bytes) {
  Form form;
  form.width = WidthOf(group, domain, bytes);
  auto kernel = BuildElements(group, domain, form.width);
  form.status = kernel.status();
  if (!kernel.ok()) return form;
  form.accesses = AccessesOf(*kernel);
  for (ValuePtr search : SearchesOf(domain, *kernel))
    form.candidates.push_back(CandidatesOf(search));
  for (ValuePtr load : LoadsOf(*kernel)) {
    form.scattered = form.scattered || IsScattered(*kernel, load);
    if (!IsEarly(*kernel, load) || load->variables == 0) continue;
    const int64_t size = graph::SizeOf(load->type);
    ++form.streams;
    form.stream_bytes += size;
    if (ShapeOf(*kernel, load) != Shape::kVector) continue;
    ++form.vectors;
    form.vector_bytes += form.width * size;
  }
  for (ValuePtr value : kernel->values->Closure(TargetsOf(*kernel)))
    form.heavy = form.heavy || IsHeavy(value);
  return form;
}

const Form& FormOf(const Analysis& group, const Domain& domain, int bytes) {
  return group.Derived<Form>(StrCat("map ", bytes),
                             std::function<Form()>([&] { return MakeForm(group, domain, bytes); }));
}

// Elements that a thread combines in its longest loop.
int64_t ReducedBy(const Analysis& group, const Domain& domain) {
  const int node = group.largest_reduce();
  const auto& searches = domain.searches;
  if (node < 0 || std::find(searches.begin(), searches.end(), node) != searches.end()) return 1;
  return Product(group.graph().nodes[node].reduce_axes);
}

// The widest vectors, unless narrower ones take fewer accesses: rows that whole ones would cross.
int BytesFor(const Analysis& group, const Domain& domain) {
  if (ReducedBy(group, domain) > 1) return 1;
  constexpr double kFewer = 0.9;
  int best = 16;
  for (int bytes : {8, 4}) {
    const Form& form = FormOf(group, domain, best);
    if (!form.status.ok() || form.width < 2) break;
    if (FormOf(group, domain, bytes).accesses < kFewer * form.accesses) best = bytes;
  }
  return best;
}

// Words of shared memory that searches of a tile take: for each part of its elements, and for one
// that it begins in.
int64_t SearchBytes(const Domain& domain, const Form& form, const v1::MapKnobs& map) {
  if (form.candidates.empty()) return 0;
  const int64_t tile = int64_t{form.width} * map.unroll() * map.block_threads();
  return static_cast<int64_t>(sizeof(int) * form.candidates.size()) * (tile / domain.part + 2);
}

class Map : public Skeleton {
 public:
  SkeletonCase id() const override { return v1::Group::kMap; }
  const char* header(const v1::Group&, const Target&) const override { return "map"; }

  absl::StatusOr<const Domain*> Matches(const Analysis& group) const override {
    if (group.places().ok()) return &*group.places();
    if (!group.elements().ok()) return group.elements().status();
    return &*group.elements();
  }

  double Suits(const Analysis& group, const Target&) const override {
    if (group.places().ok()) return 1;
    if (group.largest_reduce() < 0) return 0.5;
    const auto& stages = group.stages();
    return !stages.ok() || WalkOf(*stages) == Walk::kAlone ? 0.5 : 0.0;
  }

  absl::StatusOr<v1::Group> Resolve(const Analysis& group, const v1::Group& knobs,
                                    const Target& target) const override {
    auto domain = Matches(group);
    if (!domain.ok()) return domain.status();
    v1::Group resolved = knobs;
    v1::MapKnobs& map = *resolved.mutable_map();
    if (map.vector_bytes() == 0) map.set_vector_bytes(BytesFor(group, **domain));
    const Form& form = FormOf(group, **domain, map.vector_bytes());
    if (!form.status.ok()) return form.status;
    // A block writes 4 KiB, and what is in flight lies close together: larger tiles were measured
    // to cost 3 % of the bandwidth, and blocks that stay and go round more. Where threads compute
    // they have two vectors, half as many of them, so that one is waited for while the other is
    // worked on. So have those that read less than they write at a time, or what other reads find.
    const bool alone = ReducedBy(group, **domain) == 1, busy = form.heavy && alone;
    const bool little =
        alone && form.width > 1 && (form.scattered || form.vector_bytes < kFullVector);
    if (map.block_threads() == 0) map.set_block_threads(busy ? 128 : 256);
    if (map.unroll() == 0) {
      int unroll = busy ? std::clamp(2 / std::max(1, form.vectors), 1, 2) : little ? 2 : 1;
      // Small tensors: rather more blocks.
      const int64_t vectors = (*domain)->kept() / std::max(1, form.width);
      while (unroll > 1 && vectors / (unroll * map.block_threads()) < 4 * target.sm_count)
        unroll /= 2;
      map.set_unroll(PowerOfTwoAtLeast(unroll));
    }
    if (resolved.precision().accumulator() == v1::ACCUMULATOR_AUTO) {
      resolved.mutable_precision()->set_accumulator(
          AccumulatorFor(group, **domain, ReducedBy(group, **domain)));
    }
    Checker check(group.name());
    CheckResidency("map", map.block_threads(), map.blocks_per_sm(),
                   SearchBytes(**domain, form, map), "map.block_threads or map.unroll", target,
                   check);
    if (!check.status().ok()) return check.status();
    return resolved;
  }

  absl::StatusOr<Usage> Use(const Analysis& group, const v1::Group& resolved,
                            const Target& target) const override {
    auto domain = Matches(group);
    if (!domain.ok()) return domain.status();
    const v1::MapKnobs& map = resolved.map();
    const Form& form = FormOf(group, **domain, map.vector_bytes());
    if (!form.status.ok()) return form.status;
    Usage use;
    for (const RootPlace& root : (*domain)->roots) use.launches += root.base < 0 && root.scatter;
    use.reads_first = true;
    use.threads = map.block_threads();
    use.blocks_per_sm = map.blocks_per_sm();
    use.blocks = GridOf((*domain)->kept(), form.width, map, target);
    use.streams = form.streams;
    use.stream_bytes = form.stream_bytes;
    use.width = form.width;
    use.shared_bytes = SearchBytes(**domain, form, map);
    constexpr double kCandidateSteps = 10;
    for (int64_t candidates : form.candidates) {
      use.operations += kCandidateSteps * static_cast<double>(candidates) *
                        static_cast<double>((*domain)->kept()) /
                        static_cast<double>((*domain)->part);
    }
    return use;
  }

  std::vector<Layout> Layouts(const Analysis&, const v1::Group&,
                              const Target& target) const override {
    return ThreadLayouts(target);
  }

  absl::Status Emit(const Analysis& group, const v1::Group& resolved, const Target& target,
                    KernelWriter& writer) const override {
    auto domain = Matches(group);
    if (!domain.ok()) return domain.status();
    const v1::MapKnobs& map = resolved.map();
    const GroupContext context = ContextOf(group, **domain, StyleOf(resolved, map), writer.glue());
    const int width = WidthOf(group, **domain, map.vector_bytes());
    const int64_t count = (*domain)->kept();
    if (absl::Status s = WriteStruct(group, context, width, writer); !s.ok()) return s;
    for (const RootPlace& root : (*domain)->roots) {
      if (root.base >= 0) writer.Copy(root.base, root.tensor);
      if (root.base < 0 && root.scatter) writer.FillWithMinusOne(root.tensor);
    }
    const Form& form = FormOf(group, **domain, map.vector_bytes());
    const bool persistent = map.blocks_per_sm() > 0;
    const KernelShape shape{map.block_threads(), map.blocks_per_sm(),
                            GridOf(count, width, map, target), SearchBytes(**domain, form, map)};
    return writer
        .Kernel("", shape, {},
                StrCat("ws::map<", writer.glue(), ", ", width, ", ", map.unroll(), ", ",
                       persistent ? "true" : "false", ", ", map.reverse() ? "true" : "false",
                       form.candidates.empty() ? "" : StrCat(", ", form.candidates.size()), ">(g, ",
                       count, ")"))
        .status();
  }

 private:
  static int64_t GridOf(int64_t count, int width, const v1::MapKnobs& map, const Target& target) {
    const int64_t tiles =
        std::max<int64_t>(1, CeilDiv(count / width, int64_t{map.block_threads()} * map.unroll()));
    const int64_t resident = map.blocks_per_sm();
    return resident > 0 ? std::min(tiles, resident * target.sm_count) : tiles;
  }

  static absl::Status WriteStruct(const Analysis& group, const GroupContext& context, int width,
                                  KernelWriter& writer) {
    const Domain& domain = *context.domain;
    auto wide = BuildElements(group, domain, width);
    if (!wide.ok()) return wide.status();
    auto narrow = BuildElements(group, domain, 1);
    if (!narrow.ok()) return narrow.status();
    for (size_t r = 0; r < wide->roots.size(); ++r) {
      const int base = domain.roots[r].base;
      const int state = base >= 0 ? base : writer.StateOf(wide->roots[r].tensor);
      KeepInPlace(wide->roots[r], state, wide->frame);
      if (wide->roots[r].condition != nullptr) KeepInPlace(narrow->roots[r], state, narrow->frame);
    }
    const std::vector<Parameter> parameters = ParametersOf(context, {&*wide, &*narrow});
    const bool fits = FitsInt(group.graph(), *wide) && FitsInt(group.graph(), *narrow) &&
                      domain.kept() <= kMaxIntPosition;
    const std::string index_type = fits ? "int" : "long long";
    const Bodies bodies = Generate(context, *wide, parameters, index_type);
    const bool both = width > 1;
    Bodies single;
    if (both) single = Generate(context, *narrow, parameters, index_type);

    Text text;
    text.Open(StrCat("struct ", context.name, " {"));
    text.Line(StrCat("using Index = ", index_type, ";"));
    for (const Parameter& p : parameters) text.Line(StrCat(p.type, " ", p.name, ";"));
    text.Line("template <int V, class = void> struct Values;");
    text.Line(StrCat("template <class Unused> struct Values<", width, ", Unused> {"));
    text.Append(bodies.members);
    text.Line("};");
    if (both) {
      text.Line("template <class Unused> struct Values<1, Unused> {");
      text.Append(single.members);
      text.Line("};");
    }
    text.Append(SearchText(context, *narrow, parameters, index_type));
    for (bool load : {true, false}) {
      text.Line("template <int V>");
      text.Line(StrCat("WS_DEVICE void ", load ? "load" : "emit", "(Index i, ",
                       load ? "" : "const ", "Values<V>& values) const {"));
      text.Append(
          ByWidth(width, load ? bodies.load : bodies.emit, load ? single.load : single.emit));
      text.Line("}");
    }
    text.Close("};");
    writer.Struct(text.str(), parameters);
    return absl::OkStatus();
  }
};

}  // namespace

const Skeleton* MapSkeleton() {
  static const Map skeleton;
  return &skeleton;
}

}  // namespace warpsmith::codegen
