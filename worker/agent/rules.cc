#include "worker/agent/rules.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "worker/agent/moves.h"

namespace warpsmith::agent {
namespace {

// A gain that is more than noise.
constexpr double kPaid = 0.004;
// A candidate that was not right counts as this loss for its move.
constexpr double kWrongGain = -0.4;
// Losses beyond this say no more than this one does.
constexpr double kLeastGain = -0.7;
// Runners-up that moves start from, and how far behind (log time) they may be.
constexpr int kMaxRunnersUp = 3;
constexpr double kRunnerUpBehind = 0.06;
// The same for the best of another structure, whose knobs have not been turned.
constexpr int kMaxStructures = 3;
constexpr double kStructureBehind = 0.35;
// And for those that spilled: what they keep in registers was too much, not the rest of them.
constexpr int kMaxSpilled = 3;
// States that were not accurate enough, and how much of the promise that led there is left for
// what makes them more so.
constexpr int kMaxInaccurate = 4;
constexpr double kRescue = 0.7;
// Weight of one observation of a move against its prior.
constexpr double kObservationWeight = 2.0;
// How fast a kind that does not pay loses credit.
constexpr double kKindDecay = 0.2;
// Random part of what is expected: breaks ties, and now and then reaches past the rules.
constexpr double kJitter = 0.1;
// Moves from which less than this is expected are not worth a trial.
constexpr double kNegligible = -0.05;
// Patience: judged candidates without a new incumbent, and for each group beside the first.
constexpr int kPatience = 72;
constexpr int kPatiencePerGroup = 16;

std::string KindOf(const Action& action) {
  return absl::StrCat(action.specialist, " ", action.kind);
}

// What fusion and algebra decide; two states with the same one differ only in knobs.
std::string StructureOf(const v1::Schedule& schedule) {
  std::string structure;
  for (const auto& rewrite : schedule.rewrites()) absl::StrAppend(&structure, rewrite, ";");
  for (const auto& group : schedule.groups()) {
    absl::StrAppend(&structure, "|", group.skeleton_case(), ":");
    for (const auto& root : group.roots()) absl::StrAppend(&structure, root, ",");
  }
  return structure;
}

int Spills(const State& state) {
  int bytes = 0;
  for (const auto& kernel : state.report.kernels()) bytes = std::max(bytes, kernel.spill_bytes());
  return bytes;
}

}  // namespace

int RulesPolicy::patience(const State& state) const {
  return kPatience + kPatiencePerGroup * (std::max<int>(1, state.groups.size()) - 1);
}

std::vector<RulesPolicy::Base> RulesPolicy::Bases(const History& history) const {
  const auto& best = history.best();
  std::vector<Base> bases = {{best, 0}};
  std::vector<std::shared_ptr<Node>> inaccurate = history.inaccurate();
  std::stable_sort(inaccurate.begin(), inaccurate.end(),
                   [](const auto& a, const auto& b) { return a->promise > b->promise; });
  if (inaccurate.size() > kMaxInaccurate) inaccurate.resize(kMaxInaccurate);
  for (const auto& node : inaccurate) bases.push_back({node, 0, true});
  const double best_us = best->state.time_us;
  if (best_us <= 0) return bases;
  std::vector<std::shared_ptr<Node>> others;
  for (const auto& node : history.nodes()) {
    if (node != best && node->state.time_us > 0) others.push_back(node);
  }
  std::stable_sort(others.begin(), others.end(), [](const auto& a, const auto& b) {
    return a->state.time_us < b->state.time_us;
  });
  const std::string structure = StructureOf(best->state.schedule);
  std::set<std::string> structures = {structure};
  int runners_up = 0, different = 0, spilled = 0;
  for (const auto& node : others) {
    const double behind = std::max(0.0, std::log(node->state.time_us / best_us));
    if (behind > kStructureBehind) break;
    const std::string own = StructureOf(node->state.schedule);
    if (own != structure && different < kMaxStructures && structures.insert(own).second) {
      ++different;
      bases.push_back({node, behind / 2});
    } else if (spilled < kMaxSpilled && Spills(node->state) > 0) {
      ++spilled;
      bases.push_back({node, behind / 2});
    } else if (runners_up < kMaxRunnersUp && (behind <= kRunnerUpBehind || best->doubtful())) {
      ++runners_up;
      bases.push_back({node, behind});
    }
  }
  return bases;
}

double RulesPolicy::Expected(const State& state, const Action& action) const {
  double expected = action.prior;
  // Registers are what ran out.
  int registers = 0;
  for (const auto& kernel : state.report.kernels()) {
    registers = std::max(registers, kernel.registers());
  }
  if (Spills(state) > 0) {
    if (action.registers > 0) expected *= 0.2;
    if (action.registers < 0) expected = expected * 2 + 0.05;
  } else if (registers > 200 && action.registers > 0) {
    expected *= 0.5;
  }
  if (const auto kind = kinds_.find(KindOf(action)); kind != kinds_.end()) {
    const Credit& credit = kind->second;
    const double trust = (1 + 2.0 * credit.paid) / (1 + kKindDecay * credit.tried + credit.paid);
    if (expected > 0) expected *= std::min(2.0, trust);
  }
  if (const auto move = moves_.find(action.key); move != moves_.end()) {
    const Credit& credit = move->second;
    expected =
        (expected + kObservationWeight * credit.gain) / (1 + kObservationWeight * credit.tried);
    // It is being tried on another state right now: its answer will tell.
    if (credit.pending > 0) expected = std::min(expected, 0.3 * expected);
  }
  return expected;
}

std::optional<Proposal> RulesPolicy::Propose(const History& history) {
  const auto bases = Bases(history);
  auto proposal = Propose(history, bases, false);
  const bool some = std::any_of(bases.begin(), bases.end(),
                                [](const Base& base) { return base.node->doubtful(); });
  return proposal.has_value() || !some ? proposal : Propose(history, bases, true);
}

// `doubtful`: also moves on from states that are, which do not make them more accurate.
std::optional<Proposal> RulesPolicy::Propose(const History& history, const std::vector<Base>& bases,
                                             bool doubtful) {
  std::vector<Contender> contenders;
  int chosen = -1;
  double most = kNegligible;
  for (const Base& base : bases) {
    for (const auto& moves : history.Moves(*base.node)) {
      for (const Action& action : moves) {
        double expected = Expected(base.node->state, action);
        if (!base.inaccurate && base.node->doubtful()) {
          if (action.accuracy > 0) expected += kRescue;
          if (action.accuracy <= 0 && !doubtful) continue;
        }
        if (base.inaccurate) {
          if (action.accuracy <= 0) continue;
          expected += kRescue * base.node->promise;
        }
        // 53 random bits in [0, 1), the same with every standard library.
        const double uniform = (random_() >> 11) * 0x1p-53;
        // The promise is the same for all that may rescue a state: their own order decides.
        const double jitter = base.inaccurate ? 0 : kJitter * std::abs(expected);
        contenders.push_back({&action, &base, {expected - base.behind, jitter}});
        const double score = expected + jitter * uniform - base.behind;
        if (score <= most || history.Tried(action.schedule)) continue;
        most = score;
        chosen = static_cast<int>(contenders.size()) - 1;
      }
    }
  }
  if (chosen < 0) return std::nullopt;
  const Contender& winner = contenders[chosen];
  ++moves_[winner.action->key].pending;
  return Proposal{winner.base->node, *winner.action, ProbabilityOf(history, contenders, chosen)};
}

double RulesPolicy::ProbabilityOf(const History& history, const std::vector<Contender>& all,
                                  int chosen) {
  // Only what may come above the highest of the lower ends can win.
  std::vector<int> order(all.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return all[a].score.low > all[b].score.low; });
  double floor = kNegligible;
  for (const int i : order) {
    if (all[i].score.low <= floor) break;
    if (!history.Tried(all[i].action->schedule)) floor = all[i].score.low;
  }
  std::vector<Uniform> draws;
  int which = 0;
  for (int i = 0; i < static_cast<int>(all.size()); ++i) {
    const Uniform& score = all[i].score;
    if (i != chosen) {
      if (score.low + score.width < floor || score.low + score.width <= kNegligible) continue;
      if (history.Tried(all[i].action->schedule)) continue;
    } else {
      which = static_cast<int>(draws.size());
    }
    draws.push_back(score);
  }
  return ProbabilityOfLargest(draws, which);
}

