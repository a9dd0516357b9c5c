// warpsmith-planner: the one process that knows the state of the effort.
//
//   warpsmith-planner --dir DIR --listen 127.0.0.1:0
//   warpsmith-planner --dir DIR --redis unix:/run/redis.sock --shared /shared/lab
//
// The second is one of several: one leads, the others follow, and take over when it is gone. One
// that was deposed begins anew, as the same process.
//
// DIR holds warpsmith.db (log, snapshots, blobs), planner.lock, planner.address, planner.http and
// planner.page (where it listens, while it does) and board.md. SIGTERM and SIGINT end it in good
// order; SIGKILL loses nothing that it has answered for. Only this file reads the environment and
// puts the parts together.
//
// Exit status
//   0  ended by a signal, everything written
//   1  could not start: the message says why; it may pass
//   2  wrong command line, or a folder of another version of Warpsmith: the same again is as wrong
//   3  the folder is in use by another planner, or its disk is full
//   4  the store refused a commit; nothing unwritten was answered for
//   5  the listener no longer accepts connections
//   6  the store that planners share lacks what it had made durable, or is another one
#include <signal.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <system_error>
#include <utility>

#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/http/server.h"
#include "common/rpc/address.h"
#include "common/rpc/channel.h"
#include "common/rpc/grpc_log.h"
#include "common/security/guard.h"
#include "common/security/tls_flags.h"
#include "common/security/tokens.h"
#include "common/store/folder_lock.h"
#include "common/store/sqlite_store.h"
#include "common/telemetry/log.h"
#include "common/telemetry/notify.h"
#include "planner/service/candidate.h"
#include "planner/service/log.h"
#include "planner/service/planner.h"
#include "planner/service/redis_flags.h"
#include "planner/service/server.h"
#include "planner/web/page.h"
#include "planner/web/published.h"

