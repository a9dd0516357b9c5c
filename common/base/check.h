// WS_CHECK: stops the program at a bug of our own. What the world can cause is an absl::Status.
//
//   WS_CHECK(index < size(), "index " + std::to_string(index) + " is past the end");
//
// The message is only evaluated where the condition is false. It stays on in release builds.
#pragma once

#include <string_view>

namespace warpsmith::base {

// Prints "file:line: check failed: condition: message" on stderr and aborts.
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition,
                              std::string_view message);

}  // namespace warpsmith::base

#define WS_CHECK(condition, message)                                             \
  do {                                                                           \
    if (!(condition)) {                                                          \
      ::warpsmith::base::CheckFailed(__FILE__, __LINE__, #condition, (message)); \
    }                                                                            \
  } while (false)
