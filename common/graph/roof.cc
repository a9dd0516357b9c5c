#include "common/graph/roof.h"

#include <algorithm>

namespace warpsmith::graph {
namespace {

double Seconds(double amount, double rate) { return rate > 0 ? amount / rate : 0; }

}  // namespace

double Roof::MemorySeconds(double read, double written) const {
  const double both = std::min(read, written);
  return Seconds(2 * both, copy_bytes) + Seconds(read - both, read_bytes) +
         Seconds(written - both, write_bytes);
}

double LightSeconds(const Cost& cost, const Roof& roof) {
  return std::max(roof.MemorySeconds(static_cast<double>(cost.read_bytes),
                                     static_cast<double>(cost.written_bytes)),
                  Seconds(cost.operations, roof.operations));
}

}  // namespace warpsmith::graph
