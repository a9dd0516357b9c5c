#include "cli/watch.h"

#include "cli/client.h"
#include "cli/command.h"

namespace warpsmith::cli {

void AddWatch(CLI::App& app, const Context& context, Command& chosen) {
  auto run = std::make_shared<std::string>();
  CLI::App* sub = app.add_subcommand("watch", "Follow a run to its end, then print its results");
  sub->add_option("RUN", *run, "run id; the last one submitted if not given");
  sub->callback([&context, &chosen, run] {
    chosen = [&context, run]() -> absl::StatusOr<int> {
      absl::StatusOr<Client> client = Client::Of(context);
      if (!client.ok()) return client.status();
      return WatchRun(context, *client, *run);
    };
  });
}

}  // namespace warpsmith::cli
