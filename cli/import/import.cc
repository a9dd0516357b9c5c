#include "cli/import/import.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/mutex.h"
#include "cli/import/aten.h"
#include "cli/import/lowering.h"
#include "cli/import/orders.h"
#include "cli/import/workloads.h"
#include "common/base/child.h"
#include "common/base/clock.h"
#include "common/problem/problem.h"

namespace warpsmith::import {
namespace {

namespace fs = std::filesystem;

// Importing PyTorch takes up to half a minute on a cold disk; one export is limited by the dump
// itself, to a minute.
constexpr absl::Duration kDumpLimit = absl::Minutes(3);

constexpr size_t kMaxNamesInMessage = 12;

// Numbers of problems, from first to last, and how they were asked for.
struct Numbers {
  int first, last;
  std::string text;
};

absl::StatusOr<std::vector<Numbers>> NumbersOf(const std::string& only) {
  std::vector<Numbers> numbers;
  for (absl::string_view part : absl::StrSplit(only, ',', absl::SkipWhitespace())) {
    const std::pair<absl::string_view, absl::string_view> range =
        absl::StrSplit(part, absl::MaxSplits('-', 1));
    int first = 0, last = 0;
    const bool single = !absl::StrContains(part, '-');
    if (!absl::SimpleAtoi(range.first, &first) ||
        !absl::SimpleAtoi(single ? range.first : range.second, &last) || first < 1 ||
        last < first || last - first > problem::kMaxProblems) {
      return absl::InvalidArgumentError(absl::StrCat(
          "'", part, "' is no number of a problem and no range of them (19 or 19-30)"));
    }
    numbers.push_back({first, last, std::string(part)});
  }
  return numbers;
}

// Files in the order in which they are imported.
using Files = std::vector<std::string>;

absl::StatusOr<Files> KernelBenchFiles(const ImportOptions& options) {
  const std::string level = absl::StrCat("level", options.level);
  std::error_code error;
  fs::path folder;
  for (const fs::path& candidate :
       {fs::path(options.directory) / "KernelBench" / level, fs::path(options.directory) / level}) {
    if (fs::is_directory(candidate, error)) {
      folder = candidate;
      break;
    }
  }
  if (folder.empty()) {
    return absl::NotFoundError(absl::StrCat("'", options.directory, "' has neither KernelBench/",
                                            level, " nor ", level,
                                            ": give a checkout of KernelBench"));
  }
  const absl::StatusOr<std::vector<Numbers>> wanted = NumbersOf(options.only);
  if (!wanted.ok()) return wanted.status();
  std::map<int, std::string> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    int number = 0;
    if (entry.path().extension() != ".py" ||
        !absl::SimpleAtoi(name.substr(0, name.find('_')), &number)) {
      continue;
    }
    files[number] = entry.path().string();
  }
  if (error) return absl::NotFoundError(absl::StrCat(folder.string(), ": ", error.message()));
  if (files.empty()) {
    return absl::NotFoundError(absl::StrCat("'", folder.string(),
                                            "' has no file like 19_ReLU.py: give a checkout of "
                                            "KernelBench"));
  }
  std::map<int, std::string> chosen;
  for (const Numbers& some : *wanted) {
    const auto begin = files.lower_bound(some.first), end = files.upper_bound(some.last);
    if (begin == end) {
      return absl::NotFoundError(absl::StrCat("--only ", some.text, ": '", folder.string(),
                                              "' has no such problem; its numbers are from ",
                                              files.begin()->first, " to ", files.rbegin()->first));
    }
    chosen.insert(begin, end);
  }
  Files ordered;
  for (const auto& [number, file] : wanted->empty() ? files : chosen) ordered.push_back(file);
  return ordered;
}

absl::Status NoModule(const std::string& folder, const std::string& name,
                      const std::map<std::string, std::string>& files) {
  std::vector<std::string> known;
  for (const auto& [other, file] : files) {
    known.push_back(known.size() == kMaxNamesInMessage ? "..." : other);
    if (known.size() > kMaxNamesInMessage) break;
  }
  return absl::NotFoundError(absl::StrCat("--only ", name, ": '", folder, "' has no ", name,
                                          ".py; it has ", absl::StrJoin(known, ", ")));
}

absl::StatusOr<Files> ModuleFiles(const ImportOptions& options) {
  std::error_code error;
  std::map<std::string, std::string> files;  // by name
  for (const fs::directory_entry& entry : fs::directory_iterator(options.directory, error)) {
    const fs::path& path = entry.path();
    if (path.extension() == ".py") files[path.stem().string()] = path.string();
  }
  if (error) {
    return absl::NotFoundError(absl::StrCat("'", options.directory, "': ", error.message(),
                                            ": give a folder of PyTorch modules, NAME.py"));
  }
  if (files.empty()) {
    return absl::NotFoundError(absl::StrCat("'", options.directory,
                                            "' has no file NAME.py: give a folder of PyTorch "
                                            "modules"));
  }
  const std::set<std::string> wanted = absl::StrSplit(options.only, ',', absl::SkipWhitespace());
  for (const std::string& name : wanted) {
    if (files.count(name) == 0) return NoModule(options.directory, name, files);
  }
  Files chosen;
  for (const auto& [name, file] : files) {
    if (wanted.empty() || wanted.count(name) > 0) chosen.push_back(file);
  }
  return chosen;
}

// The child that exports: one for all files, and another one for the rest where a file ends it.
class Dumper {
 public:
  explicit Dumper(const ImportOptions& options)
      : python_(options.python.empty() ? "python3" : options.python),
        python_path_(options.python_path) {}

