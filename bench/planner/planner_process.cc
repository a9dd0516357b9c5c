#include "bench/planner/planner_process.h"

#include <signal.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/rpc/address.h"
#include "common/rpc/health.h"
#include "warpsmith/v1/planner.grpc.pb.h"

namespace warpsmith::bench {
namespace {

constexpr absl::Duration kStartLimit = absl::Minutes(5);
constexpr absl::Duration kEndLimit = absl::Minutes(2);
constexpr int64_t kHealthTimeoutMs = 10'000;

}  // namespace

Usage UsageOf(pid_t pid) {
  Usage usage;
  const std::string folder = absl::StrCat("/proc/", pid);
  std::ifstream stat(folder + "/stat");
  std::string line;
  if (!std::getline(stat, line)) return usage;
  // The second field is the program's name in parentheses, and may hold anything; utime and stime
  // are the 14th and the 15th.
  std::istringstream fields(line.substr(line.rfind(')') + 1));
  std::string skipped;
  for (int i = 3; i < 14; ++i) fields >> skipped;
  double user = 0, system = 0;
  fields >> user >> system;
  usage.cpu_seconds = (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
  std::ifstream status(folder + "/status");
  while (std::getline(status, line)) {
    std::istringstream words(line);
    std::string name;
    int64_t kib = 0;
    words >> name >> kib;
    if (name == "VmRSS:") usage.rss_bytes = kib << 10;
    if (name == "VmHWM:") usage.peak_bytes = kib << 10;
  }
  return usage;
}

absl::Status PlannerProcess::Start(bool leads) {
  rpc::RemoveAddress(dir_);
  // WARPSMITH_LOG_LEVEL and so on say what it logs.
  std::vector<std::string> argv = {program_, "--dir", dir_, "--listen", "127.0.0.1:0"};
  argv.insert(argv.end(), more_.begin(), more_.end());
  process_ = std::make_unique<e2e::Process>(argv);
  const bool ready = e2e::Eventually(kStartLimit, [this, leads] {
    if (!process_->Running()) return true;
    auto address = rpc::ReadAddress(dir_);
    if (address.ok()) address_ = *address;
    return address.ok() &&
           rpc::CheckService(Dial(), leads ? v1::WorkerService::service_full_name() : "",
                             kHealthTimeoutMs)
               .ok();
  });
  if (ready && process_->Running()) return absl::OkStatus();
  const e2e::Finished ended = process_->Wait(absl::ZeroDuration());
  return absl::UnavailableError(
      absl::StrCat(program_, " does not serve (exit status ", ended.code, "): ", ended.err));
}

std::string PlannerProcess::Ending() {
  if (process_->Running()) return "";
  const e2e::Finished ended = process_->Wait(absl::ZeroDuration());
  const size_t last = ended.err.rfind('\n', ended.err.size() < 2 ? 0 : ended.err.size() - 2);
  return absl::StrCat("exit status ", ended.code, ": ",
                      last == std::string::npos ? ended.err : ended.err.substr(last + 1));
}

void PlannerProcess::Kill() {
  process_->Signal(SIGKILL);
  process_->Wait(kEndLimit);
}

absl::Status PlannerProcess::Stop() {
  process_->Signal(SIGTERM);
  const e2e::Finished ended = process_->Wait(kEndLimit);
  if (ended.code == 0) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat(program_, " ended with exit status ", ended.code, ": ", ended.err));
}

}  // namespace warpsmith::bench