namespace warpsmith::planner {
namespace {

constexpr int kCannotStart = 1;
constexpr int kUsage = 2;
constexpr int kFolderInUse = 3;
constexpr int kCommitFailed = 4;
constexpr int kDeaf = 5;
constexpr int kStoreChanged = 6;
// Between tries of a store that does not answer.
constexpr timespec kStorePause = {1, 0};
// Share of the file descriptors that workers' connections may take.
constexpr double kSessionShare = 0.7;
// Looks at itself in the time of the service manager's watchdog.
constexpr int kChecksPerWatchdog = 4;

// In the environment of a planner that was one before, and begins anew as the same process.
constexpr char kAnew[] = "WARPSMITH_PLANNER_BEGINS_ANEW";

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
  telemetry::FlushLog();
  _exit(code);
}

struct Flags {
  std::string dir;
  std::string listen = "127.0.0.1:0";
  std::string listen_clients, listen_http, listen_page;
  std::string advertise, advertise_clients;
  security::TlsFlags tls;
  std::string tokens;
  telemetry::LogFlags log;
  int64_t keep_over_tasks = CoreOptions().keep_over_tasks;
  RedisFlags redis;
};

// The same program with the same arguments, in this process. What it holds ends with it: nothing
// may be answered any more, and others have to be followed from where the store is.
[[noreturn]] void BeginAnew(const absl::Status& status, char** argv) {
  telemetry::Log(told::kDeposed, {{"reason", status.message()}});
  telemetry::FlushLog();
  setenv(kAnew, "1", /*overwrite=*/1);
  close_range(3, ~0u, CLOSE_RANGE_CLOEXEC);  // connections of HTTP are no business of the next one
  execv("/proc/self/exe", argv);
  Die(absl::InternalError(std::strerror(errno)), "cannot begin anew", kCannotStart);
}

std::unique_ptr<PlannerMetrics> MetricsOf(const Flags& flags) {
  if (flags.listen_http.empty()) return nullptr;
  return std::make_unique<PlannerMetrics>(WARPSMITH_VERSION);
}

std::unique_ptr<web::Published> PublishedOf(const Flags& flags) {
  if (flags.listen_page.empty()) return nullptr;
  std::random_device random;
  return std::make_unique<web::Published>(absl::StrCat(absl::Hex(random())), &absl::Now);
}

// What hears of the planner's work outlives it.
absl::StatusOr<PlannerOptions> OptionsOf(const Flags& flags, PlannerMetrics* metrics,
                                         web::Published* published) {
  absl::StatusOr<int64_t> files = rpc::RaiseFileLimit();
  if (!files.ok()) return files.status();
  PlannerOptions options;
  options.board_path = flags.dir + "/board.md";
  options.metrics = metrics;
  if (published != nullptr) {
    options.on_view = [published](const View& view) { published->Take(view); };
  }
  options.core.keep_over_tasks = flags.keep_over_tasks;
  options.core.max_workers =
      std::min<int64_t>(options.core.max_workers, static_cast<int64_t>(kSessionShare * *files));
  return options;
}

// Who may call: what the files of TLS and tokens say, while this lives.
struct Admission {
  std::unique_ptr<security::WatchedIdentity> identity;
  std::unique_ptr<security::Tokens> tokens;
  std::shared_ptr<security::Guard> guard;
};

absl::StatusOr<Admission> Admit(const Flags& flags) {
  Admission admission;
  if (flags.tls.given()) {
    auto identity =
        security::WatchedIdentity::Open(flags.tls.files, security::Needs::kPlanner, absl::Now());
    if (!identity.ok()) return identity.status();
    admission.identity = *std::move(identity);
  }
  if (!flags.tokens.empty()) {
    if (!flags.tls.given()) {
      return absl::InvalidArgumentError(
          "--tokens: a token is a secret, and goes by TLS alone: give --tls-ca, --tls-cert and "
          "--tls-key");
    }
    admission.tokens = std::make_unique<security::Tokens>(flags.tokens);
    if (absl::Status read = admission.tokens->Refresh().status(); !read.ok()) return read;
  }
  admission.guard = std::make_shared<security::Guard>(admission.identity.get(),
                                                      admission.tokens.get(), &absl::Now);
  return admission;
}

absl::StatusOr<std::unique_ptr<Server>> Listen(Planner* planner, const Flags& flags,
                                               const Admission& admission,
                                               const telemetry::Notifier& notifier) {
  ServerOptions options = {.listen = flags.listen,
                           .listen_clients = flags.listen_clients,
                           .guard = admission.guard,
                           .on_well = [&notifier] { notifier.Watchdog(); }};
  options.check = std::min(options.check, notifier.watchdog() / kChecksPerWatchdog);
  options.check_timeout = std::min(options.check_timeout, notifier.watchdog() / kChecksPerWatchdog);
  return Server::Start(planner, options, [](const absl::Status& status) {
    Die(status, "nobody who connects is answered any more", kDeaf);
  });
}

int64_t BytesIn(const std::string& folder) {
  int64_t bytes = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const auto size = entry.file_size(error);
    if (!error) bytes += static_cast<int64_t>(size);
  }
  return bytes;
}

// A file with an address, while it is answered there.
class AddressFile {
 public:
  static absl::StatusOr<std::unique_ptr<AddressFile>> Write(const std::string& path,
                                                            const std::string& address) {
    absl::Status told = base::WriteFileAtomically(path, address + "\n");
    if (!told.ok()) return told;
    return std::unique_ptr<AddressFile>(new AddressFile(path));
  }
  ~AddressFile() { unlink(path_.c_str()); }

 private:
  explicit AddressFile(std::string path) : path_(std::move(path)) {}
  const std::string path_;
};

// What is answered by HTTP.
class Watched {
 public:
  // All but `flags` outlive it; metrics and published are null where they are not wanted.
  static absl::StatusOr<std::unique_ptr<Watched>> Start(const Flags& flags,
                                                        const Admission& admission,
                                                        PlannerMetrics* metrics,
                                                        web::Published* published,
                                                        const Server& server, Planner& planner) {
    std::unique_ptr<Watched> watched(new Watched);
    absl::Status started;
    if (metrics != nullptr) {
      started = watched->StartMetrics(flags, admission, metrics, server, planner);
    }
    if (started.ok() && published != nullptr) {
      started = watched->StartPage(flags, admission, published, planner);
    }
    if (!started.ok()) return started;
    return watched;
  }
  // Of one that waits for its store: it is well, since to start it again would not bring that
  // nearer, and not ready.
  static absl::StatusOr<std::unique_ptr<Watched>> StartWaiting(const Flags& flags,
                                                               const Admission& admission) {
    std::unique_ptr<Watched> watched(new Watched);
    if (flags.listen_http.empty()) return watched;
    const auto answer = [](int status) {
      return [status] { return http::Reply{.status = status, .body = "waits for the store\n"}; };
    };
    const absl::Status started =
        watched->Serve(flags, admission, {{"/healthz", answer(200)}, {"/readyz", answer(503)}},
                       /*refresh=*/true);
    if (!started.ok()) return started;
    return watched;
  }
  // Neither of them: the exit status.
  static int Fail(const absl::Status& status) {
    return planner::Fail(status, absl::IsInvalidArgument(status) ? kUsage : kCannotStart);
  }

