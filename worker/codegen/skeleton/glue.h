// The parts that the glue of every skeleton is made of: a kernel's parameters, vector accesses, and
// functions over the lanes of a vector.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/codegen/group/analysis.h"
#include "worker/codegen/ir/emit.h"
#include "worker/codegen/plan/writer.h"

namespace warpsmith::codegen {

// Positions up to this fit an int with room for what all threads of a row have in flight beyond its
// end: twice 4096 blocks of a row of 1024 threads with 16 vectors each (schedule.proto).
inline constexpr int64_t kMaxIntPosition = (int64_t{1} << 31) - (int64_t{1} << 27);

// What a block alone reads of, in sizes of the second-level cache, up to which it had better go
// from there first: what others wrote stays. Of an H200, decoding 33 MB of keys and values
// took 20.6 us and then 19.2, 134 MB 48.3 and 46.6, but 1.1 GB 267 and 269.7, 4.3 GB 1,020 and
// 1,027.
inline constexpr double kOnceOfCache = 4;

// How code is written, whatever it computes.
struct Style {
  int load_hint = 0, store_hint = 0;  // 1: streaming
  bool fast_math = false;
  bool separate = false;   // products are rounded before they are added to
  bool unrounded = false;  // 16 bits are of what is stored alone
  v1::Accumulator accumulator = v1::ACCUMULATOR_F32;  // of sums that a thread adds up
  bool rows_share = false;   // what does not depend on the row is read apart from what does
  bool one_meeting = false;  // for sums and the squares around their means (group/centred.h)
  bool carries = false;      // what a stage computes is at hand in those after it
  bool passes_by = false;    // rows, in slots or read once, go first from the second-level cache
  v1::Accumulator total_accumulator = v1::ACCUMULATOR_F32;  // of sums over rows
};
// Of resolved knobs; `knobs` are those of the group's skeleton.
template <class Knobs>
Style StyleOf(const v1::Group& resolved, const Knobs& knobs) {
  return {knobs.load_hint() == v1::CACHE_STREAMING, knobs.store_hint() == v1::CACHE_STREAMING,
          resolved.precision().fast_math(),         resolved.precision().separate(),
          resolved.precision().unrounded(),         resolved.precision().accumulator()};
}

// What all generators of one group share.
struct GroupContext {
  const graph::Graph* graph = nullptr;
  const Domain* domain = nullptr;
  InMemory in_memory;
  Style style;
  std::string name;  // of the struct
};
GroupContext ContextOf(const Analysis& group, const Domain& domain, const Style& style,
                       const std::string& name);

// Widest vector in elements that `bytes` allow over all tensors that the group streams.
int WidthFor(const Analysis& group, int64_t bytes);

// A domain's elements in row-major order: the number of the first of `width` neighbours, a multiple
// of it.
FrameMaker ElementFrame(const Domain& domain, int width);

// Whether that many elements are one access.
bool FitsVector(graph::DType type, int width);
// Whether they are a few, side by side.
bool FitsAccesses(graph::DType type, int width);

std::vector<Parameter> ParametersOf(const GroupContext& context,
                                    const std::vector<const Kernel*>& kernels);
const std::string& PointerOf(const std::vector<Parameter>& parameters, int tensor);
// Values that are made of indexes alone: positions as numbers, and comparisons of them.
std::vector<ValuePtr> IndexValuesOf(const Kernel& kernel);
// Whether an int holds the sum and all that is computed on the way to it. What is gathered counts
// for nothing: an index into a tensor is as small as the tensor.
bool FitsInt(const Index& index);
// The same of a position in a tensor.
bool AddressFitsInt(const graph::Graph& graph, int tensor, const Index& position);
// Whether all indexes of a kernel fit an int.
bool FitsInt(const graph::Graph& graph, const Kernel& kernel);

// The lanes of `index` are neighbours, and nothing else of it depends on the lane.
bool IsContiguous(const Index& index, const Frame& frame);
// Where the lanes begin: the index at lane 0.
Index LaneBase(const Index& index, const Frame& frame);
// Lanes that read neighbours in twos, fours, ...: lane j the element base + j / lanes.
struct SharedLanes {
  Index base;
  int lanes = 1;  // that read one element; 1: it is not such an index
};
SharedLanes SharedLanesOf(const Index& index, const Frame& frame);

Dialect MakeDialect(const GroupContext& context, const Kernel& kernel,
                    const std::vector<Parameter>& parameters, const std::string& index_type);

// Whether `width` elements of the load's tensor may be read at once from `base` on.
using VectorCheck = std::function<bool(ValuePtr load, const Index& base, int width)>;
// Loads contiguous elements of the targets that are not bound yet as vectors, of elements that
// several lanes share each once; opens nothing.
void LoadContiguous(Emitter& emitter, const Kernel& kernel, const std::vector<ValuePtr>& targets,
                    const VectorCheck& may);
// C++ for the condition under which a root is written; empty: everywhere.
std::string WhereWritten(Emitter& emitter, const Kernel::Root& root);
// Writes roots: vectors where their lanes are neighbours and `aligned`, else element by element.
void StoreRoots(Emitter& emitter, const Dialect& dialect, const GroupContext& context,
                const Kernel& kernel, const std::vector<const Kernel::Root*>& roots,
                const std::function<bool(const Index&)>& aligned);

// `if constexpr` over the vector widths for which there is code: first the wide one.
std::string ByWidth(int width, const std::string& wide, const std::string& narrow);

// Opens the loop over lanes if there is more than one.
void OpenLanes(Emitter& emitter, const Frame& frame);
void CloseLanes(Emitter& emitter, const Frame& frame);
// "j" or "0"
std::string LaneName(const Frame& frame);

}  // namespace warpsmith::codegen
