#include "worker/judge/judge_client.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <climits>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/clock.h"
#include "worker/judge/server.h"

extern char** environ;

namespace warpsmith::judge {
namespace {

constexpr int kChildFd = 3;
constexpr absl::Duration kStopLimit = absl::Seconds(5);  // for a judge that said it ends
constexpr char kBinaryName[] = "warpsmith-judge";

std::string BesideThisProgram() {
  char path[PATH_MAX];
  ssize_t n = readlink("/proc/self/exe", path, sizeof(path));
  std::string self(path, n > 0 ? static_cast<size_t>(n) : 0);
  return absl::StrCat(self.substr(0, self.rfind('/') + 1), kBinaryName);
}

absl::Status ErrorOf(const v1::JudgeReply& reply) {
  return absl::Status(static_cast<absl::StatusCode>(reply.error_code()), reply.error());
}

std::string DeathText(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    return absl::StrCat("signal ", WTERMSIG(wait_status), " (", strsignal(WTERMSIG(wait_status)),
                        ")");
  }
  return absl::StrCat("exit code ", WEXITSTATUS(wait_status));
}

// Killed from outside (a person, the kernel's memory killer): says nothing of the candidate.
bool Unblamable(int wait_status) {
  return (WIFSIGNALED(wait_status) &&
          (WTERMSIG(wait_status) == SIGKILL || WTERMSIG(wait_status) == SIGTERM ||
           WTERMSIG(wait_status) == SIGINT || WTERMSIG(wait_status) == SIGHUP)) ||
         (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0);
}

}  // namespace

v1::JudgeVerdict VerdictOfDeath(const std::string& trial_id, bool timed_out, int wait_status) {
  v1::JudgeVerdict verdict;
  verdict.set_trial_id(trial_id);
  verdict.set_verdict(v1::CRASHED);
  if (timed_out) {
    verdict.set_verdict(v1::HANG);
    verdict.set_reason("the judge did not answer in time and was killed");
    return verdict;
  }
  verdict.set_reason(absl::StrCat("the judge died of it: ", DeathText(wait_status)));
  if (WIFSIGNALED(wait_status) &&
      (WTERMSIG(wait_status) == SIGSEGV || WTERMSIG(wait_status) == SIGBUS)) {
    verdict.set_verdict(v1::OUT_OF_BOUNDS);
  } else if (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == kExitHang) {
    verdict.set_verdict(v1::HANG);
  } else if (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == kExitOutOfBounds) {
    verdict.set_verdict(v1::OUT_OF_BOUNDS);
  }
  return verdict;
}

JudgeClient::~JudgeClient() { Stop(/*kill=*/true); }

// ---- the process --------------------------------------------------------------------------------

absl::Status JudgeClient::Start() {
  if (pid_ != 0) return absl::OkStatus();
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return absl::InternalError(absl::StrCat("no socket for the judge: ", strerror(errno)));
  }
  const std::string binary = options_.binary.empty() ? BesideThisProgram() : options_.binary;
  std::vector<std::string> arguments = {binary, "--device", options_.device, "--fd",
                                        absl::StrCat(kChildFd)};
  arguments.insert(arguments.end(), options_.arguments.begin(), options_.arguments.end());
  std::vector<char*> argv;
  for (std::string& a : arguments) argv.push_back(a.data());
  argv.push_back(nullptr);

  // dup2 onto itself would keep close-on-exec: go through a number that neither end has.
  const int from = ends[1] == kChildFd ? fcntl(ends[1], F_DUPFD_CLOEXEC, kChildFd + 1) : ends[1];
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  // First: its number may be the one that the judge is talked to at.
  if (options_.stderr_fd != STDERR_FILENO) {
    posix_spawn_file_actions_adddup2(&actions, options_.stderr_fd, STDERR_FILENO);
  }
  posix_spawn_file_actions_adddup2(&actions, from, kChildFd);
  int error = posix_spawn(&pid_, binary.c_str(), &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (from != ends[1]) close(from);
  close(ends[1]);
  if (error != 0) {
    close(ends[0]);
    pid_ = 0;
    return absl::UnavailableError(
        absl::StrCat("cannot start the judge '", binary, "': ", strerror(error)));
  }
  channel_ = std::make_unique<Channel>(ends[0]);
  ready_ = false;
  ++starts_;
  return absl::OkStatus();
}