  // The dumps of `file`; `end` bounds the files that will be asked for after it.
  // FailedPrecondition: there is no Python, or no PyTorch. Other errors are this file's alone.
  absl::StatusOr<std::vector<Dump>> Next(Files::const_iterator file, Files::const_iterator end) {
    if (child_ == nullptr) {
      const absl::Status started = Start(file, end);
      if (!started.ok()) return started;
    }
    const absl::StatusOr<std::string> line = child_->ReadLine(base::Now() + kDumpLimit);
    if (line.ok()) return ParseDumps(*line);
    child_.reset();
    if (absl::IsDeadlineExceeded(line.status())) {
      return absl::DeadlineExceededError("exporting the module took too long");
    }
    return absl::AbortedError("PyTorch ended while it exported the module");
  }

 private:
  absl::Status Start(Files::const_iterator file, Files::const_iterator end) {
    std::vector<std::pair<std::string, std::string>> environment;
    if (!python_path_.empty()) environment.push_back({"PYTHONPATH", python_path_});
    auto child = base::Child::Start({python_, "-m", "warpsmith_torch.dump"}, environment);
    if (!child.ok()) {
      return absl::FailedPreconditionError(
          absl::StrCat("no Python to read PyTorch modules with: ", child.status().message(),
                       "; give one that has PyTorch 2.8 or later"));
    }
    child_ = *std::move(child);
    std::string paths;
    for (; file != end; ++file) absl::StrAppend(&paths, *file, "\n");
    // A child that cannot take them says why when it is read.
    const absl::Status asked = child_->WriteLine(paths, base::Now() + kDumpLimit);
    child_->CloseInput();
    if (absl::IsDeadlineExceeded(asked)) return asked;
    return Greeted();
  }

  // The first line, without anything in it, says that there is a PyTorch: what fails then is a
  // file, not the installation.
  absl::Status Greeted() {
    if (child_->ReadLine(base::Now() + kDumpLimit).ok()) return absl::OkStatus();
    const std::string said = child_->errors();
    child_.reset();
    if (said.find("No module named 'torch'") != std::string::npos) {
      return absl::FailedPreconditionError(
          absl::StrCat("'", python_, "' has no PyTorch: install torch 2.8 or later for it"));
    }
    return absl::FailedPreconditionError(
        absl::StrCat("'", python_, "' cannot export PyTorch modules: ", said));
  }

