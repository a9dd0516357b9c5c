// What a kernel is compared with, and how much faster it is. Pure.
//
// Like is compared with like (v1::Times): the headline is the candidate's graph against the
// strongest baseline, which is the accurate one whose graph or plain call, whichever is quicker,
// takes least; a baseline that cannot be captured still has its call.
#pragma once

#include <string>

#include "warpsmith/v1/trial.pb.h"

namespace warpsmith::problem {

// Tells all graphs' times as if launching had taken the least launch_us that any of them has, which
// is noted in each: the host's load is another whenever something is timed, and is not to be taken
// for a difference between what is compared. Times without a launch_us stay as they are.
void TellForOneLaunch(v1::Times* candidate, v1::BaselineReport* report);

inline constexpr char kEager[] = "eager";
inline constexpr char kOpByOp[] = "op_by_op";  // our own plan, where PyTorch is not

// The quicker of a baseline's graph and call; 0: neither was timed.
double QuickestUs(const v1::Baseline& baseline);
// That one's name: "compile", "compile_graph"; eager's graph is "graph".
std::string QuickestName(const v1::Baseline& baseline);

// The accurate one with the least QuickestUs; null: there is none.
const v1::Baseline* Strongest(const v1::BaselineReport& report);

struct Speedups {
  double strongest = 0;  // over the strongest; 0: there is none, or the candidate has no graph time
  double eager = 0;  // over eager or op_by_op: calls where both have one, else graphs; 0: neither
};
Speedups SpeedupsOf(const v1::Times& candidate, const v1::BaselineReport& report);

}  // namespace warpsmith::problem
