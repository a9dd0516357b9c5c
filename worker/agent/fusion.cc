// Fusion: which tensors reach memory, which kernel makes them, and on which skeleton.
//
// Merging two groups saves the traffic of what passed between them and a launch; splitting one lets
// each part have the skeleton and the layout that suit it, and saves work that was done twice.
// A product is split off together with the way to multiply that wants it alone: a library's, which
// writes its sums, or what they are rounded to with a bias. Moves that code generation would refuse
// are dropped by asking it to describe them.
#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "worker/agent/moves.h"
#include "worker/agent/regroup.h"
#include "worker/codegen/ir/value.h"
#include "worker/codegen/knob/knob.h"

namespace warpsmith::agent {
namespace {

constexpr char kName[] = "fusion";
// Limits on moves of one state: graphs may have thousands of nodes.
constexpr int kMaxMerges = 24;
constexpr int kMaxSplits = 12;

// What the groups of a schedule compute and read.
class Cover {
 public:
  explicit Cover(const State& state) : graph_(state.graph()) {
    for (const auto& group : state.schedule.groups()) {
      for (const auto& root : group.roots()) stored_.insert(graph_.Find(root));
    }
    for (int output : graph_.outputs) needed_.insert(output);
    for (const auto& update : graph_.updates) needed_.insert(update.value);
    for (const auto& group : state.schedule.groups()) {
      std::set<int> inside, read;
      for (const auto& root : group.roots()) Walk(graph_.Find(root), true, inside, read);
      inside_.push_back(std::move(inside));
      read_.push_back(std::move(read));
    }
  }

  bool IsOutput(int tensor) const { return needed_.count(tensor) > 0; }
  bool IsStored(int tensor) const { return stored_.count(tensor) > 0; }
  const std::set<int>& inside(int group) const { return inside_[group]; }
  const std::set<int>& read(int group) const { return read_[group]; }
  // Simple operations that an element of a tensor inside a group is made with there, those of
  // tensors of as many elements or fewer that it is made of included; sums are not looked into.
  double StepsOf(int group, int tensor) const {
    std::set<int> seen;
    return Steps(inside_[group], tensor, seen);
  }
  bool ReadElsewhere(int tensor, int a, int b) const {
    for (int g = 0; g < read_.size(); ++g) {
      if (g != a && g != b && read_[g].count(tensor) > 0) return true;
    }
    return false;
  }

 private:
  double Steps(const std::set<int>& inside, int tensor, std::set<int>& seen) const {
    const int number = graph_.tensors[tensor].node;
    if (number < 0 || inside.count(tensor) == 0 || !graph_.nodes[number].map()) return 0;
    if (!seen.insert(tensor).second) return 0;  // made once
    const graph::Node& node = graph_.nodes[number];
    double steps = StepsOf(*node.value);
    for (int load : graph::LoadedTensors(node.value)) {
      if (graph_.tensors[load].elements() <= graph_.tensors[tensor].elements())
        steps += Steps(inside, load, seen);
    }
    return steps;
  }
  static double StepsOf(const graph::Expr& expression) {
    const graph::Op op = expression.op;
    double steps = op == graph::Op::kLoad || op == graph::Op::kConst || op == graph::Op::kIndex
                       ? 0
                       : codegen::StepsOf(op);
    for (const graph::ExprPtr& arg : expression.args) steps += StepsOf(*arg);
    return steps;
  }
  void Walk(int tensor, bool root, std::set<int>& inside, std::set<int>& read) {
    if (tensor < 0) return;
    const int node = graph_.tensors[tensor].node;
    if (node < 0 || (!root && stored_.count(tensor) > 0)) {
      read.insert(tensor);
      return;
    }
    if (!inside.insert(tensor).second) return;
    for (int load : graph::LoadedTensors(graph_.nodes[node].value)) {
      Walk(load, false, inside, read);
    }
  }

  const graph::Graph& graph_;
  std::set<int> stored_, needed_;
  std::vector<std::set<int>> inside_, read_;
};

class Fusion : public Specialist {
 public:
  const char* name() const override { return kName; }

