#include "planner/core/queue.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "planner/core/allocator.h"

namespace warpsmith::planner {

bool TaskQueue::Put(const v1::Task& task, int priority) {
  const Known now{priority, ExpectedGain(task)};
  if (NextSlice(task) <= 0 || std::isnan(now.gain)) {
    Remove(task.id());
    return false;
  }
  const auto [known, fresh] = known_.try_emplace(task.id(), now);
  if (!fresh) {
    if (known->second == now) return true;
    ranks_.erase(RankOf(task.id(), known->second));
    known->second = now;
  }
  ranks_.insert(RankOf(task.id(), now));
  return true;
}

void TaskQueue::Prioritize(const std::string& id, int priority) {
  const auto found = known_.find(id);
  if (found == known_.end() || found->second.priority == priority) return;
  auto rank = ranks_.extract(RankOf(id, found->second));
  found->second.priority = priority;
  std::get<0>(rank.value()) = -priority;
  ranks_.insert(std::move(rank));
}

void TaskQueue::Remove(const std::string& id) {
  const auto found = known_.find(id);
  if (found == known_.end()) return;
  ranks_.erase(RankOf(id, found->second));
  known_.erase(found);
}

const std::string* TaskQueue::Best(const std::string& warm_task,
                                   absl::FunctionRef<bool(const std::string& id)> skip,
                                   Rank* rank) const {
  auto other = ranks_.begin();
  const auto id_of = [](const Rank& each) -> const std::string& { return std::get<2>(each); };
  while (other != ranks_.end() && (id_of(*other) == warm_task || skip(id_of(*other)))) ++other;
  const auto warm = known_.find(warm_task);
  if (warm != known_.end() && !skip(warm_task)) {
    Rank counted = RankOf(warm->first, warm->second, kMoveMargin);
    if (other == ranks_.end() || counted < *other) {
      if (rank != nullptr) *rank = std::move(counted);
      return &warm->first;
    }
  }
  if (other == ranks_.end()) return nullptr;
  if (rank != nullptr) *rank = *other;
  return &id_of(*other);
}

void WorkQueue::Put(const v1::Task& task, const Terms& terms) {
  const Place now{terms.needs, terms.submitter};
  const auto there = places_.find(task.id());
  if (there != places_.end() && there->second != now) Remove(task.id());
  Class& same = classes_[terms.needs];
  const auto [queue, fresh] = same.by_submitter.try_emplace(terms.submitter);
  if (fresh) {
    Submitter& submitter = submitters_[terms.submitter];
    submitter.standing = terms.standing;
    ++submitter.classes;
    same.turns.emplace(terms.standing, terms.submitter);
  }
  if (queue->second.Put(task, terms.priority)) {
    places_[task.id()] = now;
  } else {
    places_.erase(task.id());
    if (queue->second.empty()) Leave(now);
  }
}

void WorkQueue::Prioritize(const std::string& id, int priority) {
  const auto place = places_.find(id);
  if (place == places_.end()) return;
  classes_.at(place->second.needs)
      .by_submitter.at(place->second.submitter)
      .Prioritize(id, priority);
}

void WorkQueue::Remove(const std::string& id) {
  auto place = places_.extract(id);
  if (place.empty()) return;
  const Place& from = place.mapped();
  TaskQueue& queue = classes_.at(from.needs).by_submitter.at(from.submitter);
  queue.Remove(id);
  if (queue.empty()) Leave(from);
}

void WorkQueue::Leave(const Place& place) {
  const auto same = classes_.find(place.needs);
  const auto submitter = submitters_.find(place.submitter);
  same->second.by_submitter.erase(place.submitter);
  same->second.turns.erase({submitter->second.standing, place.submitter});
  if (same->second.by_submitter.empty()) classes_.erase(same);
  if (--submitter->second.classes == 0) submitters_.erase(submitter);
}

void WorkQueue::Move(const std::string& name, const Standing& standing) {
  const auto submitter = submitters_.find(name);
  if (submitter == submitters_.end()) return;
  const Standing from = std::exchange(submitter->second.standing, standing);
  for (auto& [needs, same] : classes_) {
    if (same.turns.erase({from, name}) > 0) same.turns.emplace(standing, name);
  }
}

const std::string* WorkQueue::Best(const v1::WorkerInfo& worker, const std::string& warm_task,
                                   absl::FunctionRef<bool(const std::string& id)> skip) const {
  const std::string* best = nullptr;
  const Turn* best_turn = nullptr;
  TaskQueue::Rank best_rank;
  for (const auto& [needs, same] : classes_) {
    if (!Meets(worker, needs)) continue;
    // Of these tasks the first submitter that has one for the worker.
    for (const Turn& turn : same.turns) {
      if (best != nullptr && *best_turn < turn) break;
      TaskQueue::Rank rank;
      const std::string* id = same.by_submitter.at(turn.second).Best(warm_task, skip, &rank);
      if (id == nullptr) continue;
      if (best == nullptr || turn < *best_turn || rank < best_rank) {
        best = id;
        best_turn = &turn;
        best_rank = std::move(rank);
      }
      break;
    }
  }
  return best;
}

bool WorkQueue::HasFor(const v1::WorkerInfo& worker) const {
  return std::any_of(classes_.begin(), classes_.end(),
                     [&](const auto& each) { return Meets(worker, each.first); });
}

}  // namespace warpsmith::planner
