// What products of matrices are estimated to take, of knobs that are all set (estimate.cc); their
// rate alone is ProductRate (contract.h).
#pragma once

#include "worker/codegen/skeleton/contract/contract.h"

namespace warpsmith::codegen {

inline bool IsInline(const v1::ContractKnobs& knobs) {
  return knobs.math() == v1::PRODUCT_FP16X3_INLINE;
}
inline bool IsFew(const v1::ContractKnobs& knobs) { return knobs.math() == v1::PRODUCT_FEW; }
inline bool IsLibrary(const v1::ContractKnobs& knobs) {
  return knobs.math() == v1::PRODUCT_LIBRARY;
}
inline bool IsPlain(const v1::ContractKnobs& knobs, const Target& target) {
  return !OnTensorCores(knobs.math(), target);
}

// Seconds in which operands are written out for a product, but for the launch; 0: none is.
double PackingSeconds(const ContractForm& form, const v1::ContractKnobs& knobs,
                      const Target& target);
// Seconds of the product with what packs its operands and adds up parts of K.
double SecondsOf(const ContractForm& form, const v1::ContractKnobs& knobs, const Target& target);

}  // namespace warpsmith::codegen
