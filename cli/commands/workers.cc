#include <iostream>

#include "absl/strings/str_join.h"
#include "cli/client.h"
#include "cli/command.h"
#include "cli/table.h"
#include "cli/words.h"

namespace warpsmith::cli {
namespace {

absl::StatusOr<int> Workers(const Context& context) {
  absl::StatusOr<Client> client = Client::Of(context);
  if (!client.ok()) return client.status();
  absl::StatusOr<v1::ListReply> list = client->List("");
  if (!list.ok()) return list.status();
  if (context.json) {
    v1::ListReply workers;
    *workers.mutable_workers() = list->workers();
    workers.set_revision(list->revision());
    std::cout << Json(workers);
    return kDone;
  }
  if (list->workers().empty()) {
    std::cerr << "no worker is connected: start some with `warpsmith up`, or one with "
                 "`warpsmith-worker`\n";
  }
  Table table({{"worker"},
               {"arch"},
               {"device"},
               {"memory", kRight},
               {"oracle"},
               {"labels"},
               {"state"},
               {"task"}});
  for (const v1::WorkerInfo& worker : list->workers()) {
    table.Add({worker.id(), worker.arch(), worker.device_name(),
               Bytes(static_cast<double>(worker.device_bytes())),
               worker.torch() ? "PyTorch" : "native",
               worker.labels().empty() ? "-" : absl::StrJoin(worker.labels(), " "), StateOf(worker),
               worker.task_id().empty() ? "-" : worker.task_id()});
  }
  std::cout << table.Text();
  for (const v1::WorkerInfo& worker : list->workers()) {
    if (!worker.quarantined()) continue;
    std::cerr << worker.id() << " is quarantined for the tasks named above: when what is wrong "
              << "there is mended, `warpsmith release " << worker.id() << "` gives it work again\n";
  }
  return kDone;
}

}  // namespace

void AddWorkers(CLI::App& app, const Context& context, Command& chosen) {
  CLI::App* sub = app.add_subcommand("workers", "List the workers and what they work on");
  sub->callback([&context, &chosen] { chosen = [&context] { return Workers(context); }; });
}

}  // namespace warpsmith::cli
