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

TEST_CASE("steps wait for earlier ones of other lanes", "[plan]") {
  const auto refusal = [](uint32_t lane, const std::vector<uint32_t>& after) {
    const v1::Plan plan = PlanBuilder("")
                              .Buffer("x", 64)
                              .Fill(0, 0, 64)
                              .Launch("f", 1, 32, {Arg(0)})
                              .InLane(lane, after)
                              .Build();
    return std::string(CheckPlan(plan, Card(), 1).message());
  };
  CHECK(refusal(1, {0}).empty());
  CHECK(absl::StrContains(refusal(4, {}), "step 1: lane 4; a plan has lanes 0 to 3"));
  CHECK(absl::StrContains(refusal(1, {1}), "step 1: it waits for step 1, which is not before it"));
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

// 2 x (24 x 40) = 2 x (24 x 16 by 40 x 16), a's rows 32 apart from byte 32 on.
v1::LibraryProduct Small() {
  v1::LibraryProduct product;
  product.set_library("loop");
  product.set_algorithm(1);
  product.set_batches(2);
  product.set_m(24);
  product.set_n(40);
  product.set_k(16);
  const auto fill = [](v1::Matrix* matrix, int buffer, int64_t line, int64_t batch) {
    matrix->set_buffer(buffer);
    matrix->set_dtype("bf16");
    matrix->set_line(line);
    matrix->set_batch(batch);
  };
  fill(product.mutable_a(), 0, 32, 24 * 32);
  product.mutable_a()->set_offset(32);
  fill(product.mutable_b(), 1, 40, 16 * 40);
  product.mutable_b()->set_along_rows(true);
  fill(product.mutable_d(), 2, 40, 24 * 40);
  product.set_workspace(3);
  product.mutable_bias()->set_buffer(4);
  product.mutable_bias()->set_offset(16);
  product.mutable_bias()->set_dtype("bf16");
  return product;
}

std::string RefusedProduct(const std::function<void(v1::LibraryProduct&)>& change) {
  v1::Plan plan = PlanBuilder("")
                      .Buffer("a", 2 * 24 * 32 * 2)
                      .Buffer("b", 2 * 16 * 40 * 2)
                      .Buffer("d", 2 * 24 * 40 * 2)
                      .Buffer("w", 1024)
                      .Buffer("bias", 16 + 40 * 2)
                      .Build();
  for (int i : {0, 1, 4}) plan.mutable_buffers(i)->set_kind(v1::Buffer::INPUT);
  plan.mutable_buffers(2)->set_kind(v1::Buffer::OUTPUT);
  v1::LibraryProduct& product = *plan.add_steps()->mutable_product() = Small();
  change(product);
  const absl::Status status = CheckPlan(plan, Card(), 1);
  return status.ok() ? "" : std::string(status.message());
}

}  // namespace

