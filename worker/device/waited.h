// What kernels that were compiled with problem::kBoundWaits say of a barrier that they waited for
// in vain: words of host memory, which outlive the context that they end with.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"

namespace warpsmith::device {

inline constexpr char kWaitedInVain[] = "it waited in vain for barrier ";

// As worker/kernels/hopper.cuh writes it.
struct Waited {
  uint32_t taken = 0, said = 0, stage = 0, block = 0, thread = 0;
  char barrier[24] = {};

  // "it waited in vain for barrier 'full' of stage 3, in block 7, thread 128"; empty: nobody did.
  std::string Text() const {
    if (said == 0) return "";
    const std::string name(barrier, strnlen(barrier, sizeof(barrier)));
    return absl::StrCat(kWaitedInVain, "'", name, "' of stage ", stage, ", in block ", block,
                        ", thread ", thread);
  }
};
static_assert(sizeof(Waited) == 44);

}  // namespace warpsmith::device
