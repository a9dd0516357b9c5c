#include "worker/judge/judge.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/problem/speedup.h"
#include "common/problem/units.h"

namespace warpsmith::judge {
namespace {

constexpr int kWarmUps = 1;        // untimed replays of each, before a race
constexpr int kQuickPairs = 3;     // after one check; then the rest of the checks
constexpr int kPairsPerCase = 4;   // before the inputs change
constexpr int kFewestInRace = 10;  // pairs, before a race may be ended by its time
constexpr int kFewestAlone = 3;
constexpr int kMostReplays = 3;   // before one is looked at
constexpr double kNarrow = 0.01;  // an interval this wide, of the median, is narrow enough
// While there is no incumbent: of the op-by-op plan's time, or of the strongest baseline's, of
// which nothing that is slower than this is worth the card's time.
constexpr double kFirstFactor = 20, kFirstOfBaseline = 100;
constexpr double kConfidence = 0.95;
constexpr char kCountersBy[] = "CUPTI range profiler";
constexpr int kRetries = 2;  // of a wrong run, to tell a race from a mistake

Finding Against(v1::Verdict verdict, std::string reason) {
  Finding finding;
  finding.verdict = verdict;
  finding.reason = std::move(reason);
  return finding;
}

}  // namespace

Judge::Judge(device::Device& device, device::Compiler& compiler, OracleFactory oracles,
             Options options)
    : device_(device),
      compiler_(compiler),
      oracles_(std::move(oracles)),
      options_(std::move(options)) {}

Judge::~Judge() = default;

Judgement Judge::Evaluate(const v1::JudgeEvaluate& request) {
  const base::Instant start = base::Now();
  Judgement judgement;
  v1::JudgeVerdict& verdict = judgement.verdict;
  verdict.set_trial_id(request.trial_id());
  peak_bytes_ = 0;
  oracle_seconds_ = 0;
  ++evaluations_;
  ++since_redraw_;

  std::unique_ptr<Entry> entry;
  Samples samples;
  device::Throttling throttled;
  const auto finding = Undisturbed(&throttled, [&]() -> absl::StatusOr<Finding> {
    entry = std::make_unique<Entry>();
    samples = NoSamples();
    auto decided = Decide(request, entry.get(), &samples);
    if (decided.ok() && !decided->fatal && entry->plans.size() == benches_.size()) {
      auto left = LookBack(*entry, /*whole=*/decided->verdict == v1::ACCEPTED);
      if (!left.ok() || !left->ok()) decided = std::move(left);
    }
    return decided;
  });
  NotePeak();
  if (!finding.ok()) {
    verdict.set_verdict(v1::JUDGE_FAILED);
    verdict.set_reason(std::string(finding.status().message()));
    judgement.fatal = IsFatal(finding.status());
  } else {
    verdict.set_verdict(finding->verdict);
    verdict.set_reason(finding->reason);
    judgement.fatal = finding->fatal;
  }
  if (!benches_.empty() && !samples.candidate[0].empty()) {
    *verdict.mutable_timing() = TimingOf(samples);
    verdict.mutable_timing()->set_throttled(device::WordsOf(throttled));
    if (verdict.verdict() == v1::ACCEPTED) *verdict.mutable_times() = TimesOf(samples);
  }
  if (verdict.verdict() == v1::ACCEPTED) *verdict.mutable_profile() = entry->profile;
  if (verdict.verdict() == v1::ACCEPTED && incumbent_ != nullptr && IsAlike(*entry, *incumbent_)) {
    entry->nearer = incumbent_->nearer || entry->nearer;
    entry->even = incumbent_->even || entry->even;
    entry->strays = incumbent_->strays || entry->strays;
    entry->missed.insert(incumbent_->missed.begin(), incumbent_->missed.end());
  }
  *verdict.mutable_accuracy() = AccuracyOf(*entry);
  if (verdict.verdict() == v1::ACCEPTED) {
    chance_ = chance_ || entry->even;
    incumbent_ = std::move(entry);
    since_redraw_ = 0;
  }
  if (!judgement.fatal) {
    for (size_t b = 0; b < benches_.size(); ++b) {
      if (benches_[b]->pool_bytes() <= allowance_[b] && !tight_) continue;
      benches_[b]->Trim(incumbent_ == nullptr ? nullptr : &incumbent_->plans[b]);
    }
  }
  lost_ = lost_ || judgement.fatal;
  verdict.set_peak_bytes(peak_bytes_);
  verdict.set_oracle_seconds(oracle_seconds_);
  verdict.set_judge_seconds(absl::ToDoubleSeconds(base::Now() - start));
  return judgement;
}

namespace {

// Of a race in which the same time was not the measure.
std::string MayTakeText(const Race& race, bool chance) {
  if (race.may_take() == 1) return "";
  const bool more = race.may_take() > 1;
  return absl::StrFormat(" (of %.2f: %s %s, and %s %s not)", race.may_take(),
                         more ? "the incumbent" : "it",
                         chance ? "is right by chance" : "strays from the reference",
                         more ? "it" : "the incumbent", chance ? "is" : "does");
}

}  // namespace

absl::StatusOr<Finding> Judge::Decide(const v1::JudgeEvaluate& request, Entry* entry,
                                      Samples* samples) {
  if (benches_.empty()) return absl::FailedPreconditionError("no problem is open");
  if (absl::Status s = RedrawIfDue(); !s.ok()) return s;
  auto finding = LoadAll(request.plans(), entry);
  if (!finding.ok() || !finding->ok()) return finding;
  finding = Screen(*entry, 0);
  if (!finding.ok() || !finding->ok()) return finding;
  for (const v1::CompiledPlan& plan : request.plans()) {
    // It has memory of ours to say so, which no candidate may have.
    if (absl::StartsWith(plan.plan().source(), problem::kBoundWaits))
      return Against(v1::REFUSED, "with bounded waits it is run once, to find where it hangs");
  }

  if (request.reinstall()) {
    // How near it is to the truth was forgotten, and is seen in some cases alone.
    for (int round = 1; round < cases_; ++round) {
      finding = Screen(*entry, round);
      if (!finding.ok() || !finding->ok()) return finding;
    }
    finding = TimeAlone(*entry, kFewestSamples, options_.race_limit, &samples->candidate);
    if (finding.ok() && finding->ok()) {
      finding = TimeCalls(*entry, options_.call_samples, options_.call_limit, samples);
    }
    if (!finding.ok() || !finding->ok()) return finding;
    return Against(v1::ACCEPTED, "it was the incumbent before the judge started again");
  }
  std::optional<Race> race;
  if (incumbent_ != nullptr) {
    if (chance_ || entry->even) {
      if (absl::Status s = MeetAtHand(*incumbent_); !s.ok()) return s;
    }
    Race::Rule rule = options_.race;
    rule.may_take = MayTake(*entry);
    race.emplace(rule);
    finding = RunRace(*entry, *race, kQuickPairs, samples);
    if (!finding.ok() || !finding->ok()) return finding;
  }
  if (race && race->decision() == Decision::kSlower) {
    return Against(v1::SLOWER, absl::StrFormat("%.2f times the incumbent's time%s", race->ratio(),
                                               MayTakeText(*race, IsByChance(*entry))));
  }
  finding = Screen(*entry, 1);
  if (!finding.ok() || !finding->ok()) return finding;
  finding =
      race ? RunRace(*entry, *race, options_.race.most, samples)
           : TimeAlone(*entry, options_.first_samples, options_.race_limit, &samples->candidate);
  if (!finding.ok() || !finding->ok()) return finding;
  for (size_t b = 0; b < benches_.size(); ++b) entry->median[b] = Median(samples->candidate[b]);
  Finding believed = Believe(*entry);
  if (!believed.ok()) return believed;
  if (race) believed = StillFaster(*entry, *race);
  if (!believed.ok()) return believed;
  if (race && race->decision() != Decision::kFaster) {
    return Against(
        v1::SLOWER,
        absl::StrFormat("%.3f times the incumbent's time after %d pairs%s%s", race->ratio(),
                        race->samples(),
                        race->decision() == Decision::kSame ? ": no more than noise" : "",
                        MayTakeText(*race, IsByChance(*entry))));
  }
  finding = Confirm(*entry, race ? &*race : nullptr, samples);
  if (!finding.ok() || !finding->ok()) return finding;
  if (race && entry->even) {
    if (absl::Status s = MeetAtHand(*incumbent_); !s.ok()) return s;
  }
  if (race) finding = StillFaster(*entry, *race);
  if (!finding.ok() || !finding->ok()) return finding;
  finding = TimeCalls(*entry, options_.call_samples, options_.call_limit, samples);
  if (!finding.ok() || !finding->ok()) return finding;
  const double since = absl::ToDoubleSeconds(base::Now() - opened_at_);
  const bool affordable =
      counter_seconds_ + next_counter_seconds_ <= options_.counter_share * since;
  if (absl::Status s = AddProfile(*entry, affordable); !s.ok()) return s;
  if (!race) return Against(v1::ACCEPTED, "the first that is right");
  return Against(v1::ACCEPTED, absl::StrFormat("%.3f times the incumbent's time%s", race->ratio(),
                                               MayTakeText(*race, IsByChance(*entry))));
}

absl::Status Judge::MeetAtHand(Entry& incumbent) {
  for (size_t b = 0; b < benches_.size(); ++b) {
    for (int slot = 0; slot < cases_; ++slot) {
      if (!benches_[b]->Has(slot) || benches_[b]->at(slot).variation != oracle::Variation::kNone)
        continue;
      const std::pair drawn(b, benches_[b]->at(slot).seed);
      if (incumbent.hashes.count(drawn) > 0) continue;
      const auto finding = CheckOne(incumbent, b, slot, kPoisons[0], Strictness::kElements);
      if (!finding.ok()) return finding.status();
      if (finding->fatal)
        return absl::InternalError(absl::StrCat("the incumbent failed: ", finding->reason));
      if (finding->ok()) continue;
      incumbent.hashes[drawn] = {};  // it is further off than by chance
      incumbent.missed.insert(drawn);
    }
  }
  return absl::OkStatus();
}

bool Judge::IsAlike(const Entry& a, const Entry& b) {
  bool met = false;
  for (const auto& [drawn, hashes] : a.hashes) {
    const auto other = b.hashes.find(drawn);
    if (other == b.hashes.end()) continue;
    if (other->second != hashes) return false;
    met = true;
  }
  return met;
}

// Whether it never missed the tolerance, and the other one did in each case that both have met, as
// many as there are at hand, or as it has met so far: of alike ones one may be lucky in some.
bool Judge::MeetsWhereMissed(const Entry& entry, const Entry& other) const {
  int met = 0, missed = 0;
  for (const auto& [drawn, hashes] : entry.hashes) {
    met += other.hashes.count(drawn) > 0;
    missed += other.missed.count(drawn) > 0;
  }
  const int wanted = std::min(cases_, static_cast<int>(entry.hashes.size()));
  return entry.missed.empty() && missed == met && missed >= std::max(1, wanted);
}

bool Judge::IsByChance(const Entry& entry) const {
  return chance_ || incumbent_->even || entry.even;
}

// Where chance has decided once, whoever is neither known to be nearer nor right wherever the other
// one missed counts as right by chance: or alike ones, of which one was lucky with its cases, would
// make each other slower step by step. Where it has not, who strays from the reference counts so.
double Judge::MayTake(const Entry& entry) const {
  if (IsAlike(entry, *incumbent_)) return 1;
  if (!IsByChance(entry)) {
    const auto weight = [](const Entry& e) { return e.strays ? kByChance : 1; };
    return weight(*incumbent_) / weight(entry);
  }
  const auto weight = [&](const Entry& e, const Entry& other) {
    return (e.nearer && !e.even) || MeetsWhereMissed(e, other) ? 1 : kByChance;
  };
  return weight(*incumbent_, entry) / weight(entry, *incumbent_);
}

Finding Judge::StillFaster(const Entry& entry, const Race& race) const {
  if (race.may_take() <= MayTake(entry) || race.ratio() < MayTake(entry)) return Finding();
  return Against(
      v1::SLOWER,
      absl::StrFormat("%.3f times the incumbent's time: %s", race.ratio(),
                      !IsByChance(entry)    ? "on other inputs it strays from the reference"
                      : race.may_take() > 1 ? "more was allowed as long as it was not right by "
                                              "chance, which on other inputs it is"
                                            : "on other inputs it is right by chance, and the "
                                              "incumbent is not"));
}

absl::StatusOr<Finding> Judge::LookBack(Entry& entry, bool whole) {
  for (size_t b = 0; b < benches_.size(); ++b) {
    auto finding = benches_[b]->InspectLeftovers(entry.plans[b], whole);
    if (finding.ok() && finding->ok()) continue;
    if (finding.ok()) absl::StrAppend(&finding->reason, ", in a timed replay");
    return finding;
  }
  return Finding();
}

// What is timed while the machine holds the clock down says little of the candidate.
absl::StatusOr<Finding> Judge::Undisturbed(device::Throttling* throttled,
                                           absl::FunctionRef<absl::StatusOr<Finding>()> measure) {
  for (int again = 0;; ++again) {
    const base::Instant start = base::Now();
    const device::Throttling before = device_.Throttled();
    auto finding = measure();
    *throttled = device_.Throttled() - before;
    // What speaks against the candidate by itself stays said.
    const bool of_time = finding.ok() && !finding->fatal &&
                         (finding->ok() || finding->verdict == v1::ACCEPTED ||
                          finding->verdict == v1::SLOWER || finding->verdict == v1::IMPLAUSIBLE);
    if (!of_time || again == options_.most_retimes || !device::Disturbs(*throttled)) return finding;
    const base::Instant now = base::Now();
    const absl::Duration took = now - start + options_.cooling;
    const absl::Duration affordable = options_.retime_share * (now - opened_at_);
    const bool dear = retimed_ + took > std::max(affordable, options_.least_retime);
    if (dear || took > options_.longest_retime) return finding;
    retimed_ += took;
    absl::SleepFor(options_.cooling);
  }
}

// ---- loading and checking -----------------------------------------------------------------------

absl::StatusOr<Finding> Judge::LoadAll(
    const google::protobuf::RepeatedPtrField<v1::CompiledPlan>& plans, Entry* entry) {
  entry->median.assign(benches_.size(), 0);
  entry->run_seconds.assign(benches_.size(), 0);
  if (plans.size() != static_cast<int>(benches_.size())) {
    return Against(v1::REFUSED,
                   absl::StrCat("problem '", problem_.name(), "' has ", benches_.size(),
                                " workloads; there are plans for ", plans.size()));
  }
  for (size_t b = 0; b < benches_.size(); ++b) {
    auto loaded = benches_[b]->Load(plans[static_cast<int>(b)], allowance_[b]);
    if (!loaded.ok()) {
      const absl::StatusCode code = loaded.status().code();
      if (code == absl::StatusCode::kInvalidArgument ||
          code == absl::StatusCode::kFailedPrecondition ||
          code == absl::StatusCode::kResourceExhausted) {
        return Against(v1::REFUSED, std::string(loaded.status().message()));
      }
      return loaded.status();
    }
    entry->plans.push_back(*std::move(loaded));
  }
  return Finding();
}

absl::StatusOr<Finding> Judge::Screen(Entry& entry, int round) {
  for (size_t b = 0; b < benches_.size(); ++b) {
    const int slot = static_cast<int>((evaluations_ + round) % cases_);
    auto finding = CheckOne(entry, b, slot, kPoisons[round % 3], Strictness::kElements);
    if (!finding.ok() || !finding->ok()) return finding;
  }
  NotePeak();
  return Finding();
}

absl::StatusOr<Finding> Judge::CheckOne(Entry& entry, size_t bench, int slot, uint32_t poison,
                                        Strictness strictness) {
  Workbench& workbench = *benches_[bench];
  const absl::Duration limit = HangLimit(bench);
  auto finding = workbench.Check(entry.plans[bench], slot, poison, limit, strictness);
  if (!finding.ok()) return finding;
  if (finding->verdict == v1::WRONG) {
    for (int i = 0; i < kRetries; ++i) {
      auto again = workbench.Check(entry.plans[bench], slot, poison, limit, strictness);
      if (!again.ok() || again->fatal) return again;
      if (again->ok()) {
        return Against(v1::UNSTABLE,
                       absl::StrCat("right in one run and wrong in another on the same input: ",
                                    finding->reason));
      }
      if (again->verdict != v1::WRONG) return again;  // the case is spoilt
    }
    return finding;
  }
  if (!finding->ok()) return finding;
  entry.run_seconds[bench] = std::max(entry.run_seconds[bench], finding->seconds);

  const oracle::Case& drawn = workbench.at(slot);
  const auto too_inaccurate = [&](double allowed, const char* data) {
    if (problem_.accuracy().tolerance_only() || finding->error_ratio <= allowed) return Finding();
    return Against(v1::INACCURATE,
                   absl::StrFormat("%s%s: %s; at most %g times as much is allowed",
                                   workbench.label(), data, finding->worst, allowed));
  };
  if (drawn.variation == oracle::Variation::kNone) {
    entry.errors.max = std::max(entry.errors.max, finding->errors.max);
    entry.errors.rms = std::max(entry.errors.rms, finding->errors.rms);
    entry.ratio = std::max(entry.ratio, finding->error_ratio);
    entry.measured = entry.measured && finding->measured;
    entry.hashes[{bench, drawn.seed}] = finding->hashes;
    entry.nearer = entry.nearer || finding->nearer;
    entry.even = entry.even || finding->even;
    entry.strays = entry.strays || finding->strays;
    if (finding->nearer || finding->even) entry.missed.insert({bench, drawn.seed});
    reference_max_error_ = std::max(reference_max_error_, drawn.whole.max);
    Finding against = too_inaccurate(kOrdinaryRatio, "");
    if (!against.ok()) return against;
  } else if (drawn.variation == oracle::Variation::kWide) {
    entry.wide_ratio = std::max(entry.wide_ratio, finding->error_ratio);
    Finding against = too_inaccurate(kWideRatio, ", data over several decades");
    if (!against.ok()) return against;
  }
  return finding;
}

// ---- timing -------------------------------------------------------------------------------------

// What the replay is to write is poisoned before, so that nothing lives on from the last one.
absl::StatusOr<Finding> Judge::TimeOnce(Entry& entry, size_t bench, int slot,
                                        std::vector<std::vector<double>>* samples,
                                        device::Launching how) {
  absl::Status s = benches_[bench]->Poison(entry.plans[bench], slot, NextPoison());
  if (!s.ok()) return s;
  return Replay(entry, bench, slot, samples, how);
}

absl::StatusOr<Finding> Judge::Replay(Entry& entry, size_t bench, int slot,
                                      std::vector<std::vector<double>>* samples,
                                      device::Launching how) {
  auto finding = benches_[bench]->Time(entry.plans[bench], slot, HangLimit(bench), how);
  if (!finding.ok() || !finding->ok()) return finding;
  if (samples != nullptr) (*samples)[bench].push_back(std::max(finding->seconds, 1e-9));
  return finding;
}

// In a race an incumbent is trusted: poison is for the sake of fairness, where it costs little.
absl::Status Judge::TimeIncumbent(size_t bench, int slot,
                                  std::vector<std::vector<double>>* samples) {
  const Workbench& workbench = *benches_[bench];
  const bool cheap = workbench.written_bytes() + workbench.pool_bytes() <= options_.cheap_poison;
  auto finding = cheap ? TimeOnce(*incumbent_, bench, slot, samples)
                       : Replay(*incumbent_, bench, slot, samples);
  if (!finding.ok()) return finding.status();
  if (finding->ok()) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("the incumbent failed: ", finding->reason));
}

