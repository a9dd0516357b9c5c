#include "worker/kernels/tile_rule.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace warpsmith::kernels {
namespace {

using absl::StrCat;

// Positions up to this fit an int, with room for what lies behind the last box.
constexpr int64_t kMaxInt = (int64_t{1} << 31) - (int64_t{1} << 27);
constexpr int kSectorBytes = 32;  // that memory is read and written in
constexpr int kMaxSharedBytes = 96 << 10;
constexpr int kWordBytes = 4;
constexpr int kMinVectorsOfLine = 8;  // of a line that begins anywhere: its ends go one by one
constexpr int kBanks = 32;
constexpr int kLanes = 32;
constexpr int kPieceBytes = 16;  // that lines are copied in
constexpr int kPiecesOfPass = kBanks * kWordBytes / kPieceBytes;
constexpr int64_t kLeastLineBytes = 48;  // of a line that is copied in pieces
constexpr double kPassesOfCorner = 0.75, kPassesOfCorners = 2, kPassesOfSearch = 4;
// A store of several lines; and what vectors put by registers wait, which copies do not.
constexpr double kPassesOfBeside = 0.65, kVectorsCost = 1.3;
constexpr double kPassesOfAccess = 5;   // some 20 instructions, four a cycle
constexpr double kPassesOfAxis = 2;     // more of an access, of each axis beyond two
constexpr int64_t kLeastOfOverlap = 6;  // boxes overlap by at most this part
constexpr int kLinesBeside = 4;         // of a warp, or one
constexpr int kSampledWarps = 8;        // of a box, when passes are counted

int64_t RoundUp(int64_t n, int64_t to) { return (n + to - 1) / to * to; }
int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

std::vector<int64_t> DenseStrides(const std::vector<int64_t>& extents) {
  std::vector<int64_t> strides(extents.size(), 1);
  for (int d = static_cast<int>(extents.size()) - 2; d >= 0; --d)
    strides[d] = strides[d + 1] * extents[d + 1];
  return strides;
}

// Axes from the fastest on; those that do not move come last.
std::vector<int> OrderOf(const std::vector<int64_t>& strides) {
  std::vector<int> order(strides.size());
  std::iota(order.begin(), order.end(), 0);
  std::reverse(order.begin(), order.end());
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    const auto key = [&](int d) { return strides[d] == 0 ? INT64_MAX : std::abs(strides[d]); };
    return key(a) < key(b);
  });
  return order;
}

// A side of the map: an input or the output.
struct Side {
  std::vector<int64_t> strides;
  std::vector<int> order;
  int64_t offset = 0;
  int bytes = 4;
  bool vectors = true;
};

// Makes the box so long along the side's order that `wanted` elements are one line.
void Grow(const std::vector<int64_t>& extents, const Side& side, int64_t wanted, int vector,
          std::vector<int64_t>& tile) {
  int64_t have = 1;
  for (int d : side.order) {
    if (side.strides[d] == 0) break;
    const int64_t need = std::min(extents[d], CeilDiv(wanted, have));
    int64_t n = std::max(tile[d], need);
    if (n < extents[d]) {
      n = CeilDiv(extents[d], CeilDiv(extents[d], n));  // boxes of one size
      n = RoundUp(n, vector / std::gcd<int64_t>(vector, have));
      n = std::min(n, extents[d]);
    }
    tile[d] = n;
    if (n < extents[d]) return;
    have *= n;
    if (have >= wanted) return;
  }
}

int64_t Product(const std::vector<int64_t>& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), int64_t{1}, std::multiplies<>());
}

// Elements that one access may have: they divide each line's length and where it begins.
int VectorOf(const std::vector<int64_t>& extents, const Side& side,
             const std::vector<int64_t>& tile, int vector_bytes) {
  if (!side.vectors) return 1;
  int64_t common = std::max(1, vector_bytes / side.bytes);
  common = std::gcd(common, side.offset);
  int64_t run = 1;
  bool in_line = true;
  for (int d : side.order) {
    if (in_line && side.strides[d] == run) {
      run *= tile[d];
      if (tile[d] < extents[d]) {
        in_line = false;
        common = std::gcd(common, run);
        common = std::gcd(common, side.strides[d] * (extents[d] % tile[d]));
      }
    } else {
      in_line = false;
      common = std::gcd(common, side.strides[d]);
    }
  }
  return static_cast<int>(std::gcd(common, run));
}

