#include <iostream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "cli/client.h"
#include "cli/command.h"
#include "cli/table.h"
#include "cli/watch.h"
#include "cli/words.h"
#include "common/problem/budget.h"
#include "common/problem/problem.h"

namespace warpsmith::cli {
namespace {

struct Flags {
  std::string file;
  std::string policy = "rules";
  std::string arch;
  std::string request_id;
  double seconds = 0;
  std::string submitter;
  double weight = 0;
  int priority = 0;
  std::vector<std::string> needs;
  bool wait = false;
};

// "": a budget that a task may have; else why it is none.
std::string CheckBudget(const std::string& text) {
  double seconds = 0;
  if (absl::SimpleAtod(text, &seconds) && seconds >= problem::kMinBudgetSeconds &&
      seconds <= problem::kMaxBudgetSeconds) {
    return "";
  }
  return absl::StrCat("'", text, "' is no budget of a task: give ", problem::kMinBudgetSeconds,
                      " to ", problem::kMaxBudgetSeconds, " seconds");
}

void SaySubmitted(int problems, const v1::Run& run) {
  std::cerr << "submitted " << Counted(problems, "problem");
  if (run.task_ids_size() != problems) {
    std::cerr << " of " << Counted(run.task_ids_size(), "workload") << ", a task each,";
  }
  std::cerr << " as run " << run.id() << "; follow it with `warpsmith watch " << run.id() << "`\n";
}

absl::StatusOr<int> Submit(const Context& context, const Flags& flags) {
  absl::StatusOr<v1::ProblemSet> problems = problem::LoadSet(flags.file);
  if (!problems.ok()) return problems.status();
  absl::StatusOr<Client> client = Client::Of(context);
  if (!client.ok()) return client.status();

  v1::SubmitRequest request;
  *request.mutable_problems() = *std::move(problems);
  request.set_arch(flags.arch);
  request.set_seconds_per_task(flags.seconds);
  request.set_policy(flags.policy);
  request.set_request_id(flags.request_id);
  request.set_submitter(flags.submitter);
  request.set_weight(flags.weight);
  request.set_priority(flags.priority);
  request.mutable_needs()->Add(flags.needs.begin(), flags.needs.end());
  absl::StatusOr<v1::SubmitReply> reply = client->Submit(request);
  if (!reply.ok()) return reply.status();

  const v1::Run& run = reply->run();
  if (run.task_ids().empty()) {
    std::cerr << "this set was submitted before, as run " << run.id()
              << ", which is in the archive: `warpsmith runs " << run.id() << "`\n";
  } else {
    SaySubmitted(request.problems().problems_size(), run);
  }
  if (flags.wait) return WatchRun(context, *client, run.id());
  if (context.json) {
    std::cout << Json(run);
  } else {
    std::cout << run.id() << "\n";
  }
  return kDone;
}

}  // namespace

void AddSubmit(CLI::App& app, const Context& context, Command& chosen) {
  auto flags = std::make_shared<Flags>();
  CLI::App* sub = app.add_subcommand("submit", "Submit a problem set; prints the run's id");
  sub->add_option("FILE", flags->file, "problem set, e.g. problems/starter.json")->required();
  sub->add_option("--seconds", flags->seconds,
                  absl::StrCat("budget of device time for each workload of each problem: ",
                               problem::kMinBudgetSeconds, " to ", problem::kMaxBudgetSeconds, "; ",
                               problem::kDefaultBudgetSeconds, " if not given"))
      ->check(CheckBudget);
  sub->add_option("--policy", flags->policy, "who chooses what to try next")
      ->check(CLI::IsMember({"random", "fixed", "rules"}))
      ->capture_default_str();
  sub->add_option("--arch", flags->arch, "sm_90a, host, ...: that of the workers if not given");
  sub->add_option("--submitter", flags->submitter,
                  "who shares the cards with others, by what each has used; the run by itself if "
                  "not given");
  sub->add_option("--weight", flags->weight,
                  "of the submitter's share, 0.001 to 1000; 1 or as it was if not given");
  sub->add_option("--priority", flags->priority,
                  "among the submitter's runs, -1000 to 1000: the higher come first")
      ->capture_default_str();
  sub->add_option("--on", flags->needs,
                  "only on workers with this label, key=value; may be given again");
  sub->add_option("--request-id", flags->request_id,
                  "any text: a second submission with the same one gives the first one's run");
  sub->add_flag("--wait", flags->wait, "follow the run to its end, as `watch` does");
  sub->callback([&context, &chosen, flags] {
    chosen = [&context, flags] { return Submit(context, *flags); };
  });
}

}  // namespace warpsmith::cli
