#include "bench/planner/sample.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/util/json_util.h>
#include <google/protobuf/wire_format_lite.h>

#include <functional>
#include <initializer_list>
#include <random>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/base/sha256.h"
#include "common/problem/sealed_trials.h"

namespace warpsmith::bench {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;
using google::protobuf::io::CodedOutputStream;

// ---- writing -----------------------------------------------------------------------------------

void AppendVarint(uint64_t value, std::string& out) {
  uint8_t bytes[10];
  const uint8_t* end = CodedOutputStream::WriteVarint64ToArray(value, bytes);
  out.append(reinterpret_cast<const char*>(bytes), end - bytes);
}

void AppendBytes(int field, std::string_view bytes, std::string& out) {
  AppendVarint(WireFormatLite::MakeTag(field, WireFormatLite::WIRETYPE_LENGTH_DELIMITED), out);
  AppendVarint(bytes.size(), out);
  out.append(bytes);
}

// Several parts of one submessage.
void AppendBytes(int field, std::initializer_list<std::string_view> parts, std::string& out) {
  size_t size = 0;
  for (const std::string_view part : parts) size += part.size();
  AppendVarint(WireFormatLite::MakeTag(field, WireFormatLite::WIRETYPE_LENGTH_DELIMITED), out);
  AppendVarint(size, out);
  for (const std::string_view part : parts) out.append(part);
}

// ---- reading -----------------------------------------------------------------------------------

using OnField = std::function<void(int number, std::string_view whole, std::string_view payload)>;

// `whole` with its tag; `payload` of those that have a length.
bool ForEachField(std::string_view bytes, const OnField& on_field) {
  CodedInputStream input(reinterpret_cast<const uint8_t*>(bytes.data()),
                         static_cast<int>(bytes.size()));
  while (true) {
    const int start = input.CurrentPosition();
    const uint32_t tag = input.ReadTag();
    if (tag == 0) return input.ConsumedEntireMessage();
    std::string_view payload;
    if (WireFormatLite::GetTagWireType(tag) == WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
      uint32_t length = 0;
      if (!input.ReadVarint32(&length)) return false;
      const int at = input.CurrentPosition();
      if (!input.Skip(static_cast<int>(length))) return false;
      payload = bytes.substr(at, length);
    } else if (!WireFormatLite::SkipField(&input, tag)) {
      return false;
    }
    on_field(WireFormatLite::GetTagFieldNumber(tag),
             bytes.substr(start, input.CurrentPosition() - start), payload);
  }
}

int64_t MeanBytes(const std::vector<std::string>& list) {
  int64_t sum = 0;
  for (const std::string& one : list) sum += static_cast<int64_t>(one.size());
  return list.empty() ? 0 : sum / static_cast<int64_t>(list.size());
}

// Such as no compression makes smaller.
std::string RandomBytes(int64_t size) {
  std::mt19937_64 random(1);
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

absl::Status AddFile(const std::string& path, const std::string& cubin,
                     std::vector<std::string>& trials, std::vector<std::string>& incumbents) {
  absl::StatusOr<std::string> text = base::ReadFile(path);
  if (!text.ok()) return text.status();
  v1::GetTaskReply task;
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;  // `show` adds who gained what
  const auto parsed = google::protobuf::util::JsonStringToMessage(*text, &task, options);
  if (!parsed.ok() || !task.has_incumbent() || task.trials().trials_size() == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        path,
        ": not a task with trials and an incumbent; make it with `warpsmith show TASK -o "
        "json` after a run"));
  }
  for (v1::Trial& trial : *task.mutable_trials()->mutable_trials()) {
    trial.clear_id();
    trial.clear_task_id();
    trial.clear_source_digest();
    trials.push_back(trial.SerializeAsString());
  }
  v1::Incumbent& incumbent = *task.mutable_incumbent();
  incumbent.mutable_trial()->clear_id();
  incumbent.mutable_trial()->clear_task_id();
  incumbent.clear_speedup();
  incumbent.clear_beat_trial_id();
  if (!cubin.empty()) incumbent.add_compressed_cubins(cubin);
  incumbents.push_back(incumbent.SerializeAsString());
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Sample> Sample::Read(const std::vector<std::string>& paths, int64_t cubin_bytes) {
  Sample sample;
  const std::string cubin = RandomBytes(cubin_bytes);
  for (const std::string& path : paths) {
    absl::Status status = AddFile(path, cubin, sample.trials_, sample.incumbents_);
    if (!status.ok()) return status;
  }
  if (sample.trials_.empty()) return absl::InvalidArgumentError("no recorded task was named");
  return sample;
}

v1::SealedTrials Sample::Sealed(const LeaseKey& lease, int64_t first_trial, int trials) const {
  std::string batch;
  v1::TrialSummary summary;
  for (int64_t number = first_trial; number < first_trial + trials; ++number) {
    // As the worker names trials. The digest is of nothing, and as random as a real one.
    const std::string id = absl::StrCat(lease.lease_id, "/", number);
    const std::string hex = base::Sha256Hex(id), digest = absl::HexStringToBytes(hex);
    summary.mutable_judged_sources()->append(digest);
    std::string head;
    AppendBytes(v1::Trial::kIdFieldNumber, id, head);
    AppendBytes(v1::Trial::kTaskIdFieldNumber, lease.task_id, head);
    AppendBytes(v1::Trial::kSourceDigestFieldNumber, hex, head);
    AppendBytes(v1::TrialBatch::kTrialsFieldNumber,
                {head, trials_[static_cast<size_t>(number) % trials_.size()]}, batch);
  }
  summary.set_trials(trials);
  summary.set_judged(trials);
  summary.set_seconds(trials);
  summary.set_specialist("memory");
  v1::SpecialistCount& count = *summary.add_counts();
  count.set_specialist("memory");
  count.set_trials(trials);
  count.set_judged(trials);
  count.set_seconds(trials);
  return problem::Seal(batch, std::move(summary), first_trial);
}

double Sample::SealedBytesPerTrial(int trials) const {
  return static_cast<double>(
             Sealed({"r1/task@sm_90a#1", "r1/task@sm_90a", 1}, 1, trials).ByteSizeLong()) /
         trials;
}

std::string Sample::IncumbentBytes(const std::string& trial_id, double speedup) const {
  // What stands twice is merged, the last value wins: the recorded one under this id.
  v1::Incumbent own;
  own.mutable_trial()->set_id(trial_id);
  own.set_speedup(speedup);
  const size_t which = std::hash<std::string>()(trial_id) % incumbents_.size();
  return absl::StrCat(incumbents_[which], own.SerializeAsString());
}

std::string Sample::AppendResult(const LeaseKey& lease, int64_t first_trial, int trials,
                                 double speedup, std::string& request) const {
  v1::LeaseResult head;
  head.set_lease_id(lease.lease_id);
  head.set_task_id(lease.task_id);
  head.set_fence(lease.fence);
  std::string result = head.SerializeAsString();
  std::string trial_id;
  if (speedup > 0) {
    trial_id = absl::StrCat(lease.lease_id, "/", first_trial);
    AppendBytes(v1::LeaseResult::kIncumbentFieldNumber, IncumbentBytes(trial_id, speedup), result);
  }
  if (trials > 0) {
    AppendBytes(v1::LeaseResult::kSealedFieldNumber,
                Sealed(lease, first_trial, trials).SerializeAsString(), result);
  }
  AppendBytes(v1::SynchronizeRequest::kResultsFieldNumber, result, request);
  return trial_id;
}

int64_t Sample::MeanTrialBytes() const { return MeanBytes(trials_); }
int64_t Sample::MeanIncumbentBytes() const { return MeanBytes(incumbents_); }

bool ReadReply(std::string_view bytes, v1::SynchronizeReply& reply) {
  std::string rest;
  std::vector<std::string> leases;
  bool whole = true;
  whole &= ForEachField(bytes, [&](int number, std::string_view field, std::string_view payload) {
    if (number != v1::SynchronizeReply::kStartFieldNumber) {
      rest.append(field);
      return;
    }
    std::string& lease = leases.emplace_back();
    whole &= ForEachField(payload, [&](int inner, std::string_view part, std::string_view) {
      const bool skipped = inner == v1::Lease::kProblemFieldNumber ||
                           inner == v1::Lease::kIncumbentFieldNumber ||
                           inner == v1::Lease::kJudgedSourcesFieldNumber;
      if (!skipped) lease.append(part);
    });
  });
  if (!whole || !reply.ParseFromString(rest)) return false;
  for (const std::string& lease : leases) {
    if (!reply.add_start()->ParseFromString(lease)) return false;
  }
  return true;
}

}  // namespace warpsmith::bench
