#include "common/graph/signature.h"

#include <algorithm>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace warpsmith::graph {
namespace {

constexpr char kCut[] = " ...";

// FNV-1a, so that a signature is the same with every compiler.
uint64_t Mix(uint64_t hash, uint64_t value) {
  for (int byte = 0; byte < 8; ++byte) {
    hash = (hash ^ ((value >> (8 * byte)) & 0xff)) * 1099511628211ull;
  }
  return hash;
}
constexpr uint64_t kBasis = 14695981039346656037ull;

uint64_t HashText(const std::string& text) {
  uint64_t hash = kBasis;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  return hash;
}

bool Commutes(Op op) {
  switch (op) {
    case Op::kAdd:
    case Op::kMul:
    case Op::kMin:
    case Op::kMax:
    case Op::kEq:
    case Op::kNe:
    case Op::kAnd:
    case Op::kOr:
      return true;
    default:
      return false;
  }
}

uint64_t ClassOf(int64_t size) {
  return HashText(size < 0 ? "-" + SizeClass(-size) : SizeClass(size));
}

// Labels of tensors, from inputs to outputs: equal for equal work.
class Labels {
 public:
  explicit Labels(const Graph& graph) : graph_(graph), labels_(graph.tensors.size(), 0) {
    for (size_t t = 0; t < graph.tensors.size(); ++t) {
      if (graph.tensors[t].node < 0) labels_[t] = HashText(TokenOf(static_cast<int>(t)));
    }
    for (const Node& node : graph.nodes) {
      for (size_t o = 0; o < node.outputs.size(); ++o) {
        uint64_t label = Mix(HashText(TokenOf(node.outputs[o])), o);
        if (node.scan) {
          label = Mix(label, node.scan->axis);
          label = Mix(label, 2 * node.scan->reverse + node.scan->exclusive);
        }
        // Twice the same tensor is other work than two alike.
        label = Mix(label, LoadedTensors(node.value).size());
        labels_[node.outputs[o]] = Mix(label, Of(node.value));
      }
    }
  }

  uint64_t operator[](int tensor) const { return labels_[tensor]; }

  // "in:f32[12,11]", "sum:f32[12]/[11]".
  std::string TokenOf(int tensor) const {
    const Tensor& t = graph_.tensors[tensor];
    std::string token;
    const auto sizes = [&](const auto& list, const auto& extent) {
      absl::StrAppend(&token, "[");
      for (size_t i = 0; i < list.size(); ++i) {
        absl::StrAppend(&token, i > 0 ? "," : "", SizeClass(extent(list[i])));
      }
      absl::StrAppend(&token, "]");
    };
    const char* const roles[] = {"in", "param", "state", "?"};
    token =
        absl::StrCat(t.node < 0 ? roles[static_cast<int>(t.role)] : KindOf(graph_.nodes[t.node]),
                     ":", NameOf(t.type));
    sizes(t.shape, [](int64_t size) { return size; });
    if (t.node >= 0 && graph_.nodes[t.node].reduce) {
      absl::StrAppend(&token, "/");
      sizes(graph_.nodes[t.node].reduce_axes, [](const Axis& axis) { return axis.extent; });
    }
    return token;
  }

 private:
  uint64_t Of(const ExprPtr& e) {
    if (const auto known = memo_.find(e.get()); known != memo_.end()) return known->second;
    uint64_t hash = Mix(Mix(kBasis, static_cast<uint64_t>(e->op)), static_cast<uint64_t>(e->type));
    if (e->op == Op::kConst && !IsFloat(e->type)) hash = Mix(hash, ClassOf(e->integer));
    if (e->op == Op::kIndex) hash = Mix(hash, e->var);
    if (e->op == Op::kLoad) hash = Mix(hash, labels_[e->tensor]);
    std::vector<uint64_t> args;
    for (const ExprPtr& arg : e->args) args.push_back(Of(arg));
    if (Commutes(e->op)) std::sort(args.begin(), args.end());
    for (const uint64_t arg : args) hash = Mix(hash, arg);
    memo_[e.get()] = hash;
    return hash;
  }

  const Graph& graph_;
  std::vector<uint64_t> labels_;
  std::map<const Expr*, uint64_t> memo_;  // the graph keeps them alive
};

}  // namespace

std::string SizeClass(int64_t size) {
  int power = 0;
  while (size >> (power + 1) > 0) ++power;
  return absl::StrCat(power, size > 1 && size % 8 != 0 ? "+" : "");
}

std::string KindOf(const Node& node) {
  if (node.map()) return "map";
  static const char* const kNames[] = {"sum",    "prod",   "max",      "min",
                                       "argmax", "argmin", "logsumexp"};
  return absl::StrCat(node.scan ? "cum" : "", kNames[static_cast<int>(node.combiner)]);
}

std::string Signature(const Graph& whole) {
  const Graph graph = Prune(whole);
  const Labels labels(graph);
  std::map<std::string, int> tokens;
  std::vector<uint64_t> ends;
  for (size_t t = 0; t < graph.tensors.size(); ++t) {
    ++tokens[labels.TokenOf(static_cast<int>(t))];
    ends.push_back(Mix(kBasis, labels[static_cast<int>(t)]));
  }
  for (const int output : graph.outputs) ends.push_back(Mix(1, labels[output]));
  for (const auto& update : graph.updates) {
    ends.push_back(Mix(Mix(2, labels[update.state]), labels[update.value]));
  }
  std::sort(ends.begin(), ends.end());
  uint64_t digest = kBasis;
  for (const uint64_t end : ends) digest = Mix(digest, end);
  const std::string tail = absl::StrFormat(" #%016x", digest);
  std::string text;
  for (const auto& [token, count] : tokens) {
    std::string next = absl::StrCat(text.empty() ? "" : " ", token);
    if (count > 1) absl::StrAppend(&next, "*", count);
    if (text.size() + next.size() + sizeof(kCut) + tail.size() > kMaxSignatureBytes) {
      absl::StrAppend(&text, kCut);
      break;
    }
    text += next;
  }
  return text + tail;
}

}  // namespace warpsmith::graph
