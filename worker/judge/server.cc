#include "worker/judge/server.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "common/base/clock.h"

namespace warpsmith::judge {
namespace {

int ExitCodeOf(v1::Verdict verdict) {
  switch (verdict) {
    case v1::HANG:
      return kExitHang;
    case v1::OUT_OF_BOUNDS:
      return kExitOutOfBounds;
    case v1::CRASHED:
      return kExitCrashed;
    default:
      return kExitDeviceLost;
  }
}

void SetError(const absl::Status& status, v1::JudgeReply* reply) {
  reply->set_error(std::string(status.message()));
  reply->set_error_code(static_cast<int>(status.code()));
  // What these say of a device, it says once: nothing else runs on it afterwards.
  reply->set_exiting(IsFatal(status));
}

// Gives the exit code, 0 to go on.
int Answer(const v1::JudgeRequest& request, Judge& judge, v1::JudgeReply* reply) {
  switch (request.request_case()) {
    case v1::JudgeRequest::kOpen: {
      auto opened = judge.Open(request.open());
      if (opened.ok()) {
        *reply->mutable_opened() = *std::move(opened);
      } else {
        SetError(opened.status(), reply);
      }
      break;
    }
    case v1::JudgeRequest::kEvaluate: {
      Judgement judgement = judge.Evaluate(request.evaluate());
      reply->set_exiting(judgement.fatal);
      *reply->mutable_verdict() = std::move(judgement.verdict);
      return judgement.fatal ? ExitCodeOf(reply->verdict().verdict()) : 0;
    }
    case v1::JudgeRequest::kFinalise: {
      auto final = judge.Finalise();
      if (final.ok()) {
        *reply->mutable_final() = *std::move(final);
        reply->set_exiting(judge.lost());
      } else {
        SetError(final.status(), reply);
      }
      break;
    }
    case v1::JudgeRequest::REQUEST_NOT_SET:
      SetError(absl::InvalidArgumentError("an empty request to the judge"), reply);
      break;
  }
  return reply->exiting() ? kExitDeviceLost : 0;
}

}  // namespace

int Serve(Channel& channel, Judge& judge) {
  for (;;) {
    v1::JudgeRequest request;
    if (!channel.Receive(&request, base::Instant::InfiniteFuture()).ok()) return 0;
    v1::JudgeReply reply;
    const int code = Answer(request, judge, &reply);
    if (!channel.Send(reply).ok()) return code;
    if (code != 0) return code;
  }
}

void ExitWithParent(int fd) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread([fd] {
    pollfd poller{fd, POLLRDHUP, 0};
    while (poll(&poller, 1, -1) <= 0 || (poller.revents & (POLLRDHUP | POLLHUP | POLLERR)) == 0) {
    }
    _exit(0);
  }).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace warpsmith::judge
