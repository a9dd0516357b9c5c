// Specialists propose actions on a schedule. Each knob of the schedule belongs to exactly one:
//
//   algebra     Schedule.rewrites
//   fusion      Schedule.groups: which tensors are roots of which group, and its skeleton
//   memory, compute, occupancy, precision
//               the knobs that schedule.proto says are theirs
//   launch      Schedule.launch
//
// Algebra and fusion change which groups there are. Groups that both schedules have keep every
// knob; a new group starts with knobs that code generation chooses (zero), except that a precision
// that was chosen for its tensors stays, and that fusion splits off a product for a library to
// make.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "warpsmith/v1/schedule.pb.h"
#include "worker/agent/state.h"

namespace warpsmith::agent {

// One move from a state's schedule to another.
struct Action {
  std::string specialist;
  std::string kind;  // what kind of move, "unroll": credit is kept for kinds
  std::string name;  // for people: "group y: unroll 2 -> 4"
  // The move without where it starts, "y map unroll=4": the same on other states, where groups of
  // those names run on the same skeletons. Others compute something else.
  std::string key;
  std::string group;      // first root of the group that it changes; empty: the schedule as a whole
  std::string from, to;   // as text: a knob's values, skeletons, groups, rewrites
  v1::Schedule schedule;  // the result
  // What the specialist's rules expect of it: gain in log time (0.1: ten per cent faster).
  double prior = 0;
  int registers = 0;  // what it does to registers a thread: +1 more, -1 fewer, 0 neither
  int accuracy = 0;   // what it does to the answer's: +1 better, -1 worse, 0 nothing by intent
};

class Specialist {
 public:
  virtual ~Specialist() = default;
  virtual const char* name() const = 0;
  // Every move worth a trial from this state, in a fixed order, without those that code generation
  // would refuse for reasons that are cheap to see. None changes a field of another specialist.
  virtual std::vector<Action> Actions(const State& state) const = 0;
};

std::unique_ptr<Specialist> MakeAlgebra();
std::unique_ptr<Specialist> MakeFusion();
// Of knobs: steps of single ones from the table, and the joint moves that skeletons know of.
std::unique_ptr<Specialist> MakeKnobs(v1::Specialist owner);
std::unique_ptr<Specialist> MakeLaunch();
// All of them, in the order of the fixed policy: from the decisions that change most to those that
// change least.
std::vector<std::unique_ptr<Specialist>> MakeSpecialists();

}  // namespace warpsmith::agent
