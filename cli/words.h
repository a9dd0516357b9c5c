// How states, tasks and messages are spelled on the command line.
#pragma once

#include <google/protobuf/message.h>

#include <string>

#include "warpsmith/v1/planner.pb.h"
#include "warpsmith/v1/task.pb.h"
#include "warpsmith/v1/trial.pb.h"

namespace warpsmith::cli {

std::string Word(v1::TaskState state);  // "converged"
std::string Word(v1::Verdict verdict);  // "out of bounds"
// Why it is in its state, with the alarm if there is one; empty: nobody said.
std::string Note(const v1::Task& task);
// What it does, or why it does nothing.
std::string StateOf(const v1::WorkerInfo& worker);
// Share of its budget spent, in [0, 1]; 1 when it is over.
double Progress(const v1::Task& task);

// Geometric mean of the speedups, where a task without a result, or with a slower one, counts as 1:
// what was there before is still there. 0 for no tasks.
double GeomeanSpeedup(const v1::ListReply& list);

// The table that ends a run: a line for each task and the geometric means.
std::string ResultsTable(const v1::ListReply& list);

// Two-space indented, field names as in the .proto, every field present.
std::string Json(const google::protobuf::Message& message);

}  // namespace warpsmith::cli
