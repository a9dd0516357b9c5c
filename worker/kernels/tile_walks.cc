#include "worker/kernels/tile_walks.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "worker/kernels/numbers.h"
#include "worker/kernels/shared_banks.h"
#include "worker/kernels/tile_sides.h"

namespace warpsmith::kernels {
namespace {

// Instructions of a thread: to find where a walk begins, for each axis; and for a word of it, but
// for its elements' loads. Stores that go from line to line, beside each other, or to parts of
// sectors take memory longer.
constexpr double kOfWalk = 30, kOfAxis = 6, kOfWord = 9, kOfLine = 3, kOfParts = 6;
constexpr double kIssued = 4;      // warps' instructions a cycle
constexpr int64_t kLeastWalk = 3;  // words, for which walks are kept to whole sectors
constexpr int64_t kSampledWarps =
    2;  // when passes are counted, by a word's first and last elements

// Outputs from an index of the axis to the next.
int64_t Outputs(const TileChoice& choice, int axis) {
  return Product({choice.extents.begin() + axis + 1, choice.extents.end()});
}

}  // namespace

// The numbers that ws::TileWalks goes by.
struct Walks {
  int first = 0;
  int64_t inner = 1, line = 1, lines = 1, words = 1, lanes = kLanes, padded = 1, classes = 1;
  int64_t by = 1, most = 1, others = 1;
  bool along = false, sectors = false;

  explicit Walks(const TileChoice& choice) {
    const std::vector<int64_t>& tile = choice.tile;
    const int rank = static_cast<int>(tile.size());
    first = rank - choice.run;
    for (int d = first + 1; d < rank; ++d) inner *= tile[d];
    line = inner * tile[first];
    lines = Product(tile) / line;
    along = choice.repeat == first;
    const int64_t sector = int64_t{kSectorBytes} * choice.write / kWordBytes;
    sectors = choice.stride * Outputs(choice, choice.repeat) % sector == 0;
    const int64_t piece = sectors ? sector : choice.write;
    words = along ? choice.stride * inner / choice.write : (line + piece - 1) / choice.write;
    lanes = choice.beside == 1 ? 1 : kLanes / choice.beside;
    padded = RoundUp(words, lanes);
    classes = along ? 1 : choice.stride / choice.beside;
    by = int64_t{choice.stride} * (along ? choice.beside : 1);
    most = along ? CeilDiv(line + piece - 1, by * inner) : CeilDiv(tile[choice.repeat], by);
    others = along ? lines : lines / tile[choice.repeat];
  }
  int64_t Starts(int beside) const { return padded * beside * classes * others; }
};

namespace {

// What all threads take for walks in `chunks`.
double Instructions(const TileChoice& choice, const Walks& walks, int64_t chunks) {
  const int64_t each = CeilDiv(walks.most, chunks);
  const double word =
      kOfWord + choice.beside * ((walks.along ? 0 : kOfLine) + (walks.sectors ? 0 : kOfParts));
  const double one = kOfWalk + kOfAxis * static_cast<double>(choice.tile.size()) +
                     static_cast<double>(each) * word;
  return one * static_cast<double>(CeilDiv(walks.Starts(choice.beside) * chunks, choice.threads));
}

// Element `w` of the first word of a walk.
BoxPlace At(const TileChoice& choice, const Walks& walks, int64_t start, int w) {
  const int64_t word = choice.write, low = start % walks.lanes;
  int64_t rest = start / walks.lanes;
  const int64_t beside = rest % choice.beside;
  rest /= choice.beside;
  const int64_t at = rest % (walks.padded / walks.lanes) * walks.lanes + low;
  rest /= walks.padded / walks.lanes;
  int64_t of_class = rest % walks.classes, other = rest / walks.classes;
  if (choice.beside > 1)
    of_class = of_class / word * word * choice.beside + beside * word + of_class % word;
  int64_t number = std::min(at, walks.words - 1) * word + w;
  if (walks.along) number += beside * walks.words * word;
  BoxPlace x{};
  for (int d = static_cast<int>(choice.tile.size()) - 1; d >= 0; --d) {
    int64_t& from = d >= walks.first ? number : other;
    if (d == choice.repeat && !walks.along) {
      x[d] = static_cast<int32_t>(of_class);
    } else if (d == walks.first) {
      x[d] = static_cast<int32_t>(from);
    } else {
      x[d] = static_cast<int32_t>(from % choice.tile[d]);
      from /= choice.tile[d];
    }
  }
  return x;
}

}  // namespace

bool SetWalks(int axis, int beside, TileChoice& choice) {
  const int rank = static_cast<int>(choice.tile.size()), first = rank - choice.run;
  if (choice.run == 0 || axis > first) return false;
  const int64_t word = choice.write;
  choice.repeat = axis;
  choice.beside = beside;
  choice.chunks = 1;
  const int64_t outputs = Outputs(choice, axis), sector = kSectorBytes * word / kWordBytes;
  const auto steps = [&](int64_t piece) { return piece / std::gcd(piece, outputs); };
  if (axis == first) {
    const int64_t least = CeilDiv(kLanes / beside * word, outputs);
    const auto stride = [&](int64_t piece) { return RoundUp(least, steps(piece)); };
    choice.stride = static_cast<int>(stride(sector) * beside <= choice.tile[axis] ? stride(sector)
                                                                                  : stride(word));
  } else {
    const int64_t piece = choice.overlap > 0 ? choice.align : word;
    int64_t stride = std::max(steps(piece), beside > 1 ? beside * word : 1);
    if (steps(sector) * kLeastWalk <= choice.tile[axis]) stride = std::max(stride, steps(sector));
    choice.stride = static_cast<int>(stride);
  }
  const Walks walks(choice);
  if (choice.stride * (walks.along ? beside : 1) > choice.tile[axis] || walks.words == 0)
    return false;
  double fewest = 0;
  for (int64_t chunks = 1; chunks <= walks.most; ++chunks) {
    if (CeilDiv(walks.most, CeilDiv(walks.most, chunks)) != chunks) continue;
    const double instructions = Instructions(choice, walks, chunks);
    if (chunks > 1 && instructions >= fewest) continue;
    fewest = instructions;
    choice.chunks = static_cast<int>(chunks);
  }
  choice.walks = fewest * choice.threads / kLanes / kIssued;
  return true;
}

WalkSample::WalkSample(const TileChoice& choice, int pack)
    : elements_(Product(choice.tile)), lanes_(static_cast<int>(choice.tile.size()), pack) {
  const Walks walks(choice);
  const int64_t starts = walks.Starts(choice.beside), warps = CeilDiv(starts, kLanes);
  const int64_t step = std::max<int64_t>(1, warps / kSampledWarps);
  for (int64_t warp = 0; warp < warps; warp += step) {
    for (int w : {0, choice.write - 1}) {
      std::array<BoxPlace, kLanes> at;
      for (int lane = 0; lane < kLanes; ++lane)
        at[lane] = At(choice, walks, std::min(warp * kLanes + lane, starts - 1), w);
      lanes_.Add(at, kLanes);
    }
  }
}

int64_t WalkSample::Passes(const TileStreamChoice& stream, int bytes, int64_t enough) const {
  const int64_t each = elements_ / kLanes + 1, sampled = std::max<int64_t>(1, lanes_.accesses());
  return CeilDiv(lanes_.Passes(stream, bytes, 1, 1, CeilDiv(enough * sampled, each)) * each,
                 sampled);
}

}  // namespace warpsmith::kernels
