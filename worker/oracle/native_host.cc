// Evaluates a graph node by node on the processor, in double and int64.

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/graph/numeric.h"
#include "worker/oracle/host_program.h"
#include "worker/oracle/named_places.h"
#include "worker/oracle/oracle.h"

namespace warpsmith::oracle {
namespace {

using graph::Combiner;
using graph::DType;
using graph::Graph;
using graph::IsFloat;
using graph::Node;

// More points than this in all nodes together are ResourceExhausted: it would take minutes.
constexpr int64_t kMaxHostPoints = int64_t{1} << 33;

int64_t Points(const std::vector<graph::Axis>& axes) {
  int64_t n = 1;
  for (const graph::Axis& axis : axes) n *= axis.extent;
  return n;
}

// That are evaluated of a node, at the most.
int64_t PointsOf(const Node& node) {
  const int64_t elements = Points(node.axes);
  const auto named = NamedPlacesOf(node, elements);
  if (!named) return elements * Points(node.reduce_axes);
  return elements + named->batch_count * named->rows + elements / named->places * named->rows;
}

// Whether `value` takes the place of `best` in a search for the largest (or smallest): a NaN beats
// everything but another NaN; of equals the earlier stays, or the latest counts.
template <class T>
bool Beats(bool largest, bool latest, T value, T best) {
  if constexpr (std::is_same_v<T, double>) {
    if (std::isnan(value)) return latest || !std::isnan(best);
    if (std::isnan(best)) return false;
  }
  return (largest ? value > best : value < best) || (latest && value == best);
}

// Combines values in the order in which they are added. T: double or int64_t.
template <class T>
class Accumulator {
 public:
  // latest: of equal extremes and of NaNs the index is the last one's, not the first one's.
  Accumulator(Combiner combiner, DType type, bool latest)
      : combiner_(combiner), type_(type), latest_(latest) {}

  void Add(T value) {
    switch (combiner_) {
      case Combiner::kSum:
        AddToSum(value);
        break;
      case Combiner::kProd:
        product_ *= static_cast<Wide>(value);
        break;
      case Combiner::kLogSumExp:
        AddExponential(value);
        break;
      default:
        if (count_ == 0 || Beats(Largest(), latest_, value, best_)) {
          best_ = value;
          index_ = count_;
        }
    }
    ++count_;
  }

  T Value() const {
    switch (combiner_) {
      case Combiner::kSum:
        return Sum();
      case Combiner::kProd:
        return Narrowed(product_);
      case Combiner::kLogSumExp:
        return Narrowed(log_sum_);
      default:
        return count_ == 0 ? LosesToAll() : best_;
    }
  }
  // Of argmax and argmin: how many were added before the one that is the value.
  int64_t Index() const { return index_; }

  void Clear() { *this = Accumulator(combiner_, type_, latest_); }

 private:
  // Integers wrap, so they may as well do it without a sign.
  using Wide = std::conditional_t<std::is_same_v<T, double>, long double, uint64_t>;

  // Floats keep what each addition rounds off (Knuth's two-sum), so that the sum is as good as
  // exact.
  void AddToSum(T value) {
    if constexpr (std::is_same_v<T, double>) {
      const double sum = sum_ + value;
      const double added = sum - sum_;
      lost_ += (sum_ - (sum - added)) + (value - added);
      sum_ = sum;
    } else {
      sum_ = static_cast<int64_t>(static_cast<uint64_t>(sum_) + static_cast<uint64_t>(value));
    }
  }

  T Sum() const {
    if constexpr (std::is_same_v<T, double>) {
      // What was lost of an infinity is NaN.
      return std::isfinite(sum_) ? sum_ + lost_ : sum_;
    } else {
      return graph::WrapTo(type_, sum_);
    }
  }

  T Narrowed(Wide value) const {
    if constexpr (std::is_same_v<T, double>) {
      return static_cast<double>(value);
    } else {
      return graph::WrapTo(type_, static_cast<int64_t>(value));
    }
  }

