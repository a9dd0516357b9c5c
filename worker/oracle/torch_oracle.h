// The PyTorch oracle: a Python child that owns the reference module
// (python/warpsmith_torch/oracle.py).
//
//   ASSIGN_OR_RETURN(options.child, StartTorch(options));           // seconds: PyTorch is imported
//   ASSIGN_OR_RETURN(auto oracle, MakeTorchOracle(options, problem, graph));
//
// Data never passes through the pipe: tensors are copied from the child's device memory (cuda: IPC
// handles, opened and closed within each copy; host: shared memory), and the child frees each group
// of them as soon as it was copied. Between calls the child holds the module, and what was compiled
// of it for its baselines until another one is loaded or `idle`; and nothing else.
//
// Not thread-safe. A child that dies or misses a deadline is killed, and started again by the next
// call; the call under way fails with Unavailable or DeadlineExceeded.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/graph/graph.h"
#include "warpsmith/v1/problem.pb.h"
#include "worker/oracle/oracle.h"

namespace warpsmith::oracle {

class TorchChild;

struct TorchOracleOptions {
  std::string python;       // interpreter, "python3" or a path
  std::string python_path;  // folder that has warpsmith_torch/
  std::string device;       // "cuda:0", or "cpu" for the host device
  std::vector<std::pair<std::string, std::string>> environment;  // beside this process's
  std::string cache_dir;  // baselines of earlier runs; empty: no cache
  // Baselines to time beside eager where the problem does not say: compile, max (max-autotune), and
  // graph (each as a CUDA graph too).
  std::vector<std::string> baselines = {"compile", "graph"};
  std::string clock;         // libwarpsmith_clock.so; needed on a card
  int64_t memory_bytes = 0;  // as if the card had only so many; 0: all
  // Device memory that exact answers may take; beyond it only a part of a batch is run in fp64.
  // 0: 64 GiB on a card, 4 GiB on the host.
  int64_t exact_bytes = 0;
  std::string workload;  // of the problem; empty: its first
  // Where to go on from: one child serves many problems, one after the other. Null: one of its own.
  std::shared_ptr<TorchChild> child;
};

struct TorchInfo {
  std::string version;  // "2.11.0+cu130"
  bool cuda = false;    // PyTorch sees a card
  std::string card;     // "NVIDIA H200"; the processor's name without one
};

// Starts a child and asks what it is. FailedPrecondition says what is missing: no such interpreter,
// no PyTorch, a version that is too old.
absl::StatusOr<std::shared_ptr<TorchChild>> StartTorch(const TorchOracleOptions& options);
TorchInfo InfoOf(const TorchChild& child);

// `graph` is the problem's under options.workload. InvalidArgument: the problem has no module, or
// the module has no such workload, or its inputs, weights or outputs are not those of the graph.
absl::StatusOr<std::unique_ptr<Oracle>> MakeTorchOracle(const TorchOracleOptions& options,
                                                        const v1::Problem& problem,
                                                        const graph::Graph& graph);

}  // namespace warpsmith::oracle
