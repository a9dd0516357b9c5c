// warpsmith-worker: works for a planner on one device.
//
// Puts together: the device's compiler and judge, the agents on top of them, the outbox, and the
// daemon that talks to the planner.
#include <pthread.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <random>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/base/child.h"
#include "common/base/clock.h"
#include "common/base/install.h"
#include "common/base/line_tap.h"
#include "common/http/server.h"
#include "common/problem/label.h"
#include "common/problem/task_name.h"
#include "common/rpc/address.h"
#include "common/rpc/grpc_log.h"
#include "common/security/tls_flags.h"
#include "common/telemetry/log.h"
#include "common/telemetry/notify.h"
#include "worker/agent/device_evaluator.h"
#include "worker/agent/optimiser.h"
#include "worker/call/call_timer.h"
#include "worker/card/claim.h"
#include "worker/card/strangers.h"
#include "worker/card/watch.h"
#include "worker/daemon/daemon.h"
#include "worker/daemon/lineage.h"
#include "worker/daemon/log.h"
#include "worker/daemon/metrics.h"
#include "worker/daemon/outbox.h"
#include "worker/daemon/planner_link.h"
#include "worker/daemon/secret.h"
#include "worker/device/compile_pool.h"
#include "worker/device/device.h"
#include "worker/device/lacks.h"
#include "worker/device/shown.h"
#include "worker/device/target.h"
#include "worker/judge/judge_client.h"

namespace {

using namespace warpsmith;

// Importing PyTorch from a cold disk takes its time.
constexpr absl::Duration kPythonLimit = absl::Minutes(2);
// Seconds from the signal to the end. Of these the daemon has three quarters; what has not ended
// then is not waited for beyond the rest.
constexpr double kGrace = 20, kMinGrace = 1, kMaxGrace = 3600;

// Candidates on their way on a card, whatever the number of compile jobs.
constexpr int kFewestInFlight = 8, kMostInFlight = 32;

// Of processes that had a card before, from when this one looks for one.
constexpr absl::Duration kLeavingLimit = absl::Seconds(10);
constexpr absl::Duration kBetweenReadings = absl::Milliseconds(200);

// Exit statuses. After kUsage the same again is as wrong.
constexpr int kMayPass = 1, kUsage = 2;

struct Flags {
  std::string dir, planner, device = "auto", name, python, nvrtc, cublaslt, nvml;
  telemetry::LogFlags log;
  int compile_jobs = 0;
  std::string memory_budget;
  std::vector<std::string> labels;
  security::TlsFlags tls;
  std::string listen_http, advertise_http;
  bool allow_shared = false;
  double grace = kGrace;
  bool list_devices = false;
};

int Fail(const std::string& message, int code) {
  spdlog::critical("{}", message);
  return code;
}

std::string HostName() {
  char host[256] = "localhost";
  gethostname(host, sizeof host - 1);
  return host;
}

// "hostname-cuda0"
std::string DefaultName(const std::string& device) {
  return absl::StrCat(HostName(), "-", absl::StrReplaceAll(device, {{":", ""}}));
}

bool IsName(const std::string& name) {
  return !name.empty() && name.size() <= 100 &&
         name.find_first_not_of(
             "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") ==
             std::string::npos;
}

// What an interpreter brings along.
struct Torch {
  std::string version;   // of PyTorch
  std::string nvrtc;     // libnvrtc.so of its wheel; empty: it has none
  std::string cublaslt;  // libcublasLt.so that it has loaded; empty: none
};

constexpr char kAskPython[] = R"py(
import glob, os, torch
print(torch.__version__)
root = os.path.join(os.path.dirname(os.path.dirname(torch.__file__)), "nvidia")
found = sorted(glob.glob(root + "/*/lib/libnvrtc.so.1[23]"), reverse=True)
print(found[0] if found else "")
paths = [line.split()[-1] for line in open("/proc/self/maps") if "libcublasLt.so" in line]
print(paths[0] if paths else "")
)py";