  void AddExponential(T value) {
    if constexpr (std::is_same_v<T, double>) {
      const Wide a = log_sum_, b = value, larger = a > b ? a : b;
      if (std::isnan(a) || std::isnan(b)) {
        log_sum_ = a + b;
      } else if (std::isinf(larger)) {
        log_sum_ = larger;
      } else {
        log_sum_ = larger + std::log1p(std::exp((a > b ? b : a) - larger));
      }
    }
  }

  // What max and min give of nothing.
  T LosesToAll() const {
    if constexpr (std::is_same_v<T, double>) {
      return Largest() ? -INFINITY : INFINITY;
    } else {
      if (type_ == DType::kBool) return !Largest();
      return Largest() ? graph::LowestOf(type_) : graph::HighestOf(type_);
    }
  }

  bool Largest() const { return combiner_ == Combiner::kMax || combiner_ == Combiner::kArgMax; }

  Combiner combiner_;
  DType type_;
  bool latest_;
  T sum_ = 0, lost_ = 0, best_ = 0;
  Wide product_ = 1;
  // Of floats; there is no cumulative exponential of integers.
  Wide log_sum_ = std::is_same_v<T, double> ? static_cast<Wide>(-INFINITY) : Wide{0};
  int64_t index_ = 0, count_ = 0;
};

class Evaluator {
 public:
  Evaluator(const Graph& graph, bool round_to_type)
      : graph_(graph), round_to_type_(round_to_type), tensors_(graph.tensors.size()) {}

  absl::Status SetInputs(const std::vector<Values>& inputs) {
    size_t next = 0;
    for (size_t t = 0; t < graph_.tensors.size(); ++t) {
      const graph::Tensor& tensor = graph_.tensors[t];
      if (tensor.node >= 0) continue;
      if (next == inputs.size()) return WrongCount(inputs.size());
      const Values& values = inputs[next++];
      if (static_cast<int64_t>(values.size()) != tensor.elements()) {
        return absl::InvalidArgumentError(absl::StrCat(
            "input '", tensor.name, "' has ", values.size(), " values, not ", tensor.elements()));
      }
      if (IsFloat(tensor.type)) {
        tensors_[t].floats = values;
      } else {
        for (double v : values) {
          tensors_[t].integers.push_back(graph::FloatToInteger(graph::DType::kF64, tensor.type, v));
        }
      }
    }
    return next == inputs.size() ? absl::OkStatus() : WrongCount(inputs.size());
  }

  absl::Status Run() {
    const std::vector<int> last_use = LastUses();
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      const Node& node = graph_.nodes[n];
      auto status = IsFloat(node.value->type) ? RunNode<double>(node) : RunNode<int64_t>(node);
      if (!status.ok()) return status;
      for (size_t t = 0; t < tensors_.size(); ++t) {
        if (last_use[t] == static_cast<int>(n)) tensors_[t] = HostTensor();
      }
    }
    return absl::OkStatus();
  }

  Values Get(int tensor) const {
    const HostTensor& values = tensors_[tensor];
    if (IsFloat(graph_.tensors[tensor].type)) return values.floats;
    return Values(values.integers.begin(), values.integers.end());
  }

 private:
  absl::Status WrongCount(size_t given) const {
    const auto expected = std::count_if(graph_.tensors.begin(), graph_.tensors.end(),
                                        [](const graph::Tensor& t) { return t.node < 0; });
    return absl::InvalidArgumentError(
        absl::StrCat("the graph has ", expected, " inputs, params and states; ", given, " given"));
  }

  // After which node a tensor's memory can go; -1: kept to the end.
  std::vector<int> LastUses() const {
    std::vector<int> last(graph_.tensors.size(), -1);
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      for (int output : graph_.nodes[n].outputs) last[output] = static_cast<int>(n);
      for (int loaded : graph::LoadedTensors(graph_.nodes[n].value)) last[loaded] = n;
    }
    for (int output : graph_.outputs) last[output] = -1;
    for (const Graph::Update& update : graph_.updates) last[update.value] = -1;
    return last;
  }

  template <class T>
  T Rounded(DType type, T value) const {
    if constexpr (std::is_same_v<T, double>) {
      return round_to_type_ ? graph::RoundTo(type, value) : value;
    } else {
      return value;
    }
  }

