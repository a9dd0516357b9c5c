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

double Light::seconds() const { return std::max({memory, operations, products}); }

Light LightOf(const Cost& cost, const Roof& roof, Fp32 fp32) {
  Light light;
  light.memory = roof.MemorySeconds(static_cast<double>(cost.read_bytes),
                                    static_cast<double>(cost.written_bytes));
  const Products& products = cost.products;
  const bool kept = fp32 == Fp32::kKept;
  const struct {
    double operations, passes;
  } kinds[] = {{products.eight, 0.5},
               {products.narrow, 1},
               {products.mixed, kept ? 2.0 : 1.0},
               {products.wide, kept ? 3.0 : 1.0}};
  double others = cost.operations - products.all();
  for (const auto& kind : kinds) {
    const double rate = roof.products / kind.passes;
    if (rate > roof.operations) {
      light.products += Seconds(kind.operations, rate);
    } else {
      others += kind.operations;
    }
  }
  light.operations = Seconds(others, roof.operations);
  return light;
}

Light LeastOf(const Cost& cost, const Roof& roof, Fp32 fp32) {
  Roof most = roof;
  most.products = std::max(roof.products, roof.most_products);
  return LightOf(cost, most, fp32);
}

double LightSeconds(const Cost& cost, const Roof& roof, Fp32 fp32) {
  return LightOf(cost, roof, fp32).seconds();
}

}  // namespace warpsmith::graph
