#include "worker/codegen/skeleton/contract/windows.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>

#include "absl/strings/str_cat.h"
#include "worker/codegen/skeleton/contract/contract.h"
#include "worker/codegen/skeleton/contract/form.h"

namespace warpsmith::codegen {
namespace {

using absl::StrCat;

// Of an image's own axes, and of a stride, by the copy engine; and of how far a window reaches
// before and behind the image, and a tap moves, with two axes or fewer, and with three.
constexpr size_t kMostAxes = 3;
constexpr int64_t kMostStride = 8;
constexpr int64_t kMostReach[] = {127, 15}, kMostMove[] = {255, 31};
// Products that the tensor cores make while memory moves a byte, for choosing how many taps a row
// has: of an H200, roughly.
constexpr double kProductsOfByte = 70;
constexpr int64_t kRowsOfTile = 64;

absl::Status No(absl::string_view why) { return absl::InvalidArgumentError(why); }

// What an operand is where all of `bounds` are at least 0; else it is zero.
struct Inside {
  ValuePtr value;
  std::vector<Index> bounds;
};

// Whether the condition is that all of some indices are at least 0, which it adds.
bool AddBounds(ValuePtr condition, std::vector<Index>& bounds) {
  if (condition->kind == Value::Kind::kOp && condition->op == graph::Op::kAnd) {
    return std::all_of(condition->args.begin(), condition->args.end(),
                       [&](ValuePtr one) { return AddBounds(one, bounds); });
  }
  if (condition->kind != Value::Kind::kCompare || condition->op != graph::Op::kLe) return false;
  bounds.push_back(condition->index);
  return true;
}

bool IsZero(ValuePtr value) {
  return value->kind == Value::Kind::kConst &&
         (graph::IsFloat(value->type) ? value->number == 0 : value->integer == 0);
}

Inside InsideOf(ValuePtr value) {
  Inside inside{value, {}};
  while (inside.value->kind == Value::Kind::kOp) {
    const ValuePtr at = inside.value;
    if (at->op == graph::Op::kCast) {
      inside.value = at->args[0];
    } else if (at->op == graph::Op::kSelect && IsZero(at->args[2])) {
      if (!AddBounds(at->args[0], inside.bounds)) break;
      inside.value = at->args[1];
    } else {
      break;
    }
  }
  return inside;
}

class Finder {
 public:
  Finder(const Domain& domain, const Kernel& points, ValuePtr b, const ContractForm& form, OfB how)
      : domain_(domain), points_(points), form_(form), inside_(InsideOf(b)) {
    windows_.how = how;
    for (ValuePtr value : points.values->Closure({b})) {
      if (value->kind == Value::Kind::kLoad || value->kind == Value::Kind::kIndex)
        indices_.push_back(value->index);
      if (value->kind == Value::Kind::kCompare) compared_.push_back(value);
    }
  }

  absl::StatusOr<Windows> Run() {
    if (form_.m == 1) return No("what its windows are multiplied with is one row");
    if (absl::Status s = PairAxes(); !s.ok()) return s;
    for (WindowAxis& axis : windows_.axes) {
      if (absl::Status s = Place(axis); !s.ok()) return s;
    }
    for (ValuePtr compare : compared_) {
      const bool bound = compare->op == graph::Op::kLe &&
                         std::find(inside_.bounds.begin(), inside_.bounds.end(), compare->index) !=
                             inside_.bounds.end();
      if (!bound && (compare->variables & moving_) != 0)
        return No("what is outside of its windows is not zero");
    }
    windows_.image_count = ExtentOf(domain_, windows_.images);
    windows_.channel_count = ExtentOf(domain_, windows_.channels);
    windows_.batch = form_.batch;
    if (windows_.how == OfB::kWindows) return ChooseTogether();
    if (windows_.how == OfB::kShifts) {
      if (form_.batch > 1) return No("its channels come in groups, each of a product of its own");
      for (const WindowAxis& axis : windows_.axes) {
        if (axis.stride > 1) return No("its windows move by more than an element");
      }
      return windows_;
    }
    for (const WindowAxis& axis : windows_.axes) {
      // Elements are had as some place's tap (BuildImage).
      if (!axis.whole() && axis.stride > 1 && axis.apart > 1)
        return No("its windows are strided and their taps apart");
    }
    return windows_;
  }

 private:
  const Variable& Of(int axis) const { return domain_.axes[axis].variable; }
  int64_t Extent(int axis) const { return domain_.axes[axis].extent(); }

