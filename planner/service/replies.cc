#include "planner/service/replies.h"

#include <spdlog/spdlog.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/problem/canonical.h"
#include "common/problem/problem.h"
#include "common/problem/sealed_trials.h"
#include "common/rpc/protocol.h"
#include "planner/service/convert.h"
#include "planner/service/write.h"

namespace warpsmith::planner {
namespace {

absl::Status Parse(const std::string& digest, const std::string& bytes,
                   google::protobuf::Message& message) {
  if (message.ParseFromString(bytes)) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("the blob ", digest, " is not a ", message.GetTypeName()));
}

absl::Status Read(store::Store& store, const std::string& digest,
                  google::protobuf::Message& message) {
  absl::StatusOr<std::string> bytes = store.Get(digest);
  return bytes.ok() ? Parse(digest, *bytes, message) : bytes.status();
}

// Newest first: what does not fit is the oldest.
absl::Status AddJudgedSources(const std::string& task_id, store::Store& store, v1::Lease& lease) {
  std::set<std::string> known;
  absl::Status damage;
  absl::Status read = store.ReadFacts(task_id, /*bodies=*/false, [&](store::Facts facts) {
    absl::StatusOr<v1::SealedTrials> trials = TrialsOf(std::move(facts));
    if (!trials.ok()) {
      damage = trials.status();
      return false;
    }
    problem::AddJudgedSources(trials->summary().judged_sources(), kMaxJudgedSources, known);
    return known.size() < kMaxJudgedSources;
  });
  if (read.ok()) read = damage;
  // Of what is damaged something is judged again.
  if (!read.ok() && !absl::IsDataLoss(read)) return read;
  if (!read.ok()) spdlog::error("task {}: {}", task_id, std::string(read.message()));
  for (const std::string& digest : known) lease.add_judged_sources(digest);
  return absl::OkStatus();
}

absl::Status Unreadable(const std::string& key) {
  return absl::DataLossError(absl::StrCat(
      "entry '", key, "' of the archive cannot be read: was it written by a newer Warpsmith?"));
}

// What `bytes` are the field of, without reading them.
void Attach(int field, std::string bytes, google::protobuf::Message& message) {
  message.GetReflection()->MutableUnknownFields(&message)->AddLengthDelimited(field)->swap(bytes);
}

}  // namespace

absl::StatusOr<std::shared_ptr<const std::string>> Lender::ProblemOf(const Grant& grant) {
  const std::pair<std::string, std::string> key{grant.problem_blob, grant.workload};
  {
    absl::MutexLock lock(&mutex_);
    const auto found = problems_.find(key);
    if (found != problems_.end()) return found->second;
  }
  absl::StatusOr<std::string> bytes = store_->Get(grant.problem_blob);
  if (!bytes.ok()) return bytes.status();
  if (!grant.workload.empty()) {
    v1::Problem problem;
    if (absl::Status status = Parse(grant.problem_blob, *bytes, problem); !status.ok()) {
      return status;
    }
    auto part = problem::WithWorkloads(problem, {grant.workload});
    if (!part.ok()) return part.status();
    bytes = problem::CanonicalBytes(*part);
  }
  auto kept = std::make_shared<const std::string>(*std::move(bytes));
  absl::MutexLock lock(&mutex_);
  if (problem_bytes_ + kept->size() > kMaxProblemBytes) {
    problems_.clear();
    problem_bytes_ = 0;
  }
  if (problems_.emplace(key, kept).second) problem_bytes_ += kept->size();
  return kept;
}

absl::Status Lender::AddLease(const Grant& grant, v1::SynchronizeReply& reply) {
  v1::Lease& lease = *reply.add_start();
  lease.set_id(grant.lease_id);
  lease.set_task_id(grant.task_id);
  lease.set_fence(grant.fence);
  lease.set_seconds(grant.seconds);
  lease.set_policy(grant.policy);
  lease.set_seed(grant.seed);
  lease.set_revision(grant.revision);
  lease.set_why(grant.why);
  auto problem = ProblemOf(grant);
  if (!problem.ok()) return problem.status();
  Attach(v1::Lease::kProblemFieldNumber, **problem, lease);
  if (!grant.incumbent_blob.empty()) {
    absl::StatusOr<std::string> incumbent = store_->Get(grant.incumbent_blob);
    if (!incumbent.ok()) return incumbent.status();
    Attach(v1::Lease::kIncumbentFieldNumber, *std::move(incumbent), lease);
  }
  return AddJudgedSources(grant.task_id, *store_, lease);
}