TEST_CASE("a library's product lies within its buffers") {
  CHECK(RefusedProduct([](auto&) {}) == "");
  const struct {
    std::function<void(v1::LibraryProduct&)> change;
    const char* reason;
  } cases[] = {
      {[](auto& p) { p.mutable_a()->set_offset(48); }, "a matrix that ends beyond buffer 0"},
      {[](auto& p) { p.mutable_a()->set_offset(8); }, "at byte 8, not a multiple of 16"},
      {[](auto& p) { p.mutable_a()->set_offset(-16); }, "at byte -16"},
      {[](auto& p) { p.mutable_a()->set_line(15); }, "lines of 16 elements, 15 apart"},
      {[](auto& p) { p.mutable_a()->set_batch(-1); }, "that are -1 apart"},
      {[](auto& p) { p.mutable_a()->set_batch(int64_t{1} << 62); }, "ends beyond buffer 0"},
      {[](auto& p) { p.mutable_a()->set_buffer(5); }, "there is no buffer 5"},
      {[](auto& p) { p.mutable_b()->set_line(41); }, "ends beyond buffer 1"},
      {[](auto& p) { p.mutable_b()->set_dtype("f16"); }, "product of bf16 and f16"},
      {[](auto& p) { p.mutable_b()->set_dtype("f32"); }, "product of bf16 and f32"},
      {[](auto& p) {
         for (auto* matrix : {p.mutable_a(), p.mutable_b(), p.mutable_d()})
           matrix->set_dtype("f32");
         p.set_batches(1);
         p.clear_bias();
       },
       ""},
      {[](auto& p) {
         for (auto* matrix : {p.mutable_a(), p.mutable_b()}) matrix->set_dtype("f32");
         p.set_batches(1);
       },
       "product of f32 and f32 to bf16"},
      {[](auto& p) { p.mutable_d()->set_dtype("f32"); }, "ends beyond buffer 2"},
      {[](auto& p) { p.mutable_d()->set_dtype("f16"); }, "to f16"},
      {[](auto& p) { p.mutable_d()->set_along_rows(true); }, "rows lie beside each other"},
      {[](auto& p) { p.mutable_d()->set_batch(24 * 40 - 1); }, "that overlap"},
      {[](auto& p) { p.mutable_d()->set_batch(39), p.mutable_d()->set_line(80), p.set_m(12); },
       "that overlap"},
      {[](auto& p) { p.mutable_d()->set_batch(40), p.mutable_d()->set_line(80), p.set_m(24); }, ""},
      {[](auto& p) { p.mutable_d()->set_buffer(0), p.set_batches(1); },
       "it writes buffer 0, which is read only"},
      {[](auto& p) { p.clear_bias(); }, ""},
      {[](auto& p) { p.mutable_bias()->set_offset(32); }, "a bias that ends beyond buffer 4"},
      {[](auto& p) { p.mutable_bias()->set_offset(8); }, "a bias at byte 8"},
      {[](auto& p) { p.mutable_bias()->set_offset(-16); }, "a bias at byte -16"},
      {[](auto& p) { p.mutable_bias()->set_dtype("f32"); }, "a bias of f32 for a result of bf16"},
      {[](auto& p) { p.mutable_bias()->set_buffer(5); }, "there is no buffer 5"},
      {[](auto& p) { p.mutable_bias()->set_buffer(3); }, "its workspace is its bias"},
      {[](auto& p) { p.mutable_bias()->set_buffer(2); }, "it writes buffer 2, where its bias is"},
      {[](auto& p) { p.set_k(0); }, "2 x 24 x 40 x 0"},
      {[](auto& p) { p.set_n(int64_t{1} << 31); }, "x 2147483648 x 16"},
      {[](auto& p) { p.set_algorithm(9); }, "algorithm 9 is not in 1 to 8"},
      {[](auto& p) { p.set_workspace(2); }, "workspace is buffer 2, which is none"},
      {[](auto& p) { p.set_workspace(-1); }, "there is no buffer -1"},
      {[](auto& p) {
         p.mutable_d()->set_buffer(3);
         p.set_batches(1);
         p.set_m(1);
       },
       "its workspace is one of its matrices"},
  };
  for (const auto& c : cases) {
    const std::string refusal = RefusedProduct(c.change);
    INFO(c.reason << ": " << refusal);
    CHECK((*c.reason != '\0' ? absl::StrContains(refusal, c.reason) : refusal.empty()));
  }
}

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

