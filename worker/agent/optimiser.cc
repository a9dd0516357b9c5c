#include "worker/agent/optimiser.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <future>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/sha256.h"
#include "common/graph/signature.h"
#include "common/problem/compressed.h"
#include "common/problem/problem.h"
#include "common/problem/workspace.h"
#include "worker/agent/held_by.h"
#include "worker/agent/history.h"
#include "worker/agent/incumbent.h"
#include "worker/agent/moves.h"
#include "worker/agent/policy.h"
#include "worker/agent/record.h"
#include "worker/agent/starts.h"
#include "worker/judge/accuracy.h"

namespace warpsmith::agent {
namespace {

// Moves in a row that never get to the judge (a source that was judged before, a schedule that code
// generation refuses) before the loop looks at its budget again.
constexpr int kMaxIdleMoves = 64;

// Times that a schedule to start from is submitted again because the judge failed on it.
constexpr int kMaxStartFailures = 2;
// Times the estimate of the incumbent from which on a candidate is not tried; and of the first
// schedule, while nothing is right: what is right may be what is slow.
constexpr double kHopeless = 5, kHopelessAtFirst = 30;

// While the oldest candidate is not answered: how often it is seen whether another one is.
constexpr auto kLookAgain = std::chrono::milliseconds(2);

// Options.in_flight where it is open. On the host the compiler takes a second and shares the
// processors with what is measured.
constexpr int kCardInFlight = 8;
constexpr int kHostInFlight = 3;

// Whether answers of which errors are told are fp32, and there are any.
bool AnswersInFloats(const graph::Graph& graph) {
  std::vector<int> answers = graph.outputs;
  for (const graph::Graph::Update& update : graph.updates) answers.push_back(update.value);
  const auto is_float = [&](int t) { return graph::IsFloat(graph.tensors[t].type); };
  return absl::c_any_of(answers, is_float) && absl::c_all_of(answers, [&](int t) {
           return !is_float(t) || graph.tensors[t].type == graph::DType::kF32;
         });
}

// What tells two candidates apart: what is compiled and how it is launched.
std::string DigestOf(const std::vector<v1::Plan>& plans) {
  std::string all;
  for (const auto& plan : plans) absl::StrAppend(&all, Bytes(plan), "\n");
  return base::Sha256Hex(all);
}

bool IsRight(v1::Verdict verdict) { return verdict == v1::ACCEPTED || verdict == v1::SLOWER; }

// One slice.
class Slice {
 public:
  Slice(Evaluator& evaluator, const Options& options, const v1::Lease& lease, Reporter& reporter,
        const std::atomic<bool>& stop)
      : evaluator_(evaluator),
        options_(options),
        lease_(lease),
        reporter_(reporter),
        stop_(stop),
        judged_before_(lease.judged_sources().begin(), lease.judged_sources().end()) {}

  absl::StatusOr<Outcome> Run() {
    const base::Instant started = Now();
    if (auto status = Prepare(); !status.ok()) return status;
    search_started_ = Now();
    if (auto status = Search(); !status.ok()) {
      Forget();
      return status;
    }
    outcome_.search_seconds = absl::ToDoubleSeconds(Now() - search_started_);
    if (auto status = Finish(); !status.ok()) return status;
    outcome_.seconds = absl::ToDoubleSeconds(Now() - started);
    return outcome_;
  }

 private:
  // A candidate on its way.
  struct Flight {
    v1::Trial trial;
    std::shared_ptr<Node> node;        // what it becomes if it is right
    std::optional<Proposal> proposal;  // absent for schedules to start from
    std::string known_as;              // to the planner, from earlier slices; "": as this trial
    bool beside = false;               // a start that is tried beside one that is right
    std::vector<v1::Plan> plans;
    base::Instant proposed;
    std::future<Evaluated> answer;  // or it was never submitted:
    std::optional<v1::Verdict> refused;
  };

  base::Instant Now() const { return options_.clock->TimeNow(); }

