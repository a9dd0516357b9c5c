#include <iostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/client.h"
#include "cli/command.h"
#include "cli/words.h"
#include "common/problem/task_name.h"

namespace warpsmith::cli {
namespace {

// Of a problem's workloads: whether holding or releasing all of them means this one too. One that
// is named is held or released whatever it is.
bool Means(v1::TaskState to, v1::TaskState now) {
  if (to == v1::HELD) return now == v1::QUEUED || now == v1::LEASED;
  return now == v1::HELD || now == v1::PARKED || now == v1::FAILED;
}

void AddMove(CLI::App& app, const Context& context, Command& chosen, const char* verb,
             const char* what, v1::TaskState state) {
  struct Flags {
    std::string task, reason;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* sub = app.add_subcommand(verb, what);
  sub->add_option("TASK", flags->task,
                  "task id, or the problem's name: then those of its workloads that it is for")
      ->required();
  sub->add_option("--reason", flags->reason, "one sentence, for the board");
  sub->callback([&context, &chosen, flags, verb, state] {
    chosen = [&context, flags, verb, state]() -> absl::StatusOr<int> {
      absl::StatusOr<Client> client = Client::Of(context);
      if (!client.ok()) return client.status();
      absl::StatusOr<std::vector<v1::Task>> tasks = client->FindTasks(flags->task);
      if (!tasks.ok()) return tasks.status();
      v1::ListReply moved;
      for (const v1::Task& task : *tasks) {
        if (tasks->size() > 1 && !Means(state, task.state())) continue;
        v1::SetTaskRequest request;
        request.set_task_id(task.id());
        request.set_state(state);
        request.set_reason(flags->reason);
        absl::StatusOr<v1::Task> now = client->SetTask(request);
        if (!now.ok()) return now.status();
        std::cerr << now->id() << " is " << Word(now->state()) << "\n";
        *moved.add_tasks() = *std::move(now);
      }
      if (moved.tasks().empty()) {
        std::vector<std::string> states;
        for (const v1::Task& task : *tasks) {
          states.push_back(absl::StrCat(problem::NameOf(task), " is ", Word(task.state())));
        }
        return absl::FailedPreconditionError(
            absl::StrCat("of several workloads `", verb, "` takes those that are ",
                         state == v1::HELD ? "queued or leased" : "held, parked or failed",
                         ", and there is none: ", absl::StrJoin(states, ", "),
                         "; one that is named is taken whatever it is"));
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
