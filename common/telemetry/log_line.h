// A line of the log: text for people, or JSON for machines. Pure; any thread.
//
// Whatever the values hold, it is one line of valid UTF-8 that a terminal shows and does not obey:
// text has \n, \x1b and the like in place of what is no character to look at, and U+FFFD for bytes
// that are none; JSON is ASCII.
#pragma once

#include <spdlog/common.h>

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace warpsmith::telemetry {

// What is longer is cut, and says by how much.
inline constexpr size_t kMaxValueBytes = 1024;
inline constexpr size_t kMaxMessageBytes = 4096;

// An event that a program tells its log of. Each program has a table of its own.
struct LogEvent {
  const char* name;  // "lease_granted"
  spdlog::level::level_enum level;
  // The message. "{worker}" stands for the field's value; what is in brackets is left out where a
  // field in it is "": "worker {worker} is held[: {reason}]".
  const char* message;
  const char* more = "";  // fields that it does not name, with ", " between them
};

// Of a field; refers to text that lives for the call.
class Value {
 public:
  // NOLINTBEGIN(google-explicit-constructor)
  Value(std::string_view text) : value_(text) {}
  Value(const std::string& text) : value_(std::string_view(text)) {}
  Value(const char* text) : value_(std::string_view(text)) {}
  template <std::same_as<absl::string_view> Text>  // which may be std's, or not
  Value(Text text) : value_(std::string_view(text.data(), text.size())) {}
  Value(double number) : value_(number) {}
  Value(bool yes) : value_(yes) {}
  template <std::integral Integer>
  Value(Integer number) : value_(static_cast<int64_t>(number)) {}
  // NOLINTEND(google-explicit-constructor)

  const std::variant<std::string_view, int64_t, double, bool>& get() const { return value_; }

 private:
  std::variant<std::string_view, int64_t, double, bool> value_;
};

struct Field {
  std::string_view name;
  Value value;
};

struct LogLine {
  absl::Time time;
  spdlog::level::level_enum level = spdlog::level::info;
  std::string_view program;  // "worker"
  std::string_view worker;   // the name of one; "": it is none
  const LogEvent* event = nullptr;
  std::string_view message;
  absl::Span<const Field> fields;
};

// What `event` says with these values.
std::string MessageOf(const LogEvent& event, absl::Span<const Field> fields);

// "2026-05-01T10:00:00.000Z info planner: message (more=1 reason="a b")", and a newline. In text,
// what the message does not say stands behind it. `colour`: the level is coloured.
std::string TextLine(const LogLine& line, bool colour = false);

// {"time":"2026-05-01T10:00:00.000Z","level":"info","program":"planner","event":"lease_granted",
// "message":"...", and a key for each field}, and a newline.
std::string JsonLine(const LogLine& line);

// Of the levels that people give and lines have: trace, debug, info, warning, error, critical.
std::string_view NameOf(spdlog::level::level_enum level);

// The table as a page's rows.
std::string Markdown(absl::Span<const LogEvent> table);

}  // namespace warpsmith::telemetry