void RulesPolicy::Learn(const Proposal& proposal, const Result& result) {
  Credit& move = moves_[proposal.action.key];
  move.pending = std::max(0, move.pending - 1);
  // Nothing was learned of one that we failed to judge, or whose source was judged before with a
  // result that we do not know.
  if (result.verdict == v1::VERDICT_UNSPECIFIED || result.verdict == v1::JUDGE_FAILED ||
      (result.verdict == v1::DUPLICATE && !result.right)) {
    return;
  }
  if (result.verdict == v1::WRONG || result.right || result.verdict == v1::INACCURATE) {
    ++proposal.from->judged;
    if (result.verdict == v1::WRONG) ++proposal.from->wrong;
  }
  // Where all that starts from a state is wrong it is not the move's fault.
  if (result.verdict == v1::WRONG && proposal.from->doubtful()) return;
  // Not the move's fault, unless it was to help: with another accumulator it may be as good as it
  // promised.
  if (result.verdict == v1::INACCURATE && proposal.action.accuracy == 0) return;
  const double gain = result.right ? std::max(result.gain, kLeastGain) : kWrongGain;
  ++move.tried;
  move.gain += gain;
  Credit& kind = kinds_[KindOf(proposal.action)];
  ++kind.tried;
  kind.gain += std::max(0.0, gain);
  if (gain > kPaid) ++kind.paid;
}

}  // namespace warpsmith::agent
