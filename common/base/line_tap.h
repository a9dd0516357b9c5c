// Lines that child processes write, for whoever is to hear them.
//
//   LineTap said([](const std::string& line) { ... });
//   // started with said.fd() as its standard error, a child is heard from
//
// Of any number of children, one after the other or at once; a line that is longer than kMaxTapLine
// comes in parts. Thread-safe.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <thread>

namespace warpsmith::base {

inline constexpr size_t kMaxTapLine = 4096;

class LineTap {
 public:
  // `on_line` gets each that is not empty, without its end, on a thread of the tap. Without
  // descriptors nothing is heard, and fd() is this process's standard error.
  explicit LineTap(std::function<void(const std::string&)> on_line);
  // What was written is heard; what children write from here on is not.
  ~LineTap();
  LineTap(const LineTap&) = delete;
  LineTap& operator=(const LineTap&) = delete;

  // Closed by exec: to be duplicated.
  int fd() const { return write_; }

 private:
  void Run();

  const std::function<void(const std::string&)> on_line_;
  int read_ = -1, write_;
  std::thread thread_;
};

}  // namespace warpsmith::base