  std::vector<Action> Actions(const State& state) const override {
    std::vector<Action> actions;
    const Cover cover(state);
    AddMerges(state, cover, actions);
    AddSplits(state, cover, actions);
    AddRecomputations(state, cover, actions);
    AddLibraryProducts(state, cover, actions);
    AddSkeletons(state, actions);
    return actions;
  }

 private:
  // What a move does to the group of that name, and the groups that it takes as they are.
  struct Move {
    std::string kind, name;
    std::string group, from, to;
    std::vector<int> of;
  };
  static void Add(const State& state, v1::Schedule schedule, const Move& move, double prior,
                  std::vector<Action>& actions) {
    const auto made = MakeState(state, schedule);
    if (!made.ok()) return;
    Action action;
    action.specialist = kName;
    action.kind = move.kind;
    action.name = move.name;
    action.key = move.name;
    for (int g : move.of) absl::StrAppend(&action.key, " ", SkeletonOf(state, g));
    action.group = move.group;
    action.from = move.from;
    action.to = move.to;
    action.schedule = std::move(schedule);
    action.prior = std::max(prior, EstimatedGain(state, *made));
    actions.push_back(std::move(action));
  }

  // The schedule with two groups in place of group `g`, of its precision: kernels with knobs of
  // their own.
  static v1::Schedule Split(const State& state, int g, v1::Group first, v1::Group second) {
    const auto& groups = state.schedule.groups();
    v1::Schedule schedule = state.schedule;
    schedule.clear_groups();
    for (int i = 0; i < groups.size(); ++i) {
      if (i != g) {
        *schedule.add_groups() = groups[i];
        continue;
      }
      for (v1::Group* part : {&first, &second}) {
        if (groups[g].has_precision()) *part->mutable_precision() = groups[g].precision();
        *schedule.add_groups() = *part;
      }
    }
    return schedule;
  }

  static void AddMerges(const State& state, const Cover& cover, std::vector<Action>& actions) {
    const auto& groups = state.schedule.groups();
    int merges = 0;
    for (int a = 0; a < groups.size(); ++a) {
      for (int b = a + 1; b < groups.size() && merges < kMaxMerges; ++b) {
        double saved = 0;
        bool feeds = false;
        v1::Group merged;
        for (const auto& root : groups[a].roots()) {
          const int tensor = state.graph().Find(root);
          const bool passed = cover.read(b).count(tensor) > 0;
          feeds = feeds || passed;
          if (passed) saved += state.graph().tensors[tensor].bytes();
          // What only the second group reads need not reach memory any more.
          if (!passed || cover.IsOutput(tensor) || cover.ReadElsewhere(tensor, a, b)) {
            merged.add_roots(root);
          } else {
            saved += state.graph().tensors[tensor].bytes();
          }
        }
        for (int tensor : cover.read(a)) {
          if (cover.read(b).count(tensor) > 0) saved += state.graph().tensors[tensor].bytes();
        }
        if (saved == 0) continue;
        for (const auto& root : groups[b].roots()) merged.add_roots(root);
        KeepPrecision(groups[a], groups[b], merged);
        v1::Schedule schedule = state.schedule;
        schedule.clear_groups();
        // Where the first only feeds the second it moves there; siblings meet at the first.
        const int place = feeds ? b : a;
        for (int g = 0; g < groups.size(); ++g) {
          if (g == place) {
            *schedule.add_groups() = merged;
          } else if (g != a && g != b) {
            *schedule.add_groups() = groups[g];
          }
        }
        double bytes = 0;
        for (const auto& info : state.groups) bytes += info.bytes_read + info.bytes_written;
        ++merges;
        const std::string first = GroupName(groups[a]), second = GroupName(groups[b]);
        Add(state, std::move(schedule),
            {"merge",
             absl::StrCat("merge groups ", first, " and ", second),
             first,
             first,
             second,
             {a, b}},
            std::min(0.5, saved / std::max(1.0, bytes)), actions);
      }
    }
  }

