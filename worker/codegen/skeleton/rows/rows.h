// Reductions over the contiguous axes, in as many dependent stages as needed, with maps before,
// between and after (sums, softmax, norms, losses, argmax). worker/kernels/rows.cuh runs them.
#pragma once

#include <algorithm>
#include <vector>

#include "worker/codegen/skeleton/skeleton.h"
#include "worker/codegen/skeleton/staged/staged.h"

namespace warpsmith::codegen {

inline constexpr int kMaxBlocksPerRow = 4096;

// What vectors of a row are, before any text.
struct RowsForm {
  absl::Status status;
  Kernel wide, narrow;                    // V lanes, and one
  int width = 1;                          // V
  bool ragged = false;                    // rows begin anywhere
  std::vector<ValuePtr> streams, single;  // loads of every pass, in wide and in narrow
  std::vector<int> offsets;               // bytes of each in a slot
  int stream_bytes = 0;                   // of a position of all of them
  int stream_words = 0;         // the same in registers, as numbers that one computes with
  int max_acc_bytes = 4;        // of the largest stage
  std::vector<int> acc_bytes;   // of each meeting
  std::vector<int> joined;      // stages that meet with the next (group/centred.h)
  bool could_join = false;      // there are such stages
  bool emits = false;           // writes elements of the whole row behind the stages
  bool writes_at_once = false;  // or in the first
  bool row_outputs = false;
  int total_bytes = 0;        // of all totals, for a place of a row; 0: there are none
  bool totals_round = false;  // some of them are sums that each addition rounds
  bool emit_reads = false;    // and reads more for it than the row
  bool finds = false;         // elements lie where indexes that are read say
  int64_t row_elements = 1;
  // Times that a row is gone through: once a meeting, and to write it or add it to totals.
  int passes() const {
    return static_cast<int>(acc_bytes.size()) + (emits || total_bytes > 0 ? 1 : 0);
  }
  // Bytes on chip of a vector of so many rows, and of its totals.
  int64_t SlotBytes(int rows_at_once) const {
    return std::max<int64_t>(
        1, int64_t{width} * (int64_t{stream_bytes} * std::max(1, rows_at_once) + total_bytes));
  }
  bool edges() const { return row_elements % width != 0; }  // single elements at an end
  int64_t vectors() const { return CeilDiv(row_elements, width); }
  int common_bytes = 0;  // of a position, of what all rows read alike where they are written
  // Vectors of a row for each of its threads, of knobs that say which these are.
  int64_t Each(const v1::RowsKnobs& rows) const {
    return CeilDiv(vectors(), int64_t{rows.threads_per_row()} * rows.blocks_per_row());
  }
  // Slots in which the next row is on its way while this one is written (rows_ahead.cuh): those of
  // shared memory beyond a row's, where it can be done. Registers then have, in place of a row's
  // vectors, what all rows read alike, of so many of them.
  int Ahead(const v1::RowsKnobs& rows) const;
  int Common(const v1::RowsKnobs& rows) const;
  // Whether what all rows read alike is read apart from the rest.
  bool Shares(const v1::RowsKnobs& rows) const {
    return rows.rows_at_once() > 1 || Common(rows) > 0;
  }
  double shared_steps = 0;  // operations of a position whose results more than one pass needs
  // Registers of a thread, as compilers were seen to take them: more lanes are more values under
  // way, and 16 bits are widened where they are used.
  int64_t Registers(const v1::RowsKnobs& rows) const;
};

// The widest vectors of up to `bytes` that fit. With `one_meeting`, sums and the squares around
// their means are of one meeting where the group has such stages.
RowsForm FormRows(const Analysis& group, const Domain& domain, int bytes,
                  v1::Accumulator accumulator, v1::Accumulator total_accumulator, bool one_meeting);
// Of sums over rows: registers are what they are short of, and chains of few rows lose little; so
// fp64 only where blocks that wait for each other add up all rows they like.
v1::Accumulator TotalAccumulator(const v1::Group& knobs);
// The struct that rows.cuh asks for. `cached`: the second-level cache keeps what is read again.
absl::Status WriteRows(const Analysis& group, const Domain& domain, const v1::Group& resolved,
                       const RowsForm& form, bool cached, KernelWriter& writer);

// Gives the knobs that `rows` leaves open their defaults (knobs.cc).
void FillRows(const Domain& domain, const RowsForm& form, const Target& target,
              v1::RowsKnobs& rows);
// With defaults, and checked (checks.cc); and places to try beside them (layouts.cc).
absl::StatusOr<v1::Group> ResolveRows(const Analysis& group, const Domain& domain,
                                      const RowsForm& form, const v1::Group& knobs,
                                      const Target& target);
std::vector<Layout> RowsLayouts(const Domain& domain, const RowsForm& form,
                                const v1::Group& resolved, const Target& target);
// Groups of blocks that share the rows of a segment, of resolved knobs of a group with totals: as
// many as are there at once, or so many that none adds up too many rows in fp32.
int64_t TotalGroups(const Domain& domain, const RowsForm& form, const v1::Group& resolved,
                    const Target& target);
// Blocks that the compiler is to let a multiprocessor have; 0: as many as come out.
int BlocksToFit(const Domain& domain, const RowsForm& form, const v1::RowsKnobs& rows,
                const Target& target);
// Whether what is read again of the rows that `groups` groups of blocks work on fits the
// second-level cache, and is worth being kept there.
bool KeepsInCache(const RowsForm& form, const v1::RowsKnobs& resolved, int64_t groups,
                  const Target& target);
// Dynamic shared memory of a block, as rows.cuh states it.
int64_t RowsSharedBytes(const v1::RowsKnobs& knobs, const RowsForm& form);

const Skeleton* RowsSkeleton();

}  // namespace warpsmith::codegen
