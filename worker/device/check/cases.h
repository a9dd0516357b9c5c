// The cases of warpsmith-device-check: each shows one thing that device.h says, and may leave the
// device unusable.
#pragma once

#include "worker/device/check/bench.h"

namespace warpsmith::device {

// memory.cc
Result MapFillCopy(Bench& bench);
Result GuardBands(Bench& bench);
Result Moves(Bench& bench);
Result Overrun(Bench& bench);
Result ReadOfUnmapped(Bench& bench);
Result Foreign(Bench& bench);
// The other process of Foreign: its exit status.
int OwnMemory(const Options& options);

// time.cc
Result Hang(Bench& bench);
Result Timing(Bench& bench);
Result Counting(Bench& bench);
Result KeptLines(Bench& bench);

// launch.cc
Result BigSharedMemory(Bench& bench);
Result Cooperative(Bench& bench);
Result Clusters(Bench& bench);
Result TensorMaps(Bench& bench);
Result Windows(Bench& bench);
Result Programmatic(Bench& bench);
Result Lanes(Bench& bench);
Result Refusals(Bench& bench);
Result Headers(Bench& bench);

}  // namespace warpsmith::device
