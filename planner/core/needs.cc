#include "planner/core/needs.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace warpsmith::planner {
namespace {

constexpr int64_t kLeastBytes = int64_t{1} << 30;
constexpr int kKeptBits = 6;  // so at most 1/32 more

const char* OracleOf(const v1::WorkerInfo& worker) {
  return worker.torch() ? "oracle=pytorch" : "oracle=native";
}

}  // namespace

Needs NeedsOf(const v1::Run& run, const v1::Task& task) {
  return {{run.needs().begin(), run.needs().end()}, RoundedBytes(task.needs_bytes())};
}

bool Meets(const v1::WorkerInfo& worker, const Needs& needs) {
  // A worker of before says nothing of its memory.
  if (worker.device_bytes() > 0 && worker.device_bytes() < needs.bytes) return false;
  return std::all_of(needs.labels.begin(), needs.labels.end(), [&](const std::string& label) {
    return label == OracleOf(worker) || std::find(worker.labels().begin(), worker.labels().end(),
                                                  label) != worker.labels().end();
  });
}

int64_t RoundedBytes(int64_t bytes) {
  if (bytes < kLeastBytes) return 0;
  const int drop = std::bit_width(static_cast<uint64_t>(bytes)) - kKeptBits;
  const int64_t unit = int64_t{1} << drop;
  return (bytes + unit - 1) / unit * unit;
}

std::string KindOf(const v1::WorkerInfo& worker) {
  std::vector<std::string> labels(worker.labels().begin(), worker.labels().end());
  std::sort(labels.begin(), labels.end());
  return absl::StrCat(worker.arch(), "|", worker.device_bytes(), "|", OracleOf(worker), "|",
                      absl::StrJoin(labels, "|"));
}

}  // namespace warpsmith::planner