  static void AddSplits(const State& state, const Cover& cover, std::vector<Action>& actions) {
    const auto& groups = state.schedule.groups();
    for (int g = 0; g < groups.size(); ++g) {
      const double room = Slower(state, g) * Room(state, g);
      if (groups[g].roots_size() > 1) {
        for (const auto& root : groups[g].roots()) {
          v1::Group alone, rest;
          alone.add_roots(root);
          for (const auto& other : groups[g].roots()) {
            if (other != root) rest.add_roots(other);
          }
          const std::string name = GroupName(groups[g]);
          Add(state, Split(state, g, alone, rest),
              {"split", absl::StrCat("split ", root, " from group ", name), name, name, root, {g}},
              0.1 * room, actions);
        }
      }
      // Results of reduces first: behind them the space changes. Then what few elements are made of
      // with many operations: where there are many of what reads it, it is made as often.
      std::vector<std::pair<double, int>> inner;  // the more, the sooner
      double most = 1;                            // elements of a tensor
      for (int tensor : cover.inside(g))
        most = std::max(most, static_cast<double>(state.graph().tensors[tensor].elements()));
      for (int tensor : cover.inside(g)) {
        if (cover.IsStored(tensor)) continue;
        const auto& t = state.graph().tensors[tensor];
        const double again = 1 - static_cast<double>(t.elements()) / most;
        const bool reduce = state.graph().nodes[t.node].reduce;
        inner.emplace_back(reduce ? HUGE_VAL : again * cover.StepsOf(g, tensor), tensor);
      }
      std::stable_sort(inner.begin(), inner.end(),
                       [](const auto& a, const auto& b) { return a.first > b.first; });
      if (inner.size() > kMaxSplits) inner.resize(kMaxSplits);
      for (const auto& [saved, tensor] : inner) {
        const auto& t = state.graph().tensors[tensor];
        // The second reads what the first has stored.
        v1::Group first, second;
        first.add_roots(t.name);
        *second.mutable_roots() = groups[g].roots();
        const bool reduce = state.graph().nodes[t.node].reduce;
        const double moved = 2.0 * t.bytes();
        const double bytes =
            std::max<double>(1, state.groups[g].bytes_read + state.groups[g].bytes_written);
        const std::string name = GroupName(groups[g]);
        Add(state, Split(state, g, first, second),
            {"split",
             absl::StrCat("split ", t.name, " out of group ", name),
             name,
             name,
             t.name,
             {g}},
            (reduce ? 0.1 : 0.02) * room - std::min(0.5, moved / bytes), actions);
      }
    }
  }

  // What only maps make need not reach memory: who reads it may compute it again.
  static void AddRecomputations(const State& state, const Cover& cover,
                                std::vector<Action>& actions) {
    const auto& groups = state.schedule.groups();
    for (int g = 0; g < groups.size(); ++g) {
      for (int r = 0; r < groups[g].roots_size(); ++r) {
        const std::string& root = groups[g].roots(r);
        const int tensor = state.graph().Find(root);
        std::set<int> seen;
        if (cover.IsOutput(tensor) || !IsOfMaps(state.graph(), cover, tensor, seen)) continue;
        v1::Schedule schedule = state.schedule;
        v1::Group& group = *schedule.mutable_groups(g);
        group.mutable_roots()->DeleteSubrange(r, 1);
        if (group.roots().empty()) schedule.mutable_groups()->DeleteSubrange(g, 1);
        const std::string name = GroupName(groups[g]);
        Add(state, std::move(schedule),
            {"again",
             absl::StrCat("compute ", root, " again where it is read"),
             name,
             name,
             root,
             {g}},
            0.1 * Room(state, g), actions);
      }
    }
  }
  // Whether no reduce lies between the tensor and what is in memory; `seen`: where that is known.
  static bool IsOfMaps(const graph::Graph& graph, const Cover& cover, int tensor,
                       std::set<int>& seen) {
    if (!seen.insert(tensor).second) return true;
    const graph::Node& node = graph.nodes[graph.tensors[tensor].node];
    if (!node.map()) return false;
    const auto loads = graph::LoadedTensors(node.value);
    return std::all_of(loads.begin(), loads.end(), [&](int load) {
      return graph.tensors[load].node < 0 || cover.IsStored(load) ||
             IsOfMaps(graph, cover, load, seen);
    });
  }