// Elements of a box that lie in one line of the side's memory; 1 where it is not read so.
int64_t LineOf(const Side& side, const std::vector<int64_t>& tile,
               const std::vector<int64_t>& extents) {
  int64_t run = 1;
  if (!side.vectors) return run;
  for (int d : side.order) {
    if (side.strides[d] != run) break;
    run *= tile[d];
    if (tile[d] < extents[d]) break;
  }
  return run;
}

// Numbers elements of a box in an order, axis `grouped` in groups.
struct BoxOrder {
  std::vector<int> order;
  std::vector<int64_t> tile;
  int grouped = -1, group = 1;

  int64_t Group(int d) const { return d == grouped ? group : 1; }
  int64_t Radix(int d) const { return tile[d] / Group(d); }
  void At(int64_t number, std::array<int64_t, kMaxTileRank>& x) const {
    for (int d : order) {
      x[d] = number % Radix(d) * Group(d);
      number /= Radix(d);
    }
  }
};

int64_t Position(const TileStreamChoice& stream, const std::array<int64_t, kMaxTileRank>& x) {
  const int last = static_cast<int>(stream.place.size()) - 1;
  int64_t p = 0;
  for (int d = 0; d < last; ++d) p += x[d] * stream.place[d];
  return p + x[last] / stream.pack * stream.place[last] + x[last] % stream.pack;
}

// How many neighbours along `fast` are one access, as TileStage::together.
int Together(const TileStreamChoice& stream, const std::vector<int64_t>& tile, int fast, int width,
             int unit, int bytes) {
  if (stream.place[fast] != unit) return 1;
  for (int k = width; k > 1; k /= 2) {
    bool fits = k * unit * bytes <= 16 && tile[fast] % k == 0;
    for (int d = 0; d < static_cast<int>(tile.size()); ++d) {
      fits = fits && (d == fast || tile[d] == 1 || stream.place[d] % (int64_t{k} * unit) == 0);
    }
    if (fits) return k;
  }
  return 1;
}

// Passes of shared memory for one access of a warp: lanes that want different words of one bank
// wait for each other. Accesses of 8 and 16 bytes are made by half and quarter warps.
int Passes(const std::array<int64_t, kLanes>& addresses, int lanes, int bytes) {
  const int at_once = bytes <= kWordBytes ? kLanes : kLanes * kWordBytes / bytes;
  int passes = 0;
  for (int first = 0; first < lanes; first += at_once) {
    std::array<std::array<int64_t, kLanes>, kBanks> words;
    std::array<int, kBanks> count{};
    for (int lane = first; lane < std::min(lanes, first + at_once); ++lane) {
      for (int word = 0; word < std::max(1, bytes / kWordBytes); ++word) {
        const int64_t at = addresses[lane] / kWordBytes + word;
        const int bank = static_cast<int>(at % kBanks);
        auto& list = words[bank];
        if (std::find(list.begin(), list.begin() + count[bank], at) == list.begin() + count[bank] &&
            count[bank] < kLanes)
          list[count[bank]++] = at;
      }
    }
    passes += *std::max_element(count.begin(), count.end());
  }
  return passes;
}

// Passes of all accesses of one side to one stream's shared memory.
int64_t SidePasses(const TileStreamChoice& stream, const BoxOrder& order, int width, int together,
                   int unit, int bytes) {
  const int64_t vectors = Product(order.tile) / order.group / width;
  const int64_t warps = CeilDiv(vectors, kLanes);
  const int64_t step = std::max<int64_t>(1, warps / kSampledWarps);
  int64_t passes = 0, sampled = 0;
  for (int64_t warp = 0; warp < warps; warp += step, ++sampled) {
    const int lanes = static_cast<int>(std::min<int64_t>(kLanes, vectors - warp * kLanes));
    for (int v = 0; v < width; v += together) {
      std::array<int64_t, kLanes> addresses{};
      for (int lane = 0; lane < lanes; ++lane) {
        std::array<int64_t, kMaxTileRank> x{};
        order.At((warp * kLanes + lane) * width + v, x);
        addresses[lane] = Position(stream, x) * bytes;
      }
      passes += Passes(addresses, lanes, together * unit * bytes);
    }
  }
  return sampled == 0 ? 0 : passes * warps / sampled;
}

