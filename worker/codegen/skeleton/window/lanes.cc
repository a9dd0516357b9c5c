// Glue for windows that move by one element along the contiguous axis (most pooling, sliding sums):
// neighbouring lanes own neighbouring outputs and take each other's elements by shuffles.
//
// A warp computes 32 * V consecutive outputs of a row (V chunks of 32), for `window_outputs` rows
// of the outermost axis that the window moves over. Every element of an input row is loaded once,
// by coalesced loads, and the window along the row is built by doubling: with x the elements and ^
// the maximum, y = x ^ shift(x, 1) holds windows of two, y ^ shift(y, 2) windows of four. What the
// rows give is combined in registers; rows that several outputs share are loaded and reduced once.
//
// Everything is verified on the values themselves: the expression at tap q must be that of tap 0
// moved by q * dilation, or the group is lowered another way.
#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "worker/codegen/skeleton/glue.h"
#include "worker/codegen/skeleton/window/window.h"

namespace warpsmith::codegen {

namespace {

using absl::StrCat;

constexpr int kLanes = 32;
// Elements of other chunks that a window may reach over.
constexpr int64_t kMaxSpan = kLanes;
// Elements that a thread loads at most; more do not fit its registers or the instruction cache.
constexpr int64_t kMaxLoads = 512;

}  // namespace

// What is moved over, and how.
struct LanePlan {
  const graph::Node* node = nullptr;
  int node_id = -1;
  int row_axis = -1;      // innermost axis, along the lanes
  int row_tap = -1;       // reduce axis that moves with it
  int strip_axis = -1;    // outermost other axis that a window moves over, or -1
  std::vector<int> taps;  // the other reduce axes
  int64_t dilation = 1, span = 0;
};

namespace {

struct LaneVariables {
  Variable before, strip, between;
  std::vector<Variable> column;  // of each chunk
  Variable output;               // one output: keeps what is made of its window's result apart
};

// A row of the input as a thread sees it: the values of its chunks.
struct InputRow {
  std::vector<ValuePtr> chunks;
  std::vector<std::string> reduced;  // names, after the window along the row
};

struct LaneKernel {
  Kernel kernel;
  LaneVariables v;
  std::vector<InputRow> rows;
  std::vector<std::vector<int>> rows_of;  // by output of the strip: its rows, in order of taps
  Range interior;
};

std::vector<std::vector<int64_t>> Combinations(const graph::Node& node,
                                               const std::vector<int>& axes) {
  std::vector<std::vector<int64_t>> all = {{}};
  for (int axis : axes) {
    std::vector<std::vector<int64_t>> next;
    for (const auto& one : all) {
      for (int64_t i = 0; i < node.reduce_axes[axis].extent; ++i) {
        next.push_back(one);
        next.back().push_back(i);
      }
    }
    all = next;
  }
  return all;
}

class Lanes {
 public:
  Lanes(const WindowContext& context, const LanePlan& plan, int outputs, int chunks)
      : context_(context), graph_(*context.graph), plan_(plan), chunks_(chunks) {
    const auto& axes = plan.node->axes;
    row_ = axes[plan.row_axis].extent;
    if (plan.strip_axis >= 0) {
      strip_ = StripAxis::Of(axes[plan.strip_axis].extent, outputs,
                             StepOf(context, *plan.node, plan.strip_axis));
    }
    for (int a = 0; a < static_cast<int>(axes.size()); ++a) {
      if (a == plan.row_axis || a == plan.strip_axis) continue;
      (a < plan.strip_axis ? before_ : between_).push_back(axes[a].extent);
    }
    halo_ = static_cast<int>((plan.span + kLanes - 1) / kLanes);
    tiles_ = (row_ + kLanes * chunks_ - 1) / (kLanes * chunks_);
  }

