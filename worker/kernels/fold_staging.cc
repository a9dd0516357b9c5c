#include "worker/kernels/fold_staging.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "worker/kernels/shared_banks.h"

namespace warpsmith::kernels {
namespace {

constexpr int64_t kBoxBytes = 20 << 10, kLeastBoxBytes = 2 << 10;
constexpr int64_t kBlocksOfSmall = 4;    // a multiprocessor's, where the tensor is small
constexpr int64_t kLeastRunBytes = 256;  // shorter ones are not worth pieces of 16 bytes
constexpr int kMostRounds = 16;          // outputs that a thread sums at once
constexpr int kStages = 3;
// Cycles of a multiprocessor in which a warp's instructions are issued: for an element of a stream,
// for an output of a step that ends it or adds to it, for lanes that meet, to end an output, and
// for a step. Shared memory is read meanwhile.
constexpr double kElement = 0.75, kOutput = 1.5, kAdd = 0.25, kMeeting = 1, kEnd = 6, kStep = 22;
constexpr double kBothBusy = 0.15;    // of the less busy of the two, what is not hidden
constexpr double kSerial = 2;         // that an element of one thread after the other waits
constexpr double kBytesOfCycle = 18;  // that memory gives a multiprocessor

struct Box {
  const FoldStagingProblem& problem;
  FoldBox extents;
  int64_t outputs = 1;
  int64_t inner = 1;  // outputs of one place of the slowest kept axis
  int64_t steps = 1;