 private:
  absl::Status StartMetrics(const Flags& flags, const Admission& admission, PlannerMetrics* metrics,
                            const Server& server, const Planner& planner) {
    metrics->metrics().Keeps(flags.dir);
    const auto text = [&admission, metrics, dir = flags.dir] {
      if (const auto identity = admission.guard->identity(); identity != nullptr) {
        metrics->metrics().CertificateEnds(identity->own.not_after);
      }
      metrics->StoreHas(BytesIn(dir));
      return http::Reply{.type = "text/plain; version=0.0.4; charset=utf-8",
                         .body = metrics->Text(base::Now())};
    };
    // Never the store: or an outage of Redis would have all planners started again.
    const auto health = [&server, &planner] {
      if (!server.well()) return http::Reply{503, "text/plain", "does not answer itself\n"};
      return http::Reply{.body = planner.leads() ? "leads\n" : "follows\n"};
    };
    const auto workers = [metrics] {
      return http::Reply{.type = "application/json", .body = metrics->WorkersJson()};
    };
    return Serve(
        flags, admission,
        {{"/metrics", text}, {"/healthz", health}, {"/readyz", health}, {"/workers", workers}});
  }

  absl::Status Serve(const Flags& flags, const Admission& admission,
                     std::vector<http::Route> routes, bool refresh = false) {
    auto served = http::Server::Start(
        {.listen = flags.listen_http, .guard = admission.guard, .refresh = refresh},
        std::move(routes));
    if (!served.ok()) return served.status();
    server_ = *std::move(served);
    auto file = AddressFile::Write(flags.dir + "/planner.http", server_->address());
    if (!file.ok()) return file.status();
    server_file_ = *std::move(file);
    telemetry::Log(told::kListensHttp, {{"address", server_->address()}});
    return absl::OkStatus();
  }

  absl::Status StartPage(const Flags& flags, const Admission& admission, web::Published* published,
                         Planner& planner) {
    auto page = web::Page::Start({flags.listen_page, admission.guard}, &planner, published);
    if (!page.ok()) return page.status();
    page_ = *std::move(page);
    auto file = AddressFile::Write(flags.dir + "/planner.page", page_->address());
    if (!file.ok()) return file.status();
    page_file_ = *std::move(file);
    telemetry::Log(told::kListensPage,
                   {{"address", absl::StrCat(admission.guard->secured() ? "https://" : "http://",
                                             page_->address(), "/")}});
    return absl::OkStatus();
  }

  std::unique_ptr<http::Server> server_;
  std::unique_ptr<web::Page> page_;
  std::unique_ptr<AddressFile> server_file_, page_file_;
};

std::string Told(const Server& server) {
  const rpc::Addresses& addresses = server.addresses();
  std::string text = addresses.workers;
  if (addresses.clients != addresses.workers) {
    absl::StrAppend(&text, " for workers, ", addresses.clients, " for clients");
  }
  return text;
}

void AwaitEnd(const sigset_t& ends, const std::string& dir, const telemetry::Notifier& notifier) {
  int signal = 0;
  sigwait(&ends, &signal);
  notifier.Stopping();
  telemetry::Log(told::kEnding, {{"signal", strsignal(signal)}});
  rpc::RemoveAddress(dir);
}

