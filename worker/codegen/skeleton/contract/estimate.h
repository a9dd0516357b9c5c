// What products of matrices are estimated to take, of knobs that are all set (estimate.cc).
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

// Seconds of the product with what packs its operands and adds up parts of K.
double SecondsOf(const ContractForm& form, const v1::ContractKnobs& knobs, const Target& target);

}  // namespace warpsmith::codegen
