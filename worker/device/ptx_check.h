// What a compiled source of CUDA may not have: memory that outlives a launch, in which a kernel
// could carry an answer from one run to the next, and a clock, by which it could tell runs apart.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace warpsmith::device {

// FailedPrecondition names what is refused and what to do instead:
//   * variables in global memory at module scope, also those that inline PTX declares inside of a
//     function. Allowed are constants that were folded (declared and never mentioned again) and the
//     tables of the compiler's own sine and cosine, unless the source could get at them;
//   * functions that the driver provides: malloc, free, printf;
//   * addresses of constants or of parameters as generic ones, through which they can be written. An
//     address that goes nowhere but to the copy engine, as its tensor map, may be a parameter's; what
//     writes tensor maps (tensormap.replace and its fence) is refused;
//   * the card's clocks: how long a load takes says whether the caches were flushed, as they are
//     where time is taken, and the time of day when to cheat.
//   * a backslash in the PTX, by which its strings could end elsewhere for the assembler than here.
// InvalidArgument: the cubin is no ELF image. `ptx` is what the cubin was made from.
absl::Status CheckCompiled(const std::string& source, const std::string& cubin,
                           const std::string& ptx);

}  // namespace warpsmith::device