// Unavailable: it does not answer, or fails for a reason that may pass (a disk that is away).
absl::StatusOr<Torch> AskPython(const std::string& python) {
  auto child = base::Child::Start({python, "-c", kAskPython});
  if (!child.ok()) return child.status();
  const base::Instant deadline = base::Now() + kPythonLimit;
  auto version = (*child)->ReadLine(deadline);
  if (!version.ok()) {
    const std::string said = (*child)->errors();
    if (said.find("No module named 'torch'") != std::string::npos) {
      return absl::FailedPreconditionError(absl::StrCat(python, " has no PyTorch: ", said));
    }
    return absl::UnavailableError(absl::StrCat("it cannot import PyTorch: ", said));
  }
  auto nvrtc = (*child)->ReadLine(deadline);
  auto cublaslt = (*child)->ReadLine(deadline);
  return Torch{*version, nvrtc.ok() ? *nvrtc : "", cublaslt.ok() ? *cublaslt : ""};
}

// The device is described and let go: it is the judge's.
absl::StatusOr<device::DeviceInfo> DescribeDevice(const std::string& name) {
  auto device = device::MakeDevice(name);
  if (!device.ok()) return device.status();
  return (*device)->info();
}

// A device that this worker may have.
struct OpenedDevice {
  std::unique_ptr<device::Nvml> nvml;  // which tells of the card; null: it is not watched
  std::string unwatched;               // why not; empty: it is, or there is no card
  device::DeviceInfo info;
  std::string shared;  // with whom; empty: nobody
};

// InvalidArgument: it was named, and is none.
absl::Status OpenNvml(const Flags& flags, const std::string& name, OpenedDevice& opened) {
  if (name == "host" && flags.nvml.empty()) return absl::OkStatus();
  auto nvml = device::Nvml::Open(device::PciBusIdOf(name), flags.nvml);
  const std::string why(nvml.status().message());
  if (nvml.ok()) {
    opened.nvml = *std::move(nvml);
  } else if (!flags.nvml.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("--nvml ", flags.nvml, ": ", why));
  } else {
    opened.unwatched = "its card is not watched: " + why;
  }
  return absl::OkStatus();
}

// Who has the card beside this worker, which has not touched it yet. Who had it before may be on
// its way out, until `gone`.
device::CardReading ReadUnused(const device::Nvml& nvml, base::Instant gone) {
  while (true) {
    device::CardReading reading = nvml.Read();
    const std::string shared =
        card::SharedWith(reading, /*served=*/false, getpid(), card::SeesProcesses());
    if (reading.sliced || shared.empty() || base::Now() >= gone) return reading;
    absl::SleepFor(kBetweenReadings);
  }
}

// InvalidArgument: the same again would be as wrong.
absl::StatusOr<OpenedDevice> OpenDevice(const Flags& flags, const std::string& name,
                                        base::Instant gone) {
  OpenedDevice opened;
  if (absl::Status status = OpenNvml(flags, name, opened); !status.ok()) return status;
  const device::CardReading unused =
      opened.nvml == nullptr ? device::CardReading() : ReadUnused(*opened.nvml, gone);
  auto info = DescribeDevice(name);
  if (!info.ok()) return info.status();
  opened.info = *std::move(info);
  opened.shared = card::SharedWith(unused, opened.info.served, getpid(), card::SeesProcesses());
  if (opened.shared.empty() || flags.allow_shared) return opened;
  return absl::Status(
      unused.sliced || opened.info.served ? absl::StatusCode::kInvalidArgument
                                          : absl::StatusCode::kUnavailable,
      absl::StrCat("the card is shared: ", opened.shared,
                   " (what is timed on it depends on others; --allow-shared takes it, and marks "
                   "its results)"));
}

v1::WorkerInfo InfoOf(const Flags& flags, const device::DeviceInfo& device, bool torch) {
  v1::WorkerInfo info;
  info.set_id(flags.name);
  info.set_arch(device.arch);
  info.set_device_name(device.name);
  info.set_version(WARPSMITH_VERSION);
  info.set_device_bytes(device.memory_bytes);
  int64_t budget = 0;
  if (absl::SimpleAtoi(flags.memory_budget, &budget)) {
    info.set_device_bytes(std::min(budget, info.device_bytes()));
  }
  info.set_torch(torch);
  info.set_healthy(true);
  info.mutable_labels()->Add(flags.labels.begin(), flags.labels.end());
  return info;
}

