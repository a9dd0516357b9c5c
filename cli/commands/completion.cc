#include "cli/completion.h"

#include <iostream>

#include "cli/command.h"

namespace warpsmith::cli {

void AddCompletion(CLI::App& app, const Context&, Command& chosen) {
  auto shell = std::make_shared<std::string>();
  CLI::App* sub = app.add_subcommand(
      "completion",
      "Print a shell's completion script, e.g. `source <(warpsmith completion bash)`");
  sub->add_option("SHELL", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  sub->callback([&app, &chosen, shell] {
    chosen = [&app, shell]() -> absl::StatusOr<int> {
      std::cout << CompletionScript(app, *shell);
      return kDone;
    };
  });
}

}  // namespace warpsmith::cli
