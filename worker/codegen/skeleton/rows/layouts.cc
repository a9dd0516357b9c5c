// Places to try beside the defaults of the rows skeleton: so many threads and blocks for a row that
// it is kept on chip, or streamed by a full card. Measured on an H200 for softmax, norms and
// losses: two or three blocks a multiprocessor, so that one's barrier hides behind another's
// traffic, and persistent, so that loads of the next row are in flight while this one is stored.
#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "worker/codegen/skeleton/rows/rows.h"

namespace warpsmith::codegen {
namespace {

using absl::StrCat;

constexpr int kMaxBlocksPerRow = 1024;
constexpr int kMaxThreadRegisters = 255;
constexpr int kMaxKeptVectors = 64;
// What a thread keeps of a short row.
constexpr int64_t kFewKeptVectors = 8;
// Registers wanted over those that there are: an estimate's error, and what the compiler can do
// without. Beyond that kernels were four to twelve times slower.
constexpr double kMostSpilled = 1.5;
// Rows of up to so many elements may be several to a block.
constexpr int64_t kShortRow = 8192;

// Bytes of a row that a thread keeps in registers, and a block in shared memory, where `blocks` of
// `threads` share a multiprocessor.
struct Capacity {
  int64_t registers = 0, shared = 0;
};

Capacity CapacityOf(const Target& target, int threads, int blocks) {
  Capacity capacity;
  const int64_t registers = std::min<int64_t>(
      kMaxThreadRegisters, target.registers_per_sm / std::max(1, threads * blocks));
  capacity.registers = 4 * std::max<int64_t>(0, registers - kWorkRegisters - 6);
  const int64_t shared = std::min(target.shared_per_block,
                                  target.shared_per_sm / std::max(1, blocks) - kReservedShared);
  const int64_t scratch = 2 * kMaxAccBytes * (threads / 32) + 2 * kMaxAccBytes;
  capacity.shared = std::max<int64_t>(0, shared - scratch);
  return capacity;
}

class Places {
 public:
  Places(const Domain& domain, const RowsForm& form, const v1::RowsKnobs& now, const Target& target)
      : domain_(domain), form_(form), now_(now), target_(target), passes_(form.passes() > 1) {}

  std::vector<Layout> All() {
    if (target_.fibers()) {
      AddAlone();
    } else {
      if (form_.row_elements <= kShortRow) AddShort();
      if (passes_ && form_.row_elements >= 1024) AddResident();
      if (passes_) AddAhead();
      if (!passes_ && form_.row_elements >= 512) AddStreamed();
    }
    AddKept();
    return std::move(layouts_);
  }

 private:
  struct Occupancy {
    int64_t block_threads = 0, threads_per_row = 0, blocks_per_row = 0, blocks_per_sm = 0;
    v1::RowMeeting meeting = v1::MEETING_AUTO;
  };

  static const char* NameOf(v1::RowMeeting meeting) {
    switch (meeting) {
      case v1::MEETING_CLUSTER:
        return "cluster";
      case v1::MEETING_COUNTER:
        return "counter";
      case v1::MEETING_SECOND_PASS:
        return "second pass";
      default:
        return "auto";
    }
  }

  void Add(const Occupancy& o, double prior) {
    if (o.block_threads < 32 || o.block_threads > 1024 || o.blocks_per_row > kMaxBlocksPerRow ||
        o.blocks_per_sm * o.block_threads > target_.max_threads_per_sm ||
        o.blocks_per_sm > target_.max_blocks_per_sm)
      return;
    Layout layout;
    layout.kind = "layout";
    layout.name = StrCat(o.block_threads, " threads");
    if (o.threads_per_row > 0 && o.threads_per_row != o.block_threads)
      absl::StrAppend(&layout.name, ", ", o.threads_per_row, " a row");
    if (o.blocks_per_row > 1)
      absl::StrAppend(&layout.name, ", ", o.blocks_per_row, " blocks a row by ", NameOf(o.meeting));
    if (o.blocks_per_sm > 0) absl::StrAppend(&layout.name, ", ", o.blocks_per_sm, " blocks an SM");
    layout.knobs = {{"block_threads", o.block_threads},
                    {"threads_per_row", o.threads_per_row},
                    {"blocks_per_row", o.blocks_per_row},
                    {"meeting", o.meeting},
                    {"blocks_per_sm", o.blocks_per_sm}};
    layout.prior = prior;
    layouts_.push_back(layout);
  }

  // On a processor threads are fibers, and a meeting of them costs what hundreds of elements do: a
  // row of each thread's own needs none.
  void AddAlone() {
    for (int block : {32, 64, 128, 256}) {
      Add({block, 1}, block == 32 ? 0.9 : 0.5);
      Add({block, 1, 1, 1}, 0.3);
    }
  }

