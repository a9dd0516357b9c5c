// Removes blobs that no task names any more: kernels that a better one has taken the place of. In
// walks through the store (store.h, Sweep), a step at a time, beside the planner that leads.
//
//   Collector collector(store, {.keep = absl::Hours(168), .open = ...}, metrics);
//   collector.Step(epoch, absl::Now());      // about once a second, on one thread
//
// What is named is read from the store itself, on a view of its own, before each walk: the
// checkpoint, what the log names since, and the archive. The names alone are in memory then, 32
// bytes each. A step holds commits up for milliseconds; nobody waits for the reading.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/store/store.h"
#include "planner/service/metrics.h"
#include "warpsmith/v1/task.pb.h"

namespace warpsmith::planner {

// Digests of all that a store's tasks name.
class Named {
 public:
  // Aborted: `stop` is true meanwhile. DataLoss: something cannot be read. Else the store's.
  static absl::StatusOr<Named> Read(store::Store& store, const std::atomic<bool>& stop);

  bool Has(absl::string_view digest) const;
  int64_t revision() const { return revision_; }  // by the log up to here
  size_t size() const { return digests_.size(); }

 private:
  void Add(absl::string_view digest);
  void Add(const v1::Task& task);
  absl::Status AddState(store::Store& store);

  std::vector<std::array<char, 32>> digests_;  // in order, once all are there
  int64_t revision_ = 0;
};

struct CollectorOptions {
  // After it is known that nothing names it a blob stays so long. Infinite: for good.
  absl::Duration keep = absl::InfiniteDuration();
  // Another way to the same store, for reading; null: nothing is removed.
  std::function<absl::StatusOr<std::unique_ptr<store::Store>>()> open = nullptr;
};

class Collector {
 public:
  // `store`, and `metrics` unless it is null, outlive this.
  Collector(store::Store* store, CollectorOptions options, PlannerMetrics* metrics)
      : store_(store), options_(std::move(options)), metrics_(metrics) {}

  // What is due, if anything is: the beginning of a walk, or a step of it. `epoch`: in which the
  // planner leads. What fails is said, and tried again with the next walk.
  void Step(int64_t epoch, absl::Time now);
  // Any thread: Step, under way or later, does no more.
  void Stop() { stop_ = true; }

 private:
  absl::Status Begin();
  absl::Status Go(int64_t epoch, absl::Time now);
  void End(absl::Time now);
  absl::Duration Pause() const;  // between walks

  store::Store* const store_;
  const CollectorOptions options_;
  PlannerMetrics* const metrics_;
  std::atomic<bool> stop_{false};
  absl::Time next_ = absl::InfinitePast();  // walk; in the past: not known yet
  bool walks_ = false;
  store::Sweep sweep_;
  store::Swept all_;  // of the walk so far
};

}  // namespace warpsmith::planner