int Serve(const Flags& flags, const Admission& admission, const sigset_t& ends,
          const telemetry::Notifier& notifier) {
  const std::unique_ptr<PlannerMetrics> metrics = MetricsOf(flags);
  const std::unique_ptr<web::Published> published = PublishedOf(flags);
  absl::StatusOr<PlannerOptions> options = OptionsOf(flags, metrics.get(), published.get());
  if (!options.ok()) return Fail(options.status(), kCannotStart);
  absl::StatusOr<std::unique_ptr<store::SqliteStore>> store = store::SqliteStore::Open(flags.dir);
  if (absl::IsFailedPrecondition(store.status())) return Fail(store.status(), kUsage);
  if (absl::IsUnavailable(store.status())) return Fail(store.status(), kFolderInUse);
  if (!store.ok()) return Fail(store.status(), kCannotStart);
  absl::StatusOr<std::unique_ptr<Planner>> planner = Planner::Start(
      store->get(), *options, SystemNow,
      [](const absl::Status& status) { Die(status, "a commit failed", kCommitFailed); });
  if (absl::IsFailedPrecondition(planner.status())) return Fail(planner.status(), kUsage);
  if (!planner.ok()) return Fail(planner.status(), kCannotStart);
  absl::StatusOr<std::unique_ptr<Server>> server =
      Listen(planner->get(), flags, admission, notifier);
  if (!server.ok()) return Fail(server.status(), kCannotStart);
  // Before anybody is told of this planner, who may not start after all.
  absl::StatusOr<std::unique_ptr<Watched>> watched =
      Watched::Start(flags, admission, metrics.get(), published.get(), **server, **planner);
  if (!watched.ok()) return Watched::Fail(watched.status());
  (*server)->SetServing(true);
  if (absl::Status status = rpc::WriteAddresses(flags.dir, (*server)->addresses()); !status.ok()) {
    return Fail(status, kCannotStart);
  }
  telemetry::Log(told::kListening, {{"address", Told(**server)}, {"state", flags.dir}});
  notifier.Ready(absl::StrCat("leads; listening on ", Told(**server)));
  AwaitEnd(ends, flags.dir, notifier);
  watched->reset();
  (*server)->Shutdown();
  (*planner)->Stop();
  absl::Status closed = (*store)->Close();
  if (!closed.ok()) return Fail(closed, kCannotStart);
  telemetry::Log(told::kEnded, {});
  return 0;
}

bool MayPass(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
}

// Tries until it answers, or fails for a reason that stays, or one of `ends` comes (Cancelled). One
// that begins anew is watched already, and what it waits for is not mended by starting it again.
template <typename Open>
auto Insist(const sigset_t& ends, const telemetry::Notifier& notifier, Open open)
    -> decltype(open()) {
  for (bool said = false;; said = true) {
    auto opened = open();
    if (opened.ok() || !MayPass(opened.status())) return opened;
    if (!said) spdlog::error("waiting for the store: {}", std::string(opened.status().message()));
    if (!said) notifier.Status("waits for the store");
    notifier.Watchdog();
    if (sigtimedwait(&ends, nullptr, &kStorePause) > 0) return absl::CancelledError("ended");
  }
}

