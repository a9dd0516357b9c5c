// warpsmith-planner: the one process that knows the state of the effort.
//
//   warpsmith-planner --dir DIR --listen 127.0.0.1:0
//
// DIR holds warpsmith.db (log, snapshots, blobs), planner.lock, planner.address (where it listens,
// while it does) and board.md. SIGTERM and SIGINT end it in good order; SIGKILL loses nothing that
// it has answered for. Only this file reads the environment and puts the parts together.
//
// Exit status
//   0  ended by a signal, everything written
//   1  could not start: the message says why; it may pass
//   2  wrong command line, or a folder of another version of Warpsmith: the same again is as wrong
//   3  the folder is in use by another planner, or its disk is full
//   4  the store refused a commit; nothing unwritten was answered for
//   5  the listener no longer accepts connections
#include <signal.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "common/rpc/address.h"
#include "common/rpc/channel.h"
#include "common/store/sqlite_store.h"
#include "common/telemetry/log.h"
#include "planner/service/planner.h"
#include "planner/service/server.h"

namespace warpsmith::planner {
namespace {

constexpr int kCannotStart = 1;
constexpr int kUsage = 2;
constexpr int kFolderInUse = 3;
constexpr int kCommitFailed = 4;
constexpr int kDeaf = 5;
// Share of the file descriptors that workers' connections may take.
constexpr double kSessionShare = 0.7;

int Fail(const absl::Status& status, int code) {
  spdlog::critical("{}", std::string(status.message()));
  return code;
}

Now SystemNow() {
  using std::chrono::duration_cast;
  using std::chrono::milliseconds;
  return {duration_cast<milliseconds>(std::chrono::steady_clock::now().time_since_epoch()).count(),
          duration_cast<milliseconds>(std::chrono::system_clock::now().time_since_epoch()).count()};
}

// Nothing may be answered any more, and other threads are at work: no destructors.
[[noreturn]] void Die(const absl::Status& status, const char* what, int code) {
  spdlog::critical("{}: {}; start the planner again", what, status.ToString());
  spdlog::default_logger()->flush();
  _exit(code);
}

int Serve(const std::string& dir, const std::string& listen, int64_t keep_over_tasks,
          const sigset_t& ends) {
  absl::StatusOr<int64_t> files = rpc::RaiseFileLimit();
  if (!files.ok()) return Fail(files.status(), kCannotStart);
  absl::StatusOr<std::unique_ptr<store::SqliteStore>> store = store::SqliteStore::Open(dir);
  if (absl::IsFailedPrecondition(store.status())) return Fail(store.status(), kUsage);
  if (absl::IsUnavailable(store.status())) return Fail(store.status(), kFolderInUse);
  if (!store.ok()) return Fail(store.status(), kCannotStart);
  PlannerOptions options;
  options.board_path = dir + "/board.md";
  options.core.keep_over_tasks = keep_over_tasks;
  options.core.max_workers =
      std::min<int64_t>(options.core.max_workers, static_cast<int64_t>(kSessionShare * *files));
  absl::StatusOr<std::unique_ptr<Planner>> planner = Planner::Start(
      store->get(), options, SystemNow,
      [](const absl::Status& status) { Die(status, "a commit failed", kCommitFailed); });
  if (absl::IsFailedPrecondition(planner.status())) return Fail(planner.status(), kUsage);
  if (!planner.ok()) return Fail(planner.status(), kCannotStart);
  absl::StatusOr<std::unique_ptr<Server>> server =
      Server::Start(planner->get(), {.listen = listen}, [](const absl::Status& status) {
        Die(status, "nobody who connects is answered any more", kDeaf);
      });
  if (!server.ok()) return Fail(server.status(), kCannotStart);
  if (absl::Status status = rpc::WriteAddress(dir, (*server)->address()); !status.ok()) {
    return Fail(status, kCannotStart);
  }
  spdlog::info("listening on {}, state in {}", (*server)->address(), dir);

  int signal = 0;
  sigwait(&ends, &signal);
  spdlog::info("{}: shutting down", strsignal(signal));
  rpc::RemoveAddress(dir);
  (*server)->Shutdown();
  (*planner)->Stop();
  absl::Status closed = (*store)->Close();
  if (!closed.ok()) return Fail(closed, kCannotStart);
  spdlog::info("ended");
  return 0;
}

int Main(int argc, char** argv) {
  CLI::App app("The planner of Warpsmith: keeps the log, leases work to workers, writes the board.",
               "warpsmith-planner");
  std::string dir;
  std::string listen = "127.0.0.1:0";
  std::string level = "info";
  int64_t keep_over_tasks = CoreOptions().keep_over_tasks;
  app.add_option("--dir", dir, "folder of the state [$XDG_DATA_HOME/warpsmith]");
  app.add_option("--listen", listen, "127.0.0.1:PORT (0 picks one) or unix:/path")
      ->capture_default_str();
  app.add_option("--keep-over-tasks", keep_over_tasks,
                 "tasks of runs that are over; beyond it the oldest such runs go to the archive")
      ->check(CLI::Range(int64_t{0}, int64_t{kMaxTasks}))
      ->capture_default_str();
  app.add_option("--log-level", level, "trace, debug, info, warning, error or off")
      ->capture_default_str();
  app.footer(
      "Exit status: 0 ended by a signal; 1 could not start; 2 wrong command line or folder; 3 the "
      "folder is in use or its disk full;\n4 the store refused a commit; 5 the listener accepts no "
      "connections any more.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsage;
  }
  if (absl::Status status = telemetry::StartLog("planner", level); !status.ok()) {
    return Fail(status, kUsage);
  }
  if (dir.empty()) dir = rpc::DefaultDir(std::getenv("XDG_DATA_HOME"), std::getenv("HOME"));
  if (dir.empty()) {
    return Fail(absl::InvalidArgumentError("no HOME in the environment: name a folder with --dir"),
                kUsage);
  }
  if (absl::Status status = rpc::ValidateListenAddress(listen); !status.ok()) {
    return Fail(status, kUsage);
  }
  // Before the first thread, so that all have them blocked and only sigwait takes them.
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGINT);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);
  signal(SIGPIPE, SIG_IGN);
  return Serve(dir, listen, keep_over_tasks, ends);
}

}  // namespace
}  // namespace warpsmith::planner

int main(int argc, char** argv) { return warpsmith::planner::Main(argc, argv); }
