#include "worker/daemon/outbox.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/problem/sealed_trials.h"
#include "common/rpc/text.h"
#include "worker/daemon/log.h"

namespace warpsmith::daemon {
namespace {

// Kinds of records. T and I hold a LeaseResult with one trial (its number in sealed.first) or an
// incumbent; S and R the number of the batch that was closed or recorded; B a whole closed batch,
// of a file written anew.
constexpr char kTrial = 'T', kIncumbent = 'I', kClosed = 'S', kRecorded = 'R', kWhole = 'B';

struct Header {
  uint32_t bytes;  // of the payload
  uint32_t check;  // of kind and payload
  char kind;
};
constexpr size_t kHeaderBytes = 9;

// FNV-1a: finds the torn tail of a log that only its writer writes.
uint32_t Check(char kind, const char* data, size_t size) {
  uint32_t hash = 2166136261u;
  auto mix = [&hash](char c) { hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u; };
  mix(kind);
  for (size_t i = 0; i < size; ++i) mix(data[i]);
  return hash;
}

std::string Encode(char kind, const std::string& payload) {
  const Header header{static_cast<uint32_t>(payload.size()),
                      Check(kind, payload.data(), payload.size()), kind};
  std::string record;
  record.reserve(kHeaderBytes + payload.size());
  record.resize(kHeaderBytes);
  std::memcpy(&record[0], &header.bytes, 4);
  std::memcpy(&record[4], &header.check, 4);
  record[8] = header.kind;
  record += payload;
  return record;
}

std::string EncodeNumber(int64_t number) {
  return std::string(reinterpret_cast<const char*>(&number), sizeof number);
}

bool Names(const google::protobuf::RepeatedPtrField<std::string>& ids, const std::string& id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

// Number of the last trial of a closed batch, or of an open one.
int64_t LastTrial(const v1::LeaseResult& result) {
  const int64_t sealed = result.sealed().summary().trials();
  return result.sealed().first() - 1 + (sealed > 0 ? sealed : result.trials().trials_size());
}

// Up to which number the reply has trials of the lease; 0: it says nothing of it.
int64_t HeardOf(const v1::SynchronizeReply& reply, const std::string& lease_id) {
  int64_t trials = 0;
  for (const v1::Heard& heard : reply.heard()) {
    if (heard.lease_id() == lease_id) trials = std::max(trials, heard.trials());
  }
  return trials;
}

bool HasContent(const v1::LeaseResult& result) {
  return result.has_incumbent() || result.has_sealed() || result.trials().trials_size() > 0;
}

bool IsOfLittleUse(v1::Verdict verdict) {
  return verdict == v1::NOT_LOWERED || verdict == v1::REFUSED || verdict == v1::DUPLICATE;
}

// What counts of it.
v1::Trial Thinned(const v1::Trial& trial) {
  v1::Trial thin;
  thin.set_id(trial.id());
  thin.set_task_id(trial.task_id());
  thin.set_specialist(trial.specialist());
  thin.set_policy(trial.policy());
  thin.set_source_digest(trial.source_digest());
  thin.set_verdict(trial.verdict());
  thin.set_reason("no more of it was kept: too much waited for the planner");
  thin.set_seconds(trial.seconds());
  thin.set_judge_seconds(trial.judge_seconds());
  thin.set_at_unix_ms(trial.at_unix_ms());
  return thin;
}

v1::LeaseResult Of(const v1::Lease& lease) {
  v1::LeaseResult one;
  one.set_lease_id(lease.id());
  one.set_task_id(lease.task_id());
  one.set_fence(lease.fence());
  return one;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Outbox>> Outbox::Open(std::unique_ptr<LogFile> file) {
  std::unique_ptr<Outbox> outbox(new Outbox(std::move(file)));
  if (absl::Status replayed = outbox->Replay(); !replayed.ok()) return replayed;
  if (!outbox->empty()) {
    telemetry::Log(told::kOutboxReplayed,
                   {{"batches", outbox->batches_.size()}, {"bytes", outbox->bytes()}});
  }
  return outbox;
}

absl::StatusOr<std::unique_ptr<Outbox>> Outbox::Open(const std::string& path) {
  absl::StatusOr<std::unique_ptr<LogFile>> file = OpenLogFile(path);
  if (file.ok()) return Open(*std::move(file));
  if (!absl::IsFailedPrecondition(file.status())) return file.status();
  return absl::FailedPreconditionError(
      absl::StrCat(std::string(file.status().message()),
                   ": a worker of this name runs already. Stop it or choose another --name"));
}

absl::Status Outbox::Replay() {
  absl::StatusOr<std::string> read = file_->Read();
  if (!read.ok()) return read.status();
  const std::string& log = *read;
  size_t at = 0;
  while (log.size() - at >= kHeaderBytes) {
    Header header;
    std::memcpy(&header.bytes, &log[at], 4);
    std::memcpy(&header.check, &log[at + 4], 4);
    header.kind = log[at + 8];
    if (log.size() - at - kHeaderBytes < header.bytes) break;
    const char* payload = log.data() + at + kHeaderBytes;
    if (Check(header.kind, payload, header.bytes) != header.check) break;
    if (!ReplayRecord(header.kind, payload, header.bytes)) break;
    at += kHeaderBytes + header.bytes;
  }
  file_bytes_ = static_cast<int64_t>(at);
  if (at == log.size()) return absl::OkStatus();
  // Of what was being written when the process died, or is damaged, nothing can be told.
  telemetry::Log(told::kOutboxCut, {{"cut", log.size() - at}, {"bytes", log.size()}});
  return file_->Truncate(file_bytes_);
}

bool Outbox::ReplayRecord(char kind, const char* payload, size_t bytes) {
  if (kind == kTrial || kind == kIncumbent || kind == kWhole) {
    v1::LeaseResult one;
    if (!one.ParseFromArray(payload, static_cast<int>(bytes))) return false;
    if (kind == kWhole) {
      PutWhole(std::move(one));
    } else {
      Put(kind, std::move(one));
    }
    return true;
  }
  int64_t number;
  if (bytes != sizeof number) return false;
  std::memcpy(&number, payload, sizeof number);
  if (kind == kRecorded) Erase(number);
  for (Batch& batch : batches_) {
    if (kind == kClosed && batch.number == number) Close(batch);
  }
  return true;
}

void Outbox::Log(char kind, const std::string& payload) {
  if (behind_) return;
  const std::string record = Encode(kind, payload);
  if (absl::Status written = file_->Append(record); !written.ok()) return FallBehind(written);
  file_bytes_ += static_cast<int64_t>(record.size());
}

void Outbox::Sync() {
  if (behind_) return;
  if (absl::Status synced = file_->Sync(); !synced.ok()) FallBehind(synced);
}

void Outbox::FallBehind(const absl::Status& why) {
  behind_ = true;
  telemetry::Log(told::kOutboxAway, {{"reason", why.message()}});
}

void Outbox::CatchUp() {
  if (!behind_ || !Rewrite().ok()) return;
  behind_ = false;
  Sync();
  if (!behind_) telemetry::Log(told::kOutboxBack, {});
}

// The file holds what memory does, and nothing of the past. All batches are closed by it.
absl::Status Outbox::Rewrite() {
  std::string log;
  for (Batch& batch : batches_) Close(batch);
  for (const Batch& batch : batches_) log += Encode(kWhole, batch.result.SerializeAsString());
  if (absl::Status replaced = file_->Replace(log); !replaced.ok()) return replaced;
  file_bytes_ = static_cast<int64_t>(log.size());
  next_number_ = 0;
  for (Batch& batch : batches_) batch.number = next_number_++;
  return absl::OkStatus();
}

// The newest batch of the lease that was not sent yet and has room, or a new one.
Outbox::Batch& Outbox::OpenBatch(const v1::LeaseResult& one) {
  if (!batches_.empty()) {
    Batch& last = batches_.back();
    // Numbers of a batch have no gaps.
    const int64_t first = one.sealed().first();
    const bool follows =
        one.trials().trials_size() == 0 || last.result.trials().trials_size() == 0 ||
        (first == 0 ? last.result.sealed().first() == 0
                    : last.result.sealed().first() > 0 && first == LastTrial(last.result) + 1);
    if (!last.closed && last.result.lease_id() == one.lease_id() &&
        last.result.fence() == one.fence() && last.bytes < kMaxBatchBytes &&
        last.result.trials().trials_size() < kMaxBatchTrials && follows) {
      return last;
    }
  }
  Batch& batch = batches_.emplace_back();
  batch.number = next_number_++;
  batch.result.set_lease_id(one.lease_id());
  batch.result.set_task_id(one.task_id());
  batch.result.set_fence(one.fence());
  return batch;
}

namespace {

// `next` takes the place of `waiting`, which the planner never hears of: whom that beat, it beat
// too.
void TakePlace(const v1::Incumbent& waiting, v1::Incumbent& next) {
  if (next.beat_trial_id() == waiting.trial().id() || next.trial().id() == waiting.trial().id()) {
    next.set_beat_trial_id(waiting.beat_trial_id());
  }
}

}  // namespace

void Outbox::Put(char kind, v1::LeaseResult&& one) {
  Batch* batch = nullptr;
  if (kind == kIncumbent) {
    // Only the last incumbent of a lease matters: it takes the place of one that still waits.
    for (Batch& waiting : batches_) {
      if (!waiting.closed && waiting.result.has_incumbent() &&
          waiting.result.lease_id() == one.lease_id()) {
        batch = &waiting;
      }
    }
  }
  if (batch == nullptr) batch = &OpenBatch(one);
  const int64_t before = batch->bytes;
  if (kind == kIncumbent) {
    if (batch->result.has_incumbent()) {
      TakePlace(batch->result.incumbent(), *one.mutable_incumbent());
    }
    batch->bytes -= batch->result.incumbent().ByteSizeLong();
    batch->bytes += one.incumbent().ByteSizeLong();
    *batch->result.mutable_incumbent() = std::move(*one.mutable_incumbent());
  } else {
    batch->bytes += one.trials().ByteSizeLong();
    // Without a number: of a file from before there were some.
    if (batch->result.trials().trials_size() == 0 && one.sealed().first() > 0) {
      batch->result.mutable_sealed()->set_first(one.sealed().first());
    }
    for (v1::Trial& trial : *one.mutable_trials()->mutable_trials()) {
      *batch->result.mutable_trials()->add_trials() = std::move(trial);
    }
  }
  bytes_ += batch->bytes - before;
}

void Outbox::PutWhole(v1::LeaseResult&& result) {
  Batch& batch = batches_.emplace_back();
  batch.number = next_number_++;
  batch.closed = true;
  batch.result = std::move(result);
  Measure(batch);
}

void Outbox::Measure(Batch& batch) {
  bytes_ -= batch.bytes;
  batch.bytes = static_cast<int64_t>(batch.result.ByteSizeLong());
  bytes_ += batch.bytes;
}

void Outbox::Close(Batch& batch) {
  batch.closed = true;
  v1::LeaseResult& result = batch.result;
  if (result.sealed().first() == 0 || result.trials().trials_size() == 0) return;
  *result.mutable_sealed() = problem::Seal(result.trials(), result.sealed().first());
  result.clear_trials();
  Measure(batch);
}

void Outbox::Unseal(Batch& batch) {
  if (!batch.result.has_sealed()) return;
  absl::StatusOr<v1::TrialBatch> trials = problem::Open(batch.result.sealed());
  if (!trials.ok()) telemetry::Log(told::kOutboxUnread, {{"reason", trials.status().message()}});
  batch.result.clear_sealed();
  if (trials.ok()) *batch.result.mutable_trials() = *std::move(trials);
  Measure(batch);
}

bool Outbox::KeepAfter(int64_t heard, Batch& batch) {
  v1::LeaseResult& result = batch.result;
  const int64_t first = result.sealed().first();
  if (heard < first) return true;
  if (heard >= LastTrial(result)) return false;
  absl::StatusOr<v1::TrialBatch> trials = problem::Open(result.sealed());
  if (!trials.ok()) return false;
  trials->mutable_trials()->DeleteSubrange(0, static_cast<int>(heard + 1 - first));
  *result.mutable_sealed() = problem::Seal(*trials, heard + 1);
  Measure(batch);
  return true;
}

// Trials that are dropped have numbers too: the planner sees how many it lacks.
int64_t Outbox::NextTrial(const std::string& lease_id) {
  if (lease_id == numbered_lease_) return ++last_trial_;
  numbered_lease_ = lease_id;
  last_trial_ = 0;
  for (const Batch& batch : batches_) {
    if (batch.result.lease_id() == lease_id && batch.result.has_sealed()) {
      last_trial_ = std::max(last_trial_, LastTrial(batch.result));
    }
  }
  return ++last_trial_;
}

void Outbox::Add(char kind, v1::LeaseResult&& one) {
  // A string that is not UTF-8 could be read back neither from the file nor by the planner.
  std::string bytes = one.SerializeAsString();
  if (!rpc::IsRepaired(one, bytes)) {
    rpc::RepairStrings(one);
    bytes = one.SerializeAsString();
  }
  Log(kind, bytes);
  if (kind == kIncumbent) Sync();
  Put(kind, std::move(one));
}

void Outbox::AddTrial(const v1::Lease& lease, const v1::Trial& trial) {
  const int64_t number = NextTrial(lease.id());
  if (bytes_ >= kMaxOutboxBytes) {
    if (dropped_++ == 0) {
      telemetry::Log(told::kOutboxFull, {{"bytes", bytes_}});
    }
    return;
  }
  v1::LeaseResult one = Of(lease);
  const bool thin = bytes_ >= kThinOutboxBytes && IsOfLittleUse(trial.verdict());
  *one.mutable_trials()->add_trials() = thin ? Thinned(trial) : trial;
  one.mutable_sealed()->set_first(number);
  Add(kTrial, std::move(one));
}

void Outbox::AddIncumbent(const v1::Lease& lease, const v1::Incumbent& incumbent) {
  v1::LeaseResult one = Of(lease);
  *one.mutable_incumbent() = incumbent;
  Add(kIncumbent, std::move(one));
  CatchUp();
}

void Outbox::Wait() {
  for (Batch& batch : batches_) batch.in_flight = batch.ahead = false;
  more_ = !batches_.empty();
}

std::vector<v1::LeaseResult> Outbox::Next(int64_t max_bytes, Form form) {
  CatchUp();
  std::vector<v1::LeaseResult> results;
  int64_t total = 0;
  more_ = false;
  bool closes = false;
  const auto close = [&](Batch& batch) {
    if (batch.closed) return;
    Log(kClosed, EncodeNumber(batch.number));
    closes = true;
    Close(batch);
  };
  const bool crowded = form == Form::kSealed && bytes_ > max_bytes;
  for (Batch& batch : batches_) {
    batch.in_flight = false;
    batch.ahead = crowded && batch.result.has_incumbent();
    if (!batch.ahead) continue;
    close(batch);
    v1::LeaseResult& incumbent = results.emplace_back(batch.result);
    incumbent.clear_trials();
    incumbent.clear_sealed();
  }
  for (Batch& batch : batches_) {
    close(batch);
    if (form == Form::kPlain) Unseal(batch);
    if (total > 0 && total + batch.bytes > max_bytes) {
      more_ = true;
      break;
    }
    batch.in_flight = true;
    total += batch.bytes;
    v1::LeaseResult rest = batch.result;
    if (batch.ahead) rest.clear_incumbent();
    if (HasContent(rest)) results.push_back(std::move(rest));
  }
  if (closes) Sync();
  return results;
}

void Outbox::Erase(int64_t number) {
  for (auto batch = batches_.begin(); batch != batches_.end(); ++batch) {
    if (batch->number != number) continue;
    bytes_ -= batch->bytes;
    batches_.erase(batch);
    return;
  }
}

void Outbox::Forget(const std::vector<int64_t>& numbers) {
  if (numbers.empty()) return;
  for (int64_t number : numbers) Erase(number);
  if (!batches_.empty()) {
    for (int64_t number : numbers) Log(kRecorded, EncodeNumber(number));
    return ForgetPast();
  }
  next_number_ = 0;
  if (absl::Status cut = file_->Truncate(0); !cut.ok()) return FallBehind(cut);
  behind_ = false;
  file_bytes_ = 0;
}

// Where it is never empty when the planner answers, the file would grow without end.
void Outbox::ForgetPast() {
  if (behind_ || file_bytes_ < past_from_ || file_bytes_ < 2 * bytes_ + kMaxPastBytes) return;
  past_from_ = 0;
  if (Rewrite().ok()) return Sync();
  past_from_ = file_bytes_ + kMaxPastBytes;  // the disk is too full: later
}

void Outbox::Recorded(const v1::SynchronizeReply& reply) {
  std::vector<int64_t> gone;
  for (Batch& batch : batches_) {
    if (!batch.in_flight && !batch.ahead) continue;
    v1::LeaseResult& result = batch.result;
    const bool refused = Names(reply.drop(), result.lease_id());
    if (!batch.in_flight && !refused) {
      // Its trials are still to come.
      if (!Names(reply.recorded(), result.incumbent().trial().id())) continue;
      result.clear_incumbent();
      Measure(batch);
      if (!HasContent(result)) gone.push_back(batch.number);
      continue;
    }
    const bool incumbent =
        !result.has_incumbent() || Names(reply.recorded(), result.incumbent().trial().id());
    const bool trials = result.has_sealed() ? !KeepAfter(HeardOf(reply, result.lease_id()), batch)
                                            : Names(reply.recorded(), result.lease_id());
    if (refused || (incumbent && trials)) gone.push_back(batch.number);
  }
  Forget(gone);
}

int Outbox::Discard() {
  std::vector<int64_t> gone;
  int sent = 0;
  for (Batch& batch : batches_) {
    if (!batch.in_flight && !batch.ahead) continue;
    ++sent;
    batch.result.clear_incumbent();
    if (!batch.in_flight) Measure(batch);
    if (batch.in_flight || !HasContent(batch.result)) gone.push_back(batch.number);
  }
  Forget(gone);
  return sent;
}

bool Outbox::HasUnsent(const std::string& lease_id) const {
  for (const Batch& batch : batches_) {
    if (!batch.in_flight && batch.result.lease_id() == lease_id) return true;
  }
  return false;
}

}  // namespace warpsmith::daemon
