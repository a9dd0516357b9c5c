// Attention on tensor cores: softmax(scores of Q and K) V without the scores in memory, forward. A block's groups of four
// warps have 64 queries each; one thread brings their queries, and keys and values by steps, with the copy engine. Scores and
// weights stay in registers, and a group's softmax is made while another group multiplies (Dao, FlashAttention-2, 2023; Shah
// and others, FlashAttention-3, 2024; sums that are rescaled on the way: Milakov and Gimelshein, 2018).
//
// C, a configuration:
//   Type              hopper::Bf16 or hopper::Fp16, of Q, K, V and the weights; Element: as it is in memory
//   kBatch, kQueries, kKeys   of each of the batch so many; positions fit an int
//   kHead, kHeadV     elements of a query and key, and of a value, multiples of 8; at most 256. What is behind them in a box is 0
//   kTileQ, kTileK    queries of a block, 64 a group; keys of a step
//   kStages           steps of keys, and of values, that are on the way or in use
//   kSplit            blocks that share the keys of a tile; where there are several they have one tile
//   kMeet             whether these are a cluster, and meet in its shared memory; else what they have goes to memory, and
//                     attend_combine finishes it
//   kSection          of the batch, so many are worked on side by side: their keys and values stay in the second-level cache
//   kOnce             whether a block reads keys and values that no other does
//   kLaterLonger      whether later queries attend to more keys: they come first
//   Glue              what is attended to, and where:
//     int at_q(b), at_k(b), at_v(b), at_out(b)   third coordinates in the maps of Q, K, V and the result
//     AttendKeys keys(b, q, end), clear(b, q, end)   that any of these queries attends to, at most kKeys; that all of them do
//     bool seen(b, q, k)             asked for the other ones
//     static constexpr bool kPlain   scores are multiplied by kScale and nothing else becomes of them
//     static constexpr float kScale  positive; of plain scores, in units of log2
//     void score(b, q, k, s[kTogether])   makes others, of neighbouring keys, of products; places are inside
//     static constexpr bool kOrZero  whether queries that attend to nothing get 0; else NaN
//     static constexpr bool kNoNan   whether queries get 0 that attend to nothing, or to a score that is NaN or infinite
#pragma once

#include <warpsmith/contract_pack.cuh>
#include <warpsmith/wgmma.cuh>

namespace ws {

struct AttendKeys {
  int from, to;
};

template <class C>
struct Attend {
  using Barrier = hopper::Barrier;
  using Glue = typename C::Glue;
  static constexpr int kGroups = C::kTileQ / 64, kThreads = 128 * (kGroups + 1);
  static constexpr int kBoxes = (C::kHead + 63) / 64, kBoxesV = (C::kHeadV + 63) / 64;   // of 128 bytes of a row
  static constexpr int kColumnsV = kBoxesV * 64;
  static constexpr int kBytesQ = kBoxes * C::kTileQ * hopper::kRowBytes, kBytesK = kBoxes * C::kTileK * hopper::kRowBytes;
  static constexpr int kBytesV = kBoxesV * C::kTileK * hopper::kRowBytes, kBytesO = kBoxesV * C::kTileQ * hopper::kRowBytes;
  // Where there is no room beside them results take their queries' place.
  static constexpr int kBytesSteps = C::kStages * (kBytesK + kBytesV), kBytesBarriers = (4 * C::kStages + 4) * sizeof(Barrier);
  static constexpr int kBytesRest = 1024 + kBytesSteps + kBytesBarriers, kShared = 232448;
  static constexpr bool kInPlace = kBoxesV <= kBoxes && kBytesQ + kBytesO + kBytesRest > kShared;
  // Queries of the next tile come while a tile is attended to, where there is room for them.
  static constexpr int kTurnsQ = kInPlace || C::kSplit > 1 || 2 * kBytesQ + kBytesO + kBytesRest > kShared ? 1 : 2;
  static constexpr int kSharedBytes = kTurnsQ * kBytesQ + (kInPlace ? 0 : kBytesO) + kBytesRest;
  // Of a thread; together no more than the block was launched with. One group has all it can use.
  static constexpr int kRegistersLaunched = 65536 / kThreads / 8 * 8, kRegistersBringing = kGroups == 3 ? 32 : 24;
  static constexpr int kRegistersAttending = (kRegistersLaunched * (kGroups + 1) - kRegistersBringing) / kGroups / 8 * 8;

