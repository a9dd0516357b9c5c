#include "planner/service/server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>
#include <spdlog/spdlog.h>

#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/rpc/address.h"
#include "common/rpc/channel.h"
#include "common/rpc/health.h"
#include "common/security/tls.h"

namespace warpsmith::planner {
namespace {

absl::Status Check(const std::shared_ptr<grpc::Channel>& channel, absl::Duration timeout) {
  return rpc::CheckHealth(channel, absl::ToInt64Milliseconds(timeout));
}

}  // namespace

Server::Server(Planner* planner, const ServerOptions& options, OnDeaf on_deaf)
    : planner_(planner),
      options_(options),
      on_deaf_(std::move(on_deaf)),
      guard_(options.guard != nullptr
                 ? options.guard
                 : std::make_shared<security::Guard>(nullptr, nullptr, &absl::Now)),
      worker_service_(planner, guard_.get()),
      planner_service_(planner, guard_.get()) {}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(Planner* planner,
                                                      const ServerOptions& options,
                                                      OnDeaf on_deaf) {
  std::unique_ptr<Server> server(new Server(planner, options, std::move(on_deaf)));
  if (absl::Status status = server->Listen(); !status.ok()) return status;
  return server;
}

absl::Status Server::Listen() {
  // Both are settings of the process, and must be made before the first server is built.
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  rpc::ApplyServerSettings(builder);
  grpc::ResourceQuota quota("planner");
  quota.Resize(kMaxServerBytes);
  builder.SetResourceQuota(quota);
  struct Port {
    std::string listen;
    security::Listener listener;
    int port = 0;
  };
  std::vector<Port> ports = {{options_.listen, options_.listen_clients.empty()
                                                   ? security::Listener::kAll
                                                   : security::Listener::kWorkers}};
  if (!options_.listen_clients.empty()) {
    ports.push_back({options_.listen_clients, security::Listener::kClients});
  }
  for (Port& port : ports) {
    absl::Status valid = rpc::ValidateListenAddress(port.listen, guard_->secured());
    if (!valid.ok()) return valid;
    builder.AddListeningPort(port.listen, security::ServerCredentials(port.listener, guard_),
                             &port.port);
  }
  builder.RegisterService(&worker_service_);
  builder.RegisterService(&planner_service_);
  server_ = builder.BuildAndStart();
  for (const Port& port : ports) {
    if (port.port != 0) continue;
    return absl::UnavailableError(absl::StrCat(
        "cannot listen on ", port.listen, ": is another process there? Port 0 picks a free one"));
  }
  if (server_ == nullptr) return absl::InternalError("gRPC cannot start a server");
  const auto reached = [](const Port& port) {
    if (absl::StartsWith(port.listen, "unix:")) return port.listen;
    return rpc::Reachable(
        absl::StrCat(port.listen.substr(0, port.listen.rfind(':')), ":", port.port));
  };
  addresses_ = {reached(ports[0]), reached(ports[options_.listen_clients.empty() ? 0 : 1])};
  server_->GetHealthCheckService()->SetServingStatus(true);
  for (const Port& port : ports) {
    const std::string at = reached(port);
    known_[at] = DialSelf(at);
    if (absl::Status status = Check(known_[at], options_.check_timeout); !status.ok()) {
      spdlog::warn("the planner does not answer itself at {} yet: {}", at, status.ToString());
    }
  }
  if (guard_->secured()) {
    // It may hang with the files' disk, which is no reason not to end.
    refresher_ = std::thread([this, guard = guard_, watch = refreshing_, every = options_.refresh] {
      while (true) {
        {
          absl::MutexLock lock(&watch->mutex);
          watch->mutex.AwaitWithTimeout(absl::Condition(&watch->stopping), every);
          if (watch->stopping) break;
        }
        const bool changed = guard->Refresh();
        absl::MutexLock lock(&watch->mutex);
        if (watch->stopping) break;
        if (changed) planner_->Release();
      }
      absl::MutexLock lock(&watch->mutex);
      watch->ended = true;
    });
  }
  ticker_ = std::thread([this] { Repeat(options_.tick, [this] { planner_->Tick(); }); });
  checker_ = std::thread([this] { Repeat(options_.check, [this] { CheckSelf(); }); });
  return absl::OkStatus();
}

Server::~Server() { Shutdown(); }

void Server::SetServing(bool serving) {
  serving_ = serving;
  for (const char* service :
       {v1::WorkerService::service_full_name(), v1::PlannerService::service_full_name()}) {
    server_->GetHealthCheckService()->SetServingStatus(service, serving);
  }
}

std::shared_ptr<grpc::Channel> Server::DialSelf(const std::string& address) const {
  if (!guard_->secured()) return rpc::DialFresh(address);
  return rpc::DialFresh(address, security::UnverifiedChannelCredentials(guard_->identity()));
}

void Server::Repeat(absl::Duration period, const std::function<void()>& action) {
  while (true) {
    {
      absl::MutexLock lock(&mutex_);
      if (mutex_.AwaitWithTimeout(absl::Condition(&stopping_), period)) return;
    }
    action();
  }
}

void Server::CheckSelf() {
  absl::Status status;
  auto silent = known_.begin();
  for (; silent != known_.end(); ++silent) {
    status = Check(DialSelf(silent->first), options_.check_timeout);
    if (!status.ok()) break;
  }
  well_ = silent == known_.end();
  if (well_) {
    deaf_checks_ = silent_checks_ = 0;
    // gRPC answers by itself, also where the planner is stuck. One that follows has no ticks.
    const int64_t before_ms = std::exchange(alive_ms_, planner_->alive_ms());
    const bool stuck = serving_ && alive_ms_ == before_ms;
    if (!stuck && options_.on_well) options_.on_well();
    return;
  }
  // One that has too much to do lets those wait whom it knows, too.
  const bool deaf = Check(silent->second, options_.check_timeout / 5).ok();
  spdlog::warn("the planner does not answer itself at {}{}: {}", silent->first,
               deaf ? ", but whom it knows" : "", status.ToString());
  const bool for_good =
      deaf ? ++deaf_checks_ == kMaxDeafChecks : ++silent_checks_ == kMaxSilentChecks;
  if (for_good) on_deaf_(status);
}

void Server::EndRefresher() {
  if (!refresher_.joinable()) return;
  bool ended = false;
  {
    absl::MutexLock lock(&refreshing_->mutex);
    refreshing_->stopping = true;
    ended =
        refreshing_->mutex.AwaitWithTimeout(absl::Condition(&refreshing_->ended), kShutdownLimit);
  }
  if (ended) return refresher_.join();
  spdlog::warn("the files of TLS cannot be read: their disk does not answer");
  refresher_.detach();
}

void Server::Shutdown() {
  {
    absl::MutexLock lock(&mutex_);
    if (stopping_) return;
    stopping_ = true;
  }
  EndRefresher();
  if (ticker_.joinable()) ticker_.join();
  if (checker_.joinable()) checker_.join();
  planner_->Drain();
  known_.clear();
  if (server_ == nullptr) return;
  server_->GetHealthCheckService()->SetServingStatus(false);
  server_->Shutdown(rpc::In(absl::ToInt64Milliseconds(kShutdownLimit)));
  server_->Wait();
}

}  // namespace warpsmith::planner
