// Defaults and checks of the scan skeleton's knobs, and places to try beside them.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "worker/codegen/skeleton/scan/scan.h"

namespace warpsmith::codegen {
namespace {

using absl::StrCat;

// What defaults aim at, from measurements on an H200: threads of a block, of one that meets others,
// of one with short rows, and of a multiprocessor; elements that a thread has of a chunk, bytes on
// their way to a multiprocessor, and thread columns of a block, where there are so many.
constexpr int kBlockThreads = 512, kMeetingThreads = 1024, kShortThreads = 256;
constexpr int kMeetingColumnThreads = 512;  // and a multiprocessor's: they need many registers
constexpr int kThreadsPerSm = 1024;
constexpr int kThreadElements = 16;
// Of products of floats (ws::Gain), which need more registers and more work for each meeting:
// elements of a thread, and threads of a multiprocessor.
constexpr int kGainElements = 32, kGainThreadsPerSm = 512;
constexpr int64_t kBytesInFlight = 192 << 10;
constexpr int64_t kThreadColumns = 32;
// Blocks whose posts a thread of a column's block reads, at most.
constexpr int64_t kMaxRounds = 8;
constexpr int64_t kMaxBlocks = 1024, kMinChunks = 2, kMaxChunks = 8;
constexpr int kMaxScanned = 16;  // ws::kMaxScanned

int64_t ScratchBytes(const v1::ScanKnobs& scan, const ScanForm& form, bool meets) {
  const int64_t threads = scan.block_threads(), lines = scan.threads_per_row();
  if (form.sizes.rows()) {
    const int64_t kept = meets ? scan.chunks() / 2 + 2 : 2;  // ScanRowsConfig::kKept
    return (kept * CeilDiv(threads, 32) + 4) * kMaxScanned;
  }
  const int64_t columns = threads / lines, lane_rows = columns < 32 ? 32 / columns : 1;
  const int64_t places = columns * form.width * form.acc_bytes, order = lines / lane_rows * places;
  return CeilDiv(2 * order + (meets ? 2 * (order + places) : 0), 16) * 16;
}

int64_t ChunkBytes(const v1::ScanKnobs& scan, const ScanForm& form) {
  return int64_t{scan.vectors()} * scan.block_threads() * form.width * form.stream_bytes;
}

int ThreadsPerRow(const v1::ScanKnobs& scan, const ScanForm& form) {
  const int64_t threads = scan.block_threads();
  int64_t lines = PowerOfTwoAtLeast(CeilDiv(form.length, scan.vectors()));
  if (!form.sizes.rows()) {
    const int64_t columns =
        std::min(kThreadColumns, PowerOfTwoAtLeast(CeilDiv(form.sizes.columns, form.width)));
    lines = std::max<int64_t>(1, threads / columns);
  }
  if (scan.blocks() > 1) lines = threads;
  lines = std::min(lines, threads);
  while (!IsPowerOfTwo(lines) || threads % lines != 0) --lines;
  return static_cast<int>(lines);
}

int Vectors(const ScanForm& form) {
  const int elements = form.gains && form.sizes.rows() ? kGainElements : kThreadElements;
  int64_t vectors = std::max(1, elements / form.width);
  while (vectors > 1 && vectors >= form.length) vectors /= 2;
  // A short row is shared by at least as many lanes as make one access of memory.
  while (vectors > 1 && form.sizes.rows() && form.length <= 32 * (vectors / 2)) vectors /= 2;
  return static_cast<int>(vectors);
}

// How many blocks have something of the first chunk: any more would only meet.
int64_t Parts(const v1::ScanKnobs& scan, const ScanForm& form) {
  return CeilDiv(form.length, int64_t{scan.vectors()} * scan.threads_per_row());
}

// Blocks that share each chunk: as many as fill the card, where there are too few rows for it.
int64_t Blocks(const v1::ScanKnobs& scan, const ScanForm& form, const Target& target) {
  const bool rows = form.sizes.rows();
  if (rows && scan.threads_per_row() != scan.block_threads()) return 1;
  const int64_t resident = int64_t{scan.blocks_per_sm()} * target.sm_count;
  int64_t blocks = std::min(resident / ScanSets(scan, form), Parts(scan, form));
  if (!rows) blocks = std::min(blocks, kMaxRounds * scan.threads_per_row());
  return std::clamp<int64_t>(blocks, 1, kMaxBlocks);
}

// Shared memory that a block may have where a multiprocessor holds the blocks asked for, or one.
int64_t RoomOf(const v1::ScanKnobs& scan, const Target& target) {
  const int64_t blocks = std::max(1, scan.blocks_per_sm());
  return std::min(target.shared_per_block, target.shared_per_sm / blocks - kReservedShared);
}

// Threads of a block (`threads`, where that is open), how they share rows, and vectors of each,
// such that at least one chunk fits: fewer vectors at first, then fewer threads.
void FillChunk(const ScanForm& form, const Target& target, int threads, v1::ScanKnobs& scan) {
  threads = scan.block_threads() > 0 ? scan.block_threads() : threads;
  threads = std::max(threads, scan.threads_per_row());
  int vectors = scan.vectors() > 0 ? scan.vectors() : Vectors(form);
  v1::ScanKnobs filled;
  for (;;) {
    filled = scan;
    filled.set_block_threads(threads);
    filled.set_vectors(vectors);
    if (scan.threads_per_row() == 0) filled.set_threads_per_row(ThreadsPerRow(filled, form));
    v1::ScanKnobs least = filled;
    if (scan.chunks() == 0) least.set_chunks(1);
    if (ScratchBytes(least, form, true) + least.chunks() * ChunkBytes(least, form) <=
        RoomOf(scan, target))
      break;
    if (scan.vectors() == 0 && vectors > 1) {
      vectors /= 2;
    } else if (scan.block_threads() == 0 && threads / 2 >= std::max(32, scan.threads_per_row())) {
      threads /= 2;
    } else {
      break;  // what is set does not fit
    }
  }
  scan = filled;
}

void FillOpen(const ScanForm& form, const Target& target, v1::ScanKnobs& scan) {
  const bool rows = form.sizes.rows();
  // Rows (or columns) of their own for each block would leave most of the card idle: then blocks
  // share them, and are large, so that few have to meet.
  const int64_t sets =
      form.sizes.outer * (rows ? 1 : CeilDiv(form.sizes.columns, kThreadColumns * form.width));
  const bool few = scan.blocks() != 1 &&
                   sets * kMeetingThreads < int64_t{kThreadsPerSm} * target.sm_count &&
                   form.length > int64_t{kMeetingThreads} * kThreadElements / form.width;
  const bool many = rows && form.length * form.width >= int64_t{kBlockThreads} * kThreadElements;
  const int threads = few ? (rows ? kMeetingThreads : kMeetingColumnThreads)
                          : (many && !form.gains ? kBlockThreads : kShortThreads);
  FillChunk(form, target, threads, scan);
  const int most = form.gains && rows ? kGainThreadsPerSm : kThreadsPerSm;
  const int64_t on_sm = few ? 1 : std::max(1, most / scan.block_threads());
  if (scan.chunks() == 0) {
    const int64_t chunk = std::max<int64_t>(1, ChunkBytes(scan, form));
    scan.set_chunks(static_cast<int>(
        std::clamp<int64_t>(kBytesInFlight / (chunk * on_sm), kMinChunks, kMaxChunks)));
    while (scan.chunks() > 1 &&
           ScratchBytes(scan, form, true) + scan.chunks() * chunk > RoomOf(scan, target)) {
      scan.set_chunks(scan.chunks() - 1);
    }
  }
  if (scan.blocks_per_sm() == 0) {
    const int64_t shared = ScratchBytes(scan, form, true) + scan.chunks() * ChunkBytes(scan, form);
    const int64_t blocks = std::min<int64_t>(
        {target.shared_per_sm / (shared + kReservedShared), on_sm,
         target.max_threads_per_sm / scan.block_threads(), int64_t{target.max_blocks_per_sm}});
    scan.set_blocks_per_sm(static_cast<int>(std::max<int64_t>(1, blocks)));
  }
  if (scan.blocks() == 0) scan.set_blocks(static_cast<int>(Blocks(scan, form, target)));
}

}  // namespace

int64_t ScanSets(const v1::ScanKnobs& scan, const ScanForm& form) {
  const int64_t beside = int64_t{scan.block_threads()} / scan.threads_per_row();
  if (form.sizes.rows()) return CeilDiv(form.sizes.outer, beside);
  return form.sizes.outer * CeilDiv(form.sizes.columns, beside * form.width);
}

int64_t ScanSharedBytes(const v1::ScanKnobs& scan, const ScanForm& form) {
  return ScratchBytes(scan, form, scan.blocks() > 1) + scan.chunks() * ChunkBytes(scan, form);
}

int64_t ScanExchangeBytes(const v1::ScanKnobs& scan, const ScanForm& form, int64_t grid) {
  if (scan.blocks() <= 1) return 0;
  const int64_t columns = int64_t{scan.block_threads()} / scan.threads_per_row() * form.width;
  if (!form.sizes.rows()) return grid * 2 * (columns * form.acc_bytes / 4) * 8;
  return grid * (2 * (scan.chunks() / 2) + 2) * (kMaxScanned / 4) * 8;  // ScanRowsConfig::kPlaces
}

absl::StatusOr<v1::Group> ResolveScan(const Analysis& group, const ScanForm& form,
                                      const v1::Group& knobs, const Target& target) {
  v1::Group resolved = knobs;
  v1::ScanKnobs& scan = *resolved.mutable_scan();
  Checker check(group.name());
  // First what defaults divide by.
  check.That(scan.block_threads() == 0 || scan.threads_per_row() <= scan.block_threads(),
             StrCat("scan.threads_per_row is ", scan.threads_per_row(),
                    "; it must be at most block_threads, ", scan.block_threads()));
  check.That(resolved.precision().accumulator() != v1::ACCUMULATOR_COMPENSATED,
             "precision.accumulator of a scan is F32 or F64");
  if (!check.status().ok()) return check.status();
  if (form.ends && scan.blocks() == 0) scan.set_blocks(1);
  FillOpen(form, target, scan);
  const int threads = scan.block_threads(), lines = scan.threads_per_row(), blocks = scan.blocks();
  check.That(threads % lines == 0, StrCat("scan.threads_per_row is ", lines,
                                          "; it must divide block_threads, ", threads));
  if (form.sizes.rows()) {
    check.That(blocks == 1 || lines == threads,
               StrCat("scan.threads_per_row is ", lines,
                      "; a row of several blocks has all their threads: ", threads));
  } else {
    check.That(IsPowerOfTwo(threads), StrCat("scan.block_threads is ", threads,
                                             "; along an outer axis it must be a power of two"));
  }
  check.That(
      !form.ends || (blocks == 1 && int64_t{scan.vectors()} * lines >= form.length),
      StrCat("what a row comes to at its end is needed all along it, so that one block has it "
             "at once: scan.blocks is 1, and scan.vectors * threads_per_row, ",
             scan.vectors(), " * ", lines, ", at least ", form.length));
  check.Range("scan.blocks", blocks, 1,
              std::max<int64_t>(1, int64_t{scan.blocks_per_sm()} * target.sm_count));
  const int64_t parts = Parts(scan, form);
  check.That(blocks <= parts,
             StrCat("scan.blocks is ", blocks, "; it must be at most ", parts, ": the axis of ",
                    form.length, " has so many parts of vectors * threads_per_row, ",
                    scan.vectors(), " * ", lines));
  CheckResidency("scan", threads, scan.blocks_per_sm(), ScanSharedBytes(scan, form),
                 "scan.vectors, scan.chunks or scan.block_threads", target, check);
  if (!check.status().ok()) return check.status();
  return resolved;
}

std::vector<Layout> ScanLayouts(const ScanForm& form, const v1::Group& resolved,
                                const Target& target) {
  std::vector<Layout> layouts;
  const bool rows = form.sizes.rows();
  for (int threads : {256, 512, 1024, 128}) {
    for (int elements : {16, 8, 32}) {
      const int vectors = std::max(1, elements / form.width);
      if (rows && int64_t{vectors} * 32 > 2 * form.length && vectors > 1) continue;
      for (int on_sm : {2048 / threads, 1024 / threads, 768 / threads}) {
        if (on_sm < 1 || on_sm * threads > target.max_threads_per_sm) continue;
        Layout layout;
        layout.kind = "layout";
        layout.name =
            StrCat(threads, " threads, ", vectors, " vectors each, ", on_sm, " blocks an SM");
        // The others follow from these.
        layout.knobs = {{"block_threads", threads}, {"vectors", vectors}, {"blocks_per_sm", on_sm},
                        {"threads_per_row", 0},     {"chunks", 0},        {"blocks", 0}};
        layout.prior = threads == resolved.scan().block_threads() ? 0.06 : 0.04;
        layouts.push_back(layout);
      }
    }
  }
  return layouts;
}

}  // namespace warpsmith::codegen