// The same of an output whose lines begin anywhere, from single elements: the lanes of a warp are
// along one line, or along several beside each other (ws::TileConfig).
int64_t LinePasses(const TileStreamChoice& stream, const BoxOrder& order, const TileChoice& choice,
                   int bytes) {
  const int rank = static_cast<int>(order.tile.size()), width = choice.write;
  int64_t line = 1, inner = 1;
  for (int d = rank - choice.run; d < rank; ++d) line *= order.tile[d];
  inner = line / order.tile[rank - choice.run];
  const int64_t lines = Product(order.tile) / line;
  const int64_t in_line = std::max<int64_t>(1, (line - choice.overlap * inner) / width);
  const int lanes = kLanes / choice.beside, step = std::min(stream.unit, width);
  const int64_t groups = CeilDiv(lines, int64_t{choice.beside} * width) * width;
  const int64_t items = choice.beside > 1 ? groups : lines, parts = CeilDiv(in_line, lanes);
  const int64_t skip = std::max<int64_t>(1, items * parts / kSampledWarps);
  int64_t passes = 0, sampled = 0;
  for (int64_t number = 0; number < items * parts; number += skip, ++sampled) {
    const int64_t item = number / parts, part = number % parts;
    for (int v = 0; v < width; v += step) {
      std::array<int64_t, kLanes> addresses{};
      for (int lane = 0; lane < kLanes; ++lane) {
        const int64_t of = choice.beside > 1 ? item / width * choice.beside * width +
                                                   lane / lanes * width + item % width
                                             : item;
        std::array<int64_t, kMaxTileRank> x{};
        order.At(std::min(of, lines - 1) * line +
                     std::min(part * lanes + lane % lanes, in_line - 1) * width + v,
                 x);
        addresses[lane] = Position(stream, x) * bytes;
      }
      passes += Passes(addresses, kLanes, step * bytes);
    }
  }
  return sampled == 0 ? 0 : passes * items * parts / sampled;
}

// Places of the axes in `order`, one behind the other, with `pad` elements where a level begins.
void Place(const BoxOrder& order, int unit, int level, int64_t pad, TileStreamChoice& stream) {
  int64_t place = unit;
  for (size_t k = 0; k < order.order.size(); ++k) {
    const int d = order.order[k];
    if (static_cast<int>(k) == level) place += pad;
    stream.place[d] = place;
    place *= order.Radix(d);
  }
}

int64_t SharedElements(const TileStreamChoice& stream, const std::vector<int64_t>& tile) {
  std::array<int64_t, kMaxTileRank> last{};
  for (size_t d = 0; d < tile.size(); ++d) last[d] = tile[d] - 1;
  return Position(stream, last) + 1;
}

// The layout of one stream in shared memory with the fewest passes.
int64_t PlaceStream(const Side& side, const std::vector<int64_t>& tile, int write,
                    TileStreamChoice& stream) {
  const int rank = static_cast<int>(tile.size()), last = rank - 1;
  const BoxOrder read{stream.order, tile, last, stream.pack};
  BoxOrder written{{}, tile, -1, 1};
  for (int d = last; d >= 0; --d) written.order.push_back(d);
  stream.place.assign(rank, 1);
  TileStreamChoice best;
  int64_t fewest = INT64_MAX;
  const auto consider = [&](const BoxOrder& order, int level, int64_t pad) {
    Place(order, stream.pack, level, pad, stream);
    const int put = Together(stream, tile, stream.order[0], stream.vector, stream.pack, side.bytes);
    int take = Together(stream, tile, last, write, 1, side.bytes);
    if (stream.pack > 1)
      take = tile[last] % write == 0 && write % stream.pack == 0 ? stream.pack : 1;
    const int64_t passes = SidePasses(stream, read, stream.vector, put, stream.pack, side.bytes) +
                           SidePasses(stream, written, write, take, 1, side.bytes);
    if (passes < fewest) {
      fewest = passes;
      best = stream;
    }
  };
  for (const BoxOrder* order : {&read, static_cast<const BoxOrder*>(&written)}) {
    // Packed words hold neighbours of the output's fastest axis: only the reading order has them
    // so.
    if (order == &written && stream.pack > 1) continue;
    consider(*order, 0, 0);
    for (int level = 1; level < rank; ++level) {
      for (int64_t bytes : {4, 8, 16}) {
        const int64_t unit = int64_t{stream.pack} * side.bytes;
        if (bytes % unit == 0) consider(*order, level, bytes / side.bytes);
      }
    }
  }
  stream = best;
  return fewest;
}

