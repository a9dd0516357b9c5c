// A library's product on the host: a loop.
#pragma once

#include "warpsmith/v1/solution.pb.h"

namespace warpsmith::device {

// Addresses of the buffers of its matrices and, if it has one, of its bias; the step was checked
// (plan_check.h). Sums are in fp64 and rounded once.
void RunHostProduct(const v1::LibraryProduct& product, const char* a, const char* b,
                    const char* bias, char* d);

}  // namespace warpsmith::device
