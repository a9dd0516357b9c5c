// How far values are from exact ones. Pure.
#pragma once

#include "absl/types/span.h"
#include "common/graph/graph.h"

namespace warpsmith::oracle {

// Errors count in the type that the answer is stored in. Of a type of 16 bits, what the exact value
// rounds to is as good as the exact value, and so is the next one where rounding may go either way
// (IsNearest).
//
// Largest and root mean square of |got - exact| over the rms of `exact`, over the positions where
// both are finite; `plain` is the largest with the rounding of the type counted, too. All are NaN
// where got and exact disagree about which are finite, or about what the others are (NaN matches
// NaN, an infinity itself); `disagree` is the part of the values that do. An rms of 0 counts as 1.
//
// `beyond`: the largest of fp32 that are further than one step of the type from the exact value; of
// other types `max`. Where some values are many times the rms, a single rounding of the largest
// decides `max`, and which of two honest orders of operations rounds the lucky way there.
struct Errors {
  double max = 0;
  double rms = 0;
  double plain = 0;
  double disagree = 0;
  double beyond = 0;

  // The larger of each; a NaN stays.
  void Add(const Errors& more);
};
// rms: that of the whole answer, of which these are a sample; 0: that of the finite exact values.
Errors ErrorsOf(graph::DType type, absl::Span<const double> got, absl::Span<const double> exact,
                double rms = 0);

// The sum of the differences between the squares of `got`'s errors and of `reference`'s, value by
// value, in standard deviations of what it would be were each as likely to be the other way round
// (a paired test; errors that count are those of ErrorsOf). Of n values that make the difference it
// is at most the root of n, so that a few say little; 0 where none differs.
double ExcessOf(graph::DType type, absl::Span<const double> got, absl::Span<const double> reference,
                absl::Span<const double> exact);

// How many of `got`'s errors that count are larger than each of `reference`'s. Of two computations
// that are as near to the truth either may have each of the largest errors of both: that one has
// all of the n largest comes by chance once in 2^n.
int64_t LargerOf(graph::DType type, absl::Span<const double> got,
                 absl::Span<const double> reference, absl::Span<const double> exact);

// Of those that are finite; 0 of none.
double RmsOf(absl::Span<const double> values);

// Errors below this, over the rms, are not told apart: four ulp of fp32 for all types but those of
// 16 bits, where it is one ulp.
double ErrorFloor(graph::DType type);

// The same for the rms of errors: of 16 bits a sixteenth of it, since what rounds the other way now
// and then does not add up.
double RmsFloor(graph::DType type);

// From zero to the least number of the type above it; 0 of integers.
double LeastStep(graph::DType type);

// Whether `got`, a value of the type f16 or bf16, is what `exact` rounds to (to nearest, ties to
// even), or a neighbour of that, and no further from it than three quarters of a step of the type:
// rounding errs by half a step, what cuts or adds by up to one. Of the largest value and infinity
// either is as good as the other. False if either is NaN.
bool IsNearest(graph::DType type, double got, double exact);

}  // namespace warpsmith::oracle
