// An expression of the graph language, compiled to instructions over blocks of points.
//
//   HostProgram program(graph, node, /*round_casts=*/true);
//   program.Run(tensors, first_point, count) -> program.floats()[lane] or program.integers()[lane]
//
// A point is a position in the node's whole space (axes, then reduce axes, row major). A block is
// evaluated instruction by instruction, each over all its lanes. There are no jumps: both sides of
// a select run, and a mask tells the instructions that may fail (loads, integer divisions) which
// lanes really come there.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/graph/graph.h"

namespace warpsmith::oracle {

// A tensor's values; integers and bool are kept exactly. One of the two has all elements.
struct HostTensor {
  std::vector<double> floats;
  std::vector<int64_t> integers;
};

// Not thread-safe: it holds the registers of a run.
class HostProgram {
 public:
  static constexpr int kLanes = 256;

  // graph and node must outlive it. round_casts: casts to a floating-point type round to it;
  // otherwise they leave values as they are.
  HostProgram(const graph::Graph& graph, const graph::Node& node, bool round_casts);

  // Evaluates points [first, first + count), count <= kLanes. InvalidArgument: a load out of bounds
  // or an integer division by zero; the message says where.
  absl::Status Run(const std::vector<HostTensor>& tensors, int64_t first, int count);
  // The same of any points.
  absl::Status RunAt(const std::vector<HostTensor>& tensors, const int64_t* points, int count);

  // The values of the last run: floats() if the expression is of a floating-point type.
  const double* floats() const { return FloatRegister(result_); }
  const int64_t* integers() const { return IntegerRegister(result_); }

 private:
  struct Instruction {
    graph::Op op;
    graph::DType type;  // of the operands; kCast: of the operand
    graph::DType to;    // kCast
    int out = -1;
    std::vector<int> args;  // registers; kIndex: the variable; kLoad: the tensor, then registers
    int mask = -1;          // a register; -1: every lane
    // Mask instructions: out = args[0] (-1: true) and (args[1] is `sense`).
    bool is_mask = false;
    bool sense = true;
  };
  using Key = std::tuple<int, int, int, int64_t, uint64_t, int, std::vector<int>>;

  int Compile(const graph::ExprPtr& e, int mask);
  int CompileNew(const graph::ExprPtr& e, int mask);
  int Mask(int mask, int condition, bool sense);
  int Emit(const Key& key, Instruction instruction);
  int ConstantRegister(const graph::Expr& e);

  void FillIndexes(int64_t first, int count);
  void FillIndexesAt(const int64_t* points, int count);
  absl::Status RunAll(const std::vector<HostTensor>& tensors, int64_t first, int count);
  absl::Status Execute(const Instruction& instruction, const std::vector<HostTensor>& tensors,
                       int64_t first, int count);
  absl::Status Load(const Instruction& instruction, const HostTensor& tensor, int64_t first,
                    int count);
  absl::Status CheckDivisors(const Instruction& instruction, int64_t first, int count);
  void Binary(const Instruction& instruction, int count);
  void Unary(const Instruction& instruction, int count);
  void Cast(const Instruction& instruction, int count);
  void Select(const Instruction& instruction, int count);
  // `number`: of the point, from `first` of a run on.
  absl::Status ErrorAt(int64_t number, const std::string& message) const;

  // Registers are numbered through; each is of doubles or of int64, by who writes it.
  double* FloatRegister(int r) { return floats_.data() + int64_t{r} * kLanes; }
  const double* FloatRegister(int r) const { return floats_.data() + int64_t{r} * kLanes; }
  int64_t* IntegerRegister(int r) { return integers_.data() + int64_t{r} * kLanes; }
  const int64_t* IntegerRegister(int r) const { return integers_.data() + int64_t{r} * kLanes; }

  const graph::Graph& graph_;
  const graph::Node& node_;
  const bool round_casts_;
  std::vector<int64_t> extents_;
  std::vector<Instruction> instructions_;
  std::vector<std::pair<int, int>> indexes_;  // variable, register
  std::vector<std::pair<int, graph::Expr>> constants_;
  std::map<Key, int> known_;
  std::map<std::pair<const graph::Expr*, int>, int> compiled_;
  const int64_t* points_ = nullptr;  // of a run at any points, else null
  int registers_ = 0;
  int result_ = 0;
  std::vector<double> floats_;
  std::vector<int64_t> integers_;
};

}  // namespace warpsmith::oracle
