#include "planner/web/ledger.h"

#include <utility>

namespace warpsmith::web {

bool Ledger::Set(const std::string& id, std::string json, int64_t at) {
  const auto found = places_.find(id);
  if (found == places_.end()) {
    rows_.push_front({id, std::move(json), at});
    places_[id] = {rows_.begin(), gone_.end()};
    return true;
  }
  auto& [row, gone] = found->second;
  if (row->json == json) return false;
  if (gone != gone_.end()) {
    gone_.erase(gone);
    gone = gone_.end();
  }
  row->json = std::move(json);
  row->at = at;
  rows_.splice(rows_.begin(), rows_, row);
  return true;
}

bool Ledger::Erase(const std::string& id, int64_t at) {
  const auto found = places_.find(id);
  if (found == places_.end() || found->second.gone != gone_.end()) return false;
  auto& [row, gone] = found->second;
  row->json.clear();
  row->json.shrink_to_fit();
  row->at = at;
  rows_.splice(rows_.begin(), rows_, row);
  gone_.push_front(id);
  gone = gone_.begin();
  if (gone_.size() <= max_gone_) return true;
  const auto oldest = places_.find(gone_.back());
  forgotten_ = oldest->second.row->at;
  rows_.erase(oldest->second.row);
  places_.erase(oldest);
  gone_.pop_back();
  return true;
}

const std::string* Ledger::Find(const std::string& id) const {
  const auto found = places_.find(id);
  if (found == places_.end() || found->second.row->json.empty()) return nullptr;
  return &found->second.row->json;
}

}  // namespace warpsmith::web
