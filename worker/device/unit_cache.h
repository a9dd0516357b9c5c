// Compiles programs by their units (common/problem/units.h): a unit that was compiled before, or
// is being compiled for another program, is not compiled again.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/device/device.h"

namespace warpsmith::device {

// Thread-safe.
class UnitCache {
 public:
  using Callback = std::function<void(absl::StatusOr<Binary>)>;
  // Compiles one source and calls back once, from any thread, perhaps before it returns.
  using Compile = std::function<void(std::string source, absl::Duration limit, Callback done)>;

  // Keeps binaries of up to `most_bytes`, those that were asked for last.
  UnitCache(Compile compile, int64_t most_bytes)
      : compile_(std::move(compile)), most_bytes_(most_bytes) {}

  // All units' images joined, and their kernels; compile_ms: of those that were compiled for this
  // program alone. An error is the first unit's that has one, and is not kept. The limit is each
  // unit's.
  void Submit(const std::string& source, absl::Duration limit, Callback done);

 private:
  struct Program {
    std::vector<absl::StatusOr<Binary>> units;
    size_t missing = 0;
    Callback done;
  };
  struct Wait {  // of a program for one of its units
    std::shared_ptr<Program> program;
    size_t unit = 0;
  };
  struct Known {
    Binary binary;  // compile_ms 0
    std::list<std::string>::iterator age;
  };

  // What a unit's compilation came to, told to all who wait for it.
  void Finish(const std::string& key, absl::StatusOr<Binary> result);
  void Keep(const std::string& key, const Binary& binary);
  static absl::StatusOr<Binary> Join(const Program& program);

  const Compile compile_;
  const int64_t most_bytes_;
  std::mutex mutex_;
  std::map<std::string, Known> known_;  // by the source's digest
  std::list<std::string> by_age_;       // the latest first
  int64_t bytes_ = 0;
  std::map<std::string, std::vector<Wait>> under_way_;
};

}  // namespace warpsmith::device
