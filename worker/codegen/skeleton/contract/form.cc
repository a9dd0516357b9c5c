#include "worker/codegen/skeleton/contract/form.h"

#include <algorithm>
#include <set>

#include "worker/codegen/skeleton/contract/apart.h"
#include "worker/codegen/skeleton/contract/contract.h"
#include "worker/codegen/skeleton/contract/sums.h"
#include "worker/codegen/skeleton/glue.h"

namespace warpsmith::codegen {

int64_t ExtentOf(const Domain& domain, const std::vector<int>& axes) {
  int64_t extent = 1;
  for (int a : axes) extent *= domain.axes[a].extent();
  return extent;
}

std::vector<int64_t> ExtentsOf(const Domain& domain, const std::vector<int>& axes) {
  std::vector<int64_t> extents;
  for (int a : axes) extents.push_back(domain.axes[a].extent());
  return extents;
}

namespace {

// Rows of the least tiles that pieces of an operand are cut into, and what tiles may have at the
// most of what the pieces have.
constexpr int64_t kPieceRows = 64;
constexpr double kPieceWaste = 1.15;

absl::Status No(absl::string_view why) { return absl::InvalidArgumentError(why); }

// The product that the group's reduce `i` sums; nullptr and a reason.
ValuePtr ProductOf(const Analysis& group, const Domain& domain, const Kernel& points, size_t i,
                   absl::Status* why) {
  const auto refuse = [&](absl::string_view reason) {
    *why = No(reason);
    return nullptr;
  };
  if (domain.nodes.size() > 2 || domain.stages != 1 || !domain.totals.empty())
    return refuse(
        "a product of matrices stands alone in its group or beside another one, with maps round "
        "them");
  const graph::Node& node = group.graph().nodes[domain.nodes[i].node];
  if (!node.reduce || node.combiner != graph::Combiner::kSum) return refuse("it is no sum");
  for (const RootPlace& root : domain.roots) {
    if (root.level != Level::kRows || root.scatter != nullptr)
      return refuse("it writes more than an element for each sum");
  }
  const ValuePtr value = points.reduces[i].value;
  if (value->kind != Value::Kind::kOp || value->op != graph::Op::kMul)
    return refuse("what it sums is no product");
  switch (value->type) {
    case graph::DType::kF32:
    case graph::DType::kF64:
    case graph::DType::kI32:
    case graph::DType::kI64:
      return value;
    default:
      return refuse("its products are of a type that sums are not made in");
  }
}

// The domain's axes that a value depends on.
uint64_t Placed(const Domain& domain, ValuePtr value) {
  uint64_t axes = 0;
  for (const DomainAxis& axis : domain.axes) axes |= value->variables & BitOf(axis.variable);
  return axes;
}

// Whether N is the first factor's rows: the innermost of the first root's axes that is not the
// batch's is its.
bool FirstIsB(const Domain& domain, const Kernel& points, uint64_t first, uint64_t second) {
  int64_t least = 0;
  bool of_first = false;
  for (const DomainAxis& axis : domain.axes) {
    const uint64_t bit = BitOf(axis.variable);
    const bool one = (first & bit) != 0, other = (second & bit) != 0;
    if (axis.role != Role::kKept || one == other) continue;
    const int64_t stride = points.roots[0].address.CoefficientOf(axis.variable);
    if (least != 0 && (stride == 0 || stride > least)) continue;
    least = stride;
    of_first = one;
  }
  return of_first;
}

double StepsOfAll(const Kernel& points, const std::vector<ValuePtr>& made) {
  double steps = 0;
  for (ValuePtr value : points.values->Closure(made)) {
    if (value->kind == Value::Kind::kOp && value->op != graph::Op::kCast)
      steps += StepsOf(value->op);
  }
  return steps;
}

// Bytes that memory moves for an element of a type at a place, of which neighbours along neither of
// two axes may lie beside it: whole sectors.
double TouchedBytes(graph::DType type, const Index& place, const Variable& first,
                    const Variable& second) {
  const auto size = static_cast<double>(graph::SizeOf(type));
  int64_t apart = 0;  // elements
  for (const Variable& along : {first, second}) {
    if ((place.variables() & BitOf(along)) == 0) continue;
    const int64_t stride = std::abs(place.CoefficientOf(along));
    if (stride == 0) return size;  // it is divided (two elements of a byte): not known
    if (apart == 0 || stride < apart) apart = stride;
  }
  return std::min(size * static_cast<double>(std::max<int64_t>(apart, 1)), double{kSectorBytes});
}

// Whether neighbours along the variable lie side by side, as many as fill a sector at least.
bool LieBeside(const Index& place, const Variable& variable, int64_t size) {
  if (std::abs(place.CoefficientOf(variable)) > 1) return false;
  return std::all_of(place.terms().begin(), place.terms().end(), [&](const Index::Term& term) {
    const Atom& atom = *term.atom;
    const bool divides = (atom.variables & BitOf(variable)) != 0 && atom.kind == Atom::Kind::kDiv;
    return !divides || atom.divisor * size >= kSectorBytes;
  });
}

// Whether each root's elements of rows 2i and 2i + 1 lie side by side: remainders of a transposed
// convolution. `kernel`: of single elements.
bool PairsRows(const Kernel& kernel, const ContractForm& form) {
  const Frame& frame = kernel.frame;
  const Index upper = Index::Of(kernel.values->NewVariable("pair", {0, form.m / 2 - 1})) * 2;
  std::vector<Index> by(kMaxVariables);
  for (const Variable& same : {frame.outer, frame.column}) by[same.id] = Index::Of(same);
  return std::all_of(kernel.roots.begin(), kernel.roots.end(), [&](const Kernel::Root& root) {
    by[frame.row.id] = upper;
    const Index first = Substitute(root.address, by);
    by[frame.row.id] = upper + 1;
    const Index apart = Substitute(root.address, by) - first;
    return apart.is_constant() && apart.constant() == 1;
  });
}

// Neighbours along a variable that find the same element there: of x[i / 128] 128.
double SameAlong(const Index& index, const Variable& variable) {
  if (index.CoefficientOf(variable) != 0) return 1;
  int64_t same = 1;
  for (const Index::Term& term : index.terms()) {
    const Atom& atom = *term.atom;
    if ((atom.variables & BitOf(variable)) == 0) continue;
    const bool divides = atom.kind == Atom::Kind::kDiv && atom.inner->CoefficientOf(variable) == 1;
    if (!divides) return 1;
    same = same == 1 ? atom.divisor : std::min(same, atom.divisor);
  }
  return static_cast<double>(same);
}

// Bytes of what it loads from tensors in which it has a place of its own; of a select one or the
// other. `seen`: values whose bytes have been counted.
double BytesOfOperand(const Kernel& kernel, ValuePtr value, const Variable& rows,
                      std::set<ValuePtr>& seen) {
  if (!seen.insert(value).second) return 0;
  const Variable& k = kernel.frame.k;
  const uint64_t places = BitOf(rows) | BitOf(k);
  const auto of = [&](ValuePtr child) { return BytesOfOperand(kernel, child, rows, seen); };
  if (value->kind == Value::Kind::kOp && value->op == graph::Op::kSelect)
    return of(value->args[0]) + std::max(of(value->args[1]), of(value->args[2]));
  const bool places_it =
      value->kind == Value::Kind::kLoad && (value->index.variables() & places) == places;
  double bytes = 0;
  if (places_it) {
    bytes = TouchedBytes(value->type, value->index, rows, k) /
            (SameAlong(value->index, rows) * SameAlong(value->index, k));
  }
  kernel.values->ForEachChild(value, [&](ValuePtr child) { bytes += of(child); });
  return bytes;
}

// What is cast to the type of the sums, where that has 16 bits.
ValuePtr NarrowOf(ValuePtr operand) {
  const bool cast = operand->kind == Value::Kind::kOp && operand->op == graph::Op::kCast &&
                    operand->type == graph::DType::kF32 && IsHalf(operand->args[0]->type);
  return cast ? operand->args[0] : nullptr;
}

bool RoundsToFewer(const graph::ExprPtr& e) {
  switch (e->op) {
    case graph::Op::kE4m3:
    case graph::Op::kRound:
    case graph::Op::kFloor:
    case graph::Op::kCeil:
    case graph::Op::kTrunc:
      return true;
    default:
      return std::any_of(e->args.begin(), e->args.end(), RoundsToFewer);
  }
}

// Whether all that the product writes has 16 bits, nothing is made of it that is rounded to fewer,
// and it is made of nothing that was rounded to fewer behind a sum: what a sum's last digits decide
// there is seen, and an answer that some of them decided may miss the tolerance already.
bool IsCoarse(const graph::Graph& graph, const std::vector<Kernel::Root>& roots, int product) {
  std::set<int> made, summed, drawn;  // of the roots, of sums, of what sums' last digits decide
  for (const Kernel::Root& root : roots) {
    if (!IsHalf(root.value->type)) return false;
    made.insert(root.tensor);
  }
  for (size_t id = 0; id < graph.nodes.size(); ++id) {
    const graph::Node& node = graph.nodes[id];
    const std::vector<int> loaded = graph::LoadedTensors(node.value);
    const auto loads = [&](const std::set<int>& tensors) {
      return std::any_of(loaded.begin(), loaded.end(), [&](int t) { return tensors.count(t) > 0; });
    };
    const auto add = [&](std::set<int>& tensors) {
      tensors.insert(node.outputs.begin(), node.outputs.end());
    };
    const bool rounds = RoundsToFewer(node.value);
    if (loads(drawn) || (rounds && loads(summed))) add(drawn);
    if (loads(summed) || (!node.map() && node.combiner == graph::Combiner::kSum)) add(summed);
    if (loads(made)) {
      if (rounds) return false;
      add(made);
    }
    if (static_cast<int>(id) == product && loads(drawn)) return false;
  }
  return true;
}

FrameMaker ContractFrame(const Domain& domain, const ContractForm& form, Lane lane, int width) {
  return [&domain, &form, lane, width](Values& values) {
    const auto made = [&](const char* name, int64_t extent, Lane along) {
      const int lanes = lane == along && along != Lane::kNone ? width : 1;
      return values.NewVariable(name, {0, std::max<int64_t>(0, extent - lanes)}, lanes);
    };
    Frame frame;
    frame.width = width;
    frame.outer = made("b", form.batch, Lane::kNone);
    frame.row = made("m", form.m, Lane::kM);
    frame.column = made("n", form.n, Lane::kN);
    frame.k = made("k", form.k, Lane::kK);
    Index b = Index::Of(frame.outer), m = Index::Of(frame.row), n = Index::Of(frame.column),
          k = Index::Of(frame.k);
    frame.row_variables = BitOf(frame.outer) | BitOf(frame.row) | BitOf(frame.column);
    if (width > 1) {
      frame.lane = values.NewVariable("j", {0, width - 1});
      Index& along = lane == Lane::kM ? m : lane == Lane::kN ? n : k;
      along = along + Index::Of(frame.lane);
      if (lane != Lane::kK) frame.row_variables |= BitOf(frame.lane);
    }
    frame.axes.resize(domain.axes.size());
    const auto place = [&](const Index& position, const std::vector<int>& axes) {
      const std::vector<Index> at = Unflatten(position, ExtentsOf(domain, axes));
      for (size_t i = 0; i < axes.size(); ++i) frame.axes[axes[i]] = at[i];
    };
    if (form.parts > 1) {
      m = FloorMod(b, form.parts) * form.m + m;
      b = FloorDiv(b, form.parts);
    }
    place(b, form.batch_axes);
    place(m, form.m_axes);
    place(n, form.n_axes);
    place(k, form.k_axes);
    if (form.windows) {
      for (const WindowAxis& axis : form.windows->axes) {
        if (axis.backwards) frame.axes[axis.tap] = Index(axis.taps - 1) - frame.axes[axis.tap];
      }
    }
    return frame;
  };
}

// Whether what memory says tells each lane where (a table of what codes mean): lanes are had one by
// one, beside what they are told by.
bool IsFoundByLanes(const Index& index, const Frame& frame) {
  return std::any_of(index.terms().begin(), index.terms().end(), [&](const Index::Term& term) {
    return term.atom->kind == Atom::Kind::kOpaque &&
           (term.atom->variables & BitOf(frame.lane)) != 0;
  });
}

// Where elements of an operand with k from range.low up to range.high lie: those of a load,
// whatever it needs.
std::optional<Strided> LinesOf(const ContractForm& form, const Kernel& kernel, int operand,
                               ValuePtr load, Range range) {
  const bool is_float = IsHalf(load->type) || load->type == graph::DType::kF32;
  if (!is_float && load->type != graph::DType::kU8) return std::nullopt;
  const int64_t even = 16 / graph::SizeOf(load->type);  // elements of 16 bytes
  const Frame& frame = kernel.frame;
  const int64_t rows = operand == 0 ? form.m : form.n, extent = range.high - range.low;
  Strided at;
  at.tensor = load->tensor;
  at.type = load->type;
  Index rest = load->index;
  const auto take = [&](const Variable& variable) {
    const int64_t stride = rest.CoefficientOf(variable);
    rest = rest.Without(variable);
    return stride;
  };
  at.batch = take(frame.outer);
  at.row = take(operand == 0 ? frame.row : frame.column);
  at.k = take(frame.k);
  if (!rest.is_constant()) return std::nullopt;
  at.offset = rest.constant() + at.k * range.low;
  at.along_rows = at.row == 1 && at.k != 1;
  const int64_t inner = at.along_rows ? at.row : at.k, outer = at.along_rows ? at.k : at.row;
  const int64_t inner_extent = at.along_rows ? rows : extent,
                outer_extent = at.along_rows ? extent : rows;
  const auto stands = [&](int64_t stride, int64_t extent, int64_t at_multiples) {
    return extent == 1 || (stride > 0 && stride % at_multiples == 0);
  };
  const auto all_stand = [&](int64_t at_multiples) {
    return stands(outer, outer_extent, at_multiples) &&
           (at.batch == 0 || stands(at.batch, form.batch, at_multiples));
  };
  at.even = all_stand(even) && at.offset % even == 0;
  const bool lines = (inner == 1 || inner_extent == 1) && all_stand(1);
  return lines ? std::optional<Strided>(at) : std::nullopt;
}

}  // namespace

int AccessBytes(const Kernel& kernel, ValuePtr operand) {
  const Frame& frame = kernel.frame;
  int bytes = 0;
  for (ValuePtr load : kernel.values->Closure({operand})) {
    if (load->kind != Value::Kind::kLoad || (load->variables & BitOf(frame.lane)) == 0 ||
        IsFoundByLanes(load->index, frame))
      continue;
    const bool parted = !load->args.empty() && (load->args[0]->variables & BitOf(frame.lane)) != 0;
    const SharedLanes shared = SharedLanesOf(load->index, frame);
    const int width = frame.width / shared.lanes;
    const bool vector =
        shared.lanes > 1 ? shared.base.multiple() % width == 0 : IsVector(load->index, frame);
    if (parted || !vector || !FitsVector(load->type, width)) return 0;
    bytes = std::max(bytes, width * static_cast<int>(graph::SizeOf(load->type)));
  }
  return bytes;
}

bool IsVector(const Index& index, const Frame& frame) {
  return IsContiguous(index, frame) && LaneBase(index, frame).multiple() % frame.width == 0;
}

namespace {

// The form with its axes, and all that follows from them. `a` and `b`: the operands in `points`.
void Complete(const Analysis& group, const Domain& domain, const Kernel& points, ValuePtr a,
              ValuePtr b, ContractForm& form) {
  form.m = ExtentOf(domain, form.m_axes);
  form.n = ExtentOf(domain, form.n_axes);
  form.k = ExtentOf(domain, form.k_axes);
  form.batch = ExtentOf(domain, form.batch_axes);
  if (form.m == 1 && form.n == 1) form.status = No("its factors share all axes of the result");
  if (!form.status.ok()) return;
  const auto kernel = BuildContract(group, domain, form, Lane::kNone, 1);
  form.status = kernel.status();
  if (!kernel.ok()) return;
  for (ValuePtr value : kernel->values->Closure(TargetsOf(*kernel))) {
    if (value->kind != Value::Kind::kReduce) continue;
    form.status = No("what stands round it sums in a loop of a thread");
    return;
  }
  if (form.pair) {
    form.second = StridedOf(form, *kernel, 2, OperandOf(form, *kernel, 2));
    const auto first = StridedOf(form, *kernel, 1, OperandOf(form, *kernel, 1));
    const bool alike = first && form.second && first->even && form.second->even &&
                       first->type == form.second->type &&
                       first->along_rows == form.second->along_rows &&
                       (first->batch == 0) == (form.second->batch == 0);
    if (!alike) form.status = No("what two products of one factor are made with lies differently");
    if (!form.status.ok()) return;
  }
  const std::vector<bool> constant = graph::ConstantTensors(group.graph());
  for (int operand : {0, 1}) {
    const ValuePtr narrow = NarrowOf(OperandOf(form, *kernel, operand));
    form.elements[operand] = narrow != nullptr ? narrow->type : form.sums;
    const Variable& rows = operand == 0 ? kernel->frame.row : kernel->frame.column;
    std::set<ValuePtr> seen;
    form.bytes[operand] = BytesOfOperand(*kernel, OperandOf(form, *kernel, operand), rows, seen);
    form.beside_bytes[operand] = 0;
    form.reads[operand].clear();
    form.constant[operand] = group.graph().constant_params;
    for (ValuePtr load : kernel->values->Closure({OperandOf(form, *kernel, operand)})) {
      if (load->kind != Value::Kind::kLoad) continue;
      form.reads[operand].push_back(load->tensor);
      form.constant[operand] = form.constant[operand] && constant[load->tensor];
      if ((load->index.CoefficientOf(kernel->frame.k) != 0 || load->index.CoefficientOf(rows) != 0))
        form.beside_bytes[operand] += graph::SizeOf(load->type);
    }
    const auto strided = StridedOf(form, *kernel, operand, OperandOf(form, *kernel, operand));
    if (strided && strided->even) form.strided[operand] = strided;
  }
  form.scattered = 0;
  form.fills_sectors = true;
  for (const Kernel::Root& root : kernel->roots) {
    form.scattered +=
        TouchedBytes(root.value->type, root.address, kernel->frame.row, kernel->frame.column) -
        static_cast<double>(graph::SizeOf(root.value->type));
    form.fills_sectors = form.fills_sectors && LieBeside(root.address, kernel->frame.column,
                                                         graph::SizeOf(root.value->type));
  }
  form.row_pairs = !form.fills_sectors && form.m % 2 == 0 && PairsRows(*kernel, form);
  std::vector<ValuePtr> ends;
  for (const Kernel::Root& root : kernel->roots) ends.push_back(root.value);
  form.own_bytes = form.row_words = 0;
  const uint64_t of_row = BitOf(kernel->frame.outer) | BitOf(kernel->frame.row);
  for (ValuePtr load : kernel->values->Closure(ends)) {
    if (load->kind != Value::Kind::kLoad || (load->variables & BitOf(kernel->frame.row)) == 0)
      continue;
    const int64_t bytes = graph::SizeOf(load->type);
    form.own_bytes += bytes;
    if ((load->variables & ~of_row) == 0 && bytes <= 4) ++form.row_words;
  }
  form.end_steps = StepsOfAll(*kernel, ends);
  form.steps = {StepsOfAll(points, {a}), StepsOfAll(points, {b})};
  TakeApart(group, domain, form);
}

// Whether the copy engine can bring both operands, of 16 bits, as they lie.
bool IsBrought(const ContractForm& form) {
  return form.halves() && !IsPacked(form, 0, v1::PRODUCT_TENSOR) &&
         !IsPacked(form, 1, v1::PRODUCT_TENSOR);
}

}  // namespace

namespace {

// Completes a form that has its axes with windows of its B; false: its status says why not.
bool FindWindowsOf(const Analysis& group, const Domain& domain, const Kernel& points, ValuePtr a,
                   ValuePtr b, OfB how, ContractForm& form) {
  form.batch = ExtentOf(domain, form.batch_axes);
  form.m = ExtentOf(domain, form.m_axes);
  form.n = ExtentOf(domain, form.n_axes);
  auto found = form.pair ? absl::StatusOr<Windows>(No("there are two products together"))
                         : FindWindows(domain, points, b, form, how);
  form.status = found.status();
  if (!found.ok()) return false;
  form.k_axes.clear();
  for (const WindowAxis& axis : found->axes) {
    if (axis.tap >= 0) form.k_axes.push_back(axis.tap);
  }
  form.k_axes.insert(form.k_axes.end(), found->channels.begin(), found->channels.end());
  form.windows = *std::move(found);
  Complete(group, domain, points, a, b, form);
  if (form.status.ok()) form.status = PlaceSums(group, domain, form);
  return form.status.ok();
}

}  // namespace

ContractForm FormContract(const Analysis& group, const Domain& domain, bool unrounded, OfB of_b) {
  ContractForm form;
  form.unrounded = unrounded;
  const absl::StatusOr<Kernel>& points = group.PointsOf(domain);
  form.status = points.status();
  if (!points.ok()) return form;
  const ValuePtr product = ProductOf(group, domain, *points, 0, &form.status);
  if (product == nullptr) return form;
  form.sums = product->type;
  form.coarse = IsCoarse(group.graph(), points->roots, domain.nodes[0].node);
  form.tolerant = group.graph().tolerance_alone;
  ValuePtr a = product->args[0], b = product->args[1];
  if (FirstIsB(domain, *points, a->variables, b->variables)) std::swap(a, b);
  form.pair = domain.nodes.size() == 2;
  if (form.pair) {
    const ValuePtr other = ProductOf(group, domain, *points, 1, &form.status);
    if (other == nullptr) return form;
    const int shared = other->args[0] == a ? 0 : 1;
    if (other->type != form.sums || other->args[shared] != a ||
        Placed(domain, other->args[1 - shared]) != Placed(domain, b)) {
      form.status = No("two products together have one factor, of their rows, in common");
      return form;
    }
    form.coarse = form.coarse && IsCoarse(group.graph(), points->roots, domain.nodes[1].node);
  }
  for (size_t i = 0; i < domain.axes.size(); ++i) {
    const DomainAxis& axis = domain.axes[i];
    const int at = static_cast<int>(i);
    const bool in_a = (a->variables & BitOf(axis.variable)) != 0,
               in_b = (b->variables & BitOf(axis.variable)) != 0;
    if (axis.role == Role::kReduced) {
      if (axis.extent() > 1 && !(in_a && in_b)) {
        form.status = No("it sums over what one factor alone has");
        return form;
      }
      form.k_axes.push_back(at);
    } else if (in_a == in_b) {
      if (axis.extent() > 1 && !in_a) {
        form.status = No("an axis of the result is none of its factors'");
        return form;
      }
      form.batch_axes.push_back(at);
    } else {
      (in_a ? form.m_axes : form.n_axes).push_back(at);
    }
  }
  if (of_b != OfB::kRows) {
    // Of the factor that has more rows, whichever way results lie.
    ContractForm turned = form;
    std::swap(turned.m_axes, turned.n_axes);
    const bool turns = ExtentOf(domain, turned.n_axes) > ExtentOf(domain, form.n_axes);
    if (FindWindowsOf(group, domain, *points, turns ? b : a, turns ? a : b, of_b,
                      turns ? turned : form))
      return turns ? turned : form;
    if (FindWindowsOf(group, domain, *points, turns ? a : b, turns ? b : a, of_b,
                      turns ? form : turned))
      return turns ? form : turned;
    return form.status.ok() ? turned : form;
  }
  // Rows of an operand that lie in pieces (x of W x[b], for all b) can be brought as batches of
  // which the other is the same for all, where tiles fit the pieces.
  const ContractForm axes = form;
  Complete(group, domain, *points, a, b, form);
  if (form.status.ok()) form.status = PlaceSums(group, domain, form);
  if (!form.status.ok() || form.summed >= 0 || form.batch > 1 || form.pair || !form.halves() ||
      IsBrought(form))
    return form;
  for (const bool rows : {false, true}) {
    ContractForm pieces = axes;
    std::vector<int>& of = rows ? pieces.m_axes : pieces.n_axes;
    const auto whole = std::find_if(of.begin(), of.end(),
                                    [&](int axis) { return domain.axes[axis].extent() > 1; });
    if (of.end() - whole < 2) continue;
    pieces.batch_axes.push_back(*whole);
    of.erase(whole);
    Complete(group, domain, *points, a, b, pieces);
    if (!pieces.status.ok() || !IsBrought(pieces)) continue;
    const int64_t piece = rows ? pieces.m : pieces.n;
    if (CeilDiv(piece, kPieceRows) * kPieceRows <= piece * kPieceWaste) return pieces;
  }
  return form;
}

absl::StatusOr<Kernel> BuildContract(const Analysis& group, const Domain& domain,
                                     const ContractForm& form, Lane lane, int width) {
  auto kernel = BuildKernel(group.graph(), domain, group.in_memory(),
                            ContractFrame(domain, form, lane, width));
  if (kernel.ok() && OperandOf(form, *kernel, 0) == nullptr)
    return absl::InternalError("a product of matrices that is none in its own variables");
  return kernel;
}

ValuePtr OperandOf(const ContractForm& form, const Kernel& kernel, int operand) {
  const ValuePtr product = kernel.reduces[operand / 2].value;
  if (product->kind != Value::Kind::kOp || product->op != graph::Op::kMul) return nullptr;
  const auto variables = [&](const std::vector<int>& axes) {
    uint64_t all = 0;
    for (int a : axes) all |= kernel.frame.axes[a].variables();
    return all;
  };
  // One of M and N has rows.
  const ValuePtr first = product->args[0], second = product->args[1];
  const uint64_t of_m = variables(form.m_axes), of_n = variables(form.n_axes);
  const bool first_is_a =
      of_m != 0 ? (first->variables & of_m) != 0 : (second->variables & of_n) != 0;
  ValuePtr value = product->args[(operand == 0) == first_is_a ? 0 : 1];
  const ValuePtr narrow = form.unrounded ? NarrowOf(value) : nullptr;
  const bool rounds = narrow != nullptr && narrow->kind == Value::Kind::kOp &&
                      narrow->op == graph::Op::kCast && narrow->args[0]->type == graph::DType::kF32;
  return rounds ? narrow->args[0] : value;
}

std::optional<Strided> StridedOf(const ContractForm& form, const Kernel& kernel, int operand,
                                 ValuePtr element) {
  const ValuePtr narrow = NarrowOf(element);
  const ValuePtr load = narrow != nullptr ? narrow : element;
  if (load->kind != Value::Kind::kLoad || !load->args.empty()) return std::nullopt;
  if (load->type == graph::DType::kU8) return std::nullopt;
  return LinesOf(form, kernel, operand, load, {0, form.k});
}

std::optional<Strided> BitsOf(const ContractForm& form, const Kernel& kernel, int operand,
                              ValuePtr element) {
  const auto argument = [](ValuePtr value) {
    return value->kind == Value::Kind::kOp ? value->args[0] : value;
  };
  const ValuePtr narrow = NarrowOf(element);
  const ValuePtr number = narrow != nullptr ? narrow : element;
  if (number->kind != Value::Kind::kOp || number->op != graph::Op::kE4m3OfBits) return std::nullopt;
  ValuePtr load = argument(number);
  if (load->kind == Value::Kind::kOp && load->op == graph::Op::kCast) load = argument(load);
  if (load->kind != Value::Kind::kLoad || load->type != graph::DType::kU8 || !load->args.empty())
    return std::nullopt;
  const auto lines = LinesOf(form, kernel, operand, load, {0, form.k});
  return lines && lines->even && !lines->along_rows ? lines : std::nullopt;
}

std::optional<Joined> JoinedOf(const ContractForm& form, const Kernel& kernel, int operand,
                               ValuePtr element, int64_t step) {
  const ValuePtr narrow = NarrowOf(element);
  const ValuePtr both = narrow != nullptr ? narrow : element;
  if (both->kind != Value::Kind::kOp || both->op != graph::Op::kSelect) return std::nullopt;
  const ValuePtr condition = both->args[0];
  if (condition->kind != Value::Kind::kCompare || condition->op != graph::Op::kLe)
    return std::nullopt;
  // 0 <= cut - 1 - k of the first part, or 0 <= k - cut of the second.
  const Variable& k = kernel.frame.k;
  const int64_t by = condition->index.CoefficientOf(k);
  const Index rest = condition->index.Without(k);
  if ((by != 1 && by != -1) || !rest.is_constant()) return std::nullopt;
  Joined joined;
  joined.cut = by < 0 ? rest.constant() + 1 : -rest.constant();
  if (joined.cut <= 0 || joined.cut >= form.k || joined.cut % step != 0) return std::nullopt;
  for (const int part : {0, 1}) {
    const ValuePtr load = both->args[(part == 0) == (by < 0) ? 1 : 2];
    if (load->kind != Value::Kind::kLoad) return std::nullopt;
    // It may need no more than that it is this part.
    for (ValuePtr needed : load->args) {
      const bool is = needed == condition ||
                      (needed->kind == Value::Kind::kCompare && needed->op == graph::Op::kLe &&
                       needed->index == Index(-1) - condition->index);
      if (!is) return std::nullopt;
    }
    const Range range = part == 0 ? Range{0, joined.cut} : Range{joined.cut, form.k};
    const auto lines = LinesOf(form, kernel, operand, load, range);
    if (!lines || !lines->even) return std::nullopt;
    joined.parts[part] = *lines;
  }
  const auto& [first, second] = joined.parts;
  const bool alike = first.type == second.type && first.along_rows == second.along_rows &&
                     (first.batch == 0) == (second.batch == 0);
  return alike ? std::optional<Joined>(joined) : std::nullopt;
}

Reading ReadingOf(const Analysis& group, const Domain& domain, const ContractForm& form,
                  int operand, int bytes, bool only_along_k) {
  const int64_t rows = operand == 0 ? form.m : form.n;
  Reading best;
  int most = 0;
  for (const bool along_rows : {false, true}) {
    if (along_rows && only_along_k) continue;
    const Lane lane = !along_rows ? Lane::kK : operand == 0 ? Lane::kM : Lane::kN;
    for (int width = 16; width > 1; width /= 2) {
      if ((along_rows ? rows : form.k) % width != 0) continue;
      const auto kernel = BuildContract(group, domain, form, lane, width);
      if (!kernel.ok()) continue;
      const int access = AccessBytes(*kernel, OperandOf(form, *kernel, operand));
      if (access > bytes || access <= most) continue;
      most = access;
      best = {along_rows, width};
    }
  }
  if (most > 0 || only_along_k) return best;
  // One by one, in the order in which they lie.
  const auto kernel = BuildContract(group, domain, form, Lane::kNone, 1);
  if (!kernel.ok()) return best;
  const Variable& row = operand == 0 ? kernel->frame.row : kernel->frame.column;
  const uint64_t places = BitOf(row) | BitOf(kernel->frame.k);
  double along_row = 0, along_k = 0;  // bytes that memory moves for an element, if read so
  for (ValuePtr load : kernel->values->Closure({OperandOf(form, *kernel, operand)})) {
    // What is the same for a row or for a column of the operand is little.
    if (load->kind != Value::Kind::kLoad || (load->index.variables() & places) != places) continue;
    along_row += TouchedBytes(load->type, load->index, row, row);
    along_k += TouchedBytes(load->type, load->index, kernel->frame.k, kernel->frame.k);
  }
  best.along_rows = along_row < along_k;
  return best;
}

namespace {

// Whether lanes are not neighbours, but evenly apart: one by one, from where the first lies.
bool IsEvenlyApart(const Index& index, const Frame& frame) {
  const int64_t apart = index.CoefficientOf(frame.lane);
  return apart != 0 && apart != 1 &&
         (index.Without(frame.lane).variables() & BitOf(frame.lane)) == 0;
}

}  // namespace

int FinishWidth(const Analysis& group, const Domain& domain, const ContractForm& form, int most,
                bool apart) {
  for (int width = most; width > 1; width /= 2) {
    if (form.n % width != 0) continue;
    const auto kernel = BuildContract(group, domain, form, Lane::kN, width);
    if (!kernel.ok()) continue;
    if (std::all_of(kernel->roots.begin(), kernel->roots.end(), [&](const Kernel::Root& root) {
          return (apart && IsEvenlyApart(root.address, kernel->frame)) ||
                 (IsVector(root.address, kernel->frame) && FitsAccesses(root.value->type, width));
        })) {
      return width;
    }
  }
  return 1;
}

}  // namespace warpsmith::codegen
