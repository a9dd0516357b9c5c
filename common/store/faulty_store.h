// A store that fails on purpose: a decorator for tests, of who leads too.
//
//   FaultyStore store(&inner, [&](absl::string_view call) {
//     return call == "Commit" && random() % 10 == 0 ? Fault::kExecutedTimeout : Fault::kNone;
//   });
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "common/store/leadership.h"
#include "common/store/store.h"

namespace warpsmith::store {

enum class Fault {
  kNone,
  kUnavailable,      // not executed, answered Unavailable
  kTimeout,          // not executed, answered DeadlineExceeded
  kExecutedTimeout,  // executed, and answered DeadlineExceeded: the answer was lost
};

class FaultyStore final : public Store, public Leadership {
 public:
  // Asked before each call with the name of the method; any thread that calls the store.
  using Plan = std::function<Fault(absl::string_view call)>;

  // `inner` and `leadership`, which only a store that planners share has, must outlive this.
  FaultyStore(Store* inner, Plan plan, Leadership* leadership = nullptr)
      : inner_(inner), leadership_(leadership), plan_(std::move(plan)) {}

  absl::StatusOr<Identity> Identify() override;
  absl::Status Adopt(const Identity& identity, int64_t revision) override;
  absl::StatusOr<int64_t> Lead() override;
  absl::Status Commit(const Batch& batch) override;
  absl::StatusOr<int64_t> LastRevision() override;
  absl::StatusOr<std::vector<Record>> Read(int64_t after, size_t limit) override;
  absl::Status SaveCheckpoint(int64_t epoch, const Checkpoint& checkpoint) override;
  absl::StatusOr<int64_t> LoadCheckpoint(const std::function<void(Entry)>& take) override;
  absl::Status ReadArchive(const std::string& prefix,
                           const std::function<bool(Entry)>& take) override;
  absl::StatusOr<std::string> Put(absl::string_view bytes) override;
  absl::StatusOr<std::string> Get(const std::string& digest) override;
  absl::StatusOr<Swept> SweepBlobs(int64_t epoch, Sweep& sweep) override;
  absl::Status ReadFacts(const std::string& subject, bool bodies,
                         const std::function<bool(Facts)>& take) override;
  absl::StatusOr<FactsKept> CountFacts() override;
  // Never fails by plan.
  absl::Status Close() override { return inner_->Close(); }

  absl::StatusOr<Standing> Look() override;
  absl::StatusOr<int64_t> LeadAfter(const Standing& seen, const std::string& address) override;
  absl::Status Beat(int64_t epoch, const std::string& address) override;
  absl::Status Resign(int64_t epoch) override;

 private:
  template <typename Result, typename Call>
  Result Inject(absl::string_view name, Call call);

  Store* const inner_;
  Leadership* const leadership_;
  const Plan plan_;
};

}  // namespace warpsmith::store
