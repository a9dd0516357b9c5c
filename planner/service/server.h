// The planner on a socket: its services, the standard health service, reflection, a tick each
// second, and a check that it still accepts connections.
//
//   auto server = *Server::Start(planner, {.listen = "127.0.0.1:0"}, on_deaf);
//   server->address();    // "127.0.0.1:40123"
//   server->Shutdown();   // parked polls are released, calls under way are finished
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/rpc/address.h"
#include "common/security/guard.h"
#include "planner/service/grpc_service.h"
#include "planner/service/planner.h"

namespace warpsmith::planner {

// Memory for requests under way; beyond it gRPC slows its callers down.
inline constexpr size_t kMaxServerBytes = size_t{1} << 30;
// Failures in a row after which the listener counts as deaf; and, where nobody is answered, as
// beyond help.
inline constexpr int kMaxDeafChecks = 3;
inline constexpr int kMaxSilentChecks = 12;
// Of calls under way when the planner ends. gRPC uses all of it where a client is connected and has
// no call: such a client takes the farewell seconds later.
inline constexpr absl::Duration kShutdownLimit = absl::Seconds(1);

struct ServerOptions {
  // As rpc::ValidateListenAddress; port 0 picks one. Where clients have a listener of their own,
  // the first is for workers alone.
  std::string listen;
  std::string listen_clients;  // "": none
  // Who is admitted, and by which certificates; null: everybody, without TLS.
  std::shared_ptr<security::Guard> guard;
  absl::Duration tick = absl::Seconds(1);
  absl::Duration refresh = absl::Seconds(1);  // of the guard
  absl::Duration check = absl::Seconds(10);
  absl::Duration check_timeout = absl::Seconds(5);
  // After each check that found all well: every listener answers, and the strand of a planner that
  // leads has gone on since the check before. From a thread of the server.
  std::function<void()> on_well;
};

class Server {
 public:
  // gRPC's listener may go deaf for good when the process once ran out of file descriptors: the
  // server dials itself, and `on_deaf` is called (from a thread of the server) when nobody answers
  // while those that are connected are answered soon, or when nobody is answered for minutes.
  using OnDeaf = std::function<void(const absl::Status&)>;

  // `planner` must outlive the server. Unavailable: the address is taken.
  static absl::StatusOr<std::unique_ptr<Server>> Start(Planner* planner,
                                                       const ServerOptions& options,
                                                       OnDeaf on_deaf);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Where this machine reaches it: workers, and clients, who may have the same address.
  const rpc::Addresses& addresses() const { return addresses_; }
  const std::string& address() const { return addresses_.workers; }
  // It was answered by itself when it last tried, or has not tried yet. Any thread.
  bool well() const { return well_; }
  // What the health service says of the two services; of "" it says that the planner is well, also
  // of one that follows. Any thread.
  void SetServing(bool serving);
  // Drains the planner and ends the services. Blocks, at most a little over kShutdownLimit.
  void Shutdown();

 private:
  Server(Planner* planner, const ServerOptions& options, OnDeaf on_deaf);
  absl::Status Listen();
  // To itself, whoever it says that it is.
  std::shared_ptr<grpc::Channel> DialSelf(const std::string& address) const;
  // Calls `action` each `period` until Shutdown.
  void Repeat(absl::Duration period, const std::function<void()>& action);
  void CheckSelf();
  void EndRefresher();

  Planner* const planner_;
  const ServerOptions options_;
  const OnDeaf on_deaf_;
  const std::shared_ptr<security::Guard> guard_;
  rpc::Addresses addresses_;
  GrpcWorkerService worker_service_;
  GrpcPlannerService planner_service_;
  std::unique_ptr<grpc::Server> server_;
  // By address of a listener: each accepts by itself. Connected while it was well.
  std::map<std::string, std::shared_ptr<grpc::Channel>> known_;
  int deaf_checks_ = 0;  // in a row
  int silent_checks_ = 0;
  int64_t alive_ms_ = 0;  // the planner's, at the check before
  std::atomic<bool> serving_{false};
  std::atomic<bool> well_{true};
  absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // Shared with the refresher, which may outlive the server where a disk hangs.
  struct Refreshing {
    absl::Mutex mutex;
    bool stopping = false, ended = false;
  };
  const std::shared_ptr<Refreshing> refreshing_ = std::make_shared<Refreshing>();
  std::thread refresher_;
  std::thread ticker_;
  std::thread checker_;
};

}  // namespace warpsmith::planner
