#include "common/problem/credits.h"

#include <algorithm>
#include <map>

#include "common/problem/verdict.h"

namespace warpsmith::problem {

Credits CreditsOf(const v1::TrialBatch& trials) {
  Credits credits;
  std::map<std::string, Share> shares;
  int number = 0;
  double seconds = 0;
  for (const v1::Trial& trial : trials.trials()) {
    const std::string who = trial.specialist().empty() ? "opening" : trial.specialist();
    Share& share = shares[who];
    share.specialist = who;
    share.trials += 1;
    share.judged += problem::IsJudged(trial.verdict()) ? 1 : 0;
    share.seconds += trial.seconds();
    seconds += trial.seconds();
    ++number;
    if (trial.verdict() != v1::ACCEPTED) continue;
    const v1::Timing& timing = trial.timing();
    const bool has_gain = timing.incumbent_us() > 0 && timing.median_us() > 0;
    const double gain = has_gain ? timing.incumbent_us() / timing.median_us() : 1;
    credits.accepted.push_back(
        {trial.id(), who, trial.action(), gain, timing.median_us(), number, seconds});
    share.accepted += 1;
    share.gain *= gain;
    credits.gain *= gain;
  }
  for (auto& [who, share] : shares) credits.shares.push_back(std::move(share));
  std::stable_sort(credits.shares.begin(), credits.shares.end(),
                   [](const Share& a, const Share& b) { return a.gain > b.gain; });
  return credits;
}

}  // namespace warpsmith::problem
