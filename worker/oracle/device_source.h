// Plain CUDA source that evaluates one node of a graph: one thread an output element.
//
// Written for being right, not for being fast: no vectors, no shared memory, no fusion. A big
// reduction or scan is cut in parts that are joined by further kernels of the same kind. It is the
// specification, so it shares no code with worker/codegen and worker/kernels. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/graph/graph.h"
#include "worker/oracle/device_expression.h"

namespace warpsmith::oracle {

// What a kernel's argument points at.
struct Operand {
  enum Kind {
    kControl,    // the draw's seed and variation
    kTensor,     // graph tensor `index` as the pass holds it
    kAnswer,     // answer `index`, in its own type
    kPositions,  // element positions of answer `index`'s sample
    kSamples,    // its values there, double
    kPartial,    // partial results `index` of this node
  };
  Kind kind;
  int index = 0;
};

struct Kernel {
  std::string name;
  std::vector<Operand> operands;
  int64_t threads;  // wanted; it strides over more work than threads
};

// Kernels that run one after the other.
struct Code {
  std::string source;
  std::vector<Kernel> kernels;
  std::vector<int64_t> partial_bytes;
};

// Where an output of a node goes: held for later nodes, stored as answer `answer` in its own type,
// and written as double to the samples of answer `samples`: all of it, or what stands at its
// `sampled` positions, one in each of as many equal parts of the tensor.
struct Target {
  bool hold = false;
  int answer = -1;
  int samples = -1;
  int64_t sampled = 0;  // 0: all
};
// The whole node. targets: one for each output of the node.
Code NodeCode(const graph::Graph& graph, int node, Pass pass, const std::string& name,
              const std::vector<Target>& targets);
// The output `output` of a node that is no scan (it would begin anew for each element) at `count`
// sampled positions of answer `answer`, as double.
Code SampleCode(const graph::Graph& graph, int node, int output, Pass pass, const std::string& name,
                int answer, int64_t count);
// Draws input, param or state `tensor` by its distribution, varied.
Code DrawCode(const graph::Graph& graph, int tensor, const std::string& name);
// A device function `CTYPE name(pointers..., i64 output, i64 k)`: the node's value at a position of
// its axes and of its reduce axes (of a scan: at k on its axis), in kExact; `tensors` gets the
// graph tensors the pointers stand for.
std::string ValueFunction(const graph::Graph& graph, int node, const std::string& name,
                          std::vector<int>* tensors);

}  // namespace warpsmith::oracle