uint32_t Judge::NextPoison() { return poison_ = kPoisons[++poisons_ % std::size(kPoisons)]; }

// One to three replays on inputs that are known, and a look at what the last one left. Who leaves
// work out where only time is taken cannot tell these from the others.
absl::StatusOr<Finding> Judge::CheckTimed(Entry& entry, size_t bench, int slot) {
  for (uint64_t left = NextSeed() % kMostReplays;; --left) {
    auto finding = TimeOnce(entry, bench, slot, nullptr);
    if (!finding.ok() || !finding->ok()) return finding;
    if (left == 0) break;
  }
  return InspectTimed(entry, bench, slot);
}

absl::StatusOr<Finding> Judge::InspectTimed(Entry& entry, size_t bench, int slot) {
  auto finding = benches_[bench]->Inspect(entry.plans[bench], slot, poison_, Strictness::kElements);
  if (finding.ok() && !finding->ok()) {
    finding->reason = absl::StrCat("a timed replay: ", finding->reason);
  }
  return finding;
}

// Times on inputs that nobody has seen (`parts` as Workbench::Stir takes them), and puts them back.
absl::StatusOr<Finding> Judge::OnUnseen(size_t bench, int slot, int64_t parts,
                                        absl::FunctionRef<absl::StatusOr<Finding>()> time) {
  Workbench& workbench = *benches_[bench];
  if (absl::Status s = workbench.Stir(slot, parts); !s.ok()) return s;
  auto finding = time();
  if (finding.ok() && finding->ok()) {
    absl::Status s = workbench.Stir(slot, parts);
    if (s.ok()) return finding;
    finding = s;
  }
  workbench.Drop(slot);  // whatever stopped it, the inputs are not the case's any more
  return finding;
}