TEST_CASE("a tensor map's window is what the driver takes") {
  // Of 2 images of 5 x 7 places of 8 channels, windows of 3 x 3, 2 apart along the images' lines.
  const auto refusal = [](const std::function<void(v1::TensorMap&)>& change) {
    return Refusal([&](auto& m) {
      m.clear_sizes(), m.clear_strides(), m.clear_box();
      for (int64_t size : {8, 7, 5, 2}) m.add_sizes(size);
      for (int64_t stride : {16, 112, 560}) m.add_strides(stride);
      for (int box : {8, 256}) m.add_box(box);
      for (int i = 0; i < 2; ++i) {
        m.mutable_window()->add_lower(-1);
        m.mutable_window()->add_upper(-1);
        m.mutable_window()->add_strides(2 - i);
      }
      change(m);
    });
  };
  const auto of_three = [](auto& m) {  // axes: the images' lines alone
    m.mutable_sizes()->RemoveLast(), m.mutable_strides()->RemoveLast();
    auto& window = *m.mutable_window();
    for (auto* each : {window.mutable_lower(), window.mutable_upper(), window.mutable_strides()})
      each->RemoveLast();
  };
  const auto of_five = [](auto& m) {
    m.add_sizes(1), m.add_strides(1120);
    m.mutable_window()->add_lower(0), m.mutable_window()->add_upper(0);
    m.mutable_window()->add_strides(1);
  };
  const struct {
    std::function<void(v1::TensorMap&)> change;
    const char* reason;
  } cases[] = {
      {[](auto&) {}, ""},
      {[](auto& m) { m.mutable_window()->set_lower(0, -128); }, ""},
      {[](auto& m) { m.mutable_window()->set_lower(0, -129); },
       "corner of -129 along axis 1, not in -128 to 127"},
      {[](auto& m) { m.mutable_window()->set_upper(1, 127); }, ""},
      {[](auto& m) { m.mutable_window()->set_upper(1, 128); }, "corner of 128 along axis 2"},
      {[&](auto& m) { of_three(m), m.mutable_window()->set_lower(0, -32768); }, ""},
      {[&](auto& m) { of_three(m), m.mutable_window()->set_upper(0, 32768); },
       "corner of 32768 along axis 1, not in -32768 to 32767"},
      {[&](auto& m) { of_five(m), m.mutable_window()->set_upper(2, 15); }, ""},
      {[&](auto& m) { of_five(m), m.mutable_window()->set_lower(2, -17); },
       "corner of -17 along axis 3, not in -16 to 15"},
      {[](auto& m) { m.mutable_window()->set_strides(1, 8); }, ""},
      {[](auto& m) { m.mutable_window()->set_strides(1, 9); },
       "stride of 9 along axis 2, not in 1 to 8"},
      {[](auto& m) { m.mutable_window()->set_strides(0, 0); }, "stride of 0 along axis 1"},
      {[](auto& m) { m.mutable_window()->set_upper(1, -5); }, ""},
      {[](auto& m) { m.mutable_window()->set_upper(1, -6); },
       "a window from -1 to -6 behind the last of 5 elements of axis 2: it has no place there"},
      {[](auto& m) { m.mutable_window()->add_lower(0); },
       "a window of 3 lower and 2 upper corners and 2 strides, of a tensor map of 4 axes"},
      {[](auto& m) { m.mutable_window()->clear_upper(); }, "2 lower and 0 upper corners"},
      {[](auto& m) { m.mutable_window()->add_strides(1); }, "corners and 3 strides"},
      {[&](auto& m) { of_three(m), of_three(m); }, "of a tensor map of 2 axes"},
      {[](auto& m) { m.add_box(1); }, "a box of 3; they go by 1 to 5 axes"},
      {[](auto& m) { m.set_box(0, 4); }, "rows of 8 bytes, not a multiple of 16"},
      {[](auto& m) { m.set_box(0, 72); }, "rows of 144 bytes, swizzled by 128"},
      {[](auto& m) { m.set_box(0, 264); }, "box of 264 elements along axis 0"},
      {[](auto& m) { m.set_box(1, 257); }, "box of 257 places; the limit is 256"},
      {[](auto& m) { m.set_box(1, 0); }, "box of 0 places"},
      {[](auto& m) { m.set_sizes(3, 30); }, "of buffer 0, which has 16328"},
  };
  for (const auto& c : cases) {
    const std::string found = refusal(c.change);
    INFO(c.reason << ": " << found);
    CHECK((*c.reason != '\0' ? absl::StrContains(found, c.reason) : found.empty()));
  }
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