  // Of a place and a tap what stands in all indices where either does; 0: they are not of one axis.
  struct Ratio {
    int64_t stride = 0, apart = 0;
  };
  Ratio RatioOf(int place, int tap, bool bounds_only) const {
    Ratio ratio;
    bool first = true;
    const auto agrees = [&](const Index& index) {
      const int64_t p = index.CoefficientOf(Of(place)), t = index.CoefficientOf(Of(tap));
      if (p == 0 && t == 0) return true;
      if (p == 0 || t == 0) return false;
      if (first) {
        const int64_t common = std::gcd(p, t) * (p < 0 ? -1 : 1);
        ratio = {p / common, t / common};
        first = false;
      }
      return ratio.stride * t == ratio.apart * p;
    };
    for (const Index& bound : inside_.bounds) {
      if (!agrees(bound)) return {};
    }
    if (bounds_only && first) return {};
    for (const Index& index : indices_) {
      if (!agrees(index)) return {};
    }
    return ratio;
  }

  // Which taps move which places: those that stand beside them in a condition, else those whose
  // steps are nearest to the places' own.
  absl::Status PairAxes() {
    std::vector<int> taps = form_.k_axes;
    std::vector<WindowAxis> found(form_.n_axes.size());
    for (size_t i = 0; i < found.size(); ++i) {
      const int place = form_.n_axes[i];
      found[i].place = place;
      found[i].places = found[i].elements = Extent(place);
    }
    for (const bool bounds : {true, false}) {
      for (size_t i = found.size(); i-- > 0;) {
        WindowAxis& axis = found[i];
        if (axis.tap >= 0 || axis.places == 1) continue;
        int best = -1;
        Ratio of_best;
        for (int tap : taps) {
          if (Extent(tap) == 1) continue;
          const Ratio ratio = RatioOf(axis.place, tap, bounds);
          if (ratio.stride == 0) continue;
          const int64_t apart = std::abs(ratio.apart);
          // Windows that overlap, of places among which a tap moves.
          if (!bounds &&
              (apart * Extent(tap) <= ratio.stride || apart >= ratio.stride * axis.places))
            continue;
          if (best >= 0 && apart + ratio.stride >= std::abs(of_best.apart) + of_best.stride)
            continue;
          best = tap;
          of_best = ratio;
        }
        if (best < 0) continue;
        axis.tap = best;
        axis.taps = Extent(best);
        axis.stride = of_best.stride;
        axis.apart = std::abs(of_best.apart);
        axis.backwards = of_best.apart < 0;
        taps.erase(std::find(taps.begin(), taps.end(), best));
      }
    }
    const auto moves = [](const WindowAxis& axis) { return axis.taps > 1; };
    const auto begin = std::find_if(found.begin(), found.end(), moves);
    if (begin == found.end()) return No("neither operand is windows of an image");
    if (found.end() - begin > static_cast<int64_t>(kMostAxes))
      return No("its windows move along more than three axes");
    for (auto axis = found.begin(); axis != begin; ++axis) windows_.images.push_back(axis->place);
    windows_.axes.assign(begin, found.end());
    windows_.channels = taps;
    for (const WindowAxis& axis : windows_.axes) {
      moving_ |= BitOf(Of(axis.place));
      if (axis.tap >= 0) moving_ |= BitOf(Of(axis.tap));
    }
    return absl::OkStatus();
  }

  // Where the image begins and ends along an axis.
  absl::Status Place(WindowAxis& axis) const {
    if (axis.tap < 0) return absl::OkStatus();  // its elements are its places
    // As taps are counted: stride * place + apart * tap, whichever way they go.
    const int64_t behind = axis.apart * (axis.taps - 1);
    const int64_t moved = axis.backwards ? behind : 0;
    int64_t low = 0, high = axis.stride * (axis.places - 1) + behind;
    const uint64_t own = BitOf(Of(axis.place)) | BitOf(Of(axis.tap));
    for (const Index& bound : inside_.bounds) {
      if ((bound.variables() & own) == 0) continue;
      const Index rest = bound.Without(Of(axis.place)).Without(Of(axis.tap));
      const int64_t by = bound.CoefficientOf(Of(axis.place)) / axis.stride;
      if (!rest.is_constant() || by == 0) return No("a condition of its windows is no axis' own");
      // 0 <= by * (stride * place +- apart * tap) + constant
      const int64_t constant = rest.constant();
      const auto floor_div = [](int64_t a, int64_t b) {
        return a / b - (a % b != 0 && (a < 0) != (b < 0));
      };
      if (by > 0)
        low = std::max(low, -floor_div(constant, by) + moved);
      else
        high = std::min(high, floor_div(constant, -by) + moved);
    }
    if (high < low) return No("its windows are all outside of the image");
    axis.first = low;
    axis.elements = high - low + 1;
    for (const Index& index : indices_) {
      const Index rest = index.Without(Of(axis.place)).Without(Of(axis.tap));
      if ((rest.variables() & own) != 0) return No("its windows do not move evenly");
    }
    return absl::OkStatus();
  }

