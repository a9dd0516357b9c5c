#include "worker/kernels/shared_banks.h"

#include <algorithm>

namespace warpsmith::kernels {

int BankPasses(const std::array<int64_t, kLanes>& addresses, int lanes, int bytes) {
  const int at_once = bytes <= kWordBytes ? kLanes : kLanes * kWordBytes / bytes;
  const int words = std::max(1, bytes / kWordBytes);
  int passes = 0;
  for (int first = 0; first < lanes; first += at_once) {
    std::array<std::array<int64_t, kLanes>, kBanks> seen;
    std::array<int, kBanks> count{};
    int most = 0;
    for (int lane = first; lane < std::min(lanes, first + at_once); ++lane) {
      for (int word = 0; word < words; ++word) {
        const int64_t at = addresses[lane] / kWordBytes + word;
        const auto bank = static_cast<int>(at % kBanks);
        auto& list = seen[bank];
        const auto end = list.begin() + count[bank];
        if (count[bank] == kLanes || std::find(list.begin(), end, at) != end) continue;
        list[count[bank]++] = at;
        most = std::max(most, count[bank]);
      }
    }
    passes += most;
  }
  return passes;
}

}  // namespace warpsmith::kernels
