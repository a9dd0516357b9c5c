// Occupancy: how threads, blocks and rows are laid over the card.
//
// Two kinds of move. Steps change one knob by one notch. Layouts set all of them at once, so that a
// good region is one move away: a row that is needed more than once wants to be held on chip by
// just as many blocks as that takes, with two or three blocks a multiprocessor, so that one's
// barrier hides behind another's traffic, and persistent, so that loads of the next row are in
// flight while this one is stored.
#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "worker/agent/moves.h"

namespace warpsmith::agent {
namespace {

constexpr char kName[] = "occupancy";
constexpr int kMinBlock = 32, kMaxBlock = 1024;
constexpr int kMaxBlocksPerRow = 1024;

const char* NameOf(v1::RowMeeting meeting) {
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

std::string LayoutName(const v1::OccupancyKnobs& k) {
  std::string name = absl::StrCat(k.block_threads(), " threads");
  if (k.threads_per_row() > 0 && k.threads_per_row() != k.block_threads()) {
    absl::StrAppend(&name, ", ", k.threads_per_row(), " a row");
  }
  if (k.blocks_per_row() > 1) {
    absl::StrAppend(&name, ", ", k.blocks_per_row(), " blocks a row by ", NameOf(k.meeting()));
  }
  if (k.blocks_per_sm() > 0) absl::StrAppend(&name, ", ", k.blocks_per_sm(), " blocks an SM");
  return name;
}

class Layouts {
 public:
  Layouts(const State& state, int index, std::vector<Action>& actions)
      : state_(state),
        index_(index),
        info_(state.groups[index]),
        target_(state.target),
        current_(info_.resolved.occupancy()),
        actions_(actions) {}

  void Add(const std::string& kind, const v1::OccupancyKnobs& knobs, double prior) {
    if (!Possible(knobs) || !seen_.insert(Bytes(knobs)).second) return;
    if (Bytes(knobs) == Bytes(current_)) return;
    AddMove(
        state_, index_, kName, kind, LayoutName(current_), LayoutName(knobs), prior,
        [&](v1::Group& group) { *group.mutable_occupancy() = knobs; }, actions_);
  }

  // Moves of one knob, from what is in use now.
  void AddSteps(double room) {
    const bool rows = info_.skeleton == v1::SKELETON_ROWS;
    const bool columns = info_.skeleton == v1::SKELETON_COLUMNS;
    const bool several = current_.blocks_per_row() > 1;
    for (int block : {current_.block_threads() * 2, current_.block_threads() / 2}) {
      auto knobs = current_;
      knobs.set_block_threads(block);
      // A row that has the whole block keeps the whole block.
      if (rows && (several || current_.threads_per_row() == current_.block_threads())) {
        knobs.set_threads_per_row(block);
      }
      Add("block_threads", knobs, 0.05 * room);
    }
    for (int blocks : {current_.blocks_per_sm() + 1, current_.blocks_per_sm() - 1,
                       current_.blocks_per_sm() * 2}) {
      if (blocks < 0) continue;
      auto knobs = current_;
      knobs.set_blocks_per_sm(blocks);
      Add("blocks_per_sm", knobs, 0.05 * room);
    }
    if ((rows && !several) || columns) {
      for (int threads : {current_.threads_per_row() * 2, current_.threads_per_row() / 2}) {
        auto knobs = current_;
        knobs.set_threads_per_row(threads);
        Add("threads_per_row", knobs, 0.05 * room);
      }
    }
    if (rows || columns) {
      for (int blocks :
           {std::max(1, current_.blocks_per_row()) * 2, current_.blocks_per_row() / 2}) {
        if (blocks < 1) continue;
        auto knobs = current_;
        knobs.set_blocks_per_row(blocks);
        // Columns that are needed again stay with one block.
        if (columns && blocks > 1 && info_.stages + (info_.row_outputs ? 1 : 0) > 1) continue;
        if (rows && blocks > 1) knobs.set_threads_per_row(knobs.block_threads());
        if (blocks == 1) {
          knobs.set_meeting(v1::MEETING_AUTO);
        } else if (columns) {
          knobs.set_meeting(v1::MEETING_SECOND_PASS);
          knobs.set_blocks_per_sm(0);
        } else if (knobs.meeting() == v1::MEETING_AUTO) {
          knobs.set_meeting(v1::MEETING_COUNTER);
        }
        Add("blocks_per_row", knobs, 0.05 * room);
      }
    }
    if (rows && several) {
      for (auto meeting : {v1::MEETING_CLUSTER, v1::MEETING_COUNTER, v1::MEETING_SECOND_PASS}) {
        auto knobs = current_;
        knobs.set_meeting(meeting);
        if (meeting == v1::MEETING_SECOND_PASS) knobs.set_blocks_per_sm(0);
        Add("meeting", knobs, 0.04 * room);
      }
    }
  }

  // On a processor threads are fibers, and a meeting of them costs what hundreds of elements do: a
  // row or a column of each thread's own needs none.
  void AddAlone(double room) {
    for (int block : {32, 64, 128, 256}) {
      v1::OccupancyKnobs knobs;
      knobs.set_block_threads(block);
      knobs.set_threads_per_row(1);
      Add("layout", knobs, (block == 32 ? 0.9 : 0.5) * room);
      knobs.set_blocks_per_row(1);
      knobs.set_blocks_per_sm(1);
      Add("layout", knobs, 0.3 * room);
    }
  }

  void AddMap(double room) {
    for (int block : {128, 256, 512, 1024, 64}) {
      for (int blocks : {0, 2, 4, 8}) {
        v1::OccupancyKnobs knobs;
        knobs.set_block_threads(block);
        knobs.set_blocks_per_sm(blocks);
        if (blocks * block > target_.max_threads_per_sm) continue;
        Add("layout", knobs, (blocks == 0 ? 0.04 : 0.03) * room);
      }
    }
  }

  // Rows of up to a few thousand elements: several rows to a block, a thread group for each.
  void AddShortRows(double room) {
    const int vector = VectorElements(info_, info_.resolved);
    const int64_t vectors = std::max<int64_t>(1, CeilDiv(info_.row_elements, vector));
    for (int per_thread : {1, 2, 4, 8, 16}) {
      const int64_t threads = PowerOfTwoAtLeast(CeilDiv(vectors, per_thread));
      if (threads > kMaxBlock) continue;
      for (int block : {128, 256, 512}) {
        if (block < threads && threads > 512) block = static_cast<int>(threads);
        if (block < threads) continue;
        for (int blocks : {0, std::max(1, 1024 / block), std::max(1, 2048 / block)}) {
          v1::OccupancyKnobs knobs;
          knobs.set_block_threads(block);
          knobs.set_threads_per_row(static_cast<int>(threads));
          knobs.set_blocks_per_sm(blocks);
          Add("layout", knobs, (per_thread == 2 || per_thread == 4 ? 0.12 : 0.06) * room);
        }
      }
    }
  }

  // Rows that are needed again and that some number of blocks can hold between them.
  void AddResidentRows(double room) {
    struct Shape {
      int threads, blocks;
      double prior;
    };
    // Measured on an H200 for softmax, norms and losses: two or three blocks a multiprocessor.
    static constexpr Shape kShapes[] = {{256, 3, 0.50},  {512, 2, 0.55},  {256, 2, 0.40},
                                        {1024, 1, 0.25}, {512, 1, 0.25},  {256, 4, 0.35},
                                        {512, 3, 0.35},  {1024, 2, 0.25}, {128, 4, 0.20}};
    const int vector = VectorElements(info_, info_.resolved);
    const int64_t row_bytes = info_.row_elements * info_.element_bytes * std::max(1, info_.streams);
    for (const Shape& shape : kShapes) {
      if (shape.threads * shape.blocks > target_.max_threads_per_sm) continue;
      const Capacity capacity = CapacityOf(target_, shape.threads, shape.blocks);
      const int64_t per_block = shape.threads * capacity.registers + capacity.shared;
      if (per_block <= 0) continue;
      // Threads beyond one vector each would have nothing to do.
      if (info_.row_elements < int64_t{shape.threads} * vector) continue;
      const int64_t least = PowerOfTwoAtLeast(CeilDiv(row_bytes, per_block));
      const int64_t resident = int64_t{shape.blocks} * target_.sm_count;
      for (int64_t blocks : {least, least * 2}) {
        if (blocks > kMaxBlocksPerRow || blocks > resident) continue;
        const double prior = shape.prior * (blocks == least ? 1.0 : 0.7) * room;
        v1::OccupancyKnobs knobs;
        knobs.set_block_threads(shape.threads);
        knobs.set_threads_per_row(shape.threads);
        knobs.set_blocks_per_row(static_cast<int>(blocks));
        knobs.set_blocks_per_sm(shape.blocks);
        if (blocks == 1) {
          Add("layout", knobs, prior);
          continue;
        }
        // A counter leaves no multiprocessor unused; clusters of eight leave fifteen, but they meet
        // faster, which counts while rows are short.
        knobs.set_meeting(v1::MEETING_COUNTER);
        Add("layout", knobs, prior);
        if (blocks <= target_.max_cluster) {
          knobs.set_meeting(v1::MEETING_CLUSTER);
          Add("layout", knobs, prior * (blocks <= 8 ? 0.95 : 0.9));
        }
      }
      if (row_bytes > per_block * resident) {
        // Too long to hold: as many blocks as there are, the rest is read again from L2.
        v1::OccupancyKnobs knobs;
        knobs.set_block_threads(shape.threads);
        knobs.set_threads_per_row(shape.threads);
        knobs.set_blocks_per_row(static_cast<int>(PowerOfTwoAtLeast(resident / 2 + 1)));
        knobs.set_blocks_per_sm(shape.blocks);
        knobs.set_meeting(v1::MEETING_COUNTER);
        Add("layout", knobs, shape.prior * 0.6 * room);
      }
    }
  }

  // Rows that are read once: enough blocks to fill the card, and enough loads in flight.
  void AddStreamedRows(double room) {
    for (int block : {256, 512, 1024, 128}) {
      if (info_.row_elements < block) continue;
      for (int blocks : {0, 1, 2, 4, 8}) {
        if (blocks * block > target_.max_threads_per_sm) continue;
        v1::OccupancyKnobs knobs;
        knobs.set_block_threads(block);
        knobs.set_threads_per_row(block);
        knobs.set_blocks_per_row(1);
        knobs.set_blocks_per_sm(blocks);
        Add("layout", knobs, (info_.rows >= 4 * target_.sm_count ? 0.10 : 0.03) * room);
      }
      // Few rows: several blocks each. A second pass costs a launch and needs no residency.
      if (info_.rows >= 16 * target_.sm_count) continue;
      for (int waves : {2, 1, 4, 8}) {
        const int64_t wanted = CeilDiv(int64_t{target_.sm_count} * waves, info_.rows);
        const int64_t most =
            std::min<int64_t>(CeilDiv(info_.row_elements, int64_t{block} * 4), kMaxBlocksPerRow);
        v1::OccupancyKnobs knobs;
        knobs.set_block_threads(block);
        knobs.set_threads_per_row(block);
        if (info_.stages == 1 && !info_.row_outputs && wanted >= 2 && wanted <= most) {
          // Any number of blocks may share a row here: whole waves of the card.
          knobs.set_blocks_per_row(static_cast<int>(wanted));
          knobs.set_meeting(v1::MEETING_SECOND_PASS);
          Add("layout", knobs, 0.25 * room);
        }
        const int64_t blocks = PowerOfTwoAtLeast(wanted);
        if (blocks < 2 || blocks > most) continue;
        knobs.set_blocks_per_row(static_cast<int>(blocks));
        if (blocks <= target_.max_cluster) {
          knobs.set_meeting(v1::MEETING_CLUSTER);
          Add("layout", knobs, 0.12 * room);
        }
        knobs.set_meeting(v1::MEETING_COUNTER);
        knobs.set_blocks_per_sm(std::max(1, std::min(waves, target_.max_threads_per_sm / block)));
        Add("layout", knobs, 0.12 * room);
      }
    }
  }

  void AddColumns(double room) {
    const int vector = VectorElements(info_, info_.resolved);
    const int64_t columns = std::max<int64_t>(1, info_.columns);
    for (int block : {256, 512, 128, 1024}) {
      for (int rows : {8, 16, 4, 32, 1, 2}) {
        if (rows > block) continue;
        // A block whose columns nobody has is a block that idles.
        const int64_t covered = int64_t{block} / rows * vector;
        if (covered > 2 * PowerOfTwoAtLeast(columns)) continue;
        if (rows > info_.row_elements) continue;
        const int64_t blocks =
            CeilDiv(columns, covered) * std::max<int64_t>(1, info_.rows / columns);
        v1::OccupancyKnobs knobs;
        knobs.set_block_threads(block);
        knobs.set_threads_per_row(rows);
        const double fills = blocks >= 2 * target_.sm_count ? 1.0 : 0.4;
        Add("layout", knobs, 0.12 * fills * room);
        if (info_.stages + (info_.row_outputs ? 1 : 0) >= 2) {
          // Kept in registers between stages: fewer, persistent blocks leave room for that.
          for (int resident : {4, 2, 8}) {
            if (resident * block > target_.max_threads_per_sm) continue;
            auto persistent = knobs;
            persistent.set_blocks_per_sm(resident);
            Add("layout", persistent, (block <= 256 ? 0.15 : 0.08) * fills * room);
          }
        }
        if (info_.stages != 1 || info_.row_outputs) continue;
        const int64_t wanted = CeilDiv(int64_t{target_.sm_count} * 4, std::max<int64_t>(1, blocks));
        for (int64_t split : {PowerOfTwoAtLeast(wanted), PowerOfTwoAtLeast(wanted) * 2,
                              PowerOfTwoAtLeast(wanted) * 4}) {
          if (split < 2 || split * rows * 2 > info_.row_elements) continue;
          if (split > kMaxBlocksPerRow) continue;
          knobs.set_blocks_per_row(static_cast<int>(split));
          knobs.set_meeting(v1::MEETING_SECOND_PASS);
          Add("layout", knobs, 0.15 * (wanted > 1 ? 1.5 : 0.4) * room);
        }
      }
    }
  }

 private:
  bool Possible(const v1::OccupancyKnobs& knobs) const {
    const int block = knobs.block_threads();
    if (block < kMinBlock || block > kMaxBlock || block % 32 != 0) return false;
    const int per_row = knobs.threads_per_row();
    if (per_row < 0 || per_row > block || (per_row > 0 && block % per_row != 0)) return false;
    if (per_row > 0 && PowerOfTwoAtLeast(per_row) != per_row) return false;
    if (!info_.aligned && info_.skeleton == v1::SKELETON_ROWS && per_row > 0) {
      // Ragged rows: the single elements at both ends need a thread each.
      const int vector = VectorElements(info_, info_.resolved);
      if (vector > 1 && per_row * std::max(1, knobs.blocks_per_row()) < 2 * vector) return false;
    }
    const int sm = knobs.blocks_per_sm();
    if (sm > target_.max_blocks_per_sm || sm * block > target_.max_threads_per_sm) return false;
    if (knobs.blocks_per_row() > kMaxBlocksPerRow) return false;
    if (knobs.blocks_per_row() > 1) {
      const bool two = PowerOfTwoAtLeast(knobs.blocks_per_row()) == knobs.blocks_per_row();
      const bool one_pass = info_.stages == 1 && !info_.row_outputs;
      switch (knobs.meeting()) {
        case v1::MEETING_CLUSTER:
          if (!two || knobs.blocks_per_row() > target_.max_cluster) return false;
          break;
        case v1::MEETING_COUNTER:
          if (!two || int64_t{std::max(1, sm)} * target_.sm_count < knobs.blocks_per_row())
            return false;
          break;
        case v1::MEETING_SECOND_PASS:
          if (!one_pass || sm != 0) return false;
          break;
        default:
          break;
      }
    }
    return true;
  }

  const State& state_;
  const int index_;
  const codegen::GroupInfo& info_;
  const codegen::Target& target_;
  const v1::OccupancyKnobs current_;
  std::vector<Action>& actions_;
  std::set<std::string> seen_;
};

class Occupancy : public Specialist {
 public:
  const char* name() const override { return kName; }

  std::vector<Action> Actions(const State& state) const override {
    std::vector<Action> actions;
    for (int i = 0; i < state.groups.size(); ++i) {
      const auto& info = state.groups[i];
      const double room = Room(state, i);
      Layouts layouts(state, i, actions);
      if (state.target.arch == "host" && info.skeleton != v1::SKELETON_MAP) {
        layouts.AddAlone(room);
        layouts.AddSteps(room);
        continue;
      }
      switch (info.skeleton) {
        case v1::SKELETON_ROWS: {
          const bool reread = info.stages + (info.row_outputs ? 1 : 0) >= 2;
          if (info.row_elements <= 8192) layouts.AddShortRows(room);
          if (reread && info.row_elements >= 1024) layouts.AddResidentRows(room);
          if (!reread && info.row_elements >= 512) layouts.AddStreamedRows(room);
          break;
        }
        case v1::SKELETON_COLUMNS:
          layouts.AddColumns(room);
          break;
        default:
          layouts.AddMap(room);
      }
      layouts.AddSteps(room);
    }
    return actions;
  }
};

}  // namespace

std::unique_ptr<Specialist> MakeOccupancy() { return std::make_unique<Occupancy>(); }

}  // namespace warpsmith::agent
