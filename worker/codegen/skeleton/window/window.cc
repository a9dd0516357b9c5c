// Glue for overlapping windows (pooling): the map skeleton with strips of outputs.
//
// A thread computes `window_outputs` consecutive outputs along the outermost axis that the window
// moves over, and V neighbours along the innermost one. All of it is written out; what two windows
// share (a row of the input reduced over the inner window axes, a loaded element) is one value of
// the kernel, so it is loaded and reduced once. Strips whose rows are all inside the input need no
// bounds tests along the strip; the last strip is moved back to end with the tensor.
#include "worker/codegen/skeleton/window/window.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "absl/strings/str_cat.h"

namespace warpsmith::codegen {
namespace {

using absl::StrCat;

// Loads that one thread may write out.
constexpr int64_t kMaxStripElements = 4096;
// Loads saved by a strip, from which on it is worth its registers.
constexpr double kWorthSharing = 1.25;
// Chunks of a warp that lanes share elements in.
constexpr int kLaneChunks = 4;

// How a strip index becomes output coordinates.
struct Strips {
  std::vector<int64_t> shape;  // of the output
  int axis = 0;                // along which a strip runs
  StripAxis strip;
  int width = 1;  // V
  int64_t before = 1, between = 1, blocks = 1;

  bool inner() const { return axis + 1 < static_cast<int>(shape.size()); }
  int64_t last() const { return shape.back(); }
};

Strips MakeStrips(const std::vector<int64_t>& shape, int axis, int outputs, int64_t step,
                  int width) {
  Strips s{shape, axis, StripAxis::Of(shape[axis], outputs, step), width};
  for (int a = 0; a < axis; ++a) s.before *= shape[a];
  for (int a = axis + 1; a + 1 < static_cast<int>(shape.size()); ++a) s.between *= shape[a];
  if (s.inner()) s.blocks = (shape.back() + width - 1) / width;
  return s;
}

struct StripVariables {
  Variable before, strip, between, last;
};

// Values of all outputs of a strip. `interior`: range of the strip's first output, if narrowed.
absl::StatusOr<Kernel> BuildStrip(const GroupContext& context, const Strips& s,
                                  const Range* interior, StripVariables& v) {
  const graph::Graph& graph = *context.graph;
  Kernel kernel;
  kernel.values = std::make_unique<Values>();
  Values& values = *kernel.values;
  v.before = values.NewVariable("n", {0, s.before - 1});
  v.strip = values.NewVariable("a", interior != nullptr ? *interior : s.strip.range());
  v.between = values.NewVariable("m", {0, s.between - 1});
  v.last = values.NewVariable("w", {0, s.inner() ? s.last() - s.width : 0},
                              s.inner() && s.last() % s.width == 0 ? s.width : 1);
  TensorAccess access;
  access.in_memory = context.in_memory;
  access.write_out = true;
  Inliner inliner(graph, values, access);
  const std::vector<int64_t> outer(s.shape.begin(), s.shape.begin() + s.axis);
  const std::vector<Index> before = Unflatten(Index::Of(v.before), outer);
  std::vector<Index> between;
  if (s.inner()) {
    between = Unflatten(Index::Of(v.between),
                        std::vector<int64_t>(s.shape.begin() + s.axis + 1, s.shape.end() - 1));
  }
  for (int t = 0; t < s.strip.outputs; ++t) {
    for (int tensor : context.space->roots) {
      for (int j = 0; j < s.width; ++j) {
        std::vector<Index> at = before;
        at.push_back(Index::Of(v.strip) + Index(t * s.strip.step));
        at.insert(at.end(), between.begin(), between.end());
        if (s.inner()) at.push_back(Index::Of(v.last) + Index(j));
        const std::vector<int64_t>& shape = graph.tensors[tensor].shape;
        const std::vector<Index> matched = MatchAxes(at, s.shape, shape);
        auto value = inliner.Element(tensor, matched);
        if (!value.ok()) return value.status();
        kernel.roots.push_back({tensor, RootPlan::Kind::kElement, *value, Flatten(matched, shape)});
      }
    }
  }
  return kernel;
}

// Aligned vectors that lie within a row of their tensor and hold several of the elements that a
// thread loads: one access instead of several. `known`: variables that the thread's strip gives;
// what a loop of the thread loads is not for these.
class SharedVectors {
 public:
  SharedVectors(const graph::Graph& graph, const Kernel& kernel, uint64_t known) : kernel_(kernel) {
    for (ValuePtr load : LoadsOf(kernel)) {
      const graph::Tensor& tensor = graph.tensors[load->tensor];
      if (tensor.shape.empty() || load->index.has_opaque()) continue;
      if ((load->variables & ~known) != 0) continue;
      for (int width : {4, 2}) {
        if (!FitsVector(tensor.type, width)) continue;
        // Where the load's vector begins.
        const Index moving = load->index - Index(load->index.constant());
        if (moving.multiple() % width != 0) continue;
        const int64_t past = ((load->index.constant() % width) + width) % width;
        const Index first = load->index - Index(past);
        const Index column = FloorMod(first, tensor.shape.back());
        if (!(FloorMod(first + Index(width - 1), tensor.shape.back()) == column + Index(width - 1)))
          continue;
        const std::string key =
            absl::StrCat(load->tensor, "@", first.key(), "?",
                         load->args.empty() ? -1 : load->args[0]->id, "x", width);
        Vector& vector = vectors_[key];
        vector.first = first;
        vector.width = width;
        vector.members.push_back({load, past});
      }
    }
  }