  template <class T>
  static std::vector<T>& ValuesOf(HostTensor& tensor) {
    if constexpr (std::is_same_v<T, double>) {
      return tensor.floats;
    } else {
      return tensor.integers;
    }
  }

  // For each batch and place the rows that name it, one behind the other in their order: begins in
  // `rows`, one more than there are places.
  struct Lists {
    std::vector<int64_t> begins, rows;
  };
  absl::StatusOr<Lists> ListsOf(const Node& node, const NamedPlaces& named) {
    Node keys;  // a map over batches and rows
    keys.outputs = node.outputs;
    std::vector<graph::ExprPtr> at(node.axes.size() + node.reduce_axes.size());
    for (int axis : named.batches) {
      at[axis] = graph::Index(static_cast<int>(keys.axes.size()));
      keys.axes.push_back(node.axes[axis]);
    }
    for (size_t r = 0; r < node.reduce_axes.size(); ++r) {
      at[node.axes.size() + r] = graph::Index(static_cast<int>(keys.axes.size()));
      keys.axes.push_back(node.reduce_axes[r]);
    }
    keys.value = graph::Substitute(named.key, at);
    HostProgram program(graph_, keys, round_to_type_);
    const int64_t all = named.batch_count * named.rows;
    std::vector<int64_t> lists(all, -1);  // of each row
    Lists result;
    result.begins.assign(named.batch_count * named.places + 1, 0);
    for (int64_t first = 0; first < all; first += HostProgram::kLanes) {
      const int count = static_cast<int>(std::min<int64_t>(HostProgram::kLanes, all - first));
      if (auto status = program.Run(tensors_, first, count); !status.ok()) return status;
      for (int l = 0; l < count; ++l) {
        const int64_t place = program.integers()[l];
        if (place < 0 || place >= named.places) continue;
        lists[first + l] = (first + l) / named.rows * named.places + place;
        ++result.begins[lists[first + l] + 1];
      }
    }
    for (size_t l = 1; l < result.begins.size(); ++l) result.begins[l] += result.begins[l - 1];
    result.rows.resize(result.begins.back());
    std::vector<int64_t> next = result.begins;
    for (int64_t row = 0; row < all; ++row) {
      if (lists[row] >= 0) result.rows[next[lists[row]]++] = row % named.rows;
    }
    return result;
  }

  // The sum of each element, of the rows that name its place alone.
  template <class T>
  absl::Status RunNamed(const Node& node, const NamedPlaces& named, std::vector<T>& out) {
    auto lists = ListsOf(node, named);
    if (!lists.ok()) return lists.status();
    const DType type = node.value->type;
    HostProgram program(graph_, node, round_to_type_);
    Accumulator<T> accumulator(node.combiner, type, /*latest=*/false);
    std::vector<int64_t> coordinates(node.axes.size(), 0);
    const int64_t elements = Points(node.axes);
    for (int64_t element = 0; element < elements; ++element) {
      int64_t list = 0;
      for (int axis : named.batches) list = list * node.axes[axis].extent + coordinates[axis];
      list = list * named.places + coordinates[named.axis];
      for (int64_t from = lists->begins[list]; from < lists->begins[list + 1];
           from += HostProgram::kLanes) {
        int64_t points[HostProgram::kLanes];
        const int count = static_cast<int>(
            std::min<int64_t>(HostProgram::kLanes, lists->begins[list + 1] - from));
        for (int l = 0; l < count; ++l) points[l] = element * named.rows + lists->rows[from + l];
        if (auto status = program.RunAt(tensors_, points, count); !status.ok()) return status;
        for (int l = 0; l < count; ++l) {
          if constexpr (std::is_same_v<T, double>) {
            accumulator.Add(program.floats()[l]);
          } else {
            accumulator.Add(program.integers()[l]);
          }
        }
      }
      out.push_back(Rounded(type, accumulator.Value()));
      accumulator.Clear();
      for (size_t a = node.axes.size(); a-- > 0 && ++coordinates[a] == node.axes[a].extent;)
        coordinates[a] = 0;
    }
    return absl::OkStatus();
  }

