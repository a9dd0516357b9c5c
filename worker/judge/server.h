// The judge's side of its protocol (proto/warpsmith/v1/judge.proto).
#pragma once

#include "worker/judge/channel.h"
#include "worker/judge/judge.h"

namespace warpsmith::judge {

// How the process ends when a candidate has made the device unusable: after the reply where one can
// still be given. What a device does that goes on without replying dies of is its signal.
inline constexpr int kExitHang = 40;
inline constexpr int kExitOutOfBounds = 41;
inline constexpr int kExitCrashed = 42;
inline constexpr int kExitDeviceLost = 43;  // not known to be the candidate's fault

// Answers requests until the other side goes away (0) or the device is unusable (one of the above).
int Serve(Channel& channel, Judge& judge);

// Ends the process as soon as the other side of `fd` is gone, even while a kernel hangs: a thread
// of its own that takes no signals. Call once.
void ExitWithParent(int fd);

}  // namespace warpsmith::judge