  absl::StatusOr<WindowSource> Generate() {
    auto whole = Build(nullptr);
    if (!whole.ok()) return whole.status();
    const Range inside = whole->interior;
    const Range all = whole->v.strip.range;
    const bool split =
        inside.low <= inside.high && (inside.low != all.low || inside.high != all.high);
    absl::StatusOr<LaneKernel> interior = absl::InternalError("none");
    if (split) {
      interior = Build(&inside);
      if (!interior.ok()) return interior.status();
    }
    WindowSource source;
    source.count = Product(before_) * strip_.strips() * Product(between_) * tiles_ * kLanes;
    source.parameters = ParametersOf(context_, {&whole->kernel});
    const bool fits = FitsInt(graph_, whole->kernel) && source.count <= kMaxIntPosition;
    source.index_type = fits ? "int" : "long long";
    const std::string u = source.count <= kMaxIntPosition ? "unsigned" : "unsigned long long";

    Text body;
    body.Line(StrCat(u, " rest = static_cast<", u, ">(i);"));
    body.Line(StrCat("const int lane = static_cast<int>(rest % ", kLanes, "u);"));
    body.Line(StrCat("rest /= ", kLanes, "u;"));
    auto digit = [&](const std::string& name, int64_t extent) {
      body.Line(StrCat("const Index ", name, " = static_cast<Index>(rest % ", extent, "u);"));
      body.Line(StrCat("rest /= ", extent, "u;"));
    };
    digit("tile", tiles_);
    for (int c = 0; c < chunks_ + halo_; ++c) {
      body.Line(StrCat("const Index w", c, " = tile * ", kLanes * chunks_, " + lane",
                       c > 0 ? StrCat(" + ", kLanes * c) : "", ";"));
    }
    digit("m", Product(between_));
    digit("strip", strip_.strips());
    for (const std::string& line : strip_.Lines("strip", "a")) body.Line(line);
    body.Line("const Index n = static_cast<Index>(rest);");
    if (split) {
      body.Line(StrCat("if (a >= ", inside.low, " && a <= ", inside.high, ") {"));
      body.Append(Write(*interior, source));
      body.Line("} else {");
      body.Append(Write(*whole, source));
      body.Line("}");
    } else {
      body.Append(Write(*whole, source));
    }
    source.text = WindowStruct(context_, source, body.str());
    return source;
  }

  // Whether windows are what was taken for granted of them.
  absl::Status Check() { return Build(nullptr).status(); }

  int64_t Loads() const {
    int64_t rows = strip_.outputs;
    for (int tap : plan_.taps) rows *= plan_.node->reduce_axes[tap].extent;
    return rows * (chunks_ + halo_);
  }

 private:
  std::vector<int64_t> Extents() const {
    std::vector<int64_t> extents;
    for (const graph::Axis& axis : plan_.node->axes) extents.push_back(axis.extent);
    return extents;
  }

  static int64_t Product(const std::vector<int64_t>& extents) {
    int64_t n = 1;
    for (int64_t e : extents) n *= e;
    return n;
  }

  // Coordinates of the node's output.
  std::vector<Index> Output(const LaneVariables& v, int t, const Index& column) const {
    const std::vector<Index> before = Unflatten(Index::Of(v.before), before_);
    const std::vector<Index> between = Unflatten(Index::Of(v.between), between_);
    std::vector<Index> at;
    size_t b = 0, m = 0;
    for (int a = 0; a < static_cast<int>(plan_.node->axes.size()); ++a) {
      if (a == plan_.row_axis) {
        at.push_back(column);
      } else if (a == plan_.strip_axis) {
        at.push_back(Index::Of(v.strip) + Index(t * strip_.step));
      } else {
        at.push_back(a < plan_.strip_axis ? before[b++] : between[m++]);
      }
    }
    return at;
  }

