#include "planner/web/detail.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/base/text.h"
#include "common/problem/credits.h"
#include "planner/web/rows.h"

namespace warpsmith::web {
namespace {

using nlohmann::json;

constexpr size_t kMaxText = 400;

json TimesOf(const v1::Times& times) {
  return {{"device_us", Short(times.device_us())},
          {"graph_us", Short(times.graph_us())},
          {"call_us", Short(times.call_us())}};
}

json KernelOf(const v1::Incumbent& incumbent) {
  const v1::Trial& trial = incumbent.trial();
  json kernel = {{"times", TimesOf(incumbent.times())},
                 {"light_us", Short(incumbent.light_us())},
                 {"peak_bytes", incumbent.peak_bytes()},
                 {"accuracy", trial.accuracy().accuracy_class()},
                 {"max_error", Short(trial.accuracy().max_error())},
                 {"oracle", trial.accuracy().oracle()},
                 {"card", trial.card()},
                 {"low_us", Short(trial.timing().low_us())},
                 {"high_us", Short(trial.timing().high_us())},
                 {"baselines", json::array()},
                 {"plans", json::array()}};
  for (const v1::Baseline& baseline : incumbent.baselines().baselines()) {
    kernel["baselines"].push_back({{"name", baseline.name()},
                                   {"accurate", baseline.accurate()},
                                   {"times", TimesOf(baseline.times())}});
  }
  for (const v1::Plan& plan : incumbent.solution().plans()) {
    kernel["plans"].push_back({{"workload", plan.workload()},
                               {"source", base::Shortened(plan.source(), kMaxSourceBytes)},
                               {"steps", plan.steps_size()}});
  }
  return kernel;
}

// By verdict: how many, and why one of them.
json VerdictsOf(const v1::TrialBatch& trials) {
  std::map<std::string, std::pair<int, std::string>> verdicts;
  for (const v1::Trial& trial : trials.trials()) {
    auto& [count, example] = verdicts[WordOf(trial.verdict())];
    ++count;
    if (example.empty()) example = base::Shortened(trial.reason(), kMaxText);
  }
  std::vector<std::pair<std::string, std::pair<int, std::string>>> sorted(verdicts.begin(),
                                                                          verdicts.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second.first > b.second.first; });
  json rows = json::array();
  for (const auto& [word, of] : sorted) rows.push_back({word, of.first, of.second});
  return rows;
}

}  // namespace

std::string DetailOf(const v1::GetTaskReply& reply) {
  const problem::Credits credits = problem::CreditsOf(reply.trials());
  double seconds = 0;
  for (const v1::Trial& trial : reply.trials().trials()) seconds += trial.seconds();
  json detail = {{"id", reply.task().id()},
                 {"trials", reply.trials().trials_size()},
                 {"missing", reply.task().trials() - reply.trials().trials_size()},
                 {"seconds", Short(seconds)},
                 {"gains", json::array()},
                 {"shares", json::array()},
                 {"verdicts", VerdictsOf(reply.trials())}};
  const size_t found = credits.accepted.size();
  for (size_t i = found - std::min(found, kMaxGainsShown); i < found; ++i) {
    const problem::Credit& credit = credits.accepted[i];
    detail["gains"].push_back({credit.trial, Short(credit.seconds), Short(credit.us),
                               Short(credit.gain), credit.specialist,
                               base::Shortened(credit.action, kMaxText)});
  }
  for (const problem::Share& share : credits.shares) {
    detail["shares"].push_back({share.specialist, Short(share.gain), share.accepted, share.judged,
                                share.trials, Short(share.seconds)});
  }
  if (reply.has_incumbent()) detail["kernel"] = KernelOf(reply.incumbent());
  return Text(detail);
}

}  // namespace warpsmith::web
