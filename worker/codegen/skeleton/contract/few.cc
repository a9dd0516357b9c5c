// Products of which one side has few rows: geometry and kernels of worker/kernels/contract_few.cuh.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "worker/codegen/skeleton/contract/contract.h"
#include "worker/codegen/skeleton/contract/glue.h"

namespace warpsmith::codegen {
namespace {

using absl::StrAppend;
using absl::StrCat;

constexpr int kWarps = kPlainThreads / 32;
// Sums of a thread are fragments of 16 rows of `many` and 8 of `few`: with so many of the latter,
// it has registers for two of the former.
constexpr int64_t kColumnsOfTwo = 4;
// Elements, fragments and sums of a thread for which it has registers, alone on its multiprocessor
// and with another block: of 16 bits, and in two parts. Fitted to what ptxas 13.0 made of them.
constexpr int64_t kOfTwoBlocks[] = {120, 90}, kOfOneBlock[] = {180, 190}, kOfTwoBlocksExact = 112;
// Rows of `few` up to which fp32 is multiplied by ordinary instructions: making two parts of an
// element takes as many as multiplying it with so many.
constexpr int64_t kMostExact = 16;
// Blocks of a multiprocessor that read no step ahead, of 16 bits and so many columns.
constexpr int kBlocksNotAhead[] = {0, 3, 2};
constexpr int64_t kColumnsNotAhead = 2;
constexpr int kMostFewAhead = 4;  // steps
// Where threads read words as they are multiplied: the most columns, each 16 rows of which want to
// be read for more rows of `many`; and words and sums of a thread that leave so many blocks room.
constexpr int64_t kColumnsDirect = 2;
struct Room {
  int64_t words;
  int blocks;
};
constexpr Room kDirectRooms[] = {{52, 4}, {112, 2}, {208, 1}};

// Whether words of an operand in memory are words of its fragments.
bool LiesDirectly(const ContractForm& form, int operand) {
  const Strided* strided = StridedFor(form, operand, v1::PRODUCT_FEW);
  return strided != nullptr && !strided->along_rows && graph::SizeOf(strided->type) == 2;
}

// As ws::WideTile has it.
int64_t WideWords(int tile, int64_t columns) {
  constexpr int kDeep = 16;
  const int lanes = tile % 32 == 0 ? 32 : 16, groups = kPlainThreads / lanes, down = tile / lanes;
  const int64_t most = down > 4 ? 2 : down > 2 ? 4 : 8;
  return kDeep * (tile + std::min(CeilDiv(columns, int64_t{groups}), most) * groups);
}

}  // namespace

FewShape FewShapeOf(const ContractForm& form, const v1::ContractKnobs& knobs) {
  FewShape shape;
  shape.many = form.m > form.n ? 0 : 1;
  shape.rows = std::max(form.m, form.n);
  const int64_t of_side = std::min(form.m, form.n);
  const int piece = shape.many == 0 ? knobs.tile_n() : knobs.tile_m();
  shape.piece = of_side <= kMostFew ? of_side : std::clamp<int64_t>(piece, 8, kMostFew);
  shape.pieces = CeilDiv(of_side, shape.piece);
  shape.columns = CeilDiv(shape.piece, 8);
  shape.parts = form.apart.possible() ? 1 : of_side <= kMostExact ? 0 : 2;
  // Where words are multiplied as they are read, all of a thread's K is one run.
  shape.direct = form.halves() && shape.columns <= kColumnsDirect && form.k % 8 == 0 &&
                 (knobs.vector_bytes() == 0 || knobs.vector_bytes() == 16) &&
                 LiesDirectly(form, 0) && LiesDirectly(form, 1);
  shape.blocks = shape.direct                     ? static_cast<int>(shape.columns)
                 : shape.columns <= kColumnsOfTwo ? 2
                                                  : 1;
  shape.tile = shape.many == 0 ? knobs.tile_m() : knobs.tile_n();
  shape.step = knobs.run();
  const int across = shape.tile / (16 * shape.blocks);
  shape.slices = across > 0 ? kWarps / across : 0;
  if (shape.direct) {
    // Words of two steps, and sums.
    shape.elements = int64_t{2} * (2 * shape.blocks + shape.columns) * 4 * (shape.step / 32) +
                     4 * shape.blocks * shape.columns;
    shape.blocks_per_sm = 0;
    for (const Room& room : kDirectRooms) {
      if (shape.blocks_per_sm == 0 && shape.elements <= room.words)
        shape.blocks_per_sm = room.blocks;
    }
    return shape;
  }
  // A step's elements of `many` (as they are in memory, and some that are being made of it, or all
  // of them made) and their fragments, elements of `few`, sums of a step and of all.
  constexpr int64_t kBeingMade = 16;
  const bool exact = shape.parts == 0;
  const int64_t many = int64_t{2} * shape.blocks * shape.step / 4;
  const int64_t bytes = std::clamp<int64_t>(form.beside_bytes[shape.many == 0 ? 0 : 1], 1, 4);
  const int64_t held = exact ? 0 : shape.parts == 2 ? many : many * bytes / 4 + kBeingMade;
  const int64_t scales = form.apart.run > 0 ? 2 * (shape.blocks + shape.columns) : 0;
  const int64_t few = shape.columns * 8 * shape.step * shape.slices / kPlainThreads;
  const bool ahead = shape.parts == 2 || shape.columns > kColumnsNotAhead;
  shape.ahead = exact   ? std::max(1, knobs.stages()) - (shape.columns > 1 ? 1 : 0)
                : ahead ? std::max(1, knobs.stages())
                        : 0;
  const int64_t step = many * bytes / 4 + few / 2 + scales;  // as it is in memory
  if (exact) {
    // A step's elements, and sums of a row and a column.
    shape.elements =
        many + few + 2 * shape.blocks * CeilDiv(shape.piece, 4) * 4 + shape.ahead * step;
    shape.blocks_per_sm = shape.elements <= kOfTwoBlocksExact ? 2 : 1;
    return shape;
  }
  shape.elements = held + many / 2 * shape.parts + few + int64_t{8} * shape.blocks * shape.columns +
                   scales + std::max(0, shape.ahead - 1) * step;
  shape.blocks_per_sm = shape.ahead == 0 ? kBlocksNotAhead[shape.columns]
                        : shape.elements <= kOfTwoBlocks[shape.parts - 1] ? 2
                                                                          : 1;
  return shape;
}

std::string FewWrong(const ContractForm& form, const v1::ContractKnobs& knobs) {
  const FewShape shape = FewShapeOf(form, knobs);
  if (shape.step != 32 && shape.step != 64 && shape.step != 128)
    return StrCat("contract.run is ", shape.step,
                  "; PRODUCT_FEW adds up 32, 64 or 128 elements at a time");
  if (knobs.split() > CeilDiv(form.k, shape.step))
    return StrCat("contract.split is ", knobs.split(), "; K of ", form.k, " has ",
                  CeilDiv(form.k, shape.step), " parts of ", shape.step,
                  " that blocks could share");
  // Each part of K has steps.
  const int64_t steps = CeilDiv(form.k, shape.step);
  if (CeilDiv(steps, knobs.split()) * (knobs.split() - 1) >= steps)
    return StrCat("contract.split is ", knobs.split(), "; of ", steps,
                  " steps along K the last block would have none");
  const char* many = shape.many == 0 ? "contract.tile_m" : "contract.tile_n";
  const char* few = shape.many == 0 ? "contract.tile_n" : "contract.tile_m";
  const int least = 16 * shape.blocks;
  if (shape.tile < least || shape.tile > kWarps * least || shape.tile % least != 0 ||
      kWarps % (shape.tile / least) != 0)
    return StrCat(many, " is ", shape.tile, "; warps of PRODUCT_FEW have ", least,
                  " rows each, and 1, 2, 4 or 8 of them are below each other");
  const int other = shape.many == 0 ? knobs.tile_n() : knobs.tile_m();
  if (shape.pieces == 1 ? other < 8 * shape.columns : other != shape.piece || other % 16 != 0)
    return StrCat(few, " is ", other, "; a block of PRODUCT_FEW has all ", std::min(form.m, form.n),
                  " rows of that side, or a multiple of 16 up to ", kMostFew,
                  " where there are more");
  if (knobs.cluster() != 1) return "contract.cluster is of PRODUCT_TENSOR; PRODUCT_FEW has 1";
  if (knobs.stages() > kMostFewAhead ||
      (knobs.stages() != 1 && (shape.direct || shape.parts == 2 || shape.ahead == 0)))
    return StrCat("contract.stages is ", knobs.stages(), "; PRODUCT_FEW reads up to ",
                  kMostFewAhead,
                  " steps ahead of fp32 that it multiplies as such and of more than ",
                  8 * kColumnsNotAhead, " rows of 16 bits or fewer, and else 1");
  if (shape.direct ? shape.blocks_per_sm == 0 : shape.elements > kOfOneBlock[shape.parts == 2])
    return StrCat(many, " ", shape.tile, ", contract.run ", shape.step, " and contract.stages ",
                  knobs.stages(), ": threads have no registers for so many elements");
  return "";
}

int64_t FewSharedBytes(const ContractForm& form, const v1::ContractKnobs& knobs) {
  // As ws::FewContract has it.
  const FewShape shape = FewShapeOf(form, knobs);
  const int64_t rows = shape.columns * 8;
  const int64_t stage = shape.parts == 0 ? shape.step * rows
                                         : shape.step / 16 * shape.columns * 32 * 2 * shape.parts +
                                               (shape.parts == 2 ? rows : 0);
  const int64_t sums = int64_t{shape.tile} * rows;
  const int64_t words = std::max({shape.direct ? 0 : 2 * shape.slices * stage, shape.slices * sums,
                                  shape.parts == 2 ? sums + WideWords(shape.tile, rows) : 0});
  return 4 * (words + shape.tile + rows + 4);
}

namespace {

std::string LinesText(const ContractForm& form, int operand) {
  const Strided& strided = *StridedFor(form, operand, v1::PRODUCT_FEW);
  return StrCat("ws::Lines<", strided.offset, ", ", form.batch > 1 ? strided.batch : 0, ", ",
                strided.row, ">");
}

}  // namespace

absl::Status EmitFew(const Analysis& group, const Domain& domain, const ContractForm& form,
                     const v1::Group& resolved, const Target& target, KernelWriter& writer) {
  const v1::ContractKnobs& knobs = resolved.contract();
  const FewShape shape = FewShapeOf(form, knobs);
  const ContractWidths& widths = WidthsOf(group, domain, form, knobs);
  absl::Status written = WriteContractGlue(group, domain, form, resolved, writer);
  if (!written.ok()) return written;
  const bool meets = MeetsInCluster(knobs, target), leaves = knobs.split() > 1 && !meets;
  const bool brain = shape.parts == 1 && form.apart.type == graph::DType::kBF16;
  const std::string config = StrCat(
      "ws::FewConfig<ws::", brain ? "FewBf16" : "FewFp16", ", ", shape.parts, ", ",
      shape.many == 0 ? "true" : "false", ", ", shape.tile, ", ", shape.piece, ", ", shape.blocks,
      ", ", shape.step, ", ", shape.ahead, ", ", knobs.split(), ", ", meets ? "true" : "false",
      shape.direct
          ? StrCat(", ", LinesText(form, shape.many), ", ", LinesText(form, 1 - shape.many))
      : ScalesRuns(form, knobs.math()) ? ", ws::NoLines, ws::NoLines, true"
                                       : "",
      ">");
  std::vector<KernelArgument> extra;
  int partial = -1;
  const int64_t sums = form.batch * form.m * form.n;
  if (leaves) {
    partial = writer.Workspace("_partial", knobs.split() * sums * 4);
    extra = {{"float* partial", partial}};
  }
  std::string arguments = leaves ? "partial" : "nullptr";
  if (shape.direct) {
    for (const auto& [name, operand] : {std::pair{"many", shape.many}, {"few", 1 - shape.many}}) {
      extra.push_back({StrCat("const void* ", name),
                       writer.BufferOf(StridedFor(form, operand, v1::PRODUCT_FEW)->tensor)});
      StrAppend(&arguments, ", ", name);
    }
  }
  KernelShape kernel;
  kernel.threads = kPlainThreads;
  kernel.blocks_per_sm = shape.blocks_per_sm;
  kernel.grid = ContractBlocks(form, knobs);
  kernel.shared_bytes = FewSharedBytes(form, knobs);
  kernel.cluster = ContractCluster(knobs, target);
  auto launch = writer.Kernel(
      leaves ? "_partial" : "", kernel, extra,
      StrCat("ws::contract_few<", writer.glue(), ", ", config, ">(g, ", arguments, ")"));
  if (!launch.ok() || !leaves) return launch.status();
  KernelShape combine;
  combine.threads = kPlainThreads;
  combine.grid = CeilDiv(sums, int64_t{kPlainThreads} * widths.finish);
  return writer
      .Kernel("_combine", combine, {{"const float* partial", partial}},
              StrCat("ws::contract_combine<", writer.glue(), ", float>(g, ", knobs.split(),
                     ", partial)"))
      .status();
}

}  // namespace warpsmith::codegen
