#include "cli/import/import.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "cli/import/aten.h"
#include "common/base/child.h"
#include "common/problem/problem.h"

namespace warpsmith::import {
namespace {

namespace fs = std::filesystem;

// Importing PyTorch takes up to half a minute on a cold disk; one export is limited by the dump
// itself, to a minute.
constexpr absl::Duration kDumpLimit = absl::Minutes(3);

absl::StatusOr<std::set<int>> NumbersOf(const std::string& only) {
  std::set<int> numbers;
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
    for (int number = first; number <= last; ++number) numbers.insert(number);
  }
  return numbers;
}

// {number: file} of a level.
absl::StatusOr<std::map<int, std::string>> FilesOf(const ImportOptions& options) {
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
  absl::StatusOr<std::set<int>> wanted = NumbersOf(options.only);
  if (!wanted.ok()) return wanted.status();
  std::map<int, std::string> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    int number = 0;
    if (entry.path().extension() != ".py" ||
        !absl::SimpleAtoi(name.substr(0, name.find('_')), &number)) {
      continue;
    }
    if (wanted->empty() || wanted->count(number) > 0) files[number] = entry.path().string();
  }
  if (error) return absl::NotFoundError(absl::StrCat(folder.string(), ": ", error.message()));
  if (files.empty()) {
    return absl::NotFoundError(
        absl::StrCat(folder.string(), " has no problem of number ", options.only));
  }
  return files;
}

using Files = std::map<int, std::string>;

// The child that exports: one for all files, and another one for the rest where a file ends it.
class Dumper {
 public:
  explicit Dumper(const ImportOptions& options)
      : python_(options.python.empty() ? "python3" : options.python),
        python_path_(options.python_path) {}

  // The dump of `file`; `end` bounds the files that will be asked for after it. FailedPrecondition:
  // there is no Python, or no PyTorch. Other errors are this file's alone.
  absl::StatusOr<Dump> Next(Files::const_iterator file, Files::const_iterator end) {
    if (child_ == nullptr) {
      const absl::Status started = Start(file, end);
      if (!started.ok()) return started;
    }
    const absl::StatusOr<std::string> line = child_->ReadLine(absl::Now() + kDumpLimit);
    if (line.ok()) {
      answered_ = true;
      return ParseDump(*line);
    }
    const absl::Status failure = Failure(line.status());
    child_.reset();
    return failure;
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
    for (; file != end; ++file) absl::StrAppend(&paths, file->second, "\n");
    // A child that cannot take them says why when it is read.
    const absl::Status asked = child_->WriteLine(paths, absl::Now() + kDumpLimit);
    child_->CloseInput();
    return absl::IsDeadlineExceeded(asked) ? asked : absl::OkStatus();
  }

  absl::Status Failure(const absl::Status& status) {
    const std::string& said = child_->errors();
    if (said.find("No module named 'torch'") != std::string::npos) {
      return absl::FailedPreconditionError(
          absl::StrCat("'", python_, "' has no PyTorch: install torch 2.8 or later for it"));
    }
    if (absl::IsDeadlineExceeded(status)) {
      return absl::DeadlineExceededError("exporting the module took too long");
    }
    if (answered_) return absl::AbortedError("PyTorch ended while it exported the module");
    return absl::FailedPreconditionError(
        absl::StrCat("'", python_, "' cannot export PyTorch modules: ", said));
  }

  const std::string python_, python_path_;
  std::unique_ptr<base::Child> child_;
  bool answered_ = false;  // once: what fails then is a file, not the installation
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

}  // namespace

absl::StatusOr<v1::Problem> ProblemOf(const Dump& dump, const std::string& suite,
                                      const std::string& path) {
  if (!dump.error.empty()) return absl::InvalidArgumentError(dump.error);
  absl::StatusOr<graph::Graph> graph = LowerAten(dump);
  if (!graph.ok()) return graph.status();
  v1::Problem problem;
  problem.set_name(NameOf(path));
  problem.set_description(absl::StrCat(Described(path), " of ", suite, " ", path, "."));
  for (std::string& line : graph::Print(*graph)) problem.add_graph(std::move(line));
  problem.add_workloads()->set_name("default");
  v1::TorchModule& torch = *problem.mutable_torch();
  torch.set_suite(suite);
  torch.set_path(path);
  torch.set_source(dump.source);
  torch.set_exported_with(dump.torch);
  for (const Placeholder& placeholder : dump.placeholders) {
    if (placeholder.kind != Placeholder::Kind::kScalar) continue;
    if (!placeholder.value.is_number()) {
      return absl::InvalidArgumentError(absl::StrCat("forward's argument '", placeholder.name,
                                                     "' is neither a tensor nor a number"));
    }
    v1::ScalarInput& scalar = *torch.add_scalars();
    scalar.set_position(placeholder.position);
    scalar.set_value(placeholder.value.get<double>());
  }
  const absl::Status valid = problem::Validate(problem);
  if (!valid.ok()) return valid;
  return problem;
}

absl::StatusOr<Imported> ImportKernelBench(const ImportOptions& options) {
  absl::StatusOr<Files> files = FilesOf(options);
  if (!files.ok()) return files.status();
  Imported imported;
  imported.set.set_name(absl::StrCat("kernelbench-level", options.level));
  imported.set.set_version("1");
  Dumper dumper(options);
  for (auto file = files->begin(); file != files->end(); ++file) {
    absl::StatusOr<Dump> dump = dumper.Next(file, files->end());
    if (absl::IsFailedPrecondition(dump.status())) return dump.status();
    const std::string path =
        absl::StrCat("level", options.level, "/", fs::path(file->second).filename().string());
    absl::StatusOr<v1::Problem> problem =
        dump.ok() ? ProblemOf(*dump, "kernelbench", path) : dump.status();
    if (problem.ok()) {
      *imported.set.add_problems() = *std::move(problem);
    } else {
      imported.skipped.push_back(
          absl::StrCat(path.substr(0, path.size() - 3), ": ", problem.status().message()));
    }
  }
  return imported;
}

}  // namespace warpsmith::import
