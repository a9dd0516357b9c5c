#include "planner/service/convert.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/sha256.h"
#include "common/base/text.h"
#include "common/problem/problem.h"
#include "common/problem/speedup.h"
#include "common/problem/verdict.h"
#include "planner/core/limits.h"

namespace warpsmith::planner {
namespace {

constexpr char kDefaultPolicy[] = "rules";

// What is said of a result beside its blob, which has it whole.
std::string Label(const std::string& text) { return base::Shortened(text, kMaxLabelBytes); }
std::string Text(const std::string& text) { return base::Shortened(text, kMaxTextBytes); }

void Count(const v1::Trial& trial, v1::TrialsRecorded& recorded) {
  const std::string specialist = Label(trial.specialist());
  v1::SpecialistCount& count = CountOf(specialist, *recorded.mutable_counts());
  const bool judged = problem::IsJudged(trial.verdict());
  count.set_trials(count.trials() + 1);
  count.set_judged(count.judged() + judged);
  count.set_accepted(count.accepted() + (trial.verdict() == v1::ACCEPTED));
  count.set_seconds(count.seconds() + trial.seconds());
  recorded.set_trials(recorded.trials() + 1);
  recorded.set_judged(recorded.judged() + judged);
  recorded.set_seconds(recorded.seconds() + trial.seconds());
  recorded.set_specialist(specialist);
  if (trial.verdict() == v1::IMPLAUSIBLE) {
    recorded.set_implausible(Text(absl::StrCat("trial ", trial.id(), ": ", trial.reason())));
  }
}

v1::ResultAccepted Summary(const v1::Incumbent& incumbent) {
  v1::ResultAccepted summary;
  const v1::Trial& trial = incumbent.trial();
  summary.set_trial_id(trial.id());
  summary.set_beat_trial_id(incumbent.beat_trial_id());
  summary.set_speedup(incumbent.speedup());
  summary.set_speedup_eager(incumbent.speedup_eager());
  summary.set_best_us(trial.timing().median_us());
  summary.set_graph_us(incumbent.times().graph_us());
  summary.set_light_us(incumbent.light_us());
  summary.set_held_by(Text(incumbent.held_by()));
  summary.set_peak_bytes(incumbent.peak_bytes());
  summary.set_oracle(Label(trial.accuracy().oracle().empty() ? incumbent.baselines().oracle()
                                                             : trial.accuracy().oracle()));
  summary.set_specialist(Label(trial.specialist()));
  summary.set_action(Text(trial.action()));
  if (const v1::Baseline* strongest = problem::Strongest(incumbent.baselines())) {
    summary.set_baseline_us(problem::QuickestUs(*strongest));
    summary.set_baseline_name(Label(problem::QuickestName(*strongest)));
  }
  return summary;
}

absl::Status TooMany(const char* what, int count, int limit) {
  return absl::InvalidArgumentError(
      absl::StrCat(count, " ", what, " in one call: send at most ", limit));
}

}  // namespace

std::string CanonicalBytes(const google::protobuf::Message& message) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream output(&stream);
    output.SetSerializationDeterministic(true);
    message.SerializeToCodedStream(&output);
  }
  return bytes;
}

std::string AddBlob(const google::protobuf::Message& message, Blobs& blobs) {
  std::string bytes = CanonicalBytes(message);
  std::string digest = base::Sha256Hex(bytes);
  blobs.emplace(digest, std::move(bytes));
  return digest;
}

absl::StatusOr<Synchronize> ToCommand(const v1::SynchronizeRequest& request, Blobs& blobs) {
  if (request.results_size() > kMaxResults) {
    return TooMany("results", request.results_size(), kMaxResults);
  }
  if (request.leases_size() > kMaxLeases) {
    return TooMany("leases", request.leases_size(), kMaxLeases);
  }
  Synchronize command;
  command.worker = request.worker();
  command.session_id = request.session_id();
  command.instance = request.instance();
  command.follows.assign(request.follows().begin(), request.follows().end());
  command.worker.DiscardUnknownFields();  // of a newer worker; they would go into the log
  command.worker.set_device_name(Label(request.worker().device_name()));
  command.worker.set_version(Label(request.worker().version()));
  command.worker.set_health_reason(Text(request.worker().health_reason()));
  for (const v1::LeaseStatus& sent : request.leases()) {
    v1::LeaseStatus& status = command.leases.emplace_back(sent);
    status.set_specialist(Label(sent.specialist()));
    status.set_failure(Text(sent.failure()));
    status.set_reason(Text(sent.reason()));
  }
  command.slots = request.slots();
  for (const v1::LeaseResult& sent : request.results()) {
    if (sent.trials().trials_size() > kMaxTrialsInBatch) {
      return TooMany("trials of a lease", sent.trials().trials_size(), kMaxTrialsInBatch);
    }
    Result& result = command.results.emplace_back();
    result.lease_id = sent.lease_id();
    result.task_id = sent.task_id();
    result.fence = sent.fence();
    if (sent.has_incumbent()) {
      result.incumbent = Summary(sent.incumbent());
      result.incumbent.set_incumbent_blob(AddBlob(sent.incumbent(), blobs));
    }
    if (sent.trials().trials_size() > 0) {
      for (const v1::Trial& trial : sent.trials().trials()) Count(trial, result.trials);
      result.trials.set_batch_blob(AddBlob(sent.trials(), blobs));
    }
  }
  return command;
}

absl::StatusOr<Submit> ToCommand(const v1::SubmitRequest& request, Blobs& blobs) {
  if (absl::Status status = problem::Validate(request.problems()); !status.ok()) return status;
  Submit command;
  command.request_id = request.request_id();
  command.name = request.problems().name();
  command.arch = request.arch();
  command.seconds_per_task = request.seconds_per_task();
  command.policy = request.policy().empty() ? kDefaultPolicy : request.policy();
  for (const v1::Problem& problem : request.problems().problems()) {
    Submit::Problem& submitted = command.problems.emplace_back();
    submitted.name = problem.name();
    submitted.blob = AddBlob(problem, blobs);
    for (const v1::Workload& workload : problem.workloads()) {
      submitted.workloads.push_back(workload.name());
    }
  }
  return command;
}

std::vector<std::string> TakeNamed(const std::vector<v1::Event>& events, Blobs& blobs) {
  std::vector<std::string> taken;
  const auto take = [&](const std::string& digest) {
    const auto found = blobs.find(digest);
    if (found == blobs.end()) return;
    taken.push_back(std::move(found->second));
    blobs.erase(found);
  };
  for (const v1::Event& event : events) {
    if (event.has_result_accepted()) take(event.result_accepted().incumbent_blob());
    if (event.has_trials_recorded()) take(event.trials_recorded().batch_blob());
    for (const v1::Task& task : event.run_submitted().tasks()) take(task.problem_blob());
  }
  return taken;
}

std::vector<std::string> Serialize(const std::vector<v1::Event>& events) {
  std::vector<std::string> bytes;
  bytes.reserve(events.size());
  for (const v1::Event& event : events) bytes.push_back(CanonicalBytes(event));
  return bytes;
}

}  // namespace warpsmith::planner
