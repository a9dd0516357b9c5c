#include "planner/service/server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>
#include <spdlog/spdlog.h>

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/rpc/address.h"
#include "common/rpc/channel.h"
#include "common/rpc/health.h"

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
      worker_service_(planner),
      planner_service_(planner) {}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(Planner* planner,
                                                      const ServerOptions& options,
                                                      OnDeaf on_deaf) {
  if (absl::Status status = rpc::ValidateListenAddress(options.listen); !status.ok()) return status;
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
  int port = 0;
  builder.AddListeningPort(options_.listen, grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&worker_service_);
  builder.RegisterService(&planner_service_);
  server_ = builder.BuildAndStart();
  if (server_ == nullptr || port == 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", options_.listen,
                     ": is another process there? Port 0 picks a free one"));
  }
  address_ = options_.listen;
  if (!absl::StartsWith(address_, "unix:")) {
    address_ = absl::StrCat(address_.substr(0, address_.rfind(':')), ":", port);
  }
  server_->GetHealthCheckService()->SetServingStatus(true);
  known_ = rpc::DialFresh(address_);
  if (absl::Status status = Check(known_, options_.check_timeout); !status.ok()) {
    spdlog::warn("the planner does not answer itself at {} yet: {}", address_, status.ToString());
  }
  ticker_ = std::thread([this] { Repeat(options_.tick, [this] { planner_->Tick(); }); });
  checker_ = std::thread([this] { Repeat(options_.check, [this] { CheckSelf(); }); });
  return absl::OkStatus();
}

Server::~Server() { Shutdown(); }

void Server::SetServing(bool serving) {
  for (const char* service :
       {v1::WorkerService::service_full_name(), v1::PlannerService::service_full_name()}) {
    server_->GetHealthCheckService()->SetServingStatus(service, serving);
  }
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
  const absl::Status status = Check(rpc::DialFresh(address_), options_.check_timeout);
  if (status.ok()) {
    deaf_checks_ = silent_checks_ = 0;
    return;
  }
  // One that has too much to do lets those wait whom it knows, too.
  const bool deaf = Check(known_, options_.check_timeout / 5).ok();
  spdlog::warn("the planner does not answer itself at {}{}: {}", address_,
               deaf ? ", but whom it knows" : "", status.ToString());
  const bool for_good =
      deaf ? ++deaf_checks_ == kMaxDeafChecks : ++silent_checks_ == kMaxSilentChecks;
  if (for_good) on_deaf_(status);
}

void Server::Shutdown() {
  {
    absl::MutexLock lock(&mutex_);
    if (stopping_) return;
    stopping_ = true;
  }
  if (ticker_.joinable()) ticker_.join();
  if (checker_.joinable()) checker_.join();
  planner_->Drain();
  known_ = nullptr;
  if (server_ == nullptr) return;
  server_->GetHealthCheckService()->SetServingStatus(false);
  server_->Shutdown(rpc::In(absl::ToInt64Milliseconds(kShutdownLimit)));
  server_->Wait();
}

}  // namespace warpsmith::planner
