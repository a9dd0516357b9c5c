// The board: the state of the whole effort as one markdown page.
//
//   std::string page = board::Render(state);
//
// The log is the truth and the page its projection: the same state gives the same page, which names
// the revision it was made from. Times and speedups are those of accepted incumbents.
#pragma once

#include <string>

#include "warpsmith/v1/snapshot.pb.h"

namespace warpsmith::board {

// Newest first; older runs get one line each.
inline constexpr int kRunsInFull = 5;
inline constexpr int kMaxLines = 50;         // of earlier runs
inline constexpr int kMaxRows = 1000;        // of a run's table
inline constexpr int kMaxLessonsShown = 8;   // of a task, newest
inline constexpr int kMaxLessonTasks = 200;  // of a run

// `state.tasks` may carry progress that is not in the log (seconds, specialist at work).
std::string Render(const v1::PlannerState& state);

// "1.23x"; "-" where there is none.
std::string Speedup(double speedup);

// Geometric mean over a run's tasks. Against the strongest baseline a task counts as 1 where it has
// no incumbent or a slower one: a user would run the baseline then. Against eager those with an
// incumbent count. 0 where nothing counts.
struct Score {
  double speedup = 0;
  double speedup_eager = 0;
  int with_incumbent = 0;
};
Score ScoreOf(const v1::PlannerState& state, const std::string& run_id);

}  // namespace warpsmith::board
