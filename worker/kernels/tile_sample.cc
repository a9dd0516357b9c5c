#include "worker/kernels/tile_sample.h"

namespace warpsmith::kernels {

void LaneSample::Add(const std::array<BoxPlace, kLanes>& at, int lanes) {
  lanes_.push_back(lanes);
  const size_t first = at_.size(), last = first + rank_ - 1;
  at_.resize(last + 2);
  for (int lane = 0; lane < lanes; ++lane) {
    for (int d = 0; d < rank_; ++d) at_[first + d][lane] = at[lane][d];
    at_[last + 1][lane] = at_[last][lane] % pack_;
    at_[last][lane] /= pack_;
  }
}

int64_t LaneSample::Passes(const TileStreamChoice& stream, int bytes, int together,
                           size_t step) const {
  int64_t passes = 0;
  for (size_t access = 0; access < lanes_.size(); access += step) {
    const Lanes* at = &at_[access * (rank_ + 1)];
    Lanes addresses = at[rank_];
    for (int d = 0; d < rank_; ++d) {
      const auto place = static_cast<int32_t>(stream.place[d]);
      for (int lane = 0; lane < kLanes; ++lane) addresses[lane] += at[d][lane] * place;
    }
    for (int32_t& address : addresses) address *= bytes;
    passes += BankPasses(addresses, lanes_[access], together * bytes);
  }
  return passes;
}

}  // namespace warpsmith::kernels
