#include "worker/codegen/skeleton/glue.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <set>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"

namespace warpsmith::codegen {

using absl::StrCat;

namespace {

// A tensor of at least this part of the largest one counts where the width of vectors is chosen.
constexpr int64_t kLargePart = 16;
// Widest access of a thread.
constexpr int64_t kMaxVectorBytes = 16;
constexpr int64_t kMaxAccesses = 4;

// Operations of both sides of a choice together that are worth a branch, of all lanes; choices
// within each other.
constexpr int kWorthBranch = 32;
constexpr size_t kMostChoices = 8;

// What a condition made of indexes is where variables are these numbers, by their ids; nullopt: it
// is of something else, too.
std::optional<bool> Decided(ValuePtr condition, const std::vector<Index>& numbers) {
  if (condition->kind == Value::Kind::kCompare) {
    const Index index = Substitute(condition->index, numbers);
    if (!index.is_constant()) return std::nullopt;
    return condition->op == graph::Op::kEq ? index.constant() == 0 : index.constant() >= 0;
  }
  if (condition->kind != Value::Kind::kOp) return std::nullopt;
  std::vector<bool> args;
  for (ValuePtr arg : condition->args) {
    const auto decided = Decided(arg, numbers);
    if (!decided) return std::nullopt;
    args.push_back(*decided);
  }
  switch (condition->op) {
    case graph::Op::kNot:
      return !args[0];
    case graph::Op::kAnd:
      return args[0] && args[1];
    case graph::Op::kOr:
      return args[0] || args[1];
    default:
      return std::nullopt;
  }
}

// Whether a warp's threads, each at a vector beside the next one's, mostly decide alike, so that a
// branch takes one side: seen at so many places along the kernel's elements.
bool WarpsAgree(const Frame& frame, ValuePtr condition) {
  constexpr int64_t kPlaces = 32, kOfTwoMinds = 4, kThreads = 32;
  const Variable& along = frame.element.name.empty() ? frame.column : frame.element;
  if (along.name.empty() || (condition->variables & BitOf(along)) == 0) return true;
  std::vector<Index> numbers(kMaxVariables, Index(0));
  const int64_t warp = kThreads * frame.width;
  int64_t of_two_minds = 0;
  for (int64_t place = 0; place < kPlaces; ++place) {
    const int64_t first = along.range.high / kPlaces * place / warp * warp;
    int64_t so = 0;
    for (int64_t thread = 0; thread < kThreads; ++thread) {
      numbers[along.id] = std::min(first + thread * frame.width, along.range.high);
      const auto decided = Decided(condition, numbers);
      if (!decided) return false;
      so += *decided;
    }
    of_two_minds += so != 0 && so != kThreads;
  }
  return of_two_minds <= kOfTwoMinds;
}

// A choice that all lanes of a vector make alike, and mostly all threads of a warp, and of which
// the sides take much: what was concatenated or stacked. Null: the value is none.
ValuePtr ChoiceOfAllLanes(const Kernel& kernel, ValuePtr value) {
  const Frame& frame = kernel.frame;
  const auto is = [&](graph::Op op) { return value->kind == Value::Kind::kOp && value->op == op; };
  while (is(graph::Op::kCast)) value = value->args[0];
  if (!is(graph::Op::kSelect) || (value->args[0]->variables & BitOf(frame.lane)) != 0 ||
      !WarpsAgree(frame, value->args[0]))
    return nullptr;
  int operations = 0;
  for (ValuePtr one : kernel.values->Closure({value->args[1], value->args[2]}))
    operations += one->kind == Value::Kind::kOp && (one->variables & BitOf(frame.lane)) != 0;
  return operations * frame.width >= kWorthBranch ? value : nullptr;
}

// Writes what `make` writes in a branch for each side of the choices that all lanes make alike, one
// within the other, with the value of each bound to that side.
class Branches {
 public:
  Branches(Emitter& emitter, const Kernel& kernel,
           std::function<void(const std::function<void()>& decide)> make)
      : emitter_(emitter), kernel_(kernel), make_(std::move(make)) {}

