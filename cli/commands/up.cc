// `up` and `down`: a planner and its workers on this machine, as children of one process.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <functional>
#include <iostream>
#include <optional>
#include <random>
#include <thread>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "cli/client.h"
#include "cli/command.h"
#include "cli/supervisor.h"
#include "cli/table.h"
#include "common/base/child.h"
#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/rpc/address.h"
#include "common/rpc/health.h"
#include "common/store/folder_lock.h"

namespace warpsmith::cli {
namespace {

constexpr int kDefaultHostWorkers = 2;
constexpr int kMaxWorkers = 256;
constexpr absl::Duration kStartLimit = absl::Seconds(30);  // until a planner that runs is to answer
constexpr absl::Duration kJoinLimit = absl::Seconds(60);   // of the workers
constexpr absl::Duration kDetachLimit = absl::Seconds(90);
constexpr int64_t kProbeMs = 1'000;  // of a call to the planner: a signal waits no longer
constexpr absl::Duration kWorkerStopLimit = absl::Seconds(25);
constexpr absl::Duration kPlannerStopLimit = absl::Seconds(10);
constexpr absl::Duration kListLimit = absl::Seconds(30);  // of the driver's start
constexpr absl::Duration kTendInterval = absl::Milliseconds(100);

struct Flags {
  int workers = -1;  // not given
  std::string device = "auto";
  std::string python;
  std::vector<std::string> labels;
  std::string memory_budget;
  bool allow_shared = false;
  std::string listen, listen_http, listen_page;
  bool detach = false;
};

std::string PidFile(const Context& context) { return absl::StrCat(context.dir, "/", kUpPidFile); }

// Locks DIR/up.pid for the life of the process and writes the process id there.
absl::Status TakeLock(const Context& context) {
  const std::string path = PidFile(context);
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (file < 0) {
    return absl::InternalError(absl::StrCat("cannot write ", path, ": ", std::strerror(errno)));
  }
  if (flock(file, LOCK_EX | LOCK_NB) != 0) {
    close(file);
    auto pid = base::ReadFile(path);
    return absl::FailedPreconditionError(
        absl::StrCat("warpsmith is up on ", context.dir, " already (process ",
                     pid.ok() ? std::string(absl::StripAsciiWhitespace(*pid)) : "unknown",
                     "): end it with `warpsmith down`, or choose another --dir"));
  }
  const std::string pid = absl::StrCat(getpid(), "\n");
  if (ftruncate(file, 0) != 0 || write(file, pid.data(), pid.size()) < 0) {
    return absl::InternalError(absl::StrCat("cannot write ", path, ": ", std::strerror(errno)));
  }
  return absl::OkStatus();
}

// Cards of this machine, as the worker sees them. FailedPrecondition: it does not.
absl::StatusOr<std::vector<std::string>> ListCards(const Context& context) {
  const std::string program = context.bin_dir + "/warpsmith-worker";
  auto child = base::Child::Start({program, "--list-devices"});
  if (!child.ok()) return child.status();
  (*child)->CloseInput();
  std::vector<std::string> cards;
  bool listed = false;
  while (true) {
    absl::StatusOr<std::string> line = (*child)->ReadLine(base::Now() + kListLimit);
    if (absl::IsOutOfRange(line.status())) break;
    if (!line.ok()) {
      return absl::InternalError(absl::StrCat("`", program, " --list-devices` does not answer: ",
                                              std::string(line.status().message())));
    }
    if (absl::StartsWith(*line, "cuda:")) cards.push_back(*line);
    listed = listed || *line == "host";  // the last
  }
  if (!listed) {
    const auto end = (*child)->End(base::Now() + kListLimit);
    const std::string said(absl::StripAsciiWhitespace((*child)->errors()));
    return absl::FailedPreconditionError(
        absl::StrCat("`", program, " --list-devices` failed: ",
                     !said.empty() ? said
                     : end         ? "it " + DescribeEnd(*end)
                                   : "it does not end",
                     "; mend that, or say --device host to work on the processor"));
  }
  return cards;
}

// The device of each worker.
absl::StatusOr<std::vector<std::string>> Devices(const Context& context, const Flags& flags) {
  if (flags.workers == 0) return std::vector<std::string>();
  std::vector<std::string> cards;
  if (flags.device == "auto" || flags.device == "cuda") {
    auto listed = ListCards(context);
    if (!listed.ok()) return listed.status();
    cards = *std::move(listed);
    if (cards.empty() && flags.device == "cuda") {
      return absl::InvalidArgumentError(
          "no CUDA card was found (is the driver loaded, is CUDA_VISIBLE_DEVICES set?): try "
          "--device host");
    }
  } else if (flags.device != "host") {
    cards = absl::StrSplit(flags.device, ',');
    for (const std::string& card : cards) {
      if (!absl::StartsWith(card, "cuda:")) {
        return absl::InvalidArgumentError(
            absl::StrCat("--device '", flags.device, "': use auto, host, cuda, or cuda:0,cuda:1"));
      }
      if (std::count(cards.begin(), cards.end(), card) > 1) {
        return absl::InvalidArgumentError(absl::StrCat(
            "--device '", flags.device, "': ", card, " is there twice, and a card has one worker"));
      }
    }
  }
  if (cards.empty()) {
    return std::vector<std::string>(flags.workers < 0 ? kDefaultHostWorkers : flags.workers,
                                    "host");
  }
  if (flags.workers > static_cast<int>(cards.size())) {
    return absl::InvalidArgumentError(absl::StrCat("--workers ", flags.workers, ": there are ",
                                                   cards.size(), " cards and a worker needs one"));
  }
  if (flags.workers >= 0) cards.resize(flags.workers);
  return cards;
}

bool PlannerAnswers(const Context& context) {
  absl::StatusOr<std::string> address = rpc::ReadAddress(context.dir);
  return address.ok() && rpc::CheckHealth(*address, kProbeMs).ok();
}

// Tells the operator, in a sentence.
using Say = std::function<void(const std::string&)>;

void SayOnScreen(const std::string& what) { std::cerr << "warpsmith: " << what << std::endl; }

class Up {
 public:
  Up(const Context& context, const Flags& flags, const Say& say)
      : context_(context), flags_(flags), say_(say), supervisor_(say, std::random_device()()) {}