  const std::string python_, python_path_;
  std::unique_ptr<base::Child> child_;
};

// "GELU_" from "26_GELU_.py", as words.
std::string Described(const std::string& path) {
  std::string stem = fs::path(path).stem().string();
  const size_t underscore = stem.find('_');
  if (underscore != std::string::npos) stem = stem.substr(underscore + 1);
  std::vector<std::string> words = absl::StrSplit(stem, '_', absl::SkipEmpty());
  return absl::StrJoin(words, " ");
}

// Names are [A-Za-z0-9_.-]+.
std::string NameOf(const std::string& path) {
  std::string name = fs::path(path).stem().string();
  for (char& c : name) {
    if (!isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '.' && c != '-') c = '_';
  }
  return name;
}

// Draws that are fitted to a workload's own weights differ a little: those of the first will do.
// Bounds of integers are kept, since they may be indexes.
void ShareDistributions(const Dump& first, Dump& dump) {
  for (Placeholder& placeholder : dump.placeholders) {
    for (const Placeholder& other : first.placeholders) {
      if (other.name == placeholder.name && other.kind == placeholder.kind &&
          placeholder.distribution.kind != graph::Distribution::Kind::kIntegers) {
        placeholder.distribution = other.distribution;
      }
    }
  }
}

// The graph of the dumps, in one text, and the workloads; orders: of the graph's outputs.
absl::Status AddGraphs(const std::vector<Dump>& dumps, const std::vector<AxisOrder>& orders,
                       v1::Problem& problem) {
  std::vector<WorkloadText> texts;
  for (Dump dump : dumps) {
    ShareDistributions(dumps.front(), dump);
    absl::StatusOr<graph::Graph> graph = LowerAten(dump, orders);
    if (!graph.ok()) return graph.status();
    texts.push_back({dump.workload, dump.dims, graph::Print(*graph)});
    if (std::none_of(dump.nodes.begin(), dump.nodes.end(), Draws)) continue;
    for (const graph::Tensor& tensor : graph->tensors) {  // the last that is given
      if (tensor.given()) problem.mutable_torch()->set_seeds(tensor.name);
    }
  }
  absl::StatusOr<MergedText> merged = MergeTexts(texts);
  if (!merged.ok()) return merged.status();
  for (std::string& line : merged->lines) problem.add_graph(std::move(line));
  for (size_t w = 0; w < texts.size(); ++w) {
    v1::Workload& workload = *problem.add_workloads();
    workload.set_name(texts[w].workload);
    workload.mutable_dims()->insert(merged->dims[w].begin(), merged->dims[w].end());
  }
  return absl::OkStatus();
}

// Says nothing where all outputs lie as their axes are.
void AddOrders(const std::vector<AxisOrder>& orders, v1::TorchModule& torch) {
  if (std::all_of(orders.begin(), orders.end(),
                  [](const AxisOrder& o) { return std::is_sorted(o.begin(), o.end()); })) {
    return;
  }
  for (const AxisOrder& order : orders) {
    torch.add_orders()->mutable_axes()->Add(order.begin(), order.end());
  }
}

// Says nothing where forward's tensors are the graph's outputs, whole.
void AddViews(const Dump& dump, v1::TorchModule& torch) {
  const auto is_part = [](const Dump::Output& output) { return output.view.strides_size() > 0; };
  if (std::none_of(dump.outputs.begin(), dump.outputs.end(), is_part)) return;
  for (const Dump::Output& output : dump.outputs) *torch.add_views() = output.view;
}

// Forward's arguments that are no tensors of the graph.
absl::Status AddScalars(const Dump& dump, v1::TorchModule& torch) {
  for (const Placeholder& placeholder : dump.placeholders) {
    if (placeholder.kind == Placeholder::Kind::kEmpty) {
      v1::ScalarInput& empty = *torch.add_scalars();
      empty.set_position(placeholder.position);
      for (int64_t extent : placeholder.meta.shape) empty.add_empty_shape(extent);
    }
    if (placeholder.kind != Placeholder::Kind::kScalar) continue;
    const nlohmann::json& value = placeholder.value;
    if (!IsNumber(value)) {
      return absl::InvalidArgumentError(absl::StrCat("forward's argument '", placeholder.name,
                                                     "' is neither a tensor nor a number"));
    }
    v1::ScalarInput& scalar = *torch.add_scalars();
    scalar.set_position(placeholder.position);
    scalar.set_value(NumberOf(value));
  }
  return absl::OkStatus();
}

// Processes that export at once. Each imports PyTorch first, which takes as long as several files.
size_t JobsFor(const ImportOptions& options, size_t files) {
  constexpr size_t kFilesOfJob = 8, kMost = 8;
  const size_t processors = std::max(1U, std::thread::hardware_concurrency());
  const size_t jobs = options.jobs > 0
                          ? static_cast<size_t>(options.jobs)
                          : std::min({processors, kMost, (files + kFilesOfJob - 1) / kFilesOfJob});
  return std::clamp<size_t>(jobs, 1, std::max<size_t>(1, files));
}

// What files become, by several processes.
class Importing {
 public:
  // `folder`: before a file's name in its path in the suite.
  Importing(const ImportOptions& options, const Files& files, const std::string& suite,
            const std::string& folder)
      : options_(options),
        files_(files),
        suite_(suite),
        folder_(folder),
        made_(files.size(), absl::UnknownError("it was not reached")) {}

