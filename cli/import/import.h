// PyTorch modules as a problem set: KernelBench's problems, or a folder of files of their form.
//
// PyTorch only writes each file's core-ATen graph (python/warpsmith_torch/dump.py, one child for
// all files); what operators mean is here, in C++.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/import/dump.h"
#include "warpsmith/v1/problem.pb.h"

namespace warpsmith::import {

struct ImportOptions {
  std::string python;     // interpreter that has PyTorch: "python3" or a path; empty: "python3"
  std::string directory;  // a KernelBench checkout, or its folder with level1, level2, ...
  int level = 1;
  std::string only;         // "19,25-30": numbers of problems; empty: all of the level
  std::string python_path;  // folder that has warpsmith_torch/; empty: Python finds it by itself
  int jobs = 0;             // Python processes at once; 0: as many as are worth it
  // Told of each file, "level1/25_Swish.py", when it is done, whether it was imported or not: how
  // many are, and of how many. On any thread, one call at a time; may be null.
  std::function<void(const std::string& path, size_t done, size_t all)> progress;
};

struct Imported {
  v1::ProblemSet set;                // named "kernelbench-level1"; problems in the order of numbers
  std::vector<std::string> skipped;  // "level1/50_conv: aten.convolution.default is not supported"
};

// NotFound: no such folder or level, or no problem of those numbers. InvalidArgument: `only` is
// malformed. FailedPrecondition: Python or PyTorch is missing; the message says how to get it.
// One problem that cannot be imported is skipped, and the rest goes on.
absl::StatusOr<Imported> ImportKernelBench(const ImportOptions& options);

// The same of every file NAME.py in a folder, in the order of names; `level` does not matter, and
// `only` is a list of names. The set is called as the folder is. A file may be for several
// workloads (python/warpsmith_torch/module.py): they become those of one problem, if it can be.
absl::StatusOr<Imported> ImportModules(const ImportOptions& options);

// One dumped module, under each of its workloads, as a problem. `path` is its name in the suite,
// "level1/25_Swish.py". InvalidArgument: it cannot be had, or its workloads are not alike.
absl::StatusOr<v1::Problem> ProblemOf(const std::vector<Dump>& dumps, const std::string& suite,
                                      const std::string& path);

// The same as several problems where its workloads are not alike: each with those that are, named
// after its first one, "norm_long" of workload "long" of norm.py.
absl::StatusOr<std::vector<v1::Problem>> ProblemsOf(const std::vector<Dump>& dumps,
                                                    const std::string& suite,
                                                    const std::string& path);

}  // namespace warpsmith::import