  // A ring of steps: where one is, and the parity of the phase in which its barriers are.
  template <int N>
  struct RingOf {
    int stage = 0;
    unsigned parity = 0;
    WS_DEVICE void next() {
      if (++stage == N) stage = 0, parity ^= 1;
    }
  };
  using Ring = RingOf<C::kStages>;

  static constexpr bool kMeets = C::kSplit > 1 && C::kMeet;
  float* const left;     // what blocks that share a tile leave in memory
  int shared_tile = 0;   // that they share
  unsigned char *queries, *results, *keys, *values;
  Barrier *full_q, *empty_q, *full_k, *empty_k, *full_v, *empty_v;

  WS_DEVICE explicit Attend(float* left) : left(left) {
    if (C::kSplit > 1) shared_tile = blockIdx.x / C::kSplit;
    unsigned char* const all = reinterpret_cast<unsigned char*>(shared());
    queries = all + (1024 - hopper::shared_address(all) % 1024) % 1024;
    results = kInPlace ? queries : queries + kTurnsQ * kBytesQ;
    keys = results + (kInPlace ? kBytesQ : kBytesO);
    values = keys + C::kStages * kBytesK;
    full_q = reinterpret_cast<Barrier*>(values + C::kStages * kBytesV);
    empty_q = full_q + kTurnsQ;
    full_k = empty_q + kTurnsQ;
    empty_k = full_k + C::kStages;
    full_v = empty_k + C::kStages;
    empty_v = full_v + C::kStages;
  }

  WS_DEVICE void begin() {
    if (threadIdx.x == 0) {
      for (int t = 0; t < kTurnsQ; ++t) {
        hopper::init(full_q[t], 1);
        hopper::init(empty_q[t], kGroups);
      }
      for (int s = 0; s < C::kStages; ++s) {
        hopper::init(full_k[s], 1);
        hopper::init(full_v[s], 1);
        hopper::init(empty_k[s], kGroups);
        hopper::init(empty_v[s], kGroups);
      }
      hopper::init_done();
    }
    hopper::fence_async();
    __syncthreads();
  }

  // ---- tiles

  static constexpr int kTilesOfOne = (C::kQueries + C::kTileQ - 1) / C::kTileQ, kTiles = kTilesOfOne * C::kBatch;
  struct Tile {
    int batch, query, end;   // its first query, and behind its last
  };
  // In the order in which blocks take them.
  static WS_DEVICE constexpr Tile tile_at(int at) {
    const int section = at / kOfSection, within = at % kOfSection;
    const int left = C::kBatch - section * C::kSection, width = left < C::kSection ? left : C::kSection;
    const int tile = C::kLaterLonger ? kTilesOfOne - 1 - within / width : within / width;
    const int query = tile * C::kTileQ, end = query + C::kTileQ;
    return {section * C::kSection + within % width, query, end < C::kQueries ? end : static_cast<int>(C::kQueries)};
  }
  // Of the blocks that share a tile.
  static WS_DEVICE int rank() { return C::kMeet ? cluster_rank() : static_cast<int>(blockIdx.x % C::kSplit); }
  // Blocks take tiles in rounds. Where later tiles are longer and a section's fill its rounds, sections have rounds of their own,
  // every other one of which goes the other way, so that all blocks have the same to do: of 16 heads with 8 at a time the most is
  // 1.00 of the mean, 1.45 else. Blocks that share a tile have one.
  static constexpr int kOfSection = kTilesOfOne * C::kSection;
  static WS_DEVICE constexpr int rounds_of_section(int blocks) { return (kOfSection + blocks - 1) / blocks; }
  static WS_DEVICE constexpr bool by_section(int blocks) {
    return C::kLaterLonger && C::kSplit == 1 && rounds_of_section(blocks) * blocks - kOfSection <= kOfSection / 16;
  }
  static WS_DEVICE constexpr int rounds(int blocks) {
    return by_section(blocks) ? (C::kBatch + C::kSection - 1) / C::kSection * rounds_of_section(blocks) : (kTiles + blocks - 1) / blocks;
  }
  // Of one of `blocks` in a round; kTiles where it has none.
  static WS_DEVICE constexpr int tile_of(int round, int block, int blocks) {
    if (!by_section(blocks)) return round * blocks + block < kTiles ? round * blocks + block : kTiles;
    const int section = round / rounds_of_section(blocks), of_section = round % rounds_of_section(blocks);
    const int within = of_section * blocks + (round % 2 != 0 ? blocks - 1 - block : block);
    const int at = section * kOfSection + within;
    return within < kOfSection && at < kTiles ? at : kTiles;
  }
  struct Steps {
    int first, end;
  };
  static WS_DEVICE Steps steps_of(AttendKeys keys) {
    const int first = keys.from / C::kTileK, end = (keys.to + C::kTileK - 1) / C::kTileK;
    if constexpr (C::kSplit == 1) return {first, end};
    const int each = end > first ? (end - first + C::kSplit - 1) / C::kSplit : 0, from = first + rank() * each;
    return {from, from + each < end ? from + each : end};
  }

