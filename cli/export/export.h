// Writes solutions out as files that need nothing of Warpsmith.
//
//   OutFolder out{"out"};
//   ExportKernelBench(problem, solution, out);   // out/level1/25_Swish.py: class ModelNew
//   ExportPlain(problem, solution, out);         // out/swish.cu: extern "C" int swish_run(...)
//
// Files are written atomically; folders are made. The same problem and solution give the same file
// to the byte.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "warpsmith/v1/problem.pb.h"
#include "warpsmith/v1/solution.pb.h"

namespace warpsmith::exporter {

// Where one export goes. Files of earlier ones are replaced, its own never.
struct OutFolder {
  std::string path;
  std::set<std::string> written;  // paths in it
};

// A KernelBench solution: `ModelNew` with the reference's constructor, parameters, buffers and
// state-dict names, whose forward launches the plan for the shapes that it is given on the current
// stream (python/warpsmith_torch/launcher.py, which is written into the file). It refuses, when it
// is called: other shapes, types or devices than it was made for, and other numbers where forward
// takes numbers.
//
// `cubins`: what a compiler made of each plan's source, in the plans' order, for the solution's
// architecture; empty, or empty strings: the file compiles the source when it is first called.
//
// InvalidArgument: the problem has no PyTorch module, its workloads differ in more than shapes and
// types, or its source has a form that cannot be rewritten; the message says which.
// FailedPrecondition: the solution was made for another problem, or not for a CUDA card. Gives the
// path of the file.
absl::StatusOr<std::string> ExportKernelBench(const v1::Problem& problem,
                                              const v1::Solution& solution,
                                              const std::vector<std::string>& cubins,
                                              OutFolder& out);

// CUDA C++ with an extern "C" launcher, one file a workload: NAME.cu, or NAME_WORKLOAD.cu where
// there are several. A comment at the top documents the buffers and how to compile it. Gives the
// path of the first file.
absl::StatusOr<std::string> ExportPlain(const v1::Problem& problem, const v1::Solution& solution,
                                        OutFolder& out);

}  // namespace warpsmith::exporter
