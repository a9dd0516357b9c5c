// The struct of a contraction's kernels: what operands are, and what becomes of a sum
// (worker/kernels/contract_plain.cuh).
#pragma once

#include "worker/codegen/plan/writer.h"
#include "worker/codegen/skeleton/contract/form.h"
#include "worker/codegen/skeleton/glue.h"

namespace warpsmith::codegen {

struct ContractWidths {
  Reading a, b;
  int finish = 1;  // neighbours along N
};

// How operands are read by accesses of knobs' bytes, and sums are finished in a tile of its
// columns.
const ContractWidths& WidthsOf(const Analysis& group, const Domain& domain,
                               const ContractForm& form, const v1::ContractKnobs& knobs);
// Of resolved knobs.
Style StyleOf(const v1::Group& resolved);

// Writes it, of resolved knobs; operands are the narrow ones where they are taken apart (apart.h).
absl::Status WriteContractGlue(const Analysis& group, const Domain& domain,
                               const ContractForm& form, const v1::Group& resolved,
                               KernelWriter& writer);

}  // namespace warpsmith::codegen
