// How far values are from exact ones. Pure.
#pragma once

#include "absl/types/span.h"

namespace warpsmith::oracle {

// Largest and root mean square of |got - exact| over the rms of `exact`, over the positions where
// both are finite. Both are NaN where got and exact disagree about which are finite, or about what
// the others are (NaN matches NaN, an infinity itself). An rms of 0 counts as 1.
struct Errors {
  double max = 0;
  double rms = 0;
};
// rms: that of the whole answer, of which these are a sample; 0: that of the finite exact values.
Errors ErrorsOf(absl::Span<const double> got, absl::Span<const double> exact, double rms = 0);

}  // namespace warpsmith::oracle
