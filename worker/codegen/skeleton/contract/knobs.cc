// Defaults and checks of the contract skeleton's knobs, and places to try beside them.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "worker/codegen/skeleton/contract/contract.h"

namespace warpsmith::codegen {
namespace {

using absl::StrCat;

// Sums of fp32 that a thread adds up one after another before they join the total: what a library
// adds up in one piece is longer.
constexpr int64_t kPlainRun = 256;
// Products of a thread of the plain main loop that it has registers for, with its totals.
constexpr int64_t kMostSums = 64;
constexpr int kRaster = 8;
constexpr int kMostSplit = 64;
// Elements of K that are worth a block.
constexpr int64_t kLeastPart = 128;
// What loads from shared memory cost beside products, for a thread of one row and one column.
constexpr double kSharedCost = 0.8;

int64_t Tiles(const ContractForm& form, int64_t tile_m, int64_t tile_n) {
  return CeilDiv(form.m, tile_m) * CeilDiv(form.n, tile_n) * form.batch;
}

// A tile's share of what the card could do: the larger it is, the more products there are for each
// load from shared memory.
double PlainEfficiency(int64_t tile_m, int64_t tile_n) {
  return 1 / (1 + kSharedCost *
                      (16.0 / static_cast<double>(tile_m) + 16.0 / static_cast<double>(tile_n)));
}

bool Fits(int64_t tile_m, int64_t tile_n) { return tile_m / 16 * (tile_n / 16) <= kMostSums; }

// Seconds that tiles of that size take, their waves counted whole.
double PlainSeconds(const ContractForm& form, const v1::ContractKnobs& knobs,
                    const Target& target) {
  const int64_t blocks = ContractBlocks(form, knobs);
  const double waves =
      std::ceil(static_cast<double>(blocks) / static_cast<double>(target.sm_count));
  const double work = static_cast<double>(knobs.tile_m()) * knobs.tile_n() *
                      static_cast<double>(CeilDiv(form.k, knobs.split()));
  double seconds = waves * work / (ProductRate(knobs, target) / target.sm_count);
  if (knobs.split() > 1) {
    seconds += target.launch_seconds + 8.0 * knobs.split() * static_cast<double>(form.batch) *
                                           static_cast<double>(form.m) *
                                           static_cast<double>(form.n) / target.bytes_per_second;
  }
  return seconds;
}

// The quickest of tiles and splits, those that were set kept.
void ChooseTiles(const ContractForm& form, const Target& target, v1::ContractKnobs& knobs) {
  const v1::ContractKnobs set = knobs;
  double best = 0;
  const int64_t most =
      std::clamp<int64_t>(form.k / kLeastPart, 1, target.fibers() ? 1 : kMostSplit);
  for (int tile_m : {16, 32, 64, 128, 256}) {
    if (set.tile_m() != 0 && set.tile_m() != tile_m) continue;
    for (int tile_n : {16, 32, 64, 128, 256}) {
      if (set.tile_n() != 0 && set.tile_n() != tile_n) continue;
      if (!Fits(tile_m, tile_n)) continue;
      for (int64_t split = 1; split <= (set.split() != 0 ? 1 : most); ++split) {
        v1::ContractKnobs one = set;
        one.set_tile_m(tile_m);
        one.set_tile_n(tile_n);
        if (set.split() == 0) one.set_split(static_cast<int>(split));
        const double seconds = PlainSeconds(form, one, target);
        if (best != 0 && seconds >= best) continue;
        best = seconds;
        knobs = one;
      }
    }
  }
  // What was set may not fit; the checks say so.
  if (knobs.tile_m() == 0) knobs.set_tile_m(64);
  if (knobs.tile_n() == 0) knobs.set_tile_n(64);
  if (knobs.split() == 0) knobs.set_split(1);
}

void AddLayout(int tile_m, int tile_n, int split, double prior, std::vector<Layout>& layouts) {
  Layout layout;
  layout.kind = "layout";
  layout.name = StrCat("tiles of ", tile_m, " x ", tile_n,
                       split > 1 ? StrCat(", ", split, " blocks a tile") : "");
  layout.knobs = {{"tile_m", tile_m}, {"tile_n", tile_n}, {"split", split}};
  layout.prior = prior;
  layouts.push_back(layout);
}

}  // namespace

int64_t RunOf(const ContractForm& form, const v1::ContractKnobs& knobs) {
  const int64_t part = CeilDiv(form.k, knobs.split());
  return graph::IsFloat(form.sums) && knobs.run() < part ? knobs.run() : 0;
}

int64_t ContractSharedBytes(const ContractForm& form, const v1::ContractKnobs& knobs) {
  return int64_t{2} * kPlainStep * (knobs.tile_m() + knobs.tile_n() + 8) * graph::SizeOf(form.sums);
}

int64_t ContractBlocks(const ContractForm& form, const v1::ContractKnobs& knobs) {
  return Tiles(form, knobs.tile_m(), knobs.tile_n()) * knobs.split();
}

double ProductRate(const v1::ContractKnobs& knobs, const Target& target) {
  return target.products_per_second * PlainEfficiency(knobs.tile_m(), knobs.tile_n());
}

absl::StatusOr<v1::Group> ResolveContract(const Analysis& group, const ContractForm& form,
                                          const v1::Group& knobs, const Target& target) {
  v1::Group resolved = knobs;
  v1::ContractKnobs& contract = *resolved.mutable_contract();
  if (contract.math() == v1::PRODUCT_AUTO) contract.set_math(v1::PRODUCT_PLAIN);
  if (contract.vector_bytes() == 0) contract.set_vector_bytes(16);
  if (contract.stages() == 0) contract.set_stages(1);
  if (contract.cluster() == 0) contract.set_cluster(1);
  if (contract.raster() == 0) contract.set_raster(kRaster);
  ChooseTiles(form, target, contract);
  if (contract.run() == 0) contract.set_run(kPlainRun);
  Checker check(group.name());
  check.That(contract.math() == v1::PRODUCT_PLAIN,
             StrCat("contract.math is ", v1::ProductMath_Name(contract.math()),
                    "; this card takes PRODUCT_PLAIN"));
  check.Range("contract.stages", contract.stages(), 1, 1);
  check.Range("contract.cluster", contract.cluster(), 1, 1);
  check.That(
      Fits(contract.tile_m(), contract.tile_n()),
      StrCat("contract.tile_m ", contract.tile_m(), " and contract.tile_n ", contract.tile_n(),
             ": a thread has registers for ", kMostSums * 256, " sums of a tile's"));
  check.Range("contract.split", contract.split(), 1,
              std::max<int64_t>(1, CeilDiv(form.k, kPlainStep)));
  CheckResidency("contract", kPlainThreads, 0, ContractSharedBytes(form, contract),
                 "contract.tile_m or contract.tile_n", target, check);
  const v1::Accumulator accumulator = resolved.precision().accumulator();
  check.That(accumulator != v1::ACCUMULATOR_COMPENSATED,
             "precision.accumulator is compensated; sums of products join a total in fp32 or fp64");
  if (!check.status().ok()) return check.status();
  if (accumulator == v1::ACCUMULATOR_AUTO)
    resolved.mutable_precision()->set_accumulator(v1::ACCUMULATOR_F32);
  return resolved;
}

std::vector<Layout> ContractLayouts(const ContractForm& form, const v1::Group& resolved,
                                    const Target& target) {
  std::vector<Layout> layouts;
  const v1::ContractKnobs& now = resolved.contract();
  const double present = PlainSeconds(form, now, target);
  for (int tile_m : {128, 64, 32, 16}) {
    for (int tile_n : {128, 64, 32, 16, 256}) {
      if (!Fits(tile_m, tile_n) || tile_m >= 2 * PowerOfTwoAtLeast(form.m) ||
          tile_n >= 2 * PowerOfTwoAtLeast(form.n))
        continue;
      v1::ContractKnobs one = now;
      one.set_tile_m(tile_m);
      one.set_tile_n(tile_n);
      for (int split : {1, 2, 4, 8, 16, 32}) {
        if (split > 1 && form.k / split < kLeastPart) break;
        one.set_split(split);
        if (tile_m == now.tile_m() && tile_n == now.tile_n() && split == now.split()) continue;
        const double seconds = PlainSeconds(form, one, target);
        if (seconds > 2 * present) continue;
        AddLayout(tile_m, tile_n, split, 0.2 * present / seconds, layouts);
      }
    }
  }
  return layouts;
}

}  // namespace warpsmith::codegen