  absl::Status Prepare() {
    auto policy = options_.make_policy(lease_.policy(), lease_.seed());
    if (!policy.ok()) return policy.status();
    policy_ = *std::move(policy);
    reporter_.OnProgress("opening");
    const v1::Problem& problem = lease_.problem();
    int64_t most_bytes = -1;
    for (const auto& workload : problem.workloads()) {
      auto graph = problem::GraphOf(problem, workload);
      if (!graph.ok()) return graph.status();
      graphs_.push_back(std::make_shared<const graph::Graph>(*std::move(graph)));
      const int64_t bytes = graph::Count(*graphs_.back()).bytes();
      if (bytes > most_bytes) {
        most_bytes = bytes;
        main_ = graphs_.back();
        main_workload_ = static_cast<int>(graphs_.size()) - 1;
      }
    }
    if (graphs_.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("problem '", problem.name(), "' has no workload"));
    }
    // Where not every node lowers on its own there is no such baseline, which need not stop us.
    auto op_by_op = Lower(codegen::OpByOpSchedule(*main_, options_.target));
    auto opened = evaluator_.Open(problem, lease_.seed(),
                                  op_by_op.ok() ? *op_by_op : std::vector<v1::Plan>());
    if (!opened.ok()) return opened.status();
    opened_ = *std::move(opened);
    const v1::Roof& roof = opened_.roof();
    roof_ = {.read_bytes = roof.read_bytes(),
             .write_bytes = roof.write_bytes(),
             .copy_bytes = roof.copy_bytes(),
             .operations = roof.operations(),
             .products = roof.products(),
             .most_products = roof.most_products()};
    signature_ = graph::Signature(*main_);
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<v1::Plan>> Lower(const v1::Schedule& schedule) const {
    std::vector<v1::Plan> plans;
    for (int i = 0; i < graphs_.size(); ++i) {
      auto rewritten = codegen::Rewrite(*graphs_[i], schedule.rewrites());
      if (!rewritten.ok()) return rewritten.status();
      auto plan = codegen::Lower(*rewritten, schedule, options_.target);
      if (!plan.ok()) return plan.status();
      plan->set_workload(lease_.problem().workloads(i).name());
      plans.push_back(*std::move(plan));
    }
    return plans;
  }

  // What the judge would refuse for its workspace need not be compiled to be told so.
  absl::Status Fits(const std::vector<v1::Plan>& plans) const {
    for (int i = 0; i < plans.size() && i < opened_.allowance_bytes_size(); ++i) {
      const int64_t bytes = problem::WorkspaceBytes(plans[i]);
      if (bytes <= opened_.allowance_bytes(i)) continue;
      return absl::ResourceExhaustedError(
          absl::StrCat("workload '", plans[i].workload(), "': the plan's workspace takes ", bytes,
                       " bytes; there are ", opened_.allowance_bytes(i), " for it"));
    }
    return absl::OkStatus();
  }

  // ---- the loop ---------------------------------------------------------------------------------

  absl::Status Search() {
    if (auto status = SubmitFirst(); !status.ok()) return status;
    const base::Instant deadline = Now() + absl::Seconds(lease_.seconds());
    while (true) {
      const char* over = nullptr;
      const bool spent = Now() >= deadline;
      if (stop_.load()) {
        over = "stopped";
      } else if (spent && !Starting()) {
        over = "budget spent";
      } else if (AtLight()) {
        over = "at the speed of light";
        outcome_.converged = true;
      } else if (best_.has_trial() &&
                 since_incumbent_ >= policy_->patience(history_.best()->state)) {
        over = "no gain for long";
        outcome_.converged = true;
      }
      if (over == nullptr) {
        const bool exhausted = spent || Fill();
        if (!flights_.empty()) {
          if (auto status = Take(); !status.ok()) return status;
          continue;
        }
        if (!exhausted) continue;
        over = "nothing left to try";
        outcome_.converged = true;
      }
      outcome_.reason = over;
      return Drain();
    }
  }

  // Nothing is right yet, and what to start from is still under way. It is waited for beyond the
  // budget: a slow judge or a short slice leaves a task with a plan that is right, not with none.
  bool Starting() const {
    return !best_.has_trial() &&
           std::any_of(flights_.begin(), flights_.end(),
                       [](const Flight& flight) { return !flight.proposal.has_value(); });
  }