  // Loads the vectors that the target needs and that are not there yet.
  void Load(Emitter& emitter, ValuePtr target, const Dialect& dialect) {
    std::set<ValuePtr> needed;
    for (ValuePtr value : kernel_.values->Closure({target})) needed.insert(value);
    for (int width : {4, 2}) {
      for (auto& [key, vector] : vectors_) {
        if (vector.width != width) continue;
        int open = 0;
        bool wanted = false;
        for (const auto& [load, lane] : vector.members) {
          if (emitter.IsBound(load)) continue;
          ++open;
          wanted = wanted || needed.count(load) > 0;
        }
        if (!wanted || open < 2) continue;
        const ValuePtr load = vector.members[0].first;
        const std::string array = emitter.NewName("v"), type = StorageType(load->type);
        emitter.Line(
            StrCat(type, " ", array, "[", width, "]", load->args.empty() ? ";" : " = {};"));
        const std::string guard = load->args.empty() ? "" : emitter.Use(load->args[0]);
        const std::string call =
            StrCat("ws::load<", width, ", ", type, ", ", dialect.load_hint, ">(",
                   emitter.Address(load->tensor, vector.first), ", ", array, ");");
        emitter.Line(guard.empty() ? call : StrCat("if (", guard, ") ", call));
        for (const auto& [member, lane] : vector.members) {
          if (!emitter.IsBound(member)) {
            emitter.Bind(member, ToRegister(load->type, StrCat(array, "[", lane, "]")));
          }
        }
      }
    }
  }

