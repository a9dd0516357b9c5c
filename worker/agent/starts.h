// What a search starts from once what it was to start from is not right, and what it tries beside
// it.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>

#include "common/graph/graph.h"
#include "warpsmith/v1/schedule.pb.h"
#include "worker/codegen/codegen.h"

namespace warpsmith::agent {

// The schedule with products of fp32 in one pass of fp16, of eleven bits of each factor, where that
// is estimated to be quicker, and functions approximate; `ties`: as ContractKnobs has it. nullopt: it
// has none.
std::optional<v1::Schedule> InOnePass(const std::shared_ptr<const graph::Graph>& graph,
                                      const v1::Schedule& schedule, const codegen::Target& target,
                                      int ties);

// The default schedule, and what is done otherwise where that may be what is wrong, one after the
// other: approximations (and with them roundings to 16 bits that cost nothing to leave out, then
// alone), roundings that cost little, all, long sums on tensor cores, operations made as one,
// products made otherwise than the reference's, attention in one kernel; one kernel for each node
// is the last, but for those that are estimated far slower than the default. Some may be the same.
// `lowers`: whether code generation takes a schedule for all workloads. Each is made when it is
// asked for, some in seconds. `target` outlives it. Not thread-safe.
class StartsAfterWrong {
 public:
  StartsAfterWrong(std::shared_ptr<const graph::Graph> graph, const codegen::Target& target,
                   std::function<bool(const v1::Schedule&)> lowers);
  // nullopt: that was the last.
  std::optional<v1::Schedule> Next();
  // The same of those alone that leave out roundings and are not estimated to be much slower.
  std::optional<v1::Schedule> NextNearer();

 private:
  std::optional<v1::Schedule> InOrder();
  v1::Schedule WithoutPairs(v1::Schedule schedule) const;
  v1::Schedule WithoutRoundings(const v1::Schedule& schedule, bool factors) const;
  v1::Schedule UnroundedAsQuick(const v1::Schedule& schedule, double most) const;
  v1::Schedule WithOwnRoundings(double most) const;
  v1::Schedule AddedUpOften(v1::Schedule schedule) const;
  v1::Schedule AsReference(v1::Schedule schedule) const;
  std::optional<double> SecondsOf(const v1::Schedule& schedule) const;

  const std::shared_ptr<const graph::Graph> graph_;
  const codegen::Target& target_;
  const std::function<bool(const v1::Schedule&)> lowers_;
  v1::Schedule first_, exact_;  // the default, and without approximations
  int next_ = 0;
  std::deque<v1::Schedule> put_off_;
};

}  // namespace warpsmith::agent
