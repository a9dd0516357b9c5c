// One workload of the current problem on the device: its cases (inputs and answers), the memory
// that candidates write, and what is done with a candidate there: load, run under guard and
// compare, time.
//
// Answers are unmapped except while they are compared, so that no candidate can read them. Nothing
// here decides what counts: it finds, the judge decides.
//
// Belongs to the thread of its device. A Status is a failure of ours or of the device; what the
// candidate did is in the Finding.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/graph/graph.h"
#include "warpsmith/v1/judge.pb.h"
#include "worker/device/device.h"
#include "worker/judge/accuracy.h"
#include "worker/oracle/compare.h"
#include "worker/oracle/errors.h"
#include "worker/oracle/oracle.h"

namespace warpsmith::judge {

// What memory holds before a candidate writes it: NaN (or -1, or true), then finite garbage.
inline constexpr uint32_t kPoisons[] = {0xFFFFFFFFu, 0x42424242u, 0xC2C2C2C2u};

// What was found out about a candidate; `verdict` is unspecified while nothing speaks against it.
struct Finding {
  v1::Verdict verdict = v1::VERDICT_UNSPECIFIED;
  std::string reason;
  bool fatal = false;     // the device is unusable now, the process has to end
  oracle::Errors errors;  // against exact, the largest of its outputs
  // The largest of max error over the reference's (ErrorRatio) of any output, and which.
  double error_ratio = 0;
  std::string worst;
  bool measured = true;  // against fp64, every output of floats
  // Elements missed the tolerance where the reference is as far from the truth: and the answer is
  // nearer to it by more than chance, or it is not.
  bool nearer = false, even = false;
  bool strays = false;           // it met the tolerance, by much of it (kStrays), of fp32
  std::vector<uint64_t> hashes;  // of answers, on data of the problem's own
  double seconds = 0;            // wall time of the run

  bool ok() const { return verdict == v1::VERDICT_UNSPECIFIED; }
};
// Whether an error of a device's call loses it.
bool IsFatal(const absl::Status& status);
// A run that failed, as a finding; a failure that is not the candidate's stays a Status.
absl::StatusOr<Finding> FindingOf(const absl::Status& run, const std::string& what);

// How answers are compared.
enum class Strictness {
  kElements,  // every element within the problem's tolerance
  // For inputs that are not the problem's own: largest error over the answer's rms (kVariedError).
  kVaried,
};

// A candidate's plan, ready to be run.
class Loaded {
 public:
  const std::vector<int64_t>& workspace_bytes() const { return workspace_bytes_; }

 private:
  friend class Workbench;
  struct Binding {
    v1::Buffer::Kind kind;
    // INPUT, PARAM, STATE: of the case's inputs; OUTPUT: of the outputs; PREPARED (and OUTPUT of a
    // preparation): of what is prepared; else workspace.
    int index;
  };
  std::unique_ptr<device::Program> program_;
  std::vector<std::string> entries_;  // of its launches and products
  std::vector<Binding> bindings_;
  // What is done once for each version of the weights, and what that left: memory of its own, which
  // nothing else writes.
  std::unique_ptr<Loaded> preparation_;  // its workspace is among the candidate's
  std::vector<std::unique_ptr<device::Memory>> prepared_;
  std::vector<std::string> prepared_names_;
  std::vector<uint64_t> prepared_hashes_;
  uint64_t prepared_for_ = 0;  // Held::version; 0: for none
  // Of an answer that may be off now and then (kMostlyExact): in the cases that were looked at.
  struct Tally {
    std::set<uint64_t> cases;  // their seeds
    int64_t elements = 0, off = 0;
  };
  std::vector<int64_t> workspace_bytes_;
  std::map<int, Tally> tallies_;  // by answer
  int bound_slot_ = -1;
  uint64_t bound_generation_ = 0;
};

class Workbench {
 public:
  // label: "problem 'softmax_rows', workload 'wide'". device and comparer outlive it.
  Workbench(device::Device& device, oracle::Comparer& comparer, graph::Graph graph,
            std::string label, v1::AccuracyRule accuracy, std::unique_ptr<oracle::Oracle> oracle);

  // Compiles what comparing this graph's answers takes. Call once, before anything else.
  absl::Status Prepare(device::Compiler& compiler);

  const graph::Graph& graph() const { return graph_; }
  oracle::Oracle& oracle() { return *oracle_; }
  const std::string& label() const { return label_; }

