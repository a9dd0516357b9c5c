// A planner with a server and a store, in this process, for tests.
#pragma once

#include <spdlog/spdlog.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <memory>
#include <string>

#include "common/store/sqlite_store.h"
#include "planner/service/planner.h"
#include "planner/service/server.h"
#include "planner/service/testing.h"

namespace warpsmith::planner::testing {

// A planner on a folder; closing it and making another is a restart.
class Served {
 public:
  explicit Served(const Folder& folder, const std::string& listen = "127.0.0.1:0",
                  const CoreOptions& core = {}, PlannerMetrics* metrics = nullptr) {
    spdlog::set_level(spdlog::level::off);
    auto opened = store::SqliteStore::Open(folder.path());
    REQUIRE(opened.ok());
    store_ = *std::move(opened);
    PlannerOptions options;
    options.core = core;
    options.metrics = metrics;
    options.board_path = folder.path() + "/board.md";
    auto planner = Planner::Start(
        store_.get(), options,
        [this] {
          return Now{now_ms, now_ms};
        },
        [this](const absl::Status& status) { fatal = status; });
    REQUIRE(planner.ok());
    planner_ = *std::move(planner);
    // Ticks come from the test alone.
    auto server = Server::Start(planner_.get(),
                                {.listen = listen, .tick = absl::Hours(1), .check = absl::Hours(1)},
                                [](const absl::Status&) {});
    INFO(server.status().ToString());
    REQUIRE(server.ok());
    server_ = *std::move(server);
  }
  ~Served() { Close(); }
  void Close() {
    if (server_ == nullptr) return;
    server_->Shutdown();
    planner_->Stop();
    server_ = nullptr;
    planner_ = nullptr;
    store_ = nullptr;
  }
  const std::string& address() const { return server_->address(); }
  Planner& planner() { return *planner_; }

  // Time in which the planner is well: a tick each second.
  void Pass(int64_t ms) {
    for (const int64_t end = now_ms + ms; now_ms < end;) {
      now_ms += 1000;
      planner_->Tick();
      REQUIRE(Client(address()).List().ok());  // behind the tick
    }
  }

  std::atomic<int64_t> now_ms{1'000'000};
  absl::Status fatal;

 private:
  std::unique_ptr<store::SqliteStore> store_;
  std::unique_ptr<Planner> planner_;
  std::unique_ptr<Server> server_;
};

// Joins and gets the first lease.
inline v1::Lease Take(Client& client, const std::string& worker, std::string& session) {
  auto reply = client.Synchronize(SyncOf(worker, ""));
  if (reply.ok()) reply = client.Synchronize(SyncOf(worker, reply->session_id()));
  INFO(reply.status().ToString());
  REQUIRE(reply.ok());
  REQUIRE(reply->start_size() == 1);
  session = reply->session_id();
  return reply->start(0);
}

}  // namespace warpsmith::planner::testing
