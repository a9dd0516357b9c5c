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
constexpr int kSampledWarps = 8;  // of a box, when passes are counted

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

  int64_t Radix(int d) const { return d == grouped ? tile[d] / group : tile[d]; }
  void At(int64_t number, std::array<int64_t, kMaxTileRank>& x) const {
    for (int d : order) {
      x[d] = number % Radix(d);
      number /= Radix(d);
      if (d == grouped) x[d] *= group;
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
    // Without words of neighbours each element goes through shared memory alone.
    const bool input = &side != &sides.back();
    if (input && side.bytes < kWordBytes && PackOf(side, tile, access / side.bytes) == 1)
      score *= 0.7;
  }
  return score;
}

// The best of boxes with lines from a quarter as long as wanted to as long as a box holds: where an
// axis of few elements ends a line, all lines of a box are one run of memory.
std::vector<int64_t> ChooseBox(const TileProblem& problem, const TileKnobs& knobs,
                               const std::vector<Side>& sides) {
  int bytes = 0;
  for (const TileInput& input : problem.inputs) bytes += input.bytes;
  std::vector<int64_t> best(problem.extents.size(), 1);
  double best_score = -1;
  const int64_t longest = std::max(4 * knobs.line_bytes, knobs.box_bytes);
  for (int64_t in = knobs.line_bytes / 4; in <= longest; in *= 2) {
    for (int64_t out = knobs.line_bytes / 4; out <= longest; out *= 2) {
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

  TileChoice choice;
  choice.threads = knobs.threads;
  choice.extents = problem.extents;
  choice.tile = ChooseBox(problem, knobs, sides);
  choice.write = VectorOf(problem.extents, output, choice.tile, knobs.vector_bytes);
  // Stores that begin between two sectors of memory leave both half written.
  const int wide = problem.write_bytes < kWordBytes
                       ? kWordBytes / problem.write_bytes
                       : std::max(1, knobs.vector_bytes / problem.write_bytes);
  if (knobs.anywhere && choice.write < wide &&
      LineOf(output, choice.tile, problem.extents) >= int64_t{kMinVectorsOfLine} * wide) {
    choice.write = wide;
    for (int d = rank - 1; d >= 0; --d) {
      choice.run = rank - d;
      if (choice.tile[d] < problem.extents[d]) break;
    }
  }
  choice.raster = knobs.raster_input ? sides[0].order : output.order;
  choice.boxes = 1;
  for (int d = 0; d < rank; ++d) choice.boxes *= CeilDiv(problem.extents[d], choice.tile[d]);
  choice.covered = static_cast<double>(choice.boxes) * static_cast<double>(Product(choice.tile)) /
                   static_cast<double>(Product(problem.extents));
  for (size_t i = 0; i < problem.inputs.size(); ++i) {
    TileStreamChoice stream;
    stream.order = sides[i].order;
    stream.vector = VectorOf(problem.extents, sides[i], choice.tile, knobs.vector_bytes);
    if (knobs.anywhere && stream.vector * sides[i].bytes < kWordBytes &&
        LineOf(sides[i], choice.tile, problem.extents) % (kWordBytes / sides[i].bytes) == 0) {
      stream.vector = kWordBytes / sides[i].bytes;
      stream.anywhere = true;
    }
    stream.pack = PackOf(sides[i], choice.tile, stream.vector);
    stream.offset = choice.shared_bytes;
    choice.passes += PlaceStream(sides[i], choice.tile, choice.write, stream);
    const int64_t bytes = SharedElements(stream, choice.tile) * sides[i].bytes;
    choice.fewest_passes += CeilDiv(2 * Product(choice.tile) * sides[i].bytes, kBanks * kWordBytes);
    choice.shared_bytes += static_cast<int>(RoundUp(bytes, 16));
    choice.streams.push_back(std::move(stream));
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
}  // namespace

std::string TileArguments(const TileChoice& choice) {
  std::string text =
      StrCat("ws::TileConfig<", choice.threads, ", ", choice.write, ", ", AxesText(choice.extents),
             ", ", AxesText(choice.tile), ", ", AxesText(choice.raster),
             choice.run > 0 ? StrCat(", ", choice.run) : "", ">");
  for (const TileStreamChoice& stream : choice.streams) {
    absl::StrAppend(&text, ", ws::TileStream<", stream.vector, ", ", stream.pack, ", ",
                    stream.offset, ", ", AxesText(stream.order), ", ", AxesText(stream.place), ">");
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
  absl::StrAppend(&text, "  ", type,
                  "* y;\n  template <int S, int V> WS_DEVICE void load(const Index (&c)[",
                  problem.extents.size(), "], ", type, " (&out)[V]) const {\n");
  for (size_t i = 0; i < problem.inputs.size(); ++i) {
    const TileInput& input = problem.inputs[i];
    std::string at = StrCat("Index(", input.offset, ")");
    int64_t end = input.offset + 1;
    for (size_t d = 0; d < problem.extents.size(); ++d) {
      absl::StrAppend(&at, " + c[", d, "] * Index(", input.strides[d], ")");
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