// How many axes of the side's order are a line of its memory within the box.
int LineAxes(const Side& side, const std::vector<int64_t>& tile,
             const std::vector<int64_t>& extents) {
  int64_t run = 1;
  int axes = 0;
  if (!side.vectors) return 0;
  for (int d : side.order) {
    if (side.strides[d] != run) break;
    ++axes;
    run *= tile[d];
    if (tile[d] < extents[d]) break;
  }
  return axes;
}

// Passes and layout of a stream whose lines are copied as they lie in memory: places between lines
// are those of memory modulo 16 bytes, with room for what the first and last piece of a line bring
// along.
int64_t PlaceLines(const Side& side, const TileChoice& choice, const std::vector<int64_t>& extents,
                   TileStreamChoice& stream) {
  const std::vector<int64_t>& tile = choice.tile;
  const int rank = static_cast<int>(tile.size()), last = rank - 1;
  const int64_t piece = kPieceBytes / side.bytes;
  stream.place.assign(rank, 1);
  int64_t span = 1, lines = 1, line = 1;
  for (int k = 0; k < stream.line; ++k) {
    const int d = stream.order[k];
    stream.place[d] = side.strides[d];
    span += (tile[d] - 1) * stream.place[d];
    line *= tile[d];
  }
  // What lies together on both sides, everywhere.
  for (int unit = kPieceBytes / side.bytes; unit > 1 && stream.unit == 1; unit /= 2) {
    bool whole = side.strides[last] == 1 && side.offset % unit == 0 && tile[last] % unit == 0 &&
                 extents[last] % unit == 0;
    for (int d = 0; d < last; ++d) whole = whole && side.strides[d] % unit == 0;
    if (whole) stream.unit = unit;
  }
  BoxOrder written{{}, tile, -1, 1};
  for (int d = last; d >= 0; --d) written.order.push_back(d);
  TileStreamChoice best;
  int64_t fewest = INT64_MAX;
  for (int64_t pad = 0; pad < kBanks * kWordBytes / kPieceBytes; ++pad) {
    int64_t have = span;
    lines = 1;
    for (int k = stream.line; k < rank; ++k) {
      const int d = stream.order[k];
      const int64_t least = have + piece - 1 + (k == stream.line ? pad * piece : 0);
      const int64_t wanted = ((side.strides[d] - least) % piece + piece) % piece;
      stream.place[d] = least + wanted;
      have += (tile[d] - 1) * stream.place[d];
      lines *= tile[d];
    }
    const int64_t passes =
        lines * ((line + 2 * (piece - 1)) / piece) / kPiecesOfPass +
        (choice.run > 0 ? LinePasses(stream, written, choice, side.bytes)
                        : SidePasses(stream, written, choice.write,
                                     std::min(stream.unit, choice.write), 1, side.bytes));
    if (passes >= fewest) continue;
    fewest = passes;
    best = stream;
  }
  stream = best;
  return fewest;
}

// Words of shared memory hold neighbours of the output's fastest axis, if that is not the input's
// too.
int PackOf(const Side& side, const std::vector<int64_t>& tile, int vector) {
  const int last = static_cast<int>(tile.size()) - 1;
  if (side.bytes >= kWordBytes || tile[last] % (kWordBytes / side.bytes) != 0) return 1;
  int64_t before = 1;
  for (int d : side.order) {
    if (d == last) break;
    before *= tile[d];
  }
  return before > 1 && before % vector == 0 ? kWordBytes / side.bytes : 1;
}

