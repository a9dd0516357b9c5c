#include <iostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/client.h"
#include "cli/command.h"
#include "cli/words.h"
#include "common/problem/task_name.h"

namespace warpsmith::cli {
namespace {

const v1::WorkerInfo* FindWorker(const v1::ListReply& list, const std::string& id) {
  for (const v1::WorkerInfo& worker : list.workers()) {
    if (worker.id() == id) return &worker;
  }
  return nullptr;
}

// Of a problem's workloads: whether holding or releasing all of them means this one too. One that
// is named is held or released whatever it is.
bool Means(v1::TaskState to, v1::TaskState now) {
  if (to == v1::HELD) return now == v1::QUEUED || now == v1::LEASED;
  return now == v1::HELD || now == v1::PARKED || now == v1::FAILED;
}

struct Flags {
  std::string name, reason;
};

absl::StatusOr<int> ReleaseWorker(const Context& context, Client& client, const Flags& flags,
                                  const v1::WorkerInfo& worker) {
  if (!worker.quarantined()) {
    return absl::FailedPreconditionError(
        absl::StrCat("worker ", worker.id(), " is not quarantined, it is ", StateOf(worker),
                     "; a task of that name is meant by its id, RUN/", worker.id(), "@ARCH"));
  }
  v1::ReleaseWorkerRequest request;
  request.set_worker_id(worker.id());
  request.set_reason(flags.reason);
  absl::StatusOr<v1::WorkerInfo> now = client.ReleaseWorker(request);
  if (!now.ok()) return now.status();
  std::cerr << "worker " << now->id() << " is released\n";
  if (context.json) std::cout << Json(*now);
  return kDone;
}

void AddMove(CLI::App& app, const Context& context, Command& chosen, const char* verb,
             const char* what, const char* name, v1::TaskState state) {
  auto flags = std::make_shared<Flags>();
  CLI::App* sub = app.add_subcommand(verb, what);
  sub->add_option(name, flags->name,
                  absl::StrCat(state == v1::QUEUED ? "a quarantined worker's name; or " : "",
                               "task id, or the problem's name: then those of its workloads that "
                               "it is for"))
      ->required();
  sub->add_option("--reason", flags->reason, "one sentence, for the board");
  sub->callback([&context, &chosen, flags, verb, state] {
    chosen = [&context, flags, verb, state]() -> absl::StatusOr<int> {
      absl::StatusOr<Client> client = Client::Of(context);
      if (!client.ok()) return client.status();
      absl::StatusOr<v1::ListReply> list = client->List("");
      if (!list.ok()) return list.status();
      const v1::WorkerInfo* worker = state == v1::QUEUED ? FindWorker(*list, flags->name) : nullptr;
      if (worker != nullptr) return ReleaseWorker(context, *client, *flags, *worker);
      absl::StatusOr<std::vector<v1::Task>> tasks = MatchTasks(*list, flags->name);
      if (state == v1::QUEUED && absl::IsNotFound(tasks.status())) {
        return absl::NotFoundError(absl::StrCat(std::string(tasks.status().message()),
                                                "; nor is there a worker of that name: `warpsmith "
                                                "workers` lists them"));
      }
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
  AddMove(app, context, chosen, "hold", "Stop working on a task until it is released", "TASK",
          v1::HELD);
  AddMove(app, context, chosen, "release",
          "Queue a held, parked or failed task again, or give a quarantined worker work again",
          "TASK|WORKER", v1::QUEUED);
}

}  // namespace warpsmith::cli
