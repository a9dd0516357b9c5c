// What is looked at after a run: guard bands, inputs, every element of every answer.
#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "worker/judge/workbench.h"
#include "worker/oracle/native_device.h"

namespace warpsmith::judge {

using graph::Tensor;

std::string PositionText(int64_t position, const std::vector<int64_t>& shape) {
  std::vector<int64_t> indexes(shape.size());
  for (int i = static_cast<int>(shape.size()) - 1; i >= 0; --i) {
    indexes[i] = position % shape[i];
    position /= shape[i];
  }
  return absl::StrCat("[", absl::StrJoin(indexes, ", "), "]");
}

absl::StatusOr<Finding> Workbench::CheckSurroundings(Loaded& loaded, int slot, bool whole) {
  auto finding = CheckGuards(loaded, slot, whole);
  if (!finding.ok() || !finding->ok()) return finding;
  finding = CheckPrepared(loaded, whole);
  if (!finding.ok() || !finding->ok()) return finding;
  finding = CheckInputs(slot);
  if (finding.ok()) cases_[slot].unlooked = false;
  return finding;
}

absl::StatusOr<Finding> Workbench::CheckGuards(Loaded& loaded, int slot, bool whole) {
  Finding finding;
  // A memory whose guard was written is replaced: its guard would accuse the next candidate.
  auto guard = [whole](device::Memory& memory) {
    return whole ? memory.WholeGuardIntact() : memory.GuardIntact();
  };
  auto look = [&](std::unique_ptr<device::Memory>& memory, const std::string& what) {
    auto intact = guard(*memory);
    if (!intact.ok()) return intact.status();
    if (*intact) return absl::OkStatus();
    finding.verdict = v1::OUT_OF_BOUNDS;
    finding.reason = absl::StrCat(label_, ": wrote outside of ", what);
    memory = nullptr;
    ++generation_;
    return absl::OkStatus();
  };
  auto name = [&](const char* kind, int tensor) {
    return absl::StrCat(kind, " '", graph_.tensors[tensor].name, "'");
  };
  for (size_t i = 0; i < outputs_.size(); ++i) {
    absl::Status s = look(outputs_[i], name("output", graph_.outputs[i]));
    if (!s.ok()) return s;
  }
  for (size_t i = 0; i < state_memories_.size(); ++i) {
    absl::Status s = look(state_memories_[i], name("state", states_[i]));
    if (!s.ok()) return s;
  }
  for (auto& memory : pool_) {
    std::string what = absl::StrCat("a workspace of ", memory->bytes(), " bytes");
    if (absl::Status s = look(memory, what); !s.ok()) return s;
  }
  pool_.erase(std::remove(pool_.begin(), pool_.end(), nullptr), pool_.end());
  Held& held = cases_[slot];
  for (size_t i = 0; i < inputs_.size(); ++i) {
    auto intact = guard(*held.drawn.inputs[i]);
    if (!intact.ok()) return intact.status();
    if (*intact) continue;
    finding.verdict = v1::OUT_OF_BOUNDS;
    finding.reason = absl::StrCat(label_, ": wrote outside of ", name("input", inputs_[i]));
    held.valid = false;
  }
  loaded.bound_slot_ = finding.ok() ? loaded.bound_slot_ : -1;
  return finding;
}

absl::StatusOr<Finding> Workbench::CheckInputs(int slot) {
  Finding finding;
  Held& held = cases_[slot];
  for (size_t i = 0; i < inputs_.size(); ++i) {
    auto hash = comparer_.Hash(*held.drawn.inputs[i]);
    if (!hash.ok()) return hash.status();
    if (*hash == held.hashes[i]) continue;
    finding.verdict = v1::OUT_OF_BOUNDS;
    finding.reason = absl::StrCat(label_, ": changed its input '", graph_.tensors[inputs_[i]].name,
                                  "', which is read only");
    held.valid = false;
    return finding;
  }
  return finding;
}

absl::StatusOr<Finding> Workbench::CheckReadStates(int slot) {
  Finding finding;
  for (size_t i = 0; i < states_.size(); ++i) {
    const int state = states_[i];
    if (std::any_of(graph_.updates.begin(), graph_.updates.end(),
                    [&](const auto& update) { return update.state == state; })) {
      continue;
    }
    auto hash = comparer_.Hash(*state_memories_[i]);
    if (!hash.ok()) return hash.status();
    const auto input = std::find(inputs_.begin(), inputs_.end(), state) - inputs_.begin();
    if (*hash == cases_[slot].hashes[input]) continue;
    finding.verdict = v1::WRONG;
    finding.reason = absl::StrCat(label_, ": changed state '", graph_.tensors[state].name,
                                  "', which the problem only reads");
    return finding;
  }
  return finding;
}

Workbench::Answer Workbench::AnswerAt(int answer) const {
  const int outputs = static_cast<int>(graph_.outputs.size());
  if (answer < outputs) return {graph_.outputs[answer], outputs_[answer].get()};
  int state = graph_.updates[answer - outputs].state;
  return {state, state_memories_[StateMemory(state)].get()};
}

int Workbench::ValueOf(int answer) const {
  const int outputs = static_cast<int>(graph_.outputs.size());
  return answer < outputs ? graph_.outputs[answer] : graph_.updates[answer - outputs].value;
}

absl::StatusOr<std::string> Workbench::Describe(const Tensor& tensor, device::Memory& got,
                                                device::Memory& want, int64_t position) {
  auto mine = comparer_.Gather(tensor.type, got, {position});
  if (!mine.ok()) return mine.status();
  auto theirs = comparer_.Gather(tensor.type, want, {position});
  if (!theirs.ok()) return theirs.status();
  auto text = [](double x) { return std::isnan(x) ? "NaN" : absl::StrFormat("%.9g", x); };
  return absl::StrCat("at ", PositionText(position, tensor.shape), " it is ", text((*mine)[0]),
                      " and should be ", text((*theirs)[0]));
}

namespace {

// How far the reference is known to be off: at the sample, or where it was looked at all over. NaN
// where it is not known.
double FarthestOf(const oracle::Case& drawn, int answer) {
  const double sampled = drawn.reference[answer].plain;
  if (std::isnan(sampled) || answer >= static_cast<int>(drawn.farthest.size())) return sampled;
  return std::max(sampled, drawn.farthest[answer]);
}

}  // namespace

double Workbench::AllowedOfRms(int answer, int slot) const {
  const oracle::Case& drawn = cases_[slot].drawn;
  double error = ordinary_reference_[answer];
  // Data over several decades is where the reference itself may be far off: it is held to the
  // truth (kWideRatio), and here only to what that leaves room for. The difference is over all
  // elements, so the error is, too: a few may be a hundred times as far off as a sample shows.
  const double plain = FarthestOf(drawn, answer);
  if (drawn.variation == oracle::Variation::kWide && plain > error) error = plain;
  return std::max(kVariedError, kVariedRatio * error);
}

bool Workbench::HasToleranceAlone(int answer, int slot) const {
  const Held& held = cases_[slot];
  return accuracy_.tolerance_only() && accuracy_.relative() > 0 &&
         held.drawn.variation != oracle::Variation::kNone && held.rms[answer] > 0;
}

Tolerance Workbench::ToleranceOf(int answer, int slot) const {
  Tolerance tolerance = judge::ToleranceOf(accuracy_, graph_.tensors[AnswerAt(answer).tensor].type);
  const double rms = cases_[slot].rms[answer];
  if (HasToleranceAlone(answer, slot)) return {accuracy_.relative() * rms, accuracy_.relative()};
  const bool own = accuracy_.absolute() > 0 || accuracy_.relative() > 0;
  if (rms > 0 && !own)
    tolerance.absolute = std::min(tolerance.absolute, AllowedOfRms(answer, slot) * rms);
  return tolerance;
}

absl::StatusOr<oracle::Difference> Workbench::Compare(int answer, int slot, device::Memory& want,
                                                      uint32_t poison) {
  const Answer at = AnswerAt(answer);
  const Tensor& tensor = graph_.tensors[at.tensor];
  if (index_rules_[answer] == nullptr) {
    Tolerance tolerance = ToleranceOf(answer, slot);
    if (!graph::IsFloat(tensor.type)) tolerance = {rounded_[answer] ? 1.0 : 0.0, 0};
    return comparer_.Compare(tensor.type, *at.memory, want, tensor.elements(), tolerance.absolute,
                             tolerance.relative, poison);
  }
  oracle::IndexRule& rule = *index_rules_[answer];
  const graph::DType type = graph_.nodes[graph_.tensors[ValueOf(answer)].node].value->type;
  const Tolerance tolerance = judge::ToleranceOf(accuracy_, type);
  std::vector<device::Memory*> memories;
  for (int input : rule.inputs) {
    auto found = std::find(inputs_.begin(), inputs_.end(), input) - inputs_.begin();
    memories.push_back(cases_[slot].drawn.inputs[found].get());
  }
  return comparer_.CompareIndexes(rule, *at.memory, want, memories, tensor.elements(),
                                  tolerance.absolute, tolerance.relative, poison);
}

namespace {

// Elements that may be finite where the reference's answer is not, or the other way round: where
// inputs are not the problem's own and the reference overflows itself, about as many as it has.
double MayDisagree(const oracle::Errors& reference, int64_t elements) {
  constexpr double kRoom = 2;  // and so many more of a sample, which may miss a few
  if (reference.disagree == 0) return 0;
  const double sampled = static_cast<double>(std::min(elements, oracle::kSampled));
  return (kRoom * reference.disagree + kRoom / sampled) * static_cast<double>(elements);
}

}  // namespace

std::string Workbench::TooOftenOff(Loaded& loaded, int answer, int slot,
                                   const oracle::Difference& difference) const {
  const bool index = index_rules_[answer] != nullptr;
  if (!rounded_[answer] && !index) return "";
  Loaded::Tally& tally = loaded.tallies_[answer];
  if (tally.cases.insert(cases_[slot].drawn.seed).second) {
    tally.elements += difference.elements;
    tally.off += difference.differing;
  }
  // Of the case at hand, or of all: one of few elements is excused once, not each time.
  const auto most = [](int64_t elements) { return 1 + elements / kMostlyExact; };
  const bool all = tally.off > most(tally.elements);
  if (!all && difference.differing <= most(difference.elements)) return "";
  return absl::StrCat(all ? tally.off : difference.differing, " of ",
                      all ? tally.elements : difference.elements, " elements are off by ",
                      index ? "more than rounding goes" : "one", "; of ", kMostlyExact,
                      " one may be");
}

absl::StatusOr<Finding> Workbench::CompareAnswer(Loaded& loaded, int answer, int slot,
                                                 uint32_t poison, Strictness strictness) {
  const Answer at = AnswerAt(answer);
  const Tensor& tensor = graph_.tensors[at.tensor];
  const oracle::Case& drawn = cases_[slot].drawn;
  device::Memory& want = *drawn.answers[answer];
  if (absl::Status s = want.Map(); !s.ok()) return s;
  absl::Cleanup unmap = [&want] { want.Unmap().IgnoreError(); };
  const Tolerance tolerance = ToleranceOf(answer, slot);
  auto difference = Compare(answer, slot, want, poison);
  if (!difference.ok()) return difference.status();

  Finding finding;
  int64_t first = -1;
  bool missed = false;  // the tolerance of a float's element, and nothing worse
  std::string what;
  const std::string kind = answer < static_cast<int>(graph_.outputs.size()) ? "output" : "state";
  const oracle::Errors& reference = drawn.reference[answer];
  if (difference->unwritten > 0 && poison == kPoisons[0]) {
    first = difference->first_unwritten;
    what = absl::StrCat(difference->unwritten, " of ", difference->elements,
                        " elements were not written");
  } else if (static_cast<double>(difference->disagree) >
             (strictness == Strictness::kVaried ? MayDisagree(reference, difference->elements)
                                                : 0)) {
    first = difference->first_disagree;
    what = absl::StrCat(difference->disagree, " of ", difference->elements,
                        " elements are not finite where they should be, or the other way round");
  } else if (difference->beyond > 0 &&
             (strictness == Strictness::kElements || !graph::IsFloat(tensor.type))) {
    first = difference->first_beyond;
    missed = graph::IsFloat(tensor.type);
    what = absl::StrCat(difference->beyond, " of ", difference->elements, " elements differ by ",
                        graph::IsFloat(tensor.type)
                            ? absl::StrFormat("more than %g + %g of the reference",
                                              tolerance.absolute, tolerance.relative)
                        : index_rules_[answer] != nullptr ? "the value they point at"
                                                          : "their value");
  } else if (const std::string often = TooOftenOff(loaded, answer, slot, *difference);
             !often.empty()) {
    finding.verdict = v1::WRONG;
    finding.reason = absl::StrCat(label_, ": ", kind, " '", tensor.name, "': ", often);
    return finding;
  } else if (strictness == Strictness::kVaried && graph::IsFloat(tensor.type)) {
    const double rms = difference->want_rms > 0 ? difference->want_rms : 1;
    const double allowed = AllowedOfRms(answer, slot);
    const bool within = HasToleranceAlone(answer, slot) && difference->beyond == 0;
    const bool too_far = !within && difference->largest / rms >= allowed &&
                         difference->largest > kVariedSteps * oracle::LeastStep(tensor.type);
    bool excused = false;
    // What is allowed may be less than what the reference itself is off by: of an answer that is
    // next to nothing but in places, or where what is exponentiated grows with the inputs. Of wide
    // data that is counted already (AllowedOfRms).
    if (too_far && drawn.variation != oracle::Variation::kWide) {
      const auto against = NotReferencesMiss(answer, slot, *difference, kOrdinaryRatio);
      if (!against.ok()) return against.status();
      excused = against->empty();
    }
    if (too_far && !excused) {
      // Another accumulator may help against the one, nothing against the other.
      finding.verdict = drawn.variation == oracle::Variation::kWide ? v1::INACCURATE : v1::WRONG;
      finding.reason = absl::StrFormat(
          "%s, %s inputs: %s '%s': the largest error is %.2g of the answer's rms; %.2g is allowed",
          label_, oracle::NameOf(drawn.variation), kind, tensor.name, difference->largest / rms,
          allowed);
      return finding;
    }
  }
  if (missed) {
    bool nearer = false;
    const auto against = NotReferencesMiss(answer, slot, *difference, kMissRatio, &nearer);
    if (!against.ok()) return against.status();
    if (against->empty()) {
      first = -1;
      (nearer ? finding.nearer : finding.even) = true;
    } else {
      absl::StrAppend(&what, ", and ", *against);
    }
  }
  if (first >= 0) {
    auto where = Describe(tensor, *at.memory, want, first);
    if (!where.ok()) return where.status();
    finding.verdict = v1::WRONG;
    finding.reason =
        absl::StrCat(label_,
                     drawn.variation == oracle::Variation::kNone
                         ? ""
                         : absl::StrCat(", ", oracle::NameOf(drawn.variation), " inputs"),
                     ": ", kind, " '", tensor.name, "': ", what, "; ", *where);
    return finding;
  }
  if (absl::Status s = MeasureErrors(answer, slot, &finding); !s.ok()) return s;
  if (strictness == Strictness::kElements && tensor.type == graph::DType::kF32 && !missed &&
      reference.max >= kRoundedError && finding.measured && finding.error_ratio > kNearerRatio) {
    auto near =
        comparer_.Compare(tensor.type, *at.memory, want, tensor.elements(),
                          kStrays * tolerance.absolute, kStrays * tolerance.relative, poison);
    if (!near.ok()) return near.status();
    finding.strays = near->beyond > 0;
  }
  if (strictness != Strictness::kElements || tensor.type != graph::DType::kBF16 || missed ||
      accuracy_.tolerance_only() || accuracy_.absolute() > 0 || accuracy_.relative() > 0 ||
      difference->largest <= kCommonTolerance)
    return finding;
  // Within our tolerance, and perhaps not within that which is common.
  auto common = comparer_.Compare(tensor.type, *at.memory, want, tensor.elements(),
                                  kCommonTolerance, kCommonTolerance, poison);
  if (!common.ok()) return common.status();
  if (common->beyond == 0) return finding;
  bool nearer = false;
  const auto against = NotReferencesMiss(answer, slot, *difference, kMissRatio, &nearer);
  if (!against.ok()) return against.status();
  (nearer && against->empty() ? finding.nearer : finding.even) = true;
  return finding;
}

absl::StatusOr<std::string> Workbench::NotReferencesMiss(int answer, int slot,
                                                         const oracle::Difference& difference,
                                                         double most, bool* nearer) {
  const oracle::Case& drawn = cases_[slot].drawn;
  if (answer >= static_cast<int>(drawn.exact.size()) || drawn.exact[answer].empty() ||
      std::isnan(drawn.reference[answer].plain))
    return "the truth is not known here";
  Finding finding;
  std::vector<double> values;
  if (absl::Status s = MeasureErrors(answer, slot, &finding, &values); !s.ok()) return s;
  const graph::DType type = graph_.tensors[AnswerAt(answer).tensor].type;
  const double reference = std::max(FarthestOf(drawn, answer), oracle::ErrorFloor(type));
  const double rms = difference.want_rms > 0 ? difference.want_rms : 1;
  const double largest = ErrorRatio(type, finding.errors.beyond, drawn.reference[answer].max);
  const double rms_ratio = RmsRatio(type, finding.errors.rms, drawn.reference[answer].rms);
  // Of two computations that round alike either may have the larger rms at a sample, or the larger
  // one of two largest errors.
  const bool paired = most == kMissRatio && answer < static_cast<int>(drawn.rounded.size());
  const double excess =
      paired ? oracle::ExcessOf(type, values, drawn.rounded[answer], drawn.exact[answer])
             : std::numeric_limits<double>::infinity();
  // What has the larger one of two largest errors here may be called wrong for it elsewhere.
  if (nearer != nullptr)
    *nearer = excess < -kMostExcess && finding.errors.plain <= drawn.reference[answer].plain;
  bool further = largest > most;
  if (further && excess <= kMostExcess && largest <= kOrdinaryRatio &&
      oracle::LargerOf(type, values, drawn.rounded[answer], drawn.exact[answer]) <= kMostLarger) {
    const auto whole = ErrorsOfAll(slot);
    if (!whole.ok()) return whole.status();
    const double resolution = oracle::ErrorFloor(graph::DType::kF32);
    further = excess >= -kMostExcess && !(whole->plain <= drawn.whole.plain + resolution);
  }
  if (further || (rms_ratio > most && excess > kMostExcess))
    return absl::StrCat(
        absl::StrFormat("its error is %.5g times the reference's", largest),
        rms_ratio > 0 ? absl::StrFormat(", its rms %.5g times", rms_ratio) : "",
        std::isfinite(excess)
            ? absl::StrFormat(
                  ", its squares %+.1f deviations of a paired test from the reference's", excess)
            : "");
  if (difference.largest / rms > kVariedRatio * reference)
    return absl::StrFormat(
        "it is off by up to %.2g of the answer's rms, more than %g times the reference's error",
        difference.largest / rms, kVariedRatio);
  return "";
}

absl::StatusOr<oracle::Errors> Workbench::ErrorsOfAll(int slot) {
  oracle::Errors all;
  for (int answer = 0; answer < static_cast<int>(cases_[slot].drawn.exact.size()); ++answer) {
    Finding finding;
    if (absl::Status s = MeasureErrors(answer, slot, &finding); !s.ok()) return s;
    all.Add(finding.errors);
  }
  return all;
}

absl::Status Workbench::MeasureErrors(int answer, int slot, Finding* finding,
                                      std::vector<double>* at_sample) {
  const oracle::Case& drawn = cases_[slot].drawn;
  const Answer at = AnswerAt(answer);
  if (answer >= static_cast<int>(drawn.exact.size()) || drawn.exact[answer].empty()) {
    finding->measured = !graph::IsFloat(graph_.tensors[at.tensor].type);
    return absl::OkStatus();
  }
  auto values = comparer_.Gather(graph_.tensors[at.tensor].type, *at.memory, drawn.sample[answer]);
  if (!values.ok()) return values.status();
  const Tensor& tensor = graph_.tensors[at.tensor];
  finding->errors = oracle::ErrorsOf(tensor.type, *values, drawn.exact[answer],
                                     drawn.rms.empty() ? 0 : drawn.rms[answer]);
  const oracle::Errors& reference = drawn.reference[answer];
  finding->error_ratio = ErrorRatio(tensor.type, finding->errors.beyond, reference.max);
  finding->worst = DescribeErrors(tensor.name, "largest", finding->errors.beyond, reference.max);
  const double rms_ratio = RmsRatio(tensor.type, finding->errors.rms, reference.rms);
  if (rms_ratio > finding->error_ratio) {
    finding->error_ratio = rms_ratio;
    finding->worst = DescribeErrors(tensor.name, "rms", finding->errors.rms, reference.rms);
  }
  if (at_sample != nullptr) *at_sample = *std::move(values);
  return absl::OkStatus();
}

}  // namespace warpsmith::judge