  // As ImportKernelBench: the problems of each file, or why it has none.
  absl::StatusOr<std::vector<absl::StatusOr<std::vector<v1::Problem>>>> Run() {
    const size_t jobs = JobsFor(options_, files_.size());
    std::vector<std::thread> others;
    for (size_t job = 1; job < jobs; ++job)
      others.emplace_back([this, job, jobs] { Work(job, jobs); });
    Work(0, jobs);
    for (std::thread& other : others) other.join();
    absl::MutexLock lock(&mutex_);
    if (!missing_.ok()) return missing_;
    return std::move(made_);
  }

  std::string PathOf(size_t file) const {
    return folder_ + fs::path(files_[file]).filename().string();
  }

 private:
  // Every so manieth file from the job's number on: neighbours take about as long.
  void Work(size_t job, size_t jobs) {
    Files own;
    for (size_t file = job; file < files_.size(); file += jobs) own.push_back(files_[file]);
    Dumper dumper(options_);
    for (size_t i = 0; i < own.size(); ++i) {
      const size_t file = job + i * jobs;
      const absl::StatusOr<std::vector<Dump>> dumps =
          dumper.Next(own.begin() + static_cast<long>(i), own.end());
      auto problems = dumps.ok() ? ProblemsOf(*dumps, suite_, PathOf(file))
                                 : absl::StatusOr<std::vector<v1::Problem>>(dumps.status());
      absl::MutexLock lock(&mutex_);
      if (absl::IsFailedPrecondition(dumps.status())) missing_.Update(dumps.status());
      if (!missing_.ok()) return;
      made_[file] = std::move(problems);
      ++done_;
      if (options_.progress) options_.progress(PathOf(file), done_, files_.size());
    }
  }

