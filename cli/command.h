// What every sub-command is given and gives back.
//
// Data goes to stdout; progress, notes and errors go to stderr.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/security/tls_flags.h"

namespace warpsmith::cli {

// Exit codes, documented in docs/reference/cli.md. A command returns one, or an error that
// ExitCodeOf turns into one.
inline constexpr int kDone = 0;
inline constexpr int kFailed = 1;
inline constexpr int kUsage = 2;      // a wrong flag, argument or file
inline constexpr int kNoPlanner = 3;  // none is running, or it does not answer
inline constexpr int kNotFound = 4;   // a run, task or file that does not exist
inline constexpr int kPartly = 5;     // done, but something had to be left out; stderr says what
inline constexpr int kInterrupted = 130;

// In --dir: the process id of the `up` that runs there, which holds it locked.
inline constexpr char kUpPidFile[] = "up.pid";

int ExitCodeOf(const absl::Status& status);

struct Context;
// InvalidArgument: there is no folder to work in, since neither --dir nor the environment names
// one.
absl::Status CheckDir(const Context& context);

// What main() read from the environment and the flags before the sub-command.
struct Context {
  std::string dir;      // --dir, or the default; "": there is none
  std::string planner;  // --planner HOST:PORT; empty: the one of `dir`
  security::TlsFlags tls;
  std::string token_file;   // "": none
  bool json = false;        // -o json
  std::string bin_dir;      // where this program and its siblings are
  std::string editor;       // $VISUAL, $EDITOR or vi
  std::string python_path;  // PYTHONPATH with the folder that holds warpsmith_torch/ before it
  bool stdout_terminal = false;
  bool stderr_terminal = false;
  bool colour = false;  // stderr may be coloured: a terminal, and no NO_COLOR
};

// Runs after the whole command line was read.
using Command = std::function<absl::StatusOr<int>()>;

// Each adds one sub-command whose flags it owns and puts what to run into `chosen` when it is
// given.
void AddUp(CLI::App& app, const Context& context, Command& chosen);
void AddSubmit(CLI::App& app, const Context& context, Command& chosen);
void AddImport(CLI::App& app, const Context& context, Command& chosen);
void AddExport(CLI::App& app, const Context& context, Command& chosen);
void AddBoard(CLI::App& app, const Context& context, Command& chosen);
void AddWatch(CLI::App& app, const Context& context, Command& chosen);
void AddProblems(CLI::App& app, const Context& context, Command& chosen);
void AddRuns(CLI::App& app, const Context& context, Command& chosen);
void AddShow(CLI::App& app, const Context& context, Command& chosen);
void AddHealth(CLI::App& app, const Context& context, Command& chosen);
void AddHold(CLI::App& app, const Context& context, Command& chosen);
void AddPriority(CLI::App& app, const Context& context, Command& chosen);
void AddWorkers(CLI::App& app, const Context& context, Command& chosen);
void AddUpgrade(CLI::App& app, const Context& context, Command& chosen);
void AddStore(CLI::App& app, const Context& context, Command& chosen);
void AddCerts(CLI::App& app, const Context& context, Command& chosen);
void AddTokens(CLI::App& app, const Context& context, Command& chosen);
void AddVersion(CLI::App& app, const Context& context, Command& chosen);
void AddCompletion(CLI::App& app, const Context& context, Command& chosen);

}  // namespace warpsmith::cli