  void Write(ValuePtr value) {
    const ValuePtr choice =
        decided_.size() < kMostChoices ? ChoiceOfAllLanes(kernel_, value) : nullptr;
    if (choice == nullptr) {
      make_([this] {
        for (auto one = decided_.rbegin(); one != decided_.rend(); ++one)
          emitter_.Bind(one->first, emitter_.Use(one->second));
      });
      return;
    }
    const std::string condition = emitter_.Use(choice->args[0]);
    for (int side : {1, 2}) {
      // No "else": what does not depend on lanes is written between the two.
      emitter_.Open(
          side == 1 ? StrCat("if (", condition, ") {") : StrCat("if (!(", condition, ")) {"), 0,
          false);
      decided_.emplace_back(choice, choice->args[side]);
      Write(choice->args[side]);
      decided_.pop_back();
      emitter_.Close();
    }
  }

 private:
  Emitter& emitter_;
  const Kernel& kernel_;
  const std::function<void(const std::function<void()>& decide)> make_;
  std::vector<std::pair<ValuePtr, ValuePtr>> decided_;  // a choice, and what it is here
};

}  // namespace

std::vector<ValuePtr> IndexValuesOf(const Kernel& kernel) {
  std::vector<ValuePtr> targets = TargetsOf(kernel), indexes;
  for (const auto* reduces : {&kernel.reduces, &kernel.totals}) {
    for (const Kernel::Reduce& reduce : *reduces) {
      if (reduce.position != nullptr) targets.push_back(reduce.position);
    }
  }
  for (ValuePtr value : kernel.values->Closure(targets)) {
    if (value->kind == Value::Kind::kIndex || value->kind == Value::Kind::kCompare)
      indexes.push_back(value);
  }
  return indexes;
}

GroupContext ContextOf(const Analysis& group, const Domain& domain, const Style& style,
                       const std::string& name) {
  return {&group.graph(), &domain, group.in_memory(), style, name};
}

int WidthFor(const Analysis& group, int64_t bytes) {
  const graph::Graph& graph = group.graph();
  // What moves most decides; small tensors of wider elements are read one by one.
  std::vector<int> moved;
  int64_t largest = 1;
  auto see = [&](int tensor) {
    moved.push_back(tensor);
    largest = std::max(largest, graph.tensors[tensor].elements());
  };
  for (int tensor : group.roots()) see(tensor);
  for (int tensor : group.demand().reads) see(tensor);
  int64_t widest = 1;
  for (int tensor : moved) {
    if (graph.tensors[tensor].elements() * kLargePart >= largest) {
      widest = std::max(widest, graph::SizeOf(graph.tensors[tensor].type));
    }
  }
  return static_cast<int>(std::max<int64_t>(1, bytes / widest));
}

FrameMaker ElementFrame(const Domain& domain, int width) {
  return [extents = domain.Extents(Role::kKept), width](Values& values) {
    Frame frame;
    frame.width = width;
    frame.element =
        values.NewVariable("i", {0, std::max<int64_t>(0, Product(extents) - width)}, width);
    Index linear = Index::Of(frame.element);
    if (width > 1) {
      frame.lane = values.NewVariable("j", {0, width - 1});
      linear = linear + Index::Of(frame.lane);
    }
    frame.axes = Unflatten(linear, extents);
    return frame;
  };
}

bool FitsVector(graph::DType type, int width) {
  return width * graph::SizeOf(type) <= kMaxVectorBytes;
}

bool FitsAccesses(graph::DType type, int width) {
  return width * graph::SizeOf(type) <= kMaxAccesses * kMaxVectorBytes;
}

std::vector<Parameter> ParametersOf(const GroupContext& context,
                                    const std::vector<const Kernel*>& kernels) {
  const graph::Graph& graph = *context.graph;
  std::set<int> read;
  for (const Kernel* kernel : kernels) {
    for (ValuePtr load : LoadsOf(*kernel)) read.insert(load->tensor);
  }
  std::vector<Parameter> parameters;
  std::set<std::string> names;
  auto add = [&](int tensor, bool written) {
    const graph::Tensor& t = graph.tensors[tensor];
    std::string name = StrCat(written ? "out_" : "in_", Identifier(t.name));
    if (!names.insert(name).second) {
      absl::StrAppend(&name, "_", tensor);
      names.insert(name);
    }
    parameters.push_back(
        {tensor, written, name, StrCat(written ? "" : "const ", StorageType(t.type), "*")});
  };
  for (int tensor : read) add(tensor, false);
  for (const RootPlace& root : context.domain->roots) add(root.tensor, true);
  return parameters;
}

const std::string& PointerOf(const std::vector<Parameter>& parameters, int tensor) {
  for (const Parameter& parameter : parameters) {
    if (parameter.tensor == tensor) return parameter.name;
  }
  WS_CHECK(false, "a kernel uses a tensor that is none of its parameters");
  return parameters[0].name;
}

bool FitsInt(const Index& index) {
  __int128 low = 0, high = 0, added = 0;  // added: the largest sum before anything is subtracted
  for (const Index::Term& term : index.terms()) {
    const Atom& atom = *term.atom;
    if (atom.inner && (atom.divisor > kMaxIntPosition || !FitsInt(*atom.inner))) return false;
    if (atom.kind == Atom::Kind::kOpaque) continue;
    const __int128 a = static_cast<__int128>(atom.range.low) * term.coefficient,
                   b = static_cast<__int128>(atom.range.high) * term.coefficient;
    low += std::min(a, b);
    high += std::max(a, b);
    if (term.coefficient > 0) added += std::max<__int128>(b, -a);
  }
  low = std::min(low, low + index.constant());
  high = std::max(high, high + index.constant());
  return low >= -kMaxIntPosition && high <= kMaxIntPosition && added <= kMaxIntPosition;
}

bool AddressFitsInt(const graph::Graph& graph, int tensor, const Index& position) {
  if (position.has_opaque() && graph.tensors[tensor].elements() > kMaxIntPosition) return false;
  return FitsInt(position);
}

bool FitsInt(const graph::Graph& graph, const Kernel& kernel) {
  for (ValuePtr value : IndexValuesOf(kernel)) {
    if (!FitsInt(value->index)) return false;
  }
  for (ValuePtr load : LoadsOf(kernel)) {
    if (!AddressFitsInt(graph, load->tensor, load->index)) return false;
  }
  for (const Kernel::Root& root : kernel.roots) {
    if (!AddressFitsInt(graph, root.tensor, root.address)) return false;
  }
  return true;
}

bool IsContiguous(const Index& index, const Frame& frame) {
  if (frame.width == 1) return true;
  return index.CoefficientOf(frame.lane) == 1 &&
         (index.Without(frame.lane).variables() & BitOf(frame.lane)) == 0;
}

Index LaneBase(const Index& index, const Frame& frame) {
  return frame.width > 1 ? index.Without(frame.lane) : index;
}

SharedLanes SharedLanesOf(const Index& index, const Frame& frame) {
  SharedLanes shared;
  if (frame.width == 1) return shared;
  const Index lane = Index::Of(frame.lane);
  for (const Index::Term& term : index.terms()) {
    const Atom& atom = *term.atom;
    if (atom.kind != Atom::Kind::kDiv || term.coefficient != 1 || !(*atom.inner == lane)) continue;
    const Index base = index - Index::Of(term.atom);
    if ((base.variables() & BitOf(frame.lane)) != 0 || frame.width % atom.divisor != 0) continue;
    shared.base = base;
    shared.lanes = static_cast<int>(atom.divisor);
  }
  return shared;
}

Dialect MakeDialect(const GroupContext& context, const Kernel& kernel,
                    const std::vector<Parameter>& parameters, const std::string& index_type) {
  Dialect dialect;
  dialect.graph = context.graph;
  dialect.values = kernel.values.get();
  dialect.index_type = index_type;
  dialect.fast_math = context.style.fast_math;
  dialect.separate = context.style.separate;
  dialect.unrounded = context.style.unrounded;
  dialect.both_sides = context.style.carries;
  dialect.load_hint = context.style.load_hint;
  dialect.store_hint = context.style.store_hint;
  dialect.accumulator = context.style.accumulator;
  dialect.locate = [parameters](int tensor, const Index& position) {
    return std::make_pair(PointerOf(parameters, tensor), position);
  };
  return dialect;
}

std::string LaneName(const Frame& frame) { return frame.width > 1 ? "j" : "0"; }

void OpenLanes(Emitter& emitter, const Frame& frame) {
  if (frame.width == 1) return;
  emitter.Open(StrCat("for (int j = 0; j < ", frame.width, "; ++j) {"), BitOf(frame.lane), true);
}

void CloseLanes(Emitter& emitter, const Frame& frame) {
  if (frame.width > 1) emitter.Close();
}

void LoadContiguous(Emitter& emitter, const Kernel& kernel, const std::vector<ValuePtr>& targets,
                    const VectorCheck& may) {
  const Frame& frame = kernel.frame;
  if (frame.width == 1) return;
  const auto bound = [&](ValuePtr value) { return emitter.IsBound(value); };
  for (ValuePtr load : kernel.values->Closure(targets, bound)) {
    if (load->kind != Value::Kind::kLoad || emitter.IsBound(load)) continue;
    const SharedLanes shared = SharedLanesOf(load->index, frame);
    if (shared.lanes == 1 && !IsContiguous(load->index, frame)) continue;
    const Index base = shared.lanes > 1 ? shared.base : LaneBase(load->index, frame);
    const int width = frame.width / shared.lanes;
    if (!may(load, base, width) || !FitsAccesses(load->type, width)) continue;
    if (!load->args.empty() && (load->args[0]->variables & BitOf(frame.lane))) continue;
    const std::string array = emitter.NewName("w");
    emitter.Line(StrCat(StorageType(load->type), " ", array, "[", width, "];"));
    emitter.LoadVector(load, base, width, array);
    const std::string lane =
        shared.lanes > 1 ? StrCat(LaneName(frame), " / ", shared.lanes) : LaneName(frame);
    emitter.Bind(load, ToRegister(load->type, StrCat(array, "[", lane, "]")));
  }
}

std::string WhereWritten(Emitter& emitter, const Kernel::Root& root) {
  if (root.condition == nullptr) return "";
  const std::string condition = emitter.Use(root.condition);
  return root.where ? condition : StrCat("!(", condition, ")");
}

void StoreRoots(Emitter& emitter, const Dialect& dialect, const GroupContext& context,
                const Kernel& kernel, const std::vector<const Kernel::Root*>& roots,
                const std::function<bool(const Index&)>& aligned) {
  const graph::Graph& graph = *context.graph;
  const Frame& frame = kernel.frame;
  const int width = frame.width;
  std::vector<std::string> arrays;
  std::vector<bool> vectors;
  for (const Kernel::Root* root : roots) {
    const graph::DType type = graph.tensors[root->tensor].type;
    const bool parted = width > 1 && root->condition != nullptr &&
                        (root->condition->variables & BitOf(frame.lane)) != 0;
    const bool vector = width > 1 && !parted && !root->greatest && FitsAccesses(type, width) &&
                        IsContiguous(root->address, frame) && aligned(root->address);
    vectors.push_back(vector || (width == 1 && !root->greatest));
    arrays.push_back(emitter.NewName("y"));
    emitter.Line(StrCat(StorageType(type), " ", arrays.back(), "[", width, "];"));
  }
  // All of them are made before the first is stored: it may overwrite what another is made of.
  const auto make = [&](const std::function<void()>& decide) {
    OpenLanes(emitter, frame);
    decide();
    for (size_t i = 0; i < roots.size(); ++i) {
      const std::string value = emitter.Stored(roots[i]->value);
      emitter.Line(StrCat(arrays[i], "[", LaneName(frame), "] = ", value, ";"));
    }
    CloseLanes(emitter, frame);
  };
  if (roots.size() == 1 && width > 1 && !dialect.both_sides) {
    Branches(emitter, kernel, make).Write(roots[0]->value);
  } else {
    make([] {});
  }
  for (size_t i = 0; i < roots.size(); ++i) {
    const auto guard = [&] {
      const std::string where = WhereWritten(emitter, *roots[i]);
      return where.empty() ? "" : StrCat("if (", where, ") ");
    };
    if (!vectors[i]) {
      OpenLanes(emitter, frame);
      const std::string written = guard(), value = StrCat(arrays[i], "[", LaneName(frame), "]");
      emitter.Line(roots[i]->greatest
                       ? StrCat(written, "ws::global_max(",
                                emitter.Address(roots[i]->tensor, roots[i]->address), ", ", value,
                                ");")
                       : StrCat(written, emitter.Element(roots[i]->tensor, roots[i]->address),
                                " = ", value, ";"));
      CloseLanes(emitter, frame);
      continue;
    }
    const std::string written = guard();
    const Index base = width > 1 ? roots[i]->address.Without(frame.lane) : roots[i]->address;
    emitter.Line(StrCat(written, "ws::store<", width, ", ",
                        StorageType(graph.tensors[roots[i]->tensor].type), ", ", dialect.store_hint,
                        ">(", emitter.Address(roots[i]->tensor, base), ", ", arrays[i], ");"));
  }
}

std::string ByWidth(int width, const std::string& wide, const std::string& narrow) {
  if (width == 1) return wide;
  Text text;
  text.Line(StrCat("if constexpr (V == ", width, ") {"));
  text.Append(wide);
  if (!narrow.empty()) {
    text.Line("} else {");
    text.Append(narrow);
  }
  text.Line("}");
  return text.str();
}

}  // namespace warpsmith::codegen
