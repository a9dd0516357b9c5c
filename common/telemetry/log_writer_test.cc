#include "common/telemetry/log_writer.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace warpsmith::telemetry {
namespace {

class Pipe {
 public:
  Pipe() { REQUIRE(pipe2(ends_, O_CLOEXEC) == 0); }
  ~Pipe() {
    if (ends_[0] >= 0) close(ends_[0]);
    close(ends_[1]);
  }
  int in() const { return ends_[1]; }
  // Up to `bytes`, as soon as there are any.
  std::string Read(size_t bytes) {
    std::string text(bytes, '\0');
    const ssize_t count = read(ends_[0], text.data(), text.size());
    text.resize(count < 0 ? 0 : static_cast<size_t>(count));
    return text;
  }
  void CloseReader() { close(std::exchange(ends_[0], -1)); }

 private:
  int ends_[2] = {-1, -1};
};

std::string Nothing() { return ""; }

}  // namespace

TEST_CASE("lines are written in their order, and are out after a flush") {
  Pipe pipe;
  LogWriter writer(pipe.in(), Nothing);
  std::string all;
  for (int i = 0; i < 1000; ++i) {
    const std::string line = absl::StrCat("line ", i, "\n");
    REQUIRE(writer.Put(line));
    all += line;
  }
  writer.Flush();
  std::string read;
  while (read.size() < all.size()) read += pipe.Read(all.size());
  CHECK(read == all);
  CHECK(writer.dropped() == 0);
}

TEST_CASE("the end writes what waits") {
  Pipe pipe;
  { LogWriter(pipe.in(), Nothing).Put("the last\n"); }
  CHECK(pipe.Read(100) == "the last\n");
}

TEST_CASE("nobody waits for a reader who does not read, and what is dropped is counted") {
  Pipe pipe;
  auto writer = std::make_unique<LogWriter>(pipe.in(), Nothing);
  const std::string line(10'000, 'x');
  // More than fits into the pipe and the queue; each returns at once, or this never ends.
  int refused = 0;
  for (size_t bytes = 0; bytes < 3 * kMaxWaitingBytes; bytes += line.size()) {
    refused += !writer->Put(line);
  }
  CHECK(refused > 0);
  CHECK(writer->dropped() == refused);
  writer->Flush();
  // The end waits for a while, and not for ever.
  writer = nullptr;
  CHECK(pipe.Read(4) == "xxxx");
}

TEST_CASE("without a reader lines are dropped") {
  signal(SIGPIPE, SIG_IGN);
  Pipe pipe;
  pipe.CloseReader();
  LogWriter writer(pipe.in(), Nothing);
  writer.Put("for nobody\n");
  writer.Flush();
  CHECK(writer.dropped() == 1);
}

TEST_CASE("the writer asks from time to time what else there is to say") {
  Pipe pipe;
  std::atomic<int> asked = 0;
  LogWriter writer(pipe.in(), [&] { return absl::StrCat("asked ", ++asked, "\n"); });
  std::string read;
  while (read.find("asked 2\n") == std::string::npos) read += pipe.Read(1000);
  CHECK(asked >= 2);
}

}  // namespace warpsmith::telemetry