  template <class T>
  absl::Status RunNode(const Node& node) {
    if (const auto named = NamedPlacesOf(node, Points(node.axes)))
      return RunNamed<T>(node, *named, ValuesOf<T>(tensors_[node.outputs[0]]));
    HostProgram program(graph_, node, round_to_type_);
    const DType type = node.value->type;
    const int64_t elements = Points(node.axes), reduced = Points(node.reduce_axes);
    std::vector<T>& out = ValuesOf<T>(tensors_[node.outputs[0]]);
    out.reserve(elements);
    std::vector<int64_t>* indexes =
        node.outputs.size() > 1 ? &tensors_[node.outputs[1]].integers : nullptr;
    // The value and the index of an integer argmax are vectors of two tensors, never of one.
    Accumulator<T> accumulator(node.combiner, type, /*latest=*/false);
    int64_t filled = 0;
    for (int64_t first = 0; first < elements * reduced; first += HostProgram::kLanes) {
      const int count =
          static_cast<int>(std::min<int64_t>(HostProgram::kLanes, elements * reduced - first));
      if (auto status = program.Run(tensors_, first, count); !status.ok()) return status;
      const T* values;
      if constexpr (std::is_same_v<T, double>) {
        values = program.floats();
      } else {
        values = program.integers();
      }
      if (!node.reduce) {
        // A scan's are rounded once they are combined.
        for (int l = 0; l < count; ++l) {
          out.push_back(node.scan ? values[l] : Rounded(type, values[l]));
        }
        continue;
      }
      for (int l = 0; l < count; ++l) {
        accumulator.Add(values[l]);
        if (++filled < reduced) continue;
        filled = 0;
        out.push_back(Rounded(type, accumulator.Value()));
        if (indexes != nullptr) indexes->push_back(accumulator.Index());
        accumulator.Clear();
      }
    }
    if (node.scan) RunScan(node, out, indexes);
    return absl::OkStatus();
  }

  // Combines the values of a scan in place. Neighbours along its axis are `stride` elements apart.
  template <class T>
  void RunScan(const Node& node, std::vector<T>& out, std::vector<int64_t>* indexes) {
    const DType type = node.value->type;
    const graph::Scan& scan = *node.scan;
    const int64_t extent = node.axes[scan.axis].extent;
    int64_t stride = 1;
    for (size_t a = scan.axis + 1; a < node.axes.size(); ++a) stride *= node.axes[a].extent;
    if (indexes != nullptr) indexes->resize(out.size());
    Accumulator<T> accumulator(node.combiner, type, /*latest=*/true);
    for (size_t first = 0; first < out.size(); first += extent * stride) {
      for (int64_t lane = 0; lane < stride; ++lane) {
        accumulator.Clear();
        for (int64_t k = 0; k < extent; ++k) {
          const int64_t place = scan.reverse ? extent - 1 - k : k;
          T& value = out[first + place * stride + lane];
          const T own = value;
          if (!scan.exclusive) accumulator.Add(own);
          value = Rounded(type, accumulator.Value());
          if (scan.exclusive) accumulator.Add(own);
          if (indexes == nullptr) continue;
          const int64_t met = accumulator.Index();
          (*indexes)[first + place * stride + lane] = scan.reverse ? extent - 1 - met : met;
        }
      }
    }
  }

  const Graph& graph_;
  const bool round_to_type_;
  std::vector<HostTensor> tensors_;
};

}  // namespace

absl::StatusOr<std::vector<Values>> EvaluateOnHost(const Graph& graph,
                                                   const std::vector<Values>& inputs,
                                                   bool round_to_type) {
  int64_t points = 0;
  for (const Node& node : graph.nodes) {
    points += PointsOf(node);
    if (points > kMaxHostPoints) {
      return absl::ResourceExhaustedError(
          absl::StrCat("more than ", kMaxHostPoints, " points to evaluate on the host"));
    }
  }
  Evaluator evaluator(graph, round_to_type);
  if (auto status = evaluator.SetInputs(inputs); !status.ok()) return status;
  if (auto status = evaluator.Run(); !status.ok()) return status;
  std::vector<Values> results;
  for (int output : graph.outputs) results.push_back(evaluator.Get(output));
  for (const Graph::Update& update : graph.updates) results.push_back(evaluator.Get(update.value));
  return results;
}

}  // namespace warpsmith::oracle
