// The real judge process, driven over its socket, and what becomes of it.
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "absl/strings/match.h"
#include "common/base/clock.h"
#include "worker/device/device.h"
#include "worker/judge/cheats.h"
#include "worker/judge/judge_client.h"
#include "worker/judge/self_check.h"
#include "worker/judge/server.h"

namespace warpsmith::judge {
namespace {

std::string CacheDir() {
  return (std::filesystem::temp_directory_path() / "warpsmith_judge_test").string();
}

v1::JudgeEvaluate Request(const v1::Plan& plan) {
  static std::unique_ptr<device::Compiler> compiler = *device::MakeCompiler("host", CacheDir());
  v1::JudgeEvaluate request;
  request.set_trial_id("a trial");
  auto binary = compiler->Compile(plan.source(), absl::Minutes(1));
  INFO(binary.status());
  REQUIRE(binary.ok());
  *request.add_plans()->mutable_plan() = plan;
  request.mutable_plans(0)->set_binary(binary->bytes);
  return request;
}

v1::JudgeOpen OpenGate() {
  v1::JudgeOpen open;
  *open.mutable_problem() = CheatProblem("gate");
  open.set_seed(9);
  return open;
}

constexpr int kWork = 64;

TEST_CASE("every cheat is caught and named, every honest plan accepted") {
  CHECK(SelfCheck("host", CacheDir()) == 0);
}

TEST_CASE("a judge that is killed comes back with the problem and the incumbent") {
  JudgeClient client{JudgeClient::Options()};
  REQUIRE(client.Open(OpenGate()).ok());
  REQUIRE(client.Evaluate(Request(HonestPlan("gate", 0)))->verdict() == v1::ACCEPTED);
  const pid_t first = client.pid();
  kill(first, SIGKILL);
  auto slower = client.Evaluate(Request(HonestPlan("gate", kWork)));
  REQUIRE(slower.ok());
  INFO(slower->ShortDebugString());
  CHECK(slower->verdict() == v1::SLOWER);  // than the incumbent, which was put back
  CHECK(client.pid() != first);
  CHECK(client.starts() == 2);
  kill(client.pid(), SIGKILL);
  auto final = client.Finalise();
  INFO(final.status());
  CHECK(final.ok());
  CHECK(client.starts() == 3);
}

#ifdef __x86_64__
// A kernel that makes a system call of its own: nothing the device could catch.
v1::Plan SystemCallPlan(const std::string& number, const std::string& a, const std::string& b) {
  v1::Plan plan = HonestPlan("gate", 0);
  plan.set_source(
      "static long call(long n, long a, long b) { long r; asm volatile(\"syscall\" : \"=a\"(r) : "
      "\"a\"(n), \"D\"(a), \"S\"(b) : \"rcx\", \"r11\", \"memory\"); return r; }\n"
      "extern \"C\" __global__ void candidate(const float* x, const float* w, float* y) {\n"
      "  (void)x; (void)w; y[0] = (float)call(" +
      number + ", " + a + ", " + b + ");\n}\n");
  return plan;
}

TEST_CASE("a candidate under which the judge dies gets a verdict, and the next one its turn") {
  JudgeClient client{JudgeClient::Options()};
  REQUIRE(client.Open(OpenGate()).ok());
  // exit_group(7), then kill(getpid(), SIGKILL) and SIGSEGV.
  auto exits = client.Evaluate(Request(SystemCallPlan("231", "7", "0")));
  REQUIRE(exits.ok());
  CHECK(exits->verdict() == v1::CRASHED);
  CHECK(exits->trial_id() == "a trial");
  CHECK(absl::StrContains(exits->reason(), "exit code 7"));
  auto killed = client.Evaluate(Request(SystemCallPlan("62", "call(39, 0, 0)", "9")));
  REQUIRE(killed.ok());
  CHECK(killed->verdict() == v1::CRASHED);
  CHECK(client.starts() == 3);  // killed from outside, one would think: it was tried twice
  auto honest = client.Evaluate(Request(HonestPlan("gate", 0)));
  REQUIRE(honest.ok());
  CHECK(honest->verdict() == v1::ACCEPTED);
}
#endif

TEST_CASE("a judge that cannot be started is an error") {
  JudgeClient::Options options;
  options.binary = "/nonexistent/warpsmith-judge";
  options.first_pause = absl::ZeroDuration();
  JudgeClient client(options);
  CHECK(client.Open(OpenGate()).status().code() == absl::StatusCode::kUnavailable);
  CHECK(client.Evaluate({}).status().code() == absl::StatusCode::kFailedPrecondition);
}

TEST_CASE("deaths become verdicts") {
  auto exited = [](int code) { return VerdictOfDeath("t", false, code << 8).verdict(); };
  CHECK(exited(kExitHang) == v1::HANG);
  CHECK(exited(kExitOutOfBounds) == v1::OUT_OF_BOUNDS);
  CHECK(exited(kExitCrashed) == v1::CRASHED);
  CHECK(exited(1) == v1::CRASHED);
  CHECK(VerdictOfDeath("t", false, SIGSEGV).verdict() == v1::OUT_OF_BOUNDS);
  CHECK(VerdictOfDeath("t", false, SIGABRT).verdict() == v1::CRASHED);
  CHECK(VerdictOfDeath("t", true, SIGKILL).verdict() == v1::HANG);
}

TEST_CASE("messages cross the socket whole, late ones and wrong ones are errors") {
  int ends[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  auto a = std::make_unique<Channel>(ends[0]);
  Channel b(ends[1]);
  v1::JudgeRequest sent, got;
  *sent.mutable_open() = OpenGate();
  REQUIRE(a->Send(sent).ok());
  REQUIRE(b.Receive(&got, base::Instant::InfiniteFuture()).ok());
  CHECK(got.SerializeAsString() == sent.SerializeAsString());
  CHECK(b.Receive(&got, base::Instant::InfinitePast()).code() ==
        absl::StatusCode::kDeadlineExceeded);
  v1::JudgeRequest large;  // more than a socket holds, and nobody reads
  large.mutable_evaluate()->set_trial_id(std::string(8 << 20, 'x'));
  CHECK(a->Send(large, base::Now() + absl::Milliseconds(50)).code() ==
        absl::StatusCode::kDeadlineExceeded);
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);  // that stream is broken
  Channel c(ends[1]);
  a = std::make_unique<Channel>(ends[0]);
  REQUIRE(send(a->fd(), "\xff\xff\xff\xff", 4, 0) == 4);
  CHECK(c.Receive(&got, base::Instant::InfiniteFuture()).code() == absl::StatusCode::kDataLoss);
  a = nullptr;
  CHECK(c.Receive(&got, base::Instant::InfiniteFuture()).code() == absl::StatusCode::kUnavailable);
  CHECK(c.Send(sent).code() == absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace warpsmith::judge
