// Products on the tensor cores of sm_90a: maps of the operands as they are or as they were packed,
// and the kernels of worker/kernels/contract.cuh, contract_pack.cuh and contract_windows.cuh; or a
// library's step, which takes operands that lie likewise.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "worker/codegen/skeleton/contract/contract.h"
#include "worker/codegen/skeleton/contract/glue.h"
#include "worker/codegen/skeleton/contract/sums.h"

namespace warpsmith::codegen {
namespace {

using absl::StrCat;

constexpr int kSwizzle = 128;          // bytes of a box's row
constexpr int64_t kLine = 8;           // elements of 16 bits of 16 bytes
constexpr int64_t kPackedBytes = 128;  // a box's rows begin where lines of the cache do
// Of ws::pack_columns: rows that a block has side by side, `width` of them a thread's; and Spreads
// of each in shared memory.
int64_t PackBeside(int64_t width) { return std::max<int64_t>(32, 8 * width); }
constexpr int64_t kPackSpreads = 11;
// Of ws::Spread.
constexpr int64_t kSpreadBytes = 16;
// Vectors of a row that a thread has at once, where fewer than a block's threads share it.
constexpr int64_t kLaneVectors = 4;
constexpr int kLeastLanes = 4;
// The same of rows in two parts, in elements: those of a warp's threads or fewer, and of more (as
// ws::kMostKept has it); where that is not enough rows are read again. Of an H200, with blocks of a
// multiprocessor: 22 shapes.
constexpr int64_t kLaneElements = 16, kMostKept = 32;
// Blocks of a multiprocessor that the compiler has registers for: where few elements are kept;
// where more are, read as they are or made of something, which leaves none for a second block; and
// where each is made of much, which wants more threads.
constexpr int kPackBlocksFew = 4, kPackBlocksKept = 2, kPackBlocksMade = 1, kPackBlocksOfMuch = 3;
constexpr double kPackSteps = 8;
constexpr int64_t kKeptFew = 16, kKeptMade = 24;
// Blocks share rows that lie beside each other where so many of a multiprocessor would not be had
// otherwise, as long as a thread has this many vectors: their meeting costs. Of an H200, 13
// shapes.
constexpr double kShareBelow = 6;
constexpr int64_t kShareVectors = 8;
constexpr int kMostShare = 8;
// Blocks that pack, of a multiprocessor.
constexpr int64_t kPackBlocks = 8;
// Words that one of their threads writes of an operand that is not packed.
constexpr int64_t kWordsOfThread = 4;
// Tiles of products that are made in fp32 after all (ws::contract_rest).
constexpr int kRestTile = 64, kRestRun = 256, kRestRaster = 8, kRestBlocks = 2;
// What ws::contract_pack says of a row that is not packed: ws::back_of(1, ws::kThinRow).
constexpr uint32_t kThinRow = 0x3f800001;
constexpr int64_t kRestListBytes = 4 * (kRestTile + kPlainThreads / 32);  // of ws::contract_rest

int64_t RoundUp(int64_t n, int64_t to) { return CeilDiv(n, to) * to; }

// An operand where the copy engine finds it.
struct Placed {
  int buffer = -1;
  bool along_rows = false;
  int64_t offset = 0, line = 0,
          part = 0;            // elements: from a line to the next, from a batch to the next
  int64_t batches = 1, k = 0;  // and how many of K it has
  bool one = false;            // it is the same for all batches, and there once
};

Placed PackedAt(const ContractForm& form, int operand, v1::ProductMath math,
                const Reading& reading) {
  const int64_t rows = operand == 0 ? form.m : form.n;
  Placed at;
  if (form.windows) {  // of the image the copy engine has another map (WindowMapOf)
    at.line = at.k = form.depth();
    at.part = at.line * rows;
    at.batches = form.batch * PartsOf(math);
    return at;
  }
  at.along_rows = reading.along_rows;
  at.line = RoundUp(reading.along_rows ? rows : form.k, kPackedBytes / BytesOf(math));
  at.part = at.line * (reading.along_rows ? form.k : rows);
  at.batches = form.batch * PartsOf(math);
  at.k = form.k;
  return at;
}

// `k`: how many of K lie there.
Placed StridedAt(const ContractForm& form, int operand, const Strided& strided, int64_t k,
                 const KernelWriter& writer) {
  const int64_t rows = operand == 0 ? form.m : form.n;
  Placed at;
  at.buffer = writer.BufferOf(strided.tensor);
  at.along_rows = strided.along_rows;
  at.offset = strided.offset;
  // Where there is one line or one batch, the stride to the next stands for nothing.
  const int64_t lines = at.along_rows ? k : rows;
  const int64_t inner = at.along_rows ? rows : k;
  const int64_t even = 16 / graph::SizeOf(strided.type);
  at.line = lines > 1 ? (at.along_rows ? strided.k : strided.row) : RoundUp(inner, even);
  at.one = form.batch > 1 && strided.batch == 0;
  at.batches = at.one ? 1 : form.batch;
  at.part = at.batches > 1 ? strided.batch : RoundUp(at.line * lines, even);
  at.k = k;
  return at;
}

// `tile`: rows of a box of an operand along K.
v1::TensorMap MapOf(const ContractForm& form, int operand, const Placed& at, graph::DType type,
                    int tile) {
  const int64_t rows = operand == 0 ? form.m : form.n;
  const auto bytes = static_cast<int64_t>(graph::SizeOf(type));
  v1::TensorMap map;
  map.set_buffer(at.buffer);
  map.set_offset(at.offset * bytes);
  map.set_dtype(graph::NameOf(type));
  for (int64_t size : {at.along_rows ? rows : at.k, at.along_rows ? at.k : rows, at.batches})
    map.add_sizes(size);
  for (int64_t stride : {at.line, at.part}) map.add_strides(stride * bytes);
  map.add_box(static_cast<int>(kSwizzle / bytes));
  for (int extent : {at.along_rows ? kTensorStep : tile, 1}) map.add_box(extent);
  map.set_swizzle(kSwizzle);
  return map;
}

// Of the image of a form's windows, of `columns` of which a block brings some.
v1::TensorMap WindowMapOf(const Windows& windows, int buffer, graph::DType type, int parts,
                          int columns) {
  constexpr size_t kLeastAxes = 2;
  const auto bytes = static_cast<int64_t>(graph::SizeOf(type));
  v1::TensorMap map;
  map.set_buffer(buffer);
  map.set_dtype(graph::NameOf(type));
  map.add_sizes(windows.line());
  int64_t stride = windows.line() * bytes;
  const auto add = [&](const WindowAxis& axis) {
    map.add_sizes(axis.rows());
    map.add_strides(stride);
    stride *= axis.rows();
    v1::TensorMap::Window& window = *map.mutable_window();
    const int64_t last = axis.lower() + axis.step() * (axis.places - 1);
    window.add_lower(static_cast<int>(axis.lower()));
    window.add_upper(static_cast<int>(last - (axis.rows() - 1)));
    window.add_strides(static_cast<int>(axis.step()));
  };
  for (size_t i = windows.axes.size(); i-- > 0;) add(windows.axes[i]);
  for (size_t i = windows.axes.size(); i < kLeastAxes; ++i) add(WindowAxis());
  map.add_sizes(windows.image_count * parts);
  map.add_strides(stride);
  map.add_box(static_cast<int>(windows.unit()));
  map.add_box(columns);
  map.set_swizzle(static_cast<int>(windows.unit() * bytes));
  return map;
}

// How an operand is packed: threads of a row that lies along K; blocks that share K of rows that
// lie beside each other; blocks that have something to do; blocks that a multiprocessor has room
// for.
struct Packing {
  int lanes = 1, share = 1;
  int64_t blocks = 0;
  int at_once = kPackBlocksFew;
};

// Threads of a row that lies along K; in two parts, and in one.
int LanesInTwoParts(int64_t k, int64_t width) {
  const auto kept = [&](int lanes) { return CeilDiv(k, lanes * width) * width; };
  int lanes = kLeastLanes;
  while (lanes < 32 && kept(lanes) > kLaneElements) lanes *= 2;
  while (lanes < kPlainThreads && kept(lanes) > kMostKept) lanes *= 2;
  return lanes;
}
int LanesInOnePart(int64_t k, int64_t width) {
  const int64_t lanes = PowerOfTwoAtLeast(CeilDiv(k, width * kLaneVectors));
  return lanes > 32 ? kPlainThreads : std::max(kLeastLanes, static_cast<int>(lanes));
}

Packing PackingOf(const ContractForm& form, int operand, const Reading& reading, bool copied,
                  bool two_parts, const Target& target) {
  const int64_t rows = operand == 0 ? form.m : form.n;
  Packing packing;
  if (copied) {
    packing.blocks = CeilDiv(form.batch * rows * form.k, kPlainThreads * kLine * kLaneVectors);
    return packing;
  }
  if (reading.along_rows) {
    const int64_t beside = PackBeside(reading.width), down = kPlainThreads * reading.width / beside;
    const int64_t alone = form.batch * CeilDiv(rows, beside);
    const auto wanted = static_cast<int64_t>(kShareBelow * target.sm_count);
    while (packing.share < std::min(kMostShare, target.max_cluster) &&
           alone * packing.share < wanted && form.k >= 2 * packing.share * down * kShareVectors)
      packing.share *= 2;
    packing.blocks = alone * packing.share;
    return packing;
  }
  packing.lanes =
      two_parts ? LanesInTwoParts(form.k, reading.width) : LanesInOnePart(form.k, reading.width);
  const int64_t kept = CeilDiv(form.k, packing.lanes * reading.width) * reading.width;
  const bool of_much = form.steps[operand] >= kPackSteps;
  if (kept <= kMostKept && kept > (of_much ? kKeptMade : kKeptFew)) {
    const bool made = form.steps[operand] > 0 && kept > kKeptMade;
    packing.at_once = of_much ? kPackBlocksOfMuch : made ? kPackBlocksMade : kPackBlocksKept;
  }
  packing.blocks = CeilDiv(form.batch * rows, int64_t{kPlainThreads / packing.lanes});
  return packing;
}

v1::Matrix MatrixOf(const Placed& at, graph::DType type) {
  v1::Matrix matrix;
  matrix.set_buffer(at.buffer);
  matrix.set_offset(at.offset * graph::SizeOf(type));
  matrix.set_dtype(graph::NameOf(type));
  matrix.set_line(at.line);
  matrix.set_batch(at.one ? 0 : at.part);
  matrix.set_along_rows(at.along_rows);
  return matrix;
}

const char* Bool(bool b) { return b ? "true" : "false"; }

// `along`: whether neighbours in memory are rows, of A and of B; `one`: whether it is the same for
// all batches.
std::string ConfigText(const std::string& name, const std::string& glue, const ContractForm& form,
                       const v1::ContractKnobs& knobs, const std::string& type,
                       const std::array<bool, 2>& along, const std::array<bool, 2>& one, bool meets,
                       int64_t whole, bool last, const std::string& joined, const Target& target) {
  const bool inlined = knobs.math() == v1::PRODUCT_FP16X3_INLINE;
  const int step = StepOf(knobs.math());
  const int64_t run = inlined ? step : RunOf(form, knobs);
  const Sides sides = SidesOf(form, knobs);
  const bool shifts = IsShifts(form);
  const int64_t runs = shifts ? ShiftsOf(form, knobs).runs > 0 : CeilDiv(run, step);
  const int64_t runs_of_step = shifts ? std::max<int64_t>(1, ShiftsOf(form, knobs).runs)
                               : run > 0 && run < step ? step / run
                                                       : 1;
  // By one tile of each of the batch.
  const auto is_read_once = [&](int operand, int64_t tiles) {
    return tiles == 1 && (form.batch == 1 || !one[operand]) &&
           form.operand_bytes(operand) <= kOnceOfCache * static_cast<double>(target.l2_bytes);
  };
  return StrCat(
      "struct ", name, " {\n  using Glue = ", glue, ";\n  using Type = ws::hopper::", type,
      ";\n  static constexpr int kM = ", sides.rows, ", kN = ", sides.columns,
      ", kK = ", form.depth(), ", kBatch = ", form.batch,
      ";\n  static constexpr int kTileM = ", sides.tile_rows, ", kTileN = ", sides.tile_columns,
      ", kStages = ", knobs.stages(), ", kCluster = ", knobs.cluster(),
      ", kRaster = ", knobs.raster(), ", kSplit = ", knobs.split(),
      ";\n  static constexpr int kParts = ", PartsOf(knobs.math()), ", kRun = ", runs,
      ", kRunsOfStep = ", runs_of_step, ", kTail = ", knobs.tail(),
      ", kTurns = ", knobs.turns() > 1 ? knobs.turns() : 0, ", kWhole = ", whole,
      ", kBlocksOfSm = ", knobs.blocks_per_sm(),
      ";\n  static constexpr bool kAlongM = ", Bool(along[sides.first()]),
      ", kAlongN = ", Bool(along[1 - sides.first()]), ", kMeet = ", Bool(meets),
      ", kInline = ", Bool(inlined), ", kLast = ", Bool(last), ", kTurned = ", Bool(sides.turned),
      ", kOneA = ", Bool(one[sides.first()]), ", kOneB = ", Bool(one[1 - sides.first()]),
      ", kOnceA = ", Bool(is_read_once(sides.first(), sides.tiles_across())),
      ", kOnceB = ", Bool(is_read_once(1 - sides.first(), CeilDiv(sides.rows, sides.tile_rows))),
      ", kScaled = ", Bool(ScalesRuns(form, knobs.math())),
      ";\n  using Window = ", form.windows ? WindowText(form, knobs) : "ws::NoWindow", ";\n  ",
      joined, "\n};");
}

class Writer {
 public:
  Writer(const Analysis& group, const Domain& domain, const ContractForm& form,
         const v1::Group& resolved, const Target& target, KernelWriter& writer)
      : graph_(group.graph()),
        form_(form),
        knobs_(resolved.contract()),
        widths_(WidthsOf(group, domain, form, knobs_)),
        target_(target),
        writer_(writer),
        scaled_(ScalesRows(knobs_.math())),
        eights_(knobs_.math() == v1::PRODUCT_FP8),
        inlined_(knobs_.math() == v1::PRODUCT_FP16X3_INLINE ? InlineOf(form) : -1),
        leaves_(knobs_.split() > 1 && !MeetsInCluster(knobs_, target)),
        type_(scaled_   ? graph::DType::kF16
              : eights_ ? graph::DType::kU8
                        : form.apart.type),
        element_(eights_ ? "ws::f8" : StorageType(type_)),
        sums_(scaled_
                  ? StrCat("ws::Scaled<", writer.glue(), ", false", form.windows ? ", true>" : ">")
                  : writer.glue()),
        left_(form, knobs_, target, writer) {}

