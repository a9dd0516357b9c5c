// What says what the right answer is.
//
// The native oracle evaluates the graph node by node: on the processor in double (EvaluateOnHost),
// and for device-sized data with plain one-thread-per-output kernels in fp64. It is the
// specification, so it shares no code with code generation. The PyTorch oracle is a child process
// that owns the reference module.
//
// Both draw inputs and answer for them; the judge holds the answers where no candidate can reach.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/graph/graph.h"
#include "warpsmith/v1/problem.pb.h"
#include "warpsmith/v1/trial.pb.h"
#include "worker/device/device.h"
#include "worker/oracle/errors.h"

namespace warpsmith::oracle {

// How the inputs of a case differ from the problem's own draw.
// kTies: few values, so that many are equal.
enum class Variation { kNone, kTimes3, kTimes001, kNegated, kDense, kWide, kNewWeights, kTies };
const char* NameOf(Variation variation);

// Inputs, params and states as the graph lists them, and the answer for them, in device memory.
// `answers`: outputs, then updated states, in the graph's order, in their own types.
// `exact`: for floating-point answers fp64 values at `sample` (element positions; all of them where
// the answer is small), else empty. `reference`: the errors of `answers` against `exact`, one each,
// and `whole` the largest of them.
struct Case {
  Variation variation = Variation::kNone;
  uint64_t seed = 0;
  std::vector<std::unique_ptr<device::Memory>> inputs;
  std::vector<std::unique_ptr<device::Memory>> answers;
  std::vector<std::vector<int64_t>> sample;
  std::vector<std::vector<double>> exact;
  std::vector<double>
      rms;  // of each whole answer, what errors are relative to; empty: of the sample
  std::vector<std::vector<double>> rounded;  // `answers`, or what replaces them, at `sample`
  std::vector<Errors> reference;
  Errors whole;  // the largest of `reference`; NaN stays
  // Of each answer the largest error, over its rms, of everything that was computed exactly, which
  // may be more than the sample; empty: nobody looked beyond it.
  std::vector<double> farthest;

  // Of the next answer: what it is at its sample in its own type, and exactly.
  void AddReference(graph::DType type, std::vector<double> values, absl::Span<const double> exactly,
                    double rms_of_all = 0) {
    reference.push_back(ErrorsOf(type, values, exactly, rms_of_all));
    whole.Add(reference.back());
    rounded.push_back(std::move(values));
  }
};

class Oracle {
 public:
  virtual ~Oracle() = default;
  virtual std::string name() const = 0;  // "torch 2.11.0+cu130", "native"
  // Fresh inputs for the seed and their answers. Memory is the device's.
  virtual absl::StatusOr<Case> Draw(device::Device& device, uint64_t seed, Variation variation) = 0;
  // Whether each element is drawn by itself, so that inputs and weights with their elements in
  // other places could have been drawn as well. A module may rely on more: offsets that grow, say.
  virtual bool DrawsElementsAlone() const { return false; }
  // Peak device bytes beside the case itself, while drawing: with as much as it likes, and at the
  // least (without what running the problem itself takes, which nobody knows before).
  virtual int64_t WorkingBytes() const = 0;
  virtual int64_t LeastBytes() const { return WorkingBytes(); }
  // What it may take from now on, and whether it may keep memory between draws.
  struct Room {
    int64_t bytes = 0;  // beside the case; 0: WorkingBytes
    bool keep = true;
  };
  virtual void SetRoom(const Room&) {}
  // Bytes that the last draw took, or may have taken.
  virtual int64_t PeakBytes() const { return WorkingBytes(); }
  // Times what the user could have had for nothing; leaves the device idle and its caches empty.
  virtual absl::StatusOr<v1::BaselineReport> TimeBaselines(device::Device& device) = 0;
  // Times the named ones now, whatever is remembered of them. An oracle that remembers nothing
  // times all it has.
  virtual absl::StatusOr<v1::BaselineReport> RetimeBaselines(
      device::Device& device, const std::vector<std::string>& names) {
    (void)names;
    return TimeBaselines(device);
  }
};

// ---- native -----------------------------------------------------------------------------------

// Tensor values on the host, in double (integers exactly up to 2^53).
using Values = std::vector<double>;
// Evaluates every output, then every update, of `graph`. inputs: one for each input, param and
// state, in tensor order. `round_to_type`: each stored tensor is rounded to its type, as PyTorch
// would; otherwise floats stay double throughout (the exact answer). Cost grows with the graph's
// operations: for shapes of up to some 10^7.
absl::StatusOr<std::vector<Values>> EvaluateOnHost(const graph::Graph& graph,
                                                   const std::vector<Values>& inputs,
                                                   bool round_to_type);
// Draws one input by its distribution, varied.
Values DrawOnHost(const graph::Tensor& tensor, uint64_t seed, Variation variation);

}  // namespace warpsmith::oracle
