#include "worker/agent/device_evaluator.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "common/problem/units.h"
#include "worker/device/waited.h"

namespace warpsmith::agent {
namespace {

// A compiler's first errors are enough for a person; a trial is stored and sent.
constexpr int kMaxReasonBytes = 2000;
// In sources whose kernels may have a pipeline.
constexpr char kBarriers[] = "ws::hopper::";
// While the oldest candidate compiles: how often it is seen whether another one is compiled.
constexpr auto kLookAgain = std::chrono::milliseconds(2);

// Bytes of the UTF-8 character that `text` starts with; 0: it starts with none.
size_t CharacterBytes(absl::string_view text) {
  const unsigned char first = text[0];
  const size_t bytes = first < 0x80                     ? 1
                       : first >= 0xc2 && first < 0xe0  ? 2
                       : first >= 0xe0 && first < 0xf0  ? 3
                       : first >= 0xf0 && first <= 0xf4 ? 4
                                                        : 0;
  if (bytes > text.size()) return 0;
  for (size_t i = 1; i < bytes; ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) return 0;
  }
  // Overlong forms, surrogates, and what is beyond the last code point.
  const unsigned char second = bytes > 1 ? text[1] : 0;
  if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second >= 0xa0) ||
      (first == 0xf0 && second < 0x90) || (first == 0xf4 && second >= 0x90)) {
    return 0;
  }
  return bytes;
}

// Cut between characters, and with '?' for what is no UTF-8: compilers quote sources and speak the
// language of their place, and a message with anything else in it cannot be read by who gets it.
std::string Shortened(absl::string_view text) {
  std::string result;
  while (!text.empty()) {
    const size_t bytes = CharacterBytes(text);
    if (result.size() + std::max<size_t>(1, bytes) > kMaxReasonBytes) return result + " ...";
    if (bytes == 0) {
      result += '?';
    } else {
      result.append(text.data(), bytes);
    }
    text.remove_prefix(std::max<size_t>(1, bytes));
  }
  return result;
}

// What a compiler's answer is as a verdict.
v1::Verdict VerdictOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kDeadlineExceeded:
      return v1::NOT_COMPILED;
    case absl::StatusCode::kFailedPrecondition:
      return v1::REFUSED;
    default:
      return v1::JUDGE_FAILED;
  }
}

}  // namespace

DeviceEvaluator::DeviceEvaluator(device::CompilePool& pool, judge::JudgeClient& judge,
                                 Settings settings, call::CallTimer* timer)
    : pool_(pool), judge_(judge), settings_(settings), timer_(timer), thread_([this] { Loop(); }) {}

DeviceEvaluator::~DeviceEvaluator() {
  Abandon();
  {
    absl::MutexLock lock(&mutex_);
    ending_ = true;
  }
  thread_.join();
}

absl::StatusOr<v1::JudgeOpened> DeviceEvaluator::Open(const v1::Problem& problem, uint64_t seed,
                                                      const std::vector<v1::Plan>& op_by_op) {
  v1::JudgeOpen request;
  *request.mutable_problem() = problem;
  request.set_seed(seed);
  request.set_use_torch(settings_.use_torch && problem.has_torch());
  request.set_measure_baselines(settings_.measure_baselines);
  Tell(Activity::kWait);
  // With PyTorch nobody needs them.
  auto binaries = Compile(request.use_torch() ? std::vector<v1::Plan>() : op_by_op);
  for (size_t i = 0; i < binaries.size(); ++i) {
    Compiled binary = binaries[i].get();
    if (!binary.ok()) {
      // Without it there is no baseline, which the judge then says.
      request.clear_op_by_op();
      break;
    }
    auto& compiled = *request.add_op_by_op();
    *compiled.mutable_plan() = op_by_op[i];
    compiled.set_binary(binary->bytes);
    *compiled.mutable_report() = binary->report;
  }
  absl::StatusOr<v1::JudgeOpened> opened;
  OnJudgeThread(Activity::kOracle, [&] {
    plans_.clear();
    cubins_.clear();
    opened = judge_.Open(request);
    if (timer_ != nullptr && opened.ok()) timer_->Prepare();
    return 0.0;  // all of it is the oracle's
  });
  return opened;
}

std::future<Evaluated> DeviceEvaluator::Submit(Candidate candidate) {
  auto job = std::make_shared<Job>();
  job->binaries = Compile(candidate.plans);
  job->candidate = std::move(candidate);
  std::future<Evaluated> answer = job->answer.get_future();
  absl::MutexLock lock(&mutex_);
  jobs_.push_back(std::move(job));
  return answer;
}

void DeviceEvaluator::Abandon() {
  std::deque<std::shared_ptr<Job>> dropped;
  absl::MutexLock lock(&mutex_);
  dropped.swap(jobs_);
  for (auto& job : dropped) job->answer.set_value({});
  mutex_.Await(absl::Condition(
      +[](bool* busy) { return !*busy; }, &busy_));
  Tell(Activity::kPropose);
}

absl::StatusOr<v1::JudgeFinal> DeviceEvaluator::Finalise() {
  absl::StatusOr<v1::JudgeFinal> final;
  OnJudgeThread(Activity::kJudge, [&] {
    final = judge_.Finalise();
    return final.ok() ? final->verdict().oracle_seconds() : 0;
  });
  return final;
}

Exported DeviceEvaluator::TimeExport() {
  Exported exported;
  if (timer_ == nullptr || plans_.empty()) return exported;
  exported.cubins = cubins_;
  absl::StatusOr<call::CallTimes> times;
  OnJudgeThread(Activity::kJudge, [&] {
    times = timer_->Time(plans_, cubins_);
    return 0.0;
  });
  if (times.ok()) {
    exported.call_us = times->call_us;
    exported.graph_us = times->graph_us;
  } else {
    exported.missing = Shortened(times.status().message());
  }
  return exported;
}

