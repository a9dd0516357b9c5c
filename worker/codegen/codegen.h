// From a graph and a schedule to device code and a launch plan. Pure: no input, no output, no
// clock.
//
//   auto graph = problem::GraphOf(problem, workload);
//   auto rewritten = codegen::Rewrite(*graph, schedule.rewrites());
//   auto plan = codegen::Lower(*rewritten, schedule, target);
//
// Graph, schedule, kGeneratorVersion and target determine the source to the byte.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/graph/graph.h"
#include "warpsmith/v1/schedule.pb.h"
#include "warpsmith/v1/solution.pb.h"

namespace warpsmith::codegen {

inline constexpr char kGeneratorVersion[] = "42";

// What code generation needs to know of a card. Host: sm_count 1, cluster 1.
struct Target {
  std::string arch = "sm_90a";  // "sm_90a", "sm_100a", "host"
  int sm_count = 132;
  int max_threads_per_sm = 2048;
  int max_blocks_per_sm = 32;
  int64_t registers_per_sm = 65536;
  int64_t shared_per_sm = 228 << 10;
  int64_t shared_per_block = 227 << 10;  // dynamic, opted in; 1 KiB a block is reserved beside it
  int64_t l2_bytes = 50 << 20;
  int max_cluster = 16;  // with the non-portable size allowed
  // Blocks that the card runs at once, one a multiprocessor, in clusters of 4, 8 and 16: those lie
  // within its parts, and some of a part's multiprocessors are in none. Of an H200.
  std::array<int, 3> clustered_blocks = {120, 120, 112};
  std::string library;  // that makes products, with its version; empty: none
  // Rates that estimates are made of; only their ratios matter.
  double bytes_per_second = 4.0e12;       // of memory
  double operations_per_second = 1.2e13;  // simple ones of all threads
  // Multiplications with their additions: of fp32, and of 16 bits on tensor cores; 0: it has none
  // that there is code for.
  double products_per_second = 2.5e13, tensor_products_per_second = 3.95e14;
  double launch_seconds = 2.5e-6;  // of one kernel after another
  // Threads of a block are fibers of one processor: neighbours in a warp gain nothing by reading
  // neighbours, and every meeting of threads is slow.
  bool fibers() const { return arch == "host"; }
};

// ---- algebra: rewrites that hold for every input ------------------------------------------------

// Rewrites that apply to this graph, as the strings that Schedule.rewrites takes, e.g.
// "single_pass_variance:var". Deterministic order.
std::vector<std::string> ApplicableRewrites(const graph::Graph& graph);
// Those of them that leave results as accurate as they were.
std::vector<std::string> RewritesAtOnce(const graph::Graph& graph);
// Rewrites that change no value, and with which a schedule that keeps its digits
// (precision.unrounded) keeps more of them: not among the others.
std::vector<std::string> RewritesForDigits(const graph::Graph& graph);
// Applies them in order; reduces that compute the same are computed once, always. Every tensor
// keeps its name. InvalidArgument names one that does not apply.
absl::StatusOr<graph::Graph> Rewrite(
    const graph::Graph& graph, const google::protobuf::RepeatedPtrField<std::string>& rewrites);

// ---- schedules ----------------------------------------------------------------------------------

// A good first schedule for a (rewritten) graph: fused greedily, knobs from shapes and target.
v1::Schedule DefaultSchedule(const graph::Graph& graph, const Target& target);
// The same for a graph to which no rewrite was applied yet: with those that change no rounding to
// speak of (RewritesAtOnce) where the estimate is less by them.
// `attention`: whether two products with a softmax between them may be one kernel.
v1::Schedule FirstSchedule(const graph::Graph& graph, const Target& target, bool attention = true);
// One kernel for each node, default knobs: the op-by-op plan that stands in for a baseline.
v1::Schedule OpByOpSchedule(const graph::Graph& graph, const Target& target);

// What a group is, for specialists that choose knobs and for reports.
struct GroupInfo {
  v1::Group::SkeletonCase skeleton = v1::Group::SKELETON_NOT_SET;  // never NOT_SET
  std::vector<v1::Group::SkeletonCase> others;  // skeletons that it could run on as well
  int stages = 0;            // dependent reduce passes over the row (softmax: 2); 0 as elements
  bool row_outputs = false;  // stages: writes elements of the full space (softmax: yes, sum: no)
  int64_t rows = 0;          // independent reductions (as elements: output elements)
  int64_t row_elements = 0;  // elements of one (as elements: 1)
  bool reduces = false;      // there is a reduce in it
  int64_t bytes_read = 0, bytes_written = 0;  // once each
  double operations = 0, transcendental = 0;
  double products = 0;         // multiplications of factors, by whatever unit; contract alone
  double tensor_products = 0;  // pairs of 16 bits that tensor cores multiply; not among operations
  bool can_online = false;     // has a max / sum-of-exp pair
  // What the resolved knobs make of it (skeleton/skeleton.h, Usage).
  int streams = 0;           // tensors read along the full space
  int64_t stream_bytes = 0;  // of a point of all of them
  int width = 1;             // elements of an access
  bool aligned = false;      // rows begin where accesses may
  int launches = 1;
  int64_t blocks = 0;
  int threads = 0;           // of a block
  int64_t shared_bytes = 0;  // of a block, dynamic
  int64_t registers = 0;     // of a thread, estimated; 0: not
  int passes = 1;            // over what is streamed
  double kept = 1;           // part of it that stays on chip from one pass to the next
  int64_t workspace_bytes = 0;
  double seconds = 0;  // estimated
  v1::Group resolved;  // with every open knob replaced by what is used; none set where nothing runs
};

// Several knobs of one owner set together: a place that steps of single knobs do not reach.
struct Layout {
  v1::Specialist owner = v1::OCCUPANCY;
  std::string kind;  // "layout", "keep"
  std::string name;  // for people: "256 threads, 8 blocks a row by counter"
  std::vector<std::pair<std::string, int64_t>> knobs;  // by name; 0 leaves one open
  double prior = 0;   // part of the group's room that is expected of it
  int registers = 0;  // +1: more a thread, -1: fewer
};

// Describes schedules of one graph. What does not depend on knobs is kept from one to the next, so
// that schedules which differ in knobs cost microseconds. Not thread-safe; `graph` outlives it.
class Describer {
 public:
  Describer(const graph::Graph& graph, const Target& target);
  ~Describer();
  // One description for each group. InvalidArgument: as Lower.
  absl::StatusOr<std::vector<GroupInfo>> Describe(const v1::Schedule& schedule);
  // Whether one group of a schedule resolves; what Describe would say of it.
  absl::Status Check(const v1::Schedule& schedule, int group);
  // How many groups of a schedule have kernels that could run beside another group's: neither needs
  // the other. 0: it is no schedule.
  int GroupsBesideOthers(const v1::Schedule& schedule);
  // Joint moves of a group of a schedule that was described.
  std::vector<Layout> Layouts(const v1::Schedule& schedule, int group);

 private:
  struct Kept;
  std::unique_ptr<Kept> kept_;
};
// The same once.
absl::StatusOr<std::vector<GroupInfo>> Describe(const graph::Graph& graph,
                                                const v1::Schedule& schedule, const Target& target);

// Lowers. InvalidArgument: the schedule is not one for this graph, or a knob is outside what its
// skeleton takes (the message says which and the allowed range). Never CHECK-fails on a schedule.
// plan.workload is left empty. Buffers: one for each input, param, state, output, then workspace.
absl::StatusOr<v1::Plan> Lower(const graph::Graph& graph, const v1::Schedule& schedule,
                               const Target& target);

}  // namespace warpsmith::codegen
