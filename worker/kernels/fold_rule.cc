#include "worker/kernels/fold_rule.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

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
constexpr double kMaxPartialShare = 0.02;
// What so many of them cost is not seen: they stay in the second-level cache.
constexpr int64_t kFreePartialBytes = 2 << 20;
// That a block reads where several share a job: less where the card would idle otherwise.
constexpr int64_t kMinBlockBytes = 32 << 10, kLeastBlockBytes = 4 << 10;
constexpr double kFullWaves = 0.92;  // of the blocks' last wave and those before it together

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t Elements(const std::vector<int64_t>& box) {
  return std::accumulate(box.begin(), box.end(), int64_t{1}, std::multiplies<>());
}

// The longest run of memory of at most `most` elements, in whole vectors.
std::vector<int64_t> Grow(const FoldProblem& problem, int64_t most, int vector) {
  std::vector<int64_t> box(problem.axes.size(), 1);
  int64_t have = 1;
  for (int d = static_cast<int>(problem.axes.size()) - 1; d >= 0; --d) {
    const int64_t extent = problem.axes[d].extent;
    int64_t n = std::min(extent, most / have);
    if (n < extent) {
      const int64_t unit = vector / std::gcd<int64_t>(vector, have);
      n = CeilDiv(extent, CeilDiv(extent, std::max<int64_t>(1, n)));  // boxes of one size
      n = std::min(CeilDiv(n, unit) * unit, most / have / unit * unit);
      box[d] = std::max<int64_t>(1, n);
      break;
    }
    box[d] = n;
    have *= n;
  }
  return box;
}

// Whether vectors of that many elements divide every line and where it begins.
bool Aligned(const FoldProblem& problem, const std::vector<int64_t>& box, int vector) {
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
int64_t SharedBytes(const FoldProblem& problem, const std::vector<int64_t>& box, int vector) {
  const bool folded = !problem.axes.back().kept && box.back() % vector == 0;
  const int64_t stored = Elements(box) / (folded ? vector : 1);
  return (stored + stored / 32) * problem.acc_bytes;
}

struct Candidate {
  int vector = 1, vectors = 1, unroll = 1;
  std::vector<int64_t> box;
  double score = -1;
};

int64_t StepsOf(const FoldProblem& problem, const std::vector<int64_t>& box, bool kept) {
  int64_t count = 1;
  for (size_t d = 0; d < box.size(); ++d) {
    if (problem.axes[d].kept == kept) count *= CeilDiv(problem.axes[d].extent, box[d]);
  }
  return count;
}

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
  const int64_t steps = StepsOf(problem, candidate.box, false);
  candidate.unroll = static_cast<int>(
      std::clamp<int64_t>(std::min(InFlight(knobs, access) / candidate.vectors,
                                   kMaxAccumulators / (candidate.vector * candidate.vectors)),
                          1, std::min<int64_t>(steps, MostSteps(knobs))));
  double covered = 1;
  for (size_t d = 0; d < candidate.box.size(); ++d) {
    const int64_t extent = problem.axes[d].extent;
    covered *= static_cast<double>(extent) /
               static_cast<double>(CeilDiv(extent, candidate.box[d]) * candidate.box[d]);
  }
  const double used =
      covered * static_cast<double>(Elements(candidate.box)) / static_cast<double>(capacity);
  const double flight = std::min(1.0, used * candidate.vectors * candidate.unroll /
                                          std::min(InFlight(knobs, access), MostSteps(knobs)));
  candidate.score = (0.5 + 0.5 * std::sqrt(flight)) * (0.8 + 0.2 * used) *
                        std::pow(0.94, std::log2(16.0 / access)) -
                    0.06 * candidate.vectors / kMaxVectors;
}

