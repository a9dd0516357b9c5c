#include "worker/device/plan_check.h"

#include <catch2/catch.hpp>
#include <functional>

#include "absl/strings/match.h"
#include "worker/device/plan_builder.h"

namespace warpsmith::device {
namespace {

DeviceInfo Card() {
  DeviceInfo info;
  info.shared_per_block = 227 << 10;
  info.tensor_maps = true;
  return info;
}

// 64 x 100 bf16 in rows of 256 bytes, the whole of a buffer but for the last row's padding.
v1::TensorMap Whole() {
  v1::TensorMap map;
  map.set_buffer(0);
  map.set_dtype("bf16");
  for (int64_t size : {100, 64}) map.add_sizes(size);
  map.add_strides(256);
  for (int box : {64, 64}) map.add_box(box);
  map.set_swizzle(128);
  return map;
}

std::string Refusal(const std::function<void(v1::TensorMap&)>& change,
                    const DeviceInfo& info = Card()) {
  v1::Argument argument;
  *argument.mutable_map() = Whole();
  change(*argument.mutable_map());
  const v1::Plan plan =
      PlanBuilder("").Buffer("x", 63 * 256 + 200).Launch("f", 1, 128, {argument}).Build();
  const absl::Status status = CheckPlan(plan, info, 1);
  return status.ok() ? "" : std::string(status.message());
}

}  // namespace

TEST_CASE("a tensor map lies within its buffer and is what the driver takes") {
  CHECK(ArgumentBytes([] {
          v1::Argument argument;
          *argument.mutable_map() = Whole();
          return argument;
        }()) == 128);
  CHECK(Refusal([](auto&) {}) == "");
  const struct {
    std::function<void(v1::TensorMap&)> change;
    const char* reason;
  } cases[] = {
      {[](auto& m) { m.set_offset(16); },
       "argument 0: a tensor map of bytes 16 to 16 + 16328 of buffer 0, which has 16328"},
      {[](auto& m) { m.set_offset(8); }, "at byte 8, not a multiple of 16"},
      {[](auto& m) { m.set_offset(-16); }, "at byte -16"},
      {[](auto& m) { m.set_sizes(0, 101); }, "of buffer 0, which has 16328"},
      {[](auto& m) { m.set_sizes(1, 65); }, "of buffer 0, which has 16328"},
      {[](auto& m) { m.set_sizes(1, int64_t{1} << 33); }, "8589934592 elements along axis 1"},
      {[](auto& m) { m.set_sizes(0, 0); }, "0 elements along axis 0"},
      {[](auto& m) { m.set_strides(0, 264); }, "stride of 264 bytes along axis 1"},
      {[](auto& m) { m.set_strides(0, int64_t{1} << 40); }, "below 2^40"},
      {[](auto& m) { m.set_strides(0, -256); }, "stride of -256"},
      {[](auto& m) { m.add_strides(512); }, "they go by 1 to 5 axes"},
      {[](auto& m) { m.set_box(1, 257); }, "box of 257 elements along axis 1; the limit is 256"},
      {[](auto& m) { m.set_box(0, 60); }, "rows of 120 bytes, not a multiple of 16"},
      {[](auto& m) { m.set_box(0, 72); }, "rows of 144 bytes, swizzled by 128"},
      {[](auto& m) { m.set_swizzle(16); }, "swizzled by 16 bytes"},
      {[](auto& m) { m.set_dtype("f13"); }, "of the type 'f13'"},
      {[](auto& m) { m.set_buffer(1); }, "there is no buffer 1"},
      {[](auto& m) { m.clear_sizes(); }, "they go by 1 to 5 axes"},
  };
  for (const auto& c : cases) {
    INFO(c.reason);
    const std::string refusal = Refusal(c.change);
    INFO(refusal);
    CHECK(absl::StrContains(refusal, c.reason));
  }
  DeviceInfo host = Card();
  host.tensor_maps = false;
  CHECK(absl::StrContains(Refusal([](auto&) {}, host), "this device has no tensor maps"));
}

TEST_CASE("the bytes of a tensor map do not wrap") {
  CHECK(absl::StrContains(Refusal([](auto& m) {
                            m.clear_sizes();
                            m.clear_strides();
                            m.clear_box();
                            for (int i = 0; i < 5; ++i) m.add_sizes(int64_t{1} << 32);
                            for (int i = 0; i < 4; ++i) m.add_strides((int64_t{1} << 40) - 16);
                            for (int i = 0; i < 5; ++i) m.add_box(16);
                          }),
                          "beyond 2^63 bytes"));
}

}  // namespace warpsmith::device