  // Whether the tensor is made of sums and little else, so that a library may write it: rounded to
  // 16 bits, or, in fp32, with a bias.
  static bool IsLittleElse(const graph::Graph& graph, int tensor, int sums) {
    const graph::Tensor& made = graph.tensors[tensor];
    if (graph.tensors[sums].elements() != made.elements()) return false;
    if (made.type == graph::DType::kF16 || made.type == graph::DType::kBF16) return true;
    const graph::Expr& value = *graph.nodes[made.node].value;
    if (made.type != graph::DType::kF32 || value.op != graph::Op::kAdd) return false;
    return std::all_of(value.args.begin(), value.args.end(), [&](const graph::ExprPtr& arg) {
      return arg->op == graph::Op::kLoad &&
             (arg->tensor == sums || graph.tensors[arg->tensor].elements() < made.elements());
    });
  }

  // The tensor that is made of the sums of a group's product and little else; -1: there is none, or
  // the group is that alone.
  static int WrittenByLibrary(const State& state, const Cover& cover, int g) {
    const graph::Graph& graph = state.graph();
    if (state.groups[g].skeleton != v1::Group::kContract) return -1;
    for (int tensor : cover.inside(g)) {
      const graph::Node& node = graph.nodes[graph.tensors[tensor].node];
      if (!node.map()) continue;
      const auto loads = graph::LoadedTensors(node.value);
      const bool made = std::any_of(loads.begin(), loads.end(), [&](int load) {
        const int producer = graph.tensors[load].node;
        return producer >= 0 && graph.nodes[producer].reduce && cover.inside(g).count(load) > 0 &&
               IsLittleElse(graph, tensor, load);
      });
      if (!made) continue;
      const auto& roots = state.schedule.groups(g).roots();
      return roots.size() == 1 && graph.Find(roots[0]) == tensor ? -1 : tensor;
    }
    return -1;
  }

  static void AddLibraryProducts(const State& state, const Cover& cover,
                                 std::vector<Action>& actions) {
    if (state.target.library.empty()) return;
    const auto& groups = state.schedule.groups();
    for (int g = 0; g < groups.size(); ++g) {
      const int tensor = WrittenByLibrary(state, cover, g);
      if (tensor < 0) continue;
      const std::string& written = state.graph().tensors[tensor].name;
      v1::Group product, rest;
      product.add_roots(written);
      product.mutable_contract()->set_math(v1::PRODUCT_LIBRARY);
      for (const auto& root : groups[g].roots()) {
        if (root != written) rest.add_roots(root);
      }
      const std::string name = GroupName(groups[g]);
      Add(state, Split(state, g, product, rest),
          {"library",
           absl::StrCat("split ", written, " out of group ", name, ", PRODUCT_LIBRARY"),
           name,
           name,
           written,
           {g}},
          0.1 * Room(state, g), actions);
    }
  }

  static void AddSkeletons(const State& state, std::vector<Action>& actions) {
    for (int g = 0; g < state.groups.size(); ++g) {
      for (const auto skeleton : state.groups[g].others) {
        v1::Schedule schedule = state.schedule;
        auto& group = *schedule.mutable_groups(g);
        v1::Group fresh;
        *fresh.mutable_roots() = group.roots();
        codegen::SetSkeleton(fresh, skeleton);
        if (group.has_precision()) *fresh.mutable_precision() = group.precision();
        group = fresh;
        const std::string name = GroupName(group), to = codegen::NameOf(skeleton);
        Add(state, std::move(schedule),
            {"skeleton",
             absl::StrCat("group ", name, ": skeleton ", to),
             name,
             SkeletonOf(state, g),
             to,
             {g}},
            0.03 * Slower(state, g) * Room(state, g), actions);
      }
    }
  }
};

}  // namespace

std::unique_ptr<Specialist> MakeFusion() { return std::make_unique<Fusion>(); }

}  // namespace warpsmith::agent
