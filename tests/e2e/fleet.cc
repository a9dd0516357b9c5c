#include "tests/e2e/fleet.h"

#include <signal.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "common/rpc/address.h"

namespace warpsmith::e2e {
namespace {

constexpr int64_t kLogTail = 3000;

}  // namespace

Fleet::Fleet(std::string bin, int workers, const std::vector<std::string>& more,
             const std::function<void(const std::string& dir)>& prepare)
    : bin_(std::move(bin)), workers_(workers) {
  if (prepare) prepare(dir());
  std::vector<std::string> argv = {
      bin_ + "/warpsmith", "--dir", dir(),       "up",
      "--device",          "host",  "--workers", std::to_string(workers)};
  argv.insert(argv.end(), more.begin(), more.end());
  up_ = std::make_unique<Process>(argv);
}

Fleet::~Fleet() {
  if (up_->Running()) Down();
}

bool Fleet::Ready() {
  return Eventually(absl::Seconds(60), [this] {
    auto list = List();
    return list.ok() && list->workers_size() >= workers_ && IsUp(*up_);
  });
}

bool IsUp(const Process& up) { return up.Errors().find("warpsmith: board ") != std::string::npos; }

Finished Fleet::Warpsmith(std::vector<std::string> arguments, absl::Duration limit) const {
  arguments.insert(arguments.begin(), {bin_ + "/warpsmith", "--dir", dir()});
  return RunToEnd(arguments, limit);
}

absl::StatusOr<std::string> Fleet::Addresses() const { return rpc::ReadAddress(dir()); }

int Fleet::Down() {
  up_->Signal(SIGTERM);
  return up_->Wait(absl::Seconds(60)).code;
}

std::string Fleet::Logs() const {
  std::string text;
  std::error_code error;
  for (const auto& log : std::filesystem::directory_iterator(dir() + "/logs", error)) {
    std::ifstream file(log.path());
    std::stringstream all;
    all << file.rdbuf();
    const std::string whole = all.str();
    text += "== " + log.path().filename().string() + "\n" +
            whole.substr(whole.size() > kLogTail ? whole.size() - kLogTail : 0);
  }
  return text;
}

std::string WriteSmallSet(const std::string& folder) {
  const std::string path = folder + "/small.json";
  std::ofstream(path) << R"json({
  "name": "small",
  "version": "1",
  "problems": [
    {
      "name": "swish",
      "description": "x times its logistic function.",
      "graph": [
        "input x: f32[R, C] ~ normal",
        "y: f32[r: R, c: C] = x[r, c] / (1 + exp(-x[r, c]))",
        "output y"
      ],
      "workloads": [{"name": "default", "dims": {"R": 64, "C": 1000}}]
},
    {
      "name": "softmax_rows",
      "description": "Softmax over the last axis, for two shapes.",
      "graph": [
        "input x: f32[R, C] ~ normal",
        "m: f32[r: R] = max[c: C](x[r, c])",
        "e: f32[r: R, c: C] = exp(x[r, c] - m[r])",
        "s: f32[r: R] = sum[c: C](e[r, c])",
        "y: f32[r: R, c: C] = e[r, c] / s[r]",
        "output y"
      ],
      "workloads": [
        {"name": "narrow", "dims": {"R": 256, "C": 64}},
        {"name": "wide", "dims": {"R": 16, "C": 3000}}
      ]
    },
    {
      "name": "column_sum",
      "description": "Sum over the first axis.",
      "graph": [
        "input x: f32[R, C] ~ normal",
        "y: f32[c: C] = sum[r: R](x[r, c])",
        "output y"
      ],
      "workloads": [{"name": "default", "dims": {"R": 300, "C": 400}}]
    }
  ]
})json";
  return path;
}

}  // namespace warpsmith::e2e
