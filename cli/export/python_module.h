// Reads the source of a module that a problem came from, far enough to write one with the same
// constructor and another forward.
//
// This is text, not a parse of Python: blocks are found by indentation, with strings, brackets and
// comments understood.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace warpsmith::exporter {

struct Parameter {
  std::string name;
  std::string text;           // as written: "mask: torch.Tensor = None"
  std::string default_value;  // "None"; empty: it has none
};

struct PythonModule {
  // What stands outside the class and is needed: imports, helpers, constants that are used. The
  // drawing of inputs is not, nor what only it needs.
  std::string preamble;
  std::string class_line;          // "class ModelNew(nn.Module):"
  std::string members;             // indented; docstrings and forward left out
  std::string indent;              // of members: "    "
  std::vector<Parameter> forward;  // without self
};

// Every whole word `Model` becomes `ModelNew`. InvalidArgument: no class Model, no forward, or a
// forward with *args or **kwargs.
absl::StatusOr<PythonModule> ReadModule(const std::string& source);

}  // namespace warpsmith::exporter
