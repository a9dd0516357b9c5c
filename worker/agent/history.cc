#include "worker/agent/history.h"

#include <utility>

#include "worker/agent/moves.h"

namespace warpsmith::agent {

History::History() : specialists_(MakeSpecialists()) {}

void History::Start(std::shared_ptr<Node> node) { best_ = std::move(node); }

void History::Add(std::shared_ptr<Node> node, bool incumbent) {
  // Moves on from a start were made before its time was known.
  node->moves.clear();
  node->expanded = false;
  nodes_.push_back(node);
  if (incumbent) best_ = std::move(node);
}

const std::vector<std::vector<Action>>& History::Moves(Node& node) const {
  if (!node.expanded) {
    for (const auto& specialist : specialists_)
      node.moves.push_back(specialist->Actions(node.state));
    node.expanded = true;
  }
  return node.moves;
}

bool History::Claim(const v1::Schedule& schedule) { return tried_.insert(Bytes(schedule)).second; }

bool History::Tried(const v1::Schedule& schedule) const {
  return tried_.count(Bytes(schedule)) > 0;
}

}  // namespace warpsmith::agent