// One replay of each, of every workload, in an order that alternates.
absl::StatusOr<Finding> Judge::AddPair(Entry& entry, Race& race, Samples* samples) {
  const int round = race.samples();
  const int slot = round / kPairsPerCase % cases_;
  double log_ratio = 0;
  for (size_t b = 0; b < benches_.size(); ++b) {
    for (int turn = 0; turn < 2; ++turn) {
      const bool mine = (turn + round) % 2 == 0;
      if (!mine) {
        if (absl::Status s = TimeIncumbent(b, slot, &samples->incumbent); !s.ok()) return s;
        continue;
      }
      auto finding = TimeOnce(entry, b, slot, &samples->candidate);
      if (!finding.ok() || !finding->ok()) return finding;
    }
    log_ratio += std::log(samples->candidate[b].back() / samples->incumbent[b].back());
  }
  race.AddLog(log_ratio / static_cast<double>(benches_.size()));
  return Finding();
}

// Goes on until the race is decided or has `most` pairs.
absl::StatusOr<Finding> Judge::RunRace(Entry& entry, Race& race, int most, Samples* samples) {
  if (race.samples() == 0) {
    if (absl::Status s = device_.Settle(kSettleLimit); !s.ok()) return s;
    for (size_t b = 0; b < benches_.size(); ++b) {
      for (int i = 0; i < kWarmUps; ++i) {
        auto finding = TimeOnce(entry, b, 0, nullptr);
        if (!finding.ok() || !finding->ok()) return finding;
        if (absl::Status s = TimeIncumbent(b, 0, nullptr); !s.ok()) return s;
      }
    }
  }
  const base::Instant start = base::Now();
  while (race.samples() < most && race.decision() == Decision::kContinue) {
    auto finding = AddPair(entry, race, samples);
    if (!finding.ok() || !finding->ok()) return finding;
    if (race.samples() >= kFewestInRace && base::Now() - start > options_.race_limit) race.Stop();
  }
  return Finding();
}

