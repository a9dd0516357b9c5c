// Windows whose taps are shifts: geometry of worker/kernels/contract_shifts.cuh.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "worker/codegen/skeleton/contract/contract.h"

namespace warpsmith::codegen {
namespace {

using absl::StrCat;

constexpr int64_t kEight = 8, kPieceBytes = 16;  // channels of a plane, and bytes of its places
constexpr int64_t kOfProduct = 16;               // elements of K
// Rows and columns of tiles at the most.
constexpr int64_t kMostRows = 128, kMostColumns = 256;
// Sums of a thread that it has registers for, by groups that take turns.
constexpr int64_t kMostSumsOfTurns[] = {0, 0, 128, 64, 64};
// Products of a step, which the kernel has one after another.
constexpr int64_t kMostUnits = 64;

// Elements of an axis that windows see, with those outside of the image.
int64_t ExtentOf(const WindowAxis& axis) { return axis.reach(axis.places); }

int64_t EightsOf(const Windows& windows) {
  return windows.channel_count <= kEight ? 1 : CeilDiv(windows.channel_count, 2 * kEight) * 2;
}
int64_t PlanesOfStep(const Windows& windows) { return std::min<int64_t>(2, EightsOf(windows)); }

// As many places as leave groups of those that are finished together in lines of their own.
int64_t PitchOf(const Windows& windows) {
  const WindowAxis w = windows.axis(0);
  const int64_t together = w.places % 4 == 0 ? 4 : w.places % 2 == 0 ? 2 : 1;
  return CeilDiv(ExtentOf(w), together) * together;
}

}  // namespace

ShiftsShape ShiftsOf(const ContractForm& form, const v1::ContractKnobs& knobs) {
  const Windows& windows = *form.windows;
  const WindowAxis w = windows.axis(0), h = windows.axis(1), d = windows.axis(2);
  const int64_t parts = PartsOf(knobs.math()), of_step = PlanesOfStep(windows),
                columns = knobs.tile_n();
  ShiftsShape shape;
  shape.pitch = PitchOf(windows);
  shape.eights = EightsOf(windows);
  shape.steps = d.taps * shape.eights / of_step;
  const int64_t pieces = h.taps * w.taps * of_step;
  shape.units = CeilDiv(pieces, int64_t{2});
  shape.odd = pieces % 2 == 1;
  if (const int64_t run = RunOf(form, knobs); run > 0) {
    shape.runs = std::max<int64_t>(1, (shape.units * kOfProduct + run / 2) / run);
    if (shape.steps * shape.runs == 1) shape.runs = 0;
  }
  const int64_t across = w.apart * (w.taps - 1), down = h.apart * shape.pitch * (h.taps - 1);
  const auto eights = [](int64_t places) { return CeilDiv(places, kEight) * kEight; };
  const int64_t segment =
      std::min(eights(columns + down + across), h.taps * eights(columns + across));
  shape.step_bytes = parts * of_step * segment * kPieceBytes;
  // Two groups' rows of a tile are apart.
  shape.rows = knobs.tile_m() > kGroupRows
                   ? knobs.tile_m()
                   : std::min<int64_t>(knobs.tile_m(), CeilDiv(form.m, kEight) * kEight);
  shape.resident_bytes = parts * shape.steps * shape.units * kOfProduct * shape.rows * 2;
  shape.zero_bytes = shape.odd ? columns * kPieceBytes : 0;
  const int64_t slices = windows.image_count * d.places;
  shape.tiles = slices * CeilDiv((h.places - 1) * shape.pitch + w.places, columns);
  shape.places = windows.image_count * shape.eights * ExtentOf(d) * ExtentOf(h) * shape.pitch;
  return shape;
}

int64_t ShiftsDepth(const Windows& windows) {
  const WindowAxis w = windows.axis(0), h = windows.axis(1), d = windows.axis(2);
  const int64_t of_step = PlanesOfStep(windows);
  return d.taps * EightsOf(windows) / of_step * CeilDiv(h.taps * w.taps * of_step, int64_t{2}) *
         kOfProduct;
}

int64_t ShiftsBytes(const ContractForm& form, int operand, v1::ProductMath math) {
  v1::ContractKnobs knobs;
  knobs.set_math(math);
  knobs.set_tile_m(kMostRows);
  knobs.set_tile_n(kMostColumns);
  knobs.set_split(1);
  const ShiftsShape shape = ShiftsOf(form, knobs);
  if (operand == 0) return CeilDiv(form.m, kMostRows) * shape.resident_bytes;
  // What the last tile's columns bring, by eights of places, reaches beyond what there is.
  return PartsOf(math) * shape.places * kPieceBytes + (kMostColumns + kEight) * kPieceBytes;
}

std::string ShiftsWrong(const ContractForm& form, const v1::ContractKnobs& knobs,
                        const Target& target) {
  const ShiftsShape shape = ShiftsOf(form, knobs);
  if (knobs.tile_m() != 64 && knobs.tile_m() != kMostRows)
    return StrCat("contract.tile_m is ", knobs.tile_m(), "; where taps are shifts it is 64 or 128");
  if (knobs.tile_n() < 64 || knobs.tile_n() > kMostColumns)
    return StrCat("contract.tile_n is ", knobs.tile_n(),
                  "; where taps are shifts it is 64, 128 or 256");
  if (knobs.turns() < 2 || knobs.turns() > 4)
    return StrCat("contract.turns is ", knobs.turns(),
                  "; where taps are shifts two to four groups take turns");
  if (knobs.cluster() != 1 || knobs.split() != 1 || knobs.tail() != 1 || knobs.blocks_per_sm() != 1)
    return "contract.cluster, split, tail and blocks_per_sm are 1 where taps are shifts";
  if (shape.units > kMostUnits)
    return StrCat("a step has ", shape.units, " products, where taps are shifts at the most ",
                  kMostUnits);
  constexpr int64_t kMost = int64_t{1} << 30;
  if (shape.tiles * knobs.tile_n() > kMost || shape.places > kMost)
    return "the image has more than 2^30 places";
  if (!OnTensorCores(knobs.math(), target))
    return knobs.stages() == 1
               ? ""
               : "contract.stages is of the tensor cores; where there are none it is 1";
  if (knobs.stages() < 2)
    return StrCat("contract.stages is ", knobs.stages(), "; the tensor cores want 2 at the least");
  const bool runs = shape.runs > 0;
  const int64_t sums = int64_t{knobs.tile_m()} / kGroupRows * knobs.tile_n() / 2;
  if (runs && knobs.tile_m() > kGroupRows)
    return StrCat("contract.tile_m is ", knobs.tile_m(), "; sums of runs have tiles of ",
                  kGroupRows, " rows where taps are shifts");
  if (sums * (runs ? 2 : 1) > kMostSumsOfTurns[knobs.turns()])
    return StrCat("contract.tile_m ", knobs.tile_m(), " and contract.tile_n ", knobs.tile_n(),
                  ": threads of ", knobs.turns(), " groups have no registers for so many sums");
  return "";
}

}  // namespace warpsmith::codegen
