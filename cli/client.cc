#include "cli/client.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "cli/words.h"
#include "common/base/file.h"
#include "common/problem/task_name.h"
#include "common/rpc/address.h"
#include "common/rpc/channel.h"
#include "common/rpc/health.h"
#include "common/rpc/status.h"

namespace warpsmith::cli {
namespace {

constexpr int kMaxNamesInMessage = 12;
constexpr int kPageTasks = 5'000;
constexpr int64_t kProbeMs = 2'000;

std::string Some(const std::vector<std::string>& names) {
  std::vector<std::string> shown(names.begin(),
                                 names.begin() + std::min<int>(names.size(), kMaxNamesInMessage));
  std::string text = absl::StrJoin(shown, ", ");
  if (names.size() > shown.size()) absl::StrAppend(&text, ", ...");
  return text;
}

// RUN/PROBLEM:WORKLOAD@ARCH taken apart; what is not there is empty. None of the marks stands in a
// name.
struct TaskName {
  absl::string_view run, problem, workload, arch;

  static TaskName Of(absl::string_view text) {
    TaskName name;
    if (const size_t at = text.find('/'); at != text.npos) {
      name.run = text.substr(0, at);
      text.remove_prefix(at + 1);
    }
    if (const size_t at = text.find('@'); at != text.npos) {
      name.arch = text.substr(at + 1);
      text = text.substr(0, at);
    }
    if (const size_t at = text.find(problem::kWorkloadMark); at != text.npos) {
      name.workload = text.substr(at + 1);
      text = text.substr(0, at);
    }
    name.problem = text;
    return name;
  }