  // Starts everything, then calls `ready` and tends it until a signal to end comes.
  absl::StatusOr<int> Run(const std::function<void()>& ready) {
    signal(SIGPIPE, SIG_IGN);
    if (context_.tls.given() || !context_.token_file.empty()) {
      return absl::InvalidArgumentError(
          "`up` is for one machine, whose programs reach each other by loopback, without TLS: for "
          "a fleet start warpsmith-planner and warpsmith-worker themselves, see "
          "docs/guide/secure.md (--tls-ca and the like may have come by the environment, "
          "WARPSMITH_TLS_CA)");
    }
    if (absl::Status taken = TakeLock(context_); !taken.ok()) return taken;
    auto devices = Devices(context_, flags_);
    if (!devices.ok()) return devices.status();
    // Before the first thread, so that all have them blocked and only the waits here take them.
    sigset_t ends;
    sigemptyset(&ends);
    for (int s : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&ends, s);
    pthread_sigmask(SIG_BLOCK, &ends, nullptr);

    if (PlannerAnswers(context_)) {
      return absl::FailedPreconditionError(
          absl::StrCat("a planner runs on ", context_.dir,
                       " already: add workers to it with `warpsmith-worker "
                       "--dir ",
                       context_.dir, "`, or choose another --dir"));
    }
    // One that does not answer here may speak TLS, or have too much to do.
    if (absl::IsUnavailable(store::FolderLock::Take(context_.dir).status())) {
      return absl::FailedPreconditionError(
          absl::StrCat("a planner holds ", context_.dir,
                       " already, and does not answer: has it certificates? Choose another --dir"));
    }
    rpc::RemoveAddress(context_.dir);  // of a planner that was killed
    if (absl::Status started = StartPlanner(ends); !started.ok()) return started;
    StartWorkers(*devices);
    if (absl::Status joined = AwaitWorkers(devices->size(), ends); !joined.ok()) return joined;
    // A planner that was just killed is being started again: then there is no address.
    std::cerr << "warpsmith: planner at " << rpc::ReadAddress(context_.dir).value_or("?") << ", "
              << Counted(devices->size(), "worker")
              << (devices->empty() ? "" : " on " + absl::StrJoin(*devices, ", ")) << "\n"
              << "warpsmith: board " << context_.dir << "/board.md, logs " << context_.dir
              << "/logs\n";
    if (!flags_.listen_page.empty()) SayPage();
    ready();

    absl::Status ended = Tend(ends, devices->size());
    // Workers first, so that they can tell the planner what they hold.
    supervisor_.Stop("worker", kWorkerStopLimit);
    supervisor_.Stop("planner", kPlannerStopLimit);
    if (!ended.ok()) return ended;
    return kDone;
  }

 private:
  std::string Program(const std::string& name) const { return context_.bin_dir + "/" + name; }
  std::string Log(const std::string& name) const {
    return absl::StrCat(context_.dir, "/logs/", name, ".log");
  }