absl::StatusOr<Finding> Judge::TimeAlone(Entry& entry, int wanted, absl::Duration limit,
                                         std::vector<std::vector<double>>* samples,
                                         device::Launching how,
                                         std::vector<std::vector<double>>* launched) {
  // An incumbent is timed alone for the result that is told.
  const bool unseen = &entry == incumbent_.get();
  if (absl::Status s = device_.Settle(kSettleLimit); !s.ok()) return s;
  for (size_t b = 0; b < benches_.size(); ++b) {
    auto warm = TimeOnce(entry, b, 0, nullptr, how);
    if (!warm.ok() || !warm->ok()) return warm;
    std::vector<std::vector<double>> taken(benches_.size());
    std::vector<double>& mine = taken[b];
    const base::Instant start = base::Now();
    while (static_cast<int>(mine.size()) < wanted) {
      const int slot = static_cast<int>(mine.size()) / kPairsPerCase % cases_;
      const auto time = [&] { return TimeOnce(entry, b, slot, &taken, how); };
      const auto parts = static_cast<int64_t>(mine.size()) + 1;
      auto finding = unseen ? OnUnseen(b, slot, parts, time) : time();
      if (!finding.ok() || !finding->ok()) return finding;
      if (launched != nullptr) {
        auto launch = device_.TimeLaunch();
        if (!launch.ok()) return launch.status();
        (*launched)[b].push_back(*launch);
      }
      if (static_cast<int>(mine.size()) >= kFewestAlone && base::Now() - start > limit) break;
      auto interval = MedianInterval(mine, kConfidence);
      if (interval && interval->high - interval->low < kNarrow * Median(mine)) break;
    }
    std::vector<double>& all = (*samples)[b];
    all.insert(all.end(), mine.begin(), mine.end());
    if (how == device::Launching::kHidden) entry.median[b] = Median(all);
  }
  return Finding();
}

