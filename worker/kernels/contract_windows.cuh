// Skeleton contract, products with windows of an image (worker/codegen/skeleton/contract/windows.h): the image is written out once,
// channels innermost, and what its windows are multiplied with likewise; the copy engine brings windows of it (contract.cuh).
//
// In one part or two of fp16 all of the image is scaled by one power of two, which a sample says. Where that is too little or too
// much for some of it, all sums are made in fp32 (contract_rest). Windows that move an element at a time may have another image
// (contract_shifts.cuh).
#pragma once

#include <warpsmith/contract_shifts.cuh>

namespace ws {

// One of the image's axes: of a window's PLACES the first stands at row LOWER, the next STEP rows on; of its TAPS each row has
// TOGETHER, and the others' are so many rows on, APART a tap.
template <int PLACES, int TAPS, int TOGETHER, int STEP, int APART, int LOWER, int ROWS>
struct WindowAxis {
  static constexpr int kPlaces = PLACES, kTaps = TAPS, kTogether = TOGETHER, kSteps = TAPS / TOGETHER;
  static constexpr int kStep = STEP, kMove = APART * TOGETHER, kLower = LOWER, kRows = ROWS;
};

// What a row of the image has: CHANNELS of each of its taps, the innermost axis' last, LINE elements from a row to the next; of a
// batch's product the part that begins GROUP elements after the one before it. K is multiplied in steps of 64: those of a row, with
// zeros behind them, for each of the other taps.
template <int AXES, class Deep, class Down, class Across, int IMAGES, int CHANNELS, int LINE, int GROUP>
struct Window : NoShifts {
  static constexpr int kAxes = AXES, kChannels = CHANNELS, kLine = LINE, kGroup = GROUP, kImages = IMAGES;
  using W = Across;
  using H = Down;
  using D = Deep;
  static constexpr int kInner = D::kTogether * H::kTogether * W::kTogether * CHANNELS, kChunks = (kInner + 63) / 64;
  // Boxes bring 64 elements of a row, or 32 where that leaves less of a row's last one empty; two of these are a step, whatever
  // taps they are of.
  static constexpr int kUnit = (kInner + 31) / 32 % 2 == 1 ? 32 : 64;
  static constexpr int kOfTaps = (kInner + kUnit - 1) / kUnit * kUnit, kAllTaps = D::kSteps * H::kSteps * W::kSteps;
  static constexpr int kUnits = kAllTaps * kOfTaps / kUnit, kDepth = (kAllTaps * kOfTaps + 63) / 64 * 64;
  static constexpr long long kRows = (long long)(IMAGES) * D::kRows * H::kRows * W::kRows, kPart = kRows * LINE;
  static constexpr int kWritten = GROUP > 0 ? GROUP : LINE;   // elements of a row and a product, with zeros behind them
  // Where rows have few channels of several taps a thread writes a row, all of whose addresses differ by what the compiler knows;
  // else blocks turn rows' channels (of an H200, 64 channels of three taps, places 12 bytes apart, took twice as long by rows).
  static constexpr bool kByRows = kInner != CHANNELS && kWritten <= 256 && CHANNELS <= 32;
  static constexpr bool kStaged = kByRows && GROUP == 0 && kWritten <= 96;

  // The glue's k of one that is multiplied; -1: zeros.
  static WS_DEVICE int glue_k(int at) {
    int steps = at / kOfTaps, inner = at % kOfTaps;
    if (inner >= kInner || steps >= kAllTaps) return -1;
    const int channel = inner % CHANNELS;
    inner /= CHANNELS;
    const int w = steps % W::kSteps * W::kTogether + inner % W::kTogether;
    steps /= W::kSteps, inner /= W::kTogether;
    const int h = steps % H::kSteps * H::kTogether + inner % H::kTogether;
    steps /= H::kSteps, inner /= H::kTogether;
    return (((steps * D::kTogether + inner) * H::kTaps + h) * W::kTaps + w) * CHANNELS + channel;
  }

