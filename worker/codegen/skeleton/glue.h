// The parts that the glue of every skeleton is made of: a kernel's parameters, vector accesses, and
// functions over the lanes of a vector.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/codegen/ir/emit.h"
#include "worker/codegen/group/space.h"

namespace warpsmith::codegen {

// Positions up to this fit an int with room for what all threads of a row have in flight beyond its
// end: twice kMaxBlocksPerRow blocks of 1024 threads with kMaxUnroll vectors each (knobs.h).
inline constexpr int64_t kMaxIntPosition = (int64_t{1} << 31) - (int64_t{1} << 27);

// A tensor's name as C++ takes it.
std::string Identifier(const std::string& name);

// A pointer that a kernel takes; a member of its struct, in this order.
struct Parameter {
  int tensor = -1;
  bool written = false;
  std::string name;
  std::string type;  // "const float*"
};

// What all generators of one group share.
struct GroupContext {
  const graph::Graph* graph = nullptr;
  const Space* space = nullptr;
  InMemory in_memory;
  const v1::Group* knobs = nullptr;  // resolved
  std::string name;                  // of the struct
};

// The generated struct and what its launch needs to know.
struct GroupSource {
  std::string text;
  std::vector<Parameter> parameters;
  std::string index_type = "int";
  int width = 1;      // V
  int64_t count = 0;  // map: elements, or strips of windows
  int stages = 0;
  std::vector<int> acc_bytes;  // of each stage
  int streams = 0;             // loads of whole vectors
  int stream_bytes = 0;        // of one element of all streams
  bool ragged = false;
  bool strips = false;   // map: threads can take strips of windows
  bool lanes = false;    // and lanes can share the elements of a row
  int good_width = 1;    // neighbouring outputs of a thread that share most
  int good_strip = 1;    // outputs of a strip from which sharing pays
  bool repeats = false;  // map: two threads may compute the same element
  bool heavy = false;    // map: exponentials and the like
  bool emits = false, row_outputs = false;
  bool emit_reads = false;  // rows: emitting reads memory beside the row
};

// Widest vector in elements that `bytes` allow over all tensors that the kernel streams.
int WidthFor(const GroupContext& context, int64_t bytes);

// Whether that many elements are one access.
bool FitsVector(graph::DType type, int width);

std::vector<Parameter> ParametersOf(const GroupContext& context,
                                    const std::vector<const Kernel*>& kernels);
const std::string& PointerOf(const std::vector<Parameter>& parameters, int tensor);
// Every load that the kernel's reduces and roots need, arguments first.
std::vector<ValuePtr> LoadsOf(const Kernel& kernel);
std::vector<ValuePtr> TargetsOf(const Kernel& kernel);  // values of reduces, then roots
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

Dialect MakeDialect(const GroupContext& context, const Kernel& kernel,
                    const std::vector<Parameter>& parameters, const std::string& index_type);

// Loads contiguous elements of the targets that are not bound yet as vectors; opens nothing.
void LoadContiguous(Emitter& emitter, const Kernel& kernel, const std::vector<ValuePtr>& targets,
                    const std::function<bool(ValuePtr)>& aligned);
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
uint64_t BitOf(const Variable& variable);

absl::StatusOr<GroupSource> GenerateMap(const GroupContext& context);
absl::StatusOr<GroupSource> GenerateWindow(const GroupContext& context);
absl::StatusOr<GroupSource> GenerateRows(const GroupContext& context);
absl::StatusOr<GroupSource> GenerateColumns(const GroupContext& context);

}  // namespace warpsmith::codegen