  int rank() const { return static_cast<int>(extents.size()); }
  bool summed(int d) const { return !problem.axes[d].kept && extents[d] > 1; }
  int64_t stride(int d) const {
    return std::accumulate(extents.begin() + d + 1, extents.end(), int64_t{1}, std::multiplies<>());
  }
  // Where an output's first element is.
  int64_t Place(int64_t output) const {
    int64_t place = 0, stride = 1;
    for (int d = rank() - 1; d >= 0; --d) {
      if (problem.axes[d].kept) {
        place += output % extents[d] * stride;
        output /= extents[d];
      }
      stride *= extents[d];
    }
    return place;
  }
};

Box BoxOf(const FoldStagingProblem& problem, const FoldBox& extents) {
  Box box{problem, extents};
  bool first = true;
  for (int d = 0; d < box.rank(); ++d) {
    if (!problem.axes[d].kept || extents[d] == 1) continue;
    box.outputs *= extents[d];
    if (!first) box.inner *= extents[d];
    first = false;
  }
  box.steps = BoxesOf(problem.axes, extents, false);
  return box;
}

// Passes of shared memory for an element of a warp.
double PassesOf(const Box& box, const FoldStaging& lanes) {
  const int bytes = box.problem.stream_bytes.front();
  const int warps = std::max(1, lanes.along * lanes.across * lanes.slots / kLanes);
  double passes = 0;
  int sampled = 0;
  for (int warp : {0, warps / 2}) {
    std::array<int32_t, kLanes> addresses{};
    int count = 0;
    for (int lane = 0; lane < kLanes; ++lane) {
      const int t = warp * kLanes + lane;
      const int across = t / (lanes.along * lanes.slots);
      if (across >= lanes.across) break;
      int64_t place = box.Place(t / lanes.along % lanes.slots) + t % lanes.along;
      if (lanes.lane_axis >= 0) {
        place += across * box.stride(lanes.lane_axis) *
                 (lanes.lane_axis + 1 == box.rank() ? lanes.along : 1);
      }
      addresses[count++] = static_cast<int32_t>(place * bytes);
    }
    passes += BankPasses(addresses, count, bytes);
    ++sampled;
  }
  return passes / sampled;
}

// Cycles of a multiprocessor for one step.
double CyclesOf(const Box& box, const FoldStaging& lanes) {
  const double warps = std::ceil(lanes.along * lanes.across * lanes.slots / double{kLanes});
  const auto rounds = static_cast<double>(CeilDiv(box.outputs, lanes.slots));
  double elements = 1;
  for (int d = 0; d < box.rank(); ++d) {
    if (!box.summed(d)) continue;
    const int64_t step =
        (d + 1 == box.rank() ? lanes.along : 1) * (d == lanes.lane_axis ? lanes.across : 1);
    elements *= static_cast<double>(CeilDiv(box.extents[d], step));
  }
  const double outputs = warps * rounds, steps = static_cast<double>(box.steps);
  const auto streams = static_cast<double>(box.problem.stream_bytes.size());
  const double meet = std::log2(lanes.along) + std::log2(lanes.across);
  const double end = kMeeting * meet + (lanes.across > 1 ? 1.5 : 0.5) * kEnd;
  const double issue =
      outputs * (elements * streams * kElement + (box.steps == 1 ? kOutput : kAdd) + end / steps) +
      kStep * box.problem.threads / kLanes;
  const double loads = outputs * elements * streams * PassesOf(box, lanes) + outputs * meet / steps;
  return std::max(issue, loads) + kBothBusy * std::min(issue, loads) + kSerial * rounds * elements;
}

// Lanes for what is summed, the rest for outputs side by side.
FoldStaging LanesOf(const Box& box) {
  const int threads = box.problem.threads, last = box.rank() - 1;
  FoldStaging best;
  double fewest = INFINITY;
  for (int along = 1; along <= kLanes; along *= 2) {
    if (along > 1 && (!box.summed(last) || along >= 2 * box.extents[last])) break;
    const int64_t groups = threads / along;
    int64_t slots = std::min(box.outputs, groups);
    if (slots < box.outputs && box.inner <= groups) slots -= slots % box.inner;
    if (box.steps > 1 && CeilDiv(box.outputs, slots) > kMostRounds) continue;
    for (int axis = -1; axis <= last; ++axis) {
      if (axis >= 0 && !box.summed(axis)) continue;
      FoldStaging lanes;
      lanes.along = along;
      lanes.slots = static_cast<int>(slots);
      if (axis >= 0) {
        const int64_t many = CeilDiv(box.extents[axis], axis == last ? along : 1);
        int64_t across = std::min(many, groups / slots);
        across = CeilDiv(many, CeilDiv(many, across));
        if (across < 2) continue;
        lanes.across = static_cast<int>(across);
        lanes.lane_axis = axis;
      }
      const double cycles = CyclesOf(box, lanes);
      if (cycles < fewest) {
        fewest = cycles;
        best = lanes;
        best.stages = 1;
      }
    }
  }
  best.load = fewest;
  return best;
}

int64_t StageBytes(const FoldStagingProblem& problem, const FoldBox& box) {
  int64_t bytes = 0;
  for (int one : problem.stream_bytes) bytes += (Product(box) * one + 30) / 16 * 16;
  return bytes;
}

// Boxes of these extents; stages 0: they do not fit.
FoldStaging StagedBox(const FoldStagingProblem& problem, const FoldBox& extents) {
  const Box box = BoxOf(problem, extents);
  FoldStaging lanes = LanesOf(box);
  if (lanes.stages == 0) return lanes;
  int64_t element = 0;
  for (int bytes : problem.stream_bytes) element += bytes;
  lanes.load /= static_cast<double>(Product(extents) * element) / kBytesOfCycle *
                CoveredBy(problem.axes, extents);
  lanes.box = extents;
  lanes.steps = box.steps;
  const int64_t sums = lanes.across == 1
                           ? 0
                           : int64_t{lanes.across} * lanes.slots *
                                 CeilDiv(box.outputs, lanes.slots) * problem.acc_bytes;
  for (int stages : box.steps == 1 ? std::vector<int>{1} : std::vector<int>{kStages, 2}) {
    const int64_t shared = std::max(stages * StageBytes(problem, extents), sums);
    if (shared > problem.shared_bytes) continue;
    lanes.stages = stages;
    lanes.shared_bytes = static_cast<int>(shared);
    return lanes;
  }
  lanes.stages = 0;
  return lanes;
}

}  // namespace

FoldStaging StageFold(const FoldStagingProblem& problem) {
  const int outermost = FirstOfRun(problem.axes);
  int64_t element = 0, total = 1;
  for (int bytes : problem.stream_bytes) element += bytes;
  for (const FoldAxis& axis : problem.axes) total *= axis.extent;
  if (outermost == static_cast<int>(problem.axes.size()) || problem.stream_bytes.empty()) return {};
  const int64_t wanted =
      std::clamp(total * element / (kBlocksOfSmall * problem.sm_count), kLeastBoxBytes, kBoxBytes);
  FoldStaging best;
  // Also fewer elements: no more outputs than threads can sum at once, and what fits small cards.
  const int64_t most_outputs = int64_t{kMostRounds} * problem.threads;
  for (int64_t most :
       {wanted / element, std::min(wanted / element, most_outputs), wanted / (4 * element)}) {
    if (most < 1 || (best.stages > 0 && most == wanted / (4 * element))) continue;
    const FoldStaging staging = StagedBox(problem, GrowBox(problem.axes, most, 1, outermost));
    const int64_t bytes = Product(staging.box) * element;
    if (staging.stages == 0 || bytes < std::min(kLeastRunBytes, total * element)) continue;
    if (best.stages == 0 || staging.load < best.load) best = staging;
  }
  return best;
}

}  // namespace warpsmith::kernels