  // Whether the copy engine can bring windows so.
  static bool IsBrought(const Windows& windows) {
    const size_t three = windows.axes.size() == kMostAxes;
    return std::all_of(windows.axes.begin(), windows.axes.end(), [&](const WindowAxis& axis) {
      if (axis.whole()) return true;
      const int64_t last = axis.lower() + axis.stride * (axis.places - 1) - (axis.rows() - 1);
      return axis.stride <= kMostStride && (axis.stride == 1 || axis.apart == 1) &&
             axis.lower() >= -kMostReach[three] && axis.lower() <= kMostReach[three] &&
             last >= -kMostReach[three] && last <= kMostReach[three] &&
             axis.apart * axis.together * (axis.steps() - 1) <= kMostMove[three];
    });
  }

  double CostOf(const Windows& windows) const {
    const double rows = static_cast<double>(windows.rows());
    const double moved = 4 * rows * static_cast<double>(windows.line());
    const auto tile = [](int64_t rows) {
      return (rows + kRowsOfTile - 1) / kRowsOfTile * kRowsOfTile;
    };
    const double products = static_cast<double>(tile(form_.m)) * static_cast<double>(form_.n) *
                            static_cast<double>(windows.depth() * windows.batch);
    return moved + products / kProductsOfByte;
  }

  // The taps of a row: of the innermost axis alone, or all of it and those of the next one, and so
  // on.
  absl::StatusOr<Windows> ChooseTogether() const {
    std::optional<Windows> best;
    double least = 0;
    Windows one = windows_;
    const auto weigh = [&] {
      if (!IsBrought(one)) return;
      const double cost = CostOf(one);
      if (best && cost >= least) return;
      best = one;
      least = cost;
    };
    weigh();
    for (auto axis = one.axes.rbegin(); axis != one.axes.rend(); ++axis) {
      // All of a row are a window's: what is not would be multiplied by zero, and may be infinite.
      for (int64_t together = 2; together <= axis->taps; ++together) {
        if (axis->taps % together != 0) continue;
        axis->together = together;
        weigh();
      }
      axis->together = axis->taps;
    }
    if (!best) return No("the copy engine can't bring its windows");
    return *best;
  }

