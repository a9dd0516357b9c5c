// Whose the processes on a card are.
#pragma once

#include <string>
#include <vector>

#include "worker/device/nvml.h"

namespace warpsmith::card {

// Whether processes are known here by the numbers that the driver gives them: not within a
// container that has numbers of its own.
bool SeesProcesses();

// Of `processes`, those that live and were started neither by process `own` nor by what that
// started. Where they are not seen there is no telling them apart.
std::vector<int> StrangersOf(const std::vector<int>& processes, int own);

// Who else may use the card of worker `own`, which has not touched it yet: who has the rest of it
// (MIG), who shares a server with it (`served`: MPS), processes. Empty: nobody. `sees`:
// SeesProcesses().
std::string SharedWith(const device::CardReading& reading, bool served, int own, bool sees);

}  // namespace warpsmith::card
