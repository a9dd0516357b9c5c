// NVIDIA's Xid errors, and whose they are.
#pragma once

#include <string>

namespace warpsmith::card {

enum class XidKind {
  kCandidate,  // a program did something wrong: it dies, and the card is as before
  kMemory,     // memory gave way, and it was contained: what ran is not to be believed
  kFault,      // the card is not to be used until a person has seen to it
  kNotice,     // to be counted: it says nothing of what runs, or is not in the table
};

XidKind KindOf(int xid);
// "Xid 79: the card has fallen off the bus; restart the machine".
std::string TextOf(int xid);
// For a metric: "79", or kOtherXids for those that are not in the table.
inline constexpr char kOtherXids[] = "other";
std::string LabelOf(int xid);

}  // namespace warpsmith::card