// The output's line in a box: its slowest axis, elements of those within it, and whether the box
// cuts it.
struct OutputLine {
  int slowest = 0;
  int64_t inner = 1;
  bool cut = false;
};
OutputLine LineOfBox(const std::vector<int64_t>& tile, const std::vector<int64_t>& extents) {
  OutputLine line;
  line.slowest = static_cast<int>(tile.size()) - 1;
  while (line.slowest > 0 && tile[line.slowest] == extents[line.slowest])
    line.inner *= tile[line.slowest--];
  line.cut = tile[line.slowest] < extents[line.slowest];
  return line;
}

// Steps of the slowest axis that boxes share, so that each has the whole of its last `piece`.
int64_t OverlapOf(const OutputLine& line, int64_t piece) {
  return line.inner == 1 ? piece : CeilDiv(piece - 1, line.inner);
}

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

// The best of boxes with lines from one element to as long as a box holds: where an axis of few
// elements ends a line, all lines of a box are one run of memory.
std::vector<int64_t> ChooseBox(const TileProblem& problem, const TileKnobs& knobs,
                               const std::vector<Side>& sides) {
  int bytes = 0;
  for (const TileInput& input : problem.inputs) bytes += input.bytes;
  std::vector<int64_t> best(problem.extents.size(), 1);
  double best_score = -1;
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
        if (box > knobs.box_bytes) continue;
        const double score = Score(problem, knobs, sides, tile, box);
        if (score > best_score * 1.001) {
          best_score = score;
          best = tile;
        }
      }
    }
  }
  return best;
}

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
  return PlaceStream(side, choice.tile, choice.write, stream);
}

// All streams of a box, their lines copied as they lie in memory or put by vectors, and the output
// written by vectors of `wide` elements where lines begin anywhere, and at most `most` elsewhere.
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
  return choice;
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

  const std::vector<int64_t> tile =
      knobs.box.empty() ? ChooseBox(problem, knobs, sides) : knobs.box;
  const int widest = std::max(1, knobs.vector_bytes / problem.write_bytes);
  const int word = narrow ? kWordBytes / problem.write_bytes : widest;
  TileChoice choice = Laid(problem, knobs, sides, tile, false, word, widest, 1);
  if (knobs.lines != TileKnobs::Lines::kNever) {
    // Elements are taken one by one: narrow vectors have their lanes in more banks, and so have
    // several lines beside each other.
    TileChoice lines = Laid(problem, knobs, sides, tile, true, widest, widest, 1);
    const auto consider = [&](TileChoice other) {
      if (other.shared_bytes <= kMaxSharedBytes && CostOf(other) < CostOf(lines))
        lines = std::move(other);
    };
    for (int most = widest / 2; most * problem.write_bytes >= kWordBytes; most /= 2)
      consider(Laid(problem, knobs, sides, tile, true, most, most, 1));
    consider(Laid(problem, knobs, sides, tile, true, std::max(1, kWordBytes / problem.write_bytes),
                  std::max(1, kWordBytes / problem.write_bytes), kLinesBeside));
    const bool any = std::any_of(lines.streams.begin(), lines.streams.end(),
                                 [](const TileStreamChoice& stream) { return stream.line > 0; });
    const bool better =
        CostOf(lines) < kVectorsCost * CostOf(choice) || choice.shared_bytes > kMaxSharedBytes;
    if (any && lines.shared_bytes <= kMaxSharedBytes &&
        (better || knobs.lines == TileKnobs::Lines::kAlways))
      choice = std::move(lines);
  }
  if (choice.shared_bytes > kMaxSharedBytes) {
    return absl::InvalidArgumentError(StrCat(
        "tile: ", choice.shared_bytes, " bytes of shared memory, more than ", kMaxSharedBytes));
  }
  return choice;
}

namespace {
template <class T>
std::string AxesText(const std::vector<T>& numbers) {
  return StrCat("ws::Axes<", absl::StrJoin(numbers, ", "), ">");
}

std::string PositionText(const TileInput& input) {
  std::string at = StrCat("Index(", input.offset, ")");
  for (size_t d = 0; d < input.strides.size(); ++d)
    absl::StrAppend(&at, " + c[", d, "] * Index(", input.strides[d], ")");
  return at;
}
}  // namespace

