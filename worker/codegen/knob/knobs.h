// Knobs: defaults for those that a schedule leaves open, checks of those that it sets, and the
// shared memory and residency that follow from them.
#pragma once

#include "absl/status/statusor.h"
#include "worker/codegen/codegen.h"
#include "worker/codegen/skeleton/glue.h"

namespace warpsmith::codegen {

// What a default needs to know of a group before code is generated for it.
struct GroupShape {
  int width = 1;             // elements of a vector, at most
  int64_t stream_bytes = 4;  // bytes of one position of all streams
  int streams = 1;
  int64_t vectors = 1;        // of a row
  bool strips = false;        // map: threads can take strips of windows
  bool lanes = false;         // and lanes can share the elements of a row
  int64_t element_bytes = 4;  // of the widest element that moves
  int good_width = 1;         // neighbouring outputs of a thread that share most
  int good_strip = 1;         // outputs of a strip from which sharing pays
  bool edges = false;         // rows: single elements before the first or behind the last vector
  bool heavy = false;         // map: exponentials and the like
  bool emits = false;         // writes the full space
  bool emit_reads = false;    // rows: and reads more for it than the row
  int acc_bytes = 4;          // rows of columns: largest stage
};

// Fills open knobs and checks all of them. InvalidArgument names the knob and its range.
absl::StatusOr<v1::Group> ResolveKnobs(const graph::Graph& graph, const Space& space,
                                       const GroupShape& shape, const v1::Group& group,
                                       const Target& target);

// Dynamic shared memory of a rows kernel, as rows.cuh states it.
int64_t RowsSharedBytes(const v1::Group& knobs, int width, int stream_bytes);
int64_t ColumnsSharedBytes(const v1::Group& knobs, int width, int acc_bytes);
// Blocks that are resident on a multiprocessor at once if the compiler keeps to the launch bounds.
absl::Status CheckResidency(const std::string& name, const v1::Group& knobs, int64_t shared_bytes,
                            const Target& target);

// Replaces knobs that are 0 (defaults.cc). Those that are set are within their own limits.
void FillDefaults(const Space& space, const GroupShape& shape, const Target& target,
                  v1::Group& group);

// Limits that defaults keep to as well.
inline constexpr int kMaxKeptVectors = 64;
inline constexpr int kMaxBlocksPerRow = 4096;
inline constexpr int kMaxUnroll = 16;
// Bytes of shared memory that a block uses beside what it asks for.
inline constexpr int64_t kReservedShared = 1 << 10;

int64_t CeilDiv(int64_t a, int64_t b);

}  // namespace warpsmith::codegen
