// The planner's records as rows of the page: JSON arrays, whose columns are named once.
//
// Text of others is text: it goes as JSON strings, with U+FFFD in place of what is no UTF-8, and
// the page writes it as text. Pure; any thread.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "planner/core/state.h"

namespace warpsmith::web {

// {"tasks": ["id", ...], "runs": [...], "workers": [...]}
const nlohmann::json& Columns();

std::string RowOf(const v1::RunRecord& record);
std::string RowOf(const v1::TaskRecord& record);
std::string RowOf(const v1::WorkerRecord& record);
std::string RowOf(const planner::Progress& progress);  // [seconds, specialist]

// In the page's words: "queued", "accepted".
std::string WordOf(v1::TaskState state);
std::string WordOf(v1::Verdict verdict);

// Five digits: nobody reads more, and they are half of what is sent.
double Short(double value);
std::string Text(const nlohmann::json& json);

}  // namespace warpsmith::web
