#include "worker/kernels/fold_rule.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "worker/kernels/shared_banks.h"

namespace warpsmith::kernels {
namespace {

using absl::StrCat;

// Positions up to this fit an int, with room for what lies behind the last box.
constexpr int64_t kMaxInt = (int64_t{1} << 31) - (int64_t{1} << 27);
constexpr int kMaxSharedBytes = 64 << 10;
constexpr int kMaxVectors = 16;
constexpr int kMaxAccumulators = 32;  // of a thread, in registers
// Steps that a thread has in flight, and accesses of 8 bytes and more: with more, more lines of
// memory are open at once, and more registers taken, than pays.
constexpr int kMostAccesses = 4;
// A thread adds up no more values in one sum than this, where several blocks can share the work.
constexpr int64_t kMaxChain = 512;
// Of the bytes read, what partial results may cost.
constexpr double kMaxPartialShare = 0.05;
// What so many of them cost is not seen: they stay in the second-level cache.
constexpr int64_t kFreePartialBytes = 2 << 20;
// That a block reads where several share a job: less where the card would idle otherwise.
constexpr int64_t kMinBlockBytes = 32 << 10, kLeastBlockBytes = 4 << 10;
// Of shared memory: pieces that boxes are staged in, and what a block takes beside its own.
constexpr int kPieceBytes = 16, kReservedShared = 1 << 10;
// Vectors are taken where so much of a block has work, for so many rounds of a thread's loads, in
// so few registers that many threads fit. Else boxes are staged where their threads keep up with
// memory, or where vectors would go through shared memory as well.
constexpr double kFullVectors = 0.72, kMostLoad = 1.1;
constexpr int kLongSums = 4, kFewAccumulators = 16, kManyOutputs = 8;
constexpr int64_t kManySteps = 16;
// Of the blocks' last wave and those before it together; of a single wave, whose blocks share what
// memory there is, all that memory needs; and waves beyond which it does not count.
constexpr double kFullWaves = 0.92, kEnoughOfWave = 0.9, kMostWaves = 12;
// Registers of a thread beside what it loads and adds up (counted in listings), in units that the
// compiler gives out.
constexpr int kOtherRegisters = 16, kLeastRegisters = 40, kRegisterUnit = 8;

// Whether vectors of that many elements divide every line and where it begins.
bool Aligned(const FoldProblem& problem, const FoldBox& box, int vector) {
  if (problem.offset % vector != 0) return false;
  int64_t run = 1;
  bool in_line = true;
  for (int d = static_cast<int>(box.size()) - 1; d >= 0; --d) {
    const FoldAxis& axis = problem.axes[d];
    if (in_line && axis.stride == run) {
      run *= box[d];
      if (box[d] == axis.extent) continue;
      in_line = false;
      if (axis.stride * (axis.extent % box[d]) % vector != 0) return false;
    } else {
      in_line = false;
      if (axis.stride % vector != 0) return false;
    }
  }
  return run % vector == 0;
}

// Of the values that are combined in shared memory.
int64_t SharedBytes(const FoldProblem& problem, const FoldBox& box, int vector) {
  const bool folded = !problem.axes.back().kept && box.back() % vector == 0;
  const int64_t stored = Product(box) / (folded ? vector : 1);
  return (stored + stored / 32) * problem.acc_bytes;
}

struct Candidate {
  int vector = 1, vectors = 1, unroll = 1;
  FoldBox box;
  double used = 0;  // of the threads' places
  double score = -1;
};

int MostSteps(const FoldKnobs& knobs) { return std::max(kMostAccesses, knobs.flight_bytes / 16); }
// Accesses of `access` bytes that a thread has in flight, at most.
int InFlight(const FoldKnobs& knobs, int access) {
  const int wanted = std::max(1, knobs.flight_bytes / access);
  return access >= 8 ? std::min(wanted, MostSteps(knobs)) : wanted;
}

// How much of the memory's speed a box promises: threads with work, width of an access, bytes in
// flight.
void Score(const FoldProblem& problem, const FoldKnobs& knobs, Candidate& candidate) {
  const int access = candidate.vector * problem.bytes;
  const int64_t capacity = int64_t{knobs.threads} * candidate.vector * candidate.vectors;
  const int64_t steps = BoxesOf(problem.axes, candidate.box, false);
  candidate.unroll = static_cast<int>(
      std::clamp<int64_t>(std::min(InFlight(knobs, access) / candidate.vectors,
                                   kMaxAccumulators / (candidate.vector * candidate.vectors)),
                          1, std::min<int64_t>(steps, MostSteps(knobs))));
  candidate.used = CoveredBy(problem.axes, candidate.box) *
                   static_cast<double>(Product(candidate.box)) / static_cast<double>(capacity);
  const double used = candidate.used;
  const double flight = std::min(1.0, used * candidate.vectors * candidate.unroll /
                                          std::min(InFlight(knobs, access), MostSteps(knobs)));
  candidate.score = (0.5 + 0.5 * std::sqrt(flight)) * (0.8 + 0.2 * used) *
                        std::pow(0.94, std::log2(16.0 / access)) -
                    0.06 * candidate.vectors / kMaxVectors;
}

// Blocks of a multiprocessor for which registers are there: of sums, of what is on its way to them,
// and of the places of several vectors.
int ResidentByRegisters(const FoldProblem& problem, const FoldKnobs& knobs,
                        const FoldChoice& choice) {
  const int lanes = choice.unroll * choice.vectors * choice.vector;
  const int64_t streams =
      problem.stream_bytes.empty()
          ? problem.bytes
          : std::accumulate(problem.stream_bytes.begin(), problem.stream_bytes.end(), int64_t{0});
  const int64_t words = CeilDiv(lanes * (problem.acc_bytes + streams), kWordBytes);
  const auto rank = static_cast<int64_t>(problem.axes.size());
  const int64_t places = choice.vectors > 1 ? choice.vectors * rank : 0;
  const int64_t registers = std::max<int64_t>(
      kLeastRegisters, CeilDiv(kOtherRegisters + words + places, kRegisterUnit) * kRegisterUnit);
  const int64_t fit = std::min<int64_t>(knobs.registers_per_sm / (registers * knobs.threads),
                                        int64_t{knobs.threads_per_sm} / knobs.threads);
  return static_cast<int>(std::clamp<int64_t>(fit, 1, knobs.resident_blocks));
}

// Blocks that share a job: enough to fill the card in whole waves, as few partial results as that
// allows.
int SplitOf(const FoldProblem& problem, const FoldKnobs& knobs, const FoldChoice& choice,
            int sm_count) {
  if (knobs.split > 0) return static_cast<int>(std::min<int64_t>(knobs.split, choice.steps));
  const int64_t wave = int64_t{sm_count} * knobs.resident_blocks;
  const int64_t total = choice.steps * choice.jobs * Product(choice.box);
  const int64_t bytes = total * problem.bytes;
  const auto read = static_cast<double>(bytes);
  const double partial = 2.0 * static_cast<double>(choice.outputs * problem.acc_bytes);
  const double allowed = std::max(kMaxPartialShare * read, static_cast<double>(kFreePartialBytes));
  const int64_t least = std::clamp(bytes / (2 * sm_count), kLeastBlockBytes, kMinBlockBytes);
  const int64_t most =
      std::max<int64_t>(1, std::min({choice.steps, static_cast<int64_t>(allowed / partial),
                                     bytes / (choice.jobs * least)}));
  const int64_t chain = CeilDiv(choice.steps, int64_t{choice.unroll} * kMaxChain);
  int64_t best = 1;
  double best_value = 0;
  for (int64_t split = std::min(most, chain); split <= most; ++split) {
    const double waves = static_cast<double>(choice.jobs * split) / static_cast<double>(wave);
    const double full =
        waves <= 1 ? std::min(1.0, waves / kEnoughOfWave) : waves / std::ceil(waves);
    const double spent = partial * static_cast<double>(split);
    const double value = full * (1 - (spent > kFreePartialBytes ? spent / read : 0));
    if (value > best_value + 1e-9) {
      best_value = value;
      best = split;
    }
    if (full >= (waves <= 1 ? 1 : kFullWaves) || waves > kMostWaves) break;
  }
  return static_cast<int>(best);
}

}  // namespace

FoldProblem DenseFold(const std::vector<int64_t>& extents, const std::vector<bool>& kept,
                      int bytes) {
  FoldProblem problem;
  problem.bytes = bytes;
  int64_t stride = 1;
  for (int d = static_cast<int>(extents.size()) - 1; d >= 0; --d) {
    problem.axes.insert(problem.axes.begin(), {extents[d], kept[d], stride});
    stride *= extents[d];
  }
  return problem;
}

FoldProblem MergeAxes(const FoldProblem& problem) {
  FoldProblem merged = problem;
  merged.axes.clear();
  for (const FoldAxis& axis : problem.axes) {
    if (axis.extent == 1) continue;
    if (!merged.axes.empty() && merged.axes.back().kept == axis.kept &&
        merged.axes.back().stride == axis.stride * axis.extent) {
      merged.axes.back().extent *= axis.extent;
      merged.axes.back().stride = axis.stride;
    } else {
      merged.axes.push_back(axis);
    }
  }
  if (merged.axes.empty()) merged.axes.push_back({1, true, 1});
  return merged;
}

namespace {

// The best of boxes that are read by vectors; an empty box: none fits shared memory.
Candidate ByVectors(const FoldProblem& problem, const FoldKnobs& knobs) {
  Candidate best;
  for (int vector = std::max(1, knobs.vector_bytes / problem.bytes); vector >= 1; vector /= 2) {
    for (int vectors = 1; vectors <= kMaxVectors; vectors *= 2) {
      if (vectors > 1 && (vectors > InFlight(knobs, vector * problem.bytes) ||
                          vectors * vector > kMaxAccumulators))
        break;
      Candidate candidate{vector, vectors, 1, {}};
      candidate.box = GrowBox(problem.axes, int64_t{knobs.threads} * vector * vectors, vector, 0);
      if (!Aligned(problem, candidate.box, vector) ||
          SharedBytes(problem, candidate.box, vector) >
              std::min(kMaxSharedBytes, knobs.shared_bytes))
        continue;
      Score(problem, knobs, candidate);
      if (candidate.score > best.score) best = candidate;
    }
  }
  return best;
}

FoldStaging Staging(const FoldProblem& problem, const FoldKnobs& knobs, int sm_count) {
  if (knobs.staged == FoldKnobs::Staged::kNever || knobs.vector_bytes < kPieceBytes) return {};
  FoldStagingProblem staged{problem.axes,      problem.stream_bytes,
                            problem.acc_bytes, knobs.threads,
                            sm_count,          std::min(kMaxSharedBytes, knobs.shared_bytes)};
  if (staged.stream_bytes.empty()) staged.stream_bytes = {problem.bytes};
  return StageFold(staged);
}

// The choice without its split.
FoldChoice ChoiceOf(const FoldProblem& problem, const FoldKnobs& knobs, const FoldBox& box) {
  FoldChoice choice;
  choice.axes = problem.axes;
  choice.box = box;
  choice.threads = knobs.threads;
  choice.jobs = BoxesOf(problem.axes, box, true);
  choice.steps = BoxesOf(problem.axes, box, false);
  for (const FoldAxis& axis : problem.axes) choice.outputs *= axis.kept ? axis.extent : 1;
  return choice;
}

void AddSplit(const FoldProblem& problem, const FoldKnobs& knobs, int sm_count,
              FoldChoice& choice) {
  FoldKnobs wanted = knobs;
  if (choice.staging.stages > 0) {
    const int fit = knobs.shared_bytes_per_sm / (choice.shared_bytes + kReservedShared);
    wanted.resident_blocks = std::clamp(fit, 1, knobs.resident_blocks);
  } else {
    wanted.resident_blocks = ResidentByRegisters(problem, knobs, choice);
  }
  choice.split = SplitOf(problem, wanted, choice, sm_count);
  if (choice.split == 1) return;
  if (choice.staging.stages == 0) choice.resident = wanted.resident_blocks;
  choice.partial_bytes = choice.outputs * choice.split * problem.acc_bytes;
  // As many threads for an output as there are partial results, until all outputs fill the card.
  while (choice.combine_lanes < choice.combine_threads &&
         choice.combine_lanes * 4 <= choice.split &&
         choice.outputs * choice.combine_lanes < int64_t{sm_count} * 1024)
    choice.combine_lanes *= 2;
  choice.combine_blocks = CeilDiv(choice.outputs * choice.combine_lanes, choice.combine_threads);
  choice.combine_shared_bytes =
      choice.combine_lanes > 32 ? choice.combine_threads / 32 * problem.acc_bytes : 0;
}

FoldChoice VectorChoice(const FoldProblem& problem, const FoldKnobs& knobs, int sm_count,
                        const Candidate& best) {
  FoldChoice choice = ChoiceOf(problem, knobs, best.box);
  choice.vector = best.vector;
  choice.vectors =
      static_cast<int>(CeilDiv(Product(best.box), int64_t{knobs.threads} * best.vector));
  choice.unroll = best.unroll;
  choice.shared_bytes = static_cast<int>(SharedBytes(problem, best.box, best.vector));
  AddSplit(problem, knobs, sm_count, choice);
  return choice;
}

FoldChoice StagedChoice(const FoldProblem& problem, const FoldKnobs& knobs, int sm_count,
                        const FoldStaging& staging) {
  FoldChoice choice = ChoiceOf(problem, knobs, staging.box);
  choice.staging = staging;
  choice.shared_bytes = staging.shared_bytes;
  AddSplit(problem, knobs, sm_count, choice);
  return choice;
}

// The least access by which outputs side by side are summed up in that many steps: the fewer, the
// more of what is moved are outputs.
int LeastAccess(int64_t steps) {
  return steps <= kLongSums ? kWordBytes : steps <= kManySteps ? kPieceBytes / 2 : kPieceBytes;
}

// Whether vectors keep up with memory: hardly a thread without work, accesses of 8 bytes along one
// line or of several small elements and else of 16, and sums long enough that it does not count
// what ends them, which outputs side by side need not be.
bool VectorsSuit(const FoldProblem& problem, const Candidate& best, const FoldChoice& choice) {
  const int access = best.vector * problem.bytes, sums = best.vector * best.vectors;
  if (best.used < kFullVectors || sums > kFewAccumulators) return false;
  const bool line = Product(best.box) == best.box.back(), kept = problem.axes.back().kept;
  if (line && kept && choice.steps <= kManySteps)
    return sums <= kFewAccumulators / 2 && access >= LeastAccess(choice.steps);
  const bool several = best.vector >= kLongSums && best.unroll >= kLongSums;
  return access >= ((line && !kept) || several ? kPieceBytes / 2 : kPieceBytes) &&
         choice.steps / choice.split >= kLongSums * choice.unroll;
}

}  // namespace

absl::StatusOr<FoldChoice> ChooseFold(const FoldProblem& problem, const FoldKnobs& knobs,
                                      int sm_count) {
  const int rank = static_cast<int>(problem.axes.size());
  if (rank < 1 || rank > kMaxFoldRank) {
    return absl::InvalidArgumentError(
        StrCat("fold: ", rank, " axes, wanted 1 to ", kMaxFoldRank, " after joining"));
  }
  const Candidate best = ByVectors(problem, knobs);
  const FoldStaging staging = Staging(problem, knobs, sm_count);
  if (best.box.empty() && staging.stages == 0) {
    return absl::InvalidArgumentError(
        StrCat("fold: no box fits ", kMaxSharedBytes, " bytes of shared memory: fewer threads"));
  }
  if (staging.stages > 0 && (best.box.empty() || knobs.staged == FoldKnobs::Staged::kAlways))
    return StagedChoice(problem, knobs, sm_count, staging);
  FoldChoice choice = VectorChoice(problem, knobs, sm_count, best);
  const bool keeps_up = staging.load <= kMostLoad || choice.steps / choice.split < kLongSums;
  if (staging.stages > 0 && keeps_up && !VectorsSuit(problem, best, choice))
    return StagedChoice(problem, knobs, sm_count, staging);
  return choice;
}

bool WantsFewThreads(const FoldChoice& choice) {
  int64_t outputs = 1;
  for (size_t d = 0; d < choice.box.size(); ++d) outputs *= choice.axes[d].kept ? choice.box[d] : 1;
  return choice.steps > kManySteps && choice.staging.stages > 0 &&
         outputs >= kManyOutputs * choice.threads;
}

const char* FoldFunction(const FoldChoice& choice) {
  return choice.staging.stages > 0 ? "ws::fold_staged" : "ws::fold";
}

std::string FoldConfigText(const FoldChoice& choice) {
  std::vector<int64_t> extents;
  std::vector<int> kept;
  for (const FoldAxis& axis : choice.axes) {
    extents.push_back(axis.extent);
    kept.push_back(axis.kept);
  }
  const FoldStaging& staging = choice.staging;
  const std::string form = staging.stages > 0
                               ? StrCat("ws::FoldStagedConfig<", choice.threads, ", ",
                                        staging.stages, ", ", staging.along, ", ", staging.across,
                                        ", ", staging.lane_axis, ", ", staging.slots)
                               : StrCat("ws::FoldConfig<", choice.threads, ", ", choice.vector,
                                        ", ", choice.vectors, ", ", choice.unroll);
  return StrCat(form, ", ", choice.split, ", ws::Axes<", absl::StrJoin(extents, ", "),
                ">, ws::Axes<", absl::StrJoin(kept, ", "), ">, ws::Axes<",
                absl::StrJoin(choice.box, ", "), ">>");
}

std::string FoldSumSource(const FoldProblem& problem, const FoldChoice& choice,
                          const std::string& name) {
  const std::string type = problem.bytes == 4   ? "float"
                           : problem.bytes == 2 ? "ws::bf16"
                                                : "unsigned char";
  const std::string value = problem.bytes == 2 ? "ws::to_float(values.s[v])" : "float(values.s[v])";
  int64_t elements = 1;
  for (const FoldAxis& axis : choice.axes) elements *= axis.extent;
  const size_t rank = choice.axes.size();
  std::string text = StrCat("#include <warpsmith/fold.cuh>\nstruct G_", name,
                            " {\n  using Index = ", elements >= kMaxInt ? "long long" : "int",
                            ";\n  using C = ", FoldConfigText(choice), R"(;
  template <int S> struct Acc { float sum; };
  static constexpr bool kChained = true;
  template <int S> static WS_DEVICE Acc<S> identity() { return {0}; }
  template <int S> static WS_DEVICE void combine(Acc<S>& a, const Acc<S>& b) { a.sum += b.sum; }
)");
  std::string at = StrCat("x + (Index(", problem.offset, ")");
  for (size_t d = 0; d < rank; ++d)
    absl::StrAppend(&at, " + c[", d, "] * Index(", choice.axes[d].stride, ")");
  at += ")";
  const std::string c = StrCat("(const Index (&c)[", rank, "]");
  absl::StrAppend(&text, "  template <int V> struct Values { ", type, " s[V]; };\n  const ", type,
                  "* x; float* y;\n  template <int V> WS_DEVICE void load", c,
                  ", Values<V>& values) const { ws::load<V, ", type, ", 0>(", at,
                  ", values.s); }\n");
  absl::StrAppend(&text, "  template <int S, int V> WS_DEVICE void accumulate", c,
                  ", const Values<V>& values, Acc<S> (&acc)[V]) const {\n#pragma unroll\n    for "
                  "(int v = 0; v < V; ++v) acc[v].sum += ",
                  value, ";\n  }\n");
  absl::StrAppend(
      &text, "  static constexpr int kStreams = 1;\n  template <int S> using Element = ", type,
      ";\n  template <int S> WS_DEVICE const ", type, "* at", c, ") const { return ", at,
      "; }\n  template <int S, int V> static WS_DEVICE auto& of(Values<V>& values) { "
      "return values.s; }\n  template <int S> WS_DEVICE void take",
      c, ", const Values<1>& values, Acc<S>& acc) const { constexpr int v = 0; acc.sum += ", value,
      "; }\n");
  absl::StrAppend(&text, "  WS_DEVICE void emit", c,
                  ", const Acc<0>& acc) const { y[ws::fold_output<C>(c)] = acc.sum; }\n};\n");
  const std::string bounds = StrCat("extern \"C\" __global__ void __launch_bounds__(");
  const std::string resident = choice.resident > 0 ? StrCat(", ", choice.resident) : "";
  const std::string g = StrCat("G_", name);
  if (choice.split == 1) {
    absl::StrAppend(&text, bounds, choice.threads, ") ", name, "(const ", type,
                    "* x, float* y) {\n  ", FoldFunction(choice), "<", g, ", ", g, "::C>(", g,
                    "{x, y}, nullptr);\n}\n");
    return text;
  }
  absl::StrAppend(&text, bounds, choice.threads, ") ", name, "(const ", type, "* x, float* y, ", g,
                  "::Acc<0>* partial) {\n  ", FoldFunction(choice), "<", g, ", ", g, "::C, ",
                  choice.combine_lanes, ">(", g, "{x, y}, partial);\n}\n");
  absl::StrAppend(&text, bounds, choice.combine_threads, ") ", name, "_combine(const ", type,
                  "* x, float* y, ", g, "::Acc<0>* partial) {\n  ws::fold_combine<", g, ", ", g,
                  "::C, ", choice.combine_threads, ", ", choice.combine_lanes, ">(", g,
                  "{x, y}, partial);\n}\n");
  return text;
}

}  // namespace warpsmith::kernels
