#include "common/graph/work.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "common/graph/network.h"
#include "common/graph/operations.h"
#include "common/graph/operators.h"
#include "common/graph/places.h"
#include "common/graph/terms.h"

namespace warpsmith::graph {
namespace {

// What a product of tensor cores takes in simple operations, on an H200 (790 and 60 TFLOP/s).
constexpr double kEightWeight = 1.0 / 26, kNarrowWeight = 1.0 / 13, kMixedWeight = 2.0 / 13,
                 kWideWeight = 3.0 / 13;

uint64_t Bit(size_t variable) { return uint64_t{1} << variable; }

// The points at which a node is evaluated.
class Space {
 public:
  // `kept`: how many variables are axes of the result; the others are summed over.
  Space(std::vector<Interval> ranges, size_t kept, double elements)
      : ranges_(std::move(ranges)), kept_(kept), elements_(elements) {}

  const std::vector<Interval>& ranges() const { return ranges_; }
  uint64_t kept() const { return Bit(kept_) - 1; }  // a node has no more than kMaxRank axes

  // In the space of these variables. Where they are all that tell elements of the result apart, and
  // not all elements are needed, no more than those.
  double Points(uint64_t variables) const {
    double points = 1, summed = 1;
    bool all = true;
    for (size_t v = 0; v < ranges_.size(); ++v) {
      const double length = static_cast<double>(Length(ranges_[v]));
      const bool uses = variables & Bit(v);
      if (uses) points *= length;
      if (uses && v >= kept_) summed *= length;
      if (!uses && v < kept_ && length > 1) all = false;
    }
    return all ? std::min(points, elements_ * summed) : points;
  }

  // The part of them where the guards hold that are about these variables alone: others may hold
  // for one value or another of what is not among them.
  double Share(const std::vector<Guard>& guards, uint64_t variables) const {
    double share = 1;
    std::vector<Condition> sampled;
    uint64_t named = 0;  // by data
    for (const Guard& guard : guards)
      Narrowed(guard.e, guard.value, variables, share, named, sampled);
    return sampled.empty() ? share : share * SampledShare(ranges_, sampled);
  }

  uint64_t VariablesOf(const Expr& e) const {
    std::vector<bool> used(ranges_.size());
    MarkVariables(e, used);
    uint64_t variables = 0;
    for (size_t v = 0; v < used.size(); ++v) variables |= used[v] ? Bit(v) : 0;
    return variables;
  }

 private:
  void Narrowed(const ExprPtr& e, bool value, uint64_t variables, double& share, uint64_t& named,
                std::vector<Condition>& sampled) const {
    if (e->op == Op::kNot) return Narrowed(e->args[0], !value, variables, share, named, sampled);
    if (e->op == (value ? Op::kAnd : Op::kOr)) {
      for (const ExprPtr& arg : e->args) Narrowed(arg, value, variables, share, named, sampled);
      return;
    }
    const uint64_t about = VariablesOf(*e);
    if ((about & ~variables) != 0) return;
    // An equation leaves one variable no choice, which few samples would meet.
    if (e->op == (value ? Op::kEq : Op::kNe) && std::popcount(about) > 1) {
      int64_t choices = 1;
      for (size_t v = 0; v < ranges_.size(); ++v) {
        if (about & Bit(v)) choices = std::max(choices, Length(ranges_[v]));
      }
      const auto a = AsAffine(e->args[0], static_cast<int>(ranges_.size()));
      const auto b = AsAffine(e->args[1], static_cast<int>(ranges_.size()));
      if (a && b) {
        share /= static_cast<double>(choices);
        return;
      }
      for (const int side : {0, 1}) {  // the one that data name
        const int variable = NamedBy(*e, side);
        if (variable < 0) continue;
        if ((named & Bit(variable)) == 0)
          share /= static_cast<double>(std::max<int64_t>(1, Length(ranges_[variable])));
        named |= Bit(variable);
        return;
      }
    }
    sampled.push_back({e.get(), value});
  }

  const std::vector<Interval> ranges_;
  const size_t kept_;
  const double elements_;
};

// Adds up the evaluation of expressions in a space, each part once.
class Evaluation {
 public:
  Evaluation(const Space& space, Work& work) : space_(space), work_(work) {}

  void Add(const ExprPtr& e, const std::vector<Guard>& guards) {
    if (guards.empty()) return Walk(e, 0);
    contexts_.push_back(guards);
    Walk(e, static_cast<int>(contexts_.size()) - 1);
  }

  // Points at which e may differ, at most.
  double Places(const ExprPtr& e) { return Places(parts_[IdOf(e)]); }
  uint64_t VariablesOf(const ExprPtr& e) { return parts_[IdOf(e)].variables; }

