#include "worker/kernels/tile_box.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "worker/kernels/tile_traffic.h"

namespace warpsmith::kernels {
namespace {

constexpr size_t kMostOfKind = 3;                           // boxes of a kind that are compared
constexpr int64_t kLeastBetween = 64, kMostBetween = 2048;  // bytes of lines, see LinesOf
constexpr double kOfAccess = 0.004;  // of every time that an access is half as wide
constexpr double kOfLine = 0.03;     // a power, of the part of a wanted line

// What part of the memory's speed a box promises by what memory moves for it; a little more where
// its lines are as long as wanted, and accesses as wide.
double Score(const TileProblem& problem, const TileKnobs& knobs, const std::vector<Side>& sides,
             const std::vector<int64_t>& tile) {
  const Side& output = sides.back();
  BoxCut cut{problem.extents, tile, tile, false};
  const int64_t more =
      knobs.overlap ? SharedSteps(problem.extents, output, tile, kSectorBytes / output.bytes) : 0;
  cut.whole_sectors = more > 0;
  cut.tile[LineOfBox(tile, problem.extents).slowest] += more;
  int64_t bytes = 0;
  for (const Side& side : sides) bytes += side.bytes;
  double score =
      PartOfSize(static_cast<double>(Product(tile) * bytes)) / BestOrder(sides, cut).traffic;
  for (const Side& side : sides) {
    const auto line = static_cast<double>(LineOf(side, tile, problem.extents) * side.bytes);
    const int access = VectorOf(problem.extents, side, tile, knobs.vector_bytes) * side.bytes;
    score *= std::pow(std::min(1.0, line / knobs.line_bytes), kOfLine);
    score *= 1 - kOfAccess * std::log2(16.0 / access);
  }
  return score;
}

// Bytes of lines to try, from an element to `longest`: powers of two, between them where most boxes
// are, and whole axes.
std::vector<int64_t> LinesOf(const std::vector<int64_t>& extents, const Side& side,
                             int64_t longest) {
  std::set<int64_t> lines;
  for (int64_t line = side.bytes; line <= longest; line *= 2) {
    lines.insert(line);
    if (line >= kLeastBetween && line <= kMostBetween) lines.insert(line / 2 * 3);
  }
  int64_t whole = side.bytes;
  for (int d : side.order) {
    if (side.strides[d] * side.bytes != whole) break;
    whole *= extents[d];
    if (whole > longest) break;
    if (whole > kLeastBetween) lines.insert(whole);
  }
  return {lines.begin(), lines.end()};
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
  const std::vector<int64_t> outs = LinesOf(problem.extents, sides.back(), longest);
  for (const int64_t in : LinesOf(problem.extents, sides.front(), longest)) {
    bool fits = true;  // longer lines are larger boxes
    for (size_t o = 0; o < outs.size() && fits; ++o) {
      fits = false;
      for (const bool whole : {true, false}) {
        std::vector<int64_t> tile(problem.extents.size(), 1);
        for (int round = 0; round < 2; ++round) {
          for (size_t s = 0; s < sides.size(); ++s) {
            const int64_t line = s + 1 < sides.size() ? in : outs[o];
            Grow(problem.extents, sides[s], std::max<int64_t>(1, line / sides[s].bytes),
                 whole ? std::max(1, knobs.vector_bytes / sides[s].bytes) : 1, tile);
          }
        }
        const int64_t box = Product(tile) * bytes;
        fits = fits || box <= knobs.box_bytes;
        if (box > knobs.box_bytes || !seen.insert(tile).second) continue;
        const double score = Score(problem, knobs, sides, tile);
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
