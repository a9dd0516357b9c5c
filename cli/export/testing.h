// For tests: folders that exports go to, and what becomes of an exported file. Includes Catch.
#pragma once

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "cli/export/export.h"
#include "common/problem/problem.h"
#include "worker/codegen/codegen.h"

namespace warpsmith::exporter {

namespace fs = std::filesystem;

// What a format gives for one solution: its path, or why there is none.
template <class Format>
absl::StatusOr<std::string> Exported(Format format, const v1::Problem& problem,
                                     const std::vector<Part>& parts, OutFolder& out) {
  auto kernels = Gather(problem, parts);
  if (!kernels.ok()) return kernels.status();
  return format(*kernels, out);
}

inline std::string Read(const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

inline bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// As a worker that was given that workload alone makes it.
inline Part PartOf(const v1::Problem& problem, int workload, bool op_by_op, bool branches = false) {
  codegen::Target target;
  target.arch = "sm_90a";
  const auto graph = problem::GraphOf(problem, problem.workloads(workload));
  REQUIRE(graph.ok());
  const std::string& name = problem.workloads(workload).name();
  Part part{{}, {"cubin of " + name}};
  part.solution.set_arch(target.arch);
  part.solution.set_problem_digest(problem::Digest(*problem::WithWorkloads(problem, {name})));
  *part.solution.mutable_schedule() =
      op_by_op ? codegen::OpByOpSchedule(*graph, target) : codegen::DefaultSchedule(*graph, target);
  if (branches) part.solution.mutable_schedule()->mutable_launch()->set_branches(true);
  auto plan = codegen::Lower(*graph, part.solution.schedule(), target);
  INFO(plan.status().ToString());
  REQUIRE(plan.ok());
  plan->set_workload(name);
  *part.solution.add_plans() = *plan;
  return part;
}

// A folder of its own for each test case.
struct Folder {
  explicit Folder(const std::string& name)
      : path((fs::temp_directory_path() / ("warpsmith_export_" + name)).string()) {
    fs::remove_all(path);
    fs::create_directories(path);
  }
  ~Folder() { fs::remove_all(path); }
  const std::string path;
};

inline std::string Nvcc() {
  for (const char* path : {"/usr/local/cuda/bin/nvcc", "/usr/bin/nvcc"}) {
    if (fs::exists(path)) return path;
  }
  return "";
}

// That an nvcc, where there is one, makes a library of the exported source.
inline void CheckCompiles(const std::string& path, const Folder& folder) {
  if (const std::string nvcc = Nvcc(); !nvcc.empty()) {
    const std::string command = nvcc + " -std=c++17 -gencode=arch=compute_90a,code=sm_90a" +
                                " --shared -Xcompiler -fPIC -o " + folder.path + "/lib.so " + path;
    CHECK(std::system(command.c_str()) == 0);
  } else {
    WARN("there is no nvcc: the exported source was not compiled");
  }
}

// Runs check_export.py, where there is a Python with PyTorch.
inline void TryInPython(const Folder& folder, const std::string& source,
                        const std::string& exported) {
  const char* python = std::getenv("WARPSMITH_PYTHON");
  if (python == nullptr) {
    WARN("WARPSMITH_PYTHON is not set: the exported module was not tried in Python");
    return;
  }
  const std::string reference = folder.path + "/reference.py";
  std::ofstream(reference) << source;
  const std::string command = std::string(python) + " " + WARPSMITH_SOURCE_DIR +
                              "/cli/export/check_export.py " + reference + " " + exported;
  CHECK(std::system(command.c_str()) == 0);
}

}  // namespace warpsmith::exporter
