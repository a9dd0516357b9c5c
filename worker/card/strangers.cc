#include "worker/card/strangers.h"

#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/base/file.h"

namespace warpsmith::card {
namespace {

// Of the first namespace, in every Linux (PROC_PID_INIT_INO).
constexpr char kFirstNamespace[] = "pid:[4026531836]";
constexpr int kMostForefathers = 1000;

// Absent: there is no such process.
std::optional<int> ParentOf(int pid) {
  const auto status = base::ReadFile(absl::StrCat("/proc/", pid, "/status"));
  if (!status.ok()) return std::nullopt;
  for (const absl::string_view line : absl::StrSplit(*status, '\n')) {
    int parent = 0;
    if (absl::StartsWith(line, "PPid:") && absl::SimpleAtoi(line.substr(5), &parent)) return parent;
  }
  return std::nullopt;
}

}  // namespace

bool SeesProcesses() {
  char name[64] = {};
  return readlink("/proc/self/ns/pid", name, sizeof name - 1) > 0 &&
         absl::string_view(name) == kFirstNamespace;
}

std::vector<int> StrangersOf(const std::vector<int>& processes, int own) {
  std::vector<int> strangers;
  std::copy_if(processes.begin(), processes.end(), std::back_inserter(strangers), [own](int pid) {
    std::optional<int> ancestor = pid;
    for (int i = 0; i < kMostForefathers && ancestor.has_value() && *ancestor > 0; ++i) {
      if (*ancestor == own) return false;
      ancestor = ParentOf(*ancestor);
    }
    return ancestor.has_value();  // else it has ended meanwhile
  });
  return strangers;
}

std::string SharedWith(const device::CardReading& reading, bool served, int own, bool sees) {
  if (reading.sliced) return "it is a slice of one (MIG)";
  if (served) return "its contexts are those of a server that others share (MPS)";
  const std::vector<int> others = sees ? StrangersOf(reading.processes, own) : reading.processes;
  if (others.empty()) return "";
  return absl::StrCat("process ", absl::StrJoin(others, ", "), " uses it, too");
}

}  // namespace warpsmith::card
