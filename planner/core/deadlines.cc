#include "planner/core/deadlines.h"

namespace warpsmith::planner {

void Deadlines::Set(const std::string& id, int64_t at_ms) {
  const auto [known, fresh] = at_ms_.try_emplace(id, at_ms);
  if (!fresh) {
    if (known->second == at_ms) return;
    // The node goes on under another key: calls move deadlines far more often than make them.
    auto node = order_.extract({known->second, id});
    node.value().first = at_ms;
    order_.insert(std::move(node));
    known->second = at_ms;
    return;
  }
  order_.emplace(at_ms, id);
}

void Deadlines::Erase(const std::string& id) {
  const auto known = at_ms_.find(id);
  if (known == at_ms_.end()) return;
  order_.erase({known->second, id});
  at_ms_.erase(known);
}

std::vector<std::string> Deadlines::Passed(int64_t now_ms) const {
  std::vector<std::string> passed;
  for (auto it = order_.begin(); it != order_.end() && it->first <= now_ms; ++it) {
    passed.push_back(it->second);
  }
  return passed;
}

}  // namespace warpsmith::planner
