#include "worker/codegen/knobs.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "worker/codegen/staged.h"

namespace warpsmith::codegen {

using absl::StrCat;

namespace {

// Limits of knobs.
constexpr int kMaxUnroll = 16;
constexpr int kMaxKeptVectors = 64;
constexpr int kMaxWindowOutputs = 64;
constexpr int kMaxBlocksPerRow = 4096;
constexpr int kMaxSplit = 4096;
constexpr int kMaxColumnRegisters = 64;

// Bytes of shared memory that a block uses beside what it asks for.
constexpr int64_t kReservedShared = 1 << 10;
// Vectors of 16 bytes that a thread with 64 registers keeps: more spill.
constexpr int kComfortableVectors = 8;
// Registers of a thread beside those vectors.
constexpr int kWorkRegisters = 34;
// Vectors for a thread with 128 registers.
constexpr int kManyVectors = 14;

bool IsPowerOfTwo(int64_t n) { return n > 0 && (n & (n - 1)) == 0; }
int64_t PowerOfTwoAtLeast(int64_t n) {
  int64_t p = 1;
  while (p < n) p *= 2;
  return p;
}

class Checker {
 public:
  explicit Checker(std::string group) : group_(std::move(group)) {}
  void Range(const char* knob, int64_t value, int64_t low, int64_t high) {
    if (value < low || value > high)
      Fail(StrCat(knob, " is ", value, "; it must be ", low, " to ", high));
  }
  void That(bool holds, const std::string& message) {
    if (!holds) Fail(message);
  }
  const absl::Status& status() const { return status_; }

