#include "cli/export/export.h"

#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "cli/client.h"
#include "cli/command.h"

namespace warpsmith::cli {
namespace {

struct Flags {
  std::string run;
  std::string format = "plain";
  std::string out = "export";
};

absl::StatusOr<int> Export(const Context& context, const Flags& flags) {
  absl::StatusOr<Client> client = Client::Of(context);
  if (!client.ok()) return client.status();
  absl::StatusOr<v1::ListReply> list = client->Run(flags.run);
  if (!list.ok()) return list.status();

  exporter::OutFolder out{flags.out, {}};
  std::error_code error;
  if (std::filesystem::exists(flags.out, error) && !std::filesystem::is_empty(flags.out, error)) {
    std::cerr << "warpsmith: " << flags.out
              << " is not empty: files of the same names are replaced, others stay\n";
  }
  nlohmann::json files = nlohmann::json::array();
  int left_out = 0;
  auto leave_out = [&](const v1::Task& task, absl::string_view why) {
    ++left_out;
    std::cerr << "warpsmith: " << task.problem_name() << " is left out: " << std::string(why)
              << "\n";
  };
  for (const v1::Task& task : list->tasks()) {
    if (task.incumbent_blob().empty()) {
      leave_out(task, "it has no accepted kernel");
      continue;
    }
    absl::StatusOr<v1::GetTaskReply> reply = client->GetTask(task.id(), /*with_trials=*/false);
    if (!reply.ok()) return reply.status();
    const v1::Solution& solution = reply->incumbent().solution();
    absl::StatusOr<std::string> path =
        flags.format == "kernelbench" ? exporter::ExportKernelBench(reply->problem(), solution, out)
                                      : exporter::ExportPlain(reply->problem(), solution, out);
    if (!path.ok()) {
      leave_out(task, path.status().message());
      continue;
    }
    files.push_back(
        {{"problem", task.problem_name()}, {"path", *path}, {"speedup", task.speedup()}});
    if (!context.json) std::cout << *path << "\n";
  }
  if (context.json) std::cout << files.dump(2) << "\n";
  std::cerr << "warpsmith: exported " << files.size() << " of " << list->tasks_size() << " to "
            << flags.out << "\n";
  return left_out == 0 ? kDone : kPartly;
}

}  // namespace

void AddExport(CLI::App& app, const Context& context, Command& chosen) {
  auto flags = std::make_shared<Flags>();
  CLI::App* sub = app.add_subcommand(
      "export", "Write a run's best kernels as files that need nothing of Warpsmith");
  sub->add_option("RUN", flags->run, "run id; the last one submitted if not given");
  sub->add_option("--format", flags->format,
                  "plain: .cu with an extern \"C\" launcher; kernelbench: Python with ModelNew")
      ->check(CLI::IsMember({"plain", "kernelbench"}))
      ->capture_default_str();
  sub->add_option("--out", flags->out, "folder to write to")->capture_default_str();
  sub->callback([&context, &chosen, flags] {
    chosen = [&context, flags] { return Export(context, *flags); };
  });
}

}  // namespace warpsmith::cli