  bool Means(const TaskName& other) const {
    const auto same = [](absl::string_view wanted, absl::string_view is) {
      return wanted.empty() || wanted == is;
    };
    return problem == other.problem && same(run, other.run) && same(workload, other.workload) &&
           same(arch, other.arch);
  }
};

// The `warpsmith up` that runs on the folder; 0: none does.
int UpOn(const std::string& dir) {
  int pid = 0;
  const auto text = base::ReadFile(absl::StrCat(dir, "/", kUpPidFile));
  if (!text.ok() || !absl::SimpleAtoi(*text, &pid)) return 0;
  // One that has ended stays a process (Z) for as long as nobody has asked how it ended.
  const auto process = base::ReadFile(absl::StrCat("/proc/", pid, "/stat"));
  if (!process.ok() || !absl::StrContains(*process, " (warpsmith) ")) return 0;
  return absl::StrContains(*process, " (warpsmith) Z ") ? 0 : pid;
}

// What to do where no planner answers: nothing, if an `up` on the folder is at it. `dir` is empty
// where the planner was named by its address.
std::string Remedy(const std::string& dir) {
  if (dir.empty())
    return "is that its address, and does it run? Without --planner the one of --dir is asked";
  const int pid = UpOn(dir);
  if (pid == 0) {
    return "start one with `warpsmith up`, or name another with --dir or --planner; one with "
           "certificates wants --tls-ca";
  }
  return absl::StrCat("`warpsmith up` (process ", pid,
                      ") is starting it, or ends: try again in a moment, or see ", dir,
                      "/logs/planner.log");
}

// Those of `ids` that `wanted` may have meant: of the same problem, else of one whose name holds
// what was given, else all.
std::vector<std::string> Nearest(const std::vector<std::string>& ids, const TaskName& wanted) {
  std::vector<std::string> same, alike;
  for (const std::string& id : ids) {
    const absl::string_view problem = TaskName::Of(id).problem;
    if (problem == wanted.problem) same.push_back(id);
    if (!wanted.problem.empty() && absl::StrContains(problem, wanted.problem)) alike.push_back(id);
  }
  return !same.empty() ? same : !alike.empty() ? alike : ids;
}

}  // namespace

absl::StatusOr<Client> Client::Of(const Context& context, int64_t limit_ms) {
  const security::ClientFiles files{context.tls.files, context.token_file};
  if (!context.planner.empty()) return Client(context.planner, "", limit_ms, files);
  if (absl::Status status = CheckDir(context); !status.ok()) return status;
  absl::StatusOr<rpc::Addresses> addresses = rpc::ReadAddresses(context.dir);
  if (addresses.ok()) return Client(addresses->clients, context.dir, limit_ms, files);
  return absl::UnavailableError(
      absl::StrCat("no planner is running on ", context.dir, ": ", Remedy(context.dir)));
}

Client::Client(const std::string& addresses, std::string dir, int64_t limit_ms,
               security::ClientFiles files)
    : route_(addresses),
      address_(route_.address()),
      dialer_(std::move(files), &absl::Now),
      limit_ms_(limit_ms),
      dir_(std::move(dir)) {}

absl::Status Client::Dial() {
  address_ = route_.address();
  absl::StatusOr<std::shared_ptr<grpc::Channel>> channel = dialer_.Dial(address_);
  if (!channel.ok()) return channel.status();
  if (*channel != channel_) {
    channel_ = *std::move(channel);
    stub_ = v1::PlannerService::NewStub(channel_);
  }
  return absl::OkStatus();
}

absl::Status Client::Probe() {
  if (!route_.several() || probed_ == channel_) return absl::OkStatus();
  const absl::Status healthy = rpc::CheckHealth(channel_, kProbeMs);
  if (absl::IsDeadlineExceeded(healthy)) {
    return absl::UnavailableError(
        absl::StrCat("it takes calls, and does not answer within ", kProbeMs / 1000, " s"));
  }
  probed_ = channel_;  // what else is wrong with it the call says
  return absl::OkStatus();
}

absl::Status Client::Explain(const absl::Status& status) const {
  // A planner that is ending cancels the calls that it has not answered.
  if (absl::IsUnavailable(status) || absl::IsCancelled(status)) {
    return absl::UnavailableError(absl::StrCat("no planner answers at ", address_, " (",
                                               std::string(status.message()), "): ", Remedy(dir_)));
  }
  if (absl::IsDeadlineExceeded(status)) {
    return absl::DeadlineExceededError(absl::StrCat(
        "the planner at ", address_, " did not answer within ", rpc::kCallTimeoutMs / 1000, " s: ",
        dir_.empty() ? "look at its log, and start it again where it runs"
                     : absl::StrCat("look at ", dir_,
                                    "/logs/planner.log, and start it again with `warpsmith up`")));
  }
  if (absl::IsUnimplemented(status)) {
    return absl::UnimplementedError(
        absl::StrCat(address_, " cannot do this (", std::string(status.message()),
                     "): the planner there is of an older version, or no planner of Warpsmith"));
  }
  return status;
}

template <class Request, class Reply>
absl::StatusOr<Reply> Client::Call(
    grpc::Status (v1::PlannerService::Stub::*method)(grpc::ClientContext*, const Request&, Reply*),
    const Request& request) {
  route_.Begin();
  while (true) {
    if (absl::Status dialled = Dial(); !dialled.ok()) return dialled;
    Reply reply;
    absl::Status status = Probe();
    if (status.ok()) {
      grpc::ClientContext context;
      rpc::SetDeadline(context, limit_ms_);
      status = rpc::FromGrpc((stub_.get()->*method)(&context, request, &reply));
    }
    if (status.ok()) return reply;
    const absl::Status explained = Explain(status);
    if (!route_.Next(status)) return explained;
  }
}

absl::StatusOr<v1::SubmitReply> Client::Submit(const v1::SubmitRequest& request) {
  return Call(&v1::PlannerService::Stub::Submit, request);
}

absl::StatusOr<v1::ListReply> Client::List(const std::string& run_id) {
  v1::ListRequest request;
  request.set_run_id(run_id);
  request.set_page_tasks(kPageTasks);
  absl::StatusOr<v1::ListReply> list = Call(&v1::PlannerService::Stub::List, request);
  while (list.ok() && !list->more_after().empty()) {
    request.set_after_task(list->more_after());
    absl::StatusOr<v1::ListReply> page = Call(&v1::PlannerService::Stub::List, request);
    if (!page.ok()) return page.status();
    list->mutable_tasks()->MergeFrom(page->tasks());
    list->set_more_after(page->more_after());
  }
  return list;
}

absl::StatusOr<v1::ListReply> Client::Archived() {
  v1::ListRequest request;
  request.set_archived(true);
  return Call(&v1::PlannerService::Stub::List, request);
}

absl::StatusOr<v1::GetTaskReply> Client::GetTask(const std::string& task_id, bool with_trials) {
  v1::GetTaskRequest request;
  request.set_task_id(task_id);
  request.set_with_trials(with_trials);
  return Call(&v1::PlannerService::Stub::GetTask, request);
}

absl::StatusOr<v1::GetBoardReply> Client::GetBoard() {
  return Call(&v1::PlannerService::Stub::GetBoard, v1::GetBoardRequest());
}

absl::StatusOr<v1::Task> Client::SetTask(const v1::SetTaskRequest& request) {
  auto reply = Call(&v1::PlannerService::Stub::SetTask, request);
  if (!reply.ok()) return reply.status();
  const v1::Task& now = reply->task();
  if (request.state() == v1::CANCELLED && now.state() != v1::CANCELLED) {
    return absl::FailedPreconditionError(absl::StrCat(now.id(), " is ", Word(now.state()),
                                                      ", there is nothing to cancel: ", Note(now)));
  }
  return now;
}

absl::StatusOr<v1::CancelRunReply> Client::CancelRun(const v1::CancelRunRequest& request) {
  return Call(&v1::PlannerService::Stub::CancelRun, request);
}

absl::StatusOr<v1::Run> Client::SetPriority(const v1::SetPriorityRequest& request) {
  auto reply = Call(&v1::PlannerService::Stub::SetPriority, request);
  if (!reply.ok()) return reply.status();
  return reply->run();
}

absl::StatusOr<v1::WorkerInfo> Client::HoldWorker(const v1::HoldWorkerRequest& request) {
  auto reply = Call(&v1::PlannerService::Stub::HoldWorker, request);
  if (!reply.ok()) return reply.status();
  return reply->worker();
}

absl::StatusOr<v1::WorkerInfo> Client::ReleaseWorker(const v1::ReleaseWorkerRequest& request) {
  auto reply = Call(&v1::PlannerService::Stub::ReleaseWorker, request);
  if (!reply.ok()) return reply.status();
  return reply->worker();
}

absl::StatusOr<v1::ListReply> Client::Run(const std::string& run_id) {
  absl::StatusOr<v1::ListReply> list = List(run_id);
  if (!list.ok()) return list;
  if (run_id.empty() && list->runs().empty() && list->archived_runs() > 0) {
    return absl::NotFoundError(
        "every run is in the archive: `warpsmith runs --archived` lists them, name one");
  }
  if (list->runs().empty()) {
    return absl::NotFoundError(run_id.empty() ? "nothing was submitted yet: `warpsmith submit FILE`"
                                              : absl::StrCat("there is no run '", run_id,
                                                             "': `warpsmith runs` lists them"));
  }
  if (!run_id.empty()) return list;
  return List(list->runs(list->runs_size() - 1).id());
}

absl::StatusOr<std::vector<v1::Task>> Client::FindTasks(const std::string& name) {
  // A run that is named may be in the archive.
  const std::string run(TaskName::Of(name).run);
  absl::StatusOr<v1::ListReply> all = List(run);
  if (!run.empty() && absl::IsNotFound(all.status())) all = List("");
  if (!all.ok()) return all.status();
  return MatchTasks(*all, name);
}

absl::StatusOr<std::vector<v1::Task>> MatchTasks(const v1::ListReply& list,
                                                 const std::string& name) {
  const TaskName wanted = TaskName::Of(name);
  std::vector<std::string> known;
  for (int r = list.runs_size() - 1; r >= 0; --r) {
    std::vector<v1::Task> matches;
    for (const v1::Task& task : list.tasks()) {
      if (task.run_id() != list.runs(r).id()) continue;
      known.push_back(task.id());
      if (wanted.Means(TaskName::Of(task.id()))) matches.push_back(task);
    }
    if (matches.empty()) continue;
    for (const v1::Task& task : matches) {
      if (TaskName::Of(task.id()).arch == TaskName::Of(matches[0].id()).arch) continue;
      return absl::InvalidArgumentError(absl::StrCat("'", name, "' may be ", matches[0].id(),
                                                     " or ", task.id(), ": give the whole"));
    }
    return matches;
  }
  if (known.empty()) {
    return absl::NotFoundError(
        list.archived_runs() > 0
            ? absl::StrCat(
                  "there is no task '", name,
                  "' outside the archive: `warpsmith runs --archived` lists its runs; one ",
                  "of their tasks is named with its run, RUN/", name)
            : "there are no tasks yet: `warpsmith submit FILE`");
  }
  for (const v1::Run& run : list.runs()) {
    if (run.id() != name) continue;
    return absl::NotFoundError(
        absl::StrCat("'", name, "' is a run: `warpsmith runs ", name, "` lists its tasks"));
  }
  return absl::NotFoundError(
      absl::StrCat("there is no task '", name, "'; there are ", Some(Nearest(known, wanted))));
}

}  // namespace warpsmith::cli
