// Defaults and checks of the columns skeleton's knobs, and places to try beside them. The figures
// behind the defaults were measured on an H200.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "worker/codegen/skeleton/columns/columns.h"

namespace warpsmith::codegen {
namespace {

using absl::StrCat;

// Vectors of 16 bytes that a thread keeps in registers.
constexpr int kManyVectors = 16;
// Columns of several passes that would leave multiprocessors idle: vectors of a thread of theirs,
// and threads side by side.
constexpr int kFewVectors = 5;
constexpr int64_t kFewAcross = 4;
constexpr int kMaxSplit = 4096;
constexpr int64_t kMostInFlight = 4, kMostRows = 8;
// One pass over much: threads of a block, steps of the reduced axis that are worth a thread row,
// and that are worth a block; how full the waves of blocks should be, and how many of them need not
// be.
constexpr int64_t kManyThreads = 512, kFewThreads = 256, kRowsWhenSplit = 4;
constexpr int64_t kLeastOfRow = 64, kLeastOfBlock = 64;
// And that are worth a block where the card has not as many as it can hold: what few threads have
// on their way does not keep the memory busy.
constexpr int64_t kLeastOfFirstWave = 16;
constexpr double kFullWaves = 0.92, kManyWaves = 6;
// Bytes of a line that a block of several passes has, and threads side by side. Of lines of 129
// floats of an H200 512 bytes took 882 us, 256 909 to 1,083, 128 1,160 to 1,300 and 64 1,951.
constexpr int64_t kAcrossBytes = 512, kLeastAcross = 32, kMostAcross = 128;
// Threads of a multiprocessor whose blocks stay, where four blocks have fewer.
constexpr int kResidentThreads = 512;
// Registers beside what is loaded and summed.
constexpr int64_t kOtherRegisters = 14, kRegisterUnit = 8;

bool Passes(const Domain& domain, const ColumnsForm& form) {
  return domain.stages + (form.emits ? 1 : 0) > 1;
}

// What defaults depend on: several passes; or one, over so little that each multiprocessor has to
// get some of it, over much in many columns, or over much in few, which several blocks share.
enum class Work { kPasses, kLittle, kWide, kTall };

Work WorkOf(const Domain& domain, const ColumnsForm& form, const Target& target) {
  if (Passes(domain, form)) return Work::kPasses;
  const int64_t groups = CeilDiv(form.sizes.columns, form.width);
  const int64_t places = int64_t{target.sm_count} * target.max_threads_per_sm;
  if (form.writes_at_once || form.sizes.outer * groups * domain.reduced() < places * kMostInFlight)
    return Work::kLittle;
  const int64_t tiles = form.sizes.outer * CeilDiv(groups, kManyThreads / kMostRows);
  const auto waves = static_cast<double>(tiles * kManyThreads) / static_cast<double>(places);
  return waves >= kManyWaves ? Work::kWide : Work::kTall;
}

// Whether columns of several passes are so few that the card's multiprocessors want narrow blocks.
bool FewColumns(const ColumnsForm& form, Work work, const Target& target) {
  const int64_t groups = CeilDiv(form.sizes.columns, form.width);
  return work == Work::kPasses && !target.fibers() &&
         form.sizes.outer * groups <= 2 * kFewAcross * target.sm_count;
}

// Thread rows of a block. Several passes: as many as keep all of the column in registers, `many`
// vectors a thread. One: eight, fewer where they would have little to do each or other blocks share
// a column.
int ThreadRows(const Domain& domain, const ColumnsForm& form, Work work, bool few, int many,
               int64_t block, const Target& target) {
  const int64_t groups = CeilDiv(form.sizes.columns, form.width);  // of columns, one a thread
  int64_t wanted = kMostRows;
  if (work == Work::kPasses) wanted = PowerOfTwoAtLeast(CeilDiv(domain.reduced(), many));
  if (work == Work::kTall) wanted = kRowsWhenSplit;
  if (work == Work::kWide) {
    while (wanted > 1 && wanted * kLeastOfRow > domain.reduced()) wanted /= 2;
  }
  if (block == 0) block = work == Work::kTall ? kFewThreads : 512;
  int64_t rows = std::min(wanted, std::max<int64_t>(1, block / (few ? kFewAcross : 32)));
  while (rows > 1 && rows > domain.reduced()) rows /= 2;
  // Few columns: more threads along the reduced axis; of several passes where there are too few
  // blocks of fewer threads to keep the card busy.
  const int64_t places = int64_t{target.sm_count} * target.max_threads_per_sm;
  const bool busy = work == Work::kPasses && groups >= kLeastAcross &&
                    form.sizes.outer * groups >= kManyWaves * places;
  while (!busy && rows * 2 <= block &&
         block / rows > std::max<int64_t>(8, PowerOfTwoAtLeast(groups)) &&
         rows * 2 <= domain.reduced())
    rows *= 2;
  while (block % rows != 0) rows /= 2;
  return static_cast<int>(rows);
}

int BlockThreads(const ColumnsForm& form, Work work, bool few, int64_t rows) {
  const int64_t groups = CeilDiv(form.sizes.columns, form.width);
  const int64_t slot = std::max(1, form.width * form.stream_bytes);
  const bool many = work != Work::kTall && (work != Work::kWide || rows == kMostRows);
  const int64_t most = work == Work::kWide && !many                 ? kFewThreads
                       : work == Work::kWide || work == Work::kTall ? kManyThreads / kMostRows
                       : few                                        ? kFewAcross
                             : std::clamp<int64_t>(kAcrossBytes / slot, kLeastAcross, kMostAcross);
  const int64_t across =
      std::clamp<int64_t>(PowerOfTwoAtLeast(groups), std::min<int64_t>(8, most), most);
  const int64_t threads = std::clamp<int64_t>(rows * across, std::max<int64_t>(32, rows),
                                              many ? kManyThreads : kFewThreads);
  return static_cast<int>(std::max(threads, rows));
}

// Blocks that share a column where there is much to read: enough to fill the card in whole waves,
// or so many waves that the last one does not count.
int64_t SplitOf(const Domain& domain, const ColumnsForm& form, const v1::ColumnsKnobs& columns,
                int64_t tiles, const Target& target) {
  const int64_t slot = std::max(1, form.width * form.stream_bytes),
                threads = columns.block_threads();
  const int64_t registers = kOtherRegisters + columns.unroll() * slot / 4 + 2 * form.width;
  const int64_t resident = std::min(
      target.max_threads_per_sm / threads,
      target.registers_per_sm / (threads * CeilDiv(registers, kRegisterUnit) * kRegisterUnit));
  const int64_t of_row = domain.reduced() / columns.thread_rows();
  const int64_t most =
      std::max(of_row / kLeastOfBlock,
               std::min(CeilDiv(resident * target.sm_count, tiles), of_row / kLeastOfFirstWave));
  int64_t best = 1;
  double fullest = 0;
  for (int64_t split = 1; split <= most; ++split) {
    const double waves =
        static_cast<double>(tiles * split) / static_cast<double>(resident * target.sm_count);
    const double full = waves / std::ceil(waves);
    if (full > fullest) {
      fullest = full;
      best = split;
    }
    if (full >= kFullWaves || waves > kManyWaves) break;
  }
  return best;
}

void FillOpen(const Domain& domain, const ColumnsForm& form, const Target& target,
              v1::ColumnsKnobs& columns) {
  const Work work = WorkOf(domain, form, target);
  const bool passes = work == Work::kPasses;
  const int64_t slot = std::max(1, form.width * form.stream_bytes);
  const int many = static_cast<int>(std::max<int64_t>(1, kManyVectors * 16 / slot));
  const bool few = FewColumns(form, work, target);
  if (columns.thread_rows() == 0) {
    columns.set_thread_rows(ThreadRows(domain, form, work, few,
                                       few ? std::min(many, kFewVectors) : many,
                                       columns.block_threads(), target));
  }
  const int rows = columns.thread_rows();
  if (columns.block_threads() == 0) columns.set_block_threads(BlockThreads(form, work, few, rows));
  if (columns.unroll() == 0) {
    // One row of threads has only what each loads in flight.
    const int64_t times = work == Work::kWide && rows == 1 ? 2 : 1;
    columns.set_unroll(static_cast<int>(
        PowerOfTwoAtLeast(std::clamp<int64_t>(times * 64 / slot, 1, times * kMostInFlight))));
  }
  const int threads = columns.block_threads();
  const int64_t tiles = CeilDiv(form.sizes.outer * form.sizes.columns,
                                int64_t{std::max(1, threads / rows)} * form.width);
  if (columns.split() == 0) {
    int64_t split = 1;
    if (work == Work::kTall) {
      split = SplitOf(domain, form, columns, tiles, target);
    } else if (work == Work::kLittle && tiles < 2 * target.sm_count) {
      split = std::min(CeilDiv(4 * target.sm_count, tiles),
                       domain.reduced() / (int64_t{rows} * kMostInFlight));
    }
    columns.set_split(static_cast<int>(std::clamp<int64_t>(split, 1, kMaxSplit)));
  }
  if (columns.register_vectors() == 0 && passes && form.streams > 0) {
    columns.set_register_vectors(
        static_cast<int>(std::min<int64_t>(CeilDiv(domain.reduced(), rows), many)));
  }
  if (columns.blocks_per_sm() == 0 && passes && tiles > 8 * target.sm_count) {
    const int64_t registers = kWorkRegisters + columns.register_vectors() * slot / 4;
    const int64_t fit = std::min(target.registers_per_sm / (threads * registers),
                                 int64_t{target.max_threads_per_sm} / threads);
    columns.set_blocks_per_sm(
        static_cast<int>(std::clamp<int64_t>(fit, 1, std::max(4, kResidentThreads / threads))));
  }
}

void AddLayout(int block, int rows, int64_t split, int blocks_per_sm, double prior,
               std::vector<Layout>& layouts) {
  Layout layout;
  layout.kind = "layout";
  layout.name = StrCat(block, " threads, ", rows, " rows of them");
  if (split > 1) absl::StrAppend(&layout.name, ", ", split, " blocks a column");
  if (blocks_per_sm > 0) absl::StrAppend(&layout.name, ", ", blocks_per_sm, " blocks an SM");
  layout.knobs = {{"block_threads", block},
                  {"thread_rows", rows},
                  {"split", split},
                  {"blocks_per_sm", blocks_per_sm}};
  layout.prior = prior;
  layouts.push_back(layout);
}

// How much of the column stays in registers between passes.
void AddKept(const Domain& domain, const v1::ColumnsKnobs& now, std::vector<Layout>& layouts) {
  const int64_t needed = CeilDiv(domain.reduced(), now.thread_rows());
  for (int64_t kept : {needed, needed / 2}) {
    if (kept < 1 || kept > 64 || kept == now.register_vectors()) continue;
    Layout layout;
    layout.owner = v1::MEMORY;
    layout.kind = "keep";
    layout.name = StrCat(kept, " register");
    layout.knobs = {{"register_vectors", kept}};
    layout.prior = kept == needed ? 0.25 : 0.05;
    layout.registers = kept > now.register_vectors() ? 1 : -1;
    layouts.push_back(layout);
  }
}

}  // namespace

int64_t ColumnsSharedBytes(const v1::ColumnsKnobs& columns, const ColumnsForm& form) {
  if (columns.thread_rows() <= 1) return 0;
  return int64_t{2} * columns.block_threads() * form.width * form.max_acc_bytes;
}

absl::StatusOr<v1::Group> ResolveColumns(const Analysis& group, const Domain& domain,
                                         const ColumnsForm& form, const v1::Group& knobs,
                                         const Target& target) {
  v1::Group resolved = knobs;
  v1::ColumnsKnobs& columns = *resolved.mutable_columns();
  FillOpen(domain, form, target, columns);
  Checker check(group.name());
  const int threads = columns.block_threads(), rows = columns.thread_rows();
  check.That(rows <= threads && threads % rows == 0,
             StrCat("columns.thread_rows is ", rows, "; it must divide block_threads, ", threads));
  check.Range("columns.split", columns.split(), 1, Passes(domain, form) ? 1 : kMaxSplit);
  CheckResidency("columns", threads, columns.blocks_per_sm(), ColumnsSharedBytes(columns, form),
                 "columns.block_threads or columns.vector_bytes", target, check);
  if (!check.status().ok()) return check.status();
  if (resolved.precision().accumulator() == v1::ACCUMULATOR_AUTO) {
    resolved.mutable_precision()->set_accumulator(
        AccumulatorFor(group, domain, domain.reduced() / rows / columns.split()));
  }
  return resolved;
}

std::vector<Layout> ColumnsLayouts(const Domain& domain, const ColumnsForm& form,
                                   const v1::Group& resolved, const Target& target) {
  std::vector<Layout> layouts;
  const bool passes = Passes(domain, form);
  if (target.fibers()) {
    // A column of each thread's own needs no meeting.
    for (int block : {32, 64, 128, 256})
      AddLayout(block, 1, 1, 0, block == 32 ? 0.9 : 0.5, layouts);
  }
  const int64_t columns = form.sizes.columns * form.sizes.outer;
  for (int block : {256, 512, 128, 1024}) {
    for (int rows : {8, 16, 4, 32, 1, 2}) {
      // A block whose columns nobody has is a block that idles.
      const int64_t covered = int64_t{block} / rows * form.width;
      if (covered > 2 * PowerOfTwoAtLeast(columns) || rows > domain.reduced()) continue;
      const int64_t blocks = CeilDiv(columns, covered);
      const double fills = blocks >= 2 * target.sm_count ? 1.0 : 0.4;
      AddLayout(block, rows, 1, 0, 0.12 * fills, layouts);
      if (passes) {
        // Kept in registers between stages: fewer, persistent blocks leave room for that.
        for (int resident : {4, 2, 8}) {
          if (resident * block > target.max_threads_per_sm) continue;
          AddLayout(block, rows, 1, resident, (block <= 256 ? 0.15 : 0.08) * fills, layouts);
        }
        continue;
      }
      const int64_t wanted = CeilDiv(int64_t{target.sm_count} * 4, std::max<int64_t>(1, blocks));
      for (int64_t split = PowerOfTwoAtLeast(wanted); split <= PowerOfTwoAtLeast(wanted) * 4;
           split *= 2) {
        if (split < 2 || split * rows * 2 > domain.reduced() || split > 1024) continue;
        AddLayout(block, rows, split, 0, 0.15 * (wanted > 1 ? 1.5 : 0.4), layouts);
      }
    }
  }
  if (passes) AddKept(domain, resolved.columns(), layouts);
  return layouts;
}

}  // namespace warpsmith::codegen
