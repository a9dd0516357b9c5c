// Glue of the map skeleton: pointwise operations, broadcasts and views, and reduces as loops of the
// thread.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "worker/codegen/skeleton/glue.h"

namespace warpsmith::codegen {
namespace {

using absl::StrCat;

// A load whose address needs no other load: all of them are issued before anything is computed.
bool IsEarly(const Kernel& kernel, ValuePtr load) {
  const Frame& frame = kernel.frame;
  const uint64_t known = BitOf(frame.element) | (frame.width > 1 ? BitOf(frame.lane) : 0);
  if ((load->variables & ~known) != 0 || load->index.has_opaque()) return false;
  return load->args.empty() || !load->args[0]->loads;
}

enum class Shape { kVector, kLanes, kScalar };  // of an early load: one access, one a lane, one

Shape ShapeOf(const Kernel& kernel, ValuePtr load) {
  const Frame& frame = kernel.frame;
  if (frame.width == 1 || (load->variables & BitOf(frame.lane)) == 0) return Shape::kScalar;
  const bool guarded_by_lane =
      !load->args.empty() && (load->args[0]->variables & BitOf(frame.lane));
  if (!guarded_by_lane && FitsVector(load->type, frame.width) && IsContiguous(load->index, frame) &&
      load->index.Without(frame.lane).multiple() % frame.width == 0) {
    return Shape::kVector;
  }
  return Shape::kLanes;
}

// A zero as it is in memory.
std::string Zero(graph::DType type) {
  const std::string storage = StorageType(type);
  return storage == ComputeType(type) ? Literal(type, 0, 0) : StrCat(storage, "{}");
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

struct Bodies {
  std::string members, load, emit;
  int streams = 0, stream_bytes = 0;
};

Bodies Generate(const GroupContext& context, const Kernel& kernel,
                const std::vector<Parameter>& parameters, const std::string& index_type) {
  const Frame& frame = kernel.frame;
  const Dialect dialect = MakeDialect(context, kernel, parameters, index_type);
  std::vector<ValuePtr> early;
  for (ValuePtr load : LoadsOf(kernel)) {
    if (IsEarly(kernel, load)) early.push_back(load);
  }
  Text members;
  Emitter load(dialect, BitOf(frame.element));
  Emitter emit(dialect, BitOf(frame.element));
  std::vector<ValuePtr> guards;
  for (ValuePtr value : early) guards.insert(guards.end(), value->args.begin(), value->args.end());
  load.Expect(guards);
  int number = 0, streams = 0, stream_bytes = 0;
  std::vector<std::pair<ValuePtr, std::string>> lanes;
  for (ValuePtr value : early) {
    const std::string name = StrCat("x", number++);
    const std::string type = StorageType(value->type);
    const Shape shape = ShapeOf(kernel, value);
    const bool array = shape != Shape::kScalar;
    members.Line(StrCat(type, " ", name, array ? StrCat("[", frame.width, "]") : "", ";"));
    emit.Bind(value, ToRegister(value->type, StrCat("values.", name, array ? "[j]" : "")));
    if (value->variables != 0) {
      ++streams;
      stream_bytes += static_cast<int>(graph::SizeOf(value->type));
    }
    if (shape == Shape::kVector) {
      load.LoadVector(value, frame.lane, frame.width, StrCat("values.", name));
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
  LoadContiguous(emit, kernel, targets, [&](ValuePtr value) {
    return (value->variables & ~(BitOf(frame.element) | BitOf(frame.lane))) == 0 &&
           value->index.Without(frame.lane).multiple() % frame.width == 0;
  });
  StoreRoots(emit, dialect, context, kernel, roots, [&](const Index& address) {
    return frame.width == 1 || address.Without(frame.lane).multiple() % frame.width == 0;
  });
  return {members.str(), load.Finish(), emit.Finish(), streams, stream_bytes};
}

}  // namespace

absl::StatusOr<GroupSource> GenerateMap(const GroupContext& context) {
  GroupSource source;
  const int64_t count = context.space->elements;
  source.count = count;
  source.width = WidthFor(context, context.knobs->memory().vector_bytes());
  while (source.width > 1 && count < source.width) source.width /= 2;
  auto wide = BuildKernel(*context.graph, *context.space, context.in_memory, source.width, true);
  if (!wide.ok()) return wide.status();
  auto narrow = BuildKernel(*context.graph, *context.space, context.in_memory, 1, true);
  if (!narrow.ok()) return narrow.status();
  source.parameters = ParametersOf(context, {&*wide, &*narrow});
  const bool fits = FitsInt(*context.graph, *wide) && FitsInt(*context.graph, *narrow) &&
                    count <= kMaxIntPosition;
  source.index_type = fits ? "int" : "long long";
  const Bodies bodies = Generate(context, *wide, source.parameters, source.index_type);
  source.streams = bodies.streams;
  source.stream_bytes = bodies.stream_bytes;
  source.emits = true;
  for (ValuePtr value : narrow->values->Closure(TargetsOf(*narrow)))
    source.heavy = source.heavy || IsHeavy(value);
  const bool both = source.width > 1;
  Bodies single;
  if (both) single = Generate(context, *narrow, source.parameters, source.index_type);

  Text text;
  text.Open(StrCat("struct ", context.name, " {"));
  text.Line(StrCat("using Index = ", source.index_type, ";"));
  for (const Parameter& p : source.parameters) text.Line(StrCat(p.type, " ", p.name, ";"));
  text.Line("template <int V, class = void> struct Values;");
  text.Line(StrCat("template <class Unused> struct Values<", source.width, ", Unused> {"));
  text.Append(bodies.members);
  text.Line("};");
  if (both) {
    text.Line("template <class Unused> struct Values<1, Unused> {");
    text.Append(single.members);
    text.Line("};");
  }
  for (bool load : {true, false}) {
    text.Line("template <int V>");
    text.Line(StrCat("WS_DEVICE void ", load ? "load" : "emit", "(Index i, ", load ? "" : "const ",
                     "Values<V>& values) const {"));
    text.Append(
        ByWidth(source.width, load ? bodies.load : bodies.emit, load ? single.load : single.emit));
    text.Line("}");
  }
  text.Close("};");
  source.text = text.str();
  return source;
}

}  // namespace warpsmith::codegen