int ServeShared(const Flags& flags, const Admission& admission, const sigset_t& ends, char** argv,
                const telemetry::Notifier& notifier) {
  const std::unique_ptr<PlannerMetrics> metrics = MetricsOf(flags);
  const std::unique_ptr<web::Published> published = PublishedOf(flags);
  absl::StatusOr<PlannerOptions> options = OptionsOf(flags, metrics.get(), published.get());
  if (!options.ok()) return Fail(options.status(), kCannotStart);
  const absl::StatusOr<store::RedisStore::Options> redis = flags.redis.Read();
  if (!redis.ok()) return Fail(redis.status(), kUsage);
  std::error_code error;
  std::filesystem::create_directories(flags.dir, error);
  // Planners that share a store have folders of their own: boards and addresses are theirs.
  absl::StatusOr<store::FolderLock> lock = store::FolderLock::Take(flags.dir);
  if (absl::IsUnavailable(lock.status())) return Fail(lock.status(), kFolderInUse);
  if (!lock.ok()) return Fail(lock.status(), kCannotStart);

  const auto code_of = [](const absl::Status& status) {
    if (absl::IsCancelled(status)) return 0;
    const bool usage = absl::IsFailedPrecondition(status) || absl::IsInvalidArgument(status) ||
                       absl::IsPermissionDenied(status);
    return Fail(status, usage ? kUsage : kCannotStart);
  };
  absl::StatusOr<std::unique_ptr<Watched>> waiting = Watched::StartWaiting(flags, admission);
  if (!waiting.ok()) return Watched::Fail(waiting.status());
  absl::StatusOr<std::unique_ptr<store::RedisStore>> store =
      Insist(ends, notifier, [&] { return store::RedisStore::Open(*redis); });
  if (!store.ok()) return code_of(store.status());
  for (const std::string& risk : (*store)->risks()) spdlog::warn("accepted: {}", risk);
  // Once it is to end it does not begin anew. Others go on from what is durable.
  std::atomic<bool> ending = false;
  const auto on_deposed = [argv, &ending](const absl::Status& status) {
    if (!ending) BeginAnew(status, argv);
    spdlog::warn("{}: ends, as it was told", std::string(status.message()));
    telemetry::FlushLog();
    _exit(0);
  };
  const auto on_fatal = [&on_deposed](const absl::Status& status) {
    if (store::IsStaleEpoch(status)) on_deposed(status);
    Die(status, "the store took no write", kCommitFailed);
  };
  absl::StatusOr<std::unique_ptr<Planner>> planner = Insist(
      ends, notifier, [&] { return Planner::Follow(store->get(), *options, SystemNow, on_fatal); });
  if (!planner.ok()) return code_of(planner.status());
  absl::StatusOr<std::unique_ptr<Server>> server =
      Listen(planner->get(), flags, admission, notifier);
  if (!server.ok()) return Fail(server.status(), kCannotStart);
  // Before anybody is told of this planner, who may not start after all.
  waiting->reset();  // its address is the next one's
  absl::StatusOr<std::unique_ptr<Watched>> watched =
      Watched::Start(flags, admission, metrics.get(), published.get(), **server, **planner);
  if (!watched.ok()) return Watched::Fail(watched.status());
  (*server)->SetServing(false);
  rpc::Addresses advertised = (*server)->addresses();
  if (!flags.advertise.empty()) advertised.workers = flags.advertise;
  if (!flags.advertise_clients.empty()) {
    advertised.clients = flags.advertise_clients;
  } else if (flags.listen_clients.empty()) {
    advertised.clients = advertised.workers;
  }
  const std::string address = rpc::Text(advertised);
  if (absl::Status status = rpc::WriteAddresses(flags.dir, (*server)->addresses()); !status.ok()) {
    return Fail(status, kCannotStart);
  }
  telemetry::Log(
      told::kListening,
      {{"address", Told(**server)},
       {"state", absl::StrCat("Redis at ", redis->server.address, ", cluster ", redis->cluster)}});
  const std::string listening = absl::StrCat("; listening on ", Told(**server));
  notifier.Ready("follows" + listening);
  {
    Candidate candidate(planner->get(), store->get(), address,
                        [] { return SystemNow().monotonic_ms; },
                        {.on_lead =
                             [&] {
                               (*server)->SetServing(true);
                               notifier.Status("leads" + listening);
                             },
                         .on_deposed = on_deposed,
                         .on_fatal =
                             [](const absl::Status& status) {
                               Die(status, "the store is not what it was", kStoreChanged);
                             }});
    AwaitEnd(ends, flags.dir, notifier);
    ending = true;
    watched->reset();
    candidate.Stop();
    (*server)->Shutdown();
    (*planner)->Stop();
    candidate.Resign();
  }
  absl::Status closed = (*store)->Close();
  if (!closed.ok()) return Fail(closed, kCannotStart);
  telemetry::Log(told::kEnded, {});
  return 0;
}

