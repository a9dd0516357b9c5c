#include "worker/kernels/tile_layout.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>

#include "worker/kernels/tile_sample.h"
#include "worker/kernels/tile_walks.h"

namespace warpsmith::kernels {
namespace {

// Of a box, when passes are counted: warps, and accesses of each.
constexpr int kSampledWarps = 4, kSampledAccesses = 4;
constexpr int64_t kPads = 8;                       // that are tried between lines
constexpr int64_t kManyPasses = int64_t{1} << 40;  // more than any layout takes

// Numbers elements of a box in an order, axis `grouped` in groups.
struct BoxOrder {
  std::vector<int> order;
  std::vector<int64_t> tile;
  int grouped = -1, group = 1;

  int64_t Group(int d) const { return d == grouped ? group : 1; }
  int64_t Radix(int d) const { return CeilDiv(tile[d], Group(d)); }
  int64_t Count() const {
    int64_t count = 1;
    for (int d = 0; d < static_cast<int>(tile.size()); ++d) count *= Radix(d);
    return count;
  }
  BoxPlace At(int64_t number) const {
    BoxPlace x{};
    auto rest = static_cast<uint32_t>(number);  // half the time of 64 bits
    for (int d : order) {
      const auto radix = static_cast<uint32_t>(Radix(d));
      x[d] = static_cast<int32_t>(rest % radix) * static_cast<int32_t>(Group(d));
      rest /= radix;
    }
    return x;
  }
};

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

// Some warps' accesses of one side of a stream, each lane's `width` elements from a first one on.
class SideSample {
 public:
  // Of `warps` of them; a lane begins with number start(warp, lane) of `order`, if that is below
  // `end`.
  template <class Start>
  SideSample(const BoxOrder& order, int pack, int width, int64_t warps, int64_t end,
             const Start& start)
      : width_(width), warps_(warps), lanes_(static_cast<int>(order.tile.size()), pack) {
    const int64_t skip = std::max<int64_t>(1, warps / kSampledWarps);
    for (int64_t warp = 0; warp < warps; warp += skip, ++sampled_) {
      for (int v = 0; v < width; v += Stride()) {
        std::array<BoxPlace, kLanes> at;
        int lanes = 0;
        for (int64_t number; lanes < kLanes && (number = start(warp, lanes)) < end; ++lanes)
          at[lanes] = order.At(number + v);
        lanes_.Add(at, lanes);
      }
    }
  }
  // Passes of all accesses, where shared memory has `together` of the elements in one; `enough` or
  // more: at least so many.
  int64_t Passes(const TileStreamChoice& stream, int bytes, int together, int unit,
                 int64_t enough) const {
    if (sampled_ == 0) return 0;
    const int part = std::max(1, width_ / together / kSampledAccesses);
    const int64_t each = part * warps_;
    return lanes_.Passes(stream, bytes, together * unit, together * part / Stride(),
                         CeilDiv(enough * sampled_, each)) *
           each / sampled_;
  }

 private:
  // Of an access' elements, between those that are looked at. Powers of two.
  int Stride() const { return std::max(1, width_ / kSampledAccesses); }