absl::StatusOr<Finding> Judge::TimeCalls(Entry& entry, int wanted, absl::Duration limit,
                                         Samples* samples) {
  if (device_.info().kind != "host") {
    return TimeAlone(entry, wanted, limit, &samples->called, device::Launching::kCounted,
                     &samples->launched);
  }
  samples->called = samples->candidate;
  return Finding();
}

absl::Status Judge::AddProfile(Entry& entry, bool counters) {
  v1::Profile profile;
  profile.set_times_by(device_.info().kind == "host" ? "processor time" : "events");
  std::string missing;
  if (!counters) {
    missing = absl::StrFormat(
        "reading them would take more than %g %% of the time since the problem was opened",
        100 * options_.counter_share);
  }
  const base::Instant start = base::Now();
  for (size_t b = 0; b < benches_.size(); ++b) {
    std::vector<v1::Profile::Kernel> kernels;
    auto finding =
        benches_[b]->Profile(entry.plans[b], 0, HangLimit(b), counters, &kernels, &missing);
    if (!finding.ok() || !finding->ok()) {
      const std::string reason =
          finding.ok() ? finding->reason : std::string(finding.status().message());
      entry.profile.set_counters_missing(reason);
      if (finding.ok() ? !finding->fatal : !IsFatal(finding.status())) return absl::OkStatus();
      lost_ = true;
      return absl::AbortedError(absl::StrCat("the device was lost in profiling: ", reason));
    }
    for (v1::Profile::Kernel& kernel : kernels) {
      kernel.set_workload(static_cast<int>(b));
      if (kernel.has_counters()) {
        profile.set_counters_by(kCountersBy);
      } else if (missing.empty()) {
        missing = absl::StrCat("kernel '", kernel.entry(), "': its blocks wait for each other");
      }
      *profile.add_kernels() = std::move(kernel);
    }
  }
  profile.set_counters_missing(missing);
  if (counters) {
    next_counter_seconds_ = absl::ToDoubleSeconds(base::Now() - start);
    counter_seconds_ += next_counter_seconds_;
  }
  entry.profile = std::move(profile);
  return absl::OkStatus();
}

