#include "worker/kernels/tile_rule.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "worker/kernels/shared_banks.h"
#include "worker/kernels/tile_box.h"
#include "worker/kernels/tile_layout.h"
#include "worker/kernels/tile_sides.h"
#include "worker/kernels/tile_traffic.h"
#include "worker/kernels/tile_walks.h"

namespace warpsmith::kernels {
namespace {

using absl::StrCat;

constexpr int kMaxSharedBytes = 96 << 10;
constexpr int kMinVectorsOfLine = 8;     // of a line that begins anywhere: its ends go one by one
constexpr int kPieceBytes = 16;          // of a line that is copied, or a word
constexpr int64_t kLeastLineBytes = 48;  // of a line that is copied in pieces
constexpr double kPassesOfCorner = 0.75, kPassesOfCorners = 3, kPassesOfSearch = 4,
                 kPassesOfPut = 2, kPassesOfUnits = 0.5;
// A store of several lines; and what vectors put by registers wait, which copies do not.
constexpr double kPassesOfBeside = 0.65, kVectorsCost = 1.3, kWalksCost = 1.04;
constexpr double kPassesOfAccess = 5;            // some 20 instructions, four a cycle
constexpr double kPassesOfAxis = 3;              // more of an access, of each axis beyond two
constexpr int kLinesBeside = 4;                  // of a warp, or one
constexpr double kPassesOfLine = 10;             // more of an access whose line has to be found
constexpr double kPassesOfEnd = 14;              // of an element at a line's end
constexpr double kBytesOfPass = 20;              // that memory moves meanwhile, in and out
constexpr size_t kMostBoxes = 4, kMostWide = 2;  // that are laid out; of elements of whole words
// Bytes of an output for which one box will do.
constexpr int64_t kLittle = int64_t{1} << 20;
constexpr double kWorthChange = 1.01;  // what a box must promise more than one before it
// Of a multiprocessor (an H200's): threads, and shared memory, of which each block takes some more.
constexpr int kThreadsOfCard = 2048, kSharedOfCard = 227 << 10, kReservedShared = 1 << 10;
// What is of these costs where much else runs meanwhile; the power of the part of a
// multiprocessor's threads that are there; bytes that its part of memory moves while a thread waits
// for loads; those in flight (TileStage).
constexpr double kPartOfCost = 0.65, kOfBusy = 0.17, kBytesOfWait = 6500;
constexpr int64_t kFlightBytes = 64, kFlightLoads = 8;
constexpr double kMostOfMemory = 0.955, kSlowerWins = 5;
constexpr int kLeastStoreBytes = 8;                     // of elements of whole words
constexpr double kImpossible = 1e30, kUnwanted = 1e20;  // costs
constexpr double kManyConflicts = 1.5;                  // passes of shared memory over the fewest
constexpr size_t kMostWalks = 2;                        // axes that they go along, to compare

// How a box is brought and written.
struct Way {
  bool lines = false;  // of inputs, copied as they lie in memory; else put by vectors
  int wide = 1;        // elements of an output access where lines begin anywhere
  int most = 1;        // and elsewhere
  int beside = 1;      // lines of a warp
  int walk = -1;       // >= 0: the axis that walks go along
};

// Steps of an axis that is innermost in an input put by vectors, or nearly so, in an access of half
// the widest: overlaps of whole such leave vectors whole.
int64_t OverlapUnit(const TileProblem& problem, const Way& way, int axis,
                    const std::vector<int64_t>& tile) {
  int64_t unit = 1;
  for (const TileInput& input : problem.inputs) {
    const int64_t vector = std::max(1, kPieceBytes / 2 / input.bytes);
    const int64_t stride = std::abs(input.strides[axis]);
    if (way.lines || stride == 0 || stride >= vector) continue;
    const int64_t steps = vector / std::gcd(vector, stride);
    if (tile[axis] % steps == 0) unit = std::max(unit, steps);
  }
  return unit;
}

// How the output is written: the width of an access, and where its lines allow less than `wide`
// elements, as lines that begin anywhere.
void SetWrite(const TileProblem& problem, const TileKnobs& knobs, const Side& output,
              const Way& way, TileChoice& choice) {
  const int wide = way.wide;
  const int rank = static_cast<int>(problem.extents.size()), bytes = problem.write_bytes;
  choice.write = choice.align = VectorOf(problem.extents, output, choice.tile, knobs.vector_bytes);
  // Stores that begin between two sectors of memory leave both half written: the box ends with a
  // whole one, or at least its accesses are those of memory.
  const int sector = std::max(wide, knobs.align_bytes / bytes);
  const int64_t line = LineOf(output, choice.tile, problem.extents);
  if (!knobs.anywhere || line < int64_t{kMinVectorsOfLine} * wide) return;
  const int slowest = LineOfBox(choice.tile, problem.extents).slowest;
  const int64_t more =
      knobs.overlap ? SharedSteps(problem.extents, output, choice.tile, sector) : 0;
  const bool overlap = more > 0;
  if (!overlap && choice.write >= wide && way.beside == 1 && way.walk < 0) return;
  choice.run = rank - slowest;
  choice.write = choice.align =
      way.beside > 1 || way.walk >= 0 ? wide : std::max(choice.write, wide);
  if (!overlap) return;
  choice.align = std::max(choice.write, sector);
  // What the next box has as well; in whole vectors of an input that has the axis innermost.
  choice.overlap = static_cast<int>(RoundUp(more, OverlapUnit(problem, way, slowest, choice.tile)));
  choice.tile[slowest] += choice.overlap;
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
  // Vectors that do not turn round corners are put with less work.
  const int64_t straight = std::gcd(vector, choice.tile[side.order[0]]);
  if (side.bytes < kWordBytes && straight * side.bytes >= kWordBytes) vector = straight;
  stream.vector = static_cast<int>(vector);
  if (knobs.anywhere && stream.vector * side.bytes < kWordBytes &&
      LineOf(side, choice.tile, problem.extents) % (kWordBytes / side.bytes) == 0) {
    stream.vector = kWordBytes / side.bytes;
    stream.anywhere = true;
  }
  stream.pack = PackOf(side, choice.tile, stream.vector, choice.stride == 0);
  return PlaceVectors(side, choice, stream);
}

// Elements of a box that are written one by one, where its lines begin and end.
double EndsOf(const TileChoice& choice) {
  if (choice.run == 0) return 0;
  const size_t slowest = choice.tile.size() - choice.run;
  const int64_t line = Product({choice.tile.begin() + slowest, choice.tile.end()});
  const int64_t of_line =
      choice.stride > 0 ? 2 * (choice.write - 1) : choice.align + choice.write - 2;
  // Boxes that overlap leave ends at those of the tensor's own lines alone.
  const int64_t boxes = CeilDiv(choice.extents[slowest], StepOf(choice, slowest));
  const double part = choice.overlap > 0 ? std::min(1.0, 2.0 / static_cast<double>(boxes)) : 1.0;
  return part * static_cast<double>(Product(choice.tile) / line * of_line);
}

// Whether a warp has the places of a line, or several, once.
bool FindsLinesOnce(const TileChoice& choice) {
  return choice.beside > 1 || (choice.run == 1 && choice.tile.back() >= kLanes * choice.write);
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
                kPassesOfEnd * EndsOf(choice) / kLanes;
  if (choice.stride > 0) {
    cost += choice.walks;
  } else {
    if (choice.run != 1) cost += elements * corners(choice.tile.back(), choice.write);
    if (choice.beside > 1) cost += elements * kPassesOfBeside * choice.run;
    if (choice.run > 0 && !FindsLinesOnce(choice)) cost += elements / choice.write * kPassesOfLine;
  }
  for (const TileStreamChoice& stream : choice.streams) {
    // Words of neighbours that lines beginning anywhere do not end with: each element is looked
    // for.
    if (stream.pack > 1 && choice.stride == 0 && choice.run > 0 &&
        (choice.run > 1 || choice.write != stream.pack))
      cost += elements * kPassesOfSearch;
    // Walks take neighbours that lie together one by one as well.
    if (choice.stride > 0 && stream.unit > 1) cost += elements * kPassesOfUnits;
    // They are for elements that are put one by one, or in words.
    if (choice.stride > 0 && stream.line == 0 && stream.pack == 1) cost += elements * kPassesOfPut;
    if (stream.line == 0) cost += elements * corners(choice.tile[stream.order[0]], stream.vector);
  }
  return cost;
}

// All streams of a box, moved in a way; none where that is not possible, or its walks alone take
// `limit`.
TileChoice Laid(const TileProblem& problem, const TileKnobs& knobs, const std::vector<Side>& sides,
                const std::vector<int64_t>& tile, const Way& way, double limit) {
  const int rank = static_cast<int>(problem.extents.size());
  const Side& output = sides.back();
  TileChoice choice;
  choice.threads = knobs.threads;
  choice.extents = problem.extents;
  choice.tile = tile;
  SetWrite(problem, knobs, output, way, choice);
  choice.write = std::min(choice.write, way.most);
  choice.beside = choice.run == 0 ? 1 : way.beside;
  if (way.walk >= 0 && (!SetWalks(way.walk, way.beside, choice) || choice.walks >= limit)) {
    choice.cost = kImpossible;
    return choice;
  }
  choice.boxes = 1;
  double moved = 1;
  for (int d = 0; d < rank; ++d) {
    const int64_t boxes = CeilDiv(problem.extents[d], StepOf(choice, d));
    choice.boxes *= boxes;
    moved *= static_cast<double>(boxes * choice.tile[d]) / static_cast<double>(problem.extents[d]);
  }
  choice.covered = moved;
  BoxCut cut{problem.extents, choice.tile, choice.tile, choice.overlap > 0};
  for (int d = 0; d < rank; ++d) cut.step[d] = StepOf(choice, d);
  if (knobs.raster_input) {
    choice.raster = sides[0].order;
    choice.traffic = TrafficOf(sides, cut, choice.raster);
  } else {
    BoxOrder order = BestOrder(sides, cut);
    choice.raster = std::move(order.raster);
    choice.traffic = order.traffic;
  }
  const int64_t elements = Product(choice.tile);
  choice.accesses = choice.stride > 0 ? 0 : elements / choice.write;
  for (size_t i = 0; i < problem.inputs.size(); ++i) {
    const Side& side = sides[i];
    TileStreamChoice stream;
    stream.order = side.order;
    const int64_t line = LineOf(side, choice.tile, problem.extents) * side.bytes;
    int64_t shared = 0;
    if (way.lines && line >= kLeastLineBytes) {
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

// Ways to copy lines. Elements are taken one by one: narrow vectors have their lanes in more banks,
// and so have several lines beside each other.
std::vector<Way> WaysOfLines(int bytes, int widest) {
  std::vector<Way> ways;
  const int least = bytes < kWordBytes ? kWordBytes : kLeastStoreBytes;
  ways.push_back({true, widest, widest});
  for (int most = widest / 2; most * bytes >= least; most /= 2) ways.push_back({true, most, most});
  if (bytes < kWordBytes)
    ways.push_back({true, kWordBytes / bytes, kWordBytes / bytes, kLinesBeside});
  return ways;
}

// Ways to write small elements by walks: along the lines, and along the longest axes outside of
// them.
std::vector<Way> WaysOfWalks(const std::vector<int64_t>& tile, const std::vector<int64_t>& extents,
                             int bytes) {
  const int word = kWordBytes / bytes, first = LineOfBox(tile, extents).slowest;
  std::vector<int> outside(first), axes = {first};
  std::iota(outside.begin(), outside.end(), 0);
  std::stable_sort(outside.begin(), outside.end(), [&](int a, int b) { return tile[a] > tile[b]; });
  for (int d : outside) {
    if (tile[d] > 1 && axes.size() < kMostWalks) axes.push_back(d);
  }
  std::vector<Way> ways;
  for (int axis : axes) {
    // Along the last axis alone, places are found once for a line without walks.
    if (axis + 1 == static_cast<int>(tile.size())) continue;
    for (bool lines : {true, false}) {
      for (int beside : {1, kLinesBeside}) ways.push_back({lines, word, word, beside, axis});
    }
  }
  return ways;
}

// Whether nothing waits in registers: what is brought is copied.
bool Copies(const TileChoice& choice) {
  return std::all_of(choice.streams.begin(), choice.streams.end(),
                     [](const TileStreamChoice& stream) { return stream.line > 0; });
}

// The best way for a box: vectors that are put, lines that are copied, and for small elements
// walks.
TileChoice LaidBest(const TileProblem& problem, const TileKnobs& knobs,
                    const std::vector<Side>& sides, const std::vector<int64_t>& tile) {
  using Lines = TileKnobs::Lines;
  using Walks = TileKnobs::Walks;
  const int bytes = problem.write_bytes, widest = std::max(1, knobs.vector_bytes / bytes);
  const bool small = bytes < kWordBytes;
  const bool any = std::any_of(sides.begin(), sides.end() - 1, [&](const Side& side) {
    return LineOf(side, tile, problem.extents) * side.bytes >= kLeastLineBytes;
  });
  std::vector<Way> ways = {{false, small ? kWordBytes / bytes : widest, widest}};
  if (any && knobs.lines != Lines::kNever) {
    for (const Way& way : WaysOfLines(bytes, widest)) ways.push_back(way);
  }
  if (small && knobs.walks != Walks::kNever) {
    for (const Way& way : WaysOfWalks(tile, problem.extents, bytes)) {
      if (!way.lines || (any && knobs.lines != Lines::kNever)) ways.push_back(way);
    }
  }
  // What must be comes first, then what fits, then what takes the least.
  const auto rank = [&](const TileChoice& choice) {
    double cost =
        choice.cost * (Copies(choice) ? 1 : kVectorsCost) * (choice.stride > 0 ? kWalksCost : 1);
    if (choice.shared_bytes > kMaxSharedBytes) cost += kImpossible;
    if (knobs.lines == Lines::kAlways && any && !Copies(choice)) cost += kUnwanted;
    if (knobs.walks == Walks::kAlways && choice.stride == 0) cost += kUnwanted;
    return cost;
  };
  TileChoice best = Laid(problem, knobs, sides, tile, ways[0], kImpossible);
  const auto least = static_cast<double>(Product(tile)) / kLanes;
  bool conflicts = true;  // of banks, in the walks before these that are not beside each other
  for (size_t w = 1; w < ways.size(); ++w) {
    if (ways[w].walk >= 0 && ways[w].beside > 1 && !conflicts) continue;
    TileChoice other = Laid(problem, knobs, sides, tile, ways[w], rank(best));
    conflicts = static_cast<double>(other.passes) > kManyConflicts * least || other.passes == 0;
    if (rank(other) < rank(best)) best = std::move(other);
  }
  return best;
}

// Times that a thread waits for loads, one after the other (TileStage::load_and_put).
int64_t WaitsOf(const TileProblem& problem, const TileChoice& choice) {
  int64_t waits = 0;
  for (size_t i = 0; i < choice.streams.size(); ++i) {
    const TileStreamChoice& stream = choice.streams[i];
    if (stream.line > 0) continue;
    const int64_t pack = stream.pack, bytes = stream.vector * pack * problem.inputs[i].bytes;
    const int64_t groups =
        Product(choice.tile) / choice.tile.back() * CeilDiv(choice.tile.back(), pack);
    const int64_t turns = CeilDiv(groups / stream.vector, choice.threads);
    const int64_t together = std::min(std::max<int64_t>(1, kFlightBytes / bytes),
                                      std::max<int64_t>(1, kFlightLoads / pack));
    waits += CeilDiv(turns, together);
  }
  return waits;
}

// What part of the memory's speed a box promises: the slower of memory and of a multiprocessor's
// threads, and what loads wait for.
double PromiseOf(const TileProblem& problem, const TileChoice& choice) {
  int64_t bytes = problem.write_bytes;
  for (const TileInput& input : problem.inputs) bytes += input.bytes;
  const double moved = static_cast<double>(Product(choice.tile) * bytes) / choice.covered;
  // Threads of one block wait for all of its loads, and others work meanwhile.
  const int resident =
      std::max(1, std::min(kThreadsOfCard / choice.threads,
                           kSharedOfCard / (choice.shared_bytes + kReservedShared)));
  const double busy = static_cast<double>(resident * choice.threads) / kThreadsOfCard;
  const double memory = choice.traffic / kMostOfMemory;
  const double threads = kBytesOfPass * kPartOfCost * choice.cost / moved / std::pow(busy, kOfBusy);
  const double waits =
      kBytesOfWait * static_cast<double>(WaitsOf(problem, choice)) / resident / moved;
  const auto power = [](double x) { return std::pow(x, kSlowerWins); };
  const double time = std::pow(power(memory) + power(threads), 1 / kSlowerWins) + waits;
  return PartOfSize(moved) / time;
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
  choice.promise = PromiseOf(problem, choice);
  // Little is moved in the time of a launch, whatever the box.
  const size_t most = Product(problem.extents) * problem.write_bytes < kLittle ? 1
                      : narrow                                                 ? kMostBoxes
                                                                               : kMostWide;
  for (size_t i = 1; i < boxes.size() && i < most; ++i) {
    if (boxes[i].score * kMostOfMemory <= kWorthChange * choice.promise) break;
    TileChoice other = LaidBest(problem, knobs, sides, boxes[i].tile);
    other.promise = PromiseOf(problem, other);
    if (other.shared_bytes <= kMaxSharedBytes && other.promise > kWorthChange * choice.promise)
      choice = std::move(other);
  }
  if (choice.shared_bytes > kMaxSharedBytes) {
    return absl::InvalidArgumentError(StrCat(
        "tile: ", choice.shared_bytes, " bytes of shared memory, more than ", kMaxSharedBytes));
  }
  return choice;
}

}  // namespace warpsmith::kernels
