#include "worker/codegen/cost/cost.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "absl/strings/str_cat.h"

namespace warpsmith::codegen {

namespace {

// Rows that blocks share run a little below the roof.
constexpr double kMeetingFactor = 1.05;
// An element of a loop of a thread that loads: all are in flight in a loop of up to so many, a few
// in a longer one. With kBusyThreads of a multiprocessor at such loops it is also what they come
// to.
constexpr double kSerialSeconds = 8e-9, kLongSerialSeconds = 5e-8;
constexpr double kUnrolled = 32;
// What is read again from L2 costs this part of what memory would.
constexpr double kCachedPart = 0.5;

// Threads of a multiprocessor that keep its share of the memory busy.
constexpr double kBusyThreads = 512;
// Of the memory's rate, what a multiprocessor reaches where others have nothing to do, in parts of
// what it has where all do. Believed: of a row by 16 blocks of an H200 it makes 32 us of 77.
constexpr double kReach = 2;
// A small kernel that waits for what the one before has left, beside its launch (measured on an
// H200).
constexpr double kLeftSeconds = 3e-6;

// Simple operations of a value, without those that depend on none of `variables`.
double Steps(ValuePtr value, const Values& values, uint64_t variables,
             std::unordered_map<int, double>& memo) {
  auto found = memo.find(value->id);
  if (found != memo.end()) return found->second;
  memo[value->id] = 0;  // shared values count once
  if ((value->variables & variables) == 0) return 0;
  double steps = 1;
  uint64_t loops = 0;
  for (const Variable& loop : value->loops) loops |= BitOf(loop);
  if (value->kind == Value::Kind::kOp) steps = StepsOf(value->op);
  values.ForEachChild(
      value, [&](ValuePtr child) { steps += Steps(child, values, variables | loops, memo); });
  for (const Variable& loop : value->loops) steps *= static_cast<double>(loop.range.high + 1);
  return steps;
}

// Loads of a loop at places that a table names, each of which waits for memory by itself.
double TabledLoads(ValuePtr loop, const Values& values) {
  uint64_t along = 0;
  for (const Variable& variable : loop->loops) along |= BitOf(variable);
  double loads = 0;
  for (ValuePtr value : values.Closure({loop->args[0]}))
    loads += value->kind == Value::Kind::kLoad && value->index.has_opaque() &&
             (value->variables & along) != 0;
  return loads;
}

// Elements of the loops of a thread that load something, one loop after the other, each as often as
// it waits. `seen`: values that count no more.
double SerialElements(ValuePtr value, const Values& values, std::set<int>& seen) {
  if (!seen.insert(value->id).second) return 0;
  double sum = 0;
  const auto add = [&](std::set<int>& known) {
    values.ForEachChild(value,
                        [&](ValuePtr child) { sum += SerialElements(child, values, known); });
  };
  if (value->kind != Value::Kind::kReduce || !value->loads) {
    add(seen);
    return sum;
  }
  std::set<int> inside;
  add(inside);
  double elements = 1;
  for (const Variable& loop : value->loops) elements *= static_cast<double>(loop.range.high + 1);
  return std::max(1.0, sum) * elements * (1 + TabledLoads(value, values));
}

struct Point {
  double steps = 0;
  double serial = 0;  // elements of a thread's loops
  // Of all threads' loops, one after the other: at each point, and behind each row; of one row.
  double serial_points = 0, serial_rows = 0, serial_row = 0;
  int64_t loads = 0;
};

Point PointOf(const Analysis& group, const Domain& domain) {
  const std::string key =
      absl::StrCat("point ", domain.primary, domain.online_used ? " online" : "",
                   domain.partial() ? " places" : "", domain.roots.empty() ? " apart" : "");
  return group.Derived<Point>(
      key, std::function<Point()>([&] {
        Point point;
        const absl::StatusOr<Kernel>& kernel = group.PointsOf(domain);
        if (!kernel.ok()) return point;
        // As a thread of one element sees it that moves along what is not
        // fixed for its row.
        uint64_t along = 0;
        for (const DomainAxis& axis : domain.axes) {
          if (domain.elements() || axis.role != Role::kKept) along |= BitOf(axis.variable);
        }
        std::unordered_map<int, double> memo;
        std::set<int> looped;
        for (ValuePtr search : SearchesOf(domain, *kernel)) {  // a block's, not a thread's
          memo[search->id] = 0;
          looped.insert(search->id);
        }
        std::vector<ValuePtr> targets = TargetsOf(*kernel);
        std::set<ValuePtr> of_rows;
        for (const Kernel::Root& root : kernel->roots) {
          // What is behind totals is done once, not at each point.
          if (root.level == Level::kTotals) std::erase(targets, root.value);
          if (root.level == Level::kRows) of_rows.insert(root.value);
        }
        const auto rows = static_cast<double>(domain.kept());
        const double points =
            rows * static_cast<double>(domain.reduced()) * static_cast<double>(domain.carried());
        for (ValuePtr target : targets) {
          point.steps += Steps(target, *kernel->values, along, memo);
          const double serial = SerialElements(target, *kernel->values, looped);
          point.serial += serial;
          if (of_rows.count(target) > 0) {
            point.serial_rows += serial * rows;
            point.serial_row += serial;
          } else {
            point.serial_points += serial * points;
          }
        }
        point.loads = static_cast<int64_t>(LoadsOf(*kernel).size());
        return point;
      }));
}

// Bytes of the sectors that elements are written to one by one, beyond their own: where neighbours
// in what is read are far apart in what is written, and no skeleton of boxes puts that right.
double ScatteredBytes(const Analysis& group, const Domain& domain, const Usage& use) {
  if (domain.elements() || !domain.pattern.known) return 0;
  const auto& main = domain.pattern.stride;
  const auto lanes = std::find(main.begin(), main.end(), 1) - main.begin();
  double bytes = 0;
  for (const Access& access : group.AccessesOf(domain)) {
    if (!access.write || !access.affine || lanes >= static_cast<int64_t>(access.stride.size()))
      continue;
    const graph::Tensor& tensor = group.graph().tensors[access.tensor];
    const auto size = static_cast<double>(graph::SizeOf(tensor.type));
    // Of each point, or of each row where neighbours are those of rows. (Tiles of products are
    // written by their columns; `contract` says itself what that moves.)
    const DomainAxis& along = domain.axes[lanes];
    const bool of_rows = along.role == Role::kKept && use.products == 0 &&
                         static_cast<double>(along.extent()) * size >= kSectorBytes;
    const bool whole = tensor.elements() >= domain.kept() * (of_rows ? 1 : domain.reduced());
    if (whole && access.stride[lanes] > 1) {
      const double touched =
          std::min<double>(kSectorBytes, size * static_cast<double>(access.stride[lanes]));
      bytes += static_cast<double>(tensor.elements()) * (touched - size);
    }
  }
  return bytes;
}

}  // namespace

double StepsOfPoint(const Analysis& group, const Domain& domain) {
  return PointOf(group, domain).steps;
}

int64_t LoadsOfPoint(const Analysis& group, const Domain& domain) {
  return PointOf(group, domain).loads;
}

double SecondsOf(const Analysis& group, const Domain& domain, const Usage& use,
                 const Target& target) {
  if (group.constant()) return 0;
  const Demand& demand = group.demand();
  const double points = use.points > 0 ? use.points
                                       : static_cast<double>(domain.kept()) *
                                             static_cast<double>(domain.reduced()) *
                                             static_cast<double>(domain.carried());
  double bytes = static_cast<double>(demand.bytes_read + demand.bytes_written) +
                 ScatteredBytes(group, domain, use);
  if (use.passes > 1) {
    bytes += (use.passes - 1) * (1 - use.kept) * points * use.stream_bytes *
             (use.cached ? kCachedPart : 1.0);
  }
  bytes += 2 * static_cast<double>(use.left_bytes) + use.scattered_bytes;
  const bool meets = use.passes > 1 && use.workspace_bytes > use.left_bytes;
  double memory = bytes / target.bytes_per_second * (meets ? kMeetingFactor : 1.0);
  if (use.rounds > 0) {
    const double busy =
        static_cast<double>(use.blocks) * use.threads /
        (std::min<double>(kBusyThreads, target.max_threads_per_sm) * target.sm_count);
    memory =
        std::max(memory / std::min(1.0, busy), static_cast<double>(use.rounds) * kRoundSeconds);
  }
  const double compute =
      use.products > 0
          ? use.product_seconds + use.operations / target.operations_per_second
          : (StepsOfPoint(group, domain) * points + use.operations) / target.operations_per_second;
  // Multiprocessors that have a block; each reaches more than its part of the memory's rate.
  const bool known = use.products > 0 || use.rounds > 0 || use.blocks == 0;  // or counted already
  const double busy =
      known ? 1
            : std::min(1.0, static_cast<double>(use.blocks) / static_cast<double>(target.sm_count));
  memory /= std::min(1.0, kReach * busy);
  // Products are not made by loops of threads.
  const Point point = use.products > 0 ? Point() : PointOf(group, domain);
  const double at_once =
      std::min<double>(kBusyThreads, target.max_threads_per_sm) * target.sm_count;
  const double of_element = point.serial <= kUnrolled ? kSerialSeconds : kLongSerialSeconds;
  const double serial = std::max(point.serial, point.serial_points / at_once) * of_element;
  // By some of a block's threads, when the others are through.
  const double behind = std::max(point.serial_row, point.serial_rows / at_once) * of_element;
  return std::max({memory, compute / busy, serial}) + behind + use.summing_seconds +
         use.launches * target.launch_seconds + (use.left_bytes > 0 ? kLeftSeconds : 0);
}

}  // namespace warpsmith::codegen