  // So many resident threads, `row_threads` a row, would have to spill most of what they keep of
  // it.
  bool Spills(int64_t row_threads, int64_t resident) const {
    if (!passes_) return false;
    v1::RowsKnobs rows = now_;
    rows.set_register_vectors(
        static_cast<int>(std::min(CeilDiv(form_.vectors(), row_threads), kFewKeptVectors)));
    rows.set_results(v1::RESULTS_AGAIN);
    const auto wanted = static_cast<double>(form_.Registers(rows) * resident);
    return wanted > kMostSpilled * static_cast<double>(target_.registers_per_sm);
  }

  // Several rows to a block, a thread group for each.
  void AddShort() {
    const int64_t vectors = std::max<int64_t>(1, form_.vectors());
    for (int per_thread : {1, 2, 4, 8, 16}) {
      const int64_t threads = PowerOfTwoAtLeast(CeilDiv(vectors, per_thread));
      for (int64_t block : {128, 256, 512}) {
        if (block < threads && threads > 512) block = threads;
        if (block < threads) continue;
        for (int64_t blocks :
             {int64_t{0}, std::max<int64_t>(1, 1024 / block), std::max<int64_t>(1, 2048 / block)}) {
          if (Spills(threads, block * blocks)) continue;
          Add({block, threads, 0, blocks}, per_thread == 2 || per_thread == 4 ? 0.12 : 0.06);
        }
      }
    }
  }

  // Rows that are needed again and that some number of blocks can hold between them.
  void AddResident() {
    struct Shape {
      int threads, blocks;
      double prior;
    };
    static constexpr Shape kShapes[] = {{256, 3, 0.50},  {512, 2, 0.55},  {256, 2, 0.40},
                                        {1024, 1, 0.25}, {512, 1, 0.25},  {256, 4, 0.35},
                                        {512, 3, 0.35},  {1024, 2, 0.25}, {128, 4, 0.20}};
    const int64_t row_bytes =
        form_.row_elements *
        std::max(1, form_.stream_bytes * now_.rows_at_once() + form_.total_bytes);
    for (const Shape& shape : kShapes) {
      if (shape.threads * shape.blocks > target_.max_threads_per_sm) continue;
      const Capacity capacity = CapacityOf(target_, shape.threads, shape.blocks);
      const int64_t per_block = shape.threads * capacity.registers + capacity.shared;
      // Threads beyond one vector each would have nothing to do.
      if (per_block <= 0 || form_.row_elements < int64_t{shape.threads} * form_.width) continue;
      const int64_t least = PowerOfTwoAtLeast(CeilDiv(row_bytes, per_block));
      const int64_t resident = int64_t{shape.blocks} * target_.sm_count;
      for (int64_t blocks : {least, least * 2}) {
        if (blocks > kMaxBlocksPerRow || blocks > resident) continue;
        if (Spills(shape.threads * blocks, int64_t{shape.threads} * shape.blocks)) continue;
        const double prior = shape.prior * (blocks == least ? 1.0 : 0.7);
        Occupancy o{shape.threads, shape.threads, blocks, shape.blocks};
        if (blocks == 1) {
          Add(o, prior);
          continue;
        }
        // A counter leaves no multiprocessor unused; clusters of eight leave fifteen, but they meet
        // faster, which counts while rows are short.
        o.meeting = v1::MEETING_COUNTER;
        Add(o, prior);
        o.meeting = v1::MEETING_CLUSTER;
        if (blocks <= target_.max_cluster) Add(o, prior * (blocks <= 8 ? 0.95 : 0.9));
      }
      if (row_bytes > per_block * resident) {
        // Too long to hold: as many blocks as there are, the rest is read again from L2.
        Add({shape.threads, shape.threads, PowerOfTwoAtLeast(resident / 2 + 1), shape.blocks,
             v1::MEETING_COUNTER},
            shape.prior * 0.6);
      }
    }
  }

  // Rows that lie in shared memory whole, with some of the next row beside.
  void AddAhead() {
    const int64_t room = std::min<int64_t>(kMaxKeptVectors, Most().second);
    v1::RowsKnobs knobs = now_;
    knobs.set_shared_vectors(static_cast<int>(room));
    const int ahead = form_.Ahead(knobs);
    if (ahead == 0) return;
    const int64_t shared = form_.Each(knobs) + ahead;
    if (shared == now_.shared_vectors()) return;
    Layout layout;
    layout.kind = "keep";
    layout.owner = v1::MEMORY;
    layout.name = StrCat(ahead, " vectors of the next row");
    layout.knobs = {{"register_vectors", 0}, {"shared_vectors", shared}};
    layout.prior = 0.4;
    layouts_.push_back(layout);
  }

