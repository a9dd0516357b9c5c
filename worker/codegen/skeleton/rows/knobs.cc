// Defaults of the rows skeleton's knobs. The figures behind them were measured on an H200; what is
// for other cards follows from their registers and shared memory.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "worker/codegen/skeleton/rows/rows.h"

namespace warpsmith::codegen {
namespace {

using absl::StrCat;

constexpr int kMaxKeptVectors = 64;
constexpr int kMaxThreadRegisters = 255;

// Vectors of 16 bytes that a thread keeps in registers, and as many in shared memory: threads of
// blocks that share a multiprocessor with few others, and of blocks that fill it.
constexpr int kManyVectors = 16;
constexpr int kFewVectors = 8;
// The same where shared memory holds more than half, because not all of a row fits.
constexpr int kPartVectors = 14;
// Bytes that a thread of several passes has in flight at least, where rows are many and short.
constexpr int64_t kLeastInFlight = 64;
constexpr int kMostRowsTogether = 4, kLeastRowThreads = 4;
// Rows that many blocks share, each with its part in shared memory whole, and of the next row half
// as much at least (rows_ahead.cuh): their threads, those where registers have nothing to keep, so
// many blocks at least, and what a thread needs beside what rows share. Fewer blocks hide each
// other's meetings.
constexpr int kAheadThreads = 512, kAheadThreadsAlone = 1024, kLeastAheadBlocks = 32;
constexpr int64_t kAheadRegisters = 56;
// Steps that are written as one loop's body, so that what rows share can stay in registers.
constexpr int64_t kMostAheadSteps = 32;
// Rows of which a part is read again: threads of a block, of which a multiprocessor has one, what
// of it stays in registers, loads in flight and the part of shared memory that they want left.
constexpr int kPartThreads = 512, kPartRegisters = 16, kPartInFlight = 8;
constexpr int64_t kPartLeft = 32 << 10;
// Vectors of a row from which on several blocks and a second kernel beat one block.
constexpr int64_t kWorthSplitting = 32768;
// What more lanes than kFewLanes take beside the row, and what is read for emitting then.
constexpr int kFewLanes = 4;
constexpr int64_t kManyLanesRegisters = 20, kEmitReadsRegisters = 16;
// Results of stages are carried along where they take so many operations of a position to compute
// again, and so many registers at most.
constexpr double kWorthCarrying = 12;
constexpr int64_t kMostCarried = 32;
// Largest unroll.
constexpr int64_t kMostInFlight = 8, kFewInFlight = 2;

// Words of registers for what a thread keeps of a row, as numbers, and adds up; those beside them.
// More threads do better than more of it for each (measured on an H200: an RMS norm's gradients of
// rows of 8,192 bf16 in 134 us by 512 threads of two vectors in registers and two in shared memory,
// four lanes each, and in 172 by 256 threads of eight lanes).
constexpr int kTotalWords = 32, kTotalRegisters = 40;
// Blocks that a row with totals may have.
constexpr int64_t kMostBlocksOfTotals = 8;

int Scaled(int vectors, int64_t slot) {
  return static_cast<int>(std::max<int64_t>(1, vectors * 16 / slot));
}

// How the threads of the card share rows.
struct RowLayout {
  int threads = 128;     // of a block
  int row_threads = 32;  // of a block, for one row
  int blocks = 1;        // of a row
  int registers = 0;     // vectors that a thread keeps there, at most
  bool persistent = false;
  bool cluster = false;  // the blocks of a row are one
  bool alone = false;    // a block has its multiprocessor to itself
  int slots = 0;         // vectors in shared memory, with those of the next row
  bool part = false;     // the rest of the row is read again
};

int64_t Scratch(int64_t threads) { return 2 * kMaxAccBytes * (threads / 32 + 1) + kReservedShared; }

// Vectors in shared memory: two blocks a multiprocessor, unless what they keep takes the registers
// of one. `left`: bytes that loads want.
int SharedVectors(const v1::RowsKnobs& rows, int64_t rest, int64_t slot, bool resident_open,
                  int64_t left, const Target& target) {
  const int64_t threads = rows.block_threads();
  const int64_t together = rows.blocks_per_sm() > 0          ? rows.blocks_per_sm()
                           : threads > 512 || !resident_open ? 1
                                                             : 2;
  const int64_t room = std::min(target.shared_per_block, (target.shared_per_sm - left) / together) -
                       Scratch(threads);
  const int64_t fit = std::max<int64_t>(0, room / (threads * slot));
  return static_cast<int>(std::clamp<int64_t>(std::min(rest, fit), 0, kMaxKeptVectors));
}

// Blocks that a counter may have, as many as `least` or a few more: a power of two or a multiple of
// a warp's lanes. 0: more than there are multiprocessors.
int64_t CounterBlocks(int64_t least, const Target& target) {
  int64_t best = 0;
  const auto used = [&](int64_t blocks) { return target.sm_count / blocks * blocks; };
  for (int64_t blocks = 2; blocks <= target.sm_count; blocks += blocks < 32 ? blocks : 32) {
    // Where the last multiprocessors have nothing to do, larger groups may do better.
    if (blocks >= least && (best == 0 || used(blocks) * 10 > used(best) * 11)) best = blocks;
  }
  return best;
}

// Rows that fit shared memory with half of the next row beside. False, and nothing done, where they
// don't, or few blocks have one.
bool ShareAhead(const Domain& domain, const RowsForm& form, int64_t slot, const Target& target,
                RowLayout& layout) {
  const bool many = form.common_bytes > 0 || form.width > kFewLanes;
  const int threads = many ? kAheadThreads : kAheadThreadsAlone;
  const int64_t room = (std::min(target.shared_per_block, target.shared_per_sm - kReservedShared) -
                        (Scratch(threads) - kReservedShared)) /
                       (threads * slot);
  const int64_t each = room * 2 / 3;
  if (target.fibers() || each < 1 || threads > target.max_threads_per_sm) return false;
  const int64_t blocks = CounterBlocks(CeilDiv(form.vectors(), threads * each), target);
  if (blocks < kLeastAheadBlocks || domain.kept() < 2 * (target.sm_count / blocks)) return false;
  v1::RowsKnobs knobs;
  knobs.set_threads_per_row(threads);
  knobs.set_blocks_per_row(static_cast<int>(blocks));
  knobs.set_meeting(v1::MEETING_COUNTER);
  knobs.set_blocks_per_sm(1);
  const int64_t slots = std::min<int64_t>({room, 2 * form.Each(knobs), kMaxKeptVectors});
  knobs.set_shared_vectors(static_cast<int>(slots));
  if (form.Ahead(knobs) == 0) return false;
  layout.threads = layout.row_threads = threads;
  layout.blocks = static_cast<int>(blocks);
  layout.slots = static_cast<int>(slots);
  layout.persistent = layout.alone = true;
  return true;
}

// Rows that the card cannot hold, but with what the second-level cache has of the rest: a block to
// each multiprocessor holds what it can. False, and nothing done, where they are longer.
bool HoldPart(const Domain& domain, const RowsForm& form, int64_t slot, const Target& target,
              RowLayout& layout) {
  if (domain.kept() < 2 || kPartThreads > target.max_threads_per_sm) return false;
  int64_t blocks = target.sm_count >= 32 ? target.sm_count / 32 * 32 : target.sm_count;
  while (blocks < 32 && (blocks & (blocks - 1)) != 0) --blocks;
  v1::RowsKnobs knobs;
  knobs.set_block_threads(kPartThreads);
  knobs.set_threads_per_row(kPartThreads);
  knobs.set_blocks_per_row(static_cast<int>(blocks));
  knobs.set_meeting(v1::MEETING_COUNTER);
  knobs.set_blocks_per_sm(1);
  knobs.set_register_vectors(Scaled(kPartRegisters, slot));
  knobs.set_shared_vectors(SharedVectors(knobs, form.Each(knobs), slot, true, kPartLeft, target));
  if (!KeepsInCache(form, knobs, 1, target)) return false;
  layout.threads = layout.row_threads = kPartThreads;
  layout.blocks = static_cast<int>(blocks);
  layout.registers = knobs.register_vectors();
  layout.persistent = layout.alone = layout.part = true;
  return true;
}

// Few rows, longer than a warp can hold: the multiprocessors of a cluster share one, whose threads
// have `each` vectors. False, and nothing done: there are rows enough, or they are too short.
bool ShareInCluster(const Domain& domain, int64_t vectors, int64_t each, const Target& target,
                    RowLayout& layout) {
  const int64_t most = std::min<int64_t>(
      {8, target.max_cluster, target.sm_count / domain.kept(), vectors / (256 * 2)});
  if (target.fibers() || most <= 1) return false;
  while (layout.blocks * 2 <= most) layout.blocks *= 2;
  layout.threads = layout.row_threads = static_cast<int>(
      std::clamp<int64_t>(PowerOfTwoAtLeast(CeilDiv(vectors, layout.blocks * each)), 256, 1024));
  layout.cluster = true;
  return true;
}

// Threads of a short row, of which there are many: where accumulators don't let as many rows be
// worked on together as a thread needs to have enough in flight, each has several vectors instead.
int FewerThreads(const RowsForm& form, int64_t slot, const RowLayout& layout) {
  const int64_t together =
      std::clamp<int64_t>(kMaxAccBytes / form.max_acc_bytes, 1, kMostRowsTogether);
  const auto in_flight = [&](int64_t threads) {
    return slot * together * CeilDiv(form.vectors(), threads);
  };
  int threads = layout.row_threads;
  while (threads > kLeastRowThreads && threads <= 32 && in_flight(threads / 2) <= kLeastInFlight)
    threads /= 2;
  return threads;
}

// Several passes: the row stays on the card. A short row takes part of a block, a longer one a
// block with half of its vectors in registers and half in shared memory, then several blocks that
// meet.
// `open`: what a thread keeps of a row is.
RowLayout LayoutOfPasses(const Domain& domain, const RowsForm& form, int64_t slot, bool open,
                         const Target& target) {
  const int64_t vectors = form.vectors();
  const int many = Scaled(kManyVectors, slot);
  int few = Scaled(kFewVectors, slot);
  // Results that are carried: a row that a block can hold so.
  const int carried = std::max<int>(1, kMostCarried / form.width);
  const bool carries = !form.writes_at_once && form.shared_steps >= kWorthCarrying &&
                       vectors <= int64_t{1024} * carried;
  if (carries) few = std::min(few, carried);
  RowLayout layout;
  if (vectors <= int64_t{1024} * 2 * few) {
    const int64_t threads = PowerOfTwoAtLeast(
        CeilDiv(vectors, carries || vectors <= int64_t{256} * few ? few : 2 * few));
    layout.row_threads = static_cast<int>(std::min<int64_t>(1024, threads));
    // The lanes of a warp read neighbours, where a lane alone would step from row to row.
    if (!target.fibers()) {
      layout.row_threads = std::max<int>(
          layout.row_threads, static_cast<int>(std::min<int64_t>(32, PowerOfTwoAtLeast(vectors))));
    }
    layout.threads = std::max(layout.row_threads, 128);
    layout.registers = few;
    if (ShareInCluster(domain, vectors, few, target, layout)) return layout;
    const int64_t jobs = CeilDiv(domain.kept(), layout.threads / layout.row_threads);
    layout.persistent = jobs > 2 * int64_t{target.sm_count} *
                                   std::max(1, target.max_threads_per_sm / 2 / layout.threads);
    if (layout.persistent && !target.fibers() && !carries && !form.ragged && !form.writes_at_once)
      layout.row_threads = FewerThreads(form, slot, layout);
    return layout;
  }
  if (open && ShareAhead(domain, form, slot, target, layout)) return layout;
  layout.persistent = true;
  layout.threads = layout.row_threads = 256;
  const int64_t most = std::max<int64_t>(1, 2 * target.sm_count);  // blocks at once
  int64_t blocks = PowerOfTwoAtLeast(CeilDiv(vectors, int64_t{256} * 2 * many));
  layout.registers = many;
  // Few rows: what other multiprocessors would do is shared, too.
  const int64_t idle = std::min(target.sm_count / domain.kept(), vectors / (int64_t{256} * 2));
  if (!target.fibers() && idle > blocks) {
    blocks = idle >= 32 ? idle / 32 * 32 : PowerOfTwoAtLeast(idle / 2 + 1);
  }
  if (blocks > most) {
    // As many as there are; a power of two or a multiple of a warp's lanes.
    blocks = most >= 32 ? most / 32 * 32 : most;
    while (blocks < 32 && (blocks & (blocks - 1)) != 0) --blocks;
    if (vectors > blocks * 256 * 2 * many) {
      if (open && HoldPart(domain, form, slot, target, layout)) return layout;
      layout.registers = Scaled(kPartVectors, slot);
    }
  }
  layout.blocks = static_cast<int>(blocks);
  return layout;
}

// Vectors that a thread has in registers beside what they add up to.
int TotalVectors(const RowsForm& form) {
  const int words = form.width * (form.stream_words + form.total_bytes / 4);
  return std::max(1, kTotalWords / std::max(1, words));
}

// With totals a row and what its places add up to stay on the card: in registers, of longer rows
// half in shared memory, then in a cluster.
RowLayout LayoutOfTotals(const RowsForm& form, const Target& target) {
  const int64_t vectors = form.vectors(), each = TotalVectors(form);
  RowLayout layout;
  layout.persistent = true;
  layout.registers = static_cast<int>(each);
  int64_t threads = PowerOfTwoAtLeast(CeilDiv(vectors, each));
  if (threads > 256) threads /= 2;
  // Not many without a vector in the last round.
  while (threads > 32 && vectors * 5 < threads * CeilDiv(vectors, threads) * 4) threads /= 2;
  if (threads > 1024) {
    layout.threads = layout.row_threads = 512;
    const int64_t blocks = PowerOfTwoAtLeast(CeilDiv(vectors, 512 * 4 * each));
    layout.blocks = static_cast<int>(
        std::min({blocks, kMostBlocksOfTotals, static_cast<int64_t>(target.max_cluster)}));
    layout.cluster = layout.blocks > 1;
    return layout;
  }
  if (!target.fibers())
    threads = std::max(threads, std::min<int64_t>(32, PowerOfTwoAtLeast(vectors)));
  layout.row_threads = static_cast<int>(threads);
  layout.threads = std::max(layout.row_threads, 256);
  return layout;
}

// Whether a short row waits for its indexes before it can ask for its elements: blocks that stay
// have the next row's indexes on their way meanwhile, and as many threads as there can be wait.
bool FindsElements(const RowsForm& form, int row_threads, const Target& target) {
  return form.finds && row_threads < 32 && !target.fibers();
}

// One pass: enough loads in flight, enough blocks to fill the card.
RowLayout LayoutOfOnePass(const Domain& domain, const RowsForm& form, const Target& target) {
  const int64_t vectors = form.vectors();
  RowLayout layout;
  const int64_t wanted = CeilDiv(2 * target.sm_count, domain.kept());
  int threads = 1024;
  while (threads > 256 && vectors / (threads * 8) < wanted) threads /= 2;
  const int64_t blocks = std::min(wanted, vectors / (threads * 2));
  if (blocks > 1 && vectors >= kWorthSplitting) {
    layout.threads = layout.row_threads = threads;
    layout.blocks = static_cast<int>(std::min<int64_t>(blocks, kMaxBlocksPerRow));
    return layout;
  }
  if (wanted <= target.max_cluster && ShareInCluster(domain, vectors, 4, target, layout))
    return layout;
  // Few rows leave a multiprocessor to each: all its threads, with few rounds of loads.
  const bool few = domain.kept() < target.sm_count;
  layout.row_threads = static_cast<int>(
      std::min<int64_t>(few ? 1024 : 512, PowerOfTwoAtLeast(CeilDiv(vectors, few ? 4 : 8))));
  layout.threads = std::max(layout.row_threads, 128);
  layout.registers = 8;
  const int64_t places = int64_t{target.sm_count} * target.max_threads_per_sm;
  layout.persistent = FindsElements(form, layout.row_threads, target) &&
                      domain.kept() * layout.row_threads > 2 * places;
  return layout;
}

// Blocks that registers and shared memory let a multiprocessor have.
int ResidentBlocks(const v1::RowsKnobs& rows, const RowsForm& form, int64_t slot,
                   const Target& target) {
  const int64_t threads = rows.block_threads();
  const int64_t registers = form.Registers(rows);
  int64_t blocks = std::min<int64_t>(target.max_threads_per_sm / threads, target.max_blocks_per_sm);
  // The compiler is told the number; near the limit a few registers less do no harm.
  blocks = std::min(blocks, std::max<int64_t>(1, (target.registers_per_sm + 4 * threads) /
                                                     (threads * registers)));
  const int64_t shared = Scratch(threads) + rows.shared_vectors() * threads * slot;
  blocks = std::min(blocks, std::max<int64_t>(1, target.shared_per_sm / shared));
  return static_cast<int>(std::max<int64_t>(1, blocks));
}

// Blocks and threads of a row, as far as the schedule leaves them open.
void ShareRows(const RowLayout& layout, const RowsForm& form, bool passes, v1::RowsKnobs& rows) {
  if (rows.blocks_per_row() == 0) {
    const int block = rows.block_threads(), row = rows.threads_per_row();
    const bool part_of_block = row > 0 && (row < 32 || (block > 0 && row < block));
    rows.set_blocks_per_row(part_of_block ? 1 : layout.blocks);
  }
  const int blocks = rows.blocks_per_row();
  if (rows.meeting() == v1::MEETING_AUTO && blocks > 1)
    rows.set_meeting(layout.cluster && blocks == layout.blocks ? v1::MEETING_CLUSTER
                     : passes                                  ? v1::MEETING_COUNTER
                                                               : v1::MEETING_SECOND_PASS);
  if (blocks > 1) {
    if (rows.block_threads() == 0) {
      rows.set_block_threads(rows.threads_per_row() >= 32 ? rows.threads_per_row()
                             : layout.blocks > 1          ? layout.threads
                                                          : 256);
    }
    if (rows.threads_per_row() == 0) rows.set_threads_per_row(rows.block_threads());
  } else if (rows.threads_per_row() == 0) {
    int64_t threads = layout.blocks > 1 ? 1024 : layout.row_threads;
    if (form.edges()) threads = std::max<int64_t>(threads, 2 * PowerOfTwoAtLeast(form.width));
    // Within a block whose size is given: its largest divisor that is a power of two.
    const int block = rows.block_threads();
    while (block > 0 && block % threads != 0) threads /= 2;
    rows.set_threads_per_row(static_cast<int>(threads));
  }
  if (rows.block_threads() == 0) {
    // Rows that share a block leave one set of totals.
    rows.set_block_threads(
        std::max(rows.threads_per_row(), form.total_bytes > 0 ? layout.threads : 128));
  }
}

// Whether blocks are to stay and go round, each refilling its room with the next row. Then what a
// block reads for emitting, or computes with what it carries, hides behind those loads; but blocks
// get out of step, and what they have in flight spreads over the memory's pages: on an H200 blocks
// that come and go in order were 2 to 10 % quicker where rows need no more than themselves.
bool GoesRound(const RowsForm& form, const v1::RowsKnobs& rows, const Target& target) {
  const bool share_block = rows.threads_per_row() < rows.block_threads();
  return rows.blocks_per_row() > 1 || form.total_bytes > 0 ||
         FindsElements(form, rows.threads_per_row(), target) ||
         rows.results() == v1::RESULTS_CARRIED ||
         (share_block && form.emit_reads && rows.rows_at_once() <= 1 &&
          rows.register_vectors() + rows.shared_vectors() > 1);
}

// Of those that fit, so many as are of use.
int Wanted(const v1::RowsKnobs& rows, int resident) {
  return rows.block_threads() >= 256 ? std::min(resident, 4) : resident;
}

// Rows at once of which a thread keeps `kept` bytes each: so many that it has enough in flight.
int RowsTogether(const Domain& domain, const RowsForm& form, int64_t kept) {
  int together = 1;
  const int most = form.total_bytes > 0 ? 2 : kMostRowsTogether;
  const int64_t rows = domain.kept() / domain.segment_count();
  while (together < most && 2 * together * kept <= kLeastInFlight &&
         2 * together * form.max_acc_bytes <= kMaxAccBytes && 2 * together <= rows &&
         (domain.segment_count() == 1 || rows % (2 * together) == 0))
    together *= 2;
  return together;
}

// Vectors for which registers keep what rows share, where nothing else lies there.
int CommonVectors(const RowsForm& form, const v1::RowsKnobs& rows, const Target& target) {
  const int64_t words = int64_t{form.width} * form.common_bytes / 4;
  if (words == 0) return 0;
  const int64_t registers =
      std::min<int64_t>(kMaxThreadRegisters, target.registers_per_sm / rows.block_threads());
  return static_cast<int>(
      std::clamp<int64_t>((registers - kAheadRegisters) / words, 0, form.Each(rows)));
}

}  // namespace

void FillRows(const Domain& domain, const RowsForm& form, const Target& target,
              v1::RowsKnobs& rows) {
  const bool passes = form.passes() > 1;  // the row is wanted again
  // Bytes of a vector of all rows that are worked on together.
  int64_t slot = form.SlotBytes(rows.rows_at_once());
  const bool totals = form.total_bytes > 0;
  const bool open = rows.register_vectors() == 0 && rows.shared_vectors() == 0 &&
                    rows.blocks_per_sm() <= 1 && rows.rows_at_once() <= 1;
  const RowLayout layout = totals   ? LayoutOfTotals(form, target)
                           : passes ? LayoutOfPasses(domain, form, slot, open, target)
                                    : LayoutOfOnePass(domain, form, target);
  ShareRows(layout, form, passes, rows);
  const int blocks = rows.blocks_per_row();
  const int64_t each = CeilDiv(form.vectors(), int64_t{rows.threads_per_row()} * blocks);
  const int most = layout.registers > 0 ? layout.registers : kFewVectors;
  const bool streams = !form.streams.empty();
  const bool counter = blocks > 1 && rows.meeting() == v1::MEETING_COUNTER;
  // As the layout would have it, where the schedule leaves that open.
  const bool as_laid = counter && rows.block_threads() == layout.threads && blocks == layout.blocks;
  if (as_laid && layout.alone && rows.blocks_per_sm() == 0) rows.set_blocks_per_sm(1);
  if (as_laid && rows.shared_vectors() == 0 && layout.slots > 0)
    rows.set_shared_vectors(layout.slots);
  if (form.Ahead(rows) > 0) {
    if (rows.register_vectors() == 0) rows.set_register_vectors(CommonVectors(form, rows, target));
  } else if (rows.register_vectors() == 0 && streams) {
    // One pass keeps nothing: registers only batch the loads of a short row. Else a row that needs
    // shared memory has half of it there.
    int64_t kept = passes && each > most ? std::min<int64_t>(most, CeilDiv(each, 2)) : each;
    if (!passes && each > 8) kept = 0;
    rows.set_register_vectors(static_cast<int>(std::min<int64_t>(kept, kMaxKeptVectors)));
  }
  const bool resident_open = rows.blocks_per_sm() == 0 &&
                             rows.meeting() != v1::MEETING_SECOND_PASS &&
                             (layout.persistent || counter);
  if (rows.shared_vectors() == 0 && passes && streams) {
    rows.set_shared_vectors(SharedVectors(rows, each - rows.register_vectors(), slot, resident_open,
                                          as_laid && layout.part ? kPartLeft : 0, target));
  }
  if (rows.rows_at_once() == 0) {
    const bool short_rows = passes && layout.persistent && blocks == 1 && !form.ragged &&
                            !form.writes_at_once && each <= rows.register_vectors();
    const int together = short_rows ? RowsTogether(domain, form,
                                                   int64_t{rows.register_vectors()} *
                                                       std::max(1, form.width * form.stream_bytes))
                                    : 1;
    rows.set_rows_at_once(together);
    slot = form.SlotBytes(together);
  }
  if (rows.results() == v1::RESULTS_AUTO) {
    const int64_t elements = int64_t{rows.register_vectors()} * form.width * rows.rows_at_once();
    const bool carry = form.Ahead(rows) == 0 && !form.writes_at_once &&
                       form.shared_steps >= kWorthCarrying && elements <= kMostCarried &&
                       each <= rows.register_vectors() && form.row_elements >= form.width;
    rows.set_results(carry ? v1::RESULTS_CARRIED : v1::RESULTS_AGAIN);
    // Not where as many blocks as are asked for would have to spill them.
    if (carry && ResidentBlocks(rows, form, slot, target) < rows.blocks_per_sm())
      rows.set_results(v1::RESULTS_AGAIN);
  }
  if (resident_open && GoesRound(form, rows, target)) {
    int resident = FindsElements(form, rows.threads_per_row(), target)
                       ? target.max_threads_per_sm / rows.block_threads()
                       : Wanted(rows, ResidentBlocks(rows, form, slot, target));
    // A row's blocks must all be there at once.
    if (counter) resident = std::max(resident, static_cast<int>(CeilDiv(blocks, target.sm_count)));
    rows.set_blocks_per_sm(resident);
  }
  if (rows.unroll() == 0) {
    // What emitting reads takes registers from the row: fewer in flight.
    const int64_t in_flight = passes && form.emit_reads ? kFewInFlight : kMostInFlight;
    const bool part = as_laid && layout.part;
    rows.set_unroll(
        static_cast<int>(PowerOfTwoAtLeast(part ? std::max(1, Scaled(kPartInFlight, slot))
                                                : std::clamp<int64_t>(64 / slot, 1, in_flight))));
  }
}

int BlocksToFit(const Domain& domain, const RowsForm& form, const v1::RowsKnobs& rows,
                const Target& target) {
  if (rows.blocks_per_sm() > 0 || rows.blocks_per_row() > 1 || form.passes() == 1)
    return rows.blocks_per_sm();
  const int fit =
      Wanted(rows, ResidentBlocks(rows, form, form.SlotBytes(rows.rows_at_once()), target));
  const int64_t rows_a_block =
      int64_t{rows.rows_at_once()} * (rows.block_threads() / rows.threads_per_row());
  return domain.kept() > 2 * fit * target.sm_count * rows_a_block ? fit : 0;
}

int RowsForm::Ahead(const v1::RowsKnobs& rows) const {
  const bool whole = rows.blocks_per_row() > 1 && rows.meeting() == v1::MEETING_COUNTER &&
                     rows.results() != v1::RESULTS_CARRIED && rows.blocks_per_sm() > 0;
  if (!whole || !emits || total_bytes > 0 || ragged || edges() || streams.empty()) return 0;
  const int64_t each = Each(rows);
  return static_cast<int>(std::clamp<int64_t>(rows.shared_vectors() - each, 0, each));
}

int RowsForm::Common(const v1::RowsKnobs& rows) const {
  const int64_t each = Each(rows);
  if (Ahead(rows) == 0 || common_bytes == 0 || each > kMostAheadSteps) return 0;
  return static_cast<int>(std::min<int64_t>(rows.register_vectors(), each));
}

bool KeepsInCache(const RowsForm& form, const v1::RowsKnobs& rows, int64_t groups,
                  const Target& target) {
  if (rows.meeting() != v1::MEETING_COUNTER || !form.emits || form.Ahead(rows) > 0) return false;
  const int64_t rest = form.Each(rows) - rows.register_vectors() - rows.shared_vectors();
  const int64_t threads = int64_t{rows.threads_per_row()} * rows.blocks_per_row();
  return rest > 0 &&
         rest * threads * groups * form.SlotBytes(rows.rows_at_once()) <= target.l2_bytes * 2 / 3;
}

int64_t RowsForm::Registers(const v1::RowsKnobs& rows) const {
  if (Ahead(rows) > 0) {
    return kAheadRegisters + int64_t{Common(rows)} * width * common_bytes / 4;
  }
  const int64_t kept = int64_t{rows.register_vectors()} * rows.rows_at_once();
  const bool carried = rows.results() == v1::RESULTS_CARRIED;
  const int64_t row = kept * width * (carried ? std::max(4, stream_bytes) : stream_bytes) / 4;
  if (total_bytes > 0) {
    return kTotalRegisters + kept * width * stream_words +
           int64_t{rows.register_vectors()} * width * total_bytes / 4;
  }
  if (width <= kFewLanes) return kWorkRegisters + (carried ? kManyLanesRegisters : 0) + row;
  return kWorkRegisters + kManyLanesRegisters + (emit_reads ? kEmitReadsRegisters : 0) +
         row * 5 / 4;
}

}  // namespace warpsmith::codegen