// Turns SIGINT and SIGTERM into a drain; an interrupt after that, or the end of `grace`, ends the
// process at once. Another SIGTERM does not: schedulers tell a script as well as what it has
// started. Until then it looks after the daemon, and tells the service manager while that is well.
// Made before any other thread, so that all of them leave the signals to it.
class SignalWatch {
 public:
  SignalWatch(const telemetry::Notifier& notifier, absl::Duration grace)
      : notifier_(notifier), grace_(grace) {
    sigemptyset(&signals_);
    for (int s : {SIGINT, SIGTERM, kOver}) sigaddset(&signals_, s);
    pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
  }
  void Start(daemon::Daemon& daemon) {
    thread_ = std::thread([this, &daemon] {
      const int signal = Await(daemon);
      if (signal == kOver) return;
      notifier_.Stopping();
      telemetry::Log(daemon::told::kDraining, {{"signal", strsignal(signal)}});
      daemon.Drain(grace_ * 3 / 4);
      sigset_t still = signals_;
      sigdelset(&still, SIGTERM);
      const timespec limit = absl::ToTimespec(grace_);
      if (sigtimedwait(&still, nullptr, &limit) == kOver) return;
      telemetry::Log(daemon::told::kHurried, {});
      telemetry::FlushLog();
      _exit(1);
    });
  }
  // Before the daemon goes.
  void Stop() {
    pthread_kill(thread_.native_handle(), kOver);
    thread_.join();
  }

 private:
  static constexpr int kOver = SIGUSR1;
  // Several looks in the time of the watchdog; where nobody watches, nearly none.
  static constexpr int kLooksPerWatchdog = 4;
  static constexpr absl::Duration kMaxBetweenLooks = absl::Hours(1);

  int Await(daemon::Daemon& daemon) const {
    const timespec pause =
        absl::ToTimespec(std::min(notifier_.watchdog() / kLooksPerWatchdog, kMaxBetweenLooks));
    while (true) {
      const int signal = sigtimedwait(&signals_, nullptr, &pause);
      if (signal > 0) return signal;
      if (daemon.Well()) notifier_.Watchdog();
    }
  }

  const telemetry::Notifier& notifier_;
  const absl::Duration grace_;
  sigset_t signals_;
  std::thread thread_;
};

// A file or its disk may be away for a moment.
bool MayPass(const absl::Status& status) {
  return absl::IsNotFound(status) || absl::IsInternal(status) || absl::IsUnavailable(status);
}

// What is wrong with its own files is said at once; what becomes of them later, while it runs.
absl::Status CheckTls(const Flags& flags) {
  if (!flags.tls.given()) return absl::OkStatus();
  return security::ReadIdentity(flags.tls.files, security::Needs::kCertificate, absl::Now())
      .status();
}

// What is answered by HTTP: nothing, without --listen-http.
class Watched {
 public:
  // `metrics` outlives it.
  static absl::StatusOr<std::unique_ptr<Watched>> Start(const Flags& flags,
                                                        daemon::WorkerMetrics& metrics) {
    std::unique_ptr<Watched> watched(new Watched);
    if (flags.listen_http.empty()) return watched;
    if (flags.tls.given()) {
      auto identity = security::WatchedIdentity::Open(flags.tls.files,
                                                      security::Needs::kCertificate, absl::Now());
      if (!identity.ok()) return identity.status();
      watched->identity_ = *std::move(identity);
    }
    auto guard = std::make_shared<security::Guard>(watched->identity_.get(), nullptr, &absl::Now);
    const auto text = [&metrics, guard, watched = watched.get()] {
      if (const auto identity = guard->identity(); identity != nullptr) {
        metrics.metrics().CertificateEnds(identity->own.not_after);
      }
      metrics.OutboxHas(watched->BacklogBytes());
      return http::Reply{.type = "text/plain; version=0.0.4; charset=utf-8",
                         .body = metrics.Text()};
    };
    const auto health = [watched = watched.get()] {
      return watched->Well() ? http::Reply{.body = "works\n"}
                             : http::Reply{.status = 503, .body = "does not go on\n"};
    };
    auto server =
        http::Server::Start({.listen = flags.listen_http, .guard = guard, .refresh = true},
                            {{"/metrics", text}, {"/healthz", health}, {"/readyz", health}});
    if (!server.ok()) return server.status();
    watched->server_ = *std::move(server);
    watched->address_ = watched->server_->address();
    if (!flags.advertise_http.empty()) {
      watched->address_ = flags.advertise_http;
    } else if (rpc::IsEveryAddress(flags.listen_http)) {
      const std::string& here = watched->server_->address();
      watched->address_ = absl::StrCat(HostName(), here.substr(here.rfind(':')));
    }
    telemetry::Log(daemon::told::kListensHttp, {{"address", watched->address_}});
    return watched;
  }
  // Where others reach it; "": nowhere.
  const std::string& address() const { return address_; }
  // From here on; until Stop.
  void Ask(daemon::Daemon* daemon) {
    absl::MutexLock lock(&mutex_);
    daemon_ = daemon;
  }
  void Stop() {
    server_ = nullptr;
    Ask(nullptr);
  }

