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
absl::StatusOr<Kernel> BuildStrip(const WindowContext& context, const Strips& s,
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
    for (const RootPlace& place : context.domain->roots) {
      const int tensor = place.tensor;
      for (int j = 0; j < s.width; ++j) {
        std::vector<Index> at = before;
        at.push_back(Index::Of(v.strip) + Index(t * s.strip.step));
        at.insert(at.end(), between.begin(), between.end());
        if (s.inner()) at.push_back(Index::Of(v.last) + Index(j));
        const std::vector<int64_t>& shape = graph.tensors[tensor].shape;
        const std::vector<Index> matched = MatchAxes(at, s.shape, shape);
        auto value = inliner.Element(tensor, matched);
        if (!value.ok()) return value.status();
        kernel.roots.push_back({tensor, Level::kPoints, *value, Flatten(matched, shape)});
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

void EmitStrip(Emitter& emitter, const Dialect& dialect, const WindowContext& context,
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
        absl::StrAppend(&elements, j == 0 ? "" : ", ", emitter.Stored(kernel.roots[r + j].value));
      }
      emitter.Line(
          StrCat("const ", StorageType(type), " ", array, "[", s.width, "] = {", elements, "};"));
      emitter.Line(StrCat("ws::store<", s.width, ", ", StorageType(type), ", ", dialect.store_hint,
                          ">(", emitter.Address(first.tensor, first.address), ", ", array, ");"));
      continue;
    }
    for (int j = 0; j < s.width; ++j) {
      const Kernel::Root& root = kernel.roots[r + j];
      const std::string value = emitter.Stored(root.value);
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

bool FindLoads(const WindowContext& context, const graph::Node& node, NodeLoads& found) {
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

int64_t StepOf(const WindowContext& context, const graph::Node& node, int axis) {
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

std::string WindowStruct(const WindowContext& context, const WindowSource& source,
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
int GoodStrip(const WindowContext& context, const std::vector<int64_t>& shape, int axis,
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
// several elements, so that what lies between is loaded by vectors, and where it moves by one, has
// three at least and pairs of words lie as vectors (of an H200, 3x3 at 0.87 of the roof for 0.78,
// 3x7 at 0.73 for 0.52; four took 1.5 to 1.9 times as long).
int GoodWidth(const WindowContext& context, const graph::Node& node) {
  constexpr int64_t kOverlapping = 3;
  const int last = static_cast<int>(node.axes.size()) - 1;
  if (last < 1 || node.axes[last].extent % 2 != 0) return 1;
  NodeLoads found;
  if (!FindLoads(context, node, found)) return 1;
  const auto lies_in_pairs = [&](ValuePtr load) {
    if (!load->args.empty() || graph::SizeOf(load->type) != 4) return false;
    const std::vector<int> taps = TapsOf(node, last);
    return std::any_of(taps.begin(), taps.end(), [&](int tap) {
      const Variable& variable = found.variables[node.axes.size() + tap];
      return node.reduce_axes[tap].extent >= kOverlapping &&
             load->index.CoefficientOf(variable) == 1 &&
             load->index.Without(found.variables[last]).Without(variable).multiple() % 2 == 0;
    });
  };
  bool some = false, all = true;
  for (ValuePtr load : found.loads) {
    const int64_t moves = load->index.CoefficientOf(found.variables[last]);
    if (moves > 1 && FitsVector(load->type, 4)) return 2;
    if (moves != 1) continue;
    some = true;
    all = all && lies_in_pairs(load);
  }
  return some && all ? 2 : 1;
}

// Which way a group's windows are written, and how many outputs and neighbours a thread has.
struct Way {
  bool lanes = false;
  int outputs = 1, width = 1;  // lanes: width is chunks
  int axis = 0;                // of a strip
};

absl::StatusOr<Way> WayOf(const WindowContext& context, const std::vector<int64_t>& shape,
                          int outputs, int width) {
  const graph::Node& node = context.graph->nodes[context.reduce];
  const int64_t elements = Product(node.reduce_axes);
  Way way;
  if (width > 1) {
    auto loads = LoadsOfLanes(context, outputs, width);
    if (loads.ok()) {
      way.lanes = true;
      way.outputs = outputs;
      way.width = width;
      return way;
    }
    if (loads.status().code() != absl::StatusCode::kFailedPrecondition) return loads.status();
  }
  const std::vector<int> axes = WindowAxes(node);
  way.axis = axes[0];
  // Along the contiguous axis alone there are neighbours, no strips.
  if (way.axis + 1 == static_cast<int>(shape.size()) && width > 1 && outputs == 1 && way.axis > 0)
    --way.axis;
  way.width = way.axis + 1 < static_cast<int>(shape.size())
                  ? static_cast<int>(std::min<int64_t>(width, shape.back()))
                  : 1;
  while (way.width & (way.width - 1)) way.width &= way.width - 1;
  way.outputs = static_cast<int>(std::min<int64_t>(outputs, shape[way.axis]));
  if (elements * way.outputs * way.width > kMaxStripElements) {
    return absl::InvalidArgumentError(StrCat(
        "window.outputs is ", outputs, "; a thread of ", way.width, " neighbours takes at most ",
        kMaxStripElements / (elements * way.width), " windows of ", elements, " elements"));
  }
  return way;
}

absl::StatusOr<WindowSource> GenerateStrips(const WindowContext& context,
                                            const std::vector<int64_t>& shape, const Way& way) {
  const graph::Graph& graph = *context.graph;
  const graph::Node& node = graph.nodes[context.reduce];
  const Strips s =
      MakeStrips(shape, way.axis, way.outputs, StepOf(context, node, way.axis), way.width);
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

  WindowSource source;
  source.count = s.before * s.strip.strips() * s.between * s.blocks;
  source.parameters = ParametersOf(context, {&*whole});
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

// Measures of the group that defaults follow from.
struct Form {
  bool lanes = false;
  int good_strip = 1;  // outputs of a strip from which sharing pays
  int good_width = 1;  // neighbouring outputs of a thread that share most
};

class Window : public Skeleton {
 public:
  SkeletonCase id() const override { return v1::Group::kWindow; }
  const char* header(const v1::Group&, const Target&) const override { return "map"; }

  absl::StatusOr<const Domain*> Matches(const Analysis& group) const override {
    if (!group.elements().ok()) return group.elements().status();
    const absl::Status none = absl::InvalidArgumentError(
        "it has no overlapping windows of at most 64 elements whose outputs are its roots");
    if (group.largest_reduce() < 0) return none;
    const graph::Node& node = group.graph().nodes[group.largest_reduce()];
    const std::vector<int64_t> shape = ExtentsOf(node.axes);
    bool fits = !shape.empty() && node.combiner != graph::Combiner::kArgMax &&
                node.combiner != graph::Combiner::kArgMin &&
                Product(node.reduce_axes) <= kMaxWrittenOut && !WindowAxes(node).empty();
    for (int root : group.roots())
      fits = fits && SameButOnes(group.graph().tensors[root].shape, shape);
    if (!fits) return none;
    return &*group.elements();
  }

  double Suits(const Analysis& group, const Target&) const override {
    const auto& stages = group.stages();
    if (stages.ok() && WalkOf(*stages) != Walk::kAlone) return 0.1;
    const Form& form = FormOf(group);
    return form.good_strip > 1 || form.good_width > 1 ? 0.8 : 0.3;
  }

  absl::StatusOr<v1::Group> Resolve(const Analysis& group, const v1::Group& knobs,
                                    const Target& target) const override {
    auto domain = Matches(group);
    if (!domain.ok()) return domain.status();
    v1::Group resolved = knobs;
    v1::WindowKnobs& window = *resolved.mutable_window();
    const Form& form = FormOf(group);
    if (window.vector_bytes() == 0) {
      const int64_t bytes = form.good_width * (16 / std::max(1, WidthFor(group, 16)));
      window.set_vector_bytes(static_cast<int>(std::clamp<int64_t>(bytes, 1, 16)));
    }
    if (window.outputs() == 0) {
      // Small tensors: rather a thread for each place that the card has.
      const int64_t places = int64_t{target.sm_count} * target.max_threads_per_sm;
      const int64_t vectors =
          Product(ShapeOf(group)) / std::max(1, WidthFor(group, window.vector_bytes()));
      int outputs = form.good_strip;
      while (outputs > 1 && !target.fibers() && vectors / outputs < places) outputs /= 2;
      window.set_outputs(outputs);
    }
    if (window.block_threads() == 0) window.set_block_threads(256);
    if (window.unroll() == 0) window.set_unroll(1);
    if (resolved.precision().accumulator() == v1::ACCUMULATOR_AUTO)
      resolved.mutable_precision()->set_accumulator(v1::ACCUMULATOR_F32);
    const WindowContext context = ContextFor(group, **domain, resolved, "");
    if (auto way = WayFor(context, group, window); !way.ok()) return way.status();
    Checker check(group.name());
    CheckResidency("window", window.block_threads(), window.blocks_per_sm(), 0, "", target, check);
    if (!check.status().ok()) return check.status();
    return resolved;
  }

  absl::StatusOr<Usage> Use(const Analysis& group, const v1::Group& resolved,
                            const Target&) const override {
    Usage use;
    use.threads = resolved.window().block_threads();
    use.blocks_per_sm = resolved.window().blocks_per_sm();
    use.width = WidthFor(group, resolved.window().vector_bytes());
    use.streams = static_cast<int>(group.demand().reads.size());
    use.recomputes = true;  // what ends with an axis is moved back over its neighbour
    const int64_t threads = Product(ShapeOf(group)) / resolved.window().outputs() / use.width;
    use.blocks = CeilDiv(threads, use.threads * int64_t{resolved.window().unroll()});
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
    const v1::WindowKnobs& window = resolved.window();
    const WindowContext context = ContextFor(group, **domain, resolved, writer.glue());
    auto way = WayFor(context, group, window);
    if (!way.ok()) return way.status();
    auto source = way->lanes ? GenerateLanes(context, way->outputs, way->width)
                             : GenerateStrips(context, ShapeOf(group), *way);
    if (!source.ok()) return source.status();
    writer.Struct(source->text, source->parameters);
    const bool persistent = window.blocks_per_sm() > 0;
    int64_t grid = std::max<int64_t>(
        1, CeilDiv(source->count, int64_t{window.block_threads()} * window.unroll()));
    if (persistent) grid = std::min(grid, int64_t{window.blocks_per_sm()} * target.sm_count);
    return writer
        .Kernel("", {window.block_threads(), window.blocks_per_sm(), grid, 0}, {},
                StrCat("ws::map<", writer.glue(), ", 1, ", window.unroll(), ", ",
                       persistent ? "true" : "false", ", ", window.reverse() ? "true" : "false",
                       ">(g, ", source->count, ")"))
        .status();
  }

 private:
  static std::vector<int64_t> ShapeOf(const Analysis& group) {
    return ExtentsOf(group.graph().nodes[group.largest_reduce()].axes);
  }

  static WindowContext ContextFor(const Analysis& group, const Domain& domain,
                                  const v1::Group& resolved, const std::string& name) {
    WindowContext context;
    static_cast<GroupContext&>(context) =
        ContextOf(group, domain, StyleOf(resolved, resolved.window()), name);
    context.reduce = group.largest_reduce();
    return context;
  }

  static absl::StatusOr<Way> WayFor(const WindowContext& context, const Analysis& group,
                                    const v1::WindowKnobs& window) {
    const int width = WidthFor(group, window.vector_bytes());
    return group.Derived<absl::StatusOr<Way>>(
        StrCat("window way ", width, " ", window.outputs()),
        std::function<absl::StatusOr<Way>()>(
            [&] { return WayOf(context, ShapeOf(group), window.outputs(), width); }));
  }

  static const Form& FormOf(const Analysis& group) {
    return group.Derived<Form>(
        "window", std::function<Form()>([&] {
          v1::Group open;
          open.mutable_window();
          const WindowContext context = ContextFor(group, *group.elements(), open, "");
          const graph::Node& node = group.graph().nodes[group.largest_reduce()];
          const std::vector<int64_t> shape = ShapeOf(group);
          Form form;
          form.lanes = LoadsOfLanes(context, 1, 1).ok();
          const int axis = WindowAxes(node).front();
          form.good_strip =
              GoodStrip(context, shape, axis, StepOf(context, node, axis), form.lanes);
          form.good_width = form.lanes ? kLaneChunks : GoodWidth(context, node);
          return form;
        }));
  }
};

}  // namespace

const Skeleton* WindowSkeleton() {
  static const Window skeleton;
  return &skeleton;
}

}  // namespace warpsmith::codegen
