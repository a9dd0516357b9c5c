// Knobs that a schedule leaves open. The figures behind them were measured on an H200; what is for
// other cards follows from their registers and shared memory.
#include <algorithm>

#include "worker/codegen/knob/knobs.h"
#include "worker/codegen/skeleton/staged/staged.h"

namespace warpsmith::codegen {

namespace {

// Vectors of 16 bytes that a thread keeps in registers, and as many in shared memory: threads of
// blocks that share a multiprocessor with few others, and of blocks that fill it.
constexpr int kManyVectors = 16;
constexpr int kFewVectors = 8;
// The same where shared memory holds more than half, because not all of a row fits.
constexpr int kPartVectors = 14;
// Registers of a thread beside the vectors it keeps.
constexpr int kWorkRegisters = 34;
// Vectors of a row from which on several blocks and a second kernel beat one block.
constexpr int64_t kWorthSplitting = 32768;
// Largest unroll.
constexpr int64_t kMostInFlight = 8, kFewInFlight = 2;

int64_t PowerOfTwoAtLeast(int64_t n) {
  int64_t p = 1;
  while (p < n) p *= 2;
  return p;
}

int Scaled(int vectors, int64_t slot) {
  return static_cast<int>(std::max<int64_t>(1, vectors * 16 / slot));
}

void MapDefaults(const Space& space, const GroupShape& shape, const Target& target, v1::Group& g) {
  auto* occupancy = g.mutable_occupancy();
  auto* compute = g.mutable_compute();
  auto* memory = g.mutable_memory();
  const bool strips = space.primary >= 0;
  if (memory->vector_bytes() == 0) {
    const int64_t bytes = strips ? shape.good_width * shape.element_bytes : 16;
    memory->set_vector_bytes(static_cast<int>(std::min<int64_t>(16, bytes)));
  }
  if (compute->window_outputs() == 0)
    compute->set_window_outputs(shape.strips ? shape.good_strip : 1);
  // One vector a thread and many blocks where threads only wait; more where they compute.
  const bool busy = shape.heavy && !strips;
  if (occupancy->block_threads() == 0) occupancy->set_block_threads(busy ? 512 : 256);
  if (compute->unroll() == 0) {
    int unroll = busy ? std::clamp(4 / std::max(1, shape.streams), 1, 4) : 1;
    // Small tensors: rather more blocks.
    const int64_t vectors = space.elements / std::max(1, shape.width);
    while (unroll > 1 && vectors / (unroll * occupancy->block_threads()) < 4 * target.sm_count)
      unroll /= 2;
    compute->set_unroll(unroll);
  }
}

// How the threads of the card share rows.
struct RowLayout {
  int threads = 128;     // of a block
  int row_threads = 32;  // of a block, for one row
  int blocks = 1;        // of a row
  int registers = 0;     // vectors that a thread keeps there, at most
  bool persistent = false;
};

// Several passes: the row stays on the card. A short row takes part of a block, a longer one a
// block with half of its vectors in registers and half in shared memory, then several blocks that
// meet.
RowLayout LayoutOfPasses(const Space& space, int64_t vectors, int64_t slot, const Target& target) {
  const int few = Scaled(kFewVectors, slot), many = Scaled(kManyVectors, slot);
  RowLayout layout;
  if (vectors <= int64_t{1024} * 2 * few) {
    const int64_t threads =
        PowerOfTwoAtLeast(CeilDiv(vectors, vectors <= int64_t{256} * few ? few : 2 * few));
    layout.row_threads = static_cast<int>(std::min<int64_t>(1024, threads));
    layout.threads = std::max(layout.row_threads, 128);
    layout.registers = few;
    const int64_t jobs = CeilDiv(space.rows, layout.threads / layout.row_threads);
    layout.persistent = jobs > 2 * int64_t{target.sm_count} *
                                   std::max(1, target.max_threads_per_sm / 2 / layout.threads);
    return layout;
  }
  layout.persistent = true;
  layout.threads = layout.row_threads = 256;
  const int64_t most = std::max<int64_t>(1, 2 * target.sm_count);  // blocks at once
  int64_t blocks = PowerOfTwoAtLeast(CeilDiv(vectors, int64_t{256} * 2 * many));
  layout.registers = many;
  if (blocks > most) {
    // As many as there are; a power of two or a multiple of a warp's lanes.
    blocks = most >= 32 ? most / 32 * 32 : most;
    while (blocks < 32 && (blocks & (blocks - 1)) != 0) --blocks;
    if (vectors > blocks * 256 * 2 * many) layout.registers = Scaled(kPartVectors, slot);
  }
  layout.blocks = static_cast<int>(blocks);
  return layout;
}

// One pass: enough loads in flight, enough blocks to fill the card.
RowLayout LayoutOfOnePass(const Space& space, int64_t vectors, const Target& target) {
  RowLayout layout;
  const int64_t blocks = std::min(CeilDiv(2 * target.sm_count, space.rows), vectors / (1024 * 8));
  if (blocks > 1 && vectors >= kWorthSplitting) {
    layout.threads = layout.row_threads = 1024;
    layout.blocks = static_cast<int>(std::min<int64_t>(blocks, kMaxBlocksPerRow));
    return layout;
  }
  // Few rows leave a multiprocessor to each: all its threads, with few rounds of loads.
  const bool few = space.rows < target.sm_count;
  layout.row_threads = static_cast<int>(
      std::min<int64_t>(few ? 1024 : 512, PowerOfTwoAtLeast(CeilDiv(vectors, few ? 4 : 8))));
  layout.threads = std::max(layout.row_threads, 128);
  layout.registers = 8;
  return layout;
}

// Blocks of the rows skeleton that registers and shared memory let a multiprocessor have.
int ResidentBlocks(const v1::Group& g, int64_t slot, const Target& target) {
  const int64_t threads = g.occupancy().block_threads();
  const int64_t registers = kWorkRegisters + g.memory().register_vectors() * slot / 4;
  int64_t blocks = std::min<int64_t>(target.max_threads_per_sm / threads, target.max_blocks_per_sm);
  // The compiler is told the number; near the limit a few registers less do no harm.
  blocks = std::min(blocks, std::max<int64_t>(1, (target.registers_per_sm + 4 * threads) /
                                                     (threads * registers)));
  const int64_t shared = 2 * kMaxAccBytes * (threads / 32 + 1) + kReservedShared +
                         g.memory().shared_vectors() * threads * slot;
  blocks = std::min(blocks, std::max<int64_t>(1, target.shared_per_sm / shared));
  return static_cast<int>(std::max<int64_t>(1, blocks));
}

// Blocks and threads of a row, as far as the schedule leaves them open.
void ShareRows(const RowLayout& layout, const GroupShape& shape, bool passes,
               v1::OccupancyKnobs& occupancy) {
  if (occupancy.blocks_per_row() == 0) {
    const int block = occupancy.block_threads(), row = occupancy.threads_per_row();
    const bool part_of_block = row > 0 && (row < 32 || (block > 0 && row < block));
    occupancy.set_blocks_per_row(part_of_block ? 1 : layout.blocks);
  }
  const int blocks = occupancy.blocks_per_row();
  if (occupancy.meeting() == v1::MEETING_AUTO && blocks > 1) {
    occupancy.set_meeting(passes ? v1::MEETING_COUNTER : v1::MEETING_SECOND_PASS);
  }
  if (blocks > 1) {
    if (occupancy.block_threads() == 0) {
      occupancy.set_block_threads(occupancy.threads_per_row() >= 32 ? occupancy.threads_per_row()
                                  : layout.blocks > 1               ? layout.threads
                                                                    : 256);
    }
    if (occupancy.threads_per_row() == 0) occupancy.set_threads_per_row(occupancy.block_threads());
  } else if (occupancy.threads_per_row() == 0) {
    int64_t threads = layout.blocks > 1 ? 1024 : layout.row_threads;
    if (shape.edges) threads = std::max<int64_t>(threads, 2 * PowerOfTwoAtLeast(shape.width));
    // Within a block whose size is given: its largest divisor that is a power of two.
    const int block = occupancy.block_threads();
    while (block > 0 && block % threads != 0) threads /= 2;
    occupancy.set_threads_per_row(static_cast<int>(threads));
  }
  if (occupancy.block_threads() == 0)
    occupancy.set_block_threads(std::max(occupancy.threads_per_row(), 128));
}

void RowsDefaults(const Space& space, const GroupShape& shape, const Target& target, v1::Group& g) {
  auto* occupancy = g.mutable_occupancy();
  auto* compute = g.mutable_compute();
  auto* memory = g.mutable_memory();
  if (memory->vector_bytes() == 0) memory->set_vector_bytes(16);
  const bool passes = space.stages + (shape.emits ? 1 : 0) > 1;  // the row is wanted again
  const int64_t slot = std::max<int64_t>(1, shape.width * shape.stream_bytes);  // bytes of a vector
  const RowLayout layout = passes ? LayoutOfPasses(space, shape.vectors, slot, target)
                                  : LayoutOfOnePass(space, shape.vectors, target);
  ShareRows(layout, shape, passes, *occupancy);
  const int blocks = occupancy->blocks_per_row(), threads = occupancy->block_threads();
  const int64_t each = CeilDiv(shape.vectors, int64_t{occupancy->threads_per_row()} * blocks);
  const int most = layout.registers > 0 ? layout.registers : kFewVectors;
  if (memory->register_vectors() == 0 && shape.streams > 0) {
    // One pass keeps nothing: registers only batch the loads of a short row. Else a row that needs
    // shared memory has half of it there.
    int64_t kept = passes && each > most ? std::min<int64_t>(most, CeilDiv(each, 2)) : each;
    if (!passes && each > 8) kept = 0;
    memory->set_register_vectors(static_cast<int>(kept));
  }
  const bool counter = blocks > 1 && occupancy->meeting() == v1::MEETING_COUNTER;
  const bool resident_open = occupancy->blocks_per_sm() == 0 &&
                             occupancy->meeting() != v1::MEETING_SECOND_PASS &&
                             (layout.persistent || counter);
  if (memory->shared_vectors() == 0 && passes && shape.streams > 0) {
    const int64_t rest = each - memory->register_vectors();
    // Two blocks a multiprocessor, unless what they keep takes the registers of one.
    const int64_t together = occupancy->blocks_per_sm() > 0    ? occupancy->blocks_per_sm()
                             : threads > 512 || !resident_open ? 1
                                                               : 2;
    const int64_t scratch = 2 * kMaxAccBytes * (threads / 32 + 1) + kReservedShared;
    const int64_t room =
        std::min(target.shared_per_block, target.shared_per_sm / together) - scratch;
    const int64_t fit = std::max<int64_t>(0, room / (threads * slot));
    memory->set_shared_vectors(
        static_cast<int>(std::clamp<int64_t>(std::min(rest, fit), 0, kMaxKeptVectors)));
  }
  if (resident_open) {
    int resident = ResidentBlocks(g, slot, target);
    // More than four do not help, and a row's blocks must all be there at once.
    if (threads >= 256) resident = std::min(resident, 4);
    if (counter) resident = std::max(resident, static_cast<int>(CeilDiv(blocks, target.sm_count)));
    occupancy->set_blocks_per_sm(resident);
  }
  if (compute->unroll() == 0) {
    // What emitting reads takes registers from the row: fewer in flight.
    const int64_t in_flight = passes && shape.emit_reads ? kFewInFlight : kMostInFlight;
    compute->set_unroll(static_cast<int>(std::clamp<int64_t>(64 / slot, 1, in_flight)));
  }
}

void ColumnsDefaults(const Space& space, const GroupShape& shape, const Target& target,
                     v1::Group& g) {
  auto* occupancy = g.mutable_occupancy();
  auto* compute = g.mutable_compute();
  auto* memory = g.mutable_memory();
  if (memory->vector_bytes() == 0) memory->set_vector_bytes(16);
  const bool passes = space.stages + (shape.emits ? 1 : 0) > 1;
  const int width = std::max(1, shape.width);
  const int64_t slot = std::max<int64_t>(1, width * shape.stream_bytes);
  const int many = Scaled(kManyVectors, slot);
  const int64_t groups = CeilDiv(space.columns, width);  // of columns, one a thread
  if (occupancy->threads_per_row() == 0) {
    // Several passes: as many thread rows as keep all of the column in registers. One: eight.
    const int64_t wanted = passes ? PowerOfTwoAtLeast(CeilDiv(space.row_elements, many)) : 8;
    const int64_t block = occupancy->block_threads() > 0 ? occupancy->block_threads() : 512;
    int64_t rows = std::min(wanted, std::max<int64_t>(1, block / 32));
    while (rows > 1 && rows > space.row_elements) rows /= 2;
    // Few columns: more threads along the reduced axis.
    while (rows * 2 <= block && block / rows > std::max<int64_t>(8, PowerOfTwoAtLeast(groups)) &&
           rows * 2 <= space.row_elements)
      rows *= 2;
    while (block % rows != 0) rows /= 2;
    occupancy->set_threads_per_row(static_cast<int>(rows));
  }
  const int rows = occupancy->threads_per_row();
  if (occupancy->block_threads() == 0) {
    const int64_t across = std::clamp<int64_t>(PowerOfTwoAtLeast(groups), 8, passes ? 32 : 64);
    occupancy->set_block_threads(
        static_cast<int>(std::clamp<int64_t>(rows * across, std::max(32, rows), 512)));
    if (occupancy->block_threads() < rows) occupancy->set_block_threads(rows);
  }
  const int threads = occupancy->block_threads();
  const int64_t tiles =
      space.outer * CeilDiv(space.columns, std::max<int64_t>(1, threads / rows) * width);
  if (occupancy->blocks_per_row() == 0) {
    int64_t split = 1;
    if (!passes && tiles < 2 * target.sm_count) {
      split =
          std::min(CeilDiv(4 * target.sm_count, tiles), space.row_elements / (int64_t{rows} * 16));
    }
    occupancy->set_blocks_per_row(
        static_cast<int>(std::clamp<int64_t>(split, 1, kMaxBlocksPerRow)));
  }
  if (memory->register_vectors() == 0 && passes && shape.streams > 0) {
    memory->set_register_vectors(
        static_cast<int>(std::min<int64_t>(CeilDiv(space.row_elements, rows), many)));
  }
  if (occupancy->blocks_per_sm() == 0 && passes && tiles > 8 * target.sm_count) {
    const int64_t registers = kWorkRegisters + memory->register_vectors() * slot / 4;
    const int64_t fit = std::min(target.registers_per_sm / (threads * registers),
                                 int64_t{target.max_threads_per_sm} / threads);
    occupancy->set_blocks_per_sm(static_cast<int>(std::clamp<int64_t>(fit, 1, 4)));
  }
  if (compute->unroll() == 0) {
    compute->set_unroll(static_cast<int>(std::clamp<int64_t>(64 / slot, 1, kMostInFlight)));
  }
  if (occupancy->meeting() == v1::MEETING_AUTO && occupancy->blocks_per_row() > 1) {
    occupancy->set_meeting(v1::MEETING_SECOND_PASS);
  }
}

}  // namespace

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

void FillDefaults(const Space& space, const GroupShape& shape, const Target& target,
                  v1::Group& group) {
  switch (space.skeleton) {
    case v1::SKELETON_MAP:
      return MapDefaults(space, shape, target, group);
    case v1::SKELETON_ROWS:
      return RowsDefaults(space, shape, target, group);
    default:
      return ColumnsDefaults(space, shape, target, group);
  }
}

}  // namespace warpsmith::codegen