  // The incumbent of earlier slices if it still lowers, or what code generation thinks best.
  absl::Status SubmitFirst() {
    absl::Status refused;
    // One of another generator may mean something else by its schedule.
    if (lease_.incumbent().has_solution() &&
        lease_.incumbent().solution().generator() == codegen::kGeneratorVersion) {
      refused = SubmitStart(lease_.incumbent().solution().schedule(),
                            "the incumbent of earlier slices", lease_.incumbent().trial().id());
      if (refused.ok()) return refused;
    }
    const v1::Schedule first = codegen::FirstSchedule(*main_, options_.target);
    SubmitInOnePass(first);
    refused = SubmitStart(first, "the default schedule");
    if (refused.ok()) {
      SubmitHiddenInOnePass(first);
      return refused;
    }
    return SubmitStart(codegen::OpByOpSchedule(*main_, options_.target),
                       "one kernel for each node");
  }

  // The reference's fp32 answers are as far from the truth as if it rounded the factors of its
  // products itself (as PyTorch's convolutions do): products in one pass, which do the same, are
  // judged before those of the first schedule, with ties both ways. Whether they are near enough is
  // for the judge to say.
  void SubmitInOnePass(const v1::Schedule& first) {
    if (opened_.reference_max_error() < judge::kRoundedError) return;
    for (const int ties : {2, 1}) {
      if (const auto schedule = InOnePass(main_, first, options_.target, ties))
        SubmitOnePass(*schedule,
                      "products in one pass, where what is replaced rounds their factors");
    }
  }

  // Where a convolution's errors do not show in what is made of it (a sigmoid of a softmax), nor do
  // ours: those in one pass come behind the first schedule.
  void SubmitHiddenInOnePass(const v1::Schedule& first) {
    if (opened_.reference_max_error() >= judge::kRoundedError) return;
    const auto schedule = InOnePass(main_, first, options_.target, /*ties=*/1);
    if (!schedule) return;
    const auto state = MakeState(main_, *schedule, options_.target);
    const bool convolves = state.ok() && absl::c_any_of(state->groups, [](const auto& group) {
                             const v1::ContractKnobs& contract = group.resolved.contract();
                             return contract.windows() > 1 && contract.math() == v1::PRODUCT_FP16;
                           });
    if (convolves)
      SubmitOnePass(*schedule, "products in one pass, whose roundings what follows may hide");
  }

  void SubmitOnePass(const v1::Schedule& schedule, const std::string& why) {
    if (history_.Tried(schedule) ||
        !absl::c_all_of(graphs_, [](const auto& graph) { return AnswersInFloats(*graph); }))
      return;
    const auto plans = Lower(schedule);
    if (!plans.ok() || judged_before_.count(DigestOf(*plans)) > 0) return;
    SubmitStart(schedule, why, "", /*beside=*/true).IgnoreError();
  }

  // `beside`: moves go on from another start, until this is right and better.
  absl::Status SubmitStart(const v1::Schedule& schedule, const std::string& action,
                           const std::string& known_as = "", bool beside = false) {
    auto plans = Lower(schedule);
    if (!plans.ok()) return plans.status();
    auto state = MakeState(main_, schedule, options_.target);
    if (!state.ok()) return state.status();
    auto node = std::make_shared<Node>();
    node->state = *std::move(state);
    node->state.light_us = opened_.light_us();
    node->state.roof = roof_;
    history_.Claim(schedule);
    if (!beside) history_.Start(node);
    Flight flight;
    flight.beside = beside;
    flight.trial = NewTrial(schedule);
    flight.trial.set_action(action);
    flight.trial.mutable_move()->set_kind("start");
    flight.trial.set_probability(1);
    flight.known_as = known_as;
    node->state.trial_id = flight.trial.id();  // of moves that are tried while it is being judged
    flight.node = std::move(node);
    Launch(std::move(flight), *std::move(plans));
    return absl::OkStatus();
  }

  // Keeps `in_flight` candidates under way. True: the policy has nothing more to propose.
  bool Fill() {
    const int automatic = options_.target.arch == "host" ? kHostInFlight : kCardInFlight;
    const int limit =
        options_.in_flight > 0 ? std::min(options_.in_flight, kMaxInFlight) : automatic;
    int idle = 0;
    if (StartsAgain()) return false;
    while (UnderWay() < limit && idle < kMaxIdleMoves) {
      auto proposal = policy_->Propose(history_);
      if (!proposal.has_value()) return true;
      if (!Try(*std::move(proposal))) ++idle;
      // Behind others it waits for its turn.
      while (!flights_.empty() && flights_.front().refused) TakeRefused();
    }
    return false;
  }

