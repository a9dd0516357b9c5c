// Skeleton contract, convolutions by ordinary instructions, where channels and filters are too few for tensor cores, on any card
// and on the host: sums of products of windows of an image (contract_windows.cuh) with filters, in fp32.
//
// A block of 128 threads has a box of places of one image. What its windows have of some channels is brought into shared memory
// (once, where these are all), lines along the innermost axis; a thread has PLACES neighbours along that axis and FILTERS filters,
// so that an element that it reads is multiplied with as many filters and, where windows overlap, for as many places, from
// registers. Filters come some at a time, likewise.
#pragma once

#include <warpsmith/contract_windows.cuh>

namespace ws {

constexpr int kDirectThreads = 128;

// ACROSS x DOWN x DEEP threads along the axes of the window, innermost first; CHANNELS at a time, of which a thread has ON_THE_WAY
// elements on their way at once before there are sums.
template <class WINDOW, int FILTERS, int PLACES, int ACROSS, int DOWN, int CHANNELS, int ON_THE_WAY>
struct DirectConfig {
  using Window = WINDOW;
  static constexpr int kFilters = FILTERS, kPlaces = PLACES, kAcross = ACROSS, kDown = DOWN, kChannels = CHANNELS, kOnTheWay = ON_THE_WAY;
  static constexpr int kDeep = kDirectThreads / (ACROSS * DOWN);
};

// G: the glue (contract_plain.cuh), whose A are filters and whose image(b, row, k) is the image, element by element.
template <class G, class C>
struct DirectContract {
  using Index = typename G::Index;
  using Sum = typename G::Sum;
  using W = typename C::Window::W;
  using H = typename C::Window::H;
  using D = typename C::Window::D;
  static constexpr int kAllChannels = C::Window::kChannels, kTaps = D::kTaps * H::kTaps * W::kTaps;
  static_assert(W::kTogether * H::kTogether * D::kTogether == 1, "rows of the image are its elements");
  static_assert(sizeof(Sum) == 4, "shared memory is that of fp32");
  // Elements of a line that a thread multiplies, as vectors that it reads; and of a line and a channel in shared memory.
  static constexpr int kVectors = ((C::kPlaces - 1) * W::kStep + (W::kTaps - 1) * W::kMove + 1 + 3) / 4;
  static constexpr int kOfThread = C::kPlaces * W::kStep, kPitch = (C::kAcross - 1) * kOfThread + kVectors * 4;
  static_assert(kOfThread % 4 == 0 && C::kFilters % 4 == 0, "vectors are whole");
  static constexpr int kLinesDown = (C::kDown - 1) * H::kStep + (H::kTaps - 1) * H::kMove + 1;
  static constexpr int kLinesDeep = (C::kDeep - 1) * D::kStep + (D::kTaps - 1) * D::kMove + 1;
  static constexpr int kPlane = kLinesDown * kPitch, kChannel = kLinesDeep * kPlane;
  static constexpr int kImage = C::kChannels * kChannel, kWeights = C::kChannels * kTaps * C::kFilters;
  static constexpr int kPieces = (kAllChannels + C::kChannels - 1) / C::kChannels;   // of channels
  static constexpr int kTurns = (static_cast<int>(G::kM) + C::kFilters - 1) / C::kFilters;
  static constexpr int kTilesAcross = (W::kPlaces + C::kAcross * C::kPlaces - 1) / (C::kAcross * C::kPlaces);
  static constexpr int kTilesDown = (H::kPlaces + C::kDown - 1) / C::kDown, kTilesDeep = (D::kPlaces + C::kDeep - 1) / C::kDeep;
  static_assert(W::kPlaces % G::kWidth == 0 && C::kPlaces % G::kWidth == 0, "what is finished together lies in a line");

  const G& g;
  int batch, image, deep, down, across;   // of the block: its first place
  int z, y, x;                            // of the thread in the block

  WS_DEVICE DirectContract(const G& g, long long at) : g(g) {
    across = static_cast<int>(at % kTilesAcross) * C::kAcross * C::kPlaces;
    at /= kTilesAcross;
    down = static_cast<int>(at % kTilesDown) * C::kDown;
    at /= kTilesDown;
    deep = static_cast<int>(at % kTilesDeep) * C::kDeep;
    at /= kTilesDeep;
    image = static_cast<int>(at % C::Window::kImages);
    batch = static_cast<int>(at / C::Window::kImages);
    x = thread() % C::kAcross;
    y = thread() / C::kAcross % C::kDown;
    z = thread() / C::kAcross / C::kDown;
  }