  // ---- bringing

  // One thread. Steps go from the last to the first: those with masks, and ragged ones, come first.
  WS_DEVICE void bring(const Glue& g, const hopper::Map& q, const hopper::Map& k, const hopper::Map& v) {
    hopper::prefetch(q);
    hopper::prefetch(k);
    hopper::prefetch(v);
    Ring ring;
    RingOf<kTurnsQ> turn;
    const int block = blockIdx.x / C::kSplit, blocks = gridDim.x / C::kSplit;
    for (int round = 0; round < rounds(blocks); ++round) {
      const int at = tile_of(round, block, blocks);
      if (at == kTiles) continue;
      const Tile tile = tile_at(at);
      const Steps steps = steps_of(g.keys(tile.batch, tile.query, tile.end));
      if (steps.first >= steps.end) {
        if constexpr (kInPlace) {   // the tile's results take the place all the same
          hopper::wait(empty_q[turn.stage], turn.parity ^ 1, "empty_q", turn.stage);
          hopper::arrive(full_q[turn.stage]);
          turn.next();
        }
        continue;
      }
      const int of_k = g.at_k(tile.batch), of_v = g.at_v(tile.batch);
#pragma unroll 1
      for (int step = steps.end - 1; step >= steps.first; --step, ring.next()) {
        hopper::wait(empty_k[ring.stage], ring.parity ^ 1, "empty_k", ring.stage);
        hopper::arrive_expecting(full_k[ring.stage], kBytesK);
#pragma unroll
        for (int i = 0; i < kBoxes; ++i) {
          hopper::load_box<C::kOnce>(keys + ring.stage * kBytesK + i * C::kTileK * hopper::kRowBytes, k, full_k[ring.stage], i * 64,
                           step * C::kTileK, of_k);
        }
        if (step == steps.end - 1) {   // behind the first keys: their place is free before that of the last tile's queries
          hopper::wait(empty_q[turn.stage], turn.parity ^ 1, "empty_q", turn.stage);
          hopper::arrive_expecting(full_q[turn.stage], kBytesQ);
#pragma unroll
          for (int i = 0; i < kBoxes; ++i) {
            hopper::load_box(queries + turn.stage * kBytesQ + i * C::kTileQ * hopper::kRowBytes, q, full_q[turn.stage], i * 64,
                             tile.query, g.at_q(tile.batch));
          }
          turn.next();
        }
        hopper::wait(empty_v[ring.stage], ring.parity ^ 1, "empty_v", ring.stage);
        hopper::arrive_expecting(full_v[ring.stage], kBytesV);
#pragma unroll
        for (int i = 0; i < kBoxesV; ++i) {
          hopper::load_box<C::kOnce>(values + ring.stage * kBytesV + i * C::kTileK * hopper::kRowBytes, v, full_v[ring.stage], i * 64,
                           step * C::kTileK, of_v);
        }
      }
    }
  }