  absl::Status Write() {
    Place();
    if (absl::Status s = Pack(); !s.ok()) return s;
    if (leaves_) partial_ = writer_.Workspace("_partial", knobs_.split() * Sums() * 4);
    const auto product = OnTensorCores(knobs_.math(), target_) ? Multiply() : MultiplyPlain();
    if (!product.ok()) return product;
    if (leaves_) {
      if (absl::Status s = Combine(); !s.ok()) return s;
    }
    if (absl::Status s = left_.AddUp(); !s.ok()) return s;
    return scaled_ ? Rest() : absl::OkStatus();
  }

  // `root`: where the library writes the result itself.
  absl::Status WriteByLibrary(const std::optional<RootMatrix>& root) {
    Place();
    if (absl::Status s = Pack(); !s.ok()) return s;
    Placed result;
    result.line = root ? root->line : form_.n;
    result.part = root ? root->batch : form_.m * form_.n;
    result.buffer = partial_ =
        root ? writer_.BufferOf(root->tensor) : writer_.Workspace("_partial", Sums() * 4);
    v1::LibraryProduct product;
    product.set_library(target_.library);
    product.set_algorithm(knobs_.algorithm());
    product.set_m(form_.m);
    product.set_n(form_.n);
    product.set_k(form_.k);
    product.set_batches(form_.batch);
    *product.mutable_a() = MatrixOf(placed_[0], type_);
    *product.mutable_b() = MatrixOf(placed_[1], type_);
    *product.mutable_d() = MatrixOf(result, root ? root->type : graph::DType::kF32);
    product.set_workspace(writer_.Workspace("_library", kLibraryBytes));
    if (root && root->bias >= 0) {
      v1::Vector& bias = *product.mutable_bias();
      bias.set_buffer(writer_.BufferOf(root->bias));
      bias.set_offset(root->bias_at * static_cast<int64_t>(graph::SizeOf(root->type)));
      bias.set_dtype(graph::NameOf(root->type));
    }
    writer_.Product(product);
    return root ? absl::OkStatus() : Combine();
  }

