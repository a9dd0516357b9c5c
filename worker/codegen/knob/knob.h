// The table of knobs: a row for each field of a skeleton's message (and of the precision's), made
// from the options in schedule.proto. Checks of a schedule, the specialists' moves, and the
// features that trials record read it; nothing else says which knobs there are.
//
//   for (const KnobRow& row : KnobsOf(group.skeleton_case())) {
//     if (row.owner == v1::MEMORY) ... ValueOf(group, row) ...
//   }
//
// Pure; the table is made once and never changes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "google/protobuf/descriptor.h"
#include "warpsmith/v1/schedule.pb.h"

namespace warpsmith::codegen {

using SkeletonCase = v1::Group::SkeletonCase;

struct KnobRow {
  const google::protobuf::FieldDescriptor* field = nullptr;
  bool precision = false;  // of PrecisionKnobs, else of the skeleton's message
  std::string name;        // "block_threads"
  v1::Specialist owner = v1::SPECIALIST_UNSPECIFIED;
  v1::Knob::Scale scale = v1::Knob::CHOICE;
  int64_t low = 0, high = 0;  // of what is set; CHOICE: the least and the largest number there is
};

// The rows of a skeleton in the order of its fields, then those of the precision.
const std::vector<KnobRow>& KnobsOf(SkeletonCase skeleton);
// Every skeleton that there is a message for, in the order of the fields.
const std::vector<SkeletonCase>& SkeletonCases();
// "rows"; "auto" where none is set.
std::string NameOf(SkeletonCase skeleton);

// The knob's value as a number; 0 where the group leaves it open. The group has the row's skeleton.
int64_t ValueOf(const v1::Group& group, const KnobRow& row);
// 0 leaves it open.
void SetValue(v1::Group& group, const KnobRow& row, int64_t value);
// Makes it a group of that skeleton with every knob open, unless it is one.
void SetSkeleton(v1::Group& group, SkeletonCase skeleton);
// Everything that the knob may be set to, ascending; at most a few dozen (LINEAR: neighbours of
// `around` and powers of two).
std::vector<int64_t> ValuesOf(const KnobRow& row, int64_t around);
// As people read it: "16", "yes", "streaming".
std::string TextOf(const KnobRow& row, int64_t value);

// InvalidArgument names the first knob that is neither open nor among its values: "group 'y':
// rows.block_threads is 100; it must be a multiple of 32 from 32 to 1024".
absl::Status CheckRanges(const std::string& name, const v1::Group& group);

// Collects the first thing that is wrong with a group's knobs.
class Checker {
 public:
  explicit Checker(std::string group) : group_(std::move(group)) {}
  void Range(const char* knob, int64_t value, int64_t low, int64_t high);
  void That(bool holds, const std::string& message);
  const absl::Status& status() const { return status_; }

 private:
  std::string group_;
  absl::Status status_;
};

int64_t CeilDiv(int64_t a, int64_t b);
int64_t PowerOfTwoAtLeast(int64_t n);
bool IsPowerOfTwo(int64_t n);

}  // namespace warpsmith::codegen
