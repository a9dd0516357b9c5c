// What people write on the board, as the planner's commands.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "planner/board/board.h"
#include "planner/board/edit.h"
#include "planner/service/service.h"

namespace warpsmith::planner {

// NotFound: the picture has no such task.
absl::StatusOr<Command> CommandOf(const board::Edit& edit, const board::Picture& picture);

// Of the command's answer: why it was not done; OK: it was.
absl::Status OutcomeOf(const board::Edit& edit, const absl::StatusOr<Reply>& answer);

// As they stand on the page, at that time of day.
std::string ReportOf(const board::Edit& edit, const absl::Status& outcome, absl::Time at);
std::string ReportOf(const board::Unread& unread, absl::Time at);

}  // namespace warpsmith::planner