std::vector<std::future<DeviceEvaluator::Compiled>> DeviceEvaluator::Compile(
    const std::vector<v1::Plan>& plans) {
  std::vector<std::future<Compiled>> binaries;
  for (const auto& plan : plans) {
    binaries.push_back(pool_.Submit(plan.source(), settings_.compile_limit));
  }
  return binaries;
}

Evaluated DeviceEvaluator::Judge(Job& job) {
  Evaluated evaluated;
  v1::JudgeEvaluate request;
  request.set_trial_id(job.candidate.trial_id);
  for (int i = 0; i < job.binaries.size(); ++i) {
    Compiled binary = job.binaries[i].get();
    if (!binary.ok()) {
      evaluated.verdict = VerdictOf(binary.status());
      evaluated.reason = Shortened(binary.status().message());
      return evaluated;
    }
    auto& compiled = *request.add_plans();
    *compiled.mutable_plan() = std::move(job.candidate.plans[i]);
    if (i == 0) evaluated.report = binary->report;
    *compiled.mutable_report() = std::move(binary->report);
    compiled.set_binary(std::move(binary->bytes));
  }
  auto verdict = judge_.Evaluate(request);
  if (verdict.ok() && verdict->verdict() == v1::HANG) SayWhereItWaits(request, *verdict);
  if (!verdict.ok()) {
    evaluated.verdict = v1::JUDGE_FAILED;
    evaluated.reason = Shortened(verdict.status().message());
    return evaluated;
  }
  if (verdict->verdict() == v1::ACCEPTED) {
    plans_.clear();
    cubins_.clear();
    for (v1::CompiledPlan& compiled : *request.mutable_plans()) {
      plans_.push_back(std::move(*compiled.mutable_plan()));
      cubins_.push_back(std::move(*compiled.mutable_binary()));
    }
  }
  evaluated.verdict = verdict->verdict();
  evaluated.reason = Shortened(verdict->reason());
  evaluated.timing = verdict->timing();
  evaluated.times = verdict->times();
  evaluated.profile = verdict->profile();
  evaluated.accuracy = verdict->accuracy();
  evaluated.judge_seconds = verdict->judge_seconds();
  evaluated.oracle_seconds = verdict->oracle_seconds();
  evaluated.peak_bytes = verdict->peak_bytes();
  return evaluated;
}

void DeviceEvaluator::SayWhereItWaits(v1::JudgeEvaluate request, v1::JudgeVerdict& verdict) {
  bool bounded = false;
  for (v1::CompiledPlan& compiled : *request.mutable_plans()) {
    const std::string& source = compiled.plan().source();
    if (!absl::StrContains(source, kBarriers)) continue;
    compiled.mutable_plan()->set_source(absl::StrCat(problem::kBoundWaits, source));
    Compiled binary = pool_.Submit(compiled.plan().source(), settings_.compile_limit).get();
    if (!binary.ok()) return;
    compiled.set_binary(std::move(binary->bytes));
    bounded = true;
  }
  if (!bounded) return;
  const auto again = judge_.Evaluate(request);
  if (!again.ok()) return;
  const auto at = again->reason().find(device::kWaitedInVain);
  if (at != std::string::npos)
    verdict.set_reason(absl::StrCat(verdict.reason(), "; ", again->reason().substr(at)));
}

const std::future<DeviceEvaluator::Compiled>* DeviceEvaluator::Job::Compiling() const {
  const auto binary =
      std::find_if(binaries.begin(), binaries.end(), [](const std::future<Compiled>& one) {
        return one.wait_for(std::chrono::seconds(0)) != std::future_status::ready;
      });
  return binary == binaries.end() ? nullptr : &*binary;
}

std::shared_ptr<DeviceEvaluator::Job> DeviceEvaluator::TakeCompiled() {
  for (auto job = jobs_.begin(); job != jobs_.end(); ++job) {
    if ((*job)->Compiling() == nullptr) {
      std::shared_ptr<Job> taken = std::move(*job);
      jobs_.erase(job);
      return taken;
    }
    if ((*job)->candidate.first) break;
  }
  return nullptr;
}

void DeviceEvaluator::OnJudgeThread(Activity activity, std::function<double()> call) {
  absl::Notification done;
  {
    absl::MutexLock lock(&mutex_);
    call_ = [&] {
      Tell(activity);
      Tell(Activity::kPropose, call());
      done.Notify();
    };
  }
  done.WaitForNotification();
}

void DeviceEvaluator::Loop() {
  while (true) {
    std::function<void()> call;
    std::shared_ptr<Job> job, oldest;
    {
      absl::MutexLock lock(&mutex_);
      const auto work = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
        return ending_ || call_ != nullptr || !jobs_.empty();
      };
      mutex_.Await(absl::Condition(&work));
      if (call_ != nullptr) {
        call = std::exchange(call_, nullptr);
      } else if (!jobs_.empty()) {
        job = TakeCompiled();
        if (job == nullptr) oldest = jobs_.front();
        Tell(job == nullptr ? Activity::kWait : Activity::kJudge);
      } else {
        return;  // ending
      }
      busy_ = oldest == nullptr;
    }
    if (oldest != nullptr) {
      if (const auto* binary = oldest->Compiling()) binary->wait_for(kLookAgain);
      continue;
    }
    if (call != nullptr) call();
    if (job != nullptr) {
      Evaluated evaluated = Judge(*job);
      // Before whoever waits for the answer goes on.
      Tell(Activity::kPropose, evaluated.oracle_seconds);
      job->answer.set_value(std::move(evaluated));
    }
    absl::MutexLock lock(&mutex_);
    busy_ = false;
  }
}

}  // namespace warpsmith::agent