  // Where the glue's element of n and k is: its k as it is multiplied, and its place in the image, or -1 where it is outside.
  struct Place {
    int k;
    long long at;
  };
  static WS_DEVICE Place place(long long batch, long long n, int k) {
    const int channel = k % CHANNELS;
    k /= CHANNELS;
    const int w = k % W::kTaps, h = k / W::kTaps % H::kTaps, d = k / W::kTaps / H::kTaps;
    const int steps = (d / D::kTogether * H::kSteps + h / H::kTogether) * W::kSteps + w / W::kTogether;
    const int inner = ((d % D::kTogether * H::kTogether + h % H::kTogether) * W::kTogether + w % W::kTogether) * CHANNELS + channel;
    const int row_w = static_cast<int>(n % W::kPlaces) * W::kStep + W::kLower + w / W::kTogether * W::kMove;
    n /= W::kPlaces;
    const int row_h = static_cast<int>(n % H::kPlaces) * H::kStep + H::kLower + h / H::kTogether * H::kMove;
    n /= H::kPlaces;
    const int row_d = static_cast<int>(n % D::kPlaces) * D::kStep + D::kLower + d / D::kTogether * D::kMove;
    n /= D::kPlaces;
    const auto inside = [](int row, int rows) { return row >= 0 && row < rows; };
    Place place = {steps * kOfTaps + inner, -1};
    if (inside(row_w, W::kRows) && inside(row_h, H::kRows) && inside(row_d, D::kRows))
      place.at = (((n * D::kRows + row_d) * H::kRows + row_h) * W::kRows + row_w) * LINE + batch * GROUP + inner;
    return place;
  }
  // Where element `at` of row m is in what windows are multiplied with, [batch][part][row][kDepth]; `rows`: of a part.
  template <int PARTS>
  static WS_DEVICE long long at_weight(long long batch, long long m, long long rows, int part, int at) {
    return ((batch * PARTS + part) * rows + m) * kDepth + at;
  }
};
struct NoWindow : NoShifts {
  static constexpr int kAxes = 0, kUnit = 64;
};

// Elements of an image by which a scale for all of it is guessed, of a thread; those may be this much larger than the largest of
// them, and more are said to be too wide.
constexpr int kSampled = 8;
constexpr float kSampleRoom = 16;

// The largest of what a block's threads have. Shared memory: a word a warp.
WS_DEVICE float largest_of_block(float most) {
  float* const of_warp = reinterpret_cast<float*>(shared());
#pragma unroll
  for (int step = 16; step > 0; step /= 2) most = fmaxf(most, shuffle_xor(most, step));
  sync_block();
  if (thread() % 32 == 0) of_warp[thread() / 32] = most;
  sync_block();
#pragma unroll
  for (int w = 0; w < kPackThreads / 32; ++w) most = fmaxf(most, of_warp[w]);
  sync_block();
  return most;
}

// What a thread has seen of an image in PARTS of fp16: the largest, and how many lose digits of those that are not zero.
template <int PARTS>
struct ImageSpread {
  static constexpr float kLeast = PARTS == 2 ? 0x1p-5f : 0x1p-14f, kMost = 65504.0f;   // of those that keep them
  float most = 0;
  int lost = 0, counted = 0;
  int lost_here = 0, counted_here = 0;   // of elements near each other
  WS_DEVICE void see(float x) {
    most = greater_of(most, fabsf(x));
    if (x != 0) ++counted_here, lost_here += fabsf(x) < kLeast;
  }
  // Behind elements that lie near each other: most of some few are not lost by chance, but of a part that is small as a whole.
  WS_DEVICE void see_together() {
    if (lost_here >= 4 && 2 * lost_here > counted_here) most = bits_float(0x7f800000u);
    lost += lost_here, counted += counted_here;
    lost_here = counted_here = 0;
  }
  // The same with what three threads beside this one have seen, of all of a warp.
  WS_DEVICE void see_with_neighbours() {
    int all_lost = lost_here, all_counted = counted_here;
#pragma unroll
    for (int by = 1; by < 4; by *= 2) all_lost += shuffle_xor(all_lost, by), all_counted += shuffle_xor(all_counted, by);
    if (all_lost >= 4 && 2 * all_lost > all_counted) most = bits_float(0x7f800000u);
    see_together();
  }
  // Whether those of the block are too wide, as those of a row are (kind_of). Shared memory: two words a warp.
  WS_DEVICE bool is_wide_of_block() {
    const bool large = largest_of_block(most < kMost ? 0.0f : 1.0f) > 0;
    int* const sums = reinterpret_cast<int*>(shared());
#pragma unroll
    for (int step = 16; step > 0; step /= 2) lost += shuffle_xor(lost, step), counted += shuffle_xor(counted, step);
    if (thread() % 32 == 0) sums[thread() / 32 * 2] = lost, sums[thread() / 32 * 2 + 1] = counted;
    sync_block();
    long long all_lost = 0, all_counted = 0;
#pragma unroll
    for (int w = 0; w < kPackThreads / 32; ++w) all_lost += sums[2 * w], all_counted += sums[2 * w + 1];
    sync_block();
    return large || all_lost * 16 > all_counted;
  }
};

// The power of two for all of the glue's image, by a sample.
template <class G, class W>
WS_DEVICE RowScale scale_of_image(const G& g) {
  constexpr int V = G::kWidthImage;
  constexpr unsigned long long kAll = G::kBatch * W::kRows * W::kInner / V;
  float most = 0;
#pragma unroll
  for (int i = 0; i < kSampled; ++i) {
    const unsigned long long at = (i * kPackThreads + thread()) * 0x9e3779b97f4a7c15ull % kAll;
    typename G::Sum x[V];
    const long long row = static_cast<long long>(at / W::kInner % (W::kRows / V) * V);
    using Index = typename G::Index;
    g.template image<V>(Index(at / W::kInner / (W::kRows / V)), Index(row), Index(at % W::kInner), x);
#pragma unroll
    for (int v = 0; v < V; ++v) most = fmaxf(most, fabsf(static_cast<float>(x[v])));
  }
  return RowScale(largest_of_block(most) * kSampleRoom);
}

// Rows of the image, each by a thread: some elements at a time and those of the other taps with them, so that neighbouring rows, which
// read them too, find them in the cache. Where rows are short a warp's are put together in shared memory, and written as they lie.
template <class G, class W, class T, int PARTS, bool SCALED>
WS_DEVICE void pack_image_by_rows(const G& g, T* image, float up, ImageSpread<PARTS>& spread) {
  using Index = typename G::Index;
  static_assert(W::kWritten % 8 == 0, "whole words");
  constexpr bool kEven = W::kChannels % 8 == 0;
  constexpr int kTaps = kEven ? W::kInner / W::kChannels : 1, kApart = kEven ? W::kChannels : W::kInner;   // pieces from tap to tap
  constexpr int kPiece = kEven && W::kChannels % 16 == 0 ? 16 : 8;   // at a time: whole sectors, where rows are long
  constexpr int kOfTap = (kApart + 7) / 8 * 8, kWords = W::kWritten / 2, kPitch = kWords + 4;   // 16 bytes apart: no bank meets another
  constexpr long long kRows = G::kBatch * W::kRows;
  unsigned* const of_warp = reinterpret_cast<unsigned*>(shared()) + thread() / 32 * 32 * kPitch * PARTS;
  unsigned* const of_row = of_warp + thread() % 32 * kPitch;
  for (long long first = block() * kPackThreads + thread() / 32 * 32; first < kRows; first += blocks() * kPackThreads) {
    const long long at = first + thread() % 32, row = at % W::kRows, batch = at / W::kRows;
    const bool inside = at < kRows;
    T* const to = image + placed(row * W::kLine + batch * W::kGroup);
#pragma unroll
    for (int from = 0; from < kOfTap; from += kPiece) {
#pragma unroll
      for (int tap = 0; tap < kTaps; ++tap) {
        float x[kPiece];
#pragma unroll
        for (int i = 0; i < kPiece; ++i) {
          const int element = tap * kApart + from + i;
          typename G::Sum one[1] = {0};
          if (element < W::kInner && inside) g.template image<1>(Index(batch), Index(row), Index(element), one);
          x[i] = static_cast<float>(one[0]);
          if constexpr (SCALED) {
            x[i] *= up;
            spread.see(x[i]);
          }
        }
#pragma unroll
        for (int part = 0; part < PARTS; ++part) {
          unsigned words[kPiece / 8][4];
#pragma unroll
          for (int j = 0; j < kPiece / 2; ++j) {
            unsigned& both = words[j / 4][j % 4];
            both = pair_of<T>(x[2 * j], x[2 * j + 1]);
            x[2 * j] -= first_of<T>(both), x[2 * j + 1] -= second_of<T>(both);
          }
#pragma unroll
          for (int eight = 0; eight < kPiece / 8; ++eight) {
            const int element = tap * kApart + from + eight * 8;
            if constexpr (W::kStaged) store<4, unsigned, 0>(of_row + part * 32 * kPitch + element / 2, words[eight]);
            else if (inside) store<4, unsigned, 0>(reinterpret_cast<unsigned*>(to + part * W::kPart + element), words[eight]);
          }
        }
      }
    }
    spread.see_together();
#pragma unroll
    for (int element = kTaps * kOfTap; element < W::kWritten; element += 8) {
      const unsigned none[4] = {0, 0, 0, 0};
#pragma unroll
      for (int part = 0; part < PARTS; ++part) {
        if (inside) store<4, unsigned, 0>(reinterpret_cast<unsigned*>(to + part * W::kPart + element), none);
      }
    }
    if constexpr (W::kStaged) {
      constexpr int kPieces = kWords / 4;
      sync_warp();
      const long long rest = kRows - first;
      const int pieces = static_cast<int>(rest < 32 ? rest : 32) * kPieces;
#pragma unroll
      for (int part = 0; part < PARTS; ++part) {
        unsigned* const all = reinterpret_cast<unsigned*>(image + placed(part * W::kPart + first * W::kLine));
#pragma unroll 4
        for (int piece = thread() % 32; piece < pieces; piece += 32) {
          unsigned words[4];
          load<4, unsigned, 0>(of_warp + part * 32 * kPitch + piece / kPieces * kPitch + piece % kPieces * 4, words);
          store<4, unsigned, 0>(all + piece * 4, words);
        }
      }
      sync_warp();
    }
  }
}

// Likewise, a block turning 64 rows' 64 elements at a time. Shared memory: 64 x 33 words a part.
template <class G, class W, class T, int PARTS, bool SCALED>
WS_DEVICE void pack_image_by_tiles(const G& g, T* image, float up, ImageSpread<PARTS>& spread) {
  using Index = typename G::Index;
  using Sum = typename G::Sum;
  constexpr int V = G::kWidthImage, kTile = 64, kPitch = kTile / 2 + 1, kAcross = kTile / V, kEach = kTile / 2 * kAcross / kPackThreads;
  constexpr long long kTiles = (W::kRows + kTile - 1) / kTile, kJobs = G::kBatch * kTiles * W::kChunks;
  unsigned* const words = reinterpret_cast<unsigned*>(shared());   // of two elements of a row, [part][row][kPitch]
  for (long long job = block(); job < kJobs; job += blocks()) {
    const int chunk = static_cast<int>(job % W::kChunks);
    const long long first = job / W::kChunks % kTiles * kTile, batch = job / W::kChunks / kTiles;
    Sum x[kEach][2][V];
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int item = i * kPackThreads + thread(), element = chunk * kTile + item / kAcross * 2;
      const long long row = first + item % kAcross * V;
#pragma unroll
      for (int e = 0; e < 2; ++e) {
#pragma unroll
        for (int v = 0; v < V; ++v) x[i][e][v] = 0;
        if (row < W::kRows && element + e < W::kInner) g.template image<V>(Index(batch), Index(row), Index(element + e), x[i][e]);
      }
    }
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int item = i * kPackThreads + thread();
      unsigned* const to = words + item % kAcross * V * kPitch + item / kAcross;
#pragma unroll
      for (int v = 0; v < V; ++v) {
        float pair[2] = {static_cast<float>(x[i][0][v]), static_cast<float>(x[i][1][v])};
        if constexpr (SCALED) {
#pragma unroll
          for (int e = 0; e < 2; ++e) pair[e] *= up, spread.see(pair[e]);
        }
        const unsigned both = pair_of<T>(pair[0], pair[1]);
        to[v * kPitch] = both;
        if constexpr (PARTS == 2)
          to[(kTile + v) * kPitch] = pair_of<T>(pair[0] - first_of<T>(both), pair[1] - second_of<T>(both));
      }
    }
    spread.see_together();
    sync_block();
#pragma unroll
    for (int i = 0; i < PARTS * kTile * 8 / kPackThreads; ++i) {
      const int item = i * kPackThreads + thread(), part = item / (kTile * 8), row = item / 8 % kTile, eight = item % 8;
      const int element = chunk * kTile + eight * 8;
      if (first + row < W::kRows && element < W::kWritten) {
        unsigned eight_of[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) eight_of[j] = words[(part * kTile + row) * kPitch + eight * 4 + j];
        store<4, unsigned, 0>(reinterpret_cast<unsigned*>(image + placed(part * W::kPart + (first + row) * W::kLine + batch * W::kGroup + element)),
                              eight_of);
      }
    }
    sync_block();
  }
}

