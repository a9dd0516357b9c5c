// What the cases of warpsmith-device-check work with.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/device/device.h"
#include "worker/device/plan_builder.h"

namespace warpsmith::device {

inline constexpr absl::Duration kRunLimit = absl::Seconds(5);
inline constexpr absl::Duration kCompileLimit = absl::Seconds(30);

struct Options {
  std::string device = "cuda:0", nvrtc, cache = "/tmp/warpsmith-device-check", only;
};

// What a case works with. A case returns what it found, for people, or why it failed.
struct Bench {
  std::unique_ptr<Device> device;
  std::unique_ptr<Compiler> compiler;
  Options options;
};
using Result = absl::StatusOr<std::string>;

absl::Status Expect(bool condition, absl::string_view what);

#define RETURN_IF_ERROR(expression)            \
  do {                                         \
    const absl::Status status_ = (expression); \
    if (!status_.ok()) return status_;         \
  } while (false)

// A plan with memory, loaded and bound.
struct Loaded {
  Device* device = nullptr;
  std::vector<std::unique_ptr<Memory>> memory;
  std::unique_ptr<Program> program;

  absl::Status Bind() {
    std::vector<Memory*> buffers;
    for (auto& m : memory) buffers.push_back(m.get());
    return program->Bind(buffers);
  }
  absl::Status Run(absl::Duration limit = kRunLimit) { return device->Run(*program, limit); }
  absl::StatusOr<std::vector<int>> Ints(int buffer) {
    std::vector<int> values(memory[buffer]->bytes() / 4);
    RETURN_IF_ERROR(device->Read(*memory[buffer], values.data(), values.size() * 4));
    return values;
  }
};

absl::StatusOr<Loaded> Load(Bench& bench, const v1::Plan& plan);

// Kernels: write(y, first, n) writes 0, 1, ... from y[first] on; read(x, y) copies what its threads
// reach; spin(y) waits until y[0] is not zero.
extern const char kWrite[];
// One launch of `write` on a buffer of so many integers.
PlanBuilder WritePlan(int64_t buffer_ints, int64_t first, int64_t n);

}  // namespace warpsmith::device
