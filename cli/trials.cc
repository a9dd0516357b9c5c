#include "cli/trials.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "cli/table.h"
#include "cli/words.h"
#include "common/problem/task_name.h"

namespace warpsmith::cli {
namespace {

constexpr int kReasonWidth = 60;
constexpr int kValueWidth = 28;

// "lease/17" is 17: the lease stands in the task's id.
std::string NumberOf(const v1::Trial& trial) {
  return trial.id().substr(trial.id().rfind('/') + 1);
}

std::string Ratio(double share) { return share <= 0 ? "-" : absl::StrFormat("%.2f", share); }

// Several knobs at once have no value before.
std::string StepOf(const v1::Move& move) {
  return Cut(move.from().empty() ? move.to() : absl::StrCat(move.from(), " -> ", move.to()),
             kValueWidth);
}

}  // namespace

std::string TrialsTable(const v1::TrialBatch& trials) {
  Table table({{"trial", kRight},
               {"from", kRight},
               {"specialist"},
               {"kind"},
               {"group"},
               {"on"},
               {"step"},
               {"chosen with", kRight},
               {"waves", kRight},
               {"after", kRight},
               {"verdict"},
               {"time", kRight},
               {"reason"}});
  for (const v1::Trial& trial : trials.trials()) {
    const v1::Move& move = trial.move();
    table.Add({NumberOf(trial), trial.parent_id().substr(trial.parent_id().rfind('/') + 1),
               trial.specialist().empty() ? "opening" : trial.specialist(), move.kind(),
               move.group(), move.skeleton(),
               move.kind() == "start" ? trial.action() : StepOf(move),
               absl::StrFormat("%.3f", trial.probability()), Ratio(trial.before().waves()),
               Ratio(trial.after().waves()), Word(trial.verdict()),
               Microseconds(trial.timing().median_us()), Cut(trial.reason(), kReasonWidth)});
  }
  return table.Text();
}

std::string LeasesTable(const v1::TrialBatch& trials) {
  struct Lease {
    int64_t trials = 0, revision = 0;
    std::string worker, why;
  };
  std::vector<std::string> in_order;
  std::map<std::string, Lease> leases;
  for (const v1::Trial& trial : trials.trials()) {
    const std::string id(problem::LeaseOf(trial.id()));
    Lease& lease = leases[id];
    if (lease.trials++ == 0) in_order.push_back(id);
    if (!trial.worker_id().empty()) lease.worker = trial.worker_id();
    if (trial.lease_revision() > 0) lease.revision = trial.lease_revision();
    if (!trial.lease_why().empty()) lease.why = trial.lease_why();
  }
  Table table({{"lease"}, {"trials", kRight}, {"worker"}, {"event", kRight}, {"why"}});
  for (const std::string& id : in_order) {
    const Lease& lease = leases[id];
    table.Add({id, absl::StrCat(lease.trials), lease.worker.empty() ? "-" : lease.worker,
               lease.revision > 0 ? absl::StrCat(lease.revision) : "-", lease.why});
  }
  return table.Text();
}

std::string KernelsTable(const v1::Profile& profile) {
  if (profile.kernels().empty()) return "";
  const bool counted = std::any_of(profile.kernels().begin(), profile.kernels().end(),
                                   [](const auto& kernel) { return kernel.has_counters(); });
  std::vector<Table::Column> columns = {{"  kernel"}, {"time", kRight}};
  if (counted) {
    for (const char* title : {"read", "written", "of DRAM", "L2 hits", "SM active", "issuing",
                              "warps", "load/store", "conflicts", "tensor", "fp64", "special"}) {
      columns.push_back({title, kRight});
    }
  }
  Table table(std::move(columns));
  for (const auto& kernel : profile.kernels()) {
    std::vector<std::string> cells = {
        absl::StrCat("  ", kernel.entry(),
                     kernel.workload() > 0 ? absl::StrCat(" (", kernel.workload(), ")") : ""),
        Microseconds(kernel.us())};
    if (counted) {
      const v1::Counters& c = kernel.counters();
      cells.insert(
          cells.end(),
          {Bytes(c.dram_read_bytes()), Bytes(c.dram_written_bytes()), Percent(c.dram_throughput()),
           Percent(c.l2_hit_rate()), Percent(c.sm_active()), Percent(c.issue_active()),
           Percent(c.warps_active()), Percent(c.lsu_throughput()), Percent(c.bank_conflicts()),
           Percent(c.tensor_active()), Percent(c.fp64_active()), Percent(c.special_active())});
    }
    table.Add(std::move(cells));
  }
  std::string text = table.Text();
  absl::StrAppend(&text, "  times by ", profile.times_by());
  if (!profile.counters_by().empty())
    absl::StrAppend(&text, ", counters by ", profile.counters_by());
  text += "\n";
  if (!profile.counters_missing().empty()) {
    absl::StrAppend(&text, "  no counters: ", profile.counters_missing(), "\n");
  }
  return text;
}

}  // namespace warpsmith::cli
