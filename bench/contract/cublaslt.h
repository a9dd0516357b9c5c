// cuBLASLt, loaded at run time: the yardstick for products.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "bench/contract/product.h"
#include "worker/device/cuda_context.h"

namespace warpsmith::bench {

// One product, row major; of fp32 operands without TF32, the library's default. One thread, the
// context's stream.
class LibraryProduct {
 public:
  static constexpr int64_t kWorkspaceBytes = 64 << 20;

  // Has the algorithms that the library's heuristic names first, up to eight. `path`: of
  // libcublasLt.so.13; empty: it is looked for. NotFound: no library. Unimplemented: it has no
  // algorithm for the product.
  static absl::StatusOr<std::unique_ptr<LibraryProduct>> Make(
      std::shared_ptr<device::CudaContext> context, const ProductProblem& problem,
      const std::string& path);
  ~LibraryProduct();

  int algorithms() const;
  // Puts a run into the stream; addresses of device memory.
  absl::Status Run(int algorithm, uint64_t a, uint64_t b, uint64_t y, uint64_t workspace);

 private:
  struct State;
  explicit LibraryProduct(std::unique_ptr<State> state);
  const std::unique_ptr<State> state_;
};

}  // namespace warpsmith::bench
