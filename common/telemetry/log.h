// Logging, to stderr alone; stdout is for data. What is told is an event with fields, or a note,
// which is a sentence alone; spdlog's default logger takes both. StartLog once, in main().
//
//   constexpr LogEvent kLost = {"worker_lost", spdlog::level::warn, "worker {worker} is lost"};
//   telemetry::LogFlags flags;                                  // --log-format, --log-level
//   flags.AddTo(app);
//   absl::Status status = telemetry::StartLog("planner", flags);
//   telemetry::Log(kLost, {{"worker", id}, {"reason", reason}});
//   spdlog::info("listening on {}", address);                   // a note
//
// A line is made by whoever logs and written by a thread of its own (log_writer.h); of each kind,
// and of notes of each level, so many are written a second (log_limit.h). Any thread.
#pragma once

#include <initializer_list>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/telemetry/log_line.h"

namespace warpsmith::telemetry {

struct LogFlags {
  std::string format = "text";  // or "json"
  // trace, debug, info, warning, error or off: what is less is not written; why the process ends
  // is, in any case.
  std::string level = "info";
  // Of each kind of event; 0: no limit.
  int lines_per_second = 20;

  // Adds --log-format, --log-level and --log-limit to a CLI::App, as of CLI11.
  template <typename App>
  void AddTo(App& app) {
    app.add_option("--log-format", format, "text for people, json for programs")
        ->envname("WARPSMITH_LOG_FORMAT")
        ->capture_default_str();
    app.add_option("--log-level", level, "trace, debug, info, warning, error or off")
        ->envname("WARPSMITH_LOG_LEVEL")
        ->capture_default_str();
    app.add_option("--log-limit", lines_per_second,
                   "lines a second of each kind of event, after ten times as many at once; 0: all")
        ->envname("WARPSMITH_LOG_LIMIT")
        ->capture_default_str();
  }
};

// `program` stands in each line; `worker` too, the name of one. InvalidArgument: a flag is none of
// those; it can be told, in text. Lines are coloured only on a terminal.
absl::Status StartLog(const std::string& program, const LogFlags& flags,
                      const std::string& worker = "");

// `event` outlives the program: it is of a table.
void Log(const LogEvent& event, std::initializer_list<Field> fields);

// What is on its way is written, if somebody reads: before the process ends in a hurry.
void FlushLog();

// Of this process: left out by the limit, and dropped since nobody read them.
int64_t LinesLeftOut();
int64_t LinesDropped();

// What the log says of itself; a note has the event's name "note".
absl::Span<const LogEvent> LogTable();

}  // namespace warpsmith::telemetry