// The image of the glue's windows W, in PARTS of T: [part][row][LINE], or planes (Shifts); scaled by one power of two for all of it,
// which is left in `back`. True: some of the block's elements are too wide for that scale.
template <class G, class W, class T, int PARTS, bool SCALED>
WS_DEVICE bool pack_image(const G& g, T* image, float* back) {
  float up = 1;
  if constexpr (SCALED) {
    const RowScale scale = scale_of_image<G, W>(g);
    up = scale.up;
    if (block() == 0 && thread() == 0) back[0] = back_of(scale.back, kThinRow);
  }
  ImageSpread<PARTS> spread;
  if constexpr (W::kShifts) {
    W::template pack<G, T, SCALED>(g, image, up, spread);
  } else if constexpr (W::kByRows) {
    pack_image_by_rows<G, W, T, PARTS, SCALED>(g, image, up, spread);
  } else {
    pack_image_by_tiles<G, W, T, PARTS, SCALED>(g, image, up, spread);
  }
  return SCALED ? spread.is_wide_of_block() : false;
}

// What its windows are multiplied with, as W lays it out, a row by a warp.
template <class G, class W, class T, int PARTS, bool SCALED>
WS_DEVICE bool pack_weights(const G& g, T* parts, float* back) {
  using Index = typename G::Index;
  constexpr long long kRows = G::kBatch * G::kM, kAtOnce = kPackThreads / 32;
  static_assert(G::kWidthA == 1, "elements one by one");
  const int lane = thread() % 32;
  bool any = false;
  for (long long row = block() * kAtOnce + thread() / 32; row < kRows; row += blocks() * kAtOnce) {
    const Index batch = row / G::kM, m = row % G::kM;
    const auto to = [&](int part, int at) -> T& { return parts[placed(W::template at_weight<PARTS>(batch, m, G::kM, part, at))]; };
    const auto read = [&](int at) {
      typename G::Sum x[1] = {0};
      const int k = W::glue_k(at);
      if (k >= 0) g.template a<1>(batch, m, Index(k), x);
      return static_cast<float>(x[0]);
    };
    if constexpr (!SCALED) {
#pragma unroll 4
      for (int at = lane; at < W::kDepth; at += 32) to(0, at) = from_float<T>(read(at));
    } else {
      Spread spread = {0, 0, 0, 0};
#pragma unroll 4
      for (int at = lane; at < W::kDepth; at += 32) spread.see(read(at));
      spread = meet_row<32>(spread);
      const RowScale scale(spread.most);
      spread.begin_count();
#pragma unroll 4
      for (int at = lane; at < W::kDepth; at += 32) {
        T greater, lesser;
        part<PARTS>(read(at) * scale.up, greater, lesser, spread);
        to(0, at) = greater;
        if constexpr (PARTS == 2) to(1, at) = lesser;
      }
      const RowKind kind = kind_of(meet_row<32>(spread), W::kDepth);
      any = any || kind >= kWideRow;
      if (lane == 0) back[row] = back_of(scale.back, kind);
    }
  }
  return any;
}