  absl::StatusOr<LaneKernel> Build(const Range* strip_range) {
    LaneKernel k;
    k.kernel.values = std::make_unique<Values>();
    Values& values = *k.kernel.values;
    LaneVariables& v = k.v;
    v.before = values.NewVariable("n", {0, Product(before_) - 1});
    v.strip = values.NewVariable("a", strip_range != nullptr ? *strip_range : strip_.range());
    v.between = values.NewVariable("m", {0, Product(between_) - 1});
    const int64_t end = tiles_ * kLanes * chunks_;
    for (int c = 0; c < chunks_ + halo_; ++c) {
      v.column.push_back(values.NewVariable(
          StrCat("w", c), {c * kLanes, end - kLanes * chunks_ + kLanes * (c + 1) - 1}));
    }
    v.output = values.NewVariable("output", {0, 1});
    TensorAccess access;
    access.in_memory = context_.in_memory;
    access.write_out = true;
    access.stage = [&](int tensor, const std::vector<Index>& at) -> absl::StatusOr<ValuePtr> {
      const graph::Tensor& t = graph_.tensors[tensor];
      if (t.node != plan_.node_id) return nullptr;
      for (size_t a = 0; a < at.size(); ++a) {
        if (t.shape[a] > 1 && !(at[a] == expected_[a]))
          return absl::FailedPreconditionError("a window is read elsewhere");
      }
      return values.Result(t.node, 0, 0, t.type, BitOf(v.output));
    };
    Inliner inliner(graph_, values, access);
    const auto combinations = Combinations(*plan_.node, plan_.taps);
    const int taps = static_cast<int>(plan_.node->reduce_axes[plan_.row_tap].extent);
    // The element that tap q of the window reads in chunk c; only what outputs need is loaded.
    auto element = [&](int t, const std::vector<int64_t>& combination, int c, int64_t moved,
                       int q) -> absl::StatusOr<ValuePtr> {
      const Index column = Index::Of(v.column[c]);
      std::vector<Index> env = Output(v, t, column + Index(moved));
      const size_t kept = env.size();
      env.resize(kept + plan_.node->reduce_axes.size());
      env[kept + plan_.row_tap] = Index(q);
      for (size_t i = 0; i < combination.size(); ++i)
        env[kept + plan_.taps[i]] = Index(combination[i]);
      const ValuePtr needed = values.Compare(graph::Op::kLe, Index(row_ - 1 + plan_.span) - column);
      return inliner.BodyUnder(*plan_.node, env, needed);
    };
    std::map<std::vector<ValuePtr>, int> known;  // by what all chunks read
    k.rows_of.resize(strip_.outputs);
    for (int t = 0; t < strip_.outputs; ++t) {
      for (const auto& combination : combinations) {
        InputRow row;
        for (int c = 0; c < chunks_ + halo_; ++c) {
          auto value = element(t, combination, c, 0, 0);
          if (!value.ok()) return value.status();
          row.chunks.push_back(*value);
        }
        auto found = known.find(row.chunks);
        if (found != known.end()) {
          k.rows_of[t].push_back(found->second);
          continue;
        }
        // Ranges differ from chunk to chunk, so that a condition may be decided in one and not in
        // another: every chunk of outputs is looked at.
        for (int c = 0; c < chunks_; ++c) {
          for (int q = 1; q < taps; ++q) {
            auto here = element(t, combination, c, 0, q),
                 moved = element(t, combination, c, q * plan_.dilation, 0);
            if (!here.ok()) return here.status();
            if (!moved.ok()) return moved.status();
            if (*here != *moved)
              return absl::FailedPreconditionError("taps are no moves of each other");
          }
        }
        known[row.chunks] = static_cast<int>(k.rows.size());
        k.rows_of[t].push_back(static_cast<int>(k.rows.size()));
        k.rows.push_back(row);
      }
    }
    // Where rows are certainly inside: from the elements' conditions on the strip alone.
    std::vector<ValuePtr> all;
    for (const InputRow& row : k.rows) all.insert(all.end(), row.chunks.begin(), row.chunks.end());
    k.interior = InteriorOf(values, all, v.strip);
    for (int t = 0; t < strip_.outputs; ++t) {
      for (const RootPlace& place : context_.domain->roots) {
        const int tensor = place.tensor;
        for (int c = 0; c < chunks_; ++c) {
          expected_ = Output(v, t, Index::Of(v.column[c]));
          // A root's coordinates: the same axes, but for some of extent 1.
          const std::vector<Index> at =
              MatchAxes(expected_, Extents(), graph_.tensors[tensor].shape);
          // Lanes beyond the row compute nothing that is stored, and may read nothing.
          const ValuePtr inside =
              values.Compare(graph::Op::kLe, Index(row_ - 1) - Index::Of(v.column[c]));
          auto value = inliner.ElementUnder(tensor, at, inside);
          if (!value.ok()) return value.status();
          k.kernel.roots.push_back(
              {tensor, Level::kPoints, *value, Flatten(at, graph_.tensors[tensor].shape)});
        }
      }
    }
    for (const InputRow& row : k.rows) {
      for (ValuePtr value : row.chunks)
        k.kernel.reduces.push_back({plan_.node_id, 0, value, nullptr});
    }
    if (values.full()) return absl::FailedPreconditionError("too many variables");
    return k;
  }

  std::string Join(const std::string& a, const std::string& b) const {
    Reduction r;
    r.combiner = plan_.node->combiner;
    r.type = plan_.node->value->type;
    return JoinOf(r, a, b);
  }

