// How shared memory serves the lanes of a warp. Pure.
#pragma once

#include <array>
#include <cstdint>

namespace warpsmith::kernels {

inline constexpr int kBanks = 32;
inline constexpr int kWordBytes = 4;  // of a bank
inline constexpr int kLanes = 32;     // of a warp

// Passes of shared memory for one access of a warp, its first `lanes` lanes at `addresses` (bytes,
// multiples of the access): lanes that want different words of one bank wait for each other.
// Accesses of 8 and 16 bytes are made by half and quarter warps.
int BankPasses(const std::array<int32_t, kLanes>& addresses, int lanes, int bytes);

}  // namespace warpsmith::kernels
