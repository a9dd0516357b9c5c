#include "worker/agent/policy.h"

#include <limits>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "worker/agent/rules.h"

namespace warpsmith::agent {
namespace {

// What is left to try from a node, for one specialist.
std::vector<const Action*> Untried(const History& history, Node& node, int specialist) {
  std::vector<const Action*> left;
  for (const auto& action : history.Moves(node)[specialist]) {
    if (!history.Tried(action.schedule)) left.push_back(&action);
  }
  return left;
}

class RandomPolicy : public Policy {
 public:
  explicit RandomPolicy(uint64_t seed) : random_(seed) {}

  std::optional<Proposal> Propose(const History& history) override {
    // From the incumbent while it has moves, then from any other.
    if (auto proposal = From(history, history.best())) return proposal;
    for (const auto& node : history.nodes()) {
      if (auto proposal = From(history, node)) return proposal;
    }
    return std::nullopt;
  }
  void Learn(const Proposal&, const Result&) override {}
  int patience(const State&) const override { return std::numeric_limits<int>::max(); }

 private:
  std::optional<Proposal> From(const History& history, const std::shared_ptr<Node>& node) {
    std::vector<std::vector<const Action*>> able;
    for (int s = 0; s < history.specialists().size(); ++s) {
      auto left = Untried(history, *node, s);
      if (!left.empty()) able.push_back(std::move(left));
    }
    if (able.empty()) return std::nullopt;
    const auto& moves = able[random_() % able.size()];
    const Action& move = *moves[random_() % moves.size()];
    return Proposal{node, move, 1.0 / static_cast<double>(able.size() * moves.size())};
  }

  std::mt19937_64 random_;
};

class FixedPolicy : public Policy {
 public:
  std::optional<Proposal> Propose(const History& history) override {
    const int specialists = history.specialists().size();
    for (int i = 0; i < specialists; ++i) {
      const int s = (next_ + i) % specialists;
      const auto left = Untried(history, *history.best(), s);
      if (left.empty()) continue;
      next_ = (s + 1) % specialists;
      return Proposal{history.best(), *left.front()};
    }
    return std::nullopt;
  }
  void Learn(const Proposal&, const Result&) override {}
  int patience(const State&) const override { return std::numeric_limits<int>::max(); }

 private:
  int next_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Policy>> MakePolicy(const std::string& name, uint64_t seed) {
  if (name == "random") return std::make_unique<RandomPolicy>(seed);
  if (name == "fixed") return std::make_unique<FixedPolicy>();
  if (name == "rules" || name.empty()) return std::make_unique<RulesPolicy>(seed);
  return absl::InvalidArgumentError(
      absl::StrCat("policy '", name, "' is unknown; choose random, fixed or rules"));
}

}  // namespace warpsmith::agent
