#include "common/telemetry/log.h"

#include <spdlog/details/log_msg.h>
#include <spdlog/sinks/sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/clock.h"
#include "common/telemetry/log_limit.h"
#include "common/telemetry/log_writer.h"

namespace warpsmith::telemetry {
namespace {

using namespace spdlog::level;  // NOLINT(google-build-using-namespace)

// Notes by level, and then what is told of lines that are not there.
constexpr size_t kNotes = 6;
constexpr LogEvent kTable[] = {
    {"note", trace, "a sentence"},
    {"note", debug, "a sentence"},
    {"note", info, "a sentence"},
    {"note", warn, "a sentence"},
    {"note", err, "a sentence"},
    {"note", critical, "a sentence"},
    {"left_out", info, "{lines} more lines '{of}' were left out"},
    {"dropped", warn, "{lines} lines were dropped: nobody reads them"},
};
constexpr const LogEvent& kLeftOut = kTable[kNotes];
constexpr const LogEvent& kDropped = kTable[kNotes + 1];

// What Log() hands to the sink beside the message, which is of the same thread.
struct Told {
  const LogEvent* event;
  absl::Span<const Field> fields;
};
thread_local const Told* told = nullptr;

class Sink : public spdlog::sinks::sink {
 public:
  Sink(std::string program, std::string worker, const LogFlags& flags)
      : program_(std::move(program)),
        worker_(std::move(worker)),
        json_(flags.format == "json"),
        colour_(!json_ && isatty(STDERR_FILENO) == 1),
        limit_({.lines_per_second = static_cast<double>(flags.lines_per_second),
                .lines_at_once = 10.0 * flags.lines_per_second}),
        writer_(STDERR_FILENO, [this] { return OfItself(); }) {
    current_ = this;
  }
  ~Sink() override {
    Sink* self = this;
    current_.compare_exchange_strong(self, nullptr);
  }

  bool Takes(const LogEvent& event) { return limit_.Takes(event, base::Now()); }

  void log(const spdlog::details::log_msg& message) override {
    LogLine line{.time = absl::FromChrono(message.time),
                 .level = message.level,
                 .program = program_,
                 .worker = worker_,
                 .message = {message.payload.data(), message.payload.size()}};
    if (told != nullptr) {
      line.event = told->event;
      line.fields = told->fields;
    } else if (!Takes(kTable[message.level])) {
      return;
    }
    writer_.Put(Text(line));
  }
  void flush() override { writer_.Flush(); }
  void set_pattern(const std::string&) override {}
  void set_formatter(std::unique_ptr<spdlog::formatter>) override {}

  int64_t left_out() const { return limit_.left_out(); }
  int64_t dropped() const { return writer_.dropped(); }
  static Sink* current() { return current_; }

 private:
  std::string Text(const LogLine& line) const {
    return json_ ? JsonLine(line) : TextLine(line, colour_);
  }
  std::string Say(const LogEvent& event, level_enum level, std::initializer_list<Field> fields) {
    const std::string message = MessageOf(event, fields);
    return Text({.time = absl::Now(),
                 .level = level,
                 .program = program_,
                 .worker = worker_,
                 .event = &event,
                 .message = message,
                 .fields = fields});
  }
  // On the writer's thread.
  std::string OfItself() {
    std::string lines;
    for (const LogLimit::LeftOut& out : limit_.TakeLeftOut(base::Now())) {
      lines += Say(kLeftOut, out.event->level, {{"of", out.event->name}, {"lines", out.lines}});
    }
    if (const int64_t dropped = writer_.dropped(); dropped > told_dropped_) {
      lines += Say(kDropped, kDropped.level, {{"lines", dropped - told_dropped_}});
      told_dropped_ = dropped;
    }
    return lines;
  }

  inline static std::atomic<Sink*> current_ = nullptr;

  const std::string program_, worker_;
  const bool json_, colour_;
  LogLimit limit_;
  int64_t told_dropped_ = 0;  // of the writer's thread
  LogWriter writer_;          // last: it uses what is above
};

void Install(const std::string& program, const LogFlags& flags, const std::string& worker,
             level_enum level) {
  auto logger =
      std::make_shared<spdlog::logger>(program, std::make_shared<Sink>(program, worker, flags));
  logger->set_level(level == off ? critical : level);  // why the process ends is told in any case
  spdlog::set_default_logger(std::move(logger));
}

absl::StatusOr<level_enum> LevelOf(const std::string& name) {
  // As they were called before.
  if (name == "warn") return warn;
  if (name == "err") return err;
  if (name == "critical") return critical;
  for (const level_enum level : {trace, debug, info, warn, err, off}) {
    if (NameOf(level) == name) return level;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--log-level '", name, "': give trace, debug, info, warning, error or off"));
}

absl::Status Check(const LogFlags& flags) {
  if (flags.format != "text" && flags.format != "json") {
    return absl::InvalidArgumentError(
        absl::StrCat("--log-format '", flags.format, "': give text or json"));
  }
  if (flags.lines_per_second < 0) {
    return absl::InvalidArgumentError(absl::StrCat("--log-limit ", flags.lines_per_second,
                                                   ": give a number of lines, or 0 for all"));
  }
  return LevelOf(flags.level).status();
}

}  // namespace

absl::Status StartLog(const std::string& program, const LogFlags& flags,
                      const std::string& worker) {
  const absl::Status valid = Check(flags);
  const LogFlags used = valid.ok() ? flags : LogFlags();
  Install(program, used, worker, *LevelOf(used.level));
  return valid;
}

void Log(const LogEvent& event, std::initializer_list<Field> fields) {
  spdlog::logger* const logger = spdlog::default_logger_raw();
  if (!logger->should_log(event.level)) return;
  if (Sink* const sink = Sink::current(); sink != nullptr && !sink->Takes(event)) return;
  const Told now{&event, absl::MakeConstSpan(fields.begin(), fields.size())};
  const std::string message = MessageOf(event, now.fields);
  told = &now;
  logger->log(event.level, spdlog::string_view_t(message));
  told = nullptr;
}

void FlushLog() { spdlog::default_logger()->flush(); }

int64_t LinesLeftOut() {
  const Sink* const sink = Sink::current();
  return sink == nullptr ? 0 : sink->left_out();
}

int64_t LinesDropped() {
  const Sink* const sink = Sink::current();
  return sink == nullptr ? 0 : sink->dropped();
}

absl::Span<const LogEvent> LogTable() { return absl::MakeConstSpan(kTable).subspan(kNotes); }

}  // namespace warpsmith::telemetry
