#include "cli/export/export.h"

#include <cmath>
#include <filesystem>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "cli/client.h"
#include "cli/command.h"
#include "cli/export/cubins.h"
#include "cli/table.h"
#include "common/problem/compressed.h"
#include "common/problem/task_name.h"

namespace warpsmith::cli {
namespace {

struct Flags {
  std::string run;
  std::string format = "plain";
  std::string out = "export";
  std::string nvrtc;
};

// Tasks of one problem, one a workload.
struct OfProblem {
  std::string name;
  std::vector<const v1::Task*> tasks;
};

// In the order of the list.
std::vector<OfProblem> ByProblem(const v1::ListReply& list) {
  std::vector<OfProblem> problems;
  std::map<std::string, size_t> place;
  for (const v1::Task& task : list.tasks()) {
    const auto [found, is_new] = place.emplace(task.problem_name(), problems.size());
    if (is_new) problems.push_back({task.problem_name(), {}});
    problems[found->second].tasks.push_back(&task);
  }
  return problems;
}

// Exports a run's problems one by one.
class Exporting {
 public:
  Exporting(Client& client, const Flags& flags)
      : client_(client), flags_(flags), out_{flags.out, {}} {}

  // The error of a planner that does not answer; whatever else is wrong is said and left out.
  absl::Status Add(const OfProblem& problem, bool print) {
    v1::Problem whole;
    std::vector<exporter::Part> parts;
    nlohmann::json speedups = nlohmann::json::object();
    double log_sum = 0;
    for (const v1::Task* task : problem.tasks) {
      if (task->incumbent_blob().empty()) {
        LeaveOut(problem::NameOf(*task), "it has no accepted kernel");
        continue;
      }
      absl::StatusOr<v1::GetTaskReply> reply = client_.GetTask(task->id(), /*with_trials=*/false);
      if (!reply.ok()) return reply.status();
      whole = reply->problem();
      parts.push_back({reply->incumbent().solution(), CubinsOf(reply->incumbent())});
      if (!task->workload().empty()) speedups[task->workload()] = task->speedup();
      log_sum += std::log(task->speedup());
    }
    if (parts.empty()) return absl::OkStatus();
    absl::StatusOr<std::string> path = Write(whole, parts);
    if (!path.ok()) {
      LeaveOut(problem.name, path.status().message());
      return absl::OkStatus();
    }
    const double speedup = std::exp(log_sum / static_cast<double>(parts.size()));
    files_.push_back({{"problem", problem.name}, {"path", *path}, {"speedup", speedup}});
    if (!speedups.empty()) files_.back()["workloads"] = speedups;
    if (print) std::cout << *path << "\n";
    return absl::OkStatus();
  }

  const nlohmann::json& files() const { return files_; }
  int left_out() const { return left_out_; }
  // Why a file has no cubin; "": all have.
  const std::string& uncompiled() const { return uncompiled_; }

 private:
  void LeaveOut(const std::string& what, absl::string_view why) {
    ++left_out_;
    std::cerr << "warpsmith: " << what << " is left out: " << std::string(why) << "\n";
  }

  absl::StatusOr<std::string> Write(const v1::Problem& problem,
                                    const std::vector<exporter::Part>& parts) {
    absl::StatusOr<exporter::Kernels> kernels = exporter::Gather(problem, parts);
    if (!kernels.ok()) return kernels.status();
    return flags_.format == "kernelbench" ? exporter::ExportKernelBench(*kernels, out_)
                                          : exporter::ExportPlain(*kernels, out_);
  }

  // The incumbent's cubins; what was stored without them is compiled. None where it cannot be: then
  // the file compiles its source when it is first called, which is worth a note. Plain files have
  // no use for them, and what was made for the host has none.
  std::vector<std::string> CubinsOf(const v1::Incumbent& incumbent) {
    const bool of_card = absl::StartsWith(incumbent.solution().arch(), "sm_");
    if (flags_.format != "kernelbench" || !of_card) return {};
    if (incumbent.cubins_size() > 0) {
      return {incumbent.cubins().begin(), incumbent.cubins().end()};
    }
    std::vector<std::string> kept;
    for (const std::string& compressed : incumbent.compressed_cubins()) {
      absl::StatusOr<std::string> cubin = problem::Uncompressed(compressed, "a cubin");
      if (!cubin.ok()) break;  // it is compiled anew
      kept.push_back(*std::move(cubin));
    }
    if (!kept.empty() && static_cast<int>(kept.size()) == incumbent.compressed_cubins_size()) {
      return kept;
    }
    absl::StatusOr<std::vector<std::string>> cubins =
        exporter::CompileCubins(incumbent.solution(), flags_.nvrtc);
    if (cubins.ok()) return *std::move(cubins);
    uncompiled_ = std::string(cubins.status().message());
    return {};
  }

  Client& client_;
  const Flags& flags_;
  exporter::OutFolder out_;
  nlohmann::json files_ = nlohmann::json::array();
  int left_out_ = 0;
  std::string uncompiled_;
};

absl::StatusOr<int> Export(const Context& context, const Flags& flags) {
  absl::StatusOr<Client> client = Client::Of(context);
  if (!client.ok()) return client.status();
  absl::StatusOr<v1::ListReply> list = client->Run(flags.run);
  if (!list.ok()) return list.status();
  std::error_code error;
  if (std::filesystem::exists(flags.out, error) && !std::filesystem::is_empty(flags.out, error)) {
    std::cerr << "warpsmith: " << flags.out
              << " is not empty: files of the same names are replaced, others stay\n";
  }
  const std::vector<OfProblem> problems = ByProblem(*list);
  Exporting exporting(*client, flags);
  for (const OfProblem& problem : problems) {
    if (absl::Status status = exporting.Add(problem, !context.json); !status.ok()) return status;
  }
  if (context.json) std::cout << exporting.files().dump(2) << "\n";
  if (!exporting.uncompiled().empty()) {
    std::cerr << "warpsmith: kernels without a binary are compiled when they are first called: "
              << exporting.uncompiled() << "\n";
  }
  std::cerr << "warpsmith: exported " << exporting.files().size() << " of "
            << Counted(static_cast<int64_t>(problems.size()), "problem") << " to " << flags.out
            << "\n";
  return exporting.left_out() == 0 ? kDone : kPartly;
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