 private:
  struct Part {
    uint64_t variables = 0;
    std::set<int> indexes;  // ids of what it reads at, and of indexes that are values
    double places = -1;
  };

  double Places(Part& part) {
    if (part.places >= 0) return part.places;
    double distinct = 1;
    for (const int id : part.indexes) distinct *= distinct_[id];
    return part.places = std::min(space_.Points(part.variables), distinct);
  }

  int IdOf(const ExprPtr& e) {
    if (const auto known = ids_.find(e.get()); known != ids_.end()) return known->second;
    std::vector<int> args;
    for (const ExprPtr& arg : e->args) args.push_back(IdOf(arg));
    uint64_t number = 0;
    std::memcpy(&number, &e->number, sizeof(number));
    const auto [at, is_new] =
        equal_.try_emplace({e->op, e->type, number, e->integer, e->var, e->tensor, args},
                           static_cast<int>(parts_.size()));
    const int id = at->second;
    if (is_new) {
      Part part;
      if (e->op == Op::kIndex) part.variables = Bit(e->var);
      for (const int arg : args) part.variables |= parts_[arg].variables;
      for (size_t a = 0; a < args.size(); ++a) {
        const bool whole = e->op == Op::kLoad || !IsInteger(e->type);
        if (IsInteger(e->args[a]->type) && whole) {
          part.indexes.insert(args[a]);
          distinct_[args[a]] = static_cast<double>(Distinct(e->args[a], space_.ranges()));
        } else {
          part.indexes.insert(parts_[args[a]].indexes.begin(), parts_[args[a]].indexes.end());
        }
      }
      parts_.push_back(std::move(part));
    }
    kept_.push_back(e);  // so that its address stays its own
    return ids_[e.get()] = id;
  }

  // The context of what is evaluated only where the guard holds, too.
  int Guarded(int context, const ExprPtr& condition, bool value) {
    const auto [at, is_new] =
        inner_.try_emplace({context, condition.get(), value}, static_cast<int>(contexts_.size()));
    if (is_new) {
      std::vector<Guard> guards = contexts_[context];
      guards.push_back({condition, value});
      contexts_.push_back(std::move(guards));
    }
    return at->second;
  }

  void Walk(const ExprPtr& e, int context) {
    const int id = IdOf(e);
    if (walked_.count({id, 0}) > 0 || !walked_.insert({id, context}).second) return;
    if (e->op == Op::kSelect) {
      Walk(e->args[0], context);
      if (!LoadedTensors(e->args[0]).empty()) return;  // either side may be evaluated nowhere
      Walk(e->args[1], Guarded(context, e->args[0], true));
      Walk(e->args[2], Guarded(context, e->args[0], false));
      return;
    }
    for (const ExprPtr& arg : e->args) Walk(arg, context);
    if (FindOp(e->op) == nullptr || !IsFloat(e->args[0]->type)) return;
    Part& part = parts_[id];
    const double points = Places(part) * Share(context, part.variables);
    work_.simple += points;
    if (IsTranscendental(e->op)) work_.transcendental += points;
  }

  double Share(int context, uint64_t variables) {
    if (contexts_[context].empty()) return 1;
    const auto [at, is_new] = shares_.try_emplace({context, variables}, 0);
    if (is_new) at->second = space_.Share(contexts_[context], variables);
    return at->second;
  }

  const Space& space_;
  Work& work_;
  std::unordered_map<const Expr*, int> ids_;
  std::map<std::tuple<Op, DType, uint64_t, int64_t, int, int, std::vector<int>>, int> equal_;
  std::vector<Part> parts_;
  std::map<int, double> distinct_;
  std::vector<ExprPtr> kept_;
  std::vector<std::vector<Guard>> contexts_ = {{}};  // the first: everywhere
  std::map<std::tuple<int, const Expr*, bool>, int> inner_;
  std::set<std::pair<int, int>> walked_;
  std::map<std::pair<int, uint64_t>, double> shares_;
};

class Counter {
 public:
  Counter(const Graph& graph, const std::vector<Asked>& asked)
      : graph_(graph), asked_(asked), alone_(graph.tensors.size(), false) {
    std::vector<int> readers(graph.tensors.size(), 0);
    for (const Node& node : graph.nodes) {
      for (const int tensor : LoadedTensors(node.value)) ++readers[tensor];
    }
    for (const int output : graph.outputs) readers[output] += 2;
    for (const Graph::Update& update : graph.updates) readers[update.value] += 2;
    for (size_t t = 0; t < readers.size(); ++t) {
      alone_[t] = readers[t] == 1 && graph.tensors[t].node >= 0;
    }
  }