  // To the one who asked for it, also where it goes to the background.
  void SayPage() const {
    const auto page = base::ReadFile(context_.dir + "/planner.page");
    say_(absl::StrCat(
        "page http://",
        page.ok() ? std::string(absl::StripAsciiWhitespace(*page)) : flags_.listen_page, "/"));
  }

  absl::Status StartPlanner(const sigset_t& ends) {
    ChildSpec planner{
        "planner", {Program("warpsmith-planner"), "--dir", context_.dir}, Log("planner")};
    if (!flags_.listen.empty()) {
      planner.argv.insert(planner.argv.end(), {"--listen", flags_.listen});
    }
    if (!flags_.listen_http.empty()) {
      planner.argv.insert(planner.argv.end(), {"--listen-http", flags_.listen_http});
    }
    if (!flags_.listen_page.empty()) {
      planner.argv.insert(planner.argv.end(), {"--listen-page", flags_.listen_page});
    }
    supervisor_.Start(planner);
    const base::Instant late = base::Now() + kStartLimit;
    bool told = false;
    while (!PlannerAnswers(context_)) {
      supervisor_.Tend();
      if (absl::Status checked = CheckPlanner(); !checked.ok()) return checked;
      if (!told && base::Now() > late) {
        told = true;
        say_(absl::StrCat("still waiting for the planner to answer: see ", Log("planner")));
      }
      if (Signalled(ends, absl::Milliseconds(50))) return absl::CancelledError("interrupted");
    }
    return absl::OkStatus();
  }

  // `what` was given up, for a reason that does not pass.
  absl::Status CannotRun(const std::string& what, const std::string& why) const {
    return absl::InvalidArgumentError(absl::StrCat(what, " cannot run as it was started: ", why,
                                                   "; see ", context_.dir, "/logs"));
  }
  absl::Status CheckPlanner() const {
    const auto end = supervisor_.GaveUp("planner");
    return end ? CannotRun("the planner", *end) : absl::OkStatus();
  }
  absl::Status CheckWorkers(size_t started) const {
    const auto end = supervisor_.GaveUp("worker");
    return started > 0 && end && supervisor_.alive() == 1 ? CannotRun("no worker", *end)
                                                          : absl::OkStatus();
  }

  void StartWorkers(const std::vector<std::string>& devices) {
    const int cores = std::max(1u, std::thread::hardware_concurrency());
    char host[256] = "localhost";
    gethostname(host, sizeof host - 1);
    for (size_t i = 0; i < devices.size(); ++i) {
      const std::string device = devices[i] == "host"
                                     ? absl::StrCat("host", i)
                                     : absl::StrReplaceAll(devices[i], {{":", ""}});
      ChildSpec worker{absl::StrCat("worker ", device),
                       {Program("warpsmith-worker"), "--dir", context_.dir, "--device", devices[i],
                        "--name", absl::StrCat(host, "-", device), "--compile-jobs",
                        std::to_string(std::max<int>(1, cores / static_cast<int>(devices.size())))},
                       Log(absl::StrCat("worker-", device))};
      if (!flags_.python.empty()) {
        worker.argv.insert(worker.argv.end(), {"--python", flags_.python});
      }
      for (const std::string& label : flags_.labels) {
        worker.argv.insert(worker.argv.end(), {"--label", label});
      }
      if (!flags_.listen_http.empty()) {
        worker.argv.insert(worker.argv.end(), {"--listen-http", "127.0.0.1:0"});
      }
      if (!flags_.memory_budget.empty()) {
        worker.argv.insert(worker.argv.end(), {"--memory-budget", flags_.memory_budget});
      }
      if (flags_.allow_shared) worker.argv.push_back("--allow-shared");
      supervisor_.Start(worker);
    }
  }

  // Until the planner knows all workers, so that what is submitted next finds them. One that takes
  // its time (PyTorch on a cold disk) is not waited for longer than kJoinLimit.
  absl::Status AwaitWorkers(size_t wanted, const sigset_t& ends) {
    const base::Instant deadline = base::Now() + kJoinLimit;
    size_t joined = 0;
    while (joined < wanted && supervisor_.alive() > 1) {
      if (Signalled(ends, absl::Milliseconds(50))) return absl::CancelledError("interrupted");
      supervisor_.Tend();
      if (base::Now() > deadline) {
        say_(absl::StrCat(joined, " of ", Counted(wanted, "worker"), " joined so far: see ",
                          context_.dir, "/logs"));
        break;
      }
      absl::StatusOr<Client> client = Client::Of(context_, kProbeMs);
      if (!client.ok()) continue;
      absl::StatusOr<v1::ListReply> list = client->List("");
      if (!list.ok()) continue;
      const auto& workers = list->workers();
      joined = std::count_if(workers.begin(), workers.end(),
                             [](const v1::WorkerInfo& worker) { return !worker.lost(); });
    }
    return CheckWorkers(wanted);
  }