Finding Judge::Believe(const Entry& entry) const {
  if (device_.info().kind == "host" && !options_.roof) return Finding();
  for (size_t b = 0; b < benches_.size(); ++b) {
    const graph::Light& least = least_[b];
    const double most = entry.median[b] * options_.light_slack;
    if (most >= least.seconds()) continue;
    // Bytes are certain; of operations there may be ways to do with fewer than are known.
    const char* const why = most < least.memory
                                ? ""
                                : "; its bytes do not speak against it: to be reviewed, the count "
                                  "of operations may be too high";
    return Against(
        v1::IMPLAUSIBLE,
        absl::StrFormat("%s: %.3g us is %.2f times faster than the speed of light here (%.3g us "
                        "for its bytes, %.3g us for operations, %.3g us for products on tensor "
                        "cores)%s",
                        benches_[b]->label(), entry.median[b] * 1e6,
                        least.seconds() / entry.median[b], least.memory * 1e6,
                        least.operations * 1e6, least.products * 1e6, why));
  }
  return Finding();
}

absl::Duration Judge::HangLimit(size_t bench) const {
  double seconds = 0;
  if (incumbent_ != nullptr) {
    seconds =
        options_.hang_factor * std::max(incumbent_->median[bench], incumbent_->run_seconds[bench]);
  } else if (op_by_op_ != nullptr && op_by_op_->run_seconds[bench] > 0) {
    seconds = kFirstFactor * std::max(op_by_op_->median[bench], op_by_op_->run_seconds[bench]);
  } else if (const v1::Baseline* strongest = problem::Strongest(baselines_)) {
    seconds = kFirstOfBaseline * problem::QuickestUs(*strongest) * 1e-6;
  } else {
    return options_.first_limit;
  }
  return absl::Seconds(seconds) + options_.hang_floor;
}

