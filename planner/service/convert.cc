#include "planner/service/convert.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/sha256.h"
#include "common/base/text.h"
#include "common/problem/problem.h"
#include "common/problem/speedup.h"
#include "planner/core/limits.h"

namespace warpsmith::planner {
namespace {

constexpr char kDefaultPolicy[] = "rules";
constexpr size_t kMaxSecretBytes = 256;
constexpr size_t kSecretDigits = 32;  // of its digest: 128 bits are enough

// What is said of a result beside its blob, which has it whole.
std::string Label(const std::string& text) { return base::Shortened(text, kMaxLabelBytes); }
std::string Text(const std::string& text) { return base::Shortened(text, kMaxTextBytes); }

// The same of a message's field: nearly all are short enough, and stay as they are.
template <auto kGet, auto kMutable, typename Message>
void Cut(Message& message, size_t bytes) {
  if ((message.*kGet)().size() > bytes) {
    *(message.*kMutable)() = base::Shortened((message.*kGet)(), bytes);
  }
}

// Fields of a newer worker would go into the log. Few have any, and to look for them within all of
// a message takes longer than the rest of taking it in.
template <typename Message>
bool HasUnknown(const Message& message) {
  return !message.GetReflection()->GetUnknownFields(message).empty();
}
void DiscardUnknown(v1::WorkerInfo& worker) {
  worker.clear_ledger();  // which is the planner's to say
  if (HasUnknown(worker)) worker.DiscardUnknownFields();
}
void DiscardUnknown(v1::TrialSummary& summary) {
  const auto& counts = summary.counts();
  if (HasUnknown(summary) ||
      std::any_of(counts.begin(), counts.end(), HasUnknown<v1::SpecialistCount>)) {
    summary.DiscardUnknownFields();
  }
}

v1::TrialsRecorded Recorded(const v1::SealedTrials& trials, const std::string& batch) {
  const v1::TrialSummary& summary = trials.summary();
  v1::TrialsRecorded recorded;
  recorded.set_batch(batch);
  recorded.set_first(trials.first());
  recorded.set_trials(summary.trials());
  recorded.set_judged(summary.judged());
  recorded.set_seconds(summary.seconds());
  recorded.set_specialist(Label(summary.specialist()));
  recorded.set_implausible(Text(summary.implausible()));
  for (const v1::SpecialistCount& count : summary.counts()) {
    v1::SpecialistCount& kept = *recorded.add_counts();
    kept.set_specialist(Label(count.specialist()));
    kept.set_trials(count.trials());
    kept.set_judged(count.judged());
    kept.set_accepted(count.accepted());
    kept.set_seconds(count.seconds());
  }
  return recorded;
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

// Of what is there before a kernel runs and after it.
int64_t BytesOf(const graph::Graph& graph) {
  int64_t bytes = 0;
  for (const graph::Tensor& tensor : graph.tensors) {
    if (tensor.node < 0) bytes += tensor.bytes();
  }
  for (const int output : graph.outputs) bytes += graph.tensors[output].bytes();
  return bytes;
}

}  // namespace

std::string AddBlob(const google::protobuf::Message& message, Contents& contents) {
  std::string bytes = CanonicalBytes(message);
  std::string digest = base::Sha256Hex(bytes);
  contents.blobs.emplace(digest, std::move(bytes));
  return digest;
}

store::Facts FactsOf(const std::string& task_id, const std::string& batch,
                     v1::SealedTrials trials) {
  DiscardUnknown(*trials.mutable_summary());
  return {task_id, batch, CanonicalBytes(trials.summary()), std::move(*trials.mutable_sealed())};
}

absl::StatusOr<v1::SealedTrials> TrialsOf(store::Facts facts) {
  v1::SealedTrials trials;
  if (!trials.mutable_summary()->ParseFromString(facts.head)) {
    return absl::DataLossError(absl::StrCat("the batch ", facts.name, " of trials has no summary"));
  }
  trials.set_sealed(std::move(facts.body));
  return trials;
}

namespace {

// The trials of a result, sealed by its worker or here; absent: there are none.
absl::StatusOr<std::optional<v1::SealedTrials>> SealedOf(v1::LeaseResult& sent) {
  if (sent.has_sealed()) {
    if (absl::Status status = problem::CheckSummary(sent.sealed()); !status.ok()) return status;
    if (sent.sealed().first() == 0) {
      return absl::InvalidArgumentError("sealed trials without a number");
    }
    return std::move(*sent.mutable_sealed());
  }
  if (sent.trials().trials_size() == 0) return std::nullopt;
  if (sent.trials().trials_size() > kMaxTrialsInBatch) {
    return TooMany("trials of a lease", sent.trials().trials_size(), kMaxTrialsInBatch);
  }
  v1::SealedTrials sealed = problem::Seal(sent.trials(), /*first=*/0);
  if (absl::Status status = problem::CheckSummary(sealed); !status.ok()) return status;
  return sealed;
}

absl::Status AddTrials(v1::LeaseResult& sent, Result& result, Contents& contents) {
  auto sealed = SealedOf(sent);
  if (!sealed.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("lease ", sent.lease_id(), ": ", std::string(sealed.status().message())));
  }
  if (!sealed->has_value()) return absl::OkStatus();
  v1::SealedTrials& trials = **sealed;
  // Named by its numbers, or without them by its content.
  const std::string batch = trials.first() > 0
                                ? absl::StrCat(sent.lease_id(), "/", trials.first(), "-",
                                               trials.first() - 1 + trials.summary().trials())
                                : base::Sha256Hex(trials.sealed());
  result.trials = Recorded(trials, batch);
  contents.trials.emplace(batch, FactsOf(sent.task_id(), batch, std::move(trials)));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Synchronize> ToCommand(v1::SynchronizeRequest request, Contents& contents) {
  if (request.results_size() > kMaxResults) {
    return TooMany("results", request.results_size(), kMaxResults);
  }
  if (request.leases_size() > kMaxLeases) {
    return TooMany("leases", request.leases_size(), kMaxLeases);
  }
  Synchronize command;
  command.worker = std::move(*request.mutable_worker());
  command.session_id = request.session_id();
  command.instance = request.instance();
  command.follows.assign(request.follows().begin(), request.follows().end());
  if (request.secret().size() > kMaxSecretBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a secret of ", request.secret().size(), " bytes: at most ", kMaxSecretBytes));
  }
  if (!request.secret().empty()) {
    command.owner.set_secret(base::Sha256Hex(request.secret()).substr(0, kSecretDigits));
  }
  DiscardUnknown(command.worker);
  Cut<&v1::WorkerInfo::device_name, &v1::WorkerInfo::mutable_device_name>(command.worker,
                                                                          kMaxLabelBytes);
  Cut<&v1::WorkerInfo::version, &v1::WorkerInfo::mutable_version>(command.worker, kMaxLabelBytes);
  Cut<&v1::WorkerInfo::health_reason, &v1::WorkerInfo::mutable_health_reason>(command.worker,
                                                                              kMaxTextBytes);
  Cut<&v1::WorkerInfo::fault, &v1::WorkerInfo::mutable_fault>(command.worker, kMaxTextBytes);
  Cut<&v1::WorkerInfo::shared, &v1::WorkerInfo::mutable_shared>(command.worker, kMaxTextBytes);
  command.leases.reserve(request.leases_size());
  for (v1::LeaseStatus& sent : *request.mutable_leases()) {
    v1::LeaseStatus& status = command.leases.emplace_back(std::move(sent));
    Cut<&v1::LeaseStatus::specialist, &v1::LeaseStatus::mutable_specialist>(status, kMaxLabelBytes);
    Cut<&v1::LeaseStatus::failure, &v1::LeaseStatus::mutable_failure>(status, kMaxTextBytes);
    Cut<&v1::LeaseStatus::reason, &v1::LeaseStatus::mutable_reason>(status, kMaxTextBytes);
  }
  command.slots = request.slots();
  command.store = request.store();
  command.revision = request.revision();
  for (v1::LeaseResult& sent : *request.mutable_results()) {
    Result& result = command.results.emplace_back();
    result.lease_id = sent.lease_id();
    result.task_id = sent.task_id();
    result.fence = sent.fence();
    if (sent.has_incumbent()) {
      result.incumbent = Summary(sent.incumbent());
      result.incumbent.set_incumbent_blob(AddBlob(sent.incumbent(), contents));
    }
    if (absl::Status status = AddTrials(sent, result, contents); !status.ok()) return status;
  }
  return command;
}

absl::StatusOr<Submit> ToCommand(const v1::SubmitRequest& request, Contents& contents) {
  if (absl::Status status = problem::Validate(request.problems()); !status.ok()) return status;
  Submit command;
  command.request_id = request.request_id();
  command.name = request.problems().name();
  command.arch = request.arch();
  command.seconds_per_task = request.seconds_per_task();
  command.policy = request.policy().empty() ? kDefaultPolicy : request.policy();
  command.submitter = request.submitter();
  command.weight = request.weight();
  command.priority = request.priority();
  command.needs.assign(request.needs().begin(), request.needs().end());
  for (const v1::Problem& problem : request.problems().problems()) {
    Submit::Problem& submitted = command.problems.emplace_back();
    submitted.name = problem.name();
    submitted.blob = AddBlob(problem, contents);
    for (const v1::Workload& workload : problem.workloads()) {
      submitted.workloads.push_back(workload.name());
      absl::StatusOr<graph::Graph> graph = problem::GraphOf(problem, workload);
      if (!graph.ok()) return graph.status();
      submitted.bytes.push_back(BytesOf(*graph));
    }
  }
  return command;
}

void TakeNamed(const std::vector<v1::Event>& events, Contents& contents,
               std::vector<std::string>& blobs, std::vector<store::Facts>& facts) {
  const auto take = [&](const std::string& digest) {
    const auto found = contents.blobs.find(digest);
    if (found == contents.blobs.end()) return;
    blobs.push_back(std::move(found->second));
    contents.blobs.erase(found);
  };
  for (const v1::Event& event : events) {
    if (event.has_result_accepted()) take(event.result_accepted().incumbent_blob());
    for (const v1::Task& task : event.run_submitted().tasks()) take(task.problem_blob());
    if (!event.has_trials_recorded()) continue;
    auto batch = contents.trials.extract(event.trials_recorded().batch());
    if (!batch.empty()) facts.push_back(std::move(batch.mapped()));
  }
}

std::vector<std::string> Serialize(const std::vector<v1::Event>& events) {
  std::vector<std::string> bytes;
  bytes.reserve(events.size());
  for (const v1::Event& event : events) bytes.push_back(CanonicalBytes(event));
  return bytes;
}

}  // namespace warpsmith::planner
