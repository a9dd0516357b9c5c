#include "common/telemetry/log_line.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "common/base/text.h"

namespace warpsmith::telemetry {
namespace {

using Catch::Contains;

constexpr LogEvent kHeld = {"worker_held", spdlog::level::info,
                            "worker {worker} is held[: {reason}]", "revision, note"};

LogLine LineOf(const LogEvent& event, std::string_view message, absl::Span<const Field> fields) {
  return {.time = absl::FromUnixMillis(1'750'000'000'123),
          .level = event.level,
          .program = "planner",
          .event = &event,
          .message = message,
          .fields = fields};
}

std::string Text(const LogEvent& event, const std::vector<Field>& fields) {
  const std::string message = MessageOf(event, fields);
  return TextLine(LineOf(event, message, fields));
}

nlohmann::json Json(const LogEvent& event, const std::vector<Field>& fields) {
  const std::string message = MessageOf(event, fields);
  return nlohmann::json::parse(JsonLine(LineOf(event, message, fields)));
}

// One line, of characters, and nothing that a terminal obeys.
void CheckHarmless(const std::string& line) {
  INFO(line);
  REQUIRE(!line.empty());
  CHECK(std::count(line.begin(), line.end(), '\n') == 1);
  CHECK(line.back() == '\n');
  bool harmless = true;
  for (std::string_view rest(line.data(), line.size() - 1); !rest.empty();) {
    const size_t size = base::CharacterBytes(rest);
    REQUIRE(size > 0);
    const auto first = static_cast<unsigned char>(rest[0]);
    harmless &= size > 1 || (first >= 0x20 && first != 0x7F);
    harmless &= size != 2 || first != 0xC2 || static_cast<unsigned char>(rest[1]) >= 0xA0;  // C1
    rest.remove_prefix(size);
  }
  CHECK(harmless);
}

std::string RandomBytes(std::mt19937_64& random) {
  // Half of them from what could do harm.
  constexpr std::string_view kBad =
      "\n\r\x1b\"\\{}[]=,:\x7f\x9b\xc2\x85\xe2\x80\xa8\xff\x00 "
      "2025-06-15T15:06:40.123Z error planner: ";
  std::string bytes(random() % 64, '\0');
  for (char& c : bytes) {
    c = random() % 2 == 0 ? kBad[random() % kBad.size()] : static_cast<char>(random());
  }
  return bytes;
}

}  // namespace

TEST_CASE("a message has the values, and what is optional where there is one") {
  const std::vector<Field> with = {{"worker", "w1"}, {"reason", "new driver"}};
  const std::vector<Field> without = {{"worker", "w1"}, {"reason", ""}};
  CHECK(MessageOf(kHeld, with) == "worker w1 is held: new driver");
  CHECK(MessageOf(kHeld, without) == "worker w1 is held");
  const LogEvent event = {"e", spdlog::level::info, "{a} of {b}, {c}{d}"};
  const std::vector<Field> fields = {{"a", 3}, {"b", 0.25}, {"c", true}, {"d", int64_t{-1}}};
  CHECK(MessageOf(event, fields) == "3 of 0.25, true-1");
  // What is wrong in a table is seen, and harms nobody.
  CHECK(MessageOf({"e", spdlog::level::info, "no {such} field, {unclosed"}, {}) == "no  field, ");
}

TEST_CASE("text says what the message does not behind it") {
  CHECK(Text(kHeld, {{"worker", "w1"}, {"reason", "x"}, {"revision", 7}, {"note", ""}}) ==
        "2025-06-15T15:06:40.123Z info planner: worker w1 is held: x (revision=7)\n");
  CHECK(Text(kHeld, {{"worker", "w1"}, {"reason", ""}, {"revision", 7}, {"note", "a \"b\" c"}}) ==
        "2025-06-15T15:06:40.123Z info planner: worker w1 is held (revision=7 note=\"a \\\"b\\\" "
        "c\")\n");
  LogLine note{.time = absl::UnixEpoch(),
               .level = spdlog::level::err,
               .program = "worker",
               .worker = "w1",
               .message = "as it is"};
  CHECK(TextLine(note) == "1970-01-01T00:00:00.000Z error worker w1: as it is\n");
  CHECK(TextLine(note, /*colour=*/true) ==
        "1970-01-01T00:00:00.000Z \x1b[31;1merror\x1b[0m worker w1: as it is\n");
}

TEST_CASE("JSON has a key for each field, and those of every line first") {
  const std::vector<Field> fields = {
      {"worker", "w1"}, {"reason", "x"}, {"revision", 7}, {"share", 0.5}, {"lost", true}};
  const std::string message = MessageOf(kHeld, fields);
  CHECK(JsonLine(LineOf(kHeld, message, fields)) ==
        "{\"time\":\"2025-06-15T15:06:40.123Z\",\"level\":\"info\",\"program\":\"planner\","
        "\"event\":\"worker_held\",\"message\":\"worker w1 is held: x\",\"worker\":\"w1\","
        "\"reason\":\"x\",\"revision\":7,\"share\":0.5,\"lost\":true}\n");
  const LogLine note{
      .level = spdlog::level::warn, .program = "worker", .worker = "w1", .message = "as it is"};
  const auto json = nlohmann::json::parse(JsonLine(note));
  CHECK(json["event"] == "note");
  CHECK(json["level"] == "warning");
  CHECK(json["worker"] == "w1");
}

TEST_CASE("hostile names forge no line") {
  const struct {
    std::string name, text;
  } cases[] = {
      {"a\nb", "a\\nb"},
      {"a\r\tb", "a\\r\\tb"},
      {"\x1b[2J\x1b]0;t\x07", "\\x1b[2J\\x1b]0;t\\x07"},
      {"a\xc2\x9b"
       "31mb",
       "a\\x9b31mb"},  // CSI of C1
      {"a\xe2\x80\xa8"
       "b\xe2\x80\xae"
       "c",
       "a\\u2028b\\u202ec"},  // a line end, right to left
      {"a\xff\xc3(b", "a\xef\xbf\xbd\xef\xbf\xbd(b"},
      {std::string("a\0b", 3), "a\\x00b"},
      {"gr\xc3\xb6\xc3\x9f", "gr\xc3\xb6\xc3\x9f"},
  };
  for (const auto& one : cases) {
    const std::string line = Text(kHeld, {{"worker", one.name}, {"reason", ""}});
    CHECK(line == "2025-06-15T15:06:40.123Z info planner: worker " + one.text + " is held\n");
    CheckHarmless(line);
  }
  CHECK_THAT(Text(kHeld, {{"worker", "w"}, {"reason", ""}, {"note", "1 revision=9) x"}}),
             Contains("(note=\"1 revision=9) x\")"));
  // JSON keeps what can be kept.
  CHECK(Json(kHeld, {{"worker", "a\n\x1b[b"}, {"reason", ""}})["worker"] == "a\n\x1b[b");
  CHECK(Json(kHeld, {{"worker", "a\xff"}, {"reason", ""}})["worker"] == "a\xef\xbf\xbd");
}

TEST_CASE("what is long is cut, and says by how much") {
  const std::string text = std::string(kMaxValueBytes - 1, 'x') + "\xc3\xb6" + "yyy";
  const auto json = Json(kHeld, {{"worker", text}, {"reason", ""}});
  CHECK(json["worker"] == std::string(kMaxValueBytes - 1, 'x') + "... (5 bytes cut)");
  CHECK_THAT(json["message"].get<std::string>(), Contains("x... (5 bytes cut) is held"));
  const std::string message(kMaxMessageBytes + 10, 'm');
  const LogLine note{.program = "planner", .message = message};
  CHECK_THAT(TextLine(note), Contains("m... (10 bytes cut)\n"));
  CHECK_THAT(JsonLine(note), Contains("m... (10 bytes cut)\""));
}

TEST_CASE("whatever is logged, a line is one line, and JSON is JSON") {
  std::mt19937_64 random(7);
  for (int i = 0; i < 5000; ++i) {
    const std::string a = RandomBytes(random), b = RandomBytes(random), c = RandomBytes(random);
    const std::vector<Field> fields = {{"worker", a}, {"reason", b}, {"note", c}};
    const std::string message = MessageOf(kHeld, fields);
    LogLine line = LineOf(kHeld, message, fields);
    line.worker = b;
    CheckHarmless(TextLine(line));
    const std::string json = JsonLine(line);
    CheckHarmless(json);
    CHECK(std::all_of(json.begin(), json.end(), [](char c) { return (c & 0x80) == 0; }));
    const auto parsed = nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false);
    REQUIRE(parsed.is_object());
    CHECK(parsed["event"] == "worker_held");
    CHECK(parsed["note"].is_string());
  }
}

}  // namespace warpsmith::telemetry