 private:
  struct Vector {
    Index first;
    int width = 1;
    std::vector<std::pair<ValuePtr, int64_t>> members;  // and their lanes
  };
  const Kernel& kernel_;
  std::map<std::string, Vector> vectors_;
};

void EmitStrip(Emitter& emitter, const Dialect& dialect, const GroupContext& context,
               const Kernel& kernel, const Strips& s, uint64_t known) {
  std::vector<ValuePtr> targets = TargetsOf(kernel);
  emitter.Expect(targets);
  SharedVectors vectors(*context.graph, kernel, known);
  for (size_t r = 0; r < kernel.roots.size(); r += s.width) {
    for (int j = 0; j < s.width; ++j) vectors.Load(emitter, kernel.roots[r + j].value, dialect);
    const Kernel::Root& first = kernel.roots[r];
    const graph::DType type = context.graph->tensors[first.tensor].type;
    const bool vector =
        s.width > 1 && FitsVector(type, s.width) && first.address.multiple() % s.width == 0;
    if (vector) {
      const std::string array = emitter.NewName("y");
      std::string elements;
      for (int j = 0; j < s.width; ++j) {
        absl::StrAppend(&elements, j == 0 ? "" : ", ",
                        ToMemory(type, emitter.Use(kernel.roots[r + j].value)));
      }
      emitter.Line(
          StrCat("const ", StorageType(type), " ", array, "[", s.width, "] = {", elements, "};"));
      emitter.Line(StrCat("ws::store<", s.width, ", ", StorageType(type), ", ", dialect.store_hint,
                          ">(", emitter.Address(first.tensor, first.address), ", ", array, ");"));
      continue;
    }
    for (int j = 0; j < s.width; ++j) {
      const Kernel::Root& root = kernel.roots[r + j];
      const std::string value = ToMemory(type, emitter.Use(root.value));
      emitter.Line(StrCat(emitter.Element(root.tensor, root.address), " = ", value, ";"));
    }
  }
}

// Which variables of a node stand in each index of its loads.
void ForEachIndex(const graph::Node& node, const std::function<void(const std::vector<bool>&)>& f) {
  std::function<void(const graph::ExprPtr&, std::vector<bool>&)> collect =
      [&](const graph::ExprPtr& e, std::vector<bool>& seen) {
        if (e->op == graph::Op::kIndex) seen[e->var] = true;
        for (const graph::ExprPtr& arg : e->args) collect(arg, seen);
      };
  std::function<void(const graph::ExprPtr&)> visit = [&](const graph::ExprPtr& e) {
    if (e->op == graph::Op::kLoad) {
      for (const graph::ExprPtr& index : e->args) {
        std::vector<bool> seen(node.axes.size() + node.reduce_axes.size());
        collect(index, seen);
        f(seen);
      }
    }
    for (const graph::ExprPtr& arg : e->args) visit(arg);
  };
  visit(node.value);
}

}  // namespace

StripAxis StripAxis::Of(int64_t extent, int outputs, int64_t step) {
  StripAxis axis{extent, static_cast<int>(std::min<int64_t>(outputs, extent)), step};
  if (extent < step * axis.outputs) axis.step = 1;
  return axis;
}

int64_t StripAxis::strips() const {
  return step * ((extent + step * outputs - 1) / (step * outputs));
}

std::vector<std::string> StripAxis::Lines(const std::string& strip,
                                          const std::string& first) const {
  const int64_t block = step * outputs, last = extent - block;
  if (block == 1) return {StrCat("const Index ", first, " = ", strip, ";")};
  const std::string number = step == 1 ? strip : StrCat(strip, " / ", step);
  std::vector<std::string> lines = {
      StrCat("const Index ", first, "_block = ", number, " * ", block, ";")};
  lines.push_back(StrCat("const Index ", first, " = (", first, "_block < ", last, " ? ", first,
                         "_block : ", last, ")", step == 1 ? "" : StrCat(" + ", strip, " % ", step),
                         ";"));
  return lines;
}

bool FindLoads(const GroupContext& context, const graph::Node& node, NodeLoads& found) {
  std::vector<Index> env;
  for (const auto* axes : {&node.axes, &node.reduce_axes}) {
    for (const graph::Axis& axis : *axes) {
      found.variables.push_back(found.values.NewVariable(axis.name, {0, axis.extent - 1}));
      env.push_back(Index::Of(found.variables.back()));
    }
  }
  TensorAccess access;
  access.in_memory = context.in_memory;
  Inliner inliner(*context.graph, found.values, access);
  auto value = inliner.Body(node, env);
  if (!value.ok()) return false;
  for (ValuePtr load : found.values.Closure({*value})) {
    if (load->kind == Value::Kind::kLoad) found.loads.push_back(load);
  }
  return true;
}

int64_t StepOf(const GroupContext& context, const graph::Node& node, int axis) {
  NodeLoads found;
  if (!FindLoads(context, node, found)) return 1;
  for (ValuePtr load : found.loads) {
    const int64_t stride = std::abs(load->index.CoefficientOf(found.variables[axis]));
    for (int tap : TapsOf(node, axis)) {
      const Variable& variable = found.variables[node.axes.size() + tap];
      const int64_t dilation = std::abs(load->index.CoefficientOf(variable));
      if (stride > 0 && dilation > 0) return dilation / std::gcd(stride, dilation);
    }
  }
  return 1;
}

std::vector<int> TapsOf(const graph::Node& node, int axis) {
  std::vector<bool> mixed(node.reduce_axes.size());
  ForEachIndex(node, [&](const std::vector<bool>& seen) {
    for (size_t r = 0; r < mixed.size(); ++r) {
      if (seen[axis] && seen[node.axes.size() + r]) mixed[r] = true;
    }
  });
  std::vector<int> taps;
  for (size_t r = 0; r < mixed.size(); ++r) {
    if (mixed[r]) taps.push_back(static_cast<int>(r));
  }
  return taps;
}

std::vector<int> WindowAxes(const graph::Node& node) {
  std::vector<int> axes;
  for (int a = 0; a < static_cast<int>(node.axes.size()); ++a) {
    if (node.axes[a].extent > 1 && !TapsOf(node, a).empty()) axes.push_back(a);
  }
  return axes;
}

bool SameButOnes(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  std::vector<int64_t> x, y;
  std::copy_if(a.begin(), a.end(), std::back_inserter(x), [](int64_t e) { return e > 1; });
  std::copy_if(b.begin(), b.end(), std::back_inserter(y), [](int64_t e) { return e > 1; });
  return x == y;
}

std::vector<Index> MatchAxes(const std::vector<Index>& at, const std::vector<int64_t>& from,
                             const std::vector<int64_t>& to) {
  std::vector<Index> matched;
  size_t next = 0;
  for (int64_t extent : to) {
    if (extent == 1) {
      matched.push_back(Index(0));
      continue;
    }
    while (from[next] == 1) ++next;
    matched.push_back(at[next++]);
  }
  return matched;
}

Range InteriorOf(const Values& values, const std::vector<ValuePtr>& roots,
                 const Variable& variable) {
  Range range = variable.range;
  for (ValuePtr value : values.Closure(roots)) {
    if (value->kind != Value::Kind::kCompare || value->op != graph::Op::kLe) continue;
    const int64_t coefficient = value->index.CoefficientOf(variable);
    if (coefficient == 0 || !value->index.Without(variable).is_constant()) continue;
    const int64_t constant = value->index.constant();  // 0 <= coefficient * a + constant
    if (coefficient > 0) {
      range.low =
          std::max(range.low, constant >= 0 ? 0 : (-constant + coefficient - 1) / coefficient);
    } else if (constant >= 0) {
      range.high = std::min(range.high, constant / -coefficient);
    } else {
      range.high = -1;
    }
  }
  return range;
}

std::string WindowStruct(const GroupContext& context, const GroupSource& source,
                         const std::string& body) {
  Text text;
  text.Open(StrCat("struct ", context.name, " {"));
  text.Line(StrCat("using Index = ", source.index_type, ";"));
  for (const Parameter& p : source.parameters) text.Line(StrCat(p.type, " ", p.name, ";"));
  text.Line("template <int V> struct Values {};");
  text.Line("template <int V>");
  text.Line("WS_DEVICE void load(Index, Values<V>&) const {}");
  text.Line("template <int V>");
  text.Line("WS_DEVICE void emit(Index i, const Values<V>&) const {");
  text.Append(body);
  text.Line("}");
  text.Close("};");
  return text.str();
}

namespace {

// Outputs of a strip that share enough: 1 where windows hardly overlap along the strip.
int GoodStrip(const GroupContext& context, const std::vector<int64_t>& shape, int axis,
              int64_t step, bool lanes) {
  constexpr int kOutputs = 4;
  const bool inner =
      axis + 1 < static_cast<int>(shape.size()) &&
      std::any_of(shape.begin() + axis + 1, shape.end(), [](int64_t e) { return e > 1; });
  if (!inner || shape[axis] < kOutputs)
    return 1;  // strips along the lanes' own axis scatter accesses
  StripVariables v;
  auto one = BuildStrip(context, MakeStrips(shape, axis, 1, 1, 1), nullptr, v);
  auto some = BuildStrip(context, MakeStrips(shape, axis, kOutputs, step, 1), nullptr, v);
  if (!one.ok() || !some.ok()) return 1;
  const double gain = static_cast<double>(kOutputs) * LoadsOf(*one).size() / LoadsOf(*some).size();
  if (gain < kWorthSharing) return 1;
  return lanes ? 2 * kOutputs : kOutputs;
}

// Neighbours along the contiguous axis that a thread had better take: two where the window moves by
// several elements, so that what lies between is loaded by vectors.
int GoodWidth(const GroupContext& context, const graph::Node& node) {
  const int last = static_cast<int>(node.axes.size()) - 1;
  if (last < 1 || node.axes[last].extent % 2 != 0) return 1;
  NodeLoads found;
  if (!FindLoads(context, node, found)) return 1;
  for (ValuePtr load : found.loads) {
    if (load->index.CoefficientOf(found.variables[last]) > 1 && FitsVector(load->type, 4)) return 2;
  }
  return 1;
}

}  // namespace

absl::StatusOr<GroupSource> GenerateWindow(const GroupContext& context) {
  const graph::Graph& graph = *context.graph;
  const Space& space = *context.space;
  const int outputs = std::max(1, context.knobs->compute().window_outputs());
  int width = WidthFor(context, context.knobs->memory().vector_bytes());
  const graph::Node& node = graph.nodes[space.primary];
  std::vector<int64_t> shape;
  for (const graph::Axis& axis : node.axes) shape.push_back(axis.extent);
  bool same = space.window && !shape.empty();
  for (int root : space.roots) same = same && SameButOnes(graph.tensors[root].shape, shape);
  const std::vector<int> axes = same ? WindowAxes(node) : std::vector<int>();
  int64_t elements = 1;
  for (const graph::Axis& axis : node.reduce_axes) elements *= axis.extent;
  const bool indexed =
      node.combiner == graph::Combiner::kArgMax || node.combiner == graph::Combiner::kArgMin;
  const bool possible = !axes.empty() && !indexed && elements <= kMaxWrittenOut;
  if (!possible || (outputs == 1 && width == 1)) {
    auto source = GenerateMap(context);
    if (!source.ok() || !possible) return source;
    source->strips = true;
    source->lanes = GenerateLanes(context, 1, 1).ok();
    const int axis = source->lanes ? WindowAxes(node).front() : axes[0];
    source->good_strip =
        GoodStrip(context, shape, axis, StepOf(context, node, axis), source->lanes);
    source->good_width = source->lanes ? kLaneChunks : GoodWidth(context, node);
    return source;
  }
  if (width > 1) {
    auto lanes = GenerateLanes(context, outputs, width);
    if (lanes.status().code() != absl::StatusCode::kFailedPrecondition) return lanes;
  }
  int axis = axes[0];
  // Along the contiguous axis alone there are neighbours, no strips.
  if (axis + 1 == static_cast<int>(shape.size()) && width > 1 && outputs == 1 && axis > 0) --axis;
  width = axis + 1 < static_cast<int>(shape.size())
              ? static_cast<int>(std::min<int64_t>(width, shape.back()))
              : 1;
  while (width & (width - 1)) width &= width - 1;
  const int taken = static_cast<int>(std::min<int64_t>(outputs, shape[axis]));
  if (elements * taken * width > kMaxStripElements) {
    return absl::InvalidArgumentError(
        StrCat("group '", graph.tensors[space.roots[0]].name, "': compute.window_outputs is ",
               outputs, "; a thread of ", width, " neighbours takes at most ",
               kMaxStripElements / (elements * width), " windows of ", elements, " elements"));
  }
  const Strips s = MakeStrips(shape, axis, taken, StepOf(context, node, axis), width);
  StripVariables v, vi;
  auto whole = BuildStrip(context, s, nullptr, v);
  if (!whole.ok()) return whole.status();
  const Range inside = InteriorOf(*whole->values, TargetsOf(*whole), v.strip);
  const bool split = inside.low <= inside.high &&
                     (inside.low != v.strip.range.low || inside.high != v.strip.range.high);
  absl::StatusOr<Kernel> interior = absl::InternalError("none");
  if (split) {
    interior = BuildStrip(context, s, &inside, vi);
    if (!interior.ok()) return interior.status();
  }

  GroupSource source;
  source.count = s.before * s.strip.strips() * s.between * s.blocks;
  source.emits = true;
  source.width = 1;
  source.strips = true;
  source.repeats = true;  // what ends with an axis is moved back over its neighbour
  source.parameters = ParametersOf(context, {&*whole});
  for (const Parameter& p : source.parameters) source.streams += p.written ? 0 : 1;
  source.stream_bytes = 4;
  const bool fits = FitsInt(graph, *whole) && source.count <= kMaxIntPosition;
  source.index_type = fits ? "int" : "long long";
  const Dialect dialect = MakeDialect(context, *whole, source.parameters, source.index_type);
  const uint64_t known = BitOf(v.before) | BitOf(v.strip) | BitOf(v.between) | BitOf(v.last);
  Text body;
  const std::string u = source.count <= kMaxIntPosition ? "unsigned" : "unsigned long long";
  // The strip's place, from the last axis to the first.
  body.Line(StrCat(u, " rest = static_cast<", u, ">(i);"));
  auto digit = [&](const std::string& name, int64_t extent) {
    body.Line(StrCat("const Index ", name, " = static_cast<Index>(rest % ", extent, "u);"));
    body.Line(StrCat("rest /= ", extent, "u;"));
  };
  auto clamped = [&](const std::string& name, int64_t step, int64_t limit) {
    if (step == 1) {
      body.Line(StrCat("const Index ", name, " = ", name, "_block;"));
    } else {
      body.Line(StrCat("const Index ", name, " = ", name, "_block * ", step, " < ", limit, " ? ",
                       name, "_block * ", step, " : ", limit, ";"));
    }
  };
  if (s.inner()) {
    digit("w_block", s.blocks);
    clamped("w", s.width, s.last() - s.width);
    digit("m", s.between);
  }
  digit("strip", s.strip.strips());
  for (const std::string& line : s.strip.Lines("strip", "a")) body.Line(line);
  body.Line("const Index n = static_cast<Index>(rest);");
  auto write = [&](const Kernel& kernel) {
    Dialect own = dialect;
    own.values = kernel.values.get();
    Emitter emitter(own, known);
    EmitStrip(emitter, own, context, kernel, s, known);
    return emitter.Finish();
  };
  if (split) {
    body.Line(StrCat("if (a >= ", inside.low, " && a <= ", inside.high, ") {"));
    body.Append(write(*interior));
    body.Line("} else {");
    body.Append(write(*whole));
    body.Line("}");
  } else {
    body.Append(write(*whole));
  }

  source.text = WindowStruct(context, source, body.str());
  return source;
}

}  // namespace warpsmith::codegen
