// Trials for people: what was tried, with which probability, what it gave, and where those that
// were accepted spend their time. docs/reference/trials.md has the fields for programs.
#pragma once

#include <string>

#include "warpsmith/v1/trial.pb.h"

namespace warpsmith::cli {

// A line for each trial, in order.
std::string TrialsTable(const v1::TrialBatch& trials);
// A line for each lease that they are of: whose it was, the event that granted it, and why.
std::string LeasesTable(const v1::TrialBatch& trials);

// A line for each kernel, then why counters are missing where they are. Empty without kernels.
std::string KernelsTable(const v1::Profile& profile);

}  // namespace warpsmith::cli
