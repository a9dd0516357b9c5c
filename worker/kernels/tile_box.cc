#include "worker/kernels/tile_box.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace warpsmith::kernels {
namespace {

constexpr size_t kMostOfKind = 3;  // boxes of a kind that are compared

// How much of the memory's speed a box promises: of each side the length of its lines, how much of
// their ends is left to neighbours, and the width of an access; of the box its size and what of it
// exists.
double Score(const TileProblem& problem, const TileKnobs& knobs, const std::vector<Side>& sides,
             const std::vector<int64_t>& tile, int64_t bytes) {
  double score = std::pow(std::min(1.0, static_cast<double>(bytes) / knobs.box_bytes), 0.15);
  for (size_t d = 0; d < tile.size(); ++d) {
    const int64_t extent = problem.extents[d];
    score *= std::sqrt(static_cast<double>(extent) /
                       static_cast<double>(CeilDiv(extent, tile[d]) * tile[d]));
  }
  for (const Side& side : sides) {
    const auto line = static_cast<double>(LineOf(side, tile, problem.extents) * side.bytes);
    const int access = VectorOf(problem.extents, side, tile, knobs.vector_bytes) * side.bytes;
    score *= std::pow(std::min(1.0, line / knobs.line_bytes), 0.4);
    if (line < 2 * kSectorBytes) score *= std::sqrt(line / (2 * kSectorBytes));
    if (access < kSectorBytes / 2) score *= line / (line + 2.0 * kSectorBytes);
    score *= 1 - 0.04 * std::log2(16.0 / access);
    // What the next box has as well.
    const bool input = &side != &sides.back();
    if (!input && VectorOf(problem.extents, side, tile, kSectorBytes) * side.bytes < kSectorBytes) {
      score *= line / (line + kSectorBytes);
      // Boxes that cannot overlap leave sectors half written.
      const OutputLine of_box = LineOfBox(tile, problem.extents);
      const int64_t more = OverlapOf(of_box, kSectorBytes / side.bytes);
      if (of_box.cut && more * kLeastOfOverlap > tile[of_box.slowest])
        score *= std::pow(line / (line + 4.0 * kSectorBytes), 2);
    }
  }
  return score;
}

// Which axes a box has whole, and which not at all: boxes of a kind lie alike in memory.
uint64_t KindOf(const std::vector<int64_t>& tile, const std::vector<int64_t>& extents) {
  uint64_t kind = 0;
  for (size_t d = 0; d < tile.size(); ++d)
    kind = kind * 3 + (tile[d] == extents[d] ? 2 : tile[d] > 1 ? 1 : 0);
  return kind;
}

}  // namespace

std::vector<ScoredBox> BestBoxes(const TileProblem& problem, const TileKnobs& knobs,
                                 const std::vector<Side>& sides) {
  int bytes = 0;
  for (const TileInput& input : problem.inputs) bytes += input.bytes;
  std::set<std::vector<int64_t>> seen;
  std::map<uint64_t, std::vector<ScoredBox>> best;  // by kind, the best first
  const int64_t longest = std::max(4 * knobs.line_bytes, knobs.box_bytes);
  for (int64_t in = sides.front().bytes; in <= longest; in *= 2) {
    for (int64_t out = sides.back().bytes; out <= longest; out *= 2) {
      for (const bool whole : {true, false}) {
        std::vector<int64_t> tile(problem.extents.size(), 1);
        for (int round = 0; round < 2; ++round) {
          for (size_t s = 0; s < sides.size(); ++s) {
            const int64_t line = s + 1 < sides.size() ? in : out;
            Grow(problem.extents, sides[s], std::max<int64_t>(1, line / sides[s].bytes),
                 whole ? std::max(1, knobs.vector_bytes / sides[s].bytes) : 1, tile);
          }
        }
        const int64_t box = Product(tile) * bytes;
        if (box > knobs.box_bytes || !seen.insert(tile).second) continue;
        const double score = Score(problem, knobs, sides, tile, box);
        std::vector<ScoredBox>& of_kind = best[KindOf(tile, problem.extents)];
        auto place = of_kind.begin();
        while (place != of_kind.end() && score <= place->score * 1.001) ++place;
        of_kind.insert(place, {tile, score});
        if (of_kind.size() > kMostOfKind) of_kind.pop_back();
      }
    }
  }
  std::vector<ScoredBox> boxes;
  for (const auto& [kind, of_kind] : best)
    boxes.insert(boxes.end(), of_kind.begin(), of_kind.end());
  std::stable_sort(boxes.begin(), boxes.end(),
                   [](const ScoredBox& a, const ScoredBox& b) { return a.score > b.score; });
  if (boxes.empty()) boxes.push_back({std::vector<int64_t>(problem.extents.size(), 1), 0});
  return boxes;
}

}  // namespace warpsmith::kernels
