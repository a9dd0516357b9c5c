#include "cli/import/import.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

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
// itself, to two minutes.
constexpr absl::Duration kDumpLimit = absl::Minutes(3);

absl::StatusOr<std::set<int>> NumbersOf(const std::string& only) {
  std::set<int> numbers;
  for (absl::string_view part : absl::StrSplit(only, ',', absl::SkipWhitespace())) {
    const std::pair<absl::string_view, absl::string_view> range =
        absl::StrSplit(part, absl::MaxSplits('-', 1));
    int first = 0, last = 0;
    const bool single = range.second.empty();
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

absl::Status PythonFailed(const base::Child& child, const std::string& python,
                          const absl::Status& status) {
  if (child.errors().find("No module named 'torch'") != std::string::npos) {
    return absl::FailedPreconditionError(
        absl::StrCat("'", python, "' has no PyTorch: install torch 2.8 or later for it"));
  }
  if (child.errors().find("No module named") != std::string::npos) {
    return absl::FailedPreconditionError(
        absl::StrCat("'", python, "' does not find a module it needs: ", child.errors()));
  }
  return absl::Status(status.code(), absl::StrCat("the dump of PyTorch's graphs: ",
                                                  status.message(), "; it said: ", child.errors()));
}

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
  absl::StatusOr<std::map<int, std::string>> files = FilesOf(options);
  if (!files.ok()) return files.status();
  const std::string python = options.python.empty() ? "python3" : options.python;
  std::vector<std::pair<std::string, std::string>> environment;
  if (!options.python_path.empty()) environment.push_back({"PYTHONPATH", options.python_path});
  auto child = base::Child::Start({python, "-m", "warpsmith_torch.dump"}, environment);
  if (!child.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("no Python to read PyTorch modules with: ", child.status().message(),
                     "; give one that has PyTorch 2.8 or later"));
  }
  std::vector<std::string> paths;
  for (const auto& [number, file] : *files) paths.push_back(file);
  const absl::Status asked =
      (*child)->WriteLine(absl::StrJoin(paths, "\n"), absl::Now() + kDumpLimit);
  (*child)->CloseInput();
  Imported imported;
  imported.set.set_name(absl::StrCat("kernelbench-level", options.level));
  imported.set.set_version("1");
  for (const std::string& file : paths) {
    absl::StatusOr<std::string> line = (*child)->ReadLine(absl::Now() + kDumpLimit);
    if (!line.ok()) return PythonFailed(**child, python, asked.ok() ? line.status() : asked);
    const std::string path =
        absl::StrCat("level", options.level, "/", fs::path(file).filename().string());
    absl::StatusOr<Dump> dump = ParseDump(*line);
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