int JudgeClient::Stop(bool kill_it) {
  channel_ = nullptr;  // the judge ends when it sees this
  ready_ = false;
  if (pid_ == 0) return 0;
  int status = 0;
  const base::Instant deadline = base::Now() + kStopLimit;
  if (kill_it) kill(pid_, SIGKILL);
  for (;;) {
    pid_t done = waitpid(pid_, &status, kill_it ? 0 : WNOHANG);
    if (done == pid_ || (done < 0 && errno != EINTR)) break;
    if (done == 0 && base::Now() > deadline) {
      kill(pid_, SIGKILL);
      kill_it = true;
    } else if (done == 0) {
      absl::SleepFor(absl::Milliseconds(1));
    }
  }
  pid_ = 0;
  return status;
}

absl::StatusOr<JudgeClient::Outcome> JudgeClient::Call(const v1::JudgeRequest& request,
                                                       absl::Duration limit) {
  Outcome outcome;
  const base::Instant deadline = base::Now() + limit;
  absl::Status s = channel_->Send(request, deadline);
  if (absl::IsResourceExhausted(s)) return s;
  v1::JudgeReply reply;
  if (s.ok()) s = channel_->Receive(&reply, deadline);
  if (s.ok()) {
    if (reply.exiting()) Stop(/*kill=*/false);
    outcome.reply = std::move(reply);
    return outcome;
  }
  outcome.timed_out = absl::IsDeadlineExceeded(s);
  outcome.wait_status = Stop(/*kill=*/outcome.timed_out || absl::IsDataLoss(s));
  if (options_.on_death) {
    options_.on_death(request.evaluate().trial_id(),
                      outcome.timed_out
                          ? absl::StrCat("killed, no answer within ", absl::FormatDuration(limit))
                          : DeathText(outcome.wait_status));
  }
  return outcome;
}

// ---- getting ready ------------------------------------------------------------------------------

absl::StatusOr<v1::JudgeOpened> JudgeClient::OpenOnce() {
  if (absl::Status s = Start(); !s.ok()) return s;
  v1::JudgeRequest request;
  *request.mutable_open() = *problem_;
  auto outcome = Call(request, options_.open_limit);
  if (!outcome.ok()) return outcome.status();
  if (outcome->timed_out) {
    return absl::UnavailableError(absl::StrCat("the judge did not open problem '",
                                               problem_->problem().name(), "' within ",
                                               absl::FormatDuration(options_.open_limit)));
  }
  if (!outcome->reply) {
    return absl::UnavailableError(absl::StrCat("the judge died while it opened problem '",
                                               problem_->problem().name(),
                                               "': ", DeathText(outcome->wait_status)));
  }
  if (!outcome->reply->error().empty()) {
    absl::Status error = ErrorOf(*outcome->reply);
    // The device was lost: another process may have more luck.
    if (outcome->reply->exiting()) return absl::UnavailableError(std::string(error.message()));
    return error;
  }
  return outcome->reply->opened();
}

absl::Status JudgeClient::Reinstall() {
  if (!incumbent_) return absl::OkStatus();
  v1::JudgeRequest request;
  *request.mutable_evaluate() = *incumbent_;
  request.mutable_evaluate()->set_reinstall(true);
  auto outcome = Call(request, options_.evaluate_limit);
  if (!outcome.ok()) return outcome.status();
  if (!outcome->reply) return absl::UnavailableError("the judge died on the incumbent");
  const v1::JudgeVerdict& verdict = outcome->reply->verdict();
  if (verdict.verdict() == v1::ACCEPTED) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("the incumbent was not accepted again: ", verdict.reason()));
}

