// Operands of a product taken apart: elements that have 16 bits without loss, times scales.
//
//   sum of k: (a[m, k] * s[m, k / 128] * r[m]) * (b[n, k] * t[n / 128, k / 128])
//     =  r[m] * sum of runs of 128 of K: s[m, run] * t[n / 128, run] * sum of k in it: a[m, k] *
//     b[n, k]
//
// So what was quantised is multiplied on the tensor cores in one pass of 16 bits, though the
// product is one of fp32: scales of rows are multiplied in at a tile's end, those of runs of K
// where a run's sums join the total. An operand that has no scales is one that is narrow as it is.
#pragma once

#include "worker/codegen/skeleton/contract/form.h"

namespace warpsmith::codegen {

// Fills form.apart of a form that has all else.
void TakeApart(const Analysis& group, const Domain& domain, ContractForm& form);

// An operand in a kernel of the form, as form.apart has it; scales that it has none of: nullptr.
struct OperandApart {
  ValuePtr narrow = nullptr, rows = nullptr, runs = nullptr;
};
OperandApart ApartOf(const ContractForm& form, const Kernel& kernel, int operand);

}  // namespace warpsmith::codegen
