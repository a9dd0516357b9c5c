// Convolutions by ordinary instructions, of windows as they are: geometry and kernels of
// worker/kernels/contract_direct.cuh.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "worker/codegen/skeleton/contract/contract.h"
#include "worker/codegen/skeleton/contract/glue.h"

namespace warpsmith::codegen {
namespace {

using absl::StrCat;

// Bytes of shared memory of a block, that four of a multiprocessor of an H200 have; sums of a
// thread with which so many blocks have registers enough.
constexpr int64_t kSharedOfBlock = 50 << 10;
constexpr int64_t kMostDirectSums = 128;
struct Room {
  int64_t sums;
  int blocks;
};
constexpr Room kRooms[] = {{64, 4}, {96, 3}, {kMostDirectSums, 2}};
// Elements of a window, which are added up one after another.
constexpr int64_t kMostDirectSum = 2048;
// Elements of a line that a thread has registers for.
constexpr int64_t kMostSpan = 40;
// Simple operations of an image's element that is had as it lies: what is written out for each of
// the 60 of a thread that are on their way (of an H200, 2/83: 726 us so, and 756 with 12).
constexpr double kStepsOfPlain = 8;
// Instructions by which a thread brings an element, for choosing a box.
constexpr double kBringing = 10;

}  // namespace

DirectShape DirectShapeOf(const ContractForm& form, const v1::ContractKnobs& knobs) {
  const Windows& windows = *form.windows;
  const WindowAxis w = windows.axis(0), h = windows.axis(1), d = windows.axis(2);
  const int64_t most = std::max(4, knobs.tile_m()), turns = CeilDiv(form.m, most);
  DirectShape shape;
  shape.filters = static_cast<int>(CeilDiv(CeilDiv(form.m, turns), int64_t{4}) * 4);
  shape.places = std::max(4, knobs.tile_n() / 32);
  const int64_t taps = w.taps * h.taps * d.taps, weights = taps * shape.filters;
  const int64_t of_thread = shape.places * w.step();
  const int64_t vectors = CeilDiv(w.reach(shape.places), int64_t{4}) * 4;
  double least = 0;
  for (int across = 1; across <= kDirectThreads; across *= 2) {
    for (int down = 1; down * across <= kDirectThreads; down *= 2) {
      const int deep = kDirectThreads / across / down;
      const int64_t pitch = (across - 1) * of_thread + vectors;
      const int64_t lines = h.reach(down) * d.reach(deep), channel = lines * pitch;
      const int64_t fit = kSharedOfBlock / 4 / (channel + weights);
      if (fit < 1) continue;
      const int64_t blocks = CeilDiv(w.places, int64_t{across} * shape.places) *
                             CeilDiv(h.places, int64_t{down}) * CeilDiv(d.places, int64_t{deep}) *
                             windows.image_count * windows.batch;
      const int64_t pieces = CeilDiv(windows.channel_count, std::min(fit, windows.channel_count));
      const int64_t channels = CeilDiv(windows.channel_count, pieces);
      // Where all channels are there at once, they stay for all filters.
      const int64_t times = pieces > 1 ? turns : 1;
      const double each = static_cast<double>(turns * weights * shape.places),
                   brings = kBringing * static_cast<double>(times * channel) / kDirectThreads;
      const double cost = static_cast<double>(blocks * pieces * channels) * (each + brings);
      if (shape.across != 0 && cost >= least) continue;
      least = cost;
      shape.across = across;
      shape.down = down;
      shape.channels = channels;
      shape.blocks = blocks;
      shape.shared_bytes = 4 * channels * (channel + weights);
      shape.products = static_cast<double>(blocks * pieces * channels * kDirectThreads) * each;
      shape.brought = static_cast<double>(blocks * pieces * channels * times * channel);
    }
  }
  for (const Room& room : kRooms) {
    if (int64_t{shape.filters} * shape.places > room.sums) continue;
    shape.blocks_per_sm = room.blocks;
    break;
  }
  return shape;
}

std::string DirectMisfit(const ContractForm& form, v1::ProductMath math) {
  if (math != v1::PRODUCT_PLAIN)
    return "windows that are read as they are, are multiplied by PRODUCT_PLAIN";
  if (form.sums != graph::DType::kF32 || form.summed >= 0 || form.pair)
    return "windows that are read as they are, are multiplied in fp32, and what is made of them is "
           "neither summed nor one of two products";
  if (form.k > kMostDirectSum)
    return StrCat("windows that are read as they are have at most ", kMostDirectSum,
                  " elements, which are added up in one run");
  int64_t most = std::max(form.windows->image_count, form.windows->channel_count);
  for (const WindowAxis& axis : form.windows->axes)
    most = std::max({most, axis.stride * axis.places, axis.rows(), axis.apart * axis.taps});
  return most > kMaxIntPosition ? "an axis of its image has more than 2^31 elements" : "";
}

std::string DirectWrong(const ContractForm& form, const v1::ContractKnobs& knobs) {
  if (knobs.stages() != 1 || knobs.cluster() != 1 || knobs.split() != 1)
    return "contract.stages, cluster and split are 1 where windows are read as they are";
  if (knobs.tile_n() != 128 && knobs.tile_n() != 256)
    return StrCat("contract.tile_n is ", knobs.tile_n(),
                  "; where windows are read as they are, a warp has 128 or 256 places");
  const DirectShape shape = DirectShapeOf(form, knobs);
  if (shape.across == 0) return "its windows have too many taps for a block's shared memory";
  if (int64_t{shape.filters} * shape.places > kMostDirectSums)
    return StrCat("contract.tile_m ", knobs.tile_m(), " and contract.tile_n ", knobs.tile_n(),
                  ": threads have no registers for so many sums");
  if (form.windows->axes.back().reach(shape.places) > kMostSpan)
    return StrCat("windows of ", shape.places, " neighbours reach over more than ", kMostSpan,
                  " elements of a line, for which threads have no registers");
  return "";
}

absl::Status EmitDirect(const Analysis& group, const Domain& domain, const ContractForm& form,
                        const v1::Group& resolved, KernelWriter& writer) {
  absl::Status written = WriteContractGlue(group, domain, form, resolved, writer);
  if (!written.ok()) return written;
  const DirectShape shape = DirectShapeOf(form, resolved.contract());
  const std::string config =
      StrCat("ws::DirectConfig<", WindowText(form, resolved.contract()), ", ", shape.filters, ", ",
             shape.places, ", ", shape.across, ", ", shape.down, ", ", shape.channels, ", ",
             form.steps[1] > kStepsOfPlain ? 12 : 60, ">");
  KernelShape kernel;
  kernel.threads = kDirectThreads;
  kernel.blocks_per_sm = shape.blocks_per_sm;
  kernel.grid = shape.blocks;
  kernel.shared_bytes = shape.shared_bytes;
  return writer
      .Kernel("", kernel, {}, StrCat("ws::contract_direct<", writer.glue(), ", ", config, ">(g)"))
      .status();
}

}  // namespace warpsmith::codegen