absl::StatusOr<v1::SynchronizeReply> Lender::Reply(const SynchronizeAnswer& answer,
                                                   Damage& damage) {
  v1::SynchronizeReply reply;
  reply.add_features(rpc::kSealedTrials);
  reply.set_store(answer.store);
  reply.set_revision(answer.revision);
  for (const auto& [lease_id, trials] : answer.heard) {
    v1::Heard& heard = *reply.add_heard();
    heard.set_lease_id(lease_id);
    heard.set_trials(trials);
  }
  reply.set_session_id(answer.session_id);
  reply.set_next_sync_after_ms(answer.next_sync_after_ms);
  reply.set_lease_ttl_ms(answer.lease_ttl_ms);
  reply.set_quarantine(answer.set_aside);
  reply.set_most_result_bytes(answer.most_result_bytes);
  for (const std::string& id : answer.drop) reply.add_drop(id);
  for (const std::string& id : answer.recorded) reply.add_recorded(id);
  for (const Grant& grant : answer.start) {
    const absl::Status status = AddLease(grant, reply);
    if (status.ok()) continue;
    if (!absl::IsDataLoss(status) && !absl::IsNotFound(status)) return status;
    damage[grant.task_id] = status;
    reply.mutable_start()->RemoveLast();
  }
  return reply;
}

absl::StatusOr<v1::Task> ArchivedTask(const std::string& id, store::Store& store) {
  const std::string key = TaskKey(id);
  v1::TaskRecord record;
  bool found = false, read = false;
  const absl::Status status = store.ReadArchive(key, [&](const store::Entry& entry) {
    found = entry.key == key;
    read = found && record.ParseFromString(entry.bytes);
    return false;  // the key itself is the first that begins with it
  });
  if (!status.ok()) return status;
  if (!found) return NoSuchTask(id);
  if (!read) return Unreadable(key);
  return record.task();
}

absl::Status AddArchived(const ListTasks& list, store::Store& store, v1::ListReply& reply) {
  absl::Status damage;
  const auto take = [&](const store::Entry& entry, auto& record) {
    if (!record.ParseFromString(entry.bytes)) damage = Unreadable(entry.key);
    return damage.ok();
  };
  if (list.after.empty()) {
    const absl::Status read = store.ReadArchive(RunKey(list.run_id), [&](store::Entry entry) {
      v1::RunRecord record;
      if (take(entry, record)) *reply.add_runs() = record.run();
      return false;
    });
    if (!read.ok()) return read;
    if (reply.runs().empty() && damage.ok()) return NoSuchRun(list.run_id);
  }
  const absl::Status read = store.ReadArchive(TaskKey(list.run_id + "/"), [&](store::Entry entry) {
    if (entry.key <= TaskKey(list.after)) return true;
    if (list.page_tasks > 0 && reply.tasks_size() == list.page_tasks) {
      reply.set_more_after(reply.tasks().rbegin()->id());
      return false;
    }
    v1::TaskRecord record;
    if (take(entry, record)) *reply.add_tasks() = record.task();
    return damage.ok();
  });
  return read.ok() ? damage : read;
}

absl::StatusOr<v1::GetTaskReply> MakeReply(const v1::Task& task, bool with_trials,
                                           store::Store& store) {
  v1::GetTaskReply reply;
  *reply.mutable_task() = task;
  if (!task.problem_blob().empty()) {
    absl::Status status = Read(store, task.problem_blob(), *reply.mutable_problem());
    if (!status.ok()) return status;
  }
  if (!task.incumbent_blob().empty()) {
    absl::Status status = Read(store, task.incumbent_blob(), *reply.mutable_incumbent());
    if (!status.ok()) return status;
  }
  if (!with_trials) return reply;
  std::vector<v1::TrialBatch> batches;  // newest first
  size_t bytes = 0;
  absl::Status damage;
  absl::Status read = store.ReadFacts(task.id(), /*bodies=*/true, [&](store::Facts facts) {
    const std::string name = facts.name;
    absl::StatusOr<v1::SealedTrials> sealed = TrialsOf(std::move(facts));
    absl::StatusOr<v1::TrialBatch> batch =
        sealed.ok() ? problem::Open(*sealed) : absl::StatusOr<v1::TrialBatch>(sealed.status());
    if (!batch.ok()) {
      damage = absl::DataLossError(absl::StrCat("batch ", name, " of task ", task.id(), ": ",
                                                std::string(batch.status().message())));
      return false;
    }
    bytes += batch->ByteSizeLong();
    if (bytes > kMaxTrialBytes) return false;
    batches.push_back(*std::move(batch));
    return true;
  });
  if (read.ok()) read = damage;
  if (!read.ok()) return read;
  for (auto batch = batches.rbegin(); batch != batches.rend(); ++batch) {
    reply.mutable_trials()->MergeFrom(*batch);
  }
  return reply;
}

}  // namespace warpsmith::planner
