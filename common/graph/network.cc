#include "common/graph/network.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <map>
#include <utility>

namespace warpsmith::graph {
namespace {

// So many multiplications and additions of factors of so many bits.
Work Multiplied(double operations, int bits_a, int bits_b) {
  Work work;
  const auto [least, most] = std::minmax(bits_a, bits_b);
  double& kind = most > 32    ? work.simple
                 : least > 16 ? work.products.wide
                 : most > 16  ? work.products.mixed
                 : most > 8   ? work.products.narrow
                              : work.products.eight;
  kind = operations;
  return work;
}

}  // namespace

Work FewestInNetwork(const std::vector<NetworkFactor>& factors, uint64_t kept,
                     const std::function<double(uint64_t)>& points) {
  if (factors.empty()) return Work();
  std::map<uint64_t, double> known;
  const auto points_in = [&](uint64_t variables) {
    const auto [at, is_new] = known.try_emplace(variables, 0);
    if (is_new) at->second = points(variables);
    return at->second;
  };
  struct Best {
    Work work;
    uint64_t variables = 0;  // of its elements
    int bits = 16;
  };
  const uint32_t all = (uint32_t{1} << factors.size()) - 1;
  std::vector<uint64_t> used(all + 1, 0);
  for (uint32_t set = 1; set <= all; ++set) {
    for (size_t f = 0; f < factors.size(); ++f) {
      if (set >> f & 1) used[set] |= factors[f].variables;
    }
  }
  std::vector<Best> best(all + 1);
  for (uint32_t set = 1; set <= all; ++set) {
    Best& here = best[set];
    const uint64_t live = used[set] & (kept | used[all & ~set]);
    if (std::has_single_bit(set)) {
      const NetworkFactor& factor = factors[std::countr_zero(set)];
      here = {{}, live, factor.bits};
      if (live != factor.variables) {
        here.work.simple = std::min(factor.elements, points_in(factor.variables));
      }
      continue;
    }
    double least = std::numeric_limits<double>::infinity();
    for (uint32_t a = (set - 1) & set; a > 0; a = (a - 1) & set) {
      const uint32_t b = set & ~a;
      if (a < b) continue;
      const uint64_t both = best[a].variables | best[b].variables;
      Work work;
      if (both != live) {
        work = Multiplied(2 * points_in(both), best[a].bits, best[b].bits);
      } else {
        work.simple = points_in(both);
      }
      work.Add(best[a].work);
      work.Add(best[b].work);
      if (work.weight() >= least) continue;
      least = work.weight();
      here = {work, live, std::max(best[a].bits, best[b].bits)};
      // What is multiplied by a scale of its rows or blocks may be so behind the sum.
      for (const auto& [scaled, scale] : {std::pair{a, b}, std::pair{b, a}}) {
        const bool has_all = (best[scale].variables & ~best[scaled].variables) == 0;
        if (both == live && has_all) here.bits = std::min(here.bits, best[scaled].bits);
      }
    }
  }
  return best[all].work;
}

}  // namespace warpsmith::graph