 private:
  int64_t Sums() const { return form_.batch * form_.m * form_.n; }
  const Reading& ReadingOf(int operand) const { return operand == 0 ? widths_.a : widths_.b; }

  // Says where operands are, in workspace if they have to be packed.
  void Place() {
    for (int operand : {0, 1}) {
      const v1::ProductMath math = knobs_.math();
      packed_[operand] = IsPacked(form_, operand, math);
      const std::string name = operand == 0 ? "_a" : "_b";
      const int64_t rows = form_.batch * (operand == 0 ? form_.m : form_.n);
      if (packed_[operand]) {
        once_[operand] = writer_.Preparing(form_.reads[operand]) != nullptr;
        placed_[operand] = PackedAt(form_, operand, math, ReadingOf(operand));
        parts_of_[operand] = Leave(operand, name, PackedBytes(form_, operand, math));
        placed_[operand].buffer = parts_of_[operand].here;
      } else {
        const Joined* joined = JoinedFor(form_, operand, math);
        placed_[operand] = StridedAt(form_, operand, *StridedFor(form_, operand, math),
                                     joined == nullptr ? form_.k : joined->cut, writer_);
        if (joined != nullptr) {
          joined_ = behind_of_ = operand;
          behind_ = StridedAt(form_, operand, joined->parts[1], form_.k - joined->cut, writer_);
        }
      }
      if (operand == 1 && form_.pair) {
        behind_of_ = operand;
        behind_ = StridedAt(form_, operand, *form_.second, form_.k, writer_);
      }
      if (scaled_)
        back_[operand] =
            Leave(operand, StrCat(name, "_back"), operand == 1 && form_.windows ? 4 : rows * 4);
    }
  }

