#include "worker/judge/self_check.h"

#include <algorithm>
#include <cstdio>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/problem/units.h"
#include "worker/judge/cheats.h"
#include "worker/judge/judge_client.h"

namespace warpsmith::judge {
namespace {

constexpr absl::Duration kCompileLimit = absl::Minutes(1);
constexpr int kExtraWork = 64;  // of the honest plan that is slower

class Checker {
 public:
  Checker(device::Compiler& compiler, JudgeClient::Options options, bool maps)
      : compiler_(compiler), client_(std::move(options)), maps_(maps) {}

  // Gives the number of failures.
  int Run() {
    std::printf("%-34s %-14s %-6s %8s  %s\n", "candidate", "verdict", "", "seconds", "reason");
    for (const char* problem : {"gate", "constant gate", "rows", "running", "largest"}) {
      if (!Open(problem)) return 1;
      // Cheats race a plan that any of them outruns: what they leave out must not be what saves us.
      const bool slow = std::string(problem) == "gate";
      Judge(absl::StrCat("honest ", problem), HonestPlan(problem, slow ? kExtraWork : 0),
            {v1::ACCEPTED}, "");
      for (const Cheat& cheat : Cheats()) {
        if (cheat.problem != problem || (cheat.maps && !maps_)) continue;
        Judge(cheat.name, cheat.plan, cheat.expected, cheat.reason);
      }
      if (slow) {
        Judge(absl::StrCat("honest ", problem, ", faster"), HonestPlan(problem, 0), {v1::ACCEPTED},
              "");
      }
      Judge(absl::StrCat("honest ", problem, " again"), HonestPlan(problem, 0),
            {v1::SLOWER, v1::ACCEPTED}, "");
    }
    std::printf("%d of %d as they should be; %d judge processes were started\n", total_ - failures_,
                total_, client_.starts());
    return failures_;
  }

 private:
  bool Open(const std::string& problem) {
    v1::JudgeOpen open;
    *open.mutable_problem() = CheatProblem(problem);
    open.set_seed(1);
    auto opened = client_.Open(open);
    if (opened.ok()) return true;
    std::printf("problem %s does not open: %s\n", problem.c_str(),
                std::string(opened.status().message()).c_str());
    return false;
  }

  void Judge(const std::string& name, const v1::Plan& plan,
             const std::vector<v1::Verdict>& expected, const std::string& reason) {
    const base::Instant start = base::Now();
    v1::JudgeVerdict verdict = VerdictOn(name, plan);
    const double seconds = absl::ToDoubleSeconds(base::Now() - start);
    const bool right =
        std::find(expected.begin(), expected.end(), verdict.verdict()) != expected.end() &&
        absl::StrContains(verdict.reason(), reason);
    ++total_;
    failures_ += !right;
    std::printf("%-34s %-14s %-6s %8.3f  %s\n", name.c_str(),
                v1::Verdict_Name(verdict.verdict()).c_str(), right ? "ok" : "MISSED", seconds,
                verdict.reason().substr(0, 160).c_str());
    std::fflush(stdout);
  }

  v1::JudgeVerdict VerdictOn(const std::string& name, const v1::Plan& plan) {
    v1::JudgeVerdict verdict = VerdictOnce(name, plan);
    if (verdict.verdict() == v1::HANG) {
      // Where it waits, as evaluators of candidates find out.
      v1::Plan bounded = plan;
      bounded.set_source(absl::StrCat(problem::kBoundWaits, plan.source()));
      absl::StrAppend(verdict.mutable_reason(), "; ", VerdictOnce(name, bounded).reason());
    }
    return verdict;
  }

  v1::JudgeVerdict VerdictOnce(const std::string& name, const v1::Plan& plan) {
    v1::JudgeVerdict verdict;
    auto binary = compiler_.Compile(plan.source(), kCompileLimit);
    if (!binary.ok()) {
      verdict.set_verdict(absl::IsFailedPrecondition(binary.status()) ? v1::REFUSED
                                                                      : v1::NOT_COMPILED);
      verdict.set_reason(std::string(binary.status().message()));
      return verdict;
    }
    v1::JudgeEvaluate request;
    request.set_trial_id(name);
    v1::CompiledPlan* compiled = request.add_plans();
    *compiled->mutable_plan() = plan;
    compiled->set_binary(binary->bytes);
    *compiled->mutable_report() = binary->report;
    auto judged = client_.Evaluate(request);
    if (judged.ok()) return *judged;
    verdict.set_verdict(v1::JUDGE_FAILED);
    verdict.set_reason(std::string(judged.status().message()));
    return verdict;
  }

  device::Compiler& compiler_;
  JudgeClient client_;
  bool maps_;  // the device has tensor maps
  int total_ = 0, failures_ = 0;
};

}  // namespace

int SelfCheck(const std::string& device_name, const std::string& cache_dir,
              const std::string& nvrtc) {
  std::string arch;
  bool maps = false;
  {
    auto device = device::MakeDevice(device_name, nvrtc);
    if (!device.ok()) {
      std::fprintf(stderr, "warpsmith-judge: %s\n", std::string(device.status().message()).c_str());
      return 1;
    }
    arch = (*device)->info().arch;
    maps = (*device)->info().tensor_maps;
    std::printf("%s (%s)\n", (*device)->info().name.c_str(), arch.c_str());
  }
  auto compiler = device::MakeCompiler(arch, cache_dir, nvrtc);
  if (!compiler.ok()) {
    std::fprintf(stderr, "warpsmith-judge: %s\n", std::string(compiler.status().message()).c_str());
    return 1;
  }
  JudgeClient::Options options;
  options.device = device_name;
  if (!cache_dir.empty()) options.arguments = {"--cache-dir", cache_dir};
  if (!nvrtc.empty()) {
    options.arguments.push_back("--nvrtc");
    options.arguments.push_back(nvrtc);
  }
  return Checker(**compiler, options, maps).Run() == 0 ? 0 : 1;
}

}  // namespace warpsmith::judge
