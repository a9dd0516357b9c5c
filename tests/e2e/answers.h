// What a planner answers, or the one of several that leads.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "warpsmith/v1/planner.grpc.pb.h"

namespace warpsmith::e2e {

class Answers {
 public:
  virtual ~Answers() = default;
  // With commas between them.
  virtual absl::StatusOr<std::string> Addresses() const = 0;

  // An error while nobody answers.
  absl::StatusOr<v1::ListReply> List(const std::string& run_id = "") const;
  absl::StatusOr<v1::GetTaskReply> GetTask(const std::string& task_id) const;
};

}  // namespace warpsmith::e2e
