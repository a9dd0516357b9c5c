// priority: a person puts a run before or behind the others of its submitter.
#include <iostream>

#include "cli/client.h"
#include "cli/command.h"
#include "cli/words.h"

namespace warpsmith::cli {
namespace {

absl::StatusOr<int> Prioritize(const Context& context, const v1::SetPriorityRequest& request) {
  absl::StatusOr<Client> client = Client::Of(context);
  if (!client.ok()) return client.status();
  absl::StatusOr<v1::Run> now = client->SetPriority(request);
  if (!now.ok()) return now.status();
  std::cerr << "run " << now->id() << " has the priority " << now->priority() << "\n";
  if (context.json) std::cout << Json(*now);
  return kDone;
}

}  // namespace

void AddPriority(CLI::App& app, const Context& context, Command& chosen) {
  struct Flags {
    std::string run, reason;
    int priority = 0;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* sub = app.add_subcommand(
      "priority", "Put a run before or behind the others of its submitter, from here on");
  sub->add_option("RUN", flags->run, "run id")->required();
  sub->add_option("PRIORITY", flags->priority, "-1000 to 1000: the higher come first")->required();
  sub->add_option("--reason", flags->reason, "one sentence, for the log");
  sub->callback([&context, &chosen, flags] {
    chosen = [&context, flags] {
      v1::SetPriorityRequest request;
      request.set_run_id(flags->run);
      request.set_priority(flags->priority);
      request.set_reason(flags->reason);
      return Prioritize(context, request);
    };
  });
}

}  // namespace warpsmith::cli