// Blocks that share a job: enough to fill the card in whole waves, as few partial results as that
// allows.
int SplitOf(const FoldProblem& problem, const FoldKnobs& knobs, const FoldChoice& choice,
            int sm_count) {
  if (knobs.split > 0) return static_cast<int>(std::min<int64_t>(knobs.split, choice.steps));
  const int64_t wave = int64_t{sm_count} * knobs.resident_blocks;
  const int64_t total = choice.steps * choice.jobs * Elements(choice.box);
  const int64_t bytes = total * problem.bytes;
  const double partial = 2.0 * static_cast<double>(choice.outputs * problem.acc_bytes);
  const double allowed = std::max(kMaxPartialShare * static_cast<double>(bytes),
                                  static_cast<double>(kFreePartialBytes));
  const int64_t least = std::clamp(bytes / (2 * sm_count), kLeastBlockBytes, kMinBlockBytes);
  const int64_t most =
      std::max<int64_t>(1, std::min({choice.steps, static_cast<int64_t>(allowed / partial),
                                     bytes / (choice.jobs * least)}));
  const int64_t chain = CeilDiv(choice.steps, int64_t{choice.unroll} * kMaxChain);
  int64_t best = 1;
  double best_full = 0;
  for (int64_t split = std::min(most, chain); split <= most; ++split) {
    const double waves = static_cast<double>(choice.jobs * split) / static_cast<double>(wave);
    const double full = waves / std::ceil(waves);
    if (full > best_full + 1e-9) {
      best_full = full;
      best = split;
    }
    if (full >= kFullWaves || waves > 8) break;
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

absl::StatusOr<FoldChoice> ChooseFold(const FoldProblem& problem, const FoldKnobs& knobs,
                                      int sm_count) {
  const int rank = static_cast<int>(problem.axes.size());
  if (rank < 1 || rank > kMaxFoldRank) {
    return absl::InvalidArgumentError(
        StrCat("fold: ", rank, " axes, wanted 1 to ", kMaxFoldRank, " after joining"));
  }
  Candidate best;
  for (int vector = std::max(1, knobs.vector_bytes / problem.bytes); vector >= 1; vector /= 2) {
    for (int vectors = 1; vectors <= kMaxVectors; vectors *= 2) {
      if (vectors > 1 && (vectors > InFlight(knobs, vector * problem.bytes) ||
                          vectors * vector > kMaxAccumulators))
        break;
      Candidate candidate{vector, vectors, 1, {}, -1};
      candidate.box = Grow(problem, int64_t{knobs.threads} * vector * vectors, vector);
      if (!Aligned(problem, candidate.box, vector) ||
          SharedBytes(problem, candidate.box, vector) > kMaxSharedBytes)
        continue;
      Score(problem, knobs, candidate);
      if (candidate.score > best.score) best = candidate;
    }
  }
  if (best.box.empty()) {
    return absl::InvalidArgumentError(
        StrCat("fold: no box fits ", kMaxSharedBytes, " bytes of shared memory: fewer threads"));
  }
  FoldChoice choice;
  choice.axes = problem.axes;
  choice.box = best.box;
  choice.threads = knobs.threads;
  choice.vector = best.vector;
  choice.vectors =
      static_cast<int>(CeilDiv(Elements(best.box), int64_t{knobs.threads} * best.vector));
  choice.unroll = best.unroll;
  choice.jobs = StepsOf(problem, best.box, true);
  choice.steps = StepsOf(problem, best.box, false);
  for (const FoldAxis& axis : problem.axes) choice.outputs *= axis.kept ? axis.extent : 1;
  choice.split = SplitOf(problem, knobs, choice, sm_count);
  choice.shared_bytes = static_cast<int>(SharedBytes(problem, best.box, best.vector));
  if (choice.split > 1) {
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
  return choice;
}

std::string FoldConfigText(const FoldChoice& choice) {
  std::vector<int64_t> extents;
  std::vector<int> kept;
  for (const FoldAxis& axis : choice.axes) {
    extents.push_back(axis.extent);
    kept.push_back(axis.kept);
  }
  return StrCat("ws::FoldConfig<", choice.threads, ", ", choice.vector, ", ", choice.vectors, ", ",
                choice.unroll, ", ", choice.split, ", ws::Axes<", absl::StrJoin(extents, ", "),
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
  template <int S> static WS_DEVICE Acc<S> identity() { return {0}; }
  template <int S> static WS_DEVICE void combine(Acc<S>& a, const Acc<S>& b) { a.sum += b.sum; }
)");
  absl::StrAppend(&text, "  template <int V> struct Values { ", type, " s[V]; };\n  const ", type,
                  "* x; float* y;\n  template <int V> WS_DEVICE void load(const Index (&c)[", rank,
                  "], Values<V>& values) const {\n    ws::load<V, ", type, ", 0>(x + (Index(",
                  problem.offset, ")");
  for (size_t d = 0; d < rank; ++d)
    absl::StrAppend(&text, " + c[", d, "] * Index(", choice.axes[d].stride, ")");
  absl::StrAppend(
      &text,
      "), values.s);\n  }\n  template <int S, int V> WS_DEVICE void accumulate(const Index (&)[",
      rank,
      "], const Values<V>& values, Acc<S> (&acc)[V]) const {\n#pragma unroll\n    for (int v = 0; "
      "v < V; ++v) "
      "acc[v].sum += ",
      value, ";\n  }\n  WS_DEVICE void emit(const Index (&c)[", rank,
      "], const Acc<0>& acc) const { y[ws::fold_output<C>(c)] = acc.sum; }\n};\n");
  const std::string bounds = StrCat("extern \"C\" __global__ void __launch_bounds__(");
  const std::string g = StrCat("G_", name);
  if (choice.split == 1) {
    absl::StrAppend(&text, bounds, choice.threads, ") ", name, "(const ", type,
                    "* x, float* y) {\n  ws::fold<", g, ", ", g, "::C>(", g,
                    "{x, y}, nullptr);\n}\n");
    return text;
  }
  absl::StrAppend(&text, bounds, choice.threads, ") ", name, "(const ", type, "* x, float* y, ", g,
                  "::Acc<0>* partial) {\n  ws::fold<", g, ", ", g, "::C, ", choice.combine_lanes,
                  ">(", g, "{x, y}, partial);\n}\n");
  absl::StrAppend(&text, bounds, choice.combine_threads, ") ", name, "_combine(const ", type,
                  "* x, float* y, ", g, "::Acc<0>* partial) {\n  ws::fold_combine<", g, ", ", g,
                  "::C, ", choice.combine_threads, ", ", choice.combine_lanes, ">(", g,
                  "{x, y}, partial);\n}\n");
  return text;
}

}  // namespace warpsmith::kernels
