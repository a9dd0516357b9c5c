// Random schedules, for tests: what a search might try, and what it never would.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <random>

#include "common/graph/graph.h"
#include "warpsmith/v1/schedule.pb.h"
#include "worker/codegen/codegen.h"

namespace warpsmith::codegen {

struct Random {
  std::mt19937_64 engine;
  explicit Random(uint64_t seed) : engine(seed) {}
  int Below(int n) { return static_cast<int>(engine() % n); }
  bool OneIn(int n) { return Below(n) == 0; }
  template <class T>
  T Of(std::initializer_list<T> values) {
    return values.begin()[Below(static_cast<int>(values.size()))];
  }
};

// Knobs that a policy might try; many are refused. Few threads: a host's are fibers, and slow.
v1::Group RandomKnobs(const v1::Group& group, const GroupInfo& info, Random& random);

// A schedule that lowers for `target`: rewrites, groups and knobs at random. `graph` as it was
// before rewrites. `together`: in as few groups as can be. The same random numbers give the same
// schedule.
v1::Schedule RandomSchedule(const graph::Graph& graph, const Target& target, Random& random,
                            bool together = false);

// The schedule with some things changed that need not make sense: groups dropped, doubled, in
// another order, roots that are none, knobs that are not to be had.
v1::Schedule Mutated(const v1::Schedule& schedule, const graph::Graph& graph, Random& random);

}  // namespace warpsmith::codegen
