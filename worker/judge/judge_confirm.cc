// What a would-be incumbent has to go through.
#include <algorithm>
#include <cmath>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "worker/judge/judge.h"

namespace warpsmith::judge {
namespace {

constexpr oracle::Variation kVariations[] = {
    oracle::Variation::kTimes3, oracle::Variation::kTimes001, oracle::Variation::kNegated,
    oracle::Variation::kDense,  oracle::Variation::kWide,     oracle::Variation::kNewWeights,
    oracle::Variation::kTies};

// Every replay on inputs that it has not seen took so many times what it took on those that it
// knew: the candidate remembers. What else keeps the machine busy for the length of a round looks
// the same, so that it has to be seen in as many rounds, each beside times of its own on known
// inputs.
constexpr double kRemembers = 1.5;
constexpr int kRounds = 3;

bool HasParams(const graph::Graph& graph) {
  return std::any_of(graph.tensors.begin(), graph.tensors.end(), [](const graph::Tensor& t) {
    return t.role == graph::Role::kParam && graph::IsFloat(t.type);
  });
}

// Where of equal values the place of one is the answer.
bool HasIndexes(const graph::Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const graph::Node& node) {
    return node.outputs.size() > 1 && graph::IsFloat(node.value->type);
  });
}

}  // namespace

absl::StatusOr<Finding> Judge::Confirm(Entry& entry, Race* race, Samples* samples) {
  for (size_t b = 0; b < benches_.size(); ++b) {
    for (auto step : {&Judge::Repeat, &Judge::Vary, &Judge::Refresh}) {
      auto finding = (this->*step)(entry, b);
      if (!finding.ok() || !finding->ok()) return finding;
    }
  }
  for (int round = 1;; ++round) {
    std::vector<double> unseen;
    auto finding = LastRound(entry, race, samples, &unseen);
    if (!finding.ok() || !finding->ok()) return finding;
    const Finding remembers = Remembers(entry, unseen);
    if (remembers.ok()) break;
    if (round == kRounds) return remembers;
    for (std::vector<double>& taken : samples->candidate) taken.clear();
    finding = TimeAlone(entry, options_.first_samples, options_.race_limit, &samples->candidate);
    if (!finding.ok() || !finding->ok()) return finding;
  }
  for (size_t b = 0; b < benches_.size(); ++b) entry.median[b] = Median(samples->candidate[b]);
  return Believe(entry);
}

// Runs on one input have to agree, and so do replays that are timed.
absl::StatusOr<Finding> Judge::Repeat(Entry& entry, size_t bench) {
  for (int i = 0; i < options_.repeats; ++i) {
    auto finding =
        CheckOne(entry, bench, 0, kPoisons[i % std::size(kPoisons)], Strictness::kElements);
    if (finding.ok() && finding->ok()) finding = CheckTimed(entry, bench, 0);
    if (!finding.ok()) return finding;
    if (finding->verdict == v1::WRONG) {
      finding->verdict = v1::UNSTABLE;
      finding->reason =
          absl::StrCat("right at first, then wrong on the same input: ", finding->reason);
    }
    if (!finding->ok()) return finding;
  }
  return Finding();
}

// Inputs and weights other than the problem's own; they take the last slot for a while.
absl::StatusOr<Finding> Judge::Vary(Entry& entry, size_t bench) {
  for (oracle::Variation variation : kVariations) {
    if (variation == oracle::Variation::kNewWeights && !HasParams(benches_[bench]->graph())) {
      continue;
    }
    if (variation == oracle::Variation::kTies && !HasIndexes(benches_[bench]->graph())) continue;
    const auto slot = Draw(bench, cases_ - 1, variation);
    if (!slot.ok()) return slot.status();
    auto finding = CheckOne(entry, bench, *slot, kPoisons[0], Strictness::kVaried);
    if (!finding.ok() || !finding->ok()) return finding;
  }
  return Finding();
}