  // Rows that are read once: enough blocks to fill the card, and enough loads in flight.
  void AddStreamed() {
    for (int block : {256, 512, 1024, 128}) {
      if (form_.row_elements < block) continue;
      for (int blocks : {0, 1, 2, 4, 8})
        Add({block, block, 1, blocks}, domain_.kept() >= 4 * target_.sm_count ? 0.10 : 0.03);
      // Few rows: several blocks each. A second pass costs a launch and needs no residency.
      if (domain_.kept() >= 16 * target_.sm_count) continue;
      for (int waves : {2, 1, 4, 8}) AddShared(block, waves);
    }
  }

  void AddShared(int block, int waves) {
    const int64_t wanted = CeilDiv(int64_t{target_.sm_count} * waves, domain_.kept());
    const int64_t most =
        std::min<int64_t>(CeilDiv(form_.row_elements, int64_t{block} * 4), kMaxBlocksPerRow);
    // Any number of blocks may share a row in two kernels: whole waves of the card.
    if (wanted >= 2 && wanted <= most)
      Add({block, block, wanted, 0, v1::MEETING_SECOND_PASS}, 0.25);
    const int64_t blocks = PowerOfTwoAtLeast(wanted);
    if (blocks < 2 || blocks > most) return;
    if (blocks <= target_.max_cluster) Add({block, block, blocks, 0, v1::MEETING_CLUSTER}, 0.12);
    Add({block, block, blocks, std::max(1, std::min(waves, target_.max_threads_per_sm / block)),
         v1::MEETING_COUNTER},
        0.12);
  }

  // Splits of a row between registers and shared memory.
  void AddKept() {
    const int64_t threads = int64_t{now_.threads_per_row()} * now_.blocks_per_row();
    const int64_t n = CeilDiv(form_.vectors(), threads);  // vectors for each of them
    if (passes_) {
      for (int64_t eighths : {4, 3, 5, 2, 6, 8, 0, 1, 7})
        Keep(n, n * eighths / 8, n - n * eighths / 8, eighths == 4 ? 0.15 : 0.08);
      const auto [registers, shared] = Most();
      if (n > registers + shared) Keep(n, registers, shared, 0.12);
    } else {
      // Read once: slots of the next row in flight are what keeping is for.
      for (int64_t kept : {2, 4, 8}) {
        Keep(n, kept, 0, 0.05);
        Keep(n, kept / 2, kept / 2, 0.05);
      }
    }
    Keep(n, now_.register_vectors() + 1, now_.shared_vectors() - 1, 0.04);
    Keep(n, now_.register_vectors() - 1, now_.shared_vectors() + 1, 0.04);
  }

  std::pair<int64_t, int64_t> Most() const {
    const Capacity capacity =
        CapacityOf(target_, now_.block_threads(), std::max(1, now_.blocks_per_sm()));
    const int64_t vector = form_.SlotBytes(now_.rows_at_once());
    return {capacity.registers / vector, capacity.shared / (vector * now_.block_threads())};
  }

  void Keep(int64_t needed, int64_t registers, int64_t shared, double prior) {
    const auto [most_registers, most_shared] = Most();
    if (registers < 0 || shared < 0 || registers + shared > needed) return;
    if (form_.total_bytes > 0 && registers + shared < needed) return;
    // A little over what is estimated is left to the compiler's report: spills show there.
    if (registers > most_registers + 2 || shared > most_shared) return;
    if (std::max(registers, shared) > kMaxKeptVectors) return;
    if (registers == now_.register_vectors() && shared == now_.shared_vectors()) return;
    if (!kept_.insert({registers, shared}).second) return;
    Layout layout;
    layout.owner = v1::MEMORY;
    layout.kind = "keep";
    layout.name = StrCat(registers, " register + ", shared, " shared");
    layout.knobs = {{"register_vectors", registers}, {"shared_vectors", shared}};
    layout.prior = prior;
    layout.registers = registers > now_.register_vectors()   ? 1
                       : registers < now_.register_vectors() ? -1
                                                             : 0;
    layouts_.push_back(layout);
  }

  const Domain& domain_;
  const RowsForm& form_;
  const v1::RowsKnobs& now_;
  const Target& target_;
  const bool passes_;
  std::vector<Layout> layouts_;
  std::set<std::pair<int64_t, int64_t>> kept_;
};

}  // namespace

std::vector<Layout> RowsLayouts(const Domain& domain, const RowsForm& form,
                                const v1::Group& resolved, const Target& target) {
  return Places(domain, form, resolved.rows(), target).All();
}

}  // namespace warpsmith::codegen