  // ---- attending

  using Scores = float[C::kTileK / 2];
  using Weights = unsigned[C::kTileK / 16][4];
  using Sums = float[kColumnsV / 2];

  // Which group may multiply: the others soften their scores meanwhile.
  static WS_DEVICE void await_turn(int group) {
    if constexpr (kGroups > 1) hopper::group_sync(1 + group, 256);
  }
  static WS_DEVICE void pass_turn(int group) {
    if constexpr (kGroups > 1) hopper::group_arrive(1 + (group + 1 == kGroups ? 0 : group + 1), 256);
  }
  static WS_DEVICE void release(Barrier& barrier) {
    if (threadIdx.x % 128 == 0) hopper::arrive(barrier);
  }

  WS_DEVICE void multiply_keys(int group, int turn, int stage, Scores& scores) const {
    const unsigned long long q = hopper::operand(queries + group * 64 * hopper::kRowBytes, hopper::kPatternBytes, 16) +
                                 static_cast<unsigned>(turn) * (kBytesQ >> 4);
    const unsigned long long k = hopper::operand(keys, hopper::kPatternBytes, 16) + static_cast<unsigned>(stage) * (kBytesK >> 4);
#pragma unroll
    for (int i = 0; i < (C::kHead + 15) / 16; ++i) {
      const int within = i % 4 * hopper::kProductBytes;
      hopper::Product<typename C::Type, C::kTileK, 0, 0>::run(
          scores, q + ((i / 4 * C::kTileQ * hopper::kRowBytes + within) >> 4), k + ((i / 4 * C::kTileK * hopper::kRowBytes + within) >> 4), i > 0);
    }
    hopper::products_commit();
  }

  WS_DEVICE void multiply_values(int stage, const Weights& weights, Sums& sums, bool add) const {
    const unsigned long long v = hopper::operand(values, hopper::kPatternBytes, C::kTileK * hopper::kRowBytes) +
                                 static_cast<unsigned>(stage) * (kBytesV >> 4);
#pragma unroll
    for (int i = 0; i < C::kTileK / 16; ++i) {
      hopper::ProductOfRegisters<typename C::Type, kColumnsV, 1>::run(sums, weights[i], v + i * (2 * hopper::kPatternBytes >> 4), add || i > 0);
    }
    hopper::products_commit();
  }

  template <int N>
  static WS_DEVICE void had(float (&values)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i) asm volatile("" : "+f"(values[i])::"memory");
  }

  // Of a thread's two rows; the second is one of eight further on, where there may be none.
  static constexpr int kRows = C::kQueries <= 8 && C::kSplit > 1 ? 1 : 2;
  static WS_DEVICE constexpr bool used(int i) { return i / 2 % 2 < kRows; }

  static WS_DEVICE float unseen() { return bits_float(0xff800000u); }   // less than any score