 private:
  Watched() = default;
  int64_t BacklogBytes() {
    absl::MutexLock lock(&mutex_);
    return daemon_ == nullptr ? 0 : daemon_->BacklogBytes();
  }
  bool Well() {
    absl::MutexLock lock(&mutex_);
    return daemon_ == nullptr || daemon_->Well();
  }

  std::unique_ptr<security::WatchedIdentity> identity_;
  std::string address_;
  absl::Mutex mutex_;
  daemon::Daemon* daemon_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::unique_ptr<http::Server> server_;  // last: it asks what is above
};

// What the worker is at, for lines of its children. Any thread.
class LeaseInHand {
 public:
  void Take(const v1::Lease& lease) {
    absl::MutexLock lock(&mutex_);
    lease_ = lease.id();
    task_ = lease.task_id();
  }
  std::function<void(const std::string&)> Teller(const telemetry::LogEvent& event) {
    return [this, &event](const std::string& line) {
      absl::MutexLock lock(&mutex_);
      telemetry::Log(
          event,
          {{"text", line}, {"run", problem::RunOf(task_)}, {"task", task_}, {"lease", lease_}});
    };
  }
  // Of the judge. `trial_id`: "" where it was at none.
  void TellDeath(const std::string& trial_id, const std::string& how) {
    absl::MutexLock lock(&mutex_);
    telemetry::Log(daemon::told::kJudgeDied, {{"reason", how},
                                              {"run", problem::RunOf(task_)},
                                              {"task", task_},
                                              {"lease", lease_},
                                              {"trial", trial_id}});
  }

 private:
  absl::Mutex mutex_;
  std::string lease_ ABSL_GUARDED_BY(mutex_), task_ ABSL_GUARDED_BY(mutex_);
};

// Prints what --device may name.
int ListDevices() {
  const auto cards = device::ListCards();
  if (!cards.ok() && !absl::IsNotFound(cards.status())) {
    std::fprintf(stderr, "the driver of its cards does not start: %s\n",
                 std::string(cards.status().message()).c_str());
    return kMayPass;
  }
  if (cards.ok()) {
    for (const device::VisibleCard& card : *cards) std::printf("%s\n", card.name.c_str());
  }
  std::printf("host\n");
  return 0;
}

