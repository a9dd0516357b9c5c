#include "cli/import/import.h"

#include <iostream>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/table.h"
#include "common/base/clock.h"
#include "common/problem/problem.h"

namespace warpsmith::cli {
namespace {

struct Flags {
  import::ImportOptions options;
  std::string out;
  std::vector<std::string> baselines;
  bool constant_weights = false;
};

constexpr absl::Duration kBetween = absl::Seconds(2);  // from one line of progress to the next

using Importer = absl::StatusOr<import::Imported>(const import::ImportOptions&);

absl::StatusOr<int> ImportFrom(Importer importer, const Context& context, const Flags& flags) {
  import::ImportOptions options = flags.options;
  options.python_path = context.python_path;
  base::Instant told = base::Now();
  options.progress = [&told](const std::string& path, size_t done, size_t all) {
    if (base::Now() - told < kBetween || done == all) return;
    told = base::Now();
    std::cerr << "warpsmith: " << done << " of " << all << " are read, the last one " << path
              << "\n";
  };
  absl::StatusOr<import::Imported> imported = importer(options);
  if (!imported.ok()) return imported.status();
  for (const std::string& why : imported->skipped) {
    std::cerr << "warpsmith: left out: " << why << "\n";
  }
  const int problems = imported->set.problems_size();
  if (problems == 0) {
    return absl::FailedPreconditionError("none of the problems could be imported");
  }
  for (v1::Problem& problem : *imported->set.mutable_problems()) {
    for (const std::string& name : flags.baselines) problem.mutable_torch()->add_baselines(name);
    problem.set_weights_constant(flags.constant_weights);
  }
  if (absl::Status saved = problem::SaveSet(imported->set, flags.out); !saved.ok()) return saved;
  std::cerr << "warpsmith: imported " << Counted(problems, "problem") << ", left out "
            << imported->skipped.size() << "; submit them with `warpsmith submit " << flags.out
            << "`\n";
  if (context.json) {
    nlohmann::json json = {
        {"path", flags.out}, {"problems", problems}, {"left_out", imported->skipped}};
    // What Python said may have been cut within a character.
    std::cout << json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
  } else {
    std::cout << flags.out << "\n";
  }
  return imported->skipped.empty() ? kDone : kPartly;
}

}  // namespace

void AddImport(CLI::App& app, const Context& context, Command& chosen) {
  auto flags = std::make_shared<Flags>();
  CLI::App* sub = app.add_subcommand("import", "Make a problem set from PyTorch modules");
  sub->require_subcommand(1);
  CLI::App* bench = sub->add_subcommand("kernelbench", "From a checkout of KernelBench");
  bench->add_option("DIR", flags->options.directory, "folder with level1, level2, ...")->required();
  bench->add_option("--level", flags->options.level, "1 to 4")->check(CLI::Range(1, 4))->required();
  bench->add_option("--only", flags->options.only,
                    "problem numbers, e.g. 19,23-40; all if not given");
  CLI::App* modules = sub->add_subcommand(
      "modules", "From a folder of files like KernelBench's, each perhaps for several workloads");
  modules->add_option("DIR", flags->options.directory, "folder with NAME.py, ...")->required();
  modules->add_option("--only", flags->options.only, "names, e.g. gelu,rms_norm; all if not given");
  const std::pair<CLI::App*, Importer*> importers[] = {{bench, import::ImportKernelBench},
                                                       {modules, import::ImportModules}};
  for (const auto& [from, importer] : importers) {
    from->add_option("--out", flags->out, "the problem set to write")->required();
    from->add_option(
            "--baselines", flags->baselines,
            "what is timed beside eager, e.g. compile,graph,max: compile, max (torch.compile "
            "with max-autotune, up to a minute a problem), and graph (each as a CUDA graph "
            "too); compile,graph if not given")
        ->delimiter(',')
        ->check(CLI::IsMember({"eager", "compile", "graph", "max"}));
    from->add_flag("--constant-weights", flags->constant_weights,
                   "parameters are constants, as at inference: what is made of them alone is made "
                   "once for each version of them, and counts in no time");
    from->add_option("--python", flags->options.python,
                     "Python with PyTorch 2.8 or newer; python3 if not given");
    from->add_option("--jobs", flags->options.jobs,
                     "Python processes at once; one a processor, of eight files or more each, if "
                     "not given")
        ->check(CLI::Range(1, 64));
    from->callback([&context, &chosen, flags, importer = importer] {
      chosen = [&context, flags, importer] { return ImportFrom(importer, context, *flags); };
    });
  }
}

}  // namespace warpsmith::cli