  Work Count() {
    Work all;
    std::vector<bool> done(graph_.nodes.size(), false);
    for (size_t n = graph_.nodes.size(); n-- > 0;) {
      if (done[n] || asked_[n].value == nullptr) continue;
      Work work = Of(n, nullptr);
      std::vector<int> through;
      if (IsSum(n)) {
        const Work whole = Of(n, &through);
        Work parts = work;
        for (const int part : through) parts.Add(Of(part, nullptr));
        if (!through.empty() && whole.weight() < parts.weight()) {
          work = whole;
          for (const int part : through) done[part] = true;
        }
      }
      all.Add(work);
    }
    return all;
  }

 private:
  bool IsSum(size_t n) const {
    const Node& node = graph_.nodes[n];
    return node.reduce && node.combiner == Combiner::kSum && IsFloat(node.value->type);
  }

  // `through`: with what only this node reads as part of it, which is put there.
  Work Of(size_t n, std::vector<int>* through) const {
    Work work;
    const Node& node = graph_.nodes[n];
    const Asked& asked = asked_[n];
    if (asked.value == nullptr) return work;
    if (IsSum(n)) {
      Sum(node, TermsOf(graph_, asked.value, asked.ranges, through == nullptr ? nullptr : &alone_),
          asked.elements, work, through);
      return work;
    }
    const Space space(asked.ranges, node.axes.size(), asked.elements);
    Evaluation evaluation(space, work);
    evaluation.Add(asked.value, {});
    if (node.map() || !IsFloat(node.value->type)) return work;
    double points = asked.elements;
    for (size_t v = node.axes.size(); v < asked.ranges.size(); ++v) {
      points *= static_cast<double>(Length(asked.ranges[v]));
    }
    if (node.reduce) points = std::min(points, evaluation.Places(asked.value));
    // log(exp(a - m) + exp(b - m)) + m
    const bool exponential = node.combiner == Combiner::kLogSumExp;
    work.simple += points * (exponential ? 4 : 1);
    work.transcendental += points * (exponential ? 2 : 0);
    return work;
  }

  void Sum(const Node& node, Terms terms, double elements, Work& work,
           std::vector<int>* through) const {
    if (through != nullptr) *through = std::move(terms.through);
    const Space space(std::move(terms.ranges), node.axes.size(), elements);
    Evaluation evaluation(space, work);
    for (Term& term : terms.terms) {
      std::vector<NetworkFactor> factors;
      for (const ExprPtr& factor : term.factors) {
        for (Guard& guard : NonzeroWhere(graph_, factor)) term.guards.push_back(std::move(guard));
      }
      for (const ExprPtr& factor : term.factors) {
        evaluation.Add(factor, term.guards);
        const uint64_t variables = evaluation.VariablesOf(factor);
        factors.push_back({variables, BitsOf(graph_, factor),
                           evaluation.Places(factor) * space.Share(term.guards, variables)});
        work.products.windows |= term.factors.size() > 1 && HasWindow(factor, space);
      }
      work.Add(FewestInNetwork(factors, space.kept(), [&](uint64_t variables) {
        return space.Points(variables) * space.Share(term.guards, variables);
      }));
    }
    if (terms.terms.size() > 1) {
      work.simple += static_cast<double>(terms.terms.size() - 1) * space.Points(space.kept());
    }
  }

  // Whether it is read at a place that moves with an axis of the result and with one of the sum.
  static bool HasWindow(const ExprPtr& e, const Space& space) {
    if (e->op == Op::kLoad) {
      for (const ExprPtr& index : e->args) {
        const uint64_t variables = space.VariablesOf(*index);
        if ((variables & space.kept()) != 0 && (variables & ~space.kept()) != 0) return true;
      }
      return false;
    }
    if (e->op != Op::kCast && e->op != Op::kSelect) return false;
    return std::any_of(e->args.begin(), e->args.end(),
                       [&](const ExprPtr& arg) { return HasWindow(arg, space); });
  }

  const Graph& graph_;
  const std::vector<Asked>& asked_;
  std::vector<bool> alone_;  // one node reads it, and nobody outside
};

}  // namespace

void Work::Add(const Work& other) {
  simple += other.simple;
  transcendental += other.transcendental;
  products.eight += other.products.eight;
  products.narrow += other.products.narrow;
  products.mixed += other.products.mixed;
  products.wide += other.products.wide;
  products.windows |= other.products.windows;
}

double Work::weight() const {
  return simple + kEightWeight * products.eight + kNarrowWeight * products.narrow +
         kMixedWeight * products.mixed + kWideWeight * products.wide;
}

Work FewestKnown(const Graph& graph, const std::vector<Asked>& asked) {
  return Counter(graph, asked).Count();
}

}  // namespace warpsmith::graph