// `note`: what there is to know of its device.
int Run(Flags flags, const std::string& note, OpenedDevice opened, SignalWatch& signals,
        const telemetry::Notifier& notifier) {
  signal(SIGPIPE, SIG_IGN);
  if (absl::Status tls = CheckTls(flags); !tls.ok()) {
    return Fail(std::string(tls.message()), MayPass(tls) ? kMayPass : kUsage);
  }

  const std::string folder = absl::StrCat(flags.dir, "/worker-", flags.name);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return Fail(absl::StrCat("cannot make ", folder, ": ", error.message()), kMayPass);
  auto outbox = daemon::Outbox::Open(folder + "/outbox");
  if (!outbox.ok()) return Fail(std::string(outbox.status().message()), kMayPass);
  auto instances = daemon::OpenLogFile(folder + "/instance");
  if (!instances.ok()) return Fail(std::string(instances.status().message()), kMayPass);
  auto secret = daemon::ReadOrMakeSecret(folder + "/secret");
  if (!secret.ok()) {
    return Fail(std::string(secret.status().message()),
                MayPass(secret.status()) ? kMayPass : kUsage);
  }
  auto lineage =
      daemon::Lineage::Open(*std::move(instances), daemon::DrawInstance(), *std::move(secret));
  if (!lineage.ok()) return Fail(std::string(lineage.status().message()), kMayPass);

  if (!note.empty()) {
    telemetry::Log(flags.device == "host" ? daemon::told::kNoCard : daemon::told::kCardsPassedOver,
                   {{"reason", note}});
  }
  std::string missing = opened.unwatched;
  if (!missing.empty()) telemetry::Log(daemon::told::kCardUnwatched, {{"reason", missing}});
  device::DeviceInfo& device = opened.info;
  if (!flags.python.empty()) {
    auto torch = AskPython(flags.python);
    if (!torch.ok()) {
      return Fail(
          absl::StrCat("--python ", flags.python, ": ", std::string(torch.status().message())),
          absl::IsUnavailable(torch.status()) || absl::IsResourceExhausted(torch.status())
              ? kMayPass
              : kUsage);
    }
    spdlog::info("PyTorch {} at {}", torch->version, flags.python);
    if (flags.nvrtc.empty()) flags.nvrtc = torch->nvrtc;
    if (flags.cublaslt.empty()) flags.cublaslt = torch->cublaslt;
  }
  const device::Software software =
      device::FindSoftware(!flags.python.empty(), flags.nvrtc, flags.cublaslt, device);
  if (!device.library.empty()) spdlog::info("products by a library: {}", device.library);

  LeaseInHand in_hand;
  base::LineTap judge_said(in_hand.Teller(daemon::told::kJudgeSaid));
  base::LineTap compiler_said(in_hand.Teller(daemon::told::kCompilerSaid));
  const std::string cache = flags.dir + "/cache";
  device::CompilePool::Options pool_options;
  pool_options.processes = flags.compile_jobs;
  pool_options.arch = device.arch;
  pool_options.cache_dir = cache;
  pool_options.nvrtc = flags.nvrtc;
  pool_options.stderr_fd = compiler_said.fd();
  auto pool = device::CompilePool::Start(pool_options);
  if (!pool.ok()) return Fail(std::string(pool.status().message()), kMayPass);
  judge::JudgeClient::Options judge_options;
  judge_options.device = flags.device;
  judge_options.stderr_fd = judge_said.fd();
  judge_options.on_death = [&in_hand](const std::string& trial_id, const std::string& how) {
    in_hand.TellDeath(trial_id, how);
  };
  judge_options.arguments = {"--cache-dir", cache};
  if (!flags.python.empty()) {
    judge_options.arguments.insert(
        judge_options.arguments.end(),
        {"--python", flags.python, "--python-path", base::PythonFolder(base::ProgramFolder())});
  }
  if (!flags.nvrtc.empty()) {
    judge_options.arguments.insert(judge_options.arguments.end(), {"--nvrtc", flags.nvrtc});
  }
  if (!flags.cublaslt.empty()) {
    judge_options.arguments.insert(judge_options.arguments.end(), {"--cublaslt", flags.cublaslt});
  }
  if (!flags.memory_budget.empty()) {
    judge_options.arguments.insert(judge_options.arguments.end(),
                                   {"--memory-budget", flags.memory_budget});
  }
  judge::JudgeClient judge(judge_options);
  v1::WorkerInfo info = InfoOf(flags, device, !flags.python.empty());
  daemon::WorkerMetrics metrics(WARPSMITH_VERSION, info, base::Clock::Real());
  metrics.metrics().Keeps(flags.dir);
  agent::DeviceEvaluator::Settings settings;
  settings.use_torch = !flags.python.empty();
  settings.on_activity = [&metrics](agent::Activity next, double oracle_seconds) {
    metrics.Do(next, oracle_seconds);
  };
  call::CallTimer::Options timer_options;
  timer_options.python = flags.python;
  timer_options.python_path = base::PythonFolder(base::ProgramFolder());
  const device::ShownCard shown = device::ShowAlone(flags.device);
  timer_options.device = shown.name;
  timer_options.environment = shown.environment;
  timer_options.arch = device.arch;
  timer_options.clock = base::ProgramFolder() + "/libwarpsmith_clock.so";
  call::CallTimer timer(timer_options);
  agent::DeviceEvaluator evaluator(**pool, judge, settings,
                                   device.kind == "cuda" ? &timer : nullptr);
  agent::Options agent_options;
  agent_options.target = device::TargetOf(device);
  agent_options.card = absl::StrCat(device.name, opened.shared.empty() ? "" : ", shared");
  // A kernel takes NVRTC half a second where all processors are busy, and the judge tens of
  // milliseconds: what can be compiled at once is on its way at once.
  if (device.kind == "cuda") {
    agent_options.in_flight = std::clamp(flags.compile_jobs, kFewestInFlight, kMostInFlight);
  }
  agent::Optimiser optimiser(evaluator, agent_options);

  daemon::GrpcPlannerLink link(
      [&flags]() -> absl::StatusOr<std::string> {
        return flags.planner.empty() ? rpc::ReadAddress(flags.dir) : flags.planner;
      },
      security::Dialer({.tls = flags.tls.files}, &absl::Now));
  info.set_shared(opened.shared);
  for (const std::string& lack : device::Lacks(device, software)) {
    telemetry::Log(daemon::told::kLacks, {{"reason", lack}});
    absl::StrAppend(&missing, missing.empty() ? "" : "; ", lack);
  }
  info.set_health_reason(missing);
  auto watched = Watched::Start(flags, metrics);
  if (!watched.ok()) {
    return Fail(std::string(watched.status().message()),
                absl::IsInvalidArgument(watched.status()) ? kUsage : kMayPass);
  }
  info.set_http_address((*watched)->address());
  daemon::MeteredLink metered(link, metrics, base::Clock::Real());
  daemon::Daemon daemon(info, **lineage, **outbox, metered,
                        metrics.Metered([&](const v1::Lease& lease, agent::Reporter& reporter,
                                            const std::atomic<bool>& stop) {
                          in_hand.Take(lease);
                          auto outcome = optimiser.Run(lease, reporter, stop);
                          in_hand.Take(v1::Lease());
                          return outcome;
                        }),
                        base::Clock::Real(), std::random_device()());
  (*watched)->Ask(&daemon);
  std::optional<card::CardWatch> card_watch;
  if (opened.nvml != nullptr) {
    card_watch.emplace(
        *opened.nvml,
        card::CardWatch::Options{
            .alone = !flags.allow_shared, .sees_processes = card::SeesProcesses(), .note = missing},
        card::CardWatch::Listener{.health = [&](const auto& health) { daemon.SetHealth(health); },
                                  .interrupt = [&](const auto& why) { daemon.Interrupt(why); }},
        metrics.metrics());
  }

  telemetry::Log(daemon::told::kStarted, {{"name", flags.name},
                                          {"device", device.name},
                                          {"arch", device.arch},
                                          {"compile_jobs", flags.compile_jobs}});
  notifier.Ready(absl::StrCat("worker ", flags.name, " on ", device.name));
  signals.Start(daemon);
  absl::Status ended = daemon.Run();
  signals.Stop();
  (*watched)->Stop();
  card_watch.reset();
  if (!ended.ok()) return Fail(std::string(ended.message()), kMayPass);
  telemetry::Log(daemon::told::kEnded, {});
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Flags flags;
  flags.dir = rpc::DefaultDir(getenv("XDG_DATA_HOME"), getenv("HOME"));
  CLI::App app("Works for a Warpsmith planner on one device.", "warpsmith-worker");
  app.add_option("--dir", flags.dir, "folder of state, as of the planner")->capture_default_str();
  app.add_option(
      "--planner", flags.planner,
      "address of the planner, or of several with commas between them, instead of that of --dir");
  flags.tls.AddTo(app);
  app.add_option("--listen-http", flags.listen_http,
                 "127.0.0.1:PORT of metrics and health, by HTTP (0 picks one); with TLS any "
                 "HOST:PORT");
  app.add_option("--advertise-http", flags.advertise_http,
                 "HOST:PORT where others reach that, if not where it listens; of 0.0.0.0:PORT this "
                 "machine's host name, if not given")
      ->needs("--listen-http");
  app.add_option("--device", flags.device,
                 "cuda: the first card that can be used and that no other worker of this machine "
                 "has; auto: so, or host, the processor, where there is no card; or one of "
                 "--list-devices: host, cuda:0, ...")
      ->capture_default_str();
  app.add_option("--name", flags.name,
                 "unique among a planner's workers; HOST-DEVICE if not given, as gpu7-cuda0");
  app.add_option("--python", flags.python, "Python with PyTorch, for the PyTorch oracle");
  app.add_option("--cublaslt", flags.cublaslt,
                 "path of libcublasLt.so; that of --python, or the system's, if not given");
  app.add_option("--nvrtc", flags.nvrtc,
                 "path of libnvrtc.so; that of --python, or the system's, if not given");
  app.add_option("--nvml", flags.nvml,
                 "path of libnvidia-ml.so; the system's, if not given; with --device host no card "
                 "is watched without it");
  app.add_flag("--allow-shared", flags.allow_shared,
               "work on a card that others use, too (MIG, MPS, other processes), and mark it");
  app.add_option("--memory-budget", flags.memory_budget,
                 "as if the device had only so much, e.g. 80GB; all it has if not given")
      ->check(CLI::AsSizeValue(/*kb_is_1000=*/true));
  app.add_option("--label", flags.labels,
                 "key=value, for runs that want it and for `hold --label`; may be given again");
  app.add_option("--compile-jobs", flags.compile_jobs, "processes; one a core if not given")
      ->check(CLI::Range(1, device::kMaxCompileProcesses));
  app.add_option("--grace", flags.grace,
                 "seconds that it is given to end after SIGTERM; it hands back its lease before")
      ->check(CLI::Range(kMinGrace, kMaxGrace))
      ->capture_default_str();
  flags.log.AddTo(app);
  app.add_flag("--list-devices", flags.list_devices, "print this machine's devices and end");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error, std::cout, std::cerr) == 0 ? 0 : kUsage;
  }
  if (flags.list_devices) return ListDevices();
  const telemetry::Notifier notifier(getenv("NOTIFY_SOCKET"), getenv("WATCHDOG_USEC"),
                                     getenv("WATCHDOG_PID"));
  unsetenv("NOTIFY_SOCKET");  // not for what it starts
  SignalWatch signals(notifier, absl::Seconds(flags.grace));
  OpenedDevice opened;
  const auto fit = [&flags, &opened,
                    gone = base::Now() + kLeavingLimit](const std::string& device) {
    auto tried = OpenDevice(flags, device, gone);
    if (tried.ok()) opened = *std::move(tried);
    return tried.status();
  };
  auto found = card::FindDevice(flags.device, &device::ListCards, fit);
  if (flags.name.empty()) flags.name = DefaultName(found.ok() ? found->device : flags.device);
  if (absl::Status started = telemetry::StartLog("worker", flags.log, flags.name); !started.ok()) {
    return Fail(std::string(started.message()), kUsage);
  }
  rpc::LogWhatGrpcSays();
  if (!found.ok()) {
    return Fail(
        absl::StrCat("--device ", flags.device, ": ", std::string(found.status().message())),
        absl::IsInvalidArgument(found.status()) ? kUsage : kMayPass);
  }
  if (!IsName(flags.name)) {
    return Fail(absl::StrCat("--name '", flags.name, "': use letters, digits, '.', '_', '-'"),
                kUsage);
  }
  if (absl::Status status = problem::CheckLabels("--label", flags.labels); !status.ok()) {
    return Fail(std::string(status.message()), kUsage);
  }
  if (flags.compile_jobs == 0) {
    flags.compile_jobs =
        std::clamp<int>(std::thread::hardware_concurrency(), 1, device::kMaxCompileProcesses);
  }
  flags.device = found->device;
  found->claim.Sign(flags.name);
  return Run(std::move(flags), found->note, std::move(opened), signals, notifier);
}