  // Memory for what the kernel that packs an operand leaves.
  Storage::Left Leave(int operand, const std::string& name, int64_t bytes) {
    if (once_[operand]) return writer_.Prepared(name, bytes);
    const int buffer = writer_.Workspace(name, bytes);
    return {buffer, buffer};
  }

  // Operands that are constants are packed once for each version of the weights.
  absl::Status Pack() {
    for (const bool once : {true, false}) {
      const bool any = (packed_[0] && once_[0] == once) || (packed_[1] && once_[1] == once);
      const absl::Status packed = !any            ? absl::OkStatus()
                                  : form_.windows ? PackWindows(once)
                                                  : Pack(once);
      if (!packed.ok()) return packed;
    }
    if (inlined_ < 0 || wide_.here >= 0) return absl::OkStatus();
    // What the kernel that packs the other operand says of this one in each run.
    writer_.Fill(back_[inlined_].here, kThinRow,
                 form_.batch * (inlined_ == 0 ? form_.m : form_.n) * 4);
    wide_.here = writer_.Workspace("_wide", 4);
    writer_.Zero(wide_.here, 4);
    return absl::OkStatus();
  }

  absl::Status Pack(bool once) {
    KernelWriter& writer = once ? *writer_.Preparing({}) : writer_;
    writer.Text("#include <warpsmith/contract_pack.cuh>\n");
    std::vector<KernelArgument> extra;
    std::string given;
    Packing packings[2];
    bool packs[2] = {false, false};
    int64_t blocks = 0, beside = 0;
    int share = 1;
    KernelShape shape;
    shape.threads = kPlainThreads;
    for (int operand : {0, 1}) {
      const std::string name = operand == 0 ? "a" : "b";
      packs[operand] = packed_[operand] && once_[operand] == once;
      // Of rows that are made parts of later a word each is written.
      const bool says = scaled_ && (packs[operand] || (operand == inlined_ && !once));
      if (packs[operand]) {
        const Reading& reading = ReadingOf(operand);
        const Packing packing = packings[operand] =
            PackingOf(form_, operand, reading, CopiedFrom(operand) != nullptr, scaled_, target_);
        if (scaled_ && (shape.blocks_per_sm == 0 || packing.at_once < shape.blocks_per_sm))
          shape.blocks_per_sm = packing.at_once;
        blocks = std::max(blocks, packing.blocks);
        share = std::max(share, packing.share);
        if (reading.along_rows) beside = std::max(beside, PackBeside(reading.width));
        extra.push_back({StrCat(element_, "* ", name), parts_of_[operand].there, {}});
      } else if (says) {
        const int64_t rows = form_.batch * (operand == 0 ? form_.m : form_.n);
        blocks = std::max(blocks, CeilDiv(rows, int64_t{kPlainThreads} * kWordsOfThread));
      }
      if (says) extra.push_back({StrCat("float* back_", name), back_[operand].there, {}});
      absl::StrAppend(&given, ", ", packs[operand] ? name : "nullptr", ", ",
                      says ? StrCat("back_", name) : "nullptr");
    }
    const int64_t grid = RoundUp(std::min(blocks, kPackBlocks * target_.sm_count), share);
    shape.grid = grid;
    std::string lines;  // of operands that are copied, and where they are
    const char* from_text[2] = {", nullptr", ", nullptr"};
    for (int operand : {0, 1}) {
      const Strided* from = packs[operand] ? CopiedFrom(operand) : nullptr;
      absl::StrAppend(&lines, ", ", from == nullptr ? "ws::NoLines" : LinesText(*from));
      if (from == nullptr) continue;
      const char* name = operand == 0 ? "from_a" : "from_b";
      from_text[operand] = operand == 0 ? ", from_a" : ", from_b";
      extra.push_back({StrCat("const void* ", name), writer.BufferOf(from->tensor), {}});
    }
    const int64_t spreads = std::max<int64_t>(kPackSpreads * beside, kPlainThreads / 32);
    shape.shared_bytes = scaled_ ? kSpreadBytes * spreads : 0;
    if (scaled_) {
      shape.cluster = share;
      extra.push_back({"int* wide", LeaveWide(once, grid), {}});
    }
    return writer
        .Kernel(once ? "_prepare" : "_pack", shape, extra,
                StrCat("ws::contract_pack<", writer.glue(), ", ", element_, ", ",
                       PartsOf(knobs_.math()), ", ", Bool(scaled_), ", ", Bool(packs[0]), ", ",
                       Bool(packs[1]), ", ", packings[0].lanes, ", ", packings[1].lanes, ", ",
                       share, lines, ">(g", given, scaled_ ? ", wide" : ", nullptr", from_text[0],
                       from_text[1], ")"))
        .status();
  }

