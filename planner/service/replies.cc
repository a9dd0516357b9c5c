#include "planner/service/replies.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/problem/problem.h"
#include "common/problem/verdict.h"
#include "planner/service/convert.h"

namespace warpsmith::planner {
namespace {

absl::Status Read(store::Store& store, const std::string& digest,
                  google::protobuf::Message& message) {
  absl::StatusOr<std::string> bytes = store.Get(digest);
  if (!bytes.ok()) return bytes.status();
  if (!message.ParseFromString(*bytes)) {
    return absl::DataLossError(
        absl::StrCat("the blob ", digest, " is not a ", message.GetTypeName()));
  }
  return absl::OkStatus();
}

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

// Adds the digest of a serialised Trial to `known` if it need not be judged again. Of a trial's
// hundred fields two are read: parsing all trials of a task took most of the time of a grant.
bool AddIfJudged(CodedInputStream& trial, std::set<std::string>& known) {
  std::string digest;
  int verdict = v1::VERDICT_UNSPECIFIED;
  while (const uint32_t tag = trial.ReadTag()) {
    const int field = WireFormatLite::GetTagFieldNumber(tag);
    bool read = true;
    if (field == v1::Trial::kSourceDigestFieldNumber) {
      read = WireFormatLite::ReadBytes(&trial, &digest);
    } else if (field == v1::Trial::kVerdictFieldNumber) {
      read = WireFormatLite::ReadPrimitive<int, WireFormatLite::TYPE_ENUM>(&trial, &verdict);
    } else {
      read = WireFormatLite::SkipField(&trial, tag);
    }
    if (!read) return false;
  }
  if (!trial.ConsumedEntireMessage()) return false;
  if (digest.empty() || !problem::IsKnown(static_cast<v1::Verdict>(verdict))) return true;
  known.insert(std::move(digest));
  return true;
}

// Likewise of a serialised TrialBatch, until `known` has kMaxJudgedSources. False: it is none.
bool AddJudged(const std::string& bytes, std::set<std::string>& known) {
  CodedInputStream batch(reinterpret_cast<const uint8_t*>(bytes.data()),
                         static_cast<int>(bytes.size()));
  while (const uint32_t tag = batch.ReadTag()) {
    if (known.size() >= kMaxJudgedSources) return true;
    if (WireFormatLite::GetTagFieldNumber(tag) != v1::TrialBatch::kTrialsFieldNumber) {
      if (!WireFormatLite::SkipField(&batch, tag)) return false;
      continue;
    }
    int size = 0;
    if (!batch.ReadVarintSizeAsInt(&size)) return false;
    if (size > static_cast<int>(bytes.size()) - batch.CurrentPosition()) return false;
    const CodedInputStream::Limit limit = batch.PushLimit(size);
    if (!AddIfJudged(batch, known)) return false;
    batch.PopLimit(limit);
  }
  return batch.ConsumedEntireMessage();
}

absl::Status AddJudgedSources(const std::vector<std::string>& trial_blobs, store::Store& store,
                              v1::Lease& lease) {
  std::set<std::string> known;
  // Newest first: what does not fit is the oldest.
  for (auto digest = trial_blobs.rbegin(); digest != trial_blobs.rend(); ++digest) {
    absl::StatusOr<std::string> bytes = store.Get(*digest);
    if (!bytes.ok()) return bytes.status();
    if (!AddJudged(*bytes, known)) {
      return absl::DataLossError(absl::StrCat("the blob ", *digest, " is not a batch of trials"));
    }
    if (known.size() >= kMaxJudgedSources) break;
  }
  for (const std::string& digest : known) lease.add_judged_sources(digest);
  return absl::OkStatus();
}

absl::Status AddLease(const Grant& grant, store::Store& store, v1::SynchronizeReply& reply) {
  v1::Lease& lease = *reply.add_start();
  lease.set_id(grant.lease_id);
  lease.set_task_id(grant.task_id);
  lease.set_fence(grant.fence);
  lease.set_seconds(grant.seconds);
  lease.set_policy(grant.policy);
  lease.set_seed(grant.seed);
  if (absl::Status status = Read(store, grant.problem_blob, *lease.mutable_problem());
      !status.ok()) {
    return status;
  }
  if (!grant.workload.empty()) {
    auto part = problem::WithWorkloads(lease.problem(), {grant.workload});
    if (!part.ok()) return part.status();
    *lease.mutable_problem() = *std::move(part);
  }
  if (!grant.incumbent_blob.empty()) {
    absl::Status status = Read(store, grant.incumbent_blob, *lease.mutable_incumbent());
    if (!status.ok()) return status;
  }
  return AddJudgedSources(grant.trial_blobs, store, lease);
}

}  // namespace

absl::StatusOr<v1::SynchronizeReply> MakeReply(const SynchronizeAnswer& answer,
                                               store::Store& store) {
  v1::SynchronizeReply reply;
  reply.set_session_id(answer.session_id);
  reply.set_next_sync_after_ms(answer.next_sync_after_ms);
  reply.set_lease_ttl_ms(answer.lease_ttl_ms);
  reply.set_quarantine(answer.quarantine);
  for (const std::string& id : answer.drop) reply.add_drop(id);
  for (const std::string& id : answer.recorded) reply.add_recorded(id);
  for (const Grant& grant : answer.start) {
    if (absl::Status status = AddLease(grant, store, reply); !status.ok()) return status;
  }
  return reply;
}

absl::StatusOr<v1::GetTaskReply> MakeReply(const v1::Task& task, bool with_trials,
                                           store::Store& store) {
  v1::GetTaskReply reply;
  *reply.mutable_task() = task;
  if (absl::Status status = Read(store, task.problem_blob(), *reply.mutable_problem());
      !status.ok()) {
    return status;
  }
  if (!task.incumbent_blob().empty()) {
    absl::Status status = Read(store, task.incumbent_blob(), *reply.mutable_incumbent());
    if (!status.ok()) return status;
  }
  if (!with_trials) return reply;
  std::vector<v1::TrialBatch> batches;  // newest first
  size_t bytes = 0;
  for (int i = task.trial_blobs_size() - 1; i >= 0 && bytes < kMaxTrialBytes; --i) {
    v1::TrialBatch& batch = batches.emplace_back();
    if (absl::Status status = Read(store, task.trial_blobs(i), batch); !status.ok()) return status;
    bytes += batch.ByteSizeLong();
    if (bytes > kMaxTrialBytes) batches.pop_back();
  }
  for (auto batch = batches.rbegin(); batch != batches.rend(); ++batch) {
    reply.mutable_trials()->MergeFrom(*batch);
  }
  return reply;
}

}  // namespace warpsmith::planner
