#include "worker/codegen/knob/knobs.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "worker/codegen/skeleton/staged/staged.h"

namespace warpsmith::codegen {

using absl::StrCat;

namespace {

// Limits of knobs.
constexpr int kMaxWindowOutputs = 64;
constexpr int kMaxSplit = 4096;
constexpr int kMaxColumnRegisters = 64;

// fp32 values that a thread adds up before fp64 is worth its conversions.
constexpr int64_t kLongSum = 4096;

bool IsPowerOfTwo(int64_t n) { return n > 0 && (n & (n - 1)) == 0; }

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

// Whether a thread adds up so many fp32 values one after another that its sum loses digits.
bool LongSums(const graph::Graph& graph, const Space& space, const v1::Group& g) {
  int sums = 0;
  for (const StageNode& stage : space.nodes) {
    const graph::Node& node = graph.nodes[stage.node];
    sums += node.combiner == graph::Combiner::kSum && graph::IsFloat(node.value->type);
  }
  if (sums == 0 || sums * 8 > kMaxAccBytes) return false;
  const int64_t threads = int64_t{std::max(1, g.occupancy().threads_per_row())} *
                          std::max(1, g.occupancy().blocks_per_row());
  return space.row_elements / threads > kLongSum;
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
  FillDefaults(space, shape, target, g);
  Checker check(name);
  switch (space.skeleton) {
    case v1::SKELETON_MAP:
      CheckMap(shape, g, check);
      break;
    case v1::SKELETON_ROWS:
      CheckRows(space, shape, g, target, check);
      break;
    default:
      CheckColumns(space, shape, g, check);
      break;
  }
  check.Range("occupancy.block_threads", g.occupancy().block_threads(), 32, 1024);
  check.Range("compute.unroll", g.compute().unroll(), 1, kMaxUnroll);
  if (g.precision().accumulator() == v1::ACCUMULATOR_AUTO) {
    g.mutable_precision()->set_accumulator(LongSums(graph, space, g) ? v1::ACCUMULATOR_F64
                                                                     : v1::ACCUMULATOR_F32);
  }
  check.That(v1::Accumulator_IsValid(g.precision().accumulator()),
             "precision.accumulator is unknown");
  check.That(v1::CacheHint_IsValid(g.memory().load_hint()) &&
                 v1::CacheHint_IsValid(g.memory().store_hint()),
             "a cache hint is unknown");
  if (!check.status().ok()) return check.status();
  return g;
}

}  // namespace warpsmith::codegen
