// The judge: whether a candidate is right, accurate, fast and believable, and whether it is the new
// incumbent.
//
//   Judge judge(device, compiler, oracles, options);
//   auto opened = judge.Open(request);
//   Judgement j = judge.Evaluate(candidate);      // j.fatal: answer, then end the process
//
// The work is ordered so that a poor candidate costs little: one guarded run on a case at hand and
// a comparison of every element; a race against the incumbent that stops as soon as the interval of
// the ratio says enough; and only for who wins it, fresh inputs, all variations of them, the error
// against fp64, repeated runs, and a last round of timing in which inputs change, workspace is
// poisoned and the last timed output is checked.
//
// Belongs to the thread of its device. A Status from Open or Finalise is for the caller of the
// request; what a candidate did is a verdict.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "warpsmith/v1/judge.pb.h"
#include "worker/device/device.h"
#include "worker/judge/stats.h"
#include "worker/judge/workbench.h"
#include "worker/oracle/compare.h"
#include "worker/oracle/oracle.h"

namespace warpsmith::judge {

// Makes the oracle of one workload. use_torch: PyTorch's where the problem has a module.
using OracleFactory = std::function<absl::StatusOr<std::unique_ptr<oracle::Oracle>>(
    const v1::Problem& problem, const v1::Workload& workload, const graph::Graph& graph,
    bool use_torch)>;

inline constexpr absl::Duration kSettleLimit = absl::Seconds(1);  // after much memory was freed

struct Options {
  Race::Rule race;
  absl::Duration race_limit = absl::Milliseconds(300);  // of one race, if it has kFewest samples
  int first_samples = 15;  // of a candidate that has no incumbent to race
  int final_pairs = 5;     // of the last round, in which everything changes
  // Fresh seeds of a would-be incumbent, where a draw takes no longer than quick_draw; else only
  // the cases at hand are renewed.
  int fresh_seeds = 4;
  absl::Duration quick_draw = absl::Milliseconds(50);
  int repeats = 3;         // runs on the same input that have to agree
  int redraw_after = 32;   // evaluations
  int final_samples = 22;  // of Finalise, half before and half after the baselines
  int call_samples = 21;   // of the calls of one that is accepted
  absl::Duration call_limit = absl::Milliseconds(100);
  absl::Duration final_limit = absl::Seconds(3);
  // A run may take hang_factor times what the incumbent's did and hang_floor more; while there is
  // no incumbent, many times a baseline's and hang_floor more; without either first_limit.
  double hang_factor = 4;
  absl::Duration hang_floor = absl::Seconds(1);
  absl::Duration first_limit = absl::Seconds(20);
  // Faster than the least time by more than this is not believed. On the host caches make the
  // measured bandwidth no limit, so that the question is only asked of a card, or of a given roof.
  double light_slack = 1.05;
  std::optional<graph::Roof> roof;  // instead of measuring
  // Counters of a new incumbent's kernels are read while that took no more than this part of the
  // time since the problem was opened; those of the last one are read in any case.
  double counter_share = 0.1;
  // What was timed while the card was held down for heat or by its board is timed again, so often,
  // after a pause, while that took no more than this part of the time since the problem was opened,
  // or than a little.
  int most_retimes = 2;
  absl::Duration cooling = absl::Milliseconds(500);
  double retime_share = 0.2;
  absl::Duration least_retime = absl::Seconds(5);
  absl::Duration longest_retime = absl::Seconds(15);  // what took longer is not done again
  int64_t cheap_poison = int64_t{256} << 20;    // bytes that are poisoned for an incumbent, too
  int64_t least_workspace = int64_t{64} << 20;  // bytes that any candidate may take
  // Bytes of the device's memory that are left for what is not counted; by the device if not given.
  std::optional<int64_t> reserve;
};

struct Judgement {
  v1::JudgeVerdict verdict;
  bool fatal = false;  // the device is unusable
};

class Judge {
 public:
  // device, compiler outlive it.
  Judge(device::Device& device, device::Compiler& compiler, OracleFactory oracles, Options options);
  ~Judge();

  // Frees what the last problem held. ResourceExhausted names the bytes that the problem needs and
  // those that there are; nothing was allocated then.
  absl::StatusOr<v1::JudgeOpened> Open(const v1::JudgeOpen& request);
  Judgement Evaluate(const v1::JudgeEvaluate& request);
  // Needs an incumbent. The device may be lost by it though there is an answer: see lost().
  absl::StatusOr<v1::JudgeFinal> Finalise();
  // The device is unusable: after an answer, end the process.
  bool lost() const { return lost_; }

