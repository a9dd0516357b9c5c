// Defaults and checks of the contract skeleton's knobs, and places to try beside them: by what they
// are estimated to take (estimate.cc).
#include <algorithm>
#include <cmath>
#include <optional>

#include "absl/strings/str_cat.h"
#include "worker/codegen/skeleton/contract/contract.h"
#include "worker/codegen/skeleton/contract/estimate.h"

namespace warpsmith::codegen {
namespace {

using absl::StrCat;

// Elements of K that are worth a block.
constexpr int64_t kLeastPart = 128;
constexpr int kMostSplit = 64;

// Columns of a tile, half of them of either of two products.
constexpr int kLeastPair = 32;

// ---- plain

// Sums of fp32 that a thread adds up one after another before they join the total: what a library
// adds up in one piece is longer.
constexpr int kPlainRun = 256;
// Sums of a thread that it has registers for, with its totals.
constexpr int64_t kMostSums = 64;
// ---- tensor cores

// fp32 products by fp16: elements of K between additions in fp32. Longer runs are no quicker.
constexpr int kPartsRun = 64, kNarrowRun = 128;
// Groups of a block, and sums of a thread, with those of a run, that it has registers for: four
// groups have too few for anything.
constexpr int kMostGroups = 2;
constexpr int64_t kMostTensorSums = 128;
// Blocks of a multiprocessor, where registers of each are enough: sums of a thread times blocks.
constexpr int kMostBlocksOfSm = 4;
constexpr int64_t kMostSumsOfSm = 128;
// Columns of a tile that are no power of two: a multiple of these, where its blocks bring rows of
// the operand, of which a pattern in shared memory has eight; and the most of a tile that a group
// multiplies alone, 192 sums a thread.
constexpr int kLeastBetween = 64, kColumnsUnit = 16, kMostOfTurn = 192, kWidest = 256;
// Blocks of a cluster whose blocks share K, at most.
constexpr int kMostMeeting = 8;
// Tiles below each other, and waves of them, of which one more is little.
constexpr int64_t kRowsOfAny = 16, kManyWaves = 8;
constexpr int kMostStages = 12;
constexpr int kMostTail = 8;  // blocks of a cluster for a tile of the last wave
// ---- few rows

// Elements of K at a time, at the most.
constexpr int kMostFewRun = 128;
// ---- by a library

// What knobs of ours say that mean nothing to it.
constexpr int kLibraryTile = 64, kLibraryRun = 64;
// Algorithms to try.
constexpr int kAlgorithms = 4;

struct Shape {
  int m, n;
};
constexpr Shape kPlainTiles[] = {{128, 128}, {64, 128}, {128, 64}, {64, 64},  {64, 32},  {32, 64},
                                 {32, 32},   {16, 64},  {64, 16},  {16, 128}, {128, 16}, {16, 256},
                                 {256, 16},  {32, 16},  {16, 32},  {16, 16}};
// Filters of a thread, at the most, and places of a warp.
constexpr Shape kDirectTiles[] = {{16, 128}, {16, 256}};
// Where taps are shifts, whose groups each have a tile; and how many may take turns.
constexpr Shape kShiftsTiles[] = {{64, 128}, {128, 128}, {64, 256}},
                kShiftsTilesOfParts[] = {{64, 64}, {64, 128}};
constexpr int kMostTurns = 4;
// The smallest first: where memory alone counts, the rest of the others would be padding.
constexpr Shape kTensorTiles[] = {{64, 16},   {64, 32},   {128, 16}, {128, 32},
                                  {64, 64},   {64, 128},  {128, 64}, {64, 256},
                                  {128, 128}, {128, 192}, {128, 256}};

// Whether neighbours in memory may be rows of the operand that is not of the tiles' rows (which way
// it is packed is not known here, but for an operand that could do without).
bool MayLieAlongColumns(const ContractForm& form, const v1::ContractKnobs& knobs) {
  if (form.windows) return false;
  const int operand = 1 - SidesOf(form, knobs).first();
  if (IsPacked(form, operand, knobs.math()) &&
      (knobs.math() != v1::PRODUCT_FP16X3_INLINE || !form.strided[operand]))
    return true;
  return StridedFor(form, operand, knobs.math())->along_rows;
}

// Why this math is not for the group's operands and sums on this card; empty: it is.
std::string Misfit(const ContractForm& form, v1::ProductMath math, const Target& target) {
  if (form.pair && math != v1::PRODUCT_PLAIN && math != v1::PRODUCT_TENSOR)
    return "there are two products together; PRODUCT_TENSOR and PRODUCT_PLAIN make them";
  if (form.summed >= 0 && math != v1::PRODUCT_PLAIN && math != v1::PRODUCT_TENSOR &&
      math != v1::PRODUCT_FP8)
    return "what it makes is summed; PRODUCT_TENSOR, PRODUCT_FP8 and PRODUCT_PLAIN do";
  if (IsDirect(form)) return DirectMisfit(form, math);
  if (IsShifts(form) && form.summed >= 0)
    return "what it makes is summed; contract.windows of 1 does";
  if (form.windows && math != v1::PRODUCT_FP16X3 && math != v1::PRODUCT_FP16 &&
      (math != v1::PRODUCT_TENSOR || !form.halves()))
    return "it is not one of those that take windows of an image: PRODUCT_FP16X3, PRODUCT_FP16 "
           "and, of 16 bits as they are, PRODUCT_TENSOR";
  if (math == v1::PRODUCT_PLAIN) return "";
  if (math == v1::PRODUCT_FEW) {
    if (form.sums != graph::DType::kF32) return "tensor cores add up in fp32";
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
    return "there is code for tensor cores of sm_90a; elsewhere there are PRODUCT_FEW and "
           "PRODUCT_PLAIN";
  if (form.sums != graph::DType::kF32) return "tensor cores add up in fp32";
  for (int64_t extent : {form.m, form.n, form.depth(), form.batch * 2}) {
    if (extent > INT32_MAX) return "an axis has more than 2^31 elements";
  }
  if (math == v1::PRODUCT_LIBRARY && !form.halves() && !form.wide())
    return "its operands are neither both fp16 or both bf16 nor fp32 that lie as matrices; "
           "PRODUCT_FP16X3 takes any fp32";
  if (math == v1::PRODUCT_FP8 && !form.apart.eights)
    return "its operands are not, but for scales, numbers of float8_e4m3fn that are had along K; "
           "PRODUCT_TENSOR takes 16 bits";
  if (math == v1::PRODUCT_TENSOR && !form.apart.possible())
    return "its operands are not, but for scales, both fp16 or both bf16; PRODUCT_FP16X3 takes "
           "fp32";
  if (math == v1::PRODUCT_TENSOR && form.pair && (!form.halves() || !form.apart.strided[1]))
    return "there are two products together, and their operands are not as they are both fp16 or "
           "both bf16; PRODUCT_PLAIN takes any";
  return "";
}

// Bytes of shared memory that there are for a block.
int64_t SharedOf(const v1::ContractKnobs& knobs, const Target& target) {
  if (knobs.blocks_per_sm() < 2) return target.shared_per_block;
  return std::min(target.shared_per_block,
                  target.shared_per_sm / knobs.blocks_per_sm() - kReservedShared);
}

// Columns of a tile that is as wide as it has to be come in these: each of two products has whole
// patterns, and what is summed is summed over halves of 64 columns.
int UnitBetween(const ContractForm& form) {
  return form.summed >= 0 ? 4 * kColumnsUnit : form.pair ? 2 * kColumnsUnit : kColumnsUnit;
}
// Whether a tile may have columns that are no power of two. Of the loop of ordinary instructions
// threads have whole vectors of a tile with 192.
bool MayLieBetween(const ContractForm& form, const v1::ContractKnobs& knobs, const Target& target) {
  const Sides sides = SidesOf(form, knobs);
  if (IsPlain(knobs, target) && sides.tile_columns != kMostOfTurn) return false;
  return (knobs.math() == v1::PRODUCT_TENSOR || knobs.math() == v1::PRODUCT_FP8) &&
         !ScalesRuns(form, knobs.math()) && IsPowerOfTwo(sides.tile_rows) &&
         sides.tile_columns >= kLeastBetween && sides.tile_columns % UnitBetween(form) == 0;
}

// What is wrong with knobs that are all set; empty: nothing.
std::string Wrong(const ContractForm& form, const v1::ContractKnobs& knobs, const Target& target) {
  const int64_t run = RunOf(form, knobs), sums = int64_t{knobs.tile_m()} * knobs.tile_n();
  const std::string many = StrCat("contract.tile_m ", knobs.tile_m(), " and contract.tile_n ",
                                  knobs.tile_n(), ": threads have no registers for so many sums");
  if (IsLibrary(knobs)) {
    const bool ours = knobs.tile_m() != kLibraryTile || knobs.tile_n() != kLibraryTile ||
                      knobs.stages() != 1 || knobs.cluster() != 1 || knobs.split() != 1 ||
                      knobs.turns() != 1 || knobs.tail() != 1 || knobs.blocks_per_sm() != 1 ||
                      knobs.run() != kLibraryRun;
    return ours ? StrCat(
                      "tiles, stages, cluster, split, turns, tail, blocks_per_sm and run are the "
                      "library's own affair; with PRODUCT_LIBRARY they are ",
                      kLibraryTile, ", 1, 1, 1, 1, 1, 1 and ", kLibraryRun)
                : "";
  }
  if (form.summed >= 0 && (knobs.split() > 1 || knobs.tail() > 1))
    return StrCat("contract.split is ", knobs.split(), " and contract.tail ", knobs.tail(),
                  "; where tiles' ends are summed, blocks finish them alone");
  if (form.pair && knobs.split() > 1 && !MeetsInCluster(knobs, target))
    return StrCat("contract.split is ", knobs.split(),
                  "; parts of K of two products together meet in a cluster or not at all");
  if (form.pair && knobs.tile_n() < kLeastPair)
    return StrCat("contract.tile_n is ", knobs.tile_n(), "; of two products together it is ",
                  kLeastPair, " at the least");
  const bool may_turn = knobs.math() == v1::PRODUCT_TENSOR || IsShifts(form) ||
                        (form.windows && knobs.math() == v1::PRODUCT_FP16);
  if (knobs.turns() != 1 && !may_turn)
    return StrCat("contract.turns is ", knobs.turns(),
                  "; it is of PRODUCT_TENSOR, of PRODUCT_FP16 with contract.windows of 2, and of "
                  "contract.windows of 3");
  if (knobs.turns() > 2 && !IsShifts(form))
    return StrCat("contract.turns is ", knobs.turns(),
                  "; more than two groups take turns where contract.windows is 3");
  if (knobs.ties() != 1 && knobs.math() != v1::PRODUCT_FP16)
    return StrCat("contract.ties is ", knobs.ties(), "; it is of PRODUCT_FP16");
  const bool other_way = IsPlain(knobs, target) || IsFew(knobs) || IsInline(knobs);
  if (knobs.tail() != 1 && other_way)
    return StrCat("contract.tail is ", knobs.tail(),
                  "; it is of PRODUCT_TENSOR, PRODUCT_FP8, PRODUCT_FP16 and PRODUCT_FP16X3");
  if (knobs.blocks_per_sm() != 1 && (other_way || ContractCluster(knobs, target) > 1 ||
                                     knobs.turns() > 1 || ScalesRuns(form, knobs.math())))
    return StrCat(
        "contract.blocks_per_sm is ", knobs.blocks_per_sm(),
        "; it is of PRODUCT_TENSOR, PRODUCT_FP8, PRODUCT_FP16 and PRODUCT_FP16X3 without clusters, "
        "tails, turns and scales of runs");
  if (knobs.algorithm() != 1)
    return StrCat("contract.algorithm is ", knobs.algorithm(), "; it is of PRODUCT_LIBRARY");
  if (ContractSharedBytes(form, knobs, target) > SharedOf(knobs, target))
    return StrCat("needs ", ContractSharedBytes(form, knobs, target),
                  " bytes of shared memory a block, the card has ", SharedOf(knobs, target),
                  knobs.blocks_per_sm() > 1 ? " for each of contract.blocks_per_sm" : "",
                  "; lower contract.stages, contract.tile_m or contract.tile_n");
  const Sides sides = SidesOf(form, knobs);
  const char* const of_rows = sides.turned ? "contract.tile_n" : "contract.tile_m";
  const char* const of_columns = sides.turned ? "contract.tile_m" : "contract.tile_n";
  for (int tile : {knobs.tile_m(), knobs.tile_n()}) {
    if (!IsPowerOfTwo(tile) && !MayLieBetween(form, knobs, target))
      return StrCat("tiles of ", knobs.tile_m(), " x ", knobs.tile_n(), "; between powers of two ",
                    "there are multiples of ", UnitBetween(form), " from ", kLeastBetween,
                    " on as ", of_columns,
                    " of PRODUCT_TENSOR and PRODUCT_FP8, but for scales of runs");
  }
  if (ScalesRuns(form, knobs.math()) &&
      (knobs.run() == 0 || form.apart.run % knobs.run() != 0 || knobs.run() % kPlainStep != 0))
    return StrCat("contract.run is ", knobs.run(), "; scales are those of ", form.apart.run,
                  " elements of K, of which it has to be a part");
  if (IsFew(knobs)) return FewWrong(form, knobs);
  if (IsDirect(form)) return DirectWrong(form, knobs);
  if (IsShifts(form)) {
    if (IsPlain(knobs, target) && sums / kPlainThreads > kMostSums) return many;
    return ShiftsWrong(form, knobs, target);
  }
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
  const int64_t of_thread = int64_t{sides.tile_columns} / 2 * (run > 0 || IsInline(knobs) ? 2 : 1);
  if (groups > kMostGroups || of_thread > kMostTensorSums) return many;
  if (knobs.blocks_per_sm() > 1 && of_thread * groups * knobs.blocks_per_sm() > kMostSumsOfSm)
    return StrCat("contract.blocks_per_sm is ", knobs.blocks_per_sm(),
                  "; threads have no registers for ", of_thread, " sums in so many blocks");
  if (knobs.turns() == 2 &&
      (run > 0 || (groups == kMostGroups ? sides.tile_columns > kMostOfTurn : !form.windows)))
    return StrCat("contract.turns is 2; groups that take turns have tiles of 128 rows and at most ",
                  kMostOfTurn, " columns each, or of windows 64 rows, added up in one run");
  if (knobs.tail() > 1) {
    const int64_t blocks = ContractBlocks(form, knobs), at_once = BlocksAtOnce(knobs, target);
    if (knobs.cluster() != 1 || knobs.split() != 1 || knobs.turns() != 1)
      return StrCat("contract.tail is ", knobs.tail(),
                    "; its clusters have contract.cluster, split and turns of 1");
    if (knobs.tail() > target.max_cluster || blocks <= at_once || blocks % at_once == 0)
      return StrCat("contract.tail is ", knobs.tail(), "; ", blocks, " tiles, ", at_once,
                    " at once, have no last wave that such clusters could share");
  }
  if (knobs.stages() < 2)
    return StrCat("contract.stages is ", knobs.stages(), "; the tensor cores want 2 at the least");
  // Boxes of an operand whose neighbours are columns have 64 of them; rows come in patterns of
  // eight.
  const int columns = MayLieAlongColumns(form, knobs) ? 64 : 8;
  if (sides.own_columns() % (columns * knobs.cluster()) != 0)
    return StrCat(of_columns, " is ", sides.tile_columns,
                  form.pair ? ", half of it of each product" : "", "; ", knobs.cluster(),
                  " blocks bring ", columns, " columns each, or a multiple");
  const int64_t unit = std::max<int64_t>(StepOf(knobs.math()), run),
                units = CeilDiv(form.depth(), unit);
  const int shared = std::max(knobs.split(), knobs.tail());
  if (CeilDiv(units, shared) * (shared - 1) >= units)
    return StrCat(knobs.tail() > 1 ? "contract.tail" : "contract.split", " is ", shared, "; K of ",
                  form.k, " has ", units, " parts of ", unit, " that blocks could share");
  return "";
}

// Of PRODUCT_FEW: elements of K at a time, for which a thread has registers.
int FewRunOf(const ContractForm& form, const v1::ContractKnobs& knobs) {
  const FewShape shape = FewShapeOf(form, knobs);
  if (shape.direct) return kMostFewRun / 2;
  if (form.apart.run == kTensorStep / 2) return kTensorStep / 2;
  const bool many = shape.ahead > 0 && (shape.blocks == 2 || shape.columns > 8);
  return shape.parts == 0 || many ? 32 : 64;
}

// As many steps on their way as there is shared memory for.
int StagesOf(const ContractForm& form, const v1::ContractKnobs& knobs, const Target& target) {
  v1::ContractKnobs one = knobs;
  one.set_stages(1);
  const int64_t first = ContractSharedBytes(form, one, target);
  one.set_stages(2);
  const int64_t stage = ContractSharedBytes(form, one, target) - first;
  const int64_t fit = 1 + (SharedOf(knobs, target) - first) / stage;
  if (IsShifts(form)) {
    // No more than keep the memory busy: who is far ahead of others writes far from them.
    constexpr int64_t kOnTheirWay = 24 << 10;  // bytes of a multiprocessor
    const int64_t wanted = std::max(CeilDiv(kOnTheirWay, stage), ShiftsOf(form, knobs).steps);
    return static_cast<int>(std::clamp<int64_t>(std::min(wanted, fit), 2, kMostStages));
  }
  return static_cast<int>(std::clamp<int64_t>(fit, 2, kMostStages));
}

// Blocks below each other bring columns for each other, where boxes allow it and a block that is
// there for its neighbour alone costs little.
int ClusterOf(const ContractForm& form, const v1::ContractKnobs& knobs) {
  const Sides sides = SidesOf(form, knobs);
  const bool divides = sides.own_columns() >= 32 &&
                       sides.own_columns() % (MayLieAlongColumns(form, knobs) ? 128 : 16) == 0;
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
  if (knobs.ties() == 0) knobs.set_ties(1);
  if (knobs.turns() == 0) knobs.set_turns(IsShifts(form) ? 2 : 1);
  if (knobs.tail() == 0) knobs.set_tail(1);
  if (knobs.blocks_per_sm() == 0) knobs.set_blocks_per_sm(1);
  if (IsLibrary(knobs)) {
    if (knobs.run() == 0) knobs.set_run(kLibraryRun);
    if (knobs.cluster() == 0) knobs.set_cluster(1);
    if (knobs.stages() == 0) knobs.set_stages(1);
    if (knobs.raster() == 0) knobs.set_raster(1);
    return;
  }
  const bool plain = IsPlain(knobs, target);
  if (IsShifts(form)) {
    if (knobs.cluster() == 0) knobs.set_cluster(1);
    if (knobs.raster() == 0) knobs.set_raster(1);
  }
  if (knobs.run() == 0) {
    const int64_t whole = std::clamp<int64_t>(PowerOfTwoAtLeast(form.depth()), 64, 65536);
    knobs.set_run(IsFew(knobs)                                        ? FewRunOf(form, knobs)
                  : plain && !ScalesRuns(form, knobs.math())          ? kPlainRun
                  : PartsOf(knobs.math()) == 2                        ? kPartsRun
                  : knobs.math() == v1::PRODUCT_FP16                  ? static_cast<int>(whole)
                  : !form.halves() || knobs.math() == v1::PRODUCT_FP8 ? NarrowRunOf(form)
                                                                      : static_cast<int>(whole));
  }
  if (knobs.cluster() == 0) knobs.set_cluster(plain || IsFew(knobs) ? 1 : ClusterOf(form, knobs));
  if (knobs.stages() == 0)
    knobs.set_stages(plain || IsFew(knobs) ? 1 : StagesOf(form, knobs, target));
  if (knobs.raster() == 0) knobs.set_raster(RasterOf(form, knobs, target));
}

// Columns of tiles that are no power of two and fill the result: so many of them beside each other
// are as wide as it is, but for less than a unit each. Of many waves the last is little of all, and
// none is wanted.
std::vector<int> FittingColumns(const ContractForm& form, const v1::ContractKnobs& knobs,
                                const Target& target) {
  const Sides sides = SidesOf(form, knobs);
  const int64_t wide = sides.columns * form.of(), unit = UnitBetween(form);
  const int64_t down = CeilDiv(sides.rows, kMostGroups * kGroupRows) * form.batch;
  std::vector<int> all;
  for (int64_t across = CeilDiv(wide, kWidest); down * across <= kManyWaves * target.sm_count;
       ++across) {
    const int columns = static_cast<int>(CeilDiv(CeilDiv(wide, across), unit) * unit);
    if (columns < (across == 1 ? kLeastBetween : kWidest / 2)) break;
    if (!IsPowerOfTwo(columns) && (all.empty() || all.back() != columns)) all.push_back(columns);
  }
  return all;
}

// Tiles to choose among.
std::vector<Shape> TilesOf(const ContractForm& form, v1::ProductMath math, const Target& target) {
  if (math == v1::PRODUCT_FEW) {
    const int64_t rows = std::min(form.m, form.n);
    const bool of_m = form.m > form.n;  // `many`
    const int all = static_cast<int>(std::max<int64_t>(16, PowerOfTwoAtLeast(rows)));
    std::vector<Shape> tiles;
    const auto add = [&](int few, int many) {
      tiles.push_back(of_m ? Shape{many, few} : Shape{few, many});
    };
    if (rows <= kMostFew) {
      for (int many = 16; many <= 256; many *= 2) add(all, many);
    } else {
      for (int few : {64, static_cast<int>(kMostFew)}) {
        for (int many : {64, 128}) add(few, many);
      }
    }
    return tiles;
  }
  if (math == v1::PRODUCT_LIBRARY) return {{kLibraryTile, kLibraryTile}};
  if (IsDirect(form)) return {std::begin(kDirectTiles), std::end(kDirectTiles)};
  if (IsShifts(form) && PartsOf(math) == 2)
    return {std::begin(kShiftsTilesOfParts), std::end(kShiftsTilesOfParts)};
  if (IsShifts(form)) return {std::begin(kShiftsTiles), std::end(kShiftsTiles)};
  if (!OnTensorCores(math, target)) return {std::begin(kPlainTiles), std::end(kPlainTiles)};
  std::vector<Shape> tiles(std::begin(kTensorTiles), std::end(kTensorTiles));
  v1::ContractKnobs knobs;
  knobs.set_math(math);
  if (math == v1::PRODUCT_TENSOR || math == v1::PRODUCT_FP8) {
    for (int columns : FittingColumns(form, knobs, target)) tiles.push_back({128, columns});
  }
  if (SidesOf(form, knobs).turned) {
    for (Shape& tile : tiles) std::swap(tile.m, tile.n);
  }
  return tiles;
}

// The same with more blocks of a multiprocessor, where those fit and there are so many. They are
// seldom quicker, so that these are to try and defaults have one.
std::vector<v1::ContractKnobs> WithBlocks(const ContractForm& form, v1::ContractKnobs knobs,
                                          const Target& target) {
  std::vector<v1::ContractKnobs> all;
  const int64_t there = CeilDiv(ContractBlocks(form, knobs), target.sm_count);
  for (int blocks = 2; blocks <= kMostBlocksOfSm && blocks <= there; ++blocks) {
    knobs.set_blocks_per_sm(blocks);
    knobs.clear_stages();
    Complete(form, target, knobs);
    if (Wrong(form, knobs, target).empty()) all.push_back(knobs);
  }
  return all;
}

// The knobs, and the same with clusters for the last wave where those fit and it is not one of
// many; `set`: only that tail.
std::vector<v1::ContractKnobs> WithTails(const ContractForm& form, v1::ContractKnobs knobs, int set,
                                         const Target& target) {
  std::vector<v1::ContractKnobs> all;
  for (int tail = set == 0 ? 1 : set; tail <= (set == 0 ? kMostTail : set); tail *= 2) {
    knobs.set_tail(tail);
    const bool many = ContractBlocks(form, knobs) >= kManyWaves * BlocksAtOnce(knobs, target);
    if (set == 0 && tail > 1 && many) break;
    if (Wrong(form, knobs, target).empty()) all.push_back(knobs);
  }
  return all;
}

// The quickest of tiles and splits with this math, what was set kept; nullopt: none fits.
std::optional<v1::ContractKnobs> Quickest(const ContractForm& form, const v1::ContractKnobs& set,
                                          v1::ProductMath math, const Target& target) {
  std::optional<v1::ContractKnobs> best;
  double least = 0;
  const auto weigh = [&](v1::ContractKnobs one) {
    // Groups that share a tile, or take turns; blocks that share nothing or K, and then columns,
    // which is seldom quicker.
    const int shared = one.cluster(), turns = set.turns() != 0 ? set.turns()
                                              : IsShifts(form) ? kMostTurns
                                                               : 2;
    for (int choice = 0; choice < shared * turns; ++choice) {
      one.set_cluster(choice % shared + 1);
      one.set_turns(choice / shared + 1);
      if (IsShifts(form) && set.stages() == 0) {  // each group takes memory of them
        one.clear_stages();
        Complete(form, target, one);
      }
      if ((set.cluster() != 0 && one.cluster() != shared) ||
          (set.turns() != 0 && one.turns() != turns))
        continue;
      if (!Wrong(form, one, target).empty()) continue;
      if (set.raster() == 0) one.set_raster(RasterOf(form, one, target));
      // A last wave that is not full is little of many; blocks that share K share nothing else.
      const int64_t waves = ContractBlocks(form, one) / one.split() / BlocksAtOnce(one, target);
      if (set.split() == 0 && one.split() > 1 && waves >= kManyWaves) continue;
      std::vector<v1::ContractKnobs> all = WithTails(form, one, set.tail(), target);
      // Of windows few rows are one group's, which waits for its ends alone.
      if (form.windows && one.turns() == 1 && set.blocks_per_sm() == 0 && set.stages() == 0) {
        for (v1::ContractKnobs& more : WithBlocks(form, one, target))
          all.push_back(std::move(more));
      }
      for (const v1::ContractKnobs& way : all) {
        const double seconds = SecondsOf(form, way, target);
        if (best && seconds >= least) continue;
        least = seconds;
        best = way;
      }
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
  // Tiles that are seldom quick, for who asks for one of their sides.
  if (!best && IsShifts(form) && set.tile_m() + set.tile_n() != 0)
    consider({std::max(set.tile_m(), kGroupRows), std::max(set.tile_n(), kGroupRows)});
  return best;
}

constexpr v1::ProductMath kWays[] = {
    v1::PRODUCT_TENSOR, v1::PRODUCT_FP8, v1::PRODUCT_FP16X3, v1::PRODUCT_FP16X3_INLINE,
    v1::PRODUCT_FP16,   v1::PRODUCT_FEW, v1::PRODUCT_PLAIN,  v1::PRODUCT_LIBRARY};

// Whether it fits, and is one to try where nobody asked for it: eleven bits of operands where no
// more are seen of results, or the tolerance alone counts; and where narrower operands are not had
// as such.
bool MayTry(const ContractForm& form, v1::ProductMath math, const Target& target) {
  if (math == v1::PRODUCT_FP16 && (!(form.coarse || form.tolerant) || form.apart.possible()))
    return false;
  return Misfit(form, math, target).empty() &&
         (math == v1::PRODUCT_PLAIN || OnTensorCores(math, target) ||
          (math == v1::PRODUCT_LIBRARY && !target.fibers()));
}
// Whether it is one for defaults, which run without a library, and whose sums are as good as their
// results show; of pieces of few rows, where tensor cores are not to be had otherwise.
bool MayChoose(const ContractForm& form, v1::ProductMath math, const Target& target) {
  const bool seen = math == v1::PRODUCT_FP16 || (math == v1::PRODUCT_FP8 && !form.coarse);
  const bool pieces = math == v1::PRODUCT_FEW && std::min(form.m, form.n) > kMostFew;
  // Filters that fill a group's rows: of three products of 8 channels tensor cores were quicker.
  if (IsDirect(form) && form.m >= kGroupRows && OnTensorCores(v1::PRODUCT_FP16X3, target))
    return false;
  return math != v1::PRODUCT_LIBRARY && !seen && MayTry(form, math, target) &&
         !(pieces && OnTensorCores(v1::PRODUCT_TENSOR, target));
}

void Choose(const ContractForms& forms, const Target& target, v1::ContractKnobs& knobs) {
  std::optional<v1::ContractKnobs> best;
  double least = 0;
  for (const int windows : {1, 2, 3}) {
    if (knobs.windows() != 0 && knobs.windows() != windows) continue;
    v1::ContractKnobs set = knobs;
    set.set_windows(windows);
    for (v1::ProductMath math : kWays) {
      set.set_math(math);
      const ContractForm& form = forms.Of(set);
      if (!form.status.ok()) continue;
      if (knobs.math() != v1::PRODUCT_AUTO && knobs.math() != math) continue;
      if (knobs.math() == v1::PRODUCT_AUTO && !MayChoose(form, math, target)) continue;
      if (!Misfit(form, math, target).empty()) continue;
      const auto one = Quickest(form, set, math, target);
      if (!one) continue;
      const double seconds = SecondsOf(form, *one, target);
      if (best && seconds >= least) continue;
      best = one;
      least = seconds;
    }
  }
  if (best) knobs = *best;
  // What was set does not fit; the checks say so.
  if (knobs.windows() == 0) knobs.set_windows(1);
  if (knobs.math() == v1::PRODUCT_AUTO) knobs.set_math(v1::PRODUCT_PLAIN);
  const Shape tile = IsDirect(forms.Of(knobs)) ? kDirectTiles[0] : Shape{64, 64};
  if (knobs.tile_m() == 0) knobs.set_tile_m(tile.m);
  if (knobs.tile_n() == 0) knobs.set_tile_n(tile.n);
  if (knobs.split() == 0) knobs.set_split(1);
  Complete(forms.Of(knobs), target, knobs);
}

}  // namespace

int64_t RunOf(const ContractForm& form, const v1::ContractKnobs& knobs) {
  if (ScalesRuns(form, knobs.math())) return knobs.run();
  const int64_t part = CeilDiv(form.depth(), knobs.split());
  return graph::IsFloat(form.sums) && knobs.run() < part ? knobs.run() : 0;
}

int PlainStepOf(const ContractForm& form, const v1::ContractKnobs& knobs) {
  constexpr int kLonger = 2 * kPlainStep, kLeastSteps = 4;
  constexpr int64_t kSmallTile = 64 * 64;
  const int64_t run = RunOf(form, knobs);
  const bool small = int64_t{knobs.tile_m()} * knobs.tile_n() <= kSmallTile &&
                     graph::SizeOf(form.sums) <= sizeof(float);
  const bool long_enough = CeilDiv(form.k, knobs.split()) >= kLeastSteps * kLonger;
  return small && long_enough && run % kLonger == 0 ? kLonger : kPlainStep;
}

int64_t ContractSharedBytes(const ContractForm& form, const v1::ContractKnobs& knobs,
                            const Target& target) {
  if (IsLibrary(knobs)) return 0;
  if (IsFew(knobs)) return FewSharedBytes(form, knobs);
  if (IsDirect(form)) return DirectShapeOf(form, knobs).shared_bytes;
  if (IsPlain(knobs, target)) {
    return int64_t{2} * PlainStepOf(form, knobs) * (knobs.tile_m() + knobs.tile_n() + 8) *
           graph::SizeOf(form.sums);
  }
  // As ws::Contract has it.
  constexpr int64_t kRowBytes = 128, kBarriers = 16;  // two of each stage, and of each group
  const Sides sides = SidesOf(form, knobs);
  int64_t step =
      PartsOf(knobs.math()) * (int64_t{sides.tile_rows} + sides.tile_columns) * kRowBytes;
  int64_t stays = 0;
  if (IsShifts(form)) {
    const ShiftsShape shape = ShiftsOf(form, knobs);
    step = shape.step_bytes;
    stays = shape.resident_bytes + shape.zero_bytes + kBarriers;
  }
  const int64_t box = int64_t{4} * kGroupRows * std::min(64, sides.tile_columns);
  const bool scaled = IsInline(knobs) || (ScalesRows(knobs.math()) &&
                                          (knobs.split() == 1 || MeetsInCluster(knobs, target)));
  int64_t kept = scaled ? int64_t{4} * (kGroupRows + sides.tile_columns) : 0;
  if (IsShifts(form)) kept += 4 * knobs.tile_m() * form.row_words;
  if (form.windows) stays += knobs.stages() * 4;
  return 1024 + stays + knobs.stages() * (step + kBarriers) +
         GroupsOf(form, knobs) * (box + kept + kBarriers);
}

int64_t ContractBlocks(const ContractForm& form, const v1::ContractKnobs& knobs) {
  if (IsDirect(form)) return DirectShapeOf(form, knobs).blocks;
  const Sides sides = SidesOf(form, knobs);
  const int64_t down = CeilDiv(CeilDiv(sides.rows, sides.tile_rows), knobs.cluster());
  if (IsShifts(form) && knobs.math() != v1::PRODUCT_PLAIN)
    return down * ShiftsOf(form, knobs).tiles;
  return down * knobs.cluster() * sides.tiles_across() * form.batch * knobs.split();
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
  return MeetsInCluster(knobs, target) ? knobs.split() : std::max(knobs.cluster(), knobs.tail());
}

int64_t BlocksAtOnce(const v1::ContractKnobs& knobs, const Target& target) {
  const int64_t cluster = ContractCluster(knobs, target);
  if (cluster == 1) return int64_t{target.sm_count} * std::max(1, knobs.blocks_per_sm());
  int64_t within = target.sm_count;
  if (cluster > 2)
    within = std::min<int64_t>(within, target.clustered_blocks[cluster > 8 ? 2 : cluster > 4]);
  return std::max(cluster, within / cluster * cluster);
}

absl::StatusOr<v1::Group> ResolveContract(const Analysis& group, const ContractForms& forms,
                                          const v1::Group& knobs, const Target& target) {
  v1::Group resolved = knobs;
  v1::ContractKnobs& contract = *resolved.mutable_contract();
  if (contract.vector_bytes() == 0) contract.set_vector_bytes(16);
  Checker check(group.name());
  const bool either =
      contract.math() == v1::PRODUCT_AUTO && contract.windows() == 2 && !forms.windows.status.ok();
  const absl::Status& there = (either ? forms.direct : forms.Of(contract)).status;
  check.That(contract.windows() < 2 || there.ok(),
             StrCat("contract.windows is ", contract.windows(), "; ", there.message()));
  if (!check.status().ok()) return check.status();
  const std::string misfit = Misfit(forms.Of(contract), contract.math(), target);
  check.That(misfit.empty() || contract.math() == v1::PRODUCT_AUTO,
             StrCat("contract.math is ", v1::ProductMath_Name(contract.math()), "; ", misfit));
  if (!check.status().ok()) return check.status();
  Choose(forms, target, contract);
  // Where nothing fits what was set, what is there does not, either.
  const ContractForm& chosen = forms.Of(contract);
  check.That(chosen.status.ok(),
             StrCat("contract.windows is ", contract.windows(), "; ", chosen.status.message()));
  if (!check.status().ok()) return check.status();
  const std::string unfit = Misfit(chosen, contract.math(), target);
  check.That(unfit.empty(),
             StrCat("contract.math is ", v1::ProductMath_Name(contract.math()), "; ", unfit));
  if (!check.status().ok()) return check.status();
  const std::string wrong = Wrong(forms.Of(contract), contract, target);
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

std::vector<Layout> ContractLayouts(const ContractForms& forms, const v1::Group& resolved,
                                    const Target& target) {
  std::vector<Layout> layouts;
  const v1::ContractKnobs& now = resolved.contract();
  const ContractForm& form = forms.Of(now);
  const double present = SecondsOf(form, now, target);
  const auto add = [&](const v1::ContractKnobs& one) {
    Layout layout;
    layout.kind = "layout";
    layout.name =
        IsLibrary(one)
            ? StrCat(target.library, ", algorithm ", one.algorithm())
            : StrCat("tiles of ", one.tile_m(), " x ", one.tile_n(),
                     one.cluster() > 1 ? StrCat(" by ", one.cluster()) : "",
                     one.turns() == 2  ? ", by turns"
                     : one.turns() > 2 ? StrCat(", by turns of ", one.turns())
                                       : "",
                     one.tail() > 1 ? StrCat(", ", one.tail(), " blocks a last tile") : "",
                     one.blocks_per_sm() > 1
                         ? StrCat(", ", one.blocks_per_sm(), " blocks a multiprocessor")
                         : "",
                     one.split() > 1 ? StrCat(", ", one.split(), " blocks a tile") : "",
                     one.windows() == 3   ? " of shifts"
                     : one.windows() == 2 ? " of windows"
                                          : "",
                     one.ties() > 1 ? ", ties away" : "");
    layout.knobs = {{"tile_m", one.tile_m()},
                    {"tile_n", one.tile_n()},
                    {"split", one.split()},
                    {"stages", one.stages()},
                    {"cluster", one.cluster()},
                    {"turns", one.turns()},
                    {"tail", one.tail()},
                    {"algorithm", one.algorithm()},
                    {"blocks_per_sm", one.blocks_per_sm()},
                    {"windows", one.windows()},
                    {"ties", one.ties()}};
    if (one.math() == now.math() && one.run() != now.run())
      layout.knobs.push_back({"run", one.run()});
    if (one.math() != now.math()) {
      layout.owner = v1::PRECISION;
      absl::StrAppend(&layout.name, ", ", v1::ProductMath_Name(one.math()));
      layout.knobs.push_back({"math", one.math()});
      layout.knobs.push_back({"run", one.run()});
    }
    layout.prior = 0.2 * present / SecondsOf(forms.Of(one), one, target);
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
      one.clear_tail();
      one.clear_blocks_per_sm();
      Complete(form, target, one);
      const int shared = one.cluster();
      for (int choice = 0; choice < (IsShifts(form) ? kMostTurns : 2) * shared; ++choice) {
        one.set_cluster(shared - choice % shared);
        one.set_turns(choice / shared + 1);
        if (IsShifts(form)) {
          one.clear_stages();
          Complete(form, target, one);
        }
        one.set_tail(1);
        double alone = 2 * present;  // with a tail it has to be quicker than without
        std::vector<v1::ContractKnobs> all = WithTails(form, one, 0, target);
        if (one.turns() == 1) {
          for (v1::ContractKnobs& more : WithBlocks(form, one, target))
            all.push_back(std::move(more));
        }
        for (const v1::ContractKnobs& way : all) {
          const double seconds = SecondsOf(form, way, target);
          if (seconds > alone) continue;
          if (way.tail() == 1 && way.blocks_per_sm() == 1) alone = seconds;
          const bool same = tile.m == now.tile_m() && tile.n == now.tile_n() &&
                            split == now.split() && one.cluster() == now.cluster() &&
                            one.turns() == now.turns() && way.tail() == now.tail() &&
                            way.blocks_per_sm() == now.blocks_per_sm();
          if (!same) add(way);
        }
      }
    }
  };
  if (!IsLibrary(now)) {
    for (Shape tile : TilesOf(form, now.math(), target)) consider(tile);
  }
  // The quickest of each other way to multiply.
  for (const int windows : {1, 2, 3}) {
    v1::ContractKnobs open;
    open.set_vector_bytes(now.vector_bytes());
    open.set_raster(now.raster());
    open.set_windows(windows);
    for (v1::ProductMath math : kWays) {
      open.set_math(math);
      const ContractForm& other = forms.Of(open);
      if (!other.status.ok()) continue;
      const bool library = math == v1::PRODUCT_LIBRARY;
      const bool same = math == now.math() && windows == now.windows();
      if ((same && !library) || !MayTry(other, math, target)) continue;
      auto one = Quickest(other, open, math, target);
      if (!one || SecondsOf(other, *one, target) > 2 * present) continue;
      // The library knows better which of its algorithms is quick than an estimate, but not for
      // sure.
      for (int algorithm = 1; algorithm <= (library ? kAlgorithms : 1); ++algorithm) {
        one->set_algorithm(algorithm);
        if (!same || algorithm != now.algorithm()) add(*one);
      }
    }
  }
  return layouts;
}

}  // namespace warpsmith::codegen