  int64_t case_bytes() const { return case_bytes_; }        // inputs and answers of one case
  int64_t written_bytes() const { return written_bytes_; }  // outputs and states of candidates
  int64_t intermediate_bytes() const { return intermediate_bytes_; }  // what is neither, kept whole

  // ---- cases: a few slots, each empty or with a case ----
  absl::Status Draw(int slot, uint64_t seed, oracle::Variation variation);
  void Drop(int slot) { cases_[slot] = Held(); }
  bool Has(int slot) const { return cases_[slot].valid; }
  const oracle::Case& at(int slot) const { return cases_[slot].drawn; }
  static constexpr int kSlots = 2;

  // ---- candidates ----
  // InvalidArgument: the plan is not one for this graph (a buffer that is none of its tensors, or
  // has another size), or the device refuses it. allowance: bytes its workspace may take,
  // with what it prepares.
  absl::StatusOr<Loaded> Load(const v1::CompiledPlan& plan, int64_t allowance);
  // Poisons what the candidate is to write, runs it once on the slot's case and looks at
  // everything: guard bands, inputs, every element of every answer. errors is filled in unless the
  // variation has no exact values.
  absl::StatusOr<Finding> Check(Loaded& loaded, int slot, uint32_t poison, absl::Duration limit,
                                Strictness strictness);
  // The same without the run: what the last run (or timed replay) left.
  absl::StatusOr<Finding> Inspect(Loaded& loaded, int slot, uint32_t poison, Strictness strictness);
  // What the replays since the last look did to inputs and guard bands, so that the next candidate
  // does not answer for it. Costs a reading of the inputs and of what was prepared. `whole`: guard
  // bands to their last byte.
  absl::StatusOr<Finding> InspectLeftovers(Loaded& loaded, bool whole);
  // Seconds of one replay on the slot's case; `seconds` of the finding.
  absl::StatusOr<Finding> Time(Loaded& loaded, int slot, absl::Duration limit,
                               device::Launching how);
  // Adds what the plan's kernels take one by one on the slot's case, medians of a few runs, and
  // what their counters say where `counted`. Where there are no counters, `missing` says why.
  absl::StatusOr<Finding> Profile(Loaded& loaded, int slot, absl::Duration limit, bool counted,
                                  std::vector<v1::Profile::Kernel>* kernels, std::string* missing);
  // Poisons outputs and workspace, and puts the states back to the case's.
  absl::Status Poison(Loaded& loaded, int slot, uint32_t poison);
  // Moves the elements of the slot's inputs, weights and states of floating-point types, and of
  // others where each element is drawn by itself, to other places within each, another way for each
  // `parts` >= 1; the same again undoes it. Nobody has seen such inputs, and their answers are not
  // known: for timing.
  absl::Status Stir(int slot, int64_t parts);
  // Gives everything that candidates use new addresses.
  absl::Status Move();
  // Frees everything that candidates write; it comes back with the next run.
  void Shed();
  // Frees the workspace that is not `kept`'s (null: all of it).
  void Trim(const Loaded* kept);
  int64_t pool_bytes() const;

 private:
  using Memories = std::vector<std::unique_ptr<device::Memory>>;
  struct Held {
    bool valid = false;
    uint64_t version = 0;  // of its inputs; no other case had it
    oracle::Case drawn;
    std::vector<uint64_t> hashes;  // of the inputs
    std::vector<double> rms;       // of each answer; 0: not known
    bool unlooked = false;         // replayed on since the inputs and guards were looked at
  };
  // An answer: an output, or a state after the run.
  struct Answer {
    int tensor;              // that has its type, shape and name
    device::Memory* memory;  // where candidates leave it
  };