// ---- cases --------------------------------------------------------------------------------------

uint64_t Judge::NextSeed() {
  seed_ += 0x9e3779b97f4a7c15ull;  // splitmix64
  uint64_t z = (seed_ ^ (seed_ >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return (z ^ (z >> 31)) >> 2;  // fits what others call a seed
}

absl::StatusOr<int> Judge::Draw(size_t bench, int slot, oracle::Variation variation) {
  Workbench& workbench = *benches_[bench];
  if (tight_) Shed();
  const base::Instant start = base::Now();
  absl::Status s = workbench.Draw(slot, NextSeed(), variation);
  if (absl::IsResourceExhausted(s) && !tight_) {
    // Running the problem itself takes more than was left for it.
    Tighten();
    slot = 0;
    s = workbench.Draw(slot, NextSeed(), variation);
  }
  const double seconds = absl::ToDoubleSeconds(base::Now() - start);
  draw_seconds_ = std::max(draw_seconds_, seconds);
  oracle_seconds_ += seconds;
  NotePeak(workbench.oracle().PeakBytes());
  if (!s.ok()) return s;
  return slot;
}

void Judge::Shed() {
  for (const auto& bench : benches_) {
    bench->Shed();
    for (int slot = cases_; slot < Workbench::kSlots; ++slot) bench->Drop(slot);
  }
}

void Judge::Tighten() {
  tight_ = true;
  cases_ = 1;
  Shed();
  for (const auto& bench : benches_) bench->oracle().SetRoom({tight_room_, /*keep=*/false});
}

// Slots that are empty or hold a variation get an ordinary case, and now and then one is renewed.
absl::Status Judge::RedrawIfDue() {
  const bool due = since_redraw_ > options_.redraw_after;
  for (size_t b = 0; b < benches_.size(); ++b) {
    for (int slot = 0; slot < cases_; ++slot) {
      const bool old = due && slot == static_cast<int>(evaluations_ % cases_);
      const bool usable =
          benches_[b]->Has(slot) && benches_[b]->at(slot).variation == oracle::Variation::kNone;
      if (usable && !old) continue;
      const auto drawn = Draw(b, slot, oracle::Variation::kNone);
      if (!drawn.ok()) return drawn.status();
    }
  }
  if (due) since_redraw_ = 0;
  return absl::OkStatus();
}

void Judge::NotePeak(int64_t beside) {
  peak_bytes_ = std::max(peak_bytes_, device_.allocated_bytes() + beside);
}

// ---- what the verdict says ----------------------------------------------------------------------

Judge::Samples Judge::NoSamples() const {
  const std::vector<std::vector<double>> none(benches_.size());
  return {none, none, none, none};
}

v1::Times Judge::TimesOf(const Samples& samples) const {
  v1::Times times;
  std::vector<double> device, graph, launch;
  for (size_t b = 0; b < benches_.size(); ++b) {
    if (samples.candidate[b].empty() || samples.called[b].empty()) return times;
    if (!samples.launched[b].empty()) launch.push_back(Median(samples.launched[b]));
    device.push_back(Median(samples.candidate[b]));
    graph.push_back(Median(samples.called[b]));
  }
  times.set_device_us(GeometricMean(device) * 1e6);
  times.set_graph_us(GeometricMean(graph) * 1e6);
  if (launch.size() == benches_.size()) times.set_launch_us(GeometricMean(launch) * 1e6);
  // On the host a run is a call, and there are no graphs to be told apart from it.
  if (device_.info().kind == "host") times.set_call_us(times.graph_us());
  return times;
}

v1::Timing Judge::TimingOf(const Samples& samples) const {
  v1::Timing timing;
  std::vector<double> medians, lows, highs, incumbents;
  for (size_t b = 0; b < benches_.size(); ++b) {
    const std::vector<double>& mine = samples.candidate[b];
    if (mine.empty()) return timing;
    auto interval = MedianInterval(mine, kConfidence);
    auto [least, most] = std::minmax_element(mine.begin(), mine.end());
    medians.push_back(Median(mine));
    lows.push_back(interval ? interval->low : *least);
    highs.push_back(interval ? interval->high : *most);
    if (!samples.incumbent[b].empty()) incumbents.push_back(Median(samples.incumbent[b]));
  }
  timing.set_median_us(GeometricMean(medians) * 1e6);
  timing.set_low_us(GeometricMean(lows) * 1e6);
  timing.set_high_us(GeometricMean(highs) * 1e6);
  timing.set_samples(static_cast<int>(samples.candidate[0].size()));
  if (incumbents.size() == benches_.size())
    timing.set_incumbent_us(GeometricMean(incumbents) * 1e6);
  timing.set_sm_clock_mhz(device_.SmClockMhz());
  return timing;
}

v1::Accuracy Judge::AccuracyOf(const Entry& entry) const {
  v1::Accuracy accuracy;
  accuracy.set_max_error(entry.errors.max);
  accuracy.set_rms_error(entry.errors.rms);
  accuracy.set_reference_max_error(reference_max_error_);
  accuracy.set_wide_ratio(entry.wide_ratio);
  if (benches_.empty()) return accuracy;
  accuracy.set_oracle(benches_[0]->oracle().name());
  const bool accurate = entry.ratio <= kOrdinaryRatio && entry.wide_ratio <= kWideRatio;
  accuracy.set_even(entry.even);
  accuracy.set_accuracy_class(entry.measured && accurate ? "no less accurate" : "within tolerance");
  return accuracy;
}

}  // namespace warpsmith::judge
