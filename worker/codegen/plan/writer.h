// Writes the kernels of one group and their launches into a plan.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "warpsmith/v1/solution.pb.h"
#include "worker/codegen/plan/branches.h"
#include "worker/codegen/plan/storage.h"

namespace warpsmith::codegen {

// A pointer that a kernel takes; a member of its struct, in this order.
struct Parameter {
  int tensor = -1;
  bool written = false;
  std::string name;
  std::string type;  // "const float*"
};

// A further parameter of one kernel: memory, or part of it as the copy engine takes it. Nothing is
// written through a pointer to what is const, nor through a map that is `only_read`.
struct KernelArgument {
  std::string declaration;  // "float* partial"
  int buffer = -1;
  std::optional<v1::TensorMap> map;  // in place of the buffer's address
  bool only_read = false;
};

struct KernelShape {
  int threads = 0;
  int blocks_per_sm = 0;  // that the compiler is told of; 0: none
  int64_t grid = 1;
  int64_t shared_bytes = 0;
  int cluster = 1;  // blocks
};

class KernelWriter {
 public:
  // `root`: the group's first root, of which kernels and structs have their names. `knobs`:
  // how kernels follow each other. Text goes to the plan, steps to `steps`: itself, or its prepare,
  // whose storage it then is. `only_read`: takes what the steps' kernels only read; may be nullptr.
  KernelWriter(const graph::Graph& graph, int root, const v1::LaunchKnobs& knobs, Storage& storage,
               v1::Plan& plan, v1::Plan& steps, OnlyRead* only_read);

  // Writes kernels of the group that are done once for each version of the weights, with the same
  // struct, in which tensors that are not there are null. They may read `tensors`; nullptr: those
  // are not all constants.
  KernelWriter* Preparing(const std::vector<int>& tensors);
  // Memory that such kernels leave to those of each run.
  Storage::Left Prepared(const std::string& suffix, int64_t bytes);

  // The struct's name; it holds the parameters.
  const std::string& glue() const { return glue_; }
  // The state that is overwritten where the tensor, a root, is written; -1: none.
  int StateOf(int tensor) const { return storage_.StateOf(tensor); }
  // Copies a tensor to where a root is written; nothing where that is overwritten in place.
  void Copy(int tensor, int root);
  // The text of the struct, once, before any kernel.
  void Struct(const std::string& text, std::vector<Parameter> parameters);
  // Text of the next kernel.
  void Text(const std::string& text);
  // Memory of the kernels' own; a buffer's number.
  int Workspace(const std::string& suffix, int64_t bytes);
  void Zero(int buffer, int64_t bytes);
  // Words of memory of the kernels' own, before each run.
  void Fill(int buffer, uint32_t pattern, int64_t bytes);
  // The buffer that holds a tensor; -1: it is not there (Preparing).
  int BufferOf(int tensor) const { return storage_.BufferOf(tensor); }
  // A product by a library. Its matrices lie in buffers of the plan, and no kernel's struct is
  // needed.
  void Product(const v1::LibraryProduct& product);
  // Makes all integers of a root -1.
  void FillWithMinusOne(int root);
  // A kernel that makes the struct and calls `body`, and its launch, to be filled in further.
  // `extra`: its further parameters. InvalidArgument: the grid is
  // too large.
  absl::StatusOr<v1::Launch*> Kernel(const std::string& suffix, const KernelShape& shape,
                                     const std::vector<KernelArgument>& extra,
                                     const std::string& body);

 private:
  bool LoadsMayMove(const Parameter& p) const;
  // Buffers that a kernel with these further parameters reads and does not write.
  std::set<int> OnlyReadBuffers(const std::vector<KernelArgument>& extra) const;

  const graph::Graph& graph_;
  const int first_;  // root
  const std::string root_, base_, glue_;
  const v1::LaunchKnobs knobs_;
  Storage& storage_;
  v1::Plan &plan_, &steps_;
  OnlyRead* const only_read_;
  std::vector<Parameter> parameters_;
  std::string text_;
  std::unique_ptr<KernelWriter> preparing_;
};

}  // namespace warpsmith::codegen