  // The same of windows: their image, and what they are multiplied with.
  absl::Status PackWindows(bool once) {
    const Windows& windows = *form_.windows;
    KernelWriter& writer = once ? *writer_.Preparing({}) : writer_;
    writer.Text("#include <warpsmith/contract_windows.cuh>\n");
    std::vector<KernelArgument> extra;
    std::string given;
    bool packs[2];
    for (int operand : {0, 1}) {
      const std::string name = operand == 0 ? "a" : "b";
      packs[operand] = once_[operand] == once;
      if (packs[operand]) {
        extra.push_back({StrCat(element_, "* ", name), parts_of_[operand].there, {}});
        if (scaled_) extra.push_back({StrCat("float* back_", name), back_[operand].there, {}});
      }
      absl::StrAppend(&given, ", ", packs[operand] ? name : "nullptr", ", ",
                      packs[operand] && scaled_ ? StrCat("back_", name) : "nullptr");
    }
    constexpr int64_t kTile = 64, kWarp = 32;  // as ws::pack_image has it, a row a warp's
    KernelShape shape;
    shape.threads = kPlainThreads;
    int64_t blocks = packs[0] ? CeilDiv(form_.batch * form_.m * kWarp, int64_t{kPlainThreads}) : 0;
    shape.shared_bytes = kPlainThreads;
    if (packs[1]) {
      blocks = std::max(
          blocks, form_.batch * CeilDiv(windows.inner(), kTile) * CeilDiv(windows.rows(), kTile));
      if (IsShifts(form_))
        blocks =
            std::max(blocks, CeilDiv(ShiftsOf(form_, knobs_).places, int64_t{2} * kPlainThreads));
      shape.blocks_per_sm = kPackBlocksFew;
      // As ws::pack_image has it, and ws::pack_image_by_rows.
      const int64_t of_tile = kTile * (kTile / 2 + 1) * 4;
      const int64_t of_rows = windows.staged() ? kPlainThreads * (windows.line() * 2 + 16) : 0;
      shape.shared_bytes = PartsOf(knobs_.math()) * std::max(of_tile, of_rows);
    }
    shape.grid = std::min(blocks, kPackBlocks * target_.sm_count);
    if (scaled_) extra.push_back({"int* wide", LeaveWide(once, shape.grid), {}});
    absl::StrAppend(&given, scaled_ ? ", wide" : ", nullptr");
    if (!once && Takes()) {
      extra.push_back({"int* order", LeaveOrder(), {}});
      absl::StrAppend(&given, ", order, ", Orders());
    }
    return writer
        .Kernel(once ? "_prepare" : "_pack", shape, extra,
                StrCat("ws::contract_pack_windows<", writer.glue(), ", ", WindowText(form_, knobs_),
                       ", ", element_, ", ", PartsOf(knobs_.math()), ", ", Bool(scaled_), ", ",
                       Bool(packs[0]), ", ", Bool(packs[1]), ">(g", given, ")"))
        .status();
  }

  // Whether blocks take tiles, as ws::Contract has it (kTaken), and by how many words.
  bool Takes() const {
    return form_.windows && OnTensorCores(knobs_.math(), target_) && inlined_ < 0 &&
           knobs_.cluster() == 1 && knobs_.split() == 1 && knobs_.tail() == 1;
  }
  int64_t Orders() const {
    return IsShifts(form_) ? CeilDiv(form_.m, int64_t{knobs_.tile_m()}) : 1;
  }
  int LeaveOrder() { return order_ = writer_.Workspace("_order", Orders() * 4); }

  // Memory for the words of so many blocks that pack, as they know it.
  int LeaveWide(bool once, int64_t blocks) {
    const int64_t bytes = (blocks + 1) * 4;
    Wide& wide = once ? prepared_wide_ : wide_;
    wide.blocks = blocks;
    if (!once) return wide.here = writer_.Workspace("_wide", bytes);
    const Storage::Left left = writer_.Prepared("_prepared_wide", bytes);
    wide.here = left.here;
    return left.there;
  }

  // Where an operand that is packed as it is lies; nullptr: it is made of something.
  const Strided* CopiedFrom(int operand) const {
    const auto& uneven = form_.apart.uneven[operand];
    const bool lies = uneven && uneven->along_rows == ReadingOf(operand).along_rows;
    return packed_[operand] && !scaled_ && !eights_ && lies ? &*uneven : nullptr;
  }
  std::string LinesText(const Strided& at) const {
    return StrCat("ws::UnevenLines<", at.offset, ", ", form_.batch > 1 ? at.batch : 0, ", ",
                  at.along_rows ? at.k : at.row, ", ", graph_.tensors[at.tensor].elements(), ">");
  }

  std::vector<KernelArgument> Backs() const {
    if (!scaled_) return {};
    return {{"const float* back_a", back_[0].here, {}}, {"const float* back_b", back_[1].here, {}}};
  }
  // The glue that finishes sums, as an expression.
  std::string End() const { return scaled_ ? StrCat(sums_, "(g, back_a, back_b)") : "g"; }
  // Rows of a box of an operand along K, as ws::Contract has it.
  int RowsBrought(const Sides& sides, int operand) const {
    if (operand != sides.first()) return sides.own_columns() / knobs_.cluster();
    if (operand == inlined_) return sides.tile_rows;
    return static_cast<int>(std::min<int64_t>(RoundUp(sides.rows, 8), sides.tile_rows));
  }
  // Which of the tiles' operands (1: the rows', 2: the columns', 0: neither) is in two parts, and
  // the step with which the second begins.
  std::string JoinedText(const Sides& sides) const {
    const Joined* joined = joined_ < 0 ? nullptr : JoinedFor(form_, joined_, knobs_.math());
    const int which = joined == nullptr ? 0 : joined_ == sides.first() ? 1 : 2;
    return StrCat("static constexpr int kJoined = ", which,
                  ", kCut = ", joined == nullptr ? 0 : joined->cut / kTensorStep, ";");
  }
  std::string Suffix() const { return leaves_ ? "_partial" : ""; }
  void AddPartial(std::vector<KernelArgument>& arguments, std::string& body) const {
    if (leaves_) arguments.push_back({"float* partial", partial_, {}});
    for (const KernelArgument& argument : left_.arguments()) arguments.push_back(argument);
    absl::StrAppend(&body, leaves_ ? ", partial" : ", nullptr", left_.text(), ")");
  }

