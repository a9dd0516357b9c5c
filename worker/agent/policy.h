// The meta-agent: decides which specialist acts next, on what, and with which of its moves.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "worker/agent/history.h"

namespace warpsmith::agent {

class Policy {
 public:
  virtual ~Policy() = default;
  // The next move, whose schedule was not tried before; nullopt: nothing (more) is worth a trial
  // with what is known now.
  virtual std::optional<Proposal> Propose(const History& history) = 0;
  // What became of a proposal. Called once for each, as the judge answers: in the order in which
  // they were made but for those that others overtake (Evaluator::Submit). Those that were refused
  // before the judge saw them, behind all that were proposed before, and those that were abandoned
  // included.
  virtual void Learn(const Proposal& proposal, const Result& result) = 0;
  // Judged candidates in a row without a new incumbent after which the task has converged.
  virtual int patience(const State& state) const = 0;
};

// "random": a specialist drawn at random, then one of its moves. "fixed": the specialists in turn,
// each with its next move. "rules": the move from which most is expected (rules.h). Empty: rules.
// InvalidArgument: another name.
absl::StatusOr<std::unique_ptr<Policy>> MakePolicy(const std::string& name, uint64_t seed);

}  // namespace warpsmith::agent
