#include "tests/e2e/planners.h"

#include <signal.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/rpc/address.h"

namespace warpsmith::e2e {
namespace {

constexpr size_t kLogTail = 3000;

}  // namespace

Planners::Planners(std::string bin, int count, uint64_t seed)
    : bin_(std::move(bin)),
      redis_(support::RedisServer::Settings{{"port", std::to_string(support::FreePort())}}),
      redis_address_(redis_.tcp_address()) {
  for (int i = 0; i < count; ++i) {
    Node& node = *nodes_.emplace_back(std::make_unique<Node>());
    node.dir = folder_ / absl::StrCat("planner", i);
    node.back = std::make_unique<support::FaultProxy>(
        [this] {
          absl::MutexLock lock(&mutex_);
          return redis_address_;
        },
        seed + 2 * i);
    node.front = std::make_unique<support::FaultProxy>(
        [dir = node.dir] { return rpc::ReadAddress(dir).value_or(""); }, seed + 2 * i + 1);
    Start(node);
  }
}

void Planners::Start(Node& node) const {
  node.process = std::make_unique<Process>(std::vector<std::string>{
      bin_ + "/warpsmith-planner", "--dir", node.dir, "--redis", node.back->address(), "--shared",
      shared(), "--advertise", node.front->address()});
}

bool Planners::Ready() const {
  return Eventually(absl::Seconds(30), [this] { return List().ok(); });
}

int Planners::Leader() const {
  const std::string leader = redis_.Do({"HGET", "warpsmith:{default}:meta", "leader"});
  for (int i = 0; i < count(); ++i) {
    if (nodes_[i]->front->address() == leader) return i;
  }
  return -1;
}

absl::StatusOr<std::string> Planners::Addresses() const {
  std::string all;
  for (const auto& node : nodes_) {
    absl::StrAppend(&all, all.empty() ? "" : ",", node->front->address());
  }
  return all;
}

void Planners::PointRedisAt(const std::string& tcp_address) {
  {
    absl::MutexLock lock(&mutex_);
    redis_address_ = tcp_address;
  }
  for (auto& node : nodes_) {
    node->back->Set({.cut = true});
    node->back->Set({});
  }
}

void Planners::Signal(int planner, int signal) { nodes_[planner]->process->Signal(signal); }

void Planners::Tend() {
  for (auto& node : nodes_) {
    if (node->process->Running()) continue;
    node->earlier_errors += node->process->Errors();
    Start(*node);
  }
}

Finished Planners::Warpsmith(std::vector<std::string> arguments, absl::Duration limit) const {
  arguments.insert(arguments.begin(), {bin_ + "/warpsmith", "--planner", *Addresses()});
  return RunToEnd(arguments, limit);
}

std::vector<int> Planners::Down() {
  std::vector<int> codes;
  for (auto& node : nodes_) {
    node->process->Signal(SIGCONT);
    node->process->Signal(SIGTERM);
    codes.push_back(node->process->Wait(absl::Seconds(60)).code);
  }
  return codes;
}

std::string Planners::Errors(int planner) const {
  return nodes_[planner]->earlier_errors + nodes_[planner]->process->Errors();
}

std::string Planners::Logs() const {
  std::string text;
  for (int i = 0; i < count(); ++i) {
    const std::string whole = Errors(i);
    absl::StrAppend(&text, "== planner ", i, " (", nodes_[i]->front->address(), ")\n",
                    whole.substr(whole.size() > kLogTail ? whole.size() - kLogTail : 0));
  }
  return text;
}

}  // namespace warpsmith::e2e