  // Whether a start is being judged after one that was wrong: that is seldom put right by a move,
  // so nothing is tried beside the next one.
  bool StartsAgain() const {
    return started_again_ && !best_.has_trial() &&
           std::any_of(flights_.begin(), flights_.end(), [](const Flight& flight) {
             return !flight.proposal.has_value() && !flight.refused;
           });
  }

  int UnderWay() const {
    return static_cast<int>(std::count_if(flights_.begin(), flights_.end(),
                                          [](const Flight& flight) { return !flight.refused; }));
  }

  // False: it never got to the judge.
  bool Try(Proposal proposal) {
    const Action& action = proposal.action;
    if (action.specialist != specialist_) {
      specialist_ = action.specialist;
      reporter_.OnProgress(specialist_);
    }
    history_.Claim(action.schedule);
    Flight flight;
    flight.trial = NewTrial(action.schedule);
    flight.trial.set_probability(proposal.probability);
    RecordProposal(proposal.from->state, action, flight.trial);
    flight.proposal = std::move(proposal);
    auto plans = Lower(flight.trial.schedule());
    if (plans.ok()) {
      if (absl::Status fits = Fits(*plans); !fits.ok()) plans = fits;
    }
    absl::StatusOr<State> state =
        plans.ok() ? MakeState(flight.proposal->from->state, flight.trial.schedule())
                   : plans.status();
    if (!state.ok()) {
      Refuse(std::move(flight), v1::NOT_LOWERED, std::string(state.status().message()));
      return false;
    }
    flight.node = std::make_shared<Node>();
    flight.node->state = *std::move(state);
    if (const std::string why = Hopeless(flight.node->state); !why.empty()) {
      Refuse(std::move(flight), v1::NOT_LOWERED, why);
      return false;
    }
    const std::string digest = DigestOf(*plans);
    if (judged_before_.count(digest) > 0) {
      flight.trial.set_source_digest(digest);
      Refuse(std::move(flight), v1::DUPLICATE, "the same source was judged before");
      return false;
    }
    Launch(std::move(flight), *std::move(plans));
    return true;
  }

  // Why the card's time is not to be spent on it; empty: it may be. By estimates alone, since what
  // is a hundred times slower than what there is takes the time of a hundred others to be measured.
  std::string Hopeless(const State& state) const {
    if (history_.best() == nullptr) return "";
    const bool right = best_.has_trial();
    const double best = EstimateOf(history_.best()->state), own = EstimateOf(state);
    if (own <= (right ? kHopeless : kHopelessAtFirst) * best) return "";
    return absl::StrFormat("estimated at %.0f us, %.0f times what %s is estimated at", own * 1e6,
                           own / best, right ? "the incumbent" : "the first schedule");
  }

  void Launch(Flight flight, std::vector<v1::Plan> plans) {
    const std::string digest = DigestOf(plans);
    judged_before_.insert(digest);
    flight.trial.set_source_digest(digest);
    flight.proposed = Now();
    flight.plans = plans;
    flight.answer = evaluator_.Submit({flight.trial.id(), flight.trial.schedule(), std::move(plans),
                                       !flight.proposal.has_value()});
    flights_.push_back(std::move(flight));
  }

  // A candidate that is never submitted.
  void Refuse(Flight flight, v1::Verdict verdict, const std::string& reason) {
    flight.refused = verdict;
    flight.trial.set_verdict(verdict);
    flight.trial.set_reason(reason);
    flights_.push_back(std::move(flight));
  }

  // The oldest, which was refused.
  void TakeRefused() {
    Flight flight = std::move(flights_.front());
    flights_.pop_front();
    Report(flight);
    Result result;
    result.verdict = *flight.refused;
    // What the same source took says what this move gives, which is nothing where it is the source
    // of the state that the move starts from.
    if (const auto known = times_us_.find(flight.trial.source_digest()); known != times_us_.end()) {
      result.right = true;
      result.gain = Gain(flight.proposal->from->state.time_us, known->second);
    }
    Tell(flight, result);
  }