  absl::Status AllocateWritten();
  // What a candidate prepares (workbench_prepare.cc).
  absl::Status LoadPreparation(const v1::CompiledPlan& plan, int64_t allowance, int64_t& left,
                               Loaded& loaded);
  absl::StatusOr<Loaded::Binding> PreparedBinding(const v1::Buffer& buffer,
                                                  const Loaded& loaded) const;
  // Prepares, once for each version of the case's weights, which are all that is within reach then.
  absl::StatusOr<Finding> PrepareFor(Loaded& loaded, int slot, absl::Duration limit);
  absl::Status Reach(bool rest);  // whether what is not a weight can be
  absl::StatusOr<Finding> CheckPrepared(Loaded& loaded, bool whole);
  // Takes the buffer's bytes from what is left of the allowance.
  absl::Status Take(const v1::Buffer& buffer, int64_t allowance, int64_t& left) const;
  absl::Status Refuse(const v1::Buffer& buffer, absl::string_view why) const;
  absl::StatusOr<Loaded::Binding> BindingOf(const v1::Buffer& buffer, std::vector<bool>& taken,
                                            int workspace) const;
  absl::StatusOr<std::vector<device::Memory*>> Claim(const std::vector<int64_t>& sizes);
  absl::Status Bind(Loaded& loaded, int slot);
  Answer AnswerAt(int answer) const;
  int ValueOf(int answer) const;  // the tensor that the answer is, or is updated with
  int answers() const { return static_cast<int>(graph_.outputs.size() + graph_.updates.size()); }
  absl::StatusOr<Finding> CheckGuards(Loaded& loaded, int slot, bool whole);
  absl::StatusOr<Finding> CheckInputs(int slot);
  absl::StatusOr<Finding> CheckReadStates(int slot);  // those that no update changes
  absl::StatusOr<Finding> CheckSurroundings(Loaded& loaded, int slot, bool whole);  // both
  // Of an element. Where the problem names none the absolute part is no more than what is allowed
  // of the answer's rms on other inputs, or anything would do where answers are small.
  Tolerance ToleranceOf(int answer, int slot) const;
  double AllowedOfRms(int answer, int slot) const;
  // Whether on inputs that are not the problem's own its relative tolerance will do for each
  // element, with as much of the answer's rms.
  bool HasToleranceAlone(int answer, int slot) const;
  absl::StatusOr<oracle::Difference> Compare(int answer, int slot, device::Memory& want,
                                             uint32_t poison);
  absl::StatusOr<Finding> CompareAnswer(Loaded& loaded, int answer, int slot, uint32_t poison,
                                        Strictness strictness);
  // "3 of 2000 elements ...", where too many of an answer's elements were off in all cases so far.
  std::string TooOftenOff(Loaded& loaded, int answer, int slot,
                          const oracle::Difference& difference) const;
  // Why it is not so that elements miss the tolerance because the reference is that far off itself
  // (the answer's error is at most so many times the reference's, as far as can be told from
  // chance, and it is nowhere further from the reference than the errors of both make it); empty:
  // it is so. `nearer`: whether it is nearer to the truth by more than chance; may be null.
  absl::StatusOr<std::string> NotReferencesMiss(int answer, int slot,
                                                const oracle::Difference& difference, double most,
                                                bool* nearer = nullptr);
  absl::StatusOr<std::string> Describe(const graph::Tensor& tensor, device::Memory& got,
                                       device::Memory& want, int64_t position);
  // The largest of all answers.
  absl::StatusOr<oracle::Errors> ErrorsOfAll(int slot);
  // `at_sample`: the answer's values at the case's sample; may be null.
  absl::Status MeasureErrors(int answer, int slot, Finding* finding,
                             std::vector<double>* at_sample = nullptr);
  int StateMemory(int tensor) const;  // its number among the states

  device::Device& device_;
  oracle::Comparer& comparer_;
  const graph::Graph graph_;
  const std::string label_;
  const v1::AccuracyRule accuracy_;
  std::unique_ptr<oracle::Oracle> oracle_;
  std::vector<int> inputs_;  // tensors: inputs, params and states
  std::vector<int> states_;  // tensors: states
  int64_t case_bytes_ = 0, written_bytes_ = 0, intermediate_bytes_ = 0;

  Held cases_[kSlots];
  // The reference's plain error on the problem's own inputs, one an answer.
  std::vector<double> ordinary_reference_;
  Memories outputs_, state_memories_, pool_;
  std::vector<std::unique_ptr<oracle::IndexRule>> index_rules_;  // one an answer; null: as it is
  std::vector<bool> rounded_;  // answers that floats were rounded to (RoundedFloats)
  uint64_t versions_ = 0;      // of cases, so far
  uint64_t generation_ = 1;    // of addresses and cases: programs bound before are bound again
};

// "[3, 17]" of a linear position in a shape.
std::string PositionText(int64_t position, const std::vector<int64_t>& shape);

}  // namespace warpsmith::judge