absl::Status JudgeClient::MakeReady() {
  if (ready_ && pid_ != 0) return absl::OkStatus();
  if (!problem_) return absl::FailedPreconditionError("no problem is open");
  absl::Duration pause = options_.first_pause;
  absl::Status last;
  for (int death = 0; death < kMostDeaths; ++death, pause *= 2) {
    if (death > 0) absl::SleepFor(pause);
    auto opened = OpenOnce();
    last = opened.ok() ? Reinstall() : opened.status();
    if (last.ok()) {
      ready_ = true;
      return last;
    }
    if (!absl::IsUnavailable(last)) return last;
    Stop(/*kill=*/true);
  }
  return absl::UnavailableError(
      absl::StrCat("the judge failed ", kMostDeaths,
                   " times in a row; the last time: ", std::string(last.message())));
}

// ---- calls --------------------------------------------------------------------------------------

absl::StatusOr<v1::JudgeOpened> JudgeClient::Open(const v1::JudgeOpen& request) {
  problem_ = request;
  incumbent_.reset();
  ready_ = false;
  absl::Duration pause = options_.first_pause;
  absl::Status last;
  for (int death = 0; death < kMostDeaths; ++death, pause *= 2) {
    if (death > 0) absl::SleepFor(pause);
    auto opened = OpenOnce();
    if (opened.ok()) {
      ready_ = true;
      // Should the judge have to be started again, the baselines are not measured again.
      *problem_->mutable_cached_baselines() = opened->baselines();
      problem_->set_measure_baselines(false);
      return opened;
    }
    last = opened.status();
    if (!absl::IsUnavailable(last)) break;
    Stop(/*kill=*/true);
  }
  problem_.reset();
  return last;
}

absl::StatusOr<v1::JudgeVerdict> JudgeClient::Evaluate(const v1::JudgeEvaluate& request) {
  v1::JudgeRequest message;
  *message.mutable_evaluate() = request;
  for (int attempt = 0;; ++attempt) {
    if (absl::Status s = MakeReady(); !s.ok()) return s;
    auto outcome = Call(message, options_.evaluate_limit);
    if (!outcome.ok()) return outcome.status();
    if (outcome->reply) {
      if (!outcome->reply->error().empty()) return ErrorOf(*outcome->reply);
      v1::JudgeVerdict verdict = outcome->reply->verdict();
      if (verdict.verdict() == v1::ACCEPTED) incumbent_ = request;
      return verdict;
    }
    // Killed from outside: once more, and only then is it put down to the candidate.
    const bool blame = outcome->timed_out || !Unblamable(outcome->wait_status) || attempt > 0;
    if (blame) {
      return VerdictOfDeath(request.trial_id(), outcome->timed_out, outcome->wait_status);
    }
  }
}

absl::StatusOr<v1::JudgeReply> JudgeClient::Insist(const v1::JudgeRequest& request,
                                                   absl::Duration limit) {
  absl::Duration pause = options_.first_pause;
  std::string last;
  for (int death = 0; death < kMostDeaths; ++death, pause *= 2) {
    if (death > 0) absl::SleepFor(pause);
    if (absl::Status s = MakeReady(); !s.ok()) return s;
    auto outcome = Call(request, limit);
    if (!outcome.ok()) return outcome.status();
    // One that is its last may be an answer all the same.
    if (outcome->reply && (!outcome->reply->exiting() || outcome->reply->error().empty())) {
      return *std::move(outcome->reply);
    }
    last = outcome->reply       ? outcome->reply->error()
           : outcome->timed_out ? absl::StrCat("no answer within ", absl::FormatDuration(limit))
                                : DeathText(outcome->wait_status);
  }
  return absl::UnavailableError(
      absl::StrCat("the judge failed ", kMostDeaths, " times in a row; the last time: ", last));
}

absl::StatusOr<v1::JudgeFinal> JudgeClient::Finalise() {
  v1::JudgeRequest request;
  request.mutable_finalise();
  auto reply = Insist(request, options_.finalise_limit);
  if (!reply.ok()) return reply.status();
  if (!reply->error().empty()) return ErrorOf(*reply);
  return reply->final();
}

}  // namespace warpsmith::judge
