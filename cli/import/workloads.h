// One text for the graphs of several workloads.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/graph/graph.h"

namespace warpsmith::import {

// A graph as text, and what to call its numbers.
struct WorkloadText {
  std::string workload;  // its name
  graph::Dims dims;      // a number is called by a dimension that has it in every workload
  std::vector<std::string> lines;  // with numbers alone
};

// The text that under dims[i] is texts[i].lines, where the texts differ in nothing but whole
// numbers that are not negative. What no dimension of theirs explains is called N0, N1, ...; of the
// dimensions those that the text uses are kept. InvalidArgument, with the line, where they differ
// in more.
struct MergedText {
  std::vector<std::string> lines;
  std::vector<graph::Dims> dims;  // one for each text
};
absl::StatusOr<MergedText> MergeTexts(const std::vector<WorkloadText>& texts);

}  // namespace warpsmith::import
