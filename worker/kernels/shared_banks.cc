#include "worker/kernels/shared_banks.h"

#include <algorithm>
#include <bit>

namespace warpsmith::kernels {

int BankPasses(const std::array<int32_t, kLanes>& addresses, int lanes, int bytes) {
  // Accesses of several words want as many banks together.
  const auto width = static_cast<uint32_t>(std::max(kWordBytes, bytes));
  const uint32_t groups = kBanks * kWordBytes / width;
  const int shift = std::countr_zero(width);
  const int at_once = static_cast<int>(groups) * kLanes / kBanks;
  int passes = 0;
  for (int first = 0; first < lanes; first += at_once) {
    std::array<std::array<uint32_t, kBanks>, kLanes> seen;  // by how many the bank had before
    std::array<int, kBanks> count{};
    int most = 0;
    for (int lane = first; lane < std::min(lanes, first + at_once); ++lane) {
      const uint32_t at = static_cast<uint32_t>(addresses[lane]) >> shift, bank = at & (groups - 1);
      int known = 0;
      while (known < count[bank] && seen[known][bank] != at) ++known;
      if (known < count[bank]) continue;
      seen[known][bank] = at;
      most = std::max(most, ++count[bank]);
    }
    passes += most;
  }
  return passes;
}

}  // namespace warpsmith::kernels
