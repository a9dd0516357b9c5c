// What products of matrices take, by each way to multiply: fitted to what an H200 took.
#include "worker/codegen/skeleton/contract/estimate.h"

#include <algorithm>
#include <cmath>

namespace warpsmith::codegen {
namespace {

// ---- plain

// What loads from shared memory and waiting for them cost beside products: of an H200, fitted to
// tiles of 32 x 64 and of 128 x 128.
constexpr double kSharedCost = 3.9;
// A step at the least: until what it asked for has come. Of an H200, six products of which each
// multiprocessor had a block or two took 0.6 to 1.3 us for 16 elements of K; believed of steps of
// 32, too, and to be shared by as many as four blocks.
constexpr double kPlainStepSeconds = 0.7e-6;
constexpr int64_t kPlainTogether = 4;
// Bytes as which a sum counts that is written apart from its neighbours along N, by ordinary
// instructions: each is a sector of its own (2/58 of an H200: 1,720 us).
constexpr double kPlainApartBytes = 23;

// ---- windows as they are

// Of an H200: of the rate of ordinary instructions; simple operations by which an element is
// brought into shared memory, and a sum taken to its end, of which those that are made of it count
// so much. Of fifteen convolutions of level 2, 16 filters and 128 places a warp, what they took is
// 0.86 to 1.09 of this, but of a small one (2/50) 0.81. A multiprocessor's blocks wait beside each
// other: two took 1.08 (2/8) to 2.9 times (2/50) what four with half as many sums each did, 1.3 to
// 1.5 times (2/48, 2/83, 2/21) in between.
constexpr double kDirectPart = 0.85, kDirectBringSteps = 12, kDirectEndSteps = 6,
                 kDirectMaking = 0.3;
constexpr double kDirectBeside[] = {1.7, 1.3, 1.1, 1};

// ---- windows whose taps are shifts

// Of an H200: of the tensor cores' rate; simple operations, by groups that take turns (two; three,
// believed; four), by which a sum of a tile is taken to its end, by which one is that is there, and
// times those that are made of it; more where sums are not written side by side; and of the shorter
// of products and ends what the longer does not hide. Two groups whose threads have 128 sums of a
// tile are slower by this. Tiles that are taken in order: of 25 of seven convolutions 0.96 of this,
// 15 % (rms), of 20 others as they were chosen 0.90, 18 %.
constexpr double kShiftsPart = 0.95, kShiftsHides = 0.39;
struct ShiftsEnd {
  double of_tile, of_sum, making, apart;
};
constexpr ShiftsEnd kShiftsEnds[] = {
    {3.8, 12.5, 0.45, 9}, {4.1, 13, 0.27, 6.5}, {4.4, 13.5, 0.1, 4.5}};
constexpr ShiftsEnd kShiftsManySums = {3.8, 15, 0.45, 9};

// ---- tensor cores. Runs, groups and two stages measured; the rest is believed.

// Products of two parts are three, of which the lesser are believed to take less power: fitted to
// what KernelBench's 37 take in all.
constexpr double kPassesOfParts = 2.65;
// Of what is made of their sums a group of warps is believed to make most while the other
// multiplies: by the differences of four of these from one without it (GELU to two Mish of 8
// million), 8 to 54 us where 34 to 81 were estimated.
constexpr double kEndBesideParts = 0.45;

// What a tile takes.
struct Pace {
  // Its main loop: of what the tensor cores are said to do, and of that by one group of warps.
  double part, one;
  // Bytes of operands a second that a multiprocessor's boxes come with from the cache, and times as
  // much where few ask; a box whose rows begin anywhere in lines of the cache takes more of them.
  double box_bytes_per_second, alone, two_lines;
  bool shares;      // whether what a cluster's blocks bring for each other counts once
  double together;  // more of a step where they wait for each other
  // What a step waits for longer, the cores or the boxes, hides the other, but for where they are
  // alike: these powers of them add up.
  double hides;
  // Its end: at the least, and sums' bytes a second of a multiprocessor. Where groups take turns,
  // more, while the other's end wants shared memory, too.
  double end_seconds, end_bytes_per_second, turn_seconds;
  // Sums' meeting in a cluster of two, and in a greater one; the last wave's, behind tiles that
  // blocks finished alone; and of each byte that comes from others.
  double meeting_seconds[2], tail_seconds[2], meeting_byte_seconds;
};
// Of an H200. Of a product of 16 bits in one run, alone between pauses, where the cores do more
// than they are said to: 1,903 kernels for 53 products, most of drawn sizes, 11 % (rms).
constexpr Pace kAlonePace = {.part = 1.16,
                             .one = 0.87,
                             .box_bytes_per_second = 122e9,
                             .alone = 2,
                             .two_lines = 2.2,
                             .shares = true,
                             .together = 0.08,
                             .hides = 5,
                             .end_seconds = 0,
                             .end_bytes_per_second = 55e9,
                             .turn_seconds = 0.45e-6,
                             .meeting_seconds = {2.8e-6, 2.8e-6},
                             .tail_seconds = {2.8e-6, 2.8e-6},
                             .meeting_byte_seconds = 1 / 27e9};
// Of others, and of what is weighed against other kernels: main loops fitted to 80 tiles of 18
// products, within 17 %; turns of three products, meetings of nine of few rows, tails of five.
constexpr Pace kPace = {.part = 0.91,
                        .one = 1,
                        .box_bytes_per_second = 88e9,
                        .alone = 1,
                        .two_lines = 1.7,
                        .shares = false,
                        .together = 0,
                        .hides = 1000,
                        .end_seconds = 1e-6,
                        .end_bytes_per_second = 60e9,
                        .turn_seconds = 1e-6,
                        .meeting_seconds = {1.2e-6, 2e-6},
                        .tail_seconds = {6e-6, 7e-6},
                        .meeting_byte_seconds = 0};
// Times as long that a tile of windows of an image takes in one pass: its main loop, to move its
// sums, more where they are written apart, and to make something of them. Of 23 convolutions of an
// H200 whose tiles are taken in order 0.91 of this, 20 % (rms).
struct WindowsTake {
  double main, moving, apart, making;
};
constexpr WindowsTake kRowsTake = {1, 1, 0, 1}, kImageTakes = {1.4, 4.7, 0.1, 0.25};
// From where a step's boxes are asked for to where they are there, as 12 steps on their way show
// it.
constexpr double kBoxSeconds = 1.7e-6;
// Of a kernel, before its first products and behind its last; until its first boxes are there.
constexpr double kKernelSeconds = 2.5e-6, kFirstSeconds = 2.3e-6;
// What a tile's end waits for what it reads, for each 64 x 64 sums of a group: where there are
// registers to ask for all of it at once, before sums are there, and where not. Of a product of an
// H200 with K of 24, in seven tiles.
// (0.7 us before a box was read beside the end of the one before it.)
constexpr double kReadAheadSeconds = 0.5e-6, kReadSeconds = 1.6e-6;
// What is made of sums takes longer than the card's rate says: of a block's one group of warps, and
// of two, that wait for each operation. What several blocks of a multiprocessor take beside each
// other, and how much of what ends wait for they do not hide. Of two products with ends of 18 and
// 50 operations and one in two parts on an H200, six tiles each.
constexpr double kEndAlone[] = {2.8, 2.0}, kBlocksBeside = 1.2, kWaitsBeside = 0.5;
// The same of ordinary instructions, of each 64 x 64 sums of a multiprocessor.
constexpr double kPlainReadSeconds = 1.2e-6;
// Of the memory's rate (what the target says is that of copies); three quarters of the
// multiprocessors are enough for it.
constexpr double kBoxesFromMemory = 1.07;
// Where groups take turns: of the rate of a main loop.
constexpr double kTurnsPart = 0.985;
// Part of the rate with two steps on their way: too few.
constexpr double kTwoStages = 0.7;

// Where an operand is made two parts of on its way to the tensor cores: what is left of their rate
// with one group of warps and with two, one of which multiplies while the other makes parts; a step
// at the least. Of an H200, from ten tiles of two products.
constexpr double kInlinePart[] = {0.66, 0.78}, kInlineStepSeconds = 0.55e-6;
// Bytes of the caches between which what blocks share stays, of a card's; part of what they could
// share that is read again where it does not: blocks that began together drift apart. Of three
// products of an H200 (0.2, 0.3, 0.6), where K was 16,384 and more.
constexpr double kSharedOfCache = 0.5, kReadAgain = 0.4;

// ---- few rows. Of an H200: made to agree by hand with some twenty choices of tiles for eight
// products, within a quarter.

// Of the tensor cores' rate, by products of single warps; simple operations by which an element is
// made part of a fragment, in two parts and as it is.
constexpr double kFewTensorPart = 0.5, kFewSplitSteps = 10, kFewSteps = 1;
// What maps before the product take of them: threads of so few warps wait for each other's results.
// Of two products of quantised weights.
constexpr double kFewStepsOfMaps = 4;
// Of the memory's rate (what the target says is that of copies); what a step waits for it beside
// what its bytes take; a wave of blocks, before its first element has come and behind its last; a
// block more that meets in a cluster.
constexpr double kFewFromMemory = 1.07, kFewWait = 0.28e-6, kFewWaveSeconds = 2e-6,
                 kFewMeetingSeconds = 1e-6;
// In two parts: times what this makes of it, and where K is not in whole vectors, so that accesses
// are narrow. Chosen so that of 26 products of 20 to 2,048 rows on an H200, of which it was the
// quickest way for one, none is made so.
constexpr double kFewTwoParts = 3, kFewNarrow = 2;
constexpr int64_t kFewVector = 4;
// Of fp32 as it is: such a wave, and such a step where a block is alone and its warps meet at each.
// Made to agree by hand with a dozen kernels for five products of an H200.
constexpr double kFewExactWaveSeconds = 0.5e-6, kFewLockstepWait = 0.8e-6;

// Where threads read what they multiply: of the memory's rate; of the caches', in the memory's, for
// `few`; before a kernel's first element and behind its last, and a block's; a step, and what it
// takes more for each 128 elements of 16 rows of a warp. Of an H200, from 129 kernels for nine
// products, 4 % in the mean.
constexpr double kDirectFromMemory = 1.1, kDirectFromCaches = 4.8, kDirectSeconds = 1.2e-6,
                 kDirectBlockSeconds = 2.35e-6, kDirectStep = 0.46e-6, kDirectStepOfMore = 0.32e-6;

// ---- by a library

// Of what the tensor cores can do, in whole waves of its tiles of 128 x 256 or, of few rows, of the
// memory's rate. Of cuBLASLt 13.1 on an H200. Of fp32, which it makes by ordinary instructions, in
// waves of 128 x 128: believed.
constexpr double kLibraryPart = 0.93, kLibraryWidePart = 0.8, kLibraryFromMemory = 0.85;
constexpr int64_t kLibraryTileM = 128, kLibraryTileN = 256, kLibraryWideTileN = 128;
// Whether the rows of an operand's boxes begin at lines of the cache.
bool BeginsAtLines(const ContractForm& form, int operand, v1::ProductMath math) {
  if (IsPacked(form, operand, math)) return true;
  const int64_t even = 128 / graph::SizeOf(ElementOf(form, operand, math));  // elements of a line
  const Strided& strided = *StridedFor(form, operand, math);
  const int64_t lines = strided.along_rows ? form.k : operand == 0 ? form.m : form.n;
  const int64_t line = strided.along_rows ? strided.k : strided.row;
  return (lines == 1 || line % even == 0) && strided.offset % even == 0 &&
         (form.batch == 1 || strided.batch % even == 0);
}

bool IsOnePass(const ContractForm& form, const v1::ContractKnobs& knobs) {
  return (knobs.math() == v1::PRODUCT_TENSOR || knobs.math() == v1::PRODUCT_FP16) &&
         RunOf(form, knobs) == 0;
}

// Seconds of a step of the tensor cores' main loop; `beside`: where other blocks of the
// multiprocessor hide what it waits for.
double StepSeconds(const ContractForm& form, const v1::ContractKnobs& knobs, const Pace& pace,
                   const Target& target, bool beside = false) {
  const int parts = PartsOf(knobs.math());
  const int step = StepOf(knobs.math()), bytes_of = BytesOf(knobs.math());
  const Sides sides = SidesOf(form, knobs);
  const double work = static_cast<double>(knobs.tile_m()) * knobs.tile_n() * step * bytes_of / 2;
  const double rate = pace.part * (sides.tile_rows > kGroupRows ? 1 : pace.one) *
                      target.tensor_products_per_second / target.sm_count;
  const double reached = knobs.stages() == 2 ? kTwoStages : 1;
  double bytes = 0;  // from the cache
  for (int operand : {0, 1}) {
    const bool first = operand == sides.first();
    int64_t rows = first ? sides.tile_rows : sides.tile_columns;
    if (first && !IsInline(knobs)) rows = std::min(rows, sides.rows);
    if (pace.shares && !first) rows /= knobs.cluster();
    bytes += static_cast<double>(rows) * step * bytes_of * parts *
             (BeginsAtLines(form, operand, knobs.math()) ? 1 : pace.two_lines);
  }
  const double busy = std::min(1.0, static_cast<double>(ContractBlocks(form, knobs)) /
                                        static_cast<double>(BlocksAtOnce(knobs, target)));
  const double boxes =
      bytes / (pace.box_bytes_per_second * std::min(pace.alone, 1 / busy)) / reached;
  const double kept = IsInline(knobs) ? kInlinePart[sides.tile_rows > kGroupRows] : 1;
  const double cores = work * (parts == 2 ? kPassesOfParts : 1) / rate / reached / kept;
  const double longer = std::max(cores, boxes), shorter = std::min(cores, boxes);
  const double both = longer * std::pow(1 + std::pow(shorter / longer, pace.hides), 1 / pace.hides);
  return std::max({both, IsInline(knobs) ? kInlineStepSeconds : 0,
                   beside ? 0 : kBoxSeconds / knobs.stages()}) *
         (knobs.cluster() > 1 ? 1 + pace.together : 1);
}

// Seconds that so many blocks of a cluster take to add up a tile's sums, each a part of them,
// beside what it takes at the least.
double MeetingSeconds(const v1::ContractKnobs& knobs, const Pace& pace, int blocks) {
  const double sums = static_cast<double>(knobs.tile_m()) * knobs.tile_n();
  return sums * sizeof(float) * (blocks - 1) / blocks * pace.meeting_byte_seconds;
}

// Seconds that a tile's end waits for what it reads beside sums.
double EndReadSeconds(const ContractForm& form, const v1::ContractKnobs& knobs) {
  if (form.own_bytes == 0) return 0;
  // As ws::Contract has it: registers beside a thread's sums, of which four lines at least take
  // `own_bytes` words each.
  constexpr int64_t kRegisters[] = {232, 232, 160, 112}, kBeside = 72, kMost = 32, kLines = 4;
  const Sides sides = SidesOf(form, knobs);
  const bool turns = knobs.turns() == 2;
  const int64_t groups = turns ? 2 : sides.tile_rows / kGroupRows,
                each = turns ? sides.tile_rows / kGroupRows : 1;
  const int64_t free =
      kRegisters[std::clamp<int64_t>(groups - 1, 0, 3)] - each * sides.tile_columns / 2 - kBeside;
  const bool ahead = std::min(free, kMost) >= kLines * form.own_bytes;
  return static_cast<double>(each * CeilDiv(sides.tile_columns, kGroupRows)) *
         (ahead ? kReadAheadSeconds : kReadSeconds);
}

// Part of the rate of ordinary instructions that tiles of that size reach: the larger it is, the
// more products there are for what is read.
double PlainPart(const v1::ContractKnobs& knobs) {
  const double loads = 16 * (1.0 / knobs.tile_m() + 1.0 / knobs.tile_n());
  return 1 / (1 + kSharedCost * loads * loads);
}

// Whether operands that do not lie as they have to are written out first.
bool MayPack(const v1::ContractKnobs& knobs, const Target& target) {
  return IsLibrary(knobs) || (!IsPlain(knobs, target) && !IsFew(knobs));
}

// Bytes of an operand that the main loop finds in memory.
double OperandBytes(const ContractForm& form, int operand, const v1::ContractKnobs& knobs,
                    const Target& target) {
  if (MayPack(knobs, target) && IsPacked(form, operand, knobs.math()))
    return static_cast<double>(PackedBytes(form, operand, knobs.math()));
  return form.operand_bytes(operand);
}

// Bytes that boxes bring from memory in all: each operand once, if what blocks share stays between
// them, or it is small; else some of it for each tile.
double BoxBytes(const ContractForm& form, const v1::ContractKnobs& knobs, const Target& target) {
  const Sides sides = SidesOf(form, knobs);
  const auto cache = static_cast<double>(target.l2_bytes) * kSharedOfCache;
  const double tiles_down = static_cast<double>(CeilDiv(sides.rows, sides.tile_rows)),
               tiles_across = static_cast<double>(sides.tiles_across());
  const double at_once = std::min(static_cast<double>(BlocksAtOnce(knobs, target)),
                                  static_cast<double>(ContractBlocks(form, knobs))) /
                         knobs.split();
  // Rows and columns of tiles that are worked on at once.
  const double down = std::min<double>(knobs.raster() * knobs.cluster(), tiles_down);
  const double across = std::min(std::max(1.0, at_once / down), tiles_across);
  const double of_first = OperandBytes(form, sides.first(), knobs, target),
               of_second = OperandBytes(form, 1 - sides.first(), knobs, target);
  // Each time that others are worked on; and where nothing is shared but by a cluster's blocks.
  const double first[] = {of_first * tiles_across / across, of_first * tiles_across};
  const double second[] = {of_second * tiles_down / down, of_second * tiles_down / knobs.cluster()};
  const double working = (of_first * down / tiles_down + of_second * across / tiles_across) /
                         static_cast<double>(form.batch);
  double bytes = 0;
  for (const auto& [whole, times] : {std::pair{of_first, first}, std::pair{of_second, second}}) {
    if (whole <= cache || working <= cache) {
      bytes += whole;
    } else {
      bytes += std::max(whole, times[0] + kReadAgain * std::max(0.0, times[1] - times[0]));
    }
  }
  return bytes;
}

// Products that the whole card makes a second, those of rows that are not there left out: of tensor
// cores by single warps, and of other threads that bring elements into parts.
double FewRate(const ContractForm& form, const v1::ContractKnobs& knobs, const Target& target) {
  const FewShape shape = FewShapeOf(form, knobs);
  const double few = static_cast<double>(std::min(form.m, form.n)),
               rows = static_cast<double>(shape.pieces * shape.columns) * 8,
               piece = static_cast<double>(shape.piece);
  // As it is: an element of `many` is multiplied with all, and those of `few` brought for each
  // tile.
  if (shape.parts == 0) {
    return target.products_per_second * few /
           (few + kFewStepsOfMaps * form.steps[shape.many] +
            few / shape.tile * (kFewSteps + kFewStepsOfMaps * form.steps[1 - shape.many]));
  }
  const double tensor = std::max(target.tensor_products_per_second, 1.0) * kFewTensorPart /
                        (shape.parts == 2 ? 3 : 1) * few / rows;
  // An element of `many` for each piece, those of `few` for each tile.
  const auto steps = [&](int operand) {
    return (shape.parts == 2 ? kFewSplitSteps : kFewSteps) + kFewStepsOfMaps * form.steps[operand];
  };
  const double prepared = target.products_per_second * piece /
                          (steps(shape.many) + piece / shape.tile * steps(1 - shape.many));
  return 1 / (1 / tensor + 1 / prepared);
}

// Seconds of PRODUCT_FEW where threads read what they multiply: what memory takes for all and the
// caches for `few` of each tile, and what a multiprocessor's blocks wait, one wave after another,
// of which the longer hides most of the other.
double DirectSeconds(const ContractForm& form, const v1::ContractKnobs& knobs,
                     const FewShape& shape, const Target& target) {
  const double at_once = static_cast<double>(target.sm_count) * shape.blocks_per_sm;
  const double waves = static_cast<double>(ContractBlocks(form, knobs)) / at_once;
  const double steps =
      std::ceil(static_cast<double>(CeilDiv(form.k, knobs.split())) / (shape.step * shape.slices));
  const double step = kDirectStep + kDirectStepOfMore * shape.blocks * shape.step / 128;
  const double waiting =
      (std::max(1.0, waves) + std::ceil(waves)) / 2 * (steps * step + kDirectBlockSeconds);
  const double few = OperandBytes(form, 1 - shape.many, knobs, target) *
                     static_cast<double>(CeilDiv(shape.rows, shape.tile));
  const double reading = (OperandBytes(form, shape.many, knobs, target) / kDirectFromMemory +
                          few / kDirectFromCaches) /
                         target.bytes_per_second;
  return kKernelSeconds + kDirectSeconds + (knobs.split() - 1) * kFewMeetingSeconds +
         std::cbrt(std::pow(reading, 3) + std::pow(waiting, 3));
}

// Seconds of PRODUCT_FEW. Waiting for memory, what its bytes take and products follow each other,
// but where a multiprocessor has another block for the meantime.
double FewSeconds(const ContractForm& form, const v1::ContractKnobs& knobs, const Target& target) {
  const FewShape shape = FewShapeOf(form, knobs);
  if (shape.direct) return DirectSeconds(form, knobs, shape, target);
  const double blocks = static_cast<double>(ContractBlocks(form, knobs));
  const double multiprocessors = static_cast<double>(BlocksAtOnce(knobs, target));
  const double at_once = multiprocessors * shape.blocks_per_sm;
  const double waves = std::ceil(blocks / at_once), idle = waves * at_once / blocks;
  const double step = 2.0 * shape.blocks * shape.step / 4 * kPlainThreads *
                      std::max(1, shape.ahead) *
                      static_cast<double>(std::max<int64_t>(
                          1, form.beside_bytes[shape.many]));  // bytes on their way
  const double many = OperandBytes(form, shape.many, knobs, target);
  const double bytes = many + OperandBytes(form, 1 - shape.many, knobs, target) +
                       static_cast<double>(shape.pieces - 1) * many / kDirectFromCaches;
  // A block that is alone waits with all its warps where they meet at each step.
  const bool lockstep =
      shape.parts == 0 && shape.slices < kPlainThreads / 32 && blocks <= multiprocessors;
  // Threads of rows that are not there wait as well.
  const double padded = static_cast<double>(CeilDiv(shape.rows, shape.tile) * shape.tile) /
                        static_cast<double>(shape.rows);
  const double reading =
      bytes / (kFewFromMemory * target.bytes_per_second) * (blocks > at_once ? idle : 1) +
      bytes * padded * (lockstep ? kFewLockstepWait : kFewWait) /
          (std::min(blocks, at_once) * step);
  const double busy = std::ceil(blocks / multiprocessors) * multiprocessors / blocks;
  const double multiplying = form.products() / FewRate(form, knobs, target) * busy;
  const double outside =
      kKernelSeconds + waves * ((shape.parts > 0 ? kFewWaveSeconds : kFewExactWaveSeconds) +
                                (knobs.split() - 1) * kFewMeetingSeconds +
                                (form.own_bytes > 0 ? kReadAheadSeconds : 0));
  const double inside = reading + multiplying / shape.blocks_per_sm;
  if (shape.parts == 2)
    return outside + inside * kFewTwoParts * (form.k % kFewVector == 0 ? 1 : kFewNarrow);
  if (shape.parts > 0) return outside + inside;
  // Steps that are read ahead hide products, or other blocks do.
  const double blocks_there =
      std::clamp(blocks / multiprocessors, 1.0, static_cast<double>(shape.blocks_per_sm));
  return outside +
         (shape.ahead > 0 ? std::max(reading, multiplying) : reading + multiplying / blocks_there);
}

// Seconds that tiles of that size take: products, their waves counted whole, or operands from
// memory, which takes blocks on all multiprocessors; and what comes before and behind.
double LibrarySeconds(const ContractForm& form, const v1::ContractKnobs& knobs,
                      const Target& target) {
  const auto multiprocessors = static_cast<double>(target.sm_count);
  const bool wide = !form.halves();
  const auto tiles =
      static_cast<double>(CeilDiv(form.m, kLibraryTileM) *
                          CeilDiv(form.n, wide ? kLibraryWideTileN : kLibraryTileN) * form.batch);
  const double rate = wide ? kLibraryWidePart * target.products_per_second
                           : kLibraryPart * target.tensor_products_per_second;
  // Where there are few tiles, it shares K or makes smaller ones.
  const double idle =
      tiles < multiprocessors ? 1 : std::ceil(tiles / multiprocessors) * multiprocessors / tiles;
  double bytes = 0;
  for (int operand : {0, 1}) bytes += OperandBytes(form, operand, knobs, target);
  return kKernelSeconds + std::max(form.products() * idle / rate,
                                   bytes / (kLibraryFromMemory * target.bytes_per_second));
}

// Seconds in which operands are written out for a product, but for the launch; 0: none is.
double PackingSeconds(const ContractForm& form, const v1::ContractKnobs& knobs,
                      const Target& target) {
  double bytes = 0, operations = 0;
  for (int operand : {0, 1}) {
    if (!MayPack(knobs, target) || !IsPacked(form, operand, knobs.math())) continue;
    if (form.constant[operand]) continue;  // once for each version of the weights
    bytes += OperandBytes(form, operand, knobs, target) + form.operand_bytes(operand);
    const bool image = operand == 1 && form.windows;
    const double elements =
        image ? static_cast<double>(form.batch * form.windows->rows() * form.windows->inner())
              : static_cast<double>(form.batch * (operand == 0 ? form.m : form.n)) *
                    static_cast<double>(form.k);
    operations += elements * form.steps[operand];
  }
  return std::max(bytes / target.bytes_per_second, operations / target.operations_per_second);
}

// Seconds of products, with those of a last wave's blocks that are not there, of what is brought
// for them and what is made of their sums; or of the image from memory.
double DirectSeconds(const ContractForm& form, const v1::ContractKnobs& knobs,
                     const Target& target) {
  const DirectShape shape = DirectShapeOf(form, knobs);
  const int64_t of_sm = std::clamp<int64_t>(
      target.shared_per_sm / (shape.shared_bytes + kReservedShared), 1, shape.blocks_per_sm);
  const double at_once = static_cast<double>(target.sm_count * of_sm),
               blocks = static_cast<double>(shape.blocks);
  const double idle = std::ceil(blocks / at_once) * at_once / blocks;
  const double sums =
      static_cast<double>(form.batch) * static_cast<double>(form.m) * static_cast<double>(form.n);
  const double operations = shape.brought * (kDirectBringSteps + form.steps[1]) +
                            sums * (kDirectEndSteps + kDirectMaking * form.end_steps);
  const double threads =
      shape.products / (kDirectPart * target.products_per_second) +
      operations / target.operations_per_second +
      (form.fills_sectors ? 0 : sums * kPlainApartBytes) / target.bytes_per_second;
  const double beside = kDirectBeside[std::clamp<int64_t>(of_sm, 1, 4) - 1];
  return kKernelSeconds + std::max(std::min(idle, 2.0) * beside * threads,
                                   form.operand_bytes(1) / target.bytes_per_second);
}

// Seconds of products whose taps are shifts: of a tile what the tensor cores, boxes and the ends of
// groups that take turns each take; or of the image from memory.
double ShiftsSeconds(const ContractForm& form, const v1::ContractKnobs& knobs,
                     const Target& target) {
  const ShiftsShape shape = ShiftsOf(form, knobs);
  const double tile = static_cast<double>(knobs.tile_m()) * knobs.tile_n();
  const int parts = PartsOf(knobs.math());
  const double rate = target.tensor_products_per_second / target.sm_count;
  const double cores = tile * static_cast<double>(shape.steps * shape.units * 16) *
                       (parts == 2 ? 3 : 1) / rate / kShiftsPart;
  const double boxes =
      static_cast<double>(shape.steps * shape.step_bytes) / kPace.box_bytes_per_second;
  const double there = std::min(1.0, static_cast<double>(form.m) / knobs.tile_m());
  constexpr double kManySums = 128 * 128;
  const ShiftsEnd& of = knobs.turns() == 2 && tile >= kManySums
                            ? kShiftsManySums
                            : kShiftsEnds[std::clamp(knobs.turns(), 2, 4) - 2];
  const double of_sum =
      of.of_sum + of.making * form.end_steps + (form.fills_sectors ? 0 : of.apart);
  const double end =
      tile * (of.of_tile + there * of_sum) * target.sm_count / target.operations_per_second;
  // Blocks keep to rows of tiles.
  const int64_t down = CeilDiv(form.m, int64_t{knobs.tile_m()});
  const auto at_once = static_cast<double>(std::max(down, target.sm_count / down * down));
  const double waves = std::ceil(static_cast<double>(ContractBlocks(form, knobs)) / at_once);
  const double longer = std::max({cores, boxes, end}), shorter = std::min(cores, end);
  const double memory = OperandBytes(form, 1, knobs, target);
  return kKernelSeconds + kFirstSeconds +
         std::max(waves * (longer + kShiftsHides * shorter), memory / target.bytes_per_second) +
         end;
}

// Products that the whole card makes a second.
double ProductRate(const ContractForm& form, const v1::ContractKnobs& knobs, const Target& target) {
  if (IsLibrary(knobs)) return form.products() / LibrarySeconds(form, knobs, target);
  if (IsFew(knobs)) return FewRate(form, knobs, target);
  if (IsPlain(knobs, target)) return target.products_per_second * PlainPart(knobs);
  const double work = static_cast<double>(knobs.tile_m()) * knobs.tile_n() * StepOf(knobs.math());
  return work / StepSeconds(form, knobs, kPace, target) * target.sm_count;
}

}  // namespace

double SecondsOf(const ContractForm& form, const v1::ContractKnobs& knobs, const Target& target) {
  const bool plain = IsPlain(knobs, target);
  const int64_t blocks = ContractBlocks(form, knobs), at_once = BlocksAtOnce(knobs, target);
  const double waves = std::ceil(static_cast<double>(blocks) / static_cast<double>(at_once));
  const int step = plain ? PlainStepOf(form, knobs) : StepOf(knobs.math());
  const double steps = std::ceil(static_cast<double>(CeilDiv(form.depth(), knobs.split())) /
                                 static_cast<double>(step));
  const double tile = static_cast<double>(knobs.tile_m()) * knobs.tile_n();
  const double sums =
      static_cast<double>(form.batch) * static_cast<double>(form.m) * static_cast<double>(form.n);
  double memory = 0;  // bytes
  for (int operand : {0, 1}) memory += OperandBytes(form, operand, knobs, target);
  double seconds = 0;
  if (IsDirect(form)) {
    seconds = DirectSeconds(form, knobs, target);
  } else if (IsShifts(form) && !plain) {
    seconds = ShiftsSeconds(form, knobs, target);
  } else if (IsLibrary(knobs)) {
    seconds = LibrarySeconds(form, knobs, target);
  } else if (IsFew(knobs)) {
    seconds = FewSeconds(form, knobs, target);
  } else if (plain) {
    const double busy =
        std::min(1.0, static_cast<double>(blocks) / static_cast<double>(target.sm_count));
    const auto rounds =
        static_cast<double>(CeilDiv(blocks, int64_t{target.sm_count} * kPlainTogether));
    seconds =
        kKernelSeconds + kFirstSeconds +
        std::max({waves * tile * steps * step * target.sm_count / ProductRate(form, knobs, target),
                  rounds * steps * kPlainStepSeconds, memory / target.bytes_per_second / busy});
    if (!form.fills_sectors) seconds += sums * kPlainApartBytes / target.bytes_per_second;
    if (form.own_bytes > 0)
      seconds += static_cast<double>(blocks / knobs.split()) / target.sm_count * tile /
                 (kGroupRows * kGroupRows) * kPlainReadSeconds;
  } else {
    const Pace& pace = IsOnePass(form, knobs) ? kAlonePace : kPace;
    const bool of_image = form.windows && IsOnePass(form, knobs);
    const bool apart = !form.fills_sectors && IsOnePass(form, knobs);
    const double main_takes = of_image ? kImageTakes.main : kRowsTake.main;
    const WindowsTake& takes = of_image || apart ? kImageTakes : kRowsTake;
    const double moving = tile * sizeof(float) / pace.end_bytes_per_second *
                          (takes.moving + (apart ? takes.apart : 0));
    // Of rows that are there.
    const Sides sides = SidesOf(form, knobs);
    const double there = std::min(1.0, static_cast<double>(sides.rows) / sides.tile_rows);
    const double making =
        tile * there / form.of() * form.end_steps * target.sm_count / target.operations_per_second;
    const bool one_group = sides.tile_rows == kGroupRows;
    const double beside = PartsOf(knobs.math()) == 2 ? kEndBesideParts : 1;
    const double end = pace.end_seconds + moving +
                       making * kEndAlone[one_group ? 0 : 1] * beside * takes.making +
                       EndReadSeconds(form, knobs);
    // Of all waves: operands do not come meanwhile, as measured.
    const double meeting = MeetsInCluster(knobs, target)
                               ? waves * (pace.meeting_seconds[knobs.split() > 2] +
                                          MeetingSeconds(knobs, pace, knobs.split()))
                               : 0;
    const double main = steps * StepSeconds(form, knobs, pace, target) * main_takes;
    const bool turns = knobs.turns() == 2;
    double of_wave =
        turns ? std::max(main / kTurnsPart + pace.turn_seconds, (main + end) / 2) : main + end;
    if (knobs.blocks_per_sm() > 1) {
      // Blocks of a multiprocessor wait beside each other, and take what they do one by one.
      const double beside_each_other = std::clamp(static_cast<double>(blocks) / target.sm_count,
                                                  1.0, static_cast<double>(knobs.blocks_per_sm()));
      const double alone = kBlocksBeside * (steps * StepSeconds(form, knobs, pace, target, true) +
                                            pace.end_seconds + moving + making) +
                           kWaitsBeside * EndReadSeconds(form, knobs);
      of_wave = std::max(of_wave, beside_each_other * alone);
    }
    // Each wave waits for its part of the memory's bytes, or for its own blocks: in a last one that
    // is not full memory has little to do.
    const double all = static_cast<double>(blocks) / static_cast<double>(at_once);
    const double bytes = BoxBytes(form, knobs, target) / all;
    const double memory_of_wave = bytes / (kBoxesFromMemory * target.bytes_per_second);
    const double full = std::floor(all), rest = all - full;
    double last = of_wave;
    if (knobs.tail() > 1) {
      // Clusters' blocks each multiply and finish their part of a tile.
      const double rounds = std::ceil(rest * knobs.tail());
      last = rounds * (of_wave / knobs.tail() + pace.tail_seconds[knobs.tail() > 2] +
                       MeetingSeconds(knobs, pace, knobs.tail()));
    }
    seconds = kKernelSeconds + kFirstSeconds + meeting + (turns ? end : 0) +
              full * std::max(of_wave, memory_of_wave) +
              (rest > 0 ? std::max(last, rest * memory_of_wave) : 0);
  }
  if (knobs.split() > 1 && !MeetsInCluster(knobs, target))
    seconds += target.launch_seconds + 8.0 * knobs.split() * sums / target.bytes_per_second;
  const double packing = PackingSeconds(form, knobs, target);
  if (packing > 0) seconds += target.launch_seconds + packing;
  if (ScalesRows(knobs.math())) seconds += target.launch_seconds;
  return seconds;
}

}  // namespace warpsmith::codegen
