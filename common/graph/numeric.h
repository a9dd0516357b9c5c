// Arithmetic of the graph language on single values: what its types and operators mean.
#pragma once

#include <array>
#include <cstdint>

#include "common/graph/graph.h"

namespace warpsmith::graph {

// The nearest value of a floating-point type, ties to even; beyond its range infinity.
double RoundTo(DType type, double value);
// The numbers that bits of kF16 and kBF16 stand for, and the bits of the nearest (as RoundTo). NaN
// stays NaN.
double FromHalf(DType type, uint16_t bits);
uint16_t ToHalf(DType type, double value);
// The value modulo 2^8, 2^32 or 2^64, as a number of the type; bool: whether it is not 0.
int64_t WrapTo(DType type, int64_t value);

// Rounding towards minus infinity; the divisor is not 0.
int64_t FloorDiv(int64_t a, int64_t b);
int64_t FloorMod(int64_t a, int64_t b);  // a - FloorDiv(a, b) * b

// Four words of Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1,
// 2, 3; SC 2011): as random as its authors could tell, each made without the ones before.
std::array<uint32_t, 4> Philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);
// kRandom: the upper 24 bits of word `place` % 4 of Philox's at the counter `place` / 4, the key
// being the seed; as numbers without a sign, the lower halves first.
int64_t RandomBits(int64_t seed, int64_t place);

// What `op` gives, in double and unrounded. kAdd to kAtan2 but kMod, and kNeg to kE4m3OfBits.
double ApplyFloat(Op op, double a, double b);
double ApplyFloat(Op op, double a);
// Wrapped to `type`. kAdd to kMax, kRandom, and kNeg, kAbs, kSign. The divisor is not 0.
int64_t ApplyInteger(Op op, DType type, int64_t a, int64_t b);
int64_t ApplyInteger(Op op, DType type, int64_t a);
// kLt, kLe, kEq, kNe.
bool CompareFloat(Op op, double a, double b);
bool CompareInteger(Op op, int64_t a, int64_t b);
// The least and the largest number of an integer type, or of bool.
int64_t LowestOf(DType type);
int64_t HighestOf(DType type);
// What a cast of a value of floating-point type `from` gives (graph.h): truncated, beyond the range
// the nearest end of it, NaN 0 or the smallest; to bool: whether it is not 0.
int64_t FloatToInteger(DType from, DType to, double value);

}  // namespace warpsmith::graph