  // What is seen of a step's scores, and what the glue makes of them.
  static WS_DEVICE void treat(const Glue& g, const Tile& tile, AttendKeys clear, int group, int step, Scores& scores) {
    const int first = step * C::kTileK;
    const bool whole = first >= clear.from && first + C::kTileK <= clear.to && (Glue::kPlain || tile.end - tile.query == C::kTileQ);
    if (!whole) treat_each<false>(g, tile, group, first, scores);
    else if (!Glue::kPlain) treat_each<true>(g, tile, group, first, scores);
  }
  // WHOLE: all are seen, and of queries and keys that are there. In place of others the last ones are asked for: a branch round
  // what a score reads would have each of them wait for memory by itself.
  template <bool WHOLE>
  static WS_DEVICE void treat_each(const Glue& g, const Tile& tile, int group, int first, Scores& scores) {
    constexpr int kTogether = Glue::kTogether;   // 1 or 2: a thread's neighbours
    const hopper::Place place = hopper::place(threadIdx.x % 128, 0);
    const int query = tile.query + group * 64 + place.row, key = first + place.column;
#pragma unroll
    for (int i = 0; i < C::kTileK / 2; i += kTogether) {
      const int q = query + i / 2 % 2 * 8, k = key + i / 4 * 8 + i % 2;
      if (!Glue::kPlain) {
        float s[kTogether];
#pragma unroll
        for (int j = 0; j < kTogether; ++j) s[j] = scores[i + j];
        if (WHOLE) g.score(tile.batch, q, k, s);
        else g.score(tile.batch, minimum(q, C::kQueries - 1), minimum(k, C::kKeys - kTogether), s);
#pragma unroll
        for (int j = 0; j < kTogether; ++j) scores[i + j] = s[j];
      }
#pragma unroll
      for (int j = 0; j < kTogether; ++j) {
        if (!WHOLE && (k + j >= C::kKeys || !g.seen(tile.batch, q, k + j))) scores[i + j] = unseen();
      }
    }
  }

  struct Rows {
    float most[2];   // of a row's scores
    float base[2];   // the same, of plain scores in units of log2, rounded: what all weights are made with
    float sum[2];    // of this thread's weights of it
  };
  // The weight of a score so far from the base. Scores that are made may be as large as floats are (masks with the least of
  // them): in units of log2 they would be infinite, their difference is not.
  static WS_DEVICE float weight(float difference) {
    return Glue::kPlain ? fast_exp2(difference) : fast_exp(difference);
  }
  // Makes weights of scores; what sums of before are to be multiplied by.
  template <bool FIRST>
  static WS_DEVICE void soften(Scores& scores, Rows& rows, float (&factor)[2]) {
    const float scale = Glue::kScale;
    float most[2] = {scores[0], scores[2]};
#pragma unroll
    for (int i = 0; i < C::kTileK / 2; ++i) {
      if (used(i)) most[i / 2 % 2] = fmaxf(most[i / 2 % 2], scores[i]);
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      most[r] = fmaxf(most[r], shuffle_xor(most[r], 1));
      most[r] = fmaxf(most[r], shuffle_xor(most[r], 2));
      if (!FIRST) most[r] = fmaxf(most[r], rows.most[r]);
      const float base = most[r] == unseen() ? 0.0f : most[r] * scale;
      factor[r] = FIRST || rows.most[r] == unseen() ? 0.0f : weight(rows.base[r] - base);
      rows.most[r] = most[r];
      rows.base[r] = base;
      rows.sum[r] = FIRST ? 0.0f : rows.sum[r] * factor[r];
    }
    // Of large scores the product is rounded before the difference is taken, as the base was: or the largest weight would not be
    // 1, and what it is rounded to not what is added up of it. Seldom, and so beside the loop that all take.
    constexpr float kLarge = 1024;
    float by = scale;
    if (Glue::kPlain && any_of_warp(fmaxf(fabsf(rows.base[0]), fabsf(rows.base[1])) >= kLarge)) {
      by = 1;
#pragma unroll
      for (int i = 0; i < C::kTileK / 2; ++i) scores[i] *= scale;
    }
#pragma unroll
    for (int i = 0; i < C::kTileK / 2; ++i) scores[i] = used(i) ? weight(scores[i] * by - rows.base[i / 2 % 2]) : 0.0f;
#pragma unroll
    for (int i = 0; i < C::kTileK / 2; ++i) {
      if (used(i)) rows.sum[i / 2 % 2] += scores[i];
    }
  }

