// Convolutions and their gradients, as sums of products over windows: of one, two and three
// dimensions, strided, dilated, in groups, transposed. Factors of f16 and bf16 are multiplied and
// summed in f32; the sum is rounded, then a bias is added and that rounded, as cuDNN's convolution
// and PyTorch's addition behind it do (a processor's rounds once).
//
// A transposed convolution adds x[i] w[k] to y[i s + k d - p] in each dimension. Its places
// t = y's + p are q s + r: they are summed by their remainders r, each over those k alone that
// reach them, so that no inserted zero is multiplied (only those beyond the ends of x). Where that
// is little more all remainders of a place q s + r of y are one sum, of zeros beyond the ends of w
// for some; its elements are those of y as they lie.
#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cli/import/lowering.h"
#include "cli/import/windows.h"

namespace warpsmith::import {
namespace {

using graph::Cast;
using graph::Combiner;
using graph::DType;
using graph::ExprPtr;
using graph::Load;

// What a convolution says for each dimension.
struct Convolution {
  std::vector<int64_t> stride, padding, dilation;
  int64_t groups = 1;
  size_t rank() const { return stride.size(); }
};

Convolution ConvolutionOf(const Lowering& l, size_t rank) {
  // A list of one number is for all dimensions.
  const auto spread = [&](std::string_view argument) {
    std::vector<int64_t> list = l.Ints(argument);
    return list.size() == 1 ? std::vector<int64_t>(rank, list[0]) : list;
  };
  return {spread("stride"), spread("padding"), spread("dilation"), l.Int("groups")};
}

// Channels of a result in groups: an axis, or one of the groups and one of the channels in each.
struct Channels {
  int64_t groups, each;
  bool split() const { return groups > 1 && each > 1; }
  void AddTo(Shape& shape) const {
    if (split()) shape.push_back(groups);
    shape.push_back(split() ? each : groups * each);
  }
  // Of the indexes from `axis` on, which it leaves behind the channels'.
  ExprPtr Group(const Exprs& at, size_t axis) const { return groups > 1 ? at[axis] : I(0); }
  ExprPtr InGroup(const Exprs& at, size_t axis) const {
    return split() ? at[axis + 1] : groups > 1 ? I(0) : at[axis];
  }
  size_t axes() const { return split() ? 2 : 1; }
  // Adds to `at` where in a tensor with the axis or the axes the channel lies.
  void AddPlace(const ExprPtr& channel, Exprs& at) const {
    if (!split()) return at.push_back(channel);
    at.push_back(Div(channel, I(each)));
    at.push_back(Mod(channel, I(each)));
  }
};

ExprPtr ChannelOf(const ExprPtr& group, int64_t each, const ExprPtr& in_group) {
  return Add(Mul(group, I(each)), in_group);
}

// y[n, c, o] = sum over a group's channels and k: x[n, c', o s + k d - p] w[c, c', k], of `type`.
int Convolve(Lowering& l, const Convolution& c, int x, int w, Shape out, DType type,
             const std::string& name) {
  const Shape kernel = l.ShapeOf(w);
  const Channels channels{c.groups, kernel[0] / c.groups};
  Shape shape = {out[0]};
  channels.AddTo(shape);
  shape.insert(shape.end(), out.begin() + 2, out.end());
  const size_t first = 1 + channels.axes();
  const auto element = [&](const Exprs& at, const Exprs& in) {
    const ExprPtr group = channels.Group(at, 1);
    std::vector<Place> places;
    for (size_t dim = 0; dim < c.rank(); ++dim) {
      places.push_back(PlaceOf(at[first + dim], out[2 + dim], c.stride[dim], in[1 + dim],
                               kernel[2 + dim], c.dilation[dim], c.padding[dim]));
    }
    Exprs of_w = {ChannelOf(group, channels.each, channels.InGroup(at, 1))};
    of_w.insert(of_w.end(), in.begin(), in.end());
    return Mul(Padded(l, x, type, {at[0], ChannelOf(group, kernel[1], in[0])}, places, 0),
               Cast(type, Load(l.graph, w, std::move(of_w))));
  };
  const Shape window(kernel.begin() + 1, kernel.end());
  if (!channels.split()) return l.AddWindow(name, Combiner::kSum, shape, window, element);
  const int sum = l.AddWindow(l.Name("groups"), Combiner::kSum, shape, window, element);
  return l.AddMap(name, out, [&](const Exprs& at) {
    Exprs place = {at[0]};
    channels.AddPlace(at[1], place);
    place.insert(place.end(), at.begin() + 2, at.end());
    return Load(l.graph, sum, std::move(place));
  });
}

// Of one dimension: remainders of t that are reached alike, those from `remainder` on. They are
// reached by k = `first` + (which of them) + `step` j, `taps` of them, from x's q + shift - back j.
struct Phase {
  int64_t remainder = 0, count = 1;
  int64_t first = 0, step = 1, taps = 1;
  int64_t shift = 0, back = 1;
  int64_t last() const { return first + count - 1 + step * (taps - 1); }  // of these k
};
// How places are taken apart: t = y's + origin is q s + r, q one of `count` from `first` on.
struct Remainders {
  int64_t origin = 0, first = 0, count = 1;
  std::vector<Phase> phases;
};

// What remainders may cost more as one sum of y's own places, in products, where they are several
// sums otherwise, and where they are one as it is.
constexpr double kMostTogether = 2.5, kMostOfOne = 1.5;

std::vector<Phase> PhasesOf(int64_t kernel, int64_t stride, int64_t dilation) {
  std::vector<Phase> phases;
  if (dilation == 1) {
    // Of k = r + s j the first kernel % stride remainders have one more.
    const int64_t more = kernel % stride, taps = kernel / stride;
    if (more > 0) phases.push_back({0, more, 0, stride, taps + 1, 0, 1});
    if (taps > 0) phases.push_back({more, stride - more, more, stride, taps, 0, 1});
    return phases;
  }
  const int64_t common = std::gcd(stride, dilation), step = stride / common;
  for (int64_t first = 0; first < std::min(step, kernel); ++first) {
    const int64_t remainder = first * dilation % stride;
    phases.push_back({remainder, 1, first, step, (kernel - first + step - 1) / step,
                      (remainder - first * dilation) / stride, dilation / common});
  }
  return phases;
}

int64_t FloorDivide(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

// All remainders of y's own places q s + r as one: x[q + shift - j] times w[r + p - shift s + s j].
Phase Together(int64_t kernel, int64_t stride, int64_t padding) {
  const int64_t shift = FloorDivide(stride - 1 + padding, stride);
  const int64_t least = -FloorDivide(kernel - 1 - padding, stride);  // of x's places, less q
  return {0, stride, padding - shift * stride, stride, shift - least + 1, shift, 1};
}

// Of each dimension of a transposed one, with a kernel for two channels and so much of a result.
std::vector<Remainders> RemaindersOf(const Convolution& c, const Shape& kernel, const Shape& out) {
  double cost = 1;
  std::vector<Remainders> apart, together;
  for (size_t dim = 0; dim < c.rank(); ++dim) {
    const int64_t s = c.stride[dim], p = c.padding[dim], k = kernel[2 + dim], o = out[2 + dim];
    apart.push_back({p, p / s, (p + o - 1) / s - p / s + 1, PhasesOf(k, s, c.dilation[dim])});
    const Phase all = Together(k, s, p);
    together.push_back({0, 0, (o + s - 1) / s, {all}});
    cost *= c.dilation[dim] == 1 ? static_cast<double>(all.taps * s) / static_cast<double>(k)
                                 : 2 * kMostTogether;
  }
  const bool one = std::all_of(apart.begin(), apart.end(), [](const Remainders& remainders) {
    return remainders.phases.size() == 1;
  });
  return cost <= (one ? kMostOfOne : kMostTogether) ? together : apart;
}

// Whether the sums of a transposed one are few enough to be written out: beside each other they are
// choices within choices.
absl::Status CheckPhases(const Lowering& l, const Convolution& c, const Shape& kernel,
                         const Shape& out) {
  constexpr int64_t kMost = 64;
  int64_t parts = 1;
  for (const Remainders& remainders : RemaindersOf(c, kernel, out)) {
    parts *= static_cast<int64_t>(remainders.phases.size());
    if (parts > kMost)
      return l.Unsupported(absl::StrCat("a stride and a dilation of which more than ", kMost,
                                        " sums become is not supported"));
  }
  return absl::OkStatus();
}

// y[n, c, t - p] = sum over a group's channels, i and k with i s + k d = t: x[n, c', i] w[c', c,
// k], of `type`.
int Transpose(Lowering& l, const Convolution& c, int x, int w, Shape out, DType type,
              const std::string& name) {
  const Shape kernel = l.ShapeOf(w);
  const int64_t in_group = kernel[0] / c.groups;
  const Channels channels{c.groups, kernel[1]};
  const size_t rank = c.rank();
  const std::vector<Remainders> dims = RemaindersOf(c, kernel, out);

  // A sum for each choice of a phase in every dimension.
  struct Part {
    std::vector<Phase> phases;
    int sum;
  };
  std::vector<Part> parts;
  std::vector<size_t> choice(rank, 0);
  const bool whole = !channels.split() && std::all_of(c.stride.begin(), c.stride.end(),
                                                      [](int64_t s) { return s == 1; });
  for (bool more = true; more;) {
    std::vector<Phase> chosen;
    for (size_t dim = 0; dim < rank; ++dim) chosen.push_back(dims[dim].phases[choice[dim]]);
    Shape shape = {out[0]}, window = {in_group};
    channels.AddTo(shape);
    for (size_t dim = 0; dim < rank; ++dim) {
      shape.push_back(dims[dim].count);
      if (chosen[dim].count > 1) shape.push_back(chosen[dim].count);
      window.push_back(chosen[dim].taps);
    }
    const auto element = [&](const Exprs& at, const Exprs& in) {
      const ExprPtr group = channels.Group(at, 1);
      std::vector<Place> places;
      Exprs of_w = {ChannelOf(group, in_group, in[0]), channels.InGroup(at, 1)};
      ExprPtr within;
      size_t axis = 1 + channels.axes();
      for (size_t dim = 0; dim < rank; ++dim) {
        const Phase& phase = chosen[dim];
        const ExprPtr& j = in[1 + dim];
        const int64_t from = dims[dim].first + phase.shift;
        places.push_back({Sub(Add(at[axis++], I(from)), Mul(j, I(phase.back))),
                          from - phase.back * (phase.taps - 1), from + dims[dim].count - 1});
        ExprPtr k = Add(Mul(j, I(phase.step)), I(phase.first));
        if (phase.count > 1) k = Add(k, at[axis++]);
        if (phase.first < 0) within = And(within, LessEqual(I(0), k));
        if (phase.last() >= kernel[2 + dim]) within = And(within, Less(k, I(kernel[2 + dim])));
        of_w.push_back(std::move(k));
      }
      const ExprPtr factor = Cast(type, Load(l.graph, w, std::move(of_w)));
      return Mul(Padded(l, x, type, {at[0], ChannelOf(group, in_group, in[0])}, places, 0),
                 within == nullptr ? factor : graph::Select(within, factor, Literal(type, 0)));
    };
    const int sum = l.AddWindow(whole ? name : l.Name(absl::StrCat("phase", parts.size())),
                                Combiner::kSum, shape, window, element);
    if (whole) return sum;
    parts.push_back({std::move(chosen), sum});
    more = false;
    for (size_t dim = rank; dim-- > 0 && !more;) {
      more = ++choice[dim] < dims[dim].phases.size();
      if (!more) choice[dim] = 0;
    }
  }

  return l.AddMap(name, out, [&](const Exprs& at) {
    ExprPtr value;
    for (const Part& part : parts) {
      Exprs place = {at[0]};
      channels.AddPlace(at[1], place);
      ExprPtr among;
      for (size_t dim = 0; dim < rank; ++dim) {
        const Phase& phase = part.phases[dim];
        const int64_t s = c.stride[dim];
        const ExprPtr t = Add(at[2 + dim], I(dims[dim].origin));
        const ExprPtr r = s == 1 ? I(0) : Mod(t, I(s));
        place.push_back(Sub(s == 1 ? t : Div(t, I(s)), I(dims[dim].first)));
        if (phase.count > 1) place.push_back(Sub(r, I(phase.remainder)));
        if (phase.remainder > 0) among = And(among, LessEqual(I(phase.remainder), r));
        if (phase.remainder + phase.count < s)
          among = And(among, Less(r, I(phase.remainder + phase.count)));
      }
      const ExprPtr element = Load(l.graph, part.sum, std::move(place));
      if (among == nullptr) return element;
      value = graph::Select(among, element, value == nullptr ? Literal(type, 0) : value);
    }
    return value;
  });
}

// dw[c, c', k] = sum over n and o: x[n, c', o s + k d - p] y[n, c, o], of `type`.
int OfWeights(Lowering& l, const Convolution& c, int x, int y, Shape weights, DType type,
              const std::string& name) {
  const Channels channels{c.groups, weights[0] / c.groups};
  Shape shape;
  channels.AddTo(shape);
  shape.insert(shape.end(), weights.begin() + 1, weights.end());
  const Shape& of_y = l.ShapeOf(y);
  Shape window = {of_y[0]};
  window.insert(window.end(), of_y.begin() + 2, of_y.end());
  const size_t first = channels.axes();
  const auto element = [&](const Exprs& at, const Exprs& in) {
    const ExprPtr group = channels.Group(at, 0);
    std::vector<Place> places;
    for (size_t dim = 0; dim < c.rank(); ++dim) {
      places.push_back(PlaceOf(in[1 + dim], of_y[2 + dim], c.stride[dim], at[first + 1 + dim],
                               weights[2 + dim], c.dilation[dim], c.padding[dim]));
    }
    Exprs in_y = {in[0], ChannelOf(group, channels.each, channels.InGroup(at, 0))};
    in_y.insert(in_y.end(), in.begin() + 1, in.end());
    return Mul(Padded(l, x, type, {in[0], ChannelOf(group, weights[1], at[first])}, places, 0),
               Cast(type, Load(l.graph, y, std::move(in_y))));
  };
  if (!channels.split()) return l.AddWindow(name, Combiner::kSum, shape, window, element);
  const int sum = l.AddWindow(l.Name("groups"), Combiner::kSum, shape, window, element);
  return l.AddMap(name, weights, [&](const Exprs& at) {
    Exprs place;
    channels.AddPlace(at[0], place);
    place.insert(place.end(), at.begin() + 1, at.end());
    return Load(l.graph, sum, std::move(place));
  });
}

absl::Status Forward(Lowering& l) {
  const int x = l.Tensor("input"), w = l.Tensor("weight");
  const Meta& out = l.Out();
  if (!graph::IsFloat(out.type)) return l.Unsupported("integers are not supported");
  const DType type = OpMath(out.type);
  const Convolution c = ConvolutionOf(l, out.shape.size() - 2);
  if (l.Bool("transposed")) {
    if (absl::Status s = CheckPhases(l, c, l.ShapeOf(w), out.shape); !s.ok()) return s;
  }
  const bool bare = !l.Has("bias") && type == out.type;
  const std::string name = l.Name(bare ? "" : "sum");
  const int sum = l.Bool("transposed") ? Transpose(l, c, x, w, out.shape, type, name)
                                       : Convolve(l, c, x, w, out.shape, type, name);
  if (bare) {
    l.Bind(sum);
    return absl::OkStatus();
  }
  l.Bind(l.AddMap(l.Name(), out.shape, [&](const Exprs& at) {
    const ExprPtr value = Cast(out.type, Load(l.graph, sum, at));
    if (!l.Has("bias")) return value;
    return Cast(out.type,
                Add(Cast(type, value), Cast(type, Load(l.graph, l.Tensor("bias"), {at[1]}))));
  }));
  return absl::OkStatus();
}

absl::Status Backward(Lowering& l) {
  const int dy = l.Tensor("grad_output"), x = l.Tensor("input"), w = l.Tensor("weight");
  const Convolution c = ConvolutionOf(l, l.ShapeOf(x).size() - 2);
  const bool transposed = l.Bool("transposed");
  const std::vector<double> wanted = l.Numbers("output_mask");
  if (!transposed && wanted[0] != 0 && l.Used(0)) {
    if (absl::Status s = CheckPhases(l, c, l.ShapeOf(w), l.ShapeOf(x)); !s.ok()) return s;
  }
  const auto add = [&](int output, const std::string& part, const auto& make) {
    if (wanted[output] == 0 || !l.Used(output)) return;
    const DType out = l.Out(output).type, type = OpMath(out);
    const int sum = make(type, l.Name(type == out ? part : part + "_sum"));
    l.Bind(l.CastTensor(sum, out, l.Name(part)), output);
  };
  add(0, "input", [&](DType type, const std::string& name) {
    return transposed ? Convolve(l, c, dy, w, l.ShapeOf(x), type, name)
                      : Transpose(l, c, dy, w, l.ShapeOf(x), type, name);
  });
  add(1, "weight", [&](DType type, const std::string& name) {
    return transposed ? OfWeights(l, c, dy, x, l.ShapeOf(w), type, name)
                      : OfWeights(l, c, x, dy, l.ShapeOf(w), type, name);
  });
  add(2, "bias", [&](DType type, const std::string& name) {
    std::vector<bool> reduced(l.ShapeOf(dy).size(), true);
    reduced[1] = false;
    return l.AddReduce(name, Combiner::kSum, l.ShapeOf(dy), reduced, /*keep=*/false,
                       [&](const Exprs& at) { return Cast(type, Load(l.graph, dy, at)); });
  });
  return absl::OkStatus();
}

}  // namespace

const OperatorTable& ConvolutionOperators() {
  static const auto* const kTable = new OperatorTable{
      {"aten.convolution.default",
       {"input:t weight:t bias:t? stride:i* padding:i* dilation:i* transposed:b groups:i",
        Forward}},
      {"aten.convolution_backward.default",
       {"grad_output:t input:t weight:t stride:i* padding:i* dilation:i* transposed:b groups:i "
        "output_mask:b*",
        Backward}},
  };
  return *kTable;
}

}  // namespace warpsmith::import
