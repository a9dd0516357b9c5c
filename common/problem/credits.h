// Who made a task faster: each accepted trial's gain, credited to its specialist and action.
//
// A gain is the incumbent's time over the candidate's, both measured interleaved in one round. The
// first accepted plan has no incumbent before it: it is the opening, with a gain of 1. The product
// of all gains is how much faster the incumbent is than the first plan, up to the noise of the
// rounds.
#pragma once

#include <string>
#include <vector>

#include "warpsmith/v1/trial.pb.h"

namespace warpsmith::problem {

struct Credit {
  std::string trial_id;
  std::string specialist;
  std::string action;
  double gain = 1;
  double us = 0;       // median after it
  int trial = 0;       // which of them it is, from 1 on
  double seconds = 0;  // of all trials up to it
};

// What a specialist did in all.
struct Share {
  std::string specialist;
  int trials = 0;
  int judged = 0;  // with a verdict on the device
  int accepted = 0;
  double gain = 1;  // product
  double seconds = 0;
};

struct Credits {
  std::vector<Credit> accepted;  // in order
  std::vector<Share> shares;     // largest gain first
  double gain = 1;               // product of all
};

Credits CreditsOf(const v1::TrialBatch& trials);

}  // namespace warpsmith::problem
