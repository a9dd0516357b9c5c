// Sums of what a product's end makes: over all of M (a gradient of a bias), or over all of N. They
// are added up where tiles are finished, so that what is summed need not be read again, nor written
// where nobody else wants it.
//
//   d[m, n] = epilogue(sum of k: A[m, k] * B[n, k])      what is summed
//   g[n] = sum of m: d[m, n]                             a sum, over rows
//   y[n] = bf16(g[n])                                    what the group writes of it
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "warpsmith/v1/schedule.pb.h"
#include "worker/codegen/codegen.h"
#include "worker/codegen/group/analysis.h"
#include "worker/codegen/plan/writer.h"
#include "worker/codegen/skeleton/contract/form.h"

namespace warpsmith::codegen {

// What of a group's roots are made of such sums, and what is left: a product with an end.
struct EndSums {
  std::vector<int> core;  // roots of the product's own, and what is summed
  int summed = -1;        // a tensor; -1: there are no sums
  bool written = false;   // whether the group writes it, too
  std::vector<EndSum> sums;
};
const EndSums& EndSumsOf(const Analysis& group);

// The domain of the product with its end: the group's, where it has no sums.
const absl::StatusOr<Domain>& ProductDomainOf(const Analysis& group);

// Gives the form its sums. InvalidArgument: one is neither over M nor over N alone, or there is
// another one over the same, or products are of another kind.
absl::Status PlaceSums(const Analysis& group, const Domain& domain, ContractForm& form);

// Where the sum's element is in its tensor, in the variables of a kernel of the form.
Index PlaceOf(const Analysis& group, const Domain& domain, const ContractForm& form,
              const EndSum& sum, const Frame& frame);

// What is made of each element of the sum, as a kernel of single elements; it has no roots where
// the sum itself is all that is written.
absl::StatusOr<Kernel> KernelOf(const Analysis& group, const EndSum& sum);

// What kernels leave of a sum: parts of so many rows (or columns) each, of fp32.
int64_t PartsLeft(const ContractForm& form, const v1::ContractKnobs& knobs, const EndSum& sum,
                  const Target& target);
int64_t LeftBytes(const ContractForm& form, const v1::ContractKnobs& knobs, const EndSum& sum,
                  const Target& target);

// The memory that they leave it in, and the kernels that add it up.
class LeftSums {
 public:
  LeftSums(const ContractForm& form, const v1::ContractKnobs& knobs, const Target& target,
           KernelWriter& writer);
  // Of the kernel that makes products, and how it passes them on; nothing without sums.
  const std::vector<KernelArgument>& arguments() const { return arguments_; }
  std::string text() const;
  absl::Status AddUp() const;

 private:
  const ContractForm& form_;
  KernelWriter& writer_;
  std::vector<KernelArgument> arguments_;
  std::vector<int64_t> parts_;  // of each sum
};

}  // namespace warpsmith::codegen
