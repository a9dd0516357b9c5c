// Algebra: rewrites of the graph that hold for every input. Each applicable one is a move, and so
// is taking back one that was applied.
#include <map>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "worker/agent/moves.h"
#include "worker/agent/regroup.h"

namespace warpsmith::agent {
namespace {

constexpr char kName[] = "algebra";

std::string RuleOf(const std::string& rewrite) { return rewrite.substr(0, rewrite.find(':')); }

class Algebra : public Specialist {
 public:
  const char* name() const override { return kName; }

  std::vector<Action> Actions(const State& state) const override {
    std::vector<Action> actions;
    for (const auto& rewrite : codegen::ApplicableRewrites(state.graph())) {
      auto rewrites = state.schedule.rewrites();
      *rewrites.Add() = rewrite;
      Add(state, rewrites, RuleOf(rewrite), "", rewrite, 0.3, actions);
    }
    for (int drop = 0; drop < state.schedule.rewrites_size(); ++drop) {
      Rewrites rewrites;
      for (int i = 0; i < state.schedule.rewrites_size(); ++i) {
        if (i != drop) *rewrites.Add() = state.schedule.rewrites(i);
      }
      const std::string& rewrite = state.schedule.rewrites(drop);
      Add(state, rewrites, RuleOf(rewrite), rewrite, "", 0.02, actions);
    }
    return actions;
  }

 private:
  using Rewrites = google::protobuf::RepeatedPtrField<std::string>;

  // The default schedule of the graph as rewritten; made once, since each state asks for much the
  // same and a layer's takes half a second.
  const v1::Schedule& DefaultOf(const State& state, const Rewrites& rewrites,
                                const graph::Graph& rewritten) const {
    if (known_of_ != state.original) {
      known_.clear();
      known_of_ = state.original;
    }
    const auto [known, is_new] = known_.try_emplace(absl::StrJoin(rewrites, "\n"));
    if (is_new) {
      known->second = codegen::DefaultSchedule(rewritten, state.target);
      *known->second.mutable_rewrites() = rewrites;
    }
    return known->second;
  }

  void Add(const State& state, const Rewrites& rewrites, const std::string& kind,
           const std::string& from, const std::string& to, double prior,
           std::vector<Action>& actions) const {
    auto graph = codegen::Rewrite(*state.original, rewrites);
    if (!graph.ok()) return;  // a later rewrite needs the one that is taken back
    Action action;
    action.specialist = kName;
    action.kind = kind;
    action.name = from.empty() ? absl::StrCat("apply ", to) : absl::StrCat("take back ", from);
    action.key = action.name;
    action.from = from;
    action.to = to;
    action.schedule = DefaultOf(state, rewrites, *graph);
    KeepKnobs(state.schedule, action.schedule);
    action.prior = prior;
    actions.push_back(std::move(action));
  }

  // Of the graph that known_of_ is.
  mutable std::shared_ptr<const graph::Graph> known_of_;
  mutable std::map<std::string, v1::Schedule> known_;
};

}  // namespace

std::unique_ptr<Specialist> MakeAlgebra() { return std::make_unique<Algebra>(); }

}  // namespace warpsmith::agent