  // Elements that a thread has on their way to shared memory: threads wait for all of them together. Where the image stays for all
  // filters there are no sums yet when it comes.
  static constexpr bool kStays = kPieces == 1;
  static constexpr int kOnTheWay = kStays ? C::kOnTheWay : 12;

  // to[i] = read(i).
  template <int COUNT, class Read>
  static WS_DEVICE void bring(Sum* to, Read&& read) {
    constexpr int kEachOf = (COUNT + kDirectThreads - 1) / kDirectThreads, kMost = kStays ? 16 : 8, kAtOnce = kEachOf < kMost ? kEachOf : kMost;
#pragma unroll 1
    for (int first = 0; first < COUNT; first += kAtOnce * kDirectThreads) {
      Sum x[kAtOnce];
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        const int i = first + j * kDirectThreads + thread();
        x[j] = i < COUNT ? read(i) : Sum(0);
      }
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        const int i = first + j * kDirectThreads + thread();
        if (i < COUNT) to[i] = x[j];
      }
    }
  }

  // How a line is brought: so many vectors, from the one that the line's first element is in, by neighbouring threads, of which
  // few have nothing to do; and vectors of a line, and lines, of a thread at once.
  static constexpr int V = G::kWidthImage, kShift = (W::kLower % V + V) % V, kOfLine = (kPitch + kShift + V - 1) / V;
  static WS_DEVICE constexpr int beside() {
    int lanes = 32;
    while (lanes > 8 / V && (kOfLine + lanes - 1) / lanes * lanes * 4 > kOfLine * 5) lanes /= 2;
    return lanes;
  }
  static constexpr int kBeside = beside(), kEach = (kOfLine + kBeside - 1) / kBeside;
  static constexpr int kOnce = kEach * V > kOnTheWay ? kOnTheWay / V : kEach;
  static constexpr int kLines = C::kChannels * kLinesDeep * kLinesDown, kDownAtOnce = kDirectThreads / kBeside;
  static constexpr int kLinesEach = (kLines + kDownAtOnce - 1) / kDownAtOnce, kLinesFit = kOnTheWay / (kOnce * V);
  static constexpr int kLinesOnce = kLinesEach < kLinesFit ? kLinesEach : kLinesFit;
  static_assert(W::kRows % V == 0 && C::kAcross * kOfThread % V == 0, "vectors lie within lines");

  // What the block's windows have of channels from `first` on, line by line; what is outside of the image is zero.
  WS_DEVICE void bring_image(int first, Sum* to) const {
    const int from_d = deep * D::kStep + D::kLower, from_h = down * H::kStep + H::kLower, from_w = across * W::kStep + W::kLower - kShift;
    const auto inside = [](int at, int rows) { return static_cast<unsigned>(at) < static_cast<unsigned>(rows); };
    const int lane = thread() % kBeside;
#pragma unroll 1
    for (int line = thread() / kBeside; line < kLines; line += kDownAtOnce * kLinesOnce) {
#pragma unroll 1
      for (int from = 0; from < kEach; from += kOnce) {
        Sum x[kLinesOnce][kOnce][V];
#pragma unroll
        for (int j = 0; j < kLinesOnce; ++j) {
          const int at = line + j * kDownAtOnce, h = from_h + at % kLinesDown, d = from_d + at / kLinesDown % kLinesDeep;
          const int channel = first + at / (kLinesDown * kLinesDeep);
          const bool is_line = at < kLines && channel < kAllChannels && inside(d, D::kRows) && inside(h, H::kRows);
          const Index row = ((Index(image) * D::kRows + d) * H::kRows + h) * W::kRows;
#pragma unroll
          for (int i = 0; i < kOnce; ++i) {
            const int w = from_w + (lane + (from + i) * kBeside) * V;
#pragma unroll
            for (int v = 0; v < V; ++v) x[j][i][v] = 0;
            if (is_line && inside(w, W::kRows)) g.template image<V>(Index(batch), row + w, Index(channel), x[j][i]);
          }
        }
#pragma unroll
        for (int j = 0; j < kLinesOnce; ++j) {
          const int at = line + j * kDownAtOnce;
          if (at >= kLines) continue;
#pragma unroll
          for (int i = 0; i < kOnce; ++i) {
            const int w = (lane + (from + i) * kBeside) * V - kShift;
            if constexpr (kShift == 0 && V == 4) {
              if (w < kPitch) store<4, Sum, 0>(to + at * kPitch + w, x[j][i]);
            } else {
#pragma unroll
              for (int v = 0; v < V; ++v) {
                if (inside(w + v, kPitch)) to[at * kPitch + w + v] = x[j][i][v];
              }
            }
          }
        }
      }
    }
  }

  // Filters from number `filter` on of channels from `first` on: [channel][tap][filter].
  WS_DEVICE void bring_weights(int filter, int first, Sum* to) const {
    bring<kWeights>(to, [&](int i) {
      const int m = filter + i % C::kFilters, tap = i / C::kFilters % kTaps, channel = first + i / C::kFilters / kTaps;
      Sum one[1] = {0};
      if (m < static_cast<int>(G::kM) && channel < kAllChannels)
        g.template a<1>(Index(batch), Index(m), Index(tap * kAllChannels + channel), one);
      return one[0];
    });
  }

  WS_DEVICE void multiply(const Sum* image_at, const Sum* weights, Sum (&sums)[C::kFilters][C::kPlaces]) const {
    const Sum* own = image_at + z * D::kStep * kPlane + y * H::kStep * kPitch + x * kOfThread;
    const Sum* by = weights;
#pragma unroll 1
    for (int channel = 0; channel < C::kChannels; ++channel, own += kChannel) {
      const Sum* from = own;
      int down = 0;
#pragma unroll 1
      for (int line = 0; line < D::kTaps * H::kTaps; ++line, by += W::kTaps * C::kFilters) {
        Sum element[kVectors][4];
#pragma unroll
        for (int v = 0; v < kVectors; ++v) load<4, Sum, 0>(from + v * 4, element[v]);
#pragma unroll
        for (int tap = 0; tap < W::kTaps; ++tap) {
#pragma unroll
          for (int filters = 0; filters < C::kFilters; filters += 4) {
            Sum weight[4];
            load<4, Sum, 0>(by + tap * C::kFilters + filters, weight);
#pragma unroll
            for (int f = 0; f < 4; ++f) {
#pragma unroll
              for (int p = 0; p < C::kPlaces; ++p) {
                const int at = p * W::kStep + tap * W::kMove;
                sums[filters + f][p] = plus(sums[filters + f][p], times(weight[f], element[at / 4][at % 4]));
              }
            }
          }
        }
        from += H::kMove * kPitch;
        if (++down == H::kTaps) down = 0, from += D::kMove * kPlane - H::kTaps * H::kMove * kPitch;
      }
    }
  }

  WS_DEVICE void finish(int filter, const Sum (&sums)[C::kFilters][C::kPlaces]) const {
    constexpr int V = G::kWidth;
    const int w = across + x * C::kPlaces, h = down + y, d = deep + z;
    if (h >= H::kPlaces || d >= D::kPlaces) return;
    const Index n = ((Index(image) * D::kPlaces + d) * H::kPlaces + h) * W::kPlaces + w;
#pragma unroll
    for (int f = 0; f < C::kFilters; ++f) {
      if (G::kM % C::kFilters != 0 && filter + f >= static_cast<int>(G::kM)) continue;
#pragma unroll
      for (int p = 0; p < C::kPlaces; p += V) {
        if (w + p >= W::kPlaces) continue;
        Sum done[V];
#pragma unroll
        for (int v = 0; v < V; ++v) done[v] = sums[f][p + v];
        g.template finish<V>(Index(batch), Index(filter + f), n + p, done);
      }
    }
  }

  // All threads of the block.
  WS_DEVICE void run() const {
    Sum* const image_at = reinterpret_cast<Sum*>(shared());
    Sum* const weights = image_at + kImage;
    if constexpr (kStays) bring_image(0, image_at);
#pragma unroll 1
    for (int turn = 0; turn < kTurns; ++turn) {
      if constexpr (kStays) {
        if (turn > 0) sync_block();   // what is there has been read
        bring_weights(turn * C::kFilters, 0, weights);
        sync_block();
      }
      Sum sums[C::kFilters][C::kPlaces];
#pragma unroll
      for (int f = 0; f < C::kFilters; ++f) {
#pragma unroll
        for (int p = 0; p < C::kPlaces; ++p) sums[f][p] = 0;
      }
#pragma unroll 1
      for (int piece = 0; piece < kPieces; ++piece) {
        if constexpr (!kStays) {
          if (turn > 0 || piece > 0) sync_block();
          bring_image(piece * C::kChannels, image_at);
          bring_weights(turn * C::kFilters, piece * C::kChannels, weights);
          sync_block();
        }
        multiply(image_at, weights, sums);
      }
      finish(turn * C::kFilters, sums);
    }
  }
};

template <class G, class C>
WS_DEVICE void contract_direct(const G& g) {
  DirectContract<G, C>(g, block()).run();
}

}  // namespace ws
