// cuBLASLt, loaded at run time: its products are steps of plans, and the yardstick for ours.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "warpsmith/v1/solution.pb.h"
#include "worker/device/cuda_driver.h"

namespace warpsmith::device {

// Never unloaded. Thread-safe.
class CublasLt {
 public:
  struct Functions;

  // `path`: of libcublasLt.so, version 12 or newer; empty: it is looked for. NotFound: there is
  // none. Takes tens of milliseconds the first time.
  static absl::StatusOr<std::shared_ptr<const CublasLt>> Open(const std::string& path);

  const std::string& name() const { return name_; }  // "cuBLASLt 13.1.0"
  const Functions& functions() const { return *functions_; }

 private:
  std::string name_;
  std::shared_ptr<const Functions> functions_;
};

// A product's description and the algorithms that the library's heuristic names for it, the first
// first. One thread, with the context that was current when it was made.
class LibraryProduct {
 public:
  // Operands of bf16, f16 or f32 (the last without TF32, the library's default). `any_reduction`:
  // blocks that share K may round their sums to the result's type before they are added up, as the
  // library does by default. Unimplemented: it has no algorithm for this.
  static absl::StatusOr<std::unique_ptr<LibraryProduct>> Make(
      std::shared_ptr<const CublasLt> library, const v1::LibraryProduct& product,
      int64_t workspace_bytes, bool any_reduction = false);
  ~LibraryProduct();

  int algorithms() const;
  // Puts a run into the stream; addresses of the buffers of the matrices and, if it has one, of
  // the bias. `algorithm`: from 1.
  absl::Status Run(int algorithm, uint64_t a, uint64_t b, uint64_t bias, uint64_t d,
                   uint64_t workspace, cuda::Stream stream) const;

 private:
  struct State;
  explicit LibraryProduct(std::unique_ptr<State> state);
  const std::unique_ptr<State> state_;
};

}  // namespace warpsmith::device
