// One line of `python -m warpsmith_torch.dump`, read and checked for its form.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/graph/graph.h"
#include "warpsmith/v1/problem.pb.h"

namespace warpsmith::import {

// What PyTorch says of a tensor.
struct Meta {
  bool present = false;  // false: the operator gave no tensor here, or one we cannot have
  bool empty = false;    // it has no elements, and is not present: there is nothing to compute
  std::string refusal;   // why we cannot have it
  graph::DType type = graph::DType::kF32;
  bool e4m3_bits = false;  // a float8_e4m3fn: its bits, as kU8
  std::vector<int64_t> shape;
};

struct Placeholder {
  // kEmpty: an input that has no elements; its meta has only a shape.
  enum class Kind { kInput, kEmpty, kScalar, kParam, kBuffer, kConstant } kind = Kind::kInput;
  std::string name;
  std::string state;     // params and buffers: their name in the state dictionary
  Meta meta;             // all but scalars
  nlohmann::json value;  // scalars: the number; constants: the elements, or null if unknown
  int position = 0;      // inputs, empty ones and scalars: among forward's arguments
  graph::Distribution distribution;
};

struct AtenNode {
  std::string name;
  std::string op;                              // "aten.relu.default", "getitem"
  std::map<std::string, nlohmann::json> args;  // by parameter, defaults filled in
  std::vector<Meta> outputs;
};

struct Dump {
  std::string path, source, torch;
  std::string description;              // the file's own, perhaps empty
  std::string workload = "default";     // what the rest is for
  std::map<std::string, int64_t> dims;  // as the file names them
  std::string error;  // not empty: PyTorch could not export it, and the rest is empty
  std::vector<Placeholder> placeholders;
  std::vector<AtenNode> nodes;
  // What forward gives: a node or placeholder, and how PyTorch's tensor lies in memory; strides are
  // in elements, and both are empty where that is not known. Or the input that it is.
  struct Output {
    std::string node;
    std::vector<int64_t> shape, strides;
    v1::View view;      // of forward's tensor in this one; no strides: it is the same
    std::string given;  // not empty: that input, and `node` is empty
  };
  std::vector<Output> outputs;
  struct Update {
    std::string state;  // a buffer's name, or that of an input
    std::string node;   // what it becomes
    bool inout = false;
  };
  std::vector<Update> updates;
};

// InvalidArgument: not such a line, or a type or shape that the graph language does not have.
absl::StatusOr<Dump> ParseDump(std::string_view line);

// The same of a line for a file with several workloads: one for each, at least one. A file that
// could not be exported, or says nothing of workloads, gives one.
absl::StatusOr<std::vector<Dump>> ParseDumps(std::string_view line);

}  // namespace warpsmith::import