  void Tell(const Flight& flight, const Result& result) {
    if (flight.proposal.has_value()) policy_->Learn(*flight.proposal, result);
  }

  // In log time; 0 where one of the times is unknown.
  static double Gain(double before_us, double after_us) {
    return before_us > 0 && after_us > 0 ? std::log(before_us / after_us) : 0;
  }

  // Takes the oldest answer that there is, or the oldest flight where that was refused. Where there
  // is none, waits for a moment: a source may take the compiler longer than the search has.
  absl::Status Take() {
    if (flights_.front().refused) {
      TakeRefused();
      return absl::OkStatus();
    }
    const auto answered = std::find_if(flights_.begin(), flights_.end(), [](const Flight& flight) {
      return !flight.refused &&
             flight.answer.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
    });
    if (answered == flights_.end()) {
      flights_.front().answer.wait_for(kLookAgain);
      return absl::OkStatus();
    }
    Flight flight = std::move(*answered);
    flights_.erase(answered);
    Evaluated answer = flight.answer.get();
    if (answer.verdict == v1::VERDICT_UNSPECIFIED) {
      Tell(flight, Result());
      return absl::OkStatus();
    }
    v1::Trial& trial = flight.trial;
    trial.set_verdict(answer.verdict);
    trial.set_reason(answer.reason);
    *trial.mutable_report() = answer.report;
    *trial.mutable_timing() = answer.timing;
    *trial.mutable_accuracy() = answer.accuracy;
    *trial.mutable_profile() = answer.profile;
    trial.set_judge_seconds(answer.judge_seconds);
    trial.set_seconds(absl::ToDoubleSeconds(Now() - flight.proposed));
    trial.set_at_unix_ms(absl::ToUnixMillis(options_.clock->Date()));
    flight.node->state.report = answer.report;
    Report(flight);

    if (answer.verdict == v1::JUDGE_FAILED) {
      if (++judge_failures_ >= kMaxJudgeFailures) {
        Tell(flight, {.verdict = v1::JUDGE_FAILED});
        return absl::UnavailableError(absl::StrCat("the judge failed ", judge_failures_,
                                                   " times in a row, last: ", answer.reason));
      }
    } else {
      judge_failures_ = 0;
      if (answer.verdict != v1::NOT_COMPILED) {
        ++outcome_.judged;
        ++since_incumbent_;
      }
    }
    Conclude(flight, answer);
    const bool start = !flight.proposal.has_value();
    if (start && !flight.beside && !IsRight(answer.verdict)) StartAgain(flight, answer);
    if (!draining_ && (start || answer.verdict == v1::ACCEPTED) && best_.trial().accuracy().even())
      StartNearer();
    return absl::OkStatus();
  }

  // Learning, and the place in the history.
  void Conclude(Flight& flight, const Evaluated& answer) {
    Result result;
    result.verdict = answer.verdict;
    result.right = IsRight(answer.verdict);
    result.accepted = answer.verdict == v1::ACCEPTED;
    if (flight.proposal.has_value()) flight.node->promise = flight.proposal->action.prior;
    flight.node->state.trial_id = flight.trial.id();
    if (answer.verdict == v1::INACCURATE) history_.AddInaccurate(flight.node);
    if (result.right) {
      State& state = flight.node->state;
      // Times are compared over the whole slice: what was measured beside the incumbent is taken
      // relative to it, so that a card that warms up does not count.
      const double incumbent_us = answer.timing.incumbent_us();
      const double known_us = history_.best()->state.time_us;
      state.time_us = answer.timing.median_us();
      if (incumbent_us > 0 && known_us > 0) state.time_us *= known_us / incumbent_us;
      if (flight.proposal.has_value()) {
        result.gain = Gain(flight.proposal->from->state.time_us, state.time_us);
      }
      TakeTimes(state, answer.profile, main_workload_);
      times_us_[flight.trial.source_digest()] = state.time_us;
      history_.Add(flight.node, result.accepted);
      if (outcome_.first_plan_seconds == 0) {
        outcome_.first_plan_seconds = absl::ToDoubleSeconds(Now() - search_started_);
      }
    }
    Tell(flight, result);
    if (result.accepted) Crown(flight, answer);
  }