  const Domain& domain_;
  const Kernel& points_;
  const ContractForm& form_;
  const Inside inside_;
  std::vector<Index> indices_;
  std::vector<ValuePtr> compared_;
  Windows windows_;
  uint64_t moving_ = 0;  // variables of places and taps
};

}  // namespace

int64_t Windows::inner() const {
  int64_t inner = channel_count;
  for (const WindowAxis& axis : axes) inner *= axis.together;
  return inner;
}
int64_t Windows::unit() const {  // as ws::Window has it
  constexpr int64_t kHalf = kWindowStep / 2;
  return CeilDiv(inner(), kHalf) % 2 == 1 ? kHalf : kWindowStep;
}
int64_t Windows::group() const { return CeilDiv(inner(), unit()) * unit(); }
int64_t Windows::line() const {
  constexpr int64_t kEven = 8;  // of 16 bytes
  return batch > 1 ? batch * group() : CeilDiv(inner(), kEven) * kEven;
}
bool Windows::staged() const {  // as ws::Window has it
  constexpr int64_t kMostStaged = 96;
  return batch == 1 && inner() != channel_count && line() <= kMostStaged && channel_count <= 32;
}
int64_t Windows::rows() const {
  int64_t rows = image_count;
  for (const WindowAxis& axis : axes) rows *= axis.rows();
  return rows;
}
int64_t Windows::elements() const {
  int64_t elements = image_count * channel_count * batch;
  for (const WindowAxis& axis : axes) elements *= axis.elements;
  return elements;
}
int64_t Windows::depth() const {
  if (how == OfB::kShifts) return ShiftsDepth(*this);
  int64_t depth = group();
  for (const WindowAxis& axis : axes) depth *= axis.steps();
  return CeilDiv(depth, kWindowStep) * kWindowStep;
}

absl::StatusOr<Windows> FindWindows(const Domain& domain, const Kernel& points, ValuePtr b,
                                    const ContractForm& form, OfB how) {
  return Finder(domain, points, b, form, how).Run();
}

absl::StatusOr<Kernel> BuildImage(const Analysis& group, const Domain& domain,
                                  const ContractForm& form, int width) {
  const Windows& windows = *form.windows;
  const auto make_frame = [&](Values& values) {
    Frame frame;
    frame.width = width;
    frame.axes.assign(domain.axes.size(), Index(0));
    frame.outer = values.NewVariable("b", {0, form.batch - 1});
    frame.row = values.NewVariable("row", {0, windows.rows() - width}, width);
    frame.column = values.NewVariable("m", {0, form.m - 1});  // of the other operand
    frame.k = values.NewVariable("k", {0, windows.inner() - 1});
    Index row = Index::Of(frame.row);
    frame.row_variables = BitOf(frame.outer) | BitOf(frame.row) | BitOf(frame.column);
    if (width > 1) {
      frame.lane = values.NewVariable("j", {0, width - 1});
      row = row + Index::Of(frame.lane);
      frame.row_variables |= BitOf(frame.lane);
    }
    const auto place = [&](const Index& position, const std::vector<int>& axes) {
      const std::vector<Index> at = Unflatten(position, ExtentsOf(domain, axes));
      for (size_t i = 0; i < axes.size(); ++i) frame.axes[axes[i]] = at[i];
    };
    place(Index::Of(frame.outer), form.batch_axes);
    place(Index::Of(frame.column), form.m_axes);
    std::vector<int64_t> rows = {windows.image_count}, inner;
    for (const WindowAxis& axis : windows.axes) {
      rows.push_back(axis.rows());
      inner.push_back(axis.together);
    }
    inner.push_back(windows.channel_count);
    const std::vector<Index> at = Unflatten(row, rows),
                             of_row = Unflatten(Index::Of(frame.k), inner);
    place(at[0], windows.images);
    place(of_row.back(), windows.channels);
    for (size_t i = 0; i < windows.axes.size(); ++i) {
      const WindowAxis& axis = windows.axes[i];
      Index of_place = at[i + 1], of_tap = of_row[i];
      if (!axis.whole()) {
        // Any place and tap, though of no window, that are this element.
        const Index element = at[i + 1] - axis.lower();
        of_place = FloorDiv(element, axis.stride);
        if (axis.stride > 1) of_tap = FloorMod(element, axis.stride) + of_tap;
      }
      frame.axes[axis.place] = of_place;
      if (axis.tap >= 0)
        frame.axes[axis.tap] = axis.backwards ? Index(axis.taps - 1) - of_tap : of_tap;
    }
    return frame;
  };
  Domain factors = domain;  // what is made of sums has places of its own
  factors.roots.clear();
  return BuildKernel(group.graph(), factors, group.in_memory(), make_frame);
}

int ImageWidth(const Analysis& group, const Domain& domain, const ContractForm& form, int bytes) {
  // Rows of several taps' channels are written one by one (ws::pack_image_by_rows), and places of
  // planes (ws::Shifts).
  if (form.windows->inner() != form.windows->channel_count || IsShifts(form)) return 1;
  const int64_t line = form.windows->axes.back().rows();
  for (int width = 4; width > 1; width /= 2) {
    if (line % width != 0) continue;
    const auto kernel = BuildImage(group, domain, form, width);
    if (!kernel.ok()) continue;
    const int access = AccessBytes(*kernel, OperandOf(form, *kernel, 1));
    if (access > 0 && access <= bytes) return width;
  }
  return 1;
}

std::string WindowText(const ContractForm& form, const v1::ContractKnobs& knobs) {
  const Windows& windows = *form.windows;
  std::string axes;
  for (size_t i = windows.axes.size(); i < kMostAxes; ++i)
    absl::StrAppend(&axes, "ws::WindowAxis<1, 1, 1, 1, 1, 0, 1>, ");
  for (const WindowAxis& axis : windows.axes) {
    absl::StrAppend(&axes, "ws::WindowAxis<", axis.places, ", ", axis.taps, ", ", axis.together,
                    ", ", axis.step(), ", ", axis.apart, ", ", axis.lower(), ", ", axis.rows(),
                    ">, ");
  }
  const std::string text =
      StrCat("ws::Window<", std::max<size_t>(windows.axes.size(), 2) + 2, ", ", axes,
             windows.image_count, ", ", windows.channel_count, ", ", windows.line(), ", ",
             windows.batch > 1 ? windows.group() : 0, ">");
  if (!IsShifts(form)) return text;
  const ShiftsShape shape = ShiftsOf(form, knobs);
  return StrCat("ws::Shifts<", text, ", ", PartsOf(knobs.math()), ", ", knobs.tile_m(), ", ",
                knobs.tile_n(), ", ", shape.pitch, ", ", shape.rows, ">");
}

}  // namespace warpsmith::codegen