  // Chunks moved by `shift` elements towards the first lane.
  std::vector<std::string> Shifted(Emitter& e, const std::vector<std::string>& x,
                                   int64_t shift) const {
    const std::string type = ComputeType(plan_.node->value->type);
    const int whole = static_cast<int>(shift / kLanes), part = static_cast<int>(shift % kLanes);
    std::vector<std::string> moved, turned;
    for (size_t c = 0; c < x.size(); ++c) {
      if (part == 0) {
        turned.push_back(x[c]);
        continue;
      }
      turned.push_back(e.NewName("s"));
      e.Line(StrCat("const ", type, " ", turned.back(), " = ws::shuffle(", x[c], ", (lane + ", part,
                    ") & ", kLanes - 1, ");"));
    }
    for (size_t c = 0; c < x.size(); ++c) {
      const size_t from = c + whole;
      if (from >= x.size()) break;  // beyond what any output needs
      moved.push_back(part == 0 || from + 1 >= x.size()
                          ? turned[from]
                          : StrCat("(lane < ", kLanes - part, " ? ", turned[from], " : ",
                                   turned[from + 1], ")"));
    }
    return moved;
  }

  std::vector<std::string> Combined(Emitter& e, const std::vector<std::string>& a,
                                    const std::vector<std::string>& b) const {
    std::vector<std::string> result;
    for (size_t c = 0; c < std::min(a.size(), b.size()); ++c) {
      result.push_back(e.NewName("r"));
      e.Line(StrCat("const ", ComputeType(plan_.node->value->type), " ", result.back(), " = ",
                    Join(a[c], b[c]), ";"));
    }
    return result;
  }

  // The window along the row, by doubling.
  std::vector<std::string> RowWindow(Emitter& e, std::vector<std::string> x) const {
    const int64_t taps = plan_.node->reduce_axes[plan_.row_tap].extent, d = plan_.dilation;
    const bool idempotent = plan_.node->combiner == graph::Combiner::kMax ||
                            plan_.node->combiner == graph::Combiner::kMin;
    std::vector<std::string> total;  // of the taps below `covered`
    int64_t covered = 0, length = 1;
    while (true) {
      if (idempotent) {
        if (length == taps) return x;
        const int64_t step = std::min(length, taps - length);
        x = Combined(e, x, Shifted(e, x, step * d));
        length += step;
        continue;
      }
      if ((taps & length) != 0) {
        const std::vector<std::string> part = covered == 0 ? x : Shifted(e, x, covered * d);
        total = total.empty() ? part : Combined(e, total, part);
        covered += length;
        if (covered == taps) return total;
      }
      x = Combined(e, x, Shifted(e, x, length * d));
      length *= 2;
    }
  }

  std::string Write(LaneKernel& k, const WindowSource& source) const {
    Dialect dialect = MakeDialect(context_, k.kernel, source.parameters, source.index_type);
    uint64_t known = BitOf(k.v.before) | BitOf(k.v.strip) | BitOf(k.v.between);
    for (const Variable& column : k.v.column) known |= BitOf(column);
    Emitter e(dialect, known);
    e.Expect(TargetsOf(k.kernel));
    std::map<std::pair<std::string, std::string>, std::string> joined;  // what two outputs share
    auto join = [&](const std::string& a, const std::string& b) {
      auto [at, fresh] = joined.try_emplace({a, b}, "");
      if (fresh) {
        at->second = e.NewName("r");
        e.Line(StrCat("const ", ComputeType(plan_.node->value->type), " ", at->second, " = ",
                      Join(a, b), ";"));
      }
      return at->second;
    };
    std::function<std::string(const std::vector<int>&, size_t, size_t, int)> tree =
        [&](const std::vector<int>& rows, size_t from, size_t to, int c) -> std::string {
      if (to - from == 1) return k.rows[rows[from]].reduced[c];
      size_t middle = 1;
      while (middle * 2 < to - from) middle *= 2;
      return join(tree(rows, from, from + middle, c), tree(rows, from + middle, to, c));
    };
    // Loads of the rows that an output adds stand before the work for the output before it, so that
    // they are in flight meanwhile.
    std::map<int, std::vector<std::string>> loaded;
    auto load = [&](int t) {
      for (int r : k.rows_of[t]) {
        if (loaded.count(r) > 0) continue;
        for (ValuePtr chunk : k.rows[r].chunks) loaded[r].push_back(e.Name(chunk));
      }
    };
    size_t root = 0;
    load(0);
    for (int t = 0; t < strip_.outputs; ++t) {
      if (t + 1 < strip_.outputs) load(t + 1);
      for (int r : k.rows_of[t]) {
        if (k.rows[r].reduced.empty()) k.rows[r].reduced = RowWindow(e, loaded[r]);
      }
      std::vector<std::string> results;
      for (int c = 0; c < chunks_; ++c)
        results.push_back(tree(k.rows_of[t], 0, k.rows_of[t].size(), c));
      for (size_t i = 0; i < context_.domain->roots.size(); ++i) {
        for (int c = 0; c < chunks_; ++c, ++root) {
          const Kernel::Root& target = k.kernel.roots[root];
          for (ValuePtr value : k.kernel.values->Closure({target.value})) {
            if (value->kind == Value::Kind::kResult) e.Bind(value, results[c]);
          }
          const bool all = tiles_ * kLanes * chunks_ == row_;
          e.Open(all ? "{" : StrCat("if (w", c, " < ", row_, ") {"), BitOf(k.v.output));
          const std::string value = e.Stored(target.value);
          const std::string type = StorageType(graph_.tensors[target.tensor].type);
          if (dialect.store_hint != 0) {
            e.Line(StrCat("const ", type, " y[1] = {", value, "};"));
            e.Line(StrCat("ws::store<1, ", type, ", 1>(", e.Address(target.tensor, target.address),
                          ", y);"));
          } else {
            e.Line(StrCat(e.Element(target.tensor, target.address), " = ", value, ";"));
          }
          e.Close();
        }
      }
    }
    for (InputRow& row : k.rows) row.reduced.clear();
    return e.Finish();
  }