 private:
  struct Entry {  // a candidate, loaded for every workload
    std::vector<Loaded> plans;
    std::vector<double> median;         // seconds, one a workload
    std::vector<double> run_seconds;    // wall time of its slowest guarded run, one a workload
    oracle::Errors errors;              // on ordinary data, the largest of all workloads and cases
    double ratio = 0, wide_ratio = 0;   // of errors to the reference's, ordinary and wide data
    bool measured = true;               // on ordinary data
    bool nearer = false, even = false;  // as of a Finding, of any workload and case
    bool strays = false;                // the same, on ordinary data
    // As of a Finding, by workload and seed; and where it was nearer or even.
    std::map<std::pair<size_t, uint64_t>, std::vector<uint64_t>> hashes;
    std::set<std::pair<size_t, uint64_t>> missed;
    v1::Profile profile;  // of one that is accepted
  };
  struct Samples {  // seconds, by workload
    // Of the device, in the race or alone; of the candidate's calls on an idle device, and of
    // launching alone beside each.
    std::vector<std::vector<double>> candidate, incumbent, called, launched;
  };

  // ---- opening (judge_open.cc) ----
  absl::Status MakeBenches(const v1::JudgeOpen& request);
  absl::Status Budget(const v1::JudgeOpen& request, v1::JudgeOpened* opened);
  void AllowMore(int64_t bytes);
  absl::Status Baselines(const v1::JudgeOpen& request);
  absl::StatusOr<v1::BaselineReport> OracleBaselines(const std::vector<std::string>& names);
  absl::Status OpByOp(const v1::JudgeOpen& request);
  absl::Status TimeOpByOp();
  // Seconds at the speed of light, of all workloads; needs their cases.
  double LookForLight();
  absl::Status TimeBaselinesAgain();
  absl::StatusOr<Finding> TimeHalf(Samples* samples);
  void Close();

  // ---- evaluating; what speaks against the candidate is in the finding ----
  absl::StatusOr<Finding> Decide(const v1::JudgeEvaluate& request, Entry* entry, Samples* samples);
  // `measure`, and again while the machine holds the clock down; `throttled`: of the last time.
  absl::StatusOr<Finding> Undisturbed(device::Throttling* throttled,
                                      absl::FunctionRef<absl::StatusOr<Finding>()> measure);
  // So many times the incumbent's time an entry may take in a race: more than 1 where the
  // incumbent is right by chance and it is not, less the other way round.
  double MayTake(const Entry& entry) const;
  // Has the incumbent meet the cases at hand that it has not met, so that it is known who is alike.
  // It stays the incumbent whatever is seen of it there. Internal: it failed.
  absl::Status MeetAtHand(Entry& incumbent);
  // Whether both gave the same in every ordinary case that both met, and met one: how near to the
  // truth the one was seen to be the other is, too.
  static bool IsAlike(const Entry& a, const Entry& b);
  bool MeetsWhereMissed(const Entry& entry, const Entry& other) const;
  // Whether chance has decided of the entry, the incumbent or one before.
  bool IsByChance(const Entry& entry) const;
  // Against an entry whose race allowed it more than what is known of it since.
  Finding StillFaster(const Entry& entry, const Race& race) const;
  // Of an entry that was timed: what its replays left behind, which speaks against any verdict.
  absl::StatusOr<Finding> LookBack(Entry& entry, bool whole);
  absl::StatusOr<Finding> LoadAll(const google::protobuf::RepeatedPtrField<v1::CompiledPlan>& plans,
                                  Entry* entry);
  absl::StatusOr<Finding> Screen(Entry& entry, int round);
  absl::StatusOr<Finding> CheckOne(Entry& entry, size_t bench, int slot, uint32_t poison,
                                   Strictness strictness);
  absl::StatusOr<Finding> RunRace(Entry& entry, Race& race, int most, Samples* samples);
  absl::StatusOr<Finding> AddPair(Entry& entry, Race& race, Samples* samples);
  // Adds to the samples, at most as many as are wanted, of every workload; to `launched` what
  // launching alone takes, by turns with them. The incumbent's are on inputs that it has not seen.
  absl::StatusOr<Finding> TimeAlone(Entry& entry, int wanted, absl::Duration limit,
                                    std::vector<std::vector<double>>* samples,
                                    device::Launching how = device::Launching::kHidden,
                                    std::vector<std::vector<double>>* launched = nullptr);
  // What the candidate's timing becomes complete with; where the device has no launching, both
  // times are one.
  absl::StatusOr<Finding> TimeCalls(Entry& entry, int wanted, absl::Duration limit,
                                    Samples* samples);
  absl::StatusOr<Finding> TimeOnce(Entry& entry, size_t bench, int slot,
                                   std::vector<std::vector<double>>* samples,
                                   device::Launching how = device::Launching::kHidden);
  absl::StatusOr<Finding> Replay(Entry& entry, size_t bench, int slot,
                                 std::vector<std::vector<double>>* samples,
                                 device::Launching how = device::Launching::kHidden);
  absl::Status TimeIncumbent(size_t bench, int slot, std::vector<std::vector<double>>* samples);
  absl::StatusOr<Finding> CheckTimed(Entry& entry, size_t bench, int slot);
  // What the last timed replay left, on the case as it is.
  absl::StatusOr<Finding> InspectTimed(Entry& entry, size_t bench, int slot);
  absl::StatusOr<Finding> OnUnseen(size_t bench, int slot, int64_t parts,
                                   absl::FunctionRef<absl::StatusOr<Finding>()> time);
  uint32_t NextPoison();
  Finding Believe(const Entry& entry) const;
  // Where its time goes: kernel by kernel, with counters if they are affordable or wanted. It says
  // nothing of whether the entry is right: what goes wrong here is counters_missing, beside what
  // was known before. Aborted: the device was lost.
  absl::Status AddProfile(Entry& entry, bool counters);

