#include "cli/import/import.h"

#include <iostream>

#include "cli/command.h"
#include "common/problem/problem.h"

namespace warpsmith::cli {
namespace {

struct Flags {
  import::ImportOptions options;
  std::string out;
};

absl::StatusOr<int> ImportFromKernelBench(const Context& context, const Flags& flags) {
  import::ImportOptions options = flags.options;
  std::vector<std::string> left_out;
  absl::StatusOr<v1::ProblemSet> set = import::ImportKernelBench(options, &left_out);
  if (!set.ok()) return set.status();
  for (const std::string& why : left_out) std::cerr << "warpsmith: left out: " << why << "\n";
  if (absl::Status saved = problem::SaveSet(*set, flags.out); !saved.ok()) return saved;
  std::cerr << "warpsmith: imported " << set->problems_size() << " problems, left out "
            << left_out.size() << "; submit them with `warpsmith submit " << flags.out << "`\n";
  if (context.json) {
    std::cout << "{\"path\": \"" << flags.out << "\", \"problems\": " << set->problems_size()
              << ", \"left_out\": " << left_out.size() << "}\n";
  } else {
    std::cout << flags.out << "\n";
  }
  return left_out.empty() ? kDone : kPartly;
}

}  // namespace

void AddImport(CLI::App& app, const Context& context, Command& chosen) {
  auto flags = std::make_shared<Flags>();
  CLI::App* sub = app.add_subcommand("import", "Make a problem set from PyTorch modules");
  sub->require_subcommand(1);
  CLI::App* bench = sub->add_subcommand("kernelbench", "From a checkout of KernelBench");
  bench->add_option("DIR", flags->options.dir, "folder with level1, level2, ...")->required();
  bench->add_option("--level", flags->options.level, "1 to 4")->check(CLI::Range(1, 4))->required();
  bench->add_option("--only", flags->options.only,
                    "problem numbers, e.g. 19,23-40; all if not given");
  bench->add_option("--out", flags->out, "the problem set to write")->required();
  bench->add_option("--python", flags->options.python, "Python with PyTorch 2.8 or newer")
      ->capture_default_str();
  bench->callback([&context, &chosen, flags] {
    chosen = [&context, flags] { return ImportFromKernelBench(context, *flags); };
  });
}

}  // namespace warpsmith::cli
