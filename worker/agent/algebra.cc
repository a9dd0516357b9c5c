// Algebra: rewrites of the graph that hold for every input. Each applicable one is a move, and so
// is taking back one that was applied.
#include <string>

#include "absl/strings/str_cat.h"
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
      google::protobuf::RepeatedPtrField<std::string> rewrites;
      for (int i = 0; i < state.schedule.rewrites_size(); ++i) {
        if (i != drop) *rewrites.Add() = state.schedule.rewrites(i);
      }
      const std::string& rewrite = state.schedule.rewrites(drop);
      Add(state, rewrites, RuleOf(rewrite), rewrite, "", 0.02, actions);
    }
    return actions;
  }

 private:
  static void Add(const State& state,
                  const google::protobuf::RepeatedPtrField<std::string>& rewrites,
                  const std::string& kind, const std::string& from, const std::string& to,
                  double prior, std::vector<Action>& actions) {
    auto graph = codegen::Rewrite(*state.original, rewrites);
    if (!graph.ok()) return;  // a later rewrite needs the one that is taken back
    Action action;
    action.specialist = kName;
    action.kind = kind;
    action.name = from.empty() ? absl::StrCat("apply ", to) : absl::StrCat("take back ", from);
    action.key = action.name;
    action.from = from;
    action.to = to;
    action.schedule = codegen::DefaultSchedule(*graph, state.target);
    *action.schedule.mutable_rewrites() = rewrites;
    KeepKnobs(state.schedule, action.schedule);
    action.prior = prior;
    actions.push_back(std::move(action));
  }
};

}  // namespace

std::unique_ptr<Specialist> MakeAlgebra() { return std::make_unique<Algebra>(); }

}  // namespace warpsmith::agent
