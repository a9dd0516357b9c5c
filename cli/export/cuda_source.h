// CUDA C++ that runs one plan: device code with the skeleton headers written out in it, and a host
// function that takes the plan's steps on a stream.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "warpsmith/v1/solution.pb.h"

namespace warpsmith::exporter {

// The plan's device code with each `#include <warpsmith/...>` replaced by the header's text, once,
// and what is only for the host device left out. InvalidArgument: an include that is not ours.
absl::StatusOr<std::string> ExpandHeaders(const std::string& source);

// Where a caller's pointers go. Workspace buffers share one block, which comes last.
struct Layout {
  std::vector<int> tensors;      // indexes of Plan.buffers that are not workspace, in order
  std::vector<int64_t> offsets;  // parallel to Plan.buffers: bytes into the block; -1: a tensor
  int64_t workspace_bytes = 0;
  int pointers() const { return static_cast<int>(tensors.size()) + (workspace_bytes > 0 ? 1 : 0); }
};
Layout LayOut(const v1::Plan& plan);

// A whole translation unit: ExpandHeaders and
//
//   extern "C" int NAME_run(void* const* buffers, cudaStream_t stream, const char** where);
//   extern "C" const char* NAME_error(int code);
//
// NAME_run launches everything on the stream of the current device and returns a cudaError_t, 0 if
// all is well; `where` (may be null) then names the step. It allocates nothing, waits for nothing,
// may be captured in a CUDA graph, and is thread-safe. Lanes of the plan run in streams beside the
// caller's, which waits for them; they are made by the first call on a device, and by calls at
// once.
absl::StatusOr<std::string> CudaSource(const v1::Plan& plan, const std::string& name);

// Flags of nvcc for the architecture: {"-O3", "-gencode=arch=compute_90a,code=sm_90a"}.
// InvalidArgument: not "sm_...".
absl::StatusOr<std::vector<std::string>> NvccFlags(const std::string& arch);

}  // namespace warpsmith::exporter
