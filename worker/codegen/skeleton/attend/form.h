// A group as attention: a product, a softmax along its rows, and the product of that with a third
// operand.
//
//   s[b, q, k] = epilogue(sum of d: Q[b, q, d] * K[b, k, d])     scores
//   p[b, q, k] = exp(s - max of k: s) / sum of k: exp(s - max)   weights
//   y[b, q, n] = sum of k: p[b, q, k] * V[b, k, n]
//
// Both products are taken as the skeleton contract takes them (contract/form.h), each as if the
// tensor between them were in memory; what is asked of each part is so asked in one place.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/codegen/group/analysis.h"
#include "worker/codegen/skeleton/contract/form.h"

namespace warpsmith::codegen {

// An operand, or the result, where it lies: `rows` rows of `width` neighbours each, for each of the
// batch from a third coordinate on. Sizes and strides in elements.
struct AttendPlaces {
  int tensor = -1;
  int64_t offset = 0;
  int64_t width = 0, rows = 0, row = 0;  // row: from one to the next
  int64_t outers = 1, outer = 0;         // third coordinates, and from one to the next
  Index at;                              // of b, of the kernel that it was found in
};

struct AttendForm {
  absl::Status status;  // why it is none
  // The parts, and the tensors between them.
  std::unique_ptr<Analysis> scores, values;
  int score = -1, weight = -1;
  ContractForm of_scores, of_values;

  graph::DType type = graph::DType::kBF16;  // of operands and result
  // Of the kernel. Where one query each of so many neighbours in the batch attends to the same keys
  // they are `folded` into one of the batch, and are its queries.
  int64_t batch = 1, queries = 1, folded = 1;
  int64_t keys = 1, head = 1, head_v = 1;
  AttendPlaces q, k, v, out;
  double scale = 1;  // what products of Q's and K's elements are multiplied by
  // Whether scores are products times `scale` and nothing else becomes of them where they are seen.
  bool plain = false;
  // A score is minus infinity where one of these, of the scores' kernel's b, m and n, is negative.
  std::vector<Index> seen;
  // The same for the estimate: it is, where 0 > rest + by_q q + by_k k, whatever of the batch it
  // is.
  struct Reach {
    int64_t by_q, by_k, rest;
  };
  std::vector<Reach> reach;
  bool or_zero = false;    // queries that see nothing get 0; else NaN, as a softmax of nothing is
  bool no_nan = false;     // and those whose weights are NaN, too
  double score_steps = 0;  // simple operations of a score, beside those of plain ones

  // Multiplications with their additions, of all keys.
  double products() const {
    return static_cast<double>(batch) * static_cast<double>(queries) * static_cast<double>(keys) *
           static_cast<double>(head + head_v);
  }
  // Steps of so many keys that the tile of so many queries from `q` on takes, of each of `split`
  // blocks that share it.
  int64_t StepsOfTile(int64_t q, int64_t rows, int64_t keys_of_step, int64_t split) const;
  // Whether later queries see more keys than earlier ones.
  bool later_longer() const;
};

// `unrounded`: scores keep their digits where they are rounded to 16 bits on the way.
std::unique_ptr<AttendForm> FormAttend(const Analysis& group, bool unrounded);
// What a kernel of scores computes, in fp32, of so many neighbours along keys.
absl::StatusOr<Kernel> BuildScores(const AttendForm& form, int width = 1);
// The domain of the second product, with the group's roots.
const Domain& DomainOf(const AttendForm& form);

// Tensors of the graph that stand between the products of an attention whose second one is summed
// by `node`: its weights, and the scores; nothing where it is none. Both would be in memory if each
// step were a kernel.
struct AttendBetween {
  int score = -1, weight = -1;
};
AttendBetween BetweenOf(const graph::Graph& graph, int node, const InMemory& in_memory);

}  // namespace warpsmith::codegen
