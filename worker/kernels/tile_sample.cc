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

namespace {

// Of shared memory, where the axes of `at` have these places in bytes; in vectors of the processor.
Lanes AddressesOf(const Lanes* __restrict at, const std::array<int32_t, kMaxTileRank + 1>& places,
                  int axes) {
  Lanes addresses{};
  for (int d = 0; d < axes; ++d) {
    for (int lane = 0; lane < kLanes; ++lane) addresses[lane] += at[d][lane] * places[d];
  }
  return addresses;
}

}  // namespace

int64_t LaneSample::Passes(const TileStreamChoice& stream, int bytes, int together, size_t step,
                           int64_t enough) const {
  std::array<int32_t, kMaxTileRank + 1> places{};
  for (int d = 0; d < rank_; ++d) places[d] = static_cast<int32_t>(stream.place[d] * bytes);
  places[rank_] = bytes;  // within words
  const int axes = pack_ > 1 ? rank_ + 1 : rank_;
  int64_t passes = 0;
  for (size_t access = 0; access < lanes_.size() && passes < enough; access += step) {
    passes += BankPasses(AddressesOf(&at_[access * (rank_ + 1)], places, axes), lanes_[access],
                         together * bytes);
  }
  return passes;
}

}  // namespace warpsmith::kernels
