#include "worker/kernels/tile_traffic.h"

#include <algorithm>
#include <cmath>

#include "worker/kernels/numbers.h"
#include "worker/kernels/shared_banks.h"

namespace warpsmith::kernels {
namespace {

// Of an H200, by the times of 770 kernels (docs/results/2026-11-22-copies-and-sums.md). What memory
// fetches beyond a line serves a neighbour that follows soon, from a cache that half forgets in
// kReadsKept bytes moved, and for the output in kWritesKept.
constexpr double kReadsKept = 18e6, kWritesKept = 1e6;
constexpr double kOfSectors = 0.5, kOfLate = 4, kOfHalfWritten = 8, kOfOverlap = 0.8;
// That a line takes more, wherever it begins: of the input if its neighbour has long gone, and
// else.
constexpr double kBytesOfLate = 90, kBytesOfLine = 25;
constexpr double kWorthOrder = 0.97;  // of the traffic, by which another order is worth it
constexpr double kFullBytes = 64 << 10, kOfSmall = 0.03;  // of a box, in and out; a power
// Bytes of a line that two half-written sectors are worth; less of small elements' lines in two
// boxes, both of which have ends to write one by one.
constexpr double kBytesOfHalves = 100, kPartOfTwo = 0.35;
constexpr int64_t kLeastOfOverlap = 6;  // boxes overlap by at most this part

// Bytes moved beyond lines of the box in whole sectors, over those of the lines.
double Beyond(const Side& side, const BoxCut& cut, const std::vector<int64_t>& tile) {
  const auto line = static_cast<double>(LineOf(side, tile, cut.extents) * side.bytes);
  const int at = VectorOf(cut.extents, side, tile, kSectorBytes) * side.bytes;
  return (kSectorBytes - at) / line;
}

// The axis on which the side's lines go on in another box; -1: none.
int CutAxis(const Side& side, const BoxCut& cut) {
  int64_t run = 1;
  for (int d : side.order) {
    if (side.strides[d] != run) return -1;
    if (cut.step[d] < cut.extents[d]) return d;
    run *= cut.extents[d];
  }
  return -1;
}

// What of a side's traffic hangs on the order of boxes.
struct SideTraffic {
  int axis = -1;
  double bytes = 0, near = 0, far = 0, kept = 1;  // traffic between near and far
};

// The same of `more` bytes for each line.
double More(const Side& side, const BoxCut& cut, const std::vector<int64_t>& tile, double more) {
  return more / static_cast<double>(LineOf(side, tile, cut.extents) * side.bytes);
}

SideTraffic OfInput(const Side& side, const BoxCut& cut) {
  SideTraffic traffic{CutAxis(side, cut), static_cast<double>(side.bytes), 1, 1, kReadsKept};
  if (!side.vectors) return traffic;
  double covered = 1;
  for (size_t d = 0; d < cut.tile.size(); ++d) {
    covered *= static_cast<double>(CeilDiv(cut.extents[d], cut.step[d]) * cut.tile[d]) /
               static_cast<double>(cut.extents[d]);
  }
  covered = std::pow(covered, kOfOverlap);
  traffic.near = covered * (1 + More(side, cut, cut.tile, kBytesOfLine) +
                            kOfSectors * Beyond(side, cut, cut.tile));
  traffic.far = covered * (1 + More(side, cut, cut.tile, kBytesOfLate));
  return traffic;
}

SideTraffic OfOutput(const Side& side, const BoxCut& cut) {
  SideTraffic traffic{CutAxis(side, cut), static_cast<double>(side.bytes), 1, 1, kWritesKept};
  const double beyond = Beyond(side, cut, cut.step);
  traffic.near = 1 + More(side, cut, cut.step, kBytesOfLine) +
                 (cut.whole_sectors ? 0 : kOfHalfWritten * beyond);
  traffic.far = traffic.near + kOfLate * beyond;
  return traffic;
}

std::vector<SideTraffic> TrafficsOf(const std::vector<Side>& sides, const BoxCut& cut) {
  std::vector<SideTraffic> traffics;
  for (const Side& side : sides)
    traffics.push_back(&side == &sides.back() ? OfOutput(side, cut) : OfInput(side, cut));
  return traffics;
}

double TrafficOf(const std::vector<SideTraffic>& sides, const BoxCut& cut,
                 const std::vector<int>& raster) {
  double bytes = 0, moved = 0;
  for (const SideTraffic& side : sides) bytes += side.bytes;
  for (const SideTraffic& side : sides) {
    double apart = side.axis < 0 ? 0 : static_cast<double>(Product(cut.tile)) * bytes;
    for (int d : raster) {
      if (d == side.axis) break;
      apart *= static_cast<double>(CeilDiv(cut.extents[d], cut.step[d]));
    }
    const double late = apart / (apart + side.kept);
    moved += side.bytes * (side.near + std::max(0.0, side.far - side.near) * late);
  }
  return moved / bytes;
}

}  // namespace

double TrafficOf(const std::vector<Side>& sides, const BoxCut& cut,
                 const std::vector<int>& raster) {
  return TrafficOf(TrafficsOf(sides, cut), cut, raster);
}

BoxOrder BestOrder(const std::vector<Side>& sides, const BoxCut& cut) {
  const std::vector<SideTraffic> traffics = TrafficsOf(sides, cut);
  const std::vector<int>& order = sides.back().order;
  BoxOrder best{order, TrafficOf(traffics, cut, order)};
  double bytes = 0, soonest = 0;
  for (const SideTraffic& side : traffics) {
    bytes += side.bytes;
    soonest += side.bytes * side.near;
  }
  const int out = traffics.back().axis;
  for (const SideTraffic& side : traffics) {
    if (soonest >= kWorthOrder * best.traffic * bytes) break;  // no order is worth it
    if (side.axis < 0 || side.axis == out) continue;
    for (const bool first : {true, false}) {
      std::vector<int> raster = {side.axis};
      if (out >= 0) raster.insert(first ? raster.end() : raster.begin(), out);
      for (int d : order) {
        if (d != side.axis && d != out) raster.push_back(d);
      }
      const double traffic = TrafficOf(traffics, cut, raster);
      if (traffic < kWorthOrder * best.traffic) best = {std::move(raster), traffic};
    }
  }
  return best;
}

double PartOfSize(double bytes) { return std::pow(std::min(1.0, bytes / kFullBytes), kOfSmall); }

int64_t SharedSteps(const std::vector<int64_t>& extents, const Side& output,
                    const std::vector<int64_t>& tile, int64_t piece) {
  const OutputLine line = LineOfBox(tile, extents);
  if (!line.cut || VectorOf(extents, output, tile, static_cast<int>(piece) * output.bytes) >= piece)
    return 0;
  const int64_t more = OverlapOf(line, piece), step = tile[line.slowest];
  if (more * kLeastOfOverlap > step) return 0;
  const int64_t boxes = CeilDiv(extents[line.slowest], step);
  const double halves =
      kBytesOfHalves * (boxes == 2 && output.bytes < kWordBytes ? kPartOfTwo : 1.0);
  const auto bytes = static_cast<double>(step * line.inner * output.bytes);
  return static_cast<double>(more) < static_cast<double>(step) * halves / bytes ? more : 0;
}

}  // namespace warpsmith::kernels
