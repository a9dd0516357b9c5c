// Turns the expressions of a graph into values of one kernel: maps are substituted into what loads
// them, reduces become results of stages, loops in the thread, or are written out.
#pragma once

#include <functional>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "common/graph/graph.h"
#include "worker/codegen/ir/value.h"

namespace warpsmith::codegen {

// A reduce computed in the thread has at most this many elements.
inline constexpr int64_t kMaxSerialElements = 4096;
// A reduce is written out (all its elements in one expression) up to this many elements.
inline constexpr int64_t kMaxWrittenOut = 64;
// The same of one within another's loop, which the compiler unrolls if it wants to; and of reduces
// within each other, all together.
inline constexpr int64_t kMaxWrittenOutInLoop = 16;
inline constexpr int64_t kMaxWrittenOutTogether = 256;

// How tensors that are not inlined are had.
struct TensorAccess {
  // In memory already: an input, or the result of a group that ran before.
  std::function<bool(int tensor)> in_memory;
  // Result of a stage of this group at these coordinates; nullptr: not a stage. Errors: read
  // elsewhere than the row allows.
  std::function<absl::StatusOr<ValuePtr>(int tensor, const std::vector<Index>& at)> stage;
  // Told of every tensor that is inlined, with the coordinates. May be empty.
  std::function<void(int tensor, const std::vector<Index>& at)> observe;
  // Whether reduces in the thread may be written out.
  bool write_out = false;
};

class Inliner {
 public:
  Inliner(const graph::Graph& graph, Values& values, TensorAccess access)
      : graph_(graph), values_(values), access_(std::move(access)) {}

  // The element of `tensor` at `at`.
  absl::StatusOr<ValuePtr> Element(int tensor, const std::vector<Index>& at);
  // A node's own expression under coordinates for its axes and reduce axes.
  absl::StatusOr<ValuePtr> Body(const graph::Node& node, const std::vector<Index>& env);
  // The same where `condition` holds: loads happen under it, unless they are inside anyway.
  absl::StatusOr<ValuePtr> ElementUnder(int tensor, const std::vector<Index>& at,
                                        ValuePtr condition);
  absl::StatusOr<ValuePtr> BodyUnder(const graph::Node& node, const std::vector<Index>& env,
                                     ValuePtr condition);

 private:
  using Guard = std::vector<ValuePtr>;                     // conditions that hold here, all of them
  using Key = std::tuple<int, std::vector<Index>, Guard>;  // an element of a tensor

  absl::StatusOr<ValuePtr> Build(const graph::ExprPtr& e, const std::vector<Index>& env,
                                 const Guard& guard);
  absl::StatusOr<ValuePtr> Get(int tensor, std::vector<Index> at, const Guard& guard);
  absl::StatusOr<ValuePtr> GetUncached(int tensor, const std::vector<Index>& at,
                                       const Guard& guard);
  absl::StatusOr<ValuePtr> Serial(int node, int output, const std::vector<Index>& at,
                                  const Guard& guard);
  absl::StatusOr<ValuePtr> WrittenOut(const graph::Node& node, std::vector<Index> env, size_t axis,
                                      const Guard& guard);
  ValuePtr LoadFromMemory(int tensor, std::vector<Index> at, const Guard& guard);
  static Index AsItStands(const Index& number, int64_t extent, const Guard& guard);
  ValuePtr NeededGuard(const graph::Tensor& tensor, const std::vector<Index>& at,
                       const Guard& guard);
  ValuePtr Integer(graph::Op op, ValuePtr a, ValuePtr b);  // i64 index arithmetic, or nullptr

  const graph::Graph& graph_;
  Values& values_;
  TensorAccess access_;
  absl::flat_hash_map<Key, ValuePtr> memo_;
  std::unordered_map<int, std::vector<Variable>> loops_;  // of reduces in the thread, by node
  int64_t written_out_ = 1;  // elements of reduces that are being written out, within each other
  int in_loops_ = 0;  // of sums that what is built stands within
};

}  // namespace warpsmith::codegen