// Fresh seeds and other addresses; what is drawn here serves the next evaluations.
absl::StatusOr<Finding> Judge::Refresh(Entry& entry, size_t bench) {
  const bool quick = draw_seconds_ <= absl::ToDoubleSeconds(options_.quick_draw);
  const int rounds = quick ? std::max(options_.fresh_seeds, cases_) : cases_;
  for (int i = 0; i < rounds; ++i) {
    const auto slot = Draw(bench, (cases_ - 1 + i) % cases_, oracle::Variation::kNone);
    if (!slot.ok()) return slot.status();
    if (absl::Status s = benches_[bench]->Move(); !s.ok()) return s;
    auto finding =
        CheckOne(entry, bench, *slot, kPoisons[i % std::size(kPoisons)], Strictness::kElements);
    if (!finding.ok() || !finding->ok()) return finding;
  }
  return Finding();
}

// One replay of each on inputs that neither has seen (`parts` 0: on the case as it is).
absl::StatusOr<Finding> Judge::TimeUnseen(Entry& entry, size_t bench, int slot, int64_t parts,
                                          bool beside_incumbent, Samples* samples) {
  const auto time = [&]() -> absl::StatusOr<Finding> {
    if (beside_incumbent) {
      if (absl::Status s = TimeIncumbent(bench, slot, &samples->incumbent); !s.ok()) return s;
    }
    return TimeOnce(entry, bench, slot, &samples->candidate);
  };
  return parts > 0 ? OnUnseen(bench, slot, parts, time) : time();
}

// Timed once more, at other addresses and, but for one time, on inputs that the candidate has never
// seen: whatever it remembers, and wherever, is of no use to it. What that one time leaves is
// checked, and nobody knows before which one it is; the round has to say by itself what the race
// said. `unseen`: seconds of the quickest replay on unseen inputs, one a workload.
absl::StatusOr<Finding> Judge::LastRound(Entry& entry, Race* race, Samples* samples,
                                         std::vector<double>* unseen) {
  std::vector<double> ratios;
  unseen->assign(benches_.size(), 0);
  const int looked_at = static_cast<int>(NextSeed() % options_.final_pairs);
  if (absl::Status s = device_.Settle(kSettleLimit); !s.ok()) return s;
  for (int i = 0; i < options_.final_pairs; ++i) {
    double log_ratio = 0;
    for (size_t b = 0; b < benches_.size(); ++b) {
      const int slot = i % cases_;
      if (absl::Status s = benches_[b]->Move(); !s.ok()) return s;
      // The first run at new addresses walks the page tables: it is not timed.
      auto first = TimeOnce(entry, b, slot, nullptr);
      if (!first.ok() || !first->ok()) return first;
      auto finding =
          TimeUnseen(entry, b, slot, i == looked_at ? 0 : i + 1, race != nullptr, samples);
      if (!finding.ok() || !finding->ok()) return finding;
      const double mine = samples->candidate[b].back();
      if (race != nullptr) log_ratio += std::log(mine / samples->incumbent[b].back());
      if (i != looked_at) {
        (*unseen)[b] = (*unseen)[b] == 0 ? mine : std::min((*unseen)[b], mine);
        continue;
      }
      finding = InspectTimed(entry, b, slot);
      if (!finding.ok() || !finding->ok()) return finding;
    }
    ratios.push_back(log_ratio / static_cast<double>(benches_.size()));
    if (race != nullptr) race->AddLog(ratios.back());
  }
  if (race == nullptr) return Finding();
  race->Stop();
  if (race->decision() == Decision::kFaster && Median(ratios) < std::log(race->may_take()))
    return Finding();
  Finding slower;
  slower.verdict = v1::SLOWER;
  slower.reason = "faster at first, but not with inputs and addresses changing";
  return slower;
}

// Whether it took longer on inputs that it had not seen (LastRound) than on those that it knew.
Finding Judge::Remembers(const Entry& entry, const std::vector<double>& unseen) const {
  Finding against;
  for (size_t b = 0; b < benches_.size(); ++b) {
    if (unseen[b] <= kRemembers * entry.median[b]) continue;
    against.verdict = v1::UNSTABLE;
    against.reason = absl::StrFormat(
        "%s: %.3g us on inputs that it knew, at least %.3g us on those that it has not seen, in %d "
        "rounds",
        benches_[b]->label(), entry.median[b] * 1e6, unseen[b] * 1e6, kRounds);
    return against;
  }
  return against;
}

}  // namespace warpsmith::judge