int Main(int argc, char** argv) {
  CLI::App app("The planner of Warpsmith: keeps the log, leases work to workers, writes the board.",
               "warpsmith-planner");
  Flags flags;
  std::string& dir = flags.dir;
  std::string& listen = flags.listen;
  app.add_option("--dir", dir, "folder of the state [$XDG_DATA_HOME/warpsmith]");
  app.add_option("--listen", listen,
                 "127.0.0.1:PORT (0 picks one) or unix:/path; with TLS any HOST:PORT")
      ->capture_default_str();
  app.add_option("--listen-clients", flags.listen_clients,
                 "where people and their tools call; --listen is for workers alone then");
  app.add_option("--listen-http", flags.listen_http,
                 "HOST:PORT of metrics and health, by HTTP; nothing is counted without");
  app.add_option("--listen-page", flags.listen_page,
                 "HOST:PORT of the page for people with a browser");
  flags.tls.AddTo(app);
  app.add_option("--tokens", flags.tokens, "file of the tokens that are taken")
      ->envname("WARPSMITH_TOKENS");
  flags.redis.AddTo(app);
  app.add_option("--advertise", flags.advertise,
                 "where workers and clients reach this planner, if not where it listens")
      ->needs("--redis");
  app.add_option("--advertise-clients", flags.advertise_clients,
                 "where clients do, if they have a listener of their own")
      ->needs("--redis")
      ->needs("--listen-clients");
  app.add_option("--keep-over-tasks", flags.keep_over_tasks,
                 "tasks of runs that are over; beyond it the oldest such runs go to the archive")
      ->check(CLI::Range(int64_t{0}, int64_t{kMaxTasks}))
      ->capture_default_str();
  flags.log.AddTo(app);
  app.footer(
      "Exit status: 0 ended by a signal; 1 could not start; 2 wrong command line or folder; 3 the "
      "folder is in use or its disk full;\n4 the store refused a commit; 5 the listener accepts no "
      "connections any more;\n6 the shared store lacks what it had, or is another one.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsage;
  }
  if (absl::Status status = telemetry::StartLog("planner", flags.log); !status.ok()) {
    return Fail(status, kUsage);
  }
  rpc::LogWhatGrpcSays();
  if (dir.empty()) dir = rpc::DefaultDir(std::getenv("XDG_DATA_HOME"), std::getenv("HOME"));
  if (dir.empty()) {
    return Fail(absl::InvalidArgumentError("no HOME in the environment: name a folder with --dir"),
                kUsage);
  }
  for (const std::string& address :
       {listen, flags.listen_clients, flags.listen_http, flags.listen_page}) {
    if (address.empty()) continue;
    absl::Status valid = rpc::ValidateListenAddress(address, flags.tls.given());
    if (!valid.ok()) return Fail(valid, kUsage);
  }
  if (flags.redis.given() &&
      ((rpc::IsEveryAddress(listen) && flags.advertise.empty()) ||
       (rpc::IsEveryAddress(flags.listen_clients) && flags.advertise_clients.empty()))) {
    return Fail(absl::InvalidArgumentError(
                    "a planner that listens on all addresses has to be told at which others find "
                    "it: give --advertise HOST:PORT (and --advertise-clients)"),
                kUsage);
  }
  // Before the first thread, so that all have them blocked and only sigwait takes them.
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGINT);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);
  signal(SIGPIPE, SIG_IGN);
  absl::StatusOr<Admission> admission = Admit(flags);
  // Files that were right when it was started are being replaced, perhaps.
  const bool anew = std::getenv(kAnew) != nullptr;
  unsetenv(kAnew);
  for (bool said = false; anew && !admission.ok(); said = true) {
    if (!said) spdlog::error("waiting for files: {}", std::string(admission.status().message()));
    if (sigtimedwait(&ends, nullptr, &kStorePause) > 0) return 0;
    admission = Admit(flags);
  }
  if (!admission.ok()) {
    const bool may_pass =
        absl::IsNotFound(admission.status()) || absl::IsInternal(admission.status());
    return Fail(admission.status(), may_pass ? kCannotStart : kUsage);
  }
  const telemetry::Notifier notifier(std::getenv("NOTIFY_SOCKET"), std::getenv("WATCHDOG_USEC"),
                                     std::getenv("WATCHDOG_PID"));
  if (!flags.redis.given()) return Serve(flags, *admission, ends, notifier);
  return ServeShared(flags, *admission, ends, argv, notifier);
}

}  // namespace
}  // namespace warpsmith::planner

int main(int argc, char** argv) { return warpsmith::planner::Main(argc, argv); }
