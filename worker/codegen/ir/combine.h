// How a reduction accumulates: the fields of its accumulator and the statements that start, extend,
// merge and read it. Fields are variables (or members) whose names begin with a given prefix:
// "acc.a0_" gives acc.a0_v, acc.a0_i.
#pragma once

#include <string>
#include <vector>

#include "common/graph/graph.h"
#include "warpsmith/v1/schedule.pb.h"

namespace warpsmith::codegen {

struct Reduction {
  graph::Combiner combiner = graph::Combiner::kSum;
  graph::DType type = graph::DType::kF32;  // of what is combined
  v1::Accumulator accumulator = v1::ACCUMULATOR_AUTO;
  int64_t elements = 1;  // positions of argmax and argmin are below this
  bool online = false;   // a maximum with the sum of exp(x - maximum)
  bool fast_math = false;
};

struct Field {
  std::string type;  // C++ type of 4 or 8 bytes
  std::string name;  // suffix
};

bool IsIndexed(const Reduction& r);  // argmax, argmin
// A sum of floats that each addition rounds to its own type: long ones are better cut into several.
bool IsRunningSum(const Reduction& r);
std::string ComputeType(graph::DType type);  // C++ type in registers
std::string StorageType(graph::DType type);  // C++ type in memory

std::vector<Field> FieldsOf(const Reduction& r);
// Statements, each on one line, without indentation.
std::vector<std::string> Identity(const Reduction& r, const std::string& acc);
// `values`: expressions without side effects, combined pairwise first, so that a vector's lanes
// make a short tree. `positions` (argmax, argmin): their linear positions.
std::vector<std::string> Accumulate(const Reduction& r, const std::string& acc,
                                    const std::vector<std::string>& values,
                                    const std::vector<std::string>& positions);
std::vector<std::string> Merge(const Reduction& r, const std::string& a, const std::string& b);
// Whether it takes 8 bytes.
bool IsWide(const Field& field);
// A reduce beside others, whose fields have a prefix of its own.
struct Accumulated {
  Reduction reduction;
  std::string prefix;
};
// Struct Acc of their fields, wide ones first, so that there are no holes, with identity() and
// combine(a, b). `tag`: where all three are templates, "S", an int that none of them uses; else "".
std::string AccumulatorText(const std::vector<Accumulated>& members, const std::string& tag);
// One expression for a combined with b, both of the compute type (not for argmax and argmin).
std::string JoinOf(const Reduction& r, const std::string& a, const std::string& b);
// The result as an expression of the compute type (output 1 of argmax: of long long).
// Online: output 0 the maximum, output 1 the sum.
std::string ResultOf(const Reduction& r, const std::string& acc, int output);

// An element as it is in memory, in its compute type; and back.
std::string ToRegister(graph::DType type, const std::string& text);
std::string ToMemory(graph::DType type, const std::string& text);

// An int within the range of a type of one byte, modulo 2^8; other types: as it is.
std::string Wrapped(graph::DType type, const std::string& text);

// A number as C++ of a compute type.
std::string Literal(graph::DType type, double number, int64_t integer);

}  // namespace warpsmith::codegen
