// What a verdict says about a candidate.
#pragma once

#include "warpsmith/v1/trial.pb.h"

namespace warpsmith::problem {

// A verdict on a source, that counts as one judged: not a duplicate, not one that never ran or that
// we failed to judge.
inline bool IsJudged(v1::Verdict verdict) {
  switch (verdict) {
    case v1::VERDICT_UNSPECIFIED:
    case v1::NOT_LOWERED:
    case v1::NOT_COMPILED:
    case v1::DUPLICATE:
    case v1::JUDGE_FAILED:
      return false;
    default:
      return true;
  }
}

// Whether the source need not be tried again.
inline bool IsKnown(v1::Verdict verdict) {
  return IsJudged(verdict) || verdict == v1::NOT_COMPILED;
}

}  // namespace warpsmith::problem