  const WindowContext& context_;
  const graph::Graph& graph_;
  const LanePlan& plan_;
  int chunks_, halo_ = 0;
  StripAxis strip_;
  int64_t row_ = 1, tiles_ = 1;
  std::vector<int64_t> before_, between_;
  std::vector<Index> expected_;  // where the window's result is being built
};

// The plan for this group; FailedPrecondition: windows do not move by one along the contiguous
// axis.
absl::StatusOr<LanePlan> FindLanes(const WindowContext& context) {
  const absl::Status none =
      absl::FailedPreconditionError("windows do not move by one along the rows");
  const graph::Graph& graph = *context.graph;
  LanePlan plan;
  plan.node_id = context.reduce;
  const graph::Node& node = graph.nodes[plan.node_id];
  plan.node = &node;
  const graph::DType type = node.value->type;
  if (type == graph::DType::kBool || graph::IsNarrow(type) ||
      node.combiner == graph::Combiner::kArgMax || node.combiner == graph::Combiner::kArgMin)
    return none;
  for (int a = 0; a < static_cast<int>(node.axes.size()); ++a) {
    if (node.axes[a].extent > 1) plan.row_axis = a;
  }
  if (plan.row_axis < 0) return none;
  const std::vector<int> taps = TapsOf(node, plan.row_axis);
  if (taps.size() != 1) return none;
  plan.row_tap = taps[0];
  for (int a : WindowAxes(node)) {
    if (a != plan.row_axis && plan.strip_axis < 0) plan.strip_axis = a;
  }
  for (int r = 0; r < static_cast<int>(node.reduce_axes.size()); ++r) {
    if (r != plan.row_tap) plan.taps.push_back(r);
  }
  // Strides of the loads: one along the row, the same number of elements from tap to tap.
  NodeLoads found;
  if (!FindLoads(context, node, found)) return none;
  const Variable& row = found.variables[plan.row_axis];
  const Variable& tap = found.variables[node.axes.size() + plan.row_tap];
  const int64_t count = node.reduce_axes[plan.row_tap].extent;
  for (ValuePtr load : found.loads) {
    if ((load->variables & (BitOf(row) | BitOf(tap))) == 0) continue;
    const int64_t step = load->index.CoefficientOf(tap);
    if (load->index.CoefficientOf(row) != 1 || step < 1) return none;
    plan.dilation = step;
    plan.span = step * (count - 1);
  }
  if (count < 2 || plan.span < 1 || plan.span > kMaxSpan) return none;
  return plan;
}

}  // namespace

absl::StatusOr<int64_t> LoadsOfLanes(const WindowContext& context, int outputs, int chunks) {
  auto plan = FindLanes(context);
  if (!plan.ok()) return plan.status();
  Lanes lanes(context, *plan, outputs, chunks);
  if (absl::Status s = lanes.Check(); !s.ok()) return s;
  return lanes.Loads();
}

absl::StatusOr<WindowSource> GenerateLanes(const WindowContext& context, int outputs, int chunks) {
  auto plan = FindLanes(context);
  if (!plan.ok()) return plan.status();
  Lanes lanes(context, *plan, outputs, chunks);
  if (lanes.Loads() > kMaxLoads) {
    return absl::InvalidArgumentError(
        StrCat("group '", context.graph->tensors[context.domain->roots[0].tensor].name,
               "': a thread would load ", lanes.Loads(), " elements, at most ", kMaxLoads,
               "; lower window.outputs or window.vector_bytes"));
  }
  return lanes.Generate();
}

}  // namespace warpsmith::codegen