  // Waits at most `limit` for a signal to end.
  static bool Signalled(const sigset_t& ends, absl::Duration limit) {
    const timespec wait = absl::ToTimespec(limit);
    return sigtimedwait(&ends, nullptr, &wait) > 0;
  }

  absl::Status Tend(const sigset_t& ends, size_t workers) {
    while (!Signalled(ends, kTendInterval)) {
      supervisor_.Tend();
      if (absl::Status checked = CheckPlanner(); !checked.ok()) return checked;
      if (absl::Status checked = CheckWorkers(workers); !checked.ok()) return checked;
    }
    return absl::OkStatus();
  }

  const Context& context_;
  const Flags& flags_;
  const Say say_;
  Supervisor supervisor_;
};

absl::Status MakeDir(const Context& context) {
  std::error_code error;
  std::filesystem::create_directories(context.dir + "/logs", error);
  if (error) {
    return absl::InvalidArgumentError(
        absl::StrCat("--dir ", context.dir, ": cannot make it: ", error.message()));
  }
  return absl::OkStatus();
}

// What a detached `up` tells the process that started it, over a pipe: lines that begin with one of
// these. The pipe is closed when all is up.
constexpr char kNote = '.', kReady = '+', kError = '!';

void Tell(int pipe, char kind, std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  const std::string line = absl::StrCat(std::string(1, kind), text, "\n");
  (void)!write(pipe, line.data(), line.size());
}

[[noreturn]] void RunDetached(const Context& context, const Flags& flags, int answer) {
  setsid();
  // What the caller had open is not ours to keep: a lock of its would last as long as we do.
  if (answer > STDERR_FILENO + 1) close_range(STDERR_FILENO + 1, answer - 1, 0);
  close_range(answer + 1, ~0u, 0);
  const std::string log = context.dir + "/logs/up.log";
  const int out = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
  const int in = open("/dev/null", O_RDWR);
  dup2(in, STDIN_FILENO);
  dup2(out < 0 ? in : out, STDOUT_FILENO);
  dup2(out < 0 ? in : out, STDERR_FILENO);
  signal(SIGPIPE, SIG_IGN);  // the one who started it may not wait to the end
  const auto say = [&answer](const std::string& what) {
    SayOnScreen(what);
    if (answer >= 0) Tell(answer, kNote, what);
  };
  absl::StatusOr<int> code = Up(context, flags, say).Run([&answer] {
    Tell(answer, kReady, "");
    close(std::exchange(answer, -1));
  });
  if (!code.ok()) {
    const std::string message(code.status().message());
    std::cerr << "warpsmith: error: " << message << std::endl;
    if (answer >= 0) Tell(answer, kError, message);
    _exit(ExitCodeOf(code.status()));
  }
  _exit(*code);
}

// Reads a line at a time; nothing: the other side has closed it, or `deadline` has come.
class AnswerReader {
 public:
  explicit AnswerReader(int pipe) : pipe_(pipe) {}
  std::optional<std::string> Next(base::Instant deadline) {
    size_t end;
    while ((end = text_.find('\n')) == text_.npos) {
      pollfd ready{pipe_, POLLIN, 0};
      const int polled = poll(&ready, 1, base::PollMs(deadline));
      if (polled < 0 && errno == EINTR) continue;
      char buffer[256];
      const ssize_t n = polled > 0 ? read(pipe_, buffer, sizeof buffer) : 0;
      if (n <= 0) return std::nullopt;
      text_.append(buffer, n);
    }
    std::string line = text_.substr(0, end);
    text_.erase(0, end + 1);
    return line;
  }

