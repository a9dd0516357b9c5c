// Products on the tensor cores of sm_90a: maps of the operands as they are or as they were packed,
// and the kernels of worker/kernels/contract.cuh and contract_pack.cuh.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "worker/codegen/skeleton/contract/contract.h"
#include "worker/codegen/skeleton/contract/glue.h"

namespace warpsmith::codegen {
namespace {

using absl::StrCat;

constexpr int kSwizzle = 128;     // bytes of a box's row
constexpr int kRowElements = 64;  // of 16 bits
constexpr int64_t kLine = 8;      // elements of 16 bytes
// Of ws::pack_columns: vectors that a block has side by side.
constexpr int64_t kPackAcross = 8;
// Tiles of products that are made in fp32 after all (ws::contract_rest).
constexpr int kRestTile = 128, kRestRun = 256;

int64_t RoundUp(int64_t n, int64_t to) { return CeilDiv(n, to) * to; }

// An operand where the copy engine finds it.
struct Placed {
  int buffer = -1;
  bool along_rows = false;
  int64_t offset = 0, line = 0,
          part = 0;  // elements: from a line to the next, from a batch to the next
  int64_t batches = 1;
};

Placed PackedAt(const ContractForm& form, int operand, v1::ProductMath math,
                const Reading& reading) {
  const int64_t rows = operand == 0 ? form.m : form.n;
  Placed at;
  at.along_rows = reading.along_rows;
  at.line = RoundUp(reading.along_rows ? rows : form.k, kLine);
  at.part = at.line * (reading.along_rows ? form.k : rows);
  at.batches = form.batch * PartsOf(math);
  return at;
}

Placed StridedAt(const ContractForm& form, int operand, const KernelWriter& writer) {
  const Strided& strided = *form.strided[operand];
  const int64_t rows = operand == 0 ? form.m : form.n;
  Placed at;
  at.buffer = writer.BufferOf(strided.tensor);
  at.along_rows = strided.along_rows;
  at.offset = strided.offset;
  // Where there is one line or one batch, the stride to the next stands for nothing.
  const int64_t lines = at.along_rows ? form.k : rows;
  const int64_t inner = at.along_rows ? rows : form.k;
  at.line = lines > 1 ? (at.along_rows ? strided.k : strided.row) : RoundUp(inner, kLine);
  at.part = form.batch > 1 ? strided.batch : RoundUp(at.line * lines, kLine);
  at.batches = form.batch;
  return at;
}

// `tile`: rows of a box of an operand along K.
v1::TensorMap MapOf(const ContractForm& form, int operand, const Placed& at, graph::DType type,
                    int tile) {
  const int64_t rows = operand == 0 ? form.m : form.n;
  v1::TensorMap map;
  map.set_buffer(at.buffer);
  map.set_offset(at.offset * 2);
  map.set_dtype(graph::NameOf(type));
  for (int64_t size : {at.along_rows ? rows : form.k, at.along_rows ? form.k : rows, at.batches})
    map.add_sizes(size);
  for (int64_t stride : {at.line, at.part}) map.add_strides(stride * 2);
  for (int extent : {kRowElements, at.along_rows ? kTensorStep : tile, 1}) map.add_box(extent);
  map.set_swizzle(kSwizzle);
  return map;
}

// Blocks that pack an operand.
int64_t PackJobs(const ContractForm& form, int operand, const Reading& reading) {
  const int64_t rows = operand == 0 ? form.m : form.n;
  return form.batch * (reading.along_rows ? CeilDiv(rows, kPackAcross * reading.width) : rows);
}

const char* Bool(bool b) { return b ? "true" : "false"; }

std::string ConfigText(const std::string& name, const ContractForm& form,
                       const v1::ContractKnobs& knobs, graph::DType type, bool along_m,
                       bool along_n) {
  const int64_t run = RunOf(form, knobs) / kTensorStep;
  return StrCat("struct ", name,
                " {\n  using Type = ws::hopper::", type == graph::DType::kBF16 ? "Bf16" : "Fp16",
                ";\n  static constexpr int kM = ", form.m, ", kN = ", form.n, ", kK = ", form.k,
                ", kBatch = ", form.batch, ";\n  static constexpr int kTileM = ", knobs.tile_m(),
                ", kTileN = ", knobs.tile_n(), ", kStages = ", knobs.stages(),
                ", kCluster = ", knobs.cluster(), ", kRaster = ", knobs.raster(),
                ", kSplit = ", knobs.split(),
                ";\n  static constexpr int kParts = ", PartsOf(knobs.math()), ", kRun = ", run,
                ";\n  static constexpr bool kAlongM = ", Bool(along_m),
                ", kAlongN = ", Bool(along_n), ";\n};");
}

}  // namespace

bool IsPacked(const ContractForm& form, int operand, v1::ProductMath math) {
  return math == v1::PRODUCT_FP16X3 || !form.strided[operand].has_value();
}

int64_t PackedBytes(const ContractForm& form, int operand, v1::ProductMath math) {
  // Whichever way lines lie.
  const int64_t rows = operand == 0 ? form.m : form.n;
  return form.batch * PartsOf(math) * RoundUp(rows, kLine) * RoundUp(form.k, kLine) * 2;
}

absl::Status EmitTensor(const Analysis& group, const Domain& domain, const ContractForm& form,
                        const v1::Group& resolved, const Target& target, KernelWriter& writer) {
  const v1::ContractKnobs& knobs = resolved.contract();
  const ContractWidths& widths = WidthsOf(group, domain, form, knobs);
  absl::Status written = WriteContractGlue(group, domain, form, widths, StyleOf(resolved), writer);
  if (!written.ok()) return written;
  const std::string& g = writer.glue();
  const v1::ProductMath math = knobs.math();
  const bool parts = PartsOf(math) == 2;
  const graph::DType type = parts ? graph::DType::kF16 : form.elements[0];
  const Reading* const readings[2] = {&widths.a, &widths.b};
  Placed placed[2];
  bool packed[2];
  int back[2] = {-1, -1};
  for (int operand : {0, 1}) {
    packed[operand] = IsPacked(form, operand, math);
    const std::string name = operand == 0 ? "_a" : "_b";
    if (!packed[operand]) {
      placed[operand] = StridedAt(form, operand, writer);
      continue;
    }
    placed[operand] = PackedAt(form, operand, math, *readings[operand]);
    placed[operand].buffer = writer.Workspace(name, PackedBytes(form, operand, math));
    if (parts)
      back[operand] = writer.Workspace(StrCat(name, "_back"),
                                       form.batch * (operand == 0 ? form.m : form.n) * 4);
  }
  const std::string element = StorageType(type);
  if (packed[0] || packed[1]) writer.Text("#include <warpsmith/contract_pack.cuh>\n");
  if (packed[0] || packed[1]) {
    std::vector<KernelArgument> extra;
    std::string given;
    int64_t jobs[2] = {0, 0};
    for (int operand : {0, 1}) {
      const std::string name = operand == 0 ? "a" : "b";
      if (packed[operand]) {
        jobs[operand] = PackJobs(form, operand, *readings[operand]);
        extra.push_back({StrCat(element, "* ", name), placed[operand].buffer, {}});
        if (parts) extra.push_back({StrCat("float* back_", name), back[operand], {}});
      }
      absl::StrAppend(&given, ", ", packed[operand] ? name : "nullptr", ", ",
                      packed[operand] && parts ? StrCat("back_", name) : "nullptr");
    }
    auto launch =
        writer.Kernel("_pack", {kPlainThreads, 0, jobs[0] + jobs[1], 0}, extra,
                      StrCat("ws::contract_pack<", g, ", ", element, ", ", PartsOf(math), ", ",
                             jobs[0], ", ", Bool(packed[0] && packed[1]), ">(g", given, ")"));
    if (!launch.ok()) return launch.status();
  }

  const std::string config = StrCat(g, "_tiles"), end = StrCat(g, "_sums");
  writer.Text(
      StrCat(ConfigText(config, form, knobs, type, placed[0].along_rows, placed[1].along_rows),
             "\nusing ", end, " = ", parts ? StrCat("ws::Scaled<", g, ", false>") : g, ";\n"));
  const std::vector<KernelArgument> backs =
      parts ? std::vector<KernelArgument>{{"const float* back_a", back[0], {}},
                                          {"const float* back_b", back[1], {}}}
            : std::vector<KernelArgument>{};
  const std::string sums = parts ? StrCat(end, "(g, back_a, back_b)") : "g";
  const int split = knobs.split();
  const int64_t sum_count = form.batch * form.m * form.n;
  const int partial = split > 1 ? writer.Workspace("_partial", split * sum_count * 4) : -1;
  std::vector<KernelArgument> extra = {
      {"const __grid_constant__ ws::hopper::Map map_a", -1,
       MapOf(form, 0, placed[0], type, knobs.tile_m())},
      {"const __grid_constant__ ws::hopper::Map map_b", -1,
       MapOf(form, 1, placed[1], type, knobs.tile_n() / knobs.cluster())}};
  extra.insert(extra.end(), backs.begin(), backs.end());
  if (split > 1) extra.push_back({"float* partial", partial, {}});
  KernelShape shape;
  shape.threads = 128 * (knobs.tile_m() / kGroupRows + 1);
  shape.blocks_per_sm = 1;
  shape.cluster = knobs.cluster();
  const int64_t most = target.sm_count / knobs.cluster() * knobs.cluster();
  shape.grid = std::min(ContractBlocks(form, knobs), most);
  shape.shared_bytes = ContractSharedBytes(form, knobs);
  auto launch = writer.Kernel(split > 1 ? "_partial" : "", shape, extra,
                              StrCat("ws::contract<", config, ">(", sums, ", map_a, map_b, ",
                                     split > 1 ? "partial" : "nullptr", ")"));
  if (!launch.ok()) return launch.status();
  if (split > 1) {
    std::vector<KernelArgument> combined = {{"const float* partial", partial, {}}};
    combined.insert(combined.end(), backs.begin(), backs.end());
    launch = writer.Kernel(
        "_combine",
        {kPlainThreads, 0, CeilDiv(sum_count, int64_t{kPlainThreads} * widths.finish), 0}, combined,
        StrCat("ws::contract_combine<", end, ", float>(", sums, ", ", split, ", partial)"));
    if (!launch.ok()) return launch.status();
  }
  if (!parts) return absl::OkStatus();
  KernelShape rest;
  rest.threads = kPlainThreads;
  rest.grid = std::min<int64_t>(
      target.sm_count, CeilDiv(form.m, kRestTile) * CeilDiv(form.n, kRestTile) * form.batch);
  rest.shared_bytes = int64_t{2} * kPlainStep * (2 * kRestTile + 8) * 4;
  return writer
      .Kernel("_rest", rest, backs,
              StrCat("ws::contract_rest<", g, ", ws::PlainConfig<", kRestTile, ", ", kRestTile,
                     ", ", kPlainStep, ", ", form.k > kRestRun ? kRestRun : 0,
                     ", 1, 8, float>>(g, "
                     "back_a, back_b)"))
      .status();
}

}  // namespace warpsmith::codegen