  // A new incumbent.
  void Crown(const Flight& flight, const Evaluated& answer) {
    since_incumbent_ = 0;
    const bool beside = flight.beside && best_.has_trial();
    best_.Clear();
    best_.set_beat_trial_id(std::exchange(
        best_known_as_, flight.known_as.empty() ? flight.trial.id() : flight.known_as));
    v1::Solution& solution = *best_.mutable_solution();
    solution.set_problem_digest(problem::Digest(lease_.problem()));
    solution.set_arch(options_.target.arch);
    solution.set_generator(codegen::kGeneratorVersion);
    *solution.mutable_schedule() = flight.trial.schedule();
    for (const auto& plan : flight.plans) *solution.add_plans() = plan;
    *best_.mutable_trial() = flight.trial;
    *best_.mutable_times() = answer.times;
    best_.set_light_us(opened_.light_us());
    best_.set_peak_bytes(answer.peak_bytes);
    SetBaselines(opened_.baselines(), best_);
    Explain();
    // What earlier slices found is not news.
    if (flight.proposal.has_value() || beside || !lease_.incumbent().has_solution()) {
      improved_ = true;
      reporter_.OnIncumbent(best_);
    }
  }

  // What the search was to start from is not right: the next simpler thing. Where the judge failed,
  // nothing was said of it, and what earlier slices found is not to be lost by that.
  void StartAgain(const Flight& flight, const Evaluated& answer) {
    if (best_.has_trial()) return;
    if (answer.verdict == v1::JUDGE_FAILED && ++start_failures_ <= kMaxStartFailures) {
      (void)SubmitStart(flight.trial.schedule(), "the start again, the judge had failed",
                        flight.known_as);
      return;
    }
    while (const auto schedule = Starts().Next()) {
      if (history_.Tried(*schedule)) continue;
      // What is inaccurate moves may mend; of a wrong one those that wait for the judge are given
      // up.
      if (answer.verdict == v1::WRONG && !started_again_) {
        evaluator_.Abandon();
        started_again_ = true;
      }
      // What earlier slices found may have been of the other ties.
      if (!flight.known_as.empty())
        SubmitInOnePass(codegen::FirstSchedule(*main_, options_.target));
      if (SubmitStart(*schedule, "after a start that was not right").ok()) return;
    }
    // Moves from the last start are still there to be tried.
  }

  // The best so far is right by chance, and may be wrong on other inputs: what leaves out roundings
  // is tried beside it.
  void StartNearer() {
    while (const auto schedule = Starts().NextNearer()) {
      if (history_.Tried(*schedule)) continue;
      if (SubmitStart(*schedule, "nearer to the truth than a start that is right by chance", "",
                      /*beside=*/true)
              .ok())
        return;
    }
  }

  StartsAfterWrong& Starts() {
    if (!starts_) {
      starts_.emplace(main_, options_.target,
                      [this](const v1::Schedule& schedule) { return Lower(schedule).ok(); });
    }
    return *starts_;
  }

