// The list of skeletons, and what is chosen among them.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "worker/codegen/skeleton/attend/attend.h"
#include "worker/codegen/skeleton/columns/columns.h"
#include "worker/codegen/skeleton/contract/contract.h"
#include "worker/codegen/skeleton/fold/fold.h"
#include "worker/codegen/skeleton/map/map.h"
#include "worker/codegen/skeleton/rows/rows.h"
#include "worker/codegen/skeleton/scan/scan.h"
#include "worker/codegen/skeleton/scatter/scatter.h"
#include "worker/codegen/skeleton/skeleton.h"
#include "worker/codegen/skeleton/tile/tile.h"
#include "worker/codegen/skeleton/topk/topk.h"
#include "worker/codegen/skeleton/window/window.h"

namespace warpsmith::codegen {

const std::vector<const Skeleton*>& Skeletons() {
  static const auto* all = new std::vector<const Skeleton*>{
      MapSkeleton(),  WindowSkeleton(), RowsSkeleton(),     ColumnsSkeleton(), FoldSkeleton(),
      TileSkeleton(), ScanSkeleton(),   ContractSkeleton(), AttendSkeleton(),
      TopkSkeleton(), ScatterSkeleton()};
  return *all;
}

static bool HasScan(const Analysis& group) {
  for (int id : NeededNodes(group.graph(), group.roots(), group.in_memory())) {
    if (group.graph().nodes[id].scan) return true;
  }
  return false;
}

const Skeleton* FindSkeleton(SkeletonCase id) {
  for (const Skeleton* skeleton : Skeletons()) {
    if (skeleton->id() == id) return skeleton;
  }
  return nullptr;
}

absl::StatusOr<const Skeleton*> ChooseSkeleton(const Analysis& group, const v1::Group& knobs,
                                               const Target& target) {
  if (knobs.skeleton_case() != v1::Group::SKELETON_NOT_SET) {
    const Skeleton* skeleton = FindSkeleton(knobs.skeleton_case());
    if (auto domain = skeleton->Matches(group); !domain.ok())
      return OfGroup(group, domain.status());
    return skeleton;
  }
  const SkeletonCase telling = HasScan(group) ? v1::Group::kScan : v1::Group::kRows;
  const Skeleton* best = nullptr;
  double most = -1;
  absl::Status why;
  for (const Skeleton* skeleton : Skeletons()) {
    auto domain = skeleton->Matches(group);
    if (!domain.ok()) {
      // Of a group with a scan or a reduce, what stands in the way of running it as one tells most.
      if (why.ok() || skeleton->id() == telling) why = domain.status();
      continue;
    }
    const double suits = skeleton->Suits(group, target);
    if (suits <= most) continue;
    most = suits;
    best = skeleton;
  }
  if (best == nullptr) return OfGroup(group, why);
  return best;
}

absl::StatusOr<v1::Group> ResolveGroup(const Analysis& group, const v1::Group& knobs,
                                       const Target& target) {
  if (absl::Status s = CheckRanges(group.name(), knobs); !s.ok()) return s;
  auto skeleton = ChooseSkeleton(group, knobs, target);
  if (!skeleton.ok()) return skeleton.status();
  v1::Group set = knobs;
  SetSkeleton(set, (*skeleton)->id());
  auto resolved = (*skeleton)->Resolve(group, set, target);
  if (!resolved.ok()) return OfGroup(group, resolved.status());
  return resolved;
}

// ---- what several skeletons use -----------------------------------------------------------------

namespace {

// A run of this many contiguous elements is worth a group of lanes.
constexpr int64_t kContiguousRun = 16;
// Of elements under conditions such a run is worth a warp.
constexpr int64_t kRowsOfParts = 32;
// fp32 values that a thread adds up before fp64 is worth its conversions.
constexpr int64_t kLongSum = 4096;
// Bytes of a stage's accumulators (ws::kMaxAcc), and of one in fp64.
constexpr int kMostAccumulators = 32 / 8;

}  // namespace

Walk WalkOf(const Domain& stages) {
  const Pattern& pattern = stages.pattern;
  const int64_t k = stages.reduced();
  if (!pattern.known) return k <= kMaxWrittenOut ? Walk::kAlone : Walk::kAlong;
  const int64_t run = ReducedRun(stages);
  // Windows; what is concatenated is guarded, too, and lies in long runs.
  const bool window = pattern.overlapping || (pattern.guarded && run < kRowsOfParts);
  if (window && k <= kMaxSerialElements) return Walk::kAlone;
  if (run == k || run >= kContiguousRun || (run > 0 && k > kMaxSerialElements)) return Walk::kAlong;
  if (run > 0) return Walk::kAlone;
  for (size_t a = 0; a < stages.axes.size(); ++a) {
    if (stages.axes[a].role == Role::kKept && pattern.stride[a] == 1)
      return k == 1 ? Walk::kAlone : Walk::kAcross;
  }
  return k <= kMaxWrittenOut ? Walk::kAlone : Walk::kAlong;
}

v1::Accumulator AccumulatorFor(const Analysis& group, const Domain& domain, int64_t elements) {
  if (elements <= kLongSum) return v1::ACCUMULATOR_F32;
  const graph::Graph& graph = group.graph();
  int sums = 0;
  auto count = [&](const graph::Node& node) {
    sums +=
        node.reduce && node.combiner == graph::Combiner::kSum && graph::IsFloat(node.value->type);
  };
  if (domain.elements()) {
    for (int id : NeededNodes(graph, group.roots(), group.in_memory())) count(graph.nodes[id]);
    return sums > 0 ? v1::ACCUMULATOR_F64 : v1::ACCUMULATOR_F32;
  }
  for (const StageNode& stage : domain.nodes) count(graph.nodes[stage.node]);
  return sums > 0 && sums <= kMostAccumulators ? v1::ACCUMULATOR_F64 : v1::ACCUMULATOR_F32;
}

std::vector<Layout> ThreadLayouts(const Target& target) {
  std::vector<Layout> layouts;
  for (int block : {128, 256, 512, 1024, 64}) {
    for (int blocks : {0, 2, 4, 8}) {
      if (blocks * block > target.max_threads_per_sm) continue;
      Layout layout;
      layout.kind = "layout";
      layout.name = absl::StrCat(block, " threads",
                                 blocks > 0 ? absl::StrCat(", ", blocks, " blocks an SM") : "");
      layout.knobs = {{"block_threads", block}, {"blocks_per_sm", blocks}};
      layout.prior = blocks == 0 ? 0.04 : 0.03;
      layouts.push_back(layout);
    }
  }
  return layouts;
}

void CheckResidency(const char* skeleton, int64_t threads, int64_t blocks, int64_t shared_bytes,
                    const char* cure, const Target& target, Checker& check) {
  using absl::StrCat;
  check.That(shared_bytes <= target.shared_per_block,
             StrCat("needs ", shared_bytes, " bytes of shared memory a block, the card has ",
                    target.shared_per_block, "; lower ", cure));
  if (blocks == 0) return;
  check.That(blocks <= target.max_blocks_per_sm,
             StrCat(skeleton, ".blocks_per_sm is ", blocks, "; a multiprocessor has at most ",
                    target.max_blocks_per_sm));
  check.That(blocks * threads <= target.max_threads_per_sm,
             StrCat(skeleton, ".blocks_per_sm ", blocks, " of ", threads,
                    " threads: a multiprocessor has ", target.max_threads_per_sm, " threads"));
  check.That(blocks * (shared_bytes + kReservedShared) <= target.shared_per_sm,
             StrCat(skeleton, ".blocks_per_sm ", blocks, " with ", shared_bytes,
                    " bytes of shared memory each: a multiprocessor has ", target.shared_per_sm,
                    "; lower ", skeleton, ".blocks_per_sm, ", cure));
}

}  // namespace warpsmith::codegen
