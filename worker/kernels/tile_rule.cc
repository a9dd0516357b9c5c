#include "worker/kernels/tile_rule.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "worker/kernels/shared_banks.h"
#include "worker/kernels/tile_box.h"
#include "worker/kernels/tile_layout.h"
#include "worker/kernels/tile_sides.h"

namespace warpsmith::kernels {
namespace {

using absl::StrCat;

constexpr int kMaxSharedBytes = 96 << 10;
constexpr int kMinVectorsOfLine = 8;     // of a line that begins anywhere: its ends go one by one
constexpr int kPieceBytes = 16;          // of a line that is copied, or a word
constexpr int64_t kLeastLineBytes = 48;  // of a line that is copied in pieces
constexpr double kPassesOfCorner = 0.75, kPassesOfCorners = 2, kPassesOfSearch = 4;
// A store of several lines; and what vectors put by registers wait, which copies do not.
constexpr double kPassesOfBeside = 0.65, kVectorsCost = 1.3;
constexpr double kPassesOfAccess = 5;  // some 20 instructions, four a cycle
constexpr double kPassesOfAxis = 2;    // more of an access, of each axis beyond two
constexpr int kLinesBeside = 4;        // of a warp, or one
constexpr double kBytesOfPass = 20;    // that memory moves meanwhile, in and out
constexpr size_t kMostBoxes = 4;       // that are laid out
constexpr double kWorthChange = 1.25;  // what a box must promise more than one of a better score
constexpr int kLeastStoreBytes = 8;    // of elements of whole words

// How the output is written: the width of an access, and where its lines allow less than `wide`
// elements, as lines that begin anywhere.
void SetWrite(const TileProblem& problem, const TileKnobs& knobs, const Side& output, int wide,
              TileChoice& choice) {
  const int rank = static_cast<int>(problem.extents.size()), bytes = problem.write_bytes;
  choice.write = choice.align = VectorOf(problem.extents, output, choice.tile, knobs.vector_bytes);
  // Stores that begin between two sectors of memory leave both half written: the box ends with a
  // whole one, or at least its accesses are those of memory.
  const int sector = std::max(wide, knobs.align_bytes / bytes);
  const int64_t line = LineOf(output, choice.tile, problem.extents);
  if (!knobs.anywhere || line < int64_t{kMinVectorsOfLine} * wide) return;
  const OutputLine of_box = LineOfBox(choice.tile, problem.extents);
  const int slowest = of_box.slowest;
  const int64_t more = OverlapOf(of_box, sector);
  const bool overlap = knobs.overlap && of_box.cut &&
                       more * kLeastOfOverlap <= choice.tile[slowest] &&
                       VectorOf(problem.extents, output, choice.tile, sector * bytes) < sector;
  if (!overlap && choice.write >= wide && choice.beside == 1) return;
  choice.run = rank - slowest;
  choice.write = choice.align = choice.beside > 1 ? wide : std::max(choice.write, wide);
  if (!overlap) return;
  choice.align = std::max(choice.write, sector);
  // What the next box has as well.
  choice.overlap = static_cast<int>(more);
  choice.tile[slowest] += more;
  if (choice.tile[slowest] < problem.extents[slowest]) return;
  choice.tile[slowest] = problem.extents[slowest];
  choice.overlap = 0;
}

// Where axes beyond the box's step must be whole vectors of an input, too.
int64_t StepOf(const TileChoice& choice, size_t axis) {
  return choice.tile[axis] -
         (axis + choice.run == choice.tile.size() ? int64_t{choice.overlap} : int64_t{0});
}

// An input read by vectors and put where the fewest passes are made.
int64_t LayVectors(const TileProblem& problem, const TileKnobs& knobs, const Side& side,
                   const TileChoice& choice, TileStreamChoice& stream) {
  int64_t vector = VectorOf(problem.extents, side, choice.tile, knobs.vector_bytes);
  for (size_t d = 0; d < choice.tile.size(); ++d) {
    if (StepOf(choice, d) == choice.tile[d]) continue;
    vector = std::gcd(vector, side.strides[d] * StepOf(choice, d));
    vector = std::gcd(vector, side.strides[d] * problem.extents[d]);
  }
  stream.vector = static_cast<int>(vector);
  if (knobs.anywhere && stream.vector * side.bytes < kWordBytes &&
      LineOf(side, choice.tile, problem.extents) % (kWordBytes / side.bytes) == 0) {
    stream.vector = kWordBytes / side.bytes;
    stream.anywhere = true;
  }
  stream.pack = PackOf(side, choice.tile, stream.vector);
  return PlaceVectors(side, choice.tile, choice.write, stream);
}

// Passes of shared memory, and what finding places takes in their time: of each access, and of its
// elements where they turn round corners of the box, at most once or anywhere.
double CostOf(const TileChoice& choice) {
  const auto corners = [&](int64_t fastest, int vector) {
    return fastest % vector == 0 ? 0 : fastest >= vector ? kPassesOfCorner : kPassesOfCorners;
  };
  const auto elements = static_cast<double>(Product(choice.tile)) / kLanes;
  const auto axes = std::count_if(choice.tile.begin(), choice.tile.end(),
                                  [](int64_t extent) { return extent > 1; });
  const double access = kPassesOfAccess + kPassesOfAxis * std::max<double>(0, axes - 2.0);
  double cost = static_cast<double>(choice.passes) +
                access * static_cast<double>(choice.accesses) / kLanes +
                elements * corners(choice.tile.back(), choice.write) +
                (choice.beside > 1 ? elements * kPassesOfBeside : 0);
  for (const TileStreamChoice& stream : choice.streams) {
    // Words of neighbours that lines beginning anywhere do not end with: each element is looked
    // for.
    if (stream.pack > 1 && choice.run > 0 && (choice.run > 1 || choice.write != stream.pack))
      cost += elements * kPassesOfSearch;
    if (stream.line == 0) cost += elements * corners(choice.tile[stream.order[0]], stream.vector);
  }
  return cost;
}

// All streams of a box, their lines copied as they lie in memory in pieces of `piece` bytes or,
// where that is 0, put by vectors, and the output written by vectors of `wide` elements where lines
// begin anywhere, and at most `most` elsewhere.
TileChoice Laid(const TileProblem& problem, const TileKnobs& knobs, const std::vector<Side>& sides,
                const std::vector<int64_t>& tile, bool lines, int wide, int most, int beside) {
  const int rank = static_cast<int>(problem.extents.size());
  const Side& output = sides.back();
  TileChoice choice;
  choice.threads = knobs.threads;
  choice.extents = problem.extents;
  choice.tile = tile;
  choice.beside = beside;
  SetWrite(problem, knobs, output, wide, choice);
  choice.write = std::min(choice.write, most);
  if (choice.run == 0) choice.beside = 1;
  choice.raster = knobs.raster_input ? sides[0].order : output.order;
  choice.boxes = 1;
  double moved = 1;
  for (int d = 0; d < rank; ++d) {
    const int64_t boxes = CeilDiv(problem.extents[d], StepOf(choice, d));
    choice.boxes *= boxes;
    moved *= static_cast<double>(boxes * choice.tile[d]) / static_cast<double>(problem.extents[d]);
  }
  choice.covered = moved;
  const int64_t elements = Product(choice.tile);
  choice.accesses = elements / choice.write;
  for (size_t i = 0; i < problem.inputs.size(); ++i) {
    const Side& side = sides[i];
    TileStreamChoice stream;
    stream.order = side.order;
    const int64_t line = LineOf(side, choice.tile, problem.extents) * side.bytes;
    int64_t shared = 0;
    if (lines && line >= kLeastLineBytes) {
      stream.line = LineAxes(side, choice.tile, problem.extents);
      choice.passes += PlaceLines(side, choice, problem.extents, stream);
      choice.accesses += elements * side.bytes / line * CeilDiv(line + kPieceBytes, kPieceBytes);
      shared = SharedElements(stream, choice.tile) * side.bytes + 2 * kPieceBytes;
    } else {
      choice.passes += LayVectors(problem, knobs, side, choice, stream);
      choice.accesses += elements / stream.vector * (stream.anywhere ? 2 : 1);
      shared = SharedElements(stream, choice.tile) * side.bytes;
    }
    stream.offset = choice.shared_bytes;
    choice.fewest_passes += CeilDiv(2 * elements * side.bytes, kBanks * kWordBytes);
    choice.shared_bytes += static_cast<int>(RoundUp(shared, 16));
    choice.streams.push_back(std::move(stream));
  }
  choice.cost = CostOf(choice);
  return choice;
}

// The best choice of those that copy lines. Elements are taken one by one: narrow vectors have
// their lanes in more banks, and so have several lines beside each other, and lines between which
// lie whole words and not pieces.
TileChoice BestLines(const TileProblem& problem, const TileKnobs& knobs,
                     const std::vector<Side>& sides, const std::vector<int64_t>& tile) {
  const int bytes = problem.write_bytes, widest = std::max(1, knobs.vector_bytes / bytes);
  TileChoice best = Laid(problem, knobs, sides, tile, true, widest, widest, 1);
  const auto consider = [&](TileChoice other) {
    if (other.shared_bytes <= kMaxSharedBytes && other.cost < best.cost) best = std::move(other);
  };
  const bool small = bytes < kWordBytes;
  for (int most = widest / 2; most * bytes >= (small ? kWordBytes : kLeastStoreBytes); most /= 2)
    consider(Laid(problem, knobs, sides, tile, true, most, most, 1));
  if (!small) return best;
  const int word = kWordBytes / bytes;
  consider(Laid(problem, knobs, sides, tile, true, word, word, kLinesBeside));
  return best;
}

// The better of lines that are copied and of vectors that are put.
TileChoice LaidBest(const TileProblem& problem, const TileKnobs& knobs,
                    const std::vector<Side>& sides, const std::vector<int64_t>& tile) {
  const int widest = std::max(1, knobs.vector_bytes / problem.write_bytes);
  const int word = problem.write_bytes < kWordBytes ? kWordBytes / problem.write_bytes : widest;
  TileChoice choice = Laid(problem, knobs, sides, tile, false, word, widest, 1);
  if (knobs.lines == TileKnobs::Lines::kNever) return choice;
  const bool any = std::any_of(sides.begin(), sides.end() - 1, [&](const Side& side) {
    return LineOf(side, tile, problem.extents) * side.bytes >= kLeastLineBytes;
  });
  if (!any) return choice;
  TileChoice lines = BestLines(problem, knobs, sides, tile);
  const bool better =
      lines.cost < kVectorsCost * choice.cost || choice.shared_bytes > kMaxSharedBytes;
  if (lines.shared_bytes <= kMaxSharedBytes && (better || knobs.lines == TileKnobs::Lines::kAlways))
    return lines;
  return choice;
}

// The part of the memory's speed that a multiprocessor's threads keep up with, by the cost of a
// box; at most 1.
double SpeedOf(const TileProblem& problem, const TileChoice& choice) {
  int64_t bytes = problem.write_bytes;
  for (const TileInput& input : problem.inputs) bytes += input.bytes;
  const double moved = static_cast<double>(Product(choice.tile) * bytes) / choice.covered;
  return std::min(1.0, moved / (kBytesOfPass * choice.cost));
}

}  // namespace

TileProblem MergeAxes(const TileProblem& problem) {
  TileProblem merged = problem;
  merged.extents.clear();
  for (TileInput& input : merged.inputs) input.strides.clear();
  for (size_t d = 0; d < problem.extents.size(); ++d) {
    if (problem.extents[d] == 1) continue;
    bool joins = !merged.extents.empty();
    for (size_t i = 0; joins && i < problem.inputs.size(); ++i) {
      joins = merged.inputs[i].strides.back() == problem.inputs[i].strides[d] * problem.extents[d];
    }
    if (joins) {
      merged.extents.back() *= problem.extents[d];
    } else {
      merged.extents.push_back(problem.extents[d]);
    }
    for (size_t i = 0; i < problem.inputs.size(); ++i) {
      if (joins) {
        merged.inputs[i].strides.back() = problem.inputs[i].strides[d];
      } else {
        merged.inputs[i].strides.push_back(problem.inputs[i].strides[d]);
      }
    }
  }
  if (merged.extents.empty()) {
    merged.extents.push_back(1);
    for (TileInput& input : merged.inputs) input.strides.push_back(1);
  }
  return merged;
}

absl::StatusOr<TileChoice> ChooseTile(const TileProblem& problem, const TileKnobs& wanted) {
  const int rank = static_cast<int>(problem.extents.size());
  if (rank < 1 || rank > kMaxTileRank) {
    return absl::InvalidArgumentError(
        StrCat("tile: ", rank, " axes, wanted 1 to ", kMaxTileRank, " after joining"));
  }
  if (problem.inputs.empty()) return absl::InvalidArgumentError("tile: no input to turn");
  TileKnobs knobs = wanted;
  const bool narrow = problem.write_bytes < kWordBytes;
  if (knobs.line_bytes == 0) knobs.line_bytes = narrow ? 256 : 128;
  if (knobs.box_bytes == 0)
    knobs.box_bytes = static_cast<int>(problem.inputs.size()) * (narrow ? 32 << 10 : 16 << 10);
  std::vector<Side> sides;
  for (const TileInput& input : problem.inputs) {
    if (static_cast<int>(input.strides.size()) != rank) {
      return absl::InvalidArgumentError(
          StrCat("tile: ", input.strides.size(), " strides for ", rank, " axes"));
    }
    sides.push_back(
        {input.strides, OrderOf(input.strides), input.offset, input.bytes, input.vectors});
  }
  Side output{DenseStrides(problem.extents), {}, 0, problem.write_bytes, true};
  output.order = OrderOf(output.strides);
  sides.push_back(output);

  std::vector<ScoredBox> boxes;
  if (knobs.box.empty())
    boxes = BestBoxes(problem, knobs, sides);
  else
    boxes.push_back({knobs.box, 1});
  TileChoice choice = LaidBest(problem, knobs, sides, boxes[0].tile);
  // A box that threads are slow to move is compared with others.
  double best = boxes[0].score * SpeedOf(problem, choice);
  for (size_t i = 1; i < boxes.size() && i < kMostBoxes; ++i) {
    if (boxes[i].score <= kWorthChange * best) break;
    TileChoice other = LaidBest(problem, knobs, sides, boxes[i].tile);
    const double value = boxes[i].score * SpeedOf(problem, other);
    if (other.shared_bytes > kMaxSharedBytes || value <= kWorthChange * best) continue;
    best = value;
    choice = std::move(other);
  }
  if (choice.shared_bytes > kMaxSharedBytes) {
    return absl::InvalidArgumentError(StrCat(
        "tile: ", choice.shared_bytes, " bytes of shared memory, more than ", kMaxSharedBytes));
  }
  return choice;
}

}  // namespace warpsmith::kernels
