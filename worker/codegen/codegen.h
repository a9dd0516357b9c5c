// From a graph and a schedule to device code and a launch plan. Pure: no input, no output, no
// clock.
//
//   auto graph = problem::GraphOf(problem, workload);
//   auto rewritten = codegen::Rewrite(*graph, schedule.rewrites());
//   auto plan = codegen::Lower(*rewritten, schedule, target);
//
// Graph, schedule, kGeneratorVersion and target determine the source to the byte.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/graph/graph.h"
#include "warpsmith/v1/schedule.pb.h"
#include "warpsmith/v1/solution.pb.h"

namespace warpsmith::codegen {

inline constexpr char kGeneratorVersion[] = "2";

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
};

// ---- algebra: rewrites that hold for every input ------------------------------------------------

// Rewrites that apply to this graph, as the strings that Schedule.rewrites takes, e.g.
// "single_pass_variance:var". Deterministic order.
std::vector<std::string> ApplicableRewrites(const graph::Graph& graph);
// Applies them in order; reduces that compute the same are computed once, always. Every tensor
// keeps its name. InvalidArgument names one that does not apply.
absl::StatusOr<graph::Graph> Rewrite(
    const graph::Graph& graph, const google::protobuf::RepeatedPtrField<std::string>& rewrites);

// ---- schedules ----------------------------------------------------------------------------------

// A good first schedule for a (rewritten) graph: fused greedily, knobs from shapes and target.
v1::Schedule DefaultSchedule(const graph::Graph& graph, const Target& target);
// One kernel for each node, default knobs: the op-by-op plan that stands in for a baseline.
v1::Schedule OpByOpSchedule(const graph::Graph& graph, const Target& target);

// What a group is, for specialists that choose knobs and for reports.
struct GroupInfo {
  v1::Skeleton skeleton;      // never AUTO
  int stages = 0;             // dependent reduce passes over the row (softmax: 2); 0 for map
  bool row_outputs = false;   // writes elements of the full space (softmax: yes, sum: no)
  bool window = false;        // map skeleton with overlapping windows
  int64_t rows = 0;           // independent reductions (map: output elements)
  int64_t row_elements = 0;   // elements of one (map: 1)
  int64_t columns = 0;        // columns skeleton: contiguous kept elements
  int streams = 0;            // tensors read along the full space
  int64_t element_bytes = 4;  // of the widest streamed element
  int64_t bytes_read = 0, bytes_written = 0;  // once each
  double operations = 0, transcendental = 0;
  bool aligned = false;     // rows start at multiples of 16 bytes
  bool can_online = false;  // has a max / sum-of-exp pair
  v1::Group resolved;       // with every zero knob replaced by what is used
};
absl::StatusOr<std::vector<GroupInfo>> Describe(const graph::Graph& graph,
                                                const v1::Schedule& schedule, const Target& target);

// Lowers. InvalidArgument: the schedule is not one for this graph, or a knob is outside what its
// skeleton takes (the message says which and the allowed range). Never CHECK-fails on a schedule.
// plan.workload is left empty. Buffers: one for each input, param, state, output, then workspace.
absl::StatusOr<v1::Plan> Lower(const graph::Graph& graph, const v1::Schedule& schedule,
                               const Target& target);

}  // namespace warpsmith::codegen
