// The accuracy rule: how wrong an answer may be. Pure.
#pragma once

#include <string>

#include "common/graph/graph.h"
#include "warpsmith/v1/problem.pb.h"
#include "worker/oracle/errors.h"

namespace warpsmith::judge {

// Errors below four ulp of fp32 are not told apart.
inline constexpr double kErrorFloor = 5e-7;
// How much larger than the reference's a candidate's largest error may be.
inline constexpr double kOrdinaryRatio = 2;
inline constexpr double kWideRatio = 4;
// Error allowed on varied inputs and weights, over the rms of the answer: this, or
// kVariedRatio times the reference's own on the problem's inputs where that is more.
inline constexpr double kVariedError = 1e-3;
inline constexpr double kVariedRatio = 3;

// Element by element: |y - reference| <= absolute + relative * |reference|.
struct Tolerance {
  double absolute = 0, relative = 0;
};
// The problem's own or, where it names none, 1e-4 each; wider for what the type cannot hold (two
// ulp of f16 and bf16), narrower for f64.
Tolerance ToleranceOf(const v1::AccuracyRule& rule, graph::DType type);

// max(error, floor) over max(reference, floor); NaN if either is.
double ErrorRatio(double error, double reference);

// Why an error is too large beside the reference's, or empty. A reference that cannot say (NaN: it
// overflows itself) allows anything.
std::string TooInaccurate(double error, double reference, double allowed_ratio);

}  // namespace warpsmith::judge
