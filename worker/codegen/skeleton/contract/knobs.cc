// Defaults and checks of the contract skeleton's knobs, and places to try beside them.
#include <algorithm>
#include <cmath>
#include <optional>

#include "absl/strings/str_cat.h"
#include "worker/codegen/skeleton/contract/contract.h"

namespace warpsmith::codegen {
namespace {

using absl::StrCat;

// Elements of K that are worth a block.
constexpr int64_t kLeastPart = 128;
constexpr int kMostSplit = 64;

// ---- plain

// Sums of fp32 that a thread adds up one after another before they join the total: what a library
// adds up in one piece is longer.
constexpr int kPlainRun = 256;
// Sums of a thread that it has registers for, with its totals.
constexpr int64_t kMostSums = 64;
// What loads from shared memory and waiting for them cost beside products: of an H200, fitted to
// tiles of 32 x 64 and of 128 x 128.
constexpr double kSharedCost = 3.9;

// ---- tensor cores. Of an H200: runs, groups and two stages measured; the rest is believed.

// fp32 products by fp16: elements of K between additions in fp32. Longer runs are no quicker.
constexpr int kPartsRun = 64, kNarrowRun = 128;
// Groups of a block, and sums of a thread, with those of a run, that it has registers for: four
// groups have too few for anything.
constexpr int kMostGroups = 2;
constexpr int64_t kMostTensorSums = 128;
// Columns of a tile between powers of two, and the most of one that a group multiplies alone: 192
// sums a thread.
constexpr int kMidColumns = 192;
// Of what the tensor cores can do in a tile's main loop, and bytes of operands a second that a
// multiprocessor's boxes come with; half that where a box's rows begin anywhere in lines of the
// cache, each of which they then take twice. Fitted to 80 tiles of 18 products, within 17 %. From
// where a step's boxes are asked for to where they are there, as 12 steps on their way show it.
constexpr double kTensorPart = 0.91, kBoxBytesPerSecond = 88e9, kTwoLines = 1.7,
                 kBoxSeconds = 1.7e-6;
// A tile's end: at the least, and sums' bytes a second of a multiprocessor. Of a kernel, before
// its first products and behind its last; until its first boxes are there.
constexpr double kTileSeconds = 1e-6, kEndBytesPerSecond = 60e9, kKernelSeconds = 2.5e-6,
                 kFirstSeconds = 2.3e-6;
// Of the memory's rate (what the target says is that of copies); three quarters of the
// multiprocessors are enough for it.
constexpr double kBoxesFromMemory = 1.07;
// Where groups take turns: of the rate of a main loop, and of a tile, while the other's end wants
// shared memory, too. Of three products of an H200.
constexpr double kTurnsPart = 0.985, kTurnSeconds = 1e-6;
// Of a tile's sums' meeting in a cluster of two, and in a greater one (4 to 13 us, whatever the
// tile; why is not known). These four of an H200, from nine products of few rows.
constexpr double kMeetingSeconds = 1.2e-6, kMeetingOfMoreSeconds = 6e-6;
// Blocks of a cluster whose blocks share K, at most; multiprocessors of which clusters of more than
// two are made (some of a card's are in no such cluster).
constexpr int kMostMeeting = 8;
constexpr int64_t kClustersWithin = 16;
// Tiles below each other, and waves of them, of which one more is little.
constexpr int64_t kRowsOfAny = 16, kManyWaves = 8;
constexpr int kMostStages = 12;
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

// Elements of K at a time, at the most.
constexpr int kMostFewRun = 128;
// Where threads read what they multiply: of the memory's rate; of the caches', in the memory's, for
// `few`; before a kernel's first element and behind its last, and a block's; a step, and what it
// takes more for each 128 elements of 16 rows of a warp. Of an H200, from 129 kernels for nine
// products, 4 % in the mean.
constexpr double kDirectFromMemory = 1.1, kDirectFromCaches = 4.8, kDirectSeconds = 1.2e-6,
                 kDirectBlockSeconds = 2.35e-6, kDirectStep = 0.46e-6, kDirectStepOfMore = 0.32e-6;

// ---- by a library

// What knobs of ours say that mean nothing to it.
constexpr int kLibraryTile = 64, kLibraryRun = 64;
// Of what the tensor cores can do, in whole waves of its tiles of 128 x 256 or, of few rows, of the
// memory's rate. Of cuBLASLt 13.1 on an H200.
constexpr double kLibraryPart = 0.93, kLibraryFromMemory = 0.85;
constexpr int64_t kLibraryTileM = 128, kLibraryTileN = 256;
// Algorithms to try.
constexpr int kAlgorithms = 4;

struct Shape {
  int m, n;
};
constexpr Shape kPlainTiles[] = {{128, 128}, {64, 128}, {128, 64}, {64, 64},  {64, 32},  {32, 64},
                                 {32, 32},   {16, 64},  {64, 16},  {16, 128}, {128, 16}, {16, 256},
                                 {256, 16},  {32, 16},  {16, 32},  {16, 16}};
// The smallest first: where memory alone counts, the rest of the others would be padding.
constexpr Shape kTensorTiles[] = {{64, 16},   {64, 32},   {128, 16}, {128, 32},
                                  {64, 64},   {64, 128},  {128, 64}, {64, 256},
                                  {128, 128}, {128, 192}, {128, 256}};

// Whether neighbours in memory may be rows of the operand that is not of the tiles' rows (which way
// it is packed is not known here, but for an operand that could do without).
bool MayLieAlongColumns(const ContractForm& form, const v1::ContractKnobs& knobs) {
  const int operand = 1 - SidesOf(form, knobs).first();
  if (IsPacked(form, operand, knobs.math()) &&
      (knobs.math() != v1::PRODUCT_FP16X3_INLINE || !form.strided[operand]))
    return true;
  return StridedFor(form, operand, knobs.math())->along_rows;
}

bool IsInline(const v1::ContractKnobs& knobs) { return knobs.math() == v1::PRODUCT_FP16X3_INLINE; }
bool IsFew(const v1::ContractKnobs& knobs) { return knobs.math() == v1::PRODUCT_FEW; }
bool IsLibrary(const v1::ContractKnobs& knobs) { return knobs.math() == v1::PRODUCT_LIBRARY; }
bool IsPlain(const v1::ContractKnobs& knobs, const Target& target) {
  return !OnTensorCores(knobs.math(), target);
}

// Why this math is not for the group's operands and sums on this card; empty: it is.
std::string Misfit(const ContractForm& form, v1::ProductMath math, const Target& target) {
  if (math == v1::PRODUCT_PLAIN) return "";
  if (math == v1::PRODUCT_FEW) {
    if (form.sums != graph::DType::kF32) return "tensor cores add up in fp32";
    if (std::min(form.m, form.n) > kMostFew)
      return StrCat("neither side has at most ", kMostFew, " rows");
    for (int64_t extent : {form.m, form.n, form.k, form.batch}) {
      if (extent > INT32_MAX / 2) return "an axis has more than 2^30 elements";
    }
    return "";
  }
  if (math == v1::PRODUCT_FP16X3_INLINE && InlineOf(form) < 0)
    return "neither operand is fp32 that the copy engine could bring as it is";
  if (math == v1::PRODUCT_LIBRARY) {
    if (target.library.empty()) return "there is no library here that makes products (cuBLASLt)";
  } else if (!OnTensorCores(math, target) && !target.fibers())
    return "there is code for tensor cores of sm_90a; elsewhere PRODUCT_PLAIN";
  if (form.sums != graph::DType::kF32) return "tensor cores add up in fp32";
  for (int64_t extent : {form.m, form.n, form.k, form.batch * 2}) {
    if (extent > INT32_MAX) return "an axis has more than 2^31 elements";
  }
  if (math == v1::PRODUCT_LIBRARY && !form.halves())
    return "its operands are not both fp16 or both bf16; PRODUCT_FP16X3 takes fp32";
  if (math == v1::PRODUCT_TENSOR && !form.apart.possible())
    return "its operands are not, but for scales, both fp16 or both bf16; PRODUCT_FP16X3 takes fp32";
  return "";
}

// What is wrong with knobs that are all set; empty: nothing.
std::string Wrong(const ContractForm& form, const v1::ContractKnobs& knobs, const Target& target) {
  const int64_t run = RunOf(form, knobs), sums = int64_t{knobs.tile_m()} * knobs.tile_n();
  const std::string many = StrCat("contract.tile_m ", knobs.tile_m(), " and contract.tile_n ",
                                  knobs.tile_n(), ": threads have no registers for so many sums");
  if (IsLibrary(knobs)) {
    const bool ours = knobs.tile_m() != kLibraryTile || knobs.tile_n() != kLibraryTile ||
                      knobs.stages() != 1 || knobs.cluster() != 1 || knobs.split() != 1 ||
                      knobs.turns() != 1 || knobs.run() != kLibraryRun;
    return ours ? StrCat(
                      "tiles, stages, cluster, split, turns and run are the library's own affair; "
                      "with PRODUCT_LIBRARY they are ",
                      kLibraryTile, ", 1, 1, 1, 1 and ", kLibraryRun)
                : "";
  }
  if (knobs.turns() != 1 && knobs.math() != v1::PRODUCT_TENSOR)
    return StrCat("contract.turns is ", knobs.turns(), "; it is of PRODUCT_TENSOR");
  if (knobs.algorithm() != 1)
    return StrCat("contract.algorithm is ", knobs.algorithm(), "; it is of PRODUCT_LIBRARY");
  if (ContractSharedBytes(form, knobs, target) > target.shared_per_block)
    return StrCat("needs ", ContractSharedBytes(form, knobs, target),
                  " bytes of shared memory a block, the card has ", target.shared_per_block,
                  "; lower contract.stages, contract.tile_m or contract.tile_n");
  const Sides sides = SidesOf(form, knobs);
  const char* const of_rows = sides.turned ? "contract.tile_n" : "contract.tile_m";
  const char* const of_columns = sides.turned ? "contract.tile_m" : "contract.tile_n";
  for (int tile : {knobs.tile_m(), knobs.tile_n()}) {
    const bool between = knobs.math() == v1::PRODUCT_TENSOR && sides.tile_columns == kMidColumns &&
                         IsPowerOfTwo(sides.tile_rows);
    if (!IsPowerOfTwo(tile) && !between)
      return StrCat("tiles of ", knobs.tile_m(), " x ", knobs.tile_n(), "; between powers of two ",
                    "there is ", of_columns, " of ", kMidColumns, " of PRODUCT_TENSOR");
  }
  if (ScalesRuns(form, knobs.math()) &&
      (knobs.run() == 0 || form.apart.run % knobs.run() != 0 || knobs.run() % kPlainStep != 0))
    return StrCat("contract.run is ", knobs.run(), "; scales are those of ", form.apart.run,
                  " elements of K, of which it has to be a part");
  if (IsFew(knobs)) return FewWrong(form, knobs);
  if (IsPlain(knobs, target)) {
    if (sums / kPlainThreads > kMostSums) return many;
    if (knobs.stages() != 1 || knobs.cluster() != 1)
      return "contract.stages and contract.cluster are of the tensor cores; PRODUCT_PLAIN has 1";
    if (knobs.split() > std::max<int64_t>(1, CeilDiv(form.k, kPlainStep)))
      return StrCat("contract.split is ", knobs.split(), "; K has ", form.k, " elements, of which ",
                    kPlainStep, " are a step");
    return "";
  }
  const int groups = sides.tile_rows / kGroupRows;
  if (sides.tile_rows % kGroupRows != 0)
    return StrCat(of_rows, " is ", sides.tile_rows, "; a group of warps multiplies ", kGroupRows,
                  " rows");
  if (IsInline(knobs) && knobs.run() != kTensorStep)
    return StrCat("contract.run is ", knobs.run(), "; rows have a scale for every ", kTensorStep,
                  " elements");
  if (IsInline(knobs) && (sides.tile_columns & (sides.tile_columns - 1)) != 0)
    return StrCat(of_columns, " is ", sides.tile_columns, "; it is 16, 32, 64 or 128");
  if (groups > kMostGroups ||
      sides.tile_columns / 2 * (run > 0 || IsInline(knobs) ? 2 : 1) > kMostTensorSums)
    return many;
  if (knobs.turns() == 2 && (groups != kMostGroups || sides.tile_columns > kMidColumns || run > 0))
    return StrCat("contract.turns is 2; groups that take turns have tiles of 128 rows and at most ",
                  kMidColumns, " columns each, added up in one run");
  if (knobs.stages() < 2)
    return StrCat("contract.stages is ", knobs.stages(), "; the tensor cores want 2 at the least");
  // Boxes of an operand whose neighbours are columns have 64 of them.
  const int columns = MayLieAlongColumns(form, knobs) ? 64 : 16;
  if (sides.tile_columns % (columns * knobs.cluster()) != 0)
    return StrCat(of_columns, " is ", sides.tile_columns, "; ", knobs.cluster(), " blocks bring ",
                  columns, " columns each, or a multiple");
  const int64_t unit = std::max<int64_t>(kTensorStep, run), units = CeilDiv(form.k, unit);
  if (CeilDiv(units, knobs.split()) * (knobs.split() - 1) >= units)
    return StrCat("contract.split is ", knobs.split(), "; K of ", form.k, " has ", units,
                  " parts of ", unit, " that blocks could share");
  return "";
}

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

// Seconds of a step of the tensor cores' main loop.
double StepSeconds(const ContractForm& form, const v1::ContractKnobs& knobs, const Target& target) {
  const int parts = PartsOf(knobs.math());
  const double work = static_cast<double>(knobs.tile_m()) * knobs.tile_n() * kTensorStep;
  const double rate = kTensorPart * target.tensor_products_per_second / target.sm_count;
  const double reached = knobs.stages() == 2 ? kTwoStages : 1;
  const Sides sides = SidesOf(form, knobs);
  double bytes = 0;
  for (int operand : {0, 1}) {
    int64_t rows = operand == sides.first() ? sides.tile_rows : sides.tile_columns;
    if (operand == sides.first() && !IsInline(knobs)) rows = std::min(rows, sides.rows);
    bytes += 2.0 * static_cast<double>(rows) * kTensorStep * parts *
             (BeginsAtLines(form, operand, knobs.math()) ? 1 : kTwoLines);
  }
  const double kept = IsInline(knobs) ? kInlinePart[sides.tile_rows > kGroupRows] : 1;
  return std::max({work * (parts == 2 ? 3 : 1) / rate / reached / kept,
                   IsInline(knobs) ? kInlineStepSeconds : 0, bytes / kBoxBytesPerSecond / reached,
                   kBoxSeconds / knobs.stages()});
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

// Bytes of what an operand is made of, each once.
double ReadBytes(const ContractForm& form, int operand) {
  const int64_t rows = operand == 0 ? form.m : form.n;
  return static_cast<double>(form.batch * rows) * static_cast<double>(form.k) * form.bytes[operand];
}

// Bytes of an operand that the main loop finds in memory.
double OperandBytes(const ContractForm& form, int operand, const v1::ContractKnobs& knobs,
                    const Target& target) {
  if (MayPack(knobs, target) && IsPacked(form, operand, knobs.math()))
    return static_cast<double>(PackedBytes(form, operand, knobs.math()));
  return ReadBytes(form, operand);
}

// Bytes that boxes bring from memory in all: each operand once, if what blocks share stays between
// them, or it is small; else some of it for each tile.
double BoxBytes(const ContractForm& form, const v1::ContractKnobs& knobs, const Target& target) {
  const Sides sides = SidesOf(form, knobs);
  const auto cache = static_cast<double>(target.l2_bytes) * kSharedOfCache;
  const double tiles_down = static_cast<double>(CeilDiv(sides.rows, sides.tile_rows)),
               tiles_across = static_cast<double>(CeilDiv(sides.columns, sides.tile_columns));
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

// Of PRODUCT_FEW: elements of K at a time, for which a thread has registers.
int FewRunOf(const ContractForm& form) {
  v1::ContractKnobs none;
  const FewShape shape = FewShapeOf(form, none);
  if (shape.direct) return kMostFewRun / 2;
  if (form.apart.run == kTensorStep / 2) return kTensorStep / 2;
  return shape.ahead && (shape.blocks == 2 || shape.columns > 8) ? 32 : 64;
}

// Products that the whole card makes a second, those of rows that are not there left out: of tensor
// cores by single warps, and of other threads that bring elements into parts.
double FewRate(const ContractForm& form, const v1::ContractKnobs& knobs, const Target& target) {
  const FewShape shape = FewShapeOf(form, knobs);
  const double few = static_cast<double>(std::min(form.m, form.n));
  const double rows = static_cast<double>(shape.columns) * 8;
  const double tensor = std::max(target.tensor_products_per_second, 1.0) * kFewTensorPart /
                        (shape.parts == 2 ? 3 : 1) * few / rows;
  // An element of `many` once, those of `few` for each tile.
  const auto steps = [&](int operand) {
    return (shape.parts == 2 ? kFewSplitSteps : kFewSteps) +
           kFewStepsOfMaps * form.steps[operand];
  };
  const double prepared = target.products_per_second * few /
                          (steps(shape.many) + few / shape.tile * steps(1 - shape.many));
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
  const double multiprocessors = static_cast<double>(target.sm_count);
  const double at_once = multiprocessors * shape.blocks_per_sm;
  const double waves = std::ceil(blocks / at_once), idle = waves * at_once / blocks;
  const double step =
      2.0 * shape.blocks * shape.step / 4 * kPlainThreads * form.bytes[shape.many];  // bytes
  const double bytes = OperandBytes(form, 0, knobs, target) + OperandBytes(form, 1, knobs, target);
  const double reading =
      bytes / (kFewFromMemory * target.bytes_per_second) * (blocks > at_once ? idle : 1) +
      bytes * kFewWait / (std::min(blocks, at_once) * step);
  const double busy = std::ceil(blocks / multiprocessors) * multiprocessors / blocks;
  const double multiplying = form.products() / FewRate(form, knobs, target) * busy;
  return kKernelSeconds + waves * (kFewWaveSeconds + (knobs.split() - 1) * kFewMeetingSeconds) +
         reading + multiplying / shape.blocks_per_sm;
}

// Seconds that tiles of that size take: products, their waves counted whole, or operands from
// memory, which takes blocks on all multiprocessors; and what comes before and behind.
double LibrarySeconds(const ContractForm& form, const v1::ContractKnobs& knobs,
                      const Target& target) {
  const auto multiprocessors = static_cast<double>(target.sm_count);
  const auto tiles = static_cast<double>(CeilDiv(form.m, kLibraryTileM) *
                                         CeilDiv(form.n, kLibraryTileN) * form.batch);
  // Where there are few tiles, it shares K or makes smaller ones.
  const double idle =
      tiles < multiprocessors ? 1 : std::ceil(tiles / multiprocessors) * multiprocessors / tiles;
  double bytes = 0;
  for (int operand : {0, 1}) bytes += OperandBytes(form, operand, knobs, target);
  return kKernelSeconds +
         std::max(form.products() * idle / (kLibraryPart * target.tensor_products_per_second),
                  bytes / (kLibraryFromMemory * target.bytes_per_second));
}

// Of that math.
double SecondsOf(const ContractForm& form, const v1::ContractKnobs& knobs, const Target& target) {
  const bool plain = IsPlain(knobs, target);
  const int64_t blocks = ContractBlocks(form, knobs), at_once = BlocksAtOnce(knobs, target);
  const double waves = std::ceil(static_cast<double>(blocks) / static_cast<double>(at_once));
  const int step = plain ? kPlainStep : kTensorStep;
  const double steps =
      std::ceil(static_cast<double>(CeilDiv(form.k, knobs.split())) / static_cast<double>(step));
  const double tile = static_cast<double>(knobs.tile_m()) * knobs.tile_n();
  const double sums =
      static_cast<double>(form.batch) * static_cast<double>(form.m) * static_cast<double>(form.n);
  double memory = 0, packed = 0;  // bytes
  double computed = 0;            // operations of what is packed
  for (int operand : {0, 1}) {
    const double bytes = OperandBytes(form, operand, knobs, target);
    memory += bytes;
    if (!MayPack(knobs, target) || !IsPacked(form, operand, knobs.math())) continue;
    const int64_t rows = operand == 0 ? form.m : form.n;
    packed += bytes + ReadBytes(form, operand);
    computed += static_cast<double>(form.batch * rows) * static_cast<double>(form.k) *
                form.steps[operand];
  }
  double seconds = 0;
  if (IsLibrary(knobs)) {
    seconds = LibrarySeconds(form, knobs, target);
  } else if (IsFew(knobs)) {
    seconds = FewSeconds(form, knobs, target);
  } else if (plain) {
    const double busy =
        std::min(1.0, static_cast<double>(blocks) / static_cast<double>(target.sm_count));
    seconds =
        kKernelSeconds + kFirstSeconds +
        std::max(waves * tile * steps * step * target.sm_count / ProductRate(form, knobs, target),
                 memory / target.bytes_per_second / busy);
  } else {
    const double end = kTileSeconds + tile * sizeof(float) / kEndBytesPerSecond;
    // Of all waves: operands do not come meanwhile, as measured.
    const double meeting = !MeetsInCluster(knobs, target) ? 0
                           : knobs.split() == 2           ? waves * kMeetingSeconds
                                                          : waves * kMeetingOfMoreSeconds;
    const double main = steps * StepSeconds(form, knobs, target);
    const bool turns = knobs.turns() == 2;
    const double of_wave =
        turns ? std::max(main / kTurnsPart + kTurnSeconds, (main + end) / 2) : main + end;
    // Each wave waits for its part of the memory's bytes, or for its own blocks: in a last one that
    // is not full memory has little to do.
    const double all = static_cast<double>(blocks) / static_cast<double>(at_once);
    const double bytes = BoxBytes(form, knobs, target) / all;
    const double memory_of_wave = bytes / (kBoxesFromMemory * target.bytes_per_second);
    const double full = std::floor(all), rest = all - full;
    seconds = kKernelSeconds + kFirstSeconds + meeting + (turns ? end : 0) +
              full * std::max(of_wave, memory_of_wave) +
              (rest > 0 ? std::max(of_wave, rest * memory_of_wave) : 0);
  }
  if (knobs.split() > 1 && !MeetsInCluster(knobs, target))
    seconds += target.launch_seconds + 8.0 * knobs.split() * sums / target.bytes_per_second;
  if (packed > 0) {
    seconds += target.launch_seconds + std::max(packed / target.bytes_per_second,
                                                computed / target.operations_per_second);
  }
  if (PartsOf(knobs.math()) == 2) seconds += target.launch_seconds;
  return seconds;
}

// As many steps on their way as there is shared memory for.
int StagesOf(const ContractForm& form, const v1::ContractKnobs& knobs, const Target& target) {
  v1::ContractKnobs one = knobs;
  one.set_stages(1);
  const int64_t first = ContractSharedBytes(form, one, target);
  one.set_stages(2);
  const int64_t stage = ContractSharedBytes(form, one, target) - first;
  const int64_t fit = 1 + (target.shared_per_block - first) / stage;
  return static_cast<int>(std::clamp<int64_t>(fit, 2, kMostStages));
}

// Blocks below each other bring columns for each other, where boxes allow it and a block that is
// there for its neighbour alone costs little.
int ClusterOf(const ContractForm& form, const v1::ContractKnobs& knobs) {
  const Sides sides = SidesOf(form, knobs);
  const bool divides = sides.tile_columns % (MayLieAlongColumns(form, knobs) ? 128 : 32) == 0;
  const int64_t down = CeilDiv(sides.rows, sides.tile_rows);
  return divides && (down % 2 == 0 || down > kRowsOfAny) ? 2 : 1;
}

// Rows of clusters' tiles in the order of tiles, a power of two, such that what runs at once is as
// square as may be: of an area the square has the shortest sides, which are what its blocks read
// from memory for each step of K.
int RasterOf(const ContractForm& form, const v1::ContractKnobs& knobs, const Target& target) {
  const Sides sides = SidesOf(form, knobs);
  const double rows = std::sqrt(static_cast<double>(BlocksAtOnce(knobs, target)) *
                                sides.tile_columns / sides.tile_rows) /
                      ContractCluster(knobs, target);
  return static_cast<int>(std::exp2(std::clamp(std::round(std::log2(rows)), 0.0, 6.0)));
}

// Of operands of 16 bits in a product of fp32: elements of K between additions in fp32.
int NarrowRunOf(const ContractForm& form) {
  return static_cast<int>(form.apart.run > 0 ? std::min<int64_t>(form.apart.run, kNarrowRun)
                                             : kNarrowRun);
}

// Fills what tile, split and math leave open.
void Complete(const ContractForm& form, const Target& target, v1::ContractKnobs& knobs) {
  if (knobs.algorithm() == 0) knobs.set_algorithm(1);
  if (knobs.turns() == 0) knobs.set_turns(1);
  if (IsLibrary(knobs)) {
    if (knobs.run() == 0) knobs.set_run(kLibraryRun);
    if (knobs.cluster() == 0) knobs.set_cluster(1);
    if (knobs.stages() == 0) knobs.set_stages(1);
    if (knobs.raster() == 0) knobs.set_raster(1);
    return;
  }
  const bool plain = IsPlain(knobs, target);
  if (knobs.run() == 0) {
    const int64_t whole = std::clamp<int64_t>(PowerOfTwoAtLeast(form.k), 64, 65536);
    knobs.set_run(IsFew(knobs)                 ? FewRunOf(form)
                  : plain && !ScalesRuns(form, knobs.math()) ? kPlainRun
                  : PartsOf(knobs.math()) == 2 ? kPartsRun
                  : !form.halves()             ? NarrowRunOf(form)
                                               : static_cast<int>(whole));
  }
  if (knobs.cluster() == 0) knobs.set_cluster(plain || IsFew(knobs) ? 1 : ClusterOf(form, knobs));
  if (knobs.stages() == 0)
    knobs.set_stages(plain || IsFew(knobs) ? 1 : StagesOf(form, knobs, target));
  if (knobs.raster() == 0) knobs.set_raster(RasterOf(form, knobs, target));
}

// Tiles to choose among.
std::vector<Shape> TilesOf(const ContractForm& form, v1::ProductMath math, const Target& target) {
  if (math == v1::PRODUCT_FEW) {
    const FewShape shape = FewShapeOf(form, v1::ContractKnobs());
    const int few = static_cast<int>(std::max<int64_t>(16, PowerOfTwoAtLeast(8 * shape.columns)));
    std::vector<Shape> tiles;
    for (int many = 16; many <= 256; many *= 2)
      tiles.push_back(shape.many == 0 ? Shape{many, few} : Shape{few, many});
    return tiles;
  }
  if (math == v1::PRODUCT_LIBRARY) return {{kLibraryTile, kLibraryTile}};
  if (!OnTensorCores(math, target)) return {std::begin(kPlainTiles), std::end(kPlainTiles)};
  std::vector<Shape> tiles(std::begin(kTensorTiles), std::end(kTensorTiles));
  v1::ContractKnobs knobs;
  knobs.set_math(math);
  if (SidesOf(form, knobs).turned) {
    for (Shape& tile : tiles) std::swap(tile.m, tile.n);
  }
  return tiles;
}

// The quickest of tiles and splits with this math, what was set kept; nullopt: none fits.
std::optional<v1::ContractKnobs> Quickest(const ContractForm& form, const v1::ContractKnobs& set,
                                          v1::ProductMath math, const Target& target) {
  std::optional<v1::ContractKnobs> best;
  double least = 0;
  const auto weigh = [&](v1::ContractKnobs one) {
    // Groups that share a tile, or take turns; blocks that share nothing or K, and then columns,
    // which is seldom quicker.
    const int shared = one.cluster(), turns = set.turns() != 0 ? set.turns() : 2;
    for (int choice = 0; choice < shared * turns; ++choice) {
      one.set_cluster(choice % shared + 1);
      one.set_turns(choice / shared + 1);
      if ((set.cluster() != 0 && one.cluster() != shared) ||
          (set.turns() != 0 && one.turns() != turns))
        continue;
      if (!Wrong(form, one, target).empty()) continue;
      if (set.raster() == 0) one.set_raster(RasterOf(form, one, target));
      // A last wave that is not full is little of many; blocks that share K share nothing else.
      const int64_t waves = ContractBlocks(form, one) / one.split() / BlocksAtOnce(one, target);
      if (set.split() == 0 && one.split() > 1 && waves >= kManyWaves) continue;
      const double seconds = SecondsOf(form, one, target);
      if (best && seconds >= least) continue;
      least = seconds;
      best = one;
    }
  };
  const auto consider = [&](Shape tile) {
    if (set.tile_m() != 0 && set.tile_m() != tile.m) return;
    if (set.tile_n() != 0 && set.tile_n() != tile.n) return;
    const int64_t most = set.split() != 0 || target.fibers() || math == v1::PRODUCT_LIBRARY
                             ? 1
                             : std::clamp<int64_t>(form.k / kLeastPart, 1, kMostSplit);
    for (int split = 1; split <= most; ++split) {
      v1::ContractKnobs one = set;
      one.set_math(math);
      one.set_tile_m(tile.m);
      one.set_tile_n(tile.n);
      one.set_split(set.split() != 0 ? set.split() : split);
      Complete(form, target, one);
      weigh(one);
      if (math != v1::PRODUCT_FEW || set.run() != 0 || !FewShapeOf(form, one).direct) continue;
      one.set_run(kMostFewRun);
      weigh(one);
    }
  };
  for (Shape tile : TilesOf(form, math, target)) consider(tile);
  if (!best && set.tile_m() != 0 && set.tile_n() != 0) consider({set.tile_m(), set.tile_n()});
  return best;
}

constexpr v1::ProductMath kWays[] = {v1::PRODUCT_TENSOR,        v1::PRODUCT_FP16X3,
                                     v1::PRODUCT_FP16X3_INLINE, v1::PRODUCT_FEW,
                                     v1::PRODUCT_PLAIN,         v1::PRODUCT_LIBRARY};

// Whether it fits, and is one to try where nobody asked for it.
bool MayTry(const ContractForm& form, v1::ProductMath math, const Target& target) {
  return Misfit(form, math, target).empty() &&
         (math == v1::PRODUCT_PLAIN || OnTensorCores(math, target) ||
          (math == v1::PRODUCT_LIBRARY && !target.fibers()));
}
// Whether it is one for defaults, which run without a library.
bool MayChoose(const ContractForm& form, v1::ProductMath math, const Target& target) {
  return math != v1::PRODUCT_LIBRARY && MayTry(form, math, target);
}

void Choose(const ContractForm& form, const Target& target, v1::ContractKnobs& knobs) {
  std::optional<v1::ContractKnobs> best;
  for (v1::ProductMath math : kWays) {
    if (knobs.math() != v1::PRODUCT_AUTO && knobs.math() != math) continue;
    if (knobs.math() == v1::PRODUCT_AUTO && !MayChoose(form, math, target)) continue;
    const auto one = Quickest(form, knobs, math, target);
    if (one && (!best || SecondsOf(form, *one, target) < SecondsOf(form, *best, target)))
      best = one;
  }
  if (best) knobs = *best;
  // What was set does not fit; the checks say so.
  if (knobs.math() == v1::PRODUCT_AUTO) knobs.set_math(v1::PRODUCT_PLAIN);
  if (knobs.tile_m() == 0) knobs.set_tile_m(64);
  if (knobs.tile_n() == 0) knobs.set_tile_n(64);
  if (knobs.split() == 0) knobs.set_split(1);
  Complete(form, target, knobs);
}

}  // namespace

int64_t RunOf(const ContractForm& form, const v1::ContractKnobs& knobs) {
  if (ScalesRuns(form, knobs.math())) return knobs.run();
  const int64_t part = CeilDiv(form.k, knobs.split());
  return graph::IsFloat(form.sums) && knobs.run() < part ? knobs.run() : 0;
}

int64_t ContractSharedBytes(const ContractForm& form, const v1::ContractKnobs& knobs,
                            const Target& target) {
  if (IsLibrary(knobs)) return 0;
  if (IsFew(knobs)) return FewSharedBytes(form, knobs);
  if (IsPlain(knobs, target)) {
    return int64_t{2} * kPlainStep * (knobs.tile_m() + knobs.tile_n() + 8) *
           graph::SizeOf(form.sums);
  }
  // As ws::Contract has it.
  constexpr int64_t kRowBytes = 128, kBarriers = 16;  // two of each stage, and of each group
  const Sides sides = SidesOf(form, knobs);
  const int64_t step =
      PartsOf(knobs.math()) * (int64_t{sides.tile_rows} + sides.tile_columns) * kRowBytes;
  const int64_t box = int64_t{4} * kGroupRows * std::min(64, sides.tile_columns);
  const bool scaled = IsInline(knobs) || (knobs.math() == v1::PRODUCT_FP16X3 &&
                                          (knobs.split() == 1 || MeetsInCluster(knobs, target)));
  const int64_t kept = scaled ? int64_t{4} * (kGroupRows + sides.tile_columns) : 0;
  return 1024 + knobs.stages() * (step + kBarriers) +
         sides.tile_rows / kGroupRows * (box + kept + kBarriers);
}

int64_t ContractBlocks(const ContractForm& form, const v1::ContractKnobs& knobs) {
  const Sides sides = SidesOf(form, knobs);
  const int64_t down = CeilDiv(CeilDiv(sides.rows, sides.tile_rows), knobs.cluster());
  return down * knobs.cluster() * CeilDiv(sides.columns, sides.tile_columns) * form.batch *
         knobs.split();
}

bool MeetsInCluster(const v1::ContractKnobs& knobs, const Target& target) {
  const int split = knobs.split();
  if (IsFew(knobs))
    return split > 1 && split <= std::min(kMostMeeting, target.max_cluster) &&
           (split & (split - 1)) == 0;
  return !IsPlain(knobs, target) && !IsInline(knobs) && knobs.cluster() == 1 &&
         knobs.turns() != 2 && split > 1 && split <= kMostMeeting && (split & (split - 1)) == 0;
}

int ContractCluster(const v1::ContractKnobs& knobs, const Target& target) {
  return MeetsInCluster(knobs, target) ? knobs.split() : knobs.cluster();
}

int64_t BlocksAtOnce(const v1::ContractKnobs& knobs, const Target& target) {
  const int64_t cluster = ContractCluster(knobs, target);
  const int64_t within = cluster > 2 && target.sm_count >= kClustersWithin
                             ? target.sm_count / kClustersWithin * kClustersWithin
                             : target.sm_count;
  return std::max(cluster, within / cluster * cluster);
}

double ProductRate(const ContractForm& form, const v1::ContractKnobs& knobs, const Target& target) {
  if (IsLibrary(knobs)) return form.products() / LibrarySeconds(form, knobs, target);
  if (IsFew(knobs)) return FewRate(form, knobs, target);
  if (IsPlain(knobs, target)) return target.products_per_second * PlainPart(knobs);
  const double work = static_cast<double>(knobs.tile_m()) * knobs.tile_n() * kTensorStep;
  return work / StepSeconds(form, knobs, target) * target.sm_count;
}

absl::StatusOr<v1::Group> ResolveContract(const Analysis& group, const ContractForm& form,
                                          const v1::Group& knobs, const Target& target) {
  v1::Group resolved = knobs;
  v1::ContractKnobs& contract = *resolved.mutable_contract();
  if (contract.vector_bytes() == 0) contract.set_vector_bytes(16);
  Checker check(group.name());
  const std::string misfit = Misfit(form, contract.math(), target);
  check.That(misfit.empty() || contract.math() == v1::PRODUCT_AUTO,
             StrCat("contract.math is ", v1::ProductMath_Name(contract.math()), "; ", misfit));
  if (!check.status().ok()) return check.status();
  Choose(form, target, contract);
  const std::string wrong = Wrong(form, contract, target);
  check.That(wrong.empty(), wrong);
  const v1::PrecisionKnobs& precision = resolved.precision();
  check.That(precision.accumulator() != v1::ACCUMULATOR_COMPENSATED,
             "precision.accumulator is compensated; sums of products join a total in fp32 or fp64");
  if (contract.math() != v1::PRODUCT_PLAIN) {
    check.That(precision.accumulator() != v1::ACCUMULATOR_F64,
               "precision.accumulator is fp64; totals behind tensor cores add up in fp32");
  }
  if (!check.status().ok()) return check.status();
  if (precision.accumulator() == v1::ACCUMULATOR_AUTO)
    resolved.mutable_precision()->set_accumulator(v1::ACCUMULATOR_F32);
  return resolved;
}

std::vector<Layout> ContractLayouts(const ContractForm& form, const v1::Group& resolved,
                                    const Target& target) {
  std::vector<Layout> layouts;
  const v1::ContractKnobs& now = resolved.contract();
  const double present = SecondsOf(form, now, target);
  const auto add = [&](const v1::ContractKnobs& one) {
    Layout layout;
    layout.kind = "layout";
    layout.name = IsLibrary(one)
                      ? StrCat(target.library, ", algorithm ", one.algorithm())
                      : StrCat("tiles of ", one.tile_m(), " x ", one.tile_n(),
                               one.cluster() > 1 ? StrCat(" by ", one.cluster()) : "",
                               one.turns() > 1 ? ", by turns" : "",
                               one.split() > 1 ? StrCat(", ", one.split(), " blocks a tile") : "");
    layout.knobs = {{"tile_m", one.tile_m()},      {"tile_n", one.tile_n()},
                    {"split", one.split()},        {"stages", one.stages()},
                    {"cluster", one.cluster()},    {"turns", one.turns()},
                    {"algorithm", one.algorithm()}};
    if (one.math() != now.math()) {
      layout.owner = v1::PRECISION;
      absl::StrAppend(&layout.name, ", ", v1::ProductMath_Name(one.math()));
      layout.knobs.push_back({"math", one.math()});
      layout.knobs.push_back({"run", one.run()});
    }
    layout.prior = 0.2 * present / SecondsOf(form, one, target);
    layouts.push_back(layout);
  };
  const auto consider = [&](Shape tile) {
    for (int split = 1; split <= kMostSplit; split *= 2) {
      if (split > 1 && form.k / split < kLeastPart) break;
      v1::ContractKnobs one = now;
      one.set_tile_m(tile.m);
      one.set_tile_n(tile.n);
      one.set_split(split);
      one.clear_cluster();
      one.clear_stages();
      one.clear_turns();
      Complete(form, target, one);
      const int shared = one.cluster();
      for (int choice = 0; choice < 2 * shared; ++choice) {
        one.set_cluster(shared - choice % shared);
        one.set_turns(choice / shared + 1);
        if (!Wrong(form, one, target).empty() || SecondsOf(form, one, target) > 2 * present)
          continue;
        const bool same = tile.m == now.tile_m() && tile.n == now.tile_n() &&
                          split == now.split() && one.cluster() == now.cluster() &&
                          one.turns() == now.turns();
        if (!same) add(one);
      }
    }
  };
  if (!IsLibrary(now)) {
    for (Shape tile : TilesOf(form, now.math(), target)) consider(tile);
  }
  // The quickest of each other way to multiply.
  for (v1::ProductMath math : kWays) {
    const bool library = math == v1::PRODUCT_LIBRARY;
    if ((math == now.math() && !library) || !MayTry(form, math, target)) continue;
    v1::ContractKnobs open;
    open.set_vector_bytes(now.vector_bytes());
    open.set_raster(now.raster());
    auto one = Quickest(form, open, math, target);
    if (!one || SecondsOf(form, *one, target) > 2 * present) continue;
    // The library knows better which of its algorithms is quick than an estimate, but not for sure.
    for (int algorithm = 1; algorithm <= (library ? kAlgorithms : 1); ++algorithm) {
      one->set_algorithm(algorithm);
      if (math != now.math() || algorithm != now.algorithm()) add(*one);
    }
  }
  return layouts;
}

}  // namespace warpsmith::codegen
