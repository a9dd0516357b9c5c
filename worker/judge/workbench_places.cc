// Answers are put in the reference's order where indexes of first elements are right and others
// than its (places.h): then they are compared as all are.
#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "worker/judge/places.h"
#include "worker/judge/workbench.h"

namespace warpsmith::judge {
namespace {

using graph::Tensor;

constexpr int64_t kMostIndexes = int64_t{1}
                                 << 22;  // of an answer; beyond, they have to be the same

// Which tensors are made of `tensor`, itself among them.
std::vector<bool> MadeOf(const graph::Graph& graph, int tensor) {
  std::vector<bool> made(graph.tensors.size(), false);
  made[tensor] = true;
  for (const graph::Node& node : graph.nodes) {
    bool any = false;
    for (int input : graph::LoadedTensors(node.value)) any = any || made[input];
    for (int output : node.outputs) made[output] = made[output] || any;
  }
  return made;
}

}  // namespace

absl::Status Workbench::Align(int slot) {
  for (const oracle::Ranking& ranking : cases_[slot].drawn.rankings) {
    const Tensor& tensor = graph_.tensors[AnswerAt(ranking.answer).tensor];
    if (tensor.elements() > kMostIndexes) continue;
    const auto rows = OtherRows(ranking, slot);
    if (!rows.ok()) return rows.status();
    if (rows->empty()) continue;
    const std::vector<bool> made = MadeOf(graph_, ValueOf(ranking.answer));
    for (int answer = 0; answer < answers(); ++answer) {
      if (!made[ValueOf(answer)]) continue;
      if (absl::Status s = AlignAnswer(answer, slot, tensor.shape, *rows); !s.ok()) return s;
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<RightRow>> Workbench::OtherRows(const oracle::Ranking& ranking,
                                                           int slot) {
  const Answer at = AnswerAt(ranking.answer);
  const Tensor& tensor = graph_.tensors[at.tensor];
  device::Memory& want = *cases_[slot].drawn.answers[ranking.answer];
  if (absl::Status s = want.Map(); !s.ok()) return s;
  absl::Cleanup unmap = [&want] { want.Unmap().IgnoreError(); };
  auto difference =
      comparer_.Compare(tensor.type, *at.memory, want, tensor.elements(), 0, 0, kPoisons[0]);
  if (!difference.ok()) return difference.status();
  if (difference->same()) return std::vector<RightRow>();
  std::vector<int64_t> all(tensor.elements());
  std::iota(all.begin(), all.end(), 0);
  const auto mine = comparer_.Gather(tensor.type, *at.memory, all);
  if (!mine.ok()) return mine.status();
  const auto theirs = comparer_.Gather(tensor.type, want, all);
  if (!theirs.ok()) return theirs.status();
  return RightRows(ranking, judge::ToleranceOf(accuracy_, ranking.type), tensor.shape.back(), *mine,
                   *theirs);
}

absl::Status Workbench::AlignAnswer(int answer, int slot, const std::vector<int64_t>& indexes,
                                    const std::vector<RightRow>& rows) {
  const Answer at = AnswerAt(answer);
  const Tensor& tensor = graph_.tensors[at.tensor];
  const size_t kept = indexes.size() - 1;  // axes of rows
  if (tensor.shape.size() < kept ||
      !std::equal(indexes.begin(), indexes.end() - 1, tensor.shape.begin()))
    return absl::OkStatus();
  int64_t count = 1;
  for (size_t axis = 0; axis < kept; ++axis) count *= indexes[axis];
  const int64_t bytes = tensor.bytes() / count;
  const bool placed = tensor.shape == indexes;  // an element for each place
  const int64_t places = indexes.back();
  device::Memory& want = *cases_[slot].drawn.answers[answer];
  if (absl::Status s = want.Map(); !s.ok()) return s;
  absl::Cleanup unmap = [&want] { want.Unmap().IgnoreError(); };
  for (const RightRow& row : rows) {
    std::string mine(bytes, 0), aligned(bytes, 0);
    const int64_t offset = row.row * bytes;
    if (row.from.empty()) {
      if (absl::Status s = device_.Read(want, aligned.data(), bytes, offset); !s.ok()) return s;
    } else if (placed) {
      if (absl::Status s = device_.Read(*at.memory, mine.data(), bytes, offset); !s.ok()) return s;
      const int64_t size = bytes / places;
      for (int64_t p = 0; p < places; ++p)
        aligned.replace(p * size, size, mine, row.from[p] * size, size);
    } else {
      continue;
    }
    if (absl::Status s = device_.Write(*at.memory, aligned.data(), bytes, offset); !s.ok())
      return s;
  }
  return absl::OkStatus();
}

}  // namespace warpsmith::judge
