// The `warpsmith` command: reads flags and environment, runs one sub-command.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "cli/command.h"
#include "common/base/install.h"
#include "common/rpc/address.h"

namespace warpsmith::cli {
namespace {

int Main(int argc, char** argv) {
  Context context;
  context.dir = rpc::DefaultDir(getenv("XDG_DATA_HOME"), getenv("HOME"));
  context.bin_dir = base::ProgramFolder();
  context.python_path = base::PythonFolder(context.bin_dir);
  const char* python_path = getenv("PYTHONPATH");
  if (python_path != nullptr && *python_path != '\0') {
    absl::StrAppend(&context.python_path, context.python_path.empty() ? "" : ":", python_path);
  }
  context.editor = "vi";
  for (const char* variable : {"EDITOR", "VISUAL"}) {  // the latter goes before
    const char* editor = getenv(variable);
    if (editor != nullptr && *editor != '\0') context.editor = editor;
  }
  context.stdout_terminal = isatty(STDOUT_FILENO);
  context.stderr_terminal = isatty(STDERR_FILENO);
  const char* no_colour = getenv("NO_COLOR");
  context.colour = context.stderr_terminal && (no_colour == nullptr || *no_colour == '\0');

  CLI::App app("Warpsmith makes GPU kernels faster without anyone watching.", "warpsmith");
  app.require_subcommand(0, 1);
  app.fallthrough();
  app.set_help_all_flag("--help-all", "Print the help of all sub-commands");
  const CLI::Option* dir = app.add_option("--dir", context.dir, "where the planner's state lives")
                               ->capture_default_str();
  app.add_option(
      "--planner", context.planner,
      "address of a planner, or of several with commas between them, instead of that of --dir "
      "(Env:WARPSMITH_PLANNER, where --dir is not given)");
  context.tls.AddTo(app);
  app.add_option("--token-file", context.token_file,
                 "with --tls-ca: a file with a token, instead of a certificate")
      ->envname("WARPSMITH_TOKEN_FILE");
  std::string output = "table";
  app.add_option("-o,--output", output, "table or json")
      ->check(CLI::IsMember({"table", "json"}))
      ->capture_default_str();

  Command chosen;
  AddUp(app, context, chosen);
  AddSubmit(app, context, chosen);
  AddWatch(app, context, chosen);
  AddRuns(app, context, chosen);
  AddShow(app, context, chosen);
  AddBoard(app, context, chosen);
  AddExport(app, context, chosen);
  AddImport(app, context, chosen);
  AddProblems(app, context, chosen);
  AddHealth(app, context, chosen);
  AddHold(app, context, chosen);
  AddPriority(app, context, chosen);
  AddWorkers(app, context, chosen);
  AddStore(app, context, chosen);
  AddUpgrade(app, context, chosen);
  AddCerts(app, context, chosen);
  AddTokens(app, context, chosen);
  AddVersion(app, context, chosen);
  AddCompletion(app, context, chosen);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error, std::cout, std::cerr) == 0 ? kDone : kUsage;
  }
  context.json = output == "json";
  // The variable is for a person's shell; a folder that is named means the planner there.
  const char* planner = getenv("WARPSMITH_PLANNER");
  if (context.planner.empty() && dir->count() == 0 && planner != nullptr) context.planner = planner;
  if (!context.dir.empty()) {
    std::error_code error;
    const std::filesystem::path dir = std::filesystem::absolute(context.dir, error);
    if (error) {
      std::cerr << "warpsmith: error: --dir " << context.dir << ": " << error.message() << "\n";
      return kUsage;
    }
    context.dir = dir.lexically_normal().string();
  }

  if (!chosen) {
    std::cerr << app.help();
    return kUsage;
  }
  absl::StatusOr<int> code = chosen();
  // Data that did not arrive (a full disk) is no success.
  if (code.ok() && !std::cout.flush()) {
    code = absl::InternalError(absl::StrCat("cannot write to standard output: ", strerror(errno)));
  }
  if (code.ok()) return *code;
  std::cerr << "warpsmith: error: " << std::string(code.status().message()) << "\n";
  return ExitCodeOf(code.status());
}

}  // namespace
}  // namespace warpsmith::cli

int main(int argc, char** argv) { return warpsmith::cli::Main(argc, argv); }
