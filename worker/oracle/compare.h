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
  // Both finite and |got - want| > absolute + relative * |want|; integers: different.
  int64_t beyond = 0, first_beyond = -1;
  // One is not finite and the other is not the same (NaN matches NaN).
  int64_t disagree = 0, first_disagree = -1;
  // Of the two above: the element still holds the poison.
  int64_t unwritten = 0, first_unwritten = -1;
  double largest = 0;   // |got - want| where both are finite
  double want_rms = 0;  // over the same elements

  bool same() const { return beyond == 0 && disagree == 0; }
};

class Comparer {
 public:
  // Compiles its kernels, once for the life of a judge. `device` outlives it.
  static absl::StatusOr<std::unique_ptr<Comparer>> Make(device::Device& device,
                                                        device::Compiler& compiler);

  // poison: what `got` was filled with before it was written; all four bytes alike.
  absl::StatusOr<Difference> Compare(graph::DType type, device::Memory& got, device::Memory& want,
                                     int64_t elements, double absolute, double relative,
                                     uint32_t poison);
  // Depends on every byte and where it stands, not on the order in which they are visited.
  absl::StatusOr<uint64_t> Hash(device::Memory& memory);
  // Elements at the positions (at most kSampled of them), as double.
  absl::StatusOr<std::vector<double>> Gather(graph::DType type, device::Memory& memory,
                                             absl::Span<const int64_t> positions);

  // Device bytes that it holds.
  int64_t bytes() const;

 private:
  struct Loaded {
    v1::Plan plan;
    std::unique_ptr<device::Program> program;
  };

  Comparer(device::Device& device, device::Binary binary);
  absl::Status Allocate();
  absl::StatusOr<device::Program*> Get(const std::string& kernel, int pointers, bool merged);

  device::Device& device_;
  device::Binary binary_;
  const int blocks_;
  std::map<std::string, Loaded> loaded_;
  std::unique_ptr<device::Memory> control_, stats_, merged_, positions_, values_;
};

}  // namespace warpsmith::oracle
