#include "cli/export/export.h"

#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "cli/client.h"
#include "cli/command.h"
#include "cli/export/cubins.h"

namespace warpsmith::cli {
namespace {

struct Flags {
  std::string run;
  std::string format = "plain";
  std::string out = "export";
  std::string nvrtc;
};

// The incumbent's cubins; what was stored without them is compiled. None where it cannot be: then
// the file compiles its source when it is first called, which is worth a note.
std::vector<std::string> CubinsOf(const v1::Incumbent& incumbent, const Flags& flags,
                                  std::string& note) {
  if (incumbent.cubins_size() > 0) {
    return {incumbent.cubins().begin(), incumbent.cubins().end()};
  }
  absl::StatusOr<std::vector<std::string>> cubins =
      exporter::CompileCubins(incumbent.solution(), flags.nvrtc);
  if (cubins.ok()) return *std::move(cubins);
  note = std::string(cubins.status().message());
  return {};
}

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
  std::string uncompiled;  // why a file has no cubin
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
    absl::StatusOr<std::string> path;
    if (flags.format == "kernelbench") {
      path = exporter::ExportKernelBench(reply->problem(), solution,
                                         CubinsOf(reply->incumbent(), flags, uncompiled), out);
    } else {
      path = exporter::ExportPlain(reply->problem(), solution, out);
    }
    if (!path.ok()) {
      leave_out(task, path.status().message());
      continue;
    }
    files.push_back(
        {{"problem", task.problem_name()}, {"path", *path}, {"speedup", task.speedup()}});
    if (!context.json) std::cout << *path << "\n";
  }
  if (context.json) std::cout << files.dump(2) << "\n";
  if (!uncompiled.empty()) {
    std::cerr << "warpsmith: kernels without a binary are compiled when they are first called: "
              << uncompiled << "\n";
  }
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
  sub->add_option("--nvrtc", flags->nvrtc,
                  "path of libnvrtc.so, where it is not found by itself, for runs stored without "
                  "compiled kernels");
  sub->add_option("--out", flags->out, "folder to write to")->capture_default_str();
  sub->callback([&context, &chosen, flags] {
    chosen = [&context, flags] { return Export(context, *flags); };
  });
}

}  // namespace warpsmith::cli
