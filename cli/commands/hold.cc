// hold, release and cancel: what a person says of tasks, runs and workers.
#include <algorithm>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/client.h"
#include "cli/command.h"
#include "cli/table.h"
#include "cli/words.h"
#include "common/problem/task_name.h"
#include "common/problem/task_state.h"
#include "common/problem/worker_state.h"

namespace warpsmith::cli {
namespace {

// What a command does to tasks.
struct Verb {
  const char* name;
  v1::TaskState to;
  const char* takes;  // as Means, for people
};
constexpr Verb kHold = {"hold", v1::HELD, "queued or leased"};
constexpr Verb kRelease = {"release", v1::QUEUED, "held, parked or failed"};
constexpr Verb kCancel = {"cancel", v1::CANCELLED, "queued, leased or held"};

// Of a problem's workloads: whether the verb on all of them means this one too. One that is named
// is meant whatever it is.
bool Means(const Verb& verb, v1::TaskState now) {
  switch (verb.to) {
    case v1::HELD:
      return !problem::IsAtRest(now);
    case v1::CANCELLED:
      return !problem::IsOver(now);
    default:
      return now == v1::HELD || now == v1::PARKED || now == v1::FAILED;
  }
}

struct Flags {
  std::string name, reason;
  std::string label;  // of workers; not with a name
};

absl::StatusOr<int> HoldWorker(const Context& context, Client& client, const Flags& flags,
                               const std::string& id) {
  v1::HoldWorkerRequest request;
  request.set_worker_id(id);
  request.set_reason(flags.reason);
  absl::StatusOr<v1::WorkerInfo> now = client.HoldWorker(request);
  if (!now.ok()) return now.status();
  std::cerr << "worker " << now->id() << " is held";
  if (!now->task_id().empty()) std::cerr << "; it ends its slice of " << now->task_id() << " first";
  std::cerr << "\n";
  if (context.json) std::cout << Json(*now);
  return kDone;
}

absl::StatusOr<int> ReleaseWorker(const Context& context, Client& client, const Flags& flags,
                                  const v1::WorkerInfo& worker) {
  if (!problem::IsSetAside(worker)) {
    return absl::FailedPreconditionError(
        absl::StrCat("worker ", worker.id(), " is not quarantined or held, it is ", StateOf(worker),
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

absl::StatusOr<int> CancelRun(const Context& context, Client& client, const Flags& flags) {
  v1::CancelRunRequest request;
  request.set_run_id(flags.name);
  request.set_reason(flags.reason);
  absl::StatusOr<v1::CancelRunReply> reply = client.CancelRun(request);
  if (!reply.ok()) return reply.status();
  const int before = reply->run().task_ids_size() - reply->cancelled();
  std::cerr << "run " << flags.name << ": " << Counted(reply->cancelled(), "task") << " cancelled";
  if (before > 0) std::cerr << ", " << before << " had come to an end before";
  std::cerr << "\n";
  if (context.json) std::cout << Json(*reply);
  return kDone;
}

absl::StatusOr<int> MoveTasks(const Context& context, Client& client, const Flags& flags,
                              const Verb& verb, const std::vector<v1::Task>& tasks) {
  v1::ListReply moved;
  for (const v1::Task& task : tasks) {
    if (tasks.size() > 1 && !Means(verb, task.state())) continue;
    v1::SetTaskRequest request;
    request.set_task_id(task.id());
    request.set_state(verb.to);
    request.set_reason(flags.reason);
    absl::StatusOr<v1::Task> now = client.SetTask(request);
    if (!now.ok()) return now.status();
    std::cerr << now->id() << " is " << Word(now->state()) << "\n";
    *moved.add_tasks() = *std::move(now);
  }
  if (moved.tasks().empty()) {
    std::vector<std::string> states;
    for (const v1::Task& task : tasks) {
      states.push_back(absl::StrCat(problem::NameOf(task), " is ", Word(task.state())));
    }
    return absl::FailedPreconditionError(absl::StrCat(
        "of several workloads `", verb.name, "` takes those that are ", verb.takes,
        ", and there is none: ", absl::StrJoin(states, ", "),
        verb.to == v1::CANCELLED ? "" : "; one that is named is taken whatever it is"));
  }
  if (context.json) std::cout << (tasks.size() == 1 ? Json(moved.tasks(0)) : Json(moved));
  return kDone;
}

// Every worker with the label that the verb changes.
absl::StatusOr<int> DoWorkers(const Context& context, Client& client, const Flags& flags,
                              const Verb& verb, const v1::ListReply& list) {
  int found = 0;
  for (const v1::WorkerInfo& worker : list.workers()) {
    const auto& labels = worker.labels();
    if (std::find(labels.begin(), labels.end(), flags.label) == labels.end()) continue;
    ++found;
    if (verb.to == v1::HELD ? worker.held() : !problem::IsSetAside(worker)) continue;
    const absl::StatusOr<int> done = verb.to == v1::HELD
                                         ? HoldWorker(context, client, flags, worker.id())
                                         : ReleaseWorker(context, client, flags, worker);
    if (!done.ok()) return done;
  }
  if (found > 0) return kDone;
  return absl::NotFoundError(absl::StrCat("no worker has the label '", flags.label,
                                          "': `warpsmith workers` lists them, with their labels"));
}

bool HasRun(const v1::ListReply& list, const std::string& id) {
  return std::any_of(list.runs().begin(), list.runs().end(),
                     [&](const v1::Run& run) { return run.id() == id; });
}

const v1::WorkerInfo* FindWorker(const v1::ListReply& list, const std::string& id) {
  for (const v1::WorkerInfo& worker : list.workers()) {
    if (worker.id() == id) return &worker;
  }
  return nullptr;
}

absl::StatusOr<int> Do(const Context& context, const Flags& flags, const Verb& verb) {
  if (flags.name.empty() && flags.label.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("`", verb.name, "` what? Name a task or a worker, or give --label"));
  }
  absl::StatusOr<Client> client = Client::Of(context);
  if (!client.ok()) return client.status();
  absl::StatusOr<v1::ListReply> list = client->List("");
  if (!list.ok()) return list.status();
  if (!flags.label.empty()) return DoWorkers(context, *client, flags, verb, *list);
  // A run in the archive is listed by its id alone.
  if (verb.to == v1::CANCELLED && (HasRun(*list, flags.name) || client->List(flags.name).ok())) {
    return CancelRun(context, *client, flags);
  }
  const v1::WorkerInfo* worker = FindWorker(*list, flags.name);
  if (verb.to == v1::HELD && worker != nullptr) {
    return HoldWorker(context, *client, flags, worker->id());
  }
  if (verb.to == v1::QUEUED && worker != nullptr) {
    return ReleaseWorker(context, *client, flags, *worker);
  }
  absl::StatusOr<std::vector<v1::Task>> tasks = client->FindTasks(flags.name);
  if (absl::IsNotFound(tasks.status())) {
    const std::string other = verb.to == v1::CANCELLED ? "run" : "worker";
    return absl::NotFoundError(absl::StrCat(std::string(tasks.status().message()),
                                            "; nor is there a ", other,
                                            " of that name: `warpsmith ", other, "s` lists them"));
  }
  if (!tasks.ok()) return tasks.status();
  return MoveTasks(context, *client, flags, verb, *tasks);
}

void Add(CLI::App& app, const Context& context, Command& chosen, const Verb& verb, const char* what,
         const char* name, const char* also) {
  auto flags = std::make_shared<Flags>();
  CLI::App* sub = app.add_subcommand(verb.name, what);
  CLI::Option* which =
      sub->add_option(name, flags->name,
                      absl::StrCat(also,
                                   "task id, or the problem's name: then those of its workloads "
                                   "that it is for"));
  if (verb.to == v1::CANCELLED) {
    which->required();
  } else {
    sub->add_option("--label", flags->label, "instead: every worker with this label, key=value")
        ->excludes(which);
  }
  sub->add_option("--reason", flags->reason, "one sentence, for the board");
  sub->callback([&context, &chosen, flags, verb] {
    chosen = [&context, flags, verb] { return Do(context, *flags, verb); };
  });
}

}  // namespace

void AddHold(CLI::App& app, const Context& context, Command& chosen) {
  Add(app, context, chosen, kHold,
      "Stop working on a task until it is released, or give a worker nothing until then",
      "TASK|WORKER", "a worker's name; or ");
  Add(app, context, chosen, kRelease,
      "Queue a held, parked or failed task again, or give a quarantined or held worker work again",
      "TASK|WORKER", "a worker's name; or ");
  Add(app, context, chosen, kCancel,
      "End the work on a run or a task; what was found until now stays and can be exported",
      "RUN|TASK", "run id: then every task that has not come to an end; or ");
}

}  // namespace warpsmith::cli