  // Gives up what is under way; what the judge has begun is still recorded.
  absl::Status Drain() {
    draining_ = true;
    evaluator_.Abandon();
    while (!flights_.empty()) {
      if (auto status = Take(); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

  // Gives up what is under way in a search that failed: what was refused before is still recorded,
  // and the policy told of each in its turn.
  void Forget() {
    evaluator_.Abandon();  // or what waits would be judged as candidates of the next lease
    while (!flights_.empty()) {
      if (flights_.front().refused) {
        TakeRefused();
        continue;
      }
      Tell(flights_.front(), Result());
      flights_.pop_front();
    }
  }

  absl::Status Finish() {
    if (best_.has_trial()) Explain();
    if (!improved_) return absl::OkStatus();
    reporter_.OnProgress("finalising");
    auto final = evaluator_.Finalise();
    if (!final.ok()) return final.status();
    if (!IsRight(final->verdict().verdict())) {
      // The next slice starts from it, and judges it anew.
      outcome_.converged = false;
      outcome_.reason =
          absl::StrCat("the incumbent did not pass again: ", final->verdict().reason());
      return absl::OkStatus();
    }
    if (final->verdict().timing().median_us() > 0) {
      *best_.mutable_trial()->mutable_timing() = final->verdict().timing();
    }
    if (final->verdict().accuracy().even()) {
      best_.mutable_trial()->mutable_accuracy()->set_even(true);
    }
    if (final->verdict().times().graph_us() > 0) {
      *best_.mutable_times() = final->verdict().times();
    }
    AddExport(evaluator_.TimeExport());
    SetBaselines(final->baselines().baselines_size() > 0 ? final->baselines() : opened_.baselines(),
                 best_);
    best_.set_peak_bytes(std::max(best_.peak_bytes(), final->verdict().peak_bytes()));
    if (final->verdict().profile().kernels_size() > 0) {
      *best_.mutable_trial()->mutable_profile() = final->verdict().profile();
    }
    Explain();
    reporter_.OnIncumbent(best_);
    return absl::OkStatus();
  }

  // What holds the best, so far as it is known now.
  void Explain() {
    best_.set_held_by(HeldBy(history_.best()->state, best_.trial().timing().median_us(),
                             best_.trial().profile(), main_workload_));
    outcome_.held_by = best_.held_by();
  }

  void AddExport(const Exported& exported) {
    for (const std::string& cubin : exported.cubins) {
      best_.add_compressed_cubins(problem::Compressed(cubin));
    }
    // On the host the judge has said it.
    if (exported.call_us > 0) best_.mutable_times()->set_call_us(exported.call_us);
    best_.set_call_graph_us(exported.graph_us);
    best_.set_call_missing(exported.missing);
  }

  bool AtLight() const {
    const double light_us = opened_.light_us(), time_us = best_.trial().timing().median_us();
    return light_us > 0 && time_us > 0 && light_us >= kLightReached * time_us;
  }

  v1::Trial NewTrial(const v1::Schedule& schedule) {
    v1::Trial trial;
    trial.set_id(absl::StrCat(lease_.id(), "/", ++trial_number_));
    trial.set_task_id(lease_.task_id());
    trial.set_policy(lease_.policy().empty() ? "rules" : lease_.policy());
    *trial.mutable_schedule() = schedule;
    trial.set_generator(codegen::kGeneratorVersion);
    trial.set_arch(options_.target.arch);
    trial.set_card(options_.card);
    trial.set_signature(signature_);
    trial.set_at_unix_ms(absl::ToUnixMillis(options_.clock->Date()));
    return trial;
  }

  void Report(Flight& flight) {
    if (flight.node != nullptr) {
      RecordResult(flight.proposal.has_value() ? &flight.proposal->from->state : nullptr,
                   flight.node->state, flight.trial);
    }
    ++outcome_.trials;
    reporter_.OnTrial(flight.trial);
  }

  Evaluator& evaluator_;
  const Options& options_;
  const v1::Lease& lease_;
  Reporter& reporter_;
  const std::atomic<bool>& stop_;

  std::unique_ptr<Policy> policy_;
  std::vector<std::shared_ptr<const graph::Graph>> graphs_;  // one for each workload
  std::shared_ptr<const graph::Graph> main_;
  int main_workload_ = 0;
  std::string signature_;  // of main_
  v1::JudgeOpened opened_;
  graph::Roof roof_;
  History history_;
  std::deque<Flight> flights_;              // oldest first
  std::set<std::string> judged_before_;     // source digests, those under way included
  std::map<std::string, double> times_us_;  // of right ones, by source digest
  std::string specialist_;
  v1::Incumbent best_;
  std::string best_known_as_;  // the trial by which the planner knows the best
  bool improved_ = false;      // best_ was found in this slice
  int since_incumbent_ = 0;
  int judge_failures_ = 0;                  // in a row
  int start_failures_ = 0;                  // of the judge on schedules to start from
  std::optional<StartsAfterWrong> starts_;  // since a start was not right, or by chance
  bool draining_ = false;                   // nothing new is begun
  bool started_again_ = false;              // since a start was wrong
  int64_t trial_number_ = 0;
  base::Instant search_started_;
  Outcome outcome_;
};

}  // namespace

Optimiser::Optimiser(Evaluator& evaluator, Options options)
    : evaluator_(evaluator), options_(std::move(options)) {}

absl::StatusOr<Outcome> Optimiser::Run(const v1::Lease& lease, Reporter& reporter,
                                       const std::atomic<bool>& stop) {
  return Slice(evaluator_, options_, lease, reporter, stop).Run();
}

}  // namespace warpsmith::agent
