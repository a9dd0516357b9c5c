// Writes solutions out as files that need nothing of Warpsmith.
//
//   OutFolder out{"out"};
//   auto kernels = Gather(problem, parts);  // of the solutions of its tasks
//   ExportKernelBench(*kernels, out);       // out/level1/25_Swish.py: class ModelNew
//   ExportPlain(*kernels, out);             // out/swish.cu: extern "C" int swish_run(...)
//
// Files are written atomically; folders are made. The same problem and solutions give the same file
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

// A solution, for all or some of a problem's workloads, and what a compiler made of each plan's
// source, in the plans' order, for the solution's architecture: empty, or empty strings, where
// there is no such thing.
struct Part {
  v1::Solution solution;
  std::vector<std::string> cubins;
};

// What is exported of a problem.
struct Kernels {
  struct One {
    v1::Workload workload;
    v1::Plan plan;
    std::string cubin;  // "": none
  };
  v1::Problem problem;  // whole
  std::string arch;
  std::vector<One> workloads;        // that have kernels, in the problem's order; at least one
  std::vector<std::string> missing;  // names of the others
};

// FailedPrecondition: a part was made for another problem, or the parts together have two plans for
// a workload, plans for several architectures, or none.
absl::StatusOr<Kernels> Gather(const v1::Problem& problem, const std::vector<Part>& parts);

// A KernelBench solution: `ModelNew` with the reference's constructor, parameters, buffers and
// state-dict names, whose forward launches the plan for the shapes that it is given on the current
// stream (python/warpsmith_torch/launcher.py, which is written into the file). It refuses, when it
// is called: other shapes, types or devices than it was made for, and other numbers where forward
// takes numbers. What has no cubin is compiled when it is first called.
//
// InvalidArgument: the problem has no PyTorch module, its workloads differ in more than shapes and
// types or in neither, or its source has a form that cannot be rewritten; the message says which.
// FailedPrecondition: the kernels are not for a CUDA card. Gives the path of the file.
absl::StatusOr<std::string> ExportKernelBench(const Kernels& kernels, OutFolder& out);

// CUDA C++ with an extern "C" launcher, one file a workload: NAME.cu, or NAME_WORKLOAD.cu where
// the problem has several. A comment at the top documents the buffers and how to compile it. Gives
// the path of the first file.
absl::StatusOr<std::string> ExportPlain(const Kernels& kernels, OutFolder& out);

}  // namespace warpsmith::exporter