  const ImportOptions& options_;
  const Files& files_;
  const std::string suite_, folder_;
  absl::Mutex mutex_;
  absl::Status missing_ ABSL_GUARDED_BY(mutex_);  // Python, or PyTorch
  std::vector<absl::StatusOr<std::vector<v1::Problem>>> made_ ABSL_GUARDED_BY(mutex_);
  size_t done_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Every file as a problem of `set`, in their order.
absl::StatusOr<Imported> ImportFiles(const ImportOptions& options, const Files& files,
                                     const std::string& suite, const std::string& folder) {
  Imported imported;
  Importing importing(options, files, suite, folder);
  auto made = importing.Run();
  if (!made.ok()) return made.status();
  std::set<std::string> names;
  for (size_t file = 0; file < files.size(); ++file) {
    const std::string path = importing.PathOf(file);
    absl::StatusOr<std::vector<v1::Problem>>& problems = (*made)[file];
    if (!problems.ok()) {
      imported.skipped.push_back(
          absl::StrCat(path.substr(0, path.size() - 3), ": ", problems.status().message()));
      continue;
    }
    for (v1::Problem& problem : *problems) {
      if (names.insert(problem.name()).second) {
        *imported.set.add_problems() = std::move(problem);
      } else {
        imported.skipped.push_back(absl::StrCat(path.substr(0, path.size() - 3),
                                                ": there is a problem '", problem.name(),
                                                "' already; rename a file or a workload"));
      }
    }
  }
  imported.set.set_version("1");
  return imported;
}

}  // namespace

absl::StatusOr<v1::Problem> ProblemOf(const std::vector<Dump>& dumps, const std::string& suite,
                                      const std::string& path) {
  const Dump& first = dumps.front();
  if (!first.error.empty()) return absl::InvalidArgumentError(first.error);
  v1::Problem problem;
  problem.set_name(NameOf(path));
  problem.set_description(first.description.empty()
                              ? absl::StrCat(Described(path), " of ", suite, " ", path, ".")
                              : first.description);
  v1::TorchModule& torch = *problem.mutable_torch();
  torch.set_suite(suite);
  torch.set_path(path);
  torch.set_source(first.source);
  torch.set_exported_with(first.torch);
  const std::vector<int> outputs = OutputsOf(first);
  const bool back = std::any_of(first.outputs.begin(), first.outputs.end(),
                                [](const Dump::Output& output) { return !output.given.empty(); });
  if (back || std::set<int>(outputs.begin(), outputs.end()).size() < outputs.size()) {
    torch.mutable_outputs()->Add(outputs.begin(), outputs.end());
  }
  const absl::StatusOr<std::vector<AxisOrder>> orders = OrdersOf(dumps);
  if (!orders.ok()) return orders.status();
  AddOrders(*orders, torch);
  AddViews(first, torch);
  for (const absl::Status& status :
       {AddGraphs(dumps, *orders, problem), AddScalars(first, torch)}) {
    if (!status.ok()) return status;
  }
  for (const Dump& dump : dumps) {
    v1::TorchModule other;
    const absl::Status status = AddScalars(dump, other);
    if (!status.ok()) return status;
    if (!std::equal(torch.scalars().begin(), torch.scalars().end(), other.scalars().begin(),
                    other.scalars().end(), [](const auto& a, const auto& b) {
                      return a.SerializeAsString() == b.SerializeAsString();
                    })) {
      return absl::InvalidArgumentError(absl::StrCat(
          "workload '", dump.workload,
          "': forward's arguments that are no tensors must be those of '", first.workload, "'"));
    }
  }
  const absl::Status valid = problem::Validate(problem);
  if (!valid.ok()) return valid;
  return problem;
}

absl::StatusOr<std::vector<v1::Problem>> ProblemsOf(const std::vector<Dump>& dumps,
                                                    const std::string& suite,
                                                    const std::string& path) {
  std::vector<std::vector<Dump>> groups;
  std::vector<v1::Problem> problems;
  for (const Dump& dump : dumps) {
    bool found = false;
    for (size_t g = 0; g < groups.size() && !found; ++g) {
      std::vector<Dump> joined = groups[g];
      joined.push_back(dump);
      absl::StatusOr<v1::Problem> problem = ProblemOf(joined, suite, path);
      found = problem.ok();
      if (!found) continue;
      groups[g] = std::move(joined);
      problems[g] = *std::move(problem);
    }
    if (found) continue;
    absl::StatusOr<v1::Problem> alone = ProblemOf({dump}, suite, path);
    if (!alone.ok()) return alone.status();
    groups.push_back({dump});
    problems.push_back(*std::move(alone));
  }
  // Each is called after its first workload, its exported file too.
  for (size_t g = 0; problems.size() > 1 && g < problems.size(); ++g) {
    const std::string ending = absl::StrCat("_", groups[g].front().workload);
    problems[g].set_name(problems[g].name() + ending);
    problems[g].mutable_torch()->set_path(
        absl::StrCat(path.substr(0, path.size() - 3), ending, ".py"));
  }
  return problems;
}

absl::StatusOr<Imported> ImportKernelBench(const ImportOptions& options) {
  absl::StatusOr<Files> files = KernelBenchFiles(options);
  if (!files.ok()) return files.status();
  const std::string level = absl::StrCat("level", options.level);
  absl::StatusOr<Imported> imported = ImportFiles(options, *files, "kernelbench", level + "/");
  if (imported.ok()) imported->set.set_name("kernelbench-" + level);
  return imported;
}

absl::StatusOr<Imported> ImportModules(const ImportOptions& options) {
  absl::StatusOr<Files> files = ModuleFiles(options);
  if (!files.ok()) return files.status();
  absl::StatusOr<Imported> imported = ImportFiles(options, *files, "modules", "");
  if (!imported.ok()) return imported;
  imported->set.set_name(
      NameOf(fs::absolute(fs::path(options.directory) / ".").parent_path().string()));
  return imported;
}

}  // namespace warpsmith::import
