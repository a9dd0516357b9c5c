// What a search starts from once what it was to start from is not right.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "common/graph/graph.h"
#include "warpsmith/v1/schedule.pb.h"
#include "worker/codegen/codegen.h"

namespace warpsmith::agent {

// The default schedule, and what is done otherwise where that may be what is wrong, one after the
// other: approximations, roundings to 16 bits (those that cost nothing to leave out, those that
// cost little, all), long sums on tensor cores, operations made as one, products made otherwise
// than the reference's; one kernel for each node is the last. Some may be the same. `lowers`:
// whether code generation takes a schedule for all workloads.
std::vector<v1::Schedule> StartsAfterWrong(std::shared_ptr<const graph::Graph> graph,
                                           const codegen::Target& target,
                                           const std::function<bool(const v1::Schedule&)>& lowers);

}  // namespace warpsmith::agent
