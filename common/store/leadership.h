// Who of several planners on one store leads: what they tell each other through it.
//
// The leader moves a counter. Whoever has not seen it move for long enough, by a clock of its own,
// takes over by raising the epoch, which every write is checked against: two that believe to lead
// do no harm, since the store takes the later one's writes alone.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace warpsmith::store {

struct Standing {
  int64_t epoch = 0;   // 0: nobody has led yet
  int64_t beat = 0;    // moved by the leader of that epoch
  std::string leader;  // where it is to be reached; "": nobody leads
  // The log's end, the checkpoint's revision, and the store's token (TokenOf).
  int64_t last = 0;
  int64_t checkpoint = 0;
  std::string token;
};

// Any thread. Errors as of Store; DataLoss: the log ends before what it has answered for.
class Leadership {
 public:
  virtual ~Leadership() = default;

  virtual absl::StatusOr<Standing> Look() = 0;
  // Becomes the writer: returns the new epoch. IsStaleEpoch: its epoch and beat are not as they
  // were seen: another one leads, or the same one goes on.
  virtual absl::StatusOr<int64_t> LeadAfter(const Standing& seen, const std::string& address) = 0;
  // Moves the counter. IsStaleEpoch: another one leads.
  virtual absl::Status Beat(int64_t epoch, const std::string& address) = 0;
  // The counter is to move no more, in good order: the next one need not wait. IsStaleEpoch as
  // above.
  virtual absl::Status Resign(int64_t epoch) = 0;
};

}  // namespace warpsmith::store
