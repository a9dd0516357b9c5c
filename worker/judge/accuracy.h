// The accuracy rule: how wrong an answer may be. Pure.
#pragma once

#include <string>
#include <vector>

#include "common/graph/graph.h"
#include "warpsmith/v1/problem.pb.h"
#include "worker/oracle/errors.h"

namespace warpsmith::judge {

// How much larger than the reference's a candidate's largest error may be.
inline constexpr double kOrdinaryRatio = 2;
inline constexpr double kWideRatio = 4;
// The same of who misses the tolerance where the reference itself is that far from the truth: as
// near to it as the reference.
inline constexpr double kMissRatio = 1;
// And whose rms is larger than the reference's by no more than chance makes of it: deviations
// of a paired test (oracle::ExcessOf), of which three are exceeded by one of 740 that are as good.
inline constexpr double kMostExcess = 3;
// Its largest error may be the larger one by chance: with no more errors that are larger than each
// of the reference's (oracle::LargerOf; of two that are as near, one of 1024 has more), and either
// nearer to the truth on the whole by more than kMostExcess, or with the largest error of all
// answers no larger than the reference's.
inline constexpr int64_t kMostLarger = 9;
// Who misses the tolerance, or of bf16 the one that is common, and is not nearer to the truth than
// the reference by more than chance: right on one draw, and perhaps not on another or for another
// judge. So its time counts as so many times as much beside who is nearer, or is right
// wherever it was seen to miss.
inline constexpr double kByChance = 1.1;
// The same of who strays: an element differs from a reference that rounds factors by more than this
// part of the tolerance, and the largest error is more than that part of the reference's. It rounds
// otherwise (ties, say), and may miss the tolerance on other data.
inline constexpr double kStrays = 0.25, kNearerRatio = 0.5;
inline constexpr double kCommonTolerance = 1e-2;  // absolute and relative, as KernelBench has it
// Error allowed on varied inputs and weights, over the rms of the answer: this, or
// kVariedRatio times the reference's own on the problem's inputs where that is more: with the
// rounding of a type of 16 bits counted, since the answer is compared with what is rounded too. For
// who asks for the tolerance alone elements within its relative part will do as well.
inline constexpr double kVariedError = 1e-3;
inline constexpr double kVariedRatio = 3;

// Largest error of an fp32 answer, relative to its rms, from which on what made it has rounded
// factors of products: to eleven bits it is 1e-3, in fp32 a few 1e-6.
inline constexpr double kRoundedError = 1e-4;

// And so many steps of the type next to zero: of answers that underflow each rounding is much.
inline constexpr double kVariedSteps = 4;

// Element by element: |y - reference| <= absolute + relative * |reference|.
struct Tolerance {
  double absolute = 0, relative = 0;
};
// The problem's own or, where it names none, 1e-4 each; wider for what the type cannot hold (two
// ulp of f16 and bf16), narrower for f64.
Tolerance ToleranceOf(const v1::AccuracyRule& rule, graph::DType type);

// An integer of a byte that floats were rounded to: where rounding in fp32 decides between two
// neighbours, either is right. So it may be off by one, in one of kMostlyExact elements.
inline constexpr int64_t kMostlyExact = 1000;
// Which tensors are such, one for each of the graph's: also what is made of such bytes alone.
std::vector<bool> RoundedFloats(const graph::Graph& graph);

// max(error, floor) over max(reference, floor), the floor being the type's (oracle::ErrorFloor). A
// reference that cannot say (NaN: it overflows itself) allows anything: 0. Infinite for an error
// that is NaN beside one that is not.
double ErrorRatio(graph::DType type, double error, double reference);
// The same of the errors' rms. Of types of 16 bits it says more than the largest error, which may
// be that of one rounding; of others nothing, and is 0.
double RmsRatio(graph::DType type, double error, double reference);

// "output 'y': its largest error is 1.2e-06 of the answer's rms, that of what it replaces 5.1e-08".
std::string DescribeErrors(const std::string& output, const std::string& which, double error,
                           double reference);

}  // namespace warpsmith::judge