std::string TileArguments(const TileChoice& choice) {
  std::string text = StrCat(
      "ws::TileConfig<", choice.threads, ", ", choice.write, ", ", AxesText(choice.extents), ", ",
      AxesText(choice.tile), ", ", AxesText(choice.raster),
      choice.run > 0
          ? StrCat(", ", choice.run, ", ", choice.overlap, ", ", choice.align, ", ", choice.beside)
          : "",
      ">");
  for (const TileStreamChoice& stream : choice.streams) {
    absl::StrAppend(&text, ", ws::TileStream<", stream.vector, ", ", stream.pack, ", ",
                    stream.offset, ", ", AxesText(stream.order), ", ", AxesText(stream.place),
                    stream.line > 0 ? StrCat(", ", stream.line, ", ", stream.unit) : "", ">");
  }
  return text;
}

std::string TileCopySource(const TileProblem& problem, const TileChoice& choice,
                           const std::string& name) {
  const char* const types[] = {"", "unsigned char",     "unsigned short", "", "unsigned", "", "",
                               "", "unsigned long long"};
  const std::string type = types[problem.write_bytes];
  const bool wide = Product(problem.extents) >= kMaxInt;
  std::string text = StrCat("#include <warpsmith/tile.cuh>\nstruct G_", name, " {\n");
  absl::StrAppend(&text, "  using Index = ", wide ? "long long" : "int",
                  ";\n  template <int S> using Element = ", type,
                  ";\n  template <int V> struct Staged { ", type, " s[", problem.inputs.size(),
                  "][V]; };\n  template <int S, int V> static WS_DEVICE ", type,
                  "(&of(Staged<V>& staged))[V] { return staged.s[S]; }\n");
  std::string parameters, members;
  for (size_t i = 0; i < problem.inputs.size(); ++i) {
    absl::StrAppend(&text, "  const ", type, "* x", i, ";\n");
    absl::StrAppend(&parameters, "const ", type, "* x", i, ", ");
    absl::StrAppend(&members, "x", i, ", ");
  }
  absl::StrAppend(&text, "  template <int S> WS_DEVICE const ", type, "* at(const Index (&c)[",
                  problem.extents.size(), "]) const {\n");
  for (size_t i = 0; i < problem.inputs.size(); ++i) {
    absl::StrAppend(&text, "    if constexpr (S == ", i, ") return x", i, " + (",
                    PositionText(problem.inputs[i]), ");\n");
  }
  absl::StrAppend(&text, "  }\n");
  absl::StrAppend(&text, "  ", type,
                  "* y;\n  template <int S, int V> WS_DEVICE void load(const Index (&c)[",
                  problem.extents.size(), "], ", type, " (&out)[V]) const {\n");
  for (size_t i = 0; i < problem.inputs.size(); ++i) {
    const TileInput& input = problem.inputs[i];
    const std::string at = PositionText(input);
    int64_t end = input.offset + 1;
    for (size_t d = 0; d < problem.extents.size(); ++d) {
      end += std::max<int64_t>(0, input.strides[d]) * (problem.extents[d] - 1);
    }
    absl::StrAppend(&text, "    if constexpr (S == ", i, ") ws::",
                    choice.streams[i].anywhere
                        ? StrCat("load_anywhere<V, ", type, ">(x", i, " + (", at, "), x", i,
                                 " + Index(", end, ")")
                        : StrCat("load<V, ", type, ", 0>(x", i, " + (", at, ")"),
                    ", out);\n");
  }
  absl::StrAppend(&text, "  }\n  template <int V> WS_DEVICE void emit(const Index (&)[",
                  problem.extents.size(), "], Index i, const Staged<V>& staged) const {\n    ",
                  type,
                  " sum[V];\n#pragma unroll\n    for (int v = 0; v < V; ++v) {\n      sum[v] = "
                  "staged.s[0][v];\n");
  for (size_t i = 1; i < problem.inputs.size(); ++i)
    absl::StrAppend(&text, "      sum[v] += staged.s[", i, "][v];\n");
  absl::StrAppend(&text, "    }\n    ws::store<V, ", type, ", 0>(y + i, sum);\n  }\n};\n");
  absl::StrAppend(&text, "extern \"C\" __global__ void __launch_bounds__(", choice.threads, ") ",
                  name, "(", parameters, type, "* y) {\n  ws::tile<G_", name, ", ",
                  TileArguments(choice), ">(G_", name, "{", members, "y});\n}\n");
  return text;
}

}  // namespace warpsmith::kernels
