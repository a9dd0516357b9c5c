#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "cli/client.h"
#include "cli/command.h"
#include "cli/table.h"
#include "cli/trials.h"
#include "cli/words.h"
#include "common/problem/credits.h"
#include "common/problem/task_name.h"

namespace warpsmith::cli {
namespace {

constexpr int kReasonWidth = 100;

std::string Heading(const std::string& title) { return absl::StrCat("\n", title, "\n"); }

void PrintSummary(const v1::Task& task) {
  std::cout << task.id() << "  " << Word(task.state());
  if (!Note(task).empty()) std::cout << ": " << Note(task);
  std::cout << "\n";
  std::cout << "  spent " << Clock(task.seconds_spent()) << " of " << Clock(task.seconds_budget())
            << " in " << Counted(task.slices(), "slice") << ", " << Counted(task.trials(), "trial")
            << ", " << task.trials_judged() << " judged";
  if (task.seconds_spent() > 0) {
    std::cout << absl::StrFormat(" (%.2g a second)", task.trials_judged() / task.seconds_spent());
  }
  if (task.losses() > 0) std::cout << ", " << Counted(task.losses(), "lease") << " lost in a row";
  std::cout << "\n";
}

// The candidate's times above those of what it is compared with, each kind in its column.
void PrintTimes(const v1::Incumbent& incumbent) {
  Table table(
      {{"  what"}, {"device", kRight}, {"graph", kRight}, {"call", kRight}, {"as accurate"}});
  const auto add = [&](const std::string& name, const v1::Times& times,
                       const std::string& accurate) {
    table.Add({"  " + name, Microseconds(times.device_us()), Microseconds(times.graph_us()),
               Microseconds(times.call_us()), accurate});
  };
  add("best", incumbent.times(), "");
  for (const v1::Baseline& baseline : incumbent.baselines().baselines()) {
    add(baseline.name(), baseline.times(), baseline.accurate() ? "yes" : "no");
  }
  std::cout << table.Text();
  for (const v1::Baseline& baseline : incumbent.baselines().baselines()) {
    if (baseline.median_us() <= 0) continue;
    std::cout << "  " << baseline.name() << " was " << Microseconds(baseline.median_us())
              << " by an earlier protocol, in which its launching counted and the best's did not\n";
  }
  for (const auto& [name, why] : incumbent.baselines().missing()) {
    std::cout << "  " << name << " could not be timed: " << why << "\n";
  }
  std::cout << "  on " << incumbent.baselines().card() << "\n";
}

void PrintIncumbent(const v1::Incumbent& incumbent) {
  const v1::Timing& timing = incumbent.trial().timing();
  std::cout << Heading("best") << "  " << Speedup(incumbent.speedup())
            << " over the strongest baseline (graphs), " << Speedup(incumbent.speedup_eager())
            << " over eager (" << (incumbent.times().call_us() > 0 ? "calls" : "graphs") << ")\n"
            << "  " << Microseconds(timing.median_us()) << " of the device (95 % "
            << Microseconds(timing.low_us()) << " to " << Microseconds(timing.high_us()) << ", "
            << timing.samples() << " samples)\n";
  if (incumbent.light_us() > 0 && timing.median_us() > 0) {
    std::cout << "  " << Percent(incumbent.light_us() / timing.median_us())
              << " of the speed of light (" << Microseconds(incumbent.light_us()) << ")";
    if (!incumbent.held_by().empty()) std::cout << ", held by " << incumbent.held_by();
    std::cout << "\n";
  }
  std::cout << "  peak memory " << Bytes(static_cast<double>(incumbent.peak_bytes())) << ", trial "
            << incumbent.trial().id() << "\n";

  const v1::Accuracy& accuracy = incumbent.trial().accuracy();
  std::cout << Heading("accuracy") << "  " << accuracy.accuracy_class() << ": largest error "
            << absl::StrFormat("%.2g", accuracy.max_error()) << " of the rms, what it replaces has "
            << absl::StrFormat("%.2g", accuracy.reference_max_error()) << "; oracle "
            << accuracy.oracle()
            << (accuracy.even()
                    ? "; beyond the usual tolerance in places, where chance decides which "
                      "of both is nearer to the truth"
                    : "")
            << "\n";

  std::cout << Heading("times of a run");
  PrintTimes(incumbent);
  const std::string kernels = KernelsTable(incumbent.trial().profile());
  if (!kernels.empty()) std::cout << Heading("kernels") << kernels;
}

void PrintCredits(const problem::Credits& credits) {
  std::cout << Heading("gains, in order");
  Table gains({{"  specialist"}, {"gain", kRight}, {"time after", kRight}, {"action"}});
  for (const problem::Credit& credit : credits.accepted) {
    gains.Add(
        {"  " + credit.specialist, Speedup(credit.gain), Microseconds(credit.us), credit.action});
  }
  std::cout << gains.Text();
  std::cout << Heading("specialists");
  Table shares({{"  specialist"},
                {"gain", kRight},
                {"accepted", kRight},
                {"judged", kRight},
                {"trials", kRight},
                {"seconds", kRight}});
  for (const problem::Share& share : credits.shares) {
    shares.Add({"  " + share.specialist, Speedup(share.gain), std::to_string(share.accepted),
                std::to_string(share.judged), std::to_string(share.trials),
                absl::StrFormat("%.1f", share.seconds)});
  }
  std::cout << shares.Text();
}

void PrintVerdicts(const v1::TrialBatch& trials) {
  std::map<std::string, int> counts;
  std::map<std::string, std::string> example;
  for (const v1::Trial& trial : trials.trials()) {
    const std::string verdict = Word(trial.verdict());
    counts[verdict] += 1;
    if (example[verdict].empty()) example[verdict] = trial.reason();
  }
  std::cout << Heading("verdicts");
  Table table({{"  verdict"}, {"trials", kRight}, {"for example"}});
  for (const auto& [verdict, count] : counts) {
    table.Add({"  " + verdict, std::to_string(count), Cut(example[verdict], kReasonWidth)});
  }
  std::cout << table.Text();
}

void PrintSources(const std::vector<v1::Plan>& plans, bool json) {
  if (json) {
    nlohmann::json sources = nlohmann::json::array();
    for (const v1::Plan& plan : plans) {
      sources.push_back({{"workload", plan.workload()}, {"source", plan.source()}});
    }
    std::cout << sources.dump(2) << "\n";
    return;
  }
  for (const v1::Plan& plan : plans) {
    std::cout << "// workload " << plan.workload() << "\n" << plan.source() << "\n";
  }
}

struct Flags {
  std::string task;
  bool source = false;
  bool trials = false;
  bool leases = false;
};

absl::StatusOr<int> ShowSources(const Context& context, Client& client,
                                const std::vector<v1::Task>& tasks) {
  std::vector<v1::Plan> plans;
  for (const v1::Task& task : tasks) {
    absl::StatusOr<v1::GetTaskReply> reply = client.GetTask(task.id(), /*with_trials=*/false);
    if (!reply.ok()) return reply.status();
    const auto& found = reply->incumbent().solution().plans();
    plans.insert(plans.end(), found.begin(), found.end());
    if (found.empty()) std::cerr << "warpsmith: " << task.id() << " has no accepted kernel yet\n";
  }
  if (plans.empty()) return absl::NotFoundError("there is no kernel to show yet");
  PrintSources(plans, context.json);
  return kDone;
}

// A line for each of a problem's workloads.
int ShowSeveral(const Context& context, const std::vector<v1::Task>& tasks) {
  v1::ListReply list;
  list.mutable_tasks()->Add(tasks.begin(), tasks.end());
  if (context.json) {
    std::cout << Json(list);
    return kDone;
  }
  std::cout << ResultsTable(list);
  std::cerr << "one of them, in full: `warpsmith show " << tasks[0].run_id() << "/"
            << problem::NameOf(tasks[0]) << "`\n";
  return kDone;
}

absl::Status TrialsOfOne(const Flags& flags, const std::vector<v1::Task>& tasks) {
  std::vector<std::string> workloads;
  for (const v1::Task& task : tasks) workloads.push_back(task.workload());
  return absl::InvalidArgumentError(absl::StrCat(
      "'", flags.task, "' has the workloads ", absl::StrJoin(workloads, ", "),
      ", with trials of their own: name one, as in `warpsmith show ", tasks[0].run_id(), "/",
      problem::NameOf(tasks[0]), flags.trials ? " --trials`" : " --leases`"));
}

absl::StatusOr<int> Show(const Context& context, const Flags& flags) {
  absl::StatusOr<Client> client = Client::Of(context);
  if (!client.ok()) return client.status();
  absl::StatusOr<std::vector<v1::Task>> tasks = client->FindTasks(flags.task);
  if (!tasks.ok()) return tasks.status();
  if (flags.source) return ShowSources(context, *client, *tasks);
  if (tasks->size() > 1 && (flags.trials || flags.leases)) return TrialsOfOne(flags, *tasks);
  if (tasks->size() > 1) return ShowSeveral(context, *tasks);
  absl::StatusOr<v1::GetTaskReply> reply = client->GetTask((*tasks)[0].id(), /*with_trials=*/true);
  if (!reply.ok()) return reply.status();

  const problem::Credits credits = problem::CreditsOf(reply->trials());
  if (context.json) {
    nlohmann::json json = nlohmann::json::parse(Json(*reply));
    json["credits"] = nlohmann::json::array();
    for (const problem::Credit& credit : credits.accepted) {
      json["credits"].push_back({{"trial_id", credit.trial_id},
                                 {"specialist", credit.specialist},
                                 {"action", credit.action},
                                 {"gain", credit.gain},
                                 {"median_us", credit.us}});
    }
    std::cout << json.dump(2) << "\n";
    return kDone;
  }
  if (flags.trials || flags.leases) {
    std::cout << (flags.trials ? TrialsTable(reply->trials()) : LeasesTable(reply->trials()));
    return kDone;
  }
  PrintSummary(reply->task());
  if (reply->has_incumbent()) PrintIncumbent(reply->incumbent());
  if (!reply->trials().trials().empty()) {
    PrintCredits(credits);
    PrintVerdicts(reply->trials());
  }
  return kDone;
}

}  // namespace

void AddShow(CLI::App& app, const Context& context, Command& chosen) {
  auto flags = std::make_shared<Flags>();
  CLI::App* sub =
      app.add_subcommand("show",
                         "Show a task: its best kernel, baselines, accuracy, and who made "
                         "it faster by what; or a line for each of a problem's workloads");
  sub->add_option("TASK", flags->task,
                  "task id (RUN/PROBLEM:WORKLOAD@ARCH), or as much of it as is wanted")
      ->required();
  sub->add_flag("--source", flags->source, "print the best kernel's device code instead");
  sub->add_flag("--trials", flags->trials,
                "print every trial instead, of one workload: its move, and what it gave")
      ->excludes("--source");
  sub->add_flag("--leases", flags->leases,
                "print the leases that its trials are of instead: whose each was, and why")
      ->excludes("--source")
      ->excludes("--trials");
  sub->callback(
      [&context, &chosen, flags] { chosen = [&context, flags] { return Show(context, *flags); }; });
}

}  // namespace warpsmith::cli
