// What a group costs, from its domain and resolved knobs: bytes, operations, launches. No text.
#pragma once

#include "worker/codegen/skeleton/skeleton.h"

namespace warpsmith::codegen {

// Simple operations of a point of the domain, those that belong to a row left out.
double StepsOfPoint(const Analysis& group, const Domain& domain);
// Loads of a point, distinct elements.
int64_t LoadsOfPoint(const Analysis& group, const Domain& domain);

// Seconds that its kernels take: the larger of memory (what is not kept on chip is read again) and
// operations, and its launches.
double SecondsOf(const Analysis& group, const Domain& domain, const Usage& use,
                 const Target& target);

}  // namespace warpsmith::codegen
