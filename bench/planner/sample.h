// What simulated workers tell: trials and incumbents of a real run, and requests made of them.
//
//   auto sample = *Sample::Read({"softmax.json"}, 50'000);   // as `warpsmith show TASK -o json`
//   std::string request = head.SerializeAsString();
//   sample.AppendResult({lease_id, task_id, fence}, 40, true, 1.5, numbers, request);
//
// Requests are put together as bytes: a trial is a recorded one under a new id, task and source.
// A client that built and serialised them as messages would take more of the processor than the
// planner that it measures.
//
// After Read: const, any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "warpsmith/v1/planner.pb.h"

namespace warpsmith::bench {

// Of a lease, what its results carry.
struct LeaseKey {
  std::string lease_id;
  std::string task_id;
  int64_t fence = 0;
};

class Sample {
 public:
  // `paths`: files that `warpsmith show TASK -o json` printed, of tasks with trials and an
  // incumbent. `cubin_bytes`: that each incumbent carries beside what it has (those of the host
  // device have none). InvalidArgument names the file.
  static absl::StatusOr<Sample> Read(const std::vector<std::string>& paths, int64_t cubin_bytes);

  // Appends a LeaseResult to the bytes of a SynchronizeRequest: `trials` trials, numbered on from
  // `first_trial`, and, if `speedup` is positive, an incumbent of that speedup. Gives its trial id.
  std::string AppendResult(const LeaseKey& lease, int64_t first_trial, int trials, double speedup,
                           std::string& request) const;

  // An incumbent as bytes; equal arguments give equal bytes.
  std::string IncumbentBytes(const std::string& trial_id, double speedup) const;
  // As a worker seals them.
  v1::SealedTrials Sealed(const LeaseKey& lease, int64_t first_trial, int trials) const;

  int64_t MeanTrialBytes() const;
  // Of a batch of `trials` as it is sealed.
  double SealedBytesPerTrial(int trials) const;
  int64_t MeanIncumbentBytes() const;

 private:
  // Serialised without what AppendResult adds.
  std::vector<std::string> trials_;
  std::vector<std::string> incumbents_;
};

// What a client needs of a SynchronizeReply: problems, incumbents and digests of leases are
// skipped, unread. False: not a reply.
bool ReadReply(std::string_view bytes, v1::SynchronizeReply& reply);

}  // namespace warpsmith::bench