 private:
  void Fail(const std::string& message) {
    if (status_.ok())
      status_ = absl::InvalidArgumentError(StrCat("group '", group_, "': ", message));
  }
  std::string group_;
  absl::Status status_;
};

void MapDefaults(const Space& space, const GroupShape& shape, const Target& target, v1::Group& g) {
  auto* occupancy = g.mutable_occupancy();
  auto* compute = g.mutable_compute();
  auto* memory = g.mutable_memory();
  if (occupancy->block_threads() == 0) occupancy->set_block_threads(256);
  const bool strips = space.window || space.primary >= 0;
  if (memory->vector_bytes() == 0) memory->set_vector_bytes(strips && !shape.lanes ? 1 : 16);
  if (compute->window_outputs() == 0)
    compute->set_window_outputs(shape.strips ? shape.good_strip : 1);
  if (compute->unroll() == 0) {
    int unroll = strips ? 1 : std::clamp(8 / std::max(1, shape.streams), 1, 4);
    // Small tensors: rather more blocks.
    const int64_t vectors = space.elements / std::max(1, shape.width);
    while (unroll > 1 && vectors / (unroll * occupancy->block_threads()) < 4 * target.sm_count)
      unroll /= 2;
    compute->set_unroll(unroll);
  }
}

// How the threads of the card share rows: what RowsDefaults starts from.
struct RowLayout {
  int threads = 128;     // of a block
  int row_threads = 32;  // of a block, for one row
  int blocks = 1;        // of a row
  int resident = 0;      // blocks a multiprocessor, 0: not persistent
  int registers = 0;     // vectors that a thread keeps there, at most
};

// Several passes: the row stays on the card. Short rows share a block, longer ones have a block or
// several, with half of the vectors in registers and half in shared memory, and two blocks a
// multiprocessor so that one's meeting hides behind the other's traffic.
RowLayout LayoutOfPasses(const Space& space, int64_t vectors, int64_t slot, const Target& target) {
  // Vectors that a thread of 64 registers keeps beside its work; one of 128.
  const int few = static_cast<int>(std::max<int64_t>(1, kComfortableVectors * 16 / slot));
  const int many = static_cast<int>(std::max<int64_t>(1, kManyVectors * 16 / slot));
  RowLayout layout;
  const int64_t most = std::max<int64_t>(1, 2 * target.sm_count);  // blocks at once
  const int64_t block = int64_t{512} * 2 * few;                    // vectors that one keeps
  if (vectors <= block) {
    layout.row_threads =
        static_cast<int>(std::min<int64_t>(512, PowerOfTwoAtLeast(CeilDiv(vectors, few))));
    layout.threads = std::max(layout.row_threads, 128);
    layout.registers = few;
    const int64_t jobs = CeilDiv(space.rows, layout.threads / layout.row_threads);
    const int fit = std::max(
        1, std::min(target.max_threads_per_sm / 2 / layout.threads, target.max_blocks_per_sm));
    if (layout.threads >= 128 && jobs > 2 * int64_t{fit} * target.sm_count) layout.resident = fit;
    return layout;
  }
  layout.resident = 2;
  if (vectors <= block * most) {
    layout.threads = layout.row_threads = 512;
    layout.registers = few;
    const int64_t blocks = PowerOfTwoAtLeast(CeilDiv(vectors, block));
    layout.blocks = static_cast<int>(blocks <= most ? blocks : most / 32 * 32);
    if (layout.blocks < 1) layout.blocks = 1;
    return layout;
  }
  // Not all of it fits: fewer threads with more registers each keep the most.
  layout.threads = layout.row_threads = 256;
  layout.registers = many;
  layout.blocks = static_cast<int>(most >= 32 ? most / 32 * 32 : most);
  while (layout.blocks < 32 && (layout.blocks & (layout.blocks - 1)) != 0) --layout.blocks;
  return layout;
}

// One pass: enough loads in flight, enough blocks to fill the card.
RowLayout LayoutOfOnePass(const Space& space, int64_t vectors, const Target& target) {
  RowLayout layout;
  if (space.rows < 2 * target.sm_count && vectors >= 4096) {
    layout.threads = layout.row_threads = 256;
    layout.blocks = static_cast<int>(std::clamp<int64_t>(
        std::min(CeilDiv(8 * target.sm_count, space.rows), CeilDiv(vectors, 2048)), 1,
        kMaxBlocksPerRow));
    return layout;
  }
  layout.row_threads =
      static_cast<int>(std::min<int64_t>(512, PowerOfTwoAtLeast(CeilDiv(vectors, 8))));
  layout.threads = std::max(layout.row_threads, 128);
  layout.registers = 8;
  return layout;
}

// The layout, as far as knobs that are set already leave it open.
void RowsDefaults(const Space& space, const GroupShape& shape, const Target& target, v1::Group& g) {
  auto* occupancy = g.mutable_occupancy();
  auto* compute = g.mutable_compute();
  auto* memory = g.mutable_memory();
  if (memory->vector_bytes() == 0) memory->set_vector_bytes(16);
  const bool passes = space.stages + (shape.emits ? 1 : 0) > 1;  // the row is wanted again
  const int64_t vectors = shape.vectors;
  const int64_t slot = std::max<int64_t>(1, shape.width * shape.stream_bytes);  // bytes of a vector
  const RowLayout layout = passes ? LayoutOfPasses(space, vectors, slot, target)
                                  : LayoutOfOnePass(space, vectors, target);

  if (occupancy->blocks_per_row() == 0) {
    const bool shares_block =
        (occupancy->threads_per_row() > 0 && occupancy->threads_per_row() < layout.row_threads) ||
        (occupancy->block_threads() > 0 && occupancy->threads_per_row() > 0 &&
         occupancy->threads_per_row() < occupancy->block_threads());
    occupancy->set_blocks_per_row(shares_block ? 1 : layout.blocks);
  }
  const int blocks = occupancy->blocks_per_row();
  if (occupancy->meeting() == v1::MEETING_AUTO && blocks > 1) {
    occupancy->set_meeting(passes ? v1::MEETING_COUNTER : v1::MEETING_SECOND_PASS);
  }
  if (blocks > 1) {
    if (occupancy->block_threads() == 0) {
      const int wanted = occupancy->threads_per_row() >= 32 ? occupancy->threads_per_row()
                         : layout.blocks > 1                ? layout.threads
                                                            : 512;
      occupancy->set_block_threads(wanted);
    }
    if (occupancy->threads_per_row() == 0)
      occupancy->set_threads_per_row(occupancy->block_threads());
  } else if (occupancy->threads_per_row() == 0) {
    int64_t threads = layout.blocks > 1 ? 512 : layout.row_threads;
    if (shape.edges) threads = std::max<int64_t>(threads, 2 * PowerOfTwoAtLeast(shape.width));
    // Within a block whose size is given: its largest divisor that is a power of two.
    const int block = occupancy->block_threads();
    while (block > 0 && block % threads != 0) threads /= 2;
    occupancy->set_threads_per_row(static_cast<int>(threads));
  }
  if (occupancy->block_threads() == 0)
    occupancy->set_block_threads(std::max(occupancy->threads_per_row(), 128));
  const int threads = occupancy->block_threads();
  const int64_t each = CeilDiv(vectors, int64_t{occupancy->threads_per_row()} * blocks);
  if (memory->register_vectors() == 0 && shape.streams > 0) {
    // One pass keeps nothing: registers only batch the loads of a short row.
    const bool batch = !passes && each > 8;
    const int most = layout.registers > 0 ? layout.registers : kComfortableVectors;
    memory->set_register_vectors(batch ? 0 : static_cast<int>(std::min<int64_t>(each, most)));
  }
  const bool counter = blocks > 1 && occupancy->meeting() == v1::MEETING_COUNTER;
  int resident = occupancy->blocks_per_sm();
  if (resident == 0 && occupancy->meeting() != v1::MEETING_SECOND_PASS) {
    resident = layout.resident;
    if (counter && resident == 0) resident = 1;
    // No more than have registers for what they keep; a layout may be for other threads than these.
    int64_t most = target.max_threads_per_sm / threads;
    if (blocks == 1) {
      const int64_t each_thread = kWorkRegisters + memory->register_vectors() * slot / 4;
      most = std::min(most, target.registers_per_sm / (threads * each_thread));
    }
    resident =
        static_cast<int>(std::min<int64_t>(resident, std::max<int64_t>(counter ? 1 : 0, most)));
  }
  if (memory->shared_vectors() == 0 && passes && shape.streams > 0) {
    const int64_t rest = each - memory->register_vectors();
    const int64_t scratch = 2 * kMaxAccBytes * (threads / 32) + 2 * kMaxAccBytes + kReservedShared;
    const int64_t room =
        std::min(target.shared_per_block, target.shared_per_sm / std::max(resident, 1)) - scratch;
    const int64_t fit = std::max<int64_t>(0, room / (threads * slot));
    memory->set_shared_vectors(
        static_cast<int>(std::clamp<int64_t>(std::min(rest, fit), 0, kMaxKeptVectors)));
  }
  occupancy->set_blocks_per_sm(resident);
  // 64 bytes of a thread in flight while it reads again, 128 where that is all it does.
  if (compute->unroll() == 0) {
    compute->set_unroll(static_cast<int>(std::clamp<int64_t>((passes ? 64 : 128) / slot, 1, 8)));
  }
}

void ColumnsDefaults(const Space& space, const GroupShape& shape, const Target& target,
                     v1::Group& g) {
  auto* occupancy = g.mutable_occupancy();
  auto* compute = g.mutable_compute();
  auto* memory = g.mutable_memory();
  if (memory->vector_bytes() == 0) memory->set_vector_bytes(16);
  if (occupancy->block_threads() == 0) {
    occupancy->set_block_threads(occupancy->threads_per_row() > 256 ? occupancy->threads_per_row()
                                                                    : 256);
  }
  const int threads = occupancy->block_threads();
  const bool passes = space.stages + (shape.emits ? 1 : 0) > 1;
  const int width = std::max(1, shape.width);
  if (occupancy->threads_per_row() == 0) {
    // A warp's width of columns, all other threads along the reduced axis, if there is that much.
    int rows = 1;
    const int64_t groups = CeilDiv(space.columns, width);
    while (rows * 2 <= threads / 32 && rows * 2 <= space.row_elements) rows *= 2;
    while (threads / rows > groups && threads / rows > 8 && rows * 2 <= space.row_elements &&
           rows * 2 <= threads)
      rows *= 2;
    occupancy->set_threads_per_row(rows);
  }
  const int rows = occupancy->threads_per_row();
  const int64_t tiles = space.outer * CeilDiv(space.columns, int64_t{threads} / rows * width);
  if (occupancy->blocks_per_row() == 0) {
    int64_t split = 1;
    if (!passes && tiles < 2 * target.sm_count) {
      split =
          std::min(CeilDiv(4 * target.sm_count, tiles), space.row_elements / (int64_t{rows} * 16));
    }
    occupancy->set_blocks_per_row(static_cast<int>(std::clamp<int64_t>(split, 1, kMaxSplit)));
  }
  const int64_t slot = std::max<int64_t>(1, width * shape.stream_bytes);
  if (memory->register_vectors() == 0 && passes && shape.streams > 0) {
    memory->set_register_vectors(static_cast<int>(
        std::min<int64_t>(CeilDiv(space.row_elements, rows), std::max<int64_t>(1, 128 / slot))));
  }
  if (compute->unroll() == 0) {
    // 64 bytes of a thread in flight.
    compute->set_unroll(static_cast<int>(std::clamp<int64_t>(64 / slot, 1, 8)));
  }
  if (occupancy->meeting() == v1::MEETING_AUTO && occupancy->blocks_per_row() > 1) {
    occupancy->set_meeting(v1::MEETING_SECOND_PASS);
  }
}

void CheckMap(const GroupShape& shape, const v1::Group& g, Checker& check) {
  check.Range("compute.window_outputs", g.compute().window_outputs(), 1,
              shape.strips ? kMaxWindowOutputs : 1);
  check.Range("memory.register_vectors of a map", g.memory().register_vectors(), 0, 0);
  check.Range("memory.shared_vectors of a map", g.memory().shared_vectors(), 0, 0);
  check.Range("occupancy.threads_per_row of a map", g.occupancy().threads_per_row(), 0, 1);
  check.Range("occupancy.blocks_per_row of a map", g.occupancy().blocks_per_row(), 0, 1);
  check.That(!g.compute().online(), "compute.online is for rows and columns");
  check.That(g.occupancy().meeting() == v1::MEETING_AUTO,
             "occupancy.meeting of a map must be AUTO");
}

void CheckRows(const Space& space, const GroupShape& shape, const v1::Group& g,
               const Target& target, Checker& check) {
  const auto& occupancy = g.occupancy();
  const int threads = occupancy.block_threads(), row = occupancy.threads_per_row(),
            blocks = occupancy.blocks_per_row();
  const bool passes = space.stages + (shape.emits ? 1 : 0) > 1;
  check.Range("memory.register_vectors", g.memory().register_vectors(), 0, kMaxKeptVectors);
  check.Range("memory.shared_vectors", g.memory().shared_vectors(), 0, kMaxKeptVectors);
  check.That(shape.streams > 0 || g.memory().shared_vectors() == 0,
             "memory.shared_vectors must be 0: nothing is streamed along the rows");
  check.Range("occupancy.threads_per_row", row, 1, threads);
  check.That(IsPowerOfTwo(row),
             StrCat("occupancy.threads_per_row is ", row, "; it must be a power of two"));
  check.That(row <= 0 || threads % row == 0, StrCat("occupancy.threads_per_row is ", row,
                                                    "; it must divide block_threads, ", threads));
  check.That(!shape.edges || row >= 2 * shape.width,
             StrCat("occupancy.threads_per_row is ", row,
                    "; rows that are no whole number of vectors need at least ", 2 * shape.width));
  check.Range("occupancy.blocks_per_row", blocks, 1, kMaxBlocksPerRow);
  if (blocks <= 1) {
    check.That(occupancy.meeting() == v1::MEETING_AUTO,
               "occupancy.meeting must be AUTO where a row has one block");
    return;
  }
  check.That(row == threads, StrCat("occupancy.threads_per_row is ", row,
                                    "; a row of several blocks has all their threads: ", threads));
  switch (occupancy.meeting()) {
    case v1::MEETING_CLUSTER:
      check.Range("occupancy.blocks_per_row of a cluster", blocks, 2, target.max_cluster);
      check.That(IsPowerOfTwo(blocks), StrCat("occupancy.blocks_per_row is ", blocks,
                                              "; a cluster has a power of two of blocks"));
      break;
    case v1::MEETING_COUNTER:
      check.Range("occupancy.blocks_per_sm with a counter", occupancy.blocks_per_sm(), 1,
                  target.max_blocks_per_sm);
      check.Range("occupancy.blocks_per_row with a counter", blocks, 2,
                  int64_t{occupancy.blocks_per_sm()} * target.sm_count);
      check.That(blocks < 32 ? IsPowerOfTwo(blocks) : blocks % 32 == 0,
                 StrCat("occupancy.blocks_per_row is ", blocks,
                        "; with a counter it must be a power of two or a multiple of 32"));
      break;
    case v1::MEETING_SECOND_PASS:
      check.That(!passes, StrCat("occupancy.meeting SECOND_PASS is for one stage without outputs "
                                 "of the full space; this group has ",
                                 space.stages, " stages", shape.emits ? " and such outputs" : ""));
      check.That(occupancy.blocks_per_sm() == 0,
                 "occupancy.blocks_per_sm must be 0 with a second pass");
      break;
    default:
      break;
  }
}

void CheckColumns(const Space& space, const GroupShape& shape, const v1::Group& g, Checker& check) {
  const auto& occupancy = g.occupancy();
  const int threads = occupancy.block_threads(), rows = occupancy.threads_per_row(),
            split = occupancy.blocks_per_row();
  const bool passes = space.stages + (shape.emits ? 1 : 0) > 1;
  check.Range("memory.register_vectors", g.memory().register_vectors(), 0, kMaxColumnRegisters);
  check.Range("memory.shared_vectors of columns", g.memory().shared_vectors(), 0, 0);
  check.Range("occupancy.threads_per_row", rows, 1, threads);
  check.That(IsPowerOfTwo(rows) && (rows <= 0 || threads % rows == 0),
             StrCat("occupancy.threads_per_row is ", rows,
                    "; it must be a power of two that divides block_threads, ", threads));
  check.Range("occupancy.blocks_per_row", split, 1, passes ? 1 : kMaxSplit);
  check.That(occupancy.meeting() == v1::MEETING_AUTO ||
                 (split > 1 && occupancy.meeting() == v1::MEETING_SECOND_PASS),
             "occupancy.meeting of columns must be AUTO, or SECOND_PASS where blocks_per_row is "
             "more than 1");
}

}  // namespace

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

int64_t RowsSharedBytes(const v1::Group& knobs, int width, int stream_bytes) {
  const int64_t threads = knobs.occupancy().block_threads();
  const int64_t scratch = 2 * kMaxAccBytes * (threads / 32) + 2 * kMaxAccBytes;
  return scratch + knobs.memory().shared_vectors() * threads * width * stream_bytes;
}

int64_t ColumnsSharedBytes(const v1::Group& knobs, int width, int acc_bytes) {
  if (knobs.occupancy().threads_per_row() <= 1) return 0;
  return int64_t{2} * knobs.occupancy().block_threads() * width * acc_bytes;
}

absl::Status CheckResidency(const std::string& name, const v1::Group& knobs, int64_t shared_bytes,
                            const Target& target) {
  Checker check(name);
  const int threads = knobs.occupancy().block_threads();
  check.That(
      shared_bytes <= target.shared_per_block,
      StrCat("needs ", shared_bytes, " bytes of shared memory a block, the card has ",
             target.shared_per_block, "; lower memory.shared_vectors or occupancy.block_threads"));
  const int64_t blocks = knobs.occupancy().blocks_per_sm();
  if (blocks > 0) {
    check.That(blocks * threads <= target.max_threads_per_sm,
               StrCat("occupancy.blocks_per_sm ", blocks, " of ", threads,
                      " threads: a multiprocessor has ", target.max_threads_per_sm, " threads"));
    check.That(blocks * (shared_bytes + kReservedShared) <= target.shared_per_sm,
               StrCat("occupancy.blocks_per_sm ", blocks, " with ", shared_bytes,
                      " bytes of shared memory each: a multiprocessor has ", target.shared_per_sm,
                      "; lower memory.shared_vectors"));
  }
  return check.status();
}

absl::StatusOr<v1::Group> ResolveKnobs(const graph::Graph& graph, const Space& space,
                                       const GroupShape& shape, const v1::Group& group,
                                       const Target& target) {
  v1::Group g = group;
  const std::string name = graph.tensors[space.roots[0]].name;
  Checker before(name);
  // Signs and sizes first: defaults build on what is set.
  before.Range("memory.vector_bytes", g.memory().vector_bytes(), 0, 16);
  before.That(g.memory().vector_bytes() == 0 || IsPowerOfTwo(g.memory().vector_bytes()),
              StrCat("memory.vector_bytes is ", g.memory().vector_bytes(),
                     "; it must be 1, 2, 4, 8 or 16"));
  before.Range("occupancy.block_threads", g.occupancy().block_threads(), 0, 1024);
  before.That(g.occupancy().block_threads() % 32 == 0,
              StrCat("occupancy.block_threads is ", g.occupancy().block_threads(),
                     "; it must be a multiple of 32"));
  before.Range("occupancy.threads_per_row", g.occupancy().threads_per_row(), 0, 1024);
  before.That(g.occupancy().block_threads() == 0 ||
                  g.occupancy().threads_per_row() <= g.occupancy().block_threads(),
              StrCat("occupancy.threads_per_row is ", g.occupancy().threads_per_row(),
                     "; it must be at most block_threads, ", g.occupancy().block_threads()));
  before.Range("occupancy.blocks_per_row", g.occupancy().blocks_per_row(), 0, kMaxBlocksPerRow);
  before.Range("occupancy.blocks_per_sm", g.occupancy().blocks_per_sm(), 0,
               target.max_blocks_per_sm);
  before.Range("compute.unroll", g.compute().unroll(), 0, kMaxUnroll);
  before.Range("compute.window_outputs", g.compute().window_outputs(), 0, kMaxWindowOutputs);
  before.Range("memory.register_vectors", g.memory().register_vectors(), 0, kMaxKeptVectors);
  before.Range("memory.shared_vectors", g.memory().shared_vectors(), 0, kMaxKeptVectors);
  if (!before.status().ok()) return before.status();
  if (space.skeleton != v1::SKELETON_MAP) {
    Checker check(name);
    check.Range("compute.window_outputs of rows and columns", g.compute().window_outputs(), 0, 1);
    if (!check.status().ok()) return check.status();
  }

  g.set_skeleton(space.skeleton);
  Checker check(name);
  switch (space.skeleton) {
    case v1::SKELETON_MAP:
      MapDefaults(space, shape, target, g);
      CheckMap(shape, g, check);
      break;
    case v1::SKELETON_ROWS:
      RowsDefaults(space, shape, target, g);
      CheckRows(space, shape, g, target, check);
      break;
    default:
      ColumnsDefaults(space, shape, target, g);
      CheckColumns(space, shape, g, check);
      break;
  }
  check.Range("occupancy.block_threads", g.occupancy().block_threads(), 32, 1024);
  check.Range("compute.unroll", g.compute().unroll(), 1, kMaxUnroll);
  if (g.precision().accumulator() == v1::ACCUMULATOR_AUTO)
    g.mutable_precision()->set_accumulator(v1::ACCUMULATOR_F32);
  check.That(v1::Accumulator_IsValid(g.precision().accumulator()),
             "precision.accumulator is unknown");
  check.That(v1::CacheHint_IsValid(g.memory().load_hint()) &&
                 v1::CacheHint_IsValid(g.memory().store_hint()),
             "a cache hint is unknown");
  if (!check.status().ok()) return check.status();
  return g;
}

}  // namespace warpsmith::codegen