  // ---- a would-be incumbent (judge_confirm.cc) ----
  absl::StatusOr<Finding> Confirm(Entry& entry, Race* race, Samples* samples);
  absl::StatusOr<Finding> Vary(Entry& entry, size_t bench);
  absl::StatusOr<Finding> Refresh(Entry& entry, size_t bench);
  absl::StatusOr<Finding> Repeat(Entry& entry, size_t bench);
  absl::StatusOr<Finding> LastRound(Entry& entry, Race* race, Samples* samples,
                                    std::vector<double>* unseen);
  Finding Remembers(const Entry& entry, const std::vector<double>& unseen) const;
  absl::StatusOr<Finding> TimeUnseen(Entry& entry, size_t bench, int slot, int64_t parts,
                                     bool beside_incumbent, Samples* samples);

  // Into this slot, or into the one that is left where the draw leaves room for one case alone:
  // gives which.
  absl::StatusOr<int> Draw(size_t bench, int slot, oracle::Variation variation);
  // Frees all that candidates write, which a draw has no use for, and cases beyond those in use.
  void Shed();
  // From now on one case, and nothing else while the oracle draws.
  void Tighten();
  absl::Status RedrawIfDue();
  absl::Duration HangLimit(size_t bench) const;
  uint64_t NextSeed();
  void NotePeak(int64_t beside = 0);
  v1::Timing TimingOf(const Samples& samples) const;
  v1::Times TimesOf(const Samples& samples) const;
  v1::Accuracy AccuracyOf(const Entry& entry) const;
  Samples NoSamples() const;

  device::Device& device_;
  device::Compiler& compiler_;
  const OracleFactory oracles_;
  const Options options_;
  std::unique_ptr<oracle::Comparer> comparer_;
  std::optional<graph::Roof> roof_;

  // Of the current problem.
  v1::Problem problem_;
  std::vector<std::unique_ptr<Workbench>> benches_;
  std::vector<int64_t> allowance_;         // workspace bytes, by workload
  std::vector<graph::Cost> costs_;         // by workload
  std::vector<graph::Light> least_;        // by workload: nothing is faster
  graph::Fp32 fp32_ = graph::Fp32::kKept;  // as far as the problem says
  int cases_ = 0;                          // slots in use
  bool lost_ = false;                      // the device
  bool tight_ = false;      // what candidates write and the oracle's do not fit together
  int64_t tight_room_ = 0;  // bytes for the oracle's, where that is so
  uint64_t seed_ = 0;
  int64_t evaluations_ = 0, since_redraw_ = 0, peak_bytes_ = 0;
  bool native_ = false;        // the oracle is; the op-by-op plan is the baseline then
  uint32_t poisons_ = 0;       // timed replays so far
  uint32_t poison_ = 0;        // of the last one
  double draw_seconds_ = 0;    // of the slowest draw so far
  double oracle_seconds_ = 0;  // of what is asked now: inputs, reference, baselines
  base::Instant opened_at_;
  absl::Duration retimed_;           // time that timing again took since then
  double counter_seconds_ = 0;       // that counters took since then
  double next_counter_seconds_ = 1;  // that they are expected to take: what they took last; the
                                     // first time CUPTI starts
  v1::BaselineReport baselines_;
  std::unique_ptr<Entry> op_by_op_, incumbent_;
  bool chance_ = false;             // whether an incumbent was right by chance
  double reference_max_error_ = 0;  // largest of the ordinary cases so far
};

}  // namespace warpsmith::judge
