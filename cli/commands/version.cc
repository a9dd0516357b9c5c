#include <iostream>

#include "cli/command.h"

namespace warpsmith::cli {

void AddVersion(CLI::App& app, const Context& context, Command& chosen) {
  CLI::App* sub = app.add_subcommand("version", "Print the version");
  sub->callback([&context, &chosen] {
    chosen = [&context]() -> absl::StatusOr<int> {
      if (context.json) {
        std::cout << "{\"version\": \"" WARPSMITH_VERSION "\"}\n";
      } else {
        std::cout << "warpsmith " WARPSMITH_VERSION "\n";
      }
      return kDone;
    };
  });
}

}  // namespace warpsmith::cli
