// Compares, samples and fingerprints tensors on the device, with kernels of its own (plain CUDA, as
// in device_source.h): nothing of size crosses to the host.
//
// Belongs to the thread of its device. Errors of the calls are the device's.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/graph/graph.h"
#include "worker/device/device.h"

namespace warpsmith::oracle {

// What a comparison of every element found. Positions are linear; -1: none.
struct Difference {
  int64_t elements = 0;
  // Both finite and |got - want| > absolute + relative * |want|; integers: |got - want| > absolute.
  int64_t beyond = 0, first_beyond = -1;
  // One is not finite and the other is not the same (NaN matches NaN).
  int64_t disagree = 0, first_disagree = -1;
  // Of the two above: the element still holds the poison.
  int64_t unwritten = 0, first_unwritten = -1;
  double largest = 0;   // |got - want| where both are finite
  double want_rms = 0;  // over the same elements
  // Integers: at all; indexes: whose value is within the tolerance and further from the answer's
  // than rounding goes (ErrorFloor).
  int64_t differing = 0;

  bool same() const { return beyond == 0 && disagree == 0; }
};

// How indexes (outputs of argmax and argmin) are judged where rounding may decide between them: by
// the value they point at.
struct IndexRule {
  std::unique_ptr<device::Program> program;
  std::vector<int> inputs;  // tensors of the graph that the values are made from
};

// The source that Comparer compiles; for tests that compile without a device.
std::string ComparerSource();

class Comparer {
 public:
  // Compiles its kernels, once for the life of a judge. `device` outlives it.
  static absl::StatusOr<std::unique_ptr<Comparer>> Make(device::Device& device,
                                                        device::Compiler& compiler);

  // poison: what `got` was filled with before it was written; all four bytes alike.
  absl::StatusOr<Difference> Compare(graph::DType type, device::Memory& got, device::Memory& want,
                                     int64_t elements, double absolute, double relative,
                                     uint32_t poison);
  // The rule for an answer, or null where indexes have to be the same: it is no index, the values
  // are those of an input as it is, or they are not to be had from the inputs alone.
  absl::StatusOr<std::unique_ptr<IndexRule>> MakeIndexRule(const graph::Graph& graph, int tensor,
                                                           device::Compiler& compiler);
  // inputs: the memory of rule.inputs. An index that differs is right if the value it points at is
  // within the tolerance of the answer's, in fp64; of values below 1 the absolute tolerance is a
  // share, or any index would do where all values are small.
  absl::StatusOr<Difference> CompareIndexes(IndexRule& rule, device::Memory& got,
                                            device::Memory& want,
                                            absl::Span<device::Memory* const> inputs,
                                            int64_t elements, double absolute, double relative,
                                            uint32_t poison);
  // Depends on every byte and where it stands, not on the order in which they are visited.
  absl::StatusOr<uint64_t> Hash(device::Memory& memory);
  // Turns the elements of each of `parts` equal parts of the memory around, in place; the same
  // again undoes it.
  absl::Status Reverse(graph::DType type, device::Memory& memory, int64_t parts);
  // Elements at the positions, as double.
  absl::StatusOr<std::vector<double>> Gather(graph::DType type, device::Memory& memory,
                                             absl::Span<const int64_t> positions);

  // Device bytes that it holds.
  int64_t bytes() const;

 private:
  Comparer(device::Device& device, device::Binary binary);
  absl::Status Allocate();
  absl::StatusOr<device::Program*> Get(const std::string& kernel, int pointers, bool merged);
  // A program of one kernel over control and `pointers` more buffers, and the merging one after it.
  absl::StatusOr<std::unique_ptr<device::Program>> LoadKernel(const device::Binary& binary,
                                                              const std::string& kernel,
                                                              int pointers, bool merged);
  absl::Status GatherSome(graph::DType type, device::Memory& memory,
                          absl::Span<const int64_t> positions, double* values);
  absl::StatusOr<Difference> RunComparison(device::Program& program,
                                           std::vector<device::Memory*> compared, int64_t elements,
                                           double absolute, double relative, uint32_t poison);

  device::Device& device_;
  device::Binary binary_;
  const int blocks_;
  std::map<std::string, std::unique_ptr<device::Program>> loaded_;
  std::unique_ptr<device::Memory> control_, stats_, merged_, positions_, values_;
};

}  // namespace warpsmith::oracle