  const int width_;
  const int64_t warps_;
  int64_t sampled_ = 0;
  LaneSample lanes_;
};

// Vectors one after the other.
SideSample VectorsOf(const BoxOrder& order, int pack, int width) {
  const int64_t vectors = order.Count() / width;
  return SideSample(order, pack, width, CeilDiv(vectors, kLanes), vectors * width,
                    [&](int64_t warp, int lane) { return (warp * kLanes + lane) * width; });
}

// An output whose lines begin anywhere, from single elements: the lanes of a warp are along one
// line, or along several beside each other (ws::TileConfig).
SideSample LinesOf(const BoxOrder& order, const TileChoice& choice) {
  const int rank = static_cast<int>(order.tile.size()), width = choice.write;
  int64_t line = 1;
  for (int d = rank - choice.run; d < rank; ++d) line *= order.tile[d];
  const int64_t inner = line / order.tile[rank - choice.run], lines = Product(order.tile) / line;
  const int64_t in_line = std::max<int64_t>(1, (line - choice.overlap * inner) / width);
  const int lanes = kLanes / choice.beside;
  const int64_t groups = CeilDiv(lines, int64_t{choice.beside} * width) * width;
  const int64_t items = choice.beside > 1 ? groups : lines, parts = CeilDiv(in_line, lanes);
  return SideSample(order, 1, width, items * parts, INT64_MAX, [&](int64_t number, int lane) {
    const int64_t item = number / parts, part = number % parts;
    const int64_t of = choice.beside > 1 ? item / width * choice.beside * width +
                                               lane / lanes * width + item % width
                                         : item;
    return std::min(of, lines - 1) * line +
           std::min(part * lanes + lane % lanes, in_line - 1) * width;
  });
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

}  // namespace

int64_t SharedElements(const TileStreamChoice& stream, const std::vector<int64_t>& tile) {
  const size_t last = tile.size() - 1;
  int64_t end = (tile[last] - 1) / stream.pack * stream.place[last] + stream.pack;
  for (size_t d = 0; d < last; ++d) end += (tile[d] - 1) * stream.place[d];
  return end;
}

int64_t PlaceVectors(const Side& side, const TileChoice& choice, TileStreamChoice& stream) {
  const std::vector<int64_t>& tile = choice.tile;
  const int write = choice.write;
  const int rank = static_cast<int>(tile.size()), last = rank - 1;
  const BoxOrder read{stream.order, tile, last, stream.pack};
  BoxOrder written{{}, tile, -1, 1};
  for (int d = last; d >= 0; --d) written.order.push_back(d);
  const BoxOrder words{written.order, tile, last, stream.pack};
  std::optional<WalkSample> walks;
  std::optional<SideSample> taken;
  if (choice.stride > 0) {
    walks.emplace(choice, stream.pack);
  } else {
    taken.emplace(VectorsOf(written, stream.pack, write));
  }
  const SideSample put_there = VectorsOf(read, stream.pack, stream.vector);
  stream.place.assign(rank, 1);
  TileStreamChoice best;
  int64_t fewest = kManyPasses;
  const auto consider = [&](const BoxOrder& order, int level, int64_t pad) {
    Place(order, stream.pack, level, pad, stream);
    const int put = Together(stream, tile, stream.order[0], stream.vector, stream.pack, side.bytes);
    int take = Together(stream, tile, last, write, 1, side.bytes);
    if (stream.pack > 1)
      take = tile[last] % write == 0 && write % stream.pack == 0 ? stream.pack : 1;
    int64_t passes = put_there.Passes(stream, side.bytes, put, stream.pack, fewest);
    passes += walks ? walks->Passes(stream, side.bytes, fewest - passes)
                    : taken->Passes(stream, side.bytes, take, 1, fewest - passes);
    if (passes < fewest) {
      fewest = passes;
      best = stream;
    }
  };
  for (const BoxOrder* order : {&read, &words}) {
    // Words that are taken as they are lie as they are read.
    if (order == &words && stream.pack > 1 && choice.stride == 0) continue;
    consider(*order, 0, 0);
    for (int level = 1; level < rank; ++level) {
      for (int64_t bytes : {1, 2, 3, 4, 8, 16}) {
        if (bytes < kWordBytes && (choice.stride == 0 || stream.pack > 1 || level > 2)) continue;
        const int64_t unit = int64_t{stream.pack} * side.bytes;
        if (bytes % unit == 0) consider(*order, level, bytes / side.bytes);
      }
    }
  }
  stream = best;
  return fewest;
}

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
  std::optional<WalkSample> walks;
  std::optional<SideSample> taken;
  if (choice.stride > 0) {
    walks.emplace(choice, stream.pack);
  } else {
    taken.emplace(choice.run > 0 ? LinesOf(written, choice) : VectorsOf(written, 1, choice.write));
  }
  TileStreamChoice best;
  int64_t fewest = kManyPasses;
  for (int64_t pad = 0; pad < kPads; ++pad) {
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
    int64_t passes =
        lines * ((line + 2 * (piece - 1)) / piece) * kPieceBytes / (kBanks * kWordBytes);
    passes += walks ? walks->Passes(stream, side.bytes, fewest - passes)
                    : taken->Passes(stream, side.bytes, std::min(stream.unit, choice.write), 1,
                                    fewest - passes);
    if (passes >= fewest) continue;
    fewest = passes;
    best = stream;
  }
  stream = best;
  return fewest;
}

int PackOf(const Side& side, const std::vector<int64_t>& tile, int vector, bool whole) {
  const int last = static_cast<int>(tile.size()) - 1, word = kWordBytes / side.bytes;
  if (side.bytes >= kWordBytes || tile[last] < word || (whole && tile[last] % word != 0)) return 1;
  int64_t before = 1;
  for (int d : side.order) {
    if (d == last) break;
    before *= tile[d];
  }
  return before > 1 && before % vector == 0 ? kWordBytes / side.bytes : 1;
}

}  // namespace warpsmith::kernels
