// Sums of products of two operands as products of matrices, with whatever follows them.
#pragma once

#include <optional>

#include "worker/codegen/skeleton/contract/form.h"
#include "worker/codegen/skeleton/skeleton.h"

namespace warpsmith::codegen {

// The tensor cores' main loop (worker/kernels/contract.cuh): products for groups of four warps,
// each of 64 rows of a tile, by steps along K of 128 bytes.
inline constexpr int kGroupRows = 64, kTensorStep = 64;
inline int BytesOf(v1::ProductMath math) { return math == v1::PRODUCT_FP8 ? 1 : 2; }
inline int StepOf(v1::ProductMath math) { return 2 * kTensorStep / BytesOf(math); }
// Parts of an operand.
inline int PartsOf(v1::ProductMath math) {
  return math == v1::PRODUCT_FP16X3 || math == v1::PRODUCT_FP16X3_INLINE ? 2 : 1;
}
// Whether operands are fp32 whose rows are scaled for it, by powers of two: products with rows that
// are too wide for that are made in fp32 after all.
inline bool ScalesRows(v1::ProductMath math) {
  return PartsOf(math) == 2 || math == v1::PRODUCT_FP16;
}
// The operand of which PRODUCT_FP16X3_INLINE makes parts on its way, the greater one that the copy
// engine finds in fp32, or that which is no constant; -1: neither.
int InlineOf(const ContractForm& form);
// Sides of the result as the tensor cores' main loop takes them: rows of its groups of warps are
// those of A, or, turned, where B is made parts of on its way, B's.
struct Sides {
  bool turned = false;
  int64_t rows = 0, columns = 0;
  int tile_rows = 0, tile_columns = 0;
  int of = 1;                                            // products of which a tile has columns
  int first() const { return turned ? 1 : 0; }           // the operand that has the rows
  int own_columns() const { return tile_columns / of; }  // of a tile, of either product
  int64_t tiles_across() const { return (columns + own_columns() - 1) / own_columns(); }
};
Sides SidesOf(const ContractForm& form, const v1::ContractKnobs& knobs);
// Groups of warps of a block that multiply: those that share a tile, or the two that take turns.
int GroupsOf(const ContractForm& form, const v1::ContractKnobs& knobs);
// Whether the products are made by tensor cores: on a card without those that there is code for,
// only PRODUCT_PLAIN is; on the host device what packs operands for them runs, too, and
// PRODUCT_FEW.
bool OnTensorCores(v1::ProductMath math, const Target& target);
// The type in which an operand is multiplied so, and where its elements lie, if the copy engine can
// bring them.
graph::DType ElementOf(const ContractForm& form, int operand, v1::ProductMath math);
// (of an operand in two parts the first's); nullptr: it can't.
const Strided* StridedFor(const ContractForm& form, int operand, v1::ProductMath math);
// The operand's two parts, if it is brought from where they lie; nullptr: it is not.
const Joined* JoinedFor(const ContractForm& form, int operand, v1::ProductMath math);
// Whether operands are narrow elements times scales (apart.h); and whether scales of runs of K are
// multiplied in where a run's sums join the total.
inline bool IsApart(const ContractForm& form, v1::ProductMath math) {
  return math == v1::PRODUCT_TENSOR || math == v1::PRODUCT_FP8 ||
         (math == v1::PRODUCT_FEW && form.apart.possible());
}
inline bool ScalesRuns(const ContractForm& form, v1::ProductMath math) {
  return IsApart(form, math) && form.apart.run > 0;
}
// Whether the operand is written out for the copy engine first, and how many bytes that takes at
// the most.
bool IsPacked(const ContractForm& form, int operand, v1::ProductMath math);
int64_t PackedBytes(const ContractForm& form, int operand, v1::ProductMath math);
// Kernels and launches on the tensor cores (tensor.cc).
absl::Status EmitTensor(const Analysis& group, const Domain& domain, const ContractForm& form,
                        const v1::Group& resolved, const Target& target, KernelWriter& writer);

// PRODUCT_FEW (worker/kernels/contract_few.cuh): `few` is the operand of fewer rows, of which a
// block has a piece: all where there are at most kMostFew. `many` is the other operand.
inline constexpr int64_t kMostFew = 128;
struct FewShape {
  int many = 1;            // 0: A
  int64_t rows = 0;        // of `many`
  int64_t piece = 0;       // rows of `few` of a block
  int64_t pieces = 1;      // of `few`
  int64_t columns = 0;     // of a piece, by eights
  int tile = 0, step = 0;  // rows of `many` of a block; elements of K at a time
  int blocks = 1;          // of 16 rows, of a warp
  int slices = 0;          // of K, by a block's warps
  int parts = 1;           // of an operand; 0: fp32, by ordinary instructions
  bool direct = false;     // whether threads read words as they are multiplied
  int ahead = 1;           // steps that are read before the one before them is multiplied
  int64_t elements = 0;    // that a thread has in registers
  int blocks_per_sm = 1;
};
FewShape FewShapeOf(const ContractForm& form, const v1::ContractKnobs& knobs);
// What is wrong with knobs that are all set; empty: nothing. Bytes of shared memory of a block.
std::string FewWrong(const ContractForm& form, const v1::ContractKnobs& knobs);
int64_t FewSharedBytes(const ContractForm& form, const v1::ContractKnobs& knobs);
absl::Status EmitFew(const Analysis& group, const Domain& domain, const ContractForm& form,
                     const v1::Group& resolved, const Target& target, KernelWriter& writer);

// Memory that a library's product may use: what PyTorch gives it on a card of sm_90.
inline constexpr int64_t kLibraryBytes = 32 << 20;
// Where the library can write the group's only root itself: elements from a line of N, from a batch
// to the next, and of which type; nullopt: something else than a bias is made of the sums, or it
// lies otherwise.
struct RootMatrix {
  int tensor = -1;
  graph::DType type = graph::DType::kF32;
  int64_t line = 0, batch = 0;
  // What is added along N, of that type, from an element on; -1: nothing.
  int bias = -1;
  int64_t bias_at = 0;
};
std::optional<RootMatrix> RootMatrixOf(const Analysis& group, const Domain& domain,
                                       const ContractForm& form);
// A library's step, and what packs operands for it and finishes its sums (tensor.cc).
absl::Status EmitLibrary(const Analysis& group, const Domain& domain, const ContractForm& form,
                         const v1::Group& resolved, const Target& target, KernelWriter& writer);

// PRODUCT_PLAIN of windows as they are (worker/kernels/contract_direct.cuh): a block has so many
// threads along the image's axes, innermost first, each with `places` neighbours and, at a time,
// `filters`; tile_m and tile_n are the most filters of a thread, and places of a warp.
inline constexpr int kDirectThreads = 128;
inline bool IsDirect(const ContractForm& form) {
  return form.windows && form.windows->how == OfB::kDirect;
}
struct DirectShape {
  int filters = 0, places = 0;
  int across = 0, down = 0;  // 0: none fits
  int64_t channels = 0;      // at a time
  int64_t blocks = 0, shared_bytes = 0;
  int blocks_per_sm = 1;
  double products = 0;  // of all threads, with those of places and filters that are not there
  double brought = 0;   // elements that blocks bring
};
DirectShape DirectShapeOf(const ContractForm& form, const v1::ContractKnobs& knobs);
// Why it is not for the form's sums and windows with this math; empty: it is.
std::string DirectMisfit(const ContractForm& form, v1::ProductMath math);
// What is wrong with knobs that are all set; empty: nothing.
std::string DirectWrong(const ContractForm& form, const v1::ContractKnobs& knobs);
absl::Status EmitDirect(const Analysis& group, const Domain& domain, const ContractForm& form,
                        const v1::Group& resolved, KernelWriter& writer);

// Windows whose taps are shifts (worker/kernels/contract_shifts.cuh has the same by the same
// names).
inline bool IsShifts(const ContractForm& form) {
  return form.windows && form.windows->how == OfB::kShifts;
}
struct ShiftsShape {
  int64_t pitch = 0, eights = 0;  // places of a line; planes of an image
  int64_t steps = 0, units = 0;   // of K: steps, and products of 16 of a step
  bool odd = false;               // whether half of a step's last product is zeros
  int64_t rows = 0;               // of a tile that are there, in whole eights
  int64_t step_bytes = 0, resident_bytes = 0, zero_bytes = 0;
  int64_t tiles = 0;   // of columns
  int64_t places = 0;  // of all planes, with those that are zero
  // Runs of a step, each added up in registers; 0: all of K is added up at once.
  int64_t runs = 0;
};
ShiftsShape ShiftsOf(const ContractForm& form, const v1::ContractKnobs& knobs);
int64_t ShiftsDepth(const Windows& windows);  // of K as it is multiplied
// Bytes of an operand as it is written out, whatever the tiles.
int64_t ShiftsBytes(const ContractForm& form, int operand, v1::ProductMath math);
// What is wrong with knobs that are all set; empty: nothing.
std::string ShiftsWrong(const ContractForm& form, const v1::ContractKnobs& knobs,
                        const Target& target);

// Threads of a block of the plain main loop (ws::kPlainThreads), and its step along K at the least.
inline constexpr int kPlainThreads = 256, kPlainStep = 16;
// The step that it takes: a longer one where there is little to multiply while the next is brought.
int PlainStepOf(const ContractForm& form, const v1::ContractKnobs& knobs);

// A group's forms: with operands as they are read, and with windows of an image, for the copy
// engine, by PRODUCT_PLAIN as they are, and as shifts; the status of these says why they are none.
struct ContractForms {
  const ContractForm& plain;
  const ContractForm& windows;
  const ContractForm& direct;
  const ContractForm& shifts;
  const ContractForm& Of(const v1::ContractKnobs& knobs) const {
    if (knobs.windows() == 3) return shifts;
    if (knobs.windows() != 2) return plain;
    return knobs.math() == v1::PRODUCT_PLAIN ? direct : windows;
  }
};
// Defaults, checks and places to try (knobs.cc).
absl::StatusOr<v1::Group> ResolveContract(const Analysis& group, const ContractForms& forms,
                                          const v1::Group& knobs, const Target& target);
std::vector<Layout> ContractLayouts(const ContractForms& forms, const v1::Group& resolved,
                                    const Target& target);
// Of resolved knobs: elements of K whose sums join the total at once, 0 for all of a block's; and
// dynamic shared memory of a block.
int64_t RunOf(const ContractForm& form, const v1::ContractKnobs& knobs);
int64_t ContractSharedBytes(const ContractForm& form, const v1::ContractKnobs& knobs,
                            const Target& target);
// Tiles of the result, times the blocks that share one.
int64_t ContractBlocks(const ContractForm& form, const v1::ContractKnobs& knobs);
// Blocks of a cluster, and how many blocks of such clusters the card runs at once.
int ContractCluster(const v1::ContractKnobs& knobs, const Target& target);
int64_t BlocksAtOnce(const v1::ContractKnobs& knobs, const Target& target);
// Whether the blocks that share a tile's K are a cluster, and need neither memory nor a kernel to
// add up their sums.
bool MeetsInCluster(const v1::ContractKnobs& knobs, const Target& target);

// The plain main loop's configuration, with totals of that type.
std::string PlainConfigOf(const ContractForm& form, const v1::ContractKnobs& knobs,
                          const std::string& total);

const Skeleton* ContractSkeleton();

}  // namespace warpsmith::codegen