  absl::Status Multiply() {
    const std::string config = StrCat(writer_.glue(), "_tiles");
    const Sides sides = SidesOf(form_, knobs_);
    const int second = 1 - sides.first();
    if (inlined_ >= 0 && placed_[second].along_rows && sides.tile_columns % 64 != 0)
      return absl::InternalError(StrCat("group '", writer_.glue(), "': boxes of ",
                                        sides.tile_columns, " columns beside each other"));
    // Tiles of full waves; the others are those of clusters.
    const int64_t tiles = ContractBlocks(form_, knobs_), at_once = BlocksAtOnce(knobs_, target_);
    const int64_t whole = knobs_.tail() > 1 ? tiles / at_once * at_once : tiles;
    const bool last =
        knobs_.tail() > 1 ? (tiles - whole) * knobs_.tail() <= at_once : tiles <= at_once;
    const std::string type = eights_ ? "E4m3" : type_ == graph::DType::kBF16 ? "Bf16" : "Fp16";
    writer_.Text(ConfigText(config, writer_.glue(), form_, knobs_, type,
                            {placed_[0].along_rows, placed_[1].along_rows},
                            {placed_[0].one, placed_[1].one}, MeetsInCluster(knobs_, target_),
                            whole, last, JoinedText(sides), target_));
    std::vector<KernelArgument> arguments;
    if (IsShifts(form_))
      arguments = {{"const void* a", placed_[0].buffer, {}},
                   {"const void* b", placed_[1].buffer, {}}};
    for (int operand : {sides.first(), second}) {
      if (IsShifts(form_)) break;
      const graph::DType element = operand == inlined_ ? graph::DType::kF32 : type_;
      arguments.push_back(
          {StrCat("const __grid_constant__ ws::hopper::Map map_",
                  operand == sides.first() ? "a" : "b"),
           -1,
           operand == 1 && form_.windows
               ? WindowMapOf(*form_.windows, placed_[operand].buffer, element,
                             PartsOf(knobs_.math()), RowsBrought(sides, operand))
               : MapOf(form_, operand, placed_[operand], element, RowsBrought(sides, operand)),
           /*only_read=*/true});
    }
    if (behind_of_ >= 0)
      arguments.push_back({"const __grid_constant__ ws::hopper::Map map_behind", -1,
                           MapOf(form_, behind_of_, behind_, type_, RowsBrought(sides, behind_of_)),
                           /*only_read=*/true});
    std::vector<KernelArgument> backs = Backs();
    if (Takes() && order_ < 0) writer_.Zero(LeaveOrder(), Orders() * 4);
    std::string body;
    if (inlined_ >= 0) {
      backs[inlined_].declaration = StrCat("float* back_", inlined_ == 0 ? "a" : "b");
      body = StrCat("ws::contract_inline<", config, ", ", writer_.glue(), ">(", End(),
                    ", map_a, map_b, back_", inlined_ == 0 ? "a" : "b", ", wide + ", wide_.blocks);
    } else if (IsShifts(form_)) {
      body = StrCat("ws::contract_shifts<", config, ">(", End(), ", a, b, order)");
    } else if (Takes()) {
      const std::string left = left_.text().empty() ? ", {nullptr, nullptr}" : left_.text();
      body =
          StrCat("ws::contract_windows<", config, ">(", End(), ", map_a, map_b", left, ", order)");
    } else {
      body = StrCat("ws::contract<", config, ">(", End(), ", map_a, map_b, ",
                    behind_of_ >= 0 ? "map_behind" : "map_a");
    }
    for (const KernelArgument& back : backs) arguments.push_back(back);
    if (inlined_ >= 0) arguments.push_back({"int* wide", wide_.here, {}});
    if (Takes()) {
      for (const KernelArgument& argument : left_.arguments()) arguments.push_back(argument);
      arguments.push_back({"int* order", order_, {}});
    } else {
      AddPartial(arguments, body);
    }
    KernelShape shape;
    shape.threads = 128 * (GroupsOf(form_, knobs_) + 1);
    shape.blocks_per_sm = knobs_.blocks_per_sm();
    shape.cluster = ContractCluster(knobs_, target_);
    shape.grid = std::min(tiles, at_once);
    if (IsShifts(form_)) {  // a block's tiles are of the same rows
      const int64_t down = CeilDiv(sides.rows, sides.tile_rows);
      shape.grid = std::max(down, shape.grid / down * down);
    }
    shape.shared_bytes = ContractSharedBytes(form_, knobs_, target_);
    return writer_.Kernel(Suffix(), shape, arguments, body).status();
  }

