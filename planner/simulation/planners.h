// The planners of a world by their addresses, as a network knows them.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "planner/simulation/planner_host.h"

namespace warpsmith::planner::simulation {

class Planners {
 public:
  void Add(std::unique_ptr<PlannerHost> host) { hosts_.push_back(std::move(host)); }

  const std::vector<std::unique_ptr<PlannerHost>>& hosts() const { return hosts_; }
  // As workers and people are told them.
  std::string addresses() const {
    return absl::StrJoin(hosts_, ",",
                         [](std::string* out, const auto& host) { out->append(host->address()); });
  }
  PlannerHost& At(const std::string& address) const {
    return **std::find_if(hosts_.begin(), hosts_.end(),
                          [&](const auto& host) { return host->address() == address; });
  }
  // Null: none does.
  const PlannerHost* Leader() const {
    const auto leader =
        std::find_if(hosts_.begin(), hosts_.end(), [](const auto& host) { return host->Leads(); });
    return leader == hosts_.end() ? nullptr : leader->get();
  }

 private:
  std::vector<std::unique_ptr<PlannerHost>> hosts_;
};

}  // namespace warpsmith::planner::simulation