  static WS_DEVICE void weigh(const Scores& scores, Weights& weights) {
#pragma unroll
    for (int i = 0; i < C::kTileK / 16; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) weights[i][j] = pair_of<typename C::Element>(scores[8 * i + 2 * j], scores[8 * i + 2 * j + 1]);
    }
  }
  static WS_DEVICE void had(Weights& weights) {
#pragma unroll
    for (int i = 0; i < C::kTileK / 16; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) hopper::products_had(weights[i][j]);
    }
  }

  WS_DEVICE void attend(int group, const Glue& g, const hopper::Map& out) {
    Scores scores;
    Weights weights;
    Sums sums;
    Ring ring;          // of keys
    Ring behind;        // of values
    RingOf<kTurnsQ> turn;   // of queries
    if (kGroups > 1 && group == kGroups - 1) pass_turn(group);
    const int block = blockIdx.x / C::kSplit, blocks = gridDim.x / C::kSplit;
    for (int round = 0; round < rounds(blocks); ++round) {
      const int at = tile_of(round, block, blocks);
      if (at == kTiles) continue;
      const Tile tile = tile_at(at);
      Steps steps = steps_of(g.keys(tile.batch, tile.query, tile.end));
      // Of two steps, if the compiler knew it, the loop would be none: what is before and behind it would mix and not fit registers.
      asm volatile("" : "+r"(steps.first));
      const AttendKeys clear = g.clear(tile.batch, tile.query, tile.end);
      Rows rows{{0, 0}, {0, 0}, {0, 0}};
#pragma unroll
      for (int i = 0; i < kColumnsV / 2; ++i) sums[i] = 0;
      const bool none = steps.first >= steps.end;
      if (!none || kInPlace) {
        hopper::wait(full_q[turn.stage], turn.parity, "full_q", turn.stage);
      }
      if (!none) {
        float factor[2];
        hopper::wait(full_k[ring.stage], ring.parity, "full_k", ring.stage);
        hopper::products_begin();
        multiply_keys(group, turn.stage, ring.stage, scores);
        hopper::products_wait<0>();
        had(scores);
        release(empty_k[ring.stage]);
        ring.next();
        treat(g, tile, clear, group, steps.end - 1, scores);
        soften<true>(scores, rows, factor);
        weigh(scores, weights);
#pragma unroll 1
        for (int step = steps.end - 2; step >= steps.first; --step) {
          hopper::wait(full_k[ring.stage], ring.parity, "full_k", ring.stage);
          await_turn(group);
          hopper::products_begin();
          multiply_keys(group, turn.stage, ring.stage, scores);
          hopper::wait(full_v[behind.stage], behind.parity, "full_v", behind.stage);
          multiply_values(behind.stage, weights, sums, true);
          pass_turn(group);
          hopper::products_wait<1>();
          had(scores);
          release(empty_k[ring.stage]);
          ring.next();
          treat(g, tile, clear, group, step, scores);
          soften<false>(scores, rows, factor);
          hopper::products_wait<0>();
          had(weights);
          had(sums);
          release(empty_v[behind.stage]);
          behind.next();
          weigh(scores, weights);
#pragma unroll
          for (int i = 0; i < kColumnsV / 2; ++i) {
            if (used(i)) sums[i] *= factor[i / 2 % 2];
          }
        }
        if constexpr (!kInPlace) release(empty_q[turn.stage]);
        hopper::wait(full_v[behind.stage], behind.parity, "full_v", behind.stage);
        hopper::products_begin();
        multiply_values(behind.stage, weights, sums, true);
        hopper::products_wait<0>();
        had(weights);
        had(sums);
        release(empty_v[behind.stage]);
        behind.next();
      }
      if constexpr (C::kSplit > 1) {
        leave(group, rows, sums);
        return;
      }
      finish(group, g, tile, rows, sums, out);
      if (kInPlace && threadIdx.x % 128 == 0) {
        hopper::wait_stores_read<0>();
        hopper::arrive(empty_q[turn.stage]);
      }
      if (!none || kInPlace) turn.next();
    }
    hopper::wait_stores<0>();
  }

  // By what a row's sums are multiplied; of one that sees nothing they are 0.
  static WS_DEVICE float over(float sum) {
    if (Glue::kNoNan) return sum > 0 ? 1.0f / sum : 0.0f;
    return sum != 0 || !Glue::kOrZero ? 1.0f / sum : 0.0f;
  }
  static WS_DEVICE float result(float sum, float by) { return Glue::kNoNan && by == 0 ? 0.0f : sum * by; }

  WS_DEVICE void finish(int group, const Glue& g, const Tile& tile, Rows& rows, Sums& sums, const hopper::Map& out) {
    float by[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float sum = rows.sum[r];
      sum += shuffle_xor(sum, 1);
      sum += shuffle_xor(sum, 2);
      by[r] = over(sum);
    }
    unsigned char* const to = results + group * 64 * hopper::kRowBytes;   // a box further on the next 64 columns
    const int thread = threadIdx.x % 128, lane = thread % 32;
    if (thread == 0) hopper::wait_stores_read<0>();
    hopper::group_sync(1 + kGroups + group, 128);   // what was there has been read
#pragma unroll
    for (int i = 0; i < kColumnsV / 16; ++i) {
      unsigned two[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) two[j] = pair_of<typename C::Element>(result(sums[8 * i + 2 * j], by[j % 2]), result(sums[8 * i + 2 * j + 1], by[j % 2]));
      const int row = thread / 32 * 16 + lane / 8 % 2 * 8 + lane % 8, byte = i % 4 * 32 + lane / 16 * 16;
      hopper::store_matrices(to + i / 4 * C::kTileQ * hopper::kRowBytes + hopper::swizzled(row, byte), two[0], two[1], two[2], two[3]);
    }
    hopper::fence_async();
    hopper::group_sync(1 + kGroups + group, 128);
    if (thread == 0) {
#pragma unroll
      for (int i = 0; i < kBoxesV; ++i) {
        hopper::store_box(out, to + i * C::kTileQ * hopper::kRowBytes, i * 64, tile.query + group * 64, g.at_out(tile.batch));
      }
      hopper::commit_stores();
    }
  }

  // ---- blocks that share a tile's keys

  // What each of them has is left where steps were, or in memory, in fp32: sums of rows, and what their weights were made with
  // and come to.
  static constexpr int kLeftRow = kColumnsV + (C::kMeet ? 4 : 0);
  static constexpr int kLeftRows = C::kMeet || C::kQueries > C::kTileQ ? C::kTileQ : C::kQueries;
  struct Left {
    float base, sum;
  };
  static constexpr int kLeftFloats = kLeftRows * kLeftRow;
  static constexpr int kLeftBytes = (kLeftFloats * sizeof(float) + kLeftRows * sizeof(Left) + 15) / 16 * 16;
  static_assert(C::kSplit == 1 || !C::kMeet || kLeftBytes <= kBytesSteps, "there is room for sums");
  WS_DEVICE float* left_sums(int rank) const {
    if constexpr (C::kMeet) return peer(reinterpret_cast<float*>(keys), rank);
    return left + (static_cast<long long>(shared_tile) * C::kSplit + rank) * (kLeftBytes / sizeof(float));
  }
  static WS_DEVICE Left* left_rows(float* sums) { return reinterpret_cast<Left*>(sums + kLeftFloats); }

  WS_DEVICE void leave(int group, const Rows& rows, const Sums& sums) const {
    const int thread = threadIdx.x % 128;
    if constexpr (C::kMeet) hopper::group_sync(1 + 2 * kGroups, 128 * kGroups);   // all have multiplied what was there
    float* const to = C::kMeet ? reinterpret_cast<float*>(keys) : left_sums(rank());
#pragma unroll
    for (int i = 0; i < kColumnsV / 2; i += 2) {
      const hopper::Place place = hopper::place(thread, i);
      const int row = group * 64 + place.row;
      if (row < kLeftRows) *reinterpret_cast<float2*>(to + row * kLeftRow + place.column) = make_float2(sums[i], sums[i + 1]);
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float sum = rows.sum[r];
      sum += shuffle_xor(sum, 1);
      sum += shuffle_xor(sum, 2);
      const int row = group * 64 + hopper::place(thread, 2 * r).row;
      if (thread % 4 == 0 && row < kLeftRows) left_rows(to)[row] = {sum == 0 ? unseen() : rows.base[r], sum};
    }
  }

  // Of 64 rows from `first` on, a box of columns, of what all that share the tile have left. 128 threads; whose barrier
  // `number` is.
  WS_DEVICE void combine(const Glue& g, const hopper::Map& out, int first, int box, unsigned char* to, int number) const {
    constexpr int kColumns = 4, kThreadsOfRow = 64 / kColumns;   // of a thread
    const Tile at = tile_at(shared_tile);
    const int thread = threadIdx.x % 128, rows = at.end - at.query - first;
    const int column = thread % kThreadsOfRow * kColumns;
#pragma unroll 1
    for (int row = thread / kThreadsOfRow; row < rows && row < 64; row += 128 / kThreadsOfRow) {
      float base = unseen(), total = 0, value[kColumns] = {};
      Left one[C::kSplit];
#pragma unroll
      for (int rank = 0; rank < C::kSplit; ++rank) {
        one[rank] = left_rows(left_sums(rank))[first + row];
        base = fmaxf(base, one[rank].base);
      }
#pragma unroll
      for (int rank = 0; rank < C::kSplit; ++rank) {
        const float by = one[rank].base == unseen() ? 0.0f : weight(one[rank].base - base);
        const float4 sums = *reinterpret_cast<const float4*>(left_sums(rank) + (first + row) * kLeftRow + box * 64 + column);
        total += by * one[rank].sum;
        value[0] += by * sums.x, value[1] += by * sums.y, value[2] += by * sums.z, value[3] += by * sums.w;
      }
      const float by = over(total);
      *reinterpret_cast<uint2*>(to + hopper::swizzled(row, column * 2)) =
          make_uint2(pair_of<typename C::Element>(result(value[0], by), result(value[1], by)),
                     pair_of<typename C::Element>(result(value[2], by), result(value[3], by)));
    }
    hopper::fence_async();
    hopper::group_sync(number, 128);
    if (thread == 0 && rows > 0) {
      hopper::store_box(out, to, box * 64, at.query + first, g.at_out(at.batch));
      hopper::commit_stores();
      hopper::wait_stores<0>();
    }
  }

  // All threads of the block.
  WS_DEVICE void run(const Glue& g, const hopper::Map& q, const hopper::Map& k, const hopper::Map& v, const hopper::Map& out) {
    begin();
    const int group = shuffle(static_cast<int>(threadIdx.x / 128), 0);   // so the compiler sees one for a warp
    if (group == kGroups) {
      if constexpr (kGroups > 1) hopper::give_registers<kRegistersBringing>();
      if (threadIdx.x % 128 == 0) bring(g, q, k, v);
      sync_warp();
      if constexpr (kMeets) sync_cluster(), sync_cluster();
    } else {
      if constexpr (kGroups > 1) hopper::take_registers<kRegistersAttending>();
      attend(group, g, out);
      if constexpr (kMeets) {
        sync_cluster();   // all have left what they have
        for (int box = rank(); box < kBoxesV; box += C::kSplit) {
          combine(g, out, group * 64, box, results + (box * C::kTileQ + group * 64) * hopper::kRowBytes, 1 + kGroups + group);
        }
        sync_cluster();   // and all have read it
      }
    }
  }
};

template <class C>
WS_DEVICE void attend(const typename C::Glue& g, const hopper::Map& q, const hopper::Map& k, const hopper::Map& v,
                      const hopper::Map& out, float* left) {
  Attend<C>(left).run(g, q, k, v, out);
}

// Finishes what blocks have left that share tiles' keys and do not meet: a block of 128 threads for each 64 rows of a tile
// and each box of columns.
template <class C>
WS_DEVICE void attend_combine(const typename C::Glue& g, const hopper::Map& out, const float* left) {
  using A = Attend<C>;
  A all(const_cast<float*>(left));   // reads it alone
  const int box = blockIdx.x % A::kBoxesV, of_tile = blockIdx.x / A::kBoxesV;
  all.shared_tile = of_tile / A::kGroups;
  all.combine(g, out, of_tile % A::kGroups * 64, box, all.queries, 1);
}

}  // namespace ws
