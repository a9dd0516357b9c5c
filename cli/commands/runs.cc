#include <iostream>

#include "absl/time/time.h"
#include "cli/client.h"
#include "cli/command.h"
#include "cli/table.h"
#include "cli/watch.h"
#include "cli/words.h"
#include "common/problem/task_state.h"

namespace warpsmith::cli {
namespace {

std::string SubmittedAt(const v1::Run& run) {
  return absl::FormatTime("%Y-%m-%d %H:%M", absl::FromUnixMillis(run.submitted_unix_ms()),
                          absl::LocalTimeZone());
}

absl::StatusOr<int> Archived(const Context& context) {
  absl::StatusOr<Client> client = Client::Of(context);
  if (!client.ok()) return client.status();
  absl::StatusOr<v1::ListReply> list = client->Archived();
  if (!list.ok()) return list.status();
  if (context.json) {
    std::cout << Json(*list);
    return kDone;
  }
  Table table({{"run"}, {"problem set"}, {"submitted"}, {"policy"}});
  for (const v1::Run& run : list->runs()) {
    table.Add({run.id(), run.name(), SubmittedAt(run), run.policy()});
  }
  std::cout << table.Text();
  const int64_t older = list->archived_runs() - list->runs_size();
  if (older > 0) std::cerr << "warpsmith: and " << older << " older ones, by their ids\n";
  return kDone;
}

absl::StatusOr<int> Runs(const Context& context, const std::string& run_id) {
  absl::StatusOr<Client> client = Client::Of(context);
  if (!client.ok()) return client.status();
  absl::StatusOr<v1::ListReply> list = client->List(run_id);
  if (!list.ok()) return list.status();
  if (context.json) {
    std::cout << Json(*list);
    return kDone;
  }
  if (!run_id.empty()) {
    std::cout << ResultsTable(*list);
    const std::string waits = WaitsForWorker(*list);
    if (!waits.empty()) std::cerr << "warpsmith: " << waits << "\n";
    return kDone;
  }
  Table table({{"run"},
               {"problem set"},
               {"submitted"},
               {"policy"},
               {"tasks", kRight},
               {"over", kRight},
               {"speedup", kRight},
               {"state"}});
  for (const v1::Run& run : list->runs()) {
    v1::ListReply own;
    int over = 0;
    for (const v1::Task& task : list->tasks()) {
      if (task.run_id() != run.id()) continue;
      *own.add_tasks() = task;
      over += problem::IsOver(task.state()) ? 1 : 0;
    }
    table.Add({run.id(), run.name(), SubmittedAt(run), run.policy(),
               std::to_string(own.tasks_size()), std::to_string(over), Speedup(GeomeanSpeedup(own)),
               run.done() ? "done" : "at work"});
  }
  std::cout << table.Text();
  if (list->archived_runs() > 0) {
    std::cerr << "warpsmith: and " << list->archived_runs()
              << " in the archive: `warpsmith runs --archived`\n";
  }
  return kDone;
}

}  // namespace

void AddRuns(CLI::App& app, const Context& context, Command& chosen) {
  auto run = std::make_shared<std::string>();
  CLI::App* sub = app.add_subcommand("runs", "List the runs, or the tasks of one");
  auto archived = std::make_shared<bool>(false);
  CLI::Option* which = sub->add_option("RUN", *run, "run id, also of one in the archive");
  sub->add_flag("--archived", *archived, "list the runs in the archive")->excludes(which);
  sub->callback([&context, &chosen, run, archived] {
    chosen = [&context, run, archived] {
      return *archived ? Archived(context) : Runs(context, *run);
    };
  });
}

}  // namespace warpsmith::cli
