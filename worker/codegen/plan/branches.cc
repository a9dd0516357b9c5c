#include "worker/codegen/plan/branches.h"

#include <algorithm>
#include <array>
#include <vector>

#include "common/problem/lanes.h"

namespace warpsmith::codegen {

namespace {

using problem::kMaxLanes;

// Buffers of a step; what it may write is not among what it reads.
struct Touched {
  std::set<int> reads, writes;
};

Touched TouchedByKernel(const v1::Plan& plan, const v1::Launch& launch,
                        const std::set<int>& only_read) {
  Touched touched;
  for (const v1::Argument& argument : launch.arguments()) {
    if (!argument.has_buffer() && !argument.has_map()) continue;
    const int buffer = argument.has_map() ? argument.map().buffer() : argument.buffer();
    const v1::Buffer::Kind kind = plan.buffers(buffer).kind();
    const bool steady =
        kind == v1::Buffer::INPUT || kind == v1::Buffer::PARAM || kind == v1::Buffer::PREPARED;
    (steady || only_read.count(buffer) > 0 ? touched.reads : touched.writes).insert(buffer);
  }
  return touched;
}

Touched TouchedBy(const v1::Plan& plan, int step, const OnlyRead& only_read) {
  const v1::Step& it = plan.steps(step);
  if (it.has_fill()) return {{}, {it.fill().buffer()}};
  if (it.has_copy()) return {{it.copy().from()}, {it.copy().to()}};
  if (it.has_product()) {
    const v1::LibraryProduct& product = it.product();
    Touched touched{{product.a().buffer(), product.b().buffer()},
                    {product.d().buffer(), product.workspace()}};
    if (product.has_bias()) touched.reads.insert(product.bias().buffer());
    return touched;
  }
  const auto known = only_read.find(step);
  return TouchedByKernel(plan, it.launch(),
                         known == only_read.end() ? std::set<int>() : known->second);
}

// Of each step the earlier ones that it waits for; those that they wait for may be missing.
std::vector<std::set<int>> WaitsOf(const v1::Plan& plan, const OnlyRead& only_read) {
  std::vector<std::set<int>> waits(plan.steps_size());
  std::map<int, int> writer;                // by buffer: who wrote it last
  std::map<int, std::vector<int>> readers;  // who has read it since
  int cooperative = -1;                     // the last one
  for (int i = 0; i < plan.steps_size(); ++i) {
    const Touched touched = TouchedBy(plan, i, only_read);
    const auto wait_for_writer = [&](int buffer) {
      const auto found = writer.find(buffer);
      if (found != writer.end()) waits[i].insert(found->second);
    };
    for (const int buffer : touched.reads) {
      wait_for_writer(buffer);
      readers[buffer].push_back(i);
    }
    for (const int buffer : touched.writes) {
      wait_for_writer(buffer);
      waits[i].insert(readers[buffer].begin(), readers[buffer].end());
      readers[buffer].clear();
      writer[buffer] = i;
    }
    if (!plan.steps(i).launch().cooperative()) continue;
    if (cooperative >= 0) waits[i].insert(cooperative);
    cooperative = i;
  }
  return waits;
}

// Of each lane the last step that has ended; -1: it may be that none has.
struct Ended {
  std::array<int, kMaxLanes> last;
  Ended() { last.fill(-1); }
  void Join(const Ended& other) {
    for (int lane = 0; lane < kMaxLanes; ++lane)
      last[lane] = std::max(last[lane], other.last[lane]);
  }
};

class Lanes {
 public:
  explicit Lanes(v1::Plan& plan) : plan_(plan), ended_(plan.steps_size()) {}

  // Steps in order.
  void Add(int step, const std::set<int>& waits) {
    const int lane = LaneFor(waits);
    v1::Step& it = *plan_.mutable_steps(step);
    it.set_lane(lane);
    Ended& ended = ended_[step];
    if (last_.last[lane] >= 0) ended = ended_[last_.last[lane]];
    std::vector<int> after;
    // Later ones have waited for earlier ones.
    for (auto before = waits.rbegin(); before != waits.rend(); ++before) {
      if (ended.last[plan_.steps(*before).lane()] >= *before) continue;
      after.push_back(*before);
      ended.Join(ended_[*before]);
    }
    for (auto before = after.rbegin(); before != after.rend(); ++before) it.add_after(*before);
    ended.last[lane] = last_.last[lane] = step;
  }

 private:
  int LaneFor(const std::set<int>& waits) const {
    Ended needed;
    for (const int before : waits) needed.Join(ended_[before]);
    const auto kernel = [&](int lane) { return plan_.steps(last_.last[lane]).has_launch(); };
    int goes_on = -1, unused = -1, oldest = 0;
    for (int lane = 0; lane < kMaxLanes; ++lane) {
      const int last = last_.last[lane];
      if (last < last_.last[oldest]) oldest = lane;
      if (last < 0) {
        if (unused < 0) unused = lane;
      } else if (needed.last[lane] >= last) {
        // Rather behind a kernel, which it may overlap, and behind what came last.
        if (goes_on < 0 ||
            std::pair(kernel(lane), last) > std::pair(kernel(goes_on), last_.last[goes_on]))
          goes_on = lane;
      }
    }
    return goes_on >= 0 ? goes_on : unused >= 0 ? unused : oldest;
  }

  v1::Plan& plan_;
  std::vector<Ended> ended_;  // of each step: once it has ended, itself too
  Ended last_;                // of each lane its last step so far
};

}  // namespace

void LayOverLanes(const OnlyRead& only_read, bool programmatic, v1::Plan& plan) {
  const std::vector<std::set<int>> waits = WaitsOf(plan, only_read);
  Lanes lanes(plan);
  for (int i = 0; i < plan.steps_size(); ++i) lanes.Add(i, waits[i]);
  const auto laid = problem::LanesOf(plan);
  std::array<bool, kMaxLanes> cooperative{};  // the last step of each lane
  for (int i = 0; i < plan.steps_size(); ++i) {
    v1::Step& step = *plan.mutable_steps(i);
    bool& before = cooperative[step.lane()];
    if (step.has_launch()) {
      v1::Launch& launch = *step.mutable_launch();
      launch.set_programmatic(programmatic && laid->turns[i].may_overlap && !launch.cooperative() &&
                              !before);
    }
    before = step.launch().cooperative();
  }
}

}  // namespace warpsmith::codegen
