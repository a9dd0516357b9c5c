// What the causes of ends of leases mean, and how they and ledgers are told to people.
#pragma once

#include <string>

#include "warpsmith/v1/task.pb.h"

namespace warpsmith::problem {

// The worker was lost with it.
inline bool IsLoss(v1::Cause cause) {
  return cause == v1::UNHEARD || cause == v1::SUPERSEDED || cause == v1::UNSPOKEN ||
         cause == v1::OVERDUE;
}

// It counts against the worker. That nobody can work on a task is said of the task.
inline bool BlamesWorker(v1::Cause cause) { return IsLoss(cause) || cause == v1::GIVEN_UP; }

// It says nothing of the task or the worker.
inline bool SaysNothing(v1::Cause cause) {
  return cause == v1::HANDED_BACK || cause == v1::TAKEN_BACK;
}

// "fell silent": what the worker did.
inline const char* WordOf(v1::Cause cause) {
  switch (cause) {
    case v1::FINISHED:
      return "finished it";
    case v1::HANDED_BACK:
      return "handed it back";
    case v1::TAKEN_BACK:
      return "was told to stop";
    case v1::GIVEN_UP:
      return "gave it up";
    case v1::IMPOSSIBLE:
      return "found it impossible";
    case v1::UNHEARD:
      return "fell silent";
    case v1::SUPERSEDED:
      return "started anew";
    case v1::UNSPOKEN:
      return "no longer spoke of it";
    case v1::OVERDUE:
      return "did not come to an end";
    default:
      return "unknown";
  }
}

// Of a worker's ledger: "r1/a@host (fell silent), r1/b@host (gave it up)".
template <typename Ledger>
std::string TextOf(const Ledger& ledger) {
  std::string text;
  for (const v1::Blame& blame : ledger) {
    if (!text.empty()) text += ", ";
    text += blame.task_id() + " (" + WordOf(blame.cause()) + ")";
  }
  return text;
}

// Why a worker is quarantined. Of WorkerInfo and of WorkerRecord.
template <typename Worker>
std::string WhyQuarantined(const Worker& worker) {
  return worker.fault().empty() ? TextOf(worker.ledger()) : worker.fault();
}

}  // namespace warpsmith::problem