 private:
  const int pipe_;
  std::string text_;
};

// Runs `Up` in a new session. The parent returns when it is ready, with what went wrong, or when it
// is still not ready after kDetachLimit; it tells what is told meanwhile.
absl::StatusOr<int> Detach(const Context& context, const Flags& flags) {
  int answer[2];
  if (pipe2(answer, O_CLOEXEC) != 0) return absl::InternalError("cannot make a pipe");
  const pid_t pid = fork();
  if (pid < 0) return absl::InternalError(absl::StrCat("cannot fork: ", std::strerror(errno)));
  if (pid == 0) RunDetached(context, flags, answer[1]);
  close(answer[1]);
  AnswerReader reader(answer[0]);
  const base::Instant deadline = base::Now() + kDetachLimit;
  while (const auto line = reader.Next(deadline)) {
    if ((*line)[0] == kNote) SayOnScreen(line->substr(1));
    if ((*line)[0] == kError) SayOnScreen("error: " + line->substr(1));
    if ((*line)[0] != kReady) continue;
    SayOnScreen(
        absl::StrCat("up on ", context.dir, " (process ", pid, "); end it with `warpsmith down`"));
    return kDone;
  }
  if (base::Now() >= deadline) {
    return absl::UnavailableError(absl::StrCat("not up yet: process ", pid, " goes on trying, see ",
                                               context.dir,
                                               "/logs/up.log; end it with `warpsmith down`"));
  }
  int status = 0;
  waitpid(pid, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) != kDone) return WEXITSTATUS(status);
  return absl::InternalError(
      absl::StrCat("`up` ", DescribeEnd(status), ": see ", context.dir, "/logs/up.log"));
}

absl::StatusOr<int> RunUp(Context context, const Flags& flags) {
  context.planner.clear();  // its own planner is asked, whoever else is the user's otherwise
  if (absl::Status status = CheckDir(context); !status.ok()) return status;
  if (absl::Status made = MakeDir(context); !made.ok()) return made;
  if (flags.detach) return Detach(context, flags);
  return Up(context, flags, SayOnScreen).Run([] { SayOnScreen("Ctrl-C ends it"); });
}

absl::StatusOr<int> Down(const Context& context) {
  if (absl::Status status = CheckDir(context); !status.ok()) return status;
  const std::string path = PidFile(context);
  auto nothing = [&] {
    return absl::NotFoundError(absl::StrCat("nothing is up on ", context.dir));
  };
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return nothing();
  int pid = 0;
  auto text = base::ReadFile(path);
  const bool held = flock(file, LOCK_EX | LOCK_NB) != 0;
  if (!held || !text.ok() || !absl::SimpleAtoi(*text, &pid) || pid <= 1) {
    close(file);
    return nothing();
  }
  if (kill(pid, SIGTERM) != 0 && errno != ESRCH) {
    close(file);
    return absl::PermissionDeniedError(
        absl::StrCat("cannot end process ", pid, ": ", std::strerror(errno)));
  }
  // The lock is free when the process has ended.
  const base::Instant deadline = base::Now() + kWorkerStopLimit + 2 * kPlannerStopLimit;
  bool ended = false;
  while (!(ended = flock(file, LOCK_EX | LOCK_NB) == 0) && base::Now() < deadline) {
    absl::SleepFor(kTendInterval);
  }
  close(file);
  if (!ended) {
    return absl::InternalError(absl::StrCat("process ", pid, " does not end: `kill -9 ", pid,
                                            "` ends it, and loses nothing "
                                            "that was recorded"));
  }
  return kDone;
}

}  // namespace

void AddUp(CLI::App& app, const Context& context, Command& chosen) {
  auto flags = std::make_shared<Flags>();
  CLI::App* sub = app.add_subcommand(
      "up", "Start a planner and workers here and keep them running until Ctrl-C");
  sub->add_option("--workers", flags->workers,
                  "how many: 2 on the host, one for each card on a GPU machine, if not given")
      ->check(CLI::Range(0, kMaxWorkers));
  sub->add_option("--device", flags->device, "auto, host, cuda, or cards: cuda:0,cuda:1")
      ->capture_default_str();
  sub->add_option("--python", flags->python,
                  "Python with PyTorch, for problems that came from it and their baselines");
  sub->add_option("--label", flags->labels,
                  "of every worker, key=value, for runs that want it; may be given again");
  sub->add_flag("--allow-shared", flags->allow_shared,
                "work on cards that others use, too (MIG, MPS, other processes), and mark it");
  sub->add_option("--memory-budget", flags->memory_budget,
                  "as if each device had only so much memory, e.g. 80GB");
  sub->add_option("--listen", flags->listen, "the planner's address, HOST:PORT or unix:/path");
  sub->add_option("--listen-http", flags->listen_http,
                  "HOST:PORT of the planner's metrics and health, by HTTP; workers choose a port");
  sub->add_option("--listen-page", flags->listen_page,
                  "127.0.0.1:PORT of the page for people with a browser (0 picks one)");
  sub->add_flag("--detach", flags->detach, "go to the background; `warpsmith down` ends it");
  sub->callback([&context, &chosen, flags] {
    chosen = [&context, flags] { return RunUp(context, *flags); };
  });

  CLI::App* down = app.add_subcommand("down", "End what `up` started on this folder");
  down->callback([&context, &chosen] { chosen = [&context] { return Down(context); }; });
}

}  // namespace warpsmith::cli
