// Evaluates a graph node by node on the processor, in double and int64.

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/graph/numeric.h"
#include "worker/oracle/host_program.h"
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

// Whether `value` takes the place of `best` in a search for the first largest (or smallest): a NaN
// beats everything but an earlier NaN.
template <class T>
bool Beats(bool largest, T value, T best) {
  if constexpr (std::is_same_v<T, double>) {
    if (std::isnan(best)) return false;
    if (std::isnan(value)) return true;
  }
  return largest ? value > best : value < best;
}

// Combines the values of one output element, in the order of the reduce axes. T: double or int64_t.
template <class T>
class Accumulator {
 public:
  Accumulator(Combiner combiner, DType type) : combiner_(combiner), type_(type) {}

  void Add(T value) {
    switch (combiner_) {
      case Combiner::kSum:
        AddToSum(value);
        break;
      case Combiner::kProd:
        product_ *= static_cast<Wide>(value);
        break;
      default:
        if (position_ == 0 || Beats(Largest(), value, best_)) {
          best_ = value;
          index_ = position_;
        }
    }
    ++position_;
  }

  // The value, and a fresh start. `index`: where it was found.
  T Take(int64_t* index) {
    *index = index_;
    T result = best_;
    if (combiner_ == Combiner::kSum) result = Sum();
    if (combiner_ == Combiner::kProd) result = Narrowed(product_);
    *this = Accumulator(combiner_, type_);
    return result;
  }

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

  bool Largest() const { return combiner_ == Combiner::kMax || combiner_ == Combiner::kArgMax; }

  Combiner combiner_;
  DType type_;
  T sum_ = 0, lost_ = 0, best_ = 0;
  Wide product_ = 1;
  int64_t index_ = 0, position_ = 0;
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
          tensors_[t].integers.push_back(graph::FloatToInteger(tensor.type, v));
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

  template <class T>
  absl::Status RunNode(const Node& node) {
    HostProgram program(graph_, node, round_to_type_);
    const DType type = node.value->type;
    const int64_t elements = Points(node.axes), reduced = Points(node.reduce_axes);
    std::vector<T>& out = ValuesOf<T>(tensors_[node.outputs[0]]);
    out.reserve(elements);
    std::vector<int64_t>* indexes =
        node.outputs.size() > 1 ? &tensors_[node.outputs[1]].integers : nullptr;
    // The value and the index of an integer argmax are vectors of two tensors, never of one.
    Accumulator<T> accumulator(node.combiner, type);
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
        for (int l = 0; l < count; ++l) out.push_back(Rounded(type, values[l]));
        continue;
      }
      for (int l = 0; l < count; ++l) {
        accumulator.Add(values[l]);
        if (++filled < reduced) continue;
        filled = 0;
        int64_t index;
        out.push_back(Rounded(type, accumulator.Take(&index)));
        if (indexes != nullptr) indexes->push_back(index);
      }
    }
    return absl::OkStatus();
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
    points += Points(node.axes) * Points(node.reduce_axes);
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