  // Where there are no tensor cores: of what was packed for them, by ordinary instructions.
  absl::Status MultiplyPlain() {
    const std::string glue =
        form_.windows ? StrCat("ws::PackedWindows<", sums_, ", ", WindowText(form_, knobs_), ", ",
                               element_, ", ", PartsOf(knobs_.math()), ">")
                      : StrCat("ws::Packed<", sums_, ", ", element_, ", ", PartsOf(knobs_.math()),
                               ", ", Bool(packed_[0]), ", ", Bool(packed_[1]), ">");
    std::vector<KernelArgument> arguments;
    if (packed_[0]) arguments.push_back({StrCat("const ", element_, "* a"), placed_[0].buffer, {}});
    if (packed_[1]) arguments.push_back({StrCat("const ", element_, "* b"), placed_[1].buffer, {}});
    if (!packed_[0] && !packed_[1]) writer_.Text("#include <warpsmith/contract_pack.cuh>\n");
    for (const KernelArgument& back : Backs()) arguments.push_back(back);
    std::string body =
        StrCat("ws::contract_plain<", glue, ", ", PlainConfigOf(form_, knobs_, "float"), ">(", glue,
               "(", End(), packed_[0] ? ", a" : ", nullptr", packed_[1] ? ", b)" : ", nullptr)");
    AddPartial(arguments, body);
    v1::ContractKnobs plain = knobs_;  // whose tiles are those of the result
    plain.set_math(v1::PRODUCT_PLAIN);
    KernelShape shape;
    shape.threads = kPlainThreads;
    shape.grid = ContractBlocks(form_, plain);
    shape.shared_bytes = ContractSharedBytes(form_, knobs_, target_);
    return writer_.Kernel(Suffix(), shape, arguments, body).status();
  }

  absl::Status Combine() {
    std::vector<KernelArgument> arguments = {{"const float* partial", partial_, {}}};
    for (const KernelArgument& back : Backs()) arguments.push_back(back);
    KernelShape shape;
    shape.threads = kPlainThreads;
    shape.grid = CeilDiv(Sums(), int64_t{kPlainThreads} * widths_.finish);
    return writer_
        .Kernel("_combine", shape, arguments,
                StrCat("ws::contract_combine<", sums_, ", float>(", End(), ", ", knobs_.split(),
                       ", partial)"))
        .status();
  }

  // Products with rows that are too wide for two parts.
  absl::Status Rest() {
    v1::ContractKnobs plain;
    plain.set_tile_m(kRestTile);
    plain.set_tile_n(kRestTile);
    plain.set_run(kRestRun);
    plain.set_split(1);
    plain.set_cluster(1);
    plain.set_turns(1);
    plain.set_raster(kRestRaster);
    plain.set_math(v1::PRODUCT_PLAIN);
    KernelShape shape;
    shape.threads = kPlainThreads;
    shape.grid = std::min<int64_t>(kRestBlocks * target_.sm_count, ContractBlocks(form_, plain));
    shape.blocks_per_sm = kRestBlocks;
    shape.shared_bytes = ContractSharedBytes(form_, plain, target_) + kRestListBytes;
    std::vector<KernelArgument> arguments = Backs();
    std::string words;  // who says whether there are such rows, in how many words
    for (const auto& [wide, name] :
         {std::pair(&wide_, "wide"), std::pair(&prepared_wide_, "prepared_wide")}) {
      if (wide->here >= 0) arguments.push_back({StrCat("const int* ", name), wide->here, {}});
      absl::StrAppend(&words, ", ", wide->here >= 0 ? name : "nullptr", ", ",
                      wide->here >= 0 ? wide->blocks + 1 : 0);
    }
    return writer_
        .Kernel(
            "_rest", shape, arguments,
            StrCat("ws::contract_rest<", writer_.glue(), ", ", PlainConfigOf(form_, plain, "float"),
                   form_.windows ? ", true" : "", ">(g, back_a, back_b", words, ")"))
        .status();
  }

