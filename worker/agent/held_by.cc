#include "worker/agent/held_by.h"

#include <algorithm>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "worker/agent/moves.h"
#include "worker/agent/record.h"

namespace warpsmith::agent {
namespace {

using absl::StrCat;
using absl::StrFormat;

// Part of a plan's time that as many empty kernels would take, from which on launching holds it.
constexpr double kMuchLaunching = 0.4;
// A unit that does so much of what it could is what holds the kernel.
constexpr double kBusy = 0.7;
constexpr double kBusyPipe = 0.5;  // of instructions of one kind
// More than its tensors' bytes by so much is traffic that need not be.
constexpr double kMuchTraffic = 1.3;
constexpr double kFewWaves = 0.9;
constexpr double kFewWarps = 0.3;
constexpr double kManyConflicts = 0.3;
constexpr int64_t kWideAccess = 16;  // bytes
constexpr int kSpills = 16;          // bytes of a thread

// The kernel that takes most of a plan's time, and what is known of it.
struct Kernel {
  std::string name;
  double us = 0;
  double share = 1;  // of all kernels' time
  const v1::Counters* counters = nullptr;
  v1::GroupFeatures features;  // of its group
  double group_bytes = 0;      // that the group has to move
  int spill_bytes = 0;
  bool by_library = false;
};

std::vector<const v1::Profile::Kernel*> KernelsOf(const v1::Profile& profile, int workload) {
  std::vector<const v1::Profile::Kernel*> kernels;
  for (const auto& kernel : profile.kernels()) {
    if (kernel.workload() == workload) kernels.push_back(&kernel);
  }
  return kernels;
}

std::string Percent(double share) { return StrFormat("%.0f %%", 100 * share); }

// Launching, or an empty text.
std::string ByLaunching(const State& state, double time_us, size_t kernels) {
  const double launch_us = state.target.launch_seconds * 1e6;
  const std::string empty = StrFormat("where an empty one takes about %.1f us", launch_us);
  if (kernels == 1 && time_us < 2 * launch_us) {
    return StrFormat("launch: one kernel of %.1f us, %s", time_us, empty);
  }
  if (kernels < 2 || static_cast<double>(kernels) * launch_us < kMuchLaunching * time_us) return "";
  return StrFormat("launches: %d kernels in %.1f us, %s", static_cast<int>(kernels), time_us,
                   empty);
}

Kernel Longest(const State& state, double time_us,
               const std::vector<const v1::Profile::Kernel*>& kernels) {
  Kernel longest;
  longest.us = time_us;
  int group = LargestGroup(state);
  const v1::Profile::Kernel* chosen = nullptr;
  double all_us = 0;
  for (const auto* kernel : kernels) {
    all_us += kernel->us();
    if (chosen == nullptr || kernel->us() > chosen->us()) chosen = kernel;
  }
  if (chosen != nullptr) {
    longest.name = chosen->entry();
    longest.us = chosen->us();
    longest.share = all_us > 0 ? longest.us / all_us : 1;
    if (chosen->has_counters()) longest.counters = &chosen->counters();
    if (const int g = GroupOfEntry(state, chosen->entry()); g >= 0) {
      group = g;
      longest.name = GroupName(state.schedule.groups(g));
      if (absl::EndsWith(chosen->entry(), "_combine")) longest.name += " (combine)";
      // Of such a group no kernel of ours is called so, whatever its root's name.
      longest.by_library = state.groups[g].resolved.contract().math() == v1::PRODUCT_LIBRARY &&
                           absl::EndsWith(chosen->entry(), "_product");
    }
    for (const auto& kernel : state.report.kernels()) {
      if (kernel.entry() == chosen->entry()) longest.spill_bytes = kernel.spill_bytes();
    }
  }
  if (group >= 0) {
    longest.features = FeaturesOf(state, group);
    const auto& info = state.groups[group];
    longest.group_bytes = static_cast<double>(info.bytes_read + info.bytes_written);
  }
  return longest;
}

std::string Waves(const Kernel& kernel) {
  return StrFormat("latency: %.2g waves of blocks", kernel.features.waves());
}

std::string FewWarps(const Kernel& kernel, double share) {
  const v1::GroupFeatures& f = kernel.features;
  const char* const by = f.register_share() >= f.shared_share() ? "registers" : "shared memory";
  return StrFormat(
      "latency: %s of the warps that an SM could hold, by %s (%.0f registers a thread, "
      "%.0f bytes of shared memory a block of %.0f threads)",
      Percent(share), by, f.registers(), f.shared_bytes(), f.threads());
}

std::string Accesses(const Kernel& kernel) {
  return StrFormat("reads %.0f bytes a thread at once%s", kernel.features.access_bytes(),
                   kernel.features.aligned() ? "" : ", rows begin where wide accesses may not");
}

// The part of the kernel's time that its operations would take at a unit's peak.
struct Unit {
  const char* name;
  double share;
};

std::string BusiestUnit(const std::vector<Unit>& units, double limit) {
  const auto busiest = std::max_element(
      units.begin(), units.end(), [](const Unit& a, const Unit& b) { return a.share < b.share; });
  if (busiest->share < limit) return "";
  return StrCat("compute: ", busiest->name, " at ", Percent(busiest->share));
}

std::string ByCounters(const Kernel& kernel) {
  const v1::Counters& c = *kernel.counters;
  const double moved = c.dram_read_bytes() + c.dram_written_bytes();
  const double traffic = kernel.group_bytes > 0 ? moved / kernel.group_bytes : 1;
  if (c.dram_throughput() >= kBusy) {
    return traffic > kMuchTraffic
               ? StrFormat("memory: moves %.1f times the bytes that it has to", traffic)
               : StrCat("memory: at ", Percent(c.dram_throughput()), " of its bandwidth");
  }
  const std::string unit = BusiestUnit({{"fp64 pipe", c.fp64_active()},
                                        {"special function unit", c.special_active()},
                                        {"tensor cores", c.tensor_active()}},
                                       kBusyPipe);
  if (!unit.empty()) return unit;
  if (c.issue_active() >= kBusy) {
    return StrCat("instructions: schedulers issue in ", Percent(c.issue_active()),
                  " of the cycles");
  }
  if (c.lsu_throughput() >= kBusyPipe && c.bank_conflicts() >= kManyConflicts) {
    return StrCat("shared memory: conflicts are ", Percent(c.bank_conflicts()),
                  " of its wavefronts");
  }
  if (c.lsu_throughput() >= kBusy) {
    return StrCat("load/store unit at ", Percent(c.lsu_throughput()), ": ", Accesses(kernel));
  }
  if (kernel.features.waves() > 0 && kernel.features.waves() < kFewWaves) {
    return StrCat(Waves(kernel), ", SMs are active in ", Percent(c.sm_active()), " of the cycles");
  }
  if (c.warps_active() < kFewWarps) return FewWarps(kernel, c.warps_active());
  if (traffic > kMuchTraffic) {
    return StrFormat("memory: moves %.1f times the bytes that it has to", traffic);
  }
  return StrFormat("latency: no unit is busy (DRAM %s, load/store %s, issue %s, warps %s)",
                   Percent(c.dram_throughput()), Percent(c.lsu_throughput()),
                   Percent(c.issue_active()), Percent(c.warps_active()));
}

// Without counters: what is known before anything runs, against the time that it took.
std::string ByFeatures(const Kernel& kernel) {
  const v1::GroupFeatures& f = kernel.features;
  const std::string unit = BusiestUnit(
      {{"fp64", f.fp64_us() / kernel.us},
       {"special functions", f.special_us() / kernel.us},
       {f.skeleton() == "contract" ? "products" : "fp32", f.arithmetic_us() / kernel.us}},
      kBusyPipe);
  if (!unit.empty()) return StrCat(unit, " of its rate");
  if (f.memory_us() >= kBusy * kernel.us) {
    return StrCat("memory: its bytes take ", Percent(f.memory_us() / kernel.us), " of the time");
  }
  if (kernel.by_library) {
    return StrFormat("a library's product: its bytes take %.1f of %.1f us", f.memory_us(),
                     kernel.us);
  }
  if (f.waves() > 0 && f.waves() < kFewWaves) return Waves(kernel);
  if (f.passes() > 1 && f.kept() < 1) {
    return StrFormat("memory: %.0f passes over its rows, %s of them kept on chip", f.passes(),
                     Percent(f.kept()));
  }
  if (f.access_bytes() > 0 && (f.access_bytes() < kWideAccess || !f.aligned())) {
    return StrCat("memory: ", Accesses(kernel));
  }
  if (f.occupancy() > 0 && f.occupancy() < kFewWarps) return FewWarps(kernel, f.occupancy());
  return StrFormat("not known: its bytes take %.1f of %.1f us, %.2g waves of blocks", f.memory_us(),
                   kernel.us, f.waves());
}

}  // namespace

std::string HeldBy(const State& state, double time_us, const v1::Profile& profile, int workload) {
  if (time_us <= 0) return "";
  const auto kernels = KernelsOf(profile, workload);
  if (const std::string launching = ByLaunching(state, time_us, kernels.size());
      !launching.empty()) {
    return launching;
  }
  const Kernel kernel = Longest(state, time_us, kernels);
  const std::string where =
      kernel.name.empty() || kernels.size() < 2
          ? ""
          : StrCat("kernel ", kernel.name, " (", Percent(kernel.share), " of the time): ");
  if (kernel.spill_bytes >= kSpills) {
    return StrCat(where, "spills: ", kernel.spill_bytes, " bytes of registers a thread in memory");
  }
  return StrCat(where, kernel.counters != nullptr ? ByCounters(kernel) : ByFeatures(kernel));
}

}  // namespace warpsmith::agent