// All blocks pack A, B or both, as contract_pack does. `wide` is 2 where the image is too wide, so that all sums are made in fp32.
// `order`: words, one for each of `rows`, that are zero for who multiplies.
template <class G, class W, class T, int PARTS, bool SCALED, bool A, bool B>
WS_DEVICE void contract_pack_windows(const G& g, T* a, float* back_a, T* b, float* back_b, int* wide, int* order = nullptr, int rows = 0) {
  if (block() == 0) {
    for (int i = thread(); i < rows; i += kPackThreads) order[i] = 0;
  }
  bool any = false, all = false;
  if constexpr (A) any = pack_weights<G, W, T, PARTS, SCALED>(g, a, back_a);
  if constexpr (B) all = pack_image<G, W, T, PARTS, SCALED>(g, b, back_b);
  if constexpr (SCALED) {
    any = any_of_block(any);
    if (thread() == 0) wide[block()] = all ? 2 : any;
    if (block() == 0 && thread() == 0) wide[blocks()] = 0;
  }
}

// The glue of windows and what they are multiplied with, for the plain main loop, as Packed is of others.
template <class G, class W, class T, int PARTS>
struct PackedWindows : G {
  using Sum = typename G::Sum;
  using Index = typename G::Index;
  const T* packed_a;
  const T* packed_b;
  WS_DEVICE PackedWindows(const G& g, const T* packed_a, const T* packed_b) : G(g), packed_a(packed_a), packed_b(packed_b) {}
  static WS_DEVICE Sum sum_of(const T* first, long long part) {
    return PARTS == 2 ? to_float(first[0]) + to_float(first[part]) : to_float(first[0]);
  }
  template <int V> WS_DEVICE void a(Index batch, Index m, Index k, Sum (&x)[V]) const {
    static_assert(V == 1, "elements one by one");
    const auto at = [&](int part) { return W::template at_weight<PARTS>(batch, m, G::kM, part, W::place(batch, 0, static_cast<int>(k)).k); };
    x[0] = sum_of(packed_a + at(0), at(1) - at(0));
  }
  template <int V> WS_DEVICE void b(Index batch, Index n, Index k, Sum (&x)[V]) const {
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const auto place = W::place(batch, n + (G::kAlongN ? v : 0), static_cast<int>(k + (G::kAlongN ? 0 : v)));
      x[v] = place.at < 0 ? 0 : sum_of(packed_b + place.at, W::kPart);
    }
  }
};

}  // namespace ws
