#include <iostream>

#include "cli/client.h"
#include "cli/command.h"
#include "cli/words.h"

namespace warpsmith::cli {
namespace {

void AddMove(CLI::App& app, const Context& context, Command& chosen, const char* verb,
             const char* what, v1::TaskState state) {
  struct Flags {
    std::string task, reason;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* sub = app.add_subcommand(verb, what);
  sub->add_option("TASK", flags->task, "task id, or the problem's name: then all of its workloads")
      ->required();
  sub->add_option("--reason", flags->reason, "one sentence, for the board");
  sub->callback([&context, &chosen, flags, state] {
    chosen = [&context, flags, state]() -> absl::StatusOr<int> {
      absl::StatusOr<Client> client = Client::Of(context);
      if (!client.ok()) return client.status();
      absl::StatusOr<std::vector<v1::Task>> tasks = client->FindTasks(flags->task);
      if (!tasks.ok()) return tasks.status();
      v1::ListReply moved;
      for (const v1::Task& task : *tasks) {
        v1::SetTaskRequest request;
        request.set_task_id(task.id());
        request.set_state(state);
        request.set_reason(flags->reason);
        absl::StatusOr<v1::Task> now = client->SetTask(request);
        if (!now.ok()) return now.status();
        std::cerr << now->id() << " is " << Word(now->state()) << "\n";
        *moved.add_tasks() = *std::move(now);
      }
      if (context.json) std::cout << (tasks->size() == 1 ? Json(moved.tasks(0)) : Json(moved));
      return kDone;
    };
  });
}

}  // namespace

void AddHold(CLI::App& app, const Context& context, Command& chosen) {
  AddMove(app, context, chosen, "hold", "Stop working on a task until it is released", v1::HELD);
  AddMove(app, context, chosen, "release", "Queue a held, parked or failed task again", v1::QUEUED);
}

}  // namespace warpsmith::cli