  const graph::Graph& graph_;
  const ContractForm& form_;
  const v1::ContractKnobs& knobs_;
  const ContractWidths& widths_;
  const Target& target_;
  KernelWriter& writer_;
  const bool scaled_, eights_;  // scaled: by rows, and what they are scaled by
  const int inlined_;           // the operand that is made parts of on its way; -1: none
  const bool leaves_;           // whether blocks leave their sums in memory
  const graph::DType type_;     // of packed operands and those that are brought
  const std::string element_;   // that of packed ones in a program
  const std::string sums_;      // the type of the glue that finishes sums
  Placed placed_[2];
  int joined_ = -1;  // the operand in two parts; -1: neither
  // The operand of which there is another one, the second of two parts or of a pair, and where that
  // is; -1: neither.
  int behind_of_ = -1;
  Placed behind_;
  bool packed_[2] = {false, false}, once_[2] = {false, false};  // once: for each version of weights
  Storage::Left parts_of_[2],
      back_[2];  // what packing leaves: buffers where that is done, and here
  // Words that say whether there are rows that are too wide, of each block that packs, and one
  // behind them.
  struct Wide {
    int here = -1;
    int64_t blocks = 0;
  };
  Wide wide_, prepared_wide_;
  int partial_ = -1, order_ = -1;  // buffers
  const LeftSums left_;
};

}  // namespace

bool OnTensorCores(v1::ProductMath math, const Target& target) {
  if (math == v1::PRODUCT_FEW) return !target.fibers();  // any card that there is code for
  return math != v1::PRODUCT_PLAIN && target.arch == "sm_90a";
}

int InlineOf(const ContractForm& form) {
  const auto lies = [&](int operand) {
    return form.strided[operand] && form.elements[operand] == graph::DType::kF32;
  };
  // What is constant is made parts of once.
  if (lies(0) && lies(1) && form.constant[0] != form.constant[1]) return form.constant[0] ? 1 : 0;
  if (lies(0) && lies(1)) return form.m > form.n ? 0 : 1;
  return lies(1) ? 1 : lies(0) ? 0 : -1;
}

Sides SidesOf(const ContractForm& form, const v1::ContractKnobs& knobs) {
  if (knobs.math() == v1::PRODUCT_FP16X3_INLINE && InlineOf(form) == 1)
    return {true, form.n, form.m, knobs.tile_n(), knobs.tile_m()};
  return {false, form.m, form.n, knobs.tile_m(), knobs.tile_n(), form.of()};
}

int GroupsOf(const ContractForm& form, const v1::ContractKnobs& knobs) {
  return knobs.turns() > 1 ? knobs.turns() : SidesOf(form, knobs).tile_rows / kGroupRows;
}

graph::DType ElementOf(const ContractForm& form, int operand, v1::ProductMath math) {
  if (math == v1::PRODUCT_FP8) return graph::DType::kU8;
  return IsApart(form, math) ? form.apart.type : form.elements[operand];
}

const Joined* JoinedFor(const ContractForm& form, int operand, v1::ProductMath math) {
  const auto& joined = form.apart.joined[operand];
  return math == v1::PRODUCT_TENSOR && joined ? &*joined : nullptr;
}

const Strided* StridedFor(const ContractForm& form, int operand, v1::ProductMath math) {
  if (const Joined* joined = JoinedFor(form, operand, math)) return &joined->parts[0];
  const auto& strided = math == v1::PRODUCT_FP8 ? form.apart.bits[operand]
                        : IsApart(form, math)   ? form.apart.strided[operand]
                                                : form.strided[operand];
  return strided ? &*strided : nullptr;
}

bool IsPacked(const ContractForm& form, int operand, v1::ProductMath math) {
  if (form.windows) return !IsDirect(form);
  if (math == v1::PRODUCT_FP16X3_INLINE) return operand != InlineOf(form);
  return ScalesRows(math) || StridedFor(form, operand, math) == nullptr;
}

int64_t PackedBytes(const ContractForm& form, int operand, v1::ProductMath math) {
  if (form.windows) {
    if (IsShifts(form)) return ShiftsBytes(form, operand, math);
    const int64_t elements = operand == 0 ? form.batch * form.m * form.windows->depth()
                                          : form.windows->rows() * form.windows->line();
    return PartsOf(math) * BytesOf(math) * elements;
  }
  // Whichever way lines lie.
  const int64_t rows = operand == 0 ? form.m : form.n, line = kPackedBytes / BytesOf(math);
  return form.batch * PartsOf(math) * BytesOf(math) *
         std::max(RoundUp(rows, line) * form.k, rows * RoundUp(form.k, line));
}

namespace {

ValuePtr WithoutCast(ValuePtr value) {
  return value->kind == Value::Kind::kOp && value->op == graph::Op::kCast ? value->args[0] : value;
}

// Whether the value is an element of a tensor of the root's type for each column, which lie beside
// each other from where the library reads them; fills in `matrix`.
bool IsBias(ValuePtr value, const Frame& frame, const ContractForm& form, RootMatrix& matrix) {
  value = WithoutCast(value);
  if (value->kind != Value::Kind::kLoad || value->type != matrix.type || !value->args.empty())
    return false;
  const Index first = value->index.Without(frame.column);
  const int64_t even = 16 / static_cast<int64_t>(graph::SizeOf(matrix.type));
  if (!first.is_constant() || first.constant() % even != 0 ||
      (form.n > 1 && value->index.CoefficientOf(frame.column) != 1))
    return false;
  matrix.bias = value->tensor;
  matrix.bias_at = first.constant();
  return true;
}

}  // namespace

std::optional<RootMatrix> RootMatrixOf(const Analysis& group, const Domain& domain,
                                       const ContractForm& form) {
  const auto kernel = BuildContract(group, domain, form, Lane::kNone, 1);
  if (!kernel.ok() || kernel->roots.size() != 1) return std::nullopt;
  const Kernel::Root& root = kernel->roots[0];
  const Frame& frame = kernel->frame;
  RootMatrix matrix;
  matrix.tensor = root.tensor;
  matrix.type = root.value->type;
  ValuePtr value = WithoutCast(root.value);
  if (value->kind == Value::Kind::kOp && value->op == graph::Op::kAdd) {
    const bool first = value->args[0]->kind == Value::Kind::kResult;
    if (!IsBias(value->args[first ? 1 : 0], frame, form, matrix)) return std::nullopt;
    value = value->args[first ? 0 : 1];
  }
  if (value->kind != Value::Kind::kResult || root.condition != nullptr) return std::nullopt;
  if (matrix.type != form.sums && matrix.type != form.elements[0]) return std::nullopt;
  matrix.line = form.m > 1 ? root.address.CoefficientOf(frame.row) : form.n;
  matrix.batch = form.batch > 1 ? root.address.CoefficientOf(frame.outer) : form.m * matrix.line;
  Index rest = root.address;
  for (const Variable& variable : {frame.outer, frame.row, frame.column})
    rest = rest.Without(variable);
  const bool plain = rest.is_constant() && rest.constant() == 0 &&
                     (form.n == 1 || root.address.CoefficientOf(frame.column) == 1) &&
                     matrix.line >= form.n && (form.batch == 1 || matrix.batch >= form.n);
  return plain ? std::optional<RootMatrix>(matrix) : std::nullopt;
}

absl::Status EmitLibrary(const Analysis& group, const Domain& domain, const ContractForm& form,
                         const v1::Group& resolved, const Target& target, KernelWriter& writer) {
  absl::Status written = WriteContractGlue(group, domain, form, resolved, writer);
  if (!written.ok()) return written;
  std::optional<RootMatrix> root = RootMatrixOf(group, domain, form);
  // A state that is overwritten in place may be read by others still.
  if (root && writer.StateOf(root->tensor) >= 0) root.reset();
  return Writer(group, domain, form, resolved, target, writer).WriteByLibrary(root);
}

absl::Status EmitTensor(const Analysis& group, const Domain& domain, const ContractForm& form,
                        const v1::Group& resolved, const Target& target, KernelWriter& writer) {
  absl::Status written = WriteContractGlue(group, domain, form, resolved, writer);
  if (!written.ok()) return written;
  return Writer(group, domain, form, resolved, target, writer).Write();
}

}  // namespace warpsmith::codegen
