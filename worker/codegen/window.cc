// Glue for overlapping windows (pooling): the map skeleton with strips of outputs.
//
// A thread computes `window_outputs` consecutive outputs along the outermost axis that the window
// moves over, and V neighbours along the innermost one. All of it is written out; what two windows
// share (a row of the input reduced over the inner window axes, a loaded element) is one value of
// the kernel, so it is loaded and reduced once. Strips whose rows are all inside the input need no
// bounds tests along the strip; the last strip is moved back to end with the tensor.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "worker/codegen/glue.h"

namespace warpsmith::codegen {
namespace {

using absl::StrCat;

// Loads that one thread may write out.
constexpr int64_t kMaxStripElements = 4096;

// How a strip index becomes output coordinates.
struct Strips {
  std::vector<int64_t> shape;   // of the output
  int axis = 0;                 // along which a strip runs
  int outputs = 1;              // T
  int width = 1;                // V
  int64_t before = 1, strips = 1, between = 1, blocks = 1;

  bool inner() const { return axis + 1 < static_cast<int>(shape.size()); }
  int64_t last() const { return shape.back(); }
};

Strips MakeStrips(const std::vector<int64_t>& shape, int axis, int outputs, int width) {
  Strips s{shape, axis, outputs, width};
  for (int a = 0; a < axis; ++a) s.before *= shape[a];
  s.strips = (shape[axis] + outputs - 1) / outputs;
  for (int a = axis + 1; a + 1 < static_cast<int>(shape.size()); ++a) s.between *= shape[a];
  if (s.inner()) s.blocks = (shape.back() + width - 1) / width;
  return s;
}

// Axes of the output that windows move over, outermost first.
std::vector<int> WindowAxes(const graph::Graph& graph, const GroupContext& context) {
  const graph::Node& node = graph.nodes[context.space->primary];
  std::vector<int> axes;
  for (const graph::Axis& axis : node.axes) {
    (void)axis;
    axes.push_back(static_cast<int>(axes.size()));
  }
  // An axis counts where an index mixes it with a reduce axis.
  std::vector<bool> mixed(node.axes.size());
  const int kept = static_cast<int>(node.axes.size());
  std::function<void(const graph::ExprPtr&, std::vector<bool>&)> variables = [&](const graph::ExprPtr& e, std::vector<bool>& seen) {
    if (e->op == graph::Op::kIndex) seen[e->var] = true;
    for (const graph::ExprPtr& arg : e->args) variables(arg, seen);
  };
  std::function<void(const graph::ExprPtr&)> visit = [&](const graph::ExprPtr& e) {
    if (e->op == graph::Op::kLoad) {
      for (const graph::ExprPtr& index : e->args) {
        std::vector<bool> seen(kept + node.reduce_axes.size());
        variables(index, seen);
        const bool reduced = std::find(seen.begin() + kept, seen.end(), true) != seen.end();
        for (int a = 0; a < kept; ++a) mixed[a] = mixed[a] || (seen[a] && reduced);
      }
    }
    for (const graph::ExprPtr& arg : e->args) visit(arg);
  };
  visit(node.value);
  std::vector<int> found;
  for (int a : axes) {
    if (mixed[a] && node.axes[a].extent > 1) found.push_back(a);
  }
  return found;
}

struct StripVariables {
  Variable before, strip, between, last;
};

// Values of all outputs of a strip. `interior`: range of the strip's first output, if narrowed.
absl::StatusOr<Kernel> BuildStrip(const GroupContext& context, const Strips& s, const Range* interior,
                                  StripVariables& v) {
  const graph::Graph& graph = *context.graph;
  Kernel kernel;
  kernel.values = std::make_unique<Values>();
  Values& values = *kernel.values;
  v.before = values.NewVariable("n", {0, s.before - 1});
  Range range{0, s.shape[s.axis] - s.outputs};
  if (interior != nullptr) range = *interior;
  v.strip = values.NewVariable("a", range, s.shape[s.axis] % s.outputs == 0 ? s.outputs : 1);
  v.between = values.NewVariable("m", {0, s.between - 1});
  v.last = values.NewVariable("w", {0, s.inner() ? s.last() - s.width : 0}, s.inner() && s.last() % s.width == 0 ? s.width : 1);
  TensorAccess access;
  access.in_memory = context.in_memory;
  access.write_out = true;
  Inliner inliner(graph, values, access);
  const std::vector<int64_t> outer(s.shape.begin(), s.shape.begin() + s.axis);
  const std::vector<Index> before = Unflatten(Index::Of(v.before), outer);
  std::vector<Index> between;
  if (s.inner()) {
    between = Unflatten(Index::Of(v.between), std::vector<int64_t>(s.shape.begin() + s.axis + 1, s.shape.end() - 1));
  }
  for (int t = 0; t < s.outputs; ++t) {
    for (int tensor : context.space->roots) {
      for (int j = 0; j < s.width; ++j) {
        std::vector<Index> at = before;
        at.push_back(Index::Of(v.strip) + Index(t));
        at.insert(at.end(), between.begin(), between.end());
        if (s.inner()) at.push_back(Index::Of(v.last) + Index(j));
        auto value = inliner.Element(tensor, at);
        if (!value.ok()) return value.status();
        kernel.roots.push_back({tensor, RootPlan::Kind::kElement, *value, Flatten(at, s.shape)});
      }
    }
  }
  return kernel;
}

// Where every condition on the strip's position alone holds.
Range Interior(const Kernel& kernel, const StripVariables& v) {
  Range range = v.strip.range;
  for (ValuePtr value : kernel.values->Closure(TargetsOf(kernel))) {
    if (value->kind != Value::Kind::kCompare || value->op != graph::Op::kLe) continue;
    const int64_t coefficient = value->index.CoefficientOf(v.strip);
    if (coefficient == 0 || !value->index.Without(v.strip).is_constant()) continue;
    const int64_t constant = value->index.constant();   // 0 <= coefficient * a + constant
    if (coefficient > 0) {
      range.low = std::max(range.low, constant >= 0 ? 0 : (-constant + coefficient - 1) / coefficient);
    } else if (constant >= 0) {
      range.high = std::min(range.high, constant / -coefficient);
    } else {
      range.high = -1;
    }
  }
  return range;
}

void EmitStrip(Emitter& emitter, const Dialect& dialect, const GroupContext& context, const Kernel& kernel, const Strips& s) {
  std::vector<ValuePtr> targets = TargetsOf(kernel);
  emitter.Expect(targets);
  for (size_t r = 0; r < kernel.roots.size(); r += s.width) {
    const Kernel::Root& first = kernel.roots[r];
    const graph::DType type = context.graph->tensors[first.tensor].type;
    const bool vector = s.width > 1 && first.address.multiple() % s.width == 0;
    if (vector) {
      const std::string array = emitter.NewName("y");
      std::string elements;
      for (int j = 0; j < s.width; ++j) {
        absl::StrAppend(&elements, j == 0 ? "" : ", ", ToMemory(type, emitter.Use(kernel.roots[r + j].value)));
      }
      emitter.Line(StrCat("const ", StorageType(type), " ", array, "[", s.width, "] = {", elements, "};"));
      emitter.Line(StrCat("ws::store<", s.width, ", ", StorageType(type), ", ", dialect.store_hint, ">(",
                          emitter.Address(first.tensor, first.address), ", ", array, ");"));
      continue;
    }
    for (int j = 0; j < s.width; ++j) {
      const Kernel::Root& root = kernel.roots[r + j];
      const std::string value = ToMemory(type, emitter.Use(root.value));
      emitter.Line(StrCat(emitter.Element(root.tensor, root.address), " = ", value, ";"));
    }
  }
}

}  // namespace

absl::StatusOr<GroupSource> GenerateWindow(const GroupContext& context) {
  const graph::Graph& graph = *context.graph;
  const Space& space = *context.space;
  const int outputs = std::max(1, context.knobs->compute().window_outputs());
  int width = WidthFor(context, context.knobs->memory().vector_bytes());
  const graph::Node& node = graph.nodes[space.primary];
  const std::vector<int64_t> shape = graph.tensors[space.roots[0]].shape;
  std::vector<int64_t> extents;
  for (const graph::Axis& axis : node.axes) extents.push_back(axis.extent);
  bool same = space.window && shape == extents && !shape.empty();
  for (int root : space.roots) same = same && graph.tensors[root].shape == shape;
  const std::vector<int> axes = same ? WindowAxes(graph, context) : std::vector<int>();
  int64_t elements = 1;
  for (const graph::Axis& axis : node.reduce_axes) elements *= axis.extent;
  const bool indexed = node.combiner == graph::Combiner::kArgMax || node.combiner == graph::Combiner::kArgMin;
  const bool possible = !axes.empty() && !indexed && elements <= kMaxWrittenOut;
  if (!possible || (outputs == 1 && width == 1)) {
    auto source = GenerateMap(context);
    if (source.ok()) source->strips = possible;
    return source;
  }
  const int axis = axes[0];
  width = axis + 1 < static_cast<int>(shape.size()) ? static_cast<int>(std::min<int64_t>(width, shape.back())) : 1;
  while (width & (width - 1)) width &= width - 1;
  const int taken = static_cast<int>(std::min<int64_t>(outputs, shape[axis]));
  if (elements * taken * width > kMaxStripElements) {
    return absl::InvalidArgumentError(StrCat("group '", graph.tensors[space.roots[0]].name, "': compute.window_outputs is ", outputs,
                                             "; a thread of ", width, " neighbours takes at most ",
                                             kMaxStripElements / (elements * width), " windows of ", elements, " elements"));
  }
  const Strips s = MakeStrips(shape, axis, taken, width);
  StripVariables v, vi;
  auto whole = BuildStrip(context, s, nullptr, v);
  if (!whole.ok()) return whole.status();
  const Range inside = Interior(*whole, v);
  const bool split = inside.low <= inside.high && (inside.low != v.strip.range.low || inside.high != v.strip.range.high);
  absl::StatusOr<Kernel> interior = absl::InternalError("none");
  if (split) {
    interior = BuildStrip(context, s, &inside, vi);
    if (!interior.ok()) return interior.status();
  }

  GroupSource source;
  source.count = s.before * s.strips * s.between * s.blocks;
  source.emits = true;
  source.width = 1;
  source.restrict = true;
  source.strips = true;
  source.parameters = ParametersOf(context, {&*whole});
  for (const Parameter& p : source.parameters) source.streams += p.written ? 0 : 1;
  source.stream_bytes = 4;
  const bool fits = FitsInt(graph, *whole) && source.count <= kMaxIntPosition;
  source.index_type = fits ? "int" : "long long";
  const Dialect dialect = MakeDialect(context, *whole, source.parameters, source.index_type);
  const uint64_t known = BitOf(v.before) | BitOf(v.strip) | BitOf(v.between) | BitOf(v.last);
  Text body(2);
  const std::string u = fits ? "unsigned" : "unsigned long long";
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
      body.Line(StrCat("const Index ", name, " = ", name, "_block * ", step, " < ", limit, " ? ", name, "_block * ", step, " : ", limit, ";"));
    }
  };
  if (s.inner()) {
    digit("w_block", s.blocks);
    clamped("w", s.width, s.last() - s.width);
    digit("m", s.between);
  }
  digit("a_block", s.strips);
  clamped("a", s.outputs, shape[axis] - s.outputs);
  body.Line("const Index n = static_cast<Index>(rest);");
  auto write = [&](const Kernel& kernel, int depth) {
    Dialect own = dialect;
    own.values = kernel.values.get();
    Emitter emitter(own, known, depth);
    EmitStrip(emitter, own, context, kernel, s);
    return emitter.Finish();
  };
  if (split) {
    body.Line(StrCat("if (a >= ", inside.low, " && a <= ", inside.high, ") {"));
    body.Append(write(*interior, 3));
    body.Line("} else {");
    body.Append(write(*whole, 3));
    body.Line("}");
  } else {
    body.Append(write(*whole, 2));
  }

  Text text;
  text.Open(StrCat("struct ", context.name, " {"));
  text.Line(StrCat("using Index = ", source.index_type, ";"));
  for (const Parameter& p : source.parameters) text.Line(StrCat(p.type, " ", p.name, ";"));
  text.Line("template <int V> struct Values {};");
  text.Line("template <int V>");
  text.Line("WS_DEVICE void load(Index, Values<V>&) const {}");
  text.Line("template <int V>");
  text.Line("WS_DEVICE void emit(Index i, const Values<V>&) const {");
  text.Append(body.str());
  text.Line("}");
  text.Close("};");
  source.text = text.str();
  return source;
}

}  // namespace warpsmith::codegen
