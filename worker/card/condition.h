// What a card's errors and readings say of it: whether its worker may go on. Pure.
//
//   Condition condition(/*alone=*/true);
//   condition.Take(reading, strangers);       // about every second
//   condition.TakeXid(79);
//   daemon.SetHealth(condition.health());
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "worker/daemon/session.h"
#include "worker/device/nvml.h"

namespace warpsmith::card {

// So often memory may give way before the card is at fault.
inline constexpr int kMaxDoubts = 3;

class Condition {
 public:
  // `alone`: others on the card make its worker sick while they are there. `note`: what a worker
  // that is healthy has to say besides.
  explicit Condition(bool alone, std::string note = "") : alone_(alone), note_(std::move(note)) {}

  // Each gives why what the card did just now is not to be believed; empty: nothing speaks against
  // it. `strangers`: processes of others that have a context on the card.
  std::string Take(const device::CardReading& reading, const std::vector<int>& strangers);
  std::string TakeXid(int xid);

  daemon::Health health() const;

 private:
  void Fail(const std::string& fault);
  // What gives way again and again is no accident.
  std::string Doubt(const std::string& why);

  const bool alone_;
  const std::string note_;
  std::string fault_;  // the first; it stays
  int doubts_ = 0;
  std::optional<int64_t> errors_;  // of the last reading
  bool remap_pending_ = false;
  std::vector<int> strangers_, seen_;  // those of two readings; of the last
};

}  // namespace warpsmith::card
