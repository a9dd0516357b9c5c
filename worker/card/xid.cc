#include "worker/card/xid.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"

namespace warpsmith::card {
namespace {

using enum XidKind;

constexpr char kResetCard[] = "reset the card";
constexpr char kRestartMachine[] = "restart the machine";
constexpr char kLookAtPower[] = "look at its power cables, then reset the card";
constexpr char kNothing[] = "";

struct Row {
  int xid;
  XidKind kind;
  const char* what;
  const char* advice;
};
// What to do at once, by NVIDIA's catalogue for Ampere and later
// (docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html): "restart the application" is the
// candidate's, what wants a reset of the card or the machine is the card's.
constexpr Row kRows[] = {
    {8, kCandidate, "a channel stood still", kNothing},
    {11, kCandidate, "a broken push buffer", kNothing},
    {13, kCandidate, "an exception of the compute engine", kNothing},
    {31, kCandidate, "a fault of its memory management", kNothing},
    {32, kCandidate, "a broken push buffer", kNothing},
    {43, kCandidate, "a channel was stopped", kNothing},
    {45, kCandidate, "a channel was cleaned up", kNothing},
    {46, kFault, "the card stopped processing", kResetCard},
    {48, kFault, "an uncorrectable error of its memory", kResetCard},
    {54, kFault, "it has not the power that it needs", kLookAtPower},
    {61, kFault, "its microcontroller failed", kResetCard},
    {62, kFault, "its microcontroller halted", kResetCard},
    {63, kNotice, "a row of its memory is marked to be replaced", kNothing},
    {64, kFault, "a row of its memory could not be replaced", kResetCard},
    {69, kCandidate, "an error of the compute class", kNothing},
    {74, kFault, "a link to other cards failed", kResetCard},
    {79, kFault, "the card has fallen off the bus", kRestartMachine},
    {92, kNotice, "many errors of its memory that were corrected", kNothing},
    {94, kMemory, "an uncorrectable error of its memory, contained", kNothing},
    {95, kFault, "an uncorrectable error of its memory, not contained", kResetCard},
    {109, kFault, "a change of contexts took too long", kResetCard},
    {110, kFault, "a security fault", kResetCard},
    {119, kFault, "its system processor does not answer", kResetCard},
    {120, kFault, "its system processor failed", kResetCard},
    {136, kFault, "a link's training failed", kResetCard},
    {140, kFault, "an unrecovered error of its memory", kResetCard},
    {143, kFault, "it could not be initialised", kResetCard},
};

const Row* Find(int xid) {
  const auto* row = std::find_if(std::begin(kRows), std::end(kRows),
                                 [xid](const Row& one) { return one.xid == xid; });
  return row == std::end(kRows) ? nullptr : row;
}

}  // namespace

XidKind KindOf(int xid) {
  const Row* row = Find(xid);
  return row == nullptr ? kNotice : row->kind;
}

std::string TextOf(int xid) {
  const Row* row = Find(xid);
  if (row == nullptr) return absl::StrCat("Xid ", xid);
  return absl::StrCat("Xid ", xid, ": ", row->what, *row->advice == '\0' ? "" : "; ", row->advice);
}

std::string LabelOf(int xid) { return Find(xid) == nullptr ? kOtherXids : absl::StrCat(xid); }

}  // namespace warpsmith::card
