#include "cli/import/orders.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/import/aten.h"
#include "common/problem/axis_order.h"

namespace warpsmith::import {
namespace {

AxisOrder RowMajor(size_t rank) {
  AxisOrder order(rank);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

// By strides; where they are equal, one of the axes has one element, and lies within the other.
AxisOrder OrderOf(const Dump::Output& output) {
  AxisOrder order = RowMajor(output.shape.size());
  std::sort(order.begin(), order.end(), [&](int a, int b) {
    return std::tuple(-output.strides[a], output.shape[a] == 1, a) <
           std::tuple(-output.strides[b], output.shape[b] == 1, b);
  });
  return order;
}

// singles: strides of axes of one element, with which no address is computed, count too.
bool LiesIn(const AxisOrder& order, const Dump::Output& output, bool singles) {
  if (order.size() != output.shape.size()) return false;
  const std::vector<int64_t> strides = problem::StridesIn(order, output.shape);
  for (size_t axis = 0; axis < strides.size(); ++axis) {
    if (!singles && output.shape[axis] == 1) continue;
    if (strides[axis] != output.strides[axis]) return false;
  }
  return true;
}

// The first order that fits the output in all workloads.
absl::StatusOr<AxisOrder> SharedOrder(const std::vector<Dump>& dumps, size_t output) {
  std::vector<AxisOrder> orders = {RowMajor(dumps[0].outputs[output].shape.size())};
  for (const Dump& dump : dumps) orders.push_back(OrderOf(dump.outputs[output]));
  for (const bool singles : {true, false}) {
    for (const AxisOrder& order : orders) {
      if (std::all_of(dumps.begin(), dumps.end(), [&](const Dump& dump) {
            return LiesIn(order, dump.outputs[output], singles);
          })) {
        return order;
      }
    }
  }
  const auto text = [&](const Dump& dump) {
    const Dump::Output& given = dump.outputs[output];
    return absl::StrCat("strides (", absl::StrJoin(given.strides, ", "), ") for shape (",
                        absl::StrJoin(given.shape, ", "), ") in workload '", dump.workload, "'");
  };
  const auto other = std::find_if(dumps.begin(), dumps.end(), [&](const Dump& dump) {
    return !LiesIn(orders[1], dump.outputs[output], false);
  });
  return absl::InvalidArgumentError(absl::StrCat(
      "forward's tensor ", output, " has ", text(dumps[0]), " and ",
      text(other == dumps.end() ? dumps.back() : *other),
      ", which is another order of its axes; make a file of each, or let them be alike"));
}

}  // namespace

absl::StatusOr<std::vector<AxisOrder>> OrdersOf(const std::vector<Dump>& dumps) {
  std::vector<AxisOrder> orders;
  const std::vector<int> places = OutputsOf(dumps[0]);
  for (size_t output = 0; output < places.size(); ++output) {
    if (!dumps[0].outputs[output].given.empty()) continue;
    if (places[output] < static_cast<int>(orders.size())) continue;  // given before
    const bool everywhere = std::all_of(dumps.begin(), dumps.end(), [&](const Dump& dump) {
      return dump.outputs.size() == places.size();
    });
    // Graphs that differ are told apart by whoever joins them.
    auto order =
        everywhere ? SharedOrder(dumps, output) : RowMajor(dumps[0].outputs[output].shape.size());
    if (!order.ok()) return order.status();
    orders.push_back(*std::move(order));
  }
  return orders;
}

}  // namespace warpsmith::import
