#include "common/telemetry/log_line.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "common/base/text.h"

namespace warpsmith::telemetry {
namespace {

std::string Cut(std::string_view text, size_t limit) {
  if (text.size() <= limit) return std::string(text);
  const std::string_view kept = base::Prefix(text, limit);
  return absl::StrCat(std::string(kept), "... (", text.size() - kept.size(), " bytes cut)");
}

// Of a whole character's bytes.
uint32_t CodePoint(std::string_view bytes) {
  if (bytes.size() == 1) return static_cast<unsigned char>(bytes[0]);
  uint32_t code = static_cast<unsigned char>(bytes[0]) & (0x7Fu >> bytes.size());
  for (const char next : bytes.substr(1))
    code = code << 6 | (static_cast<unsigned char>(next) & 0x3F);
  return code;
}

// Controls, of old and of Unicode: line ends, and what turns the direction of the text around it.
bool IsControl(uint32_t code) {
  return code < 0x20 || (code >= 0x7F && code < 0xA0) || code == 0x200E || code == 0x200F ||
         (code >= 0x2028 && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069) || code == 0xFEFF;
}

void AppendEscaped(uint32_t code, std::string& text) {
  switch (code) {
    case '\n':
      text += "\\n";
      return;
    case '\r':
      text += "\\r";
      return;
    case '\t':
      text += "\\t";
      return;
    default:
      absl::StrAppendFormat(&text, code < 0x100 ? "\\x%02x" : "\\u%04x", code);
  }
}

// On one line, and nothing that a terminal obeys.
std::string Printable(std::string_view text) {
  std::string line;
  line.reserve(text.size());
  while (!text.empty()) {
    const size_t size = base::CharacterBytes(text);
    if (size == 0) {
      line += base::kReplacement;
      text.remove_prefix(1);
      continue;
    }
    const std::string_view character = text.substr(0, size);
    if (const uint32_t code = CodePoint(character); IsControl(code)) {
      AppendEscaped(code, line);
    } else {
      line += character;
    }
    text.remove_prefix(size);
  }
  return line;
}

std::string TextOf(const Value& value) {
  struct {
    std::string operator()(std::string_view text) const { return Cut(text, kMaxValueBytes); }
    std::string operator()(int64_t number) const { return absl::StrCat(number); }
    std::string operator()(double number) const { return absl::StrCat(number); }
    std::string operator()(bool yes) const { return yes ? "true" : "false"; }
  } text;
  return std::visit(text, value.get());
}

const Field* Find(absl::Span<const Field> fields, std::string_view name) {
  const auto found = std::find_if(fields.begin(), fields.end(),
                                  [&](const Field& field) { return field.name == name; });
  return found == fields.end() ? nullptr : &*found;
}

bool Names(std::string_view message, std::string_view field) {
  for (size_t at = message.find('{'); at != std::string_view::npos;
       at = message.find('{', at + 1)) {
    if (message.compare(at + 1, field.size(), field) != 0) continue;
    if (message.compare(at + 1 + field.size(), 1, "}") == 0) return true;
  }
  return false;
}

// `words` with the values; in `missing` whether one of them is "".
std::string Fill(std::string_view words, absl::Span<const Field> fields, bool& missing) {
  std::string text;
  while (true) {
    const size_t open = words.find('{');
    text += words.substr(0, open);
    if (open == std::string_view::npos) return text;
    const size_t close = std::min(words.find('}', open), words.size() - 1);
    const Field* const field = Find(fields, words.substr(open + 1, close - open - 1));
    const std::string value = field == nullptr ? "" : TextOf(field->value);
    missing |= value.empty();
    text += value;
    words.remove_prefix(close + 1);
  }
}

std::string TimeOf(const LogLine& line) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", line.time, absl::UTCTimeZone());
}

// Of a level, on a terminal.
std::string_view ColourOf(spdlog::level::level_enum level) {
  switch (level) {
    case spdlog::level::info:
      return "\x1b[32m";
    case spdlog::level::warn:
      return "\x1b[33;1m";
    case spdlog::level::err:
    case spdlog::level::critical:
      return "\x1b[31;1m";
    default:
      return "\x1b[36m";
  }
}

// As one word, so that no value looks like another field.
void AppendWord(std::string_view value, std::string& text) {
  const bool plain = !value.empty() && value.find_first_of(" \"=()\\") == std::string_view::npos;
  if (plain) {
    text += value;
    return;
  }
  text += '"';
  for (const char c : value) {
    if (c == '"') text += '\\';
    text += c;
  }
  text += '"';
}

}  // namespace

std::string_view NameOf(spdlog::level::level_enum level) {
  constexpr std::string_view kNames[] = {"trace", "debug",    "info", "warning",
                                         "error", "critical", "off"};
  return kNames[level];
}

std::string MessageOf(const LogEvent& event, absl::Span<const Field> fields) {
  std::string message;
  std::string_view rest = event.message;
  bool missing = false;
  while (true) {
    const size_t open = rest.find('[');
    const size_t close = open == std::string_view::npos ? open : rest.find(']', open);
    message += Fill(rest.substr(0, open), fields, missing);
    if (close == std::string_view::npos) break;
    missing = false;
    const std::string maybe = Fill(rest.substr(open + 1, close - open - 1), fields, missing);
    if (!missing) message += maybe;
    rest.remove_prefix(close + 1);
  }
  return message;
}

std::string TextLine(const LogLine& line, bool colour) {
  std::string text = absl::StrCat(TimeOf(line), " ");
  if (colour) text += ColourOf(line.level);
  text += NameOf(line.level);
  if (colour) text += "\x1b[0m";
  text += ' ';
  text += line.program;
  if (!line.worker.empty()) absl::StrAppend(&text, " ", Printable(line.worker));
  text += ": ";
  text += Printable(Cut(line.message, kMaxMessageBytes));
  bool first = true;
  for (const Field& field : line.fields) {
    if (line.event != nullptr && Names(line.event->message, field.name)) continue;
    const std::string value = TextOf(field.value);
    if (value.empty()) continue;
    text += std::exchange(first, false) ? " (" : " ";
    text += field.name;
    text += '=';
    AppendWord(Printable(value), text);
  }
  text += first ? "\n" : ")\n";
  return text;
}

std::string JsonLine(const LogLine& line) {
  nlohmann::ordered_json json;
  json["time"] = TimeOf(line);
  json["level"] = NameOf(line.level);
  json["program"] = line.program;
  if (!line.worker.empty()) json["worker"] = line.worker;
  json["event"] = line.event == nullptr ? "note" : line.event->name;
  json["message"] = Cut(line.message, kMaxMessageBytes);
  for (const Field& field : line.fields) {
    nlohmann::ordered_json& value = json[std::string(field.name)];
    if (const auto* text = std::get_if<std::string_view>(&field.value.get())) {
      value = Cut(*text, kMaxValueBytes);
    } else {
      std::visit([&](const auto& each) { value = each; }, field.value.get());
    }
  }
  constexpr bool kAscii = true;
  return json.dump(-1, ' ', kAscii, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::string Markdown(absl::Span<const LogEvent> table) {
  std::string text = "| event | level | message | more fields |\n|---|---|---|---|\n";
  for (const LogEvent& event : table) {
    absl::StrAppend(&text, "| `", event.name, "` | ", std::string(NameOf(event.level)), " | ",
                    event.message, " | ", event.more, " |\n");
  }
  return text;
}

}  // namespace warpsmith::telemetry
